//! The learner next to the controller: queries Prometheus for client metrics, saves its state in a file, and passes readings and weights
//! between switch, desk and [`Driver`].

use super::files::{self, FileError};
use super::query::query;
use crate::metrics::controller::Report;
use pointsman_balance::config::{Class, ClientsSource, LearnConfig};
use pointsman_balance::controller::{Controllers, Program, Request};
use pointsman_balance::learn::driver::{Input, Output, Situation};
use pointsman_balance::learn::{
    Clients, ClientsError, Decision, Driver, DriverError, ServiceWeights, of_classes,
};
use pointsman_balance::{DeviceNumber, Rack};
use pointsman_control::RpcError;
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::proto::p4rt;
use pointsman_decide::{Kept, LearnerError, TableError};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{fmt, io};
use tokio::sync::mpsc::UnboundedSender;

/// Ids of a learner's requests start here, out of reach of the controller's own.
const FIRST_ID: u64 = 1 << 63;

/// Prometheus' answer to a learner.
pub struct Answer {
    /// The learner that sent the query: a stopped one gets no answer.
    learner: u64,
    round: u64,
    result: Result<Vec<Clients>, ClientsError>,
}

/// A learner's request to its owner.
pub(super) enum Wish {
    /// A request to the switch.
    Request { id: u64, request: Request },
    /// Weights for a service.
    Weigh { service: String, weights: ServiceWeights },
    /// A decision was made.
    Decided { service: String, learner: &'static str, decision: Decision },
    /// Something for the operator.
    Say(String),
}

/// Identity of a learner: its settings, and its devices.
#[derive(Clone, PartialEq)]
struct Basis {
    config: LearnConfig,
    members: Vec<(DeviceNumber, u32, bool)>,
    classes: Vec<Class>,
    device_id: u64,
}

fn basis(rack: &Rack) -> Option<Basis> {
    let config = rack.learn.clone()?;
    let members = rack.service(&config.service).ok()?.members.iter().flat_map(|m| &m.devices);
    let members = members.map(|d| (d.number, d.weight, d.enabled)).collect();
    let classes = rack.classes(&config.service, config.settings.per_class).ok()?;
    Some(Basis { config, members, classes, device_id: rack.switch.device_id })
}

struct Running {
    basis: Basis,
    driver: Driver,
    /// Where its state is saved.
    file: Option<PathBuf>,
}

/// The learner that runs, if one is configured.
pub(super) struct Learner {
    /// Base folder of paths in the rack file.
    folder: PathBuf,
    info: P4Info,
    start: Instant,
    tell: UnboundedSender<super::Command>,
    running: Option<Running>,
    /// An unsupported configuration, which was reported.
    refused: Option<Basis>,
    /// Number of learners so far: answers for a stopped one are dropped.
    number: u64,
    /// The next request's, and the rounds that those without an answer belong to.
    next_id: u64,
    open: BTreeMap<u64, (u64, u64)>,
}

/// What is wrong with the file of a learner's state.
#[derive(Debug)]
pub enum KeptError {
    /// It cannot be read.
    Unreadable(PathBuf, io::Error),
    /// It is not such a file.
    Malformed(PathBuf, TableError),
    /// It belongs to a learner with other settings.
    Unfit(PathBuf, LearnerError),
}

impl fmt::Display for KeptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REMEDY: &str = "or move it away to start from scratch";
        match self {
            KeptError::Unreadable(path, e) => {
                write!(f, "cannot read {} for learn.table: {e}", path.display())
            }
            KeptError::Malformed(path, e) => write!(f, "{}: {e}; restore it, {REMEDY}", path.display()),
            KeptError::Unfit(path, why) => write!(f, "{}: {why}, {REMEDY}", path.display()),
        }
    }
}

impl Error for KeptError {}

/// Why a learner does not begin.
#[derive(Debug)]
enum BeginError {
    /// Its saved state.
    Kept(KeptError),
    /// Its settings, or the program.
    Driver(DriverError),
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BeginError::Kept(e) => e.fmt(f),
            BeginError::Driver(e) => e.fmt(f),
        }
    }
}

impl Error for BeginError {}

