//! The formatter: source text in, the same tokens, comments and preprocessor lines out, laid out as usual.
//!
//! It works on one file's tokens, before preprocessing, so it also formats invalid programs. Lines are broken where
//! their author broke them, and where they are longer than the width that is asked for, except that statements get separate lines, `{` is on the line of its owner, and `else`
//! follows `}`. Everything else (indentation, blanks, empty lines) follows from the tokens; columns that are aligned by
//! several blanks stay so.

mod groups;
mod scan;
mod space;
mod wrap;

use self::groups::{Role, directive_name, roles};
use self::scan::{Kind, Piece, scan};
use self::wrap::At;
use crate::diag::Diagnostic;
use pointsman_ir::Span;

/// Columns of one level.
const INDENT: usize = 4;

/// Widths that [`format()`] takes.
pub const WIDTHS: std::ops::RangeInclusive<usize> = 40..=400;

/// Formats a file. Lines that are longer than `width` columns are broken, where they can be; without it, none is. An
/// error is the place of a comment without end, or of a string without end outside of `#if` (spans are of file 0).
pub fn format(text: &str, width: Option<usize>) -> Result<String, Box<Diagnostic>> {
    let pieces = scan(text)?;
    let out = match width {
        Some(width) => wrapped(&pieces, width),
        None => Layout::new(&pieces).run().0,
    };
    // If the layout would change the program, formatting fails.
    match scan(&out) {
        Ok(again) if same(&pieces, &again) => Ok(out),
        _ => Err(Box::new(
            Diagnostic::error("P0904", Span::default(), "formatting would change this program")
                .help("this is a bug in the formatter; the file was left unchanged"),
        )),
    }
}

/// The layout with lines of at most `width` columns: breaks are added until no line needs one.
fn wrapped(pieces: &[Piece], width: usize) -> String {
    let mut pieces = pieces.to_vec();
    loop {
        let layout = Layout::new(&pieces);
        let roles = layout.roles.clone();
        let (out, at) = layout.run();
        let breaks = wrap::breaks(&pieces, &roles, &at, width);
        if breaks.is_empty() {
            return out;
        }
        for i in breaks {
            pieces[i].forced = true;
            pieces[i].newlines = 1;
        }
    }
}

/// Whether the tokens, comments and preprocessor lines are the same.
fn same(a: &[Piece], b: &[Piece]) -> bool {
    let words = |p: &Piece| p.text.split_whitespace().collect::<String>();
    let equal = |(a, b): (&Piece, &Piece)| match a.kind {
        Kind::LineComment | Kind::BlockComment => a.kind == b.kind && words(a) == words(b),
        _ => a.kind == b.kind && a.text == b.text,
    };
    a.len() == b.len() && a.iter().zip(b).all(equal)
}

/// The construct that a bracket opened.
#[derive(Clone, Copy, Debug)]
enum Context {
    /// Statements, each on separate lines unless `one_line`.
    Block { content: usize, close: usize, one_line: bool },
    /// A list: where its lines start. `annotation`: it belongs to an annotation in front of a declaration.
    Group { indent: usize, close: usize, annotation: bool },
}

/// Where in a leading annotation the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Annotation {
    No,
    At,
    Named,
}

#[derive(Clone, Debug)]
struct State {
    stack: Vec<Context>,
    /// The next token starts a statement.
    start: bool,
    /// Where the line that the present statement starts on began in the source, if it starts a line there.
    source_indent: Option<usize>,
    annotation: Annotation,
}

struct Layout<'a> {
    pieces: &'a [Piece],
    roles: Vec<Role>,
    out: String,
    state: State,
    saved: Vec<State>,
    /// Indentation of the present line.
    line_indent: usize,
    /// Columns, in the source and here, of the comment that was written last.
    comment: (usize, usize),
}

impl<'a> Layout<'a> {
    fn new(pieces: &'a [Piece]) -> Self {
        let state =
            State { stack: Vec::new(), start: true, source_indent: Some(0), annotation: Annotation::No };
        let roles = roles(pieces);
        Layout {
            pieces,
            roles,
            out: String::new(),
            state,
            saved: Vec::new(),
            line_indent: 0,
            comment: (0, 0),
        }
    }

