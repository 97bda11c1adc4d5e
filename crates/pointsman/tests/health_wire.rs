//! `pointsman health` with real BIRD: two switches share a virtual address (docs/anycast.md). The files are those of examples/bird.
//!
//! ```text
//!              mgmt1  198.18.1.0/30  mgmt0
//!   router     data1  192.0.2.0/30   p1     switch 1   p2 -- eth0   server 1  10.0.1.11   up0 -- up1
//!   and                                                p3 -- eth0   server 2  10.0.1.12   up0 -- up2  router
//!   clients    data2  192.0.2.4/30   p1     switch 2   p2 -- eth1   server 1
//!              mgmt2  198.18.2.0/30  mgmt0             p3 -- eth1   server 2
//! ```

use crate::support::{PATIENCE, Running, Scratch, file};
use nix::sys::signal::Signal;
use pointsman_lab::Namespace;
use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use pointsman_lab::netlink::{Netlink, VethEnd};
use pointsman_lab::process::Process;
use std::collections::BTreeSet;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, Test)] = &[
    ("connections_outlive_drain_and_death", connections_outlive_drain_and_death),
    ("without_adoption_they_are_reset", without_adoption_they_are_reset),
];

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
/// In a thread of a namespace.
type Inside<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
const PORT: u16 = 80;
const CONNECTIONS: usize = 32;
/// A connection without an answer for this long is broken.
const BROKEN: Duration = Duration::from_secs(20);

const QUIET: &[(&str, &str)] = &[
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
    // Of the router: connections of one client take both paths.
    ("net/ipv4/fib_multipath_hash_policy", "1"),
    // Of servers, which have the virtual address.
    ("net/ipv4/conf/all/arp_ignore", "1"),
    ("net/ipv4/conf/all/arp_announce", "2"),
];

fn namespace(name: &str) -> Outcome<Namespace> {
    let namespace = Namespace::new(name)?;
    let prepare = || -> Inside {
        Netlink::open()?.set_up(1)?;
        for (path, value) in QUIET {
            std::fs::write(format!("/proc/sys/{path}"), value).map_err(|e| format!("{path}: {e}"))?;
        }
        Ok(())
    };
    namespace.enter(prepare)?.map_err(|e| -> Box<dyn Error> { e })?;
    Ok(namespace)
}

/// One end of a link: where, its name, the last two bytes of its MAC address, and its address.
pub type Place<'a> = (&'a Namespace, &'a str, u16, Option<([u8; 4], u8)>);

fn end((namespace, name, mac, _): Place<'_>, index: u32) -> VethEnd<'_> {
    let [high, low] = mac.to_be_bytes();
    VethEnd { name, index, mac: [2, 0, 0, 0, high, low], namespace: namespace.as_fd(), queues: 1 }
}

/// Joins two namespaces. The indices of the interfaces are `index` and `index + 1000`.
pub fn link(index: u32, a: Place<'_>, b: Place<'_>) -> Outcome {
    let (first, second) = (end(a, index), end(b, index + 1000));
    a.0.enter(|| Netlink::open()?.add_veth(&first, &second, 1500))??;
    for ((namespace, _, _, address), index) in [(a, index), (b, index + 1000)] {
        namespace.enter(|| -> pointsman_lab::Result<()> {
            let mut netlink = Netlink::open()?;
            netlink.set_up(index)?;
            if let Some((address, prefix)) = address {
                netlink.add_address(index, Ipv4Addr::from(address).into(), prefix, 0)?;
            }
            Ok(())
        })??;
    }
    Ok(())
}

/// A server that says each byte back.
fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut writer = stream.try_clone()?;
    std::io::copy(&mut BufReader::new(stream), &mut writer).map(drop)
}

/// A machine with a switch, its controller, BIRD and the health check.
struct Machine {
    namespace: Namespace,
    number: usize,
    folder: Scratch,
    switch: Option<Running>,
    controller: Option<Running>,
    bird: Option<Process>,
    health: Option<Running>,
}

impl Machine {
    /// Starts a command in the namespace.
    fn start(&self, arguments: &[&str]) -> Outcome<Running> {
        Ok(self.namespace.enter(|| Running::start(arguments))?)
    }

    fn start_switch(&mut self) -> Outcome {
        let ports = ["-i", "1@p1", "-i", "2@p2", "-i", "3@p3"];
        let more = ["--port-kind", "af-packet", "--metrics", "127.0.0.1:9101"];
        self.switch = Some(self.start(&[&["switch"], &ports[..], &more[..]].concat())?);
        Ok(())
    }

