//! One simulation of a network.

use super::conserve;
use super::control::{Control, Sent};
use super::flows::Senders;
use super::hosts::{Ended, Hosts};
use super::outcome::{ControlCounts, Counting, Fabric, NetworkOutcome, switches, uplink_counts, uplinks};
use super::requests::Requesters;
use super::timeline::Timeline;
use super::{LinkEvent, NetworkScenario, Work};
use crate::data_plane::DataPlane;
use crate::error::StartError;
use pointsman_fabric::Input;
use pointsman_ir::Executor;
use pointsman_net::{Happened, Network, NetworkConfig};
use pointsman_topology::{End, SwitchId};
use pointsman_v1model::Time;

/// All switches must hold their entries within this virtual time.
const SETUP_LIMIT_NS: u64 = 60_000_000_000;

/// What happens to others than switches and links.
#[derive(Clone, Copy, Debug)]
pub(super) enum Actor<T> {
    /// The hosts' own.
    Hosts(T),
    /// The next event of the scenario.
    Event,
    /// A message of the control plane arrives.
    Control(Sent),
    /// A switch notices that a port has lost its carrier, or has it again.
    Port(SwitchId, u16, bool),
    /// The controller's deadline.
    Tick,
    /// An interval of the timeline ends.
    Interval,
}

struct World<'s, E: Executor, H: Hosts> {
    scenario: &'s NetworkScenario,
    network: Network<E, Actor<H::Timer>>,
    hosts: H,
    control: Control,
    counting: Counting,
    timeline: Timeline,
    start: u64,
    next_event: usize,
    /// When the controller is to be stepped.
    tick_at: u64,
    /// Frames for the controller.
    events: u64,
    /// Of all switches, before the hosts began.
    before: ControlCounts,
}

/// Checks that the program can be filled for the network, as far as that is known before a simulation.
///
/// # Errors
/// The program is not one that the controller can fill, or a table is too small.
pub fn check<E>(scenario: &NetworkScenario, data_plane: &DataPlane<E>) -> Result<(), StartError> {
    Control::new(scenario, data_plane).map(drop)
}

/// Simulates a network once.
///
/// # Errors
/// The program is not one that the controller can fill, or the switches do not come up.
pub fn run<E: Executor + Send + Sync>(
    scenario: &NetworkScenario,
    data_plane: &DataPlane<E>,
    seed: u64,
) -> Result<NetworkOutcome, StartError> {
    match &scenario.work {
        Work::Requests(traffic) => {
            let hosts = Requesters::new(scenario, traffic, seed);
            World::<E, _>::run(scenario, data_plane, seed, hosts)
        }
        Work::Flows(flows) => {
            let hosts = Senders::new(scenario, flows, seed);
            World::<E, _>::run(scenario, data_plane, seed, hosts)
        }
    }
}

impl<'s, E: Executor + Send + Sync, H: Hosts> World<'s, E, H> {
    fn run(
        scenario: &'s NetworkScenario,
        data_plane: &DataPlane<E>,
        seed: u64,
        hosts: H,
    ) -> Result<NetworkOutcome, StartError> {
        let config = NetworkConfig {
            latency_ns: scenario.switch_latency_ns,
            seed,
            queues: (scenario.choice.scheme.queues)(&scenario.choice),
        };
        let topology = &scenario.topology;
        let network = Network::<E, _>::of(topology, config, &data_plane.loader)?;
        let mut world = World {
            scenario,
            counting: Counting::new(uplinks(topology, &network)),
            timeline: Timeline::default(),
            network,
            hosts,
            control: Control::new(scenario, data_plane)?,
            start: 0,
            next_event: 0,
            tick_at: u64::MAX,
            events: 0,
            before: ControlCounts::default(),
        };
        world.set_up()?;
        let end = world.begin();
        let done = world.go(end, |w| w.hosts.are_done());
        let now = if done { world.network.now() } else { end };
        Ok(world.finish(seed, now))
    }

