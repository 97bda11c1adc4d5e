//! Devices whose service does not answer, and agents whose clock was ahead.

use super::world::{World, host_mac};
use pointsman_balance::agent::{self, Agent};
use pointsman_balance::controller::Unavailable;
use pointsman_balance::plan::Schema;
use pointsman_balance::{DeviceNumber, Policy};
use pointsman_control::proto::p4rt;
use pointsman_testkit::packet::Packet;
use serde_json::json;
use std::time::Duration;

const POLICIES: [Policy; 8] = [
    Policy::ServerOnly,
    Policy::Ecmp,
    Policy::Wrr,
    Policy::P4mite,
    Policy::LeastUtilised,
    Policy::LeastConnections,
    Policy::Jiq,
    Policy::PowerOfTwo,
];

fn states(w: &mut World) -> Vec<String> {
    let (status, service) = w.api("GET", "/v1/services/inference", "");
    assert_eq!(status, 200);
    let devices = service["devices"].as_array().expect("devices");
    devices.iter().map(|d| d["state"].as_str().expect("a state").to_string()).collect()
}

/// A device that has not reported yet is not in service. It does not become silent while the switch gets its program and entries.
#[test]
fn before_the_first_report() {
    let mut w = World::new();
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..400 {
        w.run_for(Duration::from_millis(5));
        let now = states(&mut w).remove(0);
        if w.controller.each().iter().all(|c| c.is_informed()) && seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(seen, ["no-report", "in-service"], "{:?}", w.told);
    assert!(!w.told.iter().any(|t| t.contains("is silent")), "{:?}", w.told);
    assert_eq!(states(&mut w), ["in-service"; 4]);
}

/// The process of one device is dead, its agent lives: no policy gives the device new connections.
#[test]
fn a_service_that_does_not_answer() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    assert_eq!(states(&mut w), ["in-service"; 4]);
    w.dead.insert(2);
    w.run_for(Duration::from_secs(1));
    let failed: Vec<_> = w.controller.unavailable().into_iter().collect();
    assert_eq!(failed, [(DeviceNumber::new(1, 0), Unavailable::Failed)]);
    assert!(w.told.iter().any(|t| t.starts_with("device s1/cpu failed its health check")), "{:?}", w.told);
    assert_eq!(states(&mut w), ["failed", "in-service", "in-service", "in-service"]);
    let silent = |w: &mut World| w.api("GET", "/v1/status", "").1["all_silent"].clone();
    assert_eq!(silent(&mut w), json!([]), "one device of several");
    // Its agent still reports: the age of its reports, and since when it has failed. Another time is no longer in the switch.
    w.run_for(Duration::from_secs(2));
    let (_, all) = w.api("GET", "/v1/devices", "");
    let failed = &all["devices"][0];
    assert!(failed["report_age_ms"].as_u64().is_some_and(|age| age < 600), "{failed}");
    assert!(failed["state_for_ms"].as_u64().is_some_and(|ms| ms >= 2_000), "{failed}");
    assert!(
        failed["reason"].as_str().is_some_and(|why| why.contains("does not answer its agent")),
        "{failed}"
    );
    for (i, policy) in POLICIES.into_iter().enumerate() {
        w.set_policy(policy);
        let first = 2000 + 100 * i as u16;
        let shares = w.shares(first..first + 60);
        assert!(!shares.contains_key(&2) && shares.contains_key(&4), "{policy}: {shares:?}");
    }
    // Without waiting for the controller: with its polls held up, a second device is excluded at once.
    w.set_policy(Policy::LeastConnections);
    w.hold = true;
    w.dead.insert(5);
    w.run_for(Duration::from_millis(600));
    let shares = w.shares(6000..6060);
    assert!(!shares.contains_key(&2) && !shares.contains_key(&5), "{shares:?}");
    w.hold = false;
    // When no device is left, all stay in service, and the status says so.
    let all: Vec<u16> = w.agents.iter().map(|(port, _)| *port).collect();
    w.dead.extend(all);
    w.run_for(Duration::from_secs(1));
    assert_eq!(silent(&mut w), json!(["inference"]));
    w.dead.clear();
    w.run_for(Duration::from_secs(2));
    assert_eq!(states(&mut w), ["in-service"; 4]);
    assert_eq!(silent(&mut w), json!([]));
    assert!(w.told.iter().any(|t| t.starts_with("device s1/cpu passes its health check again")));
    w.set_policy(Policy::Ecmp);
    assert_eq!(w.shares(7000..7060).len(), 4);
}

