//! A learner with a model: it fits how many requests per second processors and accelerators can serve, and computes the
//! weights from that.
//!
//! Use divided by rate is the time that a request takes, whatever the load, so one observation determines nearly
//! everything, and the estimates remain valid when the load changes. Of the weights that keep all devices below a
//! target it takes those with the fewest requests to accelerators, in line with the published reward. The highest
//! acceptable target is learnt from latency.

use super::lines::{Lines, MAX_UPDATES, wrong};
use super::{Knowledge, LearnerError, Observation, Parameters, Step, TableError, Weigher, Weights};
use std::fmt;

/// A device that is busier than this is saturated. Its measured rate then differs from its capacity.
const SATURATED: f64 = 97.0;
/// Below this, rounding to whole per cents says too little.
const IDLE: f64 = 4.0;
/// Weight of a new observation in the estimate.
const FRESH: f64 = 0.3;
/// The target: at the beginning, at least, at most, and how it moves.
const TARGET: (f64, f64, f64) = (80.0, 40.0, 92.0);
const DOWN: f64 = 4.0;
const UP: f64 = 0.5;
/// Accelerators lose weight only if the expected use is this much below the target: a device just below it today is
/// above it tomorrow, and a processor with slightly too much load is worse than one with some to spare.
const SLACK: f64 = 10.0;

/// After this many consecutive observations of a saturated device, it certainly cannot serve more than it receives: requests
/// from before are done.
const LASTS: u32 = 2;

/// The estimate for one kind of device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Capacity {
    pub(crate) per_s: Option<f64>,
    /// Observations in a row in which it was saturated.
    full: u32,
}

impl Capacity {
    pub(crate) fn known(per_s: Option<f64>) -> Self {
        Capacity { per_s, full: 0 }
    }

    pub(crate) fn learn(&mut self, rate: f64, percent: f64) {
        if percent < SATURATED {
            self.full = 0;
        }
        if rate <= 0.0 || percent < IDLE {
            return;
        }
        if percent >= SATURATED {
            // Offered more than it can serve, or still busy with a backlog: first a guess, and if it lasts, a bound.
            self.full = self.full.saturating_add(1);
            let bound = |c: f64| if self.full >= LASTS { c.min(rate) } else { c };
            self.per_s = Some(self.per_s.map_or(rate, bound));
            return;
        }
        let seen = rate * 100.0 / percent;
        // A large deviation is not noise: the devices changed.
        let share = |c: f64| if (seen / c - 1.0).abs() > 0.25 { 0.8 } else { FRESH };
        self.per_s = Some(self.per_s.map_or(seen, |c| c + share(c) * (seen - c)));
    }
}

/// The learner's estimates of devices.
///
/// ```text
/// pointsman service-rate 1
/// updates 120
/// cpu_per_s 230.5
/// accelerator_per_s unknown
/// target_percent 80
/// ```
///
/// Version; observations so far; packets per second that a processor and an accelerator can serve; how busy devices may be.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceRates {
    updates: u64,
    cpu: Capacity,
    accelerator: Capacity,
    target_percent: f64,
}

pub(crate) const HEAD: &str = "pointsman service-rate";
const VERSION: &str = "1";
/// Bounds of a device's estimated rate.
const BELIEVABLE: (f64, f64) = (1e-9, 1e12);

impl Default for ServiceRates {
    fn default() -> Self {
        let unknown = Capacity::default();
        ServiceRates { updates: 0, cpu: unknown, accelerator: unknown, target_percent: TARGET.0 }
    }
}

impl ServiceRates {
    /// Observations so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    fn lines(&self) -> String {
        let of = |c: Capacity| c.per_s.map_or_else(|| "unknown".into(), |c| c.to_string());
        format!(
            "updates {}\ncpu_per_s {}\naccelerator_per_s {}\ntarget_percent {}\n",
            self.updates,
            of(self.cpu),
            of(self.accelerator),
            self.target_percent
        )
    }

    /// The text for a file. Reading it gives the same values, bit for bit.
    pub fn save(&self) -> String {
        format!("{HEAD} {VERSION}\n{}", self.lines())
    }

    pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Self, TableError> {
        lines.head(HEAD, VERSION, "the state of `service-rate`")?;
        let updates = lines.whole("updates", MAX_UPDATES)?;
        let mut rate = |name| Ok(Capacity::known(lines.number_of(name, BELIEVABLE.0, BELIEVABLE.1)?));
        let (cpu, accelerator) = (rate("cpu_per_s")?, rate("accelerator_per_s")?);
        let at = lines.number();
        let Some(target_percent) = lines.number_of("target_percent", TARGET.1, TARGET.2)? else {
            return wrong(at, format!("`target_percent` is always known: {} at the beginning", TARGET.0));
        };
        lines.end("too many lines")?;
        Ok(ServiceRates { updates, cpu, accelerator, target_percent })
    }

    /// As CSV, with a line of names.
    pub fn csv(&self) -> String {
        let of = |c: Capacity| c.per_s.map_or_else(String::new, |c| c.to_string());
        let (cpu, accelerator) = (of(self.cpu), of(self.accelerator));
        format!("cpu_per_s,accelerator_per_s,target_percent\n{cpu},{accelerator},{}\n", self.target_percent)
    }
}

