//! `pointsman failover`: switches and a store as processes, connections of the kernel's TCP, histories checked.

use crate::support::captures::judge;
use crate::support::store::StoreProcess;
use crate::support::{Scratch, pointsman};
use pointsman_failover::{App, Fault, Load, Options, Replicate, Scale, measure};
use pointsman_lab::harness::Test;
use pointsman_lab::{ensure, private_folder};
use pointsman_ports::pcap::Reader;
use pointsman_store::View;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const TESTS: &[(&str, Test)] = &[
    ("connections_outlive_their_switch", connections_outlive_their_switch),
    ("translations_outlive_their_switch", translations_outlive_their_switch),
    ("readers_outlive_their_switch", readers_outlive_their_switch),
    ("full_segments_wait_at_the_store", full_segments_wait_at_the_store),
    ("counts_have_an_order", counts_have_an_order),
    ("values_and_tunnels_have_an_order", values_and_tunnels_have_an_order),
    ("a_switch_that_is_cut_off_gives_its_keys_up", a_switch_that_is_cut_off_gives_its_keys_up),
    ("servers_of_connections_outlive_their_switch", servers_of_connections_outlive_their_switch),
    ("connections_of_the_balancer_outlive_its_switch", connections_of_the_balancer_outlive_its_switch),
    ("a_chain_outlives_each_of_its_nodes", a_chain_outlives_each_of_its_nodes),
    ("a_chain_with_etcd_outlives_each_of_its_nodes", a_chain_with_etcd_outlives_each_of_its_nodes),
    ("a_state_in_etcd_outlives_stores_and_nodes", a_state_in_etcd_outlives_stores_and_nodes),
    ("messages_go_over_ipv6", messages_go_over_ipv6),
    ("without_protection_both_break", without_protection_both_break),
    ("a_full_disk_has_room_again", a_full_disk_has_room_again),
];

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Runs it: whether it found everything fine, and its JSON.
fn failover(dir: &Scratch, arguments: &[&str]) -> Result<(bool, Value), Box<dyn std::error::Error>> {
    let json = dir.path("r.json");
    let mut command: Command = pointsman(&["failover", "--quick", "--lease-ms", "300", "--json", &json]);
    let output = command.args(arguments).output()?;
    ensure!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let text = std::fs::read_to_string(&json).map_err(|e| format!("{e}: {output:?}"))?;
    Ok((output.status.success(), serde_json::from_str(&text)?))
}

fn connections_outlive_their_switch() -> Outcome {
    let dir = Scratch::new("failover-firewall");
    let (fine, result) = failover(&dir, &["--app", "firewall", "--fault", "switch"])?;
    ensure!(fine, "{result:#}");
    ensure!(result["connections"]["established"] == 200, "{result:#}");
    ensure!(result["protected"] == true && result["lease_ms"] == 300, "{result:#}");
    // Nothing passes while the lease of the dead switch lasts; after that, on a busy machine, soon.
    let recovery = result["recovery_ms"].as_f64().unwrap_or(f64::INFINITY);
    ensure!((100.0..3000.0).contains(&recovery), "{result:#}");
    Ok(())
}

fn translations_outlive_their_switch() -> Outcome {
    let dir = Scratch::new("failover-nat");
    let (fine, result) = failover(&dir, &["--app", "nat", "--fault", "switch", "--lease", "session"])?;
    ensure!(
        fine && result["lease"] == "session" && result["connections"]["established"] == 200,
        "{result:#}"
    );
    Ok(())
}

/// A stream of full segments. The second switch asks for the key with them, and they pass when the lease of the first one ends, so that TCP need not send again.
fn full_segments_wait_at_the_store() -> Outcome {
    let dir = Scratch::new("failover-stream");
    let (folder, captures) = (dir.0.join("run"), dir.0.join("captures"));
    std::fs::create_dir(&folder)?;
    let seconds = Duration::from_secs;
    let scale = Scale { load: Load::Stream, before: seconds(2), broken: seconds(4), repair: false };
    let options = Options {
        scale,
        replicate: Replicate::Chain,
        pcap: Some(captures.clone()),
        ..Options::new(App::Nat, Fault::Switch, Path::new(env!("CARGO_BIN_EXE_pointsman")), &folder)
    };
    let outcome = measure(&options, &mut |_| {})?;
    ensure!(outcome.deaths.is_empty(), "{:?}", outcome.deaths);
    let stall = outcome.stalls()[0];
    ensure!(stall < seconds(3), "no byte for {stall:?} after the fault");
    // The headers of a message around a frame of 1,514 bytes: to the store, and back.
    for way in ["out", "in"] {
        let mut capture = Reader::open(&captures.join(format!("veth3-1_{way}.pcap")))?;
        let (mut frame, mut longest) = (Vec::new(), 0);
        // The last frame of a switch that was stopped may not be there as a whole.
        while let Ok(Some(_)) = capture.read(&mut frame) {
            longest = longest.max(frame.len());
        }
        ensure!(longest > 1514, "{way}: the longest frame has {longest} bytes");
    }
    Ok(())
}

