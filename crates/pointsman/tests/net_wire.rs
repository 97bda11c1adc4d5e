//! `pointsman net`: the networks in examples/net, their prompt, commands from other terminals, and a controller in Python.

use crate::support::{Scratch, file, pointsman, root};
use pointsman_lab::harness::Test;
use pointsman_lab::wiring::bring_loopback_up;
use pointsman_lab::{Namespace, ensure};
use std::error::Error;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, Test)] = &[
    ("a_script_for_two_hosts", a_script_for_two_hosts),
    ("three_switches_and_a_cut_link", three_switches_and_a_cut_link),
    ("a_controller_and_other_terminals", a_controller_and_other_terminals),
    ("networks_of_other_users_are_not_entered", networks_of_other_users_are_not_entered),
    ("nothing_is_left_after_a_kill", nothing_is_left_after_a_kill),
    ("duplicates_are_counted", duplicates_are_counted),
    ("scripts_of_p4_utils", scripts_of_p4_utils),
    ("links_that_lose_packets", links_that_lose_packets),
    ("a_port_to_the_controller", a_port_to_the_controller),
    ("tasks_at_their_times", tasks_at_their_times),
    ("files_for_controllers", files_for_controllers),
    ("files_that_do_not_fit", files_that_do_not_fit),
];

/// Moves a test to a network namespace of its own: without settings all networks have the same ports for P4Runtime, and tests run at the same time.
fn apart() -> Outcome {
    Namespace::new("net")?.join()?;
    Ok(bring_loopback_up()?)
}

/// The multicast group for flooding has a port twice, and no entry says where hosts are.
fn duplicates_are_counted() -> Outcome {
    apart()?;
    let dir = Scratch::new("net-twice");
    let entries = std::fs::read_to_string(file("examples/net/pair-s1.json"))?;
    let entries = entries.replace("../forwarder/main.p4", &file("examples/forwarder/main.p4"));
    let entries = entries
        .replace("02:00:00:00:00:01", "02:00:00:00:00:07")
        .replace("02:00:00:00:00:02", "02:00:00:00:00:08");
    let twice = entries
        .replace("{ \"egress_port\": 1,", "{ \"egress_port\": 2, \"instance\": 2 }, { \"egress_port\": 1,");
    std::fs::write(dir.path("pair-s1.json"), twice)?;
    std::fs::write(dir.path("topology.json"), std::fs::read(file("examples/net/pair.json"))?)?;
    let done = script(&[&dir.path("topology.json")], "pingall\n")?;
    let out = text(&done.stdout);
    ensure!(out.ends_with("0% dropped (2/2 received), 2 duplicates\n"), "{out}\n{}", text(&done.stderr));
    Ok(())
}

/// A script runs where controllers are, and ends with the network.
fn scripts_of_p4_utils() -> Outcome {
    apart()?;
    let dir = Scratch::new("net-scripts");
    let triangle = std::fs::read_to_string(file("examples/net/triangle.json"))?;
    let word = format!("86401.{}", std::process::id());
    let note = dir.path("note");
    let scripts =
        format!(r#"{{"exec_scripts": [{{"cmd": "echo $$ > {note}; sleep {word} &"}}, {{"cmd": "exit 3"}}],"#);
    dir.write("p4app.json", triangle.replacen('{', &scripts, 1));
    for name in ["route.p4", "triangle-s1.json", "triangle-s2.json", "triangle-s3.json"] {
        std::fs::copy(file(&format!("examples/net/{name}")), dir.path(name))?;
    }
    let wait = format!("sh until test -s {note}; do sleep 0.1; done; sleep 0.3\nexit\n");
    let done = script_in(&dir, &["p4app.json"], &wait)?;
    let err = text(&done.stderr);
    ensure!(std::fs::metadata(&note).is_ok() && processes(&word) == 0, "{err}");
    ensure!(err.contains("exec_scripts: `exit 3`: sh failed (exit status: 3)"), "{err}");
    ensure!(err.contains("the link s2-s3 closes a cycle of switches"), "{err}");
    Ok(())
}

/// The pair of examples/net in p4-utils' form, with these keys of the switch, of h2's link and of the file. Tests run at the same time, so
/// each has its own port for P4Runtime.
fn pair_of_p4_utils(p4runtime: u16, [switch, link, more]: [&str; 3]) -> std::io::Result<Scratch> {
    let dir = Scratch::new(&format!("net-pair-{p4runtime}"));
    let entries = std::fs::read_to_string(file("examples/net/pair-s1.json"))?;
    let entries = entries.replace("../forwarder/main.p4", &file("examples/forwarder/main.p4"));
    dir.write("pair-s1.json", entries.replace("02:00:00:00:00:", "00:00:0a:00:00:"));
    let text = format!(
        r#"{{{more} "topology": {{"assignment_strategy": "l2", "hosts": {{"h1": {{}}, "h2": {{}}}},
        "switches": {{"s1": {{"runtime_json": "pair-s1.json", "grpc_port": {p4runtime} {switch}}}}},
        "links": [["h1", "s1"], ["h2", "s1", {{{link}}}]]}}}}"#
    );
    dir.write("p4app.json", text);
    Ok(dir)
}

