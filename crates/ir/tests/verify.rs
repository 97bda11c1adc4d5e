//! The verifier: a program with one of everything passes, and every rule refuses what breaks it.

use crate::common::build::*;
use crate::common::good::*;
use pointsman_ir::verify::{MAX_NESTING, verify};
use pointsman_ir::*;

#[test]
fn the_good_program_is_right() {
    assert_eq!(verify(&good().program), Vec::<String>::new());
}

/// `wrong` added to `at` is refused with a message that contains `expected`, the place and the statement in it.
fn refused(at: At, expected: &str, wrong: impl Fn(&mut Builder) -> Stmt) {
    let b = good_with(Some((at, &wrong)));
    let place = match at {
        At::Parser => "parser p state start: body[1]",
        At::Control => "control c: body[1]",
        At::Deparser => "control d: body[1]",
        At::Action => "action c.forward: body[1]",
        At::Function => "function max: body[1]",
    };
    let messages = verify(&b.program);
    assert!(
        messages.iter().any(|m| m.contains(expected)) && messages.iter().all(|m| m.starts_with(place)),
        "expected {expected:?} at {place}, got {messages:#?}"
    );
}

/// The good program after `change` is refused with a message that contains `expected`.
fn mutated(expected: &str, change: impl FnOnce(&mut Builder)) {
    let mut b = good();
    enter(&mut b, At::Control);
    change(&mut b);
    let messages = verify(&b.program);
    assert!(messages.iter().any(|m| m.contains(expected)), "expected {expected:?}, got {messages:#?}");
}

fn assign(place: LValue, e: Expr) -> Stmt {
    stmt(StmtKind::Assign(place, e))
}

/// An expression of a wrong kind, assigned to `m.n` (`bit<32>`).
fn bad_expr(expected: &str, e: impl Fn(&mut Builder) -> Expr) {
    refused(At::Control, expected, |b| {
        let e = e(b);
        b.set("m.n", e)
    });
}

#[test]
fn constants_and_operators() {
    let operator = "does not fit its operands";
    bad_expr("the assigned value is bit<8> instead of bit<32>", |b| b.num(8, 1));
    bad_expr("constant of type bit<32>", |b| {
        let ty = b.bit(32);
        b.expr(ExprKind::Const(Value::Bits(Bits::new(31, 0))), ty)
    });
    bad_expr("constant of type bit<32>", |b| {
        let ty = b.bit(32);
        b.expr(ExprKind::Const(Value::Bool(true)), ty)
    });
    bad_expr("constant of type color_t", |b| {
        let ty = tys(b).color;
        b.expr(ExprKind::Const(Value::Enum(2)), ty)
    });
    bad_expr("constant of type error", |b| {
        let ty = tys(b).error;
        b.expr(ExprKind::Const(Value::Error(99)), ty)
    });
    bad_expr("it exists only at compile time", |b| {
        let ty = b.ty(Type::InfInt);
        b.expr(ExprKind::Const(Value::Void), ty)
    });
    bad_expr("there is no type 999", |b| b.expr(ExprKind::Invalid, TypeId(999)));
    bad_expr(operator, |b| {
        let e = b.num(32, 1);
        b.un(UnaryOp::Not, e)
    });
    bad_expr(operator, |b| {
        let e = b.truth(true);
        b.un(UnaryOp::Neg, e)
    });
    use BinaryOp::*;
    for op in [Add, Sub, Mul, Div, Mod, SatAdd, SatSub, BitAnd, BitOr, BitXor, Eq, Ne, Lt, Le, Gt, Ge] {
        bad_expr(operator, |b| {
            let (x, y) = (b.num(32, 1), b.num(8, 1));
            b.bin(op, x, y)
        });
    }
    for op in [Add, BitOr, Lt, Ge] {
        bad_expr(operator, |b| {
            let (x, y) = (b.truth(true), b.truth(true));
            b.bin(op, x, y)
        });
    }
    bad_expr("operator Div", |b| {
        let (x, y) = (b.inum(32, 1), b.inum(32, 1));
        b.bin(Div, x, y)
    });
    bad_expr("operator Shl", |b| {
        let (x, y) = (b.num(32, 1), b.inum(32, 1));
        b.bin(Shl, x, y)
    });
    bad_expr("operator Add of type bit<32>", |b| {
        let (x, y, b32) = (b.num(8, 1), b.num(8, 1), b.bit(32));
        let mut e = b.bin(Add, x, y);
        e.ty = b32;
        e
    });
    bad_expr("operator Concat", |b| {
        let (x, y, b32) = (b.num(8, 1), b.num(8, 1), b.bit(32));
        let mut e = b.bin(Concat, x, y);
        e.ty = b32;
        e
    });
    bad_expr("operator And", |b| {
        let (x, y) = (b.truth(true), b.num(1, 1));
        b.bin(And, x, y)
    });
    bad_expr("conditional expression", |b| {
        let (c, x, y, ty) = (b.num(1, 1), b.num(32, 1), b.num(32, 1), b.bit(32));
        b.expr(ExprKind::Mux(Box::new(c), Box::new(x), Box::new(y)), ty)
    });
    bad_expr("cast", |b| {
        let (e, ty) = (b.truth(true), b.bit(32));
        b.cast(e, ty)
    });
    bad_expr("cast", |b| {
        let (e, ty) = (b.rd("m.color"), b.bit(32));
        b.cast(e, ty)
    });
}

