//! A node of a chain as a state machine.

use super::bytes::Address;
use super::copying::Copying;
use super::frame::{Body, Frame, Status};
use super::stats::ChainStats;
use super::update::{self, UpdateError};
use super::view::{Member, View};
use crate::config::{Config, ConfigError, Rule};
use crate::message::{Malformed, Secret};
use crate::outbox::Outbox;
use crate::store::Store;
use std::collections::{BTreeMap, VecDeque};

/// Updates that the chain has yet to apply at most: the head drops requests beyond.
pub(super) const MAX_LOG: usize = 65_536;
/// Updates that the node that joins may lag behind when the tail hands over.
const NEAR: u64 = 1_000;
/// Updates that a node keeps at most while it misses an earlier one.
pub(super) const MAX_HELD: u64 = 4_096;
/// A part of the data with nothing in it.
const NO_DATA: &[u8] = &[0; 9];

/// Times of a chain's nodes, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two signs of life.
    pub beat_ns: u64,
    /// Silence after which a node is proposed to be removed.
    pub suspect_ns: u64,
    /// After which messages to another node are sent again.
    pub resend_ns: u64,
    /// Nodes that the chain should have: others join while it has fewer.
    pub nodes: usize,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { beat_ns: 50_000_000, suspect_ns: 500_000_000, resend_ns: 10_000_000, nodes: 3 }
    }
}

/// The part of a node in its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// It is not in the view, or has no data for its place.
    Idle,
    /// It copies the data.
    Joining,
    /// In the chain: 0 is the head.
    At(usize),
}

/// What a node sends.
#[derive(Debug)]
pub struct Mail<A> {
    /// To switches.
    pub switches: Outbox<A>,
    /// To other nodes.
    pub nodes: Vec<(Member, Vec<u8>)>,
}

impl<A> Default for Mail<A> {
    fn default() -> Self {
        Mail { switches: Outbox::default(), nodes: Vec::new() }
    }
}

impl<A: Copy> Mail<A> {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.switches.clear();
        self.nodes.clear();
    }
}

/// The node behind this one, as it is known here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Follower {
    /// The last update that it applied.
    pub applied: u64,
    /// The last update that was sent to it.
    pub sent: u64,
    /// When updates are sent again.
    pub resend_at: u64,
    /// It misses updates up to this one, and has later ones.
    pub missing: u64,
    /// Updates up to this one are there, or were sent again because it missed them: once, then after `resend_at`.
    pub repeated: u64,
}

impl Follower {
    /// A node with the updates up to this one.
    pub fn with(applied: u64) -> Self {
        Follower { applied, sent: applied, repeated: applied, ..Follower::default() }
    }

    /// It says what it applied. While it continues, nothing is sent again before `resend_at`.
    pub fn confirms(&mut self, resend_at: u64, applied: u64) {
        if applied > self.applied {
            (self.applied, self.sent) = (applied, self.sent.max(applied));
            self.repeated = self.repeated.max(applied);
            self.resend_at = resend_at;
        }
    }
}

/// A node of a chain, with its store (rule R10): every request passes from the head to the tail, which answers it.
///
/// Views are inputs: [`Replica::set_view`]. The node also proposes views, which take effect when they come back as inputs. Times are
/// nanoseconds of one clock that never runs backwards. After inputs, call [`flush`](Replica::flush) and send what is in the mail; call
/// [`wake`](Replica::wake) at the [`deadline`](Replica::deadline).
#[derive(Debug)]
pub struct Replica<A> {
    pub(super) me: Member,
    pub(super) config: Config,
    pub(super) timing: Timing,
    pub(super) store: Store<A>,
    pub(super) view: Option<View>,
    pub(super) place: Place,
    /// It has the data of its chain.
    pub(super) complete: bool,
    /// The tail answers nothing without this node any more: it may be in the chain.
    pub(super) handed: bool,
    /// The last update that was applied here, and the last one that was applied by the whole chain.
    pub(super) applied: u64,
    pub(super) acked: u64,
    /// Updates up to `applied` that others may need.
    pub(super) log: VecDeque<Box<[u8]>>,
    pub(super) follower: Follower,
    /// Updates that came before an earlier one, by number.
    pub(super) held: BTreeMap<u64, Box<[u8]>>,
    /// At the tail, while a node joins.
    pub(super) copying: Option<Copying>,
    /// At the node that joins: parts that were copied.
    pub(super) copied: u32,
    /// And the update with which this copy began.
    pub(super) start: u64,
    /// The predecessor has yet to hear how far this node is.
    pub(super) status_due: bool,
    /// When each node was last heard, in this view or a later one.
    pub(super) heard: BTreeMap<Member, u64>,
    pub(super) beat_at: u64,
    scratch: Outbox<A>,
    pub(super) proposal: Option<View>,
    pub(super) behind: bool,
    pub(super) failure: Option<UpdateError>,
    pub(super) stats: ChainStats,
}

