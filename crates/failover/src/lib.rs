//! `pointsman failover`: two switches and a state store as real processes on this machine, one of which fails while connections pass
//! through. What the connections notice is measured, and what packets show is checked ([`pointsman_history`]).
#![forbid(unsafe_code)]

mod app;
mod balancer;
mod bed;
mod etcd;
mod outcome;
mod probes;
mod run;
mod stores;
mod stream;

pub use app::App;
pub use outcome::{Connections, Outcome};
pub use run::{Load, Moments, Passed, Scale, measure, round_trips, throughput};
pub use stream::Arrivals;

use clap::ValueEnum;
use pointsman_console::folder::Folder;
use pointsman_console::results;
use pointsman_console::say;
use pointsman_lab::process::installed;
use pointsman_lab::{ensure_privileges, raise_open_file_limit};
use serde_json::json;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// Nothing.
    None,
    /// The first switch is killed, and later started again.
    Switch,
    /// The first switch loses its links to client and server, and keeps that to the store.
    Link,
    /// The first switch stops for longer than a lease, with its links, and then continues.
    Pause,
    /// The first switch loses its link to the store; packets take the second one when its leases have ended.
    Partition,
    /// The store is killed, and started again with its files; of a chain one node, which later starts again without data.
    Store,
}

impl Fault {
    /// For messages.
    fn what(self) -> &'static str {
        match self {
            Fault::None => "none",
            Fault::Switch => "the first switch is killed",
            Fault::Link => "the first switch has no links to client and server",
            Fault::Pause => "the first switch is paused",
            Fault::Partition => "the first switch cannot reach the store",
            Fault::Store => "the store, or a node of it, was killed",
        }
    }
}

/// How the state outlives the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Replicate {
    /// One store, with files.
    #[default]
    Local,
    /// A chain of three nodes, in memory.
    Chain,
    /// Etcd, with three nodes; two stores, of which one serves.
    Etcd,
}

/// A process of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Node {
    /// The first one of a chain, which takes requests; with --replicate etcd the store that serves.
    #[default]
    Head,
    /// The one in between.
    Middle,
    /// The last one, which answers.
    Tail,
    /// A node of etcd instead (with --etcd, or --replicate etcd).
    Etcd,
    /// The store that serves is not killed, but stopped for longer than a lease (with --replicate etcd).
    Paused,
}

/// What a lease holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Lease {
    /// One key.
    #[default]
    Flow,
    /// All keys of a switch.
    Session,
    /// One key, which several switches may read at the same time.
    Shared,
}

