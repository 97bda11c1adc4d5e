//! Sends packets through every path of two switches and says how much memory they hold: drops, clones, multicast,
//! resubmission, recirculation, full queues, digests and messages that are never read, idle entries that are never requested,
//! parser errors, and packets of all lengths. Run by hand:
//!
//! ```text
//! cargo run --release -p pointsman-v1model --example many_packets [PACKETS]
//! ```

use pointsman_frontend::source::Loader;
use pointsman_interp::Interp;
use pointsman_ir::{ActionCall, Bits, Entry, EntryAction, KeyMatch, TableId, Value};
use pointsman_v1model::{
    CloneSession, Keep, Pipeline, QueueConfig, Random, Replica, Sink, Stats, Switch, SwitchConfig, Time,
};
use std::error::Error;
use std::path::Path;

/// Resident memory in bytes; `None` without /proc.
pub fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    statm.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}

/// Finds the architecture's own declarations.
struct Include;

impl Loader for Include {
    fn include(&self, name: &str, _quoted: bool, _from: &str) -> Option<(String, String)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include").join(name);
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path.display().to_string(), text))
    }
}

/// Counts what leaves.
#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    fn transmit(&mut self, _port: u32, _packet: &[u8]) {
        self.0 += 1;
    }

    fn to_cpu(&mut self, _packet: &[u8]) {
        self.0 += 1;
    }
}

/// A switch that runs one of the programs in the tests of `testkit`, with groups, sessions and slow ports.
fn switch(name: &str) -> Result<Switch<Interp>, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/tests/v1model").join(name);
    let text = std::fs::read_to_string(&path)?;
    let compiled = pointsman_frontend::compile(name, &text, &Include, &[])
        .map_err(|failure| format!("{:?}", failure.diagnostics))?;
    let pipeline = Pipeline::load(compiled.program).map_err(|problems| format!("{problems:?}"))?;
    let config = SwitchConfig { queues_per_port: 2, cpu_port: Some(500), ..SwitchConfig::default() };
    let mut switch = Switch::<Interp>::new(config)?;
    switch.set_pipeline(Time::ZERO, pipeline, Keep::Nothing)?;
    // Ports 1 and 5 cannot keep up: their queues fill and drop.
    for port in [1, 5] {
        let slow = QueueConfig { depth_packets: 64, rate_pps: Some(20_000), ..QueueConfig::default() };
        switch.configure_queue(port, None, slow)?;
    }
    let state = switch.state_mut().ok_or("no program")?;
    let replica = |port, instance| Replica { port, instance };
    let replication = &mut state.replication;
    replication.insert_group(1, vec![replica(4, 4), replica(5, 5), replica(4, 6)])?;
    for (id, port) in [(1, 6), (2, 500)] {
        let session = CloneSession {
            replicas: vec![replica(port, 0), replica(5, 1)],
            truncate_bytes: 40,
            ..CloneSession::default()
        };
        replication.insert_session(id, session)?;
    }
    Ok(switch)
}

/// Entries with idle timeouts and direct counters in the first table, if any.
fn add_entries(switch: &mut Switch<Interp>) -> Result<(), Box<dyn Error>> {
    let state = switch.state_mut().ok_or("no program")?;
    if state.program().tables.is_empty() {
        return Ok(());
    }
    for i in 0..64u32 {
        let args = vec![Value::Bits(Bits::new(32, i.into()))];
        let entry = Entry {
            matches: vec![KeyMatch::Exact(Bits::new(32, i.into()))],
            priority: 0,
            action: EntryAction::Call(ActionCall { action: 0, args }.into()),
            is_const: false,
            metadata: Vec::new(),
            idle_timeout_ns: 1_000_000,
        };
        state.insert(Time::ZERO, TableId(0), entry)?;
    }
    Ok(())
}

/// Both switches, and how far they are.
pub struct Run {
    switches: [Switch<Interp>; 2],
    random: Random,
    now: Time,
    sent: Count,
    packet: Vec<u8>,
}

impl Run {
    /// Switches at the start.
    pub fn new() -> Result<Run, Box<dyn Error>> {
        let mut switches = [switch("precedence.p4")?, switch("externs.p4")?];
        switches.iter_mut().try_for_each(add_entries)?;
        let (random, sent) = (Random::new(7), Count::default());
        Ok(Run { switches, random, now: Time::ZERO, sent, packet: Vec::new() })
    }

    /// Sends so many packets.
    pub fn packets(&mut self, n: u64) {
        for i in 0..n {
            self.now = self.now.plus_ns(1_000 + self.random.below(3_000));
            let length = if i % 1000 == 0 { 9_000 } else { self.random.below(200) };
            self.packet.clear();
            // Every byte of the first few decides something; registers and entries are hit with small numbers.
            for at in 0..length {
                let b = self.random.next_u64() as u8;
                self.packet.push(if (1..4).contains(&at) {
                    0
                } else {
                    b & if at == 0 { 0xff } else { 0x3f }
                });
            }
            let externs = i % 2 == 1;
            if externs && let Some(op) = self.packet.first_mut() {
                *op %= 18;
            }
            let switch = &mut self.switches[usize::from(externs)];
            switch.receive(self.now, self.random.below(8) as u32, &self.packet);
            switch.poll(self.now, 64, &mut self.sent);
        }
    }

    /// Counters of both switches.
    pub fn stats(&mut self) -> [Stats; 2] {
        let [a, b] = &mut self.switches;
        [a.stats().clone(), b.stats().clone()]
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let total: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(10_000_000);
    let mut run = Run::new()?;
    let step = (total / 20).max(1);
    let mut done = 0;
    while done < total {
        run.packets(step);
        done += step;
        println!("{done:>10} packets: {:.1} MB resident", resident().unwrap_or(0) as f64 / 1e6);
    }
    for stats in run.stats() {
        println!("{stats:#?}");
        if !stats.is_conserved() {
            return Err("packets are not conserved".into());
        }
    }
    Ok(())
}
