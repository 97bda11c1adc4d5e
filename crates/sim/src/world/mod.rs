//! One simulation: its complete state, and its next event.

mod action;
mod agents;
mod build;
mod control;
mod event;
mod finish;
mod hosts;
mod learn;
mod lines;
mod net;
pub(crate) mod prometheus;
mod streams;
mod switches;

pub use learn::Question;

use crate::arrivals::Arrivals;
use crate::check::Checker;
use crate::data_plane::DataPlane;
use crate::device::{Device, DeviceCounts};
use crate::error::StartError;
use crate::fault::{Fault, Faults};
use crate::frame::Addresses;
use crate::outcome::{LearnStep, Outcome};
use crate::random::{Part, Stream};
use crate::scenario::{ClientModel, Scenario};
use crate::timeline::Intervals;
use crate::window::Window;
use agents::AgentHost;
use control::Control;
use event::Event;
use lines::Lines;
use pointsman_balance::Mac;
use pointsman_balance::controller::{Input, Status};
use pointsman_balance::types::Address;
use pointsman_decide::Weights;
use pointsman_ir::Executor;
use pointsman_net::{Happened, Network};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use switches::{Boot, Power};

/// The rack must be in order within this virtual time.
const SETUP_LIMIT_NS: u64 = 60_000_000_000;

/// The station behind a port.
#[derive(Clone, Copy, Debug)]
enum Host {
    Client(u32),
    Device { device: u32, address: Ipv4Addr, address6: Option<Ipv6Addr> },
}

impl Host {
    /// Whether an address is its own.
    #[inline]
    fn has(&self, clients: &[Client], to: Address) -> bool {
        match self {
            Host::Device { address, .. } if !to.v6 => u128::from(address.to_bits()) == to.bits,
            Host::Device { address6, .. } => address6.is_some_and(|own| own.to_bits() == to.bits),
            Host::Client(c) => hosts::is_client(&clients[*c as usize].model, to),
        }
    }
}

/// A client that runs.
struct Client {
    model: ClientModel,
    mac: Mac,
    station: u32,
    arrivals: Arrivals,
    /// Arrivals so far, and the one that is entered.
    requests: u64,
    /// Arrivals so far.
    begun: u64,
    /// The first number of its connections, and how many numbers they take in turn; `None`: each connection has the number of its request.
    numbers: Option<(u32, u32)>,
    /// Of sessions: requests sent.
    asked: Vec<u32>,
}

/// The record of a request until it is answered.
#[derive(Clone, Copy, Debug)]
struct Request {
    sent: u64,
    client: u32,
    answered: bool,
}

/// Where a device is, and what it is.
struct Place {
    station: u32,
    /// First and last device of its server.
    siblings: (u32, u32),
    /// Index of [`pointsman_balance::DeviceKind::ALL`].
    kind: u8,
}

/// Requests lost at known places.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    links: u64,
    switch_in: u64,
    switch_out: u64,
    devices: u64,
    /// Refused by clients: the answer came over a switch that does not know the connection.
    refused: u64,
}

/// The fates of requests and other frames.
#[derive(Default)]
struct Tally {
    /// Requests that are neither answered nor lost at a known place.
    open: u64,
    lost: Lost,
    /// All answers, also those that came too late.
    answered: u64,
    /// Answers that came too late.
    late: u64,
    congested: u64,
    to_cpu: u64,
    lost_packet_ins: u64,
    /// Requests and answers that reached the wrong station.
    strays: u64,
    /// Deliberate faults.
    faults: Faults,
}

/// The measured part of a simulation.
struct Measured {
    sent: u64,
    answered: u64,
    /// By kind of device (index of [`pointsman_balance::DeviceKind::ALL`]): latencies of requests.
    latencies_ns: Vec<Vec<u64>>,
    intervals: Intervals,
    /// Busy time of each device at its beginning and end.
    busy_at: [Vec<u128>; 2],
    counts_at: [Vec<DeviceCounts>; 2],
}

/// A simulation.
pub struct World<E: Executor> {
    scenario: Arc<Scenario>,
    seed: u64,
    /// Switches, links, and all that happens.
    network: Network<E, Event>,
    /// When clients began.
    start: u64,
    switches: Vec<Power>,
    boot: Boot<E>,
    /// Number of the next life of a switch.
    lives: u16,
    control: Control,
    prometheus: prometheus::Prometheus,
    lines: Lines,
    clients: Vec<Client>,
    devices: Vec<Device>,
    places: Vec<Place>,
    agents: Vec<AgentHost>,
    checker: Checker,
    requests: Window<Request>,
    tally: Tally,
    measured: Measured,
    /// Connections of clients with lasting ones come first in the numbering.
    lasting: u32,
    source_ports: hosts::SourcePorts,
    stopped: bool,
    next_action: usize,
    /// The text that an agent reads.
    text: String,
    learn: Option<learn::Learn>,
    /// TCP connections, if clients use these.
    streams: Option<streams::Streams>,
    /// The learner is due.
    due: bool,
}

