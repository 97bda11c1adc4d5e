//! What a subscriber gets and when, as a state machine.

use super::model::{Interface, Refused, select};
use pointsman_control::proto::gnmi as pb;
use std::time::{Duration, Instant};

/// Delay until a change is reported, and the shortest interval of samples and heartbeats.
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

/// An interval in nanoseconds; 0 if there is none.
fn interval(what: &str, ns: u64) -> Result<Option<Duration>, Refused> {
    let interval = Duration::from_nanos(ns);
    if ns > 0 && interval < LOOK {
        let why = format!("{what} of {ns} ns: at least {} ns are supported", LOOK.as_nanos());
        return Err(Refused::Invalid(why));
    }
    Ok((ns > 0).then_some(interval))
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
    /// Whether samples have only changed values.
    suppress: bool,
    /// When all values are sent, changed or not.
    heartbeat: Option<Timer>,
    sent: Vec<pb::Update>,
}

impl Followed {
    fn new(s: pb::Subscription, now: Instant) -> Result<Followed, Refused> {
        let every = interval("sample_interval", s.sample_interval)?.unwrap_or(LOOK);
        let heartbeat = interval("heartbeat_interval", s.heartbeat_interval)?;
        let sampled = s.mode() == pb::SubscriptionMode::Sample;
        Ok(Followed {
            samples: sampled.then(|| Timer::new(every, now)),
            suppress: s.suppress_redundant,
            heartbeat: heartbeat.map(|every| Timer::new(every, now)),
            path: s.path.unwrap_or_default(),
            sent: Vec::new(),
        })
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
    /// The request is empty, too long or has an interval that is too short.
    pub fn new(
        list: pb::SubscriptionList,
        encoding: pb::Encoding,
        now: Instant,
    ) -> Result<Subscription, Refused> {
        if list.subscription.is_empty() {
            return Err(Refused::Invalid("no paths: name at least one".to_string()));
        }
        check_paths(list.subscription.len())?;
        let followed = list.subscription.into_iter().map(|s| Followed::new(s, now));
        let followed = followed.collect::<Result<_, _>>()?;
        Ok(Subscription { prefix: list.prefix, encoding, followed })
    }

    /// The target that the client's prefix names, which all messages repeat.
    pub fn target(&self) -> &str {
        self.prefix.as_ref().map_or("", |p| &p.target)
    }

    /// What is to be sent now: at `first` everything, then changes, samples and heartbeats.
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
            let beats = f.heartbeat.as_mut().is_some_and(|h| h.take_due(now));
            let sampled = f.samples.as_mut().map(|s| s.take_due(now));
            if sampled == Some(false) && !beats && !first {
                continue;
            }
            let found = select(interfaces, self.prefix.as_ref(), &f.path, self.encoding)?;
            let all = first || beats || (sampled.is_some() && !f.suppress);
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
        assert_eq!(s.target(), "switch-7");
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
    fn changes_samples_and_heartbeats() {
        use pb::SubscriptionMode::{OnChange, Sample};
        assert_eq!(sent(one(OPER, OnChange)), [(0, 2), (11, 1)]);
        let heartbeat = pb::Subscription { heartbeat_interval: 500 * MS, ..one(OPER, OnChange) };
        assert_eq!(sent(heartbeat), [(0, 2), (5, 2), (10, 2), (11, 1), (15, 2)]);
        let sampled = pb::Subscription { sample_interval: 600 * MS, ..one(OPER, Sample) };
        assert_eq!(sent(sampled.clone()), [(0, 2), (6, 2), (12, 2), (18, 2)]);
        let suppressed = pb::Subscription { suppress_redundant: true, ..sampled };
        assert_eq!(sent(suppressed.clone()), [(0, 2), (12, 1)]);
        let both = pb::Subscription { heartbeat_interval: 900 * MS, ..suppressed };
        assert_eq!(sent(both), [(0, 2), (9, 2), (12, 1), (18, 2)]);
        assert_eq!(sent(one(OPER, Sample)).len(), 20, "without an interval: the shortest one");
    }

    #[test]
    fn wrong_subscriptions_are_refused() {
        use pb::SubscriptionMode::{OnChange, Sample};
        refused(of(Vec::new()), "no paths");
        refused(of(vec![one(OPER, OnChange); MAX_PATHS + 1]), "more than 64 paths");
        let short = pb::Subscription { sample_interval: 1000, ..one(OPER, Sample) };
        refused(of(vec![short]), "sample_interval of 1000 ns: at least 100000000 ns");
        let short = pb::Subscription { heartbeat_interval: 1000, ..one(OPER, OnChange) };
        refused(of(vec![short]), "heartbeat_interval of 1000 ns");
        let most = of(vec![one(OPER, OnChange); MAX_PATHS]);
        assert!(Subscription::new(most, pb::Encoding::Proto, Instant::now()).is_ok());
    }
}
