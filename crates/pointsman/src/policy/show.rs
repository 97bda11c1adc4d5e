//! Answers of the API for people.

use pointsman_panel::elapsed;
use serde_json::Value;
use std::fmt::Write;

/// A policy in short form: its name and options.
fn brief(policy: &Value) -> String {
    let mut out = policy["policy"].as_str().unwrap_or("?").to_string();
    for (name, value) in policy.as_object().into_iter().flatten() {
        let value = match value {
            Value::String(s) => s.clone(),
            Value::Object(map) => map.iter().map(|(n, v)| format!("{n}:{v}")).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        };
        if name != "policy" && name != "note" {
            let _ = write!(out, " {name}={value}");
        }
    }
    out
}

fn text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

/// Columns, as wide as they need to be.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(s, w)| format!("{s:w$}")).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|c| c.to_string()).collect()
}

/// The services, one a line.
pub fn list(answer: &Value) -> String {
    let services = answer["services"].as_array().map_or(&[][..], Vec::as_slice);
    let learns = services.iter().any(|s| !s["learner"].is_null());
    let mut rows = vec![row(&["SERVICE", "POLICY", "SOURCE", "WHO", "SINCE"])];
    if learns {
        rows[0].push("LEARNER".into());
    }
    for s in services {
        let mut cells = vec![
            text(&s["service"]),
            brief(&s["policy"]),
            text(&s["source"]),
            text(&s["who"]),
            text(&s["since"]),
        ];
        if learns {
            cells.push(match &s["learner"] {
                Value::Null => "-".into(),
                l if l["paused"] == true => format!("{}, paused", text(&l["learner"])),
                l => format!("{} {}", text(&l["learner"]), text(&l["weights"])),
            });
        }
        rows.push(cells);
    }
    table(&rows)
}

/// A service and its devices.
pub fn show(s: &Value) -> String {
    let mut out = format!(
        "service    {}\npolicy     {}\nsource     {}\n",
        text(&s["service"]),
        brief(&s["policy"]),
        match (&s["who"], &s["since"]) {
            (Value::Null, _) => "rack.toml".to_string(),
            (who, since) => format!("change {} by {} at {}", s["change"], text(who), text(since)),
        }
    );
    if let Some(l) = s["learner"].as_object() {
        let how = if l["paused"] == true { "paused; `policy reset` resumes it" } else { "active" };
        let _ = writeln!(out, "learner    {}, weights {}, {how}", text(&l["learner"]), text(&l["weights"]));
        let classes = l["classes"].as_array().map_or(&[][..], Vec::as_slice);
        for c in classes.iter().filter(|_| classes.len() > 1) {
            let servers: Vec<String> = c["servers"].as_array().into_iter().flatten().map(text).collect();
            let fixed = if c["learns"] == true { "" } else { ", nothing to balance" };
            let (class, weights) = (text(&c["class"]), text(&c["weights"]));
            let _ = writeln!(out, "class      {class}, weights {weights}{fixed}: {}", servers.join(", "));
        }
    }
    let frontends: Vec<String> = s["frontends"].as_array().into_iter().flatten().map(text).collect();
    let _ = writeln!(out, "frontends  {}\n", frontends.join(", "));
    let mut rows = vec![row(&["DEVICE", "WEIGHT", "PRIORITY", "STATE"])];
    for d in s["devices"].as_array().into_iter().flatten() {
        let state = match d["state"].as_str() {
            Some("draining") if d["drained"] == true => {
                "draining: by request (`pointsman enable` ends it)".into()
            }
            Some("draining") if d["enabled"] == false => {
                "draining: enabled = false in the rack's file".into()
            }
            Some("draining") => "draining: its server has weight 0".into(),
            _ => state(d),
        };
        rows.push(vec![text(&d["device"]), text(&d["weight"]), text(&d["priority"]), state]);
    }
    out + &table(&rows)
}

