//! Which code is made when, and where it is found.

use super::{Block, Engine, PassCode, pass_entries};
use crate::code::Code;
use crate::generate::{self, Entry, Source};
use crate::memory::Memory;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use pointsman_ir::{
    CellArray, ControlId, LoadError, MAX_TRANSITIONS, PackageArg, Param, Pass, Program, Type, TypeId, Types,
    verify,
};
use std::sync::OnceLock;

/// The machine that we run on.
pub(super) fn isa() -> Result<OwnedTargetIsa, LoadError> {
    let wrong = |e: &dyn std::fmt::Display| LoadError(format!("no native code on this machine: {e}"));
    if cfg!(target_endian = "big") {
        return Err(wrong(&"the machine must be little-endian"));
    }
    let mut flags = settings::builder();
    for (name, value) in [
        ("use_colocated_libcalls", "false"),
        ("is_pic", "false"),
        ("opt_level", "speed"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ("unwind_info", "false"),
        // Huge frames must not jump over the guard page of the stack.
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
    ] {
        flags.set(name, value).map_err(|e| wrong(&e))?;
    }
    let builder = cranelift_native::builder().map_err(|e| wrong(&e))?;
    builder.finish(settings::Flags::new(flags)).map_err(|e| wrong(&e))
}

/// Whether the program is valid, has the types of the slots, and can be compiled.
pub(super) fn check_loadable(program: &Program, slots: &[TypeId]) -> Result<(), LoadError> {
    let wrong = verify::verify(program);
    if !wrong.is_empty() {
        return Err(LoadError(wrong.join("\n")));
    }
    let types = &program.types;
    if let Some(ty) = slots.iter().find(|ty| !types.contains(**ty)) {
        return Err(LoadError(format!("a slot has type {}, which the program does not have", ty.0)));
    }
    // A packed field is found by its bit alone.
    let arrays = types.iter().find_map(|(_, ty)| match ty {
        Type::Header(d) if d.fields.iter().any(|f| has_array(types, f.ty)) => Some(&d.name),
        _ => None,
    });
    match arrays {
        Some(name) => {
            Err(LoadError(format!("header {name}: arrays in headers are not compiled to native code")))
        }
        None => Ok(()),
    }
}

/// Whether it contains an array.
fn has_array(types: &Types, ty: TypeId) -> bool {
    match types.repr_type(ty) {
        Type::Stack { .. } => true,
        Type::Struct(d) => d.fields.iter().any(|f| has_array(types, f.ty)),
        Type::Tuple(t) => t.iter().any(|t| has_array(types, *t)),
        _ => false,
    }
}

impl Engine {
    pub(super) fn memory(&self) -> Memory<'_> {
        Memory { layouts: &self.layouts, strings: &[] }
    }

    /// Whether arrays have the shapes and positions given by the architecture.
    pub(super) fn are_announced(&self, arrays: &[CellArray]) -> bool {
        let each = arrays.iter().zip(&self.known.arrays).zip(&self.places);
        each.into_iter().all(|((array, shape), place)| {
            array.len() == shape.len && array.stands_at(*place, &arrays[place.leader])
        })
    }

    pub(super) fn block(&self, entry: Entry) -> Option<(&Block, &[Param])> {
        match entry {
            Entry::Parser(id) => {
                Some((self.parsers.get(id.index())?, &self.program.parsers[id.index()].frame.params))
            }
            Entry::Control(id) => {
                Some((self.controls.get(id.index())?, &self.program.controls[id.index()].frame.params))
            }
        }
    }

    pub(super) fn code<'a>(&'a self, entry: Entry, block: &'a Block) -> &'a Result<Code, LoadError> {
        block.code.get_or_init(|| {
            let source = self.source(entry)?;
            generate::compile(&source, &self.isa, entry, &block.params, 8 * self.top as u32)
        })
    }

    pub(super) fn source(&self, entry: Entry) -> Result<Source<'_>, LoadError> {
        let statements = self.survey.check(&self.program, entry)?;
        Ok(Source {
            program: &self.program,
            layouts: &self.layouts,
            errors: self.errors,
            known: &self.known,
            places: &self.places,
            zeros: &self.zeros,
            cold: &self.cold,
            aligned: self.survey.aligned,
            counted: self.survey.cyclic || statements > u64::from(MAX_TRANSITIONS),
            loops: self.survey.loops,
        })
    }

    /// Code that looks ahead, for a control that is run on frames.
    fn make_ahead(&self, control: ControlId) -> Result<Option<Code>, LoadError> {
        match self.controls.get(control.index()) {
            Some(block) if block.in_frame && generate::may_look_ahead(&self.program, &self.known) => {
                let source = self.source(Entry::Control(control))?;
                generate::compile_ahead(&source, &self.isa, control, &block.params, 8 * self.top as u32)
            }
            _ => Ok(None),
        }
    }

    /// Code of a pass.
    fn make_pass(&self, pass: &Pass) -> Result<Option<Code>, LoadError> {
        let mut counted = false;
        for entry in pass_entries(pass) {
            // Slots are parameters only if they are in the frame.
            match self.block(entry) {
                Some((block, _)) if block.in_frame => counted |= self.source(entry)?.counted,
                _ => return Ok(None),
            }
        }
        let Some(first) = pass_entries(pass).next() else { return Ok(None) };
        let source = Source { counted, ..self.source(first)? };
        let (slots, at) = (self.places_of_slots(), 8 * self.top as u32);
        generate::compile_pass(&source, &self.isa, (pass, false), &slots, at)
    }

    /// The code of the first pass, and places for that of the others.
    pub(super) fn make_passes(&self) -> Vec<PassCode> {
        let Some(first) = self.known.passes.first() else { return Vec::new() };
        // If it cannot be compiled, its blocks are, or they return the error.
        let Ok(Some(code)) = self.make_pass(first) else { return Vec::new() };
        let ahead = OnceLock::new();
        if !generate::may_look_ahead(&self.program, &self.known) {
            let _ = ahead.set(None);
        }
        let first = PassCode { code: OnceLock::from(Some(code)), ahead, resumes: first.resumes };
        let other = |pass: &Pass| PassCode { resumes: pass.resumes, ..PassCode::default() };
        std::iter::once(first).chain(self.known.passes[1..].iter().map(other)).collect()
    }

    /// The code of a pass, which is made now if it has not been; `None` within if it cannot be compiled.
    #[cold]
    pub(super) fn made_pass(&self, pass: usize) -> Option<&Option<Code>> {
        let (made, pass) = (self.passes.get(pass)?, self.known.passes.get(pass)?);
        Some(made.code.get_or_init(|| self.make_pass(pass).ok().flatten()))
    }

    /// The code of a pass, if it has been made, and whether it resumes packets.
    #[inline]
    pub(super) fn pass_code(&self, pass: usize) -> Option<(&Code, bool)> {
        let made = self.passes.get(pass)?;
        let code = match made.code.get() {
            None if self.on_demand => self.made_pass(pass)?,
            code => code?,
        };
        Some((code.as_ref()?, made.resumes))
    }

    /// Compiles the blocks of the package, as far as a pass does not contain them.
    pub(super) fn compile_blocks(&mut self) -> Result<(), LoadError> {
        for entry in self.package() {
            // Blocks of a compiled pass can be compiled for sure, and are when they are needed separately.
            let apart = match (self.known.passes.first(), self.pass_code(0)) {
                (Some(pass), Some((code, _))) => !code.whole || !pass_entries(pass).any(|e| e == entry),
                _ => true,
            };
            if let Some((block, _)) = self.block(entry).filter(|_| apart) {
                self.code(entry, block).as_ref().map_err(Clone::clone)?;
            }
            if let (Entry::Control(id), None) = (entry, self.pass_code(0)) {
                let ahead = self.make_ahead(id)?;
                if let Some(block) = self.controls.get_mut(id.index()) {
                    block.ahead = ahead;
                }
            }
        }
        Ok(())
    }

    /// Code that looks ahead of the pass. It is never required, so errors in it do not matter.
    pub(super) fn make_ahead_of_pass(&self) {
        let (Some(made), Some(pass)) = (self.passes.first(), self.known.passes.first()) else { return };
        made.ahead.get_or_init(|| {
            let source = self.source(pass_entries(pass).next()?).ok()?;
            let at = 8 * self.top as u32;
            generate::compile_pass(&source, &self.isa, (pass, true), &self.places_of_slots(), at).ok()?
        });
    }

    fn places_of_slots(&self) -> Vec<(TypeId, u32)> {
        self.slots.iter().copied().zip(self.offsets.iter().copied()).collect()
    }

    /// The blocks that the package names.
    pub(super) fn package(&self) -> impl Iterator<Item = Entry> + use<> {
        let program = self.program.clone();
        (0..program.package.args.len()).filter_map(move |n| match &program.package.args[n].1 {
            PackageArg::Parser(id) => Some(Entry::Parser(*id)),
            PackageArg::Control(id) => Some(Entry::Control(*id)),
            _ => None,
        })
    }
}
