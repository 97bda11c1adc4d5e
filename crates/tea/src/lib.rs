//! `pointsman tea`: a switch that keeps a table in memory servers, all of them processes on this machine, under traffic. Entries change, frames
//! and servers are lost, and every packet is compared with what its entry was.
#![forbid(unsafe_code)]

mod app;
mod bed;
mod checker;
mod controller;
mod flags;
mod hosts;
mod load;
mod nftables;
mod outcome;
mod run;

pub use app::App;
pub use controller::bare_reads;
pub use hosts::{Hosts, INSIDE, OUTSIDE};
pub use outcome::{InFault, Outcome, Part};
pub use run::{Times, bare_echo, run as measure};

use pointsman_console::folder::Folder;
use pointsman_console::results;
use pointsman_console::say;
use pointsman_lab::{ensure_privileges, raise_open_file_limit};
use pointsman_remote::Scratchpads;
use serde_json::json;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Where packets wait for their entries, in the memory of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Place {
    /// In scratchpads of a queue pair, used in turn: one WRITE and two READs for a look-up.
    Ring,
    /// In a row with the cells, as in the paper: one WRITE and one READ. Packets of a bucket share a scratchpad.
    Inline,
}

impl Place {
    /// Its name in the command line.
    fn name(self) -> &'static str {
        match self {
            Place::Ring => "ring",
            Place::Inline => "inline",
        }
    }

    /// READs of a look-up.
    fn reads(self) -> u64 {
        match self {
            Place::Ring => 2,
            Place::Inline => 1,
        }
    }

    /// As the table has it.
    fn scratchpads(self) -> Scratchpads {
        match self {
            Place::Ring => Scratchpads::Ring,
            Place::Inline => Scratchpads::Inline,
        }
    }
}

/// Where the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// In the memory of servers, by TEA.
    Servers,
    /// In the switch: the plain program.
    Switch,
    /// In the kernel, which is in the switch's place: nftables.
    Kernel,
    /// There is none: a bare echo.
    Nowhere,
}

/// Packets a second with `--fault congestion`, unless `--rate` is given.
const CONGESTED_RATE: u32 = 3000;
/// Entries, packets under way at a time, and one flow in so many has no entry, unless something else is asked for.
const ENTRIES: u32 = 20_000;
const WINDOW: u16 = 16;
const ABSENT: u32 = 8;

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// Nothing.
    None,
    /// The switch's link to the first memory server is cut, and later restored.
    Port,
    /// The first memory server stops, with its link up, and later continues.
    Hang,
    /// Memory servers lose one frame in 200, in each direction.
    Loss,
    /// The first memory server ends a queue pair, because the switch's requests there have a wrong key.
    Pair,
    /// Ordinary packets fill the link to the first memory server (only --app lb).
    Congestion,
}

impl Fault {
    /// For messages.
    fn what(self) -> &'static str {
        match self {
            Fault::None => "none",
            Fault::Port => "the first memory server has no link",
            Fault::Hang => "the first memory server hangs",
            Fault::Loss => "one frame in 200 is lost",
            Fault::Pair => "the first memory server ends a queue pair",
            Fault::Congestion => "ordinary packets fill the link to the first memory server",
        }
    }
}

/// How the table moves to other cells, under look-ups and changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Move {
    /// To twice as many cells in the same servers.
    Double,
    /// To a server more.
    Add,
    /// To a server less.
    Drain,
    /// The first server is lost permanently: to the others, with new replicas.
    Lose,
}

impl Move {
    /// For messages.
    fn what(self) -> &'static str {
        match self {
            Move::Double => "the table moves to twice as many cells",
            Move::Add => "the table moves to a memory server more",
            Move::Drain => "the table moves to a memory server less",
            Move::Lose => "the first memory server is gone, and the table moves to the others",
        }
    }
}

/// Run a program whose table is in the memory of servers, and check every packet.
///
/// Switch, memory servers and hosts run in network namespaces of this machine; the switch asks the servers by RDMA (RoCEv2).
#[derive(clap::Args)]
pub struct Args {
    /// The application in the switch.
    #[arg(long, value_enum)]
    app: App,
    /// The application with its table in the switch.
    #[arg(long)]
    plain: bool,
    /// The kernel in the switch's place: rules of nftables do what the application does (not with --app vpn, policy and balancer). Needs the program nft.
    #[arg(long, conflicts_with = "plain")]
    nftables: bool,
    /// Where packets wait for their entries, in the memory of servers.
    #[arg(long, value_enum, default_value = "ring")]
    layout: Place,
    /// Entries of the table.
    #[arg(long, value_name = "N", default_value_t = ENTRIES, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    entries: u32,
    /// Memory servers.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16))]
    servers: u16,
    /// Copies of the entries: with two, each server has a replica of another one's cells, which serves while that one is away.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    copies: u8,
    /// What fails.
    #[arg(long, value_enum, default_value = "none")]
    fault: Fault,
    /// How the table moves to other cells at the time of the fault.
    #[arg(long = "move", value_enum, value_name = "HOW")]
    moves: Option<Move>,
    /// Add, change and delete entries under look-ups.
    #[arg(long)]
    churn: bool,
    /// Memory servers do what InfiniBand allows and harms most.
    #[arg(long)]
    adverse: bool,
    /// A program that is run in the place of `pointsman memory`, with the same arguments, in the network namespace of each memory server.
    #[arg(long, value_name = "PROGRAM")]
    memory: Option<PathBuf>,
    /// Between switch and memory servers, RoCEv2 is over IPv6.
    #[arg(long)]
    ipv6: bool,
    /// The switch has a cache of so many entries, 1024 if no number is given.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1024", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    cache: Option<u32>,
    /// Popularity of the entries by Zipf's law with this exponent, from 0, for equally popular ones, to 2.
    #[arg(long, value_name = "EXPONENT", default_value_t = 0.0, value_parser = exponent)]
    zipf: f64,
    /// Packets under way at a time.
    #[arg(long, value_name = "N", default_value_t = WINDOW, value_parser = clap::value_parser!(u16).range(1..=1024))]
    window: u16,
    /// Packets a second, however many are under way.
    #[arg(long, value_name = "N", conflicts_with = "window", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    /// Record the frames of the switch's ports in this folder.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Less than a minute.
    #[arg(long)]
    quick: bool,
    /// Write the result as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// An argument is not an exponent of Zipf's law.
#[derive(Debug)]
struct ExponentError;

impl fmt::Display for ExponentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a number from 0 to 2")
    }
}

