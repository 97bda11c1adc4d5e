//! Statements.

use super::place::{At, Place, Val};
use super::{FLAGS, Gen, Scope};
use crate::layout::Shape;
use crate::runtime::{self, at, status};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, TrapCode, types};
use pointsman_ir::{Bits, Expr, LValue, Stmt, StmtKind, TypeId, Value};
use std::rc::Rc;

/// Stacks of more elements are emitted by the runtime.
const UNROLLED: u32 = 16;

impl Gen<'_, '_> {
    /// Statements one after the other. False if control never gets behind them.
    pub(super) fn block(&mut self, scope: &Rc<Scope>, stmts: &[Stmt]) -> bool {
        if self.is_dead() {
            // It may contain code, so it needs an end.
            self.b.ins().trap(TrapCode::unwrap_user(1));
            return false;
        }
        stmts.iter().all(|s| self.stmt(scope, s))
    }

    fn stmt(&mut self, scope: &Rc<Scope>, stmt: &Stmt) -> bool {
        if self.ahead.is_some() && !self.is_foreseen(scope, stmt) {
            return self.stop();
        }
        match &stmt.kind {
            StmtKind::Assign(lv, e) => {
                let v = self.expr(scope, e);
                let target = self.resolve(scope, lv, true);
                self.write(target, v);
            }
            StmtKind::SetValid(lv) => self.set_validity(scope, lv, true),
            StmtKind::SetInvalid(lv) => self.set_validity(scope, lv, false),
            StmtKind::PushFront(lv, n) => self.shift_stack(scope, lv, i64::from(*n)),
            StmtKind::PopFront(lv, n) => self.shift_stack(scope, lv, -i64::from(*n)),
            StmtKind::Call { result, callee, type_args, args } => {
                return self.call(scope, result.as_ref(), *callee, type_args, args);
            }
            StmtKind::Apply { table, hit, action_run } => {
                self.apply(scope, *table, hit.as_ref(), action_run.as_ref());
            }
            StmtKind::If(cond, yes, no) => return self.choose(scope, cond, yes, no),
            StmtKind::Switch { on, cases, default } => return self.switch(scope, on, cases, default),
            StmtKind::Loop { cond, body, update } => self.repeat(scope, cond, body, update),
            StmtKind::Break => return self.leave_loop(|l| l.0),
            StmtKind::Continue => return self.leave_loop(|l| l.1),
            StmtKind::Return(value) => {
                if let (Some(e), Some(place)) = (value, self.flow.result) {
                    let v = self.expr(scope, e);
                    self.put(place, v);
                }
                let ret = self.flow.ret;
                self.jump(ret);
                return false;
            }
            StmtKind::Exit => {
                let exit = self.number(status::EXIT as u64);
                self.b.def_var(self.status, exit);
                let fail = self.flow.fail;
                self.jump(fail);
                return false;
            }
            StmtKind::Extract { header, varbits } => self.extract(scope, header, varbits.as_ref()),
            StmtKind::Lookahead(lv) => self.lookahead(scope, lv),
            StmtKind::Advance(e) => self.advance(scope, e),
            StmtKind::PacketLength(lv) => {
                let length = self.b.ins().ushr_imm_u(self.packet_bits, 3);
                let length = self.mask(length, 32);
                let target = self.resolve(scope, lv, true);
                self.write(target, Val::Reg(length));
            }
            StmtKind::Verify(cond, error) => {
                let (on, off) = (self.new_block(), self.new_block());
                self.decide(scope, cond, on, off);
                self.start(off);
                let error = self.count(scope, error);
                self.reject_with(error);
                self.start(on);
            }
            StmtKind::Emit(e) => {
                if let Val::At(place) = self.expr(scope, e) {
                    self.emit(place);
                }
            }
        }
        true
    }

