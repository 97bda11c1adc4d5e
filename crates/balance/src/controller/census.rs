//! The number of connections left on draining devices, read from the switch's table of connections, a part at a time.
//!
//! A connection that falls silent ends without a packet, so the end is not an event that could be counted: every entry
//! is read. The time of an entry's last packet is in the switch's clock. The controller estimates that clock from its
//! readings: the latest time in any entry, and how long ago it was read.

use crate::plan::Schema;
use crate::state::entry::{self, Phase, UNIT_US};
use crate::types::DeviceNumber;
use pointsman_control::bytestring::number;
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Places of each way to read in a turn: a 64th of the table, but enough to finish.
fn turn(schema: &Schema) -> u64 {
    (schema.places / 64 / PART).clamp(1, 4) * PART
}

/// Places of each way in one question: messages of some 100 KB.
const PART: u64 = 1024;

/// The unit of `last_seen`.
const UNIT: Duration = Duration::from_micros(UNIT_US);
/// An entry's registers: its state, the time of its last packet, and in the middle word its device.
const STATE: usize = 0;
const SEEN: usize = 1;
const MIDDLE: usize = 2;

/// How many connections devices have.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// The draining devices.
    of: BTreeSet<DeviceNumber>,
    /// The next place.
    next: u64,
    /// Live entries by way and place, with their state; the time of the last packet and the device must still be read.
    /// Most places are free, so few must be.
    live: BTreeMap<(usize, i64), u64>,
    counted: BTreeMap<DeviceNumber, u64>,
    /// The counts when all places had been read.
    left: BTreeMap<DeviceNumber, u64>,
    /// A moment of the switch's clock, and when that was here.
    clock: Option<(u32, Duration)>,
}

/// The result of the answers.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Counted {
    /// Devices that turned out to have no connections left.
    pub empty: Vec<DeviceNumber>,
    /// There is more to ask in this turn.
    pub more: bool,
}

impl Census {
    /// These devices get no new connections.
    pub fn about(&mut self, devices: BTreeSet<DeviceNumber>) {
        if self.of == devices {
            return;
        }
        self.left.retain(|d, _| devices.contains(d));
        self.of = devices;
        // A round that began before says nothing about the new ones.
        self.next = 0;
        self.live.clear();
        self.counted.clear();
    }

    /// Nothing is known of the switch any more.
    pub fn forget(&mut self) {
        *self = Census { of: std::mem::take(&mut self.of), ..Census::default() };
    }

    /// The connections left on a device; None before all places were read.
    pub fn left(&self, device: DeviceNumber) -> Option<u64> {
        self.left.get(&device).copied()
    }

    /// The next entries to read; none if no device has connections left.
    pub fn questions(&self, schema: &Schema) -> Vec<p4rt::Entity> {
        if self.of.iter().all(|d| self.left.get(d) == Some(&0)) {
            return Vec::new();
        }
        let ask = |register_id, index: i64| p4rt::Entity {
            entity: Some(Kind::RegisterEntry(p4rt::RegisterEntry {
                register_id,
                index: Some(p4rt::Index { index }),
                data: None,
            })),
        };
        if !self.live.is_empty() {
            let of =
                |(way, place): &(usize, i64)| [SEEN, MIDDLE].map(|word| ask(schema.ways[*way][word], *place));
            return self.live.keys().flat_map(of).collect();
        }
        let places = self.next..(self.next + PART).min(schema.places);
        // Entities are large, so that a vector that grows is copied for longer than it is filled.
        let mut out = Vec::with_capacity((places.end - places.start) as usize * schema.ways.len());
        out.extend(places.flat_map(|i| schema.ways.iter().map(move |way| ask(way[STATE], i as i64))));
        out
    }

    /// Takes the answers.
    pub fn answers(&mut self, now: Duration, schema: &Schema, answers: &[p4rt::Entity]) -> Counted {
        let values = answers.iter().filter_map(|answer| {
            let Some(Kind::RegisterEntry(e)) = &answer.entity else { return None };
            let words = schema.ways.iter().enumerate();
            let (way, word) = words
                .clone()
                .find_map(|(way, ids)| Some((way, ids.iter().position(|id| *id == e.register_id)?)))?;
            let Some(p4rt::p4_data::Data::Bitstring(bytes)) = e.data.as_ref()?.data.as_ref() else {
                return None;
            };
            Some((way, word, e.index.as_ref()?.index, u64::try_from(number(bytes)?).ok()?))
        });
        if self.live.is_empty() {
            let live = values.filter(|(_, word, _, state)| *word == STATE && entry::may_be_open(*state));
            self.live = live.map(|(way, _, place, state)| ((way, place), state)).collect();
            if !self.live.is_empty() {
                return Counted { more: true, ..Counted::default() };
            }
        } else {
            let live = std::mem::take(&mut self.live);
            let mut entries: BTreeMap<(usize, i64), (Option<u32>, Option<DeviceNumber>)> = BTreeMap::new();
            for (way, word, place, value) in values {
                let words = entries.entry((way, place)).or_default();
                match word {
                    SEEN => words.0 = Some(value as u32),
                    MIDDLE => words.1 = Some(entry::device(value)),
                    _ => {}
                }
            }
            for seen in entries.values().filter_map(|e| e.0) {
                self.was(seen, now);
            }
            for (at, entry) in entries {
                let (Some(state), (Some(seen), Some(device))) = (live.get(&at), entry) else { continue };
                let phase = Phase::of(*state, || seen, self.time(now));
                if self.of.contains(&device) && phase.is_some_and(Phase::is_open) {
                    *self.counted.entry(device).or_default() += 1;
                }
            }
        }
        self.next += PART;
        if self.next < schema.places {
            return Counted { more: !self.next.is_multiple_of(turn(schema)), ..Counted::default() };
        }
        self.next = 0;
        let counted = std::mem::take(&mut self.counted);
        let left = self.of.iter().map(|d| (*d, counted.get(d).copied().unwrap_or(0)));
        let before = std::mem::replace(&mut self.left, left.collect());
        let empty = self.left.iter().filter(|(d, n)| **n == 0 && before.get(d) != Some(&0)).map(|(d, _)| *d);
        Counted { empty: empty.collect(), more: false }
    }

