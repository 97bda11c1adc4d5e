//! A worker's own state, and its access to shared state.

use crate::externs::Instance;
use crate::guarded::{Guarded, Held, Turn};
use crate::hash::BitBuffer;
use crate::meter::Color;
use crate::profile::SelectorConfig;
use crate::random::Random;
use crate::state::{Digest, Event, EventKind, State};
use crate::stats::Anomalies;
use crate::tables::EntryInfo;
use crate::time::Time;
use pointsman_ir::{ActionCall, Bits, CellArray, EntryAction, ExternInstanceId, Lookup, TableId};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, MutexGuard};

/// The state of one worker, which packets of others never see.
#[derive(Debug)]
pub(crate) struct Own {
    pub random: Random,
    /// Kept for its memory.
    pub buffer: BitBuffer,
    pub anomalies: Anomalies,
    pub digests: VecDeque<Digest>,
    pub events: VecDeque<Event>,
    max_digests: usize,
    max_events: usize,
    /// By extern instance: the colour of the entry that the packet has hit, for direct meters. Green until it hits one.
    pub colors: Vec<Color>,
    /// The packet has hit such an entry.
    marked: bool,
    /// Whose worker it is: 0 is the switch itself.
    pub worker: usize,
    /// The arrays that the worker's packets use, if they are not those of the state.
    pub cells: Option<Arc<[CellArray]>>,
    /// The `@atomic` blocks that its packet is in.
    pub atomic: Atomic,
    epoch: u64,
}

/// The `@atomic` blocks around a packet, and what keeps others out of theirs.
#[derive(Debug, Default)]
pub(crate) struct Atomic {
    pub depth: u32,
    pub held: Option<Held>,
}

impl Own {
    pub fn new(config: &crate::SwitchConfig) -> Own {
        Own {
            random: Random::new(config.seed),
            buffer: BitBuffer::default(),
            anomalies: Anomalies::default(),
            digests: VecDeque::new(),
            events: VecDeque::new(),
            max_digests: config.max_waiting_digests,
            max_events: config.max_waiting_events,
            colors: Vec::new(),
            marked: false,
            worker: 0,
            cells: None,
            atomic: Atomic::default(),
            epoch: 0,
        }
    }

    /// A parser or control has ended, and with it, however it was left, every `@atomic` block in it; nothing of the packet reaches the next one.
    #[inline]
    pub fn leave(&mut self) {
        if self.atomic.depth != 0 {
            self.atomic = Atomic::default();
        }
        if self.marked {
            self.marked = false;
            self.colors.fill(Color::Green);
        }
    }

    /// Digests that were made before the state was replaced mean nothing any more.
    #[inline]
    pub fn forget(&mut self, state: &State) {
        if self.epoch != state.epoch {
            self.epoch = state.epoch;
            self.digests.clear();
        }
    }

    pub fn push_digest(&mut self, digest: Digest) {
        if self.digests.len() >= self.max_digests {
            self.anomalies.digests_lost += 1;
        } else {
            self.digests.push_back(digest);
        }
    }

    pub fn push_event(&mut self, time: Time, kind: EventKind) {
        if self.events.len() >= self.max_events {
            self.anomalies.events_lost += 1;
        } else {
            self.events.push_back(Event { time, kind });
        }
    }
}

/// A packet's way to the state: one worker has it alone, several share it.
pub(crate) enum Access<'a> {
    Alone(&'a mut State),
    Shared(&'a State),
}

impl Deref for Access<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        match self {
            Access::Alone(state) => state,
            Access::Shared(state) => state,
        }
    }
}

impl<'a> Access<'a> {
    /// Keeps other workers out of sections with the same number, until the guard is dropped. A packet is in one section at
    /// a time.
    #[inline]
    pub fn enter(&self, section: Option<usize>) -> Option<MutexGuard<'a, ()>> {
        match self {
            Access::Alone(_) => None,
            Access::Shared(state) => state.locks.get(section?).map(Guarded::shared),
        }
    }
}

