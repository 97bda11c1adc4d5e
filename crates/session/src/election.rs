//! Which controller leads: election ids, and when to bid for the switch.
//!
//! A controller first looks, by an arbitration without an id. If the switch has no primary, it bids with an id above
//! the highest that the switch ever saw. If another Pointsman controller is primary, it is a standby until the switch
//! reports that the primary is gone. Then the standbys bid after waits of different length, so that the first bid
//! usually is the only one. Ids differ between controllers, and the switch takes writes with the highest id only: two
//! controllers never write at the same time.

use std::fmt;
use std::time::Duration;

use pointsman_wire::random::mix;

/// Marks the ids of Pointsman's controllers: bits 32 to 63.
const TAG: u32 = 0x506d_616e;
/// How long standbys wait, plus up to [`JITTER`], before they bid.
const SHORTEST: Duration = Duration::from_millis(20);
const JITTER: Duration = Duration::from_millis(280);
/// Wait before the switch is taken from the same kind of client a second time; it doubles up to [`LAST_PREEMPTION`].
const FIRST_PREEMPTION: Duration = Duration::from_secs(1);
const LAST_PREEMPTION: Duration = Duration::from_secs(60);

/// An election id of P4Runtime. Those of Pointsman's controllers consist of a term (the upper 64 bits), a mark and the controller's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElectionId(pub u128);

impl ElectionId {
    fn new(term: u64, controller: u32) -> Self {
        ElectionId(u128::from(term) << 64 | u128::from(TAG) << 32 | u128::from(controller))
    }

    /// The number of the Pointsman controller whose id this is; `None` for the id of any other client.
    pub fn controller(self) -> Option<u32> {
        ((self.0 >> 32) as u32 == TAG).then_some(self.0 as u32)
    }

    /// Its upper half.
    pub fn term(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// An id above `highest` for this controller. Above the last term ids carry no mark. Nothing is above the highest number: it stays,
    /// since P4Runtime makes a client with an equal id primary once the other one disconnects.
    fn above(highest: Option<ElectionId>, first_term: u64, controller: u32) -> Self {
        match highest {
            None => Self::new(first_term, controller),
            Some(h) => match h.term().checked_add(1) {
                Some(next) => Self::new(next.max(first_term), controller),
                None => ElectionId(h.0.saturating_add(1)),
            },
        }
    }
}

impl fmt::Display for ElectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.controller() {
            Some(c) => write!(f, "term {}, controller {c:08x}", self.term()),
            None => write!(f, "election id {}", self.0),
        }
    }
}

/// The primary of the switch, as far as the controller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// The switch has not answered yet.
    Unknown,
    /// The switch has no primary.
    Vacant,
    /// This controller.
    Own(ElectionId),
    /// Another controller of Pointsman.
    Pointsman(ElectionId),
    /// Any other client.
    Foreign(ElectionId),
}

impl Leader {
    /// Names of all kinds.
    pub const NAMES: [&str; 5] = ["unknown", "none", "self", "pointsman", "foreign"];

    /// A short name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Leader::Unknown => "unknown",
            Leader::Vacant => "none",
            Leader::Own(_) => "self",
            Leader::Pointsman(_) => "pointsman",
            Leader::Foreign(_) => "foreign",
        }
    }

    /// Its id.
    pub fn id(self) -> Option<ElectionId> {
        match self {
            Leader::Unknown | Leader::Vacant => None,
            Leader::Own(id) | Leader::Pointsman(id) | Leader::Foreign(id) => Some(id),
        }
    }
}

/// Who decides which controller leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mandate {
    /// The switch: whoever bids first when it has no primary.
    #[default]
    Switch,
    /// Another election, which this controller has not won: it never bids.
    Standby,
    /// Another election, which this controller has won: it bids with this term, and with no other one. Terms rise with every
    /// winner, so a former winner cannot take the switch back.
    Term(u64),
}

/// The reaction to a lost or changed primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Bid after this time; zero: at once.
    BidAfter(Duration),
    StandBy,
}

/// One controller's knowledge of the elections of its switch.
#[derive(Debug)]
pub(crate) struct Election {
    seed: u64,
    pub mandate: Mandate,
    /// Its id at the switch, on this connection. With it requests are made.
    pub id: Option<ElectionId>,
    pub leader: Leader,
    /// The highest id that the switch has reported.
    highest: Option<ElectionId>,
    last_led: Option<ElectionId>,
    led_since: Duration,
    /// Another primary was there since this controller led last.
    stood_by: bool,
    /// Bids since the switch last had a primary.
    bids: u32,
    preemptions: u32,
}

