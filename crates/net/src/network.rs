//! Running switches and links between them: frames travel, and whatever happens to hosts and controllers is the caller's.

use crate::calendar::Calendar;
use crate::link::{Link, LinkCounts};
use crate::packet::Packet;
use crate::turn::Turn;
use pointsman_ir::Executor;
use pointsman_topology::{End, HostId, LinkId, SwitchId};
use pointsman_v1model::{Switch, Time};
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

/// What has happened. Switches may have handed over frames meanwhile: see [`Network::take_for_cpu`].
#[derive(Debug, PartialEq)]
pub enum Happened<A> {
    /// A frame has reached a host.
    AtHost(HostId, Packet),
    /// A switch has worked. What left it is on its way.
    AtSwitch,
    /// The time of one of the caller's own events.
    Actor(A),
}

/// Sees frames on their way. Checkers and counts need it; nothing else does.
pub trait Watch {
    /// A frame enters a switch.
    fn enters(&mut self, _now: u64, _switch: SwitchId, _frame: &[u8]) {}

    /// A frame leaves a switch. `false` makes it vanish, in tests of checkers.
    fn leaves(&mut self, _frame: &[u8]) -> bool {
        true
    }

    /// A frame is lost on a link, or left on a port that has none.
    fn lost(&mut self, _frame: &[u8]) {}
}

impl Watch for () {}

/// A link of a network.
#[derive(Debug)]
pub struct Cable {
    /// Where it ends. A host has one link; a machine with several is several hosts.
    pub ends: [End; 2],
    /// From its first end to its second, and back.
    pub ways: [Link; 2],
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
    now: u64,
    events: u64,
    calendar: Calendar<Event<A>>,
    switches: Vec<Switch<E>>,
    turn: Turn<E>,
    /// When each switch is polled next.
    polls: Vec<u64>,
    /// Two for each link: from its first end to its second, and back.
    wires: Vec<Link>,
    /// By wire: where it ends.
    ends: Vec<End>,
    /// By switch and port: the wire that leaves there.
    ports: Vec<Vec<u32>>,
    /// By host.
    uplinks: Vec<u32>,
    latency_ns: u64,
    /// Frames for control planes.
    for_cpu: VecDeque<(SwitchId, Vec<u8>)>,
    buffers: Vec<Packet>,
    /// Frames that left on ports without a link.
    unplugged: u64,
}

fn place(wires: &mut Vec<u32>, at: usize, wire: u32) {
    wires.resize(wires.len().max(at + 1), UNPLUGGED);
    wires[at] = wire;
}

