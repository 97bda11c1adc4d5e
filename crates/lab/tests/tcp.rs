//! The TCP of `transport` against Linux's, over a veth pair: files both ways, while frames get lost, marked, doubled and late.

use pointsman_lab::harness::Test;
use pointsman_lab::rack::{Link, join};
use pointsman_lab::{Namespace, ensure};
use pointsman_ports::{AfPacket, AfPacketConfig, Frame, FramePool, Poller, Port};
use pointsman_transport::header::{Route, encode, parse};
use pointsman_transport::{Algorithm, Config, Connection, Ecn, End, Segment, State, Stats, Stream};
use pointsman_wire::checksum::{folded, sum};
use pointsman_wire::frame::{self, ARP, IPV4, IPV6, TCP};
use pointsman_wire::{Mac, Random};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

pub const TESTS: &[(&str, Test)] = &[
    ("files_pass_both_ways", files_pass_both_ways),
    ("losses_and_reordering_are_repaired", losses_and_reordering_are_repaired),
    ("marks_are_understood", marks_are_understood),
    ("simpler_peers_are_understood", simpler_peers_are_understood),
    ("linux_connects", linux_connects),
    ("a_closed_port_refuses", a_closed_port_refuses),
];

/// Linux's port, and the first of ours: each connection has its own, because Linux remembers those that have ended.
pub(crate) const PORTS: (u16, u16) = (7000, 40_000);
pub(crate) const MS: u64 = 1_000_000;

/// What happens to a thousand frames of either direction.
#[derive(Clone, Copy, Default)]
struct Faults {
    lost: u64,
    twice: u64,
    /// Later by up to 1.5 round trips.
    late: u64,
    /// Marked by ECN, if they are capable of it.
    marked: u64,
}

/// One transfer.
pub(crate) struct Case {
    name: &'static str,
    v6: bool,
    faults: Faults,
    pub config: Config,
    /// Bytes to Linux, and from it.
    bytes: (usize, usize),
    linux_connects: bool,
    /// Our port.
    port: u16,
}

pub(crate) fn case(name: &'static str) -> Case {
    let config = Config { ecn: true, time_wait_ns: 50 * MS, ..Config::default() };
    let bytes = (1 << 20, 1 << 20);
    static NEXT: AtomicU16 = AtomicU16::new(PORTS.1);
    let port = NEXT.fetch_add(1, Ordering::Relaxed);
    Case { name, v6: false, faults: Faults::default(), config, bytes, linux_connects: false, port }
}

/// A cable between Linux and us. Our own kernel has other addresses, so it does not interfere.
pub(crate) struct Cable {
    pub linux: Namespace,
    pub ours: Namespace,
    link: Link,
    mac: Mac,
}

impl Cable {
    pub fn new() -> Outcome<Self> {
        let link = Link::in_subnet(1, 0);
        let mut other = link.clone();
        std::mem::swap(&mut other.ipv4, &mut other.gateway_ipv4);
        std::mem::swap(&mut other.ipv6, &mut other.gateway_ipv6);
        std::mem::swap(&mut other.mac, &mut other.gateway_mac);
        let (linux, ours) = (Namespace::new("linux")?, Namespace::new("ours")?);
        join((&linux, &link), (&ours, &other), 1500)?;
        linux.enter(|| {
            for (name, value) in
                [("tcp_ecn", "1"), ("tcp_no_metrics_save", "1"), ("tcp_congestion_control", "reno")]
            {
                fs::write(format!("/proc/sys/net/ipv4/{name}"), value)?;
            }
            std::io::Result::Ok(())
        })??;
        Ok(Cable { linux, ours, link, mac: other.mac })
    }

    /// Linux's address, and ours, which no kernel has.
    pub fn addresses(&self, v6: bool) -> (IpAddr, IpAddr) {
        let mut last = self.link.ipv6.segments();
        last[7] = 9;
        let [a, b, c, _] = self.link.ipv4.octets();
        if v6 {
            (self.link.ipv6.into(), Ipv6Addr::from(last).into())
        } else {
            (self.link.ipv4.into(), Ipv4Addr::new(a, b, c, 9).into())
        }
    }
}