fn counts_have_an_order() -> Outcome {
    let dir = Scratch::new("failover-counter");
    let history = dir.path("h.jsonl");
    let (fine, result) = failover(&dir, &["--app", "counter", "--fault", "store", "--history", &history])?;
    ensure!(fine, "{result:#}");
    let operations = result["history"]["operations"].as_u64().unwrap_or(0);
    ensure!(operations > 1000 && result["history"]["keys"] == 8, "{result:#}");

    let check = |path: &str| pointsman(&["history", "check", path]).output();
    let output = check(&history)?;
    ensure!(output.status.success(), "{output:?}");
    ensure!(String::from_utf8_lossy(&output.stdout).contains("linearizable"), "{output:?}");
    // A packet that shows the count of the one before it, and one that is not in the file any more.
    let text = std::fs::read_to_string(&history)?;
    let lines: Vec<&str> = text.lines().collect();
    let with_count = |line: &&&str| line.contains("\"out\"");
    let late = lines.iter().filter(with_count).nth(100).ok_or("no packet was received")?;
    let without: Vec<&str> = lines.iter().filter(|l| *l != late).copied().collect();
    let broken = dir.write("broken.jsonl", without.join("\n"));
    let output = check(&broken)?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    ensure!(String::from_utf8_lossy(&output.stdout).contains("flow 0: "), "{output:?}");
    let output = check(&dir.write("program.jsonl", lines[0]))?;
    ensure!(output.status.code() == Some(2), "{output:?}");
    ensure!(String::from_utf8_lossy(&output.stderr).contains("line 2: no packet"), "{output:?}");
    Ok(())
}

/// Updates and reads of keys, and packets that follow what signalling says.
fn values_and_tunnels_have_an_order() -> Outcome {
    let dir = Scratch::new("failover-values");
    for (app, fault) in [("kvstore", "switch"), ("gateway", "pause")] {
        let (fine, result) = failover(&dir, &["--app", app, "--fault", fault])?;
        ensure!(fine && result["history"]["keys"] == 8, "{app}: {result:#}");
        let of = |name: &str| result["history"][name].as_u64().unwrap_or(0);
        ensure!(of("operations") > 1000 && of("unanswered") < of("operations") / 2, "{app}: {result:#}");
    }
    Ok(())
}

/// It loses its links to hosts, so that its keys are recalled, or that to the store, so that its leases end.
fn a_switch_that_is_cut_off_gives_its_keys_up() -> Outcome {
    let dir = Scratch::new("failover-cut-off");
    for fault in ["link", "partition"] {
        let (fine, result) = failover(&dir, &["--app", "counter", "--fault", fault])?;
        ensure!(fine && result["history"]["keys"] == 8, "{fault}: {result:#}");
        ensure!(result["history"]["operations"].as_u64() > Some(1000), "{fault}: {result:#}");
        let recovery = result["recovery_ms"].as_f64().unwrap_or(f64::INFINITY);
        ensure!(recovery < 3000.0, "{fault}: {result:#}");
    }
    Ok(())
}

/// Both switches may have a shared lease at the same time.
fn readers_outlive_their_switch() -> Outcome {
    let dir = Scratch::new("failover-shared");
    let (fine, result) = failover(&dir, &["--app", "firewall", "--fault", "switch", "--lease", "shared"])?;
    ensure!(fine && result["lease"] == "shared" && result["connections"]["established"] == 200, "{result:#}");
    Ok(())
}

/// The second switch has another server for new connections, to which the old ones must not go.
fn servers_of_connections_outlive_their_switch() -> Outcome {
    let dir = Scratch::new("failover-dispatch");
    let (fine, result) = failover(&dir, &["--app", "dispatch", "--fault", "switch"])?;
    ensure!(fine && result["connections"]["established"] == 200, "{result:#}");
    Ok(())
}

/// A rack with two servers and a controller. A switch that does not know the connections asks the store, also one that was started again.
fn connections_of_the_balancer_outlive_its_switch() -> Outcome {
    let dir = Scratch::new("failover-balancer");
    for more in [&["--fault", "switch"][..], &["--fault", "store", "--ipv6"]] {
        let (fine, result) = failover(&dir, &[&["--app", "balancer"], more].concat())?;
        ensure!(fine && result["connections"]["established"] == 200, "{more:?}: {result:#}");
        ensure!(result["lease"].is_null(), "{more:?}: {result:#}");
    }
    Ok(())
}

fn a_chain_outlives_each_of_its_nodes() -> Outcome {
    let dir = Scratch::new("failover-chain");
    for node in ["head", "middle", "tail"] {
        let flags = ["--app", "counter", "--fault", "store", "--replicate", "chain", "--node", node];
        outlives(&dir, node, &flags)?;
    }
    Ok(())
}

