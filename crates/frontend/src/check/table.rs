//! Tables (P4_16 section 14.2).

use super::arguments::{Signature, Style};
use super::entries::Priorities;
use super::eval::{Const, Evaluator};
use super::record::Meaning;
use super::scope::{Def, nearest};
use super::tree::{ActionRef, Arg, Direction, Expr, ExprKind, Key, Param, Table};
use super::types::{Kind, Ty};
use super::{Checker, Place};
use crate::ast::{self, ExprKind as Ast, PropertyKind};
use crate::diag::Diagnostic;
use pointsman_ir::{Annotations, MatchKind, Span};

impl Checker<'_> {
    /// A table; returns its index.
    pub fn table_decl(&mut self, t: &ast::TableDecl, annotations: &[ast::Annotation]) -> Option<usize> {
        let annotations = self.annotations(annotations);
        let mut table = Table {
            name: t.name.name.clone(),
            span: t.name.span,
            annotations,
            keys: Vec::new(),
            has_wrong_keys: false,
            actions: Vec::new(),
            default: None,
            const_default: false,
            entries: Vec::new(),
            const_entries: false,
            size: None,
            properties: Vec::new(),
            largest_priority_wins: true,
        };
        self.check_duplicate_properties(&t.properties);
        self.check_property_order(&t.properties, t.name.span);
        for p in &t.properties {
            if let PropertyKind::Key(keys) = &p.kind {
                for k in keys {
                    match self.key(k) {
                        Some(k) => table.keys.push(k),
                        None => table.has_wrong_keys = true,
                    }
                }
                self.check_keys(&table.keys);
            }
        }
        let lists = t.properties.iter().filter_map(|p| match &p.kind {
            PropertyKind::Actions(list) => Some(list),
            _ => None,
        });
        for a in lists.clone().flatten() {
            if let Some(a) = self.action_ref(a, &table.actions) {
                table.actions.push(a);
            }
        }
        if lists.count() == 0 {
            let message = format!("table `{}` has no `actions`", table.name);
            self.error("P0601", t.name.span, message, "list its actions: `actions = { ... }`");
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
                        .help("remove one of them"),
                );
            }
        }
    }

    /// The default action comes after the actions, entries after both and the key.
    fn check_property_order(&mut self, properties: &[ast::Property], table: Span) {
        let at = |f: fn(&PropertyKind) -> bool| properties.iter().position(|p| f(&p.kind));
        let key = at(|k| matches!(k, PropertyKind::Key(_)));
        let actions = at(|k| matches!(k, PropertyKind::Actions(_)));
        let default = at(|k| matches!(k, PropertyKind::DefaultAction(_)));
        let entries = at(|k| matches!(k, PropertyKind::Entries(_)));
        let rules = [
            (default, actions, "`default_action` comes before `actions`"),
            (entries, key, "`entries` come before `key`"),
            (entries, actions, "`entries` come before `actions`"),
        ];
        for (late, early, message) in rules {
            if let (Some(late), Some(early)) = (late, early)
                && late < early
            {
                let d = Diagnostic::error("P0601", properties[late].span, message);
                let d = d.related(properties[early].span, "must come first").related(table, "of this table");
                self.report(d.help("move it after that"));
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
                // Controllers do not see it.
                None if kind == MatchKind::Selector => "selector".into(),
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
        self.note_member(name, |m| matches!(m, Meaning::MatchKind));
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
                MatchKind::Ternary
            }
        })
    }

    fn check_keys(&mut self, keys: &[Key]) {
        let mut lpm = keys.iter().filter(|k| k.kind == MatchKind::Lpm);
        if let (Some(_), Some(second)) = (lpm.next(), lpm.next()) {
            let help = "match all but one of them with `ternary` or `exact`";
            self.error("P0602", second.expr.span, "a table can have only one key of kind `lpm`", help);
        }
        // Controllers do not see selectors.
        let visible: Vec<&Key> = keys.iter().filter(|k| k.kind != MatchKind::Selector).collect();
        for (i, k) in visible.iter().enumerate() {
            if visible[..i].iter().any(|o| o.name == k.name) {
                // P4Runtime clients that use ids can distinguish them.
                let message = format!("two keys have the control-plane name `{}`", k.name);
                let d = Diagnostic::warning("P0509", k.expr.span, message);
                self.report(d.help("give one of them another: `@name(\"name\")`"));
            }
        }
    }

    /// The control-plane name of a key (P4_16 section 18.3.1; `$valid$` as P4Runtime programs expect it).
    fn key_name(&mut self, e: &ast::Expr) -> Option<String> {
        Some(match &e.kind {
            Ast::Name(path) => match self.find(path).map(|b| &b.def) {
                // A constant is its value.
                Some(Def::Const(c)) => {
                    let e = Evaluator { tree: &self.tree, vars: &|_| None };
                    e.eval_int(c).map_or_else(|_| path.name.name.clone(), |i| i.to_string())
                }
                _ => path.name.name.clone(),
            },
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

    /// The type of an expression that was checked before: without new diagnostics.
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
        let action = match binding.def {
            Def::Action(action) => action,
            Def::Broken => return None,
            other => {
                let message = format!("`{name}` is {}, not an action", other.describe());
                let d = Diagnostic::error("P0603", a.span, message).related(binding.span, "declared here");
                self.report(d.help("list actions only"));
                return None;
            }
        };
        let args = a.args.as_deref().unwrap_or(&[]);
        if let Some(o) = earlier.iter().find(|o| self.tree.actions[o.action].sig.name == name) {
            let first = o.span;
            self.report(
                Diagnostic::error("P0603", a.span, format!("action `{name}` is listed twice"))
                    .related(first, "first listed here")
                    .help("remove one of them; actions of one table need distinct names"),
            );
            return None;
        }
        self.check_action_data(action, a.span);
        let params = &self.tree.actions[action].sig.params;
        let params: Vec<Param> = params.iter().filter(|p| p.direction != Direction::None).cloned().collect();
        let place = std::mem::replace(&mut self.cx.place, Place::ControlApply);
        let bound = self.arguments(Signature::plain(&name, &params), args, Style::Action, a.span);
        self.cx.place = place;
        let bound = bound?.args;
        for arg in &bound {
            if let Arg::In(e) | Arg::Out(e) | Arg::InOut(e) = arg
                && e.applies_table()
            {
                let help = "apply the table first and keep its result in a variable";
                self.error("P0603", e.span, "an argument of a listed action cannot apply a table", help);
                return None;
            }
        }
        Some(ActionRef { action, bound, annotations, span: a.span })
    }

    /// Checks that the control plane can supply the data of this action.
    fn check_action_data(&mut self, action: usize, span: Span) {
        for p in self.tree.actions[action].sig.params.clone() {
            let repr = self.tree.repr(p.ty);
            let scalar = matches!(
                self.tree.tys.get(repr),
                Kind::Bits { .. } | Kind::Bool | Kind::Enum(_) | Kind::ErrorCode | Kind::Error
            );
            if p.direction == Direction::None && !scalar {
                let what = format!("`{}` of type `{}` from the control plane", p.name, self.show(p.ty));
                let before = self.diagnostics.len();
                self.unsupported(p.span, &what, "give the action one parameter for each field");
                self.relate(before, span, "the table that takes this action");
            }
        }
    }

    /// An action of the table with its data, as in `default_action` and entries.
    pub fn action_call(&mut self, e: &ast::Expr, actions: &[ActionRef]) -> Option<(usize, Vec<Expr>)> {
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
            Def::Action(action) => action,
            Def::Broken => return None,
            other => {
                let message = format!("`{}` is {}, not an action", path.name.name, other.describe());
                self.error("P0603", e.span, message, "name an action of the `actions` list");
                return None;
            }
        };
        let Some(index) = actions.iter().position(|a| a.action == named) else {
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
                    .help("write the same expression, or omit it"),
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
            Some(Def::Action(action)) => Some(*action),
            _ => None,
        };
        let no_action = no_action.filter(|a| self.tree.actions[*a].sig.params.is_empty());
        let Some(no_action) = no_action else {
            let what = format!("table `{}` has no `default_action`", table.name);
            let help = "add `default_action = ...;`, or include core.p4";
            let d = match self.find(&path) {
                Some(b) => {
                    let message = format!("{what}, and this `NoAction` is not an action without parameters");
                    Diagnostic::error("P0601", b.span, message).related(table.span, "this table needs it")
                }
                None => {
                    Diagnostic::error("P0601", table.span, format!("{what}, and there is no `NoAction()`"))
                }
            };
            self.report(d.help(help));
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
}
