//! Elements of header stacks and members of header unions in [`Flow`] that nothing in the program makes valid. Which of
//! them are valid where is not followed, so one that is made valid anywhere, or asked for, is not reported.

use super::INVALID_HEADER;
use super::bounds::known;
use super::facts::{Fact, fact};
use super::flow::Flow;
use super::valid::path;
use crate::ast::StructKind;
use crate::check::tree::{Expr, ExprKind, Target, Transition};
use crate::check::types::{Kind, Ty};
use crate::diag::Diagnostic;
use pointsman_ir::Span;
use std::collections::{BTreeMap, BTreeSet};

/// A stack with the index of an element, or a member of a union.
type Element = (Fact, Option<u128>);

/// What was seen of elements so far.
#[derive(Default)]
pub struct Elements {
    /// Made valid, or asked for.
    made: BTreeSet<Element>,
    /// Stacks of which any element may be valid, and members of unions.
    whole: BTreeSet<Fact>,
    /// Where the next element of a stack is extracted, outside loops.
    nexts: BTreeMap<Fact, BTreeSet<Span>>,
    /// Structs and unions that a parser of the program fills.
    filled: BTreeSet<usize>,
    /// Fields that are read or written, with what to report.
    pending: Vec<(Element, Diagnostic)>,
    /// The parser state that is looked at can come again.
    pub in_loop: bool,
}

impl Elements {
    fn is_made(&self, (fact, index): &Element) -> bool {
        let nexts = self.nexts.get(fact).map_or(0, BTreeSet::len) as u128;
        let known = matches!(fact, Fact::Field(d, _) if self.filled.contains(d));
        !known
            || self.whole.contains(fact)
            || self.made.contains(&(*fact, *index))
            || index.is_some_and(|i| i < nexts)
    }

    /// What remains to report at the end.
    pub fn finish(&mut self) -> Vec<Diagnostic> {
        let pending = std::mem::take(&mut self.pending);
        pending.into_iter().filter(|(element, _)| !self.is_made(element)).map(|(_, d)| d).collect()
    }
}

impl Flow<'_> {
    fn element_of(&self, header: &Expr) -> Option<Element> {
        match &header.kind {
            ExprKind::Index(stack, i) => Some((fact(self.tree, stack)?, Some(known(i)?))),
            ExprKind::Field(b, _) if self.tree.is_struct(b.ty, &[StructKind::HeaderUnion]) => {
                Some((fact(self.tree, header)?, None))
            }
            _ => None,
        }
    }

    /// `e`, a field of `header`, is read or written.
    pub(super) fn element_access(&mut self, header: &Expr, e: &Expr) {
        let Some(element) = self.element_of(header) else { return };
        let message = format!("this is a field of `{}`, which no path makes valid", path(self, header));
        let d = Diagnostic::warning(INVALID_HEADER, e.span, message)
            .label("reading gives an undefined value, writing does nothing")
            .help("extract the header, or call `setValid()`, before this");
        self.elements.pending.push((element, d));
    }

    /// The program asks whether `e` is valid.
    pub(super) fn asked(&mut self, e: &Expr) {
        let element = self.element_of(e);
        self.elements.made.extend(element);
    }

    /// `e` may become valid, with all inside it.
    pub(super) fn made_valid(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Next(stack) => {
                let Some(fact) = fact(self.tree, stack) else { return };
                if self.elements.in_loop || self.depth > 0 {
                    self.elements.whole.insert(fact);
                } else {
                    self.elements.nexts.entry(fact).or_default().insert(e.span);
                }
            }
            ExprKind::Index(stack, i) if known(i).is_none() => {
                self.elements.whole.extend(fact(self.tree, stack));
            }
            _ => {
                let element = self.element_of(e);
                self.elements.made.extend(element);
                self.elements.whole.extend(fact(self.tree, e));
                self.all_made(e.ty);
            }
        }
    }

    fn all_made(&mut self, ty: Ty) {
        let mut inside = BTreeSet::new();
        self.structs_in(ty, &mut inside);
        for d in inside {
            let fields = 0..self.tree.structs[d].fields.len() as u32;
            self.elements.whole.extend(fields.map(|i| Fact::Field(d, i)));
        }
    }

    /// A parser of the program fills a value of this type.
    pub(super) fn fills(&mut self, ty: Ty) {
        let mut inside = std::mem::take(&mut self.elements.filled);
        self.structs_in(ty, &mut inside);
        self.elements.filled = inside;
    }

    /// The structs and unions that a type consists of.
    fn structs_in(&mut self, ty: Ty, out: &mut BTreeSet<usize>) {
        match self.tree.tys.get(ty).clone() {
            Kind::Stack(element, _) => self.structs_in(element, out),
            Kind::Struct(d, _) if self.tree.structs[d].kind != StructKind::Header && out.insert(d) => {
                let fields = self.tree.fields(ty).unwrap_or_default();
                fields.into_iter().for_each(|(_, ty)| self.structs_in(ty, out));
            }
            _ => {}
        }
    }
}

/// The states of a parser that can come again.
pub fn loops(states: &[crate::check::tree::State]) -> Vec<bool> {
    let next = |i: usize| -> Vec<usize> {
        let targets: Vec<&Target> = match &states[i].next {
            Transition::Goto(t) => vec![t],
            Transition::Select { cases, .. } => cases.iter().map(|(_, t)| t).collect(),
        };
        targets.into_iter().filter_map(|t| if let Target::State(k) = t { Some(*k) } else { None }).collect()
    };
    let comes_again = |i: usize| {
        let (mut seen, mut open) = (vec![false; states.len()], next(i));
        while let Some(k) = open.pop() {
            if k < seen.len() && !std::mem::replace(&mut seen[k], true) {
                open.extend(next(k));
            }
        }
        seen[i]
    };
    (0..states.len()).map(comes_again).collect()
}
