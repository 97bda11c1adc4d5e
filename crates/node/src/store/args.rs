//! Flags of `pointsman store`.

use super::error::StoreError;
use super::shared::SharedSettings;
use crate::etcd;
use crate::etcd::flags::{TlsArgs, is_prefix};
use crate::listen::address;
use crate::log;
use crate::metrics::certificates::Certificates;
use crate::service;
use crate::switch::tls::TlsError;
use clap::builder::RangedU64ValueParser;
use pointsman_store::{Config, Idle, Member, Pool, Timing, ViewError};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// How the state outlives a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Replicate {
    /// Not: this store is alone.
    #[default]
    Local,
    /// Each change is in the memory of all nodes of a chain before it is acknowledged.
    Chain,
    /// Each change is in etcd before it is acknowledged. Several stores with one prefix take the place of each other.
    Etcd,
}

/// Run a state store for switch programs with RedPlane.
///
/// Switches keep the state of their programs here, and get leases on it, so that it outlives them. Without --data it is in memory only.
#[derive(clap::Args)]
pub struct Args {
    /// Address for the messages of switches. With --replicate chain or etcd it may be a multicast group: then all nodes or stores get the
    /// messages, and switches need not know which one answers.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4791", value_parser = address)]
    pub listen: SocketAddr,
    /// Keep the state in this folder over a restart. Answers are sent when their changes are on disk.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The form of the log.
    #[command(flatten)]
    pub log: log::Flags,
    /// How the state outlives this machine.
    #[arg(long, value_enum, default_value_t)]
    replicate: Replicate,
    /// The name of this node in its chain, or of this store among those that take its place.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A number of this start of the node, larger than those of its former starts [default: milliseconds of UNIX time].
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    /// Address of a node for messages of the other nodes; one for each node, this one too.
    #[arg(long, value_name = "NAME=ADDRESS:PORT", value_parser = peer)]
    peer: Vec<(String, SocketAddr)>,
    /// File with the present view of the chain, such as `3: a/17 b/17 + c/42`; nodes on one machine agree on the next one there.
    #[arg(long, value_name = "FILE", conflicts_with = "etcd")]
    views: Option<PathBuf>,
    /// URLs of etcd's nodes, separated by commas. With --replicate chain the nodes agree on the next view there, so they can be on several
    /// machines; with --replicate etcd it has the state.
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    etcd: Vec<String>,
    /// Prefix of the keys in etcd. Chains, or states, that share an etcd need different ones.
    #[arg(long, value_name = "PREFIX", default_value = "/pointsman/store/", requires = "etcd")]
    etcd_prefix: String,
    #[command(flatten)]
    etcd_tls: TlsArgs,
    /// A node that is silent for so long is removed from the chain; with --replicate etcd another store takes its place.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = RangedU64ValueParser::<u32>::new().range(100..=60_000))]
    suspect_ms: u32,
    /// Nodes that the chain should have: others join while it has fewer.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=16))]
    nodes: usize,
    /// File with the key of the messages' digests, 16 hexadecimal digits; switches have the same one. Without it anyone who reaches the
    /// address can change the state.
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// Length of a lease: how long a switch may use a key's state without hearing from the store. It must exceed the time that answers take.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = RangedU64ValueParser::<u32>::new().range(10..=3_600_000))]
    pub lease_ms: u32,
    /// Clocks may differ in rate by 1/2^N of the time; programs have the same number (REDPLANE_DRIFT_SHIFT).
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u8).range(1..=16))]
    drift: u8,
    /// Number of shards of keys, from 0 on.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    shards: u16,
    /// Room for this many keys.
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    max_keys: u32,
    /// Ports for the connections of a program that translates addresses, such as 203.0.113.1:1024-65535. May be repeated.
    #[arg(long, value_name = "ADDRESS:FIRST-LAST")]
    pool: Vec<Pool>,
    /// How long the binding of an idle TCP connection keeps its port.
    #[arg(long, value_name = "N", default_value_t = Idle::default().tcp_s, value_parser = RangedU64ValueParser::<u32>::new().range(1..=10_000_000))]
    idle_tcp_s: u32,
    /// How long the binding of an idle UDP flow keeps its port.
    #[arg(long, value_name = "N", default_value_t = Idle::default().udp_s, value_parser = RangedU64ValueParser::<u32>::new().range(1..=10_000_000))]
    idle_udp_s: u32,
    /// The same, if one side has ended the connection, or has never answered.
    #[arg(long, value_name = "N", default_value_t = Idle::default().brief_s, value_parser = RangedU64ValueParser::<u32>::new().range(1..=10_000_000))]
    idle_brief_s: u32,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,
}

