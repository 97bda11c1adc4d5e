//! Which headers are valid at one point of a program: the combinations that paths to it can leave, so that a header that
//! is extracted only together with another one is known to be valid where that one is.

use pointsman_ir::Span;
use std::collections::BTreeMap;

/// Number of a header that is followed: 0 to [`MAX_HEADERS`] - 1.
pub type Id = u8;

/// Headers that can be followed together; nothing is known about others.
pub const MAX_HEADERS: usize = 127;
/// The bit of a row after those of the headers: the packet will be dropped.
const DROPPED: u128 = 1 << MAX_HEADERS;
/// Maximum number of combinations. Above it, headers are dropped from the analysis one by one.
const MAX_ROWS: usize = 256;

/// What is known about a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Valid on every path, or nothing is known.
    Fine,
    /// Invalid on some path.
    Maybe,
    /// Invalid on every path.
    Invalid,
}

/// One combination.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    valid: u128,
    /// The parser state that accepts a packet with it.
    from: Option<Span>,
}

/// The combinations; with no row, this point is never reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Headers {
    known: u128,
    /// Headers that are not reported as [`Status::Maybe`]: a condition about something else may imply that they are valid.
    muted: u128,
    /// Headers that were reported on every path here: once is enough.
    reported: u128,
    /// In order of `valid`.
    rows: Vec<Row>,
    /// Where headers became invalid.
    lost: BTreeMap<Id, Span>,
}

impl Default for Headers {
    fn default() -> Self {
        let rows = vec![Row { valid: 0, from: None }];
        Headers { known: 0, muted: 0, reported: 0, rows, lost: BTreeMap::new() }
    }
}

impl Headers {
    /// Puts rows in order, one of each kind, and not too many.
    fn tidy(&mut self) {
        loop {
            let known = self.known | DROPPED;
            self.rows.iter_mut().for_each(|r| r.valid &= known);
            self.rows.sort_by_key(|r| r.valid);
            self.rows.dedup_by_key(|r| r.valid);
            if self.rows.len() <= MAX_ROWS {
                return;
            }
            let all = self.rows.iter().fold(u128::MAX, |a, r| a & r.valid);
            let any = self.rows.iter().fold(0, |a, r| a | r.valid);
            match (any & !all & self.known).checked_ilog2() {
                Some(last) => self.known &= !(1 << last),
                None => return,
            }
        }
    }

    /// Whether any path leads here.
    pub fn is_reached(&self) -> bool {
        !self.rows.is_empty()
    }

    /// The rows that matter: packets that are not dropped, if any.
    fn alive(&self) -> impl Iterator<Item = &Row> {
        let some = self.rows.iter().any(|r| r.valid & DROPPED == 0);
        self.rows.iter().filter(move |r| !some || r.valid & DROPPED == 0)
    }

    /// Whether the header is followed.
    pub fn is_known(&self, id: Id) -> bool {
        self.known & (1 << id) != 0
    }

    /// What is known about a header.
    pub fn status(&self, id: Id) -> Status {
        let bit = 1u128 << id;
        if self.known & !self.reported & bit == 0
            || self.rows.is_empty()
            || self.alive().all(|r| r.valid & bit != 0)
        {
            Status::Fine
        } else if self.rows.iter().all(|r| r.valid & bit == 0) {
            Status::Invalid
        } else if self.muted & bit != 0 || self.alive().all(|r| r.valid & bit == 0) {
            Status::Fine
        } else {
            Status::Maybe
        }
    }

    /// Where the header became invalid, or else the parser state that accepts packets without it.
    pub fn witness(&self, id: Id) -> (Option<Span>, Option<Span>) {
        let from = self.alive().filter(|r| r.valid & (1 << id) == 0).find_map(|r| r.from);
        (self.lost.get(&id).copied(), from)
    }

    /// The header becomes valid or invalid.
    pub fn set(&mut self, id: Id, valid: bool) {
        let bit = 1u128 << id;
        self.known |= bit;
        self.reported &= !bit;
        for r in &mut self.rows {
            r.valid = if valid { r.valid | bit } else { r.valid & !bit };
        }
        self.lost.remove(&id);
        self.tidy();
    }

    /// A statement made the header invalid.
    pub fn lose(&mut self, id: Id, at: Span) {
        self.set(id, false);
        self.lost.insert(id, at);
    }

    /// The header was reported.
    pub fn report(&mut self, id: Id) {
        self.reported |= 1 << id;
    }

    /// Nothing is known about the header from here on.
    pub fn forget(&mut self, id: Id) {
        self.known &= !(1 << id);
        self.lost.remove(&id);
        self.tidy();
    }

