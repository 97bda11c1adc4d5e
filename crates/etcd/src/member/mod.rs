//! One process of a group of which one leads, with a value that only the leader changes.
//!
//! Below a prefix are these keys:
//!
//! - `leader`: who leads, under its lease. Whoever creates the key leads. Its create revision is the *fence*: it is higher than that
//!   of all leaders before.
//! - `base`: a number. The *term* of a leader is its fence plus this. A leader that needs a higher term raises it; the term of every
//!   later leader is then higher, too.
//! - `state`: the value.
//! - `members/LEASE`: every process, under its lease, with what it says of itself.
//!
//! Every write of a leader compares the create revision of `leader`, so nothing of a former leader is written once another one has
//! begun. A process that follows looks at the leader's lease: if it was not renewed for more than a second, it ends it.

mod act;
mod answers;
mod types;

pub use types::{Event, Input, Leadership, Output, Settings, Unstored};

use crate::client::Client;
use crate::messages::{Entry, Failure, News, Request};
use crate::view::View;
use std::time::Duration;

/// How long a proposal may take.
const PROPOSAL: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// From this endpoint.
    Read(usize),
    Grant,
    Renew(i64),
    Announce,
    Campaign,
    Look(i64),
    Revoke,
    Resign,
    Store(u64),
    Raise,
}

/// The own lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lease {
    id: i64,
    renew_at: Duration,
    ended: bool,
}

#[derive(Debug)]
struct Proposal {
    number: u64,
    value: Vec<u8>,
    until: Duration,
    sent: bool,
}

/// What was last reported to the owner.
#[derive(Debug, Default)]
struct Told {
    reached: Option<bool>,
    /// The revision of the value; None: it was not read yet.
    value: Option<i64>,
    leadership: Leadership,
    members: Vec<(String, i64)>,
    wrong: Vec<(String, i64)>,
}

/// A member of a group. Times count from any fixed moment and must not run backwards.
#[derive(Debug)]
pub struct Member {
    settings: Settings,
    client: Client<Purpose>,
    view: View,
    lease: Option<Lease>,
    announcement: Vec<u8>,
    announced: bool,
    stands: bool,
    campaign_at: Duration,
    look_at: Duration,
    proposal: Option<Proposal>,
    next_proposal: u64,
    /// The own last write of the value: the watch may bring it later.
    stored: Option<i64>,
    /// A term that is too low.
    too_low: Option<u64>,
    told: Told,
    now: Duration,
}

