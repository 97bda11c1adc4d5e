//! Tables (P4_16 section 14.2).

use super::value::pattern;
use super::{R, Reference, Stop, V};
use crate::generate::print::prefix_mask;
use crate::generate::tree::*;
use num_bigint::BigInt;

/// Whether `value`, of `width` bits, matches.
pub(super) fn matches(
    m: &Match,
    width: u32,
    signed: bool,
    value: &BigInt,
    sets: &[(u32, Vec<BigInt>)],
) -> bool {
    // Masks look at bits; ranges at numbers.
    let bits = |n: &BigInt| if signed { pattern(width, n) } else { n.clone() };
    match m {
        Match::Any => true,
        Match::Value(v) => v == value,
        Match::Mask(v, mask) => bits(v) & bits(mask) == bits(value) & bits(mask),
        Match::Prefix(v, len) => {
            let mask = prefix_mask(width, *len);
            bits(v) & &mask == bits(value) & &mask
        }
        Match::Range(a, b) => a <= value && value <= b,
        Match::Set(i) => sets[*i].1.contains(value),
    }
}

/// The number that a key or a select looks at.
pub(super) fn key(v: &V) -> R<BigInt> {
    match v {
        V::Bool(b) => Ok(BigInt::from(u8::from(*b))),
        V::Num(n) => Ok(n.clone()),
        _ => Err(Stop::Undefined("a key that was never set")),
    }
}

impl Reference<'_> {
    /// `apply()`: was there a hit, and which of the table's actions ran?
    pub(super) fn table(&mut self, index: usize) -> R<(bool, usize)> {
        let control = &self.p.controls[self.control];
        let t = &control.tables[index];
        let mut keys = Vec::new();
        for (e, _) in &t.keys {
            let v = self.expr(e)?;
            keys.push(key(&v)?);
        }
        let fits = |e: &&Entry| {
            e.matches.iter().zip(&t.keys).zip(&keys).all(|((m, (k, _)), v)| {
                let ty = self.p.repr(&k.ty);
                matches(m, self.p.width(ty), matches!(ty, Ty::Int(_)), v, &[])
            })
        };
        let longest = |e: &Entry| -> u32 {
            let length = |(m, (k, _)): (&Match, &(Expr, MatchKind))| match m {
                Match::Prefix(_, len) => *len,
                Match::Any => 0,
                _ => self.p.width(&k.ty),
            };
            e.matches.iter().zip(&t.keys).filter(|(_, (_, k))| *k == MatchKind::Lpm).map(length).sum()
        };
        // The larger priority wins, else the longer prefix, else the first one.
        let all = t.entries.iter().chain(&t.added).enumerate();
        let found = if t.keys.is_empty() {
            None
        } else {
            all.filter(|(_, e)| fits(e)).max_by_key(|(i, e)| (e.priority, longest(e), std::cmp::Reverse(*i)))
        };
        let (action, data) = found.map_or((t.default.0, &t.default.1), |(_, e)| (e.action, &e.args));
        let (a, bound) = &t.actions[action];
        let hit = found.is_some();
        self.call(&control.actions[*a], bound, data)?;
        Ok((hit, action))
    }
}
