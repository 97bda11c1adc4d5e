//! A running block's access to everything outside itself.

use crate::externs::{Function, Instance};
use crate::hash::below;
use crate::pipeline::Pipeline;
use crate::register::Register;
use crate::state::{Access, Digest, EventKind, Own};
use crate::time::Time;
use crate::trace::{StepKind, Trace};
use pointsman_ir::table::flat::{FlatTable, row};
use pointsman_ir::trace::{TraceEvent, Traced};
use pointsman_ir::{
    Bits, CellArray, Env, ExternCall, ExternInstanceId, FlatArgs, Generation, HitCells, KeyMatch, Lookup,
    TableId, Type, TypeId, Types, Value, ValueSetId,
};

/// A program's requests while a block ran; the architecture acts on it when the block has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effects {
    /// Anything at all. Set together with every other field: see [`BlockEnv::ask`].
    pub any: bool,
    /// Session and field list of the last clone call.
    pub clone: Option<(u32, Option<u32>)>,
    /// Field list of the last resubmit call.
    pub resubmit: Option<u32>,
    /// Field list of the last recirculate call.
    pub recirculate: Option<u32>,
    /// Length of the last truncate call.
    pub truncate: Option<u32>,
    /// `mark_to_drop()` without arguments was called.
    pub drop: bool,
    /// A `verify_checksum` failed.
    pub checksum_error: bool,
    /// An `assert` or `assume` was false.
    pub assertion_failed: bool,
}

impl Effects {
    /// Nothing was requested.
    pub const NONE: Effects = Effects {
        any: false,
        clone: None,
        resubmit: None,
        recirculate: None,
        truncate: None,
        drop: false,
        checksum_error: false,
        assertion_failed: false,
    };

    /// These and what was requested later.
    pub fn and(self, later: Effects) -> Effects {
        Effects {
            any: self.any || later.any,
            clone: later.clone.or(self.clone),
            resubmit: later.resubmit.or(self.resubmit),
            recirculate: later.recirculate.or(self.recirculate),
            truncate: later.truncate.or(self.truncate),
            drop: self.drop || later.drop,
            checksum_error: self.checksum_error || later.checksum_error,
            assertion_failed: self.assertion_failed || later.assertion_failed,
        }
    }

    /// Nothing but a drop, a truncation or a wrong checksum: there is still one packet.
    #[inline]
    pub fn are_plain(&self) -> bool {
        self.clone.is_none()
            && self.resubmit.is_none()
            && self.recirculate.is_none()
            && !self.assertion_failed
    }
}

/// The environment of one block.
pub(crate) struct BlockEnv<'a> {
    pub pipeline: &'a Pipeline,
    pub state: Access<'a>,
    pub own: &'a mut Own,
    pub effects: Effects,
    pub now: Time,
    /// Length of the packet as it entered this pass.
    pub bytes: u32,
    /// The bytes after the parsed headers; empty in a pass, which uses [`ExternCall::rest`].
    pub payload: &'a [u8],
    pub drop_port: u32,
    /// Takes steps, for traced packets.
    pub trace: Option<&'a mut Trace>,
    /// The packet, or copy of one, that they are about.
    pub thread: u32,
}

/// The verifier guarantees the types of arguments; a wrong one reads as zero rather than panics.
fn bits(args: &[Value], i: usize) -> Bits {
    args.get(i).and_then(Value::to_bits).unwrap_or_else(|| Bits::zero(32))
}

fn flag(args: &[Value], i: usize) -> bool {
    matches!(args.get(i), Some(Value::Bool(true)))
}

/// Stores `value` in the out argument `i`, fitted to its type.
fn store(args: &mut [Value], i: usize, value: &Bits) {
    match args.get_mut(i) {
        Some(Value::Bits(b)) => *b = value.zero_extend(b.width()),
        Some(Value::Bool(b)) => *b = !value.is_zero(),
        Some(Value::Enum(n)) => *n = value.low_u64() as u32,
        Some(Value::Error(n)) => *n = value.low_u64() as u32,
        _ => {}
    }
}

fn store_u64(args: &mut [Value], i: usize, value: u64) {
    store(args, i, &Bits::new(64, u128::from(value)));
}

impl<'a> BlockEnv<'a> {
    /// That of an untraced packet, without the packet.
    #[inline]
    pub fn new(
        pipeline: &'a Pipeline,
        state: Access<'a>,
        own: &'a mut Own,
        now: Time,
        drop_port: u32,
    ) -> BlockEnv<'a> {
        let effects = Effects::NONE;
        BlockEnv {
            pipeline,
            state,
            own,
            effects,
            now,
            bytes: 0,
            payload: &[],
            drop_port,
            trace: None,
            thread: 0,
        }
    }
}

