//! The reference executor of a typed program: it walks the statements and expressions of [`Program`] directly.
//!
//! It is the oracle of any faster executor, so it defines the behaviour where P4_16 leaves it undefined:
//! - variables start with zero, false, invalid, first member ([`Value::default_of`]); the fields of an invalid header
//!   keep what they had, and writing them is harmless; `setValid()` of an invalid header sets them to these defaults;
//! - an index out of range reads a default value, a write there is lost, and `extract` there consumes the bits;
//! - `lastIndex` of an empty stack is all ones; division by zero gives zero;
//! - `setInvalid()` on, or assigning an invalid header to, a member of a header union leaves the other members alone
//!   (as p4c and BMv2 do; P4_16 makes all of them invalid, see docs/language.md);
//! - `advance` and the width of a varbit field must be whole bytes, else `ParserInvalidArgument` (as in BMv2); all else
//!   may be at any bit offset;
//! - values of `out` and `inout` parameters are copied back however a callee ends: return, `exit`, `reject`;
//! - emitted data ends on a byte boundary, padded with zero bits;
//! - a parser that makes more than [`pointsman_ir::MAX_TRANSITIONS`] transitions rejects with `ParserTimeout`; after
//!   [`pointsman_ir::MAX_LOOP_ROUNDS`] rounds of loops in one run of a block, every loop ends as if its condition were false;
//! - a table whose look-up names no action runs none, and the index of the action that ran is then all ones.

#![forbid(unsafe_code)]

mod bitio;
mod eval;
mod parse;
mod place;
mod run;
mod trace;
mod values;

use crate::eval::Eval;
use crate::run::{Run, Stop};
use pointsman_ir::{
    Bits, Callee, ControlId, ControlOutcome, CoreErrors, Direction, Env, Executor, LoadError, Param,
    ParseOutcome, ParserId, Program, Type, TypeId, Types, Value, verify,
};
use std::sync::Arc;

/// Runs one program. See the crate's documentation for its behaviour where P4 leaves a choice.
#[derive(Debug)]
pub struct Interp {
    program: Arc<Program>,
    /// Types of the frame's slots and the values that they start with.
    slots: Vec<TypeId>,
    slot_defaults: Vec<Value>,
    errors: CoreErrors,
    /// By type.
    sizes: Vec<Size>,
    /// By type: is it a struct, a header or something else that is made of fields?
    aggregates: Vec<bool>,
    /// The variables of each callable at their defaults.
    parsers: Vec<Vec<Value>>,
    controls: Vec<Vec<Value>>,
    actions: Vec<Vec<Value>>,
    functions: Vec<Vec<Value>>,
}

/// The variables of one packet, one value per slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    slots: Vec<Value>,
}

/// Indices on the way to a [`Field`]: structs are seldom nested deeper.
const MAX_DEPTH: usize = 6;

/// A scalar of a frame: slot, and field indices from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    slot: usize,
    path: [u32; MAX_DEPTH],
    depth: usize,
}

impl Field {
    fn path(&self) -> &[u32] {
        &self.path[..self.depth]
    }
}

/// Size of a type in a packet, in bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Without varbit fields.
    pub(crate) fixed: usize,
    /// The most that varbit fields can hold.
    pub(crate) varbit: usize,
}

impl Size {
    fn of(types: &Types, ty: TypeId) -> Size {
        let sum = |tys: &mut dyn Iterator<Item = TypeId>| {
            tys.map(|t| Size::of(types, t))
                .fold(Size::default(), |a, b| Size { fixed: a.fixed + b.fixed, varbit: a.varbit + b.varbit })
        };
        match types.repr_type(ty) {
            Type::Bool => Size { fixed: 1, varbit: 0 },
            Type::Bit(w) | Type::Int(w) => Size { fixed: *w as usize, varbit: 0 },
            Type::Varbit(w) => Size { fixed: 0, varbit: *w as usize },
            Type::Struct(d) | Type::Header(d) => sum(&mut d.fields.iter().map(|f| f.ty)),
            Type::Tuple(t) => sum(&mut t.iter().copied()),
            Type::Stack { elem, size } => {
                let one = Size::of(types, *elem);
                Size { fixed: one.fixed * *size as usize, varbit: one.varbit * *size as usize }
            }
            _ => Size::default(),
        }
    }
}

