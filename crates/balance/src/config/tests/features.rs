//! Health checks, sources of numbers, trust, the store, Prometheus, learners, members: what a rack may have in addition.

use super::*;

#[test]
fn health_checks() {
    let with = |health: &str| SMALL.replacen("port = 2", &format!("port = 2\nagent = {{ {health} }}"), 1);
    let set = |health: &str| match good(&with(health)).servers[0].devices[0].agent.health.clone() {
        HealthCheck::Set(settings) => settings,
        other => panic!("{other:?}"),
    };
    assert_eq!(good(SMALL).servers[0].devices[0].agent.health, HealthCheck::Implied);
    assert_eq!(set("health = {}"), HealthSettings::default());
    let all = set(
        "health = { kind = \"http\", path = \"/up\", port = 81, interval_ms = 10, timeout_ms = 20, rise = 3, fall = 4 }",
    );
    let kind = ProbeKind::Http { path: "/up".into() };
    assert_eq!(
        all,
        HealthSettings { kind, port: Some(81), interval_ms: 10, timeout_ms: 20, rise: 3, fall: 4 }
    );
    assert_eq!(set("health = { kind = \"udp\", send = \"?\" }").kind, ProbeKind::Udp { send: "?".into() });
    assert_eq!(set("health = { kind = \"grpc\" }").kind, ProbeKind::Grpc { service: String::new() });
    let cart = set("health = { kind = \"grpc\", service = \"shop.Cart\" }");
    assert_eq!(cart.kind, ProbeKind::Grpc { service: "shop.Cart".into() });
    let off = good(&with("health = { kind = \"none\" }"));
    assert_eq!(off.servers[0].devices[0].agent.health, HealthCheck::Off);
    let wrong = |health: &str, parts: &[&str]| {
        bad("port = 2", &format!("port = 2\nagent = {{ health = {{ {health} }} }}"), parts)
    };
    wrong("kind = \"icmp\"", &["server.device.agent.health.kind", "`icmp`", "\"http\""]);
    wrong("service = \"shop.Cart\"", &["health.service", "only kind = \"grpc\""]);
    wrong("kind = \"udp\"", &["health.send: missing", "send = \"ping\""]);
    wrong("path = \"/\"", &["health.path", "only kind = \"http\""]);
    wrong("kind = \"http\", path = \"a b\"", &["health.path", "\"/healthz\""]);
    wrong("port = 0", &["health.port", "1 to 65535"]);
    wrong("rise = 0", &["health.rise", "1"]);
    wrong("intervall_ms = 5", &["health.intervall_ms: unknown field", "interval_ms"]);
}

#[test]
fn sources() {
    let with = |source: &str| format!("{SMALL}[[agent.source]]\n{source}\n");
    let check = |source: &str, expected: &str| {
        let errors = Rack::parse("r", &with(source)).expect_err(source).to_string();
        assert!(errors.contains(expected), "{errors}");
    };
    check("interval_ms = 5", "agent.source.prometheus: write one of");
    check("nvml = 0\nhaproxy = \"h:1\"", "write one of");
    check("prometheus = \"http://h/\"", "agent.source.compute: missing");
    check("prometheus = \"https://h/\"\ncompute = \"a\"", "write http://host:port/path");
    check("haproxy = \"h\"", "write host:port");
    check("haproxy = \"h:1\"\ncompute = \"a\"", "has one number");
    check("nvml = 0\ncompute = \"a b\"", "agent.source.compute: `a b`: write name");
    let rack = good(&with("nvml = 1\ninterval_ms = 20"));
    let source = &rack.servers[0].devices[0].agent.sources[0];
    let kind = SourceKind::Nvml(Gpu::Index(1));
    assert_eq!((source.kind.clone(), source.interval_ms, source.stale_ms), (kind, 20, 1000));
    assert_eq!(source.readings[0], Some(Reading::new("utilization", 1.0)));
    check("nvml = 256", "agent.source.nvml: 256 is out of range");
    check("nvml = \"3b:00\"", "agent.source.nvml: `3b:00`: write an index from 0 to 255, a UUID");
    check(
        "nvml = 0\ncompute = \"utilisation\"",
        "agent.source.compute: `utilisation`: NVIDIA's library has utilization,",
    );
    check("nvml = 0\ncompute = 'utilization{gpu=\"0\"}'", "`utilization` has no labels");
    // Instances have no utilisation: never silently without compute.
    check("nvml = \"MIG-1\"", "agent.source.memory: missing: NVIDIA's library has no utilisation with MIG");
    check(
        "nvml = \"MIG-1\"\ncompute = \"utilization\"",
        "agent.source.compute: `utilization`: NVIDIA's library has no",
    );
    for gpu in ["MIG-1", "GPU-1", "0000:3b:00.0"] {
        let rack = good(&with(&format!("nvml = \"{gpu}\"\nmemory = \"memory\"")));
        let source = &rack.servers[0].devices[0].agent.sources[0];
        assert_eq!(source.kind, SourceKind::Nvml(gpu.parse().expect("a GPU")));
        assert_eq!(source.readings[0], None);
    }
}

