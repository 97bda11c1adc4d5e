//! The measurements, as text and JSON.

use super::measure::Spread;
use super::traffic::Mix;
use pointsman_compile::executor::Choice;
use serde_json::{Value, json};
use std::fmt;

/// Nanoseconds per packet in each block, and around them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stages(Vec<(&'static str, f64)>);

impl Stages {
    /// Of parser, checksum verification, ingress, egress, checksum update and deparser; the rest of `total` is the shell.
    pub fn new(blocks: [f64; 6], total: f64) -> Self {
        let names = ["parser", "verify", "ingress", "egress", "compute", "deparser"];
        let mut all: Vec<(&str, f64)> = names.into_iter().zip(blocks).collect();
        all.push(("shell", (total - blocks.iter().sum::<f64>()).max(0.0)));
        Stages(all)
    }
}

/// Baselines of several workers, measured in alternation with them.
pub struct Fewer {
    /// One worker.
    pub one: Spread,
    /// As many switches with one worker each, which share only the machine: the upper bound.
    pub apart: Spread,
}

/// One measurement.
pub struct Report {
    /// The program's file.
    pub program: String,
    /// Number of known flows.
    pub flows: u64,
    /// Packet mix.
    pub mix: Mix,
    /// Cores.
    pub workers: usize,
    /// Of the program.
    pub ns: Spread,
    /// Baselines of several workers.
    pub fewer: Option<Fewer>,
    /// Of the loop.
    pub reference_ns: Spread,
    /// Of each run.
    pub packets: usize,
    /// The executor.
    pub executor: Choice,
    /// From source text to typed program.
    pub front_end_ms: f64,
    /// From typed program to executable.
    pub executor_ms: f64,
    /// Compile time in the background, while packets already pass.
    pub rest_ms: f64,
    /// Time per stage.
    pub stages: Stages,
    /// Share of the packets that left.
    pub forwarded: f64,
    /// Why others did not.
    pub drops: Vec<(&'static str, u64)>,
    /// Memory of the switch with its tables.
    pub program_bytes: u64,
    /// Memory of the loop's table.
    pub reference_bytes: usize,
    /// Memory of the packets that each has ready.
    pub ring_bytes: usize,
    /// Of the time, how much this process had a core.
    pub share_of_core: f64,
}

/// Two decimals are more than enough.
fn rounded(x: f64) -> Value {
    json!((x * 100.0).round() / 100.0)
}

fn spread(s: &Spread) -> Value {
    let runs: Vec<Value> = s.runs.iter().map(|x| rounded(*x)).collect();
    json!({
        "min": rounded(s.min()), "median": rounded(s.median()), "max": rounded(s.max()), "n": s.runs.len(),
        "runs": runs,
    })
}

/// Speed-up over one worker.
fn gain(one: &Spread, several: &Spread) -> f64 {
    one.median() / several.median().max(f64::MIN_POSITIVE)
}

impl Report {
    /// Median of the program by median of the loop.
    fn ratio(&self) -> f64 {
        self.ns.median() / self.reference_ns.median().max(f64::MIN_POSITIVE)
    }

