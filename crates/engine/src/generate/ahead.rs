//! Looking ahead: code that runs a control without effects, to find the memory that it will access.
//!
//! The code is that of the control without anything that has visible effects. It reads the packet's variables, looks
//! keys up and computes hashes as the control would, and where the control would access a cell, or a large table, it
//! notes the address. It writes only to copies of variables in scratch memory. Cells are not read: their values are
//! taken to be zero, which for most programs means that nothing was found, and leads to the next possible place. The
//! code ends where it would have to change headers, or to call the architecture, and when it has noted nearly all large
//! registers. So its results affect nothing but time.

use super::call::alone;
use super::external::Called;
use super::place::{At, Place, Val};
use super::{FLAGS, Gen, MANY_ENTRIES, Scope, Source};
use crate::runtime::at;
use cranelift_codegen::ir::{AbiParam, Block, InstBuilder, Signature, Value as V, types};
use cranelift_frontend::Variable;
use pointsman_ir::table::flat::{FlatTable, row};
use pointsman_ir::{
    Arg, Callee, CellKind, CellPlace, CellShape, Direction, ExternInstanceId, LValue, Meaning, Param, Stmt,
    StmtKind, TableId,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Places in the code that note an address, at most; so a run, which comes by each once, notes no more.
pub(crate) const MOST: usize = 256;

/// Variables of more bytes than this are not copied: where they would change, the code ends.
const MOST_COPIED: u32 = 256;

/// Lines of registers that take fewer bytes stay in the second-level cache.
const LARGE: u64 = 1 << 20;

/// Large ones of fewer bytes together stay in the second-level cache.
pub(super) const WORTHWHILE: u64 = 1 << 22;

/// Large registers that are not noted yet are not looked for if those that are noted have this many times their bytes.
const WORTH: u64 = 4;

/// Bytes of registers together with those that share their lines, if they are large. Nothing waits for the value of a counter.
fn large(shape: &CellShape, place: CellPlace) -> Option<u64> {
    let bytes = shape.len.saturating_mul(4 * u64::from(place.stride));
    (shape.kind == CellKind::Value && bytes >= LARGE).then_some(bytes)
}

/// The state of code that looks ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Where the next address goes, and how many can have been noted.
    next: Variable,
    noted: usize,
    /// Cells whose address was noted: one represents all that share its line, where code that reaches the one reaches the
    /// others.
    lines: Vec<(usize, V, Option<Block>)>,
    /// Bytes of the large lines among them.
    bytes: u64,
    /// First arrays of large lines that the code has not noted yet, with the bytes of these lines.
    unseen: BTreeMap<usize, u64>,
    /// Tables that are looked up.
    pub(super) tables: Vec<TableId>,
}

impl Ahead {
    pub(super) fn new(next: Variable, source: &Source<'_>) -> Self {
        let arrays = source.known.arrays.iter().zip(source.places);
        let unseen = arrays.filter_map(|(shape, place)| Some((place.leader, large(shape, *place)?)));
        Ahead { next, noted: 0, lines: Vec::new(), bytes: 0, unseen: unseen.collect(), tables: Vec::new() }
    }

    /// Whether anything can be gained, regardless of the tables' contents.
    pub(super) fn has_large_arrays(&self) -> bool {
        self.bytes >= WORTHWHILE
    }
}

impl Gen<'_, '_> {
    /// Location of a variable of the block while looking ahead: a copy, if it is small.
    pub(super) fn foreseen_param(&mut self, place: Place, param: &Param) -> Place {
        let size = self.layouts().get(place.ty).size;
        if self.ahead.is_none() || size > MOST_COPIED || param.direction == Direction::In {
            return place;
        }
        let copy = Place { ty: place.ty, at: self.scratch(size) };
        if let (At::Mem { base, off }, At::Mem { base: b, off: o }) = (copy.at, place.at) {
            self.copy_bytes((base, off), (b, o), size);
        }
        copy
    }

    /// Ends the code.
    pub(super) fn stop(&mut self) -> bool {
        let end = self.abort;
        self.jump(end);
        false
    }

    /// Whether the variable is in private memory.
    fn is_own(&self, scope: &Scope, lv: &LValue) -> bool {
        match self.var(scope, lv.root).map(|place| place.at) {
            Some(At::Regs(_)) => true,
            Some(At::Mem { base, off } | At::Packed { base, off, .. }) => {
                base == self.frame && (self.is_pass || off >= self.scratch_at as i32)
            }
            None => false,
        }
    }

