//! Packets of flows with and without entries, a number of them under way at a time, and what comes back.

use crate::bed::LINK_BIT_S;
use crate::bed::{Bed, FOUND, SENDER, UNKNOWN};
use crate::checker::{HOP, Host};
use crate::controller::Shared;
use pointsman_lab::{Error, Result};
use pointsman_ports::{Frame, FramePool, Poller, Port, Ready, Want, open_interface};
use pointsman_remote::Zipf;
use pointsman_wire::Random;
use pointsman_wire::frame::{USUAL, packet, udp};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A packet that has not come after this time is taken for lost.
pub const GIVE_UP: Duration = Duration::from_millis(300);
/// How long a host waits for packets before it looks at everything else, ten times as long as with a rate; and where it cannot wait.
const TURN: Duration = Duration::from_millis(1);
const SLEEP: Duration = Duration::from_micros(20);
/// Packets that are sent at once, at most, if a rate is given.
const BURST: u64 = 64;
/// Bytes of data in a packet that fills a link, and in a frame of it on the wire.
const FILLING: usize = 1400;
const ON_WIRE: u64 = FILLING as u64 + 42 + 24;
/// Such packets a second: an eighth more than the link carries.
const FILLING_RATE: u64 = LINK_BIT_S / 8 * 9 / 8 / ON_WIRE;
/// Bytes of packets besides their number; most are short.
const PADDINGS: [usize; 16] = [0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 70, 700, 1464];

/// What is sent.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Flows with entries, and those without, which follow.
    pub entries: u32,
    /// Flows without entries.
    pub absent: u32,
    /// Exponent of the popularity of flows with entries.
    pub zipf: f64,
    /// Flows whose entries change: half of the packets are of these, if there are any.
    pub changing: Range<u32>,
    /// Whether the sender gets packets, too.
    pub is_answered: bool,
    /// Packets under way at a time.
    pub window: usize,
    /// Packets a second, instead.
    pub rate: Option<u32>,
    /// Bytes of every packet besides its number; otherwise most are short, and some long.
    pub padding: Option<usize>,
    /// Where ordinary packets go that fill a link.
    pub server: Option<Ipv4Addr>,
    /// Random numbers.
    pub seed: u64,
}

/// The packets that returned.
#[derive(Clone, Debug, Default)]
pub struct Came {
    /// Their numbers, and nanoseconds from a packet's start to its return.
    pub passed: Vec<(usize, u64)>,
}

/// A host's interface, and what it is to send.
struct HostPort {
    host: Host,
    port: Box<dyn Port>,
    out: Vec<Frame>,
}

/// The hosts' interfaces: first the sender's.
pub struct Ports([HostPort; 3]);

fn open(bed: &Bed, host: Host, name: &str) -> Result<HostPort> {
    let place = bed.rack.host(name)?;
    let opened = place.namespace.enter(|| open_interface(&place.interface, Want::AfPacket))?;
    let port = opened.map_err(|e| Error::new(e.to_string()))?.0;
    Ok(HostPort { host, port, out: Vec::new() })
}

/// Opens the hosts' interfaces.
///
/// # Errors
/// The kernel refuses.
pub fn open_ports(bed: &Bed) -> Result<Ports> {
    Ok(Ports([
        open(bed, Host::Sender, SENDER.0)?,
        open(bed, Host::Found, FOUND.0)?,
        open(bed, Host::Unknown, UNKNOWN.0)?,
    ]))
}

/// Ports of which one is to have a frame. A host waits for it in the kernel, so that the time of a packet is that of its arrival.
pub struct Watch {
    poller: Option<Poller>,
    ready: Vec<Ready>,
}

impl Watch {
    /// These ports.
    pub fn new<'a>(ports: impl Iterator<Item = &'a dyn Port>) -> Self {
        let mut poller = Poller::new().ok();
        for (key, descriptor) in ports.filter_map(|port| port.raw_fd()).enumerate() {
            poller.iter_mut().for_each(|poller| poller.add(key, descriptor));
        }
        Watch { poller, ready: Vec::new() }
    }

    /// Waits for a frame, but not longer than this.
    pub fn wait(&mut self, most: Duration) {
        let until = Some(Instant::now() + most);
        let waited = self.poller.as_mut().map(|poller| poller.wait(until, &mut self.ready));
        if !matches!(waited, Some(Ok(_))) {
            std::thread::sleep(SLEEP);
        }
    }
}

/// The next packet's flow.
fn choose(random: &mut Random, zipf: &Zipf, traffic: &Traffic) -> u32 {
    let flows = traffic.entries + traffic.absent;
    if !traffic.changing.is_empty() && random.below(2) == 0 {
        return traffic.changing.start + random.below(traffic.changing.len() as u64) as u32;
    }
    let any = random.below(flows.into()) as u32;
    if any < traffic.entries { zipf.draw(random) } else { any }
}

/// What is due at a rate.
struct Paced {
    rate: u64,
    start: u64,
    /// Sent, or too late.
    done: u64,
}

impl Paced {
    fn new(rate: u64, start: u64) -> Self {
        Paced { rate, start, done: 0 }
    }

