//! Members that join and leave by themselves, on the wire: a server registers by API, leaves, comes back and expires under 200 connections.

use crate::rack_wire::{Bench, Fallible, PATIENCE, answered_by};
use crate::support::{Running, Scratch, Switch, finish, pointsman};
use nix::sys::signal::Signal;
use pointsman_balance::Policy;
use pointsman_balance::config::file::{ApiSection, MembersSection};
use pointsman_lab::harness::Test;
use pointsman_lab::rack::{DeviceSpec, RackSpec};
use pointsman_lab::{Namespace, ensure};
use pointsman_node::http::client::{Ask, ask};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123";
/// The server that comes and goes.
const SERVER: &str = "s2";

pub const TESTS: &[(&str, Test)] = &[
    ("members_come_and_go_under_load", members_come_and_go_under_load),
    ("an_agent_registers_its_device", an_agent_registers_its_device),
];

/// A request about a device of the server.
fn member(switch: &Namespace, device: &DeviceSpec, method: &str, ttl_s: u32) -> Fallible<()> {
    let url = format!("http://127.0.0.1:9560/v1/members/{SERVER}%2F{}", device.name);
    let kind = if device.speed >= 1.0 { "cpu" } else { "smartnic" };
    let (v4, v6, port) = (device.link.ipv4, device.link.ipv6, device.link.port);
    let body = format!(
        r#"{{"ttl_s": {ttl_s}, "member": {{"kind": "{kind}", "address": "{v4}", "address6": "{v6}", "port": {port}}}}}"#
    );
    let body = (method == "PUT").then_some(("application/json", body));
    let asked = Ask { method, url: &url, token: Some(TOKEN), body, ..Ask::default() };
    let (status, text) = switch.enter(|| {
        let tokio =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        tokio.block_on(ask(asked, PATIENCE)).map_err(|e| e.to_string())
    })??;
    ensure!(status == 200, "{method} {url}: {status} {}", String::from_utf8_lossy(&text));
    Ok(())
}

/// New connections until the server has (not) answered some of them.
fn until_served(bench: &mut Bench, served: bool) -> Fallible<()> {
    let start = Instant::now();
    loop {
        let result = bench.client.answered(false, 40)?;
        let own = ["cpu", "nic"].map(|d| answered_by(&result, &format!("{SERVER}/{d}")));
        if (own.iter().sum::<u64>() > 0) == served {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "{result:?}");
    }
}

fn members_come_and_go_under_load() -> Fallible<()> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("members-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (tokens, state) = (folder.join("tokens"), folder.join("state.json"));
    std::fs::write(&tokens, format!("agents {TOKEN} members\n"))?;
    let spec = RackSpec::demo();
    let devices = spec.servers.iter().find(|s| s.name == SERVER).ok_or("no such server")?.devices.clone();
    let mut bench = Bench::with(1, Policy::Ecmp, |file| {
        file.servers.retain(|s| s.name != SERVER);
        file.api = Some(ApiSection {
            tokens: tokens.display().to_string(),
            state: Some(state.display().to_string()),
            ..ApiSection::default()
        });
        file.sources = vec![MembersSection {
            name: "pool".into(),
            api: true,
            ttl_s: Some(600),
            networks: vec!["0.0.0.0/0".parse().expect("a prefix"), "::/0".parse().expect("a prefix")],
            ports: devices.iter().map(|d| d.link.port).collect(),
            reports: Some(false),
            ..MembersSection::default()
        }];
    })?;
    let switch = bench.live.rack.switch.clone();
    until_served(&mut bench, false)?;
    let both = |method: &str, ttl_s| devices.iter().try_for_each(|d| member(&switch, d, method, ttl_s));
    both("PUT", 600)?;
    until_served(&mut bench, true)?;
    // Its connections outlive its departure, the return and the restart of the controller.
    let result = bench.while_connected(|bench| {
        both("DELETE", 0)?;
        until_served(bench, false)?;
        both("PUT", 600)?;
        until_served(bench, true)?;
        bench.live.stop_controller();
        bench.live.start_controller()?;
        bench.live.wait_in_sync(PATIENCE)?;
        until_served(bench, true)
    })?;
    let own =
        |device: &str| result.connections_by_device.get(&format!("{SERVER}/{device}")).copied().unwrap_or(0);
    ensure!(own("cpu") + own("nic") > 0, "{result:?}");
    // It is not renewed any more.
    let mark = bench.mark();
    both("PUT", 1)?;
    bench.wait_for(mark, "leaves: it was not renewed for 1 s")?;
    bench.live.wait_in_sync(PATIENCE)?;
    until_served(&mut bench, false)?;
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}

