//! Thousands of connections and a bulk transfer while policies change and a device is removed and re-added.

use super::Client;
use super::rack::{PORT, SERVICE, description};
use pointsman_balance::Policy;
use pointsman_lab::load::{self, BulkConfig, ConsistencyConfig, Direction};
use pointsman_lab::rack::RackSpec;
use pointsman_lab::report::{BulkReport, ConsistencyReport};
use pointsman_live::Live;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Concurrent connections.
const CONNECTIONS: usize = 10_000;

/// The device that is disabled and enabled.
const DEVICE: &str = "s1/nic";

/// Duration and amount.
pub struct Scale {
    /// How long connections are checked.
    pub duration: Duration,
    /// Bytes of the transfer.
    pub bulk_bytes: u64,
}

/// Runs the check. `progress` gets the elapsed time and the current activity.
pub fn run(
    live: &mut Live,
    client: &mut Client,
    spec: &RackSpec,
    scale: &Scale,
    mut progress: impl FnMut(Duration, String),
) -> Result<(ConsistencyReport, Vec<BulkReport>), Box<dyn Error>> {
    let target = SocketAddr::new(spec.vip_ipv4.into(), PORT);
    let config = ConsistencyConfig {
        // Shorter than the service's idle time, so that every connection lives through all of it.
        interval: Duration::from_secs(3),
        ..ConsistencyConfig::new(target, target, CONNECTIONS, scale.duration, client.seed)
    };
    let bulk = BulkConfig {
        target,
        bytes: scale.bulk_bytes,
        direction: Direction::Download,
        seed: client.seed,
        stall: Duration::from_secs(10),
    };
    let rack_file =
        |without| description(spec, Policy::ServerOnly, without).rack().map_err(|e| e.to_string());
    let (whole, reduced) = (rack_file(None)?, rack_file(Some(DEVICE))?);
    let mut disturbances = Vec::new();
    let (namespace, ports, keys) = (client.namespace.clone(), &mut client.ports, &client.keys);
    let stop = AtomicBool::new(false);

    let (checked, transferred, disturbed) = std::thread::scope(|scope| {
        let check =
            scope.spawn(|| namespace.enter(|| load::check_consistency(&config, ports, keys, &stop, |_| {})));
        let transfer = scope.spawn(|| namespace.enter(|| load::transfer(&bulk, keys, |_| {})));
        // The policy changes every second; the device is away in the middle third.
        let mut disturb = || -> Result<(), Box<dyn Error>> {
            let start = Instant::now();
            let mut turn = 0u32;
            let mut away = false;
            while !check.is_finished() || !transfer.is_finished() {
                let elapsed = start.elapsed();
                let third = elapsed.as_secs_f64() / scale.duration.as_secs_f64() * 3.0;
                let should_be_away = (1.0..2.0).contains(&third);
                if should_be_away != away {
                    away = should_be_away;
                    let (config, what) = if away { (&reduced, "removed") } else { (&whole, "added") };
                    disturbances.push(format!("{:.1} s: {DEVICE} {what}", elapsed.as_secs_f64()));
                    live.configure(config.clone())?;
                }
                if elapsed >= Duration::from_secs(1) * turn && elapsed < scale.duration {
                    let policy = Policy::COMPARED[turn as usize % Policy::COMPARED.len()];
                    disturbances.push(format!("{:.1} s: policy {}", elapsed.as_secs_f64(), policy.name()));
                    live.set_policy(SERVICE, policy)?;
                    turn += 1;
                }
                progress(elapsed.min(scale.duration), format!("{CONNECTIONS} connections, policy changes"));
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        };
        let disturbed = disturb();
        (check.join(), transfer.join(), disturbed)
    });
    disturbed?;
    let panicked = |_| "the load generator panicked".to_string();
    let checked = checked.map_err(panicked)???;
    let transferred = transferred.map_err(panicked)???;
    Ok((
        ConsistencyReport::new(&checked, disturbances),
        vec![BulkReport::new(Direction::Download, &transferred)],
    ))
}