    /// How many are due now. What could not be sent in time is sent now, but not all of a long pause.
    fn due(&mut self, now: u64) -> usize {
        let all = u128::from(now.saturating_sub(self.start)) * u128::from(self.rate) / 1_000_000_000;
        let due = (all as u64).saturating_sub(self.done);
        self.done += due;
        due.min(BURST) as usize
    }
}

/// Ordinary packets to the first server, while its link is to be full.
struct Filling {
    frame: Vec<u8>,
    paced: Option<Paced>,
}

impl Filling {
    fn new(server: Option<Ipv4Addr>) -> Self {
        let source = Ipv4Addr::new(10, 0, 1, 1).into();
        let frame =
            |server: Ipv4Addr| packet(HOP, source, server.into(), 17, udp(9, 9, &[0; FILLING]), USUAL);
        Filling { frame: server.map(frame).unwrap_or_default(), paced: None }
    }

    /// How many are due.
    fn due(&mut self, is_on: bool, now: u64) -> usize {
        if !is_on || self.frame.is_empty() {
            self.paced = None;
            return 0;
        }
        self.paced.get_or_insert(Paced::new(FILLING_RATE, now)).due(now)
    }
}

/// Packets that a host got, and those under way.
struct Passing<'a> {
    shared: &'a Shared,
    came: Came,
    under_way: BTreeMap<u64, u64>,
    pool: FramePool,
    frames: Vec<Frame>,
}

impl Passing<'_> {
    /// Takes the packets that have come to a host. Returns whether there are any.
    fn receive(&mut self, ports: &mut Ports, at: usize) -> bool {
        let HostPort { host, port, .. } = &mut ports.0[at];
        // A link of these is never cut.
        let _ = port.receive(self.shared.now(), &mut self.pool, &mut self.frames);
        if self.frames.is_empty() {
            return false;
        }
        let mut checker = self.shared.checker();
        for frame in self.frames.drain(..) {
            let now = self.shared.now();
            if let Some((number, sent)) = checker.receive(now, *host, &frame) {
                self.came.passed.push((number as usize, now - sent));
                self.under_way.remove(&number);
            }
            self.pool.give(frame);
        }
        for (host, number, frame) in checker.take_answers() {
            self.under_way.insert(number, self.shared.now());
            ports.0.iter_mut().filter(|p| p.host == host).for_each(|p| p.out.push(frame.clone()));
        }
        true
    }

    /// Sends what a host is to send.
    fn transmit(&mut self, HostPort { port, out, .. }: &mut HostPort) {
        if !out.is_empty() {
            let _ = port.transmit(self.shared.now(), &mut self.pool, out);
            port.discard(&mut self.pool, out);
        }
    }
}

/// Sends packets until `shared.stop`, and a moment longer receives them.
pub fn run(mut ports: Ports, shared: &Shared, traffic: Traffic) -> Came {
    let mut random = Random::new(traffic.seed);
    let zipf = Zipf::new(traffic.entries, traffic.zipf);
    let mut passing = Passing {
        shared,
        came: Came::default(),
        under_way: BTreeMap::new(),
        pool: FramePool::default(),
        frames: Vec::new(),
    };
    let mut paced = traffic.rate.map(|rate| Paced::new(rate.into(), shared.now()));
    let mut filling = Filling::new(traffic.server);
    let receivers = if traffic.is_answered { 0..3 } else { 1..3 };
    let mut watch = Watch::new(ports.0[receivers.clone()].iter().map(|p| p.port.as_ref()));
    let turn = if paced.is_some() { TURN / 10 } else { TURN };
    let mut ends: Option<Instant> = None;
    while ends.is_none_or(|at| Instant::now() < at) {
        let mut idle = true;
        for at in receivers.clone() {
            idle &= !passing.receive(&mut ports, at);
        }
        let now = shared.now();
        let late = |at: &u64| *at + (GIVE_UP.as_nanos() as u64) < now;
        while let Some(first) = passing.under_way.first_entry().filter(|e| late(e.get())) {
            first.remove();
        }
        if ends.is_none() && shared.stop.load(Relaxed) {
            ends = Some(Instant::now() + GIVE_UP);
        }
        let due = match &mut paced {
            _ if shared.alone.load(Relaxed) => 1usize.saturating_sub(passing.under_way.len()),
            None => traffic.window.saturating_sub(passing.under_way.len()),
            Some(paced) => paced.due(shared.now()),
        };
        let fills = filling.due(shared.fill_link.load(Relaxed), shared.now());
        let out = &mut ports.0[0].out;
        out.extend((0..fills).map(|_| filling.frame.clone()));
        if ends.is_none() && due + fills > 0 {
            let mut checker = shared.checker();
            for _ in 0..due {
                let flow = choose(&mut random, &zipf, &traffic);
                let any = PADDINGS[random.below(PADDINGS.len() as u64) as usize];
                let padding = traffic.padding.unwrap_or(any);
                let (now, number) = (shared.now(), checker.verdict.sent);
                out.push(checker.send(now, flow, padding));
                passing.under_way.insert(number, now);
            }
            idle = false;
        }
        ports.0.iter_mut().for_each(|port| passing.transmit(port));
        if idle {
            watch.wait(turn);
        }
    }
    passing.came
}
