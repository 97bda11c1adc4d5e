//! Every scheme in whole networks.

use super::network::{NETWORK, packets, requests, run};
use pointsman_fabric::SCHEMES;

fn with(scheme: &str, network: &str) -> String {
    format!("{network}[scheme]\nname = \"{scheme}\"\n")
}

fn names() -> impl Iterator<Item = &'static str> {
    SCHEMES.iter().map(|s| s.name)
}

#[test]
fn every_scheme_loses_nothing_and_uses_all_paths() {
    for scheme in names() {
        let outcome = run(&with(scheme, NETWORK), 1);
        let requests = requests(&outcome);
        assert!((11_000..13_000).contains(&requests.sent), "{scheme}: {requests:?}");
        assert_eq!((requests.lost, outcome.strays), (0, 0), "{scheme}");
        for port in 3..=5 {
            let sent = packets(&outcome, "leaf1", port);
            assert!(sent > requests.sent / 12, "{scheme}: {sent} packets on port {port}");
        }
        assert_eq!(run(&with(scheme, NETWORK), 1).json(), outcome.json(), "{scheme}");
    }
}

/// Requests are lost while the controller does not know of the cut link, and none after that.
#[test]
fn every_scheme_leaves_a_cut_link() {
    let event = |at: f64, action: &str| {
        format!("[[event]]\nat_s = {at}\naction = \"{action}\"\nlink = \"leaf1-spine1\"\n")
    };
    for scheme in names() {
        let cut = format!("{}{}", with(scheme, NETWORK), event(0.05, "link-down"));
        let lost = run(&cut, 1);
        // Of some 12,000, about 80 meet the cut link meanwhile; of flowlets by load, those that were on their way to it.
        assert!(requests(&lost).lost < 200, "{scheme}: {:?}", requests(&lost));
        let restored = run(&format!("{cut}{}", event(0.1, "link-up")), 1);
        assert!(requests(&restored).lost < 200, "{scheme}: {:?}", requests(&restored));
        let (before, after) = (packets(&lost, "leaf1", 3), packets(&restored, "leaf1", 3));
        assert!(2 * after > 3 * before, "{scheme}: {before} packets without, {after} with a restored link");
    }
}

/// Each of the two flows is one flowlet all the time. Both leave paths that are cut further on as soon as the controller knows of it.
#[test]
fn a_flow_without_gaps_leaves_a_cut_link() {
    let mut text = "name = \"test\"\nduration_s = 0.03\n\
        [network.leaf_spine]\nleaves = 2\nspines = 4\nhosts_per_leaf = 1\n\
        [traffic]\narrivals = { process = \"poisson\", rate_per_s = 200000 }\nflows = 1\n"
        .to_string();
    for spine in [1, 2] {
        text += &format!("[[event]]\nat_s = 0.01\naction = \"link-down\"\nlink = \"leaf1-spine{spine}\"\n");
    }
    for scheme in names() {
        let requests = requests(&run(&with(scheme, &text), 1));
        // A third of all if a flow stays where it is.
        assert!(requests.sent > 10_000 && requests.lost < requests.sent / 6, "{scheme}: {requests:?}");
    }
}

/// Switches leave out a port without a carrier by themselves, also HULA's probes: the controller acts after the end.
#[test]
fn nothing_goes_to_a_dead_port() {
    let network = NETWORK.replace("duration_s = 0.2", "duration_s = 0.06");
    let cut = "[control]\ndelay_us = 50000\n\
        [[event]]\nat_s = 0.03\naction = \"link-down\"\nlink = \"leaf1-spine1\"\n";
    for scheme in names() {
        let outcome = run(&format!("{}{cut}", with(scheme, &network)), 1);
        let frames = outcome.on_links.down;
        assert!(frames < 10, "{scheme}: {frames} frames into the cut link");
    }
}