/// Trust without a digest must be configured explicitly.
#[test]
fn trust() {
    let keys = "report_keys = \"keys\"";
    assert_eq!(good(SMALL).switch.reports, Trust::Keys("keys".into()));
    let open = good(&SMALL.replace(keys, "reports = \"unauthenticated\""));
    assert_eq!((open.switch.reports, open.switch.believes_probes), (Trust::Unauthenticated, true));
    let none = good(&SMALL.replace(keys, "report_timeout_ms = 0").replace("p4mite", "ecmp"));
    assert_eq!(none.switch.reports, Trust::Closed);
    bad(
        &format!("{keys}\n"),
        "",
        &["rack.toml:2:1: switch.report_keys: missing", "pointsman keys", "unauthenticated"],
    );
    bad(keys, "reports = \"yes\"", &["rack.toml:5:11: switch.reports: `yes`: write \"unauthenticated\""]);
    bad(keys, "reports = true", &["switch.reports", "true"]);
    bad(keys, &format!("{keys}\nreports = \"unauthenticated\""), &["switch.report_keys", "not both"]);
    bad("p4mite", "probe-wrr", &["service.policy", "probes = \"unauthenticated\" in [switch]"]);
    let probes =
        SMALL.replace(keys, &format!("{keys}\nprobes = \"unauthenticated\"")).replace("p4mite", "probe-wrr");
    assert!(good(&probes).switch.believes_probes);
    assert!(
        good(SMALL).with_policy("web", Policy::ProbeWrr).is_err_and(|e| e.to_string().contains("probes"))
    );
}

