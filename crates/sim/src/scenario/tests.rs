use super::*;
use std::error::Error;

const GOOD: &str = r#"
name = "x"
duration_s = 10
[rack]
servers = 2
policy = "wrr"
[[device]]
name = "cpu"
kind = "cpu"
service_time = { distribution = "exponential", mean_ms = 1 }
[[device]]
name = "nic"
kind = "smartnic"
service_time = { distribution = "log-normal", mean_ms = 1, sigma = 0.3 }
[[client]]
arrivals = { process = "poisson", rate_per_s = 100 }
[[event]]
at_s = 5
action = "fail"
device = ["s1/nic", "s2"]
"#;

fn load(name: &str) -> Result<String, Box<dyn Error>> {
    match name {
        "times.csv" => Ok("time_s,other\n0,1\n0.5,2\n".into()),
        "falling.csv" => Ok("time_s\n1\n0.5\n".into()),
        "words.csv" => Ok("time_s\n1\ntwo\n".into()),
        "rack.toml" => Ok(include_str!("../../../../examples/rack.toml").into()),
        _ => Err(format!("cannot read {name}: no such file").into()),
    }
}

fn parse(text: &str) -> Result<Vec<Scenario>, String> {
    read("x.toml", text, &load).map_err(|e| e.to_string())
}

