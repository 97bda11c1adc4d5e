//! Expressions.

use super::place::{At, Place, Val, register};
use super::{Gen, Scope};
use crate::layout::{Scalar, Shape};
use crate::memory::{Memory, Spot, bytes_mut};
use crate::runtime;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, InstructionData, Opcode, Type as Ty, Value as V, types};
use pointsman_ir::{BinaryOp, Bits, Expr, ExprKind, LValue, Proj, Type, TypeId, UnaryOp, Value};

impl Gen<'_, '_> {
    /// Whether it is an `int<W>`, or represented as one.
    pub(super) fn signed(&self, ty: TypeId) -> bool {
        matches!(self.types().repr_type(ty), Type::Int(_))
    }

    fn width(&self, ty: TypeId) -> u32 {
        self.layouts().width(ty).unwrap_or(0)
    }

    pub(super) fn expr(&mut self, scope: &Scope, e: &Expr) -> Val {
        match &e.kind {
            ExprKind::Const(v) => self.value(v, e.ty),
            ExprKind::Read(lv) => self.read(scope, lv),
            ExprKind::IsValid(lv) => {
                let place = self.resolve(scope, lv, false).place;
                Val::Reg(self.is_valid(place))
            }
            ExprKind::LastIndex(lv) => {
                let place = self.resolve(scope, lv, false).place;
                let next = self.next_index(place);
                let last = self.b.ins().iadd_imm_s(next, -1);
                Val::Reg(self.mask(last, 32))
            }
            ExprKind::Unary(op, a) => self.unary(scope, *op, a),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                if can_fail(b) {
                    return self.by_branches(scope, e);
                }
                let (x, y) = (self.truth(scope, a), self.truth(scope, b));
                Val::Reg(self.both_or_either(*op == BinaryOp::And, x, y))
            }
            ExprKind::Binary(op, a, b) => {
                let (x, y) = (self.expr(scope, a), self.expr(scope, b));
                self.binary(*op, (x, a.ty), (y, b.ty), e.ty)
            }
            ExprKind::Mux(c, a, b) => self.mux(scope, c, a, b, e.ty),
            ExprKind::Cast(a) => {
                let v = self.expr(scope, a);
                self.cast(v, a.ty, e.ty)
            }
            ExprKind::Slice(a, hi, lo) => {
                let v = self.expr(scope, a);
                self.slice(v, a.ty, *hi, *lo)
            }
            ExprKind::Field(a, i) => match self.expr(scope, a) {
                Val::At(place) => {
                    let field = self.field(place, *i);
                    self.get(field)
                }
                v => v,
            },
            ExprKind::Aggregate(parts) => self.aggregate(scope, parts, e.ty),
            ExprKind::Invalid => Val::At(self.fresh(e.ty)),
        }
    }

    fn read(&mut self, scope: &Scope, lv: &LValue) -> Val {
        let target = self.resolve(scope, lv, false);
        match target.slice {
            None => self.get(target.place),
            Some((hi, lo)) => {
                if let (At::Packed { base, off, bit, bytes }, Some(_), Some(_)) =
                    (target.place.at, self.reg_type(target.place.ty), self.types().scalar_width(lv.ty))
                {
                    // Only the bytes that are asked for.
                    let width = self.width(target.place.ty);
                    let bit = bit + width - 1 - hi;
                    let part = Place { ty: self.repr(lv.ty), at: At::Packed { base, off, bit, bytes } };
                    return self.get(part);
                }
                let v = self.get(target.place);
                self.slice(v, target.place.ty, hi, lo)
            }
        }
    }

    /// A `bool`.
    pub(super) fn truth(&mut self, scope: &Scope, e: &Expr) -> V {
        match self.expr(scope, e) {
            Val::Reg(v) => v,
            Val::At(_) => self.b.ins().iconst(types::I8, 0),
        }
    }

    /// Goes to `yes` or `no`. `And` and `Or` do not evaluate the right operand when the left one decides.
    pub(super) fn decide(&mut self, scope: &Scope, e: &Expr, yes: Block, no: Block) {
        match &e.kind {
            ExprKind::Unary(UnaryOp::Not, a) => self.decide(scope, a, no, yes),
            // One branch is cheaper than two.
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, b) if is_flag(a) && is_flag(b) => {
                let v = self.truth(scope, e);
                self.branch(v, yes, no);
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let next = self.new_block();
                if *op == BinaryOp::And {
                    self.decide(scope, a, next, no);
                } else {
                    self.decide(scope, a, yes, next);
                }
                self.start(next);
                if !self.is_dead() {
                    self.decide(scope, b, yes, no);
                }
            }
            ExprKind::Const(Value::Bool(b)) => self.jump(if *b { yes } else { no }),
            _ => {
                let v = self.truth(scope, e);
                self.branch(v, yes, no);
            }
        }
    }

    fn by_branches(&mut self, scope: &Scope, e: &Expr) -> Val {
        let (yes, no) = (self.new_block(), self.new_block());
        self.decide(scope, e, yes, no);
        let result = self.b.declare_var(types::I8);
        let done = self.new_block();
        for (block, value) in [(yes, 1), (no, 0)] {
            self.start(block);
            if self.is_dead() {
                continue;
            }
            let v = self.b.ins().iconst(types::I8, value);
            self.b.def_var(result, v);
            self.jump(done);
        }
        self.start(done);
        Val::Reg(self.b.use_var(result))
    }

    fn mux(&mut self, scope: &Scope, c: &Expr, a: &Expr, b: &Expr, ty: TypeId) -> Val {
        if self.reg_type(ty).is_some() && simple(a) && simple(b) {
            let c = self.truth(scope, c);
            if let (Val::Reg(a), Val::Reg(b)) = (self.expr(scope, a), self.expr(scope, b)) {
                return Val::Reg(match self.known_number(c) {
                    Some(c) => {
                        if c != 0 {
                            a
                        } else {
                            b
                        }
                    }
                    None => self.b.ins().select(c, a, b),
                });
            }
        }
        let result = self.fresh_undefined(ty);
        let (yes, no, done) = (self.new_block(), self.new_block(), self.new_block());
        self.decide(scope, c, yes, no);
        for (block, e) in [(yes, a), (no, b)] {
            self.start(block);
            if self.is_dead() {
                continue;
            }
            let v = self.expr(scope, e);
            self.put(result, v);
            self.jump(done);
        }
        self.start(done);
        self.get(result)
    }

    fn aggregate(&mut self, scope: &Scope, parts: &[Expr], ty: TypeId) -> Val {
        let place = self.fresh_undefined(ty);
        match (self.shape(place.ty), place.at) {
            (Shape::Stack { elem, first, stride, .. }, At::Mem { base, off }) => {
                self.clear(place);
                for (i, e) in parts.iter().enumerate() {
                    let off = off + (first + i as u32 * stride) as i32;
                    let v = self.expr(scope, e);
                    self.put(Place { ty: *elem, at: At::Mem { base, off } }, v);
                }
            }
            (shape, at) => {
                if let Shape::Header(h) = shape {
                    // Also bits after the fields.
                    if let At::Mem { .. } = at {
                        self.clear(place);
                    }
                    let _ = h;
                    let yes = self.b.ins().iconst(types::I8, 1);
                    self.set_valid(place, yes);
                }
                for (i, e) in parts.iter().enumerate() {
                    let v = self.expr(scope, e);
                    let field = self.field(place, i as u32);
                    self.put(field, v);
                }
            }
        }
        Val::At(place)
    }

    /// A constant.
    pub(super) fn value(&mut self, v: &Value, ty: TypeId) -> Val {
        let ty = self.repr(ty);
        if let (Some(reg), Some(bits)) = (self.reg_type(ty), v.to_bits()) {
            return Val::Reg(self.constant(reg, bits.to_u128().unwrap_or(0)));
        }
        if let (Value::String(s), Shape::Scalar(Scalar::String, _)) = (v, self.shape(ty)) {
            let known = self.strings.iter().position(|k| k == s);
            let index = known.unwrap_or_else(|| {
                self.strings.push(s.clone());
                self.strings.len() - 1
            });
            return Val::Reg(self.number(index as u64));
        }
        let size = self.layouts().get(ty).size as usize;
        let mut image = vec![0u64; size.div_ceil(8).max(1)].into_boxed_slice();
        if let (Value::Bits(bits), Shape::Scalar(_, width)) = (v, self.shape(ty))
            && self.layouts().get(ty).regs.is_some()
        {
            let limbs =
                (0..crate::limbs::count(*width) as u32).map(|i| bits.slice(64 * i + 63, 64 * i).low_u64());
            let limbs = limbs.collect::<Vec<_>>().into_iter().map(|l| self.number(l)).collect();
            return self.of_limbs(limbs, *width);
        }
        if let Value::Struct(_) | Value::Header { .. } = v
            && self.layouts().get(ty).regs.is_some()
        {
            return self.constant_parts(v, ty);
        }
        let memory = Memory { layouts: self.layouts(), strings: &self.strings };
        memory.put(bytes_mut(&mut image), ty, Spot::Natural(0), v);
        let base = self.address(image.as_ptr().cast());
        self.constants.push(image);
        Val::At(Place { ty, at: At::Mem { base, off: 0 } })
    }

    /// A small constant, in registers.
    fn constant_parts(&mut self, v: &Value, ty: TypeId) -> Val {
        let place = self.fresh_undefined(ty);
        if let Value::Header { valid, .. } = v {
            let valid = self.b.ins().iconst(types::I8, i64::from(*valid));
            self.set_valid(place, valid);
        }
        if let Value::Struct(parts) | Value::Header { fields: parts, .. } = v {
            for (i, part) in parts.iter().enumerate() {
                let field = self.field(place, i as u32);
                let part = self.value(part, field.ty);
                self.put(field, part);
            }
        }
        Val::At(place)
    }

    /// Whether the header, or a header of the union, is valid.
    fn is_valid(&mut self, place: Place) -> V {
        match self.shape(place.ty) {
            Shape::Union(members) => {
                let mut any = self.b.ins().iconst(types::I8, 0);
                for i in 0..members.len() as u32 {
                    let member = self.field(place, i);
                    let valid = self.valid(member);
                    any = self.b.ins().bor(any, valid);
                }
                any
            }
            _ => self.valid(place),
        }
    }

    /// To a register of another width, with zeros.
    pub(super) fn widen(&mut self, v: V, to: Ty) -> V {
        let from = self.b.func.dfg.value_type(v);
        match to.bits().cmp(&from.bits()) {
            std::cmp::Ordering::Equal => v,
            std::cmp::Ordering::Greater if to == types::I64 && self.known_number(v).is_some() => {
                let ones = (1 << from.bits()) - 1;
                let known = self.known_number(v).unwrap_or(0);
                self.number(known & ones)
            }
            std::cmp::Ordering::Greater => self.b.ins().uextend(to, v),
            std::cmp::Ordering::Less if from == types::I128 => {
                let (low, _) = self.halves(v);
                self.widen(low, to)
            }
            std::cmp::Ordering::Less => self.b.ins().ireduce(to, v),
        }
    }

    /// Fills the register with copies of bit `width - 1`.
    pub(super) fn sign_extend(&mut self, v: V, width: u32) -> V {
        let bits = self.b.func.dfg.value_type(v).bits();
        if width == 0 || width >= bits {
            return v;
        }
        let by = i64::from(bits - width);
        let v = self.b.ins().ishl_imm_u(v, by);
        self.b.ins().sshr_imm_u(v, by)
    }

    pub(super) fn slice(&mut self, v: Val, ty: TypeId, hi: u32, lo: u32) -> Val {
        let (width, part) = (self.width(ty), hi + 1 - lo);
        match v {
            Val::Reg(v) => {
                let v = self.shift_right(v, lo);
                let v = match register(part) {
                    Some(reg) => self.widen(v, reg),
                    None => v,
                };
                Val::Reg(self.mask(v, part))
            }
            Val::At(_) => self.wide_slice(v, width, hi, lo),
        }
    }

    /// A number of `width` bits in natural form.
    pub(super) fn load_number(&mut self, base: V, off: i32, width: u32) -> V {
        use super::FLAGS;
        match width {
            0 => self.number(0),
            1..=8 => self.b.ins().uload8(types::I64, FLAGS, base, off),
            9..=16 => self.b.ins().uload16(types::I64, FLAGS, base, off),
            17..=32 => self.b.ins().uload32(FLAGS, base, off),
            33..=64 => self.b.ins().load(types::I64, FLAGS, base, off),
            _ => self.b.ins().load(types::I128, FLAGS, base, off),
        }
    }

    fn cast(&mut self, v: Val, from: TypeId, to: TypeId) -> Val {
        let kinds = (self.shape(from), self.shape(to));
        let (Shape::Scalar(f, w), Shape::Scalar(t, n)) = kinds else { return v };
        let (w, n) = (*w, *n);
        match (f, t, v) {
            (Scalar::Bits, Scalar::Bool, Val::Reg(v)) => {
                let zero = self.b.ins().iconst(types::I64, 0);
                Val::Reg(self.b.ins().icmp(IntCC::NotEqual, v, zero))
            }
            (Scalar::Bool, Scalar::Bits, Val::Reg(v)) => Val::Reg(self.b.ins().uextend(types::I64, v)),
            (Scalar::Bits, Scalar::Bits, _) if w == n => v,
            (Scalar::Bits, Scalar::Bits, v) => {
                let signed = self.signed(from);
                let (Val::Reg(x), Some(reg)) = (v, register(n)) else {
                    return self.wide_cast(v, w, n, signed);
                };
                let x = if signed && n > w {
                    let x = self.sign_extend(x, w);
                    let ty = self.b.func.dfg.value_type(x);
                    if reg.bits() > ty.bits() { self.b.ins().sextend(reg, x) } else { x }
                } else {
                    self.widen(x, reg)
                };
                Val::Reg(if n > w && !signed { x } else { self.mask(x, n) })
            }
            _ => v,
        }
    }

    fn unary(&mut self, scope: &Scope, op: UnaryOp, a: &Expr) -> Val {
        let (v, width) = (self.expr(scope, a), self.width(a.ty));
        match (op, v) {
            (UnaryOp::Not, Val::Reg(v)) => Val::Reg(match self.known_number(v) {
                Some(n) => self.truth_value(n == 0),
                None => self.b.ins().bxor_imm_u(v, 1),
            }),
            (UnaryOp::BitNot, Val::Reg(v)) => {
                let v = self.b.ins().bnot(v);
                Val::Reg(self.mask(v, width))
            }
            (UnaryOp::Neg, Val::Reg(v)) => {
                let v = self.b.ins().ineg(v);
                Val::Reg(self.mask(v, width))
            }
            (op, v @ Val::At(_)) => self.wide_unary(op, v, width),
        }
    }

    /// An operator whose operands are both evaluated. The last type is that of the result.
    pub(super) fn binary(&mut self, op: BinaryOp, a: (Val, TypeId), b: (Val, TypeId), ty: TypeId) -> Val {
        use BinaryOp::*;
        let scalar = matches!(self.shape(a.1), Shape::Scalar(..));
        if let (Eq | Ne, false) = (op, scalar) {
            let equal = self.equal(a.0, b.0, a.1);
            return Val::Reg(if op == Ne { self.b.ins().bxor_imm_u(equal, 1) } else { equal });
        }
        let (w, mut wb, result) = (self.width(a.1), self.width(b.1), self.width(ty));
        let signed = self.signed(a.1);
        let (a, mut b) = (a.0, b.0);
        if matches!(op, Shl | Shr) && wb > 64 {
            (b, wb) = (Val::Reg(self.saturated(b, wb)), 64);
        }
        let wide = register(w.max(wb).max(result)).is_none() || (w > 64 && matches!(op, Div | Mod));
        let (Val::Reg(x), Val::Reg(y), false) = (a, b, wide) else {
            return self.wide_binary(op, (a, w), (b, wb), signed, result);
        };
        if let Some(v) = self.folded(op, signed, (x, y), w) {
            return Val::Reg(v);
        }
        let v = match op {
            Add => self.b.ins().iadd(x, y),
            Sub => self.b.ins().isub(x, y),
            Mul => self.b.ins().imul(x, y),
            Div | Mod => return Val::Reg(self.divide(op == Div, x, y)),
            SatAdd | SatSub => return Val::Reg(self.saturating(op == SatAdd, signed, x, y, w)),
            BitAnd => return Val::Reg(self.b.ins().band(x, y)),
            BitOr => return Val::Reg(self.either(x, y)),
            BitXor => return Val::Reg(self.b.ins().bxor(x, y)),
            Shl | Shr => return Val::Reg(self.shift(op == Shl, signed, x, y, w)),
            Concat => return Val::Reg(self.concat(x, y, w, wb)),
            // A bit is its own answer.
            Eq | Ne if w == 1 && self.known_number(y).is_some_and(|n| n <= 1) => {
                let v = self.widen(x, types::I8);
                let same = (op == Eq) == (self.known_number(y) == Some(1));
                return Val::Reg(if same { v } else { self.b.ins().bxor_imm_u(v, 1) });
            }
            Eq | Ne | Lt | Le | Gt | Ge => return Val::Reg(self.compare(op, signed, x, y, w)),
            And | Or => x,
        };
        Val::Reg(self.mask(v, w))
    }

    /// A `bool`.
    fn truth_value(&mut self, truth: bool) -> V {
        self.b.ins().iconst(types::I8, i64::from(truth))
    }

    /// `&&` or `||` of two `bool`s.
    fn both_or_either(&mut self, both: bool, x: V, y: V) -> V {
        for (a, b) in [(x, y), (y, x)] {
            if let Some(n) = self.known_number(a) {
                // The one that changes nothing, or decides.
                return if (n != 0) == both { b } else { a };
            }
        }
        if both { self.b.ins().band(x, y) } else { self.b.ins().bor(x, y) }
    }

    /// The result of an operator on known numbers: whole branches of a control depend on such results if it is applied
    /// with constants, and code that is not generated need not be compiled.
    fn folded(&mut self, op: BinaryOp, signed: bool, (x, y): (V, V), width: u32) -> Option<V> {
        use BinaryOp::*;
        if self.b.func.dfg.value_type(x) != types::I64 || self.b.func.dfg.value_type(y) != types::I64 {
            return None;
        }
        match (op, self.known_number(x), self.known_number(y)) {
            (BitAnd, Some(0), _) | (BitOr | BitXor, _, Some(0)) => return Some(x),
            (BitAnd, _, Some(0)) | (BitOr | BitXor, Some(0), _) => return Some(y),
            _ => {}
        }
        let (a, b) = (self.known_number(x)?, self.known_number(y)?);
        let number = match op {
            Add => a.wrapping_add(b),
            Sub => a.wrapping_sub(b),
            BitAnd => a & b,
            BitOr => a | b,
            BitXor => a ^ b,
            Eq => return Some(self.truth_value(a == b)),
            Ne => return Some(self.truth_value(a != b)),
            _ if signed => return None,
            Lt => return Some(self.truth_value(a < b)),
            Le => return Some(self.truth_value(a <= b)),
            Gt => return Some(self.truth_value(a > b)),
            Ge => return Some(self.truth_value(a >= b)),
            _ => return None,
        };
        let ones = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
        Some(self.number(number & ones))
    }

    pub(super) fn compare(&mut self, op: BinaryOp, signed: bool, x: V, y: V, width: u32) -> V {
        use BinaryOp::*;
        let code = match (op, signed) {
            (Ne, _) => IntCC::NotEqual,
            (Lt, false) => IntCC::UnsignedLessThan,
            (Le, false) => IntCC::UnsignedLessThanOrEqual,
            (Gt, false) => IntCC::UnsignedGreaterThan,
            (Ge, false) => IntCC::UnsignedGreaterThanOrEqual,
            (Lt, true) => IntCC::SignedLessThan,
            (Le, true) => IntCC::SignedLessThanOrEqual,
            (Gt, true) => IntCC::SignedGreaterThan,
            (Ge, true) => IntCC::SignedGreaterThanOrEqual,
            _ => IntCC::Equal,
        };
        let ordered = !matches!(op, Eq | Ne);
        let (x, y) =
            if signed && ordered { (self.sign_extend(x, width), self.sign_extend(y, width)) } else { (x, y) };
        self.b.ins().icmp(code, x, y)
    }

    /// Unsigned; by zero gives zero.
    pub(super) fn remainder(&mut self, x: V, y: V) -> V {
        self.divide(false, x, y)
    }

    /// Unsigned; by zero gives zero.
    fn divide(&mut self, quotient: bool, x: V, y: V) -> V {
        let zero = self.number(0);
        let one = self.number(1);
        let by_zero = self.b.ins().icmp(IntCC::Equal, y, zero);
        let safe = self.b.ins().select(by_zero, one, y);
        let v = if quotient { self.b.ins().udiv(x, safe) } else { self.b.ins().urem(x, safe) };
        self.b.ins().select(by_zero, zero, v)
    }

    /// Saturation at the top of the register, to which the operands are shifted.
    fn saturating(&mut self, add: bool, signed: bool, x: V, y: V, width: u32) -> V {
        let ty = self.b.func.dfg.value_type(x);
        if width == 0 {
            return x;
        }
        let up = i64::from(ty.bits() - width);
        let (x, y) = (self.b.ins().ishl_imm_u(x, up), self.b.ins().ishl_imm_u(y, up));
        let r = if add { self.b.ins().iadd(x, y) } else { self.b.ins().isub(x, y) };
        let v = if signed {
            // Overflow: the operands' signs are equal (for a difference: unequal) and the result's is another.
            let (a, b) = (
                self.b.ins().bxor(x, r),
                self.b.ins().bxor(if add { y } else { x }, if add { r } else { y }),
            );
            let over = self.b.ins().band(a, b);
            let zero = self.constant(ty, 0);
            let over = self.b.ins().icmp(IntCC::SignedLessThan, over, zero);
            let sign = self.b.ins().sshr_imm_u(x, i64::from(ty.bits() - 1));
            let most = self.constant(ty, u128::MAX >> (129 - ty.bits()));
            let limit = self.b.ins().bxor(sign, most);
            self.b.ins().select(over, limit, r)
        } else if add {
            let over = self.b.ins().icmp(IntCC::UnsignedLessThan, r, x);
            let most = self.constant(ty, u128::MAX);
            self.b.ins().select(over, most, r)
        } else {
            let under = self.b.ins().icmp(IntCC::UnsignedLessThan, x, y);
            let zero = self.constant(ty, 0);
            self.b.ins().select(under, zero, r)
        };
        self.b.ins().ushr_imm_u(v, up)
    }

    fn shift(&mut self, left: bool, signed: bool, x: V, by: V, width: u32) -> V {
        let ty = self.b.func.dfg.value_type(x);
        if let (Some(by), false) = (self.known_number(by), signed) {
            let by = by.min(u64::from(width)) as u32;
            if !left {
                return if by == width { self.constant(ty, 0) } else { self.shift_right(x, by) };
            }
            let v = if by == width { self.constant(ty, 0) } else { self.shift_left(x, by) };
            return self.mask(v, width);
        }
        let most = self.number(u64::from(width));
        let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, by, most);
        if left {
            let (v, zero) = (self.b.ins().ishl(x, by), self.constant(ty, 0));
            let v = self.b.ins().select(outside, zero, v);
            return self.mask(v, width);
        }
        if signed {
            // Shifting by all bits but one leaves nothing but signs.
            let most = self.number(u64::from(ty.bits() - 1));
            let by = self.b.ins().select(outside, most, by);
            let x = self.sign_extend(x, width);
            let v = self.b.ins().sshr(x, by);
            return self.mask(v, width);
        }
        let (v, zero) = (self.b.ins().ushr(x, by), self.constant(ty, 0));
        self.b.ins().select(outside, zero, v)
    }

    /// The number of a constant of at most 64 bits.
    pub(super) fn known_number(&self, v: V) -> Option<u64> {
        let dfg = &self.b.func.dfg;
        match &dfg.insts[dfg.value_def(dfg.resolve_aliases(v)).inst()?] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits() as u64),
            _ => None,
        }
    }

    /// An upper bound of the low bits of a value that can be set, derived from the instructions that compute it.
    pub(super) fn most_bits(&self, v: V, depth: u32) -> u32 {
        let dfg = &self.b.func.dfg;
        let v = dfg.resolve_aliases(v);
        let all = dfg.value_type(v).bits();
        let Some(inst) = dfg.value_def(v).inst().filter(|_| depth > 0) else { return all };
        let bits = match &dfg.insts[inst] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => 64 - imm.bits().leading_zeros(),
            InstructionData::Load { opcode: Opcode::Uload8, .. } => 8,
            InstructionData::Load { opcode: Opcode::Uload16, .. } => 16,
            InstructionData::Load { opcode: Opcode::Uload32, .. } => 32,
            InstructionData::Unary { opcode: Opcode::Uextend, arg } => self.most_bits(*arg, depth - 1),
            InstructionData::Binary { opcode: Opcode::Band, args: [a, b] } => {
                self.most_bits(*a, depth - 1).min(self.most_bits(*b, depth - 1))
            }
            InstructionData::Binary { opcode: Opcode::Bor | Opcode::Bxor, args: [a, b] } => {
                self.most_bits(*a, depth - 1).max(self.most_bits(*b, depth - 1))
            }
            InstructionData::Binary { opcode: Opcode::Ushr, args: [a, by] } => match self.known_number(*by) {
                Some(by @ 0..64) => self.most_bits(*a, depth - 1).saturating_sub(by as u32),
                _ => all,
            },
            _ => all,
        };
        bits.min(all)
    }

    fn concat(&mut self, x: V, y: V, width: u32, low: u32) -> V {
        let reg = register(width + low).unwrap_or(types::I128);
        let (x, y) = (self.widen(x, reg), self.widen(y, reg));
        if width == 0 {
            return y;
        }
        let x = self.shift_left(x, low);
        self.either(x, y)
    }

    /// `==` of anything (P4_16 sections 8.17, 8.18).
    pub(super) fn equal(&mut self, a: Val, b: Val, ty: TypeId) -> V {
        let ty = self.repr(ty);
        match (self.shape(ty), a, b) {
            (_, Val::Reg(x), Val::Reg(y)) => match (self.known_number(x), self.known_number(y)) {
                (Some(x), Some(y)) => self.truth_value(x == y),
                _ => self.b.ins().icmp(IntCC::Equal, x, y),
            },
            (Shape::Struct(f), Val::At(x), Val::At(y)) if f.len() <= 16 => {
                let yes = self.b.ins().iconst(types::I8, 1);
                self.equal_parts(x, y, f.len(), yes)
            }
            (Shape::Header(h), Val::At(x), Val::At(y)) if h.varbit.is_none() && h.fields.len() <= 16 => {
                let (v, w) = (self.valid(x), self.valid(y));
                let same = self.b.ins().icmp(IntCC::Equal, v, w);
                let yes = self.b.ins().iconst(types::I8, 1);
                let fields = self.equal_parts(x, y, h.fields.len(), yes);
                let invalid = self.b.ins().bxor_imm_u(v, 1);
                let fields = self.b.ins().bor(invalid, fields);
                self.b.ins().band(same, fields)
            }
            (Shape::Scalar(_, w), a, b) => match self.wide_binary(BinaryOp::Eq, (a, *w), (b, *w), false, 1) {
                Val::Reg(v) => v,
                Val::At(_) => self.b.ins().iconst(types::I8, 0),
            },
            _ => {
                let (x, y) = (self.spill(a, ty), self.spill(b, ty));
                let (ctx, id) = (self.ctx, self.number(u64::from(ty.0)));
                let truth = self.call_runtime(runtime::equal as *const u8, &[ctx, id, x, y], true);
                self.b.ins().ireduce(types::I8, truth)
            }
        }
    }

    fn equal_parts(&mut self, x: Place, y: Place, parts: usize, start: V) -> V {
        let mut all = start;
        for i in 0..parts as u32 {
            let (f, g) = (self.field(x, i), self.field(y, i));
            let (a, b) = (self.get(f), self.get(g));
            let equal = self.equal(a, b, f.ty);
            all = self.b.ins().band(all, equal);
        }
        all
    }

    /// A count: the low 32 bits of a `bit<32>`.
    pub(super) fn count(&mut self, scope: &Scope, e: &Expr) -> V {
        match self.expr(scope, e) {
            Val::Reg(v) => v,
            Val::At(_) => self.number(0),
        }
    }

    /// A constant number of a type.
    pub(super) fn bits(&mut self, bits: &Bits, ty: TypeId) -> Val {
        self.value(&Value::Bits(bits.clone()), ty)
    }
}

