//! Connections of the balancer with `-D BALANCER_TEA` that move to servers' memory when they are established, and leave it when they end (`settled.p4`).
//!
//! [`Settler`] is a state machine: the data plane's reports go in, [`Action`]s come out, for the data plane and for the table in servers' memory. There are
//! no sockets, threads or clocks here; times are in nanoseconds.
//!
//! An entry changes only while the data plane holds a place for its connection, and the place is given up only when the change is acknowledged. A report that
//! is lost costs time: what has no answer is asked again. Only the answer to the last message counts: until it comes, the ones before it may be on their way, and
//! one of them might give up a place whose entry changes meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// Bytes of a key: client, its port, service (`TEA_KEY_BYTES`).
pub const KEY_BYTES: usize = 20;
/// Bytes of what is kept of a connection (`TEA_VALUE_BYTES`).
pub const WORD_BYTES: usize = 4;
/// The port of a packet out that has a message ([`Message::encode`]) behind it: `SETTLED_PORT`.
pub const PORT: u16 = 0xfffd;

/// A connection.
pub type Key = [u8; KEY_BYTES];
/// What is kept of it: its device, and what its service asked for when it began.
pub type Word = [u8; WORD_BYTES];

/// Microseconds in a tick of the data plane.
const TICK_US: u64 = 1 << 20;
const NS_PER_US: u64 = 1000;

/// What the data plane says: `SETTLED_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A connection is established, and has a place.
    Ready,
    /// One ended that servers' memory has.
    Ended,
    /// Its place is held.
    Held,
    /// Its place is held, and it ended.
    HeldOver,
    /// The connection does not exist, or cannot settle.
    Gone,
    /// It was seen lately.
    Active,
    /// No place is free for it.
    Full,
    /// Its place is free.
    Freed,
    /// Its place is not held any more.
    Released,
}

impl Kind {
    /// All of them, by number from 1.
    const ALL: [Kind; 9] = [
        Kind::Ready,
        Kind::Ended,
        Kind::Held,
        Kind::HeldOver,
        Kind::Gone,
        Kind::Active,
        Kind::Full,
        Kind::Freed,
        Kind::Released,
    ];

    /// That of a number; `None` if there is none.
    pub fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// A digest of the data plane (`settled_digest_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it says.
    pub kind: Kind,
    /// The number of the message that it answers; 0: none.
    pub number: u8,
    /// About which connection.
    pub key: Key,
    /// What is kept of it.
    pub word: Word,
    /// Ticks since it was seen, for [`Kind::Active`].
    pub ticks: u16,
}

/// A message to the data plane (`settled_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Hold its place, if it has one.
    Hold(Key),
    /// The same; if it has none and was not seen for so many ticks, give it one, with this word.
    Fetch(Key, Word, u16),
    /// Servers' memory has this word: its place is free.
    Give(Key, Word),
    /// Servers' memory has nothing: its place is an ordinary one.
    Forget(Key),
}

impl Message {
    /// The bytes behind the packet out's header, with the number that the answer is to have.
    pub fn encode(&self, number: u8) -> Vec<u8> {
        let (kind, key, word, ticks) = match *self {
            Message::Hold(key) => (1, key, [0; WORD_BYTES], 0),
            Message::Fetch(key, word, ticks) => (2, key, word, ticks),
            Message::Give(key, word) => (3, key, word, 0),
            Message::Forget(key) => (4, key, [0; WORD_BYTES], 0),
        };
        [&[kind, number][..], &ticks.to_be_bytes(), &key, &word].concat()
    }
}

