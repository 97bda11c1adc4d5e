//! A whole trace as text or JSON.

use crate::describe::{Describer, digits};
use pointsman_ir::Span;
use pointsman_v1model::trace::{StepKind, TraceStep};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The column of a step's source location.
const PLACE_COLUMN: usize = 72;

/// The thread of the packet that a thread descends from.
fn root(parents: &BTreeMap<u32, u32>, mut thread: u32) -> u32 {
    while let Some(parent) = parents.get(&thread) {
        thread = *parent;
    }
    thread
}

fn parents(steps: &[TraceStep]) -> BTreeMap<u32, u32> {
    let copied = steps.iter().filter_map(|s| match s.what {
        StepKind::Copied { parent, .. } => Some((s.thread, parent)),
        _ => None,
    });
    copied.collect()
}

impl Describer<'_> {
    /// File, line and column of a span, if it has any.
    pub fn place(&self, span: Span) -> Option<(String, usize, usize)> {
        if span.lo == span.hi {
            return None;
        }
        let (line, column) = self.map.line_column(span);
        (line > 0).then(|| (self.map.path(span).to_string(), line, column))
    }
}

/// Indented lines; the fate of each packet is at the end.
///
/// Writes that change nothing are left out, unless `all`.
pub fn text(describer: &Describer<'_>, steps: &[TraceStep], all: bool) -> String {
    let mut out = String::new();
    let mut depths: BTreeMap<u32, i32> = BTreeMap::new();
    let mut current = 0;
    for step in steps {
        let d = describer.step(&step.what);
        let depth = depths.entry(step.thread).or_insert(0);
        match step.what {
            // A parser that rejects, or a control that exits, leaves everything at once.
            StepKind::Parsed { .. } | StepKind::End { .. } => *depth = 0,
            _ if d.indent < 0 && !d.closes => *depth += d.indent,
            _ => {}
        }
        if !d.text.is_empty() && (all || !d.idle) {
            if step.thread != current {
                let blank = if out.is_empty() { "" } else { "\n" };
                let _ = writeln!(out, "{blank}packet #{} at {} us", step.thread, step.time.micros());
                current = step.thread;
            }
            let indent = "  ".repeat(1 + (*depth).max(0) as usize);
            let mut line = format!("{indent}{}", d.text);
            if let Some((path, at, _)) = d.span.and_then(|s| describer.place(s)) {
                let pad = PLACE_COLUMN.saturating_sub(line.chars().count()).max(2);
                let _ = write!(line, "{}{path}:{at}", " ".repeat(pad));
            }
            out.push_str(&line);
            out.push('\n');
            let extra = d.text.len() - d.text.trim_start().len();
            for more in &d.more {
                let _ = writeln!(out, "{indent}{}    {more}", " ".repeat(extra));
            }
        }
        if d.indent > 0 || d.closes {
            *depth += d.indent;
        }
    }
    let parents = parents(steps);
    out.push_str("\nverdict\n");
    for step in steps {
        let of = match parents.contains_key(&step.thread) {
            true => format!("#{} (from #{})", step.thread, root(&parents, step.thread)),
            false => format!("#{}", step.thread),
        };
        match &step.what {
            StepKind::Sent { port, to_cpu, bytes } => {
                let cpu = if *to_cpu { " (control plane)" } else { "" };
                let _ = writeln!(out, "  {of}: port {port}{cpu}: {}", digits(bytes));
            }
            StepKind::Consumed => {
                let _ = writeln!(out, "  {of}: consumed");
            }
            StepKind::Dropped(reason) => {
                let _ = writeln!(out, "  {of}: dropped: {}", reason.name());
            }
            _ => {}
        }
    }
    out
}

/// One document; docs/trace.md describes it.
pub fn json(program: &str, describer: &Describer<'_>, steps: &[TraceStep]) -> String {
    let parents = parents(steps);
    let one = |step: &TraceStep| {
        let d = describer.step(&step.what);
        let mut object = serde_json::Map::new();
        object.insert("thread".into(), json!(step.thread));
        object.insert("time_us".into(), json!(step.time.micros()));
        object.insert("event".into(), json!(d.event));
        let place = d.span.and_then(|s| describer.place(s));
        if let Some((file, line, column)) = place {
            object.insert("source".into(), json!({ "file": file, "line": line, "column": column }));
        }
        object.extend(d.fields);
        Json::Object(object)
    };
    let results: Vec<Json> = steps
        .iter()
        .filter_map(|s| {
            let packet = root(&parents, s.thread);
            match &s.what {
                StepKind::Sent { port, to_cpu, bytes } => Some(json!({
                    "packet": packet, "thread": s.thread, "sent": { "port": port, "to_cpu": to_cpu, "bytes": digits(bytes) },
                })),
                StepKind::Consumed => Some(json!({ "packet": packet, "thread": s.thread, "consumed": true })),
                StepKind::Dropped(reason) => {
                    Some(json!({ "packet": packet, "thread": s.thread, "dropped": reason.name() }))
                }
                _ => None,
            }
        })
        .collect();
    // One step a line: to be read by people and by line-based tools alike.
    let list = |items: Vec<Json>| {
        let lines: Vec<String> = items.iter().map(|i| format!("    {i}")).collect();
        lines.join(",\n")
    };
    format!(
        "{{\n  \"format\": \"pointsman-p4-trace-1\",\n  \"program\": {},\n  \"steps\": [\n{}\n  ],\n  \"results\": [\n{}\n  ]\n}}\n",
        json!(program),
        list(steps.iter().map(one).collect()),
        list(results)
    )
}
