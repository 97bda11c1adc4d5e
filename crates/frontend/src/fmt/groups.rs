//! The content of brackets, and which `<` and `>` are brackets.

use super::scan::{Kind, Piece};

/// The role of a piece in its surroundings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Role {
    /// For an opening bracket: it holds statements or declarations, and a line each for them.
    pub block: bool,
    /// For `{`: it is on one line with its `}`.
    pub one_line: bool,
    /// For `<` and `>`: it encloses type arguments.
    pub generic: bool,
    /// For `)`: index of its `(`, plus 1.
    pub open: usize,
    /// For `:`: it belongs to `? :`.
    pub ternary: bool,
    /// For `:`: it is part of a slice.
    pub slice: bool,
    /// For `+` and `-`: without an operand before it.
    pub unary: bool,
    /// For `)`: it ends a cast.
    pub cast: bool,
    /// For an opening bracket: the first line inside it starts with the piece of this index; 0 if none does.
    pub first: usize,
    /// For `{`: it belongs to the declaration or statement before it.
    pub body: bool,
}

/// Words after which an operand starts.
const OPERATOR_WORDS: [&str; 4] = ["return", "in", "else", "transition"];

/// Words whose parenthesis is not an argument list.
pub(super) const STATEMENT_WORDS: [&str; 5] = ["if", "while", "for", "switch", "return"];

#[derive(Clone)]
struct Open {
    at: usize,
    /// `?` that wait for their `:`.
    questions: usize,
    statements: bool,
    lines: bool,
}

/// The token before piece `i`.
fn before(pieces: &[Piece], i: usize) -> Option<&Piece> {
    pieces.get(..i)?.iter().rev().find(|p| p.is_token())
}

/// Whether the token can end an operand.
pub(super) fn ends_operand(p: &Piece) -> bool {
    match p.kind {
        Kind::Word => !OPERATOR_WORDS.contains(&p.text.as_str()),
        _ => [")", "]", "}", "{#}"].contains(&p.text.as_str()),
    }
}

/// Whether braces after this token are its body.
fn has_body(p: &Piece) -> bool {
    match p.kind {
        Kind::Word => !OPERATOR_WORDS[..2].contains(&p.text.as_str()),
        _ => [")", ">", "]"].contains(&p.text.as_str()),
    }
}

/// Finds the role of every piece.
pub(super) fn roles(pieces: &[Piece]) -> Vec<Role> {
    let mut roles = vec![Role::default(); pieces.len()];
    // Braces without an end, where alternatives of the preprocessor do not fit together, are blocks of several lines.
    let mut stack: Vec<Open> = Vec::new();
    let mut saved: Vec<Vec<Open>> = Vec::new();
    let mut top_questions = 0;
    for (i, piece) in pieces.iter().enumerate() {
        if piece.newlines > 0 || matches!(piece.kind, Kind::LineComment | Kind::Directive) {
            stack.iter_mut().for_each(|o| o.lines = true);
        }
        if piece.kind == Kind::BlockComment && piece.text.contains('\n') {
            stack.iter_mut().for_each(|o| o.lines = true);
        }
        // Their lines are not those of elements.
        let closes = [")", "]", "}"].iter().any(|c| piece.is(c)) || piece.is(">") && roles[i].generic;
        if let (true, false, Some(open)) =
            (piece.newlines > 0, closes || piece.kind == Kind::Directive, stack.last())
            && roles[open.at].first == 0
        {
            roles[open.at].first = i;
        }
        if piece.kind == Kind::Directive {
            alternatives(&piece.text, &mut stack, &mut saved);
            continue;
        }
        if piece.kind != Kind::Punct {
            continue;
        }
        let previous = before(pieces, i);
        match piece.text.as_str() {
            "(" | "[" | "{" => {
                if piece.is("{") {
                    roles[i].block = true;
                    roles[i].body = previous.is_some_and(has_body);
                }
                stack.push(Open { at: i, questions: 0, statements: false, lines: false });
            }
            ")" | "]" | "}" => {
                if let Some(open) = stack.pop() {
                    close(pieces, &mut roles, (&open, i), stack.last_mut());
                }
            }
            ";" => {
                if let Some(open) = stack.last_mut() {
                    open.statements |= pieces[open.at].is("{");
                }
                top_questions = 0;
            }
            "?" => match stack.last_mut() {
                Some(open) => open.questions += 1,
                None => top_questions += 1,
            },
            ":" => {
                let questions = stack.last_mut().map_or(&mut top_questions, |o| &mut o.questions);
                if *questions > 0 {
                    *questions -= 1;
                    roles[i].ternary = true;
                } else {
                    roles[i].slice = stack.last().is_some_and(|o| pieces[o.at].is("["));
                }
            }
            "+:" => roles[i].slice = true,
            "<" if !roles[i].generic => mark_generic(pieces, &mut roles, i),
            "+" | "-" => {
                roles[i].unary = !previous.is_some_and(ends_operand) || after_cast(pieces, &roles, i)
            }
            _ => {}
        }
    }
    roles
}

