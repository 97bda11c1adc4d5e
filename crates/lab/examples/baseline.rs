//! The laboratory's own cost and results, without any switch program: the demo's rack with the kernel as its router,
//! and each kind of device separately, addressed directly.
//!
//!     cargo run --release -p pointsman-lab --example baseline -- /tmp/baseline.html

use pointsman_lab::device::{Device, DeviceConfig, Model, ServiceTime};
use pointsman_lab::load::{self, BulkConfig, ConsistencyConfig, Direction, LoadConfig, SourcePorts};
use pointsman_lab::rack::{Rack, RackSpec};
use pointsman_lab::ramp::{RampPlan, ramp};
use pointsman_lab::report::{
    BulkReport, ConsistencyReport, PolicyReport, RackSummary, Report, SCHEMA, html, table,
};
use pointsman_lab::wire::{Key, Keyring, Kind};
use pointsman_lab::{Result, ensure_privileges, raise_open_file_limit};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const SEED: u64 = 1;
const PORT: u16 = 7000;

fn main() {
    if let Err(e) = run() {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let how = ensure_privileges()?;
    raise_open_file_limit().map_err(|e| pointsman_lab::Error::os("limit of open files", e))?;
    let spec = RackSpec::demo();
    let mut rack = Rack::build(&spec)?;
    rack.route_by_kernel()?;
    let configs: Vec<DeviceConfig> = spec
        .devices()
        .map(|(name, d)| DeviceConfig {
            key: Key::derive(SEED, &name),
            name,
            addresses: vec![d.link.ipv4.into(), d.link.ipv6.into()],
            port: PORT,
            model: Model::Timed(ServiceTime::Exponential),
            service: Duration::from_millis(5),
            speed: d.speed,
            servers: 4,
            buffer: 200,
            seed: SEED,
            metrics: None,
        })
        .collect();
    let keys = Keyring::derive(SEED, configs.iter().map(|c| c.name.clone()))?;
    let mut devices = Vec::new();
    for config in &configs {
        devices.push(Device::start(&rack.host(&config.name)?.namespace, config.clone())?);
    }
    let client = &spec.clients[0];
    let mut ports = SourcePorts::new(client.ipv4_addresses(), 1024..=65535, Duration::from_secs(20))?;
    let client = rack.host("client")?.namespace.clone();

    println!("the generator alone: probes, which devices answer at once");
    let target = SocketAddr::new(configs[0].addresses[0], PORT);
    for rate in [1000.0, 2000.0, 5000.0, 10_000.0] {
        let config =
            LoadConfig { kind: Kind::Probe, ..LoadConfig::new(target, rate, Duration::from_secs(2), SEED) };
        let (before, start) = (cpu_seconds(), Instant::now());
        let result = client.enter(|| load::run(&config, &mut ports, &keys, |_| {}))??;
        let cpu = (cpu_seconds() - before) / start.elapsed().as_secs_f64();
        println!(
            "{rate:>7}/s: answered {} of {}, P50 {:?}, P99 {:?}, late by {:?} (P99), {:?} (max), \
             {:.0} % of a processor for client and device",
            result.answered,
            result.sent,
            result.latencies.percentile(50.0),
            result.latencies.percentile(99.0),
            result.lateness_p99,
            result.lateness_max,
            cpu * 100.0
        );
    }

    let mut policies = Vec::new();
    for (name, config) in [("cpu alone", &configs[0]), ("nic alone", &configs[1])] {
        let target = SocketAddr::new(config.addresses[0], PORT);
        let rates = [0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1].map(|l| l * config.capacity_rps()).to_vec();
        let plan = RampPlan::new(rates, Some(config.mean_service()));
        let found = ramp(&plan, |rate| {
            let config = LoadConfig::new(target, rate, Duration::from_secs(2), SEED);
            client.enter(|| load::run(&config, &mut ports, &keys, |_| {}))?
        })?;
        policies.push(PolicyReport::new(name, &found));
    }
    let consistency = ConsistencyConfig {
        interval: Duration::from_secs(2),
        ..ConsistencyConfig::new(target, target, 10_000, Duration::from_secs(8), SEED)
    };
    let stop = AtomicBool::new(false);
    let checked =
        client.enter(|| load::check_consistency(&consistency, &mut ports, &keys, &stop, |_| {}))??;
    if let Some(error) = &checked.first_error {
        println!("consistency: first error: {error}");
    }
    let mut bulk = Vec::new();
    for direction in [Direction::Download, Direction::Upload] {
        let config =
            BulkConfig { target, bytes: 100_000_000, direction, seed: SEED, stall: Duration::from_secs(10) };
        let result = client.enter(|| load::transfer(&config, &keys, |_| {}))??;
        bulk.push(BulkReport::new(direction, &result));
    }
    let report = Report {
        schema: SCHEMA,
        seed: SEED,
        rack: RackSummary::new(&spec, &configs)?,
        policies,
        consistency: ConsistencyReport::new(&checked, Vec::new()),
        bulk,
        setup: [("privileges".to_owned(), format!("{how:?}"))].into(),
        notes: rack.warnings.clone(),
    };
    print!("\n{}", table(&report));
    if let Some(file) = std::env::args().nth(1) {
        std::fs::write(&file, html(&report, "The laboratory without a switch program"))
            .map_err(|e| pointsman_lab::Error::os(format!("cannot write {file}"), e))?;
        println!("wrote {file}");
    }
    Ok(())
}

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // User and system time are fields 14 and 15, counted behind the name in parentheses, in ticks of 10 ms.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    [11, 12].iter().filter_map(|&i| fields.get(i)?.parse::<f64>().ok()).sum::<f64>() / 100.0
}
