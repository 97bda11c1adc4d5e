//! Runs a test on a switch.

mod cells;
mod messages;

use crate::command::{Command, Line};
use crate::fill::{Fill, Names};
use crate::generator::Numbered;
use crate::queues::{Queue, Setting};
use crate::rig::{Rig, RigError};
use crate::{Failure, FailureKind, Report, Sent, StfError};
use pointsman_ir::{Executor, Program};
use pointsman_v1model::{Digest, EventKind, IdleEntry, Output, State, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time from one packet to the next, unless a test sets it.
const STEP_NS: u64 = 1_000_000;

/// The expected packet.
#[derive(Debug)]
struct Expected {
    line: usize,
    digits: Option<String>,
    exact: bool,
    at: Option<Time>,
    /// It left after those of the expectations above it that are in order, too, and before this one.
    ordered: bool,
    /// Lines of the packets that may cause it: those between the preceding expectations and this one.
    packets: Vec<usize>,
}

struct Runner<'a, E: Executor> {
    rig: &'a mut Rig<E>,
    report: Report,
    /// Ports that the test names.
    ports: BTreeSet<u32>,
    left: BTreeMap<u32, VecDeque<Sent>>,
    expected: BTreeMap<u32, VecDeque<Expected>>,
    /// Packets that left since the last one arrived.
    since_packet: Vec<Sent>,
    /// The line that is executed, and how many packets have left on each port since it began.
    line: usize,
    sent: BTreeMap<u32, usize>,
    /// Lines of the last packets without an expectation between them.
    packets: Vec<usize>,
    /// An expectation came after them.
    expecting: bool,
    /// Expectations are in order from here on.
    ordered: bool,
    step_ns: u64,
    /// Messages that no statement has expected so far.
    digests: VecDeque<Digest>,
    events: VecDeque<EventKind>,
    idle: Vec<IdleEntry>,
    names: Names,
}

/// Runs a test on a fresh rig. An error is a mistake in the test; the switch's faults are in the report.
pub fn run<E: Executor>(rig: &mut Rig<E>, lines: &[Line]) -> Result<Report, StfError> {
    run_watched(rig, lines, &mut |_, _| {})
}

/// The same; `watch` gets each statement that was executed, with the rig, so that it can take the trace of the statement's packets.
pub fn run_watched<E: Executor>(
    rig: &mut Rig<E>,
    lines: &[Line],
    watch: &mut dyn FnMut(&Line, &mut Rig<E>),
) -> Result<Report, StfError> {
    let ports = lines.iter().filter_map(|l| match l.command {
        Command::Packet { port, .. } | Command::Expect { port, .. } => Some(port),
        _ => None,
    });
    let expects_digests = lines.iter().any(|l| matches!(l.command, Command::ExpectDigest(_)));
    let expects_logs = lines.iter().any(|l| matches!(l.command, Command::ExpectLog(_)));
    let mut runner = Runner {
        ports: ports.collect(),
        rig,
        report: Report::default(),
        left: BTreeMap::new(),
        expected: BTreeMap::new(),
        since_packet: Vec::new(),
        line: 0,
        sent: BTreeMap::new(),
        packets: Vec::new(),
        expecting: false,
        ordered: false,
        step_ns: STEP_NS,
        digests: VecDeque::new(),
        events: VecDeque::new(),
        idle: Vec::new(),
        names: Names::default(),
    };
    for line in lines {
        runner.line = line.number;
        runner.sent.clear();
        runner.execute(line).map_err(|e| StfError { line: line.number, message: e.to_string() })?;
        runner.take_messages();
        watch(line, runner.rig);
    }
    let first = lines.iter().find(|l| matches!(l.command, Command::Packet { .. })).map(|l| l.number);
    runner.leftover(expects_digests, expects_logs);
    runner.compare(first);
    Ok(runner.report)
}