#[test]
fn parts_of_values() {
    bad_expr("slice", |b| {
        let (e, ty) = (b.num(8, 1), b.bit(32));
        b.expr(ExprKind::Slice(Box::new(e), 39, 8), ty)
    });
    bad_expr("slice", |b| {
        let (e, ty) = (b.num(8, 1), b.bit(1));
        b.expr(ExprKind::Slice(Box::new(e), 3, 4), ty)
    });
    bad_expr("field of type bit<32>", |b| {
        let (e, ty) = (b.rd("pair"), b.bit(32));
        b.expr(ExprKind::Field(Box::new(e), 2), ty)
    });
    bad_expr("aggregate", |b| {
        let (e, ty) = (b.num(16, 1), tys(b).eth);
        b.expr(ExprKind::Aggregate(vec![e]), ty)
    });
    bad_expr("{#} of type bit<32>", |b| {
        let ty = b.bit(32);
        b.expr(ExprKind::Invalid, ty)
    });
    bad_expr("isValid", |b| b.is_valid("m.n"));
    bad_expr("lastIndex outside of a parser", |b| {
        let (lv, ty) = (b.lv("h.tags"), b.bit(32));
        b.expr(ExprKind::LastIndex(lv), ty)
    });
    bad_expr("next or last of a stack outside of a parser", |b| b.rd("h.tags.next.x"));
    refused(At::Parser, "lastIndex of type bit<32>", |b| {
        let (lv, ty) = (b.lv("h.eth"), b.bit(32));
        let e = b.expr(ExprKind::LastIndex(lv), ty);
        b.set("m.n", e)
    });
}