/// Something to be done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A message to the data plane, and the number of its answer. Messages must keep their order.
    Send(Message, u8),
    /// An entry is to be written; then [`Settler::acknowledged`], or [`Settler::refused`] if the table has no room now.
    Put(Key, Word),
    /// An entry is to be deleted; then the same.
    Delete(Key),
}

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a connection is established before it settles, in nanoseconds. One that ends before costs servers' memory nothing.
    pub wait_ns: u64,
    /// When a message without an answer, or a change without room, is tried again, in nanoseconds.
    pub retry_ns: u64,
    /// How long a settled connection may stay unseen if its service has no time of its own ([`Settler::set_idle`]), in milliseconds.
    pub idle_ms: u64,
    /// In which time all settled connections are looked at once, in nanoseconds.
    pub sweep_ns: u64,
    /// Connections that may be under way at once. Those beyond are reported again later.
    pub under_way: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It settles soon.
    Waits,
    /// The data plane is asked to hold its place.
    Asks(Message),
    /// Its entry changes to this.
    Changes(Option<Word>),
    /// The same, when there is room.
    Refused(Option<Word>),
    /// The data plane is to know what servers' memory has.
    Tells(Message),
}

/// A connection between the data plane and servers' memory.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    phase: Phase,
    /// When it continues without an answer.
    at: u64,
    /// The number of the last message about it; 0: none was sent.
    number: u8,
}

/// A settled connection.
#[derive(Clone, Copy, Debug)]
struct Settled {
    word: Word,
    /// When it was seen, or began to settle, in seconds.
    seen: u32,
}

/// Moves connections between the data plane and servers' memory.
#[derive(Debug)]
pub struct Settler {
    settings: Settings,
    idle_ms: BTreeMap<u16, u64>,
    settled: BTreeMap<Key, Settled>,
    under_way: BTreeMap<Key, UnderWay>,
    due: BTreeSet<(u64, Key)>,
    /// The last key that was looked at, and when the next ones are due.
    swept: Option<Key>,
    sweep_at: u64,
    actions: VecDeque<Action>,
}

/// Steps in which all settled connections are looked at.
const SWEEP_STEPS: u64 = 256;

fn seconds(now: u64) -> u32 {
    (now / 1_000_000_000) as u32
}

impl Settler {
    /// Without connections.
    pub fn new(settings: Settings) -> Self {
        Settler {
            settings,
            idle_ms: BTreeMap::new(),
            settled: BTreeMap::new(),
            under_way: BTreeMap::new(),
            due: BTreeSet::new(),
            swept: None,
            sweep_at: 0,
            actions: VecDeque::new(),
        }
    }

    /// How long settled connections of a service may stay unseen.
    pub fn set_idle(&mut self, service: u16, ms: u64) {
        self.idle_ms.insert(service, ms);
    }

    /// A connection that servers' memory has from the start.
    pub fn load(&mut self, now: u64, key: Key, word: Word) {
        self.settled.insert(key, Settled { word, seen: seconds(now) });
    }

    /// Connections in servers' memory.
    pub fn settled(&self) -> usize {
        self.settled.len()
    }

