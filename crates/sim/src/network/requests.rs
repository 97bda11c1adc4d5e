//! Hosts that send requests to each other, and answer them at once.

use super::check::{self, Checker};
use super::hosts::{Ended, Hosts, Results, gateways};
use super::run::Actor;
use super::{NetworkScenario, Traffic};
use crate::arrivals::Arrivals;
use crate::frame::{self, Addresses, Kind, Marks};
use crate::outcome::{Latency, Requests};
use crate::random::{Part, Stream};
use pointsman_balance::Mac;
use pointsman_ir::Executor;
use pointsman_net::{Network, Packet, Watch};
use pointsman_topology::{HostId, SwitchId};
use std::net::IpAddr;

/// Port of the hosts' service.
const SERVICE: u16 = 7;
/// First source port of the flows.
const FIRST_PORT: u16 = 1024;

/// A host that sends requests.
struct Sender {
    arrivals: Arrivals,
    requests: u64,
}

/// A request that was sent.
#[derive(Clone, Copy)]
struct Request {
    sent: u64,
    from: u32,
    to: u32,
    port: u16,
    answered: bool,
}

/// A host's next request.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextOf(u32);

type Net<E> = Network<E, Actor<NextOf>>;

/// All hosts.
pub(super) struct Requesters<'s> {
    scenario: &'s NetworkScenario,
    traffic: &'s Traffic,
    seed: u64,
    checker: Checker,
    /// By host: the address of its switch.
    gateways: Vec<Mac>,
    senders: Vec<Sender>,
    requests: Vec<Request>,
    latencies: Vec<u64>,
    start: u64,
    late: u64,
    answers: u64,
    strays: u64,
}

impl<'s> Requesters<'s> {
    pub fn new(scenario: &'s NetworkScenario, traffic: &'s Traffic, seed: u64) -> Self {
        Requesters {
            scenario,
            traffic,
            seed,
            checker: Checker::default(),
            gateways: gateways(&scenario.topology),
            senders: Vec::new(),
            requests: Vec::new(),
            latencies: Vec::new(),
            start: 0,
            late: 0,
            answers: 0,
            strays: 0,
        }
    }

    /// Enters a host's next request.
    fn next_request<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, host: u32) {
        let sender = &mut self.senders[host as usize];
        let Some(at) = sender.arrivals.next(network.now(), sender.requests) else { return };
        if at < self.start + self.scenario.duration_ns {
            sender.requests += 1;
            network.enter(at, Actor::Hosts(NextOf(host)));
        }
    }

    /// Addresses of a packet as its sender writes them (`sent`), or as its receiver sees them.
    fn addresses(&self, from: u32, to: u32, ports: (u16, u16), sent: bool) -> Addresses {
        let topology = &self.scenario.topology;
        let host = |h: u32| &topology.hosts()[h as usize];
        let gateway = |h: u32| self.gateways[h as usize];
        let macs = if sent { (Mac(host(from).mac), gateway(from)) } else { (gateway(to), Mac(host(to).mac)) };
        let ip = |h: u32| IpAddr::from(host(h).address).into();
        Addresses { macs, ips: (ip(from), ip(to)), ports }
    }

    fn transmit<E: Executor + Send + Sync>(
        &mut self,
        network: &mut Net<E>,
        host: u32,
        addresses: &Addresses,
        marks: Marks,
        bytes: u32,
    ) {
        let mut frame = network.buffer();
        frame::marked(&mut frame, addresses, false, marks, bytes as usize);
        self.checker.sends(network.now(), marks);
        network.send(HostId(host), frame, &mut ());
    }

    fn answered(&mut self, now: u64, number: usize) {
        let request = &mut self.requests[number];
        if std::mem::replace(&mut request.answered, true) {
            return;
        }
        let latency = now - request.sent;
        if latency > self.scenario.patience_ns {
            self.late += 1;
        } else {
            self.answers += 1;
            self.latencies.push(latency);
        }
    }
}

impl Watch for Requesters<'_> {
    fn enters(&mut self, now: u64, switch: SwitchId, frame: &[u8]) {
        self.checker.enters(now, switch, frame);
    }
}

impl Hosts for Requesters<'_> {
    type Timer = NextOf;

    fn begin<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>) -> u64 {
        self.start = network.now();
        for host in 0..self.scenario.topology.hosts().len() as u32 {
            let random = Stream::new(self.seed, Part::Arrivals, host.into());
            let arrivals = Arrivals::new(&self.traffic.arrivals, self.start, random);
            self.senders.push(Sender { arrivals, requests: 0 });
            self.next_request(network, host);
        }
        self.start + self.scenario.duration_ns + self.scenario.patience_ns
    }

    fn receive<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, host: HostId, frame: Packet) {
        let seen = frame::read(&frame);
        let known = seen.and_then(|s| Some((s, *self.requests.get(s.marks.request as usize)?)));
        let Some((seen, request)) = known else {
            self.strays += 1;
            return network.recycle(frame);
        };
        let (from, to, ports) = match seen.marks.kind {
            Kind::Request => (request.from, request.to, (request.port, SERVICE)),
            Kind::Answer => (request.to, request.from, (SERVICE, request.port)),
        };
        let expected = self.addresses(from, to, ports, false);
        self.checker.receives(network.now(), &seen, &expected, &frame);
        network.recycle(frame);
        if host.0 != to {
            self.strays += 1;
            return;
        }
        match seen.marks.kind {
            Kind::Request => {
                let addresses = self.addresses(to, from, (SERVICE, request.port), true);
                let bytes = self.traffic.answer_bytes;
                self.transmit(network, to, &addresses, check::answer(seen.marks), bytes);
            }
            Kind::Answer => self.answered(network.now(), seen.marks.request as usize),
        }
    }

    /// The next request of a host.
    fn expire<E: Executor + Send + Sync>(&mut self, network: &mut Net<E>, NextOf(from): NextOf) {
        // One was counted for the request that was just entered.
        let n = self.senders[from as usize].requests - 1;
        self.next_request(network, from);
        let hosts = self.scenario.topology.hosts().len() as u64;
        let to = ((u64::from(from) + 1 + n % (hosts - 1)) % hosts) as u32;
        let flow = n / (hosts - 1) % u64::from(self.traffic.flows);
        let port = FIRST_PORT + flow as u16;
        let marks = Marks {
            kind: Kind::Request,
            connection: flow as u32,
            request: self.requests.len() as u32,
            tag: 0,
        };
        self.requests.push(Request { sent: network.now(), from, to, port, answered: false });
        let addresses = self.addresses(from, to, (port, SERVICE), true);
        self.transmit(network, from, &addresses, marks, self.traffic.request_bytes);
    }

    fn received(&self) -> u64 {
        self.checker.received
    }

    fn are_done(&self) -> bool {
        false
    }

    fn finish(mut self, ended: &Ended) -> Results {
        // Of the packets that are missing or were taken in, hosts sent those that no switch made.
        self.checker.end(ended.now, (ended.missing + ended.consumed).saturating_sub(ended.created));
        let sent = self.requests.len() as u64;
        // A lost request counts as its time-out.
        self.latencies.resize(sent as usize, self.scenario.patience_ns);
        let requests = Requests {
            sent,
            answered: self.answers,
            lost: sent - self.answers,
            all_sent: sent,
            late: self.late,
            ..Requests::default()
        };
        Results {
            requests: Some((requests, Latency::of(&mut self.latencies))),
            flows: None,
            strays: self.strays,
            violations: self.checker.violations,
        }
    }
}