#[test]
fn a_store() {
    let text = "[switch.store]\naddress = \"10.9.1.1\"\nport = 9\nmac = \"02:00:0a:00:5a:02\"\nswitches = [\"10.9.1.2\", \"10.9.1.3\"]\nsecret = \"s\"\n";
    let two = "report_keys = \"keys\"\np4runtime = [\"a:1\", \"b:1\"]\n";
    let with = |text: &str| SMALL.replace("report_keys = \"keys\"\n", &format!("{two}{text}"));
    let mut rack = good(&with(text));
    assert_eq!(crate::program::defines(&rack), ["BALANCER_STORE"]);
    assert!(crate::program::defines(&good(SMALL)).is_empty());
    let ipv6 = text.replace("10.9.1.", "fd09::a09:10");
    let rack6 = good(&with(&ipv6));
    assert_eq!(crate::program::defines(&rack6), ["BALANCER_STORE", "REDPLANE_IPV6"]);
    let own = rack6.switch.store.expect("a store").switches[1];
    assert_eq!(
        (own.to_string().as_str(), StoreLink::mac_of(own).to_string().as_str()),
        ("fd09::a09:103", "02:00:0a:09:01:03")
    );
    let wrong6 = |from: &str, to: &str, expected: &str| {
        let errors = Rack::parse("rack.toml", &with(&ipv6.replacen(from, to, 1))).expect_err(to);
        assert!(errors.0.len() == 1 && errors.to_string().contains(expected), "{errors}");
    };
    wrong6(
        "fd09::a09:103",
        "fd09::1:0a09:102",
        "switch.store.switches: two switches would send from the same MAC address",
    );
    wrong6("fd09::a09:103", "10.9.1.3", "switch.store.switches: addresses of IPv4 and IPv6");
    let store = |rack: &Rack| rack.switch.store.clone().expect("a store");
    assert_eq!((store(&rack).port, store(&rack).switches.len(), store(&rack).secret), (9, 2, None));
    assert_eq!(StoreLink::mac_of(store(&rack).switches[1]).to_string(), "02:00:0a:09:01:03");
    assert!(rack.take_store_secret("0123").is_err_and(|e| e.to_string().contains("16 hexadecimal digits")));
    assert_eq!(rack.take_store_secret("0123456789abcdef\n"), Ok(()));
    assert_eq!(store(&rack).secret.map(|s| s.bits()), Some(0x0123_4567_89ab_cdef));
    let wrong = |from: &str, to: &str, expected: &str| {
        assert!(text.contains(from));
        let text = with(&text.replacen(from, to, 1));
        let errors = Rack::parse("rack.toml", &text).expect_err(to);
        assert_eq!(errors.0.len(), 1, "{errors}");
        assert!(errors.to_string().contains(expected), "{errors}\nlacks `{expected}`");
    };
    wrong("address = \"10.9.1.1\"\n", "", "switch.store.address: missing");
    wrong("10.9.1.1", "10.9.1", "switch.store.address");
    wrong("10.9.1.1", "fd00::1", "switch.store.switches: addresses of IPv4 and IPv6");
    wrong("port = 9\n", "", "switch.store.port: missing");
    wrong("port = 9", "port = 510", "switch.store.port: port 510 is the controller's");
    wrong("mac = \"02:00:0a:00:5a:02\"\n", "", "switch.store.mac: missing");
    wrong("02:00:0a:00:5a:02", "00:00:00:00:00:00", "switch.store.mac: this is not");
    // That of a chain of stores.
    good(&with(&text.replace("02:00:0a:00:5a:02", "01:00:5e:09:01:01")));
    wrong(", \"10.9.1.3\"", "", "switch.store.switches: 1 different addresses for 2 switches");
    wrong("10.9.1.3", "10.9.1.2", "switch.store.switches: 1 different addresses for 2 switches");
    wrong("switches =", "# ", "switch.store.switches: 0 different addresses for 2 switches");
    wrong("secret = \"s\"\n", "", "switch.store.secret: missing");
    wrong("secret", "secret = \"s\"\nlease = 5\n#", "unknown");
}