    /// Connections between data plane and servers' memory.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// What is to be done next.
    pub fn take_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Settler::wake`] is due.
    pub fn deadline(&self) -> Option<u64> {
        let sweep = (!self.settled.is_empty()).then_some(self.sweep_at);
        self.due.first().map(|(at, _)| *at).into_iter().chain(sweep).min()
    }

    /// The data plane reports.
    pub fn report(&mut self, now: u64, report: &Report) {
        let Report { kind, number, key, word, ticks } = *report;
        let under_way = self.under_way.get(&key);
        if number != 0 && under_way.is_some_and(|u| u.number != number) {
            return;
        }
        let phase = under_way.map(|u| u.phase);
        match (kind, phase) {
            (Kind::Ready, None) if self.under_way.len() < self.settings.under_way => {
                self.enter(now, key, Phase::Waits);
            }
            (Kind::Ended, None | Some(Phase::Waits | Phase::Tells(Message::Give(..)))) => {
                self.ask(now, Message::Hold(key), key);
            }
            // Only this gives up a place that is held, also if the reason is not known any more.
            (
                Kind::Held | Kind::HeldOver,
                None | Some(Phase::Waits | Phase::Asks(_) | Phase::Tells(Message::Give(..))),
            ) => {
                self.decide(now, key, (kind == Kind::Held).then_some(word));
            }
            (Kind::Gone | Kind::Active | Kind::Full, Some(Phase::Asks(_))) => {
                if let Some(settled) = self.settled.get_mut(&key).filter(|_| kind == Kind::Active) {
                    let age = u64::from(ticks) * TICK_US * NS_PER_US;
                    settled.seen = settled.seen.max(seconds(now.saturating_sub(age)));
                }
                self.leave(&key);
            }
            (Kind::Freed | Kind::Released, Some(Phase::Tells(_))) => self.leave(&key),
            _ => {}
        }
    }

    /// A place is held: its entry is to be this.
    fn decide(&mut self, now: u64, key: Key, wanted: Option<Word>) {
        if self.settled.get(&key).map(|s| s.word) == wanted {
            self.tell(now, key, wanted);
        } else {
            self.change(now, key, wanted);
        }
    }

    fn change(&mut self, now: u64, key: Key, wanted: Option<Word>) {
        self.actions.push_back(match wanted {
            Some(word) => Action::Put(key, word),
            None => Action::Delete(key),
        });
        self.enter(now, key, Phase::Changes(wanted));
    }

    fn tell(&mut self, now: u64, key: Key, has: Option<Word>) {
        let message = match has {
            Some(word) => Message::Give(key, word),
            None => Message::Forget(key),
        };
        self.send(now, key, message, Phase::Tells(message));
    }

    fn ask(&mut self, now: u64, message: Message, key: Key) {
        self.send(now, key, message, Phase::Asks(message));
    }

    /// A message of which the answer is awaited.
    fn send(&mut self, now: u64, key: Key, message: Message, phase: Phase) {
        self.enter(now, key, phase);
        if let Some(under_way) = self.under_way.get_mut(&key) {
            under_way.number = under_way.number % u8::MAX + 1;
            self.actions.push_back(Action::Send(message, under_way.number));
        }
    }

    fn enter(&mut self, now: u64, key: Key, phase: Phase) {
        let number = self.under_way.get(&key).map_or(0, |u| u.number);
        self.leave(&key);
        let at = match phase {
            Phase::Waits => now.saturating_add(self.settings.wait_ns),
            Phase::Changes(_) => u64::MAX,
            _ => now.saturating_add(self.settings.retry_ns.max(1)),
        };
        self.under_way.insert(key, UnderWay { phase, at, number });
        if at < u64::MAX {
            self.due.insert((at, key));
        }
    }

    fn leave(&mut self, key: &Key) {
        if let Some(under_way) = self.under_way.remove(key) {
            self.due.remove(&(under_way.at, *key));
        }
    }

    /// The change of an entry is acknowledged: every look-up that begins from now on sees it.
    pub fn acknowledged(&mut self, now: u64, key: &Key) {
        let Some(Phase::Changes(has)) = self.under_way.get(key).map(|u| u.phase) else { return };
        match has {
            Some(word) => drop(self.settled.insert(*key, Settled { word, seen: seconds(now) })),
            None => drop(self.settled.remove(key)),
        }
        self.tell(now, *key, has);
    }

    /// The table has no room for the change of an entry now.
    pub fn refused(&mut self, now: u64, key: &Key) {
        if let Some(Phase::Changes(wanted)) = self.under_way.get(key).map(|u| u.phase) {
            self.enter(now, *key, Phase::Refused(wanted));
        }
    }

    /// Continues what is due.
    pub fn wake(&mut self, now: u64) {
        while let Some((_, key)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            let Some(phase) = self.under_way.get(&key).map(|u| u.phase) else { break };
            match phase {
                Phase::Waits => self.ask(now, Message::Hold(key), key),
                Phase::Asks(message) => self.ask(now, message, key),
                Phase::Refused(wanted) => self.change(now, key, wanted),
                Phase::Tells(_) | Phase::Changes(_) => {
                    let has = self.settled.get(&key).map(|s| s.word);
                    self.tell(now, key, has);
                }
            }
        }
        if !self.settled.is_empty() && self.sweep_at <= now {
            self.sweep(now);
        }
    }

    /// Looks at the next settled connections: for those that were not seen for long enough, the data plane knows whether it is so.
    fn sweep(&mut self, now: u64) {
        self.sweep_at = now + (self.settings.sweep_ns / SWEEP_STEPS).max(1);
        let count = self.settled.len().div_ceil(SWEEP_STEPS as usize);
        let from = self.swept.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        let mut idle = Vec::new();
        for (key, settled) in self.settled.range((from, Bound::Unbounded)).take(count) {
            last = Some(*key);
            let ms = self.idle_ms(key);
            if u64::from(seconds(now).saturating_sub(settled.seen)) * 1000 > ms
                && !self.under_way.contains_key(key)
            {
                idle.push((*key, settled.word, ms));
            }
        }
        self.swept = last;
        for (key, word, ms) in idle {
            if self.under_way.len() < self.settings.under_way {
                let ticks = (ms * 1000).div_ceil(TICK_US).min(u64::from(u16::MAX) / 2) as u16;
                self.ask(now, Message::Fetch(key, word, ticks), key);
            }
        }
    }

    fn idle_ms(&self, key: &Key) -> u64 {
        let service = u16::from_be_bytes([key[KEY_BYTES - 2], key[KEY_BYTES - 1]]);
        self.idle_ms.get(&service).copied().unwrap_or(self.settings.idle_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program;

    /// The numbers of messages and reports are those of the program.
    #[test]
    fn numbers_are_those_of_the_program() {
        let number = |file: &str, name: &str| -> u32 {
            let text = program::file(file).expect("a file of the program");
            let rest = text.lines().find_map(|l| l.split_once(&format!(" {name} = "))).expect(name).1;
            let digits = rest.split(';').next().expect("a value");
            digits
                .strip_prefix("0x")
                .map_or_else(|| digits.parse(), |d| u32::from_str_radix(d, 16))
                .expect("a number")
        };
        let reports =
            ["IS_READY", "ENDED", "HELD", "HELD_OVER", "GONE", "ACTIVE", "FULL", "FREED", "RELEASED"];
        for (name, kind) in reports.iter().zip(Kind::ALL) {
            let number = number("settled.p4", &format!("SETTLED_{name}"));
            assert_eq!(Kind::from_number(number as u8), Some(kind), "{name}");
        }
        let (key, word) = ([1; KEY_BYTES], [2; WORD_BYTES]);
        let messages = [
            ("HOLD", Message::Hold(key)),
            ("FETCH", Message::Fetch(key, word, 3)),
            ("GIVE", Message::Give(key, word)),
            ("FORGET", Message::Forget(key)),
        ];
        for (name, message) in messages {
            let bytes = message.encode(9);
            assert_eq!(
                (u32::from(bytes[0]), bytes[1], bytes.len()),
                (number("settled.p4", &format!("SETTLED_{name}")), 9, 28)
            );
        }
        assert_eq!(u32::from(PORT), number("headers.p4", "SETTLED_PORT"));
        assert_eq!([Kind::from_number(0), Kind::from_number(10)], [None, None]);
    }

    /// Settings of 0, and reports that do not belong to anything.
    #[test]
    fn odd_settings_and_reports_are_harmless() {
        let settings = Settings { wait_ns: 0, retry_ns: 0, idle_ms: 0, sweep_ns: 0, under_way: 1 };
        let mut settler = Settler::new(settings);
        let (key, word) = ([1; KEY_BYTES], [2; WORD_BYTES]);
        let report = |kind| Report { kind, number: 0, key, word, ticks: u16::MAX };
        for kind in [Kind::Gone, Kind::Active, Kind::Full, Kind::Freed, Kind::Released] {
            settler.report(0, &report(kind));
        }
        settler.acknowledged(0, &key);
        settler.refused(0, &key);
        assert_eq!((settler.take_action(), settler.deadline()), (None, None));
        settler.report(5, &report(Kind::Ready));
        settler.report(5, &Report { key: [3; KEY_BYTES], ..report(Kind::Ready) });
        assert_eq!(settler.under_way(), 1, "a second one is reported again later");
        for (now, number) in [(5, 1), (6, 2)] {
            settler.wake(now);
            let asks = Some(Action::Send(Message::Hold(key), number));
            assert_eq!([settler.take_action(), settler.take_action()], [asks, None], "{now}");
            assert_eq!(settler.deadline(), Some(now + 1));
        }
    }
}
