//! Keeps a switch's entities as they are desired, for any program.
//!
//! Once its session is ready, a [`Reconciler`] reads everything that the program's P4Info names, computes the difference
//! to the desired entities, and writes it: what is used is inserted before its users and deleted after them. It assumes
//! that the tables have room for old and new entries together. After a failure it starts again.

mod difference;
mod entity;
mod scope;

pub use entity::DesiredError;

use crate::election::Leader;
use crate::messages::{Event, Input, Notice, Output, Program, Request, Response, SessionConfig, State};
use crate::session::Session;
use difference::Changed;
use entity::Key;
use p4rt::write_request::Atomicity;
use pointsman_control::proto::p4rt;
use pointsman_control::{Code, RpcError};
use pointsman_wire::random::fnv;
use scope::{Desired, Entities, Scope};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// How a [`Reconciler`] works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconcilerConfig {
    /// The switch.
    pub session: SessionConfig,
    /// Determines the session's number among the controllers of a switch; controllers of one switch need different ones.
    pub seed: u64,
    /// The most updates of one write request, at least 1.
    pub batch: usize,
    /// Changes of the overlay alone are written with `DATAPLANE_ATOMIC`: no packet meets a part of a request, and a refused update takes the others of
    /// its request with it. Not every switch can do this.
    pub atomic: bool,
}

/// Something that happened to a [`Reconciler`].
#[derive(Clone, Debug, PartialEq)]
pub enum ReconcilerEvent {
    /// To its session.
    Session(Event),
    /// It is primary, and the program runs.
    Ready {
        /// The program was installed just now.
        installed: bool,
    },
    /// The switch's entities were read.
    Read {
        /// The number of entities that can be written, with default actions.
        entities: usize,
    },
    /// The switch holds the desired entities.
    InSync {
        /// The updates that were made since it did last.
        writes: usize,
    },
    /// The switch refused an update. The reconciler begins again after a while.
    Refused {
        /// The update.
        update: Box<p4rt::Update>,
        /// The kind of refusal.
        code: Code,
        /// The switch's message.
        message: String,
    },
    /// A message of the stream channel: packets, digests, errors.
    Message(p4rt::stream_message_response::Update),
}

/// The purpose of a request.
#[derive(Debug)]
enum Purpose {
    Read,
    Write(Vec<p4rt::Update>),
}

type Actions = Vec<Output<ReconcilerEvent>>;

/// Keeps the entities of one switch as they are desired. Times count from any fixed moment and must not run backwards.
#[derive(Debug)]
pub struct Reconciler {
    batch: usize,
    atomic: bool,
    scope: Scope,
    session: Session<Purpose>,
    desired: Desired,
    /// Nothing is written before the first list.
    is_set: bool,
    /// The switch's entities; None before they are read.
    have: Option<Entities>,
    /// The batches to write.
    queue: VecDeque<Vec<p4rt::Update>>,
    /// The queue is not the difference between the switch's entities and the desired ones.
    dirty: bool,
    /// Since the switch was last in sync.
    changed: Changed,
    in_sync: bool,
    /// Updates since the switch was last in sync.
    writes: usize,
}

impl Reconciler {
    /// A reconciler that connects at its first step, and writes nothing before the desired entities are set.
    pub fn new(config: ReconcilerConfig, program: Program) -> Self {
        let cookie =
            fnv(program.device_config.iter().copied()) ^ fnv(format!("{:?}", program.p4info).into_bytes());
        Reconciler {
            batch: config.batch.max(1),
            atomic: config.atomic,
            scope: Scope::new(&program.p4info),
            session: Session::new(config.session, program, cookie).with_seed(config.seed),
            desired: Desired::default(),
            is_set: false,
            have: None,
            queue: VecDeque::new(),
            dirty: true,
            changed: Changed::Everything,
            in_sync: false,
            writes: 0,
        }
    }

    /// Sets everything that the switch should hold: table entries, default actions, members and groups of action
    /// profiles, multicast groups, clone sessions, and rates of meters' cells. All others are deleted; default actions that are not given become those of the
    /// program. Values are compared as unsigned numbers of any length. It takes effect at the next step.
    ///
    /// # Errors
    /// The list names something else, or anything twice; the former list stays in force.
    pub fn set_desired(&mut self, entities: Vec<p4rt::Entity>) -> Result<(), DesiredError> {
        let mut base = self.scope.checked(entities)?;
        self.scope.add_defaults(&mut base);
        (self.desired.base, self.is_set) = (base, true);
        (self.dirty, self.changed) = (true, Changed::Everything);
        Ok(())
    }

    /// Sets what the switch should hold besides the list of [`Reconciler::set_desired`], or in place of entities of it with the same
    /// identity. The former list of this kind no longer counts. It costs as much as the two lists of this kind, however long the other one is; it
    /// takes effect at the next step, if the other one was set.
    ///
    /// # Errors
    /// As [`Reconciler::set_desired`].
    pub fn set_overlay(&mut self, entities: Vec<p4rt::Entity>) -> Result<(), DesiredError> {
        let new = self.scope.checked(entities)?;
        let old = std::mem::replace(&mut self.desired.overlay, new);
        let new = &self.desired.overlay;
        let both: BTreeSet<&Key> = old.keys().chain(new.keys()).collect();
        let keys: Vec<Key> = both.into_iter().filter(|k| old.get(k) != new.get(k)).cloned().collect();
        self.dirty |= !keys.is_empty();
        self.changed.add(keys);
        Ok(())
    }