/// Flows between two leaves over two spines; the second leaf loses its link to the first spine while no controller hears of it. `settings`: of the
/// scheme.
fn unheard_cut(scheme: &str, settings: &str) -> (u64, u64, u64) {
    let text = format!(
        "name = \"test\"\nduration_s = 0.02\npatience_s = 2\n[network.leaf_spine]\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
         [flows]\nsize = [{{ bytes = 20_000, weight = 3 }}, {{ bytes = 400_000, weight = 1 }}]\n\
         arrivals = {{ process = \"poisson\", load = 0.3, load_of = \"uplinks\" }}\n\
         [scheme]\nname = \"{scheme}\"\n{settings}[control]\ndelay_us = 3e5\ndetection_us = 1e7\n\
         [[event]]\nat_s = 0.005\naction = \"link-down\"\nlink = \"leaf2-spine1\"\n"
    );
    let outcome = run(&text, 1);
    let flows = &outcome.fabric.as_ref().expect("flows").flows;
    (flows.started, flows.finished, outcome.on_links.down)
}

/// A switch without a way for a packet sends a notice to the one before it, or flows find another way by themselves.
#[test]
fn no_flow_starves_without_a_controller() {
    for scheme in names() {
        let (started, finished, into_the_cut) = unheard_cut(scheme, "");
        println!("{scheme}: {finished} of {started} flows, {into_the_cut} frames into the cut link");
        assert!(started > 50 && finished == started, "{scheme}: {finished} of {started}");
        assert!(into_the_cut < 200, "{scheme}: {into_the_cut} frames into the cut link");
    }
    // Without notices they do, and no checker expects more: the controller does not know.
    let (started, finished, _) = unheard_cut("ecmp", "hold_us = 0\n");
    assert!(finished < started, "{finished} of {started}");
}

#[test]
fn every_scheme_takes_three_tiers() {
    for scheme in names() {
        let network =
            NETWORK.replace("leaf_spine]\nleaves = 3\nspines = 3\nhosts_per_leaf = 2", "fat_tree]\nk = 4");
        let outcome = run(&with(scheme, &network), 1);
        assert_eq!((requests(&outcome).lost, outcome.strays), (0, 0), "{scheme}");
        for (switch, port) in
            [("leaf1", 3), ("leaf1", 4), ("agg1", 3), ("agg1", 4), ("core1", 2), ("core4", 3)]
        {
            let sent = packets(&outcome, switch, port);
            assert!(sent > 300, "{scheme}: {sent} packets on {switch}:{port}");
        }
    }
}

/// Two spines; the links of the first one have a tenth of the rate.
fn slow_spine() -> String {
    let mut text = String::from("name = \"test\"\nduration_s = 0.1\n[network]\n");
    ["leaf1", "leaf2", "spine1", "spine2"]
        .iter()
        .for_each(|s| text += &format!("[[network.switch]]\nname = \"{s}\"\n"));
    for n in 0..4 {
        let (leaf, port) = (n / 2 + 1, n % 2 + 1);
        text += &format!("[[network.host]]\nname = \"h{n}\"\naddress = \"10.0.{leaf}.{}\"\n", port + 1);
        text += &format!("[[network.link]]\nends = [\"h{n}\", \"leaf{leaf}:{port}\"]\n");
    }
    for leaf in 1..=2 {
        for spine in 1..=2 {
            let rate = if spine == 1 { 1 } else { 10 };
            let ends = format!("[\"leaf{leaf}:{}\", \"spine{spine}:{leaf}\"]", spine + 2);
            text += &format!("[[network.link]]\nends = {ends}\nrate_gbit_s = {rate}\n");
        }
    }
    text + "[traffic]\narrivals = { process = \"poisson\", rate_per_s = 80000 }\nflows = 512\n\
        request_bytes = 1400\nanswer_bytes = 1400\n"
}

/// The share of leaf1's bytes for other switches that takes the slow spine, and of requests that are lost, in percent.
fn slow_share(scheme: &str) -> (f64, f64) {
    let outcome = run(&with(scheme, &slow_spine()), 1);
    let bytes = |port: u16| {
        let (_, ports) = outcome.switches.iter().find(|(name, _)| name == "leaf1").expect("a switch");
        ports.iter().find(|(p, _)| *p == port).expect("a port").1.bytes as f64
    };
    let (slow, fast) = (bytes(3), bytes(4));
    let requests = requests(&outcome);
    let shares =
        (100.0 * slow / (slow + fast), 100.0 * (requests.lost + requests.late) as f64 / requests.sent as f64);
    println!("{scheme}: {shares:.1?} %, {:?}", outcome.latency);
    shares
}

/// Of 320,000 requests a second two thirds are between leaves: 2.5 Gbit/s each way, with their answers. Half of it is more than the slow
/// spine's 1 Gbit/s.
#[test]
fn who_sees_the_load_avoids_the_slow_spine() {
    for scheme in ["ecmp", "letflow", "spray"] {
        let (share, lost) = slow_share(scheme);
        assert!((45.0..55.0).contains(&share) && lost > 3.0, "{scheme}: {share}, {lost}");
    }
    for scheme in ["hula", "conga", "ours"] {
        let (share, lost) = slow_share(scheme);
        assert!(share < 35.0 && lost == 0.0, "{scheme}: {share}, {lost}");
    }
}

/// Short flows meet three long ones on their way to one host. Sent first, they do not wait behind these.
#[test]
fn the_first_bytes_of_flows_are_sent_first() {
    let slowdown = |class_kib: u32| {
        let text = format!(
            "name = \"test\"\nduration_s = 0.02\n[network.leaf_spine]\nleaves = 3\nspines = 2\nhosts_per_leaf = 2\n[flows]\nsize = [{{ bytes = 20_000, weight = 15 }}, {{ bytes = 4_000_000, weight = 1 }}]\n\
             pattern = \"incast\"\nsenders = 4\ncount = 64\narrivals = {{ process = \"poisson\", load = 0.5 }}\n\
             [scheme]\nname = \"ours\"\necn_kib = 100\nclass_kib = {class_kib}\n"
        );
        let outcome = run(&text, 1);
        let flows = &outcome.fabric.as_ref().expect("flows").flows;
        assert_eq!((flows.finished, outcome.violations.total()), (flows.started, 0));
        flows.classes[0].slowdown_p99
    };
    let (one, two) = (slowdown(0), slowdown(64));
    assert!(two < 0.5 * one, "{two} with two classes, {one} with one");
}
