//! A program checked and bound to the architecture.

use crate::counter::CounterKind;
use crate::externs::{self, Function, InstancePlan, Place};
use crate::fields::{FieldList, StdFields, field_lists};
use crate::hash::HashAlgorithm;
use crate::meter::MeterKind;
use crate::problem::Problem;
use crate::program_id::ProgramId;
use crate::sections::Sections;
use crate::sites;
use crate::tables::{Attached, TableState};
use crate::usage::{Reads, Unit, usage};
use pointsman_ir::{
    CellShape, Const, ControlId, ExternInstanceId, PackageArg, Param, ParserId, Program, TableId, TypeId,
    Value, verify,
};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

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

impl Blocks {
    /// The blocks with their places.
    fn units(&self) -> [(Unit, Place); 6] {
        [
            (Unit::Parser(self.parser), Place::Parser),
            (Unit::Control(self.verify), Place::Verify),
            (Unit::Control(self.ingress), Place::Ingress),
            (Unit::Control(self.egress), Place::Egress),
            (Unit::Control(self.compute), Place::Compute),
            (Unit::Control(self.deparser), Place::Deparser),
        ]
    }
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
    pub(crate) field_lists: BTreeMap<u32, FieldList>,
    /// The headers in the user metadata.
    pub(crate) meta_headers: FieldList,
    /// Positions of asserts and assumes.
    pub(crate) places: Vec<Option<Arc<str>>>,
    /// Whether egress reads `packet_length`. Then ingress must keep track of the headers' lengths.
    pub(crate) egress_reads_length: bool,
    /// Fields of `standard_metadata` that the program reads: the others are unobservable.
    pub(crate) std_reads: Reads,
    /// Fields of the user metadata that are read behind the traffic manager: by blocks, or to be kept for a copy of the packet.
    pub(crate) late_reads: Reads,
    /// Blocks that several workers must not run at the same time.
    pub(crate) sections: Sections,
    /// The parser calls no externs, so it depends on the packet and on value sets alone.
    pub(crate) parser_is_pure: bool,
    /// Made when it is asked for.
    pub(crate) id: OnceLock<ProgramId>,
}

impl Pipeline {
    /// Finds the blocks of `program`, binds them and checks everything that the architecture relies on.
    pub fn load(program: impl Into<Arc<Program>>) -> Result<Pipeline, Vec<Problem>> {
        let mut program: Arc<Program> = program.into();
        // Everything below relies on a program that is sound in itself.
        let unsound = verify::verify(&program);
        if !unsound.is_empty() {
            return Err(unsound.into_iter().map(Problem::new).collect());
        }
        let mut problems = Vec::new();
        let bound = bind_blocks(&program, &mut problems);
        let functions = collect(&mut problems, program.extern_fns.iter().map(externs::resolve_function));
        let mut instances =
            collect(&mut problems, program.externs.iter().map(|e| externs::plan_instance(&program, e)));
        let algorithms = externs::hash_algorithms(&program).unwrap_or_else(|p| {
            problems.push(p);
            Vec::new()
        });
        check_size(&instances, &mut problems);
        let mut tables = Vec::new();
        if problems.is_empty() {
            tables = load_tables(&program, &mut instances, &mut problems);
        }
        let Some((blocks, slots, std)) = bound else { return Err(problems) };
        if problems.is_empty() {
            check_placement(&program, &blocks, &functions, &mut problems);
        }
        let mut field_lists = field_lists(&program.types, slots[META], &mut problems);
        let fixed = [std.instance_type, std.packet_length];
        let sites = sites::rewrite(&mut program, &functions, slots, &fixed, &mut problems);
        field_lists.extend(sites.lists);
        if !problems.is_empty() {
            return Err(problems);
        }
        let meta_headers = FieldList::of_headers(&program.types, slots[META], META);
        let mut std_reads = Reads::default();
        for (unit, _) in blocks.units() {
            std_reads.add(&usage(&program, unit, slots[STD]).reads);
        }
        let late_reads =
            late_reads(&program, &blocks, slots[META], field_lists.values().chain([&meta_headers]));
        let parser = usage(&program, Unit::Parser(blocks.parser), slots[STD]);
        let egress = usage(&program, Unit::Control(blocks.egress), slots[STD]);
        Ok(Pipeline {
            parser_is_pure: parser.externs.is_empty(),
            egress_reads_length: egress.reads.has(std.packet_length),
            std_reads,
            late_reads,
            sections: Sections::new(
                &program,
                &functions,
                &blocks.units().map(|(unit, _)| unit),
                |register| matches!(instances.get(register.index()), Some(InstancePlan::Register { width, .. }) if *width <= 64),
            ),
            program,
            blocks,
            slots,
            std,
            functions,
            instances,
            tables,
            algorithms,
            field_lists,
            meta_headers,
            places: sites.places,
            id: OnceLock::new(),
        })
    }

