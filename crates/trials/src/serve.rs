//! `pointsman sim --serve`: a simulation that gets weights from another program, as JSON lines over standard input and output.
//!
//! Every input line is an object with one field, every output line answers one; docs/simulator.md has the protocol.

use super::{Session, Simulator};
use pointsman_decide::Weights;
use pointsman_sim::scenario::LearnModel;
use pointsman_sim::{Question, Scenario, StartError};
use serde_json::{Value, json};
use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

/// Version of the protocol.
const PROTOCOL: u64 = 1;

/// An episode that waits for a decision.
struct Episode {
    session: Session,
    question: Question,
}

/// Why a scenario is not served.
#[derive(Debug)]
pub enum ServeError {
    /// The scenario has no learner.
    NoLearner,
    /// The scenario's learner has several weights.
    Classes,
    /// The input fails.
    Read(io::Error),
    /// The output fails.
    Write(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("--serve: ")?;
        match self {
            ServeError::NoLearner => f.write_str(
                "the scenario has no table [learn], which defines the decision points: add one",
            ),
            ServeError::Classes => f.write_str(
                "the scenario has different classes of servers, but --serve decides one weight: write learn.per_class = false",
            ),
            ServeError::Read(e) => write!(f, "cannot read: {e}"),
            ServeError::Write(e) => write!(f, "cannot write: {e}"),
        }
    }
}

impl Error for ServeError {}

/// What is wrong with a line, or with what it asks for.
#[derive(Debug)]
enum AskError {
    NotJson(serde_json::Error),
    /// Not an object with one field.
    Form,
    /// No request has this name.
    Unknown(String),
    Seed,
    /// The greatest weight.
    Weight(u32),
    NoEpisode,
    NoDecision,
    Start(StartError),
    Outcome(serde_json::Error),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KNOWN: &str =
            r#"write {"describe": {}}, {"reset": {"seed": N}}, {"act": {"weight": N}} or {"close": {}}"#;
        match self {
            AskError::NotJson(e) => write!(f, "not JSON ({e}): {KNOWN}"),
            AskError::Form => f.write_str(KNOWN),
            AskError::Unknown(name) => write!(f, "`{name}` is unknown: {KNOWN}"),
            AskError::Seed => f.write_str("reset.seed: write a whole number from 0"),
            AskError::Weight(most) => write!(f, "act.weight: write a whole number from 0 to {most}"),
            AskError::NoEpisode => f.write_str("no episode is running: write {\"reset\": {}}"),
            AskError::NoDecision => {
                f.write_str("no decision to make: the scenario is shorter than learn.interval_s")
            }
            AskError::Start(e) => e.fmt(f),
            AskError::Outcome(e) => e.fmt(f),
        }
    }
}

/// Serves one scenario.
pub struct Server<'a> {
    scenario: &'a Arc<Scenario>,
    model: &'a LearnModel,
    simulator: &'a Simulator,
    episode: Option<Episode>,
    /// Of the last episode.
    seed: Option<u64>,
}

impl<'a> Server<'a> {
    /// Nothing runs yet.
    ///
    /// # Errors
    /// The scenario has no learner.
    pub fn new(scenario: &'a Arc<Scenario>, simulator: &'a Simulator) -> Result<Self, ServeError> {
        let model = scenario.learn.as_ref().ok_or(ServeError::NoLearner)?;
        if model.per_class && scenario.class_names.len() > 1 {
            return Err(ServeError::Classes);
        }
        Ok(Server { scenario, model, simulator, episode: None, seed: None })
    }

    /// Answers lines until the input ends, or until `close`.
    ///
    /// # Errors
    /// A line cannot be read or written.
    pub fn run(&mut self, input: impl BufRead, mut output: impl Write) -> Result<(), ServeError> {
        for line in input.lines() {
            let line = line.map_err(ServeError::Read)?;
            if line.trim().is_empty() {
                continue;
            }
            let (answer, over) = match self.answer(&line) {
                Ok(answer) => answer,
                Err(e) => (json!({ "error": e.to_string() }), false),
            };
            writeln!(output, "{answer}").and_then(|()| output.flush()).map_err(ServeError::Write)?;
            if over {
                break;
            }
        }
        Ok(())
    }

