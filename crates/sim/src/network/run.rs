//! One simulation of a network.

use super::check::{self, Checker};
use super::control::{Control, Sent};
use super::outcome::{Counting, NetworkOutcome, switches, uplinks};
use super::{LinkEvent, NetworkScenario};
use crate::arrivals::Arrivals;
use crate::frame::{self, Addresses, Kind, Marks};
use crate::outcome::{Latency, Requests};
use crate::random::{Part, Stream};
use pointsman_balance::Mac;
use pointsman_fabric::Input;
use pointsman_ir::Executor;
use pointsman_net::{Happened, Loader, Network, NetworkConfig, Packet};
use pointsman_session::Program;
use pointsman_topology::{End, HostId, SwitchId};
use pointsman_v1model::Time;
use std::net::IpAddr;
use std::sync::Arc;

/// All switches must hold their entries within this virtual time.
const SETUP_LIMIT_NS: u64 = 60_000_000_000;
/// Port of the hosts' service.
const SERVICE: u16 = 7;
/// First source port of the flows.
const FIRST_PORT: u16 = 1024;

/// What happens to others than switches and links.
#[derive(Clone, Copy, Debug)]
enum Actor {
    /// This host's next request.
    Request(u32),
    /// The next event of the scenario.
    Event,
    /// A message of the control plane arrives.
    Control(Sent),
    /// A switch notices that a port has lost its carrier, or has it again.
    Port(SwitchId, u16, bool),
    /// The controller's deadline.
    Tick,
}

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

struct World<'s, E: Executor> {
    scenario: &'s NetworkScenario,
    network: Network<E, Actor>,
    control: Control,
    checker: Checker,
    counting: Counting,
    /// By host: the address of its switch.
    gateways: Vec<Mac>,
    senders: Vec<Sender>,
    requests: Vec<Request>,
    latencies: Vec<u64>,
    late: u64,
    start: u64,
    next_event: usize,
    /// When the controller is to be stepped.
    tick_at: u64,
    answers: u64,
    strays: u64,
}

/// Simulates a network once.
///
/// # Errors
/// The program is not one that the controller can fill, or the switches do not come up.
pub fn run<E: Executor + Send + Sync>(
    scenario: &NetworkScenario,
    program: &Program,
    compiled: &Arc<pointsman_ir::Program>,
    seed: u64,
) -> Result<NetworkOutcome, String> {
    let config = NetworkConfig { latency_ns: scenario.switch_latency_ns, seed };
    let network = Network::<E, Actor>::new(scenario.topology.clone(), config, &Loader::default())
        .map_err(|e| e.to_string())?;
    let topology = &scenario.topology;
    let gateway = |host: u32| {
        let mac = topology.uplink(HostId(host)).map(|(s, ..)| topology.switches()[s.0 as usize].mac);
        Mac(mac.unwrap_or_default())
    };
    let gateways = (0..topology.hosts().len() as u32).map(gateway).collect();
    let mut world = World {
        scenario,
        counting: Counting::new(uplinks(&network)),
        network,
        control: Control::new(&scenario.topology, &scenario.choice, program, compiled)?,
        checker: Checker::default(),
        gateways,
        senders: Vec::new(),
        requests: Vec::new(),
        latencies: Vec::new(),
        late: 0,
        start: 0,
        next_event: 0,
        tick_at: u64::MAX,
        answers: 0,
        strays: 0,
    };
    world.set_up()?;
    world.begin(seed);
    let end = world.start + scenario.duration_ns + scenario.patience_ns;
    world.go(end, |_| false);
    Ok(world.finish(seed))
}