    /// The text, and where each piece is in it.
    fn run(mut self) -> (String, Vec<At>) {
        let mut at = Vec::with_capacity(self.pieces.len());
        let mut line = 0;
        for i in 0..self.pieces.len() {
            let piece = &self.pieces[i];
            if i > 0 && self.breaks(i) {
                let empty = piece.newlines > 1 && !self.opens_block(i - 1) && !self.closes_block(i);
                self.out.push_str(if empty { "\n\n" } else { "\n" });
                line += 1;
                self.line_indent = self.indent(i);
                self.out.push_str(&" ".repeat(self.line_indent));
            } else if i > 0 {
                let open =
                    self.roles[i - 1].open.checked_sub(1).map(|o| (self.before_open(o), self.roles[o]));
                let open = open.and_then(|(p, r)| p.map(|p| (p, r)));
                let n = space::blanks((&self.pieces[i - 1], self.roles[i - 1]), (piece, self.roles[i]), open);
                self.out.push_str(&" ".repeat(n));
            } else if piece.kind == Kind::Directive {
                self.out.push_str(&" ".repeat(piece.blanks));
            }
            if piece.kind == Kind::LineComment {
                self.comment = (piece.column, self.column());
            }
            let from = self.column();
            self.put(i);
            at.push(At { line, from, to: self.column() });
            self.note(i);
        }
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        (self.out, at)
    }

