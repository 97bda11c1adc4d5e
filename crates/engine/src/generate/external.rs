//! Calls of externs through the architecture.

use super::digest::Gathered;
use super::place::{At, Place, Target, Val};
use super::{FLAGS, Gen, Scope};
use crate::code::{ExternArg, ExternSite, Site};
use crate::layout::{Scalar, Shape};
use crate::runtime;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value as V, types};
use pointsman_ir::{Arg, Bits, ExternFnId, ExternInstanceId, TypeId, Value};
use std::rc::Rc;

/// The callee.
#[derive(Clone, Copy, Debug)]
pub(super) struct Called<'a> {
    pub(super) function: ExternFnId,
    pub(super) instance: Option<ExternInstanceId>,
    pub(super) type_args: &'a [TypeId],
    /// The argument that the architecture takes as bytes.
    pub(super) bytes: Option<u32>,
}

/// An argument that is a number, or the struct of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flat {
    /// `None`: it starts as zero, or is gathered.
    pub(super) v: Option<Val>,
    pub(super) ty: TypeId,
    /// Taken back.
    pub(super) out: bool,
}

impl Gen<'_, '_> {
    pub(super) fn part(&mut self, place: Place, hi: u32, lo: u32) -> Val {
        let v = self.get(place);
        self.slice(v, place.ty, hi, lo)
    }

    pub(super) fn call_extern(
        &mut self,
        scope: &Rc<Scope>,
        called: Called<'_>,
        args: &[Arg],
        result: Option<(Target, TypeId)>,
    ) {
        // Arguments and results are not needed in memory after the call.
        let mark = self.scratch_top;
        if result.is_some() || !self.call_known(scope, called, args) {
            self.call_through(scope, called, args, result);
        }
        self.release(mark);
    }

    /// A call that the architecture does.
    pub(super) fn call_through(
        &mut self,
        scope: &Rc<Scope>,
        called: Called<'_>,
        args: &[Arg],
        result: Option<(Target, TypeId)>,
    ) {
        let ty_of = |a: &Arg| match a {
            Arg::In(e) => e.ty,
            Arg::Out(lv) | Arg::InOut(lv) => lv.ty,
        };
        let returns = result.map(|r| r.1);
        if self.is_flat(args, returns) {
            return self.call_flat(scope, called, args, result, None);
        }
        let (offsets, size) = self.layouts().area(args.iter().map(ty_of).chain(returns));
        let mut values = Vec::with_capacity(args.len());
        let mut back = Vec::new();
        for (arg, offset) in args.iter().zip(&offsets) {
            let ty = ty_of(arg);
            let v = match arg {
                Arg::In(e) => self.expr(scope, e),
                Arg::Out(lv) | Arg::InOut(lv) => {
                    let target = self.resolve(scope, lv, true);
                    back.push((target, ty, *offset));
                    match (arg, target.slice) {
                        (Arg::Out(_), _) => self.default(ty),
                        (_, None) => self.get(target.place),
                        (_, Some((hi, lo))) => self.part(target.place, hi, lo),
                    }
                }
            };
            values.push((v, ty, *offset));
        }
        let area = self.area(size, values.into_iter());
        let externs = args
            .iter()
            .zip(&offsets)
            .map(|(a, offset)| ExternArg { ty: ty_of(a), offset: *offset, out: !matches!(a, Arg::In(_)) })
            .collect();
        let returned_at = offsets.last().copied().filter(|_| returns.is_some());
        let Called { function, instance, type_args, .. } = called;
        let site = ExternSite {
            function,
            instance,
            type_args: type_args.to_vec(),
            args: externs,
            returns: returns.zip(returned_at),
            size,
            widths: Vec::new(),
            loose: false,
        };
        let site = self.site(Site::Extern(site));
        let ctx = self.ctx;
        self.asks = true;
        let fine = self.call_runtime(runtime::call_extern as *const u8, &[ctx, site, area], true);
        let panicked = self.b.ins().icmp_imm_u(IntCC::Equal, fine, 0);
        self.check_panic(panicked);
        for (target, ty, offset) in
            back.into_iter().chain(result.zip(returned_at).map(|((t, ty), o)| (t, ty, o)))
        {
            let place = Place { ty: self.repr(ty), at: At::Mem { base: area, off: offset as i32 } };
            let v = self.get(place);
            self.write(target, v);
        }
    }

