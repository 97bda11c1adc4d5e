//! `pointsman p4 trace`: traces a packet, step by step.

use crate::tools::dump::{self, Target, Tls};
use crate::tools::follow;
use clap::Args as ClapArgs;
use pointsman_compile::sources::{Sources, parse_define, read_source};
use pointsman_compile::{compile, compile_file, rendered};
use pointsman_console::print;
use pointsman_explain::filter::{Filter, FilterError};
use pointsman_explain::{Describer, show};
use pointsman_frontend::Define;
use pointsman_ports::pcap::{ReadError, Reader};
use pointsman_stf::{Rig, parse, run as run_lines};
use pointsman_v1model::SwitchConfig;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Trace a packet through a program, step by step.
///
/// Shows parser states and extracted headers, table look-ups with keys and entries, actions, every change of a header or
/// variable, externs, queues, copies and outgoing packets, each with its source location. Without --packet or --pcap the
/// `packet` statements of the entries file are traced. With --live the program and its state are those of a running switch, which sends and
/// changes nothing.
#[derive(ClapArgs)]
pub struct Args {
    /// The program's main file.
    #[arg(required_unless_present = "live")]
    file: Option<PathBuf>,
    /// Take the state of the running switch whose P4Runtime server has this address, and its program unless a file is given.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "entries")]
    live: Option<String>,
    /// Device id of the running switch.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "live")]
    device_id: u64,
    #[command(flatten)]
    tls: Tls,
    /// Follow packets that pass through the running switch instead, those for which the words of FILTER are true (docs/trace.md): port=1,
    /// dst=10.0.0.0/24, proto=tcp, dport=80 and so on, or `all`. Ends after count=N packets (10), or with Ctrl-C.
    #[arg(long, value_name = "FILTER", requires = "live", conflicts_with_all = ["file", "packet", "pcap"], value_parser = followed)]
    follow: Option<String>,
    /// Entries, groups and so on, as STF statements (`add`, `setdefault`, `mc_mgrp_create` ...). A packet test also works;
    /// its expectations are not checked.
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,
    /// The packet, in hexadecimal digits. Repeatable.
    #[arg(long, value_name = "HEX")]
    packet: Vec<String>,
    /// Read packets from a capture (pcap or pcapng).
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Ingress port of the packets.
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u32,
    /// Port of the control plane.
    #[arg(long, value_name = "N")]
    cpu_port: Option<u32>,
    /// Print JSON instead of text (docs/trace.md).
    #[arg(long)]
    json: bool,
    /// Also show writes that change nothing (JSON always includes them).
    #[arg(long)]
    all: bool,
    /// Folder to search for included files. Repeatable.
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro to define.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    define: Vec<Define>,
}

/// How the program of a switch is called in locations if its text does not name its files.
const OF_SWITCH: &str = "p4_device_config";

/// The trace of a larger capture would be unreadable.
const MAX_PACKETS: usize = 10_000;

