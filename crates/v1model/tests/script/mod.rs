//! The commands of a test file.

pub mod restored;

use super::Tested;
use pointsman_frontend::source::Loader;
use pointsman_ir::{
    ActionCall, Bits, Direction, Entry, EntryAction, Executor as _, ExternInstanceId, KeyMatch, MatchKind,
    TableId, Value, ValueSetId,
};
use pointsman_v1model::{
    Arrived, CloneSession, ConfigError, CounterCell, CrcParams, DropReason, Event, EventKind, Group,
    GroupMember, Keep, MeterConfig, Output, Pipeline, PortRate, QueueConfig, Random, Replica, SharedBuffer,
    Sink, State, Switch, SwitchConfig, Time, Worker,
};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::path::Path;

type Outcome<T = ()> = Result<T, String>;

/// Compiles `NAME.p4` and runs `NAME.test` on it.
pub fn run(dir: &Path, name: &str) -> Outcome {
    let source = dir.join(format!("{name}.p4"));
    let pipeline = load(&source).map_err(|e| format!("{name}.p4: {e}"))?;
    let path = dir.join(format!("{name}.test"));
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{name}.test: {e}"))?;
    let lines: Vec<(usize, Vec<&str>)> = text
        .lines()
        .enumerate()
        .map(|(i, l)| (i + 1, l.split('#').next().unwrap_or("").split_whitespace().collect()))
        .filter(|(_, words): &(usize, Vec<&str>)| !words.is_empty())
        .collect();
    let mut config = SwitchConfig::default();
    let mut commands = lines.as_slice();
    if let Some(((_, words), rest)) = commands.split_first()
        && words[0] == "config"
    {
        config.queues_per_port = option(words, "queues")?.unwrap_or(1) as u8;
        config.cpu_port = option(words, "cpu")?.map(|p| p as u32);
        config.clock_offset_us = option(words, "clock")?.unwrap_or(0);
        if let Some(most) = option(words, "descendants")? {
            config.max_descendants = Some(most as u32);
        }
        commands = rest;
    }
    let mut rig = Rig::new(config, pipeline).map_err(|e| format!("{name}.p4: {e}"))?;
    for (number, words) in commands {
        rig.command(words).map_err(|e| format!("{name}.test:{number}: {}: {e}", words.join(" ")))?;
    }
    rig.none().map_err(|e| format!("{name}.test: at the end: {e}"))
}

/// Gives one packet after another to port 0 of `NAME.p4`, and what left for each: "PORT HEX", sorted.
pub fn feed(dir: &Path, name: &str, setup: &[&str], packets: &[Vec<u8>]) -> Outcome<Vec<Vec<String>>> {
    let mut rig = Rig::new(SwitchConfig::default(), load(&dir.join(format!("{name}.p4")))?)?;
    for command in setup {
        rig.command(&command.split_whitespace().collect::<Vec<_>>())?;
    }
    let mut all = Vec::new();
    for packet in packets {
        rig.switch.receive(rig.now, 0, packet);
        rig.pass(rig.now)?;
        let left = rig.outputs.left.drain(..);
        let mut left: Vec<String> = left.map(|l| format!("{} {}", l.to, hex_text(&l.packet))).collect();
        left.sort();
        all.push(left);
    }
    Ok(all)
}

/// Feeds random packets to `NAME.p4`.
pub fn feed_random(dir: &Path, name: &str, packets: u64) -> Outcome {
    let mut random = Random::new(42);
    let config = SwitchConfig { queue_rate_pps: Some(100_000), ..SwitchConfig::default() };
    let mut rig = Rig::new(config, load(&dir.join(format!("{name}.p4")))?)?;
    rig.command(&["group", "1", "4:0", "5:1"])?;
    rig.command(&["session", "1", "6:0", "truncate=5"])?;
    rig.command(&["session", "2", "7:0"])?;
    for i in 0..packets {
        let length = random.below(64);
        let packet: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        let now = rig.now.plus_ns(random.below(20_000));
        rig.switch.receive(now, random.below(513) as u32, &packet);
        rig.pass(now)?;
        if i % 100 == 0 {
            rig.pass(now.plus_ns(10_000_000))?;
        }
    }
    same(rig.switch.stats().received, packets)
}

/// The outgoing packets, in order.
#[derive(Default)]
struct InOrder {
    left: Vec<Output>,
    /// Packets that were sent from the buffers in which they came.
    in_place: u64,
}

impl Sink for InOrder {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        self.left.transmit(port, packet);
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        self.left.to_cpu(packet);
    }

    fn transmit_buffer(&mut self, port: u32, _: usize, packet: &[u8]) {
        self.in_place += 1;
        self.left.transmit(port, packet);
    }
}