impl Election {
    /// Its number and its waits follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Election {
            seed,
            mandate: Mandate::Switch,
            id: None,
            leader: Leader::Unknown,
            highest: None,
            last_led: None,
            led_since: Duration::ZERO,
            stood_by: false,
            bids: 0,
            preemptions: 0,
        }
    }

    fn controller(&self) -> u32 {
        mix(self.seed) as u32
    }

    /// The connection is lost, and the id with it.
    pub fn disconnected(&mut self) {
        self.id = None;
        self.leader = Leader::Unknown;
    }

    /// The id of the next bid.
    ///
    /// # Errors
    /// The mandate does not suffice: the switch has seen this id. `None`: without a mandate.
    pub fn bid(&mut self, first_term: u64) -> Result<ElectionId, Option<ElectionId>> {
        let id = match self.mandate {
            Mandate::Switch => ElectionId::above(self.highest, first_term, self.controller()),
            Mandate::Standby => return Err(None),
            Mandate::Term(term) => {
                let own = ElectionId::new(term, self.controller());
                // Its own id is as good as before, once the switch has noticed the end of the old connection.
                let again = |h| own == h && self.leader == Leader::Vacant;
                match self.highest.filter(|h| own <= *h && !again(*h)) {
                    Some(highest) => return Err(Some(highest)),
                    None => own,
                }
            }
        };
        self.bids = self.bids.saturating_add(1);
        self.id = Some(id);
        Ok(id)
    }

    /// Whether a bid with the mandate would be above this id.
    fn outranks(&self, id: ElectionId) -> bool {
        matches!(self.mandate, Mandate::Term(term) if ElectionId::new(term, self.controller()) > id)
    }

    /// The switch reports that this controller is the primary.
    pub fn won(&mut self, now: Duration, id: Option<ElectionId>) -> ElectionId {
        let id = id.or(self.id).unwrap_or(ElectionId(0));
        if self.leader != Leader::Own(id) {
            self.led_since = now;
        }
        self.id = Some(id);
        self.highest = Some(id);
        self.last_led = Some(id);
        self.leader = Leader::Own(id);
        self.stood_by = false;
        self.bids = 0;
        id
    }

    /// Whether another client led since this controller did, given the highest id that the switch reports.
    pub fn others_led(&self, highest: Option<ElectionId>) -> bool {
        highest.is_some() && highest != self.last_led
    }

    /// The switch has no primary.
    pub fn vacant(&mut self, highest: Option<ElectionId>) -> Decision {
        self.highest = highest;
        self.leader = Leader::Vacant;
        match self.mandate {
            Mandate::Switch => {}
            Mandate::Standby => return Decision::StandBy,
            Mandate::Term(_) => return Decision::BidAfter(Duration::ZERO),
        }
        if !self.stood_by && self.bids == 0 {
            return Decision::BidAfter(Duration::ZERO);
        }
        Decision::BidAfter(SHORTEST + self.jitter())
    }

    fn jitter(&self) -> Duration {
        let seen = self.highest.map_or(0, ElectionId::term);
        let random = mix(self.seed ^ mix(seen.wrapping_add(u64::from(self.bids) << 32)));
        Duration::from_nanos(random % JITTER.as_nanos() as u64)
    }

    /// Another client is the primary.
    pub fn led_by(&mut self, now: Duration, id: ElectionId, preempt: bool) -> Decision {
        if let Leader::Own(_) = self.leader
            && now.saturating_sub(self.led_since) >= LAST_PREEMPTION
        {
            self.preemptions = 0;
        }
        self.highest = Some(id);
        self.bids = 0;
        if Some(id) == self.last_led {
            // An older connection of this controller, which the switch still considers alive.
            self.leader = Leader::Pointsman(id);
            return Decision::BidAfter(Duration::ZERO);
        }
        self.stood_by = true;
        if id.controller().is_some() {
            self.leader = Leader::Pointsman(id);
            match self.mandate {
                Mandate::Switch | Mandate::Standby => return Decision::StandBy,
                Mandate::Term(_) if self.outranks(id) => return Decision::BidAfter(Duration::ZERO),
                // Either this controller is the former winner, or the other one did not take part in the election.
                Mandate::Term(_) => {}
            }
        } else {
            self.leader = Leader::Foreign(id);
            if !preempt || id.0 == u128::MAX || self.mandate == Mandate::Standby {
                return Decision::StandBy;
            }
        }
        let wait = match self.preemptions.checked_sub(1) {
            None => Duration::ZERO,
            Some(n) => (FIRST_PREEMPTION * 2u32.saturating_pow(n.min(16))).min(LAST_PREEMPTION),
        };
        self.preemptions = self.preemptions.saturating_add(1);
        Decision::BidAfter(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let id = ElectionId::new(3, 0x1a2b);
        assert_eq!((id.term(), id.controller()), (3, Some(0x1a2b)));
        assert_eq!(id.to_string(), "term 3, controller 00001a2b");
        assert_eq!(ElectionId(7).to_string(), "election id 7");
        assert_eq!(ElectionId::above(None, 5, 1), ElectionId::new(5, 1));
        assert_eq!(ElectionId::above(Some(ElectionId(7)), 1, 1), ElectionId::new(1, 1));
        assert_eq!(ElectionId::above(Some(ElectionId::new(8, 9)), 1, 1), ElectionId::new(9, 1));
        for high in [u128::MAX, u128::MAX - 1, u128::MAX << 64, 1 << 127] {
            let id = ElectionId::above(Some(ElectionId(high)), 1, 1);
            assert!(id.0 > high || high == u128::MAX && id.0 == high, "{high:x}: {:x}", id.0);
        }
    }

    #[test]
    fn waits_differ_between_controllers() {
        let wait = |seed| {
            let mut e = Election::new(seed);
            assert_eq!(e.vacant(None), Decision::BidAfter(Duration::ZERO), "alone: at once");
            assert_eq!(e.led_by(Duration::ZERO, ElectionId::new(1, 77), true), Decision::StandBy);
            match e.vacant(Some(ElectionId::new(1, 77))) {
                Decision::BidAfter(d) => d,
                Decision::StandBy => panic!("standing by without another primary"),
            }
        };
        let waits: std::collections::BTreeSet<Duration> = (0..100).map(wait).collect();
        assert_eq!(waits.len(), 100);
        assert!(waits.iter().all(|w| (SHORTEST..SHORTEST + JITTER).contains(w)));
    }

    #[test]
    fn a_mandate_decides_alone() {
        let (mut old, mut new) = (Election::new(1), Election::new(2));
        let at_once = Decision::BidAfter(Duration::ZERO);
        new.mandate = Mandate::Standby;
        assert_eq!(new.vacant(None), Decision::StandBy, "not even a vacant switch");
        assert_eq!(new.bid(1), Err(None));
        old.mandate = Mandate::Term(7);
        assert_eq!(old.vacant(None), at_once);
        let first = old.bid(1).expect("nothing is higher");
        assert_eq!((first.term(), old.won(Duration::ZERO, None)), (7, first));
        new.mandate = Mandate::Term(9);
        assert_eq!(
            new.led_by(Duration::ZERO, first, false),
            at_once,
            "the winner takes the switch from the former one"
        );
        let second = new.bid(1).expect("it is higher");
        assert_eq!(second.term(), 9);
        // The former winner resumes: whatever it does, it has no higher id.
        old.led_by(Duration::ZERO, second, true);
        assert_eq!(old.bid(1), Err(Some(second)));
        old.vacant(Some(second));
        assert_eq!(old.bid(1), Err(Some(second)));
        // The winner's own connection was lost: its id is as good as before.
        new.won(Duration::ZERO, None);
        new.disconnected();
        assert_eq!(new.led_by(Duration::ZERO, second, false), at_once, "the old connection still counts");
        assert_eq!(new.bid(1), Err(Some(second)));
        assert_eq!(new.vacant(Some(second)), at_once);
        assert_eq!(new.bid(1), Ok(second));
        // Other clients keep the switch as before.
        assert_eq!(new.led_by(Duration::ZERO, ElectionId(7), false), Decision::StandBy);
        assert_eq!(new.led_by(Duration::ZERO, ElectionId(7), true), at_once);
    }

    #[test]
    fn preemption_gets_rarer() {
        let mut e = Election::new(1);
        let mut now = Duration::ZERO;
        let waits: Vec<u64> = (0..9)
            .map(|_| {
                now += Duration::from_secs(1);
                let foreign = e.highest.map_or(7, |h| ((h.0 >> 64) + 1) << 64);
                let Decision::BidAfter(wait) = e.led_by(now, ElectionId(foreign), true) else { panic!() };
                let id = e.bid(1).expect("the switch decides");
                assert!(id.0 > foreign);
                e.won(now, Some(id));
                wait.as_secs()
            })
            .collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        now += LAST_PREEMPTION;
        assert_eq!(e.led_by(now, ElectionId(1 << 100), true), Decision::BidAfter(Duration::ZERO));
        assert_eq!(e.led_by(now, ElectionId(1 << 101), false), Decision::StandBy);
        assert_eq!(e.led_by(now, ElectionId(u128::MAX), true), Decision::StandBy, "nothing is higher");
    }
}