    /// The opening bracket at `o`, if a statement's keyword precedes it.
    fn before_open(&self, o: usize) -> Option<&'a Piece> {
        let word = self.pieces.get(..o)?.iter().rev().find(|p| p.is_token())?;
        groups::STATEMENT_WORDS.contains(&word.text.as_str()).then(|| &self.pieces[o])
    }

    fn put(&mut self, i: usize) {
        let piece = &self.pieces[i];
        if piece.kind != Kind::BlockComment || !piece.text.contains('\n') {
            self.out.push_str(&piece.text);
            return;
        }
        let column = self.column();
        for (n, line) in piece.text.lines().enumerate() {
            let short = line.trim();
            match n {
                0 => self.out.push_str(line.trim_end()),
                _ if short.starts_with('*') => {
                    self.out.push('\n');
                    self.out.push_str(&" ".repeat(column + 1));
                    self.out.push_str(short);
                }
                _ => {
                    self.out.push('\n');
                    self.out.push_str(line.trim_end());
                }
            }
        }
    }

    /// Characters on the present line.
    fn column(&self) -> usize {
        let line = self.out.rfind('\n').map_or(0, |i| i + 1);
        self.out[line..].chars().count()
    }

    fn opens_block(&self, i: usize) -> bool {
        self.pieces[i].is("{") && self.roles[i].block && !self.roles[i].one_line
    }

    fn closes_block(&self, i: usize) -> bool {
        self.pieces[i].is("}")
            && match self.roles[i].open.checked_sub(1) {
                Some(open) => self.opens_block(open),
                None => true,
            }
    }

    /// Whether the innermost bracket holds statements on separate lines.
    fn in_block(&self) -> bool {
        matches!(self.state.stack.last(), None | Some(Context::Block { one_line: false, .. }))
    }

    /// Whether piece `i` starts a line.
    fn breaks(&self, i: usize) -> bool {
        let (a, b) = (&self.pieces[i - 1], &self.pieces[i]);
        let trailing = b.is_comment() && b.newlines == 0;
        if a.kind == Kind::Directive || b.kind == Kind::Directive || a.kind == Kind::LineComment {
            return true;
        }
        if self.opens_block(i - 1) && self.closes_block(i) {
            return false;
        }
        if self.opens_block(i - 1) || self.closes_block(i) {
            return !trailing;
        }
        if b.is(";") && a.is_token() {
            return false;
        }
        if a.is_token() && (b.is("{") && self.roles[i].body || b.text == "else" && a.is("}")) {
            return false;
        }
        if b.newlines > 0 {
            return true;
        }
        let ended = a.is("}") && {
            let open = self.roles[i - 1].open.checked_sub(1);
            open.is_none_or(|o| self.roles[o].block || self.roles[o].body)
        };
        let goes_on = b.is(",") || b.is(")") || b.is("]") || b.is(".") || b.is("(");
        self.in_block() && (a.is(";") || ended && !goes_on) && !trailing
    }

    /// Indentation of a line that starts with piece `i`.
    fn indent(&self, i: usize) -> usize {
        let piece = &self.pieces[i];
        if piece.kind == Kind::Directive {
            return piece.blanks;
        }
        // A comment that continues one above it.
        let (above, here) = self.comment;
        if piece.kind == Kind::LineComment
            && piece.newlines == 1
            && self.pieces[i - 1].kind == Kind::LineComment
            && (self.pieces[i - 1].newlines == 0 || here != self.line_indent)
            && piece.column == above
        {
            return here;
        }
        let closes =
            piece.is("}") || piece.is(")") || piece.is("]") || piece.is(">") && self.roles[i].generic;
        // The indentation of a line relative to its statement is its author's choice.
        let further = self.state.source_indent.and_then(|s| piece.column.checked_sub(s)).filter(|n| *n > 0);
        let further = further.filter(|_| !piece.forced).unwrap_or(INDENT);
        match self.state.stack.last() {
            Some(Context::Block { content, .. }) if piece.is(">") && closes => *content,
            Some(Context::Block { close, .. } | Context::Group { close, .. }) if closes => *close,
            Some(Context::Group { indent, .. }) => *indent,
            Some(Context::Block { content, .. }) if self.state.start || piece.is("{") => *content,
            Some(Context::Block { content, .. }) => content + further,
            None if self.state.start || piece.is("{") || closes => 0,
            None => further,
        }
    }

    /// Takes note of a piece that was written.
    fn note(&mut self, i: usize) {
        let piece = &self.pieces[i];
        match piece.kind {
            Kind::LineComment | Kind::BlockComment => return,
            Kind::Directive => return self.directive(&piece.text),
            _ => {}
        }
        if self.state.start && !matches!(self.state.stack.last(), Some(Context::Group { .. })) {
            // `else` that started a line is behind `}` now: formatting again must find the same.
            let starts_line = i == 0 || piece.newlines > 0 && self.breaks(i);
            self.state.source_indent = starts_line.then_some(piece.column);
        }
        let state = &self.state;
        let annotation = match (state.annotation, state.start) {
            (Annotation::No | Annotation::Named, true) if piece.is("@") => Annotation::At,
            (Annotation::At, _) => Annotation::Named,
            _ => Annotation::No,
        };
        let named = state.annotation == Annotation::Named && (piece.is("(") || piece.is("["));
        self.state.annotation = annotation;
        match piece.text.as_str() {
            "(" | "[" | "{" if piece.kind == Kind::Punct => self.open(i, named),
            ")" | "]" | "}" if piece.kind == Kind::Punct => {
                let ended = match self.state.stack.pop() {
                    Some(Context::Block { .. }) | None => true,
                    Some(Context::Group { annotation, .. }) => {
                        let open = self.roles[i].open.checked_sub(1);
                        annotation || piece.is("}") && open.is_some_and(|o| self.roles[o].body)
                    }
                };
                self.state.start = ended;
            }
            ";" if !matches!(self.state.stack.last(), Some(Context::Group { .. })) => self.state.start = true,
            ":" if piece.kind == Kind::Punct && !self.roles[i].ternary => {
                let label = !matches!(self.state.stack.last(), Some(Context::Group { .. }));
                self.state.start = label && self.pieces.get(i + 1).is_some_and(|n| n.newlines > 0);
            }
            _ => self.state.start = annotation != Annotation::No,
        }
    }

    fn open(&mut self, i: usize, annotation: bool) {
        let piece = &self.pieces[i];
        let base = match self.state.stack.last() {
            None => 0,
            Some(Context::Block { content, .. }) => *content,
            Some(Context::Group { .. }) => self.line_indent,
        };
        let context = if piece.is("{") && self.roles[i].block {
            let one_line = self.roles[i].one_line;
            Context::Block { content: base + INDENT, close: base, one_line }
        } else {
            let next = self.pieces.get(i + 1);
            let behind = next
                .is_some_and(|n| n.newlines == 0 && n.kind != Kind::LineComment && n.kind != Kind::Directive);
            let (column, hanging) = (self.column(), self.line_indent + INDENT);
            let aligned = column + usize::from(piece.is("{"));
            // Its author may have its lines start below the first element, or a step to the right.
            let first = self.roles[i].first.checked_sub(1).and_then(|f| self.pieces.get(f + 1));
            let statement = self.state.source_indent.unwrap_or(0);
            let below = piece.column + 1 + usize::from(piece.is("{"));
            let step = first.is_some_and(|f| f.column < below && f.column > statement);
            match behind && (!step || hanging >= aligned) {
                true => Context::Group { indent: aligned, close: column - 1, annotation },
                false => Context::Group { indent: hanging, close: self.line_indent, annotation },
            }
        };
        self.state.start = matches!(context, Context::Block { .. });
        self.state.stack.push(context);
    }

    /// Every branch of `#if` starts as the first did.
    fn directive(&mut self, text: &str) {
        match directive_name(text) {
            "if" | "ifdef" | "ifndef" => self.saved.push(self.state.clone()),
            "elif" | "else" => {
                if let Some(s) = self.saved.last() {
                    self.state = s.clone();
                }
            }
            "endif" => drop(self.saved.pop()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
