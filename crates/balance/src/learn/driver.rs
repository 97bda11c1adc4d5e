//! Learners running next to a controller on the wire: one for each class of servers.
//!
//! It determines what to read from the switch and when to query clients' latency, judges once per interval and sets the weights.
//! Like everything here it has no clock and no socket: [`Driver::step`] gets the time and the input, and returns what to do.
//!
//! An interval: after a decision, `settle` passes unobserved. Then the registers are read for the first time, as the baseline of the
//! counters, and `polls` times more at equal distances; with the last one, clients' latency is queried. When both are known, every
//! class's learner decides.
//!
//! Safe without data: an interval without an answer from the switch or about the clients leads to no decision. After
//! as many of them as the guard's `hold`, the fallback weights take over, step by step, until data is available again.

use super::classes::configured;
use super::{ClassWeights, ClientsError, DriverError, ServiceWeights, Telemetry};
use crate::config::{Class, LearnConfig, Rack};
use crate::controller::{Controllers, Status};
use crate::types::DeviceNumber;
use pointsman_control::RpcError;
use pointsman_control::proto::{p4info::P4Info, p4rt};
use pointsman_decide::{Kept, Knowledge, Observation, Settings, Verdict, Weigher, Weights};
use pointsman_wire::random::mix;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// How often changes are saved.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// The measurements of clients of the service, or of a class of its servers, in the last interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clients {
    /// 99th percentile of latency in milliseconds; None: nothing was answered.
    pub p99_ms: Option<f64>,
    /// Share of requests that were lost, 0 to 1.
    pub loss: f64,
}

/// A driver's input.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but the time.
    Tick,
    /// Whether the switch can be looked at now.
    Situation(Situation),
    /// The answer to [`Output::Read`], or the error.
    Devices {
        /// The question's.
        round: u64,
        /// The result.
        result: Result<Vec<p4rt::Entity>, RpcError>,
    },
    /// The answer to [`Output::AskClients`], or the error.
    Clients {
        /// The question's.
        round: u64,
        /// The result: one for each class that was named, in this order.
        result: Result<Vec<Clients>, ClientsError>,
    },
}

/// The state of controller and switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The switch does not hold the desired entries yet, or another controller is in charge of it.
    Waiting,
    /// An operator has set the service's policy.
    Paused,
    /// Decisions can be made. These devices are out of service: they are not observed.
    Ready(BTreeSet<DeviceNumber>),
}

impl Situation {
    /// The situation of a learner whose service has these controllers. `overridden`: by a request for its policy.
    pub fn of(controllers: &Controllers, overridden: bool) -> Situation {
        match controllers.status() {
            _ if overridden => Situation::Paused,
            Status::InSync => Situation::Ready(controllers.out_of_service()),
            _ => Situation::Waiting,
        }
    }
}

/// An action that a driver requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Read this from the switch, and answer with the same number of the round.
    Read {
        /// One for all questions of an interval: answers that come after it are too late.
        round: u64,
        /// The request.
        request: p4rt::ReadRequest,
    },
    /// Ask what clients see, and answer with the same number.
    AskClients {
        /// As with readings.
        round: u64,
        /// The classes of servers whose clients are meant.
        classes: Vec<String>,
    },
    /// These weights are to be in force.
    Weigh(ServiceWeights),
    /// Save this text: the current knowledge, in the format of [`Kept`].
    Save(String),
    /// A decision was made.
    Decided(Decision),
    /// A fault began or ended; reported once.
    Note(String),
}

/// A learner's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The switch cannot be looked at.
    Waiting,
    /// An operator has set the policy.
    Paused,
    /// It decides.
    Learning,
    /// Its guard has taken over.
    Guarded,
    /// Nothing is known of devices or clients.
    Blind,
}

