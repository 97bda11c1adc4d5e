//! Members of a group and a simulated etcd, in virtual time: messages are lost, late and cut off, members pause and die, leases end
//! early and late, revisions are compacted.

use crate::store::Store;
use pointsman_etcd::{
    Answer, Event, Failure, Input, Leadership, Member, News, Op, Output, Request, Settings, Txn, Unstored,
};
use pointsman_wire::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub const MS: Duration = Duration::from_millis(1);
const LEASE_S: i64 = 3;
const ENDPOINTS: usize = 3;

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub struct Watch {
    pub number: u64,
    endpoint: usize,
    next: i64,
    last: Duration,
}

/// A process with a member.
pub struct Process {
    pub member: Member,
    /// Messages for an earlier life are dropped.
    pub life: u64,
    pub paused_until: Duration,
    pub watch: Option<Watch>,
    /// The value as the owner knows it: tags.
    value: Vec<u64>,
    proposed: Option<(u64, u64)>,
    /// The term with which it writes to the switch.
    term: Option<u64>,
}

pub enum Message {
    ToStore { member: usize, life: u64, id: u64, endpoint: usize, request: Request },
    ToMember { member: usize, life: u64, input: Input },
}

/// How often what goes wrong, in parts of 1000 per message or per step of 50 ms.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub lost: u64,
    pub late: u64,
    pub cut: u64,
    pub outage: u64,
    pub kill: u64,
    pub pause: u64,
    pub compact: u64,
    pub drift: bool,
}

pub struct World {
    random: Random,
    pub now: Duration,
    pub store: Store,
    pub processes: Vec<Option<Process>>,
    back_at: Vec<Duration>,
    pub queue: BTreeMap<(Duration, u64), Message>,
    sent: u64,
    lives: u64,
    faults: Faults,
    pub cut: BTreeMap<(usize, usize), Duration>,
    outage_until: Duration,
    /// Requests of an outage are answered at its end, as etcd does while it elects.
    pub outage_hangs: bool,
    /// Changes that an owner wants, in parts of 1000 per 50 ms.
    pub eagerness: u64,
    tags: u64,
    acknowledged: BTreeSet<u64>,
    unstored: BTreeSet<u64>,
    /// Least and highest term of each fence.
    pub terms: BTreeMap<i64, (u64, u64)>,
    /// The switch: its primary's term, and the writes that it accepted.
    pub highest: u64,
    writes: Vec<u64>,
    without_leader: Duration,
    pub longest_without: Duration,
    last_stored: Duration,
    /// The longest time without a change.
    pub longest_unchanged: Duration,
    pub stored: u64,
}

fn tags(value: &[u8]) -> Vec<u64> {
    let text = std::str::from_utf8(value).expect("text");
    text.split(',').filter(|t| !t.is_empty()).map(|t| t.parse().expect("a tag")).collect()
}

fn text(tags: &[u64]) -> Vec<u8> {
    tags.iter().map(u64::to_string).collect::<Vec<_>>().join(",").into()
}

impl World {
    pub fn new(seed: u64, members: usize, faults: Faults) -> World {
        let mut w = World {
            random: Random::new(seed),
            now: Duration::ZERO,
            store: Store::default(),
            processes: (0..members).map(|_| None).collect(),
            back_at: vec![Duration::ZERO; members],
            queue: BTreeMap::new(),
            sent: 0,
            lives: seed << 20,
            faults,
            cut: BTreeMap::new(),
            outage_until: Duration::ZERO,
            outage_hangs: false,
            eagerness: 300,
            tags: 0,
            acknowledged: BTreeSet::new(),
            unstored: BTreeSet::new(),
            terms: BTreeMap::new(),
            highest: 0,
            writes: Vec::new(),
            without_leader: Duration::ZERO,
            longest_without: Duration::ZERO,
            last_stored: Duration::ZERO,
            longest_unchanged: Duration::ZERO,
            stored: 0,
        };
        (0..members).for_each(|i| w.start(i));
        w
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random.below(1000) < per_mille
    }