    fn start_controller(&mut self, rack: &str) -> Outcome {
        self.controller = Some(self.start(&["controller", rack, "--metrics", "127.0.0.1:9102"])?);
        Ok(())
    }

    fn socket(&self) -> String {
        self.folder.path("bird.ctl")
    }

    fn drain_file(&self) -> String {
        self.folder.path("drain")
    }

    fn start_bird(&mut self) -> Outcome {
        let configuration = file(&format!("examples/bird/switch-{}.conf", self.number));
        self.bird = Some(bird(&self.namespace, &configuration, &self.socket())?);
        Ok(())
    }

    fn start_health(&mut self) -> Outcome {
        let (socket, drain) = (self.socket(), self.drain_file());
        let checks = ["--check", "http://127.0.0.1:9101/readyz", "--first", "http://127.0.0.1:9102/readyz"];
        let more =
            ["--protocol", "vip4", "--bird", &socket, "--drain", &drain, "--metrics", "127.0.0.1:9105"];
        self.health = Some(self.start(&[&["health"], &checks[..], &more[..]].concat())?);
        Ok(())
    }

    /// The sum of all samples of a metric with this text in their labels.
    fn metric(&self, port: u16, name: &str, label: &str) -> Outcome<f64> {
        let page = self.namespace.enter(|| -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: a\r\n\r\n")?;
            let mut page = String::new();
            stream.read_to_string(&mut page)?;
            Ok(page)
        })??;
        let samples = page.lines().filter(|l| l.starts_with(name) && l.contains(label));
        Ok(samples.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }
}

/// Starts BIRD and waits for its socket.
fn bird(namespace: &Namespace, configuration: &str, socket: &str) -> Outcome<Process> {
    let _ = std::fs::remove_file(socket);
    let mut bird =
        Process::start(namespace, "/usr/sbin/bird", &["-f", "-c", configuration, "-s", socket], "")?;
    bird.wait_until(PATIENCE, || Ok(UnixStream::connect(socket).is_ok()))?;
    Ok(bird)
}

/// The first lines of BIRD's answer to a command.
fn ask(socket: &str, command: &str) -> Outcome<Vec<String>> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    // The greeting.
    lines.next().ok_or("no greeting")??;
    (&stream).write_all(format!("{command}\n").as_bytes())?;
    let mut answer = Vec::new();
    for line in lines {
        let line = line?;
        let is_last =
            line.as_bytes().get(4) == Some(&b' ') && line.as_bytes()[..4].iter().all(u8::is_ascii_digit);
        answer.push(line);
        if is_last {
            break;
        }
    }
    Ok(answer)
}

/// Everything.
struct Bed {
    router: Namespace,
    boxes: [Machine; 2],
    router_socket: String,
    rack: String,
    _servers: [Namespace; 2],
    _listening: Vec<JoinHandle<()>>,
    _router_bird: Process,
    _folder: Scratch,
}

