//! The controller at work: takes commands, messages of switches and the time, one after the other, and carries out what the
//! controller, the API's desk, choosers and learners answer.

mod group;

pub use group::GroupSettings;

use super::choice::Choosers;
use super::learner::{Answer, Learner, Wish};
use super::link::Link;
use super::polls::Polls;
use super::{Opened, files, unix_ms};
use crate::http::Task;
use crate::http::health::Readiness;
use crate::http::server as http;
use crate::log::{Fields, Level};
use crate::metrics::controller::Tally;
use crate::metrics::{self, Page};
use crate::rack_file;
use group::{Group, api_request, is_of_member};
use pointsman_balance::Rack;
use pointsman_balance::api::{self, Desk, Effect, Tokens};
use pointsman_balance::controller::{Controllers, Event, Input, Limiter, Program, Response, Status};
use pointsman_balance::members::ListError;
use pointsman_balance::trust::ReportKey;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::ClientTlsConfig;

/// Retry interval after a failed save.
const SAVE_AGAIN: Duration = Duration::from_secs(1);

/// State of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the switch holds the current configuration.
    pub status: Status,
    /// Number of unresolved MAC addresses.
    pub unresolved: usize,
    /// Number of devices in service whose first report is awaited.
    pub unheard: usize,
}

impl Standing {
    /// Before it has done anything.
    pub const START: Self = Standing { status: Status::Disconnected, unresolved: 0, unheard: 0 };

    /// Whether all that is configured works, from the first packet on.
    pub fn is_complete(&self) -> bool {
        self.status == Status::InSync && self.unresolved == 0
    }
}

/// Commands to a running controller.
pub enum Command {
    /// As in the library. Policies and configurations take another way, so that the API knows of them.
    Input(Input),
    /// The rack's description changed.
    File {
        /// What it says.
        rack: Box<Rack>,
        /// When its file was written, in milliseconds since 1970; `None` without a file.
        of_ms: Option<u64>,
    },
    /// Others may ask from now on.
    Tokens {
        /// Their tokens.
        tokens: Tokens,
        /// When the file was written, in milliseconds since 1970.
        of_ms: u64,
    },
    /// A file changed and cannot be applied.
    Refused {
        /// The file.
        file: api::File,
        /// When it was written, in milliseconds since 1970.
        of_ms: u64,
        /// What is wrong, and the remedy.
        why: String,
    },
    /// A source's list of members, or why it cannot be read.
    Members {
        /// The source.
        source: String,
        /// The list.
        text: Result<String, ListError>,
    },
    /// A line for the operator.
    Say(String),
    /// Prometheus' data about clients, for the learner.
    Clients(Answer),
    /// A supervisor wants to know whether the controller does its work.
    Ready(oneshot::Sender<Readiness>),
    /// A scrape by Prometheus.
    Metrics(oneshot::Sender<Page>),
    /// The process is about to end: answered when the others of a group need not wait for it.
    Farewell(oneshot::Sender<()>),
    /// An API request.
    Ask {
        /// The request.
        request: http::Request,
        /// Receiver of the answer.
        reply: oneshot::Sender<api::Response>,
    },
}

/// Gets lines for the operator, with what they are about.
pub type Tell = Box<dyn FnMut(Level, &str, &Fields) + Send>;

/// A controller with everything around it.
pub struct Pump {
    controller: Controllers,
    desk: Desk,
    /// File that keeps API requests over a restart.
    keep: Option<PathBuf>,
    /// The state whose save failed, and when to retry.
    unsaved: Option<(String, Instant)>,
    /// To each switch.
    links: Vec<Link>,
    tls: Option<ClientTlsConfig>,
    start: Instant,
    /// Answers waiting for the outcome of a change.
    waiting: Vec<(u64, Instant, oneshot::Sender<api::Response>)>,
    choosers: Choosers,
    polls: Polls,
    learner: Learner,
    tally: Tally,
    /// Messages of choosers, learners and sources of members.
    chosen: mpsc::UnboundedReceiver<Command>,
    limiter: Limiter,
    tell: Tell,
    /// The group of controllers of which this is one.
    group: Option<Box<Group>>,
}

impl Pump {
    /// A pump for this controller with its program and the result of [`super::open`]. `tell` gets lines about events, at a
    /// limited rate.
    pub fn new(controller: Controllers, program: &Program, opened: Opened, tell: Tell) -> Self {
        let Opened { desk, keep, folder, .. } = opened;
        let (commands, chosen) = mpsc::unbounded_channel();
        Pump {
            controller,
            desk,
            keep,
            unsaved: None,
            links: Vec::new(),
            tls: None,
            start: Instant::now(),
            waiting: Vec::new(),
            choosers: Choosers::new(commands.clone()),
            polls: Polls::new(commands.clone()),
            learner: Learner::new(program, folder, commands),
            tally: Tally::default(),
            chosen,
            limiter: Limiter::default(),
            tell,
            group: None,
        }
    }