/// Everything that can be seen of a switch.
fn seen(switch: &mut Switch<Tested>) -> Outcome<String> {
    let (stats, digests, events) = (switch.stats().clone(), switch.take_digests(), switch.take_events());
    let ports: Vec<_> = (0..513).map(|port| switch.port_stats(port)).collect();
    let state = switch.state().ok_or("no program")?;
    let mut cells = Vec::new();
    for id in (0..state.program().externs.len() as u32).map(ExternInstanceId) {
        for i in 0..100 {
            cells.push((state.read_register(id, i).ok(), state.read_counter(id, i).ok()));
        }
    }
    let mut entries = Vec::new();
    for table in (0..state.program().tables.len() as u32).map(TableId) {
        for handle in state.entries(table).map(|(handle, _)| Some(handle)).chain([None]) {
            let counter = state.direct_counter(table, handle).ok();
            let meter = state.direct_meter(table, handle).ok();
            let idle = handle.and_then(|h| state.idle_ns(Time(u64::MAX), table, h).ok());
            entries.push((handle, counter, meter, idle));
        }
    }
    Ok(format!("{:?}", (stats, digests, events, ports, cells, entries, switch.next_deadline())))
}

/// What limits the ports of a switch.
type Limits = fn(&mut Switch<Tested>) -> Result<(), ConfigError>;

/// Port 0 has no limit, and each of the next ones has another.
fn limited(switch: &mut Switch<Tested>) -> Result<(), ConfigError> {
    let rate = |bits_per_s, burst_ns| Some(PortRate { bits_per_s, overhead_bytes: 4, burst_ns });
    for (port, bits, burst) in [(1, 100_000_000, 0), (2, 10_000_000, 100_000), (3, 1_000_000, 0)] {
        switch.configure_port_rate(port, rate(bits, burst))?;
    }
    let delayed = QueueConfig { delay_ns: 15_000, depth_bytes: Some(500), ..QueueConfig::default() };
    if switch.config().queues_per_port > 1 {
        switch.configure_queue(3, Some(1), delayed)?;
    }
    switch.configure_queue(4, None, delayed)?;
    switch.configure_queue(5, None, QueueConfig { rate_pps: Some(50_000), ..QueueConfig::default() })?;
    switch.configure_recirculation(rate(50_000_000, 0))?;
    switch.configure_buffer(Some(SharedBuffer { bytes: 2_000, threshold_percent: 50 }))
}

/// A switch with everything that the commands of a test file set.
fn rig_of(pipeline: &Pipeline, text: &str, config: SwitchConfig, limits: Limits) -> Outcome<Rig> {
    let mut rig = Rig::new(config, pipeline.clone())?;
    limits(&mut rig.switch).map_err(|e| e.to_string())?;
    for line in text.lines() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        let sets = [
            "entry",
            "default",
            "group",
            "session",
            "member",
            "select",
            "value_set",
            "meter",
            "direct_meter",
        ];
        if words.first().is_some_and(|w| sets.contains(w)) {
            // Some occur a second time.
            let _ = rig.command(&words);
        }
    }
    Ok(rig)
}

