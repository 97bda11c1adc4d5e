//! Types, type arguments and type parameters (section 7).

use super::{NameKind, P, Parser};
use crate::ast::{Expr, ExprKind, Ident, TypeExpr, TypeExprKind};
use crate::diag::Diagnostic;

/// Words that start a type and nothing else, `list` before `<` apart.
const BASE: [&str; 8] = ["bit", "bool", "error", "int", "match_kind", "string", "tuple", "varbit"];

impl Parser {
    /// Whether the token `n` ahead is the start of a type other than a name.
    pub(super) fn is_base_type(&self, n: usize) -> bool {
        let t = self.peek_at(n);
        t.is_ident() && (BASE.contains(&&*t.text) || t.is_word("list") && self.peek_at(n + 1).is("<"))
    }

    /// A type; `void` is none.
    pub(super) fn type_ref(&mut self) -> P<TypeExpr> {
        if self.at_word("void") {
            let d = Diagnostic::error("P0201", self.peek().span, "`void` can only be a return type");
            self.report(d.help("use another type"));
            return Err(super::Abandon);
        }
        self.type_or_void()
    }

    /// A type or `void`.
    pub(super) fn type_or_void(&mut self) -> P<TypeExpr> {
        self.nested(|p| {
            let start = p.peek().span;
            let kind = p.plain_type()?;
            let ty = TypeExpr { kind, span: p.since(start) };
            p.stack_suffix(ty)
        })
    }

    /// `[n]` after a type or, as p4c allows, after the name that is declared with it.
    pub(super) fn stack_suffix(&mut self, mut ty: TypeExpr) -> P<TypeExpr> {
        let mut height = 1;
        while self.at("[") {
            height += 1;
            self.check_depth(height)?;
            self.bump();
            let size = self.inner_expr()?;
            self.expect("]")?;
            let span = self.since(ty.span);
            ty = TypeExpr { kind: TypeExprKind::Stack(Box::new(ty), Box::new(size)), span };
        }
        Ok(ty)
    }

    fn plain_type(&mut self) -> P<TypeExprKind> {
        let t = self.peek();
        if t.is_word("list") && self.peek_at(1).is("<") {
            self.bump();
            self.bump();
            let elem = self.type_arg()?;
            self.close_angle()?;
            return Ok(TypeExprKind::List(Box::new(elem)));
        }
        let word = t.text.clone();
        if t.is_ident() && (BASE.contains(&&*word) || &*word == "void") {
            let start = self.bump();
            let sized = self.at("<");
            return Ok(match &*word {
                "bool" => TypeExprKind::Bool,
                "error" => TypeExprKind::Error,
                "match_kind" => TypeExprKind::MatchKind,
                "string" => TypeExprKind::String,
                "void" => TypeExprKind::Void,
                "tuple" => TypeExprKind::Tuple(self.type_args()?),
                "bit" if sized => TypeExprKind::Bit(self.width()?),
                "bit" => TypeExprKind::Bit(Box::new(Expr {
                    kind: ExprKind::Int { value: 1.into(), width: None },
                    span: start,
                })),
                "int" if sized => TypeExprKind::Int(self.width()?),
                "int" => TypeExprKind::InfInt,
                _ => TypeExprKind::Varbit(self.width()?),
            });
        }
        let path = self.path("a type")?;
        Ok(match self.at("<") {
            true => TypeExprKind::Specialized(path, self.type_args()?),
            false => TypeExprKind::Named(path),
        })
    }

    /// `<n>`: in it, `>` is not an operator unless in parentheses.
    fn width(&mut self) -> P<Box<Expr>> {
        self.expect("<")?;
        let outer = std::mem::replace(&mut self.no_gt, true);
        let width = self.expr();
        self.no_gt = outer;
        let width = width?;
        self.close_angle()?;
        Ok(Box::new(width))
    }

    fn close_angle(&mut self) -> P<()> {
        self.expect(">").map(|_| ())
    }

    /// `<T, ...>`
    pub(super) fn type_args(&mut self) -> P<Vec<TypeExpr>> {
        self.expect("<")?;
        let mut args = Vec::new();
        if !self.at(">") {
            args.push(self.type_arg()?);
            while self.eat(",") {
                args.push(self.type_arg()?);
            }
        }
        self.close_angle()?;
        Ok(args)
    }

    fn type_arg(&mut self) -> P<TypeExpr> {
        if self.at_word("_") {
            return Ok(TypeExpr { kind: TypeExprKind::DontCare, span: self.bump() });
        }
        self.type_or_void()
    }

    /// `<A, B>` or nothing; the names are declared as types.
    pub(super) fn type_params(&mut self) -> P<Vec<Ident>> {
        let mut params = Vec::new();
        if self.eat("<") {
            loop {
                let name = self.name("the name of a type parameter")?;
                self.declare(&name, NameKind::Type);
                params.push(name);
                if !self.eat(",") {
                    break;
                }
            }
            self.close_angle()?;
        }
        Ok(params)
    }

    /// Whether the token `n` ahead can only start a type, as far as is known.
    pub(super) fn is_known_type(&self, n: usize) -> bool {
        let t = self.peek_at(n);
        if t.is(".") {
            let name = self.peek_at(n + 1);
            let global = self.scopes.first().and_then(|s| s.get(&name.text));
            return global == Some(&NameKind::Type);
        }
        self.is_base_type(n) && !self.peek_at(n + 1).is(".")
            || t.is_word("void")
            || self.is_name(n) && self.lookup(&t.text) == Some(NameKind::Type)
    }

    /// Whether a declaration of a variable or instance starts here, rather than an expression.
    pub(super) fn at_declaration(&mut self) -> bool {
        if self.at_word("void") || self.is_base_type(0) {
            return !self.peek_at(1).is(".");
        }
        let name = usize::from(self.at("."));
        if !self.is_name(name) {
            return false;
        }
        if self.is_name(name + 1) {
            return true;
        }
        if !self.peek_at(name + 1).is("<") && !self.peek_at(name + 1).is("[") {
            return false;
        }
        // `T<A> x`, `T[3] x`: a type and a name.
        let pos = self.pos;
        let found = self.attempt(|p| {
            p.type_ref()?;
            match p.is_name(0) {
                true => Ok(()),
                false => Err(super::Abandon),
            }
        });
        self.pos = pos;
        found.is_some()
    }
}
