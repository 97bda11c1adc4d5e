//! Every checker finds the faults that it is made for.

use crate::{run_with, scenarios};
use pointsman_sim::Fault;
use pointsman_sim::check::Law;

/// Two servers of two devices; lasting connections; one server fails on the way, one device is taken out.
const RACK: &str = r#"
    name = "faults"
    duration_s = 4
    patience_s = 2
    rack = { servers = 4, policy = "ecmp", agent = { heartbeat_ms = 50 }, idle_timeout_ms = 1000 }

    [[device]]
    name = "cpu"
    kind = "cpu"
    workers = 4
    service_time = { distribution = "exponential", mean_ms = 1 }

    [[device]]
    name = "nic"
    kind = "smartnic"
    service_time = { distribution = "log-normal", mean_ms = 2, sigma = 0.5 }

    [[client]]
    arrivals = { process = "poisson", rate_per_s = 1000 }
    connections = 200

    [[client]]
    arrivals = { process = "near-constant", rate_per_s = 500, jitter = 0.5 }

    [[event]]
    at_s = 1
    action = "fail"
    device = "s2"

    [[event]]
    at_s = 1.5
    action = "disable"
    device = ["s1/nic"]

    [[event]]
    at_s = 3.5
    action = "restore"
    device = "s2"
"#;

fn check(fault: Option<Fault>, expected: &[Law]) {
    check_in(RACK, fault, expected);
}

fn check_in(rack: &str, fault: Option<Fault>, expected: &[Law]) {
    let outcome = run_with(&scenarios(rack)[0], 5, fault);
    let found: Vec<Law> = outcome.violations.counts.keys().copied().collect();
    assert_eq!(found, expected, "{fault:?}: {:?}", outcome.violations);
    assert!(outcome.requests.answered > 1000, "{}", outcome.json());
}

#[test]
fn a_sound_world_has_none() {
    check(None, &[]);
}

#[test]
fn a_request_at_the_wrong_device() {
    // Some of them at devices that are out.
    check(Some(Fault::Misdeliver), &[Law::Consistency, Law::Dispatch]);
}

#[test]
fn a_packet_that_vanishes() {
    check(Some(Fault::Swallow), &[Law::Packets]);
}

#[test]
fn an_answer_twice() {
    check(Some(Fault::Duplicate), &[Law::Requests]);
}

#[test]
fn a_damaged_packet() {
    check(Some(Fault::Corrupt), &[Law::Translation]);
}

#[test]
fn a_dead_device_that_reports() {
    check(Some(Fault::GhostReports), &[Law::Dispatch]);
}

#[test]
fn work_that_was_not_counted() {
    check(Some(Fault::FreeWork), &[Law::Utilisation]);
}

#[test]
fn a_request_older_than_it_is() {
    check(Some(Fault::OldStamp), &[Law::Little]);
}

/// Behind two switches, while both are up and after one has lost its power: a connection that moved to the other
/// switch may get another device, and nothing else is allowed.
#[test]
fn behind_two_switches() {
    let two = RACK.replace("servers = 4,", "servers = 4, switches = 2,");
    let event = "[[event]]\nat_s = 2\naction = \"switch-down\"\nswitch = 1\n";
    for rack in [two.clone(), two + event] {
        check_in(&rack, None, &[]);
        check_in(&rack, Some(Fault::Misdeliver), &[Law::Consistency, Law::Dispatch]);
        check_in(&rack, Some(Fault::Swallow), &[Law::Packets]);
        check_in(&rack, Some(Fault::Duplicate), &[Law::Requests]);
        check_in(&rack, Some(Fault::Corrupt), &[Law::Translation]);
        check_in(&rack, Some(Fault::GhostReports), &[Law::Dispatch]);
    }
}
