//! Flows over TCP through networks of switches.

use super::network::{plane, points, read, run};
use pointsman_fabric::Choice;
use pointsman_sim::check::Law;
use pointsman_sim::network::{self, Class, ClassResults, FlowResults, NetworkOutcome};

/// Leaves and spines at 1 Gbit/s, and flows as these lines say.
fn scenario(leaves: u32, hosts: u32, flows: &str) -> String {
    format!(
        "name = \"test\"\nduration_s = 0.1\npatience_s = 5\n[network]\n\
         line = {{ rate_gbit_s = 1, delay_us = 5, queue_kib = 128 }}\n\
         leaf_spine = {{ leaves = {leaves}, spines = 2, hosts_per_leaf = {hosts} }}\n[flows]\n{flows}"
    )
}

fn flows(outcome: &NetworkOutcome) -> &FlowResults {
    &outcome.fabric.as_ref().expect("flows").flows
}

fn class(outcome: &NetworkOutcome, wanted: Class) -> &ClassResults {
    flows(outcome).classes.iter().find(|c| c.class == wanted).expect("a class")
}

/// Runs it; all flows have to finish.
fn finished(text: &str) -> NetworkOutcome {
    let outcome = run(text, 1);
    let f = flows(&outcome);
    assert!(f.started > 0 && f.started == f.finished && outcome.strays == 0, "{}", outcome.json());
    outcome
}

/// The largest transfer time, in milliseconds, and the slowdown's mean.
fn times(outcome: &NetworkOutcome) -> (f64, f64) {
    let all = class(outcome, Class::All);
    (all.times.max_ms, all.slowdown_mean)
}

const AT_ONCE: &str = "arrivals = { process = \"at-once\" }\n";

/// It takes what the formula says, which knows neither slow start nor acknowledgments.
#[test]
fn a_flow_alone() {
    for algorithm in ["reno", "cubic", "dctcp"] {
        // By hand: two trips of a SYN over four lines and three switches, then the packets at the rate of the line.
        for (bytes, ideal_ms) in [(1_460, 0.11948), (10_000_000, 84.39)] {
            let text = format!(
                "size = [{{ bytes = {bytes} }}]\npattern = \"incast\"\nsenders = 1\n{AT_ONCE}\
                 [flows.tcp]\nalgorithm = \"{algorithm}\"\n"
            );
            let (ms, slowdown) = times(&finished(&scenario(2, 1, &text)));
            assert!((0.999..1.02).contains(&slowdown), "{algorithm}, {bytes} bytes: {slowdown}");
            assert!((ms / ideal_ms - 1.0).abs() < 0.01, "{algorithm}, {bytes} bytes: {ms} ms");
        }
    }
}

/// A SYN is as long as its options: a byte alone takes what is ideal, whatever both ends agree on.
#[test]
fn a_byte_alone() {
    for (sack, timestamps) in [(true, true), (true, false), (false, true), (false, false)] {
        let text = format!(
            "size = [{{ bytes = 1 }}]\npattern = \"incast\"\nsenders = 1\n{AT_ONCE}\
             [flows.tcp]\nsack = {sack}\ntimestamps = {timestamps}\n"
        );
        let (_, slowdown) = times(&finished(&scenario(2, 1, &text)));
        assert!((1.0..1.000_001).contains(&slowdown), "{sack} {timestamps}: {slowdown}");
    }
}

