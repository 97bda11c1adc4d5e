//! The runtime of native code: its context, and the functions that it calls.
//!
//! # Safety
//!
//! Every function here is called by code that this crate generated, and relies on what that code guarantees:
//! - `ctx` is the [`Ctx`] that the code was entered with, so nothing else uses it meanwhile;
//! - a pointer to a value points to as many bytes as the layout of the type named next to it, in the packet's frame, the
//!   scratch memory or the engine's constants, all of which outlive the call;
//! - where two pointers are given, they name the same place or places that do not overlap.
//!
//! No panic may unwind into native code, which has no tables for it: [`guard`] keeps it in the context, the code returns
//! with [`status::PANIC`] and the caller resumes it.
#![allow(unsafe_code)]

use crate::code::{ExternSite, RowData, Site, TableSite};
use crate::generate::Rare;
use crate::layout::{Layouts, Shape};
use crate::limbs;
use crate::memory::{self, Memory, Spot, Writer, read_bits, read_packed};
use pointsman_ir::pass::GIVEN;
use pointsman_ir::table::flat::{FlatTable, Place as FieldAt, row};
use pointsman_ir::{BinaryOp, Bits, CellArray, Env, ExternCall, FlatArgs, HitCells, TypeId, UnaryOp, Value};
use std::any::Any;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How native code ended.
pub(crate) mod status {
    pub(crate) const OK: i64 = 0;
    /// `exit` of a control.
    pub(crate) const EXIT: i64 = 1;
    /// `reject` of a parser; the error is in the context.
    pub(crate) const REJECT: i64 = 2;
    /// A function of the runtime panicked.
    pub(crate) const PANIC: i64 = 3;
    /// A pass went out at the exit with this number, less this.
    pub(crate) const EXITS: i64 = 16;
}

/// The memory of native code: the first words of its context, at offsets that [`at`] names. The packet's variables and
/// scratch memory follow.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Ctx<'a> {
    /// The part that only Rust uses.
    pub(crate) host: *mut Host<'a>,
    pub(crate) packet: *const u8,
    /// In bits.
    pub(crate) packet_bits: u64,
    /// The next bit of the packet, when the code has run.
    pub(crate) position: u64,
    pub(crate) error: u64,
    pub(crate) rounds_left: u64,
    /// Where `emit` appends whole bytes: `out_len` of `out_cap` are used. The capacity is zero while the last byte is
    /// incomplete, so that native code leaves the work to [`emit`].
    pub(crate) out: *mut u8,
    pub(crate) out_len: u64,
    pub(crate) out_cap: u64,
    /// The arrays of the architecture, by instance; only of code that uses them.
    pub(crate) cells: *const CellArray,
    pub(crate) packet_bytes: u64,
    /// The flat tables of the architecture; null without any.
    pub(crate) tables: *const FlatTable,
    /// The cells in which hits of the flat tables are noted, and the time that is noted; only of code that notes some.
    pub(crate) hits: *const HitCells,
    pub(crate) time: u64,
    /// [`Env::is_shared`]; only of code that looks.
    pub(crate) shared: u64,
    /// Of code that looks ahead: which of its tables are large, a bit for each; where the addresses end that it has noted.
    pub(crate) large: u64,
    pub(crate) noted: *const u64,
    /// The result of a function of [`rare`].
    pub(crate) result: u64,
    /// Of a pass: whether the architecture was called, the numbers given with the packet, its results.
    pub(crate) asked: u64,
    pub(crate) given: [u64; GIVEN],
    pub(crate) told: u64,
}

/// [`Ctx::error`] of a pass whose parser accepted the packet.
pub(crate) const ACCEPTED: u64 = u64::MAX;