impl Access<'_> {
    /// Keeps other workers out of `@atomic` blocks as long as the result lives.
    pub fn enter_atomic(&self) -> Option<Held> {
        match self {
            Access::Alone(_) => None,
            Access::Shared(state) => state.atomic.as_ref().map(Turn::take),
        }
    }

    #[inline]
    pub fn again(&mut self) -> Access<'_> {
        match self {
            Access::Alone(state) => Access::Alone(state),
            Access::Shared(state) => Access::Shared(state),
        }
    }

    /// Looks up a table for a packet, and notes the hit.
    pub fn lookup(
        &mut self,
        own: &mut Own,
        (now, bytes): (Time, u32),
        id: TableId,
        key: &[Bits],
        selectors: &[Bits],
    ) -> Lookup {
        let found = match self {
            Access::Alone(state) => state.tables.get_mut(id.index()).map(|t| t.store.hit(key)),
            Access::Shared(state) => {
                let table = state.tables.get(id.index());
                table.map(|t| t.store.lookup(key).map(|(handle, entry)| (handle, entry.action)))
            }
        };
        let Some(found) = found else { return Lookup { hit: None, action: None } };
        let hit = found.as_ref().map(|(handle, _)| *handle);
        let action = match found {
            None => self.table(id).map(|t| t.store.default_action().clone()),
            Some((_, EntryAction::Call(call))) => Some(call),
            Some((_, action)) => self.resolve(own, id, &action, selectors),
        };
        if let Some(table) = self.table(id).filter(|t| t.follows_hits())
            && let Some(place) = table.place(hit)
        {
            self.hits.of(own.worker)[id.index()].note(place, now.0, bytes);
            self.measure_hit(own, (now, bytes), id, place);
        }
        Lookup { hit, action }
    }

    /// Marks a packet by the direct meter, if any, of the entry at a place.
    pub fn measure_hit(&mut self, own: &mut Own, (now, bytes): (Time, u32), id: TableId, place: u64) {
        let Some((instance, kind)) = self.table(id).and_then(|t| t.direct_meter) else { return };
        let mark = |infos: &mut Vec<EntryInfo>| {
            infos.get_mut(place as usize).map(|info| info.meter.mark(now, kind, bytes))
        };
        let marked = match self {
            Access::Alone(state) => state.tables.get_mut(id.index()).and_then(|t| mark(t.infos.alone())),
            Access::Shared(state) => state.tables.get(id.index()).and_then(|t| mark(&mut t.infos.shared())),
        };
        if let (Some(marked), Some(color)) = (marked, own.colors.get_mut(instance.index())) {
            *color = marked;
            own.marked = true;
        }
    }

    /// Marks a packet by a meter of an array. `None` if the meter does not exist.
    pub fn mark(
        &mut self,
        id: Option<ExternInstanceId>,
        index: u64,
        (now, bytes): (Time, u32),
    ) -> Option<Color> {
        let i = usize::try_from(index).ok()?;
        match self {
            Access::Alone(state) => match state.instances.get_mut(id?.index())? {
                Instance::Meter(m) => {
                    let kind = m.kind;
                    m.cells.alone().get_mut(i).map(|meter| meter.mark(now, kind, bytes))
                }
                _ => None,
            },
            Access::Shared(state) => match state.instances.get(id?.index())? {
                Instance::Meter(m) => m.cells.shared().get_mut(i).map(|meter| meter.mark(now, m.kind, bytes)),
                _ => None,
            },
        }
    }
}

impl State {
    /// The action of a member, or of the member of a group that the packet is given.
    fn resolve(
        &self,
        own: &mut Own,
        id: TableId,
        action: &EntryAction,
        selectors: &[Bits],
    ) -> Option<Arc<ActionCall>> {
        let profile = self.table(id)?.profile.and_then(|p| self.instances.get(p.index()));
        match (action, profile) {
            (EntryAction::Call(call), _) => Some(call.clone()),
            (EntryAction::Member(m), Some(Instance::Profile(p))) => {
                p.member(*m).and_then(|call| p.in_table(id, call))
            }
            (EntryAction::Group(g), Some(Instance::Profile(p))) => {
                let call = p.selector.and_then(|selector| {
                    let algorithm = p.algorithm(*g).unwrap_or(selector.algorithm);
                    let selector = SelectorConfig { algorithm, ..selector };
                    own.buffer.clear();
                    selectors.iter().for_each(|b| own.buffer.push(b));
                    let hash = self.hash_of(selector, own.buffer.bytes(), &mut own.random);
                    p.pick(*g, hash, self.replication.down_ports()).and_then(|call| p.in_table(id, call))
                });
                if call.is_none() {
                    own.anomalies.empty_group += 1;
                }
                call
            }
            _ => None,
        }
    }

    /// The number by which a packet gets a member of a group, if the table has a selector.
    pub(crate) fn select(&self, own: &mut Own, id: TableId, selectors: &[u8]) -> Option<u64> {
        match self.table(id)?.profile.and_then(|p| self.instances.get(p.index())) {
            Some(Instance::Profile(p)) => {
                p.selector.map(|selector| self.hash_of(selector, selectors, &mut own.random))
            }
            _ => None,
        }
    }

    fn hash_of(&self, selector: SelectorConfig, selectors: &[u8], random: &mut Random) -> u64 {
        let hash = self.hasher.hash(selector.algorithm, selectors, random);
        hash & (u64::MAX >> (64 - selector.output_width.clamp(1, 64)))
    }
}
