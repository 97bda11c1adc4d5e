//! Real etcd, Debian's: nodes on loopback with data in a folder of the test.

use super::certificates::{Authority, issue};
use super::{PATIENCE, Scratch};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pointsman_etcd::{Answer, Op, Request, Txn};
use pointsman_node::etcd::{Link, Settings};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A cluster. Dropping it kills it.
pub struct Etcd {
    scratch: Scratch,
    /// Ports of clients and of peers.
    ports: Vec<(u16, u16)>,
    nodes: Vec<Option<Child>>,
    /// It speaks TLS, and takes clients with a certificate only.
    tls: bool,
}

/// Names of the files of TLS.
const CA: &str = "ca.pem";
const CERT: &str = "cert.pem";
const KEY: &str = "key.pem";

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port()
}

impl Etcd {
    /// Starts so many nodes, and waits until they have a leader.
    pub fn start(test: &str, nodes: usize) -> Etcd {
        Self::with(test, nodes, None)
    }

    /// The same with TLS, by this authority, which also signs the clients' certificates.
    pub fn secure(test: &str, nodes: usize, authority: &Authority) -> Etcd {
        Self::with(test, nodes, Some(authority))
    }

    fn with(test: &str, nodes: usize, authority: Option<&Authority>) -> Etcd {
        let ports = (0..nodes).map(|_| (free_port(), free_port())).collect();
        let scratch = Scratch::new(&format!("etcd-{test}"));
        if let Some(authority) = authority {
            let (cert, key) = issue(authority, |_| ());
            for (name, text) in [(CA, authority.pem()), (CERT, cert), (KEY, key)] {
                scratch.write(name, text);
            }
        }
        let nodes = (0..nodes).map(|_| None).collect();
        let mut etcd = Etcd { scratch, ports, nodes, tls: authority.is_some() };
        (0..etcd.nodes()).for_each(|i| etcd.run(i));
        etcd.wait();
        etcd
    }

    /// Starts a node, which has its former data.
    pub fn run(&mut self, i: usize) {
        let (client, peer) = self.ports[i];
        let cluster: Vec<String> =
            self.ports.iter().enumerate().map(|(i, (_, p))| format!("n{i}=http://127.0.0.1:{p}")).collect();
        let (client, peer) = (self.url(client), format!("http://127.0.0.1:{peer}"));
        let files = [("--trusted-ca-file", CA), ("--cert-file", CERT), ("--key-file", KEY)];
        let files = files.iter().flat_map(|(flag, name)| [flag.to_string(), self.scratch.path(name)]);
        let data = self.scratch.path(&format!("n{i}"));
        let child = Command::new("etcd")
            .args(["--name", &format!("n{i}"), "--data-dir", &data])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
            .args(["--logger", "zap", "--log-level", "error"])
            .args(files.chain(["--client-cert-auth".to_string()]).filter(|_| self.tls))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.nodes[i] = Some(child.expect("etcd starts"));
    }

    /// Waits until the nodes have a leader.
    pub fn wait(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.put("/test", "x").is_none() {
            assert!(Instant::now() < deadline, "etcd does not start");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn url(&self, port: u16) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{port}")
    }

    /// The value of `--etcd`.
    pub fn urls(&self) -> String {
        let urls: Vec<String> = self.ports.iter().map(|(c, _)| self.url(*c)).collect();
        urls.join(",")
    }

    /// The flags of a client.
    pub fn flags(&self) -> Vec<String> {
        let files = [("--etcd-ca", CA), ("--etcd-cert", CERT), ("--etcd-key", KEY)];
        let files = files.iter().flat_map(|(flag, name)| [flag.to_string(), self.scratch.path(name)]);
        ["--etcd".to_string(), self.urls()].into_iter().chain(files.filter(|_| self.tls)).collect()
    }

    /// The settings of a client.
    pub fn settings(&self) -> Settings {
        let path = |name: &str| PathBuf::from(self.scratch.path(name));
        Settings {
            urls: self.urls().split(',').map(String::from).collect(),
            ca: self.tls.then(|| path(CA)),
            identity: self.tls.then(|| (path(CERT), path(KEY))),
        }
    }

    /// How many nodes it has, of which some may not run.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a node runs.
    pub fn runs(&self, i: usize) -> bool {
        self.nodes[i].is_some()
    }

    /// Sends a signal to a node.
    pub fn signal(&self, i: usize, signal: Signal) {
        if let Some(child) = &self.nodes[i] {
            kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
        }
    }

    /// Kills a node.
    pub fn kill(&mut self, i: usize) {
        if let Some(mut child) = self.nodes[i].take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// A step at the first node that answers.
    fn step(&self, op: &Op) -> Option<Answer> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio.block_on(async {
            let link = Link::new(&self.settings()).expect("URLs");
            for endpoint in 0..self.nodes() {
                let txn = Txn { then: vec![op.clone()], ..Txn::default() };
                if let Ok(answer) = link.ask(endpoint, Request::Txn(txn)).await {
                    return Some(answer);
                }
            }
            None
        })
    }

    /// Writes a key, as `etcdctl put` does.
    pub fn put(&self, key: &str, value: &str) -> Option<Answer> {
        self.step(&Op::Put { key: key.into(), value: value.into(), lease: 0 })
    }

    /// Deletes a key.
    pub fn delete(&self, key: &str) -> Option<Answer> {
        self.step(&Op::Delete { key: key.into() })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|i| self.kill(i));
    }
}
