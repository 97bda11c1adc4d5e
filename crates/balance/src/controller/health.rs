//! Which devices report, why others do not, and which draining devices have no connections left, according to polls.

use crate::config::Rack;
use crate::plan::{Action, Entries, Epoch, Generation, Key, Schema};
use crate::report::Stamp;
use crate::types::DeviceNumber;
use pointsman_control::bytestring;
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// A register value and when it was last changed.
#[derive(Clone, Copy, Debug)]
struct Heard {
    value: u128,
    since: Duration,
}

/// The data plane's value for the time of the last report of a device that failed its health check.
const HEARD_FAILED: u128 = 1;

/// Drop reason of the data plane: the number of the report was used before, or a higher one.
const REPLAYED: u8 = 23;

/// Why the data plane refuses the reports of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Drop reason of the data plane.
    pub reason: u8,
    /// Key and sequence of the newest report that it accepted.
    pub newest: Stamp,
}

impl Refusal {
    /// Whether numbers of reports do not exceed one already accepted.
    pub fn is_replay(&self) -> bool {
        self.reason == REPLAYED
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            14 => "their numbers are older than one already accepted: was the clock set back?",
            20 => "they have no digest, which is required: give the agent its key",
            21 => "they are signed with a key number that the switch does not have: give the agent the key from the file",
            22 => "their digest does not match the key: is it the same key on both sides?",
            REPLAYED => "their numbers do not exceed one already accepted, as in a replay: was the clock set back, or ahead before?",
            _ => return write!(f, "reason {} of the switch's drops", self.reason),
        })
    }
}

/// Something that left the configuration while connections may be alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leaving {
    Device(DeviceNumber),
    /// By its number.
    Service(u16),
}

#[derive(Clone, Copy, Debug)]
struct Drain {
    count: Option<i64>,
    quiet_since: Duration,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Silent(DeviceNumber),
    Failed(DeviceNumber),
    Refused(DeviceNumber, Refusal),
    Heard(DeviceNumber),
    Healthy(DeviceNumber),
    Draining(Leaving),
    Drained(Leaving),
}

/// Health of devices, and drains.
#[derive(Debug, Default)]
pub(super) struct Health {
    heard: BTreeMap<DeviceNumber, Heard>,
    /// Numbers of the newest reports of agents of which a device failed its health check: the time of such a report is not kept.
    failing: BTreeMap<DeviceNumber, Heard>,
    /// Devices that get no new connections: silent ones, and those that failed their health check.
    pub silent: BTreeSet<DeviceNumber>,
    /// Those of them that failed it.
    pub failed: BTreeSet<DeviceNumber>,
    /// Why reports are refused, by device whose agent sends them. Of silent devices only.
    pub refused: BTreeMap<DeviceNumber, Refusal>,
    leaving: BTreeMap<Leaving, Drain>,
    pub drained_devices: BTreeSet<DeviceNumber>,
    pub drained_services: BTreeSet<u16>,
    /// The longest idle time of any connection that may be alive.
    max_idle: Duration,
}

impl Health {
    /// Takes over from the tables which servers a former controller found silent: they have pools but no slots.
    pub fn adopt(&mut self, rack: &Rack, have: &Entries) {
        for (key, action) in have {
            let (Key::Service(_), Action::SetService { service, epoch, slots_mask, .. }) = (key, action)
            else {
                continue;
            };
            let g = Generation::read(have, Epoch { service: *service, epoch: *epoch }, *slots_mask);
            let with_slots: BTreeSet<u16> = g.slots.iter().flatten().copied().collect();
            for (server, pool) in
                g.pools.iter().filter(|(s, _)| !with_slots.is_empty() && !with_slots.contains(s))
            {
                let devices = pool.order.iter().map(|slot| DeviceNumber::new(*server, *slot));
                // One without reports is never silent: a former controller had not given it slots yet.
                self.silent.extend(devices.filter(|d| rack.device(*d).is_some_and(|(s, _)| s.reports)));
            }
        }
    }

    /// When a device last reported, to a poll; `None` if it never has.
    pub fn last_heard(&self, rack: &Rack, device: DeviceNumber) -> Option<Duration> {
        if self.failed.contains(&device) {
            let (_, d) = rack.device(device)?;
            return self.failing.get(&d.reporter).map(|h| h.since);
        }
        self.heard.get(&device).filter(|h| h.value > HEARD_FAILED).map(|h| h.since)
    }

    /// The switch's state is unknown: every device gets time to report.
    pub fn forget(&mut self) {
        self.heard.clear();
        self.silent.clear();
        self.failed.clear();
        self.failing.clear();
        self.refused.clear();
    }

    /// The switch was out of reach: silence counts from now.
    pub fn resume(&mut self, now: Duration) {
        for heard in self.heard.values_mut() {
            heard.since = now;
        }
        for drain in self.leaving.values_mut() {
            drain.quiet_since = now;
        }
    }

