//! Tables and their entries.

use super::Lower;
use super::instance::Inst;
use crate::check::tree::{self, Arg, Expr, ExprKind, KeySet};
use crate::check::types::Kind;
use pointsman_ir::{self as ir, Annotations, Bits, EntryAction, KeyMatch, MatchKind};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Lower<'_> {
    /// A table of the control being lowered, whose parameters and locals are declared.
    pub fn table(&mut self, index: usize, control: ir::ControlId) -> Option<ir::TableId> {
        let t = self.tree.tables[index].clone();
        let name = self.qualified(&t.name, &t.annotations);
        self.claim("table", &name, &t.annotations, t.span);
        let keys = self.keys(index, &t);
        let mut actions = Vec::new();
        for a in &t.actions {
            let action = self.env.actions.get(&a.action).copied()?;
            // The control plane knows actions by tables that have them.
            if self.listed.insert(action) {
                self.claim_action(action);
            }
            let mut bound = None;
            let setup = self.nested(|l| bound = l.bound(&a.bound));
            actions.push(ir::TableAction {
                action,
                setup,
                bound: bound?,
                default_only: a.annotations.has("defaultonly"),
                table_only: a.annotations.has("tableonly"),
                annotations: a.annotations.clone(),
            });
        }
        let (action, data) = t.default.clone()?;
        let args = data.iter().map(|e| self.action_data(e)).collect::<Option<Vec<_>>>()?;
        let default_action = ir::ActionCall { action: action as u32, args };
        let entries = self.entries(&t)?;
        let size = match &t.size {
            Some(e) => Some(self.constant_u64(e)?),
            None => None,
        };
        let (mut extern_properties, mut const_properties) = (Vec::new(), Vec::new());
        for (property, e, annotations) in &t.properties {
            if matches!(self.tree.tys.get(e.ty), Kind::Extern(..)) {
                let inst = self.property_object(e, &format!("{name}.{property}"), annotations)?;
                if let Inst::Extern(id) = inst {
                    extern_properties.push((property.clone(), id));
                }
            } else {
                let c = self.constant(e)?;
                const_properties.push((property.clone(), self.ctor_const(&c, e.ty, e.span)?));
            }
        }
        self.program.tables.push(ir::Table {
            name,
            control,
            keys,
            actions,
            default_action,
            const_default: t.const_default,
            entries,
            const_entries: t.const_entries,
            size,
            extern_properties,
            const_properties,
            annotations: t.annotations,
            span: t.span,
        });
        Some(ir::TableId(self.program.tables.len() as u32 - 1))
    }

    /// An object in a property: named, or made here.
    fn property_object(&mut self, e: &Expr, name: &str, annotations: &Annotations) -> Option<Inst> {
        let ExprKind::New(new) = &e.kind else { return self.instance_of(e) };
        let name = match annotations.string("name") {
            Some(n) => n.trim_start_matches('.').to_string(),
            None => name.to_string(),
        };
        self.instantiate(new, &name, annotations)
    }

    fn keys(&mut self, index: usize, t: &tree::Table) -> Vec<ir::Key> {
        let mut calls = Vec::new();
        let mut out = Vec::new();
        // A key that calls something may change what another reads: then all are evaluated in order, before.
        let any = t.keys.iter().any(|k| self.needs_statements(&k.expr));
        for k in &t.keys {
            let expr = if any && !matches!(k.expr.kind, ExprKind::Const(_)) {
                let ty = self.ty(k.expr.ty);
                let name = format!("$key{}", self.body.vars.len());
                let var = self.new_var(&name, ty);
                calls.push((var, k.expr.clone()));
                let lv = ir::LValue::var(ir::VarRef::Local(var), ty);
                ir::Expr { kind: ir::ExprKind::Read(lv), ty, span: k.expr.span }
            } else {
                self.expr(&k.expr)
            };
            out.push(ir::Key {
                name: k.name.clone(),
                expr,
                match_kind: k.kind,
                annotations: k.annotations.clone(),
            });
        }
        if !calls.is_empty() {
            self.env.key_calls.insert(index, calls);
        }
        out
    }

    /// Whether evaluating it needs extra statements.
    fn needs_statements(&mut self, e: &Expr) -> bool {
        if e.has_effects() {
            return true;
        }
        let mut made = Vec::new();
        let vars = self.body.vars.len();
        made.extend(self.nested(|l| {
            l.expr(e);
        }));
        self.body.vars.truncate(vars);
        !made.is_empty()
    }

    /// Arguments bound in an action list. Their calls come before, from left to right.
    fn bound(&mut self, args: &[Arg]) -> Option<Vec<ir::Arg>> {
        let effects = |a: &Arg| match a {
            Arg::In(e) | Arg::Out(e) | Arg::InOut(e) => e.has_effects(),
            Arg::Ignore(_) | Arg::Missing => false,
        };
        let mut out = Vec::new();
        for (i, a) in args.iter().enumerate() {
            let later = args[i + 1..].iter().any(effects);
            out.push(match a {
                Arg::In(e) => {
                    let v = self.expr(e);
                    ir::Arg::In(if later { self.keep(v) } else { v })
                }
                Arg::Out(e) => ir::Arg::Out(self.place(e, later)?),
                Arg::InOut(e) => ir::Arg::InOut(self.place(e, later)?),
                Arg::Ignore(ty) => {
                    let ty = self.ty(*ty);
                    ir::Arg::Out(self.temp(ty))
                }
                Arg::Missing => continue,
            });
        }
        Some(out)
    }

    /// Entries, highest precedence first.
    fn entries(&mut self, t: &tree::Table) -> Option<Vec<ir::Entry>> {
        let mut out: Vec<ir::Entry> = Vec::new();
        let mut seen = BTreeSet::new();
        let ranked = t.keys.iter().any(|k| !matches!(k.kind, MatchKind::Exact | MatchKind::Lpm));
        for e in &t.entries {
            let mut matches = Vec::new();
            for (set, key) in e.keys.iter().zip(&t.keys) {
                if key.kind != MatchKind::Selector {
                    matches.push(self.key_match(set, key)?);
                }
            }
            if matches.iter().any(|m| matches!(m, KeyMatch::Range { lo, hi } if lo > hi)) {
                // P4_16 section 8.15.4: an empty set.
                let message = "the range is empty: this entry matches nothing";
                let d = crate::diag::Diagnostic::warning("P0604", e.span, message);
                self.report(d.help("write the smaller value first, or remove the entry"));
                continue;
            }
            let args = e.args.iter().map(|a| self.action_data(a)).collect::<Option<Vec<_>>>()?;
            if !seen.insert((matches.clone(), e.priority)) {
                if ranked {
                    let d = crate::diag::Diagnostic::warning(
                        "P0604",
                        e.span,
                        "another entry matches the same values",
                    );
                    self.report(d.help("remove one of them"));
                    continue;
                }
                self.error("P0604", e.span, "another entry matches the same values", "remove one of them");
                return None;
            }
            out.push(ir::Entry {
                matches,
                priority: e.priority,
                action: EntryAction::Call(Arc::new(ir::ActionCall { action: e.action as u32, args })),
                is_const: e.is_const,
                metadata: Vec::new(),
                idle_timeout_ns: 0,
            });
        }
        out.sort_by_key(|e| std::cmp::Reverse(e.priority));
        Some(out)
    }

    fn bits(&mut self, e: &Expr) -> Option<Bits> {
        let c = self.constant(e)?;
        self.const_bits(&c, e.ty, e.span)
    }

    fn key_match(&mut self, set: &KeySet, key: &tree::Key) -> Option<KeyMatch> {
        let ty = self.ty(key.expr.ty);
        let width = self.program.types.scalar_width(ty)?;
        let full = Bits::ones(width);
        Some(match (key.kind, set) {
            (MatchKind::Exact, KeySet::Value(v)) => KeyMatch::Exact(self.bits(v)?),
            (MatchKind::Optional, KeySet::Value(v)) => KeyMatch::Optional(Some(self.bits(v)?)),
            (MatchKind::Optional, KeySet::Any) => KeyMatch::Optional(None),
            (MatchKind::Ternary, KeySet::Value(v)) => KeyMatch::Ternary { value: self.bits(v)?, mask: full },
            (MatchKind::Ternary, KeySet::Any) => {
                KeyMatch::Ternary { value: Bits::zero(width), mask: Bits::zero(width) }
            }
            (MatchKind::Ternary, KeySet::Mask(v, m)) => {
                let (v, mask) = (self.bits(v)?, self.bits(m)?);
                KeyMatch::Ternary { value: v.and(&mask), mask }
            }
            (MatchKind::Lpm, KeySet::Value(v)) => KeyMatch::Lpm { value: self.bits(v)?, prefix_len: width },
            (MatchKind::Lpm, KeySet::Any) => KeyMatch::Lpm { value: Bits::zero(width), prefix_len: 0 },
            (MatchKind::Lpm, KeySet::Mask(v, m)) => {
                let (v, mask) = (self.bits(v)?, self.bits(m)?);
                let prefix_len = (0..width).filter(|i| mask.bit(*i)).count() as u32;
                let prefix = full.shl(u64::from(width - prefix_len));
                if mask != prefix {
                    let help = "use a prefix, as in `0xff000000`";
                    self.error(
                        "P0604",
                        m.span,
                        "the mask of an `lpm` key must be ones followed by zeros",
                        help,
                    );
                    return None;
                }
                KeyMatch::Lpm { value: v.and(&mask), prefix_len }
            }
            (MatchKind::Range, KeySet::Value(v)) => {
                let v = self.bits(v)?;
                KeyMatch::Range { lo: v.clone(), hi: v }
            }
            (MatchKind::Range, KeySet::Any) => KeyMatch::Range { lo: Bits::zero(width), hi: full },
            (MatchKind::Range, KeySet::Range(lo, hi)) => {
                KeyMatch::Range { lo: self.bits(lo)?, hi: self.bits(hi)? }
            }
            _ => {
                let help = "use a set that fits the match kind of the key";
                self.error("P0604", key.expr.span, "an entry does not fit this key", help);
                return None;
            }
        })
    }
}
