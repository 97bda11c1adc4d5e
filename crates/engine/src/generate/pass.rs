//! A whole pass as one function ([`pointsman_ir::pass`]).
//!
//! The frame is a piece of the stack, which needs no register to be reached. Slots that are small structs of numbers
//! are never in memory: their fields are variables, so unread fields are never written, and values written once are
//! known. Only if the pass ends with a frame are they stored for the other blocks. A pass that resumes a packet works in
//! the frame where the packet is.
//!
//! The deparser writes the headers straight into the packet's buffer, the last one first, in front of the parser's
//! rest.

use super::place::{At, Place};
use super::{FLAGS, Flow, Gen, Scope};
use crate::layout::{Scalar, Shape};
use crate::runtime::{self, ACCEPTED, at, status};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value as V, types};
use pointsman_ir::pass::GIVEN;
use pointsman_ir::{
    ControlId, Direction, Expr, ExprKind, Frame, KeptFields, LValue, MAX_LOOP_ROUNDS, Pass, PassExit,
    PassField, PassStep, PassValue, Proj, Stmt, StmtKind, TypeId,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// More scratch memory than this does not go on the stack.
const MOST_STACK: u32 = 1 << 16;

/// Stacks of more elements are not put into the packet in place.
const UNROLLED: u32 = 16;

/// The state of a pass.
struct Slots<'a> {
    places: Vec<Place>,
    /// Their positions in a frame.
    types: &'a [(TypeId, u32)],
    stack: StackSlot,
    exits: BTreeMap<u32, (PassExit, Block)>,
}

