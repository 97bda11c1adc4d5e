//! Answers of the API for people.

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

/// The state of a device.
fn state(d: &Value) -> String {
    match d["state"].as_str() {
        Some("in-service") => "in service".into(),
        Some("silent") => format!("silent: {}", text(&d["reason"])),
        Some("failed") => "failed health check".into(),
        Some("held") => "in service, held at weight 0 by the learner".into(),
        _ => text(&d["state"]),
    }
}

/// The last change of a device.
fn last_change(c: &Value) -> String {
    if c.is_null() {
        return "-".into();
    }
    format!("{} by {} at {}", text(&c["what"]), text(&c["who"]), text(&c["at"]))
}

/// Connections left on a draining device.
fn connections_left(d: &Value) -> String {
    match d["connections"].as_u64() {
        Some(1) => "1 connection left".to_string(),
        Some(n) => format!("{n} connections left"),
        None => "not counted yet".to_string(),
    }
}

/// All devices, one a line.
pub fn devices(answer: &Value) -> String {
    let mut rows = vec![row(&[
        "DEVICE",
        "KIND",
        "ADDRESS",
        "SERVICES",
        "LOAD %",
        "IN FLIGHT",
        "NEW/S",
        "REPORT",
        "LAST CHANGE",
        "STATE",
    ])];
    for d in answer["devices"].as_array().into_iter().flatten() {
        let list = |name: &str| {
            let all: Vec<String> = d[name].as_array().into_iter().flatten().map(text).collect();
            if all.is_empty() { "-".to_string() } else { all.join(",") }
        };
        let mut state = match d["state"].as_str() {
            Some("draining") => format!("draining: {}", connections_left(d)),
            Some("drained") => "drained: no connections left".to_string(),
            _ => state(d),
        };
        if let (Some(who), Some(since)) = (d["drained"]["who"].as_str(), d["drained"]["since"].as_str()) {
            let _ = write!(state, ", by {who} at {since}");
        }
        if let Some(source) = d["source"].as_str() {
            let _ = write!(state, ", member from {source}");
            if let Some(ms) = d["expires_in_ms"].as_u64() {
                let _ = write!(state, ", {} s to live", ms.div_ceil(1000));
            }
        }
        let live = &d["live"];
        let rate = live["opened_per_s"].as_f64().map_or("-".to_string(), |n| format!("{n:.0}"));
        let age =
            d["report_age_ms"].as_u64().map_or("-".to_string(), |ms| format!("{:.1} s", ms as f64 / 1000.0));
        rows.push(vec![
            text(&d["device"]),
            text(&d["kind"]),
            list("addresses"),
            list("services"),
            if d["report_age_ms"].is_null() { "-".to_string() } else { text(&live["load"]["compute"]) },
            text(&live["in_flight"]),
            rate,
            age,
            last_change(&d["last_change"]),
            state,
        ]);
    }
    table(&rows)
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

/// The state of the controller and its switches.
pub fn status(s: &Value) -> String {
    // If one of several switches is reached, what it knows is shown.
    let switches = s["switches"].as_array().map_or(&[][..], Vec::as_slice);
    let blind = !switches.is_empty() && switches.iter().all(|s| s["controller"] == "disconnected");
    let old = if blind { ": no connection to the switch; devices are shown as last known" } else { "" };
    let mut out = format!(
        "controller  {}{old}\nswitch      {}\nentries     {}\n",
        text(&s["controller"]),
        text(&s["switch"]),
        s["entries"]
    );
    let _ = writeln!(out, "primary     {}", leader(s));
    if let Some(switches @ [_, _, ..]) = s["switches"].as_array().map(Vec::as_slice) {
        for switch in switches {
            let [address, state] = ["p4runtime", "controller"].map(|name| text(&switch[name]));
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
    if let Some(why) = s["unsaved"].as_str() {
        let _ = writeln!(out, "unsaved     {why}");
    }
    refused(&s["files"], &mut out);
    out.push('\n');
    for n in s["news"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "{}  {}", text(&n["at"]), text(&n["text"]));
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
        text(&d["controller"])
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
        let change = json!({"change": 4, "what": "drain", "who": "ops", "at": "2026-11-27T04:00:00.000Z"});
        let all = devices(&json!({"devices": [
            {"device": "s1/cpu", "state": "draining", "connections": 3, "last_change": change},
            {"device": "s1/nic", "state": "silent", "reason": "no report arrives", "last_change": null},
        ]}));
        let lines: Vec<&str> = all.lines().collect();
        assert!(
            lines[1].ends_with("  drain by ops at 2026-11-27T04:00:00.000Z  draining: 3 connections left"),
            "{all}"
        );
        assert!(lines[2].ends_with("  silent: no report arrives"), "{all}");
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
        assert!(said.contains("\n  a:1  in-sync, entries 7, primary none\n  b:1  disconnected, "), "{said}");
        assert!(said.starts_with("controller  disconnected\n"), "one switch is reached: {said}");
        s["switches"] = json!([switch("a:1", "disconnected")]);
        let said = status(&s);
        assert!(
            said.starts_with("controller  disconnected: no connection to the switch; devices are"),
            "{said}"
        );
        s["switches"] = json!([switch("a:1", "in-sync")]);
        assert!(!status(&s).contains("  a:1  "), "one switch has nothing to add");
    }
}