/// Links that are down when the hosts begin, and links that go down twice: that is one cut each, and all frames sent into it count.
#[test]
fn cuts_are_counted_once() {
    let event = |at: f64, action: &str| {
        format!("[[event]]\nat_s = {at}\naction = \"link-{action}\"\nlink = \"h1-leaf1\"\n")
    };
    let flows = "size = [{ bytes = 1_000_000 }]\npattern = \"permutation\"\n\
                 arrivals = { process = \"at-once\", at_s = [0, 0.03, 0.06] }\n";
    for (first, most) in [(0.0, 0), (0.002, 5_000_000)] {
        let events = [event(first, "down"), event(0.025, "down"), event(0.05, "up")].concat();
        let outcome = finished(&format!("{}{events}", scenario(2, 2, flows)));
        let timeline = &outcome.fabric.as_ref().expect("flows").timeline;
        let [cut] = &timeline.cuts[..] else { panic!("{timeline:?}") };
        assert_eq!((cut.link.as_str(), cut.at), ("h1-leaf1", (first * 1e9) as u64));
        assert!(cut.frames > 0 || first == 0.0, "{timeline:?}");
        assert!(cut.until <= 50_000_000 && (most == 0 || cut.until > most), "{timeline:?}");
        assert_eq!(timeline.into_cuts.iter().sum::<u64>(), cut.frames, "{timeline:?}");
    }
}

/// Two flows over one link between switches take twice as long as one, both.
#[test]
fn two_flows_share_a_link() {
    for tcp in ["", "[flows.tcp]\nburst = 8\ntimestamps = true\n", "[flows.tcp]\nalgorithm = \"cubic\"\n"] {
        let text =
            format!("size = [{{ bytes = 5_000_000 }}]\npattern = \"stride\"\ncount = 2\n{AT_ONCE}{tcp}");
        let text =
            scenario(2, 2, &text).replace("spines = 2", "spines = 1, host_link = { rate_gbit_s = 10 }");
        let outcome = finished(&text);
        let all = class(&outcome, Class::All);
        assert!((0.97..1.1).contains(&(all.times.max_ms / 84.4)), "{tcp}: {all:?}");
        assert!(all.times.p50_ms / all.times.max_ms > 0.7, "{tcp}: {all:?}");
    }
}

/// Connections of one host take turns: the short flow does not wait for the long one.
#[test]
fn connections_of_a_host_take_turns() {
    let text = format!(
        "size = [{{ bytes = 5_000_000 }}, {{ bytes = 50_000, weight = 3 }}]\nlarge_above_bytes = 1_000_000\n\
         pattern = \"incast\"\nsenders = 1\nreceivers = 2\ncount = 4\n{AT_ONCE}"
    );
    let outcome = finished(&scenario(2, 2, &text));
    let (short, large) = (class(&outcome, Class::Short), class(&outcome, Class::Large));
    assert!(short.times.max_ms < 4.0 && large.times.max_ms < 46.0, "{short:?} {large:?}");
}

#[test]
fn losses_are_repaired() {
    let text = "size = [{ bytes = 300_000 }]\npattern = \"permutation\"\ncount = 40\n\
                arrivals = { process = \"poisson\", load = 0.3 }\n";
    let scenario =
        |sack: &str| scenario(3, 4, &format!("{text}{sack}")).replace("queue_kib = 128", "queue_kib = 4096");
    for sack in ["", "[flows.tcp]\nsack = false\n"] {
        let good = finished(&scenario(sack));
        let bad = finished(&scenario(sack).replace("queue_kib", "loss = 0.005, queue_kib"));
        assert_eq!(class(&good, Class::All).retransmitted, 0);
        let lost = bad.on_links.lost;
        let again = class(&bad, Class::All).retransmitted;
        assert!(lost > 50 && again > lost / 2 && again < 3 * lost, "{lost} lost, {again} sent again");
        assert!(times(&bad).1 > times(&good).1);
    }
}

/// The published one: 32 flows of 12 hosts to one host. All of it goes through one link.
#[test]
fn incast() {
    let text = format!(
        "size = [{{ bytes = 524_288, weight = 24 }}, {{ bytes = 1_048_576, weight = 8 }}]\n\
         large_above_bytes = 600_000\npattern = \"incast\"\nsenders = 12\ncount = 32\n{AT_ONCE}"
    );
    let outcome = finished(&scenario(4, 4, &text));
    assert_eq!((class(&outcome, Class::Short).n, class(&outcome, Class::Large).n), (24, 8));
    let bytes = 24.0 * 524_288.0 + 8.0 * 1_048_576.0;
    let least = bytes * 8.0 / 1e6 * 1538.0 / 1460.0;
    let (ms, _) = times(&outcome);
    assert!((1.0..1.5).contains(&(ms / least)), "{ms} ms, at least {least}");
    assert!(class(&outcome, Class::All).retransmitted > 0, "{}", outcome.json());
}

