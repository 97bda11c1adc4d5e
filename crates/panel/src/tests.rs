//! Pages: what they contain, that no text becomes markup, that people without mouse or screen can use them, and their size.

use super::*;
use serde_json::json;
use std::collections::BTreeSet;

const FORGERY: &str = "0123456789abcdef";

fn device(server: usize, name: &str, state: &str) -> Value {
    json!({
        "device": format!("s{server}/{name}"), "server": format!("s{server}"), "kind": name, "addresses": ["10.0.1.11", "fd00::11"],
        "services": ["inference"], "state": state, "state_since": "2026-11-25T09:00:07.000Z",
        "reason": (state == "failed").then_some("its service does not answer its agent"), "drained": null, "connections": null, "report_age_ms": 240,
        "live": {"in_flight": 12, "opened": 123_456, "opened_per_s": 98.6, "p99_ms": 11.534, "load": {"compute": 55, "memory": 40, "network": 0, "queue": 2}},
    })
}

/// An hour with samples of these kinds of devices, and a learner with two classes of servers.
fn trend(kinds: &[&str]) -> Value {
    let at = |i: u64| 1_000_000 + 30_000 * i;
    let sample = |i: u64| {
        let kind = |k: &&str| {
            (k.to_string(), json!({"opened_per_s": 1234.5 + i as f64, "in_flight": 100 * i, "p99_ms": 40.5}))
        };
        let kinds: serde_json::Map<String, Value> = kinds.iter().map(kind).collect();
        json!({"at_ms": at(i), "kinds": kinds, "dropped_per_s": 0.5})
    };
    let decided = |i: u64| {
        let class = if i.is_multiple_of(2) { "like-s1" } else { "old" };
        json!({"at_ms": at(i), "class": class, "processors": 6, "accelerators": i, "p99_ms": 12.5})
    };
    json!({
        "now_ms": at(120), "every_ms": 30_000,
        "samples": (0..=120).filter(|i| !(50..60).contains(i)).map(sample).collect::<Vec<_>>(),
        "learner": (100..=120).map(decided).collect::<Vec<_>>(),
    })
}

/// A rack in which something of every kind has happened.
fn answers(writes: bool) -> Answers {
    let mut draining = device(1, "nic", "draining");
    draining["connections"] = 3.into();
    draining["drained"] = json!({"change": 4, "who": "ops", "since": "2026-11-25T09:00:00.000Z"});
    let mut silent = device(2, "cpu", "silent");
    silent["reason"] = "its reports are refused: old key".into();
    silent["report_age_ms"] = 61_000.into();
    let mut new = device(2, "nic", "in-service");
    new["live"] = Value::Null;
    let change = |id: u64, more: Value| {
        let mut all = json!({"id": id, "at": "2026-11-25T09:00:00.000Z", "at_ms": 1, "who": "ops", "service": "inference",
            "set": {"policy": "wrr", "note": "more of it"}, "before": {"policy": "p4mite"}, "outcome": "in-force", "writes": 7, "after_ms": 12});
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        all
    };
    Answers {
        status: json!({
            "controller": "in-sync", "switches": [{"p4runtime": "a:1", "controller": "in-sync"}, {"p4runtime": "b:1", "controller": "in-sync"}],
            "unresolved": ["s2/nic"], "all_silent": ["inference"], "unsaved": "the disk is full",
            "files": [{"file": "rack.toml", "in_force": "2026-11-25T08:00:00.000Z",
                "refused": {"of": "2026-11-25T09:00:00.000Z", "why": "rack.toml:7:1: unknown field"}},
                {"file": "tokens", "in_force": "2026-11-25T08:00:00.000Z", "refused": null}],
            "user": {"name": "ops", "writes": writes},
        }),
        devices: json!({"devices": [device(1, "cpu", "in-service"), draining, silent, new, device(3, "cpu", "failed"), device(3, "gpu", "held"),
            device(4, "cpu", "drained")]}),
        services: json!({"services": [{
            "service": "inference", "policy": {"policy": "wrr", "weights": {"s1/cpu": 5}}, "source": "api", "change": 4, "who": "ops",
            "since": "2026-11-25T09:00:00.000Z", "frontends": ["tcp 10.0.0.100:80"],
            "learner": {"learner": "q-learning", "paused": false, "weights": "6:1", "classes": []},
        }]}),
        changes: json!({"changes": [change(5, json!({})), change(4, json!({"device": "s1/nic", "drain": true})),
            change(3, json!({"outcome": "rejected", "reason": "no room"})), change(2, json!({"outcome": "noted", "reason": "file", "set": null})),
            change(1, json!({"outcome": "superseded", "by": 5}))]}),
        drops: json!({"drops": [{"reason": "ttl", "packets": 3, "meaning": "It ran out."}, {"reason": "rate", "packets": 1234, "meaning": "Too many."}]}),
        trend: trend(&["cpu", "smartnic"]),
    }
}

