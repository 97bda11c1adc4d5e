//! What the fabric's programs do that packet tests cannot say: marks by the time in a queue.

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_stf::parse;
use pointsman_testkit::compile::{compile, own_includes, own_libraries, own_program};
use pointsman_testkit::packet::{Body, Packet, check_checksums};
use pointsman_testkit::rig::Rig;
use pointsman_v1model::{Output, PortRate, SwitchConfig};

/// Port 1 sends a byte a microsecond; a packet that waited there for 150 us gets a mark.
const ROUTES: &str = "member_create next_hops 1 forward(port:1, src:0x02, dst:0x04, mark_after:150000)\n\
     group_create next_hops 1 1\n\
     add routes_v4 prefix:10.0.0.0/8 group(1)\n\
     add routes_v6 prefix:fd00::/16 group(1)\n";

fn rig<E: Executor>(program: &str) -> Rig<E> {
    let program = compile(&own_program(program), &[&own_includes(), &own_libraries()]);
    let config = SwitchConfig { nanoseconds: true, ..SwitchConfig::default() };
    let mut rig = Rig::<E>::on(program.unwrap_or_else(|e| panic!("{e}")), config).expect("a rig");
    let rate = PortRate { bits_per_s: 8_000_000, overhead_bytes: 0, burst_ns: 0 };
    rig.switch.configure_port_rate(1, Some(rate)).expect("a rate");
    let report = pointsman_stf::run(&mut rig, &parse(ROUTES).expect("statements")).expect("they fit");
    assert!(report.passed());
    rig
}

/// The type of service of each of six packets of a hundred bytes which come at once.
fn marks<E: Executor>(program: &str, v6: bool, tos: u8) -> Vec<u8> {
    let mut rig = rig::<E>(program);
    let (from, to, headers) =
        if v6 { ("[fd00::1]:9", "[fd00::2]:7", 62) } else { ("10.0.0.1:9", "10.0.0.2:7", 42) };
    let frame = Packet::udp(from, to, vec![0; 100 - headers]).with_ip(|ip| ip.tos = tos).bytes();
    assert_eq!(frame.len(), 100);
    let mut out = Vec::new();
    for _ in 0..6 {
        out.extend(rig.send(2, &frame));
    }
    out.extend(rig.run_ms(10));
    let tos = |frame: &[u8]| {
        check_checksums(frame).unwrap_or_else(|e| panic!("{e}"));
        match Packet::parse(frame).expect("a packet").body {
            Body::Ip(ip) => ip.tos,
            other => panic!("{other:?}"),
        }
    };
    let sent = out.iter().map(|o| match o {
        Output::Port(1, frame) => tos(frame),
        other => panic!("{other:?}"),
    });
    sent.collect()
}

fn check<E: Executor>() {
    for program in ["conga", "ecmp", "hula", "letflow", "ours", "p4te", "spray"] {
        for v6 in [false, true] {
            // The class stays.
            for ect in [1, 2] {
                let (plain, marked) = (0xb8 | ect, 0xbb);
                assert_eq!(
                    marks::<E>(program, v6, plain),
                    [plain, plain, marked, marked, marked, marked],
                    "{program}"
                );
            }
            assert_eq!(marks::<E>(program, v6, 0xb8), [0xb8; 6], "{program}: not ECT");
            assert_eq!(marks::<E>(program, v6, 0xbb), [0xbb; 6], "{program}: a mark stays");
        }
    }
}

#[test]
fn packets_that_waited_are_marked() {
    check::<Interp>();
    check::<Engine>();
}
