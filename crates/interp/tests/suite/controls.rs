//! Statements of controls: headers, stacks, unions, flow, emission.

use super::super::MAX_LOOP_ROUNDS;
use super::super::support::*;
use pointsman_ir::*;

/// Headers with everything that a header can be in, and a number `n`.
fn headers(b: &mut Builder) -> Frame {
    let (b4, b8, b12) = (b.bit(4), b.bit(8), b.bit(12));
    let a = b.header("a_t", &[("x", b8)]);
    let c = b.header("c_t", &[("y", b4), ("z", b12)]);
    let either = b.union("u_t", &[("a", a), ("c", c)]);
    let (stack, unions) = (b.stack(a, 3), b.stack(either, 2));
    let fields = [("a", a), ("c", c), ("s", stack), ("u", either), ("us", unions)];
    let h = b.structure("h_t", &fields);
    b.frame(&[("inout", "h", h), ("inout", "n", b8)], &[("a", a), ("i", b8), ("j", b8), ("h2", h)])
}

/// Runs a control with this body once.
fn run(body: impl Fn(&mut Builder) -> Vec<Stmt>) -> Rig {
    let mut b = Builder::new();
    let frame = headers(&mut b);
    let body = body(&mut b);
    b.control("c", frame.clone(), body);
    let mut rig = Rig::new(&b, &frame);
    rig.control(0);
    rig
}

fn valid(b: &mut Builder, place: &str) -> Stmt {
    stmt(StmtKind::SetValid(b.lv(place)))
}

fn emit(b: &mut Builder, place: &str) -> Stmt {
    stmt(StmtKind::Emit(b.rd(place)))
}

/// `h.s` after these statements: next and the elements, `None` for invalid ones.
fn stack(rig: &Rig) -> (u32, Vec<Option<u128>>) {
    let Value::Struct(h) = rig.value(0) else { panic!() };
    let Value::Stack { next, elems } = &h[2] else { panic!() };
    let element = |v: &Value| match v {
        Value::Header { valid: true, fields } => fields[0].to_bits().and_then(|b| b.to_u128()),
        _ => None,
    };
    (*next, elems.iter().map(element).collect())
}

#[test]
fn stacks() {
    let fill = |b: &mut Builder| {
        let mut body = vec![];
        for i in 0..3 {
            body.push(valid(b, &format!("h.s[{i}]")));
            body.push(b.setn(&format!("h.s[{i}].x"), i + 1));
        }
        body
    };
    let shifted = |change: &dyn Fn(LValue) -> StmtKind| {
        stack(&run(|b| {
            let mut body = fill(b);
            body.push(stmt(change(b.lv("h.s"))));
            body
        }))
    };
    assert_eq!(shifted(&|s| StmtKind::PushFront(s, 0)), (0, vec![Some(1), Some(2), Some(3)]));
    assert_eq!(shifted(&|s| StmtKind::PushFront(s, 1)), (1, vec![None, Some(1), Some(2)]));
    assert_eq!(shifted(&|s| StmtKind::PushFront(s, u32::MAX)), (3, vec![None, None, None]));
    assert_eq!(shifted(&|s| StmtKind::PopFront(s, 2)), (0, vec![Some(3), None, None]));
    assert_eq!(shifted(&|s| StmtKind::PopFront(s, 9)), (0, vec![None, None, None]));
    // By index; out of range, reading gives zero and writing is lost.
    let rig = run(|b| {
        let mut body = fill(b);
        body.extend([b.setn("i", 1), b.setn("h.s[i].x", 9), b.setn("i", 3), b.setn("h.s[i].x", 7)]);
        body.push(valid(b, "h.s[i]"));
        let (inside, outside) = (b.rd("h.s[1].x"), b.rd("h.s[i].x"));
        let sum = b.bin(BinaryOp::Add, inside, outside);
        body.push(b.set("n", sum));
        body
    });
    assert_eq!(stack(&rig), (0, vec![Some(1), Some(9), Some(3)]));
    assert_eq!(rig.get(1, &[]), 9);
    // Equality does not look at nextIndex; assignment copies it.
    let rig = run(|b| {
        let two = [stmt(StmtKind::PushFront(b.lv("h.s"), 2))];
        let (x, y) = (b.rd("h.s"), b.rd("h2.s"));
        let same = b.bin(BinaryOp::Eq, x, y);
        let then = vec![b.setn("n", 1)];
        let s = b.rd("h.s");
        let copy = b.set("h2.s", s);
        let zero = b.rd("h2");
        two.into_iter().chain([stmt(StmtKind::If(same, then, vec![])), copy, b.set("h", zero)]).collect()
    });
    assert_eq!((rig.get(1, &[]), stack(&rig).0), (1, 2));
}