impl<A: Address> Replica<A> {
    /// A node without data, in no view.
    ///
    /// # Errors
    /// Settings that no store can have.
    pub fn new(now: u64, me: Member, config: Config, timing: Timing) -> Result<Self, ConfigError> {
        let config = Config { durable: true, leases: true, ..config };
        let mut store = Store::new(config.clone())?;
        store.hold_back(now);
        Ok(Replica {
            me,
            config,
            timing,
            store,
            view: None,
            place: Place::Idle,
            complete: false,
            handed: false,
            applied: 0,
            acked: 0,
            log: VecDeque::new(),
            held: BTreeMap::new(),
            follower: Follower::default(),
            copying: None,
            copied: 0,
            start: 0,
            status_due: false,
            heard: BTreeMap::new(),
            beat_at: now,
            scratch: Outbox::default(),
            proposal: None,
            behind: false,
            failure: None,
            stats: ChainStats::default(),
        })
    }

    /// Its store. Only the head's counts requests.
    pub fn store(&self) -> &Store<A> {
        &self.store
    }

    /// Numbers that two switches have ([`Store::shared_numbers`]).
    pub fn shared_numbers(&mut self) -> Vec<u16> {
        self.store.shared_numbers()
    }

    /// What it does in its view.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Its view; `None`: none yet.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// Counts since the start.
    pub fn stats(&self) -> ChainStats {
        ChainStats { applied: self.applied, acked: self.acked, log: self.log.len() as u64, ..self.stats }
    }

    /// The update that it could not apply, because of which it has left the chain.
    pub fn failure(&self) -> Option<UpdateError> {
        self.failure
    }

    /// Whether another node has a later view.
    pub fn is_behind(&self) -> bool {
        self.behind
    }

    /// A view that should follow [`view`](Replica::view), if one should. It takes effect only as an input.
    pub fn take_proposal(&mut self) -> Option<View> {
        self.proposal.take()
    }

    pub(super) fn without(&self, rule: Rule) -> bool {
        self.config.without == Some(rule)
    }

    pub(super) fn secret(&self) -> Secret {
        self.config.secret
    }

    pub(super) fn is_tail(&self) -> bool {
        matches!((self.place, &self.view), (Place::At(n), Some(view)) if n + 1 == view.chain.len())
    }

    pub(super) fn number(&self) -> u64 {
        self.view.as_ref().map_or(0, |view| view.number)
    }

    /// The node in front of this one: at the node that joins, the tail.
    pub(super) fn before(&self) -> Option<&Member> {
        let chain = &self.view.as_ref()?.chain;
        match self.place {
            Place::Idle => None,
            Place::Joining => chain.last(),
            Place::At(n) => n.checked_sub(1).and_then(|n| chain.get(n)),
        }
    }

    /// The node behind this one, not counting one that joins.
    pub(super) fn behind(&self) -> Option<&Member> {
        let chain = &self.view.as_ref()?.chain;
        match self.place {
            Place::At(n) => chain.get(n + 1),
            Place::Idle | Place::Joining => None,
        }
    }

    /// Takes the payload of a switch's datagram. Only the head handles it.
    pub fn receive(&mut self, now: u64, from: A, bytes: &[u8], mail: &mut Mail<A>) {
        if self.place != Place::At(0) {
            self.stats.elsewhere += 1;
        } else if self.log.len() >= MAX_LOG {
            self.stats.overflowed += 1;
        } else {
            let mut answers = std::mem::take(&mut self.scratch);
            self.store.receive(now, from, bytes, &mut answers);
            self.decided(answers, mail);
        }
    }

    /// What the head's store decided becomes an update.
    fn decided(&mut self, mut answers: Outbox<A>, mail: &mut Mail<A>) {
        if let Some((update, left_out)) = update::take(&mut self.store, &answers) {
            self.stats.left_out += left_out;
            if self.without(Rule::TailAnswers) {
                update::answer(&update, &mut mail.switches);
            }
            self.keep(update);
        }
        answers.clear();
        self.scratch = answers;
    }

    fn keep(&mut self, update: Box<[u8]>) {
        self.applied += 1;
        self.log.push_back(update);
        self.status_due = true;
    }

    /// Takes a message of another node. What is malformed, forged, or of another view, is counted.
    pub fn receive_from_node(&mut self, now: u64, bytes: &[u8]) {
        let frame = match Frame::decode(self.secret(), bytes) {
            Ok(frame) => frame,
            Err(Malformed::Digest) => return self.stats.forged += 1,
            Err(_) => return self.stats.malformed += 1,
        };
        // A node that stays in an older view is of as little use as one that has failed.
        if frame.view >= self.number()
            && let Some(at) = self.heard.get_mut(&frame.from)
        {
            *at = now;
        }
        if frame.view < self.number() && !self.without(Rule::Views) {
            self.stats.older += 1;
        } else if frame.view > self.number() {
            self.stats.newer += 1;
            self.behind = true;
        } else {
            self.of_view(now, &frame);
        }
    }

