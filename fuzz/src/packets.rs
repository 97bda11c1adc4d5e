//! Packets through a switch: no panic, every packet has one counted fate, and the balancer's outgoing packets have
//! right checksums.
//!
//! Input: a byte that chooses the program, then for each packet the port, flags, the time since the last one in
//! milliseconds, its length in two bytes, and its bytes.

use crate::loader::compiled;
use pointsman_ir::Program;
use pointsman_stf as stf;
use pointsman_stf::Rig;
use pointsman_testkit::packet::{Packet, check_checksums};
use pointsman_v1model::{Output, SwitchConfig};
use std::sync::{Arc, LazyLock};

/// Passes through the pipeline for one packet: programs may recirculate for ever.
const BUDGET: usize = 100;

/// The port of the control plane.
const CPU: u32 = 510;

/// Packets in one input.
const PACKETS: usize = 64;

/// A program with the configuration that its packets meet.
struct Subject {
    program: Arc<Program>,
    setup: Vec<stf::Line>,
    balancer: bool,
}

macro_rules! text {
    ($path:literal) => {
        include_str!(concat!("../../", $path))
    };
}

static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let subject = |name: &str, text: &str, setup: &str| Subject {
        program: compiled(name, text),
        setup: configuration(setup),
        balancer: false,
    };
    let mut all = vec![
        subject("everything.p4", text!("fuzz/programs/everything.p4"), text!("fuzz/programs/everything.stf")),
        subject(
            "controlled.p4",
            text!("tests/programs/controlled.p4"),
            text!("fuzz/programs/controlled.stf"),
        ),
        subject("forwarder.p4", text!("examples/forwarder/main.p4"), ""),
        subject("expressions.p4", text!("crates/frontend/tests/accept/expressions.p4"), ""),
        subject("generics.p4", text!("crates/frontend/tests/accept/generics.p4"), ""),
        subject("instances.p4", text!("crates/frontend/tests/accept/instances.p4"), ""),
        subject("parsers.p4", text!("crates/frontend/tests/accept/parsers.p4"), ""),
        subject("statements.p4", text!("crates/frontend/tests/accept/statements.p4"), ""),
        subject("tables.p4", text!("crates/frontend/tests/accept/tables.p4"), ""),
    ];
    let balancer = compiled("balancer.p4", text!("p4/programs/balancer/main.p4"));
    for setup in [
        text!("p4/programs/balancer/tests/drops.stf"),
        text!("p4/programs/balancer/tests/availability.stf"),
        text!("p4/programs/balancer/tests/answers.stf"),
        text!("p4/programs/balancer/tests/round_robin.stf"),
        text!("p4/programs/balancer/tests/translation.stf"),
    ] {
        all.push(Subject { program: balancer.clone(), setup: configuration(setup), balancer: true });
    }
    all
});

/// The commands of a packet test that come before its first packet.
fn configuration(text: &str) -> Vec<stf::Line> {
    let before: Vec<&str> = text.lines().take_while(|l| !l.trim_start().starts_with("packet")).collect();
    stf::parse(&before.join("\n")).unwrap_or_else(|e| panic!("{e}"))
}

fn rig(subject: &Subject) -> Rig {
    let config = SwitchConfig { cpu_port: Some(CPU), queues_per_port: 4, ..SwitchConfig::default() };
    let mut rig = Rig::new(subject.program.clone(), config).unwrap_or_else(|e| panic!("{e}"));
    stf::run(&mut rig, &subject.setup).unwrap_or_else(|e| panic!("{e}"));
    rig.switch.take_events();
    rig
}

/// One sequence of packets.
pub fn run(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let subject = &SUBJECTS[usize::from(*choice) % SUBJECTS.len()];
    let mut rig = rig(subject);
    let mut right = subject.balancer;
    for _ in 0..PACKETS {
        let [port, flags, ms, high, low, bytes @ ..] = rest else { break };
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(bytes.len());
        let (frame, after) = bytes.split_at(len);
        rest = after;
        rig.wait_ms(u64::from(*ms));
        let mut frame = frame.to_vec();
        // A fuzzer does not guess checksums.
        if flags & 1 != 0
            && let Ok(packet) = Packet::parse(&frame)
        {
            frame = packet.bytes();
        }
        let port = u32::from(*port) % 520;
        let from_cpu = flags & 2 != 0 || port == CPU;
        // Packets from and to the control plane have a header of its own in front.
        right &= !from_cpu && check_checksums(&frame).is_ok();
        let mut out: Vec<Output> = Vec::new();
        if from_cpu {
            rig.switch.receive_cpu(rig.now, &frame);
        } else {
            rig.switch.receive(rig.now, port, &frame);
        }
        rig.switch.poll(rig.now, BUDGET, &mut out);
        if flags & 4 != 0 {
            rig.switch.take_idle(rig.now, usize::MAX);
            rig.switch.take_digests();
        }
        assert!(rig.stats().is_conserved(), "packets got lost: {:?}", rig.stats());
        for packet in out.iter().filter(|_| right) {
            if let Output::Port(_, bytes) = packet {
                check_checksums(bytes).unwrap_or_else(|e| panic!("{e}: {frame:02x?} became {bytes:02x?}"));
            }
        }
    }
}
