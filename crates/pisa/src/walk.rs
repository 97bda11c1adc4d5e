//! A program as a list of operations that each need at most one stage, with what they depend on.
//!
//! The walk follows values, not variables: a copy, a slice or a comparison for equality is part of the operation that uses its
//! result. Controls, actions and functions are walked at each of their calls; conditions with known results are not followed.

mod alu;
mod expr;
mod fields;
mod state;
mod stmt;

pub(crate) use fields::{Field, FieldId};
pub(crate) use state::OpId;

use crate::arch::{Arch, Gress, Phase};
use crate::graph::Dependency;
use crate::report::Violation;
use fields::{Fields, Place};
use pointsman_ir::{
    ControlId, Package, PackageArg, ParserId, Program, Span, Stmt, StmtKind, TableId, TypeId,
};
use state::{Numbers, State, Val};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Looks a key up.
    Table(TableId),
    /// An instruction.
    Alu,
    /// Hashes so many bits to so many.
    Hash { input: u64, output: u64 },
    /// Accesses an array at the index with this number and of so many bits from headers and metadata.
    Access { object: usize, index: u32, index_bits: u64, writes: bool },
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub what: What,
    /// It is part of the program that an array's ALU runs, with the access of the cell: this operation.
    pub alu: Option<OpId>,
    /// The table in whose action it is.
    pub site: Option<OpId>,
    /// The branches that it is in, each with its arm.
    pub arms: Rc<Vec<(u32, u32)>>,
    /// Bits that the innermost condition around it compares. The outer ones are decided before it.
    pub condition_bits: u64,
    pub deps: BTreeMap<OpId, Dependency>,
    pub reads: BTreeSet<FieldId>,
    pub writes: BTreeSet<FieldId>,
    pub gress: Gress,
    /// The control around it.
    pub control: Rc<str>,
    /// The statement in the control, and the statement itself if that calls an action or a function.
    pub span: Span,
    pub at: Span,
}

impl Op {
    /// Whether no packet runs both.
    pub fn excludes(&self, other: &Op) -> bool {
        let apart = |(branch, arm): &(u32, u32)| other.arms.iter().any(|(b, a)| b == branch && a != arm);
        self.arms.iter().any(apart)
    }
}

/// The result of a walk.
#[derive(Debug)]
pub(crate) struct Walked {
    pub ops: Vec<Op>,
    pub fields: Vec<Field>,
    /// Fields that the parser writes, and that the deparser or a checksum reads.
    pub early: BTreeSet<FieldId>,
    pub late: BTreeSet<FieldId>,
    pub violations: Vec<Violation>,
}

/// Where the walk is: under which conditions.
#[derive(Clone, Debug)]
struct Around {
    arms: Rc<Vec<(u32, u32)>>,
    /// All conditions together.
    condition: Val,
    /// Bits that the innermost one compares.
    bits: u64,
    site: Option<OpId>,
    control: Rc<str>,
    span: Span,
    at: Span,
}

/// Variables of a callable, and those of the control around an action.
#[derive(Clone, Debug)]
struct Frame {
    vars: Vec<Place>,
    outer: Option<usize>,
    /// Where a function's result goes.
    result: Option<Place>,
    /// States at its returns.
    returned: Vec<State>,
    /// It is an action or a function, so that its statements have no lines of their own in reports.
    called: bool,
}

impl Frame {
    fn of(vars: Vec<Place>, called: bool) -> Frame {
        Frame { vars, outer: None, result: None, returned: Vec::new(), called }
    }
}

struct Walk<'a> {
    program: &'a Program,
    arch: &'a Arch,
    frames: Vec<Frame>,
    fields: Fields,
    numbers: Numbers,
    ops: Vec<Op>,
    branches: u32,
    gress: Gress,
    early: BTreeSet<FieldId>,
    late: BTreeSet<FieldId>,
    exited: Vec<State>,
    /// What programs of ALUs return: the number of the value, the operation, and the field.
    returned: BTreeMap<u32, (OpId, FieldId)>,
    violations: Vec<Violation>,
}

