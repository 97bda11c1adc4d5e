//! Devices that are taken out of service, and come back.

use super::*;

/// A request for what is so already makes no change: the answer is the pending change that made it so, or says that nothing changes.
#[test]
fn requests_for_what_is_so_change_nothing() {
    let mut o = Office::new(&text());
    let doc = o.get("/openapi.json");
    let described = |method: &str, status: u16| {
        let answers = &doc["paths"]["/v1/devices/{device}/drain"][method.to_lowercase()]["responses"];
        answers[status.to_string()]["content"]["application/json"]["schema"].clone()
    };
    let ask = |o: &mut Office, method: &'static str, device: &str| {
        let target = format!("/v1/devices/{device}/drain");
        o.kept.clear();
        let (r, wait) = o.ask(&Request { method, target: &target, authorization: Some(OPS), body: b"" });
        assert!(r.status < 300, "{}", r.text());
        let value = r.clone().into_value();
        assert_eq!(fits(&value, &described(method, r.status), &doc), Ok(()), "{value}");
        let unchanged = value["unchanged"].as_str().map(String::from);
        assert!(o.kept.is_empty() || unchanged.is_none(), "nothing is written");
        (wait.map(|w| w.change), unchanged)
    };
    let says = |text: &str| (None, Some(format!("{text}: nothing changes")));
    assert_eq!(ask(&mut o, "DELETE", "s1%2Fcpu"), says("s1/cpu is not drained"));
    assert_eq!(ask(&mut o, "DELETE", "s1"), says("no device of s1 is drained"));
    assert_eq!(ask(&mut o, "PUT", "s1%2Fcpu"), (Some(1), None));
    assert_eq!(ask(&mut o, "PUT", "s1%2Fcpu"), (Some(1), None), "it is not in force yet");
    assert_eq!(ask(&mut o, "DELETE", "s2"), says("no device of s2 is drained"));
    assert_eq!(ask(&mut o, "PUT", "s1"), (Some(2), None), "its other device was not drained");
    assert_eq!(ask(&mut o, "PUT", "s1%2Fcpu"), (Some(2), None), "the newest one that concerns it");
    o.desk.event(o.now, &Event::InSync { writes: 4 }, true);
    assert_eq!(ask(&mut o, "PUT", "s1%2Fcpu"), says("s1/cpu is drained already"));
    assert_eq!(ask(&mut o, "PUT", "s1"), says("all devices of s1 are drained already"));
    assert_eq!(ask(&mut o, "DELETE", "s1%2Fnic"), (Some(3), None));
    assert_eq!(ask(&mut o, "DELETE", "s1%2Fnic"), (Some(3), None), "it is not in force yet");
    o.desk.event(o.now, &Event::InSync { writes: 1 }, true);
    assert_eq!(ask(&mut o, "DELETE", "s1%2Fnic"), says("s1/nic is not drained"));
    assert_eq!(o.desk.history().iter().count(), 3);
    // The history may have lost the change that drained it.
    o.desk.keep_within(1);
    o.desk.adopt(0, &o.desk.kept()).expect("it can be read");
    assert_eq!(o.desk.history().get(2), None);
    assert_eq!(ask(&mut o, "PUT", "s1%2Fcpu"), says("s1/cpu is drained already"));
    o.desk.saved(Err("the disk is full"));
    let (_, answer) = o.put("/v1/devices/s1%2Fcpu/drain", "");
    assert!(answer["warning"].as_str().is_some_and(|w| w.contains("the disk is full")), "{answer}");
}

