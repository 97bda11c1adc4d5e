//! Tables (P4_16 section 14.2).

use super::call::{Signature, Style};
use super::eval::{self, Const, Evaluator, Stop};
use super::scope::{Def, nearest};
use super::tree::{ActionRef, Arg, Direction, Entry, Expr, ExprKind, Key, KeySet, Param, Table};
use super::types::{Kind, Ty};
use super::{Checker, Place};
use crate::ast::{self, ExprKind as Ast, PropertyKind};
use crate::diag::Diagnostic;
use num_bigint::BigInt;
use pointsman_ir::{Annotations, MatchKind, Span};

/// How entries get their priorities.
struct Priorities {
    largest_wins: bool,
    delta: i64,
}

impl Checker<'_> {
    /// A table; returns its index.
    pub fn table_decl(
        &mut self,
        t: &ast::TableDecl,
        annotations: &[ast::Annotation],
        span: Span,
    ) -> Option<usize> {
        let annotations = self.annotations(annotations);
        let mut table = Table {
            name: t.name.name.clone(),
            span: t.name.span,
            annotations,
            keys: Vec::new(),
            actions: Vec::new(),
            default: None,
            const_default: false,
            entries: Vec::new(),
            const_entries: false,
            size: None,
            properties: Vec::new(),
            largest_priority_wins: true,
        };
        let _ = span;
        self.check_duplicate_properties(&t.properties);
        for p in &t.properties {
            if let PropertyKind::Key(keys) = &p.kind {
                for k in keys {
                    if let Some(k) = self.key(k) {
                        table.keys.push(k);
                    }
                }
                self.check_keys(&table.keys);
            }
        }
        let mut has_actions = false;
        for p in &t.properties {
            if let PropertyKind::Actions(list) = &p.kind {
                has_actions = true;
                for a in list {
                    if let Some(a) = self.action_ref(a, &table.actions) {
                        table.actions.push(a);
                    }
                }
            }
        }
        if !has_actions {
            let message = format!("table `{}` has no `actions`", table.name);
            self.error("P0601", t.name.span, message, "list what it can do: `actions = { ... }`");
            self.declare(&t.name, Def::Broken);
            return None;
        }
        let mut priorities = Priorities { largest_wins: true, delta: 1 };
        for p in &t.properties {
            match &p.kind {
                PropertyKind::DefaultAction(e) => {
                    table.const_default = p.is_const;
                    table.default = self.default_action(e, &table.actions);
                }
                PropertyKind::Other(name, e) => self.other_property(name, e, p, &mut table, &mut priorities),
                _ => {}
            }
        }
        if !t.properties.iter().any(|p| matches!(p.kind, PropertyKind::DefaultAction(_))) {
            self.implicit_default(&mut table);
        }
        table.largest_priority_wins = priorities.largest_wins;
        for p in &t.properties {
            if let PropertyKind::Entries(entries) = &p.kind {
                table.const_entries = p.is_const;
                self.entries(entries, p, &mut table, &priorities);
            }
        }
        self.tree.tables.push(table);
        let index = self.tree.tables.len() - 1;
        self.declare(&t.name, Def::Table(index));
        Some(index)
    }

    fn check_duplicate_properties(&mut self, properties: &[ast::Property]) {
        let name = |p: &ast::Property| match &p.kind {
            PropertyKind::Key(_) => "key".to_string(),
            PropertyKind::Actions(_) => "actions".to_string(),
            PropertyKind::Entries(_) => "entries".to_string(),
            PropertyKind::DefaultAction(_) => "default_action".to_string(),
            PropertyKind::Other(n, _) => n.name.clone(),
        };
        for (i, p) in properties.iter().enumerate() {
            let n = name(p);
            if let Some(first) = properties[..i].iter().find(|q| name(q) == n) {
                self.report(
                    Diagnostic::error("P0601", p.span, format!("property `{n}` is given twice"))
                        .related(first.span, "first given here")
                        .help("leave out one of them"),
                );
            }
        }
    }

    fn key(&mut self, k: &ast::KeyElement) -> Option<Key> {
        let annotations = self.annotations(&k.annotations);
        // Keys are evaluated when the table is applied.
        let place = std::mem::replace(&mut self.cx.place, Place::ControlApply);
        let expr = self.value(&k.expr);
        self.cx.place = place;
        let kind = self.match_kind(&k.match_kind);
        if expr.ty == Ty::ERROR {
            return None;
        }
        let repr = self.tree.repr(expr.ty);
        let scalar = matches!(
            self.tree.tys.get(repr),
            Kind::Bits { .. } | Kind::Bool | Kind::Enum(_) | Kind::ErrorCode
        );
        if !scalar {
            let (message, help) = match self.tree.tys.get(expr.ty) {
                Kind::Int => {
                    ("the width of this key is not known".to_string(), "give the number a width, as in `8w5`")
                }
                Kind::Varbit(_) | Kind::Struct(..) | Kind::Tuple(_) | Kind::Stack(..) => (
                    format!("a key of type `{}` is not supported", self.show(expr.ty)),
                    "match its fields one by one",
                ),
                _ => (
                    format!("`{}` cannot be a key", self.show(expr.ty)),
                    "use `bit<W>`, `int<W>`, `bool` or an enum",
                ),
            };
            self.error("P0602", expr.span, message, help);
            return None;
        }
        let kind = kind?;
        if matches!(kind, MatchKind::Lpm | MatchKind::Range)
            && self.tree.tys.bits(repr).is_none_or(|(_, s)| s)
        {
            let message = format!(
                "a key of type `{}` cannot be matched with `{}`",
                self.show(expr.ty),
                k.match_kind.name
            );
            self.error("P0602", expr.span, message, "use `bit<W>`, or match it with `exact` or `ternary`");
            return None;
        }
        let name = match annotations.string("name") {
            Some(n) => n.to_string(),
            None => match self.key_name(&k.expr) {
                Some(n) => n,
                None => {
                    let help = "give it one: `... : exact @name(\"name\")`";
                    self.error("P0602", expr.span, "this key needs a name for the control plane", help);
                    return None;
                }
            },
        };
        Some(Key { expr, kind, name, annotations })
    }

    fn match_kind(&mut self, name: &ast::Ident) -> Option<MatchKind> {
        if !self.tree.match_kinds.contains(&name.name) {
            let near = nearest(&name.name, self.tree.match_kinds.iter().map(String::as_str));
            let help = match near {
                Some(n) => format!("did you mean `{n}`?"),
                None if self.tree.match_kinds.is_empty() => "is `#include <v1model.p4>` missing?".into(),
                None => format!("use one of {}", self.tree.match_kinds.join(", ")),
            };
            self.error("P0602", name.span, format!("there is no match kind `{}`", name.name), help);
            return None;
        }
        Some(match name.name.as_str() {
            "exact" => MatchKind::Exact,
            "lpm" => MatchKind::Lpm,
            "ternary" => MatchKind::Ternary,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            "selector" => MatchKind::Selector,
            _ => {
                let what = format!("match kind `{}`", name.name);
                self.unsupported(name.span, &what, "use exact, lpm, ternary, range, optional or selector");
                return None;
            }
        })
    }

    fn check_keys(&mut self, keys: &[Key]) {
        let mut lpm = keys.iter().filter(|k| k.kind == MatchKind::Lpm);
        if let (Some(_), Some(second)) = (lpm.next(), lpm.next()) {
            let help = "match all but one of them with `ternary` or `exact`";
            self.error("P0602", second.expr.span, "a table can have only one key of kind `lpm`", help);
        }
        for (i, k) in keys.iter().enumerate() {
            if keys[..i].iter().any(|o| o.name == k.name) {
                let message = format!("two keys have the control-plane name `{}`", k.name);
                let d = Diagnostic::error("P0602", k.expr.span, message);
                self.report(d.help("give one of them another: `@name(\"name\")`"));
            }
        }
    }

    /// The control-plane name of a key (P4_16 section 18.3.1; `$valid$` as P4Runtime programs expect it).
    fn key_name(&mut self, e: &ast::Expr) -> Option<String> {
        Some(match &e.kind {
            Ast::Name(path) => path.name.name.clone(),
            Ast::Int { .. } => self.sources.text(e.span).to_string(),
            Ast::Member(base, name) => {
                // A field's own `@name` counts; with a leading dot it is the whole name.
                let ty = self.quiet_type(base);
                let mut field = name.name.clone();
                if let Some(Kind::Struct(d, _)) = ty.map(|t| self.tree.tys.get(t).clone())
                    && let Some(f) = self.tree.structs[d].fields.iter().find(|f| f.name == name.name)
                    && let Some(n) = f.annotations.string("name")
                {
                    field = n.to_string();
                }
                match field.strip_prefix('.') {
                    Some(whole) => whole.to_string(),
                    None => format!("{}.{field}", self.key_name(base)?),
                }
            }
            Ast::Index(base, i) => format!("{}[{}]", self.key_name(base)?, self.key_name(i)?),
            Ast::Slice(base, hi, lo) => {
                format!("{}[{}:{}]", self.key_name(base)?, self.key_name(hi)?, self.key_name(lo)?)
            }
            Ast::Binary(ast::BinaryOp::BitAnd, a, b) => {
                format!("{} & {}", self.key_name(a)?, self.key_name(b)?)
            }
            Ast::Call { callee, args, .. } if args.is_empty() => match &callee.kind {
                Ast::Member(base, m) if m.name == "isValid" => format!("{}.$valid$", self.key_name(base)?),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// The type of an expression that was checked before: says nothing new.
    fn quiet_type(&mut self, e: &ast::Expr) -> Option<Ty> {
        let before = self.diagnostics.len();
        let ty = self.expr(e).ty;
        self.diagnostics.truncate(before);
        (ty != Ty::ERROR).then_some(ty)
    }

    fn action_ref(&mut self, a: &ast::ActionRef, earlier: &[ActionRef]) -> Option<ActionRef> {
        let annotations = self.annotations(&a.annotations);
        let binding = self.lookup(&a.action)?;
        let name = a.action.name.name.clone();
        let actions = match binding.def {
            Def::Actions(all) => all,
            Def::Broken => return None,
            other => {
                let message = format!("`{name}` is {}, not an action", other.describe());
                let d = Diagnostic::error("P0603", a.span, message).related(binding.span, "declared here");
                self.report(d.help("list actions only"));
                return None;
            }
        };
        let args = a.args.as_deref().unwrap_or(&[]);
        let directed = |c: &Self, i: usize| -> Vec<Param> {
            let ps = &c.tree.actions[i].sig.params;
            ps.iter().filter(|p| p.direction != Direction::None).cloned().collect()
        };
        let action = match actions.as_slice() {
            [one] => *one,
            all => {
                let params: Vec<Vec<Param>> = all.iter().map(|i| directed(self, *i)).collect();
                let spans: Vec<Span> = all.iter().map(|i| self.tree.actions[*i].sig.span).collect();
                let candidates: Vec<(Span, &[Param])> =
                    spans.iter().zip(&params).map(|(s, p)| (*s, p.as_slice())).collect();
                all[self.overload(&name, &candidates, args, a.span)?]
            }
        };
        if let Some(o) = earlier.iter().find(|o| self.tree.actions[o.action].sig.name == name) {
            let first = o.span;
            self.report(
                Diagnostic::error("P0603", a.span, format!("action `{name}` is listed twice"))
                    .related(first, "first listed here")
                    .help("leave out one of them; actions of one table need distinct names"),
            );
            return None;
        }
        let params = directed(self, action);
        let place = std::mem::replace(&mut self.cx.place, Place::ControlApply);
        let bound = self.arguments(Signature::plain(&name, &params), args, Style::Action, a.span);
        self.cx.place = place;
        let bound = bound?.args;
        for arg in &bound {
            if let Arg::In(e) | Arg::Out(e) | Arg::InOut(e) = arg
                && e.has_effects()
            {
                self.unsupported(
                    e.span,
                    "a call in an argument bound in an action list",
                    "store its result first",
                );
                return None;
            }
        }
        Some(ActionRef { action, bound, annotations, span: a.span })
    }

    /// An action of the table with its data, as in `default_action` and entries.
    fn action_call(&mut self, e: &ast::Expr, actions: &[ActionRef]) -> Option<(usize, Vec<Expr>)> {
        let (path, args): (&ast::Path, &[ast::Arg]) = match &e.kind {
            Ast::Name(p) => (p, &[]),
            Ast::Call { callee, args, .. } => match &callee.kind {
                Ast::Name(p) => (p, args),
                _ => {
                    self.error(
                        "P0603",
                        e.span,
                        "this is not an action",
                        "name an action of the `actions` list",
                    );
                    return None;
                }
            },
            _ => {
                self.error("P0603", e.span, "this is not an action", "name an action of the `actions` list");
                return None;
            }
        };
        let binding = self.lookup(path)?;
        let named = match binding.def {
            Def::Actions(all) => all,
            Def::Broken => return None,
            other => {
                let message = format!("`{}` is {}, not an action", path.name.name, other.describe());
                self.error("P0603", e.span, message, "name an action of the `actions` list");
                return None;
            }
        };
        let Some(index) = actions.iter().position(|a| named.contains(&a.action)) else {
            let d = Diagnostic::error(
                "P0603",
                e.span,
                format!("action `{}` is not in the `actions` list of the table", path.name.name),
            );
            self.report(d.related(binding.span, "declared here").help("add it to the list"));
            return None;
        };
        let params = self.tree.actions[actions[index].action].sig.params.clone();
        let (directed, data): (Vec<Param>, Vec<Param>) =
            params.iter().cloned().partition(|p| p.direction != Direction::None);
        // Arguments that the list has bound already may be repeated, and are then the same, or left out.
        let by_name = args.iter().any(|a| a.name.is_some());
        let repeated: Vec<&ast::Arg> = if by_name {
            let is =
                |a: &&ast::Arg| a.name.as_ref().is_some_and(|n| directed.iter().any(|p| p.name == n.name));
            args.iter().filter(is).collect()
        } else if args.len() > data.len() {
            args.iter().take(directed.len()).collect()
        } else {
            Vec::new()
        };
        let rest: Vec<ast::Arg> =
            args.iter().filter(|a| !repeated.iter().any(|r| std::ptr::eq(*r, *a))).cloned().collect();
        for (r, p) in repeated.iter().zip(&directed) {
            self.check_same_argument(r, p, &actions[index]);
        }
        let name = path.name.name.clone();
        let bound = self.arguments(Signature::plain(&name, &data), &rest, Style::Other, e.span)?;
        let data =
            bound.args.into_iter().filter_map(|a| if let Arg::In(e) = a { Some(e) } else { None }).collect();
        Some((index, data))
    }

    fn check_same_argument(&mut self, arg: &ast::Arg, p: &Param, list: &ActionRef) {
        let k = self.tree.actions[list.action]
            .sig
            .params
            .iter()
            .filter(|q| q.direction != Direction::None)
            .position(|q| q.name == p.name);
        let bound = match k.and_then(|k| list.bound.get(k)) {
            Some(Arg::In(e) | Arg::Out(e) | Arg::InOut(e)) => Some(e.span),
            _ => None,
        };
        let (Some(bound), Some(value)) = (bound, &arg.value) else { return };
        let normal = |s: &str| s.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        if normal(self.sources.text(bound)) != normal(self.sources.text(value.span)) {
            self.report(
                Diagnostic::error("P0603", arg.span, format!("`{}` differs from the action list", p.name))
                    .related(bound, "bound here")
                    .help("write the same expression, or leave it out"),
            );
        }
    }

    fn default_action(&mut self, e: &ast::Expr, actions: &[ActionRef]) -> Option<(usize, Vec<Expr>)> {
        let (index, data) = self.action_call(e, actions)?;
        if actions[index].annotations.has("tableonly") {
            let d = Diagnostic::error(
                "P0603",
                e.span,
                "this action is `@tableonly`: it cannot be the default action",
            );
            self.report(d.related(actions[index].span, "listed here").help("use another action"));
        }
        Some((index, data))
    }

    /// `NoAction` (P4_16 section 14.2.1.3).
    fn implicit_default(&mut self, table: &mut Table) {
        let path = ast::Path { rooted: true, name: ast::Ident { name: "NoAction".into(), span: table.span } };
        let no_action = match self.find(&path).map(|b| &b.def) {
            Some(Def::Actions(all)) => all.first().copied(),
            _ => None,
        };
        let Some(no_action) = no_action else {
            let message =
                format!("table `{}` has no `default_action`, and there is no `NoAction`", table.name);
            self.error("P0601", table.span, message, "add `default_action = ...;`, or include core.p4");
            return;
        };
        let index = match table.actions.iter().position(|a| a.action == no_action) {
            Some(i) => i,
            None => {
                let default_only = pointsman_ir::Annotation {
                    name: "defaultonly".into(),
                    body: pointsman_ir::AnnotationBody::Empty,
                };
                table.actions.push(ActionRef {
                    action: no_action,
                    bound: Vec::new(),
                    annotations: Annotations(vec![default_only]),
                    span: table.span,
                });
                table.actions.len() - 1
            }
        };
        table.default = Some((index, Vec::new()));
    }

    fn other_property(
        &mut self,
        name: &ast::Ident,
        e: &ast::Expr,
        p: &ast::Property,
        table: &mut Table,
        priorities: &mut Priorities,
    ) {
        let value = self.value(e);
        if value.ty == Ty::ERROR {
            return;
        }
        match name.name.as_str() {
            "size" => {
                if !self.compile_time(&value)
                    || (value.ty != Ty::INT && self.tree.tys.bits(value.ty).is_none())
                {
                    let help = "use a literal or a constant";
                    self.error("P0601", value.span, "`size` must be an integer known at compile time", help);
                } else {
                    table.size = Some(value);
                }
            }
            "largest_priority_wins" => match value.kind {
                ExprKind::Const(Const::Bool(b)) => priorities.largest_wins = b,
                _ => self.error(
                    "P0605",
                    value.span,
                    "`largest_priority_wins` must be a boolean constant",
                    "write `true` or `false`",
                ),
            },
            "priority_delta" => match self.small_int(&value, "priority_delta") {
                Some(d) if d > 0 => priorities.delta = i64::from(d),
                Some(_) => {
                    self.error("P0605", value.span, "`priority_delta` must be positive", "write 1 or more")
                }
                None => {}
            },
            _ => {
                let object = matches!(self.tree.tys.get(value.ty), Kind::Extern(..));
                if !object && !self.compile_time(&value) {
                    let message = format!("the value of `{}` must be known at compile time", name.name);
                    self.error(
                        "P0601",
                        value.span,
                        message,
                        "use an extern instance, a literal or a constant",
                    );
                    return;
                }
                let annotations = self.annotations(&p.annotations);
                table.properties.push((name.name.clone(), value, annotations));
            }
        }
    }

    /// A constant that fits `i32`.
    fn small_int(&mut self, e: &Expr, what: &str) -> Option<i32> {
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

    fn entries(
        &mut self,
        list: &[ast::EntryDecl],
        p: &ast::Property,
        table: &mut Table,
        priorities: &Priorities,
    ) {
        if table.keys.is_empty() {
            let help = "add a `key`, or make the action the default action";
            self.error("P0604", p.span, "a table without keys cannot have entries", help);
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
        let top = prios.iter().copied().max().unwrap_or(0);
        let low = prios.iter().copied().min().unwrap_or(0);
        for (e, prio) in list.iter().zip(prios) {
            let keys = self.entry_keys(e, table);
            let call = self.action_call(&e.action, &table.actions);
            let (Some(keys), Some((action, args))) = (keys, call) else { continue };
            if table.actions[action].annotations.has("defaultonly") {
                let at = table.actions[action].span;
                let d =
                    Diagnostic::error("P0604", e.span, "this action is `@defaultonly`: no entry can have it");
                self.report(d.related(at, "listed here").help("use another action"));
            }
            // P4Runtime lets the larger win: the other convention is turned around.
            let prio = if priorities.largest_wins { prio } else { top + low - prio };
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
        for e in list {
            let Some(p) = &e.priority else {
                out.push(None);
                continue;
            };
            if is_const {
                let help = "leave it out: the order of `const entries` decides, or use `entries`";
                self.error("P0605", p.span, "an entry of `const entries` cannot have a priority", help);
            } else if !ranked {
                let help = "leave it out: only ternary, range and optional keys need one";
                let d = Diagnostic::warning("P0605", p.span, "the priority of this entry means nothing");
                self.report(d.help(help));
            }
            let v = self.value(p);
            let n = if v.ty == Ty::ERROR { None } else { self.small_int(&v, "priority") };
            if n.is_some_and(|n| n < 0) {
                self.error("P0605", p.span, "a priority cannot be negative", "use 1 or more");
            }
            out.push(n.map(i64::from).or(Some(1)));
        }
        out
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
            let help = "give the first entry a priority: those without continue from the one before";
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
                let message = format!("the priority of this entry comes out as {last}");
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
                    format!("another entry has priority {}, too", prios[i]),
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
        if e.keys.len() != matched.len() {
            let message =
                format!("{} set(s) given, but the table has {} key(s)", e.keys.len(), matched.len());
            self.error("P0604", e.span, message, "give one set for each key");
            return None;
        }
        let sets: Option<Vec<KeySet>> =
            e.keys.iter().zip(&matched).map(|(k, key)| self.key_set(k, key.expr.ty)).collect();
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

    /// Can keys of these kinds be matched against these sets?
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
