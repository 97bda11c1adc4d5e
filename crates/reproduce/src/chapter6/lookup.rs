//! The thesis's own simulator of racks, as its published programs compute figures 5.12 to 5.14: it has no time, no queues and no requests
//! that wait. A server's latency is looked up in a table by the number of requests that it gets.

use crate::error::ExperimentError;
use crate::redplane::percentile;
use pointsman_sim::random::{Part, Stream};

/// Rounds that are averaged. P99 depends on them, as it is that of averages: the thesis speaks of 1,000, its program has 10, and its numbers are those
/// of 100.
const ROUNDS: usize = 100;
/// SmartNICs of a server.
const NICS: usize = 2;
/// The numerator of the throughput: over a mean latency in ms, it gives a server's.
const WORTH: f64 = 1750.0;
/// Requests per second that a processor and a SmartNIC can do.
const CPU_PER_S: f64 = 16.0;
const NIC_PER_S: f64 = 4.0;
/// Use of a processor from which on PRT also takes SmartNICs, in per cent.
const BUSY: f64 = 90.0;

/// A policy's measurements on one server with KNN at 2, 4, ... 20 requests a second, in ms. Those of server-only at 18 and 20 were set by hand.
struct Measured {
    policy: &'static str,
    p99_ms: [f64; 10],
    mean_ms: [f64; 10],
}

const TABLE: [Measured; 4] = [
    Measured {
        policy: "server-only",
        p99_ms: [161.0, 177.0, 191.0, 262.0, 323.0, 444.0, 667.0, 1824.0, 5000.0, 8000.0],
        mean_ms: [186.0, 174.0, 177.0, 214.0, 239.0, 293.0, 445.0, 1480.0, 4000.0, 7000.0],
    },
    Measured {
        policy: "least-utilised",
        p99_ms: [975.0, 1096.0, 1276.0, 1709.0, 2138.0, 2636.0, 3029.0, 3953.0, 4427.0, 5958.0],
        mean_ms: [624.0, 623.0, 700.0, 829.0, 942.0, 1092.0, 1140.0, 1224.0, 1417.0, 1777.0],
    },
    Measured {
        policy: "prt",
        p99_ms: [187.0, 182.0, 188.0, 250.0, 336.0, 654.0, 1299.0, 2071.0, 3380.0, 5284.0],
        mean_ms: [187.0, 177.0, 178.0, 213.0, 244.0, 302.0, 495.0, 741.0, 1162.0, 1577.0],
    },
    Measured {
        policy: "wrr",
        p99_ms: [831.0, 837.0, 841.0, 838.0, 1053.0, 1067.0, 1096.0, 1127.0, 1142.0, 2794.0],
        mean_ms: [316.0, 297.0, 299.0, 320.0, 335.0, 359.0, 398.0, 465.0, 675.0, 1374.0],
    },
];

/// Throughput by the thesis's definition, and P99 in ms, of a rack at a rate. Requests come in pairs, each to a server by chance. A server's place in
/// the table is half its requests, less one for each SmartNIC, under every policy. P99 is that over all devices of the latency averaged over
/// rounds, with 0 for SmartNICs.
pub fn looked_up(
    policy: &str,
    servers: u32,
    rate_per_s: f64,
    seed: u64,
) -> Result<(f64, f64), ExperimentError> {
    let measured = TABLE
        .iter()
        .find(|m| m.policy == policy)
        .ok_or_else(|| ExperimentError::Unmeasured(policy.to_string()))?;
    let servers = servers as usize;
    let mut random = Stream::new(seed, Part::Arrivals, 0);
    let mut latencies = vec![0.0; servers * (1 + NICS)];
    let mut throughput = 0.0;
    for _ in 0..ROUNDS {
        let mut pairs = vec![0usize; servers];
        for _ in 0..(rate_per_s / 2.0) as usize {
            pairs[random.below(servers as u64) as usize] += 1;
        }
        for (latency, pairs) in latencies.iter_mut().zip(&pairs).filter(|(_, pairs)| **pairs > 0) {
            let at = pairs.saturating_sub(NICS).min(measured.p99_ms.len() - 1);
            *latency += measured.p99_ms[at] * (1.0 + 0.2 * random.normal()) / ROUNDS as f64;
            throughput += WORTH / measured.mean_ms[at] * (1.0 + 0.1 * random.normal()) / ROUNDS as f64;
        }
    }
    Ok((throughput, percentile(&mut latencies, 99.0)))
}

