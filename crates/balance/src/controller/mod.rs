//! The controller of one switch, over P4Runtime.
//!
//! Once its session is ready (`pointsman_session`), it reads all tables and then writes the difference to the desired
//! entries, in steps in which no packet meets half a change (`crate::plan`). After any failure it starts again from
//! there: only the switch's tables need to be right. It resolves MAC addresses that are not configured, and polls the
//! times of devices' last reports.
//!
//! The caller carries messages: it performs each [`Output`] and returns the results as [`Input`].

mod census;
mod error;
mod event;
mod frames;
mod health;
mod limit;
mod look;
mod neighbours;
mod preview;
mod session;
mod several;
#[cfg(test)]
mod tests;
mod write;

pub use error::{Rejection, StartError};
pub use event::Event;
pub(crate) use event::Silence;
pub use health::Refusal;
pub use limit::Limiter;
pub use look::Live;
pub use pointsman_session::{ElectionId, Leader, Mandate, Program, Request, Response};
pub use preview::Preview;
pub use several::Controllers;

use crate::config::{Device, NextHop, Rack, changes};
use crate::frame_report::{ETHERTYPE, Notice};
use crate::plan::{self, Entries, Schema, Situation};
use crate::types::{DeviceNumber, Policy};
use census::Census;
use health::Health;
use look::Look;
use neighbours::Resolver;
use pointsman_control::bytestring;
use pointsman_control::proto::p4rt;
use pointsman_control::{Code, RpcError};
use pointsman_session::{Input as SessionInput, Session, SessionConfig, State};
use pointsman_wire::random::fnv;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use write::Batch;

/// A controller's input. Input from a lost connection is ignored.
#[derive(Debug)]
pub enum Input {
    /// Nothing but the time.
    Tick,
    /// The connection is up and its stream channel open.
    Connected,
    /// The connection could not be made, or is lost.
    Disconnected(String),
    /// A message of the stream channel.
    Stream(p4rt::StreamMessageResponse),
    /// The answer to a request.
    Response {
        /// The request's.
        id: u64,
        /// The result.
        result: Result<Response, RpcError>,
    },
    /// Someone looks at the live figures: they are read from the switch for a while.
    Look,
    /// The live figures are needed once.
    Glance,
    /// Whether this controller may lead, if another election than the switch's own decides that.
    Mandate(Mandate),
    /// The configuration changed.
    Config(Box<Rack>),
    /// Another policy for one service, until the configuration changes.
    SetPolicy {
        /// The service's name.
        service: String,
        /// The policy.
        policy: Policy,
    },
    /// The device that new connections of a service get, if its policy or its tuning leaves that to the controller. It
    /// is written to the switch again after every reconnection.
    Choose {
        /// The service's name.
        service: String,
        /// The device; None leaves it to the data plane.
        device: Option<DeviceNumber>,
    },
}

impl From<pointsman_session::Input> for Input {
    fn from(input: pointsman_session::Input) -> Self {
        use pointsman_session::Input as Of;
        match input {
            Of::Tick => Input::Tick,
            Of::Connected => Input::Connected,
            Of::Disconnected(reason) => Input::Disconnected(reason),
            Of::Stream(message) => Input::Stream(message),
            Of::Response { id, result } => Input::Response { id, result },
        }
    }
}

/// An action that a controller requests.
pub type Output = pointsman_session::Output<Event>;

/// The purpose of a request.
#[derive(Debug)]
enum Purpose {
    ReadAll,
    Write(Batch),
    Poll,
    Count,
    Look,
}

/// A device that gets no new connections until an operator enables it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draining {
    /// `server/device`.
    pub device: String,
    /// It left the configuration; otherwise it is not enabled, or its server has weight 0.
    pub removed: bool,
    /// Connections that it still has; None before they were counted.
    pub connections: Option<u64>,
}

/// A controller's state, from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// No connection.
    Disconnected,
    /// Connected; another controller is in charge.
    Backup,
    /// In charge, still bringing the switch up to date.
    Working,
    /// In charge, and the switch holds the desired entries.
    InSync,
}

/// What the controller knows of the switch's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// They must be read.
    Unread,
    /// It is in charge, and they are known.
    Active,
}

