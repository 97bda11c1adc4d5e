//! Two protected objects in one program: both states outlive their switch, and packets find them as they would find those of one switch that never fails.

use super::*;
use crate::program::App;
use crate::trace::{self, Sent};
use pointsman_history::{Operation, Plain, Verdict, search};
use pointsman_wire::Random;
use std::net::Ipv4Addr;

const MS: u64 = 1_000_000;
/// The port by which the first packet of an address comes in some tests, and another one. Packets to the other side leave by the latter.
const OWN: u32 = 0;
const OTHER: u32 = 1;
/// All packets go there.
const TO: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 1);
const SHARED: &str = "#define REDPLANE_SHARED_READS\n";
/// Attempts of the search for an order.
const BUDGET: u64 = 1_000_000;

struct Passing {
    flow: u32,
    port: u32,
    sent: u64,
    frame: Vec<u8>,
    /// When and where it left, and its bytes then.
    left: Option<(u64, (u32, Vec<u8>))>,
}

fn build(defines: &str, changes: &[(&str, &str)]) -> Build {
    Build::new(App::Guard, false, defines, changes).unwrap_or_else(|e| panic!("{e}"))
}

fn setup(build: &Build, seed: u64) -> Setup<'_> {
    Setup {
        store: Config { lease_us: 20_000, ..Config::default() },
        stores: if seed.is_multiple_of(4) { 3 } else { 1 },
        resend_ns: MS,
        renew_ns: 5 * MS,
        ..Setup::new(build, seed)
    }
}

fn frame_of(flow: u32, number: usize) -> Vec<u8> {
    // Addresses of so many flows are equal.
    let sent = Sent { at: 0, flow: 64 * flow, place: 1, last: false, bytes: 64 };
    trace::frame(&sent, number as u32, TO, false)
}

/// The first switch fails at 60 ms, with all packets on the way to it, and has packets again, empty, from 120 ms on.
fn pass(testbed: &mut Testbed<'_>, packets: &mut [Passing]) {
    const FAILS: u64 = 60 * MS;
    const RETURNS: u64 = 120 * MS;
    packets.sort_by_key(|p| p.sent);
    packets.iter_mut().enumerate().for_each(|(n, p)| p.frame = frame_of(p.flow, n));
    let send = |testbed: &mut Testbed<'_>, packets: &[Passing], returned: bool| {
        for p in packets.iter().filter(|p| (p.sent >= RETURNS) == returned) {
            let switch = usize::from((FAILS..RETURNS).contains(&p.sent));
            testbed.send(p.sent, (switch, p.port), p.frame.clone(), 0);
        }
    };
    send(testbed, packets, false);
    testbed.timer(FAILS, 0);
    testbed.timer(RETURNS - MS, 1);
    while let Some(happened) = testbed.next(400 * MS) {
        match happened {
            Happened::Timer(0) => testbed.crash(0),
            Happened::Timer(_) => {
                testbed.start(0).expect("a switch");
                send(testbed, packets, true);
            }
            Happened::AtHost { port, frame, .. } => {
                let n = trace::number(&frame).expect("a number") as usize;
                assert_eq!(packets[n].left, None, "packet {n} left twice");
                packets[n].left = Some((testbed.now(), (port, frame)));
            }
        }
    }
}

/// What packets show of the number of packets, or that they did not leave.
fn shown(packets: &[Passing]) -> Vec<Option<u8>> {
    packets.iter().map(|p| p.left.as_ref().map(|(_, (_, frame))| frame[19])).collect()
}

#[test]
fn both_states_outlive_their_switch() {
    let of_session = "#define REDPLANE_SESSION_LEASES\n";
    for (defines, seed) in [("", 1), ("", 4), (of_session, 1), (SHARED, 1), ("#define REDPLANE_IPV6\n", 1)] {
        let build = build(defines, &[]);
        let mut testbed = Testbed::new(setup(&build, seed)).expect("a testbed");
        let at =
            |(ms, port): (u64, u32)| Passing { flow: 1, port, sent: ms * MS, frame: Vec::new(), left: None };
        // At the first switch; at the second one, after the lease; and at the first one again.
        let times = [
            (1, OWN),
            (3, OWN),
            (4, OTHER),
            (90, OTHER),
            (100, OWN),
            (110, OTHER),
            (130, OTHER),
            (150, OWN),
            (152, OTHER),
        ];
        let mut packets: Vec<_> = times.into_iter().map(at).collect();
        pass(&mut testbed, &mut packets);
        let expected = [Some(1), Some(2), None, None, Some(3), None, None, Some(4), None];
        assert_eq!(shown(&packets), expected, "{defines:?}, seed {seed}");
    }
}

