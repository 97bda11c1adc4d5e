//! The agent of one device: watches its traffic and its machine, and reports to the switch whether the device can take new
//! connections.
//!
//! A metric at or above its high threshold makes the device busy; it is available again when every metric is at or
//! below its low threshold and the hold time has passed. Every change is reported at once, and once more a few
//! milliseconds later, since a report may be lost. Without a change a report is sent every heartbeat, which also shows
//! that the device is alive.
//!
//! The agent also probes the device's service. While probes fail, reports say that the device failed its health check,
//! and the switch gives it no new connections under any policy.
//!
//! Metrics: request latency and the number of unanswered requests (`latency`), use of processor, memory and network
//! (`proc`).

mod error;
mod health;
mod judge;
mod latency;
mod membership;
mod packet;
mod proc;
mod recent;
pub mod source;
#[cfg(test)]
mod tests;
mod waiting;

use crate::config::{self, AgentSettings, Rack, ReportForm, Target};
use crate::frame_report::{ETHERTYPE, FrameReport, Notice};
use crate::report::{
    Latency99, Load, METRICS_FAILED, METRICS_LATENCY, METRICS_LOAD, METRICS_LOADS, Report, Stamp,
};
use crate::trust::{ReportKey, Trust};
use crate::types::{Address, DeviceNumber, Mac, Protocol, REPORT_PORT};
pub use error::CannotRun;
pub use health::Probe;
use judge::{Limits, Part};
use latency::Latency;
pub use membership::{CannotJoin, Membership, Refused, Standing, Step};
use source::Answer;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use waiting::Key;

/// The configuration of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    /// The device.
    pub device: DeviceNumber,
    /// `server/device`.
    pub name: String,
    /// The device's addresses.
    pub addresses: Vec<IpAddr>,
    /// The VIPs for which it answers clients directly, and which it has, too.
    pub vips: Vec<IpAddr>,
    /// Where it serves.
    pub ports: BTreeSet<(Protocol, u16)>,
    /// A local address of the switch, and the port for reports there.
    pub report_to: SocketAddr,
    /// The switch's MAC address, for reports in frames.
    pub switch_mac: Mac,
    /// The number and the key that sign its reports.
    pub key: Option<(u8, ReportKey)>,
    /// The network interface whose use counts.
    pub interface: String,
    /// How to measure and decide.
    pub settings: AgentSettings,
    /// The probes of the device.
    pub checks: Vec<Target>,
    /// Other devices of the server that it reports for, from the values of their sources.
    pub others: Vec<Other>,
}

/// A device that another one's agent reports for.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// The device.
    pub device: DeviceNumber,
    /// `server/device`.
    pub name: String,
    /// Where its load comes from, and how to decide.
    pub settings: AgentSettings,
    /// The probes of this device.
    pub checks: Vec<Target>,
}

impl AgentConfig {
    /// The agent of a device of the rack. `interface` is the name of the device's network interface.
    ///
    /// # Errors
    /// The device does not exist, another device's agent reports for it, no address of the switch can receive its
    /// reports, or no key can sign them.
    pub fn from_rack(rack: &Rack, server: &str, device: &str, interface: &str) -> Result<Self, CannotRun> {
        let Some(of) = rack.server(server) else {
            let known = rack.servers.iter().map(|s| s.name.clone()).collect();
            return Err(CannotRun::Server { name: server.into(), known });
        };
        let Some(found) = of.devices.iter().find(|d| d.name == device) else {
            let known = of.devices.iter().map(|d| d.name.clone()).collect();
            return Err(CannotRun::Device { server: server.into(), name: device.into(), known });
        };
        let (number, name) = (found.number, format!("{server}/{device}"));
        if found.reporter != number {
            let other = rack.device_name(found.reporter);
            return Err(CannotRun::OtherAgent { device: name, other });
        }
        let key = rack.keys.newest(number);
        if let (Trust::Keys(file), None) = (&rack.switch.reports, key) {
            return Err(CannotRun::NoKey { device: name, file: file.clone() });
        }
        let of_device =
            rack.services.iter().filter(|s| s.members.iter().any(|m| m.server == number.server()));
        // Where devices answer directly, clients' packets and the answers have the VIP.
        let direct =
            of_device.clone().filter(|s| s.direct_return.is_some()).flat_map(|s| s.vips.iter().copied());
        let vips = direct.collect();
        let ports = of_device.flat_map(|s| s.frontends().map(|f| (f.protocol, f.port))).collect();
        let report_to = found.addresses().find_map(|own| {
            // Without a gateway a VIP is used, since it is also an address of the switch.
            let family = |a: &IpAddr| a.is_ipv4() == own.is_ipv4();
            rack.gateway_of(own)
                .or_else(|| rack.services.iter().flat_map(|s| s.vips.iter().copied()).find(family))
        });
        let report_to = report_to.ok_or_else(|| CannotRun::NoAddress { device: name.clone() })?;
        Ok(AgentConfig {
            device: number,
            name,
            addresses: found.addresses().collect(),
            vips,
            ports,
            report_to: SocketAddr::new(report_to, REPORT_PORT),
            switch_mac: rack.switch.mac,
            key,
            interface: interface.into(),
            settings: found.agent.clone(),
            checks: config::targets(rack, found, true),
            others: of
                .devices
                .iter()
                .filter(|d| d.reporter == number && d.number != number)
                .map(|d| Other {
                    device: d.number,
                    name: format!("{server}/{}", d.name),
                    settings: d.agent.clone(),
                    checks: config::targets(rack, d, false),
                })
                .collect(),
        })
    }
}

