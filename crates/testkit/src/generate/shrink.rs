//! Smaller programs: a failing one is to be read by people.

use super::tree::*;
use num_bigint::BigInt;

/// Every program that is `p` with one thing less, the largest things first. Many are no better, some no longer valid: the
/// caller keeps those that still fail.
pub fn smaller(p: &Program, try_one: &mut dyn FnMut(&Program) -> bool) -> Option<Program> {
    let mut s = Shrinker { try_one };
    s.program(p)
}

struct Shrinker<'a> {
    try_one: &'a mut dyn FnMut(&Program) -> bool,
}

/// Every list of statements in the program, by number.
fn bodies(p: &mut Program) -> Vec<&mut Vec<Stmt>> {
    let mut out = Vec::new();
    let mut tops: Vec<&mut Vec<Stmt>> = Vec::new();
    for f in &mut p.functions {
        tops.push(&mut f.body);
    }
    for parser in &mut p.parsers {
        tops.extend(parser.states.iter_mut().map(|s| &mut s.body));
    }
    for c in &mut p.controls {
        tops.extend(c.actions.iter_mut().map(|a| &mut a.body));
        tops.push(&mut c.body);
    }
    tops.push(&mut p.deparser);
    out.extend(tops);
    out
}

/// The lists inside a statement.
fn inner(s: &mut Stmt) -> Vec<&mut Vec<Stmt>> {
    match s {
        Stmt::If(_, a, b) => vec![a, b],
        Stmt::Block(b)
        | Stmt::ForCount(_, _, b)
        | Stmt::ForRange(_, _, _, b)
        | Stmt::ForList(_, _, b)
        | Stmt::ForStack(_, _, b) => vec![b],
        Stmt::Switch(_, cases, default) => {
            cases.iter_mut().filter_map(|c| c.1.as_mut()).chain(default.as_mut()).collect()
        }
        Stmt::SwitchAction(_, cases, default) => {
            cases.iter_mut().filter_map(|c| c.1.as_mut()).chain(default.as_mut()).collect()
        }
        _ => Vec::new(),
    }
}

/// Visits every list of statements; `change` counts down and returns whether it did its work.
fn visit(list: &mut Vec<Stmt>, change: &mut dyn FnMut(&mut Vec<Stmt>) -> bool) -> bool {
    if change(list) {
        return true;
    }
    list.iter_mut().any(|s| inner(s).into_iter().any(|l| visit(l, change)))
}

/// The expressions that a statement begins with.
fn exprs(s: &mut Stmt) -> Vec<&mut Expr> {
    fn of_args(args: &mut [Arg]) -> Vec<&mut Expr> {
        args.iter_mut().filter_map(|a| if let Arg::In(e) = a { Some(e) } else { None }).collect()
    }
    match s {
        Stmt::Declare(_, Some(e))
        | Stmt::Assign(_, e)
        | Stmt::AssignSlice(_, _, _, e)
        | Stmt::Update(_, _, e)
        | Stmt::If(e, ..)
        | Stmt::Switch(e, ..)
        | Stmt::Return(Some(e))
        | Stmt::Count(_, e)
        | Stmt::RegisterRead(_, _, e)
        | Stmt::Advance(e)
        | Stmt::Extract(_, Some(e))
        | Stmt::ForCount(_, e, _)
        | Stmt::Verify(e, _) => vec![e],
        Stmt::RegisterWrite(_, a, b) | Stmt::ForRange(_, a, b, _) => vec![a, b],
        Stmt::ForList(_, list, _) => list.iter_mut().collect(),
        Stmt::Call(_, args) | Stmt::Action(_, args) | Stmt::Control(_, args) | Stmt::Parser(_, args) => {
            of_args(args)
        }
        _ => Vec::new(),
    }
}