#[test]
fn places() {
    let to = |b: &mut Builder, change: &dyn Fn(&mut LValue)| {
        let mut place = b.lv("h.eth.dst");
        change(&mut place);
        let value = b.num(16, 1);
        assign(place, value)
    };
    type Change<'a> = &'a dyn Fn(&mut LValue);
    let cases: [(&str, Change<'_>); 7] = [
        ("there is no variable Local(99)", &|lv| lv.root = VarRef::Local(99)),
        ("there is no variable Outer(0)", &|lv| lv.root = VarRef::Outer(0)),
        ("eth_t has no field 2", &|lv| lv.path[1] = Proj::Field(2)),
        ("bit<16> has no field 0", &|lv| lv.path.push(Proj::Field(0))),
        ("bit<16> has no slice [16:1] here", &|lv| lv.path.push(Proj::Slice { hi: 16, lo: 1 })),
        ("eth_t has no next", &|lv| lv.path[1] = Proj::Next),
        ("the place is eth_t, but says bit<16>", &|lv| lv.path.truncate(1)),
    ];
    for (expected, change) in cases {
        refused(At::Control, expected, |b| to(b, change));
    }
    refused(At::Control, "a stack index cannot be bool", |b| {
        let mut place = b.lv("h.tags[0].x");
        place.path[1] = Proj::Index(b.truth(true));
        let value = b.num(4, 1);
        assign(place, value)
    });
    refused(At::Control, "slice [3:0] here", |b| {
        let mut place = b.lv("h.eth.dst[3:0]");
        let value = b.num(4, 1);
        place.path.push(Proj::Slice { hi: 1, lo: 0 });
        assign(place, value)
    });
    refused(At::Deparser, "the parameter h cannot be written", |b| b.setn("h.eth.dst", 1));
    refused(At::Action, "the parameter port cannot be written", |b| b.setn("port", 1));
    refused(At::Function, "the parameter a cannot be written", |b| b.setn("a", 1));
}

#[test]
fn statements() {
    refused(At::Control, "setValid or setInvalid cannot be applied to either_t", |b| {
        stmt(StmtKind::SetValid(b.lv("h.either")))
    });
    refused(At::Control, "push_front or pop_front cannot be applied to eth_t", |b| {
        stmt(StmtKind::PushFront(b.lv("h.eth"), 1))
    });
    refused(At::Control, "a condition cannot be bit<1>", |b| stmt(StmtKind::If(b.num(1, 1), vec![], vec![])));
    refused(At::Control, "body[1].else[0]: the assigned value", |b| {
        let (cond, value) = (b.truth(true), b.truth(true));
        let wrong = b.set("m.n", value);
        stmt(StmtKind::If(cond, vec![], vec![wrong]))
    });
    refused(At::Control, "a switch cannot be on eth_t", |b| {
        stmt(StmtKind::Switch { on: b.rd("eth"), cases: vec![], default: vec![] })
    });
    refused(At::Control, "case[0]: a label is not of type bit<8>", |b| {
        let cases = vec![(vec![Value::Bits(Bits::new(9, 1))], vec![])];
        stmt(StmtKind::Switch { on: b.rd("i"), cases, default: vec![] })
    });
    refused(At::Control, "break outside of a loop", |_| stmt(StmtKind::Break));
    refused(At::Control, "continue outside of a loop", |_| stmt(StmtKind::Continue));
    refused(At::Control, "update[0]: break outside of a loop", |b| {
        let inner = StmtKind::Loop { cond: b.truth(true), body: vec![], update: vec![stmt(StmtKind::Break)] };
        stmt(StmtKind::Loop { cond: b.truth(true), body: vec![stmt(inner)], update: vec![] })
    });
    refused(At::Control, "return of an unexpected value", |b| stmt(StmtKind::Return(Some(b.truth(true)))));
    refused(At::Function, "return without the function's value", |_| stmt(StmtKind::Return(None)));
    refused(At::Function, "the returned value is bool instead of bit<32>", |b| {
        stmt(StmtKind::Return(Some(b.truth(true))))
    });
    refused(At::Function, "exit outside of a control or action", |_| stmt(StmtKind::Exit));
    refused(At::Parser, "exit outside of a control or action", |_| stmt(StmtKind::Exit));
}

#[test]
fn packets() {
    refused(At::Control, "extract outside of a parser", |b| b.extract("h.eth"));
    refused(At::Control, "lookahead outside of a parser", |b| stmt(StmtKind::Lookahead(b.lv("i"))));
    refused(At::Control, "advance outside of a parser", |b| stmt(StmtKind::Advance(b.num(32, 8))));
    refused(At::Control, "length outside of a parser", |b| stmt(StmtKind::PacketLength(b.lv("m.n"))));
    refused(At::Control, "verify outside of a parser", |b| {
        stmt(StmtKind::Verify(b.truth(true), b.err("NoMatch")))
    });
    refused(At::Parser, "emit outside of a control", |b| stmt(StmtKind::Emit(b.rd("h"))));
    refused(At::Action, "emit outside of a control", |b| stmt(StmtKind::Emit(b.rd("^h"))));
    refused(At::Deparser, "meta_t cannot be emitted", |b| {
        let ty = tys(b).meta;
        let value = Value::default_of(&b.program.types, ty);
        stmt(StmtKind::Emit(b.expr(ExprKind::Const(value), ty)))
    });
    refused(At::Parser, "extract cannot be applied to either_t", |b| b.extract("h.either"));
    refused(At::Parser, "extract into a header with 1 varbit fields", |b| b.extract("h.opt"));
    refused(At::Parser, "extract into a header with 0 varbit fields", |b| {
        let (header, varbits) = (b.lv("h.eth"), Some(b.num(32, 8)));
        stmt(StmtKind::Extract { header, varbits })
    });
    refused(At::Parser, "the width of a varbit field cannot be bit<8>", |b| {
        let (header, varbits) = (b.lv("h.opt"), Some(b.num(8, 8)));
        stmt(StmtKind::Extract { header, varbits })
    });
    refused(At::Parser, "lookahead cannot be applied to opt_t", |b| stmt(StmtKind::Lookahead(b.lv("h.opt"))));
    refused(At::Parser, "lookahead cannot be applied to color_t", |b| {
        stmt(StmtKind::Lookahead(b.lv("m.color")))
    });
    refused(At::Parser, "the distance of advance cannot be bit<8>", |b| stmt(StmtKind::Advance(b.num(8, 8))));
    refused(At::Parser, "length cannot be applied to bit<8>", |b| stmt(StmtKind::PacketLength(b.lv("look"))));
    refused(At::Parser, "the error of verify cannot be bool", |b| {
        stmt(StmtKind::Verify(b.truth(true), b.truth(true)))
    });
}

#[test]
fn calls() {
    let f = Callee::Function(FunctionId(0));
    let numbers = |b: &mut Builder| [Arg::In(b.num(32, 1)), Arg::In(b.num(32, 2))];
    let call = |at: At, expected: &str, args: &dyn Fn(&mut Builder) -> Vec<Arg>| {
        refused(at, expected, |b| {
            let args = args(b);
            b.call(None, f, args)
        });
    };
    call(At::Control, "2 arguments instead of 3", &|b| numbers(b).into());
    call(At::Control, "arg[0]: the argument is bool instead of bit<32>", &|b| {
        let ([_, y], x) = (numbers(b), b.truth(true));
        vec![Arg::In(x), y, b.out("m.flag")]
    });
    call(At::Control, "arg[2]: less wants a place", &|b| {
        let ([x, y], z) = (numbers(b), b.truth(true));
        vec![x, y, Arg::In(z)]
    });
    call(At::Control, "less is passed as InOut instead of Out", &|b| {
        let [x, y] = numbers(b);
        vec![x, y, b.inout("m.flag")]
    });
    call(At::Control, "arg[2]: the argument is bit<32> instead of bool", &|b| {
        let [x, y] = numbers(b);
        vec![x, y, b.out("m.n")]
    });
    refused(At::Control, "the result is bit<32> instead of bool", |b| {
        let ([x, y], z) = (numbers(b), b.out("m.flag"));
        b.call(Some("m.flag"), f, vec![x, y, z])
    });
    refused(At::Control, "the result of a call that returns nothing", |b| {
        b.call(Some("m.flag"), Callee::Action(ActionId(1)), vec![])
    });
    let nop = Callee::Action(ActionId(1));
    refused(At::Parser, "an action is called outside of a control or action", |b| b.call(None, nop, vec![]));
    refused(At::Function, "an action is called outside of", |b| b.call(None, nop, vec![]));
    refused(At::Deparser, "the action c.forward is of another control", |b| {
        let x = Arg::In(b.num(9, 1));
        b.call(None, Callee::Action(ActionId(0)), vec![x.clone(), x])
    });
    refused(At::Action, "a control is applied outside of a control", |b| {
        let args = vec![b.inout("^h"), Arg::In(b.num(32, 1))];
        b.call(None, Callee::Control(ControlId(2)), args)
    });
    refused(At::Control, "a parser is applied outside of a parser", |b| {
        let args = vec![b.inout("h.tags")];
        b.call(None, Callee::Parser(ParserId(1)), args)
    });
    let nowhere = [
        ("there is no action 9", Callee::Action(ActionId(9))),
        ("there is no function 9", Callee::Function(FunctionId(9))),
        ("there is no control 9", Callee::Control(ControlId(9))),
        ("there is no parser 9", Callee::Parser(ParserId(9))),
        ("there is no extern function 9", Callee::Extern { function: ExternFnId(9), instance: None }),
        (
            "there is no extern 9",
            Callee::Extern { function: ExternFnId(0), instance: Some(ExternInstanceId(9)) },
        ),
        ("read is not a method of the object", Callee::Extern { function: ExternFnId(0), instance: None }),
        (
            "log_msg is not a method of the object",
            Callee::Extern { function: ExternFnId(1), instance: Some(ExternInstanceId(0)) },
        ),
        (
            "log_msg is called with 0 arguments instead of 2",
            Callee::Extern { function: ExternFnId(1), instance: None },
        ),
    ];
    for (expected, callee) in nowhere {
        refused(At::Control, expected, |b| b.call(None, callee, vec![]));
    }
    refused(At::Control, "there is no type 999", |b| {
        let mut s = b.call(None, nop, vec![]);
        if let StmtKind::Call { type_args, .. } = &mut s.kind {
            type_args.push(TypeId(999));
        }
        s
    });
    let apply = |table| {
        move |_: &mut Builder| stmt(StmtKind::Apply { table: TableId(table), hit: None, action_run: None })
    };
    refused(At::Control, "there is no table 7", apply(7));
    refused(At::Deparser, "table c.t is applied outside of its control", apply(0));
    mutated("action c.forward: body[3]: table c.t is applied outside of its control", |b| {
        let wrong = apply(0)(b);
        b.program.actions[0].body.push(wrong);
    });
    refused(At::Control, "hit cannot be applied to bit<32>", |b| {
        stmt(StmtKind::Apply { table: TableId(0), hit: Some(b.lv("m.n")), action_run: None })
    });
    refused(At::Control, "action_run cannot be applied to bool", |b| {
        stmt(StmtKind::Apply { table: TableId(0), hit: None, action_run: Some(b.lv("hit")) })
    });
}

#[test]
fn recursion() {
    mutated("function max: it calls itself", |b| {
        enter(b, At::Function);
        let args = vec![Arg::In(b.num(32, 1)), Arg::In(b.num(32, 2)), b.out("less")];
        let call = b.call(None, Callee::Function(FunctionId(0)), args);
        b.program.functions[0].body.insert(0, call);
    });
    mutated("control c.inner: it calls itself", |b| {
        let args = vec![b.inout("h"), b.inout("m")];
        let call = b.call(None, Callee::Control(ControlId(0)), args);
        b.program.controls[2].body.push(call);
    });
}

#[test]
fn nesting() {
    let deep = |n: usize| {
        move |b: &mut Builder| {
            let mut e = b.num(32, 1);
            for _ in 0..n {
                e = b.un(UnaryOp::Neg, e);
            }
            b.set("m.n", e)
        }
    };
    // A statement is a level, and so is each expression in it.
    let b = good_with(Some((At::Control, &deep(MAX_NESTING - 2))));
    assert_eq!(verify(&b.program), Vec::<String>::new());
    refused(At::Control, "nested deeper", deep(MAX_NESTING - 1));
    refused(At::Control, "nested deeper", deep(2000));
    // The same in a chain of calls that are each harmless.
    mutated("its calls are nested", |b| {
        for (i, next) in [(0usize, Some(1u32)), (1, Some(2)), (2, None)] {
            let frame = b.frame(&[], &[("m", b.program.controls[0].frame.vars[1].ty)]);
            let mut body = vec![deep(MAX_NESTING / 3)(b)];
            if let Some(next) = next {
                let mut call = b.call(None, Callee::Function(FunctionId(next)), vec![]);
                for _ in 0..MAX_NESTING / 2 {
                    let cond = b.truth(true);
                    call = stmt(StmtKind::If(cond, vec![call], vec![]));
                }
                body.push(call);
            }
            let void = b.ty(Type::Void);
            b.program.functions.truncate(i);
            b.function(&format!("f{i}"), frame, void, body);
        }
        b.program.controls[0].body.clear();
    });
}

#[test]
fn types() {
    mutated("it uses a type that is not declared before it", |b| {
        let next = TypeId(b.program.types.len() as u32);
        b.ty(Type::Stack { elem: next, size: 2 });
    });
    mutated("it is wider than", |b| {
        b.bit(70_000);
    });
    mutated("it holds 131073 values", |b| {
        let one = b.header("one_t", &[]);
        b.stack(one, 1 << 17);
    });
    mutated("bits, more than", |b| {
        let wide = b.bit(60_000);
        let header = b.header("wide_t", &[("f", wide)]);
        b.stack(header, 1000);
    });
    mutated("it is nested deeper than", |b| {
        (0..40).fold(b.bit(8), |ty, n| b.structure(&format!("s{n}"), &[("f", ty)]));
    });
    mutated("only bit<W> and int<W> can represent an enum", |b| {
        let repr = b.bool();
        b.ty(Type::SerEnum { name: "bad".into(), repr, members: vec![] });
    });
    mutated("its member x is not 8 bits wide", |b| {
        let members = vec![("x".to_string(), Bits::new(9, 1))];
        let repr = b.bit(8);
        b.ty(Type::SerEnum { name: "bad".into(), repr, members });
    });
    // Types that no variable may have.
    let variable = |expected: &str, ty: &dyn Fn(&mut Builder) -> TypeId| {
        mutated(expected, |b| {
            let ty = ty(b);
            b.program.controls[0].frame.vars.push(Var { name: "bad".into(), ty });
        });
    };
    variable("variable 7 (bad): it has no values", &|b| b.ty(Type::Void));
    variable("strings are constants only", &|b| b.ty(Type::String));
    variable("it exists only at compile time", &|b| {
        let int = b.ty(Type::InfInt);
        b.ty(Type::Tuple(vec![int]))
    });
    variable("no representation in packets", &|b| {
        let color = tys(b).color;
        b.header("bad_t", &[("f", color)])
    });
    variable("a field of the header union is not a header", &|b| {
        let b8 = b.bit(8);
        b.union("bad_t", &[("f", b8)])
    });
    variable("of a type that arrays cannot have", &|b| {
        let pair = b.ty(Type::Tuple(Vec::new()));
        b.stack(pair, 2)
    });
    variable("there is no type 999", &|_| TypeId(999));
    mutated("its variables hold", |b| {
        let eth = tys(b).eth;
        let ty = b.stack(eth, 10_000);
        for n in 0..2 {
            b.program.controls[0].frame.vars.push(Var { name: format!("big{n}"), ty });
        }
    });
}

#[test]
fn frames_and_instances() {
    mutated("parameter 0 (h) is not variable 0", |b| {
        b.program.controls[0].frame.vars[0].ty = TypeId(0);
    });
    mutated("action c.forward: its control does not exist", |b| {
        b.program.actions[0].control = Some(ControlId(9));
    });
    mutated("parameters with a direction must come before", |b| {
        b.program.actions[0].frame.params[0].direction = Direction::None;
        b.program.actions[0].frame.params[1].direction = Direction::In;
    });
    mutated("function max: there is no type 999", |b| b.program.functions[0].returns = TypeId(999));
    mutated("the first error must be NoError", |b| b.program.errors.swap(0, 1));
    mutated("package Switch: argument p names nothing", |b| {
        b.program.package.args[0].1 = PackageArg::Parser(ParserId(9));
    });
    mutated("argument inner names nothing", |b| {
        let args = vec![("inner".to_string(), PackageArg::Control(ControlId(9)))];
        let inner = Package { name: "Inner".into(), args };
        b.program.package.args.push(("nested".into(), PackageArg::Package(inner)));
    });
    mutated("extern c.reg: there is no type 999", |b| b.program.externs[0].type_args[0] = TypeId(999));
    mutated("value set main.known: there is no type 999", |b| b.program.value_sets[0].elem = TypeId(999));
    mutated("eth_t cannot be matched", |b| b.program.value_sets[0].elem = tys(b).eth);
}

#[test]
fn parsers() {
    let select = |b: &mut Builder, change: &dyn Fn(&mut Vec<Expr>, &mut Vec<SelectCase>)| {
        let Transition::Select { on, cases } = &mut b.program.parsers[0].states[0].transition else {
            panic!()
        };
        change(on, cases);
    };
    mutated("a parser needs a start state", |b| b.program.parsers[1].states.clear());
    mutated("parser p.tag state start: there is no state 1", |b| {
        b.program.parsers[1].states[0].transition = goto(1);
    });
    mutated("parser p state start: case[1]: there is no state 9", |b| {
        select(b, &|_, cases| cases[1].next = StateRef::State(9));
    });
    mutated("a select cannot be on eth_t", |b| {
        enter(b, At::Parser);
        let eth = b.rd("h.eth");
        select(b, &|on, _| on[0] = eth.clone());
    });
    mutated("case[3]: fewer keys than the select has expressions", |b| {
        select(b, &|_, cases| cases[3].keys.truncate(1));
    });
    mutated("case[3]: more keys than the select has expressions", |b| {
        select(b, &|_, cases| cases[3].keys.push(KeySet::Any));
    });
    mutated("case[0]: the key is bool instead of kind_t", |b| {
        let wrong = b.truth(true);
        select(b, &|_, cases| cases[0].keys[0] = KeySet::Value(wrong.clone()));
    });
    mutated("bool has neither masks nor ranges", |b| {
        let t = b.truth(true);
        select(b, &|_, cases| cases[0].keys[1] = KeySet::Mask(t.clone(), t.clone()));
    });
    mutated("there is no value set 9", |b| {
        select(b, &|_, cases| cases[0].keys[0] = KeySet::ValueSet(ValueSetId(9)));
    });
    mutated("the value set main.known has other types than the select", |b| {
        select(b, &|_, cases| cases[0].keys[0] = KeySet::ValueSet(ValueSetId(0)));
    });
}

#[test]
fn tables() {
    type Change<'a> = &'a dyn Fn(&mut Table);
    let key_match = |n: usize, m: KeyMatch| move |t: &mut Table| t.entries[0].matches[n] = m.clone();
    let exact = |w, v| KeyMatch::Exact(Bits::new(w, v));
    let ternary = |v, m| KeyMatch::Ternary { value: Bits::new(8, v), mask: Bits::new(8, m) };
    let lpm = |v, n| KeyMatch::Lpm { value: Bits::new(16, v), prefix_len: n };
    let cases: &[(&str, Change<'_>)] = &[
        ("its control does not exist", &|t| t.control = ControlId(9)),
        ("property counters: there is no extern 9", &|t| t.extern_properties[0].1 = ExternInstanceId(9)),
        ("more than one lpm key", &|t| t.keys[5].match_kind = MatchKind::Lpm),
        ("action[0]: there is no action 9", &|t| t.actions[0].action = ActionId(9)),
        ("action[0]: 0 arguments instead of 1", &|t| t.actions[0].bound.clear()),
        ("default action: the table has no action 9", &|t| t.default_action.action = 9),
        ("default action: 0 action parameters instead of 1", &|t| t.default_action.action = 0),
        ("entry 0: an entry of the program must name its action", &|t| {
            t.entries[0].action = EntryAction::Group(1);
        }),
        ("entry 0: the value of port is not of type port_t", &|t| {
            let args = vec![Value::Bits(Bits::new(8, 1))];
            t.entries[0].action = EntryAction::Call(std::sync::Arc::new(ActionCall { action: 0, args }));
        }),
        ("entry 0: 4 keys instead of 5", &|t| {
            t.entries[0].matches.pop();
        }),
        ("key k5: a match of kind exact is needed", &key_match(4, KeyMatch::Optional(None))),
        ("key k5: a value of 9 bits for a field of 8 bits", &key_match(4, exact(9, 1))),
        ("key k1: bits outside of the mask are not zero", &key_match(1, ternary(1, 0x80))),
        ("key k0: bits after the prefix are not zero", &key_match(0, lpm(0xab01, 8))),
        ("key k0: a prefix of 17 bits for a field of 16 bits", &key_match(0, lpm(0, 17))),
    ];
    for (expected, change) in cases {
        mutated(expected, |b| change(&mut b.program.tables[0]));
    }
    mutated("table c.t: key[0]: a key cannot be eth_t", |b| {
        b.program.tables[0].keys[0].expr = b.rd("h.eth");
    });
    mutated("table c.t: action[0]: the action c.forward is of another control", |b| {
        b.program.tables[0].control = ControlId(1);
    });
    mutated("table c.t: action[0].arg[0]: the argument is bit<32> instead of bit<8>", |b| {
        b.program.tables[0].actions[0].bound = vec![b.inout("m.n")];
    });
}