/// Feeds the same random packets to two switches that run `NAME.p4`, one by one and in batches: the results are equal.
/// Returns the number of packets that were sent to their ingress port.
pub fn feed_both(
    dir: &Path,
    name: &str,
    packets: u64,
    (config, limits): (SwitchConfig, Limits),
    budget: usize,
) -> Outcome<u64> {
    let pipeline = load(&dir.join(format!("{name}.p4")))?;
    let text = std::fs::read_to_string(dir.join(format!("{name}.test"))).map_err(|e| e.to_string())?;
    let new = || rig_of(&pipeline, &text, config.clone(), limits);
    let (mut single, mut batched, mut shared) = (new()?, new()?, new()?);
    // The first one goes step by step, the others by compiled passes.
    for rig in [&batched, &shared] {
        rig.switch.executor().ok_or("no program")?.complete();
    }
    // A single worker also does the same.
    let worker = &mut shared.switch.add_workers(1)[0];
    let (mut one, mut many, mut third) = (InOrder::default(), InOrder::default(), InOrder::default());
    let mut random = Random::new(packets ^ budget as u64);
    let mut now = Time::ZERO;
    let mut fed = 0;
    while fed < packets {
        now = now.plus_ns(random.below(20_000));
        let size = 1 + random.below(70);
        fed += size;
        let made: Vec<(u32, Vec<u8>, usize)> = (0..size)
            .map(|_| {
                // Some on ports that do not exist, some without room in front.
                let ports = if random.below(20) == 0 { 600 } else { 8 };
                let bytes = (0..random.below(64)).map(|_| random.next_u64() as u8 & 0x3f).collect();
                (random.below(ports) as u32, bytes, random.below(40) as usize)
            })
            .collect();
        for (port, packet, _) in &made {
            single.switch.receive(now, *port, packet);
            single.switch.poll(now, budget, &mut one);
        }
        let mut buffers: Vec<Vec<u8>> =
            made.iter().map(|(_, packet, room)| [vec![0xee; *room], packet.clone()].concat()).collect();
        let arrived = made.iter().zip(&mut buffers).map(|((port, _, start), buffer)| Arrived {
            port: *port,
            buffer,
            start: *start,
        });
        let mut arrived: Vec<Arrived<'_>> = arrived.collect();
        let mut again: Vec<Vec<u8>> = arrived.iter().map(|a| a.buffer.to_vec()).collect();
        let polled = batched.switch.process(now, budget, &mut arrived, &mut many);
        for (arrived, buffer) in arrived.iter_mut().zip(&mut again) {
            arrived.buffer = buffer;
        }
        same(worker.process(&shared.switch, now, budget, &mut arrived, &mut third), polled)?;
        same(polled.more, single.switch.poll(now, 0, &mut one).more)?;
        if random.below(4) == 0 {
            for (switch, sink) in [(&mut single.switch, &mut one), (&mut batched.switch, &mut many)] {
                switch.poll(now, 50, sink);
            }
            worker.poll(&shared.switch, now, 50, &mut third);
        }
        same(&many.left, &one.left).map_err(|e| format!("after {fed} packets: {e}"))?;
        // Random numbers are the worker's own.
        if !text.contains("random") {
            same(&third.left, &one.left).map_err(|e| format!("worker, after {fed} packets: {e}"))?;
        }
        for sink in [&mut one, &mut many, &mut third] {
            sink.left.clear();
        }
    }
    let want = seen(&mut single.switch)?;
    same(seen(&mut batched.switch)?, want.clone())?;
    if !text.contains("random") {
        // The switch itself does not wait for packets in the worker's queues.
        let without = |s: String| s.rsplit_once(", ").map_or(s.clone(), |(s, _)| s.to_string());
        same(without(seen(&mut shared.switch)?), without(want))?;
    }
    Ok(many.in_place)
}

/// [`feed_both`] with queues of every sort, and with budgets that are too small.
pub fn feed_batches(dir: &Path, name: &str, packets: u64) -> Outcome<u64> {
    let plain = SwitchConfig { cpu_port: Some(500), ..SwitchConfig::default() };
    let ports = Some([1, 2, 3, 4, 5, 500].into());
    let slow = SwitchConfig { queue_rate_pps: Some(100_000), queues_per_port: 2, ..plain.clone() };
    let narrow = SwitchConfig { ports, max_packet_bytes: 40, queues_per_port: 8, ..plain.clone() };
    let two = SwitchConfig { queues_per_port: 2, ..plain.clone() };
    let unlimited: Limits = |_| Ok(());
    let mut in_place = 0;
    for (what, config, budget) in [
        ("plain", (plain.clone(), unlimited), 50),
        ("slow", (slow, unlimited), 50),
        ("narrow", (narrow, unlimited), 50),
        ("limited", (plain.clone(), limited), 50),
        ("limited, two queues", (two.clone(), limited), 50),
        ("limited, short of breath", (two, limited), 3),
        ("short of breath", (plain.clone(), unlimited), 3),
        ("one pass", (plain, unlimited), 1),
    ] {
        in_place += feed_both(dir, name, packets, config, budget).map_err(|e| format!("{what}: {e}"))?;
    }
    Ok(in_place)
}

