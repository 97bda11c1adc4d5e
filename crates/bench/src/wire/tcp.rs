//! TCP throughput through the VIP, compared with direct cables.

use super::WireError;
use super::bed::{Bed, PORT};
use super::report::{Spread, Throughput};
use pointsman_lab::load::{EchoServer, EchoServers, StreamsConfig, streams};
use std::net::SocketAddr;
use std::time::Duration;

/// A bed with its servers running.
pub struct Served {
    /// The bed.
    pub bed: Bed,
    /// All its servers, on one thread.
    pub servers: EchoServers,
}

impl Served {
    /// Starts the servers of a bed.
    ///
    /// # Errors
    /// A server cannot listen.
    pub fn start(bed: Bed) -> Result<Self, WireError> {
        let servers: Vec<EchoServer> = bed
            .servers
            .iter()
            .map(|(namespace, _, address)| EchoServer {
                namespace: namespace.clone(),
                address: SocketAddr::new((*address).into(), PORT),
            })
            .collect();
        let servers = EchoServers::start(&servers).map_err(WireError::of(&bed.name))?;
        Ok(Self { bed, servers })
    }

    fn throughput(&self, connections: usize, duration: Duration) -> Result<f64, WireError> {
        let config = StreamsConfig {
            target: self.bed.target,
            connections,
            duration,
            warm_up: (duration / 4).min(Duration::from_millis(500)),
        };
        let run = || streams(&config, &self.servers.counters);
        let result = self.bed.client.enter(run).flatten().map_err(WireError::of(&self.bed.name))?;
        if result.failed > 0 {
            let failed = WireError::Connections { failed: result.failed, of: connections };
            return Err(WireError::of(&self.bed.name)(failed));
        }
        Ok(result.megabits_per_second())
    }
}

/// Measures all beds in turn, `runs` times. The first two are the cables, with and without offloads.
///
/// # Errors
/// A connection fails.
pub fn measure(
    beds: &[Served],
    connections: &[usize],
    runs: usize,
    duration: Duration,
    mut tell: impl FnMut(&str),
) -> Result<Vec<Throughput>, WireError> {
    let mut figures = Vec::new();
    for &connections in connections {
        let mut all: Vec<Vec<f64>> = vec![Vec::new(); beds.len()];
        for run in 0..runs {
            for (bed, values) in beds.iter().zip(&mut all) {
                tell(&format!("TCP, {connections} connections, run {}: {}", run + 1, bed.bed.name));
                values.push(bed.throughput(connections, duration)?);
            }
        }
        let ratio = |values: &[f64], base: usize| {
            let base = all.get(base).map(Vec::as_slice).unwrap_or_default();
            Spread::of(values.iter().zip(base).filter(|(_, base)| **base > 0.0).map(|(v, base)| v / base))
        };
        for (bed, values) in beds.iter().zip(&all) {
            figures.push(Throughput {
                what: bed.bed.name.clone(),
                connections,
                mbit_s: Spread::of(values.iter().copied()),
                ratio_to_direct: ratio(values, 0),
                ratio_to_direct_without_offloads: ratio(values, 1),
                runs: values.clone(),
            });
        }
    }
    Ok(figures)
}
