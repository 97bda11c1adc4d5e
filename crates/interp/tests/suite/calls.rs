//! Calls: copy-in copy-out, aliasing, exit, tables, externs.

use super::super::support::*;
use pointsman_ir::*;
use std::sync::Arc;

/// A pair of bytes `p`, and further bytes, as slots.
fn frame(b: &mut Builder) -> Frame {
    let b8 = b.bit(8);
    let pair = b.structure("pair_t", &[("x", b8), ("y", b8)]);
    b.frame(&[("inout", "p", pair), ("inout", "r", b8)], &[])
}

fn pair(b: &mut Builder) -> TypeId {
    frame(b).params[0].ty
}

fn add(b: &mut Builder, to: &str, what: &str, n: u128) -> Stmt {
    let (x, n) = (b.rd(what), b.num(8, n));
    let sum = b.bin(BinaryOp::Add, x, n);
    b.set(to, sum)
}

/// A program whose control 0 has the body that `body` makes; everything that it calls is added by `callees` before.
fn run(callees: impl Fn(&mut Builder), body: impl Fn(&mut Builder) -> Vec<Stmt>) -> Rig {
    let mut b = Builder::new();
    let f = frame(&mut b);
    b.control("main", f.clone(), vec![]);
    callees(&mut b);
    frame(&mut b);
    b.program.controls[0].body = body(&mut b);
    let mut rig = Rig::new(&b, &f);
    rig.set(0, &[0], 8, 10);
    rig.set(0, &[1], 8, 20);
    let exited = rig.control(0).exited;
    rig.world.log.push(format!("exited: {exited}"));
    rig
}

fn result(rig: &Rig) -> (u128, u128, u128) {
    (rig.get(0, &[0]), rig.get(0, &[1]), rig.get(1, &[]))
}

/// Control 1: `a += 1; b += a` with both `inout`.
fn two(b: &mut Builder) {
    let b8 = b.bit(8);
    let f = b.frame(&[("inout", "a", b8), ("inout", "b", b8)], &[]);
    let (x, y) = (b.rd("b"), b.rd("a"));
    let sum = b.bin(BinaryOp::Add, x, y);
    let body = vec![add(b, "a", "a", 1), b.set("b", sum)];
    b.control("two", f, body);
}

fn call_two(b: &mut Builder, x: &str, y: &str) -> Vec<Stmt> {
    let args = vec![b.inout(x), b.inout(y)];
    vec![b.call(None, Callee::Control(ControlId(1)), args)]
}

#[test]
fn aliasing() {
    assert_eq!(result(&run(two, |b| call_two(b, "p.x", "p.y"))), (11, 31, 0));
    // The same place twice: both get 10; the last to be copied back stays.
    assert_eq!(result(&run(two, |b| call_two(b, "p.x", "p.x"))), (21, 20, 0));
    // Two halves of one byte.
    let nibbles = |b: &mut Builder| {
        let b4 = b.bit(4);
        let f = b.frame(&[("inout", "a", b4), ("inout", "b", b4)], &[]);
        let (x, y) = (b.rd("a"), b.rd("b"));
        let body = vec![b.set("a", y), b.set("b", x)];
        b.control("swap", f, body);
    };
    // a = b; b = a: both end as the old b.
    let rig = run(nibbles, |b| {
        let mut body = vec![b.setn("p.x", 0x3c)];
        body.extend(call_two(b, "p.x[7:4]", "p.x[3:0]"));
        body
    });
    assert_eq!(result(&rig), (0xcc, 20, 0));
}

/// A struct passed as `inout` while another argument looks into it.
#[test]
fn struct_and_part_of_it() {
    let callee = |b: &mut Builder| {
        let (p, b8) = (pair(b), b.bit(8));
        let f = b.frame(&[("inout", "p", p), ("in", "old", b8), ("inout", "y", b8)], &[]);
        let body = vec![add(b, "p.x", "old", 1), b.setn("p.y", 99), add(b, "y", "y", 5)];
        b.control("callee", f, body);
    };
    let rig = run(callee, |b| {
        let args = vec![b.inout("p"), Arg::In(b.rd("p.x")), b.inout("p.y")];
        vec![b.call(None, Callee::Control(ControlId(1)), args)]
    });
    // p is copied back first, then p.y.
    assert_eq!(result(&rig), (11, 25, 0));
}

