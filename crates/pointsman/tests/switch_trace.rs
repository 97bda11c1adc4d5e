//! Packets that are followed through a running switch: `switch --trace` and `p4 trace --live --follow`.

use crate::support::controller::{Controller, connect};
use crate::support::{PATIENCE, Scratch, Switch, file, pointsman, run};
use pointsman_control::proto::p4rt as pb;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FORWARDER: &str = "examples/forwarder/main.p4";

/// A frame to the address of the entry, of this type.
fn frame(ethertype: u8) -> Vec<u8> {
    [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, ethertype].to_vec()
}

/// Lets a packet come in from the control plane.
fn send(controller: &mut Controller, payload: Vec<u8>) {
    let packet = pb::PacketOut { payload, metadata: Vec::new() };
    controller.tell(pb::stream_message_request::Update::Packet(packet));
}

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command, stdout: &str) -> Ends {
    let stdout = File::create(stdout).expect("the folder is writable");
    Ends(command.stdout(stdout).stderr(Stdio::null()).spawn().expect("it starts"))
}

/// Sends frames until `enough` is true of the file.
fn send_until(controller: &mut Controller, path: &str, enough: impl Fn(&str) -> bool) -> String {
    let begin = Instant::now();
    loop {
        send(controller, frame(6));
        send(controller, frame(0));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if enough(&text) {
            return text;
        }
        assert!(begin.elapsed() < PATIENCE, "too little in {path}:\n{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_live_switch_is_followed() {
    let dir = Scratch::new("trace-follow");
    let state = dir.write("start.stf", "add forward dst:02:00:00:00:00:02 send(port:2)\n");
    let switch = Switch::start(&[&file(FORWARDER), "--entries", &state]);
    let (mut controller, _) = connect(switch.address, 1);
    let address = switch.address.to_string();
    let follow = |filter: &str, more: &[&str]| {
        let args = [&["p4", "trace", "--live", &address, "--follow", filter], more].concat();
        (pointsman(&args), dir.path(filter))
    };
    let (mut command, path) = follow("port=510,type=ipv4,count=2", &[]);
    let mut client = start(&mut command, &path);
    // Both may be in one trace.
    let ends = ["  #1: dropped", "  #2: dropped"];
    let text = send_until(&mut controller, &path, |text| ends.iter().all(|end| text.contains(end)));
    assert!(client.0.wait().expect("it ends").success());
    for part in [
        "received on port 510, 14 bytes: 0200000000020200000000010800",
        "examples/forwarder/main.p4:61",
        "table Forward.forward: hit",
        "entry 0x020000000002",
        "action Forward.send(port = 0x002)",
        "egress Prune",
        "emit hdr.ethernet: dst = 0x020000000002",
        // The switch has no port 2.
        "#1: dropped: unknown_egress_port",
        "#2: dropped: unknown_egress_port",
    ] {
        assert!(text.contains(part), "no {part} in:\n{text}");
    }
    assert!(!text.contains("0806"), "{text}");

    // One client at a time; the trace ends with its client.
    let (mut command, path) = follow("type=arp,count=10000,rate=1000", &["--json"]);
    let client = start(&mut command, &path);
    let text = send_until(&mut controller, &path, |text| text.contains("results"));
    assert!(text.contains("\"format\": \"pointsman-p4-trace-1\"") && text.contains("0806"), "{text}");
    let busy = run(&["p4", "trace", "--live", &address, "--follow", "all"]);
    assert!(busy.code == Some(1) && busy.stderr.contains("already follows packets"), "{}", busy.stderr);
    drop(client);
    switch.wait_for("no longer follows packets");
    let other = run(&["p4", "trace", "--live", &address, "--device-id", "7", "--follow", "all"]);
    assert!(other.code == Some(1) && other.stderr.contains("this is device 1, not 7"), "{}", other.stderr);
    let bad = run(&["p4", "trace", "--live", &address, "--follow", "prot=1"]);
    assert!(bad.code == Some(2) && bad.stderr.contains("column 1: unknown word `prot`"), "{}", bad.stderr);
}

#[test]
fn a_switch_traces_from_its_start() {
    let dir = Scratch::new("trace-start");
    let (path, log) = (dir.path("traces"), dir.path("log"));
    let args = ["switch", "--p4runtime", "127.0.0.1:0", "--log-file", &log, &file(FORWARDER)];
    let mut command = pointsman(&[&args[..], &["--trace", "type=arp count=1", "--trace-json"]].concat());
    command.stdout(File::create(&path).expect("writable")).stderr(Stdio::piped());
    let mut child = Ends(command.spawn().expect("it starts"));
    let stderr = std::io::BufReader::new(child.0.stderr.take().expect("piped"));
    let (tell, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = std::io::BufRead::lines(stderr).map_while(Result::ok);
        lines.all(|line| tell.send(line).is_ok())
    });
    let next = |text: &str| loop {
        let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|e| panic!("{e}: no line with {text}"));
        if let Some((_, rest)) = line.split_once(text) {
            return rest.to_string();
        }
    };
    let at = next("P4Runtime on ");
    let address = at.split(',').next().and_then(|a| a.parse().ok());
    let (mut controller, _) = connect(address.expect("an address"), 1);
    let text = send_until(&mut controller, &path, |text| text.contains("results"));
    assert!(text.contains("0806") && text.contains("Forward.flood"), "{text}");
    next("--trace: count=1 is reached");
    let bad = run(&["switch", &file(FORWARDER), "--trace", "dport=http"]);
    assert!(bad.code == Some(2) && bad.stderr.contains("column 7: `http` is not a number"), "{}", bad.stderr);
}
