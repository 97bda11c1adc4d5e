//! `pointsman p4 ...` and `pointsman switch` at the command line, including bad input: exit codes, and messages with
//! location and remedy. No interfaces and no privileges; those are in `switch_wire.rs`.

use crate::support::controller::connect;
use crate::support::{Finished, Scratch, Switch, assert_no_panic, file, finish, pointsman, run};
use nix::sys::signal::Signal;
use pointsman_control::proto::p4rt as pb;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use tonic::Code;

const GOOD: &str = "examples/forwarder/main.p4";

/// Runs and checks exit code and required parts of standard error.
fn check(args: &[&str], code: i32, parts: &[&str]) -> Finished {
    let finished = run(args);
    assert_eq!(finished.code, Some(code), "{args:?}: {finished:?}");
    assert_no_panic(&finished);
    for part in parts {
        assert!(finished.stderr.contains(part), "{args:?}: no '{part}' in:\n{}", finished.stderr);
    }
    finished
}

/// A switch that must not start.
fn refused(args: &[&str], code: i32, parts: &[&str]) {
    let mut all = vec!["switch", "--p4runtime", "127.0.0.1:0"];
    all.extend_from_slice(args);
    check(&all, code, parts);
}

/// A valid program, except for the replaced body of a control.
fn program(apply: &str) -> String {
    std::fs::read_to_string(file(GOOD)).unwrap().replace("forward.apply();", apply)
}

#[test]
fn good_programs_pass_in_silence() {
    for program in [GOOD, "tests/programs/controlled.p4", "p4/programs/balancer/main.p4"] {
        for command in ["check", "info", "ir"] {
            let done = check(&["p4", command, &file(program)], 0, &[]);
            assert_eq!(done.stderr, "", "{program}");
            assert_eq!(done.stdout.is_empty(), command == "check", "{program}");
        }
    }
}

#[test]
fn bad_programs_are_explained() {
    let dir = Scratch::new("bad-programs");
    let bad = dir.write("bad.p4", program("forwrd.apply();"));
    let parts = ["error[P0301]", "bad.p4:61:9", "`forwrd`", "^^^^^^", "help:", "1 error"];
    for command in ["check", "info", "ir"] {
        let done = check(&["p4", command, &bad], 1, &parts);
        assert_eq!(done.stdout, "");
    }
    check(&["switch", &bad], 1, &["cannot run ", "bad.p4:61:9", "error[P0301]"]);

    // One JSON object a line, in which editors find the place.
    let worse = dir.write("worse.p4", program("forwrd.apply(); receivd.count(0);"));
    let done = check(&["p4", "check", "--format", "json", &worse], 1, &[]);
    let lines: Vec<serde_json::Value> =
        done.stderr.lines().map(|l| serde_json::from_str(l).expect("each line is an object")).collect();
    assert_eq!(lines.len(), 2, "{}", done.stderr);
    assert_eq!(lines[0]["code"], "P0301");
    assert_eq!((&lines[0]["line"], &lines[0]["column"]), (&61.into(), &9.into()));
    assert_eq!(lines[0]["file"], worse.as_str());
    assert!(!lines[0]["help"].is_null());
    assert_eq!((&lines[1]["line"], &lines[1]["column"]), (&61.into(), &25.into()));

    // Errors in included files name those, from both commands.
    dir.write("part.p4", "const bit<8> X = 1\n");
    let main = dir.write("main.p4", format!("#include \"part.p4\"\n{}", program("forward.apply();")));
    for args in [vec!["p4", "check", &main], vec!["switch", &main]] {
        check(&args, 1, &["error[P02", "part.p4:", "included from"]);
    }
}

#[test]
fn programs_that_v1model_refuses() {
    let dir = Scratch::new("refused");
    let clash = program("digest<bit<48>>(1, hdr.ethernet.src);").replace(
        "    apply {\n        packet.emit(hdr.ethernet);",
        "    apply {\n        packet.emit(hdr.ethernet); mark_to_drop();",
    );
    let path = dir.write("clash.p4", clash);
    for args in [vec!["p4", "check", &path], vec!["switch", &path]] {
        check(&args, 1, &["error[P1001]", "clash.p4:80:", "mark_to_drop"]);
    }
    // Other architectures can be checked, but not run.
    let other =
        dir.write("other.p4", "control C();\npackage P(C c);\ncontrol D() { apply {} }\nP(D()) main;\n");
    check(&["p4", "check", &other], 0, &[]);
    check(&["switch", &other], 1, &["not a V1Switch", "v1model"]);
}

