//! `table.apply()` (P4_16 section 14.2.4).

use super::place::{At, Place, Val};
use super::{FLAGS, Gen, Scope};
use crate::code::{RowData, Site, TableSite};
use crate::runtime::{self, at};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value as V, types};
use cranelift_frontend::Variable;
use pointsman_ir::table::flat::{FlatTable, Place as FieldAt, places, row};
use pointsman_ir::{CellArray, CellShape, HitCells, LValue, MatchKind, Table, TableId, TypeId};
use std::rc::Rc;

/// What a look-up has found.
struct Found {
    row: Variable,
    head: Variable,
}

impl Gen<'_, '_> {
    pub(super) fn apply(
        &mut self,
        scope: &Rc<Scope>,
        id: TableId,
        hit: Option<&LValue>,
        action_run: Option<&LValue>,
    ) {
        let program = self.s.program;
        let table = &program.tables[id.index()];
        let mark = self.scratch_top;
        let (row, head) = self.look_up(scope, id, table);
        let was_hit = self.b.ins().ushr_imm_u(head, 32);
        let was_hit = self.b.ins().ireduce(types::I8, was_hit);
        let was_hit = self.mask(was_hit, 1);
        let chosen = self.b.ins().ireduce(types::I32, head);
        let done = self.new_block();
        for (n, listed) in table.actions.iter().enumerate() {
            let (this, next) = (self.new_block(), self.new_block());
            let is_this = self.b.ins().icmp_imm_u(IntCC::Equal, chosen, n as i64);
            self.branch(is_this, this, next);
            self.start(this);
            let action = &program.actions[listed.action.index()];
            if !self.block(scope, &listed.setup) {
                self.start(next);
                continue;
            }
            let places = self.row_data(row, &self.data_of(table, n).0);
            let (vars, back) =
                self.pass(scope, &action.frame, &listed.bound, action.control.is_none(), &places);
            let inner = self.action_scope(scope, vars, action.control.is_some());
            let outer = self.begin(&back, None);
            let live = self.block(&inner, &action.body);
            self.end(outer, back, live);
            if let Some(lv) = action_run {
                self.write_run(scope, hit, lv, was_hit, n as u32);
            } else if let Some(lv) = hit {
                self.write_truth(scope, lv, was_hit);
            }
            self.jump(done);
            self.start(next);
        }
        // Nothing runs.
        if let Some(lv) = action_run {
            self.write_run(scope, hit, lv, was_hit, u32::MAX);
        } else if let Some(lv) = hit {
            self.write_truth(scope, lv, was_hit);
        }
        self.jump(done);
        self.start(done);
        self.release(mark);
    }

    fn write_run(
        &mut self,
        scope: &Rc<Scope>,
        hit: Option<&LValue>,
        action_run: &LValue,
        was_hit: V,
        ran: u32,
    ) {
        if let Some(lv) = hit {
            self.write_truth(scope, lv, was_hit);
        }
        self.write_count(scope, action_run, ran);
    }

    /// Position of an action's data in a row, and words of the row.
    fn data_of(&self, table: &Table, n: usize) -> (RowData, usize) {
        let listed = &table.actions[n];
        let params = &self.s.program.actions[listed.action.index()].frame.params;
        let tys: Vec<TypeId> = params.iter().skip(listed.bound.len()).map(|p| p.ty).collect();
        let widths: Option<Vec<u32>> = tys.iter().map(|ty| self.layouts().width(*ty)).collect();
        match widths {
            Some(widths) => {
                let (at, words) = places(widths);
                (RowData::Flat(tys.into_iter().zip(at).collect()), row::DATA + words)
            }
            None => {
                let (at, size) = self.layouts().area(tys.iter().copied());
                (RowData::Natural(tys.into_iter().zip(at).collect()), row::DATA + size as usize / 8)
            }
        }
    }

    /// The data of an action, in registers as far as it fits there.
    fn row_data(&mut self, base: V, data: &RowData) -> Vec<Place> {
        let word = |n: usize| 8 * (row::DATA + n) as i32;
        match data {
            RowData::Natural(parts) => parts
                .iter()
                .map(|(ty, offset)| {
                    let at = At::Mem { base, off: word(0) + *offset as i32 };
                    self.held(Place { ty: self.repr(*ty), at })
                })
                .collect(),
            RowData::Flat(parts) => parts
                .iter()
                .map(|(ty, at)| {
                    let ty = self.repr(*ty);
                    if at.width > 64 {
                        return self.held(Place { ty, at: At::Mem { base, off: word(at.word as usize) } });
                    }
                    let held = self.fresh_undefined(ty);
                    let v = self.field_of_row(base, word(at.word as usize), *at);
                    let is_bool = self.reg_type(ty) == Some(types::I8);
                    let v = if is_bool { self.b.ins().ireduce(types::I8, v) } else { v };
                    self.store(held, v);
                    held
                })
                .collect(),
        }
    }

