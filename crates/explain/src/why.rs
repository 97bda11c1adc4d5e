//! Why a packet test failed: the fate of its packets and the statements that decided it.

use crate::describe::Describer;
use crate::fields::{differs, fields, fit};
use crate::way::{By, End, Way, Write, way};
use pointsman_ir::Span;
use pointsman_stf::{Failure, FailureKind, Line, Sent};
use pointsman_v1model::DropReason;
use pointsman_v1model::trace::{Origin, StepKind, TraceStep};
use std::collections::BTreeMap;

/// A recording holds no more steps: a test may send any number of packets.
const MAX_STEPS: usize = 1_000_000;
/// More copies of a packet, look-ups or fields are only counted.
const MAX_LISTED: usize = 8;

/// The steps of a test's packets.
#[derive(Debug, Default)]
pub struct Recording {
    steps: Vec<TraceStep>,
    /// Per line of the test: its steps.
    lines: BTreeMap<usize, std::ops::Range<usize>>,
    /// Per thread: its steps, and the threads that were copied from it or continue it.
    threads: BTreeMap<u32, (Vec<usize>, Vec<u32>)>,
}

impl Recording {
    /// Adds the steps that a statement caused.
    pub fn add(&mut self, line: &Line, steps: Vec<TraceStep>) {
        let start = self.steps.len();
        let room = MAX_STEPS - start;
        for (at, step) in (start..).zip(steps.into_iter().take(room)) {
            self.threads.entry(step.thread).or_default().0.push(at);
            if let StepKind::Copied { parent, .. } = step.what {
                self.threads.entry(parent).or_default().1.push(step.thread);
            }
            self.steps.push(step);
        }
        self.lines.insert(line.number, start..self.steps.len());
    }

    /// All steps, in order.
    pub fn steps(&self) -> &[TraceStep] {
        &self.steps
    }

    fn of(&self, line: usize) -> &[TraceStep] {
        self.lines.get(&line).map_or(&[], |range| &self.steps[range.clone()])
    }

    /// The thread of a packet that left.
    fn thread(&self, sent: &Sent) -> Option<u32> {
        let on_port = self.of(sent.line).iter().filter(|s| match &s.what {
            StepKind::Sent { port, .. } => *port == sent.port,
            _ => false,
        });
        on_port.map(|s| s.thread).nth(sent.nth)
    }

    /// The steps of a thread, in order.
    fn of_thread(&self, thread: u32) -> impl Iterator<Item = &TraceStep> {
        self.threads.get(&thread).into_iter().flat_map(|(steps, _)| steps).map(|i| &self.steps[*i])
    }

    /// Threads that were copied from this one, and the one that it continues as.
    fn descendants(&self, thread: u32) -> &[u32] {
        self.threads.get(&thread).map_or(&[], |(_, threads)| threads)
    }
}

/// Explains a failure, a line each. Empty if there is nothing to add, or nothing was recorded.
pub fn why(describer: &Describer<'_>, recording: &Recording, failure: &Failure) -> Vec<String> {
    let explainer = Explainer { describer, recording };
    match &failure.kind {
        FailureKind::Cell => Vec::new(),
        FailureKind::Missing { packets, .. } => match packets.is_empty() {
            true => vec!["the test sends no packet".into()],
            false => packets.iter().flat_map(|line| explainer.fate(*line)).collect(),
        },
        FailureKind::Unexpected(sent) => explainer.origin(sent),
        FailureKind::NotNone(sents) => sents.iter().flat_map(|s| explainer.origin(s)).collect(),
        FailureKind::Differs { digits, sent, .. } => explainer.differences(digits, sent),
    }
}

struct Explainer<'a> {
    describer: &'a Describer<'a>,
    recording: &'a Recording,
}