#[test]
fn files_that_are_no_programs() {
    let dir = Scratch::new("no-programs");
    let missing = dir.path("missing.p4");
    let folder = dir.path("");
    let garbage: Vec<u8> =
        b"// text\n".iter().copied().chain((0..20_000u32).map(|i| (i * 7 + i / 251) as u8)).collect();
    let garbage = dir.write("garbage.p4", garbage);
    let text = dir.write("text.p4", "once upon a time \u{0} \u{1b}[31m \"'`#");
    let empty = dir.write("empty.p4", "");
    let deep = dir.write("deep.p4", "#include \"deep.p4\"\n");
    let nested =
        dir.write("nested.p4", format!("const int x = {}1{};", "(".repeat(100_000), ")".repeat(100_000)));
    for command in [["p4", "check"], ["p4", "info"], ["switch", "--p4runtime=127.0.0.1:0"]] {
        let check = |path: &str, parts: &[&str]| check(&[command[0], command[1], path], 1, parts);
        check(&missing, &["missing.p4", "No such file", "check the path"]);
        check(&folder, &["Is a directory", "main file"]);
        check(&garbage, &["garbage.p4", "line 2 is not UTF-8", "P4 source"]);
        check("/dev/zero", &["/dev/zero", "longer than 64 MiB"]);
        check(&text, &["error[P0", "text.p4:1:"]);
        check(&deep, &["error[P0112]", "nested deeper"]);
        check(&nested, &["error[P0", "nested.p4:1:"]);
    }
    // Nothing is wrong with it, but it cannot run.
    check(&["p4", "check", &empty], 0, &["warning[P0505]", "empty.p4:1:1", "main"]);
    check(&["p4", "info", &empty], 1, &["error[P0505]", "main"]);
    check(&["switch", &empty], 1, &["error[P0505]", "main"]);
}

#[test]
fn other_architectures_are_checked() {
    let dir = Scratch::new("architectures");
    std::fs::create_dir(dir.0.join("arch")).unwrap();
    dir.write(
        "arch/other.p4",
        "#include <core.p4>\nmatch_kind { nearest }\nextern Meter { Meter(bit<32> n); void run(bit<8> x); }\n\
         control C<H>(inout H h);\npackage Other<H>(C<H> c);\n",
    );
    let program = |body: &str| {
        format!(
            "#include <other.p4>\nstruct H {{ bit<8> x; }}\ncontrol D(inout H h) {{\n    Meter(5) m;\n    \
             table t {{ key = {{ h.x: nearest; }} actions = {{ NoAction; }} }}\n    apply {{ t.apply(); {body} }}\n}}\n\
             Other(D()) main;\n"
        )
    };
    let right = dir.write("right.p4", program("m.run(h.x);"));
    let wrong = dir.write("wrong.p4", program("m.rum(h.x); m.run(h.y);"));
    let arch = dir.path("arch");
    check(&["p4", "check", "--include", &arch, &right], 0, &[]);
    check(&["p4", "check", "-I", &arch, &wrong], 1, &["wrong.p4:6:", "did you mean `run`", "no field `y`"]);
    check(&["p4", "check", &right], 1, &["error[P0111]", "other.p4"]);
    check(&["p4", "info", "-I", &arch, &right], 1, &["error[P1002]", "`Other`", "p4 check"]);
    check(&["switch", "-I", &arch, &right], 1, &["error[P1002]", "`Other`", "V1Switch"]);
    // A file of declarations.
    check(&["p4", "check", &dir.path("arch/other.p4")], 0, &["warning[P0505]"]);
    // The user's own v1model.p4 and core.p4 are used instead of ours.
    dir.write("arch/core.p4", "error { NoError }\n");
    check(&["p4", "check", "-I", &arch, &right], 1, &["NoAction"]);
}

#[test]
fn flags_of_p4() {
    let dir = Scratch::new("flags");
    std::fs::create_dir(dir.0.join("lib")).unwrap();
    dir.write("lib/name.p4", "#define TABLE forward\n");
    let main = dir.write("main.p4", format!("#include <name.p4>\n{}", program("TABLE.apply();")));
    check(&["p4", "check", &main], 1, &["name.p4", "main.p4:1:"]);
    check(&["p4", "check", "-I", &dir.path("lib"), &main], 0, &[]);
    let main = dir.write("defined.p4", program("TABLE.apply();"));
    check(&["p4", "check", &main], 1, &["`TABLE`"]);
    check(&["p4", "check", "-D", "TABLE=forward", &main], 0, &[]);
    check(&["p4", "check", "-D", "A B", &main], 2, &["'A B' is not a macro name", "NAME=VALUE"]);
    check(&["p4", "check", "--format", "xml", &main], 2, &["text, json"]);
    check(&["p4", "check"], 2, &["<FILE>"]);
    check(&["p4", "chek", &main], 2, &["chek", "check"]);
    // Binary and text say the same.
    let text = run(&["p4", "info", &file(GOOD)]).stdout;
    assert!(text.contains("name: \"Forward.forward\"") && text.contains("alias: \"forward\""), "{text}");
}

