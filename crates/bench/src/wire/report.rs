//! Results of the wire benchmarks: JSON as described in `docs/benchmarks.md`, and tables.

use pointsman_lab::frames::LossFree;
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Smallest, middle and largest of several values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The middle one; the mean of the two middle ones of an even number.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// Number of values.
    pub n: usize,
}

impl Spread {
    /// Statistics of these values; all zero without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let at = |i: usize| sorted.get(i).copied().unwrap_or(0.0);
        let median = if n == 0 { 0.0 } else { (at((n - 1) / 2) + at(n / 2)) / 2.0 };
        Self { min: at(0), median, max: at(n.saturating_sub(1)), n }
    }
}

/// The test machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The command.
    pub command: String,
    /// Of this program.
    pub version: &'static str,
    /// Seconds since 1970 at the start.
    pub time: u64,
    /// Of the system.
    pub kernel: String,
    /// Model of the processors.
    pub processor: String,
    /// Number of cores.
    pub cores: usize,
    /// Load averages (1, 5, 15 minutes) before the first run and after the last: other load on the machine.
    pub load_before: String,
    /// See `load_before`.
    pub load_after: String,
    /// Whether root, or root in a user namespace.
    pub privileges: String,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn load() -> String {
    read("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

impl Machine {
    /// This one.
    pub fn now(privileges: String) -> Self {
        let processors = read("/proc/cpuinfo");
        let model = processors.lines().find_map(|line| line.strip_prefix("model name"));
        Self {
            command: std::env::args().collect::<Vec<_>>().join(" "),
            version: env!("CARGO_PKG_VERSION"),
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            processor: model.map_or("unknown", |m| m.trim_start_matches([' ', '\t', ':'])).to_string(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            load_before: load(),
            load_after: String::new(),
            privileges,
        }
    }

    /// Notes the load at the end.
    pub fn ended(&mut self) {
        self.load_after = load();
    }
}

/// Latencies of one run, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyRun {
    /// Frames a second that were offered.
    pub offered_pps: f64,
    /// Frames sent.
    pub sent: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Of these, measured: they are evenly spread. Lost ones are in the percentiles, with `LOST_US`.
    pub measured: u64,
    /// Percentile.
    pub p50_us: f64,
    /// Percentile.
    pub p90_us: f64,
    /// Percentile.
    pub p99_us: f64,
    /// Percentile.
    pub p999_us: f64,
    /// The largest.
    pub max_us: f64,
}

/// One forwarder in one run.
#[derive(Clone, Debug, Serialize)]
pub struct LaneRun {
    /// The search.
    pub search: LossFree,
    /// Latencies at half of that rate; `None` without one.
    pub latency: Option<LatencyRun>,
}

/// The bare forwarder and the switch, one after the other.
#[derive(Clone, Debug, Serialize)]
pub struct PacketRun {
    /// Without a program.
    pub bare: LaneRun,
    /// With it.
    pub switch: LaneRun,
}

/// One forwarder over all runs.
#[derive(Clone, Debug, Serialize)]
pub struct Lane {
    /// Highest rate without loss.
    pub loss_free_pps: Spread,
    /// Frames delivered under overload.
    pub delivered_pps: Spread,
    /// Time on processors that a frame of a flood takes, nanoseconds, the kernel's work for the ports included. It hardly
    /// depends on what else the machine does.
    pub cpu_ns_per_frame: Spread,
    /// Latency at half of the loss-free rate.
    pub p50_us: Spread,
    /// The same.
    pub p99_us: Spread,
    /// The same.
    pub p999_us: Spread,
    /// Frames lost while latencies were measured, in all runs.
    pub lost_at_half: u64,
    /// In some run the generator was not fast enough to find the limit.
    pub generator_limited: bool,
}

impl Lane {
    fn of<'a>(runs: impl Iterator<Item = &'a LaneRun> + Clone) -> Self {
        let latency = |pick: fn(&LatencyRun) -> f64| {
            Spread::of(runs.clone().filter_map(|r| r.latency.as_ref()).map(pick))
        };
        Self {
            loss_free_pps: Spread::of(runs.clone().map(|r| r.search.loss_free_pps)),
            delivered_pps: Spread::of(runs.clone().map(|r| r.search.delivered_pps)),
            cpu_ns_per_frame: Spread::of(runs.clone().map(|r| r.search.cpu_ns_per_frame)),
            p50_us: latency(|l| l.p50_us),
            p99_us: latency(|l| l.p99_us),
            p999_us: latency(|l| l.p999_us),
            lost_at_half: runs.clone().filter_map(|r| r.latency.as_ref()).map(|l| l.lost).sum(),
            generator_limited: runs.clone().any(|r| r.search.generator_limited),
        }
    }
}

/// Packet rates over one kind of ports.
#[derive(Clone, Debug, Serialize)]
pub struct Packets {
    /// `af_packet` or `af_xdp`.
    pub ports: String,
    /// The switch's program.
    pub program: String,
    /// Flows, in turn.
    pub flows: u32,
    /// Bytes of a frame, without its frame check sequence.
    pub frame_bytes: usize,
    /// The forwarder without a program.
    pub bare: Lane,
    /// The switch.
    pub switch: Lane,
    /// Loss-free rate of the switch over that of the bare forwarder, run by run.
    pub ratio_loss_free: Spread,
    /// The same for frames delivered under overload: less exact, but it does not depend on single lost frames.
    pub ratio_delivered: Spread,
    /// Processor time per frame, of the bare forwarder over that of the switch: the ratio of rates on a machine without
    /// other load.
    pub ratio_cpu: Spread,
    /// Everything.
    pub runs: Vec<PacketRun>,
}

impl Packets {
    /// Of these runs.
    pub fn of(ports: &str, program: &str, flows: u32, frame_bytes: usize, runs: Vec<PacketRun>) -> Self {
        let both = |pick: fn(&LaneRun) -> f64| runs.iter().map(move |r| (pick(&r.bare), pick(&r.switch)));
        let over = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
            Spread::of(pairs.filter(|(_, below)| *below > 0.0).map(|(above, below)| above / below))
        };
        let ratio = |pick| over(&mut both(pick).map(|(bare, switch)| (switch, bare)));
        Self {
            ports: ports.to_string(),
            program: program.to_string(),
            flows,
            frame_bytes,
            bare: Lane::of(runs.iter().map(|r| &r.bare)),
            switch: Lane::of(runs.iter().map(|r| &r.switch)),
            ratio_loss_free: ratio(|r| r.search.loss_free_pps),
            ratio_delivered: ratio(|r| r.search.delivered_pps),
            ratio_cpu: over(&mut both(|r| r.search.cpu_ns_per_frame)),
            runs,
        }
    }
}

