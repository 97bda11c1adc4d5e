//! The runner of packet tests: tests that pass, that fail with a reason, and that are refused.

use pointsman_ir::{Executor, Program};
use pointsman_testkit::compile::{compile_text, own_includes};
use pointsman_testkit::stf::{Report, run_stf};
use pointsman_testkit::{ProgramError, Rig};
use std::path::Path;
use std::sync::Arc;

fn run(stf: &str) -> Result<Report, ProgramError> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stf_runner.p4");
    run_stf::<pointsman_interp::Interp>(&program, &[&own_includes()], stf)
}

#[track_caller]
fn passes(stf: &str) {
    let report = run(stf).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.passed(), "{:?}", report.failures);
}

/// Fails, and the first failure says this.
#[track_caller]
fn fails(stf: &str, want: &str) {
    let report = run(stf).unwrap_or_else(|e| panic!("{e}"));
    let got = report.failures.first().map_or("it passed".into(), |f| f.to_string());
    assert!(got.contains(want), "{got}");
}

/// Cannot be run, and this is why.
#[track_caller]
fn refused(stf: &str, want: &str) {
    let got = run(stf).map_or_else(|e| e.to_string(), |r| format!("{r:?}"));
    assert!(got.contains(want), "{got}");
}

const TO_2: &str = "add by_kind data.kind:1 send(port:2)\n";

#[test]
fn packets() {
    passes(&format!("{TO_2}packet 0 01020003\nexpect 2 01020003"));
    passes(&format!("{TO_2}expect 2 01 ** 0003 $\npacket 0 01 02 0003"));
    passes(&format!("{TO_2}packet 0 01020003ff\nexpect 2 01020003\n# longer"));
    passes(&format!("{TO_2}packet 0 01020003\nexpect 2"));
    passes("packet 0 02020003\nno_packet");
    // Ports that the test does not name are not looked at.
    let report = run(&format!("{TO_2}packet 0 01020003")).expect("a report");
    assert_eq!((report.packets_in, report.packets_out, report.unchecked), (1, 0, 1));
    fails(&format!("{TO_2}packet 0 01020003ff\nexpect 2 01020003$"), "line 3: port 2: too long");
    fails(&format!("{TO_2}packet 0 01020003\nexpect 2 0102000300"), "line 3: port 2: too short");
    fails(
        &format!("{TO_2}packet 0 01020003\nexpect 2 01020*04"),
        "line 3: port 2: differs at digit 7 (byte 3)",
    );
    fails(&format!("{TO_2}packet 0 01020003\nexpect 3 01"), "line 3: no packet on port 3");
    fails(&format!("{TO_2}packet 2 01020003"), "an unexpected packet on port 2: 01020003");
    fails(&format!("{TO_2}packet 0 01020003\nno_packet"), "line 3: 1 packet left");
    // In order.
    let two = "packet 0 01aa0000\npacket 0 01bb0000\n";
    passes(&format!("{TO_2}{two}expect 2 01aa\nexpect 2 01bb"));
    fails(&format!("{TO_2}{two}expect 2 01bb\nexpect 2 01aa"), "differs at digit 2");
}

#[test]
fn packets_that_the_switch_refuses() {
    refused("packet 600 01020003\nno_packet", "line 1: no packet comes in on port 600");
    refused("packet 511 01020003", "line 1: no packet comes in on port 511");
    refused(&format!("packet 0 {}\nno_packet", "00".repeat(70_000)), "70000 bytes are more than");
    refused("port_down 600", "line 1: no packet comes in on port 600");
    refused("no_packet on port 3", "no_packet takes 0 words, not 3");
    refused("wait 18446744073710", "not a number in the valid range");
}

/// Both executors pass a test of a program with this ingress.
#[track_caller]
fn passes_with(ingress: &str, stf: &str) {
    assert_eq!(ran_with(ingress, stf), "", "{stf}");
}

