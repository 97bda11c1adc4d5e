//! Inference of type arguments, and implicit casts (P4_16 sections 7.2.13 and 8.11.2).

use super::Checker;
use super::eval::{self, Const};
use super::tree::{Expr, ExprKind, Param, StructKind};
use super::types::{Kind, Ty};
use crate::diag::Diagnostic;
use std::collections::BTreeMap;

/// The facts about the variables of one call.
#[derive(Default)]
pub struct Solution {
    vars: BTreeMap<u32, Ty>,
}

impl Checker<'_> {
    /// `ty` with the variables that `s` knows replaced.
    pub fn resolve(&mut self, ty: Ty, s: &Solution) -> Ty {
        if s.vars.is_empty() {
            return ty;
        }
        let mut now = ty;
        // A variable may be bound to a type with further variables.
        for _ in 0..=s.vars.len() {
            let next = self.tree.tys.replace(now, &|k| match k {
                Kind::Infer(i) => s.vars.get(i).copied(),
                _ => None,
            });
            if next == now {
                break;
            }
            now = next;
        }
        now
    }

    /// Makes `param` and `arg` equal as far as variables go. False: they cannot be. Where an implicit cast may make up
    /// for a difference, true: the cast decides.
    pub fn unify(&mut self, param: Ty, arg: Ty, s: &mut Solution) -> bool {
        let (param, arg) = (self.resolve(param, s), self.resolve(arg, s));
        if param == arg || param == Ty::ERROR || arg == Ty::ERROR {
            return true;
        }
        match (self.tree.tys.get(param).clone(), self.tree.tys.get(arg).clone()) {
            (Kind::Infer(i), _) => {
                let cyclic = self.tree.tys.any(arg, &|k| *k == Kind::Infer(i));
                if !cyclic {
                    s.vars.insert(i, arg);
                }
                !cyclic
            }
            (_, Kind::Infer(i)) => {
                let cyclic = self.tree.tys.any(param, &|k| *k == Kind::Infer(i));
                if !cyclic {
                    s.vars.insert(i, param);
                }
                !cyclic
            }
            (Kind::Struct(a, xs), Kind::Struct(b, ys)) | (Kind::Extern(a, xs), Kind::Extern(b, ys)) => {
                a == b && self.unify_all(&xs, &ys, s)
            }
            (Kind::Package(a, xs), Kind::Package(b, ys)) => a == b && self.unify_all(&xs, &ys, s),
            (Kind::Tuple(xs), Kind::Tuple(ys)) => self.unify_all(&xs, &ys, s),
            (Kind::List(x), Kind::List(y)) => self.unify(x, y, s),
            (Kind::List(x), Kind::Tuple(ys)) => ys.iter().all(|y| self.unify(x, *y, s)),
            (Kind::Stack(x, n), Kind::Stack(y, m)) => n == m && self.unify(x, y, s),
            (Kind::Stack(x, _), Kind::Tuple(ys)) => ys.iter().all(|y| self.unify(x, *y, s)),
            (Kind::Struct(..), Kind::Tuple(ys)) => {
                let fields = self.tree.fields(param).unwrap_or_default();
                fields.iter().zip(ys).for_each(|((_, f), y)| {
                    self.unify(*f, y, s);
                });
                true
            }
            (Kind::Struct(..), Kind::Record(ys, _)) => {
                for (name, f) in self.tree.fields(param).unwrap_or_default() {
                    if let Some((_, y)) = ys.iter().find(|(n, _)| *n == name) {
                        self.unify(f, *y, s);
                    }
                }
                true
            }
            (Kind::Block(a, xs), Kind::Block(b, ys)) if a == b => self.unify_all(&xs, &ys, s),
            (Kind::Block(a, xs), Kind::Block(b, ys)) => self.unify_blocks(a, &xs, b, &ys, s),
            _ => false,
        }
    }

    fn unify_all(&mut self, xs: &[Ty], ys: &[Ty], s: &mut Solution) -> bool {
        xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| self.unify(*x, *y, s))
    }

    /// Whether block `b` has the signature that block type `a` requires.
    fn unify_blocks(&mut self, a: usize, xs: &[Ty], b: usize, ys: &[Ty], s: &mut Solution) -> bool {
        if self.tree.blocks[a].is_parser != self.tree.blocks[b].is_parser {
            return false;
        }
        let pick = |ps: &[Param]| -> Vec<(crate::ast::Direction, Ty, bool)> {
            ps.iter().map(|p| (p.direction, p.ty, p.optional || p.default.is_some())).collect()
        };
        let (pa, pb) = (pick(&self.tree.blocks[a].params), pick(&self.tree.blocks[b].params));
        let (ta, tb) = (self.tree.blocks[a].type_params.clone(), self.tree.blocks[b].type_params.clone());
        if pb.len() > pa.len() || pa.iter().skip(pb.len()).any(|p| !p.2) {
            return false;
        }
        pa.iter().zip(pb).all(|((da, ty_a, _), (db, ty_b, _))| {
            let (x, y) = (self.tree.tys.subst(*ty_a, &ta, xs), self.tree.tys.subst(ty_b, &tb, ys));
            *da == db && self.unify(x, y, s)
        })
    }

    /// Whether the type of an argument leaves the widths of integers open.
    pub fn is_weak(&self, ty: Ty) -> bool {
        self.tree.tys.any(ty, &|k| matches!(k, Kind::Int | Kind::Dots | Kind::Invalid))
    }

    /// `e` as a value of type `to`, implicit casts applied. `what` names its purpose, in messages.
    pub fn coerce(&mut self, e: Expr, to: Ty, what: &str) -> Expr {
        if e.ty == to {
            return self.fold(e);
        }
        if e.ty == Ty::ERROR || to == Ty::ERROR || matches!(e.kind, ExprKind::Error) {
            return Expr { ty: to, ..e };
        }
        match (self.tree.tys.get(e.ty).clone(), self.tree.tys.get(to).clone()) {
            (Kind::Int, Kind::Bits { .. }) => self.cast_int(e, to),
            // Not in the specification, but p4c does it and programs rely on it.
            (Kind::Int, Kind::New(_)) if self.tree.tys.bits(self.tree.repr(to)).is_some() => {
                let e = self.cast_int(e, self.tree.repr(to));
                self.cast_to(e, to)
            }
            // As p4c does: a constant with a width where an `int` is expected.
            (Kind::Bits { .. }, Kind::Int) if self.constant_int(&e).is_some() => {
                let i = self.constant_int(&e).unwrap_or_default();
                Expr::constant(Const::Int(i), Ty::INT, e.span)
            }
            (Kind::Enum(d), _) if self.tree.enums[d].repr == Some(to) => self.cast_to(e, to),
            (
                Kind::Tuple(_) | Kind::OpenTuple(_) | Kind::Record(..) | Kind::Invalid | Kind::Dots,
                Kind::Struct(..) | Kind::Tuple(_) | Kind::Stack(..) | Kind::List(_),
            ) => self.coerce_aggregate(e, to, what),
            (Kind::Dots, _) => self.default_expr(to, e.span),
            (Kind::Block(..), Kind::Block(..)) => {
                let mut solution = Solution::default();
                if !self.unify(to, e.ty, &mut solution) {
                    self.mismatch(&e, to, what);
                    return Expr { kind: ExprKind::Error, ty: to, span: e.span };
                }
                // The block's own type arguments may be known only here.
                let ty = self.resolve(e.ty, &solution);
                e.with_type(ty)
            }
            _ => {
                self.mismatch(&e, to, what);
                Expr { kind: ExprKind::Error, ty: to, span: e.span }
            }
        }
    }

    /// Reports that `e` does not have type `to`.
    pub fn mismatch(&mut self, e: &Expr, to: Ty, what: &str) {
        let (have, want) = (self.show(e.ty), self.show(to));
        let mut d = Diagnostic::error("P0401", e.span, format!("{what} must be `{want}`, not `{have}`"))
            .label(format!("this is `{have}`"));
        d = match (self.tree.tys.get(e.ty), self.tree.tys.get(to)) {
            (Kind::Bits { width: a, signed: s }, Kind::Bits { width: b, signed: t }) if s != t && a != b => {
                let sign = if *t { "int" } else { "bit" };
                d.help(format!("a cast cannot change both width and sign: `({want})({sign}<{a}>)(...)`"))
            }
            (Kind::Bits { .. } | Kind::New(_), Kind::Bits { .. } | Kind::New(_) | Kind::Enum(_)) => {
                d.help(format!("convert it explicitly: `({want})(...)`"))
            }
            (Kind::Bits { width: 1, signed: false }, Kind::Bool) => d.help("compare it: `... == 1`"),
            (Kind::Bits { .. } | Kind::Int, Kind::Bool) => d.help("compare it: `... != 0`"),
            (Kind::Int, Kind::New(_) | Kind::Enum(_)) => {
                d.help(format!("convert it explicitly: `({want})(...)`"))
            }
            (Kind::Bool, Kind::Bits { width: 1, .. }) => d.help(format!("convert it explicitly: `({want})`")),
            (Kind::Void, _) => d.help("use something that has a value"),
            (Kind::Block(..), Kind::Block(..)) => d
                .note("number, directions and types of the parameters must match")
                .help(format!("declare its parameters as those of `{want}`")),
            _ => d.help(format!("use an expression of type `{want}`")),
        };
        self.report(d);
    }

    fn constant_int(&self, e: &Expr) -> Option<num_bigint::BigInt> {
        eval::Evaluator { tree: &self.tree, vars: &|_| None }.eval_int(e).ok()
    }

    /// `e` of type `int` as a fixed-width value, with a warning if it does not fit.
    pub fn cast_int(&mut self, e: Expr, to: Ty) -> Expr {
        if let (ExprKind::Const(Const::Int(i)), Some((width, signed))) = (&e.kind, self.tree.tys.bits(to)) {
            // `bit<8> x = -1` means all ones and is written so on purpose: only bits that get lost matter.
            let (_, lost) = eval::truncate(i, width, signed);
            let (_, lost_either) = eval::truncate(i, width, !signed);
            if lost && lost_either {
                let message = format!("{i} does not fit `{}`: its high bits are lost", self.show(to));
                self.report(
                    Diagnostic::warning("P0502", e.span, message)
                        .help("use a smaller number or a wider type"),
                );
            }
        }
        self.cast_to(e, to)
    }

    /// A cast that is known to be right.
    pub fn cast_to(&mut self, e: Expr, to: Ty) -> Expr {
        if e.ty == to {
            return e;
        }
        let span = e.span;
        self.fold(Expr { kind: ExprKind::Cast(Box::new(e)), ty: to, span })
    }

    /// An enum with representation as its representation; anything else unchanged.
    pub fn enum_to_repr(&mut self, e: Expr) -> Expr {
        match self.tree.enum_repr(e.ty) {
            Some(repr) => self.cast_to(e, repr),
            None => e,
        }
    }

    /// Whether it is a header or header union.
    pub fn is_header(&self, ty: Ty) -> bool {
        self.tree.is_struct(ty, &[StructKind::Header, StructKind::HeaderUnion])
    }
}