impl Bed {
    fn start(name: &str, adopt: bool) -> Outcome<Bed> {
        let router = namespace("router")?;
        let machines = [namespace("switch-1")?, namespace("switch-2")?];
        let servers = [namespace("server-1")?, namespace("server-2")?];
        for (n, machine) in machines.iter().enumerate() {
            let (k, i) = (n as u8 + 1, n as u32);
            let mgmt = format!("mgmt{k}");
            let data = format!("data{k}");
            link(
                10 + i,
                (&router, &mgmt, 0x0100 + u16::from(k), Some(([198, 18, k, 2], 30))),
                (machine, "mgmt0", 0x0110 + u16::from(k), Some(([198, 18, k, 1], 30))),
            )?;
            let own = ([192, 0, 2, 4 * (k - 1) + 2], 30);
            link(
                20 + i,
                (&router, &data, 0x0120 + u16::from(k), Some(own)),
                (machine, "p1", 0x0130 + u16::from(k), None),
            )?;
            for (s, server) in servers.iter().enumerate() {
                // A server has the same MAC address on its links to both switches.
                let mac = 0x010b + s as u16;
                let address = (n == 0).then_some(([10, 0, 1, 11 + s as u8], 24));
                link(
                    30 + 2 * i + s as u32,
                    (server, &format!("eth{n}"), mac, address),
                    (machine, &format!("p{}", 2 + s), 0x0140 + 2 * n as u16 + s as u16, None),
                )?;
            }
        }
        let mut listening = Vec::new();
        for (s, server) in servers.iter().enumerate() {
            let k = s as u8 + 1;
            link(
                40 + s as u32,
                (server, "up0", 0x0150 + s as u16, Some(([198, 51, 100, 4 * k + 1], 30))),
                (&router, &format!("up{k}"), 0x0160 + s as u16, Some(([198, 51, 100, 4 * k + 2], 30))),
            )?;
            let listen = || -> Inside<TcpListener> {
                let mut netlink = Netlink::open()?;
                netlink.add_address(1, IpAddr::V4(VIP), 32, 0)?;
                netlink.add_default_route(40 + s as u32, [198, 51, 100, 4 * k + 2].into(), false, 0)?;
                Ok(TcpListener::bind((VIP, PORT))?)
            };
            let listener = server.enter(listen)?.map_err(|e| -> Box<dyn Error> { e })?;
            let accept = move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    std::thread::spawn(move || serve(stream));
                }
            };
            listening.push(server.spawn("server", accept)?);
        }
        let folder = Scratch::new(&format!("health-{name}"));
        let mut text = std::fs::read_to_string(file("examples/bird/rack.toml"))?;
        if !adopt {
            text = text.replace("adopt_unknown = true", "adopt_unknown = false");
        }
        let rack = folder.write("rack.toml", text);
        let router_socket = folder.path("router.ctl");
        let router_bird = bird(&router, &file("examples/bird/router.conf"), &router_socket)?;
        let mut n = 0;
        let boxes = machines.map(|namespace| {
            n += 1;
            let folder = Scratch::new(&format!("health-{name}-{n}"));
            Machine { namespace, number: n, folder, switch: None, controller: None, bird: None, health: None }
        });
        let mut bed = Bed {
            router,
            boxes,
            router_socket,
            rack,
            _servers: servers,
            _listening: listening,
            _router_bird: router_bird,
            _folder: folder,
        };
        for machine in &mut bed.boxes {
            machine.start_bird()?;
            machine.start_switch()?;
            machine.start_controller(&bed.rack)?;
            machine.start_health()?;
        }
        Ok(bed)
    }

    /// Next hops of the virtual address in the router.
    fn paths(&self) -> Outcome<BTreeSet<String>> {
        let lines = ask(&self.router_socket, &format!("show route for {VIP}"))?;
        Ok(lines.iter().filter_map(|l| Some(l.trim().strip_prefix("via ")?.to_string())).collect())
    }

    /// Waits until the router has so many next hops; how long that took.
    fn wait_for_paths(&self, count: usize) -> Outcome<Duration> {
        let start = Instant::now();
        loop {
            let paths = self.paths()?;
            if paths.len() == count {
                return Ok(start.elapsed());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("{count} paths were expected, there are {paths:?}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Connections that are used all the time.
struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Duration, String>>>,
}

impl Clients {
    /// Opens them, each with one exchange.
    fn start(router: &Namespace) -> Outcome<Clients> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for _ in 0..CONNECTIONS {
            let stream =
                router.enter(|| TcpStream::connect_timeout(&SocketAddr::from((VIP, PORT)), BROKEN))??;
            stream.set_read_timeout(Some(BROKEN))?;
            stream.set_nodelay(true)?;
            exchange(&stream, 0)?;
            let stop = stop.clone();
            threads.push(std::thread::spawn(move || talk(&stream, &stop)));
        }
        Ok(Clients { stop, threads })
    }

    /// How many broke, and the longest pause of the others.
    fn end(self) -> (Vec<String>, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let results: Vec<_> =
            self.threads.into_iter().map(|t| t.join().expect("a client does not panic")).collect();
        let longest = results.iter().flatten().max().copied().unwrap_or_default();
        (results.into_iter().filter_map(Result::err).collect(), longest)
    }
}

fn exchange(mut stream: &TcpStream, number: u64) -> std::io::Result<()> {
    stream.write_all(&number.to_be_bytes())?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer)?;
    if u64::from_be_bytes(answer) == number { Ok(()) } else { Err(std::io::Error::other("a wrong answer")) }
}

/// Exchanges until the end; the longest time that one took.
fn talk(stream: &TcpStream, stop: &AtomicBool) -> Result<Duration, String> {
    let mut longest = Duration::ZERO;
    for number in 1.. {
        let start = Instant::now();
        exchange(stream, number).map_err(|e| format!("exchange {number}: {e}"))?;
        longest = longest.max(start.elapsed());
        if stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(longest)
}

const OPENED: &str = "pointsman_balancer_device_connections_total";
const DISPATCHED: &str = "pointsman_balancer_dispatches_total";

fn connections_outlive_drain_and_death() -> Outcome {
    if !pointsman_needs::programs("health_wire", &["bird2:bird"]) {
        return Ok(());
    }
    let mut bed = Bed::start("adopt", true)?;
    bed.wait_for_paths(2)?;
    let clients = Clients::start(&bed.router)?;
    let begun = [bed.boxes[0].metric(9101, OPENED, "")?, bed.boxes[1].metric(9101, OPENED, "")?];
    ensure!(begun.iter().all(|n| *n > 3.0), "the router spreads over both: {begun:?}");

    // Drained: the router's packets go to the other switch, which continues the connections.
    std::fs::write(bed.boxes[0].drain_file(), "")?;
    let drained = bed.wait_for_paths(1)?;
    std::thread::sleep(Duration::from_millis(500));
    let adopted = bed.boxes[1].metric(9101, DISPATCHED, "adopted")?;
    ensure!(adopted >= begun[0], "{adopted} adopted of {begun:?}");
    ensure!(bed.boxes[0].metric(9105, "pointsman_health_announced", "vip4")? == 0.0, "withdrawn");
    std::fs::remove_file(bed.boxes[0].drain_file())?;
    bed.wait_for_paths(2)?;

    // Killed.
    let start = Instant::now();
    bed.boxes[1].switch.as_mut().ok_or("no switch")?.stop();
    bed.wait_for_paths(1)?;
    let killed = start.elapsed();
    std::thread::sleep(Duration::from_millis(500));
    bed.boxes[1].start_switch()?;
    bed.wait_for_paths(2)?;

    // The switch continues without its controller.
    bed.boxes[1].controller.as_mut().ok_or("no controller")?.stop();
    // BIRD begins with the protocol disabled, and gets it enabled again.
    bed.boxes[0].bird = None;
    bed.wait_for_paths(1)?;
    bed.boxes[0].start_bird()?;
    bed.wait_for_paths(2)?;

    let (broken, longest) = clients.end();
    println!("drained after {drained:?}, killed after {killed:?}, longest pause {longest:?}");
    ensure!(broken.is_empty(), "{} of {CONNECTIONS} connections broke: {broken:?}", broken.len());
    ensure!(killed < Duration::from_secs(3), "{killed:?}");

    // Its end withdraws, and so does --withdraw after a crash.
    let health = bed.boxes[0].health.take().ok_or("no health")?.end(Signal::SIGTERM);
    ensure!(health.code == Some(0) && health.stderr.contains("ends: withdrawn"), "{health:?}");
    bed.wait_for_paths(1)?;
    bed.boxes[1].health.as_mut().ok_or("no health")?.stop();
    std::thread::sleep(Duration::from_millis(300));
    ensure!(bed.paths()?.len() == 1, "a crash changes nothing");
    let socket = bed.boxes[1].socket();
    let withdrawn = bed.boxes[1].start(&["health", "--withdraw", "--protocol", "vip4", "--bird", &socket])?;
    bed.wait_for_paths(0)?;
    drop(withdrawn);

    // Mistakes.
    let wrong = bed.boxes[1].start(&["health", "--withdraw", "--protocol", "vip5", "--bird", &socket])?;
    wrong.wait_for("BIRD has no protocol `vip5`");
    let wrong = bed.boxes[1].start(&["health", "--withdraw", "--protocol", "vip4", "--bird", "/nowhere"])?;
    wrong.wait_for("cannot connect to BIRD at /nowhere");
    Ok(())
}

/// The test above can fail.
fn without_adoption_they_are_reset() -> Outcome {
    if !pointsman_needs::programs("health_wire", &["bird2:bird"]) {
        return Ok(());
    }
    let bed = Bed::start("reset", false)?;
    bed.wait_for_paths(2)?;
    let clients = Clients::start(&bed.router)?;
    let begun = bed.boxes[0].metric(9101, OPENED, "")?;
    std::fs::write(bed.boxes[0].drain_file(), "")?;
    bed.wait_for_paths(1)?;
    std::thread::sleep(Duration::from_millis(500));
    let (broken, _) = clients.end();
    ensure!(broken.len() as f64 == begun, "{begun} connections of the first switch; {broken:?}");
    ensure!(broken.iter().all(|e| e.contains("reset")), "{broken:?}");
    Ok(())
}