#[test]
fn prometheus() {
    let with = |judgements: &str, more: &str| {
        let criterion = |name: &str| {
            format!(
                "[[service.prometheus.criterion]]\nname = \"{name}\"\npromql = \"{name}\"\ngoal = \"cost\"\n"
            )
        };
        format!(
            "policy = \"chosen\"\n[service.prometheus]\nurl = \"http://127.0.0.1:9090\"\n\
             alternatives = {{ \"s1/cpu\" = \"a:1\", \"s1/nic\" = \"b:1\" }}\n{judgements}\n{}{}{}{more}\n",
            criterion("cpu"),
            criterion("memory"),
            criterion("link")
        )
    };
    let policy = "policy = \"p4mite\"";
    let check =
        |judgements: &str, more: &str, expected: &[&str]| bad(policy, &with(judgements, more), expected);
    let paper = "judgements = [[1, 4, 0.5], [0.25, 1, 0.1667], [2, 6, 1]]";
    let rack = good(&SMALL.replacen(policy, &with(paper, ""), 1));
    let [choice] = &rack.choices[..] else { panic!("{:?}", rack.choices) };
    assert_eq!((choice.service.as_str(), choice.settings.alternatives.len()), ("web", 2));
    assert_eq!(choice.settings.alternatives[1].device, DeviceNumber::new(1, 1));
    assert!(
        (choice.settings.criteria[2].1.weight - 0.588).abs() < 0.001 && choice.ratio < 0.01,
        "{choice:?}"
    );
    // The first before the second, the second before the third, the third before the first.
    check(
        "judgements = [[1, 3, 0.111], [0.333, 1, 3], [9, 0.333, 1]]",
        "",
        &["service.prometheus.judgements", "consistency ratio", "change that one first", "is `cpu`"],
    );
    check("judgements = [[1, 2], [0.5, 1]]", "", &["2 rows for 3 criteria"]);
    check("judgements = [[1, 4, 0.5], [1, 1, 1], [2, 1, 1]]", "", &["1 divided by", "`memory`"]);
    check("judgements = 3", "", &["write rows of numbers"]);
    check("", "", &["service.prometheus.judgements: missing"]);
    check(paper, "weight = 2", &["criterion.weight", "not both"]);
    check(paper, "preference = \"steep\"", &["unknown preference function `steep`", "\"gaussian\""]);
    check(paper, "preference = \"linear\"\nq = 3", &["criterion.p: missing"]);
    check(paper, "preference = \"linear\"\nq = 3\np = 2", &["below `p`"]);
    check(&paper.replacen("judgements", "url2 = 1\njudgements", 1), "", &["url2: unknown field"]);
    bad(
        policy,
        &with(paper, "").replace("http://127", "127"),
        &["service.prometheus.url", "write http://host:port"],
    );
    bad(policy, &with(paper, "").replace("s1/nic", "s1/gpu"), &["alternatives", "no device `s1/gpu`"]);
}

#[test]
fn limits_and_direct_return() {
    let policy = "policy = \"p4mite\"";
    let with = |more: &str| SMALL.replace(policy, &format!("{policy}\n{more}"));
    let service = |more: &str| good(&with(more)).services[0].clone();
    let plain = service("");
    assert_eq!((plain.limit, plain.direct_return), (None, None));
    assert!(!plain.idle_reset && !plain.failure_reset && plain.unknown_reset);
    assert!(!service("unknown_reset = false").unknown_reset);
    assert!(!plain.adopt_unknown);
    let limited = service("new_connections = { per_s = 100, burst = 7 }\ndirect_return = true");
    assert_eq!(
        (limited.limit, limited.direct_return),
        (Some(Limit { per_s: 100, burst: 7 }), Some(DirectReturn::Layer2))
    );
    for (text, way) in [
        ("false", None),
        ("\"layer-2\"", Some(DirectReturn::Layer2)),
        ("\"ipip\"", Some(DirectReturn::Tunnel)),
    ] {
        assert_eq!(service(&format!("direct_return = {text}")).direct_return, way);
    }
    let reset = service("idle_reset = true\nfailure_reset = true");
    assert!(reset.idle_reset && reset.failure_reset);
    assert_eq!(service("new_connections = { per_s = 100 }").limit, Some(Limit { per_s: 100, burst: 100 }));
    let refused = |more: &str, expected: &[&str]| bad(policy, &format!("{policy}\n{more}"), expected);
    refused("new_connections = {}", &["per_s", "write the new connections per second"]);
    refused("new_connections = { per_s = 0 }", &["new_connections.per_s", "0"]);
    refused("new_connections = { per_s = 5, burst = 0 }", &["burst", "0"]);
    refused("new_connections = 5", &["new_connections"]);
    refused("direct_return = 1", &["direct_return", "ipip"]);
    refused("direct_return = \"gre\"", &["direct_return", "layer-2"]);
    refused("idle_reset = 1", &["idle_reset", "true or false"]);
}