    fn leave_loop(&mut self, which: impl Fn(&(Block, Block)) -> Block) -> bool {
        match self.flow.loops.last().map(which) {
            Some(block) => {
                self.jump(block);
                false
            }
            // The verifier keeps `break` and `continue` inside loops.
            None => true,
        }
    }

    fn set_validity(&mut self, scope: &Rc<Scope>, lv: &LValue, to: bool) {
        let target = self.resolve(scope, lv, true);
        if to {
            self.make_valid(target.place);
        } else {
            let no = self.b.ins().iconst(types::I8, 0);
            self.set_valid(target.place, no);
        }
        self.keep_union(target);
    }

    /// Makes a header valid. An invalid one starts with default values.
    fn make_valid(&mut self, header: Place) {
        let (fresh, done) = (self.new_block(), self.new_block());
        let was = self.valid(header);
        self.branch(was, done, fresh);
        self.start(fresh);
        self.clear(header);
        let yes = self.b.ins().iconst(types::I8, 1);
        self.set_valid(header, yes);
        self.jump(done);
        self.start(done);
    }

    fn shift_stack(&mut self, scope: &Rc<Scope>, lv: &LValue, by: i64) {
        let target = self.resolve(scope, lv, true);
        if let At::Mem { base, off } = target.place.at {
            let (at, ty) = (self.pointer(base, off), self.number(u64::from(target.place.ty.0)));
            let (ctx, by) = (self.ctx, self.number(by as u64));
            self.call_runtime(runtime::shift as *const u8, &[ctx, ty, at, by], false);
        }
    }

    fn choose(&mut self, scope: &Rc<Scope>, cond: &Expr, yes: &[Stmt], no: &[Stmt]) -> bool {
        let (then, otherwise, done) = (self.new_block(), self.new_block(), self.new_block());
        self.decide(scope, cond, then, otherwise);
        let mut live = false;
        for (block, body) in [(then, yes), (otherwise, no)] {
            self.start(block);
            if self.block(scope, body) {
                self.jump(done);
                live = true;
            }
        }
        self.meet(done, live)
    }

    /// Continues at `done`, where branches meet; returns whether any of them gets there.
    fn meet(&mut self, done: Block, live: bool) -> bool {
        self.start(done);
        if !live && !self.is_dead() {
            self.trap();
        }
        live
    }

    /// Ends a block that nothing leads to.
    fn trap(&mut self) {
        let abort = self.abort;
        self.jump(abort);
    }

    fn switch(
        &mut self,
        scope: &Rc<Scope>,
        on: &Expr,
        cases: &[(Vec<Value>, Vec<Stmt>)],
        default: &[Stmt],
    ) -> bool {
        let v = self.expr(scope, on);
        let done = self.new_block();
        let mut live = false;
        for (labels, body) in cases {
            if self.is_dead() {
                break;
            }
            let (case, next) = (self.new_block(), self.new_block());
            for label in labels {
                let label = self.value(label, on.ty);
                let equal = self.equal(v, label, on.ty);
                let more = self.new_block();
                self.branch(equal, case, more);
                self.start(more);
            }
            self.jump(next);
            self.start(case);
            if self.block(scope, body) {
                self.jump(done);
                live = true;
            }
            self.start(next);
        }
        if self.block(scope, default) {
            self.jump(done);
            live = true;
        }
        self.meet(done, live)
    }

    fn repeat(&mut self, scope: &Rc<Scope>, cond: &Expr, body: &[Stmt], update: &[Stmt]) {
        let (head, check, start) = (self.new_block(), self.new_block(), self.new_block());
        let (next, done) = (self.new_block(), self.new_block());
        self.jump(head);
        self.b.switch_to_block(head);
        self.decide(scope, cond, check, done);
        self.start(check);
        let left = self.b.ins().load(types::I64, FLAGS, self.ctx, at::ROUNDS_LEFT);
        let less = self.b.ins().iadd_imm_s(left, -1);
        let some = self.new_block();
        self.branch(left, some, done);
        self.start(some);
        self.b.ins().store(FLAGS, less, self.ctx, at::ROUNDS_LEFT);
        self.jump(start);
        self.start(start);
        self.flow.loops.push((done, next));
        if self.block(scope, body) {
            self.jump(next);
        }
        self.flow.loops.pop();
        self.start(next);
        if self.block(scope, update) {
            self.jump(head);
        }
        self.b.seal_block(head);
        self.start(done);
    }

