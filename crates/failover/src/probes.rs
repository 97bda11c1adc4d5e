//! Small packets over UDP, sent all the time: how long none passes, and what those that pass show.

use crate::app::{App, ECHO};
use pointsman_lab::rack::Host;
use pointsman_lab::{Error, Namespace, Result};
use pointsman_ports::{Observer, Poller, Ready, Way};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The first source port; flow N has the N-th.
const FIRST: u16 = 20_000;
/// Bytes in front of the payload: Ethernet, IPv4, UDP.
pub const FRONT: usize = 42;
/// Bytes at the end of the payload: flow and number.
const MARK: usize = 8;

/// How packets of a probe are seen after the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The server sends them back, and the client receives them.
    Echoed,
    /// At the interfaces of the server, or of the client if they return.
    Watched,
}

/// A packet that was seen.
#[derive(Clone, Debug)]
pub struct Sight {
    /// When.
    pub at: Duration,
    /// As it was. Only for packets that are [`Seen::Watched`].
    pub frame: Vec<u8>,
    /// It returned to the client.
    pub returned: bool,
}

/// A packet.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// When it was sent.
    pub sent: Duration,
    /// As it left the client's interface, if it did. Only for packets that are [`Seen::Watched`].
    pub frame: Option<Vec<u8>>,
    /// How it was seen first.
    pub seen: Option<Sight>,
    /// How often it was seen.
    pub times: u32,
}

/// The packets of each flow, in the order in which they were sent.
pub type Flows = Vec<Vec<Packet>>;

/// Probes that run. They end when they are dropped.
pub struct Probes {
    shared: Arc<Shared>,
    /// Flows of a set.
    at_a_time: usize,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of the probes share.
struct Shared {
    start: Instant,
    stop: AtomicBool,
    flows: Mutex<Flows>,
    /// A packet was seen.
    seen: Condvar,
}

/// When packets are sent.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// At regular times, so far apart.
    Every(Duration),
    /// As soon as fewer than so many are under way.
    UnderWay(usize),
}

/// A packet that was not seen after this time is not under way any more.
const GIVE_UP: Duration = Duration::from_millis(300);

/// What probes send.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of flows at a time.
    pub flows: u16,
    /// After so many packets each, as many other flows follow.
    pub packets: u64,
    /// How often that happens before the first flows continue.
    pub sets: u16,
    /// When packets are sent.
    pub pace: Pace,
    /// The application that they pass.
    pub app: App,
    /// Of the requests for a key-value store, the percentage of updates.
    pub updates: u32,
    /// Where they go: a server, or the service of several.
    pub to: Ipv4Addr,
}

impl Plan {
    /// The usual ones: eight flows without an end, a packet of one of them every millisecond.
    pub fn endless(app: App, to: Ipv4Addr) -> Plan {
        let pace = Pace::Every(Duration::from_millis(1));
        Plan { flows: 8, packets: u64::MAX, sets: 1, pace, app, updates: 50, to }
    }

    /// All flows.
    fn count(self) -> usize {
        usize::from(self.flows) * usize::from(self.sets)
    }

    /// The flow of a packet, of all packets from 0 on.
    fn flow(self, turn: u64) -> usize {
        let flows = u64::from(self.flows.max(1));
        let set = turn / flows / self.packets.max(1) % u64::from(self.sets.max(1));
        (set * flows + turn % flows) as usize
    }
}

