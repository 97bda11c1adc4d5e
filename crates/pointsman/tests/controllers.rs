//! Several controllers of one real switch (without interfaces), clients that are not Pointsman's, restarts, and half-written files.

use crate::support::controller::connect;
use crate::support::{PATIENCE, Running, Scratch, Switch, file, finish, pointsman, tell};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::time::{Duration, Instant};
use tonic::Code;

/// Time limit of a takeover here: far more than the promised two seconds, since test machines are busy.
const SOON: Duration = Duration::from_secs(15);

struct Bench {
    switch: Option<Switch>,
    scratch: Scratch,
    rack: String,
    text: String,
}

impl Bench {
    fn new(name: &str, settings: &str) -> Bench {
        let switch = Switch::start(&["balancer"]);
        let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
        let text = example
            .replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1)
            .replacen(
                "p4runtime = \"127.0.0.1:9559\"",
                &format!("p4runtime = \"{}\"\n{settings}", switch.address),
                1,
            )
            // Several controllers run on this machine.
            .replacen("tokens = ", "listen = \"127.0.0.1:0\"\ntokens = ", 1);
        let scratch = Scratch::new(name);
        scratch.write("tokens.txt", "operator 0123456789abcdef\n");
        let rack = scratch.write("rack.toml", &text);
        Bench { switch: Some(switch), scratch, rack, text }
    }

    fn controller(&self) -> Running {
        Running::start(&["controller", &self.rack])
    }

    fn switch(&self) -> &Switch {
        self.switch.as_ref().expect("it runs")
    }
}

/// How long it takes until a controller, which is not in charge so far, has brought the switch up to date.
fn takeover(what: &str, controller: &Running) {
    let start = Instant::now();
    controller.wait_for("the switch is up to date");
    tell(&format!("{what}: {} ms", start.elapsed().as_millis()));
    assert!(start.elapsed() < SOON, "{what}: {:?}", start.elapsed());
}

