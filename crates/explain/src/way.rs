//! The way of one thread of a trace: what was written, by which statement in which action, and how it ended.

use crate::describe::Describer;
use pointsman_ir::trace::{ExternArg, Named, TraceEvent, Traced, hex, leaves};
use pointsman_ir::{Callee, Entry, Frame, MatchKind, Span, TableId, Type};
use pointsman_v1model::DropReason;
use pointsman_v1model::trace::{Block, Origin, StepKind, TraceStep};

/// v1model's struct of metadata.
const STANDARD: &str = "standard_metadata_t";

/// A scalar that got a value.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its name without the variable (`ipv4.ttl` for `hdr.ipv4.ttl`); empty if an extern wrote it.
    pub path: String,
    /// It belongs to the standard metadata.
    pub standard: bool,
    /// The new value.
    pub value: String,
    /// The statement.
    pub span: Span,
    /// What wrote it.
    pub by: By,
    /// ` in action A of table T (...)`, or nothing.
    pub within: String,
    /// In the egress block.
    pub egress: bool,
}

/// What writes.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// An assignment, `setValid` and the like.
    Statement,
    /// `extract`.
    Extract,
    /// The extern of this name.
    Extern(String),
}

/// The end of a thread.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Sent on this port; to the control plane?
    Sent(u32, bool),
    /// Dropped.
    Dropped(DropReason),
    /// Sent to the port of packets that are consumed.
    Consumed,
    /// Continues as this thread.
    Again(u32),
}

/// A thread.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// The thread that it was copied from.
    pub origin: Option<(u32, Origin)>,
    /// In order.
    pub writes: Vec<Write>,
    /// Look-ups in words, in order.
    pub lookups: Vec<String>,
    /// Emitted headers that are valid, in order.
    pub emitted: Vec<Named>,
    /// The parser's error and its state.
    pub rejected: Option<(String, Span)>,
    /// The last call of `assert` or `assume`.
    pub asserted: Option<Span>,
    /// Multicast to this group.
    pub group: Option<u32>,
    /// Clones that were requested of sessions that do not exist.
    pub not_cloned: Vec<u32>,
    /// The port whose queue it waits in.
    pub queued: Option<u32>,
    /// Its end, if it came to one.
    pub end: Option<End>,
}

/// A call that has not ended.
struct Level {
    callee: Callee,
    /// The look-up that it follows from, in words.
    table: Option<String>,
}

/// Follows one thread.
struct Walker<'a> {
    describer: &'a Describer<'a>,
    way: Way,
    levels: Vec<Level>,
    egress: bool,
    /// The last look-up, until its action begins: name and result.
    looked_up: Option<(TableId, String)>,
    state: Span,
}

/// The way of the thread with these steps.
pub fn way<'a>(describer: &'a Describer<'a>, steps: impl Iterator<Item = &'a TraceStep>) -> Way {
    let mut walker = Walker {
        describer,
        way: Way::default(),
        levels: Vec::new(),
        egress: false,
        looked_up: None,
        state: Span::default(),
    };
    steps.for_each(|s| walker.step(&s.what));
    walker.way
}