/// Simpler expressions of the same type.
fn simpler(e: &Expr) -> Vec<Expr> {
    let mut out = Vec::new();
    let parts: Vec<&Expr> = match &e.kind {
        Kind::Unary(_, a) | Kind::Cast(a) | Kind::Slice(a, ..) => vec![a],
        Kind::Binary(_, a, b) => vec![a, b],
        Kind::Mux(c, a, b) => vec![c, a, b],
        _ => vec![],
    };
    out.extend(
        parts
            .iter()
            .filter(|p| p.ty == e.ty && !matches!(p.kind, Kind::Untyped(_) | Kind::Known(_)))
            .map(|p| (*p).clone()),
    );
    let constant = match &e.ty {
        Ty::Bool => Some(Kind::Bool(false)),
        Ty::Bit(_) | Ty::Int(_) => Some(Kind::Num(BigInt::ZERO)),
        Ty::Enum(_) | Ty::Ser(_) | Ty::Error => Some(Kind::Member(0)),
        _ => None,
    };
    let already = matches!(e.kind, Kind::Bool(_) | Kind::Num(_) | Kind::Member(_) | Kind::Untyped(_));
    out.extend(constant.filter(|_| !already).map(|kind| Expr { ty: e.ty.clone(), kind }));
    // And the same inside.
    let rebuild = |i: usize, new: Expr| {
        let mut copy = e.clone();
        match &mut copy.kind {
            Kind::Unary(_, a) | Kind::Cast(a) | Kind::Slice(a, ..) => **a = new,
            Kind::Binary(_, a, b) => **if i == 0 { a } else { b } = new,
            Kind::Mux(c, a, b) => **[c, a, b][i] = new,
            Kind::Call(_, args) => {
                if let Some(Arg::In(a)) = args.get_mut(i) {
                    *a = new;
                }
            }
            Kind::Aggregate(list, _) => list[i] = new,
            _ => {}
        }
        copy
    };
    let inside: Vec<(usize, &Expr)> = match &e.kind {
        Kind::Call(_, args) => {
            let ins = args.iter().enumerate();
            ins.filter_map(|(i, a)| if let Arg::In(e) = a { Some((i, e)) } else { None }).collect()
        }
        Kind::Aggregate(list, _) => list.iter().enumerate().collect(),
        _ => parts.into_iter().enumerate().collect(),
    };
    for (i, part) in inside {
        out.extend(simpler(part).into_iter().map(|new| rebuild(i, new)));
    }
    out
}

/// Removes an entry of a table, or a case of a select: the `i`th of all.
fn without_entry(p: &mut Program, i: usize) -> bool {
    let mut left = i;
    for t in p.controls.iter_mut().flat_map(|c| &mut c.tables) {
        for list in [&mut t.entries, &mut t.added] {
            if left < list.len() {
                list.remove(left);
                return true;
            }
            left -= list.len();
        }
    }
    for s in p.parsers.iter_mut().flat_map(|p| &mut p.states) {
        if left < s.cases.len() {
            s.cases.remove(left);
            if s.cases.is_empty() {
                s.on.clear();
                s.otherwise = s.otherwise.or(Some(Next::Accept));
            }
            return true;
        }
        left -= s.cases.len();
    }
    false
}

/// Removes the last one of a kind of things, so that the others keep their numbers; `i` is the kind.
fn without_last(p: &mut Program, i: usize) -> bool {
    let n = p.controls.len();
    if i < n * 6 {
        let c = &mut p.controls[i / 6];
        match i % 6 {
            0 => drop(c.tables.pop()),
            1 => drop(c.actions.pop()),
            2 => drop(c.locals.pop()),
            3 => drop(c.instances.pop()),
            4 => drop(c.registers.pop()),
            _ => drop(c.counters.pop()),
        }
        return true;
    }
    match i - n * 6 {
        0 => drop(p.functions.pop()),
        1 if p.parsers.len() > 1 => drop(p.parsers.remove(0)),
        2 if p.controls.len() > 2 && p.controls.iter().all(|c| c.instances.is_empty()) => {
            drop(p.controls.remove(0));
        }
        3 => drop(p.structs[1].pop()),
        4 => drop(p.structs[0].pop()),
        5 => drop(p.sers.pop()),
        6 => drop(p.enums.pop()),
        7 => drop(p.headers.pop()),
        8 => drop(p.unions.pop()),
        9 if p.structs.len() > 3 => drop(p.structs.pop()),
        k if k < 10 => {}
        k => {
            let parsers = p.parsers.len();
            if k - 10 >= parsers {
                return false;
            }
            let parser = &mut p.parsers[k - 10];
            if parser.states.len() > 1 {
                parser.states.pop();
            } else {
                parser.locals.pop();
            }
        }
    }
    true
}

