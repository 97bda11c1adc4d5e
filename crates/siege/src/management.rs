//! The network between controllers, switch and etcd: namespaces of their own, so that each way can be cut by itself.

use crate::child::Child;
use crate::http;
use pointsman_lab::netlink::{Netlink, VethEnd};
use pointsman_lab::{Error, Namespace, Result};
use pointsman_wire::Mac;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// How many nodes etcd has.
pub const NODES: u8 = 3;
/// The port of etcd's clients, and that of its peers.
const PORTS: (u16, u16) = (2379, 2380);
/// Index of the loopback interface of every namespace.
const LOOPBACK: u32 = 1;
const MTU: u32 = 1500;
/// The two ends of a pair must differ in index, and from those of the rack.
const OWN_INDEX: u32 = 20;
const HUB_INDEX: u32 = 20_000;
/// No interface has this address: frames to it vanish silently, as on a cable that is cut somewhere else.
const NOWHERE: Mac = Mac([0x02, 0, 0, 0, 0xff, 0xff]);

/// One cable. Its own end has address .2, the end at the hub .1.
#[derive(Clone, Debug)]
struct Line {
    own: (Namespace, u32, Mac, Ipv4Addr),
    hub: (Namespace, u32, Mac, Ipv4Addr),
}

impl Line {
    fn wire(name: &str, own: &Namespace, hub: &Namespace, network: u8, number: u8) -> Result<Line> {
        let end = |namespace: &Namespace, base: u32, host: u8| {
            let address = Ipv4Addr::new(10, network, number, host);
            let index = base + u32::from(network) * 16 + u32::from(number);
            (namespace.clone(), index, Mac::from_ipv4(address), address)
        };
        let line = Line { own: end(own, OWN_INDEX, 2), hub: end(hub, HUB_INDEX, 1) };
        let names = [name.to_owned(), format!("{name}-{number}")];
        let [a, b] =
            [(&line.own, &names[0]), (&line.hub, &names[1])].map(|((namespace, index, mac, _), name)| {
                VethEnd { name, index: *index, mac: mac.0, namespace: namespace.as_fd(), queues: 1 }
            });
        own.enter(|| Netlink::open()?.add_veth(&a, &b, MTU))??;
        for (namespace, index, _, address) in [&line.own, &line.hub] {
            namespace.enter(|| {
                let mut netlink = Netlink::open()?;
                netlink.set_up(*index)?;
                netlink.add_address(*index, (*address).into(), 24, 0)
            })??;
        }
        line.cut(false)?;
        Ok(line)
    }

    /// Lets all frames vanish in both directions, or lets them pass.
    fn cut(&self, cut: bool) -> Result<()> {
        for ((namespace, index, ..), (_, _, mac, address)) in [(&self.own, &self.hub), (&self.hub, &self.own)]
        {
            let mac = if cut { NOWHERE } else { *mac };
            namespace.enter(|| Netlink::open()?.add_neighbour(*index, (*address).into(), mac.0))??;
        }
        Ok(())
    }
}

/// What a controller is cut off from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All nodes of etcd.
    Etcd,
    /// The switch.
    Switch,
}

/// Controllers with namespaces of their own, and a cluster of etcd.
pub struct Management {
    /// By controller.
    pub controllers: Vec<Namespace>,
    /// By node of etcd.
    pub nodes: Vec<Child>,
    places: Vec<Namespace>,
    node_lines: Vec<Line>,
    etcd_lines: Vec<Line>,
    switch_lines: Vec<Line>,
}

fn namespace(name: &str) -> Result<Namespace> {
    let made = Namespace::new(name)?;
    made.enter(|| Netlink::open()?.set_up(LOOPBACK))??;
    Ok(made)
}

/// The address at which a controller finds the switch.
pub fn switch_address(controller: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(10, 79, controller, 1), port).into()
}

/// The client URL of a node of etcd.
fn url(node: u8, port: u16) -> String {
    format!("http://10.78.{node}.2:{port}")
}

/// The value of `--etcd`.
pub fn urls() -> String {
    (0..NODES).map(|node| url(node, PORTS.0)).collect::<Vec<_>>().join(",")
}

