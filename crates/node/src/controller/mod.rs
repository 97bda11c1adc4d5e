//! `pointsman controller`: connects the controller with gRPC, its configuration file and its HTTP API.

mod choice;
pub mod files;
mod learner;
pub mod link;
mod reload;

use crate::http::server as http;
use crate::metrics::controller::Tally;
use crate::metrics::{self, Page};
use crate::rack_file;
use crate::switch::tls;
use choice::Choosers;
pub use learner::{Answer, Report};
use learner::{Learner, Wish, random_seed};
use link::Link;
use pointsman_balance::Rack;
use pointsman_balance::api::{self, Desk, Effect, Tokens};
use pointsman_balance::config::{ApiTls, Program as ProgramName};
use pointsman_balance::controller::{Controllers, Event, Input, Limiter, Program, Response, Status};
use pointsman_compile::sources::{self, Sources};
use pointsman_console::say;
use pointsman_control::p4info::p4info;
use reload::Follower;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, oneshot, watch};

/// Timeout of a connection attempt and of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Retry interval after a failed save.
const SAVE_AGAIN: Duration = Duration::from_secs(1);

/// How often the files are polled. A file is read when two polls in a row show the same change.
const WATCH: Duration = Duration::from_millis(500);

/// Install a rack description on its switch and keep the switch in sync with it.
#[derive(clap::Args)]
pub struct Args {
    /// Rack description. Changes are applied automatically, or at once on SIGHUP.
    rack: PathBuf,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics, without authentication.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Only check the rack description and the files it references, then exit.
    #[arg(long)]
    check: bool,
}

/// The program of a rack, for its controller and, compiled, for its switches.
///
/// # Errors
/// It cannot be read, or does not compile.
pub fn program(name: &ProgramName) -> Result<(Program, pointsman_ir::Program), String> {
    let (path, text) = match name {
        ProgramName::BuiltIn => ("balancer".to_string(), sources::balancer()),
        ProgramName::File(file) => {
            let path = Path::new(file);
            let text = sources::flatten_file(path, &Sources::default(), &[])
                .map_err(|e| format!("switch.program: cannot read {file}: {e}"))?;
            (file.clone(), text)
        }
    };
    compiled(&path, text)
}

/// A program for controllers and, compiled, for switches. `path` is how messages call it; `text` includes nothing but what is built
/// into every switch.
pub fn compiled(path: &str, text: String) -> Result<(Program, pointsman_ir::Program), String> {
    let compiled = pointsman_compile::compile(path, &text, &Sources::default(), &[])
        .map_err(|failure| pointsman_compile::rendered(&failure))?;
    let p4info = p4info(&compiled.program).map_err(|e| format!("{path}: {e}"))?;
    Ok((Program { p4info, device_config: text.into_bytes() }, compiled.program))
}

/// State of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the switch holds the current configuration.
    pub status: Status,
    /// Number of unresolved MAC addresses.
    pub unresolved: usize,
}

impl Standing {
    /// Before it has done anything.
    pub const START: Self = Standing { status: Status::Disconnected, unresolved: 0 };

    /// Whether all that is configured works, from the first packet on.
    pub fn is_complete(&self) -> bool {
        self.status == Status::InSync && self.unresolved == 0
    }
}

/// Commands to a running controller.
pub enum Command {
    /// As in the library. Policies and configurations take another way, so that the API knows of them.
    Input(Input),
    /// The rack's file changed.
    File(Box<Rack>),
    /// Others may ask from now on.
    Tokens(Tokens),
    /// A line for the operator.
    Say(String),
    /// Prometheus' data about clients, for the learner.
    Clients(Answer),
    /// A scrape by Prometheus.
    Metrics(oneshot::Sender<Page>),
    /// An API request.
    Ask {
        /// The request.
        request: http::Request,
        /// Receiver of the answer.
        reply: oneshot::Sender<api::Response>,
    },
}

