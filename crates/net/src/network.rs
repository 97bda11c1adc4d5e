//! A topology with running switches: frames travel, and whatever happens to hosts and controllers is the caller's.

use crate::calendar::Calendar;
use crate::link::{Link, LinkCounts, LinkModel};
use crate::loader::Loader;
use crate::node::Node;
use crate::packet::{Packet, is_marked};
use crate::random::{Part, Stream};
use pointsman_ir::Executor;
use pointsman_topology::{CPU_PORT, End, HostId, LinkId, SwitchId, Topology};
use pointsman_v1model::{ConfigError, PortRate, QueueConfig, SwitchConfig, Time};
use std::collections::VecDeque;

/// Buffers that are kept for use again.
const SPARE: usize = 4096;
/// A port without a link.
const UNPLUGGED: u32 = u32::MAX;

#[derive(Clone, Copy)]
enum Event<A> {
    /// The first frame of this wire arrives.
    Arrive(u32),
    /// This switch has something to do.
    Poll(u32),
    /// The caller's.
    Actor(A),
}

/// What a caller has to see to.
#[derive(Debug, PartialEq)]
pub enum Happened<A> {
    /// A frame has reached a host.
    AtHost(HostId, Packet),
    /// A switch hands a frame to its control plane.
    ToCpu(SwitchId, Vec<u8>),
    /// The time of one of the caller's own events.
    Actor(A),
}

/// Sees every frame that enters a switch. A checker needs it; nothing else does.
pub trait Watch {
    /// A frame enters a switch.
    fn enters(&mut self, now: u64, switch: SwitchId, frame: &[u8]);
}

impl Watch for () {
    fn enters(&mut self, _: u64, _: SwitchId, _: &[u8]) {}
}

/// What all switches have in common.
#[derive(Clone, Copy, Debug)]
pub struct NetworkConfig {
    /// From a frame's leaving the queue of a switch to its first bit on the wire, in nanoseconds.
    pub latency_ns: u64,
    /// Of links' losses, and of the switches' own draws.
    pub seed: u64,
    /// Priority queues of each port, 1 to 8, which have equal parts of its bytes.
    pub queues: u8,
}

/// Traffic through one port of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames sent.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Frames for this port that did not reach the other end.
    pub drops: u64,
    /// Frames sent with a mark of congestion, made here or before.
    pub marks: u64,
}

/// A running network. `A` is the caller's kind of event.
pub struct Network<E: Executor, A> {
    topology: Topology,
    now: u64,
    calendar: Calendar<Event<A>>,
    nodes: Vec<Node<E>>,
    /// When each switch is polled next.
    polls: Vec<u64>,
    /// Two for each link: from its first end to its second, and back.
    wires: Vec<Link>,
    bytes: Vec<u64>,
    marks: Vec<u64>,
    /// By switch and port: the wire that leaves there.
    ports: Vec<Vec<u32>>,
    /// By host.
    uplinks: Vec<u32>,
    latency_ns: u64,
    waiting: VecDeque<Happened<A>>,
    buffers: Vec<Packet>,
    /// Frames that left on ports without a link.
    unplugged: u64,
}

fn end_of_wire(topology: &Topology, wire: u32) -> End {
    topology.links()[(wire / 2) as usize].ends[1 - (wire % 2) as usize]
}

/// A switch with the queues and rates of its links, and the wire that leaves at each of its ports.
fn switch<E: Executor + Send + Sync>(
    topology: &Topology,
    id: SwitchId,
    config: &NetworkConfig,
    loader: &Loader<E>,
) -> Result<(pointsman_v1model::Switch<E>, Vec<u32>), ConfigError> {
    let switch_config = SwitchConfig {
        cpu_port: Some(CPU_PORT.into()),
        input_depth_packets: 1 << 20,
        seed: Stream::new(config.seed, Part::Switch, u64::from(id.0)).bits(),
        nanoseconds: true,
        queues_per_port: config.queues,
        ..SwitchConfig::default()
    };
    let mut switch = pointsman_v1model::Switch::with_shared(switch_config, loader.load())?;
    let mut wires: Vec<u32> = Vec::new();
    for (port, link, _) in topology.ports(id) {
        let line = &topology.links()[link.0 as usize];
        let way = u32::from(line.ends[0] != End::Switch(id, port));
        wires.resize(wires.len().max(usize::from(port) + 1), UNPLUGGED);
        wires[usize::from(port)] = 2 * link.0 + way;
        let depth_bytes = Some(line.line.queue_bytes / u64::from(config.queues.max(1)));
        let queue = QueueConfig { depth_packets: u32::MAX, depth_bytes, ..QueueConfig::default() };
        switch.configure_queue(port.into(), None, queue)?;
        switch.configure_port_rate(port.into(), Some(PortRate::ethernet(line.line.bits_per_s)))?;
    }
    Ok((switch, wires))
}