impl Explainer<'_> {
    fn way(&self, thread: u32) -> Way {
        way(self.describer, self.recording.of_thread(thread))
    }

    fn place(&self, span: Span) -> String {
        match self.describer.place(span) {
            Some((path, line, _)) => format!(" at {path}:{line}"),
            None => String::new(),
        }
    }

    /// The fate of the packet of this line, and of its copies.
    fn fate(&self, line: usize) -> Vec<String> {
        let received = |s: &&TraceStep| matches!(s.what, StepKind::Received { .. });
        let Some(root) = self.recording.of(line).iter().find(received).map(|s| s.thread) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        let mut waiting = vec![root];
        while let Some(thread) = waiting.pop() {
            let way = self.way(thread);
            if out.len() >= MAX_LISTED {
                out.push("further copies are in the trace (--trace)".into());
                break;
            }
            let who = match &way.origin {
                None => format!("the packet of line {line}"),
                Some((_, origin)) => format!("  {}", copy_name(*origin)),
            };
            out.push(format!("{who}: {}", self.end(&way)));
            out.extend(self.notes(&way));
            waiting.extend(self.recording.descendants(thread).iter().rev());
        }
        out
    }

    /// Why a packet left where it did.
    fn origin(&self, sent: &Sent) -> Vec<String> {
        let Some(thread) = self.recording.thread(sent) else { return Vec::new() };
        let way = self.way(thread);
        let mut out = vec![format!("{}: {}", self.comes_from(&way, thread), self.end(&way))];
        out.extend(self.notes(&way));
        out
    }

    fn comes_from(&self, way: &Way, thread: u32) -> String {
        let copy = way.origin.map_or(String::new(), |(_, origin)| format!(", {}", copy_name(origin)));
        format!("it comes from the {}{copy}", self.cause(thread))
    }

    /// The statement that a thread descends from.
    fn cause(&self, mut thread: u32) -> String {
        while let Some((parent, _)) = self.way(thread).origin {
            thread = parent;
        }
        let first = self.recording.threads.get(&thread).and_then(|(steps, _)| steps.first());
        let word = match first.map(|i| &self.recording.steps[*i].what) {
            Some(StepKind::Generated { .. }) => "generator's packet",
            _ => "packet",
        };
        let line = self.recording.lines.iter().find(|(_, range)| first.is_some_and(|i| range.contains(i)));
        line.map_or(word.into(), |(line, _)| format!("{word} of line {line}"))
    }

    /// The end of a thread and what decided it.
    fn end(&self, way: &Way) -> String {
        match &way.end {
            None => match way.queued {
                Some(port) => format!("still in the queue of port {port}"),
                None => "neither sent nor dropped yet".into(),
            },
            Some(End::Sent(port, to_cpu)) => {
                let cpu = if *to_cpu { " (control plane)" } else { "" };
                format!("left by port {port}{cpu}{}", self.sender(way))
            }
            Some(End::Dropped(reason)) => self.dropped(way, *reason),
            Some(End::Consumed) => "consumed: it went to the port of packets that are consumed".into(),
            Some(End::Again(thread)) => match self.way(*thread).origin {
                Some((_, Origin::Resubmit(_))) => "resubmitted".into(),
                _ => "recirculated".into(),
            },
        }
    }

    /// What chose the egress port.
    fn sender(&self, way: &Way) -> String {
        match way.origin {
            Some((_, Origin::IngressClone(_) | Origin::EgressClone(_))) => return String::new(),
            Some((parent, Origin::Replica)) => {
                let parent = self.way(parent);
                return match parent.group {
                    Some(group) => self.multicast(&parent, group),
                    None => String::new(),
                };
            }
            _ => {}
        }
        if let Some(group) = way.group {
            return self.multicast(way, group);
        }
        let decided = last(way, "egress_spec", |w| !w.egress);
        match decided {
            Some(write) => format!(": egress_spec = {}{}", write.value, self.by(write)),
            None => ": no statement set egress_spec, which is then 0".into(),
        }
    }

    fn multicast(&self, way: &Way, group: u32) -> String {
        let by = last(way, "mcast_grp", |_| true).map(|w| self.by(w)).unwrap_or_default();
        format!(": multicast group {group}{by}")
    }

    /// The statement of a write: ` set at FILE:LINE by EXTERN in action A of table T`.
    fn by(&self, write: &Write) -> String {
        let extern_name = match &write.by {
            By::Extern(name) => format!(" by {name}"),
            By::Statement | By::Extract => String::new(),
        };
        format!(", set{}{extern_name}{}", self.place(write.span), write.within)
    }

    fn dropped(&self, way: &Way, reason: DropReason) -> String {
        let drops = |egress: bool| last(way, "egress_spec", move |w| w.egress == egress);
        let by_write = |write: Option<&Write>, otherwise: &str| match write {
            None => format!("dropped: {otherwise}"),
            Some(w) => {
                let by = match &w.by {
                    By::Extern(name) => format!("by {name}"),
                    By::Statement | By::Extract => format!("by egress_spec = {}", w.value),
                };
                format!("dropped{} {by}{}", self.place(w.span), w.within)
            }
        };
        match reason {
            DropReason::Ingress => by_write(drops(false), "egress_spec is the drop port after ingress"),
            DropReason::Egress => by_write(drops(true), "egress_spec is the drop port after egress"),
            DropReason::AssertionFailed => {
                format!(
                    "dropped by a failed assertion{}",
                    way.asserted.map(|s| self.place(s)).unwrap_or_default()
                )
            }
            DropReason::UnknownMulticastGroup | DropReason::EmptyMulticastGroup => {
                let group = last(way, "mcast_grp", |_| true);
                let of = group.map(|w| format!(" {}{}", w.value, self.by(w))).unwrap_or_default();
                let fault = match reason {
                    DropReason::EmptyMulticastGroup => "has no ports",
                    _ => "does not exist",
                };
                format!("dropped: its multicast group {fault}: group{of}")
            }
            DropReason::UnknownEgressPort => {
                format!("dropped: the switch does not have its egress port{}", self.sender(way))
            }
            other => format!("dropped: {}", other.name()),
        }
    }

    /// Further facts about a thread: a parser's error, look-ups, clones that were not made.
    fn notes(&self, way: &Way) -> Vec<String> {
        let mut out = Vec::new();
        if let Some((error, state)) = &way.rejected {
            out.push(format!("  the parser rejected it with {error} in the state{}", self.place(*state)));
        }
        for session in &way.not_cloned {
            out.push(format!("  not cloned: session {session} does not exist or has no ports"));
        }
        out.extend(way.lookups.iter().take(MAX_LISTED).map(|l| format!("  table {l}")));
        if let Some(more) = way.lookups.len().checked_sub(MAX_LISTED).filter(|n| *n > 0) {
            out.push(format!("  and {more} further look-ups (--trace)"));
        }
        out
    }

    /// The fields in which a packet differs from what the test expects, with the statements that set them.
    fn differences(&self, digits: &str, sent: &Sent) -> Vec<String> {
        let Some(thread) = self.recording.thread(sent) else { return Vec::new() };
        let way = self.way(thread);
        let fields = fields(self.describer.program, &way.emitted);
        let mut out = vec![self.comes_from(&way, thread)];
        if !fit(&fields, &sent.bytes) {
            return out;
        }
        let different: Vec<_> = fields.iter().filter_map(|f| Some((f, differs(f, digits)?))).collect();
        for (field, want) in different.iter().take(MAX_LISTED) {
            let value = pointsman_ir::trace::hex(&field.value);
            out.push(format!(
                "  {} is {value}, not {want}{}",
                field.name,
                self.setter(&way, &field.name, &value)
            ));
        }
        if let Some(more) = different.len().checked_sub(MAX_LISTED).filter(|n| *n > 0) {
            out.push(format!("  and {more} further fields"));
        }
        let headers = fields.last().map_or(0, |f| f.at + f.value.width() as usize).div_ceil(8);
        out.extend(payload(digits, &sent.bytes, headers));
        let names: Vec<&str> = way.emitted.iter().map(|h| h.name.as_str()).collect();
        if different.is_empty() || sent.bytes.len() * 2 != digits.len() {
            let payload = sent.bytes.len().saturating_sub(headers);
            out.push(format!("  headers: {}; then {payload} bytes of payload", listed(&names)));
        }
        out
    }

    /// The last statement in this thread, or in those that it was copied from, that gave a field this value.
    fn setter(&self, way: &Way, name: &str, value: &str) -> String {
        let path = name.split_once('.').map_or("", |(_, path)| path);
        let dotted = format!(".{path}");
        let sets = |w: &&Write| match w.by {
            // The name of the place that an extern wrote is only in the source.
            By::Extern(_) if !w.standard => {
                w.value == value && self.describer.source_whole(w.span).contains(&dotted)
            }
            _ => !w.standard && w.path == path,
        };
        let (write, parent) = (way.writes.iter().rev().find(sets), way.origin);
        match (write, parent) {
            // A member of an enum is shown by its name.
            (Some(w), _) if w.value == value || !w.value.starts_with("0x") => match w.by {
                By::Extract => format!(", as extracted{}", self.place(w.span)),
                _ => self.by(w),
            },
            (None, Some((parent, _))) => self.setter(&self.way(parent), name, value),
            _ => String::new(),
        }
    }
}

