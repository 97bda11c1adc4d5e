//! States that are taken out of one switch and put into another.

use super::feed::{limited, packet};
use super::{Subject, subjects};
use crate::stf_restored;
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_stf::Rig;
use pointsman_v1model::{
    Generator, IdleEntry, Output, Random, RestoreError, Switch, SwitchConfig, SwitchState, Time, Trigger,
};

/// Each packet test passes if every statement finds another switch with the state of the one before.
fn packet_tests<E: Executor + Send + Sync>() {
    for subject in subjects() {
        let (report, moves) = stf_restored::run::<E>(&subject.program, &subject.lines, usize::MAX);
        assert!(report.passed(), "{}: {:?}", subject.name, report.failures);
        assert!(moves > 10, "{}: {moves}", subject.name);
    }
}

#[test]
fn packet_tests_interpreted() {
    packet_tests::<Interp>();
}

#[test]
fn packet_tests_as_native_code() {
    packet_tests::<Engine>();
}

fn config(seed: u64) -> SwitchConfig {
    let config = SwitchConfig { cpu_port: Some(500), queues_per_port: 2, seed, ..SwitchConfig::default() };
    // So that it comes to rest.
    SwitchConfig { max_descendants: Some(50), ..config }
}

/// A switch, and what was seen of it.
struct Watched<E: Executor> {
    rig: Rig<E>,
    left: Vec<(Time, Output)>,
    idle: Vec<IdleEntry>,
}

impl<E: Executor> Watched<E> {
    fn new(rig: Rig<E>) -> Self {
        Watched { rig, left: Vec::new(), idle: Vec::new() }
    }

    /// With queues of every sort, and packets that the switch makes by itself.
    fn busy(subject: &Subject) -> Self {
        let mut rig = subject.filled::<E>(config(1));
        let now = rig.now;
        let switch = &mut rig.switch;
        limited(switch).expect("limits");
        let periodic = Generator {
            trigger: Trigger::Period(5_777_777),
            packets: 2,
            port: 3,
            header: true,
            template: vec![0x15, 0x2a, 0x3f, 1, 2, 3, 4, 5],
        };
        let at_loss = Generator { trigger: Trigger::PortDown, header: false, ..periodic.clone() };
        switch.set_generator(now.plus_ns(5), 7, Some(periodic)).expect("a generator");
        switch.set_generator(now.plus_ns(6), 9, Some(at_loss)).expect("a generator");
        switch.set_port_status(6, false);
        Watched::new(rig)
    }

    fn export(&self) -> SwitchState {
        self.rig.switch.export(self.rig.now).expect("a program")
    }

    fn pass(&mut self, ns: u64) {
        let end = self.rig.now.plus_ns(ns);
        self.left.extend(self.rig.run_until(end));
        self.idle.extend(self.rig.switch.take_idle(end, usize::MAX));
        assert!(self.rig.stats().is_conserved(), "{:?}", self.rig.stats());
    }

    fn receive(&mut self, port: u32, bytes: &[u8]) {
        self.rig.switch.receive(self.rig.now, port, bytes);
        self.pass(0);
    }

    /// Comes to rest: no packet is inside. Generators' packets come in all the time, so this ends when none is inside.
    fn rest(&mut self) {
        for _ in 0..1000 {
            if self.rig.stats().queued == 0 {
                return;
            }
            self.pass(50_000);
        }
        panic!("it does not come to rest");
    }

    /// A new switch with this one's state, some time later, by way of bytes. Its own seed does not matter.
    fn copy(&self, subject: &Subject, later_ns: u64) -> Self {
        let saved = self.export();
        assert_eq!(saved.in_flight(), 0);
        let read = SwitchState::from_bytes(&saved.to_bytes()).expect("it was just written");
        assert_eq!(read, saved);
        let mut new = Watched::new(subject.rig(config(99)));
        new.rig.now = self.rig.now.plus_ns(later_ns);
        new.rig.switch.restore(new.rig.now, &read).expect("the same program");
        assert_eq!(new.export().hash(), saved.hash());
        new
    }

