//! Steps of a trace as text and as JSON fields.

use pointsman_frontend::source::SourceMap;
use pointsman_ir::trace::{Named, leaves, show};
use pointsman_ir::{Program, Span, Value};
use pointsman_v1model::trace::{Block, Origin, StepKind};
use serde_json::{Map, Value as Json, json};

/// Longer source text is cut.
const MAX_SOURCE: usize = 70;

/// Resolves names and sources of one program.
pub struct Describer<'a> {
    /// The program.
    pub program: &'a Program,
    /// The texts that its spans refer to.
    pub map: &'a SourceMap,
    /// Whether statements of a packet test add the entries: text then shows priorities as these do, from 0. P4Runtime's, and
    /// those in the program and in JSON, are 1 or more.
    pub statements: bool,
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

/// A step with this event.
pub fn step(event: &'static str, json: Json, text: impl Into<String>) -> Described {
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
pub fn pairs(list: &[(String, String)]) -> Json {
    list.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// `a = 1, b = 2`
pub fn inline(list: &[(String, String)]) -> String {
    let one = |(name, value): &(String, String)| match name.as_str() {
        "" => value.clone(),
        _ => format!("{name} = {value}"),
    };
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A packet that was made from another.
fn copied(parent: u32, origin: &Origin) -> Described {
    let (name, key, n, words) = match origin {
        Origin::IngressClone(s) => {
            ("ingress_clone", "session", Some(*s), format!("ingress clone of #{parent}, session {s}"))
        }
        Origin::EgressClone(s) => {
            ("egress_clone", "session", Some(*s), format!("egress clone of #{parent}, session {s}"))
        }
        Origin::Replica => ("replica", "", None, format!("replica of #{parent}")),
        Origin::Resubmit(l) => {
            ("resubmit", "field_list", Some(*l), format!("#{parent} resubmitted, keeping field list {l}"))
        }
        Origin::Recirculate(l) => {
            ("recirculate", "field_list", Some(*l), format!("#{parent} recirculated, keeping field list {l}"))
        }
    };
    let mut json = json!({ "parent": parent, "origin": name });
    if let Some(n) = n {
        json[key] = json!(n);
    }
    step("copied", json, words)
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
            StepKind::Copied { parent, origin } => copied(*parent, origin),
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

    /// The name of an error.
    pub fn error(&self, error: u32) -> String {
        self.program.errors.get(error as usize).cloned().unwrap_or_else(|| error.to_string())
    }

    /// The scalars of a value. Names are prefixed with `value.name`.
    pub fn leaves(&self, value: &Named) -> Vec<(String, String)> {
        leaves(self.program, &value.name, value.ty, &value.value)
    }

    /// A scalar as text; `None` for values with parts.
    pub fn scalar(&self, value: &Named) -> Option<String> {
        show(self.program, value.ty, &value.value)
    }

    /// The source text of a span, on one line.
    pub fn source(&self, span: Span) -> String {
        let text = self.source_whole(span);
        match text.char_indices().nth(MAX_SOURCE) {
            Some((at, _)) => format!("{}...", &text[..at]),
            None => text,
        }
    }

    /// The same, however long.
    pub fn source_whole(&self, span: Span) -> String {
        self.map.text(span).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Differences between two values: name, old and new.
    pub fn changes(&self, new: &Named, old: &Value) -> Vec<(String, String, String)> {
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
}
