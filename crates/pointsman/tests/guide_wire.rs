//! The first connection of docs/rack.md: its commands, as they are on the page, on three machines.

use crate::support::{Scratch, file};
use pointsman_lab::harness::Test;
use pointsman_lab::netlink::{Netlink, VethEnd};
use pointsman_lab::process::{Process, command};
use pointsman_lab::{Namespace, ensure};
use std::error::Error;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, Test)] = &[("the_first_connection", the_first_connection)];

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// How long a block of commands may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The machines of the page, by the words that introduce their commands.
const MACHINES: [&str; 3] = ["switch", "server", "client"];

/// The indented blocks of a section, each with the machine that was named last in a line that begins with "On the".
fn blocks(page: &str, section: &str) -> Vec<(usize, String)> {
    let text = page.split(&format!("\n## {section}\n")).nth(1).and_then(|t| t.split("\n## ").next());
    let (mut found, mut machine, mut block) = (Vec::new(), None, String::new());
    for line in text.expect("the section").lines().chain(["end"]) {
        match line.strip_prefix("    ") {
            Some(command) => block += &format!("{command}\n"),
            None if line.is_empty() && !block.is_empty() => block.push('\n'),
            None => {
                let done = std::mem::take(&mut block);
                found.extend(machine.filter(|_| !done.is_empty()).map(|m| (m, done)));
                let named = line.strip_prefix("On the ");
                machine = named.and_then(|n| MACHINES.iter().position(|m| n.starts_with(m))).or(machine);
            }
        }
    }
    found
}

/// Joins two machines by a cable with these interfaces.
fn cable(a: (&Namespace, &str), b: (&Namespace, &str), index: u32) -> Outcome {
    let end = |namespace, name, index: u32| VethEnd {
        name,
        index,
        mac: [2, 0, 0, 0, (index >> 8) as u8, index as u8],
        namespace,
        queues: 1,
    };
    let ends = [end(a.0.as_fd(), a.1, index), end(b.0.as_fd(), b.1, index + 100)];
    a.0.enter(|| Netlink::open()?.add_veth(&ends[0], &ends[1], 1500))??;
    Ok(())
}

fn the_first_connection() -> Outcome {
    if !pointsman_needs::programs("guide_wire", &["iproute2:ip", "curl", "python3"]) {
        return Ok(());
    }
    let page = std::fs::read_to_string(file("docs/rack.md"))?;
    let blocks = blocks(&page, "The first connection");
    ensure!(blocks.iter().map(|b| b.0).collect::<Vec<_>>() == [0, 0, 1, 2, 0], "{blocks:?}");
    let machines = MACHINES.map(Namespace::new);
    let [switch, server, client] = machines;
    let machines = [switch?, server?, client?];
    for machine in &machines {
        machine.enter(|| Netlink::open()?.set_up(1))??;
    }
    cable((&machines[0], "enp1s0f0"), (&machines[2], "eth0"), 10)?;
    cable((&machines[0], "enp1s0f1"), (&machines[1], "enp2s0"), 11)?;

    let folder = Scratch::new("guide");
    let binary = Path::new(env!("CARGO_BIN_EXE_pointsman"));
    let programs = binary.parent().ok_or("no folder")?.display().to_string();
    // What a block leaves in the background is killed with its shell.
    let mut shells = Vec::new();
    for (number, (machine, block)) in blocks.iter().enumerate() {
        let done = folder.path(&format!("done-{number}"));
        // Its own machine has its own interfaces in /sys.
        let script = format!(
            "mount -t sysfs sysfs /sys\ncd {}\nexport PATH={programs}:$PATH:/usr/sbin:/sbin\n{block}\ntouch {done}\nexec sleep 1000\n",
            folder.path("")
        );
        let mut shell = Process::start(
            &machines[*machine],
            "unshare",
            &["--mount", "bash", "-eu", "/dev/stdin"],
            &script,
        )?;
        let ended = shell.wait_until(PATIENCE, || Ok(Path::new(&done).exists()));
        ended.map_err(|e| format!("{}: {e}\n{block}", MACHINES[*machine]))?;
        shells.push(shell);
    }
    // Devices are in service as soon as their agent has reported: the page's own `status` may come before that.
    let status = || -> Outcome<String> {
        let mut status = command(&machines[0], binary);
        let output = status.arg("status").env("POINTSMAN_TOKEN_FILE", folder.path("tokens.txt")).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    };
    let serves = |shown: &str, device: &str| {
        shown.lines().any(|l| l.starts_with(device) && l.contains("  web ") && l.ends_with("in service"))
    };
    let end = Instant::now() + PATIENCE;
    loop {
        let shown = status()?;
        if serves(&shown, "s1/cpu  cpu   10.0.1.11") && serves(&shown, "s1/gpu  gpu   10.0.1.12") {
            break;
        }
        ensure!(Instant::now() < end, "{shown}\n{:?}", shells.last().map(Process::said));
        std::thread::sleep(Duration::from_millis(100));
    }

    // Both devices serve.
    let mut again = command(&machines[2], "bash");
    again.args(["-euc", "for n in 1 2 3 4; do curl -sS -o /dev/null http://10.0.0.100:8000/rack.toml; done"]);
    ensure!(again.status()?.success(), "curl");
    let served =
        |log: &str| std::fs::read_to_string(folder.path(log)).map(|t| t.matches("GET /rack.toml").count());
    let counts = [served("cpu.log")?, served("gpu.log")?];
    ensure!(counts.iter().sum::<usize>() >= 6 && counts.iter().all(|n| *n > 0), "{counts:?}");

    // The GPU's server dies, and the machine lives: the agent of the other device notices, and clients get answers.
    let mut kill = command(&machines[1], "bash");
    kill.args(["-euc", "kill -9 $(ss -Hltnp 'src 10.0.1.12:8000' | grep -o 'pid=[0-9]*' | cut -d= -f2)"]);
    ensure!(kill.status()?.success(), "nothing to kill");
    let end = Instant::now() + PATIENCE;
    loop {
        let shown = status()?;
        if shown.lines().any(|l| l.starts_with("s1/gpu") && l.ends_with("failed health check")) {
            break;
        }
        ensure!(Instant::now() < end, "{shown}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut again = command(&machines[2], "bash");
    again.args(["-euc", "for n in {1..20}; do curl -sS -o /dev/null http://10.0.0.100:8000/rack.toml; done"]);
    ensure!(again.status()?.success(), "curl");
    Ok(())
}
