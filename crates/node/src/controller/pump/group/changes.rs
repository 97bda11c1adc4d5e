//! Changes of the group's state: tried on a copy, stored in etcd, and made only then.

use super::super::{Pump, unix_ms};
use super::members::is_of_member;
use super::words::{Refusal, explained};
use super::{Input, List};
use crate::http::server as http;
use pointsman_balance::api::{self, Desk, Effect};
use pointsman_balance::controller::Controllers;
use pointsman_balance::trust::ReportKey;
use pointsman_etcd::Unstored;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Retry interval after a failed attempt to store the state.
pub(super) const STORE_AGAIN: Duration = Duration::from_secs(1);
/// Changes that wait until others are stored.
const WAITING: usize = 64;

/// A change that is to be stored before it is made.
pub(super) struct Change {
    what: What,
    at_ms: u64,
}

enum What {
    /// A request to the API. It is made with the same key that was stored.
    Request { request: http::Request, key: Option<ReportKey>, reply: oneshot::Sender<api::Response> },
    /// A list has other members, or time has passed.
    Members(Option<(String, List)>),
}

impl Change {
    /// Of members, without a request.
    pub fn of_members(list: Option<(String, List)>) -> Change {
        Change { what: What::Members(list), at_ms: unix_ms() }
    }

    /// What it would do.
    fn tried(&self, desk: &Desk, controller: &Controllers) -> (Vec<Effect>, Option<api::Response>) {
        let mut desk = desk.clone();
        match &self.what {
            What::Request { request, key, .. } => {
                key.iter().for_each(|key| desk.give_key(*key));
                let answer = desk.ask(self.at_ms, controller, &api_request(request));
                (answer.effects, Some(answer.response))
            }
            What::Members(Some((source, list))) => {
                let list = list.as_ref().map(String::as_str).map_err(Clone::clone);
                (desk.listed(self.at_ms, source, list), None)
            }
            What::Members(None) => (desk.tick(self.at_ms, controller), None),
        }
    }
}

/// Whether an answer's effects are stored.
fn saved(effects: &[Effect]) -> Option<&String> {
    effects.iter().rev().find_map(|e| match e {
        Effect::Save(text) => Some(text),
        Effect::Configure(_) | Effect::Say(_) => None,
    })
}

pub(in super::super) fn api_request(request: &http::Request) -> api::Request<'_> {
    api::Request {
        method: &request.method,
        target: &request.target,
        authorization: request.authorization.as_deref(),
        body: &request.body,
    }
}

impl Pump {
    /// A request that may change something.
    pub(in super::super) fn ask_group(
        &mut self,
        request: http::Request,
        reply: oneshot::Sender<api::Response>,
    ) {
        let (of_member, key) = (is_of_member(&request), self.key_for(&request));
        let change = Change { what: What::Request { request, key, reply }, at_ms: unix_ms() };
        let (effects, response) = change.tried(&self.desk, &self.controller);
        let Some(group) = &mut self.group else { return };
        let unknown = response.as_ref().is_some_and(|r| r.status == 401);
        let refusal = match saved(&effects) {
            // A standby does not know the newest members.
            _ if of_member && !unknown && !group.leads() => group.refusal(),
            None => return self.make_unstored(change, response),
            Some(_) if group.held.len() >= WAITING => {
                Some(Refusal::here("too many changes at once: retry in a second".into()))
            }
            Some(_) => group.refusal(),
        };
        match refusal {
            Some(refusal) => self.refuse(change, |target| refusal.response(target)),
            None => {
                group.held.push_back(change);
                self.group_step(Input::Tick);
            }
        }
    }

    fn respond(&mut self, reply: oneshot::Sender<api::Response>, response: api::Response) {
        self.tally.request(response.status);
        // The caller may have disconnected.
        drop(reply.send(response));
    }

    /// Answers a request that changes nothing; the answer may depend on its target.
    fn refuse(&mut self, change: Change, response: impl FnOnce(&str) -> api::Response) {
        if let What::Request { request, reply, .. } = change.what {
            self.respond(reply, response(&request.target));
        }
    }

