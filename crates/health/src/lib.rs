//! `pointsman health`, with its flags: announces virtual addresses through BIRD while a switch is healthy, and withdraws them otherwise.
//!
//! [`watch::Watch`] decides from the results of checks; [`bird`] is BIRD's control protocol; the rest are timers and sockets.

#![forbid(unsafe_code)]

pub mod bird;
mod check;
mod metrics;
pub mod watch;

use bird::{Done, Name};
use check::{Check, CheckError};
use clap::builder::RangedU64ValueParser;
use metrics::Figures;
use pointsman_console::signals;
use pointsman_node::listen::{address, listen};
use pointsman_node::log::{self, Level, Log};
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use watch::{Settings, Watch};

/// How long BIRD may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Announce virtual addresses while a switch is healthy: enables protocols of BIRD, and disables them when a check fails.
///
/// The addresses are in bird.conf, in protocols that are `disabled` at its start; examples/bird has complete files. They are withdrawn at once
/// when this command ends by SIGINT or SIGTERM.
#[derive(clap::Args)]
pub struct Args {
    /// What must answer: http://HOST:PORT/PATH with a status from 200 to 399, such as a switch's /readyz, or tcp://HOST:PORT. May be repeated.
    #[arg(long, value_name = "URL", required_unless_present = "withdraw")]
    check: Vec<Check>,
    /// What must answer, too, before the addresses are announced, such as the controller's /readyz: it has filled the switch's tables. Its later
    /// silence withdraws nothing. May be repeated.
    #[arg(long, value_name = "URL")]
    first: Vec<Check>,
    /// Protocol in bird.conf to enable and disable. May be repeated, for instance for IPv6.
    #[arg(long, value_name = "NAME", required = true)]
    protocol: Vec<Name>,
    /// BIRD's control socket.
    #[arg(long, value_name = "SOCKET", default_value = "/run/bird/bird.ctl")]
    bird: PathBuf,
    /// Milliseconds from one round of checks to the next.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = RangedU64ValueParser::<u64>::new().range(10..=600_000))]
    interval_ms: u64,
    /// Milliseconds within which a check must be answered.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = RangedU64ValueParser::<u64>::new().range(10..=600_000))]
    timeout_ms: u64,
    /// Announce after this many rounds in a row in which all checks passed.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rise: u32,
    /// Withdraw after this many rounds in a row in which a check failed.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    fall: u32,
    /// Withdraw while this file exists: for work on the switch.
    #[arg(long, value_name = "FILE")]
    drain: Option<PathBuf>,
    /// Serve metrics, /healthz and /readyz on this address.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    metrics: Option<SocketAddr>,
    /// Only withdraw, then exit: for service managers, after a crash.
    #[arg(long)]
    withdraw: bool,
    #[command(flatten)]
    log: log::Flags,
}

/// The protocols of a BIRD, and what it said about them last.
struct Speaker {
    socket: PathBuf,
    names: Vec<Name>,
    /// By protocol: the error, so that it is reported once.
    errors: Vec<Option<String>>,
    /// What all protocols were set to last.
    set: Option<bool>,
    log: Log,
}

impl Speaker {
    fn new(args: &Args, log: Log) -> Self {
        let names = args.protocol.clone();
        Speaker { socket: args.bird.clone(), errors: vec![None; names.len()], names, set: None, log }
    }

    /// Enables or disables all protocols. Everything that is news is said.
    async fn set(&mut self, enable: bool) {
        let news = self.set.replace(enable) != Some(enable);
        for (name, last) in self.names.iter().zip(&mut self.errors) {
            match bird::set(&self.socket, name, enable, PATIENCE).await {
                Ok(done) => {
                    let state = if enable { "enabled" } else { "disabled" };
                    if done == Done::Changed && !news && last.is_none() {
                        self.log.warn(&format!("BIRD changed `{name}` by itself: {state} again"));
                    } else if last.is_some() {
                        self.log.info(&format!("BIRD answers: `{name}` is {state}"));
                    }
                    *last = None;
                }
                Err(e) => {
                    let text = e.to_string();
                    if last.as_ref() != Some(&text) {
                        self.log.warn(&text);
                    }
                    *last = Some(text);
                }
            }
        }
    }

    /// The first error, if there is one.
    fn error(&self) -> Option<&String> {
        self.errors.iter().flatten().next()
    }
}

/// Runs the command.
///
/// # Errors
/// An address for metrics cannot be used. Checks that fail, and a BIRD out of reach, are no reason to end.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let log = args.log.open("health");
    log.end(serve(&args, &log))
}

fn serve(args: &Args, log: &Log) -> Result<ExitCode, Box<dyn Error>> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio.block_on(async move {
        let mut speaker = Speaker::new(args, log.clone());
        if !args.withdraw {
            watch(args, &mut speaker).await?;
        }
        speaker.set(false).await;
        match speaker.error() {
            None => log.info("ends: withdrawn"),
            Some(_) => log.warn("ends: BIRD does not answer, so nothing could be withdrawn; stop BIRD to withdraw the addresses"),
        }
        Ok(if speaker.error().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    })
}

/// Checks until a signal ends the process.
async fn watch(args: &Args, speaker: &mut Speaker) -> Result<(), Box<dyn Error>> {
    let stop = signals::stop();
    tokio::pin!(stop);
    let figures = Arc::new(Mutex::new(Figures::new(&args.check, &args.protocol)));
    if let Some(at) = args.metrics {
        let (listener, address) = listen(at, "--metrics").await?;
        speaker.log.info(&format!("metrics on http://{address}/metrics"));
        tokio::spawn(metrics::serve(listener, figures.clone()));
    }
    let timeout = Duration::from_millis(args.timeout_ms);
    let mut watch = Watch::new(Settings { rise: args.rise, fall: args.fall });
    let mut ticks = tokio::time::interval(Duration::from_millis(args.interval_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = &mut stop => {
                return Ok(());
            }
            _ = ticks.tick() => {}
        }
        let (results, first) =
            tokio::join!(check::all(&args.check, timeout), check::all(&args.first, timeout));
        let drained = args.drain.as_ref().is_some_and(|file| file.exists());
        let failures: Vec<String> =
            results.iter().filter_map(|r| r.as_ref().err().map(CheckError::to_string)).collect();
        let is_news = watch.round(&failures, first.iter().all(Result::is_ok), drained);
        if let Some(announce) = watch.announce() {
            speaker.set(announce).await;
        }
        if is_news {
            let done = speaker.error().is_none();
            let level = if failures.is_empty() && done { Level::Info } else { Level::Warn };
            speaker.log.line(level, &watch.verdict().text(done), &[]);
        }
        let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.round(&results, watch.announce(), drained, &speaker.errors);
    }
}