/// `threads` workers process `packets` packets each of `workers.p4`, while the control plane changes tables and reads:
/// nothing is lost, torn, or counted twice.
pub fn feed_workers(dir: &Path, threads: usize, packets: u64) -> Outcome {
    let mut rig = Rig::new(SwitchConfig::default(), load(&dir.join("workers.p4"))?)?;
    rig.command(&["entry", "I.ports", "2", "->", "I.forward", "5"])?;
    rig.command(&["entry", "I.kept", "2", "->", "NoAction", "idle=10s"])?;
    let workers = rig.switch.add_workers(threads);
    let find = |rig: &Rig, name: &str| {
        let externs = &rig.switch.state().ok_or("no program")?.program().externs;
        let at = externs.iter().position(|e| e.name == name).ok_or_else(|| format!("no {name}"))?;
        Ok::<_, String>(ExternInstanceId(at as u32))
    };
    let [total, wide, seen] = [find(&rig, "I.total")?, find(&rig, "I.wide")?, find(&rig, "I.seen")?];
    let switch = std::sync::RwLock::new(&mut rig.switch);
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let run = |mut worker: Worker<Tested>| {
            let switch = &switch;
            move || {
                let mut sink = InOrder::default();
                let mut sent = 0;
                while sent < packets {
                    // The two keys in turn, all packets to one of two cells.
                    let mut buffers: Vec<[u8; 5]> =
                        (0..16).map(|i| [i as u8 % 2, 1 + (sent + i) as u8 % 2, 0, 0, i as u8]).collect();
                    let mut batch: Vec<Arrived<'_>> =
                        buffers.iter_mut().map(|b| Arrived { port: 3, buffer: b, start: 0 }).collect();
                    let switch = switch.read().map_err(|e| e.to_string())?;
                    worker.process(&switch, Time(sent), 50, &mut batch, &mut sink);
                    sent += 16;
                }
                same(sink.left.len() as u64, sent)?;
                for left in &sink.left {
                    let (port, bytes) = match left {
                        Output::Port(port, bytes) => (*port, bytes),
                        Output::Cpu(_) => return Err("sent to the CPU".into()),
                    };
                    same(&bytes[2..4], &[0, 0])?;
                    // The entry comes and goes.
                    same((bytes[1], port == 1 || (port == 5 && bytes[1] == 2)), (bytes[1], true))?;
                }
                Ok(())
            }
        };
        let running: Vec<_> = workers.into_iter().map(|worker| scope.spawn(run(worker))).collect();
        for _ in 0..50 {
            let Ok(mut switch) = switch.write() else { return vec![Err("poisoned".into())] };
            let Some(state) = switch.state_mut() else { return vec![Err("no program".into())] };
            let entries: Vec<Entry> = state.entries(TableId(0)).map(|(_, e)| e).collect();
            for entry in entries {
                // Taken out and put back between two batches: its absence goes unnoticed.
                if state.delete(TableId(0), &entry.matches, 0).is_err() {
                    return vec![Err("not deleted".into())];
                }
                if let Err(e) = state.insert(Time(0), TableId(0), entry) {
                    return vec![Err(e.to_string())];
                }
            }
        }
        running.into_iter().map(|r| r.join().unwrap_or_else(|_| Err("panicked".into()))).collect()
    });
    outcomes.into_iter().collect::<Outcome>()?;
    let all = packets.next_multiple_of(16) * threads as u64;
    let stats = rig.switch.stats().clone();
    same((stats.received, stats.transmitted, stats.is_conserved()), (all, all, true))?;
    let state = rig.switch.state().ok_or("no program")?;
    for cell in 0..2 {
        let half = u128::from(all / 2);
        same(state.read_register(total, cell).ok(), Some(Bits::new(32, half)))?;
        let part = Bits::new(32, 7 * half);
        same(state.read_register(wide, cell).ok(), Some(part.concat(&part).concat(&part)))?;
        let want = CounterCell { packets: all / 2, bytes: 5 * all / 2 };
        same(state.read_counter(seen, cell).ok(), Some(want))?;
    }
    let meter = find(&rig, "I.rate")?;
    let state = rig.switch.state().ok_or("no program")?;
    let marked: u64 =
        (0..2).filter_map(|i| state.meter_cell(meter, i).ok()).map(|m| m.marked()[0].packets).sum();
    same(marked, all)?;
    same(state.direct_counter(TableId(0), None).map(|c| c.packets).ok(), Some(all / 2))?;
    // An entry that stays: all workers' hits together, and the last one's time.
    let last = Time(packets.next_multiple_of(16) - 16);
    let of_entry = |state: &pointsman_v1model::State| {
        let (handle, _) = state.entries(TableId(1)).next().ok_or("no entry")?;
        let want = CounterCell { packets: all / 2, bytes: 5 * all / 2 };
        same([Some(handle), None].map(|h| state.direct_counter(TableId(1), h).ok()), [Some(want); 2])?;
        same(state.idle_ns(last.plus_ns(7), TableId(1), handle).ok(), Some(7))
    };
    of_entry(state)?;
    // Another program: the workers' counts are kept.
    let pipeline = load(&dir.join("workers.p4"))?;
    rig.switch.set_pipeline(Time(1), pipeline, Keep::Fitting).map_err(|e| e.to_string())?;
    let state = rig.switch.state().ok_or("no program")?;
    of_entry(state)?;
    same(state.read_counter(seen, 0).ok().map(|c| c.packets), Some(all / 2))
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

fn load(source: &Path) -> Outcome<Pipeline> {
    let text = std::fs::read_to_string(source).map_err(|e| e.to_string())?;
    let compiled = pointsman_frontend::compile(&source.display().to_string(), &text, &Include, &[])
        .map_err(|failure| format!("{:#?}", failure.diagnostics))?;
    Pipeline::load(compiled.program).map_err(|problems| format!("{problems:?}"))
}

/// The packets that left the switch, and their times.
#[derive(Debug)]
struct Left {
    to: String,
    packet: Vec<u8>,
    at: Time,
}

