mod devices;
mod members;

use super::*;
use crate::controller::{Controllers, Program};
use crate::plan::tests::p4info;
use serde_json::{Value, json};

const OPS: &str = "Bearer 0123456789abcdef0123";
const BOARD: &str = "Bearer fedcba9876543210fedc";
const AGENTS: &str = "Bearer 89abcdef0123456789ab";

fn text() -> String {
    include_str!("../../../../examples/rack.toml").to_string()
}

fn rack(text: &str) -> Rack {
    Rack::parse("rack.toml", text).unwrap_or_else(|e| panic!("{e}"))
}

/// A desk and a controller whose switch is out of reach, and the last saved state.
struct Office {
    desk: Desk,
    controller: Controllers,
    now: u64,
    kept: String,
    said: Vec<String>,
    /// Every configuration is in force at once, because nothing is to be written.
    at_once: bool,
}

impl Office {
    fn new(text: &str) -> Office {
        let tokens =
            format!("ops {}\nboard {} read\nagents {} members", &OPS[7..], &BOARD[7..], &AGENTS[7..]);
        let rack = rack(text);
        let program = Program { p4info: p4info(), device_config: b"the program".to_vec() };
        Office {
            desk: Desk::new(rack.clone(), Tokens::parse(&tokens).expect("valid")),
            controller: Controllers::new(rack, program).expect("a balancer"),
            now: 1_795_290_600_000,
            kept: String::new(),
            said: Vec::new(),
            at_once: false,
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Configure(rack) => {
                    let input = crate::controller::Input::Config(rack);
                    for (_, o) in self.controller.step(std::time::Duration::ZERO, 0, input) {
                        if let crate::controller::Output::Event(e) = o {
                            let more = self.desk.event(self.now, &e, false);
                            self.perform(more);
                        }
                    }
                    if self.at_once {
                        let more = self.desk.event(self.now, &Event::InSync { writes: 0 }, true);
                        self.perform(more);
                    }
                }
                Effect::Save(text) => self.kept = text,
                Effect::Say(line) => self.said.push(line),
            }
        }
    }

    fn ask(&mut self, request: &Request<'_>) -> (Response, Option<Wait>) {
        self.now += 10;
        let answer = self.desk.ask(self.now, &self.controller, request);
        self.perform(answer.effects);
        (answer.response, answer.wait)
    }

    fn get(&mut self, target: &str) -> Value {
        let (r, _) = self.ask(&Request { method: "GET", target, authorization: Some(BOARD), body: b"" });
        assert_eq!(r.status, 200, "{target}: {}", r.text());
        serde_json::from_str(&r.text()).expect("JSON")
    }

    fn put(&mut self, target: &str, body: &str) -> (u16, Value) {
        let request = Request { method: "PUT", target, authorization: Some(OPS), body: body.as_bytes() };
        let (r, _) = self.ask(&request);
        (r.status, serde_json::from_str(&r.text()).expect("JSON"))
    }

    fn policy(&self) -> &'static str {
        let named = |r: &Rack| r.services[0].policy.name();
        assert_eq!(named(self.desk.rack()), named(self.controller.rack()), "desk and controller agree");
        named(self.desk.rack())
    }
}

const POLICY: &str = "/v1/services/inference/policy";