/// The failures, or the error, of a program with this ingress, the same on both executors.
#[track_caller]
fn ran_with(ingress: &str, stf: &str) -> String {
    let program = format!(
        "#include <core.p4>\n#include <v1model.p4>\nheader x_t {{ bit<8> v; bit<8> c; bit<64> n; }}\n\
         struct h_t {{ x_t x; }} struct m_t {{ }}\n\
         parser P(packet_in b, out h_t h, inout m_t m, inout standard_metadata_t s) {{\n\
             state start {{ b.extract(h.x); transition accept; }} }}\n\
         control V(inout h_t h, inout m_t m) {{ apply {{ }} }}\n\
         control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {{ {ingress} }}\n\
         control E(inout h_t h, inout m_t m, inout standard_metadata_t s) {{ apply {{ }} }}\n\
         control D(packet_out b, in h_t h) {{ apply {{ b.emit(h.x); }} }}\n\
         V1Switch(P(), V(), I(), E(), V(), D()) main;"
    );
    let program = compile_text("some/where/stf-runner.p4", &program, &[&own_includes()]);
    let program = program.unwrap_or_else(|(_, all)| panic!("{all}"));
    let interpreted = ran_on::<pointsman_interp::Interp>(&program, stf);
    assert_eq!(ran_on::<pointsman_engine::Engine>(&program, stf), interpreted);
    interpreted
}

fn ran_on<E: Executor>(program: &Arc<Program>, stf: &str) -> String {
    let lines = pointsman_stf::parse(stf).unwrap_or_else(|e| panic!("{e}"));
    let mut rig =
        Rig::<E>::on(program.clone(), pointsman_stf::config(&lines)).unwrap_or_else(|e| panic!("{e}"));
    match pointsman_stf::run(&mut rig, &lines) {
        Ok(report) => report.failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        Err(e) => e.to_string(),
    }
}

/// A packet that looks nothing up is green, whatever came before it.
#[test]
fn a_colour_belongs_to_its_packet() {
    passes_with(
        "direct_meter<bit<8>>(MeterType.packets) dm;\n\
         action read() { dm.read(h.x.c); }\n\
         table t { key = { h.x.v: exact; } actions = { read; NoAction; } meters = dm; default_action = NoAction(); }\n\
         apply { s.egress_spec = 1; if (h.x.v == 9) { read(); } else { t.apply(); } }",
        "add t h.x.v:1 read() = X\nmeter_set_rates dm $X 0.000001:1 0.000001:1\n\
         packet 0 0900 0000000000000000\nexpect 1 0900\npacket 0 0100 0000000000000000\nexpect 1 0100\n\
         packet 0 0100 0000000000000000\nexpect 1 0102\npacket 0 0900 0000000000000000\nexpect 1 0900",
    );
}

/// A limit above all hashes leaves them alone.
#[test]
fn hashes_below_a_limit() {
    let hash = |limit: &str, expected: &str| {
        passes_with(
            &format!(
                "apply {{ s.egress_spec = 1; hash(h.x.n, HashAlgorithm.identity, 64w0, {{ h.x.n }}, {limit}); }}"
            ),
            &format!("packet 0 0000ffffffffffffffff\nexpect 1 0000{expected}"),
        );
    };
    hash("65w0x10000000000000000", "ffffffffffffffff");
    hash("200w0x10000000000000000000000000000000000", "ffffffffffffffff");
    hash("64w0xffffffffffffffff", "0000000000000000");
    hash("64w0", "0000000000000000");
}

#[test]
fn matches() {
    let probe = |add: &str, packet: &str, hit: bool| {
        let expect = if hit { "expect 3" } else { "expect 2" };
        passes(&format!("{TO_2}{add}\npacket 0 {packet}\n{expect}"));
    };
    for (key, packet, hit) in [
        ("0xab00/8", "0100abcd", true),
        ("0xab**", "0100abcd", true),
        ("0xabcd", "0100abcd", true),
        ("0xabcd", "0100abce", false),
        ("0/0", "01000000", true),
    ] {
        probe(&format!("add by_prefix hdr.data.b:{key} send(port:3)"), packet, hit);
    }
    for (keys, packet, hit) in [
        ("data.a:0x*5", "01150000", true),
        ("data.a:0x*5", "01160000", false),
        ("data.a:0b***1****", "01f00000", true),
        ("data.a:0x14&&&0x0f", "01040000", true),
        ("data.b:1->5", "01000005", true),
        ("data.b:1..5", "01000006", false),
        ("more.$valid$:0", "01000000", true),
        ("more.valid:1", "01000000", false),
        ("data.a:*", "01000000", true),
    ] {
        probe(&format!("add TestIngress.by_mask 7 {keys} TestIngress.send(port:3)"), packet, hit);
    }
    // A larger priority wins, whatever the order.
    passes(&format!(
        "{TO_2}add by_mask 1 data.a:* send(port:4)\nadd by_mask 9 data.a:1 send(port:3)\n\
         add by_mask 5 data.a:1 drop()\npacket 0 01010000\nexpect 3"
    ));
}

