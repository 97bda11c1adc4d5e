//! `pointsman sim --serve`: a simulation that gets weights from another program, as JSON lines over standard input and output.
//!
//! Every input line is an object with one field, every output line answers one; docs/simulator.md has the protocol.

use super::{Session, Simulator};
use pointsman_decide::Weights;
use pointsman_sim::scenario::LearnModel;
use pointsman_sim::{Question, Scenario};
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::sync::Arc;

/// Version of the protocol.
const PROTOCOL: u64 = 1;

/// An episode that waits for a decision.
struct Episode {
    session: Session,
    question: Question,
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
    pub fn new(scenario: &'a Arc<Scenario>, simulator: &'a Simulator) -> Result<Self, String> {
        let model = scenario.learn.as_ref().ok_or(
            "--serve: the scenario has no table [learn], which defines the decision points: add one",
        )?;
        if model.per_class && scenario.class_names.len() > 1 {
            return Err("--serve: the scenario has different classes of servers, but --serve decides one \
                        weight: write learn.per_class = false"
                .into());
        }
        Ok(Server { scenario, model, simulator, episode: None, seed: None })
    }

    /// Answers lines until the input ends, or until `close`.
    ///
    /// # Errors
    /// A line cannot be read or written.
    pub fn run(&mut self, input: impl BufRead, mut output: impl Write) -> Result<(), String> {
        for line in input.lines() {
            let line = line.map_err(|e| format!("--serve: cannot read: {e}"))?;
            if line.trim().is_empty() {
                continue;
            }
            let (answer, over) = match self.answer(&line) {
                Ok(answer) => answer,
                Err(error) => (json!({ "error": error }), false),
            };
            writeln!(output, "{answer}")
                .and_then(|()| output.flush())
                .map_err(|e| format!("--serve: cannot write: {e}"))?;
            if over {
                break;
            }
        }
        Ok(())
    }

    fn answer(&mut self, line: &str) -> Result<(Value, bool), String> {
        const KNOWN: &str =
            r#"write {"describe": {}}, {"reset": {"seed": N}}, {"act": {"weight": N}} or {"close": {}}"#;
        let asked: Value = serde_json::from_str(line).map_err(|e| format!("not JSON ({e}): {KNOWN}"))?;
        let fields = asked.as_object().filter(|o| o.len() == 1).ok_or(KNOWN)?;
        let Some((name, value)) = fields.iter().next() else { return Err(KNOWN.into()) };
        match name.as_str() {
            "describe" => Ok((self.describe(), false)),
            "reset" => self.reset(value).map(|v| (v, false)),
            "act" => self.act(value).map(|v| (v, false)),
            "close" => Ok((json!({ "closed": true }), true)),
            _ => Err(format!("`{name}` is unknown: {KNOWN}")),
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

    fn reset(&mut self, value: &Value) -> Result<Value, String> {
        let seed = match &value["seed"] {
            // As environments are used: the next episode, other numbers.
            Value::Null => self.seed.map_or(self.scenario.seed, |last| last.wrapping_add(1)),
            given => given.as_u64().ok_or("reset.seed: write a whole number from 0")?,
        };
        let mut session = self.simulator.session(self.scenario, seed)?;
        let question =
            session.advance().ok_or("no decision to make: the scenario is shorter than learn.interval_s")?;
        let answer = json!({
            "observation": observation(Some(&question)),
            "info": { "seed": seed, "at_s": question.at_s },
        });
        self.seed = Some(seed);
        self.episode = Some(Episode { session, question });
        Ok(answer)
    }

    fn act(&mut self, value: &Value) -> Result<Value, String> {
        let most = self.model.parameters.max_weight;
        let wanted = value["weight"].as_u64().filter(|w| *w <= u64::from(most));
        let accelerator =
            wanted.ok_or_else(|| format!("act.weight: write a whole number from 0 to {most}"))? as u32;
        let Episode { mut session, question } =
            self.episode.take().ok_or("no episode is running: write {\"reset\": {}}")?;
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
                answer["info"]["outcome"] = serde_json::from_str(&outcome).map_err(|e| e.to_string())?;
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
