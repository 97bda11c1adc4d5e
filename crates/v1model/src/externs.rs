//! Extern functions and objects of v1model, resolved once when a program is loaded.

use crate::counter::{CounterArray, CounterKind};
use crate::hash::HashAlgorithm;
use crate::meter::{MeterArray, MeterKind};
use crate::problem::Problem;
use crate::profile::{ActionProfile, SelectorConfig, Users};
use crate::register::Register;
use pointsman_ir::{CellShape, Const, ExternFn, ExternInstance, Program, TableId, Type, TypeId, Value};

/// An extern function or method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    MarkToDrop,
    MarkToDropOld,
    RegisterRead,
    RegisterWrite,
    Count,
    DirectCount,
    ExecuteMeter,
    DirectMeterRead,
    Hash,
    VerifyChecksum {
        payload: bool,
    },
    UpdateChecksum {
        payload: bool,
    },
    Clone,
    ClonePreserving,
    /// `clone3`: its last argument is the number of a field list ([`crate::sites`]).
    CloneData,
    Resubmit,
    /// `resubmit`, likewise.
    ResubmitData,
    Recirculate,
    /// `recirculate`, likewise.
    RecirculateData,
    Truncate,
    Random,
    Digest,
    Assert,
    Assume,
    LogMsg,
    Checksum16Get,
    AtomicBegin,
    AtomicEnd,
}

/// A block of the architecture, as a place of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Parser,
    Verify,
    Ingress,
    Egress,
    Compute,
    Deparser,
}

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Place::Parser => "the parser",
            Place::Verify => "the checksum verification",
            Place::Ingress => "ingress",
            Place::Egress => "egress",
            Place::Compute => "the checksum update",
            Place::Deparser => "the deparser",
        }
    }
}

impl Function {
    /// Whether a call in this block has an effect. Elsewhere it would be silently lost.
    pub fn allowed(self, place: Place) -> bool {
        match self {
            Function::Clone | Function::ClonePreserving | Function::CloneData | Function::Truncate => {
                matches!(place, Place::Ingress | Place::Egress)
            }
            Function::MarkToDrop | Function::MarkToDropOld => {
                matches!(place, Place::Parser | Place::Ingress | Place::Egress)
            }
            Function::Resubmit | Function::ResubmitData | Function::Digest => place == Place::Ingress,
            Function::Recirculate | Function::RecirculateData => place == Place::Egress,
            Function::VerifyChecksum { .. } => {
                matches!(place, Place::Parser | Place::Verify | Place::Ingress)
            }
            _ => true,
        }
    }

    /// Whether its last argument is a list of metadata.
    pub fn takes_list(self) -> bool {
        matches!(self, Function::CloneData | Function::ResubmitData | Function::RecirculateData)
    }

    /// Whether it reports its position.
    pub fn is_check(self) -> bool {
        matches!(self, Function::Assert | Function::Assume)
    }

    /// Where it belongs.
    pub fn home(self) -> &'static str {
        match self {
            Function::Resubmit | Function::ResubmitData | Function::Digest => "ingress",
            Function::Recirculate | Function::RecirculateData => "egress",
            Function::VerifyChecksum { .. } => "the checksum verification or ingress",
            _ => "ingress or egress",
        }
    }
}