    fn answer(&mut self, line: &str) -> Result<(Value, bool), AskError> {
        let asked: Value = serde_json::from_str(line).map_err(AskError::NotJson)?;
        let fields = asked.as_object().filter(|o| o.len() == 1).ok_or(AskError::Form)?;
        let Some((name, value)) = fields.iter().next() else { return Err(AskError::Form) };
        match name.as_str() {
            "describe" => Ok((self.describe(), false)),
            "reset" => self.reset(value).map(|v| (v, false)),
            "act" => self.act(value).map(|v| (v, false)),
            "close" => Ok((json!({ "closed": true }), true)),
            _ => Err(AskError::Unknown(name.clone())),
        }
    }

    fn describe(&self) -> Value {
        let seconds = |ns: u64| ns as f64 / 1e9;
        json!({
            "protocol": PROTOCOL,
            "scenario": self.scenario.name,
            "max_weight": self.model.parameters.max_weight,
            "interval_s": seconds(self.model.interval_ns),
            "decisions": (self.scenario.duration_ns - 1) / self.model.interval_ns,
            "observation": OBSERVATION,
        })
    }

    fn reset(&mut self, value: &Value) -> Result<Value, AskError> {
        let seed = match &value["seed"] {
            // As environments are used: the next episode, other numbers.
            Value::Null => self.seed.map_or(self.scenario.seed, |last| last.wrapping_add(1)),
            given => given.as_u64().ok_or(AskError::Seed)?,
        };
        let mut session = self.simulator.session(self.scenario, seed).map_err(AskError::Start)?;
        let question = session.advance().ok_or(AskError::NoDecision)?;
        let answer = json!({
            "observation": observation(Some(&question)),
            "info": { "seed": seed, "at_s": question.at_s },
        });
        self.seed = Some(seed);
        self.episode = Some(Episode { session, question });
        Ok(answer)
    }

    fn act(&mut self, value: &Value) -> Result<Value, AskError> {
        let most = self.model.parameters.max_weight;
        let wanted = value["weight"].as_u64().filter(|w| *w <= u64::from(most));
        let accelerator = wanted.ok_or(AskError::Weight(most))? as u32;
        let Episode { mut session, question } = self.episode.take().ok_or(AskError::NoEpisode)?;
        session.decide(&question, Weights { cpu: most, accelerator }, None);
        let decided = session.last_decision().map(|s| {
            json!({
                "best_weight": s.best_weight, "regret_ms": s.own_p99_ms - s.best_p99_ms, "right": s.right,
                "offered_per_s": s.offered_per_s,
            })
        });
        let next = session.advance();
        let p = &self.model.parameters;
        // Observations after the decision show its effect.
        let reward = next.as_ref().map_or(0.0, |q| p.reward(p.judge(&q.observation, q.weights)));
        let mut answer = json!({
            "observation": observation(next.as_ref()),
            "reward": reward,
            "terminated": false,
            "truncated": next.is_none(),
            "info": { "seed": self.seed, "at_s": next.as_ref().map(|q| q.at_s), "decided": decided },
        });
        match next {
            Some(question) => self.episode = Some(Episode { session, question }),
            None => {
                let outcome = session.finish().json();
                answer["info"]["outcome"] = serde_json::from_str(&outcome).map_err(AskError::Outcome)?;
            }
        }
        Ok(answer)
    }
}

/// The numbers of an observation, in order.
const OBSERVATION: [&str; 6] =
    ["cpu_percent", "accelerator_percent", "p99_ms", "offered_per_s_per_server", "loss_share", "weight"];

fn observation(q: Option<&Question>) -> Value {
    let Some(q) = q else { return json!([0.0, 0.0, 0.0, 0.0, 0.0, 0.0]) };
    let o = &q.observation;
    json!([
        o.cpu_mean_percent(),
        o.accelerator_mean_percent(),
        o.p99_ms,
        o.offered_per_s(),
        o.loss,
        q.weights.accelerator
    ])
}