impl Shrinker<'_> {
    fn accept(&mut self, p: Program) -> Option<Program> {
        (self.try_one)(&p).then_some(p)
    }

    /// Applies `change` with 0, 1, 2 ... until it returns that the place does not exist.
    fn each(&mut self, p: &Program, change: &dyn Fn(&mut Program, usize) -> bool) -> Option<Program> {
        for i in 0.. {
            let mut copy = p.clone();
            if !change(&mut copy, i) {
                return None;
            }
            if let Some(found) = self.accept(copy) {
                return Some(found);
            }
        }
        None
    }

    fn program(&mut self, p: &Program) -> Option<Program> {
        let drop_packet = |p: &mut Program, i: usize| {
            i < p.packets.len() && p.packets.len() > 1 && {
                p.packets.remove(i);
                true
            }
        };
        if let Some(found) = self.each(p, &drop_packet) {
            return Some(found);
        }
        // Halves of bodies, then single statements, then a statement for the blocks inside it.
        for part in [2, 4, usize::MAX] {
            let drop_part = |p: &mut Program, i: usize| -> bool {
                let mut left = i;
                bodies(p).into_iter().any(|body| {
                    visit(body, &mut |list| {
                        let size = list.len().div_ceil(part).max(1);
                        let chunks = list.len().div_ceil(size);
                        if left < chunks {
                            let from = left * size;
                            list.drain(from..(from + size).min(list.len()));
                            return true;
                        }
                        left -= chunks;
                        false
                    })
                })
            };
            if let Some(found) = self.each(p, &drop_part) {
                return Some(found);
            }
        }
        let unwrap = |p: &mut Program, i: usize| -> bool {
            let mut left = i;
            bodies(p).into_iter().any(|body| {
                visit(body, &mut |list| {
                    for at in 0..list.len() {
                        let blocks: Vec<Vec<Stmt>> =
                            inner(&mut list[at]).into_iter().map(|b| b.clone()).collect();
                        if left < blocks.len() {
                            list.splice(at..=at, blocks[left].clone());
                            return true;
                        }
                        left -= blocks.len();
                    }
                    false
                })
            })
        };
        if let Some(found) = self.each(p, &unwrap) {
            return Some(found);
        }
        self.blocks(p).or_else(|| self.expressions(p))
    }

    /// Entries, cases, tables, actions, locals, states.
    fn blocks(&mut self, p: &Program) -> Option<Program> {
        self.each(p, &without_entry).or_else(|| {
            // A step that pops nothing is not progress.
            let before = format!("{p:?}").len();
            let mut once = |p: &Program| format!("{p:?}").len() < before && (self.try_one)(p);
            let mut inner = Shrinker { try_one: &mut once };
            inner.each(p, &without_last)
        })
    }

    fn expressions(&mut self, p: &Program) -> Option<Program> {
        let change = |p: &mut Program, i: usize| -> bool {
            let mut left = i;
            bodies(p).into_iter().any(|body| {
                visit(body, &mut |list| {
                    for s in list.iter_mut() {
                        for e in exprs(s) {
                            let mut options = simpler(e);
                            if left < options.len() {
                                *e = options.swap_remove(left);
                                return true;
                            }
                            left -= options.len();
                        }
                    }
                    false
                })
            })
        };
        let keys = |p: &mut Program, i: usize| -> bool {
            let mut left = i;
            let tables =
                p.controls.iter_mut().flat_map(|c| &mut c.tables).flat_map(|t| &mut t.keys).map(|k| &mut k.0);
            for e in tables {
                let mut options = simpler(e);
                if left < options.len() {
                    *e = options.swap_remove(left);
                    return true;
                }
                left -= options.len();
            }
            for c in &mut p.controls {
                for (_, e) in &mut c.locals {
                    let Some(e) = e else { continue };
                    let mut options = simpler(e);
                    if left < options.len() {
                        *e = options.swap_remove(left);
                        return true;
                    }
                    left -= options.len();
                }
            }
            false
        };
        self.each(p, &change).or_else(|| self.each(p, &keys))
    }
}
