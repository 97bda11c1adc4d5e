//! A P4 program on the interpreter, as the specification of what packets do.

use crate::search::Specification;
use pointsman_compile::sources::Sources;
use pointsman_stf::{Rig, fill, parse};
use pointsman_v1model::{Output, Pipeline, SwitchConfig, SwitchState};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A packet: its port and its bytes.
pub type Packet = (u32, Vec<u8>);

/// A program that cannot be a specification.
#[derive(Debug)]
pub enum PlainError {
    /// It does not compile, or the switch refuses it.
    Program(String),
    /// The statements that fill its tables are wrong.
    Entries(String),
}

impl fmt::Display for PlainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlainError::Program(why) => write!(f, "the program of the history: {why}"),
            PlainError::Entries(why) => write!(f, "the entries of the history: {why}"),
        }
    }
}

impl Error for PlainError {}

/// A state of the program.
#[derive(Clone, Debug)]
pub struct State {
    saved: Arc<SwitchState>,
    number: u128,
}

/// A switch that runs the program, in a time that does not pass.
pub struct Plain {
    rig: Rig,
    start: State,
    /// The state in which the switch is.
    here: u128,
}

impl Plain {
    /// A switch with this program, whose tables are filled by these statements (`pointsman_stf`).
    ///
    /// # Errors
    /// The program does not run here, or depends on more than packets; or a statement does not fit it.
    pub fn new(source: &str, entries: &str) -> Result<Self, PlainError> {
        let compiled = pointsman_compile::compile("history.p4", source, &Sources::default(), &[])
            .map_err(|e| PlainError::Program(pointsman_compile::rendered(&e)))?;
        let mut rig = Rig::new(Arc::new(compiled.program), SwitchConfig::default())
            .map_err(|e| PlainError::Program(e.to_string()))?;
        if let Some(why) = unexplained(&rig) {
            return Err(PlainError::Program(format!("{why}, which a history does not have")));
        }
        let lines = parse(entries).map_err(|e| PlainError::Entries(e.to_string()))?;
        let now = rig.now;
        fill(rig.state(), now, &lines).map_err(|e| PlainError::Entries(e.to_string()))?;
        let start = state_of(&rig);
        Ok(Plain { here: start.number, rig, start })
    }
}

/// What the program depends on besides packets and tables.
fn unexplained(rig: &Rig) -> Option<&'static str> {
    let program = rig.program();
    if rig.switch.pipeline().is_some_and(Pipeline::sees_time) {
        return Some("it reads the time");
    }
    if program.externs.iter().any(|e| ["meter", "direct_meter"].contains(&e.object.as_str())) {
        return Some("it has a meter, which depends on the time");
    }
    let random = program.extern_fns.iter().any(|f| f.object.is_none() && f.name == "random");
    random.then_some("it uses random numbers")
}

fn state_of(rig: &Rig) -> State {
    match rig.switch.export(rig.now) {
        Some(saved) => State { number: saved.hash(), saved: Arc::new(saved) },
        None => unreachable!("a rig always has a program"),
    }
}

impl Specification for Plain {
    type State = State;
    type Input = Packet;
    type Output = Packet;

    fn start(&self) -> State {
        self.start.clone()
    }

    fn step(&mut self, state: &State, (port, bytes): &Packet) -> (State, Vec<Packet>) {
        if self.here != state.number {
            let restored = self.rig.switch.restore(self.rig.now, &state.saved);
            assert!(restored.is_ok(), "a state that this switch gave: {restored:?}");
        }
        let out = self.rig.send(*port, bytes);
        let after = state_of(&self.rig);
        self.here = after.number;
        let packets = out.into_iter().filter_map(|output| match output {
            Output::Port(port, bytes) => Some((port, bytes)),
            _ => None,
        });
        (after, packets.collect())
    }

    fn number(state: &State) -> u128 {
        state.number
    }
}