/// Walks the blocks of a program in the order in which packets see them.
pub(crate) fn walk(program: &Program, arch: &Arch) -> Walked {
    let mut walk = Walk {
        program,
        arch,
        frames: Vec::new(),
        fields: Fields::default(),
        numbers: Numbers::default(),
        ops: Vec::new(),
        branches: 0,
        gress: Gress::Ingress,
        early: BTreeSet::new(),
        late: BTreeSet::new(),
        exited: Vec::new(),
        returned: BTreeMap::new(),
        violations: Vec::new(),
    };
    let mut shared: BTreeMap<(Option<Gress>, TypeId), Place> = BTreeMap::new();
    let mut state = State::default();
    for (name, block) in blocks(&program.package) {
        let known = arch.blocks.iter().find(|b| b.parameter == name);
        let gress = known.map_or(Gress::Ingress, |b| b.gress);
        if gress != walk.gress {
            // Another pass through the stages.
            (walk.gress, state) = (gress, State::default());
        }
        let phase = known.map_or(Phase::Stages, |b| b.phase);
        match block {
            BlockRef::Parser(id) => {
                let p = &program.parsers[id.index()];
                walk.enter(&p.name, &p.frame, &mut shared);
                walk.parser(id, 0);
            }
            BlockRef::Control(id) => {
                let c = &program.controls[id.index()];
                walk.enter(&c.name, &c.frame, &mut shared);
                state = walk.control(id, state, phase);
            }
        }
        walk.frames.clear();
    }
    let Walk { fields, ops, early, late, violations, .. } = walk;
    Walked { ops, fields: fields.all, early, late, violations }
}

#[derive(Clone, Copy)]
enum BlockRef {
    Parser(ParserId),
    Control(ControlId),
}

/// The blocks of a package, with those of packages inside it.
fn blocks(package: &Package) -> Vec<(&str, BlockRef)> {
    let found = |(name, arg): &'_ (String, PackageArg)| match arg {
        PackageArg::Parser(p) => vec![(name.clone(), BlockRef::Parser(*p))],
        PackageArg::Control(c) => vec![(name.clone(), BlockRef::Control(*c))],
        _ => Vec::new(),
    };
    let mut all = Vec::new();
    for arg in &package.args {
        match &arg.1 {
            PackageArg::Package(inner) => all.extend(blocks(inner)),
            _ => all.extend(found(arg).into_iter().map(|(_, b)| (arg.0.as_str(), b))),
        }
    }
    all
}

impl<'a> Walk<'a> {
    /// Makes the frame of a block. Parameters of one type are one variable in all blocks.
    fn enter(
        &mut self,
        name: &str,
        frame: &pointsman_ir::Frame,
        shared: &mut BTreeMap<(Option<Gress>, TypeId), Place>,
    ) {
        let gress = (!self.arch.shares).then_some(self.gress);
        let mut vars = Vec::new();
        for p in &frame.params {
            let new = || self.fields.variable(&p.name, p.ty, false);
            vars.push(shared.entry((gress, p.ty)).or_insert_with(new).clone());
        }
        for v in &frame.vars[frame.params.len()..] {
            vars.push(self.fields.variable(&format!("{name}.{}", v.name), v.ty, true));
        }
        self.frames.push(Frame::of(vars, false));
    }

    /// Walks a control of the architecture.
    fn control(&mut self, id: ControlId, state: State, phase: Phase) -> State {
        let control = &self.program.controls[id.index()];
        let around = Around {
            arms: Rc::default(),
            condition: Val::new(0),
            bits: 0,
            site: None,
            control: control.name.as_str().into(),
            span: control.span,
            at: control.span,
        };
        let ops = self.ops.len();
        let end = self.run(&control.body, state, around);
        let mut states: Vec<State> = end.map(|(state, _)| state).into_iter().collect();
        states.append(&mut self.exited);
        states.extend(self.frames.iter_mut().flat_map(|f| std::mem::take(&mut f.returned)));
        if phase == Phase::Outside {
            for op in self.ops.drain(ops..) {
                self.late.extend(op.reads);
            }
        }
        self.join_all(states).unwrap_or_default()
    }

    /// Marks what a parser writes. Its statements take no stage.
    fn parser(&mut self, id: ParserId, depth: u32) {
        let program = self.program;
        let parser = &program.parsers[id.index()];
        for body in parser.states.iter().map(|s| &s.body).chain([&parser.init]) {
            for s in body {
                self.parsed(s, depth);
            }
        }
    }