    /// Everything that left since the last call, and the messages to the control plane; all times as if `shift_ns` had not
    /// passed.
    fn seen(&mut self, shift_ns: u64) -> String {
        let at = |time: Time| time.0 - shift_ns;
        let left: Vec<_> = self.left.drain(..).map(|(t, output)| (at(t), output)).collect();
        let switch = &mut self.rig.switch;
        let digests: Vec<_> = switch.take_digests().into_iter().map(|d| (at(d.time), d.ty, d.data)).collect();
        let events: Vec<_> = switch.take_events().into_iter().map(|e| (at(e.time), e.kind)).collect();
        format!("{:?}", (at(self.rig.now), left, digests, events, std::mem::take(&mut self.idle)))
    }
}

/// Gives the same random packets to a switch that runs a program, and to one that got its state: they do the same, and end in the
/// same state. Then the second one is the first one.
fn feed<E: Executor>(subject: &Subject, packets: u64) {
    let mut random = Random::new(packets);
    let mut old = Watched::<E>::busy(subject);
    let mut fed = 0;
    while fed < packets {
        old.rest();
        // Messages that wait are not part of the state.
        old.seen(0);
        let later_ns = random.below(10_000_000);
        let mut new = old.copy(subject, later_ns);
        for _ in 0..30 {
            fed += 1;
            let bytes = packet(&mut random, 64, 0x3f);
            let (port, pause) = (random.below(8) as u32, random.below(100_000));
            for watched in [&mut old, &mut new] {
                watched.pass(pause);
                watched.receive(port, &bytes);
            }
            assert_eq!(new.seen(later_ns), old.seen(0), "{}, after {fed} packets", subject.name);
        }
        old.rest();
        new.rest();
        assert_eq!(new.seen(later_ns), old.seen(0), "{}, after {fed} packets", subject.name);
        assert_eq!(new.export().hash(), old.export().hash());
        old = new;
    }
}

#[test]
fn random_packets_interpreted() {
    subjects().iter().for_each(|subject| feed::<Interp>(subject, 600));
}

#[test]
fn random_packets_as_native_code() {
    subjects().iter().for_each(|subject| feed::<Engine>(subject, 600));
}

/// A state of a program with something in every part of it.
fn sample(name: &str) -> (Watched<Interp>, SwitchState) {
    let mut watched = Watched::<Interp>::busy(&Subject::read(name));
    let mut random = Random::new(3);
    for _ in 0..50 {
        let bytes: Vec<u8> = (0..20).map(|_| random.next_u64() as u8 & 0x3f).collect();
        watched.pass(10_000);
        watched.receive(random.below(8) as u32, &bytes);
    }
    watched.rest();
    let mut saved = watched.export();
    saved.attachment = vec![1, 2, 3];
    (watched, saved)
}

/// Flips bytes of a state, cuts it, and gives it right checksums again: errors, or another state, but nothing worse.
fn damage(name: &str) {
    let (mut watched, saved) = sample(name);
    let bytes = saved.to_bytes();
    let before = watched.export().hash();
    for cut in 0..bytes.len() {
        let read = SwitchState::from_bytes(&bytes[..cut]);
        let expected = matches!(read, Err(RestoreError::NotAState | RestoreError::Truncated { .. }));
        assert!(expected, "cut to {cut} bytes: {read:?}");
    }
    let mut random = Random::new(8);
    let mut refused = 0;
    for round in 0..4000 {
        let mut wrong = bytes.clone();
        let at = random.below(bytes.len() as u64) as usize;
        wrong[at] ^= 1 + random.below(255) as u8;
        assert!(SwitchState::from_bytes(&wrong).is_err(), "byte {at} is wrong, and it is read");
        // One that was forged: its checksum is right.
        let forged = SwitchState::from_bytes(&forge(&bytes, &mut random));
        let now = watched.rig.now;
        match forged.and_then(|forged| watched.rig.switch.restore(now, &forged)) {
            Err(_) => {
                refused += 1;
                assert_eq!(watched.export().hash(), before);
            }
            Ok(()) => {
                // What it accepts, it can run, and gives again.
                watched.export();
                let switch = &mut watched.rig.switch;
                switch.receive(now, round % 8, &[0x15; 30]);
                switch.poll(now, 100, &mut Vec::<Output>::new());
                switch.restore(now, &saved).expect("its own state");
            }
        }
    }
    assert!(refused >= 1000, "only {refused} were refused");
}

