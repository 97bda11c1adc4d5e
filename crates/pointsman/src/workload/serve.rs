//! `pointsman workload serve`: a device that runs an application.

use super::seconds;
use crate::value::Expected;
use pointsman_console::print;
use pointsman_lab::Namespace;
use pointsman_lab::compute::{Application, Computation, Work};
use pointsman_lab::device::{Device, DeviceConfig, Model, release_cpu_groups};
use pointsman_lab::wire::Key;
use serde_json::json;
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Flags of the server.
#[derive(clap::Args)]
pub struct Args {
    /// Application: ad (anomaly detection), bm25, knn, vgg16, dns, gflop.
    #[arg(required_unless_present = "program")]
    application: Option<Application>,
    /// Instead of an application: a shell command, started once for each worker, that answers a request for each line it reads
    /// (docs/workload.md). It may use an accelerator.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["application", "size", "cores"])]
    program: Option<String>,
    /// Address and port, for UDP and TCP. Further addresses, such as an IPv6 one, must use the same port.
    #[arg(long, value_name = "ADDRESS:PORT,...", value_delimiter = ',', default_value = "127.0.0.1:8000")]
    listen: Vec<SocketAddr>,
    /// Device name, included in every answer and used in the load generator's --devices.
    #[arg(long, default_value = "device")]
    name: String,
    /// Seed of data, weights and the keys that sign answers; must match the load generator's.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Request size: documents (bm25), images (knn), an image's side (vgg16), names (dns), MFLOP (gflop), flows (ad)
    /// [default: as in the papers].
    #[arg(long, value_name = "N")]
    size: Option<u32>,
    /// Concurrent requests [default: one per processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    workers: Option<u16>,
    /// Queue capacity in requests; excess requests are dropped.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    buffer: u32,
    /// CPU limit for all workers together, in processors, through a cgroup; needs permission to create one.
    #[arg(long, value_name = "N", value_parser = cores)]
    cores: Option<f64>,
    /// Serve counters over HTTP in Prometheus' text format at this address, as a source for agents (docs/agents.md).
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Stop after this many seconds; limited by default so that a forgotten server does not run forever.
    #[arg(long = "for", value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    duration: f64,
    /// Stop after this many answers.
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
}

fn cores(text: &str) -> Result<f64, Expected> {
    match text.parse::<f64>() {
        Ok(c) if (0.001..=1024.0).contains(&c) => Ok(c),
        _ => Err(Expected("a number of processors, 0.001 to 1024")),
    }
}

/// What computes, ready, and its size. A program has none.
fn application(args: &Args, workers: usize) -> Result<(Computation, Option<u32>), Box<dyn Error>> {
    if let Some(program) = &args.program {
        return Ok((Computation::program(program, workers)?, None));
    }
    let application = args.application.ok_or("an application or --program is needed")?;
    let mut work = Work::new(application, args.seed);
    work.size = args.size.unwrap_or(work.size);
    Ok((Computation::new(work)?, Some(work.size)))
}

/// The flag that a signal sets.
fn stopped_by_signal() -> Result<Arc<AtomicBool>, Box<dyn Error>> {
    let stopped = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot wait for signals: {e}"))?;
    let caught = {
        let _guard = runtime.enter();
        pointsman_console::signals::stop()
    };
    let flag = stopped.clone();
    std::thread::spawn(move || {
        runtime.block_on(caught);
        flag.store(true, Relaxed);
    });
    Ok(stopped)
}

/// Serves until time, count or a signal ends it.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let text = |e: pointsman_lab::Error| e.to_string();
    let port = args.listen.first().map_or(0, SocketAddr::port);
    if args.listen.iter().any(|a| a.port() != port) {
        return Err("--listen: all addresses must have the same port".into());
    }
    let listen: Vec<String> = args.listen.iter().map(SocketAddr::to_string).collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = args.workers.map_or(processors, usize::from);
    let (application, size) = application(args, workers)?;
    let application = Arc::new(application);
    let config = DeviceConfig {
        name: args.name.clone(),
        key: Key::derive(args.seed, &args.name),
        addresses: args.listen.iter().map(SocketAddr::ip).collect(),
        port,
        model: Model::Compute { application: application.clone(), quota: args.cores },
        // Unused: requests take their real computing time.
        service: Duration::from_millis(1),
        speed: 1.0,
        servers: workers,
        buffer: args.buffer as usize,
        seed: args.seed,
        metrics: args.metrics,
    };
    let stopped = stopped_by_signal()?;
    let device = Device::start(&Namespace::here()?, config)?;
    // Whoever started this waits for the line: the data is ready, the sockets are open.
    let what = match (&args.program, size) {
        (Some(program), _) => format!("`{program}`"),
        (None, size) => format!("{} (size {})", application.name(), size.unwrap_or_default()),
    };
    print(&format!("serving {what} on {} as {}\n", listen.join(" and "), args.name))?;
    let (began, lasts) = (Instant::now(), Duration::from_secs_f64(args.duration));
    while !stopped.load(Relaxed)
        && began.elapsed() < lasts
        && args.requests.is_none_or(|n| device.stats().read().answers < n)
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    let c = device.stats().read();
    application.close();
    let ended = device.stop().map_err(text);
    if args.cores.is_some() {
        release_cpu_groups();
    }
    ended?;
    let mean_ms = c.busy.as_secs_f64() * 1e3 / c.answers.max(1) as f64;
    let counts = json!({
        "application": application.name(), "size": size, "requests": c.requests, "answers": c.answers,
        "overflowed": c.overflowed, "failed": c.failed, "malformed": c.malformed, "send_failures": c.send_failures,
        "service_mean_ms": mean_ms,
    });
    print(&format!("{counts}\n"))?;
    Ok(ExitCode::SUCCESS)
}