impl State {
    /// All of them, with their names.
    pub const ALL: [(State, &'static str); 5] = [
        (State::Waiting, "waiting"),
        (State::Paused, "paused"),
        (State::Learning, "learning"),
        (State::Guarded, "guarded"),
        (State::Blind, "blind"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        State::ALL.iter().find(|(s, _)| *s == self).map_or("", |(_, name)| name)
    }
}

/// One decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The class of servers, if the service has several.
    pub class: Option<String>,
    /// The observations.
    pub seen: Observation,
    /// Under these weights.
    pub weights: Weights,
    /// How they are judged.
    pub verdict: Verdict,
    /// Reward of the action before, if the learner has one.
    pub reward: Option<f64>,
    /// The weights from now on.
    pub next: Weights,
    /// They are the guard's.
    pub guarded: bool,
}

/// As fields of a log: `name=value`, with spaces in between.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (o, reward) = (&self.seen, self.reward.map_or_else(|| "none".into(), |r| format!("{r:.2}")));
        if let Some(class) = &self.class {
            write!(f, "class={class} ")?;
        }
        write!(
            f,
            "weights={} next={} verdict={} reward={reward} guarded={} p99_ms={:.1} loss={:.4} cpu_percent={:.1} \
             accelerator_percent={:.1} offered_per_s={:.1}",
            self.weights,
            self.next,
            self.verdict.name(),
            self.guarded,
            o.p99_ms,
            o.loss,
            o.cpu_mean_percent(),
            o.accelerator_mean_percent(),
            o.offered_per_s(),
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Idle,
    Settling { until: Duration },
    Observing { next: Duration, left: u32 },
    Asking { until: Duration },
}

/// One class of servers with its learner.
struct Own {
    class: Class,
    telemetry: Telemetry,
    weigher: Box<dyn Weigher>,
    last: Option<Decision>,
    decisions: BTreeMap<&'static str, u64>,
}

/// The state of one class's learner.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The class, if the service has several.
    pub class: Option<&'a str>,
    /// The weights that it wants.
    pub weights: Weights,
    /// Its last decision.
    pub last: Option<&'a Decision>,
    /// The number of decisions, by the verdict on the weights before.
    pub decisions: &'a BTreeMap<&'static str, u64>,
    /// How often its guard took over.
    pub interventions: u64,
    /// How often its knowledge was updated.
    pub updates: u64,
}

/// Learners at work.
pub struct Driver {
    settings: Settings,
    patience: Duration,
    classes: Vec<Own>,
    /// Weights of classes without a choice between processors and accelerators.
    fixed: Vec<ClassWeights>,
    /// Saved knowledge of classes that the rack lacks now.
    absent: BTreeMap<String, Knowledge>,
    phase: Phase,
    round: u64,
    situation: Situation,
    /// Nothing is observed of these.
    out: BTreeSet<DeviceNumber>,
    /// The pause was announced, its end not yet.
    paused: bool,
    /// Weights were announced since the learner began, or came back.
    said: bool,
    /// Readings that are not answered yet.
    open: u32,
    /// When an interval's first reading was answered, from which counters count, and the last one.
    observed: Option<(Duration, Duration)>,
    clients: Option<Result<Vec<Clients>, ClientsError>>,
    /// Intervals in a row in which nothing was seen, and why.
    blind: u32,
    notes: BTreeSet<String>,
    random: u64,
    saved: (Duration, u64),
    skipped: u64,
}

