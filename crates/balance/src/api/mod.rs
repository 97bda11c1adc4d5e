//! The controller's API: requests that read or change policies, and their effects.
//!
//! A [`Desk`] connects the rack's file, the API's users, and the [`Controllers`]. It has no socket
//! and no clock: a request, the time and the controller's state give an answer and effects, which the caller carries out. Requests
//! override the rack's file, service by service; the latest change wins, be it a request or a change of the service's policy in
//! the file.

mod devices;
mod files;
mod group;
mod history;
mod members;
mod news;
mod routes;
mod states;
#[cfg(test)]
mod tests;
mod tokens;
mod trend;
mod wanted;

pub use files::{File, Files};
pub use group::{Group, Peer};
pub use history::{Change, Drain, History, MAX_CHANGES, Outcome};
pub use members::RegistrationBody;
pub use routes::{Answer, Body, MAX_BODY, OPENAPI, ROUTES, Request, Response, Wait};
pub use tokens::{Tokens, TokensError, Who};
pub use wanted::{BLOCKS, Document, Wanted, WantedError};

use crate::config::{Rack, Service, SettingsError};
use crate::controller::{Controllers, Event};
use crate::learn::{Decision, ServiceWeights, with_service_weights};
use crate::members::{self as coming, Members};
use crate::trust::ReportKey;
use news::News;
use pointsman_wire::time::rfc3339;
use serde::{Deserialize, Serialize};
use states::States;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use trend::Trend;

/// The caller's actions, in this order. A configuration comes after the text to save: the events that it causes may have a newer one.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Give the controller this configuration, and this desk the resulting events before anything else.
    Configure(Box<Rack>),
    /// Save this text over a restart, if a file for it is configured.
    Save(String),
    /// Tell the operator.
    Say(String),
}

/// The request for one service.
#[derive(Clone, Debug, PartialEq)]
struct Override {
    wanted: Wanted,
    /// The settings in the rack's file at that time. If the file differs from them later, the file is newer.
    base: Wanted,
    change: u64,
    /// The rack's file has no room for it now: the service or devices are missing. It is in force again when they are back.
    waits: bool,
}

/// The state to restore if the controller rejects a configuration.
#[derive(Clone, Debug)]
struct Attempt {
    file: Option<Rack>,
    plain: Option<Rack>,
    /// It was made because members came or went.
    members: bool,
    overrides: BTreeMap<String, Override>,
    drained: BTreeMap<String, u64>,
    change: Option<u64>,
    /// When the rack's file was written, if it is what is tried.
    of_ms: Option<u64>,
}

/// The state of the API.
#[derive(Clone, Debug)]
pub struct Desk {
    /// The rack's file as written.
    plain: Rack,
    /// The same with members that came by themselves.
    file: Rack,
    members: Members,
    /// What was saved of them last.
    kept_members: coming::Kept,
    /// For the next new member.
    key: Option<ReportKey>,
    /// With all requests applied.
    rack: Rack,
    overrides: BTreeMap<String, Override>,
    /// Devices that take no new connections by request, with the change.
    drained: BTreeMap<String, u64>,
    /// A learner's weights for a service: they replace the weights of the rack's file, and a request overrides them.
    learnt: Option<(String, ServiceWeights)>,
    history: History,
    tokens: Tokens,
    attempt: Option<Attempt>,
    news: News,
    /// Why the state could not be saved.
    unsaved: Option<String>,
    followed: Files,
    group: Option<Group>,
    /// At most so many bytes of the history are saved.
    room: Option<usize>,
    trend: Trend,
    states: States,
}

/// Why a text is not a desk's state.
#[derive(Debug)]
pub enum StateError {
    /// It is not JSON of this kind.
    Json(serde_json::Error),
    /// It is of another version.
    Version(u32),
    /// A service has an invalid policy; its name.
    Service(String, WantedError),
    /// The members are wrong.
    Members(coming::KeptError),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Json(e) => e.fmt(f),
            StateError::Version(found) => {
                write!(f, "its version is {found}, this controller supports 1")
            }
            StateError::Service(name, e) => write!(f, "service `{name}`: {e}"),
            StateError::Members(e) => e.fmt(f),
        }
    }
}