/// Notes what leaves.
struct Outputs {
    left: VecDeque<Left>,
    now: Time,
}

impl Sink for Outputs {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        self.left.push_back(Left { to: port.to_string(), packet: packet.to_vec(), at: self.now });
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        self.left.push_back(Left { to: "cpu".into(), packet: packet.to_vec(), at: self.now });
    }
}

struct Rig {
    switch: Switch<Tested>,
    outputs: Outputs,
    now: Time,
    idle: Vec<(TableId, Vec<KeyMatch>)>,
    events: VecDeque<Event>,
}

impl Rig {
    fn new(config: SwitchConfig, pipeline: Pipeline) -> Outcome<Rig> {
        let mut switch = Switch::new(config).map_err(|e| e.to_string())?;
        switch.set_pipeline(Time::ZERO, pipeline, Keep::Nothing).map_err(|e| e.to_string())?;
        let outputs = Outputs { left: VecDeque::new(), now: Time::ZERO };
        Ok(Rig { switch, outputs, now: Time::ZERO, idle: Vec::new(), events: VecDeque::new() })
    }

    /// Lets everything happen that is due until `end`, each thing at its time.
    fn pass(&mut self, end: Time) -> Outcome {
        let mut rounds = 0;
        while let Some(t) = self.switch.next_deadline().filter(|t| *t <= end) {
            let t = t.max(self.now);
            self.outputs.now = t;
            self.switch.poll(t, 1, &mut self.outputs);
            for idle in self.switch.take_idle(t, usize::MAX) {
                let entry = self.state()?.table(idle.table).and_then(|t| t.store().get(idle.handle));
                let matches = entry.map(|e| e.matches.clone()).unwrap_or_default();
                self.idle.push((idle.table, matches));
            }
            if !self.switch.stats().is_conserved() {
                return Err(format!("packets are not conserved: {:?}", self.switch.stats()));
            }
            rounds += 1;
            if rounds > 100_000 {
                return Err("this does not come to rest".into());
            }
        }
        self.now = self.now.max(end);
        Ok(())
    }

    fn state(&self) -> Outcome<&State> {
        self.switch.state().ok_or_else(|| "no program".into())
    }

    fn state_mut(&mut self) -> Outcome<&mut State> {
        self.switch.state_mut().ok_or_else(|| "no program".into())
    }

    fn none(&mut self) -> Outcome {
        self.pass(self.now)?;
        match self.outputs.left.front() {
            None => Ok(()),
            Some(left) => Err(format!("this left too: {}", show(left))),
        }
    }