    fn parsed(&mut self, s: &'a Stmt, depth: u32) {
        match &s.kind {
            StmtKind::Assign(to, _)
            | StmtKind::Extract { header: to, .. }
            | StmtKind::Lookahead(to)
            | StmtKind::PacketLength(to)
            | StmtKind::SetValid(to) => {
                let fields = self.fields_of(to);
                self.early.extend(fields);
            }
            StmtKind::If(_, yes, no) => yes.iter().chain(no).for_each(|s| self.parsed(s, depth)),
            StmtKind::Call { callee: pointsman_ir::Callee::Parser(id), args, .. } if depth < 64 => {
                let inner = &self.program.parsers[id.index()];
                let vars = self.bind(&inner.name, &inner.frame, args);
                self.frames.push(Frame::of(vars, false));
                self.parser(*id, depth + 1);
                self.frames.pop();
            }
            _ => {}
        }
    }

    /// The value of a field that was not written.
    fn initial(fields: &Fields, field: FieldId, numbers: &mut Numbers) -> Val {
        let number = numbers.of(format!("field {field}"));
        let bits = fields.all[field as usize].bits;
        Val { sources: Rc::new([field].into()), bits, ..Val::new(number) }
    }

    fn join_all(&mut self, states: Vec<State>) -> Option<State> {
        let (fields, numbers) = (&self.fields, &mut self.numbers);
        states.into_iter().reduce(|a, b| a.join(b, numbers, |f, n| Walk::initial(fields, f, n)))
    }

    /// Adds an operation. `inputs` are what it needs, each with the dependency on it.
    fn emit(&mut self, what: What, inputs: &[(&Val, Dependency)], around: &Around, now: &mut State) -> OpId {
        let id = self.ops.len();
        let mut op = Op {
            what,
            alu: None,
            site: around.site,
            arms: around.arms.clone(),
            condition_bits: around.bits,
            deps: BTreeMap::new(),
            reads: BTreeSet::new(),
            writes: BTreeSet::new(),
            gress: self.gress,
            control: around.control.clone(),
            span: around.span,
            at: around.at,
        };
        for (val, dependency) in inputs.iter().copied().chain([(&around.condition, Dependency::Match)]) {
            for d in val.defs.iter() {
                // What a table decides reaches its own actions, and conditions on it, in the same stage.
                let same = d.outcome && (around.site == Some(d.op) || std::ptr::eq(val, &around.condition));
                let dependency = if same { Dependency::Control } else { dependency };
                let known = op.deps.entry(d.op).or_insert(dependency);
                *known = dependency.max(*known);
            }
            op.reads.extend(val.sources.iter());
        }
        for field in &op.reads {
            if !self.fields.all[*field as usize].local {
                Rc::make_mut(now.readers.entry(*field).or_default()).insert(id);
            }
        }
        self.ops.push(op);
        id
    }

    /// Notes that an operation writes a field, and what the field's value is then. `whole`: nothing of the old value is left.
    fn write(&mut self, op: OpId, field: FieldId, val: Val, whole: bool, around: &Around, now: &mut State) {
        self.ops[op].writes.insert(field);
        if !self.fields.all[field as usize].local {
            let writers = now.writers.entry(field).or_default();
            let readers = now.readers.remove(&field).unwrap_or_default();
            let before = writers.iter().map(|w| (*w, Dependency::Action));
            for (other, dependency) in before.chain(readers.iter().map(|r| (*r, Dependency::Reverse))) {
                // An action reads everything before it writes.
                if other != op
                    && !(dependency == Dependency::Reverse
                        && self.ops[other].site == around.site
                        && around.site.is_some())
                {
                    let known = self.ops[op].deps.entry(other).or_insert(dependency);
                    *known = dependency.max(*known);
                }
            }
            *writers = Rc::new([op].into());
        }
        self.set(field, val, whole, now);
    }

    /// Notes the value of a field.
    fn set(&mut self, field: FieldId, mut val: Val, whole: bool, now: &mut State) {
        if !whole {
            let old = now.values.remove(&field);
            let old = old.unwrap_or_else(|| Walk::initial(&self.fields, field, &mut self.numbers));
            val = Val { constant: None, number: self.numbers.fresh(), ..val.depends(&old) };
        }
        now.values.insert(field, val);
    }
}