impl<E: Executor, A: Copy> Network<E, A> {
    /// Switches, by their ids, and the links between them, by theirs. `latency_ns` is from a frame's leaving the queue of a switch to
    /// its first bit on the wire.
    pub fn new(switches: Vec<Switch<E>>, cables: impl IntoIterator<Item = Cable>, latency_ns: u64) -> Self {
        let mut ports = vec![Vec::new(); switches.len()];
        let (mut uplinks, mut wires, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for cable in cables {
            let [a, b] = cable.ends;
            ends.extend([b, a]);
            for (from, link) in cable.ends.into_iter().zip(cable.ways) {
                let wire = wires.len() as u32;
                wires.push(link);
                match from {
                    End::Host(host) => place(&mut uplinks, host.0 as usize, wire),
                    End::Switch(switch, port) => place(&mut ports[switch.0 as usize], port.into(), wire),
                }
            }
        }
        Network {
            now: 0,
            events: 0,
            calendar: Calendar::default(),
            polls: vec![u64::MAX; switches.len()],
            switches,
            turn: Turn::default(),
            wires,
            ends,
            ports,
            uplinks,
            latency_ns,
            for_cpu: VecDeque::new(),
            buffers: Vec::new(),
            unplugged: 0,
        }
    }

    /// The time, in nanoseconds: of what happened last, or what [`Network::wait`] has made it.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Lets time pass in which nothing happens.
    pub fn wait(&mut self, until: u64) {
        self.now = self.now.max(until);
    }

    /// How many events there were, of all kinds.
    pub fn events(&self) -> u64 {
        self.events
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

    /// Buffers to use again.
    pub fn buffers(&mut self) -> &mut Vec<Packet> {
        &mut self.buffers
    }

    /// Enters one of the caller's events.
    #[inline]
    pub fn enter(&mut self, at: u64, what: A) {
        self.calendar.enter(at.max(self.now), Event::Actor(what));
    }

    /// A host sends a frame.
    #[inline]
    pub fn send(&mut self, host: HostId, frame: Packet, watch: &mut impl Watch) {
        let wire = self.uplinks.get(host.0 as usize).copied().unwrap_or(UNPLUGGED);
        self.onto(wire, self.now, frame, watch);
    }

    /// When all that a host has sent so far will have left it, in nanoseconds; in the past if it has.
    #[inline]
    pub fn busy_until(&self, host: HostId) -> u64 {
        let wire = self.uplinks.get(host.0 as usize).copied().unwrap_or(UNPLUGGED);
        self.wires.get(wire as usize).map_or(0, Link::busy_until)
    }

    fn onto(&mut self, wire: u32, at: u64, frame: Packet, watch: &mut impl Watch) {
        let Some(link) = self.wires.get_mut(wire as usize) else {
            self.unplugged += 1;
            return self.lose(frame, watch);
        };
        match link.send(at, frame) {
            Ok(Some(at)) => self.calendar.enter(at, Event::Arrive(wire)),
            Ok(None) => {}
            Err(frame) => self.lose(frame, watch),
        }
    }

    fn lose(&mut self, frame: Packet, watch: &mut impl Watch) {
        watch.lost(&frame);
        self.recycle(frame);
    }

    /// What happens next, if it happens by `until`.
    #[inline]
    pub fn next(&mut self, until: u64, watch: &mut impl Watch) -> Option<Happened<A>> {
        loop {
            let (at, event) = self.calendar.pop_by(until)?;
            self.now = at;
            self.events += 1;
            match event {
                Event::Actor(what) => return Some(Happened::Actor(what)),
                Event::Arrive(wire) => {
                    if let Some(happened) = self.arrive(wire, watch) {
                        return Some(happened);
                    }
                }
                Event::Poll(switch) => {
                    self.poll(SwitchId(switch), watch);
                    return Some(Happened::AtSwitch);
                }
            }
        }
    }

    fn arrive(&mut self, wire: u32, watch: &mut impl Watch) -> Option<Happened<A>> {
        let link = &mut self.wires[wire as usize];
        if link.next_at() != Some(self.now) {
            return None; // the link was down meanwhile
        }
        let (frame, next) = link.arrive();
        if let Some(at) = next {
            self.calendar.enter(at, Event::Arrive(wire));
        }
        let frame = frame?;
        match self.ends[wire as usize] {
            End::Host(host) => Some(Happened::AtHost(host, frame)),
            End::Switch(switch, port) => {
                watch.enters(self.now, switch, &frame);
                self.turn.arrive(&mut self.switches[switch.0 as usize], self.now, port.into(), frame);
                self.forward(switch, watch);
                Some(Happened::AtSwitch)
            }
        }
    }

    /// Lets a switch work.
    fn poll(&mut self, switch: SwitchId, watch: &mut impl Watch) {
        let at = &mut self.polls[switch.0 as usize];
        if *at == self.now {
            *at = u64::MAX;
        }
        self.turn.poll(&mut self.switches[switch.0 as usize], self.now);
        self.forward(switch, watch);
    }

    /// Takes what has left a switch. All frames take the same time from its queues to the wire, so they stay in order.
    fn forward(&mut self, switch: SwitchId, watch: &mut impl Watch) {
        let at = self.now + self.latency_ns;
        let node = switch.0 as usize;
        while let Some((port, frame)) = self.turn.leaves() {
            if watch.leaves(&frame) {
                let wire = self.ports[node].get(port as usize).copied().unwrap_or(UNPLUGGED);
                self.onto(wire, at, frame, watch);
            }
        }
        while let Some(frame) = self.turn.take_for_cpu() {
            self.for_cpu.push_back((switch, frame));
        }
        if let Some(buffer) = self.turn.unused() {
            self.recycle(buffer);
        }
        self.turn.supply(&mut self.buffers);
        let next = self.switches[node].next_poll().map_or(u64::MAX, |t| t.0.max(self.now));
        if next < self.polls[node] {
            self.polls[node] = next;
            self.calendar.enter(next, Event::Poll(switch.0));
        }
    }

    /// The next frame that a switch has handed to its control plane.
    #[inline]
    pub fn take_for_cpu(&mut self) -> Option<(SwitchId, Vec<u8>)> {
        self.for_cpu.pop_front()
    }

    /// A switch, for its control plane.
    pub fn switch(&mut self, switch: SwitchId) -> &mut Switch<E> {
        &mut self.switches[switch.0 as usize]
    }

    /// Something was done to a switch by its control plane: takes what left it.
    pub fn touched(&mut self, switch: SwitchId, watch: &mut impl Watch) {
        self.poll(switch, watch);
    }

    /// A packet from the control plane of a switch.
    pub fn from_cpu(&mut self, switch: SwitchId, frame: &[u8], watch: &mut impl Watch) {
        let now = Time(self.now);
        self.switch(switch).receive_cpu(now, frame);
        self.poll(switch, watch);
    }

    /// The link at a port of a switch.
    pub fn link_at(&self, switch: SwitchId, port: u16) -> Option<LinkId> {
        let wire = *self.ports.get(switch.0 as usize)?.get(usize::from(port))?;
        (wire != UNPLUGGED).then_some(LinkId(wire / 2))
    }

    /// Whether a link has a carrier.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.wires.get(2 * link.0 as usize).is_some_and(Link::is_up)
    }

    /// A link loses its carrier, or gets it again. Frames on the wire are lost; neither switches nor hosts see it.
    pub fn set_carrier(&mut self, link: LinkId, up: bool, watch: &mut impl Watch) {
        for wire in [2 * link.0, 2 * link.0 + 1] {
            for (_, frame) in self.wires[wire as usize].set_up(up) {
                self.lose(frame, watch);
            }
        }
    }

    /// The same, but that switches see it at once.
    pub fn set_link(&mut self, link: LinkId, up: bool, watch: &mut impl Watch) {
        self.set_carrier(link, up, watch);
        for wire in [2 * link.0 + 1, 2 * link.0] {
            if let End::Switch(switch, port) = self.ends[wire as usize] {
                self.switch(switch).set_port_status(port.into(), up);
                self.poll(switch, watch);
            }
        }
    }

    /// Traffic out of a port.
    pub fn port_counts(&self, switch: SwitchId, port: u16) -> PortCounts {
        let wire = self.ports[switch.0 as usize].get(usize::from(port)).copied().unwrap_or(UNPLUGGED);
        let Some(link) = self.wires.get(wire as usize) else { return PortCounts::default() };
        let full = self.switches[switch.0 as usize].port_stats(port.into()).queue_full;
        let c = link.counts;
        PortCounts {
            packets: c.sent,
            bytes: c.bytes,
            marks: c.sent_marked,
            drops: full + c.full + c.lost + c.down,
        }
    }

    /// Two wires for each link: from its first end to its second, and back.
    pub fn wires(&self) -> &[Link] {
        &self.wires
    }

    /// Packets that were dropped because a queue was full, at ports with links and in front of the links.
    pub fn dropped_full(&self) -> u64 {
        let ports = |(switch, ports): (&Switch<E>, &Vec<u32>)| {
            let linked = (0..).zip(ports).filter(|(_, wire)| **wire != UNPLUGGED);
            linked.map(|(port, _)| switch.port_stats(port).queue_full).sum::<u64>()
        };
        self.switches.iter().zip(&self.ports).map(ports).sum::<u64>() + self.on_links().full
    }

    /// The fate of all frames on links: sums over both directions of all.
    pub fn on_links(&self) -> LinkCounts {
        LinkCounts::of(&self.wires)
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
