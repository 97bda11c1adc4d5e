//! Live figures of devices and drops, read from the switch while someone looks at them.

use crate::config::Rack;
use crate::plan::Schema;
use crate::report::Latency99;
use crate::state::{latency, reported};
use crate::types::DeviceNumber;
use pointsman_control::bytestring::number;
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind};
use std::collections::BTreeMap;
use std::time::Duration;

/// Figures are read for this long after the last look.
const ATTENTION: Duration = Duration::from_secs(10);

/// How often they are read.
const EVERY: Duration = Duration::from_secs(1);

/// Older figures are not shown.
const FRESH: Duration = Duration::from_secs(3);

/// Older figures give no rates. The trend reads them each half minute, so that the first reading for someone who looks has a rate.
const COMPARABLE: Duration = Duration::from_secs(60);

/// Live figures of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Live {
    /// Connections or requests in flight.
    pub in_flight: u64,
    /// The last report: use of processor, memory and network in per cent, and the queue.
    pub reported: [u8; 4],
    /// What 99 of 100 requests of the last seconds stayed within, by the last report.
    pub latency: Latency99,
    /// Connections opened since the switch has its program.
    pub opened: u64,
    /// Connections opened per second between the last two readings, which are a second to a minute apart.
    pub rate: Option<f64>,
}

/// The figures, and for how long they are wanted.
#[derive(Debug, Default)]
pub(super) struct Look {
    until: Duration,
    next: Duration,
    /// When the present figures were read.
    read_at: Option<Duration>,
    devices: BTreeMap<DeviceNumber, Live>,
    /// Dropped packets by number of the reason.
    pub drops: BTreeMap<u64, u64>,
}

impl Look {
    /// Someone looks.
    pub fn wanted(&mut self, now: Duration) {
        self.until = now + ATTENTION;
    }

    /// Once is enough.
    pub fn glance(&mut self, now: Duration) {
        self.until = self.until.max(now.max(self.next) + Duration::from_millis(1));
    }

    /// When to read next, while someone looks.
    pub fn next(&self) -> Option<Duration> {
        (self.next < self.until).then_some(self.next)
    }

    /// The figures of a device, unless they are old.
    pub fn live(&self, now: Duration, device: DeviceNumber) -> Option<Live> {
        self.age(now).filter(|age| *age <= FRESH)?;
        self.devices.get(&device).copied()
    }

    /// How long ago the figures were read.
    fn age(&self, now: Duration) -> Option<Duration> {
        self.read_at.map(|at| now.saturating_sub(at))
    }

    /// They cannot be read: not again until someone looks.
    pub fn give_up(&mut self) {
        *self = Look { next: self.next, ..Look::default() };
    }

    /// Nothing is known of the switch any more.
    pub fn forget(&mut self) {
        *self = Look { until: self.until, ..Look::default() };
    }

    /// What to read at this time.
    pub fn questions(&mut self, now: Duration, rack: &Rack, schema: &Schema) -> Vec<p4rt::Entity> {
        self.next = now + EVERY;
        let index = |i: u32| Some(p4rt::Index { index: i64::from(i) });
        let mut out = Vec::new();
        for (_, device) in rack.devices() {
            let d = device.number;
            for register_id in schema.live.get(usize::from(d.slot())).into_iter().flatten().copied() {
                let index = index(d.server().into());
                out.push(Kind::RegisterEntry(p4rt::RegisterEntry { register_id, index, data: None }));
            }
            let counter_id = schema.device_connections;
            out.push(Kind::CounterEntry(p4rt::CounterEntry {
                counter_id,
                index: index(d.bits()),
                data: None,
            }));
        }
        let counter_id = schema.drops;
        out.push(Kind::CounterEntry(p4rt::CounterEntry { counter_id, index: None, data: None }));
        out.into_iter().map(|e| p4rt::Entity { entity: Some(e) }).collect()
    }

    /// Takes the answers.
    pub fn answers(&mut self, now: Duration, schema: &Schema, answers: &[p4rt::Entity]) {
        let before = std::mem::take(&mut self.devices);
        self.drops.clear();
        for answer in answers {
            match &answer.entity {
                Some(Kind::RegisterEntry(e)) => self.register(schema, e),
                Some(Kind::CounterEntry(e)) => {
                    let at = e.index.as_ref().and_then(|i| u32::try_from(i.index).ok());
                    let (Some(at), Some(data)) = (at, &e.data) else { continue };
                    let count = data.packet_count.max(0) as u64;
                    if e.counter_id == schema.device_connections {
                        self.devices.entry(DeviceNumber::from_bits(at)).or_default().opened = count;
                    } else if count > 0 {
                        self.drops.insert(at.into(), count);
                    }
                }
                _ => {}
            }
        }
        let age = self.age(now).filter(|age| *age <= COMPARABLE).map(|age| age.as_secs_f64());
        if let Some(seconds) = age.filter(|s| *s > 0.0) {
            for (device, live) in &mut self.devices {
                let more = before.get(device).and_then(|b| live.opened.checked_sub(b.opened));
                live.rate = more.map(|n| n as f64 / seconds);
            }
        }
        self.read_at = Some(now);
    }

