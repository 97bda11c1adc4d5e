//! Choice of the executor: native code, or the interpreter where requested or where a program cannot be compiled
//! to native code.

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::{
    Bits, Coming, ControlId, ControlOutcome, Convoy, Env, Executor, Known, LoadError, ParseOutcome, ParserId,
    Program, Spans, TypeId, Value,
};
use pointsman_v1model::{ConfigError, Switch, SwitchConfig};
use std::sync::Arc;

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
    /// Native code.
    Native(Engine),
    /// Interpreted, and why, if that was not the choice.
    Interpreted(Interp, Option<LoadError>),
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
            Runner::Native(_) => Choice::Engine,
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
            (Runner::Native($exec), Frame::Native($f)) => $call,
            (Runner::Interpreted($exec, _), Frame::Interpreted($f)) => $call,
            (_, other) => {
                *other = $self.new_frame();
                match ($self, other) {
                    (Runner::Native($exec), Frame::Native($f)) => $call,
                    (Runner::Interpreted($exec, _), Frame::Interpreted($f)) => $call,
                    _ => unreachable!("a runner's new frame is its own"),
                }
            }
        }
    };
    ($self:ident, $frame:ident, |$exec:ident, $f:ident| $call:expr, else $none:expr) => {
        match ($self, $frame) {
            (Runner::Native($exec), Frame::Native($f)) => $call,
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
            Ok(engine) => Ok(Runner::Native(engine)),
            Err(reason) => Ok(Runner::Interpreted(Interp::load_known(program, slots, known)?, Some(reason))),
        }
    }

    fn program(&self) -> &Arc<Program> {
        match self {
            Runner::Native(e) => e.program(),
            Runner::Interpreted(i, _) => i.program(),
        }
    }

    fn wants_tables(&self) -> bool {
        match self {
            Runner::Native(e) => e.wants_tables(),
            Runner::Interpreted(i, _) => i.wants_tables(),
        }
    }

    fn new_frame(&self) -> Frame {
        match self {
            Runner::Native(e) => Frame::Native(e.new_frame()),
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
            Runner::Native(e) => e.field(slot, path).map(Field::Native),
            Runner::Interpreted(i, _) => i.field(slot, path).map(Field::Interpreted),
        }
    }

    #[inline]
    fn read(&self, frame: &Frame, field: Field) -> u64 {
        match (self, frame, field) {
            (Runner::Native(e), Frame::Native(f), Field::Native(at)) => e.read(f, at),
            (Runner::Interpreted(i, _), Frame::Interpreted(f), Field::Interpreted(at)) => i.read(f, at),
            _ => 0,
        }
    }

    #[inline]
    fn write(&self, frame: &mut Frame, field: Field, value: u64) {
        match (self, frame, field) {
            (Runner::Native(e), Frame::Native(f), Field::Native(at)) => e.write(f, at, value),
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
            Runner::Native(e) => e.spans(fields),
            Runner::Interpreted(i, _) => i.spans(fields),
        }
    }

    #[inline]
    fn copy_spans(&self, spans: &Spans, from: &Frame, to: &mut Frame) {
        if let (Runner::Native(e), Frame::Native(from), Frame::Native(to)) = (self, from, to) {
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
        either!(self, mut frame, |e, f| e.parse(parser, slots, f, packet, env))
    }

    fn lookahead(&self) -> usize {
        match self {
            Runner::Native(e) => e.lookahead(),
            Runner::Interpreted(i, _) => i.lookahead(),
        }
    }

    fn passes(&self, pass: usize) -> bool {
        match self {
            Runner::Native(e) => e.passes(pass),
            Runner::Interpreted(i, _) => i.passes(pass),
        }
    }

    fn make_on_demand(&mut self) {
        match self {
            Runner::Native(e) => e.make_on_demand(),
            Runner::Interpreted(i, _) => i.make_on_demand(),
        }
    }

    fn complete(&self) {
        match self {
            Runner::Native(e) => e.complete(),
            Runner::Interpreted(i, _) => i.complete(),
        }
    }

    fn foresees_pass(&self, frame: &mut Frame, env: &dyn Env) -> bool {
        match (self, frame) {
            (Runner::Native(e), Frame::Native(f)) => e.foresees_pass(f, env),
            _ => false,
        }
    }

    fn prefetch_pass(&self, frame: &mut Frame, packets: &mut impl Coming) {
        if let (Runner::Native(e), Frame::Native(f)) = (self, frame) {
            e.prefetch_pass(f, packets);
        }
    }

    #[inline(always)]
    fn pass(&self, frame: &mut Frame, packets: &mut impl Convoy) -> bool {
        match (self, frame) {
            (Runner::Native(e), Frame::Native(f)) => e.pass(f, packets),
            _ => packets.next().is_none(),
        }
    }

    fn prefetch(&self, control: ControlId, slots: &[usize], frames: &mut [Frame], env: &mut dyn Env) {
        let Runner::Native(engine) = self else { return };
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
        either!(self, mut frame, |e, f| e.control(control, slots, f, emitted, env))
    }
}
