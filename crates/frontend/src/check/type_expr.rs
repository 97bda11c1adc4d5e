//! Types as written into types (P4_16 chapter 7).

use super::Checker;
use super::scope::{Def, TypeDef};
use super::types::{Kind, Ty};
use crate::ast::{self, TypeExpr, TypeExprKind};
use crate::diag::Diagnostic;
use pointsman_ir::Span;

/// Widths above this are refused: BMv2 and hardware are far below, and memory is finite.
const MAX_WIDTH: u32 = 1 << 16;
/// Elements of a header stack.
const MAX_STACK: u32 = 1 << 16;

impl Checker<'_> {
    /// The type of `t`.
    pub fn ty(&mut self, t: &TypeExpr) -> Ty {
        match &t.kind {
            TypeExprKind::Bool => Ty::BOOL,
            TypeExprKind::Error => {
                if !self.has_errors {
                    let help = "is `#include <core.p4>` missing? Or declare some: `error { ... }`";
                    self.error("P0303", t.span, "no `error` is declared", help);
                    return Ty::ERROR;
                }
                Ty::ERROR_CODE
            }
            TypeExprKind::MatchKind => Ty::MATCH_KIND,
            TypeExprKind::String => Ty::STRING,
            TypeExprKind::Void => Ty::VOID,
            TypeExprKind::InfInt => Ty::INT,
            TypeExprKind::Bit(e) => match self.width(e, 0) {
                Some(w) => self.tree.tys.bit(w),
                None => Ty::ERROR,
            },
            TypeExprKind::Int(e) => match self.width(e, 1) {
                Some(width) => self.tree.tys.intern(Kind::Bits { width, signed: true }),
                None => Ty::ERROR,
            },
            TypeExprKind::Varbit(e) => match self.width(e, 0) {
                Some(w) => self.tree.tys.intern(Kind::Varbit(w)),
                None => Ty::ERROR,
            },
            TypeExprKind::Named(path) => self.named(path, &[], t.span, false),
            TypeExprKind::Specialized(path, args) => {
                let args: Vec<Ty> = args.iter().map(|a| self.type_arg(a)).collect();
                self.named(path, &args, t.span, false)
            }
            TypeExprKind::Stack(elem, size) => self.stack(elem, size, t.span),
            TypeExprKind::Tuple(ts) => {
                let all: Vec<Ty> = ts.iter().map(|a| self.type_arg(a)).collect();
                for (ty, t) in all.iter().zip(ts) {
                    self.check_nesting(*ty, t.span, "a tuple");
                }
                let ty = self.tree.tys.intern(Kind::Tuple(all));
                self.limited(ty, t.span)
            }
            TypeExprKind::List(t) => {
                // Lists exist at compile time only, and so do their elements.
                let e = match &t.kind {
                    TypeExprKind::Tuple(ts) => {
                        let all = ts.iter().map(|a| self.type_arg(a)).collect();
                        self.tree.tys.intern(Kind::Tuple(all))
                    }
                    _ => self.type_arg(t),
                };
                self.tree.tys.intern(Kind::List(e))
            }
            TypeExprKind::DontCare => {
                self.error("P0303", t.span, "`_` is not allowed here", "write the type");
                Ty::ERROR
            }
        }
    }

    /// An array of so many elements.
    fn stack(&mut self, elem: &TypeExpr, size: &ast::Expr, span: Span) -> Ty {
        let e = self.ty(elem);
        let size_expr = self.expr(size);
        let n = self.const_u32(&size_expr, "the size of an array");
        let (Some(n), true) = (n, e != Ty::ERROR) else { return Ty::ERROR };
        if n == 0 || n > MAX_STACK {
            self.error(
                "P0506",
                size.span,
                format!("an array cannot have {n} elements"),
                format!("use a size from 1 to {MAX_STACK}"),
            );
            return Ty::ERROR;
        }
        if !self.check_element(e, elem.span) {
            return Ty::ERROR;
        }
        let ty = self.tree.tys.intern(Kind::Stack(e, n));
        self.limited(ty, span)
    }

    /// A type argument: `_` is left to inference.
    pub fn type_arg(&mut self, t: &TypeExpr) -> Ty {
        if let TypeExprKind::DontCare = t.kind {
            return self.fresh();
        }
        let ty = self.ty(t);
        // `void` means that an extern does not use the argument.
        if !self.is_value_type(ty) && ty != Ty::VOID {
            let message = format!("`{}` cannot be a type argument", self.show(ty));
            self.error("P0406", t.span, message, "use a type that has values");
            return Ty::ERROR;
        }
        ty
    }

    /// A type variable for inference.
    pub fn fresh(&mut self) -> Ty {
        self.next_infer += 1;
        self.tree.tys.intern(Kind::Infer(self.next_infer))
    }

    fn width(&mut self, e: &ast::Expr, least: u32) -> Option<u32> {
        let width = self.expr(e);
        let w = self.const_u32(&width, "the width of a type")?;
        if w < least || w > MAX_WIDTH {
            self.error(
                "P0506",
                e.span,
                format!("a width of {w} bits is not possible here"),
                format!("use a width from {least} to {MAX_WIDTH}"),
            );
            return None;
        }
        Some(w)
    }

    /// The type called `path` with type arguments. `infer`: missing ones are left to inference.
    pub fn named(&mut self, path: &ast::Path, args: &[Ty], span: Span, infer: bool) -> Ty {
        let Some(binding) = self.lookup(path) else { return Ty::ERROR };
        let def = match binding.def {
            Def::Type(def) => def,
            Def::Broken => return Ty::ERROR,
            other => {
                self.report(
                    Diagnostic::error(
                        "P0303",
                        span,
                        format!("`{}` is {}, not a type", path.name.name, other.describe()),
                    )
                    .related(binding.span, "declared here")
                    .help("use the name of a type"),
                );
                return Ty::ERROR;
            }
        };
        self.specialize(def, args, span, infer)
    }

    /// `def` with type arguments.
    pub fn specialize(&mut self, def: TypeDef, args: &[Ty], span: Span, infer: bool) -> Ty {
        let (name, wanted) = match def {
            TypeDef::Struct(d) => (self.tree.structs[d].name.clone(), self.tree.structs[d].type_params.len()),
            TypeDef::Enum(d) => (self.tree.enums[d].name.clone(), 0),
            TypeDef::New(d) => (self.tree.new_types[d].name.clone(), 0),
            TypeDef::Alias(t) => (self.show(t), 0),
            TypeDef::Extern(d) => (self.tree.externs[d].name.clone(), self.tree.externs[d].type_params.len()),
            TypeDef::Block(d) => (self.tree.blocks[d].name.clone(), self.tree.blocks[d].type_params.len()),
            TypeDef::Package(d) => {
                (self.tree.packages[d].name.clone(), self.tree.packages[d].sig.type_params.len())
            }
        };
        let args: Vec<Ty> = if args.is_empty() && infer {
            (0..wanted).map(|_| self.fresh()).collect()
        } else {
            args.to_vec()
        };
        if args.len() != wanted {
            let message = match wanted {
                0 => format!("`{name}` takes no type arguments"),
                n => format!("`{name}` takes {n} type argument(s), not {}", args.len()),
            };
            let help = if wanted == 0 {
                "remove the `<...>`".to_string()
            } else {
                format!("write `{name}<...>` with {wanted} type(s)")
            };
            self.error("P0405", span, message, help);
            return Ty::ERROR;
        }
        if args.contains(&Ty::ERROR) {
            return Ty::ERROR;
        }
        if let TypeDef::Struct(d) = def
            && !args.is_empty()
        {
            self.check_specialized(d, &args, span);
        }
        let kind = match def {
            TypeDef::Struct(d) => Kind::Struct(d, args),
            TypeDef::Enum(d) => Kind::Enum(d),
            TypeDef::New(d) => Kind::New(d),
            TypeDef::Alias(t) => return t,
            TypeDef::Extern(d) => Kind::Extern(d, args),
            TypeDef::Block(d) => Kind::Block(d, args),
            TypeDef::Package(d) => Kind::Package(d, args),
        };
        let ty = self.tree.tys.intern(kind);
        self.limited(ty, span)
    }

    /// `ty` unless it is too large for any executor.
    pub fn limited(&mut self, ty: Ty, span: Span) -> Ty {
        match self.tree.too_large(ty) {
            None => ty,
            Some(problem) => {
                let message = format!("type `{}` {problem}", self.show(ty));
                self.error("P0506", span, message, "make it smaller");
                Ty::ERROR
            }
        }
    }

    /// Checks that the fields of a generic struct still have valid types.
    fn check_specialized(&mut self, d: usize, args: &[Ty], span: Span) {
        let def = &self.tree.structs[d];
        let (kind, params) = (def.kind, def.type_params.clone());
        let fields: Vec<(Ty, Span)> = def.fields.iter().map(|f| (f.ty, f.span)).collect();
        for (f, at) in fields {
            let ty = self.tree.tys.subst(f, &params, args);
            if ty != f {
                let before = self.diagnostics.len();
                self.check_field(kind, ty, span);
                self.relate(before, at, "the field");
            }
        }
    }

    /// Whether `ty` is the type of a value that a variable can hold.
    pub fn is_value_type(&self, ty: Ty) -> bool {
        !matches!(
            self.tree.tys.get(ty),
            Kind::Void | Kind::Extern(..) | Kind::Block(..) | Kind::Package(..) | Kind::Applied(_)
        )
    }

    /// Reports a type that cannot be the element of an array (P4_16 section 7.2.11).
    fn check_element(&mut self, ty: Ty, span: Span) -> bool {
        let help = match self.tree.tys.get(ty) {
            Kind::Stack(e, _) if self.is_header(*e) => {
                "an array of header stacks is not allowed: use a struct"
            }
            Kind::Extern(..) => "declare the objects one by one",
            Kind::Tuple(_) => "use a struct instead of the tuple",
            Kind::Int => "give the elements a width, as in `bit<32>`",
            Kind::String
            | Kind::MatchKind
            | Kind::List(_)
            | Kind::Void
            | Kind::Block(..)
            | Kind::Package(..) => "use headers, structs, or types with a fixed representation",
            _ => return true,
        };
        let message = format!("an array cannot have elements of type `{}`", self.show(ty));
        self.error("P0406", span, message, help);
        false
    }

    /// Whether it is an array whose elements are headers or header unions.
    pub fn is_header_stack(&self, ty: Ty) -> bool {
        matches!(self.tree.tys.get(ty), Kind::Stack(e, _) if self.is_header(*e) || matches!(self.tree.tys.get(*e), Kind::Param(_)))
    }

    /// Reports a type that cannot be inside a struct or tuple (P4_16 section 7.2.11).
    pub fn check_nesting(&mut self, ty: Ty, span: Span, container: &str) {
        let compile_time =
            matches!(self.tree.tys.get(ty), Kind::Int | Kind::String | Kind::MatchKind | Kind::List(_));
        if compile_time && container == "a tuple" {
            // Constants of such types do no harm, and p4c's library of lists is made of them.
            let message =
                format!("P4_16 does not allow `{}` inside a tuple; here it is allowed", self.show(ty));
            let help = "such a tuple exists only at compile time (P4_16 section 7.2.11)";
            self.report(Diagnostic::warning("P0406", span, message).help(help));
            return;
        }
        let wrong = compile_time || !self.is_value_type(ty);
        if wrong {
            let message = format!("`{}` cannot be inside {container}", self.show(ty));
            self.error(
                "P0406",
                span,
                message,
                "use a type with a fixed representation (P4_16 section 7.2.11)",
            );
        }
    }

    /// Reports a type that a variable cannot have.
    pub fn check_variable_type(&mut self, ty: Ty, span: Span) -> bool {
        let wrong = match self.tree.tys.get(ty) {
            Kind::Void => "type `void` has no values",
            Kind::Int => "a variable cannot have type `int`: only compile-time values can",
            Kind::String => "a variable cannot have type `string`: only compile-time values can",
            Kind::MatchKind => "a variable cannot have type `match_kind`",
            Kind::List(_) => "a variable cannot have a `list` type",
            Kind::Tuple(_)
                if self.tree.tys.any(ty, &|k| {
                    matches!(k, Kind::Int | Kind::String | Kind::MatchKind | Kind::List(_))
                }) =>
            {
                "a variable cannot have a type that exists only at compile time"
            }
            Kind::Extern(..) | Kind::Block(..) | Kind::Package(..) => {
                "objects are made by instantiation, not by declaring a variable"
            }
            _ => return true,
        };
        let help = match self.tree.tys.get(ty) {
            Kind::Int => "give it a width, as in `bit<32>`, or make it a `const`",
            Kind::Extern(..) | Kind::Block(..) | Kind::Package(..) => "write `Type(arguments) name;`",
            _ => "use another type",
        };
        self.error("P0406", span, wrong, help);
        false
    }
}