    /// As JSON.
    pub fn json(&self) -> String {
        let stages: serde_json::Map<String, Value> =
            self.stages.0.iter().map(|(name, ns)| (name.to_string(), rounded(*ns))).collect();
        let drops: serde_json::Map<String, Value> =
            self.drops.iter().map(|(reason, n)| (reason.to_string(), json!(n))).collect();
        let mut report = json!({
            "program": self.program,
            "flows": self.flows,
            "mix": self.mix.name(),
            "workers": self.workers,
            "ns_per_packet": spread(&self.ns),
            "reference_ns_per_packet": spread(&self.reference_ns),
            "ratio_to_reference": rounded(self.ratio()),
            "ratio_of_minima": rounded(self.ns.min() / self.reference_ns.min().max(f64::MIN_POSITIVE)),
            "packets_per_second": (1e9 / self.ns.median().max(f64::MIN_POSITIVE)).round(),
            "packets_per_run": self.packets,
            "executor": self.executor.name(),
            "compile_ms": { "front_end": rounded(self.front_end_ms), "executor": rounded(self.executor_ms), "rest": rounded(self.rest_ms) },
            "stages_ns": stages,
            "forwarded": (self.forwarded * 1e6).round() / 1e6,
            "drops": drops,
            "memory": {
                "program_bytes": self.program_bytes,
                "reference_bytes": self.reference_bytes,
                "packets_bytes": self.ring_bytes,
            },
            "clock": if self.fewer.is_some() { "time that passes" } else { "processor time of the thread" },
            "share_of_core": rounded(self.share_of_core),
        });
        if let Some(Fewer { one, apart }) = &self.fewer {
            report["one_worker_ns_per_packet"] = spread(one);
            report["ratio_to_one_worker"] = rounded(gain(one, &self.ns));
            report["apart_ns_per_packet"] = spread(apart);
            report["ratio_apart_to_one_worker"] = rounded(gain(one, apart));
        }
        format!("{report:#}\n")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} flows, mix {}, {} worker{}, {} alternating runs of {} packets, {}",
            self.program,
            self.flows,
            self.mix.name(),
            self.workers,
            if self.workers == 1 { "" } else { "s" },
            self.ns.runs.len(),
            self.packets,
            self.executor.name(),
        )?;
        writeln!(f, "{:<24}{:>10}{:>10}{:>10}{:>14}", "ns per packet", "min", "median", "max", "packets/s")?;
        let fewer = self.fewer.iter();
        let fewer = fewer.flat_map(|f| [("program, one worker", &f.one), ("switches apart", &f.apart)]);
        let rows =
            std::iter::once(("program", &self.ns)).chain(fewer).chain([("plain loop", &self.reference_ns)]);
        for (name, s) in rows {
            let rate = 1e9 / s.median().max(f64::MIN_POSITIVE);
            writeln!(f, "{name:<24}{:>10.1}{:>10.1}{:>10.1}{rate:>14.0}", s.min(), s.median(), s.max())?;
        }
        writeln!(f, "{:<24}{:>20.2}", "ratio of the medians", self.ratio())?;
        if let Some(Fewer { one, apart }) = &self.fewer {
            writeln!(f, "{:<24}{:>20.2}", "speed-up over one", gain(one, &self.ns))?;
            writeln!(f, "{:<24}{:>20.2}", "switches apart", gain(one, apart))?;
        }
        let stages: Vec<String> = self.stages.0.iter().map(|(name, ns)| format!("{name} {ns:.1}")).collect();
        writeln!(f, "stages, block by block: {}", stages.join(", "))?;
        let drops: Vec<String> = self.drops.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        let drops = if drops.is_empty() { String::new() } else { format!("; dropped: {}", drops.join(", ")) };
        writeln!(f, "forwarded: {:.2} %{drops}", self.forwarded * 100.0)?;
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        writeln!(
            f,
            "memory: switch {:.1} MiB, plain loop {:.1} MiB, packets {:.1} MiB each",
            mib(self.program_bytes),
            mib(self.reference_bytes as u64),
            mib(self.ring_bytes as u64)
        )?;
        writeln!(
            f,
            "compilation: front end {:.1} ms, executor {:.1} ms, {:.1} ms in the background, on a core {:.0} % of the time",
            self.front_end_ms,
            self.executor_ms,
            self.rest_ms,
            self.share_of_core * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let spread = |runs: &[f64]| Spread { runs: runs.to_vec() };
        Report {
            program: "p.p4".into(),
            flows: 7,
            mix: Mix::Miss,
            workers: 1,
            ns: spread(&[90.0, 100.0, 110.0]),
            fewer: Some(Fewer { one: spread(&[150.0]), apart: spread(&[75.0]) }),
            reference_ns: spread(&[40.0, 50.0, 60.0]),
            packets: 1000,
            executor: Choice::Engine,
            front_end_ms: 1.0,
            executor_ms: 2.0,
            rest_ms: 3.0,
            stages: Stages::new([10.0, 0.0, 60.0, 0.0, 0.0, 5.0], 100.0),
            forwarded: 0.75,
            drops: vec![("ingress", 250)],
            program_bytes: 1 << 20,
            reference_bytes: 2 << 20,
            ring_bytes: 3 << 20,
            share_of_core: 0.5,
        }
    }

    #[test]
    fn as_json() {
        let json: Value = serde_json::from_str(&report().json()).expect("JSON");
        assert_eq!(json["program"], "p.p4");
        assert_eq!(json["flows"], 7);
        assert_eq!(json["mix"], "miss");
        assert_eq!(json["ns_per_packet"]["median"], 100.0);
        assert_eq!(json["ns_per_packet"]["n"], 3);
        assert_eq!(json["reference_ns_per_packet"]["min"], 40.0);
        assert_eq!(json["ratio_to_reference"], 2.0);
        assert_eq!(json["one_worker_ns_per_packet"]["median"], 150.0);
        assert_eq!(json["ratio_to_one_worker"], 1.5);
        assert_eq!(json["ratio_apart_to_one_worker"], 2.0);
        assert_eq!(json["stages_ns"]["shell"], 25.0);
    }

    #[test]
    fn as_a_table() {
        let text = report().to_string();
        let has = |part: &str| assert!(text.contains(part), "{part} in {text}");
        has("7 flows, mix miss, 1 worker, 3 alternating runs of 1000 packets");
        has("90.0     100.0     110.0      10000000");
        has("forwarded: 75.00 %; dropped: ingress 250");
        has("shell 25.0");
    }
}
