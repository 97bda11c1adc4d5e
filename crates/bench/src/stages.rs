//! Time per stage of a packet: an executor that measures another one.

use pointsman_ir::{
    Bits, ControlId, ControlOutcome, Env, Executor, Known, LoadError, ParseOutcome, ParserId, Program,
    TypeId, Value,
};
use std::cell::Cell;
use std::sync::{Arc, OnceLock};

/// Nanoseconds since whenever.
pub type Clock = fn() -> u64;

/// Runs a program with `E` and measures how long each block takes, once enabled.
pub struct Timed<E> {
    inner: E,
    clock: OnceLock<Clock>,
    parser: Cell<Spent>,
    /// By control.
    controls: Vec<Cell<Spent>>,
}

/// All runs of a block together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Nanoseconds of those that were not interrupted.
    pub ns: u64,
    /// Number of uninterrupted runs; each costs two readings of the clock.
    pub runs: u64,
    /// Number of interrupted runs.
    pub interrupted: u64,
}

/// A block that took this many nanoseconds was interrupted.
const INTERRUPTED_NS: u64 = 100_000;

impl Spent {
    /// Nanoseconds of all runs, without the cost of the clock.
    pub fn total(self, clock_ns: f64) -> f64 {
        let each = (self.ns as f64 / self.runs.max(1) as f64 - clock_ns).max(0.0);
        each * (self.runs + self.interrupted) as f64
    }
}

impl<E: Executor> Timed<E> {
    /// Takes an executor that has loaded its program.
    pub fn new(inner: E) -> Self {
        let controls = vec![Cell::default(); inner.program().controls.len()];
        Timed { inner, clock: OnceLock::new(), parser: Cell::default(), controls }
    }

    /// Measures from now on.
    pub fn start(&self, clock: Clock) {
        // The first clock stays.
        let _ = self.clock.set(clock);
    }

    /// Time in parsers.
    pub fn parser(&self) -> Spent {
        self.parser.get()
    }

    /// Time in a control.
    pub fn control(&self, control: ControlId) -> Spent {
        self.controls.get(control.index()).map(Cell::get).unwrap_or_default()
    }

    #[inline]
    fn measure<R>(&self, place: Option<&Cell<Spent>>, run: impl FnOnce() -> R) -> R {
        let (Some(clock), Some(place)) = (self.clock.get(), place) else { return run() };
        let start = clock();
        let result = run();
        let took = clock().saturating_sub(start);
        let mut spent = place.get();
        if took < INTERRUPTED_NS {
            spent.ns += took;
            spent.runs += 1;
        } else {
            spent.interrupted += 1;
        }
        place.set(spent);
        result
    }
}

impl<E: Executor> Executor for Timed<E> {
    type Frame = E::Frame;
    type Field = E::Field;

    fn load(program: Arc<Program>, slots: &[TypeId]) -> Result<Self, LoadError> {
        E::load(program, slots).map(Timed::new)
    }

    fn load_known(program: Arc<Program>, slots: &[TypeId], known: &Known) -> Result<Self, LoadError> {
        E::load_known(program, slots, known).map(Timed::new)
    }

    fn program(&self) -> &Arc<Program> {
        self.inner.program()
    }

    fn wants_tables(&self) -> bool {
        self.inner.wants_tables()
    }

    fn new_frame(&self) -> E::Frame {
        self.inner.new_frame()
    }

    fn reset(&self, frame: &mut E::Frame) {
        self.inner.reset(frame);
    }

    fn reset_slot(&self, frame: &mut E::Frame, slot: usize) {
        self.inner.reset_slot(frame, slot);
    }

    fn field(&self, slot: usize, path: &[u32]) -> Option<E::Field> {
        self.inner.field(slot, path)
    }

    fn read(&self, frame: &E::Frame, field: E::Field) -> u64 {
        self.inner.read(frame, field)
    }

    fn write(&self, frame: &mut E::Frame, field: E::Field, value: u64) {
        self.inner.write(frame, field, value);
    }

    fn get(&self, frame: &E::Frame, slot: usize, path: &[u32]) -> Option<Bits> {
        self.inner.get(frame, slot, path)
    }

    fn set(&self, frame: &mut E::Frame, slot: usize, path: &[u32], value: &Bits) -> bool {
        self.inner.set(frame, slot, path, value)
    }

    fn value(&self, frame: &E::Frame, slot: usize) -> Value {
        self.inner.value(frame, slot)
    }

    fn set_value(&self, frame: &mut E::Frame, slot: usize, value: Value) {
        self.inner.set_value(frame, slot, value);
    }

    fn parse(
        &self,
        parser: ParserId,
        slots: &[usize],
        frame: &mut E::Frame,
        packet: &[u8],
        env: &mut dyn Env,
    ) -> ParseOutcome {
        self.measure(Some(&self.parser), || self.inner.parse(parser, slots, frame, packet, env))
    }

    fn lookahead(&self) -> usize {
        self.inner.lookahead()
    }

    fn prefetch(&self, control: ControlId, slots: &[usize], frames: &mut [E::Frame], env: &mut dyn Env) {
        // It is part of the control's time.
        self.measure(self.controls.get(control.index()), || self.inner.prefetch(control, slots, frames, env));
    }

    fn control(
        &self,
        control: ControlId,
        slots: &[usize],
        frame: &mut E::Frame,
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> ControlOutcome {
        let place = self.controls.get(control.index());
        self.measure(place, || self.inner.control(control, slots, frame, emitted, env))
    }
}

/// Nanoseconds that pass between two readings of the clock with nothing in between: the least of many.
pub fn cost(clock: Clock) -> f64 {
    const TIMES: u64 = 1000;
    let pairs = |_| (0..TIMES).map(|_| (clock(), clock())).map(|(a, b)| b.saturating_sub(a)).sum::<u64>();
    (0..50).map(pairs).min().unwrap_or(0) as f64 / TIMES as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_do_not_count() {
        let check = |ns, runs, interrupted, want: f64| {
            assert_eq!(Spent { ns, runs, interrupted }.total(20.0), want);
        };
        check(5000, 100, 0, 3000.0);
        check(5000, 100, 10, 3300.0);
        check(500, 100, 0, 0.0);
        check(0, 0, 3, 0.0);
    }
}