/// Two switches choose the same device only by hash.
#[test]
fn adoption() {
    let policy = "policy = \"p4mite\"";
    let with = |policy: &str| format!("policy = {policy}\nadopt_unknown = true");
    for fine in ["\"ecmp\"", "\"server-only\""] {
        let rack = good(&SMALL.replace(policy, &with(fine)));
        assert!(rack.services[0].adopt_unknown);
        let name = rack.services[0].name.clone();
        let other = rack.with_policy(&name, Policy::P4mite);
        assert!(
            other
                .expect_err("not by hash")
                .to_string()
                .contains("adopt_unknown needs a policy that chooses by hash")
        );
        assert!(rack.with_policy(&name, Policy::Ecmp).is_ok());
    }
    for wrong in ["\"p4mite\"", "\"wrr\"", "\"jsq\"", "\"ecmp\"\ntuning = { servers = \"power-of-two\" }"] {
        bad(policy, &with(wrong), &["service.policy", "adopt_unknown", "hash alone"]);
    }
}

#[test]
fn learning() {
    let policy = "policy = \"p4mite\"";
    let learn = "[learn]\nlearner = \"q-learning\"\ntable = \"t.q\"\nmax_weight = 8\n[learn.clients]\nurl = \"http://127.0.0.1:9090\"\n\
                 p99_ms = \"p99\"\n";
    let with = |learn: &str| format!("policy = \"wrr\"\n{learn}");
    let rack = good(&SMALL.replacen(policy, &with(learn), 1));
    let l = rack.learn.as_ref().expect("there is one");
    assert_eq!(
        (l.service.as_str(), l.table.as_deref(), l.settings.parameters.max_weight),
        ("web", Some("t.q"), 8)
    );
    assert_eq!((l.clients.loss.as_deref(), l.clients.patience.as_millis()), (None, 2000));
    // The output parses to the same value.
    let clients = ClientsSection { url: l.clients.url.clone(), p99_ms: l.clients.p99_ms.clone(), loss: None };
    let section = LearnSection { table: l.table.clone(), ..LearnSection::new(&l.settings, clients) };
    let again = toml::to_string(&BTreeMap::from([("learn", section)])).expect("a table");
    assert_eq!(good(&SMALL.replacen(policy, &with(&again), 1)).learn.as_ref(), Some(l));
    let check = |from: &str, to: &str, expected: &[&str]| {
        assert!(learn.contains(from), "{from}");
        bad(policy, &with(&learn.replacen(from, to, 1)), expected);
    };
    bad(
        policy,
        &format!("{policy}\n{learn}"),
        &["learn.service: service web has policy p4mite", "wrr: write that"],
    );
    check("[learn]\n", "[learn]\nservice = \"mail\"\n", &["learn.service: no service `mail`", "web"]);
    check("q-learning", "magic", &["learn.learner: `magic` is unknown: write one of", "\"thompson\""]);
    check("learner = \"q-learning\"\n", "", &["learn.learner: missing: write one of"]);
    check("q-learning", "fixed", &["learn.table: \"fixed\" has nothing to save"]);
    check("max_weight = 8", "interval_s = 1\nsettle_s = 1", &["learn.settle_s: must be shorter"]);
    check("max_weight = 8", "interval_s = 0", &["learn.interval_s"]);
    check("max_weight = 8", "per_class = 1", &["learn.per_class", "write true or false"]);
    check("max_weight = 8", "guard = { hold = 0 }", &["learn.guard.hold"]);
    check("max_weight = 8", "max_weight = 8\nfirst_weight = 9", &["learn.first_weight", "from 0 to 8"]);
    check("max_weight = 8", "seed = -1", &["learn.seed"]);
    check("p99_ms = \"p99\"\n", "", &["learn.clients.p99_ms: missing: write a PromQL expression"]);
    check("http://", "https://", &["learn.clients.url", "write http://host:port"]);
    let without = &learn[..learn.find("[learn.c").expect("there")];
    bad(policy, &with(without), &["learn.clients: missing", "[learn.clients]"]);
    let alone = SMALL.replacen(policy, &with(learn), 1).replacen("kind = \"smartnic\"", "kind = \"cpu\"", 1);
    let errors = Rack::parse("rack.toml", &alone).expect_err("no accelerator").to_string();
    assert!(errors.contains("learn.service: service web needs processors"), "{errors}");
    let blind =
        SMALL.replacen(policy, &with(learn), 1).replacen("[switch]", "[switch]\nreport_timeout_ms = 0", 1);
    let errors = Rack::parse("rack.toml", &blind).expect_err("no reports").to_string();
    assert!(errors.contains("learners need agents' reports"), "{errors}");
}

