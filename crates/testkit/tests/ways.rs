//! Packets that leave the ordinary way: random programs give the same on the interpreter, packet by packet, and as native code, in
//! batches that go through at once.
//!
//! `POINTSMAN_WAYS=n` tries that many programs.

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::{Executor, ExternInstanceId, Program};
use pointsman_testkit::compile::{compile_text, own_includes};
use pointsman_testkit::random::Random;
use pointsman_testkit::ways::{self, GROUPS};
use pointsman_v1model::trace::{Follow, StepKind, TraceStep};
use pointsman_v1model::{
    Arrived, CloneSession, Keep, Output, Pipeline, PortRate, QueueConfig, Replica, Sink, Switch,
    SwitchConfig, Time,
};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

/// Programs of a run by default.
const PROGRAMS: u64 = 150;

/// Packets for each, in each configuration of the queues.
const PACKETS: usize = 120;

fn switch<E: Executor>(program: &Arc<Program>, seed: u64, limits: u64) -> Switch<E> {
    let mut random = Random::new(seed ^ 77);
    let config = SwitchConfig {
        cpu_port: Some(5),
        queues_per_port: if limits == 2 { 3 } else { 1 },
        max_descendants: Some(random.below(20) as u32),
        max_packet_bytes: if random.one_in(4) { 40 } else { 1000 },
        ..SwitchConfig::default()
    };
    let mut switch = Switch::<E>::new(config).expect("settings");
    let pipeline = Pipeline::load(program.clone()).unwrap_or_else(|e| panic!("{e:?}"));
    switch.set_pipeline(Time::ZERO, pipeline, Keep::Nothing).expect("a program");
    let replicas = |random: &mut Random| -> Vec<Replica> {
        let one = |n: usize| Replica { port: n as u32 % 6, instance: n as u16 };
        (0..random.below(4)).map(|_| one(random.below(12))).collect()
    };
    for id in 1..=GROUPS {
        let of_group = replicas(&mut random);
        let session = CloneSession {
            replicas: replicas(&mut random),
            class_of_service: random.below(3) as u8,
            truncate_bytes: if random.one_in(2) { 0 } else { random.below(40) as u32 },
            ..CloneSession::default()
        };
        let replication = &mut switch.state_mut().expect("a program").replication;
        replication
            .insert_group(id, of_group)
            .or_else(|_| replication.insert_group(id, vec![]))
            .expect("a group");
        let empty = CloneSession::default();
        replication
            .insert_session(id, session)
            .or_else(|_| replication.insert_session(id, empty))
            .expect("a session");
    }
    let rate = Some(PortRate { bits_per_s: 50_000_000, overhead_bytes: 4, burst_ns: 0 });
    match limits {
        1 => {
            switch.configure_port_rate(2, rate).expect("a rate");
            let delayed = QueueConfig { delay_ns: 15_000, depth_bytes: Some(200), ..QueueConfig::default() };
            switch.configure_queue(3, None, delayed).expect("a queue");
            switch.configure_recirculation(rate).expect("a rate");
        }
        2 => {
            let shallow = QueueConfig { depth_packets: 2, ..QueueConfig::default() };
            switch.configure_all_queues(shallow).expect("queues");
        }
        _ => {}
    }
    switch
}

/// Everything that can be seen of a switch.
fn seen<E: Executor>(switch: &mut Switch<E>) -> String {
    let (stats, deadline) = (switch.stats().clone(), switch.next_deadline());
    let ports: Vec<_> = (0..8).map(|port| switch.port_stats(port)).collect();
    let state = switch.state().expect("a program");
    let mut text = format!("{stats:?} {ports:?} {deadline:?}");
    for id in (0..state.program().externs.len() as u32).map(ExternInstanceId) {
        for i in 0..8 {
            let _ =
                write!(text, "{:?} {:?} ", state.read_register(id, i).ok(), state.read_counter(id, i).ok());
        }
    }
    text
}

/// How packets come to a switch.
#[derive(Clone, Copy, Debug)]
enum How {
    /// One waits for the other.
    Received,
    /// In batches of at most so many.
    Batches(usize),
    /// The same, while those of some ports are followed.
    Followed(usize),
}

/// What leaves; packets in the buffers of a batch are in the buffers that the switch names.
#[derive(Default)]
struct Out {
    all: Vec<Output>,
    /// The addresses of the buffers.
    buffers: Vec<Range<usize>>,
}

impl Sink for Out {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        self.all.transmit(port, packet);
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        self.all.to_cpu(packet);
    }

    fn transmit_buffer(&mut self, port: u32, number: usize, packet: &[u8]) {
        let (buffer, at) = (&self.buffers[number], packet.as_ptr() as usize);
        assert!(buffer.start <= at && at + packet.len() <= buffer.end, "packet {number} is elsewhere");
        self.transmit(port, packet);
    }
}

