//! Hosts that send flows to each other.

use super::Flows;
use super::check::Checker;
use super::frame::{self, Head, Seen};
use super::interface::{Interface, interfaces};
use super::plan::{Flow, plan};
use super::results::{Fates, FlowResults};
use super::starve::Row;
use crate::network::NetworkScenario;
use crate::network::hosts::{Ended, Hosts, Results, gateways};
use crate::network::run::Actor;
use crate::random::{Part, Stream};
use pointsman_ir::Executor;
use pointsman_net::{Network, Packet, Watch};
use pointsman_topology::{HostId, SwitchId};
use pointsman_transport::{Config, Connection, State};
use pointsman_wire::Mac;
use std::sync::Arc;

/// One of so many frames is checked byte by byte, the others by their headers.
const WHOLE: u64 = 64;
/// Buffers of full packets that are kept.
const SPARE: usize = 4096;

/// The hosts' events.
#[derive(Clone, Copy, Debug)]
pub(in crate::network) enum Timer {
    /// The next flow starts.
    Start,
    /// The deadline of one end of a connection.
    End(u32),
    /// The interface of a host has room for another train.
    Interface(u32),
}

type Net<E> = Network<E, Actor<Timer>>;

/// One end of a connection. Numbers of ends are even for those that send a flow, and one more for those that receive it.
struct End {
    /// `None`: it waits for the first segment.
    tcp: Option<Connection>,
    head: Head,
    flow: u32,
    host: u32,
    /// When its next event happens; `u64::MAX`: never.
    armed: u64,
    /// Whether it waits for its turn at the interface.
    waits: bool,
    /// Identification of its next packet.
    id: u16,
    /// Of the last packet that it has received, if there was one.
    seen: Option<u16>,
    /// Bytes that have arrived in order.
    arrived: u64,
    /// Its time-outs, if it sends a flow.
    row: Row,
}

/// All hosts, with all flows.
pub(in crate::network) struct Senders<'s> {
    scenario: &'s NetworkScenario,
    flows: &'s Flows,
    tcp: Arc<Config>,
    plan: Vec<Flow>,
    /// The next one of these to start.
    next: usize,
    random: Stream,
    gateways: Vec<Mac>,
    interfaces: Vec<Interface>,
    ends: Vec<Option<Box<End>>>,
    /// Pairs of ends that are free.
    free: Vec<u32>,
    /// Buffers of full packets.
    full: Vec<Packet>,
    full_bytes: usize,
    checker: Checker,
    fates: Fates,
    start: u64,
    received: u64,
    strays: u64,
}

impl<'s> Senders<'s> {
    pub fn new(scenario: &'s NetworkScenario, flows: &'s Flows, seed: u64) -> Self {
        let topology = &scenario.topology;
        let plan = plan(flows, topology, scenario.duration_ns, seed);
        let full_bytes = flows.packet_bytes() as usize;
        Senders {
            scenario,
            flows,
            tcp: Arc::new(flows.tcp.clone()),
            fates: Fates::new(plan.len()),
            plan,
            next: 0,
            random: Stream::new(seed, Part::Transport, 0),
            gateways: gateways(topology),
            interfaces: interfaces(topology, flows.tcp.burst, full_bytes as u64),
            ends: Vec::new(),
            free: Vec::new(),
            full: Vec::new(),
            full_bytes,
            checker: Checker::new(topology),
            start: 0,
            received: 0,
            strays: 0,
        }
    }

