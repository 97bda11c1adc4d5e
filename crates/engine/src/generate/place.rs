//! Places: the location of values, and how they are read and written.

use super::{FLAGS, Gen, Scope};
use crate::layout::{HeaderField, Shape};
use crate::runtime;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode, Type as Ty, Value as V, types};
use cranelift_frontend::Variable;
use pointsman_ir::{Expr, ExprKind, LValue, Proj, Spans, TypeId, Value, VarRef};

/// The storage of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Cranelift variables from this number on, one per scalar or 64-bit limb; validity before the fields of a header.
    Regs(u32),
    /// Memory, in natural form.
    Mem { base: V, off: i32 },
    /// Bits of packed data that has `bytes` bytes.
    Packed { base: V, off: i32, bit: u32, bytes: u32 },
}

/// Values of at most these bytes are copied and cleared whole, with what fields of variable length do not use.
const SHORT: u32 = 256;

/// A place. Its type is looked through ([`pointsman_ir::Types::repr`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) ty: TypeId,
    pub(super) at: At,
}

/// A value: a scalar of at most 128 bits in a register, anything else in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Val {
    Reg(V),
    At(Place),
}

/// A place to write to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) place: Place,
    /// Bits of the place.
    pub(super) slice: Option<(u32, u32)>,
    /// The header union that the place is a member of.
    pub(super) union: Option<(Place, u32)>,
    /// The stack that it is `next` of.
    pub(super) next_of: Option<Place>,
}

/// Values of a scalar of this width in registers; `None` if it is too wide.
pub(super) fn register(width: u32) -> Option<Ty> {
    match width {
        0..=64 => Some(types::I64),
        65..=128 => Some(types::I128),
        _ => None,
    }
}

