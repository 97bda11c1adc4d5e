//! The machines of the lab, what they say of their load, and the clients.

use crate::bed::Bed;
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::Lossy;
use crate::probes::prometheus;
use pointsman_balance::Policy;
use pointsman_demo::{Work, description, devices};
use pointsman_lab::load::{SessionsConfig, sessions};
use pointsman_lab::probe::Prober;
use pointsman_lab::rack::{DeviceKind, DeviceSpec, Host, Link, RackSpec, ServerSpec};
use pointsman_lab::{Namespace, unpin};
use pointsman_live::Series;
use std::collections::VecDeque;
use std::fs::{read_dir, read_to_string};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Machines.
pub const MACHINES: usize = 4;
/// The lab's clock next to the paper's.
const FASTER: f64 = 10.0;
/// Of content in an answer.
const BYTES: u64 = 50_000;
/// Requests of a client.
const REQUESTS: u32 = 30;
const REQUEST_BYTES: usize = 250;
/// In the paper's time, as the three below.
const JOIN_S: f64 = 0.5;
const GAP_S: f64 = 1.0;
/// The controller's rounds, the server's reading of the machines, and the window of rates.
const ROUND_S: f64 = 5.0;
const SCRAPE_S: f64 = 15.0;
const WINDOW_S: f64 = 60.0;
/// In real time.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The paper's gigabit, less as many times as answers are smaller and requests more frequent.
const LINK_BITS_PER_S: f64 = 1e9 * BYTES as f64 * FASTER / 5e6;

/// How the balancer chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Weighted round robin, with weights from probes.
    Probes,
    /// The controller names the best machine.
    Promethee,
}

/// What the clients of one run saw.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Mean, shortest and longest time from a request to its complete answer.
    pub mean_ms: f64,
    pub min_ms: f64,
    pub max_ms: f64,
    /// Content, by machine.
    pub kbit_per_s: [f64; MACHINES],
    /// Clients, by machine.
    pub connections: [f64; MACHINES],
    pub loss_percent: f64,
}

impl Lossy for Seen {
    fn loss_percent(&self) -> Option<f64> {
        Some(self.loss_percent)
    }
}

fn real(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds / FASTER)
}

fn machine(n: usize) -> String {
    format!("vm{}", n + 1)
}

fn spec() -> RackSpec {
    let device = |n: usize| DeviceSpec {
        name: machine(n),
        kind: DeviceKind::Cpu,
        link: Link::in_subnet(2 + n as u16, 10 + n as u8),
        speed: 1.0,
    };
    let server = ServerSpec { name: "s1".into(), devices: (0..MACHINES).map(device).collect() };
    RackSpec { servers: vec![server], offloads: true, ..RackSpec::demo() }
}

/// What a machine has used so far.
#[derive(Clone, Copy, Debug)]
struct Used {
    at: Instant,
    processor: Duration,
    sent_bytes: u64,
}

/// A machine whose use can be read.
#[derive(Clone)]
struct Machine {
    namespace: Namespace,
    interface: String,
    /// Its server, by the kernel's number.
    thread: u32,
}

impl Machine {
    fn of(host: &Host) -> Result<Machine, Failed> {
        let is = |task: &u32| {
            let name = read_to_string(format!("/proc/self/task/{task}/comm"));
            name.is_ok_and(|name| name.trim() == host.name)
        };
        let tasks = read_dir("/proc/self/task")?.flatten();
        let mut tasks = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
        let thread = tasks.find(is).ok_or_else(|| ExperimentError::NoThread(host.name.clone()))?;
        Ok(Machine { namespace: host.namespace.clone(), interface: host.interface.clone(), thread })
    }

    /// Processor time and bytes sent so far; each is 0 if the kernel does not report it.
    fn used(&self) -> Used {
        // proc(5): the first number of schedstat is time on the processor in nanoseconds; of an interface in net/dev, the ninth is
        // bytes sent.
        let first = |text: String| text.split_whitespace().next()?.parse().ok();
        let schedule = read_to_string(format!("/proc/self/task/{}/schedstat", self.thread)).ok();
        let sent = |text: String| {
            let line = text
                .lines()
                .find_map(|l| l.trim().strip_prefix(&format!("{}:", self.interface)).map(str::to_string))?;
            line.split_whitespace().nth(8)?.parse().ok()
        };
        let table = self.namespace.enter(|| read_to_string("/proc/thread-self/net/dev"));
        Used {
            at: Instant::now(),
            processor: Duration::from_nanos(schedule.and_then(first).unwrap_or(0)),
            sent_bytes: table.ok().and_then(|t| t.ok()).and_then(sent).unwrap_or(0),
        }
    }
}

