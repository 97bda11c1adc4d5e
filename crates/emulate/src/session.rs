//! Carries out the commands of the prompt.

use crate::network::{Network, describe, package};
use crate::ping::ping;
use crate::ports::interfaces;
use crate::prompt::{Command, HELP, Mistake, parse};
use pointsman_console::{PrintError, print, say};
use pointsman_lab::process::{Process, installed};
use pointsman_topology::{HostId, SwitchId};
use pointsman_wire::Mac;
use std::fmt;
use std::io::{self, BufRead};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Files of commands may name other files, this deep.
const DEEPEST: u32 = 16;

/// The port of iperf's server, and how the kernel shows a listener there.
const IPERF_PORT: &str = "5001";
const IPERF_LISTENS: &str = ":1389 00000000:0000 0A";
const IPERF_PATIENCE: Duration = Duration::from_secs(5);

/// Whether iperf's server listens in the namespace of this thread.
fn listens() -> bool {
    std::fs::read_to_string("/proc/thread-self/net/tcp").is_ok_and(|text| text.contains(IPERF_LISTENS))
}

/// Why a command fails.
enum Failure {
    /// The command itself has said so.
    Shown,
    /// It is not a command.
    Mistake(Mistake),
    /// This program is not installed.
    NotInstalled(String),
    /// No shell can be started.
    Shell(io::Error),
    /// Its result cannot be printed.
    Print(PrintError),
    /// The node is not a host.
    NotHost(String),
    /// The lab refuses.
    Lab(pointsman_lab::Error),
    /// No link joins these nodes.
    NoLink(String, String),
    /// This host cannot send echo requests.
    Ping(String, io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Shown => Ok(()),
            Failure::Mistake(e) => e.fmt(f),
            Failure::NotInstalled(program) => write!(f, "{program} is not installed{}", package(program)),
            Failure::Shell(e) => write!(f, "cannot start a shell: {e}"),
            Failure::Print(e) => e.fmt(f),
            Failure::NotHost(node) => write!(f, "{node} is not a host"),
            Failure::Lab(e) => e.fmt(f),
            Failure::NoLink(a, b) => write!(f, "no link joins {a} and {b}: `links` lists all"),
            Failure::Ping(host, e) => write!(f, "{host} cannot send echo requests: {e}"),
        }
    }
}

/// The prompt of a network.
pub struct Session<'n> {
    network: &'n Network,
    /// For people: a prompt, and commands that read the terminal.
    interactive: bool,
    /// Commands that failed.
    failed: u64,
    /// Of the last echo requests.
    ping_id: u16,
}

impl<'n> Session<'n> {
    /// A prompt for a person, or one that carries out a script.
    pub fn new(network: &'n Network, interactive: bool) -> Self {
        Session { network, interactive, failed: 0, ping_id: 0 }
    }

    /// Reads and carries out commands until the end of the input or `exit`. Of a script: whether all commands succeeded.
    pub fn run(&mut self) -> bool {
        let mut line = Vec::new();
        loop {
            if self.interactive {
                let _ = print("net> ");
            }
            line.clear();
            // Not locked meanwhile: a command may read the terminal.
            match std::io::stdin().lock().read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            if !self.carry_out(&String::from_utf8_lossy(&line), 0) {
                break;
            }
        }
        self.interactive || self.failed == 0
    }

    /// Carries out a line; false if it is the last one.
    fn carry_out(&mut self, line: &str, depth: u32) -> bool {
        let address = |name: &str| self.network.address(name).map(|a| a.to_string());
        let command = parse(line, |name| self.network.namespace(name).is_some(), address);
        let done = match command {
            Err(mistake) => Err(Failure::Mistake(mistake)),
            Ok(Command::Exit) => return false,
            Ok(Command::Source(path)) => return self.source(Path::new(&path), depth),
            Ok(Command::Nothing) => Ok(()),
            Ok(Command::Help) => shown(HELP),
            Ok(Command::Nodes) => shown(&self.nodes()),
            Ok(Command::Links) => shown(&self.links()),
            Ok(Command::Dump) => shown(&dump(self.network)),
            Ok(Command::PingAll) => self.ping_all(),
            Ok(Command::Iperf(a, b)) => self.iperf(&a, &b),
            Ok(Command::Link(a, b, up)) => self.set_links(&a, &b, up),
            Ok(Command::Run(node, line)) => self.shell(node.as_deref(), &line),
        };
        if let Err(what) = done {
            self.failed += 1;
            if !matches!(what, Failure::Shown) {
                say(&what.to_string());
            }
        }
        true
    }

    fn source(&mut self, path: &Path, depth: u32) -> bool {
        let text = match std::fs::read_to_string(path) {
            Ok(text) if depth < DEEPEST => text,
            Ok(_) => {
                say(&format!(
                    "{}: files of commands name each other {DEEPEST} deep: stopped",
                    path.display()
                ));
                self.failed += 1;
                return true;
            }
            Err(e) => {
                say(&format!("cannot read {}: {e}", path.display()));
                self.failed += 1;
                return true;
            }
        };
        text.lines().all(|line| self.carry_out(line, depth + 1))
    }