    /// Whether a statement may be run without effects. Externs and tables check this themselves.
    pub(super) fn is_foreseen(&self, scope: &Scope, stmt: &Stmt) -> bool {
        let own = |lv: &LValue| self.is_own(scope, lv);
        match &stmt.kind {
            StmtKind::Assign(lv, _) | StmtKind::SetValid(lv) | StmtKind::SetInvalid(lv) => own(lv),
            StmtKind::PushFront(lv, _) | StmtKind::PopFront(lv, _) => own(lv),
            StmtKind::Call { callee: Callee::Extern { .. }, .. } => true,
            StmtKind::Call { result, args, callee, .. } => {
                result.as_ref().is_none_or(own)
                    && args.iter().enumerate().all(|(n, arg)| match arg {
                        Arg::In(_) => true,
                        Arg::Out(lv) => own(lv),
                        // Lent as a whole, not copied back (`pass`): the callee handles its changes.
                        Arg::InOut(lv) => {
                            let lent = self.reg_type(lv.ty).is_none() && lv.path.is_empty();
                            let hidden = !matches!(callee, Callee::Action(_));
                            own(lv) || (lent && hidden && alone(args, n, lv))
                        }
                    })
            }
            StmtKind::Apply { table, hit, action_run } => {
                let bound = |arg: &Arg| match arg {
                    Arg::In(_) => true,
                    Arg::Out(lv) | Arg::InOut(lv) => own(lv),
                };
                let table = &self.s.program.tables[table.index()];
                hit.as_ref().is_none_or(own)
                    && action_run.as_ref().is_none_or(own)
                    && table.actions.iter().all(|listed| listed.bound.iter().all(bound))
            }
            StmtKind::Extract { header: lv, .. } | StmtKind::Lookahead(lv) | StmtKind::PacketLength(lv) => {
                own(lv)
            }
            StmtKind::If(..)
            | StmtKind::Advance(_)
            | StmtKind::Verify(..)
            | StmtKind::Switch { .. }
            | StmtKind::Return(_)
            | StmtKind::Exit
            | StmtKind::Break
            | StmtKind::Continue => true,
            _ => false,
        }
    }

    /// A call of an extern. False: the code ends.
    pub(super) fn foresee_extern(&mut self, scope: &Rc<Scope>, called: Called<'_>, args: &[Arg]) -> bool {
        let known = self.s.known;
        let value = |n: &u32| match args.get(*n as usize) {
            Some(Arg::In(e)) => Some(e),
            _ => None,
        };
        let is_in = |arg: &Arg| matches!(arg, Arg::In(_));
        match known.meanings.get(called.function.index()).unwrap_or(&Meaning::Ask) {
            Meaning::Nothing | Meaning::VerifyDigest { .. } => true,
            Meaning::LoadCell { index, to } => match (value(index), args.get(*to as usize)) {
                (Some(index), Some(Arg::Out(to))) if self.is_own(scope, to) => {
                    let Val::Reg(i) = self.expr(scope, index) else { return self.stop() };
                    self.note_cell(called.instance, i);
                    let place = self.fresh(to.ty);
                    let v = self.get(place);
                    let target = self.resolve(scope, to, true);
                    self.write(target, v);
                    !self.has_seen_enough() || self.stop()
                }
                _ => self.stop(),
            },
            Meaning::StoreCell { index, .. } | Meaning::CountCell { index } => {
                if let Some(index) = value(index)
                    && let Val::Reg(i) = self.expr(scope, index)
                {
                    self.note_cell(called.instance, i);
                }
                !self.has_seen_enough() || self.stop()
            }
            Meaning::SetFields { arg, .. } => match args.get(*arg as usize) {
                Some(Arg::InOut(lv)) if self.is_own(scope, lv) => self.call_known(scope, called, args),
                _ => true,
            },
            // Further addresses are seldom needed, and programs that need them can compute the hash before.
            Meaning::Hash { .. } if self.ahead.as_ref().is_some_and(|a| a.bytes > 0) => self.stop(),
            Meaning::Hash { to, .. } => match args.get(*to as usize) {
                Some(Arg::Out(lv)) if self.is_own(scope, lv) && self.call_known(scope, called, args) => true,
                _ => self.stop(),
            },
            Meaning::UpdateDigest { .. } | Meaning::AskIf { .. } | Meaning::AskIfShared | Meaning::Ask => {
                args.iter().all(is_in) || self.stop()
            }
        }
    }

