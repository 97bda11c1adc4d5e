//! The search next to a search of all orders, and histories in files.

mod small;

use pointsman_history::file::{Header, SCHEMA, read, write};
use pointsman_history::{Operation, Specification, Verdict, check, search};
use pointsman_wire::Random;
use small::{Counter, Op, Register, counter_history, op, register_history};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Whether any order of any choice of the unanswered operations explains the results: by trying all of them.
fn any_order<S: Specification>(
    of: &mut S,
    operations: &[Operation<S::Input, S::Output>],
    placed: &mut Vec<usize>,
    state: &S::State,
) -> bool {
    let left: Vec<usize> = (0..operations.len()).filter(|n| !placed.contains(n)).collect();
    let end = |n: &usize| operations[*n].result.as_ref().map(|(end, _)| *end);
    if left.iter().all(|n| end(n).is_none()) {
        return true;
    }
    left.iter().any(|n| {
        let operation = &operations[*n];
        // An operation that ended before this one began must come before it.
        let first = left.iter().all(|m| end(m).is_none_or(|end| end >= operation.call));
        let (after, outputs) = of.step(state, &operation.input);
        if !first || operation.result.as_ref().is_some_and(|(_, result)| !outputs.contains(result)) {
            return false;
        }
        placed.push(*n);
        let found = any_order(of, operations, placed, &after);
        placed.pop();
        found
    })
}

/// Compares both searches. Returns whether there is an order.
fn compared<S: Specification>(mut of: S, operations: &[Operation<S::Input, S::Output>]) -> bool
where
    S::Input: Debug,
    S::Output: Debug,
{
    let start = of.start();
    let expected = any_order(&mut of, operations, &mut Vec::new(), &start);
    let found = search(&mut of, operations, 1_000_000);
    assert!(found != Verdict::Undecided, "{operations:?}");
    assert_eq!(found == Verdict::Linearizable, expected, "{operations:?} {found:?}");
    expected
}

#[test]
fn agrees_with_a_search_of_all_orders() {
    let mut random = Random::new(7);
    let mut right = [0; 2];
    for _ in 0..100_000 {
        right[0] += u32::from(compared(Counter, &counter_history(&mut random)));
    }
    for _ in 0..20_000 {
        right[1] += u32::from(compared(Register, &register_history(&mut random)));
    }
    let [counter, register] = right;
    assert!((10_000..90_000).contains(&counter) && (2_000..19_000).contains(&register), "{right:?}");
}

#[test]
fn what_a_violation_names() {
    let stale = [op(0, 1, Some((1, 1))), op(2, 1, Some((3, 2))), op(4, 0, Some((5, 1)))];
    assert_eq!(search(&mut Counter, &stale, 100), Verdict::Violation(2));
    assert_eq!(search(&mut Counter, &stale, 2), Verdict::Undecided);
    // The same results are right for operations at one time.
    let concurrent = stale.map(|o| Operation { call: 0, ..o });
    assert_eq!(search(&mut Counter, &concurrent, 100), Verdict::Linearizable);
    assert_eq!(search(&mut Counter, &[], 0), Verdict::Linearizable);
}

#[test]
fn many_lost_writes_are_no_trouble() {
    // 60 lost writes, of which 30 took effect, somewhere between reads that show it.
    let mut operations: Vec<Op> = (0..60).map(|n| op(n, 1, None)).collect();
    operations.extend((0..=30).map(|n| op(100 + 2 * u64::from(n), 0, Some((101 + 2 * u64::from(n), n)))));
    assert_eq!(search(&mut Counter, &operations, 100_000), Verdict::Linearizable);
}

/// Each of 40 lost writes may have taken effect; reads show that three of them did, with writes in between.
#[test]
fn lost_writes_of_different_values_are_no_trouble() {
    let at = |call, input, result| Operation { call, input, result: Some((call + 1, result)) };
    let mut operations: Vec<_> =
        (0..40).map(|n| Operation { call: n, input: Some(100 + n as u32), result: None }).collect();
    for (n, lost) in [(0, 135), (1, 103), (2, 120)] {
        let call = 100 + 10 * n;
        operations.extend([
            at(call, Some(n as u32), n as u32),
            at(call + 2, None, lost),
            at(call + 4, None, lost),
        ]);
    }
    assert_eq!(search(&mut Register, &operations, 10_000), Verdict::Linearizable);
    // What nothing wrote, and what was read before.
    for (value, wrong) in [(99, 9), (135, 9)] {
        let mut operations = operations[34..40].to_vec();
        operations.extend([
            at(100, None, 135),
            at(110, Some(1), 1),
            at(120, None, 139),
            at(130, None, value),
        ]);
        assert_eq!(search(&mut Register, &operations, 1_000_000), Verdict::Violation(wrong));
    }
}