/// The same with views in etcd.
fn a_chain_with_etcd_outlives_each_of_its_nodes() -> Outcome {
    if !pointsman_needs::programs("views of a chain in etcd", &["etcd-server:etcd"]) {
        return Ok(());
    }
    let dir = Scratch::new("failover-chain-etcd");
    for node in ["head", "middle", "tail"] {
        let flags =
            ["--app", "counter", "--fault", "store", "--replicate", "chain", "--etcd", "--node", node];
        outlives(&dir, node, &flags)?;
    }
    let flags = ["--app", "counter", "--fault", "store", "--replicate", "chain", "--etcd", "--node", "etcd"];
    let (fine, result) = failover(&dir, &flags)?;
    ensure!(fine && result["history"]["operations"].as_u64() > Some(1000), "{result:#}");
    let view: View = result["view"].as_str().unwrap_or_default().parse()?;
    ensure!(view.chain.len() == 3 && view.chain.iter().all(|m| m.run() == 1), "{view}");
    Ok(())
}

/// The state is in etcd: the store that serves pauses for longer than a lease, or a node of etcd fails.
fn a_state_in_etcd_outlives_stores_and_nodes() -> Outcome {
    if !pointsman_needs::programs("state of a store in etcd", &["etcd-server:etcd"]) {
        return Ok(());
    }
    let dir = Scratch::new("failover-etcd");
    for node in ["paused", "etcd"] {
        let flags = ["--app", "counter", "--fault", "store", "--replicate", "etcd", "--node", node];
        let (fine, result) = failover(&dir, &flags)?;
        ensure!(fine && result["history"]["operations"].as_u64() > Some(1000), "{node}: {result:#}");
        let recovery = result["recovery_ms"].as_f64().unwrap_or(f64::INFINITY);
        ensure!(recovery < 3000.0, "{node}: {result:#}");
    }
    Ok(())
}

/// The kernel of the store takes only datagrams whose checksum is right. Then to a chain, by a multicast group.
fn messages_go_over_ipv6() -> Outcome {
    let dir = Scratch::new("failover-ipv6");
    let captures = dir.path("captures");
    let flags = ["--app", "nat", "--fault", "switch", "--ipv6", "--pcap", &captures];
    let (fine, result) = failover(&dir, &flags)?;
    ensure!(fine && result["ipv6"] == true && result["connections"]["established"] == 200, "{result:#}");
    // The ports of both switches to the store.
    judge("failover_wire", &captures, &["3_in", "3_out", "3-1_in", "3-1_out"], &["--messages"])?;
    let flags = ["--app", "counter", "--fault", "store", "--replicate", "chain", "--node", "head", "--ipv6"];
    outlives(&dir, "head", &flags)
}

/// A node of the chain fails, is removed, and its next run joins the chain.
fn outlives(dir: &Scratch, node: &str, flags: &[&str]) -> Outcome {
    let (fine, result) = failover(dir, flags)?;
    ensure!(fine, "{node}: {result:#}");
    ensure!(result["history"]["operations"].as_u64() > Some(1000), "{node}: {result:#}");
    let recovery = result["recovery_ms"].as_f64().unwrap_or(f64::INFINITY);
    ensure!((50.0..4000.0).contains(&recovery), "{node}: {result:#}");
    // It was removed, and its next run joined the chain.
    let view: View = result["view"].as_str().unwrap_or_default().parse()?;
    ensure!(view.chain.len() == 3 && view.chain.iter().any(|m| m.run() == 2), "{node}: {view}");
    Ok(())
}

fn without_protection_both_break() -> Outcome {
    let dir = Scratch::new("failover-plain");
    let (fine, result) = failover(&dir, &["--app", "firewall", "--fault", "switch", "--plain"])?;
    ensure!(!fine && result["connections"]["broken"] == 200, "{result:#}");
    let (fine, result) = failover(&dir, &["--app", "counter", "--fault", "switch", "--plain"])?;
    ensure!(!fine && result["history"]["violations"] == 8, "{result:#}");
    for app in ["dispatch", "balancer"] {
        let (fine, result) = failover(&dir, &["--app", app, "--fault", "switch", "--plain"])?;
        ensure!(!fine && result["connections"]["broken"] == 200, "{app}: {result:#}");
    }
    Ok(())
}

/// A store whose disk is full answers nothing, and continues when there is room again.
fn a_full_disk_has_room_again() -> Outcome {
    let dir = Scratch::new("store-full");
    private_folder(&dir.0, 4 << 20)?;
    let ballast = dir.write("ballast", vec![7; 2 << 20]);
    let mut store = StoreProcess::start(&dir, &["--data", &dir.path("data")]);
    let mut grants = (0..).map(|key| store.grant(key));
    let before = grants.position(|granted| !granted).unwrap_or(0);
    ensure!(before > 100, "{before} keys before the disk was full");
    std::fs::remove_file(ballast)?;
    let mut again = (1_000_000..1_000_050).map(|key| store.grant(key));
    ensure!(again.any(|granted| granted), "no answer though the disk has room");
    ensure!(again.all(|granted| granted), "some keys have no answer");
    // All that was answered is there after a crash.
    store.kill();
    let second = StoreProcess::start(&dir, &["--data", &dir.path("data")]);
    ensure!(second.keys() > before as u64 + 40, "{} keys, {before} before", second.keys());
    Ok(())
}