    /// Whether the switch holds the desired entities, as far as known.
    pub fn in_sync(&self) -> bool {
        self.in_sync && !self.dirty
    }

    /// The number of desired entities.
    pub fn entities(&self) -> usize {
        if self.is_set { self.desired.len() } else { 0 }
    }

    /// The session's state.
    pub fn state(&self) -> State {
        self.session.state()
    }

    /// The primary of the switch.
    pub fn leader(&self) -> Leader {
        self.session.leader()
    }

    /// The deadline for the next step with [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Duration> {
        self.session.next_deadline()
    }

    /// Takes one input at time `now` and returns the actions.
    pub fn step(&mut self, now: Duration, input: Input) -> Vec<Output<ReconcilerEvent>> {
        let mut out = Vec::new();
        for input in [input, Input::Tick] {
            for action in self.session.step(now, input) {
                let output = action.hand_over(|notice| self.notice(now, notice, &mut out));
                out.extend(output);
            }
        }
        self.reconcile(now, &mut out);
        out
    }

    fn notice(&mut self, now: Duration, notice: Notice<Purpose>, out: &mut Actions) {
        match notice {
            Notice::Event(event) => out.push(Output::Event(ReconcilerEvent::Session(event))),
            Notice::Message(message) => out.push(Output::Event(ReconcilerEvent::Message(message))),
            Notice::Ready { installed } => {
                out.push(Output::Event(ReconcilerEvent::Ready { installed }));
                let read = Request::Read(self.session.read_request(self.scope.everything()));
                out.push(self.session.request(now, Purpose::Read, read));
            }
            Notice::Interrupted => self.forget(),
            // Everything is read after every interruption.
            Notice::Superseded => {}
            Notice::Answer { purpose: Purpose::Read, result } => match result.and_then(Response::entities) {
                Ok(entities) => {
                    let have = self.have.insert(self.scope.found(entities));
                    out.push(Output::Event(ReconcilerEvent::Read { entities: have.len() }));
                }
                Err(error) => self.failed(now, "reading the switch's entities", error, out),
            },
            Notice::Answer { purpose: Purpose::Write(updates), result } => {
                match result.and_then(Response::written) {
                    Ok(()) => self.written(updates),
                    Err(error) => self.write_failed(now, updates, error, out),
                }
            }
        }
    }

    /// Forgets what the switch holds.
    fn forget(&mut self) {
        self.have = None;
        self.in_sync = false;
        (self.dirty, self.changed) = (true, Changed::Everything);
    }

    fn failed(&mut self, now: Duration, what: &'static str, error: RpcError, out: &mut Actions) {
        out.push(Output::Event(ReconcilerEvent::Session(Event::Failed { what, error })));
        self.forget();
        self.session.fail(now);
    }

    fn written(&mut self, updates: Vec<p4rt::Update>) {
        self.writes += updates.len();
        if let Some(have) = &mut self.have {
            difference::apply(updates, have);
        }
    }

    /// Names the refused updates, and begins again from the entities that the switch then holds.
    fn write_failed(
        &mut self,
        now: Duration,
        updates: Vec<p4rt::Update>,
        error: RpcError,
        out: &mut Actions,
    ) {
        // The others of an atomic request have nothing wrong.
        let innocent = [Code::Ok, Code::Aborted].map(|code| code as i32);
        let refused = updates.into_iter().zip(&error.details);
        let refused = refused.filter(|(_, d)| !innocent.contains(&d.canonical_code));
        out.extend(refused.map(|(update, detail)| {
            Output::Event(ReconcilerEvent::Refused {
                update: Box::new(update),
                code: Code::from_number(detail.canonical_code),
                message: detail.message.clone(),
            })
        }));
        self.failed(now, "writing to the switch", error, out);
    }

    /// Sends the next batch, after a new comparison if something changed. Only one request is in flight at a time: the
    /// switch may carry out concurrent requests in any order.
    fn reconcile(&mut self, now: Duration, out: &mut Actions) {
        let Some(have) = &self.have else { return };
        if !self.is_set || self.session.in_flight().next().is_some() {
            return;
        }
        if self.dirty {
            let steps = difference::steps(have, &self.desired, &self.changed);
            self.queue = steps.flat_map(|step| chunks(step, self.batch)).collect();
            (self.dirty, self.in_sync) = (false, false);
        }
        if let Some(updates) = self.queue.pop_front() {
            let mut write = self.session.write_request(updates.clone());
            if self.atomic && matches!(self.changed, Changed::These(_)) {
                write.atomicity = Atomicity::DataplaneAtomic.into();
            }
            out.push(self.session.request(now, Purpose::Write(updates), Request::Write(write)));
        } else if !self.in_sync {
            (self.in_sync, self.changed) = (true, Changed::These(BTreeSet::new()));
            self.session.settled();
            let writes = std::mem::take(&mut self.writes);
            out.push(Output::Event(ReconcilerEvent::InSync { writes }));
        }
    }
}

fn chunks(updates: Vec<p4rt::Update>, most: usize) -> Vec<Vec<p4rt::Update>> {
    updates.chunks(most).map(<[_]>::to_vec).collect()
}