impl Gen<'_, '_> {
    pub(super) fn whole_pass(&mut self, pass: &Pass, slots: &[(TypeId, u32)]) {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, self.scratch_at, 4);
        let stack = self.b.create_sized_stack_slot(data);
        let base = self.b.ins().stack_addr(types::I64, stack, 0);
        (self.frame, self.scratch) = (base, base);
        let ok = self.number(ACCEPTED);
        self.b.ins().store(FLAGS, ok, self.ctx, at::ERROR);
        let cleared = self.cleared_by_parser(pass);
        let mut places = Vec::with_capacity(slots.len());
        for (n, (ty, offset)) in slots.iter().enumerate() {
            let ty = self.repr(*ty);
            let in_frame = Place { ty, at: At::Mem { base: self.ctx, off: *offset as i32 } };
            let place = match self.is_plain(ty) {
                _ if pass.resumes => in_frame,
                true => self.fresh_undefined(ty),
                false if pass.suspends.is_some() || pass.holds.contains(&n) => in_frame,
                false => Place { ty, at: At::Mem { base, off: *offset as i32 } },
            };
            if pass.resumes || pass.holds.contains(&n) {
                self.copy(place, in_frame);
            } else if !cleared.contains(&n) {
                self.clear(place);
            }
            places.push(place);
        }
        let mut slots = Slots { places, types: slots, stack, exits: BTreeMap::new() };
        for step in &pass.steps {
            match self.ahead {
                Some(_) if !self.is_step_foreseen(step) => {}
                _ => self.step(&mut slots, step),
            }
        }
        let parsers = pass.steps.iter().filter(|s| matches!(s, PassStep::Parse(..))).count();
        if self.emits || parsers + usize::from(pass.resumes) > 1 {
            self.refuse("a pass parses once, and emits in one of its steps alone".into());
        }
        if self.ahead.is_some() {
            self.stop();
        } else {
            if let Some(kept) = pass.suspends {
                self.keep(pass.kept.get(kept), &slots);
            }
            let end = self.number(status::OK as u64);
            self.b.ins().return_(&[end]);
            self.exits(pass, &slots);
        }
        let abort = self.abort;
        self.start(abort);
        self.end_of_addresses();
        let panic = self.number(status::PANIC as u64);
        self.b.ins().return_(&[panic]);
        let (ret, fail) = (self.flow.ret, self.flow.fail);
        for unused in [ret, fail] {
            self.start(unused);
            let panic = self.number(status::PANIC as u64);
            self.b.ins().return_(&[panic]);
        }
        let size = self.scratch_at + self.scratch_most;
        if size > MOST_STACK {
            self.refuse(format!("its variables take {size} bytes, which is too much for the stack"));
        }
        self.b.func.sized_stack_slots[slots.stack].size = size;
    }

    /// Whether a step may be left out while we look ahead. Emitted headers, reports and requests do not affect the other steps.
    fn is_step_foreseen(&self, step: &PassStep) -> bool {
        matches!(
            step,
            PassStep::Set(..) | PassStep::Parse(..) | PassStep::Control(_) | PassStep::ExitIf { .. }
        )
    }

    /// Slots that the first parser sets to their default values before anything else looks at them.
    fn cleared_by_parser(&self, pass: &Pass) -> Vec<usize> {
        for step in &pass.steps {
            match step {
                PassStep::Set(..) => {}
                PassStep::Parse(id, _) => {
                    let params = &self.s.program.parsers[id.index()].frame.params;
                    let out = params.iter().enumerate().filter(|(_, p)| p.direction == Direction::Out);
                    return out.map(|(n, _)| n).collect();
                }
                _ => break,
            }
        }
        Vec::new()
    }

    /// A struct of numbers, which variables can hold?
    fn is_plain(&self, ty: TypeId) -> bool {
        fn numbers(g: &Gen<'_, '_>, ty: TypeId) -> bool {
            match g.shape(ty) {
                Shape::Struct(parts) => parts.iter().all(|p| numbers(g, p.0)),
                Shape::Scalar(kind, _) => *kind != Scalar::String,
                _ => false,
            }
        }
        self.layouts().get(ty).regs.is_some() && numbers(self, ty)
    }

    fn step(&mut self, slots: &mut Slots<'_>, step: &PassStep) {
        let program = self.s.program;
        match step {
            PassStep::Set(to, value) => {
                let to = self.place_of(slots, *to);
                let v = match value {
                    PassValue::Const(n) => self.number(*n),
                    PassValue::Given(n) => {
                        if *n >= GIVEN {
                            self.refuse("a pass speaks of a number that is not given".into());
                        }
                        self.b.ins().load(types::I64, FLAGS, self.ctx, at::GIVEN + 8 * *n as i32)
                    }
                    PassValue::Field(from) => {
                        let from = self.place_of(slots, *from);
                        self.word(from)
                    }
                };
                self.set_word(to, v);
            }
            PassStep::Parse(id, error) => {
                let outer = self.begin_step();
                let (ret, fail) = (self.flow.ret, self.flow.fail);
                let scope = self.step_scope(slots, &program.parsers[id.index()].frame);
                if self.parser(&scope, *id) {
                    self.jump(ret);
                }
                let done = self.new_block();
                self.start(fail);
                self.b.set_cold_block(fail);
                if let Some(field) = error {
                    let to = self.place_of(slots, *field);
                    let error = self.b.ins().load(types::I64, FLAGS, self.ctx, at::ERROR);
                    self.set_word(to, error);
                }
                self.jump(done);
                self.start(ret);
                self.jump(done);
                self.start(done);
                let position = self.b.use_var(self.position);
                self.b.ins().store(FLAGS, position, self.ctx, at::POSITION);
                self.flow = outer;
            }
            PassStep::Control(id) => self.control_step(slots, *id),
            PassStep::ExitIfAsked(exit) => {
                if std::mem::take(&mut self.asks) {
                    let asked = self.b.ins().load(types::I64, FLAGS, self.ctx, at::ASKED);
                    self.exit_if(slots, asked, *exit);
                }
            }
            PassStep::ExitIf { field, number, equal, exit } => {
                let place = self.place_of(slots, *field);
                let v = self.word(place);
                let cc = if *equal { IntCC::Equal } else { IntCC::NotEqual };
                let condition = self.b.ins().icmp_imm_u(cc, v, *number as i64);
                self.exit_if(slots, condition, *exit);
            }
            PassStep::Tell(field) => {
                let place = self.place_of(slots, *field);
                let v = self.word(place);
                self.b.ins().store(FLAGS, v, self.ctx, at::TOLD);
            }
            PassStep::Emit(id, exit) => self.emit_step(slots, *id, *exit),
        }
    }

    fn begin_step(&mut self) -> Flow {
        if self.s.loops {
            let most = self.number(u64::from(MAX_LOOP_ROUNDS));
            self.b.ins().store(FLAGS, most, self.ctx, at::ROUNDS_LEFT);
        }
        let (ret, fail) = (self.new_block(), self.new_block());
        std::mem::replace(&mut self.flow, Flow { ret, fail, loops: Vec::new(), result: None })
    }

    /// The variables of a block whose parameters are the slots.
    fn step_scope(&mut self, slots: &Slots<'_>, frame: &Frame) -> Rc<Scope> {
        let mut vars = Vec::with_capacity(frame.vars.len());
        for (n, var) in frame.vars.iter().enumerate() {
            let lent = frame.params.get(n).zip(slots.places.get(n));
            vars.push(match lent {
                Some((param, place)) => {
                    if param.direction == Direction::Out {
                        self.clear(*place);
                    }
                    *place
                }
                None => self.fresh(var.ty),
            });
        }
        Rc::new(Scope { vars, outer: None, action: false })
    }

    fn control_step(&mut self, slots: &Slots<'_>, id: ControlId) {
        let control = &self.s.program.controls[id.index()];
        let outer = self.begin_step();
        let (ret, fail) = (self.flow.ret, self.flow.fail);
        let scope = self.step_scope(slots, &control.frame);
        if self.block(&scope, &control.body) {
            self.jump(ret);
        }
        self.start(fail);
        self.jump(ret);
        self.start(ret);
        self.flow = outer;
    }

    fn place_of(&mut self, slots: &Slots<'_>, of: PassField) -> Place {
        match slots.places.get(of.slot) {
            Some(slot) if self.layouts().part(slot.ty, of.field).is_some() => self.field(*slot, of.field),
            _ => {
                self.refuse("a pass names a field that does not exist".into());
                Place { ty: TypeId(0), at: At::Regs(0) }
            }
        }
    }

    /// A scalar as a word.
    fn word(&mut self, place: Place) -> V {
        match self.layouts().width(place.ty) {
            Some(0..=64) => {
                let v = self.load(place);
                self.widen(v, types::I64)
            }
            _ => {
                self.refuse("a pass names a field that is not a number".into());
                self.number(0)
            }
        }
    }

    fn set_word(&mut self, place: Place, v: V) {
        match self.layouts().width(place.ty) {
            Some(width @ 0..=64) => {
                let v = self.mask(v, width);
                let is_bool = self.reg_type(place.ty) == Some(types::I8);
                let v = if is_bool { self.b.ins().ireduce(types::I8, v) } else { v };
                self.store(place, v);
            }
            _ => self.refuse("a pass names a field that is not a number".into()),
        }
    }

    fn exit_block(&mut self, slots: &mut Slots<'_>, exit: PassExit) -> Block {
        if self.ahead.is_some() {
            return self.abort;
        }
        if let Some((_, block)) = slots.exits.get(&exit.number) {
            return *block;
        }
        let block = self.new_block();
        self.b.set_cold_block(block);
        slots.exits.insert(exit.number, (exit, block));
        block
    }

    fn exit_if(&mut self, slots: &mut Slots<'_>, condition: V, exit: PassExit) {
        let (out, on) = (self.exit_block(slots, exit), self.new_block());
        self.branch(condition, out, on);
        self.start(on);
    }

    /// The code of all exits.
    fn exits(&mut self, pass: &Pass, slots: &Slots<'_>) {
        for (exit, block) in slots.exits.values() {
            self.start(*block);
            if let Some(kept) = exit.frame {
                self.keep(pass.kept.get(kept), slots);
            }
            let number = self.number(status::EXITS as u64 + u64::from(exit.number));
            self.b.ins().return_(&[number]);
        }
    }

    /// Puts the packet into the frame.
    fn keep(&mut self, kept: Option<&KeptFields>, slots: &Slots<'_>) {
        for (n, (place, (_, offset))) in slots.places.iter().zip(slots.types).enumerate() {
            let to = Place { ty: place.ty, at: At::Mem { base: self.ctx, off: *offset as i32 } };
            let kept = kept.and_then(|k| k.get(n)?.as_ref());
            match (place.at, kept) {
                (At::Regs(_), Some(kept)) => {
                    for field in kept {
                        let (to, from) = (self.field(to, *field), self.field(*place, *field));
                        self.copy(to, from);
                    }
                }
                (At::Mem { base, .. }, _) if base == self.ctx => {}
                _ => self.copy(to, *place),
            }
        }
    }

    /// The headers that a deparser emits, one after the other, if that is all that it does. With a flag: it is one that the
    /// runtime has to emit.
    fn emitted(&mut self, slots: &Slots<'_>, body: &[Stmt]) -> Option<Vec<(Place, bool)>> {
        let mut headers = Vec::new();
        for stmt in body {
            let StmtKind::Emit(Expr { kind: ExprKind::Read(LValue { root, path, .. }), .. }) = &stmt.kind
            else {
                return None;
            };
            let pointsman_ir::VarRef::Local(n) = root else { return None };
            let mut place = *slots.places.get(*n as usize)?;
            for proj in path {
                let Proj::Field(i) = proj else { return None };
                place = self.field(place, *i);
            }
            self.add_headers(place, &mut headers)?;
        }
        Some(headers)
    }

    fn add_headers(&self, place: Place, headers: &mut Vec<(Place, bool)>) -> Option<()> {
        match (self.shape(place.ty), place.at) {
            (Shape::Header(h), At::Mem { .. }) => {
                let loose = h.varbit.is_some() && h.loose().is_none();
                let slow = loose || !h.bits.is_multiple_of(8) || h.bytes() > 256;
                headers.push((place, slow));
            }
            (Shape::Stack { elem, size, first, stride }, At::Mem { base, off }) if *size <= UNROLLED => {
                for i in 0..*size {
                    let at = At::Mem { base, off: off + (first + i * stride) as i32 };
                    self.add_headers(Place { ty: *elem, at }, headers)?;
                }
            }
            (Shape::Struct(parts) | Shape::Union(parts), At::Mem { .. }) => {
                for i in 0..parts.len() as u32 {
                    self.add_headers(self.field(place, i), headers)?;
                }
            }
            (Shape::Stack { .. }, _) => return None,
            // Nothing else is emitted.
            _ => {}
        }
        Some(())
    }

    /// Puts a header of `fixed` bytes and a varbit, which is at `loose.1` and follows the first `loose.0` of them, before `behind` in
    /// the buffer. Returns where it begins.
    fn put_loose(
        &mut self,
        slots: &mut Slots<'_>,
        exit: PassExit,
        (buffer, behind): (V, V),
        (base, off): (V, i32),
        (fixed, loose): (u32, (u32, u32)),
    ) -> V {
        let (before, varbit) = (loose.0, off + loose.1 as i32);
        let width = self.b.ins().load(types::I64, FLAGS, base, varbit);
        let odd = self.b.ins().band_imm_u(width, 7);
        self.exit_if(slots, odd, exit);
        let bytes = self.b.ins().ushr_imm_u(width, 3);
        let all = self.b.ins().iadd_imm_s(bytes, i64::from(fixed));
        let outside = self.b.ins().icmp(IntCC::UnsignedLessThan, behind, all);
        self.exit_if(slots, outside, exit);
        let here = self.b.ins().isub(behind, all);
        let to = self.b.ins().iadd(buffer, here);
        self.copy_bytes((to, 0), (base, off), before);
        let (middle, from) = (self.pointer(to, before as i32), self.pointer(base, varbit + 8));
        self.call_runtime(runtime::copy as *const u8, &[middle, from, bytes], false);
        let end = self.b.ins().iadd(middle, bytes);
        self.copy_bytes((end, 0), (base, off + before as i32), fixed - before);
        here
    }

    fn emit_step(&mut self, slots: &mut Slots<'_>, id: ControlId, exit: PassExit) {
        let control = &self.s.program.controls[id.index()];
        let Some(headers) = self.emitted(slots, &control.body) else {
            self.lacks_deparser = true;
            let yes = self.number(1);
            return self.exit_if(slots, yes, exit);
        };
        // Headers that the parser has begun to read are read.
        let position = self.b.use_var(self.position);
        let up = self.b.ins().iadd_imm_s(position, 7);
        let payload = self.b.ins().ushr_imm_u(up, 3);
        // Whatever is not put into the packet here must not be begun.
        for (header, _) in headers.iter().filter(|h| h.1) {
            let valid = self.valid(*header);
            self.exit_if(slots, valid, exit);
        }
        let room = self.b.ins().load(types::I64, FLAGS, self.ctx, at::OUT_CAP);
        let buffer = self.b.ins().isub(self.packet, room);
        // Where in the buffer the packet begins.
        let begin = self.b.declare_var(types::I64);
        let end = self.b.ins().iadd(room, payload);
        self.b.def_var(begin, end);
        // The last one first, so that their lengths need not be known in advance. Without room for another one, those
        // already written are before the payload, where they are no longer read.
        for (header, _) in headers.iter().rev().filter(|h| !h.1) {
            let (Shape::Header(h), At::Mem { base, off }) = (self.shape(header.ty), header.at) else {
                continue;
            };
            let (some, done) = (self.new_block(), self.new_block());
            let valid = self.valid(*header);
            self.branch(valid, some, done);
            self.start(some);
            let behind = self.b.use_var(begin);
            let here = match h.loose() {
                Some(varbit) => {
                    self.put_loose(slots, exit, (buffer, behind), (base, off), (h.bytes(), varbit))
                }
                None => {
                    let bytes = i64::from(h.bytes());
                    let outside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, behind, bytes);
                    self.exit_if(slots, outside, exit);
                    let here = self.b.ins().iadd_imm_s(behind, -bytes);
                    let to = self.b.ins().iadd(buffer, here);
                    self.copy_bytes((to, 0), (base, off), h.bytes());
                    here
                }
            };
            self.b.def_var(begin, here);
            self.jump(done);
            self.start(done);
        }
        let start = self.b.use_var(begin);
        self.b.ins().store(FLAGS, start, self.ctx, at::OUT_LEN);
    }
}
