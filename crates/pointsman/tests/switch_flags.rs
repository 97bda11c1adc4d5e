//! The flags of `pointsman switch` that come from simple_switch and simple_switch_grpc: scripts pass them, so each is
//! supported, warned about or refused, and documented.

use crate::support::controller::connect;
use crate::support::{
    Finished, PATIENCE, Running, Scratch, Switch, assert_no_panic, file, finish, pointsman,
};
use clap::Args as _;
use nix::sys::signal::{Signal, kill};
use pointsman_node::switch::Args;
use pointsman_ports::pcap::{Reader, Writer};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tonic::Code;

const GOOD: &str = "examples/forwarder/main.p4";

/// The options listed by `simple_switch --help` and `simple_switch_grpc --help`, with every option compiled in.
const BMV2: &[&str] = &[
    "help",
    "interface",
    "pcap",
    "use-files",
    "packet-in",
    "thrift-port",
    "device-id",
    "nanolog",
    "log-console",
    "log-file",
    "log-level",
    "log-flush",
    "log-file-max-size",
    "log-file-max-files",
    "notifications-addr",
    "debugger",
    "debugger-addr",
    "restore-state",
    "dump-packet-data",
    "version",
    "json-version",
    "no-p4",
    "max-port-count",
    // Of the target, behind `--`.
    "load-modules",
    "enable-swap",
    "disable-swap",
    "drop-port",
    "priority-queues",
    "max-mc-groups",
    "max-l1-entries",
    "max-l2-entries",
    "grpc-server-addr",
    "grpc-server-ssl",
    "grpc-server-cacert",
    "grpc-server-cert",
    "grpc-server-key",
    "grpc-server-with-client-auth",
    "cpu-port",
    "dp-grpc-server-addr",
];

fn flags_of_the_parser() -> BTreeSet<String> {
    let mut command = Args::augment_args(clap::Command::new("switch").version("1"));
    command.build();
    let mut flags = BTreeSet::new();
    for argument in command.get_arguments() {
        flags.extend(argument.get_long().map(|l| format!("--{l}")));
        flags.extend(argument.get_all_aliases().into_iter().flatten().map(|l| format!("--{l}")));
        flags.extend(argument.get_short().map(|s| format!("-{s}")));
    }
    // `-V` is clap's.
    flags.remove("-V");
    flags
}

/// Flags in the first column of the table, and those whose second column names BMv2.
fn flags_of_the_table() -> (BTreeSet<String>, BTreeSet<String>) {
    let text = std::fs::read_to_string(file("docs/switch.md")).unwrap();
    let (mut all, mut bmv2) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines().filter(|l| l.starts_with("| `-")) {
        let columns: Vec<&str> = line.split('|').skip(1).collect();
        let flags = columns[0].split(['`', ' ']).filter(|w| w.starts_with('-')).map(str::to_string);
        let flags: Vec<String> = flags.collect();
        if !columns[1].trim().is_empty() {
            bmv2.extend(flags.iter().cloned());
        }
        all.extend(flags);
    }
    (all, bmv2)
}

#[test]
fn every_flag_is_documented() {
    let (documented, of_bmv2) = flags_of_the_table();
    assert_eq!(flags_of_the_parser(), documented);
    let expected: BTreeSet<String> = BMV2.iter().map(|f| format!("--{f}")).collect();
    let long: BTreeSet<String> = of_bmv2.iter().filter(|f| f.starts_with("--")).cloned().collect();
    let ours: BTreeSet<String> = ["--p4runtime".to_string()].into();
    assert_eq!(&expected | &ours, long);
}

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["switch", "--grpc-server-addr", "127.0.0.1:0"], more].concat()
}

/// A switch that must not start.
fn refused(more: &[&str], parts: &[&str]) {
    let finished = finish(pointsman(&args(more)));
    assert_eq!(finished.code, Some(2), "{more:?}: {finished:?}");
    assert_no_panic(&finished);
    for part in parts {
        assert!(finished.stderr.contains(part), "{more:?}: no '{part}' in:\n{}", finished.stderr);
    }
}