    fn command(&mut self, words: &[&str]) -> Outcome {
        let rest = &words[1..];
        match words[0] {
            "at" => self.pass(time(word(rest, 0)?)?),
            "in" => {
                let port = number(word(rest, 0)?)? as u32;
                self.switch.receive(self.now, port, &hex(&rest[1..])?);
                Ok(())
            }
            "cpu" => {
                self.switch.receive_cpu(self.now, &hex(rest)?);
                Ok(())
            }
            "out" => self.expect(rest),
            "none" => self.none(),
            "drops" => {
                let name = word(rest, 0)?;
                let reason = DropReason::ALL.iter().find(|r| r.name() == name).ok_or("no such reason")?;
                self.pass(self.now)?;
                same(self.switch.stats().dropped_by(*reason), number(word(rest, 1)?)?)
            }
            "anomaly" => {
                self.pass(self.now)?;
                let a = self.switch.stats().anomalies;
                let n = match word(rest, 0)? {
                    "register_index" => a.register_index,
                    "counter_index" => a.counter_index,
                    "meter_index" => a.meter_index,
                    "unknown_clone_session" => a.unknown_clone_session,
                    other => return Err(format!("no anomaly {other}")),
                };
                same(n, number(word(rest, 1)?)?)
            }
            "parser_errors" => {
                self.pass(self.now)?;
                let n = self.switch.stats().parser_errors.get(word(rest, 0)?).copied().unwrap_or(0);
                same(n, number(word(rest, 1)?)?)
            }
            "group" => {
                let id = number(word(rest, 0)?)? as u32;
                let replicas = replicas(&rest[1..])?;
                said(self.state_mut()?.replication.insert_group(id, replicas))
            }
            "session" => {
                let session = CloneSession {
                    replicas: replicas(&rest[1..])?,
                    truncate_bytes: option(rest, "truncate")?.unwrap_or(0) as u32,
                    multicast_group: option(rest, "group")?.map(|g| g as u32),
                    class_of_service: option(rest, "class")?.unwrap_or(0) as u8,
                };
                let id = number(word(rest, 0)?)? as u32;
                said(self.state_mut()?.replication.insert_session(id, session))
            }
            "queue" => {
                let config = QueueConfig {
                    depth_packets: option(rest, "depth")?.unwrap_or(64) as u32,
                    rate_pps: option(rest, "rate")?,
                    ..QueueConfig::default()
                };
                let priority = option(rest, "priority")?.map(|p| p as u8);
                said(self.switch.configure_queue(number(word(rest, 0)?)? as u32, priority, config))
            }
            "entry" => {
                let (table, entry) = self.entry(rest)?;
                let now = self.now;
                said(self.state_mut()?.insert(now, table, entry))
            }
            "refuse" => {
                let (table, entry) = self.entry(&rest[1..])?;
                let now = self.now;
                match self.state_mut()?.insert(now, table, entry) {
                    Ok(_) => Err("it was taken".into()),
                    Err(e) if format!("{e:?}").to_lowercase().contains(word(rest, 0)?) => Ok(()),
                    Err(e) => Err(format!("refused, but: {e:?}")),
                }
            }
            "default" => {
                let table = self.table(word(rest, 0)?)?;
                let call = self.call(table, arrow(rest)?.1)?;
                said(self.state_mut()?.set_default(table, call))
            }
            "member" => {
                let profile = self.object(word(rest, 0)?)?;
                let found = self.state()?.profile(profile).ok_or("no such profile")?;
                let action = arrow(rest)?.1;
                let calls = found.tables().iter().map(|t| Ok(found.of_table(*t, self.call(*t, action)?)));
                let call = calls.reduce(Outcome::or).ok_or("no table uses it")??;
                let id = number(word(rest, 1)?)? as u32;
                said(self.state_mut()?.insert_member(profile, id, call))
            }
            "select" => {
                let profile = self.object(word(rest, 0)?)?;
                let members = rest[2..].iter().map(|w| {
                    let (member, weight) = pair(w)?;
                    Ok(GroupMember { member, weight, watch_port: None })
                });
                let group = Group { members: members.collect::<Outcome<_>>()?, max_size: 0 };
                let id = number(word(rest, 1)?)? as u32;
                said(self.state_mut()?.insert_group(profile, id, group))
            }
            "register" | "counter" | "meter" => self.object_command(words[0], rest),
            "direct_counter" | "direct_meter" => self.direct_command(words[0], rest),
            "crc16" | "crc32" => {
                let n = |i| number(word(rest, i)?).map(|n| n as u32);
                let params = CrcParams {
                    polynomial: n(0)?,
                    initial: n(1)?,
                    final_xor: n(2)?,
                    reflect_input: n(3)? == 1,
                    reflect_output: n(4)? == 1,
                };
                self.pass(self.now)?;
                match words[0] {
                    "crc16" => self.state_mut()?.set_crc16_custom(params),
                    _ => self.state_mut()?.set_crc32_custom(params),
                }
                Ok(())
            }
            "value_set" => {
                let name = word(rest, 0)?;
                let program = self.state()?.program().clone();
                let i = position(program.value_sets.iter().map(|v| v.name.as_str()), name)?;
                let width = program.types.scalar_width(program.value_sets[i].elem).ok_or("not a scalar")?;
                let members = rest[1..].iter().map(|w| Ok(vec![KeyMatch::Exact(bits(width, w)?)]));
                let members = members.collect::<Outcome<_>>()?;
                said(self.state_mut()?.set_value_set(ValueSetId(i as u32), members))
            }
            "digest" => {
                self.pass(self.now)?;
                let digests = self.switch.take_digests();
                let [digest] = digests.as_slice() else { return Err(format!("{digests:?}")) };
                let mut buffer = pointsman_v1model::BitBuffer::default();
                buffer.push_value(&digest.data);
                same(buffer.bytes().to_vec(), hex(rest)?)
            }
            "event" => {
                self.pass(self.now)?;
                self.events.extend(self.switch.take_events());
                let text = match self.events.pop_front().map(|e| e.kind) {
                    Some(EventKind::Log(text)) => text,
                    Some(EventKind::AssertFailed(place)) => failed("assertion", place.as_deref()),
                    Some(EventKind::AssumeFailed(place)) => failed("assumption", place.as_deref()),
                    None => "nothing".into(),
                };
                same(text, rest.join(" "))
            }
            "idle" => {
                self.pass(self.now)?;
                let mut expected = Vec::new();
                if word(rest, 0)? != "none" {
                    let table = self.table(word(rest, 0)?)?;
                    expected.push((table, self.keys(table, &rest[1..])?));
                }
                same(std::mem::take(&mut self.idle), expected)
            }
            other => Err(format!("no command {other}")),
        }
    }