/// Traces.
///
/// # Errors
/// The program, the entries or the packets cannot be read or used.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    if let (Some(filter), Some(address)) = (&args.follow, &args.live) {
        let switch = Target { address, device_id: args.device_id, tls: &args.tls };
        return follow::run(&switch, filter, args.json, args.all);
    }
    let sources = Sources { include_dirs: args.include.clone() };
    let live = args.live.as_ref().map(|address| {
        let switch = Target { address, device_id: args.device_id, tls: &args.tls };
        dump::live(&switch, &sources)
    });
    let live = live.transpose()?;
    let (name, compiled) = match (&args.file, &live) {
        (Some(file), _) => (file.display().to_string(), compile_file(file, &sources, &args.define)?.0),
        (None, Some((source, _))) => {
            let text = std::str::from_utf8(source)?;
            let compiled = compile(OF_SWITCH, text, &sources, &args.define);
            let compiled = compiled.map_err(|failure| rendered(&failure))?;
            let marker = compiled.source_map.files.first().and_then(|file| file.markers.first());
            (marker.map_or(OF_SWITCH, |marker| &marker.path).to_string(), compiled)
        }
        (None, None) => return Err("give a program, or a running switch with --live".into()),
    };
    let config = SwitchConfig { cpu_port: args.cpu_port, ..SwitchConfig::default() };
    let mut rig = Rig::new(compiled.program.into(), config)?;
    let packets = packets(&args)?;
    let follow_entries = args.packet.is_empty() && args.pcap.is_none();
    if let Some(path) = &args.entries {
        let in_file = |e| format!("{}: {e}", path.display());
        let lines = parse(&read_source(path)?).map_err(in_file)?;
        rig.switch.set_tracing(follow_entries);
        run_lines(&mut rig, &lines).map_err(in_file)?;
    }
    if let Some((_, state)) = &live {
        let in_state = |e| format!("the state of the switch does not go with the program: {e}");
        run_lines(&mut rig, &parse(state).map_err(in_state)?).map_err(in_state)?;
    }
    rig.switch.set_tracing(true);
    for packet in &packets {
        rig.send(args.port, packet);
        rig.wait_ms(1);
    }
    let steps = rig.switch.take_trace();
    if steps.is_empty() {
        return Err(
            "no packet to trace: give one with --packet or --pcap, or `packet` statements in --entries"
                .into(),
        );
    }
    let describer = Describer { program: rig.program(), map: &compiled.source_map, statements: true };
    let text = match args.json {
        true => show::json(&name, &describer, &steps),
        false => show::text(&describer, &steps, args.all),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The argument of `--follow`, if it can be read.
fn followed(text: &str) -> Result<String, FilterError> {
    Filter::parse(text).map(|_| text.to_string())
}

/// Why there are no packets to trace.
#[derive(Debug)]
enum PacketsError {
    /// The text is not bytes.
    Digits(String),
    /// The capture cannot be read.
    Capture(PathBuf, ReadError),
    /// The capture has too many.
    Many(PathBuf),
}

impl fmt::Display for PacketsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketsError::Digits(text) => {
                write!(f, "--packet {text}: write an even number of hexadecimal digits")
            }
            PacketsError::Capture(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            PacketsError::Many(path) => write!(
                f,
                "cannot read {}: it has more than {MAX_PACKETS} packets: extract those to trace",
                path.display()
            ),
        }
    }
}

impl Error for PacketsError {}

fn packets(args: &Args) -> Result<Vec<Vec<u8>>, PacketsError> {
    let mut all = Vec::new();
    for text in &args.packet {
        all.push(bytes(text).ok_or_else(|| PacketsError::Digits(text.clone()))?);
    }
    if let Some(path) = &args.pcap {
        captured(path, &mut all)?;
    }
    Ok(all)
}

/// Hexadecimal digits, with or without `0x`, blanks and colons.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let text = text.strip_prefix("0x").unwrap_or(text);
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|c| !c.is_whitespace() && *c != ':')
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect();
    let digits = digits.filter(|d| d.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|p| p.iter().fold(0, |v, d| v << 4 | d)).collect())
}

fn captured(path: &Path, all: &mut Vec<Vec<u8>>) -> Result<(), PacketsError> {
    let unreadable = |e| PacketsError::Capture(path.to_path_buf(), e);
    let mut reader = Reader::open(path).map_err(unreadable)?;
    let mut frame = Vec::new();
    while reader.read(&mut frame).map_err(unreadable)?.is_some() {
        if all.len() == MAX_PACKETS {
            return Err(PacketsError::Many(path.to_path_buf()));
        }
        all.push(frame.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn packets_as_text() {
        assert_eq!(bytes("0x0a 0B:0c"), Some(vec![10, 11, 12]));
        assert_eq!(bytes(""), Some(vec![]));
        assert_eq!((bytes("abc"), bytes("zz")), (None, None));
    }
}
