//! Learning: what is observed once per interval, what comes of a decision, and what the oracle says to it.

use super::{Event, World};
use crate::oracle::{DeviceNow, Oracle};
use crate::outcome::{Latency, LearnStep, Learning};
use crate::scenario::LearnModel;
use pointsman_balance::controller::{Program, Request};
use pointsman_balance::learn::{Observation, Telemetry, Weights, with_weights};
use pointsman_balance::{DeviceKind, Rack};
use pointsman_control::proto::p4rt;
use pointsman_ir::Executor;
use std::collections::VecDeque;

/// What a learner's decisions need.
pub(super) struct Learn {
    pub model: LearnModel,
    telemetry: Telemetry,
    /// Answers on their way back.
    answers: VecDeque<Vec<p4rt::Entity>>,
    weights: Weights,
    /// Observed since.
    since: u64,
    polls_left: u32,
    /// The next answer is only what counters are compared with.
    baseline: bool,
    /// Of the interval: latencies of answers, and what was sent and lost at its beginning.
    pub latencies_ns: Vec<u64>,
    sent: u64,
    lost: u64,
    oracle: Oracle,
    now: Vec<DeviceNow>,
    steps: Vec<LearnStep>,
}

impl Learn {
    pub fn new(
        model: &LearnModel,
        rack: &Rack,
        program: &Program,
        devices: &[crate::device::DeviceModel],
    ) -> Result<Self, String> {
        let mut now = Vec::new();
        for (server, s) in rack.servers.iter().enumerate() {
            now.extend(s.devices.iter().map(|d| DeviceNow {
                server: server as u32,
                accelerator: d.kind != DeviceKind::Cpu,
                up: true,
                speed: 1.0,
            }));
        }
        Ok(Learn {
            model: model.clone(),
            telemetry: Telemetry::new(rack, &program.p4info)?,
            answers: VecDeque::new(),
            weights: model.weigher()?.weights(),
            since: 0,
            polls_left: 0,
            baseline: false,
            latencies_ns: Vec::new(),
            sent: 0,
            lost: 0,
            oracle: Oracle::new(devices),
            now,
            steps: Vec::new(),
        })
    }

    pub fn last_step(&self) -> Option<&LearnStep> {
        self.steps.last()
    }

    /// The rack as it is to begin.
    pub fn rack(&self, rack: &Rack) -> Rack {
        with_weights(rack, self.weights)
    }
}

/// What a learner is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Seconds since the first request.
    pub at_s: f64,
    /// What was seen under the weights in force.
    pub observation: Observation,
    /// These weights.
    pub weights: Weights,
}

impl<E: Executor> World<E> {
    /// Requests that are neither answered nor to be answered.
    fn lost_so_far(&self) -> u64 {
        self.requests.len() as u64 - self.answered - self.open
    }

    /// An interval begins.
    pub(super) fn begin_interval(&mut self) {
        let (now, sent, lost) = (self.now, self.requests.len() as u64, self.lost_so_far());
        let Some(l) = &mut self.learn else { return };
        l.since = now + l.model.settle_ns;
        l.polls_left = l.model.polls;
        l.baseline = true;
        (l.sent, l.lost) = (sent, lost);
        l.latencies_ns.clear();
        l.telemetry.forget();
        self.calendar.enter(l.since, Event::LearnBegin);
        self.calendar.enter(now + l.model.interval_ns, Event::Decide);
    }

    /// The part of an interval that is observed begins: the first reading of counters is where rates count from.
    pub(super) fn observe_from_here(&mut self) {
        let (sent, lost) = (self.requests.len() as u64, self.lost_so_far());
        let Some(l) = &mut self.learn else { return };
        l.latencies_ns.clear();
        (l.sent, l.lost) = (sent, lost);
        self.poll_devices();
    }

    /// Asks the switch for the state of devices, and enters the next time.
    pub(super) fn poll_devices(&mut self) {
        let delay = self.scenario.control_delay_ns;
        let Some(l) = &mut self.learn else { return };
        let request = Request::Read(l.telemetry.question());
        self.control.ask(request);
        self.calendar.enter(self.now + delay, Event::AtSwitch);
        // The last answer has to be back before the decision.
        if l.polls_left > 0 {
            l.polls_left -= 1;
            let observed = l.model.interval_ns.saturating_sub(l.model.settle_ns + 2 * delay + 1);
            self.calendar.enter(self.now + observed / u64::from(l.model.polls), Event::LearnPoll);
        }
    }