    pub fn start(&mut self, i: usize) {
        self.lives += 1;
        let mut member = Member::new(Settings {
            prefix: "/p/".into(),
            endpoints: ENDPOINTS,
            lease_s: LEASE_S,
            identity: format!("member {i}").into(),
            seed: self.lives,
        });
        member.announce(format!("{i}").into());
        member.stand(true);
        self.processes[i] = Some(Process {
            member,
            life: self.lives,
            paused_until: Duration::ZERO,
            watch: None,
            value: Vec::new(),
            proposed: None,
            term: None,
        });
        self.input(i, Input::Tick);
    }

    pub fn kill(&mut self, i: usize, back_in: Duration) {
        self.processes[i] = None;
        self.back_at[i] = self.now + back_in;
    }

    fn delay(&mut self) -> Duration {
        if self.chance(self.faults.late) {
            return ms(self.random.below(3000));
        }
        ms(1 + self.random.below(8))
    }

    fn post(&mut self, at: Duration, message: Message) {
        self.sent += 1;
        self.queue.insert((at, self.sent), message);
    }

    fn is_cut(&self, member: usize, endpoint: usize) -> bool {
        self.cut.get(&(member, endpoint)).is_some_and(|until| *until > self.now)
    }

    fn input(&mut self, i: usize, input: Input) {
        let now = self.now;
        let Some(p) = &mut self.processes[i] else { return };
        let (life, outputs) = (p.life, p.member.step(now, input));
        for output in outputs {
            match output {
                Output::Request { id, endpoint, request } => {
                    if self.chance(self.faults.lost) {
                        continue;
                    }
                    let at = now + self.delay();
                    self.post(at, Message::ToStore { member: i, life, id, endpoint, request });
                }
                Output::Watch { watch, endpoint, prefix, from } => {
                    assert_eq!(prefix, "/p/");
                    if let Some(p) = &mut self.processes[i] {
                        p.watch = Some(Watch { number: watch, endpoint, next: from, last: now });
                    }
                }
                Output::Event(event) => self.event(i, event),
            }
        }
    }

    fn event(&mut self, i: usize, event: Event) {
        let Some(p) = &mut self.processes[i] else { return };
        match event {
            Event::Value { value } => p.value = value.map_or_else(Vec::new, |v| tags(&v)),
            Event::Leadership(Leadership::Own { fence, term }) => {
                p.term = Some(term);
                let known = self.terms.entry(fence).or_insert((term, term));
                *known = (known.0.min(term), known.1.max(term));
                self.terms_rise();
            }
            Event::Leadership(Leadership::Other { .. }) => p.term = None,
            Event::Stored { proposal } => {
                let (number, tag) = p.proposed.take().expect("a proposal");
                assert_eq!(number, proposal);
                p.value.push(tag);
                self.acknowledged.insert(tag);
                self.stored += 1;
                self.longest_unchanged = self.longest_unchanged.max(self.now - self.last_stored);
                self.last_stored = self.now;
            }
            Event::NotStored { proposal, why } => {
                let (number, tag) = p.proposed.take().expect("a proposal");
                assert_eq!(number, proposal);
                if !matches!(why, Unstored::Unknown(_)) {
                    self.unstored.insert(tag);
                }
            }
            _ => {}
        }
    }

    fn terms_rise(&self) {
        let all: Vec<_> = self.terms.iter().collect();
        for pair in all.windows(2) {
            let ((f1, (_, high)), (f2, (low, _))) = (pair[0], pair[1]);
            assert!(high < low, "fence {f1} has term {high}, fence {f2} has term {low}");
        }
    }

    /// The owner's work every 50 ms: a change, a write to the switch.
    fn work(&mut self, i: usize) {
        let (now, changes) = (self.now, self.chance(self.eagerness));
        let Some(p) = self.processes[i].as_mut().filter(|p| p.paused_until <= now) else { return };
        if let Some(term) = p.term {
            if term > self.highest {
                self.highest = term;
            }
            if term == self.highest {
                self.writes.push(term);
            } else if matches!(p.member.leadership(), Leadership::Own { .. }) {
                p.member.outrank(self.highest);
            }
        }
        if p.proposed.is_none() && changes {
            self.tags += 1;
            let next: Vec<u64> = p.value.iter().copied().chain([self.tags]).collect();
            if let Ok(number) = p.member.propose(now, text(&next)) {
                p.proposed = Some((number, self.tags));
            }
        }
        self.input(i, Input::Tick);
    }

