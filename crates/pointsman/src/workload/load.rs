//! `pointsman workload load`: an open-loop load generator.

use super::seconds;
use crate::value::Expected;
use pointsman_console::results;
use pointsman_lab::load::{self, LoadConfig, LoadResult, SourcePorts};
use pointsman_lab::raise_open_file_limit;
use pointsman_lab::wire::Keyring;
use serde_json::{Value, json};
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Flags of the load generator.
#[derive(clap::Args)]
pub struct Args {
    /// Destination: a server's address and port, or a service's VIP.
    #[arg(value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000")]
    target: SocketAddr,
    /// Requests per second.
    #[arg(long, value_name = "N", default_value = "10", value_parser = rate)]
    rate: f64,
    /// Sending time in seconds.
    #[arg(long = "for", value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    duration: f64,
    /// Maximum number of requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Arrival process.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    arrivals: Arrivals,
    /// Seconds after which an unanswered request counts as lost.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: f64,
    /// Names of the devices that may answer.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "device")]
    devices: Vec<String>,
    /// Seed of the schedule and of the keys that sign answers; must match the servers'.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Request size in bytes.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(32..=9000))]
    payload: u16,
    /// Write the result as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Arrivals {
    /// Poisson arrivals, as from independent users.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Poisson; a fifth of the time at twice the mean rate, in bursts of 0.2 s on average.
    Bursty,
}

fn rate(text: &str) -> Result<f64, Expected> {
    match text.parse::<f64>() {
        Ok(r) if r > 0.0 && r <= 1e6 => Ok(r),
        _ => Err(Expected("requests per second above 0, at most 1000000")),
    }
}

/// No packet can be sent to this address.
#[derive(Debug)]
struct NoRoute(SocketAddr, io::Error);

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no route to {}: {}", self.0, self.1)
    }
}

impl Error for NoRoute {}

/// The address that packets to the target leave with.
fn source(target: SocketAddr) -> Result<IpAddr, NoRoute> {
    let any: SocketAddr = if target.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let find = || -> io::Result<IpAddr> {
        let socket = UdpSocket::bind(any)?;
        // Sends nothing: it only looks up the route.
        socket.connect(target)?;
        Ok(socket.local_addr()?.ip())
    };
    find().map_err(|e| NoRoute(target, e))
}

fn json_of(args: &Args, r: &LoadResult) -> Value {
    let ms = |percent: f64| r.latencies.percentile(percent).as_secs_f64() * 1e3;
    json!({
        "target": args.target.to_string(), "offered_per_s": r.offered_rps, "arrivals": format!("{:?}", args.arrivals).to_lowercase(),
        "seed": args.seed, "sent": r.sent, "answered": r.answered, "lost": r.lost, "not_sent": r.not_sent,
        "answered_per_s": r.answered_rps(), "p50_ms": ms(50.0), "p95_ms": ms(95.0), "p99_ms": ms(99.0), "max_ms": ms(100.0),
        "answered_by": r.answered_by, "bad_signatures": r.bad_signatures, "wrong_source": r.wrong_source,
        "lateness_p99_ms": r.lateness_p99.as_secs_f64() * 1e3, "schedule_kept": r.schedule_kept,
        "timeout_ms": args.timeout * 1e3, "duration_s": r.duration.as_secs_f64(), "first_error": r.first_error,
    })
}

/// Sends, waits, prints.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let files = [(&args.json, "--json")];
    results::check(&files)?;
    let keys = Keyring::derive(args.seed, args.devices.iter().cloned())?;
    raise_open_file_limit().map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    let mut ports = SourcePorts::new(vec![source(args.target)?], 20_000..=60_999, Duration::from_secs(1))?;
    let most = args.requests.map_or(f64::INFINITY, |n| n as f64 / args.rate);
    let config = LoadConfig {
        arrivals: match args.arrivals {
            Arrivals::Poisson => load::Arrivals::Poisson,
            Arrivals::Constant => load::Arrivals::Constant,
            Arrivals::Bursty => load::Arrivals::Bursty,
        },
        timeout: Duration::from_secs_f64(args.timeout),
        payload: usize::from(args.payload),
        ..LoadConfig::new(args.target, args.rate, Duration::from_secs_f64(args.duration.min(most)), args.seed)
    };
    let result = load::run(&config, &mut ports, &keys, |_| {})?;
    let found = json_of(args, &result);
    let at = |percent: f64| result.latencies.percentile(percent).as_secs_f64() * 1e3;
    let told = format!(
        "{} of {} requests answered, {} lost; {:.1} answered per second; P50 {:.3} ms, P95 {:.3} ms, P99 {:.3} ms (lost \
         ones count with {} s)\n",
        result.answered,
        result.sent,
        result.lost,
        result.answered_rps(),
        at(50.0),
        at(95.0),
        at(99.0),
        args.timeout,
    );
    results::tell(&files, &told)?;
    for (name, n) in &result.answered_by {
        results::tell(&files, &format!("  {name}: {n}\n"))?;
    }
    if !result.schedule_kept {
        pointsman_console::say(
            "requests were sent late: this machine cannot sustain that rate, so latencies include its own delays",
        );
    }
    if let Some(e) = &result.first_error {
        pointsman_console::say(&format!("{} requests could not be sent: {e}", result.not_sent));
    }
    if let Some(path) = &args.json {
        results::write(path, "--json", format!("{found}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
