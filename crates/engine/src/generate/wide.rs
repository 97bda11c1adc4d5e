//! Numbers of more than 128 bits, as 64-bit limbs.
//!
//! Numbers of up to [`MOST_LIMBS`] limbs are held in as many registers, and operations on them are generated in place.
//! Larger ones are in memory, and functions of the runtime loop over their limbs, as they do for products and
//! quotients; but the parts of them that fit registers are also read and written in place.

use super::place::{At, Place, Val, register};
use super::{FLAGS, Gen};
use crate::code::Site;
use crate::layout::{MOST_LIMBS, Shape};
use crate::limbs::{count, top_mask};
use crate::runtime::{self, Wide, WideOp};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value as V, types};
use cranelift_frontend::Variable;
use pointsman_ir::{BinaryOp, Type, TypeId, UnaryOp};
use std::ops::Range;

/// Whether limbs of numbers of this width can be held in registers.
fn few(width: u32) -> bool {
    count(width) <= MOST_LIMBS
}

impl Gen<'_, '_> {
    /// A number of more than 128 bits?
    pub(super) fn is_wide(&self, ty: TypeId) -> bool {
        matches!(self.shape(ty), Shape::Scalar(..)) && self.reg_type(ty).is_none()
    }

    /// Limbs of a number.
    pub(super) fn limbs(&mut self, v: Val, width: u32) -> Vec<V> {
        self.some_limbs(v, width, 0..count(width))
    }

    /// Some of its limbs: nothing else is read.
    fn some_limbs(&mut self, v: Val, width: u32, which: Range<usize>) -> Vec<V> {
        let place = match v {
            Val::Reg(v) => {
                let all = match self.b.func.dfg.value_type(v) {
                    types::I128 => {
                        let (low, high) = self.halves(v);
                        [low, high]
                    }
                    _ => [self.widen(v, types::I64), self.number(0)],
                };
                return all.get(which).unwrap_or(&all).to_vec();
            }
            Val::At(place) => place,
        };
        which
            .map(|i| match place.at {
                At::Regs(first) => self.b.use_var(Variable::from_u32(first + i as u32)),
                At::Mem { base, off } => self.b.ins().load(types::I64, FLAGS, base, off + 8 * i as i32),
                At::Packed { base, off, bit, bytes } => {
                    let behind = 64 * i as u32;
                    let part = (width - behind).min(64);
                    self.load_packed(base, off, bit + width - behind - part, bytes, part)
                }
            })
            .collect()
    }

    /// The number that limbs make up.
    pub(super) fn of_limbs(&mut self, mut limbs: Vec<V>, width: u32) -> Val {
        limbs.truncate(count(width));
        self.trim(&mut limbs, width);
        match (limbs.as_slice(), register(width)) {
            ([low, high], Some(_)) => Val::Reg(self.b.ins().iconcat(*low, *high)),
            ([low, ..], Some(_)) => Val::Reg(*low),
            (_, None) => {
                let Some(ty) = self.number_type(width) else { return Val::Reg(self.number(0)) };
                let place = self.fresh_undefined(ty);
                self.store_limbs(place, &limbs);
                Val::At(place)
            }
            _ => Val::Reg(self.number(0)),
        }
    }

    /// The layout of numbers depends on their width alone, so any type of that width does.
    fn number_type(&mut self, width: u32) -> Option<TypeId> {
        let types = self.types();
        let ty = types.find(&Type::Bit(width)).or_else(|| types.find(&Type::Int(width)));
        if ty.is_none() {
            self.refuse(format!("there is no type of {width} bits"));
        }
        ty
    }

    /// Clears the bits above the width.
    fn trim(&mut self, limbs: &mut [V], width: u32) {
        if let Some(top) = limbs.get_mut(count(width).wrapping_sub(1))
            && !width.is_multiple_of(64)
        {
            *top = self.mask(*top, width % 64);
        }
    }