/// Our host: a packet socket, and frames that wait for their time. Both ways take half a millisecond.
pub(crate) struct Host<'a> {
    cable: &'a Cable,
    route: Route,
    port: AfPacket,
    poller: Poller,
    pool: FramePool,
    random: Random,
    faults: Faults,
    start: Instant,
    /// By time and number: whether outwards, and the frame.
    waiting: BTreeMap<(u64, u64), (bool, Frame)>,
    number: u64,
    /// The largest window, before scaling, that segments have.
    pub clamp: Option<u16>,
    /// What was sent last.
    pub last: Segment,
}

impl<'a> Host<'a> {
    /// In our namespace.
    pub fn open(cable: &'a Cable, case: &Case) -> Outcome<Self> {
        let port = AfPacket::open("eth0", AfPacketConfig { join: false, ..AfPacketConfig::default() })?;
        let mut poller = Poller::new()?;
        poller.add(0, port.raw_fd().ok_or("no descriptor")?);
        let (linux, ours) = cable.addresses(case.v6);
        Ok(Host {
            cable,
            route: Route { addresses: (ours, linux), ports: (case.port, PORTS.0) },
            port,
            poller,
            pool: FramePool::default(),
            random: Random::new(7),
            faults: case.faults,
            start: Instant::now(),
            waiting: BTreeMap::new(),
            number: 0,
            clamp: None,
            last: Segment::default(),
        })
    }