    /// Whether all arguments are numbers of at most 128 bits, but for one struct.
    pub(super) fn is_flat(&self, args: &[Arg], returns: Option<TypeId>) -> bool {
        let number = |ty: TypeId| {
            let Shape::Scalar(kind, w) = self.shape(ty) else { return None };
            (*kind != Scalar::String && *w <= 128).then_some(*kind)
        };
        let mut packed = 0;
        args.iter().all(|arg| match arg {
            Arg::In(e) => {
                let data = matches!(self.shape(e.ty), Shape::Struct(_));
                packed += usize::from(data);
                number(e.ty).is_some() || data
            }
            Arg::Out(lv) | Arg::InOut(lv) => number(lv.ty).is_some_and(|k| k != Scalar::Bool),
        }) && packed <= 1
            && returns.is_none_or(|ty| number(ty).is_some_and(|k| k != Scalar::Bool))
    }

    /// Bytes of a struct or tuple of numbers, if they are whole.
    fn packed_bytes(&self, ty: TypeId) -> Option<u32> {
        let layout = self.layouts().get(ty);
        let Shape::Struct(_) = layout.shape else { return None };
        layout.packed.filter(|bits| *bits > 0 && bits.is_multiple_of(8)).map(|bits| bits / 8)
    }

    /// `bytes`: the argument that the architecture takes so.
    pub(super) fn call_flat(
        &mut self,
        scope: &Rc<Scope>,
        called: Called<'_>,
        args: &[Arg],
        result: Option<(Target, TypeId)>,
        bytes: Option<Gathered>,
    ) {
        // All are evaluated before anything is written.
        let (mut flat, mut back) = (vec![], vec![]);
        for (n, arg) in args.iter().enumerate() {
            flat.push(match arg {
                Arg::In(e) if bytes.is_some() && called.bytes == Some(n as u32) => {
                    Flat { v: None, ty: e.ty, out: false }
                }
                Arg::In(e) => Flat { v: Some(self.expr(scope, e)), ty: e.ty, out: false },
                Arg::Out(lv) | Arg::InOut(lv) => {
                    let target = self.resolve(scope, lv, true);
                    back.push((target, lv.ty, n));
                    let v = match (arg, target.slice) {
                        (Arg::Out(_), _) => None,
                        (_, None) => Some(self.get(target.place)),
                        (_, Some((hi, lo))) => Some(self.part(target.place, hi, lo)),
                    };
                    Flat { v, ty: lv.ty, out: true }
                }
            });
        }
        let words = self.ask_with(called, &flat, result.map(|r| r.1), bytes);
        for (target, ty, n) in back.into_iter().chain(result.map(|(t, ty)| (t, ty, args.len()))) {
            let v = self.answer(words, n, ty);
            self.write(target, Val::Reg(v));
        }
    }

    /// The number that argument `n` has become.
    pub(super) fn answer(&mut self, (base, off): (V, i32), n: usize, ty: TypeId) -> V {
        let at = At::Mem { base, off: off + 16 * n as i32 };
        let v = self.load(Place { ty: self.repr(ty), at });
        self.mask(v, self.layouts().width(ty).unwrap_or(0))
    }

    /// Calls the architecture with numbers. Where they are afterwards, two words for each.
    pub(super) fn ask(&mut self, called: Called<'_>, args: &[Flat], returns: Option<TypeId>) -> (V, i32) {
        self.ask_with(called, args, returns, None)
    }

