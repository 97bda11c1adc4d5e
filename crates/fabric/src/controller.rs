//! The controller of all switches of a network: one session with each, and routes that follow the links.

use crate::book::{Book, UnknownName};
use crate::scheme::{Choice, Place, Reports, Scheme};
use pointsman_control::proto::p4rt::stream_message_response::Update;
use pointsman_session::{
    DesiredError, Input as SessionInput, Leader, Output, Program, Reconciler, ReconcilerConfig,
    ReconcilerEvent, SessionConfig, State,
};
use pointsman_topology::{HostId, LinkId, Routes, SwitchId, Topology};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// An input of the controller.
#[derive(Debug)]
pub enum Input {
    /// Nothing but the time.
    Tick,
    /// For the session with this switch.
    Session(SwitchId, SessionInput),
    /// A switch says whether a port of it has a carrier.
    Port {
        /// The switch.
        switch: SwitchId,
        /// The port.
        port: u16,
        /// Whether it has.
        up: bool,
    },
}

/// Updates of one write request: a switch serves packets between requests.
const BATCH: usize = 256;

/// Why a program cannot be filled.
#[derive(Clone, Debug, PartialEq)]
pub enum FillError {
    /// It lacks something.
    Unknown(UnknownName),
    /// A session does not take the entities.
    Desired(DesiredError),
    /// A table of a switch is too small for the network.
    Full {
        /// The switch.
        switch: String,
        /// The table.
        table: String,
        /// Entries that the network needs.
        entries: usize,
        /// Entries that the table has room for.
        size: usize,
    },
}

impl fmt::Display for FillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FillError::Unknown(e) => e.fmt(f),
            FillError::Desired(e) => e.fmt(f),
            FillError::Full { switch, table, entries, size } => write!(
                f,
                "network: {switch} needs {entries} entries in the table `{table}`, which has room for {size}: describe a smaller network, \
                 or name a copy of the program with a larger table in `program.file`"
            ),
        }
    }
}

impl std::error::Error for FillError {}

/// What is known of a switch.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// Its name.
    pub name: &'a str,
    /// The session's state.
    pub state: State,
    /// Its primary.
    pub leader: Leader,
    /// It holds the entries for the links as they are known.
    pub in_sync: bool,
    /// Entries that it has to hold.
    pub entities: usize,
}

impl Standing<'_> {
    /// Short names of all states.
    pub const STATUSES: [&'static str; 4] = ["disconnected", "backup", "working", "in_sync"];

    /// A short name of its state.
    pub fn status(&self) -> &'static str {
        match self.state {
            State::Disconnected => "disconnected",
            State::Backup => "backup",
            State::Ready if self.in_sync => "in_sync",
            State::Ready | State::Working => "working",
        }
    }
}

/// What the session with a switch requests.
pub type Action = (SwitchId, Output<ReconcilerEvent>);

/// The controller of a network. Times count from any fixed moment and must not run backwards.
pub struct Controller {
    topology: Topology,
    choice: Choice,
    book: Book,
    sessions: Vec<Reconciler>,
    /// Ports without a carrier. A link is down if either end has none.
    down: BTreeSet<(SwitchId, u16)>,
    /// By switch.
    reports: Vec<Reports>,
    /// Switches whose tables do not follow from their reports yet: those that still take what was sent before.
    news: BTreeSet<SwitchId>,
    /// Over the links that are up.
    routes: Routes,
}

impl Controller {
    /// A controller that connects at its first step; the P4Runtime address of each switch is `address`'s. Controllers of one network need
    /// different seeds.
    ///
    /// # Errors
    /// The program has not the tables that the scheme fills, or one of them is too small.
    pub fn new(
        topology: Topology,
        choice: Choice,
        program: &Program,
        address: impl Fn(SwitchId) -> String,
        seed: u64,
    ) -> Result<Self, FillError> {
        let session = |i: u32| {
            let (address, election_id) = (address(SwitchId(i)), 1);
            let session = SessionConfig { address, device_id: 1, election_id, preempt: false };
            let config = ReconcilerConfig { session, seed, batch: BATCH, atomic: true };
            Reconciler::new(config, program.clone())
        };
        let sessions = (0..topology.switches().len() as u32).map(session).collect();
        let book = Book::new(&program.p4info);
        let (down, news) = (BTreeSet::new(), BTreeSet::new());
        let reports = vec![Reports::new(); topology.switches().len()];
        let routes = Routes::of(&topology, &BTreeSet::new());
        let mut new = Controller { topology, choice, book, sessions, down, reports, news, routes };
        new.route()?;
        Ok(new)
    }