/// The last write of a field of the standard metadata.
fn last<'w>(way: &'w Way, field: &str, of: impl Fn(&Write) -> bool) -> Option<&'w Write> {
    way.writes.iter().rev().find(|w| w.standard && w.path == field && of(w))
}

fn copy_name(origin: Origin) -> String {
    match origin {
        Origin::IngressClone(session) => format!("as a clone from ingress for session {session}"),
        Origin::EgressClone(session) => format!("as a clone from egress for session {session}"),
        Origin::Replica => "as a replica".into(),
        Origin::Resubmit(_) => "after resubmission".into(),
        Origin::Recirculate(_) => "after recirculation".into(),
    }
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// The first byte behind the headers that differs, and how many do.
fn payload(digits: &str, bytes: &[u8], headers: usize) -> Option<String> {
    let nibble = |i: usize| bytes.get(i / 2).map(|b| if i.is_multiple_of(2) { b >> 4 } else { b & 15 });
    let wrong = |i: usize| {
        let want = (*digits.as_bytes().get(i)? as char).to_digit(16)?;
        Some(u32::from(nibble(i)?) != want)
    };
    let byte_differs = |b: &usize| wrong(2 * b) == Some(true) || wrong(2 * b + 1) == Some(true);
    let different: Vec<usize> = (headers..bytes.len()).filter(byte_differs).collect();
    let first = different.first()?;
    let want = digits.get(2 * first..(2 * first + 2).min(digits.len()))?;
    let more = match different.len() {
        1 => String::new(),
        n => format!(" ({n} bytes of the payload differ)"),
    };
    Some(format!(
        "  payload byte {} (byte {first} of the packet) is {:02x}, not {want}{more}",
        first - headers,
        bytes[*first]
    ))
}