    /// The switch's clock, at least.
    fn time(&self, now: Duration) -> u32 {
        self.clock.map_or(0, |(value, at)| {
            let units = now.saturating_sub(at).as_nanos() / UNIT.as_nanos();
            value.wrapping_add(units as u32)
        })
    }

    /// The switch's clock showed at least `value` at this time.
    fn was(&mut self, value: u32, now: Duration) {
        let ahead = value.wrapping_sub(self.time(now));
        if self.clock.is_none() || ahead < u32::MAX / 2 {
            self.clock = Some((value, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::p4info;
    use pointsman_control::bytestring::of_number;

    /// Flags of an entry: `CONN_*` of connections.p4.
    const LIVE: u64 = 1;
    const FINS: u64 = 2 | 4;
    const RESET: u64 = 8;

    const DEVICE: DeviceNumber = DeviceNumber::from_bits(17);

    /// One whole round over a table with these entries: way, place, flags, idle time (66 ms), when it was seen, device.
    fn round(c: &mut Census, now_ms: u64, entries: &[(usize, u64, u64, u64, u64, u16)]) -> Vec<DeviceNumber> {
        let schema = Schema::new(&p4info()).expect("the balancer");
        let mut out = Vec::new();
        for i in 0.. {
            let asked = c.questions(&schema);
            if asked.is_empty() || i > 0 && c.next == 0 && c.live.is_empty() {
                break;
            }
            let answer = |mut e: p4rt::Entity| {
                let Some(Kind::RegisterEntry(r)) = &mut e.entity else { panic!("{e:?}") };
                let index = r.index.as_ref().expect("an index").index as u64;
                let found = entries.iter().find_map(|(way, place, flags, idle, seen, device)| {
                    let word = schema.ways[*way].iter().position(|id| *id == r.register_id)?;
                    let words = [idle << 8 | flags, *seen, u64::from(*device) << 16];
                    (*place == index).then_some(words[word])
                });
                let value = of_number(found.unwrap_or(0).into());
                r.data = Some(p4rt::P4Data { data: Some(p4rt::p4_data::Data::Bitstring(value)) });
                e
            };
            let answers: Vec<p4rt::Entity> = asked.into_iter().map(answer).collect();
            let counted = c.answers(Duration::from_millis(now_ms), &schema, &answers);
            // A turn ends with a 64th of the table, or with the table.
            assert_eq!(counted.more, !c.live.is_empty() || !c.next.is_multiple_of(turn(&schema)));
            out.extend(counted.empty);
        }
        out
    }

    fn left(c: &Census) -> Option<u64> {
        c.left(DEVICE)
    }

    #[test]
    fn connections_of_a_device() {
        let mut c = Census::default();
        assert_eq!(round(&mut c, 0, &[]), [], "no device drains, so nothing is read");
        c.about([DEVICE].into());
        assert_eq!(left(&c), None);
        let all = [
            (0, 5, LIVE, 300, 9_000, 17),
            (3, 65_535, LIVE, 300, 8_000, 17),
            (1, 7, LIVE | 2, 300, 9_500, 17), // one FIN
            (1, 8, LIVE | FINS, 300, 9_500, 17),
            (2, 9, LIVE | RESET, 300, 9_500, 17),
            (2, 5, 0, 300, 9_500, 17),    // free
            (0, 6, LIVE, 300, 9_500, 18), // another's
            (0, 7, LIVE, 10, 1_000, 17),  // silent for longer than its 0.66 s
        ];
        assert_eq!(round(&mut c, 1_000, &all), []);
        assert_eq!(left(&c), Some(3));
        assert_eq!(round(&mut c, 2_000, &all[..1]), []);
        assert_eq!(left(&c), Some(1));
        // Nothing is seen any more: 20 s (300 times 66 ms) after it was last.
        assert_eq!(round(&mut c, 20_000, &all[..1]), []);
        assert_eq!(round(&mut c, 21_000, &all[..1]), [DEVICE]);
        assert_eq!(left(&c), Some(0));
        let schema = Schema::new(&p4info()).expect("the balancer");
        assert!(c.questions(&schema).is_empty(), "no connections are left");
        // Another device also drains.
        c.about([DEVICE, DeviceNumber::from_bits(18)].into());
        assert_eq!(round(&mut c, 22_000, &[(0, 6, LIVE, 300, 30_000, 18)]), []);
        assert_eq!((left(&c), c.left(DeviceNumber::from_bits(18))), (Some(0), Some(1)));
        c.forget();
        assert_eq!(left(&c), None);
    }
}