/// Finds out which function this is.
pub(crate) fn resolve_function(f: &ExternFn) -> Result<Function, Problem> {
    use Function::*;
    let params = f.params.len();
    let full = match &f.object {
        Some(o) => format!("{o}.{}", f.name),
        None => f.name.clone(),
    };
    Ok(match (full.as_str(), params) {
        ("mark_to_drop", 1) => MarkToDrop,
        ("mark_to_drop", 0) => MarkToDropOld,
        ("register.read", 2) => RegisterRead,
        ("register.write", 2) => RegisterWrite,
        ("counter.count", 1) => Count,
        ("direct_counter.count", 0) => DirectCount,
        ("meter.execute_meter", 2) => ExecuteMeter,
        ("direct_meter.read", 1) => DirectMeterRead,
        ("hash", 5) => Hash,
        ("verify_checksum", 4) => VerifyChecksum { payload: false },
        ("verify_checksum_with_payload", 4) => VerifyChecksum { payload: true },
        ("update_checksum", 4) => UpdateChecksum { payload: false },
        ("update_checksum_with_payload", 4) => UpdateChecksum { payload: true },
        ("clone", 2) => Clone,
        ("clone_preserving_field_list", 3) => ClonePreserving,
        ("resubmit_preserving_field_list", 1) => Resubmit,
        ("recirculate_preserving_field_list", 1) => Recirculate,
        ("truncate", 1) => Truncate,
        ("random", 3) => Random,
        ("digest", 2) => Digest,
        ("assert", 1) => Assert,
        ("assume", 1) => Assume,
        ("log_msg", 1 | 2) => LogMsg,
        ("Checksum16.get", 1) => Checksum16Get,
        (pointsman_ir::ATOMIC_BEGIN, 0) => AtomicBegin,
        (pointsman_ir::ATOMIC_END, 0) => AtomicEnd,
        ("clone3", 3) => CloneData,
        ("resubmit", 1) => ResubmitData,
        ("recirculate", 1) => RecirculateData,
        _ => {
            return Err(Problem::at(
                f.span,
                format!("the extern {full} with {params} parameters is not part of v1model"),
            ));
        }
    })
}

/// The checked description of an extern object; enough to make its state.
#[derive(Clone, Debug)]
pub(crate) enum InstancePlan {
    Register { elem: TypeId, width: u32, size: usize },
    Counter { kind: CounterKind, size: usize },
    DirectCounter { kind: CounterKind },
    Meter { kind: MeterKind, size: usize },
    DirectMeter { kind: MeterKind },
    Profile { size: u64, selector: Option<SelectorConfig>, tables: Vec<TableId> },
    Checksum16,
}

/// The state of an extern object.
#[derive(Clone, Debug)]
pub(crate) enum Instance {
    Register(Register),
    Counter(CounterArray),
    /// Its cells are among [`Hits`](crate::state::Hits).
    DirectCounter,
    Meter(MeterArray),
    /// Its cells lie with the entries of its table.
    DirectMeter,
    Profile(ActionProfile),
    Checksum16,
}

impl InstancePlan {
    pub(crate) fn build(&self, program: &Program) -> Instance {
        match self {
            InstancePlan::Register { elem, width, size } => {
                Instance::Register(Register::new(*elem, *width, *size as u64))
            }
            InstancePlan::Counter { kind, size } => Instance::Counter(CounterArray::new(*kind, *size as u64)),
            InstancePlan::DirectCounter { .. } => Instance::DirectCounter,
            InstancePlan::Meter { kind, size } => Instance::Meter(MeterArray::new(*kind, *size)),
            InstancePlan::DirectMeter { .. } => Instance::DirectMeter,
            InstancePlan::Profile { size, selector, tables } => {
                Instance::Profile(ActionProfile::new(*size, *selector).used_by(Users::new(program, tables)))
            }
            InstancePlan::Checksum16 => Instance::Checksum16,
        }
    }

    /// The cells of an object of this name.
    pub(crate) fn cells(&self, name: &str) -> CellShape {
        match self {
            InstancePlan::Register { width, size, .. } => CellShape::register(name, *width, *size as u64),
            InstancePlan::Counter { kind, size } => CellShape::counter(name, kind.cells(), *size as u64),
            _ => CellShape::none(),
        }
    }

    /// Memory for the cells, in bytes, about.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            InstancePlan::Meter { size, .. } => 8 * *size as u64,
            _ => self.cells("").bytes(),
        }
    }
}

/// The name of a member of an enum without representation.
fn enum_member<'a>(program: &'a Program, enum_name: &str, value: Option<&Const>) -> Option<&'a str> {
    let Some(Const::Value(Value::Enum(ordinal))) = value else { return None };
    program.types.iter().find_map(|(_, t)| match t {
        Type::Enum(d) if d.name == enum_name => d.members.get(*ordinal as usize).map(String::as_str),
        _ => None,
    })
}