/// Which way a packet went at the device's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the device.
    In,
    /// From the device.
    Out,
}

/// An agent's input.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A packet passed the interface; the first 128 bytes of its Ethernet frame are enough.
    Packet {
        /// Which way.
        direction: Direction,
        /// The frame's beginning.
        frame: &'a [u8],
    },
    /// The text of `/proc/stat`.
    Stat(&'a str),
    /// The text of `/proc/meminfo`.
    MemInfo(&'a str),
    /// The text of `/proc/net/dev`.
    NetDev(&'a str),
    /// The answer of a source.
    Source {
        /// Whose: 0 for the agent's own device, then [`AgentConfig::others`].
        device: usize,
        /// Which of its sources.
        source: usize,
        /// The answer.
        answer: Answer<'a>,
    },
    /// The result of [`Output::Probe`].
    Probed {
        /// Whose: 0 for the agent's own device, then [`AgentConfig::others`].
        device: usize,
        /// Which of its targets.
        target: usize,
        /// Whether it passed, and if not, why.
        result: Result<(), &'a str>,
    },
    /// Nothing but the time.
    Tick,
}

/// An action that an agent requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send a UDP datagram.
    Send {
        /// Destination.
        to: SocketAddr,
        /// Payload.
        payload: Vec<u8>,
    },
    /// Send an Ethernet frame with the type [`crate::frame_report::ETHERTYPE`] from the device's own MAC address.
    Frame {
        /// Destination.
        to: Mac,
        /// The bytes after the Ethernet header.
        payload: Vec<u8>,
    },
    /// Probe a service and pass the result in as [`Input::Probed`].
    Probe {
        /// Whose it is: 0 for the agent's own device, then [`AgentConfig::others`].
        device: usize,
        /// Which of its targets.
        target: usize,
        /// The kind of probe.
        probe: Probe,
    },
    /// A device failed its health check; the text names it, the place and the reason.
    Failed(String),
    /// A device passes its health check again; which.
    Healthy(String),
    /// A service that had never answered is checked from now on; the text names the device and the place.
    Checked(String),
    /// A device became busy; the text names it and the metric.
    Busy(String),
    /// A device is available again; which.
    Available(String),
    /// Something cannot be measured; reported once for each kind, and each hour for a service that has never answered.
    Problem(String),
    /// A source that was silent for long, and whose problem was reported, answers again; which.
    Answers(String),
}

/// The state of all metrics. `None` if not measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// Request latency in milliseconds.
    pub latency_ms: f64,
    /// What 99 of 100 requests stayed within, as of the last report.
    pub p99: Latency99,
    /// Unanswered requests.
    pub outstanding: usize,
    /// Processor use.
    pub cpu_percent: Option<f64>,
    /// Memory use.
    pub memory_percent: Option<f64>,
    /// Network use.
    pub network_percent: Option<f64>,
    /// Requests answered since the start.
    pub answered: u64,
    /// Requests given up since the start.
    pub lost: u64,
}

/// What an agent knows of a device for which it reports.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFigures {
    /// `server/device`.
    pub name: String,
    /// It can take new connections.
    pub available: bool,
    /// It passes its health check.
    pub healthy: bool,
    /// Reports speak of it: its sources answer.
    pub reported: bool,
    /// What the next report says.
    pub load: Load,
}

/// An agent's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Reports sent since the start.
    pub reports: u64,
    /// Sources' failures to answer since the start.
    pub failures: u64,
    /// Of the machine and its traffic.
    pub metrics: Metrics,
    /// Its own device first.
    pub devices: Vec<DeviceFigures>,
}

