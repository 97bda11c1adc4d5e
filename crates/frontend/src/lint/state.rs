//! The state of variables at one point of a program.

use super::bounds::Bounds;
use super::headers::Headers;
use crate::ast::StructKind;
use crate::check::tree::{Tree, VarId};
use crate::check::types::{Kind, Ty};
use std::collections::BTreeMap;

/// The state of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// On some way here nothing set it.
    Unset,
    /// It is set, or nothing is known about it.
    Set,
    /// A header: [`Headers`] follows it.
    Header,
    /// A struct, by fields.
    Parts(Vec<Value>),
}

/// Structs of more fields than this, those inside counted, are taken as set.
const MAX_PARTS: usize = 4096;

/// A field of a field of a variable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub var: VarId,
    pub fields: Vec<u32>,
}

/// Why a value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bad {
    Unset,
    Partly,
}

impl Value {
    /// The initial value of a variable of type `ty`.
    pub fn new(tree: &mut Tree, ty: Ty) -> Value {
        let mut budget = MAX_PARTS;
        Value::fresh(tree, ty, &mut budget).unwrap_or(Value::Set)
    }

    fn fresh(tree: &mut Tree, ty: Ty, budget: &mut usize) -> Option<Value> {
        *budget = budget.checked_sub(1)?;
        Some(match tree.tys.get(ty).clone() {
            Kind::Struct(d, _) => match tree.structs[d].kind {
                StructKind::Header => Value::Header,
                StructKind::HeaderUnion => Value::Set,
                StructKind::Struct => {
                    let fields = tree.fields(ty).unwrap_or_default();
                    let parts: Option<Vec<Value>> =
                        fields.into_iter().map(|(_, t)| Value::fresh(tree, t, budget)).collect();
                    Value::Parts(parts?)
                }
            },
            // An unset element is hard to distinguish from a set one, and all headers begin invalid.
            Kind::Stack(..) | Kind::Extern(..) | Kind::Param(_) => Value::Set,
            _ => Value::Unset,
        })
    }

    /// The state where two ways meet.
    pub fn join(&mut self, other: &Value) {
        match (&mut *self, other) {
            (Value::Parts(a), Value::Parts(b)) => a.iter_mut().zip(b).for_each(|(a, b)| a.join(b)),
            (Value::Parts(a), b) => a.iter_mut().for_each(|a| a.join(b)),
            (a, Value::Parts(b)) => {
                let mut parts = b.clone();
                parts.iter_mut().for_each(|p| p.join(a));
                *a = Value::Parts(parts);
            }
            (Value::Unset, _) => {}
            (a, Value::Unset) => *a = Value::Unset,
            (Value::Header, Value::Header) => {}
            (a, _) => *a = Value::Set,
        }
    }

    /// The part that `fields` lead to, or the enclosing part that determines it.
    fn part(&self, fields: &[u32]) -> &Value {
        match (self, fields) {
            (Value::Parts(ps), [f, rest @ ..]) => ps.get(*f as usize).map_or(&Value::Set, |p| p.part(rest)),
            _ => self,
        }
    }

    fn set_part(&mut self, fields: &[u32], value: Value) {
        match (&mut *self, fields) {
            (_, []) => *self = value,
            (Value::Parts(ps), [f, rest @ ..]) => {
                if let Some(p) = ps.get_mut(*f as usize) {
                    p.set_part(rest, value);
                }
            }
            // Part of something that is known as a whole, such as a header or a tuple.
            (v @ Value::Unset, _) => *v = Value::Set,
            _ => {}
        }
    }

    fn any_unset(&self) -> bool {
        match self {
            Value::Unset => true,
            Value::Parts(ps) => ps.iter().any(Value::any_unset),
            Value::Set | Value::Header => false,
        }
    }

    /// Whether all of it is unset, apart from headers.
    fn all_unset(&self) -> bool {
        match self {
            Value::Unset | Value::Header => true,
            Value::Parts(ps) => ps.iter().all(Value::all_unset),
            Value::Set => false,
        }
    }

    /// The fault, if a value that must be set when a block ends is missing.
    pub fn missing(&self) -> Option<Bad> {
        match (self.any_unset(), self.all_unset()) {
            (false, _) => None,
            (true, true) => Some(Bad::Unset),
            (true, false) => Some(Bad::Partly),
        }
    }
}

/// The state of all variables; missing ones are set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    vars: BTreeMap<VarId, Value>,
    /// Which headers are valid.
    pub headers: Headers,
    /// How large values are.
    pub bounds: Bounds,
}

impl State {
    /// Only headers and bounds are known.
    pub fn with(headers: Headers, bounds: Bounds) -> State {
        State { headers, bounds, ..State::default() }
    }

    pub fn set_var(&mut self, var: VarId, value: Value) {
        match value {
            Value::Set => self.vars.remove(&var),
            value => self.vars.insert(var, value),
        };
    }

    pub fn var(&self, var: VarId) -> &Value {
        self.vars.get(&var).unwrap_or(&Value::Set)
    }

    /// Marks a place.
    pub fn set(&mut self, place: &Place, value: Value) {
        if let Some(v) = self.vars.get_mut(&place.var) {
            v.set_part(&place.fields, value);
            if *v == Value::Set {
                self.vars.remove(&place.var);
            }
        } else if value != Value::Set && place.fields.is_empty() {
            self.vars.insert(place.var, value);
        }
    }

    /// The error in reading a place.
    pub fn read(&self, place: &Place) -> Option<Bad> {
        let v = self.vars.get(&place.var)?.part(&place.fields);
        match v {
            Value::Set | Value::Header => None,
            Value::Unset => Some(Bad::Unset),
            Value::Parts(_) => v.missing(),
        }
    }

    pub fn join(&mut self, other: &State) {
        // Where only one knows a variable, it is set on the other way, or does not exist there.
        for (var, value) in &mut self.vars {
            value.join(other.var(*var));
        }
        for (var, value) in &other.vars {
            if !self.vars.contains_key(var) {
                let mut v = value.clone();
                v.join(&Value::Set);
                self.vars.insert(*var, v);
            }
        }
        self.vars.retain(|_, v| *v != Value::Set);
        self.headers.join(&other.headers);
        self.bounds.join(&other.bounds);
    }
}
