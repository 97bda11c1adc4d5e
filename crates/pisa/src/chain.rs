//! The longest chain of operations in a control that depend on each other, tables, and accesses of register arrays: what a block
//! needs of stages that access each register array and each table once for each packet, whatever a stage holds.
//!
//! Rules of the count: a table takes a stage after its key, an access to a register array one after its index (and the
//! written value), a hash one after its data. An addition, a comparison by size, a multiplication, a shift by a
//! variable take one; copies, slices, concatenations, constants, comparisons for equality, masks and conditions take
//! none, as they are part of the operation that uses them. Operations under a condition come after it. Each branch is
//! counted separately, and the longest counts.

use pointsman_ir::{
    Arg, BinaryOp, Callee, ControlId, Expr, ExprKind, ExternInstanceId, FunctionId, LValue, Program, Proj,
    Stmt, StmtKind, TableId, UnaryOp, VarRef,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a control needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Stages of the longest chain.
    pub stages: u32,
    /// Tables.
    pub tables: usize,
    /// Register arrays that are accessed.
    pub arrays: usize,
    /// Arrays that are read and written.
    pub both: usize,
    /// Most accesses of one array on a way; a read and a write count as one.
    pub most: u32,
}

/// The longest chain of a control; `constants` are parameters with known values, by their place in the list.
pub fn chain(program: &Program, control: ControlId, constants: &[(u32, u128)]) -> Chain {
    let mut frame = Frame::default();
    for (i, value) in constants {
        frame.places.insert((*i, vec![]), Known { stage: 0, value: Some(*value) });
    }
    let mut walk = Walk { program, tables: BTreeSet::new() };
    let body = &program.controls[control.index()].body;
    let done = walk.run(body, Now { frames: vec![frame], ..Now::default() }, 0);
    Chain {
        stages: done.deepest,
        tables: walk.tables.len(),
        arrays: done.touched.len(),
        both: done.touched.values().filter(|t| t.reads > 0 && t.writes > 0).count(),
        most: done.touched.values().map(|t| t.reads.max(t.writes)).max().unwrap_or_default(),
    }
}

/// The state of a place: after which stage it is available, and its value if that is a constant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Known {
    stage: u32,
    value: Option<u128>,
}

impl Known {
    fn at(stage: u32) -> Known {
        Known { stage, value: None }
    }

    fn or(self, other: Known) -> Known {
        let value = self.value.filter(|v| other.value == Some(*v));
        Known { stage: self.stage.max(other.stage), value }
    }
}

/// A variable and the fields on the way to a place in it.
type Place = (u32, Vec<u32>);

/// Variables of a callable.
#[derive(Clone, Debug, Default)]
struct Frame {
    places: BTreeMap<Place, Known>,
    /// Of the control around an action.
    outer: Option<usize>,
}

/// Reads and writes of a register array on the way so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Touched {
    reads: u32,
    writes: u32,
}

/// All that is known at a point of the program.
#[derive(Clone, Debug, Default)]
struct Now {
    frames: Vec<Frame>,
    touched: BTreeMap<ExternInstanceId, Touched>,
    deepest: u32,
}

/// The field of a header that says whether it is valid.
const VALIDITY: u32 = u32::MAX;

struct Walk<'a> {
    program: &'a Program,
    tables: BTreeSet<String>,
}

impl Now {
    fn frame(&self, root: VarRef) -> (usize, u32) {
        let here = self.frames.len() - 1;
        match root {
            VarRef::Local(i) => (here, i),
            VarRef::Outer(i) => (self.frames[here].outer.expect("a control around it"), i),
        }
    }

    fn place(&self, lvalue: &LValue) -> (usize, Place) {
        let (frame, var) = self.frame(lvalue.root);
        let fields = lvalue.path.iter().map_while(|p| if let Proj::Field(f) = p { Some(*f) } else { None });
        (frame, (var, fields.collect()))
    }

    fn read(&self, (frame, (var, path)): &(usize, Place)) -> Known {
        let places = &self.frames[*frame].places;
        // The nearest place around it that was written as a whole, and everything inside that was written since.
        let around = (0..=path.len()).rev().find_map(|n| places.get(&(*var, path[..n].to_vec())).copied());
        let inside = places
            .range((*var, path.clone())..)
            .take_while(|((v, p), _)| v == var && p.starts_with(path))
            .filter(|((_, p), _)| p.len() > path.len());
        inside.fold(around.unwrap_or_default(), |all, (_, k)| Known::at(all.stage.max(k.stage)))
    }