/// The state of a device, with the reason if something is wrong.
fn state(d: &Value) -> String {
    match (d["state"].as_str(), d["reason"].as_str()) {
        (Some("silent" | "unresolved"), Some(why)) => format!("{}: {why}", words(d)),
        _ => words(d),
    }
}

/// The state of a device in a few words.
pub fn words(d: &Value) -> String {
    match d["state"].as_str() {
        Some("in-service") => "in service".into(),
        Some("no-report") => "no report yet".into(),
        Some("failed") => "failed health check".into(),
        Some("held") => "in service, held at weight 0 by the learner".into(),
        Some("draining") => format!("draining: {}", connections_left(d)),
        Some("drained") => "drained: no connections left".into(),
        _ => text(&d["state"]),
    }
}

/// What else there is to know of a device: why it gets no connections, and the last change by an operator.
fn notes(d: &Value) -> Vec<String> {
    let why = d["reason"].as_str().map(|why| format!("{}: {why}", words(d)));
    let drained = match (d["drained"]["who"].as_str(), d["drained"]["since"].as_str()) {
        (Some(who), Some(since)) => Some(format!("drained by {who} at {since}")),
        _ => None,
    };
    let c = &d["last_change"];
    // A drain that lasts is the last change, mostly.
    let change = (!c.is_null() && c["change"] != d["drained"]["change"])
        .then(|| format!("last change: {} by {} at {}", text(&c["what"]), text(&c["who"]), text(&c["at"])));
    why.into_iter().chain(drained).chain(change).collect()
}

/// Notes below the table, devices with the same one together.
fn below(devices: &[Value]) -> String {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for d in devices {
        for note in notes(d) {
            match found.iter_mut().find(|(other, _)| *other == note) {
                Some((_, names)) => names.push(text(&d["device"])),
                None => found.push((note, vec![text(&d["device"])])),
            }
        }
    }
    found.iter().map(|(note, names)| wrapped(&format!("{}  {note}", names.join(", ")))).collect()
}

/// Longest line of a text that is not a table, in characters.
const WIDTH: usize = 110;

/// A text in lines that are not too long; all but the first are indented.
fn wrapped(text: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let long = word.chars().count();
        if column > 0 && column + 1 + long > WIDTH {
            out.push_str("\n    ");
            column = 4;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += long;
    }
    out + "\n"
}

/// Connections left on a draining device.
fn connections_left(d: &Value) -> String {
    match d["connections"].as_u64() {
        Some(1) => "1 connection left".to_string(),
        Some(n) => format!("{n} connections left"),
        None => "not counted yet".to_string(),
    }
}

/// The title of the column of states, which a controller without a switch takes from its configuration.
pub fn state_title(answer: &Value) -> &'static str {
    if answer["observed"] == false { "STATE AS CONFIGURED" } else { "STATE" }
}

/// All devices, one a line, and notes about them.
pub fn devices(answer: &Value) -> String {
    let all = answer["devices"].as_array().map_or(&[][..], Vec::as_slice);
    let members = all.iter().any(|d| !d["source"].is_null());
    let mut rows = vec![row(&[
        "DEVICE",
        "KIND",
        "ADDRESS",
        "SERVICES",
        "LOAD",
        "IN FLIGHT",
        "NEW/S",
        "P99 MS",
        "REPORT",
    ])];
    if members {
        rows[0].extend(["SOURCE", "TO LIVE"].map(String::from));
    }
    rows[0].extend(["FOR", state_title(answer)].map(String::from));
    for d in all {
        let list = |name: &str| {
            let all: Vec<String> = d[name].as_array().into_iter().flatten().map(text).collect();
            if all.is_empty() { "-".to_string() } else { all.join(",") }
        };
        let live = &d["live"];
        // Without a report 0 would be wrong.
        let reported = |value| if d["report_age_ms"].is_null() { &Value::Null } else { value };
        let time = |field: &str| d[field].as_u64().map_or("-".to_string(), elapsed);
        let mut cells = vec![
            text(&d["device"]),
            text(&d["kind"]),
            list("addresses"),
            list("services"),
            reported(&live["load"]["compute"]).as_u64().map_or("-".to_string(), |load| format!("{load} %")),
            text(&live["in_flight"]),
            live["opened_per_s"].as_f64().map_or("-".to_string(), |n| format!("{n:.0}")),
            reported(&live["p99_ms"]).as_f64().map_or("-".to_string(), pointsman_chart::number),
            time("report_age_ms"),
        ];
        if members {
            cells.extend([text(&d["source"]), time("expires_in_ms")]);
        }
        cells.extend([time("state_for_ms"), words(d)]);
        rows.push(cells);
    }
    let notes = below(all);
    table(&rows) + if notes.is_empty() { "" } else { "\n" } + &notes
}