#[test]
fn equal_seeds_give_equal_results() {
    let text = scenario(
        3,
        3,
        "sizes = \"web-search\"\ncount = 20\narrivals = { process = \"poisson\", load = 0.9, load_of = \"uplinks\" }\n",
    );
    let (one, again, other) = (run(&text, 1), run(&text, 1), run(&text, 2));
    assert_eq!(one.json(), again.json());
    assert_ne!(flows(&one), flows(&other));
    let json: serde_json::Value = serde_json::from_str(&one.json()).expect("JSON");
    assert_eq!(json["fabric"]["scheme"], "ecmp");
    assert_eq!(json["fabric"]["flows"]["started"], 20);
    assert_eq!(json["fabric"]["fct"][2]["n"], 20);
    assert_eq!(json["fabric"]["uplinks"].as_array().map(Vec::len), Some(6));
    assert!(json["requests"].is_null());
}

/// A flow that cannot finish counts with the time until the end.
#[test]
fn unfinished_flows_count() {
    let text = format!("size = [{{ bytes = 1_000_000 }}]\npattern = \"stride\"\n{AT_ONCE}");
    let cut = "[[event]]\nat_s = 0.001\naction = \"link-down\"\nlink = \"h1-leaf1\"\n";
    let outcome = run(&format!("{}{cut}", scenario(2, 2, &text)), 1);
    let f = flows(&outcome);
    // It sends a flow, and receives one.
    assert_eq!((f.started, f.finished), (4, 2));
    let all = class(&outcome, Class::All);
    assert!((all.times.max_ms - 5000.0).abs() < 0.01 && f.longest_stall_ms > 4990.0, "{all:?} {f:?}");
    assert_eq!(class(&outcome, Class::Short).n, 4);
}

