//! The store of the bed: one process, or the nodes of a chain.

use crate::bed::{Bed, PATIENCE, STORE};
use crate::etcd::Etcd;
use crate::{Node, Options, Replicate};
use pointsman_lab::process::Process;
use pointsman_lab::rack::Mac;
use pointsman_lab::{Error, Result};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Names of nodes, in the order of the first view.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Where the nodes get the requests of switches: a group, and its Ethernet address (RFC 1112, RFC 2464).
const GROUP_V4: (IpAddr, Mac) = (IpAddr::V4(Ipv4Addr::new(239, 9, 1, 1)), Mac([1, 0, 0x5e, 9, 1, 1]));
const GROUP_V6: (IpAddr, Mac) =
    (IpAddr::V6(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 9, 0x101)), Mac([0x33, 0x33, 0, 9, 1, 1]));
/// The port of switches' messages, and the first one of those between nodes.
const PORT: u16 = 4791;
const PEERS: u16 = 4801;

/// The processes of the store.
pub struct Stores {
    replicate: Replicate,
    /// One store has files.
    durable: bool,
    /// Stores that each have a part of the keys.
    shards: u16,
    ipv6: bool,
    /// Those that run.
    pub processes: Vec<Option<Process>>,
    /// How often each was started.
    runs: Vec<u64>,
    /// Where the state is, or where the nodes agree on views, if not in a file.
    pub etcd: Option<Etcd>,
}

/// The members of a view's chain.
fn of_chain(view: &str) -> Vec<&str> {
    let nodes = view.split_once(':').map_or("", |(_, nodes)| nodes);
    nodes.split('+').next().unwrap_or_default().split_whitespace().collect()
}

/// The view in a line of a node: `view 3: a/17 b/17: it is the head`.
fn seen_in(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("view ")?;
    rest.rsplit_once(": it ").map(|(view, _)| view.to_string())
}

/// The number of a view.
fn number(view: &str) -> Option<u64> {
    view.split(':').next()?.trim().parse().ok()
}

impl Stores {
    /// None runs yet.
    pub fn new(options: &Options) -> Self {
        let count = match options.replicate {
            Replicate::Local => usize::from(options.shards.max(1)),
            Replicate::Etcd => 2,
            Replicate::Chain => NAMES.len(),
        };
        Stores {
            replicate: options.replicate,
            durable: options.durable,
            shards: options.shards,
            ipv6: options.ipv6,
            processes: (0..count).map(|_| None).collect(),
            runs: vec![0; count],
            etcd: None,
        }
    }

    /// Processes.
    pub fn count(&self) -> usize {
        self.processes.len()
    }

    /// Where switches send their messages, if they cannot know which process answers.
    pub fn group(&self) -> Option<(IpAddr, Mac)> {
        let group = if self.ipv6 { GROUP_V6 } else { GROUP_V4 };
        (self.replicate != Replicate::Local).then_some(group)
    }

    /// The value of `--listen`, unless there are several shards.
    fn listen(&self) -> String {
        let any = if self.ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        SocketAddr::new(self.group().map_or(any, |(group, _)| group), PORT).to_string()
    }
}

/// The address of a shard's store: it follows from that of the first one.
fn of_shard(first: IpAddr, shard: usize) -> IpAddr {
    match first {
        IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) + shard as u32).into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) + shard as u128).into(),
    }
}