    /// A field of at most 64 bits in the word at an offset.
    fn field_of_row(&mut self, base: V, word: i32, at: FieldAt) -> V {
        match (at.width, at.shift % 8) {
            (0, _) => self.number(0),
            // The part of the word alone, if it can be loaded.
            (8, 0) => self.b.ins().uload8(types::I64, FLAGS, base, word + at.shift as i32 / 8),
            (16, 0) => self.b.ins().uload16(types::I64, FLAGS, base, word + at.shift as i32 / 8),
            (32, 0) => self.b.ins().uload32(FLAGS, base, word + at.shift as i32 / 8),
            _ => {
                let v = self.b.ins().load(types::I64, FLAGS, base, word);
                let v = if at.shift == 0 { v } else { self.b.ins().ushr_imm_u(v, i64::from(at.shift)) };
                if at.shift + at.width == 64 { v } else { self.mask(v, at.width) }
            }
        }
    }

    /// The same value in registers, if it fits some.
    fn held(&mut self, place: Place) -> Place {
        if self.layouts().get(place.ty).regs.is_none() {
            return place;
        }
        let copy = self.fresh_undefined(place.ty);
        self.copy(copy, place);
        copy
    }

    /// Puts a key into scratch memory, and selectors behind it.
    fn table_key(&mut self, scope: &Rc<Scope>, id: TableId, table: &Table) -> (TableSite, V) {
        let keys: Vec<(Val, TypeId)> =
            table.keys.iter().map(|k| (self.expr(scope, &k.expr), k.expr.ty)).collect();
        let of = |selector: bool| {
            let both = table.keys.iter().zip(&keys);
            both.filter(move |(k, _)| (k.match_kind == MatchKind::Selector) == selector).map(|(_, v)| *v)
        };
        let (matched, selectors): (Vec<_>, Vec<_>) = (of(false).collect(), of(true).collect());
        let width = |ty: TypeId| self.layouts().width(ty).unwrap_or(0);
        let (at, key_words) = places(matched.iter().map(|(_, ty)| width(*ty)));
        let widths: Vec<u32> = selectors.iter().map(|(_, ty)| width(*ty)).collect();
        let bits: u32 = widths.iter().sum();
        let bytes = bits.div_ceil(8);
        let rows = (0..table.actions.len()).map(|n| self.data_of(table, n));
        let (data, row_words): (Vec<_>, Vec<_>) = rows.unzip();
        let site = TableSite {
            table: id,
            keys: at.clone(),
            key_words,
            selectors: widths.clone(),
            selector_bytes: bytes as usize,
            data,
            row_words: row_words.into_iter().max().unwrap_or(row::DATA),
        };
        let At::Mem { base, off } = self.scratch(8 * key_words as u32 + bytes.next_multiple_of(8)) else {
            return (site, self.scratch);
        };
        let word = |n: u32| off + 8 * n as i32;
        // Short fields share words: each is stored when it is full.
        let mut open: Option<(u32, V)> = None;
        for ((v, ty), at) in matched.into_iter().zip(at) {
            let small = at.width <= 64;
            if let Some((n, word_so_far)) = open.take_if(|o| !small || o.0 != at.word) {
                self.b.ins().store(FLAGS, word_so_far, base, word(n));
            }
            match v {
                Val::Reg(v) if small => {
                    let v = self.widen(v, types::I64);
                    let v = if at.shift == 0 { v } else { self.b.ins().ishl_imm_u(v, i64::from(at.shift)) };
                    let v = match open {
                        Some((_, before)) => self.b.ins().bor(before, v),
                        None => v,
                    };
                    open = Some((at.word, v));
                }
                v => {
                    let ty = self.repr(ty);
                    self.put(Place { ty, at: At::Mem { base, off: word(at.word) } }, v);
                }
            }
        }
        if let Some((n, v)) = open {
            self.b.ins().store(FLAGS, v, base, word(n));
        }
        let behind = word(key_words as u32);
        if !bits.is_multiple_of(8) {
            self.clear_bytes(base, behind, bytes);
        }
        let mut bit = 0;
        for ((v, ty), width) in selectors.into_iter().zip(widths) {
            let ty = self.repr(ty);
            self.put(Place { ty, at: At::Packed { base, off: behind, bit, bytes } }, v);
            bit += width;
        }
        (site, self.pointer(base, off))
    }

