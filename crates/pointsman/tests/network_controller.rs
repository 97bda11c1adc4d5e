//! `pointsman controller` with a network: over TLS, and with a file that changes.

use crate::support::certificates::{authority, issue};
use crate::support::{PATIENCE, Running, Scratch, Switch, finish, pointsman};
use nix::sys::signal::{Signal, kill};
use std::time::{Duration, Instant};

const NETWORK: &str = "[network.leaf_spine]\nleaves = 1\nspines = 1\nhosts_per_leaf = 1\n[scheme]\nname = \"letflow\"\ngap_us = 50\n";

/// Waits until the controller has said it so often.
fn wait_for(controller: &Running, text: &str, times: usize) {
    let start = Instant::now();
    while controller.count(text) < times {
        assert!(start.elapsed() < PATIENCE, "not {times} times: {text}: {:?}", controller.lines(""));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_network_over_tls_whose_file_changes() {
    let dir = Scratch::new("network-controller");
    let (ours, other) = (authority("ours"), authority("another"));
    let (ca, other_ca) = (dir.write("ca.pem", ours.pem()), dir.write("other-ca.pem", other.pem()));
    let (cert, key) = issue(&ours, |_| {});
    let (cert, key) = (dir.write("end.pem", cert), dir.write("end.key", key));
    let tls = ["--grpc-tls-cert", &cert, "--grpc-tls-key", &key, "--grpc-tls-ca", &ca];
    let switches = [Switch::start(&tls), Switch::start(&tls)];
    let addresses =
        format!("[switches]\nleaf1 = \"{}\"\nspine1 = \"{}\"\n", switches[0].address, switches[1].address);
    let write = |text: &str| dir.write("fabric.toml", text.to_string() + &addresses);
    let file = write(NETWORK);
    // Switches of another authority are not trusted, and a file that is none is refused.
    let identity = ["--switch-cert", cert.as_str(), "--switch-key", &key];
    let start =
        |ca: &str| Running::start(&[&["controller", &file, "--switch-ca", ca][..], &identity].concat());
    start(&other_ca).wait_for("is not signed by the CA");
    let done = finish(pointsman(&["controller", &file, "--switch-ca", &key]));
    assert!(done.code == Some(1) && done.stderr.contains("end.key"), "{done:?}");

    let controller = start(&ca);
    wait_for(&controller, "all switches are up to date", 1);
    wait_for(&controller, "has no port ", 3);
    let reach = ["--ca", &ca, "--cert", &cert, "--key", &key];
    let gap = || {
        let address = switches[0].address.to_string();
        let done = finish(pointsman(&[&["p4", "dump", "--address", &address][..], &reach].concat()));
        let line = done.stdout.lines().find(|l| l.contains("set_gap")).map(str::to_string);
        line.unwrap_or_else(|| panic!("{done:?}"))
    };
    let before = gap();

    // Twice the gap, and a host more.
    write(
        &NETWORK.replace("gap_us = 50", "gap_us = 100").replace("hosts_per_leaf = 1", "hosts_per_leaf = 2"),
    );
    wait_for(&controller, "configuration accepted", 1);
    wait_for(&controller, "all switches are up to date", 2);
    let after = gap();
    assert!(before != after, "{before}, {after}");
    assert!(controller.has("leaf1: its flags have changed") && !controller.has("spine1: its flags"));

    // A mistake, and what needs a restart.
    write(&NETWORK.replace("gap_us = 50", "gap_us = -1"));
    wait_for(&controller, "keeping the previous configuration", 1);
    write(&NETWORK.replace("letflow", "hula"));
    wait_for(&controller, "scheme.name changed: restart the controller", 1);
    kill(controller.pid(), Signal::SIGHUP).expect("it runs");
    wait_for(&controller, "scheme.name changed: restart the controller", 2);
    assert_eq!((gap(), controller.count("configuration accepted")), (after, 1));
}