#[test]
fn tables() {
    passes("setdefault by_kind send(port:5)\npacket 0 77000000\nexpect 5");
    passes(&format!("{TO_2}remove all\npacket 0 01000000\nno_packet"));
    passes(&format!("{TO_2}setdefault by_mask TestIngress.drop()\npacket 0 01000000\nno_packet"));
    refused("add by_kin data.kind:1 send(port:2)", "line 1: no table by_kin; there are: TestIngress.by_kind");
    refused("add by_kind data.kindly:1 send(port:2)", "no key data.kindly; there are: hdr.data.kind");
    refused("add by_kind data.kind:1 sent(port:2)", "no action in table TestIngress.by_kind: sent");
    refused("add by_kind data.kind:1 send(prt:2)", "has no parameter prt; it has: port");
    refused("add by_kind data.kind:1 send()", "parameter port of TestIngress.send is missing");
    refused("add by_kind data.kind:1 send(port:512)", "512 does not fit 9 bits");
    refused("add by_kind data.kind:256 send(port:1)", "256 does not fit 8 bits");
    refused("add by_kind data.kind:1 send(port:-1)", "-1 is neither a number");
    refused("add by_mask 7 data.a:1/9 drop()", "a prefix of 9 bits for a field of 8 bits");
    refused("add by_mask 2147483647 data.a:1 drop()", "2147483647 is neither a priority nor a key");
    refused("add by_kind send(port:1)", "key hdr.data.kind of table TestIngress.by_kind: is missing");
    refused("add by_kind data.kind:1 data.kind:1 send(port:1)", "is given twice");
    refused(&format!("{TO_2}{TO_2}"), "line 2: an entry with this match already exists");
    refused("frobnicate", "line 1: unknown command frobnicate");
}

#[test]
fn counters_and_registers() {
    let two = format!("{TO_2}packet 0 01000000\npacket 0 0100000000\nexpect 2\nexpect 2\n");
    passes(&format!("{two}check_counter seen(1) packets == 2\ncheck_counter TestIngress.seen(1) bytes == 9"));
    passes(&format!(
        "{two}check_counter seen(1) packets > 1\ncheck_counter seen(0) packets <= 0\ncheck_counter seen(1)"
    ));
    fails(&format!("{two}check_counter seen(1) packets != 2"), "line 6: seen(1) counts 2 packets, not != 2");
    passes(&format!(
        "{two}counter_write seen 1 7 8\ncheck_counter seen(1) packets == 7\ncounter_read seen 1"
    ));
    passes(&format!("{two}check_register memory(1) == 2\nregister_read memory 1"));
    fails(&format!("{two}check_register memory(1) >= 3"), "memory(1) holds 0x2, not >= 0x3");
    passes(&format!("register_write memory 1 0x10\n{two}check_register memory(1) == 18"));
    passes(&format!("{two}register_reset memory\ncheck_register memory(1) == 0"));
    refused("check_counter seen(4) packets == 0", "the index is out of range: there are 4");
    refused("register_read memory 4", "the index is out of range: there are 4");
    refused("register_read seen 0", "no register seen; there are: TestIngress.memory");
    refused("register_write memory 0 0x100000000", "does not fit 32 bits");
}

#[test]
fn meters_and_time() {
    // One packet a second after a burst of two.
    let slow = "meter_set_rates pace 1 0.000001:1 0.000001:2\n";
    let three = "packet 0 01000000\npacket 0 01000000\npacket 0 01000000\n";
    passes(&format!("{TO_2}{slow}{three}expect 2\nexpect 2\nmeter_get_rates pace 1"));
    passes(&format!("{TO_2}{slow}{three}wait\npacket 0 01000000\nexpect 2\nexpect 2\nexpect 2"));
    passes(&format!("{TO_2}{slow}{three}wait 400\npacket 0 01000000\nexpect 2\nexpect 2"));
    passes(&format!("{TO_2}meter_array_set_rates pace 0.000001:1 0.000001:1\n{three}expect 2"));
    refused("meter_set_rates pace 9 1:1 1:1", "the index is out of range");
}

