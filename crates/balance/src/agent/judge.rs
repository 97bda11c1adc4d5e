//! Whether devices are busy: the thresholds of each metric, and when the next check is due.

use super::health::Trial;
use super::source::Source;
use super::{Agent, Output, ms, nanos};
use crate::config::{AgentSettings, Target, Threshold};
use crate::report::Load;
use crate::types::DeviceNumber;
use std::time::Duration;

/// A device that an agent reports for.
#[derive(Debug)]
pub(super) struct Part {
    pub device: DeviceNumber,
    pub name: String,
    pub settings: AgentSettings,
    pub sources: Vec<Source>,
    pub trials: Vec<Trial>,
    pub busy: bool,
    /// It failed its health check.
    pub failed: bool,
    hold_until: Duration,
}

impl Part {
    pub fn new(device: DeviceNumber, name: &str, settings: &AgentSettings, checks: &[Target]) -> Self {
        Part {
            device,
            name: name.into(),
            settings: settings.clone(),
            sources: settings.sources.iter().cloned().map(Source::new).collect(),
            trials: checks.iter().cloned().map(Trial::new).collect(),
            busy: false,
            failed: false,
            hold_until: Duration::ZERO,
        }
    }

    /// Whether the values of its sources are recent enough to be reported.
    pub fn is_known(&self, now: Duration) -> bool {
        self.sources.iter().all(|s| !s.is_stale(now))
    }
}

/// The limits of latency that apply to every packet, in nanoseconds.
#[derive(Debug)]
pub(super) struct Limits {
    /// When a request counts as lost.
    pub lost_after: u64,
    /// At which age of an unanswered request the device is busy.
    busy_after: Option<u64>,
    /// A little less than that, so that rounding does not delay it.
    nearly_busy_after: u64,
    high_ms: f64,
    outstanding: f64,
    /// Single answers count, see [`AgentSettings::rest_ms`].
    pulses: bool,
}

impl Limits {
    pub fn new(settings: &AgentSettings) -> Self {
        let high = settings.latency_ms.map(|t| t.high);
        let pulses = settings.rest_ms.is_some();
        let aging = high.filter(|_| !pulses);
        let age = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).map_or(u64::MAX, nanos);
        Limits {
            lost_after: nanos(ms(settings.lost_after_ms)),
            busy_after: aging.map(age),
            nearly_busy_after: aging.map_or(u64::MAX, |high| age(high * (1.0 - 1e-9))),
            high_ms: high.unwrap_or(f64::INFINITY),
            outstanding: settings.outstanding.map_or(f64::INFINITY, |t| t.high),
            pulses,
        }
    }
}

impl Agent {
    /// Whether another decision certainly changes nothing: the last one changed nothing, and since then only packets
    /// came and time passed. Then only latency and the number of waiting requests can differ.
    #[inline]
    pub(super) fn stays(&self) -> bool {
        let limits = &self.limits;
        let held = |part: &Part| !part.busy || self.now < part.hold_until;
        self.settled
            && self.parts.iter().all(held)
            && (self.is_busy() || self.is_quick() && (self.latency.outstanding() as f64) < limits.outstanding)
    }

    /// Whether latency certainly does not make the device busy now.
    #[inline]
    fn is_quick(&self) -> bool {
        let limits = &self.limits;
        match limits.pulses {
            true => self.latency.just_ms.is_none_or(|latency| latency < limits.high_ms),
            false => self.latency.is_below(self.now_ns, limits.high_ms, limits.nearly_busy_after),
        }
    }

    /// The deadline for the next step with [`Input::Tick`](super::Input::Tick).
    pub fn next_deadline(&self) -> Duration {
        let mut at = self.due;
        if let Some(expiry) = self.latency.expiry(self.limits.lost_after) {
            at = at.min(expiry);
            if !self.is_busy()
                && let (Some(oldest), Some(age)) = (self.latency.oldest(), self.limits.busy_after)
            {
                // Rounding may make the age a hair less than the threshold then: no sooner than a little later.
                at = at.min(oldest.saturating_add(age).max(self.now_ns.saturating_add(1000)));
            }
        }
        Duration::from_nanos(at)
    }

