//! The faults of a storm, drawn from its seed.

use crate::management::NODES;
use pointsman_lab::Rng;
use std::time::Duration;

/// Faults at random against controllers and nodes of etcd, one after the other, while policies are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// How many faults.
    pub faults: u16,
    /// New connections a second, over UDP, next to those of all cases.
    pub connections_per_s: u32,
    /// Kinds, times and targets follow from it.
    pub seed: u64,
    /// The longest time without a controller that makes changes.
    pub leaderless: Duration,
    /// Members come and go meanwhile.
    pub drifts: bool,
}

/// Whom a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The controller that leads.
    Leader,
    /// The other one.
    Standby,
    /// This node of etcd.
    Node(u8),
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// SIGKILL; it is started again at the end.
    Kill,
    /// SIGSTOP; it continues at the end.
    Pause,
    /// Its packets to and from etcd vanish until the end; those of a node of etcd: all.
    CutFromEtcd,
    /// Its packets to and from the switch vanish until the end.
    CutFromSwitch,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whom it hits.
    pub target: Target,
    /// What happens.
    pub blow: Blow,
    /// How long it lasts.
    pub lasts: Duration,
    /// The pause before it, when everything is well.
    pub after: Duration,
}

impl Fault {
    /// Its kind, in words.
    pub fn kind(&self) -> &'static str {
        match (self.target, self.blow) {
            (Target::Leader, Blow::Kill) => "leader killed",
            (Target::Leader, Blow::Pause) => "leader paused",
            (Target::Leader, Blow::CutFromEtcd) => "leader cut off from etcd",
            (Target::Leader, Blow::CutFromSwitch) => "leader cut off from the switch",
            (Target::Standby, Blow::Kill) => "standby killed",
            (Target::Standby, Blow::Pause) => "standby paused",
            (Target::Standby, _) => "standby cut off",
            (Target::Node(_), Blow::Kill) => "etcd node killed",
            (Target::Node(_), Blow::Pause) => "etcd node paused",
            (Target::Node(_), _) => "etcd node cut off",
        }
    }
}

/// Faults of the leader, and the others: each fills its half of a hand.
const LEADER: [(Target, Blow); 4] = [
    (Target::Leader, Blow::Kill),
    (Target::Leader, Blow::Pause),
    (Target::Leader, Blow::CutFromEtcd),
    (Target::Leader, Blow::CutFromSwitch),
];
const OTHERS: [(Target, Blow); 6] = [
    (Target::Standby, Blow::Kill),
    (Target::Node(0), Blow::Kill),
    (Target::Standby, Blow::CutFromEtcd),
    (Target::Node(0), Blow::Pause),
    (Target::Node(0), Blow::CutFromEtcd),
    (Target::Standby, Blow::Pause),
];

fn below(rng: &mut Rng, end: usize) -> usize {
    ((rng.unit() * end as f64) as usize).min(end - 1)
}

fn shuffled(all: &[(Target, Blow)], rng: &mut Rng) -> Vec<(Target, Blow)> {
    let mut all = all.to_vec();
    for end in (2..=all.len()).rev() {
        all.swap(end - 1, below(rng, end));
    }
    all
}

/// All faults of a storm. Of ten in a row each kind comes once.
pub fn plan(storm: &Storm) -> Vec<Fault> {
    let mut rng = Rng::for_part(storm.seed, "storm");
    let mut faults = Vec::new();
    while faults.len() < usize::from(storm.faults) {
        let (leader, others) = (shuffled(&LEADER, &mut rng), shuffled(&OTHERS, &mut rng));
        let mut others = others.into_iter();
        let mut hand: Vec<(Target, Blow)> =
            leader.into_iter().flat_map(|l| [Some(l), others.next()]).flatten().collect();
        hand.extend(others);
        for (target, blow) in hand {
            let target = match target {
                Target::Node(_) => Target::Node(below(&mut rng, usize::from(NODES)) as u8),
                other => other,
            };
            // A paused leader continues before or after its lease of three seconds has ended.
            let lasts = Duration::from_millis(500 + (rng.unit() * 3000.0) as u64);
            let after = Duration::from_millis(200 + (rng.unit() * 600.0) as u64);
            faults.push(Fault { target, blow, lasts, after });
        }
    }
    faults.truncate(storm.faults.into());
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_plan_follows_from_its_seed_and_has_every_kind() {
        let storm =
            Storm { faults: 100, connections_per_s: 1, seed: 7, leaderless: Duration::ZERO, drifts: false };
        let faults = plan(&storm);
        assert_eq!(faults.len(), 100);
        assert_eq!(faults, plan(&storm));
        assert_ne!(faults, plan(&Storm { seed: 8, ..storm }));
        for ten in faults.chunks(10) {
            assert_eq!(ten.iter().map(Fault::kind).collect::<BTreeSet<_>>().len(), 10);
        }
        let nodes: BTreeSet<u8> = faults
            .iter()
            .filter_map(|f| if let Target::Node(n) = f.target { Some(n) } else { None })
            .collect();
        assert_eq!(nodes.len(), usize::from(NODES));
        assert_eq!(plan(&Storm { faults: 6, ..storm })[..], faults[..6]);
    }
}