#[test]
fn bad_scenarios() {
    let good =
        "size = [{ bytes = 1000 }]\npattern = \"random\"\narrivals = { process = \"poisson\", load = 0.5 }\n";
    assert_eq!(read(&scenario(2, 2, good)).map(|_| ()), Ok(()));
    for (from, to, message) in [
        ("size = [{ bytes = 1000 }]", "", "7:1: flows.sizes: missing: write how long flows are"),
        ("size = [", "sizes = \"web-search\"\nsize = [", "flows.size: write one of these"),
        (
            "size = [{ bytes = 1000 }]",
            "sizes = \"web\"",
            "flows.sizes: `web` is unknown: write one of \"web-search\"",
        ),
        ("bytes = 1000", "bytes = 0", "flows.size.bytes: 0 is out of range"),
        ("bytes = 1000", "weight = 1", "flows.size.bytes: missing"),
        ("bytes = 1000", "bytes = 1, weight = 1000000}, {bytes = 2", "flows.size: the sum of all weights"),
        ("size = [{ bytes = 1000 }]", "cdf = [[10, 0.5], [5, 1]]", "flows.cdf: write pairs of bytes"),
        ("size = [{ bytes = 1000 }]", "cdf = [[10, 0.5], [50, 0.9]]", "flows.cdf: write pairs of bytes"),
        ("\"random\"", "\"any\"", "flows.pattern: `any` is unknown"),
        ("\"random\"", "\"incast\"", "flows.senders: missing"),
        (
            "\"random\"",
            "\"incast\"\nsenders = 4",
            "flows.pattern: 4 senders and 1 receivers are more than the 4 hosts",
        ),
        ("\"random\"", "\"stride\"\nstride = [2, 2]", "flows.pattern: a host would send to itself"),
        ("\"random\"", "\"stride\"\nstride = [1.5, 2]", "flows.stride: write two whole numbers"),
        ("load = 0.5", "load = 0", "flows.arrivals.load: the number 0: write a number from 0.001 to 2"),
        ("load = 0.5", "rate = 1", "flows.arrivals.load: missing"),
        ("load = 0.5", "load = 0.5, load_of = \"x\"", "flows.arrivals.load_of: `x` is unknown"),
        ("\"poisson\", load = 0.5", "\"at-once\", at_s = []", "flows.arrivals.at_s: write one time or more"),
        ("duration_s = 0.1", "duration_s = 1e6", "GiB of memory"),
        (
            "random\"",
            "random\"
across_leaves = true",
            "there are not enough hosts under other leaves",
        ),
        (
            "[flows]",
            "[traffic]\narrivals = { process = \"poisson\", rate_per_s = 1 }\n[flows]",
            "flows: hosts send requests or flows",
        ),
    ] {
        let leaves = if to.contains("across") { 1 } else { 2 };
        let error = read(&scenario(leaves, 2, good).replace(from, to)).expect_err(message);
        assert!(error.contains(message), "{message}: {error}");
    }
    // Flows that have started need up to 5 s more.
    let late = |at_s: f64| {
        let event = format!("[[event]]\nat_s = {at_s}\naction = \"link-down\"\nlink = \"h1-leaf1\"\n");
        read(&format!("{}{event}", scenario(2, 2, good))).map(|_| ())
    };
    assert_eq!(late(5.0), Ok(()));
    let message = "event.at_s: 5.1 s is not before the end, 5.1 s (`duration_s` and `patience_s`)";
    assert!(late(5.1).is_err_and(|e| e.contains(message)), "{:?}", late(5.1));
    for (tcp, message) in [
        ("algorithm = \"bbr\"", "flows.tcp.algorithm: `bbr` is unknown"),
        ("mss = 20", "flows.tcp.mss: 20 is out of range"),
        ("min_rto_ms = 0.1", "flows.tcp.ack_delay_ms: `ack_delay_ms` must be below `min_rto_ms`"),
        ("burst = 64", "flows.tcp.burst: two trains of 64 packets take"),
        ("mtu = 1500", "flows.tcp.mtu: unknown field"),
    ] {
        let error = read(&scenario(2, 2, &format!("{good}[flows.tcp]\n{tcp}\n"))).expect_err(message);
        assert!(error.contains(message), "{message}: {error}");
    }
}

/// What another pattern has, and classes that are none.
#[test]
fn settings_that_mean_nothing() {
    let good =
        "size = [{ bytes = 1000 }]\npattern = \"random\"\narrivals = { process = \"poisson\", load = 0.5 }\n";
    for (from, to, message) in [
        (
            "\"random\"",
            "\"random\"\nsenders = 3",
            "10:11: flows.senders: only the pattern \"incast\" has this",
        ),
        ("pattern = \"random\"", "receivers = 3", "flows.receivers: only the pattern \"incast\" has this"),
        (
            "\"random\"",
            "\"permutation\"\nstride = [1, 1]",
            "flows.stride: only the pattern \"stride\" has this",
        ),
        (
            "\"random\"",
            "\"incast\"\nsenders = 1\nstride = [1, 1]",
            "flows.stride: only the pattern \"stride\" has this: remove it, or write pattern = \"stride\"",
        ),
        (
            "\"random\"",
            "\"random\"\ndscp_short = 8",
            "10:14: flows.dscp_short: short and large flows both have 8",
        ),
        (
            "\"random\"",
            "\"random\"\ndscp_large = 0",
            "10:14: flows.dscp_large: short and large flows both have 0",
        ),
        (
            "\"random\"",
            "\"random\"\ndscp_short = 9\ndscp_large = 9",
            "flows.dscp_short: short and large flows both have 9: write two different numbers",
        ),
    ] {
        let error = read(&scenario(2, 2, good).replace(from, to)).expect_err(message);
        assert!(error.contains(message), "{message}: {error}");
    }
}