fn good(text: &str) -> Vec<Scenario> {
    parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// The good scenario with `from` replaced by `to` is refused, with this text somewhere in the message.
fn check(from: &str, to: &str, message: &str) {
    assert!(GOOD.contains(from), "{from}");
    let got = parse(&GOOD.replacen(from, to, 1)).map_or_else(|e| e, |_| "nothing is wrong".into());
    assert!(got.contains(message), "{to}: {got}");
}

#[test]
fn defaults() {
    let all = good(GOOD);
    let [s] = all.as_slice() else { panic!("one point, not {}", all.len()) };
    assert_eq!((s.devices.len(), s.clients.len(), s.seed, s.duration_ns), (4, 1, 1, 10_000_000_000));
    assert_eq!(s.events[0].action, Action::Fail(vec![1, 2, 3]));
    assert_eq!(s.rack.services[0].policy, Policy::Wrr);
    assert!(s.agents.enabled && s.detection_ns().is_some());
    assert_ne!(s.fingerprint(b""), s.fingerprint(b"x"));
}

#[test]
fn sweeps() {
    let all = good(
        &format!("{GOOD}[sweep]\nservers = [1, 3]\nrate_per_s = [10, 20.5]\npolicy = [\"ecmp\"]\n")
            .replace("\"s2\"", "\"s1\""),
    );
    let points: Vec<String> = all.iter().map(Scenario::point_text).collect();
    assert_eq!(points[0], "policy=ecmp rate_per_s=10 servers=1");
    assert_eq!((points.len(), all[3].devices.len()), (4, 6));
    assert_eq!(all[1].clients[0].arrivals, ArrivalModel::Poisson { rate_per_s: 20.5 });
}

/// Equal points would pass for independent simulations.
#[test]
fn values_of_a_sweep_are_different() {
    let learn = "[learn]\nlearner = \"fixed\"\n";
    for (field, list) in [
        ("servers", "[2, 3, 2.0]"),
        ("rate_per_s", "[100, 100.0]"),
        ("policy", "[\"wrr\", \"wrr\"]"),
        ("learner", "[\"fixed\", \"thompson\", \"fixed\"]"),
    ] {
        let error = parse(&format!("{GOOD}{learn}[sweep]\n{field} = {list}\n")).map(|_| ()).expect_err(list);
        let line = GOOD.lines().count() + 4;
        let wanted = format!("sweep.{field}: this value is in the list twice: remove one");
        assert!(error.starts_with(&format!("x.toml:{line}:")) && error.contains(&wanted), "{error}");
        assert_eq!(error.matches("twice").count(), 1, "{error}");
    }
}

/// Servers with equal devices are of one class, wherever the rack comes from.
#[test]
fn classes() {
    let text = format!("{GOOD}[[class]]\nname = \"old\"\nservers = 1\ncpu_speed = 0.5\n");
    let s = &good(&text)[0];
    assert_eq!((s.class_of.as_slice(), s.class_names.len()), ([0, 1].as_slice(), 2));
    assert_eq!((s.class_names[0].as_str(), s.class_names[1].as_str()), ("old", "like-s2"));
    assert_eq!((s.devices[0].speed, s.devices[1].speed, s.devices[2].speed), (0.5, 1.0, 1.0));
    let alike = &good(GOOD)[0];
    assert_eq!(
        (alike.class_of.as_slice(), alike.class_names.as_slice()),
        ([0, 0].as_slice(), [String::new()].as_slice())
    );
}

#[test]
fn files() {
    let trace =
        GOOD.replace("process = \"poisson\", rate_per_s = 100", "process = \"trace\", file = \"times.csv\"");
    assert_eq!(
        good(&trace)[0].clients[0].arrivals,
        ArrivalModel::Trace { times_ns: [0, 500_000_000].into() }
    );
    let rack = GOOD
        .replace("servers = 2", "file = \"rack.toml\"")
        .replace("kind = \"cpu\"", "")
        .replace("kind = \"smartnic\"", "");
    let s = &good(&rack)[0];
    assert_eq!((s.devices.len(), s.clients[0].port), (4, 1));
    assert_eq!(s.clients[0].address.to_string(), "10.0.0.2");
    // Up to the VIP, 10.0.0.100.
    assert_eq!(s.clients[0].addresses, 98);
}

#[test]
fn refuses() {
    for (from, to, message) in [
        ("servers = 2", "servers = 0", "x.toml:5:11: rack.servers: 0 is out of range"),
        ("servers = 2", "servers = 9000", "out of range"),
        ("servers = 2", "file = \"none.toml\"", "cannot read none.toml"),
        ("servers = 2", "", "rack.servers: missing"),
        ("\"wrr\"", "\"best\"", "unknown policy `best`"),
        ("\"wrr\"", "\"chosen\"", "no source for the chosen device"),
        (
            "duration_s = 10",
            "duration_s = 10\nprometheus = { scrape_s = 5, window_s = 1 }",
            "shorter than `scrape_s`",
        ),
        ("policy = \"wrr\"", "", "\"jsq\""),
        (
            "action = \"fail\"\ndevice = [\"s1/nic\", \"s2\"]",
            "action = \"policy\"\npolicy = \"probe-wrr\"",
            "probes",
        ),
        (
            "policy = \"wrr\"\n[[device]]\nname = \"cpu\"\nkind = \"cpu\"",
            "policy = \"wrr\"\n[[event]]\nat_s = 1\naction = \"policy\"\npolicy = \"server-only\"\n\
             [[device]]\nname = \"cpu\"\nkind = \"gpu\"",
            "event.policy: service `service`: server-only needs",
        ),
        ("duration_s = 10", "duration_s = 0", "write a number from"),
        ("duration_s = 10", "duration_s = -1", "write a number from"),
        ("duration_s = 10", "duration_s = inf", "write a number from"),
        ("duration_s = 10", "duration_s = nan", "write a number from"),
        ("duration_s = 10", "", "duration_s: missing"),
        ("duration_s = 10", "duration_s = 10\nwarmup_s = 10", "must be shorter"),
        ("duration_s = 10", "duration_s = 1e7", "would need"),
        ("rate_per_s = 100", "rate_per_s = 0", "write a number from"),
        ("rate_per_s = 100", "rate_per_s = 1e11", "GiB of memory"),
        (
            "process = \"poisson\", rate_per_s = 100",
            "process = \"mmpp\", state = []",
            "at least one rate above 0",
        ),
        (
            "process = \"poisson\", rate_per_s = 100",
            "process = \"magic\"",
            "`magic` is unknown: write one of",
        ),
        (
            "process = \"poisson\", rate_per_s = 100",
            "process = \"trace\", file = \"falling.csv\"",
            "rise from line to line",
        ),
        (
            "process = \"poisson\", rate_per_s = 100",
            "process = \"trace\", file = \"words.csv\"",
            "words.csv:3: `two` is not a number",
        ),
        (
            "process = \"poisson\", rate_per_s = 100",
            "process = \"trace\", file = \"times.csv\", column = \"when\"",
            "has no column `when`; its first line names: time_s, other",
        ),
        (
            "process = \"poisson\", rate_per_s = 100",
            "process = \"steps\", rates_per_s = [0], step_s = 1",
            "at least one rate above 0",
        ),
        (
            "process = \"poisson\", rate_per_s = 100",
            "process = \"diurnal\", rate_per_s = 1, swing = 2, period_s = 1",
            "arrivals.swing: the number 2: write a number from 0 to 1",
        ),
        (
            "rate_per_s = 100 }",
            "rate_per_s = 100 }\nsession = { requests = 2 }",
            "client.session.gap_ms: missing: write the milliseconds",
        ),
        (
            "rate_per_s = 100 }",
            "rate_per_s = 100 }\nsession = { requests = 0, gap_ms = 1 }",
            "client.session.requests: 0 is out of range",
        ),
        (
            "rate_per_s = 100 }",
            "rate_per_s = 100 }\nconnections = 5\nsession = { requests = 2, gap_ms = 1 }",
            "client.connections: every session has its own connection: omit this",
        ),
        (
            "rate_per_s = 100 }",
            "rate_per_s = 100 }\nsession = { requests = 1000000, gap_ms = 0 }",
            "would need",
        ),
        ("mean_ms = 1 }", "mean_ms = 1 }\nstress = { memory_percent = 101 }", "write a number from 0 to 100"),
        ("rate_per_s = 100 }", "rate_per_s = 100 }\nip = 5", "client.ip: write 4 or 6"),
        ("rate_per_s = 100 }", "rate_per_s = 100 }\nip = 7", "out of range"),
        ("[[event]]", "[learn]\nlearner = \"magic\"\n[[event]]", "`magic` is unknown: write one of"),
        ("[[event]]", "[learn]\nlearner = \"thompson\"\nsettle_s = 1\n[[event]]", "must be shorter"),
        ("[[event]]", "[learn]\nlearner = \"q-learning\"\ntable = \"no.q\"\n[[event]]", "cannot read no.q"),
        ("[[event]]", "[learn]\nlearner = \"q-learning\"\ntable = \"times.csv\"\n[[event]]", "not a Q-table"),
        ("kind = \"smartnic\"", "kind = \"cpu\"\n[learn]\nlearner = \"fixed\"\n[x]", "unknown field"),
        ("[[event]]", "[sweep]\nlearner = [\"fixed\"]\n[[event]]", "there is no table [learn]"),
        ("mean_ms = 1 }", "mean_ms = 0 }", "write a number from"),
        ("mean_ms = 1 }", "mean_ms = -3 }", "write a number from"),
        ("mean_ms = 1 }", "}", "service_time.mean_ms: missing"),
        ("kind = \"cpu\"", "kind = \"brain\"", "unknown device kind `brain`"),
        ("kind = \"cpu\"", "kind = \"cpu\"\nworkers = 0", "out of range"),
        ("name = \"nic\"", "name = \"cpu\"", "two tables for `cpu`"),
        ("at_s = 5", "at_s = -5", "write a number from"),
        (
            "at_s = 5",
            "at_s = 10",
            "x.toml:18:8: event.at_s: 10 s is not before the end, 10 s (`duration_s`): write an earlier time",
        ),
        ("\"s1/nic\"", "\"s3\"", "no device `s3`"),
        ("action = \"fail\"", "action = \"explode\"", "`explode` is unknown"),
        ("[[event]]", "[link]\nloss = 2\n[[event]]", "write a number from 0 to 1"),
        (
            "[[event]]",
            "[agents]\nenabled = false\n[[event]]\nat_s = 1\naction = \"link-down\"\nport = 77\n[[event]]",
            "nothing is connected to port 77",
        ),
        (
            "servers = 2",
            "servers = 2\nswitches = 9",
            "rack.switches: 9 is out of range: write a whole number from 1 to 8",
        ),
        ("servers = 2", "file = \"rack.toml\"\nswitches = 2", "rack.switches: unknown field"),
        ("rate_per_s = 100 }", "rate_per_s = 100 }\ntransport = \"sctp\"", "client.transport: `sctp`: write"),
        ("rate_per_s = 100 }", "rate_per_s = 100 }\ntransport = \"tcp\"\necn = true", "client.transport"),
        (
            "[[event]]",
            "[[client]]\ntransport = \"tcp\"\narrivals = { process = \"poisson\", rate_per_s = 1 }\n[[event]]",
            "all clients must have the same",
        ),
        ("[[event]]", "[[class]]\nname = \"old\"\n[[event]]", "class.servers: missing"),
        (
            "[[event]]",
            "[[class]]\nname = \"old\"\nservers = 3\n[[event]]",
            "the classes have 3 servers, but the rack has 2",
        ),
        ("[[event]]", "[[class]]\nname = \"a\"\nservers = 1\ncpu_speed = 0\n[[event]]", "class.cpu_speed"),
        (
            "[[event]]",
            "[learn]\nlearner = \"fixed\"\nepsilon_decay = 2\n[[event]]",
            "write a number from 0 to 1",
        ),
        ("name = \"x\"", "name = \"x\"\ncolour = 3", "colour: unknown field; known here:"),
        ("[rack]", "[rack", "not valid TOML"),
    ] {
        check(from, to, message);
    }
}

/// Switches are numbered from 1; one that is the only one need not be named.
#[test]
fn switches() {
    let with = |switches: u32, event: &str| {
        parse(
            &GOOD
                .replace("servers = 2", &format!("servers = 2\nswitches = {switches}"))
                .replace("action = \"fail\"\ndevice = [\"s1/nic\", \"s2\"]", event),
        )
    };
    let action = |switches, event: &str| with(switches, event).map(|all| all[0].events[0].action.clone());
    let cut = |switch, up| Ok(Action::Link { ports: vec![2, 3], switch, up });
    assert_eq!(action(1, "action = \"switch-down\""), Ok(Action::Power(0, false)));
    assert_eq!(action(3, "action = \"switch-up\"\nswitch = 3"), Ok(Action::Power(2, true)));
    assert_eq!(action(2, "action = \"link-up\"\nport = [2, 3]"), cut(None, true));
    assert_eq!(action(2, "action = \"link-down\"\nport = [2, 3]\nswitch = 2"), cut(Some(1), false));
    let rack = &with(8, "action = \"switch-up\"\nswitch = 8").unwrap_or_else(|e| panic!("{e}"))[0].rack;
    assert_eq!((rack.switch.p4runtime.len(), rack.switch.p4runtime[7].as_str()), (8, "127.0.0.1:9566"));
    for (switches, event, message) in [
        (
            2,
            "action = \"switch-down\"",
            "x.toml:18:1: event.switch: missing: the rack has 2 switches; write a number from 1 to 2",
        ),
        (
            2,
            "action = \"switch-up\"\nswitch = 3",
            "event.switch: the rack has 2 switches: write a number from 1 to 2",
        ),
        (1, "action = \"link-up\"\nport = 2\nswitch = 2", "event.switch: the rack has 1 switch: write 1"),
        (2, "action = \"switch-up\"\nswitch = 0", "event.switch: 0 is out of range"),
        (2, "action = \"load\"\nfactor = 2\nswitch = 1", "event.switch: unknown field"),
    ] {
        let told = action(switches, event).expect_err(message);
        assert!(told.contains(message), "{event}: {told}");
    }
}

/// Learners need weights to set, and devices to set them for.
#[test]
fn learners() {
    let learn = "[learn]\nlearner = \"q-learning\"\n";
    assert!(good(&format!("{GOOD}{learn}"))[0].learn.is_some());
    for (from, to, message) in [
        ("\"wrr\"", "\"ecmp\"", "learners set the weights of wrr"),
        (
            "servers = 2",
            "servers = 2\nswitches = 2",
            "learners read the registers of one switch, but the rack has 2",
        ),
        ("\"smartnic\"", "\"cpu\"", "the rack needs processors"),
        ("duration_s = 10", "duration_s = 10\nagents = { enabled = false }", "need agents' reports"),
    ] {
        let got =
            parse(&format!("{}{learn}", GOOD.replacen(from, to, 1))).map_or_else(|e| e, |_| "fine".into());
        assert!(got.contains(message), "{to}: {got}");
    }
    let swept = format!("{GOOD}{learn}[sweep]\nlearner = [\"thompson\", \"service-rate\"]\n");
    let points: Vec<String> = good(&swept).iter().map(Scenario::point_text).collect();
    assert_eq!(points, ["learner=thompson", "learner=service-rate"]);
}

/// Errors in the rack are reported alone, without consequential errors.
#[test]
fn a_wrong_rack() {
    let told = parse(&GOOD.replace("\"wrr\"", "\"best\"")).expect_err("no policy");
    assert!(told.contains("unknown policy `best`") && !told.contains("unknown field"), "{told}");
}

/// Whatever is deleted or inserted, the result is an answer and not a panic.
#[test]
fn mutations() {
    let mut random = crate::random::Stream::new(1, crate::random::Part::Switch, 0);
    let pieces = ["-1", "0", "1e300", "\"\"", "[]", "{}", "[[", "=", "nan", "99999999999999999999", "\u{e9}"];
    for _ in 0..3000 {
        let mut text = GOOD.to_string();
        let at = |random: &mut crate::random::Stream| random.below(GOOD.len() as u64) as usize;
        let (a, b) = (at(&mut random), at(&mut random));
        let (a, b) = (a.min(b), b.max(a).min(a.min(b) + 12));
        text.replace_range(a..b, pieces[random.below(pieces.len() as u64) as usize]);
        let _ = parse(&text);
    }
}
