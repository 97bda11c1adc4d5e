//! Writing counters, meters, registers and value sets.

use super::tables::DirectOf;
use super::write::{Op, Undo, UndoLog};
use super::{Access, View};
use crate::entry;
use crate::error::{Code, EntityError};
use crate::p4data;
use crate::proto::p4rt as pb;
use crate::schema::{ArraySchema, TableSchema};
use pointsman_ir::{Bits, TableId};
use pointsman_v1model::{CounterCell, MeterConfig, Register};
use std::collections::BTreeMap;
use std::ops::Range;

fn not_negative(what: &str, n: i64) -> Result<u64, EntityError> {
    u64::try_from(n).map_err(|_| EntityError::invalid(format!("{what} is {n}: it cannot be negative")))
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A counter's value from protobuf, which has signed numbers.
pub(super) fn decode_counter(data: &pb::CounterData) -> Result<CounterCell, EntityError> {
    Ok(CounterCell {
        packets: not_negative("packet_count", data.packet_count)?,
        bytes: not_negative("byte_count", data.byte_count)?,
    })
}

pub(super) fn encode_counter(value: CounterCell) -> pb::CounterData {
    pb::CounterData { byte_count: signed(value.bytes), packet_count: signed(value.packets) }
}

/// "`MeterEntry` & `DirectMeterEntry`": our meters are of the two-rate kind.
pub(super) fn decode_meter(config: &pb::MeterConfig) -> Result<MeterConfig, EntityError> {
    if config.eburst != 0 {
        return Err(EntityError::invalid("eburst is set, but the meter has two rates and no excess burst"));
    }
    let config = MeterConfig {
        cir: not_negative("cir", config.cir)?,
        cburst: not_negative("cburst", config.cburst)?,
        pir: not_negative("pir", config.pir)?,
        pburst: not_negative("pburst", config.pburst)?,
    };
    config.validate().map_err(|e| EntityError::invalid(e.to_string()))?;
    Ok(config)
}

pub(super) fn encode_meter(config: MeterConfig) -> pb::MeterConfig {
    pb::MeterConfig {
        cir: signed(config.cir),
        cburst: signed(config.cburst),
        pir: signed(config.pir),
        pburst: signed(config.pburst),
        eburst: 0,
    }
}

/// The cells that an index names: one, or all of them.
pub(super) fn cells(array: &ArraySchema, index: Option<&pb::Index>) -> Result<Range<u64>, EntityError> {
    let Some(index) = index else { return Ok(0..array.size) };
    let at = not_negative("index", index.index)?;
    if at >= array.size {
        let message = format!("index {at} is out of range: there are {} cells", array.size);
        return Err(EntityError::new(Code::OutOfRange, message));
    }
    Ok(at..at + 1)
}

/// An object by its id.
pub(super) fn by_id<'a, S>(map: &'a BTreeMap<u32, S>, what: &str, id: u32) -> Result<&'a S, EntityError> {
    if id == 0 {
        return Err(EntityError::invalid(format!("{what}_id is not set")));
    }
    map.get(&id).ok_or_else(|| EntityError::invalid(format!("there is no {what} with id {id:#010x}")))
}

/// Packets and bytes by colour, in protobuf.
pub(super) fn encode_marked(marked: [CounterCell; 3]) -> pb::MeterCounterData {
    let [green, yellow, red] = marked.map(|cell| Some(encode_counter(cell)));
    pb::MeterCounterData { green, yellow, red }
}

/// Are the counts by colour to be reset? Setting them is all that a client can ask for, and only to zero ("Direct
/// Resources").
pub(super) fn reset_marked(data: Option<&pb::MeterCounterData>) -> Result<bool, EntityError> {
    let Some(data) = data else { return Ok(false) };
    let zero = |cell: &Option<pb::CounterData>| cell.is_none_or(|c| c == pb::CounterData::default());
    if [data.green, data.yellow, data.red].iter().all(zero) {
        return Ok(true);
    }
    Err(EntityError::invalid("counts by meter colour can only be reset: set them to zero"))
}

impl View<'_> {
    /// The table entry that a direct counter or meter belongs to.
    ///
    /// # Errors
    /// It is not given, the table has no such resource, or there is no such entry.
    pub(super) fn direct_of(
        &self,
        e: Option<&pb::TableEntry>,
        what: &str,
        has: impl Fn(&TableSchema) -> bool,
    ) -> Result<(TableId, DirectOf), EntityError> {
        let e = e.ok_or_else(|| EntityError::invalid("table_entry is not set"))?;
        let table = entry::table(self.terms.schema, e.table_id)?;
        let place = |error: EntityError| error.at(format_args!("table {}", table.name));
        if !has(table) {
            return Err(place(EntityError::invalid(format!("it has no direct {what}"))));
        }
        entry::check_default(e).map_err(place)?;
        if e.is_default_action {
            return Ok((table.table, None));
        }
        let handle = self.find(table, &e.r#match, e.priority).map_err(place)?;
        Ok((table.table, Some(handle)))
    }
}