/// Loads the learner state of a configuration. A missing file means an empty state.
pub(super) fn kept(config: &LearnConfig, folder: &Path) -> Result<Option<Kept>, KeptError> {
    let Some(name) = &config.table else { return Ok(None) };
    let path = folder.join(name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(KeptError::Unreadable(path, e)),
    };
    let kept = match Kept::load(&text) {
        Ok(kept) => kept,
        Err(e) => return Err(KeptError::Malformed(path, e)),
    };
    match kept.fits(config.settings.learner, &config.settings.parameters) {
        Ok(()) => Ok(Some(kept)),
        Err(why) => Err(KeptError::Unfit(path, why)),
    }
}

pub fn random_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64)
}

impl Learner {
    pub fn new(program: &Program, folder: PathBuf, tell: UnboundedSender<super::Command>) -> Learner {
        Learner {
            folder,
            info: program.p4info.clone(),
            start: Instant::now(),
            tell,
            running: None,
            refused: None,
            number: 0,
            next_id: FIRST_ID,
            open: BTreeMap::new(),
        }
    }

    /// Runs the learner of the rack file and stops any other, and passes on the state of controller and switch.
    pub fn follow(&mut self, file: &Rack, controller: &Controllers, overridden: bool) -> Vec<Wish> {
        let wanted = basis(file);
        let mut wishes = Vec::new();
        if wanted.as_ref() != self.running.as_ref().map(|r| &r.basis) {
            self.change(wanted, file, &mut wishes);
        }
        wishes.extend(self.step(Input::Situation(Situation::of(controller, overridden))));
        wishes
    }

    fn change(&mut self, wanted: Option<Basis>, file: &Rack, wishes: &mut Vec<Wish>) {
        if wanted.is_some() && wanted == self.refused {
            return;
        }
        // It saves its state, which the next one may load.
        if let Some(problem) = self.running.take().and_then(|r| save(&r).err()) {
            wishes.push(Wish::Say(problem.to_string()));
        }
        self.refused = None;
        let Some(basis) = wanted else { return };
        match self.begin(&basis, file) {
            Ok((running, said)) => {
                wishes.push(Wish::Say(said));
                self.running = Some(running);
                self.number += 1;
            }
            Err(e) => {
                wishes.push(Wish::Say(format!("no learner: {e}")));
                self.refused = Some(basis);
            }
        }
    }

    fn begin(&mut self, basis: &Basis, file: &Rack) -> Result<(Running, String), BeginError> {
        let config = &basis.config;
        let found = kept(config, &self.folder).map_err(BeginError::Kept)?;
        let seed = config.seed.unwrap_or_else(random_seed);
        let start = found.clone().unwrap_or_default();
        let driver = Driver::new(config, file, &start, &self.info, seed).map_err(BeginError::Driver)?;
        let updates: u64 = driver.standing().map(|s| s.updates).sum();
        let knowledge = match (&config.table, found) {
            (Some(name), Some(_)) => format!(", with {updates} updates in {name}"),
            (Some(name), None) => format!(", with no updates yet in {name}"),
            (None, _) => String::new(),
        };
        let said = format!(
            "service `{}`: {} learns weights, starting at {}{knowledge}",
            config.service,
            config.settings.learner.name(),
            driver.weights()
        );
        let file = config.table.as_ref().map(|name| self.folder.join(name));
        Ok((Running { basis: basis.clone(), driver, file }, said))
    }

    /// Latest time of the next step.
    pub fn next_deadline(&self) -> Option<Instant> {
        Some(self.start + self.running.as_ref()?.driver.next_deadline()?)
    }

    /// Time passes.
    pub fn tick(&mut self) -> Vec<Wish> {
        self.step(Input::Tick)
    }

    /// Whether a request was a learner's.
    pub fn is_own(id: u64) -> bool {
        id >= FIRST_ID
    }

    /// The switch answered.
    pub fn devices(&mut self, id: u64, result: Result<Vec<p4rt::Entity>, RpcError>) -> Vec<Wish> {
        match self.open.remove(&id) {
            Some((learner, round)) if learner == self.number => self.step(Input::Devices { round, result }),
            _ => Vec::new(),
        }
    }