    /// Starts the next flow, and enters the one after it.
    fn start<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>) {
        let Some(flow) = self.plan.get(self.next).copied() else { return };
        let number = self.next as u32;
        self.next += 1;
        if let Some(next) = self.plan.get(self.next) {
            network.enter(self.start + next.at, Actor::Hosts(Timer::Start));
        }
        let first = self.free.pop().unwrap_or_else(|| {
            self.ends.extend([None, None]);
            self.ends.len() as u32 - 2
        });
        let (from, to) = (flow.from as usize, flow.to as usize);
        // Without a free port, a host cannot start a flow: it remains unfinished.
        let Some(source) = self.interfaces[from].ports.open(first) else { return self.free.push(first) };
        let Some(destination) = self.interfaces[to].ports.open(first + 1) else {
            self.interfaces[from].ports.close(source);
            return self.free.push(first);
        };
        let hosts = self.scenario.topology.hosts();
        let large = flow.bytes > self.flows.large_above;
        let dscp = if large { self.flows.dscp.1 } else { self.flows.dscp.0 };
        let head =
            |a: usize, b: usize, ports, dscp| Head::new(&hosts[a], self.gateways[a], &hosts[b], ports, dscp);
        let there = head(from, to, (source, destination), dscp);
        let back = head(to, from, (destination, source), self.flows.dscp.0);
        let mut tcp = Connection::connect(self.tcp.clone(), network.now(), self.random.bits() as u32);
        tcp.write(flow.bytes);
        tcp.close();
        self.ends[first as usize] = Some(Box::new(End::new(Some(tcp), there, number, flow.from)));
        self.ends[first as usize + 1] = Some(Box::new(End::new(None, back, number, flow.to)));
        self.fates.starts(number, network.now());
        self.send(network, first);
    }

    /// A segment arrives at the end that it is for.
    fn segment<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, number: u32, seen: &Seen) {
        let now = network.now();
        let Some(end) = self.ends[number as usize].as_deref_mut() else { return };
        let flow = self.plan[end.flow as usize];
        let other = if number.is_multiple_of(2) { flow.to } else { flow.from };
        self.checker.receives(now, other, end.host, seen);
        if !seen.intact {
            return;
        }
        if seen.segment.len > 0 {
            self.checker.reordered += u64::from(end.is_overtaken(seen.id));
        }
        match &mut end.tcp {
            Some(tcp) => drop(tcp.on_segment(now, &seen.segment)),
            None => {
                let isn = self.random.bits() as u32;
                end.tcp = Connection::accept(self.tcp.clone(), now, isn, &seen.segment);
            }
        }
        // A late copy of another connection's segment opens none.
        let Some(tcp) = &mut end.tcp else { return };
        let taken = tcp.take();
        if taken > 0 {
            end.arrived += taken;
            self.fates.progress(end.flow, now, end.arrived == flow.bytes);
        }
        if !number.is_multiple_of(2) && tcp.peer_has_closed() && tcp.state() == State::CloseWait {
            self.checker.ends(now, end.flow, flow.bytes, end.arrived);
            tcp.close();
        }
        self.send(network, number);
        self.release(number);
    }

    /// Sends what an end has to send, as far as its host's interface has room; the rest waits for its turn.
    fn send<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, number: u32) {
        let Some(end) = self.ends[number as usize].as_deref_mut() else { return };
        if end.waits {
            return;
        }
        let (host, now) = (end.host, network.now());
        let interface = &self.interfaces[host as usize];
        let (limit, first) = (interface.limit_ns, interface.waiting.is_empty());
        while first && network.busy_until(HostId(host)) < now + limit {
            if !self.train(network, number) {
                return self.arm(network, number);
            }
        }
        if let Some(end) = self.ends[number as usize].as_deref_mut() {
            end.waits = true;
            self.interfaces[host as usize].waiting.push_back(number);
            self.turn(network, host);
        }
    }

    /// Enters the moment at which a host's interface has room again, if connections wait for it.
    fn turn<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, host: u32) {
        let interface = &mut self.interfaces[host as usize];
        if !interface.armed && !interface.waiting.is_empty() {
            interface.armed = true;
            let at = (network.busy_until(HostId(host)) + 1).saturating_sub(interface.limit_ns);
            network.enter(at, Actor::Hosts(Timer::Interface(host)));
        }
    }

    /// A host's interface has room: those that wait take turns.
    fn room<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, host: u32) {
        let now = network.now();
        self.interfaces[host as usize].armed = false;
        while network.busy_until(HostId(host)) < now + self.interfaces[host as usize].limit_ns {
            let Some(number) = self.interfaces[host as usize].waiting.pop_front() else { return };
            if self.train(network, number) {
                self.interfaces[host as usize].waiting.push_back(number);
            } else if let Some(end) = self.ends[number as usize].as_deref_mut() {
                end.waits = false;
                self.arm(network, number);
                self.release(number);
            }
        }
        self.turn(network, host);
    }

    /// Sends an end's next segment as its packets. `false`: it has none now.
    fn train<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, number: u32) -> bool {
        let Some(end) = self.ends[number as usize].as_deref_mut() else { return false };
        let Some(tcp) = &mut end.tcp else { return false };
        let Some(segment) = tcp.next_segment(network.now()) else { return false };
        let most = tcp.packet_bytes();
        let host = HostId(end.host);
        for packet in segment.cut(most) {
            let bytes = frame::HEADERS + packet.header_bytes() + packet.len as usize;
            let spare = if bytes == self.full_bytes { self.full.pop() } else { None };
            let mut frame = spare.unwrap_or_else(|| network.buffer());
            if frame::write(&mut frame, &end.head, end.id, &packet).is_err() {
                // TCP's options always fit.
                network.recycle(frame);
                continue;
            }
            end.id = end.id.wrapping_add(1);
            self.checker.sends();
            network.send(host, frame, &mut ());
        }
        true
    }

    /// Enters an end's deadline, if nothing is entered before it.
    fn arm<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, number: u32) {
        let now = network.now();
        let Some(end) = self.ends[number as usize].as_deref_mut() else { return };
        let Some(tcp) = end.tcp.as_ref().filter(|tcp| tcp.state() != State::TimeWait) else { return };
        if let Some(at) = tcp.deadline().map(|at| at.max(now + 1)).filter(|at| *at < end.armed) {
            end.armed = at;
            network.enter(at, Actor::Hosts(Timer::End(number)));
        }
    }

    /// The deadline of an end, or an earlier one that it had.
    fn deadline<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, number: u32) {
        let now = network.now();
        let Some(end) = self.ends[number as usize].as_deref_mut().filter(|end| end.armed == now) else {
            return;
        };
        end.armed = u64::MAX;
        let Some(tcp) = &mut end.tcp else { return };
        if tcp.deadline().is_none_or(|at| at > now) {
            return self.arm(network, number);
        }
        tcp.on_deadline(now);
        self.send(network, number);
        self.times_out(network, number);
        self.release(number);
    }

    /// Checks the time-outs of a flow's sender, if this end is one.
    fn times_out<E: Executor + Send + Sync>(&mut self, network: &Net<E>, number: u32) {
        let now = network.now();
        let Some(end) = self.ends[number as usize].as_deref_mut().filter(|_| number.is_multiple_of(2)) else {
            return;
        };
        let timeouts = end.tcp.as_ref().map_or(0, |tcp| tcp.stats().timeouts);
        let Some(moved) = self.fates.waits_since(end.flow) else { return };
        if let Some(since) = end.row.ends(now, timeouts, moved, || network.dropped_full()) {
            let NetworkScenario { topology, events, .. } = self.scenario;
            let times = (since.saturating_sub(self.start), now - self.start);
            let links = (topology, &events[..], self.scenario.reaction_ns());
            self.checker.times_out(links, times, (end.flow, self.plan[end.flow as usize]));
        }
    }

    /// Whether a host was to receive this packet.
    fn is_for(&self, host: HostId, seen: Option<&Seen>) -> bool {
        let address = self.scenario.topology.hosts().get(host.0 as usize).map(|h| u32::from(h.address));
        seen.is_some_and(|seen| Some(seen.addresses.1) == address)
    }

    /// Forgets a connection when both ends have ended. Ports are then free.
    fn release(&mut self, number: u32) {
        let pair = [number & !1, number | 1];
        let has_ended = |n: &u32| {
            let end = self.ends[*n as usize].as_deref();
            let tcp = end.filter(|end| !end.waits).and_then(|end| end.tcp.as_ref());
            tcp.is_some_and(|tcp| matches!(tcp.state(), State::TimeWait | State::Closed))
        };
        if !has_ended(&number) || !pair.iter().all(has_ended) {
            return;
        }
        for number in pair {
            if let Some(end) = self.ends[number as usize].take() {
                self.interfaces[end.host as usize].ports.close(end.head.ports.0);
                if number == pair[0] {
                    self.fates.sent_again(end.flow, end.sent_again());
                }
            }
        }
        self.free.push(pair[0]);
    }
}