    pub fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64 + 1
    }

    fn happens(&mut self, of_a_thousand: u64) -> bool {
        self.random.below(1000) < of_a_thousand
    }

    /// A frame enters the path.
    fn delay(&mut self, now: u64, outwards: bool, mut frame: Frame) {
        if self.happens(self.faults.lost) {
            return;
        }
        if self.happens(self.faults.marked) {
            mark(&mut frame);
        }
        let mut at = now + MS / 2;
        if self.happens(self.faults.late) {
            at += self.random.below(3 * MS / 2);
        }
        let copies = 1 + u64::from(self.happens(self.faults.twice));
        for copy in 0..copies {
            self.number += 1;
            self.waiting.insert((at + copy * MS / 5, self.number), (outwards, frame.clone()));
        }
    }

    /// Sends what waits to leave, without the rest of its delay.
    pub fn flush(&mut self) -> Outcome<()> {
        let now = self.now();
        let (leaving, rest) = std::mem::take(&mut self.waiting).into_iter().partition(|(_, (out, _))| *out);
        self.waiting = rest;
        let leaving: BTreeMap<_, (bool, Frame)> = leaving;
        let mut frames = leaving.into_values().map(|(_, frame)| frame).collect();
        self.port.transmit(now, &mut self.pool, &mut frames)?;
        Ok(())
    }

    /// Sends a segment.
    pub fn send(&mut self, now: u64, segment: &Segment, data: &[u8]) -> Outcome<()> {
        let mut segment = *segment;
        segment.window = self.clamp.map_or(segment.window, |most| segment.window.min(most));
        self.last = segment;
        let mut bytes = Vec::new();
        encode(&segment, &self.route, data, &mut bytes)?;
        let (from, to) = self.route.addresses;
        let hop = (self.cable.link.mac, self.cable.mac);
        let mut frame = frame::packet(hop, from, to, TCP, bytes.clone(), frame::USUAL);
        let at = frame.len() - bytes.len();
        ensure!(frame[at..] == bytes, "the checksum differs from that of another implementation");
        match from {
            IpAddr::V4(_) => frame[15] |= segment.ecn as u8,
            IpAddr::V6(_) => frame[15] |= (segment.ecn as u8) << 4,
        }
        complete(&mut frame);
        self.delay(now, true, frame);
        Ok(())
    }

    /// Answers questions for our address.
    fn resolve(&mut self, frame: &[u8]) -> Option<Frame> {
        let hop = (self.cable.link.mac, self.cable.mac);
        match (self.route.addresses, u16::from_be_bytes([frame[12], frame[13]])) {
            ((IpAddr::V4(ours), IpAddr::V4(linux)), ARP) if frame.get(38..42)? == ours.octets() => {
                Some(frame::arp(hop, 2, (self.cable.mac, ours), (self.cable.link.mac, linux)))
            }
            ((IpAddr::V6(ours), IpAddr::V6(linux)), IPV6)
                if frame.get(20) == Some(&frame::ICMPV6)
                    && frame.get(54) == Some(&135)
                    && frame.get(62..78)? == ours.octets() =>
            {
                Some(frame::advertisement(hop, linux, ours, self.cable.mac))
            }
            _ => None,
        }
    }

    /// The segment in a frame, if it is for us.
    fn read<'f>(&self, frame: &'f [u8]) -> Outcome<Option<(Segment, &'f [u8])>> {
        let (to, from) = self.route.addresses;
        let (packet, ecn) = match (u16::from_be_bytes([frame[12], frame[13]]), to) {
            (IPV4, IpAddr::V4(ours)) if frame[23] == TCP && frame[30..34] == ours.octets() => {
                let length = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
                (&frame[34..14 + length], frame[15])
            }
            (IPV6, IpAddr::V6(ours)) if frame[20] == TCP && frame[38..54] == ours.octets() => {
                let length = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
                (&frame[54..54 + length], frame[15] >> 4)
            }
            _ => return Ok(None),
        };
        let parsed = parse(packet, (from, to), Ecn::from_bits(ecn))?;
        Ok(Some((parsed.segment, parsed.data)))
    }

    /// Moves frames until `done`, with segments for `stream`, which the first SYN may create.
    pub fn run(
        &mut self,
        stream: &mut Option<Stream>,
        accept: impl Fn(u64, &Segment) -> Option<Stream>,
        mut done: impl FnMut(&mut Stream) -> bool,
    ) -> Outcome<()> {
        let (mut frames, mut ready, mut data) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let now = self.now();
            ensure!(now < 20_000 * MS, "no end: {:?}", stream.as_ref().map(|s| s.connection.stats()));
            self.port.receive(now, &mut self.pool, &mut frames)?;
            for frame in frames.drain(..) {
                match self.resolve(&frame) {
                    Some(answer) => drop(self.waiting.insert((now, 0), (true, answer))),
                    None => self.delay(now, false, frame),
                }
            }
            while let Some(entry) = self.waiting.first_entry().filter(|e| e.key().0 <= now) {
                let (outwards, frame) = entry.remove();
                if outwards {
                    self.port.transmit(now, &mut self.pool, &mut vec![frame])?;
                } else if let Some((segment, data)) = self.read(&frame)? {
                    match stream {
                        Some(stream) => stream.on_segment(now, &segment, data),
                        None => *stream = accept(now, &segment),
                    }
                    self.drain(now, stream, &mut data.to_vec())?;
                }
            }
            if let Some(due) = stream.as_mut().filter(|s| s.connection.deadline().is_some_and(|at| at <= now))
            {
                due.connection.on_deadline(now);
            }
            let over = stream.as_mut().is_some_and(&mut done);
            self.drain(now, stream, &mut data)?;
            if over {
                return Ok(());
            }
            let deadline = stream.as_ref().and_then(|s| s.connection.deadline());
            let first = self.waiting.first_key_value().map(|((at, _), _)| *at);
            let wake = deadline.into_iter().chain(first).min().unwrap_or(u64::MAX).min(now + 5 * MS);
            self.poller.wait(Some(self.start + Duration::from_nanos(wake)), &mut ready)?;
        }
    }

    fn drain(&mut self, now: u64, stream: &mut Option<Stream>, data: &mut Vec<u8>) -> Outcome<()> {
        let Some(stream) = stream else { return Ok(()) };
        data.clear();
        while let Some(segment) = stream.next_segment(now, data) {
            self.send(now, &segment, data)?;
            data.clear();
        }
        Ok(())
    }
}

/// Marks a frame as a queue would.
fn mark(frame: &mut [u8]) {
    let shift = match u16::from_be_bytes([frame[12], frame[13]]) {
        IPV4 => 0,
        IPV6 => 4,
        _ => return,
    };
    if Ecn::from_bits(frame[15] >> shift) != Ecn::NotCapable {
        frame[15] |= 3 << shift;
        complete(frame);
    }
}

