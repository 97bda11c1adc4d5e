//! Choice of the executor: native code, or the interpreter where requested or where a program cannot be compiled
//! to native code.

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::{
    Bits, Coming, ControlId, ControlOutcome, Convoy, Env, Executor, Known, LoadError, ParseOutcome, ParserId,
    Program, Spans, TypeId, Value,
};
use pointsman_v1model::{ConfigError, Switch, SwitchConfig};
use std::sync::{Arc, OnceLock};

/// The argument of `--executor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// Native code; programs that cannot be compiled are interpreted, with a warning.
    #[default]
    Engine,
    /// The interpreter: slow; the reference for the engine.
    Interp,
}

impl Choice {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Engine => "engine",
            Choice::Interp => "interp",
        }
    }

    /// A switch that runs its programs so.
    ///
    /// # Errors
    /// The configuration is wrong.
    pub fn switch(self, config: SwitchConfig) -> Result<Switch<Runner>, ConfigError> {
        match self {
            Choice::Engine => Switch::with_loader(config, Runner::load_known),
            Choice::Interp => Switch::with_loader(config, Runner::interpreted),
        }
    }
}

/// Runs one program, as native code or interpreted.
#[allow(clippy::large_enum_variant, reason = "there is one per program")]
pub enum Runner {
    /// Native code, and what runs packets whose statements are reported.
    Native(Engine, Stepwise),
    /// Interpreted, and why, if that was not the choice.
    Interpreted(Interp, Option<LoadError>),
}

/// The interpreter of a program that is native code otherwise: for traced packets, since native code does not report single
/// statements. It is made for the first of them.
pub struct Stepwise {
    program: Arc<Program>,
    slots: Vec<TypeId>,
    interp: OnceLock<Option<Interp>>,
}

impl Stepwise {
    fn new(program: Arc<Program>, slots: &[TypeId]) -> Self {
        Stepwise { program, slots: slots.to_vec(), interp: OnceLock::new() }
    }

    /// Runs a block whose variables are these slots, if the interpreter takes the program.
    fn run<R>(
        &self,
        engine: &Engine,
        slots: &[usize],
        frame: &mut pointsman_engine::Frame,
        block: impl FnOnce(&Interp, &mut pointsman_interp::Frame) -> R,
    ) -> Option<R> {
        let load = || Interp::load(self.program.clone(), &self.slots).ok();
        let interp = self.interp.get_or_init(load).as_ref()?;
        let mut values = interp.new_frame();
        for slot in slots {
            interp.set_value(&mut values, *slot, engine.value(frame, *slot));
        }
        let result = block(interp, &mut values);
        for slot in slots {
            engine.set_value(frame, *slot, interp.value(&values, *slot));
        }
        Some(result)
    }
}

impl Runner {
    /// Loads a program for the interpreter.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn interpreted(program: Arc<Program>, slots: &[TypeId], known: &Known) -> Result<Self, LoadError> {
        Ok(Runner::Interpreted(Interp::load_known(program, slots, known)?, None))
    }

    /// A warning for the user if the program is interpreted although it was to be native code.
    pub fn warning(&self) -> Option<String> {
        match self {
            Runner::Interpreted(_, Some(reason)) => {
                Some(format!("the program is interpreted, which is slow: {reason}"))
            }
            _ => None,
        }
    }

    /// How the program runs.
    pub fn choice(&self) -> Choice {
        match self {
            Runner::Native(..) => Choice::Engine,
            Runner::Interpreted(..) => Choice::Interp,
        }
    }
}

/// The variables of one packet, as its executor keeps them.
pub enum Frame {
    /// Flat bytes.
    Native(pointsman_engine::Frame),
    /// Values.
    Interpreted(pointsman_interp::Frame),
}

impl Clone for Frame {
    fn clone(&self) -> Self {
        match self {
            Frame::Native(f) => Frame::Native(f.clone()),
            Frame::Interpreted(f) => Frame::Interpreted(f.clone()),
        }
    }

    fn clone_from(&mut self, other: &Self) {
        match (self, other) {
            (Frame::Native(to), Frame::Native(from)) => to.clone_from(from),
            (Frame::Interpreted(to), Frame::Interpreted(from)) => to.clone_from(from),
            (to, from) => *to = from.clone(),
        }
    }
}

/// A scalar in a frame, as its executor finds it.
#[derive(Clone, Copy)]
pub enum Field {
    /// In flat bytes.
    Native(<Engine as Executor>::Field),
    /// Among values.
    Interpreted(<Interp as Executor>::Field),
}