    /// Looks a table up: the row, and its head.
    fn look_up(&mut self, scope: &Rc<Scope>, id: TableId, table: &Table) -> (V, V) {
        let (site, key) = self.table_key(scope, id, table);
        if self.ahead.is_some() {
            return self.foresee_look_up(id, key);
        }
        self.uses_tables = true;
        let At::Mem { base, off } = self.scratch(8 * site.row_words as u32) else { return (key, key) };
        let spreads = !site.selectors.is_empty();
        let site = self.site(Site::Table(site));
        let found = Found { row: self.b.declare_var(types::I64), head: self.b.declare_var(types::I64) };
        let (flat, ask, hit, done) = (self.new_block(), self.new_block(), self.new_block(), self.new_block());
        self.b.set_cold_block(ask);
        let fixed = FLAGS.with_readonly();
        let tables = self.b.ins().load(types::I64, fixed, self.ctx, at::TABLES);
        match self.is_pass {
            true => self.jump(flat),
            false => self.branch(tables, flat, ask),
        }
        self.start(flat);
        let this = self.pointer(tables, (id.index() * size_of::<FlatTable>()) as i32);
        let row_at = self.call_table(this, FlatTable::FIND, key, true);
        let head = self.found_at(&found, row_at);
        let flags = self.b.ins().band_imm_u(head, (row::ASK | row::REPORT | row::GROUP) as i64);
        let special = self.new_block();
        self.branch(flags, special, hit);
        self.start(special);
        match spreads {
            true => self.pick(&found, (site, key), [hit, ask]),
            false => self.b.set_cold_block(special),
        }
        self.report(head, site, [hit, ask]);
        self.start(hit);
        self.note_hit(id, head);
        self.jump(done);
        self.start(ask);
        let to = self.pointer(base, off);
        let ctx = self.ctx;
        let fine = self.call_runtime(runtime::lookup as *const u8, &[ctx, site, key, to], true);
        let panicked = self.b.ins().icmp_imm_u(IntCC::Equal, fine, 0);
        self.check_panic(panicked);
        self.found_at(&found, to);
        self.jump(done);
        self.start(done);
        (self.b.use_var(found.row), self.b.use_var(found.head))
    }

    /// The row at an address is the one that was found. Gives its head.
    fn found_at(&mut self, found: &Found, row_at: V) -> V {
        let head = self.b.ins().load(types::I64, FLAGS, row_at, 0);
        self.b.def_var(found.row, row_at);
        self.b.def_var(found.head, head);
        head
    }

    /// If the row names a group: goes to `hit` with the row of a member, or to `ask`. Continues if it does not.
    fn pick(&mut self, found: &Found, (site, key): (V, V), [hit, ask]: [Block; 2]) {
        let (pick, other, picked) = (self.new_block(), self.new_block(), self.new_block());
        let (row_at, head) = (self.b.use_var(found.row), self.b.use_var(found.head));
        let names_group = self.b.ins().band_imm_u(head, row::GROUP as i64);
        self.branch(names_group, pick, other);
        self.start(pick);
        let group = self.b.ins().load(types::I64, FLAGS, row_at, 8 * row::DATA as i32);
        let member = self.call_runtime(runtime::pick as *const u8, &[self.ctx, site, key, group], true);
        self.branch(member, picked, ask);
        self.start(picked);
        self.found_at(found, member);
        self.jump(hit);
        self.start(other);
    }

    /// Goes to `ask`, or reports the look-up and goes to `hit`.
    fn report(&mut self, head: V, site: V, [hit, ask]: [Block; 2]) {
        let report = self.new_block();
        self.b.set_cold_block(report);
        let asks = self.b.ins().band_imm_u(head, row::ASK as i64);
        self.branch(asks, ask, report);
        self.start(report);
        let ctx = self.ctx;
        let fine = self.call_runtime(runtime::report_hit as *const u8, &[ctx, site, head], true);
        let panicked = self.b.ins().icmp_imm_u(IntCC::Equal, fine, 0);
        self.check_panic(panicked);
        self.jump(hit);
    }

    /// Does what [`HitCells::note`] does with the place in the head of a row.
    fn note_hit(&mut self, id: TableId, head: V) {
        let shape = self.s.known.hits.get(id.index()).copied().unwrap_or_default();
        if shape.is_empty() {
            return;
        }
        self.notes_hits = true;
        let [counts, times] = shape.arrays(1);
        let place = self.b.ins().ushr_imm_u(head, i64::from(row::PLACE_SHIFT));
        let of_table = id.index() * size_of::<HitCells>();
        if let Some(kind) = shape.counts {
            let (cell, none) = self.hit_cell(of_table + HitCells::COUNTS, &counts, place);
            self.count_packet(kind, cell, 0);
            self.jump(none);
            self.start(none);
        }
        if shape.times {
            let (cell, none) = self.hit_cell(of_table + HitCells::TIMES, &times, place);
            let time = self.b.ins().load(types::I64, FLAGS.with_readonly(), self.ctx, at::TIME);
            let old = self.b.ins().load(types::I64, FLAGS, cell, 0);
            let newer = self.b.ins().umax(old, time);
            self.b.ins().store(FLAGS, newer, cell, 0);
            self.jump(none);
            self.start(none);
        }
    }

    /// The address of a cell in the array at this offset. Code continues where there is one; the returned block is for both cases.
    fn hit_cell(&mut self, array: usize, shape: &CellShape, place: V) -> (V, Block) {
        let (some, none) = (self.new_block(), self.new_block());
        let fixed = FLAGS.with_readonly();
        let hits = self.b.ins().load(types::I64, fixed, self.ctx, at::HITS);
        let len = self.b.ins().load(types::I64, fixed, hits, (array + CellArray::LEN) as i32);
        let fits = self.b.ins().icmp(IntCC::UnsignedLessThan, place, len);
        self.branch(fits, some, none);
        self.start(some);
        let base = self.b.ins().load(types::I64, fixed, hits, (array + CellArray::BASE) as i32);
        (self.cell_of(base, place, shape.bytes() as u32), none)
    }
}