impl Interp {
    fn eval(&self) -> Eval<'_> {
        Eval { types: &self.program.types, errors: self.errors }
    }

    /// The variables of a callable at their defaults; none for externs.
    fn template(&self, callee: Callee) -> &[Value] {
        match callee {
            Callee::Action(id) => &self.actions[id.index()],
            Callee::Function(id) => &self.functions[id.index()],
            Callee::Control(id) => &self.controls[id.index()],
            Callee::Parser(id) => &self.parsers[id.index()],
            Callee::Extern { .. } => &[],
        }
    }

    fn aggregate(&self, ty: TypeId) -> bool {
        self.aggregates[ty.0 as usize]
    }

    fn size(&self, ty: TypeId) -> Size {
        self.sizes[ty.0 as usize]
    }

    /// The frame of a block that the architecture runs: parameters moved from their slots, the rest at defaults.
    fn enter(&self, params: &[Param], template: &[Value], slots: &[usize], frame: &mut Frame) -> Vec<Value> {
        debug_assert_eq!(params.len(), slots.len(), "one slot per parameter");
        let mut vars = Vec::with_capacity(template.len());
        for (i, param) in params.iter().enumerate() {
            let slot = slots.get(i).filter(|slot| self.fits(param, **slot));
            vars.push(match (param.direction, slot) {
                (_, None) => template[i].clone(),
                (Direction::Out, Some(&slot)) if shared(slots, slot) => template[i].clone(),
                (_, Some(&slot)) if shared(slots, slot) => frame.slots[slot].clone(),
                (direction, Some(&slot)) => {
                    let mut value = std::mem::replace(&mut frame.slots[slot], Value::Void);
                    if direction == Direction::Out {
                        values::copy(&mut value, &template[i]);
                    }
                    value
                }
            });
        }
        vars.extend_from_slice(&template[params.len()..]);
        vars
    }

    /// Puts the parameters back into their slots. Nothing can have written an `in` parameter, so it goes back too.
    fn leave(&self, params: &[Param], slots: &[usize], frame: &mut Frame, vars: Vec<Value>) {
        for ((param, &slot), value) in params.iter().zip(slots).zip(vars) {
            let out = matches!(param.direction, Direction::Out | Direction::InOut);
            if self.fits(param, slot) && (out || !shared(slots, slot)) {
                frame.slots[slot] = value;
            }
        }
    }

    /// Whether the slot holds values of the parameter's type. An architecture ensures this when it checks the package.
    fn fits(&self, param: &Param, slot: usize) -> bool {
        let types = &self.program.types;
        let fits = self.slots.get(slot).is_some_and(|ty| types.repr(*ty) == types.repr(param.ty));
        debug_assert!(fits, "slot {slot} has another type than the parameter {}", param.name);
        fits
    }
}

fn shared(slots: &[usize], slot: usize) -> bool {
    slots.iter().filter(|s| **s == slot).count() > 1
}

impl Executor for Interp {
    type Frame = Frame;
    type Field = Field;

    fn load(program: Arc<Program>, slots: &[TypeId]) -> Result<Self, LoadError> {
        let wrong = verify::verify(&program);
        if !wrong.is_empty() {
            return Err(LoadError(wrong.join("\n")));
        }
        let types = &program.types;
        if let Some(ty) = slots.iter().find(|ty| !types.contains(**ty)) {
            return Err(LoadError(format!("a slot has type {}, which the program does not have", ty.0)));
        }
        let template = |frame: &pointsman_ir::Frame| -> Vec<Value> {
            frame.vars.iter().map(|v| Value::default_of(types, v.ty)).collect()
        };
        Ok(Interp {
            slots: slots.to_vec(),
            slot_defaults: slots.iter().map(|ty| Value::default_of(types, *ty)).collect(),
            errors: CoreErrors::find(&program)?,
            aggregates: types.iter().map(|(ty, _)| types.scalar_width(ty).is_none()).collect(),
            sizes: types.iter().map(|(ty, _)| Size::of(types, ty)).collect(),
            parsers: program.parsers.iter().map(|p| template(&p.frame)).collect(),
            controls: program.controls.iter().map(|c| template(&c.frame)).collect(),
            actions: program.actions.iter().map(|a| template(&a.frame)).collect(),
            functions: program.functions.iter().map(|f| template(&f.frame)).collect(),
            program,
        })
    }

    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn new_frame(&self) -> Frame {
        Frame { slots: self.slot_defaults.clone() }
    }

