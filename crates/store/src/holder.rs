//! Which of several stores serves, where the state is in a key-value store that all of them reach, such as etcd (back end `etcd`).
//!
//! One key has a [`Holding`]: the store that serves, and how often it has committed. Every commit replaces it under the condition that
//! it is as the committer wrote it last. So a store whose place another one has taken commits nothing, whatever it believes, and its
//! requests that are still under way fail. A store answers switches only after a commit: its own place is confirmed with each answer.

use crate::chain::Member;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The version of the text, and of the rows.
const VERSION: &str = "1";

/// The value of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The store that serves.
    pub store: Member,
    /// Its commits.
    pub commits: u64,
    /// It has ended, and serves no longer.
    pub left: bool,
    /// The longest time for which leases that it knows of may still hold, in nanoseconds.
    pub hold_ns: u64,
    /// The highest grant of keys that were removed.
    pub last_grant: u32,
    /// The first store holds unknown keys back still, or did when it ended: its successor has to begin with that as well.
    pub begins: bool,
}

/// A text that is not a [`Holding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingError(String);

impl fmt::Display for HoldingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` does not say which store serves", self.0.escape_debug())
    }
}

impl Error for HoldingError {}

impl fmt::Display for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holding { store, commits, left, hold_ns, last_grant, begins } = self;
        let state = if *left { "left" } else { "serves" };
        let begins = if *begins { " begins" } else { "" };
        write!(f, "{VERSION} {store} {state} {commits} {hold_ns} {last_grant}{begins}")
    }
}

impl FromStr for Holding {
    type Err = HoldingError;

    fn from_str(text: &str) -> Result<Self, HoldingError> {
        let read = || {
            let mut words = text.split(' ');
            let mut word = || words.next();
            word().filter(|version| *version == VERSION)?;
            let store = word()?.parse().ok()?;
            let left = match word()? {
                "left" => true,
                "serves" => false,
                _ => return None,
            };
            let holding = Holding {
                store,
                left,
                commits: word()?.parse().ok()?,
                hold_ns: word()?.parse().ok()?,
                last_grant: word()?.parse().ok()?,
                begins: match word() {
                    None => false,
                    Some("begins") => true,
                    Some(_) => return None,
                },
            };
            words.next().is_none().then_some(holding)
        };
        read().ok_or_else(|| HoldingError(text.chars().take(80).collect()))
    }
}

/// What another store's place was like when it was read last, and since when it has been so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    revision: i64,
    since: u64,
}

/// Decides when a store takes the place of another one. Times are nanoseconds of one clock that never runs backwards.
#[derive(Debug)]
pub struct Standby {
    me: Member,
    hold_ns: u64,
    suspect_ns: u64,
    seen: Option<Seen>,
}

impl Standby {
    /// For this run of a store, whose own leases hold for `hold_ns`. A store that has not committed for `suspect_ns` has failed.
    pub fn new(me: Member, hold_ns: u64, suspect_ns: u64) -> Self {
        Standby { me, hold_ns, suspect_ns, seen: None }
    }

    /// The key was not read: how long it has been as it is cannot be known.
    pub fn missed(&mut self) {
        self.seen = None;
    }

    /// The key was read: its revision, and its value; 0 and `None`: it is missing. Returns its next value if it is to be replaced, which
    /// must happen under the condition that the revision is still this one.
    pub fn read(&mut self, now: u64, revision: i64, present: Option<&Holding>) -> Option<Holding> {
        let same = self.seen.filter(|seen| seen.revision == revision);
        let seen = *self.seen.insert(same.unwrap_or(Seen { revision, since: now }));
        let due = match present {
            None => true,
            Some(holding) => holding.left || now.saturating_sub(seen.since) >= self.suspect_ns,
        };
        due.then(|| Holding {
            store: self.me.clone(),
            commits: 0,
            left: false,
            hold_ns: present.map_or(0, |h| h.hold_ns).max(self.hold_ns),
            last_grant: present.map_or(0, |h| h.last_grant),
            begins: present.is_none_or(|h| h.begins),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn member(text: &str) -> Member {
        text.parse().expect("a member")
    }

    #[test]
    fn holdings_are_text() {
        let text = "1 a/17 serves 42 1015000000 7";
        let holding: Holding = text.parse().expect("a holding");
        assert_eq!((holding.store.to_string().as_str(), holding.commits, holding.left), ("a/17", 42, false));
        assert_eq!((holding.hold_ns, holding.last_grant), (1_015_000_000, 7));
        assert_eq!(holding.to_string(), text);
        let left = Holding { left: true, ..holding };
        assert_eq!(left.to_string().parse(), Ok(left.clone()));
        let begins = Holding { begins: true, ..left };
        assert_eq!(begins.to_string(), "1 a/17 left 42 1015000000 7 begins");
        assert_eq!(begins.to_string().parse(), Ok(begins));
        for wrong in [
            "",
            "2 a/17 serves 42 1 7",
            "1 a serves 42 1 7",
            "1 a/17 gone 42 1 7",
            "1 a/17 serves -1 1 7",
            "1 a/17 serves 42 1",
            "1 a/17 serves 42 1 7 8",
            "1 a/17 serves 42 1 7 begins begins",
            "1 a/17 serves 42 1 4294967296",
            "3: a/17 b/17",
        ] {
            assert!(wrong.parse::<Holding>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_store_that_is_silent_is_replaced() {
        let mut standby = Standby::new(member("b/2"), 100 * MS, 500 * MS);
        let holding: Holding = "1 a/1 serves 5 200000000 9".parse().expect("a holding");
        assert_eq!(standby.read(0, 10, Some(&holding)), None);
        assert_eq!(standby.read(499 * MS, 10, Some(&holding)), None);
        // It has committed.
        assert_eq!(standby.read(500 * MS, 11, Some(&holding)), None);
        assert_eq!(standby.read(999 * MS, 11, Some(&holding)), None);
        // While etcd does not answer, it cannot commit either.
        standby.missed();
        assert_eq!(standby.read(5000 * MS, 11, Some(&holding)), None);
        let next = standby.read(5500 * MS, 11, Some(&holding)).expect("the time has passed");
        assert_eq!(next.to_string(), "1 b/2 serves 0 200000000 9");
    }

    #[test]
    fn a_place_that_is_free_is_taken_at_once() {
        let mut standby = Standby::new(member("b/2"), 100 * MS, 500 * MS);
        let first = standby.read(7, 0, None).expect("there is none");
        assert_eq!(first.to_string(), "1 b/2 serves 0 100000000 0 begins");
        let left: Holding = "1 a/1 left 5 50000000 9".parse().expect("a holding");
        let next = standby.read(8, 10, Some(&left)).expect("it has ended");
        assert_eq!(next.to_string(), "1 b/2 serves 0 100000000 9");
    }
}