/// For people.
impl fmt::Display for ServiceRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "service-rate: {} updates", self.updates)?;
        let of = |c: Capacity| c.per_s.map_or_else(|| "unknown".into(), |c| format!("{c:.2} packets/s"));
        writeln!(f, "a processor serves     {}", of(self.cpu))?;
        writeln!(f, "an accelerator serves  {}", of(self.accelerator))?;
        writeln!(f, "devices may be busy    {:.1} %", self.target_percent)
    }
}

/// The learner.
#[derive(Clone, Debug)]
pub struct Rates {
    parameters: Parameters,
    weights: Weights,
    known: ServiceRates,
}

impl Rates {
    /// One without any knowledge yet.
    ///
    /// # Errors
    /// A parameter is wrong.
    pub fn new(parameters: Parameters) -> Result<Self, LearnerError> {
        Rates::with(parameters, ServiceRates::default())
    }

    /// One that continues from earlier knowledge.
    ///
    /// # Errors
    /// A parameter is wrong.
    pub fn with(parameters: Parameters, known: ServiceRates) -> Result<Self, LearnerError> {
        parameters.validate()?;
        Ok(Rates { parameters, weights: parameters.first_weights(), known })
    }

    /// Use of processors and accelerators that is to be expected.
    fn expected(&self, o: &Observation, accelerator: u32) -> Option<(f64, f64)> {
        let n = o.accelerator_percent.len() as f64 / o.cpu_percent.len().max(1) as f64;
        let parts = f64::from(self.weights.cpu) + n * f64::from(accelerator);
        let share = |w: u32| o.offered_per_s() * f64::from(w) / parts.max(1e-9);
        let cpu = 100.0 * share(self.weights.cpu) / self.known.cpu.per_s?;
        let other = match (accelerator, self.known.accelerator.per_s) {
            (0, _) => 0.0,
            (w, Some(c)) => 100.0 * share(w) / c,
            // Nothing is known: the least may be tried.
            (1, None) => 0.0,
            (_, None) => return None,
        };
        Some((cpu, other))
    }

    fn choose(&self, o: &Observation) -> u32 {
        let mut best = (f64::INFINITY, self.weights.accelerator);
        for w in 0..=self.parameters.max_weight {
            let Some((cpu, other)) = self.expected(o, w) else { continue };
            let slack = if w < self.weights.accelerator { SLACK } else { 0.0 };
            let limit = self.known.target_percent - slack;
            if cpu <= limit && other <= self.known.target_percent {
                return w;
            }
            // None is good: take the least bad.
            if cpu.max(other) < best.0 {
                best = (cpu.max(other), w);
            }
        }
        best.1
    }
}

impl Weigher for Rates {
    fn weights(&self) -> Weights {
        self.weights
    }

    fn set_weights(&mut self, weights: Weights) {
        self.weights = weights;
    }

    fn knowledge(&self) -> Option<Knowledge> {
        Some(Knowledge::Rates(self.known.clone()))
    }

    fn updates(&self) -> u64 {
        self.known.updates
    }

    fn step(&mut self, o: &Observation, _: &mut dyn FnMut() -> f64) -> Step {
        let p = self.parameters;
        let verdict = p.judge(o, self.weights);
        self.known.updates = self.known.updates.saturating_add(1);
        self.known.cpu.learn(o.cpu_per_s, o.cpu_mean_percent());
        self.known.accelerator.learn(o.accelerator_per_s, o.accelerator_mean_percent());
        let near = o.cpu_mean_percent() > self.known.target_percent - 15.0;
        if o.p99_ms > p.latency_ms && near && o.cpu_mean_percent() <= self.known.target_percent {
            self.known.target_percent = (self.known.target_percent - DOWN).max(TARGET.1);
        } else if o.p99_ms < 0.8 * p.latency_ms && near {
            self.known.target_percent = (self.known.target_percent + UP).min(TARGET.2);
        }
        self.weights.accelerator = self.choose(o);
        Step { weights: self.weights, verdict, reward: Some(p.reward(verdict)) }
    }
}
