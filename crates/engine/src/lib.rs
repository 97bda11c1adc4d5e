//! The fast executor: it compiles a typed program to native code with Cranelift.
//!
//! It does exactly what the interpreter (`pointsman-interp`) does, which is its oracle and lists the behaviour where
//! P4_16 leaves a choice. How code is generated: see `generate/mod.rs`, the layout of values:
//! `layout.rs`.
//!
//! # Requirements on the architecture
//!
//! The contract is the interpreter's, with optional additions:
//! - `Known`, when a program is loaded: the meanings of externs, so that registers, counters, checksums and hashes
//!   become code instead of calls (`generate/known.rs`), on the cells that [`Env::cells`] lends.
//! - [`Env::tables`]: tables that native code looks up by itself (`generate/table.rs`).
//! - [`Env::call_flat`]: any other extern call whose arguments are all numbers, or one struct of numbers, which is then
//!   passed as the bits for a hash or checksum. Other calls are made with `Value`s.
//!
//! # Looking ahead
//!
//! For programs with much memory, a second function determines which addresses a packet will need
//! (`generate/ahead.rs`); [`Executor::prefetch_pass`] and [`Executor::prefetch`] run it over a batch. `foresight.rs`
//! determines whether that pays off at the moment. For measurements, and the gain of each step, see docs/engine.md.
//!
//! # Workers
//!
//! An `Engine` can be shared: code and layouts never change, and a run only writes to its frame, or to cells, whose
//! rules are the architecture's.
//!
//! # Memory safety
//!
//! Generated code touches these kinds of memory: the packet's frame and scratch memory (one piece, allocated here, in
//! the size of the layout and the code, and checked before each run), the packet (every access behind a comparison with
//! its length), the emitted bytes (behind a comparison with their capacity) and constants, which belong to the code and
//! live as long. Stack indices are checked by the code. So are the indices of cells, and the places of hits. The architecture guarantees
//! that arrays have the announced shapes, and that flat tables are as described. It calls the functions of `runtime.rs`,
//! which never unwind into it.

mod code;
mod foresight;
mod frame;
mod generate;
mod layout;
mod limbs;
mod make;
mod memory;
mod run;
mod runtime;
mod survey;

use code::Code;
use cranelift_codegen::isa::OwnedTargetIsa;
pub use frame::{Field, Frame};
use frame::{number, put};
use generate::{Cold, Entry};
use layout::{Layouts, Scalar, Shape};
use make::{check_loadable, isa};
use memory::{Spot, bytes, bytes_mut};
use pointsman_ir::{
    Bits, CellArray, CellPlace, Coming, ControlId, ControlOutcome, Convoy, CoreErrors, Env, Executor, Known,
    LoadError, Param, ParseOutcome, ParserId, Pass, PassStep, Program, Spans, TypeId, Value,
};
use runtime::{Ctx, status};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Packets whose memory is fetched together: their frames must stay in the fastest cache meanwhile.
const AT_ONCE: usize = 8;

/// A table of more bytes than this does not stay in the caches.
const LARGE_TABLE: usize = 1 << 26;

/// Words in front of the slots.
const HEAD: usize = 26;

