//! `pointsman controller` with a network of real switches: routes follow the links, through restarts of the controller and of switches.

use crate::support::{PATIENCE, Running, Scratch, Switch, run};
use pointsman_fabric::Description;
use pointsman_lab::harness::Tests;
use pointsman_lab::netlink::{Netlink, VethEnd};
use pointsman_lab::wiring::{Wiring, bring_loopback_up};
use pointsman_lab::{Namespace, ensure};
use pointsman_node::http::client::{Ask, ask};
use pointsman_topology::{LinkId, SwitchId};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

pub const TESTS: &Tests = &[("routes_follow_links_and_restarts", routes_follow_links_and_restarts)];

const NETWORK: &str = "[network.leaf_spine]\nleaves = 2\nspines = 2\nhosts_per_leaf = 1\n[scheme]\nname = \"ecmp\"\n[switches]\n";
const NAMES: [&str; 4] = ["leaf1", "leaf2", "spine1", "spine2"];
/// Flows take different paths.
const FLOWS: usize = 32;
const PORT: u16 = 5000;
/// For datagrams none of which may be lost.
const AT_MOST: Duration = Duration::from_secs(20);

/// The switches' machines, and the one of the controller, which has a cable to each of them.
struct Fabric {
    wiring: Wiring,
    manager: Namespace,
    file: String,
    _folder: Scratch,
}

fn management(switch: usize) -> [Ipv4Addr; 2] {
    [1, 2].map(|host| Ipv4Addr::new(10, 255, switch as u8, host))
}

impl Fabric {
    fn build() -> Outcome<Fabric> {
        let folder = Scratch::new("fabric");
        let address = |(i, name): (usize, &&str)| format!("{name} = \"{}:9559\"\n", management(i)[1]);
        let text = NETWORK.to_string() + &NAMES.iter().enumerate().map(address).collect::<String>();
        let file = folder.write("fabric.toml", &text);
        let wiring = Wiring::build(&Description::read(&file, &text)?.topology)?;
        let manager = Namespace::new("manager")?;
        manager.enter(bring_loopback_up)??;
        for (i, switch) in wiring.switches.iter().enumerate() {
            let [here, there] = [200, 300].map(|index| index + i as u32);
            let name = format!("to{i}");
            let end = |name, index: u32, namespace| VethEnd {
                name,
                index,
                mac: [2, 0, 0, 0, (index >> 8) as u8, index as u8],
                namespace,
                queues: 1,
            };
            let ends = [end(&name, here, manager.as_fd()), end("mgmt", there, switch.as_fd())];
            manager.enter(|| Netlink::open()?.add_veth(&ends[0], &ends[1], 1500))??;
            let places = [(&manager, here), (switch, there)];
            for ((namespace, index), address) in places.into_iter().zip(management(i)) {
                namespace.enter(|| {
                    let mut netlink = Netlink::open()?;
                    netlink.set_up(index)?;
                    netlink.add_address(index, address.into(), 30, 0)
                })??;
            }
        }
        Ok(Fabric { wiring, manager, file, _folder: folder })
    }

    /// Starts a switch with the flags that the controller names for it.
    fn switch(&self, number: usize) -> Outcome<Switch> {
        let asked = run(&["controller", &self.file, "--flags", NAMES[number]]);
        ensure!(asked.code == Some(0), "{asked:?}");
        let id = SwitchId(number as u32);
        let ports = self.wiring.ports(id).into_iter().map(|(port, name)| format!("-i {port}@{name}"));
        let flags = asked.stdout + &ports.collect::<Vec<String>>().join("\n");
        let mut words: Vec<&str> = flags.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "--p4runtime").ok_or("no address")?;
        let address = words[at + 1];
        words.drain(at..at + 2);
        Ok(self.wiring.switches[number].enter(|| Switch::start_at(address, &words))?)
    }

    fn controller(&self) -> Outcome<Running> {
        let start = || Running::start(&["controller", &self.file, "--metrics", "127.0.0.1:0"]);
        Ok(self.manager.enter(start)?)
    }

    /// A page of the controller.
    fn page(&self, controller: &Running, path: &str) -> Outcome<(u16, String)> {
        let line = controller.wait_for("metrics on ");
        let url = line.split("metrics on ").nth(1).ok_or("no address")?.replace("metrics", path);
        self.manager
            .enter(|| {
                let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let asked = Ask { method: "GET", url: url.trim(), ..Ask::default() };
                let (status, body) = tokio.block_on(ask(asked, PATIENCE)).map_err(|e| e.to_string())?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>((
                    status,
                    String::from_utf8_lossy(&body).into(),
                ))
            })?
            .map_err(|e| e.to_string().into())
    }
}

/// Datagrams from the second host to the first: those on their way there have to leave the second leaf towards a spine that reaches the first.
struct Traffic {
    from: Vec<UdpSocket>,
    to: UdpSocket,
    at: SocketAddr,
    rounds: u64,
}

