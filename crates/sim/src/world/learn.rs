//! Learning: the observations of each interval, the effect of a decision, and the oracle's judgement.
//!
//! Equal servers form a class, and every class has its own weights.

use super::{Event, World};
use crate::error::StartError;
use crate::oracle::{DeviceNow, Oracle};
use crate::outcome::{Latency, LearnStep, Learning};
use crate::scenario::{LearnModel, Scenario};
use pointsman_balance::controller::{Program, Request, Response};
use pointsman_balance::learn::{Telemetry, with_weights_of};
use pointsman_balance::{DeviceKind, DeviceNumber, Rack};
use pointsman_control::proto::p4rt;
use pointsman_decide::{Observation, Weights};
use pointsman_ir::Executor;
use pointsman_topology::SwitchId;
use std::collections::VecDeque;

/// Servers that are alike.
struct Class {
    name: String,
    telemetry: Telemetry,
    weights: Weights,
    /// Latencies of answers in this interval.
    latencies_ns: Vec<u64>,
    oracle: Oracle,
    now: Vec<DeviceNow>,
    /// Their devices, as the scenario numbers them, and their servers.
    devices: Vec<usize>,
    servers: Vec<u32>,
}

/// The state for a learner's decisions.
pub(super) struct Learn {
    pub model: LearnModel,
    classes: Vec<Class>,
    /// Class of each device.
    pub class_of: Vec<u8>,
    /// Whether each device is in service, but for its weight.
    wanted: Vec<bool>,
    /// Devices that the checker takes for removed.
    out: Vec<bool>,
    /// Questions on their way to the switch, each of a class.
    questions: VecDeque<(usize, Request)>,
    /// Answers on their way back.
    answers: VecDeque<(usize, Vec<p4rt::Entity>)>,
    /// Observed since.
    since: u64,
    polls_left: u32,
    /// So many of the next answers are only what counters are compared with.
    baselines: usize,
    /// Sent and lost at the beginning of the interval.
    sent: u64,
    lost: u64,
    /// The class that decides next.
    asking: usize,
    /// A decision was requested since the interval began.
    asked: bool,
    steps: Vec<LearnStep>,
}

impl Learn {
    pub fn new(model: &LearnModel, scenario: &Scenario, program: &Program) -> Result<Self, StartError> {
        let rack = &scenario.rack;
        let all: Vec<(u32, &pointsman_balance::config::Device)> = rack
            .servers
            .iter()
            .enumerate()
            .flat_map(|(server, s)| s.devices.iter().map(move |d| (server as u32, d)))
            .collect();
        let class_of_server = |server: u32| match model.per_class {
            true => scenario.class_of.get(server as usize).copied().unwrap_or(0),
            false => 0,
        };
        let class_of: Vec<u8> = all.iter().map(|(server, _)| class_of_server(*server)).collect();
        let number = class_of.iter().max().map_or(1, |last| usize::from(*last) + 1);
        let mut classes = Vec::new();
        for class in 0..number {
            let devices: Vec<usize> = (0..all.len()).filter(|i| usize::from(class_of[*i]) == class).collect();
            let numbers: Vec<DeviceNumber> = devices.iter().map(|i| all[*i].1.number).collect();
            let models: Vec<_> = devices.iter().map(|i| scenario.devices[*i].clone()).collect();
            let now = devices.iter().map(|i| DeviceNow {
                server: all[*i].0,
                accelerator: all[*i].1.kind != DeviceKind::Cpu,
                up: true,
                speed: 1.0,
            });
            let mut servers: Vec<u32> = devices.iter().map(|i| all[*i].0).collect();
            servers.dedup();
            classes.push(Class {
                name: scenario.class_names.get(class).cloned().unwrap_or_default(),
                telemetry: Telemetry::of(rack, &program.p4info, |n| numbers.contains(&n))
                    .map_err(StartError::Telemetry)?,
                weights: model.weigher()?.weights(),
                latencies_ns: Vec::new(),
                oracle: Oracle::new(&models),
                now: now.collect(),
                devices,
                servers,
            });
        }
        let wanted: Vec<bool> = all.iter().map(|(_, d)| d.enabled).collect();
        let mut learn = Learn {
            model: model.clone(),
            classes,
            class_of,
            out: vec![false; wanted.len()],
            wanted: vec![true; wanted.len()],
            questions: VecDeque::new(),
            answers: VecDeque::new(),
            since: 0,
            polls_left: 0,
            baselines: 0,
            sent: 0,
            lost: 0,
            asking: usize::MAX,
            asked: false,
            steps: Vec::new(),
        };
        for (i, _) in wanted.iter().enumerate().filter(|(_, w)| !**w) {
            learn.set_in_service(i, all[i].1.number, false);
        }
        Ok(learn)
    }