/// Bracket `i` closes the group that `open` began, within `outer`.
fn close(pieces: &[Piece], roles: &mut [Role], (open, i): (&Open, usize), outer: Option<&mut Open>) {
    let piece = &pieces[i];
    roles[i].open = open.at + 1;
    if piece.is(")") {
        roles[i].cast = is_cast(pieces, roles, open.at, i);
    }
    if !piece.is("}") {
        return;
    }
    let within = &pieces[open.at + 1..i];
    let role = &mut roles[open.at];
    role.block = open.statements || has_only_comments(within);
    role.one_line = !open.lines;
    if (open.statements || role.body && within.is_empty())
        && let Some(outer) = outer
    {
        // `apply { }` and the like are statements of the block around them.
        outer.statements |= pieces[outer.at].is("{");
    }
}

fn has_only_comments(pieces: &[Piece]) -> bool {
    pieces.iter().all(Piece::is_comment)
}

/// Each branch of `#if` starts with the brackets that are open before it.
pub(super) fn alternatives<T: Clone>(line: &str, stack: &mut Vec<T>, saved: &mut Vec<Vec<T>>) {
    match directive_name(line) {
        "if" | "ifdef" | "ifndef" => saved.push(stack.clone()),
        "elif" | "else" => {
            if let Some(s) = saved.last() {
                stack.clone_from(s);
            }
        }
        "endif" => drop(saved.pop()),
        _ => {}
    }
}

/// `include`, `if` ...
pub(super) fn directive_name(line: &str) -> &str {
    let rest = line.trim_start_matches('#').trim_start();
    rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("")
}

/// Whether `)` at `i` ends a cast, rather than arguments or a parenthesised expression.
fn is_cast(pieces: &[Piece], roles: &[Role], open: usize, i: usize) -> bool {
    let starts = match before(pieces, open) {
        None => false,
        Some(p) if p.kind == Kind::Word => OPERATOR_WORDS[..2].contains(&p.text.as_str()),
        Some(p) => {
            ![")", "]", "}", ">", ";", "{"].contains(&p.text.as_str())
                || p.is(")") && after_cast(pieces, roles, open)
        }
    };
    let word = pieces[open + 1..i].iter().find(|p| p.is_token());
    let type_word = |p: &Piece| ["bit", "int", "varbit", "bool"].contains(&p.text.as_str());
    let next = pieces[i + 1..].iter().find(|p| p.is_token());
    starts
        && word.is_some_and(|w| {
            type_word(w)
                || w.kind == Kind::Word
                    && next.is_some_and(|n| n.kind == Kind::Word || n.is("(") || n.is("~") || n.is("!"))
        })
}

/// Whether the token before piece `i` is the end of a cast.
fn after_cast(pieces: &[Piece], roles: &[Role], i: usize) -> bool {
    (0..i).rev().find(|k| pieces[*k].is_token()).is_some_and(|k| roles[k].cast)
}

/// Marks `<` at `i` and its `>` if the text between can be type parameters or arguments.
fn mark_generic(pieces: &[Piece], roles: &mut [Role], i: usize) {
    let named = before(pieces, i)
        .is_some_and(|p| p.kind == Kind::Word && p.text.starts_with(|c: char| !c.is_ascii_digit()));
    if !named {
        return;
    }
    let mut opens = vec![i];
    let mut parens = 0;
    let mut pairs = Vec::new();
    for (k, p) in pieces.iter().enumerate().skip(i + 1) {
        if !p.is_token() || p.kind == Kind::Word {
            continue;
        }
        match p.text.as_str() {
            "(" => parens += 1,
            ")" if parens > 0 => parens -= 1,
            _ if parens > 0 => {}
            "<" => opens.push(k),
            ">" => {
                let Some(open) = opens.pop() else { return };
                pairs.push((open, k));
                if opens.is_empty() {
                    break;
                }
            }
            "," | "." | "[" | "]" | "@" => {}
            _ => return,
        }
    }
    // `a < b > c` is not a P4 expression, so a pair is enough; but `a < b, c > d` inside arguments is.
    let Some(end) = pairs.last().filter(|_| opens.is_empty()).map(|p| p.1) else { return };
    let next = pieces[end + 1..].iter().find(|p| p.is_token());
    let keyword = before(pieces, i)
        .is_some_and(|p| ["bit", "int", "varbit", "tuple", "list", "set"].contains(&p.text.as_str()));
    let operand =
        next.is_some_and(|n| n.kind == Kind::Word && n.text.starts_with(|c: char| c.is_ascii_digit()));
    if keyword || !operand {
        for (open, close) in pairs {
            roles[open].generic = true;
            roles[close].generic = true;
        }
    }
}