/// A switch that must start.
fn started(more: &[&str]) -> Finished {
    let finished = Switch::start(more).stop(Signal::SIGTERM);
    assert_eq!(finished.code, Some(0), "{more:?}: {finished:?}");
    assert_no_panic(&finished);
    finished
}

#[test]
fn what_cannot_be_honoured_is_refused() {
    let good = file(GOOD);
    refused(&[&good, "--packet-in", "ipc:///tmp/x"], &["--packet-in", "--use-files"]);
    refused(&[&good, "--", "--dp-grpc-server-addr", "0.0.0.0:50052"], &["--dp-grpc-server-addr", "-i"]);
    refused(&[&good, "--debugger"], &["no debugger", "p4 trace"]);
    refused(&[&good, "--debugger-addr", "ipc:///tmp/x"], &["no debugger", "p4 trace"]);
    refused(&[&good, "--restore-state", "x"], &["--restore-state", "controller"]);
    refused(&[&good, "--", "--load-modules", "x.so"], &["--load-modules", "built in"]);
    refused(&["--json-version"], &["P4 source"]);
    refused(&[&good, "--log-console", "--log-file", "x"], &["--log-file", "cannot be used with"]);
    refused(&[&good, "--use-files", "0", "--pcap"], &["--pcap", "cannot be used with"]);
    refused(&[&good, "--log-level", "loud"], &["loud", "trace, debug, info, warn, error, off"]);
    refused(&[&good, "--log-file-max-size", "0"], &["--log-file-max-size"]);
}

#[test]
fn what_does_nothing_is_warned_of() {
    let good = file(GOOD);
    for (more, part) in [
        (&["--thrift-port", "9090"][..], "--thrift-port: there is no Thrift server; use P4Runtime"),
        (&["--nanolog", "ipc:///tmp/x"], "--nanolog: nanomsg events are not supported"),
        (&["--notifications-addr", "ipc:///tmp/x"], "--notifications-addr: "),
        (&["--", "--disable-swap"], "--disable-swap: a controller can always replace"),
        (&["--", "--max-mc-groups", "5"], "multicast is not limited"),
        (&["--log-flush"], "--log-flush does nothing without --log-file"),
        (&["--dump-packet-data", "9", "-L", "error"], "--dump-packet-data does nothing"),
    ] {
        let finished = started(&[&[good.as_str()], more].concat());
        let warnings: Vec<&str> = finished.stderr.lines().filter(|l| l.contains("warning: ")).collect();
        assert!(warnings.len() == 1 && warnings[0].contains(part), "{more:?}: {warnings:?}");
    }
    // Supported flags give no warning.
    for more in [&["--", "--enable-swap", "--cpu-port", "255"][..], &["--max-port-count", "16"], &["--no-p4"]]
    {
        let finished = started(more);
        assert!(!finished.stderr.contains("warning"), "{more:?}: {}", finished.stderr);
    }
}

#[test]
fn command_lines_of_others() {
    let good = file(GOOD);
    // As the tutorials, p4-utils and Mininet scripts write them.
    started(&[
        "--device-id",
        "0",
        &good,
        "--log-console",
        "--thrift-port",
        "9090",
        "--",
        "--cpu-port",
        "255",
    ]);
    started(&[
        &good,
        "--nanolog",
        "ipc:///tmp/bm-0-log.ipc",
        "--",
        "--priority-queues",
        "8",
        "--drop-port=500",
    ]);
    let finished = started(&["--no-p4", &good]);
    assert!(finished.stderr.contains("main.p4 is not used because of --no-p4"), "{finished:?}");
    // BMv2's device id 0 is an id like any other.
    let switch = Switch::start(&["--device-id", "0", &good]);
    assert!(switch.wait_for("P4Runtime on").ends_with("device 0"));
}