/// The controller of one switch. Times count from any fixed moment and must not run backwards.
#[derive(Debug)]
pub struct Controller {
    rack: Rack,
    /// Which switch of the rack: its place in `switch.p4runtime`.
    switch: usize,
    schema: Schema,
    session: Session<Purpose>,
    phase: Phase,
    have: Entries,
    /// Entries of our tables that the controller would never write; they are removed.
    foreign: Vec<p4rt::TableEntry>,
    /// Whether the tables were adopted once: then the controller's knowledge of devices takes precedence over theirs.
    adopted: bool,
    queue: std::collections::VecDeque<Batch>,
    /// Changes since the switch was last up to date.
    writes: usize,
    /// It has installed the program, and the switch was not up to date since then: no report can have been accepted.
    installed: bool,
    /// The desired entries may have changed.
    dirty: bool,
    in_sync: bool,
    /// Names of all devices that were ever configured.
    names: BTreeMap<DeviceNumber, String>,
    /// Notes on the plan that were already reported.
    notes: Vec<String>,
    resolver: Resolver,
    health: Health,
    census: Census,
    look: Look,
    /// The time of the last step.
    now: Duration,
    poll_at: Duration,
    can_poll: bool,
    /// Chosen devices by service name.
    choices: BTreeMap<String, DeviceNumber>,
    /// Choices written to the switch, by service number.
    told: BTreeMap<u16, u32>,
}

/// Why a device is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// It did not report for too long.
    Silent,
    /// The same, but reports come, and the switch refuses them.
    Refused(Refusal),
    /// Its agent reports that its service does not answer.
    Failed,
}

/// A device's role in its services: whether any gives it new connections, and whether any would without a learner.
fn parts(rack: &Rack, device: DeviceNumber) -> Option<(bool, bool)> {
    let all = rack.services.iter().flat_map(|s| &s.members).filter(|m| m.server == device.server());
    let own = all.filter_map(|m| Some((m.weight, m.devices.iter().find(|d| d.number == device)?)));
    own.map(|(weight, d)| (weight > 0 && d.enabled, weight > 0 && d.held))
        .reduce(|(takes, held), (t, h)| (takes || t, held || h))
}

fn held(rack: &Rack) -> BTreeSet<DeviceNumber> {
    let all = rack.devices().filter(|(_, d)| d.enabled).map(|(_, d)| d.number);
    all.filter(|d| parts(rack, *d) == Some((false, true))).collect()
}

/// So many devices are named in one line.
const NAMED: usize = 8;