    /// The part of that which packets do not change.
    pub(super) fn due_by_itself(&self) -> u64 {
        // Only the ends of holding that need no packet: the hold time passed, or a request timed out.
        let holds = self.parts.iter().filter(|p| p.busy && p.hold_until > self.now).map(|p| p.hold_until);
        let at = holds.chain(self.repeat_at).fold(self.heartbeat_at.min(self.probe_at), Duration::min);
        nanos(at)
    }

    /// Compute, memory, network and queue of a device: its own measurements, unless a source provides values.
    fn loads(&self, part: usize) -> [Option<f64>; 4] {
        let mut loads = [None; 4];
        if part == 0 {
            let outstanding = self.latency.outstanding() as f64;
            loads =
                [self.cpu.percent.get(), self.memory_percent, self.network.percent.get(), Some(outstanding)];
        }
        for source in self.parts.get(part).iter().flat_map(|p| &p.sources) {
            for (load, told) in loads.iter_mut().zip(source.values()) {
                *load = told.or(*load);
            }
        }
        loads
    }

    /// Every metric that has a threshold: name, value and threshold.
    fn judged(
        &self,
        part: usize,
        s: &AgentSettings,
    ) -> impl Iterator<Item = (&'static str, f64, Threshold)> + use<> {
        let [compute, memory, network, queue] = self.loads(part);
        let latency = (part == 0).then(|| match self.limits.pulses {
            true => self.latency.just_ms.unwrap_or(0.0),
            false => self.latency.current_ms(self.now_ns),
        });
        [
            ("latency_ms", latency, s.latency_ms),
            ("outstanding", queue, s.outstanding),
            ("cpu_percent", compute, s.cpu_percent),
            ("memory_percent", memory, s.memory_percent),
            ("network_percent", network, s.network_percent),
        ]
        .into_iter()
        .filter_map(|(name, value, threshold)| Some((name, value?, threshold?)))
    }

    /// Decides again whether each device is busy, and whether it failed its health check.
    pub(super) fn decide(&mut self, now: Duration, out: &mut Vec<Output>) {
        let mut changed = false;
        for i in 0..self.parts.len() {
            changed |= self.decide_health(i, out);
            let part = &self.parts[i];
            let mut judged = self.judged(i, &part.settings);
            let refuses = part.sources.iter().find(|s| !s.is_available());
            let busy = if part.busy {
                now < part.hold_until || refuses.is_some() || judged.any(|(_, value, t)| value > t.low)
            } else {
                let rests = part.settings.rest_ms.is_some_and(|rest| now < part.hold_until + ms(rest));
                let over = judged.find(|(_, value, t)| *value >= t.high && !rests);
                let why = over.map(|(name, value, t)| format!("{name} is {value:.1}, threshold {}", t.high));
                let why = why.or_else(|| refuses.map(|s| format!("reported by {}", s.settings.kind)));
                if let Some(why) = &why {
                    out.push(Output::Busy(format!("{}: {why}", part.name)));
                }
                why.is_some()
            };
            if busy != part.busy {
                if !busy {
                    out.push(Output::Available(part.name.clone()));
                }
                let part = &mut self.parts[i];
                part.busy = busy;
                part.hold_until = if busy { now + ms(part.settings.hold_ms) } else { part.hold_until };
                changed = true;
            }
        }
        self.settled = !changed;
        if changed {
            self.report(now, out);
            let repeat_ms = self.config.settings.repeat_ms;
            self.repeat_at = (repeat_ms > 0).then(|| now + ms(repeat_ms));
        }
    }

    /// Whether that changed.
    fn decide_health(&mut self, part: usize, out: &mut Vec<Output>) -> bool {
        let part = &mut self.parts[part];
        let verdict = part.trials.iter().find_map(Trial::verdict);
        if verdict.is_some() == part.failed {
            return false;
        }
        part.failed = verdict.is_some();
        out.push(match verdict {
            Some(why) => Output::Failed(format!("{} failed its health check: {why}", part.name)),
            None => Output::Healthy(part.name.clone()),
        });
        true
    }

    pub(super) fn load(&self, part: usize) -> Load {
        let [compute, memory, network, queue] = self.loads(part);
        // The fraction is dropped: it says nothing that would last until the next report.
        let percent = |value: Option<f64>| value.map_or(0, |v| v.clamp(0.0, 100.0) as u8);
        Load {
            compute: percent(compute),
            memory: percent(memory),
            network: percent(network),
            queue: queue.map_or(0, |v| v.clamp(0.0, 255.0) as u8),
        }
    }
}
