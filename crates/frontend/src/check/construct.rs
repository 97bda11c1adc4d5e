//! Constructor calls (P4_16 section 8.21).

use super::arguments::{Signature, Style};
use super::scope::{Def, TypeDef};
use super::tree::{Arg, Expr, ExprKind, New, Param};
use super::types::{Kind, Ty};
use super::{Checker, Place};
use crate::ast;
use pointsman_ir::Span;

impl Checker<'_> {
    /// A constructor call.
    pub fn construct(&mut self, def: TypeDef, explicit: &[Ty], args: &[ast::Arg], span: Span) -> Expr {
        let def = match def {
            TypeDef::Alias(ty) => match self.tree.tys.get(ty).clone() {
                _ if !explicit.is_empty() => {
                    let message = format!("`{}` takes no type arguments", self.show(ty));
                    self.error("P0405", span, message, "remove the `<...>`");
                    return Expr::error(span);
                }
                Kind::Extern(d, targs) => return self.construct(TypeDef::Extern(d), &targs, args, span),
                Kind::Block(d, targs) => return self.construct(TypeDef::Block(d), &targs, args, span),
                Kind::Package(d, targs) => return self.construct(TypeDef::Package(d), &targs, args, span),
                Kind::Error => return Expr::error(span),
                _ => def,
            },
            other => other,
        };
        let Some((name, params, tparams, ctor)) = self.constructor(def, args, span) else {
            return Expr::error(span);
        };
        let to = Signature { name: &name, params: &params, type_params: &tparams, explicit };
        let style = if matches!(def, TypeDef::Block(_)) { Style::Block } else { Style::Other };
        let Some(bound) = self.arguments(to, args, style, span) else {
            return Expr::error(span);
        };
        let ty = match def {
            TypeDef::Extern(d) => Kind::Extern(d, bound.type_args),
            TypeDef::Block(d) => Kind::Block(d, bound.type_args),
            TypeDef::Package(d) => Kind::Package(d, bound.type_args),
            _ => return Expr::error(span),
        };
        let ty = self.tree.tys.intern(ty);
        if !self.may_instantiate(ty, span) {
            return Expr::error(span);
        }
        let args = bound
            .args
            .into_iter()
            .map(|a| match a {
                Arg::In(e) => Some(e),
                _ => None,
            })
            .collect();
        Expr { kind: ExprKind::New(Box::new(New { ty, ctor, args, span })), ty, span }
    }

    /// Name, parameters, type parameters and number of what constructs a `def`.
    fn constructor(
        &mut self,
        def: TypeDef,
        args: &[ast::Arg],
        span: Span,
    ) -> Option<(String, Vec<Param>, Vec<Ty>, usize)> {
        Some(match def {
            TypeDef::Extern(d) => {
                let ext = self.tree.externs[d].clone();
                let candidates: Vec<(Span, &[Param])> =
                    ext.ctors.iter().map(|s| (s.span, s.params.as_slice())).collect();
                if candidates.is_empty() {
                    let help = "it has no constructor: only the architecture creates such objects";
                    self.error("P0507", span, format!("`{}` cannot be instantiated", ext.name), help);
                    return None;
                }
                let Some(which) = self.overload(&ext.name, &candidates, args, span) else {
                    self.check_args_anyway(args);
                    return None;
                };
                (ext.name, ext.ctors[which].params.clone(), ext.type_params, which)
            }
            TypeDef::Block(d) => {
                let b = &self.tree.blocks[d];
                if !b.done {
                    let help = "P4 has no recursion: a block cannot contain itself";
                    self.error(
                        "P0306",
                        span,
                        format!("`{}` contains an instance of itself", b.name.clone()),
                        help,
                    );
                    return None;
                }
                if b.body.is_none() {
                    let message = format!("`{}` is only a block type without a body", b.name);
                    self.error("P0507", span, message, "instantiate a parser or control with a body");
                    return None;
                }
                (b.name.clone(), b.ctor_params.clone(), b.type_params.clone(), 0)
            }
            TypeDef::Package(d) => {
                let p = &self.tree.packages[d];
                (p.name.clone(), p.sig.params.clone(), p.sig.type_params.clone(), 0)
            }
            other => {
                let message = format!("{} has no constructor", Def::Type(other).describe());
                self.error("P0303", span, message, "a cast is written `(type) value`");
                self.check_args_anyway(args);
                return None;
            }
        })
    }

    /// Reports an instantiation that the place does not allow.
    fn may_instantiate(&mut self, ty: Ty, span: Span) -> bool {
        let (what, parser, package) = match self.tree.tys.get(ty) {
            Kind::Block(d, _) => {
                let p = self.tree.blocks[*d].is_parser;
                (if p { "a parser" } else { "a control" }, Some(p), false)
            }
            Kind::Package(..) => ("a package", None, true),
            _ => ("an extern object", None, false),
        };
        let fine = match self.cx.place {
            Place::Top => true,
            Place::Action | Place::Function => false,
            Place::BlockHead | Place::ParserState | Place::ControlApply => {
                !package && parser.is_none_or(|p| p == self.cx.in_parser)
            }
        };
        if !fine {
            let help = match (self.cx.place, parser) {
                (Place::BlockHead | Place::ParserState | Place::ControlApply, Some(true)) => {
                    "controls cannot use parsers"
                }
                (Place::BlockHead | Place::ParserState | Place::ControlApply, Some(false)) => {
                    "parsers cannot use controls"
                }
                _ => "instantiate it at the head of a block or at the top level",
            };
            self.error("P0507", span, format!("{what} cannot be instantiated here"), help);
        }
        fine
    }
}
