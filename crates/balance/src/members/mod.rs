//! Members that join and leave by themselves: from requests with a time to live, and from lists.
//!
//! [`Members`] is a state machine. Inputs are requests and lists, each with the time; the result is what [`Members::placed`] names,
//! with numbers in the data plane. A member that leaves, in whatever way, leaves the configuration: the controller then gives it no new
//! connections, and existing ones continue until they end. Its number is free when no switch has an entry of it.

mod damp;
pub mod dns;
mod entry;
mod kept;
mod numbers;
mod prometheus;
mod refusal;
mod shown;
#[cfg(test)]
pub(crate) mod tests;

pub use damp::{HALF_MS, Penalty};
pub use entry::{Document, Entry, FieldError, ListError, Name, NameError, check_list, parse_list, unusable};
pub use kept::{Kept, KeptError};
pub use numbers::{NumberError, Numbers, Owner};
pub use prometheus::{TargetError, parse_targets};
pub use refusal::Refusal;
pub use shown::{Shown, State};

use crate::config::{MemberSource, NoRoom, Origin, Placed, Rack};
use crate::program::ServerDevices;
use crate::trust::ReportKey;
use crate::types::DeviceNumber;
use std::collections::{BTreeMap, BTreeSet};

/// Time between two changes of the configuration, in milliseconds: all that happens in between is one change.
pub const TOGETHER_MS: u64 = 500;
/// The same after the controller rejected a configuration.
const REJECTED_MS: u64 = 5_000;
/// At most this much of the time between two steps counts, in milliseconds. While a controller is off or hangs, or when its clock is set,
/// no member expires that could not renew.
const LONGEST_STEP_MS: u64 = 2_000;
/// A time that lies so much before the last one, in milliseconds, is that of a request that had to wait.
const WAITED_MS: u64 = 5_000;
/// Longest time between two steps while something expires, in milliseconds.
const STEP_MS: u64 = 1_000;

/// A registered or listed member.
#[derive(Clone, Debug)]
struct Member {
    source: String,
    entry: Entry,
    number: Option<DeviceNumber>,
    key: Option<ReportKey>,
    owner: Option<String>,
    ttl_ms: Option<u64>,
    /// In time that the controller was awake.
    expires: Option<u64>,
    why_not: Option<Refusal>,
    laid: bool,
    damped: bool,
}

/// What happened to a source's members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They came, or moved.
    pub joined: u64,
    /// They left: by request, or from a list.
    pub left: u64,
    /// They were not renewed.
    pub expired: u64,
    /// They were held out because they came and went too often.
    pub held: u64,
    /// Requests and lists that were refused.
    pub refused: u64,
}

/// A request to register a member.
#[derive(Clone, Debug)]
pub struct Registration<'a> {
    /// The name of the source.
    pub source: &'a str,
    /// The member.
    pub document: &'a Document,
    /// Seconds until it expires; None: the source's.
    pub ttl_s: Option<u64>,
    /// The user.
    pub who: &'a str,
    /// Whether the user may change members of others.
    pub any: bool,
    /// A random key for its reports, if it has none yet.
    pub key: Option<ReportKey>,
}

/// All members that join and leave by themselves. Times are milliseconds since 1970 and may jump.
#[derive(Clone, Debug, Default)]
pub struct Members {
    sources: Vec<MemberSource>,
    members: BTreeMap<Name, Member>,
    penalties: BTreeMap<Name, Penalty>,
    numbers: Numbers,
    counts: BTreeMap<String, Counts>,
    /// Why the last list of a source was refused.
    troubles: BTreeMap<String, String>,
    /// Time that the controller was awake.
    awake: u64,
    last: Option<u64>,
    /// Something changed since the last configuration, which was made then.
    dirty: bool,
    not_before: u64,
    lines: Vec<String>,
}

impl Members {
    /// The rack's file, at first and when it changes.
    pub fn configure(&mut self, file: &Rack) {
        self.sources.clone_from(&file.sources);
        self.numbers.taken = file.servers.iter().map(|s| s.number).collect();
        self.numbers.limit = ServerDevices::of(file).count();
        self.dirty = true;
    }

    fn source(&self, name: &str) -> Option<&MemberSource> {
        self.sources.iter().find(|s| s.name == name)
    }

    /// All sources, with their counts, and why the last list was refused.
    pub fn sources(&self) -> impl Iterator<Item = (&MemberSource, Counts, Option<&str>)> {
        self.sources.iter().map(|s| {
            let counts = self.counts.get(&s.name).copied().unwrap_or_default();
            (s, counts, self.troubles.get(&s.name).map(String::as_str))
        })
    }