fn service() -> Value {
    json!({"service": "inference", "policy": {"policy": "prt", "metric": "compute", "high": 90, "weights": {"s1/cpu": 5}},
        "devices": [{"device": "s1/cpu", "weight": 5, "priority": 1, "state": "in-service"}]})
}

fn dry_run() -> Value {
    json!({"service": "inference", "from": {"policy": "p4mite"}, "to": {"policy": "wrr"}, "controller": "working", "total": 9,
        "tables": [{"table": "BalancerIngress.rings", "insert": 8, "modify": 1, "delete": 0}], "notes": ["the learner pauses"], "steps": []})
}

/// All pages, made of these answers.
fn pages(a: &Answers, service: &Value, dry_run: &Value, text: &str) -> Vec<String> {
    let catalogue = json!({"policies": ["wrr", "prt", text]});
    let fields = ["high", "note", "weights"].map(|n| (n.to_string(), text.to_string())).into();
    let draft = Draft { fields, error: Some(text.to_string()) };
    vec![
        overview_page(a, &View { change: Some(5), ..View::default() }, FORGERY),
        overview_page(a, &View { trouble: true, ..View::default() }, FORGERY),
        hour_page(a, FORGERY),
        policy_page(text, service, &catalogue, Some(&draft), FORGERY),
        policy_page(text, service, &catalogue, None, FORGERY),
        preview_page(text, dry_run, Some(text), FORGERY),
        login_page(Some(text)),
        message_page(text, text),
        elsewhere_page(text, text),
    ]
}

/// Tags with their attributes, read as a browser reads them.
fn tags(page: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut out = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once('<') {
        let end = after.find(|c: char| c.is_whitespace() || c == '>').expect("a name");
        let (name, mut inside) = after.split_at(end);
        let mut attributes = Vec::new();
        loop {
            inside = inside.trim_start();
            if let Some(behind) = inside.strip_prefix('>') {
                rest = behind;
                break;
            }
            let end = inside.find(|c: char| c.is_whitespace() || c == '=' || c == '>').expect("an attribute");
            let (attribute, behind) = inside.split_at(end);
            let (value, behind) = match behind.strip_prefix("=\"") {
                Some(quoted) => quoted.split_once('"').expect("the end of a value"),
                None => ("", behind),
            };
            attributes.push((attribute.to_string(), value.to_string()));
            inside = behind;
        }
        out.push((name.to_string(), attributes));
    }
    out
}

/// Names of tags and attributes without the values.
fn skeleton(page: &str) -> Vec<(String, Vec<String>)> {
    tags(page)
        .into_iter()
        .map(|(name, attributes)| (name, attributes.into_iter().map(|(n, _)| n).collect()))
        .collect()
}