/// Parts of a processor and of the link that were used in between.
fn parts(from: &Used, to: &Used) -> (f64, f64) {
    let seconds = (to.at - from.at).as_secs_f64().max(1e-9);
    let processor = to.processor.saturating_sub(from.processor).as_secs_f64() / seconds;
    let bits = 8.0 * to.sent_bytes.saturating_sub(from.sent_bytes) as f64;
    (processor.min(1.0), (bits / seconds / LINK_BITS_PER_S).min(1.0))
}

/// The free part of this computer's memory; all of it if the kernel does not say.
fn free_memory() -> f64 {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    value("MemAvailable:").zip(value("MemTotal:")).map_or(1.0, |(free, all)| free / all)
}

/// Probes of a machine with this number.
fn prober(host: &Host, number: u8, period: Duration) -> Result<Prober, Failed> {
    let machine = Machine::of(host)?;
    let mut last = machine.used();
    let free = move || {
        let now = machine.used();
        let (processor, link) = parts(&last, &now);
        last = now;
        [1.0 - processor, free_memory(), 1.0 - link].map(|part| (10.0 * part).round() as u8)
    };
    Ok(Prober::start(&host.namespace, host.link.gateway_ipv4, number, period, free)?)
}

/// The values of the last window, as a Prometheus server has them.
#[derive(Default)]
struct Scrapes(Mutex<VecDeque<Vec<Used>>>);

impl Scrapes {
    fn keep(&self, used: Vec<Used>) {
        let mut scrapes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        scrapes.push_back(used);
        while scrapes.len() > (WINDOW_S / SCRAPE_S) as usize + 1 {
            scrapes.pop_front();
        }
    }

    /// A series' value of each machine; none before there are two scrapes.
    fn series(&self, name: &str) -> Vec<(String, f64)> {
        let scrapes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(first), Some(last), true) = (scrapes.front(), scrapes.back(), scrapes.len() > 1) else {
            return Vec::new();
        };
        let value = |n: usize| {
            let (processor, link) = parts(&first[n], &last[n]);
            match name {
                "simulated_use_percent" => Some(100.0 * processor),
                "simulated_free_memory_percent" => Some(100.0 * free_memory()),
                "simulated_sent_bytes_per_s" => Some(link * LINK_BITS_PER_S / 8.0),
                _ => None,
            }
        };
        (0..first.len()).filter_map(|n| Some((machine(n), value(n)?))).collect()
    }
}

