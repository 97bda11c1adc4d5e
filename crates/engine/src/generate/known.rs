//! Calls of externs whose meaning is known ([`Meaning`]): generated in the place of the call.

use super::expr::can_fail;
use super::external::{Called, Flat};
use super::place::{Val, register};
use super::{FLAGS, Gen, Scope};
use crate::layout::{Scalar, Shape};
use crate::runtime::at;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Value as V, types};
use pointsman_ir::{
    Arg, CellArray, CellKind, Digest, Expr, ExprKind, ExternInstanceId, LValue, Meaning, Value,
};
use std::rc::Rc;

/// Memory operations that stay in the order of the program.
const ORDERED: MemFlagsData = MemFlagsData::new();

impl Gen<'_, '_> {
    /// Generates the meaning of a call, if it is known and fits its arguments. False: nothing was generated.
    pub(super) fn call_known(&mut self, scope: &Rc<Scope>, called: Called<'_>, args: &[Arg]) -> bool {
        let known = self.s.known;
        let arg = |n: &u32| args.get(*n as usize);
        let value = |n: &u32| match arg(n) {
            Some(Arg::In(e)) => Some(e),
            _ => None,
        };
        let done = match known.meanings.get(called.function.index()).unwrap_or(&Meaning::Ask) {
            Meaning::Ask => None,
            Meaning::Nothing => args.is_empty().then_some(()),
            Meaning::LoadCell { index, to } => match (value(index), arg(to), args.len()) {
                (Some(index), Some(Arg::Out(to)), 2) => self.load_cell(scope, called, index, to),
                _ => None,
            },
            Meaning::StoreCell { index, from } => match (value(index), value(from), args.len()) {
                (Some(index), Some(from), 2) => self.store_cell(scope, called, index, from),
                _ => None,
            },
            Meaning::CountCell { index } => match (value(index), args.len()) {
                (Some(index), 1) => self.count_cell(scope, called, index),
                _ => None,
            },
            Meaning::SetFields { arg: n, fields } => match arg(n) {
                Some(Arg::InOut(lv)) => self.set_fields(scope, lv, fields),
                _ => None,
            },
            Meaning::Hash { to, algorithm, base, data, max } => {
                match (arg(to), value(algorithm), value(base), value(data), value(max)) {
                    (Some(Arg::Out(to)), Some(algorithm), Some(base), Some(data), Some(max)) => {
                        self.hash(scope, (called, args), to, [algorithm, base, data, max])
                    }
                    _ => None,
                }
            }
            Meaning::VerifyDigest { condition, data, sum, algorithm } => {
                match (value(condition), value(data), value(sum), value(algorithm)) {
                    (Some(condition), Some(data), Some(sum), Some(algorithm)) => {
                        self.verify_digest(scope, called, args, [condition, data, sum, algorithm])
                    }
                    _ => None,
                }
            }
            Meaning::UpdateDigest { condition, data, sum, algorithm } => {
                match (value(condition), value(data), arg(sum), value(algorithm)) {
                    (Some(condition), Some(data), Some(Arg::InOut(sum)), Some(algorithm)) => {
                        self.update_digest(scope, (called, args), [condition, data, algorithm], sum)
                    }
                    _ => None,
                }
            }
            Meaning::AskIf { condition, data } => match value(condition) {
                Some(condition) => self.ask_if(scope, Called { bytes: *data, ..called }, args, condition),
                None => None,
            },
            Meaning::AskIfShared => args.is_empty().then(|| self.ask_if_shared(scope, called)),
        };
        done.is_some()
    }

    /// Width of the cells of an array that native code can use.
    fn cell_width(
        &self,
        instance: Option<ExternInstanceId>,
        counter: bool,
    ) -> Option<(ExternInstanceId, u32)> {
        let shape = self.s.known.arrays.get(instance?.index())?;
        let fits = (shape.kind != CellKind::Value) == counter && (1..=128).contains(&shape.width);
        (fits && shape.len > 0).then_some((instance?, shape.width))
    }

