//! All states that a system can reach, breadth first: the first violation has a shortest trace.

use std::collections::HashMap;
use std::hash::Hash;

/// A system whose states are values.
pub trait Model {
    /// All that the future depends on. Equal states have equal futures.
    type State: Clone + Eq + Hash;
    /// What may happen.
    type Action: Copy;
    /// What must not be.
    type Wrong;

    /// The states at the beginning.
    fn starts(&mut self) -> Vec<Self::State>;

    /// What may happen in a state.
    fn actions(&mut self, state: &Self::State, out: &mut Vec<Self::Action>);

    /// The state after an action. `None`: the same state, or one that is left out because another one has all of its futures.
    ///
    /// # Errors
    /// The action itself shows what must not be.
    fn step(&mut self, state: &Self::State, action: Self::Action)
    -> Result<Option<Self::State>, Self::Wrong>;

    /// Whether a state may be. Called once for each state.
    ///
    /// # Errors
    /// It must not be.
    fn judge(&mut self, state: &Self::State) -> Result<(), Self::Wrong>;
}

/// A violation, and how it came about.
pub struct Violation<M: Model> {
    /// The state at the beginning.
    pub start: M::State,
    /// What happened from there on. No shorter sequence leads to a violation.
    pub actions: Vec<M::Action>,
    /// What is wrong after the last action.
    pub wrong: M::Wrong,
}

/// The result of a search.
pub struct Found<M: Model> {
    /// Different states.
    pub states: u64,
    /// Actions in all of them.
    pub steps: u64,
    /// Actions on the longest of the shortest ways to a state.
    pub depth: u32,
    /// Whether these are all states. Not if there is a violation, nor if there are more than the limit.
    pub complete: bool,
    /// The first violation.
    pub violation: Option<Violation<M>>,
}

/// States that were reached, in the order in which they were.
struct Reached<M: Model> {
    numbers: HashMap<M::State, u32>,
    states: Vec<M::State>,
    /// Where each state was first reached from. Those at the beginning have none.
    from: Vec<Option<(u32, M::Action)>>,
}

impl<M: Model> Reached<M> {
    /// Notes a state; whether it is new.
    fn add(&mut self, state: M::State, from: Option<(u32, M::Action)>) -> bool {
        let number = self.states.len() as u32;
        let new = *self.numbers.entry(state.clone()).or_insert(number) == number;
        if new {
            self.states.push(state);
            self.from.push(from);
        }
        new
    }

    /// The violation that `last` leads to from a state.
    fn violation(&self, mut number: u32, last: Option<M::Action>, wrong: M::Wrong) -> Violation<M> {
        let mut actions: Vec<M::Action> = last.into_iter().collect();
        while let Some((before, action)) = self.from[number as usize] {
            actions.push(action);
            number = before;
        }
        actions.reverse();
        Violation { start: self.states[number as usize].clone(), actions, wrong }
    }
}

/// Searches all states, but not more than `most` (at most 2^32). `progress` is called now and then with their number so far.
pub fn search<M: Model>(model: &mut M, most: u64, mut progress: impl FnMut(u64)) -> Found<M> {
    let mut reached = Reached::<M> { numbers: HashMap::new(), states: Vec::new(), from: Vec::new() };
    let mut found = Found { states: 0, steps: 0, depth: 0, complete: false, violation: None };
    for start in model.starts() {
        reached.add(start, None);
    }
    let mut actions = Vec::new();
    // States before `ends` are at most `found.depth` actions from the beginning.
    let (mut at, mut ends) = (0, reached.states.len());
    while at < reached.states.len() {
        if at == ends {
            found.depth += 1;
            ends = reached.states.len();
        }
        if at.is_multiple_of(4096) {
            progress(reached.states.len() as u64);
        }
        let state = reached.states[at].clone();
        let number = at as u32;
        at += 1;
        let mut wrong = model.judge(&state).err().map(|wrong| (None, wrong));
        if wrong.is_none() {
            actions.clear();
            model.actions(&state, &mut actions);
            for action in &actions {
                found.steps += 1;
                match model.step(&state, *action) {
                    Ok(Some(next)) => {
                        reached.add(next, Some((number, *action)));
                    }
                    Ok(None) => {}
                    Err(why) => {
                        wrong = Some((Some(*action), why));
                        break;
                    }
                }
            }
        }
        found.states = reached.states.len() as u64;
        if let Some((last, wrong)) = wrong {
            found.violation = Some(reached.violation(number, last, wrong));
            return found;
        }
        if found.states > most {
            return found;
        }
    }
    found.complete = true;
    found
}