#[test]
fn output_without_a_reader_does_not_crash() {
    let closed = |args: &[&str], close_stderr: bool| {
        let mut command = pointsman(args);
        // The reading end is closed before the process writes.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stdout(writer.try_clone().unwrap());
        if close_stderr {
            command.stderr(writer);
        }
        command.status().unwrap().code()
    };
    assert_eq!(closed(&["p4", "info", &file(GOOD)], false), Some(0));
    assert_eq!(closed(&["p4", "check", "/nowhere"], true), Some(1));
    assert_eq!(closed(&["p4", "check", &file("README.md")], true), Some(1));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = pointsman(&["p4", "info", &file(GOOD)]);
    command.stdout(full).stderr(Stdio::piped());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to standard output"));
}

#[test]
fn bad_flags_of_the_switch() {
    let good = file(GOOD);
    for (port, part) in [
        ("veth1", "'veth1' is not a port"),
        ("@veth1", "'@veth1' does not begin with a port number"),
        ("one@veth1", "'one@veth1' does not begin with a port number"),
        ("-1@veth1", "'-1@veth1' does not begin with a port number"),
        ("4294967296@veth1", "does not begin with a port number"),
        ("1@", "'1@' has no interface"),
        ("", "'' is not a port"),
    ] {
        refused(&[&good, "-i", port], 2, &[part, "write NUMBER@INTERFACE, such as 1@veth1"]);
    }
    refused(&[&good, "-i", "1@x", "-i", "1@y"], 1, &["port 1 is given to two interfaces"]);
    refused(&[&good, "-i", "1@x", "-i", "2@x"], 1, &["interface 'x' is given to two ports"]);
    refused(&[&good, "-i", "510@x"], 1, &["port 510 is the control plane port", "--cpu-port"]);
    refused(&[&good, "-i", "1@a/b"], 1, &["'a/b' cannot be an interface name"]);
    refused(&[&good, "-i", "1@name_of_17_bytes"], 1, &["cannot be an interface name", "1 to 15 bytes"]);
    refused(&[&good, "--cpu-port", "511"], 1, &["both 511", "choose different numbers"]);
    refused(&[&good, "--cpu-port", "512"], 1, &["CPU port 512 does not fit", "9 bits"]);
    refused(&[&good, "--queue-depth", "0"], 1, &["queue_depth_packets is 0"]);
    refused(&[&good, "--queue-depth", "many"], 2, &["--queue-depth"]);
    refused(&[&good, "--pcap", &good], 1, &["main.p4 for captures", "give --pcap a directory"]);
    refused(&[&good, "--pcap", "/proc/captures"], 1, &["cannot make /proc/captures"]);
    for (address, part) in [
        ("127.0.0.1", "write ADDRESS:PORT, such as 127.0.0.1:9559"),
        (":9559", "write ADDRESS:PORT"),
        ("127.0.0.1:70000", "write ADDRESS:PORT"),
    ] {
        check(&["switch", "--p4runtime", address], 2, &[part]);
    }
    // 192.0.2.0/24 is for documentation: no host has it.
    check(
        &["switch", "--p4runtime", "192.0.2.1:9559"],
        1,
        &["cannot listen on 192.0.2.1:9559", "--p4runtime"],
    );
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    check(&["switch", "--p4runtime", &address], 1, &["cannot listen on", &address, "in use", "--p4runtime"]);
}

#[test]
fn the_switch_ends_in_good_order() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        for args in [vec![], vec![file(GOOD)]] {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let switch = Switch::start(&args);
            // Also while a controller is connected.
            let (_controller, _) = connect(switch.address, 1);
            let finished = switch.stop(signal);
            assert_eq!(finished.code, Some(0), "{signal}: {finished:?}");
            assert_no_panic(&finished);
            assert!(finished.stderr.contains("packets: received 0 "), "{}", finished.stderr);
        }
    }
}

#[test]
fn names_are_addresses_too() {
    let finished = Switch::start_at("localhost:0", &[]).stop(Signal::SIGTERM);
    assert_eq!(finished.code, Some(0), "{finished:?}");
}