/// The agent of one device. Times count from 1970 (or any moment that does not change while the switch runs): reports carry them,
/// and none may be earlier than one before, not even from a restarted agent.
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    /// Addresses (also VIPs) and ports of the configuration, as packets are compared with them.
    addresses: Vec<Address>,
    ports: Vec<(Protocol, u16)>,
    limits: Limits,
    latency: Latency,
    /// As of the last report.
    p99: Latency99,
    cpu: proc::Cpu,
    memory_percent: Option<f64>,
    network: proc::Network,
    /// Its own device, then the others.
    parts: Vec<Part>,
    /// See [`Agent::stays`].
    settled: bool,
    /// Reports sent, and answers of sources that were none.
    reports: u64,
    failures: u64,
    /// Of the last report that was signed.
    sequence: u64,
    heartbeat_at: Duration,
    /// When a probe begins, or times out.
    probe_at: Duration,
    /// When the next action that is not about requests is due, in nanoseconds.
    due: u64,
    repeat_at: Option<Duration>,
    problems: BTreeSet<String>,
    /// Time of the last step, also in nanoseconds.
    now: Duration,
    now_ns: u64,
}

/// Maximum number of distinct problems to report, which bounds the memory for them.
const MAX_PROBLEMS: usize = 100;

fn ms(n: u32) -> Duration {
    Duration::from_millis(u64::from(n))
}

/// How utilisation is smoothed.
fn memory_of(settings: &AgentSettings) -> proc::Memory {
    match settings.samples {
        0 => proc::Memory::Window(ms(settings.window_ms)),
        most => proc::Memory::Samples(most as usize),
    }
}

/// A time in nanoseconds, for the calculations of every packet: 584 years and more count as never.
#[inline]
fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into())
}

impl Agent {
    /// An agent that sends its first report at its first step.
    pub fn new(config: AgentConfig) -> Self {
        let own = Part::new(config.device, &config.name, &config.settings, &config.checks);
        let others = config.others.iter().map(|o| Part::new(o.device, &o.name, &o.settings, &o.checks));
        Agent {
            parts: std::iter::once(own).chain(others).collect(),
            addresses: config.addresses.iter().chain(&config.vips).map(|a| Address::from(*a)).collect(),
            ports: config.ports.iter().copied().collect(),
            limits: Limits::new(&config.settings),
            config,
            latency: Latency::default(),
            p99: Latency99::default(),
            cpu: proc::Cpu::default(),
            memory_percent: None,
            network: proc::Network::default(),
            settled: false,
            reports: 0,
            failures: 0,
            sequence: 0,
            heartbeat_at: Duration::ZERO,
            probe_at: Duration::ZERO,
            due: 0,
            repeat_at: None,
            problems: BTreeSet::new(),
            now: Duration::ZERO,
            now_ns: 0,
        }
    }

