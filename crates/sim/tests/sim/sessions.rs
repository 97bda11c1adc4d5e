//! Sessions of several requests over one connection, and devices with other processes.

use crate::run;
use pointsman_sim::Outcome;

fn rack(policy: &str, device: &str, client: &str) -> String {
    format!(
        r#"
        name = "sessions"
        duration_s = 60
        patience_s = 5
        rack = {{ servers = 1, policy = "{policy}" }}

        [[device]]
        name = "cpu"
        kind = "cpu"
        service_time = {{ distribution = "deterministic", mean_ms = 2 }}
        {device}

        [[device]]
        name = "nic"
        kind = "smartnic"
        service_time = {{ distribution = "deterministic", mean_ms = 2 }}

        [[client]]
        {client}
        "#
    )
}

fn answered(outcome: &Outcome) -> Vec<u64> {
    outcome.groups.iter().map(|g| g.answered).collect()
}

/// A session begins every two seconds. Ten of its requests are 0.5 s apart, and one device answers them all, while every other
/// session is the other device's.
#[test]
fn requests_of_a_session_follow_each_other() {
    for transport in ["udp", "tcp"] {
        let client = format!(
            "transport = \"{transport}\"\nsession = {{ requests = 10, gap_ms = 500 }}\n\
             arrivals = {{ process = \"near-constant\", rate_per_s = 0.5, jitter = 0 }}"
        );
        let outcome = run(&rack("wrr", "", &client), 1);
        // From 2 s on: 29 sessions (the 30th comes with the end), of which the last two are cut short, after 8 requests and 4.
        assert_eq!((outcome.requests.sent, outcome.requests.lost), (282, 0), "{transport}");
        let shares = answered(&outcome);
        assert_eq!(shares.iter().sum::<u64>(), 282);
        // Whole sessions, and at most one that was cut short.
        assert!(shares.iter().all(|n| (120..=162).contains(n)), "{transport}: {shares:?}");
        assert!(shares.iter().all(|n| [0, 2, 4, 8].contains(&(n % 10))), "{transport}: {shares:?}");
    }
}

/// Recorded sessions: all of them, the last one too.
#[test]
fn recorded_sessions() {
    let client = "session = { requests = 3, gap_ms = 1000 }\n\
                  arrivals = { process = \"trace\", file = \"crates/sim/tests/sim/joins.csv\" }";
    let outcome = run(&rack("wrr", "", client), 1);
    assert_eq!((answered(&outcome), outcome.requests.lost), (vec![6, 6], 0));
}

/// Seven processes leave a worker an eighth of its processor.
#[test]
fn other_processes() {
    let client = "arrivals = { process = \"near-constant\", rate_per_s = 20, jitter = 0 }";
    let mean = |stress: &str| run(&rack("server-only", stress, client), 1).latency.mean_ms;
    let (alone, under_stress) = (mean(""), mean("stress = { processes = 7, memory_percent = 75 }"));
    assert!((under_stress - alone - 14.0).abs() < 0.01, "{alone} {under_stress}");
}

/// Agents report the use of a processor by other processes: the other device is used less, and gets the requests.
#[test]
fn other_processes_are_seen() {
    let client = "arrivals = { process = \"near-constant\", rate_per_s = 20, jitter = 0 }";
    let shares = |stress: &str| {
        let rack = rack("least-utilised", stress, client);
        answered(&run(&rack.replace("duration_s = 60", "duration_s = 20\nwarmup_s = 2"), 1))
    };
    let idle = shares("");
    assert!(idle[0] > 60, "{idle:?}");
    assert_eq!(shares("stress = { processes = 7 }"), [0, 360]);
}