    /// Compares the tables with the configuration: which devices are leaving, returned, or are removed.
    pub fn compare(&mut self, now: Duration, rack: &Rack, have: &Entries) -> Vec<Finding> {
        let configured: BTreeSet<DeviceNumber> = rack.devices().map(|(_, d)| d.number).collect();
        self.heard.retain(|d, _| configured.contains(d));
        self.silent.retain(|d| configured.contains(d));
        self.failed.retain(|d| configured.contains(d));
        let frontends: BTreeSet<_> = rack.services.iter().flat_map(|s| s.frontends()).collect();
        let idle = rack.services.iter().map(|s| Duration::from_millis(s.idle_timeout_ms.into()));
        self.max_idle = self.max_idle.max(idle.max().unwrap_or_default());
        let mut leaving = BTreeSet::new();
        for (key, action) in have {
            match (key, action) {
                (Key::Device { device, .. }, _) if !configured.contains(device) => {
                    leaving.insert(Leaving::Device(*device));
                }
                (Key::Service(f), Action::SetService { service, idle_ms, .. }) => {
                    self.max_idle = self.max_idle.max(Duration::from_millis((*idle_ms).into()));
                    if !frontends.contains(f) {
                        leaving.insert(Leaving::Service(*service));
                    }
                }
                _ => {}
            }
        }
        let mut findings = Vec::new();
        self.leaving.retain(|l, _| leaving.contains(l));
        self.drained_devices.retain(|d| leaving.contains(&Leaving::Device(*d)));
        self.drained_services.retain(|s| leaving.contains(&Leaving::Service(*s)));
        for l in leaving {
            self.leaving.entry(l).or_insert_with(|| {
                findings.push(Finding::Draining(l));
                Drain { count: None, quiet_since: now }
            });
        }
        findings
    }