/// What each part allows, and all together do not.
#[test]
fn parts_that_do_not_fit_each_other() {
    let good = "size = [{ bytes = 1000 }]\narrivals = { process = \"poisson\", load = 0.5 }\n";
    let event =
        |at: f64| format!("[[event]]\nat_s = {at}\naction = \"link-down\"\nlink = \"leaf1-spine1\"\n");
    let sweep = "[sweep]\nscheme = [\"ecmp\", { name = \"p4te\", large_dscp = 9 }]\n";
    let at_once = good.replace("\"poisson\", load = 0.5", "\"at-once\", at_s = [0.2, 0.1]");
    let scheme = |rest: &str| format!("{good}[scheme]\nname = {rest}\n");
    for (flows, message) in [
        (format!("{good}{}", event(5.0)), None),
        (
            format!("{good}{}", event(5.1)),
            Some("11:8: event.at_s: 5.1 s is not before the end, 5.1 s (`duration_s` and `patience_s`)"),
        ),
        (format!("{at_once}{}", event(5.199)), None),
        (format!("{at_once}{}", event(5.2)), Some("event.at_s: 5.2 s is not before the end, 5.2 s")),
        (scheme("\"p4te\""), None),
        (
            scheme("\"p4te\"\nlarge_dscp = 9"),
            Some(
                "flows.dscp_large: large flows have 8, and `large_dscp` of the scheme `p4te` is 9: write the same number in both",
            ),
        ),
        (format!("{good}dscp_large = 9\n[scheme]\nname = \"p4te\"\nlarge_dscp = 9\n"), None),
        (
            format!("{good}dscp_large = 9\n{}", &sweep.replace("9", "8")),
            Some("10:14: flows.dscp_large: large flows have 9"),
        ),
        (format!("{good}{sweep}"), Some("flows.dscp_large: large flows have 8")),
    ] {
        let found = read(&scenario(2, 2, &flows)).map(|_| ());
        match message {
            None => assert_eq!(found, Ok(()), "{flows}"),
            Some(message) => {
                let error = found.expect_err(message);
                assert!(error.contains(message), "{message}: {error}");
            }
        }
    }
}

/// A packet fits every queue, in as many parts as the scheme has.
#[test]
fn queues_shorter_than_a_packet() {
    let text = |kib: f64, scheme: &str| {
        let flows = format!(
            "size = [{{ bytes = 1000 }}]\narrivals = {{ process = \"poisson\", load = 0.5 }}\n[scheme]\nname = \"{scheme}\"\n"
        );
        let links = format!("spines = 2, fabric_link = {{ queue_kib = {kib} }}");
        scenario(2, 2, &flows).replace("spines = 2", &links)
    };
    for (kib, scheme, message) in [
        (1.5, "ecmp", None),
        (
            1.4,
            "ecmp",
            Some(
                "4:1: network: the queue of leaf1-spine1 has 1433 bytes, and a packet takes 1514: write a larger `queue_kib`",
            ),
        ),
        (3.0, "ours", None),
        (2.9, "ours", Some("the queue of leaf1-spine1 has 2969 bytes in 2 parts")),
    ] {
        let found = read(&text(kib, scheme)).map(|_| ());
        match message {
            None => assert_eq!(found, Ok(()), "{kib} {scheme}"),
            Some(message) => assert!(found.as_ref().is_err_and(|e| e.contains(message)), "{found:?}"),
        }
    }
}