impl Error for StateError {}

/// The state that survives a restart.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    services: BTreeMap<String, KeptOverride>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    drained: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "coming::Kept::is_empty")]
    members: coming::Kept,
    history: Vec<Change>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptOverride {
    set: Document,
    base: Document,
    change: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    waits: bool,
}

impl Desk {
    /// A desk without requests so far.
    pub fn new(file: Rack, tokens: Tokens) -> Desk {
        let mut members = Members::default();
        members.configure(&file);
        Desk {
            rack: file.clone(),
            plain: file.clone(),
            file,
            members,
            kept_members: coming::Kept::default(),
            key: None,
            overrides: BTreeMap::new(),
            drained: BTreeMap::new(),
            learnt: None,
            history: History::default(),
            tokens,
            attempt: None,
            news: News::default(),
            unsaved: None,
            followed: Files::default(),
            group: None,
            room: None,
            trend: Trend::default(),
            states: States::default(),
        }
    }

    /// Replaces all requests by those of another controller of the rack, as its [`Desk::kept`] has them.
    ///
    /// # Errors
    /// The text is not a saved state; nothing changes.
    pub fn adopt(&mut self, now_ms: u64, kept: &str) -> Result<Vec<Effect>, StateError> {
        let before = self.attempt();
        let mut effects = self.restore(now_ms, kept)?;
        self.attempt = Some(before);
        effects.push(Effect::Configure(Box::new(self.rack.clone())));
        Ok(effects)
    }

    /// Restores the state of the last [`Effect::Save`]. To be called before the controller is made, with
    /// [`Desk::rack`].
    ///
    /// # Errors
    /// The text is not a saved state.
    pub fn restore(&mut self, now_ms: u64, kept: &str) -> Result<Vec<Effect>, StateError> {
        let kept: Kept = serde_json::from_str(kept).map_err(StateError::Json)?;
        if kept.version != 1 {
            return Err(StateError::Version(kept.version));
        }
        let mut overrides = BTreeMap::new();
        for (name, k) in kept.services {
            let read = |d| Wanted::from_document(d).map_err(|e| StateError::Service(name.clone(), e));
            let (wanted, base) = (read(&k.set)?, read(&k.base)?);
            overrides.insert(name, Override { wanted, base, change: k.change, waits: k.waits });
        }
        let mut members = Members::default();
        members.configure(&self.plain);
        members.restore(now_ms, &kept.members).map_err(StateError::Members)?;
        members.resume(&self.members);
        (self.members, self.kept_members) = (members, kept.members);
        self.overrides = overrides;
        self.drained = kept.drained;
        self.file = self.with_members();
        self.history = History::from_changes(kept.history);
        let mut effects: Vec<Effect> = self.members.lines().into_iter().map(Effect::Say).collect();
        self.lay_over(now_ms, &mut effects);
        Ok(effects)
    }

    /// The configuration that should be in force.
    pub fn rack(&self) -> &Rack {
        &self.rack
    }

    /// The configuration in the rack's file, with members that came by themselves.
    pub fn file(&self) -> &Rack {
        &self.file
    }

    /// The requests so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The followed files.
    pub fn followed(&self) -> &Files {
        &self.followed
    }

    /// What was written into a followed file at `of_ms` (milliseconds since 1970) is in force. To be called once for each file when
    /// the controller starts, and after changes of the tokens; changes of the rack's description are [`Desk::file_read`].
    pub fn file_applied(&mut self, file: File, of_ms: u64) {
        self.followed.applied(file, of_ms);
    }

