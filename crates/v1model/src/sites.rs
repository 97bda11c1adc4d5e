//! Calls whose meaning depends on their position, rewritten when a program is loaded.
//!
//! - `clone3`, `resubmit` and `recirculate` with a list of data are the older form of `..._preserving_field_list`: the list
//!   names metadata, and what those fields hold *at the end of the block* goes along. An executor would evaluate the list
//!   at the call and lose the names, so each list becomes a numbered field list, and the number the argument.
//! - `assert` and `assume` report their line: the number of the place becomes a second argument.

use crate::externs::Function;
use crate::fields::FieldList;
use crate::pipeline::{HEADERS, META, STD};
use crate::problem::Problem;
use pointsman_ir::{
    Arg, Bits, Callee, Expr, ExprKind, LValue, Program, Proj, Span, Stmt, StmtKind, Type, TypeId, Value, Var,
    VarRef,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Numbers above those that a program can write (`bit<8>`).
const FIRST_LIST: u32 = 256;

/// The result of rewriting.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// Field lists of the older calls, by number.
    pub lists: BTreeMap<u32, FieldList>,
    /// Positions of asserts and assumes, if the program has its sources.
    pub places: Vec<Option<Arc<str>>>,
}

/// Rewrites `program`. `slots` are the types of headers, user metadata and standard metadata; `fixed` are the fields of
/// standard metadata that no list preserves, because they describe the copy itself.
pub(crate) fn rewrite(
    program: &mut Arc<Program>,
    functions: &[Function],
    slots: [TypeId; 3],
    fixed: &[u32],
    problems: &mut Vec<Problem>,
) -> Sites {
    let mut sites = Sites::default();
    if !functions.iter().any(|f| f.takes_list() || f.is_check()) {
        return sites;
    }
    let before = program.clone();
    let after = Arc::make_mut(program);
    let number = after.types.intern(Type::Bit(32));
    for (f, function) in after.extern_fns.iter_mut().zip(functions) {
        if function.is_check() {
            f.params.push("place".into());
        }
    }
    let mut walk = Walk {
        program: &before,
        functions,
        slots,
        fixed,
        number,
        sites: &mut sites,
        problems,
        scope: Scope { local: &[], outer: &[] },
    };
    for (old, new) in before.parsers.iter().zip(&mut after.parsers) {
        walk.scope = Scope { local: &old.frame.vars, outer: &[] };
        walk.block(&mut new.init);
        new.states.iter_mut().for_each(|s| walk.block(&mut s.body));
    }
    for (old, new) in before.controls.iter().zip(&mut after.controls) {
        walk.scope = Scope { local: &old.frame.vars, outer: &[] };
        walk.block(&mut new.body);
    }
    for (old, new) in before.actions.iter().zip(&mut after.actions) {
        let control = old.control.and_then(|c| before.controls.get(c.index()));
        let outer = control.map_or(&[][..], |c| &c.frame.vars);
        walk.scope = Scope { local: &old.frame.vars, outer };
        walk.block(&mut new.body);
    }
    for (old, new) in before.functions.iter().zip(&mut after.functions) {
        walk.scope = Scope { local: &old.frame.vars, outer: &[] };
        walk.block(&mut new.body);
    }
    sites
}

/// Variables in sight.
#[derive(Clone, Copy)]
struct Scope<'p> {
    local: &'p [Var],
    outer: &'p [Var],
}

struct Walk<'p> {
    program: &'p Program,
    functions: &'p [Function],
    slots: [TypeId; 3],
    fixed: &'p [u32],
    number: TypeId,
    sites: &'p mut Sites,
    problems: &'p mut Vec<Problem>,
    scope: Scope<'p>,
}

impl Walk<'_> {
    fn block(&mut self, stmts: &mut [Stmt]) {
        for stmt in stmts {
            let span = stmt.span;
            match &mut stmt.kind {
                StmtKind::Call { callee: Callee::Extern { function, .. }, args, .. } => {
                    let Some(function) = self.functions.get(function.index()) else { continue };
                    self.call(*function, args, span);
                }
                StmtKind::If(_, yes, no) => {
                    self.block(yes);
                    self.block(no);
                }
                StmtKind::Switch { cases, default, .. } => {
                    cases.iter_mut().for_each(|(_, body)| self.block(body));
                    self.block(default);
                }
                StmtKind::Loop { body, update, .. } => {
                    self.block(body);
                    self.block(update);
                }
                _ => {}
            }
        }
    }

    fn call(&mut self, function: Function, args: &mut Vec<Arg>, span: Span) {
        if function.is_check() {
            let place = self.program.place(span).map(Arc::from);
            self.sites.places.push(place);
            let number = self.sites.places.len() as u32 - 1;
            args.push(self.constant(number, span));
        }
        if function.takes_list()
            && let Some(last) = args.last_mut()
        {
            let mut list = FieldList::default();
            match &*last {
                Arg::In(data) => self.names(function, data, &mut list),
                Arg::Out(place) | Arg::InOut(place) => self.name(function, place, span, &mut list),
            }
            let next = FIRST_LIST + self.sites.lists.len() as u32;
            let number = self.sites.lists.iter().find(|(_, l)| **l == list).map_or(next, |(n, _)| *n);
            self.sites.lists.insert(number, list);
            *last = self.constant(number, span);
        }
    }

    fn constant(&self, n: u32, span: Span) -> Arg {
        let value = Value::Bits(Bits::new(32, n.into()));
        Arg::In(Expr { kind: ExprKind::Const(value), ty: self.number, span })
    }

    /// The metadata that an expression lists.
    fn names(&mut self, function: Function, data: &Expr, list: &mut FieldList) {
        match &data.kind {
            ExprKind::Aggregate(elements) => elements.iter().for_each(|e| self.names(function, e, list)),
            ExprKind::Cast(inner) => self.names(function, inner, list),
            ExprKind::Read(place) => self.name(function, place, data.span, list),
            // There is nothing that it could be kept in.
            ExprKind::Const(_) => {}
            _ => self.refuse(data.span),
        }
    }

    fn name(&mut self, function: Function, place: &LValue, span: Span, list: &mut FieldList) {
        let var = match place.root {
            VarRef::Local(i) => self.scope.local.get(i as usize),
            VarRef::Outer(i) => self.scope.outer.get(i as usize),
        };
        let Some(var) = var else { return };
        // The packet has its headers when it is parsed again.
        if function != Function::CloneData && var.ty == self.slots[HEADERS] {
            return;
        }
        let Some(slot) = [META, STD].into_iter().find(|s| self.slots[*s] == var.ty) else {
            return self.refuse(span);
        };
        let mut path = Vec::new();
        let mut ty = var.ty;
        for step in &place.path {
            match step {
                Proj::Field(i) => {
                    path.push(*i);
                    ty = match self.program.types.repr_type(ty) {
                        Type::Tuple(tys) => tys.get(*i as usize).copied().unwrap_or(ty),
                        _ => self.program.types.struct_def(ty).map_or(ty, |d| d.fields[*i as usize].ty),
                    };
                }
                // A field is kept whole even if only some of its bits are listed.
                Proj::Slice { .. } => {}
                _ => return self.refuse(span),
            }
        }
        list.add(&self.program.types, ty, slot, &path);
        if slot == STD {
            list.remove(STD, self.fixed);
        }
    }

    fn refuse(&mut self, span: Span) {
        self.problems.push(Problem::at(
            span,
            "this is not metadata, so it cannot be kept for the copy: put it into a field of the metadata first, \
             mark that with @field_list, and call the ..._preserving_field_list form",
        ));
    }
}
