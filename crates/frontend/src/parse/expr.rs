//! Expressions (section 8).

use pointsman_ir::Span;

use super::{Abandon, NameKind, P, Parser};
use crate::ast::{Arg, BinaryOp, Expr, ExprKind, Path, TypeExpr, TypeExprKind, UnaryOp};
use crate::diag::Diagnostic;
use crate::lex::{TokenKind, parse_int, string_text};

/// An expression and the height of its tree.
type Tall = (Expr, u32);

/// Operators and their strengths (appendix H).
const BINARY: [(&str, BinaryOp, u8); 19] = [
    ("||", BinaryOp::Or, 1),
    ("&&", BinaryOp::And, 2),
    ("==", BinaryOp::Eq, 3),
    ("!=", BinaryOp::Ne, 3),
    ("<", BinaryOp::Lt, 4),
    (">", BinaryOp::Gt, 4),
    ("<=", BinaryOp::Le, 4),
    (">=", BinaryOp::Ge, 4),
    ("|", BinaryOp::BitOr, 5),
    ("^", BinaryOp::BitXor, 6),
    ("&", BinaryOp::BitAnd, 7),
    ("<<", BinaryOp::Shl, 8),
    ("++", BinaryOp::Concat, 9),
    ("+", BinaryOp::Add, 9),
    ("-", BinaryOp::Sub, 9),
    ("|+|", BinaryOp::SatAdd, 9),
    ("|-|", BinaryOp::SatSub, 9),
    ("*", BinaryOp::Mul, 10),
    ("/", BinaryOp::Div, 10),
];
const SHIFT: u8 = 8;
const FACTOR: u8 = 10;

fn expr(kind: ExprKind, span: Span) -> Expr {
    Expr { kind, span }
}

impl Parser {
    pub(super) fn expr(&mut self) -> P<Expr> {
        Ok(self.tall_expr()?.0)
    }

    /// An expression in brackets of any kind, where `>` is an operator again.
    pub(super) fn inner_expr(&mut self) -> P<Expr> {
        self.bracketed(|p| p.expr())
    }

    fn bracketed<T>(&mut self, rule: impl FnOnce(&mut Self) -> P<T>) -> P<T> {
        let outer = std::mem::replace(&mut self.no_gt, false);
        let result = rule(self);
        self.no_gt = outer;
        result
    }

    fn tall_expr(&mut self) -> P<Tall> {
        self.nested(|p| {
            let cond = p.binary(1)?;
            p.conditional(cond)
        })
    }

    /// The rest of a conditional expression after the condition, if any: `? a : b`.
    fn conditional(&mut self, (cond, h): Tall) -> P<Tall> {
        if !self.at("?") {
            return Ok((cond, h));
        }
        self.bump();
        let (a, ha) = self.bracketed(|p| p.tall_expr())?;
        self.expect(":")?;
        let b = self.binary(1)?;
        if self.at("?") {
            // As in C, to which P4_16 section 8 refers; p4c reads `(a ? b : c) ? d : e`.
            let message = "`a ? b : c ? d : e` is read as `a ? b : (c ? d : e)`";
            let d = Diagnostic::warning("P0209", self.peek().span, message);
            self.report(d.help("add parentheses: p4c reads it differently"));
        }
        let (b, hb) = self.nested(|p| p.conditional(b))?;
        let span = self.since(cond.span);
        self.grown(ExprKind::Mux(Box::new(cond), Box::new(a), Box::new(b)), span, h.max(ha).max(hb))
    }

    /// A node above nodes of height `below`.
    fn grown(&mut self, kind: ExprKind, span: Span, below: u32) -> P<Tall> {
        self.check_depth(below + 1)?;
        Ok((expr(kind, span), below + 1))
    }