/// A controller with everything around it.
pub struct Pump<T> {
    controller: Controllers,
    desk: Desk,
    /// File that keeps API requests over a restart.
    keep: Option<PathBuf>,
    /// The state whose save failed, and when to retry.
    unsaved: Option<(String, Instant)>,
    /// To each switch.
    links: Vec<Link>,
    start: Instant,
    /// Answers waiting for the outcome of a change.
    waiting: Vec<(u64, Instant, oneshot::Sender<api::Response>)>,
    choosers: Choosers,
    learner: Learner,
    tally: Tally,
    /// Messages of choosers and learners.
    chosen: mpsc::UnboundedReceiver<Command>,
    limiter: Limiter,
    tell: T,
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

impl<T: FnMut(&str)> Pump<T> {
    /// A pump for this controller with its program and the result of [`open`]. `tell` gets lines about events, at a
    /// limited rate.
    pub fn new(controller: Controllers, program: &Program, opened: Opened, tell: T) -> Self {
        let Opened { desk, keep, folder, .. } = opened;
        let (commands, chosen) = mpsc::unbounded_channel();
        Pump {
            controller,
            desk,
            keep,
            unsaved: None,
            links: Vec::new(),
            start: Instant::now(),
            waiting: Vec::new(),
            choosers: Choosers::new(commands.clone()),
            learner: Learner::new(program, folder, commands),
            tally: Tally::default(),
            chosen,
            limiter: Limiter::default(),
            tell,
        }
    }

    /// Something happened, at this switch if it is about one.
    fn happened(&mut self, event: &Event, switch: Option<usize>) {
        self.tally.event(event);
        if let Some(line) = self.limiter.event(self.start.elapsed(), event) {
            let switches = &self.controller.rack().switch.p4runtime;
            match switch.and_then(|i| switches.get(i)).filter(|_| switches.len() > 1) {
                Some(address) => (self.tell)(&format!("switch {address}: {line}")),
                None => (self.tell)(&line),
            }
        }
    }

    fn warn(&mut self, text: String) {
        self.happened(&Event::Warning { text }, None);
    }

