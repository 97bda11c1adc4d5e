//! Parsers and deparsers (P4_16 chapters 13 and 16).

use super::expr::Spot;
use super::table::{key, matches};
use super::value::{from_bits, to_bits};
use super::{R, Reference, Stop, V};
use crate::generate::tree::*;

const TOO_SHORT: usize = 1;
const NO_MATCH: usize = 2;
const HEADER_TOO_SHORT: usize = 4;
const INVALID_ARGUMENT: usize = 6;

impl Reference<'_> {
    /// Runs a parser; a sub-parser has arguments.
    pub(super) fn parser(&mut self, index: usize, args: &[Arg]) -> R<()> {
        let parser = &self.p.parsers[index];
        let spots = self.copy_in(&parser.params, args)?;
        let locals = parser.locals.iter().try_for_each(|(v, e)| self.declare(*v, e));
        let result = locals.and_then(|()| self.states(parser));
        self.copy_out(&spots)?;
        result
    }

    fn states(&mut self, parser: &Parser) -> R<()> {
        let mut at = Next::State(0);
        loop {
            self.tick()?;
            let state = match at {
                Next::Accept => return Ok(()),
                // Of its own accord: NoError stays.
                Next::Reject => return Err(Stop::Reject(0)),
                Next::State(i) => &parser.states[i],
            };
            self.body(&state.body)?;
            let mut values = Vec::new();
            for e in &state.on {
                let v = self.expr(e)?;
                values.push(key(&v)?);
            }
            let fits = |(list, _): &&(Vec<Match>, Next)| {
                list.iter().zip(&state.on).zip(&values).all(|((m, e), v)| {
                    let ty = self.p.repr(&e.ty);
                    matches(m, self.p.width(ty), matches!(ty, Ty::Int(_)), v, &parser.sets)
                })
            };
            let found = state.cases.iter().find(fits).map(|c| c.1).or(state.otherwise);
            at = found.ok_or(Stop::Reject(NO_MATCH))?;
        }
    }

    fn need(&self, bits: usize) -> R<()> {
        if self.packet.len() - self.cursor < bits { Err(Stop::Reject(TOO_SHORT)) } else { Ok(()) }
    }

    fn bits(&mut self, n: usize) -> Vec<bool> {
        let from = self.cursor;
        self.cursor += n;
        self.packet[from..self.cursor].to_vec()
    }

    /// Bits of a type without varbit fields.
    fn size(&self, ty: &Ty) -> usize {
        match ty {
            Ty::Struct(_) | Ty::Header(_) | Ty::Tuple(_) => {
                self.p.fields(ty).iter().map(|t| self.size(t)).sum()
            }
            Ty::Varbit(_) => 0,
            other => self.p.width(other) as usize,
        }
    }

    /// Takes a value from the packet.
    pub(super) fn take(&mut self, ty: &Ty) -> R<V> {
        self.need(self.size(ty))?;
        Ok(self.read(ty, 0))
    }

    /// `varbit`: width of the varbit field, if there is one.
    fn read(&mut self, ty: &Ty, varbit: usize) -> V {
        match ty {
            Ty::Header(_) => {
                V::Header(true, self.p.fields(ty).iter().map(|t| self.read(t, varbit)).collect())
            }
            Ty::Struct(_) | Ty::Tuple(_) => {
                V::Parts(self.p.fields(ty).iter().map(|t| self.read(t, varbit)).collect())
            }
            Ty::Varbit(_) => V::Varbit(self.bits(varbit)),
            Ty::Bool => V::Bool(self.bits(1)[0]),
            other => {
                let ty = self.p.repr(other).clone();
                let bits = self.bits(self.p.width(&ty) as usize);
                V::Num(from_bits(&ty, &bits))
            }
        }
    }

    pub(super) fn extract(&mut self, place: &Place, bits: Option<&Expr>) -> R<()> {
        let spot = self.locate(place)?;
        let varbit = match bits {
            None => 0,
            Some(e) => {
                let n = self.expr(e)?;
                usize::try_from(n.num()?).unwrap_or(usize::MAX)
            }
        };
        if varbit % 8 != 0 {
            return Err(Stop::Reject(INVALID_ARGUMENT));
        }
        self.need(self.size(&place.ty).saturating_add(varbit))?;
        let most = self
            .p
            .fields(&place.ty)
            .iter()
            .find_map(|t| if let Ty::Varbit(w) = t { Some(*w as usize) } else { None });
        if most.is_some_and(|m| varbit > m) {
            return Err(Stop::Reject(HEADER_TOO_SHORT));
        }
        let value = self.read(&place.ty, varbit);
        self.store(&spot, value)?;
        if let Some(depth) = spot.next_of {
            let stack = Spot { path: spot.path[..depth].to_vec(), next_of: None, ..spot.clone() };
            if let V::Stack(next, elems) = self.at(&stack).clone() {
                self.store(&stack, V::Stack(next + 1, elems))?;
            }
        }
        Ok(())
    }

    pub(super) fn advance(&mut self, e: &Expr) -> R<()> {
        let n = self.expr(e)?;
        let n = usize::try_from(n.num()?).unwrap_or(usize::MAX);
        if n % 8 != 0 {
            return Err(Stop::Reject(INVALID_ARGUMENT));
        }
        self.need(n)?;
        self.cursor += n;
        Ok(())
    }

    /// Appends valid headers.
    pub(super) fn emit(&mut self, ty: &Ty, v: &V) -> R<()> {
        match (ty, v) {
            (Ty::Header(_), V::Header(true, fields)) => {
                for (t, f) in self.p.fields(ty).iter().zip(fields) {
                    match f {
                        V::Varbit(bits) => self.emitted.extend(bits),
                        V::Bool(b) => self.emitted.push(*b),
                        f => self.emitted.extend(to_bits(self.p.width(t), f.num()?)),
                    }
                }
            }
            (Ty::Stack(elem, _), V::Stack(_, elems)) => {
                for e in elems {
                    self.emit(elem, e)?;
                }
            }
            (Ty::Struct(_) | Ty::Union(_), V::Parts(parts) | V::Union(parts)) => {
                for (t, part) in self.p.fields(ty).iter().zip(parts) {
                    self.emit(t, part)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
