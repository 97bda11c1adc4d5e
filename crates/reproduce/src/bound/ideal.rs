//! The ideal scheduler of a rack with quick and slow devices: one queue for all servers, in which a request waits until a worker is free. It
//! knows the state of every worker at any time. A quick worker that is free takes a request at once; a slow one only while enough others wait.
//! How many is found by search.
//!
//! Every policy of a switch binds a request to a device when it arrives, with what it knows then. This scheduler can do the same, or decide later: so
//! its best is a bound for them, as good as the search.

use crate::setup::Unit;
use pointsman_sim::arrivals::{ArrivalModel, Arrivals};
use pointsman_sim::random::{Part, Stream};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Which of the waiting requests a free worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// The one that has waited longest.
    Oldest,
    /// The one that came last: it then has waited least.
    Newest,
    /// The one with the shortest service: needs to know it.
    Shortest,
}

/// A scheduler's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ideal {
    /// A slow worker takes a request only if at least this many wait.
    pub waiting: usize,
    /// What quick workers take.
    pub quick: Takes,
    /// What slow workers take.
    pub slow: Takes,
}

/// Mean and 99th percentile of the time from arrival to the end of the service, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Mean.
    pub mean_ms: f64,
    /// By nearest rank.
    pub p99_ms: f64,
}

/// Lengths of queues that the search tries.
const WAITING: [usize; 18] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50, 65, 90];

/// The rules among which the search chooses; `knowing`: those that know service times, too.
pub fn rules(knowing: bool) -> Vec<Ideal> {
    use Takes::{Newest, Oldest, Shortest};
    let known = [(Shortest, Oldest), (Shortest, Newest), (Shortest, Shortest), (Oldest, Shortest)];
    let orders =
        [(Oldest, Oldest), (Oldest, Newest)].into_iter().chain(known.into_iter().filter(|_| knowing));
    orders.flat_map(|(quick, slow)| WAITING.map(|waiting| Ideal { waiting, quick, slow })).collect()
}

/// A request that waits.
#[derive(Clone, Copy)]
struct Request {
    arrived_ns: u64,
    /// Its service time in units of a device's mean.
    size: f64,
}

fn take(queue: &mut VecDeque<Request>, which: Takes) -> Option<Request> {
    match which {
        Takes::Oldest => queue.pop_front(),
        Takes::Newest => queue.pop_back(),
        Takes::Shortest => {
            let shortest = queue.iter().enumerate().min_by(|a, b| a.1.size.total_cmp(&b.1.size))?.0;
            queue.remove(shortest)
        }
    }
}

/// Requests that come to a rack at Poisson's times.
pub struct Load {
    /// When each comes, in nanoseconds, in order.
    arrivals_ns: Vec<u64>,
    /// Those before it do not count.
    warmup_ns: u64,
    sizes: Stream,
}

impl Load {
    /// The arrivals of a simulated rack with one client and this seed, so that both can be compared seed by seed.
    pub fn new(seed: u64, per_s: f64, warmup_s: f64, duration_s: f64) -> Self {
        let arrivals = Stream::new(seed, Part::Arrivals, 0);
        let model = ArrivalModel::Poisson { rate_per_s: per_s };
        Load {
            arrivals_ns: Arrivals::all(&model, (duration_s * 1e9) as u64, arrivals),
            warmup_ns: (warmup_s * 1e9) as u64,
            sizes: Stream::new(seed, Part::Oracle, 0),
        }
    }

    /// Each with its service time in units of a device's mean, log-normal.
    fn requests(&self, sigma: f64) -> impl Iterator<Item = Request> {
        let mut sizes = self.sizes.clone();
        self.arrivals_ns.iter().map(move |&arrived_ns| {
            let size =
                if sigma > 0.0 { libm::exp(sigma * sizes.normal() - sigma * sigma / 2.0) } else { 1.0 };
            Request { arrived_ns, size }
        })
    }
}