/// Fills in the checksum of an IPv4 header.
fn complete(frame: &mut [u8]) {
    if u16::from_be_bytes([frame[12], frame[13]]) == IPV4 {
        frame[24..26].fill(0);
        let checksum = !folded(sum(&frame[14..34]));
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Whether nothing seemed lost. On a busy machine an ACK may take long enough for a probe or a time-out.
fn is_clean(stats: &Stats) -> bool {
    stats.timeouts > 0 || stats.retransmitted_segments <= stats.probes && stats.fast_recoveries == 0
}

/// Linux's side: sends its file, and returns the received one.
fn linux_side(mut socket: TcpStream, file: &[u8]) -> std::io::Result<Vec<u8>> {
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        let mut writer = socket.try_clone()?;
        let sent = scope.spawn(move || {
            writer.write_all(file)?;
            writer.shutdown(Shutdown::Write)
        });
        socket.read_to_end(&mut received)?;
        sent.join().map_err(|_| std::io::Error::other("the writer has panicked"))?
    })?;
    Ok(received)
}

/// Carries out a case: files both ways at the same time. Returns our end when it is closed.
fn transfer(cable: &Cable, case: Case) -> Outcome<(Connection, Stats)> {
    let mut random = Random::new(1);
    let (to_linux, from_linux) = (random.bytes(case.bytes.0), random.bytes(case.bytes.1));
    let (linux, ours) = cable.addresses(case.v6);
    let config = Arc::new(case.config.clone());
    let isn = 0xffff_ff00;
    let listener = cable.linux.enter(|| TcpListener::bind(SocketAddr::new(linux, PORTS.0)))??;
    let file = from_linux.clone();
    let (connects, port) = (case.linux_connects, case.port);
    let side = cable.linux.spawn("linux", move || {
        if connects {
            let to = SocketAddr::new(ours, port);
            return linux_side(bound(SocketAddr::new(linux, PORTS.0), to, listener)?, &file);
        }
        linux_side(listener.accept()?.0, &file)
    })?;
    let mut received = Vec::new();
    let mut window = 0;
    let connection = cable.ours.enter(|| -> Result<Connection, String> {
        let mut host = Host::open(cable, &case).map_err(|e| e.to_string())?;
        let begin = |connection| {
            let mut stream = Stream::new(connection, isn);
            stream.write(&to_linux);
            stream.connection.close();
            stream
        };
        let mut stream = (!connects).then(|| begin(Connection::connect(config.clone(), host.now(), isn)));
        let accept = |now, syn: &Segment| Connection::accept(config.clone(), now, isn, syn).map(begin);
        let done = |stream: &mut Stream| {
            stream.read(&mut received);
            window = window.max(stream.connection.stats().peer_window);
            stream.connection.state() == State::Closed
        };
        host.run(&mut stream, accept, done).map_err(|e| format!("{}: {e}", case.name))?;
        stream.map(|s| s.connection).ok_or_else(|| "no connection".into())
    })??;
    let theirs = side.join().map_err(|_| "Linux's side has panicked")??;
    let stats = connection.stats();
    println!("{}: {stats:?}", case.name);
    ensure!(theirs == to_linux, "{}: Linux has {} bytes: {stats:?}", case.name, theirs.len());
    ensure!(received == from_linux, "{}: we have {} bytes: {stats:?}", case.name, received.len());
    ensure!(connection.end() == Some(End::Closed), "{}: {:?}", case.name, connection.end());
    ensure!(case.bytes.0 < 1 << 20 || window > 65_535 || connection.scales().0 == 0, "{window}");
    Ok((connection, stats))
}

