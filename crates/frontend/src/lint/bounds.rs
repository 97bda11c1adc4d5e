//! The largest values that variables and fields can have at one point of a program, as far as indices need them.
//!
//! What the control plane chooses (the data of actions, exact keys of the entry that matched), what registers keep, what the architecture
//! passes in, and the arguments of code that is looked at by itself count as 0: their owner bounds them.

use super::state::Place;
use super::valid::Names;
use crate::ast::{BinaryOp, UnaryOp};
use crate::check::eval::Const;
use crate::check::tree::{Arg, Call, Callee, Expr, ExprKind, KeySet, Sig, Tree};
use crate::check::types::{Kind, Ty};
use pointsman_ir::MatchKind;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Nothing is known: the type alone bounds the value.
pub const ANY: u128 = u128::MAX;

/// Upper bounds of places; one counts for all inside it that have none of their own. Every branch of a program has a copy, most of
/// them equal: they share the map until one of them changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds(Rc<BTreeMap<Place, u128>>);

/// What is needed to understand expressions.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub tree: &'a Tree,
    pub names: &'a Names,
    /// The left side of the assignment that the expression is the right side of.
    pub target: Option<&'a Expr>,
}

impl Context<'_> {
    /// The largest value of a type.
    fn most(&self, ty: Ty) -> u128 {
        match self.tree.tys.get(self.tree.repr(ty)) {
            Kind::Bits { width, .. } if *width < 128 => (1 << width) - 1,
            Kind::Bool => 1,
            _ => ANY,
        }
    }

    fn is_signed(&self, ty: Ty) -> bool {
        matches!(self.tree.tys.get(self.tree.repr(ty)), Kind::Bits { signed: true, .. })
    }

    /// Where the value of `e` is kept, parameters resolved.
    pub fn place(&self, e: &Expr) -> Option<Place> {
        match &e.kind {
            ExprKind::Var(v) => Some(self.names.place(*v)),
            ExprKind::Target => self.place(self.target?),
            ExprKind::Field(b, i) => {
                let mut p = self.place(b)?;
                p.fields.push(*i);
                Some(p)
            }
            // Casts that change no value.
            ExprKind::Cast(b) if !self.is_signed(b.ty) && self.most(e.ty) >= self.most(b.ty) => self.place(b),
            _ => None,
        }
    }
}

impl Bounds {
    fn of_place(&self, place: &Place) -> u128 {
        let mut outer = place.clone();
        loop {
            if let Some(max) = self.0.get(&outer) {
                return *max;
            }
            if outer.fields.pop().is_none() {
                return ANY;
            }
        }
    }

    /// The place and all inside it that have bounds of their own, in order.
    fn inside(&self, place: &Place) -> impl Iterator<Item = (&Place, u128)> {
        let from = self.0.range(place..);
        from.take_while(move |(p, _)| p.var == place.var && p.fields.starts_with(&place.fields))
            .map(|(p, max)| (p, *max))
    }

    /// The place, with all inside it, is `max` at most.
    pub fn set(&mut self, place: Place, max: u128) {
        let old: Vec<Place> = self.inside(&place).map(|(p, _)| p.clone()).collect();
        if old.is_empty() && self.of_place(&place) == max || old == [place.clone()] && self.0[&place] == max {
            return;
        }
        let map = Rc::make_mut(&mut self.0);
        for p in &old {
            map.remove(p);
        }
        if self.of_place(&place) != max {
            Rc::make_mut(&mut self.0).insert(place, max);
        }
    }

    /// The place becomes a constant, perhaps one of many parts.
    fn fill(&mut self, place: Place, value: &Const) {
        match value {
            Const::Tuple(parts) | Const::Header(parts) => {
                self.set(place.clone(), 0);
                for (part, i) in parts.iter().zip(0..) {
                    let fields = place.fields.iter().copied().chain([i]).collect();
                    self.fill(Place { var: place.var, fields }, part);
                }
            }
            _ => self.set(place, constant(value).unwrap_or(ANY)),
        }
    }

    /// `to` becomes `from`.
    pub fn assign(&mut self, to: Place, from: &Expr, context: Context<'_>) {
        let inner = |i: u32| Place { var: to.var, fields: to.fields.iter().copied().chain([i]).collect() };
        match &from.kind {
            ExprKind::Aggregate(parts) => {
                self.set(to.clone(), 0);
                parts.iter().for_each(|(i, part)| self.assign(inner(*i), part, context));
            }
            ExprKind::Default => self.set(to, 0),
            ExprKind::Const(c) => self.fill(to, c),
            _ => {
                let max = self.of(from, context);
                let moved = |p: &Place, depth: usize| {
                    let fields = to.fields.iter().chain(&p.fields[depth..]).copied().collect();
                    Place { var: to.var, fields }
                };
                let parts: Vec<(Place, u128)> = context.place(from).map_or(Vec::new(), |from| {
                    let inside = self.inside(&from).filter(|(p, _)| **p != from);
                    inside.map(|(p, max)| (moved(p, from.fields.len()), max)).collect()
                });
                self.set(to, max);
                parts.into_iter().for_each(|(p, max)| self.set(p, max));
            }
        }
    }