    fn of_view(&mut self, now: u64, frame: &Frame<'_>) {
        let from = &frame.from;
        let is_before = self.before() == Some(from) || self.without(Rule::Views);
        match &frame.body {
            Body::Status(status) => self.hears(now, from, status),
            Body::Updates { first, acked, handed, updates } if is_before => {
                for (n, update) in (*first..).zip(updates) {
                    self.takes(now, n, update);
                }
                self.status_due = true;
                // What the tail answered alone must be here, too.
                let has_all = self.complete && self.applied >= *acked;
                self.handed |= *handed && has_all && self.place == Place::Joining;
                self.acked = self.acked.max((*acked).min(self.applied));
            }
            Body::Copy { index, last, start, update } if is_before && self.place == Place::Joining => {
                // The tail began again.
                if *index == 0 && self.copied > 0 && *start > self.start {
                    self.forget_all(now);
                }
                if *index == self.copied && !self.complete && (*index == 0 || *start == self.start) {
                    self.copies(now, update);
                    self.start = *start;
                    (self.complete, self.applied, self.acked) = (*last, *start, *start);
                }
                self.status_due = true;
            }
            _ => self.stats.misplaced += 1,
        }
    }

    /// Takes an update: those that overtook earlier ones wait for these.
    fn takes(&mut self, now: u64, n: u64, update: &[u8]) {
        if !self.complete || n <= self.applied {
            return;
        }
        if n > self.applied + 1 {
            if n - self.applied <= MAX_HELD && self.held.insert(n, update.into()).is_none() {
                self.stats.held += 1;
            }
            return;
        }
        self.applies(now, update);
        self.held.remove(&n);
        while self.complete
            && let Some(update) = self.held.remove(&(self.applied + 1))
        {
            self.applies(now, &update);
        }
    }

    fn applies(&mut self, now: u64, update: &[u8]) {
        match update::apply(&mut self.store, now, update) {
            Ok(()) => self.keep(update.into()),
            Err(e) => self.fails(e),
        }
        self.store.saved();
    }

    fn copies(&mut self, now: u64, part: &[u8]) {
        let part = if self.without(Rule::Copies) { NO_DATA } else { part };
        match update::apply(&mut self.store, now, part) {
            Ok(()) => self.copied += 1,
            Err(e) => self.fails(e),
        }
        self.store.saved();
    }

    pub(super) fn fails(&mut self, e: UpdateError) {
        self.failure = Some(e);
        self.place = Place::Idle;
        self.complete = false;
    }

    /// Another node says how far it is.
    fn hears(&mut self, now: u64, from: &Member, status: &Status) {
        if self.behind() == Some(from) || (self.without(Rule::Views) && self.behind().is_some()) {
            self.follower.confirms(now + self.timing.resend_ns, status.applied.min(self.applied));
            self.follower.missing = status.missing;
            let acked = status.acked.min(self.applied);
            if acked > self.acked {
                self.acked = acked;
                self.status_due = true;
            }
        }
        if let Some(copying) = self.copying.as_mut().filter(|copying| copying.node == *from) {
            copying.hears(now + self.timing.resend_ns, status, self.applied);
            if copying.is_near(NEAR) {
                copying.handed = true;
            }
        }
    }

    /// When [`wake`](Replica::wake) has something to do.
    pub fn deadline(&self) -> u64 {
        let store = self.store.deadline().filter(|_| self.place == Place::At(0)).unwrap_or(u64::MAX);
        let lags = |f: &Follower| f.applied < self.applied;
        let behind = self.behind().map(|_| &self.follower).filter(|f| lags(f));
        let copies = self.copying.as_ref().filter(|c| c.end.is_none() || lags(&c.follower));
        let resends = behind.into_iter().chain(copies.map(|c| &c.follower)).map(|f| f.resend_at);
        resends.fold(self.beat_at.min(store), u64::min)
    }

    /// Grants keys to those that wait for them: only the head.
    pub fn due(&mut self, now: u64, mail: &mut Mail<A>) {
        while self.place == Place::At(0) && self.log.len() < MAX_LOG {
            let mut answers = std::mem::take(&mut self.scratch);
            let more = self.store.wake_one(now, &mut answers);
            self.decided(answers, mail);
            if !more {
                break;
            }
        }
    }

    /// Grants keys to those that wait for them, shows signs of life, and notices the silence of others. Call [`flush`](Replica::flush) then.
    pub fn wake(&mut self, now: u64, mail: &mut Mail<A>) {
        self.due(now, mail);
        if now >= self.beat_at {
            self.beat_at = now + self.timing.beat_ns;
            self.beat(now, mail);
        }
    }
}