    /// Runs until all switches hold their entries, also those for the events at time 0, which happen before the hosts begin.
    fn set_up(&mut self) -> Result<(), StartError> {
        self.generators()?;
        let sent = self.control.step(0, Input::Tick);
        self.deliver(sent);
        let first = self.go(SETUP_LIMIT_NS, |w| w.control.in_sync());
        let events = &self.scenario.events;
        for event in events.iter().take_while(|e| e.at_ns == 0) {
            self.next_event += 1;
            self.change(*event);
        }
        if first && self.next_event > 0 {
            // Nothing is known of them before this.
            let NetworkScenario { detection_ns, control_delay_ns, .. } = self.scenario;
            self.go(self.network.now() + detection_ns + control_delay_ns, |_| false);
        }
        if first && (self.control.in_sync() || self.go(SETUP_LIMIT_NS, |w| w.control.in_sync())) {
            self.start = self.network.now();
            return Ok(());
        }
        let told = std::mem::take(&mut self.control.told);
        Err(StartError::NetworkLate { limit_s: SETUP_LIMIT_NS / 1_000_000_000, told })
    }

    /// Sets the switches' generators.
    fn generators(&mut self) -> Result<(), StartError> {
        let NetworkScenario { topology, choice, .. } = self.scenario;
        for id in (0..topology.switches().len() as u32).map(SwitchId) {
            let switch = self.network.switch(id);
            for (number, generator) in (choice.scheme.generators)(topology, id, choice) {
                switch.set_generator(Time(0), number, Some(generator))?;
            }
            self.network.touched(id, &mut self.hosts);
        }
        Ok(())
    }

    /// What control has been so far.
    fn control_counts(&mut self) -> ControlCounts {
        let (events, writes) = (self.events, self.control.writes());
        let mut counts = ControlCounts { events, writes, ..ControlCounts::default() };
        let now = self.network.now();
        for id in (0..self.scenario.topology.switches().len() as u32).map(SwitchId) {
            let switch = self.network.switch(id);
            counts.recirculated += switch.stats().recirculated;
            self.control.tally(now, id, switch, &mut counts.tallies);
        }
        counts
    }

    /// The hosts begin, and the scenario's events: when all ends.
    fn begin(&mut self) -> u64 {
        self.before = self.control_counts();
        let end = self.hosts.begin(&mut self.network);
        let lasts = end.saturating_sub(self.start + self.scenario.patience_ns);
        self.timeline = Timeline::new(self.scenario, lasts);
        // Those of time 0 have happened, before the hosts began.
        for event in &self.scenario.events[..self.next_event] {
            if !self.network.is_up(event.link) {
                self.timeline.cut(0, *event);
            }
        }
        self.next_interval();
        if let Some(first) = self.scenario.events.get(self.next_event) {
            self.network.enter(self.start + first.at_ns, Actor::Event);
        }
        end
    }

    fn next_interval(&mut self) {
        if let Some(next) = self.timeline.next() {
            self.network.enter(self.start + next, Actor::Interval);
        }
    }

    /// Runs until nothing is left to do by `until`, or until `done`: whether it was that.
    fn go(&mut self, until: u64, done: impl Fn(&Self) -> bool) -> bool {
        loop {
            while let Some((switch, packet)) = self.network.take_for_cpu() {
                self.hand_over(switch, &packet);
            }
            match self.network.next(until, &mut self.hosts) {
                Some(Happened::AtHost(host, frame)) => self.hosts.receive(&mut self.network, host, frame),
                Some(Happened::AtSwitch) => {}
                Some(Happened::Actor(actor)) => self.act(actor),
                None => return false,
            }
            if done(self) {
                return true;
            }
        }
    }

    /// A switch hands a packet to its controller.
    fn hand_over(&mut self, switch: SwitchId, packet: &[u8]) {
        self.events += 1;
        let at = self.network.now() + self.scenario.control_delay_ns;
        for _ in 0..self.control.packet_in(self.network.now(), switch, packet) {
            self.network.enter(at, Actor::Control(Sent::ToController(switch)));
        }
    }