/// Servers with equal devices form a class; a class name groups other servers, or separates equal ones.
#[test]
fn classes_of_servers() {
    let learn = "[learn]\nlearner = \"thompson\"\ntable = \"t\"\n[learn.clients]\nurl = \"http://127.0.0.1:9090\"\np99_ms = \"p99\"\n";
    let text = format!("{EXAMPLE}{learn}").replacen("policy = \"p4mite\"", "policy = \"wrr\"", 1);
    let classes = |text: &str, per_class| {
        let all = good(text).classes("inference", per_class).expect("there is one");
        all.into_iter().map(|c| (c.name, c.servers, c.learns)).collect::<Vec<_>>()
    };
    let of = |name: &str, servers: &[u16]| (name.to_string(), servers.to_vec(), true);
    assert!(good(&text).learn.expect("there is one").settings.per_class, "as in a scenario");
    assert_eq!(classes(&text, true), [of("like-s1", &[1, 2])]);
    assert_eq!(classes(&text, false), [of("all", &[1, 2])]);
    let second = |from: &str, to: &str| {
        let at = text.find("name = \"s2\"").expect("there");
        format!("{}{}", &text[..at], text[at..].replacen(from, to, 1))
    };
    for to in ["weight = 4", "weight = 5\nworkers = 8", "weight = 5\nenabled = false\n"] {
        let differs = second("weight = 5", to);
        let found = classes(&differs, true);
        assert_eq!(found.iter().map(|c| c.1.clone()).collect::<Vec<_>>(), [[1], [2]], "{to}");
        assert_eq!(found[1], ("like-s2".into(), vec![2], !to.contains("enabled")));
        assert_eq!(classes(&differs, false).len(), 1);
    }
    let named = second("name = \"s2\"", "name = \"s2\"\nclass = \"old\"");
    assert_eq!(classes(&named, true), [of("like-s1", &[1]), of("old", &[2])]);
    let joined = named.replacen("name = \"s1\"", "name = \"s1\"\nclass = \"old\"", 1).replacen(
        "weight = 5",
        "weight = 4",
        1,
    );
    assert_eq!(classes(&joined, true), [of("old", &[1, 2])]);
    bad("name = \"s1\"", "name = \"s1\"\nclass = \"a b\"", &["server.class", "letters, digits"]);
    // Apart they have nothing to weigh, together they have.
    let apart = second("kind = \"cpu\"", "kind = \"gpu\"");
    let apart = apart.replacen("kind = \"smartnic\"", "kind = \"cpu\"", 1);
    let errors = Rack::parse("rack.toml", &apart).expect_err("nothing to weigh").to_string();
    assert!(errors.contains("no server of service inference has both"), "{errors}");
    assert_eq!(classes(&apart.replacen("\n[learn]\n", "\n[learn]\nper_class = false\n", 1), false).len(), 1);
}

