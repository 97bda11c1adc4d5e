//! The oracle: the value of every choice of weights under a load, by queueing theory, and the best choice.
//!
//! A learner knows only its observations; the oracle knows rates and service times. Each device is a queue with several
//! workers. Waiting follows the approximation of Allen and Cunneen (Erlang's formula, with the tail scaled by the
//! variation of arrivals and of service times), latency is waiting plus service, and the 99th percentile is that of the
//! mixture of all devices. Requests come to a server at random, but its ring distributes them in turn: a device that
//! gets every eighth sees arrivals that are an eighth as variable. A test compares the oracle's choice with an
//! exhaustive search by simulation.

use crate::device::DeviceModel;
use crate::random::{Part, Stream};
use pointsman_decide::{Observation, Parameters, Verdict, Weights};

/// Draws that represent a distribution of service times.
const DRAWS: usize = 256;

/// A model of devices: its service times in nanoseconds, in order, at speed 1, and their moments.
#[derive(Debug)]
struct Kind {
    model: DeviceModel,
    draws_ns: Vec<f64>,
    mean_ns: f64,
    /// Squared coefficient of variation.
    scv: f64,
}

/// The state of one device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceNow {
    /// Its server.
    pub server: u32,
    /// Whether it is an accelerator.
    pub accelerator: bool,
    /// Whether it works.
    pub up: bool,
    /// Its speed, times the model's.
    pub speed: f64,
}

/// The value of weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// 99th percentile of latency; infinite if a device is overloaded.
    pub p99_ms: f64,
    /// Mean use of processors.
    pub cpu_percent: f64,
    /// The verdict of the reward function.
    pub verdict: Verdict,
}

/// The best weights under a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Weight of accelerators.
    pub accelerator: u32,
    /// Their value.
    pub worth: Worth,
}

/// A group of devices that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Group {
    kind: usize,
    accelerator: bool,
    speed: f64,
    /// Requests per second to each.
    rate: f64,
    /// Squared coefficient of variation of the times between them.
    arrivals_scv: f64,
    count: usize,
}

/// The oracle of one rack.
#[derive(Debug)]
pub struct Oracle {
    kinds: Vec<Kind>,
    /// Kind of each device.
    of: Vec<usize>,
}

impl Oracle {
    /// Of devices with these models.
    pub fn new(models: &[DeviceModel]) -> Self {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut of = Vec::new();
        for model in models {
            let known = kinds.iter().position(|k| k.model == *model);
            of.push(known.unwrap_or_else(|| {
                let mut stream = Stream::new(0, Part::Oracle, kinds.len() as u64);
                let mut draws: Vec<f64> =
                    (0..64 * DRAWS).map(|_| model.service.draw(&mut stream) / model.speed).collect();
                let n = draws.len() as f64;
                let mean_ns = model.service.mean_ns() / model.speed;
                let square = draws.iter().map(|d| (d - mean_ns) * (d - mean_ns)).sum::<f64>() / n;
                draws.sort_by(f64::total_cmp);
                // Evenly spaced quantiles represent all.
                let draws_ns = draws.iter().skip(32).step_by(64).copied().collect();
                kinds.push(Kind {
                    model: model.clone(),
                    draws_ns,
                    mean_ns,
                    scv: square / (mean_ns * mean_ns),
                });
                kinds.len() - 1
            }));
        }
        Oracle { kinds, of }
    }