/// Replaces every string, apart from those that are one of a few known words and select what is shown.
fn with_strings(value: &Value, by: &str) -> Value {
    match value {
        Value::String(s) if KNOWN.contains(&s.as_str()) => value.clone(),
        Value::String(_) => by.into(),
        Value::Array(all) => all.iter().map(|v| with_strings(v, by)).collect(),
        // Names of devices are keys, too.
        Value::Object(all) => Value::Object(
            all.iter()
                .map(|(k, v)| (if k.contains('/') { by.to_string() } else { k.clone() }, with_strings(v, by)))
                .collect(),
        ),
        other => other.clone(),
    }
}

const KNOWN: [&str; 14] = [
    "no-report",
    "unresolved",
    "in-service",
    "held",
    "draining",
    "drained",
    "silent",
    "failed",
    "in-sync",
    "working",
    "in-force",
    "rejected",
    "superseded",
    "noted",
];

#[test]
fn no_text_becomes_markup() {
    let with = |text: &str| {
        let a = answers(true);
        let parts = [&a.status, &a.devices, &a.services, &a.changes, &a.drops, &a.trend];
        let parts = parts.map(|v| with_strings(v, text));
        pages(&Answers::new(parts), &with_strings(&service(), text), &with_strings(&dry_run(), text), text)
    };
    let tame = with("x");
    for hostile in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "</textarea></title></script>&#60;b&#62;",
        "javascript:alert(1)",
        "\u{202e}\0\r\n--><!--",
    ] {
        for (page, right) in with(hostile).iter().zip(&tame) {
            assert_eq!(skeleton(page), skeleton(right), "{hostile}");
            assert!(!page.contains("<script>alert") && !page.contains("<img"), "{hostile}");
            let links = tags(page).into_iter().flat_map(|(_, attributes)| attributes);
            for (_, link) in links.filter(|(name, _)| ["href", "src", "action"].contains(&name.as_str())) {
                assert!(link.starts_with("/console") || link.starts_with('#'), "{link}");
            }
        }
    }
}

/// A standby's pages lead to the console of the controller that leads, if its address is one of the web.
#[test]
fn a_standby_links_the_leader() {
    let links = |page: &str| -> Vec<String> {
        let attributes = tags(page).into_iter().flat_map(|(_, attributes)| attributes);
        attributes.filter(|(name, value)| name == "href" && value.contains(':')).map(|(_, v)| v).collect()
    };
    for (url, expected) in [
        ("http://10.0.0.1:9560", Some("http://10.0.0.1:9560/console")),
        ("https://c1.example/", Some("https://c1.example/console")),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
    ] {
        let mut standby = answers(true);
        standby.status["group"] =
            json!({"name": "b", "role": "standby", "since": "", "leader": "a", "leader_url": url});
        let expected: Vec<String> = expected.into_iter().map(String::from).collect();
        assert_eq!(links(&overview_page(&standby, &View::default(), FORGERY)), expected);
        assert_eq!(links(&elsewhere_page("this controller is a standby", url)), expected);
    }
}

/// A standby has asked no switch: it says that the other controller knows, instead of "none".
#[test]
fn what_a_controller_without_a_switch_does_not_know() {
    for (state, unknown) in
        [("backup", "the controller in charge"), ("disconnected", "connection to the switch")]
    {
        let mut a = answers(true);
        a.status["controller"] = state.into();
        a.drops = json!({"drops": []});
        let page = overview_page(&a, &View::default(), FORGERY);
        assert!(
            page.contains("Unknown to this controller") && page.contains(unknown) && !page.contains("None."),
            "{page}"
        );
        assert_eq!(page.contains("No MAC address is known for"), state != "backup", "{page}");
    }
    let mut a = answers(true);
    a.drops = json!({"drops": []});
    assert!(overview_page(&a, &View::default(), FORGERY).contains("<p>None.</p>"));
}