/// `setValid()` of an invalid header sets its fields to zero, whatever they held before; a valid header keeps them.
#[test]
fn headers_that_become_valid() {
    /// The field at `place` after these statements.
    fn read(place: &str, body: impl Fn(&mut Builder) -> Vec<Stmt>) -> u128 {
        run(|b| {
            let mut body = body(b);
            let (field, narrow) = (b.rd(place), b.bit(8));
            let field = b.cast(field, narrow);
            body.push(b.set("n", field));
            body
        })
        .get(1, &[])
    }
    let invalid = |b: &mut Builder, place: &str| stmt(StmtKind::SetInvalid(b.lv(place)));
    // Parameters, and local variables, which native code may keep in registers.
    for (header, field) in [("h.a", "h.a.x"), ("a", "a.x"), ("h.c", "h.c.z"), ("h2.c", "h2.c.z")] {
        let again = |b: &mut Builder| vec![valid(b, header), b.setn(field, 5), valid(b, header)];
        assert_eq!(read(field, again), 5, "{field} of a valid header");
        let stale =
            |b: &mut Builder| vec![valid(b, header), b.setn(field, 5), invalid(b, header), valid(b, header)];
        assert_eq!(read(field, stale), 0, "{field} of a header that was valid before");
        let early = |b: &mut Builder| vec![b.setn(field, 5), valid(b, header)];
        assert_eq!(read(field, early), 0, "{field} of a header written while it was invalid");
    }
    // Elements that a stack got by moving, at an index known at run time.
    let full = |b: &mut Builder| -> Vec<Stmt> {
        (0..3u128)
            .flat_map(|i| [valid(b, &format!("h.s[{i}]")), b.setn(&format!("h.s[{i}].x"), i + 1)])
            .collect()
    };
    let moved = |change: fn(LValue, u32) -> StmtKind, at: u128| {
        read("h.s[i].x", |b| {
            let mut body = full(b);
            body.extend([stmt(change(b.lv("h.s"), 1)), b.setn("i", at), valid(b, "h.s[i]")]);
            body
        })
    };
    assert_eq!([0, 1, 2].map(|at| moved(StmtKind::PushFront, at)), [0, 1, 2]);
    assert_eq!([0, 1, 2].map(|at| moved(StmtKind::PopFront, at)), [2, 3, 0]);
    // A member of a union that another member replaced in between.
    for union in ["h.u", "h.us[1]"] {
        let (a, c) = (format!("{union}.a"), format!("{union}.c"));
        let field = format!("{a}.x");
        let replaced = |b: &mut Builder| vec![valid(b, &a), b.setn(&field, 5), valid(b, &c), valid(b, &a)];
        assert_eq!(read(&field, replaced), 0, "{field}");
    }
}

#[test]
fn unions() {
    /// Which of `h.u.a` and `h.u.c` are valid, after these statements.
    fn members(body: impl Fn(&mut Builder) -> Vec<Stmt>) -> (bool, bool) {
        let Value::Struct(h) = run(body).value(0) else { panic!() };
        let Value::Union(m) = &h[3] else { panic!() };
        let valid = |v: &Value| matches!(v, Value::Header { valid: true, .. });
        (valid(&m[0]), valid(&m[1]))
    }
    assert_eq!(members(|b| vec![valid(b, "h.u.a")]), (true, false));
    assert_eq!(members(|b| vec![valid(b, "h.u.a"), valid(b, "h.u.c")]), (false, true));
    // A valid header assigned to a member, an invalid one to the other.
    let assign = |b: &mut Builder| {
        let (a, c) = (b.rd("a"), b.rd("h.c"));
        vec![valid(b, "h.u.c"), valid(b, "a"), b.set("h.u.a", a), b.set("h.u.c", c)]
    };
    assert_eq!(members(assign), (true, false));
    let invalid = |b: &mut Builder| vec![valid(b, "h.u.a"), stmt(StmtKind::SetInvalid(b.lv("h.u.a")))];
    assert_eq!(members(invalid), (false, false));
    // Writing a field changes no validity.
    assert_eq!(members(|b| vec![valid(b, "h.u.a"), b.setn("h.u.c.y", 3)]), (true, false));
    // The union as a whole.
    let rig = run(|b| {
        let u = b.rd("h.us[1]");
        let (copy, isvalid) = (b.set("h.u", u), b.is_valid("h.u"));
        let then = vec![b.setn("n", 1)];
        vec![valid(b, "h.us[1].c"), copy, stmt(StmtKind::If(isvalid, then, vec![]))]
    });
    assert_eq!(rig.get(1, &[]), 1);
}

