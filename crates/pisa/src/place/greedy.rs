//! List heuristics: nodes in an order of priority, each into the first stages that have room, as in Jose et al., "Compiling
//! Packet Programs to Reconfigurable Switches" (NSDI 2015), section 5.

use super::{Part, Placement, Problem};
use crate::resource::Resource;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The best placement by any of the heuristics.
pub(super) fn best(problem: &Problem) -> Placement {
    let n = problem.costs.len();
    let memory = |i: usize| {
        let all = problem.costs[i].of(problem.costs[i].units);
        // In thousandths of a stage.
        let share = |r: Resource| all[r].saturating_mul(1000) / problem.stage[r].max(1);
        share(Resource::Sram).max(share(Resource::Tcam))
    };
    // By the length of the chain behind a node (FFL), by size (FFD), by both (FFLS).
    let orders: [Vec<(u64, u64)>; 3] = [
        (0..n).map(|i| (u64::from(problem.tail[i]), 0)).collect(),
        (0..n).map(|i| (memory(i), u64::from(problem.tail[i]))).collect(),
        (0..n).map(|i| (u64::from(problem.tail[i] + problem.length[i]), memory(i))).collect(),
    ];
    let all = orders.iter().map(|priority| first_fit(problem, priority));
    all.min_by_key(|p| p.used).unwrap_or_default()
}

/// Takes the node of highest priority among those whose predecessors are placed, and fills stages with it from the first one
/// that it may be in.
fn first_fit(problem: &Problem, priority: &[(u64, u64)]) -> Placement {
    let n = problem.costs.len();
    let mut waits: Vec<usize> = problem.before.iter().map(Vec::len).collect();
    let key = |i: usize| (Reverse(priority[i]), i);
    let mut ready: BTreeSet<_> = (0..n).filter(|i| waits[*i] == 0).map(key).collect();
    let mut last = vec![0; n];
    let mut free = Vec::new();
    let mut parts = Vec::new();
    while let Some((_, node)) = ready.pop_first() {
        let mut stage = problem.before[node].iter().map(|(a, d)| last[*a] + d).max().unwrap_or(0);
        let mut left = problem.costs[node].units;
        loop {
            if free.len() <= stage as usize {
                free.resize(stage as usize + 1, problem.stage);
            }
            let room = &mut free[stage as usize];
            let units = problem.costs[node].most(left, room);
            if units > 0 {
                *room = room.minus(&problem.costs[node].of(units));
                parts.push(Part { node, stage, units });
                left -= units;
            }
            if left == 0 {
                break;
            }
            stage += 1;
        }
        last[node] = stage;
        for (after, _) in &problem.after[node] {
            waits[*after] -= 1;
            if waits[*after] == 0 {
                ready.insert(key(*after));
            }
        }
    }
    parts.sort_by_key(|p| p.stage);
    Placement { parts, used: free.len() as u32 }
}
