//! A packet buffer in the memory of servers: order, bytes, and every packet that is missing is counted.

use super::world::{World, datagram, program};
use crate::switch::*;
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_v1model::{DropReason, PortRate};
use std::net::Ipv4Addr;

/// After this time without an answer the server is asked which number it expects.
const TIMEOUT: u64 = 70 * US;
/// Output ports, from this one on, each with a queue and a server.
const OUT: u32 = 1;
const QUEUES: u32 = 2;

/// A run: packets of random lengths for both ports in turn, which send them more slowly than they come.
#[derive(Clone, Copy)]
struct Settings {
    packets: u32,
    gap_ns: u64,
    bits_per_s: u64,
    /// Packets in a port's queue in the switch; it has room for 64.
    room: u32,
    /// Packets of a queue in its server.
    slots: u32,
    /// Whether a packet in 16 is too long.
    too_long: bool,
    faults: Faults,
}

fn settings() -> Settings {
    let faults = Faults::default();
    Settings {
        packets: 1200,
        gap_ns: 2 * US,
        bits_per_s: 1_000_000_000,
        room: 8,
        slots: 1024,
        too_long: false,
        faults,
    }
}

/// Everything goes wrong, differently for each seed.
fn faults(seed: u64) -> Settings {
    let faults = Faults::of(seed);
    Settings { faults, slots: [1024, 128][(seed / 3 % 2) as usize], too_long: seed % 2 == 1, ..settings() }
}

fn app<E>(macros: &str, changes: &[(&str, &str)]) -> App<E> {
    program("dram-buffer", macros, changes)
}

fn with_slots<E>(slots: u32, changes: &[(&str, &str)]) -> App<E> {
    app(&format!("#define BUFFER_SLOTS {slots}\n"), changes)
}

impl Fates {
    fn since(self, before: Fates) -> Fates {
        Fates {
            left: self.left - before.left,
            full: self.full - before.full,
            long: self.long - before.long,
            lost: self.lost - before.lost,
            in_switch: self.in_switch - before.in_switch,
        }
    }
}

struct Run<E: Executor> {
    world: World<E>,
    settings: Settings,
    /// What is to leave each port, in this order.
    expected: [Vec<Vec<u8>>; QUEUES as usize],
}

/// How many packets left, and why others did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fates {
    left: u64,
    /// The ring was full, the packet too long, it was given up, the port's queue in the switch was full.
    full: u64,
    long: u64,
    lost: u64,
    in_switch: u64,
}

impl<E: Executor + Send + Sync> Run<E> {
    fn new(app: &App<E>, settings: Settings, has_buffer: bool, seed: u64) -> Self {
        let servers = if has_buffer { QUEUES as usize } else { 0 };
        let bytes = settings.slots as usize * 2048;
        let mut world = World::new(app, &vec![bytes; servers], settings.faults, seed);
        for queue in 0..QUEUES {
            let port = OUT + queue;
            let rate = PortRate::ethernet(settings.bits_per_s);
            world.rig.switch.configure_port_rate(port, Some(rate)).expect("a rate");
            let route = format!("routes prefix=198.51.{queue}.0/24 -> forward(port={port}, mac=0x22)");
            world.rig.add(&route).expect("a route");
        }
        if has_buffer {
            let configure = format!("configure(address=10.9.0.1, mac=0x99, timeout={TIMEOUT})");
            world.rig.set_default("buffer_config", &configure).expect("the settings");
            world.statement("value_set_add buffer_addresses 10.9.0.1");
            world.generator(&format!("5:period=10us,port=508,packets={QUEUES},template=00"));
            for queue in 0..QUEUES {
                let port = OUT + queue;
                world.add_pair(queue, 0x300, queue as usize, BASE, &["buffer_next", "buffer_done"]);
                for register in ["tail", "written", "asked", "head"] {
                    // The numbers are about to start again from 0.
                    let register = format!("buffer_{register}");
                    world.rig.write_register(&register, queue.into(), "0xffffff80").expect("a register");
                }
                let room = format!("queue(port={port}, room={}, pause={})", settings.room, 10_000 * US);
                world.rig.add(&format!("buffer_queues queue={queue} -> {room}")).expect("a queue");
                world.rig.add(&format!("buffer_ports port={port} -> queued(queue={queue})")).expect("a port");
            }
        }
        Run { world, settings, expected: Default::default() }
    }