impl Walker<'_> {
    fn step(&mut self, what: &StepKind) {
        let way = &mut self.way;
        match what {
            StepKind::Copied { parent, origin } => way.origin = Some((*parent, *origin)),
            StepKind::Begin(block) => self.begin(*block),
            StepKind::End { .. } => self.levels.clear(),
            StepKind::Inside(event) => self.event(event),
            StepKind::Hit(entry) => self.hit(entry),
            StepKind::Parsed { .. } => self.levels.clear(),
            StepKind::NotCloned(session) => way.not_cloned.push(*session),
            StepKind::Multicast { group, .. } => way.group = Some(*group),
            StepKind::Enqueued { port, .. } => way.queued = Some(*port),
            StepKind::Again(thread) => way.end = Some(End::Again(*thread)),
            StepKind::Sent { port, to_cpu, .. } => way.end = Some(End::Sent(*port, *to_cpu)),
            StepKind::Consumed => way.end = Some(End::Consumed),
            StepKind::Dropped(reason) => way.end = Some(End::Dropped(*reason)),
            StepKind::Received { .. }
            | StepKind::Generated { .. }
            | StepKind::ChecksumError
            | StepKind::Dequeued { .. }
            | StepKind::Cut => {}
        }
    }

    fn begin(&mut self, block: Block) {
        let callee = match block {
            Block::Parser(id) => Callee::Parser(id),
            Block::Verify(id)
            | Block::Ingress(id)
            | Block::Egress(id)
            | Block::Compute(id)
            | Block::Deparser(id) => Callee::Control(id),
        };
        self.egress = matches!(block, Block::Egress(_));
        self.levels = vec![Level { callee, table: None }];
        self.looked_up = None;
    }

    fn event(&mut self, event: &TraceEvent) {
        match &event.what {
            Traced::State(..) => self.state = event.span,
            Traced::ParserError(error) => {
                self.way.rejected = Some((self.describer.error(*error), self.state));
            }
            Traced::Change { new, .. } => {
                for (path, value) in leaves(self.describer.program, &new.name, new.ty, &new.value) {
                    self.write(&path, value, event.span, By::Statement);
                }
            }
            Traced::Extract { header, .. } => {
                for (path, value) in leaves(self.describer.program, &header.name, header.ty, &header.value) {
                    self.write(&path, value, event.span, By::Extract);
                }
            }
            Traced::Lookup { table, key, selectors, found } => {
                let text = self.lookup(*table, key, selectors, found);
                self.looked_up = Some((*table, text));
                self.note_lookup(found);
            }
            Traced::Enter(callee, _) => {
                let table = match callee {
                    Callee::Action(_) => self.looked_up.take().map(|(_, text)| text),
                    _ => None,
                };
                self.levels.push(Level { callee: *callee, table });
            }
            Traced::Leave => {
                self.levels.pop();
            }
            Traced::Extern { function, args, .. } => {
                let name = self.describer.program.extern_fns[function.index()].name.clone();
                self.extern_call(&name, args, event.span);
            }
            Traced::Emit(header) if is_valid(header) => self.way.emitted.push(header.clone()),
            _ => {}
        }
    }

    fn write(&mut self, name: &str, value: String, span: Span, by: By) {
        let root = name.split(['.', '[']).next().unwrap_or("");
        let path = name[root.len()..].trim_start_matches('.').to_string();
        let standard = self.is_standard(root);
        self.put(path, standard, value, span, by);
    }

    fn put(&mut self, path: String, standard: bool, value: String, span: Span, by: By) {
        let within = self.within();
        self.way.writes.push(Write { path, standard, value, span, by, within, egress: self.egress });
    }

    /// Whether the variable `root` of the code that runs is the standard metadata.
    fn is_standard(&self, root: &str) -> bool {
        let program = self.describer.program;
        let Some(level) = self.levels.last() else { return false };
        let of = |frame: &Frame| {
            let var = frame.vars.iter().find(|v| v.name == root);
            var.map(|v| matches!(program.types.get(v.ty), Type::Struct(d) if d.name == STANDARD))
        };
        let control = |id: pointsman_ir::ControlId| of(&program.controls[id.index()].frame);
        let found = match level.callee {
            Callee::Action(id) => {
                let action = &program.actions[id.index()];
                of(&action.frame).or_else(|| action.control.and_then(control))
            }
            Callee::Function(id) => of(&program.functions[id.index()].frame),
            Callee::Control(id) => control(id),
            Callee::Parser(id) => of(&program.parsers[id.index()].frame),
            Callee::Extern { .. } => None,
        };
        found.unwrap_or(false)
    }

    /// The innermost action that runs, and the table that called it.
    fn within(&self) -> String {
        let action = self.levels.iter().rev().find_map(|level| match level.callee {
            Callee::Action(id) => {
                Some((self.describer.program.actions[id.index()].name.as_str(), &level.table))
            }
            _ => None,
        });
        match action {
            None => String::new(),
            Some((name, None)) => format!(" in action {name}"),
            Some((name, Some(table))) => format!(" in action {name} of table {table}"),
        }
    }

    fn extern_call(&mut self, name: &str, args: &[ExternArg], span: Span) {
        let program = self.describer.program;
        if matches!(name, "assert" | "assume") {
            self.way.asserted = Some(span);
        }
        for arg in args {
            let Some(after) = &arg.after else { continue };
            let before = leaves(program, "", arg.before.ty, &arg.before.value);
            let standard = matches!(program.types.get(arg.before.ty), Type::Struct(d) if d.name == STANDARD);
            for (path, value) in leaves(program, "", arg.before.ty, after) {
                // `mark_to_drop` says where a packet goes, even if that was so before.
                let decides = name == "mark_to_drop" && path == "egress_spec";
                if decides || !standard || !before.contains(&(path.clone(), value.clone())) {
                    let path = if standard { path } else { String::new() };
                    self.put(path, standard, value, span, By::Extern(name.to_string()));
                }
            }
        }
    }

    /// `T (miss: key = 0x1)` or `T (hit`, which the entry completes.
    fn lookup(
        &self,
        table: TableId,
        key: &[pointsman_ir::Bits],
        selectors: &[pointsman_ir::Bits],
        found: &pointsman_ir::Lookup,
    ) -> String {
        let table = &self.describer.program.tables[table.index()];
        let (mut matched, mut selected) = (key.iter(), selectors.iter());
        let values = table.keys.iter().filter_map(|k| {
            let selector = k.match_kind == MatchKind::Selector;
            let value = if selector { selected.next() } else { matched.next() };
            value.map(|v| format!("{} = {}", k.name, hex(v)))
        });
        let values: Vec<String> = values.collect();
        let word = if found.hit.is_some() { "hit" } else { "miss" };
        match values.is_empty() {
            true => format!("{} ({word})", table.name),
            false => format!("{} ({word}: {})", table.name, values.join(", ")),
        }
    }

    fn note_lookup(&mut self, found: &pointsman_ir::Lookup) {
        let Some((id, text)) = &self.looked_up else { return };
        let table = &self.describer.program.tables[id.index()];
        let action = match &found.action {
            Some(call) => self.describer.call(table, call).0,
            None => "no action: its group is empty".into(),
        };
        self.way.lookups.push(format!("{text} -> {action}"));
    }

    /// The entry of the look-up before.
    fn hit(&mut self, entry: &Entry) {
        let matches = self.describer.entry(entry);
        if let Some((_, text)) = &mut self.looked_up
            && let Some(open) = text.find(" (")
        {
            text.truncate(open);
            text.push_str(&format!(" ({})", matches.text.trim()));
        }
    }
}

fn is_valid(header: &Named) -> bool {
    !matches!(header.value, pointsman_ir::Value::Header { valid: false, .. })
}
