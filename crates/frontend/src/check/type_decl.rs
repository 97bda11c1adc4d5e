//! Declarations of types: `typedef`, `type`, structs, headers, unions, enums, and type parameters.

use super::Checker;
use super::eval::{self, Const, Evaluator, Stop};
use super::record::Meaning;
use super::scope::{Def, TypeDef};
use super::tree::{self, ExprKind, FieldDef, StructKind};
use super::types::{Kind, Ty};
use crate::ast;
use pointsman_ir::Span;

impl Checker<'_> {
    pub(super) fn typedef(&mut self, t: &ast::TypedefDecl) {
        let ty = self.ty(&t.ty);
        if matches!(self.tree.tys.get(ty), Kind::Void | Kind::MatchKind | Kind::String) {
            let message = format!("`{}` cannot be given another name", self.show(ty));
            self.error("P0406", t.ty.span, message, "use it directly (P4_16 section 7.2.11)");
        }
        self.declare(&t.name, if ty == Ty::ERROR { Def::Broken } else { Def::Type(TypeDef::Alias(ty)) });
    }

    pub(super) fn new_type(&mut self, t: &ast::TypedefDecl, annotations: &[ast::Annotation]) {
        let annotations = self.annotations(annotations);
        let base = self.ty(&t.ty);
        if base == Ty::ERROR {
            self.declare(&t.name, Def::Broken);
            return;
        }
        let allowed = match self.tree.tys.get(base) {
            Kind::Bits { .. } | Kind::Bool | Kind::New(_) => true,
            Kind::Enum(_) => self.tree.enum_repr(base).is_some(),
            _ => false,
        };
        if !allowed {
            let message = format!("a new type cannot be based on `{}`", self.show(base));
            self.error("P0406", t.ty.span, message, "use `bit<W>`, `int<W>`, `bool` or a type based on them");
            self.declare(&t.name, Def::Broken);
            return;
        }
        self.tree.new_types.push(tree::NewType { name: t.name.name.clone(), base, annotations });
        self.declare(&t.name, Def::Type(TypeDef::New(self.tree.new_types.len() - 1)));
    }

    /// Declares type parameters in the innermost scope.
    pub fn type_params(&mut self, names: &[ast::Ident]) -> Vec<Ty> {
        let mut out = Vec::new();
        for n in names {
            self.tree.type_params.push(tree::TypeParam { name: n.name.clone() });
            let ty = self.tree.tys.intern(Kind::Param(self.tree.type_params.len() - 1));
            self.declare(n, Def::Type(TypeDef::Alias(ty)));
            out.push(ty);
        }
        out
    }

    pub(super) fn struct_decl(&mut self, s: &ast::StructDecl, annotations: &[ast::Annotation]) {
        let annotations = self.annotations(annotations);
        let (type_params, fields) = self.in_scope(|c| {
            let type_params = c.type_params(&s.type_params);
            let mut fields: Vec<FieldDef> = Vec::new();
            for f in &s.fields {
                let annotations = c.annotations(&f.annotations);
                let ty = c.ty(&f.ty);
                c.check_field(s.kind, ty, f.ty.span);
                if let Some(first) = fields.iter().find(|o| o.name == f.name.name) {
                    let first = first.span;
                    c.duplicate(&f.name, first);
                    continue;
                }
                fields.push(FieldDef { name: f.name.name.clone(), ty, span: f.name.span, annotations });
            }
            (type_params, fields)
        });
        self.tree.structs.push(tree::StructDef {
            kind: s.kind,
            name: s.name.name.clone(),
            span: s.name.span,
            type_params,
            fields,
            annotations,
        });
        let index = self.tree.structs.len() - 1;
        if s.type_params.is_empty() {
            let ty = self.tree.tys.intern(Kind::Struct(index, Vec::new()));
            if self.limited(ty, s.name.span) == Ty::ERROR {
                self.declare(&s.name, Def::Broken);
                return;
            }
        }
        self.declare(&s.name, Def::Type(TypeDef::Struct(index)));
    }

    /// P4_16 section 7.2.11
    pub fn check_field(&mut self, kind: StructKind, ty: Ty, span: Span) {
        match kind {
            StructKind::Struct => self.check_nesting(ty, span, "a struct"),
            StructKind::Header => {
                if !self.fits_header(ty) {
                    let message = format!("`{}` cannot be a field of a header", self.show(ty));
                    let help = "use `bit<W>`, `int<W>`, `varbit<W>`, `bool`, an enum with a representation, or a \
                                struct of these";
                    self.error("P0406", span, message, help);
                }
            }
            StructKind::HeaderUnion => {
                let header = self.tree.is_struct(ty, &[StructKind::Header]);
                if !header && !matches!(self.tree.tys.get(ty), Kind::Param(_) | Kind::Infer(_) | Kind::Error)
                {
                    let message = format!("`{}` cannot be a field of a header union", self.show(ty));
                    self.error("P0406", span, message, "use a header");
                }
            }
        }
    }

    fn fits_header(&mut self, ty: Ty) -> bool {
        match self.tree.tys.get(ty).clone() {
            Kind::Bits { .. } | Kind::Varbit(_) | Kind::Bool | Kind::Error => true,
            Kind::Param(_) | Kind::Infer(_) => true,
            Kind::Enum(_) => self.tree.enum_repr(ty).is_some(),
            Kind::New(d) => self.fits_header(self.tree.new_types[d].base),
            // As for structs, types of varying size cannot be inside.
            Kind::Stack(t, _) => {
                !self.tree.tys.any(t, &|k| matches!(k, Kind::Varbit(_))) && self.fits_header(t)
            }
            Kind::Struct(d, _) if self.tree.structs[d].kind == StructKind::Struct => {
                let fields = self.tree.fields(ty).unwrap_or_default();
                fields.into_iter().all(|(_, t)| self.fits_header(t))
            }
            _ => false,
        }
    }

    pub(super) fn enum_decl(&mut self, e: &ast::EnumDecl) {
        let repr = e.repr.as_ref().map(|t| {
            let ty = self.ty(t);
            if ty != Ty::ERROR && self.tree.tys.bits(ty).is_none() {
                let message = format!("`{}` cannot represent an enum", self.show(ty));
                self.error("P0406", t.span, message, "use `bit<W>` or `int<W>`");
                return Ty::ERROR;
            }
            ty
        });
        // A value may name earlier members.
        let index = self.tree.enums.len();
        let (name, span) = (e.name.name.clone(), e.name.span);
        self.tree.enums.push(tree::EnumDef { name, span, repr, members: Vec::new() });
        self.scopes.push(Default::default());
        let mut spans: Vec<Span> = Vec::new();
        for (name, value) in &e.members {
            let members = &self.tree.enums[index].members;
            if let Some(i) = members.iter().position(|(n, _)| *n == name.name) {
                let first = spans[i];
                self.duplicate(name, first);
                continue;
            }
            let bits = self.member_value(name, value.as_ref(), repr);
            if let Some(bits) = &bits {
                let ty = self.tree.tys.intern(Kind::Enum(index));
                let value = tree::Expr::constant(Const::Bits(bits.clone()), ty, name.span);
                self.declare(name, Def::Const(value));
            }
            self.note_declared(name, || Meaning::EnumMember(index));
            self.tree.enums[index].members.push((name.name.clone(), bits));
            spans.push(name.span);
        }
        self.scopes.pop();
        if e.members.is_empty() {
            self.error("P0508", e.name.span, "an enum needs at least one member", "add one");
        }
        self.declare(&e.name, Def::Type(TypeDef::Enum(index)));
    }

    fn member_value(
        &mut self,
        name: &ast::Ident,
        value: Option<&ast::Expr>,
        repr: Option<Ty>,
    ) -> Option<pointsman_ir::Bits> {
        let (span, message, help) = match (repr, value) {
            (Some(repr), Some(v)) => return self.enum_value(v, repr),
            (Some(_), None) => (
                name.span,
                format!("`{}` has no value, but the enum has a representation", name.name),
                "give it one: `name = value`",
            ),
            (None, Some(v)) => (
                v.span,
                "a member has a value, but the enum has no representation".to_string(),
                "declare the representation: `enum bit<8> ...`",
            ),
            (None, None) => return None,
        };
        self.error("P0508", span, message, help);
        None
    }

    fn enum_value(&mut self, v: &ast::Expr, repr: Ty) -> Option<pointsman_ir::Bits> {
        let e = self.value(v);
        let (width, signed) = self.tree.tys.bits(repr)?;
        if e.ty == Ty::ERROR {
            return None;
        }
        let e = if e.ty == Ty::INT { e } else { self.coerce(e, repr, "the value") };
        let int = Evaluator { tree: &self.tree, vars: &|_| None }.eval_int(&e);
        match int {
            Ok(i) => {
                let (bits, lost) = eval::truncate(&i, width, signed);
                if lost {
                    let message = format!("{i} does not fit `{}`", self.show(repr));
                    self.error("P0508", e.span, message, "use a smaller value or a wider representation");
                }
                Some(bits)
            }
            Err(Stop::Bad(d)) => {
                self.report(*d);
                None
            }
            Err(Stop::NotConstant(_)) => {
                if !matches!(e.kind, ExprKind::Error) {
                    let help = "use a literal or a constant";
                    self.error("P0501", e.span, "the value of a member must be known at compile time", help);
                }
                None
            }
        }
    }
}