#[test]
fn assignment_copies() {
    let rig = run(|b| {
        vec![
            valid(b, "h.a"),
            b.setn("h.a.x", 5),
            b.copy("a", "h.a"),
            b.setn("h.a.x", 6),
            // A slice of a field.
            valid(b, "a"),
            b.setn("a.x[7:4]", 0xf),
            b.copy("h2.a", "h.a"),
            b.setn("h2.c.z[11:4]", 0xab),
            b.setn("h2.c.z[3:0]", 0xc),
            b.copy("h.c", "h2.c"),
            b.copy("h.s[0]", "a"),
        ]
    });
    assert_eq!(rig.get(0, &[0, 0]), 6);
    assert_eq!(rig.get(0, &[1, 1]), 0xabc);
    assert_eq!(rig.get(0, &[2, 0, 0]), 0xf5);
}

/// Valid headers only, in order, at any bit offset, filled up with zeros.
#[test]
fn emission() {
    let rig = run(|b| {
        vec![
            valid(b, "h.c"),
            b.setn("h.c.y", 0xa),
            b.setn("h.c.z", 0xbcd),
            valid(b, "h.s[2]"),
            b.setn("h.s[2].x", 0x11),
            b.setn("h.s[1].x", 0x22),
            valid(b, "h.us[1].a"),
            b.setn("h.us[1].a.x", 0x33),
            emit(b, "h"),
            emit(b, "h.a"),
            emit(b, "h.c"),
        ]
    });
    assert_eq!(rig.emitted, [0xab, 0xcd, 0x11, 0x33, 0xab, 0xcd]);
    // Unaligned, with a varbit, and twice into the same buffer.
    let mut b = Builder::new();
    let (b3, i6) = (b.bit(3), b.int(6));
    let v = b.ty(Type::Varbit(40));
    let x = b.header("x_t", &[("f", b3), ("v", v), ("g", i6)]);
    let frame = b.frame(&[("inout", "x", x)], &[]);
    let varbit = b.expr(ExprKind::Const(Value::Varbit(Bits::new(13, 0x1555))), v);
    let one = b.inum(6, 1);
    // 101 1010101010101 000001: 22 bits.
    let body = vec![
        valid(&mut b, "x"),
        b.setn("x.f", 5),
        b.set("x.v", varbit),
        b.set("x.g", one),
        emit(&mut b, "x"),
    ];
    b.control("c", frame.clone(), body);
    let mut rig = Rig::new(&b, &frame);
    rig.control(0);
    rig.control(0);
    let once = [0b1011_0101, 0b0101_0101, 0b0000_0100];
    assert_eq!(rig.emitted, [once, once].concat());
}

#[test]
fn flow() {
    // Adds `v` to n, which so counts the statements that run.
    fn add(b: &mut Builder, v: u128) -> Stmt {
        let (n, v) = (b.rd("n"), b.num(8, v));
        let sum = b.bin(BinaryOp::Add, n, v);
        b.set("n", sum)
    }
    let n = |body: &dyn Fn(&mut Builder) -> Vec<Stmt>| run(body).get(1, &[]);
    for (on, expected) in [(0, 1), (5, 1), (7, 2), (8, 4)] {
        let switch = |b: &mut Builder| {
            let value = |v| Value::Bits(Bits::new(8, v));
            let cases = vec![(vec![value(0), value(5)], vec![add(b, 1)]), (vec![value(7)], vec![add(b, 2)])];
            vec![stmt(StmtKind::Switch { on: b.num(8, on), cases, default: vec![add(b, 4)] })]
        };
        assert_eq!(n(&switch), expected);
    }
    // for (i = 0; i < 10; i++) { if (i == 2) continue; if (i == 6) break; n += i }
    let count = |b: &mut Builder| {
        let is = |b: &mut Builder, v| {
            let (i, v) = (b.rd("i"), b.num(8, v));
            b.bin(BinaryOp::Eq, i, v)
        };
        let (two, six) = (is(b, 2), is(b, 6));
        let (i, n, j, one, k, ten) = (b.rd("i"), b.rd("n"), b.rd("i"), b.num(8, 1), b.rd("i"), b.num(8, 10));
        let sum = b.bin(BinaryOp::Add, n, i);
        let next = b.bin(BinaryOp::Add, j, one);
        let body = vec![
            stmt(StmtKind::If(two, vec![stmt(StmtKind::Continue)], vec![])),
            stmt(StmtKind::If(six, vec![stmt(StmtKind::Break)], vec![])),
            b.set("n", sum),
        ];
        let update = vec![b.set("i", next)];
        vec![stmt(StmtKind::Loop { cond: b.bin(BinaryOp::Lt, k, ten), body, update })]
    };
    assert_eq!(n(&count), 1 + 3 + 4 + 5);
    // An endless loop in an endless loop ends, and what follows runs.
    let endless = |b: &mut Builder| {
        let inner = stmt(StmtKind::Loop { cond: b.truth(true), body: vec![add(b, 1)], update: vec![] });
        let outer = stmt(StmtKind::Loop { cond: b.truth(true), body: vec![inner], update: vec![] });
        vec![outer, add(b, 3)]
    };
    // One round of all is that of the outer loop.
    assert_eq!(n(&endless), u128::from((MAX_LOOP_ROUNDS - 1 + 3) % 256));
    assert_eq!(n(&|b| vec![add(b, 1), stmt(StmtKind::Return(None)), add(b, 2)]), 1);
}