    /// The network.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How its switches choose paths.
    pub fn scheme(&self) -> &'static Scheme {
        self.choice.scheme
    }

    /// All switches, in their order.
    pub fn switches(&self) -> impl Iterator<Item = Standing<'_>> {
        self.topology.switches().iter().zip(&self.sessions).map(|(switch, session)| Standing {
            name: &switch.name,
            state: session.state(),
            leader: session.leader(),
            in_sync: session.in_sync(),
            entities: session.entities(),
        })
    }

    /// Hosts to which a switch with hosts has no path.
    pub fn unreachable(&self) -> usize {
        let tiers = self.topology.tiers();
        let with_hosts = || (0..).map(SwitchId).zip(&tiers).filter(|(_, tier)| **tier == 0);
        let cut_off = |h: &HostId| with_hosts().any(|(s, _)| self.routes.ports(s, *h).is_empty());
        (0..self.topology.hosts().len() as u32).map(HostId).filter(cut_off).count()
    }

    /// Links that are down, as far as known.
    pub fn links_down(&self) -> BTreeSet<LinkId> {
        let of = |(switch, port): &(SwitchId, u16)| {
            self.topology.ports(*switch).find(|(p, ..)| p == port).map(|(_, link, _)| link)
        };
        self.down.iter().filter_map(of).collect()
    }

    /// Whether all switches hold the entries for the links as they are known.
    pub fn in_sync(&self) -> bool {
        self.sessions.iter().all(Reconciler::in_sync)
    }

    /// The deadline for the next step with [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Duration> {
        self.sessions.iter().filter_map(Reconciler::next_deadline).min()
    }

    /// Takes one input at time `now` and returns the actions, in the order of switches.
    pub fn step(&mut self, now: Duration, input: Input) -> Vec<Action> {
        match input {
            Input::Session(switch, input) => {
                let Some(session) = self.sessions.get_mut(switch.0 as usize) else { return Vec::new() };
                let mut out = session.step(now, input);
                if self.heard(switch, &out) {
                    self.news.insert(switch);
                }
                let at = switch.0 as usize;
                if self.news.contains(&switch) && self.sessions[at].in_sync() && self.follow(switch).is_ok() {
                    self.news.remove(&switch);
                    out.extend(self.sessions[at].step(now, SessionInput::Tick));
                }
                out.into_iter().map(|o| (switch, o)).collect()
            }
            Input::Port { switch, port, up } => {
                let changed =
                    if up { self.down.remove(&(switch, port)) } else { self.down.insert((switch, port)) };
                // All names were found when the controller was made.
                if !changed || self.route().is_err() {
                    return Vec::new();
                }
                self.tick(now, |_| true)
            }
            Input::Tick => self.tick(now, |s| s.next_deadline().is_some_and(|at| at <= now)),
        }
    }

    /// Takes another description of the same switches with the same scheme: other links, hosts and settings.
    ///
    /// # Errors
    /// The program cannot be filled so: the former description stays in force.
    pub fn configure(
        &mut self,
        now: Duration,
        topology: Topology,
        choice: Choice,
    ) -> Result<Vec<Action>, FillError> {
        let before =
            (std::mem::replace(&mut self.topology, topology), std::mem::replace(&mut self.choice, choice));
        if let Err(e) = self.route() {
            (self.topology, self.choice) = before;
            // It was filled so before.
            let _ = self.route();
            return Err(e);
        }
        Ok(self.tick(now, |_| true))
    }

    fn tick(&mut self, now: Duration, which: impl Fn(&Reconciler) -> bool) -> Vec<Action> {
        let mut out = Vec::new();
        for (id, session) in (0..).map(SwitchId).zip(&mut self.sessions) {
            if which(session) {
                out.extend(session.step(now, SessionInput::Tick).into_iter().map(|o| (id, o)));
            }
        }
        out
    }

    /// Gives every session what its switch has to hold.
    fn route(&mut self) -> Result<(), FillError> {
        self.routes = Routes::of(&self.topology, &self.links_down());
        (0..self.sessions.len() as u32).map(SwitchId).try_for_each(|switch| {
            let entities = (self.choice.scheme.entities)(&self.place(switch)).map_err(FillError::Unknown)?;
            if let Some((table, entries, size)) = self.book.overfull(&entities) {
                let switch = self.topology.switches()[switch.0 as usize].name.clone();
                return Err(FillError::Full { switch, table: table.into(), entries, size });
            }
            self.sessions[switch.0 as usize].set_desired(entities).map_err(FillError::Desired)?;
            self.follow(switch)
        })
    }

    /// Gives a session what its switch has to hold because of its reports.
    fn follow(&mut self, switch: SwitchId) -> Result<(), FillError> {
        let at = switch.0 as usize;
        let Some(reporting) = &self.choice.scheme.reporting else { return Ok(()) };
        let entities = (reporting.entities)(&self.place(switch), &self.reports[at]);
        self.sessions[at].set_overlay(entities.map_err(FillError::Unknown)?).map_err(FillError::Desired)
    }

    fn place(&self, switch: SwitchId) -> Place<'_> {
        let Controller { book, topology, routes, choice, .. } = self;
        Place { book, topology, routes, switch, choice }
    }

    /// Takes down what a switch reports in these messages: whether any of it is news. A session that begins again knows nothing: the switch may
    /// have lost its state, or reports may have been lost, and a port that is in no group because of an old report would get no packets that lead
    /// to a new one.
    fn heard(&mut self, switch: SwitchId, out: &[Output<ReconcilerEvent>]) -> bool {
        let Some(reporting) = &self.choice.scheme.reporting else { return false };
        let reports = &mut self.reports[switch.0 as usize];
        let mut news = false;
        for output in out {
            match output {
                Output::Event(ReconcilerEvent::Ready { .. }) => {
                    news |= !std::mem::take(reports).is_empty();
                }
                Output::Event(ReconcilerEvent::Message(Update::Packet(packet))) => {
                    if let Some((subject, number)) = (reporting.read)(&self.choice, &packet.payload) {
                        news |= reports.insert(subject, number) != Some(number);
                    }
                }
                _ => {}
            }
        }
        news
    }
}
