//! What was received out of order, as ranges of sequence numbers.

use crate::segment::{SACK_BLOCKS, Sack};

/// Ranges in the order of their numbers: begin, and one after the last. They neither touch nor overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reassembly {
    ranges: Vec<(u64, u64)>,
    /// A number in each of the ranges that changed last, the latest first.
    recent: [u64; SACK_BLOCKS],
}

/// What happened to received numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// At least some of them are new. The part that was there before, if there was.
    New(Option<(u64, u64)>),
    /// All of them were there before.
    Duplicate,
    /// There are too many ranges.
    NoRoom,
}

impl Reassembly {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// One after the highest number.
    pub fn end(&self) -> Option<u64> {
        self.ranges.last().map(|r| r.1)
    }

    /// Adds the numbers from `from` to before `to`, with `most` ranges at most.
    pub fn insert(&mut self, from: u64, to: u64, most: usize) -> Placed {
        let first = self.ranges.partition_point(|r| r.1 < from);
        let after = first + self.ranges[first..].partition_point(|r| r.0 <= to);
        let met = &self.ranges[first..after];
        let overlap = met.iter().map(|r| (r.0.max(from), r.1.min(to))).find(|o| o.0 < o.1);
        let placed = match (met, overlap) {
            ([], _) if self.ranges.len() >= most => return Placed::NoRoom,
            (_, Some(all)) if all == (from, to) => Placed::Duplicate,
            (_, part) => Placed::New(part),
        };
        let joined = met.iter().fold((from, to), |j, r| (j.0.min(r.0), j.1.max(r.1)));
        self.ranges.splice(first..after, [joined]);
        let at = self.recent.iter().position(|n| (joined.0..joined.1).contains(n));
        self.recent[..=at.unwrap_or(SACK_BLOCKS - 1)].rotate_right(1);
        self.recent[0] = from;
        placed
    }

    /// Takes the first range if it begins at `next` or below, and returns its end.
    pub fn take(&mut self, next: u64) -> Option<u64> {
        let end = self.ranges.first().filter(|r| r.0 <= next)?.1;
        self.ranges.remove(0);
        Some(end)
    }

    /// Adds the ranges as blocks, those that changed last first (RFC 2018, section 4), up to `most` blocks in all.
    pub fn report(&self, sack: &mut Sack, most: usize) {
        let mut told = [None; SACK_BLOCKS];
        for (k, n) in self.recent.iter().enumerate() {
            let index = self.ranges.partition_point(|r| r.1 <= *n);
            let Some(range) = self.ranges.get(index).filter(|r| r.0 <= *n) else { continue };
            if sack.blocks().len() < most && !told.contains(&Some(index)) {
                sack.push((range.0 as u32, range.1 as u32));
                told[k] = Some(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_wire::Random;

    fn blocks(it: &Reassembly, most: usize) -> Vec<(u32, u32)> {
        let mut sack = Sack::default();
        it.report(&mut sack, most);
        sack.blocks().to_vec()
    }

    #[test]
    fn ranges_join() {
        let mut it = Reassembly::default();
        assert_eq!(it.insert(100, 200, 9), Placed::New(None));
        assert_eq!(it.insert(300, 400, 9), Placed::New(None));
        assert_eq!(it.insert(120, 200, 9), Placed::Duplicate);
        assert_eq!(blocks(&it, 4), [(100, 200), (300, 400)]);
        assert_eq!(it.insert(350, 450, 9), Placed::New(Some((350, 400))));
        assert_eq!(blocks(&it, 4), [(300, 450), (100, 200)]);
        assert_eq!(it.insert(500, 600, 2), Placed::NoRoom);
        assert_eq!(it.insert(200, 300, 2), Placed::New(None));
        assert_eq!(blocks(&it, 4), [(100, 450)]);
        (0..6).for_each(|k| assert_eq!(it.insert(1000 + 100 * k, 1050 + 100 * k, 9), Placed::New(None)));
        assert_eq!(blocks(&it, 3), [(1500, 1550), (1400, 1450), (1300, 1350)]);
        assert_eq!(blocks(&it, 4).len(), 4);
        assert_eq!((it.take(99), it.take(100), it.take(450)), (None, Some(450), None));
    }

    #[test]
    fn any_order_gives_the_same_as_marking_numbers() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let (mut it, mut marks) = (Reassembly::default(), [false; 400]);
            for _ in 0..60 {
                let from = random.below(380);
                let to = from + 1 + random.below(20);
                let all = marks[from as usize..to as usize].iter().all(|m| *m);
                let none = !marks[from as usize..to as usize].contains(&true);
                match it.insert(from, to, 1000) {
                    Placed::Duplicate => assert!(all),
                    Placed::New(part) => assert!(!all && part.is_none() == none),
                    Placed::NoRoom => panic!("there is room"),
                }
                marks[from as usize..to as usize].fill(true);
                let mut ranged = [false; 400];
                for r in &it.ranges {
                    ranged[r.0 as usize..r.1 as usize].fill(true);
                }
                assert_eq!(ranged, marks, "seed {seed}");
                assert!(it.ranges.windows(2).all(|w| w[0].1 < w[1].0), "{it:?}");
                assert_eq!(
                    blocks(&it, 4)[0],
                    it.ranges
                        .iter()
                        .find(|r| r.0 <= from && to <= r.1)
                        .map(|r| (r.0 as u32, r.1 as u32))
                        .unwrap()
                );
            }
        }
    }
}