/// A change at a standby is accepted, and answered at once with the reason why it waits.
fn standby_says_so(b: &Bench, standby: &Running) {
    let line = standby.wait_for("API on ");
    let api = line.split("API on ").nth(1).expect("an address").trim();
    let tokens = b.scratch.write("tokens.txt", "operator 0123456789abcdef\n");
    let set =
        ["policy", "--api", api, "--token-file", &tokens, "set", "--service", "inference", "--policy", "wrr"];
    let start = Instant::now();
    let done = finish(pointsman(&set));
    assert_eq!(done.code, Some(3), "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.starts_with("change 1: pending: this controller is not in charge of the switch"),
        "{}",
        done.stdout
    );
    assert!(start.elapsed() < Duration::from_secs(8), "it waits for nothing: {:?}", start.elapsed());
    // The other one may have been asked to drain the device.
    let done = finish(pointsman(&["enable", "--api", api, "--token-file", &tokens, "s1/cpu"]));
    let said = "as far as this controller knows, s1/cpu is not drained; it is not in charge of the switch";
    assert!(done.code == Some(1) && done.stderr.contains(said), "{}{}", done.stdout, done.stderr);
    let done = finish(pointsman(&["status", "--api", api, "--token-file", &tokens]));
    let said = "controller  standby: states of devices are as configured; the controller in charge has the live ones";
    let title = done.stdout.lines().next().unwrap_or_default();
    assert!(done.code == Some(0) && title.ends_with("STATE AS CONFIGURED"), "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains(said), "{}", done.stdout);
}

#[test]
fn a_standby_takes_over_and_a_restarted_controller_becomes_standby() {
    let b = Bench::new("standby", "");
    let first = b.controller();
    first.wait_for("the switch is up to date");
    let second = b.controller();
    second.wait_for("another controller is in charge");
    standby_says_so(&b, &second);
    let third = b.controller();
    third.wait_for("another controller is in charge");
    drop(first.end(Signal::SIGKILL));
    let start = Instant::now();
    while !(second.has("up to date") || third.has("up to date")) {
        assert!(start.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(5));
    }
    tell(&format!("one of two standbys leads after {} ms", start.elapsed().as_millis()));
    let again = b.controller();
    again.wait_for("another controller is in charge");
    assert!(!again.has("in charge of the switch"));
}

/// Which of two controllers leads, once the other one is standby, by what each of them said last.
fn leader(all: &[Running; 2]) -> usize {
    let last = |c: &Running| {
        let of_roles =
            ["in charge of the switch (", "another controller is in charge", "the connection has ended"];
        c.lines("").iter().rev().find_map(|line| of_roles.iter().position(|text| line.contains(text)))
    };
    let start = Instant::now();
    loop {
        match all.each_ref().map(last) {
            [Some(0), Some(1)] => return 0,
            [Some(1), Some(0)] => return 1,
            roles => assert!(start.elapsed() < PATIENCE, "no leader and standby: {roles:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process hangs until the controller `at` has said `text` once more: how long that takes. One that says nothing is given up.
fn noticed(text: &str, at: &Running, hangs: Pid) -> Duration {
    let before = at.count(text);
    nix::sys::signal::kill(hangs, Signal::SIGSTOP).expect("stopped");
    let start = Instant::now();
    while at.count(text) == before && start.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    nix::sys::signal::kill(hangs, Signal::SIGCONT).expect("continued");
    start.elapsed()
}

/// A controller that hangs is replaced, and a switch that hangs is noticed, within two seconds: once of five times, since test machines are
/// busy, and connections end for that reason too.
#[test]
fn what_hangs_is_noticed() {
    const LIMIT: Duration = Duration::from_secs(2);
    /// What is quicker has another reason than the silence.
    const QUICK: Duration = Duration::from_millis(500);
    let b = Bench::new("hangs", "");
    let all = [b.controller(), b.controller()];
    let once = |what: &str, attempt: &dyn Fn() -> Duration| {
        let mut late = Vec::new();
        while late.len() < 5 {
            let took = attempt();
            if (QUICK..LIMIT).contains(&took) {
                return tell(&format!(
                    "{what} is noticed after {took:?}, not in these attempts before: {late:?}"
                ));
            }
            late.push(took);
        }
        panic!("{what}: {late:?}");
    };
    once("a controller that hangs", &|| {
        let leader = leader(&all);
        noticed("in charge of the switch (", &all[1 - leader], all[leader].pid())
    });
    once("a switch that hangs", &|| {
        let leader = leader(&all);
        noticed("the connection has ended", &all[leader], b.switch().pid())
    });
}

#[test]
fn a_restarted_controller_and_a_foreign_client() {
    let mut b = Bench::new("foreign", "");
    let first = b.controller();
    first.wait_for("the switch is up to date");
    drop(first.end(Signal::SIGKILL));
    let again = b.controller();
    takeover("restarted controller", &again);
    // The highest possible id.
    let (client, code) = connect(b.switch().address, u128::MAX);
    assert_eq!(code, Code::Ok, "P4Runtime gives it the switch");
    again.wait_for("it is not a Pointsman controller: nothing is written");
    // A controller that starts now logs the same.
    let other = b.controller();
    other.wait_for("it is not a Pointsman controller: nothing is written");
    drop(client);
    let start = Instant::now();
    while !again.has("taking over") && !other.has("taking over") {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    // With an empty switch ids begin again, and one of them fills it.
    let address = b.switch().address.to_string();
    drop(b.switch.take());
    let lines = |c: &Running| c.count("the switch is up to date");
    let before = lines(&again) + lines(&other);
    b.switch = Some(Switch::start_at(&address, &["balancer"]));
    let start = Instant::now();
    while lines(&again) + lines(&other) == before {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    tell(&format!("up to date {} ms after the restarted switch listens", start.elapsed().as_millis()));
}

#[test]
fn a_switch_is_taken_from_a_foreign_client_where_the_file_says_so() {
    let b = Bench::new("preempt", "preempt = true");
    let controller = b.controller();
    controller.wait_for("the switch is up to date");
    let (mut client, code) = connect(b.switch().address, 1 << 100);
    assert_eq!(code, Code::Ok);
    assert_eq!(client.hear_arbitration(), Code::AlreadyExists, "another controller is primary now");
    controller.wait_for("it is not a Pointsman controller");
}

#[test]
fn a_half_written_file_is_refused() {
    let b = Bench::new("half-written", "");
    let controller = b.controller();
    controller.wait_for("the switch is up to date");
    let services = b.text.find("[[service]]").expect("there is one");
    b.scratch.write("rack.toml", &b.text[..services]);
    let line = controller.wait_for("not applied, possibly half-written");
    assert!(line.contains("removes all services: inference") && line.contains("kill -HUP"), "{line}");
    assert_eq!(controller.count("configuration accepted"), 0);
    // The operator confirms it.
    nix::sys::signal::kill(controller.pid(), Signal::SIGHUP).expect("it runs");
    let line = controller.wait_for("configuration accepted, from rack.toml of 20");
    assert!(line.contains(": removed service inference"), "{line}");
    controller.wait_for("takes no new connections");
}
