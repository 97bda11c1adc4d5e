//! [`Flow`] through whole blocks: first those of the packages that `main` is made of, in their order, with the headers
//! that the parser leaves; then each block, function and action by itself.

use super::OUT_NOT_SET;
use super::bounds::Bounds;
use super::elements::{Elements, loops};
use super::facts::Facts;
use super::flow::{Flow, MAX_STEPS, Report, Unit, join};
use super::headers::Headers;
use super::state::{Bad, Place, State, Value};
use super::valid::Names;
use crate::ast::Direction;
use crate::check::tree::{Block, Body, Call, Callee, Expr, New, Param, Stmt, Target, Transition, Tree};
use crate::check::types::{Kind, Ty};
use crate::diag::Diagnostic;
use pointsman_ir::Span;
use std::collections::BTreeSet;

/// Maximum iterations over the states of a parser until nothing changes.
const MAX_ROUNDS: usize = 50;
/// Iterations after which values that still grow are taken as unbounded.
const WIDEN_AFTER: usize = 4;
/// Calls inside of calls that are followed.
const MAX_DEPTH: usize = 30;

pub fn lint(tree: &mut Tree, is_own: &dyn Fn(Span) -> bool, out: &mut Vec<Diagnostic>) {
    let mut flow = Flow {
        tree,
        out,
        report: Report::Headers,
        quiet: false,
        steps: 0,
        depth: 0,
        names: Names::default(),
        facts: Facts::default(),
        elements: Elements::default(),
        covered: BTreeSet::new(),
        ends: None,
        exits: None,
        breaks: Vec::new(),
        now: None,
    };
    if let Some(main) = flow.tree.main {
        let new = flow.tree.instances[main].new.clone();
        flow.package(&new);
    }
    flow.steps = 0;
    // Blocks follow those that they call.
    for i in (0..flow.tree.blocks.len()).rev() {
        if is_own(flow.tree.blocks[i].span) {
            let block = flow.tree.blocks[i].clone();
            flow.alone(
                Unit::Block(i),
                &block.params,
                if block.is_parser { "parser" } else { "control" },
                |f| {
                    f.body(i, &block);
                },
            );
        }
    }
    for i in 0..flow.tree.functions.len() {
        if is_own(flow.tree.functions[i].sig.span) {
            let (params, body) =
                (flow.tree.functions[i].sig.params.clone(), flow.tree.functions[i].body.clone());
            flow.alone(Unit::Function(i), &params, "function", |f| f.returning(&body));
        }
    }
    for i in 0..flow.tree.actions.len() {
        // Those of controls are looked at where they run.
        if !flow.tree.actions[i].in_block && is_own(flow.tree.actions[i].sig.span) {
            let (params, body) = (flow.tree.actions[i].sig.params.clone(), flow.tree.actions[i].body.clone());
            flow.alone(Unit::Action(i), &params, "action", |f| f.returning(&body));
        }
    }
    let rest = flow.elements.finish();
    out.extend(rest);
}

/// Bounds that rose since `old` are taken as unknown.
fn widen(states: &mut [Option<State>], old: &[Option<State>]) {
    for (state, old) in states.iter_mut().zip(old) {
        if let (Some(state), Some(old)) = (state, old) {
            state.bounds.widen(&old.bounds);
        }
    }
}

