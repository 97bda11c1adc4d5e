//! Controls: the flow from one table or condition to the next.

use crate::words::{short, words};
use crate::{Diagram, Kind, Line, Shape};
use pointsman_frontend::ast::{
    ControlBody, DeclKind, Expr, ExprKind, Program, PropertyKind, Stmt, StmtKind, SwitchCase, TableDecl,
};
use pointsman_frontend::source::SourceMap;
use pointsman_ir::Span;

/// Statements in a row that are shown.
const MAX_LINES: usize = 4;

/// One diagram for each control with a body, in their order.
pub fn controls(program: &Program, sources: &SourceMap) -> Vec<Diagram> {
    let found = program.decls.iter().filter_map(|d| match &d.kind {
        DeclKind::Control(c) => c.body.as_ref().map(|b| (&c.name.name, b)),
        _ => None,
    });
    found.map(|(name, body)| control(name, body, sources)).collect()
}

/// Ends of the flow so far: nodes, and the label of the edge that leaves each.
type Ends = Vec<(usize, String)>;

/// One end, whose edge has no label.
fn only(node: usize) -> Ends {
    vec![(node, String::new())]
}

struct Flow<'a> {
    d: Diagram,
    sources: &'a SourceMap,
    tables: Vec<&'a TableDecl>,
    /// Ends by `return` and `exit`.
    leaving: Ends,
    /// Ends by `break` and `continue`, of the loop around.
    breaking: Ends,
    continuing: Ends,
}

fn control(name: &str, body: &ControlBody, sources: &SourceMap) -> Diagram {
    let tables = body.locals.iter().filter_map(|d| match &d.kind {
        DeclKind::Table(t) => Some(t),
        _ => None,
    });
    let mut flow = Flow {
        d: Diagram::new(Kind::Control, name),
        sources,
        tables: tables.collect(),
        leaving: Vec::new(),
        breaking: Vec::new(),
        continuing: Vec::new(),
    };
    let start = flow.d.node("apply", Shape::Terminal);
    let mut ends = flow.stmts(&body.apply.stmts, only(start));
    ends.append(&mut flow.leaving);
    let end = flow.d.node("end", Shape::Terminal);
    flow.connect(&ends, end);
    flow.d.done()
}

impl<'a> Flow<'a> {
    fn connect(&mut self, ends: &Ends, to: usize) {
        for (from, label) in ends {
            self.d.edge(*from, to, label, Line::Solid);
        }
    }

    /// A node that the flow enters; returns its end.
    fn step(&mut self, label: String, shape: Shape, ends: &Ends) -> usize {
        let node = self.d.node(label, shape);
        self.connect(ends, node);
        node
    }

    fn stmts(&mut self, list: &[Stmt], mut ends: Ends) -> Ends {
        let mut plain: Vec<Span> = Vec::new();
        for s in list {
            if self.is_plain(s) {
                if !matches!(s.kind, StmtKind::Empty) {
                    plain.push(s.span);
                }
                continue;
            }
            ends = self.code(&mut plain, ends);
            ends = self.stmt(s, ends);
        }
        self.code(&mut plain, ends)
    }

    /// Statements in a row as one node.
    fn code(&mut self, plain: &mut Vec<Span>, ends: Ends) -> Ends {
        if plain.is_empty() {
            return ends;
        }
        let shown = if plain.len() > MAX_LINES { MAX_LINES - 1 } else { plain.len() };
        let mut lines: Vec<String> = plain[..shown].iter().map(|s| words(self.sources, *s)).collect();
        if shown < plain.len() {
            lines.push(format!("{} more", plain.len() - shown));
        }
        plain.clear();
        only(self.step(lines.join("\n"), Shape::Code, &ends))
    }

    /// Whether a statement only computes: it does not apply anything and does not change the flow.
    fn is_plain(&self, s: &Stmt) -> bool {
        match &s.kind {
            StmtKind::Call(e) => applied(e).is_none(),
            StmtKind::Decl(_) | StmtKind::Assign { .. } | StmtKind::Empty => true,
            _ => false,
        }
    }

    fn stmt(&mut self, s: &Stmt, ends: Ends) -> Ends {
        match &s.kind {
            StmtKind::Call(e) => match applied(e) {
                Some(name) => only(self.apply(name, &ends)),
                None => ends,
            },
            StmtKind::Block(b) => self.stmts(&b.stmts, ends),
            StmtKind::If(c, then, otherwise) => self.condition(c, then, otherwise.as_deref(), ends),
            StmtKind::Switch { on, cases } => self.switch(on, cases, ends),
            StmtKind::For { init, cond, update, body } => {
                let ends = self.stmts(init, ends);
                let test = self.step(words(self.sources, cond.span), Shape::Choice, &ends);
                self.looped(test, body, update)
            }
            StmtKind::ForIn { var, over, body, .. } => {
                let label = short(&format!("for {} in {}", var.name, words(self.sources, over.span)));
                let test = self.step(label, Shape::Choice, &ends);
                self.looped(test, body, &[])
            }
            StmtKind::Return(_) | StmtKind::Exit => {
                let word = if matches!(s.kind, StmtKind::Exit) { "exit" } else { "return" };
                let node = self.step(word.into(), Shape::Code, &ends);
                self.leaving.extend(only(node));
                Vec::new()
            }
            StmtKind::Break => {
                self.breaking.extend(ends);
                Vec::new()
            }
            StmtKind::Continue => {
                self.continuing.extend(ends);
                Vec::new()
            }
            StmtKind::Decl(_) | StmtKind::Assign { .. } | StmtKind::Empty => ends,
        }
    }