/// Reads all machines now and then, until it is dropped.
struct Scraper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scraper {
    fn start(machines: Vec<Machine>, scrapes: Arc<Scrapes>) -> Scraper {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut next = Instant::now();
            while !stopped.load(Relaxed) {
                if next <= Instant::now() {
                    scrapes.keep(machines.iter().map(Machine::used).collect());
                    next += real(SCRAPE_S);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Scraper { stop, thread: Some(thread) }
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in there has been reported where it happened.
            let _ = thread.join();
        }
    }
}

fn bed(by: By, scrapes: &Arc<Scrapes>, seed: u64) -> Result<Bed, Failed> {
    let spec = spec();
    let policy = if by == By::Probes { Policy::ProbeWrr } else { Policy::Chosen };
    let mut file = description(&spec, policy, None);
    file.switch.probes = Some("unauthenticated");
    // Three times the longest period.
    file.switch.report_timeout_ms = Some(3 * real(10.0).as_millis() as u32);
    if by == By::Promethee {
        let mut section = prometheus(MACHINES, true);
        section.interval_ms = real(ROUND_S).as_millis() as u32;
        file.services.iter_mut().for_each(|s| s.prometheus = Some(section.clone()));
    }
    let configs = devices(&spec, Work::Timed, seed);
    let scrapes = scrapes.clone();
    let series: Series = Arc::new(move |name: &str| scrapes.series(name));
    Bed::switch(&spec, &file, &configs, seed, |live| live.serve_series(series))
}

/// Runs with every seed: periods of probes in seconds of the paper's time, and numbers of clients.
pub fn measure(bench: &Bench, what: &str, by: By, runs: &[(f64, u32)]) -> Result<Vec<Vec<Seen>>, Failed> {
    pointsman_lab::raise_open_file_limit().map_err(ExperimentError::OpenFiles)?;
    let scrapes = Arc::<Scrapes>::default();
    let mut bed = bed(by, &scrapes, bench.first_seed)?;
    let hosts: Vec<Host> = bed.rack.hosts.iter().filter(|h| h.name != "client").cloned().collect();
    let machines = hosts.iter().map(Machine::of).collect::<Result<Vec<_>, _>>()?;
    let _scraper = Scraper::start(machines, scrapes);
    let mut seen: Vec<Vec<Seen>> = runs.iter().map(|_| Vec::new()).collect();
    bench.alone(what, |seed| {
        for ((period, clients), seen) in runs.iter().zip(&mut seen) {
            let numbered = (0u8..).zip(&hosts);
            let probers = numbered.map(|(n, host)| prober(host, n, real(*period)));
            let probers = probers.collect::<Result<Vec<_>, _>>()?;
            // Each machine has sent two probes.
            std::thread::sleep(real(*period) + Duration::from_millis(200));
            seen.push(one(&mut bed, *clients, seed)?);
            drop(probers);
        }
        Ok(())
    })?;
    let _ = unpin();
    Ok(seen)
}

fn one(bed: &mut Bed, clients: u32, seed: u64) -> Result<Seen, Failed> {
    let config = SessionsConfig {
        target: bed.target,
        clients,
        join: real(JOIN_S),
        requests: REQUESTS,
        gap: real(GAP_S),
        bytes: BYTES,
        request_bytes: REQUEST_BYTES,
        timeout: TIMEOUT,
        seed,
    };
    let client = bed.client()?;
    let (ports, keys) = (&mut bed.ports, &bed.keys);
    let r = client.enter(|| sessions(&config, ports, keys))??;
    if r.moved > 0 {
        return Err(ExperimentError::Moved(r.moved).into());
    }
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let of = |n: usize| format!("s1/{}", machine(n));
    let bytes = |n: usize| r.bytes_by_device.get(&of(n)).copied().unwrap_or(0) as f64;
    let connected = |n: usize| r.clients_by_device.get(&of(n)).copied().unwrap_or(0) as f64;
    Ok(Seen {
        mean_ms: ms(r.latencies.mean()),
        min_ms: ms(r.latencies.percentile(0.0)),
        max_ms: ms(r.latencies.max()),
        kbit_per_s: std::array::from_fn(|n| 8e-3 * bytes(n) / r.elapsed.as_secs_f64()),
        connections: std::array::from_fn(connected),
        loss_percent: r.loss_percent(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_what_lies_between_two_readings() {
        let at = Instant::now();
        let used = |ms: u64, processor_ms: u64, sent_bytes: u64| Used {
            at: at + Duration::from_millis(ms),
            processor: Duration::from_millis(processor_ms),
            sent_bytes,
        };
        // 100 Mbit/s are 12,500 bytes in a millisecond.
        let (processor, link) = parts(&used(0, 5, 1000), &used(100, 30, 626_000));
        assert!((processor - 0.25).abs() < 1e-9 && (link - 0.5).abs() < 1e-9, "{processor} {link}");
        assert_eq!(parts(&used(0, 0, 0), &used(1, 5, 1 << 40)), (1.0, 1.0), "never more than all");
        let scrapes = Scrapes::default();
        scrapes.keep(vec![used(0, 0, 0), used(0, 0, 0)]);
        assert!(scrapes.series("simulated_use_percent").is_empty(), "one reading gives no rate");
        scrapes.keep(vec![used(100, 50, 0), used(100, 0, 1250)]);
        let series = |name| scrapes.series(name).into_iter().map(|(_, v)| v.round()).collect::<Vec<_>>();
        assert_eq!(series("simulated_use_percent"), [50.0, 0.0]);
        assert_eq!(series("simulated_sent_bytes_per_s"), [0.0, 12_500.0]);
        assert!(series("other").is_empty());
    }
}