    /// Devices that left the configuration while connections may be alive.
    pub fn leaving_devices(&self) -> impl Iterator<Item = DeviceNumber> + '_ {
        self.leaving.keys().filter_map(|l| match l {
            Leaving::Device(d) => Some(*d),
            Leaving::Service(_) => None,
        })
    }

    /// The registers to read.
    pub fn questions(&self, rack: &Rack, schema: &Schema) -> Vec<p4rt::Entity> {
        let index = |i: u32| Some(p4rt::Index { index: i.into() });
        let mut out = Vec::new();
        if rack.switch.report_timeout_ms > 0 {
            for (_, d) in rack.devices().filter(|(s, _)| s.reports) {
                let Some(register_id) = schema.last_heard.get(usize::from(d.number.slot())).copied() else {
                    continue;
                };
                let entry =
                    p4rt::RegisterEntry { register_id, index: index(d.number.server().into()), data: None };
                out.push(Kind::RegisterEntry(entry));
            }
        }
        let silent = self.silent_reporters(rack);
        let numbers = self
            .failed_reporters(rack)
            .union(&silent)
            .map(|r| (schema.report_sequence, *r))
            .collect::<Vec<_>>();
        let refused = silent.iter().map(|r| (schema.report_refused, *r));
        for (register_id, reporter) in numbers.into_iter().chain(refused) {
            let entry = p4rt::RegisterEntry { register_id, index: index(reporter.bits()), data: None };
            out.push(Kind::RegisterEntry(entry));
        }
        for l in self.leaving.keys() {
            let (counter_id, i) = match l {
                Leaving::Device(d) => (schema.device_packets, d.bits()),
                Leaving::Service(s) => (schema.service_packets, u32::from(*s)),
            };
            out.push(Kind::CounterEntry(p4rt::CounterEntry { counter_id, index: index(i), data: None }));
        }
        out.into_iter().map(|e| p4rt::Entity { entity: Some(e) }).collect()
    }

    /// Agents of devices that are silent.
    fn silent_reporters(&self, rack: &Rack) -> BTreeSet<DeviceNumber> {
        let silent = self.silent.difference(&self.failed).filter_map(|d| rack.device(*d));
        silent.map(|(_, d)| d.reporter).collect()
    }

    /// Agents of devices that failed their health check.
    fn failed_reporters(&self, rack: &Rack) -> BTreeSet<DeviceNumber> {
        self.failed.iter().filter_map(|d| rack.device(*d)).map(|(_, d)| d.reporter).collect()
    }

    /// Takes the answers.
    pub fn answers(
        &mut self,
        now: Duration,
        rack: &Rack,
        schema: &Schema,
        answers: &[p4rt::Entity],
    ) -> Vec<Finding> {
        let (mut findings, mut refusals) = (Vec::new(), Vec::new());
        // Numbers of the newest accepted reports.
        let mut newest = BTreeMap::new();
        let timeout = Duration::from_millis(rack.switch.report_timeout_ms.into());
        for answer in answers {
            match &answer.entity {
                Some(Kind::RegisterEntry(e)) => {
                    let at = e.index.as_ref().and_then(|i| u32::try_from(i.index).ok());
                    let (Some(at), Some(value)) = (at, register_value(e)) else { continue };
                    if e.register_id == schema.report_sequence {
                        let stamp = Stamp::from_bytes((value as u64).to_be_bytes());
                        let reporter = DeviceNumber::from_bits(at);
                        newest.insert(reporter, stamp);
                        let before = self.failing.get(&reporter).filter(|h| h.value == value);
                        let since = before.map_or(now, |h| h.since);
                        self.failing.insert(reporter, Heard { value, since });
                    } else if e.register_id == schema.report_refused {
                        refusals.push((DeviceNumber::from_bits(at), value as u8));
                    } else if let Some(slot) = schema.last_heard.iter().position(|id| *id == e.register_id) {
                        let device = DeviceNumber::new(at as u16, slot as u8);
                        if let Some((_, d)) = rack.device(device) {
                            // A device that gets no new connections may be stopped: its silence is not an event.
                            let timeout = d.enabled.then_some(timeout);
                            findings.extend(self.heard(now, device, value, timeout));
                        }
                    }
                }
                Some(Kind::CounterEntry(e)) => {
                    let Some(i) = e.index.as_ref().and_then(|i| u32::try_from(i.index).ok()) else {
                        continue;
                    };
                    let leaving = if e.counter_id == schema.device_packets {
                        Leaving::Device(DeviceNumber::from_bits(i))
                    } else {
                        Leaving::Service(i as u16)
                    };
                    let count = e.data.as_ref().map_or(0, |d| d.packet_count);
                    findings.extend(self.counted(now, leaving, count));
                }
                _ => {}
            }
        }
        let failed = self.failed_reporters(rack);
        self.failing.retain(|reporter, _| failed.contains(reporter));
        // They may have reported in the same answer.
        let silent = self.silent_reporters(rack);
        for (reporter, reason) in refusals {
            let Some(newest) = newest.remove(&reporter) else { continue };
            let refusal = Refusal { reason, newest };
            findings.extend(self.refused(reporter, refusal, silent.contains(&reporter)));
        }
        findings
    }

    /// Why the last report of an agent was refused (0: it was not).
    fn refused(&mut self, reporter: DeviceNumber, refusal: Refusal, silent: bool) -> Option<Finding> {
        if refusal.reason == 0 || !silent {
            self.refused.remove(&reporter);
            return None;
        }
        let before = self.refused.insert(reporter, refusal);
        before.is_none_or(|b| b.reason != refusal.reason).then_some(Finding::Refused(reporter, refusal))
    }

    /// Takes the time of a device's last report. Without a timeout its silence has no consequences.
    fn heard(
        &mut self,
        now: Duration,
        device: DeviceNumber,
        value: u128,
        timeout: Option<Duration>,
    ) -> Option<Finding> {
        match self.heard.insert(device, Heard { value, since: now }) {
            _ if value == HEARD_FAILED && timeout.is_none() => None,
            _ if value == HEARD_FAILED => {
                self.silent.insert(device);
                self.failed.insert(device).then_some(Finding::Failed(device))
            }
            // The first look: from now on it has to change.
            None => None,
            Some(last) if last.value != value => {
                self.refused.remove(&device);
                let failed = self.failed.remove(&device);
                let finding = if failed { Finding::Healthy(device) } else { Finding::Heard(device) };
                self.silent.remove(&device).then_some(finding)
            }
            Some(last) => {
                self.heard.insert(device, last);
                let late = timeout.is_some_and(|timeout| now.saturating_sub(last.since) > timeout);
                let silent = late && self.silent.insert(device);
                silent.then_some(Finding::Silent(device))
            }
        }
    }

    /// Connections have ended when no packet went to the device for longer than any of them could be idle.
    fn counted(&mut self, now: Duration, leaving: Leaving, count: i64) -> Option<Finding> {
        let drain = self.leaving.get_mut(&leaving)?;
        if drain.count.replace(count) != Some(count) {
            drain.quiet_since = now;
        }
        if now.saturating_sub(drain.quiet_since) <= self.max_idle {
            return None;
        }
        let new = match leaving {
            Leaving::Device(d) => self.drained_devices.insert(d),
            Leaving::Service(s) => self.drained_services.insert(s),
        };
        new.then_some(Finding::Drained(leaving))
    }
}

fn register_value(entry: &p4rt::RegisterEntry) -> Option<u128> {
    match entry.data.as_ref()?.data.as_ref()? {
        p4rt::p4_data::Data::Bitstring(bytes) => bytestring::number(bytes),
        _ => None,
    }
}