/// Structs passed as `in` are lent, unless something else in the call can see them.
#[test]
fn lent_structs() {
    let callee = |direction: &'static str| {
        move |b: &mut Builder| {
            let (p, b8) = (pair(b), b.bit(8));
            let f = b.frame(&[("in", "a", p), (direction, "b", p), ("out", "r", b8)], &[]);
            let mut body = if direction == "in" { vec![] } else { vec![b.setn("b.x", 1), b.setn("b.y", 2)] };
            let (x, y) = (b.rd("a.x"), b.rd("b.y"));
            let sum = b.bin(BinaryOp::Add, x, y);
            body.push(b.set("r", sum));
            b.control("callee", f, body);
        }
    };
    let both_in = run(callee("in"), |b| {
        let args = vec![Arg::In(b.rd("p")), Arg::In(b.rd("p")), b.out("r")];
        vec![b.call(None, Callee::Control(ControlId(1)), args)]
    });
    assert_eq!(result(&both_in), (10, 20, 30));
    let in_and_inout = run(callee("inout"), |b| {
        let args = vec![Arg::In(b.rd("p")), b.inout("p"), b.out("r")];
        vec![b.call(None, Callee::Control(ControlId(1)), args)]
    });
    assert_eq!(result(&in_and_inout), (1, 2, 12));
    // The result goes into the lent value.
    let into_lent = run(callee("in"), |b| {
        let args = vec![Arg::In(b.rd("p")), Arg::In(b.rd("p")), b.out("p.x")];
        vec![b.call(None, Callee::Control(ControlId(1)), args)]
    });
    assert_eq!(result(&into_lent), (30, 20, 0));
}

/// An action sees the variables of its control while it has them as arguments.
#[test]
fn action_and_its_control() {
    let action = |b: &mut Builder| {
        let p = pair(b);
        b.outer = frame(b);
        let f = b.frame(&[("inout", "p", p)], &[]);
        let body = vec![b.setn("p.x", 1), add(b, "^r", "^p.x", 2), b.setn("^p.y", 77)];
        let inner = b.action("inner", Some(0), f, body);
        let f = b.frame(&[("inout", "p", p)], &[]);
        let args = vec![b.inout("p")];
        let body =
            vec![b.call(None, Callee::Action(inner), args), stmt(StmtKind::Return(None)), b.setn("p.x", 9)];
        b.action("outer", Some(0), f, body);
    };
    let rig = run(action, |b| {
        let args = vec![b.inout("p")];
        vec![b.call(None, Callee::Action(ActionId(1)), args)]
    });
    // The control's p is untouched during the call (10 + 2), then the parameter overwrites all of it.
    assert_eq!(result(&rig), (1, 20, 12));
}

#[test]
fn out_parameters_and_results() {
    let function = |b: &mut Builder| {
        let (p, b8) = (pair(b), b.bit(8));
        let f = b.frame(&[("out", "p", p), ("in", "n", b8)], &[]);
        let (n, yes) = (b.rd("n"), vec![stmt(StmtKind::Return(Some(b.rd("n"))))]);
        let ten = b.num(8, 10);
        let small = b.bin(BinaryOp::Lt, n, ten);
        // Starts from zero; the end without a return gives zero.
        let body = vec![add(b, "p.y", "p.x", 3), stmt(StmtKind::If(small, yes, vec![]))];
        b.function("f", f, b8, body);
    };
    for (n, expected) in [(4, 4), (40, 0)] {
        let rig = run(function, |b| {
            let args = vec![b.out("p"), Arg::In(b.num(8, n))];
            vec![b.call(Some("r"), Callee::Function(FunctionId(0)), args)]
        });
        assert_eq!(result(&rig), (0, 3, expected));
    }
    // The result can be a part of an argument that is copied back; it comes last.
    let rig = run(function, |b| {
        let args = vec![b.out("p"), Arg::In(b.num(8, 4))];
        vec![b.call(Some("p.y"), Callee::Function(FunctionId(0)), args)]
    });
    assert_eq!(result(&rig), (0, 4, 0));
}

/// `exit` deep inside copies everything back on its way up and runs nothing else.
#[test]
fn exit_in_nested_calls() {
    let callees = |b: &mut Builder| {
        let b8 = b.bit(8);
        let f = b.frame(&[("inout", "a", b8)], &[]);
        let body = vec![b.setn("a", 1), stmt(StmtKind::Exit), b.setn("a", 2)];
        let leave = b.action("leave", None, f, body);
        let f = b.frame(&[("inout", "a", b8), ("out", "b", b8)], &[]);
        let args = vec![b.inout("a")];
        let body = vec![b.setn("b", 5), b.call(None, Callee::Action(leave), args), b.setn("b", 6)];
        b.control("middle", f, body);
    };
    let rig = run(callees, |b| {
        let args = vec![b.inout("p.x"), b.out("p.y")];
        vec![b.setn("r", 8), b.call(None, Callee::Control(ControlId(1)), args), b.setn("r", 9)]
    });
    assert_eq!(result(&rig), (1, 5, 8));
    assert_eq!(rig.world.log, ["exited: true"]);
}