/// The links that scripts of BMv2 and p4c call: the process keeps the name, for `pkill`.
#[test]
fn called_by_the_names_of_bmv2_and_p4c() {
    let dir = Scratch::new("names");
    let link = |name: &str| {
        let path = dir.path(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pointsman"), &path).expect("a link");
        path
    };
    let (compiler, switch) = (link("p4c"), link("simple_switch_grpc"));
    let mut compile = Command::new(compiler);
    let arguments = ["--target", "bmv2", "--arch", "v1model", "-o", &dir.path("out"), &file(GOOD)];
    let compiled = {
        compile.args(arguments);
        finish(compile)
    };
    assert_eq!(compiled.code, Some(0), "{compiled:?}");
    let mut command = Command::new(switch);
    command.args([
        &dir.path("out/main.json"),
        "--thrift-port",
        "9090",
        "--",
        "--grpc-server-addr",
        "127.0.0.1:0",
    ]);
    let running = Running::of(command);
    assert!(running.wait_for("P4Runtime on").ends_with("device 0"));
    let name = std::fs::read_to_string(format!("/proc/{}/comm", running.pid())).expect("it runs");
    assert_eq!(name, "simple_switch_g\n", "the kernel keeps 15 letters");
}

#[test]
fn a_compilers_output_is_no_program() {
    let dir = Scratch::new("json");
    let json = dir.write("prog.json", "{ \"program\": \"prog.p4\" }");
    refused(&[&json], &["prog.json is compiler output for BMv2", "give the .p4 file"]);
    let source = dir.write("prog.p4", std::fs::read(file(GOOD)).unwrap());
    refused(&[&json], &[&format!("give {source}"), &format!("add --p4-for-json {source}")]);
    std::fs::create_dir(dir.path("build")).unwrap();
    let built = dir.write("build/prog.json", "{}");
    refused(&[&built], &[&format!("give {source}, or keep the script")]);
    let finished = started(&[&built, "--p4-for-json", &source]);
    assert!(
        finished
            .stderr
            .contains(&format!("prog.json is compiler output for BMv2; {source} is compiled instead"))
    );
    let finished = started(&["--no-p4", &json]);
    assert!(finished.stderr.contains("prog.json is not used because of --no-p4"), "{finished:?}");
    // As a controller may send it.
    let switch = Switch::start(&[]);
    let (mut controller, _) = connect(switch.address, 1);
    let e = controller.set_pipeline(b"\n{ \"header_types\": [] }").unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
    assert!(e.message().contains("is JSON") && e.message().contains("text of the .p4 file"), "{e}");
    // The same with the source that it stands for.
    let switch = Switch::start(&["--p4-for-json", &source]);
    let (mut controller, _) = connect(switch.address, 1);
    controller.set_pipeline(b"\n{ \"header_types\": [] }").expect("the source is compiled");
    assert!(!controller.info.tables.is_empty(), "the program runs");
    std::fs::write(&source, "header {").unwrap();
    let e = controller.set_pipeline(b"\n{ \"header_types\": [] }").unwrap_err();
    assert!(e.message().contains("prog.p4:1"), "{e}");
}

#[test]
fn ports_of_control_plane_and_drop() {
    let good = file(GOOD);
    for flag in ["--cpu-port", "--drop-port"] {
        refused(&[&good, "--", flag, "4294967295"], &[flag, "511", "omit"]);
        refused(&[&good, "--", flag, "4294967296"], &[flag]);
    }
    refused(&[&good, "--", "--cpu-port", "0"], &["--cpu-port 0", "510"]);
    refused(&[&good, "--max-port-count", "1", "-i1@a", "-i2@b"], &["2 interfaces", "--max-port-count 1"]);
    for (flag, what) in [("--cpu-port", "CPU port 600"), ("--drop-port", "drop port 600")] {
        let finished = finish(pointsman(&args(&[&good, flag, "600"])));
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains(what) && finished.stderr.contains("9 bits"), "{}", finished.stderr);
    }
    // With the drop port elsewhere, 511 is a port like any other.
    started(&[&good, "--", "--drop-port", "500", "--cpu-port", "511"]);
}