    /// The switch answered; the answer is under way.
    pub(super) fn learner_answer(&mut self, entities: Vec<p4rt::Entity>) {
        let Some(l) = &mut self.learn else { return };
        l.answers.push_back(entities);
        self.calendar.enter(self.now + self.scenario.control_delay_ns, Event::AtLearner);
    }

    pub(super) fn at_learner(&mut self) {
        let Some(l) = &mut self.learn else { return };
        let Some(entities) = l.answers.pop_front() else { return };
        l.telemetry.answer(&entities);
        if std::mem::take(&mut l.baseline) {
            l.telemetry.forget();
        }
    }

    /// The end of an interval: what there is to decide on.
    pub(super) fn question(&mut self) -> Option<crate::Question> {
        let (now, start, lost) = (self.now, self.start, self.lost_so_far());
        let sent = self.requests.len() as u64;
        let oldest_ns = self.scenario.patience_ns;
        let open = self.open;
        let l = self.learn.as_mut()?;
        let seconds = (now - l.since.min(now)) as f64 / 1e9;
        let mut observation = l.telemetry.observation(seconds);
        observation.p99_ms = match l.latencies_ns.is_empty() {
            // Requests, but no answer at all: as bad as can be.
            true if open > 0 => oldest_ns as f64 / 1e6,
            _ => Latency::of(&mut l.latencies_ns).p99_ms,
        };
        observation.loss = (lost - l.lost) as f64 / (sent - l.sent).max(1) as f64;
        Some(crate::Question { at_s: (now - start) as f64 / 1e9, observation, weights: l.weights })
    }

    /// Somebody decided: the weights from now on.
    pub(super) fn weigh(&mut self, asked: &crate::Question, weights: Weights, reward: Option<f64>) {
        let rate: f64 = self.clients.iter().map(|c| c.arrivals.rate_per_s(self.now.saturating_sub(1))).sum();
        let patience_ms = self.scenario.patience_ns as f64 / 1e6;
        let Some(l) = &mut self.learn else { return };
        for (i, device) in self.devices.iter().enumerate() {
            l.now[i].up = device.is_up();
            l.now[i].speed = device.speed;
        }
        let p = &l.model.parameters;
        let best = l.oracle.best(rate, &l.now, p);
        let own = l.oracle.worth(rate, &l.now, weights, p);
        let o = &asked.observation;
        let bounded = |ms: f64| ms.min(patience_ms);
        l.steps.push(LearnStep {
            at_s: asked.at_s,
            offered_per_s: rate,
            cpu_percent: o.cpu_mean_percent(),
            accelerator_percent: o.accelerator_mean_percent(),
            p99_ms: o.p99_ms,
            loss: o.loss,
            weight: asked.weights.accelerator,
            verdict: p.judge(o, asked.weights),
            reward,
            next_weight: weights.accelerator,
            best_weight: best.accelerator,
            best_p99_ms: bounded(best.worth.p99_ms),
            own_p99_ms: bounded(own.p99_ms),
            // Where no weights are right, the best are.
            right: own.verdict.is_right()
                || weights.accelerator == best.accelerator
                || own.p99_ms.is_finite() && own.p99_ms <= 1.05 * best.worth.p99_ms,
        });
        if weights != l.weights {
            let before = std::mem::replace(&mut l.weights, weights);
            let cpus_changed = (before.cpu == 0) != (weights.cpu == 0);
            let others_changed = (before.accelerator == 0) != (weights.accelerator == 0);
            for i in 0..self.devices.len() {
                let (changed, out) = match l.now[i].accelerator {
                    true => (others_changed, weights.accelerator == 0),
                    false => (cpus_changed, weights.cpu == 0),
                };
                if changed {
                    self.checker.removed(self.now, i, out);
                }
            }
            self.configure(|rack| *rack = with_weights(rack, weights));
        }
        self.begin_interval();
    }

    pub(super) fn learning(&mut self) -> Option<Learning> {
        let l = self.learn.take()?;
        let bound = l.model.guard.map(|g| g.p99_ms);
        Some(Learning::new(l.model.learner.name(), l.steps, bound))
    }
}
