//! Parsers: states, selection, extraction (P4_16 section 13).

use super::place::{At, Place, Val};
use super::{FLAGS, Flow, Gen, Scope};
use crate::code::{Site, ValueSetSite};
use crate::layout::Shape;
use crate::runtime;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value as V, types};
use pointsman_ir::{
    BinaryOp, Expr, KeySet, LValue, ParserId, SelectCase, StateRef, Transition, Type, TypeId, ValueSetId,
};
use std::rc::Rc;

impl Gen<'_, '_> {
    /// A parser in place, up to `accept`. False if control never gets there.
    pub(super) fn parser(&mut self, scope: &Rc<Scope>, id: ParserId) -> bool {
        let parser = &self.s.program.parsers[id.index()];
        let accept = self.new_block();
        let blocks: Vec<Block> = parser.states.iter().map(|_| self.new_block()).collect();
        let first = self.new_block();
        let outer = self.enter_flow(first);
        if self.block(scope, &parser.init) {
            self.jump(first);
        }
        self.start(first);
        self.go(&blocks, accept, StateRef::State(0));
        // Only states that can be reached.
        let (mut todo, mut known) = (vec![0u32], vec![false; blocks.len()]);
        known[0] = true;
        while let Some(n) = todo.pop() {
            let state = &parser.states[n as usize];
            let end = self.new_block();
            self.flow.ret = end;
            self.b.switch_to_block(blocks[n as usize]);
            self.count_transition();
            if self.block(scope, &state.body) {
                self.jump(end);
            }
            self.start(end);
            let nexts: Vec<StateRef> = match &state.transition {
                Transition::Goto(next) => {
                    self.go(&blocks, accept, *next);
                    vec![*next]
                }
                Transition::Select { on, cases } => {
                    self.select(scope, on, cases, &blocks, accept);
                    cases.iter().map(|c| c.next).collect()
                }
            };
            for next in nexts {
                if let StateRef::State(i) = next
                    && !std::mem::replace(&mut known[i as usize], true)
                {
                    todo.push(i);
                }
            }
        }
        for (block, _) in blocks.iter().zip(&known).filter(|(_, known)| **known) {
            self.b.seal_block(*block);
        }
        self.leave_flow(outer);
        self.start(accept);
        true
    }

    /// Starts code whose `return` goes to `ret`.
    pub(super) fn enter_flow(&mut self, ret: Block) -> Flow {
        let fail = self.flow.fail;
        std::mem::replace(&mut self.flow, Flow { ret, fail, loops: Vec::new(), result: None })
    }

    pub(super) fn leave_flow(&mut self, outer: Flow) {
        self.flow = outer;
    }

    fn go(&mut self, blocks: &[Block], accept: Block, next: StateRef) {
        match next {
            StateRef::State(i) => self.jump(blocks[i as usize]),
            StateRef::Accept => self.jump(accept),
            // `transition reject` without an error: the error stays `NoError`.
            StateRef::Reject => {
                let error = self.number(0);
                self.reject_with(error);
            }
        }
    }

    /// A parser that comes back to a state may do so for ever.
    fn count_transition(&mut self) {
        if !self.s.counted {
            return;
        }
        let left = self.b.use_var(self.transitions_left);
        self.require(left, self.s.errors.parser_timeout);
        let left = self.b.use_var(self.transitions_left);
        let less = self.b.ins().iadd_imm_s(left, -1);
        self.b.def_var(self.transitions_left, less);
    }

    fn select(
        &mut self,
        scope: &Rc<Scope>,
        on: &[Expr],
        cases: &[SelectCase],
        blocks: &[Block],
        accept: Block,
    ) {
        let values: Vec<(Val, TypeId)> = on.iter().map(|e| (self.expr(scope, e), e.ty)).collect();
        for case in cases {
            let (matches, next) = (self.new_block(), self.new_block());
            let mut rest = values.as_slice();
            for key in &case.keys {
                let width = match key {
                    KeySet::ValueSet(set) => self.value_set_fields(*set),
                    _ => 1,
                };
                let Some((these, others)) = rest.split_at_checked(width) else { break };
                rest = others;
                let Some(matches) = self.key(scope, these, key) else { continue };
                let more = self.new_block();
                self.branch(matches, more, next);
                self.start(more);
            }
            self.jump(matches);
            self.start(matches);
            self.go(blocks, accept, case.next);
            self.start(next);
        }
        let error = self.number(u64::from(self.s.errors.no_match));
        self.reject_with(error);
    }