/// Offsets in [`Ctx`].
pub(crate) mod at {
    use super::Ctx;
    use std::mem::offset_of;
    pub(crate) const PACKET: i32 = offset_of!(Ctx<'static>, packet) as i32;
    pub(crate) const PACKET_BITS: i32 = offset_of!(Ctx<'static>, packet_bits) as i32;
    pub(crate) const POSITION: i32 = offset_of!(Ctx<'static>, position) as i32;
    pub(crate) const ERROR: i32 = offset_of!(Ctx<'static>, error) as i32;
    pub(crate) const ROUNDS_LEFT: i32 = offset_of!(Ctx<'static>, rounds_left) as i32;
    pub(crate) const OUT: i32 = offset_of!(Ctx<'static>, out) as i32;
    pub(crate) const OUT_LEN: i32 = offset_of!(Ctx<'static>, out_len) as i32;
    pub(crate) const CELLS: i32 = offset_of!(Ctx<'static>, cells) as i32;
    pub(crate) const SHARED: i32 = offset_of!(Ctx<'static>, shared) as i32;
    pub(crate) const LARGE: i32 = offset_of!(Ctx<'static>, large) as i32;
    pub(crate) const NOTED: i32 = offset_of!(Ctx<'static>, noted) as i32;
    pub(crate) const TABLES: i32 = offset_of!(Ctx<'static>, tables) as i32;
    pub(crate) const HITS: i32 = offset_of!(Ctx<'static>, hits) as i32;
    pub(crate) const TIME: i32 = offset_of!(Ctx<'static>, time) as i32;
    pub(crate) const PACKET_BYTES: i32 = offset_of!(Ctx<'static>, packet_bytes) as i32;
    pub(crate) const RESULT: i32 = offset_of!(Ctx<'static>, result) as i32;
    pub(crate) const ASKED: i32 = offset_of!(Ctx<'static>, asked) as i32;
    pub(crate) const GIVEN: i32 = offset_of!(Ctx<'static>, given) as i32;
    pub(crate) const TOLD: i32 = offset_of!(Ctx<'static>, told) as i32;
    pub(crate) const OUT_CAP: i32 = offset_of!(Ctx<'static>, out_cap) as i32;
}

/// The part of a context that only Rust uses.
pub(crate) struct Host<'a> {
    pub(crate) layouts: &'a Layouts,
    /// Of the code that runs.
    pub(crate) strings: &'a [Arc<str>],
    pub(crate) env: &'a mut dyn Env,
    pub(crate) packet: &'a [u8],
    /// A pass runs, not one block.
    pub(crate) pass: bool,
    pub(crate) emitted: &'a mut Vec<u8>,
    /// Bits of the last emitted byte that are used.
    pub(crate) used: u32,
    pub(crate) panic: Option<Box<dyn Any + Send>>,
}

impl<'a> Ctx<'a> {
    pub(crate) fn host(&mut self) -> &mut Host<'a> {
        // SAFETY: it outlives the run of the code, and nothing else uses it meanwhile.
        unsafe { &mut *self.host }
    }

    /// Gives `emit` of native code at least `more` bytes.
    fn grow(&mut self, more: usize) {
        let host = self.host();
        host.emitted.reserve(more);
        let (out, len) = (host.emitted.as_mut_ptr(), host.emitted.len());
        let cap = if host.used == 0 { host.emitted.capacity() } else { 0 };
        (self.out, self.out_len, self.out_cap) = (out, len as u64, cap as u64);
    }

    /// Takes over what native code has emitted.
    pub(crate) fn settle(&mut self) {
        let len = self.out_len as usize;
        let host = self.host();
        debug_assert!(len <= host.emitted.capacity());
        // SAFETY: native code wrote every byte up to `out_len`, and checks it against the capacity first.
        unsafe { host.emitted.set_len(len) };
    }
}

/// The functions that well-made programs seldom call.
pub(crate) fn rare() -> Vec<Rare> {
    let rare = |function, args, result| Rare { function, args, result };
    vec![
        rare(lookup as *const u8, 4, true),
        rare(report_hit as *const u8, 3, true),
        rare(call_flat as *const u8, 5, true),
        rare(call_extern as *const u8, 3, true),
        rare(value_set as *const u8, 3, true),
        rare(emit as *const u8, 3, true),
        rare(extract_varbit as *const u8, 5, false),
        rare(shift as *const u8, 4, false),
        rare(equal as *const u8, 4, true),
        rare(wide as *const u8, 5, true),
    ]
}

/// Runs `work`; a panic is kept and becomes `on_panic`.
fn guard<R>(ctx: *mut Ctx<'_>, on_panic: R, work: impl FnOnce(&mut Ctx<'_>) -> R) -> R {
    // SAFETY: see the module's documentation.
    let ctx = unsafe { &mut *ctx };
    let result = catch_unwind(AssertUnwindSafe(|| work(ctx)));
    result.unwrap_or_else(|panic| {
        ctx.host().panic = Some(panic);
        on_panic
    })
}

/// The memory of a value.
///
/// # Safety
/// See the module's documentation.
unsafe fn value_at<'m>(layouts: &Layouts, ty: TypeId, at: *mut u8) -> &'m mut [u8] {
    // SAFETY: the caller passes a pointer to a value of that type.
    unsafe { std::slice::from_raw_parts_mut(at, layouts.get(ty).size as usize) }
}

/// Looks a table up by asking the architecture: makes a row at `to`. False after a panic.
pub(crate) extern "C" fn lookup(ctx: *mut Ctx<'_>, site: *const Site, key: *const u64, to: *mut u64) -> u64 {
    guard(ctx, 0, |ctx| {
        // SAFETY: the site is owned by the code that calls; the areas are as large as it says.
        let (site, key, selectors, to) = unsafe {
            let Site::Table(site) = &*site else { return 0 };
            let selectors = std::slice::from_raw_parts(key.add(site.key_words).cast(), site.selector_bytes);
            let key = std::slice::from_raw_parts(key, site.key_words);
            (site, key, selectors, std::slice::from_raw_parts_mut(to, site.row_words))
        };
        ctx.host().lookup(site, key, selectors, to);
        1
    })
}

/// A flat table gave a row that names a group: the address of the row of the member that the packet gets. 0: ask.
pub(crate) extern "C" fn pick(ctx: *mut Ctx<'_>, site: *const Site, key: *const u64, group: u64) -> u64 {
    guard(ctx, 0, |ctx| {
        // SAFETY: the site is owned by the code that calls; the key is as large as it says.
        let (site, selectors) = unsafe {
            let Site::Table(site) = &*site else { return 0 };
            (site, std::slice::from_raw_parts(key.add(site.key_words).cast(), site.selector_bytes))
        };
        ctx.host().pick(site, selectors, group).unwrap_or(0)
    })
}

/// A flat table gave a row with this head, and the architecture wants to know. False after a panic.
pub(crate) extern "C" fn report_hit(ctx: *mut Ctx<'_>, site: *const Site, head: u64) -> u64 {
    guard(ctx, 0, |ctx| {
        // SAFETY: the site is owned by the code that calls.
        let Site::Table(site) = (unsafe { &*site }) else { return 0 };
        ctx.host().env.report_hit(site.table, head);
        1
    })
}

/// The values of a table's key fields of kind `selector`.
fn of_selectors(site: &TableSite, packed: &[u8]) -> Vec<Bits> {
    let mut bit = 0;
    let one = |width: &u32| {
        let value = read_packed(packed, bit, *width);
        bit += *width as usize;
        value
    };
    site.selectors.iter().map(one).collect()
}

impl<'a> Host<'a> {
    fn memory(&self) -> Memory<'a> {
        Memory { layouts: self.layouts, strings: self.strings }
    }

    fn pick(&mut self, site: &TableSite, selectors: &[u8], group: u64) -> Option<u64> {
        let n = site.table.index();
        self.env.tables().get(n).filter(|t| t.knows_group(group))?;
        let hash = self.env.select(site.table, selectors)?;
        self.env.tables().get(n)?.member(group, hash).map(|row| row.as_ptr() as u64)
    }

    fn lookup(&mut self, site: &TableSite, key: &[u64], selectors: &[u8], to: &mut [u64]) {
        let of_key = |at: &FieldAt| {
            let words = &key[at.word as usize..];
            match at.width {
                65.. => read_bits(memory::bytes(words), at.width),
                0 => Bits::zero(0),
                width => Bits::new(width, u128::from(words[0] >> at.shift)),
            }
        };
        let key: Vec<Bits> = site.keys.iter().map(of_key).collect();
        let found = self.env.lookup(site.table, &key, &of_selectors(site, selectors));
        let hit = if found.hit.is_some() { row::HIT } else { 0 };
        let Some((head, data)) = to.split_first_mut() else { return };
        *head = row::ACTION | hit;
        let Some(call) = found.action else { return };
        let Some(params) = site.data.get(call.action as usize) else { return };
        *head = u64::from(call.action) | hit;
        data.fill(0);
        let value = |n: usize| call.args.get(n).unwrap_or(&Value::Void);
        match params {
            RowData::Flat(params) => {
                for (n, (ty, at)) in params.iter().enumerate() {
                    // Through the natural form, which handles values of another type.
                    let mut natural = vec![0; self.layouts.get(*ty).size.div_ceil(8) as usize];
                    self.memory().put(memory::bytes_mut(&mut natural), *ty, Spot::Natural(0), value(n));
                    at.put(data, &read_bits(memory::bytes(&natural), at.width));
                }
            }
            RowData::Natural(params) => {
                for (n, (ty, offset)) in params.iter().enumerate() {
                    let spot = Spot::Natural(*offset as usize);
                    self.memory().put(memory::bytes_mut(data), *ty, spot, value(n));
                }
            }
        }
    }

    /// The rest after the parser of a pass has consumed this many bits.
    fn rest(&self, position: u64) -> &'a [u8] {
        let rest = self.packet.get(position.div_ceil(8) as usize..).filter(|_| self.pass);
        rest.unwrap_or(&[])
    }

    /// Calls an extern with arguments in `area`; where they are packed they are in `data`.
    fn call(&mut self, site: &ExternSite, area: &mut [u8], data: &[u8], rest: &[u8]) {
        let mut args = Vec::with_capacity(site.args.len());
        for arg in &site.args {
            args.push(match self.layouts.get(arg.ty).shape {
                Shape::Struct(_) if !data.is_empty() => self.memory().value(data, arg.ty, Spot::Packed(0, 0)),
                _ => self.memory().value(area, arg.ty, Spot::Natural(arg.offset as usize)),
            });
        }
        let result = self.env.call_extern(site.call(rest), &mut args);
        for (arg, value) in site.args.iter().zip(&args) {
            if arg.out {
                self.memory().put(area, arg.ty, Spot::Natural(arg.offset as usize), value);
            }
        }
        if let Some((ty, offset)) = site.returns {
            self.memory().put(area, ty, Spot::Natural(offset as usize), &result);
        }
    }
}

impl ExternSite {
    fn call<'s>(&'s self, rest: &'s [u8]) -> ExternCall<'s> {
        ExternCall {
            function: self.function,
            instance: self.instance,
            type_args: &self.type_args,
            returns: self.returns.map(|(ty, _)| ty),
            rest,
        }
    }
}

/// Calls an extern with numbers: two words for each in `area`, then two for the result; packed bits in `len` bytes of `data`.
/// False after a panic.
pub(crate) extern "C" fn call_flat(
    ctx: *mut Ctx<'_>,
    site: *const Site,
    area: *mut u64,
    data: *const u8,
    len: usize,
) -> u64 {
    guard(ctx, 0, |ctx| {
        // SAFETY: the site is owned by the code that calls; the areas are as large as it says, in whole words.
        let (site, area, data) = unsafe {
            let Site::Flat(site) = &*site else { return 0 };
            let area = std::slice::from_raw_parts_mut(area, site.size as usize / 8);
            (site, area, std::slice::from_raw_parts(data, len))
        };
        let position = ctx.position;
        let host = ctx.host();
        let rest = host.rest(position);
        let (words, _) = area.as_chunks_mut::<2>();
        let Some((words, [result, ..])) = words.split_at_mut_checked(site.args.len()) else { return 0 };
        let known = (!site.loose).then_some(data);
        let args = FlatArgs { words, widths: &site.widths, data: known, result };
        if !host.env.call_flat(site.call(rest), args) {
            host.call(site, memory::bytes_mut(area), data, rest);
        }
        ctx.asked = u64::from(ctx.host().env.asked());
        1
    })
}

/// Runs the function of a digest over `len` bytes.
pub(crate) extern "C" fn digest(f: *const (), data: *const u8, len: usize) -> u64 {
    // SAFETY: native code passes the address of a `Digest::Function`, and an area of that many bytes.
    let (f, data) = unsafe {
        let f = std::mem::transmute::<*const (), fn(&[u8]) -> u64>(f);
        (f, std::slice::from_raw_parts(data, len))
    };
    f(data)
}

/// Calls an extern with the arguments in `area`, and puts its results there. False after a panic.
pub(crate) extern "C" fn call_extern(ctx: *mut Ctx<'_>, site: *const Site, area: *mut u8) -> u64 {
    guard(ctx, 0, |ctx| {
        // SAFETY: the site is owned by the code that calls; the area is as large as it says.
        let (site, area) = unsafe {
            let Site::Extern(site) = &*site else { return 0 };
            (site, std::slice::from_raw_parts_mut(area, site.size as usize))
        };
        let position = ctx.position;
        let host = ctx.host();
        host.call(site, area, &[], host.rest(position));
        ctx.asked = u64::from(ctx.host().env.asked());
        1
    })
}

/// Whether the key in `area` is a member of the value set. 2 after a panic.
pub(crate) extern "C" fn value_set(ctx: *mut Ctx<'_>, site: *const Site, area: *const u8) -> u64 {
    guard(ctx, 2, |ctx| {
        // SAFETY: the site is owned by the code that calls; the area is as large as it says.
        let (site, area) = unsafe {
            let Site::ValueSet(site) = &*site else { return 2 };
            (site, std::slice::from_raw_parts(area, site.size as usize))
        };
        let values: Vec<Bits> =
            site.keys.iter().map(|(width, offset)| read_bits(&area[*offset as usize..], *width)).collect();
        let found = ctx.host().env.value_set(site.set).iter().any(|member| {
            member.len() == values.len() && member.iter().zip(&values).all(|(m, v)| m.matches(v))
        });
        u64::from(found)
    })
}

/// Appends a value to the packet that native code cannot append itself. False after a panic.
pub(crate) extern "C" fn emit(ctx: *mut Ctx<'_>, ty: u64, at: *mut u8) -> u64 {
    guard(ctx, 0, |ctx| {
        let ty = TypeId(ty as u32);
        ctx.settle();
        // SAFETY: a value of that type is there.
        let mem = unsafe { value_at(ctx.host().layouts, ty, at) };
        let host = ctx.host();
        let memory = host.memory();
        let mut writer = Writer { out: host.emitted, used: host.used };
        memory.pack(mem, ty, 0, &mut writer);
        host.used = writer.used;
        ctx.grow(256);
        1
    })
}

/// Copies `width` bits of the packet from bit `at` on to the start of `to`, filled up to whole bytes.
pub(crate) extern "C" fn packet_bits(ctx: *mut Ctx<'_>, at: u64, width: u64, to: *mut u8) {
    guard(ctx, (), |ctx| {
        // SAFETY: native code passes an area that holds `width` bits.
        let to = unsafe { std::slice::from_raw_parts_mut(to, width.div_ceil(8) as usize) };
        to.fill(0);
        for (i, byte) in to.iter_mut().enumerate() {
            let left = (width - 8 * i as u64).min(8) as u32;
            *byte = (memory::peek(ctx.host().packet, at as usize + 8 * i, left) as u8) << (8 - left);
        }
    });
}

/// Fills a header that has a varbit field from the packet at bit `at`.
pub(crate) extern "C" fn extract_varbit(ctx: *mut Ctx<'_>, ty: u64, to: *mut u8, at: u64, varbits: u64) {
    guard(ctx, (), |ctx| {
        let ty = TypeId(ty as u32);
        // SAFETY: a value of that type is there.
        let mem = unsafe { value_at(ctx.host().layouts, ty, to) };
        if let Shape::Header(header) = &ctx.host().layouts.get(ty).shape {
            let host = ctx.host();
            host.memory().unpack(mem, header, host.packet, at as usize, varbits as u32);
        }
    });
}

/// `push_front(by)`, or `pop_front(-by)`.
pub(crate) extern "C" fn shift(ctx: *mut Ctx<'_>, ty: u64, at: *mut u8, by: i64) {
    guard(ctx, (), |ctx| {
        let ty = TypeId(ty as u32);
        // SAFETY: a value of that type is there.
        let mem = unsafe { value_at(ctx.host().layouts, ty, at) };
        ctx.host().memory().shift(mem, ty, by);
    });
}

/// `a == b`.
pub(crate) extern "C" fn equal(ctx: *mut Ctx<'_>, ty: u64, a: *const u8, b: *const u8) -> u64 {
    guard(ctx, 0, |ctx| {
        let ty = TypeId(ty as u32);
        let size = ctx.host().layouts.get(ty).size as usize;
        // SAFETY: values of that type are there.
        let (a, b) = unsafe { (std::slice::from_raw_parts(a, size), std::slice::from_raw_parts(b, size)) };
        u64::from(ctx.host().memory().equal(ty, (a, Spot::Natural(0)), (b, Spot::Natural(0))))
    })
}

/// Copies `size` bytes between two places.
pub(crate) extern "C" fn copy(to: *mut u8, from: *const u8, size: u64) {
    // SAFETY: native code passes places of that size.
    unsafe { std::ptr::copy(from, to, size as usize) }
}

/// Sets `size` bytes to zero.
pub(crate) extern "C" fn clear(to: *mut u8, size: u64) {
    // SAFETY: native code passes a place of that size.
    unsafe { std::ptr::write_bytes(to, 0, size as usize) }
}

/// An operation on numbers of any width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WideOp {
    Unary(UnaryOp),
    Binary(BinaryOp),
    /// To the width of the result.
    Cast,
    /// As many bits as the result has, from this one on.
    Slice(u32),
    /// Bits of the result are replaced by the first.
    SetSlice(u32, u32),
    /// Bits of packed data at this bit.
    Unpack(u32),
    /// Bits into packed data at this bit; the data is the result.
    Pack(u32),
}

/// The operation with the widths of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wide {
    pub(crate) op: WideOp,
    /// Of the first operand.
    pub(crate) signed: bool,
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) result: u32,
}

/// Operates on numbers, each stored in whole limbs. Comparisons give their result, everything else writes it to `to`;
/// where it divides there is room for quotient and remainder.
pub(crate) extern "C" fn wide(
    ctx: *mut Ctx<'_>,
    site: *const Site,
    to: *mut u8,
    a: *const u8,
    b: *const u8,
) -> u64 {
    guard(ctx, 0, |_| {
        // SAFETY: the site is owned by the code that calls.
        let Site::Wide(w) = (unsafe { &*site }) else { return 0 };
        let bytes = |bit: u32, width: u32| (bit + width).div_ceil(8) as usize;
        // SAFETY: a number of that width is there.
        let number =
            |at: *const u8, width| unsafe { std::slice::from_raw_parts(at.cast(), limbs::count(width)) };
        if let WideOp::Pack(bit) = w.op {
            // SAFETY: packed data of a header that holds the bits.
            let data = unsafe { std::slice::from_raw_parts_mut(to, bytes(bit, w.a)) };
            memory::pack_limbs(data, bit as usize, number(a, w.a), w.a);
            return 0;
        }
        let op = match w.op {
            WideOp::Binary(op) => Some(op),
            _ => None,
        };
        if let Some(
            op @ (BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge),
        ) = op
        {
            return u64::from(holds(op, limbs::compare(number(a, w.a), number(b, w.b), w.a, w.signed)));
        }
        let n = limbs::count(w.result);
        let room = if let Some(BinaryOp::Div | BinaryOp::Mod) = op { 2 * n } else { n };
        // SAFETY: there is room for the result, which overlaps no operand.
        let to: &mut [u64] = unsafe { std::slice::from_raw_parts_mut(to.cast(), room) };
        if let WideOp::Unpack(bit) = w.op {
            // SAFETY: packed data of a header that holds the bits.
            let data = unsafe { std::slice::from_raw_parts(a, bytes(bit, w.result)) };
            memory::unpack_limbs(to, data, bit as usize, w.result);
            return 0;
        }
        let (a, b) = (number(a, w.a), number(b, w.b));
        match w.op {
            WideOp::Unary(UnaryOp::Neg) => limbs::sub(to, &[], a, w.result),
            WideOp::Unary(UnaryOp::BitNot | UnaryOp::Not) => limbs::not(to, a, w.result),
            WideOp::Cast => limbs::cast(to, a, w.a, w.result, w.signed),
            WideOp::Slice(lo) => limbs::slice(to, a, lo, w.result),
            WideOp::SetSlice(hi, lo) => limbs::set_slice(to, hi, lo, a),
            WideOp::Binary(op) => binary(op, w, to, a, b),
            WideOp::Pack(_) | WideOp::Unpack(_) => {}
        }
        0
    })
}

fn holds(op: BinaryOp, order: Ordering) -> bool {
    match op {
        BinaryOp::Ne => order.is_ne(),
        BinaryOp::Lt => order.is_lt(),
        BinaryOp::Le => order.is_le(),
        BinaryOp::Gt => order.is_gt(),
        BinaryOp::Ge => order.is_ge(),
        _ => order.is_eq(),
    }
}

fn binary(op: BinaryOp, w: &Wide, to: &mut [u64], a: &[u64], b: &[u64]) {
    use BinaryOp::*;
    match op {
        Add => limbs::add(to, a, b, w.result),
        Sub => limbs::sub(to, a, b, w.result),
        Mul => limbs::mul(to, a, b, w.result),
        Div | Mod => {
            let (result, other) = to.split_at_mut(limbs::count(w.result));
            let (quotient, rest) = if op == Div { (result, other) } else { (other, result) };
            limbs::divide(quotient, rest, a, b);
        }
        SatAdd | SatSub => limbs::saturating(to, a, b, w.result, op == SatAdd, w.signed),
        BitAnd => limbs::each(to, a, b, |a, b| a & b),
        BitOr => limbs::each(to, a, b, |a, b| a | b),
        BitXor => limbs::each(to, a, b, |a, b| a ^ b),
        Shl => limbs::shl(to, a, limbs::saturated(b), w.result),
        Shr => limbs::shr(to, a, limbs::saturated(b), w.result, w.signed),
        Concat => limbs::concat(to, a, b, w.b, w.result),
        Eq | Ne | Lt | Le | Gt | Ge | And | Or => {}
    }
}