#[test]
fn a_change_and_its_history() {
    let mut o = Office::new(&text());
    assert_eq!(o.get("/v1/services")["services"][0]["source"], "file");
    let (status, change) = o.put(POLICY, r#"{"block": "min-finder", "metric": "cpu", "note": "night"}"#);
    assert_eq!((status, &change["outcome"], &change["who"]), (202, &json!("pending"), &json!("ops")));
    assert_eq!(change["before"]["policy"], "p4mite");
    assert_eq!(change["at"], "2026-11-21T19:50:00.020Z");
    assert_eq!(o.policy(), "least-utilised");
    let now = o.get("/v1/services/inference");
    assert_eq!(
        (&now["source"], &now["change"], &now["policy"]["metric"]),
        (&json!("api"), &json!(1), &json!("compute"))
    );
    // The next one comes before the switch held the first.
    let (_, second) = o.put(POLICY, r#"{"block": "round-robin", "weights": {"s1/nic": 3}}"#);
    assert_eq!(second["before"]["policy"], "least-utilised");
    assert_eq!(o.get("/v1/changes/1")["outcome"], "superseded");
    let devices = o.get("/v1/services/inference")["devices"].clone();
    let weight = |name: &str| {
        devices.as_array().expect("a list").iter().find(|d| d["device"] == name).expect("there")["weight"]
            .clone()
    };
    assert_eq!((weight("s1/nic"), weight("s1/cpu")), (json!(3), json!(5)));
    // A request is complete: weights that it does not name are those of the file.
    o.put(POLICY, r#"{"policy": "wrr"}"#);
    assert_eq!(o.desk.rack().services[0].members[0].devices[1].weight, 1);
    let effects = o.desk.event(o.now + 7, &Event::InSync { writes: 4 }, true);
    assert!(matches!(effects[..], [Effect::Save(_)]));
    let done = o.get("/v1/changes/3");
    assert_eq!(
        (&done["outcome"], &done["writes"], &done["after_ms"]),
        (&json!("in-force"), &json!(4), &json!(7))
    );
    let list = o.get("/v1/changes?service=inference&limit=2");
    assert_eq!(
        list["changes"].as_array().map(|l| l.iter().map(|c| c["id"].clone()).collect()),
        Some(vec![json!(3), json!(2)])
    );
    // Back to the file.
    let request = Request { method: "DELETE", target: POLICY, authorization: Some(OPS), body: b"" };
    let (r, wait) = o.ask(&request);
    assert_eq!((r.status, wait), (202, Some(Wait { change: 4, at_most_ms: 5000 })));
    assert_eq!((o.policy(), &o.get(POLICY)["source"]), ("p4mite", &json!("file")));
}

#[test]
fn refusals_name_the_remedy() {
    let mut o = Office::new(&text());
    let mut check =
        |method: &str, target: &str, authorization: Option<&str>, body: &str, status: u16, parts: &[&str]| {
            let (r, _) = o.ask(&Request { method, target, authorization, body: body.as_bytes() });
            assert_eq!(r.status, status, "{method} {target}: {}", r.text());
            let body: Value = serde_json::from_str(&r.text()).expect("JSON");
            let said = body["error"].as_str().expect("an error");
            parts.iter().for_each(|p| assert!(said.contains(p), "{said}\nlacks {p}"));
            r
        };
    let put = |body: &'static str, status, parts: &'static [&'static str]| {
        ("PUT", POLICY, Some(OPS), body, status, parts)
    };
    for (method, target, authorization, body, status, parts) in [
        ("GET", "/v1/services", None, "", 401, &["Authorization: Bearer"][..]),
        (
            "GET",
            "/v1/services",
            Some("Bearer wrong"),
            "",
            401,
            &["this token is not in the controller's token file"],
        ),
        ("PUT", POLICY, Some(BOARD), "{}", 403, &["`board` is read-only"]),
        ("POST", POLICY, Some(OPS), "{}", 405, &["use GET, PUT, DELETE"]),
        ("PUT", "/v1/services", Some(OPS), "{}", 405, &["use GET"]),
        ("GET", "/v1/nothing", Some(OPS), "", 404, &["/openapi.json"]),
        ("GET", "nothing", Some(OPS), "", 404, &["/openapi.json"]),
        ("GET", "/v1/services/web", Some(OPS), "", 404, &["no service `web`", "inference"]),
        ("PUT", "/v1/services/web/policy", Some(OPS), "{}", 404, &["no service `web`", "inference"]),
        ("GET", "/v1/changes/7", Some(OPS), "", 404, &["no change `7`", "/v1/changes"]),
        ("GET", "/v1/changes?limit=2000", Some(OPS), "", 400, &["`limit=2000`", "0 to 1000"]),
        (
            "GET",
            "/v1/changes?limits=2",
            Some(OPS),
            "",
            400,
            &["unknown parameter `limits`", "service, limit"],
        ),
        ("GET", "/v1/changes?limit=1&limit=2", Some(OPS), "", 400, &["twice"]),
        ("GET", "/v1/changes?service=%zz", Some(OPS), "", 400, &["percent"]),
        ("GET", "/v1/status?x", Some(OPS), "", 400, &["unknown parameter `x`", "none"]),
        ("PUT", "/v1/services/inference/policy?dry_run=yes", Some(OPS), "{}", 400, &["true or false"]),
        put("", 400, &["write an object"]),
        put(r#"{"policy": "fastest"}"#, 400, &["unknown policy", "\"jsq\""]),
        put(r#"{"policy": "wrr", "weights": {"s1/gpu": 2}}"#, 422, &["no device `s1/gpu`", "s1/cpu"]),
        put(r#"{"policy": "dynamic-wrr", "metric": "queue"}"#, 422, &["a percentage"]),
    ] {
        check(method, target, authorization, body, status, parts);
    }
    let r = check("GET", "/v1/services", None, "", 401, &[]);
    assert_eq!(r.headers, [("www-authenticate", "Bearer".to_string())]);
    let r = check("PATCH", POLICY, Some(OPS), "", 405, &[]);
    assert_eq!(r.headers, [("allow", "GET, PUT, DELETE".to_string())]);
    let long = format!("{{\"policy\": \"wrr\", \"note\": \"{}\"}}", "x".repeat(MAX_BODY));
    check("PUT", POLICY, Some(OPS), &long, 413, &["bytes"]);
    assert_eq!(o.desk.history().iter().count(), 0, "nothing was changed");
}

#[test]
fn the_newest_word_counts() {
    let file = text();
    let mut o = Office::new(&file);
    o.put(POLICY, r#"{"policy": "wrr"}"#);
    // The file changes elsewhere: the requested setting stays.
    let effects = o.desk.file_changed(o.now, rack(&file.replace("# slots = 256", "slots = 512")));
    o.perform(effects);
    assert_eq!((o.policy(), o.desk.rack().services[0].slots), ("wrr", 512));
    // The file has a new policy: it is newer.
    let newer = file.replace("policy = \"p4mite\"", "policy = \"jsq\"");
    let effects = o.desk.file_changed(o.now, rack(&newer));
    o.perform(effects);
    assert_eq!(o.policy(), "jsq");
    assert!(o.said[0].contains("change 1 ends"), "{:?}", o.said);
    assert_eq!(o.get("/v1/changes?limit=1")["changes"][0]["outcome"], "noted");
    // A device that a request names goes.
    o.put(POLICY, r#"{"policy": "wrr", "weights": {"s2/nic": 2}}"#);
    let (start, end) =
        (newer.rfind("[[server.device]]").expect("there"), newer.find("[[service]]").expect("there"));
    let effects = o.desk.file_changed(o.now, rack(&format!("{}{}", &newer[..start], &newer[end..])));
    o.perform(effects);
    assert_eq!(o.policy(), "jsq");
    assert!(o.said[1].contains("waits: ") && o.said[1].contains("no device `s2/nic`"), "{:?}", o.said);
    assert_eq!(o.get("/v1/services")["services"][0]["source"], "file", "a pending change is not in force");
    // The request is back in force: after a restart, and after the whole service was absent.
    let mut again = Office::new(&newer);
    let effects = again.desk.restore(again.now, &o.kept).expect("the saved state");
    assert!(
        matches!(&effects[..], [Effect::Say(line), Effect::Save(_)] if line.contains("is in force again"))
    );
    assert_eq!(again.desk.rack().services[0].policy.name(), "wrr");
    let effects = o.desk.file_changed(o.now, rack(&newer));
    o.perform(effects);
    assert_eq!(o.policy(), "wrr");
    assert!(o.said[2].contains("is in force again"), "{:?}", o.said);
    let effects = o.desk.file_changed(o.now, rack(&newer[..newer.find("[[service]]").expect("there")]));
    o.perform(effects);
    assert_eq!(o.desk.rack().services.len(), 0);
    assert!(o.said[3].contains("waits: the rack's file has no such service"), "{:?}", o.said);
    let effects = o.desk.file_changed(o.now, rack(&newer));
    o.perform(effects);
    assert_eq!((o.policy(), o.said.len()), ("wrr", 5));
    assert_eq!(o.desk.rack().services[0].members[1].devices[1].weight, 2);
}

/// Settings that cannot have an effect are accepted with a warning.
#[test]
fn settings_without_effect() {
    let mut o = Office::new(&text());
    let mut warning = |body: &str| {
        let (status, change) = o.put(POLICY, body);
        assert_eq!(status, 202);
        let (_, dry) = o.put(&format!("{POLICY}?dry_run=true"), body);
        let warning = change["warning"].as_str().unwrap_or_default().to_string();
        assert_eq!(dry["notes"].to_string().contains("no effect"), warning.contains("no effect"), "{dry}");
        warning
    };
    assert!(
        warning(r#"{"policy": "ecmp", "high": 3}"#)
            .contains("`high` and `low` have no effect: policy `ecmp`")
    );
    assert_eq!(warning(r#"{"policy": "prt", "high": 60}"#), "");
    assert_eq!(warning(r#"{"policy": "jiq", "high": 3}"#), "");
    assert!(warning(r#"{"policy": "chosen"}"#).contains("no [service.prometheus] in rack.toml"));
    assert_eq!(warning(r#"{"policy": "ecmp"}"#), "");
}

/// A switch that is away for long does not push everything else out of the news.
#[test]
fn repeated_news_are_counted() {
    let mut o = Office::new(&text());
    let start = o.now;
    let accepted = || Event::ConfigAccepted { changed: "policy of web".into(), by: "change 1 by ops".into() };
    o.desk.event(start, &accepted(), false);
    for i in 1..=500u64 {
        let retry_in = std::time::Duration::from_millis(100 + i % 5);
        let lost = Event::ConnectionLost { reason: "connection refused".into(), retry_in };
        o.desk.event(start + i * 1000, &Event::Connecting { address: "a:1".into() }, false);
        o.desk.event(start + i * 1000, &lost, false);
    }
    o.desk.event(start + 501_000, &accepted(), false);
    let news = o.get("/v1/status")["news"].clone();
    let all: Vec<_> =
        news.as_array().expect("news").iter().map(|n| (n["count"].as_u64(), n["text"].as_str())).collect();
    let accepted = "configuration accepted, from change 1 by ops: policy of web";
    let lost = "no connection to the switch: connection refused; trying again in 100ms";
    assert_eq!(
        all,
        [
            (Some(1), Some(accepted)),
            (Some(500), Some(lost)),
            (Some(500), Some("connecting to the switch at a:1")),
            (Some(1), Some(accepted))
        ]
    );
    assert_eq!(
        (&news[1]["first"], &news[1]["at"]),
        (&json!("2026-11-21T19:50:01.000Z"), &json!("2026-11-21T19:58:20.000Z"))
    );
}

/// What is wrong with a followed file is known until the file is right again, also if the controller rejects it.
#[test]
fn files_that_are_not_applied() {
    let mut o = Office::new(&text());
    assert_eq!(o.get("/v1/status")["files"], json!([]), "nothing is followed");
    let (first, second, third) = (1_795_290_000_000, 1_795_290_060_000, 1_795_290_120_000);
    o.desk.file_applied(File::Rack, first);
    o.desk.file_applied(File::Tokens, first);
    o.desk.file_refused(File::Rack, second, "rack.toml:7:1: unknown field");
    let refused = json!({ "of": "2026-11-21T19:41:00.000Z", "why": "rack.toml:7:1: unknown field" });
    let tokens = json!({ "file": "tokens", "in_force": "2026-11-21T19:40:00.000Z", "refused": null });
    let rack_file = |in_force: &str, refused: &Value| json!({ "file": "rack.toml", "in_force": in_force, "refused": refused });
    let shown = |o: &mut Office| o.get("/v1/status")["files"].clone();
    assert_eq!(shown(&mut o), json!([rack_file("2026-11-21T19:40:00.000Z", &refused), tokens]));
    // A change by API says nothing about the file.
    o.put(POLICY, r#"{"policy": "wrr"}"#);
    assert_eq!(shown(&mut o)[0]["refused"], refused);
    let effects = o.desk.file_read(o.now, rack(&text()), third);
    o.perform(effects);
    assert_eq!(shown(&mut o)[0], rack_file("2026-11-21T19:42:00.000Z", &Value::Null));
    drop(o.desk.file_read(o.now, rack(&text().replace("weight = 5", "weight = 4")), third + 60_000));
    drop(o.desk.event(o.now, &Event::ConfigRejected { reason: "no room".into() }, false));
    let refused = json!({ "of": "2026-11-21T19:43:00.000Z", "why": "no room" });
    assert_eq!(shown(&mut o)[0], rack_file("2026-11-21T19:42:00.000Z", &refused));
    assert_eq!(o.desk.followed().each().collect::<Vec<_>>(), [(File::Rack, true), (File::Tokens, false)]);
}

#[test]
fn a_rejected_change_leaves_no_trace() {
    let mut o = Office::new(&text());
    o.put(POLICY, r#"{"policy": "wrr"}"#);
    // As the pump does it, with a controller that says no.
    let request =
        Request { method: "PUT", target: POLICY, authorization: Some(OPS), body: br#"{"policy": "jsq"}"# };
    let answer = o.desk.ask(o.now, &o.controller, &request);
    assert!(matches!(answer.effects[..], [Effect::Save(_), Effect::Configure(_)]));
    let effects = o.desk.event(o.now, &Event::ConfigRejected { reason: "for a reason".into() }, false);
    o.perform(effects);
    assert_eq!(o.policy(), "wrr");
    let r = o.desk.outcome(2);
    assert!(r.status == 409 && r.text().contains("for a reason"), "{}", r.text());
    assert_eq!(o.get("/v1/changes/1")["outcome"], "pending", "the one before is still on its way");
    let effects = o.desk.event(
        o.now,
        &Event::ConnectionLost { reason: "gone".into(), retry_in: std::time::Duration::ZERO },
        false,
    );
    assert_eq!(effects, []);
    assert!(o.get("/v1/changes/1")["reason"].as_str().expect("why").contains("gone"));
}

/// A configuration that needs no writes is in force before the call that made it returns.
#[test]
fn the_newest_state_is_saved() {
    let mut o = Office::new(&text());
    o.at_once = true;
    for (n, (target, body)) in
        (1..).zip([(POLICY, r#"{"policy": "wrr"}"#), ("/v1/devices/s2%2Fcpu/drain", "")])
    {
        o.put(target, body);
        assert_eq!(o.get(&format!("/v1/changes/{n}"))["outcome"], "in-force");
        assert_eq!(o.kept, o.desk.kept(), "{target}");
    }
    // Another controller's state, which is saved before its configuration is given to the controller.
    let kept = o.kept.replace("\"wrr\"", "\"jsq\"");
    let effects = o.desk.adopt(o.now, &kept).expect("a state");
    assert!(matches!(effects.last(), Some(Effect::Configure(_))), "{effects:?}");
    // The same of a file that ends a request, and of members.
    let effects = o.desk.file_changed(o.now, rack(&text().replace("\"p4mite\"", "\"ecmp\"")));
    assert!(matches!(effects[..], [Effect::Say(_), Effect::Save(_), Effect::Configure(_)]), "{effects:?}");
}

#[test]
fn kept_over_a_restart() {
    let file = text();
    let mut o = Office::new(&file);
    o.put(
        POLICY,
        r#"{"block": "priority", "metric": "memory", "high": 70, "low": 50, "priorities": {"s1/nic": 0}}"#,
    );
    let kept = o.kept.clone();
    let mut again = Office::new(&file);
    let effects = again.desk.restore(again.now, &kept).expect("the saved state");
    assert_eq!(effects, []);
    assert_eq!(again.desk.rack(), o.desk.rack());
    assert_eq!(again.desk.history(), o.desk.history());
    assert_eq!(again.desk.kept(), kept);
    // Meanwhile the file has changed.
    let mut newer = Office::new(&file.replace("policy = \"p4mite\"", "policy = \"ecmp\""));
    let effects = newer.desk.restore(newer.now, &kept).expect("the saved state");
    assert!(matches!(effects[..], [Effect::Say(_), Effect::Save(_)]), "{effects:?}");
    assert_eq!(newer.desk.rack().services[0].policy.name(), "ecmp");
    for (wrong, why) in [
        ("", "EOF"),
        ("{}", "missing field"),
        ("[1]", "invalid length"),
        (&kept.replace("\"version\": 1", "\"version\": 2"), "its version is 2"),
        (&kept.replace("prt", "xyz"), "unknown policy `xyz`"),
    ] {
        let e = Office::new(&file).desk.restore(0, wrong).expect_err(wrong).to_string();
        assert!(e.contains(why), "{e}");
    }
}

#[test]
fn only_the_last_changes_are_kept() {
    let mut o = Office::new(&text());
    for i in 0..MAX_CHANGES + 5 {
        o.put(POLICY, if i % 2 == 0 { r#"{"policy": "wrr"}"# } else { r#"{"policy": "jsq"}"# });
    }
    assert_eq!(o.desk.history().iter().count(), MAX_CHANGES);
    assert_eq!(o.desk.history().iter().next().map(|c| c.id), Some(6));
    assert_eq!(o.get("/v1/changes?limit=1000")["changes"].as_array().map(Vec::len), Some(MAX_CHANGES));
}

/// Whether a value matches a schema of the description.
fn fits(value: &Value, schema: &Value, all: &Value) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{value} {what} {schema}"));
    if let Some(path) = schema["$ref"].as_str() {
        let target = all.pointer(path.trim_start_matches('#')).ok_or_else(|| format!("no {path}"))?;
        return fits(value, target, all);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return if any.iter().any(|s| fits(value, s, all).is_ok()) { Ok(()) } else { wrong("fits none of") };
    }
    let right = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        other => return Err(format!("a schema of type {other:?}")),
    };
    if !right {
        return wrong("is of another type than");
    }
    if let Some(list) = schema["enum"].as_array()
        && !list.contains(value)
    {
        return wrong("is not listed in");
    }
    if let (Some(n), Some(max)) = (value.as_u64(), schema["maximum"].as_u64())
        && n > max
    {
        return wrong("is too much for");
    }
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            if !object.contains_key(name.as_str().unwrap_or("")) {
                return wrong(&format!("lacks {name} of"));
            }
        }
        for (name, inner) in object {
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, Value::Object(_)) => fits(inner, &schema["additionalProperties"], all)?,
                (Value::Null, _) if schema["properties"].is_object() => {
                    return wrong(&format!("has {name}, unlike"));
                }
                (Value::Null, _) => {}
                (s, _) => fits(inner, s, all)?,
            }
        }
    }
    for item in value.as_array().into_iter().flatten() {
        fits(item, &schema["items"], all)?;
    }
    Ok(())
}

/// The description lists all routes, its examples are accepted, and answers match it.
#[test]
fn the_description_is_true() {
    let mut o = Office::new(&text());
    let doc = o.get("/openapi.json");
    let mut described: Vec<(String, String)> = Vec::new();
    for (path, methods) in doc["paths"].as_object().expect("paths") {
        described
            .extend(methods.as_object().expect("methods").keys().map(|m| (m.to_uppercase(), path.clone())));
    }
    described.sort();
    let mut routes: Vec<(String, String)> =
        ROUTES.iter().map(|(m, p)| (m.to_string(), p.to_string())).collect();
    routes.sort();
    assert_eq!(described, routes);
    let examples = doc["components"]["schemas"]["Policy"]["examples"].as_array().expect("examples").clone();
    for (i, example) in examples.iter().enumerate() {
        assert_eq!(fits(example, &doc["components"]["schemas"]["Policy"], &doc), Ok(()));
        assert_eq!(o.put(POLICY, &example.to_string()).0, 202, "{example}");
        o.desk.event(o.now, &Event::InSync { writes: i }, true);
    }
    o.put(POLICY, r#"{"policy": "wrr"}"#);
    let names = doc["components"]["schemas"]["Policy"]["properties"].as_object().expect("properties");
    let full = Document {
        weights: [("a/b".to_string(), 1)].into(),
        priorities: [("a/b".to_string(), 1)].into(),
        ..Document::default()
    };
    let mut fields: Vec<String> =
        serde_json::to_value(&full).expect("JSON").as_object().expect("an object").keys().cloned().collect();
    fields.extend(
        [
            "policy", "block", "metric", "metric2", "weight", "weight2", "step", "choices", "high", "low",
            "count", "servers", "ties", "note",
        ]
        .map(String::from),
    );
    fields.sort();
    assert_eq!(names.keys().cloned().collect::<Vec<_>>(), fields, "fields of a policy");
    for (method, path) in ROUTES {
        let target = path.replace("{service}", "inference").replace("{change}", "1");
        let asked = [
            ("", OPS),
            ("", "Bearer none"),
            ("?dry_run=true", OPS),
            ("?nonsense=1", OPS),
            ("?limit=1000000", OPS),
            ("?wait_ms=%", OPS),
        ];
        for (query, authorization) in asked {
            let body = examples[0].to_string();
            let target = format!("{target}{query}");
            let (r, _) = o.ask(&Request {
                method,
                target: &target,
                authorization: Some(authorization),
                body: body.as_bytes(),
            });
            let answers = &doc["paths"][path][method.to_lowercase()]["responses"];
            let value: Value = serde_json::from_str(&r.text()).expect("JSON");
            let described = &answers[r.status.to_string()];
            let schema = &described["content"]["application/json"]["schema"];
            assert!(schema.is_object(), "{method} {target}: {} is not described", r.status);
            assert_eq!(fits(&value, schema, &doc), Ok(()), "{method} {target}: {}", r.status);
            let bad = query.len() > 1 && query != "?dry_run=true";
            assert!(r.status == 400 || !bad, "{method} {target}: {}", r.status);
        }
    }
}

/// A learner's weights replace the file's; a request overrides them until it is withdrawn.
#[test]
fn a_learner_and_an_operator() {
    let learn = "\n[learn]\nlearner = \"thompson\"\n[learn.clients]\nurl = \"http://127.0.0.1:9090\"\np99_ms = \"p99\"\n";
    let plain = text().replace("policy = \"p4mite\"", "policy = \"wrr\"");
    let learning = format!("{plain}{learn}");
    let mut o = Office::new(&learning);
    let weights = |o: &Office| {
        assert_eq!(o.desk.rack(), o.controller.rack());
        let devices = &o.desk.rack().services[0].members[0].devices;
        [0, 1].map(|i| if devices[i].enabled { devices[i].weight } else { 0 })
    };
    let of = |cpu, accelerator| {
        let class = crate::config::Class { name: "like-s1".into(), servers: vec![1, 2], learns: true };
        let weights = pointsman_decide::Weights { cpu, accelerator };
        crate::learn::ServiceWeights(vec![crate::learn::ClassWeights { class, weights }])
    };
    let about = |paused: bool, weights: &str| {
        let class = json!({"class": "like-s1", "servers": ["s1", "s2"], "learns": true, "weights": weights});
        json!({"learner": "thompson", "paused": paused, "weights": weights, "classes": [class]})
    };
    let learnt = |o: &mut Office, cpu, accelerator| {
        let effects = o.desk.learnt("inference", of(cpu, accelerator));
        o.perform(effects);
    };
    assert_eq!(weights(&o), [5, 1]);
    assert_eq!(o.get("/v1/services/inference")["learner"]["weights"], Value::Null);
    learnt(&mut o, 6, 2);
    assert_eq!(weights(&o), [6, 2]);
    assert!(o.desk.learnt("inference", of(6, 2)).is_empty());
    learnt(&mut o, 6, 0);
    assert_eq!(weights(&o), [6, 0]);
    let shown = o.get("/v1/services/inference");
    assert_eq!(shown["learner"], about(false, "6:0"));
    assert_eq!((&shown["source"], o.desk.history().iter().count()), (&json!("file"), 0));
    // Held, which is not draining: no event reports that it can be stopped.
    let device = |shown: &Value, i: usize| {
        let d = &shown["devices"][i];
        [&d["state"], &d["enabled"], &d["weight"]].map(Value::clone)
    };
    assert_eq!(device(&shown, 0), [json!("in-service"), json!(true), json!(6)]);
    assert_eq!(device(&shown, 1), [json!("held"), json!(true), json!(0)]);
    let status = o.get("/v1/status");
    assert_eq!((&status["draining"], &status["held"]), (&json!([]), &json!(["s1/nic", "s2/nic"])));
    let said = |o: &mut Office, what: &str| o.get("/v1/status")["news"].to_string().matches(what).count();
    assert_eq!(
        said(
            &mut o,
            "held at weight 0 by the learner, in service but without new connections: s1/nic, s2/nic"
        ),
        1
    );
    // The file changes elsewhere.
    let effects = o.desk.file_changed(o.now, rack(&learning.replace("weight = 5", "weight = 4")));
    o.perform(effects);
    assert_eq!(weights(&o), [6, 0]);

    // A device that an operator disabled is different.
    let disabled = learning.replacen("weight = 1\n", "weight = 1\nenabled = false\n", 1);
    let effects = o.desk.file_changed(o.now, rack(&disabled));
    o.perform(effects);
    let status = o.get("/v1/status");
    assert_eq!((&status["draining"][0]["device"], &status["held"]), (&json!("s1/nic"), &json!(["s2/nic"])));
    let shown = o.get("/v1/services/inference");
    assert_eq!(device(&shown, 1), [json!("draining"), json!(false), json!(1)]);
    let effects = o.desk.file_changed(o.now, rack(&learning.replace("weight = 5", "weight = 4")));
    o.perform(effects);

    // A request says everything, the accelerator's being enabled included.
    let dry = o.put(&format!("{POLICY}?dry_run=true"), r#"{"policy": "wrr", "weights": {"s1/nic": 3}}"#).1;
    assert!(dry["notes"].to_string().contains("the learner `thompson` pauses until"), "{dry}");
    assert_eq!(weights(&o), [6, 0]);
    o.put(POLICY, r#"{"policy": "wrr", "weights": {"s1/nic": 3}}"#);
    assert_eq!(weights(&o), [4, 3]);
    assert_eq!(o.get("/v1/status")["held"], json!([]));
    assert_eq!(said(&mut o, "no longer held: s1/nic, s2/nic"), 1);
    assert!(o.desk.is_overridden("inference"));
    learnt(&mut o, 6, 5);
    assert_eq!(weights(&o), [4, 3]);
    let shown = o.get("/v1/services/inference");
    assert_eq!(shown["learner"], about(true, "6:5"));
    let reset = Request { method: "DELETE", target: POLICY, authorization: Some(OPS), body: b"" };
    o.ask(&reset);
    assert_eq!(weights(&o), [6, 5]);

    // Servers of two classes have different weights.
    let mut two = of(6, 0);
    two.0[0].class.servers = vec![1];
    two.0.extend(of(6, 3).0);
    (two.0[1].class.name, two.0[1].class.servers) = ("old".into(), vec![2]);
    let effects = o.desk.learnt("inference", two);
    o.perform(effects);
    assert_eq!(weights(&o), [6, 0]);
    let shown = o.get("/v1/services/inference");
    assert_eq!(shown["learner"]["weights"], "like-s1 6:0, old 6:3");
    let of_second: Vec<&Value> = (2..4).map(|i| &shown["devices"][i]["weight"]).collect();
    assert_eq!(of_second, [&json!(6), &json!(3)]);
    assert_eq!(o.get("/v1/status")["held"], json!(["s1/nic"]));
    learnt(&mut o, 6, 5);

    // A change in the file ends a request, and the learner resumes.
    o.put(POLICY, r#"{"policy": "ecmp"}"#);
    let effects = o.desk.file_changed(
        o.now,
        rack(&learning.replace("policy = \"wrr\"", "policy = \"wrr\"\ntuning = { step = 1 }")),
    );
    o.perform(effects);
    assert_eq!((o.policy(), weights(&o)), ("wrr", [6, 5]));
    // Without a learner the file's weights count.
    let effects = o.desk.file_changed(o.now, rack(&plain));
    o.perform(effects);
    assert_eq!(weights(&o), [5, 1]);
    assert_eq!(o.get("/v1/services/inference")["learner"], Value::Null);
}

#[test]
fn little_room_keeps_the_newest_changes_and_their_numbers() {
    let mut o = Office::new(&text());
    o.desk.keep_within(4000);
    for i in 0..50 {
        o.put(POLICY, &format!("{{\"policy\": \"jsq\", \"note\": \"change {i}\"}}"));
    }
    let kept = o.desk.kept();
    assert!(kept.len() < 6000 && kept.contains("change 49") && !kept.contains("change 20"), "{kept}");
    let mut again = Office::new(&text());
    again.desk.adopt(0, &kept).expect("it can be read");
    assert!((3..30).contains(&again.desk.history().iter().count()));
    assert_eq!(again.desk.history().iter().next_back().map(|c| c.id), Some(50));
    // However little room there is, the last number is known.
    o.desk.keep_within(1);
    again.desk.adopt(0, &o.desk.kept()).expect("it can be read");
    assert_eq!(again.desk.history().iter().map(|c| c.id).collect::<Vec<_>>(), [50]);
}
