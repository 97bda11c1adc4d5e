//! The packet generator: packets that the switch makes by itself.

use crate::config::ConfigError;
use crate::state::{RestoreError, at_distance, distance};
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};

/// What makes packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Every so many nanoseconds, for the first time one period after the generator was set.
    Period(u64),
    /// A port goes down.
    PortDown,
}

/// Packets to be made: copies of a template, which come in on a port like received ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    /// What makes them.
    pub trigger: Trigger,
    /// Packets made each time.
    pub packets: u16,
    /// The port as which they come in. It need not be one of the switch's ports.
    pub port: u32,
    /// Whether a [header](Made) precedes the template.
    pub header: bool,
    /// The packet.
    pub template: Vec<u8>,
}

/// The header of a generated packet, all in network byte order (`generated_t` of `pointsman/generator.p4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The generator.
    pub generator: u16,
    /// The port that went down; 0 of a periodic generator.
    pub port: u16,
    /// How often this generator made packets before.
    pub batch: u32,
    /// The packet's number among those made at the same time, from 0.
    pub packet: u16,
}

impl Made {
    /// Its length.
    pub const BYTES: usize = 10;

    /// The header as bytes.
    pub fn bytes(&self) -> [u8; Made::BYTES] {
        let mut all = [0; Made::BYTES];
        all[..2].copy_from_slice(&self.generator.to_be_bytes());
        all[2..4].copy_from_slice(&self.port.to_be_bytes());
        all[4..8].copy_from_slice(&self.batch.to_be_bytes());
        all[8..].copy_from_slice(&self.packet.to_be_bytes());
        all
    }
}

/// A generator makes up for this many missed batches at most; it skips earlier ones.
const MOST_MISSED: u64 = 64;

