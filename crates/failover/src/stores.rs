//! The store of the bed: one process, or the nodes of a chain.

use crate::bed::{Bed, PATIENCE, STORE};
use crate::{Node, Options, Replicate};
use pointsman_lab::process::Process;
use pointsman_lab::rack::Mac;
use pointsman_lab::{Error, Result};
use std::fs;
use std::net::Ipv4Addr;

/// Names of nodes, in the order of the first view.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Where the nodes get the requests of switches.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 9, 1, 1);
/// The Ethernet address of the group (RFC 1112).
const GROUP_MAC: Mac = Mac([1, 0, 0x5e, 9, 1, 1]);
/// The port of switches' messages, and the first one of those between nodes.
const PORT: u16 = 4791;
const PEERS: u16 = 4801;

/// The processes of the store.
pub struct Stores {
    replicate: Replicate,
    /// Those that run.
    pub processes: Vec<Option<Process>>,
    /// How often each was started.
    runs: Vec<u64>,
}

impl Stores {
    /// None runs yet.
    pub fn new(options: &Options) -> Self {
        let count = if options.replicate == Replicate::Chain { NAMES.len() } else { 1 };
        Stores {
            replicate: options.replicate,
            processes: (0..count).map(|_| None).collect(),
            runs: vec![0; count],
        }
    }

    /// Processes.
    pub fn count(&self) -> usize {
        self.processes.len()
    }

    /// Where switches send their messages, if the store is a chain.
    pub fn group(&self) -> Option<(Ipv4Addr, Mac)> {
        (self.replicate == Replicate::Chain).then_some((GROUP, GROUP_MAC))
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
            Replicate::Local => {
                let listen = format!("0.0.0.0:{PORT}");
                arguments.extend(["--listen", &listen, "--data", &self.path("data")].map(String::from));
            }
            Replicate::Chain => arguments.extend(self.of_node(node)?),
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut process = Process::start(self.namespace(STORE)?, &self.binary, &arguments, "")?;
        process.wait_until_said("store on ", PATIENCE)?;
        self.stores.processes[node] = Some(process);
        Ok(())
    }

    fn of_node(&self, node: usize) -> Result<Vec<String>> {
        let (views, run) = (self.path("views"), self.stores.runs[node]);
        if self.stores.runs.iter().sum::<u64>() == 1 {
            let all: Vec<String> = NAMES.iter().map(|name| format!("{name}/1")).collect();
            let failed = |e| Error::os(format!("cannot write {views}"), e);
            fs::write(&views, format!("1: {}\n", all.join(" "))).map_err(failed)?;
        }
        let listen = format!("{GROUP}:{PORT}");
        let run = run.to_string();
        let flags = ["--listen", &listen, "--replicate", "chain", "--name", NAMES[node], "--run", &run];
        let mut all: Vec<String> = flags.into_iter().chain(["--views", &views]).map(String::from).collect();
        for (name, port) in NAMES.iter().zip(PEERS..) {
            all.extend(["--peer".to_string(), format!("{name}=127.0.0.1:{port}")]);
        }
        Ok(all)
    }

    /// Kills the store. Its files stay.
    pub fn kill_store(&mut self, node: usize) {
        self.stores.processes[node] = None;
    }

    /// Which process to kill: the store alone, or a node of the present view, which must have three.
    pub fn victim(&self, node: Node) -> Result<usize> {
        let Some(view) = self.view() else { return Ok(0) };
        let nodes = view.split_once(':').map_or("", |(_, nodes)| nodes);
        let chain: Vec<&str> = nodes.split('+').next().unwrap_or_default().split_whitespace().collect();
        let at = match node {
            Node::Head => 0,
            Node::Middle => 1,
            Node::Tail => 2,
        };
        let name = chain.get(at).filter(|_| chain.len() == NAMES.len()).and_then(|m| m.split('/').next());
        let index = name.and_then(|name| NAMES.iter().position(|n| *n == name));
        index.ok_or_else(|| {
            Error::new(format!("the chain does not have three nodes before the fault: {view}"))
        })
    }

    /// The present view of the chain, as text.
    pub fn view(&self) -> Option<String> {
        self.stores.group()?;
        fs::read_to_string(self.path("views")).ok().map(|text| text.trim().to_string())
    }
}
