//! The module of a controller that asks a Prometheus server how the devices of a service are, ranks them by PROMETHEE II and names the
//! best one (`min_utilised`).
//!
//! It is a state machine: it returns the queries to make, takes their answers as samples, and returns a choice to write
//! whenever it changes. Devices with a missing, stale or meaningless value (NaN, infinite) and those that the controller avoids are
//! skipped; if none is left, no device is named, and the data plane decides by itself.

use super::prometheus::QueryError;
use crate::types::DeviceNumber;
use pointsman_decide::promethee::{Criterion, best, net_flows};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// An alternative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// Value of the label that identifies its samples.
    pub label: String,
    /// The device.
    pub device: DeviceNumber,
}

/// The settings of a chooser.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The label that identifies a sample's alternative, `instance` as a rule.
    pub label: String,
    /// The alternatives. Of several with the same net flow the first is taken.
    pub alternatives: Vec<Alternative>,
    /// The criteria, each with its PromQL.
    pub criteria: Vec<(String, Criterion)>,
    /// PromQL for the age of an alternative's samples in seconds, such as `time() - timestamp(up == 1)`. An instant query itself
    /// answers with values up to five minutes old. None: the age is not queried.
    pub age: Option<String>,
    /// Samples older than this are stale.
    pub stale_after: Duration,
    /// From one round of queries to the next.
    pub interval: Duration,
    /// A query without an answer after this has failed.
    pub patience: Duration,
}

/// One sample of an instant vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value; Prometheus knows NaN and infinities.
    pub value: f64,
}

/// A chooser's input.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but the time.
    Tick,
    /// These devices are not to be chosen from now on: they get no new connections. None at first.
    Avoid(BTreeSet<DeviceNumber>),
    /// The answer to a query, or the error.
    Answer {
        /// The query's.
        id: u64,
        /// The result.
        result: Result<Vec<Sample>, QueryError>,
    },
}

/// An action that a chooser requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Make this instant query and answer with the same id.
    Query {
        /// Never used twice.
        id: u64,
        /// PromQL.
        promql: String,
    },
    /// Name this device, or none. Only sent when it changes.
    Choose(Option<DeviceNumber>),
    /// A fault began or ended; reported once.
    Note(String),
}

#[derive(Debug)]
struct Round {
    deadline: Duration,
    /// The purpose of each open query: a criterion, or the age.
    open: BTreeMap<u64, Option<usize>>,
    /// By criterion and alternative.
    values: Vec<BTreeMap<usize, f64>>,
    ages: BTreeMap<usize, f64>,
    failures: Vec<QueryError>,
}

/// Chooses the best device. Times count from any fixed moment and must not run backwards.
#[derive(Debug)]
pub struct Chooser {
    settings: Settings,
    next_id: u64,
    round_at: Duration,
    round: Option<Round>,
    /// The values of the last round, by criterion, of the devices that have them.
    rows: Vec<(DeviceNumber, Vec<f64>)>,
    avoided: BTreeSet<DeviceNumber>,
    chosen: Option<Option<DeviceNumber>>,
    notes: BTreeSet<String>,
}

impl Chooser {
    /// A chooser that begins its first round at its first step.
    pub fn new(settings: Settings) -> Self {
        Chooser {
            settings,
            next_id: 1,
            round_at: Duration::ZERO,
            round: None,
            rows: Vec::new(),
            avoided: BTreeSet::new(),
            chosen: None,
            notes: BTreeSet::new(),
        }
    }

    /// The device that the switch should hold: None until the first round has ended.
    pub fn chosen(&self) -> Option<Option<DeviceNumber>> {
        self.chosen
    }

    /// The deadline for the next step with [`Input::Tick`].
    pub fn next_deadline(&self) -> Duration {
        self.round.as_ref().map_or(self.round_at, |r| r.deadline)
    }