    /// The same, with switches that serve P4Runtime over TLS, if there is a configuration for it.
    pub fn over(self, tls: Option<ClientTlsConfig>) -> Self {
        Pump { tls, ..self }
    }

    /// Something happened, at this switch if it is about one.
    fn happened(&mut self, event: &Event, switch: Option<usize>) {
        self.tally.event(event);
        let Some(line) = self.limiter.event(self.start.elapsed(), event) else { return };
        let level = if event.is_trouble() { Level::Warn } else { Level::Info };
        let mut fields = event.fields();
        let switches = &self.controller.rack().switch.p4runtime;
        let address = switch.and_then(|i| switches.get(i));
        fields.extend(address.map(|a| ("switch", a.clone())));
        match address.filter(|_| switches.len() > 1) {
            Some(address) => (self.tell)(level, &format!("switch {address}: {line}"), &fields),
            None => (self.tell)(level, &line, &fields),
        }
    }

    fn warn(&mut self, text: String) {
        self.happened(&Event::Warning { text }, None);
    }

    fn note(&mut self, text: String) {
        self.happened(&Event::Note { text }, None);
    }

    /// Runs until `commands` ends. `status` follows the controller's state.
    pub fn run(
        self,
        commands: mpsc::UnboundedReceiver<Command>,
        status: watch::Sender<Standing>,
    ) -> Task<'static, ()> {
        Box::pin(self.serve(commands, status))
    }

    async fn serve(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Command>,
        status: watch::Sender<Standing>,
    ) {
        loop {
            self.links.resize_with(self.controller.each().len(), self.new_link());
            let controller = &self.controller;
            self.choosers.follow(&controller.rack().choices, |service| controller.avoided(service));
            let asks = self.group.as_ref().is_none_or(|g| g.leads());
            self.polls.follow(if asks { &self.controller.rack().sources } else { &[] });
            self.learn();
            let step = [self.controller.next_deadline(), self.limiter.next_deadline()];
            let step = step.into_iter().flatten().min().map(|at| self.start + at);
            let due = self
                .waiting
                .iter()
                .map(|(_, at, _)| *at)
                .chain(step)
                .chain(self.learner.next_deadline())
                .chain(self.unsaved.as_ref().map(|(_, at)| *at))
                .chain(self.group.as_ref().and_then(|g| g.next_deadline(self.start)))
                .chain([self.desk_due()])
                .min();
            let wait = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => return,
                },
                Some(command) = self.chosen.recv() => self.command(command),
                input = Group::next_of(&mut self.group) => self.group_step(input),
                (switch, input) = Link::next_of(&mut self.links) => self.linked(switch, input),
                () = wait => {
                    self.step(Input::Tick);
                    self.desk_tick();
                    self.group_step(pointsman_etcd::Input::Tick);
                    let omitted = self.limiter.tick(self.start.elapsed());
                    omitted.iter().for_each(|line| (self.tell)(Level::Info, line, &Fields::new()));
                    let wishes = self.learner.tick();
                    self.fulfil(wishes);
                }
            }
            self.answer();
            self.save_again();
            // There may be no receiver.
            status.send_replace(Standing {
                status: self.controller.status(),
                unresolved: self.controller.unresolved().len(),
                unheard: self.controller.unheard().len(),
            });
        }
    }

    /// Passes the current state to the learner.
    fn learn(&mut self) {
        let file = self.desk.file();
        let overridden = file.learn.as_ref().is_some_and(|l| self.desk.is_overridden(&l.service));
        let wishes = self.learner.follow(file, &self.controller, overridden);
        self.fulfil(wishes);
    }

    fn fulfil(&mut self, wishes: Vec<Wish>) {
        for wish in wishes {
            match wish {
                Wish::Request { id, request } => {
                    // With a learner there is one switch.
                    let request = pointsman_balance::controller::Output::Request { id, request };
                    self.links.first_mut().and_then(|link| link.carry(request));
                }
                Wish::Weigh { service, weights } => {
                    let effects = self.desk.learnt(&service, weights);
                    self.perform(effects);
                }
                Wish::Decided { service, learner, decision } => {
                    self.desk.decided(unix_ms(), &decision);
                    let event = Event::Learnt { service, learner, decision: decision.to_string() };
                    self.happened(&event, None);
                }
                Wish::Say(text) => self.warn(text),
            }
        }
    }

    /// Something came from a switch.
    fn linked(&mut self, switch: usize, input: pointsman_session::Input) {
        match Input::from(input) {
            Input::Response { id, result } if Learner::is_own(id) => {
                let wishes = self.learner.devices(id, result.and_then(Response::entities));
                self.fulfil(wishes);
            }
            input => {
                let reach = matches!(input, Input::Connected | Input::Disconnected(_));
                if matches!(input, Input::Disconnected(_)) {
                    self.learner.disconnected();
                }
                self.step_with(switch, input);
                if reach {
                    self.group_step(pointsman_etcd::Input::Tick);
                }
            }
        }
    }

    /// Makes links to switches.
    fn new_link(&self) -> impl FnMut() -> Link + use<> {
        let (watchful, tls) = (self.group.is_some(), self.tls.clone());
        move || Link::new(watchful, tls.clone())
    }

    fn step(&mut self, input: Input) {
        self.step_with(0, input);
    }

    /// A step; messages are those of this switch.
    fn step_with(&mut self, switch: usize, input: Input) {
        let mut effects = Vec::new();
        let outputs = self.controller.step(self.start.elapsed(), switch, input);
        let in_sync = self.controller.status() == Status::InSync;
        for (switch, output) in outputs {
            if switch >= self.links.len() {
                self.links.resize_with(switch + 1, self.new_link());
            }
            if let Some(mut event) = self.links[switch].carry(output) {
                if let Event::ConfigAccepted { by, .. } = &mut event {
                    *by = self.desk.cause();
                }
                self.happened(&event, Some(switch).filter(|_| !event.is_of_the_rack()));
                if let (Event::Outranked { highest }, Some(group)) = (&event, &mut self.group) {
                    group.outranked(highest.term());
                }
                effects.extend(self.desk.event(unix_ms(), &event, in_sync));
            }
        }
        self.perform(effects);
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Input(input) => {
                if let Input::Choose { service, .. } = &input {
                    self.tally.choice(service);
                }
                self.step(input);
            }
            Command::Members { source, text } if self.group.is_some() => self.group_list(source, text),
            Command::Members { source, text } => self.listed(unix_ms(), &source, &text),
            Command::File { rack, of_ms } => {
                let effects = match of_ms {
                    Some(of_ms) => self.desk.file_read(unix_ms(), *rack, of_ms),
                    None => self.desk.file_changed(unix_ms(), *rack),
                };
                self.perform(effects);
            }
            Command::Tokens { tokens, of_ms } => {
                self.desk.set_tokens(tokens);
                self.desk.file_applied(api::File::Tokens, of_ms);
            }
            Command::Refused { file, of_ms, why } => {
                self.desk.file_refused(file, of_ms, &why);
                self.warn(format!("{why}; keeping the previous {}", file.contents()));
            }
            Command::Farewell(reply) => {
                if let Some(group) = &self.group {
                    group.farewell(reply);
                }
            }
            Command::Metrics(reply) => {
                self.desk.observe(unix_ms(), &self.controller);
                let learning = self.learner.report();
                let history = self.desk.history();
                let mut page =
                    metrics::controller::page(&self.controller, history, &self.tally, learning.as_ref());
                self.group_metrics(&mut page);
                metrics::controller::refused(self.desk.followed(), &mut page);
                metrics::controller::states(self.desk.device_states(), &mut page);
                metrics::members::members(self.desk.members(), &mut page);
                if self.keep.is_some() {
                    metrics::controller::unsaved(self.unsaved.is_some(), &mut page);
                }
                // The caller may have disconnected.
                drop(reply.send(page));
            }
            // The caller may have disconnected.
            Command::Ready(reply) => drop(reply.send(self.ready())),
            Command::Clients(answer) => {
                let wishes = self.learner.clients(answer);
                self.fulfil(wishes);
            }
            Command::Say(text) => self.warn(text),
            Command::Ask { request, reply } => {
                self.show_group();
                if self.group.is_some() && request.method != "GET" {
                    return self.ask_group(request, reply);
                }
                if ["/v1/devices", "/v1/drops"].contains(&&*request.target) && request.method == "GET" {
                    self.step(Input::Look);
                }
                if let Some(key) = self.key_for(&request) {
                    self.desk.give_key(key);
                }
                self.answer_ask(unix_ms(), &request, reply);
            }
        }
    }

    /// A source's list.
    fn listed(&mut self, at_ms: u64, source: &str, text: &Result<String, ListError>) {
        let text = text.as_ref().map(String::as_str).map_err(Clone::clone);
        let effects = self.desk.listed(at_ms, source, text);
        self.perform(effects);
    }

    /// Answers a request, at once or when the change that it asks for is made.
    fn answer_ask(&mut self, at_ms: u64, request: &http::Request, reply: oneshot::Sender<api::Response>) {
        let answer = self.desk.ask(at_ms, &self.controller, &api_request(request));
        self.perform(answer.effects);
        match answer.wait {
            Some(wait) => {
                let until = Instant::now() + Duration::from_millis(wait.at_most_ms);
                self.waiting.push((wait.change, until, reply));
            }
            None => {
                self.tally.request(answer.response.status);
                // The caller may have disconnected.
                drop(reply.send(answer.response));
            }
        }
    }

    /// A random key, for a member that registers. Without one it gets none, and is refused if it needs one.
    fn key_for(&mut self, request: &http::Request) -> Option<ReportKey> {
        if request.method != "PUT" || !is_of_member(request) {
            return None;
        }
        let key = rack_file::random().map_err(|e| self.warn(e.to_string()));
        key.ok().map(ReportKey::new)
    }

    /// When members and the last hour have to be looked after.
    fn desk_due(&self) -> Instant {
        let due = match &self.group {
            Some(group) => group.members_due(&self.desk),
            None => self.desk.next_deadline(),
        };
        // A clock that is set back must not make it wait.
        Instant::now() + Duration::from_millis(due.saturating_sub(unix_ms())).min(SAVE_AGAIN)
    }

    fn desk_tick(&mut self) {
        if self.desk.sample(unix_ms(), &self.controller) {
            self.step(Input::Glance);
        }
        match self.group {
            Some(_) => self.group_members(),
            None => self.tick_members(unix_ms()),
        }
    }

    /// Lets the time pass for members.
    fn tick_members(&mut self, at_ms: u64) {
        let effects = self.desk.tick(at_ms, &self.controller);
        self.perform(effects);
    }

    /// Gives the API what it shows of the group.
    fn show_group(&mut self) {
        let group = self.group.as_ref().map(|g| g.shown());
        self.desk.set_group(group);
    }

    /// Whether every switch holds the configuration, or has another controller that sees to it.
    fn ready(&self) -> Readiness {
        let switches = self.controller.each().iter().zip(&self.controller.rack().switch.p4runtime);
        let late = switches.filter_map(|(controller, address)| match controller.status() {
            Status::InSync | Status::Backup => None,
            Status::Disconnected => Some(format!("no connection to the switch at {address}")),
            Status::Working => Some(format!("the switch at {address} is not up to date yet")),
        });
        let late: Vec<String> = late.collect();
        match late.is_empty() {
            true => self.group.as_ref().map_or(Readiness::Ready(""), |g| g.ready()),
            false => Readiness::NotReady(late.join("; ")),
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Configure(rack) => self.step(Input::Config(rack)),
                Effect::Save(text) => self.save(text),
                Effect::Say(text) => self.note(text),
            }
        }
    }

    /// Saves this over a restart, if a file is configured. A full disk may have room again: failed saves are retried.
    fn save(&mut self, text: String) {
        if let Some(group) = &mut self.group {
            group.store(text.clone());
        }
        self.save_file(text);
    }

    fn save_file(&mut self, text: String) {
        let Some(path) = self.keep.clone() else { return };
        let result = files::replace(&path, &text);
        match (&result, self.unsaved.take()) {
            (Err(e), None) => self.warn(e.to_string()),
            (Ok(()), Some(_)) => self.note(format!("{} can be saved again", path.display())),
            _ => {}
        }
        if result.is_err() {
            self.unsaved = Some((text, Instant::now() + SAVE_AGAIN));
        }
        self.desk.saved(result);
    }

    fn save_again(&mut self) {
        if self.unsaved.as_ref().is_some_and(|(_, at)| *at <= Instant::now()) {
            let text = self.unsaved.as_ref().map(|(text, _)| text.clone()).unwrap_or_default();
            self.save_file(text);
        }
    }

    /// Answers waiting requests whose change is complete or whose time has elapsed.
    fn answer(&mut self) {
        let now = Instant::now();
        let (desk, mut left) = (&self.desk, Vec::new());
        for (change, until, reply) in self.waiting.drain(..) {
            let over = desk.history().get(change).is_none_or(api::Change::is_over);
            if over || now >= until {
                let response = desk.outcome(change);
                self.tally.request(response.status);
                let _ = reply.send(response);
            } else {
                left.push((change, until, reply));
            }
        }
        self.waiting = left;
    }
}
