//! `pointsman bench wire` and `pointsman bench peers`: they complete within seconds, and their JSON has the
//! form of docs/benchmarks.md. Rates are not judged, so a busy machine also passes.

use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

pub const TESTS: &[(&str, Test)] = &[
    ("packets_and_streams_are_measured", packets_and_streams_are_measured),
    ("peers_are_measured_or_named", peers_are_measured_or_named),
    ("bad_arguments_are_refused", bad_arguments_are_refused),
];

struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn pointsman(arguments: &[&str]) -> Fallible<Finished> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_pointsman")).args(arguments).stdin(Stdio::null()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Finished { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) })
}

/// Runs it with `--json`; returns its output and the figures.
fn figures(name: &str, arguments: &[&str]) -> Fallible<(String, Value)> {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.json", std::process::id()));
    let shown = file.display().to_string();
    let finished = pointsman(&[arguments, &["--json", &shown]].concat())?;
    ensure!(finished.code == Some(0), "{arguments:?}: {:?}\n{}", finished.code, finished.stderr);
    let text = std::fs::read_to_string(&file)?;
    std::fs::remove_file(&file)?;
    Ok((finished.stdout, serde_json::from_str(&text)?))
}

fn number(value: &Value, path: &str) -> Fallible<f64> {
    value
        .pointer(path)
        .and_then(Value::as_f64)
        .ok_or_else(|| format!("no number at {path} of {value}").into())
}

fn list<'a>(value: &'a Value, path: &str) -> Fallible<&'a Vec<Value>> {
    value
        .pointer(path)
        .and_then(Value::as_array)
        .ok_or_else(|| format!("no list at {path} of {value}").into())
}

/// Smallest, middle and largest of several, in order.
fn spread(value: &Value, path: &str, n: f64) -> Fallible<()> {
    let at = |part: &str| number(value, &format!("{path}/{part}"));
    let (min, median, max) = (at("min")?, at("median")?, at("max")?);
    ensure!(0.0 <= min && min <= median && median <= max, "{path}: {min} {median} {max}");
    ensure!(at("n")? == n, "{path}: {} runs", at("n")?);
    Ok(())
}

fn machine(report: &Value, schema: &str) -> Fallible<()> {
    ensure!(report.pointer("/schema").and_then(Value::as_str) == Some(schema), "{report}");
    for part in ["command", "version", "kernel", "processor", "load_before", "load_after", "privileges"] {
        let text = report.pointer(&format!("/machine/{part}")).and_then(Value::as_str);
        ensure!(text.is_some_and(|t| !t.is_empty()), "machine/{part}: {text:?}");
    }
    ensure!(number(report, "/machine/cores")? >= 1.0, "{report}");
    Ok(())
}

fn packets_and_streams_are_measured() -> Fallible<()> {
    let arguments = [
        "bench",
        "wire",
        "--ports",
        "af_packet",
        "--generator",
        "af_packet",
        "--runs",
        "2",
        "--seconds",
        "0.05",
        "--flows",
        "50",
    ];
    let (text, report) = figures("wire", &arguments)?;
    machine(&report, "pointsman.bench.wire/1")?;
    ensure!(text.contains("af_packet bare") && text.contains("af_packet balancer"), "{text}");
    ensure!(list(&report, "/skipped")?.is_empty(), "{report}");
    let [packets] = list(&report, "/packets")?.as_slice() else { return Err("one kind of ports".into()) };
    ensure!(number(packets, "/frame_bytes")? == 64.0 && number(packets, "/flows")? == 50.0, "{packets}");
    for lane in ["bare", "switch"] {
        for figure in ["loss_free_pps", "delivered_pps", "cpu_ns_per_frame"] {
            spread(packets, &format!("/{lane}/{figure}"), 2.0)?;
        }
        ensure!(number(packets, &format!("/{lane}/delivered_pps/min"))? > 0.0, "{packets}");
        ensure!(number(packets, &format!("/{lane}/cpu_ns_per_frame/min"))? > 0.0, "{packets}");
    }
    for ratio in ["ratio_loss_free", "ratio_delivered", "ratio_cpu"] {
        number(packets, &format!("/{ratio}/median"))?;
    }
    let runs = list(packets, "/runs")?;
    ensure!(runs.len() == 2, "{} runs", runs.len());
    for run in runs {
        for lane in ["bare", "switch"] {
            let probes = list(run, &format!("/{lane}/search/probes"))?;
            ensure!(!probes.is_empty(), "{run}");
            for probe in probes {
                // Frames arrive once, if at all.
                ensure!(number(probe, "/received")? <= number(probe, "/sent")?, "{probe}");
            }
            // The flood loses frames, but half of the loss-free rate is measured completely.
            if let Some(latency) = run.pointer(&format!("/{lane}/latency")).filter(|l| !l.is_null()) {
                ensure!(number(latency, "/measured")? > 0.0, "{latency}");
                ensure!(number(latency, "/p50_us")? <= number(latency, "/p99_us")?, "{latency}");
                ensure!(number(latency, "/p99_us")? <= number(latency, "/max_us")?, "{latency}");
            }
        }
    }
    let throughput = list(&report, "/throughput")?;
    let whats: Vec<&str> = throughput.iter().filter_map(|t| t.get("what")?.as_str()).collect();
    let once = ["direct", "direct without offloads", "pointsman af_packet"];
    ensure!(whats == [once, once].concat(), "{whats:?}");
    for figure in throughput {
        spread(figure, "/mbit_s", 2.0)?;
        ensure!(number(figure, "/mbit_s/min")? > 0.0, "{figure}");
        spread(figure, "/ratio_to_direct", 2.0)?;
    }
    Ok(())
}