impl BlockEnv<'_> {
    /// Notes a step of the packet, if it is traced.
    pub fn note(&mut self, what: impl FnOnce() -> StepKind) {
        if let Some(trace) = &mut self.trace {
            trace.step(self.thread, what());
        }
    }

    pub(crate) fn begin_atomic(&mut self) {
        if self.own.atomic.depth == 0 {
            self.own.atomic.held = self.state.enter_atomic();
        }
        self.own.atomic.depth += 1;
    }

    pub(crate) fn end_atomic(&mut self) {
        self.own.atomic.depth = self.own.atomic.depth.saturating_sub(1);
        if self.own.atomic.depth == 0 {
            self.own.atomic.held = None;
        }
    }

    /// To note a request of the program.
    pub(crate) fn ask(&mut self) -> &mut Effects {
        self.effects.any = true;
        &mut self.effects
    }

    /// Counts an index that is out of range.
    #[cold]
    pub(crate) fn missed(&mut self, id: Option<ExternInstanceId>) {
        let anomalies = &mut self.own.anomalies;
        let count = match self.state.instance(id) {
            Some(Instance::Register(_)) => &mut anomalies.register_index,
            Some(Instance::Counter(_)) => &mut anomalies.counter_index,
            Some(Instance::Meter(_)) => &mut anomalies.meter_index,
            _ => return,
        };
        *count += 1;
    }

    /// The cells of an object, as this worker uses them.
    #[inline]
    pub(crate) fn array(&self, id: Option<ExternInstanceId>) -> Option<&CellArray> {
        self.cells().get(id?.index())
    }

    /// The hash of argument `data` by the algorithm in argument `algo`; `rest` is [`ExternCall::rest`] if the payload is part of it.
    fn hash(&mut self, args: &[Value], algo: usize, data: usize, rest: Option<&[u8]>) -> u64 {
        let Own { buffer, random, .. } = &mut *self.own;
        buffer.clear();
        if let Some(v) = args.get(data) {
            buffer.push_value(v);
        }
        if let Some(rest) = rest {
            buffer.push_bytes(self.payload);
            buffer.push_bytes(rest);
        }
        let algorithm = match args.get(algo) {
            Some(Value::Enum(n)) => self.pipeline.algorithms.get(*n as usize),
            _ => None,
        };
        match algorithm {
            Some(a) => self.state.hasher.hash(*a, buffer.bytes(), random),
            None => 0,
        }
    }

    fn mark_to_drop(&self, args: &mut [Value]) {
        let std = &self.pipeline.std;
        if let Some(Value::Struct(fields)) = args.first_mut() {
            if let Some(Value::Bits(spec)) = fields.get_mut(std.egress_spec as usize) {
                *spec = Bits::new(std.port_width, u128::from(self.drop_port));
            }
            if let Some(Value::Bits(group)) = fields.get_mut(std.mcast_grp as usize) {
                *group = Bits::zero(group.width());
            }
        }
    }

    fn register_write(&mut self, instance: Option<ExternInstanceId>, args: &[Value]) {
        let index = bits(args, 0).saturating_u64();
        let value = args.get(1).map_or_else(|| Bits::zero(0), Register::pack);
        if self.array(instance).is_some_and(|c| !c.set(index, &value)) {
            self.missed(instance);
        }
    }

    fn count(&mut self, instance: Option<ExternInstanceId>, args: &[Value]) {
        let (index, bytes) = (bits(args, 0).saturating_u64(), self.bytes);
        if self.array(instance).is_some_and(|c| !c.count(index, bytes)) {
            self.missed(instance);
        }
    }

    fn execute_meter(&mut self, instance: Option<ExternInstanceId>, args: &mut [Value]) {
        let (index, bytes, now) = (bits(args, 0).saturating_u64(), self.bytes, self.now);
        match self.state.mark(instance, index, (now, bytes)) {
            Some(color) => store_u64(args, 1, color as u64),
            None => self.missed(instance),
        }
    }

    fn checksum16(&mut self, data: Option<&Value>) -> Value {
        let buffer = &mut self.own.buffer;
        buffer.clear();
        if let Some(v) = data {
            buffer.push_value(v);
        }
        Value::Bits(Bits::new(16, u128::from(crate::hash::csum16(buffer.bytes()))))
    }

    fn register_read(&mut self, instance: Option<ExternInstanceId>, args: &mut [Value]) {
        let index = bits(args, 1).saturating_u64();
        if let Some(Instance::Register(r)) = self.state.instance(instance) {
            let (elem, width) = (r.elem, r.width());
            let value = self.array(instance).and_then(|c| c.get(index));
            if value.is_none() {
                self.missed(instance);
            }
            let value = value.unwrap_or_else(|| Bits::zero(width));
            match args.first_mut() {
                Some(cell @ (Value::Struct(_) | Value::Header { .. })) => {
                    *cell = Register::unpack(&self.pipeline.program.types, elem, &value);
                }
                _ => store(args, 0, &value),
            }
        }
    }

    /// A hash between `base` and `base + max`, the latter excluded.
    fn hash_into_range(&mut self, args: &mut [Value]) {
        let hash = self.hash(args, 1, 3, None);
        let offset = below(hash, bits(args, 4).to_u128().and_then(|limit| u64::try_from(limit).ok()));
        let width = args.first().and_then(Value::to_bits).map_or(64, |b| b.width());
        let base = bits(args, 2).zero_extend(width.max(64));
        store(args, 0, &base.add(&Bits::new(width.max(64), u128::from(offset))));
    }

    fn check_assertion(&mut self, function: Function, args: &[Value]) {
        if !flag(args, 0) {
            self.ask().assertion_failed = true;
            let place = args.get(1).and_then(Value::to_bits);
            let place = place.and_then(|n| self.pipeline.places.get(n.low_u64() as usize)?.clone());
            let kind = match function {
                Function::Assert => EventKind::AssertFailed(place),
                _ => EventKind::AssumeFailed(place),
            };
            self.own.push_event(self.now, kind);
        }
    }

    fn log(&mut self, type_args: &[TypeId], args: &[Value]) {
        let Some(Value::String(text)) = args.first() else { return };
        let mut values = Vec::new();
        if let (Some(v), Some(ty)) = (args.get(1), type_args.first()) {
            format_values(&self.pipeline.program.types, &self.pipeline.program.errors, *ty, v, &mut values);
        }
        let mut values = values.into_iter();
        let mut out = String::new();
        let mut rest: &str = text;
        while let Some((before, after)) = rest.split_once("{}") {
            out.push_str(before);
            out.push_str(&values.next().unwrap_or_else(|| "{}".into()));
            rest = after;
        }
        out.push_str(rest);
        // More values than braces: none is lost.
        for value in values {
            out.push(' ');
            out.push_str(&value);
        }
        self.own.push_event(self.now, EventKind::Log(out));
    }
}