#[test]
fn externs() {
    let rig = run(
        |b| {
            b.extern_fn("bump", &["amount", "counter"]);
        },
        |b| {
            let args = vec![Arg::In(b.num(8, 7)), b.inout("p.x")];
            vec![b.call(Some("r"), Callee::Extern { function: ExternFnId(0), instance: None }, args)]
        },
    );
    assert_eq!(result(&rig), (17, 20, 10));
    assert_eq!(rig.world.log, ["bump [Bits(8w7), Bits(8w10)]", "exited: false"]);
    // An extern that returns other types than it should: values fall back to defaults, widths are adjusted.
    let rig = run(
        |b| {
            b.extern_fn("vandal", &["a", "b"]);
        },
        |b| {
            let args = vec![b.inout("p"), b.out("p.y")];
            vec![b.call(Some("r"), Callee::Extern { function: ExternFnId(0), instance: None }, args)]
        },
    );
    assert_eq!(result(&rig), (0, 0, 5));
}

/// Sub-parsers share the packet; their rejection is that of the caller, with the headers extracted so far.
#[test]
fn sub_parsers() {
    let mut b = Builder::new();
    let b8 = b.bit(8);
    let byte = b.header("byte_t", &[("v", b8)]);
    let sub = b.frame(&[("out", "h", byte)], &[]);
    let (v, zero, error) = (b.lv("h"), b.num(8, 0), b.err("NoMatch"));
    let v = b.expr(ExprKind::Read(LValue { path: vec![Proj::Field(0)], ty: b8, ..v }), b8);
    let nonzero = b.bin(BinaryOp::Ne, v, zero);
    let body = vec![b.extract("h"), stmt(StmtKind::Verify(nonzero, error))];
    b.parser("sub", sub, vec![state("start", body, accept())]);
    let main = b.frame(&[("out", "a", byte), ("out", "b", byte)], &[]);
    let call = |b: &mut Builder, to| {
        let args = vec![b.out(to)];
        b.call(None, Callee::Parser(ParserId(0)), args)
    };
    let body = vec![call(&mut b, "a"), call(&mut b, "b")];
    b.parser("main", main.clone(), vec![state("start", body, accept())]);
    for (packet, accepted, error, bits, expected) in [
        (&[5u8, 6, 7][..], true, "NoError", 16, (5, 6)),
        (&[5, 0], false, "NoMatch", 16, (5, 0)),
        (&[5], false, "PacketTooShort", 8, (5, 0)),
    ] {
        let mut rig = Rig::new(&b, &main);
        let outcome = rig.parse(1, packet);
        assert_eq!(outcome, ParseOutcome { accepted, error: b.error(error), consumed_bits: bits });
        assert_eq!((rig.get(0, &[0]), rig.get(1, &[0])), expected);
    }
}

/// A table of two keys and a selector with three actions: data, nothing, exit.
fn with_table(b: &mut Builder) {
    let b8 = b.bit(8);
    let (outer, f) = (frame(b), b.frame(&[("inout", "x", b8), ("", "n", b8)], &[]));
    b.outer = outer;
    let (x, n) = (b.rd("x"), b.rd("n"));
    let sum = b.bin(BinaryOp::Add, x, n);
    let body = vec![b.set("x", sum), add(b, "^p.y", "n", 0)];
    let set = b.action("set", Some(0), f, body);
    let f = b.frame(&[], &[]);
    let nop = b.action("nop", None, f.clone(), vec![]);
    let leave = b.action("leave", None, f, vec![stmt(StmtKind::Exit)]);
    frame(b);
    let keys = vec![
        (b.rd("p.x"), MatchKind::Exact),
        (b.rd("p.y"), MatchKind::Selector),
        (b.truth(true), MatchKind::Exact),
    ];
    let x = b.inout("p.x");
    let actions = vec![listed(set, vec![x]), listed(nop, vec![]), listed(leave, vec![])];
    let t = b.table("t", 0, keys, actions);
    b.program.tables[t.index()].default_action = ActionCall { action: 1, args: vec![] };
}

