//! What the counters of a scheme's program say of the work besides forwarding.

use crate::book::{Book, UnknownName};
use crate::scheme::Scheme;
use pointsman_control::proto::p4rt::{self, Entity, entity::Entity as Kind};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Acknowledgments that switches changed or made to slow flows down.
    Acks,
    /// Bytes of frames that carry nothing but measurements, each time that one leaves a switch.
    ProbeBytes,
}

/// A counter of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// What it counts.
    pub quantity: Quantity,
    /// Its full name.
    pub counter: &'static str,
    /// The index of its cell.
    pub index: u32,
}

impl Tally {
    /// What a switch answers when it is asked for this counter.
    pub fn of(&self, answer: &Entity) -> u64 {
        let Some(Kind::CounterEntry(entry)) = &answer.entity else { return 0 };
        let data = entry.data.unwrap_or_default();
        let count = match self.quantity {
            Quantity::Acks => data.packet_count,
            Quantity::ProbeBytes => data.byte_count,
        };
        u64::try_from(count).unwrap_or(0)
    }
}

/// The scheme's counters, each with the entity that a switch is asked for.
///
/// # Errors
/// The program lacks one of them.
pub fn tallies(scheme: &Scheme, book: &Book) -> Result<Vec<(Tally, Entity)>, UnknownName> {
    scheme.tallies.iter().map(|t| Ok((*t, book.counter(t.counter, t.index)?))).collect()
}

impl Book {
    /// A counter's cell, to be read.
    ///
    /// # Errors
    /// The program has no such counter.
    fn counter(&self, name: &str, index: u32) -> Result<Entity, UnknownName> {
        let counter_id = self.counter_id(name)?;
        let index = Some(p4rt::Index { index: index.into() });
        let entry = p4rt::CounterEntry { counter_id, index, ..Default::default() };
        Ok(Entity { entity: Some(Kind::CounterEntry(entry)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let data = Some(p4rt::CounterData { byte_count: 640, packet_count: 10 });
        let entry = p4rt::CounterEntry { data, ..Default::default() };
        let answer = Entity { entity: Some(Kind::CounterEntry(entry)) };
        let tally = |quantity| Tally { quantity, counter: "c", index: 0 };
        assert_eq!(tally(Quantity::Acks).of(&answer), 10);
        assert_eq!(tally(Quantity::ProbeBytes).of(&answer), 640);
        assert_eq!(tally(Quantity::Acks).of(&Entity::default()), 0);
    }
}