#[test]
fn copies() {
    let group = "mc_mgrp_create 7\nmc_node_create 11 4 5\nmc_node_create 12 4\nmc_node_associate 7 0\nmc_node_associate 7 1\n";
    let add = "add by_kind data.kind:1 copy(group:7)\n";
    let got = "expect 4 0100000b\nexpect 5 0100000b\nexpect 4 0100000c\n";
    passes(&format!("{group}{add}packet 0 01000000\n{got}"));
    passes(&format!(
        "{group}mc_node_update 1 6\n{add}packet 0 01000000\nexpect 4\nexpect 5\nexpect 6 0100000c"
    ));
    let mirror = "add by_kind data.kind:1 mirror(port:2, session:9)\n";
    passes(&format!(
        "mirroring_add 9 6\nmirroring_get 9\n{mirror}packet 0 01000000\nexpect 2\nexpect 6 01000000"
    ));
    passes(&format!("{group}mirroring_add_mc 9 7\n{mirror}packet 0 01000000\nexpect 2\n{got}"));
    passes(&format!("mirroring_add 9 6\nmirroring_delete 9\n{mirror}packet 6 01000000\nexpect 2"));
    fails("mirroring_get 9", "no clone session 9");
    refused("mc_node_associate 7 0", "no node 0");
    refused("mc_node_create 0 1\nmc_node_associate 7 0", "no group 7");
    refused("mc_mgrp_create 0", "multicast group 0 means no multicast");
    refused("mirroring_delete 9", "no such group or session");
}

#[test]
fn order_and_times() {
    let copies =
        "add by_kind data.kind:1 mirror(port:2, session:9)\nmirroring_add 9 6\nin_order\npacket 0 01000000\n";
    passes(&format!("{copies}expect 6\nexpect 2"));
    fails(&format!("{copies}expect 2\nexpect 6"), "line 6: port 6: it left before the packet of line 5");
    fails(
        &format!("{TO_2}in_order\nexpect 2\npacket 0 01000000"),
        "line 3: port 2: it left only during line 4",
    );
    // Time begins at 1 ms; a packet takes none, and then a step passes.
    let two = "packet 0 01000000\npacket 0 01000000\n";
    passes(&format!("{TO_2}{two}expect 2 @1ms\nexpect 2 @2ms"));
    passes(&format!(
        "{TO_2}step 5us\n{two}wait 3us\npacket 0 01000000\nexpect 2 @1ms\nexpect 2 @1005us\nexpect 2 @1013us"
    ));
    fails(
        &format!("{TO_2}step 0\n{two}expect 2\nexpect 2 @2ms"),
        "line 6: port 2: it left at 1000us, not at 2000us",
    );
    // A packet each 10 ms, of which only one waits.
    let slow = format!("{TO_2}queue 2=100,1\nstep 0\n{two}packet 0 01000000\nwait\n");
    passes(&format!("{slow}expect 2 @1ms\nexpect 2 @11ms\ncheck_stat drops(queue_full) == 1"));
    refused("queue 600=1", "line 1: no packet comes in on port 600");
    refused("queue 1:3=1", "no queue of priority 3: each port has 1");
    refused("queue all=1Gbit", "the switch has no list of ports: name them");
}

#[test]
fn the_switch_of_a_test() {
    let copy = "add by_kind data.kind:1 mirror(port:2, session:9)\nmirroring_add 9 500 bytes=2\n";
    passes(&format!(
        "switch cpu-port=500\n{copy}packet 500 01000000\nexpect 500 0100$\nexpect 2 01000000$\ncheck_stat to_cpu == 1\n\
                     check_stat received_from_cpu == 1"
    ));
    passes(&format!("switch max-descendants=1\n{copy}packet 0 01000000\nexpect 500\nexpect 2"));
    refused("switch priority-queues=9", "queues_per_port is 9: choose 1 to 8");
    refused("wait\nswitch cpu-port=1", "the switch is set before all other statements");
    // A group besides the ports of a session.
    let group = "mc_mgrp_create 7\nmc_node_create 11 4\nmc_node_associate 7 0\n";
    passes(&format!(
        "{group}{TO_2}add by_kind data.kind:2 mirror(port:2, session:9)\nmirroring_add 9 6 group=7\n\
                     packet 0 02000000\nexpect 2\nexpect 6\nexpect 4 0200000b"
    ));
}