/// Packets that an interface has received, by /proc/net/dev.
fn received(dev: &str, interface: &str) -> Option<u64> {
    let line = dev.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Both directions of a link lose 30 %: the switch's packets, and those of the host.
fn links_that_lose_packets() -> Outcome {
    let dir = pair_of_p4_utils(9601, ["", "\"loss\": 30", ""])?;
    let send = |from: &str, to: &str| {
        format!(
            "{from} bash -c 'for i in $(seq 1000); do echo x > /dev/udp/{to}/9; done 2> /dev/null'\nsh sleep 0.5\n"
        )
    };
    let commands = send("h1", "10.0.0.2")
        + "h2 cat /proc/net/snmp\n"
        + &send("h2", "10.0.0.1")
        + "h1 cat /proc/net/snmp\n";
    let done = script_in(&dir, &["p4app.json"], &commands)?;
    let out = text(&done.stdout);
    // Datagrams to closed ports: the second number of UDP. The counter of the interface would include the answers to such datagrams.
    let closed = |line: &str| line.strip_prefix("Udp: ")?.split(' ').nth(1)?.parse().ok();
    let counts: Vec<u64> = out.lines().filter_map(closed).collect();
    // 700 each with a deviation of 15.
    ensure!(
        counts.len() == 2 && counts.iter().all(|n| (600..=800).contains(n)),
        "{counts:?}\n{out}\n{}",
        text(&done.stderr)
    );
    Ok(())
}

/// What the program floods reaches the interface where controllers are: port 3 of the switch.
fn a_port_to_the_controller() -> Outcome {
    let dir = pair_of_p4_utils(9602, [", \"cpu_port\": true", "", ""])?;
    // No entry says where h2 is, and flooded packets go to port 3 instead of port 2.
    let entries = std::fs::read_to_string(dir.path("pair-s1.json"))?;
    let entries = entries.replace("00:00:0a:00:00:02", "00:00:0a:00:00:07");
    dir.write("pair-s1.json", entries.replace("\"egress_port\": 2", "\"egress_port\": 3"));
    let commands = "dump\nh1 bash -c 'for i in 1 2 3 4 5; do echo x > /dev/udp/10.0.0.2/9; done'\nc0 sleep 0.2\nc0 cat /proc/net/dev\n";
    let done = script_in(&dir, &["p4app.json"], commands)?;
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    ensure!(out.contains("s1: s1-eth1 s1-eth2 s1-cpu-eth0; "), "{out}\n{err}");
    let count = received(&out, "s1-cpu-eth1");
    ensure!(count == Some(5), "{count:?}\n{out}\n{err}");
    // The interface has ended with the network.
    let again = script_in(&dir, &["p4app.json"], "exit\n")?;
    ensure!(again.status.success(), "{}", text(&again.stderr));
    Ok(())
}

/// A task ends by SIGTERM when its time is over; one that fails causes a warning at the end.
fn tasks_at_their_times() -> Outcome {
    let dir = pair_of_p4_utils(9603, ["", "", "\"tasks_file\": \"tasks.txt\","])?;
    let word = format!("86402.{}", std::process::id());
    let (began, ended) = (dir.path("began"), dir.path("ended"));
    let tasks = format!(
        "h1 0.2 0.5 \"echo > {began}; trap 'echo > {ended}; exit' TERM; sleep {word} & wait\"\n# comment\nh2 0 0 exit 3\ns1 3600 0 true\n"
    );
    dir.write("tasks.txt", tasks);
    let wait = format!(
        "sh for i in $(seq 100); do test -e {ended} && break; sleep 0.1; done\nsh ls {began} {ended}\nexit\n"
    );
    let start = Instant::now();
    let done = script_in(&dir, &["p4app.json"], &wait)?;
    let err = text(&done.stderr);
    ensure!(done.status.success() && start.elapsed() > Duration::from_millis(700), "{done:?}");
    ensure!(
        err.contains("tasks_file: line 3: sh failed (exit status: 3)")
            && err.matches("tasks_file").count() == 1,
        "{err}"
    );
    ensure!(processes(&word) == 0, "the task still runs");
    dir.write("tasks.txt", "h1 0 0 true\nh3 0 0 true\n");
    let wrong = script_in(&dir, &["--check", "p4app.json"], "")?;
    ensure!(
        text(&wrong.stderr).contains("tasks_file: tasks.txt: line 2: no host or switch is called `h3`"),
        "{wrong:?}"
    );
    Ok(())
}

/// The graph, the program and its P4Info; files of others are kept.
fn files_for_controllers() -> Outcome {
    let p4info = "\"compiler_module\": {\"options\": {\"p4rt\": true}},";
    let dir = pair_of_p4_utils(9604, ["", "", p4info])?;
    let entries = std::fs::read_to_string(dir.path("pair-s1.json"))?;
    dir.write("pair-s1.json", entries.replace(&file("examples/forwarder/main.p4"), "main.p4"));
    std::fs::copy(file("examples/forwarder/main.p4"), dir.path("main.p4"))?;
    let checked = script_in(&dir, &["--check", "p4app.json"], "")?;
    let graph = dir.path("topology.json");
    ensure!(checked.status.success() && std::fs::metadata(&graph).is_err(), "{checked:?}");
    // A script finds the files.
    let done = script_in(&dir, &["p4app.json"], "c0 cat topology.json main_p4rt.txt main.json\nexit\n")?;
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    let words = [
        "\"multigraph\":false",
        "\"p4rt_path\":\"/",
        "main_p4rt.txt\"",
        "name: \"Forward.forward\"",
        "{\"pointsman_p4\":",
    ];
    for word in words {
        ensure!(out.contains(word), "no {word} in {out}\n{err}");
    }
    // An older graph is replaced, other files are not.
    dir.write("topology.json", "{\"nodes\": [], \"multigraph\": false}");
    dir.write("main.json", "{\"hosts\": {}}");
    let again = script_in(&dir, &["p4app.json"], "exit\n")?;
    let err = text(&again.stderr);
    ensure!(err.contains("main.json is not written, because another file of this name is there"), "{err}");
    ensure!(std::fs::read_to_string(dir.path("main.json"))? == "{\"hosts\": {}}", "{err}");
    ensure!(std::fs::read_to_string(&graph)?.contains("\"id\":\"h1\""), "{err}");
    // The topology itself may have the graph's name.
    std::fs::copy(dir.path("p4app.json"), &graph)?;
    let own = script_in(&dir, &["topology.json"], "exit\n")?;
    let err = text(&own.stderr);
    ensure!(own.status.success() && err.contains("topology.json is not written"), "{err}");
    Ok(())
}

type Outcome = Result<(), Box<dyn Error>>;

/// Runs a network with these commands; output and errors.
fn script(args: &[&str], commands: &str) -> Result<Output, Box<dyn Error>> {
    feed(start(args)?, commands)
}

/// The same in this folder, where it may write files.
fn script_in(folder: &Scratch, args: &[&str], commands: &str) -> Result<Output, Box<dyn Error>> {
    let mut command = pointsman(&[&["net"], args].concat());
    command.current_dir(&folder.0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    feed(command.spawn()?, commands)
}

fn feed(mut child: Child, commands: &str) -> Result<Output, Box<dyn Error>> {
    child.stdin.take().ok_or("piped")?.write_all(commands.as_bytes())?;
    Ok(child.wait_with_output()?)
}

fn start(args: &[&str]) -> std::io::Result<Child> {
    let mut command = pointsman(&[&["net"], args].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn a_script_for_two_hosts() -> Outcome {
    apart()?;
    let dir = Scratch::new("net-pair");
    let (pcap, log) = (dir.path("pcap"), dir.path("log"));
    let commands = "nodes\nlinks\npingall\nh1 cat /proc/net/dev\nc0 echo to h2\nh1 exit 3\n";
    let args = ["--pcap", &pcap, "--log", &log, &file("examples/net/pair.json")];
    let done = script(&args, commands)?;
    let out = text(&done.stdout);
    let words = [
        "h1 h2 s1",
        "h1-eth0<->s1-eth1",
        "h1 -> h2\nh2 -> h1\n0% dropped (2/2 received)",
        "eth0:",
        "to 10.0.0.2",
    ];
    for word in words {
        ensure!(out.contains(word), "no {word} in {out}\n{}", text(&done.stderr));
    }
    ensure!(done.status.code() == Some(1), "`exit 3` failed: {:?}", done.status);
    // ARP and ICMP went through both ports, and are in the log.
    for name in ["s1-eth1_in.pcap", "s1-eth1_out.pcap", "s1-eth2_in.pcap", "s1-eth2_out.pcap"] {
        let bytes = std::fs::metadata(format!("{pcap}/{name}"))?.len();
        ensure!(bytes > 24 + 2 * 90, "{name} has {bytes} bytes");
    }
    let log = std::fs::read_to_string(format!("{log}/s1.log"))?;
    ensure!(log.contains("port 1: received 90 bytes") && log.contains("port 2: sent 90 bytes"), "{log}");
    Ok(())
}

fn three_switches_and_a_cut_link() -> Outcome {
    apart()?;
    let dir = Scratch::new("net-triangle");
    let done =
        script_in(&dir, &[&file("examples/net/triangle.json")], "pingall\nlink s1 s2 down\npingall\n")?;
    let out = text(&done.stdout);
    ensure!(out.contains("0% dropped (6/6 received)"), "{out}\n{}", text(&done.stderr));
    // Routes do not follow: h1 and h2 have lost each other.
    ensure!(out.ends_with("h1 -> X h3\nh2 -> X h3\nh3 -> h1 h2\n33% dropped (4/6 received)\n"), "{out}");
    ensure!(done.status.code() == Some(1), "packets were lost: {:?}", done.status);
    Ok(())
}

/// Runs a command of `net exec` until it succeeds, because the network is only starting.
fn exec(network: &Child, words: &[&str]) -> Result<Output, Box<dyn Error>> {
    let (pid, deadline) = (network.id().to_string(), Instant::now() + Duration::from_secs(30));
    loop {
        let done = pointsman(&[&["net", "exec", "--pid", &pid], words].concat()).output()?;
        if done.status.success() || Instant::now() > deadline {
            return Ok(done);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An ordinary user enters the network that it runs, without privileges; root does not.
fn networks_of_other_users_are_not_entered() -> Outcome {
    const OTHER_USER: u32 = 65534;
    let test = "networks_of_other_users_are_not_entered";
    // A namespace of users need not have other ones.
    let start_as_other_user =
        |command: &mut Command| command.uid(OTHER_USER).gid(OTHER_USER).current_dir("/").spawn();
    let mut command = pointsman(&["net", "--no-prompt", &file("examples/net/pair.json")]);
    let mut network = match start_as_other_user(command.stdout(Stdio::null()).stderr(Stdio::piped())) {
        Ok(network) => network,
        Err(e) => {
            pointsman_needs::skip(test, &format!("no ordinary user can run this: {e}"));
            return Ok(());
        }
    };
    let pid = network.id().to_string();
    let enter = ["net", "exec", "--pid", &pid, "h1", "cat", "/proc/net/dev"];
    let deadline = Instant::now() + Duration::from_secs(30);
    let own = loop {
        let mut command = pointsman(&enter);
        let own =
            start_as_other_user(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?.wait_with_output()?;
        if own.status.success() || network.try_wait()?.is_some() || Instant::now() > deadline {
            break own;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let root = pointsman(&enter).output()?;
    let _ = network.kill();
    let err = text(&network.wait_with_output()?.stderr);
    if err.contains("this user may not make namespaces") {
        pointsman_needs::skip(test, &err);
        return Ok(());
    }
    ensure!(text(&own.stdout).contains("eth0:"), "{own:?}\n{err}");
    ensure!(!root.status.success() && text(&root.stderr).contains("no network"), "{root:?}");
    Ok(())
}

/// A controller as the tutorials write them: P4Info and device config from `build`, the program wrapped as PI's clients do it, election id 1.
fn a_controller_and_other_terminals() -> Outcome {
    apart()?;
    let dir = Scratch::new("net-controller");
    let topology = std::fs::read_to_string(file("examples/net/pair.json"))?;
    let without = topology.replace("\"runtime_json\": \"pair-s1.json\"", "\"cpu_port\": 510");
    std::fs::write(dir.path("topology.json"), without)?;
    let (info, config) = (dir.path("build/main.p4info.txtpb"), dir.path("build/main.json"));
    let main = file("examples/forwarder/main.p4");
    let compiled =
        pointsman(&["p4", "compile", "--p4runtime-files", &info, "-o", &config, &main]).output()?;
    ensure!(compiled.status.success(), "{compiled:?}");
    let mut network = start(&[&dir.path("topology.json")])?;
    let eth0 = exec(&network, &["h1", "cat", "/proc/net/dev"])?;
    ensure!(text(&eth0.stdout).contains("eth0:") && !text(&eth0.stdout).contains("s1-eth1"), "{eth0:?}");
    let ports = exec(&network, &["s1", "cat", "/proc/net/dev"])?;
    ensure!(text(&ports.stdout).contains("s1-eth2:"), "{ports:?}");
    let mut input = network.stdin.take().ok_or("piped")?;
    if let Some(python) = pointsman_needs::python("a controller of a network", "") {
        let mut controller = Command::new(python);
        let script = root().join("tests/clients/net_controller.py");
        controller
            .env("PYTHONPATH", root().join("examples/net/controllers"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let done = controller.arg(script).args([&info, &config]).output()?;
        ensure!(done.status.success(), "{}", text(&done.stderr));
        input.write_all(b"pingall\n")?;
    }
    drop(input);
    let done = network.wait_with_output()?;
    ensure!(done.status.success(), "{}\n{}", text(&done.stdout), text(&done.stderr));
    Ok(())
}

/// The processes whose command line contains this word.
fn processes(word: &str) -> usize {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = all.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    lines.filter(|line| text(line).contains(word)).count()
}

fn nothing_is_left_after_a_kill() -> Outcome {
    apart()?;
    // A command line like no other.
    let word = format!("86400.{}", std::process::id());
    let mut network = start(&[&file("examples/net/pair.json")])?;
    let mut input = network.stdin.take().ok_or("piped")?;
    input.write_all(format!("h1 exec sleep {word}\n").as_bytes())?;
    let wait = |n: usize| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while processes(&word) != n && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        processes(&word) == n
    };
    ensure!(wait(1), "the command does not start");
    network.kill()?;
    network.wait()?;
    ensure!(wait(0), "the command is still there");
    // At an ordinary end, what runs in the background is killed, too.
    let done =
        script(&[&file("examples/net/pair.json")], &format!("h1 sleep {word} >/dev/null 2>&1 &\nexit\n"))?;
    ensure!(done.status.success() && wait(0), "{done:?}");
    let gone = pointsman(&["net", "exec", "--pid", &network.id().to_string(), "h1", "true"]).output()?;
    ensure!(!gone.status.success() && text(&gone.stderr).contains("network"), "{gone:?}");
    Ok(())
}

fn files_that_do_not_fit() -> Outcome {
    apart()?;
    let dir = Scratch::new("net-wrong");
    let pair = std::fs::read_to_string(file("examples/net/pair.json"))?;
    let entries = std::fs::read_to_string(file("examples/net/pair-s1.json"))?;
    let forwarder = file("examples/forwarder/main.p4");
    let entries = entries.replace("../forwarder/main.p4", &forwarder);
    let refused = |topology: &str, entries: &str, wanted: &[&str]| -> Outcome {
        std::fs::write(dir.path("topology.json"), topology)?;
        std::fs::write(dir.path("pair-s1.json"), entries)?;
        let done = script(&[&dir.path("topology.json")], "")?;
        let err = text(&done.stderr);
        ensure!(!done.status.success() && wanted.iter().all(|w| err.contains(w)), "{wanted:?}: {err}");
        Ok(())
    };
    refused(
        &pair.replace("s1-p2", "s2-p2"),
        &entries,
        &["topology.json: links[1][1]: no switch or host is called `s2`"],
    )?;
    // Nothing follows from a wrong address.
    std::fs::write(dir.path("topology.json"), pair.replace("10.0.0.2/24", "10.0.0.x"))?;
    let done = script(&["--check", &dir.path("topology.json")], "")?;
    let err = text(&done.stderr);
    ensure!(
        err.lines().count() == 1 && err.contains("hosts.h2.ip: \"10.0.0.x\" is not an IPv4 address"),
        "{err}"
    );
    refused(&pair, "{", &["switches.s1.runtime_json: pair-s1.json: is not JSON"])?;
    let none = "switches.s1.runtime_json: cannot find none.json: looked for none.json, ";
    refused(&pair.replace("pair-s1", "none"), &entries, &[none])?;
    std::fs::write(dir.path("topology.json"), &pair)?;
    std::fs::write(dir.path("pair-s1.json"), &entries)?;
    let unused = script(&["--check", "--program", "nope.p4", &dir.path("topology.json")], "")?;
    ensure!(text(&unused.stderr).contains("--program: cannot find nope.p4"), "{unused:?}");
    let checked = script(&["--check", &dir.path("topology.json")], "pingall")?;
    ensure!(
        checked.status.success() && checked.stdout.is_empty() && checked.stderr.is_empty(),
        "{checked:?}"
    );
    let other = entries.replace("Forward.send", "Forward.sent");
    let place =
        "pair-s1.json: table_entries[0].action_name: table Forward.forward has no action `Forward.sent`";
    refused(&pair, &other, &[place, "pair-s1.json: table_entries[1].action_name: "])?;
    // What only the switch knows.
    let twice = entries.replace("02:00:00:00:00:02", "02:00:00:00:00:01");
    let place = "switch s1: pair-s1.json: table_entries[1]: ";
    refused(&pair, &twice, &[place])?;
    let checked = script(&["--check", &dir.path("topology.json")], "")?;
    ensure!(checked.status.code() == Some(1) && text(&checked.stderr).contains(place), "{checked:?}");
    let missing = entries.replace(&forwarder, "build/none.json");
    refused(&pair, &missing, &["pair-s1.json: bmv2_json: cannot find the P4 source of build/none.json"])?;
    std::fs::write(dir.path("none.p4"), "control {")?;
    refused(&pair, &missing, &["none.p4:1:9"])?;
    let unreadable = script(&[&dir.path("absent.json")], "")?;
    ensure!(text(&unreadable.stderr).contains("cannot read"), "{unreadable:?}");
    Ok(())
}
