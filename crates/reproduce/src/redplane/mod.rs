//! Chapter 5 of D. Kim's thesis (RedPlane): on its testbed in virtual time, with our library and store; some figures also in the lab.

mod breaks;
mod cost;
mod lab;
mod latency;
mod recovery;
mod resources;
mod snapshots;
mod throughput;

use crate::bench::Bench;
use crate::figure::{Figure, Quantity};
use pointsman_lab::load::nearest_rank;
use pointsman_store::{Config, PoolError};
use pointsman_testbed::trace::Sent;
use pointsman_testbed::{App, Build, ProgramError, Setup};
use std::sync::Arc;

/// In the order of the thesis.
pub const FIGURES: &[Figure] = &[
    lab::also(breaks::TABLE, &lab::TABLE),
    resources::TABLE,
    breaks::SEQUENCING,
    breaks::LEASES,
    lab::also(latency::NAT, &lab::NAT),
    lab::also(latency::APPS, &lab::APPS),
    cost::BANDWIDTH,
    snapshots::SNAPSHOTS,
    lab::also(throughput::APPS, &lab::RATES),
    lab::also(throughput::UPDATES, &lab::UPDATES),
    lab::also(recovery::FAILOVER, &lab::FAILOVER),
    cost::OCCUPANCY,
];

/// Applications whose changes wait for the store, in the order of charts.
const SYNCHRONOUS: [App; 5] = [App::Nat, App::Firewall, App::Dispatch, App::Gateway, App::Counter];
const APPLICATIONS: &str = "1: NAT; 2: firewall; 3: load balancer; 4: serving gateway; 5: a counter";

/// Whether a gateway's packet is signalling: one for 17 of data (section 5.6.1).
fn signals(sent: &Sent) -> bool {
    sent.place.is_multiple_of(18)
}

/// Frames to the store may be as long as jumbo frames.
const JUMBO: &str = "#define REDPLANE_MTU 9000\n";

const TIMES: &str = "delays: 0.8 us for each switch and 50 ns for each cable (ours), 100 Gbit/s links (the paper's), 1.8 us and an exponential 0.2 us for each \
                     end of a host or store, so that the median without RedPlane is the paper's 7 us; 1.67 us for a request at the store (ours, measured)";
const TRACE: &str = "the paper replays 100,000 packets of recorded traffic; here 50,000 packets (with --quick 10,000) arrive at random, 50,000 a second, so that no store is busy. Connections have 40 packets on average, of which a packet at the beginning and one at the end \
                     change the state, and frames of 64 to 1500 bytes, most of them short or long (ours)";

const SHARE: Quantity = Quantity { name: "share", unit: "percent", label: "share of packets, %", log: false };

/// A program, compiled once.
fn build(bench: &Bench, app: App, plain: bool) -> Result<Arc<Build>, ProgramError> {
    let make = || Build::new(app, plain, JUMBO, &[]);
    bench.once(&format!("redplane {app:?} {plain}"), make)
}

/// The usual run of a program, with so many stores.
fn setup(build: &Build, stores: usize, seed: u64) -> Result<Setup<'_>, PoolError> {
    let pools = vec!["203.0.113.1:1024-65535".parse()?];
    Ok(Setup { store: Config { pools, ..Config::default() }, stores, ..Setup::new(build, seed) })
}

/// A percentile of samples, which are sorted here.
pub fn percentile(samples: &mut [f64], percent: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    nearest_rank(samples, percent).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let mut samples = [3.0, 1.0, 2.0, 4.0];
        assert_eq!([25.0, 50.0, 99.0].map(|p| percentile(&mut samples, p)), [1.0, 2.0, 4.0]);
        assert!(percentile(&mut [], 50.0).is_nan());
    }
}
