//! Where lines that are too long are broken.
//!
//! A break is chosen as far outside of brackets as possible, and as late on the line as fits; the layout then says where
//! the new line starts. Comments stay on the lines where they are, and count only where tokens follow them.

use super::groups::{Role, alternatives, ends_operand};
use super::scan::{Kind, Piece};

/// Where a piece was put.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At {
    pub line: usize,
    /// Columns of its first character, and behind its last one.
    pub from: usize,
    pub to: usize,
}

/// Binary operators, from those that bind least.
const OPERATORS: [&[&str]; 10] = [
    &["?", ":"],
    &["||"],
    &["&&"],
    &["==", "!=", "<=", ">="],
    &["|"],
    &["^"],
    &["&"],
    &["<<"],
    &["++", "+", "-", "|+|", "|-|"],
    &["*", "/", "%"],
];

/// Costs of breaks: those of one level of brackets, and within a level.
const LEVEL: usize = 20;
const STATEMENT: usize = 1;
const ANNOTATION: usize = 2;
const HANGING: usize = 3;
const COMMA: usize = 5;
const OPERATOR: usize = 6;
const ASSIGNMENT: usize = 17;
const OPENING: usize = 18;

/// The pieces that shall start lines next, one for each line that is longer than `width`; none: nothing is to be done.
pub(super) fn breaks(pieces: &[Piece], roles: &[Role], at: &[At], width: usize) -> Vec<usize> {
    let wrap = Wrap { pieces, roles, at, width, opens: opens(pieces), closes: closes(roles) };
    let mut out = Vec::new();
    let mut start = 0;
    while start < pieces.len() {
        let line = at[start].line;
        let end = (start..pieces.len()).find(|i| at[*i].line != line).unwrap_or(pieces.len());
        out.extend(wrap.line(start, end));
        start = end;
    }
    out
}

/// For each piece the opening brackets around it.
fn opens(pieces: &[Piece]) -> Vec<Vec<usize>> {
    let (mut stack, mut saved) = (Vec::new(), Vec::new());
    let mut out = Vec::with_capacity(pieces.len());
    for (i, p) in pieces.iter().enumerate() {
        if p.kind == Kind::Directive {
            alternatives(&p.text, &mut stack, &mut saved);
        }
        if [")", "]", "}"].iter().any(|c| p.is(c)) {
            stack.pop();
        }
        out.push(stack.clone());
        if ["(", "[", "{"].iter().any(|c| p.is(c)) {
            stack.push(i);
        }
    }
    out
}

/// For each opening bracket its end.
fn closes(roles: &[Role]) -> Vec<Option<usize>> {
    let mut out = vec![None; roles.len()];
    for (i, r) in roles.iter().enumerate() {
        if let Some(open) = r.open.checked_sub(1) {
            out[open] = Some(i);
        }
    }
    out
}

struct Wrap<'a> {
    pieces: &'a [Piece],
    roles: &'a [Role],
    at: &'a [At],
    width: usize,
    opens: Vec<Vec<usize>>,
    closes: Vec<Option<usize>>,
}