impl Driver {
    /// Learners for one service of a rack, behind a switch with this program: they continue from saved knowledge.
    /// Without it they begin with the weights in the rack's file, or with the configured first weight of accelerators.
    ///
    /// # Errors
    /// The program is not a balancer, or the settings do not fit.
    pub fn new(
        config: &LearnConfig,
        rack: &Rack,
        kept: &Kept,
        info: &P4Info,
        seed: u64,
    ) -> Result<Self, DriverError> {
        let (service, settings) = (config.service.as_str(), &config.settings);
        let own = rack.service(service)?;
        let (mut classes, mut fixed) = (Vec::new(), Vec::new());
        for class in rack.classes(service, settings.per_class)? {
            let mut weights = configured(own, &class, settings.parameters.max_weight);
            if !class.learns {
                fixed.push(ClassWeights { class, weights });
                continue;
            }
            weights.accelerator = config.first_weight.unwrap_or(weights.accelerator);
            let mut weigher = settings.weigher_with(kept.of(&class.name))?;
            weigher.set_weights(weights);
            let members = own.members.iter().filter(|m| class.servers.contains(&m.server));
            let devices: BTreeSet<DeviceNumber> =
                members.flat_map(|m| &m.devices).map(|d| d.number).collect();
            let telemetry = Telemetry::of(rack, info, |d| devices.contains(&d))?;
            classes.push(Own { class, telemetry, weigher, last: None, decisions: BTreeMap::new() });
        }
        let mut absent = match kept {
            Kept::One(_) => BTreeMap::new(),
            Kept::Classes(all) => all.clone(),
        };
        absent.retain(|name, _| classes.iter().all(|c| c.class.name != *name));
        let updates = classes.iter().map(|c| c.weigher.updates()).sum();
        Ok(Driver {
            settings: settings.clone(),
            patience: config.clients.patience,
            classes,
            fixed,
            absent,
            phase: Phase::Idle,
            round: 0,
            situation: Situation::Waiting,
            out: BTreeSet::new(),
            paused: false,
            said: false,
            open: 0,
            observed: None,
            clients: None,
            blind: 0,
            notes: BTreeSet::new(),
            random: seed,
            saved: (Duration::ZERO, updates),
            skipped: 0,
        })
    }

    /// The weights that are wanted.
    pub fn weights(&self) -> ServiceWeights {
        let own = |c: &Own| ClassWeights { class: c.class.clone(), weights: c.weigher.weights() };
        ServiceWeights(self.classes.iter().map(own).chain(self.fixed.iter().cloned()).collect())
    }

    /// Its state.
    pub fn state(&self) -> State {
        match self.situation {
            Situation::Waiting => State::Waiting,
            Situation::Paused => State::Paused,
            Situation::Ready(_) if self.blind > 0 => State::Blind,
            Situation::Ready(_) if self.classes.iter().any(|c| c.weigher.is_guarded_now()) => State::Guarded,
            Situation::Ready(_) => State::Learning,
        }
    }

