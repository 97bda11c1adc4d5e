//! Places: where a value is read from or written to.

use crate::eval::Eval;
use crate::run::Stop;
use crate::values::{self, step, step_mut};
use pointsman_ir::{LValue, Proj, Value, VarRef};
use smallvec::SmallVec;

/// The variables that code sees.
pub(crate) struct Scope<'f> {
    /// Of the callable itself.
    pub(crate) local: &'f mut [Value],
    /// Of the control around it; empty unless it is an action of a control.
    pub(crate) outer: &'f mut [Value],
    /// The callable is an action, so further actions see `outer`, not `local`.
    pub(crate) in_action: bool,
}

impl Scope<'_> {
    /// The value of a place that is nothing but fields away from its variable. Most are, and need no [`Place`].
    #[inline]
    pub(crate) fn peek(&self, lv: &LValue) -> Option<&Value> {
        if let Some(Proj::Slice { .. }) = lv.path.last() {
            return None;
        }
        lv.path.iter().try_fold(self.var(lv.root)?, |v, proj| match proj {
            Proj::Field(i) => step(v, *i),
            _ => None,
        })
    }

    /// The same for writing, where no header union is on the way, whose members depend on each other.
    #[inline]
    pub(crate) fn peek_mut(&mut self, lv: &LValue) -> Option<&mut Value> {
        lv.path.iter().try_fold(self.var_mut(lv.root)?, |v, proj| match (proj, v) {
            (_, Value::Union(_)) => None,
            (Proj::Field(i), v) => step_mut(v, *i),
            _ => None,
        })
    }

    #[inline]
    pub(crate) fn var(&self, root: VarRef) -> Option<&Value> {
        match root {
            VarRef::Local(i) => self.local.get(i as usize),
            VarRef::Outer(i) => self.outer.get(i as usize),
        }
    }

    #[inline]
    fn var_mut(&mut self, root: VarRef) -> Option<&mut Value> {
        match root {
            VarRef::Local(i) => self.local.get_mut(i as usize),
            VarRef::Outer(i) => self.outer.get_mut(i as usize),
        }
    }
}

/// A place whose indices have been evaluated.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) root: VarRef,
    /// Fields and elements from the variable on.
    pub(crate) path: SmallVec<[u32; 4]>,
    /// Bits of the value there.
    pub(crate) slice: Option<(u32, u32)>,
    /// The length of the path to the last stack that `next` was taken of, which `extract` advances.
    next_of: Option<u32>,
}

impl Place {
    /// Evaluates the indices of `lv`. `None`: an index is out of range, the place does not exist.
    pub(crate) fn resolve(eval: Eval<'_>, scope: &Scope<'_>, lv: &LValue) -> Result<Option<Place>, Stop> {
        let mut place = Place { root: lv.root, path: SmallVec::new(), slice: None, next_of: None };
        let Some(mut value) = scope.var(lv.root) else { return Ok(None) };
        for proj in &lv.path {
            let i = match proj {
                Proj::Field(i) => *i,
                Proj::Index(e) => match eval.index(scope, e)? {
                    Some(i) => i,
                    None => return Ok(None),
                },
                Proj::Next => {
                    place.next_of = Some(place.path.len() as u32);
                    eval.next_index(value)?
                }
                Proj::Last => eval.last_index(value)?,
                Proj::Slice { hi, lo } => {
                    place.slice = Some((*hi, *lo));
                    break;
                }
            };
            let Some(inner) = step(value, i) else { return Ok(None) };
            value = inner;
            place.path.push(i);
        }
        Ok(Some(place))
    }

    /// Whether writing one can change the value of the other.
    pub(crate) fn overlaps(&self, other: &Place) -> bool {
        self.root == other.root && self.path.iter().zip(&other.path).all(|(a, b)| a == b)
    }

    /// The value there; the whole one if the place is a slice.
    fn get_mut<'v>(&self, scope: &'v mut Scope<'_>) -> Option<&'v mut Value> {
        self.path.iter().try_fold(scope.var_mut(self.root)?, |v, i| step_mut(v, *i))
    }

    /// Takes the value out, for putting another one back soon; clones it if it is only a slice.
    pub(crate) fn take(&self, scope: &mut Scope<'_>) -> Option<Value> {
        match (self.slice, self.get_mut(scope)?) {
            (None, v) => Some(std::mem::replace(v, Value::Void)),
            (Some((hi, lo)), v) => values::bits(v).map(|b| Value::Bits(b.slice(hi, lo))),
        }
    }

    /// A copy of the value.
    pub(crate) fn clone_value(&self, scope: &mut Scope<'_>) -> Option<Value> {
        match (self.slice, self.get_mut(scope)?) {
            (None, v) => Some(v.clone()),
            (Some((hi, lo)), v) => values::bits(v).map(|b| Value::Bits(b.slice(hi, lo))),
        }
    }

    /// Writes. A valid header that is a member of a header union makes the other members invalid (P4_16 section 8.19).
    pub(crate) fn store(&self, scope: &mut Scope<'_>, value: Value) {
        if let Some((hi, lo)) = self.slice {
            if let (Some(Value::Bits(old)), Value::Bits(part)) = (self.get_mut(scope), &value) {
                *old = old.with_slice(hi, lo, part);
            }
            return;
        }
        self.update(scope, |v| values::put(v, value));
    }

    /// Returns a value that was taken.
    pub(crate) fn put_back(&self, scope: &mut Scope<'_>, value: Value) {
        if let Some(v) = self.get_mut(scope) {
            values::put(v, value);
        }
    }

    /// Changes the value there, keeping the rule of header unions.
    pub(crate) fn update(&self, scope: &mut Scope<'_>, change: impl FnOnce(&mut Value)) {
        let Some(root) = scope.var_mut(self.root) else { return };
        let Some((last, path)) = self.path.split_last() else { return change(root) };
        let Some(parent) = path.iter().try_fold(root, |v, i| step_mut(v, *i)) else { return };
        let Some(place) = step_mut(parent, *last) else { return };
        change(place);
        if values::is_valid(place)
            && let Value::Union(members) = parent
        {
            for (i, member) in members.iter_mut().enumerate() {
                if let (true, Value::Header { valid, .. }) = (i != *last as usize, member) {
                    *valid = false;
                }
            }
        }
    }

    /// After an extraction: moves `nextIndex` of the stack that the place is `next` of.
    pub(crate) fn advance_next(&self, scope: &mut Scope<'_>) {
        let Some(depth) = self.next_of else { return };
        let Some(root) = scope.var_mut(self.root) else { return };
        let stack = self.path.iter().take(depth as usize).try_fold(root, |v, i| step_mut(v, *i));
        if let Some(Value::Stack { next, .. }) = stack {
            *next = next.saturating_add(1);
        }
    }
}