/// Let a switch, a link or the store of a protected program fail, and check the connections through it.
///
/// Client, server, two switches and the store run in network namespaces of this machine. Hosts use the second switch while the first has no
/// carrier.
#[derive(clap::Args)]
pub struct Args {
    /// The application in the switches.
    #[arg(long, value_enum)]
    app: App,
    /// What fails.
    #[arg(long, value_enum)]
    fault: Fault,
    /// The application without RedPlane.
    #[arg(long)]
    plain: bool,
    /// Length of a lease.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(20..=60_000))]
    lease_ms: u32,
    /// What a lease holds: the key of a flow, or all keys of a switch [default: flow].
    #[arg(long, value_enum)]
    lease: Option<Lease>,
    /// How the state outlives the store.
    #[arg(long, value_enum, default_value_t)]
    replicate: Replicate,
    /// Which process `--fault store` kills.
    #[arg(long, value_enum)]
    node: Option<Node>,
    /// The nodes of the chain agree on views in etcd (three nodes of Debian's etcd-server, started here) instead of a file.
    #[arg(long)]
    etcd: bool,
    /// Messages between switches and store are sent over IPv6.
    #[arg(long)]
    ipv6: bool,
    /// Record the frames of the switches' ports in this folder.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Write what the packets of `counter`, `gateway` or `kvstore` showed, for `pointsman history check`.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Less than a minute.
    #[arg(long)]
    quick: bool,
    /// Write the result as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is run.
pub struct Options {
    /// The application.
    pub app: App,
    /// What fails.
    pub fault: Fault,
    /// Without RedPlane.
    pub plain: bool,
    /// Length of a lease.
    pub lease_ms: u32,
    /// What a lease holds.
    pub lease: Lease,
    /// How the state outlives the store.
    pub replicate: Replicate,
    /// One store keeps the state in files, too.
    pub durable: bool,
    /// Stores without replication, each with a part of the keys.
    pub shards: u16,
    /// Which node of a chain fails.
    pub node: Node,
    /// The program of etcd, if views or the state are in it.
    pub etcd: Option<String>,
    /// Messages are sent over IPv6.
    pub ipv6: bool,
    /// Folder for captures.
    pub pcap: Option<PathBuf>,
    /// Load and times of the run.
    pub scale: Scale,
    /// Where the history is written.
    pub history: Option<PathBuf>,
    /// The program under test.
    pub binary: PathBuf,
    /// The program that serves connections.
    pub own: PathBuf,
    /// An empty folder for the files of the run.
    pub folder: PathBuf,
}

impl Options {
    /// An application and a fault, with the defaults of the command. `own`: this program; `folder`: an empty one for the files of the run.
    pub fn new(app: App, fault: Fault, own: &Path, folder: &Path) -> Self {
        let lease_ms = 1000;
        Options {
            app,
            fault,
            plain: false,
            lease_ms,
            lease: Lease::default(),
            replicate: Replicate::default(),
            durable: true,
            shards: 1,
            node: Node::default(),
            etcd: None,
            ipv6: false,
            pcap: None,
            scale: Scale::new(app, lease_ms, false),
            history: None,
            binary: own.into(),
            own: own.into(),
            folder: folder.into(),
        }
    }
}

/// Exit code of bad input.
const BAD_INPUT: u8 = 2;

/// Why the application cannot have leases of a kind.
#[derive(Debug)]
enum LeaseError {
    /// It runs without RedPlane.
    Plain,
    /// The keys of this one are fixed.
    Fixed(App),
    /// Only others have such leases.
    Others(Lease),
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaseError::Plain => {
                f.write_str("--lease: the application without RedPlane has no leases; omit --plain")
            }
            LeaseError::Fixed(app) => write!(
                f,
                "--lease: the store's keys of `{}` are fixed, and have no leases; omit --lease",
                app.name()
            ),
            LeaseError::Others(lease) => {
                let able = App::value_variants().iter().filter(|app| app.leases().contains(lease));
                let able: Vec<String> = able.map(|app| format!("`{}`", app.name())).collect();
                let able = able.join(" and ");
                write!(f, "--lease: only {able} can have such leases; give one of these to --app")
            }
        }
    }
}

impl Error for LeaseError {}

/// Checks that the application can have leases of this kind.
fn check_lease(args: &Args, lease: Lease) -> Result<(), LeaseError> {
    match args.app.leases() {
        all if all.contains(&lease) && args.plain && lease != Lease::Flow => Err(LeaseError::Plain),
        all if all.contains(&lease) => Ok(()),
        [] => Err(LeaseError::Fixed(args.app)),
        _ => Err(LeaseError::Others(lease)),
    }
}

/// Checks the flags; returns the program `etcd` if one is needed.
fn checked(args: &Args) -> Result<Option<String>, Box<dyn Error>> {
    if args.history.is_some() && !args.app.shows_state() {
        return Err("--history: only the packets of `counter`, `gateway` and `kvstore` show the state; give one of these to --app".into());
    }
    if args.plain && args.fault == Fault::Store {
        return Err("--fault store: the application without RedPlane has no store; omit --plain".into());
    }
    if args.plain && args.replicate != Replicate::Local {
        return Err("--replicate: the application without RedPlane has no store; omit --plain".into());
    }
    if args.plain && args.ipv6 {
        return Err("--ipv6: the application without RedPlane sends no messages; omit --plain".into());
    }
    if let Some(lease) = args.lease {
        check_lease(args, lease)?;
    }
    if args.etcd && args.replicate != Replicate::Chain {
        return Err("--etcd: only the nodes of a chain agree on views; give --replicate chain".into());
    }
    if let Some(node) = args.node {
        let fits = match (args.replicate, node) {
            (Replicate::Local, _) => false,
            (Replicate::Chain, Node::Etcd) => args.etcd,
            (Replicate::Chain, Node::Paused) => false,
            (Replicate::Chain, _) | (Replicate::Etcd, Node::Head | Node::Etcd | Node::Paused) => true,
            (Replicate::Etcd, _) => false,
        };
        if !fits || args.fault != Fault::Store {
            return Err("--node: with --fault store only; head, middle and tail are of --replicate chain, etcd needs --etcd there; head, paused and etcd \
                        are of --replicate etcd"
                .into());
        }
    }
    results::check(&[(&args.json, "--json"), (&args.history, "--history")])?;
    if !args.etcd && args.replicate != Replicate::Etcd {
        return Ok(None);
    }
    let etcd = installed("etcd").ok_or("no program `etcd`: install Debian's etcd-server")?;
    Ok(Some(etcd))
}