/// Why an argument is not a peer.
#[derive(Debug)]
enum PeerError {
    /// It has another form.
    Form,
    /// The name is not that of a node.
    Name(ViewError),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerError::Form => f.write_str("expected NAME=ADDRESS:PORT, such as a=10.9.1.1:4792"),
            PeerError::Name(e) => e.fmt(f),
        }
    }
}

impl Error for PeerError {}

fn peer(text: &str) -> Result<(String, SocketAddr), PeerError> {
    let (name, address) = text.split_once('=').ok_or(PeerError::Form)?;
    let address = address.parse().map_err(|_| PeerError::Form)?;
    Member::new(name, 0).map_err(PeerError::Name)?;
    Ok((name.to_string(), address))
}

/// Where the nodes of a chain agree on views.
pub enum Agreed {
    /// In a file.
    File(PathBuf),
    /// In a key of etcd.
    Etcd(etcd::Settings, String),
}

/// How the state is kept, with what that needs.
pub(super) enum Backend {
    /// By this store alone.
    Local,
    /// In etcd.
    Etcd(SharedSettings),
    /// By a chain.
    Chain(ChainSettings),
}

/// A node's place among the others.
pub struct ChainSettings {
    /// This run of the node.
    pub me: Member,
    /// Where each node gets messages of the others.
    pub addresses: BTreeMap<String, SocketAddr>,
    /// Where the nodes agree on views.
    pub views: Agreed,
    /// Its times.
    pub timing: Timing,
}

impl Args {
    /// The settings of the store.
    pub fn config(&self, secret: Option<[u8; 8]>) -> Config {
        Config {
            secret: secret.unwrap_or_default(),
            seed: service::seed().to_be_bytes(),
            lease_us: self.lease_ms * 1000,
            drift_shift: self.drift,
            shards: self.shards,
            max_keys: self.max_keys,
            pools: self.pool.clone(),
            idle: Idle { tcp_s: self.idle_tcp_s, udp_s: self.idle_udp_s, brief_s: self.idle_brief_s },
            ..Config::default()
        }
    }

    /// How the state is kept.
    ///
    /// # Errors
    /// Flags are missing, or do not go together.
    pub(super) fn backend(&self) -> Result<Backend, StoreError> {
        match self.replicate {
            Replicate::Local => self.local().map(|()| Backend::Local),
            Replicate::Chain => self.chain().map(Backend::Chain),
            Replicate::Etcd => self.shared().map(Backend::Etcd),
        }
    }

    fn local(&self) -> Result<(), StoreError> {
        if self.name.is_none() && self.peer.is_empty() && self.views.is_none() && self.etcd.is_empty() {
            return Ok(());
        }
        Err(StoreError::Flags(
            "--name, --peer, --views and --etcd are for several stores: give --replicate chain or etcd, too",
        ))
    }