    /// The value of these weights at this rate of requests per second.
    pub fn worth(&self, rate_per_s: f64, now: &[DeviceNow], weights: Weights, judge: &Parameters) -> Worth {
        let weight = |d: &DeviceNow| match (d.up, d.accelerator) {
            (false, _) => 0,
            (true, true) => weights.accelerator,
            (true, false) => weights.cpu,
        };
        let servers = now.iter().map(|d| d.server as usize + 1).max().unwrap_or(0);
        let mut parts = vec![0u32; servers];
        for d in now {
            parts[d.server as usize] += weight(d);
        }
        let alive = parts.iter().filter(|p| **p > 0).count().max(1) as f64;
        let mut groups: Vec<Group> = Vec::new();
        for (i, d) in now.iter().enumerate().filter(|(_, d)| weight(d) > 0) {
            let share = f64::from(weight(d)) / f64::from(parts[d.server as usize]);
            let rate = rate_per_s / alive * share;
            let new = Group {
                kind: self.of[i],
                accelerator: d.accelerator,
                speed: d.speed,
                rate,
                arrivals_scv: share,
                count: 1,
            };
            let like = |g: &&mut Group| Group { count: 1, ..**g } == new;
            match groups.iter_mut().find(like) {
                Some(group) => group.count += 1,
                None => groups.push(new),
            }
        }
        let mut o = Observation { p99_ms: self.p99_ms(&groups, rate_per_s), ..Observation::default() };
        for g in &groups {
            let of = if g.accelerator { &mut o.accelerator_percent } else { &mut o.cpu_percent };
            // An entry for each device, not for each group: the reward function averages over them.
            of.extend(std::iter::repeat_n(100.0 * self.load(g), g.count));
        }
        let overload = o.p99_ms.is_infinite();
        let verdict = if overload { Verdict::Overload } else { judge.judge(&o, weights) };
        Worth { p99_ms: o.p99_ms, cpu_percent: o.cpu_mean_percent(), verdict }
    }

    /// The weights with the smallest 99th percentile; of equals, those with least for accelerators.
    pub fn best(&self, rate_per_s: f64, now: &[DeviceNow], judge: &Parameters) -> Best {
        let all = (0..=judge.max_weight).map(|accelerator| {
            let weights = Weights { cpu: judge.max_weight, accelerator };
            Best { accelerator, worth: self.worth(rate_per_s, now, weights, judge) }
        });
        let mut best: Option<Best> = None;
        for one in all {
            let better = match best {
                None => true,
                // Nothing keeps up: the least overload is best.
                Some(b) if b.worth.p99_ms.is_infinite() && one.worth.p99_ms.is_infinite() => {
                    one.worth.cpu_percent < b.worth.cpu_percent && b.worth.cpu_percent > 100.0
                }
                Some(b) => one.worth.p99_ms < b.worth.p99_ms * (1.0 - 1e-9),
            };
            if better {
                best = Some(one);
            }
        }
        best.unwrap_or(Best {
            accelerator: 0,
            worth: Worth { p99_ms: 0.0, cpu_percent: 0.0, verdict: Verdict::Open },
        })
    }

    /// Utilisation, 0 to 1 and beyond.
    fn load(&self, g: &Group) -> f64 {
        let k = &self.kinds[g.kind];
        g.rate * k.mean_ns / g.speed / 1e9 / f64::from(k.model.workers)
    }

    fn p99_ms(&self, groups: &[Group], rate_per_s: f64) -> f64 {
        if rate_per_s <= 0.0 {
            return 0.0;
        }
        // Of each: draws, speed, probability to wait, decay of waiting, share of all requests.
        let mut parts = Vec::new();
        for g in groups {
            let k = &self.kinds[g.kind];
            let rho = self.load(g);
            if rho >= 1.0 {
                return f64::INFINITY;
            }
            let workers = f64::from(k.model.workers);
            let mean = k.mean_ns / g.speed;
            let wait = erlang_c(k.model.workers, rho * workers);
            let decay = 2.0 * (1.0 - rho) * workers / (mean * (g.arrivals_scv + k.scv).max(1e-6));
            parts.push((k.draws_ns.as_slice(), g.speed, wait, decay, g.count as f64 * g.rate / rate_per_s));
        }
        let beyond = |t: f64| -> f64 {
            let of = |&(draws, speed, wait, decay, share): &(&[f64], f64, f64, f64, f64)| {
                let tail = draws.iter().map(|s| {
                    let left = t - s / speed;
                    if left < 0.0 { 1.0 } else { wait * libm::exp(-decay * left) }
                });
                share * tail.sum::<f64>() / draws.len() as f64
            };
            parts.iter().map(of).sum()
        };
        let mut high = 1e6;
        while beyond(high) > 0.01 && high < 1e18 {
            high *= 2.0;
        }
        let mut low = 0.0;
        while high - low > 1e-4 * high {
            let middle = (low + high) / 2.0;
            if beyond(middle) > 0.01 {
                low = middle;
            } else {
                high = middle;
            }
        }
        high / 1e6
    }
}

