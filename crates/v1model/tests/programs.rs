//! Runs every `*.p4` of this directory on the interpreter, fed by the `*.test` file next to it.
//!
//! A test file has one command a line; `#` starts a comment. Times are virtual. Commands:
//!
//! ```text
//! config queues=N cpu=PORT clock=US descendants=N
//!                                   before anything else
//! at TIME                           lets time pass until then (10us, 3ms, 1s)
//! in PORT HEX...                    a packet comes in now
//! cpu HEX...                        a packet comes from the control plane
//! out PORT|cpu HEX... [@TIME]       the next packet that left, and when
//! none                              nothing else has left
//! drops REASON N, anomaly NAME N, parser_errors NAME N
//! group ID PORT:INSTANCE...         multicast group
//! session ID PORT:INSTANCE... [truncate=N] [group=N] [class=N]
//! queue PORT [depth=N] [rate=N] [priority=N]
//! entry TABLE KEY... -> ACTION ARG... | group N | member N  [prio=N] [idle=TIME]
//! refuse ERROR TABLE ...            the same, but it must fail with this
//! default TABLE -> ACTION ARG...
//! member PROFILE ID -> ACTION ARG..., select SELECTOR ID MEMBER:WEIGHT...
//! register NAME[I] = V, or == V to check; counter NAME[I] =|== PACKETS BYTES
//! meter NAME[I] = CIR CBURST PIR PBURST, direct_meter TABLE KEY = CIR CBURST PIR PBURST
//! direct_counter TABLE KEY|* == PACKETS BYTES
//! value_set NAME V...
//! crc16|crc32 POLYNOMIAL INITIAL FINAL_XOR REFLECT_IN REFLECT_OUT
//!                                   parameters of the _custom algorithm
//! digest HEX..., event TEXT         the next one
//! idle none | TABLE KEY             entries whose idle timeout has passed
//! ```

mod script;

use pointsman_interp::Interp as Tested;

use std::path::Path;

/// Every test file, so that one that is forgotten here is noticed.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|f| f.unwrap().file_name().to_str().and_then(|n| n.strip_suffix(".p4")).map(String::from))
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    names
}

#[test]
fn all_programs() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let names = names(&dir);
    let failures: Vec<String> = names.iter().filter_map(|n| script::run(&dir, n).err()).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// A packet of `precedence.p4` on its way: its five header bytes, and the metadata.
#[derive(Clone, Copy, Default)]
struct Way {
    bytes: [u8; 5],
    kept: u8,
    both: u8,
    lost: u8,
}

/// After ingress, as simple_switch.md has it, for `precedence.p4`.
fn after_ingress(received: Way, instance_type: u8, left: &mut Vec<String>) {
    let op = received.bytes[0];
    let mut way = received;
    way.bytes[1] += 1;
    let (mut spec, mut group) = (1u32, 0);
    let first = instance_type == 0;
    if first {
        way = Way { kept: 5, both: 9, lost: 7, ..way };
        if op & 0x04 != 0 {
            group = 1;
        }
        if op & 0x08 != 0 {
            (spec, group) = (511, 0);
        }
        if op & 0x10 != 0 {
            spec = 3;
        }
        if op & 0x01 != 0 {
            after_egress(Way { bytes: received.bytes, both: way.both, ..Way::default() }, 6, 0, 1, left);
        }
    } else {
        spec = 2;
    }
    if first && op & 0x02 != 0 {
        after_ingress(Way { bytes: received.bytes, kept: 5, both: 9, lost: 0 }, 6, left);
    } else if group != 0 {
        after_egress(way, 4, 44, 5, left);
        after_egress(way, 5, 55, 5, left);
    } else if spec != 511 {
        after_egress(way, spec, 0, 0, left);
    }
}

/// Egress and the steps after it.
fn after_egress(mut way: Way, port: u32, rid: u8, instance_type: u8, left: &mut Vec<String>) {
    let op = way.bytes[0];
    way.bytes[2] = instance_type << 4 | if way.lost == 0 { way.kept } else { 15 };
    way.bytes[3] = rid;
    way.bytes[4] = way.both;
    let mut recirculated = false;
    if port == 1 && instance_type == 0 {
        let copy = Way { kept: 1, both: 2, lost: 0, ..way };
        if op & 0x20 != 0 {
            after_egress(copy, 7, 0, 2, left);
        }
        if op & 0x80 != 0 {
            return;
        }
        if op & 0x40 != 0 {
            recirculated = true;
            after_ingress(copy, 4, left);
        }
    }
    if !recirculated {
        left.push(format!("{port} {}", way.bytes.map(|b| format!("{b:02x}")).concat()));
    }
}

/// Clone, resubmit, multicast, drop and a late port after ingress, clone, drop and recirculate after egress: all 256
/// combinations, against the pseudo code of simple_switch.md.
#[test]
fn every_combination() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let packets: Vec<Vec<u8>> = (0..=255).map(|op| vec![op, 0, 0, 0, 0]).collect();
    let setup = ["group 1 4:44 5:55", "session 1 6:0", "session 2 7:0"];
    let all = script::feed(&dir, "precedence", &setup, &packets).unwrap();
    for (op, left) in all.iter().enumerate() {
        let mut want = Vec::new();
        after_ingress(Way { bytes: [op as u8, 0, 0, 0, 0], ..Way::default() }, 0, &mut want);
        want.sort();
        assert_eq!(*left, want, "operations {op:08b}");
    }
}

/// Random packets on every port of every program: nothing panics, and every packet has one fate.
#[test]
fn random_packets() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for name in [
        "checksum",
        "externs",
        "hashes",
        "objects",
        "older",
        "parser",
        "precedence",
        "queues",
        "replication",
        "selector",
    ] {
        script::feed_random(&dir, name, 3000).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// Batches in place do what packets one by one do.
#[test]
fn batches() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let names = names(&dir);
    let mut in_place = 0;
    for name in names {
        in_place += script::feed_batches(&dir, &name, 2000).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    assert!(in_place > 1000, "{in_place}");
}

/// A switch with the state of another one does what that one does.
#[test]
fn restored_states() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for name in names(&dir) {
        script::restored::feed(&dir, &name, 600).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// Bytes that are not a state give errors, and change nothing.
#[test]
fn damaged_states() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    script::restored::damage(&dir, "objects").unwrap();
    script::restored::damage(&dir, "selector").unwrap();
    script::restored::refusals(&dir).unwrap();
}

/// Several workers, each on its own thread, with a control plane next to them.
#[test]
fn workers() {
    script::feed_workers(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), 3, 2000).unwrap();
}