/// Runs one simulation to its end. If the scenario has a learner, it makes the decisions, and its knowledge is part of
/// the outcome.
///
/// # Errors
/// The program is not a balancer, or the rack does not come up.
pub fn run<E: Executor + Send + Sync>(
    scenario: &Arc<Scenario>,
    data_plane: &DataPlane<E>,
    seed: u64,
    fault: Option<Fault>,
) -> Result<Outcome, StartError> {
    let mut session = Session::<E>::start(scenario, data_plane, seed, fault)?;
    let mut learners = Vec::new();
    if let Some(model) = &scenario.learn {
        for class in 0..session.classes() {
            learners.push((model.weigher()?, Stream::new(seed, Part::Learner, class as u64)));
        }
    }
    while let Some(question) = session.advance() {
        let Some((learner, random)) = learners.get_mut(question.class) else { continue };
        let step = learner.step(&question.observation, &mut || random.unit());
        session.decide(&question, step.weights, step.reward);
    }
    let mut outcome = session.finish();
    if let Some(learning) = &mut outcome.learning {
        learning.table = learners.first().and_then(|(l, _)| l.table().cloned());
        learning.interventions = learners.iter().map(|(l, _)| l.interventions()).sum();
    }
    Ok(outcome)
}

/// A simulation that stops at every decision.
pub struct Session<E: Executor> {
    world: World<E>,
}

impl<E: Executor + Send + Sync> Session<E> {
    /// Sets the rack up; the first requests are to come.
    ///
    /// # Errors
    /// The program is not a balancer, or the rack does not come up.
    pub fn start(
        scenario: &Arc<Scenario>,
        data_plane: &DataPlane<E>,
        seed: u64,
        fault: Option<Fault>,
    ) -> Result<Self, StartError> {
        let mut world = World::<E>::new(scenario.clone(), data_plane, seed, fault)?;
        world.set_up()?;
        world.begin();
        Ok(Session { world })
    }

    /// The number of classes of servers: one learner for each.
    pub fn classes(&self) -> usize {
        self.world.learn.as_ref().map_or(1, learn::Learn::classes)
    }

    /// Continues to the next decision, or to the end. At the end of an interval there is one for every class of servers.
    pub fn advance(&mut self) -> Option<Question> {
        if let Some(question) = self.world.question() {
            return Some(question);
        }
        self.world.after_decisions();
        if !self.world.go() {
            return None;
        }
        self.world.decisions_are_due();
        self.world.question()
    }

    /// The decision: weights from now on. `reward`, if given, goes into the results.
    pub fn decide(&mut self, question: &Question, weights: Weights, reward: Option<f64>) {
        self.world.weigh(question, weights, reward);
    }

    /// The last decision, and the oracle's verdict on it.
    pub fn last_decision(&self) -> Option<&LearnStep> {
        self.world.learn.as_ref().and_then(|l| l.last_step())
    }

    /// The results.
    pub fn finish(self) -> Outcome {
        self.world.finish()
    }
}

impl<E: Executor> World<E> {
    /// Runs until the controller has filled all switches and agents have reported.
    fn set_up(&mut self) -> Result<(), StartError> {
        self.controller_input(Input::Tick);
        self.start_choosers();
        let mut settle = None;
        loop {
            let limit = settle.map_or(SETUP_LIMIT_NS, |at: u64| SETUP_LIMIT_NS.min(at - 1));
            match self.network.next(limit, &mut self.tally) {
                Some(happened) => self.happens(happened),
                None => break,
            }
            let c = &self.control.controllers;
            if settle.is_none() && c.status() == Status::InSync && c.unresolved().is_empty() {
                // Every agent reports twice before requests come.
                let slowest = self.agents.iter().map(|a| a.heartbeat_ns()).max().unwrap_or(0);
                settle = Some(self.network.now() + 2 * slowest + 1_000_000);
            }
        }
        let Some(start) = settle.filter(|at| *at <= SETUP_LIMIT_NS) else { return Err(self.not_up()) };
        self.network.wait(start);
        self.start = start;
        Ok(())
    }

