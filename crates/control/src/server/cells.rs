//! Reads of registers and counters, from the memory that packets change at the same time.

use super::read::{Stopped, index, no_index, select, visit_cells, walk};
use super::reading::{Place, Slice};
use super::resources::encode_counter;
use super::view::{Raw, Terms};
use crate::proto::p4rt as pb;
use pb::entity::Entity;
use pointsman_ir::{Bits, ExternInstanceId};
use pointsman_v1model::{CounterCell, StateError, Watch};

/// The registers and counters of a pipeline. Reading them needs neither the switch nor its state.
#[derive(Clone, Copy)]
pub(super) struct CellView<'a> {
    pub terms: Terms<'a>,
    pub cells: &'a Watch,
}

impl CellView<'_> {
    /// Is a request about registers or counters?
    pub fn has(request: &pb::Entity) -> bool {
        matches!(request.entity, Some(Entity::CounterEntry(_) | Entity::RegisterEntry(_)))
    }

    /// Reads a part of a request for registers or counters, from a place on.
    ///
    /// # Errors
    /// The request is malformed, or names an object that does not exist.
    pub fn read(&self, request: &pb::Entity, from: Place, slice: &mut Slice) -> Stopped<Place> {
        match &request.entity {
            Some(Entity::CounterEntry(e)) => self.read_counters(e, from, slice),
            Some(Entity::RegisterEntry(e)) => self.read_registers(e, from, slice),
            _ => Ok(None),
        }
    }

    fn counter(&self, id: ExternInstanceId, at: u64) -> Result<CounterCell, StateError> {
        self.cells.counter(id, at).ok_or(StateError::IndexOutOfRange(self.cells.len(id)))
    }

    fn register(&self, id: ExternInstanceId, at: u64) -> Result<Bits, StateError> {
        self.cells.register(id, at).ok_or(StateError::IndexOutOfRange(self.cells.len(id)))
    }

    fn read_counters(&self, e: &pb::CounterEntry, from: Place, slice: &mut Slice) -> Stopped<Place> {
        no_index(e.counter_id, e.index.as_ref())?;
        let all = select(&self.terms.schema.counters, "counter", e.counter_id)?;
        walk(all, from, |counter_id, counter, at| {
            visit_cells(slice, ("counter", counter), e.index.as_ref(), at, |slice, at| {
                let value = self.counter(counter.instance, at)?;
                if !slice.changed_only || value != Default::default() {
                    let data = Some(encode_counter(value));
                    let entry = pb::CounterEntry { counter_id, index: index(at), data };
                    slice.found.push(Raw::Entity(Entity::CounterEntry(entry)));
                }
                Ok(())
            })
        })
    }

    fn read_registers(&self, e: &pb::RegisterEntry, from: Place, slice: &mut Slice) -> Stopped<Place> {
        no_index(e.register_id, e.index.as_ref())?;
        let all = select(&self.terms.schema.registers, "register", e.register_id)?;
        walk(all, from, |id, register, at| {
            visit_cells(slice, ("register", &register.array), e.index.as_ref(), at, |slice, index| {
                let bits = self.register(register.array.instance, index)?;
                if !slice.changed_only || !bits.is_zero() {
                    slice.found.push(Raw::Cell { register: id, index, bits });
                }
                Ok(())
            })
        })
    }
}