    /// Lets the time pass: members expire, and are not held out any more.
    pub fn step(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.last.unwrap_or(now_ms));
        self.awake += passed.min(LONGEST_STEP_MS);
        let waited = |last: &u64| now_ms < *last && last - now_ms <= WAITED_MS;
        self.last = self.last.filter(waited).or(Some(now_ms));
        let awake = self.awake;
        let expired = |m: &Member| m.expires.is_some_and(|at| at <= awake);
        let over: Vec<Name> =
            self.members.iter().filter(|(_, m)| expired(m)).map(|(name, _)| name.clone()).collect();
        for name in over {
            let ttl = self.members.get(&name).and_then(|m| m.ttl_ms).unwrap_or_default();
            self.remove(&name, &format!("was not renewed for {} s", ttl / 1000), |c| c.expired += 1);
        }
        for (name, m) in self.members.iter_mut().filter(|(_, m)| m.damped) {
            m.damped = self.penalties.get(name).is_some_and(|p| p.is_held(awake));
            self.dirty |= !m.damped;
        }
        let members = &self.members;
        self.penalties.retain(|name, p| members.contains_key(name) || !p.is_over(awake));
    }

    /// The latest time of the next step; None: nothing happens without an input.
    pub fn next_deadline(&self) -> Option<u64> {
        let last = self.last.unwrap_or_default();
        let due = self.dirty.then(|| last + self.not_before.saturating_sub(self.awake));
        let waits = self.members.values().any(|m| m.expires.is_some() || m.damped || m.number.is_none());
        let step = (waits || self.numbers.any_left()).then_some(last + STEP_MS);
        let next = self.members.values().filter_map(|m| m.expires).min();
        let expiry = next.map(|at| last + at.saturating_sub(self.awake));
        [due, step, expiry].into_iter().flatten().min()
    }

    /// Registers or renews a member.
    ///
    /// # Errors
    /// It is refused; nothing changes.
    pub fn register(&mut self, now_ms: u64, r: &Registration<'_>) -> Result<Name, Refusal> {
        self.step(now_ms);
        let result = self.try_register(r);
        if result.is_err() {
            self.count(r.source, |c| c.refused += 1);
        }
        result
    }

    fn try_register(&mut self, r: &Registration<'_>) -> Result<Name, Refusal> {
        let entry_of = |s: &MemberSource| Entry::new(r.document, s).map_err(Refusal::Field);
        let Some(source) = self.source(r.source).cloned() else {
            return Err(Refusal::Field(FieldError::Name(r.source.to_string())));
        };
        let entry = entry_of(&source)?;
        let longest = match source.origin {
            Origin::Api { ttl_s } => ttl_s,
            Origin::File(_) | Origin::Prometheus { .. } | Origin::Dns { .. } => {
                return Err(Refusal::Source(entry.name, source.name));
            }
        };
        let ttl = r.ttl_s.unwrap_or(longest.into());
        if !(1..=u64::from(longest)).contains(&ttl) {
            return Err(Refusal::Ttl(ttl, longest));
        }
        let name = entry.name.clone();
        let before = self.members.get(&name);
        let owner = before.and_then(|m| m.owner.clone()).filter(|o| o != r.who && !r.any);
        if let Some(owner) = owner {
            return Err(Refusal::Owner(name, owner));
        }
        let key = before.and_then(|m| m.key).or(r.key).filter(|_| source.reports);
        let (ttl_ms, owner) = (Some(ttl * 1000), Some(r.who.to_string()));
        self.place(&source, entry, key, owner, true)?;
        let expires = Some(self.awake + ttl * 1000);
        if let Some(m) = self.members.get_mut(&name) {
            (m.ttl_ms, m.expires) = (ttl_ms, expires);
        }
        Ok(name)
    }

    /// Ends a registration.
    ///
    /// # Errors
    /// There is none, or another user's.
    pub fn withdraw(&mut self, now_ms: u64, name: &Name, who: &str, any: bool) -> Result<(), Refusal> {
        self.step(now_ms);
        let Some(m) = self.members.get(name) else { return Err(Refusal::Unknown(name.clone())) };
        match &m.owner {
            None => return Err(Refusal::Source(name.clone(), m.source.clone())),
            Some(owner) if owner != who && !any => return Err(Refusal::Owner(name.clone(), owner.clone())),
            Some(_) => {}
        }
        self.remove(name, &format!("was withdrawn by `{who}`"), |c| c.left += 1);
        Ok(())
    }

    /// All members of a source, as a list has them. One that cannot be used leaves the source as it was.
    pub fn listed(&mut self, now_ms: u64, source: &str, list: Result<Vec<Entry>, ListError>) {
        self.step(now_ms);
        let Some(source) = self.source(source).cloned() else { return };
        let foreign = |e: &&Entry| self.members.get(&e.name).is_some_and(|m| m.source != source.name);
        let result = list.map_err(|e| e.to_string()).and_then(|list| match list.iter().find(foreign) {
            Some(e) => Err(format!("member `{}` comes from another source: use another name", e.name)),
            None => Ok(list),
        });
        match result {
            Err(why) => self.trouble(&source.name, why),
            Ok(list) => {
                if self.troubles.remove(&source.name).is_some() {
                    self.lines.push(format!("members of `{}` can be read again", source.name));
                }
                self.replace(&source, list);
            }
        }
    }

    fn trouble(&mut self, source: &str, why: String) {
        // It may quote what comes from a file or from the network, and ends in a terminal.
        let hidden = |c: char| c.is_control() || c.escape_debug().len() > 2;
        let why: String = why.chars().map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect();
        let text = format!("members of `{source}`: {why}; those that it had stay");
        if self.troubles.insert(source.into(), why).as_deref()
            != self.troubles.get(source).map(String::as_str)
        {
            self.count(source, |c| c.refused += 1);
            self.lines.push(text);
        }
    }

    fn replace(&mut self, source: &MemberSource, list: Vec<Entry>) {
        let own = |m: &Member| m.source == source.name;
        let listed: BTreeSet<&Name> = list.iter().map(|e| &e.name).collect();
        let gone: Vec<Name> = self
            .members
            .iter()
            .filter(|(name, m)| own(m) && !listed.contains(name))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.remove(&name, "is not listed any more", |c| c.left += 1);
        }
        for entry in list {
            // It is shown with the reason.
            let _ = self.place(source, entry, None, None, false);
        }
    }

    /// Gives a member its number. `strict`: without one it is refused; otherwise it waits for one.
    fn place(
        &mut self,
        source: &MemberSource,
        entry: Entry,
        key: Option<ReportKey>,
        owner: Option<String>,
        strict: bool,
    ) -> Result<(), Refusal> {
        let name = entry.name.clone();
        let before = self.members.get(&name);
        if let Some(m) = before.filter(|m| m.source != source.name) {
            return Err(Refusal::Source(name, m.source.clone()));
        }
        let moved = before.is_none_or(|m| !m.entry.same_place(&entry));
        let former = before.and_then(|m| m.number).filter(|_| moved);
        let same = before
            .is_some_and(|m| m.entry == entry && m.number.is_some() && (m.key, &m.owner) == (key, &owner));
        if same {
            return Ok(());
        }
        // A member that moves leaves its former place.
        let mut numbers = self.numbers.clone();
        former.into_iter().for_each(|n| numbers.leave(n));
        let number = match before.and_then(|m| m.number).filter(|_| !moved) {
            Some(number) => Ok(number),
            None => self.number(&mut numbers, source, &entry),
        };
        let (number, why_not) = match number {
            Ok(number) => (Some(number), None),
            Err(why) if strict => return Err(why),
            Err(why) => (None, Some(why)),
        };
        self.numbers = numbers;
        let ttl = before.map(|m| (m.ttl_ms, m.expires)).unwrap_or_default();
        let damped = before.is_some_and(|m| m.damped);
        let member = Member {
            source: source.name.clone(),
            entry,
            number,
            key,
            owner,
            ttl_ms: ttl.0,
            expires: ttl.1,
            why_not,
            laid: before.is_some_and(|m| m.laid),
            damped,
        };
        self.members.insert(name.clone(), member);
        self.dirty = true;
        if moved {
            self.arrived(&name);
        }
        Ok(())
    }

    fn number(
        &self,
        numbers: &mut Numbers,
        source: &MemberSource,
        entry: &Entry,
    ) -> Result<DeviceNumber, Refusal> {
        let number =
            numbers.assign(entry, &source.name).map_err(|e| Refusal::Number(entry.name.clone(), e))?;
        let own = numbers.owners().filter(|(_, o)| o.source == source.name).count();
        if own > source.most {
            return Err(Refusal::Full(source.name.clone(), source.most));
        }
        Ok(number)
    }

    fn arrived(&mut self, name: &Name) {
        let penalty = self.penalties.entry(name.clone()).or_default();
        let before = penalty.is_held(self.awake);
        penalty.arrival(self.awake);
        let (held, until) = (penalty.is_held(self.awake), penalty.held_until());
        let Some(m) = self.members.get_mut(name) else { return };
        m.damped = held;
        let source = m.source.clone();
        self.count(&source, |c| c.joined += 1);
        if held && !before {
            self.count(&source, |c| c.held += 1);
            let seconds = (until - self.awake).div_ceil(1000);
            self.lines.push(format!(
                "member `{name}` of `{source}` comes and goes too often: it is held out until it has stayed for {seconds} s"
            ));
        }
    }

    fn remove(&mut self, name: &Name, why: &str, count: impl FnOnce(&mut Counts)) {
        let Some(m) = self.members.remove(name) else { return };
        if let Some(number) = m.number {
            self.numbers.leave(number);
        }
        if m.laid {
            self.lines.push(format!("member `{name}` of `{}` leaves: it {why}", m.source));
        }
        self.count(&m.source, count);
        self.dirty = true;
    }

    fn count(&mut self, source: &str, count: impl FnOnce(&mut Counts)) {
        // Names of sources that do not exist come from requests.
        if self.source(source).is_some() {
            count(self.counts.entry(source.to_string()).or_default());
        }
    }

    /// Frees the numbers of members that left and that no switch has. Members that wait for a number may get one.
    pub fn free(&mut self, has: impl Fn(DeviceNumber) -> bool) {
        if !self.numbers.free(has) {
            return;
        }
        self.dirty = true;
        let waiting: Vec<Name> =
            self.members.iter().filter(|(_, m)| m.number.is_none()).map(|(name, _)| name.clone()).collect();
        for name in waiting {
            let Some((entry, source)) = self.members.get(&name).map(|m| (m.entry.clone(), m.source.clone()))
            else {
                continue;
            };
            let Some(source) = self.source(&source).cloned() else { continue };
            let mut numbers = self.numbers.clone();
            if let Ok(number) = self.number(&mut numbers, &source, &entry) {
                self.numbers = numbers;
                self.members.entry(name).and_modify(|m| (m.number, m.why_not) = (Some(number), None));
            }
        }
    }

    /// Whether a new configuration is due; it is then taken for made.
    pub fn due(&mut self) -> bool {
        let due = self.dirty && self.awake >= self.not_before;
        if due {
            (self.dirty, self.not_before) = (false, self.awake + TOGETHER_MS);
            // Members of sources that are not in the rack's file any more.
            let known = |m: &Member| self.sources.iter().any(|s| s.name == m.source);
            let gone: Vec<Name> =
                self.members.iter().filter(|(_, m)| !known(m)).map(|(name, _)| name.clone()).collect();
            for name in gone {
                self.remove(&name, "has no source in the rack's file any more", |_| {});
            }
            self.dirty = false;
        }
        due
    }

    /// The controller rejected the last configuration: it is tried again later.
    pub fn rejected(&mut self) {
        (self.dirty, self.not_before) = (true, self.awake + REJECTED_MS);
    }

    /// The members of the configuration.
    pub fn placed(&self) -> Vec<Placed<'_>> {
        let placed = |m: &'_ Member| -> Option<(DeviceNumber, &MemberSource)> {
            let source = self.source(&m.source)?;
            (!m.damped && m.entry.admitted(source).is_ok()).then_some((m.number?, source))
        };
        let all = self.members.values().filter_map(|m| placed(m).map(|(number, source)| (m, number, source)));
        all.map(|(m, number, source)| Placed { entry: &m.entry, number, source, key: m.key }).collect()
    }

    /// The result for [`Members::placed`]: those for which the rack has no room, each with the reason.
    pub fn laid(&mut self, left_out: &BTreeMap<Name, NoRoom>) {
        let placed: BTreeSet<Name> = self.placed().iter().map(|p| p.entry.name.clone()).collect();
        for (name, m) in &mut self.members {
            let no_room = left_out.get(name).cloned().map(Refusal::NoRoom);
            let laid = placed.contains(name) && no_room.is_none();
            match (m.laid, laid, &no_room) {
                (false, true, _) => {
                    let address = m.entry.addresses().next().map(|a| a.to_string()).unwrap_or_default();
                    self.lines.push(format!("member `{name}` ({address}) of `{}` comes", m.source));
                }
                (_, false, Some(why)) if m.why_not.as_ref() != Some(why) => {
                    self.lines.push(format!("member `{name}` of `{}` is left out: {why}", m.source));
                }
                _ => {}
            }
            m.laid = laid;
            if m.number.is_some() {
                m.why_not = no_room;
            }
        }
    }

    /// Lines for the operator since the last call.
    pub fn lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}