impl Probes {
    /// Starts them from the client to the servers.
    pub fn start(client: &Host, servers: &[&Host], plan: Plan) -> Result<Self> {
        let shared = Arc::new(Shared {
            start: Instant::now(),
            stop: AtomicBool::new(false),
            flows: Mutex::new(vec![Vec::new(); plan.count()]),
            seen: Condvar::new(),
        });
        let at_a_time = usize::from(plan.flows.max(1));
        let mut probes = Probes { shared, at_a_time, threads: Vec::new() };
        let (from, client) = (client.link.ipv4, &client.namespace);
        let sockets = client.enter(|| sockets(from, plan.count()))??;
        match plan.app.seen() {
            Seen::Echoed => {
                for host in servers {
                    let socket = host.namespace.enter(|| bound((host.link.ipv4, ECHO).into()))??;
                    let watch = Watch::new([socket.as_raw_fd()])?;
                    probes.run(&host.namespace, "echo", move |shared| echo(&socket, watch, shared))?;
                }
                // A thread waits for few sockets, so that each wait is short.
                for set in sockets.chunks(at_a_time) {
                    let receivers = copies(set)?;
                    let watch = Watch::new(receivers.iter().map(AsRawFd::as_raw_fd))?;
                    probes.run(client, "probe answers", move |shared| {
                        receive(&receivers, watch, shared);
                    })?;
                }
            }
            Seen::Watched => {
                // Every link, because packets pass over both switches.
                let servers = servers.iter().map(|host| (&host.namespace, false));
                for (host, is_client) in [(client, true)].into_iter().chain(servers) {
                    for interface in ["eth0", "eth1"] {
                        let observer = host.enter(|| Observer::open(interface))?;
                        let observer = observer.map_err(|e| Error::new(e.to_string()))?;
                        let watch = Watch::new([observer.raw_fd()])?;
                        probes.run(host, "observer", move |shared| {
                            observe((observer, watch), is_client, plan, shared);
                        })?;
                    }
                }
            }
        }
        probes.run(client, "probes", move |shared| send(&sockets, plan, shared))?;
        Ok(probes)
    }

    fn run(
        &mut self,
        namespace: &Namespace,
        name: &str,
        job: impl FnOnce(&Shared) + Send + 'static,
    ) -> Result<()> {
        let shared = self.shared.clone();
        self.threads.push(namespace.spawn(name, move || job(&shared))?);
        Ok(())
    }

    /// When they started.
    pub fn began(&self) -> Instant {
        self.shared.start
    }

    /// Time since their start.
    pub fn elapsed(&self) -> Duration {
        self.shared.start.elapsed()
    }

    /// Whether a packet of every flow of a set has passed. Those of the first sets may be lost while the store waits for a lease.
    pub fn all_pass(&self) -> bool {
        all_of_a_set(&self.shared.lock(), self.at_a_time)
    }

