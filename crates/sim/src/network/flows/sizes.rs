//! How long flows are.

use crate::random::Stream;
use std::sync::Arc;

/// Bytes of a segment in the published workloads.
const SEGMENT: f64 = 1460.0;

/// Web search: size in segments, cumulative probability (Alizadeh and others, Data Center TCP, SIGCOMM 2010).
const WEB_SEARCH: [(f64, f64); 11] = [
    (6.0, 0.15),
    (13.0, 0.2),
    (19.0, 0.3),
    (33.0, 0.4),
    (53.0, 0.53),
    (133.0, 0.6),
    (667.0, 0.7),
    (1333.0, 0.8),
    (3333.0, 0.9),
    (6667.0, 0.97),
    (20_000.0, 1.0),
];

/// Data mining (Greenberg and others, VL2, SIGCOMM 2009).
const DATA_MINING: [(f64, f64); 8] = [
    (1.0, 0.5),
    (2.0, 0.6),
    (3.0, 0.7),
    (7.0, 0.8),
    (267.0, 0.9),
    (2107.0, 0.95),
    (66_667.0, 0.99),
    (666_667.0, 1.0),
];

/// A distribution of sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Sizes and their cumulative probabilities, both rising, up to 1. Between two of them it is linear; the first size has all of its
    /// probability. Never empty.
    Cdf(Arc<[(f64, f64)]>),
    /// Sizes and how often each comes. They are dealt like cards: as many flows as the sum of these numbers have exactly these
    /// sizes, in random order, then the next round begins. The sum is above 0.
    Cards(Arc<[(u64, u64)]>),
}

impl Sizes {
    /// The names that [`Sizes::named`] knows.
    pub const NAMES: [&'static str; 2] = ["web-search", "data-mining"];

    /// A published workload.
    pub fn named(name: &str) -> Option<Self> {
        let segments: &[(f64, f64)] = match name {
            "web-search" => &WEB_SEARCH,
            "data-mining" => &DATA_MINING,
            _ => return None,
        };
        Some(Sizes::Cdf(segments.iter().map(|(size, p)| (size * SEGMENT, *p)).collect()))
    }

    /// The mean in bytes.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::Cdf(points) => {
                let first = points[0];
                let parts = points.windows(2).map(|w| (w[1].1 - w[0].1) * (w[0].0 + w[1].0) / 2.0);
                first.0 * first.1 + parts.sum::<f64>()
            }
            Sizes::Cards(cards) => {
                let sum = |part: fn(&(u64, u64)) -> f64| cards.iter().map(part).sum::<f64>();
                sum(|(bytes, n)| *bytes as f64 * *n as f64) / sum(|(_, n)| *n as f64)
            }
        }
    }

    /// The size that a share `p` of all flows does not exceed, in bytes.
    pub fn quantile(&self, p: f64) -> u64 {
        match self {
            Sizes::Cdf(points) => {
                let at = points.partition_point(|(_, up_to)| *up_to < p).min(points.len() - 1);
                let (size, upper) = points[at];
                let Some((below, lower)) = at.checked_sub(1).map(|i| points[i]) else { return whole(size) };
                let share = ((p - lower) / (upper - lower)).min(1.0);
                whole(below + (size - below) * share)
            }
            Sizes::Cards(cards) => {
                let mut sorted = cards.to_vec();
                sorted.sort_unstable();
                let wanted = p * sorted.iter().map(|(_, n)| *n as f64).sum::<f64>();
                let mut seen = 0.0;
                let reached = sorted.iter().find(|(_, n)| {
                    seen += *n as f64;
                    seen >= wanted
                });
                reached.or(sorted.last()).map_or(1, |(bytes, _)| *bytes)
            }
        }
    }
}

fn whole(bytes: f64) -> u64 {
    (bytes.round() as u64).max(1)
}

/// Draws sizes.
#[derive(Debug)]
pub(super) struct Draws {
    sizes: Sizes,
    random: Stream,
    /// What is left of this round's cards.
    left: Vec<u64>,
}

impl Draws {
    pub fn new(sizes: Sizes, random: Stream) -> Self {
        Draws { sizes, random, left: Vec::new() }
    }

    /// The next flow's bytes, 1 or more.
    pub fn next(&mut self) -> u64 {
        if let Sizes::Cards(cards) = &self.sizes {
            if self.left.is_empty() {
                for (bytes, n) in cards.iter() {
                    self.left.extend((0..*n).map(|_| bytes));
                }
            }
            let at = self.random.below(self.left.len() as u64) as usize;
            return self.left.swap_remove(at);
        }
        let p = self.random.unit();
        self.sizes.quantile(p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Part;

    fn draws(sizes: &Sizes, n: usize) -> Vec<u64> {
        let mut draws = Draws::new(sizes.clone(), Stream::new(1, Part::Service, 0));
        (0..n).map(|_| draws.next()).collect()
    }

    /// Means and 90th percentiles of the published workloads, in segments.
    #[test]
    fn published_workloads() {
        for (name, mean, p90) in [("web-search", 1141.0, 3333.0), ("data-mining", 5117.0, 267.0)] {
            let sizes = Sizes::named(name).expect("a known name");
            assert_eq!((sizes.mean() / SEGMENT).round(), mean);
            assert_eq!(sizes.quantile(0.9), (p90 * SEGMENT) as u64);
            let drawn = draws(&sizes, 200_000);
            let sampled = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
            // Standard errors are 0.5 and 1.9 %.
            assert!((sampled / sizes.mean() - 1.0).abs() < 0.05, "{name}: {sampled}");
            let above = drawn.iter().filter(|s| **s > sizes.quantile(0.9)).count() as f64;
            assert!((above / drawn.len() as f64 - 0.1).abs() < 0.003, "{name}: {above}");
            let least = (sizes.quantile(0.0), drawn.iter().min().copied());
            assert_eq!(least.1, Some(least.0));
        }
        assert_eq!(Sizes::named("web"), None);
    }

    #[test]
    fn cards_are_dealt_evenly() {
        let sizes = Sizes::Cards(vec![(512, 24), (1024, 8)].into());
        assert_eq!(sizes.mean(), 640.0);
        assert_eq!((sizes.quantile(0.75), sizes.quantile(0.76)), (512, 1024));
        let drawn = draws(&sizes, 64);
        for round in drawn.chunks(32) {
            assert_eq!(round.iter().filter(|s| **s == 1024).count(), 8, "{round:?}");
        }
        assert_ne!(drawn[..32], drawn[32..]);
    }
}