    /// One request at the store, with the checks of what it may do.
    pub fn at_store(&mut self, member: usize, life: u64, id: u64, endpoint: usize, request: &Request) {
        let unknown = |why: &str| Err(Failure::Unknown(why.to_string()));
        let result = if self.is_cut(member, endpoint) {
            // No answer at all.
            return;
        } else if self.outage_until > self.now && self.outage_hangs {
            let at = self.outage_until + MS;
            match request {
                Request::Range { .. } => {
                    let input = Input::Answer { id, result: unknown("leader changed") };
                    self.post(at, Message::ToMember { member, life, input });
                }
                request => {
                    let request = request.clone();
                    self.post(at, Message::ToStore { member, life, id, endpoint, request });
                }
            }
            return;
        } else if self.outage_until > self.now {
            unknown("no leader")
        } else {
            let rate = if self.faults.drift { 0.5 + self.random.below(1000) as f64 / 800.0 } else { 1.0 };
            let result = self.store.serve(self.now, request, rate);
            if let (Request::Txn(txn), Ok(Answer::Txn { succeeded: true, .. })) = (request, &result) {
                self.check(member, life, txn);
            }
            result
        };
        if self.chance(self.faults.lost) {
            return;
        }
        let at = self.now + self.delay();
        self.post(at, Message::ToMember { member, life, input: Input::Answer { id, result } });
    }

    fn check(&self, member: usize, life: u64, txn: &Txn) {
        let leader = self.store.keys.get("/p/leader");
        for op in &txn.then {
            let Op::Put { key, value, .. } = op else { continue };
            if !["/p/state", "/p/base"].contains(&key.as_str()) {
                continue;
            }
            let who = leader.map(|l| String::from_utf8_lossy(&l.value).into_owned());
            let own_lease = self
                .store
                .keys
                .values()
                .find(|e| e.key.starts_with("/p/members/") && e.value == format!("{member}").as_bytes());
            let by = format!("member {member}, life {life}, lease {:?}", own_lease.map(|e| e.lease));
            assert_eq!(
                who,
                Some(format!("member {member}")),
                "{key} was written by {by}, which does not lead"
            );
            if key == "/p/state" {
                let new: BTreeSet<u64> = tags(value).into_iter().collect();
                let lost: Vec<_> = self.acknowledged.difference(&new).collect();
                assert!(lost.is_empty(), "acknowledged changes are lost: {lost:?}");
            }
        }
    }

    fn ends_of_leases(&mut self) {
        let over: Vec<i64> = self
            .store
            .leases
            .iter()
            .filter(|(_, (_, _, ends))| *ends <= self.now)
            .map(|(id, _)| *id)
            .collect();
        over.into_iter().for_each(|lease| self.store.end_lease(lease));
    }

    /// What is new goes to the watches.
    fn watches(&mut self) {
        for i in 0..self.processes.len() {
            let delay = self.delay();
            let cut = (0..ENDPOINTS).map(|e| self.is_cut(i, e)).collect::<Vec<_>>();
            let Some(p) = &mut self.processes[i] else { continue };
            let (life, Some(w)) = (p.life, p.watch.as_mut()) else { continue };
            if cut[w.endpoint] || w.next > self.store.revision {
                continue;
            }
            let at = w.last.max(self.now + delay);
            w.last = at;
            let number = w.number;
            let mut news = Vec::new();
            if w.next <= self.store.compacted {
                news.push(News::Compacted);
                p.watch = None;
            } else {
                let new = self.store.log.iter().filter(|(revision, _)| *revision >= w.next);
                news.extend(new.map(|(_, changes)| News::Changes(changes.clone())));
                w.next = self.store.revision + 1;
            }
            for news in news {
                self.post(
                    at,
                    Message::ToMember { member: i, life, input: Input::Watch { watch: number, news } },
                );
            }
        }
    }

    /// etcd has no leader for so long. A new one gives all leases their whole time again.
    pub fn outage(&mut self, lasts: Duration) {
        let until = self.now + lasts;
        self.outage_until = until;
        self.store.leases.values_mut().for_each(|(_, lasts, ends)| *ends = until + *lasts);
    }