/// Some other bytes, and the checksum (FNV-1a) that goes with them.
fn forge(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut forged = bytes[..bytes.len() - 16].to_vec();
    for _ in 0..1 + random.below(3) {
        // Behind magic number, version and length.
        let at = 20 + random.below(forged.len() as u64 - 20) as usize;
        match random.below(3) {
            0 => forged[at] = 0xff,
            1 => forged[at] = 0,
            _ => forged[at] ^= 1 << random.below(8),
        }
    }
    let step = |sum: u128, byte: &u8| (sum ^ u128::from(*byte)).wrapping_mul(1 << 88 | 0x13b);
    let sum = forged.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step);
    forged.extend(u128::to_be_bytes(sum));
    forged
}

/// Bytes that are not a state give errors, and change nothing.
#[test]
fn damaged_states() {
    damage("objects");
    damage("selector");
}

/// Errors of bytes that say what is wrong.
#[test]
fn bytes_that_are_not_a_state() {
    let (_, saved) = sample("objects");
    let bytes = saved.to_bytes();
    let error = |bytes: &[u8]| SwitchState::from_bytes(bytes).err();
    assert_eq!(error(b""), Some(RestoreError::NotAState));
    assert_eq!(error(b"#include <core.p4>"), Some(RestoreError::NotAState));
    let mut newer = bytes.clone();
    newer[11] = 9;
    assert_eq!(error(&newer), Some(RestoreError::Version { found: 9, known: 2 }));
    assert_eq!(error(&[&bytes[..], &[0]].concat()), Some(RestoreError::Damaged));
}

/// Errors of switches that a state does not go with.
#[test]
fn states_of_other_switches() {
    let (watched, saved) = sample("objects");
    let now = watched.rig.now;
    let (mut other, _) = sample("selector");
    let text =
        other.rig.switch.restore(other.rig.now, &saved).expect_err("it is of another program").to_string();
    for name in [saved.program(), other.rig.switch.pipeline().expect("a program").program_id()] {
        assert!(text.contains(&name.to_string()), "{name} is not in: {text}");
    }
    let mut empty = Switch::<Interp>::new(config(1)).expect("settings");
    assert!(empty.export(Time::ZERO).is_none());
    let error = empty.restore(Time::ZERO, &saved).expect_err("it has no program");
    assert_eq!(error, RestoreError::OtherProgram { saved: saved.program().clone(), running: None });
    let refused = |name: &str, config, at, saved: &SwitchState| {
        Subject::read(name).rig::<Interp>(config).switch.restore(at, saved).expect_err("it does not fit")
    };
    let error = refused("objects", SwitchConfig::default(), now, &saved);
    assert_eq!(error.to_string(), "queues: 2 queues per port, the switch has 1");
    // A program with idle timeouts.
    let (watched, saved) = sample("externs");
    let error = refused("externs", config(1), Time(1), &saved);
    assert_eq!(error, RestoreError::TooEarly { now_ns: 1, least_ns: watched.rig.now.0 });
    // A program that reads timestamps.
    let (watched, saved) = sample("queues");
    let nanoseconds = SwitchConfig { nanoseconds: true, ..config(1) };
    let error = refused("queues", nanoseconds, watched.rig.now, &saved);
    assert_eq!(error.to_string(), "clock: timestamps have another unit (microseconds, nanoseconds)");
}