    fn act(&mut self, actor: Actor<H::Timer>) {
        let now = self.network.now();
        match actor {
            Actor::Hosts(timer) => self.hosts.expire(&mut self.network, timer),
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
            Actor::Interval => {
                let into_cut = |e: LinkEvent| self.network.sent_into_cut(e.link).0;
                let open = self.timeline.open().map(into_cut).sum();
                self.timeline.count(self.hosts.received(), open);
                self.next_interval();
            }
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
        let sent = self.control.at_switch(now, id, self.network.switch(id));
        let at = now + self.scenario.control_delay_ns;
        for _ in 0..sent.answers {
            self.network.enter(at, Actor::Control(Sent::ToController(id)));
        }
        for packet in sent.packets {
            self.network.from_cpu(id, &packet, &mut self.hosts);
        }
    }

    /// The next event of the scenario happens.
    fn event(&mut self) {
        let now = self.network.now();
        let events = &self.scenario.events;
        let event = events[self.next_event];
        self.next_event += 1;
        if event.up {
            self.over(event);
        } else {
            self.timeline.cut(now - self.start, event);
        }
        self.change(event);
        if let Some(next) = events.get(self.next_event) {
            self.network.enter(self.start + next.at_ns, Actor::Event);
        }
    }

    /// A link goes down or up; what notices it does so later.
    fn change(&mut self, LinkEvent { link, up, .. }: LinkEvent) {
        let now = self.network.now();
        self.counting.changes(uplinks(&self.scenario.topology, &self.network), link, up);
        self.network.set_link(link, up, &mut self.hosts);
        for end in self.scenario.topology.links()[link.0 as usize].ends {
            if let End::Switch(switch, port) = end {
                let at = now + self.scenario.detection_ns + self.scenario.control_delay_ns;
                self.network.enter(at, Actor::Port(switch, port, up));
            }
        }
    }

    /// A cut of a link is over.
    fn over(&mut self, event: LinkEvent) {
        let (frames, last) = self.network.sent_into_cut(event.link);
        let name = &self.scenario.topology.links()[event.link.0 as usize].name;
        self.timeline.over(event, name, (frames, last.map(|at| at.saturating_sub(self.start))));
    }

    fn finish(mut self, seed: u64, now: u64) -> NetworkOutcome {
        let open: Vec<LinkEvent> = self.timeline.open().collect();
        open.into_iter().for_each(|event| self.over(event));
        let topology = &self.scenario.topology;
        let links = self.network.on_links();
        let mut dropped = links.full + links.lost + links.down + self.network.unplugged();
        let mut drops = std::collections::BTreeMap::new();
        let (mut received, mut waiting) = (0, self.network.in_flight());
        let (mut consumed, mut created) = (0, 0);
        for id in (0..topology.switches().len() as u32).map(SwitchId) {
            let stats = self.network.switch(id).stats().clone();
            received += stats.received;
            waiting += stats.queued;
            consumed += stats.consumed + stats.to_cpu;
            created += stats.created() + stats.received_from_cpu;
            for (reason, n) in &stats.drops {
                dropped += n;
                *drops.entry(reason.name().to_string()).or_default() += n;
            }
        }
        self.counting.end(&uplinks(topology, &self.network));
        let control = self.control_counts().since(&self.before);
        let ended = Ended { now, missing: dropped + waiting, consumed, created };
        let mut results = self.hosts.finish(&ended);
        conserve::check(topology, &mut self.network, &mut results.violations);
        let (requests, latency) = results.requests.unzip();
        let fabric = results.flows.map(|flows| Fabric {
            scheme: self.scenario.choice.scheme.name.into(),
            rate_control: self.scenario.choice.rate_control().into(),
            flows,
            uplinks: uplink_counts(topology, &self.network),
            control,
            timeline: self.timeline,
        });
        NetworkOutcome {
            scenario: self.scenario.name.clone(),
            point: self.scenario.point.clone(),
            seed,
            fingerprint: String::new(),
            packets: received,
            wall_s: 0.0,
            virtual_s: (self.network.now() - self.start) as f64 / 1e9,
            requests,
            latency: latency.unwrap_or_default(),
            drops,
            on_links: links,
            strays: results.strays,
            fabric,
            switches: switches(topology, &self.network),
            spread_percent: self.counting.spread_percent(),
            violations: results.violations,
        }
    }
}
