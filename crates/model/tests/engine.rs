//! The engine against a search of its own of random graphs, which knows no queue.

use pointsman_model::{Model, search};
use pointsman_wire::Random;

/// A graph: successors of each state. `bad` must not be reached.
struct Graph {
    edges: Vec<Vec<usize>>,
    starts: Vec<usize>,
    bad: Vec<bool>,
}

impl Graph {
    fn random(random: &mut Random) -> Graph {
        let n = 1 + random.below(40) as usize;
        let mut pick = |most: usize| random.below(most as u64) as usize;
        let edges = (0..n).map(|_| (0..pick(4)).map(|_| pick(n)).collect()).collect();
        let starts = (0..1 + pick(2)).map(|_| pick(n)).collect();
        let bad = (0..n).map(|_| pick(n) == 0).collect();
        Graph { edges, starts, bad }
    }

    /// The least number of edges from a start to each state: relaxed until nothing changes.
    fn distances(&self) -> Vec<Option<usize>> {
        let mut far = vec![None; self.edges.len()];
        self.starts.iter().for_each(|s| far[*s] = Some(0));
        loop {
            let mut changed = false;
            for (from, edges) in self.edges.iter().enumerate() {
                let Some(at) = far[from] else { continue };
                for to in edges {
                    if far[*to].is_none_or(|known| known > at + 1) {
                        far[*to] = Some(at + 1);
                        changed = true;
                    }
                }
            }
            if !changed {
                return far;
            }
        }
    }
}

impl Model for Graph {
    type State = usize;
    type Action = usize;
    type Wrong = usize;

    fn starts(&mut self) -> Vec<usize> {
        self.starts.clone()
    }

    fn actions(&mut self, state: &usize, out: &mut Vec<usize>) {
        out.extend(0..self.edges[*state].len());
    }

    fn step(&mut self, state: &usize, action: usize) -> Result<Option<usize>, usize> {
        Ok(Some(self.edges[*state][action]).filter(|to| to != state))
    }

    fn judge(&mut self, state: &usize) -> Result<(), usize> {
        if self.bad[*state] { Err(*state) } else { Ok(()) }
    }
}

#[test]
fn searches_equal_those_of_another_algorithm() {
    let mut random = Random::new(17);
    let mut violations = 0;
    for _ in 0..2_000 {
        let mut graph = Graph::random(&mut random);
        let far = graph.distances();
        let nearest = (0..far.len()).filter(|n| graph.bad[*n]).filter_map(|n| far[n]).min();
        let found = search(&mut graph, u64::MAX, |_| {});
        assert_eq!(found.complete, nearest.is_none());
        match found.violation {
            Some(violation) => {
                violations += 1;
                assert_eq!(Some(violation.actions.len()), nearest);
                assert!(graph.starts.contains(&violation.start));
                let end = violation.actions.iter().fold(violation.start, |at, edge| graph.edges[at][*edge]);
                assert_eq!((end, graph.bad[end]), (violation.wrong, true));
            }
            None => {
                let reachable: Vec<usize> = far.iter().filter_map(|f| *f).collect();
                assert_eq!(found.states, reachable.len() as u64);
                assert_eq!(Some(found.depth as usize), reachable.into_iter().max());
            }
        }
    }
    assert!((500..1_900).contains(&violations), "{violations}");
}

#[test]
fn a_limit_ends_the_search() {
    let edges = (0..100).map(|n| vec![(n + 1) % 100]).collect();
    let mut line = Graph { edges, starts: vec![0], bad: vec![false; 100] };
    let found = search(&mut line, 10, |_| {});
    assert!(!found.complete && found.violation.is_none() && found.states < 20);
}
