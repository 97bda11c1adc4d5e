//! Checks that a program is well formed: that every index is in range, every expression well typed, every construct
//! where it is allowed. Verified programs cannot make an executor panic, overflow its stack or allocate without bound.
//!
//! Two types are *the same* here if their representations are ([`Types::repr`]): after type checking, new types and
//! enums with representation are nothing but their values.

mod calls;
mod code;
mod expr;
mod tables;
mod types;

use crate::program::{Frame, Package, PackageArg, Program};
use crate::text::type_name;
use crate::types::{TypeId, Types};
use code::{Code, Kind};

/// The widest `bit`, `int` or `varbit`.
pub const MAX_WIDTH: u32 = 1 << 16;

/// Scalars in one type, and in all variables of one callable together.
pub const MAX_LEAVES: u64 = 1 << 16;

/// Bits in one type: all of a header, struct or stack.
pub const MAX_TOTAL_WIDTH: u64 = 1 << 24;

/// How deep types may be nested.
pub const MAX_TYPE_DEPTH: u32 = 32;

/// How deep statements and expressions may be nested, summed along every chain of calls: this bounds the stack of an
/// executor that recurses.
pub const MAX_NESTING: usize = 400;

/// Everything that is wrong with `program`, one message each; empty means that an executor can run it.
///
/// A message names the block and the statement in it: `control ingress: body[2].then[0]: ...`.
pub fn verify(program: &Program) -> Vec<String> {
    let mut report = Report { program, messages: Vec::new() };
    let Some(known) = types::check(&mut report) else { return report.messages };
    instances(&mut report);
    let frames_right = frames(&mut report, &known);
    if !frames_right {
        return report.messages;
    }
    let mut graph = calls::Graph::new(program);
    let controls = &program.controls;
    for (i, p) in program.parsers.iter().enumerate() {
        let mut code = Code::new(&mut report, &known, format!("parser {}", p.name), Kind::Parser, &p.frame);
        code.parser(p);
        graph.add(calls::Node::Parser(i), code.finish());
    }
    for (i, c) in controls.iter().enumerate() {
        let mut code =
            Code::new(&mut report, &known, format!("control {}", c.name), Kind::Control(i), &c.frame);
        code.root(&c.body);
        graph.add(calls::Node::Control(i), code.finish());
    }
    for (i, a) in program.actions.iter().enumerate() {
        let outer = a.control.and_then(|c| controls.get(c.index()));
        let kind = Kind::Action(a.control.map(|c| c.index()));
        let mut code = Code::new(&mut report, &known, format!("action {}", a.name), kind, &a.frame);
        code.outer = outer.map(|c| &c.frame);
        code.root(&a.body);
        graph.add(calls::Node::Action(i), code.finish());
    }
    for (i, f) in program.functions.iter().enumerate() {
        let kind = Kind::Function(f.returns);
        let mut code = Code::new(&mut report, &known, format!("function {}", f.name), kind, &f.frame);
        code.root(&f.body);
        graph.add(calls::Node::Function(i), code.finish());
    }
    for (i, t) in program.tables.iter().enumerate() {
        let work = tables::check(&mut report, &known, t);
        graph.add(calls::Node::Table(i), work);
    }
    graph.check(&mut report);
    report.messages
}

/// The messages so far.
pub(crate) struct Report<'a> {
    program: &'a Program,
    messages: Vec<String>,
}

impl<'a> Report<'a> {
    fn add(&mut self, place: &str, message: impl AsRef<str>) {
        self.messages.push(format!("{place}: {}", message.as_ref()));
    }

    fn types(&self) -> &'a Types {
        &self.program.types
    }

    fn name(&self, ty: TypeId) -> String {
        type_name(self.types(), ty)
    }
}

/// Whether the two types are the same at run time. Both must be of the table.
fn same(types: &Types, a: TypeId, b: TypeId) -> bool {
    types.repr(a) == types.repr(b)
}

