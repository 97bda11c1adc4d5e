//! Values of expressions. Operations inside an expression that need an ALU of their own are emitted.

use super::state::{State, Val};
use super::{Around, FieldId, Fields, Place, Walk, What};
use crate::graph::Dependency;
use pointsman_ir::{BinaryOp, Expr, ExprKind, LValue, Proj, Type, UnaryOp, Value, VarRef};
use std::rc::Rc;

/// An operation that is left for the ALU that writes the result.
pub(super) struct Pending {
    pub inputs: Vec<Val>,
    pub number: u32,
}

/// The value of an expression: known without an operation, or made by one that is not emitted yet.
pub(super) enum Found {
    Value(Val),
    Operation(Pending),
}

pub(super) fn constant(value: &Value) -> Option<u128> {
    match value {
        Value::Bits(b) if b.width() <= 64 => Some(u128::from(b.low_u64())),
        Value::Bool(b) => Some(u128::from(*b)),
        _ => None,
    }
}

/// Whether it is a part of a number.
pub(super) fn sliced(lvalue: &LValue) -> bool {
    lvalue.path.iter().any(|p| matches!(p, Proj::Slice { .. }))
}

/// The value of an operation on constants.
fn folded(op: BinaryOp, a: &Val, b: &Val) -> Option<u128> {
    let both = |f: fn(u128, u128) -> bool| a.constant.zip(b.constant).map(|(a, b)| u128::from(f(a, b)));
    match op {
        BinaryOp::Eq => both(|a, b| a == b),
        BinaryOp::Ne => both(|a, b| a != b),
        BinaryOp::And if a.constant == Some(0) || b.constant == Some(0) => Some(0),
        BinaryOp::Or if a.constant == Some(1) || b.constant == Some(1) => Some(1),
        BinaryOp::And | BinaryOp::Or => both(|a, b| a == b).and(a.constant),
        _ => None,
    }
}

/// Whether an operation is part of the one that uses its result: comparisons for equality, logic, concatenation, and masks and
/// shifts by constants.
pub(crate) fn is_free(op: BinaryOp, constant: bool) -> bool {
    match op {
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::And | BinaryOp::Or | BinaryOp::Concat => true,
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shl | BinaryOp::Shr => constant,
        _ => false,
    }
}

