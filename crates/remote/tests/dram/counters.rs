//! Counters in the memory of servers: no packet is missing, and none counts twice.

use super::world::{World, datagram, program};
use crate::switch::*;
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_remote::Zipf;
use pointsman_wire::crc;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Queue pairs of each server.
const PAIRS: u32 = 2;
/// After this time without an answer requests are repeated.
const TIMEOUT: u64 = 200 * US;

/// A run: packets of flows whose popularity is that of Zipf's law.
#[derive(Clone, Copy)]
struct Settings {
    /// Counters of both servers.
    counters: u32,
    slots: u32,
    /// With this sum a slot is emptied.
    limit: u64,
    flows: u32,
    exponent: f64,
    packets: u32,
    gap_ns: u64,
    faults: Faults,
}

fn settings() -> Settings {
    let faults = Faults::default();
    Settings {
        counters: 1000,
        slots: 64,
        limit: 8,
        flows: 300,
        exponent: 0.9,
        packets: 4000,
        gap_ns: 2 * US,
        faults,
    }
}

/// Everything goes wrong, differently for each seed.
fn faults(seed: u64) -> Settings {
    let faults = Faults::of(seed);
    Settings { faults, limit: [8, 1][(seed / 3 % 2) as usize], ..settings() }
}

fn app<E>(settings: Settings, changes: &[(&str, &str)]) -> App<E> {
    let macros = format!("#define FLOWS {}\n#define COUNTERS_SLOTS {}\n", settings.counters, settings.slots);
    program("dram-counters", &macros, changes)
}

struct Run<E: Executor> {
    world: World<E>,
    settings: Settings,
    /// What was counted, by index.
    counted: BTreeMap<u32, u64>,
}

impl<E: Executor + Send + Sync> Run<E> {
    fn new(app: &App<E>, settings: Settings, seed: u64) -> Self {
        let half = settings.counters / 2;
        let mut world = World::new(app, &[half as usize * 8; 2], settings.faults, seed);
        for server in 0..2 {
            for j in 0..PAIRS {
                let psns = ["counters_next", "counters_sent", "counters_done"];
                world.add_pair(server * PAIRS + j, 0x200, server as usize, BASE, &psns);
            }
            let (start, first) = (server * half, server * PAIRS);
            let range = format!("{start}..{}", start + half - 1);
            let action = format!("server(first_pair={first}, pair_mask={}, start={start})", PAIRS - 1);
            world
                .rig
                .add(&format!("counters_servers index={range} priority=1 -> {action}"))
                .expect("a range");
        }
        let limit = settings.limit;
        let configure = format!("configure(address=10.9.0.1, mac=0x99, timeout={TIMEOUT}, limit={limit})");
        world.rig.set_default("counters_config", &configure).expect("the settings");
        world.statement("value_set_add counters_addresses 10.9.0.1");
        world.rig.add("routes prefix=198.51.0.0/16 -> forward(port=1, mac=0x22)").expect("a route");
        world.generator(&format!("3:period=20us,port=508,packets={},template=00", 2 * PAIRS));
        Run { world, settings, counted: BTreeMap::new() }
    }

    /// Sends the packets, and waits for the last answer.
    fn send(&mut self) {
        let Settings { flows, exponent, packets, gap_ns, .. } = self.settings;
        let zipf = Zipf::new(flows, exponent);
        let mut at = 0;
        for _ in 0..packets {
            let flow = zipf.draw(&mut self.world.random);
            let source = Ipv4Addr::from(0x0a00_0000 + (flow >> 8));
            let target = Ipv4Addr::new(198, 51, 100, 1);
            let port = 1024 + (flow & 0xff) as u16;
            let key = [&source.octets()[..], &target.octets(), &[17], &port.to_be_bytes(), &[0, 80]].concat();
            *self.counted.entry(crc::crc32(&key) % self.settings.counters).or_default() += 1;
            let packet = datagram((2, 1), (source, port), target, &[0; 18], 64);
            at += 1 + self.world.random.below(2 * gap_ns);
            self.world.send(at, 0, packet);
        }
        self.world.run(at + 20_000 * US);
        assert_eq!(self.world.left.len(), packets as usize, "packets are forwarded");
    }

    /// Empties all slots.
    fn sweep(&mut self) {
        self.world.generator("4:period=2us,port=508,template=00");
        let slots = u64::from(self.settings.slots);
        self.world.run(4 * US * slots + 20_000 * US);
        self.world.generator("4:off");
    }

    fn in_servers(&self) -> BTreeMap<u32, u64> {
        let memories = self.world.servers.iter().map(|s| &s.region(REGION).expect("the region").memory);
        let cells = memories
            .flat_map(|m| m.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("8 bytes"))));
        (0..).zip(cells).filter(|(_, n)| *n > 0).collect()
    }

    /// With what the switch's slots have.
    fn everywhere(&mut self) -> BTreeMap<u32, u64> {
        let mut all = self.in_servers();
        for slot in 0..self.settings.slots.into() {
            let sum = self.world.register("counters_sum", slot);
            if sum > 0 {
                *all.entry(self.world.register("counters_index", slot) as u32).or_default() += sum;
            }
        }
        all
    }

    /// What is wrong after a quiet time: nothing may be in flight, and all but what is counted as lost must be there.
    fn wrong(&mut self) -> Option<String> {
        for pair in 0..u64::from(2 * PAIRS) {
            let [next, done] = ["counters_next", "counters_done"].map(|r| self.world.register(r, pair));
            if next != done {
                return Some(format!("queue pair {pair} has {next} and {done}"));
            }
        }
        let lost = self.world.register("counters_lost", 0);
        let all = self.everywhere();
        let more = all.iter().find(|(index, n)| *n > self.counted.get(index).unwrap_or(&0));
        if let Some((index, n)) = more {
            return Some(format!("counter {index} has {n}, counted {:?}", self.counted.get(index)));
        }
        let (expected, found) = (self.counted.values().sum::<u64>(), all.values().sum::<u64>());
        (found + lost != expected).then(|| format!("{found} and {lost} lost of {expected}"))
    }
}

