//! The loop that steps the controller of a network, and the tasks that carry its sessions' messages.

use crate::controller::link::Link;
use crate::http::health::Readiness;
use crate::metrics::{self, Page};
use pointsman_fabric::{Action, Controller, Description, FillError, Input};
use pointsman_session::{Output, ReconcilerEvent, Request, State};
use pointsman_topology::{LinkId, SwitchId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::ClientTlsConfig;

/// Without another deadline, the controller is stepped this often.
const IDLE: Duration = Duration::from_secs(3600);

/// What a session does.
pub type Does = Output<ReconcilerEvent>;

/// Something for the controller of a network.
#[derive(Debug)]
pub enum Command {
    /// One of its inputs.
    Input(Input),
    /// Its metrics.
    Metrics(oneshot::Sender<Page>),
    /// Whether all switches are as they should be.
    Ready(oneshot::Sender<Readiness>),
    /// Another description of the same switches.
    Describe(Box<Description>),
}

/// How far a controller is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// All switches hold what they have to.
    pub in_sync: bool,
    /// Updates that it has sent to all switches.
    pub writes: u64,
}

/// What the controller has done with a switch.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Updates sent.
    pub writes: u64,
    /// Packets received.
    pub packets: u64,
    /// Events of the session, by kind.
    pub events: BTreeMap<&'static str, u64>,
}

/// News for the operator.
#[derive(Debug)]
pub enum News<'a> {
    /// Of the session with this switch.
    Event(&'a str, &'a ReconcilerEvent),
    /// The link of this name is down, or up again.
    Link(&'a str, bool),
    /// A description was refused: the former stays in force.
    Refused(FillError),
    /// All switches hold what they have to.
    InSync,
}

/// The controller with the ways to its switches.
pub struct Steering {
    controller: Controller,
    ways: Vec<mpsc::UnboundedSender<Does>>,
    tallies: Vec<Tally>,
    down: BTreeSet<LinkId>,
    progress: watch::Sender<Progress>,
    tell: Box<dyn FnMut(News<'_>) + Send>,
}

impl Steering {
    /// A controller that has not been stepped yet. The messages of each session leave by `ways`, in the order of switches.
    pub fn new(
        controller: Controller,
        ways: Vec<mpsc::UnboundedSender<Does>>,
        progress: watch::Sender<Progress>,
        tell: Box<dyn FnMut(News<'_>) + Send>,
    ) -> Self {
        let tallies = vec![Tally::default(); ways.len()];
        Steering { controller, ways, tallies, down: BTreeSet::new(), progress, tell }
    }

    /// Steps the controller until nothing sends commands any more.
    pub async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let start = Instant::now();
        let mut command = Command::Input(Input::Tick);
        loop {
            match command {
                Command::Input(input) => self.step(start.elapsed(), input),
                // Whoever asked may have left.
                Command::Metrics(reply) => {
                    let _ = reply.send(metrics::network::page(&self.controller, &self.tallies));
                }
                Command::Ready(reply) => {
                    let _ = reply.send(self.ready());
                }
                Command::Describe(new) => self.describe(start.elapsed(), *new),
            }
            let deadline = self.controller.next_deadline().map(|at| at.saturating_sub(start.elapsed()));
            command = tokio::select! {
                next = commands.recv() => match next {
                    Some(next) => next,
                    None => return,
                },
                () = tokio::time::sleep(deadline.unwrap_or(IDLE)) => Command::Input(Input::Tick),
            };
        }
    }

    fn step(&mut self, now: Duration, input: Input) {
        let of_port = matches!(input, Input::Port { .. });
        let actions = self.controller.step(now, input);
        if of_port {
            let down = self.controller.links_down();
            for link in self.down.symmetric_difference(&down) {
                let name = &self.controller.topology().links()[link.0 as usize].name;
                (self.tell)(News::Link(name, !down.contains(link)));
            }
            self.down = down;
        }
        self.carry_out(actions);
    }

