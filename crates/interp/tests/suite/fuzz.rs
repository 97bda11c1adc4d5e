//! A program that passes the verifier cannot make the executor panic: programs that are broken at random.

use super::super::support::common::good::good;
use super::super::support::*;
use pointsman_ir::verify::{MAX_NESTING, verify};
use pointsman_ir::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many broken programs: some seconds' worth.
const SEEDS: u64 = 1500;

/// A part of a program that can be changed.
enum Part<'a> {
    Expr(&'a mut Expr),
    Place(&'a mut LValue),
    Block(&'a mut Vec<Stmt>),
    Keys(&'a mut Vec<KeySet>),
    Next(&'a mut StateRef),
}

type Visit<'a> = &'a mut dyn FnMut(Part<'_>);

fn program(p: &mut Program, f: Visit<'_>) {
    for x in &mut p.parsers {
        block(&mut x.init, f);
        for s in &mut x.states {
            block(&mut s.body, f);
            match &mut s.transition {
                Transition::Goto(next) => f(Part::Next(next)),
                Transition::Select { on, cases } => {
                    on.iter_mut().for_each(|e| expr(e, f));
                    for case in cases {
                        f(Part::Keys(&mut case.keys));
                        f(Part::Next(&mut case.next));
                    }
                }
            }
        }
    }
    p.controls.iter_mut().for_each(|c| block(&mut c.body, f));
    p.actions.iter_mut().for_each(|a| block(&mut a.body, f));
    p.functions.iter_mut().for_each(|x| block(&mut x.body, f));
    for t in &mut p.tables {
        t.keys.iter_mut().for_each(|k| expr(&mut k.expr, f));
        t.actions.iter_mut().flat_map(|a| &mut a.bound).for_each(|a| arg(a, f));
    }
}

fn block(stmts: &mut Vec<Stmt>, f: Visit<'_>) {
    f(Part::Block(stmts));
    for s in stmts {
        match &mut s.kind {
            StmtKind::Assign(lv, e) => {
                place(lv, f);
                expr(e, f);
            }
            StmtKind::SetValid(lv)
            | StmtKind::SetInvalid(lv)
            | StmtKind::PushFront(lv, _)
            | StmtKind::PopFront(lv, _)
            | StmtKind::Lookahead(lv)
            | StmtKind::PacketLength(lv) => place(lv, f),
            StmtKind::Call { result, args, .. } => {
                result.iter_mut().for_each(|lv| place(lv, f));
                args.iter_mut().for_each(|a| arg(a, f));
            }
            StmtKind::Apply { hit, action_run, .. } => {
                hit.iter_mut().chain(action_run).for_each(|lv| place(lv, f));
            }
            StmtKind::If(c, yes, no) => {
                expr(c, f);
                block(yes, f);
                block(no, f);
            }
            StmtKind::Switch { on, cases, default } => {
                expr(on, f);
                cases.iter_mut().for_each(|(_, body)| block(body, f));
                block(default, f);
            }
            StmtKind::Loop { cond, body, update } => {
                expr(cond, f);
                block(body, f);
                block(update, f);
            }
            StmtKind::Return(e) => e.iter_mut().for_each(|e| expr(e, f)),
            StmtKind::Extract { header, varbits } => {
                place(header, f);
                varbits.iter_mut().for_each(|e| expr(e, f));
            }
            StmtKind::Advance(e) | StmtKind::Emit(e) => expr(e, f),
            StmtKind::Verify(a, b) => {
                expr(a, f);
                expr(b, f);
            }
            StmtKind::Break | StmtKind::Continue | StmtKind::Exit => {}
        }
    }
}

fn arg(a: &mut Arg, f: Visit<'_>) {
    match a {
        Arg::In(e) => expr(e, f),
        Arg::Out(lv) | Arg::InOut(lv) => place(lv, f),
    }
}

fn place(lv: &mut LValue, f: Visit<'_>) {
    f(Part::Place(lv));
    for step in &mut lv.path {
        if let Proj::Index(e) = step {
            expr(e, f);
        }
    }
}

fn expr(e: &mut Expr, f: Visit<'_>) {
    f(Part::Expr(e));
    match &mut e.kind {
        ExprKind::Const(_) | ExprKind::Invalid => {}
        ExprKind::Read(lv) | ExprKind::IsValid(lv) | ExprKind::LastIndex(lv) => place(lv, f),
        ExprKind::Unary(_, a) | ExprKind::Cast(a) | ExprKind::Slice(a, ..) | ExprKind::Field(a, _) => {
            expr(a, f)
        }
        ExprKind::Binary(_, a, b) => {
            expr(a, f);
            expr(b, f);
        }
        ExprKind::Mux(c, a, b) => {
            expr(c, f);
            expr(a, f);
            expr(b, f);
        }
        ExprKind::Aggregate(parts) => parts.iter_mut().for_each(|e| expr(e, f)),
    }
}

/// The parts of the original program, to put elsewhere.
#[derive(Default)]
pub struct Pool {
    exprs: Vec<Expr>,
    places: Vec<LValue>,
    stmts: Vec<Stmt>,
    keys: Vec<KeySet>,
}

impl Pool {
    pub fn of(p: &Program) -> Self {
        let mut pool = Pool::default();
        program(&mut p.clone(), &mut |part| match part {
            Part::Expr(e) => pool.exprs.push(e.clone()),
            Part::Place(lv) => pool.places.push(lv.clone()),
            Part::Block(b) => pool.stmts.extend(b.iter().cloned()),
            Part::Keys(k) => pool.keys.extend(k.iter().cloned()),
            Part::Next(_) => {}
        });
        pool
    }
}

fn random_type(p: &Program, rng: &mut Rng) -> TypeId {
    TypeId(rng.below(p.types.len() + 1) as u32)
}

/// Changes one thing in `p`.
pub fn mutate(p: &mut Program, pool: &Pool, rng: &mut Rng) {
    if rng.below(6) == 0 {
        return mutate_frame(p, rng);
    }
    let mut count = 0;
    program(p, &mut |_| count += 1);
    let chosen = rng.below(count);
    let ty = random_type(p, rng);
    let mut n = 0;
    program(p, &mut |part| {
        n += 1;
        if n - 1 == chosen {
            change(part, pool, rng, ty);
        }
    });
}

fn change(part: Part<'_>, pool: &Pool, rng: &mut Rng, ty: TypeId) {
    match part {
        Part::Expr(e) => match (rng.below(8), &mut e.kind) {
            (0, _) => e.ty = ty,
            (1, ExprKind::Slice(_, hi, lo)) => std::mem::swap(hi, lo),
            (1, ExprKind::Field(_, i)) => *i = rng.below(4) as u32,
            (1..=3, ExprKind::Const(Value::Bits(b))) => {
                *b = Bits::new(b.width(), u128::from(rng.next() >> rng.below(64)));
            }
            (1, ExprKind::Const(v)) => {
                *v = [Value::Bool(true), Value::Enum(1), Value::Error(3)][rng.below(3)].clone()
            }
            (1..=3, ExprKind::Binary(op, ..)) => {
                use BinaryOp::*;
                *op = [Add, Sub, Mul, Div, Mod, SatSub, Shl, Shr, Concat, Eq, Lt, And, Or, BitXor]
                    [rng.below(14)];
            }
            _ => e.clone_from(rng.pick(&pool.exprs).unwrap()),
        },
        Part::Place(lv) => match rng.below(6) {
            0 => lv.ty = ty,
            1 => lv.root = [VarRef::Local, VarRef::Outer][rng.below(2)](rng.below(8) as u32),
            2 => {
                lv.path.pop();
            }
            3 => lv.path.push(
                [Proj::Next, Proj::Last, Proj::Field(1), Proj::Slice { hi: 3, lo: 1 }][rng.below(4)].clone(),
            ),
            _ => lv.clone_from(rng.pick(&pool.places).unwrap()),
        },
        Part::Block(b) => {
            let at = rng.below(b.len() + 1);
            match rng.below(3) {
                0 if at < b.len() => {
                    b.remove(at);
                }
                1 if at < b.len() => {
                    let end = rng.below(b.len());
                    b.swap(at, end);
                }
                _ => b.insert(at, rng.pick(&pool.stmts).unwrap().clone()),
            }
        }
        Part::Keys(k) => {
            let at = rng.below(k.len());
            k[at] = rng.pick(&pool.keys).unwrap().clone();
        }
        Part::Next(next) => *next = [StateRef::State(rng.below(5) as u32), StateRef::Accept][rng.below(2)],
    }
}

fn mutate_frame(p: &mut Program, rng: &mut Rng) {
    let ty = random_type(p, rng);
    let (n, part) = (rng.below(20), rng.below(7));
    let frames = p.parsers.iter_mut().map(|x| &mut x.frame);
    let frames = frames.chain(p.controls.iter_mut().map(|x| &mut x.frame));
    let frames = frames.chain(p.actions.iter_mut().map(|x| &mut x.frame));
    let frame = frames.chain(p.functions.iter_mut().map(|x| &mut x.frame)).nth(n % 8);
    match (part, frame) {
        (0, Some(frame)) if !frame.vars.is_empty() => {
            let i = rng.below(frame.vars.len());
            frame.vars[i].ty = ty;
        }
        (1, Some(frame)) if !frame.params.is_empty() => {
            let i = rng.below(frame.params.len());
            frame.params[i].direction =
                [Direction::In, Direction::Out, Direction::InOut, Direction::None][rng.below(4)];
        }
        (2, Some(frame)) if !frame.params.is_empty() => {
            frame.params.pop();
        }
        (3, _) => p.tables[0].actions[0].action = ActionId(rng.below(3) as u32),
        (4, _) => p.tables[0].keys[rng.below(6)].match_kind = MatchKind::Ternary,
        (5, _) => p.functions[0].returns = ty,
        _ => p.actions[rng.below(2)].control = [None, Some(ControlId(0)), Some(ControlId(1))][rng.below(3)],
    }
}

/// Loads the program and sends packets through it. False if the verifier refuses it.
fn survive(p: Program, rng: &mut Rng) -> bool {
    if !verify(&p).is_empty() {
        // It can also be printed.
        assert!(!text::print(&p).is_empty());
        return false;
    }
    let mut b = Builder::new();
    b.program = p;
    let slots = b.program.parsers[0].frame.clone();
    let mut rig = Rig::new(&b, &slots);
    // The same without tracing: it must make no difference.
    let mut plain = Rig::new(&b, &slots);
    plain.world.tracing = false;
    let fits = |frame: &Frame, slots: &Frame| {
        frame.params.len() <= slots.params.len()
            && frame.params.iter().zip(&slots.params).all(|(a, b)| a.ty == b.ty)
    };
    for _ in 0..4 {
        let packet = rng.packet(16);
        let outcome = rig.parse(0, &packet);
        assert!(outcome.consumed_bits <= packet.len() * 8);
        assert_eq!(plain.parse(0, &packet), outcome);
        for c in 0..b.program.controls.len() {
            if fits(&b.program.controls[c].frame, &slots) {
                let outcome = rig.control(c as u32);
                assert_eq!(plain.control(c as u32), outcome);
            }
        }
        assert!(plain.slots == rig.slots && plain.emitted == rig.emitted && plain.world.log == rig.world.log);
        assert!(plain.world.trace.is_empty());
        rig.world.trace.clear();
        // No value of another type than its slot's is left: putting the values back changes nothing.
        let mut copy = rig.slots.clone();
        for slot in 0..slots.params.len() {
            rig.exec.set_value(&mut copy, slot, rig.value(slot));
        }
        assert_eq!(copy, rig.slots);
    }
    true
}

#[test]
fn mutants() {
    let original = good().program;
    let pool = Pool::of(&original);
    let (mut run, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let mut rng = Rng(seed);
        let mut mutant = original.clone();
        for _ in 0..=rng.below(2) {
            mutate(&mut mutant, &pool, &mut rng);
        }
        match catch_unwind(AssertUnwindSafe(|| survive(mutant, &mut rng))) {
            Ok(true) => run += 1,
            Ok(false) => refused += 1,
            Err(_) => panic!("the mutant of seed {seed} panicked"),
        }
    }
    assert!(run > 200 && refused > 200, "{run} mutants ran, {refused} were refused");
}

/// The good program itself, on many packets: it ends up in every state and both ends of the parser.
#[test]
fn random_packets() {
    let b = good();
    let slots = b.program.parsers[0].frame.clone();
    let mut rig = Rig::new(&b, &slots);
    rig.world.value_sets[0] = vec![vec![KeyMatch::Exact(Bits::new(4, 0))]];
    let mut rng = Rng(7);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..5000 {
        rig.exec.reset(&mut rig.slots);
        let packet = rng.packet(24);
        let outcome = rig.parse(0, &packet);
        seen.insert((outcome.accepted, outcome.error));
        rig.control(0);
        rig.emitted.clear();
        rig.control(1);
        rig.world.log.clear();
    }
    let errors = ["NoError", "PacketTooShort", "StackOutOfBounds", "HeaderTooShort", "ParserInvalidArgument"];
    let mut expected: Vec<_> = errors.iter().map(|e| (false, b.error(e))).collect();
    expected.push((true, 0));
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
    assert!(!super::super::TRACES || rig.world.states().contains(&3));
}

/// The deepest program that the verifier lets through fits the stack of a thread.
#[test]
fn deepest() {
    let mut b = Builder::new();
    let t = super::super::support::common::good::tys(&mut b);
    let levels = 5;
    let each = MAX_NESTING / levels - 8;
    for i in 0..levels {
        let frame = b.frame(&[("inout", "n", t.b32)], &[]);
        let body = if i == 0 {
            let mut e = b.rd("n");
            for _ in 0..each {
                let one = b.num(32, 1);
                e = b.bin(BinaryOp::Add, one, e);
            }
            vec![b.set("n", e)]
        } else {
            let args = vec![b.inout("n")];
            let mut s = b.call(None, Callee::Control(ControlId(i as u32 - 1)), args);
            for _ in 0..each {
                let yes = b.truth(true);
                s = stmt(StmtKind::If(yes, vec![s], vec![]));
            }
            vec![s]
        };
        b.control(&format!("c{i}"), frame, body);
    }
    let slots = b.program.controls[0].frame.clone();
    let mut rig = Rig::new(&b, &slots);
    rig.control(levels as u32 - 1);
    assert_eq!(rig.get(0, &[]), each as u128);
}