/// Externs, value sets and the package.
fn instances(report: &mut Report<'_>) {
    let program = report.program;
    if program.errors.first().is_some_and(|e| e != "NoError") {
        report.add("errors", "the first error must be NoError");
    }
    for e in &program.externs {
        if let Some(ty) = e.type_args.iter().find(|ty| !program.types.contains(**ty)) {
            report.add(&format!("extern {}", e.name), format!("there is no type {}", ty.0));
        }
    }
    for m in &program.implementations {
        let function = program.functions.get(m.function.index());
        if m.object.index() >= program.externs.len()
            || function.is_none_or(|f| f.frame.params.len() < m.captures.len())
        {
            report
                .add(&format!("implementation of {}", m.method), "its object or its function does not exist");
        }
    }
    for set in &program.value_sets {
        let place = format!("value set {}", set.name);
        if !program.types.contains(set.elem) {
            report.add(&place, format!("there is no type {}", set.elem.0));
        } else if let Some(ty) = fields_of_value_set(&program.types, set.elem)
            .into_iter()
            .find(|ty| program.types.scalar_width(*ty).is_none())
        {
            let name = report.name(ty);
            report
                .add(&place, format!("{name} cannot be matched; elements are scalars or structs of scalars"));
        }
    }
    package(report, &program.package);
}

/// Types of the expressions that a value set with these elements matches.
fn fields_of_value_set(types: &Types, elem: TypeId) -> Vec<TypeId> {
    match types.repr_type(elem) {
        crate::Type::Struct(d) => d.fields.iter().map(|f| f.ty).collect(),
        crate::Type::Tuple(t) => t.clone(),
        _ => vec![elem],
    }
}

fn package(report: &mut Report<'_>, package: &Package) {
    let program = report.program;
    for (name, arg) in &package.args {
        let there = match arg {
            PackageArg::Parser(i) => i.index() < program.parsers.len(),
            PackageArg::Control(i) => i.index() < program.controls.len(),
            PackageArg::Extern(i) => i.index() < program.externs.len(),
            PackageArg::Const(_) => true,
            PackageArg::Package(inner) => {
                self::package(report, inner);
                true
            }
        };
        if !there {
            report.add(&format!("package {}", package.name), format!("argument {name} names nothing"));
        }
    }
}

/// Frames, and that actions name their control: the checks of code rely on both.
fn frames(report: &mut Report<'_>, known: &types::Known) -> bool {
    let program = report.program;
    let before = report.messages.len();
    for p in &program.parsers {
        frame(report, known, &format!("parser {}", p.name), &p.frame);
    }
    for c in &program.controls {
        frame(report, known, &format!("control {}", c.name), &c.frame);
    }
    for f in &program.functions {
        let place = format!("function {}", f.name);
        frame(report, known, &place, &f.frame);
        if !program.types.contains(f.returns) {
            report.add(&place, format!("there is no type {}", f.returns.0));
        }
    }
    for a in &program.actions {
        let place = format!("action {}", a.name);
        frame(report, known, &place, &a.frame);
        if a.control.is_some_and(|c| c.index() >= program.controls.len()) {
            report.add(&place, "its control does not exist");
        }
        let data = |p: &&crate::Param| p.direction == crate::Direction::None;
        let directed = a.frame.params.iter().take_while(|p| !data(p)).count();
        if a.frame.params.iter().skip(directed).any(|p| !data(&p)) {
            report.add(&place, "parameters with a direction must come before those without");
        }
    }
    report.messages.len() == before
}

fn frame(report: &mut Report<'_>, known: &types::Known, place: &str, frame: &Frame) {
    let mut leaves = 0;
    for (i, var) in frame.vars.iter().enumerate() {
        match known.why_not_variable(report.types(), var.ty) {
            None => leaves += known.leaves(var.ty),
            Some(why) => report.add(place, format!("variable {} ({}): {why}", i, var.name)),
        }
    }
    if leaves > MAX_LEAVES {
        report.add(place, format!("its variables hold {leaves} values, more than {MAX_LEAVES}"));
    }
    let types = report.types();
    for (i, param) in frame.params.iter().enumerate() {
        let fits = frame
            .vars
            .get(i)
            .is_some_and(|v| types.contains(param.ty) && types.contains(v.ty) && same(types, v.ty, param.ty));
        if !fits {
            report.add(place, format!("parameter {i} ({}) is not variable {i}", param.name));
        }
    }
}
