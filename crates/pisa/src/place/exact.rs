//! Branch and bound over stages: every maximal way to fill a stage, the first stage first.
//!
//! A stage is filled maximally if no node that may be in it, and is not complete, has room for one more unit. Others need not
//! be looked at: to bring a unit forward never takes more of any stage.

use super::bound::sums;
use super::{Part, Placement, Problem};
use crate::resource::Amounts;
use std::cmp::Reverse;

/// What was decided on the way down, to be undone on the way up.
enum Step {
    /// The next stage, and what was left of the one before.
    Stage { free: Amounts },
    /// A node, by its place in the order, with what was free before and the last stage with a part of it.
    Node { at: usize, units: u64, free: Amounts, last: u32 },
}

enum Next {
    Decide(usize),
    Back,
}

struct Search<'a> {
    problem: &'a Problem,
    /// Nodes behind those that they depend on, those with the longest chain behind them first.
    order: Vec<usize>,
    /// Nodes by the chain behind them, longest first.
    by_tail: Vec<usize>,
    best: Placement,
    lower_bound: u32,
    steps: u64,
    // The state on the way down.
    stage: u32,
    free: Amounts,
    left: Vec<u64>,
    last: Vec<u32>,
    parts: Vec<Part>,
    path: Vec<Step>,
}

/// Looks for a placement with fewer stages than `best`. Returns the best one known and what is now the lower bound: that of
/// the placement if the search came to its end within `budget` steps.
pub(super) fn improve(problem: &Problem, best: Placement, lower_bound: u32, budget: u64) -> (Placement, u32) {
    if best.used <= lower_bound {
        return (best, lower_bound);
    }
    let n = problem.costs.len();
    let mut by_tail: Vec<usize> = (0..n).collect();
    by_tail.sort_by_key(|i| (Reverse(problem.tail[*i]), *i));
    let mut search = Search {
        problem,
        order: order(problem),
        by_tail,
        best,
        lower_bound,
        steps: budget,
        stage: 0,
        free: problem.stage,
        left: problem.costs.iter().map(|c| c.units).collect(),
        last: vec![0; n],
        parts: Vec::new(),
        path: Vec::new(),
    };
    search.run();
    let proved = search.steps > 0;
    let used = search.best.used;
    (search.best, if proved { used } else { lower_bound })
}

fn order(problem: &Problem) -> Vec<usize> {
    let mut position = vec![0; problem.costs.len()];
    problem.order.iter().enumerate().for_each(|(p, i)| position[*i] = p);
    let mut order = problem.order.clone();
    // A node's chain is at least as long as those of nodes that depend on it.
    order.sort_by_key(|i| (Reverse(problem.tail[*i] + problem.length[*i]), position[*i]));
    order
}

impl Search<'_> {
    fn done(&self) -> bool {
        self.steps == 0 || self.best.used <= self.lower_bound
    }

    /// Whether a node may have a part in the current stage.
    fn may(&self, node: usize) -> bool {
        let after = |(a, d): &(usize, u32)| self.left[*a] == 0 && self.last[*a] + d <= self.stage;
        self.left[node] > 0 && self.problem.before[node].iter().all(after)
    }

    /// The fewest stages of all placements that continue the current one, with nothing in the current stage yet.
    fn bound(&self) -> u32 {
        let p = self.problem;
        let mut first = vec![self.stage; self.left.len()];
        let mut least = 0;
        for i in &p.order {
            let length = if self.left[*i] > 0 {
                let length = p.costs[*i].stages(self.left[*i], &p.stage);
                least = least.max(first[*i] + length + p.tail[*i]);
                length
            } else {
                first[*i] = self.last[*i];
                1
            };
            for (j, d) in &p.after[*i] {
                first[*j] = first[*j].max(first[*i] + length - 1 + d);
            }
        }
        let left = self.by_tail.iter().filter(|i| self.left[**i] > 0);
        least.max(self.stage + sums(p, left.map(|i| (p.tail[*i], p.costs[*i].of(self.left[*i])))))
    }

    /// Goes through all ways to fill stages, without recursion.
    fn run(&mut self) {
        let mut next = if self.promises() { Next::Decide(0) } else { Next::Back };
        while !self.done() {
            next = match next {
                Next::Decide(position) => self.decide(position),
                Next::Back => match self.path.pop() {
                    None => return,
                    Some(Step::Stage { free }) => {
                        self.stage -= 1;
                        self.free = free;
                        Next::Back
                    }
                    Some(Step::Node { at, units, free, last }) => {
                        let node = self.order[at];
                        if units == 0 {
                            continue;
                        }
                        self.parts.pop();
                        self.left[node] += units;
                        self.last[node] = last;
                        self.free = free;
                        let fewer = if self.problem.costs[node].whole { 0 } else { units - 1 };
                        self.put(at, fewer)
                    }
                },
            };
        }
    }

    /// Whether placements that continue the current one may be better than the best; a complete one is noted.
    fn promises(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(self.left.len() as u64);
        if self.left.iter().any(|l| *l > 0) {
            return self.bound() < self.best.used;
        }
        // The last stage has something, because each one is filled maximally.
        if self.stage < self.best.used {
            self.best = Placement { parts: self.parts.clone(), used: self.stage };
        }
        false
    }

    /// Decides on the next node from `position` on that may be in the current stage: as much as fits first.
    fn decide(&mut self, position: usize) -> Next {
        let rest = &self.order[position..];
        let found = rest.iter().position(|i| self.may(*i));
        self.steps = self.steps.saturating_sub(1 + found.unwrap_or(rest.len()) as u64);
        let Some(skipped) = found else { return self.next_stage() };
        let node = self.order[position + skipped];
        let units = self.problem.costs[node].most(self.left[node], &self.free);
        self.put(position + skipped, units)
    }

    /// Puts so many units of a node into the current stage.
    fn put(&mut self, at: usize, units: u64) -> Next {
        let node = self.order[at];
        self.path.push(Step::Node { at, units, free: self.free, last: self.last[node] });
        if units > 0 {
            self.free = self.free.minus(&self.problem.costs[node].of(units));
            self.left[node] -= units;
            self.last[node] = self.stage;
            self.parts.push(Part { node, stage: self.stage, units });
        }
        Next::Decide(at + 1)
    }

    /// Continues with the next stage, if this one is filled maximally.
    fn next_stage(&mut self) -> Next {
        let more = |i: &usize| {
            self.may(*i) && {
                let here =
                    self.parts.iter().rev().take_while(|p| p.stage == self.stage).find(|p| p.node == *i);
                let units = here.map_or(0, |p| p.units);
                let cost = &self.problem.costs[*i];
                let free = if units > 0 { self.free.plus(&cost.of(units)) } else { self.free };
                cost.most(self.left[*i] + units, &free) > units
            }
        };
        if self.order.iter().any(more) {
            return Next::Back;
        }
        self.path.push(Step::Stage { free: self.free });
        self.stage += 1;
        self.free = self.problem.stage;
        if self.promises() { Next::Decide(0) } else { Next::Back }
    }
}