    /// The largest value of an expression. Subtractions are taken as not wrapping around.
    pub fn of(&self, e: &Expr, context: Context<'_>) -> u128 {
        let most = context.most(e.ty);
        let of = |e: &Expr| self.of(e, context);
        let max = match &e.kind {
            ExprKind::Const(c) => return constant(c).unwrap_or(most),
            ExprKind::Var(_) | ExprKind::Field(..) | ExprKind::Target => {
                context.place(e).map_or(ANY, |p| self.of_place(&p))
            }
            ExprKind::Cast(b) if context.is_signed(b.ty) => ANY,
            ExprKind::Cast(b) => of(b),
            ExprKind::Slice(b, _, low) => shr(of(b), u128::from(*low)),
            ExprKind::LastIndex(b) => match context.tree.tys.get(b.ty) {
                Kind::Stack(_, n) => u128::from(*n).saturating_sub(1),
                _ => ANY,
            },
            ExprKind::Mux(c, a, b) => {
                let way = |holds, e| {
                    let mut way = self.clone();
                    way.assume(c, holds, context);
                    way.of(e, context)
                };
                way(true, a).max(way(false, b))
            }
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, context),
            ExprKind::Call(c) => self.call(c, context),
            _ => ANY,
        };
        if max > most || context.is_signed(e.ty) { most } else { max }
    }

    fn binary(&self, op: BinaryOp, a: &Expr, b: &Expr, context: Context<'_>) -> u128 {
        let (x, y) = (self.of(a, context), self.of(b, context));
        match op {
            BinaryOp::Add | BinaryOp::SatAdd => x.saturating_add(y),
            // Most programs subtract what they know to be smaller: a warning of all that might wrap around would be noise.
            BinaryOp::Sub | BinaryOp::SatSub => x,
            BinaryOp::Mul => x.saturating_mul(y),
            BinaryOp::Div => known(b).filter(|n| *n > 0).map_or(x, |n| x / n),
            BinaryOp::Mod => x.min(y.saturating_sub(1)),
            BinaryOp::BitAnd => x.min(y),
            BinaryOp::BitOr | BinaryOp::BitXor => ones(x.max(y)),
            BinaryOp::Shl => known(b).map_or(ANY, |n| shl(x, n)),
            BinaryOp::Shr => known(b).map_or(x, |n| shr(x, n)),
            BinaryOp::Concat => {
                context.tree.tys.bits(b.ty).map_or(ANY, |(w, _)| shl(x, w.into()).saturating_add(y))
            }
            _ => ANY,
        }
    }

    /// What a call returns, or writes to its `out` parameters, if the code that it calls is not followed.
    pub fn call(&self, c: &Call, context: Context<'_>) -> u128 {
        match &c.callee {
            Callee::Function(_) | Callee::Action(_) | Callee::Block(_) => 0,
            Callee::ExternFn(f) => self.limit(&context.tree.extern_fns[*f], &c.args, context).unwrap_or(ANY),
            Callee::Method(_, object, method) => self.result(*object, *method, &c.args, context),
            _ => ANY,
        }
    }

    fn result(&self, object: usize, method: usize, args: &[Arg], context: Context<'_>) -> u128 {
        let sig = &context.tree.externs[object].methods[method];
        match sig.params.iter().any(|p| p.name == "index") {
            // A register: what is in it was bounded when it was written.
            true => 0,
            false => self.limit(sig, args, context).unwrap_or(ANY),
        }
    }

    /// The largest result of an extern that takes it as an argument: `base` and `max`, the number of results, of hashes;
    /// `hi` of random numbers.
    fn limit(&self, sig: &Sig, args: &[Arg], context: Context<'_>) -> Option<u128> {
        let argument = |name: &str| {
            let at = sig.params.iter().position(|p| p.name == name)?;
            match args.get(at)? {
                Arg::In(e) => Some(self.of(e, context)),
                _ => None,
            }
        };
        let hash = || Some(argument("base")?.saturating_add(argument("max")?.saturating_sub(1)));
        argument("hi").or_else(hash)
    }

    /// Only values for which `cond` is true, or false, come here.
    pub fn assume(&mut self, cond: &Expr, holds: bool, context: Context<'_>) {
        match &cond.kind {
            ExprKind::Unary(UnaryOp::Not, e) => self.assume(e, !holds, context),
            ExprKind::Hit { table, negate } if holds != *negate => self.matched(*table, context),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                if holds == (*op == BinaryOp::And) {
                    self.assume(a, holds, context);
                    return self.assume(b, holds, context);
                }
                let mut other = self.clone();
                other.assume(a, holds, context);
                self.assume(a, !holds, context);
                self.assume(b, holds, context);
                self.join(&other);
            }
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (&**a, &**b);
                match (op, holds) {
                    (BinaryOp::Lt, true) | (BinaryOp::Ge, false) => self.below(a, b, 1, context),
                    (BinaryOp::Le, true) | (BinaryOp::Gt, false) => self.below(a, b, 0, context),
                    (BinaryOp::Gt, true) | (BinaryOp::Le, false) => self.below(b, a, 1, context),
                    (BinaryOp::Ge, true) | (BinaryOp::Lt, false) => self.below(b, a, 0, context),
                    (BinaryOp::Eq, true) | (BinaryOp::Ne, false) => {
                        self.below(a, b, 0, context);
                        self.below(b, a, 0, context);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// `a` plus `less` is `b` at most.
    fn below(&mut self, a: &Expr, b: &Expr, less: u128, context: Context<'_>) {
        let max = self.of(b, context).saturating_sub(less);
        self.cut(a, max, context);
    }

    /// `e` is `max` at most.
    pub fn cut(&mut self, e: &Expr, max: u128, context: Context<'_>) {
        if let Some(place) = context.place(e)
            && !context.is_signed(e.ty)
            && self.of(e, context) > max
        {
            self.set(place, max);
        }
    }

    /// A table has an entry for the packet: what it matches exactly is a value that the control plane knows.
    pub fn matched(&mut self, table: usize, context: Context<'_>) {
        let keys = context.tree.tables[table].keys.iter();
        keys.filter(|k| k.kind == MatchKind::Exact).for_each(|k| self.cut(&k.expr, 0, context));
    }

    /// `e` is in one of these sets.
    pub fn select<'k>(&mut self, e: &Expr, keys: impl Iterator<Item = &'k KeySet>, context: Context<'_>) {
        let most = context.most(e.ty);
        let largest = |k: &KeySet| match k {
            KeySet::Value(v) | KeySet::Range(_, v) => self.of(v, context),
            KeySet::Mask(v, mask) => match (known(v), known(mask)) {
                (Some(v), Some(mask)) => v & mask | most & !mask,
                _ => ANY,
            },
            KeySet::Any => ANY,
            // The control plane fills it.
            KeySet::ValueSet(_) => 0,
        };
        let max = keys.map(largest).max().unwrap_or(ANY);
        self.cut(e, max, context);
    }

    /// Two paths meet.
    pub fn join(&mut self, other: &Bounds) {
        if Rc::ptr_eq(&self.0, &other.0) {
            return;
        }
        let mut changed = Vec::new();
        for p in self.0.keys().chain(other.0.keys()) {
            let max = self.of_place(p).max(other.of_place(p));
            let told = (max != ANY || !p.fields.is_empty()).then_some(max);
            if told != self.0.get(p).copied() {
                changed.push((p.clone(), told));
            }
        }
        for (place, told) in changed {
            let map = Rc::make_mut(&mut self.0);
            match told {
                Some(max) => map.insert(place, max),
                None => map.remove(&place),
            };
        }
    }

    /// What still grows, compared with `before`, is taken as unbounded: a loop may repeat it.
    pub fn widen(&mut self, before: &Bounds) {
        let grown: Vec<Place> =
            self.0.iter().filter(|(p, max)| **max > before.of_place(p)).map(|(p, _)| p.clone()).collect();
        for place in grown {
            Rc::make_mut(&mut self.0).insert(place, ANY);
        }
    }
}

fn constant(c: &Const) -> Option<u128> {
    match c {
        Const::Int(n) => u128::try_from(n).ok(),
        Const::Bits(b) => b.to_u128(),
        _ => None,
    }
}

/// The value of a constant.
pub fn known(e: &Expr) -> Option<u128> {
    match &e.kind {
        ExprKind::Const(c) => constant(c),
        ExprKind::Cast(b) => known(b),
        _ => None,
    }
}

/// As many ones as `x` has bits.
fn ones(x: u128) -> u128 {
    shr(ANY, x.leading_zeros().into())
}

fn shr(x: u128, by: u128) -> u128 {
    u32::try_from(by).ok().and_then(|n| x.checked_shr(n)).unwrap_or(0)
}

fn shl(x: u128, by: u128) -> u128 {
    match u32::try_from(by) {
        _ if x == 0 => 0,
        Ok(n) if n <= x.leading_zeros() => x << n,
        _ => ANY,
    }
}