/// Outcome of a change, in a sentence.
pub fn outcome(c: &Value) -> String {
    match c["outcome"].as_str() {
        Some("in-force") => format!("in force after {} ms, {} writes", c["after_ms"], c["writes"]),
        Some("superseded") => format!("superseded by change {}", c["by"]),
        Some("pending") if c["reason"].is_null() => "pending".into(),
        other => format!("{}: {}", other.unwrap_or("?"), text(&c["reason"])),
    }
}

/// Changes, one a line.
pub fn history(answer: &Value) -> String {
    let mut rows = vec![row(&["CHANGE", "AT", "WHO", "SERVICE", "SETTING", "OUTCOME"])];
    for c in answer["changes"].as_array().into_iter().flatten() {
        if let Some(device) = c["device"].as_str() {
            let what = if c["drain"] == true { "drain" } else { "enable" };
            let what = format!("{what} {device}");
            rows.push(vec![text(&c["id"]), text(&c["at"]), text(&c["who"]), "-".into(), what, outcome(c)]);
            continue;
        }
        let set = if c["set"].is_null() { "the value in rack.toml".to_string() } else { brief(&c["set"]) };
        let note = c["set"]["note"].as_str().map_or_else(String::new, |n| format!(" ({n})"));
        rows.push(vec![
            text(&c["id"]),
            text(&c["at"]),
            text(&c["who"]),
            text(&c["service"]),
            set + &note,
            outcome(c),
        ]);
    }
    table(&rows)
}

/// The state of a controller's session with its switch, in words.
fn session(state: &Value) -> String {
    match state.as_str() {
        Some("in-sync") => "in sync".into(),
        _ => text(state),
    }
}

/// The primary of a switch.
fn leader(s: &Value) -> String {
    let leader = match text(&s["leader"]).as_str() {
        "self" => "this controller".to_string(),
        "pointsman" => "another Pointsman controller".to_string(),
        "foreign" => "a client that is not a Pointsman controller".to_string(),
        other => other.to_string(),
    };
    leader + &s["leader_id"].as_str().map(|id| format!(" ({id})")).unwrap_or_default()
}

/// The group of controllers, if there is one.
fn group(g: &Value, out: &mut String) {
    let Some(role) = g["role"].as_str() else { return };
    let leader = match (role, g["leader"].as_str()) {
        ("leader", _) => String::new(),
        (_, Some(leader)) => format!(", {leader} leads ({})", text(&g["leader_url"])),
        (_, None) => ", no controller leads".to_string(),
    };
    let [name, since, etcd] = ["name", "since", "etcd"].map(|field| text(&g[field]));
    let _ = writeln!(out, "group       {name}: {role} since {since}{leader}");
    for c in g["controllers"].as_array().into_iter().flatten() {
        let [name, url] = ["name", "url"].map(|field| text(&c[field]));
        let role = if g["leader"] == c["name"] { "leads" } else { "standby" };
        let _ = writeln!(out, "  {name}  {role}, {url}, switches reached: {}", c["switches"]);
    }
    let _ = writeln!(out, "etcd        {}", g["trouble"].as_str().map_or(etcd, String::from));
}

