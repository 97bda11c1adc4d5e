//! A guard around a learner: if latency or loss crosses a bound, safe weights take over for a while; and weights never
//! change by more than a given step at once. If devices' capacities are known from observations, weights that would
//! exceed them are never tried.

use super::rates::Capacity;
use super::{Observation, Step, Weigher, Weights};

/// The settings of a guard.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Bounds {
    /// Largest latency (99th percentile).
    pub p99_ms: f64,
    /// Largest share of lost requests, 0 to 1.
    pub loss: f64,
    /// Weight of accelerators that takes over.
    pub fallback: u32,
    /// For this many intervals.
    pub hold: u32,
    /// Largest change of the weight of accelerators at once.
    pub max_change: u32,
    /// Weights that would make devices busier than this are not tried, if others would not.
    pub max_use_percent: Option<f64>,
}

/// A guarded learner.
pub struct Guard {
    inner: Box<dyn Weigher>,
    bounds: Bounds,
    weights: Weights,
    holding: u32,
    /// The weights in force are the safe ones.
    safe_now: bool,
    interventions: u64,
    cpu: Capacity,
    accelerator: Capacity,
}

impl Guard {
    /// Around a learner.
    pub fn new(inner: Box<dyn Weigher>, bounds: Bounds) -> Self {
        let weights = inner.weights();
        let (cpu, accelerator) = (Capacity::default(), Capacity::default());
        Guard { inner, bounds, weights, holding: 0, safe_now: false, interventions: 0, cpu, accelerator }
    }

    /// How busy the busier kind of device would be with this weight; `None` if unknown.
    fn expected_percent(&self, o: &Observation, accelerator: u32) -> Option<f64> {
        let n = o.accelerator_percent.len() as f64 / o.cpu_percent.len().max(1) as f64;
        let parts = f64::from(self.weights.cpu) + n * f64::from(accelerator);
        let share = |w: u32| o.offered_per_s() * f64::from(w) / parts.max(1e-9);
        let cpu = 100.0 * share(self.weights.cpu) / self.cpu.per_s?;
        if accelerator == 0 {
            return Some(cpu);
        }
        match self.accelerator.per_s {
            Some(capacity) => Some(cpu.max(100.0 * share(accelerator) / capacity)),
            // The least may be tried.
            None if accelerator == 1 => Some(cpu),
            None => None,
        }
    }

    /// The weight itself, or the nearest one that devices can bear.
    fn bearable(&self, o: &Observation, wanted: u32) -> u32 {
        let Some(limit) = self.bounds.max_use_percent else { return wanted };
        let all: Vec<(u32, Option<f64>)> =
            (0..=self.weights.cpu).map(|w| (w, self.expected_percent(o, w))).collect();
        let good = |e: &Option<f64>| e.is_some_and(|e| e <= limit);
        if self.cpu.per_s.is_none() || all.iter().any(|(w, e)| *w == wanted && good(e)) {
            return wanted;
        }
        let near = all.iter().filter(|(_, e)| good(e)).map(|(w, _)| *w).min_by_key(|w| w.abs_diff(wanted));
        // If none is good, the least bad one.
        let known = all.iter().filter_map(|(w, e)| Some((*w, (*e)?)));
        near.or_else(|| known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(w, _)| w)).unwrap_or(wanted)
    }
}

impl Weigher for Guard {
    fn weights(&self) -> Weights {
        self.weights
    }

    fn set_weights(&mut self, weights: Weights) {
        self.weights = weights;
        self.inner.set_weights(weights);
    }

    fn step(&mut self, o: &Observation, random: &mut dyn FnMut() -> f64) -> Step {
        // The learner learns in any case, from the weights in force.
        self.inner.set_weights(self.weights);
        let mut step = self.inner.step(o, random);
        let crossed = o.p99_ms > self.bounds.p99_ms || o.loss > self.bounds.loss;
        let safe = Weights { accelerator: self.bounds.fallback, ..self.weights };
        if crossed && self.weights != safe && self.holding == 0 {
            self.holding = self.bounds.hold;
            self.interventions += 1;
        }
        self.cpu.learn(o.cpu_per_s, o.cpu_mean_percent());
        self.accelerator.learn(o.accelerator_per_s, o.accelerator_mean_percent());
        self.safe_now = self.holding > 0;
        let mut wanted = if self.safe_now { safe } else { step.weights };
        self.holding = self.holding.saturating_sub(1);
        wanted.accelerator = self.bearable(o, wanted.accelerator);
        let now = self.weights.accelerator;
        let most = self.bounds.max_change;
        let accelerator = wanted.accelerator.clamp(now.saturating_sub(most), now.saturating_add(most));
        self.weights = Weights { accelerator, ..self.weights };
        step.weights = self.weights;
        step
    }

    fn table(&self) -> Option<&super::QTable> {
        self.inner.table()
    }

    fn knowledge(&self) -> Option<super::Knowledge> {
        self.inner.knowledge()
    }

    fn updates(&self) -> u64 {
        self.inner.updates()
    }

    fn interventions(&self) -> u64 {
        self.interventions
    }

    fn is_guarded_now(&self) -> bool {
        self.safe_now
    }
}