    /// Whether its own device takes no new connections.
    pub fn is_busy(&self) -> bool {
        self.parts.first().is_some_and(|p| p.busy)
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// All metrics at this time.
    pub fn metrics(&self, now: Duration) -> Metrics {
        Metrics {
            latency_ms: self.latency.current_ms(nanos(now)),
            p99: self.p99,
            outstanding: self.latency.outstanding(),
            cpu_percent: self.cpu.percent.get(),
            memory_percent: self.memory_percent,
            network_percent: self.network.percent.get(),
            answered: self.latency.answers,
            lost: self.latency.lost,
        }
    }

    /// Takes one input at time `now` and returns the actions. Time must not run backwards.
    pub fn step(&mut self, now: Duration, input: Input<'_>) -> Vec<Output> {
        let mut out = Vec::new();
        (self.now, self.now_ns) = (now, nanos(now));
        self.latency.just_ms = None;
        match input {
            Input::Packet { direction, frame } => self.packet(direction, frame, &mut out),
            Input::Tick => {}
            other => self.told(now, other, &mut out),
        }
        self.latency.expire(self.now_ns, self.limits.lost_after);
        if now >= self.probe_at {
            self.probe(now, &mut out);
        }
        let stays = self.stays();
        if !stays {
            self.decide(now, &mut out);
        }
        let reports = now >= self.heartbeat_at || self.repeat_at.is_some_and(|at| now >= at);
        if reports {
            self.repeat_at = self.repeat_at.filter(|at| now < *at);
            self.report(now, &mut out);
        }
        if reports || !stays {
            self.due = self.due_by_itself();
        }
        out
    }

    /// Handles input other than packets.
    fn told(&mut self, now: Duration, input: Input<'_>, out: &mut Vec<Output>) {
        self.settled = false;
        let memory = memory_of(&self.config.settings);
        let read = match input {
            Input::Stat(text) => self.cpu.read(now, text, memory),
            Input::MemInfo(text) => proc::memory(text).map(|p| self.memory_percent = Some(p)),
            Input::NetDev(text) => match self.config.settings.network_mbit_s {
                Some(speed) => self.network.read(now, text, &self.config.interface, speed, memory),
                None => Ok(()),
            },
            Input::Source { device, source, answer } => {
                self.answered(now, device, source, answer, out);
                Ok(())
            }
            Input::Probed { device, target, result } => {
                self.probed(now, device, target, result, out);
                Ok(())
            }
            Input::Packet { .. } | Input::Tick => Ok(()),
        };
        if let Err(e) = read {
            self.problem(e.to_string(), out);
        }
    }

    /// Takes the answer of a source. One that was silent for long and answers again is reported, and its problems are forgotten: they
    /// will be reported again.
    fn answered(
        &mut self,
        now: Duration,
        device: usize,
        source: usize,
        answer: Answer<'_>,
        out: &mut Vec<Output>,
    ) {
        let Some(part) = self.parts.get_mut(device) else { return };
        let memory = memory_of(&part.settings);
        let Some(source) = part.sources.get_mut(source) else { return };
        let was_stale = source.is_stale(now);
        let answer = source.answer(now, answer, memory);
        if let Err(e) = answer {
            self.failures += 1;
            self.problem(e.to_string(), out);
        } else if was_stale {
            let (name, problems) = (source.settings.kind.to_string(), self.problems.len());
            self.problems.retain(|p| p.strip_prefix(&name).is_none_or(|rest| !rest.starts_with(": ")));
            if self.problems.len() < problems {
                out.push(Output::Answers(name));
            }
        }
    }

    /// Reports a problem once.
    fn problem(&mut self, problem: String, out: &mut Vec<Output>) {
        if self.problems.len() < MAX_PROBLEMS && self.problems.insert(problem.clone()) {
            out.push(Output::Problem(problem));
        }
    }

    fn packet(&mut self, direction: Direction, frame: &[u8], out: &mut Vec<Output>) {
        let Some(seen) = packet::parse(frame) else {
            return self.notice(direction, frame, out);
        };
        let (own, client) = match direction {
            Direction::In => (seen.destination, seen.source),
            Direction::Out => (seen.source, seen.destination),
        };
        // The ports are in order.
        if !self.addresses.contains(&own.0) || self.ports.binary_search(&(seen.protocol, own.1)).is_err() {
            return;
        }
        let key = Key::new(seen.protocol, own.1, client.0, client.1);
        if seen.syn || seen.fin_or_rst && (direction == Direction::Out || seen.payload == 0) {
            self.latency.close(&key);
            return;
        }
        let now = self.now_ns;
        match direction {
            // An empty datagram is a request too; a TCP segment without data only acknowledges.
            Direction::In if seen.payload > 0 || seen.protocol == Protocol::Udp => {
                self.latency.request(now, seen.protocol, key, seen.sequence.wrapping_add(seen.payload));
            }
            Direction::Out if seen.payload > 0 || seen.protocol == Protocol::Udp => {
                self.latency.answer(now, &key, self.config.settings.smoothing);
            }
            Direction::In | Direction::Out => {}
        }
    }

    /// The controller may report that reports are refused because the switch accepted one with a higher number, from when the clock was
    /// ahead: from now on numbers are above it.
    #[cold]
    fn notice(&mut self, direction: Direction, frame: &[u8], out: &mut Vec<Output>) {
        let Some((head, payload)) = frame.split_first_chunk::<14>() else { return };
        if direction != Direction::In || head[12..] != ETHERTYPE.to_be_bytes() {
            return;
        }
        let Some((number, key)) = &self.config.key else { return };
        let Some(notice) = Notice::decode(payload, (*number, key)) else { return };
        if notice.device != self.config.device || notice.newest.sequence <= self.sequence {
            return;
        }
        let ahead = (notice.newest.sequence - self.sequence) as f64 / 1e6;
        self.sequence = notice.newest.sequence;
        out.push(Output::Problem(format!(
            "the switch refused reports because it has one that is {ahead:.1} s newer: the clock was ahead before, or is behind now; numbers \
             continue from that one"
        )));
        self.report(self.now, out);
    }

    /// The next sequence number with the key's. Even with two in a microsecond, or a clock that does not advance, each number is used once.
    fn stamp(&mut self, now: Duration) -> Stamp {
        self.sequence = (now.as_micros() as u64).max(self.sequence.saturating_add(1));
        Stamp { number: self.config.key.map_or(0, |(n, _)| n), sequence: self.sequence }
    }

    /// When the next heartbeat is due after a report now. Heartbeats keep to a schedule, so that being woken late does not make them
    /// fewer; missed ones are omitted. A report in between begins a new schedule, and so does the first.
    fn next_heartbeat(&self, now: Duration) -> Duration {
        let interval = ms(self.config.settings.heartbeat_ms);
        match now.checked_sub(self.heartbeat_at) {
            Some(late) if !self.heartbeat_at.is_zero() && !interval.is_zero() => {
                let into = Duration::from_nanos((late.as_nanos() % interval.as_nanos()) as u64);
                now - into + interval
            }
            _ => now + interval,
        }
    }

    /// Reports the known values. Healthy devices with silent sources are omitted, so that they become silent.
    fn report(&mut self, now: Duration, out: &mut Vec<Output>) {
        self.heartbeat_at = self.next_heartbeat(now);
        self.p99 = self.latency.p99(self.now_ns);
        let all = 0..self.parts.len();
        let (failed, others): (Vec<usize>, Vec<usize>) = all.partition(|i| self.parts[*i].failed);
        let known: Vec<usize> = others.into_iter().filter(|i| self.parts[*i].is_known(now)).collect();
        if self.config.settings.form == ReportForm::Frame {
            for part in known.into_iter().chain(failed) {
                self.frame(now, part, out);
            }
            return;
        }
        for (parts, flag) in [(known, 0), (failed, METRICS_FAILED)] {
            let (high, low): (Vec<usize>, Vec<usize>) =
                parts.into_iter().partition(|i| self.parts[*i].device.slot() > 7);
            for parts in [low, high] {
                self.datagram(now, &parts, flag, out);
            }
        }
    }

    /// A report of one device in a frame.
    fn frame(&mut self, now: Duration, part: usize, out: &mut Vec<Output>) {
        let key = self.config.key.map(|(_, key)| key);
        let stamp = self.stamp(now);
        let (of, load) = (&self.parts[part], self.load(part));
        let report =
            FrameReport { device: of.device, busy: of.busy || of.failed, failed: of.failed, load, stamp };
        let payload = report.encode(key.as_ref()).to_vec();
        self.reports += 1;
        out.push(Output::Frame { to: self.config.switch_mac, payload });
    }

    /// A report of some devices, if there are any, in a datagram. They are of one half of the server. The latency is that of its own device.
    fn datagram(&mut self, now: Duration, parts: &[usize], flag: u16, out: &mut Vec<Output>) {
        let Some(first) = parts.first().map(|i| self.parts[*i].device) else { return };
        let stamp = self.stamp(now);
        let mut report = Report {
            server: first.server(),
            high: first.slot() > 7,
            mask: 0,
            available: 0,
            metrics: METRICS_LOAD,
            // The data plane compares modulo 2^32.
            sequence: now.as_millis() as u32,
            words: vec![self.load(0).word()],
        };
        if self.parts.len() > 1 {
            report.metrics = METRICS_LOADS;
            report.words = vec![0; 8];
        }
        report.metrics |= flag | u16::from(self.p99.code()) << METRICS_LATENCY;
        for &i in parts {
            let slot = self.parts[i].device.slot() & 7;
            report.mask |= 1 << slot;
            report.available |= u8::from(!self.parts[i].busy && !self.parts[i].failed) << slot;
            if self.parts.len() > 1
                && let Some(word) = report.words.get_mut(usize::from(slot))
            {
                *word = self.load(i).word();
            }
        }
        let key = self.config.key.map(|(_, key)| key);
        let payload = key.map_or_else(|| report.encode(), |key| report.encode_signed(&key, stamp));
        self.reports += 1;
        out.push(Output::Send { to: self.config.report_to, payload });
    }

    /// How many reports it has sent.
    pub fn reports(&self) -> u64 {
        self.reports
    }

    /// Its state, for metrics.
    pub fn figures(&self, now: Duration) -> Figures {
        let device = |(i, p): (usize, &Part)| DeviceFigures {
            name: p.name.clone(),
            available: !p.busy && !p.failed,
            healthy: !p.failed,
            reported: p.is_known(now),
            load: self.load(i),
        };
        Figures {
            reports: self.reports,
            failures: self.failures,
            metrics: self.metrics(now),
            devices: self.parts.iter().enumerate().map(device).collect(),
        }
    }
}
