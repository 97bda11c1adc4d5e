//! A guard around a learner: where latency or loss crosses a bound, safe weights take over for a while; and weights never
//! change by more than so much at once.

use super::{Observation, Step, Weigher, Weights};

/// What a guard does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Largest latency (99th percentile).
    pub p99_ms: f64,
    /// Largest share of lost requests, 0 to 1.
    pub loss: f64,
    /// Weight of accelerators that takes over.
    pub fallback: u32,
    /// For so many intervals.
    pub hold: u32,
    /// Largest change of the weight of accelerators at once.
    pub max_change: u32,
}

/// A guarded learner.
pub struct Guard {
    inner: Box<dyn Weigher>,
    bounds: Bounds,
    weights: Weights,
    holding: u32,
    interventions: u64,
}

impl Guard {
    /// Around a learner.
    pub fn new(inner: Box<dyn Weigher>, bounds: Bounds) -> Self {
        let weights = inner.weights();
        Guard { inner, bounds, weights, holding: 0, interventions: 0 }
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
        // The learner learns in any case: it is told what was in force.
        self.inner.set_weights(self.weights);
        let mut step = self.inner.step(o, random);
        let crossed = o.p99_ms > self.bounds.p99_ms || o.loss > self.bounds.loss;
        let safe = Weights { accelerator: self.bounds.fallback, ..self.weights };
        if crossed && self.weights != safe && self.holding == 0 {
            self.holding = self.bounds.hold;
            self.interventions += 1;
        }
        let wanted = if self.holding > 0 { safe } else { step.weights };
        self.holding = self.holding.saturating_sub(1);
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

    fn interventions(&self) -> u64 {
        self.interventions
    }
}
