//! A program checked and bound to the architecture.

use crate::counter::CounterKind;
use crate::externs::{self, Function, InstancePlan, Place};
use crate::fields::{FieldList, StdFields, field_lists};
use crate::hash::HashAlgorithm;
use crate::meter::MeterKind;
use crate::tables::{Attached, TableState};
use crate::usage::{Unit, usage};
use pointsman_ir::{
    Const, ControlId, ExternInstanceId, PackageArg, Param, ParserId, Program, Span, TableId, TypeId, Value,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is wrong with a program for this architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong and what to do about it.
    pub message: String,
    /// Where in the source, if it is one place.
    pub span: Option<Span>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Problem { message: message.into(), span: None }
    }

    pub(crate) fn at(span: Span, message: impl Into<String>) -> Self {
        Problem { message: message.into(), span: Some(span) }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// Frame slot of the parsed headers.
pub(crate) const HEADERS: usize = 0;
/// Frame slot of the user's metadata.
pub(crate) const META: usize = 1;
/// Frame slot of `standard_metadata`.
pub(crate) const STD: usize = 2;

/// Slots of the blocks that see everything.
pub(crate) const ALL_SLOTS: &[usize] = &[HEADERS, META, STD];
/// Slots of the checksum blocks.
pub(crate) const CHECKSUM_SLOTS: &[usize] = &[HEADERS, META];
/// Slots of the deparser.
pub(crate) const DEPARSER_SLOTS: &[usize] = &[HEADERS];

/// More than this for all registers, counters and meters of a program is surely a mistake.
const MAX_STATE_BYTES: u64 = 4 << 30;

/// The six blocks of `V1Switch`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    pub parser: ParserId,
    pub verify: ControlId,
    pub ingress: ControlId,
    pub egress: ControlId,
    pub compute: ControlId,
    pub deparser: ControlId,
}

/// A program that this architecture can run.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub(crate) program: Arc<Program>,
    pub(crate) blocks: Blocks,
    /// Types of headers, user metadata and standard metadata.
    pub(crate) slots: [TypeId; 3],
    pub(crate) std: StdFields,
    pub(crate) functions: Vec<Function>,
    pub(crate) instances: Vec<InstancePlan>,
    /// As they are before the control plane touches them.
    pub(crate) tables: Vec<TableState>,
    pub(crate) algorithms: Vec<HashAlgorithm>,
    pub(crate) field_lists: BTreeMap<u8, FieldList>,
    /// Does egress look at `packet_length`? Then it is worth knowing what ingress did to the headers.
    pub(crate) egress_reads_length: bool,
}