/// Runs the command. Exit code 1: a connection broke, or packets showed what one switch without faults cannot show; 2: bad input.
///
/// # Errors
/// The bed cannot be built, nothing passes before the fault, or the result cannot be written.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let etcd = match checked(&args) {
        Ok(etcd) => etcd,
        Err(why) => {
            say(&why.to_string());
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    ensure_privileges()?;
    let folder = Folder::new("failover")?;
    folder.remove_at_signals()?;
    raise_open_file_limit().map_err(|e| format!("cannot raise the limit of open files: {e}"))?;
    let asked = json!({
        "app": args.app.name(),
        "fault": format!("{:?}", args.fault).to_lowercase(),
        "protected": !args.plain,
        "lease_ms": args.lease_ms,
        "lease": args.app.leases().first().map(|first| format!("{:?}", args.lease.unwrap_or(*first)).to_lowercase()),
        "replicate": format!("{:?}", args.replicate).to_lowercase(),
        "etcd": args.etcd,
        "ipv6": args.ipv6,
        "node": args.node.map(|node| format!("{node:?}").to_lowercase()),
    });
    let options = Options {
        plain: args.plain,
        lease_ms: args.lease_ms,
        lease: args.lease.unwrap_or_default(),
        replicate: args.replicate,
        node: args.node.unwrap_or_default(),
        etcd,
        ipv6: args.ipv6,
        pcap: args.pcap,
        scale: Scale::new(args.app, args.lease_ms, args.quick),
        history: args.history.clone(),
        ..Options::new(args.app, args.fault, &own, folder.path())
    };
    let outcome = measure(&options, &mut |line| say(line))?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&outcome.json(asked)).map_err(|e| format!("--json: {e}"))?;
        results::write(path, "--json", text + "\n")?;
    }
    results::tell(&[(&args.json, "--json"), (&args.history, "--history")], &outcome.text())?;
    Ok(if outcome.fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn args(flags: &str) -> Args {
        Cli::try_parse_from(["failover"].into_iter().chain(flags.split(' '))).expect("flags").args
    }

    #[test]
    fn flags_that_do_not_fit_are_refused_with_a_remedy() {
        for (flags, parts) in [
            ("--app balancer --fault switch --lease flow", ["keys of `balancer` are fixed", "omit --lease"]),
            (
                "--app balancer --fault switch --lease shared",
                ["keys of `balancer` are fixed", "omit --lease"],
            ),
            (
                "--app balancer --fault switch --history h",
                ["--history: only", "`counter`, `gateway` and `kvstore`"],
            ),
            ("--app balancer --fault store --plain", ["has no store", "omit --plain"]),
            ("--app nat --fault switch --lease shared", ["only `counter` and `firewall`", "--app"]),
            ("--app counter --fault link --lease session --plain", ["has no leases", "omit --plain"]),
            ("--app counter --fault link --lease shared --plain", ["has no leases", "omit --plain"]),
        ] {
            let why = checked(&args(flags)).expect_err(flags).to_string();
            assert!(parts.iter().all(|part| why.contains(part)), "{flags}: {why}");
            assert_eq!(
                format!("{:?}", run(args(flags)).expect("an exit code")),
                format!("{:?}", ExitCode::from(BAD_INPUT))
            );
        }
        for flags in [
            "--app balancer --fault partition --lease-ms 300 --ipv6 --replicate chain",
            "--app balancer --fault switch --plain",
            "--app firewall --fault switch --lease shared",
            "--app counter --fault link --lease session",
            "--app counter --fault link --lease flow --plain",
        ] {
            assert!(checked(&args(flags)).is_ok(), "{flags}");
        }
    }
}