/// Follows the packets of odd ports.
fn follow<E: Executor>(switch: &mut Switch<E>) {
    let wants = Arc::new(|port, _: &[u8]| port % 2 == 1);
    switch.follow(Some(Follow { wants, left: Arc::new(u64::MAX.into()), per_s: u32::MAX }));
}

/// Followed packets, and packets with a fate among them and their copies.
fn count(steps: &[TraceStep]) -> (usize, usize) {
    let begins = |s: &&TraceStep| matches!(s.what, StepKind::Received { .. });
    let ends = |s: &&TraceStep| {
        matches!(
            s.what,
            StepKind::Sent { .. } | StepKind::Dropped(_) | StepKind::Consumed | StepKind::Again(_)
        )
    };
    let copies = |s: &&TraceStep| matches!(s.what, StepKind::Copied { .. });
    let (begun, ended) = (steps.iter().filter(begins).count(), steps.iter().filter(ends).count());
    assert_eq!(begun + steps.iter().filter(copies).count(), ended, "each thread ends once");
    (begun, ended)
}

/// All that leaves, and all that can be seen, at the end.
fn run<E: Executor>(program: &Arc<Program>, seed: u64, limits: u64, how: How) -> (Vec<Output>, String) {
    let mut switch = switch::<E>(program, seed, limits);
    if !seed.is_multiple_of(4) {
        switch.executor().into_iter().for_each(E::complete);
    }
    let mut random = Random::new(seed);
    let budget = if random.one_in(5) { 1 + random.below(5) } else { 1000 };
    let (mut out, mut now, mut fed) = (Out::default(), Time::ZERO, 0);
    let (mut wanted, mut followed) = (0, 0);
    if matches!(how, How::Followed(_)) {
        follow(&mut switch);
    }
    while fed < PACKETS {
        now = now.plus_ns(random.below(20_000) as u64);
        let size = 1 + random.below(12);
        fed += size;
        let made: Vec<(u32, Vec<u8>, usize)> = (0..size)
            .map(|_| (random.below(7) as u32, ways::packet(&mut random), random.below(60)))
            .collect();
        match how {
            How::Received => {
                for (port, packet, _) in &made {
                    switch.receive(now, *port, packet);
                    switch.poll(now, budget, &mut out);
                }
            }
            How::Batches(most) | How::Followed(most) => {
                let mut buffers: Vec<Vec<u8>> = made
                    .iter()
                    .map(|(_, packet, room)| [vec![0xee; *room], packet.clone()].concat())
                    .collect();
                let address = |b: &Vec<u8>| b.as_ptr() as usize..b.as_ptr() as usize + b.len();
                for (made, buffers) in made.chunks(most).zip(buffers.chunks_mut(most)) {
                    out.buffers = buffers.iter().map(address).collect();
                    let arrived = made.iter().zip(buffers).map(|((port, _, start), buffer)| Arrived {
                        port: *port,
                        buffer,
                        start: *start,
                    });
                    switch.process(now, budget, &mut arrived.collect::<Vec<_>>(), &mut out);
                }
            }
        }
        if random.one_in(4) {
            switch.poll(now, 50, &mut out);
        }
        wanted += made.iter().filter(|(port, ..)| port % 2 == 1).count();
        followed += switch.take_followed().map_or(0, |f| count(&f.steps).0);
    }
    if matches!(how, How::Followed(_)) && switch.stats().queued == 0 {
        assert_eq!(followed, wanted, "seed {seed}");
    }
    let seen = seen(&mut switch);
    (out.all, seen)
}

#[test]
fn native_code_does_what_the_interpreter_does() {
    let programs = std::env::var("POINTSMAN_WAYS").ok().and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS);
    let mut far = [0u64; 4];
    for seed in 0..programs {
        let text = ways::program(seed);
        let program = compile_text("ways.p4", &text, &[&own_includes()])
            .unwrap_or_else(|(_, all)| panic!("seed {seed}: {all}\n{text}"));
        let limits = seed % 3;
        let expected = run::<Interp>(&program, seed, limits, How::Received);
        for how in [How::Received, How::Batches(1), How::Batches(12), How::Followed(12)] {
            let got = run::<Engine>(&program, seed, limits, how);
            for (n, (got, expected)) in got.0.iter().zip(&expected.0).enumerate() {
                assert_eq!(got, expected, "seed {seed}, {how:?}, output {n}\n{text}");
            }
            assert_eq!(got.0.len(), expected.0.len(), "seed {seed}, {how:?}\n{text}");
            assert_eq!(got.1, expected.1, "seed {seed}, {how:?}\n{text}");
        }
        for (n, word) in
            ["resubmitted: 0", "recirculated: 0", "ingress_clones: 0", "egress_clones: 0"].iter().enumerate()
        {
            far[n] += u64::from(!expected.1.contains(word));
        }
    }
    // Each way is taken in many programs.
    assert!(far.iter().all(|n| *n * 20 >= programs), "{far:?} of {programs}");
}