    /// The same, with the bytes of the argument that the architecture takes so.
    fn ask_with(
        &mut self,
        called: Called<'_>,
        args: &[Flat],
        returns: Option<TypeId>,
        gathered: Option<Gathered>,
    ) -> (V, i32) {
        let words = 16 * (args.len() as u32 + 1);
        let loose = args.iter().filter(|_| gathered.is_none()).find_map(|a| {
            let is_loose = matches!(self.shape(a.ty), Shape::Struct(_)) && self.packed_bytes(a.ty).is_none();
            is_loose.then(|| self.layouts().get(a.ty).size)
        });
        let size = words + loose.unwrap_or(0).next_multiple_of(16);
        let At::Mem { base, off } = self.scratch(size) else { return (self.scratch, 0) };
        let word = |n: usize| off + 16 * n as i32;
        let none = self.number(0);
        let mut data = gathered.map_or((self.scratch, none), |g| (g.start, g.bytes));
        for (n, arg) in args.iter().enumerate() {
            match arg.v {
                Some(v @ Val::At(_)) if loose.is_some() => {
                    let at = At::Mem { base, off: off + words as i32 };
                    self.put(Place { ty: self.repr(arg.ty), at }, v);
                }
                Some(Val::At(place)) => {
                    let bytes = self.packed_bytes(arg.ty).unwrap_or(0);
                    let At::Mem { base, off } = self.scratch(bytes) else { return (self.scratch, 0) };
                    self.clear_bytes(base, off, bytes);
                    self.pack(place, (base, off, bytes), 0);
                    data = (self.pointer(base, off), self.number(u64::from(bytes)));
                }
                Some(Val::Reg(v)) => self.store_words(v, base, word(n)),
                None => {
                    let zero = self.number(0);
                    self.store_words(zero, base, word(n));
                }
            }
        }
        let zero = self.number(0);
        self.store_words(zero, base, word(args.len()));
        let result_at = 16 * args.len() as u32;
        let externs = args.iter().enumerate().map(|(n, arg)| {
            let behind = loose.is_some() && matches!(self.shape(arg.ty), Shape::Struct(_));
            ExternArg { ty: arg.ty, offset: if behind { words } else { 16 * n as u32 }, out: arg.out }
        });
        let site = ExternSite {
            function: called.function,
            instance: called.instance,
            type_args: called.type_args.to_vec(),
            args: externs.collect(),
            returns: returns.map(|ty| (ty, result_at)),
            size,
            widths: args.iter().map(|a| self.layouts().width(a.ty).unwrap_or(0)).collect(),
            loose: loose.is_some(),
        };
        let (site, area) = (self.site(Site::Flat(site)), self.pointer(base, off));
        let ctx = self.ctx;
        self.asks = true;
        let fine =
            self.call_runtime(runtime::call_flat as *const u8, &[ctx, site, area, data.0, data.1], true);
        let panicked = self.b.ins().icmp_imm_u(IntCC::Equal, fine, 0);
        self.check_panic(panicked);
        (base, off)
    }

    /// Two words.
    fn store_words(&mut self, v: V, base: V, off: i32) {
        let (low, high) = match self.b.func.dfg.value_type(v) {
            types::I128 => self.halves(v),
            types::I64 => (v, self.number(0)),
            _ => (self.b.ins().uextend(types::I64, v), self.number(0)),
        };
        self.b.ins().store(FLAGS, low, base, off);
        self.b.ins().store(FLAGS, high, base, off + 8);
    }

    /// Writes the scalars of a place into packed data (address, offset, bytes) from `bit` on; the bit behind them.
    fn pack(&mut self, place: Place, data: (V, i32, u32), bit: u32) -> u32 {
        if let Shape::Struct(parts) = self.shape(place.ty) {
            return (0..parts.len() as u32).fold(bit, |bit, i| {
                let part = self.field(place, i);
                self.pack(part, data, bit)
            });
        }
        let (base, off, bytes) = data;
        self.copy(Place { ty: place.ty, at: At::Packed { base, off, bit, bytes } }, place);
        bit + self.layouts().get(place.ty).packed.unwrap_or(0)
    }

    /// The default value of a type.
    fn default(&mut self, ty: TypeId) -> Val {
        match self.layouts().width(ty) {
            Some(w) if self.reg_type(ty).is_some() && w <= 128 => {
                let zero = Value::default_of(self.types(), ty);
                match zero.to_bits() {
                    Some(_) => self.value(&zero, ty),
                    None => self.bits(&Bits::zero(w), ty),
                }
            }
            _ => Val::At(self.fresh(ty)),
        }
    }
}