#[test]
fn a_program_after_pcap_is_the_program() {
    let dir = Scratch::new("pcap-flag");
    let source = dir.write("prog.p4", std::fs::read(file(GOOD)).unwrap());
    let switch = Switch::start(&["--pcap", &source]);
    let (controller, _) = connect(switch.address, 1);
    assert!(!controller.info.tables.is_empty(), "the program runs");
}

#[test]
fn settings_of_queues() {
    let good = file(GOOD);
    refused(&[&good, "--queue", "1"], &["'1' has no `=`", "PORT[:PRIORITY]=RATE[,DEPTH]"]);
    let check = |more: &[&str], parts: &[&str]| {
        let finished = finish(pointsman(&args(&[&[good.as_str()], more].concat())));
        assert_eq!(finished.code, Some(1), "{finished:?}");
        for part in parts {
            assert!(finished.stderr.contains(part), "{more:?}: no '{part}' in:\n{}", finished.stderr);
        }
    };
    check(&["--queue", "7=1"], &["port 7 does not exist", "-i 7@INTERFACE"]);
    check(&["--queue", "all:1=1"], &["no queue of priority 1", "--priority-queues 2"]);
    check(&["--queue-file", "/nowhere/q"], &["/nowhere/q", "--queue-file"]);
    check(&["--priority-queues", "9"], &["queues_per_port is 9", "1 to 8"]);
    let dir = Scratch::new("queues");
    let bad = dir.write("bad", "# a comment\n\n510 = 100, 10\n510 = fast\n");
    check(&["--queue-file", &bad], &["bad:4: '510 = fast'"]);
    started(&[&good, "--queue", "510=100,10", "--queue", "all=max"]);
}

#[test]
fn queues_change_at_run_time() {
    let dir = Scratch::new("queues-live");
    let path = dir.write("q", "510 = 5,1\n");
    let switch = Switch::start(&["--queue-file", &path]);
    let hangup = |text: &str, expected: &str| {
        dir.write("q", text);
        kill(switch.pid(), Signal::SIGHUP).unwrap();
        switch.wait_for(expected);
    };
    hangup("510 = 7\n", "queues reloaded from ");
    hangup("7 = 7\n", "port 7 does not exist");
    hangup("nonsense\n", "q:1: 'nonsense' has no `=`");
    assert_eq!(switch.stop(Signal::SIGTERM).code, Some(0));
}

#[test]
fn a_hangup_does_no_harm() {
    let switch = Switch::start(&[]);
    kill(switch.pid(), Signal::SIGHUP).unwrap();
    switch.wait_for("SIGHUP: nothing to reload");
    assert_eq!(switch.stop(Signal::SIGTERM).code, Some(0));
}

#[test]
fn open_access_to_the_switch_is_warned_of() {
    let open = "anyone who can reach this address can change the switch";
    let warned = Switch::start_at("0.0.0.0:0", &[]).stop(Signal::SIGTERM);
    assert!(warned.stderr.contains(open) && warned.stderr.contains("--grpc-tls-cert"), "{}", warned.stderr);
    let local = started(&[]);
    assert!(!local.stderr.contains(open), "{}", local.stderr);
}

