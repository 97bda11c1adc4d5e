//! Expressions: every operator at every kind of type, and what P4 leaves undefined.

use super::super::support::*;
use pointsman_ir::BinaryOp::*;
use pointsman_ir::*;

/// The value of `e`.
fn value_of(e: impl Fn(&mut Builder) -> Expr) -> Value {
    let mut b = Builder::new();
    let probe = e(&mut b);
    let frame = b.frame(&[("out", "r", probe.ty)], &[]);
    let body = vec![b.set("r", probe)];
    b.control("c", frame.clone(), body);
    let mut rig = Rig::new(&b, &frame);
    rig.control(0);
    rig.value(0)
}

fn check(e: impl Fn(&mut Builder) -> Expr, expected: impl Into<Value2>) {
    assert_eq!(value_of(e), expected.into().0);
}

struct Value2(Value);

impl From<bool> for Value2 {
    fn from(b: bool) -> Self {
        Value2(Value::Bool(b))
    }
}

impl From<Bits> for Value2 {
    fn from(b: Bits) -> Self {
        Value2(Value::Bits(b))
    }
}

/// `a op b` of two `bit<w>`, and of two `int<w>`.
fn both(op: BinaryOp, w: u32, a: i128, b: i128, unsigned: i128, signed: i128) {
    let bits = |v: i128| Bits::new(128, v as u128).sign_extend(w);
    check(
        |x| {
            let mut n = |v| {
                let ty = x.bit(w);
                x.expr(ExprKind::Const(Value::Bits(bits(v))), ty)
            };
            let (a, b) = (n(a), n(b));
            x.bin(op, a, b)
        },
        bits(unsigned),
    );
    check(
        |x| {
            let (a, b) = (x.inum(w, a), x.inum(w, b));
            x.bin(op, a, b)
        },
        bits(signed),
    );
}

#[test]
fn arithmetic() {
    for w in [8, 64, 100, 128, 129, 300] {
        both(Add, w, 5, -2, 3, 3);
        both(Sub, w, 5, -2, 7, 7);
        both(Mul, w, -3, 7, -21, -21);
        both(BitAnd, w, -2, 7, 6, 6);
        both(BitOr, w, -8, 7, -1, -1);
        both(BitXor, w, -1, 7, -8, -8);
        both(SatAdd, w, -1, 2, -1, 1);
        both(SatSub, w, 2, -1, 0, 3);
    }
    both(SatAdd, 8, 127, 1, -128, 127);
    both(SatSub, 8, -128, 1, 127, -128);
    both(Add, 8, 127, 127, -2, -2);
    let div = |op, a, b, expected| {
        check(
            |x| {
                let (a, b) = (x.num(200, a), x.num(200, b));
                x.bin(op, a, b)
            },
            Bits::new(200, expected),
        );
    };
    div(Div, 17, 5, 3);
    div(Mod, 17, 5, 2);
    div(Div, 17, 0, 0);
    div(Mod, 17, 0, 0);
    check(
        |x| {
            let a = x.inum(8, -128);
            x.un(UnaryOp::Neg, a)
        },
        Bits::new(8, 128),
    );
    check(
        |x| {
            let a = x.num(130, 1);
            x.un(UnaryOp::BitNot, a)
        },
        Bits::ones(130).sub(&Bits::new(130, 1)),
    );
}

#[test]
fn shifts() {
    let shift = |op, signed, w, a: i128, by, expected: i128| {
        check(
            |x| {
                let (a, by) = (if signed { x.inum(w, a) } else { x.num(w, a as u128) }, x.num(40, by));
                x.bin(op, a, by)
            },
            Bits::new(128, expected as u128).sign_extend(w),
        );
    };
    shift(Shl, false, 8, 0x81, 1, 2);
    shift(Shl, true, 8, -128, 1, 0);
    shift(Shr, false, 8, 0x80, 7, 1);
    shift(Shr, true, 8, -128, 7, -1);
    shift(Shr, true, 8, -128, 1 << 39, -1);
    shift(Shr, true, 300, -256, 4, -16);
    shift(Shr, false, 8, 0x80, 1 << 39, 0);
    shift(Shl, false, 8, 1, 1 << 39, 0);
}