impl End {
    fn new(tcp: Option<Connection>, head: Head, flow: u32, host: u32) -> Self {
        End {
            tcp,
            head,
            flow,
            host,
            armed: u64::MAX,
            waits: false,
            id: 0,
            seen: None,
            arrived: 0,
            row: Row::default(),
        }
    }

    /// Whether a packet comes after one that was sent later.
    fn is_overtaken(&mut self, id: u16) -> bool {
        let overtaken = self.seen.is_some_and(|last| id.wrapping_sub(last) > u16::MAX / 2);
        if !overtaken {
            self.seen = Some(id);
        }
        overtaken
    }

    /// Packets of its flow that it has sent again.
    fn sent_again(&self) -> u32 {
        self.tcp.as_ref().map_or(0, |tcp| tcp.stats().retransmitted_segments)
    }

    /// The addresses that packets for it have.
    fn addresses(&self) -> (u32, u32) {
        let (own, other) = self.head.addresses();
        (other, own)
    }
}

impl Watch for Senders<'_> {
    #[inline]
    fn enters(&mut self, now: u64, switch: SwitchId, frame: &[u8]) {
        self.checker.enters(now, switch, frame);
    }
}

impl Hosts for Senders<'_> {
    type Timer = Timer;

    fn begin<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>) -> u64 {
        self.start = network.now();
        if let Some(first) = self.plan.first() {
            network.enter(self.start + first.at, Actor::Hosts(Timer::Start));
        }
        let last = self.plan.last().map_or(0, |flow| flow.at);
        self.start + last + self.scenario.patience_ns
    }

    fn receive<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, host: HostId, frame: Packet) {
        self.checker.arrives();
        self.received += 1;
        let seen = frame::read(&frame, self.received.is_multiple_of(WHOLE));
        let whole = frame.len() == self.full_bytes && seen.is_some_and(|seen| seen.intact);
        if whole && self.full.len() < SPARE {
            self.full.push(frame);
        } else {
            network.recycle(frame);
        }
        let found = seen.and_then(|seen| {
            let number = self.interfaces.get(host.0 as usize)?.ports.at(seen.ports.1)?;
            let end = self.ends[number as usize].as_deref()?;
            let ours = end.addresses() == seen.addresses && end.head.ports == (seen.ports.1, seen.ports.0);
            ours.then_some((number, seen))
        });
        match found {
            Some((number, seen)) => self.segment(network, number, &seen),
            // Late copies of segments arrive after their connections have ended.
            None => self.strays += u64::from(!self.is_for(host, seen.as_ref())),
        }
    }

    fn expire<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, timer: Timer) {
        match timer {
            Timer::Start => self.start(network),
            Timer::End(number) => self.deadline(network, number),
            Timer::Interface(host) => self.room(network, host),
        }
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn are_done(&self) -> bool {
        self.fates.finished() == self.plan.len() as u64
    }

    fn finish(mut self, ended: &Ended) -> Results {
        self.checker.end(ended);
        for end in self.ends.iter().step_by(2).flatten() {
            self.fates.sent_again(end.flow, end.sent_again());
        }
        let (fates, stall) = self.fates.end(ended.now);
        let (topology, latency) = (&self.scenario.topology, self.scenario.switch_latency_ns);
        let results = self.flows.results(topology, latency, &self.plan, &fates, (self.start, ended.now));
        Results {
            requests: None,
            flows: Some(FlowResults {
                started: self.fates.started(),
                longest_stall_ms: stall as f64 / 1e6,
                reordered: self.checker.reordered,
                missing: self.checker.missing(),
                ..results
            }),
            strays: self.strays,
            violations: self.checker.violations,
        }
    }
}