impl Access<'_> {
    /// Those of these cells that are to be written now.
    fn part(&self, cells: Range<u64>) -> Range<u64> {
        if cells.end - cells.start <= 1 {
            return cells;
        }
        cells.start.max(self.cells.start)..cells.end.min(self.cells.end)
    }

    pub(super) fn write_register(
        &mut self,
        op: Op,
        e: &pb::RegisterEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let register = by_id(&self.schema.registers, "register", e.register_id)?;
        let place = |error: EntityError| error.at(format_args!("register {}", register.array.name));
        op.only_modify("registers").map_err(place)?;
        let range = self.part(cells(&register.array, e.index.as_ref()).map_err(place)?);
        let data = e.data.as_ref().ok_or_else(|| place(EntityError::invalid("data is not set")))?;
        let value = p4data::decode(&self.codec(), &self.schema.program, register.ty, data).map_err(place)?;
        let value = Register::pack(&value);
        let instance = register.array.instance;
        if let Some(undo) = undo {
            let old = range.clone().map(|i| self.state.read_register(instance, i).map(|v| (i, v)));
            let old: Vec<(u64, Bits)> = old.collect::<Result<_, _>>()?;
            let step: Undo = Box::new(move |_, state| {
                for (index, value) in old {
                    let _ = state.write_register(instance, index, &value);
                }
            });
            undo.push(step);
        }
        for index in range {
            self.state.write_register(instance, index, &value).map_err(|e| place(e.into()))?;
        }
        Ok(())
    }

    pub(super) fn write_counter(
        &mut self,
        op: Op,
        e: &pb::CounterEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let counter = by_id(&self.schema.counters, "counter", e.counter_id)?;
        let place = |error: EntityError| error.at(format_args!("counter {}", counter.name));
        op.only_modify("counters").map_err(place)?;
        let range = self.part(cells(counter, e.index.as_ref()).map_err(place)?);
        // Without data there is nothing to change ("`CounterEntry`").
        let Some(data) = &e.data else { return Ok(()) };
        let value = decode_counter(data).map_err(place)?;
        let instance = counter.instance;
        if let Some(undo) = undo {
            let old = range.clone().map(|i| self.state.read_counter(instance, i).map(|v| (i, v)));
            let old: Vec<_> = old.collect::<Result<_, _>>()?;
            let step: Undo = Box::new(move |_, state| {
                for (index, value) in old {
                    let _ = state.write_counter(instance, index, value);
                }
            });
            undo.push(step);
        }
        for index in range {
            self.state.write_counter(instance, index, value).map_err(|e| place(e.into()))?;
        }
        Ok(())
    }

    pub(super) fn write_meter(
        &mut self,
        op: Op,
        e: &pb::MeterEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let meter = by_id(&self.schema.meters, "meter", e.meter_id)?;
        let place = |error: EntityError| error.at(format_args!("meter {}", meter.name));
        op.only_modify("meters").map_err(place)?;
        let range = self.part(cells(meter, e.index.as_ref()).map_err(place)?);
        let reset = reset_marked(e.counter_data.as_ref()).map_err(place)?;
        let config = e.config.as_ref().map(decode_meter).transpose().map_err(place)?;
        let (instance, now) = (meter.instance, self.now);
        if let Some(undo) = undo {
            let old = range.clone().map(|i| self.state.meter_mut(instance, i).map(|m| (i, m.clone())));
            let old: Vec<_> = old.collect::<Result<_, _>>()?;
            let step: Undo = Box::new(move |_, state| {
                for (index, old) in old {
                    if let Ok(meter) = state.meter_mut(instance, index) {
                        *meter = old;
                    }
                }
            });
            undo.push(step);
        }
        for index in range {
            self.state.write_meter(now, instance, index, config).map_err(|e| place(e.into()))?;
            if reset {
                self.state.meter_mut(instance, index)?.set_marked(Default::default());
            }
        }
        Ok(())
    }

    pub(super) fn write_direct_counter(
        &mut self,
        op: Op,
        e: &pb::DirectCounterEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        op.only_modify("direct counters")?;
        let (table, of) =
            self.view().direct_of(e.table_entry.as_ref(), "counter", |t| t.direct_counter.is_some())?;
        let Some(data) = &e.data else { return Ok(()) };
        let value = decode_counter(data)?;
        let old = self.state.direct_counter(table, of)?;
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |_, state| {
                let _ = state.set_direct_counter(table, of, old);
            });
            undo.push(step);
        }
        self.state.set_direct_counter(table, of, value)?;
        Ok(())
    }

    pub(super) fn write_direct_meter(
        &mut self,
        op: Op,
        e: &pb::DirectMeterEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        op.only_modify("direct meters")?;
        let (table, of) =
            self.view().direct_of(e.table_entry.as_ref(), "meter", |t| t.direct_meter.is_some())?;
        let reset = reset_marked(e.counter_data.as_ref())?;
        let config = e.config.as_ref().map(decode_meter).transpose()?;
        let old = self.state.direct_meter(table, of)?.clone();
        self.state.set_direct_meter(self.now, table, of, config)?;
        if reset {
            self.state.direct_meter_mut(table, of)?.set_marked(Default::default());
        }
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |_, state| {
                if let Ok(meter) = state.direct_meter_mut(table, of) {
                    *meter = old;
                }
            });
            undo.push(step);
        }
        Ok(())
    }

    /// "`ValueSetEntry`".
    pub(super) fn write_value_set(
        &mut self,
        op: Op,
        e: &pb::ValueSetEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let set = by_id(&self.schema.value_sets, "value_set", e.value_set_id)?;
        let place = |error: EntityError| error.at(format_args!("value set {}", set.name));
        op.only_modify("value sets").map_err(place)?;
        let mut members = Vec::new();
        for (index, m) in e.members.iter().enumerate() {
            let member = entry::decode_match(&self.codec(), &set.fields, &m.r#match);
            let member = member.map_err(|e| place(e.at(format_args!("member {index}"))))?;
            if members.contains(&member) {
                let message = format!("member {index} is given twice");
                return Err(place(EntityError::new(Code::AlreadyExists, message)));
            }
            members.push(member);
        }
        let id = set.set;
        let old = self.state.value_set(id).map(<[_]>::to_vec).unwrap_or_default();
        self.state.set_value_set(id, members).map_err(|e| place(e.into()))?;
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |_, state| {
                let _ = state.set_value_set(id, old);
            });
            undo.push(step);
        }
        Ok(())
    }
}
