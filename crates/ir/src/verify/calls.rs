//! Calls: permitted callees, fitting arguments, and no recursion.

use super::code::{Code, Kind};
use super::expr::Use;
use super::{MAX_NESTING, Report, same};
use crate::program::{Action, Direction, Param, Program};
use crate::stmt::{Arg, Callee, LValue};
use crate::types::{Type, TypeId};

/// Something that is called, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Parser(usize),
    Control(usize),
    Action(usize),
    Function(usize),
    Table(usize),
}

/// The results of checking a callable.
#[derive(Default)]
pub(super) struct Work {
    /// Its deepest level.
    pub(super) deepest: usize,
    /// Its callees, and the level of each call.
    pub(super) calls: Vec<(Node, usize)>,
}

impl Code<'_, '_> {
    pub(super) fn call(
        &mut self,
        result: Option<&LValue>,
        callee: Callee,
        type_args: &[TypeId],
        args: &[Arg],
    ) {
        let program = self.program();
        for ty in type_args {
            if !program.types.contains(*ty) {
                self.error(format!("there is no type {}", ty.0));
            }
        }
        let returns = match callee {
            Callee::Extern { function, instance } => {
                self.extern_call(function.index(), instance.map(|i| i.index()), args);
                if let Some(lv) = result {
                    self.place(lv, Use::Write);
                }
                return;
            }
            Callee::Action(id) => {
                let Some(action) = program.actions.get(id.index()) else {
                    return self.error(format!("there is no action {}", id.0));
                };
                self.reaches(action);
                self.calls(Node::Action(id.index()));
                self.args(&action.frame.params, args);
                None
            }
            Callee::Function(id) => {
                let Some(function) = program.functions.get(id.index()) else {
                    return self.error(format!("there is no function {}", id.0));
                };
                self.calls(Node::Function(id.index()));
                self.args(&function.frame.params, args);
                Some(function.returns).filter(|ty| *program.types.get(*ty) != Type::Void)
            }
            Callee::Control(id) => {
                let Some(control) = program.controls.get(id.index()) else {
                    return self.error(format!("there is no control {}", id.0));
                };
                if !matches!(self.kind, Kind::Control(_)) {
                    self.error("a control is applied outside of a control");
                }
                self.calls(Node::Control(id.index()));
                self.args(&control.frame.params, args);
                None
            }
            Callee::Parser(id) => {
                let Some(parser) = program.parsers.get(id.index()) else {
                    return self.error(format!("there is no parser {}", id.0));
                };
                if self.kind != Kind::Parser {
                    self.error("a parser is applied outside of a parser");
                }
                self.calls(Node::Parser(id.index()));
                self.args(&parser.frame.params, args);
                None
            }
        };
        if let Some(lv) = result {
            self.result(lv, returns);
        }
    }

    /// The place of a call's result fits what the callee returns, if anything.
    fn result(&mut self, lv: &LValue, returns: Option<TypeId>) {
        match returns {
            None => self.error("the result of a call that returns nothing"),
            Some(ty) if self.place(lv, Use::Write) && !same(self.types(), ty, lv.ty) => {
                let (is, should) = (self.name(ty), self.name(lv.ty));
                self.error(format!("the result is {is} instead of {should}"));
            }
            Some(_) => {}
        }
    }

    /// The action can be called from here.
    fn reaches(&mut self, action: &Action) {
        let here = match self.kind {
            Kind::Control(c) => Some(Some(c)),
            Kind::Action(c) => Some(c),
            _ => None,
        };
        match (here, action.control) {
            (None, _) => self.error("an action is called outside of a control or action"),
            (Some(here), Some(c)) if here != Some(c.index()) => {
                self.error(format!("the action {} is of another control", action.name));
            }
            _ => {}
        }
    }

    fn extern_call(&mut self, function: usize, instance: Option<usize>, args: &[Arg]) {
        let program = self.program();
        let Some(function) = program.extern_fns.get(function) else {
            return self.error(format!("there is no extern function {function}"));
        };
        let object = match instance {
            Some(i) => match program.externs.get(i) {
                Some(e) => Some(&e.object),
                None => return self.error(format!("there is no extern {i}")),
            },
            None => None,
        };
        if object != function.object.as_ref() {
            self.error(format!("{} is not a method of the object it is called on", function.name));
        }
        if args.len() != function.params.len() {
            let (n, should) = (args.len(), function.params.len());
            self.error(format!("{} is called with {n} arguments instead of {should}", function.name));
        }
        for (n, arg) in args.iter().enumerate() {
            self.at("arg", n, |this| match arg {
                Arg::In(e) => {
                    this.expr(e);
                }
                Arg::Out(lv) | Arg::InOut(lv) => {
                    this.place(lv, Use::Write);
                }
            });
        }
    }