impl Walk<'_> {
    /// The places that an l-value may be: several for an element of a stack that is not known.
    pub(super) fn places(&self, lvalue: &LValue) -> Vec<Place> {
        let here = self.frames.len() - 1;
        let types = &self.program.types;
        let (frame, var) = match lvalue.root {
            VarRef::Local(i) => (here, i),
            VarRef::Outer(i) => (self.frames[here].outer.unwrap_or(here), i),
        };
        let mut all = vec![self.frames[frame].vars[var as usize].clone()];
        for step in &lvalue.path {
            let pick = match step {
                Proj::Field(f) => Some(*f as usize),
                Proj::Index(Expr { kind: ExprKind::Const(v), .. }) => constant(v).map(|v| v as usize),
                Proj::Index(_) | Proj::Next | Proj::Last => None,
                Proj::Slice { .. } => break,
            };
            let inner = |p: &Place| {
                let children = Fields::children(types, p);
                match pick {
                    Some(i) => children.into_iter().skip(i).take(1).collect(),
                    None => children,
                }
            };
            all = all.iter().flat_map(inner).collect();
        }
        all
    }

    /// All fields of an l-value.
    pub(super) fn fields_of(&mut self, lvalue: &LValue) -> Vec<FieldId> {
        let types = &self.program.types;
        self.places(lvalue).iter().flat_map(|p| self.fields.leaves(types, p)).collect()
    }

    pub(super) fn get(&mut self, field: FieldId, now: &State) -> Val {
        let known = now.values.get(&field).cloned();
        known.unwrap_or_else(|| Walk::initial(&self.fields, field, &mut self.numbers))
    }

    /// A value made of others, without an operation.
    pub(super) fn made_of(&mut self, what: &str, vals: &[Val]) -> Val {
        let numbers: Vec<u32> = vals.iter().map(|v| v.number).collect();
        let number = self.numbers.of(format!("{what} {numbers:?}"));
        let made = vals.iter().fold(Val::new(number), |all, v| all.depends(v));
        // What is used twice is there once.
        let sources = made.sources.iter().map(|f| self.fields.all[*f as usize].bits).sum();
        let bits = vals.iter().map(|v| v.bits).sum::<u64>().min(sources);
        Val { bits, ..made }
    }

    fn read(&mut self, lvalue: &LValue, now: &State) -> Val {
        let fields = self.fields_of(lvalue);
        let vals: Vec<Val> = fields.into_iter().map(|f| self.get(f, now)).collect();
        match (vals.as_slice(), sliced(lvalue)) {
            ([one], false) => one.clone(),
            _ => {
                let slice = lvalue.path.iter().find_map(|p| match p {
                    Proj::Slice { hi, lo } => Some((*hi, *lo)),
                    _ => None,
                });
                let made = self.made_of(&format!("read {slice:?}"), &vals);
                let bits = slice.map_or(made.bits, |(hi, lo)| made.bits.min(u64::from(hi - lo) + 1));
                Val { bits, ..made }
            }
        }
    }

    /// The value of an expression. An operation at its root is emitted, and its result is in a temporary.
    pub(super) fn eval(&mut self, e: &Expr, around: &Around, now: &mut State) -> Val {
        match self.find(e, around, now) {
            Found::Value(v) => v,
            Found::Operation(p) => {
                let bits = u64::from(self.program.types.scalar_width(e.ty).unwrap_or(1));
                let name = format!("{}.$value{}", around.control, self.ops.len());
                let place = self.fields.variable(&name, e.ty, true);
                let field = self.fields.leaves(&self.program.types, &place);
                let inputs: Vec<_> = p.inputs.iter().map(|v| (v, Dependency::Action)).collect();
                // It has no effect but its result, so that it need not wait for conditions.
                let data = |v: &Val| v.defs.iter().any(|d| d.outcome && Some(d.op) == around.site);
                let site = around.site.filter(|_| p.inputs.iter().any(data));
                let free = Around { arms: Rc::default(), condition: Val::new(0), site, ..around.clone() };
                let op = self.emit(What::Alu, &inputs, &free, now);
                self.ops[op].writes.extend(&field);
                Val {
                    sources: Rc::new(field.into_iter().collect()),
                    bits,
                    ..Val::from_op(op, false, p.number)
                }
            }
        }
    }

    pub(super) fn find(&mut self, e: &Expr, around: &Around, now: &mut State) -> Found {
        Found::Value(match &e.kind {
            ExprKind::Const(value) => {
                let number = self.numbers.of(format!("constant {value:?}"));
                Val { constant: constant(value), ..Val::new(number) }
            }
            ExprKind::Read(lvalue) => self.read(lvalue, now),
            ExprKind::Unary(op, a) => {
                let a = self.eval(a, around, now);
                if *op == UnaryOp::Neg {
                    let number = self.made_of("negative", std::slice::from_ref(&a)).number;
                    return Found::Operation(Pending { inputs: vec![a], number });
                }
                let not = a.constant.filter(|_| *op == UnaryOp::Not).map(|v| u128::from(v == 0));
                Val { constant: not, ..self.made_of(&format!("{op:?}"), &[a]) }
            }
            ExprKind::Binary(op, a, b) => return self.binary(*op, a, b, around, now),
            ExprKind::Mux(c, a, b) => {
                let c = self.eval(c, around, now);
                match c.constant {
                    Some(0) => self.eval(b, around, now),
                    Some(_) => self.eval(a, around, now),
                    None => {
                        let (a, b) = (self.eval(a, around, now), self.eval(b, around, now));
                        self.made_of("either", &[c, a, b])
                    }
                }
            }
            ExprKind::Cast(a) => {
                let a = self.eval(a, around, now);
                let number = self.numbers.of(format!("cast {} to {:?}", a.number, e.ty));
                Val { number, ..a }
            }
            ExprKind::Slice(a, hi, lo) => {
                let a = self.eval(a, around, now);
                let made = self.made_of(&format!("slice {hi} {lo}"), &[a]);
                Val { bits: made.bits.min(u64::from(hi - lo) + 1), ..made }
            }
            ExprKind::Field(a, i) => {
                let a = self.eval(a, around, now);
                self.made_of(&format!("part {i}"), &[a])
            }
            ExprKind::Aggregate(all) => {
                let all: Vec<Val> = all.iter().map(|a| self.eval(a, around, now)).collect();
                self.made_of("all", &all)
            }
            ExprKind::Invalid => Val::new(self.numbers.of("invalid".into())),
            ExprKind::IsValid(l) | ExprKind::LastIndex(l) => {
                let types = &self.program.types;
                let places = self.places(l);
                let bits: Vec<FieldId> = places.iter().flat_map(|p| self.fields.validity(types, p)).collect();
                let vals: Vec<Val> = bits.into_iter().map(|f| self.get(f, now)).collect();
                match vals.as_slice() {
                    [one] => one.clone(),
                    _ => self.made_of("valid", &vals),
                }
            }
        })
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, around: &Around, now: &mut State) -> Found {
        let (a, b) = (self.eval(a, around, now), self.eval(b, around, now));
        if let Some(value) = folded(op, &a, &b) {
            let number = self.numbers.of(format!("constant {value}"));
            return Found::Value(Val { constant: Some(value), ..Val::new(number) });
        }
        let constant = a.constant.is_some() || b.constant.is_some();
        let made = self.made_of(&format!("{op:?}"), &[a.clone(), b.clone()]);
        if is_free(op, constant) {
            Found::Value(made)
        } else {
            Found::Operation(Pending { inputs: vec![a, b], number: made.number })
        }
    }

    /// Assigns an expression to a place.
    pub(super) fn assign(&mut self, to: &Place, e: &Expr, around: &Around, now: &mut State) {
        let types = &self.program.types;
        let scalar = types.scalar_width(to.ty).is_some() || matches!(types.repr_type(to.ty), Type::Varbit(_));
        match &e.kind {
            _ if scalar => {
                let found = self.find(e, around, now);
                let field = self.fields.leaves(types, to);
                for f in field {
                    self.store(f, &found, true, around, now);
                }
            }
            ExprKind::Read(from) => {
                let (from, to) = (self.fields_of(from), self.fields.leaves(types, to));
                for (from, to) in from.into_iter().zip(to) {
                    let val = self.get(from, now);
                    self.store(to, &Found::Value(val), true, around, now);
                }
            }
            ExprKind::Aggregate(all) => {
                for (child, e) in Fields::children(types, to).iter().zip(all) {
                    self.assign(child, e, around, now);
                }
                self.validate(to, true, around, now);
            }
            ExprKind::Invalid => self.validate(to, false, around, now),
            _ => {
                let val = self.eval(e, around, now);
                for f in self.fields.leaves(types, to) {
                    self.store(f, &Found::Value(val.clone()), true, around, now);
                }
            }
        }
    }

    /// Sets the validity of a header.
    pub(super) fn validate(&mut self, to: &Place, valid: bool, around: &Around, now: &mut State) {
        let number = self.numbers.of(format!("constant {}", u128::from(valid)));
        let val = Val { constant: Some(u128::from(valid)), ..Val::new(number) };
        for f in self.fields.validity(&self.program.types, to) {
            self.store(f, &Found::Value(val.clone()), true, around, now);
        }
    }

    /// Stores a value in a field. `whole`: nothing of the old value is left.
    pub(super) fn store(
        &mut self,
        to: FieldId,
        found: &Found,
        whole: bool,
        around: &Around,
        now: &mut State,
    ) {
        let field = &self.fields.all[to as usize];
        let (local, bits) = (field.local, field.bits);
        match found {
            Found::Operation(p) => {
                let inputs: Vec<_> = p.inputs.iter().map(|v| (v, Dependency::Action)).collect();
                let op = self.emit(What::Alu, &inputs, around, now);
                let val = Val { sources: Rc::new([to].into()), bits, ..Val::from_op(op, false, p.number) };
                self.write(op, to, val, whole, around, now);
            }
            Found::Value(v) => {
                // Action data last only as long as the action; every other value can be read where it comes from.
                let data = v.defs.iter().any(|d| d.outcome && Some(d.op) == around.site);
                let forwarded = v.clone().depends(&around.condition);
                if local && !data {
                    return self.set(to, forwarded, whole, now);
                }
                if let Some(op) = self.returning(v, around) {
                    let val =
                        Val { sources: Rc::new([to].into()), bits, ..Val::from_op(op, false, v.number) };
                    return self.write(op, to, val, whole, around, now);
                }
                let op = self.emit(What::Alu, &[(v, Dependency::Action)], around, now);
                let val = if data {
                    Val { sources: Rc::new([to].into()), bits, ..Val::from_op(op, false, v.number) }
                } else if v.sources.is_empty() {
                    Val { sources: Rc::new([to].into()), bits, ..forwarded }
                } else {
                    forwarded
                };
                self.write(op, to, val, whole, around, now);
            }
        }
    }
}