    fn looped(&mut self, test: usize, body: &Stmt, update: &[Stmt]) -> Ends {
        let outer = (std::mem::take(&mut self.breaking), std::mem::take(&mut self.continuing));
        let mut ends = self.stmts(std::slice::from_ref(body), vec![(test, "true".into())]);
        ends.append(&mut self.continuing);
        let ends = self.stmts(update, ends);
        self.connect(&ends, test);
        let mut out = std::mem::replace(&mut self.breaking, outer.0);
        self.continuing = outer.1;
        out.push((test, "false".into()));
        out
    }

    /// A table, or an instance or type of a control.
    fn apply(&mut self, name: &str, ends: &Ends) -> usize {
        match self.tables.iter().find(|t| t.name.name == name) {
            None => self.step(name.to_string(), Shape::Block, ends),
            Some(t) => {
                let mut label = name.to_string();
                for p in &t.properties {
                    if let PropertyKind::Key(keys) = &p.kind {
                        for k in keys.iter().take(MAX_LINES) {
                            let key = format!("{}: {}", words(self.sources, k.expr.span), k.match_kind.name);
                            label += &format!("\n{}", short(&key));
                        }
                        if keys.len() > MAX_LINES {
                            label += &format!("\n{} more", keys.len() - MAX_LINES);
                        }
                    }
                }
                self.step(label, Shape::Table, ends)
            }
        }
    }

    fn condition(&mut self, c: &Expr, then: &Stmt, otherwise: Option<&Stmt>, ends: Ends) -> Ends {
        // `if (t.apply().hit)` is a table with two ways out.
        let (node, yes, no) = match result(c) {
            Some((name, true)) => (self.apply(name, &ends), "hit", "miss"),
            Some((name, false)) => (self.apply(name, &ends), "miss", "hit"),
            None => (self.step(words(self.sources, c.span), Shape::Choice, &ends), "true", "false"),
        };
        let mut out = self.stmts(std::slice::from_ref(then), vec![(node, yes.into())]);
        match otherwise {
            Some(o) => out.extend(self.stmts(std::slice::from_ref(o), vec![(node, no.into())])),
            None => out.push((node, no.into())),
        }
        out
    }

    fn switch(&mut self, on: &Expr, cases: &[SwitchCase], ends: Ends) -> Ends {
        let table = match &on.kind {
            ExprKind::Member(base, name) if name.name == "action_run" => applied(base),
            _ => None,
        };
        let node = match table {
            Some(name) => self.apply(name, &ends),
            None => self.step(words(self.sources, on.span), Shape::Choice, &ends),
        };
        let mut out: Ends = Vec::new();
        let mut labels: Vec<String> = Vec::new();
        let mut default = false;
        for case in cases {
            default |= matches!(case.label.kind, ExprKind::Default);
            labels.push(words(self.sources, case.label.span));
            let Some(body) = &case.body else { continue };
            let label = short(&std::mem::take(&mut labels).join(", "));
            out.extend(self.stmts(&body.stmts, vec![(node, label)]));
        }
        if !default {
            out.push((node, "default".into()));
        }
        out
    }
}

/// The name that `name.apply(...)` applies: of an instance, a table or a type.
fn applied(e: &Expr) -> Option<&str> {
    let ExprKind::Call { callee, .. } = &e.kind else { return None };
    match &callee.kind {
        ExprKind::Member(base, m) if m.name == "apply" => match &base.kind {
            ExprKind::Name(path) => Some(&path.name.name),
            ExprKind::Type(t) => match &t.kind {
                pointsman_frontend::ast::TypeExprKind::Named(path)
                | pointsman_frontend::ast::TypeExprKind::Specialized(path, _) => Some(&path.name.name),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// The table of `t.apply().hit`, and whether true means hit.
fn result(e: &Expr) -> Option<(&str, bool)> {
    match &e.kind {
        ExprKind::Member(base, m) if m.name == "hit" => Some((applied(base)?, true)),
        ExprKind::Member(base, m) if m.name == "miss" => Some((applied(base)?, false)),
        ExprKind::Unary(pointsman_frontend::ast::UnaryOp::Not, inner) => {
            result(inner).map(|(name, hit)| (name, !hit))
        }
        _ => None,
    }
}
