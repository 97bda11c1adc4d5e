//! Steps of a trace as text and as JSON fields.

use pointsman_frontend::source::SourceMap;
use pointsman_ir::trace::{ExternArg, Named, TraceEvent, Traced, hex, leaves, show};
use pointsman_ir::{
    ActionCall, Callee, Entry, EntryAction, KeyMatch, Program, Span, StateRef, TableId, Value,
};
use pointsman_v1model::trace::{Block, Origin, StepKind};
use serde_json::{Map, Value as Json, json};

/// Longer source text is cut.
const MAX_SOURCE: usize = 70;

/// Resolves names and sources of one program.
pub struct Describer<'a> {
    pub program: &'a Program,
    pub map: &'a SourceMap,
}

/// A step for people and for programs.
#[derive(Debug, Default)]
pub struct Described {
    /// Name of the event; empty for a step that only its neighbours describe.
    pub event: &'static str,
    /// The event's JSON fields.
    pub fields: Map<String, Json>,
    /// The step in words.
    pub text: String,
    /// Further lines, indented below it.
    pub more: Vec<String>,
    /// Its location in the source.
    pub span: Option<Span>,
    /// Indentation of the following lines; a value below 0 also applies to its own line, unless `closes`.
    pub indent: i32,
    /// It is the last line of its group.
    pub closes: bool,
    /// It changed nothing.
    pub idle: bool,
}