    fn store_limb(&mut self, at: At, i: usize, v: V) {
        match at {
            At::Regs(first) => self.b.def_var(Variable::from_u32(first + i as u32), v),
            At::Mem { base, off } => {
                self.b.ins().store(FLAGS, v, base, off + 8 * i as i32);
            }
            At::Packed { .. } => {}
        }
    }

    /// Writes all limbs of a wide number.
    pub(super) fn store_limbs(&mut self, to: Place, limbs: &[V]) {
        if let At::Packed { base, off, bit, bytes } = to.at {
            let width = self.layouts().width(to.ty).unwrap_or(0);
            for (i, v) in limbs.iter().enumerate() {
                let behind = 64 * i as u32;
                let part = (width - behind).min(64);
                self.store_packed(base, off, bit + width - behind - part, bytes, part, *v);
            }
            return;
        }
        limbs.iter().enumerate().for_each(|(i, v)| self.store_limb(to.at, i, *v));
    }

    /// Copies a wide number.
    pub(super) fn copy_wide(&mut self, to: Place, from: Place) {
        let width = self.layouts().width(to.ty).unwrap_or(0);
        if few(width) {
            let limbs = self.limbs(Val::At(from), width);
            return self.store_limbs(to, &limbs);
        }
        let at = self.limbs_at(Val::At(from), width);
        match to.at {
            At::Packed { base, off, bit, .. } => {
                let to = self.pointer(base, off);
                let op = WideOp::Pack(bit);
                self.wide(Wide { op, signed: false, a: width, b: 0, result: 0 }, to, at, at);
            }
            At::Mem { base, off } => self.copy_bytes((base, off), (at, 0), 8 * count(width) as u32),
            At::Regs(_) => {}
        }
    }

    /// The address of a number's limbs: its own, or that of a copy.
    fn limbs_at(&mut self, v: Val, width: u32) -> V {
        if let (Val::At(Place { at: At::Mem { base, off }, .. }), None) = (v, register(width)) {
            return self.pointer(base, off);
        }
        let at = self.scratch(8 * count(width) as u32);
        let At::Mem { base, off } = at else { return self.scratch };
        let to = self.pointer(base, off);
        match v {
            Val::At(Place { at: At::Packed { base, off, bit, .. }, .. }) if !few(width) => {
                let from = self.pointer(base, off);
                let op = WideOp::Unpack(bit);
                self.wide(Wide { op, signed: false, a: 0, b: 0, result: width }, to, from, from);
            }
            v => {
                let limbs = self.limbs(v, width);
                limbs.iter().enumerate().for_each(|(i, v)| self.store_limb(at, i, *v));
            }
        }
        to
    }

    /// Runs an operation of the runtime.
    fn wide(&mut self, wide: Wide, to: V, a: V, b: V) -> V {
        let site = self.site(Site::Wide(wide));
        let ctx = self.ctx;
        self.call_runtime(runtime::wide as *const u8, &[ctx, site, to, a, b], true)
    }

    /// Runs an operation of the runtime that gives a number.
    fn by_runtime(&mut self, wide: Wide, a: Val, b: Option<Val>) -> Val {
        let x = self.limbs_at(a, wide.a);
        let y = b.map_or(x, |b| self.limbs_at(b, wide.b));
        // A quotient and a remainder are always made together.
        let at = self.scratch(16 * count(wide.result) as u32);
        let At::Mem { base, off } = at else { return a };
        let to = self.pointer(base, off);
        self.wide(wide, to, x, y);
        if register(wide.result).is_none()
            && let Some(ty) = self.number_type(wide.result)
        {
            return Val::At(Place { ty, at });
        }
        let limbs = (0..count(wide.result) as i32)
            .map(|i| self.b.ins().load(types::I64, FLAGS, base, off + 8 * i))
            .collect();
        self.of_limbs(limbs, wide.result)
    }

    /// A word, or all ones for a number that does not fit one.
    pub(super) fn saturated(&mut self, v: Val, width: u32) -> V {
        let limbs = self.limbs(v, width);
        let Some((low, high)) = limbs.split_first() else { return self.number(0) };
        let Some(high) = self.any(high) else { return *low };
        let most = self.number(u64::MAX);
        self.b.ins().select(high, most, *low)
    }