    pub fn last_step(&self) -> Option<&LearnStep> {
        self.steps.last()
    }

    /// How many classes of servers have their own weights.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// The rack as it is to be with the weights in force.
    pub fn rack(&self, rack: &Rack) -> Rack {
        let mut weights = std::collections::BTreeMap::new();
        for (i, (_, d)) in rack.devices().enumerate() {
            let class = &self.classes[usize::from(self.class_of[i])];
            weights.insert(d.number, self.wanted[i].then_some(class.weights));
        }
        with_weights_of(rack, |n| weights.get(&n).copied().flatten())
    }

    /// A device is taken out of service, or comes.
    pub fn set_in_service(&mut self, device: usize, number: DeviceNumber, is: bool) {
        self.wanted[device] = is;
        let class = &mut self.classes[usize::from(self.class_of[device])];
        class.telemetry.set_in_service(number, is);
    }

    /// A client had an answer.
    pub fn answered(&mut self, class: usize, latency_ns: u64) {
        if let Some(class) = self.classes.get_mut(class) {
            class.latencies_ns.push(latency_ns);
        }
    }

    fn forget(&mut self) {
        for class in &mut self.classes {
            class.latencies_ns.clear();
            class.telemetry.forget();
        }
    }
}

/// The input for a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Seconds since the first request.
    pub at_s: f64,
    /// Which class of servers, from 0: one learner for each.
    pub class: usize,
    /// The observations under the weights in force.
    pub observation: Observation,
    /// These weights.
    pub weights: Weights,
}

impl<E: Executor> World<E> {
    /// Requests that are neither answered nor to be answered.
    fn lost_so_far(&self) -> u64 {
        self.requests.len() as u64 - self.tally.answered - self.tally.open
    }

    /// An interval begins.
    pub(super) fn begin_interval(&mut self) {
        let (now, sent, lost) = (self.network.now(), self.requests.len() as u64, self.lost_so_far());
        let Some(l) = &mut self.learn else { return };
        l.since = now + l.model.settle_ns;
        l.polls_left = l.model.polls;
        l.baselines = l.classes.len();
        (l.sent, l.lost) = (sent, lost);
        (l.asking, l.asked) = (usize::MAX, false);
        l.forget();
        self.network.enter(l.since, Event::LearnBegin);
        self.network.enter(now + l.model.interval_ns, Event::Decide);
    }

    /// The part of an interval that is observed begins: the first reading of counters is where rates count from.
    pub(super) fn observe_from_here(&mut self) {
        let (sent, lost) = (self.requests.len() as u64, self.lost_so_far());
        let Some(l) = &mut self.learn else { return };
        l.classes.iter_mut().for_each(|c| c.latencies_ns.clear());
        (l.sent, l.lost) = (sent, lost);
        self.poll_devices();
    }

    /// Asks the switch for the state of devices, and enters the next time.
    pub(super) fn poll_devices(&mut self) {
        let delay = self.scenario.control_delay_ns;
        let now = self.network.now();
        let Some(l) = &mut self.learn else { return };
        for (class, its) in l.classes.iter().enumerate() {
            l.questions.push_back((class, Request::Read(its.telemetry.question())));
            self.network.enter(now + delay, Event::LearnAsk);
        }
        // The last answer has to be back before the decision.
        if l.polls_left > 0 {
            l.polls_left -= 1;
            let observed = l.model.interval_ns.saturating_sub(l.model.settle_ns + 2 * delay + 1);
            self.network.enter(self.network.now() + observed / u64::from(l.model.polls), Event::LearnPoll);
        }
    }

    /// A question reaches the only switch; the answer is on its way back. Values that could not be read are missing in it.
    pub(super) fn learner_asks(&mut self) {
        let (now, on) = (self.network.now(), self.switches[0].on);
        let Some(l) = &mut self.learn else { return };
        let Some((class, request)) = l.questions.pop_front() else { return };
        let switch = self.network.switch(SwitchId(0));
        let answer = on.then(|| self.control.channels[0].serve(now, switch, &request));
        let entities = if let Some(Ok(Response::Read(entities))) = answer { entities } else { Vec::new() };
        l.answers.push_back((class, entities));
        self.network.enter(now + self.scenario.control_delay_ns, Event::AtLearner);
    }

    pub(super) fn at_learner(&mut self) {
        let Some(l) = &mut self.learn else { return };
        let Some((class, entities)) = l.answers.pop_front() else { return };
        let telemetry = &mut l.classes[class].telemetry;
        telemetry.answer(&entities);
        if l.baselines > 0 {
            l.baselines -= 1;
            telemetry.forget();
        }
    }

