//! Entries of tables and their priorities (P4_16 section 14.2.1.4).

use super::Checker;
use super::eval::{self, Const, Evaluator, Stop};
use super::tree::{Entry, Expr, Key, KeySet, Table};
use super::types::Ty;
use crate::ast::{self, ExprKind as Ast};
use crate::diag::Diagnostic;
use num_bigint::BigInt;
use pointsman_ir::{MatchKind, Span};

/// How entries get their priorities.
pub struct Priorities {
    pub largest_wins: bool,
    pub delta: i64,
}

impl Checker<'_> {
    /// A constant that fits `i32`.
    pub fn small_int(&mut self, e: &Expr, what: &str) -> Option<i32> {
        match (Evaluator { tree: &self.tree, vars: &|_| None }).eval_int(e) {
            Ok(i) => {
                let n = i32::try_from(&i).ok();
                if n.is_none() {
                    let message = format!("`{what}` cannot be {i}");
                    self.error("P0605", e.span, message, "use a number that fits 31 bits");
                }
                n
            }
            Err(Stop::Bad(d)) => {
                self.report(*d);
                None
            }
            Err(Stop::NotConstant(_)) => {
                let message = format!("`{what}` must be an integer known at compile time");
                self.error("P0605", e.span, message, "use a literal or a constant");
                None
            }
        }
    }

    pub fn entries(
        &mut self,
        list: &[ast::EntryDecl],
        p: &ast::Property,
        table: &mut Table,
        priorities: &Priorities,
    ) {
        // How many sets an entry should have is not known, if a key has an error.
        if table.has_wrong_keys || table.keys.is_empty() && list.is_empty() {
            return;
        }
        if table.keys.is_empty() {
            let help = "add a `key`, or make the action the default action";
            let d = Diagnostic::error("P0604", table.span, "a table without keys cannot have entries");
            self.report(d.related(p.span, "these are its entries").help(help));
            return;
        }
        let annotations = self.annotations(&p.annotations);
        let quiet = |what: &str| {
            annotations.0.iter().any(|a| a.name == "noWarn" && annotations.string("noWarn") == Some(what))
        };
        let (quiet_equal, quiet_order) =
            (quiet("duplicate_priorities"), quiet("entries_out_of_priority_order"));
        let ranked = table
            .keys
            .iter()
            .any(|k| !matches!(k.kind, MatchKind::Exact | MatchKind::Lpm | MatchKind::Selector));
        let given = self.given_priorities(list, p.is_const, ranked);
        let prios = self.assign_priorities(&given, priorities, list);
        if ranked && !p.is_const {
            self.warn_priorities(&prios, priorities, list, quiet_equal, quiet_order);
        }
        let annotated = if ranked { self.annotated_priorities(list) } else { None };
        let largest_wins = priorities.largest_wins && annotated.is_none();
        let prios = annotated.unwrap_or(prios);
        let top = prios.iter().copied().max().unwrap_or(0);
        let low = prios.iter().copied().min().unwrap_or(0);
        for (e, prio) in list.iter().zip(prios) {
            let keys = self.entry_keys(e, table);
            let call = self.action_call(&e.action, &table.actions);
            let (Some(keys), Some((action, args))) = (keys, call) else { continue };
            if table.actions[action].annotations.has("defaultonly") {
                let at = table.actions[action].span;
                let d = Diagnostic::error(
                    "P0604",
                    e.span,
                    "this action is `@defaultonly`: entries cannot use it",
                );
                self.report(d.related(at, "listed here").help("use another action"));
            }
            // P4Runtime lets the larger win: the other convention is turned around.
            let prio = if largest_wins { prio } else { top + low - prio };
            let priority = if ranked { i32::try_from(prio).unwrap_or(i32::MAX) } else { 0 };
            table.entries.push(Entry {
                is_const: p.is_const || e.is_const,
                priority,
                keys,
                action,
                args,
                span: e.span,
            });
        }
    }

    fn given_priorities(
        &mut self,
        list: &[ast::EntryDecl],
        is_const: bool,
        ranked: bool,
    ) -> Vec<Option<i64>> {
        let mut out = Vec::new();
        let mut broken = false;
        for e in list {
            let Some(p) = &e.priority else {
                out.push(None);
                continue;
            };
            if is_const {
                let help = "omit it: the order of `const entries` decides, or use `entries`";
                self.error("P0605", p.span, "an entry of `const entries` cannot have a priority", help);
                out.push(None);
                continue;
            } else if !ranked {
                let help = "omit it: only ternary, range and optional keys need one";
                let d = Diagnostic::warning("P0605", p.span, "the priority of this entry has no effect");
                self.report(d.help(help));
            }
            let v = self.value(p);
            let n = if v.ty == Ty::ERROR { None } else { self.small_int(&v, "priority") };
            if n.is_some_and(|n| n < 0) {
                self.error("P0605", p.span, "a priority cannot be negative", "use 1 or more");
            }
            broken |= n.is_none_or(|n| n < 0);
            out.push(n.map(i64::from));
        }
        // Errors that follow from wrong priorities are of no interest.
        if broken { vec![None; list.len()] } else { out }
    }

    /// `@priority(n)` behind entries, an extension of BMv2 to P4_16: the smallest wins, and an entry without it has its
    /// number in the list, from 1. `None`: no entry has it, or `priority =` is also given.
    fn annotated_priorities(&mut self, list: &[ast::EntryDecl]) -> Option<Vec<i64>> {
        if list.iter().any(|e| e.priority.is_some()) {
            return None;
        }
        let mut first = None;
        let mut out = Vec::new();
        for (e, number) in list.iter().zip(1..) {
            let annotations = self.annotations(&e.annotations);
            if !annotations.has("priority") {
                out.push(number);
                continue;
            }
            first.get_or_insert(e.span);
            let n = annotations.int("priority").and_then(|n| i32::try_from(n).ok()).filter(|n| *n >= 0);
            if n.is_none() {
                let help = "write a number that fits 31 bits, as in `@priority(3)`";
                self.error("P0605", e.span, "this `@priority` has no valid number", help);
            }
            out.push(n.map_or(number, i64::from));
        }
        let message = "`@priority` is not part of P4_16; the smallest wins here, as in BMv2";
        let help = "write `entries` with `largest_priority_wins = false` and `priority = n :` before each";
        self.report(Diagnostic::warning("P0605", first?, message).help(help));
        Some(out)
    }

    /// P4_16 section 14.2.1.4.1
    fn assign_priorities(
        &mut self,
        given: &[Option<i64>],
        how: &Priorities,
        list: &[ast::EntryDecl],
    ) -> Vec<i64> {
        let n = given.len() as i64;
        if given.iter().all(Option::is_none) {
            let rank = |i: i64| if how.largest_wins { n - 1 - i } else { i };
            let out: Vec<i64> = (0..n).map(|i| 1 + rank(i).saturating_mul(how.delta)).collect();
            if out.iter().any(|p| *p > i64::from(i32::MAX)) {
                let help = "use a smaller `priority_delta`";
                self.error("P0605", list[0].span, "a priority of this table does not fit 31 bits", help);
            }
            return out;
        }
        if given.first().is_some_and(Option::is_none) {
            let help = "give the first entry a priority: those without one continue from the previous entry";
            self.error("P0605", list[0].span, "some entries have priorities, but not the first", help);
        }
        let mut out = Vec::new();
        let mut last = 1;
        for (g, e) in given.iter().zip(list) {
            last = match g {
                Some(p) => *p,
                None if out.is_empty() => 1,
                None if how.largest_wins => last - how.delta,
                None => last + how.delta,
            };
            if last < 0 || last > i64::from(i32::MAX) {
                let message = format!("the computed priority of this entry is {last}");
                self.error("P0605", e.span, message, "give larger priorities to the entries before it");
                last = 1;
            }
            out.push(last);
        }
        out
    }

    fn warn_priorities(
        &mut self,
        prios: &[i64],
        how: &Priorities,
        list: &[ast::EntryDecl],
        quiet_equal: bool,
        quiet_order: bool,
    ) {
        for i in 1..prios.len() {
            if !quiet_equal && prios[..i].contains(&prios[i]) {
                let d = Diagnostic::warning(
                    "P0605",
                    list[i].span,
                    format!("another entry also has priority {}", prios[i]),
                );
                self.report(
                    d.help("give it another, or write `@noWarn(\"duplicate_priorities\")` before `entries`"),
                );
            }
            let wrong = if how.largest_wins { prios[i - 1] < prios[i] } else { prios[i - 1] > prios[i] };
            if !quiet_order && wrong {
                let d =
                    Diagnostic::warning("P0605", list[i].span, "this entry comes before the one above it");
                self.report(d.help(
                    "reorder them, or write `@noWarn(\"entries_out_of_priority_order\")` before `entries`",
                ));
            }
        }
    }

    fn entry_keys(&mut self, e: &ast::EntryDecl, table: &Table) -> Option<Vec<KeySet>> {
        let matched: Vec<&Key> = table.keys.iter().collect();
        if let [only] = e.keys.as_slice()
            && matches!(only.kind, Ast::Default | Ast::DontCare)
            && matched.len() > 1
        {
            let all = vec![KeySet::Any; matched.len()];
            return self.check_entry_kinds(&all, &matched, e.span).then_some(all);
        }
        // `{a, b}` is also a tuple of sets.
        let written = match e.keys.as_slice() {
            [ast::Expr { kind: Ast::List { elems, rest: false }, .. }] => elems.as_slice(),
            keys => keys,
        };
        if written.len() != matched.len() {
            let message =
                format!("{} set(s) given, but the table has {} key(s)", written.len(), matched.len());
            self.error("P0604", e.span, message, "give one set for each key");
            return None;
        }
        let sets: Option<Vec<KeySet>> =
            written.iter().zip(&matched).map(|(k, key)| self.key_set(k, key.expr.ty)).collect();
        let sets = sets?;
        for s in &sets {
            let parts: Vec<&Expr> = match s {
                KeySet::Value(v) => vec![v],
                KeySet::Mask(a, b) | KeySet::Range(a, b) => vec![a, b],
                _ => vec![],
            };
            for v in parts {
                if !self.compile_time(v) {
                    let help = "use literals and constants";
                    self.error("P0501", v.span, "an entry must be known at compile time", help);
                    return None;
                }
            }
        }
        self.check_entry_kinds(&sets, &matched, e.span).then_some(sets)
    }

    /// Whether keys of these kinds can be matched against these sets.
    fn check_entry_kinds(&mut self, sets: &[KeySet], keys: &[&Key], span: Span) -> bool {
        let mut fine = true;
        for (s, k) in sets.iter().zip(keys) {
            let (message, help) = match (k.kind, s) {
                (MatchKind::Exact, KeySet::Value(_)) => continue,
                (MatchKind::Exact, _) => {
                    ("an `exact` key matches single values only", "give a value, or use `ternary`")
                }
                (MatchKind::Lpm | MatchKind::Ternary, KeySet::Range(..)) => (
                    "this key cannot be matched against a range",
                    "use a mask, or match the key with `range`",
                ),
                (MatchKind::Range, KeySet::Mask(..)) => {
                    ("a `range` key cannot be matched against a mask", "use a range `lo .. hi`")
                }
                (MatchKind::Optional, KeySet::Mask(..) | KeySet::Range(..)) => {
                    ("an `optional` key matches a single value or anything", "give a value or `_`")
                }
                (MatchKind::Lpm, KeySet::Mask(_, m)) => {
                    let Ok(Const::Bits(m)) = (Evaluator { tree: &self.tree, vars: &|_| None }).eval(m) else {
                        continue;
                    };
                    let inverted = eval::to_int(&m.not(), false);
                    if (&inverted & (&inverted + BigInt::from(1))) == BigInt::from(0) {
                        continue;
                    }
                    (
                        "the mask of an `lpm` key must be ones followed by zeros",
                        "use a prefix, as in `0xff000000`",
                    )
                }
                _ => continue,
            };
            let at = match s {
                KeySet::Value(e) | KeySet::Mask(e, _) | KeySet::Range(e, _) => e.span,
                _ => span,
            };
            self.error("P0604", at, format!("key `{}`: {message}", k.name), help);
            fine = false;
        }
        fine
    }
}
