//! Members that join and leave by themselves, on the wire: a server registers by API, leaves, comes back and expires under 200 connections.

use crate::rack_wire::{Bench, Fallible, PATIENCE, answered_by};
use pointsman_balance::Policy;
use pointsman_balance::config::file::{ApiSection, MembersSection};
use pointsman_lab::harness::Test;
use pointsman_lab::rack::{DeviceSpec, RackSpec};
use pointsman_lab::{Namespace, ensure};
use pointsman_node::http::client::{Ask, ask};
use std::path::PathBuf;
use std::time::Instant;

const TOKEN: &str = "0123456789abcdef0123";
/// The server that comes and goes.
const SERVER: &str = "s2";

pub const TESTS: &[(&str, Test)] = &[("members_come_and_go_under_load", members_come_and_go_under_load)];

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