    fn binary_operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let t = self.peek();
        if t.kind != TokenKind::Punct {
            return None;
        }
        if t.is(">") {
            if self.no_gt {
                return None;
            }
            let next = self.peek_at(1);
            if !next.space_before && next.is(">") {
                return Some((BinaryOp::Shr, SHIFT, 2));
            }
            if !next.space_before && next.is(">=") {
                return None;
            }
        }
        if t.is("%") {
            return Some((BinaryOp::Mod, FACTOR, 1));
        }
        BINARY.iter().find(|(text, ..)| t.is(text)).map(|(_, op, strength)| (*op, *strength, 1))
    }

    fn binary(&mut self, min: u8) -> P<Tall> {
        let (mut a, mut h) = self.unary()?;
        while let Some((op, strength, used)) = self.binary_operator().filter(|o| o.1 >= min) {
            for _ in 0..used {
                self.bump();
            }
            let (b, hb) = self.binary(strength + 1)?;
            let span = self.since(a.span);
            (a, h) = self.grown(ExprKind::Binary(op, Box::new(a), Box::new(b)), span, h.max(hb))?;
        }
        Ok((a, h))
    }

    fn unary(&mut self) -> P<Tall> {
        let op = match () {
            () if self.at("!") => UnaryOp::Not,
            () if self.at("~") => UnaryOp::BitNot,
            () if self.at("-") => UnaryOp::Neg,
            () if self.at("+") => UnaryOp::Plus,
            () => {
                if let Some((ty, start)) = self.cast() {
                    let (e, h) = self.nested(|p| p.unary())?;
                    let span = self.since(start);
                    return self.grown(ExprKind::Cast(ty, Box::new(e)), span, h.max(1));
                }
                return self.postfix(false);
            }
        };
        let start = self.bump();
        let (e, h) = self.nested(|p| p.unary())?;
        let span = self.since(start);
        self.grown(ExprKind::Unary(op, Box::new(e)), span, h)
    }

    /// `(T)` of a cast, if it is one.
    fn cast(&mut self) -> Option<(TypeExpr, Span)> {
        if !self.at("(") {
            return None;
        }
        let known = self.is_known_type(1);
        let name = 1 + usize::from(self.peek_at(1).is("."));
        if !known && (!self.is_name(name) || self.lookup(&self.peek_at(name).text).is_some()) {
            return None;
        }
        self.attempt(|p| {
            let start = p.bump();
            let ty = p.bracketed(|p| p.type_ref())?;
            p.expect(")")?;
            // For an undeclared name, the next token decides: an operand means a cast.
            let next = p.peek();
            let operand = match next.kind {
                TokenKind::Ident => p.is_name(0) || ["true", "false", "this"].contains(&&*next.text),
                TokenKind::Int | TokenKind::Str => true,
                _ => next.is("{") || next.is("{#}") || next.is("!") || next.is("~"),
            };
            if known || operand { Ok((ty, start)) } else { Err(Abandon) }
        })
    }

    /// A primary expression and the operators applied to it. `statement`: a statement starts here, in which `<` can
    /// only start type arguments.
    pub(super) fn postfix(&mut self, statement: bool) -> P<Tall> {
        let (mut e, mut h) = self.primary()?;
        loop {
            let start = e.span;
            if self.eat(".") {
                let member = self.name("the name of a field or method")?;
                let span = self.since(start);
                (e, h) = self.grown(ExprKind::Member(Box::new(e), member), span, h)?;
            } else if self.at("[") {
                let (kind, below) = self.subscript(e)?;
                let span = self.since(start);
                (e, h) = self.grown(kind, span, h.max(below))?;
            } else if self.at("(") {
                let args = self.nested(|p| p.args())?;
                let span = self.since(start);
                let kind = ExprKind::Call { callee: Box::new(e), type_args: Vec::new(), args };
                (e, h) = self.grown(kind, span, h)?;
            } else if self.at("<")
                && let Some(type_args) = self.generic_args(&e, statement)
            {
                if self.at("(") {
                    let args = self.nested(|p| p.args())?;
                    let span = self.since(start);
                    let kind = ExprKind::Call { callee: Box::new(e), type_args, args };
                    (e, h) = self.grown(kind, span, h)?;
                } else if let ExprKind::Name(path) = e.kind {
                    let span = self.since(start);
                    let ty = TypeExpr { kind: TypeExprKind::Specialized(path, type_args), span };
                    (e, h) = self.grown(ExprKind::Type(ty), span, h)?;
                } else {
                    return Err(self.unexpected("`(`"));
                }
            } else {
                return Ok((e, h));
            }
        }
    }

    /// Type arguments after `callee`, if this is what `<` starts: `(` follows them, or `.` after those of a type.
    fn generic_args(&mut self, callee: &Expr, statement: bool) -> Option<Vec<TypeExpr>> {
        let name = match &callee.kind {
            ExprKind::Name(path) => self.lookup(&path.name.name),
            ExprKind::Member(..) => None,
            _ => return None,
        };
        let generic = matches!(name, Some(NameKind::Type | NameKind::Generic));
        let first = self.peek_at(1);
        if !statement && !generic && !self.is_known_type(1) && !first.is_word("_") && !first.is(">") {
            return None;
        }
        self.attempt(|p| {
            let args = p.bracketed(|p| p.type_args())?;
            let ends = p.at("(") || p.at(".") && matches!(callee.kind, ExprKind::Name(_));
            if ends { Ok(args) } else { Err(Abandon) }
        })
    }

    /// `[i]`, `[hi:lo]`, `[lo+:width]` after `of`.
    fn subscript(&mut self, of: Expr) -> P<(ExprKind, u32)> {
        self.expect("[")?;
        let of = Box::new(of);
        self.bracketed(|p| {
            let (a, ha) = p.tall_expr()?;
            let plus = p.at("+:");
            if !plus && !p.at(":") {
                p.expect("]")?;
                return Ok((ExprKind::Index(of, Box::new(a)), ha));
            }
            p.bump();
            let (b, hb) = p.tall_expr()?;
            p.expect("]")?;
            let (a, b) = (Box::new(a), Box::new(b));
            let kind = if plus { ExprKind::PlusSlice(of, a, b) } else { ExprKind::Slice(of, a, b) };
            Ok((kind, ha.max(hb)))
        })
    }

    /// `( ... )` of a call.
    pub(super) fn args(&mut self) -> P<Vec<Arg>> {
        self.expect("(")?;
        self.bracketed(|p| {
            let mut args = Vec::new();
            if !p.at(")") {
                loop {
                    args.push(p.arg()?);
                    if !p.eat(",") {
                        break;
                    }
                }
            }
            match p.at(")") {
                true => p.bump(),
                false => return Err(p.unexpected("`,` or `)`")),
            };
            Ok(args)
        })
    }

    fn arg(&mut self) -> P<Arg> {
        let start = self.peek().span;
        let name = match self.is_name(0) && self.peek_at(1).is("=") {
            true => {
                let name = self.name("the name of a parameter")?;
                self.bump();
                Some(name)
            }
            false => None,
        };
        let value = if self.eat_word("_") { None } else { Some(self.expr()?) };
        Ok(Arg { name, value, span: self.since(start) })
    }

    fn primary(&mut self) -> P<Tall> {
        let t = self.peek().clone();
        let kind = match t.kind {
            TokenKind::Int => match parse_int(&t.text) {
                Ok((value, width)) => ExprKind::Int { value, width },
                Err(why) => {
                    let d = Diagnostic::error(
                        "P0103",
                        t.span,
                        format!("`{}` is not a valid integer: {why}", t.text),
                    );
                    self.report(d.help("write 10, 0xA, 0b1010, 0o12, or with a width 8w10 or 8s10"));
                    // It replaces an integer, so that parsing can continue.
                    ExprKind::Int { value: 0.into(), width: None }
                }
            },
            TokenKind::Str => {
                let mut text = string_text(&t.text).to_string();
                self.bump();
                while self.peek().kind == TokenKind::Str {
                    text += string_text(&self.peek().text);
                    self.bump();
                }
                return Ok((expr(ExprKind::String(text), self.since(t.span)), 1));
            }
            // An unterminated string: reported already.
            TokenKind::Bad(_) => ExprKind::String(String::new()),
            TokenKind::Punct => return self.punct_primary(t.span),
            TokenKind::Ident => match &*t.text {
                "true" => ExprKind::Bool(true),
                "false" => ExprKind::Bool(false),
                "this" => ExprKind::This,
                "error" => {
                    self.bump();
                    if !self.at(".") {
                        return Err(self.unexpected("`.` and the name of an error"));
                    }
                    let ty = TypeExpr { kind: TypeExprKind::Error, span: t.span };
                    return Ok((expr(ExprKind::Type(ty), t.span), 1));
                }
                _ if self.is_name(0) => {
                    let path = self.path("a name")?;
                    return Ok((expr(ExprKind::Name(path), t.span), 1));
                }
                _ => return Err(self.no_expression()),
            },
            _ => return Err(self.no_expression()),
        };
        self.bump();
        Ok((expr(kind, t.span), 1))
    }

    fn no_expression(&mut self) -> Abandon {
        let t = self.peek();
        let help = match &*t.text {
            "_" if t.is_ident() => "`_` is only for arguments and key sets",
            "default" if t.is_ident() => "`default` is only for `select`, `switch` and entries",
            _ if self.is_base_type(0) => "a type is not an expression; a cast is written `(bit<8>) e`",
            _ => return self.unexpected("an expression"),
        };
        let message = format!("expected an expression, found `{}`", t.text);
        self.report(Diagnostic::error("P0201", t.span, message).help(help));
        Abandon
    }

    fn punct_primary(&mut self, start: Span) -> P<Tall> {
        match () {
            () if self.at("(") => {
                self.bump();
                let (mut e, h) = self.bracketed(|p| p.tall_expr())?;
                match self.at(")") {
                    true => self.bump(),
                    false => return Err(self.unexpected("`)`")),
                };
                e.span = self.since(start);
                Ok((e, h))
            }
            () if self.at("{") => self.bracketed(|p| p.nested(|p| p.list())),
            () if self.eat("{#}") => Ok((expr(ExprKind::Invalid, start), 1)),
            () if self.eat("...") => Ok((expr(ExprKind::Dots, start), 1)),
            () if self.at(".") && self.is_name(1) => {
                let path: Path = self.path("a name")?;
                Ok((expr(ExprKind::Name(path), self.since(start)), 1))
            }
            () => Err(self.no_expression()),
        }
    }

    /// `{a, b}`, `{k = a, l = b}`, either with `...` at the end and an optional trailing comma.
    fn list(&mut self) -> P<Tall> {
        let start = self.expect("{")?;
        let named = self.is_name(0) && self.peek_at(1).is("=");
        let (mut elems, mut fields, mut rest, mut height) = (Vec::new(), Vec::new(), false, 0);
        while !self.at("}") {
            if self.at("...")
                && (self.peek_at(1).is("}") || self.peek_at(1).is(",") && self.peek_at(2).is("}"))
            {
                self.bump();
                rest = true;
            } else if named {
                let name = self.name("the name of a field")?;
                self.expect("=")?;
                let (e, h) = self.tall_expr()?;
                height = height.max(h);
                fields.push((name, e));
            } else {
                let (e, h) = self.tall_expr()?;
                height = height.max(h);
                elems.push(e);
            }
            if !self.eat(",") {
                break;
            }
        }
        match self.at("}") {
            true => self.bump(),
            false => return Err(self.unexpected("`,` or `}`")),
        };
        let kind = if named { ExprKind::Struct { fields, rest } } else { ExprKind::List { elems, rest } };
        let span = self.since(start);
        self.grown(kind, span, height)
    }

    // Key sets (section 13.6).

    /// An element of a key set: an expression, a mask, a range, `default` or `_`.
    pub(super) fn key_element(&mut self) -> P<Expr> {
        let span = self.peek().span;
        if self.eat_word("default") {
            return Ok(expr(ExprKind::Default, span));
        }
        if self.eat_word("_") {
            return Ok(expr(ExprKind::DontCare, span));
        }
        self.expr_or_range(true)
    }

    /// An expression, a range or, if `masks`, a mask.
    pub(super) fn expr_or_range(&mut self, masks: bool) -> P<Expr> {
        let a = self.expr()?;
        let mask = masks && self.at("&&&");
        if !mask && !self.at("..") {
            return Ok(a);
        }
        self.bump();
        let b = self.expr()?;
        let span = self.since(a.span);
        let (a, b) = (Box::new(a), Box::new(b));
        Ok(expr(if mask { ExprKind::Mask(a, b) } else { ExprKind::Range(a, b) }, span))
    }

    /// A key set: one element, or several in parentheses.
    pub(super) fn key_set(&mut self) -> P<Vec<Expr>> {
        if !self.at("(") || !self.paren_ends_before_colon() {
            return Ok(vec![self.key_element()?]);
        }
        self.expect("(")?;
        let keys = self.bracketed(|p| {
            let mut keys = vec![p.key_element()?];
            while p.eat(",") {
                keys.push(p.key_element()?);
            }
            Ok(keys)
        })?;
        match self.at(")") {
            true => self.bump(),
            false => return Err(self.unexpected("`,` or `)`")),
        };
        Ok(keys)
    }

    /// Whether `:` follows the `)` of the `(` at the present token. Otherwise the parentheses are part of an expression.
    fn paren_ends_before_colon(&self) -> bool {
        let mut nesting = 0usize;
        for (i, t) in self.tokens.iter().enumerate().skip(self.pos) {
            nesting += usize::from(t.is("("));
            if t.is(")") {
                nesting = nesting.saturating_sub(1);
                if nesting == 0 {
                    return self.tokens.get(i + 1).is_some_and(|n| n.is(":"));
                }
            }
            if t.is(";") {
                // Broken anyway; the message about a tuple is the better one.
                return true;
            }
        }
        true
    }
}
