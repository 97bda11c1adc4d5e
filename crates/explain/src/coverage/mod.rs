//! What traced packets covered of a program: parser states, tables, actions, branches and lines.
//!
//! Counts come from the events of traces alone. A statement that reports no event of its own (`return`, `emit`, a write to a temporary)
//! is counted as often as the statements around it allow: as often as its block was entered, or as the statement before it.

mod lcov;
mod report;

pub use lcov::lcov;
pub use report::{Arm, ArmKind, Branch, File, Named, Report, Total};

use pointsman_ir::trace::{TraceEvent, Traced};
use pointsman_ir::{ActionId, Callee, ControlId, ParserId, Program, Span, TableId};
use pointsman_v1model::trace::{Block, StepKind, TraceStep};
use std::collections::BTreeMap;

/// Code with a frame of its own: one instance of a parser or control, an action or a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Code {
    Parser(ParserId),
    Control(ControlId),
    Action(ActionId),
    Function(pointsman_ir::FunctionId),
}

/// The event by which a statement is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Change,
    Extract,
    Lookahead,
    Advance,
    Lookup,
    Call,
    Extern,
    Exit,
}

/// Counts of a program's parts. Add up the packets of all tests of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    statements: BTreeMap<(Code, Span, Kind), u64>,
    /// Conditions: how often false and true.
    conditions: BTreeMap<(Code, Span), [u64; 2]>,
    /// Per `switch` on a value: how often each case; `None` is the default.
    switches: BTreeMap<(Code, Span, Option<u32>), u64>,
    /// How often code was entered.
    entered: BTreeMap<Code, u64>,
    states: BTreeMap<(ParserId, u32), u64>,
    /// Per state: how often each case of its `select`; `None`: no case matched.
    selects: BTreeMap<(ParserId, u32, Option<u32>), u64>,
    /// Hit or not, and the index in the table's list of the action that ran.
    lookups: BTreeMap<(TableId, bool, Option<u32>), u64>,
    /// Steps are missing: a trace was full.
    cut: bool,
}

/// Where one packet, or one of its copies, is.
#[derive(Default)]
struct Position {
    levels: Vec<Code>,
    /// A look-up ran whose action has not begun.
    looked_up: bool,
    /// The current state of the innermost parser.
    state: Vec<(ParserId, u32)>,
}

impl Coverage {
    /// Counts the steps of some packets, from their arrival on: a packet must not be divided among calls within a block.
    pub fn add(&mut self, program: &Program, steps: &[TraceStep]) {
        let mut positions: BTreeMap<u32, Position> = BTreeMap::new();
        for step in steps {
            let at = positions.entry(step.thread).or_default();
            match &step.what {
                StepKind::Begin(block) => {
                    let code = match block {
                        Block::Parser(id) => Code::Parser(*id),
                        Block::Verify(id)
                        | Block::Ingress(id)
                        | Block::Egress(id)
                        | Block::Compute(id)
                        | Block::Deparser(id) => Code::Control(*id),
                    };
                    *at = Position { levels: vec![code], ..Position::default() };
                    *self.entered.entry(code).or_default() += 1;
                }
                StepKind::Inside(event) => self.event(program, at, event),
                StepKind::Cut => self.cut = true,
                _ => {}
            }
        }
    }

    /// Adds the counts of another run of the same program.
    pub fn merge(&mut self, other: &Coverage) {
        fn each<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            from.iter().for_each(|(k, n)| *to.entry(*k).or_default() += n);
        }
        each(&mut self.statements, &other.statements);
        each(&mut self.switches, &other.switches);
        each(&mut self.entered, &other.entered);
        each(&mut self.states, &other.states);
        each(&mut self.selects, &other.selects);
        each(&mut self.lookups, &other.lookups);
        for (key, [no, yes]) in &other.conditions {
            let to = self.conditions.entry(*key).or_default();
            *to = [to[0] + no, to[1] + yes];
        }
        self.cut |= other.cut;
    }

    /// Whether a trace was full, so that counts are too small.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    fn event(&mut self, program: &Program, at: &mut Position, event: &TraceEvent) {
        let Some(code) = at.levels.last().copied() else { return };
        let span = event.span;
        let kind = match &event.what {
            Traced::State(parser, state) => {
                *self.states.entry((*parser, *state)).or_default() += 1;
                at.state.retain(|(p, _)| p != parser);
                at.state.push((*parser, *state));
                None
            }
            Traced::Transition { parser, case, .. } => {
                if let (Some(case), Some((_, state))) = (case, at.state.iter().find(|(p, _)| p == parser)) {
                    *self.selects.entry((*parser, *state, Some(*case))).or_default() += 1;
                }
                None
            }
            Traced::ParserError(error) => {
                let no_match = program.errors.get(*error as usize).is_some_and(|e| e == "NoMatch");
                if let Some((parser, state)) = at.state.last().filter(|_| no_match) {
                    *self.selects.entry((*parser, *state, None)).or_default() += 1;
                }
                None
            }
            Traced::Condition(value) => {
                self.conditions.entry((code, span)).or_default()[usize::from(*value)] += 1;
                None
            }
            Traced::Switch { case, .. } => {
                *self.switches.entry((code, span, *case)).or_default() += 1;
                None
            }
            Traced::Lookup { table, found, .. } => {
                let action = found.action.as_ref().map(|a| a.action);
                *self.lookups.entry((*table, found.hit.is_some(), action)).or_default() += 1;
                at.looked_up = action.is_some();
                Some(Kind::Lookup)
            }
            Traced::Enter(callee, _) => {
                let by_table = std::mem::take(&mut at.looked_up) && matches!(callee, Callee::Action(_));
                let Some(callee) = code_of(*callee) else { return };
                at.levels.push(callee);
                *self.entered.entry(callee).or_default() += 1;
                (!by_table).then_some(Kind::Call)
            }
            Traced::Leave => {
                at.levels.pop();
                None
            }
            Traced::Change { .. } | Traced::Lost => Some(Kind::Change),
            Traced::Extract { .. } => Some(Kind::Extract),
            Traced::Lookahead { .. } => Some(Kind::Lookahead),
            Traced::Advance { .. } => Some(Kind::Advance),
            Traced::Extern { .. } => Some(Kind::Extern),
            Traced::Exit => Some(Kind::Exit),
            Traced::Emit(_) => None,
        };
        if let Some(kind) = kind {
            *self.statements.entry((code, span, kind)).or_default() += 1;
        }
    }
}

fn code_of(callee: Callee) -> Option<Code> {
    Some(match callee {
        Callee::Action(id) => Code::Action(id),
        Callee::Function(id) => Code::Function(id),
        Callee::Control(id) => Code::Control(id),
        Callee::Parser(id) => Code::Parser(id),
        Callee::Extern { .. } => return None,
    })
}