    fn expect(&mut self, words: &[&str]) -> Outcome {
        self.pass(self.now)?;
        let (words, at) = match words.split_last() {
            Some((last, words)) if last.starts_with('@') => (words, Some(time(&last[1..])?)),
            _ => (words, None),
        };
        let packet = hex(&words[1..])?;
        let Some(left) = self.outputs.left.pop_front() else {
            return Err(format!("nothing left; {:?}", self.switch.stats()));
        };
        if left.to != words[0] || left.packet != packet || at.is_some_and(|t| t != left.at) {
            return Err(format!("this left: {}", show(&left)));
        }
        Ok(())
    }

    fn table(&self, name: &str) -> Outcome<TableId> {
        let program = self.state()?.program();
        position(program.tables.iter().map(|t| t.name.as_str()), name).map(|i| TableId(i as u32))
    }

    fn object(&self, name: &str) -> Outcome<ExternInstanceId> {
        let program = self.state()?.program();
        position(program.externs.iter().map(|e| e.name.as_str()), name).map(|i| ExternInstanceId(i as u32))
    }

    /// An action of a table with its data.
    fn call(&self, table: TableId, words: &[&str]) -> Outcome<ActionCall> {
        let program = self.state()?.program();
        let actions = &program.tables[table.index()].actions;
        let names = actions.iter().map(|a| program.actions[a.action.index()].name.as_str());
        let i = position(names, word(words, 0)?)?;
        let params = &program.actions[actions[i].action.index()].frame.params;
        let data = params.iter().filter(|p| p.direction == Direction::None);
        let args = data.zip(&words[1..]).map(|(p, w)| {
            let width = program.types.scalar_width(p.ty).ok_or("not a scalar")?;
            Ok(Value::Bits(bits(width, w)?))
        });
        Ok(ActionCall { action: i as u32, args: args.collect::<Outcome<_>>()? })
    }

    fn keys(&self, table: TableId, words: &[&str]) -> Outcome<Vec<KeyMatch>> {
        let program = self.state()?.program();
        let keys = program.tables[table.index()].keys.iter().filter(|k| k.match_kind != MatchKind::Selector);
        keys.zip(words)
            .map(|(key, w)| {
                let width = program.types.scalar_width(key.expr.ty).ok_or("not a scalar")?;
                Ok(match key.match_kind {
                    MatchKind::Exact => KeyMatch::Exact(bits(width, w)?),
                    MatchKind::Lpm => {
                        let (value, len) = w.split_once('/').ok_or("a prefix is needed")?;
                        KeyMatch::Lpm { value: bits(width, value)?, prefix_len: number(len)? as u32 }
                    }
                    MatchKind::Ternary => {
                        let (value, mask) = w.split_once("&&&").ok_or("a mask is needed")?;
                        KeyMatch::Ternary { value: bits(width, value)?, mask: bits(width, mask)? }
                    }
                    MatchKind::Range => {
                        let (lo, hi) = w.split_once("..").ok_or("a range is needed")?;
                        KeyMatch::Range { lo: bits(width, lo)?, hi: bits(width, hi)? }
                    }
                    MatchKind::Optional if *w == "*" => KeyMatch::Optional(None),
                    _ => KeyMatch::Optional(Some(bits(width, w)?)),
                })
            })
            .collect()
    }

    fn entry(&self, words: &[&str]) -> Outcome<(TableId, Entry)> {
        let (keys, action) = arrow(words)?;
        let table = self.table(word(keys, 0)?)?;
        let action = match (word(action, 0)?, action.get(1)) {
            ("group", Some(n)) => EntryAction::Group(number(n)? as u32),
            ("member", Some(n)) => EntryAction::Member(number(n)? as u32),
            _ => EntryAction::Call(self.call(table, action)?.into()),
        };
        let idle = words.iter().find_map(|w| w.strip_prefix("idle=")).map(time).transpose()?;
        let entry = Entry {
            matches: self.keys(table, &keys[1..])?,
            priority: option(words, "prio")?.unwrap_or(0) as i32,
            action,
            is_const: false,
            metadata: Vec::new(),
            idle_timeout_ns: idle.map_or(0, |t| t.0),
        };
        Ok((table, entry))
    }

    /// `NAME[I] = V...` or `NAME[I] == V...`
    fn object_command(&mut self, what: &str, words: &[&str]) -> Outcome {
        self.pass(self.now)?;
        let (name, index) = word(words, 0)?.split_once('[').ok_or("an index is needed")?;
        let (id, index) = (self.object(name)?, number(index.trim_end_matches(']'))?);
        let check = word(words, 1)? == "==";
        let now = self.now;
        match (what, check) {
            ("register", _) => {
                let width = self.state()?.register(id).ok_or("not a register")?.width();
                let value = bits(width, word(words, 2)?)?;
                match check {
                    true => same(self.state()?.read_register(id, index), Ok(value)),
                    false => said(self.state_mut()?.write_register(id, index, &value)),
                }
            }
            ("counter", true) => same(self.state()?.read_counter(id, index), Ok(cell(&words[2..])?)),
            ("counter", false) => said(self.state_mut()?.write_counter(id, index, cell(&words[2..])?)),
            _ => said(self.state_mut()?.write_meter(now, id, index, Some(meter(&words[2..])?))),
        }
    }