    /// The end of an interval: every class decides.
    pub(super) fn decisions_are_due(&mut self) {
        if let Some(l) = &mut self.learn {
            (l.asking, l.asked) = (0, true);
        }
    }

    /// The decision to make now, if any.
    pub(super) fn question(&mut self) -> Option<crate::Question> {
        let (now, start, lost) = (self.network.now(), self.start, self.lost_so_far());
        let sent = self.requests.len() as u64;
        let oldest_ns = self.scenario.patience_ns;
        let open = self.tally.open;
        let l = self.learn.as_mut()?;
        let number = l.asking;
        let class = l.classes.get_mut(number)?;
        l.asking += 1;
        let seconds = (now - l.since.min(now)) as f64 / 1e9;
        let mut observation = class.telemetry.observation(seconds);
        observation.p99_ms = match class.latencies_ns.is_empty() {
            // Requests, but no answer at all: as bad as can be.
            true if open > 0 => oldest_ns as f64 / 1e6,
            _ => Latency::of(&mut class.latencies_ns).p99_ms,
        };
        observation.loss = (lost - l.lost) as f64 / (sent - l.sent).max(1) as f64;
        let at_s = (now - start) as f64 / 1e9;
        Some(crate::Question { at_s, class: number, observation, weights: class.weights })
    }

    /// A decision: the weights from now on.
    pub(super) fn weigh(&mut self, asked: &crate::Question, weights: Weights, reward: Option<f64>) {
        let now = self.network.now().saturating_sub(1);
        let requests = |c: &super::Client| f64::from(c.model.connections.requests());
        let rate: f64 = self.clients.iter().map(|c| c.arrivals.rate_per_s(now) * requests(c)).sum();
        let patience_ms = self.scenario.patience_ns as f64 / 1e6;
        let Some(l) = &mut self.learn else { return };
        for class in &mut l.classes {
            for (now, i) in class.now.iter_mut().zip(&class.devices) {
                now.up = self.devices[*i].is_up() && l.wanted[*i];
                now.speed = self.devices[*i].speed;
            }
        }
        // Every server with a working device gets as much as any other.
        let alive = |class: &Class| {
            let works = |s: &&u32| class.now.iter().any(|d| d.server == **s && d.up);
            class.servers.iter().filter(works).count() as f64
        };
        let all: f64 = l.classes.iter().map(alive).sum();
        let Some(class) = l.classes.get(asked.class) else { return };
        let own_rate = rate * alive(class) / all.max(1.0);
        let p = &l.model.parameters;
        let best = class.oracle.best(own_rate, &class.now, p);
        let own = class.oracle.worth(own_rate, &class.now, weights, p);
        let o = &asked.observation;
        let bounded = |ms: f64| ms.min(patience_ms);
        l.steps.push(LearnStep {
            class: class.name.clone(),
            at_s: asked.at_s,
            offered_per_s: own_rate,
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
            // If no weights are right, the best ones count as right.
            right: own.verdict.is_right()
                || weights.accelerator == best.accelerator
                || own.p99_ms.is_finite() && own.p99_ms <= 1.05 * best.worth.p99_ms,
        });
        if let Some(class) = l.classes.get_mut(asked.class) {
            class.weights = weights;
        }
    }

    /// Gives the controller the decisions, if anything changed, and begins the next interval when all have decided.
    pub(super) fn after_decisions(&mut self) {
        if !self.learn.as_ref().is_some_and(|l| l.asked) {
            return;
        }
        self.apply_weights();
        self.begin_interval();
    }

    /// Sends the controller weights and devices in service, if they changed.
    pub(super) fn apply_weights(&mut self) {
        let Some(l) = &mut self.learn else { return };
        let before = self.control.controllers.rack();
        let after = l.rack(before);
        if after == *before {
            return;
        }
        self.note_removed();
        self.configure(|rack| *rack = after);
    }

    /// Updates the checker's list of devices that are out.
    pub(super) fn note_removed(&mut self) {
        let Some(l) = &mut self.learn else { return };
        for class in &l.classes {
            for (now, i) in class.now.iter().zip(&class.devices) {
                let weight = if now.accelerator { class.weights.accelerator } else { class.weights.cpu };
                let out = weight == 0 || !l.wanted[*i];
                if out != l.out[*i] {
                    l.out[*i] = out;
                    self.checker.removed(self.network.now(), *i, out);
                }
            }
        }
    }

    pub(super) fn learning(&mut self) -> Option<Learning> {
        let l = self.learn.take()?;
        let bound = l.model.guard.map(|g| g.p99_ms);
        Some(Learning::new(l.model.learner.name(), l.steps, bound))
    }
}