fn listed(rack: &Rack, devices: &[DeviceNumber]) -> String {
    let names: Vec<String> = devices.iter().take(NAMED).map(|d| rack.device_name(*d)).collect();
    let more = devices.len() - names.len();
    names.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// Of a switch of the rack, by its place in `switch.p4runtime`.
fn session_config(rack: &Rack, switch: usize) -> SessionConfig {
    SessionConfig {
        address: rack.switch.p4runtime.get(switch).cloned().unwrap_or_default(),
        device_id: rack.switch.device_id,
        election_id: rack.switch.election_id,
        preempt: rack.switch.preempt,
    }
}

fn names(rack: &Rack) -> BTreeMap<DeviceNumber, String> {
    rack.devices().map(|(s, d)| (d.number, format!("{}/{}", s.name, d.name))).collect()
}

impl Controller {
    /// The controller of the rack's first switch, which connects at its first step.
    ///
    /// # Errors
    /// The program is not a balancer: it lacks something that the controller fills. Or it has fewer devices a server than the rack.
    pub fn new(rack: Rack, program: Program) -> Result<Self, StartError> {
        Self::of_switch(rack, program, 0)
    }

    /// The same for another switch: its place in `switch.p4runtime`.
    ///
    /// # Errors
    /// The program is not a balancer: it lacks something that the controller fills. Or it has fewer devices a server than the rack.
    pub fn of_switch(rack: Rack, program: Program, switch: usize) -> Result<Self, StartError> {
        let schema = Schema::new(&program.p4info)?;
        schema.suits(&rack)?;
        if !schema.has_store_of(&rack) {
            return Err(StartError::Store);
        }
        // Maps in protobuf messages have no order, so the ids represent the P4Info.
        let cookie = fnv(program.device_config.iter().copied()) ^ fnv(format!("{schema:?}").into_bytes());
        let mut resolver = Resolver::default();
        resolver.set_targets(&rack, Duration::ZERO);
        Ok(Controller {
            names: names(&rack),
            session: Session::new(session_config(&rack, switch), program, cookie),
            rack,
            switch,
            schema,
            phase: Phase::Unread,
            have: Entries::new(),
            foreign: Vec::new(),
            adopted: false,
            queue: std::collections::VecDeque::new(),
            writes: 0,
            installed: false,
            dirty: true,
            in_sync: false,
            notes: Vec::new(),
            resolver,
            health: Health::default(),
            census: Census::default(),
            look: Look::default(),
            now: Duration::ZERO,
            poll_at: Duration::ZERO,
            can_poll: true,
            choices: BTreeMap::new(),
            told: BTreeMap::new(),
        })
    }

    /// The same with another seed, which determines its number among the controllers of a switch and its waits before a
    /// takeover.
    /// Controllers of one switch need different ones.
    pub fn with_seed(self, seed: u64) -> Self {
        Controller { session: self.session.with_seed(seed), ..self }
    }

    /// The primary of the switch.
    pub fn leader(&self) -> Leader {
        self.session.leader()
    }

    /// The configuration in force.
    pub fn rack(&self) -> &Rack {
        &self.rack
    }

    /// The entries in the switch's tables, as far as known.
    pub fn entries(&self) -> &Entries {
        &self.have
    }

    /// The device that was chosen for a service, if one was.
    pub fn choice(&self, service: &str) -> Option<DeviceNumber> {
        self.choices.get(service).copied()
    }

    /// Devices that get no new connections because they are silent or failed their health check, with the reason.
    pub fn unavailable(&self) -> impl Iterator<Item = (DeviceNumber, Unavailable)> + '_ {
        self.health.silent.iter().map(|d| {
            let reporter = self.rack.device(*d).map_or(*d, |(_, found)| found.reporter);
            let why = match self.health.refused.get(&reporter) {
                _ if self.health.failed.contains(d) => Unavailable::Failed,
                Some(refusal) => Unavailable::Refused(*refusal),
                None => Unavailable::Silent,
            };
            (*d, why)
        })
    }

    /// Devices that get no new connections, with how many they still have, as far as that is known. It is counted round by round,
    /// and the numbers are those of the last round.
    pub fn draining(&self) -> Vec<Draining> {
        let of = |number: DeviceNumber| Draining {
            device: self.names.get(&number).cloned().unwrap_or_else(|| number.to_string()),
            removed: self.rack.device(number).is_none(),
            connections: self.census.left(number),
        };
        self.drains().into_iter().map(of).collect()
    }

    /// Devices that get no new connections for now since a learner gives them weight 0 in all their services. They are in service, and
    /// not to be stopped: unlike those that drain.
    pub fn held(&self) -> Vec<String> {
        held(&self.rack).into_iter().map(|number| self.rack.device_name(number)).collect()
    }

    /// Its state.
    pub fn status(&self) -> Status {
        match self.session.state() {
            State::Disconnected => Status::Disconnected,
            State::Backup => Status::Backup,
            State::Ready if self.in_sync && !self.dirty => Status::InSync,
            State::Ready | State::Working => Status::Working,
        }
    }

    /// Takes one input at time `now` and returns the actions.
    pub fn step(&mut self, now: Duration, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.now = now;
        match input {
            Input::Tick => {}
            Input::Look => self.look.wanted(now),
            Input::Glance => self.look.glance(now),
            Input::Connected => self.carry(now, SessionInput::Connected, &mut out),
            Input::Disconnected(reason) => self.carry(now, SessionInput::Disconnected(reason), &mut out),
            Input::Stream(message) => self.carry(now, SessionInput::Stream(message), &mut out),
            Input::Response { id, result } => {
                self.carry(now, SessionInput::Response { id, result }, &mut out)
            }
            Input::Mandate(mandate) => {
                let actions = self.session.mandate(now, mandate);
                self.perform(now, actions, &mut out);
            }
            Input::Config(rack) => self.configure(now, *rack, &mut out),
            Input::SetPolicy { service, policy } => match self.rack.with_policy(&service, policy) {
                Ok(rack) => self.configure(now, rack, &mut out),
                Err(error) => out.push(Output::Event(Event::rejected(error))),
            },
            Input::Choose { service, device } => {
                if self.rack.services.iter().all(|s| s.name != service) {
                    let text = format!(
                        "a device was chosen for service `{service}`, which is not in the configuration"
                    );
                    out.push(Output::Event(Event::Warning { text }));
                } else if let Some(device) = device {
                    self.choices.insert(service, device);
                } else {
                    self.choices.remove(&service);
                }
            }
        }
        self.carry(now, SessionInput::Tick, &mut out);
        if self.phase == Phase::Active {
            self.resolve(now, &mut out);
            self.poll(now, &mut out);
            self.look(now, &mut out);
            self.reconcile(now, &mut out);
        }
        out
    }

    /// The deadline for the next step with [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Duration> {
        let mut at = self.session.next_deadline();
        let mut sooner = |other: Option<Duration>| at = at.into_iter().chain(other).min();
        if self.phase == Phase::Active {
            sooner(self.resolver.next_deadline());
            sooner((self.can_poll && !self.is_polling()).then_some(self.poll_at));
            sooner(self.look.next().filter(|_| !self.is_looking()));
        }
        at
    }

    fn situation(&self) -> Situation<'_> {
        Situation {
            rack: &self.rack,
            switch: self.switch,
            neighbours: &self.resolver.known,
            silent: &self.health.silent,
            drained_devices: &self.health.drained_devices,
            drained_services: &self.health.drained_services,
        }
    }

    fn configure(&mut self, now: Duration, rack: Rack, out: &mut Vec<Output>) {
        if let Err(rejection) = self.acceptable(&rack) {
            out.push(Output::Event(Event::rejected(rejection)));
            return;
        }
        let session = session_config(&rack, self.switch);
        let moved = !session.same_switch(self.session.config());
        let before = held(&self.rack);
        let changed = changes(&self.rack, &rack);
        self.rack = rack;
        self.names.extend(names(&self.rack));
        self.resolver.set_targets(&self.rack, now);
        self.poll_at = self.poll_at.min(now + self.poll_interval());
        if self.rack.switch.report_timeout_ms == 0 {
            self.health.forget();
        }
        self.dirty = true;
        out.push(Output::Event(Event::ConfigAccepted { changed, by: String::new() }));
        self.note_held(&before, out);
        if moved {
            self.adopted = false;
            self.health.forget();
        }
        let actions = self.session.configure(now, session);
        self.perform(now, actions, out);
    }

    fn note_held(&self, before: &BTreeSet<DeviceNumber>, out: &mut Vec<Output>) {
        let now = held(&self.rack);
        let only =
            |a: &BTreeSet<DeviceNumber>, b| listed(&self.rack, &a.difference(b).copied().collect::<Vec<_>>());
        let (more, less) = (only(&now, before), only(before, &now));
        if !more.is_empty() {
            out.push(Output::Event(Event::Held { devices: more }));
        }
        if !less.is_empty() {
            out.push(Output::Event(Event::Released { devices: less }));
        }
    }

    fn poll_interval(&self) -> Duration {
        Duration::from_millis(self.rack.switch.poll_interval_ms.into())
    }

    fn is_polling(&self) -> bool {
        self.session.in_flight().any(|p| matches!(p, Purpose::Poll | Purpose::Count))
    }

    fn is_looking(&self) -> bool {
        self.session.in_flight().any(|p| matches!(p, Purpose::Look))
    }

    /// Reads live figures, if someone looks at them.
    fn look(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self.look.next().is_some_and(|at| at <= now) && !self.is_looking() {
            let read = self.session.read_request(self.look.questions(now, &self.rack, &self.schema));
            self.request(now, Purpose::Look, Request::Read(read), out);
        }
    }

    /// Live figures of a device, if someone has looked at them for a while.
    pub fn live(&self, device: DeviceNumber) -> Option<Live> {
        self.look.live(self.now, device)
    }

    /// Dropped packets by number of the reason ([`crate::state::DROPS`]), as of the last look.
    pub fn drops(&self) -> &BTreeMap<u64, u64> {
        &self.look.drops
    }

    /// How long ago a device reported; `None` if it never has.
    pub fn report_age(&self, device: DeviceNumber) -> Option<Duration> {
        self.health.last_heard(&self.rack, device).map(|at| self.now.saturating_sub(at))
    }

    /// Devices that get no new connections by an operator's request: they left the configuration, are not enabled, or
    /// all their services give their server none. Devices that a learner holds are not among them.
    fn drains(&self) -> BTreeSet<DeviceNumber> {
        let mut out: BTreeSet<DeviceNumber> = self.health.leaving_devices().collect();
        for (_, device) in self.rack.devices() {
            if !device.enabled || parts(&self.rack, device.number) == Some((false, false)) {
                out.insert(device.number);
            }
        }
        out
    }

    fn poll(&mut self, now: Duration, out: &mut Vec<Output>) {
        if !self.can_poll || now < self.poll_at || self.is_polling() {
            return;
        }
        self.poll_at = now + self.poll_interval();
        let entities = self.health.questions(&self.rack, &self.schema);
        if !entities.is_empty() {
            let read = self.session.read_request(entities);
            self.request(now, Purpose::Poll, Request::Read(read), out);
        }
        self.census.about(self.drains());
        self.count(now, out);
    }

    fn count(&mut self, now: Duration, out: &mut Vec<Output>) {
        let entities = self.census.questions(&self.schema);
        if !entities.is_empty() {
            let read = self.session.read_request(entities);
            self.request(now, Purpose::Count, Request::Read(read), out);
        }
    }

    fn counted(&mut self, now: Duration, result: Result<Vec<p4rt::Entity>, RpcError>, out: &mut Vec<Output>) {
        match result {
            Ok(answers) => {
                let counted = self.census.answers(now, &self.schema, &answers);
                for device in counted.empty {
                    if self.rack.device(device).is_some() {
                        let device = self.rack.device_name(device);
                        out.push(Output::Event(Event::Empty { device }));
                    }
                }
                if counted.more {
                    self.count(now, out);
                }
            }
            Err(e) => self.poll_failed(now, "reading the table of connections", e, out),
        }
    }

    fn polled(&mut self, now: Duration, result: Result<Vec<p4rt::Entity>, RpcError>, out: &mut Vec<Output>) {
        match result {
            Ok(answers) => {
                if self.installed {
                    self.health.resume(now);
                }
                let findings = self.health.answers(now, &self.rack, &self.schema, &answers);
                self.note_health(findings, out);
                self.notices(out);
            }
            Err(e) => self.poll_failed(now, "reading when devices last reported", e, out),
        }
    }

    fn poll_failed(&mut self, now: Duration, what: &'static str, e: RpcError, out: &mut Vec<Output>) {
        out.push(Output::Event(Event::RequestFailed { what, code: e.code, message: e.message }));
        if e.code == Code::Unimplemented {
            // The data plane itself still leaves out devices that are silent.
            self.can_poll = false;
        } else {
            self.fail(now);
        }
    }

    fn note_health(&mut self, findings: Vec<health::Finding>, out: &mut Vec<Output>) {
        for finding in findings {
            let name = |l: health::Leaving| match l {
                // It left the configuration, and its name with it.
                health::Leaving::Device(d) => match self.names.get(&d) {
                    Some(name) => format!("device {name}"),
                    None => format!("device number {d}"),
                },
                health::Leaving::Service(n) => {
                    let of = |a: &plan::Action| matches!(a, plan::Action::SetService { service, .. } if *service == n);
                    let found = self.have.iter().find(|(_, a)| of(a));
                    match found {
                        Some((plan::Key::Service(f), _)) => format!("service {f}"),
                        _ => format!("service number {n}"),
                    }
                }
            };
            self.dirty |= !matches!(finding, health::Finding::Draining(_) | health::Finding::Refused(..));
            out.push(Output::Event(match finding {
                health::Finding::Silent(d) => Event::Silent {
                    device: self.rack.device_name(d),
                    port: self.rack.device(d).map_or(0, |(_, d)| d.port),
                },
                health::Finding::Heard(d) => Event::Heard { device: self.rack.device_name(d) },
                health::Finding::Failed(d) => Event::Failed { device: self.rack.device_name(d) },
                health::Finding::Healthy(d) => Event::Healthy { device: self.rack.device_name(d) },
                health::Finding::Refused(d, why) => {
                    Event::Refused { device: self.rack.device_name(d), why: why.to_string() }
                }
                health::Finding::Draining(l) => Event::Draining { what: name(l) },
                health::Finding::Drained(l) => Event::Drained { what: name(l) },
            }));
        }
    }

    fn resolve(&mut self, now: Duration, out: &mut Vec<Output>) {
        let (frames, findings) = self.resolver.poll(now, &self.rack);
        for (port, payload) in frames {
            self.packet_out(port, payload, out);
        }
        self.note_neighbours(findings, out);
    }

    fn packet_out(&self, port: u16, payload: Vec<u8>, out: &mut Vec<Output>) {
        let metadata = vec![p4rt::PacketMetadata {
            metadata_id: self.schema.egress_port,
            value: bytestring::of_number(port.into()),
        }];
        let packet = p4rt::PacketOut { payload, metadata };
        let update = Some(p4rt::stream_message_request::Update::Packet(packet));
        out.push(Output::Send(p4rt::StreamMessageRequest { update }));
    }

    /// Sends agents whose reports are refused as replayed the number to exceed. With every poll, since a frame may be lost.
    fn notices(&self, out: &mut Vec<Output>) {
        for (&reporter, refusal) in self.health.refused.iter().filter(|(_, r)| r.is_replay()) {
            let key = self.rack.keys.of(reporter).find(|(number, _)| *number == refusal.newest.number);
            let (Some((_, key)), Some((_, device))) = (key, self.rack.device(reporter)) else { continue };
            let Some(mac) = plan::device_mac(device, &self.resolver.known) else { continue };
            let notice = Notice { device: reporter, newest: refusal.newest };
            let mut frame = [&mac.0[..], &self.rack.switch.mac.0, &ETHERTYPE.to_be_bytes()].concat();
            frame.extend(notice.encode(&key));
            frame.resize(60, 0); // the shortest Ethernet frame without its checksum
            self.packet_out(device.port, frame, out);
        }
    }

    fn note_neighbours(&mut self, findings: Vec<neighbours::Finding>, out: &mut Vec<Output>) {
        for finding in findings {
            out.push(Output::Event(match finding {
                neighbours::Finding::Resolved((port, address), mac) => {
                    self.dirty = true;
                    Event::Resolved { address, port, mac }
                }
                neighbours::Finding::NoAnswer((port, address)) => Event::NoAnswer { address, port },
                neighbours::Finding::Contradicted((port, address), mac) => {
                    Event::Contradicted { address, port, mac }
                }
                neighbours::Finding::Flood => Event::PacketFlood,
            }));
        }
    }

    /// The addresses to resolve, which are not in the configuration.
    pub fn unresolved(&self) -> Vec<String> {
        let devices = self.unresolved_devices().map(|d| self.rack.device_name(d));
        let routes = self.rack.routes.iter().filter_map(|r| match r.hop {
            NextHop::Neighbour(via) if !self.resolver.known.contains_key(&(r.port, via)) => {
                Some(format!("{}", r.prefix))
            }
            _ => None,
        });
        devices.chain(routes).collect()
    }

    /// The devices among them.
    pub fn unresolved_devices(&self) -> impl Iterator<Item = DeviceNumber> + '_ {
        let known = |d: &Device| plan::device_mac(d, &self.resolver.known).is_some();
        self.rack.devices().filter(move |(_, d)| !known(d)).map(|(_, d)| d.number)
    }

    /// Whether it has read the switch's tables: a standby, or a controller that never reached its switch, knows nothing of devices.
    pub fn is_informed(&self) -> bool {
        self.adopted
    }
}