    /// Takes one input at time `now` and returns the actions.
    pub fn step(&mut self, now: Duration, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Tick => {}
            Input::Avoid(devices) => {
                self.avoided = devices;
                // Before the end of the first round nothing is known.
                if self.chosen.is_some() {
                    self.choose(&mut out);
                }
            }
            Input::Answer { id, result } => self.answer(id, result),
        }
        if self.round.as_ref().is_some_and(|r| r.open.is_empty() || now >= r.deadline) {
            self.finish(&mut out);
        }
        if self.round.is_none() && now >= self.round_at {
            self.begin(now, &mut out);
        }
        out
    }

    fn begin(&mut self, now: Duration, out: &mut Vec<Output>) {
        let queries = self.settings.criteria.iter().enumerate().map(|(i, (q, _))| (Some(i), q));
        let mut open = BTreeMap::new();
        for (what, promql) in queries.chain(self.settings.age.iter().map(|q| (None, q))) {
            open.insert(self.next_id, what);
            out.push(Output::Query { id: self.next_id, promql: promql.clone() });
            self.next_id += 1;
        }
        self.round = Some(Round {
            deadline: now + self.settings.patience,
            open,
            values: vec![BTreeMap::new(); self.settings.criteria.len()],
            ages: BTreeMap::new(),
            failures: Vec::new(),
        });
        self.round_at = now + self.settings.interval;
    }

    fn answer(&mut self, id: u64, result: Result<Vec<Sample>, QueryError>) {
        // Answers of an abandoned round come too late.
        let Some(round) = &mut self.round else { return };
        let Some(what) = round.open.remove(&id) else { return };
        let samples = match result {
            Ok(samples) => samples,
            Err(e) => {
                round.failures.push(e);
                return;
            }
        };
        for (i, alternative) in self.settings.alternatives.iter().enumerate() {
            let mine = |s: &&Sample| s.labels.get(&self.settings.label) == Some(&alternative.label);
            let mut found = samples.iter().filter(mine);
            // Two samples for one device (of two interfaces, for example): the query does not determine which counts,
            // so neither does.
            let (Some(sample), None) = (found.next(), found.next()) else { continue };
            if sample.value.is_finite() {
                match what {
                    Some(criterion) => round.values[criterion].insert(i, sample.value),
                    None => round.ages.insert(i, sample.value),
                };
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<Output>) {
        let Some(round) = self.round.take() else { return };
        let mut notes: BTreeSet<String> = round.failures.iter().map(ToString::to_string).collect();
        if !round.open.is_empty() {
            notes.insert("Prometheus does not answer in time".into());
        }
        self.rows.clear();
        for (i, alternative) in self.settings.alternatives.iter().enumerate() {
            let row: Vec<f64> = round.values.iter().filter_map(|v| v.get(&i).copied()).collect();
            let fresh = self.settings.age.is_none()
                || round.ages.get(&i).is_some_and(|age| *age <= self.settings.stale_after.as_secs_f64());
            if row.len() == self.settings.criteria.len() && fresh {
                self.rows.push((alternative.device, row));
            } else {
                let what = if fresh {
                    "has no single, finite value for every criterion"
                } else {
                    "was not measured recently"
                };
                notes.insert(format!(
                    "{}=\"{}\" {what}: it is skipped",
                    self.settings.label, alternative.label
                ));
            }
        }
        self.choose(out);
        for note in notes.difference(&self.notes) {
            out.push(Output::Note(note.clone()));
        }
        if notes.is_empty() && !self.notes.is_empty() {
            out.push(Output::Note("all devices are measured again".into()));
        }
        self.notes = notes;
    }

    /// Names the best of the devices that are not avoided.
    fn choose(&mut self, out: &mut Vec<Output>) {
        let candidates = self.rows.iter().filter(|(device, _)| !self.avoided.contains(device));
        let (devices, rows): (Vec<DeviceNumber>, Vec<Vec<f64>>) = candidates.cloned().unzip();
        let criteria: Vec<Criterion> = self.settings.criteria.iter().map(|(_, c)| *c).collect();
        let flows = net_flows(&rows, &criteria);
        let choice = best(&flows).and_then(|i| devices.get(i).copied());
        if self.chosen != Some(choice) {
            self.chosen = Some(choice);
            out.push(Output::Choose(choice));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_decide::promethee::{Goal, Preference};

    fn settings() -> Settings {
        let alternative =
            |i: u8| Alternative { label: format!("vm{i}:9100"), device: DeviceNumber::new(1, i) };
        let criterion = |weight, goal| Criterion { weight, goal, preference: Preference::Usual };
        Settings {
            label: "instance".into(),
            alternatives: (0..3).map(alternative).collect(),
            criteria: vec![
                ("cpu".into(), criterion(2.0, Goal::Cost)),
                ("free".into(), criterion(1.0, Goal::Benefit)),
            ],
            age: Some("age".into()),
            stale_after: Duration::from_secs(10),
            interval: Duration::from_secs(5),
            patience: Duration::from_secs(2),
        }
    }

    fn sample(i: usize, value: f64) -> Sample {
        Sample { labels: [("instance".to_string(), format!("vm{i}:9100"))].into(), value }
    }

    fn samples(values: &[f64]) -> Result<Vec<Sample>, QueryError> {
        Ok(values.iter().enumerate().map(|(i, v)| sample(i, *v)).collect())
    }

    struct World {
        chooser: Chooser,
        now: Duration,
    }

    impl World {
        fn new() -> World {
            World { chooser: Chooser::new(settings()), now: Duration::ZERO }
        }

        /// One round with these answers to the three queries; returns the messages at its end.
        fn round(&mut self, answers: [Result<Vec<Sample>, QueryError>; 3]) -> Vec<Output> {
            let asked = self.chooser.step(self.now, Input::Tick);
            let mut out = Vec::new();
            for (query, result) in asked.into_iter().zip(answers) {
                let Output::Query { id, .. } = query else { panic!("{query:?}") };
                out.extend(self.chooser.step(self.now, Input::Answer { id, result }));
            }
            assert_eq!(self.chooser.next_deadline(), self.now + Duration::from_secs(5));
            self.now += Duration::from_secs(5);
            out
        }

        fn choice(&mut self, cpu: &[f64], free: &[f64], ages: &[f64]) -> Option<u8> {
            let _ = self.round([samples(cpu), samples(free), samples(ages)]);
            self.chooser.chosen().expect("a round").map(|d| d.slot())
        }
    }

    #[test]
    fn the_best_is_chosen_and_written_once() {
        let mut w = World::new();
        let fresh = [1.0; 3];
        let say = |w: &mut World, cpu: &[f64]| w.round([samples(cpu), samples(&[5.0; 3]), samples(&fresh)]);
        assert_eq!(say(&mut w, &[50.0, 40.0, 60.0]), [Output::Choose(Some(DeviceNumber::new(1, 1)))]);
        assert_eq!(say(&mut w, &[50.0, 45.0, 60.0]), []);
        assert_eq!(say(&mut w, &[10.0, 45.0, 60.0]), [Output::Choose(Some(DeviceNumber::new(1, 0)))]);
        assert_eq!(w.choice(&[5.0; 3], &[1.0, 9.0, 2.0], &fresh), Some(1), "the second criterion decides");
    }

    #[test]
    fn devices_without_measurements_take_no_part() {
        let mut w = World::new();
        let (cpu, free, fresh) = ([10.0, 20.0, 30.0], [1.0; 3], [1.0; 3]);
        assert_eq!(w.choice(&cpu, &free, &fresh), Some(0));
        assert_eq!(w.choice(&[f64::NAN, 20.0, 30.0], &free, &fresh), Some(1));
        assert_eq!(w.choice(&[f64::NEG_INFINITY, 20.0, 30.0], &free, &fresh), Some(1));
        assert_eq!(w.choice(&cpu, &free, &[11.0, 10.0, 0.0]), Some(1), "stale");
        assert_eq!(w.choice(&cpu, &free, &[]), None, "no device is left");
        let doubled = Ok(vec![sample(0, 1.0), sample(0, 2.0), sample(2, 3.0), sample(7, 0.0)]);
        let said = w.round([doubled, samples(&free), samples(&fresh)]);
        assert!(said.contains(&Output::Choose(Some(DeviceNumber::new(1, 2)))), "{said:?}");
        let said = w.round([samples(&cpu), samples(&free), samples(&fresh)]);
        assert_eq!(said.last(), Some(&Output::Note("all devices are measured again".into())));
    }

    /// A device that is drained is replaced at once, and chosen again when it is back.
    #[test]
    fn avoided_devices_are_not_chosen() {
        let mut w = World::new();
        let [first, second, third] = [0, 1, 2].map(|slot| DeviceNumber::new(1, slot));
        let avoid = |w: &mut World, devices: &[DeviceNumber]| {
            w.chooser.step(w.now - Duration::from_secs(1), Input::Avoid(devices.iter().copied().collect()))
        };
        w.now = Duration::from_secs(1);
        w.chooser.round_at = w.now;
        assert_eq!(avoid(&mut w, &[second]), [], "nothing is measured yet");
        let (cpu, free, fresh) = ([10.0, 5.0, 30.0], [1.0; 3], [1.0; 3]);
        assert_eq!(w.choice(&cpu, &free, &fresh), Some(0));
        assert_eq!(avoid(&mut w, &[]), [Output::Choose(Some(second))]);
        assert_eq!(avoid(&mut w, &[first]), [], "another one is chosen");
        assert_eq!(avoid(&mut w, &[first, second]), [Output::Choose(Some(third))]);
        assert_eq!(w.choice(&cpu, &free, &fresh), Some(2), "the next round leaves them out, too");
        assert_eq!(avoid(&mut w, &[first, second, third]), [Output::Choose(None)]);
        assert_eq!(avoid(&mut w, &[]), [Output::Choose(Some(second))]);
    }

    #[test]
    fn failures_are_said_once() {
        let mut w = World::new();
        let fail = || Err(QueryError::Unanswered("connection refused".to_string()));
        let said = w.round([fail(), fail(), fail()]);
        assert_eq!(said[0], Output::Choose(None));
        assert_eq!(said.iter().filter(|o| matches!(o, Output::Note(n) if n.contains("refused"))).count(), 1);
        assert_eq!(w.round([fail(), fail(), fail()]), []);
        // No answer at all: the round ends by itself, and answers that come later are not looked at.
        let asked = w.chooser.step(w.now, Input::Tick);
        assert_eq!(asked.len(), 3);
        assert_eq!(w.chooser.next_deadline(), w.now + Duration::from_secs(2));
        let said = w.chooser.step(w.now + Duration::from_secs(2), Input::Tick);
        assert!(said.iter().any(|o| matches!(o, Output::Note(n) if n.contains("in time"))), "{said:?}");
        let Output::Query { id, .. } = asked[0] else { panic!("{asked:?}") };
        assert_eq!(
            w.chooser.step(w.now + Duration::from_secs(3), Input::Answer { id, result: samples(&[1.0]) }),
            []
        );
        assert_eq!(w.chooser.step(w.now + Duration::from_secs(5), Input::Tick).len(), 3);
    }
}