    fn direct_command(&mut self, what: &str, words: &[&str]) -> Outcome {
        self.pass(self.now)?;
        let table = self.table(word(words, 0)?)?;
        let handle = match word(words, 1)? {
            "*" => None,
            _ => {
                let keys = self.keys(table, &words[1..2])?;
                let store = self.state()?.table(table).ok_or("no such table")?.store();
                Some(store.find(&keys, 0).ok_or("no such entry")?)
            }
        };
        let now = self.now;
        match what {
            "direct_counter" => same(self.state()?.direct_counter(table, handle), Ok(cell(&words[3..])?)),
            _ => {
                let handle = handle.ok_or("an entry is needed")?;
                said(self.state_mut()?.set_direct_meter(now, table, Some(handle), Some(meter(&words[3..])?)))
            }
        }
    }
}

/// `assertion failed in line 17`.
fn failed(what: &str, place: Option<&str>) -> String {
    let line = place.and_then(|p| p.rsplit_once(':')).map_or("?", |(_, line)| line);
    format!("{what} failed in line {line}")
}

fn show(left: &Left) -> String {
    format!("{} {} @{}us", left.to, hex_text(&left.packet), left.at.micros())
}

fn hex_text(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn same<T: PartialEq + Debug>(got: T, want: T) -> Outcome {
    if got == want { Ok(()) } else { Err(format!("it is {got:?}")) }
}

fn said<T, E: std::fmt::Display>(result: Result<T, E>) -> Outcome {
    result.map(|_| ()).map_err(|e| e.to_string())
}

fn word<'a>(words: &[&'a str], i: usize) -> Outcome<&'a str> {
    words.get(i).copied().ok_or_else(|| "a word is missing".into())
}

fn arrow<'a, 'b>(words: &'b [&'a str]) -> Outcome<(&'b [&'a str], &'b [&'a str])> {
    let i = words.iter().position(|w| *w == "->").ok_or("-> is missing")?;
    Ok((&words[..i], &words[i + 1..]))
}

fn position<'a>(mut names: impl Iterator<Item = &'a str>, name: &str) -> Outcome<usize> {
    names.position(|n| n == name).ok_or_else(|| format!("nothing is called {name}"))
}

fn number(text: &str) -> Outcome<u64> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|e| format!("{text}: {e}"))
}

fn bits(width: u32, text: &str) -> Outcome<Bits> {
    match text.strip_prefix("0x") {
        Some(digits) => {
            let even = if digits.len() % 2 == 0 { digits.to_string() } else { format!("0{digits}") };
            Ok(Bits::from_be_bytes(width, &hex(&[&even])?))
        }
        None => Ok(Bits::new(width, number(text)?.into())),
    }
}

fn time(text: &str) -> Outcome<Time> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let scale = match unit {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(format!("{text}: a time ends in us, ms or s")),
    };
    Ok(Time(number(&text[..text.len() - unit.len()])? * scale))
}

fn hex(words: &[&str]) -> Outcome<Vec<u8>> {
    let digits = words.concat();
    if !digits.is_ascii() || digits.len() % 2 != 0 {
        return Err(format!("{digits}: not whole bytes"));
    }
    let byte = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).map_err(|e| format!("{digits}: {e}"));
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn option(words: &[&str], name: &str) -> Outcome<Option<u64>> {
    let value = words.iter().find_map(|w| w.strip_prefix(name).and_then(|w| w.strip_prefix('=')));
    value.map(number).transpose()
}

fn pair(text: &str) -> Outcome<(u32, u32)> {
    let (a, b) = text.split_once(':').ok_or("two numbers with : are needed")?;
    Ok((number(a)? as u32, number(b)? as u32))
}

fn replicas(words: &[&str]) -> Outcome<Vec<Replica>> {
    let replicas = words.iter().filter(|w| w.contains(':'));
    replicas.map(|w| pair(w).map(|(port, instance)| Replica { port, instance: instance as u16 })).collect()
}

fn cell(words: &[&str]) -> Outcome<CounterCell> {
    Ok(CounterCell { packets: number(word(words, 0)?)?, bytes: number(word(words, 1)?)? })
}

fn meter(words: &[&str]) -> Outcome<MeterConfig> {
    let n = |i| number(word(words, i)?);
    Ok(MeterConfig { cir: n(0)?, cburst: n(1)?, pir: n(2)?, pburst: n(3)? })
}
