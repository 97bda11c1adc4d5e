//! Data of digests: bits one behind the other, in registers as far as their number is known, else gathered in memory.

use super::place::{At, Place, Target, Val};
use super::{FLAGS, Gen, Scope};
use crate::layout::Shape;
use crate::runtime;
use cranelift_codegen::ir::{Block, InstBuilder, Value as V, types};
use pointsman_ir::{Digest, Expr, ExprKind};
use std::rc::Rc;

/// A part of the bytes that a digest covers.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: From,
    width: u32,
}

#[derive(Clone, Copy, Debug)]
enum From {
    /// A register of at most 128 bits.
    Reg(V),
    /// Bits of packed data that has `bytes` bytes.
    Packed { base: V, off: i32, bit: u32, bytes: u32 },
}

/// A part of the data of a digest.
#[derive(Clone, Copy, Debug)]
enum Part {
    Piece(Piece),
    /// In the data if it is valid.
    Header(Place),
    Varbit(Place),
}

/// Data in memory that is as long as it turns out to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathered {
    pub(super) start: V,
    pub(super) bytes: V,
    /// Where code goes that finds a part of it to be no whole bytes.
    pub(super) odd: Option<Block>,
}

/// Stacks of more elements are not gathered.
const UNROLLED: u32 = 16;

impl Gen<'_, '_> {
    /// The digest of an argument, and where code goes that cannot make it; `None` if it is not gathered by native code.
    pub(super) fn digest_of_data(
        &mut self,
        scope: &Rc<Scope>,
        digest: Digest,
        data: &Expr,
    ) -> Option<(V, Option<Block>)> {
        let mut parts = Vec::new();
        self.add_parts(scope, data, &mut parts)?;
        let pieces: Option<Vec<Piece>> = parts
            .iter()
            .map(|part| match part {
                Part::Piece(piece) => Some(*piece),
                _ => None,
            })
            .collect();
        if let Some(pieces) = pieces {
            return Some((self.digest(digest, &pieces)?, None));
        }
        let f = match digest {
            // Fast ones are chosen for long data.
            Digest::Sized(f) => f(usize::MAX),
            Digest::Function(f) | Digest::Sum16(f) => f,
            Digest::Ask => return None,
        };
        let Gathered { start, bytes, odd } = self.gather(&parts)?;
        let f = self.address(f as *const u8);
        Some((self.call_runtime(runtime::digest as *const u8, &[f, start, bytes], true), odd))
    }

    /// The bits of a struct, zeros behind them up to whole bytes.
    pub(super) fn gathered(&mut self, scope: &Rc<Scope>, data: &Expr) -> Option<Gathered> {
        let Shape::Struct(_) = self.shape(data.ty) else { return None };
        let mut parts = Vec::new();
        self.add_parts(scope, data, &mut parts)?;
        self.gather(&parts)
    }

    /// The most bytes that parts take, if each but the last begins and ends with a whole byte.
    fn most_bytes(&self, parts: &[Part]) -> Option<u32> {
        let (mut bits, mut bytes) = (0, 0u32);
        for part in parts {
            match part {
                Part::Piece(piece) => bits += piece.width,
                _ if !bits.is_multiple_of(8) => return None,
                Part::Varbit(place) => bytes += self.layouts().get(place.ty).size,
                Part::Header(place) => {
                    let Shape::Header(h) = self.shape(place.ty) else { return None };
                    if !h.bits.is_multiple_of(8) || h.varbit.is_some() && h.loose().is_none() {
                        return None;
                    }
                    bytes += self.layouts().get(place.ty).size;
                }
            }
        }
        Some(bytes + bits.div_ceil(8))
    }