    /// All limbs or-ed together.
    fn any(&mut self, limbs: &[V]) -> Option<V> {
        limbs.iter().copied().reduce(|a, b| self.b.ins().bor(a, b))
    }

    pub(super) fn wide_unary(&mut self, op: UnaryOp, v: Val, width: u32) -> Val {
        if !few(width) {
            let op = WideOp::Unary(op);
            return self.by_runtime(Wide { op, signed: false, a: width, b: 0, result: width }, v, None);
        }
        let limbs = self.limbs(v, width);
        let limbs = match op {
            UnaryOp::Neg => {
                let zeros = vec![self.number(0); limbs.len()];
                self.sum(&zeros, &limbs, false).0
            }
            _ => limbs.into_iter().map(|v| self.b.ins().bnot(v)).collect(),
        };
        self.of_limbs(limbs, width)
    }

    /// An operator some of whose operands, or whose result, have more than 128 bits, or a division of more than 64.
    pub(super) fn wide_binary(
        &mut self,
        op: BinaryOp,
        (a, w): (Val, u32),
        (b, wb): (Val, u32),
        signed: bool,
        result: u32,
    ) -> Val {
        use BinaryOp::*;
        let truth = matches!(op, Eq | Ne | Lt | Le | Gt | Ge);
        if matches!(op, Mul | Div | Mod) || !few(w.max(wb).max(result)) {
            let wide = Wide { op: WideOp::Binary(op), signed, a: w, b: wb, result };
            if !truth {
                return self.by_runtime(wide, a, Some(b));
            }
            let (x, y) = (self.limbs_at(a, w), self.limbs_at(b, wb));
            let truth = self.wide(wide, x, x, y);
            return Val::Reg(self.b.ins().ireduce(types::I8, truth));
        }
        if let Shl | Shr = op {
            let Val::Reg(by) = b else { return a };
            let limbs = self.limbs(a, w);
            let limbs = match self.known_number(by) {
                Some(by) => self.shift_limbs(op == Shl, signed, limbs, w, by.min(u64::from(w)) as u32),
                None => self.shift_limbs_by(op == Shl, signed, limbs, w, by),
            };
            return self.of_limbs(limbs, result);
        }
        let (x, y) = (self.limbs(a, w), self.limbs(b, wb));
        let mut each = |f: fn(&mut Self, V, V) -> V| -> Vec<V> {
            x.iter().zip(&y).map(|(a, b)| f(self, *a, *b)).collect()
        };
        let limbs = match op {
            Eq | Ne | Lt | Le | Gt | Ge => return Val::Reg(self.compare_limbs(op, signed, &x, &y, w)),
            BitAnd => each(|g, a, b| g.b.ins().band(a, b)),
            BitOr => each(|g, a, b| g.b.ins().bor(a, b)),
            BitXor => each(|g, a, b| g.b.ins().bxor(a, b)),
            SatAdd | SatSub => self.saturating_limbs(op == SatAdd, signed, &x, &y, w),
            Concat => {
                let x = self.extend(x, w, result, false);
                let mut limbs = self.shift_limbs(true, false, x, result, wb);
                for (l, low) in limbs.iter_mut().zip(y) {
                    *l = self.b.ins().bor(*l, low);
                }
                limbs
            }
            _ => self.sum(&x, &y, op == Add).0,
        };
        self.of_limbs(limbs, result)
    }