/// A switch on captures: packets from port 1 leave on port 2, limited in rate.
#[test]
fn captures_for_interfaces() {
    let dir = Scratch::new("use-files");
    let mut program = std::fs::read_to_string(file(GOOD)).unwrap();
    program = program.replace("forward.apply();", "log_msg(\"seen\"); forward.apply();");
    dir.write("entries.stf", "mc_mgrp_create 1\nmc_node_create 0 2\nmc_node_associate 1 0\n");
    dir.write("prog.p4", program);
    let frame = |n: u8| [&[2, 0, 0, 0, 0, n][..], &[0; 54]].concat();
    let mut writer = Writer::create(&dir.0.join("a_in.pcap")).unwrap();
    (0..5).for_each(|n| writer.record(1000, &frame(n)).unwrap());
    writer.flush().unwrap();
    drop(Writer::create(&dir.0.join("b_in.pcap")).unwrap());
    let mut command = pointsman(&["switch", "--p4runtime", "127.0.0.1:0", "prog.p4", "-i1@a", "-i2@b"]);
    command.args(["--use-files", "0", "--log-file", "s.log", "--dump-packet-data", "6", "--queue", "2=20"]);
    command.args(["--entries", "entries.stf"]);
    command.current_dir(&dir.0);
    let start = Instant::now();
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let frames = |path: &Path| {
        let (mut frame, mut all) = (Vec::new(), Vec::new());
        let Ok(mut reader) = Reader::open(path) else { return all };
        while let Ok(Some(record)) = reader.read(&mut frame) {
            all.push((record.time_ns, frame.clone()));
        }
        all
    };
    let out = dir.0.join("b_out.pcap");
    while frames(&out).len() < 5 && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
    let sent = frames(&out);
    assert_eq!(
        sent.iter().map(|(_, f)| f.clone()).collect::<Vec<_>>(),
        (0..5).map(frame).collect::<Vec<_>>()
    );
    // 20 packets a second are 50 ms apart.
    let took = sent[4].0 - sent[0].0;
    assert!(took >= 190_000_000, "{took} ns for five packets at 20 a second");
    let log = std::fs::read_to_string(dir.0.join("s.log")).unwrap();
    for line in
        ["[info] port 1: received 60 bytes: 020000000004\n", "[info] port 2: sent 60 bytes: 020000000004\n"]
    {
        assert!(log.contains(line), "{line} not in {log}");
    }
    assert_eq!(log.matches("] seen\n").count(), 5, "{log}");
}

#[test]
fn entries_that_do_not_fit() {
    let dir = Scratch::new("entries");
    let path = dir.0.join("entries.stf").to_string_lossy().into_owned();
    for (text, parts) in [
        (
            "add forward dst:02:00:00:00:00:01 send(port:1)\nadd forwards dst:1 drop()",
            &["line 2: ", "no table forwards"][..],
        ),
        ("add forward dst:1 send(port:1)\n\npacket 1 00", &["line 3: only statements that fill tables"]),
        ("add forward dst:1 send(port:1)\nadd forward dst:1 drop()", &["line 2: ", "exists"]),
        ("add forward", &["line 1: "]),
    ] {
        dir.write("entries.stf", text);
        let finished = finish(pointsman(&args(&[&file(GOOD), "--entries", &path])));
        assert_eq!(finished.code, Some(1), "{text}: {finished:?}");
        for part in parts {
            assert!(finished.stderr.contains(part), "no '{part}' in:\n{}", finished.stderr);
        }
        assert!(finished.stderr.contains("entries.stf: "), "{}", finished.stderr);
    }
    let missing = finish(pointsman(&args(&[&file(GOOD), "--entries", "/no/such/file"])));
    assert!(missing.stderr.contains("cannot read /no/such/file"), "{missing:?}");
    refused(&["--entries", &path], &["<FILE>"]);
}

#[test]
fn leases_do_not_outlive_a_switch() {
    let dir = Scratch::new("real-time");
    let path = dir.0.join("switch.state").to_string_lossy().into_owned();
    let finished = finish(pointsman(&args(&[&file("p4/programs/flowcount/main.p4"), "--state", &path])));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    for part in ["register ", "redplane_until holds points in time (@real_time)", "omit --state"] {
        assert!(finished.stderr.contains(part), "no '{part}' in:\n{}", finished.stderr);
    }
    assert!(!dir.0.join("switch.state").exists());
}