impl Wrap<'_> {
    /// The break for one line, of pieces `start` to `end`.
    fn line(&self, start: usize, end: usize) -> Option<usize> {
        let last = (start..end).rev().find(|i| self.pieces[*i].is_token())?;
        if self.pieces[start].kind == Kind::Directive || (start..=last).all(|i| self.end(i) <= self.width) {
            return None;
        }
        // Behind a string of several lines, lines start anywhere.
        let several = (start..=last).any(|i| self.pieces[i].text.contains('\n'));
        let indent = if several { 0 } else { self.at[start].from };
        let candidates: Vec<(usize, usize)> =
            (start + 1..=last).filter_map(|i| self.cost(i, indent).map(|c| (i, c))).collect();
        // Of those that fit, the cheapest, and of equal ones the last; if none fits, the first.
        let key = |(i, cost): &(usize, usize)| match self.end(*i - 1) <= self.width {
            true => (0, *cost, usize::MAX - *i),
            false => (1, *i, 0),
        };
        let best = candidates.iter().min_by_key(|c| key(c));
        if best.is_some_and(|(i, cost)| self.end(*i - 1) <= self.width && *cost <= ANNOTATION) {
            return best.map(|(i, _)| *i);
        }
        // An annotation that does not fit takes several lines, and its declaration starts behind them.
        let long = candidates.iter().find(|(i, cost)| *cost == ANNOTATION && self.ends_annotation(*i - 1));
        long.or(best).map(|(i, _)| *i).or_else(|| self.hanging(start))
    }

    /// The last column of a piece; of a string of several lines, that of the longer end.
    fn end(&self, i: usize) -> usize {
        let first = self.pieces[i].text.split('\n').next().map_or(0, |l| l.chars().count());
        self.at[i].to.max(self.at[i].from + first)
    }

    /// A line that has no break itself moves to the left if the list that it is in starts on a line of its own.
    fn hanging(&self, start: usize) -> Option<usize> {
        let mut lists = self.opens[start].iter().rev().take_while(|o| !self.roles[**o].block).copied();
        let moves = |o: &usize| {
            let (first, line) = (&self.pieces[o + 1], self.at[*o].line);
            let from = (0..=*o).rev().take_while(|i| self.at[*i].line == line).last().unwrap_or(*o);
            let behind = first.is_token() && self.at[o + 1].line == line && !first.forced;
            let may = !self.pieces[*o].is("[") || self.is_annotation(*o);
            behind && may && self.at[*o].to > self.at[from].from + super::INDENT
        };
        lists.find(moves).map(|o| o + 1)
    }

    /// What a break before piece `i` costs, if it may be there.
    fn cost(&self, i: usize, indent: usize) -> Option<usize> {
        let (a, b) = (&self.pieces[i - 1], &self.pieces[i]);
        if b.forced || !a.is_token() || !b.is_token() || self.at[i].from <= indent + super::INDENT {
            return None;
        }
        let around = &self.opens[i];
        let blocks = |o: &usize| self.roles[*o].block && !self.roles[*o].one_line;
        let levels = around.iter().rev().take_while(|o| !blocks(o)).count();
        let within = self.within(i, around.last().copied())?;
        // In lists, annotations belong to their elements.
        let within = if within == ANNOTATION && levels > 0 { LEVEL - 1 } else { within };
        Some(levels * LEVEL + within)
    }

    /// The cost within the innermost bracket, `open`.
    fn within(&self, i: usize, open: Option<usize>) -> Option<usize> {
        let (a, b) = (&self.pieces[i - 1], &self.pieces[i]);
        let closing = [")", "]", "}", ";", ","].iter().any(|c| b.is(c)) || b.text == "else";
        if closing || b.is("{") && self.roles[i].body {
            return None;
        }
        if open == Some(i - 1) {
            return self.behind_open(i - 1);
        }
        if open.is_some_and(|o| self.pieces[o].is("[")) && !a.is(",") {
            return None;
        }
        if a.is(",") {
            // Elements that are too long below the first one start a step to the right of the line instead.
            return Some(COMMA);
        }
        if a.is("=") {
            // Braces of `key = {` stay where they are.
            return (!self.roles[i].block).then_some(ASSIGNMENT);
        }
        if self.ends_annotation(i - 1) || b.is("@") {
            return Some(ANNOTATION);
        }
        let rank = OPERATORS.iter().position(|o| b.kind == Kind::Punct && o.contains(&b.text.as_str()))?;
        let binary = match rank {
            0 => b.is("?") || self.roles[i].ternary,
            _ => !self.roles[i].unary && ends_operand(a) && !self.roles[i - 1].cast,
        };
        binary.then_some(OPERATOR + rank)
    }

    /// The cost of a break behind the opening bracket `o`.
    fn behind_open(&self, o: usize) -> Option<usize> {
        let close = self.closes[o]?;
        if self.pieces[o].is("[") {
            return None;
        }
        if self.roles[o].block {
            return Some(STATEMENT);
        }
        // Lines below the first element would be too long.
        let column = self.at[o].to;
        let longest = self.elements(o, close).max().unwrap_or(0);
        Some(if column + longest > self.width { HANGING } else { OPENING })
    }

    /// Lengths of the elements of the list between two brackets, as they are now.
    fn elements(&self, open: usize, close: usize) -> impl Iterator<Item = usize> {
        let depth = self.opens[close].len() + 1;
        let mut from = open + 1;
        (open + 1..=close).filter_map(move |i| {
            let ends = i == close || self.pieces[i].is(",") && self.opens[i].len() == depth;
            if !ends || from > i {
                return None;
            }
            let first = std::mem::replace(&mut from, i + 1);
            let one_line = self.at[first].line == self.at[i].line;
            // `) {` is not broken.
            let behind = if i == close { 2 } else { 0 };
            Some(if one_line { (self.at[i].to + behind).saturating_sub(self.at[first].from) } else { 0 })
        })
    }

    /// Whether piece `i` is the last bracket of an annotation.
    fn ends_annotation(&self, i: usize) -> bool {
        let closes = [")", "]"].iter().any(|c| self.pieces[i].is(c));
        closes && self.roles[i].open.checked_sub(1).is_some_and(|o| self.is_annotation(o))
    }

    /// Whether the bracket `o` opens the arguments of an annotation.
    fn is_annotation(&self, o: usize) -> bool {
        o >= 2 && self.pieces[o - 1].kind == Kind::Word && self.pieces[o - 2].is("@")
    }
}