/// Every scalar of `value` in order, as people write them.
fn format_values(types: &Types, errors: &[String], ty: TypeId, value: &Value, out: &mut Vec<String>) {
    match (types.repr_type(ty), value) {
        (Type::Int(w), Value::Bits(b)) if b.is_negative() && *w > 0 => {
            out.push(format!("-{}", b.neg().to_biguint()));
        }
        (_, Value::Bits(b) | Value::Varbit(b)) => out.push(b.to_biguint().to_string()),
        (_, Value::Bool(b)) => out.push(b.to_string()),
        (Type::Enum(d), Value::Enum(n)) => {
            out.push(d.members.get(*n as usize).cloned().unwrap_or_else(|| n.to_string()));
        }
        (_, Value::Error(n)) => {
            out.push(errors.get(*n as usize).cloned().unwrap_or_else(|| n.to_string()));
        }
        (_, Value::String(s)) => out.push(s.to_string()),
        (Type::Struct(d), Value::Struct(vs)) => {
            d.fields.iter().zip(vs).for_each(|(f, v)| format_values(types, errors, f.ty, v, out));
        }
        (Type::Header(d), Value::Header { valid: true, fields }) => {
            d.fields.iter().zip(fields).for_each(|(f, v)| format_values(types, errors, f.ty, v, out));
        }
        (Type::Tuple(ts), Value::Struct(vs)) => {
            ts.iter().zip(vs).for_each(|(t, v)| format_values(types, errors, *t, v, out));
        }
        (_, Value::Header { valid: false, .. }) => out.push("invalid".into()),
        _ => {}
    }
}

