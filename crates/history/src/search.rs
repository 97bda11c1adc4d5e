//! The search for an order of the operations.

use pointsman_wire::random::mix;
use std::collections::{BTreeMap, BTreeSet};

/// An operation on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<I, O> {
    /// When it began.
    pub call: u64,
    /// Its argument.
    pub input: I,
    /// When it ended, and its result. `None`: no result was seen; it may have taken effect at any time after `call`, or never.
    pub result: Option<(u64, O)>,
}

/// What a sequential system does.
pub trait Specification {
    /// All that later operations depend on.
    type State: Clone;
    /// Argument of an operation.
    type Input;
    /// Result of an operation.
    type Output: PartialEq;

    /// The state at the beginning.
    fn start(&self) -> Self::State;

    /// Executes an operation. Its result is any of these, or nothing can be seen.
    fn step(&mut self, state: &Self::State, input: &Self::Input) -> (Self::State, Vec<Self::Output>);

    /// A number that is equal for equal states only.
    fn number(state: &Self::State) -> u128;
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order.
    Linearizable,
    /// There is none. No order explains the result of this operation together with those before it.
    Violation(usize),
    /// The search was ended after so many steps as were allowed.
    Undecided,
}

/// Ends of the list of events.
const HEAD: usize = 0;
const NONE: usize = usize::MAX;

/// The call or the return of an operation.
#[derive(Clone, Copy)]
struct Event {
    operation: usize,
    returns: bool,
}

/// The events by time, of operations that have no place in the order yet.
struct Events {
    all: Vec<Event>,
    next: Vec<usize>,
    previous: Vec<usize>,
    /// By operation: its call, and its return if it has one.
    places: Vec<(usize, usize)>,
}

impl Events {
    fn new<I, O>(operations: &[Operation<I, O>]) -> Self {
        let mut times: Vec<(u64, bool, usize)> = Vec::new();
        for (n, operation) in operations.iter().enumerate() {
            times.push((operation.call, false, n));
            times.extend(operation.result.as_ref().map(|(at, _)| (*at, true, n)));
        }
        // At equal times calls come first: the clock does not say which was earlier.
        times.sort_unstable();
        // The head is an event that is never met.
        let mut all = vec![Event { operation: NONE, returns: true }];
        let mut places = vec![(NONE, NONE); operations.len()];
        for (_, returns, operation) in times {
            let place = all.len();
            if returns {
                places[operation].1 = place
            } else {
                places[operation].0 = place
            }
            all.push(Event { operation, returns });
        }
        let count = all.len();
        let next = (1..=count).map(|n| if n == count { NONE } else { n }).collect();
        let previous = (0..count).map(|n| n.wrapping_sub(1)).collect();
        Events { all, next, previous, places }
    }

    fn unlink(&mut self, at: usize) {
        let (before, after) = (self.previous[at], self.next[at]);
        self.next[before] = after;
        if after != NONE {
            self.previous[after] = before;
        }
    }

    fn link(&mut self, at: usize) {
        let (before, after) = (self.previous[at], self.next[at]);
        self.next[before] = at;
        if after != NONE {
            self.previous[after] = at;
        }
    }

    /// Takes an operation out of the list.
    fn lift(&mut self, operation: usize) {
        let (call, end) = self.places[operation];
        self.unlink(call);
        if end != NONE {
            self.unlink(end);
        }
    }

    /// The reverse of the last [`Events::lift`].
    fn unlift(&mut self, operation: usize) {
        let (call, end) = self.places[operation];
        if end != NONE {
            self.link(end);
        }
        self.link(call);
    }
}

/// Looks for an order of the operations in which each takes effect between its beginning and its end, and the specification gives the
/// observed results. Gives up after `budget` attempts to place an
/// operation.
pub fn search<S: Specification>(
    specification: &mut S,
    operations: &[Operation<S::Input, S::Output>],
    mut budget: u64,
) -> Verdict {
    let mut steps = Steps { specification, operations, states: BTreeMap::new(), known: BTreeMap::new() };
    // Most histories have an order that an early search finds; only the last one shows that there is none. Where many operations have no
    // result, one of them mostly explains what the next result shows, and all orders of them are too many.
    let rows: &[usize] =
        if operations.iter().all(|o| o.result.is_some()) { &[] } else { &[1, 2, usize::MAX] };
    for row in rows {
        let mut part = if *row == usize::MAX { budget } else { budget / 2 };
        budget -= part;
        if explore(&mut steps, &mut part, Some(*row)) == Verdict::Linearizable {
            return Verdict::Linearizable;
        }
        budget += part;
    }
    explore(&mut steps, &mut budget, None)
}