    /// Sum or difference, and the carry or borrow.
    fn sum(&mut self, x: &[V], y: &[V], add: bool) -> (Vec<V>, V) {
        let mut carry: Option<V> = None;
        let mut limbs = Vec::with_capacity(x.len());
        for (a, b) in x.iter().zip(y) {
            let step = |g: &mut Self, a: V, b: V| {
                let r = if add { g.b.ins().iadd(a, b) } else { g.b.ins().isub(a, b) };
                let over = if add { (r, a) } else { (a, b) };
                (r, g.b.ins().icmp(IntCC::UnsignedLessThan, over.0, over.1))
            };
            let (r, mut c) = step(self, *a, *b);
            let mut limb = r;
            if let Some(carry) = carry {
                let carry = self.b.ins().uextend(types::I64, carry);
                let (r, d) = step(self, r, carry);
                (limb, c) = (r, self.b.ins().bor(c, d));
            }
            limbs.push(limb);
            carry = Some(c);
        }
        (limbs, carry.unwrap_or(x[0]))
    }

    /// Bit `width - 1`, as a word.
    fn sign(&mut self, limbs: &[V], width: u32) -> V {
        let top = self.b.ins().ushr_imm_u(limbs[count(width) - 1], i64::from((width - 1) % 64));
        self.b.ins().band_imm_u(top, 1)
    }

    fn saturating_limbs(&mut self, add: bool, signed: bool, x: &[V], y: &[V], width: u32) -> Vec<V> {
        let (mut limbs, carry) = self.sum(x, y, add);
        let last = limbs.len() - 1;
        let (over, limit) = if signed {
            // Overflow: the operands' signs are equal (for a difference: unequal) and the result's is another.
            let (a, b, r) = (self.sign(x, width), self.sign(y, width), self.sign(&limbs, width));
            let (first, second) = (
                self.b.ins().bxor(a, r),
                self.b.ins().bxor(if add { b } else { a }, if add { r } else { b }),
            );
            let over = self.b.ins().band(first, second);
            // Below: zeros under a one; above: ones under a zero.
            let ones = self.b.ins().iadd_imm_s(a, -1);
            let top = self.b.ins().bxor_imm_u(ones, i64::MIN);
            let top = self.b.ins().ushr_imm_u(top, i64::from(63 - (width - 1) % 64));
            (over, (0..=last).map(|i| if i == last { top } else { ones }).collect())
        } else {
            let above = match width % 64 {
                0 => None,
                part => Some(self.b.ins().ushr_imm_u(limbs[last], i64::from(part))),
            };
            let over = match above {
                Some(above) if add => above,
                _ => carry,
            };
            (over, vec![self.number(if add { u64::MAX } else { 0 }); last + 1])
        };
        for (l, limit) in limbs.iter_mut().zip(limit) {
            *l = self.b.ins().select(over, limit, *l);
        }
        limbs
    }

    fn compare_limbs(&mut self, op: BinaryOp, signed: bool, x: &[V], y: &[V], width: u32) -> V {
        use BinaryOp::*;
        if let Eq | Ne = op {
            let differ: Vec<V> = x.iter().zip(y).map(|(a, b)| self.b.ins().bxor(*a, *b)).collect();
            let Some(differ) = self.any(&differ) else { return self.b.ins().iconst(types::I8, 1) };
            let code = if op == Eq { IntCC::Equal } else { IntCC::NotEqual };
            return self.b.ins().icmp_imm_u(code, differ, 0);
        }
        let (x, y) = if let Gt | Le = op { (y, x) } else { (x, y) };
        let (mut less, last) = (None, x.len() - 1);
        for (i, (a, b)) in x.iter().zip(y).enumerate() {
            let (mut a, mut b, mut code) = (*a, *b, IntCC::UnsignedLessThan);
            if signed && i == last {
                code = IntCC::SignedLessThan;
                let part = if width.is_multiple_of(64) { 64 } else { width % 64 };
                (a, b) = (self.sign_extend(a, part), self.sign_extend(b, part));
            }
            let this = self.b.ins().icmp(code, a, b);
            less = Some(match less {
                None => this,
                Some(below) => {
                    let same = self.b.ins().icmp(IntCC::Equal, a, b);
                    self.b.ins().select(same, below, this)
                }
            });
        }
        let Some(less) = less else { return self.b.ins().iconst(types::I8, 0) };
        if let Le | Ge = op { self.b.ins().bxor_imm_u(less, 1) } else { less }
    }

