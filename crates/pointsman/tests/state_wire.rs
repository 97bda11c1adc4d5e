//! `pointsman switch --state`: connections through the balancer outlive a restart of the switch.

use crate::rack_wire::{Bench, PATIENCE};
use crate::support::{Scratch, Switch, assert_no_panic, file, finish, pointsman};
use nix::sys::signal::{Signal, kill};
use pointsman_balance::Policy;
use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use pointsman_live::p4runtime;
use std::time::{Duration, Instant};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

pub const TESTS: &[(&str, Test)] = &[
    ("connections_outlive_a_restart", connections_outlive_a_restart),
    ("state_files_that_cannot_be_used", state_files_that_cannot_be_used),
];

/// How long connections are used.
const DURATION: Duration = Duration::from_secs(30);

/// A switch process in the place of the rack's switch, without a program of its own.
fn start(bench: &Bench, state: &str, workers: usize) -> Fallible<Switch> {
    let workers = format!("--workers={workers}");
    let ports = bench.live.rack.ports.iter();
    let ports: Vec<String> = ports.map(|p| format!("-i{}@{}", p.number, p.interface)).collect();
    let mut args = vec!["--state", state, "--executor", "interp", &workers];
    args.extend(ports.iter().map(String::as_str));
    let address = p4runtime(0).to_string();
    Ok(bench.live.rack.switch.enter(|| Switch::start_at(&address, &args))?)
}

/// Connections are opened, the switch is stopped and started again, and each connection continues on its device, while the controller
/// finds everything as it left it. The state is that of all workers, and another number of them takes it over.
fn connections_outlive_a_restart() -> Fallible<()> {
    let dir = Scratch::new("state");
    let path = dir.path("switch.state");
    let mut bench = Bench::new(Policy::Wrr)?;
    let mark = bench.mark();
    bench.live.stop_switch(0)?;
    // Until it notices, the controller is in sync with the old switch.
    bench.wait_for(mark, "no connection to the switch")?;
    let workers = std::thread::available_parallelism()?.get().min(2);
    let mut switch = Some(start(&bench, &path, workers)?);
    bench.live.wait_in_sync(PATIENCE)?;
    // Hosts that asked for the switch's address while it was gone drop their answers until they ask again, a second later.
    let end = Instant::now() + PATIENCE;
    while let Err(e) = bench.client.answered(false, 20) {
        ensure!(Instant::now() < end, "{e}");
    }
    let mut dark = Duration::ZERO;
    let result = bench.connected(DURATION, |bench| {
        let old = switch.take().ok_or("no switch")?;
        kill(old.pid(), Signal::SIGUSR1)?;
        old.wait_for("state saved to");
        let saved = std::fs::metadata(&path)?.len();
        let (mark, begin) = (bench.mark(), Instant::now());
        let finished = old.stop(Signal::SIGTERM);
        assert_no_panic(&finished);
        ensure!(finished.code == Some(0) && finished.stderr.contains("state saved to"), "{finished:?}");
        ensure!(saved > 1000 && std::fs::metadata(&path)?.len() > 1000, "{saved} bytes");
        switch = Some(start(bench, &path, 1)?);
        dark = begin.elapsed();
        bench.wait_for(mark, "up to date (0 changes)")?;
        let said = bench.since(mark);
        ensure!(!said.iter().any(|l| l.contains("program installed")), "{said:#?}");
        Ok(())
    })?;
    ensure!(result.connections == 200 && result.tcp_connections == 40, "{result:?}");
    ensure!(result.connections_by_device.len() == 4, "{result:?}");
    // Requests while there is no switch are lost, but no connection is.
    ensure!(result.violations == 0 && result.bad_signatures == 0, "{result:?}");
    ensure!(result.tcp_resets == 0 && result.tcp_failures == 0, "{result:?}");
    // TCP notices the end of a pause after as long again.
    let lost = 200.0 * (2.0 * dark.as_secs_f64() + 3.0);
    ensure!(
        dark < DURATION / 3 && (result.unanswered as f64) < lost,
        "after {dark:?} without a switch: {result:?}"
    );
    // New ones, too.
    bench.client.answered(false, 20)?;
    Ok(())
}

/// Errors name the file and the remedy, and the file stays as it is.
fn state_files_that_cannot_be_used() -> Fallible<()> {
    let dir = Scratch::new("bad-state");
    let path = dir.path("switch.state");
    let forwarder = file("examples/forwarder/main.p4");
    let switch = Switch::start(&[&forwarder, "--state", &path]);
    ensure!(!dir.0.join("switch.state").exists(), "it was written at the start");
    let finished = switch.stop(Signal::SIGINT);
    ensure!(finished.code == Some(0), "{finished:?}");
    // The same program, by name or by default.
    for args in [vec!["--state", &path], vec![&*forwarder, "--state", &path]] {
        let finished = Switch::start(&args).stop(Signal::SIGTERM);
        ensure!(finished.code == Some(0), "{finished:?}");
    }
    let whole = std::fs::read(&path)?;
    let check = |args: &[&str], bytes: &[u8], parts: &[&str]| -> Fallible<()> {
        std::fs::write(&path, bytes)?;
        let mut command = pointsman(&["switch", "--p4runtime", "127.0.0.1:0", "--state", &path]);
        command.args(args);
        let finished = finish(command);
        assert_no_panic(&finished);
        ensure!(finished.code == Some(1), "{args:?}: {finished:?}");
        for part in [&path, "move it away", "nothing was changed"].iter().chain(parts) {
            ensure!(finished.stderr.contains(part), "{args:?}: no '{part}' in:\n{}", finished.stderr);
        }
        ensure!(std::fs::read(&path)? == bytes, "{args:?}: the file was changed");
        Ok(())
    };
    let heartbeat = file("examples/heartbeat/main.p4");
    check(&[&heartbeat], &whole, &["saved with another program (Forward", &heartbeat, "omit"])?;
    let changed = dir.write("changed.p4", std::fs::read_to_string(&forwarder)? + "// changed");
    check(&[&changed], &whole, &["another version of", &changed])?;
    check(&[], &whole[..whole.len() / 2], &["incomplete"])?;
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    check(&[], &damaged, &["damaged"])?;
    check(&[], b"#include <core.p4>", &["not the state of a switch"])?;
    check(&["--priority-queues", "2"], &whole, &["queues: 1 queues per port, the switch has 2"])?;
    let folder = dir.path("");
    let inside = format!("{folder}: this is a folder: give a file, such as {}", dir.path("switch.state"));
    for (path, message) in [("/nowhere/switch.state", "writable folder"), (&*folder, &*inside)] {
        let mut command = pointsman(&["switch", "--state", path]);
        command.args(["--p4runtime", "127.0.0.1:0"]);
        let finished = finish(command);
        ensure!(finished.code == Some(1) && finished.stderr.contains(message), "{message}: {finished:?}");
    }
    Ok(())
}
