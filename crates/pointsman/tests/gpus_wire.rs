//! GPUs by a substitute for NVIDIA's library: listed, checked by `doctor`, and read by an agent that reports for three devices.

use crate::support::{PATIENCE, Running, Scratch, file, finish, pointsman};
use nix::sys::signal::Signal;
use pointsman_lab::harness::Test;
use pointsman_lab::{Namespace, ensure};
use pointsman_node::http::client::{Ask, ask};
use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, Test)] = &[("one_of_several_gpus_is_lost", one_of_several_gpus_is_lost)];

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A server whose processor's agent reports for three more devices.
fn rack() -> Outcome<String> {
    let text = std::fs::read_to_string(file("examples/gpu/rack.toml"))?;
    let (head, tail) = (
        text.find("[[server.device]]\nname = \"gpu\"").ok_or("no GPU")?,
        text.find("[[service]]").ok_or("no service")?,
    );
    let gpu = |(n, (gpu, values)): (usize, (&str, &str))| {
        format!(
            "[[server.device]]\nname = \"gpu{n}\"\nkind = \"gpu\"\nport = 2\naddress = \"10.0.1.{}\"\nreported_by = \"cpu\"\n\
             [[server.device.agent.source]]\nnvml = {gpu}\ninterval_ms = 20\nstale_ms = 200\n{values}\n",
            12 + n
        )
    };
    let gpus = [("\"GPU-aaaa\"", ""), ("1", ""), ("\"MIG-1111\"", "memory = \"memory\"")];
    let gpus: String = gpus.into_iter().enumerate().map(gpu).collect();
    Ok(format!("{}{gpus}{}", &text[..head], &text[tail..]))
}

/// Waits until the agent's metrics have these lines.
pub fn until_shown(here: &Namespace, wanted: &[&str]) -> Outcome {
    let start = Instant::now();
    loop {
        let page = here.enter(|| {
            let tokio = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|e| e.to_string())?;
            let page = Ask { method: "GET", url: "http://127.0.0.1:9101/metrics", ..Ask::default() };
            tokio.block_on(ask(page, PATIENCE)).map_err(|e| e.to_string())
        })??;
        let page = String::from_utf8_lossy(&page.1).into_owned();
        if wanted.iter().all(|w| page.lines().any(|l| l.strip_prefix("pointsman_agent_") == Some(w))) {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "{wanted:?} in {page}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until so many lines of the log have this text.
pub fn until_said(agent: &Running, text: &str, times: usize) -> Outcome {
    let start = Instant::now();
    while agent.count(text) < times {
        ensure!(start.elapsed() < PATIENCE, "{text}, {times}: {:?}", agent.lines(""));
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn one_of_several_gpus_is_lost() -> Outcome {
    let (here, folder) = (Namespace::new("gpus")?, Scratch::new("gpus"));
    for change in ["link set lo up", "address add 10.0.1.11/32 dev lo", "route add default dev lo"] {
        let done = here.enter(|| Command::new("ip").args(change.split(' ')).status())??;
        ensure!(done.success(), "ip {change}: {done}");
    }
    let built = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            &format!("-DFOLDER=\"{}\"", folder.path("")),
            "-o",
            &folder.path("libnvidia-ml.so.1"),
        ])
        .arg(file("crates/node/tests/data/nvml.c"))
        .status()?;
    ensure!(built.success(), "cc: {built}");
    let command = |args: &[&str]| {
        let mut command = pointsman(args);
        command.env("LD_LIBRARY_PATH", folder.path(""));
        command
    };

    let list = finish(command(&["agent", "--list-gpus"]));
    let lines: Vec<&str> = list.stdout.lines().collect();
    ensure!(list.code == Some(0) && lines.len() == 5, "{list:?}");
    let first = "nvml = \"GPU-aaaa\"  GPU 0 at 00000000:3B:00.0: Fake 80GB, utilization 70 %, memory 25 %";
    let last = "nvml = \"MIG-2222\"  Fake 80GB MIG 1g.10gb, GPU_I_ID=\"8\", memory 12 %";
    ensure!(lines[0] == first && lines[4] == last, "{}", list.stdout);

    let rack = folder.write("rack.toml", rack()?);
    let keys = finish(pointsman(&["keys", &rack]));
    ensure!(keys.code == Some(0), "{}", keys.stderr);
    let doctor = here.enter(|| finish(command(&["doctor", &rack])))?;
    for line in [
        "ok    gpu         s1/gpu0: NVIDIA GPU GPU-aaaa answers",
        "warn  gpu         s1/gpu1: NVIDIA GPU 1: indices may change with a reboot",
        "-> write nvml = \"GPU-bbbb\"",
        "ok    gpu         s1/gpu2: NVIDIA GPU MIG-1111 answers",
    ] {
        ensure!(doctor.stdout.contains(line), "no {line} in {}", doctor.stdout);
    }

    let agent =
        here.enter(|| Running::of(command(&["agent", &rack, "s1", "cpu", "--metrics", "127.0.0.1:9101"])))?;
    agent.wait_for("metrics on ");
    let all = [
        "reported{server=\"s1\",device=\"s1/gpu1\"} 1.0",
        "compute_percent{server=\"s1\",device=\"s1/gpu1\"} 71.0",
        "memory_percent{server=\"s1\",device=\"s1/gpu2\"} 25.0",
    ];
    until_shown(&here, &all)?;
    // Twice, because a GPU that came back may be lost again.
    for time in 1..=2 {
        folder.write("lost", "");
        until_said(&agent, "NVIDIA GPU 1: GPU is lost", time)?;
        let others = [
            "reported{server=\"s1\",device=\"s1/gpu0\"} 1.0",
            "reported{server=\"s1\",device=\"s1/gpu1\"} 0.0",
            "reported{server=\"s1\",device=\"s1/gpu2\"} 1.0",
        ];
        until_shown(&here, &others)?;
        std::fs::remove_file(folder.path("lost"))?;
        until_shown(&here, &all)?;
        until_said(&agent, "NVIDIA GPU 1 answers again", time)?;
    }
    let ended = agent.end(Signal::SIGTERM);
    ensure!(ended.code == Some(0) && ended.stderr.matches("NVIDIA").count() == 4, "{}", ended.stderr);
    Ok(())
}