/// A connection from a certain address, which the listener occupies until then.
fn bound(from: SocketAddr, to: SocketAddr, listener: TcpListener) -> std::io::Result<TcpStream> {
    drop(listener);
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None)?;
    socket.bind(&from.into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

fn files_pass_both_ways() -> Result<(), Box<dyn Error>> {
    let cable = Cable::new()?;
    for v6 in [false, true] {
        let (connection, stats) = transfer(&cable, Case { v6, bytes: (4 << 20, 4 << 20), ..case("clean") })?;
        ensure!(connection.uses_sack() && connection.uses_timestamps() && connection.uses_ecn(), "{stats:?}");
        let scales = connection.scales();
        ensure!(scales.0 > 0 && scales.1 == 7 && connection.packet_bytes() > 1400, "{scales:?}");
        ensure!(is_clean(&stats), "{stats:?}");
    }
    Ok(())
}

fn losses_and_reordering_are_repaired() -> Result<(), Box<dyn Error>> {
    let cable = Cable::new()?;
    let bad = |lost, late, twice| Faults { lost, late, twice, marked: 0 };
    for (v6, faults, algorithm) in [
        (false, bad(10, 0, 0), Algorithm::Cubic),
        (true, bad(50, 0, 0), Algorithm::Reno),
        (false, bad(0, 50, 0), Algorithm::Cubic),
        (true, bad(20, 20, 20), Algorithm::Cubic),
        (false, bad(50, 50, 10), Algorithm::Reno),
    ] {
        let config = Config { algorithm, ..case("").config };
        let (_, stats) = transfer(&cable, Case { v6, faults, config, ..case("faults") })?;
        let lost = stats.segments * faults.lost / 1000;
        let (again, timeouts) = (u64::from(stats.retransmitted_segments), u64::from(stats.timeouts));
        ensure!(again >= lost / 2 && timeouts <= 3 + lost / 10, "{stats:?}");
        // A time-out may take a whole window as lost.
        let late = stats.segments * (faults.late + faults.twice) / 1000;
        ensure!(again <= 2 * lost + late + 20 + 100 * timeouts, "{stats:?}");
    }
    Ok(())
}

fn marks_are_understood() -> Result<(), Box<dyn Error>> {
    let cable = Cable::new()?;
    let faults = Faults { marked: 10, ..Faults::default() };
    for v6 in [false, true] {
        let (_, stats) = transfer(&cable, Case { v6, faults, ..case("marks") })?;
        // Both ends see marks, and reduce without losses.
        ensure!(stats.marked_acks > 0 && stats.marks > 0 && stats.ssthresh < u32::MAX, "{stats:?}");
        ensure!(is_clean(&stats), "{stats:?}");
    }
    Ok(())
}

fn simpler_peers_are_understood() -> Result<(), Box<dyn Error>> {
    let cable = Cable::new()?;
    let lossy = Faults { lost: 10, ..Faults::default() };
    let plain = Config { sack: false, timestamps: false, ecn: false, ..case("").config };
    let (connection, _) =
        transfer(&cable, Case { faults: lossy, config: plain, ..case("without SACK and timestamps") })?;
    ensure!(!connection.uses_sack() && !connection.uses_timestamps() && !connection.uses_ecn(), "");
    let small = Config { receive_buffer: 8000, timestamps: false, mss: 536, ..case("").config };
    let bytes = (100_000, 100_000);
    transfer(&cable, Case { faults: lossy, config: small, bytes, ..case("a small window") })?;
    Ok(())
}

fn linux_connects() -> Result<(), Box<dyn Error>> {
    let cable = Cable::new()?;
    let faults = Faults { lost: 10, late: 10, ..Faults::default() };
    for v6 in [false, true] {
        let (connection, stats) =
            transfer(&cable, Case { v6, faults, linux_connects: true, ..case("accepted") })?;
        ensure!(connection.uses_sack() && connection.uses_timestamps() && connection.uses_ecn(), "{stats:?}");
    }
    Ok(())
}

fn a_closed_port_refuses() -> Result<(), Box<dyn Error>> {
    let cable = Cable::new()?;
    let case = case("refused");
    let end = cable.ours.enter(|| -> Result<Option<End>, String> {
        let mut host = Host::open(&cable, &case).map_err(|e| e.to_string())?;
        let connection = Connection::connect(Arc::new(case.config.clone()), host.now(), 5);
        let mut stream = Some(Stream::new(connection, 5));
        let done = |stream: &mut Stream| stream.connection.state() == State::Closed;
        host.run(&mut stream, |_, _| None, done).map_err(|e| e.to_string())?;
        Ok(stream.and_then(|s| s.connection.end()))
    })??;
    ensure!(end == Some(End::Refused), "{end:?}");
    Ok(())
}