    /// The limbs of a number of `width` bits in `to` bits: bits that come in are zeros, or copies of the sign.
    fn extend(&mut self, mut limbs: Vec<V>, width: u32, to: u32, signed: bool) -> Vec<V> {
        let mut fill = self.number(0);
        if signed
            && to > width
            && let Some(top) = limbs.last_mut()
        {
            let part = if width.is_multiple_of(64) { 64 } else { width % 64 };
            *top = self.sign_extend(*top, part);
            fill = self.b.ins().sshr_imm_u(*top, 63);
        }
        limbs.resize(count(to), fill);
        limbs
    }

    /// Shifts by a number that is known, of at most `width` bits. Bits above the width may be left.
    fn shift_limbs(&mut self, left: bool, signed: bool, limbs: Vec<V>, width: u32, by: u32) -> Vec<V> {
        let (whole, part, n) = (by as usize / 64, by % 64, limbs.len());
        let zero = self.number(0);
        if left {
            let at = |i: Option<usize>| i.and_then(|i| limbs.get(i)).copied();
            return (0..n)
                .map(|i| self.funnel(at(i.checked_sub(whole)), at(i.checked_sub(whole + 1)), 64 - part))
                .map(|v| v.unwrap_or(zero))
                .collect();
        }
        // A limb more than there are, so that bits above the width come from it.
        let limbs = self.extend(limbs, width, 64 * n as u32 + 64, signed);
        let at = |i: usize| limbs.get(i.min(n)).copied();
        (0..n)
            .map(|i| self.funnel(at(i + whole + 1), at(i + whole), part))
            .map(|v| v.unwrap_or(zero))
            .collect()
    }

    /// The low half of a pair of limbs shifted right by up to 64 bits. `None` means zero.
    fn funnel(&mut self, high: Option<V>, low: Option<V>, by: u32) -> Option<V> {
        if by == 0 {
            return low;
        }
        if by == 64 {
            return high;
        }
        let high = high.map(|v| self.b.ins().ishl_imm_u(v, i64::from(64 - by)));
        let low = low.map(|v| self.b.ins().ushr_imm_u(v, i64::from(by)));
        match (high, low) {
            (Some(high), Some(low)) => Some(self.b.ins().bor(high, low)),
            (high, low) => high.or(low),
        }
    }

    /// Shifts by any number: the limbs are read again from where the shift by whole limbs finds them.
    fn shift_limbs_by(&mut self, left: bool, signed: bool, limbs: Vec<V>, width: u32, by: V) -> Vec<V> {
        let n = limbs.len();
        let at = self.scratch(8 * (2 * n as u32 + 1));
        let At::Mem { base, off } = at else { return limbs };
        let by = self.widen(by, types::I64);
        let most = self.number(u64::from(width));
        let by = self.b.ins().umin(by, most);
        let whole = self.b.ins().ushr_imm_u(by, 6);
        let bytes = self.b.ins().ishl_imm_u(whole, 3);
        // Shifting takes the distance modulo 64.
        let rest = self.b.ins().bxor_imm_u(by, 63);
        let limbs = self.extend(limbs, width, 64 * (2 * n as u32 + 1), signed && !left);
        if left {
            let zero = limbs[2 * n];
            (0..=n).for_each(|i| self.store_limb(at, i, zero));
            limbs.iter().take(n).enumerate().for_each(|(i, v)| self.store_limb(at, n + 1 + i, *v));
        } else {
            limbs.iter().enumerate().for_each(|(i, v)| self.store_limb(at, i, *v));
        }
        let start = self.pointer(base, off);
        let start = if left { self.b.ins().isub(start, bytes) } else { self.b.ins().iadd(start, bytes) };
        let load = |g: &mut Self, i: usize| g.b.ins().load(types::I64, FLAGS, start, 8 * i as i32);
        (0..n)
            .map(|i| {
                if left {
                    let (high, low) = (load(self, n + 1 + i), load(self, n + i));
                    let high = self.b.ins().ishl(high, by);
                    let low = self.b.ins().ushr_imm_u(low, 1);
                    let low = self.b.ins().ushr(low, rest);
                    self.b.ins().bor(high, low)
                } else {
                    let (low, high) = (load(self, i), load(self, i + 1));
                    let low = self.b.ins().ushr(low, by);
                    let high = self.b.ins().ishl_imm_u(high, 1);
                    let high = self.b.ins().ishl(high, rest);
                    self.b.ins().bor(high, low)
                }
            })
            .collect()
    }