    /// A change of which nothing is stored: a member is renewed, a list is as before, or a request is answered only. Only the leader can
    /// say that a request changes nothing.
    fn make_unstored(&mut self, change: Change, tried: Option<api::Response>) {
        let (What::Request { request, .. }, Some(response)) = (&change.what, tried) else {
            return self.make(change);
        };
        let refusal = self.group.as_ref().and_then(|group| group.refusal());
        match refusal {
            _ if response.status >= 300 || response.is_dry_run() => self.refuse(change, |_| response),
            Some(refusal) if !is_of_member(request) => self.refuse(change, |target| refusal.response(target)),
            _ => self.make(change),
        }
    }

    fn make(&mut self, Change { what, at_ms }: Change) {
        match what {
            What::Request { request, key, reply } => {
                key.into_iter().for_each(|key| self.desk.give_key(key));
                self.answer_ask(at_ms, &request, reply);
            }
            What::Members(Some((source, list))) => self.listed(at_ms, &source, &list),
            What::Members(None) => self.tick_members(at_ms),
        }
    }

    /// Sends what is to be stored next.
    pub(super) fn propose(&mut self) {
        let now = Instant::now();
        let mut sent = false;
        while let Some(group) = self.group.as_mut().filter(|g| g.in_flight.is_none()) {
            if !group.leads() {
                group.wanted = None;
            }
            let due = group.wanted.as_ref().is_some_and(|(_, at)| *at <= now) && group.trouble.is_none();
            let (change, text) = if let Some(change) = group.held.pop_front() {
                let (effects, response) = change.tried(&self.desk, &self.controller);
                match saved(&effects) {
                    Some(text) => (Some(change), text.clone()),
                    None => {
                        self.make_unstored(change, response);
                        continue;
                    }
                }
            } else if let Some((text, _)) = group.wanted.take_if(|_| due) {
                (None, text)
            } else {
                break;
            };
            match group.member.propose(self.start.elapsed(), text.clone().into()) {
                Ok(number) => {
                    group.in_flight = Some((number, change, text));
                    sent = true;
                }
                Err(why) => self.unstored(change, text, why),
            }
        }
        if sent {
            self.group_step(Input::Tick);
        }
    }

    pub(super) fn stored(&mut self, proposal: u64) {
        let Some(group) = &mut self.group else { return };
        group.stored += 1;
        group.read = Some(true);
        let Some((_, change, text)) = group.in_flight.take_if(|(number, ..)| *number == proposal) else {
            return;
        };
        match change {
            None => self.desk.saved(Ok::<_, String>(())),
            Some(change) => {
                self.make(change);
                // Its effects want to store the same once more.
                if let Some(group) = self.group.as_mut() {
                    group.wanted.take_if(|(wanted, _)| *wanted == text);
                }
            }
        }
    }

    pub(super) fn not_stored(&mut self, proposal: u64, why: Unstored) {
        let Some(group) = &mut self.group else { return };
        if let Some((_, change, text)) = group.in_flight.take_if(|(number, ..)| *number == proposal) {
            self.unstored(change, text, why);
        }
    }

    fn unstored(&mut self, change: Option<Change>, text: String, why: Unstored) {
        let nodes = self.group.as_ref().map_or_else(String::new, |g| g.link.nodes());
        let message = explained(why, &nodes);
        match change.map(|c| c.what) {
            Some(What::Request { reply, .. }) => self.respond(reply, api::Response::error(503, message)),
            Some(What::Members(list)) => {
                if let Some(group) = &mut self.group {
                    group.members_again(list);
                }
            }
            None => {
                self.desk.saved(Err(message));
                if let Some(group) = self.group.as_mut().filter(|g| g.leads()) {
                    group.wanted.get_or_insert((text, Instant::now() + STORE_AGAIN));
                }
            }
        }
    }
}