/// The number of the newest report that the switch accepted of this device.
fn newest(w: &mut World, device: DeviceNumber) -> u64 {
    let schema = Schema::new(&super::p4info(w.controller.rack())).expect("the balancer");
    let index = Some(p4rt::Index { index: device.bits().into() });
    let entry = p4rt::RegisterEntry { register_id: schema.report_sequence, index, data: None };
    let entity = p4rt::Entity { entity: Some(p4rt::entity::Entity::RegisterEntry(entry)) };
    let [p4rt::entity::Entity::RegisterEntry(answer)] = &w.read(entity)[..] else { panic!("one register") };
    match answer.data.as_ref().and_then(|d| d.data.as_ref()) {
        Some(p4rt::p4_data::Data::Bitstring(b)) => b.iter().fold(0, |n, b| n << 8 | u64::from(*b)),
        other => panic!("{other:?}"),
    }
}

/// Once it reported with a clock an hour ahead; then the clock was set right, and the agent started again.
#[test]
fn an_agent_whose_clock_was_ahead() {
    let mut w = World::new();
    w.run_for(Duration::from_secs(1));
    let device = DeviceNumber::new(1, 0);
    let hour = Duration::from_secs(3600);
    let mut ahead = Agent::new(w.agents[0].1.config().clone());
    let frames: Vec<Vec<u8>> = ahead
        .step(w.now + hour, agent::Input::Tick)
        .into_iter()
        .filter_map(|o| match o {
            agent::Output::Send { to, payload } => {
                let report = Packet::udp("10.0.1.11:9876", to.to_string(), payload);
                Some(report.macs(host_mac(2), [0x02, 0x50, 0x4d, 0, 0, 0x77]).bytes())
            }
            _ => None,
        })
        .collect();
    assert_eq!(frames.len(), 1);
    w.wire.extend(frames.iter().map(|f| (2, f.clone())));
    w.run_for(Duration::from_millis(1));
    let mark = newest(&mut w, device);
    assert!(mark as u128 & ((1 << 56) - 1) >= hour.as_micros(), "the switch accepted it");
    // The agent's own reports are refused, which is logged, until it knows the number to exceed.
    w.run_for(Duration::from_secs(2));
    let refused = "reports of s1/cpu arrive, but the switch refuses them: their numbers do not exceed";
    assert!(w.told.iter().any(|t| t.starts_with(refused)), "{:?}", w.told);
    assert!(w.told.iter().any(|t| t.contains("one that is 3599.")), "{:?}", w.told);
    assert_eq!(w.controller.unavailable().len(), 0, "{:?}", w.told);
    // No number is accepted twice: a recorded report is worthless.
    let before = newest(&mut w, device);
    assert!(before > mark);
    w.agents.clear();
    w.wire.extend(frames.into_iter().map(|f| (2, f)));
    w.run_for(Duration::from_millis(1));
    assert_eq!(newest(&mut w, device), before);
    // It is silent now, and reports arrive and are refused: the agent is notified again, in case it listens.
    w.run_for(Duration::from_secs(1));
    let (_, why) = w.controller.unavailable().into_iter().find(|(d, _)| *d == device).expect("it is silent");
    assert!(matches!(why, Unavailable::Refused(r) if r.is_replay()), "{why:?}");
    let (_, service) = w.api("GET", "/v1/services/inference", "");
    assert_eq!(service["devices"][0]["state"], "silent");
    assert!(service["devices"][0]["reason"].as_str().is_some_and(|r| r.contains("refused")), "{service}");
}
