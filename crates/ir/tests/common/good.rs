//! A program that has one of everything.

use super::build::*;
use pointsman_ir::*;

/// Where further statements can be put into [`good`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Parser,
    Control,
    Deparser,
    Action,
    Function,
}

/// Types of [`good`].
#[derive(Clone, Copy)]
pub struct Tys {
    pub b4: TypeId,
    pub b8: TypeId,
    pub b16: TypeId,
    pub b32: TypeId,
    pub i8: TypeId,
    pub bool: TypeId,
    pub color: TypeId,
    pub error: TypeId,
    pub port: TypeId,
    pub kind: TypeId,
    pub eth: TypeId,
    pub tags: TypeId,
    pub union: TypeId,
    pub headers: TypeId,
    pub meta: TypeId,
}

pub fn tys(b: &mut Builder) -> Tys {
    let (b4, b8, b9, b16, b32, i8) = (b.bit(4), b.bit(8), b.bit(9), b.bit(16), b.bit(32), b.int(8));
    let (bool, error) = (b.bool(), b.ty(Type::Error));
    let names = |n: &[&str]| n.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let color = b.ty(Type::Enum(EnumDef { name: "color_t".into(), members: names(&["red", "green"]) }));
    let members = vec![("plain".into(), Bits::new(8, 1)), ("tagged".into(), Bits::new(8, 2))];
    let kind = b.ty(Type::SerEnum { name: "kind_t".into(), repr: b8, members });
    let port = b.ty(Type::NewType { name: "port_t".into(), base: b9, annotations: Annotations::default() });
    let eth = b.header("eth_t", &[("dst", b16), ("kind", kind)]);
    let tag = b.header("tag_t", &[("x", b4), ("y", b4)]);
    let varbit = b.ty(Type::Varbit(32));
    let opt = b.header("opt_t", &[("n", b8), ("body", varbit)]);
    let union = b.union("either_t", &[("tag", tag), ("eth", eth)]);
    let tags = b.stack(tag, 2);
    let fields = [("eth", eth), ("opt", opt), ("tags", tags), ("either", union)];
    let headers = b.structure("headers_t", &fields);
    let fields = [("port", port), ("color", color), ("flag", bool), ("error", error), ("n", b32), ("s", i8)];
    let meta = b.structure("meta_t", &fields);
    Tys { b4, b8, b16, b32, i8, bool, color, error, port, kind, eth, tags, union, headers, meta }
}

/// Starts the frame of `at`.
pub fn enter(b: &mut Builder, at: At) -> Frame {
    let t = tys(b);
    b.outer = Frame::default();
    match at {
        At::Parser => b.frame(&[("out", "h", t.headers), ("inout", "m", t.meta)], &[("look", t.b8)]),
        At::Control => {
            let pair = b.ty(Type::Tuple(vec![t.b8, t.bool]));
            let locals = [("i", t.b8), ("hit", t.bool), ("ran", t.b32), ("pair", pair), ("eth", t.eth)];
            b.frame(&[("inout", "h", t.headers), ("inout", "m", t.meta)], &locals)
        }
        At::Deparser => b.frame(&[("in", "h", t.headers)], &[]),
        At::Action => {
            b.outer = enter(b, At::Control);
            b.frame(&[("inout", "x", t.b8), ("", "port", t.port)], &[("old", t.port)])
        }
        At::Function => b.frame(&[("in", "a", t.b32), ("in", "b", t.b32), ("out", "less", t.bool)], &[]),
    }
}

/// A further statement.
pub type Extra<'a> = &'a dyn Fn(&mut Builder) -> Stmt;