/// Algorithms by ordinal of the program's `HashAlgorithm`.
pub(crate) fn hash_algorithms(program: &Program) -> Result<Vec<HashAlgorithm>, Problem> {
    let def = program.types.iter().find_map(|(_, t)| match t {
        Type::Enum(d) if d.name == "HashAlgorithm" => Some(d),
        _ => None,
    });
    let Some(def) = def else { return Ok(Vec::new()) };
    let known = |name: &String| {
        HashAlgorithm::from_name(name)
            .ok_or_else(|| Problem::new(format!("the hash algorithm {name} is not part of v1model")))
    };
    def.members.iter().map(known).collect()
}

/// Checks an extern object.
pub(crate) fn plan_instance(program: &Program, e: &ExternInstance) -> Result<InstancePlan, Problem> {
    let problem = |m: String| Problem::at(e.span, format!("{} {}: {m}", e.object, e.name));
    let arg = |name: &str| e.args.iter().find(|(n, _)| n == name).map(|(_, c)| c);
    let size = || {
        arg("size")
            .and_then(Const::as_u64)
            .ok_or_else(|| problem("its size is not a constant that fits 64 bits".into()))
    };
    let cells = || {
        let n = size()?;
        if n == 0 {
            return Err(problem("its size is 0: give it at least one cell".into()));
        }
        usize::try_from(n).map_err(|_| problem(format!("its size {n} is too large for this machine")))
    };
    let kind = |enum_name: &str| {
        enum_member(program, enum_name, arg("type"))
            .ok_or_else(|| problem(format!("its type is not a member of {enum_name}")))
    };
    let counter_kind = || {
        let k = kind("CounterType")?;
        CounterKind::from_name(k).ok_or_else(|| problem(format!("counter type {k} is not part of v1model")))
    };
    let meter_kind = || {
        let k = kind("MeterType")?;
        MeterKind::from_name(k).ok_or_else(|| problem(format!("meter type {k} is not part of v1model")))
    };
    Ok(match e.object.as_str() {
        "register" => {
            let elem = e.type_args.first().copied();
            let width = elem.and_then(|t| Register::cell_width(&program.types, t));
            let (Some(elem), Some(width)) = (elem, width) else {
                return Err(problem(
                    "its elements must be of fixed width: bit<W>, int<W>, another scalar, or a struct or header of these"
                        .into(),
                ));
            };
            InstancePlan::Register { elem, width, size: cells()? }
        }
        "counter" => InstancePlan::Counter { kind: counter_kind()?, size: cells()? },
        "direct_counter" => InstancePlan::DirectCounter { kind: counter_kind()? },
        "meter" => InstancePlan::Meter { kind: meter_kind()?, size: cells()? },
        "direct_meter" => InstancePlan::DirectMeter { kind: meter_kind()? },
        "action_profile" => InstancePlan::Profile { size: size()?, selector: None, tables: Vec::new() },
        "action_selector" => {
            let algorithm = enum_member(program, "HashAlgorithm", arg("algorithm"))
                .and_then(HashAlgorithm::from_name)
                .ok_or_else(|| problem("its algorithm is not a member of HashAlgorithm".into()))?;
            let output_width = arg("outputWidth").and_then(Const::as_u64).unwrap_or(0);
            if !(1..=64).contains(&output_width) {
                return Err(problem(format!("its outputWidth is {output_width}: choose 1 to 64")));
            }
            let semantics = e.annotations.string("selector_size_semantics").unwrap_or("");
            let selector = Some(SelectorConfig {
                algorithm,
                output_width: output_width as u32,
                counts_members: semantics.eq_ignore_ascii_case("sum_of_members"),
            });
            InstancePlan::Profile { size: size()?, selector, tables: Vec::new() }
        }
        "Checksum16" => InstancePlan::Checksum16,
        other => {
            return Err(problem(format!("the extern object {other} is not part of v1model")));
        }
    })
}