impl<'p> Gen<'_, 'p> {
    pub(super) fn shape(&self, ty: TypeId) -> &'p Shape {
        &self.layouts().get(ty).shape
    }

    /// The register type of a scalar.
    pub(super) fn reg_type(&self, ty: TypeId) -> Option<Ty> {
        match self.shape(ty) {
            Shape::Scalar(crate::layout::Scalar::Bool, _) => Some(types::I8),
            Shape::Scalar(_, w) => register(*w),
            _ => None,
        }
    }

    /// A new variable of type `ty` at its default value.
    pub(super) fn fresh(&mut self, ty: TypeId) -> Place {
        let place = self.fresh_undefined(ty);
        self.clear(place);
        place
    }

    /// A new variable that is written before it is read.
    pub(super) fn fresh_undefined(&mut self, ty: TypeId) -> Place {
        let ty = self.repr(ty);
        let layout = self.layouts().get(ty);
        if layout.regs.is_none() {
            let at = self.scratch(layout.size);
            return Place { ty, at };
        }
        let mut first = None;
        self.declare(ty, &mut first);
        Place { ty, at: At::Regs(first.unwrap_or(0)) }
    }

    fn declare(&mut self, ty: TypeId, first: &mut Option<u32>) {
        let mut variable = |this: &mut Self, reg| {
            let v = this.b.declare_var(reg);
            first.get_or_insert(v.as_u32());
        };
        match self.shape(ty) {
            Shape::Struct(fields) => fields.iter().for_each(|f| self.declare(f.0, first)),
            Shape::Header(h) => {
                variable(self, types::I8);
                h.fields.iter().for_each(|f| self.declare(f.0, first));
            }
            Shape::Scalar(_, width) => match self.reg_type(ty) {
                Some(reg) => variable(self, reg),
                None => (0..crate::limbs::count(*width)).for_each(|_| variable(self, types::I64)),
            },
            _ => {}
        }
    }

    /// Field `i` of a struct, tuple, header or union.
    pub(super) fn field(&self, place: Place, i: u32) -> Place {
        let Some(ty) = self.layouts().part(place.ty, i) else { return place };
        let ty = self.repr(ty);
        let regs_before = |parts: &[TypeId]| -> u32 {
            parts.iter().take(i as usize).map(|t| self.layouts().get(*t).regs.unwrap_or(0)).sum()
        };
        let at = match (place.at, self.shape(place.ty)) {
            (At::Regs(first), Shape::Struct(f)) => {
                At::Regs(first + regs_before(&f.iter().map(|f| f.0).collect::<Vec<_>>()))
            }
            (At::Regs(first), Shape::Header(h)) => {
                At::Regs(first + 1 + regs_before(&h.fields.iter().map(|f| f.0).collect::<Vec<_>>()))
            }
            (At::Mem { base, off }, Shape::Struct(f) | Shape::Union(f)) => {
                At::Mem { base, off: off + f[i as usize].1 as i32 }
            }
            (At::Mem { base, off }, Shape::Header(h)) => match h.fields[i as usize].1 {
                HeaderField::Packed(bit) => At::Packed { base, off, bit, bytes: h.bytes() },
                HeaderField::Varbit(offset) => At::Mem { base, off: off + offset as i32 },
            },
            (At::Packed { base, off, bit, bytes }, Shape::Struct(f)) => {
                let before = f.iter().take(i as usize);
                let before: u32 = before.map(|f| self.layouts().get(f.0).packed.unwrap_or(0)).sum();
                At::Packed { base, off, bit: bit + before, bytes }
            }
            (at, _) => at,
        };
        Place { ty, at }
    }

    /// Validity of a header.
    pub(super) fn valid(&mut self, header: Place) -> V {
        match (header.at, self.shape(header.ty)) {
            (At::Regs(first), _) => self.b.use_var(Variable::from_u32(first)),
            (At::Mem { base, off }, Shape::Header(h)) => {
                self.b.ins().load(types::I8, FLAGS, base, off + h.valid as i32)
            }
            _ => self.b.ins().iconst(types::I8, 0),
        }
    }

    pub(super) fn set_valid(&mut self, header: Place, to: V) {
        match (header.at, self.shape(header.ty)) {
            (At::Regs(first), _) => self.b.def_var(Variable::from_u32(first), to),
            (At::Mem { base, off }, Shape::Header(h)) => {
                self.b.ins().store(FLAGS, to, base, off + h.valid as i32);
            }
            _ => {}
        }
    }

    /// The address of a place in memory.
    pub(super) fn pointer(&mut self, base: V, off: i32) -> V {
        if off == 0 { base } else { self.b.ins().iadd_imm_s(base, i64::from(off)) }
    }

    /// A scalar of at most 128 bits.
    pub(super) fn load(&mut self, place: Place) -> V {
        let width = self.layouts().width(place.ty).unwrap_or(0);
        let reg = self.reg_type(place.ty).unwrap_or(types::I64);
        match place.at {
            At::Regs(first) => self.b.use_var(Variable::from_u32(first)),
            At::Mem { base, off } if reg == types::I8 => self.b.ins().load(types::I8, FLAGS, base, off),
            At::Mem { base, off } => self.load_number(base, off, width),
            At::Packed { base, off, bit, bytes } => {
                let v = self.load_packed(base, off, bit, bytes, width);
                if reg == types::I8 { self.b.ins().ireduce(types::I8, v) } else { v }
            }
        }
    }

    /// Writes a scalar of at most 128 bits.
    pub(super) fn store(&mut self, place: Place, v: V) {
        let width = self.layouts().width(place.ty).unwrap_or(0);
        match place.at {
            At::Regs(first) => self.b.def_var(Variable::from_u32(first), v),
            At::Mem { base, off } => {
                let is_bool = self.b.func.dfg.value_type(v) == types::I8;
                match width {
                    0 => {}
                    _ if is_bool => {
                        self.b.ins().store(FLAGS, v, base, off);
                    }
                    1..=8 => {
                        self.b.ins().istore8(FLAGS, v, base, off);
                    }
                    9..=16 => {
                        self.b.ins().istore16(FLAGS, v, base, off);
                    }
                    17..=32 => {
                        self.b.ins().istore32(FLAGS, v, base, off);
                    }
                    _ => {
                        self.b.ins().store(FLAGS, v, base, off);
                    }
                }
            }
            At::Packed { base, off, bit, bytes } => {
                let is_bool = self.b.func.dfg.value_type(v) == types::I8;
                let v = if is_bool { self.b.ins().uextend(types::I64, v) } else { v };
                self.store_packed(base, off, bit, bytes, width, v);
            }
        }
    }

    /// Bits of packed data, at most 128. No byte outside of the data is touched.
    pub(super) fn load_packed(&mut self, base: V, off: i32, bit: u32, bytes: u32, width: u32) -> V {
        if width == 0 {
            return self.number(0);
        }
        if width > 64 {
            let high = self.load_packed(base, off, bit, bytes, width - 64);
            let low = self.load_packed(base, off, bit + width - 64, bytes, 64);
            return self.b.ins().iconcat(low, high);
        }
        let Some((start, size)) = window(bit, width, bytes) else {
            let low = split(bit, width);
            let high = self.load_packed(base, off, bit, bytes, width - low);
            let high = self.b.ins().ishl_imm_u(high, i64::from(low));
            let low = self.load_packed(base, off, bit + width - low, bytes, low);
            return self.b.ins().bor(high, low);
        };
        let v = self.load_be(base, off + start as i32, size);
        let behind = (start + size) * 8 - bit - width;
        let v = if behind == 0 { v } else { self.b.ins().ushr_imm_u(v, i64::from(behind)) };
        // Nothing precedes the field: no bits to mask.
        if bit == start * 8 { v } else { self.mask(v, width) }
    }

    /// `size` (1, 2, 4 or 8) bytes in network order.
    fn load_be(&mut self, base: V, off: i32, size: u32) -> V {
        match size {
            1 => self.b.ins().uload8(types::I64, FLAGS, base, off),
            2 => {
                let v = self.b.ins().load(types::I16, FLAGS, base, off);
                let v = self.b.ins().bswap(v);
                self.b.ins().uextend(types::I64, v)
            }
            4 => {
                let v = self.b.ins().load(types::I32, FLAGS, base, off);
                let v = self.b.ins().bswap(v);
                self.b.ins().uextend(types::I64, v)
            }
            _ => {
                let v = self.b.ins().load(types::I64, FLAGS, base, off);
                self.b.ins().bswap(v)
            }
        }
    }

    pub(super) fn store_be(&mut self, base: V, off: i32, size: u32, v: V) {
        match size {
            1 => {
                self.b.ins().istore8(FLAGS, v, base, off);
            }
            2 | 4 => {
                let ty = if size == 2 { types::I16 } else { types::I32 };
                let v = self.b.ins().ireduce(ty, v);
                let v = self.b.ins().bswap(v);
                self.b.ins().store(FLAGS, v, base, off);
            }
            _ => {
                let v = self.b.ins().bswap(v);
                self.b.ins().store(FLAGS, v, base, off);
            }
        }
    }

    /// Writes bits of packed data, at most 128.
    pub(super) fn store_packed(&mut self, base: V, off: i32, bit: u32, bytes: u32, width: u32, v: V) {
        if width == 0 {
            return;
        }
        if width > 64 {
            let (low, high) = self.halves(v);
            self.store_packed(base, off, bit, bytes, width - 64, high);
            return self.store_packed(base, off, bit + width - 64, bytes, 64, low);
        }
        let whole = bit.is_multiple_of(8) && width.is_multiple_of(8);
        match window(bit, width, bytes) {
            Some((start, size)) if whole && size * 8 == width => {
                self.store_be(base, off + start as i32, size, v);
            }
            Some((start, size)) if !whole => {
                let behind = (start + size) * 8 - bit - width;
                let old = self.load_be(base, off + start as i32, size);
                let hole = if width == 64 { u64::MAX } else { ((1 << width) - 1) << behind };
                let hole = self.number(!hole);
                let old = self.b.ins().band(old, hole);
                let v = if behind == 0 { v } else { self.b.ins().ishl_imm_u(v, i64::from(behind)) };
                let v = self.b.ins().bor(old, v);
                self.store_be(base, off + start as i32, size, v);
            }
            _ => {
                let low = split(bit, width);
                let high = self.b.ins().ushr_imm_u(v, i64::from(low));
                self.store_packed(base, off, bit, bytes, width - low, high);
                let v = self.mask(v, low);
                self.store_packed(base, off, bit + width - low, bytes, low, v);
            }
        }
    }

    /// The low `width` bits.
    pub(super) fn mask(&mut self, v: V, width: u32) -> V {
        let ty = self.b.func.dfg.value_type(v);
        if width >= ty.bits() {
            return v;
        }
        if ty == types::I128 {
            let (low, high) = self.halves(v);
            let zero = self.number(0);
            let (low, high) = match width.checked_sub(64) {
                Some(left) => (low, self.mask(high, left)),
                None => (self.mask(low, width), zero),
            };
            return self.b.ins().iconcat(low, high);
        }
        if (width, ty) == (32, types::I64) {
            let v = self.b.ins().ireduce(types::I32, v);
            return self.b.ins().uextend(types::I64, v);
        }
        if let Some(known) = self.known_number(v).filter(|_| ty == types::I64) {
            return self.number(known & ((1 << width) - 1));
        }
        if width == 0 {
            return self.constant(ty, 0);
        }
        let mask = self.constant(ty, (1 << width) - 1);
        self.b.ins().band(v, mask)
    }

    /// The low and the high half of a number of 128 bits: those that it was made of, if that is known.
    pub(super) fn halves(&mut self, v: V) -> (V, V) {
        let dfg = &self.b.func.dfg;
        let made_by = dfg.value_def(dfg.resolve_aliases(v)).inst().map(|inst| dfg.insts[inst]);
        match made_by {
            Some(InstructionData::Binary { opcode: Opcode::Iconcat, args: [low, high] }) => (low, high),
            Some(InstructionData::Unary { opcode: Opcode::Uextend, arg }) => {
                let low = self.widen(arg, types::I64);
                (low, self.number(0))
            }
            _ => self.b.ins().isplit(v),
        }
    }

    /// `a | b`; of numbers of 128 bits by halves, of which many are zero if fields are put together.
    pub(super) fn either(&mut self, a: V, b: V) -> V {
        if self.b.func.dfg.value_type(a) != types::I128 {
            return self.either_word(a, b);
        }
        let ((a, high), (b, other)) = (self.halves(a), self.halves(b));
        let (low, high) = (self.either_word(a, b), self.either_word(high, other));
        self.b.ins().iconcat(low, high)
    }

    fn either_word(&mut self, a: V, b: V) -> V {
        match (self.known_number(a), self.known_number(b)) {
            (Some(0), _) => b,
            (_, Some(0)) => a,
            (Some(x), Some(y)) => self.number(x | y),
            _ => self.b.ins().bor(a, b),
        }
    }

    /// `v << by`. Numbers of 128 bits are shifted by halves, for which the compiler has no rule.
    pub(super) fn shift_left(&mut self, v: V, by: u32) -> V {
        if self.b.func.dfg.value_type(v) != types::I128 || by == 0 {
            return match self.known_number(v).filter(|_| self.b.func.dfg.value_type(v) == types::I64) {
                Some(known) if by < 64 => self.number(known << by),
                _ if by == 0 => v,
                _ => self.b.ins().ishl_imm_u(v, i64::from(by)),
            };
        }
        let (low, high) = self.halves(v);
        let zero = self.number(0);
        let (low, high) = match by {
            128.. => (zero, zero),
            64 => (zero, low),
            65.. => (zero, self.b.ins().ishl_imm_u(low, i64::from(by - 64))),
            _ => {
                let over = self.b.ins().ushr_imm_u(low, i64::from(64 - by));
                let high = match self.known_number(high) {
                    Some(0) => over,
                    _ => {
                        let high = self.b.ins().ishl_imm_u(high, i64::from(by));
                        self.b.ins().bor(high, over)
                    }
                };
                (self.b.ins().ishl_imm_u(low, i64::from(by)), high)
            }
        };
        self.b.ins().iconcat(low, high)
    }

    /// `v >> by`, zeros coming in.
    pub(super) fn shift_right(&mut self, v: V, by: u32) -> V {
        if self.b.func.dfg.value_type(v) != types::I128 || by == 0 {
            return match self.known_number(v).filter(|_| self.b.func.dfg.value_type(v) == types::I64) {
                Some(known) if by < 64 => self.number(known >> by),
                _ if by == 0 => v,
                _ => self.b.ins().ushr_imm_u(v, i64::from(by)),
            };
        }
        let (low, high) = self.halves(v);
        let zero = self.number(0);
        let (low, high) = match by {
            128.. => (zero, zero),
            64 => (high, zero),
            65.. => (self.b.ins().ushr_imm_u(high, i64::from(by - 64)), zero),
            _ => {
                let over = self.b.ins().ishl_imm_u(high, i64::from(64 - by));
                let low = self.b.ins().ushr_imm_u(low, i64::from(by));
                (self.b.ins().bor(low, over), self.b.ins().ushr_imm_u(high, i64::from(by)))
            }
        };
        self.b.ins().iconcat(low, high)
    }

    /// Sets a place to its default value.
    pub(super) fn clear(&mut self, place: Place) {
        match (place.at, self.shape(place.ty)) {
            (At::Mem { base, off }, _) => {
                let spans = self.spans(place.ty);
                for span in &spans.bytes {
                    self.clear_bytes(base, off + span.start as i32, span.len() as u32);
                }
                for varbit in &spans.varbits {
                    self.clear_bytes(base, off + *varbit as i32, 8);
                }
            }
            (_, Shape::Struct(fields)) => {
                (0..fields.len() as u32).for_each(|i| {
                    let f = self.field(place, i);
                    self.clear(f);
                });
            }
            (_, Shape::Header(h)) => {
                let no = self.b.ins().iconst(types::I8, 0);
                self.set_valid(place, no);
                (0..h.fields.len() as u32).for_each(|i| {
                    let f = self.field(place, i);
                    self.clear(f);
                });
            }
            _ => match self.reg_type(place.ty) {
                Some(reg) => {
                    let zero = self.constant(reg, 0);
                    self.store(place, zero);
                }
                None => {
                    let zero = self.value(&Value::default_of(self.types(), place.ty), place.ty);
                    self.put(place, zero);
                }
            },
        }
    }

    /// The parts of a value in memory that mean something; of a short one, all.
    fn spans(&self, ty: TypeId) -> Spans {
        let (mut spans, size) = (Spans::default(), self.layouts().get(ty).size);
        match size > SHORT {
            true => self.layouts().add_spans(ty, 0, &mut spans),
            false => spans.add(0..size as usize),
        }
        spans
    }

    pub(super) fn clear_bytes(&mut self, base: V, off: i32, size: u32) {
        if size > 768 {
            let (to, size) = (self.pointer(base, off), self.number(u64::from(size)));
            self.call_runtime(runtime::clear as *const u8, &[to, size], false);
            return;
        }
        for (at, ty) in chunks(size) {
            let zero = if ty == types::I8X16 {
                let zero = self.b.ins().iconst(types::I8, 0);
                self.b.ins().splat(types::I8X16, zero)
            } else {
                self.b.ins().iconst(ty, 0)
            };
            self.b.ins().store(FLAGS, zero, base, off + at);
        }
    }

    pub(super) fn copy_bytes(&mut self, to: (V, i32), from: (V, i32), size: u32) {
        if to == from {
            return;
        }
        if size > 256 {
            let (to, from) = (self.pointer(to.0, to.1), self.pointer(from.0, from.1));
            return self.runtime_copy(to, from, size);
        }
        for (at, ty) in chunks(size) {
            let v = self.b.ins().load(ty, FLAGS, from.0, from.1 + at);
            self.b.ins().store(FLAGS, v, to.0, to.1 + at);
        }
    }

    /// Copies a value between places of the same type, which are the same or do not overlap.
    pub(super) fn copy(&mut self, to: Place, from: Place) {
        match (to.at, from.at, self.shape(to.ty)) {
            (At::Mem { base, off }, At::Mem { base: b, off: o }, _) if self.reg_type(to.ty).is_none() => {
                if (base, off) == (b, o) {
                    return;
                }
                let spans = self.spans(to.ty);
                for span in &spans.bytes {
                    let at = span.start as i32;
                    self.copy_bytes((base, off + at), (b, o + at), span.len() as u32);
                }
                for at in spans.varbits.iter().map(|at| *at as i32) {
                    let bytes = self.bytes_of_varbit((b, o + at), None);
                    let bytes = self.b.ins().iadd_imm_s(bytes, 8);
                    let (to, from) = (self.pointer(base, off + at), self.pointer(b, o + at));
                    self.call_runtime(runtime::copy as *const u8, &[to, from, bytes], false);
                }
            }
            (_, _, Shape::Struct(fields)) => {
                for i in 0..fields.len() as u32 {
                    let (to, from) = (self.field(to, i), self.field(from, i));
                    self.copy(to, from);
                }
            }
            (_, _, Shape::Header(h)) => {
                let valid = self.valid(from);
                self.set_valid(to, valid);
                for i in 0..h.fields.len() as u32 {
                    let (to, from) = (self.field(to, i), self.field(from, i));
                    self.copy(to, from);
                }
            }
            _ if self.reg_type(to.ty).is_some() => {
                let v = self.load(from);
                self.store(to, v);
            }
            _ if self.is_wide(to.ty) => self.copy_wide(to, from),
            _ => {}
        }
    }

    /// The address of a value in natural form: its own, or that of a copy.
    pub(super) fn spill(&mut self, v: Val, ty: TypeId) -> V {
        let ty = self.repr(ty);
        match v {
            Val::At(Place { at: At::Mem { base, off }, .. }) => self.pointer(base, off),
            _ => {
                let at = self.scratch(self.layouts().get(ty).size);
                let copy = Place { ty, at };
                self.put(copy, v);
                self.spill(Val::At(copy), ty)
            }
        }
    }

    /// Writes a value of the place's type.
    pub(super) fn put(&mut self, place: Place, v: Val) {
        match v {
            Val::Reg(v) => self.store(place, v),
            Val::At(from) => self.copy(place, from),
        }
    }

    /// The value of a place, in a register if it fits.
    pub(super) fn get(&mut self, place: Place) -> Val {
        match self.reg_type(place.ty) {
            Some(_) => Val::Reg(self.load(place)),
            None => Val::At(place),
        }
    }

    pub(super) fn var(&self, scope: &Scope, root: VarRef) -> Option<Place> {
        match root {
            VarRef::Local(i) => scope.vars.get(i as usize).copied(),
            VarRef::Outer(i) => scope.outer.as_ref()?.vars.get(i as usize).copied(),
        }
    }

    /// Evaluates the way to a place. With an index out of range, zeros are read, and writes are lost.
    pub(super) fn resolve(&mut self, scope: &Scope, lv: &LValue, write: bool) -> Target {
        let place = self.var(scope, lv.root).unwrap_or(Place { ty: lv.ty, at: At::Regs(0) });
        let mut target = Target { place, slice: None, union: None, next_of: None };
        for proj in &lv.path {
            let place = target.place;
            target.union = None;
            target.place = match proj {
                Proj::Field(i) => {
                    if let Shape::Union(_) = self.shape(place.ty) {
                        target.union = Some((place, *i));
                    }
                    self.field(place, *i)
                }
                Proj::Index(e) => self.element(scope, place, e, write),
                Proj::Next => {
                    target.next_of = Some(place);
                    let next = self.next_index(place);
                    let size = self.number(u64::from(self.stack_size(place.ty)));
                    let fits = self.b.ins().icmp(IntCC::UnsignedLessThan, next, size);
                    self.require(fits, self.s.errors.stack_out_of_bounds);
                    self.at_index(place, next)
                }
                Proj::Last => {
                    let next = self.next_index(place);
                    let last = self.b.ins().iadd_imm_s(next, -1);
                    let size = self.number(u64::from(self.stack_size(place.ty)));
                    let fits = self.b.ins().icmp(IntCC::UnsignedLessThan, last, size);
                    self.require(fits, self.s.errors.stack_out_of_bounds);
                    self.at_index(place, last)
                }
                Proj::Slice { hi, lo } => {
                    target.slice = Some((*hi, *lo));
                    place
                }
            };
        }
        target
    }

    fn stack_size(&self, ty: TypeId) -> u32 {
        match self.shape(ty) {
            Shape::Stack { size, .. } => *size,
            _ => 0,
        }
    }

    /// `nextIndex` of a stack.
    pub(super) fn next_index(&mut self, stack: Place) -> V {
        match stack.at {
            At::Mem { base, off } => self.b.ins().uload32(FLAGS, base, off),
            _ => self.number(0),
        }
    }

    /// Element `i` of a stack, which is in range.
    fn at_index(&mut self, stack: Place, i: V) -> Place {
        let (Shape::Stack { elem, first, stride, .. }, At::Mem { base, off }) =
            (self.shape(stack.ty), stack.at)
        else {
            return stack;
        };
        let from = self.b.ins().imul_imm_s(i, i64::from(*stride));
        let base = self.b.ins().iadd(base, from);
        Place { ty: *elem, at: At::Mem { base, off: off + *first as i32 } }
    }

    fn element(&mut self, scope: &Scope, stack: Place, index: &Expr, write: bool) -> Place {
        let (Shape::Stack { elem, size, first, stride }, At::Mem { base, off }) =
            (self.shape(stack.ty), stack.at)
        else {
            return stack;
        };
        if let ExprKind::Const(Value::Bits(b)) = &index.kind {
            let negative = self.signed(index.ty) && b.is_negative();
            let i = if negative { u64::MAX } else { b.saturating_u64() };
            if i < u64::from(*size) {
                let off = off + (first + i as u32 * stride) as i32;
                return Place { ty: *elem, at: At::Mem { base, off } };
            }
            let base = self.elsewhere(*elem, write);
            return Place { ty: *elem, at: At::Mem { base, off: 0 } };
        }
        let i = self.index(scope, index);
        let size = self.number(u64::from(*size));
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThan, i, size);
        let from = self.b.ins().imul_imm_s(i, i64::from(*stride));
        let inside = self.b.ins().iadd(base, from);
        let inside = self.pointer(inside, off + *first as i32);
        let outside = self.elsewhere(*elem, write);
        let base = self.b.ins().select(fits, inside, outside);
        Place { ty: *elem, at: At::Mem { base, off: 0 } }
    }

    /// The place used for elements that do not exist.
    fn elsewhere(&mut self, ty: TypeId, write: bool) -> V {
        if !write {
            return self.address(self.s.zeros.as_ptr().cast());
        }
        let size = self.layouts().get(ty).size;
        let At::Mem { base, off } = self.scratch(size) else { return self.scratch };
        self.clear_bytes(base, off, size);
        self.pointer(base, off)
    }

    /// An index as a word; negative or larger numbers become larger than any size.
    fn index(&mut self, scope: &Scope, e: &Expr) -> V {
        let width = self.layouts().width(e.ty).unwrap_or(0);
        match self.expr(scope, e) {
            Val::Reg(v) if width <= 64 => {
                if self.signed(e.ty) {
                    self.sign_extend(v, width)
                } else {
                    v
                }
            }
            v => self.saturated(v, width),
        }
    }

    /// Writes to a place. A valid header makes the other members of its union invalid (P4_16 section 8.19).
    pub(super) fn write(&mut self, target: Target, v: Val) {
        match target.slice {
            None => self.put(target.place, v),
            Some((hi, lo)) => self.write_slice(target.place, hi, lo, v),
        }
        self.keep_union(target);
    }

    fn write_slice(&mut self, place: Place, hi: u32, lo: u32, v: Val) {
        let part = hi + 1 - lo;
        let (Some(reg), Val::Reg(v)) = (self.reg_type(place.ty), v) else {
            return self.write_wide_slice(place, hi, lo, v);
        };
        let v = self.widen(v, reg);
        let ones = if part >= 128 { u128::MAX } else { (1 << part) - 1 };
        let hole = self.constant(reg, !(ones << lo));
        let old = self.load(place);
        let old = self.b.ins().band(old, hole);
        let v = self.shift_left(v, lo);
        let v = self.b.ins().bor(old, v);
        self.store(place, v);
    }

    /// After a change of a member of a union.
    pub(super) fn keep_union(&mut self, target: Target) {
        let Some((union, member)) = target.union else { return };
        let Shape::Union(members) = self.shape(union.ty) else { return };
        let valid = self.valid(target.place);
        let keep = self.b.ins().bxor_imm_u(valid, 1);
        for i in (0..members.len() as u32).filter(|i| *i != member) {
            let other = self.field(union, i);
            let was = self.valid(other);
            let stays = self.b.ins().band(was, keep);
            self.set_valid(other, stays);
        }
    }
}

/// A load of 1, 2, 4 or 8 bytes inside of `bytes` that covers the bits; `None` if no load does.
fn window(bit: u32, width: u32, bytes: u32) -> Option<(u32, u32)> {
    let (first, end) = (bit / 8, (bit + width).div_ceil(8));
    let size = (end - first).next_power_of_two();
    if size > 8 || size > bytes {
        return None;
    }
    Some((first.min(bytes - size), size))
}

/// How many low bits to part from a field that no single load covers.
fn split(bit: u32, width: u32) -> u32 {
    let bytes = (bit + width).div_ceil(8) - bit / 8;
    // The largest power of two below `bytes` stays on top.
    let top = 1 << (31 - (bytes - 1).leading_zeros());
    width - (top * 8 - bit % 8)
}

/// Pieces that make up `size` bytes.
fn chunks(size: u32) -> Vec<(i32, Ty)> {
    let (mut at, mut pieces) = (0, Vec::new());
    for (bytes, ty) in [(16, types::I8X16), (8, types::I64), (4, types::I32), (2, types::I16), (1, types::I8)]
    {
        while size - at >= bytes {
            pieces.push((at as i32, ty));
            at += bytes;
        }
    }
    pieces
}