/// What that means for a service.
const ALL_SILENT: &str =
    "no device reports, so all stay in service; check the links between switch and servers";

/// Files whose newest content is not applied. A description may have several mistakes, one a line.
fn refused(files: &Value, out: &mut String) {
    for f in files.as_array().into_iter().flatten().filter(|f| !f["refused"].is_null()) {
        let [file, in_force] = ["file", "in_force"].map(|field| text(&f[field]));
        let of = text(&f["refused"]["of"]);
        let _ = writeln!(out, "refused     {file} of {of} is not applied; in force is that of {in_force}:");
        for line in f["refused"]["why"].as_str().unwrap_or_default().lines() {
            let _ = writeln!(out, "            {line}");
        }
    }
}

/// The state of the controller, and where states of devices come from.
fn view(s: &Value) -> String {
    // If one of several switches is reached, what it knows is shown.
    let switches = s["switches"].as_array().map_or(&[][..], Vec::as_slice);
    let is = |state: &'static str| move |s: &Value| s["controller"] == state;
    if !switches.is_empty() && switches.iter().all(is("disconnected")) {
        return "disconnected: no connection to the switch; devices are shown as last known".into();
    }
    let standby =
        switches.iter().any(is("backup")) && !switches.iter().any(|s| is("working")(s) || is("in-sync")(s));
    if !standby {
        return session(&s["controller"]);
    }
    let [leader, url] =
        ["leader", "leader_url"].map(|field| s["group"][field].as_str().filter(|t| !t.is_empty()));
    let live = match (leader, url, s["leader"].as_str()) {
        (Some(leader), Some(url), _) => {
            format!("{leader} leads and has the live ones: pointsman status --api {url}")
        }
        (Some(leader), None, _) => format!("{leader} leads and has the live ones"),
        (None, _, Some("foreign")) => "a client that is not a Pointsman controller holds the switch".into(),
        _ if s["group"].is_null() => "the controller in charge has the live ones".into(),
        _ => "no controller leads".into(),
    };
    format!("standby: states of devices are as configured; {live}")
}

/// The state of the controller and its switches.
pub fn status(s: &Value) -> String {
    let mut out = wrapped(&format!("controller  {}", view(s)));
    let _ = write!(out, "switch      {}\nentries     {}\n", text(&s["switch"]), s["entries"]);
    let _ = writeln!(out, "primary     {}", leader(s));
    if let Some(switches @ [_, _, ..]) = s["switches"].as_array().map(Vec::as_slice) {
        for switch in switches {
            let (address, state) = (text(&switch["p4runtime"]), session(&switch["controller"]));
            let _ = writeln!(
                out,
                "  {address}  {state}, entries {}, primary {}",
                switch["entries"],
                leader(switch)
            );
        }
    }
    let names: Vec<String> = s["unresolved"].as_array().into_iter().flatten().map(text).collect();
    if !names.is_empty() {
        let _ = writeln!(out, "unresolved  {}", names.join(", "));
    }
    for d in s["draining"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "draining    {}: {}", text(&d["device"]), connections_left(d));
    }
    let held: Vec<String> = s["held"].as_array().into_iter().flatten().map(text).collect();
    if !held.is_empty() {
        let _ = writeln!(out, "held        {}: in service, at weight 0 by the learner", held.join(", "));
    }
    group(&s["group"], &mut out);
    let silent: Vec<String> = s["all_silent"].as_array().into_iter().flatten().map(text).collect();
    if !silent.is_empty() {
        let _ = writeln!(out, "all silent  {}: {}", silent.join(", "), ALL_SILENT);
    }
    if let Some(why) = s["unsaved"].as_str() {
        let _ = writeln!(out, "unsaved     {why}");
    }
    refused(&s["files"], &mut out);
    out.push('\n');
    for n in s["news"].as_array().into_iter().flatten() {
        let again = match n["count"].as_u64() {
            Some(count @ 2..) => format!(" ({count} times since {})", text(&n["first"])),
            _ => String::new(),
        };
        let _ = writeln!(out, "{}  {}{again}", text(&n["at"]), text(&n["text"]));
    }
    out
}