impl Error for ExponentError {}

fn exponent(text: &str) -> Result<f64, ExponentError> {
    text.parse().ok().filter(|n| (0.0..=2.0).contains(n)).ok_or(ExponentError)
}

/// What is run.
#[derive(Clone)]
pub struct Options {
    /// The application.
    pub app: App,
    /// Where its table is.
    pub held: Held,
    /// Where packets wait.
    pub layout: Place,
    /// Entries.
    pub entries: u32,
    /// Memory servers.
    pub servers: usize,
    /// Copies of the entries.
    pub copies: u32,
    /// What fails.
    pub fault: Fault,
    /// Whether entries change.
    pub churn: bool,
    /// How the table moves to other cells.
    pub moves: Option<Move>,
    /// Whether memory servers do what InfiniBand allows.
    pub adverse: bool,
    /// What is run as a memory server in the place of the program under test.
    pub memory: Option<PathBuf>,
    /// Whether the switch asks memory servers over IPv6.
    pub ipv6: bool,
    /// Entries of the switch's cache; 0: it has none.
    pub cache: u32,
    /// Exponent of the entries' popularity.
    pub zipf: f64,
    /// Packets under way at a time.
    pub window: usize,
    /// Packets a second, instead.
    pub rate: Option<u32>,
    /// Folder for captures.
    pub pcap: Option<PathBuf>,
    /// How long its parts take.
    pub times: Times,
    /// Flows without an entry.
    pub absent: u32,
    /// Bytes of each packet over IPv4 with its check sequence, from 64 on; otherwise most are short, and some long.
    pub size: Option<usize>,
    /// Random numbers.
    pub seed: u64,
    /// The program under test.
    pub binary: PathBuf,
    /// An empty folder for the files of the run.
    pub folder: PathBuf,
}

impl Options {
    /// An application on one server, every flow with an entry, 16 packets under way at a time. `binary`: the program under test; `folder`: an empty
    /// folder for the files of the run.
    pub fn new(app: App, binary: PathBuf, folder: PathBuf) -> Self {
        Options {
            app,
            held: Held::Servers,
            layout: Place::Ring,
            entries: ENTRIES,
            servers: 1,
            copies: 1,
            fault: Fault::None,
            churn: false,
            moves: None,
            adverse: false,
            memory: None,
            ipv6: false,
            cache: 0,
            zipf: 0.0,
            window: WINDOW.into(),
            rate: None,
            pcap: None,
            times: Times::of(true),
            absent: 0,
            size: None,
            seed: 1,
            binary,
            folder,
        }
    }
}

/// Runs the command. Exit code 1: a packet came with a wrong entry or wrong bytes, or a process ended.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    flags::check(&args)?;
    let is_full = args.fault == Fault::Congestion;
    // A replica is in another server.
    let copies = u32::from(args.copies).min(args.servers.into());
    results::check(&[(&args.json, "--json")])?;
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    ensure_privileges()?;
    let folder = Folder::new("tea")?;
    folder.remove_at_signals()?;
    raise_open_file_limit().map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    let asked = json!({
        "app": args.app.name(),
        "plain": args.plain,
        "nftables": args.nftables,
        "layout": args.layout.name(),
        "servers": args.servers,
        "copies": copies,
        "fault": format!("{:?}", args.fault).to_lowercase(),
        "churn": args.churn,
        "move": args.moves.map(|step| format!("{step:?}").to_lowercase()),
        "adverse": args.adverse,
        "ipv6": args.ipv6,
        "cache": args.cache.unwrap_or(0),
        "zipf": args.zipf,
    });
    let options = Options {
        app: args.app,
        held: args.held(),
        layout: args.layout,
        entries: args.entries,
        servers: args.servers.into(),
        copies,
        fault: args.fault,
        churn: args.churn,
        moves: args.moves,
        adverse: args.adverse,
        memory: args.memory,
        ipv6: args.ipv6,
        cache: args.cache.unwrap_or(0),
        zipf: args.zipf,
        window: args.window.into(),
        // As many packets as fit their window would fill the links, too.
        rate: args.rate.or(is_full.then_some(CONGESTED_RATE)),
        pcap: args.pcap,
        times: Times::of(args.quick),
        absent: args.entries / ABSENT + 1,
        size: None,
        seed: 1,
        binary: own,
        folder: folder.path().to_path_buf(),
    };
    let outcome = measure(&options, &mut |line| say(line))?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&outcome.json(asked)).map_err(|e| format!("--json: {e}"))?;
        results::write(path, "--json", text + "\n")?;
    }
    results::tell(&[(&args.json, "--json")], &outcome.text())?;
    Ok(if outcome.fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