    /// Runs until `commands` ends. `status` follows the controller's state.
    pub async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Command>,
        status: watch::Sender<Standing>,
    ) {
        loop {
            self.links.resize_with(self.controller.each().len(), Link::default);
            self.choosers.follow(&self.controller.rack().choices);
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
                (switch, input) = Link::next_of(&mut self.links) => self.linked(switch, input),
                () = wait => {
                    self.step(Input::Tick);
                    self.limiter.tick(self.start.elapsed()).iter().for_each(|line| (self.tell)(line));
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
                let result = match result {
                    Ok(Response::Read(entities)) => Ok(entities),
                    Ok(_) => Err("the answer belongs to another kind of request".to_string()),
                    Err(e) => Err(format!("{} ({:?})", e.message, e.code)),
                };
                let wishes = self.learner.devices(id, result);
                self.fulfil(wishes);
            }
            input => {
                if matches!(input, Input::Disconnected(_)) {
                    self.learner.disconnected();
                }
                self.step_with(switch, input);
            }
        }
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
                self.links.resize_with(switch + 1, Link::default);
            }
            if let Some(event) = self.links[switch].carry(output) {
                self.happened(&event, Some(switch).filter(|_| !event.is_of_the_rack()));
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
            Command::File(rack) => {
                let effects = self.desk.file_changed(unix_ms(), *rack);
                self.perform(effects);
            }
            Command::Tokens(tokens) => self.desk.set_tokens(tokens),
            Command::Metrics(reply) => {
                // The caller may have disconnected.
                drop(reply.send(metrics::controller::page(
                    &self.controller,
                    self.desk.history(),
                    &self.tally,
                    self.learner.report().as_ref(),
                )));
            }
            Command::Clients(answer) => {
                let wishes = self.learner.clients(answer);
                self.fulfil(wishes);
            }
            Command::Say(text) => self.warn(text),
            Command::Ask { request, reply } => {
                let asked = api::Request {
                    method: &request.method,
                    target: &request.target,
                    authorization: request.authorization.as_deref(),
                    body: &request.body,
                };
                let answer = self.desk.ask(unix_ms(), &self.controller, &asked);
                self.perform(answer.effects);
                match answer.wait {
                    Some(wait) => {
                        let until = Instant::now() + Duration::from_millis(wait.at_most_ms);
                        self.waiting.push((wait.change, until, reply));
                    }
                    // The caller may have disconnected.
                    None => {
                        self.tally.request(answer.response.status);
                        drop(reply.send(answer.response));
                    }
                }
            }
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Configure(rack) => self.step(Input::Config(rack)),
                Effect::Save(text) => self.save(text),
                Effect::Say(text) => self.warn(text),
            }
        }
    }

    /// Saves this over a restart, if a file is configured. A full disk may have room again: failed saves are retried.
    fn save(&mut self, text: String) {
        let Some(path) = self.keep.clone() else { return };
        let result = files::replace(&path, &text);
        match (&result, self.unsaved.take()) {
            (Err(why), None) => self.warn(why.clone()),
            (Ok(()), Some(_)) => self.warn(format!("{} can be saved again", path.display())),
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
            self.save(text);
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

/// Serves the API on `listener`, over TLS if there is a configuration for it: hands requests to the pump.
pub async fn serve(
    listener: tokio::net::TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    commands: mpsc::UnboundedSender<Command>,
) {
    http::serve(listener, tls, api::MAX_BODY, move |request| {
        let commands = commands.clone();
        async move {
            let (reply, answer) = oneshot::channel();
            let sent = commands.send(Command::Ask { request, reply });
            drop(commands);
            match (sent, answer.await) {
                (Ok(()), Ok(r)) => http::Response {
                    status: r.status,
                    content_type: "application/json",
                    headers: r.headers,
                    body: r.body,
                },
                _ => http::Response::error(
                    503,
                    "the controller is shutting down: retry after it has restarted",
                ),
            }
        }
    })
    .await;
}

/// Serves metrics on `listener`.
pub async fn serve_metrics(listener: tokio::net::TcpListener, commands: mpsc::UnboundedSender<Command>) {
    metrics::serve(listener, move || {
        let commands = commands.clone();
        async move {
            let (reply, page) = oneshot::channel();
            commands.send(Command::Metrics(reply)).ok()?;
            page.await.ok()
        }
    })
    .await;
}

/// The API part of a rack description: the desk with the saved state, and its file.
pub struct Opened {
    /// The desk.
    pub desk: Desk,
    /// The file for saved API requests.
    pub keep: Option<PathBuf>,
    /// The new state to save, if it differs from the file's.
    changed: Option<String>,
    /// Base folder of paths in the rack file.
    pub folder: PathBuf,
    /// Log lines for the operator.
    pub notes: Vec<String>,
}

/// Reads tokens and saved state, and checks that the learner state is readable. `folder` is the base of paths in the rack file.
///
/// # Errors
/// A file is unreadable or invalid.
pub fn open(rack: &Rack, folder: &Path) -> Result<Opened, String> {
    let mut opened = look(rack, folder)?;
    if let (Some(path), Some(text)) = (&opened.keep, opened.changed.take()) {
        files::replace(path, &text)?;
    }
    Ok(opened)
}

/// The same, but writes nothing.
fn look(rack: &Rack, folder: &Path) -> Result<Opened, String> {
    if let Some(learn) = &rack.learn {
        learner::kept(learn, folder)?;
    }
    let mut opened = Opened {
        desk: Desk::new(rack.clone(), Tokens::default()),
        keep: None,
        changed: None,
        folder: folder.to_path_buf(),
        notes: Vec::new(),
    };
    let Some(settings) = &rack.api else { return Ok(opened) };
    let tokens = files::tokens(&folder.join(&settings.tokens), &mut opened.notes)?;
    opened.desk.set_tokens(tokens);
    opened.keep = settings.state.as_ref().map(|s| folder.join(s));
    let Some(path) = &opened.keep else { return Ok(opened) };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(opened),
        Err(e) => return Err(format!("cannot read {}: {e}", path.display())),
    };
    let effects = opened.desk.restore(unix_ms(), &text).map_err(|e| format!("{}: {e}", path.display()))?;
    for effect in effects {
        match effect {
            Effect::Say(line) => opened.notes.push(line),
            Effect::Save(text) => opened.changed = Some(text),
            Effect::Configure(_) => {}
        }
    }
    Ok(opened)
}

/// Follows the files of a rack, and reads them at SIGHUP.
async fn follow(
    path: PathBuf,
    started_with: Rack,
    mut hangup: Signal,
    commands: mpsc::UnboundedSender<Command>,
) {
    let mut follower = Follower::new(&path, started_with);
    loop {
        tokio::select! {
            _ = hangup.recv() => follower.ask(),
            () = tokio::time::sleep(WATCH) => {}
        }
        for command in follower.look() {
            if commands.send(command).is_err() {
                return;
            }
        }
    }
}

/// The files of the API's TLS.
fn tls_files(t: &ApiTls, folder: &Path) -> tls::Files {
    tls::Files {
        cert: folder.join(&t.cert),
        key: folder.join(&t.key),
        client_ca: t.client_ca.as_ref().map(|ca| folder.join(ca)),
    }
}

/// Base folder of paths in a rack file.
fn folder(path: &Path) -> PathBuf {
    path.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, String> {
    let rack = rack_file::read_complete(&args.rack)?;
    let (program, _) = program(&rack.switch.program)?;
    let opened =
        if args.check { look(&rack, &folder(&args.rack))? } else { open(&rack, &folder(&args.rack))? };
    let files = rack.api.as_ref().and_then(|a| a.tls.as_ref()).map(|t| tls_files(t, &folder(&args.rack)));
    let api_tls = files.map(|f| tls::load(&f, "http/1.1", SystemTime::now())).transpose()?;
    opened.notes.iter().for_each(|n| say(n));
    let controller = Controllers::new(opened.desk.rack().clone(), program.clone())?.with_seed(random_seed());
    if args.check {
        rack.hints().iter().for_each(|hint| say(&format!("hint: {hint}")));
        return Ok(ExitCode::SUCCESS);
    }
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    tokio.block_on(async {
        let hangup = pointsman_console::signals::hangup()?;
        let (tx, rx) = mpsc::unbounded_channel();
        let (status, _) = watch::channel(Standing::START);
        if let Some(settings) = &rack.api {
            let listener = tokio::net::TcpListener::bind(settings.listen).await.map_err(|e| {
                format!("cannot listen on {}: {e}; choose another with api.listen", settings.listen)
            })?;
            let at = listener.local_addr().unwrap_or(settings.listen);
            say(&format!("API on {}://{at}", if api_tls.is_some() { "https" } else { "http" }));
            tokio::spawn(serve(listener, api_tls, tx.clone()));
        }
        if let Some(at) = args.metrics {
            let listener = metrics::bind(at).await?;
            say(&format!("metrics on http://{}/metrics", listener.local_addr().unwrap_or(at)));
            tokio::spawn(serve_metrics(listener, tx.clone()));
        }
        tokio::spawn(follow(args.rack, rack, hangup, tx));
        let pump = Pump::new(controller, &program, opened, say);
        tokio::select! {
            () = pump.run(rx, status) => {}
            () = pointsman_console::signals::wait_for_stop() => {}
        }
        Ok::<(), String>(())
    })?;
    Ok(ExitCode::SUCCESS)
}