impl Management {
    /// Wires controllers to the switch and to the nodes of etcd, which start with empty data below `folder`.
    pub fn start(switch: &Namespace, controllers: u8, etcd: &str, folder: &Path) -> Result<Management> {
        let hub = namespace("hub")?;
        let forward = "/proc/sys/net/ipv4/ip_forward";
        let on = hub.enter(|| fs::write(forward, "1"))?;
        on.map_err(|e| Error::os(format!("cannot write {forward}"), e))?;
        let mut made = Management {
            controllers: Vec::new(),
            nodes: Vec::new(),
            places: Vec::new(),
            node_lines: Vec::new(),
            etcd_lines: Vec::new(),
            switch_lines: Vec::new(),
        };
        let to_hub = |place: &Namespace, number: u8| -> Result<Line> {
            let line = Line::wire("hub", place, &hub, 78, number)?;
            let (_, index, ..) = line.own;
            place.enter(|| Netlink::open()?.add_default_route(index, line.hub.3.into(), false, 0))??;
            Ok(line)
        };
        for node in 0..NODES {
            let place = namespace(&format!("etcd {node}"))?;
            made.node_lines.push(to_hub(&place, node)?);
            made.places.push(place);
        }
        for controller in 0..controllers {
            let place = namespace(&format!("controller {controller}"))?;
            made.etcd_lines.push(to_hub(&place, NODES + controller)?);
            made.switch_lines.push(Line::wire("mgmt", &place, switch, 79, controller)?);
            made.controllers.push(place);
        }
        for node in 0..NODES {
            let data = folder.join(format!("n{node}"));
            if data.exists() {
                fs::remove_dir_all(&data)
                    .map_err(|e| Error::os(format!("cannot empty {}", data.display()), e))?;
            }
            let arguments = arguments(node, &data.display().to_string());
            made.nodes.push(Child::start(
                format!("etcd {node}"),
                &made.places[usize::from(node)],
                etcd,
                arguments,
            )?);
        }
        Ok(made)
    }

    /// Cuts a controller off, or joins it again.
    pub fn cut(&self, controller: u8, way: Way, cut: bool) -> Result<()> {
        let lines = match way {
            Way::Etcd => &self.etcd_lines,
            Way::Switch => &self.switch_lines,
        };
        lines[usize::from(controller)].cut(cut)
    }

    /// Cuts a node of etcd off from everything, or joins it again.
    pub fn cut_node(&self, node: u8, cut: bool) -> Result<()> {
        self.node_lines[usize::from(node)].cut(cut)
    }

    /// Whether each node of etcd says that it can serve.
    pub fn healthy(&self) -> Result<bool> {
        let at = (Ipv4Addr::LOCALHOST, PORTS.0).into();
        let request = http::request("GET", "/health", None, "");
        for place in &self.places {
            let answer = place.enter(|| http::ask(at, &request, Duration::from_millis(500)))?;
            if !answer.is_ok_and(|(status, body)| status == 200 && body.contains("true")) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn arguments(node: u8, data: &str) -> Vec<String> {
    let cluster: Vec<String> = (0..NODES).map(|n| format!("n{n}={}", url(n, PORTS.1))).collect();
    let (client, peer) = (url(node, PORTS.0), url(node, PORTS.1));
    let [clients, peers] = [PORTS.0, PORTS.1].map(|port| format!("http://0.0.0.0:{port}"));
    [
        ["--name", &format!("n{node}")],
        ["--data-dir", data],
        ["--listen-client-urls", &clients],
        ["--advertise-client-urls", &client],
        ["--listen-peer-urls", &peers],
        ["--initial-advertise-peer-urls", &peer],
        ["--initial-cluster", &cluster.join(",")],
        ["--logger", "zap"],
        ["--log-level", "error"],
        // As docs/control.md has them: with its own times, 100 and 1000 ms, etcd needs one to four seconds for a new leader.
        ["--heartbeat-interval", "50"],
        ["--election-timeout", "500"],
        // Less room in memory, where its data are.
        ["--snapshot-count", "1000"],
        ["--auto-compaction-mode", "periodic"],
        ["--auto-compaction-retention", "1m"],
    ]
    .concat()
    .into_iter()
    .map(String::from)
    .collect()
}