/// A device's use, which is also random, after a request more.
fn more(used: &mut f64, per_s: f64, random: &mut Stream) {
    *used += 100.0 / per_s + random.normal();
}

/// Use of all devices after a second's requests, in per cent; of each server its processor first.
fn used(policy: &str, servers: usize, rate: usize, random: &mut Stream) -> Vec<f64> {
    let mut used = vec![0.0; servers * (1 + NICS)];
    if policy == "wrr" {
        // The first servers get one request more than the last, and two of three go to the processor.
        for (n, of) in used.chunks_mut(1 + NICS).enumerate() {
            let all = rate / servers + usize::from(n < rate % servers);
            let cpu = (all as f64 * CPU_PER_S / (CPU_PER_S + NICS as f64 * NIC_PER_S)).ceil() as usize;
            of[0] = cpu as f64 * (100.0 / CPU_PER_S + 2.0 * random.normal());
            for nic in 0..NICS {
                let requests = (all - cpu) / NICS + usize::from(nic < (all - cpu) % NICS);
                of[1 + nic] = requests as f64 * (100.0 / NIC_PER_S + 2.0 * random.normal());
            }
        }
        return used;
    }
    for _ in 0..rate {
        let at = random.below(servers as u64) as usize * (1 + NICS);
        let of = &mut used[at..at + 1 + NICS];
        let least = (0..of.len()).fold(0, |least, n| if of[n] < of[least] { n } else { least });
        let device = match policy {
            "server-only" => 0,
            "prt" if of[0] <= BUSY => 0,
            _ => least,
        };
        let per_s = if device == 0 { CPU_PER_S } else { NIC_PER_S };
        if policy == "least-utilised" && device > 0 {
            // Under this policy a busy SmartNIC slows down.
            of[device] += 0.1 * (of[device] + random.normal());
        }
        more(&mut of[device], per_s, random);
    }
    used
}

/// Variance of devices' use over a hundred, on average over rounds: the published figure's "variances (%)". Server-only's is that of processors.
pub fn variance(policy: &str, servers: u32, rate_per_s: f64, seed: u64) -> f64 {
    let mut random = Stream::new(seed, Part::Arrivals, 1);
    let step = if policy == "server-only" { 1 + NICS } else { 1 };
    let one = |random: &mut Stream| {
        let used = used(policy, servers as usize, rate_per_s as usize, random);
        let of = || used.iter().step_by(step);
        let mean = of().sum::<f64>() / of().count() as f64;
        of().map(|u| (u - mean).powi(2)).sum::<f64>() / of().count() as f64 / 100.0
    };
    (0..ROUNDS).map(|_| one(&mut random)).sum::<f64>() / ROUNDS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some of the published results: policy, servers, rate, throughput, P99.
    #[test]
    fn it_gives_the_published_numbers() {
        for (policy, servers, rate, throughput, p99) in [
            ("server-only", 64, 1900.0, 31.0, 7623.0),
            ("server-only", 64, 1000.0, 284.0, 2760.0),
            ("prt", 256, 7000.0, 386.0, 4941.0),
            ("wrr", 128, 2000.0, 520.0, 1445.0),
            ("least-utilised", 64, 1300.0, 84.0, 4828.0),
        ] {
            let (own, own_p99) = looked_up(policy, servers, rate, 1).expect("a policy of the table");
            let near = |own: f64, published: f64| (own / published - 1.0).abs() < 0.1;
            assert!(near(own, throughput) && near(own_p99, p99), "{policy} {rate}: {own} {own_p99}");
        }
        assert!(looked_up("jsq", 64, 1000.0, 1).is_err());
    }

    #[test]
    fn server_only_varies_by_about_ten() {
        let own = variance("server-only", 64, 1300.0, 1);
        assert!((6.0..12.0).contains(&own), "{own}");
    }
}