impl<E: Executor> Runner<'_, E> {
    fn program(&self) -> std::sync::Arc<Program> {
        self.rig.program().clone()
    }

    fn state(&mut self) -> &mut State {
        self.rig.state()
    }

    fn fill(&mut self) -> Fill<'_> {
        let now = self.rig.now;
        Fill::new(self.rig.state(), now, &mut self.names)
    }

    fn fail(&mut self, line: usize, message: String) {
        self.report.failures.push(Failure { line, message, kind: FailureKind::Cell });
    }

    fn execute(&mut self, line: &Line) -> Result<(), RigError> {
        match &line.command {
            Command::Switch(settings) => {
                let config = self.rig.switch.config();
                if settings.over(config.clone()) != *config {
                    return Err(RigError::OtherSwitch);
                }
            }
            Command::Packet { port, bytes } => self.packet(*port, bytes)?,
            Command::Expect { port, digits, exact, at } => {
                self.expecting = true;
                let (line, digits, packets) = (line.number, digits.clone(), self.packets.clone());
                let (exact, at, ordered) = (*exact, *at, self.ordered);
                let expected = Expected { line, digits, exact, at, ordered, packets };
                self.expected.entry(*port).or_default().push_back(expected);
            }
            Command::NoPacket => {
                self.expecting = true;
                self.no_packet(line.number);
            }
            Command::InOrder => self.ordered = true,
            Command::Wait { ns } => self.pass(*ns),
            Command::Step { ns } => self.step_ns = *ns,
            Command::PortStatus { port, up } => {
                let refused = |reason| RigError::Refused(reason, *port, 0);
                self.rig.switch.accepts(*port, 0).map_err(refused)?;
                self.rig.switch.set_port_status(*port, *up);
                self.pass(0);
            }
            Command::Queue(setting) => self.set_queue(setting)?,
            Command::Refuse { reason, command } => self.refuse(reason, command)?,
            Command::ExpectDigest(bytes) => self.expect_digest(line.number, bytes),
            Command::ExpectLog(text) => self.expect_log(line.number, text),
            Command::ExpectIdle(names) => self.expect_idle(line.number, names)?,
            Command::CheckStat { name, of, check } => {
                self.check_stat(line.number, (name, of.as_deref()), check)?;
            }
            Command::Generator(Numbered { number, generator }) => {
                let now = self.rig.now;
                self.rig.switch.set_generator(now, *number, generator.clone())?;
            }
            Command::CheckCounter { name, index, check } => {
                self.check_counter(line.number, (name, index), check.as_ref())?;
            }
            Command::CheckRegister { name, index, check } => {
                self.check_register(line.number, (name, *index), check.as_ref())?;
            }
            Command::MeterGetRates { name, index } => self.read_meter(name, index)?,
            Command::MirroringGet { session } => self.check_session(line.number, *session),
            other => {
                self.fill().execute(other)?;
            }
        }
        Ok(())
    }

    fn packet(&mut self, port: u32, bytes: &[u8]) -> Result<(), RigError> {
        let refused = |reason| RigError::Refused(reason, port, bytes.len());
        self.rig.switch.accepts(port, bytes.len()).map_err(refused)?;
        self.report.packets_in += 1;
        self.since_packet.clear();
        if std::mem::take(&mut self.expecting) {
            self.packets.clear();
        }
        self.packets.push(self.line);
        // Before a packet hits an entry that was idle.
        self.take_idle();
        let out = match self.rig.switch.config().cpu_port == Some(port) {
            true => self.rig.send_from_cpu(bytes),
            false => self.rig.send(port, bytes),
        };
        let now = self.rig.now;
        self.take(out.into_iter().map(|output| (now, output)).collect());
        self.pass(self.step_ns);
        Ok(())
    }

    /// Time passes.
    fn pass(&mut self, ns: u64) {
        let out = self.rig.run_until(self.rig.now.plus_ns(ns));
        self.take(out);
    }

    fn set_queue(&mut self, setting: &Setting) -> Result<(), RigError> {
        if let Setting::Queue(Queue { port: Some(port), .. }) = setting {
            self.rig.switch.accepts(*port, 0).map_err(|reason| RigError::Refused(reason, *port, 0))?;
        }
        let config = self.rig.switch.config().clone();
        setting.apply(&mut self.rig.switch, &config)?;
        Ok(())
    }

    fn refuse(&mut self, reason: &str, command: &Command) -> Result<(), RigError> {
        match self.fill().execute(command) {
            Ok(false) => Err(RigError::NotRefusable),
            Ok(true) => Err(RigError::Taken),
            Err(e) if e.to_string().contains(reason) => Ok(()),
            Err(e) => Err(RigError::RefusedBecause(Box::new(e))),
        }
    }

    fn no_packet(&mut self, line: usize) {
        let n = self.since_packet.len();
        if n != 0 {
            let s = if n == 1 { "" } else { "s" };
            let kind = FailureKind::NotNone(self.since_packet.clone());
            self.report.failures.push(Failure {
                line,
                message: format!("{n} packet{s} left, none expected"),
                kind,
            });
        }
    }

    /// Keeps packets that left, for the statements that expect them.
    fn take(&mut self, out: Vec<(Time, Output)>) {
        for (at, packet) in out {
            let (port, bytes) = match (packet, self.rig.switch.config().cpu_port) {
                (Output::Port(port, bytes), _) | (Output::Cpu(bytes), Some(port)) => (port, bytes),
                (Output::Cpu(_), None) => continue,
            };
            let nth = self.sent.entry(port).or_default();
            let number = self.report.packets_out + self.report.unchecked;
            let sent = Sent { line: self.line, port, nth: *nth, number, at, bytes };
            *nth += 1;
            self.since_packet.push(sent.clone());
            if self.ports.contains(&port) {
                self.report.packets_out += 1;
                self.left.entry(port).or_default().push_back(sent);
            } else {
                self.report.unchecked += 1;
            }
        }
    }

    /// Compares outgoing packets with expected ones, port by port. `first` is the line of the test's first packet.
    fn compare(&mut self, first: Option<usize>) {
        let mut failures = Vec::new();
        let mut fail = |line, message, kind| failures.push(Failure { line, message, kind });
        let mut pairs = Vec::new();
        for port in &self.ports {
            let mut left = self.left.remove(port).unwrap_or_default();
            let mut found = BTreeSet::new();
            for expected in self.expected.remove(port).unwrap_or_default() {
                let Some(sent) = left.pop_front() else {
                    let packets = causes(&expected, &found, first);
                    let kind = FailureKind::Missing { port: *port, packets };
                    fail(expected.line, format!("no packet on port {port}"), kind);
                    continue;
                };
                found.insert(sent.line);
                if let (Some(e), Some(digits)) = (difference(&expected, &sent.bytes), &expected.digits) {
                    let (digits, sent) = (digits.clone(), sent.clone());
                    let kind = FailureKind::Differs { digits, exact: expected.exact, sent };
                    fail(expected.line, format!("port {port}: {e}"), kind);
                }
                pairs.push((expected, sent));
            }
            for sent in left {
                let message = format!("an unexpected packet on port {port}: {}", hex(&sent.bytes));
                fail(0, message, FailureKind::Unexpected(sent));
            }
        }
        pairs.sort_by_key(|(expected, _)| expected.line);
        for (line, message) in when(&pairs) {
            fail(line, message, FailureKind::Cell);
        }
        self.report.failures.extend(failures);
        self.report.failures.sort_by_key(|f| f.line);
    }
}