    /// What was written into a followed file at `of_ms` cannot be applied, for this reason.
    pub fn file_refused(&mut self, file: File, of_ms: u64, why: &str) {
        self.followed.refused(file, of_ms, why);
    }

    /// The rack's file changed: it was written at `of_ms` (milliseconds since 1970).
    pub fn file_read(&mut self, now_ms: u64, rack: Rack, of_ms: u64) -> Vec<Effect> {
        let effects = self.file_changed(now_ms, rack);
        self.attempt.iter_mut().for_each(|a| a.of_ms = Some(of_ms));
        effects
    }

    /// Others may ask from now on.
    pub fn set_tokens(&mut self, tokens: Tokens) {
        self.tokens = tokens;
    }

    /// How saving went.
    pub fn saved(&mut self, result: Result<(), impl fmt::Display>) {
        self.unsaved = result.err().map(|e| e.to_string());
    }

    /// The group of controllers of which this one is.
    pub fn set_group(&mut self, group: Option<Group>) {
        self.group = group;
    }

    /// The rack's description changed.
    pub fn file_changed(&mut self, now_ms: u64, rack: Rack) -> Vec<Effect> {
        let (file, plain) = (Some(self.file.clone()), Some(self.plain.clone()));
        let before = Attempt { file, plain, ..self.attempt() };
        self.members.configure(&rack);
        self.plain = rack;
        self.file = self.with_members();
        // A service without a learner has the file's weights again.
        let learner = self.file.learn.as_ref().map(|l| l.service.as_str());
        self.learnt.take_if(|(service, _)| learner != Some(service.as_str()));
        let mut effects = Vec::new();
        self.lay_over(now_ms, &mut effects);
        self.attempt = Some(before);
        effects.push(Effect::Configure(Box::new(self.rack.clone())));
        effects
    }

    /// The controllers' output. A change is in force when `all` switches are in sync.
    pub fn event(&mut self, now_ms: u64, event: &Event, all: bool) -> Vec<Effect> {
        let mut effects = Vec::new();
        let text = event.to_string();
        let mut touched = false;
        self.states.disturbed(now_ms);
        match event {
            Event::ConfigAccepted { .. } => {
                let of_ms = self.attempt.take().and_then(|a| a.of_ms);
                of_ms.iter().for_each(|of_ms| self.followed.applied(File::Rack, *of_ms));
            }
            Event::ConfigRejected { reason } => {
                if let Some(attempt) = self.attempt.take() {
                    if let Some((file, plain)) = attempt.file.zip(attempt.plain) {
                        self.members.configure(&plain);
                        (self.file, self.plain) = (file, plain);
                    }
                    if attempt.members {
                        self.members.rejected();
                    }
                    self.overrides = attempt.overrides;
                    self.drained = attempt.drained;
                    if let Some(id) = attempt.change {
                        self.history.reject(id, reason);
                    }
                    if let Some(of_ms) = attempt.of_ms {
                        self.followed.refused(File::Rack, of_ms, reason);
                    }
                    self.lay_over(now_ms, &mut effects);
                    touched = true;
                }
            }
            Event::InSync { writes } if all => {
                for change in self.history.pending() {
                    let after_ms = now_ms.saturating_sub(change.at_ms);
                    change.result = Outcome::InForce { writes: *writes, after_ms };
                    touched = true;
                }
            }
            Event::WriteFailed { .. }
            | Event::RequestFailed { .. }
            | Event::ConnectionLost { .. }
            | Event::Backup { .. } => {
                for change in self.history.pending() {
                    change.result = Outcome::Pending { reason: Some(text.clone()) };
                }
            }
            _ => {}
        }
        self.news.add(now_ms, text, event.topic());
        if touched {
            effects.push(Effect::Save(self.kept()));
        }
        effects
    }