#[test]
fn controllers_that_misbehave_do_no_harm() {
    let switch = Switch::start(&[&file(GOOD)]);
    // Not gRPC at all, cut short, and connections that say nothing and stay.
    let mut idle = Vec::new();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff", b"\0", b""]
    {
        let mut stream = TcpStream::connect(switch.address).unwrap();
        stream.write_all(bytes).unwrap();
        idle.push(stream);
    }
    drop(idle.remove(0));

    let (first, code) = connect(switch.address, 5);
    assert_eq!(code, Code::Ok);
    let (mut second, code) = connect(switch.address, 3);
    assert_eq!(code, Code::AlreadyExists, "another controller is primary");
    // The first vanishes silently: the second is notified that the switch has no primary, and takes over with a larger
    // id.
    drop(first);
    assert_eq!(second.hear_arbitration(), Code::NotFound);
    assert_eq!(second.arbitrate(6), Code::Ok);
    second.set_pipeline(&std::fs::read(file(GOOD)).unwrap()).unwrap();

    let finished = switch.stop(Signal::SIGINT);
    assert_eq!(finished.code, Some(0));
    assert_no_panic(&finished);
}

#[test]
fn a_program_from_the_network_reads_no_files() {
    let dir = Scratch::new("network");
    let secret = dir.write("secret.txt", "the secret word\n");
    let switch = Switch::start(&[]);
    let (mut controller, _) = connect(switch.address, 1);
    for include in [secret.clone(), "/etc/passwd".into(), format!("../../../../../../../..{secret}")] {
        for text in [format!("#include \"{include}\"\n"), format!("#include <{include}>\n")] {
            let e = controller.set_pipeline(text.as_bytes()).unwrap_err();
            assert_eq!(e.code(), Code::InvalidArgument);
            assert!(!e.message().contains("secret word") && !e.message().contains("root:"), "{e}");
            assert!(e.message().contains("p4_device_config:1:"), "{e}");
        }
    }
    let e = controller.set_pipeline(b"\xff\xfe\x00binary").unwrap_err();
    assert!(e.message().contains("not UTF-8") && e.message().contains("P4 source"), "{e}");
}

#[test]
fn what_a_controller_reads_back_compiles_alone() {
    let dir = Scratch::new("flat");
    std::fs::create_dir_all(dir.0.join("lib/sub")).unwrap();
    dir.write("lib/name.p4", "#include \"sub/deep.p4\"\n");
    dir.write("lib/sub/deep.p4", "#pragma once\nconst bit<8> DEEP = 1;\n");
    dir.write("near.p4", "#include <name.p4>\n#include <name.p4>\n");
    let main = dir.write(
        "main.p4",
        format!("#include \"near.p4\"\n{}", program("if (DEEP == ONE) { TABLE.apply(); }")),
    );
    let switch = Switch::start(&["-I", &dir.path("lib"), "-D", "TABLE=forward", "-DONE", &main]);
    let (mut controller, _) = connect(switch.address, 1);
    let config = controller.device_config().unwrap();
    // Another switch, without folders and macros.
    let other = Switch::start(&[]);
    let (mut controller, _) = connect(other.address, 1);
    controller.set_pipeline(&config).unwrap();
    assert_eq!(controller.info.tables.len(), 1);
}

#[test]
fn a_client_that_reads_nothing_costs_a_bounded_amount() {
    // Packets that come back as packet-ins, far more than may wait.
    const SENT: usize = 4_000;
    let switch = Switch::start(&[&file("tests/programs/controlled.p4")]);
    let (mut deaf, code) = connect(switch.address, 1);
    assert_eq!(code, Code::Ok);
    for _ in 0..SENT {
        let metadata =
            [(1, 0), (2, 0)].map(|(metadata_id, v)| pb::PacketMetadata { metadata_id, value: vec![v] });
        let packet = pb::PacketOut { payload: vec![0; 1400], metadata: metadata.to_vec() };
        deaf.tell(pb::stream_message_request::Update::Packet(packet));
    }
    switch.wait_for("for a slow P4Runtime client");
    // Others are served meanwhile.
    let (_other, code) = connect(switch.address, 0);
    assert_eq!(code, Code::AlreadyExists);
    let finished = switch.stop(Signal::SIGTERM);
    assert_eq!(finished.code, Some(0), "{finished:?}");
}

#[test]
fn a_burst_of_calls_is_answered() {
    let switch = Switch::start(&[]);
    let (mut controller, _) = connect(switch.address, 1);
    let source = std::fs::read(file("tests/programs/controlled.p4")).unwrap();
    assert_eq!(controller.burst(&source, 150), 151);
}

#[test]
fn help_is_there() {
    for args in [vec!["--help"], vec!["switch", "--help"], vec!["p4", "check", "--help"]] {
        let finished = finish(pointsman(&args));
        assert_eq!(finished.code, Some(0));
        assert!(finished.stdout.contains("Usage:"), "{}", finished.stdout);
    }
}
