//! Shares: slots of servers, places of devices on a ring.

use pointsman_wire::random::mix;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// Longest ring of one server.
pub const MAX_RING: u32 = 2048;

/// Splits `seats` by weight: each server with a weight gets at least one if there are enough.
///
/// A divisor method (Webster's, with the first seat free): when a party leaves or the seats become more, no remaining
/// party loses one, so that slot tables change as little as possible. Shares are exact to about one seat.
/// Ties go to the smaller key.
pub fn apportion<K: Copy + Ord>(weights: &BTreeMap<K, u64>, seats: u32) -> BTreeMap<K, u32> {
    let mut out: BTreeMap<K, u32> = weights.iter().filter(|(_, w)| **w > 0).map(|(k, _)| (*k, 0)).collect();
    if out.is_empty() {
        return out;
    }
    // The next seat goes to the largest w / (2 s + 1), for s = 0 to the largest w / 0: a party without a seat comes first.
    let claim = |key: K, has: u32| {
        let divisor = if has == 0 { 0 } else { 2 * u128::from(has) + 1 };
        Claim { weight: weights[&key].into(), divisor, key }
    };
    let mut claims: BinaryHeap<Claim<K>> = out.keys().map(|k| claim(*k, 0)).collect();
    for _ in 0..seats {
        let Some(best) = claims.pop() else { break };
        let has = out.entry(best.key).or_default();
        *has += 1;
        claims.push(claim(best.key, *has));
    }
    out
}

/// The claim of a party when a seat is assigned.
struct Claim<K> {
    weight: u128,
    /// 0 for the first seat.
    divisor: u128,
    key: K,
}

impl<K: Ord> Ord for Claim<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_share = match (self.divisor, other.divisor) {
            (0, 0) => self.weight.cmp(&other.weight),
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            (own, its) => (self.weight * its).cmp(&(other.weight * own)),
        };
        by_share.then_with(|| other.key.cmp(&self.key))
    }
}

impl<K: Ord> PartialOrd for Claim<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord> PartialEq for Claim<K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K: Ord> Eq for Claim<K> {}

/// Fills a slot table by weight, moving as few slots as possible.
///
/// `previous` is the current owner of each slot; its length is the table's. Which slots move is decided by a hash of slot and server
/// (rendezvous), so that the same change always moves the same slots. All `None` if no server has a weight.
pub fn assign_slots(previous: &[Option<u16>], weights: &BTreeMap<u16, u64>) -> Vec<Option<u16>> {
    let quota = apportion(weights, previous.len() as u32);
    let score = |server: u16, slot: usize| mix(u64::from(server) << 32 | slot as u64);
    let mut slots: Vec<Option<u16>> = previous.iter().map(|s| s.filter(|s| quota.contains_key(s))).collect();
    let mut owned: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (i, server) in slots.iter().enumerate().filter_map(|(i, s)| Some((i, (*s)?))) {
        owned.entry(server).or_default().push(i);
    }
    // In no particular order: the taker of a slot depends on the draw alone.
    let mut missing = Vec::new();
    for (&server, &wanted) in &quota {
        let mut own = owned.remove(&server).unwrap_or_default();
        // It keeps those that a rendezvous hash would most likely give it.
        own.sort_by_key(|i| (std::cmp::Reverse(score(server, *i)), *i));
        for &i in own.iter().skip(wanted as usize) {
            slots[i] = None;
        }
        missing.push((server, wanted.saturating_sub(own.len() as u32)));
    }
    missing.retain(|(_, n)| *n > 0);
    for (i, slot) in slots.iter_mut().enumerate().filter(|(_, s)| s.is_none()) {
        // Weighted by the seats still missing, so that takers are spread evenly over the table.
        let taker = missing.iter().enumerate().max_by_key(|(_, (server, n))| {
            let draw = (score(*server, i) >> 32) * u64::from(*n);
            (draw, std::cmp::Reverse(*server))
        });
        let Some(at) = taker.map(|(at, _)| at) else { break };
        let (server, n) = &mut missing[at];
        *slot = Some(*server);
        *n -= 1;
        if *n == 0 {
            missing.swap_remove(at);
        }
    }
    slots
}