/// Whether evaluating it can reject.
pub(super) fn can_fail(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Const(_) | ExprKind::Invalid => false,
        ExprKind::Read(lv) | ExprKind::IsValid(lv) | ExprKind::LastIndex(lv) => place_can_fail(lv),
        ExprKind::Unary(_, a) | ExprKind::Cast(a) | ExprKind::Slice(a, ..) | ExprKind::Field(a, _) => {
            can_fail(a)
        }
        ExprKind::Binary(_, a, b) => can_fail(a) || can_fail(b),
        ExprKind::Mux(a, b, c) => can_fail(a) || can_fail(b) || can_fail(c),
        ExprKind::Aggregate(parts) => parts.iter().any(can_fail),
    }
}

/// Whether finding the place can reject.
pub(super) fn place_can_fail(lv: &LValue) -> bool {
    lv.path.iter().any(|p| match p {
        Proj::Next | Proj::Last => true,
        Proj::Index(e) => can_fail(e),
        _ => false,
    })
}

/// A `bool` that is a load away, or some such together?
fn is_flag(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Read(lv) | ExprKind::IsValid(lv) => lv.path.iter().all(|p| matches!(p, Proj::Field(_))),
        ExprKind::Unary(UnaryOp::Not, a) => is_flag(a),
        ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, b) => is_flag(a) && is_flag(b),
        _ => false,
    }
}

/// Cheaper to evaluate than to branch around, and never fails?
fn simple(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Const(_) => true,
        ExprKind::Read(lv) => lv.path.iter().all(|p| matches!(p, Proj::Field(_) | Proj::Slice { .. })),
        ExprKind::Cast(a) | ExprKind::Slice(a, ..) => simple(a),
        _ => false,
    }
}