/// Nothing that the content security policy would block: no code or style in the page.
#[test]
fn pages_keep_the_security_policy() {
    for page in pages(&answers(true), &service(), &dry_run(), "x") {
        for (tag, attributes) in tags(&page) {
            assert!(tag != "style" && tag != "iframe", "{tag}");
            assert!(
                tag != "script" || attributes.iter().any(|(n, v)| n == "src" && v == "/console/script.js")
            );
            let inline = attributes.iter().find(|(n, _)| n == "style" || n.starts_with("on"));
            assert!(inline.is_none(), "{tag} {inline:?}");
        }
    }
    assert!(!POLICY.contains("unsafe") && POLICY.contains("frame-ancestors 'none'"), "{POLICY}");
    assert!(!SCRIPT.contains("http") && !style().contains("url("));
}

#[test]
fn pages_are_accessible() {
    for page in pages(&answers(true), &service(), &dry_run(), "x") {
        let all = tags(&page);
        let with = |tag: &str, attribute: &str| -> Vec<String> {
            let of = all.iter().filter(|(name, _)| name == tag).flat_map(|(_, a)| a);
            of.filter(|(name, _)| name == attribute).map(|(_, value)| value.clone()).collect()
        };
        let count = |tag: &str| all.iter().filter(|(name, _)| name == tag).count();
        let ids: Vec<&String> =
            all.iter().flat_map(|(_, a)| a).filter(|(n, _)| n == "id").map(|(_, v)| v).collect();
        assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "ids are unique: {ids:?}");
        let labelled: BTreeSet<String> = with("label", "for").into_iter().collect();
        for (tag, attributes) in &all {
            let of = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
            match tag.as_str() {
                "input" if of("type") == Some("hidden") => {}
                "input" | "select" => {
                    assert!(of("id").is_some_and(|id| labelled.contains(id)), "{attributes:?}")
                }
                "meter" | "nav" => assert!(of("aria-label").is_some_and(|l| !l.is_empty())),
                // Those in a picture are parts of it.
                "svg" if matches!(of("class"), Some("lines" | "at")) => {}
                "svg" => assert!(
                    of("aria-hidden") == Some("true")
                        || (of("role") == Some("img") && of("aria-label").is_some())
                ),
                "th" => assert!(matches!(of("scope"), Some("col" | "row"))),
                "html" => assert_eq!(of("lang"), Some("en")),
                _ => {}
            }
            for name in ["aria-labelledby", "aria-describedby"] {
                assert!(of(name).is_none_or(|id| ids.iter().any(|other| *other == id)), "{attributes:?}");
            }
        }
        assert_eq!((count("h1"), count("main"), count("title")), (1, 1, 1));
        assert_eq!(count("table"), count("caption"));
        // No level of headings is left out.
        let levels = all.iter().filter_map(|(name, _)| name.strip_prefix('h')?.parse::<u32>().ok());
        levels.fold(0, |last, level| {
            assert!(level <= last + 1, "h{level} behind h{last}");
            level
        });
    }
}