    /// Sends the packets, and waits until the ports have sent theirs.
    fn send(&mut self) -> Result<Fates, String> {
        let before = self.fates();
        self.expected = Default::default();
        self.world.left.clear();
        let Settings { packets, gap_ns, too_long, .. } = self.settings;
        let mut at = 0;
        for number in 0..packets {
            let queue = number % QUEUES;
            let is_long = too_long && self.world.random.below(16) == 0;
            let more = if is_long { 1515 - 42 } else { 18 + self.world.random.below(1455) };
            let mut data = self.world.random.bytes(more as usize);
            data[..4].copy_from_slice(&number.to_be_bytes());
            let target = Ipv4Addr::new(198, 51, queue as u8, 1);
            let [arrives, leaves] = [((1, 2), 64), ((0x22, 1), 63)]
                .map(|(hop, ttl)| datagram(hop, (Ipv4Addr::new(10, 0, 0, 1), 9), target, &data, ttl));
            self.expected[queue as usize].push(leaves);
            at += 1 + self.world.random.below(2 * gap_ns);
            self.world.send(at, 0, arrives);
        }
        self.world.run(at + 100_000 * US);
        let mut fates = self.fates().since(before);
        for queue in 0..QUEUES {
            fates.left += self.in_order(queue)?;
        }
        let Fates { left, full, long, lost, in_switch } = fates;
        if left + full + long + lost + in_switch != u64::from(packets) {
            return Err(format!("{fates:?} of {packets}"));
        }
        Ok(fates)
    }

    /// How many packets left a port, if they are as they came, and in their order.
    fn in_order(&self, queue: u32) -> Result<u64, String> {
        let mut expected = self.expected[queue as usize].iter();
        let left = self.world.left.iter().filter(|(_, port, _)| *port == OUT + queue);
        for (n, (_, _, frame)) in left.clone().enumerate() {
            if !expected.any(|e| e == frame) {
                return Err(format!(
                    "packet {n} of port {} was changed, or is not in its order",
                    OUT + queue
                ));
            }
        }
        Ok(left.count() as u64)
    }

    fn fates(&mut self) -> Fates {
        let in_switch = self.world.rig.stats().dropped_by(DropReason::QueueFull);
        if self.world.servers.is_empty() {
            return Fates { in_switch, ..Fates::default() };
        }
        let [full, long] = [2, 3].map(|n| self.world.count("buffer_counts", n));
        let lost = (0..QUEUES).map(|q| self.world.register("buffer_lost", q.into())).sum();
        Fates { full, long, lost, in_switch, left: 0 }
    }
}

fn run<E: Executor + Send + Sync>(app: &App<E>, settings: Settings, seed: u64) -> Result<Fates, String> {
    let mut run = Run::new(app, settings, true, seed);
    let fates = run.send()?;
    for queue in 0..u64::from(QUEUES) {
        let [tail, head] = ["buffer_tail", "buffer_head"].map(|r| run.world.register(r, queue));
        if tail != head {
            return Err(format!("queue {queue} stops at {head} of {tail}"));
        }
    }
    if fates.in_switch > 0 {
        return Err(format!("{fates:?}: more packets in the switch than may be"));
    }
    Ok(fates)
}

#[test]
fn packets_wait_in_their_order() {
    let apps = [1024, 128].map(|slots| with_slots::<Engine>(slots, &[]));
    let slow = [1024, 128].map(|slots| with_slots::<Interp>(slots, &[]));
    let which = |seed| usize::from(faults(seed).slots == 128);
    let mut all = Vec::new();
    for seed in 0..12 {
        all.push(run(&apps[which(seed)], faults(seed), seed).unwrap_or_else(|e| panic!("seed {seed}: {e}")));
        println!("{seed}: {:?}", all[all.len() - 1]);
    }
    assert_eq!(all[0], Fates { left: 1200, ..Fates::default() }, "nothing is lost without faults");
    assert!(
        all.iter().any(|f| f.full > 0) && all.iter().any(|f| f.lost > 0) && all.iter().any(|f| f.long > 0)
    );
    assert!(all.iter().all(|f| f.left > 300), "{all:?}");
    for seed in [4, 11] {
        assert_eq!(run(&slow[which(seed)], faults(seed), seed), Ok(all[seed as usize]), "seed {seed}");
    }
}

/// Packets that do not return to the parser, as when the switch's own queue for them is full.
#[test]
fn a_packet_that_is_lost_in_the_switch_is_counted() {
    let lost = (
        "sm.packet_length <= BUFFER_PACKET) {\n            buffer_counts.count(BUFFER_COUNT_STORED)",
        "m.number[3:0] != 5 && m.number[9:6] != 1) {\n            buffer_counts.count(BUFFER_COUNT_STORED)",
    );
    let app = with_slots::<Engine>(1024, &[lost]);
    let fates = run(&app, settings(), 1).unwrap_or_else(|e| panic!("{e}"));
    assert!(fates.lost > 60 && fates.left > 800, "{fates:?}");
}

