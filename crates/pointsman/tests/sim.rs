//! `pointsman sim` and `pointsman learn`: their output as text and files.

use crate::support::python::Client;
use crate::support::{Scratch, assert_no_panic, file, finish, pointsman, root, run};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

/// `scenarios/p4wise.toml` on one server, so short that tests are quick.
fn scenario(dir: &Scratch, duration_s: u32) -> String {
    let text = std::fs::read_to_string(file("scenarios/p4wise.toml")).expect("the file is there");
    let (text, _) = text.split_once("[sweep]").expect("it sweeps");
    let changes = [
        ("servers = 4", "servers = 1".to_string()),
        ("duration_s = 1200", format!("duration_s = {duration_s}")),
        ("[250, 610, 400, 640, 300, 620]", "[60, 155]".into()),
        ("step_s = 60", "step_s = 20".into()),
    ];
    let text = changes.iter().fold(text.to_string(), |text, (from, to)| {
        assert!(text.contains(from), "the scenario has no {from}");
        text.replace(from, to)
    });
    dir.write("scenario.toml", text)
}

#[test]
fn learning_and_its_table() {
    let dir = Scratch::new("sim-learn");
    let scenario = scenario(&dir, 60);
    let (table, page, steps, json) =
        (dir.path("t.q"), dir.path("p.html"), dir.path("s.csv"), dir.path("r.jsonl"));
    let args =
        ["sim", &scenario, "--save-table", &table, "--html", &page, "--steps", &steps, "--json", &json];
    let finished = run(&args);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.contains("q-learning: right weights in"), "{finished:?}");
    let read = |path: &str| std::fs::read_to_string(path).expect("the file is there");
    assert!(read(&page).contains("Right decisions") && read(&page).contains("Over time"));
    assert_eq!(read(&steps).lines().count(), 1 + 14);
    let result: Value = serde_json::from_str(&read(&json)).expect("a line of JSON");
    assert_eq!(result["learning"]["intervals"], 14);
    let shown = run(&["learn", "show", &table]);
    assert!(shown.code == Some(0) && shown.stdout.starts_with("10 states, "), "{shown:?}");
    assert!(shown.stdout.contains("cpu_percent"), "{shown:?}");
    assert_eq!(run(&["learn", "show", &table, "--csv"]).stdout.lines().count(), 11);
    let wrong = run(&["learn", "show", &scenario]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("not a learner's file"), "{wrong:?}");
    let missing = run(&["learn", "show", &dir.path("none.q")]);
    assert!(missing.stderr.contains("--save-table"), "{missing:?}");
    // Finished simulations are not repeated, and give the same files.
    let before = read(&page);
    assert_eq!(run(&args).code, Some(0));
    assert!(read(&page) == before && read(&json).lines().count() == 1);
}

/// A second client behind the last port of the switch is served like the first one.
#[test]
fn clients_at_the_last_port() {
    let dir = Scratch::new("sim-last-port");
    let lasts = |port: u16| {
        let rack = format!(
            "[switch]\nmac = \"02:50:4d:00:00:01\"\ngateways = [\"10.32.0.1\"]\nreport_keys = \"simulated\"\n\
             [[route]]\nprefix = \"10.64.0.0/16\"\nport = 1\nmac = \"02:00:00:01:00:01\"\n\
             [[route]]\nprefix = \"10.65.0.0/16\"\nport = {port}\nmac = \"02:00:00:01:00:02\"\n\
             [[server]]\nname = \"s\"\n[[server.device]]\nname = \"cpu\"\nkind = \"cpu\"\nport = 2\naddress = \"10.32.0.16\"\n\
             mac = \"02:00:00:02:00:10\"\n[[service]]\nname = \"service\"\nvip = \"10.0.0.100\"\nprotocol = \"udp\"\n\
             port = 8000\npolicy = \"server-only\"\n"
        );
        let arrivals = "arrivals = { process = \"poisson\", rate_per_s = 100 }";
        let scenario = format!(
            "name = \"two\"\nduration_s = 1\npatience_s = 1\nrack = {{ file = {:?} }}\n[[device]]\nname = \"cpu\"\nworkers = 8\n\
             service_time = {{ distribution = \"deterministic\", mean_ms = 10 }}\n[[client]]\n{arrivals}\n\
             [[client]]\nport = {port}\nconnections = 20\n{arrivals}\n",
            dir.write("rack.toml", rack)
        );
        run(&["sim", &dir.write("two.toml", scenario), "--json", "-"])
    };
    let finished = lasts(508);
    let result: Value = serde_json::from_str(&finished.stdout).expect("a line of JSON");
    assert_eq!(
        (&result["requests"]["lost"], &result["switch_drops"]),
        (&0.into(), &serde_json::json!({})),
        "{result}"
    );
    let refused = lasts(509);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("port 509 is where the program"),
        "{refused:?}"
    );
}

