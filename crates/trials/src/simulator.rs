//! The simulator of racks with native code. It is generic over the executor, and compiled for this one here, once for all who simulate.

use pointsman_balance::config::Program;
use pointsman_balance::program::ServerDevices;
use pointsman_decide::Weights;
use pointsman_engine::Engine;
use pointsman_node::controller::{self, ProgramError};
use pointsman_sim::outcome::LearnStep;
use pointsman_sim::{DataPlane, Outcome, Question, Scenario, StartError};
use std::sync::Arc;

/// Simulates racks that run one program.
pub struct Simulator(DataPlane<Engine>);

impl Simulator {
    /// Compiles the program, for racks whose servers have at most so many devices.
    ///
    /// # Errors
    /// It cannot be read, or does not compile.
    pub fn new(program: &Program, devices: ServerDevices) -> Result<Self, ProgramError> {
        let (program, compiled) = controller::program(program, devices.define().as_slice())?;
        Ok(Simulator(DataPlane::new(program, Arc::new(compiled))))
    }

    /// What identifies this simulation among the results in a file.
    pub fn fingerprint(&self, scenario: &Scenario) -> String {
        scenario.fingerprint(&self.0.program.device_config)
    }

    /// Runs one simulation to its end.
    ///
    /// # Errors
    /// The program is not a balancer, or the rack does not come up.
    pub fn run(&self, scenario: &Arc<Scenario>, seed: u64) -> Result<Outcome, StartError> {
        pointsman_sim::run(scenario, &self.0, seed, None)
    }

    /// Begins one that stops at every decision.
    ///
    /// # Errors
    /// As of [`Simulator::run`].
    pub fn session(&self, scenario: &Arc<Scenario>, seed: u64) -> Result<Session, StartError> {
        pointsman_sim::Session::start(scenario, &self.0, seed, None).map(Session)
    }
}

/// A simulation that stops at every decision.
pub struct Session(pointsman_sim::Session<Engine>);

impl Session {
    /// Continues to the next decision, or to the end.
    pub fn advance(&mut self) -> Option<Question> {
        self.0.advance()
    }

    /// The decision: weights from now on. `reward`, if given, goes into the results.
    pub fn decide(&mut self, question: &Question, weights: Weights, reward: Option<f64>) {
        self.0.decide(question, weights, reward);
    }

    /// The last decision, and the oracle's verdict on it.
    pub fn last_decision(&self) -> Option<&LearnStep> {
        self.0.last_decision()
    }

    /// The results.
    pub fn finish(self) -> Outcome {
        self.0.finish()
    }
}