/// Two checks: with what is in slots, and when the servers have everything. How much is lost.
fn run<E: Executor + Send + Sync>(app: &App<E>, settings: Settings, seed: u64) -> Result<u64, String> {
    let mut run = Run::new(app, settings, seed);
    run.send();
    if let Some(wrong) = run.wrong() {
        return Err(wrong);
    }
    run.sweep();
    let (servers, all) = (run.in_servers(), run.everywhere());
    if servers != all {
        return Err(format!(
            "the sweep left {} of {}",
            all.values().sum::<u64>() - servers.values().sum::<u64>(),
            run.settings.packets
        ));
    }
    run.wrong().map_or(Ok(()), Err)?;
    let lost = run.world.register("counters_lost", 0);
    if lost == 0 && servers != run.counted {
        return Err("other counters have the sums".to_string());
    }
    Ok(lost)
}

#[test]
fn counts_are_exact() {
    let (fast, slow) = (app::<Engine>(settings(), &[]), app::<Interp>(settings(), &[]));
    let mut lost = Vec::new();
    for seed in 0..12 {
        lost.push(run(&fast, faults(seed), seed).unwrap_or_else(|e| panic!("seed {seed}: {e}")));
    }
    println!("{lost:?} of {} had no room", settings().packets);
    assert_eq!(lost[0], 0, "nothing is lost without faults");
    for seed in [5, 11] {
        assert_eq!(run(&slow, faults(seed), seed), Ok(lost[seed as usize]), "seed {seed}");
    }
}

/// Each protection that is taken away shows.
#[test]
fn every_fault_that_is_put_in_is_found() {
    let found = |changes: &[(&str, &str)]| {
        let app = app::<Engine>(settings(), changes);
        (0..12).find_map(|seed| run(&app, faults(seed), seed).err().map(|wrong| (seed, wrong)))
    };
    let again = "counters_counts.count(COUNTERS_COUNT_TIMEOUT);
                        sent = done;";
    let with_new_number = "bit<32> offset;
        counters_place.read(offset, COUNTERS_PLACE(m.pair, done));
        counters_queued.read(m.sum, COUNTERS_PLACE(m.pair, done));
        counters_place.write(COUNTERS_PLACE(m.pair, next), offset);
        counters_queued.write(COUNTERS_PLACE(m.pair, next), m.sum);
        next = next + 1;
        sent = done;";
    assert_eq!(found(&[]), None);
    let mutations = [
        ("a request is repeated with another number", found(&[(again, with_new_number)])),
        ("what is in flight is forgotten", found(&[(again, "done = next; sent = next;")])),
        ("a time-out repeats nothing", found(&[(again, "")])),
        (
            "a reported gap repeats nothing",
            found(&[("if (has_gap || ahead[23:23] == 1)", "if (ahead[23:23] == 1)"), (again, "")]),
        ),
        (
            "a slot is not emptied",
            found(&[("counters_sum.write(m.slot, m.rest);", "counters_sum.write(m.slot, m.rest + m.sum);")]),
        ),
        ("the amount of a packet that evicts is forgotten", found(&[("m.rest = m.amount;", "m.rest = 0;")])),
        ("a sum goes to another counter", found(&[("m.leaving = m.rest_index;", "m.leaving = m.index;")])),
        ("a sum that waits is overwritten", found(&[("next - done < COUNTERS_RING", "true")])),
        (
            "an answer acknowledges one request too many",
            found(&[("bit<24> end = h.roce.psn + 1;", "bit<24> end = h.roce.psn + 2;")]),
        ),
        (
            "what has no room is not counted as lost",
            found(&[("counters_lost.write(COUNTERS_LOST_ROOM, lost + m.amount);", "")]),
        ),
        (
            "a sum that cannot leave is forgotten",
            found(&[(
                "counters_sum.write(m.slot, m.sum);\n        }\n    }",
                "counters_sum.write(m.slot, 0);\n        }\n    }",
            )]),
        ),
    ];
    assert_found(&mutations);
}

/// Sums and requests of so many packets of a million flows, by Zipf's law.
fn measured(packets: u32, limit: u64) -> (u64, u64) {
    let settings = Settings {
        counters: 1 << 24,
        slots: 1 << 14,
        limit,
        flows: 1_000_000,
        exponent: 0.99,
        packets,
        gap_ns: US,
        faults: Faults::default(),
    };
    let mut run = Run::new(&app::<Engine>(settings, &[]), settings, 1);
    run.send();
    run.sweep();
    assert_eq!((run.wrong(), run.world.register("counters_lost", 0)), (None, 0));
    (run.world.count("counters_counts", 0), run.world.count("counters_counts", 1))
}

/// With `POINTSMAN_SCALE=million` the figure of docs/dram.md.
#[test]
fn collecting_saves_requests() {
    let is_large = std::env::var("POINTSMAN_SCALE").is_ok_and(|scale| scale == "million");
    let packets = if is_large { 1_000_000 } else { 20_000 };
    let counts = [1, 4, 16, 64, 256].map(|limit| {
        let (sums, requests) = measured(packets, limit);
        println!("limit {limit}: {sums} sums, {requests} requests for {packets} packets");
        requests
    });
    assert_eq!(counts[0], u64::from(packets));
    assert!(counts.is_sorted_by(|fewer, more| fewer >= more), "{counts:?}");
    assert!(counts[3] * 10 < counts[0] * 7, "{counts:?}");
}