    /// Puts parts one behind the other; a varbit alone is used where it is.
    fn gather(&mut self, parts: &[Part]) -> Option<Gathered> {
        // The last word of the numbers may be stored whole.
        let most = self.most_bytes(parts)? + 8;
        if let [Part::Varbit(Place { at: At::Mem { base, off }, .. })] = *parts {
            let (start, bytes) = (self.pointer(base, off + 8), self.bytes_of_varbit((base, off), None));
            return Some(Gathered { start, bytes, odd: None });
        }
        let At::Mem { base, off } = self.scratch(most.next_multiple_of(8)) else { return None };
        let (start, mut at, mut odd) = (self.pointer(base, off), (base, off), None);
        let mut rest = parts;
        while let Some((first, behind)) = rest.split_first() {
            rest = behind;
            match *first {
                Part::Piece(piece) => {
                    let mut run = vec![piece];
                    while let Some((Part::Piece(piece), behind)) = rest.split_first() {
                        run.push(*piece);
                        rest = behind;
                    }
                    self.put_pieces(&run, at.0, at.1);
                    at.1 += run.iter().map(|p| p.width).sum::<u32>().div_ceil(8) as i32;
                }
                Part::Varbit(Place { at: At::Mem { base, off }, .. }) => {
                    let odd = (!rest.is_empty()).then(|| self.odd_block(&mut odd));
                    at = (self.put_varbit(at, (base, off), odd), 0);
                }
                Part::Varbit(_) => return None,
                Part::Header(header) => at = (self.put_header(at, header, &mut odd)?, 0),
            }
        }
        let end = self.pointer(at.0, at.1);
        let bytes = self.b.ins().isub(end, start);
        Some(Gathered { start, bytes, odd })
    }

    fn odd_block(&mut self, odd: &mut Option<Block>) -> Block {
        let abort = self.abort;
        let looks_ahead = self.ahead.is_some();
        *odd.get_or_insert_with(|| if looks_ahead { abort } else { self.b.create_block() })
    }

    /// Bytes of a varbit, which goes to `odd` if they are not whole.
    pub(super) fn bytes_of_varbit(&mut self, (base, off): (V, i32), odd: Option<Block>) -> V {
        let width = self.b.ins().load(types::I64, FLAGS, base, off);
        if let Some(odd) = odd {
            let bits = self.b.ins().band_imm_u(width, 7);
            let whole = self.new_block();
            self.branch(bits, odd, whole);
            self.start(whole);
        }
        let up = self.b.ins().iadd_imm_s(width, 7);
        self.b.ins().ushr_imm_u(up, 3)
    }

    /// Copies a varbit; the address behind it.
    fn put_varbit(&mut self, to: (V, i32), varbit: (V, i32), odd: Option<Block>) -> V {
        let bytes = self.bytes_of_varbit(varbit, odd);
        let (to, from) = (self.pointer(to.0, to.1), self.pointer(varbit.0, varbit.1 + 8));
        self.call_runtime(runtime::copy as *const u8, &[to, from, bytes], false);
        self.b.ins().iadd(to, bytes)
    }

    /// Copies a header if it is valid; the address behind it.
    fn put_header(&mut self, to: (V, i32), header: Place, odd: &mut Option<Block>) -> Option<V> {
        let Shape::Header(h) = self.shape(header.ty) else { return None };
        let (some, done, next) = (self.new_block(), self.new_block(), self.b.declare_var(types::I64));
        let start = self.pointer(to.0, to.1);
        self.b.def_var(next, start);
        let valid = self.valid(header);
        self.branch(valid, some, done);
        self.start(some);
        let end = match (header.at, h.loose()) {
            (At::Mem { base, off }, Some((before, varbit))) => {
                self.copy_bytes((start, 0), (base, off), before);
                let odd = self.odd_block(odd);
                let end = self.put_varbit((start, before as i32), (base, off + varbit as i32), Some(odd));
                self.copy_bytes((end, 0), (base, off + before as i32), h.bytes() - before);
                self.pointer(end, (h.bytes() - before) as i32)
            }
            (At::Mem { base, off }, None) => {
                self.copy_bytes((start, 0), (base, off), h.bytes());
                self.pointer(start, h.bytes() as i32)
            }
            _ => {
                let mut fields = Vec::new();
                for i in 0..h.fields.len() as u32 {
                    let field = self.field(header, i);
                    self.add_place(field, &mut fields)?;
                }
                let piece = |part: &Part| match part {
                    Part::Piece(piece) => Some(*piece),
                    _ => None,
                };
                let pieces = fields.iter().map(piece).collect::<Option<Vec<Piece>>>()?;
                self.put_pieces(&pieces, start, 0);
                self.pointer(start, h.bytes() as i32)
            }
        };
        self.b.def_var(next, end);
        self.jump(done);
        self.start(done);
        Some(self.b.use_var(next))
    }