    /// The state of each class's learner.
    pub fn standing(&self) -> impl Iterator<Item = Standing<'_>> {
        self.classes.iter().map(|c| Standing {
            class: self.named(&c.class),
            weights: c.weigher.weights(),
            last: c.last.as_ref(),
            decisions: &c.decisions,
            interventions: c.weigher.interventions(),
            updates: c.weigher.updates(),
        })
    }

    /// The name of a class if the service has several.
    fn named<'a>(&self, class: &'a Class) -> Option<&'a str> {
        (self.classes.len() > 1).then_some(class.name.as_str())
    }

    /// Intervals without a decision, because data of devices or clients was missing.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The knowledge to save, if any.
    pub fn kept(&self) -> Option<Kept> {
        let known = |c: &Own| Some((c.class.name.clone(), c.weigher.knowledge()?));
        let mut all: Vec<_> = self.classes.iter().filter_map(known).collect();
        match all.pop() {
            Some((_, only)) if all.is_empty() && self.absent.is_empty() => Some(Kept::One(only)),
            last => {
                let absent = self.absent.iter().map(|(name, k)| (name.clone(), k.clone()));
                last.map(|last| Kept::Classes(absent.chain(all).chain([last]).collect()))
            }
        }
    }

    fn updates(&self) -> u64 {
        self.classes.iter().map(|c| c.weigher.updates()).sum()
    }

    /// The deadline for the next step with [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Idle => None,
            Phase::Settling { until } | Phase::Asking { until } => Some(until),
            Phase::Observing { next, .. } => Some(next),
        }
    }

    /// Takes one input at time `now` and returns the actions.
    pub fn step(&mut self, now: Duration, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Tick => {}
            Input::Situation(situation) => self.turn_to(now, situation, &mut out),
            Input::Devices { round, result } if round == self.round => self.read(now, result, &mut out),
            Input::Clients { round, result } if round == self.round => self.clients = Some(result),
            // Too late.
            Input::Devices { .. } | Input::Clients { .. } => {}
        }
        self.advance(now, &mut out);
        out
    }

    fn turn_to(&mut self, now: Duration, situation: Situation, out: &mut Vec<Output>) {
        if situation == self.situation {
            return;
        }
        self.situation = situation.clone();
        let Situation::Ready(devices) = situation else {
            if self.situation == Situation::Paused && !self.paused {
                out.push(Output::Note("pauses: an operator has set the service's policy".into()));
                (self.paused, self.said) = (true, false);
            }
            self.phase = Phase::Idle;
            self.round += 1;
            return;
        };
        if std::mem::take(&mut self.paused) {
            out.push(Output::Note("resumes: the service's policy is the rack file's again".into()));
        }
        for telemetry in self.classes.iter_mut().map(|c| &mut c.telemetry) {
            self.out.difference(&devices).for_each(|d| telemetry.set_in_service(*d, true));
            devices.difference(&self.out).for_each(|d| telemetry.set_in_service(*d, false));
        }
        self.out = devices;
        if !self.said {
            self.said = true;
            out.push(Output::Weigh(self.weights()));
        }
        // After any change, earlier observations belong to another configuration.
        self.begin(now);
    }

    fn begin(&mut self, now: Duration) {
        self.phase = Phase::Settling { until: now + Duration::from_nanos(self.settings.settle_ns) };
        self.round += 1;
        (self.open, self.observed, self.clients) = (0, None, None);
        self.classes.iter_mut().for_each(|c| c.telemetry.forget());
    }

    fn read(&mut self, now: Duration, result: Result<Vec<p4rt::Entity>, RpcError>, out: &mut Vec<Output>) {
        self.open = self.open.saturating_sub(1);
        match result {
            Ok(entities) => {
                for telemetry in self.classes.iter_mut().map(|c| &mut c.telemetry) {
                    telemetry.answer(&entities);
                    if self.observed.is_none() {
                        telemetry.forget();
                    }
                }
                self.observed = Some((self.observed.map_or(now, |(first, _)| first), now));
            }
            Err(RpcError { code, message, .. }) => {
                self.note(format!("the switch's registers could not be read: {message} ({code:?})"), out);
            }
        }
    }

    fn note(&mut self, text: String, out: &mut Vec<Output>) {
        if self.notes.insert(text.clone()) {
            out.push(Output::Note(text));
        }
    }

    /// From one reading to the next.
    fn pause(&self) -> Duration {
        let observed = Duration::from_nanos(self.settings.interval_ns - self.settings.settle_ns);
        observed / self.settings.polls.max(1)
    }

    fn advance(&mut self, now: Duration, out: &mut Vec<Output>) {
        let pause = self.pause();
        match self.phase {
            Phase::Settling { until } if now >= until => {
                self.ask_switch(out);
                self.phase = Phase::Observing { next: now + pause, left: self.settings.polls };
            }
            Phase::Observing { next, left } if now >= next => {
                self.ask_switch(out);
                if left > 1 {
                    self.phase = Phase::Observing { next: next + pause, left: left - 1 };
                } else {
                    let classes = self.classes.iter().map(|c| c.class.name.clone()).collect();
                    out.push(Output::AskClients { round: self.round, classes });
                    self.phase = Phase::Asking { until: now + self.patience };
                }
            }
            Phase::Asking { until } if now >= until || (self.open == 0 && self.clients.is_some()) => {
                self.decide(now, out);
                self.begin(now);
            }
            _ => {}
        }
    }

    fn ask_switch(&mut self, out: &mut Vec<Output>) {
        self.open += 1;
        let mut questions = self.classes.iter().map(|c| c.telemetry.question());
        let mut request = questions.next().unwrap_or_default();
        request.entities.extend(questions.flat_map(|q| q.entities));
        out.push(Output::Read { round: self.round, request });
    }

    fn decide(&mut self, now: Duration, out: &mut Vec<Output>) {
        let clients = match self.clients.take() {
            Some(Ok(clients)) => Ok(clients),
            Some(Err(e)) => Err(format!("clients' latency is unknown: {e}")),
            None => Err(format!("no answer about clients' latency within {} s", self.patience.as_secs_f64())),
        };
        let observed = self.observed.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first));
        let clients = match clients {
            // The first reading is only what counters count from. Answers that came together, late, are no measure of rates.
            Ok(_) if observed < self.pause() / 2 => Err("the switch did not answer in time".to_string()),
            Ok(_) if !self.classes.iter().any(|c| c.telemetry.sees_anything()) => {
                Err("all devices are silent or out of service".to_string())
            }
            Ok(clients) if clients.len() != self.classes.len() => Err(format!(
                "clients' latency is known for {} of {} classes",
                clients.len(),
                self.classes.len()
            )),
            other => other,
        };
        let clients = match clients {
            Ok(clients) => clients,
            Err(why) => return self.grope(why, out),
        };
        if self.blind > 0 {
            out.push(Output::Note("devices and clients are visible again".into()));
        }
        self.blind = 0;
        self.notes.clear();
        let before = self.weights();
        let mut decided = Vec::new();
        let several = self.classes.len() > 1;
        for (own, clients) in self.classes.iter_mut().zip(clients) {
            let state = &mut self.random;
            let mut random = || {
                *state = state.wrapping_add(1);
                (mix(*state) >> 11) as f64 / (1u64 << 53) as f64
            };
            decided.extend(own.decide(observed.as_secs_f64(), clients, several, &mut random));
        }
        let next = self.weights();
        if next != before {
            out.push(Output::Weigh(next));
        }
        out.extend(decided.into_iter().map(Output::Decided));
        let updates = self.updates();
        if updates != self.saved.1 && now >= self.saved.0 + SAVE_EVERY {
            self.saved = (now, updates);
            out.extend(self.kept().map(|k| Output::Save(k.save())));
        }
    }

    /// Nothing was seen.
    fn grope(&mut self, why: String, out: &mut Vec<Output>) {
        self.blind = self.blind.saturating_add(1);
        self.skipped += 1;
        self.note(format!("{why}: no decision"), out);
        let Some(guard) = self.settings.guard.filter(|g| self.blind >= g.hold) else { return };
        let before = self.weights();
        for weigher in self.classes.iter_mut().map(|c| &mut c.weigher) {
            let now = weigher.weights();
            let (least, most) = (
                now.accelerator.saturating_sub(guard.max_change),
                now.accelerator.saturating_add(guard.max_change),
            );
            let accelerator = guard.fallback.clamp(least, most);
            if accelerator != now.accelerator {
                weigher.set_weights(Weights { accelerator, ..now });
            }
        }
        let weights = self.weights();
        if weights != before {
            out.push(Output::Note(format!("no data for {} intervals: weights {weights}", self.blind)));
            out.push(Output::Weigh(weights));
        }
    }
}

impl Own {
    /// Judges the observations and decides; None if nothing can be learnt from them.
    fn decide(
        &mut self,
        seconds: f64,
        clients: Clients,
        several: bool,
        random: &mut dyn FnMut() -> f64,
    ) -> Option<Decision> {
        if !self.telemetry.sees_anything() {
            return None;
        }
        let mut seen = self.telemetry.observation(seconds);
        seen.loss = clients.loss;
        seen.p99_ms = match clients.p99_ms {
            Some(ms) => ms,
            // Requests, but no answer at all: as bad as can be.
            None if clients.loss > 0.0 => f64::INFINITY,
            // Nothing was requested.
            None => return None,
        };
        let weights = self.weigher.weights();
        let step = self.weigher.step(&seen, random);
        let decision = Decision {
            class: several.then(|| self.class.name.clone()),
            seen,
            weights,
            verdict: step.verdict,
            reward: step.reward,
            next: step.weights,
            guarded: self.weigher.is_guarded_now(),
        };
        *self.decisions.entry(decision.verdict.name()).or_default() += 1;
        self.last = Some(decision.clone());
        Some(decision)
    }
}

#[cfg(test)]
mod tests;