/// Calls the same method of whichever executor it is. A frame of the other one, which no architecture should have, is
/// replaced by a new one first (`mut`) or not looked at (`else`).
macro_rules! either {
    ($self:ident, mut $frame:ident, |$exec:ident, $f:ident| $call:expr) => {
        match ($self, &mut *$frame) {
            (Runner::Native($exec, _), Frame::Native($f)) => $call,
            (Runner::Interpreted($exec, _), Frame::Interpreted($f)) => $call,
            (_, other) => {
                *other = $self.new_frame();
                match ($self, other) {
                    (Runner::Native($exec, _), Frame::Native($f)) => $call,
                    (Runner::Interpreted($exec, _), Frame::Interpreted($f)) => $call,
                    _ => unreachable!("a runner's new frame is its own"),
                }
            }
        }
    };
    ($self:ident, $frame:ident, |$exec:ident, $f:ident| $call:expr, else $none:expr) => {
        match ($self, $frame) {
            (Runner::Native($exec, _), Frame::Native($f)) => $call,
            (Runner::Interpreted($exec, _), Frame::Interpreted($f)) => $call,
            _ => $none,
        }
    };
}

impl Executor for Runner {
    type Frame = Frame;
    type Field = Field;

    fn load(program: Arc<Program>, slots: &[TypeId]) -> Result<Self, LoadError> {
        Self::load_known(program, slots, &Known::default())
    }

    fn load_known(program: Arc<Program>, slots: &[TypeId], known: &Known) -> Result<Self, LoadError> {
        match Engine::load_known(program.clone(), slots, known) {
            Ok(engine) => Ok(Runner::Native(engine, Stepwise::new(program, slots))),
            Err(reason) => Ok(Runner::Interpreted(Interp::load_known(program, slots, known)?, Some(reason))),
        }
    }

    fn program(&self) -> &Arc<Program> {
        match self {
            Runner::Native(e, _) => e.program(),
            Runner::Interpreted(i, _) => i.program(),
        }
    }

    fn wants_tables(&self) -> bool {
        match self {
            Runner::Native(e, _) => e.wants_tables(),
            Runner::Interpreted(i, _) => i.wants_tables(),
        }
    }

    fn new_frame(&self) -> Frame {
        match self {
            Runner::Native(e, _) => Frame::Native(e.new_frame()),
            Runner::Interpreted(i, _) => Frame::Interpreted(i.new_frame()),
        }
    }

    #[inline]
    fn reset(&self, frame: &mut Frame) {
        either!(self, mut frame, |e, f| e.reset(f));
    }

    #[inline]
    fn reset_slot(&self, frame: &mut Frame, slot: usize) {
        either!(self, mut frame, |e, f| e.reset_slot(f, slot));
    }

    fn field(&self, slot: usize, path: &[u32]) -> Option<Field> {
        match self {
            Runner::Native(e, _) => e.field(slot, path).map(Field::Native),
            Runner::Interpreted(i, _) => i.field(slot, path).map(Field::Interpreted),
        }
    }

    #[inline]
    fn read(&self, frame: &Frame, field: Field) -> u64 {
        match (self, frame, field) {
            (Runner::Native(e, _), Frame::Native(f), Field::Native(at)) => e.read(f, at),
            (Runner::Interpreted(i, _), Frame::Interpreted(f), Field::Interpreted(at)) => i.read(f, at),
            _ => 0,
        }
    }

    #[inline]
    fn write(&self, frame: &mut Frame, field: Field, value: u64) {
        match (self, frame, field) {
            (Runner::Native(e, _), Frame::Native(f), Field::Native(at)) => e.write(f, at, value),
            (Runner::Interpreted(i, _), Frame::Interpreted(f), Field::Interpreted(at)) => {
                i.write(f, at, value)
            }
            _ => {}
        }
    }

    #[inline]
    fn get(&self, frame: &Frame, slot: usize, path: &[u32]) -> Option<Bits> {
        either!(self, frame, |e, f| e.get(f, slot, path), else None)
    }

    #[inline]
    fn set(&self, frame: &mut Frame, slot: usize, path: &[u32], value: &Bits) -> bool {
        either!(self, mut frame, |e, f| e.set(f, slot, path, value))
    }

    fn value(&self, frame: &Frame, slot: usize) -> Value {
        either!(self, frame, |e, f| e.value(f, slot), else Value::Void)
    }

    fn spans(&self, fields: &[(usize, Vec<u32>)]) -> Option<Spans> {
        match self {
            Runner::Native(e, _) => e.spans(fields),
            Runner::Interpreted(i, _) => i.spans(fields),
        }
    }

    #[inline]
    fn copy_spans(&self, spans: &Spans, from: &Frame, to: &mut Frame) {
        if let (Runner::Native(e, _), Frame::Native(from), Frame::Native(to)) = (self, from, to) {
            e.copy_spans(spans, from, to);
        }
    }

    fn header_bits(&self, frame: &Frame, slot: usize) -> u64 {
        either!(self, frame, |e, f| e.header_bits(f, slot), else 0)
    }

    fn set_value(&self, frame: &mut Frame, slot: usize, value: Value) {
        either!(self, mut frame, |e, f| e.set_value(f, slot, value));
    }

    #[inline]
    fn parse(
        &self,
        parser: ParserId,
        slots: &[usize],
        frame: &mut Frame,
        packet: &[u8],
        env: &mut dyn Env,
    ) -> ParseOutcome {
        if let (Runner::Native(e, stepwise), Frame::Native(f)) = (self, &mut *frame)
            && env.tracing()
            && let Some(outcome) = stepwise.run(e, slots, f, |i, f| i.parse(parser, slots, f, packet, env))
        {
            return outcome;
        }
        either!(self, mut frame, |e, f| e.parse(parser, slots, f, packet, env))
    }