    fn add_parts(&mut self, scope: &Rc<Scope>, data: &Expr, parts: &mut Vec<Part>) -> Option<()> {
        match &data.kind {
            ExprKind::Aggregate(of) => of.iter().try_for_each(|part| self.add_parts(scope, part, parts)),
            ExprKind::Read(lv) => {
                let Target { place, slice, .. } = self.resolve(scope, lv, false);
                if slice.is_none() {
                    return self.add_place(place, parts);
                }
                self.add_value(scope, data, parts)
            }
            _ => self.add_value(scope, data, parts),
        }
    }

    fn add_value(&mut self, scope: &Rc<Scope>, data: &Expr, parts: &mut Vec<Part>) -> Option<()> {
        match self.expr(scope, data) {
            Val::Reg(v) => {
                let v = if self.b.func.dfg.value_type(v) == types::I8 {
                    self.b.ins().uextend(types::I64, v)
                } else {
                    v
                };
                self.layouts().get(data.ty).packed?;
                let width = self.layouts().width(data.ty)?;
                parts.push(Part::Piece(Piece { from: From::Reg(v), width }));
                Some(())
            }
            Val::At(place) => self.add_place(place, parts),
        }
    }

    fn add_place(&mut self, place: Place, parts: &mut Vec<Part>) -> Option<()> {
        match (self.shape(place.ty), place.at) {
            (Shape::Struct(fields) | Shape::Union(fields), _) => {
                return (0..fields.len() as u32).try_for_each(|i| {
                    let part = self.field(place, i);
                    self.add_place(part, parts)
                });
            }
            (Shape::Stack { elem, size, first, stride }, At::Mem { base, off }) if *size <= UNROLLED => {
                return (0..*size).try_for_each(|i| {
                    let at = At::Mem { base, off: off + (first + i * stride) as i32 };
                    self.add_place(Place { ty: *elem, at }, parts)
                });
            }
            (Shape::Header(_), _) => {
                parts.push(Part::Header(place));
                return Some(());
            }
            (Shape::Varbit(_), _) => {
                parts.push(Part::Varbit(place));
                return Some(());
            }
            _ => {}
        }
        self.layouts().get(place.ty).packed?;
        let width = self.layouts().width(place.ty)?;
        if let At::Packed { base, off, bit, bytes } = place.at {
            // Right behind the last piece: one with it.
            if let Some(Part::Piece(Piece {
                from: From::Packed { base: b, off: o, bit: before, .. },
                width: w,
            })) = parts.last_mut()
                && (*b, *o, *before + *w) == (base, off, bit)
            {
                *w += width;
                return Some(());
            }
            parts.push(Part::Piece(Piece { from: From::Packed { base, off, bit, bytes }, width }));
            return Some(());
        }
        if self.is_wide(place.ty) {
            let limbs = self.limbs(Val::At(place), width);
            for (i, v) in limbs.into_iter().enumerate().rev() {
                let width = (width - 64 * i as u32).min(64);
                parts.push(Part::Piece(Piece { from: From::Reg(v), width }));
            }
            return Some(());
        }
        let reg = self.reg_type(place.ty)?;
        let v = self.load(place);
        let v = if reg == types::I8 { self.b.ins().uextend(types::I64, v) } else { v };
        parts.push(Part::Piece(Piece { from: From::Reg(v), width }));
        Some(())
    }

    fn digest(&mut self, digest: Digest, pieces: &[Piece]) -> Option<V> {
        match digest {
            Digest::Ask => None,
            Digest::Sum16(_) => Some(self.sum16(pieces)),
            Digest::Function(_) | Digest::Sized(_) => {
                let bits: u32 = pieces.iter().map(|p| p.width).sum();
                let bytes = bits.div_ceil(8);
                let At::Mem { base, off } = self.scratch(bytes.next_multiple_of(8)) else { return None };
                self.put_pieces(pieces, base, off);
                let f = match digest {
                    Digest::Sized(f) => f(bytes as usize),
                    Digest::Function(f) => f,
                    _ => return None,
                };
                let (f, start) = (self.address(f as *const u8), self.pointer(base, off));
                let len = self.number(u64::from(bytes));
                Some(self.call_runtime(runtime::digest as *const u8, &[f, start, len], true))
            }
        }
    }