#[test]
fn tables() {
    let apply = |entry: Option<EntryAction>| {
        let mut b = Builder::new();
        let f = frame(&mut b);
        b.control("main", f.clone(), vec![]);
        with_table(&mut b);
        let (bool, b32) = (b.bool(), b.bit(32));
        let mut locals = f.clone();
        locals.vars.push(Var { name: "hit".into(), ty: bool });
        locals.vars.push(Var { name: "run".into(), ty: b32 });
        b.local = locals.clone();
        let (hit, action_run) = (Some(b.lv("hit")), Some(b.lv("run")));
        let (hit_value, run) = (b.rd("hit"), b.rd("run"));
        let b8 = b.bit(8);
        let run = b.cast(run, b8);
        let body = vec![
            b.setn("r", 100),
            stmt(StmtKind::Apply { table: TableId(0), hit, action_run }),
            b.set("r", run),
            stmt(StmtKind::If(hit_value, vec![add(&mut b, "r", "r", 50)], vec![])),
        ];
        b.program.controls[0].frame = locals;
        b.program.controls[0].body = body;
        let mut rig = Rig::new(&b, &f);
        rig.set(0, &[0], 8, 10);
        rig.set(0, &[1], 8, 20);
        if let Some(action) = entry {
            let matches = vec![KeyMatch::Exact(Bits::new(8, 10)), KeyMatch::Exact(Bits::new(1, 1))];
            let entry =
                Entry { matches, priority: 0, action, is_const: false, metadata: vec![], idle_timeout_ns: 0 };
            rig.world.tables[0].insert(entry).unwrap();
        }
        let outcome = rig.control(0);
        assert_eq!(rig.world.log, ["t [8w10, 1w1] [8w20]"]);
        (result(&rig), outcome.exited, rig.world.ran())
    };
    let call =
        |action, args: &[Value]| Some(EntryAction::Call(Arc::new(ActionCall { action, args: args.into() })));
    let ran = |n| if super::super::TRACES { vec![n] } else { vec![] };
    let five = Value::Bits(Bits::new(8, 5));
    // A miss runs the default action.
    assert_eq!(apply(None), ((10, 20, 1), false, ran(1)));
    assert_eq!(apply(call(0, &[five])), ((15, 5, 50), false, ran(0)));
    assert_eq!(apply(call(1, &[])), ((10, 20, 51), false, ran(1)));
    // Exit: nothing behind the table runs.
    assert_eq!(apply(call(2, &[])), ((10, 20, 100), true, ran(2)));
    // Mistakes of a control plane: missing data, data of another type, an unknown action.
    assert_eq!(apply(call(0, &[])), ((10, 0, 50), false, ran(0)));
    assert_eq!(apply(call(0, &[Value::Bool(true)])), ((10, 0, 50), false, ran(0)));
    assert_eq!(apply(call(9, &[])), ((10, 20, 49), false, vec![]));
    // No action at all: an empty group.
    assert_eq!(apply(Some(EntryAction::Group(1))), ((10, 20, 49), false, vec![]));
}

/// Every kind of match in a value set, over two expressions at once.
#[test]
fn value_sets() {
    let mut b = Builder::new();
    let b8 = b.bit(8);
    let byte = b.header("bytes_t", &[("a", b8), ("b", b8)]);
    let elem = b.structure("elem_t", &[("a", b8), ("b", b8)]);
    b.program.value_sets.push(ValueSet {
        name: "set".into(),
        elem,
        size: 4,
        annotations: Annotations::default(),
    });
    let f = b.frame(&[("out", "h", byte)], &[]);
    let body = vec![b.extract("h")];
    let on = vec![b.rd("h.a"), b.rd("h.b")];
    let cases = vec![case(vec![KeySet::ValueSet(ValueSetId(0))], StateRef::Accept)];
    b.parser("p", f.clone(), vec![state("start", body, Transition::Select { on, cases })]);
    let bits = |v| Bits::new(8, v);
    let members = [
        vec![KeyMatch::Exact(bits(1)), KeyMatch::Lpm { value: bits(0xf0), prefix_len: 4 }],
        vec![
            KeyMatch::Range { lo: bits(2), hi: bits(4) },
            KeyMatch::Ternary { value: bits(1), mask: bits(1) },
        ],
        vec![KeyMatch::Exact(bits(0))],
    ];
    for (packet, accepted) in
        [([1, 0xff], true), ([1, 0xef], false), ([4, 7], true), ([4, 6], false), ([0, 0], false)]
    {
        let mut rig = Rig::new(&b, &f);
        rig.world.value_sets[0] = members.to_vec();
        assert_eq!(rig.parse(0, &packet).accepted, accepted, "{packet:?}");
    }
}
