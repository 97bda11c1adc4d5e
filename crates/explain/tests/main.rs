//! Explanations of packet tests, and coverage, on small programs.

mod coverage;
mod filter;
mod why;

use pointsman_explain::Describer;
use pointsman_explain::coverage::Coverage;
use pointsman_explain::why::{Recording, why};
use pointsman_frontend::source::Loader;
use pointsman_frontend::{Compiled, compile};
use pointsman_ir::Program;
use pointsman_stf::{Line, Report, Rig, config, parse, run_watched};
use pointsman_v1model::trace::TraceStep;
use std::sync::Arc;

/// The includes of this repository.
struct Own;

impl Loader for Own {
    fn include(&self, name: &str, _: bool, _: &str) -> Option<(String, String)> {
        let path = format!("{}/../../p4/include/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).ok().map(|text| (format!("<{name}>"), text))
    }
}

/// Two headers, a table, clones, a register; line numbers matter to the tests.
pub const PROGRAM: &str = r#"#include <core.p4>
#include <v1model.p4>
header eth_t { bit<16> dst; bit<16> kind; }
header ip_t { bit<4> version; bit<4> ttl; bit<8> to; bit<8> sum; }
struct headers { eth_t eth; ip_t ip; }
struct meta { bit<8> seen; }
parser P(packet_in b, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start {
        b.extract(hdr.eth);
        transition select(hdr.eth.kind) {
            0x0800: ip;
            0x0801: odd;
            default: accept;
        }
    }
    state ip { b.extract(hdr.ip); transition accept; }
    state odd { b.extract(hdr.ip); transition select(hdr.ip.to) { 1: accept; } }
}
control V(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t std) {
    register<bit<8>>(4) last;
    action drop() {
        mark_to_drop(std);
    }
    action send(bit<9> port) {
        std.egress_spec = port;
        h.ip.ttl = h.ip.ttl - 1;
    }
    action flood(bit<16> group) { std.mcast_grp = group; }
    table route {
        key = { h.ip.to : exact; }
        actions = { send; drop; flood; }
        default_action = drop();
    }
    apply {
        if (h.ip.isValid()) {
            route.apply();
            if (h.eth.dst == 0xffff) {
                clone(CloneType.I2E, 5);
            }
        }
        if (h.eth.dst == 0xdead) {
            h.eth.dst = 0;
            return;
        }
        last.write(0, m.seen);
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == 7) {
            mark_to_drop(std);
        }
    }
}
control C(inout headers h, inout meta m) {
    apply { update_checksum(h.ip.isValid(), { h.ip.to }, h.ip.sum, HashAlgorithm.csum16); }
}
control D(packet_out b, in headers h) { apply { b.emit(h.eth); b.emit(h.ip); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// A program that compiles.
pub fn compiled(text: &str) -> (Arc<Program>, Compiled) {
    let compiled = compile("main.p4", text, &Own, &[]);
    let compiled = compiled.unwrap_or_else(|e| panic!("{:?}", e.diagnostics));
    (Arc::new(compiled.program.clone()), compiled)
}

/// Runs a test with every packet traced.
pub fn recorded(program: &Arc<Program>, stf: &str) -> (Report, Recording, Coverage) {
    let (mut recording, mut coverage) = (Recording::default(), Coverage::default());
    let report = traced(program, stf, |line, steps| {
        coverage.add(program, &steps);
        recording.add(line, steps);
    });
    (report, recording, coverage)
}

/// The same, with the steps of each line of the test for `each`.
pub fn traced(program: &Arc<Program>, stf: &str, mut each: impl FnMut(&Line, Vec<TraceStep>)) -> Report {
    let lines = parse(stf).expect("statements");
    let mut rig = Rig::new(program.clone(), config(&lines)).expect("a rig");
    rig.switch.set_tracing(true);
    let report = run_watched(&mut rig, &lines, &mut |line, rig| each(line, rig.switch.take_trace()));
    report.expect("the statements fit")
}

/// Every failure of a test on [`PROGRAM`] with its explanation.
pub fn explained(stf: &str) -> String {
    explained_in(PROGRAM, stf)
}

/// The same with another program.
pub fn explained_in(text: &str, stf: &str) -> String {
    let (program, compiled) = compiled(text);
    let (report, recording, _) = recorded(&program, stf);
    let describer = Describer { program: &program, map: &compiled.source_map, statements: true };
    let one = |f: &pointsman_stf::Failure| {
        let head = f.message.lines().next().unwrap_or("").to_string();
        [vec![head], why(&describer, &recording, f)].concat().join("\n")
    };
    report.failures.iter().map(one).collect::<Vec<_>>().join("\n")
}