impl Bed {
    /// Starts the store with what its former run left on disk, or a node of the chain, without data.
    pub fn start_store(&mut self, node: usize) -> Result<()> {
        self.stores.runs[node] += 1;
        let mut arguments: Vec<String> =
            ["store", "--secret", &self.path("secret"), "--lease-ms", &self.lease_ms.to_string()]
                .map(String::from)
                .into();
        arguments.extend(self.app.store_options());
        match self.stores.replicate {
            Replicate::Local => arguments.extend(self.of_shard(node)?),
            Replicate::Chain => arguments.extend(self.of_node(node)?),
            Replicate::Etcd => {
                let (listen, urls) = (self.stores.listen(), Etcd::urls());
                let flags =
                    ["--listen", &listen, "--replicate", "etcd", "--name", NAMES[node], "--etcd", &urls];
                arguments.extend(flags.map(String::from));
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut process = Process::start(self.namespace(STORE)?, &self.binary, &arguments, "")?;
        process.wait_until_said("store on ", PATIENCE)?;
        self.stores.processes[node] = Some(process);
        Ok(())
    }

    fn of_shard(&self, shard: usize) -> Result<Vec<String>> {
        let mut flags = vec!["--listen".into(), self.stores.listen()];
        if self.stores.shards > 1 {
            let address = of_shard(self.store_address()?.0, shard);
            if shard > 0 && self.stores.runs[shard] == 1 {
                self.rack.add_address(STORE, address)?;
            }
            flags[1] = SocketAddr::new(address, PORT).to_string();
            flags.extend(["--shards".into(), self.stores.shards.to_string()]);
        }
        if self.stores.durable {
            let name = if shard == 0 { "data".into() } else { format!("data-{shard}") };
            flags.extend(["--data".into(), self.path(&name)]);
        }
        Ok(flags)
    }

    fn of_node(&self, node: usize) -> Result<Vec<String>> {
        let (views, run) = (self.path("views"), self.stores.runs[node]);
        if self.stores.etcd.is_none() && self.stores.runs.iter().sum::<u64>() == 1 {
            let all: Vec<String> = NAMES.iter().map(|name| format!("{name}/1")).collect();
            let failed = |e| Error::os(format!("cannot write {views}"), e);
            fs::write(&views, format!("1: {}\n", all.join(" "))).map_err(failed)?;
        }
        let listen = self.stores.listen();
        let run = run.to_string();
        let flags = ["--listen", &listen, "--replicate", "chain", "--name", NAMES[node], "--run", &run];
        let urls = Etcd::urls();
        let agreed = if self.stores.etcd.is_some() { ["--etcd", &urls] } else { ["--views", &views] };
        let mut all: Vec<String> = flags.into_iter().chain(agreed).map(String::from).collect();
        for (name, port) in NAMES.iter().zip(PEERS..) {
            all.extend(["--peer".to_string(), format!("{name}=127.0.0.1:{port}")]);
        }
        Ok(all)
    }

    /// Starts all processes of the store, and etcd before.
    pub fn start_stores(&mut self, etcd: Option<&str>) -> Result<()> {
        if let Some(program) = etcd {
            self.stores.etcd = Some(Etcd::start(program, self.namespace(STORE)?, self.path("etcd"))?);
        }
        (0..self.stores.count()).try_for_each(|node| self.start_store(node))?;
        let end = Instant::now() + PATIENCE;
        let is_chain = self.stores.replicate == Replicate::Chain;
        while is_chain
            && etcd.is_some()
            && self.view().is_none_or(|view| of_chain(&view).len() != NAMES.len())
        {
            if Instant::now() > end {
                return Err(Error::new(format!("the chain does not have three nodes within {PATIENCE:?}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills the store. Its files stay.
    pub fn kill_store(&mut self, node: usize) {
        self.stores.processes[node] = None;
    }

    /// Sends a signal to a process of the store.
    pub fn signal_store(&mut self, node: usize, signal: i32) -> Result<()> {
        self.stores.processes[node].as_mut().map_or(Ok(()), |p| p.signal(signal))
    }

    /// The store that serves, of those whose state is in etcd.
    fn serving(&self) -> Result<usize> {
        let said = |p: &Option<Process>| p.as_ref().and_then(|p| p.last_line_with("serves"));
        let serves = |p: &Option<Process>| said(p).is_some_and(|line| line.contains("this store serves: "));
        let found = self.stores.processes.iter().position(serves);
        found.ok_or_else(|| Error::new("no store serves before the fault"))
    }

    /// Which process to kill: the store alone, the one that serves, or a node of the present view, which must have three.
    pub fn victim(&self, node: Node) -> Result<usize> {
        if self.stores.replicate == Replicate::Etcd {
            return self.serving();
        }
        let Some(view) = self.view() else { return Ok(0) };
        let chain = of_chain(&view);
        let at = match node {
            Node::Head => 0,
            Node::Middle => 1,
            Node::Tail => 2,
            Node::Etcd | Node::Paused => return Ok(0),
        };
        let name = chain.get(at).filter(|_| chain.len() == NAMES.len()).and_then(|m| m.split('/').next());
        let index = name.and_then(|name| NAMES.iter().position(|n| *n == name));
        index.ok_or_else(|| {
            Error::new(format!("the chain does not have three nodes before the fault: {view}"))
        })
    }

    /// The present view of the chain, as text.
    pub fn view(&self) -> Option<String> {
        if self.stores.replicate != Replicate::Chain {
            return None;
        }
        if self.stores.etcd.is_some() {
            let processes = self.stores.processes.iter().flatten();
            let views = processes.filter_map(|p| seen_in(&p.last_line_with(": it ")?));
            return views.max_by_key(|view| number(view));
        }
        fs::read_to_string(self.path("views")).ok().map(|text| text.trim().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_have_consecutive_addresses() {
        let of = |first: &str, shard| of_shard(first.parse().expect("an address"), shard).to_string();
        assert_eq!([of("10.0.90.2", 0), of("10.0.90.2", 2)], ["10.0.90.2", "10.0.90.4"]);
        assert_eq!(of("fd00:90::2", 1), "fd00:90::3");
    }

    #[test]
    fn views_are_read_from_lines() {
        let view = seen_in("12:00 view 13: a/1 b/2 + c/1: it is the tail").expect("a view");
        assert_eq!((view.as_str(), number(&view)), ("13: a/1 b/2 + c/1", Some(13)));
        assert_eq!(of_chain(&view), ["a/1", "b/2"]);
        assert_eq!(seen_in("view 3: x is refused: no"), None);
    }
}