#[test]
fn refusals_and_statistics() {
    passes(&format!("{TO_2}refuse \"already exists\" {TO_2}packet 0 01000000\nexpect 2"));
    refused(&format!("refuse \"already exists\" {TO_2}"), "line 1: it was not refused");
    refused(
        &format!("{TO_2}refuse \"full\" {TO_2}"),
        "line 2: it was refused, but: an entry with this match",
    );
    refused("refuse \"port\" packet 600 00", "only statements that fill");
    passes("packet 0 02000000\ncheck_stat drops(ingress) == 1\ncheck_stat received >= 1");
    passes(
        "packet 0 02\ncheck_stat parser_errors(PacketTooShort) == 1\ncheck_stat anomalies(register_index) == 0",
    );
    fails("packet 0 02000000\ncheck_stat drops(ingress) == 2", "line 2: drops(ingress) is 1, not == 2");
    refused("check_stat drops(none) == 0", "does not count drops(none); it counts: ingress, egress");
    refused("check_stat drop == 0", "does not count drop; it counts: received");
    refused("check_stat received(1) == 0", "does not count received(1)");
    refused("check_stat received == x", "no number to compare with");
}

#[test]
fn messages() {
    let ingress = "apply { s.egress_spec = 1; log_msg(\"v = {}\", { h.x.v }); digest(1, { h.x.v, h.x.c }); assert(h.x.v != 9); }";
    let packet = "packet 0 0701 0000000000000000\n";
    passes_with(
        ingress,
        &format!(
            "{packet}packet 0 0902 0000000000000000\nexpect 1\nexpect_digest 07 01\nexpect_log v = 7\n\
                  expect_log \"v = 9\"\nexpect_digest 0902\nexpect_log stf-runner.p4:8: an assert was false; the packet was dropped"
        ),
    );
    let fails = |stf: &str, want: &str| {
        let got = ran_with(ingress, &format!("{packet}{stf}"));
        assert!(got.contains(want), "{got}");
    };
    fails("expect_digest 0702", "line 2: the digest is 0701, not 0702");
    fails("expect_digest 0701\nexpect_digest 0701", "line 3: no digest");
    fails("expect_log v = 8", "line 2: the message is: v = 7");
    fails("expect_log v = 7\nexpect_log v = 7", "line 3: no message");
    fails("packet 0 0701 0000000000000000\nexpect_digest 0701", "an unexpected digest: 0701");
    fails("packet 0 0701 0000000000000000\nexpect_log v = 7", "an unexpected message: v = 7");
}

#[test]
fn idle_entries_and_default_actions() {
    let ingress = "direct_counter(CounterType.packets) hits;\n\
        table t { key = { h.x.v: exact; } actions = { NoAction; } counters = hits; support_timeout = true; default_action = NoAction(); }\n\
        table u { key = { h.x.v: exact; } actions = { NoAction; } }\n\
        apply { s.egress_spec = 1; t.apply(); u.apply(); }";
    let add = "step 0\nadd t h.x.v:1 NoAction() idle=10ms = A\nadd t h.x.v:2 NoAction() idle=20ms = B\n";
    let hit = "packet 0 0100 0000000000000000\nexpect 1\n";
    passes_with(
        ingress,
        &format!(
            "{add}wait 5ms\n{hit}wait 9ms\nexpect_idle none\nwait 1ms\nexpect_idle $A\nwait 5ms\nexpect_idle $B\n\
                  wait 5ms\n{hit}expect_idle $A\ncheck_counter hits($A) packets == 2\ncheck_counter hits(default) packets == 0"
        ),
    );
    passes_with(
        ingress,
        &format!(
            "{hit}check_counter hits(default) packets == 1\ncounter_write hits default 7 0\n{hit}check_counter hits(default) packets == 8"
        ),
    );
    let fails = |stf: &str, want: &str| {
        let got = ran_with(ingress, &format!("{add}{stf}"));
        assert!(got.contains(want), "{got}");
    };
    fails("wait 10ms\nexpect_idle none", "line 5: idle are entries of: I.t");
    fails("expect_idle $A", "line 4: idle are entries of: no table");
    fails("expect_idle $C", "no entry is named $C");
    fails("add u h.x.v:1 NoAction() idle=1s", "the table has no idle timeouts");
}

#[test]
fn programs_that_do_not_compile() {
    let error = run_stf::<pointsman_interp::Interp>(Path::new("/nonexistent.p4"), &[], "")
        .expect_err("no such file")
        .to_string();
    assert!(error.contains("/nonexistent.p4"), "{error}");
}