    /// `to` becomes as valid as `from`.
    pub fn copy(&mut self, to: Id, from: Id) {
        if self.known & (1 << from) == 0 {
            return self.forget(to);
        }
        let bit = 1u128 << to;
        self.known |= bit;
        self.reported &= !bit;
        for r in &mut self.rows {
            r.valid = r.valid & !bit | (r.valid >> from & 1) << to;
        }
        self.lost.remove(&to);
        if let Some(at) = self.lost.get(&from).copied() {
            self.lost.insert(to, at);
        }
        self.tidy();
    }

    /// Only paths where the header is valid, or invalid, lead here.
    pub fn assume(&mut self, id: Id, valid: bool) {
        let bit = 1u128 << id;
        if self.known & bit == 0 {
            return self.set(id, valid);
        }
        self.rows.retain(|r| (r.valid & bit != 0) == valid);
    }

    /// A condition holds here that may imply which headers are valid; not the one whose field it reads.
    pub fn mute(&mut self, but: Option<Id>) {
        self.muted |= !but.map_or(0, |id| 1 << id);
    }

    /// Such conditions held up to here, as before.
    pub fn unmute(&mut self, before: &Headers) {
        self.muted = before.muted;
    }

    /// The packet will be dropped.
    pub fn drop_packet(&mut self) {
        self.rows.iter_mut().for_each(|r| r.valid |= DROPPED);
        self.tidy();
    }

    /// A parser accepts in the state at `at`.
    pub fn accept(&mut self, at: Span) {
        self.rows.iter_mut().for_each(|r| r.from = Some(at));
    }

    /// Two paths meet.
    pub fn join(&mut self, other: &Headers) {
        if self.rows.is_empty() {
            *self = other.clone();
        } else if !other.rows.is_empty() {
            self.known &= other.known;
            self.muted &= other.muted;
            self.reported &= other.reported;
            // The sort is stable: of equal rows the first remains.
            self.rows.extend(other.rows.iter().cloned());
            for (id, at) in &other.lost {
                self.lost.entry(*id).or_insert(*at);
            }
            self.tidy();
        }
    }

    /// The state at the begin of the next block: of packets that were not dropped, and with nothing known about headers
    /// that were less invalid after the parser, because copies of the packet as it was there may also come.
    pub fn next_block(&self, parsed: &Headers) -> Headers {
        let mut next =
            Headers { muted: 0, reported: 0, rows: self.alive().cloned().collect(), ..self.clone() };
        next.rows.iter_mut().for_each(|r| r.valid &= !DROPPED);
        for id in (0..MAX_HEADERS as Id).filter(|id| parsed.known & 1 << id != 0) {
            let (then, now) = (parsed.plain(id), next.plain(id));
            if then == Status::Fine && now != Status::Fine || then == Status::Maybe && now == Status::Invalid
            {
                next.known &= !(1 << id);
            }
        }
        next.tidy();
        next
    }

    /// The status, whatever conditions held before.
    fn plain(&self, id: Id) -> Status {
        Headers { muted: 0, reported: 0, ..self.clone() }.status(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(f: impl Fn(&mut Headers), g: impl Fn(&mut Headers)) -> Headers {
        let (mut a, mut b) = (Headers::default(), Headers::default());
        f(&mut a);
        g(&mut b);
        a.join(&b);
        a
    }

    #[test]
    fn headers_that_come_together() {
        let mut h = both(
            |h| {
                h.set(0, true);
                h.set(1, true);
            },
            |h| {
                h.set(0, false);
                h.set(1, false);
            },
        );
        assert_eq!(h.status(1), Status::Maybe);
        let mut muted = h.clone();
        muted.mute(Some(0));
        assert_eq!((muted.status(0), muted.status(1)), (Status::Maybe, Status::Fine));
        muted.mute(None);
        assert_eq!(muted.status(0), Status::Fine);
        h.assume(0, true);
        assert_eq!(h.status(1), Status::Fine);
        h.assume(1, false);
        // Never reached.
        assert_eq!(h.status(0), Status::Fine);
    }

    #[test]
    fn dropped_packets_do_not_count() {
        let mut h = both(
            |h| h.set(0, true),
            |h| {
                h.set(0, false);
                h.drop_packet();
            },
        );
        assert_eq!(h.status(0), Status::Fine);
        assert_eq!(h.next_block(&h).status(0), Status::Fine);
        h.copy(1, 0);
        h.set(0, false);
        assert_eq!((h.status(0), h.status(1)), (Status::Invalid, Status::Fine));
    }

    #[test]
    fn more_combinations_than_are_kept() {
        let mut h = Headers::default();
        for id in 0..100 {
            h.set(id, false);
        }
        for id in 0..100 {
            let mut other = h.clone();
            other.set(id, true);
            h.join(&other);
        }
        assert!(h.rows.len() <= MAX_ROWS);
        assert_eq!((h.status(0), h.status(99)), (Status::Maybe, Status::Fine));
    }
}