/// What the specification does, asked once for each state and operation.
struct Steps<'a, S: Specification> {
    specification: &'a mut S,
    operations: &'a [Operation<S::Input, S::Output>],
    states: BTreeMap<u128, S::State>,
    /// By state and operation: the state after it, and whether it gives the observed result.
    known: BTreeMap<(u128, usize), (u128, bool)>,
}

impl<S: Specification> Steps<'_, S> {
    fn step(&mut self, state: u128, operation: usize) -> (u128, bool) {
        if let Some(known) = self.known.get(&(state, operation)) {
            return *known;
        }
        let Operation { input, result, .. } = &self.operations[operation];
        let (after, outputs) = self.specification.step(&self.states[&state], input);
        let number = S::number(&after);
        self.states.entry(number).or_insert(after);
        let fits = result.as_ref().is_none_or(|(_, observed)| outputs.contains(observed));
        self.known.insert((state, operation), (number, fits));
        (number, fits)
    }
}

/// The search. `row`: so many operations without a result may follow each other in the order, and of several that lead from a state to the same
/// state only the first is tried. `None`: all orders.
fn explore<S: Specification>(steps: &mut Steps<'_, S>, budget: &mut u64, row: Option<usize>) -> Verdict {
    let operations = steps.operations;
    let answered = |n: usize| operations[n].result.is_some();
    let mut events = Events::new(operations);
    let mut left = (0..operations.len()).filter(|n| answered(*n)).count();
    let start = steps.specification.start();
    let mut state = S::number(&start);
    steps.states.insert(state, start);
    // The operations that have a place, as the sum of their marks.
    let mut placed = 0u128;
    let mut seen: BTreeSet<(u128, u128)> = BTreeSet::new();
    // States reached from here by operations without a result.
    let mut reached: BTreeSet<(u128, u128, u128)> = BTreeSet::new();
    let mut stack: Vec<(usize, u128, usize)> = Vec::new();
    // Operations without a result that were placed last, one after the other.
    let mut unanswered = 0;
    let mut furthest = 0;
    let mut at = events.next[HEAD];
    // From each place on, operations with a result are tried first: mostly one of them comes next.
    let mut with_result = true;
    // While operations with results are left, the list has a return: the search meets it before the end.
    while left > 0 {
        let Event { operation, returns } = events.all[at];
        if returns && with_result {
            with_result = false;
            at = events.next[HEAD];
            continue;
        }
        if returns {
            furthest = furthest.max(at);
            let Some((operation, before, unanswered_before)) = stack.pop() else {
                return Verdict::Violation(events.all[furthest].operation);
            };
            (state, unanswered) = (before, unanswered_before);
            placed ^= mark(operation);
            left += usize::from(answered(operation));
            events.unlift(operation);
            with_result = answered(operation);
            at = events.next[events.places[operation].0];
            continue;
        }
        if answered(operation) != with_result || !with_result && row.is_some_and(|row| unanswered >= row) {
            at = events.next[at];
            continue;
        }
        if *budget == 0 {
            return Verdict::Undecided;
        }
        *budget -= 1;
        let (after, fits) = steps.step(state, operation);
        // Without effect and without a result: its place does not matter.
        let matters =
            with_result || after != state && (row.is_none() || reached.insert((placed, state, after)));
        if fits && matters && seen.insert((placed ^ mark(operation), after)) {
            stack.push((operation, state, unanswered));
            unanswered = if with_result { 0 } else { unanswered + 1 };
            state = after;
            placed ^= mark(operation);
            left -= usize::from(with_result);
            events.lift(operation);
            with_result = true;
            at = events.next[HEAD];
        } else {
            at = events.next[at];
        }
    }
    Verdict::Linearizable
}

/// A number for an operation: sums of different sets of operations differ, but for one chance in 2^128.
fn mark(operation: usize) -> u128 {
    u128::from(mix(operation as u64)) << 64 | u128::from(mix(!(operation as u64)))
}