    /// A number of bits in another width.
    pub(super) fn wide_cast(&mut self, v: Val, from: u32, to: u32, signed: bool) -> Val {
        if !few(to) {
            return self.by_runtime(Wide { op: WideOp::Cast, signed, a: from, b: 0, result: to }, v, None);
        }
        let limbs = self.some_limbs(v, from, 0..count(from.min(to)));
        let limbs = self.extend(limbs, from, to, signed);
        self.of_limbs(limbs, to)
    }

    /// Bits of a wide number.
    pub(super) fn wide_slice(&mut self, v: Val, width: u32, hi: u32, lo: u32) -> Val {
        let part = hi + 1 - lo;
        if let Val::At(Place { at: At::Packed { base, off, bit, bytes }, .. }) = v {
            let at = At::Packed { base, off, bit: bit + width - 1 - hi, bytes };
            let Some(ty) = self.number_type(part) else { return v };
            return self.get(Place { ty, at });
        }
        if !few(part) {
            let op = WideOp::Slice(lo);
            return self.by_runtime(Wide { op, signed: false, a: width, b: 0, result: part }, v, None);
        }
        let (first, last) = (lo as usize / 64, hi as usize / 64);
        let limbs = self.some_limbs(v, width, first..last + 1);
        let limbs: Vec<V> = (0..limbs.len())
            .filter_map(|i| self.funnel(limbs.get(i + 1).copied(), Some(limbs[i]), lo % 64))
            .collect();
        self.of_limbs(limbs, part)
    }

    /// Replaces bits of a wide number.
    pub(super) fn write_wide_slice(&mut self, place: Place, hi: u32, lo: u32, v: Val) {
        let part = hi + 1 - lo;
        if let At::Packed { base, off, bit, bytes } = place.at {
            let width = self.layouts().width(place.ty).unwrap_or(0);
            let bit = bit + width - 1 - hi;
            return match (v, self.number_type(part)) {
                (Val::Reg(v), _) => self.store_packed(base, off, bit, bytes, part, v),
                (v, Some(ty)) => self.put(Place { ty, at: At::Packed { base, off, bit, bytes } }, v),
                _ => {}
            };
        }
        if let (At::Mem { base, off }, false) = (place.at, few(part)) {
            let (at, to) = (self.limbs_at(v, part), self.pointer(base, off));
            let width = self.layouts().width(place.ty).unwrap_or(0);
            let op = WideOp::SetSlice(hi, lo);
            self.wide(Wide { op, signed: false, a: part, b: 0, result: width }, to, at, at);
            return;
        }
        let (first, last, by) = (lo as usize / 64, hi as usize / 64, lo % 64);
        let limbs = self.limbs(v, part);
        let before = self.some_limbs(Val::At(place), 0, first..last + 1);
        for (n, old) in before.into_iter().enumerate() {
            let below = n.checked_sub(1).and_then(|n| limbs.get(n)).copied();
            let Some(new) = self.funnel(limbs.get(n).copied(), below, 64 - by) else { continue };
            let mut mask = u64::MAX;
            if n == 0 {
                mask &= u64::MAX << by;
            }
            if first + n == last {
                mask &= top_mask(hi + 1);
            }
            let v = if mask == u64::MAX {
                new
            } else {
                let (hole, mask) = (self.number(!mask), self.number(mask));
                let (old, new) = (self.b.ins().band(old, hole), self.b.ins().band(new, mask));
                self.b.ins().bor(old, new)
            };
            self.store_limb(place.at, first + n, v);
        }
    }
}