    /// A number of at most 64 bits without a sign.
    fn is_index(&self, e: &Expr) -> bool {
        let width = match self.shape(e.ty) {
            Shape::Scalar(Scalar::Bits, w) => *w,
            _ => return false,
        };
        (1..=64).contains(&width) && !self.signed(e.ty)
    }

    /// A number of this width in a register, and no `bool`.
    fn is_number(&self, ty: pointsman_ir::TypeId, width: u32) -> bool {
        matches!(self.shape(ty), Shape::Scalar(Scalar::Bits | Scalar::Enum | Scalar::Error, w) if *w == width)
            && register(width).is_some()
    }

    /// Looks whether there is a cell `i` of an array. Code continues where there is one, with its address; where there may
    /// be none it has to continue in the returned block.
    fn find_cell(&mut self, instance: ExternInstanceId, i: V) -> ((V, i32), Option<Block>) {
        // No index can be too large: nothing to compare.
        let bits = self.most_bits(i, 6);
        if self.s.known.arrays.get(instance.index()).is_some_and(|a| bits < 64 && a.len >> bits > 0) {
            self.trusts_cells = true;
            return (self.cell_address(instance, i), None);
        }
        let (some, none) = (self.new_block(), self.new_block());
        let entry = (instance.index() * size_of::<CellArray>()) as i32;
        let fixed = FLAGS.with_readonly();
        let arrays = self.b.ins().load(types::I64, fixed, self.ctx, at::CELLS);
        let len = self.b.ins().load(types::I64, fixed, arrays, entry + CellArray::LEN as i32);
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThan, i, len);
        self.branch(fits, some, none);
        self.b.set_cold_block(none);
        self.start(some);
        (self.cell_address(instance, i), Some(none))
    }

    /// The position of cell `i` of an array, if it exists: an address, and an offset. Adjacent cells of one index share
    /// the address.
    pub(super) fn cell_address(&mut self, instance: ExternInstanceId, i: V) -> (V, i32) {
        self.uses_cells = true;
        let place = self.s.places[instance.index()];
        let entry = (place.leader * size_of::<CellArray>()) as i32;
        // The same whenever it is read: once will do.
        let fixed = FLAGS.with_readonly().with_can_move();
        let arrays = self.b.ins().load(types::I64, fixed, self.ctx, at::CELLS);
        let base = self.b.ins().load(types::I64, fixed, arrays, entry + CellArray::BASE as i32);
        (self.cell_of(base, i, 4 * place.stride), 4 * place.first as i32)
    }

    /// The address of cell `i` of those at an address, with so many bytes each.
    pub(super) fn cell_of(&mut self, base: V, i: V, bytes: u32) -> V {
        let offset = match bytes.is_power_of_two() {
            true => self.b.ins().ishl_imm_u(i, i64::from(bytes.trailing_zeros())),
            false => self.b.ins().imul_imm_s(i, i64::from(bytes)),
        };
        self.b.ins().iadd(base, offset)
    }

    fn load_cell(&mut self, scope: &Rc<Scope>, called: Called<'_>, index: &Expr, to: &LValue) -> Option<()> {
        let (instance, width) = self.cell_width(called.instance, false)?;
        if !self.is_index(index) || !self.is_number(to.ty, width) {
            return None;
        }
        let target = self.resolve(scope, to, true);
        let Val::Reg(i) = self.expr(scope, index) else { return None };
        let result = self.b.declare_var(register(width)?);
        let done = self.new_block();
        let ((cell, off), none) = self.find_cell(instance, i);
        // The least significant part first; cells of more than 64 bits are read as two.
        let v = match width {
            1..=64 => self.ordered_load(width, cell, off),
            _ => {
                let low = self.b.ins().load(types::I64, FLAGS, cell, off);
                let high = match width {
                    65..=96 => self.b.ins().uload32(FLAGS, cell, off + 8),
                    _ => self.b.ins().load(types::I64, FLAGS, cell, off + 8),
                };
                self.b.ins().iconcat(low, high)
            }
        };
        self.b.def_var(result, v);
        self.jump(done);
        if let Some(none) = none {
            self.start(none);
            let (index, to) = (
                Flat { v: Some(Val::Reg(i)), ty: index.ty, out: false },
                Flat { v: None, ty: to.ty, out: true },
            );
            let words = self.ask(called, &[to, index], None);
            let v = self.answer(words, 0, to.ty);
            self.b.def_var(result, v);
            self.jump(done);
        }
        self.start(done);
        let v = self.b.use_var(result);
        self.write(target, Val::Reg(v));
        Some(())
    }

    /// Loads a cell of up to 64 bits, zero-extended, after all cells that the program reads before it: writes of other
    /// threads are seen in their order. An x86-64 processor does so by itself; the flags keep the compiler from moving
    /// a load (one that may trap is not moved past another).
    fn ordered_load(&mut self, width: u32, cell: V, off: i32) -> V {
        if cfg!(target_arch = "x86_64") {
            return match width {
                1..=32 => self.b.ins().uload32(ORDERED, cell, off),
                _ => self.b.ins().load(types::I64, ORDERED, cell, off),
            };
        }
        let cell = self.b.ins().iadd_imm_s(cell, i64::from(off));
        match width {
            1..=32 => {
                let v = self.b.ins().atomic_load(types::I32, ORDERED, cell);
                self.b.ins().uextend(types::I64, v)
            }
            _ => self.b.ins().atomic_load(types::I64, ORDERED, cell),
        }
    }

    /// Stores a cell of up to 64 bits after all that the program writes before it; see [`Self::ordered_load`].
    fn ordered_store(&mut self, width: u32, v: V, cell: V, off: i32) {
        if cfg!(target_arch = "x86_64") {
            match width {
                1..=32 => self.b.ins().istore32(ORDERED, v, cell, off),
                _ => self.b.ins().store(ORDERED, v, cell, off),
            };
            return;
        }
        let cell = self.b.ins().iadd_imm_s(cell, i64::from(off));
        let v = if width <= 32 { self.b.ins().ireduce(types::I32, v) } else { v };
        self.b.ins().atomic_store(ORDERED, v, cell);
    }

    fn store_cell(&mut self, scope: &Rc<Scope>, called: Called<'_>, index: &Expr, from: &Expr) -> Option<()> {
        let (instance, width) = self.cell_width(called.instance, false)?;
        if !self.is_index(index) || !self.is_number(from.ty, width) {
            return None;
        }
        let (Val::Reg(i), Val::Reg(v)) = (self.expr(scope, index), self.expr(scope, from)) else {
            return None;
        };
        let done = self.new_block();
        let ((cell, off), none) = self.find_cell(instance, i);
        match width {
            1..=64 => self.ordered_store(width, v, cell, off),
            _ => {
                let (low, high) = self.halves(v);
                self.b.ins().store(FLAGS, low, cell, off);
                if width <= 96 {
                    self.b.ins().istore32(FLAGS, high, cell, off + 8);
                } else {
                    self.b.ins().store(FLAGS, high, cell, off + 8);
                }
            }
        }
        self.jump(done);
        if let Some(none) = none {
            self.start(none);
            let flat = |v, e: &Expr| Flat { v: Some(Val::Reg(v)), ty: e.ty, out: false };
            self.ask(called, &[flat(i, index), flat(v, from)], None);
            self.jump(done);
        }
        self.start(done);
        Some(())
    }

    fn count_cell(&mut self, scope: &Rc<Scope>, called: Called<'_>, index: &Expr) -> Option<()> {
        let (instance, _) = self.cell_width(called.instance, true)?;
        let kind = self.s.known.arrays.get(instance.index())?.kind;
        if !self.is_index(index) {
            return None;
        }
        let Val::Reg(i) = self.expr(scope, index) else { return None };
        let done = self.new_block();
        let ((cell, off), none) = self.find_cell(instance, i);
        self.count_packet(kind, cell, off);
        self.jump(done);
        if let Some(none) = none {
            self.start(none);
            self.ask(called, &[Flat { v: Some(Val::Reg(i)), ty: index.ty, out: false }], None);
            self.jump(done);
        }
        self.start(done);
        Some(())
    }

    /// Counts the packet in the counter at this address and offset.
    pub(super) fn count_packet(&mut self, kind: CellKind, cell: V, off: i32) {
        let mut second = off;
        if kind != CellKind::Bytes {
            let old = self.b.ins().load(types::I64, FLAGS, cell, off);
            let new = self.b.ins().iadd_imm_s(old, 1);
            self.b.ins().store(FLAGS, new, cell, off);
            second = off + 8;
        }
        if kind != CellKind::Packets {
            let bytes = self.b.ins().load(types::I64, FLAGS.with_readonly(), self.ctx, at::PACKET_BYTES);
            let old = self.b.ins().load(types::I64, FLAGS, cell, second);
            let new = self.b.ins().iadd(old, bytes);
            self.b.ins().store(FLAGS, new, cell, second);
        }
    }

    fn set_fields(&mut self, scope: &Rc<Scope>, lv: &LValue, fields: &[(u32, u64)]) -> Option<()> {
        let Shape::Struct(parts) = self.shape(self.repr(lv.ty)) else { return None };
        for (n, _) in fields {
            let (ty, _) = parts.get(*n as usize)?;
            if !(1..=64).any(|w| self.is_number(*ty, w)) {
                return None;
            }
        }
        let target = self.resolve(scope, lv, true);
        for (n, value) in fields {
            let field = self.field(target.place, *n);
            let v = self.number(*value);
            let v = self.mask(v, self.layouts().width(field.ty).unwrap_or(0));
            self.store(field, v);
        }
        self.keep_union(target);
        Some(())
    }

    fn digest_of(&self, algorithm: &Expr) -> Option<Digest> {
        let ExprKind::Const(Value::Enum(n)) = &algorithm.kind else { return None };
        let digest = *self.s.known.digests.get(*n as usize)?;
        (!matches!(digest, Digest::Ask)).then_some(digest)
    }

    fn hash(
        &mut self,
        scope: &Rc<Scope>,
        (called, args): (Called<'_>, &[Arg]),
        to: &LValue,
        [algorithm, base, data, max]: [&Expr; 4],
    ) -> Option<()> {
        let digest = self.digest_of(algorithm)?;
        let Shape::Scalar(Scalar::Bits, width @ 1..=64) = self.shape(to.ty) else { return None };
        if !self.is_index(base) || !self.is_index(max) || [data, base, max].into_iter().any(can_fail) {
            return None;
        }
        let target = self.resolve(scope, to, true);
        let (digest, odd) = self.digest_of_data(scope, digest, data)?;
        let (Val::Reg(base), Val::Reg(most)) = (self.expr(scope, base), self.expr(scope, max)) else {
            return None;
        };
        let offset = match &max.kind {
            ExprKind::Const(Value::Bits(n)) => match n.low_u64() {
                0 => most,
                n if n.is_power_of_two() => self.b.ins().band_imm_u(digest, (n - 1) as i64),
                _ => self.b.ins().urem(digest, most),
            },
            _ => self.remainder(digest, most),
        };
        let v = self.b.ins().iadd(base, offset);
        let v = self.mask(v, *width);
        self.write(target, Val::Reg(v));
        self.call_where_odd(scope, called, args, odd);
        Some(())
    }

    /// Data that could not be gathered: the architecture does the call.
    fn call_where_odd(&mut self, scope: &Rc<Scope>, called: Called<'_>, args: &[Arg], odd: Option<Block>) {
        let Some(odd) = odd.filter(|odd| *odd != self.abort) else { return };
        let done = self.new_block();
        self.jump(done);
        self.b.set_cold_block(odd);
        self.start(odd);
        self.call_through(scope, called, args, None);
        self.jump(done);
        self.start(done);
    }

    fn verify_digest(
        &mut self,
        scope: &Rc<Scope>,
        called: Called<'_>,
        args: &[Arg],
        [condition, data, sum, algorithm]: [&Expr; 4],
    ) -> Option<()> {
        let Some(digest) = self.digest_of(algorithm) else {
            return self.ask_if(scope, called, args, condition);
        };
        if !self.is_index(sum) || [condition, data, sum].into_iter().any(can_fail) {
            return None;
        }
        let width = self.layouts().width(sum.ty)?;
        let (check, wrong, done) = (self.new_block(), self.new_block(), self.new_block());
        self.decide(scope, condition, check, done);
        self.start(check);
        match self.digest_of_data(scope, digest, data) {
            Some((digest, odd)) => {
                let digest = self.mask(digest, width);
                let Val::Reg(sum) = self.expr(scope, sum) else { return None };
                let right = self.b.ins().icmp(IntCC::Equal, digest, sum);
                self.b.set_cold_block(wrong);
                self.branch(right, done, wrong);
                if let Some(odd) = odd.filter(|odd| *odd != self.abort) {
                    self.start(odd);
                    self.jump(wrong);
                }
            }
            None => self.jump(wrong),
        }
        self.start(wrong);
        self.call_through(scope, called, args, None);
        self.jump(done);
        self.start(done);
        Some(())
    }

    fn update_digest(
        &mut self,
        scope: &Rc<Scope>,
        (called, args): (Called<'_>, &[Arg]),
        [condition, data, algorithm]: [&Expr; 3],
        sum: &LValue,
    ) -> Option<()> {
        let digest = self.digest_of(algorithm)?;
        let Shape::Scalar(Scalar::Bits, width @ 1..=64) = self.shape(sum.ty) else { return None };
        if [condition, data].into_iter().any(can_fail) {
            return None;
        }
        let target = self.resolve(scope, sum, true);
        let (compute, done) = (self.new_block(), self.new_block());
        self.decide(scope, condition, compute, done);
        self.start(compute);
        match self.digest_of_data(scope, digest, data) {
            Some((v, odd)) => {
                let v = self.mask(v, *width);
                self.write(target, Val::Reg(v));
                self.call_where_odd(scope, called, args, odd);
            }
            None => self.call_through(scope, called, args, None),
        }
        self.jump(done);
        self.start(done);
        Some(())
    }

    fn ask_if(
        &mut self,
        scope: &Rc<Scope>,
        called: Called<'_>,
        args: &[Arg],
        condition: &Expr,
    ) -> Option<()> {
        // Whatever can fail must be evaluated.
        let can_fail = |arg: &Arg| match arg {
            Arg::In(e) => can_fail(e),
            Arg::Out(lv) | Arg::InOut(lv) => super::expr::place_can_fail(lv),
        };
        if args.iter().any(can_fail) {
            return None;
        }
        let (ask, done) = (self.new_block(), self.new_block());
        self.decide(scope, condition, ask, done);
        self.start(ask);
        let data = match called.bytes.and_then(|n| args.get(n as usize)) {
            Some(Arg::In(data)) if self.is_flat(args, None) => self.gathered(scope, data),
            _ => None,
        };
        match data {
            Some(data) => {
                self.call_flat(scope, called, args, None, Some(data));
                self.call_where_odd(scope, called, args, data.odd);
            }
            None => self.call_through(scope, called, args, None),
        }
        self.jump(done);
        self.start(done);
        Some(())
    }

    fn ask_if_shared(&mut self, scope: &Rc<Scope>, called: Called<'_>) {
        self.uses_shared = true;
        let shared = self.b.ins().load(types::I64, FLAGS.with_readonly(), self.ctx, at::SHARED);
        let (ask, done) = (self.new_block(), self.new_block());
        self.b.set_cold_block(ask);
        self.branch(shared, ask, done);
        self.start(ask);
        self.call_through(scope, called, &[], None);
        self.jump(done);
        self.start(done);
    }
}