    /// Whether the key matches. `None`: always.
    fn key(&mut self, scope: &Rc<Scope>, these: &[(Val, TypeId)], key: &KeySet) -> Option<V> {
        let &(value, ty) = these.first()?;
        Some(match key {
            KeySet::Any => return None,
            KeySet::Value(e) => {
                let v = self.expr(scope, e);
                self.equal(value, v, ty)
            }
            KeySet::Mask(v, m) => {
                let (v, m) = (self.expr(scope, v), self.expr(scope, m));
                let x = self.binary(BinaryOp::BitAnd, (value, ty), (m, ty), ty);
                let y = self.binary(BinaryOp::BitAnd, (v, ty), (m, ty), ty);
                self.equal(x, y, ty)
            }
            KeySet::Range(lo, hi) => {
                let truth = lo.ty;
                let (lo, hi) = (self.expr(scope, lo), self.expr(scope, hi));
                let above = self.binary(BinaryOp::Le, (lo, ty), (value, ty), truth);
                let below = self.binary(BinaryOp::Le, (value, ty), (hi, ty), truth);
                match (above, below) {
                    (Val::Reg(a), Val::Reg(b)) => self.b.ins().band(a, b),
                    _ => self.b.ins().iconst(types::I8, 0),
                }
            }
            KeySet::ValueSet(set) => self.in_value_set(*set, these),
        })
    }

    /// How many expressions of a select a value set covers.
    fn value_set_fields(&self, set: ValueSetId) -> usize {
        let elem = self.s.program.value_sets[set.index()].elem;
        match self.types().repr_type(elem) {
            Type::Struct(d) => d.fields.len(),
            Type::Tuple(t) => t.len(),
            _ => 1,
        }
    }

    fn in_value_set(&mut self, set: ValueSetId, values: &[(Val, TypeId)]) -> V {
        let (offsets, size) = self.layouts().area(values.iter().map(|v| v.1));
        let area = self.area(size, values.iter().zip(&offsets).map(|((v, ty), at)| (*v, *ty, *at)));
        let widths = values.iter().map(|(_, ty)| self.layouts().width(*ty).unwrap_or(0));
        let keys = widths.zip(offsets).collect();
        let site = self.site(Site::ValueSet(ValueSetSite { set, keys, size }));
        let ctx = self.ctx;
        let found = self.call_runtime(runtime::value_set as *const u8, &[ctx, site, area], true);
        let panicked = self.b.ins().icmp_imm_u(IntCC::Equal, found, 2);
        self.check_panic(panicked);
        self.b.ins().ireduce(types::I8, found)
    }

    /// Puts values into scratch memory, in natural form at these offsets; its address.
    pub(super) fn area(&mut self, size: u32, values: impl Iterator<Item = (Val, TypeId, u32)>) -> V {
        let At::Mem { base, off } = self.scratch(size) else { return self.scratch };
        for (v, ty, offset) in values {
            let ty = self.repr(ty);
            self.put(Place { ty, at: At::Mem { base, off: off + offset as i32 } }, v);
        }
        self.pointer(base, off)
    }

