//! Parsers: states, selection, extraction (P4_16 section 13).

use crate::bitio;
use crate::eval::compare;
use crate::place::{Place, Scope};
use crate::run::{Outcome, Run, Stop, returned};
use crate::values::{self, bits, equal};
use pointsman_ir::trace::{Named, Traced};
use pointsman_ir::{
    Bits, Expr, KeySet, LValue, ParserId, SelectCase, State, StateRef, Transition, Type, TypeId, Value,
    ValueSetId,
};
use smallvec::SmallVec;
use std::borrow::Cow;

impl<'a> Run<'a> {
    /// Runs a parser in its frame, up to `accept` or `reject`.
    pub(crate) fn parser(&mut self, id: ParserId, frame: &mut [Value]) -> Outcome {
        let parser = &self.program.parsers[id.index()];
        let mut scope = Scope { local: frame, outer: &mut [], in_action: false };
        returned(self.block(&mut scope, &parser.init))?;
        let mut at = 0;
        loop {
            let Some(left) = self.transitions_left.checked_sub(1) else {
                return Err(Stop::Reject(self.eval.errors.parser_timeout));
            };
            self.transitions_left = left;
            let Some(state) = parser.states.get(at as usize) else { return Ok(()) };
            if self.tracing {
                self.tell(state.span, Traced::State(id, at));
            }
            returned(self.block(&mut scope, &state.body))?;
            let (next, case) = match &state.transition {
                Transition::Goto(next) => (*next, None),
                Transition::Select { on, cases } => match self.select(&scope, on, cases) {
                    Ok((next, case)) => (next, Some(case)),
                    Err(stop) => {
                        if let (true, Stop::Reject(error)) = (self.tracing, stop) {
                            self.tell(state.span, Traced::ParserError(error));
                        }
                        return Err(stop);
                    }
                },
            };
            if self.tracing {
                self.tell_transition(&scope, id, state, case, next);
            }
            match next {
                StateRef::State(i) => at = i,
                StateRef::Accept => return Ok(()),
                // `transition reject` without an error: the error stays `NoError`.
                StateRef::Reject => return Err(Stop::Reject(0)),
            }
        }
    }

    /// Reports the next state and the reason.
    fn tell_transition(
        &mut self,
        scope: &Scope<'_>,
        parser: ParserId,
        state: &'a State,
        case: Option<u32>,
        next: StateRef,
    ) {
        let exprs: &[Expr] = match &state.transition {
            Transition::Goto(_) => &[],
            Transition::Select { on, .. } => on,
        };
        let value = |e: &Expr| {
            let value = self.eval.expr(scope, e).map_or(Value::Void, |v| v.into_owned());
            Named { name: String::new(), ty: e.ty, value }
        };
        let on = exprs.iter().map(value).collect();
        let span = exprs.first().map_or(state.span, |e| e.span);
        self.tell(span, Traced::Transition { parser, on, case, next });
    }

