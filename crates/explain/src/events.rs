//! What executors report inside a block, as text and as JSON fields.

use crate::describe::{Described, Describer, inline, pairs, step};
use pointsman_ir::trace::{ExternArg, Named, TraceEvent, Traced, hex, show};
use pointsman_ir::{
    ActionCall, Callee, Entry, EntryAction, KeyMatch, ParserId, Span, StateRef, TableId, Value,
};
use serde_json::json;

impl Describer<'_> {
    pub(crate) fn event(&self, event: &TraceEvent) -> Described {
        let described = self.traced(&event.what, event.span);
        Described { span: described.span.or(Some(event.span)), ..described }
    }

    fn traced(&self, what: &Traced, span: Span) -> Described {
        match what {
            Traced::State(parser, state) => {
                let parser = &self.program.parsers[parser.index()];
                let name = parser.states.get(*state as usize).map_or("?", |s| s.name.as_str());
                let json = json!({ "parser": parser.name, "state": name });
                Described { indent: 1, ..step("state", json, format!("state {name}")) }
            }
            Traced::Transition { parser, on, case, next } => self.transition(*parser, on, *case, *next),
            Traced::ParserError(error) => {
                let error = self.error(*error);
                let text = format!("error {error}");
                Described {
                    indent: -1,
                    closes: true,
                    ..step("parser_error", json!({ "error": error }), text)
                }
            }
            Traced::Extract { header, at_bit, bits } => self.extract(header, *at_bit, *bits),
            Traced::Lookahead { into, at_bit } => {
                let list = self.leaves(into);
                let json = json!({ "into": into.name, "first_bit": at_bit, "fields": pairs(&list) });
                step("lookahead", json, format!("lookahead at bit {at_bit}: {}", inline(&list)))
            }
            Traced::Advance { at_bit, bits } => {
                let text = format!("advance {bits} bits from bit {at_bit}");
                step("advance", json!({ "first_bit": at_bit, "bits": bits }), text)
            }
            Traced::Change { new, old } => self.change(new, old),
            Traced::Lost => {
                let source = self.source(span);
                step(
                    "lost",
                    json!({ "source_text": source }),
                    format!("no such element, the write is lost: {source}"),
                )
            }
            Traced::Condition(value) => {
                let source = self.source(span);
                step(
                    "condition",
                    json!({ "source_text": source, "value": value }),
                    format!("if {source}: {value}"),
                )
            }
            Traced::Switch { on, case } => {
                let value = self.scalar(on).unwrap_or_default();
                let which = case.map_or("default".to_string(), |c| format!("case {c}"));
                step("switch", json!({ "value": value, "case": case }), format!("switch ({value}): {which}"))
            }
            Traced::Lookup { table, key, selectors, found } => self.lookup(*table, key, selectors, found),
            Traced::Enter(callee, args) => self.enter(*callee, args),
            Traced::Leave => Described { indent: -1, ..step("leave", json!({}), "") },
            Traced::Extern { function, instance, args, returned } => {
                let f = &self.program.extern_fns[function.index()];
                let object = instance.map(|i| self.program.externs[i.index()].name.as_str());
                let name = object.map_or(f.name.clone(), |o| format!("{o}.{}", f.name));
                self.extern_call(&name, args, returned.as_ref())
            }
            Traced::Emit(header) => self.emit(header),
            Traced::Exit => step("exit", json!({}), "exit"),
        }
    }

    fn transition(&self, parser: ParserId, on: &[Named], case: Option<u32>, next: StateRef) -> Described {
        let states = &self.program.parsers[parser.index()].states;
        let next = match next {
            StateRef::State(i) => states.get(i as usize).map_or("?", |s| s.name.as_str()),
            StateRef::Accept => "accept",
            StateRef::Reject => "reject",
        };
        let values: Vec<String> = on.iter().filter_map(|v| self.scalar(v)).collect();
        let text = match case {
            Some(_) => format!("select({}) -> {next}", values.join(", ")),
            None => format!("-> {next}"),
        };
        let json = json!({ "on": values, "case": case, "next": next });
        Described { indent: -1, closes: true, ..step("transition", json, text) }
    }

    fn extract(&self, header: &Named, at_bit: usize, bits: usize) -> Described {
        let list = self.leaves(header);
        let json = json!({
            "header": header.name, "first_bit": at_bit, "bits": bits, "fields": pairs(&list),
        });
        let lost = if matches!(header.value, Value::Void) { " past the end of its stack" } else { "" };
        let text = format!("extract {}{lost}: {bits} bits at bit {at_bit}", header.name);
        Described {
            more: list.iter().map(|(n, v)| format!("{n} = {v}")).collect(),
            ..step("extract", json, text)
        }
    }

    fn enter(&self, callee: Callee, args: &[Named]) -> Described {
        let (kind, name, at) = self.callee(callee);
        let list: Vec<_> =
            args.iter().map(|a| (a.name.clone(), self.scalar(a).unwrap_or_default())).collect();
        let json = json!({ "kind": kind, "name": name, "args": pairs(&list) });
        let text = format!("{kind} {name}({})", inline(&list));
        Described { indent: 1, span: at, ..step("enter", json, text) }
    }

    fn emit(&self, header: &Named) -> Described {
        let list = self.leaves(header);
        let valid = !matches!(header.value, Value::Header { valid: false, .. });
        let json = json!({ "header": header.name, "valid": valid, "fields": pairs(&list) });
        match valid {
            true => step("emit", json, format!("emit {}: {}", header.name, short(&header.name, &list))),
            false => step("emit", json, format!("emit {}: invalid, nothing", header.name)),
        }
    }

    fn change(&self, new: &Named, old: &Value) -> Described {
        let mut list = self.changes(new, old);
        if list.is_empty()
            && let (Some(value), Some(old)) = (self.scalar(new), show(self.program, new.ty, old))
        {
            list.push((new.name.clone(), old, value));
        }
        let one = |(n, o, v): &(String, String, String)| json!({ "name": n, "old": o, "new": v });
        let json = json!({ "place": new.name, "changes": list.iter().map(one).collect::<Vec<_>>() });
        let arrow = |(n, o, v): &(String, String, String)| match o == v {
            true => format!("{n}: {v} (as before)"),
            false => format!("{n}: {o} -> {v}"),
        };
        match list.as_slice() {
            [] => Described { idle: true, ..step("change", json, format!("{}: as before", new.name)) },
            [only] => Described { idle: only.1 == only.2, ..step("change", json, arrow(only)) },
            [first, ..] if first.0 == new.name => Described {
                more: list[1..].iter().map(arrow).collect(),
                ..step("change", json, arrow(first))
            },
            several => {
                let more = several.iter().map(arrow).collect();
                Described { more, ..step("change", json, new.name.clone()) }
            }
        }
    }

    fn lookup(
        &self,
        table: TableId,
        key: &[pointsman_ir::Bits],
        selectors: &[pointsman_ir::Bits],
        found: &pointsman_ir::Lookup,
    ) -> Described {
        let table = &self.program.tables[table.index()];
        let (mut matched, mut selected) = (key.iter(), selectors.iter());
        let mut list = Vec::new();
        let mut json_key = Vec::new();
        for k in &table.keys {
            let selector = k.match_kind == pointsman_ir::MatchKind::Selector;
            let Some(value) = (if selector { selected.next() } else { matched.next() }) else { continue };
            let kind = format!("{:?}", k.match_kind).to_ascii_lowercase();
            json_key.push(json!({ "name": k.name, "match": kind, "value": hex(value) }));
            list.push(format!("key {} = {} ({kind})", k.name, hex(value)));
        }
        let (action, args) = found.action.as_ref().map_or((None, Vec::new()), |call| {
            let (name, args) = self.call(table, call);
            (Some(name), args)
        });
        let hit = found.hit.is_some();
        let json = json!({
            "table": table.name, "key": json_key, "hit": hit, "action": action, "args": pairs(&args),
        });
        let word = if hit { "hit" } else { "miss" };
        if action.is_none() {
            list.push("no action: the group has no members".into());
        }
        let text = format!("table {}: {word}", table.name);
        Described { more: list, ..step("lookup", json, text) }
    }

    /// Name and arguments of a call of one of the table's actions.
    pub(crate) fn call(
        &self,
        table: &pointsman_ir::Table,
        call: &ActionCall,
    ) -> (String, Vec<(String, String)>) {
        let Some(listed) = table.actions.get(call.action as usize) else { return ("?".into(), Vec::new()) };
        let action = &self.program.actions[listed.action.index()];
        let data = action.frame.params.iter().filter(|p| p.direction == pointsman_ir::Direction::None);
        let value = |(p, v): (&pointsman_ir::Param, &Value)| {
            (p.name.clone(), show(self.program, p.ty, v).unwrap_or_default())
        };
        (action.name.clone(), data.zip(&call.args).map(value).collect())
    }

    pub(crate) fn entry(&self, entry: &Entry) -> Described {
        let matches: Vec<String> = entry.matches.iter().map(match_text).collect();
        let action = match &entry.action {
            EntryAction::Call(_) => String::new(),
            EntryAction::Member(m) => format!(", member {m}"),
            EntryAction::Group(g) => format!(", group {g}"),
        };
        let json = json!({
            "matches": matches,
            "priority": entry.priority,
            "member": if let EntryAction::Member(m) = entry.action { Some(m) } else { None },
            "group": if let EntryAction::Group(g) = entry.action { Some(g) } else { None },
        });
        let priority = match entry.priority {
            0 => String::new(),
            n if self.statements && !self.has(entry) => format!(", priority {}", n - 1),
            n => format!(", priority {n}"),
        };
        step("entry", json, format!("  entry {}{priority}{action}", matches.join(", ")))
    }

    /// Whether the program itself has this entry.
    fn has(&self, entry: &Entry) -> bool {
        let same = |e: &Entry| (&e.matches, e.priority) == (&entry.matches, entry.priority);
        self.program.tables.iter().any(|t| t.entries.iter().any(same))
    }

    fn callee(&self, callee: Callee) -> (&'static str, String, Option<Span>) {
        let p = self.program;
        match callee {
            Callee::Action(id) => {
                let a = &p.actions[id.index()];
                ("action", a.name.clone(), Some(a.span))
            }
            Callee::Function(id) => {
                let f = &p.functions[id.index()];
                ("function", f.name.clone(), Some(f.span))
            }
            Callee::Control(id) => {
                let c = &p.controls[id.index()];
                ("control", c.name.clone(), Some(c.span))
            }
            Callee::Parser(id) => {
                let q = &p.parsers[id.index()];
                ("parser", q.name.clone(), Some(q.span))
            }
            Callee::Extern { .. } => ("extern", String::new(), None),
        }
    }

    fn extern_call(&self, name: &str, args: &[ExternArg], returned: Option<&Named>) -> Described {
        let mut json_args = Vec::new();
        let mut inline_args = Vec::new();
        let mut more = Vec::new();
        for arg in args {
            let before = &arg.before;
            let after = arg.after.as_ref().map(|v| Named { value: v.clone(), ..before.clone() });
            let list = self.leaves(before);
            let mut json = json!({ "name": before.name, "values": pairs(&list) });
            let mut text = match self.scalar(before) {
                Some(value) => format!("{} = {value}", before.name),
                None => format!("{} = {{{}}}", before.name, short(&before.name, &list)),
            };
            if let Some(after) = &after {
                let changes = self.changes(after, &before.value);
                let one = |(n, o, v): &(String, String, String)| json!({ "name": n, "old": o, "new": v });
                json["changes"] = changes.iter().map(one).collect();
                text = match self.scalar(after) {
                    Some(value) => format!("{} -> {value}", before.name),
                    None => before.name.clone(),
                };
                if self.scalar(after).is_none() {
                    more.extend(changes.iter().map(|(n, o, v)| format!("{n}: {o} -> {v}")));
                }
            }
            json_args.push(json);
            inline_args.push(text);
        }
        let result = returned.and_then(|r| self.scalar(r));
        let json = json!({ "name": name, "args": json_args, "returned": result });
        let result = result.map(|r| format!(" = {r}")).unwrap_or_default();
        let text = format!("extern {name}({}){result}", inline_args.join(", "));
        Described { more, ..step("extern", json, text) }
    }
}

/// The scalars of a value, with their names below `name`.
fn short(name: &str, list: &[(String, String)]) -> String {
    let below = |(n, v): &(String, String)| {
        let n = n.strip_prefix(name).unwrap_or(n).trim_start_matches('.');
        if n.is_empty() { v.clone() } else { format!("{n} = {v}") }
    };
    list.iter().map(below).collect::<Vec<_>>().join(", ")
}

/// A match as people write it.
fn match_text(m: &KeyMatch) -> String {
    match m {
        KeyMatch::Exact(v) => hex(v),
        KeyMatch::Lpm { value, prefix_len } => format!("{}/{prefix_len}", hex(value)),
        KeyMatch::Ternary { value, mask } => match mask.is_zero() {
            true => "*".into(),
            false => format!("{}&&&{}", hex(value), hex(mask)),
        },
        KeyMatch::Range { lo, hi } => format!("{}..{}", hex(lo), hex(hi)),
        KeyMatch::Optional(None) => "*".into(),
        KeyMatch::Optional(Some(v)) => hex(v),
    }
}
