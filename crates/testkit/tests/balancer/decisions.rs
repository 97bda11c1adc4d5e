//! The counters of decisions: why a device was chosen, and how old its last report was then.

use super::world::*;
use pointsman_testkit::compile::own_program;
use std::collections::BTreeMap;

const BLOCKS: u8 = 3;
const DEVICE: u16 = 8;

/// Values of the constants REASON_* of select.p4.
fn reasons() -> BTreeMap<u64, String> {
    let path = own_program("balancer").with_file_name("select.p4");
    let text = std::fs::read_to_string(path).expect("select.p4 is readable");
    let constants = text.lines().filter_map(|l| {
        let (name, rest) = l.strip_prefix("const bit<4> REASON_")?.split_once(" = ")?;
        Some((rest.split(';').next()?.parse().ok()?, name.to_lowercase()))
    });
    constants.collect()
}

/// Everything that was dispatched so far, by reason.
fn dispatched(w: &mut World) -> Vec<(String, u64)> {
    let reasons = reasons();
    let mut out: BTreeMap<String, u64> = BTreeMap::new();
    for device in DEVICES {
        for reason in 0..16 {
            let n = w
                .rig
                .counter("tally.dispatches", u64::from(device) << 4 | reason)
                .expect("a counter")
                .packets;
            if n > 0 {
                *out.entry(reasons[&reason].clone()).or_default() += n;
            }
        }
    }
    out.into_iter().collect()
}

/// Checks the reason for the device of one connection, in a world of one server that `prepare` changed. `blocks` are
/// the parameters of `set_policy`, if the policy is made of blocks.
#[track_caller]
fn check(policy: u8, blocks: &str, prepare: fn(&mut World), reason: &str) {
    let mut w = World::one_server(policy);
    if !blocks.is_empty() {
        w.set(&format!("policies service=1 epoch=0 -> set_policy({blocks})"));
    }
    prepare(&mut w);
    let before = dispatched(&mut w);
    let device = w.device_of(&syn(&client4(1), WEB4));
    // Later packets of the connection are not decisions.
    assert_eq!(w.device_of(&ack(&client4(1), WEB4)), device);
    let mut want: BTreeMap<String, u64> = before.into_iter().collect();
    *want.entry(reason.to_string()).or_default() += 1;
    assert_eq!(dispatched(&mut w), want.into_iter().collect::<Vec<_>>());
}

/// servers, narrow, pick, choices, counting, metric and weight, twice; step, offset, complement, second only
const LEAST_COMPUTE: &str = "0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0";

#[test]
fn what_decided() {
    let nothing = |_: &mut World| ();
    check(HASH, "", nothing, "hash");
    check(ROUND_ROBIN, "", nothing, "ring");
    check(AVAILABILITY, "", |w| w.report(DEVICE, true), "priority");
    check(BLOCKS, LEAST_COMPUTE, nothing, "minimum");
    check(BLOCKS, "0, 0, 0, 0, 32, 6, 1, 0, 0, 0, 0, 0, 0", nothing, "least_connections");
    check(BLOCKS, "0, 0, 0, 2, 32, 6, 1, 0, 0, 0, 0, 0, 0", nothing, "choices");
    check(BLOCKS, "0, 3, 3, 0, 32, 6, 1, 0, 0, 0, 0, 0, 0", nothing, "idle");
    check(BLOCKS, "0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0", nothing, "chance");
    check(BLOCKS, "0, 0, 2, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0", nothing, "weighted");
    check(BLOCKS, "0, 2, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0", nothing, "priority");
    let chosen = |w: &mut World| {
        w.set("chosen_pools service=1 epoch=0 server=1 -> set_pool(3, 1, 0, 0)");
        let device = 0xc000_0000 | u32::from(DEVICE);
        w.rig.write_register("controllers_choice", 1, &device.to_string()).expect("a register");
    };
    check(BLOCKS, "3, 0, 4, 0, 0, 6, 1, 0, 0, 0, 0, 0, 0", chosen, "chosen");
}

#[test]
fn what_the_policy_asks_for_is_not_to_be_had() {
    check(AVAILABILITY, "", |w| w.report(DEVICE, false), "none_left");
    check(BLOCKS, "3, 0, 4, 0, 0, 6, 1, 0, 0, 0, 0, 0, 0", |_| (), "no_choice");
    let both_busy = |w: &mut World| {
        for n in [2, 3] {
            w.device_of(&syn(&client4(n), WEB4));
        }
    };
    check(BLOCKS, "0, 3, 3, 0, 32, 6, 1, 0, 0, 0, 0, 0, 0", both_busy, "none_left");
    let not_enabled = |w: &mut World| {
        w.ring(1, 0, 1, &[1; 6]);
        w.pool(1, 0, 1, 1, 6, 0);
    };
    check(HASH, "", not_enabled, "fallback");
    // One reports, and the ring names the other.
    let silent = |w: &mut World| {
        w.ring(1, 0, 1, &[1; 6]);
        w.pool(1, 0, 1, 3, 6, 500);
        w.report(DEVICE, true);
    };
    check(ROUND_ROBIN, "", silent, "fallback");
    for (policy, blocks) in [(ROUND_ROBIN, ""), (BLOCKS, LEAST_COMPUTE)] {
        check(policy, blocks, |w| w.pool(1, 0, 1, 3, 6, 500), "all_silent");
    }
}

/// Decisions of a service so far: by age, and the sum of ages in microseconds.
fn ages(w: &mut World, service: u64) -> ([u64; 16], u64) {
    let count = |w: &mut World, i| w.rig.counter("tally.ages", service << 4 | i).expect("a counter").packets;
    let counts = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map(|i| count(w, i));
    (counts, w.rig.register("tally.age_us", service).expect("a register").low_u64())
}

/// How old the report of the device was that got the connection, for policies that look at reports.
#[test]
fn staleness() {
    for (policy, blocks, looks) in [
        (BLOCKS, LEAST_COMPUTE, true),
        (BLOCKS, "0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0", true),
        (BLOCKS, "0, 0, 0, 0, 32, 6, 1, 0, 0, 0, 0, 0, 0", false),
        (AVAILABILITY, "", true),
        (HASH, "", false),
    ] {
        let mut w = World::one_server(policy);
        w.pool(1, 0, 1, 1, 6, 60_000);
        w.ring(1, 0, 1, &[0; 6]);
        if !blocks.is_empty() {
            w.set(&format!("policies service=1 epoch=0 -> set_policy({blocks})"));
        }
        let mut want = ([0; 16], 0);
        let mut n = 0;
        let mut connect = |w: &mut World, bucket: usize, age_ms: u64| {
            n += 1;
            assert_eq!(w.device_of(&syn(&client4(n), WEB4)), DEVICE);
            if looks {
                want.0[bucket] += 1;
                want.1 += age_ms * 1000;
            }
            assert_eq!(ages(w, 1), want, "{policy} {blocks}");
        };
        connect(&mut w, 15, 0);
        // Bounds belong to the lower bucket.
        for (bucket, ms) in
            [(0, 0), (0, 1), (1, 2), (2, 3), (5, 50), (6, 51), (9, 1000), (13, 20_000), (14, 20_001)]
        {
            w.wait(1);
            w.report(DEVICE, true);
            w.wait(ms);
            connect(&mut w, bucket, ms);
        }
    }
}