    /// Stores pieces one behind the other, in whole words, so that reading words finds each in one store.
    fn put_pieces(&mut self, pieces: &[Piece], base: V, off: i32) {
        let (mut word, mut used, mut at) = (self.number(0), 0, off);
        for (v, width) in self.split(pieces, 64) {
            let free = 64 - used;
            let over = width.saturating_sub(free);
            let (high, up) = (self.shift_right(v, over), free.saturating_sub(width));
            let high = self.shift_left(high, up);
            word = if used == 0 { high } else { self.b.ins().bor(word, high) };
            used += width - over;
            if used == 64 {
                self.store_be(base, at, 8, word);
                (used, at) = (over, at + 8);
                word = if over == 0 { word } else { self.shift_left(v, 64 - over) };
            }
        }
        if used > 0 {
            self.store_be(base, at, 8, word);
        }
    }

    /// Registers of at most `most` (32 or 64) bits with all bits of the pieces, and their widths.
    fn split(&mut self, pieces: &[Piece], most: u32) -> Vec<(V, u32)> {
        let mut parts = Vec::new();
        for Piece { from, width } in pieces {
            // Wide ones from the left, a narrow rest at the end.
            let mut done = 0;
            while done < *width {
                let n = (width - done).min(most);
                let v = match *from {
                    From::Packed { base, off, bit, bytes } => {
                        self.load_packed(base, off, bit + done, bytes, n)
                    }
                    From::Reg(v) => {
                        let behind = width - done - n;
                        let v = self.shift_right(v, behind);
                        let v = self.widen(v, types::I64);
                        if n < 64 && done > 0 { self.mask(v, n) } else { v }
                    }
                };
                parts.push((v, n));
                done += n;
            }
        }
        parts
    }

    /// The Internet checksum (RFC 1071) of the pieces. A number is congruent to the sum of its 16-bit words modulo 65535,
    /// and shifting it left by 16 bits changes nothing; so each piece is added as a number, shifted to where it ends
    /// within a word.
    fn sum16(&mut self, pieces: &[Piece]) -> V {
        let (mut at, mut sum, mut swapped) = (0u32, None, None);
        for piece in pieces {
            let mut rest = *piece;
            while let From::Packed { base, off, bit, bytes } = rest.from
                && bit.is_multiple_of(8)
                && at.is_multiple_of(16)
                && rest.width >= 16
            {
                // Whole words in memory order: the sum of swapped words is the swapped sum (RFC 1071).
                let from = off + (bit / 8) as i32;
                let (v, n) = if rest.width >= 32 {
                    (self.b.ins().uload32(FLAGS, base, from), 32)
                } else {
                    (self.b.ins().uload16(types::I64, FLAGS, base, from), 16)
                };
                swapped = Some(self.plus(swapped, v));
                at += n;
                rest = Piece { from: From::Packed { base, off, bit: bit + n, bytes }, width: rest.width - n };
            }
            for (v, n) in self.split(&[rest], 32) {
                at += n;
                let up = (16 - at % 16) % 16;
                let v = if up == 0 { v } else { self.b.ins().ishl_imm_u(v, i64::from(up)) };
                sum = Some(self.plus(sum, v));
            }
        }
        let swapped = swapped.map(|v| {
            let v = self.fold16(v);
            let v = self.b.ins().ireduce(types::I16, v);
            let v = self.b.ins().bswap(v);
            self.b.ins().uextend(types::I64, v)
        });
        let sum = match (sum, swapped) {
            (Some(sum), swapped) => {
                let sum = self.plus(swapped, sum);
                self.fold16(sum)
            }
            (None, Some(swapped)) => swapped,
            (None, None) => self.number(0),
        };
        self.b.ins().bxor_imm_u(sum, 0xffff)
    }

    fn plus(&mut self, sum: Option<V>, v: V) -> V {
        match sum {
            Some(sum) => self.b.ins().iadd(sum, v),
            None => v,
        }
    }

    /// A sum with its carries added again until it has 16 bits. Only zero gives zero. The upper half of a number plus
    /// itself with its halves exchanged is the sum of both, with the carry.
    fn fold16(&mut self, sum: V) -> V {
        let exchanged = self.b.ins().rotl_imm_u(sum, 32);
        let sum = self.b.ins().iadd(sum, exchanged);
        let sum = self.b.ins().ushr_imm_u(sum, 32);
        let sum = self.b.ins().ireduce(types::I32, sum);
        let exchanged = self.b.ins().rotl_imm_u(sum, 16);
        let sum = self.b.ins().iadd(sum, exchanged);
        let sum = self.b.ins().ushr_imm_u(sum, 16);
        self.b.ins().uextend(types::I64, sum)
    }
}