/// Two wires for each link: from its first end to its second, and back.
fn wires(topology: &Topology, seed: u64) -> Vec<Link> {
    let mut wires = Vec::new();
    for (i, link) in topology.links().iter().enumerate() {
        let model = LinkModel {
            rate_bit_s: Some(link.line.bits_per_s as f64),
            delay_ns: link.line.delay_ns,
            // A switch's own queue is before the wire.
            queue_bytes: u64::MAX,
            ecn_bytes: None,
            loss: link.line.loss,
        };
        for way in 0..2 {
            let end = link.ends[way];
            let queue_bytes = if let End::Host(_) = end { link.line.queue_bytes } else { u64::MAX };
            let random = Stream::new(seed, Part::Link, (2 * i + way) as u64);
            wires.push(Link::new(&LinkModel { queue_bytes, ..model.clone() }, random));
        }
    }
    wires
}

/// The wire that leaves at each host.
fn uplinks(topology: &Topology) -> Vec<u32> {
    let mut uplinks = vec![UNPLUGGED; topology.hosts().len()];
    for (i, link) in topology.links().iter().enumerate() {
        for (way, end) in link.ends.iter().enumerate() {
            if let End::Host(h) = end {
                uplinks[h.0 as usize] = (2 * i + way) as u32;
            }
        }
    }
    uplinks
}

impl<E: Executor + Send + Sync, A: Copy> Network<E, A> {
    /// A network whose switches have no program yet.
    ///
    /// # Errors
    /// A rate or depth that no queue can have.
    pub fn new(topology: Topology, config: NetworkConfig, loader: &Loader<E>) -> Result<Self, ConfigError> {
        let mut nodes = Vec::new();
        let mut ports = Vec::new();
        for i in 0..topology.switches().len() {
            let (switch, wires) = switch(&topology, SwitchId(i as u32), &config, loader)?;
            ports.push(wires);
            nodes.push(Node::new(switch));
        }
        let wires = wires(&topology, config.seed);
        let uplinks = uplinks(&topology);
        Ok(Network {
            now: 0,
            calendar: Calendar::default(),
            polls: vec![u64::MAX; nodes.len()],
            nodes,
            bytes: vec![0; wires.len()],
            marks: vec![0; wires.len()],
            wires,
            ports,
            uplinks,
            latency_ns: config.latency_ns,
            waiting: VecDeque::new(),
            buffers: Vec::new(),
            unplugged: 0,
            topology,
        })
    }
}