impl Env for BlockEnv<'_> {
    fn lookup(&mut self, table: TableId, key: &[Bits], selectors: &[Bits]) -> Lookup {
        self.state.lookup(self.own, (self.now, self.bytes), table, key, selectors)
    }

    fn select(&mut self, table: TableId, selectors: &[u8]) -> Option<u64> {
        self.state.select(self.own, table, selectors)
    }

    fn tables(&self) -> &[FlatTable] {
        // For a traced packet, every look-up is reported.
        if self.trace.is_some() { &[] } else { &self.state.flat }
    }

    #[inline]
    fn hit_cells(&self) -> &[HitCells] {
        self.state.hits.of(self.own.worker)
    }

    fn time(&self) -> u64 {
        self.now.0
    }

    fn report_hit(&mut self, table: TableId, head: u64) {
        self.state.measure_hit(self.own, (self.now, self.bytes), table, head >> row::PLACE_SHIFT);
    }

    fn is_shared(&self) -> bool {
        matches!(self.state, Access::Shared(_))
    }

    fn asked(&self) -> bool {
        self.effects.any
    }

    fn tracing(&self) -> bool {
        self.trace.is_some()
    }

    fn trace(&mut self, event: TraceEvent) {
        let entry = match &event.what {
            Traced::Lookup { table, found, .. } => {
                found.hit.and_then(|handle| self.state.table(*table)?.store.get(handle))
            }
            _ => None,
        };
        self.note(|| StepKind::Inside(event));
        if let Some(entry) = entry {
            self.note(|| StepKind::Hit(entry));
        }
    }

    fn value_set(&self, set: ValueSetId) -> &[Vec<KeyMatch>] {
        self.state.value_set(set).unwrap_or(&[])
    }

    fn generation(&self) -> Option<&Generation> {
        // For a traced packet, every look-up is reported.
        self.trace.is_none().then_some(&self.state.generation)
    }

    #[inline]
    fn cells(&self) -> &[CellArray] {
        self.own.cells.as_deref().unwrap_or(&self.state.cells.arrays)
    }

    fn packet_bytes(&self) -> u32 {
        self.bytes
    }

    fn is_plain(&self, table: TableId) -> bool {
        self.state.tables.get(table.index()).is_some_and(|t| t.is_plain())
    }

    fn call_flat(&mut self, call: ExternCall<'_>, args: FlatArgs<'_>) -> bool {
        self.flat(call, args)
    }

    fn call_extern(&mut self, call: ExternCall<'_>, args: &mut [Value]) -> Value {
        let Some(function) = self.pipeline.functions.get(call.function.index()).copied() else {
            return Value::Void;
        };
        match function {
            Function::MarkToDrop => self.mark_to_drop(args),
            Function::MarkToDropOld => self.ask().drop = true,
            Function::RegisterRead => self.register_read(call.instance, args),
            Function::RegisterWrite => self.register_write(call.instance, args),
            Function::Count => self.count(call.instance, args),
            Function::ExecuteMeter => self.execute_meter(call.instance, args),
            Function::DirectMeterRead => {
                let color = call.instance.and_then(|id| self.own.colors.get(id.index()));
                if let Some(color) = color.copied() {
                    store_u64(args, 0, color as u64);
                }
            }
            // Every hit of the table has counted already, called or not.
            Function::DirectCount => {}
            Function::AtomicBegin => self.begin_atomic(),
            Function::AtomicEnd => self.end_atomic(),
            Function::Hash => self.hash_into_range(args),
            Function::VerifyChecksum { payload } => {
                if flag(args, 0) {
                    let want = bits(args, 2);
                    let got = self.hash(args, 3, 1, payload.then_some(call.rest));
                    if Bits::new(64, u128::from(got)).zero_extend(want.width()) != want {
                        self.ask().checksum_error = true;
                    }
                }
            }
            Function::UpdateChecksum { payload } => {
                if flag(args, 0) {
                    let sum = self.hash(args, 3, 1, payload.then_some(call.rest));
                    store_u64(args, 2, sum);
                }
            }
            Function::Clone => self.ask().clone = Some((bits(args, 1).low_u64() as u32, None)),
            Function::ClonePreserving | Function::CloneData => {
                let list = bits(args, 2).low_u64() as u32;
                self.ask().clone = Some((bits(args, 1).low_u64() as u32, Some(list)));
            }
            Function::Resubmit | Function::ResubmitData => {
                self.ask().resubmit = Some(bits(args, 0).low_u64() as u32);
            }
            Function::Recirculate | Function::RecirculateData => {
                self.ask().recirculate = Some(bits(args, 0).low_u64() as u32);
            }
            Function::Truncate => self.ask().truncate = Some(bits(args, 0).low_u64() as u32),
            Function::Random => match self.own.random.between(&bits(args, 1), &bits(args, 2)) {
                Some(v) => store(args, 0, &v),
                None => self.own.anomalies.empty_random_range += 1,
            },
            Function::Digest => {
                if let (Some(ty), Some(data)) = (call.type_args.first(), args.get(1)) {
                    let digest = Digest { time: self.now, ty: *ty, data: data.clone() };
                    self.own.push_digest(digest);
                }
            }
            Function::Assert | Function::Assume => self.check_assertion(function, args),
            Function::LogMsg => self.log(call.type_args, args),
            Function::Checksum16Get => return self.checksum16(args.first()),
        }
        Value::Void
    }
}