/// The program, with `extra` added to the code of the block `at`.
pub fn good_with(extra: Option<(At, Extra<'_>)>) -> Builder {
    let mut b = Builder::new();
    let b = &mut b;
    let t = tys(b);
    let mut add = |b: &mut Builder, at: At, body: &mut Vec<Stmt>| {
        if let Some((where_, extra)) = extra
            && where_ == at
        {
            let here = body.len().min(1);
            body.insert(here, extra(b));
        }
    };
    b.program.value_sets.push(ValueSet {
        name: "main.known".into(),
        elem: t.b4,
        size: 4,
        annotations: Annotations::default(),
    });
    parsers(b, &mut add);
    function(b, &mut add);
    actions(b, &mut add);
    controls(b, &mut add);
    table(b);
    let package = |n: &str, a| (n.to_string(), a);
    b.program.package = Package {
        name: "Switch".into(),
        args: vec![
            package("p", PackageArg::Parser(ParserId(0))),
            package("c", PackageArg::Control(ControlId(0))),
            package("d", PackageArg::Control(ControlId(1))),
        ],
    };
    std::mem::replace(b, Builder::new())
}

pub fn good() -> Builder {
    good_with(None)
}

type Add<'a> = dyn FnMut(&mut Builder, At, &mut Vec<Stmt>) + 'a;

fn parsers(b: &mut Builder, add: &mut Add<'_>) {
    let frame = enter(b, At::Parser);
    let t = tys(b);
    let mut body = vec![stmt(StmtKind::Lookahead(b.lv("look"))), stmt(StmtKind::PacketLength(b.lv("m.n")))];
    body.push(b.extract("h.eth"));
    let (n, least, error) = (b.rd("m.n"), b.num(32, 4), b.err("HeaderTooShort"));
    let long = b.bin(BinaryOp::Ge, n, least);
    body.push(stmt(StmtKind::Verify(long, error)));
    add(b, At::Parser, &mut body);
    let on = vec![b.rd("h.eth.kind"), b.rd("m.flag")];
    let plain = b.expr(ExprKind::Const(Value::Bits(Bits::new(8, 1))), t.kind);
    let (lo, hi, no) = (b.num(8, 2), b.num(8, 3), b.truth(false));
    let cases = vec![
        case(vec![KeySet::Value(plain), KeySet::Any], StateRef::Accept),
        case(vec![KeySet::Range(lo, hi), KeySet::Value(no)], StateRef::State(1)),
        case(vec![KeySet::Mask(b.num(8, 0x80), b.num(8, 0x80)), KeySet::Any], StateRef::State(2)),
        case(vec![KeySet::Any, KeySet::Any], StateRef::Reject),
    ];
    let start = state("start", body, Transition::Select { on, cases });
    let args = vec![b.inout("h.tags")];
    let body = vec![b.call(None, Callee::Parser(ParserId(1)), args)];
    let on = vec![b.rd("h.tags.last.x")];
    let cases = vec![
        case(vec![KeySet::ValueSet(ValueSetId(0))], StateRef::State(1)),
        case(vec![KeySet::Any], StateRef::Accept),
    ];
    let tags = state("tags", body, Transition::Select { on, cases });
    let (header, look) = (b.lv("h.opt"), b.rd("look"));
    let bits = b.cast(look, t.b32);
    let body =
        vec![stmt(StmtKind::Advance(b.num(32, 8))), stmt(StmtKind::Extract { header, varbits: Some(bits) })];
    let option = state("option", body, goto(3));
    let body = vec![b.extract("h.either.eth"), b.setn("m.n", 7)];
    let rest = state("rest", body, accept());
    let id = b.parser("p", frame, vec![start, tags, option, rest]);
    b.program.parsers[id.index()].init = vec![b.setn("m.n", 0)];
    let frame = b.frame(&[("inout", "tags", t.tags)], &[("last", t.b32)]);
    let (last, b32) = (b.lv("tags"), t.b32);
    let last = b.expr(ExprKind::LastIndex(last), b32);
    let body = vec![b.extract("tags.next"), b.set("last", last)];
    b.parser("p.tag", frame, vec![state("start", body, accept())]);
}

fn function(b: &mut Builder, add: &mut Add<'_>) {
    let frame = enter(b, At::Function);
    let t = tys(b);
    let less = |b: &mut Builder| {
        let (x, y) = (b.rd("a"), b.rd("b"));
        b.bin(BinaryOp::Lt, x, y)
    };
    let (set, cond, x, y) = (less(b), less(b), b.rd("a"), b.rd("b"));
    let most = b.expr(ExprKind::Mux(Box::new(cond), Box::new(y), Box::new(x)), t.b32);
    let mut body = vec![b.set("less", set), stmt(StmtKind::Return(Some(most)))];
    add(b, At::Function, &mut body);
    b.function("max", frame, t.b32, body);
}

fn actions(b: &mut Builder, add: &mut Add<'_>) {
    let frame = enter(b, At::Action);
    let (old, port, x, one) = (b.rd("^m.port"), b.rd("port"), b.rd("x"), b.num(8, 1));
    let more = b.bin(BinaryOp::Add, x, one);
    let mut body = vec![b.set("old", old), b.set("^m.port", port), b.set("x", more)];
    add(b, At::Action, &mut body);
    b.action("c.forward", Some(0), frame, body);
    let frame = b.frame(&[], &[]);
    b.action("nop", None, frame, vec![]);
    b.outer = Frame::default();
}

fn controls(b: &mut Builder, add: &mut Add<'_>) {
    let frame = enter(b, At::Control);
    let t = tys(b);
    b.program.externs.push(ExternInstance {
        name: "c.reg".into(),
        object: "register".into(),
        type_args: vec![t.b32],
        args: vec![("size".into(), Const::Int(16.into()))],
        annotations: Annotations::default(),
        span: Span::default(),
    });
    let read = b.extern_fn("read", &["result", "index"]);
    b.program.extern_fns[read.index()].object = Some("register".into());
    let log = b.extern_fn("log_msg", &["text", "values"]);
    let (hit, action_run) = (Some(b.lv("hit")), Some(b.lv("ran")));
    let mut body = vec![stmt(StmtKind::Apply { table: TableId(0), hit, action_run })];
    add(b, At::Control, &mut body);
    // Numbers of every kind.
    let (s, amount) = (b.rd("m.s"), b.num(4, 2));
    let shifted = b.bin(BinaryOp::Shr, s, amount);
    let (negative, two) = (b.un(UnaryOp::Neg, shifted), b.inum(8, 2));
    let sum = b.bin(BinaryOp::SatAdd, negative, two);
    body.push(b.set("m.s", sum));
    let (x, y) = (b.rd("h.tags[0].x"), b.rd("h.tags[i].y"));
    let both = b.bin(BinaryOp::Concat, x, y);
    let part = b.expr(ExprKind::Slice(Box::new(both), 6, 3), t.b4);
    body.push(b.set("h.eth.dst[11:8]", part));
    let (x, seven) = (b.rd("i"), b.num(8, 7));
    let parts = vec![b.bin(BinaryOp::Mod, x, seven), b.truth(true)];
    let pair = b.lv("pair");
    let pair_ty = pair.ty;
    let pair = b.expr(ExprKind::Aggregate(parts), pair_ty);
    body.push(b.set("pair", pair.clone()));
    let first = b.expr(ExprKind::Field(Box::new(pair), 0), t.b8);
    body.push(b.set("i", first));
    // Headers.
    let (dst, kind) = (b.num(16, 0xbeef), b.expr(ExprKind::Const(Value::Bits(Bits::new(8, 9))), t.kind));
    let eth = b.expr(ExprKind::Aggregate(vec![dst, kind]), t.eth);
    body.push(b.set("eth", eth));
    let (valid, eth, other) = (b.is_valid("h.either"), b.rd("eth"), b.rd("h.eth"));
    let different = b.bin(BinaryOp::Ne, eth, other);
    let both = b.bin(BinaryOp::And, valid, different);
    let none = b.expr(ExprKind::Invalid, t.union);
    let then = vec![b.set("h.either", none), stmt(StmtKind::SetValid(b.lv("h.either.tag")))];
    let otherwise = vec![stmt(StmtKind::SetInvalid(b.lv("h.eth")))];
    body.push(stmt(StmtKind::If(both, then, otherwise)));
    body.push(stmt(StmtKind::PushFront(b.lv("h.tags"), 1)));
    body.push(stmt(StmtKind::PopFront(b.lv("h.tags"), 1)));
    // Calls.
    let (n, k) = (b.rd("m.n"), b.num(32, 100));
    let args = vec![Arg::In(n), Arg::In(k), b.out("m.flag")];
    body.push(b.call(Some("m.n"), Callee::Function(FunctionId(0)), args));
    let (port, x) = (b.rd("m.port"), b.inout("i"));
    body.push(b.call(None, Callee::Action(ActionId(0)), vec![x, Arg::In(port)]));
    let (n, h) = (b.rd("m.n"), b.inout("h"));
    body.push(b.call(None, Callee::Control(ControlId(2)), vec![h, Arg::In(n)]));
    let index = Arg::In(b.num(32, 3));
    let result = b.out("m.n");
    let read = Callee::Extern { function: read, instance: Some(ExternInstanceId(0)) };
    body.push(b.call(None, read, vec![result, index]));
    let string = b.ty(Type::String);
    let text = b.expr(ExprKind::Const(Value::String("n = {}".into())), string);
    let n = b.rd("m.n");
    let log = Callee::Extern { function: log, instance: None };
    body.push(b.call(None, log, vec![Arg::In(text), Arg::In(n)]));
    // Flow.
    let (i, five) = (b.rd("i"), b.num(8, 5));
    let cond = b.bin(BinaryOp::Lt, i, five);
    let (i, three, j, one) = (b.rd("i"), b.num(8, 3), b.rd("i"), b.num(8, 1));
    let at_three = b.bin(BinaryOp::Eq, i, three);
    let next = b.bin(BinaryOp::Add, j, one);
    let update = vec![b.set("i", next)];
    let rounds =
        vec![stmt(StmtKind::If(at_three, vec![stmt(StmtKind::Break)], vec![])), stmt(StmtKind::Continue)];
    body.push(stmt(StmtKind::Loop { cond, body: rounds, update }));
    let red = Value::Enum(0);
    let exit = vec![stmt(StmtKind::Exit)];
    let (on, green) = (b.rd("m.color"), b.expr(ExprKind::Const(Value::Enum(1)), t.color));
    let cases = vec![(vec![red], vec![stmt(StmtKind::Return(None))])];
    body.push(stmt(StmtKind::Switch { on, cases, default: exit }));
    body.push(b.set("m.color", green));
    b.control("c", frame, body);

    let frame = enter(b, At::Deparser);
    let mut body = vec![stmt(StmtKind::Emit(b.rd("h.eth"))), stmt(StmtKind::Emit(b.rd("h")))];
    add(b, At::Deparser, &mut body);
    b.control("d", frame, body);

    let frame = b.frame(&[("inout", "h", t.headers), ("in", "n", t.b32)], &[]);
    let (n, b16) = (b.rd("n"), t.b16);
    let n = b.cast(n, b16);
    let body = vec![b.set("h.eth.dst", n)];
    b.control("c.inner", frame, body);
}

fn table(b: &mut Builder) {
    enter(b, At::Control);
    let keys = vec![
        (b.rd("h.eth.dst"), MatchKind::Lpm),
        (b.rd("m.s"), MatchKind::Ternary),
        (b.rd("m.n"), MatchKind::Selector),
        (b.is_valid("h.eth"), MatchKind::Optional),
        (b.rd("i"), MatchKind::Range),
        (b.rd("h.eth.kind"), MatchKind::Exact),
    ];
    let x = b.inout("i");
    let id = b.table("c.t", 0, keys, vec![listed(ActionId(0), vec![x]), listed(ActionId(1), vec![])]);
    let table = &mut b.program.tables[id.index()];
    table.default_action = ActionCall { action: 1, args: vec![] };
    table.extern_properties.push(("counters".into(), ExternInstanceId(0)));
    let bits = |w, v| Bits::new(w, v);
    table.entries.push(Entry {
        matches: vec![
            KeyMatch::Lpm { value: bits(16, 0xab00), prefix_len: 8 },
            KeyMatch::Ternary { value: bits(8, 0), mask: bits(8, 0x80) },
            KeyMatch::Optional(Some(bits(1, 1))),
            KeyMatch::Range { lo: bits(8, 0), hi: bits(8, 9) },
            KeyMatch::Exact(bits(8, 1)),
        ],
        priority: 1,
        action: EntryAction::Call(std::sync::Arc::new(ActionCall {
            action: 0,
            args: vec![Value::Bits(bits(9, 5))],
        })),
        is_const: true,
        metadata: vec![],
        idle_timeout_ns: 0,
    });
}