/// Packets of some addresses by both ports, with faults: how many of all left.
fn faulty(build: &Build, seed: u64) -> Result<(usize, usize), String> {
    let mut random = Random::new(seed);
    let mut setup = setup(build, seed);
    setup.loss = [0.0, 0.05, 0.2][(seed % 3) as usize];
    setup.faults = Faults { answers_lost: setup.loss, doubled: [0.0, 0.2][(seed / 2 % 2) as usize] };
    setup.disorder_ns = [0, 30_000, 500_000][(seed / 3 % 3) as usize];
    let mut testbed = Testbed::new(setup).map_err(|e| e.to_string())?;
    let flows = 6;
    let mut packets = Vec::new();
    for flow in 0..flows {
        for _ in 0..30 {
            let port = if random.below(4) == 0 { OTHER } else { OWN };
            packets.push(Passing { flow, port, sent: random.below(200 * MS), frame: Vec::new(), left: None });
        }
    }
    pass(&mut testbed, &mut packets);
    let text = format!("#define PLAIN\n#define REDPLANE_SLOTS 1\n{}", App::Guard.text());
    let mut plain =
        Plain::new(&text, "add routes prefix:10.128.0.0/9 forward(port:1)\n").map_err(|e| e.to_string())?;
    for flow in 0..flows {
        let ours = packets.iter().filter(|p| p.flow == flow);
        let operation = |p: &Passing| Operation {
            call: p.sent,
            input: (p.port, p.frame.clone()),
            result: p.left.clone(),
        };
        let operations: Vec<_> = ours.map(operation).collect();
        if search(&mut plain, &operations, BUDGET) != Verdict::Linearizable {
            return Err(format!("address {flow}: no order of its packets"));
        }
    }
    Ok((packets.iter().filter(|p| p.left.is_some()).count(), packets.len()))
}

#[test]
fn a_guard_is_like_one_switch_that_never_fails() {
    for defines in ["", SHARED] {
        let build = build(defines, &[]);
        let (mut left, mut sent) = (0, 0);
        for seed in 0..24 {
            let run = faulty(&build, seed).unwrap_or_else(|e| panic!("{defines:?}, seed {seed}: {e}"));
            (left, sent) = (left + run.0, sent + run.1);
        }
        println!("{defines:?}: {left} of {sent} packets left");
        assert!(left * 3 > sent, "{defines:?}: {left} of {sent}");
    }
}

/// Mistakes, each of which the test above finds.
const MISTAKES: [(&str, &str, &str); 3] = [
    (
        "a packet leaves when the first of its states is stored",
        "} else if (m.stage != 0) {\n            port = REDPLANE_INPUT_PORT(m);",
        "} else if (false) {\n            port = REDPLANE_INPUT_PORT(m);",
    ),
    (
        "the first state is not stored",
        "meta.redplane.stage = ADMITTED;",
        "meta.redplane.value = meta.redplane.slot.value; meta.redplane.stage = ADMITTED;",
    ),
    (
        "an acknowledgement of one object is one of the other",
        "REDPLANE_SET_OBJECT(m, message);\n        read.apply(message.key, m);",
        "m.object = 1; read.apply(message.key, m);",
    ),
];

#[test]
fn mistakes_are_found() {
    for (what, from, to) in MISTAKES {
        let build = build("", &[(from, to)]);
        let wrong = |seed| match faulty(&build, seed) {
            Ok((left, sent)) => (left * 3 < sent).then(|| format!("{left} of {sent} packets left")),
            Err(e) => Some(e),
        };
        let found = (0..12).find_map(wrong);
        println!("{what}: {}", found.as_deref().unwrap_or("-"));
        assert!(found.is_some(), "{what}: not found");
    }
}
