//! `pointsman bench wire`: speed of the switch between real interfaces, in namespaces of this process.
//!
//! Packet rates are compared with a forwarder of the same ports without a program, TCP with a cable; all in turn and in
//! the same run, so that ratios are meaningful on any machine.

mod bed;
mod error;
mod forwarder;
mod packets;
pub mod peers;
mod report;
mod tcp;
mod text;

use bed::Bed;
use error::{ValueError, WireError};
use packets::{Generator, Lane};
use pointsman_console::results;
use pointsman_console::say;
use pointsman_console::signals::end_process;
use pointsman_lab::frames::LossRule;
use pointsman_lab::{ensure_privileges, pin_to_processor, raise_open_file_limit, unpin};
use pointsman_ports::Want;
use report::{Machine, PacketRun, Packets, Throughput, WireReport};
use serde::Serialize;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tcp::Served;

/// Which ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Ports {
    /// AF_XDP; needs root.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
    /// One after the other.
    Both,
}

impl Ports {
    fn kinds(self) -> &'static [Want] {
        match self {
            Self::AfXdp => &[Want::AfXdp],
            Self::AfPacket => &[Want::AfPacket],
            Self::Both => &[Want::AfPacket, Want::AfXdp],
        }
    }
}

/// The measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Packet rates and latencies.
    Packets,
    /// TCP throughput.
    Tcp,
}

/// Measure the switch between interfaces: packet rates without loss, latencies, TCP throughput.
#[derive(clap::Args)]
pub struct WireArgs {
    /// Ports of the switch.
    #[arg(long, value_enum, default_value_t = Ports::Both)]
    ports: Ports,
    /// Duration of each packet-rate probe and of each TCP run.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = parse_seconds)]
    seconds: f64,
    /// Runs of each measurement.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Number of flows; packets use them in turn.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    flows: u32,
    /// Frame size in bytes without the frame check sequence, 64 to 1514.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=1514))]
    frame: u16,
    /// Highest share of lost packets that still counts as loss-free.
    #[arg(long, value_name = "SHARE", default_value_t = 1e-5, value_parser = parse_share)]
    max_loss: f64,
    /// How the generator sends.
    #[arg(long, value_enum, default_value_t = Generator::Auto)]
    generator: Generator,
    /// Measure only this part.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Write the figures, with every run, as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show the log of switch and controller.
    #[arg(short, long)]
    verbose: bool,
}

/// Bounds of `--seconds`: load is bounded in time.
const SECONDS: std::ops::RangeInclusive<f64> = 0.01..=60.0;

fn parse_seconds(text: &str) -> Result<f64, ValueError> {
    match text.parse::<f64>() {
        Ok(seconds) if SECONDS.contains(&seconds) => Ok(seconds),
        _ => Err(ValueError::Seconds),
    }
}

fn parse_share(text: &str) -> Result<f64, ValueError> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(share),
        _ => Err(ValueError::Share),
    }
}

/// Runs the command.
pub fn run(args: WireArgs) -> Result<ExitCode, Box<dyn Error>> {
    results::check(&[(&args.json, "--json")])?;
    let privileges = ensure_privileges()?;
    end_process(|| {})?;
    raise_open_file_limit().map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    let mut machine = Machine::now(format!("{privileges:?}"));
    let mut skipped = Vec::new();
    let (mut rates, mut throughput) = (Vec::new(), Vec::new());
    let generator = args.generator.settle();
    if args.only != Some(Part::Tcp) {
        for kind in args.ports.kinds() {
            match measure_packets(&args, *kind, generator) {
                Ok(packets) => rates.push(packets),
                Err(e) => skipped.push(format!("packets, {}: {e}", kind.name())),
            }
        }
    }
    if args.only != Some(Part::Packets) {
        throughput = measure_tcp(&args, &mut skipped)?;
    }
    machine.ended();
    let report = WireReport {
        schema: "pointsman.bench.wire/1",
        machine,
        seconds: args.seconds,
        max_loss: args.max_loss,
        generator: generator.name().to_string(),
        packets: rates,
        throughput,
        skipped,
    };
    write_report(&args.json, &report.text(), &report)?;
    if report.packets.is_empty() && report.throughput.is_empty() {
        return Err("nothing could be measured".into());
    }
    Ok(ExitCode::SUCCESS)
}

/// The bare forwarder and the switch in turn. With two processors, one is reserved for them: the generator, and the
/// kernel on its behalf up to the forwarder's socket, uses the other.
fn measure_packets(args: &WireArgs, kind: Want, generator: Generator) -> Result<Packets, WireError> {
    let duration = Duration::from_secs_f64(args.seconds);
    let length = usize::from(args.frame);
    let two = std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2);
    // Threads inherit it.
    let _ = two && pin_to_processor(1);
    let beds = Bed::bare(kind).and_then(|bare| Ok([bare, Bed::balancer(kind, true, args.verbose)?]));
    let _ = two && pin_to_processor(0);
    let [bare, switch] = beds?;
    let mut lanes =
        [Lane::new(bare, generator, args.flows, length)?, Lane::new(switch, generator, args.flows, length)?];
    for lane in &mut lanes {
        lane.introduce()?;
    }
    let rule = LossRule { max_loss: args.max_loss, ..LossRule::default() };
    let mut runs = Vec::new();
    for number in 1..=args.runs {
        let [bare, switch] = &mut lanes;
        say(&format!("packets, {}, run {number} of {}: bare forwarder, then switch", kind.name(), args.runs));
        let bare = bare.run(&rule, duration)?;
        let switch = switch.run(&rule, duration)?;
        runs.push(PacketRun { bare, switch });
    }
    let _ = two && unpin();
    Ok(Packets::of(kind.name(), "balancer", args.flows, length, runs))
}

fn measure_tcp(args: &WireArgs, skipped: &mut Vec<String>) -> Result<Vec<Throughput>, WireError> {
    let mut beds = vec![Served::start(Bed::direct(true)?)?, Served::start(Bed::direct(false)?)?];
    for kind in args.ports.kinds() {
        match Bed::balancer(*kind, false, args.verbose) {
            Ok(bed) => beds.push(Served::start(bed)?),
            Err(e) => skipped.push(format!("TCP, {}: {e}", kind.name())),
        }
    }
    let duration = Duration::from_secs_f64(args.seconds);
    tcp::measure(&beds, &[1, 32], usize::from(args.runs), duration, say)
}

/// Prints a report's text, and writes it as JSON if a file is named.
fn write_report(json: &Option<PathBuf>, text: &str, report: &impl Serialize) -> Result<(), Box<dyn Error>> {
    let files = [(json, "--json")];
    results::tell(&files, text)?;
    if let Some(path) = json {
        results::write(path, "--json", serde_json::to_string_pretty(report)? + "\n")?;
        results::tell(&files, &format!("figures: {}\n", path.display()))?;
    }
    Ok(())
}