    /// Applies requests on top of the file. A request ends when the file changes the policy; it waits where
    /// the service or its devices are missing, which may be an accident.
    fn lay_over(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        let mut rack = self.file.clone();
        let mut notes = Vec::new();
        self.overrides.retain(|name, o| {
            let applied = match self.file.service(name) {
                Err(_) => Err("the rack's file has no such service".to_string()),
                Ok(service) if Wanted::of(service) != o.base => {
                    let why = "ends: its policy in the rack file changed";
                    notes.push((name.clone(), o.clone(), why.to_string()));
                    return false;
                }
                Ok(_) => o.wanted.apply(&rack, name).map_err(|e| e.to_string()),
            };
            let waited = std::mem::replace(&mut o.waits, applied.is_err());
            match applied {
                Ok(with) => {
                    rack = with;
                    if waited {
                        notes.push((name.clone(), o.clone(), "is in force again".into()));
                    }
                }
                Err(why) if !waited => notes.push((name.clone(), o.clone(), format!("waits: {why}"))),
                Err(_) => {}
            }
            true
        });
        let rack = match &self.learnt {
            Some((service, weights)) if !self.is_overridden(service) => {
                with_service_weights(&rack, service, weights)
            }
            _ => rack,
        };
        self.rack = self.without_drained(rack);
        for (service, o, why) in &notes {
            let reason = format!("change {} {why}", o.change);
            effects.push(Effect::Say(format!("service `{service}`: {reason}")));
            self.history.add(Change {
                id: 0,
                at_ms: now_ms,
                who: "rack file".into(),
                service: service.clone(),
                set: None,
                device: None,
                before: o.wanted.document(),
                result: Outcome::Noted { reason },
            });
        }
        if !notes.is_empty() {
            effects.push(Effect::Save(self.kept()));
        }
    }

    /// The text to save for a restart.
    pub fn kept(&self) -> String {
        let services = self.overrides.iter().map(|(name, o)| {
            let (set, base) = (o.wanted.document(), o.base.document());
            let kept = KeptOverride { set, base, change: o.change, waits: o.waits };
            (name.clone(), kept)
        });
        let kept = Kept {
            version: 1,
            services: services.collect(),
            drained: self.drained.clone(),
            members: self.members.kept(),
            history: self.history.newest_within(self.room.unwrap_or(usize::MAX)),
        };
        // Strings, numbers and maps of them: JSON can represent them all.
        let text = match self.room {
            None => serde_json::to_string_pretty(&kept),
            Some(_) => serde_json::to_string(&kept),
        };
        text.unwrap_or_default() + "\n"
    }

    /// Saves at most so many bytes of the history from now on, and the rest briefly: for a place with little room.
    pub fn keep_within(&mut self, room: usize) {
        self.room = Some(room);
    }

    /// The current settings of a service, and the change that made them.
    fn current(&self, service: &Service) -> (Wanted, Option<u64>) {
        match self.in_force(&service.name) {
            Some(o) => (o.wanted.clone(), Some(o.change)),
            None => (Wanted::of(service), None),
        }
    }

    /// The configuration with other settings for one service; None for those of the file.
    ///
    /// # Errors
    /// It is invalid; the message names the remedy.
    fn with(&self, service: &str, wanted: Option<&Wanted>) -> Result<Rack, SettingsError> {
        let of_file = Wanted::of(self.file.service(service)?);
        let learnt = self.learnt.as_ref().filter(|(s, _)| wanted.is_none() && s == service);
        let wanted = wanted.unwrap_or(&of_file);
        // Weights and priorities that are not named are those of the file, not of the last request.
        let rack = self.with_file_for(service);
        let rack = wanted.apply(&rack, service)?;
        let rack = learnt.map(|(_, weights)| with_service_weights(&rack, service, weights)).unwrap_or(rack);
        Ok(self.without_drained(rack))
    }

