//! Lower bounds of the number of stages.

use super::Problem;
use crate::resource::{Amounts, Resource};
use std::collections::BTreeSet;

/// No placement has fewer stages: by chains of dependencies, with the stages that large tables need, and by sums of each resource
/// over all nodes with at least so many stages before and behind them.
pub(super) fn bound(problem: &Problem) -> u32 {
    let n = problem.costs.len();
    let chain = (0..n).map(|i| problem.head[i] + problem.length[i] + problem.tail[i]).max().unwrap_or(0);
    let all: Vec<Amounts> = problem.costs.iter().map(|c| c.of(c.units)).collect();
    let heads: BTreeSet<u32> = problem.head.iter().copied().collect();
    let mut by_tail: Vec<usize> = (0..n).collect();
    by_tail.sort_by_key(|i| std::cmp::Reverse(problem.tail[*i]));
    let mut least = chain;
    for head in heads {
        let inside = by_tail.iter().filter(|i| problem.head[**i] >= head);
        least = least.max(head + sums(problem, inside.map(|i| (problem.tail[*i], all[*i]))));
    }
    least
}

/// Stages for what nodes take, given with the stages behind each, most stages first.
pub(super) fn sums(problem: &Problem, nodes: impl Iterator<Item = (u32, Amounts)>) -> u32 {
    let mut sum = Amounts::default();
    let mut least = 0;
    for (tail, amounts) in nodes {
        sum = sum.plus(&amounts);
        for r in Resource::ALL {
            // A node that takes something of what a stage does not have was cut down before.
            if sum[r] > 0 && problem.stage[r] > 0 {
                least = least.max(sum[r].div_ceil(problem.stage[r]) as u32 + tail);
            }
        }
    }
    least
}