    fn write(&mut self, (frame, (var, path)): (usize, Place), known: Known) {
        let places = &mut self.frames[frame].places;
        places.retain(|(v, p), _| *v != var || p.len() <= path.len() || !p.starts_with(&path));
        places.insert((var, path), known);
        self.deepest = self.deepest.max(known.stage);
    }

    /// Copies a place with everything inside.
    fn copy(&mut self, from: &(usize, Place), to: (usize, Place), least: u32) {
        let whole = self.read(from);
        let inside: Vec<(Vec<u32>, Known)> = self.frames[from.0]
            .places
            .iter()
            .filter(|((v, p), _)| *v == from.1.0 && p.starts_with(&from.1.1) && p.len() > from.1.1.len())
            .map(|((_, p), k)| (p[from.1.1.len()..].to_vec(), *k))
            .collect();
        let around = if inside.is_empty() { whole } else { Known::default() };
        let later = |k: Known| Known { stage: k.stage.max(least), ..k };
        self.write(to.clone(), later(around));
        for (rest, known) in inside {
            let path = [to.1.1.clone(), rest].concat();
            self.write((to.0, (to.1.0, path)), later(known));
        }
    }

    /// The state after either branch was taken.
    fn join(mut self, other: Now) -> Now {
        let read = |now: &Now, at: &(usize, Place)| now.read(at);
        for frame in 0..self.frames.len() {
            let all: BTreeSet<Place> =
                self.frames[frame].places.keys().chain(other.frames[frame].places.keys()).cloned().collect();
            let joined = all
                .into_iter()
                .map(|p| (p.clone(), read(&self, &(frame, p.clone())).or(read(&other, &(frame, p)))));
            self.frames[frame].places = joined.collect();
        }
        for (id, t) in other.touched {
            let mine = self.touched.entry(id).or_default();
            (mine.reads, mine.writes) = (mine.reads.max(t.reads), mine.writes.max(t.writes));
        }
        self.deepest = self.deepest.max(other.deepest);
        self
    }
}