/// Probability of waiting with `offered` Erlang and this many workers: Erlang's C formula.
fn erlang_c(workers: u32, offered: f64) -> f64 {
    // By way of Erlang's B formula, whose recursion is stable.
    let b = (1..=workers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    let rho = offered / f64::from(workers);
    b / (1.0 - rho * (1.0 - b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Distribution;

    fn model(workers: u32, mean_ms: f64) -> DeviceModel {
        DeviceModel {
            workers,
            service: Distribution::Exponential { mean_ns: mean_ms * 1e6 },
            speed: 1.0,
            buffer: 1000,
            give_up_ns: None,
            contention: 0.0,
            stress: crate::device::Stress::default(),
            answer_bytes: 64,
        }
    }

    fn now(accelerator: bool) -> DeviceNow {
        DeviceNow { server: 0, accelerator, up: true, speed: 1.0 }
    }

    /// M/M/1: the time in the system is exponential with mean 1 / (mu - lambda).
    #[test]
    fn one_queue() {
        let oracle = Oracle::new(&[model(1, 10.0)]);
        let p = Parameters { latency_ms: 1e6, ..Parameters::default() };
        for rate in [10.0, 50.0, 80.0] {
            let worth = oracle.worth(rate, &[now(false)], p.first_weights(), &p);
            let expected = 4.60517 * 1000.0 / (100.0 - rate);
            assert!((worth.p99_ms / expected - 1.0).abs() < 0.03, "{rate}: {worth:?}, not {expected}");
            assert!((worth.cpu_percent - rate).abs() < 1e-9 && worth.verdict == Verdict::CpusSuffice);
        }
        let overload = oracle.worth(101.0, &[now(false)], p.first_weights(), &p);
        assert!(overload.p99_ms.is_infinite() && overload.verdict == Verdict::Overload);
        assert!((erlang_c(4, 3.2) - 0.5964).abs() < 1e-4, "{}", erlang_c(4, 3.2));
    }

    /// Little load: the fast processor alone; much: the accelerator too, and only as much as it can take.
    #[test]
    fn best_weights() {
        let oracle = Oracle::new(&[model(4, 10.0), model(1, 15.0)]);
        let rack = [now(false), now(true)];
        let p = Parameters::default();
        assert_eq!(oracle.best(100.0, &rack, &p).accelerator, 0);
        let busy = oracle.best(395.0, &rack, &p);
        assert!(busy.accelerator == 1 && busy.worth.p99_ms.is_finite(), "{busy:?}");
        let down = [now(false), DeviceNow { up: false, ..now(true) }];
        assert_eq!(oracle.best(300.0, &down, &p).accelerator, 0);
        assert!(oracle.best(1000.0, &rack, &p).worth.p99_ms.is_infinite());
    }

    /// Seven processors at 50 % and a slow one at 71 %: on average they are used by less than 60 %, although the mean of the two kinds is more.
    #[test]
    fn every_device_counts() {
        let models = [model(4, 10.0), model(4, 50.0)];
        let oracle = Oracle::new(&std::array::from_fn::<_, 16, _>(|i| models[i % 2].clone()));
        let speed = |i: u32| if i == 0 { 0.7 } else { 1.0 };
        let rack: Vec<DeviceNow> =
            (0..16).map(|i| DeviceNow { server: i / 2, speed: speed(i), ..now(i % 2 == 1) }).collect();
        let p = Parameters { latency_ms: 500.0, utilisation_percent: 60.0, ..Parameters::default() };
        let worth = oracle.worth(1867.0, &rack, Weights { cpu: 6, accelerator: 1 }, &p);
        assert_eq!(worth.verdict, Verdict::Open, "{worth:?}");
        let expected = 1867.0 / 8.0 * 6.0 / 7.0 * 0.01 / 4.0 * 100.0 * (7.0 + 1.0 / 0.7) / 8.0;
        assert!((worth.cpu_percent - expected).abs() < 1e-9, "{worth:?}, not {expected}");
    }
}
