//! `base.name`, where the base may be a value, a type or the result of `apply`.

use super::Checker;
use super::eval::Const;
use super::record::Meaning;
use super::scope::{Def, TypeDef, nearest};
use super::tree::{Expr, ExprKind};
use super::types::{Kind, Ty};
use crate::ast::{self, ExprKind as Ast, TypeExprKind};
use crate::diag::Diagnostic;
use num_bigint::BigInt;
use pointsman_ir::{Bits, Span};

impl Checker<'_> {
    /// The type that an expression names, if it names one.
    pub fn as_type(&self, e: &ast::Expr) -> Option<TypeDef> {
        let path = match &e.kind {
            Ast::Name(path) => path,
            Ast::Type(t) => match &t.kind {
                TypeExprKind::Named(path) | TypeExprKind::Specialized(path, _) => path,
                TypeExprKind::Error => return Some(TypeDef::Alias(Ty::ERROR_CODE)),
                _ => return None,
            },
            _ => return None,
        };
        match self.find(path).map(|b| &b.def) {
            Some(Def::Type(def)) => Some(*def),
            _ => None,
        }
    }

    /// Notes the use of the type that an expression names.
    pub fn note_type(&mut self, e: &ast::Expr) {
        if let Ast::Name(path)
        | Ast::Type(ast::TypeExpr {
            kind: TypeExprKind::Named(path) | TypeExprKind::Specialized(path, _),
            ..
        }) = &e.kind
        {
            self.note_path(path);
        }
    }

    /// `base.name` as a value.
    pub fn member(&mut self, base: &ast::Expr, name: &ast::Ident, span: Span) -> Expr {
        if let Some(def) = self.as_type(base) {
            self.note_type(base);
            return self.type_member(def, name, span);
        }
        let b = self.expr(base);
        if b.ty == Ty::ERROR {
            return Expr::error(span);
        }
        match self.tree.tys.get(b.ty).clone() {
            Kind::Struct(def, _) => {
                self.note_field(name, def);
                if let Some((i, ty)) = self.tree.field(b.ty, &name.name) {
                    return self.fold(Expr { kind: ExprKind::Field(Box::new(b), i), ty, span });
                }
                let fields = self.tree.fields(b.ty).unwrap_or_default();
                let near = nearest(&name.name, fields.iter().map(|(n, _)| n.as_str()));
                self.no_member(&b, name, near);
                Expr::error(span)
            }
            Kind::Stack(elem, size) if self.is_header_stack(b.ty) => {
                self.stack_member(b, elem, size, name, span)
            }
            Kind::Record(fields, _) => match fields.iter().position(|(n, _)| *n == name.name) {
                Some(i) => {
                    self.fold(Expr { kind: ExprKind::Field(Box::new(b), i as u32), ty: fields[i].1, span })
                }
                None => {
                    self.no_member(&b, name, None);
                    Expr::error(span)
                }
            },
            Kind::Applied(table) => match name.name.as_str() {
                "hit" => Expr { kind: ExprKind::Hit { table, negate: false }, ty: Ty::BOOL, span },
                "miss" => Expr { kind: ExprKind::Hit { table, negate: true }, ty: Ty::BOOL, span },
                "action_run" => {
                    let help = "write `switch (table.apply().action_run) { ... }`";
                    self.error(
                        "P0410",
                        span,
                        "`action_run` can be used only as the expression of a `switch`",
                        help,
                    );
                    Expr::error(span)
                }
                _ => {
                    self.no_member(&b, name, nearest(&name.name, ["hit", "miss", "action_run"].into_iter()));
                    Expr::error(span)
                }
            },
            _ => {
                self.no_member(&b, name, None);
                Expr::error(span)
            }
        }
    }

    fn no_member(&mut self, b: &Expr, name: &ast::Ident, near: Option<String>) {
        let ty = self.show(b.ty);
        let mut d = Diagnostic::error("P0304", name.span, format!("`{ty}` has no field `{}`", name.name))
            .related(b.span, format!("this is `{ty}`"));
        if let Kind::Struct(def, _) = self.tree.tys.get(b.ty) {
            d = d.related(self.tree.structs[*def].span, "declared here");
        }
        self.report(match near {
            Some(n) => d.help(format!("did you mean `{n}`?")),
            None => d.help("check the name against the declaration"),
        });
    }

    fn stack_member(&mut self, b: Expr, elem: Ty, size: u32, name: &ast::Ident, span: Span) -> Expr {
        let known = ["next", "last", "lastIndex"];
        if name.name == "size" {
            return Expr::constant(Const::Bits(Bits::new(32, u128::from(size))), Ty::BIT32, span);
        }
        if !known.contains(&name.name.as_str()) {
            let near = nearest(&name.name, known.into_iter().chain(["size"]));
            self.no_member(&b, name, near);
            return Expr::error(span);
        }
        if !self.in_parser_code() {
            let message = format!("`.{}` of a header stack can be used only in parsers", name.name);
            self.error("P0410", span, message, "use an index: `stack[i]`");
            return Expr::error(span);
        }
        if b.has_effects() || b.root_var().is_none() {
            self.error("P0403", span, "this stack is not a variable", "use a variable or a field of one");
            return Expr::error(span);
        }
        let b = Box::new(b);
        match name.name.as_str() {
            "next" => Expr { kind: ExprKind::Next(b), ty: elem, span },
            "last" => Expr { kind: ExprKind::Last(b), ty: elem, span },
            _ => Expr { kind: ExprKind::LastIndex(b), ty: Ty::BIT32, span },
        }
    }

    fn type_member(&mut self, def: TypeDef, name: &ast::Ident, span: Span) -> Expr {
        let ty = match def {
            TypeDef::Alias(ty) => ty,
            TypeDef::Enum(d) => self.tree.tys.intern(Kind::Enum(d)),
            other => {
                let what = Def::Type(other).describe();
                let message = format!("{what} has no member `{}`", name.name);
                self.error("P0304", span, message, "only enums and `error` have members");
                return Expr::error(span);
            }
        };
        match self.tree.tys.get(ty).clone() {
            Kind::ErrorCode => match self.tree.errors.iter().position(|e| *e == name.name) {
                Some(i) => {
                    self.note_member(name, |m| matches!(m, Meaning::Error));
                    Expr::constant(Const::Error(i as u32), ty, span)
                }
                None => {
                    let near = nearest(&name.name, self.tree.errors.iter().map(String::as_str));
                    let help = match near {
                        Some(n) => format!("did you mean `error.{n}`?"),
                        None => format!("declare it: `error {{ {} }}`", name.name),
                    };
                    self.error("P0304", name.span, format!("there is no error `{}`", name.name), help);
                    Expr::error(span)
                }
            },
            Kind::Enum(d) => {
                self.note_member(name, |m| matches!(m, Meaning::EnumMember(e) if *e == d));
                let def = &self.tree.enums[d];
                match def.members.iter().position(|(n, _)| *n == name.name) {
                    Some(i) => {
                        let value = match &def.members[i].1 {
                            Some(bits) => Const::Bits(bits.clone()),
                            None if def.repr.is_some() => return Expr::error(span),
                            None => Const::Enum(i as u32),
                        };
                        Expr::constant(value, ty, span)
                    }
                    None => {
                        let near = nearest(&name.name, def.members.iter().map(|(n, _)| n.as_str()));
                        let d = Diagnostic::error(
                            "P0304",
                            name.span,
                            format!("enum `{}` has no member `{}`", def.name, name.name),
                        )
                        .related(def.span, "declared here");
                        let help =
                            near.map_or("use one of its members".into(), |n| format!("did you mean `{n}`?"));
                        self.report(d.help(help));
                        Expr::error(span)
                    }
                }
            }
            Kind::Error => Expr::error(span),
            _ => {
                let message = format!("`{}` has no member `{}`", self.show(ty), name.name);
                self.error("P0304", span, message, "only enums and `error` have members");
                Expr::error(span)
            }
        }
    }

    /// `x.minSizeInBits()` and its relatives; `None` if `method` is not one of them.
    pub fn size_method(&mut self, ty: Ty, method: &str, span: Span) -> Option<Expr> {
        let (max, bytes) = match method {
            "minSizeInBits" => (false, false),
            "minSizeInBytes" => (false, true),
            "maxSizeInBits" => (true, false),
            "maxSizeInBytes" => (true, true),
            _ => return None,
        };
        if ty == Ty::ERROR {
            return Some(Expr::error(span));
        }
        Some(match self.tree.size_in_bits(ty, max) {
            Some(n) => {
                let n = if bytes { n.div_ceil(8) } else { n };
                Expr::constant(Const::Int(BigInt::from(n)), Ty::INT, span)
            }
            None => {
                let message = format!("`{}` has no size that is known at compile time", self.show(ty));
                self.error("P0501", span, message, "use it on a type made of bits, headers and structs");
                Expr::error(span)
            }
        })
    }
}