    fn describe(&mut self, now: Duration, new: Description) {
        match self.controller.configure(now, new.topology, new.choice) {
            Ok(actions) => {
                self.down = self.controller.links_down();
                self.carry_out(actions);
            }
            Err(e) => (self.tell)(News::Refused(e)),
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        let mut writes = 0;
        for (switch, action) in actions {
            writes += self.count(switch, &action);
            if let Output::Event(event) = &action {
                let name = &self.controller.topology().switches()[switch.0 as usize].name;
                (self.tell)(News::Event(name, event));
            } else {
                // A session whose task has ended is lost with its switch.
                let _ = self.ways[switch.0 as usize].send(action);
            }
        }
        let in_sync = self.controller.in_sync();
        if in_sync && !self.progress.borrow().in_sync {
            (self.tell)(News::InSync);
        }
        self.progress.send_modify(|p| *p = Progress { in_sync, writes: p.writes + writes });
    }

    /// Counts an action: the updates that it sends.
    fn count(&mut self, switch: SwitchId, action: &Does) -> u64 {
        let tally = &mut self.tallies[switch.0 as usize];
        match action {
            Output::Request { request: Request::Write(write), .. } => {
                tally.writes += write.updates.len() as u64;
                return write.updates.len() as u64;
            }
            Output::Event(ReconcilerEvent::Message(_)) => tally.packets += 1,
            Output::Event(event) => *tally.events.entry(kind(event)).or_default() += 1,
            _ => {}
        }
        0
    }

    fn ready(&self) -> Readiness {
        let wrong = self.controller.switches().find(|s| !s.in_sync);
        match wrong.map(|s| (s.state, s.name)) {
            None => Readiness::Ready(""),
            Some((State::Disconnected, name)) => Readiness::NotReady(format!("no connection to {name}")),
            Some((_, name)) => Readiness::NotReady(format!("{name} does not hold its entries yet")),
        }
    }
}

/// A short name of an event's kind, as metrics have it.
fn kind(event: &ReconcilerEvent) -> &'static str {
    match event {
        ReconcilerEvent::Session(event) => pointsman_balance::controller::Event::from(event.clone()).kind(),
        ReconcilerEvent::Ready { installed: true } => "pipeline_installed",
        ReconcilerEvent::Ready { installed: false } => "pipeline_present",
        ReconcilerEvent::Read { .. } => "read",
        ReconcilerEvent::InSync { .. } => "in_sync",
        ReconcilerEvent::Refused { .. } => "write_failed",
        ReconcilerEvent::Message(_) => "message",
    }
}

/// An event as a line for the operator; none for what happens all the time.
pub fn line(event: &ReconcilerEvent) -> Option<String> {
    use pointsman_balance::controller::Event;
    Some(match event {
        ReconcilerEvent::Session(event) => Event::from(event.clone()).to_string(),
        ReconcilerEvent::Ready { installed: true } => Event::PipelineInstalled.to_string(),
        ReconcilerEvent::Ready { installed: false } => Event::PipelinePresent.to_string(),
        ReconcilerEvent::Read { entities } => format!("entries on the switch: {entities}"),
        ReconcilerEvent::InSync { writes } => Event::InSync { writes: *writes }.to_string(),
        ReconcilerEvent::Refused { update, code, message } => {
            let update = format!("write {update:?}");
            Event::WriteFailed { update, code: *code, message: message.clone() }.to_string()
        }
        ReconcilerEvent::Message(_) => return None,
    })
}

/// Carries the messages of one session, over sockets of the runtime that runs this.
pub async fn carry(
    switch: SwitchId,
    mut actions: mpsc::UnboundedReceiver<Does>,
    commands: mpsc::UnboundedSender<Command>,
    tls: Option<ClientTlsConfig>,
) {
    let mut link = Link::new(false, tls);
    loop {
        tokio::select! {
            action = actions.recv() => match action {
                // Events do not come here.
                Some(action) => drop(link.carry(action)),
                None => return,
            },
            input = link.next() => {
                if commands.send(Command::Input(Input::Session(switch, input))).is_err() {
                    return;
                }
            }
        }
    }
}