    /// What may go wrong, every 50 ms.
    fn misfortune(&mut self) {
        let f = self.faults;
        for i in 0..self.processes.len() {
            if self.processes[i].is_none() && self.back_at[i] <= self.now {
                self.start(i);
            }
            if self.chance(f.kill) {
                let back = ms(self.random.below(5000));
                self.kill(i, back);
            }
            if self.chance(f.pause) {
                let until = self.now + ms(self.random.below(9000));
                if let Some(p) = &mut self.processes[i] {
                    p.paused_until = until;
                }
            }
            if self.chance(f.cut) {
                let (endpoint, until) =
                    (self.random.below(4) as usize, self.now + ms(self.random.below(6000)));
                let all = if endpoint < ENDPOINTS { endpoint..endpoint + 1 } else { 0..ENDPOINTS };
                self.cut.extend(all.map(|e| ((i, e), until)));
            }
            if self.chance(f.cut)
                && let Some(p) = &mut self.processes[i]
                && let Some(w) = p.watch.take()
            {
                let news = News::Ended("the connection was reset".into());
                let message = Message::ToMember {
                    member: i,
                    life: p.life,
                    input: Input::Watch { watch: w.number, news },
                };
                self.post(self.now.max(w.last), message);
            }
        }
        if self.chance(f.outage) {
            let lasts = ms(self.random.below(6000));
            self.outage(lasts);
        }
        if self.chance(f.compact) {
            self.store.compacted = self.store.revision - self.random.below(3) as i64;
            let compacted = self.store.compacted;
            self.store.log.retain(|(revision, _)| *revision > compacted);
        }
    }

    /// Time passes.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            if self.now.as_millis().is_multiple_of(50) {
                self.misfortune();
                (0..self.processes.len()).for_each(|i| self.work(i));
            }
            self.ends_of_leases();
            while let Some(entry) = self.queue.first_entry().filter(|e| e.key().0 <= self.now) {
                let ((_, sent), message) = entry.remove_entry();
                match message {
                    Message::ToStore { member, life, id, endpoint, request } => {
                        self.at_store(member, life, id, endpoint, &request);
                    }
                    Message::ToMember { member, life, input } => {
                        let Some(p) = self.processes[member].as_ref().filter(|p| p.life == life) else {
                            continue;
                        };
                        if p.paused_until > self.now {
                            // In the order in which they came.
                            let at = p.paused_until;
                            self.queue.insert((at, sent), Message::ToMember { member, life, input });
                        } else {
                            self.input(member, input);
                        }
                    }
                }
            }
            self.watches();
            for i in 0..self.processes.len() {
                let Some(p) = &self.processes[i] else { continue };
                let due = p.member.next_deadline().is_some_and(|at| at <= self.now);
                if due && p.paused_until <= self.now {
                    self.input(i, Input::Tick);
                    let p = self.processes[i].as_ref().expect("it runs");
                    let again = p.member.next_deadline().is_some_and(|at| at <= self.now);
                    assert!(!again, "a deadline that does not pass: {:?} at {:?}", p.member, self.now);
                }
            }
            let leads = self.processes.iter().flatten().any(|p| {
                p.paused_until <= self.now && matches!(p.member.leadership(), Leadership::Own { .. })
            });
            self.without_leader = if leads { Duration::ZERO } else { self.without_leader + MS };
            self.longest_without = self.longest_without.max(self.without_leader);
            self.now += MS;
        }
    }

    fn value(&self) -> BTreeSet<u64> {
        self.store.keys.get("/p/state").map(|e| tags(&e.value).into_iter().collect()).unwrap_or_default()
    }

    /// After all faults: someone leads and stores, and nothing was lost.
    pub fn settle(&mut self) {
        self.faults = Faults::default();
        self.cut.clear();
        self.outage_until = self.now;
        let before = self.stored;
        // Pauses last nine seconds at most.
        self.run_for(ms(20_000));
        let states: Vec<_> =
            self.processes.iter().map(|p| p.as_ref().map(|p| (&p.member, &p.proposed))).collect();
        assert!(self.stored > before + 3, "nothing is stored after the faults: {states:?}");
        let value = self.value();
        assert!(self.acknowledged.is_subset(&value));
        let wrong: Vec<_> = self.unstored.intersection(&value).collect();
        assert!(wrong.is_empty(), "reported as not stored, but stored: {wrong:?}");
        assert!(self.writes.is_sorted(), "an old leader wrote to the switch");
        let leads = |p: &Process| matches!(p.member.leadership(), Leadership::Own { term, .. } if self.writes.last() == Some(term));
        assert!(self.processes.iter().flatten().any(leads), "the leader does not get the switch");
    }
}