impl Pipeline {
    /// Finds the blocks of `program`, binds them and checks everything that the architecture relies on.
    pub fn load(program: impl Into<Arc<Program>>) -> Result<Pipeline, Vec<Problem>> {
        let program: Arc<Program> = program.into();
        let mut problems = Vec::new();
        let bound = bind_blocks(&program, &mut problems);
        let functions = collect(&mut problems, program.extern_fns.iter().map(externs::resolve_function));
        let mut instances =
            collect(&mut problems, program.externs.iter().map(|e| externs::plan_instance(&program, e)));
        let algorithms = externs::hash_algorithms(&program).unwrap_or_else(|p| {
            problems.push(p);
            Vec::new()
        });
        let bytes: u64 = instances.iter().map(InstancePlan::bytes).fold(0, u64::saturating_add);
        if bytes > MAX_STATE_BYTES {
            problems.push(Problem::new(format!(
                "registers, counters and meters need {} MiB together; at most {} MiB are allowed: \
                 make them smaller",
                bytes >> 20,
                MAX_STATE_BYTES >> 20
            )));
        }
        let mut tables = Vec::new();
        if problems.is_empty() {
            tables = load_tables(&program, &mut instances, &mut problems);
        }
        let Some((blocks, slots, std)) = bound else { return Err(problems) };
        let egress_reads_length = if problems.is_empty() {
            check_placement(&program, &blocks, &functions, slots[STD], std.packet_length, &mut problems)
        } else {
            false
        };
        let field_lists = field_lists(&program.types, slots[META], &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Pipeline {
            program,
            blocks,
            slots,
            std,
            functions,
            instances,
            tables,
            algorithms,
            field_lists,
            egress_reads_length,
        })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Width in bits of a port number.
    pub fn port_width(&self) -> u32 {
        self.std.port_width
    }
}

fn collect<T>(problems: &mut Vec<Problem>, items: impl Iterator<Item = Result<T, Problem>>) -> Vec<T> {
    items
        .filter_map(|item| match item {
            Ok(t) => Some(t),
            Err(p) => {
                problems.push(p);
                None
            }
        })
        .collect()
}

type Bound = (Blocks, [TypeId; 3], StdFields);

fn bind_blocks(program: &Program, problems: &mut Vec<Problem>) -> Option<Bound> {
    let package = &program.package;
    if package.name != "V1Switch" {
        problems.push(Problem::new(format!(
            "the package main is a {}, not a V1Switch: this switch runs v1model programs",
            if package.name.is_empty() { "nothing" } else { &package.name }
        )));
        return None;
    }
    let before = problems.len();
    let mut control = |name: &str| match package.arg(name) {
        Some(PackageArg::Control(c)) if c.index() < program.controls.len() => Some(*c),
        _ => {
            problems.push(Problem::new(format!("argument {name} of V1Switch is not a control")));
            None
        }
    };
    let (verify, ingress, egress) = (control("vr"), control("ig"), control("eg"));
    let (compute, deparser) = (control("ck"), control("dep"));
    let parser = match package.arg("p") {
        Some(PackageArg::Parser(p)) if p.index() < program.parsers.len() => Some(*p),
        _ => {
            problems.push(Problem::new("argument p of V1Switch is not a parser"));
            None
        }
    };
    let blocks = Blocks {
        parser: parser?,
        verify: verify?,
        ingress: ingress?,
        egress: egress?,
        compute: compute?,
        deparser: deparser?,
    };
    let parser = &program.parsers[blocks.parser.index()];
    let [h, m, s] = parser.frame.params.as_slice() else {
        problems.push(Problem::at(parser.span, wrong_params(&parser.name, 3, parser.frame.params.len())));
        return None;
    };
    let slots = [h.ty, m.ty, s.ty];
    for (id, count) in [
        (blocks.verify, 2),
        (blocks.ingress, 3),
        (blocks.egress, 3),
        (blocks.compute, 2),
        (blocks.deparser, 1),
    ] {
        let c = &program.controls[id.index()];
        let params: &[Param] = &c.frame.params;
        if params.len() != count {
            problems.push(Problem::at(c.span, wrong_params(&c.name, count, params.len())));
        }
        for (p, ty) in params.iter().zip(slots) {
            if p.ty != ty {
                problems.push(Problem::at(
                    c.span,
                    format!(
                        "parameter {} of {} has another type than in {}: all blocks of V1Switch share \
                         their headers and metadata",
                        p.name, c.name, parser.name
                    ),
                ));
            }
        }
    }
    let std = match StdFields::bind(&program.types, slots[STD]) {
        Ok(std) => Some(std),
        Err(mut p) => {
            problems.append(&mut p);
            None
        }
    };
    if program.types.struct_def(slots[HEADERS]).is_none() {
        problems.push(Problem::at(parser.span, format!("the headers of {} are not a struct", parser.name)));
    }
    (problems.len() == before).then_some((blocks, slots, std?))
}

fn wrong_params(block: &str, want: usize, got: usize) -> String {
    format!("{block} has {got} parameters besides the packet; V1Switch wants {want}")
}

/// Are externs called only in the blocks where they have a meaning? Gives whether egress reads the packet's length.
fn check_placement(
    program: &Program,
    blocks: &Blocks,
    functions: &[Function],
    std: TypeId,
    length: u32,
    problems: &mut Vec<Problem>,
) -> bool {
    let mut egress_reads_length = false;
    for (unit, block) in [
        (Unit::Parser(blocks.parser), Place::Parser),
        (Unit::Control(blocks.verify), Place::Verify),
        (Unit::Control(blocks.ingress), Place::Ingress),
        (Unit::Control(blocks.egress), Place::Egress),
        (Unit::Control(blocks.compute), Place::Compute),
        (Unit::Control(blocks.deparser), Place::Deparser),
    ] {
        let used = usage(program, unit, std, length);
        if block == Place::Egress {
            egress_reads_length = used.reads_field;
        }
        for (function, span) in used.externs {
            let Some(f) = functions.get(function.index()) else { continue };
            if !f.allowed(block) {
                let name = &program.extern_fns[function.index()].name;
                problems.push(Problem::at(
                    span,
                    format!("{name} has no meaning in {}: call it in {}", block.name(), f.home()),
                ));
            }
        }
    }
    egress_reads_length
}

fn load_tables(
    program: &Program,
    instances: &mut [InstancePlan],
    problems: &mut Vec<Problem>,
) -> Vec<TableState> {
    let mut owners: BTreeMap<ExternInstanceId, TableId> = BTreeMap::new();
    let mut tables = Vec::new();
    for (i, table) in program.tables.iter().enumerate() {
        let id = TableId(i as u32);
        let mut attached = Attached::default();
        for (property, ext) in &table.extern_properties {
            let plan = instances.get_mut(ext.index());
            let direct =
                matches!(plan, Some(InstancePlan::DirectCounter { .. } | InstancePlan::DirectMeter { .. }));
            match (property.as_str(), plan) {
                ("counters", Some(InstancePlan::DirectCounter { kind })) => {
                    attached.counter = Some::<CounterKind>(*kind);
                }
                ("meters", Some(InstancePlan::DirectMeter { kind })) => {
                    attached.meter = Some::<(_, MeterKind)>((*ext, *kind));
                }
                ("implementation", Some(InstancePlan::Profile { tables: users, .. })) => {
                    if let Some(other) = users.first() {
                        let actions = |t: &pointsman_ir::Table| -> Vec<_> {
                            t.actions.iter().map(|a| a.action).collect()
                        };
                        let other = &program.tables[other.index()];
                        if actions(other) != actions(table) {
                            problems.push(Problem::at(
                                table.span,
                                format!(
                                    "tables {} and {} share an action profile but list different actions: \
                                     list the same ones in the same order",
                                    other.name, table.name
                                ),
                            ));
                        }
                    }
                    users.push(id);
                    attached.profile = Some(*ext);
                }
                _ => problems.push(Problem::at(
                    table.span,
                    format!(
                        "property {property} of table {} is not supported, or not with this object",
                        table.name
                    ),
                )),
            }
            if direct && let Some(other) = owners.insert(*ext, id) {
                let other = &program.tables[other.index()].name;
                problems.push(Problem::at(
                    table.span,
                    format!(
                        "tables {other} and {} share a direct counter or meter: give each its own",
                        table.name
                    ),
                ));
            }
        }
        for (property, value) in &table.const_properties {
            // Other constant properties are hints for other targets and change nothing here.
            if let ("support_timeout", Const::Value(Value::Bool(b))) = (property.as_str(), value) {
                attached.idle_timeouts = *b;
            }
        }
        match TableState::new(program, table, attached) {
            Ok(t) => tables.push(t),
            Err(m) => problems.push(Problem::at(table.span, m)),
        }
    }
    tables
}
