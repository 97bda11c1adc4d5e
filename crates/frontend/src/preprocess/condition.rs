//! The expressions of `#if` and `#elif`: integers, `defined`, and the operators of C.

use pointsman_ir::Span;

use super::Preprocessor;
use crate::diag::Diagnostic;
use crate::lex::{Token, TokenKind, parse_int};

/// Parentheses and unary operators may be nested this deep.
const MAX_DEPTH: usize = 100;

impl Preprocessor<'_> {
    /// The value of the expression `args` of the directive at `span`; false if it is wrong.
    pub(super) fn condition(&mut self, span: Span, args: &[Token]) -> bool {
        let mut tokens = Vec::new();
        let mut plain: Vec<Token> = Vec::new();
        let mut i = 0;
        // `defined` looks at names before they are expanded.
        while let Some(t) = args.get(i) {
            if t.is_word("defined") {
                let (name, used) = match &args[i + 1..] {
                    [open, name, close, ..] if open.is("(") && name.is_ident() && close.is(")") => (name, 4),
                    [name, ..] if name.is_ident() => (name, 2),
                    rest => {
                        self.malformed(t.span, rest, "a macro name", "defined(NAME)");
                        return false;
                    }
                };
                tokens.extend(self.expand(std::mem::take(&mut plain), 0));
                let value = if self.knows(&name.text) { "1" } else { "0" };
                tokens.push(Token { kind: TokenKind::Int, text: value.into(), ..t.clone() });
                i += used;
            } else {
                plain.push(t.clone());
                i += 1;
            }
        }
        tokens.extend(self.expand(plain, 0));
        let mut e = Evaluator { tokens: &tokens, pos: 0, depth: 0, end: span };
        let result = e.ternary().and_then(|v| match e.peek() {
            Some(t) => Err((t.span, format!("expected the end of the expression, found `{}`", t.text))),
            None => Ok(v),
        });
        match result {
            Ok(v) => v != 0,
            Err((span, message)) => {
                let d = Diagnostic::error("P0117", span, message);
                self.diags
                    .push(d.help("conditions are integer expressions, such as `#if defined(A) && B > 3`"));
                false
            }
        }
    }
}

type Value = Result<i128, (Span, String)>;

struct Evaluator<'t> {
    tokens: &'t [Token],
    pos: usize,
    depth: usize,
    end: Span,
}

/// Operators of two operands with their strength.
const BINARY: [(&str, u8); 18] = [
    ("||", 1),
    ("&&", 2),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("==", 6),
    ("!=", 6),
    ("<", 7),
    ("<=", 7),
    (">=", 7),
    ("<<", 8),
    (">>", 8),
    (">", 7),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("/", 10),
    ("%", 10),
];

impl<'t> Evaluator<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.pos)
    }

    fn ternary(&mut self) -> Value {
        let c = self.binary(1)?;
        if !self.peek().is_some_and(|t| t.is("?")) {
            return Ok(c);
        }
        self.pos += 1;
        self.nest()?;
        let a = self.ternary()?;
        match self.peek() {
            Some(t) if t.is(":") => self.pos += 1,
            t => return Err((t.map_or(self.end, |t| t.span), "expected `:`".to_string())),
        }
        let b = self.ternary()?;
        self.depth -= 1;
        Ok(if c != 0 { a } else { b })
    }

    fn nest(&mut self) -> Result<(), (Span, String)> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err((self.end, "this expression is nested too deeply".to_string())),
            false => Ok(()),
        }
    }

    fn operator(&self) -> Option<(&'static str, u8, usize)> {
        let t = self.peek().filter(|t| t.kind == TokenKind::Punct)?;
        let next = self.tokens.get(self.pos + 1).filter(|n| !n.space_before);
        let (text, used) = match next {
            Some(n) if t.is(">") && n.is(">") => (">>", 2),
            _ => (&*t.text, 1),
        };
        BINARY.iter().find(|(op, _)| *op == text).map(|(op, strength)| (*op, *strength, used))
    }

    fn binary(&mut self, min: u8) -> Value {
        let mut a = self.unary()?;
        while let Some((op, strength, used)) = self.operator().filter(|o| o.1 >= min) {
            let at = self.peek().map_or(self.end, |t| t.span);
            self.pos += used;
            // At most one level for each strength of operator, so the recursion ends.
            let b = self.binary(strength + 1)?;
            let bad = |what: &str| Err((at, what.to_string()));
            a = match op {
                "||" => i128::from(a != 0 || b != 0),
                "&&" => i128::from(a != 0 && b != 0),
                "|" => a | b,
                "^" => a ^ b,
                "&" => a & b,
                "==" => i128::from(a == b),
                "!=" => i128::from(a != b),
                "<" => i128::from(a < b),
                ">" => i128::from(a > b),
                "<=" => i128::from(a <= b),
                ">=" => i128::from(a >= b),
                "<<" | ">>" if !(0..64).contains(&b) => {
                    return bad("shift by a negative or too large number");
                }
                "<<" => a.wrapping_shl(b as u32),
                ">>" => a >> b,
                "+" => a.wrapping_add(b),
                "-" => a.wrapping_sub(b),
                "*" => a.wrapping_mul(b),
                _ if b == 0 => return bad("division by zero"),
                "/" => a.wrapping_div(b),
                _ => a.wrapping_rem(b),
            };
            // Values are those of 64-bit signed integers, as in C.
            a = i128::from(a as i64);
        }
        Ok(a)
    }

    fn unary(&mut self) -> Value {
        let Some(t) = self.peek() else {
            return Err((self.end, "expected an expression, found the end of the line".to_string()));
        };
        self.pos += 1;
        if t.is_ident() {
            // Names that are not macros count as 0, as in C.
            return Ok(0);
        }
        if t.kind == TokenKind::Int {
            return match integer(&t.text) {
                Some(v) => Ok(v),
                None => Err((t.span, format!("`{}` is not an integer that a condition can use", t.text))),
            };
        }
        if t.kind != TokenKind::Punct || !["(", "!", "~", "-", "+"].contains(&&*t.text) {
            return Err((t.span, format!("expected an expression, found `{}`", t.text)));
        }
        self.nest()?;
        let v = match &*t.text {
            "(" => {
                let v = self.ternary()?;
                match self.peek() {
                    Some(t) if t.is(")") => self.pos += 1,
                    t => return Err((t.map_or(self.end, |t| t.span), "expected `)`".to_string())),
                }
                v
            }
            "!" => i128::from(self.unary()? == 0),
            "~" => !self.unary()?,
            "-" => -self.unary()?,
            _ => self.unary()?,
        };
        self.depth -= 1;
        Ok(v)
    }
}

/// An integer as C and as P4 write it; C's suffixes are dropped.
fn integer(text: &str) -> Option<i128> {
    let plain = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let (value, _) = parse_int(plain).ok()?;
    i128::try_from(value).ok().map(|v| i128::from(v as i64))
}