/// The protocol, line by line, including errors.
#[test]
fn serving() {
    let dir = Scratch::new("sim-serve");
    let scenario = scenario(&dir, 10);
    let mut command = pointsman(&["sim", &scenario, "--serve"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = [
        "{\"describe\": {}}",
        "{\"act\": {\"weight\": 1}}",
        "{\"reset\": {\"seed\": 3}}",
        "{\"act\": {\"weight\": 99}}",
        "{\"act\": {\"weight\": 1}}",
        "nonsense",
        "{\"fly\": {}}",
        "{\"act\": {\"weight\": 0}}",
        "{\"act\": {\"weight\": 0}}",
        "{\"reset\": {}}",
        "{\"close\": {}}",
    ];
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(lines.join("\n").as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(answers.len(), lines.len(), "{text}");
    assert_eq!((&answers[0]["protocol"], &answers[0]["max_weight"]), (&1.into(), &6.into()));
    assert_eq!(answers[0]["decisions"], 2);
    for (at, message) in
        [(1, "no episode"), (3, "0 to 6"), (5, "not JSON"), (6, "`fly` is unknown"), (8, "no episode")]
    {
        assert!(answers[at]["error"].as_str().is_some_and(|e| e.contains(message)), "{at}: {text}");
    }
    assert_eq!(answers[2]["observation"].as_array().map(Vec::len), Some(6), "{text}");
    assert_eq!((&answers[4]["truncated"], &answers[7]["truncated"]), (&false.into(), &true.into()), "{text}");
    assert!(answers[4]["info"]["decided"]["best_weight"].is_u64(), "{text}");
    assert_eq!(answers[7]["info"]["outcome"]["seed"], 3);
    assert_eq!(answers[9]["info"]["seed"], 4);
}

/// Requests at the times of a capture's frames.
#[test]
fn arrivals_from_a_capture() {
    let dir = Scratch::new("sim-capture");
    let mut writer = pointsman_ports::pcap::Writer::create(dir.path("times.pcap").as_ref()).expect("a file");
    for i in 0..500u64 {
        writer.record(1_700_000_000_000_000_000 + i * 3_000_000, &[0; 60]).expect("a file");
    }
    writer.flush().expect("a file");
    let text = r#"
        name = "replay"
        duration_s = 2
        agents = { enabled = false }
        rack = { servers = 1, policy = "ecmp" }
        [[device]]
        name = "cpu"
        kind = "cpu"
        service_time = { distribution = "deterministic", mean_ms = 1 }
        [[client]]
        arrivals = { process = "trace", file = "times.pcap" }
    "#;
    let json = dir.path("r.jsonl");
    let finished = run(&["sim", &dir.write("s.toml", text), "--json", &json]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let line = std::fs::read_to_string(&json).expect("the file is there");
    let result: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&result["requests"]["sent"], &result["requests"]["lost"]),
        (&500.into(), &0.into()),
        "{result:#}"
    );
    let bad = run(&["sim", &dir.write("bad.toml", text.replace("times.pcap", "s.toml.pcap"))]);
    assert!(bad.code == Some(1) && bad.stderr.contains("cannot read"), "{bad:?}");
    assert_no_panic(&bad);
}

#[test]
fn scenarios_of_the_repository_are_read() {
    let mut names: Vec<_> = std::fs::read_dir(file("scenarios")).expect("it is there").flatten().collect();
    names.retain(|entry| entry.path().extension().is_some_and(|e| e == "toml"));
    assert!(names.len() > 20, "{names:?}");
    for entry in names {
        let checked = run(&["sim", &entry.path().to_string_lossy(), "--check"]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
    }
}

/// A sweep split over several machines, one of which is interrupted and resumed: together their files equal one machine's.
#[test]
fn shards_and_interruptions() {
    let dir = Scratch::new("sim-shards");
    let text = std::fs::read_to_string(file("scenarios/mmk.toml")).expect("the file is there");
    let text = text.replace("duration_s = 100", "duration_s = 2").replace("warmup_s = 5", "warmup_s = 0");
    let scenario = dir.write("s.toml", format!("{text}\n[sweep]\nrate_per_s = [500, 1000, 2000]\n"));
    let all = |path: &str, more: &[&str]| {
        let done = run(&[&["sim", &scenario, "--seeds", "2", "--json", path], more].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        done
    };
    let results = |path: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(path).expect("the file is there");
        let one = |line: &str| {
            let mut v: Value = serde_json::from_str(line).expect("JSON");
            v["wall_s"] = Value::Null;
            assert!(v["origin"]["command"].as_str().is_some_and(|c| c.starts_with("pointsman sim")), "{v}");
            v["origin"] = Value::Null;
            v
        };
        let mut all: Vec<Value> = text.lines().map(one).collect();
        all.sort_by_key(|v| (v["point"].to_string(), v["seed"].as_u64()));
        all
    };
    let (whole, first, second) = (dir.path("whole"), dir.path("first"), dir.path("second"));
    all(&whole, &[]);
    assert_eq!(results(&whole).len(), 6);
    all(&first, &["--shard", "1/2"]);
    all(&second, &["--shard", "2/2"]);
    assert_eq!((results(&first).len(), results(&second).len()), (3, 3));
    // The first is cut off in the middle of its last line, and resumed.
    let text = std::fs::read_to_string(&first).expect("the file is there");
    std::fs::write(&first, &text[..text.len() - 100]).expect("it can be written");
    let told = all(&first, &["--shard", "1/2"]);
    assert!(told.stderr.contains("2 of 3 simulations are already finished"), "{told:?}");
    let both = [&first, &second].map(|p| std::fs::read_to_string(p).expect("the file is there")).concat();
    let merged = dir.write("merged", &both);
    assert_eq!(results(&merged), results(&whole));
    // The table of all of them, without a simulation.
    let (ours, theirs) = (dir.path("ours.csv"), dir.path("theirs.csv"));
    let told = all(&merged, &["--csv", &ours]);
    assert!(told.stderr.contains("6 of 6 simulations are already finished"), "{told:?}");
    all(&whole, &["--csv", &theirs]);
    let read = |p: &str| -> Vec<String> {
        let text = std::fs::read_to_string(p).expect("the file is there");
        assert!(text.starts_with("scenario,rate_per_s,seed,"), "a column for each setting: {text}");
        let end = concat!(",", env!("CARGO_PKG_VERSION"), ",pointsman sim ");
        text.lines().skip(1).map(|l| l.split_once(end).expect("what made it").0.to_owned()).collect()
    };
    assert_eq!(read(&ours), read(&theirs));
    let wrong = dir.write("wrong", "{\"a\": 1}\n");
    let told = run(&["sim", &scenario, "--json", &wrong]);
    assert!(told.code == Some(1) && told.stderr.contains("wrong:1: not a result"), "{told:?}");
}

/// The environment for Gymnasium, with Gymnasium's own checker.
#[test]
fn gymnasium() {
    let Some(python) = Client::Gymnasium.python("gymnasium") else { return };
    let dir = Scratch::new("sim-gymnasium");
    let mut command = Command::new(python);
    command
        .args(["tests/clients/test_gymnasium.py", env!("CARGO_BIN_EXE_pointsman"), &scenario(&dir, 60)])
        .current_dir(root())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let finished = finish(command);
    assert!(finished.code == Some(0) && finished.stdout.starts_with("good "), "{finished:?}");
}