fn peers_are_measured_or_named() -> Fallible<()> {
    let arguments =
        ["bench", "peers", "--ports", "af_packet", "--runs", "1", "--seconds", "0.2", "--clients", "2"];
    let (_, report) = figures("peers", &arguments)?;
    machine(&report, "pointsman.bench.peers/1")?;
    let requests = list(&report, "/requests")?;
    for who in ["direct", "pointsman af_packet", "nftables", "haproxy", "nginx"] {
        let of: Vec<&Value> = requests.iter().filter(|r| r["what"] == who).collect();
        if of.is_empty() {
            // Missing peers are listed, with a remedy.
            let skipped = list(&report, "/skipped")?.iter().filter_map(Value::as_str);
            let line = skipped.into_iter().find(|line| line.starts_with(who));
            ensure!(
                line.is_some_and(|l| l.contains("apt-get install") || who == "nftables"),
                "{who}: {line:?}"
            );
            pointsman_needs::skip("peers_are_measured_or_named", line.unwrap_or_default());
            continue;
        }
        let ways: Vec<&str> = of.iter().filter_map(|r| r["connections"].as_str()).collect();
        ensure!(ways == ["new", "keep-alive"], "{who}: {ways:?}");
        for figure in of {
            spread(figure, "/per_second", 1.0)?;
            ensure!(number(figure, "/per_second/min")? > 0.0, "{figure}");
            ensure!(number(figure, "/errors")? == 0.0, "{figure}");
            spread(figure, "/cpu_us", 1.0)?;
            for run in list(figure, "/runs")? {
                let servers = list(run, "/by_server")?.iter().filter_map(Value::as_f64).sum::<f64>();
                ensure!(servers == number(run, "/answered")?, "{run}");
            }
        }
    }
    Ok(())
}

fn bad_arguments_are_refused() -> Fallible<()> {
    let check = |arguments: &[&str], part: &str| -> Fallible<()> {
        let finished = pointsman(arguments)?;
        ensure!(finished.code != Some(0), "{arguments:?} is taken");
        ensure!(finished.stderr.contains(part), "{arguments:?}: {}", finished.stderr);
        ensure!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
        Ok(())
    };
    check(&["bench", "wire", "--seconds", "0"], "from 0.01 to 60")?;
    check(&["bench", "wire", "--seconds", "soon"], "from 0.01 to 60")?;
    check(&["bench", "wire", "--runs", "0"], "1..=1000")?;
    check(&["bench", "wire", "--frame", "20"], "64..=1514")?;
    check(&["bench", "wire", "--max-loss", "1"], "from 0 to below 1")?;
    check(&["bench", "wire", "--json", "/nowhere/x"], "cannot write /nowhere/x")?;
    check(&["bench", "peers", "--clients", "0"], "1..=1000")?;
    check(&["bench", "peers", "--json", "/nowhere/x"], "cannot write /nowhere/x")
}