    /// Runs a line, whose failure it has reported itself.
    fn shell(&self, node: Option<&str>, line: &str) -> Result<(), Failure> {
        let input = if self.interactive { Stdio::inherit() } else { Stdio::null() };
        match self.network.shell(node, line, input) {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let program = line.split_whitespace().next().unwrap_or_default();
                let missing = status.code() == Some(127) && !package(program).is_empty();
                Err(if missing { Failure::NotInstalled(program.to_string()) } else { Failure::Shown })
            }
            Err(e) => Err(Failure::Shell(e)),
        }
    }

    /// TCP from one host to another for a few seconds. The server ends with it.
    fn iperf(&self, from: &str, to: &str) -> Result<(), Failure> {
        let Some(program) = installed("iperf") else {
            return Err(Failure::NotInstalled("iperf".to_string()));
        };
        let (Some(place), Some(address)) = (self.network.namespace(to), self.network.address(to)) else {
            return Err(Failure::NotHost(to.to_string()));
        };
        let mut server =
            Process::start(place, &program, &["-s", "-p", IPERF_PORT], "").map_err(Failure::Lab)?;
        server.wait_until(IPERF_PATIENCE, || place.enter(listens)).map_err(Failure::Lab)?;
        self.shell(Some(from), &format!("{program} -c {address} -p {IPERF_PORT} -t 5"))
    }

    fn set_links(&self, a: &str, b: &str, up: bool) -> Result<(), Failure> {
        match self.network.set_links(a, b, up) {
            Ok(0) => Err(Failure::NoLink(a.to_string(), b.to_string())),
            Ok(_) => Ok(()),
            Err(e) => Err(Failure::Lab(e)),
        }
    }

    fn nodes(&self) -> String {
        let topology = &self.network.plan.topology;
        let hosts = topology.hosts().iter().map(|h| h.name.as_str());
        let all: Vec<&str> = hosts.chain(topology.switches().iter().map(|s| s.name.as_str())).collect();
        format!("{}\n", all.join(" "))
    }

    fn links(&self) -> String {
        let topology = &self.network.plan.topology;
        let line = |link: &pointsman_topology::Link| {
            let [a, b] = link.ends.map(|end| {
                let name = self.network.name(end);
                match end {
                    pointsman_topology::End::Switch(_, port) => format!("{name}-eth{port}"),
                    pointsman_topology::End::Host(_) => format!("{name}-eth0"),
                }
            });
            format!("{a}<->{b}\n")
        };
        topology.links().iter().map(line).collect()
    }

    /// Every host to every other one, as Mininet prints it.
    fn ping_all(&mut self) -> Result<(), Failure> {
        let hosts = self.network.plan.topology.hosts();
        let (mut sent, mut received, mut duplicates) = (0, 0, 0);
        for (i, host) in hosts.iter().enumerate() {
            let others: Vec<usize> = (0..hosts.len()).filter(|j| *j != i).collect();
            let to: Vec<Ipv4Addr> = others.iter().map(|j| hosts[*j].address).collect();
            self.ping_id = self.ping_id.wrapping_add(1);
            let answers = ping(&self.network.wiring.hosts[i], &to, self.ping_id)
                .map_err(|e| Failure::Ping(host.name.clone(), e))?;
            let shown = others.iter().map(|j| match answers.from.contains(&hosts[*j].address) {
                true => hosts[*j].name.as_str(),
                false => "X",
            });
            let shown: Vec<&str> = shown.collect();
            print(&format!("{} -> {}\n", host.name, shown.join(" "))).map_err(Failure::Print)?;
            (sent, received) = (sent + to.len(), received + answers.from.len());
            duplicates += answers.duplicates;
        }
        let dropped = (100 * (sent - received)).checked_div(sent).unwrap_or(0);
        let more = if duplicates > 0 { format!(", {duplicates} duplicates") } else { String::new() };
        print(&format!("{dropped}% dropped ({received}/{sent} received){more}\n")).map_err(Failure::Print)?;
        if received == sent { Ok(()) } else { Err(Failure::Shown) }
    }
}

fn shown(text: &str) -> Result<(), Failure> {
    print(text).map_err(Failure::Print)
}

/// The nodes of a network, for people.
pub fn dump(network: &Network) -> String {
    let (plan, mut out) = (&network.plan, String::new());
    for (i, host) in plan.topology.hosts().iter().enumerate() {
        let prefix = plan.hosts[i].prefix;
        let at = plan.topology.uplink(HostId(i as u32));
        let at = at.map(|(s, port, _)| format!(", at port {port} of {}", plan.switch(s))).unwrap_or_default();
        out += &format!("{}: eth0 {}/{prefix} {}{at}\n", host.name, host.address, Mac(host.mac));
    }
    for (i, switch) in plan.switches.iter().enumerate() {
        let id = SwitchId(i as u32);
        let ports: Vec<String> = interfaces(plan, &network.wiring, id).into_iter().map(|i| i.name).collect();
        out += &format!("{}: {}; {}\n", plan.switch(id), ports.join(" "), describe(switch));
    }
    out
}