    fn lookahead(&self) -> usize {
        match self {
            Runner::Native(e, _) => e.lookahead(),
            Runner::Interpreted(i, _) => i.lookahead(),
        }
    }

    fn passes(&self, pass: usize) -> bool {
        match self {
            Runner::Native(e, _) => e.passes(pass),
            Runner::Interpreted(i, _) => i.passes(pass),
        }
    }

    fn make_on_demand(&mut self) {
        match self {
            Runner::Native(e, _) => e.make_on_demand(),
            Runner::Interpreted(i, _) => i.make_on_demand(),
        }
    }

    fn complete(&self) {
        match self {
            Runner::Native(e, _) => e.complete(),
            Runner::Interpreted(i, _) => i.complete(),
        }
    }

    fn foresees_pass(&self, frame: &mut Frame, env: &dyn Env) -> bool {
        match (self, frame) {
            (Runner::Native(e, _), Frame::Native(f)) => e.foresees_pass(f, env),
            _ => false,
        }
    }

    fn prefetch_pass(&self, frame: &mut Frame, packets: &mut impl Coming) {
        if let (Runner::Native(e, _), Frame::Native(f)) = (self, frame) {
            e.prefetch_pass(f, packets);
        }
    }

    #[inline(always)]
    fn pass(&self, frame: &mut Frame, packets: &mut impl Convoy) -> bool {
        match (self, frame) {
            (Runner::Native(e, _), Frame::Native(f)) => e.pass(f, packets),
            _ => packets.next().is_none(),
        }
    }

    fn prefetch(&self, control: ControlId, slots: &[usize], frames: &mut [Frame], env: &mut dyn Env) {
        let Runner::Native(engine, _) = self else { return };
        // A row of native frames for this call: a frame is a small handle, and its memory does not move.
        let mut native = Vec::with_capacity(frames.len());
        native.extend(frames.iter_mut().filter_map(|frame| match frame {
            Frame::Native(f) => Some(std::mem::take(f)),
            Frame::Interpreted(_) => None,
        }));
        engine.prefetch(control, slots, &mut native, env);
        let mut native = native.into_iter();
        for frame in frames.iter_mut() {
            if let Frame::Native(f) = frame {
                *f = native.next().unwrap_or_default();
            }
        }
    }

    #[inline]
    fn control(
        &self,
        control: ControlId,
        slots: &[usize],
        frame: &mut Frame,
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> ControlOutcome {
        if let (Runner::Native(e, stepwise), Frame::Native(f)) = (self, &mut *frame)
            && env.tracing()
            && let Some(outcome) =
                stepwise.run(e, slots, f, |i, f| i.control(control, slots, f, emitted, env))
        {
            return outcome;
        }
        either!(self, mut frame, |e, f| e.control(control, slots, f, emitted, env))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{Sources, balancer};
    use pointsman_ir::trace::Traced;
    use pointsman_v1model::trace::{Follow, StepKind, TraceStep};
    use pointsman_v1model::{Arrived, Keep, Output, Pipeline, Time};

    /// The steps of a SYN through the built-in program, and what leaves.
    fn followed(choice: Choice) -> (Vec<TraceStep>, Vec<Output>) {
        let compiled = crate::compile("balancer", &balancer(), &Sources::default(), &[]);
        let program = compiled.map_err(|e| crate::rendered(&e)).expect("it compiles").program;
        let config = SwitchConfig { cpu_port: Some(510), ..SwitchConfig::default() };
        let mut switch = choice.switch(config).expect("settings");
        let pipeline = Pipeline::load(program).expect("a program");
        switch.set_pipeline(Time::ZERO, pipeline, Keep::Nothing).expect("it runs");
        let wants = Arc::new(|_, _: &[u8]| true);
        switch.follow(Some(Follow { wants, left: Arc::new(9.into()), per_s: 9 }));
        let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        packet.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0x64, 0xcc, 10, 0, 1, 1, 10, 0, 1, 2]);
        packet.extend([0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 9, 0, 0, 0, 0]);
        let mut out = Vec::new();
        let mut batch = [Arrived { port: 1, buffer: &mut packet, start: 0 }];
        switch.process(Time(1), 64, &mut batch, &mut out);
        (switch.take_followed().expect("it has left").steps, out)
    }

    /// Native code does not report statements: the interpreter runs followed packets, with the same result.
    #[test]
    fn followed_packets_are_interpreted() {
        let (engine, interp) = (followed(Choice::Engine), followed(Choice::Interp));
        let lookup =
            |s: &TraceStep| matches!(&s.what, StepKind::Inside(e) if matches!(e.what, Traced::Lookup { .. }));
        assert!(engine.0.iter().any(lookup), "{:?}", engine.0);
        assert_eq!(engine, interp);
    }
}
