//! Etcd next to the store: three nodes in its namespace.

use pointsman_lab::process::Process;
use pointsman_lab::{Namespace, Result};

/// How many nodes.
const NODES: u16 = 3;
/// Client ports of the nodes, and their ports for each other.
const CLIENTS: u16 = 2379;
const PEERS: u16 = 2479;

/// The nodes of etcd.
pub struct Etcd {
    program: String,
    namespace: Namespace,
    folder: String,
    nodes: Vec<Option<Process>>,
}

fn url(first: u16, node: u16) -> String {
    format!("http://127.0.0.1:{}", first + node)
}

impl Etcd {
    /// Starts all nodes, with data below `folder`.
    pub fn start(program: &str, namespace: &Namespace, folder: String) -> Result<Etcd> {
        let nodes = (0..NODES).map(|_| None).collect();
        let mut etcd = Etcd { program: program.to_owned(), namespace: namespace.clone(), folder, nodes };
        (0..NODES).try_for_each(|node| etcd.start_node(node))?;
        Ok(etcd)
    }

    /// Starts a node, with the data that it has.
    pub fn start_node(&mut self, node: u16) -> Result<()> {
        let cluster: Vec<String> = (0..NODES).map(|n| format!("n{n}={}", url(PEERS, n))).collect();
        let (client, peer) = (url(CLIENTS, node), url(PEERS, node));
        let arguments = [
            ["--name", &format!("n{node}")],
            ["--data-dir", &format!("{}/n{node}", self.folder)],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &cluster.join(",")],
            ["--logger", "zap"],
            ["--log-level", "error"],
        ];
        let process = Process::start(&self.namespace, &self.program, &arguments.concat(), "")?;
        self.nodes[usize::from(node)] = Some(process);
        Ok(())
    }

    /// Kills a node. Its data stay.
    pub fn kill(&mut self, node: u16) {
        self.nodes[usize::from(node)] = None;
    }

    /// The value of `--etcd`.
    pub fn urls() -> String {
        (0..NODES).map(|node| url(CLIENTS, node)).collect::<Vec<_>>().join(",")
    }
}
