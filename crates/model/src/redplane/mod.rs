//! RedPlane: two switches that run the compiled library on the interpreter, the store, and clients (docs/redplane.md).
//!
//! Nothing of the protocol is described here once more. A step of a switch is a step of its program, a step of the store is a step of
//! [`Store`](pointsman_store::Store); each is made once for equal states and remembered.

mod history;
mod interned;
mod letter;
mod mutations;
mod nodes;
mod program;
mod scope;
mod settle;
mod sketch;
mod stores;
mod time;
mod trace;
mod world;
mod wrong;

pub use mutations::{Change, MUTATIONS, Mutation};
pub use program::{Kind, ProgramError};
pub use scope::{Clocks, DEFAULT, SCOPES, Scope};
pub use wrong::Wrong;

use crate::search::search;
use program::{App, plain, program};
use world::World;

/// States at most: each takes some 100 bytes.
const MOST: u64 = 60_000_000;

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Different states.
    pub states: u64,
    /// Actions in all of them.
    pub steps: u64,
    /// Actions on the longest of the shortest ways to a state.
    pub depth: u32,
    /// Steps of the interpreter and of the store; the others were known.
    pub executions: u64,
    /// Whether these are all states of the scope.
    pub complete: bool,
    /// What is wrong, and a shortest way to it, line by line.
    pub violation: Option<(Wrong, Vec<String>)>,
}

/// Searches a scope, with a rule switched off if one is given. `progress` is called now and then with the number of states so far.
///
/// # Errors
/// The program does not run, or does not have the text that the mutation replaces.
pub fn check(
    scope: &Scope,
    mutation: Option<&Mutation>,
    progress: impl FnMut(u64),
) -> Result<Outcome, ProgramError> {
    let change = mutation.map(|m| m.change);
    let changes: Vec<(&str, &str)> = change.and_then(Change::library).into_iter().collect();
    let defines =
        if scope.ipv6 { format!("#define REDPLANE_IPV6\n{}", scope.defines) } else { scope.defines.into() };
    let app = App::new(scope.kind, scope.ipv6, program(scope.kind, &defines, &changes)?)?;
    let mut world = World::new(&app, scope, plain(scope.kind)?, change);
    let found = search(&mut world, MOST, progress);
    let violation = found.violation.map(|v| {
        let lines = world.trace(&v.start, &v.actions);
        (v.wrong, lines)
    });
    Ok(Outcome {
        states: found.states,
        steps: found.steps,
        depth: found.depth,
        executions: world.executions,
        complete: found.complete,
        violation,
    })
}