    /// Rejects unless the packet has `bits` more bits.
    fn require_bits(&mut self, bits: V) {
        let position = self.b.use_var(self.position);
        let end = self.b.ins().iadd(position, bits);
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, self.packet_bits);
        self.require(fits, self.s.errors.packet_too_short);
    }

    fn move_by(&mut self, bits: V) {
        let position = self.b.use_var(self.position);
        let position = self.b.ins().iadd(position, bits);
        self.b.def_var(self.position, position);
    }

    /// Whole bytes, else `ParserInvalidArgument`.
    fn require_whole_bytes(&mut self, bits: V) {
        let rest = self.b.ins().band_imm_u(bits, 7);
        let whole = self.b.ins().icmp_imm_u(IntCC::Equal, rest, 0);
        self.require(whole, self.s.errors.parser_invalid_argument);
    }

    /// The address of the next `bits` bits of the packet, which are there: in it, or copied to whole bytes.
    fn peek(&mut self, bits: u32) -> V {
        let position = self.b.use_var(self.position);
        if self.s.aligned {
            let byte = self.b.ins().ushr_imm_u(position, 3);
            return self.b.ins().iadd(self.packet, byte);
        }
        let At::Mem { base, off } = self.scratch(bits.div_ceil(8)) else { return self.packet };
        let to = self.pointer(base, off);
        let (ctx, bits) = (self.ctx, self.number(u64::from(bits)));
        self.call_runtime(runtime::packet_bits as *const u8, &[ctx, position, bits, to], false);
        to
    }

    /// `extract`. A stack is advanced when the header was its `next`.
    pub(super) fn extract(&mut self, scope: &Rc<Scope>, lv: &LValue, varbits: Option<&Expr>) {
        let target = self.resolve(scope, lv, true);
        let place = target.place;
        let Shape::Header(h) = self.shape(place.ty) else { return };
        let fixed = self.number(u64::from(h.bits));
        if let Some((_, most)) = h.varbit {
            let varbits = match varbits {
                Some(e) => self.count(scope, e),
                None => self.number(0),
            };
            self.require_whole_bytes(varbits);
            let all = self.b.ins().iadd(fixed, varbits);
            self.require_bits(all);
            let most = self.number(u64::from(most));
            let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, varbits, most);
            self.require(fits, self.s.errors.header_too_short);
            if let At::Mem { base, off } = place.at {
                let (to, ty) = (self.pointer(base, off), self.number(u64::from(place.ty.0)));
                let (ctx, position) = (self.ctx, self.b.use_var(self.position));
                let args = [ctx, ty, to, position, varbits];
                self.call_runtime(runtime::extract_varbit as *const u8, &args, false);
            }
            self.move_by(all);
        } else {
            self.require_bits(fixed);
            let from = self.peek(h.bits);
            match place.at {
                At::Mem { base, off } => {
                    self.copy_bytes((base, off), (from, 0), h.bytes());
                    let yes = self.b.ins().iconst(types::I8, 1);
                    self.set_valid(place, yes);
                }
                _ => {
                    self.unpack(place, from, 0, h.bytes());
                }
            }
            self.move_by(fixed);
        }
        self.keep_union(target);
        if let Some(Place { at: At::Mem { base, off }, .. }) = target.next_of {
            let next = self.b.ins().uload32(FLAGS, base, off);
            let next = self.b.ins().iadd_imm_s(next, 1);
            self.b.ins().istore32(FLAGS, next, base, off);
        }
    }

    /// Fills a place from packed data that has `bytes` bytes, at `bit`; headers become valid. The bit behind it.
    fn unpack(&mut self, place: Place, from: V, bit: u32, bytes: u32) -> u32 {
        let parts = match self.shape(place.ty) {
            Shape::Struct(f) => f.len(),
            Shape::Header(h) => {
                let yes = self.b.ins().iconst(types::I8, 1);
                self.set_valid(place, yes);
                h.fields.len()
            }
            _ => {
                let width = self.layouts().width(place.ty).unwrap_or(0);
                let at = At::Packed { base: from, off: 0, bit, bytes };
                self.copy(place, Place { ty: place.ty, at });
                return bit + width;
            }
        };
        (0..parts as u32).fold(bit, |bit, i| {
            let part = self.field(place, i);
            self.unpack(part, from, bit, bytes)
        })
    }

    /// Bits that `lookahead` of a type reads.
    fn lookahead_bits(&self, ty: TypeId) -> u32 {
        match self.shape(ty) {
            Shape::Struct(f) => f.iter().map(|f| self.lookahead_bits(f.0)).sum(),
            Shape::Header(h) => h.bits,
            Shape::Scalar(_, w) => *w,
            _ => 0,
        }
    }

    pub(super) fn lookahead(&mut self, scope: &Rc<Scope>, lv: &LValue) {
        let ty = self.repr(lv.ty);
        let width = self.lookahead_bits(ty);
        let bits = self.number(u64::from(width));
        self.require_bits(bits);
        let bytes = width.div_ceil(8);
        // A slice, a union's member or bits behind the fields: by way of a copy.
        let value = self.fresh(ty);
        if width > 0 {
            let from = self.peek(width);
            self.unpack(value, from, 0, bytes);
        } else {
            self.unpack(value, self.packet, 0, 0);
        }
        let v = self.get(value);
        let target = self.resolve(scope, lv, true);
        self.write(target, v);
    }

    pub(super) fn advance(&mut self, scope: &Rc<Scope>, e: &Expr) {
        let by = self.count(scope, e);
        self.require_whole_bytes(by);
        self.require_bits(by);
        self.move_by(by);
    }
}