    fn register(&mut self, schema: &Schema, entry: &p4rt::RegisterEntry) {
        let place =
            schema.live.iter().enumerate().find_map(|(slot, ids)| {
                Some((slot as u8, ids.iter().position(|id| *id == entry.register_id)?))
            });
        let server = entry.index.as_ref().and_then(|i| u16::try_from(i.index).ok());
        let Some(p4rt::p4_data::Data::Bitstring(bytes)) = entry.data.as_ref().and_then(|d| d.data.as_ref())
        else {
            return;
        };
        let (Some((slot, which)), Some(server), Some(value)) = (place, server, number(bytes)) else { return };
        let live = self.devices.entry(DeviceNumber::new(server, slot)).or_default();
        match which {
            0 => live.in_flight = value as u64,
            _ => {
                let bytes = (value as u64).to_be_bytes();
                (live.reported, live.latency) = (reported(bytes), latency(bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::p4info;
    use pointsman_control::bytestring::of_number;

    #[test]
    fn figures_of_devices_and_drops() {
        let rack = Rack::parse("rack.toml", include_str!("../../../../examples/rack.toml")).expect("valid");
        let schema = Schema::new(&p4info()).expect("the balancer");
        let mut look = Look::default();
        let at = Duration::from_millis;
        assert_eq!(look.next(), None, "no one looks");
        look.wanted(at(1000));
        assert_eq!(look.next(), Some(Duration::ZERO));
        let round = |look: &mut Look, now: Duration, opened: i64| {
            let mut answers = Vec::new();
            for mut entity in look.questions(now, &rack, &schema) {
                match &mut entity.entity {
                    Some(Kind::RegisterEntry(e)) => {
                        let is_count = schema.live.iter().any(|ids| ids[0] == e.register_id);
                        let value = if is_count { 3 } else { 0x3732_0102_0011_0000 };
                        let data = p4rt::p4_data::Data::Bitstring(of_number(value));
                        e.data = Some(p4rt::P4Data { data: Some(data) });
                    }
                    Some(Kind::CounterEntry(e)) => {
                        e.data = Some(p4rt::CounterData { packet_count: opened, byte_count: 0 });
                        // All cells were asked for.
                        if e.index.is_none() {
                            e.index = Some(p4rt::Index { index: 5 });
                        }
                    }
                    _ => panic!("{entity:?}"),
                }
                answers.push(entity);
            }
            look.answers(now, &schema, &answers);
            (look.devices.clone(), look.drops.clone())
        };
        let (devices, drops) = round(&mut look, at(1000), 100);
        let latency = Latency99::from_code(0x11);
        let live = Live { in_flight: 3, reported: [0x37, 0x32, 1, 2], latency, opened: 100, rate: None };
        assert_eq!(devices.into_values().collect::<Vec<_>>(), [live; 4]);
        assert_eq!(drops, [(5, 100)].into());
        let (devices, _) = round(&mut look, at(3000), 150);
        assert_eq!(devices[&DeviceNumber::new(2, 1)].rate, Some(25.0));
        assert_eq!(look.live(at(6_000), DeviceNumber::new(2, 1)).map(|l| l.opened), Some(150));
        assert_eq!(look.live(at(6_001), DeviceNumber::new(2, 1)), None, "they are old");
        // The switch was restarted: its counters began again.
        let (devices, _) = round(&mut look, at(4000), 7);
        assert_eq!(devices[&DeviceNumber::new(1, 0)].rate, None);
        // After half a minute without a look there is a rate at once; after more than a minute there is none.
        let (devices, _) = round(&mut look, at(34_000), 67);
        assert_eq!(devices[&DeviceNumber::new(1, 0)].rate, Some(2.0));
        let (devices, _) = round(&mut look, at(95_000), 97);
        assert_eq!(devices[&DeviceNumber::new(1, 0)].rate, None);
        round(&mut look, at(4000), 7);
        assert_eq!(look.next(), Some(at(5000)));
        look.next = at(11_000);
        assert_eq!(look.next(), None, "no one has looked for ten seconds");
        look.wanted(at(11_000));
        look.give_up();
        assert_eq!((look.next(), look.devices.len()), (None, 0));
        look.wanted(at(11_100));
        assert_eq!(look.next(), Some(at(11_000)), "a second after the last reading");
    }
}
