//! Statements, calls and controls.

use super::expr::{Spot, invalidate, parts_mut};
use super::value::{binary, fresh, zero};
use super::{R, Reference, Stop, V};
use crate::generate::tree::*;
use num_bigint::BigInt;

impl Reference<'_> {
    /// Statements in order.
    pub(super) fn body(&mut self, body: &[Stmt]) -> R<()> {
        body.iter().try_for_each(|s| self.stmt(s))
    }

    /// A round of a loop; false: the loop is to end.
    fn round(&mut self, body: &[Stmt]) -> R<bool> {
        self.tick()?;
        match self.body(body) {
            Ok(()) | Err(Stop::Continue) => Ok(true),
            Err(Stop::Break) => Ok(false),
            Err(other) => Err(other),
        }
    }

    pub(super) fn declare(&mut self, v: VarId, e: &Option<Expr>) -> R<()> {
        self.vars[v] = match e {
            Some(e) => self.expr(e)?,
            None => fresh(self.p, &self.p.vars[v]),
        };
        Ok(())
    }

    fn stmt(&mut self, s: &Stmt) -> R<()> {
        self.tick()?;
        match s {
            Stmt::Declare(v, e) => self.declare(*v, e),
            Stmt::Assign(place, e) => {
                let spot = self.locate(place)?;
                let value = self.expr(e)?;
                self.store(&spot, value)
            }
            Stmt::AssignSlice(place, hi, lo, e) => {
                let spot = self.locate(place)?;
                let value = self.expr(e)?;
                self.store_slice(&spot, &place.ty, *hi, *lo, value.num()?)
            }
            Stmt::Update(op, place, e) => self.update(*op, place, e),
            Stmt::If(c, a, b) => {
                let chosen = if self.truth(c)? { a } else { b };
                self.body(chosen)
            }
            Stmt::Block(b) => self.body(b),
            Stmt::Switch(e, cases, default) => self.switch_value(e, cases, default),
            Stmt::SwitchAction(t, cases, default) => {
                let (_, ran) = self.table(*t)?;
                let found = cases.iter().position(|(action, _)| *action == ran);
                self.switch(found, cases.iter().map(|c| &c.1), default)
            }
            Stmt::ForCount(v, end, body) => self.count_to(*v, end, body),
            Stmt::ForRange(v, lo, hi, body) => self.range(*v, (lo, hi), body),
            Stmt::ForList(v, list, body) => {
                let values = list.iter().map(|e| self.expr(e)).collect::<R<Vec<V>>>()?;
                self.each(*v, values, body)
            }
            Stmt::ForStack(v, place, body) => {
                let spot = self.locate(place)?;
                match self.load(&spot)? {
                    V::Stack(_, elems) => self.each(*v, elems, body),
                    _ => Ok(()),
                }
            }
            Stmt::Break => Err(Stop::Break),
            Stmt::Continue => Err(Stop::Continue),
            Stmt::Return(e) => Err(Stop::Return(e.as_ref().map(|e| self.expr(e)).transpose()?)),
            Stmt::Exit => Err(Stop::Exit),
            Stmt::Call(f, args) => self.call(&self.p.functions[*f], args, &[]).map(drop),
            Stmt::Action(a, args) => {
                let action = &self.p.controls[self.control].actions[*a];
                self.call(action, args, &[]).map(drop)
            }
            Stmt::Table(t) => self.table(*t).map(drop),
            Stmt::Control(i, args) => {
                let (control, values) = &self.p.controls[self.control].instances[*i];
                self.control(*control, values, args)
            }
            Stmt::SetValid(place, valid) => self.set_valid(place, *valid),
            Stmt::Push(place, n) => self.shift(place, *n as usize, true),
            Stmt::Pop(place, n) => self.shift(place, *n as usize, false),
            Stmt::RegisterRead(r, place, i) => self.read_register(*r, place, i),
            Stmt::RegisterWrite(r, i, e) => self.write_register(*r, i, e),
            Stmt::Count(c, i) => self.count(*c, i),
            Stmt::Extract(place, bits) => self.extract(place, bits.as_ref()),
            Stmt::Advance(e) => self.advance(e),
            Stmt::Verify(e, error) => self.truth(e)?.then_some(()).ok_or(Stop::Reject(*error)),
            Stmt::Parser(i, args) => self.parser(*i, args),
            Stmt::Emit(place) => {
                let spot = self.locate(place)?;
                let v = self.at(&spot).clone();
                self.emit(&place.ty, &v)
            }
        }
    }

    fn update(&mut self, op: Binary, place: &Place, e: &Expr) -> R<()> {
        let spot = self.locate(place)?;
        let old = self.load(&spot)?;
        let value = self.expr(e)?;
        let new = binary(op, self.p.repr(&place.ty), self.p.repr(&e.ty), &old, &value)?;
        self.store(&spot, new)
    }

    /// All labels are evaluated; the last of equal ones counts.
    fn switch_value(
        &mut self,
        on: &Expr,
        cases: &[(Expr, Option<Vec<Stmt>>)],
        default: &Option<Vec<Stmt>>,
    ) -> R<()> {
        let value = self.expr(on)?;
        let mut found = None;
        for (i, (label, _)) in cases.iter().enumerate() {
            if self.expr(label)? == value {
                found = Some(i);
            }
        }
        self.switch(found, cases.iter().map(|c| &c.1), default)
    }

    fn count_to(&mut self, v: VarId, end: &Expr, body: &[Stmt]) -> R<()> {
        self.vars[v] = V::Num(BigInt::ZERO);
        loop {
            self.tick()?;
            let i = self.vars[v].num()?.clone();
            if i >= *self.expr(end)?.num()? || !self.round(body)? {
                return Ok(());
            }
            let i = self.vars[v].num()? + 1;
            self.vars[v] = V::Num(super::value::wrap(&self.p.vars[v], &i));
        }
    }

    fn range(&mut self, v: VarId, (lo, hi): (&Expr, &Expr), body: &[Stmt]) -> R<()> {
        let mut i = self.expr(lo)?.num()?.clone();
        let hi = self.expr(hi)?.num()?.clone();
        while i <= hi {
            self.vars[v] = V::Num(i.clone());
            if !self.round(body)? {
                break;
            }
            i += 1;
        }
        Ok(())
    }

    fn read_register(&mut self, register: usize, place: &Place, index: &Expr) -> R<()> {
        let spot = self.locate(place)?;
        let i = self.expr(index)?;
        let cells = &self.registers[self.control][register];
        let cell = usize::try_from(i.num()?).ok().and_then(|i| cells.get(i));
        let value = cell.map_or(V::Unknown, |n| V::Num(n.clone()));
        self.store(&spot, value)
    }

    fn write_register(&mut self, register: usize, index: &Expr, e: &Expr) -> R<()> {
        let i = self.expr(index)?;
        let value = self.expr(e)?.num()?.clone();
        let cells = &mut self.registers[self.control][register];
        if let Some(cell) = usize::try_from(i.num()?).ok().and_then(|i| cells.get_mut(i)) {
            *cell = value;
        }
        Ok(())
    }

    fn count(&mut self, counter: usize, index: &Expr) -> R<()> {
        let i = self.expr(index)?;
        let cells = &mut self.counters[self.control][counter];
        if let Some(cell) = usize::try_from(i.num()?).ok().and_then(|i| cells.get_mut(i)) {
            *cell += 1;
        }
        Ok(())
    }

    fn switch<'b>(
        &mut self,
        found: Option<usize>,
        bodies: impl Iterator<Item = &'b Option<Vec<Stmt>>>,
        default: &Option<Vec<Stmt>>,
    ) -> R<()> {
        // Labels without a block share the next one, if need be the default one.
        let body = found.and_then(|i| bodies.skip(i).flatten().next());
        body.or(default.as_ref()).map_or(Ok(()), |body| self.body(body))
    }

    fn each(&mut self, v: VarId, values: Vec<V>, body: &[Stmt]) -> R<()> {
        for value in values {
            self.vars[v] = value;
            if !self.round(body)? {
                break;
            }
        }
        Ok(())
    }

    /// A header that was invalid starts with zeros, as in BMv2.
    fn set_valid(&mut self, place: &Place, valid: bool) -> R<()> {
        let spot = self.locate(place)?;
        if !spot.exists {
            return Ok(());
        }
        let fields = self.p.fields(&place.ty).iter().map(|t| zero(self.p, t)).collect();
        let mut v = &mut self.vars[spot.root];
        for (depth, i) in spot.path.iter().enumerate() {
            let last = depth + 1 == spot.path.len();
            if let V::Union(headers) = v
                && valid
                && last
            {
                // The others become invalid.
                headers.iter_mut().enumerate().filter(|(k, _)| k != i).for_each(|(_, h)| invalidate(h));
            }
            v = &mut parts_mut(v)[*i];
        }
        match v {
            V::Header(true, _) if valid => {}
            other if valid => *other = V::Header(true, fields),
            other => invalidate(other),
        }
        Ok(())
    }

    /// `push_front` and `pop_front`, as the specification's pseudo-code.
    fn shift(&mut self, place: &Place, n: usize, push: bool) -> R<()> {
        let spot = self.locate(place)?;
        let V::Stack(mut next, old) = self.load(&spot)? else { return Ok(()) };
        let size = old.len();
        let Ty::Stack(elem, _) = &place.ty else { return Ok(()) };
        let none = fresh(self.p, elem);
        let from = |i: usize| if push { i.checked_sub(n) } else { Some(i + n).filter(|k| *k < size) };
        let elems = (0..size).map(|i| from(i).map_or_else(|| none.clone(), |k| old[k].clone())).collect();
        next = if push { (next + n).min(size) } else { next.saturating_sub(n) };
        self.store(&spot, V::Stack(next, elems))
    }

    /// Copy-in, code, copy-out (P4_16 section 6.8). `data`: parameters without direction, from a table's entry.
    pub(super) fn call(&mut self, c: &Callable, args: &[Arg], data: &[BigInt]) -> R<Option<V>> {
        let spots = self.copy_in(&c.params, args)?;
        let free = c.params.iter().skip(args.len());
        for ((_, v), n) in free.zip(data) {
            self.vars[*v] = match self.p.vars[*v] {
                Ty::Bool => V::Bool(*n != BigInt::ZERO),
                _ => V::Num(n.clone()),
            };
        }
        let result = self.body(&c.body);
        self.copy_out(&spots)?;
        match result {
            Ok(()) => Ok(None),
            Err(Stop::Return(v)) => Ok(v),
            Err(other) => Err(other),
        }
    }

    /// Evaluates arguments from left to right and sets the parameters; returns the spots to copy back to.
    pub(super) fn copy_in(&mut self, params: &[(Dir, VarId)], args: &[Arg]) -> R<Vec<(Spot, VarId)>> {
        let (mut values, mut spots) = (Vec::new(), Vec::new());
        for ((dir, v), arg) in params.iter().zip(args) {
            values.push(match arg {
                Arg::In(e) => self.expr(e)?,
                Arg::Out(place) => {
                    let spot = self.locate(place)?;
                    let value = match dir {
                        Dir::Out => fresh(self.p, &self.p.vars[*v]),
                        _ => self.load(&spot)?,
                    };
                    spots.push((spot, *v));
                    value
                }
            });
        }
        for ((_, v), value) in params.iter().zip(values) {
            self.vars[*v] = value;
        }
        Ok(spots)
    }

    pub(super) fn copy_out(&mut self, spots: &[(Spot, VarId)]) -> R<()> {
        spots.iter().try_for_each(|(spot, v)| self.store(spot, self.vars[*v].clone()))
    }

    /// Runs a control: of the architecture, or an instance with the values of its constructor.
    pub(super) fn control(&mut self, index: usize, values: &[BigInt], args: &[Arg]) -> R<()> {
        let c = &self.p.controls[index];
        let spots = self.copy_in(&c.params, args)?;
        for (v, n) in c.constructor.iter().zip(values) {
            self.vars[*v] = V::Num(n.clone());
        }
        let outer = std::mem::replace(&mut self.control, index);
        let locals = c.locals.iter().try_for_each(|(v, e)| self.declare(*v, e));
        let result = locals.and_then(|()| self.body(&c.body));
        self.control = outer;
        self.copy_out(&spots)?;
        match result {
            Err(Stop::Return(_)) => Ok(()),
            other => other,
        }
    }
}