fn fields(json: Json) -> Map<String, Json> {
    match json {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

fn step(event: &'static str, json: Json, text: impl Into<String>) -> Described {
    Described { event, fields: fields(json), text: text.into(), ..Described::default() }
}

/// Bytes as hexadecimal digits.
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes_of(n: usize) -> String {
    if n == 1 { "1 byte".into() } else { format!("{n} bytes") }
}

/// Names and values as a list of objects.
fn pairs(list: &[(String, String)]) -> Json {
    list.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// `a = 1, b = 2`
fn inline(list: &[(String, String)]) -> String {
    let one = |(name, value): &(String, String)| match name.as_str() {
        "" => value.clone(),
        _ => format!("{name} = {value}"),
    };
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl Describer<'_> {
    /// A step of the architecture, or one inside a block.
    pub fn step(&self, what: &StepKind) -> Described {
        match what {
            StepKind::Received { port, bytes } => {
                let text = format!("received on port {port}, {}: {}", bytes_of(bytes.len()), digits(bytes));
                step("received", json!({ "port": port, "bytes": digits(bytes) }), text)
            }
            StepKind::Generated { port, bytes } => {
                let text = format!(
                    "made by a generator as on port {port}, {}: {}",
                    bytes_of(bytes.len()),
                    digits(bytes)
                );
                step("generated", json!({ "port": port, "bytes": digits(bytes) }), text)
            }
            StepKind::Copied { parent, origin } => {
                let (name, key, n, words) = match origin {
                    Origin::IngressClone(s) => (
                        "ingress_clone",
                        "session",
                        Some(*s),
                        format!("ingress clone of #{parent}, session {s}"),
                    ),
                    Origin::EgressClone(s) => (
                        "egress_clone",
                        "session",
                        Some(*s),
                        format!("egress clone of #{parent}, session {s}"),
                    ),
                    Origin::Replica => ("replica", "", None, format!("replica of #{parent}")),
                    Origin::Resubmit(l) => (
                        "resubmit",
                        "field_list",
                        Some(*l),
                        format!("#{parent} resubmitted, keeping field list {l}"),
                    ),
                    Origin::Recirculate(l) => (
                        "recirculate",
                        "field_list",
                        Some(*l),
                        format!("#{parent} recirculated, keeping field list {l}"),
                    ),
                };
                let mut json = json!({ "parent": parent, "origin": name });
                if let Some(n) = n {
                    json[key] = json!(n);
                }
                step("copied", json, words)
            }
            StepKind::Begin(block) => self.begin(*block),
            StepKind::Inside(event) => self.event(event),
            StepKind::Hit(entry) => self.entry(entry),
            StepKind::Parsed { accepted, error, consumed_bytes } => {
                let error = self.error(*error);
                let verb = if *accepted { "accepted".to_string() } else { format!("rejected with {error}") };
                let json = json!({ "accepted": accepted, "error": error, "consumed_bytes": consumed_bytes });
                let text = format!("{verb}, {} parsed", bytes_of(*consumed_bytes));
                Described { indent: -1, ..step("parsed", json, text) }
            }
            StepKind::ChecksumError => {
                step("checksum_error", json!({}), "checksum mismatch: checksum_error = 1")
            }
            StepKind::End { exited } => {
                let text = if *exited { "ended by exit" } else { "" };
                Described { indent: -1, ..step("end", json!({ "exited": exited }), text) }
            }
            StepKind::NotCloned(session) => {
                let text = format!("not cloned: session {session} does not exist or has no ports");
                step("not_cloned", json!({ "session": session }), text)
            }
            StepKind::Multicast { group, copies } => {
                let text = format!("multicast to group {group}: {copies} copies");
                step("multicast", json!({ "group": group, "copies": copies }), text)
            }
            StepKind::Enqueued { port, priority, depth, instance } => {
                let json =
                    json!({ "port": port, "priority": priority, "depth": depth, "instance": instance });
                let instance = if *instance == 0 { String::new() } else { format!(", instance {instance}") };
                let text = format!(
                    "queued for port {port}, priority {priority}{instance}; {depth} packets before it"
                );
                step("enqueued", json, text)
            }
            StepKind::Dequeued { port, waited_us } => {
                let text = format!("leaves the queue of port {port} after {waited_us} us");
                step("dequeued", json!({ "port": port, "waited_us": waited_us }), text)
            }
            StepKind::Again(thread) => {
                step("again", json!({ "as": thread }), format!("re-enters the switch as #{thread}"))
            }
            StepKind::Sent { port, to_cpu, bytes } => {
                let json = json!({ "port": port, "to_cpu": to_cpu, "bytes": digits(bytes) });
                let cpu = if *to_cpu { " to the control plane" } else { "" };
                let text = format!("sent on port {port}{cpu}, {}: {}", bytes_of(bytes.len()), digits(bytes));
                step("sent", json, text)
            }
            StepKind::Consumed => step("consumed", json!({}), "consumed"),
            StepKind::Dropped(reason) => {
                step("dropped", json!({ "reason": reason.name() }), format!("dropped: {}", reason.name()))
            }
            StepKind::Cut => step("cut", json!({}), "the trace is full: later steps are missing"),
        }
    }

    fn begin(&self, block: Block) -> Described {
        let control = |id: pointsman_ir::ControlId| {
            self.program.controls.get(id.index()).map(|c| (c.name.as_str(), c.span))
        };
        let (kind, found) = match block {
            Block::Parser(id) => {
                ("parser", self.program.parsers.get(id.index()).map(|p| (p.name.as_str(), p.span)))
            }
            Block::Verify(id) => ("verify_checksum", control(id)),
            Block::Ingress(id) => ("ingress", control(id)),
            Block::Egress(id) => ("egress", control(id)),
            Block::Compute(id) => ("compute_checksum", control(id)),
            Block::Deparser(id) => ("deparser", control(id)),
        };
        let name = found.map_or("", |f| f.0);
        let text = format!("{} {name}", kind.replace('_', " "));
        let described = step("begin", json!({ "block": kind, "name": name }), text);
        Described { span: found.map(|f| f.1), indent: 1, ..described }
    }

    fn error(&self, error: u32) -> String {
        self.program.errors.get(error as usize).cloned().unwrap_or_else(|| error.to_string())
    }

    /// The scalars of a value. Names are prefixed with `value.name`.
    fn leaves(&self, value: &Named) -> Vec<(String, String)> {
        leaves(self.program, &value.name, value.ty, &value.value)
    }

    fn scalar(&self, value: &Named) -> Option<String> {
        show(self.program, value.ty, &value.value)
    }

    /// The source text of a span, on one line.
    fn source(&self, span: Span) -> String {
        let text: Vec<&str> = self.map.text(span).split_whitespace().collect();
        let text = text.join(" ");
        match text.char_indices().nth(MAX_SOURCE) {
            Some((at, _)) => format!("{}...", &text[..at]),
            None => text,
        }
    }

    /// Differences between two values: name, old and new.
    fn changes(&self, new: &Named, old: &Value) -> Vec<(String, String, String)> {
        let before = leaves(self.program, &new.name, new.ty, old);
        let after = self.leaves(new);
        let find = |list: &[(String, String)], name: &str| {
            list.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
        };
        let mut out = Vec::new();
        for (name, old) in &before {
            if find(&after, name).is_none() && old == "invalid" {
                out.push((name.clone(), old.clone(), "valid".to_string()));
            }
        }
        for (name, value) in &after {
            match find(&before, name) {
                Some(old) if old == *value => {}
                Some(old) => out.push((name.clone(), old, value.clone())),
                // The header was invalid, or becomes it.
                None if value == "invalid" => out.push((name.clone(), "valid".to_string(), value.clone())),
                None => out.push((name.clone(), "-".to_string(), value.clone())),
            }
        }
        out
    }

    fn event(&self, event: &TraceEvent) -> Described {
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
            Traced::Transition { parser, on, case, next } => {
                let states = &self.program.parsers[parser.index()].states;
                let next = match next {
                    StateRef::State(i) => states.get(*i as usize).map_or("?", |s| s.name.as_str()),
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
            Traced::ParserError(error) => {
                let error = self.error(*error);
                let text = format!("error {error}");
                Described {
                    indent: -1,
                    closes: true,
                    ..step("parser_error", json!({ "error": error }), text)
                }
            }
            Traced::Extract { header, at_bit, bits } => {
                let list = self.leaves(header);
                let json = json!({
                    "header": header.name, "first_bit": at_bit, "bits": bits, "fields": pairs(&list),
                });
                let lost =
                    if matches!(header.value, Value::Void) { " past the end of its stack" } else { "" };
                let text = format!("extract {}{lost}: {bits} bits at bit {at_bit}", header.name);
                Described {
                    more: list.iter().map(|(n, v)| format!("{n} = {v}")).collect(),
                    ..step("extract", json, text)
                }
            }
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
            Traced::Enter(callee, args) => {
                let (kind, name, at) = self.callee(*callee);
                let list: Vec<_> =
                    args.iter().map(|a| (a.name.clone(), self.scalar(a).unwrap_or_default())).collect();
                let json = json!({ "kind": kind, "name": name, "args": pairs(&list) });
                let text = format!("{kind} {name}({})", inline(&list));
                Described { indent: 1, span: at, ..step("enter", json, text) }
            }
            Traced::Leave => Described { indent: -1, ..step("leave", json!({}), "") },
            Traced::Extern { function, instance, args, returned } => {
                let f = &self.program.extern_fns[function.index()];
                let object = instance.map(|i| self.program.externs[i.index()].name.as_str());
                let name = object.map_or(f.name.clone(), |o| format!("{o}.{}", f.name));
                self.extern_call(&name, args, returned.as_ref())
            }
            Traced::Emit(header) => {
                let list = self.leaves(header);
                let valid = !matches!(header.value, Value::Header { valid: false, .. });
                let json = json!({ "header": header.name, "valid": valid, "fields": pairs(&list) });
                match valid {
                    true => {
                        step("emit", json, format!("emit {}: {}", header.name, short(&header.name, &list)))
                    }
                    false => step("emit", json, format!("emit {}: invalid, nothing", header.name)),
                }
            }
            Traced::Exit => step("exit", json!({}), "exit"),
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
    fn call(&self, table: &pointsman_ir::Table, call: &ActionCall) -> (String, Vec<(String, String)>) {
        let Some(listed) = table.actions.get(call.action as usize) else { return ("?".into(), Vec::new()) };
        let action = &self.program.actions[listed.action.index()];
        let data = action.frame.params.iter().filter(|p| p.direction == pointsman_ir::Direction::None);
        let value = |(p, v): (&pointsman_ir::Param, &Value)| {
            (p.name.clone(), show(self.program, p.ty, v).unwrap_or_default())
        };
        (action.name.clone(), data.zip(&call.args).map(value).collect())
    }

    fn entry(&self, entry: &Entry) -> Described {
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
        let priority =
            if entry.priority == 0 { String::new() } else { format!(", priority {}", entry.priority) };
        step("entry", json, format!("  entry {}{priority}{action}", matches.join(", ")))
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