    fn reset(&self, frame: &mut Frame) {
        frame.slots.iter_mut().zip(&self.slot_defaults).for_each(|(v, d)| values::copy(v, d));
    }

    fn reset_slot(&self, frame: &mut Frame, slot: usize) {
        if let (Some(v), Some(d)) = (frame.slots.get_mut(slot), self.slot_defaults.get(slot)) {
            values::copy(v, d);
        }
    }

    /// It gains nothing from it, but what runs on it is tested that way.
    fn lookahead(&self) -> usize {
        8
    }

    fn field(&self, slot: usize, path: &[u32]) -> Option<Field> {
        let place = path.iter().try_fold(self.slot_defaults.get(slot)?, |v, i| match v {
            Value::Struct(fields) => fields.get(*i as usize),
            _ => None,
        });
        let scalar = match place? {
            Value::Bits(b) => b.width() <= 64,
            Value::Bool(_) | Value::Enum(_) | Value::Error(_) => true,
            _ => false,
        };
        let mut field = Field { slot, path: [0; MAX_DEPTH], depth: path.len() };
        field.path.get_mut(..path.len())?.copy_from_slice(path);
        scalar.then_some(field)
    }

    fn read(&self, frame: &Frame, field: Field) -> u64 {
        self.get(frame, field.slot, field.path()).map_or(0, |b| b.low_u64())
    }

    fn write(&self, frame: &mut Frame, field: Field, value: u64) {
        let Some(root) = frame.slots.get_mut(field.slot) else { return };
        match field.path().iter().try_fold(root, |v, i| values::step_mut(v, *i)) {
            Some(Value::Bits(b)) => *b = Bits::new(b.width(), value.into()),
            Some(Value::Bool(b)) => *b = value & 1 != 0,
            Some(Value::Enum(n) | Value::Error(n)) => *n = value as u32,
            _ => {}
        }
    }

    fn get(&self, frame: &Frame, slot: usize, path: &[u32]) -> Option<Bits> {
        path.iter().try_fold(frame.slots.get(slot)?, |v, i| values::step(v, *i))?.to_bits()
    }

    fn set(&self, frame: &mut Frame, slot: usize, path: &[u32], value: &Bits) -> bool {
        let Some(root) = frame.slots.get_mut(slot) else { return false };
        let place = path.iter().try_fold(root, |v, i| values::step_mut(v, *i));
        match place {
            Some(Value::Bits(b)) => *b = value.zero_extend(b.width()),
            Some(Value::Bool(b)) => *b = !value.is_zero(),
            Some(Value::Enum(n) | Value::Error(n)) => *n = value.low_u64() as u32,
            _ => return false,
        }
        true
    }

    fn value(&self, frame: &Frame, slot: usize) -> Value {
        frame.slots.get(slot).cloned().unwrap_or(Value::Void)
    }

    fn set_value(&self, frame: &mut Frame, slot: usize, value: Value) {
        if let (Some(v), Some(ty)) = (frame.slots.get_mut(slot), self.slots.get(slot)) {
            *v = values::conform(&self.program.types, *ty, value);
        }
    }

    fn parse(
        &self,
        parser: ParserId,
        slots: &[usize],
        frame: &mut Frame,
        packet: &[u8],
        env: &mut dyn Env,
    ) -> ParseOutcome {
        let params = &self.program.parsers[parser.index()].frame.params;
        let mut vars = self.enter(params, self.template(Callee::Parser(parser)), slots, frame);
        let mut emitted = Vec::new();
        let mut run = Run::new(self, env, Callee::Parser(parser), packet, &mut emitted);
        let outcome = run.parser(parser, &mut vars);
        let consumed_bits = run.position;
        self.leave(params, slots, frame, vars);
        let (accepted, error) = match outcome {
            Err(Stop::Reject(error)) => (false, error),
            _ => (true, 0),
        };
        ParseOutcome { accepted, error, consumed_bits }
    }

    fn control(
        &self,
        control: ControlId,
        slots: &[usize],
        frame: &mut Frame,
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> ControlOutcome {
        let params = &self.program.controls[control.index()].frame.params;
        let mut vars = self.enter(params, self.template(Callee::Control(control)), slots, frame);
        let outcome = Run::new(self, env, Callee::Control(control), &[], emitted).control(control, &mut vars);
        self.leave(params, slots, frame, vars);
        ControlOutcome { exited: outcome == Err(Stop::Exit) }
    }
}