impl<E: Executor, A: Copy> Network<E, A> {
    /// The time of what happened last, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// An empty buffer.
    pub fn buffer(&mut self) -> Packet {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// A buffer that is not needed any more.
    pub fn recycle(&mut self, buffer: Packet) {
        if self.buffers.len() < SPARE {
            self.buffers.push(buffer);
        }
    }

    /// Enters one of the caller's events.
    pub fn enter(&mut self, at: u64, what: A) {
        self.calendar.enter(at.max(self.now), Event::Actor(what));
    }

    /// A host sends a frame.
    pub fn send(&mut self, host: HostId, frame: Packet) {
        if let Some(wire) = self.uplinks.get(host.0 as usize).copied() {
            self.onto(wire, self.now, frame);
        }
    }

    /// When all that a host has sent so far will have left it, in nanoseconds; in the past if it has.
    #[inline]
    pub fn busy_until(&self, host: HostId) -> u64 {
        let wire = self.uplinks.get(host.0 as usize).copied().unwrap_or(UNPLUGGED);
        self.wires.get(wire as usize).map_or(0, Link::busy_until)
    }

    fn onto(&mut self, wire: u32, at: u64, frame: Packet) {
        let Some(link) = self.wires.get_mut(wire as usize) else {
            self.unplugged += 1;
            return self.recycle(frame);
        };
        self.bytes[wire as usize] += frame.len() as u64;
        self.marks[wire as usize] += u64::from(is_marked(&frame));
        match link.send(at, frame) {
            Ok(Some(at)) => self.calendar.enter(at, Event::Arrive(wire)),
            Ok(None) => {}
            Err(frame) => self.recycle(frame),
        }
    }

    /// The next thing that the caller has to see to, if it happens by `until`.
    pub fn next(&mut self, until: u64, watch: &mut impl Watch) -> Option<Happened<A>> {
        loop {
            if let Some(happened) = self.waiting.pop_front() {
                return Some(happened);
            }
            let (at, event) = self.calendar.pop_by(until)?;
            self.now = at;
            match event {
                Event::Actor(what) => return Some(Happened::Actor(what)),
                Event::Poll(switch) => self.poll(SwitchId(switch)),
                Event::Arrive(wire) => self.arrive(wire, watch),
            }
        }
    }

    fn arrive(&mut self, wire: u32, watch: &mut impl Watch) {
        let link = &mut self.wires[wire as usize];
        if link.next_at() != Some(self.now) {
            return; // the link was down meanwhile
        }
        let (frame, next) = link.arrive();
        if let Some(at) = next {
            self.calendar.enter(at, Event::Arrive(wire));
        }
        let Some(frame) = frame else { return };
        match end_of_wire(&self.topology, wire) {
            End::Host(host) => self.waiting.push_back(Happened::AtHost(host, frame)),
            End::Switch(switch, port) => {
                watch.enters(self.now, switch, &frame);
                self.nodes[switch.0 as usize].arrive(self.now, port.into(), frame);
                self.forward(switch);
            }
        }
    }

    /// Lets a switch work.
    fn poll(&mut self, switch: SwitchId) {
        let at = &mut self.polls[switch.0 as usize];
        if *at == self.now {
            *at = u64::MAX;
        }
        self.nodes[switch.0 as usize].poll(self.now);
        self.forward(switch);
    }

    /// Takes what has left a switch.
    fn forward(&mut self, switch: SwitchId) {
        let at = self.now + self.latency_ns;
        let node = switch.0 as usize;
        while let Some((port, frame)) = self.nodes[node].leaves() {
            let wire = self.ports[node].get(port as usize).copied().unwrap_or(UNPLUGGED);
            self.onto(wire, at, frame);
        }
        while let Some(frame) = self.nodes[node].to_cpu() {
            self.waiting.push_back(Happened::ToCpu(switch, frame));
        }
        if let Some(buffer) = self.nodes[node].unused() {
            self.recycle(buffer);
        }
        self.nodes[node].supply(&mut self.buffers);
        let next = self.nodes[node].switch.next_poll().map_or(u64::MAX, |t| t.0.max(self.now));
        if next < self.polls[node] {
            self.polls[node] = next;
            self.calendar.enter(next, Event::Poll(switch.0));
        }
    }

    /// A switch, for its control plane.
    pub fn switch(&mut self, switch: SwitchId) -> &mut pointsman_v1model::Switch<E> {
        &mut self.nodes[switch.0 as usize].switch
    }

    /// Something was done to a switch by its control plane: takes what left it.
    pub fn touched(&mut self, switch: SwitchId) {
        self.poll(switch);
    }

    /// A packet from the control plane of a switch.
    pub fn from_cpu(&mut self, switch: SwitchId, frame: &[u8]) {
        let now = Time(self.now);
        self.switch(switch).receive_cpu(now, frame);
        self.poll(switch);
    }

    /// A link goes down, or up again. Frames on the wire are lost; switches see it at once, hosts do not.
    pub fn set_link(&mut self, link: LinkId, up: bool) {
        for wire in [2 * link.0, 2 * link.0 + 1] {
            self.wires[wire as usize].set_up(up);
        }
        let Some(ends) = self.topology.links().get(link.0 as usize).map(|l| l.ends) else { return };
        for end in ends {
            if let End::Switch(switch, port) = end {
                self.switch(switch).set_port_status(port.into(), up);
                self.poll(switch);
            }
        }
    }

    /// Traffic out of a port.
    pub fn port_counts(&self, switch: SwitchId, port: u16) -> PortCounts {
        let wire = self.ports[switch.0 as usize].get(usize::from(port)).copied().unwrap_or(UNPLUGGED);
        let Some(link) = self.wires.get(wire as usize) else { return PortCounts::default() };
        let full = self.nodes[switch.0 as usize].switch.port_stats(port.into()).queue_full;
        let c = link.counts;
        PortCounts {
            packets: c.sent,
            bytes: self.bytes[wire as usize],
            marks: self.marks[wire as usize],
            drops: full + c.full + c.lost + c.down,
        }
    }

    /// The fate of all frames on links: sums over both directions of all.
    pub fn on_links(&self) -> LinkCounts {
        let mut all = LinkCounts::default();
        self.wires.iter().for_each(|link| all.add(&link.counts));
        all
    }

    /// Frames that switches have sent on this link, in either direction, since it went down, and when the last one was.
    pub fn sent_into_cut(&self, link: LinkId) -> (u64, Option<u64>) {
        let wires =
            [2 * link.0, 2 * link.0 + 1].into_iter().filter_map(|w| self.wires.get(w as usize)?.refused());
        wires.fold((0, None), |(n, last), (frames, at)| (n + frames, last.max(Some(at))))
    }

    /// Frames on wires now.
    pub fn in_flight(&self) -> u64 {
        self.wires.iter().map(Link::in_flight).sum()
    }

    /// Frames that left on ports without a link.
    pub fn unplugged(&self) -> u64 {
        self.unplugged
    }
}