/// Packets that left at another time than expected, or in another order: the line, and how. `pairs` are in the order of the lines.
fn when(pairs: &[(Expected, Sent)]) -> Vec<(usize, String)> {
    let mut wrong = Vec::new();
    let mut before: Option<(usize, usize)> = None;
    for (expected, sent) in pairs {
        let line = expected.line;
        if let Some(at) = expected.at.filter(|at| *at != sent.at) {
            wrong.push((
                line,
                format!("port {}: it left at {}, not at {}", sent.port, micros(sent.at), micros(at)),
            ));
        }
        if !expected.ordered {
            continue;
        }
        if sent.line > line {
            wrong.push((line, format!("port {}: it left only during line {}", sent.port, sent.line)));
        }
        match before {
            Some((number, other)) if number > sent.number => {
                wrong.push((line, format!("port {}: it left before the packet of line {other}", sent.port)));
            }
            _ => before = Some((sent.number, line)),
        }
    }
    wrong
}

/// A time in microseconds.
fn micros(time: Time) -> String {
    match time.0 % 1000 {
        0 => format!("{}us", time.micros()),
        _ => format!("{}ns", time.0),
    }
}

/// Lines of the packets that may be the missing one: those before the expectation without a packet on its port (`found`), or else all of
/// them; or the test's first packet, if none precedes.
fn causes(expected: &Expected, found: &BTreeSet<usize>, first: Option<usize>) -> Vec<usize> {
    let without: Vec<usize> = expected.packets.iter().filter(|p| !found.contains(p)).copied().collect();
    match (without.is_empty(), expected.packets.is_empty()) {
        (false, _) => without,
        (true, false) => expected.packets.clone(),
        (true, true) => first.into_iter().collect(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// How a packet differs from the expected one, if it does.
fn difference(expected: &Expected, frame: &[u8]) -> Option<String> {
    let digits = expected.digits.as_ref()?;
    let got = hex(frame);
    let differs = digits.chars().zip(got.chars()).position(|(d, g)| d != '*' && d != g);
    match differs {
        Some(at) => {
            let mark = " ".repeat(at) + "^";
            Some(format!(
                "differs at digit {at} (byte {}):\n  want {digits}\n  got  {got}\n       {mark}",
                at / 2
            ))
        }
        None if got.len() < digits.len() => Some(format!("too short:\n  want {digits}\n  got  {got}")),
        None if expected.exact && got.len() > digits.len() => {
            Some(format!("too long:\n  want {digits}\n  got  {got}"))
        }
        None => None,
    }
}