impl Walk<'_> {
    fn eval(&mut self, e: &Expr, now: &Now) -> Known {
        match &e.kind {
            ExprKind::Const(value) => Known { stage: 0, value: constant(value) },
            ExprKind::Read(lvalue) => {
                let known = now.read(&now.place(lvalue));
                if sliced(lvalue) { Known::at(known.stage) } else { known }
            }
            ExprKind::Unary(op, a) => {
                let a = self.eval(a, now);
                match (op, a.value) {
                    (UnaryOp::Not, Some(v)) => Known { value: Some(u128::from(v == 0)), ..a },
                    (UnaryOp::Neg, _) => Known::at(a.stage + 1),
                    _ => Known::at(a.stage),
                }
            }
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, now),
            ExprKind::Mux(c, a, b) => {
                let (c, a, b) = (self.eval(c, now), self.eval(a, now), self.eval(b, now));
                match c.value {
                    Some(v) => {
                        if v != 0 {
                            a
                        } else {
                            b
                        }
                    }
                    None => Known::at(c.stage.max(a.stage).max(b.stage)),
                }
            }
            ExprKind::Cast(a) => self.eval(a, now),
            ExprKind::Slice(a, ..) | ExprKind::Field(a, _) => Known::at(self.eval(a, now).stage),
            ExprKind::Aggregate(all) => {
                Known::at(all.iter().map(|a| self.eval(a, now).stage).max().unwrap_or_default())
            }
            ExprKind::Invalid => Known::default(),
            ExprKind::IsValid(lvalue) | ExprKind::LastIndex(lvalue) => {
                let (frame, (var, mut path)) = now.place(lvalue);
                path.push(VALIDITY);
                Known::at(now.read(&(frame, (var, path))).stage)
            }
        }
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, now: &Now) -> Known {
        let (a, b) = (self.eval(a, now), self.eval(b, now));
        let known = |f: fn(u128, u128) -> bool| a.value.zip(b.value).map(|(a, b)| u128::from(f(a, b)));
        let value = match op {
            BinaryOp::Eq => known(|a, b| a == b),
            BinaryOp::Ne => known(|a, b| a != b),
            BinaryOp::And if a.value == Some(0) || b.value == Some(0) => Some(0),
            BinaryOp::Or if a.value == Some(1) || b.value == Some(1) => Some(1),
            BinaryOp::And | BinaryOp::Or => known(|a, b| a == b).and(a.value),
            _ => None,
        };
        let constant = a.value.is_some() || b.value.is_some();
        let cost = match op {
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::And | BinaryOp::Or | BinaryOp::Concat => 0,
            BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shl | BinaryOp::Shr
                if constant =>
            {
                0
            }
            _ => 1,
        };
        match value {
            // Nothing is looked at to know it.
            Some(_) => Known { stage: 0, value },
            None => Known::at(a.stage.max(b.stage) + cost),
        }
    }

    fn run(&mut self, body: &[Stmt], mut now: Now, after: u32) -> Now {
        for s in body {
            now = self.step(s, now, after);
        }
        now
    }

    fn step(&mut self, s: &Stmt, mut now: Now, after: u32) -> Now {
        match &s.kind {
            StmtKind::Assign(to, Expr { kind: ExprKind::Read(from), .. }) if !sliced(to) && !sliced(from) => {
                let place = now.place(from);
                now.copy(&place, now.place(to), after);
            }
            StmtKind::Assign(to, e) => {
                let mut known = self.eval(e, &now);
                known.stage = known.stage.max(after);
                if sliced(to) {
                    known = Known::at(known.stage.max(now.read(&now.place(to)).stage));
                }
                now.write(now.place(to), known);
            }
            StmtKind::SetValid(to) | StmtKind::SetInvalid(to) => {
                let (frame, (var, mut path)) = now.place(to);
                path.push(VALIDITY);
                now.write((frame, (var, path)), Known::at(after));
            }
            StmtKind::Call { result, callee, args, .. } => {
                now = self.call(result.as_ref(), *callee, args, now, after)
            }
            StmtKind::Apply { table, hit, action_run } => {
                let stage;
                (now, stage) = self.apply(*table, now, after);
                for to in [hit, action_run].into_iter().flatten() {
                    now.write(now.place(to), Known::at(stage));
                }
            }
            StmtKind::If(c, yes, no) => {
                let c = self.eval(c, &now);
                now = match c.value {
                    Some(0) => self.run(no, now, after),
                    Some(_) => self.run(yes, now, after),
                    None => {
                        let after = after.max(c.stage);
                        let other = self.run(no, now.clone(), after);
                        self.run(yes, now, after).join(other)
                    }
                };
            }
            StmtKind::Switch { on, cases, default } => {
                let after = after.max(self.eval(on, &now).stage);
                let mut joined = self.run(default, now.clone(), after);
                for (_, body) in cases {
                    joined = joined.join(self.run(body, now.clone(), after));
                }
                now = joined;
            }
            // No pipeline loops: one round is counted.
            StmtKind::Loop { body, .. } => now = self.run(body, now, after),
            // The following is on another path; it is treated as if it were also on this one.
            StmtKind::Return(_) | StmtKind::Exit => {}
            // In parsers and deparsers only.
            _ => {}
        }
        now
    }

    /// What is known behind a table, and the stage of its match.
    fn apply(&mut self, table: TableId, mut now: Now, after: u32) -> (Now, u32) {
        let t = &self.program.tables[table.index()];
        self.tables.insert(t.name.clone());
        let keys = t.keys.iter().map(|k| self.eval(&k.expr, &now).stage).max().unwrap_or_default();
        let stage = keys.max(after) + 1;
        now.deepest = now.deepest.max(stage);
        let mut joined: Option<Now> = None;
        for listed in &t.actions {
            let action = &self.program.actions[listed.action.index()];
            let mut inside = now.clone();
            let outer = inside.frames.len() - 1;
            let data = (0..action.frame.params.len() as u32).map(|i| ((i, vec![]), Known::at(stage)));
            inside.frames.push(Frame { places: data.collect(), outer: Some(outer) });
            let mut done = self.run(&action.body, inside, stage);
            done.frames.pop();
            joined = Some(match joined {
                Some(other) => other.join(done),
                None => done,
            });
        }
        (joined.unwrap_or(now), stage)
    }

    fn call(
        &mut self,
        result: Option<&LValue>,
        callee: Callee,
        args: &[Arg],
        mut now: Now,
        after: u32,
    ) -> Now {
        let here = now.frames.len();
        let (body, outer) = match callee {
            Callee::Extern { function, instance } => {
                let name = &self.program.extern_fns[function.index()].name;
                return self.call_extern(name, instance, result, args, now, after);
            }
            Callee::Control(id) => (&self.program.controls[id.index()].body, None),
            // For an action called by an action: also the control's frame.
            Callee::Action(id) => {
                let control = now.frames[here - 1].outer.unwrap_or(here - 1);
                (&self.program.actions[id.index()].body, Some(control))
            }
            Callee::Function(id) => {
                if let Some(to) = result {
                    let known = self.function(id, args, &now, after);
                    now.write(now.place(to), known);
                }
                return now;
            }
            // Not in a control.
            Callee::Parser(_) => return now,
        };
        // In and out are in the caller's frame.
        let mut ins = Vec::new();
        let mut outs = Vec::new();
        for (i, arg) in (0..).zip(args) {
            let inner = (here, (i, Vec::new()));
            match arg {
                Arg::In(Expr { kind: ExprKind::Read(from), .. }) | Arg::InOut(from) if !sliced(from) => {
                    ins.push((inner.clone(), Ok(now.place(from))));
                }
                Arg::In(e) => ins.push((inner.clone(), Err(self.eval(e, &now)))),
                Arg::InOut(from) => {
                    ins.push((inner.clone(), Err(Known::at(now.read(&now.place(from)).stage))));
                }
                Arg::Out(_) => {}
            }
            if let Arg::Out(to) | Arg::InOut(to) = arg {
                outs.push((inner, now.place(to), sliced(to)));
            }
        }
        now.frames.push(Frame { places: BTreeMap::new(), outer });
        for (to, from) in ins {
            match from {
                Ok(place) => now.copy(&place, to, 0),
                Err(known) => now.write(to, known),
            }
        }
        let mut now = self.run(body, now, after);
        for (from, to, is_part) in outs {
            if is_part {
                let stage = now.read(&from).stage.max(now.read(&to).stage);
                now.write(to, Known::at(stage));
            } else {
                now.copy(&from, to, 0);
            }
        }
        now.frames.pop();
        now
    }

    /// When a function's result is known. Functions are sums for checksums: each statement adds to the one before.
    fn function(&mut self, id: FunctionId, args: &[Arg], now: &Now, after: u32) -> Known {
        let inputs = args.iter().map(|a| if let Arg::In(e) = a { self.eval(e, now).stage } else { 0 });
        let stage = inputs.max().unwrap_or_default().max(after);
        Known::at(stage + self.program.functions[id.index()].body.len() as u32)
    }

    fn call_extern(
        &mut self,
        name: &str,
        instance: Option<ExternInstanceId>,
        result: Option<&LValue>,
        args: &[Arg],
        mut now: Now,
        after: u32,
    ) -> Now {
        let inputs = args.iter().map(|a| match a {
            Arg::In(e) => self.eval(e, &now).stage,
            Arg::InOut(l) => now.read(&now.place(l)).stage,
            Arg::Out(_) => 0,
        });
        let stage = inputs.max().unwrap_or_default().max(after) + 1;
        if name == "atomic_begin" || name == "atomic_end" {
            return now;
        }
        if let Some(id) = instance.filter(|id| self.program.externs[id.index()].object == "register") {
            let touched = now.touched.entry(id).or_default();
            match name {
                "read" => touched.reads += 1,
                _ => touched.writes += 1,
            }
        }
        now.deepest = now.deepest.max(stage);
        for arg in args {
            if let Arg::Out(to) | Arg::InOut(to) = arg {
                now.write(now.place(to), Known::at(stage));
            }
        }
        if let Some(to) = result {
            now.write(now.place(to), Known::at(stage));
        }
        now
    }
}

/// Whether it is a part of a number.
fn sliced(lvalue: &LValue) -> bool {
    lvalue.path.iter().any(|p| matches!(p, Proj::Slice { .. }))
}

fn constant(value: &pointsman_ir::Value) -> Option<u128> {
    match value {
        pointsman_ir::Value::Bits(b) if b.width() <= 64 => Some(u128::from(b.low_u64())),
        pointsman_ir::Value::Bool(b) => Some(u128::from(*b)),
        _ => None,
    }
}