    fn select(
        &mut self,
        scope: &Scope<'_>,
        on: &[Expr],
        cases: &[SelectCase],
    ) -> Result<(StateRef, u32), Stop> {
        let mut values: SmallVec<[(Cow<'_, Value>, TypeId); 4]> = SmallVec::new();
        for e in on {
            values.push((self.eval.expr(scope, e)?, e.ty));
        }
        for (i, case) in cases.iter().enumerate() {
            if self.case_matches(scope, &values, &case.keys)? {
                return Ok((case.next, i as u32));
            }
        }
        Err(Stop::Reject(self.eval.errors.no_match))
    }

    fn case_matches(
        &self,
        scope: &Scope<'_>,
        values: &[(Cow<'_, Value>, TypeId)],
        keys: &[KeySet],
    ) -> Result<bool, Stop> {
        let mut rest = values;
        for key in keys {
            let width = match key {
                KeySet::ValueSet(set) => self.value_set_fields(*set),
                _ => 1,
            };
            let Some((these, others)) = rest.split_at_checked(width) else { return Ok(false) };
            rest = others;
            let matches = match key {
                KeySet::ValueSet(set) => self.in_value_set(*set, these),
                _ => match these.first() {
                    Some((value, ty)) => self.key_matches(scope, value, *ty, key)?,
                    None => false,
                },
            };
            if !matches {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn key_matches(&self, scope: &Scope<'_>, value: &Value, ty: TypeId, key: &KeySet) -> Result<bool, Stop> {
        let both = |a: &Expr, b: &Expr| -> Result<_, Stop> {
            Ok((self.eval.expr(scope, a)?.into_owned(), self.eval.expr(scope, b)?.into_owned()))
        };
        Ok(match key {
            KeySet::Any => true,
            KeySet::Value(e) => equal(value, &*self.eval.expr(scope, e)?),
            KeySet::Mask(v, m) => {
                let (v, m) = both(v, m)?;
                match (bits(value), bits(&v), bits(&m)) {
                    (Some(x), Some(v), Some(m)) => x.and(m) == v.and(m),
                    _ => false,
                }
            }
            KeySet::Range(lo, hi) => {
                let (lo, hi) = both(lo, hi)?;
                let signed = self.eval.signed(ty);
                match (bits(value), bits(&lo), bits(&hi)) {
                    (Some(x), Some(lo), Some(hi)) => {
                        compare(signed, lo, x).is_le() && compare(signed, x, hi).is_le()
                    }
                    _ => false,
                }
            }
            KeySet::ValueSet(_) => false,
        })
    }

    /// How many expressions of a select a value set covers.
    fn value_set_fields(&self, set: ValueSetId) -> usize {
        let elem = self.program.value_sets[set.index()].elem;
        match self.program.types.repr_type(elem) {
            Type::Struct(d) => d.fields.len(),
            Type::Tuple(t) => t.len(),
            _ => 1,
        }
    }

    fn in_value_set(&self, set: ValueSetId, values: &[(Cow<'_, Value>, TypeId)]) -> bool {
        let values: SmallVec<[Option<Bits>; 4]> = values.iter().map(|(v, _)| v.to_bits()).collect();
        self.env.value_set(set).iter().any(|member| {
            member.len() == values.len()
                && member.iter().zip(&values).all(|(m, v)| v.as_ref().is_some_and(|v| m.matches(v)))
        })
    }

    /// Bits of the packet that are left.
    fn left(&self) -> usize {
        self.packet.len() * 8 - self.position
    }

    /// `extract`. A stack is advanced when the header was its `next`.
    pub(crate) fn extract(
        &mut self,
        scope: &mut Scope<'_>,
        header: &LValue,
        varbits: Option<&Expr>,
    ) -> Outcome {
        let errors = self.eval.errors;
        let place = Place::resolve(self.eval, scope, header)?;
        let size = self.interp.size(header.ty);
        let varbits = match varbits {
            Some(e) => self.eval.count(scope, e)?,
            None => 0,
        };
        // Allowed by P4_16 section 13.8.2, and what v1model programs expect.
        if !varbits.is_multiple_of(8) {
            return Err(Stop::Reject(errors.parser_invalid_argument));
        }
        if self.left() < size.fixed + varbits as usize {
            return Err(Stop::Reject(errors.packet_too_short));
        }
        if varbits as usize > size.varbit {
            return Err(Stop::Reject(errors.header_too_short));
        }
        if let Some(place) = place {
            let (packet, at) = (self.packet, self.position);
            place.update(scope, |v| {
                values::unpack(v, packet, at, varbits);
            });
            place.advance_next(scope);
        }
        self.position += size.fixed + varbits as usize;
        Ok(())
    }

    pub(crate) fn lookahead(&mut self, scope: &mut Scope<'_>, lv: &LValue) -> Outcome {
        let width = self.interp.size(lv.ty).fixed;
        if self.left() < width {
            return Err(Stop::Reject(self.eval.errors.packet_too_short));
        }
        let value = match self.program.types.repr_type(lv.ty) {
            Type::Bit(w) | Type::Int(w) => Value::Bits(bitio::read(self.packet, self.position, *w)),
            _ => {
                let mut value = Value::default_of(&self.program.types, lv.ty);
                values::unpack(&mut value, self.packet, self.position, 0);
                value
            }
        };
        self.store(scope, lv, value)
    }

    pub(crate) fn advance(&mut self, scope: &mut Scope<'_>, by: &Expr) -> Outcome {
        let by = self.eval.count(scope, by)? as usize;
        if !by.is_multiple_of(8) {
            return Err(Stop::Reject(self.eval.errors.parser_invalid_argument));
        }
        if self.left() < by {
            return Err(Stop::Reject(self.eval.errors.packet_too_short));
        }
        self.position += by;
        Ok(())
    }
}