const _: () = assert!(size_of::<Ctx<'static>>() <= 8 * HEAD);

/// Runs one program as native code.
pub struct Engine {
    program: Arc<Program>,
    layouts: Layouts,
    /// Types of the frame's slots, and their positions.
    slots: Vec<TypeId>,
    offsets: Vec<u32>,
    /// Their bytes: the first, and the one behind the last.
    spans: Vec<(usize, usize)>,
    /// Words of a frame up to the end of its slots.
    words: usize,
    /// Words of a frame, or of the memory that any other block is run on, up to where scratch memory begins.
    top: usize,
    errors: CoreErrors,
    known: Known,
    /// Something is noted about hits of tables.
    notes: bool,
    places: Vec<CellPlace>,
    /// Empty arrays, as many as there are extern objects.
    no_cells: Vec<CellArray>,
    survey: survey::Survey,
    zeros: Box<[u64]>,
    isa: OwnedTargetIsa,
    cold: Cold,
    parsers: Vec<Block>,
    controls: Vec<Block>,
    /// The passes that the architecture announced, if the first of them can be compiled: then the code of its blocks is compiled
    /// when they are needed separately.
    passes: Vec<PassCode>,
    /// See [`Executor::make_on_demand`].
    on_demand: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// A parser or control that an architecture may run.
struct Block {
    /// Positions of its parameters in the memory that it is run on.
    params: Vec<u32>,
    /// That memory is a frame, parameter `i` in slot `i`.
    in_frame: bool,
    /// Made when it is first needed.
    code: OnceLock<Result<Code, LoadError>>,
    /// The same without cells, for an architecture that announced arrays and does not lend them.
    asking: OnceLock<Result<Code, LoadError>>,
    /// Looks ahead.
    ahead: Option<Code>,
}

/// Code of a pass.
#[derive(Default)]
struct PassCode {
    /// None if it cannot be compiled.
    code: OnceLock<Option<Code>>,
    /// Looks ahead, if that can gain anything. Made when everything else is.
    ahead: OnceLock<Option<Code>>,
    /// See [`Pass::resumes`].
    resumes: bool,
}

/// The blocks that a pass runs.
fn pass_entries(pass: &Pass) -> impl Iterator<Item = Entry> {
    pass.steps.iter().filter_map(|step| match step {
        PassStep::Parse(id, _) => Some(Entry::Parser(*id)),
        PassStep::Control(id) | PassStep::Emit(id, _) => Some(Entry::Control(*id)),
        _ => None,
    })
}

impl Block {
    /// Whether a frame is the memory that the block runs on, with its parameters in these slots.
    #[inline]
    fn runs_on(&self, slots: &[usize]) -> bool {
        let in_order = match slots {
            // The usual case for every packet.
            [a] => *a == 0,
            [a, b] => (*a, *b) == (0, 1),
            [a, b, c] => (*a, *b, *c) == (0, 1, 2),
            _ => slots.iter().enumerate().all(|(i, slot)| i == *slot),
        };
        self.in_frame && slots.len() == self.params.len() && in_order
    }
}

impl Executor for Engine {
    type Frame = Frame;
    type Field = Field;

    fn load(program: Arc<Program>, slots: &[TypeId]) -> Result<Self, LoadError> {
        Self::load_known(program, slots, &Known::default())
    }

    fn load_known(program: Arc<Program>, slots: &[TypeId], known: &Known) -> Result<Self, LoadError> {
        check_loadable(&program, slots)?;
        let types = &program.types;
        let layouts = Layouts::new(types);
        let area = |tys: &mut dyn Iterator<Item = TypeId>| {
            let (offsets, size) = layouts.area(tys);
            let offsets: Vec<u32> = offsets.iter().map(|o| o + 8 * HEAD as u32).collect();
            (offsets, HEAD + size as usize / 8)
        };
        let (offsets, words) = area(&mut slots.iter().copied());
        let ends = offsets.iter().zip(slots);
        let spans = ends.map(|(at, ty)| (*at as usize, (at + layouts.get(*ty).size) as usize)).collect();
        let mut top = words;
        let mut block = |params: &[Param]| {
            let in_frame = params.len() <= slots.len()
                && params.iter().zip(slots).all(|(p, s)| types.repr(p.ty) == types.repr(*s));
            let (own, words) = area(&mut params.iter().map(|p| p.ty));
            top = top.max(words);
            let params = if in_frame { offsets[..params.len()].to_vec() } else { own };
            Block { params, in_frame, code: OnceLock::new(), asking: OnceLock::new(), ahead: None }
        };
        let parsers = program.parsers.iter().map(|p| block(&p.frame.params)).collect();
        let controls = program.controls.iter().map(|c| block(&c.frame.params)).collect();
        let isa = isa()?;
        let mut engine = Engine {
            errors: CoreErrors::find(&program)?,
            known: known.clone(),
            notes: known.hits.iter().any(|shape| !shape.is_empty()),
            places: CellArray::places(&known.arrays),
            no_cells: known.arrays.iter().map(|_| CellArray::default()).collect(),
            survey: survey::Survey::new(&program, &layouts),
            zeros: vec![0; layouts.largest() as usize / 8 + 1].into_boxed_slice(),
            cold: Cold::new(&isa)?,
            isa,
            parsers,
            controls,
            passes: Vec::new(),
            on_demand: false,
            slots: slots.to_vec(),
            spans,
            words,
            top: top.next_multiple_of(2),
            offsets,
            layouts,
            program,
        };
        engine.passes = engine.make_passes();
        engine.compile_blocks()?;
        Ok(engine)
    }

    fn wants_tables(&self) -> bool {
        true
    }

    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn new_frame(&self) -> Frame {
        let blocks = || self.parsers.iter().chain(&self.controls);
        let codes = blocks().filter_map(|b| b.code.get()?.as_ref().ok());
        let codes = codes.chain(blocks().filter_map(|b| b.ahead.as_ref()));
        let words = codes.map(|c| c.words).max().unwrap_or(self.top);
        Frame { slots: vec![0; words], end: self.words, foresight: None, large: 0 }
    }

    fn reset(&self, frame: &mut Frame) {
        if let Some(values) = frame.slots.get_mut(HEAD..self.words) {
            values.fill(0);
        }
    }

    #[inline]
    fn reset_slot(&self, frame: &mut Frame, slot: usize) {
        if let Some((from, to)) = self.spans.get(slot)
            && let Some(value) = bytes_mut(&mut frame.slots).get_mut(*from..*to)
        {
            value.fill(0);
        }
    }

    fn field(&self, slot: usize, path: &[u32]) -> Option<Field> {
        let (mut ty, mut at) = (*self.slots.get(slot)?, *self.offsets.get(slot)?);
        for i in path {
            let Shape::Struct(fields) = &self.layouts.get(ty).shape else { return None };
            let (inner, offset) = fields.get(*i as usize)?;
            (ty, at) = (*inner, at + offset);
        }
        match self.layouts.get(ty).shape {
            Shape::Scalar(kind, width @ 1..=64) if kind != Scalar::String => {
                Some(Field { at, size: layout::scalar_size(width), mask: u64::MAX >> (64 - width) })
            }
            _ => None,
        }
    }

    #[inline]
    fn read(&self, frame: &Frame, field: Field) -> u64 {
        let (at, mem) = (field.at as usize, bytes(&frame.slots));
        // One load of the scalar's own size: a longer one would wait for what native code has just stored.
        match field.size {
            1 => mem.get(at).map_or(0, |b| u64::from(*b)),
            2 => number(mem, at).map_or(0, |b| u64::from(u16::from_le_bytes(b))),
            4 => number(mem, at).map_or(0, |b| u64::from(u32::from_le_bytes(b))),
            _ => number(mem, at).map_or(0, u64::from_le_bytes),
        }
    }

    #[inline]
    fn write(&self, frame: &mut Frame, field: Field, value: u64) {
        let (at, value, mem) = (field.at as usize, value & field.mask, bytes_mut(&mut frame.slots));
        match field.size {
            1 => put(mem, at, [value as u8]),
            2 => put(mem, at, (value as u16).to_le_bytes()),
            4 => put(mem, at, (value as u32).to_le_bytes()),
            _ => put(mem, at, value.to_le_bytes()),
        }
    }

    fn get(&self, frame: &Frame, slot: usize, path: &[u32]) -> Option<Bits> {
        let start = *self.offsets.get(slot)? as usize;
        let (ty, spot) = self.memory().find(self.slots[slot], start, path)?;
        (frame.end == self.words).then(|| self.memory().bits(bytes(&frame.slots), ty, spot))?
    }

    fn set(&self, frame: &mut Frame, slot: usize, path: &[u32], value: &Bits) -> bool {
        let Some(start) = self.offsets.get(slot) else { return false };
        // The usual case for every packet.
        if let (Shape::Struct(fields), [field]) = (&self.layouts.get(self.slots[slot]).shape, path)
            && let Some((ty, offset)) = fields.get(*field as usize)
            && let Shape::Scalar(Scalar::Bits, width @ 1..=64) = self.layouts.get(*ty).shape
        {
            let (at, size) = ((start + offset) as usize, layout::scalar_size(width) as usize);
            let value = (value.low_u64() & (u64::MAX >> (64 - width))).to_le_bytes();
            let place = bytes_mut(&mut frame.slots).get_mut(at..at + size);
            return place.is_some_and(|p| {
                p.copy_from_slice(&value[..size]);
                true
            });
        }
        let Some((ty, spot)) = self.memory().find(self.slots[slot], *start as usize, path) else {
            return false;
        };
        frame.end == self.words && self.memory().set_bits(bytes_mut(&mut frame.slots), ty, spot, value)
    }

    fn value(&self, frame: &Frame, slot: usize) -> Value {
        match self.offsets.get(slot) {
            Some(at) if frame.end == self.words => {
                self.memory().value(bytes(&frame.slots), self.slots[slot], Spot::Natural(*at as usize))
            }
            _ => Value::Void,
        }
    }

    fn spans(&self, fields: &[(usize, Vec<u32>)]) -> Option<Spans> {
        let mut spans = Spans::default();
        for (slot, path) in fields {
            let start = *self.offsets.get(*slot)? as usize;
            let (ty, Spot::Natural(at)) = self.memory().find(*self.slots.get(*slot)?, start, path)? else {
                return None;
            };
            self.layouts.add_spans(ty, at, &mut spans);
        }
        Some(spans)
    }

    fn copy_spans(&self, spans: &Spans, from: &Frame, to: &mut Frame) {
        let (from, to) = (bytes(&from.slots), bytes_mut(&mut to.slots));
        let mut copy = |span: Range<usize>| {
            if let (Some(from), Some(to)) = (from.get(span.clone()), to.get_mut(span)) {
                to.copy_from_slice(from);
            }
        };
        spans.bytes.iter().cloned().for_each(&mut copy);
        for at in &spans.varbits {
            let bits = number(from, *at).map_or(0, u64::from_le_bytes) as usize;
            copy(*at..at + 8 + bits.div_ceil(8));
        }
    }

    fn header_bits(&self, frame: &Frame, slot: usize) -> u64 {
        match self.offsets.get(slot) {
            Some(at) if frame.end == self.words => {
                self.memory().header_bits(bytes(&frame.slots), self.slots[slot], *at as usize)
            }
            _ => 0,
        }
    }

    fn set_value(&self, frame: &mut Frame, slot: usize, value: Value) {
        if let Some(at) = self.offsets.get(slot).filter(|_| frame.end == self.words) {
            let spot = Spot::Natural(*at as usize);
            self.memory().put(bytes_mut(&mut frame.slots), self.slots[slot], spot, &value);
        }
    }

    // Inlined, because arguments that are passed on through the stack have to wait for their own stores.
    #[inline(always)]
    fn parse(
        &self,
        parser: ParserId,
        slots: &[usize],
        frame: &mut Frame,
        packet: &[u8],
        env: &mut dyn Env,
    ) -> ParseOutcome {
        let mut emitted = Vec::new();
        let ran = self.run(Entry::Parser(parser), slots, frame, packet, &mut emitted, env);
        let accepted = ran.status == status::OK;
        ParseOutcome { accepted, error: if accepted { 0 } else { ran.error }, consumed_bits: ran.position }
    }

    fn lookahead(&self) -> usize {
        let passes = self.passes.first().is_some_and(|p| !matches!(p.ahead.get(), Some(None)));
        if passes || self.controls.iter().any(|c| c.ahead.is_some()) { AT_ONCE } else { 1 }
    }

    fn prefetch(&self, control: ControlId, slots: &[usize], frames: &mut [Frame], env: &mut dyn Env) {
        self.fetch_ahead(control, slots, frames, env);
    }

    #[inline]
    fn passes(&self, pass: usize) -> bool {
        self.pass_code(pass).is_some()
    }

    fn make_on_demand(&mut self) {
        self.on_demand = true;
    }

    fn complete(&self) {
        self.make_ahead_of_pass();
        for pass in 0..self.passes.len() {
            let _ = self.made_pass(pass);
        }
        for entry in self.package() {
            if let Some((block, _)) = self.block(entry) {
                let _ = self.code(entry, block);
            }
        }
    }

    fn foresees_pass(&self, frame: &mut Frame, env: &dyn Env) -> bool {
        let ahead = self.passes.first().and_then(|pass| pass.ahead.get()?.as_ref());
        ahead.is_some_and(|code| {
            let worth = code.large_arrays && frame.foresight.get_or_insert_default().begin_batch();
            frame.large = self.large_tables(code, env);
            worth || frame.large != 0
        })
    }

    fn prefetch_pass(&self, frame: &mut Frame, packets: &mut impl Coming) {
        self.fetch_ahead_of_pass(frame, packets);
    }

    #[inline(always)]
    fn pass(&self, frame: &mut Frame, packets: &mut impl Convoy) -> bool {
        self.run_passes(frame, packets)
    }

    // Inlined, because arguments that are passed on through the stack have to wait for their own stores.
    #[inline(always)]
    fn control(
        &self,
        control: ControlId,
        slots: &[usize],
        frame: &mut Frame,
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> ControlOutcome {
        let ran = self.run(Entry::Control(control), slots, frame, &[], emitted, env);
        ControlOutcome { exited: ran.status == status::EXIT }
    }
}