/// A server that is away for some time, and one whose queue pair ends: the port continues without it.
#[test]
fn a_port_continues_without_its_server() {
    let app = with_slots::<Engine>(1024, &[]);
    let mut run = Run::new(&app, settings(), true, 1);
    run.world.away = Some((0, 1300 * US, 1_000_000 * US));
    let fates = run.send().unwrap_or_else(|e| panic!("{e}"));
    assert!(fates.lost > 50 && fates.in_switch > 0 && fates.left > 500, "{fates:?}");
    assert_eq!(run.world.register("buffer_probes", 1), 0, "the other server");
    assert!(run.world.register("buffer_probes", 0) >= 8);
    // It returns, and packets wait there again.
    run.world.away = None;
    run.world.run(1000 * US);
    assert_eq!(run.world.register("buffer_probes", 0), 0);
    let fates = run.send().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(fates, Fates { left: 1200, ..Fates::default() });
}

/// A server that answers later than the switch expects, but before it is asked twice: nothing is lost.
#[test]
fn a_slow_server_loses_nothing() {
    let app = with_slots::<Engine>(1024, &[]);
    let mut run = Run::new(&app, settings(), true, 1);
    run.world.delay = TIMEOUT * 3 / 4;
    let fates = run.send().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(fates, Fates { left: 1200, ..Fates::default() });
    assert!(run.world.count("buffer_counts", 8) > 10, "it is asked whether it answers");
}

/// A lost request costs the packets that are written before the report of the gap comes; a lost answer costs none.
#[test]
fn a_lost_frame_costs_few_packets() {
    let app = with_slots::<Engine>(1024, &[]);
    for loss in [0.001, 0.01] {
        let settings = Settings {
            packets: 10_000,
            gap_ns: 8 * US,
            faults: Faults { loss, ..Faults::default() },
            ..settings()
        };
        let mut run = Run::new(&app, Settings { bits_per_s: 400_000_000, ..settings }, true, 1);
        let fates = run.send().unwrap_or_else(|e| panic!("{e}"));
        let frames = run.world.lost_frames;
        println!("{loss} of frames lost: {fates:?} of 10,000 packets for {frames} frames");
        assert!(frames > 10 && fates.lost < 3 * frames, "{fates:?}");
    }
}

/// Each protection that is taken away shows.
#[test]
fn every_fault_that_is_put_in_is_found() {
    let found = |changes: &[(&str, &str)]| {
        let apps = [1024, 128].map(|slots| with_slots::<Engine>(slots, changes));
        let which = |seed| usize::from(faults(seed).slots == 128);
        (0..12).find_map(|seed| run(&apps[which(seed)], faults(seed), seed).err().map(|wrong| (seed, wrong)))
    };
    let again = "buffer_counts.count(BUFFER_COUNT_AGAIN);
            q.asked = q.head;";
    let mutations = [
        (
            "the next packet is expected before the answer to the last one",
            found(&[(again, "q.head = q.head + 1;")]),
        ),
        (
            "an answer that came too early counts",
            found(&[("whole && h.head.number == q.head", "whole && q.asked != q.head")]),
        ),
        (
            "a packet passes those that wait",
            found(&[("q.tail == q.head && q.sent - q.left < m.room", "q.sent - q.left < m.room")]),
        ),
        ("what was not written is not counted", found(&[("buffer_lost.write(m.queue, lost + 1);", "")])),
        (
            "what was not written is waited for",
            found(&[(
                "q.head = q.head + 1;\n        } else if (waits && behind[23:23]",
                "\n        } else if (waits && behind[23:23]",
            )]),
        ),
        (
            "a time-out does nothing",
            found(&[(
                "m.step = BUFFER_PROBE;\n            } else",
                "m.step = BUFFER_DROP;\n            } else",
            )]),
        ),
        (
            "the last byte is lost",
            found(&[("truncate((bit<32>)h.head.bytes);", "truncate((bit<32>)h.head.bytes - 1);")]),
        ),
        ("READs need no room", found(&[("&& q.sent - q.left + reading < m.room", "")])),
    ];
    assert_found(&mutations);
}

/// Packets lost in a burst, with the buffer and without. The figure of docs/dram.md.
#[test]
fn a_burst_is_lost_without_the_buffer() {
    let (with, without) = (app::<Engine>("", &[]), app::<Engine>("#define PLAIN\n", &[]));
    for packets in [200, 1000, 5000] {
        // Both ports have 1 Gb/s, and get ten times as much for the time of the burst.
        let settings = Settings { packets, gap_ns: 320, slots: 4096, ..settings() };
        let fates = [(&with, true), (&without, false)]
            .map(|(app, has)| Run::new(app, settings, has, 1).send().unwrap_or_else(|e| panic!("{e}")));
        println!(
            "{packets} packets: {} lost with the buffer, {} without",
            u64::from(packets) - fates[0].left,
            fates[1].in_switch
        );
        assert_eq!(fates[0].left, u64::from(packets));
        assert_eq!(fates[1].left + fates[1].in_switch, u64::from(packets));
        assert!(packets == 200 || fates[1].in_switch > u64::from(packets) / 2, "{fates:?}");
    }
}