impl Member {
    /// A member that begins at its first step. It does not want to lead yet.
    pub fn new(settings: Settings) -> Self {
        Member {
            client: Client::new(settings.endpoints, settings.seed),
            settings,
            view: View::default(),
            lease: None,
            announcement: Vec::new(),
            announced: false,
            stands: false,
            campaign_at: Duration::ZERO,
            look_at: Duration::ZERO,
            proposal: None,
            next_proposal: 1,
            stored: None,
            too_low: None,
            told: Told::default(),
            now: Duration::ZERO,
        }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.settings.prefix)
    }

    /// Who leads, as it was last reported to the owner.
    pub fn leadership(&self) -> &Leadership {
        &self.told.leadership
    }

    /// The number of the endpoint that is asked.
    pub fn endpoint(&self) -> usize {
        self.client.endpoint()
    }

    /// Why etcd does not answer, if so.
    pub fn lost(&self) -> Option<&str> {
        self.client.lost()
    }

    /// What the members say of themselves, with whether it is this one.
    pub fn members(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let (prefix, own) = (self.key("members/"), self.lease.map(|l| l.id));
        let all = self.view.entries().values().filter(move |e| e.key.starts_with(&prefix));
        all.map(move |e| (&e.value[..], Some(e.lease) == own))
    }

    /// What this member says of itself from now on.
    pub fn announce(&mut self, text: Vec<u8>) {
        if self.announcement != text {
            self.announcement = text;
            self.announced = false;
        }
    }

    /// Whether this member wants to lead. If not, it also resigns.
    pub fn stand(&mut self, stands: bool) {
        self.stands = stands;
    }

    /// Proposes another value; the next step sends it. Its end is an event.
    ///
    /// # Errors
    /// It cannot be sent, and nothing is stored.
    pub fn propose(&mut self, now: Duration, value: Vec<u8>) -> Result<u64, Unstored> {
        if self.fence().is_none() {
            return Err(Unstored::NotLeading);
        }
        if self.proposal.is_some() {
            return Err(Unstored::Busy);
        }
        if let Some(why) = self.client.lost() {
            return Err(Unstored::Unreachable(why.to_string()));
        }
        let number = self.next_proposal;
        self.next_proposal += 1;
        self.proposal = Some(Proposal { number, value, until: now + PROPOSAL, sent: false });
        Ok(number)
    }

    /// The own term is to be higher than this, if this member leads: the base is raised, and the event of leadership has the new term.
    pub fn outrank(&mut self, term: u64) {
        self.too_low = Some(term.max(self.too_low.unwrap_or(0)));
    }

    /// The request that ends the own lease, when the process ends: the others need not wait.
    pub fn farewell(&self) -> Option<(usize, Request)> {
        let lease = self.lease.filter(|l| !l.ended)?;
        Some((self.client.endpoint(), Request::Revoke { lease: lease.id }))
    }

    /// The deadline for the next step with [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Duration> {
        let renew = self.lease.filter(|l| !l.ended).map(|l| l.renew_at);
        let campaign = (self.stands && self.leader().is_none()).then_some(self.campaign_at);
        let look = self.leader().is_some_and(|l| !self.is_own(l)).then_some(self.look_at);
        let pause = (self.client.again_at() > self.now).then_some(self.client.again_at());
        let actions = [renew, campaign, look].into_iter().flatten().map(|at| at.max(self.client.again_at()));
        let proposal = self.proposal.as_ref().map(|p| p.until);
        let read = self.client.next_candidate(self.now).filter(|_| self.view.must_read());
        let pause = pause.into_iter().chain(read);
        // An action whose time has come and whose request is in flight waits for the answer.
        let actions = actions.filter(|at| *at > self.now);
        actions.chain(pause).chain(proposal).chain(self.client.next_deadline()).min()
    }

    /// Takes one input at time `now` and returns the actions.
    pub fn step(&mut self, now: Duration, input: Input) -> Vec<Output> {
        self.now = now;
        let mut out = Vec::new();
        match input {
            Input::Tick => {}
            Input::Answer { id, result } => {
                if let Some(purpose) = self.client.answered(now, id, &result) {
                    self.answer(now, purpose, result, &mut out);
                }
            }
            Input::Watch { watch, news } if self.view.is_open(watch) => match news {
                News::Changes(changes) => self.view.changed(changes),
                News::Compacted => self.view.lost(),
                News::Ended(why) => {
                    let endpoint = self.view.endpoint().unwrap_or_default();
                    self.client.failed(now, endpoint, &why);
                    self.view.lost();
                }
            },
            Input::Watch { .. } => {}
        }
        for purpose in self.client.expire(now) {
            let late = Err(Failure::Unknown("no answer in time".into()));
            self.answer(now, purpose, late, &mut out);
        }
        self.tell(&mut out);
        self.conclude(now, &mut out);
        if now >= self.client.again_at() {
            self.act(now, &mut out);
        } else if self.client.is_failing() && self.view.must_read() {
            self.read(now, &mut out);
        }
        out
    }

    fn leader(&self) -> Option<&Entry> {
        self.view.get(&self.key("leader"))
    }

    fn is_own(&self, entry: &Entry) -> bool {
        self.lease.is_some_and(|l| l.id == entry.lease)
    }

    /// The own fence, if this member leads.
    fn fence(&self) -> Option<i64> {
        match self.told.leadership {
            Leadership::Own { fence, .. } => Some(fence),
            _ => None,
        }
    }

    /// The number in the key `base`.
    fn base(&self) -> Option<u64> {
        match self.view.get(&self.key("base")) {
            None => Some(0),
            Some(entry) => std::str::from_utf8(&entry.value).ok()?.trim().parse().ok(),
        }
    }

    /// The revision of the value, as far as known; 0: there is none.
    fn value_revision(&self) -> i64 {
        let seen = self.view.get(&self.key("state")).map_or(0, |e| e.modified);
        seen.max(self.stored.unwrap_or(0))
    }

    fn found(&self) -> Leadership {
        let Some(leader) = self.leader() else { return Leadership::Vacant };
        let fence = leader.created;
        match self.is_own(leader) {
            true => {
                Leadership::Own { fence, term: self.base().unwrap_or(0).saturating_add(fence.unsigned_abs()) }
            }
            false => Leadership::Other { fence, identity: leader.value.clone() },
        }
    }

    /// Reports to the owner what is new.
    fn tell(&mut self, out: &mut Vec<Output>) {
        let reached = match (self.client.lost(), self.view.is_watching()) {
            (Some(_), _) => Some(false),
            (None, true) => Some(true),
            (None, false) => self.told.reached,
        };
        if reached != self.told.reached {
            self.told.reached = reached;
            out.push(Output::Event(match self.client.lost() {
                Some(reason) => Event::Lost { reason: reason.to_string() },
                None => Event::Reached,
            }));
        }
        if self.view.must_read() {
            return;
        }
        self.see_own_proposal(out);
        let revision = self.value_revision();
        if self.told.value != Some(revision) {
            self.told.value = Some(revision);
            let value = self.view.get(&self.key("state")).map(|e| e.value.clone());
            out.push(Output::Event(Event::Value { value }));
        }
        let found = self.found();
        if found != self.told.leadership {
            self.told.leadership = found.clone();
            out.push(Output::Event(Event::Leadership(found)));
        }
        let members = self.key("members/");
        let all = self.view.entries().values();
        let members: Vec<(String, i64)> =
            all.filter(|e| e.key.starts_with(&members)).map(|e| (e.key.clone(), e.modified)).collect();
        if members != self.told.members {
            self.told.members = members;
            out.push(Output::Event(Event::Members));
        }
        self.tell_wrong(out);
    }

    /// The watch may bring the own proposal before its answer, which may be lost.
    fn see_own_proposal(&mut self, out: &mut Vec<Output>) {
        let Some(state) = self.view.get(&self.key("state")) else { return };
        let leads = self.leader().is_some_and(|l| self.is_own(l) && Some(l.created) == self.fence());
        let revision = state.modified;
        let is_new = self.told.value.is_some_and(|told| told < revision);
        let sent = self.proposal.as_ref().is_some_and(|p| p.sent && p.value == state.value);
        if leads && is_new && sent {
            self.told.value = Some(revision);
            self.end_proposal(Ok(()), out);
        }
    }

    fn tell_wrong(&mut self, out: &mut Vec<Output>) {
        let mut wrong = Vec::new();
        for entry in self.view.entries().values() {
            let what = match entry.key.strip_prefix(&self.settings.prefix) {
                Some("leader") if entry.lease == 0 => "has no lease, so no leader can be chosen: delete it",
                Some("base") if self.base().is_none() => {
                    "is not a number, so no leader can be chosen: delete it"
                }
                Some("leader" | "base" | "state") => continue,
                Some(name) if name.starts_with("members/") => continue,
                _ => "is not a key of a group: use another prefix, or delete it",
            };
            let id = (entry.key.clone(), entry.modified);
            if !self.told.wrong.contains(&id) {
                out.push(Output::Event(Event::Wrong { key: entry.key.clone(), what }));
            }
            wrong.push(id);
        }
        self.told.wrong = wrong;
    }

    /// Ends a proposal that took too long, or whose leadership is over.
    fn conclude(&mut self, now: Duration, out: &mut Vec<Output>) {
        let Some(p) = &self.proposal else { return };
        let leads = self.fence().is_some();
        if leads && now < p.until {
            return;
        }
        let why = match (leads, p.sent) {
            (false, false) => Unstored::NotLeading,
            (false, true) => Unstored::Unknown("another leader came meanwhile".into()),
            (true, false) => Unstored::Unreachable(self.client.lost().unwrap_or("no answer").to_string()),
            (true, true) => Unstored::Unknown(self.client.lost().unwrap_or("no answer").to_string()),
        };
        self.end_proposal(Err(why), out);
    }

    fn end_proposal(&mut self, result: Result<(), Unstored>, out: &mut Vec<Output>) {
        let Some(Proposal { number: proposal, .. }) = self.proposal.take() else { return };
        out.push(Output::Event(match result {
            Ok(()) => Event::Stored { proposal },
            Err(why) => Event::NotStored { proposal, why },
        }));
    }
}