    /// Why the rack has not come up.
    fn not_up(&mut self) -> StartError {
        let missing = self.control.controllers.unresolved();
        let told = std::mem::take(&mut self.control.told);
        StartError::RackLate { limit_s: SETUP_LIMIT_NS / 1_000_000_000, missing, told }
    }

    /// Everything is ready: clients begin.
    fn begin(&mut self) {
        let s = self.scenario.clone();
        for i in 0..self.clients.len() {
            let random = Stream::new(self.seed, Part::Arrivals, i as u64);
            let c = &mut self.clients[i];
            c.arrivals = Arrivals::new(&c.model.arrivals, self.start, random);
            self.next_request(i);
        }
        if let Some(first) = s.events.first() {
            self.network.enter(self.start + first.at_ns, Event::Action);
        }
        self.network.enter(self.start + s.warmup_ns, Event::WarmedUp);
        self.network.enter(self.start + s.duration_ns, Event::Stop);
        self.begin_interval();
    }

    /// Runs to the next decision (true), or to the last answer, or until no client waits for one.
    fn go(&mut self) -> bool {
        let end = self.start + self.scenario.duration_ns + self.scenario.patience_ns;
        while !(self.stopped && self.tally.open == 0) {
            let Some(happened) = self.network.next(end, &mut self.tally) else { break };
            self.happens(happened);
            if std::mem::take(&mut self.due) && !self.stopped {
                return true;
            }
        }
        false
    }

    #[inline]
    fn happens(&mut self, happened: Happened<Event>) {
        match happened {
            Happened::AtSwitch => {}
            Happened::AtHost(link, packet) => self.at_host(link, packet),
            Happened::Actor(Event::Request(client)) => self.request(client as usize),
            Happened::Actor(Event::Further { client, connection }) => self.further(client.into(), connection),
            Happened::Actor(Event::Done { worker, device }) => self.done(device as usize, worker),
            Happened::Actor(seldom) => self.happens_seldom(seldom),
        }
        self.take_packet_ins();
    }

    /// Events other than those of single packets.
    #[inline(never)]
    fn happens_seldom(&mut self, event: Event) {
        match event {
            Event::Request(_) | Event::Further { .. } | Event::Done { .. } => {}
            Event::Agent(device) => self.agent_tick(device as usize),
            Event::Sample(device) => self.sample(device as usize),
            Event::Report(device) => self.send_report(device as usize),
            Event::Probe(device) => self.probe(device as usize),
            Event::Tick => self.controller_tick(),
            Event::AtSwitch(switch) => self.at_switch(switch as usize),
            Event::AtController(switch) => self.at_controller(switch as usize),
            Event::Scrape => self.scrape(),
            Event::AtPrometheus => self.at_prometheus(),
            Event::Chooser(i) => self.chooser_tick(i as usize),
            Event::Action => self.act(),
            Event::LearnBegin => self.observe_from_here(),
            Event::LearnPoll => self.poll_devices(),
            Event::LearnAsk => self.learner_asks(),
            Event::AtLearner => self.at_learner(),
            Event::Decide => self.due = true,
            Event::ClientStream(id) => self.client_stream_due(id),
            Event::DeviceStream(id) => self.device_stream_due(id),
            Event::WarmedUp => self.mark(0),
            Event::Stop => {
                self.stopped = true;
                self.mark(1);
            }
        }
    }

    /// Notes how far the devices are.
    fn mark(&mut self, which: usize) {
        for i in 0..self.devices.len() {
            self.measured.busy_at[which][i] = self.checker.busy_ns(self.network.now(), i);
            self.measured.counts_at[which][i] = self.devices[i].counts;
        }
    }

    /// Whether a request counts in the results.
    fn is_measured(&self, sent: u64) -> bool {
        sent >= self.start + self.scenario.warmup_ns
    }

    /// Whether a fault occurs now.
    fn strikes(&mut self, fault: Fault) -> bool {
        self.tally.faults.strikes(fault)
    }

    /// An answer's addresses as the client must see them.
    #[inline(always)]
    fn expected_answer(&self, client: usize, connection: u32) -> Addresses {
        let c = &self.clients[client];
        let n = connection - c.numbers.map_or(self.lasting, |(first, _)| first);
        let (ip, port) = hosts::client_end(&self.source_ports, &c.model, n);
        Addresses {
            macs: (self.scenario.rack.switch.mac, c.mac),
            ips: (c.model.service.0.into(), ip),
            ports: (c.model.service.1, port),
        }
    }
}