    /// Ends them, and gives all packets.
    pub fn finish(mut self) -> Flows {
        self.end();
        std::mem::take(&mut *self.shared.lock())
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has been reported where it did; its packets are missing.
            let _ = thread.join();
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Notes that a packet of a flow is sent now: its number.
    fn sent(&self, flow: usize) -> u32 {
        let mut flows = self.lock();
        flows[flow].push(Packet { sent: self.start.elapsed(), ..Packet::default() });
        flows[flow].len() as u32 - 1
    }

    /// Waits until fewer than so many of these packets, by flow and number, are under way, and forgets the others.
    fn wait_for_room(&self, most: usize, under_way: &mut Vec<(usize, u32)>) {
        let mut flows = self.lock();
        while !self.ends() {
            let now = self.start.elapsed();
            under_way.retain(|(flow, number)| {
                let packet = flows[*flow].get(*number as usize);
                packet.is_some_and(|packet| packet.seen.is_none() && now < packet.sent + GIVE_UP)
            });
            if under_way.len() < most {
                return;
            }
            let waited = self.seen.wait_timeout(flows, GIVE_UP / 10);
            flows = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes that a packet was seen, or left the client in this frame.
    fn note(&self, payload: &[u8], noted: std::result::Result<Sight, &[u8]>) {
        let Some((rest, number)) = payload.split_last_chunk() else { return };
        let Some(flow) = rest.last_chunk() else { return };
        let (flow, number) = (u32::from_be_bytes(*flow) as usize, u32::from_be_bytes(*number) as usize);
        let mut flows = self.lock();
        if let Some(packet) = flows.get_mut(flow).and_then(|packets| packets.get_mut(number)) {
            match noted {
                Err(frame) => packet.frame = Some(frame.to_vec()),
                Ok(sight) => {
                    packet.times += 1;
                    packet.seen.get_or_insert(sight);
                    self.seen.notify_one();
                }
            }
        }
    }
}

/// Whether every flow of some set, of so many each, has a packet that was seen.
fn all_of_a_set(flows: &Flows, at_a_time: usize) -> bool {
    let passes = |packets: &Vec<Packet>| packets.iter().any(|p| p.seen.is_some());
    flows.chunks(at_a_time).any(|set| set.iter().all(passes))
}

fn bound(at: SocketAddr) -> Result<UdpSocket> {
    let failed = |e| Error::os(format!("cannot open a socket at {at}"), e);
    let socket = UdpSocket::bind(at).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(socket)
}

fn sockets(from: Ipv4Addr, flows: usize) -> Result<Vec<UdpSocket>> {
    (FIRST..).take(flows).map(|port| bound((from, port).into())).collect()
}

fn copies(sockets: &[UdpSocket]) -> Result<Vec<UdpSocket>> {
    let copy = |s: &UdpSocket| s.try_clone().map_err(|e| Error::os("cannot copy a socket", e));
    sockets.iter().map(copy).collect()
}

/// How often threads look whether the probes end.
const LOOK: Duration = Duration::from_millis(200);

/// Descriptors that a thread reads. It waits in the kernel, so that the time of a packet is that of its arrival.
struct Watch {
    poller: Poller,
    ready: Vec<Ready>,
}

impl Watch {
    fn new(descriptors: impl IntoIterator<Item = RawFd>) -> Result<Self> {
        let mut poller = Poller::new().map_err(|e| Error::os("cannot wait for probes", e))?;
        descriptors.into_iter().enumerate().for_each(|(key, descriptor)| poller.add(key, descriptor));
        Ok(Watch { poller, ready: Vec::new() })
    }

    /// Waits until one of them has something to read, or an error.
    fn wait(&mut self) {
        if self.poller.wait(Some(Instant::now() + LOOK), &mut self.ready).is_err() {
            rest();
        }
    }
}

/// After an error that may last.
fn rest() {
    std::thread::sleep(Duration::from_micros(500));
}

fn echo(socket: &UdpSocket, mut watch: Watch, shared: &Shared) {
    let mut buffer = [0; 64];
    while !shared.ends() {
        watch.wait();
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            // One that cannot be sent is lost, which is what probes are for.
            let _ = socket.send_to(&buffer[..length], from);
        }
    }
}

/// Sends a packet of each flow, flow by flow.
fn send(sockets: &[UdpSocket], plan: Plan, shared: &Shared) {
    let mut due = shared.start;
    let mut under_way = Vec::new();
    for turn in 0u64.. {
        match plan.pace {
            Pace::Every(gap) => {
                if let Some(wait) = due.checked_duration_since(Instant::now()) {
                    std::thread::sleep(wait);
                }
                due += gap;
            }
            Pace::UnderWay(most) => shared.wait_for_room(most, &mut under_way),
        }
        if shared.ends() {
            return;
        }
        let flow = plan.flow(turn);
        let number = shared.sent(flow);
        if let Pace::UnderWay(_) = plan.pace {
            under_way.push((flow, number));
        }
        let (to, port, front) = plan.app.probe(flow as u32, number, plan);
        let payload = [&front[..], &(flow as u32).to_be_bytes(), &number.to_be_bytes()].concat();
        match sockets[flow].send_to(&payload, (to, port)) {
            Ok(_) => {}
            // No route for a moment, or no room: lost.
            Err(e) if e.kind() != ErrorKind::InvalidInput => {}
            Err(_) => return,
        }
    }
}

fn receive(sockets: &[UdpSocket], mut watch: Watch, shared: &Shared) {
    let mut buffer = [0; 64];
    while !shared.ends() {
        watch.wait();
        for socket in watch.ready.iter().filter_map(|ready| sockets.get(ready.key)) {
            while let Ok(length) = socket.recv(&mut buffer) {
                let sight = Sight { at: shared.start.elapsed(), frame: Vec::new(), returned: true };
                shared.note(&buffer[..length], Ok(sight));
            }
        }
    }
}

/// Watches an interface of the client, or of the server.
fn observe((mut observer, mut watch): (Observer, Watch), is_client: bool, plan: Plan, shared: &Shared) {
    // What the first two packets of a flow are sent to: of each kind there is one.
    let ends = [0, 1].map(|number| {
        let (to, port, _) = plan.app.probe(0, number, plan);
        (to.octets(), port.to_be_bytes())
    });
    while !shared.ends() {
        let seen = observer.observe(shared.start.elapsed().as_nanos() as u64, |way, frame| {
            if frame.len() < FRONT + MARK || frame[12..14] != [8, 0] || frame[23] != 17 {
                return;
            }
            // Destinations at the server are what the program made of them.
            let to = |(address, port): &([u8; 4], [u8; 2])| {
                frame[36..38] == *port && (frame[30..34] == *address || frame[30..34] == plan.to.octets())
            };
            let from =
                |(address, port): &([u8; 4], [u8; 2])| frame[26..30] == *address && frame[34..36] == *port;
            let sight = |returned| Ok(Sight { at: shared.start.elapsed(), frame: frame.to_vec(), returned });
            match (is_client, way) {
                (true, Way::Out) if ends.iter().any(to) => shared.note(&frame[FRONT..], Err(frame)),
                (true, Way::In) if ends.iter().any(from) => shared.note(&frame[FRONT..], sight(true)),
                (false, Way::In) if ends.iter().any(to) => shared.note(&frame[FRONT..], sight(false)),
                _ => {}
            }
        });
        match seen {
            Ok(0) => watch.wait(),
            Ok(_) => {}
            // The link may return.
            Err(_) => rest(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_passes_when_all_of_its_flows_do() {
        let sight = Sight { at: Duration::ZERO, frame: Vec::new(), returned: true };
        let seen = Packet { seen: Some(sight), ..Packet::default() };
        let mut flows =
            vec![vec![Packet::default(), seen.clone()], vec![Packet::default()], vec![seen.clone()], vec![]];
        assert!(!all_of_a_set(&flows, 2));
        flows[3].push(seen);
        assert!(all_of_a_set(&flows, 2) && !all_of_a_set(&flows, 4));
    }

    #[test]
    fn packets_make_room_when_they_are_seen_or_given_up() {
        let shared = Shared {
            start: Instant::now(),
            stop: AtomicBool::new(false),
            flows: Mutex::new(vec![Vec::new(); 2]),
            seen: Condvar::new(),
        };
        let mut under_way = vec![(0, shared.sent(0)), (1, shared.sent(1)), (1, shared.sent(1))];
        assert_eq!(under_way, [(0, 0), (1, 0), (1, 1)]);
        let mark = |flow: u32, number: u32| [flow.to_be_bytes(), number.to_be_bytes()].concat();
        let sight = || Sight { at: shared.start.elapsed(), frame: Vec::new(), returned: true };
        shared.note(&mark(1, 0), Ok(sight()));
        // A packet that was never sent.
        shared.note(&mark(0, 9), Ok(sight()));
        shared.wait_for_room(3, &mut under_way);
        assert_eq!(under_way, [(0, 0), (1, 1)]);
        std::thread::scope(|scope| {
            scope.spawn(|| shared.note(&mark(1, 1), Ok(sight())));
            shared.wait_for_room(2, &mut under_way);
        });
        assert_eq!(under_way, [(0, 0)]);
        shared.wait_for_room(1, &mut under_way);
        assert!(under_way.is_empty() && shared.start.elapsed() >= GIVE_UP);
    }

    #[test]
    fn other_flows_follow_when_these_have_their_packets() {
        let plan = Plan { flows: 2, packets: 3, sets: 2, ..Plan::endless(App::Nat, Ipv4Addr::LOCALHOST) };
        let flows: Vec<usize> = (0..14).map(|turn| plan.flow(turn)).collect();
        assert_eq!(flows, [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 0, 1]);
        assert_eq!(plan.count(), 4);
        let endless = Plan::endless(App::Nat, Ipv4Addr::LOCALHOST);
        assert_eq!((endless.flow(7), endless.flow(8), endless.flow(1 << 40)), (7, 0, 0));
    }
}