/// A rack of so many servers, each with a quick and a slow device of these, under a rule.
pub fn run(servers: u32, units: [&Unit; 2], load: &Load, rule: Ideal) -> Times {
    let service_ns = units.map(|u| u.mean_ms / u.speed * 1e6);
    let mut free = units.map(|u| u.workers * servers);
    let mut busy: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut queue: VecDeque<Request> = VecDeque::new();
    let mut took: Vec<u64> = Vec::with_capacity(load.arrivals_ns.len());
    let mut coming = load.requests(units[0].sigma).peekable();
    loop {
        let done = busy.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let now = if let Some(request) = coming.next_if(|r| r.arrived_ns <= done) {
            queue.push_back(request);
            request.arrived_ns
        } else {
            let Some(Reverse((at, kind))) = busy.pop() else { break };
            free[kind] += 1;
            at
        };
        loop {
            let kind = match free {
                [0, 0] => break,
                [0, _] if queue.len() < rule.waiting => break,
                [0, _] => 1,
                _ => 0,
            };
            let Some(request) = take(&mut queue, if kind == 0 { rule.quick } else { rule.slow }) else {
                break;
            };
            free[kind] -= 1;
            let end = now + (service_ns[kind] * request.size) as u64;
            busy.push(Reverse((end, kind)));
            if request.arrived_ns >= load.warmup_ns {
                took.push(end - request.arrived_ns);
            }
        }
    }
    let latency = pointsman_sim::outcome::Latency::of(&mut took);
    Times { mean_ms: latency.mean_ms, p99_ms: latency.p99_ms }
}

/// What no scheduler can be below, by counting alone: the quick devices cannot take all requests beyond their capacity.
pub fn floor(servers: u32, units: [&Unit; 2], per_s: f64) -> Times {
    let [quick, slow] = units.map(|u| u.mean_ms / u.speed);
    let beyond = (1.0 - units[0].capacity_per_s() * f64::from(servers) / per_s).max(0.0);
    // With equal services a hundredth of the requests at the slow device is as long as its service.
    let p99_ms = if beyond > 0.01 && units[0].sigma == 0.0 { slow } else { quick };
    Times { mean_ms: quick + beyond * (slow - quick), p99_ms }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::processor;

    fn units(sigma: f64) -> (Unit, Unit) {
        let cpu = Unit { sigma, ..processor() };
        let nic = Unit::accelerator(&cpu);
        (cpu, nic)
    }

    /// One worker that is quick, and slow ones that are never used: M/D/1, whose mean wait is known.
    #[test]
    fn a_queue_of_one_worker() {
        let (mut cpu, nic) = units(0.0);
        cpu.workers = 1;
        let rule = Ideal { waiting: 1_000_000, quick: Takes::Oldest, slow: Takes::Oldest };
        let means: Vec<f64> = (1..=8)
            .map(|seed| run(1, [&cpu, &nic], &Load::new(seed, 70.0, 50.0, 600.0), rule).mean_ms)
            .collect();
        let mean = means.iter().sum::<f64>() / 8.0;
        let theory = 10.0 + 10.0 * 0.7 / (2.0 * 0.3);
        assert!((mean - theory).abs() < 0.04 * theory, "{mean} against {theory}");
    }

    /// Beyond the capacity of the quick devices some requests need a slow one, and the search finds little more than that.
    #[test]
    fn floors() {
        let (cpu, nic) = units(0.0);
        let of = |per_s| floor(2, [&cpu, &nic], per_s);
        assert_eq!(of(800.0), Times { mean_ms: 10.0, p99_ms: 10.0 });
        assert!((of(2000.0).mean_ms - 18.0).abs() < 1e-9 && of(2000.0).p99_ms == 50.0);
        let load = Load::new(1, 1824.0, 1.0, 11.0);
        let best = rules(false).into_iter().map(|r| run(2, [&cpu, &nic], &load, r));
        let best = best.fold(f64::INFINITY, |least, t| least.min(t.p99_ms));
        assert!((50.0..52.0).contains(&best), "{best}");
    }

    /// To know service times helps, and is never worse: the rules without it are among those with it.
    #[test]
    fn knowledge() {
        let (cpu, nic) = units(1.0);
        let load = Load::new(3, 1536.0, 1.0, 7.0);
        let least = |knowing| {
            let of = rules(knowing).into_iter().map(|r| run(2, [&cpu, &nic], &load, r).mean_ms);
            of.fold(f64::INFINITY, f64::min)
        };
        assert!(least(true) < 0.99 * least(false), "{} {}", least(true), least(false));
    }
}
