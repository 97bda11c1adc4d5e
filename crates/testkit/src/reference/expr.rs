//! Expressions and places.

use super::value::{binary, cast, fresh, from_bits, power, to_bits, unary, wrap};
use super::{R, Reference, STEPS, Stop, V};
use crate::generate::tree::*;
use num_bigint::BigInt;

/// The position of a value: indices from a variable on. `None`: past the end of a stack.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) root: VarId,
    pub(super) path: Vec<usize>,
    pub(super) exists: bool,
    /// How far the path goes to the stack whose `next` it goes through.
    pub(super) next_of: Option<usize>,
    /// Only these bits, of a number of this type.
    pub(super) slice: Option<(u32, u32, Ty)>,
}

pub(super) fn parts(v: &V) -> &[V] {
    match v {
        V::Parts(p) | V::Header(_, p) | V::Union(p) | V::Stack(_, p) => p,
        _ => &[],
    }
}

pub(super) fn parts_mut(v: &mut V) -> &mut [V] {
    match v {
        V::Parts(p) | V::Header(_, p) | V::Union(p) | V::Stack(_, p) => p,
        _ => &mut [],
    }
}

const OUT_OF_BOUNDS: usize = 3;

impl Reference<'_> {
    /// Counts a step of work.
    pub(super) fn tick(&mut self) -> R<()> {
        self.steps += 1;
        if self.steps > STEPS { Err(Stop::Undefined("too slow")) } else { Ok(()) }
    }

    /// Evaluates the indices of a place.
    pub(super) fn locate(&mut self, place: &Place) -> R<Spot> {
        let mut spot = Spot { root: place.root, path: Vec::new(), exists: true, next_of: None, slice: None };
        let mut ty = self.p.vars[place.root].clone();
        for step in &place.path {
            let outer = ty.clone();
            ty = match (step, &outer) {
                (Step::Field(i), _) => self.p.fields(&outer)[*i].clone(),
                (_, Ty::Stack(elem, _)) => (**elem).clone(),
                _ => outer.clone(),
            };
            let i = match step {
                Step::Slice(hi, lo) => {
                    spot.slice = Some((*hi, *lo, outer));
                    continue;
                }
                Step::Field(i) => *i,
                Step::Index(e) => {
                    let n = self.expr(e)?;
                    let size = if spot.exists { parts(self.at(&spot)).len() } else { 0 };
                    match usize::try_from(n.num()?) {
                        Ok(i) if i < size => i,
                        _ => {
                            spot.exists = false;
                            0
                        }
                    }
                }
                Step::Next | Step::Last => {
                    let V::Stack(next, elems) = self.at(&spot) else {
                        return Err(Stop::Undefined("no stack"));
                    };
                    if matches!(step, Step::Next) {
                        if *next >= elems.len() {
                            return Err(Stop::Reject(OUT_OF_BOUNDS));
                        }
                        let next = *next;
                        spot.next_of = Some(spot.path.len());
                        next
                    } else {
                        if *next < 1 || *next > elems.len() {
                            return Err(Stop::Reject(OUT_OF_BOUNDS));
                        }
                        *next - 1
                    }
                }
            };
            spot.path.push(i);
        }
        Ok(spot)
    }

    /// The value at a spot that exists.
    pub(super) fn at(&self, spot: &Spot) -> &V {
        spot.path.iter().fold(&self.vars[spot.root], |v, i| &parts(v)[*i])
    }

    /// Reads a spot.
    pub(super) fn load(&self, spot: &Spot) -> R<V> {
        if !spot.exists {
            return Err(Stop::Undefined("an element past the end of a stack"));
        }
        let mut v = &self.vars[spot.root];
        for i in &spot.path {
            if let V::Header(false, _) = v {
                return Err(Stop::Undefined("a field of an invalid header"));
            }
            v = &parts(v)[*i];
        }
        match v {
            V::Unknown if spot.path.is_empty() => Err(Stop::Undefined("a variable that was never set")),
            V::Unknown => Err(Stop::Undefined("a field that was never set")),
            v => match &spot.slice {
                Some((hi, lo, _)) => Ok(V::Num((v.num()? >> *lo) & (power(hi - lo + 1) - 1))),
                None => Ok(v.clone()),
            },
        }
    }

    /// Writes a spot. Writes that the rules for invalid headers discard are lost.
    pub(super) fn store(&mut self, spot: &Spot, value: V) -> R<()> {
        if !spot.exists {
            return Ok(());
        }
        if let Some((hi, lo, ty)) = &spot.slice {
            let whole = Spot { slice: None, ..spot.clone() };
            return match value {
                V::Num(n) => self.store_slice(&whole, ty, *hi, *lo, &n),
                _ => self.store(&whole, V::Unknown),
            };
        }
        let mut v = &mut self.vars[spot.root];
        let mut in_union = false;
        let last = spot.path.len();
        for (depth, i) in spot.path.iter().enumerate() {
            match v {
                V::Header(false, _) if in_union => {
                    return Err(Stop::Undefined("writing to an invalid header of a union"));
                }
                V::Header(false, _) => return Ok(()),
                // A valid header makes the others invalid.
                V::Union(headers) if depth + 1 == last && value.is_valid() => {
                    headers.iter_mut().for_each(invalidate);
                }
                _ => {}
            }
            in_union = matches!(v, V::Union(_));
            v = &mut parts_mut(v)[*i];
        }
        *v = value;
        if !v.is_valid() {
            invalidate(v);
        }
        Ok(())
    }

    /// Evaluates an expression.
    pub(super) fn expr(&mut self, e: &Expr) -> R<V> {
        self.tick()?;
        let ty = self.p.repr(&e.ty).clone();
        Ok(match &e.kind {
            Kind::Num(n) => V::Num(n.clone()),
            Kind::Untyped(n) => V::Num(wrap(&ty, n)),
            Kind::Known(c) => V::Num(wrap(&ty, &known(c))),
            Kind::Bool(b) => V::Bool(*b),
            Kind::Member(i) => match e.ty {
                Ty::Ser(s) => V::Num(self.p.sers[s].values[*i].clone()),
                _ => V::Member(*i),
            },
            Kind::Read(place) => {
                let spot = self.locate(place)?;
                self.load(&spot)?
            }
            Kind::Unary(op, a) => {
                let a = self.expr(a)?;
                unary(&ty, *op, &a)?
            }
            Kind::Binary(Binary::AndAnd, a, b) => V::Bool(self.truth(a)? && self.truth(b)?),
            Kind::Binary(Binary::OrOr, a, b) => V::Bool(self.truth(a)? || self.truth(b)?),
            Kind::Binary(op, a, b) => {
                let x = self.expr(a)?;
                let y = self.expr(b)?;
                binary(*op, self.p.repr(&a.ty), self.p.repr(&b.ty), &x, &y)?
            }
            Kind::Mux(c, a, b) => {
                let chosen = if self.truth(c)? { a } else { b };
                self.expr(chosen)?
            }
            Kind::Cast(a) => {
                let v = self.expr(a)?;
                cast(self.p.repr(&a.ty), &ty, &v)?
            }
            Kind::Slice(a, hi, lo) => {
                let n = self.expr(a)?;
                V::Num((n.num()? >> *lo) & (power(hi - lo + 1) - 1))
            }
            Kind::IsValid(place) => self.is_valid(place)?,
            Kind::Call(f, args) => {
                let result = self.call(&self.p.functions[*f], args, &[])?;
                result.ok_or(Stop::Undefined("a function without a result"))?
            }
            Kind::Hit(t, hit) => V::Bool(self.table(*t)?.0 == *hit),
            Kind::Aggregate(list, _) => {
                let values = list.iter().map(|e| self.expr(e)).collect::<R<Vec<V>>>()?;
                match e.ty {
                    Ty::Header(_) => V::Header(true, values),
                    _ => V::Parts(values),
                }
            }
            Kind::Invalid => fresh(self.p, &e.ty),
            Kind::LastIndex(place) => self.last_index(place)?,
            Kind::Lookahead => {
                let before = self.cursor;
                let v = self.take(&e.ty)?;
                self.cursor = before;
                v
            }
        })
    }

    fn is_valid(&mut self, place: &Place) -> R<V> {
        let spot = self.locate(place)?;
        if !spot.exists {
            return Err(Stop::Undefined("isValid() past the end of a stack"));
        }
        Ok(V::Bool(self.at(&spot).is_valid()))
    }

    fn last_index(&mut self, place: &Place) -> R<V> {
        let spot = self.locate(place)?;
        match self.at(&spot) {
            V::Stack(next, _) if *next > 0 => Ok(V::Num(BigInt::from(next - 1))),
            _ => Err(Stop::Undefined("lastIndex of an empty stack")),
        }
    }

    pub(super) fn truth(&mut self, e: &Expr) -> R<bool> {
        self.expr(e)?.truth()
    }

    /// `place[hi:lo] = value`
    pub(super) fn store_slice(&mut self, spot: &Spot, ty: &Ty, hi: u32, lo: u32, value: &BigInt) -> R<()> {
        if !spot.exists {
            return Ok(());
        }
        // The other bits stay: as long as they are known.
        let old = match self.load(spot) {
            Ok(v) => v,
            Err(Stop::Undefined(_)) => return self.store(spot, V::Unknown),
            Err(other) => return Err(other),
        };
        let ty = self.p.repr(ty).clone();
        let mut bits = to_bits(self.p.width(&ty), old.num()?);
        let new = to_bits(hi - lo + 1, value);
        let from = bits.len() - 1 - hi as usize;
        bits[from..from + new.len()].copy_from_slice(&new);
        self.store(spot, V::Num(from_bits(&ty, &bits)))
    }
}

/// Fields of headers that are not valid are unknown.
pub(super) fn invalidate(v: &mut V) {
    if let V::Header(valid, fields) = v {
        *valid = false;
        fields.iter_mut().for_each(|f| *f = V::Unknown);
    }
}

/// The compiler's result.
fn known(c: &Calc) -> BigInt {
    match c {
        Calc::Num(n) => n.clone(),
        Calc::Op(op, a, b) => {
            let (a, b) = (known(a), known(b));
            match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Div => a / b,
                Binary::Mod => a % b,
                _ => a * b,
            }
        }
    }
}
