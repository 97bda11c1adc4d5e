//! What becomes of a packet after ingress and after egress.

use super::Subject;
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_v1model::{Output, SwitchConfig};

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
fn every_combination<E: Executor>() {
    let mut rig = Subject::read("precedence").filled::<E>(SwitchConfig::default());
    for op in 0..=255u8 {
        let left = rig.send(0, &[op, 0, 0, 0, 0]);
        let mut left: Vec<String> = left.into_iter().map(shown).collect();
        left.sort();
        let mut want = Vec::new();
        after_ingress(Way { bytes: [op, 0, 0, 0, 0], ..Way::default() }, 0, &mut want);
        want.sort();
        assert_eq!(left, want, "operations {op:08b}");
    }
}

/// `PORT HEX`
fn shown(output: Output) -> String {
    match output {
        Output::Port(port, bytes) => {
            let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            format!("{port} {digits}")
        }
        Output::Cpu(_) => "to the control plane".into(),
    }
}

#[test]
fn interpreted() {
    every_combination::<Interp>();
}

#[test]
fn as_native_code() {
    every_combination::<Engine>();
}