impl Flow<'_> {
    /// The blocks of a package, one after the other: they pass structs on by their types.
    fn package(&mut self, new: &New) {
        let parts: Vec<New> = new.args.iter().flatten().filter_map(|e| self.tree.made(e).cloned()).collect();
        for part in &parts {
            if matches!(self.tree.tys.get(part.ty), Kind::Package(..)) {
                self.package(part);
            }
        }
        self.names = Names::default();
        self.facts = Facts::open();
        // What the last parser fills, the headers after it, and those after the block before.
        let mut passed: Vec<(Ty, Place)> = Vec::new();
        let (mut parsed, mut last) = (Headers::default(), Headers::default());
        let mut bounds = Bounds::default();
        for part in &parts {
            let Kind::Block(index, args) = self.tree.tys.get(part.ty).clone() else { continue };
            let block = self.tree.blocks[index].clone();
            if block.body.is_none() {
                continue;
            }
            let headers = if block.is_parser { Headers::default() } else { last.next_block(&parsed) };
            self.now = Some(State::with(headers, std::mem::take(&mut bounds)));
            for p in &block.params {
                let ty = self.tree.tys.subst(p.ty, &block.type_params, &args);
                let own = Place { var: p.var, fields: Vec::new() };
                let is_out = p.direction == Direction::Out;
                let known = passed.iter().find(|(t, _)| *t == ty).map(|(_, place)| place.clone());
                if is_out || block.is_parser || known.is_none() {
                    self.names.release(p.var);
                    self.unknown(std::slice::from_ref(p));
                    if is_out {
                        if block.is_parser {
                            self.fills(ty);
                        }
                        self.all_invalid(own.clone(), ty);
                    }
                    if block.is_parser {
                        passed.retain(|(t, _)| *t != ty);
                        passed.push((ty, own));
                        self.facts.open = self.facts.open && !is_out;
                    }
                } else if let Some(place) = known {
                    self.names.bind(p.var, place);
                }
            }
            self.exits = None;
            self.body(index, &block);
            let mut end = self.now.take();
            join(&mut end, self.exits.take());
            let end = end.unwrap_or_default();
            (last, bounds) = (end.headers, end.bounds);
            if block.is_parser {
                parsed = last.clone();
            }
        }
    }

    /// A block, function or action, whoever calls it.
    fn alone(&mut self, unit: Unit, params: &[Param], what: &str, run: impl FnOnce(&mut Self)) {
        self.report = if self.covered.contains(&unit) { Report::Values } else { Report::All };
        self.names = Names::default();
        self.facts = Facts::open();
        self.now = Some(State::default());
        self.unknown(params);
        for p in params.iter().filter(|p| p.direction == Direction::Out) {
            let v = Value::new(self.tree, p.ty);
            if let Some(now) = &mut self.now {
                now.set_var(p.var, v);
            }
            self.all_invalid(Place { var: p.var, fields: Vec::new() }, p.ty);
        }
        run(self);
        let end = self.now.take();
        self.leave(params, what, end);
    }

    /// At the end of `what`, all `out` parameters should be set.
    fn leave(&mut self, params: &[Param], what: &str, state: Option<State>) {
        let Some(state) = state else { return };
        for p in params.iter().filter(|p| p.direction == Direction::Out) {
            let how = match state.var(p.var).missing() {
                Some(Bad::Unset) => "may not be set",
                Some(_) => "may be set only in part",
                None => continue,
            };
            let message = format!("`out` parameter `{}` {how} when the {what} ends", p.name);
            self.say(
                Diagnostic::warning(OUT_NOT_SET, p.span, message)
                    .label("declared here")
                    .help("set it on every path"),
            );
        }
    }

    /// The body of a block, whose parameters have their values.
    fn body(&mut self, index: usize, block: &Block) {
        let Some(body) = &block.body else { return };
        self.covered.insert(Unit::Block(index));
        let ends = self.ends.take();
        self.stmts(&body.locals);
        match block.is_parser {
            true => self.machine(index, body),
            false => self.stmts(&body.apply),
        }
        let back = std::mem::replace(&mut self.ends, ends);
        join(&mut self.now, back);
    }

    /// Statements that `return` leaves.
    fn returning(&mut self, body: &[Stmt]) {
        let ends = self.ends.take();
        self.stmts(body);
        let back = std::mem::replace(&mut self.ends, ends);
        join(&mut self.now, back);
    }

    /// The states of a parser, until it accepts.
    fn machine(&mut self, index: usize, body: &Body) {
        let start = self.now.take();
        let quiet = std::mem::replace(&mut self.quiet, true);
        let mut before = Vec::new();
        // Until nothing changes, without reports; again with all that is assigned somewhere; then once more.
        for _ in 0..2 {
            before = vec![None; body.states.len()];
            if let Some(first) = before.first_mut() {
                first.clone_from(&start);
            }
            for round in 0..MAX_ROUNDS {
                let old = before.clone();
                self.states(index, body, &mut before);
                if before == old {
                    break;
                }
                if round >= WIDEN_AFTER {
                    widen(&mut before, &old);
                }
            }
        }
        self.quiet = quiet;
        self.now = self.states(index, body, &mut before);
    }

    /// Goes through all states once; returns the state at `accept`.
    fn states(&mut self, index: usize, body: &Body, before: &mut [Option<State>]) -> Option<State> {
        let mut accepted = None;
        let around = self.elements.in_loop;
        for ((i, s), again) in body.states.iter().enumerate().zip(loops(&body.states)) {
            self.elements.in_loop = around || again;
            self.now = before[i].clone();
            if self.now.is_none() {
                continue;
            }
            self.stmts(&s.body);
            let mut goto = |target: &Target, state: Option<State>| match target {
                Target::Accept => {
                    let mut state = state;
                    state.iter_mut().for_each(|n| n.headers.accept(s.name_span));
                    join(&mut accepted, state);
                }
                Target::Reject => {}
                Target::State(k) => {
                    if let Some(b) = before.get_mut(*k) {
                        join(b, state);
                    }
                }
            };
            match &s.next {
                Transition::Goto(t) => goto(t, self.now.take()),
                Transition::Select { on, cases } => {
                    on.iter().for_each(|e| self.expr(e));
                    self.chosen(on, (index, i));
                    for (keys, t) in cases {
                        keys.iter().for_each(|k| self.key_set(k));
                        let before = self.now.clone();
                        self.select_bounds(on, keys);
                        goto(t, std::mem::replace(&mut self.now, before));
                    }
                }
            }
        }
        self.elements.in_loop = around;
        accepted
    }

    /// A parser state chooses by `on`.
    fn chosen(&mut self, on: &[Expr], at: (usize, usize)) {
        on.iter().for_each(|e| self.facts.select(self.tree, at, e));
        self.imply(on.iter(), Some(at));
    }

    /// Runs the body of an action, whose parameters have their values, with the state of the control's variables.
    pub(super) fn action(&mut self, index: usize) {
        self.covered.insert(Unit::Action(index));
        if self.depth < MAX_DEPTH && self.steps < MAX_STEPS {
            self.depth += 1;
            let body = self.tree.actions[index].body.clone();
            self.returning(&body);
            self.depth -= 1;
        }
    }

    /// Runs what a call calls; false if what happens to headers in its arguments is not known then.
    pub(super) fn callee(&mut self, c: &Call) -> bool {
        if self.depth >= MAX_DEPTH || self.steps >= MAX_STEPS {
            return false;
        }
        self.depth += 1;
        let followed = match &c.callee {
            Callee::Action(a) => {
                let params = self.tree.actions[*a].sig.params.clone();
                self.bind(&params, &c.args);
                self.action(*a);
                true
            }
            Callee::Function(f) => {
                let params = self.tree.functions[*f].sig.params.clone();
                let followed = self.bind(&params, &c.args);
                if followed {
                    self.covered.insert(Unit::Function(*f));
                    let body = self.tree.functions[*f].body.clone();
                    self.returning(&body);
                }
                followed
            }
            Callee::Block(e) => self.inner(e, c),
            Callee::ExternFn(f) => {
                // Whatever an architecture calls it.
                if self.tree.extern_fns[*f].name.contains("drop")
                    && let Some(now) = &mut self.now
                {
                    now.headers.drop_packet();
                }
                false
            }
            _ => false,
        };
        self.depth -= 1;
        followed
    }

    /// `apply` of a parser or control inside another.
    fn inner(&mut self, instance: &Expr, c: &Call) -> bool {
        let Some(new) = self.tree.made(instance) else { return false };
        let Kind::Block(index, _) = self.tree.tys.get(new.ty).clone() else { return false };
        let block = self.tree.blocks[index].clone();
        if block.body.is_none() {
            return false;
        }
        self.bind(&block.params, &c.args);
        let report = self.report;
        if report == Report::All {
            self.report = Report::Headers;
        }
        self.body(index, &block);
        self.report = report;
        true
    }
}