#[test]
fn comparison_and_logic() {
    let compare = |op, signed: bool, unsigned: bool| {
        for w in [8, 200] {
            check(
                |x| {
                    let (a, b) = (x.inum(w, -1), x.inum(w, 1));
                    x.bin(op, a, b)
                },
                signed,
            );
            check(
                |x| {
                    let (a, b) = (x.inum(w, -1), x.inum(w, 1));
                    let ty = x.bit(w);
                    let (a, b) = (x.cast(a, ty), x.cast(b, ty));
                    x.bin(op, a, b)
                },
                unsigned,
            );
        }
    };
    compare(Lt, true, false);
    compare(Le, true, false);
    compare(Gt, false, true);
    compare(Ge, false, true);
    compare(Eq, false, false);
    compare(Ne, true, true);
    for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
        let logic = |op, expected| {
            check(
                |x| {
                    let (a, b) = (x.truth(a), x.truth(b));
                    x.bin(op, a, b)
                },
                expected,
            );
        };
        logic(And, a && b);
        logic(Or, a || b);
        logic(Eq, a == b);
        check(
            |x| {
                let a = x.truth(a);
                x.un(UnaryOp::Not, a)
            },
            !a,
        );
        check(
            |x| {
                let (c, yes, no, ty) = (x.truth(a), x.num(8, 1), x.num(8, 2), x.bit(8));
                x.expr(ExprKind::Mux(Box::new(c), Box::new(yes), Box::new(no)), ty)
            },
            Bits::new(8, if a { 1 } else { 2 }),
        );
    }
}

#[test]
fn casts_slices_and_concatenation() {
    let cast = |from: &dyn Fn(&mut Builder) -> Expr, to: &dyn Fn(&mut Builder) -> TypeId, expected: Bits| {
        check(
            |x| {
                let (e, ty) = (from(x), to(x));
                x.cast(e, ty)
            },
            expected,
        );
    };
    cast(&|x| x.inum(8, -2), &|x| x.bit(150), Bits::ones(150).sub(&Bits::new(150, 1)));
    cast(&|x| x.inum(8, -2), &|x| x.int(4), Bits::new(4, 14));
    cast(&|x| x.num(8, 0xfe), &|x| x.int(150), Bits::new(150, 0xfe));
    cast(&|x| x.truth(true), &|x| x.bit(1), Bits::new(1, 1));
    check(
        |x| {
            let (e, ty) = (x.num(1, 1), x.bool());
            x.cast(e, ty)
        },
        true,
    );
    check(
        |x| {
            let (a, b) = (x.inum(4, -1), x.num(140, 5));
            x.bin(Concat, a, b)
        },
        Bits::new(4, 15).concat(&Bits::new(140, 5)),
    );
    check(
        |x| {
            let (a, ty) = (x.inum(16, 0x1234), x.bit(8));
            x.expr(ExprKind::Slice(Box::new(a), 11, 4), ty)
        },
        Bits::new(8, 0x23),
    );
}

/// Headers, tuples and structs as values.
#[test]
fn aggregates() {
    let header = |x: &mut Builder, v: Option<u128>| {
        let b8 = x.bit(8);
        let ty = x.header("h_t", &[("f", b8)]);
        match v {
            Some(v) => {
                let f = x.num(8, v);
                x.expr(ExprKind::Aggregate(vec![f]), ty)
            }
            None => x.expr(ExprKind::Invalid, ty),
        }
    };
    let equal = |a: Option<u128>, b: Option<u128>, expected: bool| {
        check(
            |x| {
                let (a, b) = (header(x, a), header(x, b));
                x.bin(Eq, a, b)
            },
            expected,
        );
    };
    equal(Some(1), Some(1), true);
    equal(Some(1), Some(2), false);
    equal(Some(0), None, false);
    equal(None, None, true);
    let tuple = |x: &mut Builder| {
        let (b8, bool) = (x.bit(8), x.bool());
        let ty = x.ty(Type::Tuple(vec![b8, bool]));
        let parts = vec![x.num(8, 3), x.truth(true)];
        x.expr(ExprKind::Aggregate(parts), ty)
    };
    check(
        |x| {
            let (t, ty) = (tuple(x), x.bit(8));
            x.expr(ExprKind::Field(Box::new(t), 0), ty)
        },
        Bits::new(8, 3),
    );
    check(
        |x| {
            let (a, b) = (tuple(x), tuple(x));
            x.bin(Ne, a, b)
        },
        false,
    );
    // A stack: two headers, the second invalid.
    let stack = value_of(|x| {
        let parts = vec![header(x, Some(1)), header(x, None)];
        let ty = x.stack(parts[0].ty, 2);
        x.expr(ExprKind::Aggregate(parts), ty)
    });
    let element = |valid, v| Value::Header { valid, fields: vec![Value::Bits(Bits::new(8, v))] };
    assert_eq!(stack, Value::Stack { next: 0, elems: vec![element(true, 1), element(false, 0)] });
}