    /// Whether the code has noted nearly all large memory. Looking on costs time for every packet, which the last few
    /// lines are not worth.
    /// Tables may be large, whatever they were declared for; but only those that were declared for many entries are waited for.
    fn has_seen_enough(&self) -> bool {
        let many = |t: &pointsman_ir::Table| t.size.is_some_and(|n| n >= MANY_ENTRIES);
        let Some(ahead) = &self.ahead else { return false };
        let unseen = ahead.unseen.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        ahead.bytes > 0 && unseen <= ahead.bytes / WORTH && !self.s.program.tables.iter().any(many)
    }

    /// Notes the address of a cell. It may be out of range: nothing but the address is made use of.
    fn note_cell(&mut self, instance: Option<ExternInstanceId>, i: V) {
        let Some(id) = instance else { return };
        if self.s.known.arrays.get(id.index()).is_none_or(|s| s.len == 0) {
            return;
        }
        if self.b.func.dfg.value_type(i) != types::I64 {
            return;
        }
        let Some(ahead) = &mut self.ahead else { return };
        let place = self.s.places[id.index()];
        let line = (place.leader, i, self.b.current_block());
        if ahead.noted >= MOST || ahead.lines.contains(&line) {
            return;
        }
        ahead.noted += 1;
        ahead.lines.push(line);
        let bytes = ahead.unseen.remove(&place.leader).unwrap_or(0);
        ahead.bytes = ahead.bytes.saturating_add(bytes);
        let (line, off) = self.cell_address(id, i);
        let address = self.pointer(line, off);
        self.note(address);
    }

    fn note(&mut self, address: V) {
        let Some(next) = self.ahead.as_ref().map(|a| a.next) else { return };
        let to = self.b.use_var(next);
        self.b.ins().store(FLAGS, address, to, 0);
        let behind = self.b.ins().iadd_imm_s(to, 8);
        self.b.def_var(next, behind);
    }

    /// Looks a table up, if it is small: the row, and its head. Of a large one the address is noted where the search
    /// begins, and the code ends.
    pub(super) fn foresee_look_up(&mut self, id: TableId, key: V) -> (V, V) {
        self.uses_tables = true;
        let end = self.abort;
        let Some(ahead) = &mut self.ahead else { return (key, key) };
        let n = match ahead.tables.iter().position(|t| *t == id) {
            Some(n) => n,
            None => {
                ahead.tables.push(id);
                ahead.tables.len() - 1
            }
        };
        let (some, small, large) = (self.new_block(), self.new_block(), self.new_block());
        let fixed = FLAGS.with_readonly();
        let tables = self.b.ins().load(types::I64, fixed, self.ctx, at::TABLES);
        self.branch(tables, some, end);
        self.start(some);
        let this = self.pointer(tables, (id.index() * size_of::<FlatTable>()) as i32);
        let keyless = self.s.program.tables[id.index()].keys.is_empty();
        if keyless || n >= 64 {
            self.jump(small);
            self.start(large);
            self.jump(end);
        } else {
            let sizes = self.b.ins().load(types::I64, fixed, self.ctx, at::LARGE);
            let is_large = self.b.ins().band_imm_u(sizes, 1u64.wrapping_shl(n as u32) as i64);
            self.branch(is_large, large, small);
            self.start(large);
            self.call_table(this, FlatTable::PREFETCH, key, false);
            self.jump(end);
        }
        self.start(small);
        let row_at = self.call_table(this, FlatTable::FIND, key, true);
        let head = self.b.ins().load(types::I64, FLAGS, row_at, 0);
        let asks = self.b.ins().band_imm_u(head, row::ASK as i64);
        let on = self.new_block();
        self.branch(asks, end, on);
        self.start(on);
        (row_at, head)
    }

    /// Calls a function of a flat table.
    pub(super) fn call_table(&mut self, table: V, function: usize, key: V, result: bool) -> V {
        let fixed = FLAGS.with_readonly();
        let function = self.b.ins().load(types::I64, fixed, table, function as i32);
        let mut signature = Signature::new(self.call_conv);
        signature.params.extend([AbiParam::new(types::I64), AbiParam::new(types::I64)]);
        if result {
            signature.returns.push(AbiParam::new(types::I64));
        }
        let sig = self.b.import_signature(signature);
        let call = self.b.ins().call_indirect(sig, function, &[table, key]);
        self.b.inst_results(call).first().copied().unwrap_or(key)
    }

    /// Stores the end of the addresses: every way out of the code leads here.
    pub(super) fn end_of_addresses(&mut self) {
        let Some(next) = self.ahead.as_ref().map(|a| a.next) else { return };
        let end = self.b.use_var(next);
        self.b.ins().store(FLAGS, end, self.ctx, at::NOTED);
    }
}