    /// A learner wants these weights for a service. They replace those in the rack's file; while a request overrides them,
    /// they wait. No change of the history: there would be nothing else in it.
    pub fn learnt(&mut self, service: &str, weights: ServiceWeights) -> Vec<Effect> {
        self.learnt = Some((service.to_string(), weights.clone()));
        if self.is_overridden(service) {
            return Vec::new();
        }
        let rack = with_service_weights(&self.with_file_for(service), service, &weights);
        let rack = self.without_drained(rack);
        if rack == self.rack {
            return Vec::new();
        }
        self.rack = rack.clone();
        vec![Effect::Configure(Box::new(rack))]
    }

    /// A learner decided: the last hour shows it.
    pub fn decided(&mut self, now_ms: u64, decision: &Decision) {
        self.trend.decided(now_ms, decision);
    }

    /// Lets the time pass for the states of devices and the samples of the last hour. To be called at [`Desk::next_deadline`]. True: the controllers have to
    /// read live figures now ([`Input::Glance`](crate::controller::Input::Glance)).
    pub fn sample(&mut self, now_ms: u64, controllers: &Controllers) -> bool {
        // A clock that was set back must not stop the looks.
        if now_ms >= self.states.next_deadline() || self.states.next_deadline() > now_ms + states::REST_MS {
            self.observe(now_ms, controllers);
        }
        self.trend.tick(now_ms, controllers)
    }

    /// Whether a request is in force for a service, so that its learner is paused.
    pub fn is_overridden(&self, service: &str) -> bool {
        self.in_force(service).is_some()
    }

    fn in_force(&self, service: &str) -> Option<&Override> {
        self.overrides.get(service).filter(|o| !o.waits)
    }

    /// The configuration with one service as the file has it.
    fn with_file_for(&self, service: &str) -> Rack {
        let mut rack = self.rack.clone();
        if let Ok(plain) = self.file.service(service) {
            rack.services.iter_mut().filter(|s| s.name == service).for_each(|s| s.clone_from(plain));
        }
        rack
    }

    /// Where the configuration comes from that the controller is about to accept.
    pub fn cause(&self) -> String {
        let Some(attempt) = &self.attempt else {
            return self
                .file
                .learn
                .as_ref()
                .map_or(String::new(), |l| format!("the learner of {}", l.service));
        };
        let change = attempt.change.and_then(|id| self.history.get(id));
        match (change, attempt.of_ms) {
            (Some(change), _) => format!("change {} by {}", change.id, change.who),
            (None, Some(of_ms)) => format!("{} of {}", File::Rack.name(), rfc3339(of_ms)),
            (None, None) if attempt.members => "members that came or left".to_string(),
            (None, None) => String::new(),
        }
    }

    /// What to return to if the controller rejects the next configuration.
    fn attempt(&self) -> Attempt {
        Attempt {
            file: None,
            plain: None,
            members: false,
            overrides: self.overrides.clone(),
            drained: self.drained.clone(),
            change: None,
            of_ms: None,
        }
    }

    /// Changes one service. The caller has seen that it can be.
    fn set(
        &mut self,
        now_ms: u64,
        who: &str,
        service: &str,
        wanted: Option<Wanted>,
        rack: Rack,
    ) -> (u64, Vec<Effect>) {
        let Ok(of_file) = self.file.service(service).map(Wanted::of) else { return (0, Vec::new()) };
        let before = self.in_force(service).map_or_else(|| of_file.document(), |o| o.wanted.document());
        let attempt = self.attempt();
        let change = self.history.add(Change {
            id: 0,
            at_ms: now_ms,
            who: who.into(),
            service: service.into(),
            device: None,
            set: wanted.as_ref().map(Wanted::document),
            before,
            result: Outcome::Pending { reason: None },
        });
        match wanted {
            Some(wanted) => drop(
                self.overrides
                    .insert(service.into(), Override { wanted, base: of_file, change, waits: false }),
            ),
            None => drop(self.overrides.remove(service)),
        }
        self.attempt = Some(Attempt { change: Some(change), ..attempt });
        self.rack = rack.clone();
        (change, vec![Effect::Save(self.kept()), Effect::Configure(Box::new(rack))])
    }
}