/// A change that others undo before the switch ever holds it is never in force.
#[test]
fn pending_changes_are_superseded() {
    let changes = |requests: &[(&'static str, &str)]| -> Vec<String> {
        let mut o = Office::new(&text());
        for (method, device) in requests {
            let target = format!("/v1/devices/{}/drain", device.replace('/', "%2F"));
            let (r, _) = o.ask(&Request { method, target: &target, authorization: Some(OPS), body: b"" });
            assert_eq!(r.status, 202, "{requests:?}: {}", r.text());
        }
        o.desk.event(o.now, &Event::InSync { writes: 4 }, true);
        let list = o.get("/v1/changes")["changes"].clone();
        let brief = |c: &Value| match c["by"].as_u64() {
            Some(by) => format!("by {by}"),
            None => format!("{} {}", c["outcome"].as_str().unwrap_or("?"), c["devices"]),
        };
        list.as_array().expect("a list").iter().rev().map(brief).collect()
    };
    let force = |devices: Value| format!("in-force {devices}");
    let (both, cpu, nic) = (json!(["s1/cpu", "s1/nic"]), json!(["s1/cpu"]), json!(["s1/nic"]));
    let (put, delete) = ("PUT", "DELETE");
    // The server's change undoes that of its device.
    assert_eq!(
        changes(&[(put, "s1/cpu"), (put, "s1"), (delete, "s1")]),
        ["by 3".into(), "by 3".into(), force(both.clone())]
    );
    assert_eq!(changes(&[(put, "s1/cpu"), (put, "s1")]), [force(cpu.clone()), force(nic.clone())]);
    // One device after the other: with the last one nothing is left of the first change.
    assert_eq!(
        changes(&[(put, "s1"), (delete, "s1/cpu"), (delete, "s1/nic")]),
        ["by 3".into(), force(cpu.clone()), force(nic.clone())]
    );
    assert_eq!(changes(&[(put, "s1"), (delete, "s1/cpu")]), [force(both), force(cpu.clone())]);
    assert_eq!(
        changes(&[(put, "s1/cpu"), (delete, "s1"), (put, "s1")]),
        ["by 2".into(), "by 3".into(), force(json!(["s1/cpu", "s1/nic"]))]
    );
    // Devices of another server, and policies, have nothing to do with it.
    assert_eq!(changes(&[(put, "s1/cpu"), (put, "s2/cpu")]), [force(cpu), force(json!(["s2/cpu"]))]);
}

#[test]
fn devices_are_drained_and_enabled() {
    let mut o = Office::new(&text());
    let state = |o: &mut Office, name: &str| {
        let all = o.get("/v1/devices")["devices"].clone();
        all.as_array().expect("a list").iter().find(|d| d["device"] == name).expect("there").clone()
    };
    let ask = |o: &mut Office, method: &'static str, target: &str| {
        let request = Request { method, target, authorization: Some(OPS), body: b"" };
        let (r, _) = o.ask(&request);
        (r.status, serde_json::from_str::<Value>(&r.text()).expect("JSON"))
    };
    let nic = "/v1/devices/s1%2Fnic/drain";
    assert_eq!(state(&mut o, "s1/nic")["drained"], Value::Null);
    assert_eq!(state(&mut o, "s1/nic")["last_change"], Value::Null);
    let (status, change) = ask(&mut o, "PUT", nic);
    assert_eq!((status, &change["device"], &change["drain"]), (202, &json!("s1/nic"), &json!(true)));
    assert_eq!((&change["service"], &change["set"]), (&Value::Null, &Value::Null));
    let drained = state(&mut o, "s1/nic");
    assert_eq!((&drained["state"], &drained["drained"]["who"]), (&json!("draining"), &json!("ops")));
    let takes = |rack: &Rack| {
        let mut all = rack.services.iter().flat_map(|s| &s.members).flat_map(|m| &m.devices);
        all.clone().any(|d| rack.device_name(d.number) == "s1/nic" && d.enabled)
            || !all.any(|d| rack.device_name(d.number) == "s1/cpu" && d.enabled)
    };
    assert!(!takes(o.desk.rack()) && !takes(o.controller.rack()));

    // It stays drained over changes of the policy, of the file, and over a restart.
    o.put(POLICY, r#"{"policy": "wrr"}"#);
    assert!(!takes(o.desk.rack()));
    let effects = o.desk.file_changed(o.now, rack(&text().replace("weight = 5", "weight = 6")));
    o.perform(effects);
    assert!(!takes(o.desk.rack()));
    let mut again = Office::new(&text());
    let effects = again.desk.restore(5, &o.kept).expect("a state");
    again.perform(effects);
    assert!(!takes(again.desk.rack()));
    assert_eq!(state(&mut again, "s1/nic")["drained"]["change"], 1);

    // Another drain of the same device changes nothing; enabling ends it.
    assert_eq!(ask(&mut o, "PUT", nic).1["id"], 1);
    assert_eq!(ask(&mut o, "DELETE", nic).0, 202);
    assert!(takes(o.desk.rack()));
    assert_eq!(state(&mut o, "s1/nic")["drained"], Value::Null);
    let last = |o: &mut Office, device: &str| {
        let last = state(o, device)["last_change"].clone();
        (last["change"].as_u64(), last["what"].as_str().unwrap_or("").to_string())
    };
    assert_eq!(last(&mut o, "s1/nic"), (Some(3), "enable".into()));
    assert_eq!(last(&mut o, "s1/cpu"), (Some(2), "policy of inference".into()));

    // Names, rights, and services that would have nothing left.
    let (status, error) = ask(&mut o, "PUT", "/v1/devices/s9/drain");
    assert!(status == 404 && error["error"].as_str().is_some_and(|e| e.contains("s1/cpu")), "{error}");
    let before = o.desk.rack().clone();
    let servers: Vec<String> = before.servers.iter().map(|s| s.name.clone()).collect();
    let answers = servers.iter().map(|s| ask(&mut o, "PUT", &format!("/v1/devices/{s}/drain")));
    let answers: Vec<(u16, Value)> = answers.collect();
    let (last, others) = answers.split_last().expect("servers");
    assert!(others.iter().all(|(status, _)| *status == 202), "{answers:?}");
    assert!(
        last.0 == 409 && last.1["error"].as_str().is_some_and(|e| e.contains("no device left")),
        "{last:?}"
    );
    let reads = Request { method: "PUT", target: nic, authorization: Some(BOARD), body: b"" };
    assert_eq!(o.ask(&reads).0.status, 403);
    assert_eq!(ask(&mut o, "GET", nic).0, 405);
    let mut off = Office::new(&text().replacen("name = \"nic\"", "name = \"nic\"\nenabled = false", 1));
    let (status, error) = ask(&mut off, "DELETE", nic);
    assert!(
        status == 409 && error["error"].as_str().is_some_and(|e| e.contains("enabled = false")),
        "{error}"
    );
}

/// The undo of a change concerns the devices that it changed, and no others of the server.
#[test]
fn changes_of_devices_are_undone() {
    let mut o = Office::new(&text());
    let ask = |o: &mut Office, method: &'static str, target: &str| {
        let target = format!("/v1/devices/{target}");
        let (r, _) = o.ask(&Request { method, target: &target, authorization: Some(OPS), body: b"" });
        o.desk.event(o.now, &Event::InSync { writes: 1 }, true);
        (r.status, r.into_value())
    };
    let drained = |o: &Office| o.desk.drained.keys().cloned().collect::<Vec<_>>();
    assert_eq!(ask(&mut o, "PUT", "s1%2Fcpu/drain").1["id"], 1);
    assert_eq!(ask(&mut o, "PUT", "s1/drain").1["id"], 2);
    let (status, undo) = ask(&mut o, "DELETE", "s1/drain?change=2");
    assert_eq!((status, &undo["devices"], drained(&o)), (202, &json!(["s1/nic"]), vec!["s1/cpu".into()]));
    let (status, again) = ask(&mut o, "DELETE", "s1/drain?change=2");
    let nothing = json!("no device of s1 is drained by change 2: nothing changes");
    assert_eq!((status, &again["unchanged"], drained(&o).len()), (200, &nothing, 1));
    // The enabling of a server of which one device was drained.
    assert_eq!(ask(&mut o, "DELETE", "s1/drain").1["id"], 4);
    let (status, undo) = ask(&mut o, "PUT", "s1/drain?change=4");
    assert_eq!((status, &undo["devices"], drained(&o)), (202, &json!(["s1/cpu"]), vec!["s1/cpu".into()]));
    let (status, other) = ask(&mut o, "PUT", "s2/drain?change=4");
    let nothing = json!("change 4 put no device of s2 back: nothing changes");
    assert_eq!((status, &other["unchanged"], drained(&o).len()), (200, &nothing, 1));
    assert_eq!(
        ask(&mut o, "PUT", "s1/drain?change=2").1["unchanged"],
        "change 2 put no device of s1 back: nothing changes"
    );
    let (status, error) = ask(&mut o, "DELETE", "s1/drain?change=all");
    assert_eq!((status, &error["error"]), (400, &json!("`change=all`: write the number of a change")));
}