    /// Prometheus answered.
    pub fn clients(&mut self, answer: Answer) -> Vec<Wish> {
        let Answer { learner, round, result } = answer;
        if learner == self.number { self.step(Input::Clients { round, result }) } else { Vec::new() }
    }

    /// The connection to the switch is lost, with all pending requests.
    pub fn disconnected(&mut self) {
        self.open.clear();
    }

    fn step(&mut self, input: Input) -> Vec<Wish> {
        let Some(r) = &mut self.running else { return Vec::new() };
        let service = r.basis.config.service.clone();
        let learner = r.basis.config.settings.learner.name();
        let mut wishes = Vec::new();
        let outputs = r.driver.step(self.start.elapsed(), input);
        for output in outputs {
            match output {
                Output::Read { round, request } => {
                    self.open.insert(self.next_id, (self.number, round));
                    wishes.push(Wish::Request { id: self.next_id, request: Request::Read(request) });
                    self.next_id += 1;
                }
                Output::AskClients { round, classes } => {
                    let (source, tell) = (r.basis.config.clients.clone(), self.tell.clone());
                    let learner = self.number;
                    tokio::spawn(async move {
                        let result = clients(&source, &classes).await;
                        // A closed receiver: the controller is about to stop.
                        let _ = tell.send(super::Command::Clients(Answer { learner, round, result }));
                    });
                }
                Output::Weigh(weights) => wishes.push(Wish::Weigh { service: service.clone(), weights }),
                Output::Save(text) => {
                    if let Some(Err(e)) = r.file.as_ref().map(|f| files::replace(f, &text)) {
                        wishes.push(Wish::Say(e.to_string()));
                    }
                }
                Output::Decided(decision) => {
                    wishes.push(Wish::Decided { service: service.clone(), learner, decision });
                }
                Output::Note(text) => {
                    wishes.push(Wish::Say(format!("service `{service}`: {learner} {text}")))
                }
            }
        }
        wishes
    }

    /// Pending log lines.
    pub fn report(&self) -> Option<Report<'_>> {
        let r = self.running.as_ref()?;
        Some(Report {
            service: &r.basis.config.service,
            learner: r.basis.config.settings.learner.name(),
            state: r.driver.state(),
            classes: r.driver.standing().collect(),
            skipped: r.driver.skipped(),
        })
    }
}

fn save(r: &Running) -> Result<(), FileError> {
    match (&r.file, r.driver.kept()) {
        (Some(file), Some(kept)) => files::replace(file, &kept.save()),
        _ => Ok(()),
    }
}

impl Drop for Learner {
    /// State learnt since the last save must not be lost; failures can no longer be reported.
    fn drop(&mut self) {
        if let Some(Err(e)) = self.running.as_ref().map(save) {
            pointsman_console::say(&e.to_string());
        }
    }
}

/// Client metrics from a Prometheus server, for each of these classes of servers.
async fn clients(source: &ClientsSource, classes: &[String]) -> Result<Vec<Clients>, ClientsError> {
    let loss = async {
        match &source.loss {
            Some(promql) => numbers(source, promql, classes).await,
            None => Ok(vec![0.0; classes.len()]),
        }
    };
    let (p99, loss) = tokio::try_join!(numbers(source, &source.p99_ms, classes), loss)?;
    p99.into_iter().zip(loss).map(|(p99, loss)| seen(p99, loss)).collect()
}

fn seen(p99: f64, loss: f64) -> Result<Clients, ClientsError> {
    if loss.is_finite() && !(0.0..=1.0).contains(&loss) {
        return Err(ClientsError::Loss(loss));
    }
    if p99 < 0.0 {
        return Err(ClientsError::P99(p99));
    }
    // No requests at all make both NaN.
    let loss = if loss.is_nan() { 0.0 } else { loss };
    Ok(Clients { p99_ms: Some(p99).filter(|p| !p.is_nan()), loss })
}

async fn numbers(source: &ClientsSource, promql: &str, classes: &[String]) -> Result<Vec<f64>, ClientsError> {
    let found = query(&source.url, promql, source.patience).await.map_err(ClientsError::Query)?;
    of_classes(&found, classes).map_err(|e| ClientsError::Classes(promql.to_string(), e))
}