    /// The arguments are right, as many as the parameters and passed as those want it.
    pub(super) fn args(&mut self, params: &[Param], args: &[Arg]) {
        if args.len() != params.len() {
            return self.error(format!("{} arguments instead of {}", args.len(), params.len()));
        }
        for (n, (param, arg)) in params.iter().zip(args).enumerate() {
            self.at("arg", n, |this| this.arg(param, arg));
        }
    }

    fn arg(&mut self, param: &Param, arg: &Arg) {
        let (lv, direction) = match arg {
            Arg::In(e) => {
                if !matches!(param.direction, Direction::In | Direction::None) {
                    self.error(format!("{} wants a place", param.name));
                }
                return self.expr_of(e, param.ty, "the argument");
            }
            Arg::Out(lv) => (lv, Direction::Out),
            Arg::InOut(lv) => (lv, Direction::InOut),
        };
        if direction != param.direction {
            self.error(format!("{} is passed as {direction:?} instead of {:?}", param.name, param.direction));
        }
        if self.place(lv, Use::Write) && !same(self.types(), lv.ty, param.ty) {
            let (is, should) = (self.name(lv.ty), self.name(param.ty));
            self.error(format!("the argument is {is} instead of {should}"));
        }
    }
}

/// The call graph.
pub(super) struct Graph<'a> {
    program: &'a Program,
    /// First node number of parsers, controls, actions, functions, tables.
    starts: [usize; 5],
    work: Vec<Work>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        let counts =
            [program.parsers.len(), program.controls.len(), program.actions.len(), program.functions.len()];
        let mut starts = [0; 5];
        for (i, count) in counts.iter().enumerate() {
            starts[i + 1] = starts[i] + count;
        }
        let nodes = starts[4] + program.tables.len();
        Graph { program, starts, work: (0..nodes).map(|_| Work::default()).collect() }
    }

    fn number(&self, node: Node) -> usize {
        match node {
            Node::Parser(i) => self.starts[0] + i,
            Node::Control(i) => self.starts[1] + i,
            Node::Action(i) => self.starts[2] + i,
            Node::Function(i) => self.starts[3] + i,
            Node::Table(i) => self.starts[4] + i,
        }
    }

    fn name(&self, number: usize) -> String {
        let p = self.program;
        let names: Vec<String> = p
            .parsers
            .iter()
            .map(|x| format!("parser {}", x.name))
            .chain(p.controls.iter().map(|x| format!("control {}", x.name)))
            .chain(p.actions.iter().map(|x| format!("action {}", x.name)))
            .chain(p.functions.iter().map(|x| format!("function {}", x.name)))
            .chain(p.tables.iter().map(|x| format!("table {}", x.name)))
            .collect();
        names.get(number).cloned().unwrap_or_default()
    }

    pub(super) fn add(&mut self, node: Node, work: Work) {
        let n = self.number(node);
        self.work[n] = work;
    }

    /// No recursion, and no chain of calls that is nested too deep (P4_16 section 6.8: recursion is not allowed).
    pub(super) fn check(&self, report: &mut Report<'_>) {
        let n = self.work.len();
        let callees = |i: usize| {
            self.work[i].calls.iter().map(|(node, at)| (self.number(*node), *at)).filter(|(c, _)| *c < n)
        };
        // Leaves first: a node is done when all its callees are.
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); n];
        let mut open: Vec<usize> = (0..n).map(|i| callees(i).count()).collect();
        for i in 0..n {
            callees(i).for_each(|(c, _)| callers[c].push(i));
        }
        let mut ready: Vec<usize> = (0..n).filter(|i| open[*i] == 0).collect();
        let mut total = vec![0usize; n];
        let mut done = vec![false; n];
        while let Some(i) = ready.pop() {
            done[i] = true;
            total[i] = callees(i).map(|(c, at)| at + total[c]).max().unwrap_or(0).max(self.work[i].deepest);
            for caller in &callers[i] {
                open[*caller] -= 1;
                if open[*caller] == 0 {
                    ready.push(*caller);
                }
            }
        }
        for i in 0..n {
            // A node that only leads to a cycle is not to blame for it.
            if !done[i] && self.reaches_itself(i, n) {
                report.add(&self.name(i), "it calls itself, directly or through others");
            }
            if total[i] > MAX_NESTING {
                let total = total[i];
                report.add(
                    &self.name(i),
                    format!("its calls are nested {total} deep, more than {MAX_NESTING}"),
                );
            }
        }
    }

    fn reaches_itself(&self, start: usize, n: usize) -> bool {
        let mut seen = vec![false; n];
        let mut todo = vec![start];
        while let Some(i) = todo.pop() {
            for (node, _) in &self.work[i].calls {
                let c = self.number(*node);
                if c == start {
                    return true;
                }
                if c < n && !seen[c] {
                    seen[c] = true;
                    todo.push(c);
                }
            }
        }
        false
    }
}
