//! Requests through every bed in turn.

use super::super::WireError;
use super::super::report::{RequestRun, Requests, Spread, us};
use super::super::tcp::Served;
use pointsman_lab::load::{ClosedLoopConfig, Connections, SourcePorts, closed_loop};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Amount of measurement.
pub struct Scale {
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// Runs of each measurement.
    pub runs: usize,
    /// Length of each.
    pub duration: Duration,
    /// When a request is lost.
    pub timeout: Duration,
}

/// Minimum time before a client's port is used again, with those of eight addresses in between. It is longer than the
/// second after which the kernel allows it.
const REST: Duration = Duration::from_secs(2);

/// Measures all beds, of which the first is the cable.
///
/// # Errors
/// The client cannot send requests.
pub fn measure(
    beds: &mut [Served],
    scale: &Scale,
    proxies: &[&str],
    tell: impl Fn(&str),
) -> Result<Vec<Requests>, WireError> {
    let mut sources = Vec::new();
    for bed in beds.iter() {
        let ports = SourcePorts::new(bed.bed.sources.clone(), 1024..=65535, REST);
        sources.push(ports?);
    }
    let mut figures = Vec::new();
    for connections in [Connections::New, Connections::KeepAlive] {
        let word = match connections {
            Connections::New => "new",
            Connections::KeepAlive => "keep-alive",
        };
        for &clients in &scale.clients {
            let mut all: Vec<Vec<RequestRun>> = beds.iter().map(|_| Vec::new()).collect();
            for run in 0..scale.runs {
                for ((bed, ports), runs) in beds.iter().zip(&mut sources).zip(&mut all) {
                    let name = &bed.bed.name;
                    tell(&format!("{word}, {clients} clients, run {}: {name}", run + 1));
                    let config = ClosedLoopConfig {
                        target: bed.bed.target,
                        clients,
                        connections,
                        duration: scale.duration,
                        warm_up: (scale.duration / 4).min(Duration::from_millis(200)),
                        timeout: scale.timeout,
                    };
                    runs.push(one(bed, &config, ports)?);
                    // Closing connections must not burden the next run.
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            figures.extend(summary(beds, word, clients, &all, proxies));
        }
    }
    Ok(figures)
}

fn one(bed: &Served, config: &ClosedLoopConfig, ports: &mut SourcePorts) -> Result<RequestRun, WireError> {
    let counted = || (bed.bed.all_cpu_time(), bed.servers.counters.answers.load(Relaxed));
    let (cpu_before, answers_before) = counted();
    let result = bed.bed.client.enter(|| closed_loop(config, ports)).flatten();
    let result = result.map_err(WireError::of(&bed.bed.name))?;
    let (cpu_after, answers_after) = counted();
    let answers = answers_after.saturating_sub(answers_before).max(1);
    let servers = bed.bed.servers.len() as u32;
    Ok(RequestRun {
        per_second: result.per_second(),
        answered: result.answered,
        lost: result.lost,
        errors: result.errors,
        cpu_us: us(cpu_after.saturating_sub(cpu_before)) / answers as f64,
        p50_us: us(result.latencies.percentile(50.0)),
        p99_us: us(result.latencies.percentile(99.0)),
        max_us: us(result.latencies.max()),
        by_server: (1..=servers).map(|n| result.by_server.get(&n).copied().unwrap_or(0)).collect(),
        first_error: result.first_error,
    })
}

fn summary(
    beds: &[Served],
    word: &str,
    clients: usize,
    all: &[Vec<RequestRun>],
    proxies: &[&str],
) -> Vec<Requests> {
    let rates = |runs: &[RequestRun]| -> Vec<f64> { runs.iter().map(|r| r.per_second).collect() };
    let ratio = |runs: &[RequestRun], base: &[f64]| {
        Spread::of(
            runs.iter().zip(base).filter(|(_, base)| **base > 0.0).map(|(r, base)| r.per_second / base),
        )
    };
    let direct = all.first().map(|runs| rates(runs)).unwrap_or_default();
    let proxied: Vec<Vec<f64>> = beds
        .iter()
        .zip(all)
        .filter(|(bed, _)| proxies.contains(&bed.bed.name.as_str()))
        .map(|(_, runs)| rates(runs))
        .collect();
    let best: Vec<f64> = (0..direct.len())
        .map(|run| proxied.iter().filter_map(|rates| rates.get(run)).copied().fold(0.0, f64::max))
        .collect();
    let cheapest: Vec<f64> = (0..direct.len())
        .map(|run| {
            let proxied = beds.iter().zip(all).filter(|(bed, _)| proxies.contains(&bed.bed.name.as_str()));
            proxied.filter_map(|(_, runs)| runs.get(run)).map(|r| r.cpu_us).fold(f64::INFINITY, f64::min)
        })
        .collect();
    let saved = |runs: &[RequestRun]| {
        Spread::of(
            runs.iter().zip(&cheapest).filter(|(r, _)| r.cpu_us > 0.0).map(|(r, best)| best / r.cpu_us),
        )
    };
    beds.iter()
        .zip(all)
        .map(|(bed, runs)| Requests {
            what: bed.bed.name.clone(),
            connections: word.to_string(),
            clients,
            per_second: Spread::of(rates(runs)),
            p50_us: Spread::of(runs.iter().map(|r| r.p50_us)),
            p99_us: Spread::of(runs.iter().map(|r| r.p99_us)),
            ratio_to_direct: ratio(runs, &direct),
            cpu_us: Spread::of(runs.iter().map(|r| r.cpu_us)),
            cpu_ratio_to_best_proxy: (!proxied.is_empty()).then(|| saved(runs)),
            ratio_to_best_proxy: (!proxied.is_empty()).then(|| ratio(runs, &best)),
            lost: runs.iter().map(|r| r.lost).sum(),
            errors: runs.iter().map(|r| r.errors).sum(),
            runs: runs.clone(),
        })
        .collect()
}