/// What can come back does, and the answer names the rest.
#[test]
fn a_server_with_a_disabled_device_comes_back() {
    let text = text().replacen("name = \"nic\"", "name = \"nic\"\nenabled = false", 1);
    let mut o = Office::new(&text);
    let enable = |o: &mut Office, device: &str| {
        let target = format!("/v1/devices/{device}/drain");
        let (r, _) =
            o.ask(&Request { method: "DELETE", target: &target, authorization: Some(OPS), body: b"" });
        (r.status, r.into_value())
    };
    let takes = |o: &Office| -> Vec<String> {
        let rack = o.desk.rack();
        let on = rack.devices().filter(|(s, d)| s.name == "s1" && d.enabled);
        on.map(|(_, d)| rack.device_name(d.number)).collect()
    };
    assert_eq!(o.put("/v1/devices/s1/drain", "").0, 202);
    assert!(takes(&o).is_empty());
    let (status, change) = enable(&mut o, "s1");
    assert_eq!((status, &change["devices"]), (202, &json!(["s1/cpu"])));
    assert_eq!(change["warning"], "`s1/nic` stays out: it has enabled = false in the rack's file");
    assert_eq!(takes(&o), ["s1/cpu"]);
    o.desk.event(o.now, &Event::InSync { writes: 1 }, true);
    let (status, again) = enable(&mut o, "s1");
    assert_eq!((status, &again["unchanged"]), (200, &json!("s1/cpu is not drained: nothing changes")));
    // Nothing of it can.
    let (cpu, nic) = ("name = \"cpu\"", "name = \"nic\"");
    let off = text.replacen(cpu, "name = \"cpu\"\nenabled = false", 1);
    assert!(off.contains(nic));
    let (status, error) = enable(&mut Office::new(&off), "s1");
    let expected = "`s1/cpu`, `s1/nic` has enabled = false in the rack's file: change it there";
    assert_eq!((status, &error["error"]), (409, &json!(expected)));
}