impl Generator {
    /// Checks the limits.
    ///
    /// # Errors
    /// Names the field.
    pub fn validate(&self, drop_port: u32) -> Result<(), ConfigError> {
        let err = |m: String| Err(ConfigError(m));
        match self.trigger {
            Trigger::Period(0) => return err("a generator's period is 0: give nanoseconds".into()),
            _ if self.packets == 0 => return err("a generator makes 0 packets: give at least 1".into()),
            _ if self.port == drop_port => {
                return err(format!(
                    "a generator's port {drop_port} is the drop port: choose another number"
                ));
            }
            _ if self.template.is_empty() && !self.header => {
                return err("a generator without a header has an empty template".into());
            }
            _ => {}
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Running {
    generator: Generator,
    /// When it makes packets next, if it does so by period.
    due: Option<Time>,
    /// How often it has made packets.
    batch: u32,
    /// Ports that went down since it was asked last.
    down: VecDeque<u16>,
}

/// A generator at one moment.
#[derive(Clone, Debug)]
pub(crate) struct RunningImage {
    pub number: u16,
    pub generator: Generator,
    /// When it makes packets next, in nanoseconds from now.
    pub due: Option<i64>,
    pub batch: u32,
    pub down: Vec<u16>,
}

/// The generators of a switch, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generators {
    all: BTreeMap<u16, Running>,
    next: Option<Time>,
}

impl Generators {
    /// Sets or removes a generator. One that is replaced counts on.
    pub fn set(&mut self, now: Time, number: u16, generator: Option<Generator>) {
        match generator {
            Some(generator) => {
                let due = match generator.trigger {
                    Trigger::Period(ns) => Some(now.plus_ns(ns)),
                    Trigger::PortDown => None,
                };
                let batch = self.all.get(&number).map_or(0, |r| r.batch);
                self.all.insert(number, Running { generator, due, batch, down: VecDeque::new() });
            }
            None => {
                self.all.remove(&number);
            }
        }
        self.look();
    }

    /// The generators at one moment.
    pub fn image(&self, now: Time) -> Vec<RunningImage> {
        let image = |(number, r): (&u16, &Running)| RunningImage {
            number: *number,
            generator: r.generator.clone(),
            due: r.due.map(|due| distance(now, due)),
            batch: r.batch,
            down: r.down.iter().copied().collect(),
        };
        self.all.iter().map(image).collect()
    }

    /// Generators that are now as an image shows them.
    ///
    /// # Errors
    /// A time before the switch's began.
    pub fn of_image(now: Time, image: Vec<RunningImage>) -> Result<Self, RestoreError> {
        let mut all = Generators::default();
        for RunningImage { number, generator, due, batch, down } in image {
            let due = match generator.trigger {
                // One without a time is due after its period.
                Trigger::Period(ns) => Some(due.map_or(Ok(now.plus_ns(ns)), |due| at_distance(now, due))?),
                Trigger::PortDown => None,
            };
            all.all.insert(number, Running { generator, due, batch, down: down.into() });
        }
        all.look();
        Ok(all)
    }

    /// The generators.
    pub fn all(&self) -> impl Iterator<Item = (u16, &Generator)> {
        self.all.iter().map(|(number, r)| (*number, &r.generator))
    }

    /// A port went down. What that makes is due at once.
    pub fn port_down(&mut self, port: u32) {
        // The header has the low 16 bits of the port.
        for r in self.all.values_mut().filter(|r| r.generator.trigger == Trigger::PortDown) {
            r.down.push_back(port as u16);
        }
        self.look();
    }

    fn look(&mut self) {
        let due = |r: &Running| if r.down.is_empty() { r.due } else { Some(Time::ZERO) };
        self.next = self.all.values().filter_map(due).min();
    }

    /// When packets have to be made next.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        self.next
    }

    /// Makes the packets that are due: `made` gets the port, the point in time and the bytes of each, by number of the generator.
    pub fn make(&mut self, now: Time, mut made: impl FnMut(u32, Time, &[u8])) {
        if self.next.is_none_or(|t| t > now) {
            return;
        }
        let mut bytes = Vec::new();
        for (number, r) in &mut self.all {
            let mut times = Vec::new();
            if let (Some(due), Trigger::Period(ns)) = (r.due, r.generator.trigger) {
                let missed = now.0.checked_sub(due.0).map_or(0, |late| late / ns + 1);
                let skipped = missed.saturating_sub(MOST_MISSED);
                times.extend((skipped..missed).map(|i| (Time(due.0 + i * ns), 0)));
                r.batch = r.batch.wrapping_add(skipped as u32);
                r.due = Some(Time(due.0.saturating_add(missed.saturating_mul(ns))));
            }
            times.extend(r.down.drain(..).map(|port| (now, port)));
            for (time, port) in times {
                for packet in 0..r.generator.packets {
                    bytes.clear();
                    if r.generator.header {
                        bytes.extend(Made { generator: *number, port, batch: r.batch, packet }.bytes());
                    }
                    bytes.extend_from_slice(&r.generator.template);
                    made(r.generator.port, time, &bytes);
                }
                r.batch = r.batch.wrapping_add(1);
            }
        }
        self.look();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(trigger: Trigger) -> Generator {
        Generator { trigger, packets: 2, port: 68, header: true, template: vec![0xaa] }
    }

    fn made(all: &mut Generators, now: u64) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        all.make(Time(now), |port, time, bytes| {
            assert_eq!(port, 68);
            out.push((time.0, bytes.to_vec()));
        });
        out
    }

    #[test]
    fn by_period_in_numbered_batches() {
        let mut all = Generators::default();
        all.set(Time(50), 7, Some(generator(Trigger::Period(100))));
        assert_eq!(all.next(), Some(Time(150)));
        assert!(made(&mut all, 149).is_empty());
        let first = made(&mut all, 150);
        assert_eq!(first[0], (150, vec![0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0xaa]));
        assert_eq!(first[1], (150, vec![0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0xaa]));
        // Two periods at once, each at its time.
        let later = made(&mut all, 399);
        assert_eq!(
            later.iter().map(|m| (m.0, m.1[7])).collect::<Vec<_>>(),
            [(250, 1), (250, 1), (350, 2), (350, 2)]
        );
        // A replaced one counts on, a removed one is gone.
        all.set(Time(400), 7, Some(generator(Trigger::Period(10))));
        assert_eq!(made(&mut all, 410)[0].1[7], 3);
        all.set(Time(410), 7, None);
        assert!(all.next().is_none() && made(&mut all, 1000).is_empty());
    }

    #[test]
    fn who_looks_late_gets_the_last_ones() {
        let mut all = Generators::default();
        all.set(Time(0), 1, Some(Generator { packets: 1, ..generator(Trigger::Period(1)) }));
        let some = made(&mut all, 1_000_000);
        assert_eq!((some.len() as u64, some[63].0), (MOST_MISSED, 1_000_000));
        assert_eq!(some[63].1[4..8], 999_999u32.to_be_bytes());
        assert_eq!(all.next(), Some(Time(1_000_001)));
    }

    #[test]
    fn when_a_port_goes_down() {
        let mut all = Generators::default();
        all.set(Time(0), 3, Some(generator(Trigger::PortDown)));
        assert_eq!(all.next(), None);
        all.port_down(5);
        all.port_down(9);
        assert_eq!(all.next(), Some(Time::ZERO));
        let ports: Vec<u8> = made(&mut all, 77).iter().map(|m| m.1[3]).collect();
        assert_eq!(ports, [5, 5, 9, 9]);
        assert_eq!(all.next(), None);
    }

    #[test]
    fn limits() {
        let good = generator(Trigger::Period(1));
        assert_eq!(good.validate(511), Ok(()));
        let bad = |change: fn(&mut Generator), part: &str| {
            let mut g = good.clone();
            change(&mut g);
            let e = g.validate(511).unwrap_err();
            assert!(e.0.contains(part), "{e:?}");
        };
        bad(|g| g.trigger = Trigger::Period(0), "period is 0");
        bad(|g| g.packets = 0, "0 packets");
        bad(|g| g.port = 511, "drop port");
        bad(|g| (g.header, g.template) = (false, vec![]), "empty template");
    }
}
