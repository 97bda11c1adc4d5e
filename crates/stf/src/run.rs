//! Runs a test on a switch.

mod cells;

use crate::command::{Command, Line};
use crate::fill::{Fill, Names};
use crate::generator::Numbered;
use crate::rig::{Rig, RigError};
use crate::{Report, StfError};
use pointsman_ir::{Executor, Program};
use pointsman_v1model::{Output, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time from one packet to the next.
const STEP_MS: u64 = 1;

/// The expected packet.
#[derive(Debug)]
struct Expected {
    line: usize,
    digits: Option<String>,
    exact: bool,
}

struct Runner<'a, E: Executor> {
    rig: &'a mut Rig<E>,
    report: Report,
    /// Ports that the test names.
    ports: BTreeSet<u32>,
    left: BTreeMap<u32, VecDeque<Vec<u8>>>,
    expected: BTreeMap<u32, VecDeque<Expected>>,
    /// Packets that left since the last one arrived.
    since_packet: usize,
    names: Names,
}

/// Runs a test on a fresh rig. An error is a mistake in the test; the switch's faults are in the report.
pub fn run<E: Executor>(rig: &mut Rig<E>, lines: &[Line]) -> Result<Report, StfError> {
    let ports = lines.iter().filter_map(|l| match l.command {
        Command::Packet { port, .. } | Command::Expect { port, .. } => Some(port),
        _ => None,
    });
    let mut runner = Runner {
        ports: ports.collect(),
        rig,
        report: Report::default(),
        left: BTreeMap::new(),
        expected: BTreeMap::new(),
        since_packet: 0,
        names: Names::default(),
    };
    for line in lines {
        runner.execute(line).map_err(|e| StfError { line: line.number, message: e.to_string() })?;
    }
    runner.compare();
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
        self.report.failures.push(StfError { line, message });
    }

    fn execute(&mut self, line: &Line) -> Result<(), RigError> {
        match &line.command {
            Command::Packet { port, bytes } => self.packet(*port, bytes),
            Command::Expect { port, digits, exact } => {
                let expected = Expected { line: line.number, digits: digits.clone(), exact: *exact };
                self.expected.entry(*port).or_default().push_back(expected);
            }
            Command::NoPacket => self.no_packet(line.number),
            Command::Wait { ms } => {
                let out = self.rig.run_ms(*ms);
                self.take(out);
            }
            Command::PortStatus { port, up } => {
                self.rig.switch.set_port_status(*port, *up);
                let out = self.rig.run_ms(0);
                self.take(out);
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

    fn packet(&mut self, port: u32, bytes: &[u8]) {
        self.report.packets_in += 1;
        self.since_packet = 0;
        let out = self.rig.send(port, bytes);
        self.take(out);
        let later = self.rig.run_ms(STEP_MS);
        self.take(later);
    }

    fn no_packet(&mut self, line: usize) {
        let n = self.since_packet;
        if n != 0 {
            let s = if n == 1 { "" } else { "s" };
            self.fail(line, format!("{n} packet{s} left, none expected"));
        }
    }

    /// Keeps packets that left, for the statements that expect them.
    fn take(&mut self, out: Vec<Output>) {
        for packet in out {
            let Output::Port(port, bytes) = packet else { continue };
            self.since_packet += 1;
            if self.ports.contains(&port) {
                self.report.packets_out += 1;
                self.left.entry(port).or_default().push_back(bytes);
            } else {
                self.report.unchecked += 1;
            }
        }
    }

    /// Compares outgoing packets with expected ones, port by port.
    fn compare(&mut self) {
        let mut failures = Vec::new();
        let mut fail = |line, message| failures.push(StfError { line, message });
        for port in &self.ports {
            let mut left = self.left.remove(port).unwrap_or_default();
            for expected in self.expected.remove(port).unwrap_or_default() {
                match left.pop_front() {
                    None => fail(expected.line, format!("no packet on port {port}")),
                    Some(frame) => {
                        if let Some(e) = difference(&expected, &frame) {
                            fail(expected.line, format!("port {port}: {e}"));
                        }
                    }
                }
            }
            for frame in left {
                fail(0, format!("an unexpected packet on port {port}: {}", hex(&frame)));
            }
        }
        self.report.failures.extend(failures);
        self.report.failures.sort_by_key(|f| f.line);
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