impl Traffic {
    fn new(wiring: &Wiring) -> Outcome<Traffic> {
        let address = |host: usize| wiring.topology.hosts()[host].address;
        let (sink, source) = (address(0), address(1));
        let to = wiring.hosts[0].enter(|| UdpSocket::bind((sink, PORT)))??;
        let open = || (0..FLOWS).map(|_| UdpSocket::bind((source, 0))).collect::<std::io::Result<_>>();
        Ok(Traffic { from: wiring.hosts[1].enter(open)??, to, at: (sink, PORT).into(), rounds: 0 })
    }

    /// Sends a datagram of each flow: how many have arrived when all have, or after this time.
    fn round(&mut self, at_most: Duration) -> Outcome<usize> {
        self.rounds += 1;
        for socket in &self.from {
            socket.send_to(&self.rounds.to_be_bytes(), self.at)?;
        }
        let (end, mut arrived, mut buffer) = (Instant::now() + at_most, 0, [0; 16]);
        while arrived < FLOWS {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.to.set_read_timeout(Some(left))?;
            match self.to.recv(&mut buffer) {
                Ok(8) if buffer[..8] == self.rounds.to_be_bytes() => arrived += 1,
                Ok(_) => {}
                Err(e)
                    if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(arrived)
    }

    /// All flows arrive before long.
    fn recovers(&mut self, when: &str) -> Outcome {
        let start = Instant::now();
        let mut arrived = 0;
        while start.elapsed() < PATIENCE {
            arrived = self.round(Duration::from_secs(2))?;
            if arrived == FLOWS {
                return Ok(());
            }
        }
        Err(format!("{when}: {arrived} of {FLOWS} flows arrive").into())
    }

    /// All datagrams of a round arrive.
    fn arrives(&mut self, when: &str) -> Outcome {
        let arrived = self.round(AT_MOST)?;
        ensure!(arrived == FLOWS, "{when}: {arrived} of {FLOWS} datagrams arrived");
        Ok(())
    }
}

/// Waits until so many lines of a process contain a text.
fn until(process: &Running, text: &str, lines: usize) -> Outcome {
    let start = Instant::now();
    while process.count(text) < lines {
        ensure!(start.elapsed() < PATIENCE, "no {lines} lines with `{text}`: {:?}", process.lines(""));
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn routes_follow_links_and_restarts() -> Outcome {
    let fabric = Fabric::build()?;
    let mut switches = (0..NAMES.len()).map(|n| fabric.switch(n)).collect::<Outcome<Vec<Switch>>>()?;
    let controller = fabric.controller()?;
    controller.wait_for("all switches are up to date");
    let mut traffic = Traffic::new(&fabric.wiring)?;
    traffic.recovers("at first")?;

    // The second leaf has its link to the first spine, and must not use it for the first leaf.
    let link: LinkId = fabric.wiring.topology.link("leaf1-spine1").ok_or("no such link")?;
    fabric.wiring.set_link(link, false)?;
    controller.wait_for("link leaf1-spine1 is down");
    traffic.recovers("after a link was cut")?;
    let (status, page) = fabric.page(&controller, "metrics")?;
    ensure!(status == 200, "{status}");
    for sample in [
        "pointsman_fabric_link_up{link=\"leaf1-spine1\"} 0.0",
        "pointsman_fabric_link_up{link=\"leaf1-spine2\"} 1.0",
        "pointsman_fabric_unreachable_hosts 0.0",
        "pointsman_fabric_info{scheme=\"ecmp\"} 1.0",
    ] {
        ensure!(page.contains(sample), "no `{sample}` in {page}");
    }

    // Without a controller, and when the next one takes over: nothing is lost, because that one finds all entries as they should be.
    drop(controller);
    (0..20).try_for_each(|_| traffic.arrives("without a controller"))?;
    let controller = fabric.controller()?;
    while !controller.has("all switches are up to date") {
        traffic.arrives("while a controller starts")?;
    }
    traffic.arrives("with the next controller")?;
    ensure!(controller.count("the switch is up to date (0 changes)") == 4, "{:?}", controller.lines(""));

    fabric.wiring.set_link(link, true)?;
    controller.wait_for("link leaf1-spine1 is up again");
    traffic.recovers("after the link came back")?;
    for (number, name) in [(3, "spine2"), (0, "leaf1")] {
        // The address is free when the process has ended.
        drop(switches.remove(number));
        until(&controller, &format!("{name}: no connection"), 1)?;
        let (status, why) = fabric.page(&controller, "readyz")?;
        ensure!(status == 503 && why.contains(name), "{status} {why}");
        switches.insert(number, fabric.switch(number)?);
        until(&controller, &format!("{name}: program installed"), 1)?;
        traffic.recovers(&format!("after {name} was restarted"))?;
    }
    Ok(())
}