#[test]
fn sources_of_members() {
    use crate::members::tests::RACK;
    let rack = good(RACK);
    let [pool, list] = &rack.sources[..] else { panic!("{:?}", rack.sources) };
    assert_eq!((pool.origin.clone(), pool.reports, pool.most), (Origin::Api { ttl_s: 10 }, true, 12));
    assert_eq!(
        (list.origin.clone(), list.reports, list.most),
        (Origin::File("members.json".into()), false, 64)
    );
    assert_eq!(pool.services, ["web"]);
    let bad = |from: &str, to: &str, expected: &str| {
        assert!(RACK.contains(from), "`{from}` does not occur");
        let e = Rack::parse("rack.toml", &RACK.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(e.starts_with("rack.toml:") && e.contains(expected), "{e}\nlacks {expected}");
    };
    bad(
        "state = \"state.json\"",
        "",
        "members: members keep their numbers in the switch over a restart: write `state` in [api]",
    );
    bad("api = true", "", "members.ttl_s: only members that register by API have one");
    bad("api = true\nttl_s = 10", "", "members.file: missing: write the path");
    bad(
        "api = true",
        "api = true\nfile = \"a\"",
        "members.file: write one of `api = true`, `file`, `prometheus` and `dns`",
    );
    bad(
        "api = true\nttl_s = 10",
        "prometheus = \"https://sd\"",
        "members.prometheus: `https://sd`: write http://host:port/path",
    );
    bad("ttl_s = 10", "interval_s = 10", "members.interval_s: only a source that is asked");
    let asked = good(&RACK.replace("file = \"members.json\"", "prometheus = \"http://sd:8080/targets\""));
    assert_eq!(
        asked.sources[1].origin,
        Origin::Prometheus { url: "http://sd:8080/targets".into(), interval_s: 10 }
    );
    let named = good(&RACK.replace(
        "file = \"members.json\"",
        "dns = \"_web._tcp.example.\"\ndns_server = \"10.0.0.53:53\"\nkind = \"gpu\"",
    ));
    let (name, server) = ("_web._tcp.example".into(), "10.0.0.53:53".parse().ok());
    assert_eq!(named.sources[1].origin, Origin::Dns { name, server, kind: DeviceKind::Gpu });
    bad("file = \"members.json\"", "dns = \"a..b\"", "members.dns: `a..b`: write labels of letters");
    bad("file = \"members.json\"", "dns = \"a\"\nfile = \"b\"", "members.dns: write one of");
    bad("file = \"members.json\"", "dns = \"a\"\ndns_server = \"b\"", "members.dns_server: ");
    bad(
        "file = \"members.json\"",
        "file = \"a\"\nkind = \"cpu\"",
        "members.kind: only members from DNS have it",
    );
    bad("ports = [6, 7]", "", "members.ports: missing");
    bad("ports = [6, 7]", "ports = [6.5]", "write a whole number");
    bad("ports = [6, 7]", "ports = [510]", "port 510 is the controller's");
    bad("ports = [6, 7]", "ports = [509]", "port 509 is where the program sends what it consumes");
    bad("ports = [6, 7]", "ports = [511]", "from 0 to 510");
    bad("networks = [\"10.0.3.0/24\"]", "", "members.networks: missing");
    bad("10.0.3.0/24", "10.0.3.1/24", "write 10.0.3.0/24");
    bad("name = \"list\"", "name = \"pool\"", "two sources of members are called `pool`");
    bad(
        "file = \"members.json\"",
        "file = \"members.json\"\nreports = true",
        "members.reports: agents of members get their keys",
    );
    bad("most = 12", "services = [\"nothing\"]", "no service `nothing`; there are: web");
    bad(
        "most = 12",
        "agent = { heartbeat_ms = 300 }",
        "members.agent.heartbeat_ms: agents report every 300 ms",
    );
    let twice = RACK.find("[[members]]").expect("there");
    let second = "[[service]]\nname = \"two\"\nvip = \"10.0.0.101\"\nprotocol = \"tcp\"\nport = 8000\npolicy = \"ecmp\"\nservers = []\n";
    let text = format!("{}{second}{}", &RACK[..twice], &RACK[twice..]);
    let e = Rack::parse("rack.toml", &text).expect_err("ambiguous").to_string();
    assert!(e.contains("`web` and `two` both use port 8000"), "{e}");
}

#[test]
fn reporters() {
    let by = |name: &str| format!("reported_by = \"{name}\"\nport = 3");
    let rack = good(&SMALL.replace("port = 3", &by("cpu")));
    let reporters: Vec<u8> = rack.devices().map(|(_, d)| d.reporter.slot()).collect();
    assert_eq!(reporters, [0, 0]);
    bad("port = 3", &by("gpu"), &["server.device.reported_by: no device `gpu` in `s1`"]);
    let both = SMALL.replace("port = 2", "reported_by = \"nic\"\nport = 2").replace("port = 3", &by("cpu"));
    let errors = Rack::parse("r", &both).expect_err("a circle").to_string();
    assert!(errors.contains("another agent reports for `nic`"), "{errors}");
}