/// A program whose packets leave with the number of packets so far in their first byte.
const COUNTING: &str = r"
#include <core.p4>
#include <v1model.p4>
header number_t { bit<8> n; bit<8> read; }
struct headers_t { number_t number; }
struct metadata_t {}
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(h.number); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply {} }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<8>>(1) count;
    action forward(bit<9> port) { s.egress_spec = port; }
    table routes { key = { h.number.read: exact; } actions = { forward; } default_action = forward(0); }
    apply {
        count.read(h.number.n, 0);
        if (h.number.read == 0) { h.number.n = h.number.n + 1; }
        count.write(0, h.number.n);
        routes.apply();
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout metadata_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.number); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

fn header() -> Header {
    Header {
        schema: SCHEMA,
        program: COUNTING.to_string(),
        entries: "setdefault routes forward(port:2)\n".to_string(),
    }
}

/// A packet that counts, and what it showed.
fn packet(call: u64, count: Option<u8>) -> Operation<(u32, Vec<u8>), (u32, Vec<u8>)> {
    let result = count.map(|n| (call + 1, (2, vec![n, 0, 7])));
    Operation { call, input: (1, vec![0, 0, 7]), result }
}

#[test]
fn a_program_is_the_specification() {
    let judge = |counts: &[Option<u8>]| {
        let of = |(n, count): (usize, &Option<u8>)| packet(10 * n as u64, *count);
        let operations: Vec<_> = counts.iter().enumerate().map(of).collect();
        let history = BTreeMap::from([("a".to_string(), operations.clone()), ("b".to_string(), operations)]);
        let text = write(&header(), &history);
        assert_eq!(read(&text), Ok((header(), history)));
        check(&text).expect("a history")
    };
    let fine = judge(&[Some(1), None, Some(2), None, Some(4)]);
    assert_eq!((fine.keys, fine.operations, fine.unanswered), (2, 10, 4));
    assert!(fine.linearizable(), "{fine:?}");
    let twice = judge(&[Some(1), Some(1)]);
    assert_eq!(twice.violations, [("a".to_string(), 1), ("b".to_string(), 1)]);
    assert!(!judge(&[Some(1), None, Some(4)]).linearizable());
}

/// A packet that leaves by several ports was seen at one of them.
#[test]
fn a_packet_may_leave_by_several_ports() {
    let header = Header {
        program: COUNTING.replace("routes.apply();", "s.mcast_grp = 1;"),
        entries: "mc_mgrp_create 1\nmc_node_create 0 2 3\nmc_node_associate 1 0\n".to_string(),
        ..header()
    };
    let judge = |ports: &[u32]| {
        let of = |(n, port): (usize, &u32)| {
            let seen = (10 * n as u64 + 1, (*port, vec![n as u8 + 1, 0, 7]));
            Operation { result: Some(seen), ..packet(10 * n as u64, None) }
        };
        let operations = ports.iter().enumerate().map(of).collect();
        check(&write(&header, &BTreeMap::from([("a".to_string(), operations)])))
            .expect("a history")
            .violations
    };
    assert_eq!(judge(&[2, 3, 3, 2]), []);
    assert_eq!(judge(&[3, 4]), [("a".to_string(), 1)]);
}

#[test]
fn files_that_are_no_histories() {
    let good = write(&header(), &BTreeMap::from([("a".to_string(), vec![packet(5, Some(1))])]));
    let fails = |text: &str, parts: &[&str]| {
        let error = check(text).map_err(|e| e.to_string()).expect_err("an error");
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    fails("", &["line 1", "empty"]);
    fails("{}", &["line 1", "schema"]);
    fails(&good.replace("\"schema\":1", "\"schema\":2"), &["version is 2"]);
    fails(&good.replace("\"return\":6", "\"return\":4"), &["line 2", "before it was sent"]);
    fails(&good.replace("\"return\":6,", ""), &["line 2", "belong together"]);
    fails(&good.replace("010007", "01007"), &["line 2", "hexadecimal"]);
    fails(&good.replace("\"call\"", "\"cal\""), &["line 2", "cal"]);
    fails(&good[..good.len() - 9], &["line 2"]);
    fails(&good.replace("main;", ""), &["program of the history"]);
    fails(&good.replace("setdefault", "setdefaults"), &["entries of the history"]);
    let timed = good.replace("h.number.n + 1", "(bit<8>) s.ingress_global_timestamp");
    fails(&timed, &["program of the history", "reads the time"]);
    let metered = good.replace(
        "register<bit<8>>(1) count;",
        "meter(1, MeterType.packets) rate; register<bit<8>>(1) count;",
    );
    fails(&metered, &["program of the history", "meter"]);
    let random = good.replace("routes.apply();", "random(h.number.n, 0, 255); routes.apply();");
    fails(&random, &["program of the history", "random"]);
}
