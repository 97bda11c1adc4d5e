//! What a subscriber gets and when, as a state machine.

use super::model::{Interface, Refused, select};
use pointsman_control::proto::gnmi as pb;
use std::time::{Duration, Instant};

/// Delay until a change is reported, and the shortest interval of samples.
pub const LOOK: Duration = Duration::from_millis(100);

/// Paths of a request: it costs time for each. All that exists are 12 leaves of each port.
const MAX_PATHS: usize = 64;

/// Checks the number of a request's paths.
///
/// # Errors
/// They are too many.
pub fn check_paths(paths: usize) -> Result<(), Refused> {
    if paths > MAX_PATHS {
        let why = format!("more than {MAX_PATHS} paths: request fewer, with '*' in place of names");
        return Err(Refused::Invalid(why));
    }
    Ok(())
}

/// Something regular.
struct Timer {
    every: Duration,
    at: Instant,
}

impl Timer {
    fn new(every: Duration, now: Instant) -> Timer {
        Timer { every, at: now + every }
    }

    fn take_due(&mut self, now: Instant) -> bool {
        let due = now >= self.at;
        if due {
            self.at = now + self.every;
        }
        due
    }
}

/// One path of a subscription and its last sent values.
struct Followed {
    path: pb::Path,
    /// `None`: at each change.
    samples: Option<Timer>,
    sent: Vec<pb::Update>,
}

impl Followed {
    fn new(s: pb::Subscription, now: Instant) -> Followed {
        let every = Duration::from_nanos(s.sample_interval).max(LOOK);
        let sampled = s.mode() == pb::SubscriptionMode::Sample;
        Followed {
            samples: sampled.then(|| Timer::new(every, now)),
            path: s.path.unwrap_or_default(),
            sent: Vec::new(),
        }
    }
}

/// The paths that a client follows.
pub struct Subscription {
    prefix: Option<pb::Path>,
    encoding: pb::Encoding,
    followed: Vec<Followed>,
}

impl Subscription {
    /// What a client asks for, with values in this encoding.
    ///
    /// # Errors
    /// It has too many paths.
    pub fn new(
        list: pb::SubscriptionList,
        encoding: pb::Encoding,
        now: Instant,
    ) -> Result<Subscription, Refused> {
        check_paths(list.subscription.len())?;
        let followed = list.subscription.into_iter().map(|s| Followed::new(s, now)).collect();
        Ok(Subscription { prefix: list.prefix, encoding, followed })
    }

    /// What is to be sent now: at `first` everything, then changes and samples.
    ///
    /// # Errors
    /// A path does not exist.
    pub fn updates(
        &mut self,
        now: Instant,
        interfaces: &[Interface],
        first: bool,
    ) -> Result<Vec<pb::Update>, Refused> {
        let mut updates = Vec::new();
        for f in &mut self.followed {
            let sampled = f.samples.as_mut().map(|s| s.take_due(now));
            if sampled == Some(false) && !first {
                continue;
            }
            let found = select(interfaces, self.prefix.as_ref(), &f.path, self.encoding)?;
            let all = first || sampled.is_some();
            updates.extend(found.iter().filter(|u| all || !f.sent.contains(u)).cloned());
            f.sent = found;
        }
        Ok(updates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ports::Counters;

    const OPER: &str = "oper-status";
    const MS: u64 = 1_000_000;

    fn path(leaf: &str) -> pb::Path {
        let elem = |name: &&str| pb::PathElem { name: (*name).to_string(), ..Default::default() };
        let elem = ["interfaces", "interface", "state", leaf].iter().map(elem).collect();
        pb::Path { elem, ..Default::default() }
    }

    fn one(leaf: &str, mode: pb::SubscriptionMode) -> pb::Subscription {
        pb::Subscription { path: Some(path(leaf)), mode: mode.into(), ..Default::default() }
    }

    fn of(subscription: Vec<pb::Subscription>) -> pb::SubscriptionList {
        let prefix = Some(pb::Path { target: "switch-7".into(), ..Default::default() });
        pb::SubscriptionList { subscription, prefix, ..Default::default() }
    }

    /// The moments, in tenths of a second, at which so many updates are sent, with a port that goes down at 1.05 s.
    fn sent(subscription: pb::Subscription) -> Vec<(u64, usize)> {
        let start = Instant::now();
        let mut s =
            Subscription::new(of(vec![subscription]), pb::Encoding::Proto, start).expect("it is valid");
        let look = |tenth: u64| {
            let port =
                |port, up| Interface { name: format!("p{port}"), port, up, counters: Counters::default() };
            let interfaces = [port(1, tenth < 11), port(2, true)];
            let now = start + Duration::from_millis(100 * tenth);
            let updates = s.updates(now, &interfaces, tenth == 0).expect("it exists");
            (tenth, updates.len())
        };
        (0..20).map(look).filter(|(_, updates)| *updates > 0).collect()
    }

    fn refused(list: pb::SubscriptionList, what: &str) {
        match Subscription::new(list, pb::Encoding::Proto, Instant::now()) {
            Err(Refused::Invalid(why)) => assert!(why.contains(what), "{why}"),
            other => panic!("{what}: {:?}", other.err()),
        }
    }

    #[test]
    fn changes_and_samples() {
        use pb::SubscriptionMode::{OnChange, Sample};
        assert_eq!(sent(one(OPER, OnChange)), [(0, 2), (11, 1)]);
        let sampled = pb::Subscription { sample_interval: 600 * MS, ..one(OPER, Sample) };
        assert_eq!(sent(sampled), [(0, 2), (6, 2), (12, 2), (18, 2)]);
        assert_eq!(sent(one(OPER, Sample)).len(), 20, "without an interval: the shortest one");
    }

    #[test]
    fn wrong_subscriptions_are_refused() {
        use pb::SubscriptionMode::OnChange;
        refused(of(vec![one(OPER, OnChange); MAX_PATHS + 1]), "more than 64 paths");
        let most = of(vec![one(OPER, OnChange); MAX_PATHS]);
        assert!(Subscription::new(most, pb::Encoding::Proto, Instant::now()).is_ok());
    }
}