/// TCP throughput of one arrangement.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    /// `direct`, `direct without offloads`, or `switch` and its ports.
    pub what: String,
    /// TCP connections at a time.
    pub connections: usize,
    /// Millions of content bits a second.
    pub mbit_s: Spread,
    /// Over `direct`, run by run.
    pub ratio_to_direct: Spread,
    /// Over `direct without offloads`, run by run.
    pub ratio_to_direct_without_offloads: Spread,
    /// Every run's `mbit_s`, in order.
    pub runs: Vec<f64>,
}

/// The file of `bench wire`.
#[derive(Clone, Debug, Serialize)]
pub struct WireReport {
    /// `pointsman.bench.wire/1`
    pub schema: &'static str,
    /// Where.
    pub machine: Machine,
    /// Duration of a probe or a TCP run, seconds.
    pub seconds: f64,
    /// Highest share of lost frames that counts as loss-free.
    pub max_loss: f64,
    /// The generator.
    pub generator: String,
    /// Packet rates.
    pub packets: Vec<Packets>,
    /// TCP throughput.
    pub throughput: Vec<Throughput>,
    /// Measurements that were skipped, and why.
    pub skipped: Vec<String>,
}

/// One run of requests.
#[derive(Clone, Debug, Serialize)]
pub struct RequestRun {
    /// Answered requests a second.
    pub per_second: f64,
    /// Requests answered.
    pub answered: u64,
    /// Without an answer within the time-out; in the percentiles with it.
    pub lost: u64,
    /// Refused, reset, or answered wrongly.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Time on processors for each request, of client, servers and balancer together, microseconds.
    pub cpu_us: f64,
    /// Percentile, microseconds.
    pub p50_us: f64,
    /// Percentile, microseconds.
    pub p99_us: f64,
    /// The largest, microseconds.
    pub max_us: f64,
    /// Answers of each server, in their order.
    pub by_server: Vec<u64>,
}

/// Requests through one balancer, in one way, by this many clients.
#[derive(Clone, Debug, Serialize)]
pub struct Requests {
    /// The balancer.
    pub what: String,
    /// `new` connection for each request, or `keep-alive`.
    pub connections: String,
    /// Clients at a time.
    pub clients: usize,
    /// Answered requests a second.
    pub per_second: Spread,
    /// Percentile, microseconds.
    pub p50_us: Spread,
    /// Percentile, microseconds.
    pub p99_us: Spread,
    /// Rate over that of `direct`, run by run.
    pub ratio_to_direct: Spread,
    /// Processor time per request, of client, servers and balancer together, microseconds. It hardly depends on other
    /// load of the machine.
    pub cpu_us: Spread,
    /// `cpu_us` of the cheapest proxy of the same run over this one: the ratio of rates if the processors were busy with
    /// nothing else. `None` without a proxy.
    pub cpu_ratio_to_best_proxy: Option<Spread>,
    /// Rate over that of the best proxy (HAProxy, nginx) of the same run; none if none was there.
    pub ratio_to_best_proxy: Option<Spread>,
    /// Requests lost in all runs.
    pub lost: u64,
    /// Errors in all runs.
    pub errors: u64,
    /// Everything.
    pub runs: Vec<RequestRun>,
}

/// The file of `bench peers`.
#[derive(Clone, Debug, Serialize)]
pub struct PeersReport {
    /// `pointsman.bench.peers/1`
    pub schema: &'static str,
    /// Where.
    pub machine: Machine,
    /// Duration of a run, seconds.
    pub seconds: f64,
    /// A request unanswered for this long is lost, seconds.
    pub timeout: f64,
    /// Versions of the peers.
    pub versions: Vec<String>,
    /// The figures.
    pub requests: Vec<Requests>,
    /// Measurements that were skipped, and why.
    pub skipped: Vec<String>,
}

/// A duration in microseconds.
pub fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_found() {
        let check = |values: &[f64], min, median, max| {
            let n = values.len();
            assert_eq!(Spread::of(values.iter().copied()), Spread { min, median, max, n });
        };
        check(&[], 0.0, 0.0, 0.0);
        check(&[3.0], 3.0, 3.0, 3.0);
        check(&[3.0, 1.0], 1.0, 2.0, 3.0);
        check(&[9.0, 1.0, 2.0], 1.0, 2.0, 9.0);
    }
}