/// The state of the member `m1/gpu`.
fn state(here: &Namespace) -> Fallible<String> {
    let url = "http://127.0.0.1:9560/v1/members/m1%2Fgpu";
    let asked = Ask { method: "GET", url, token: Some(TOKEN), ..Ask::default() };
    let (_, body) = here.enter(|| {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        tokio.block_on(ask(asked, PATIENCE)).map_err(std::io::Error::other)
    })??;
    let found: serde_json::Value = serde_json::from_slice(&body)?;
    Ok(found["state"].as_str().unwrap_or("none").to_string())
}

/// Waits until its state is one of these.
fn until_state(here: &Namespace, states: &[&str]) -> Fallible<()> {
    let start = Instant::now();
    loop {
        // A controller that starts does not listen yet.
        let found = state(here).unwrap_or_else(|e| e.to_string());
        if states.contains(&found.as_str()) {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "{found} instead of {states:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// All parts are in one namespace, whose loopback interface also has the device's address. The controller forgets the member, which
/// registers again, with another key; it leaves at SIGTERM.
fn an_agent_registers_its_device() -> Fallible<()> {
    let (here, scratch) = (Namespace::new("registers")?, Scratch::new("registers"));
    for change in ["link set lo up", "address add 10.0.2.7/32 dev lo"] {
        let done = here.enter(|| Command::new("ip").args(change.split(' ')).status())??;
        ensure!(done.success(), "ip {change}: {done}");
    }
    let switch = here.enter(|| Switch::start(&["balancer"]))?;
    let own = format!("[switch]\np4runtime = \"{}\"", switch.address);
    let text = include_str!("../../balance/tests/data/members.toml").replacen("[switch]", &own, 1);
    let text = text.replacen("reports = \"unauthenticated\"", "report_keys = \"keys\"", 1);
    let rack = scratch.write("rack.toml", text);
    let token = scratch.write("tokens", format!("agents {TOKEN} members\n"));
    let keys = finish(pointsman(&["keys", &rack]));
    ensure!(keys.code == Some(0), "{}", keys.stderr);
    scratch.write("members.json", "[]");
    let controller = here.enter(|| Running::start(&["controller", &rack]))?;
    controller.wait_for("the switch is up to date");
    let member = ["agent", &rack, "m1", "gpu", "--register", "http://127.0.0.1:9560", "--token-file", &token];
    let member = [&member[..], &["--kind", "gpu", "--switch-port", "6", "--ttl", "2", "--address"]].concat();
    let refused = here.enter(|| finish(pointsman(&[&member[..], &["192.0.2.7"]].concat())))?;
    ensure!(refused.code == Some(1) && refused.stderr.contains("not in the networks"), "{}", refused.stderr);

    let agent = here.enter(|| Running::start(&[&member[..], &["10.0.2.7"]].concat()))?;
    agent.wait_for("agent of m1/gpu on lo, reports to 10.0.1.1");
    until_state(&here, &["present"])?;
    // Longer than its time to live: it renews.
    std::thread::sleep(Duration::from_secs(5));
    ensure!(state(&here)? == "present" && agent.count("agent of m1/gpu") == 1, "{:?}", agent.lines(""));
    // The controller loses its memory: the member registers again, with another key.
    drop(controller);
    agent.wait_for("`m1/gpu` cannot be registered");
    std::fs::remove_file(scratch.path("state.json"))?;
    let _controller = here.enter(|| Running::start(&["controller", &rack]))?;
    until_state(&here, &["present"])?;
    let start = Instant::now();
    while agent.count("agent of m1/gpu") < 2 {
        ensure!(start.elapsed() < PATIENCE, "{:?}", agent.lines(""));
        std::thread::sleep(Duration::from_millis(50));
    }
    ensure!(agent.has("`m1/gpu` is registered again"), "{:?}", agent.lines(""));
    let ended = agent.end(Signal::SIGTERM);
    ensure!(ended.code == Some(0) && ended.stderr.contains("`m1/gpu` leaves"), "{}", ended.stderr);
    until_state(&here, &["leaving", "none"])
}
