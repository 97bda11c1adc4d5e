//! Blanks between two pieces on one line.

use super::groups::{Role, STATEMENT_WORDS, ends_operand};
use super::scan::{Kind, Piece};
use crate::lex::{Joined, Lexer};

/// How many blanks to put between `a` and `b`, which share a line.
pub(super) fn blanks(a: (&Piece, Role), b: (&Piece, Role), open_of_a: Option<(&Piece, Role)>) -> usize {
    let (left, right) = (a.0, b.0);
    // Whether two `>` are a shift depends on the text between them.
    if left.is(">") && (right.is(">") || right.is(">=")) && !(a.1.generic && b.1.generic) {
        return right.blanks.min(1);
    }
    if right.kind == Kind::LineComment {
        return right.blanks.max(1);
    }
    if !wanted(a, b, open_of_a) {
        return usize::from(would_join(left, right));
    }
    // Aligned columns stay aligned.
    let aligned = right.blanks > 1
        && (right.is("=")
            || left.is(":")
            || left.is(",")
            || right.kind == Kind::BlockComment
            || right.kind == Kind::Word && (left.kind == Kind::Word || left.is(">") && a.1.generic));
    if aligned { right.blanks } else { 1 }
}

/// Whether a blank separates them.
fn wanted(a: (&Piece, Role), b: (&Piece, Role), open_of_a: Option<(&Piece, Role)>) -> bool {
    let ((left, l), (right, r)) = (a, b);
    if left.is_comment() || right.is_comment() {
        return true;
    }
    match right.text.as_str() {
        ";" | "," if right.kind == Kind::Punct => return false,
        ")" | "]" if right.kind == Kind::Punct => return false,
        "." if right.kind == Kind::Punct => {
            return left.is("{") || left.is(",") || left.is("=") || left.is(":");
        }
        ":" if right.kind == Kind::Punct => return r.ternary,
        "+:" if right.kind == Kind::Punct => return false,
        "}" if right.kind == Kind::Punct => return !left.is("{"),
        "<" if right.kind == Kind::Punct && r.generic => return false,
        ">" if right.kind == Kind::Punct && r.generic => return false,
        _ => {}
    }
    if left.kind == Kind::Punct {
        match left.text.as_str() {
            "(" | "[" | "." | "@" | "~" | "!" => return false,
            ":" | "+:" if l.slice => return false,
            "<" if l.generic => return false,
            ">" if l.generic => return !(right.is("(") || right.is("[")),
            "+" | "-" if l.unary => return false,
            ")" if l.cast => return right.is("{"),
            ")" if right.is("(") || right.is("[") => {
                // Whatever is called or indexed, but not what follows a condition.
                return !right.is("[") && open_of_a.is_some_and(|(o, _)| o.is("("));
            }
            _ => {}
        }
    }
    if right.is("(") {
        return match left.kind {
            Kind::Word => {
                STATEMENT_WORDS.contains(&left.text.as_str()) || left.text == "in" || left.text == "else"
            }
            _ => !left.is("]"),
        };
    }
    if right.is("[") {
        return !ends_operand(left) || left.is("}");
    }
    true
}

/// Whether the two would be read as something else without a blank.
fn would_join(a: &Piece, b: &Piece) -> bool {
    if a.kind == Kind::Word && b.kind == Kind::Word {
        return true;
    }
    let joined = format!("{}{}", a.text, b.text);
    let source = Joined::new(&joined);
    let mut lexer = Lexer::new(&source, 0);
    let (first, second) = (lexer.next(false), lexer.next(false));
    *first.text != *a.text || *second.text != *b.text || joined.starts_with("//") || joined.starts_with("/*")
}