impl<E: Executor + Send + Sync> World<'_, E> {
    /// Runs until all switches hold their entries.
    fn set_up(&mut self) -> Result<(), String> {
        self.generators()?;
        let sent = self.control.step(0, Input::Tick);
        self.deliver(sent);
        if self.go(SETUP_LIMIT_NS, |w| w.control.in_sync()) {
            self.start = self.network.now();
            return Ok(());
        }
        let told = self.control.told.iter().map(|t| format!("\n  {t}")).collect::<String>();
        let limit = SETUP_LIMIT_NS / 1_000_000_000;
        Err(format!("the switches do not hold their entries within {limit} s of virtual time:{told}"))
    }

    /// Sets the switches' generators.
    fn generators(&mut self) -> Result<(), String> {
        let NetworkScenario { topology, choice, .. } = self.scenario;
        for id in (0..topology.switches().len() as u32).map(SwitchId) {
            let switch = self.network.switch(id);
            for (number, generator) in (choice.scheme.generators)(topology, id, choice) {
                switch.set_generator(Time(0), number, Some(generator)).map_err(|e| e.to_string())?;
            }
            self.network.touched(id);
        }
        Ok(())
    }

    fn begin(&mut self, seed: u64) {
        for host in 0..self.scenario.topology.hosts().len() as u32 {
            let random = Stream::new(seed, Part::Arrivals, host.into());
            let arrivals = Arrivals::new(&self.scenario.traffic.arrivals, self.start, random);
            self.senders.push(Sender { arrivals, requests: 0 });
            self.next_request(host);
        }
        if let Some(first) = self.scenario.events.first() {
            self.network.enter(self.start + first.at_ns, Actor::Event);
        }
    }

    /// Runs until nothing is left to do by `until`, or until `done`: whether it was that.
    fn go(&mut self, until: u64, done: impl Fn(&Self) -> bool) -> bool {
        while let Some(happened) = self.network.next(until, &mut self.checker) {
            match happened {
                Happened::AtHost(host, frame) => self.at_host(host, frame),
                // The program sends nothing to its controller.
                Happened::ToCpu(..) => self.strays += 1,
                Happened::Actor(actor) => self.act(actor),
            }
            if done(self) {
                return true;
            }
        }
        false
    }

    fn act(&mut self, actor: Actor) {
        let now = self.network.now();
        match actor {
            Actor::Request(host) => self.request(host),
            Actor::Event => self.event(),
            Actor::Control(Sent::ToSwitch(switch)) => self.at_switch(switch),
            Actor::Control(Sent::ToController(switch)) => {
                let sent = self.control.at_controller(now, switch);
                self.deliver(sent);
            }
            Actor::Port(switch, port, up) => {
                let sent = self.control.step(now, Input::Port { switch, port, up });
                self.deliver(sent);
            }
            Actor::Tick if now >= self.tick_at => {
                self.tick_at = u64::MAX;
                let sent = self.control.step(now, Input::Tick);
                self.deliver(sent);
            }
            Actor::Tick => {}
        }
    }

    /// Messages leave; and the controller may have another deadline.
    fn deliver(&mut self, sent: Vec<Sent>) {
        let now = self.network.now();
        for message in sent {
            self.network.enter(now + self.scenario.control_delay_ns, Actor::Control(message));
        }
        if let Some(at) = self.control.deadline().map(|at| at.max(now)).filter(|at| *at < self.tick_at) {
            self.tick_at = at;
            self.network.enter(at, Actor::Tick);
        }
    }

    fn at_switch(&mut self, id: SwitchId) {
        let now = self.network.now();
        let (answers, packets) = self.control.at_switch(now, id, self.network.switch(id));
        let at = now + self.scenario.control_delay_ns;
        for _ in 0..answers {
            self.network.enter(at, Actor::Control(Sent::ToController(id)));
        }
        for packet in packets {
            self.network.from_cpu(id, &packet);
        }
    }

    /// The next event of the scenario happens.
    fn event(&mut self) {
        let now = self.network.now();
        let events = &self.scenario.events;
        let LinkEvent { link, up, .. } = events[self.next_event];
        self.next_event += 1;
        self.counting.changes(uplinks(&self.network), link, up);
        self.network.set_link(link, up);
        for end in self.scenario.topology.links()[link.0 as usize].ends {
            if let End::Switch(switch, port) = end {
                let at = now + self.scenario.detection_ns + self.scenario.control_delay_ns;
                self.network.enter(at, Actor::Port(switch, port, up));
            }
        }
        if let Some(next) = events.get(self.next_event) {
            self.network.enter(self.start + next.at_ns, Actor::Event);
        }
    }

    // --- Hosts ---

    /// Enters a host's next request.
    fn next_request(&mut self, host: u32) {
        let now = self.network.now();
        let sender = &mut self.senders[host as usize];
        let Some(at) = sender.arrivals.next(now, sender.requests) else { return };
        if at < self.start + self.scenario.duration_ns {
            sender.requests += 1;
            self.network.enter(at, Actor::Request(host));
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

    fn request(&mut self, from: u32) {
        let now = self.network.now();
        // One was counted for the request that was just entered.
        let n = self.senders[from as usize].requests - 1;
        self.next_request(from);
        let hosts = self.scenario.topology.hosts().len() as u64;
        let to = ((u64::from(from) + 1 + n % (hosts - 1)) % hosts) as u32;
        let flow = n / (hosts - 1) % u64::from(self.scenario.traffic.flows);
        let port = FIRST_PORT + flow as u16;
        let marks = Marks {
            kind: Kind::Request,
            connection: flow as u32,
            request: self.requests.len() as u32,
            tag: 0,
        };
        self.requests.push(Request { sent: now, from, to, port, answered: false });
        let addresses = self.addresses(from, to, (port, SERVICE), true);
        self.transmit(from, &addresses, marks, self.scenario.traffic.request_bytes);
    }

    fn transmit(&mut self, host: u32, addresses: &Addresses, marks: Marks, bytes: u32) {
        let mut frame = self.network.buffer();
        frame::marked(&mut frame, addresses, false, marks, bytes as usize);
        self.checker.sends(self.network.now(), marks);
        self.network.send(HostId(host), frame);
    }

    fn at_host(&mut self, host: HostId, frame: Packet) {
        let now = self.network.now();
        let seen = frame::read(&frame);
        let known = seen.and_then(|s| Some((s, *self.requests.get(s.marks.request as usize)?)));
        let Some((seen, request)) = known else {
            self.strays += 1;
            return self.network.recycle(frame);
        };
        let (from, to, ports) = match seen.marks.kind {
            Kind::Request => (request.from, request.to, (request.port, SERVICE)),
            Kind::Answer => (request.to, request.from, (SERVICE, request.port)),
        };
        let expected = self.addresses(from, to, ports, false);
        self.checker.receives(now, &seen, &expected, &frame);
        self.network.recycle(frame);
        if host.0 != to {
            self.strays += 1;
            return;
        }
        match seen.marks.kind {
            Kind::Request => {
                let addresses = self.addresses(to, from, (SERVICE, request.port), true);
                let bytes = self.scenario.traffic.answer_bytes;
                self.transmit(to, &addresses, check::answer(seen.marks), bytes);
            }
            Kind::Answer => self.answered(now, seen.marks.request as usize),
        }
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

    fn finish(mut self, seed: u64) -> NetworkOutcome {
        let topology = &self.scenario.topology;
        let links = self.network.on_links();
        let mut dropped = links.full + links.lost + links.down + self.network.unplugged();
        let mut drops = std::collections::BTreeMap::new();
        let (mut received, mut waiting) = (0, self.network.in_flight());
        for id in (0..topology.switches().len() as u32).map(SwitchId) {
            let stats = self.network.switch(id).stats().clone();
            received += stats.received;
            waiting += stats.queued;
            for (reason, n) in &stats.drops {
                dropped += n;
                *drops.entry(reason.name().to_string()).or_default() += n;
            }
        }
        self.checker.end(self.network.now(), dropped + waiting);
        self.counting.end(&uplinks(&self.network));
        let sent = self.requests.len() as u64;
        NetworkOutcome {
            scenario: self.scenario.name.clone(),
            seed,
            fingerprint: String::new(),
            packets: received,
            wall_s: 0.0,
            virtual_s: (self.network.now() - self.start) as f64 / 1e9,
            requests: Requests {
                sent,
                answered: self.answers,
                lost: sent - self.answers,
                all_sent: sent,
                late: self.late,
                ..Requests::default()
            },
            latency: Latency::of(&mut self.latencies),
            drops,
            on_links: links,
            strays: self.strays,
            switches: switches(&self.network),
            spread_percent: self.counting.spread_percent(),
            violations: self.checker.violations,
        }
    }
}