/// The executor's way to the variables of a packet.
#[test]
fn frames() {
    let mut b = Builder::new();
    let frame = headers(&mut b);
    let body = vec![valid(&mut b, "h.a"), b.setn("h.a.x", 5), b.setn("n", 6)];
    b.control("c", frame.clone(), body);
    // Reads one slot as `in`, another as `inout`.
    let h = frame.params[0].ty;
    let b8 = b.bit(8);
    let two = b.frame(&[("in", "a", b8), ("inout", "b", b8), ("out", "h", h)], &[]);
    let (a, n) = (b.rd("a"), b.num(8, 1));
    let sum = b.bin(BinaryOp::Add, a, n);
    let body = vec![b.set("b", sum)];
    b.control("two", two, body);
    let mut rig = Rig::new(&b, &frame);
    let fresh = rig.exec.new_frame();
    rig.control(0);
    let copy = rig.slots.clone();
    assert_eq!((rig.get(0, &[0, 0]), rig.get(1, &[])), (5, 6));
    rig.set(0, &[0, 0], 16, 0x1ff);
    assert_eq!(rig.get(0, &[0, 0]), 0xff);
    assert_eq!(rig.exec.get(&rig.slots, 0, &[0]), None);
    assert_eq!(rig.exec.get(&rig.slots, 0, &[0, 1]), None);
    assert_eq!(rig.exec.get(&rig.slots, 9, &[]), None);
    assert!(!rig.exec.set(&mut rig.slots, 0, &[0], &Bits::new(8, 1)));
    rig.exec.set_value(&mut rig.slots, 1, Value::Bits(Bits::new(12, 0xabc)));
    assert_eq!(rig.get(1, &[]), 0xbc);
    rig.exec.reset(&mut rig.slots);
    assert_eq!(rig.slots, fresh);
    rig.slots = copy;
    assert_eq!(rig.get(0, &[0, 0]), 5);
    // One slot bound twice: `in` gets a copy, `inout` is written back. `out` starts fresh.
    let outcome = rig.exec.control(ControlId(1), &[1, 1, 0], &mut rig.slots, &mut vec![], &mut rig.world);
    assert!(!outcome.exited);
    assert_eq!((rig.get(0, &[0, 0]), rig.get(1, &[])), (0, 7));
}

/// One loaded program can serve several threads, each with its own frames.
#[test]
fn shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<super::super::Tested>();
}

#[test]
fn refuses_what_it_cannot_run() {
    let mut b = Builder::new();
    let frame = headers(&mut b);
    let wrong = vec![stmt(StmtKind::Break)];
    b.control("c", frame, wrong);
    let error = super::super::Tested::load(b.finish(), &[]).unwrap_err();
    assert_eq!(error.0, "control c: body[0]: break outside of a loop");
    b.program.controls.clear();
    let error = super::super::Tested::load(b.finish(), &[TypeId(99)]).unwrap_err();
    assert_eq!(error.0, "a slot has type 99, which the program does not have");
    let frame = b.frame(&[], &[]);
    b.parser("p", frame, vec![state("start", vec![], accept())]);
    b.program.errors.retain(|e| e != "ParserTimeout");
    let error = super::super::Tested::load(b.finish(), &[]).unwrap_err();
    assert!(error.0.contains("error.ParserTimeout"));
}