/// Output of a dry run: a summary, and the requested writes, as text that P4Runtime tools can read.
pub fn dry_run(d: &Value) -> String {
    let mut out =
        format!("# service {}: {} -> {}\n", text(&d["service"]), brief(&d["from"]), brief(&d["to"]));
    let steps = d["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let _ = writeln!(
        out,
        "# {} updates in {} steps; the controller is {}; nothing was changed",
        d["total"],
        steps.len(),
        session(&d["controller"])
    );
    for note in d["notes"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "# note: {}", text(note));
    }
    let mut rows = vec![row(&["# TABLE", "INSERT", "MODIFY", "DELETE"])];
    for t in d["tables"].as_array().into_iter().flatten() {
        let table = format!("# {}", text(&t["table"]));
        rows.push(vec![table, text(&t["insert"]), text(&t["modify"]), text(&t["delete"])]);
    }
    if rows.len() > 1 {
        let _ = write!(out, "#\n{}", table(&rows));
    }
    if d["shown"] == 0 {
        if rows.len() > 1 {
            out.push_str("#\n# --updates shows all of them\n");
        }
        return out;
    }
    for (i, step) in steps.iter().enumerate() {
        let _ = writeln!(out, "\n# step {} of {}: {} updates", i + 1, steps.len(), step["total"]);
        for update in step["updates"].as_array().into_iter().flatten() {
            let _ = writeln!(out, "#   {}", text(update));
        }
        out.push_str(step["write_request"].as_str().unwrap_or(""));
    }
    if d["shown"] != d["total"] {
        let _ = writeln!(out, "\n# {} of {} updates are shown; --updates shows all", d["shown"], d["total"]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn devices_that_drain() {
        let device = |more: Value| {
            let mut all = json!({"device": "s1/cpu", "weight": 1, "priority": 1, "state": "draining", "enabled": false, "drained": false});
            all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            show(&json!({"service": "web", "policy": {"policy": "wrr"}, "devices": [all]}))
        };
        assert!(
            device(json!({"drained": true})).ends_with("draining: by request (`pointsman enable` ends it)\n")
        );
        assert!(device(json!({})).ends_with("draining: enabled = false in the rack's file\n"));
        assert!(device(json!({"enabled": true})).ends_with("draining: its server has weight 0\n"));
    }

    /// The table is narrow: reasons and changes are below it, once for all devices that share them.
    #[test]
    fn devices_and_notes() {
        let why = "no report arrives; check its agent, the link at port 2 of the switch (`port_up` in the switch's metrics), and more";
        let change = |what: &str, n: u64| json!({"change": n, "what": what, "who": "ops", "at": "2026-11-27T04:00:00.000Z"});
        let device = |name: &str, state: &str, more: Value| {
            let mut all = json!({"device": name, "kind": "cpu", "addresses": ["10.0.1.11"], "services": ["web"], "state": state,
                "state_for_ms": 61_000, "report_age_ms": 200, "live": {"in_flight": 1, "opened_per_s": 0.0, "p99_ms": 12.5, "load": {"compute": 7}}});
            all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            all
        };
        let drain = json!({"change": 4, "who": "ops", "since": "2026-11-27T04:00:00.000Z"});
        let mut all = json!({"devices": [
            device("s1/cpu", "draining", json!({"connections": 3, "drained": drain, "last_change": change("drain", 4)})),
            device("s1/nic", "silent", json!({"reason": why, "last_change": change("policy of web", 3)})),
            device("s2/cpu", "silent", json!({"reason": why})),
            device("s2/nic", "no-report", json!({"report_age_ms": null, "last_change": change("policy of web", 3)})),
        ]});
        let said = devices(&all);
        let lines: Vec<&str> = said.lines().collect();
        assert!(
            lines[1]
                .ends_with("  7 %   1          0      12.5    0.2 s   61 s  draining: 3 connections left"),
            "{said}"
        );
        assert!(
            lines[2].ends_with("  61 s  silent")
                && lines[4].ends_with("  -     1          0      -       -       61 s  no report yet"),
            "{said}"
        );
        assert_eq!(lines[5..7], ["", "s1/cpu  drained by ops at 2026-11-27T04:00:00.000Z"], "{said}");
        assert!(
            lines[7].starts_with("s1/nic, s2/cpu  silent: no report arrives") && lines[8].starts_with("    "),
            "{said}"
        );
        assert_eq!(
            lines[9..],
            ["s1/nic, s2/nic  last change: policy of web by ops at 2026-11-27T04:00:00.000Z"],
            "{said}"
        );
        assert!(lines.iter().all(|l| l.len() <= WIDTH), "{said}");
        assert!(lines[0].ends_with("  FOR   STATE"), "{said}");
        all["observed"] = false.into();
        assert!(devices(&all).contains("  FOR   STATE AS CONFIGURED\n"), "{}", devices(&all));
        all["devices"][3]["source"] = "pool".into();
        all["devices"][3]["expires_in_ms"] = 20_000.into();
        assert!(devices(&all).contains("  pool    20 s     61 s  no report yet"), "{}", devices(&all));
    }

    #[test]
    fn several_switches() {
        let switch = |address: &str, state: &str| {
            json!({
                "p4runtime": address, "controller": state, "leader": "none", "leader_id": null, "entries": 7,
            })
        };
        let mut s = json!({
            "controller": "disconnected", "switch": "a:1, b:1", "entries": 7, "leader": "none", "leader_id": null,
            "switches": [switch("a:1", "in-sync"), switch("b:1", "disconnected")],
        });
        let said = status(&s);
        assert!(said.contains("\n  a:1  in sync, entries 7, primary none\n  b:1  disconnected, "), "{said}");
        assert!(said.starts_with("controller  disconnected\n"), "one switch is reached: {said}");
        s["switches"] = json!([switch("a:1", "disconnected")]);
        let said = status(&s);
        assert!(
            said.starts_with("controller  disconnected: no connection to the switch; devices are"),
            "{said}"
        );
        s["controller"] = "backup".into();
        s["switches"] = json!([switch("a:1", "backup"), switch("b:1", "in-sync")]);
        assert!(status(&s).starts_with("controller  backup\n"), "one switch is read: {}", status(&s));
        s["switches"] = json!([switch("a:1", "backup"), switch("b:1", "disconnected")]);
        for (group, leader, live) in [
            (
                json!({"leader": "a", "leader_url": "http://a:9560"}),
                "pointsman",
                "a leads and has the live ones: pointsman status --api http://a:9560",
            ),
            (json!({"leader": "a", "leader_url": ""}), "pointsman", "a leads and has the live ones"),
            (json!({"leader": null, "leader_url": null}), "none", "no controller leads"),
            (Value::Null, "pointsman", "the controller in charge has the live ones"),
            (Value::Null, "foreign", "a client that is not a Pointsman controller holds the switch"),
        ] {
            (s["group"], s["leader"]) = (group, leader.into());
            let said = status(&s).replace("\n    ", " ");
            let expected = format!("controller  standby: states of devices are as configured; {live}\n");
            assert!(said.starts_with(&expected), "{said}");
        }
        s["controller"] = "in-sync".into();
        s["switches"] = json!([switch("a:1", "in-sync")]);
        assert!(!status(&s).contains("  a:1  "), "one switch has nothing to add");
        assert!(!status(&s).contains("silent"));
        s["all_silent"] = json!(["web"]);
        assert!(
            status(&s)
                .contains("\nall silent  web: no device reports, so all stay in service; check the links")
        );
    }
}