#[test]
fn states_in_words() {
    let page = overview_page(&answers(true), &View::default(), FORGERY);
    for text in [
        "7 devices: 2 in service, 1 held by the learner, 1 draining, 1 drained, 1 silent, 1 failed",
        "draining by ops at 2026-11-25 09:00:00: 3 connections left (since 2026-11-25 09:00:07)",
        "in service (since 2026-11-25 09:00:07)",
        "failed its health check: its service does not answer its agent",
        "silent, last report 61 s ago: its reports are refused: old key",
        "12 in flight, 99 new/s, 123,456 connections, P99 11.5 ms, report 0.2 s old",
        "Switch in sync.",
        "Changes will be lost at a restart: the disk is full",
        "No device of inference reports, so all stay in service",
        "rack.toml of 2026-11-25 09:00:00 is not applied; in force is that of 2026-11-25 08:00:00. rack.toml:7:1: unknown field",
        "learner q-learning, weights 6:1",
        "in force after 12 ms, 7 writes",
        "superseded by change 5",
        "aria-label=\"Enable s1/nic\"",
        "aria-label=\"Drain s1/cpu\"",
        "Undo change 4",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    assert!(!page.contains("tokens of"), "they are in force");
    assert!(!page.contains("Undo change 3") && !page.contains("Undo change 2"), "they never were in force");
    assert!(
        page.find("rate").expect("a reason") < page.find("ttl").expect("a reason"),
        "the most frequent first"
    );
    let hour = hour_page(&answers(true), FORGERY);
    for text in [
        "New connections: 1354 cpu, 1354 smartnic",
        "Dropped packets: 0.5 all reasons",
        "P99 latency, measured by clients: 12.5 like-s1: P99, 12.5 old: P99",
        "6 like-s1: processors, 120 like-s1: accelerators",
    ] {
        assert!(hour.contains(text), "{text} is not in\n{hour}");
    }
    let trouble = overview_page(&answers(true), &View { trouble: true, ..View::default() }, FORGERY);
    assert!(!trouble.contains("Drain s1/cpu") && trouble.contains("Enable s1/nic"));
    let preview = preview_page("ops", &dry_run(), Some("{}"), FORGERY);
    assert!(
        preview.contains("9 entries") && preview.contains("p4mite") && preview.contains("the learner pauses")
    );
}

#[test]
fn users_without_rights_see_no_forms() {
    let page = overview_page(&answers(false), &View::default(), FORGERY);
    let buttons: Vec<_> = tags(&page).into_iter().filter(|(tag, _)| tag == "button").collect();
    assert_eq!(buttons.len(), 1, "signing out: {buttons:?}");
    assert!(!page.contains("/console/policy"));
}

#[test]
fn forms_become_requests() {
    let fields = |body: &str| form::fields(body.as_bytes()).expect("text");
    let all = fields(
        "policy=prt&metric=compute&high=90&low=+70&weights=s1%2Fcpu%3D5%2C+s1%2Fnic%3D1&note=a%26b&step=&to=set",
    );
    let right = json!({"policy": "prt", "metric": "compute", "high": 90, "low": 70, "weights": {"s1/cpu": 5, "s1/nic": 1}, "note": "a&b"});
    assert_eq!(form::document(&all), Ok(right));
    for (body, part) in [
        ("high=x", "`x` is not a whole number"),
        ("weights=s1", "SERVER/DEVICE=NUMBER"),
        ("weights=s1=-1", "`-1`"),
    ] {
        let e = form::document(&fields(body)).expect_err(body).to_string();
        assert!(e.contains(part), "{e}");
    }
    assert_eq!(form::fields(b"a=%ff"), None);
    assert_eq!(
        form::set("a/b", None),
        form::Wish {
            method: "DELETE",
            path: "/v1/services/a%2Fb/policy".into(),
            body: String::new(),
            change: None
        }
    );
    let changes = answers(true).changes;
    let undo = |i: usize| form::undo(&changes["changes"][i], &Value::Null);
    let policy = undo(0).expect("it was in force");
    assert_eq!((policy.method, policy.path.as_str()), ("PUT", "/v1/services/inference/policy"));
    assert_eq!(policy.body, r#"{"note":"undoes change 5","policy":"p4mite"}"#);
    let device = undo(1).expect("it was in force");
    assert_eq!((device.method, device.body.as_str()), ("DELETE", ""));
    // Another change may have drained another device of a server.
    assert_eq!(device.target("wait_ms=1"), "/v1/devices/s1%2Fnic/drain?wait_ms=1&change=4");
    assert_eq!(policy.target("wait_ms=1"), "/v1/services/inference/policy?wait_ms=1");
    let enable = json!({ "id": 7, "device": "s1", "drain": false, "outcome": "in-force" });
    let drain = form::undo(&enable, &Value::Null).expect("it was in force");
    assert_eq!(
        (drain.method, drain.target("wait_ms=1").as_str()),
        ("PUT", "/v1/devices/s1/drain?wait_ms=1&change=7")
    );
    assert_eq!((undo(2), undo(3)), (None, None));
    let back = form::undo(&changes["changes"][0], &json!({"policy": "p4mite"}));
    assert_eq!(back, Some(form::set("inference", None)), "the policy of the file");
}

#[test]
fn views() {
    let view = |page, trouble, change| View { page, trouble, change };
    assert_eq!(View::from_query("page=3&show=trouble&change=7"), view(2, true, Some(7)));
    assert_eq!(View::from_query("page=0&show=x&change=-1&other"), view(0, false, None));
    assert_eq!(View::from_query("%"), View::default());
}

/// The first page of a large rack is small; every device is on some page, and in the picture.
#[test]
fn a_rack_of_256_servers() {
    let mut a = answers(true);
    let devices: Vec<Value> =
        (0..256).flat_map(|s| ["cpu", "nic", "gpu", "fpga"].map(|d| device(s, d, "in-service"))).collect();
    a.devices = json!({ "devices": devices });
    a.trend = trend(&["cpu", "smartnic", "gpu", "fpga"]);
    let page = overview_page(&a, &View::default(), FORGERY);
    println!("{} bytes: picture {}", page.len(), rack::picture(&a).into_string().len());
    assert!(page.len() < 50_000, "{} bytes", page.len());
    let hour = hour_page(&a, FORGERY);
    assert!(hour.len() < 50_000 && hour.contains("<polyline"), "{} bytes", hour.len());
    let pages: Vec<String> =
        (0..11).map(|page| overview_page(&a, &View { page, ..View::default() }, FORGERY)).collect();
    for s in 0..256 {
        let label = format!("aria-label=\"Drain s{s}/gpu\"");
        assert_eq!(pages.iter().filter(|p| p.contains(&label)).count(), 1, "s{s}");
    }
    // A line of so many squares, each 16 wide with a gap of 4.
    let squares = |picture: &str| -> usize {
        let widths = picture
            .split('M')
            .skip(1)
            .filter_map(|line| line.split('h').nth(1)?.split('"').next()?.parse::<usize>().ok());
        widths.map(|width| (width + 4) / 20).sum()
    };
    assert_eq!(squares(&rack::picture(&a).into_string()), 1024);
    assert!(rack::picture(&a).into_string().contains(">s224 to s255</text>"));
    // The picture of a small one has names.
    let small = rack::picture(&answers(true)).into_string();
    assert!(small.contains("<span class=\"in-service\">switch a:1</span>"), "{small}");
    for part in [
        "<b>s1</b><span class=\"in-service\">cpu</span><span class=\"draining\">nic</span>",
        "<span class=\"failed\">cpu</span>",
    ] {
        assert!(small.contains(part), "{part}: {small}");
    }
}

/// Ten samples are missing: no line leads over the gap. Few samples are no charts.
#[test]
fn gaps_of_the_last_hour() {
    let mut a = answers(true);
    let curves = |a: &Answers| hour::charts(a).into_string().matches("<polyline").count();
    // Three curves of each of two kinds and one of drops, each in two pieces; two of clients' latency; four of weights.
    assert_eq!(curves(&a), 2 * 7 + 2 + 4);
    a.trend["learner"] = json!([]);
    assert_eq!(curves(&a), 14);
    a.trend["samples"] = json!([a.trend["samples"][0]]);
    assert_eq!(curves(&a), 0);
    assert!(hour::charts(&a).into_string().contains("every half minute"));
}

/// An open page gets them again only when there is more to see.
#[test]
fn charts_change_with_samples() {
    let mut a = answers(true);
    let mut later = |ms: u64| {
        a.trend["now_ms"] = (1_000_000 + 120 * 30_000 + ms).into();
        hour::charts(&a).into_string()
    };
    let charts = later(0);
    assert_eq!(later(29_999), charts);
    assert_ne!(later(30_000), charts, "no sample came");
}
