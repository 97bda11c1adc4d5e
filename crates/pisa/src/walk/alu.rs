//! Programs that run in the ALU at an array: `RegisterAction` of Tofino's architecture.

use super::state::{State, Val};
use super::{Around, FieldId, Frame, OpId, Place, Walk, What};
use crate::arch::PROGRAM;
use crate::graph::Dependency;
use crate::report::Violation;
use pointsman_ir::{Const, ExternInstance, ExternInstanceId, Function, Implementation, LValue};

/// The array that an object's code works on: an argument of its constructor.
fn array_of(object: &ExternInstance) -> Option<usize> {
    object.args.iter().find_map(|(_, c)| match c {
        Const::Object(id) => Some(id.index()),
        _ => None,
    })
}

impl Walk<'_> {
    /// Runs an object's code on a cell. `index`: of the cell, and its width in bits.
    pub(super) fn run_program(
        &mut self,
        instance: ExternInstanceId,
        index: Option<(&Val, u64)>,
        outs: &[&LValue],
        around: &Around,
        now: &mut State,
    ) {
        let program = self.program;
        let code = program.implementations.iter().find(|m| m.object == instance && m.method == PROGRAM);
        let (Some(array), Some(code)) = (array_of(&program.externs[instance.index()]), code) else {
            let why = "its array or its code is not known here; declare and use it in one control";
            return self.unseen(instance, why, around);
        };
        let object = &program.externs[array].object;
        let direct = self.arch.memory(object).is_some_and(|(_, size)| size.is_empty());
        let none = Val::new(self.numbers.of("the array's own index".into()));
        let (i, bits) = index.unwrap_or((&none, 0));
        let index_bits = if i.sources.is_empty() { 0 } else { i.bits.min(bits) };
        let access = What::Access { object: array, index: i.number, index_bits, writes: true };
        let what = if direct { What::Alu } else { access };
        let first = self.emit(what, &[(i, Dependency::Match)], around, now);
        self.ops[first].alu = Some(first);
        self.body_of(code, first, around, now);
        self.results(first, outs, around, now);
        for field in outs.iter().flat_map(|l| self.fields_of(l)).collect::<Vec<_>>() {
            let number = self.get(field, now).number;
            if self.fields.all[field as usize].local {
                self.returned.insert(number, (first, field));
            }
        }
    }

    /// The program of an ALU that returns this value here, as it is: the ALU writes it where it is assigned.
    pub(super) fn returning(&mut self, val: &Val, around: &Around) -> Option<OpId> {
        let (op, temporary) = *self.returned.get(&val.number)?;
        let of = &mut self.ops[op];
        let here = of.arms == around.arms && of.site == around.site;
        here.then(|| {
            of.writes.remove(&temporary);
            op
        })
    }

    /// Walks the code. All of its operations belong to the access of the cell, and so do its variables.
    fn body_of(&mut self, code: &Implementation, first: usize, around: &Around, now: &mut State) {
        let function = &self.program.functions[code.function.index()];
        let captured = self.captured(code);
        let own = self.fields.all.len() as FieldId;
        let frame = Frame::of(self.variables(function, &captured), true);
        let places = frame.vars[..function.frame.params.len() - captured.len()].to_vec();
        let cell = places.first().map(|p| self.fields.leaves(&self.program.types, p)).unwrap_or_default();
        for field in cell {
            let val = Val::from_op(first, false, self.numbers.fresh());
            self.set(field, val, true, now);
        }
        if let Some((after, _)) = self.inside(&function.body, frame, now.clone(), around.clone()) {
            *now = after;
        }
        for op in &mut self.ops[first..] {
            op.alu = Some(first);
            op.site = around.site;
            op.condition_bits = around.bits;
            // Others see no variable of the code.
            op.reads.retain(|f| *f < own);
            op.writes.retain(|f| *f < own);
        }
    }

    /// The places of the block's variables that the code uses.
    fn captured(&mut self, code: &Implementation) -> Vec<Place> {
        let here = self.frames.len() - 1;
        let block = &self.frames[self.frames[here].outer.unwrap_or(here)];
        let places: Vec<Place> = code.captures.iter().map(|i| block.vars[*i as usize].clone()).collect();
        for place in &places {
            self.fields.leaves(&self.program.types, place);
        }
        places
    }

    fn variables(&mut self, function: &Function, captured: &[Place]) -> Vec<Place> {
        let own = function.frame.params.len() - captured.len();
        let mut all = Vec::new();
        for (i, v) in function.frame.vars.iter().enumerate() {
            let place = i.checked_sub(own).and_then(|i| captured.get(i)).cloned();
            let new = || self.fields.variable(&format!("{}.{}", function.name, v.name), v.ty, true);
            all.push(place.unwrap_or_else(new));
        }
        all
    }

    /// Reports code that is not counted, with the line that runs it.
    pub(super) fn unseen(&mut self, instance: ExternInstanceId, why: &str, around: &Around) {
        let place = self.program.place(around.at).unwrap_or_else(|| around.control.to_string());
        let object = self.program.externs[instance.index()].name.clone();
        let known = Violation { object, why: format!("{place}: {why}") };
        if !self.violations.contains(&known) {
            self.violations.push(known);
        }
    }
}