    /// This run of the store or node.
    fn me(&self, name: &str) -> Result<Member, StoreError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Member::new(name, self.run.unwrap_or(now.as_millis() as u64)).map_err(StoreError::View)
    }

    fn suspect_ns(&self) -> u64 {
        u64::from(self.suspect_ms) * 1_000_000
    }

    fn shared(&self) -> Result<SharedSettings, StoreError> {
        if self.data.is_some() || self.views.is_some() || !self.peer.is_empty() {
            return Err(StoreError::Flags(
                "--data, --views, --peer: with --replicate etcd the state is in etcd alone; omit them",
            ));
        }
        let (Some(name), false) = (&self.name, self.etcd.is_empty()) else {
            return Err(StoreError::Flags("--replicate etcd: give --name NAME and --etcd URLS, too"));
        };
        let (etcd, prefix) = (self.etcd_settings()?, self.etcd_prefix.clone());
        Ok(SharedSettings { me: self.me(name)?, etcd, prefix, suspect_ns: self.suspect_ns() })
    }

    fn chain(&self) -> Result<ChainSettings, StoreError> {
        if self.data.is_some() {
            return Err(StoreError::Flags("--data: the nodes of a chain keep the state in memory; omit it"));
        }
        let (Some(name), Some(views)) = (&self.name, self.agreed()?) else {
            return Err(StoreError::Flags(
                "--replicate chain: give --name NAME and --views FILE or --etcd URLS, too",
            ));
        };
        let mut addresses = BTreeMap::new();
        for (name, address) in &self.peer {
            if addresses.insert(name.clone(), *address).is_some() {
                return Err(StoreError::Twice(name.clone()));
            }
        }
        if !addresses.contains_key(name) {
            return Err(StoreError::Nowhere(name.clone()));
        }
        let me = self.me(name)?;
        let suspect_ns = self.suspect_ns();
        let timing = Timing { suspect_ns, beat_ns: suspect_ns / 10, nodes: self.nodes, ..Timing::default() };
        Ok(ChainSettings { me, addresses, views, timing })
    }

    /// The certificate that etcd gets to see, for metrics.
    ///
    /// # Errors
    /// The file cannot be read, or has none.
    pub fn certificates(&self) -> Result<Certificates, TlsError> {
        let mut out = Certificates::default();
        out.read("etcd-client", self.etcd_tls.certificate())?;
        Ok(out)
    }

    fn etcd_settings(&self) -> Result<etcd::Settings, StoreError> {
        if !is_prefix(&self.etcd_prefix) {
            return Err(StoreError::Prefix(self.etcd_prefix.clone()));
        }
        let settings = self.etcd_tls.settings(&self.etcd);
        settings.check().map_err(StoreError::Etcd)?;
        Ok(settings)
    }

    fn agreed(&self) -> Result<Option<Agreed>, StoreError> {
        if self.etcd.is_empty() {
            return Ok(self.views.clone().map(Agreed::File));
        }
        Ok(Some(Agreed::Etcd(self.etcd_settings()?, format!("{}view", self.etcd_prefix))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    const UNIT: &str = include_str!("../../../../packaging/units/pointsman-store.service");
    const CONF: &str = include_str!("../../../../packaging/etc/store.conf");

    /// The package's service runs with each of the flags in its file, also with those that are commented out.
    #[test]
    fn the_packages_flags_go_together() {
        let line = UNIT.lines().find_map(|l| l.strip_prefix("ExecStart=/usr/bin/pointsman store"));
        let line = line.expect("a command");
        let default = UNIT.lines().find_map(|l| l.strip_prefix("Environment=\"DATA=")?.strip_suffix('"'));
        let (mut data, mut kinds) = (default.unwrap_or_default(), Vec::new());
        for entry in CONF.lines().map(|l| l.trim_start_matches("# ")) {
            if let Some(other) = entry.strip_prefix("DATA=") {
                data = other;
            }
            let Some(flags) = entry.strip_prefix("FLAGS=") else { continue };
            let line = line.replace("$DATA", data).replace("$FLAGS", flags);
            let words = std::iter::once("store").chain(line.split_whitespace());
            let args = Command::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}")).args;
            let kind = match args.backend().unwrap_or_else(|e| panic!("{line}: {e}")) {
                Backend::Local if args.data.is_some() => "local",
                Backend::Local => "in memory",
                Backend::Chain(_) => "chain",
                Backend::Etcd(_) => "etcd",
            };
            kinds.push(kind);
        }
        assert_eq!(kinds, ["local", "local", "chain", "etcd"]);
    }
}