    /// Appends the headers inside a place to the packet.
    fn emit(&mut self, place: Place) {
        self.emits = true;
        match (self.shape(place.ty), place.at) {
            (Shape::Header(_), At::Mem { .. }) => self.emit_header(place),
            (Shape::Header(_), _) => {
                let at = self.scratch(self.layouts().get(place.ty).size);
                let copy = Place { ty: place.ty, at };
                self.clear(copy);
                self.copy(copy, place);
                self.emit_header(copy);
            }
            (Shape::Stack { elem, size, first, stride }, At::Mem { base, off }) if *size <= UNROLLED => {
                for i in 0..*size {
                    let at = At::Mem { base, off: off + (first + i * stride) as i32 };
                    self.emit(Place { ty: *elem, at });
                }
            }
            (Shape::Struct(parts) | Shape::Union(parts), _) => {
                for i in 0..parts.len() as u32 {
                    let part = self.field(place, i);
                    self.emit(part);
                }
            }
            (Shape::Stack { .. }, At::Mem { base, off }) => {
                let at = self.pointer(base, off);
                self.emit_slowly(place.ty, at);
            }
            _ => {}
        }
    }

    fn emit_header(&mut self, place: Place) {
        let (Shape::Header(h), At::Mem { base, off }) = (self.shape(place.ty), place.at) else { return };
        let (some, done) = (self.new_block(), self.new_block());
        let valid = self.valid(place);
        self.branch(valid, some, done);
        self.start(some);
        if h.varbit.is_none() && h.bits.is_multiple_of(8) {
            let (fast, slow) = (self.new_block(), self.new_block());
            let len = self.b.ins().load(types::I64, FLAGS, self.ctx, at::OUT_LEN);
            let cap = self.b.ins().load(types::I64, FLAGS, self.ctx, at::OUT_CAP);
            let more = self.b.ins().iadd_imm_s(len, i64::from(h.bytes()));
            let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, more, cap);
            self.b.set_cold_block(slow);
            self.branch(fits, fast, slow);
            self.start(fast);
            let out = self.b.ins().load(types::I64, FLAGS, self.ctx, at::OUT);
            let to = self.b.ins().iadd(out, len);
            self.copy_bytes((to, 0), (base, off), h.bytes());
            self.b.ins().store(FLAGS, more, self.ctx, at::OUT_LEN);
            self.jump(done);
            self.start(slow);
        }
        let at = self.pointer(base, off);
        self.emit_slowly(place.ty, at);
        self.jump(done);
        self.start(done);
    }

    fn emit_slowly(&mut self, ty: TypeId, at: cranelift_codegen::ir::Value) {
        let (ctx, ty) = (self.ctx, self.number(u64::from(ty.0)));
        let fine = self.call_runtime(runtime::emit as *const u8, &[ctx, ty, at], true);
        let panicked = self.b.ins().icmp_imm_u(IntCC::Equal, fine, 0);
        self.check_panic(panicked);
    }

    /// Writes a `bool`.
    pub(super) fn write_truth(&mut self, scope: &Rc<Scope>, lv: &LValue, v: cranelift_codegen::ir::Value) {
        let target = self.resolve(scope, lv, true);
        self.write(target, Val::Reg(v));
    }

    /// Writes a `bit<32>`.
    pub(super) fn write_count(&mut self, scope: &Rc<Scope>, lv: &LValue, n: u32) {
        let v = self.bits(&Bits::new(32, u128::from(n)), lv.ty);
        let target = self.resolve(scope, lv, true);
        self.write(target, v);
    }
}