/// An order of devices in which each occurs by its weight and as evenly spaced as possible, and how far the share of any
/// device is off, as a part of the whole (0 unless the ring would be longer than `longest`).
///
/// Smooth weighted round robin: in every step each device gains its weight, the one with most goes next and pays the sum.
pub fn ring(weights: &[(u8, u32)], longest: u32) -> (Vec<u8>, f64) {
    let divisor = weights.iter().fold(0, |d, (_, w)| gcd(d, u64::from(*w))).max(1);
    let exact: BTreeMap<u8, u64> = weights.iter().map(|(slot, w)| (*slot, u64::from(*w) / divisor)).collect();
    let sum: u64 = exact.values().sum();
    let parts: BTreeMap<u8, u32> = if sum <= u64::from(longest) {
        exact.iter().map(|(slot, w)| (*slot, *w as u32)).collect()
    } else {
        apportion(&exact, longest)
    };
    let length: u32 = parts.values().sum();
    let error = exact
        .iter()
        .map(|(slot, w)| {
            let got = parts.get(slot).map_or(0.0, |n| f64::from(*n) / f64::from(length));
            (got - *w as f64 / sum as f64).abs()
        })
        .fold(0.0, f64::max);
    let mut credit: Vec<(u8, i64, i64)> = weights
        .iter()
        .filter_map(|(slot, _)| parts.get(slot).map(|n| (*slot, i64::from(*n), 0)))
        .filter(|(_, n, _)| *n > 0)
        .collect();
    let mut out = Vec::with_capacity(length as usize);
    for _ in 0..length {
        let mut best = 0;
        for i in 0..credit.len() {
            credit[i].2 += credit[i].1;
            if credit[i].2 > credit[best].2 {
                best = i;
            }
        }
        if let Some(c) = credit.get_mut(best) {
            c.2 -= i64::from(length);
            out.push(c.0);
        }
    }
    (out, error)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_wire::Random;

    fn weights(w: &[u64]) -> BTreeMap<u16, u64> {
        w.iter().enumerate().map(|(i, w)| (i as u16 + 1, *w)).collect()
    }

    fn fresh(w: &BTreeMap<u16, u64>) -> Vec<Option<u16>> {
        assign_slots(&[None; 256], w)
    }

    fn count(slots: &[Option<u16>], server: u16) -> usize {
        slots.iter().filter(|s| **s == Some(server)).count()
    }

    #[test]
    fn shares() {
        let check = |w: &[u64], seats, expected: &[u32]| {
            let got: Vec<u32> = apportion(&weights(w), seats).into_values().collect();
            assert_eq!(got, expected, "{w:?}");
        };
        check(&[1, 1], 256, &[128, 128]);
        check(&[5, 1], 6, &[5, 1]);
        check(&[1, 1, 1], 256, &[86, 85, 85]);
        check(&[1000, 1], 256, &[255, 1]);
        check(&[2, 0, 1], 256, &[171, 85]);
        check(&[0, 0], 256, &[]);
        check(&[1, 1, 1], 2, &[1, 1, 0]);
    }

    /// Random weights: all slots are filled, shares are right to 2 % of the whole.
    #[test]
    fn slots_follow_weights() {
        let mut random = Random::new(1);
        for _ in 0..200 {
            let w: Vec<u64> = (0..=random.below(12)).map(|_| 1 + random.below(100)).collect();
            let w = weights(&w);
            let slots = fresh(&w);
            let sum: u64 = w.values().sum();
            for (server, weight) in &w {
                let error = (count(&slots, *server) as f64 / 256.0 - *weight as f64 / sum as f64).abs();
                assert!(error < 0.02, "server {server} of {w:?} is off by {error}");
            }
            assert!(slots.iter().all(Option::is_some));
        }
    }

    /// Removing a server moves its slots only; adding it again takes only as many as it gets; a new weight moves only
    /// the difference.
    #[test]
    fn minimal_disruption() {
        let mut random = Random::new(2);
        for _ in 0..200 {
            let n = 2 + random.below(20);
            let w: BTreeMap<u16, u64> = (1..=n as u16).map(|i| (i, 1 + random.below(50))).collect();
            let before = fresh(&w);
            let gone = 1 + random.below(n) as u16;
            let mut less = w.clone();
            less.remove(&gone);
            let after = assign_slots(&before, &less);
            for (b, a) in before.iter().zip(&after) {
                assert!(a != &Some(gone) && (b == a || b == &Some(gone)));
            }
            let again = assign_slots(&after, &w);
            let moved = after.iter().zip(&again).filter(|(a, b)| a != b).count();
            assert_eq!(moved, count(&again, gone), "only the server that came back takes slots");
            assert_eq!(assign_slots(&again, &w), again, "nothing to do");
        }
    }

    /// The slots that a server takes are spread: no other server loses all its slots.
    #[test]
    fn takers_are_spread() {
        let slots = fresh(&weights(&[1, 1, 1, 1]));
        let after = assign_slots(&slots, &weights(&[1, 1, 1]));
        let mut inherited = [0; 4];
        for (b, a) in slots.iter().zip(&after) {
            if b == &Some(4) {
                inherited[usize::from(a.expect("filled"))] += 1;
            }
        }
        assert!(inherited[1..].iter().all(|n| (21..=22).contains(n)), "{inherited:?}");
        // And mixed, rather than in runs.
        let runs = slots.windows(2).filter(|w| w[0] == w[1]).count();
        assert!(runs < 100, "{runs} of 255 neighbours belong to the same server");
    }

    #[test]
    fn rings() {
        assert_eq!(ring(&[(0, 5), (1, 1)], 256).0, [0, 0, 0, 1, 0, 0]);
        assert_eq!(ring(&[(0, 50), (1, 10)], 256).0, [0, 0, 0, 1, 0, 0]);
        assert_eq!(ring(&[(0, 5), (3, 1), (2, 1)], 256).0, [0, 0, 3, 0, 2, 0, 0]);
        assert_eq!(ring(&[(0, 1), (1, 1)], 256), (vec![0, 1], 0.0));
        assert_eq!(ring(&[(4, 9)], 256).0, [4]);
        assert!(ring(&[], 256).0.is_empty());
        let (long, error) = ring(&[(0, 997), (1, 3)], 256);
        assert_eq!(long.len(), 256);
        assert!(error > 0.0 && error < 1.0 / 256.0, "{error}");
    }

    /// On random rings every device occurs by its weight, and gaps between its places are even.
    #[test]
    fn random_rings() {
        let mut random = Random::new(3);
        for _ in 0..300 {
            let w: Vec<(u8, u32)> =
                (0..=random.below(8)).map(|i| (i as u8, 1 + random.below(30) as u32)).collect();
            let sum: u32 = w.iter().map(|(_, w)| w).sum();
            let (ring, error) = ring(&w, MAX_RING);
            assert!(ring.len() <= MAX_RING as usize);
            for (slot, weight) in &w {
                let n = ring.iter().filter(|s| *s == slot).count();
                let share = n as f64 / ring.len() as f64;
                assert!((share - f64::from(*weight) / f64::from(sum)).abs() <= error + 1e-9, "{w:?} {slot}");
            }
        }
    }
}