/// Each pair of a scheme and a load is a scenario of its own; equal flows go through different schemes.
#[test]
fn sweeps() {
    let flows = "sizes = \"web-search\"\narrivals = { process = \"poisson\", load = 0.1 }\n";
    let sweep = "[sweep]\nscheme = [\"ecmp\", { name = \"ecmp\", ecn_kib = 30 }]\nload = [0.2, 0.4]\n";
    let found = points(&format!("{}{sweep}", scenario(2, 2, flows))).unwrap_or_else(|e| panic!("{e}"));
    let texts: Vec<String> = found.iter().map(|s| s.point_text()).collect();
    let wanted = ["load=0.2 scheme=ecmp", "load=0.4 scheme=ecmp"];
    let marking = ["ecn_kib=30 load=0.2 scheme=ecmp", "ecn_kib=30 load=0.4 scheme=ecmp"];
    assert_eq!(texts, [wanted, marking].concat());
    assert_eq!(found[0].work, found[2].work);
    assert_ne!(found[0].fingerprint(b""), found[1].fingerprint(b""));
    assert_ne!(found[0].fingerprint(b""), found[2].fingerprint(b""));
    for (bad, message) in [
        ("[sweep]\nscheme = [\"ecmp\", \"ecmp\"]\n", "sweep.scheme: this value is in the list twice"),
        ("[sweep]\nload = [0.2, 0.20]\n", "sweep.load: this value is in the list twice"),
        (
            "[sweep]\nscheme = [\"emcp\"]\n",
            "sweep.scheme: unknown scheme `emcp`: write the name of a scheme: ecmp, letflow, spray, hula",
        ),
        (
            "[sweep]\nscheme = []\nload = [0.2]\n",
            "11:10: sweep.scheme: write one scheme or more, or omit this",
        ),
        ("[sweep]\nload = []\n", "sweep.load: write one load or more, or omit this"),
        ("[sweep]\nload = [0]\n", "sweep.load: the number 0"),
        ("[scheme]\nname = \"ecmp\"\n[sweep]\nscheme = [\"ecmp\"]\n", "scheme: [sweep] has schemes"),
    ] {
        let error = points(&format!("{}{bad}", scenario(2, 2, flows))).expect_err(message);
        assert!(error.contains(message), "{message}: {error}");
    }
    let at_once = flows.replace("\"poisson\", load = 0.1", "\"at-once\"");
    let error = points(&format!("{}[sweep]\nload = [0.1]\n", scenario(2, 2, &at_once))).expect_err("no load");
    assert!(error.contains("sweep.load: there are no flows that start at a load"), "{error}");
}

/// Switches that know no way for what is for the first host: its flows starve, those that it sends and the one that it receives.
#[test]
fn a_black_hole_is_found() {
    let ecmp = Choice::named("ecmp").expect("a scheme").scheme;
    let route = "routes_v4.apply();";
    assert_eq!(ecmp.program.matches(route).count(), 1);
    let hole = ecmp.program.replace(route, &format!("if (hdr.ipv4.dst != 0x0a000402) {{ {route} }}"));
    for cut in ["", "leaf1-spine1", "h1-leaf1"] {
        let mut text =
            scenario(2, 2, &format!("size = [{{ bytes = 20_000 }}]\npattern = \"stride\"\n{AT_ONCE}"));
        if !cut.is_empty() {
            text += &format!("[[event]]\nat_s = 0\naction = \"link-down\"\nlink = \"{cut}\"\n");
        }
        let scenario = read(&text).unwrap_or_else(|e| panic!("{e}"));
        let outcome = network::run(&scenario, &*plane(&hole), 1).unwrap_or_else(|e| panic!("{e}"));
        let found: Vec<(Law, u64)> = outcome.violations.counts.iter().map(|(law, n)| (*law, *n)).collect();
        // Without its link, nothing else could be expected.
        let expected = if cut == "h1-leaf1" { vec![] } else { vec![(Law::Starvation, 2)] };
        assert_eq!(found, expected, "{cut}: {:?}", outcome.violations);
        assert_eq!((flows(&outcome).started, flows(&outcome).finished), (4, 2));
    }
}

/// Queues that mark keep themselves short: DCTCP then loses nothing where it lost much.
#[test]
fn marks_instead_of_losses() {
    let text = format!(
        "size = [{{ bytes = 2_000_000 }}]\npattern = \"incast\"\nsenders = 4\n{AT_ONCE}\
         [scheme]\nname = \"ecmp\"\necn_kib = 30\n"
    );
    let marked = finished(&scenario(5, 1, &text));
    let all = class(&marked, Class::All);
    assert_eq!((all.retransmitted, marked.drops.len()), (0, 0), "{}", marked.json());
    // Four flows of 16.9 ms each share a link evenly.
    assert!((66.0..70.0).contains(&all.times.max_ms) && all.times.p50_ms > 60.0, "{all:?}");
}