    /// The arrays of registers and counters, by extern instance.
    pub(crate) fn cells(&self) -> Vec<CellShape> {
        self.instances.iter().zip(&self.program.externs).map(|(plan, e)| plan.cells(&e.name)).collect()
    }

    /// Which program it is.
    pub fn program_id(&self) -> &ProgramId {
        self.id.get_or_init(|| ProgramId::new(&self.program, self.blocks.ingress))
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

/// Checks that the arrays fit into memory.
fn check_size(instances: &[InstancePlan], problems: &mut Vec<Problem>) {
    let bytes: u64 = instances.iter().map(InstancePlan::bytes).fold(0, u64::saturating_add);
    if bytes > MAX_STATE_BYTES {
        problems.push(Problem::new(format!(
            "registers, counters and meters need {} MiB together; at most {} MiB are allowed: \
             make them smaller",
            bytes >> 20,
            MAX_STATE_BYTES >> 20
        )));
    }
}

/// The fields of the user metadata that are read behind the traffic manager.
fn late_reads<'a>(
    program: &Program,
    blocks: &Blocks,
    meta: TypeId,
    lists: impl Iterator<Item = &'a FieldList>,
) -> Reads {
    let mut reads = Reads::default();
    for control in [blocks.egress, blocks.compute, blocks.deparser] {
        reads.add(&usage(program, Unit::Control(control), meta).reads);
    }
    for list in lists {
        reads.add(&list.of_slot(META));
    }
    reads
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
    check_params(program, &blocks, slots, problems);
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

/// Checks that all controls have the parameters of their place, with the types of the parser's.
fn check_params(program: &Program, blocks: &Blocks, slots: [TypeId; 3], problems: &mut Vec<Problem>) {
    let parser = &program.parsers[blocks.parser.index()];
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
}

fn wrong_params(block: &str, want: usize, got: usize) -> String {
    format!("{block} has {got} parameters besides the packet; V1Switch wants {want}")
}

/// Checks that externs are called only in the blocks where they have a meaning.
fn check_placement(program: &Program, blocks: &Blocks, functions: &[Function], problems: &mut Vec<Problem>) {
    for (unit, block) in blocks.units() {
        let used = usage(program, unit, TypeId(u32::MAX));
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
            Err(p) => problems.push(p),
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::program;
    use pointsman_ir::{
        Arg, Expr, ExprKind, ExternFn, ExternInstance, Span, Stmt, StmtKind, StructDef, Type,
    };

    /// Changes a good program; `expected` is part of the one resulting problem.
    fn check(change: impl FnOnce(&mut Program), expected: &str) {
        let mut p = program();
        change(&mut p);
        match Pipeline::load(p) {
            Ok(_) => assert_eq!(expected, "fine"),
            Err(problems) => {
                assert_eq!(problems.len(), 1, "{problems:?}");
                assert!(problems[0].message.contains(expected), "{problems:?}");
            }
        }
    }

    fn instance(object: &str, size: i32) -> ExternInstance {
        ExternInstance {
            name: "ingress.x".into(),
            object: object.into(),
            type_args: vec![],
            args: vec![("size".into(), Const::Int(size.into()))],
            annotations: Default::default(),
            span: Span::default(),
        }
    }

    fn function(object: Option<&str>, name: &str, params: usize) -> ExternFn {
        ExternFn {
            object: object.map(Into::into),
            name: name.into(),
            params: vec!["p".into(); params],
            span: Span::default(),
        }
    }

    /// Adds a call of the function at the end of `control`.
    fn call(p: &mut Program, control: usize, f: ExternFn) {
        p.extern_fns.push(f);
        let function = pointsman_ir::ExternFnId(p.extern_fns.len() as u32 - 1);
        let callee = pointsman_ir::Callee::Extern { function, instance: None };
        let ty = p.types.intern(Type::Bit(8));
        let arg = Expr { kind: ExprKind::Const(crate::fake::bits(8, 0)), ty, span: Span::default() };
        let args = p.extern_fns[function.index()].params.iter().map(|_| Arg::In(arg.clone())).collect();
        let kind = StmtKind::Call { result: None, callee, type_args: vec![], args };
        p.controls[control].body.push(Stmt { kind, span: Span::default() });
    }

    #[test]
    fn says_what_is_wrong() {
        check(|_| {}, "fine");
        check(|p| p.package.name = "PSA_Switch".into(), "PSA_Switch");
        check(|p| p.package.args.retain(|(n, _)| n != "ck"), "argument ck");
        check(|p| p.package.args[0].1 = PackageArg::Control(ControlId(0)), "argument p");
        let fewer = |p: &mut Program| {
            p.controls[2].frame.params.pop();
            p.controls[2].frame.vars.pop();
        };
        check(fewer, "E has 2 parameters");
        let another_type = |p: &mut Program| {
            let ty = p.types.intern(Type::Bit(77));
            p.controls[1].frame.params[1].ty = ty;
            p.controls[1].frame.vars[1].ty = ty;
        };
        check(another_type, "another type");
        check(|p| p.extern_fns.push(function(None, "teleport", 1)), "teleport");
        check(|p| p.extern_fns.push(function(Some("register"), "swap", 2)), "register.swap");
        check(|p| p.extern_fns.push(function(None, "clone3", 3)), "fine");
        check(|p| p.externs.push(instance("oracle", 1)), "oracle");
        check(|p| p.externs.push(instance("register", 1)), "bit<W>");
        let register = |p: &mut Program, size: i32| {
            let elem = p.types.intern(Type::Bit(32));
            p.externs.push(ExternInstance { type_args: vec![elem], ..instance("register", size) });
        };
        check(|p| register(p, 10), "fine");
        check(|p| register(p, 0), "size is 0");
        check(|p| register(p, -1), "fits 64 bits");
        check(|p| register(p, i32::MAX), "MiB");
        check(|p| p.externs.push(instance("counter", 1)), "CounterType");
    }

    #[test]
    fn externs_have_their_places() {
        let resubmit = || function(None, "resubmit_preserving_field_list", 1);
        check(|p| call(p, 1, resubmit()), "fine");
        check(|p| call(p, 2, resubmit()), "no meaning in egress: call it in ingress");
        check(|p| call(p, 2, function(None, "recirculate_preserving_field_list", 1)), "fine");
        check(|p| call(p, 1, function(None, "recirculate_preserving_field_list", 1)), "call it in egress");
        check(|p| call(p, 0, function(None, "verify_checksum", 4)), "fine");
        check(|p| call(p, 1, function(None, "verify_checksum", 4)), "fine");
        check(|p| call(p, 2, function(None, "verify_checksum", 4)), "no meaning in egress");
        check(|p| call(p, 3, function(None, "clone", 2)), "no meaning in the checksum update");
    }

    #[test]
    fn standard_metadata_is_checked() {
        let change = |f: fn(&mut StructDef, &mut pointsman_ir::Types)| {
            let mut p = program();
            let old = p.parsers[0].frame.params[2].ty;
            let mut def = p.types.struct_def(old).cloned().unwrap();
            f(&mut def, &mut p.types);
            let new = p.types.intern(Type::Struct(def));
            for frame in
                [&mut p.parsers[0].frame].into_iter().chain(p.controls[1..3].iter_mut().map(|c| &mut c.frame))
            {
                frame.params[2].ty = new;
                frame.vars[2].ty = new;
            }
            let problems = Pipeline::load(p).err().unwrap_or_default();
            problems.into_iter().map(|p| p.message).collect::<Vec<_>>().join("; ")
        };
        // Fields are found by name, so their order does not matter and more of them do no harm.
        assert_eq!(change(|d, _| d.fields.reverse()), "");
        let gone = change(|d, _| d.fields.retain(|f| f.name != "egress_rid" && f.name != "priority"));
        assert!(gone.contains("no field egress_rid") && gone.contains("no field priority"), "{gone}");
        let wide = change(|d, types| d.fields[5].ty = types.intern(Type::Bit(48)));
        assert!(wide.contains("enq_timestamp"), "{wide}");
        let ports = change(|d, types| d.fields[0].ty = types.intern(Type::Bit(16)));
        assert!(ports.contains("one type"), "{ports}");
    }
}
