//! Counts as a report: by file and line, and by the names of states, tables and actions.

use super::{Code, Coverage, Kind};
use pointsman_frontend::source::SourceMap;
use pointsman_ir::{
    ActionId, Callee, ControlId, FunctionId, KeySet, LValue, ParserId, Program, Span, State, Stmt, StmtKind,
    Table, TableId, Transition, VarRef,
};
use std::collections::BTreeMap;

/// What the tests of a program covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By path. Files without code are left out.
    pub files: BTreeMap<String, File>,
    /// Parser states, in order of the program.
    pub states: Vec<Named>,
    /// Tables; the arms are `hit`, `miss` and the actions.
    pub tables: Vec<Branch>,
    /// Actions, in order of the program; without those of core.p4.
    pub actions: Vec<Named>,
}

/// What was covered of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// How often each line with code ran.
    pub lines: BTreeMap<usize, u64>,
    /// By line. Tables are among them.
    pub branches: Vec<Branch>,
    /// States, actions, functions, controls and parsers, by line.
    pub blocks: Vec<Named>,
}

/// Something with a name that runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// Its file, as diagnostics show it.
    pub path: String,
    /// Its line.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub count: u64,
}

/// A place where packets go different ways.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch {
    /// Its line.
    pub line: usize,
    /// Where its source begins on the line, and how long it is: distinguishes it from others of the line.
    extent: (usize, u32),
    /// `if`, `select in state S`, `switch` or the table's name.
    pub name: String,
    /// The ways.
    pub arms: Vec<Arm>,
}

/// One way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arm {
    /// `true`, `false`, a case, `hit`, an action ...
    pub name: String,
    /// Its kind.
    pub kind: ArmKind,
    /// How often it was taken.
    pub count: u64,
}

/// The kinds of ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArmKind {
    /// A value, a case or an action.
    Way,
    /// Look-ups of a table that found an entry.
    Hit,
    /// Look-ups of a table that found none.
    Miss,
}

impl Branch {
    /// It is a table.
    pub fn is_table(&self) -> bool {
        self.arms.iter().any(Arm::is_result)
    }

    /// Its way of this kind, if it has one.
    pub fn result(&self, kind: ArmKind) -> Option<&Arm> {
        self.arms.iter().find(|a| a.kind == kind)
    }
}

impl Arm {
    /// It is the result of a look-up.
    pub fn is_result(&self) -> bool {
        self.kind != ArmKind::Way
    }

    fn way(name: impl Into<String>, count: u64) -> Arm {
        Arm { name: name.into(), kind: ArmKind::Way, count }
    }
}

/// Covered things, and all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    /// Those that ran at least once.
    pub covered: usize,
    /// All.
    pub all: usize,
}

impl Total {
    fn of(counts: impl Iterator<Item = u64>) -> Total {
        counts.fold(Total { covered: 0, all: 0 }, |t, n| Total {
            covered: t.covered + usize::from(n > 0),
            all: t.all + 1,
        })
    }
}

impl Report {
    /// Totals of lines, branches, parser states, look-ups (hits and misses) and actions, with their names.
    pub fn totals(&self) -> [(&'static str, Total); 5] {
        let lines = self.files.values().flat_map(|f| f.lines.values().copied());
        let arms = self.files.values().flat_map(|f| &f.branches).flat_map(|b| &b.arms).map(|a| a.count);
        let results =
            |b: &Branch| b.arms.iter().filter(|a| a.is_result()).map(|a| a.count).collect::<Vec<_>>();
        [
            ("lines", Total::of(lines)),
            ("branches", Total::of(arms)),
            ("parser states", Total::of(self.states.iter().map(|s| s.count))),
            ("table hits and misses", Total::of(self.tables.iter().flat_map(results))),
            ("actions", Total::of(self.actions.iter().map(|a| a.count))),
        ]
    }
}

impl Coverage {
    /// The report. `map` has the texts of the program.
    pub fn report(&self, program: &Program, map: &SourceMap) -> Report {
        let mut maker =
            Maker { coverage: self, program, map, report: Report::default(), exits: exits(program) };
        for id in (0..program.parsers.len() as u32).map(ParserId) {
            maker.parser(id);
        }
        for id in (0..program.controls.len() as u32).map(ControlId) {
            let control = &program.controls[id.index()];
            let code = Code::Control(id);
            // The architecture does not run empty ones.
            if !control.body.is_empty() {
                maker.block_named(control.span, &control.name, code);
            }
            maker.block(code, &control.body, maker.entered(code));
        }
        for id in (0..program.actions.len() as u32).map(ActionId) {
            maker.action(id);
        }
        for id in (0..program.functions.len() as u32).map(FunctionId) {
            let function = &program.functions[id.index()];
            let code = Code::Function(id);
            maker.block_named(function.span, &function.name, code);
            maker.block(code, &function.body, maker.entered(code));
        }
        for id in (0..program.tables.len() as u32).map(TableId) {
            maker.table(id);
        }
        maker.finish()
    }
}

struct Maker<'a> {
    coverage: &'a Coverage,
    program: &'a Program,
    map: &'a SourceMap,
    report: Report,
    /// The program has an `exit`: calls may not return.
    exits: bool,
}

impl Maker<'_> {
    fn entered(&self, code: Code) -> u64 {
        self.coverage.entered.get(&code).copied().unwrap_or(0)
    }

    /// Path and line; nothing for what has no source.
    fn place(&self, span: Span) -> Option<(String, usize)> {
        if span.lo == span.hi {
            return None;
        }
        let (line, _) = self.map.line_column(span);
        (line > 0).then(|| (self.map.path(span).to_string(), line))
    }

    fn file(&mut self, path: String) -> &mut File {
        self.report.files.entry(path).or_default()
    }

    /// A line with code: instances of one declaration add up, statements of one line do not.
    fn line(&mut self, lines: &mut BTreeMap<(String, usize), u64>, span: Span, count: u64) {
        if let Some(at) = self.place(span) {
            let known = lines.entry(at).or_default();
            *known = count.max(*known);
        }
    }

    fn branch(&mut self, span: Span, name: String, arms: Vec<Arm>) {
        let Some((path, line)) = self.place(span) else { return };
        let extent = self.extent(span);
        let branches = &mut self.file(path).branches;
        // A further instance of the same declaration, or of an included file.
        let same = |b: &&mut Branch| {
            (b.line, b.extent) == (line, extent)
                && b.name == name
                && b.arms.iter().map(|a| &a.name).eq(arms.iter().map(|a| &a.name))
        };
        match branches.iter_mut().find(same) {
            Some(known) => known.arms.iter_mut().zip(&arms).for_each(|(k, a)| k.count += a.count),
            None => branches.push(Branch { line, extent, name, arms }),
        }
    }

    /// Column and length: files that are included twice have different spans.
    fn extent(&self, span: Span) -> (usize, u32) {
        (self.map.line_column(span).1, span.hi - span.lo)
    }

    fn named(&self, span: Span, name: &str, count: u64) -> Option<Named> {
        self.place(span).map(|(path, line)| Named { path, line, name: name.into(), count })
    }

    fn block_named(&mut self, span: Span, name: &str, code: Code) {
        if let Some(named) = self.named(span, name, self.entered(code)) {
            self.file(named.path.clone()).blocks.push(named);
        }
    }

    fn action(&mut self, id: ActionId) {
        let action = &self.program.actions[id.index()];
        let code = Code::Action(id);
        let Some(named) = self.named(action.span, &action.name, self.entered(code)) else { return };
        // `NoAction` and its like are nothing to test.
        if !named.path.starts_with('<') || !action.body.is_empty() {
            self.file(named.path.clone()).blocks.push(named.clone());
            self.report.actions.push(named);
        }
        self.block(code, &action.body, self.entered(code));
    }

    fn parser(&mut self, id: ParserId) {
        let parser = &self.program.parsers[id.index()];
        let code = Code::Parser(id);
        self.block(code, &parser.init, self.entered(code));
        for (i, state) in parser.states.iter().enumerate() {
            let count = self.coverage.states.get(&(id, i as u32)).copied().unwrap_or(0);
            let name = format!("{}.{}", parser.name, state.name);
            if let Some(named) = self.named(state.span, &name, count) {
                self.file(named.path.clone()).blocks.push(named.clone());
                self.report.states.push(named);
            }
            self.block(code, &state.body, count);
            self.select(id, i as u32, state);
        }
    }

    fn select(&mut self, parser: ParserId, index: u32, state: &State) {
        let Transition::Select { on, cases } = &state.transition else { return };
        let count =
            |case: Option<u32>| self.coverage.selects.get(&(parser, index, case)).copied().unwrap_or(0);
        let states = &self.program.parsers[parser.index()].states;
        let mut arms: Vec<Arm> = Vec::new();
        for (i, case) in cases.iter().enumerate() {
            let next = match case.next {
                pointsman_ir::StateRef::State(s) => states.get(s as usize).map_or("?", |s| s.name.as_str()),
                pointsman_ir::StateRef::Accept => "accept",
                pointsman_ir::StateRef::Reject => "reject",
            };
            arms.push(Arm::way(format!("case {} -> {next}", i + 1), count(Some(i as u32))));
        }
        let total = |case: &pointsman_ir::SelectCase| case.keys.iter().all(|k| matches!(k, KeySet::Any));
        if !cases.iter().any(total) {
            arms.push(Arm::way("no case matches", count(None)));
        }
        let span = on.first().map_or(state.span, |e| e.span);
        self.branch(span, format!("select in state {}", state.name), arms);
    }

    fn table(&mut self, id: TableId) {
        let table = &self.program.tables[id.index()];
        let count = |of: &dyn Fn(bool, Option<u32>) -> bool| -> u64 {
            let range = self.coverage.lookups.iter().filter(|((t, hit, a), _)| *t == id && of(*hit, *a));
            range.map(|(_, n)| n).sum()
        };
        let mut arms = Vec::new();
        if !table.keys.is_empty() {
            arms.push(Arm { name: "hit".into(), kind: ArmKind::Hit, count: count(&|hit, _| hit) });
        }
        arms.push(Arm { name: "miss".into(), kind: ArmKind::Miss, count: count(&|hit, _| !hit) });
        for (i, listed) in table.actions.iter().enumerate().filter(|(i, _)| possible(table, *i)) {
            let name = &self.program.actions[listed.action.index()].name;
            arms.push(Arm::way(name, count(&|_, a| a == Some(i as u32))));
        }
        let line = self.place(table.span).map_or(0, |(_, line)| line);
        let extent = self.extent(table.span);
        self.report.tables.push(Branch { line, extent, name: table.name.clone(), arms: arms.clone() });
        self.branch(table.span, format!("table {}", table.name), arms);
    }

    /// A callable's statements, or a block of them, that was entered `entry` times.
    fn block(&mut self, code: Code, stmts: &[Stmt], entry: u64) {
        let mut lines = BTreeMap::new();
        self.stmts(code, stmts, entry, &mut lines);
        for ((path, line), count) in lines {
            *self.file(path).lines.entry(line).or_default() += count;
        }
    }

    fn stmts(&mut self, code: Code, stmts: &[Stmt], entry: u64, lines: &mut BTreeMap<(String, usize), u64>) {
        // How often the next statement runs, as far as that is known.
        let mut flow = Some(entry);
        for stmt in stmts {
            let count = match &stmt.kind {
                StmtKind::If(cond, yes, no) => {
                    let [n, y] =
                        self.coverage.conditions.get(&(code, cond.span)).copied().unwrap_or_default();
                    self.line(lines, cond.span, n + y);
                    self.branch(cond.span, "if".into(), two(y, n));
                    self.stmts(code, yes, y, lines);
                    self.stmts(code, no, n, lines);
                    Some(n + y)
                }
                StmtKind::Loop { cond, body, update } => {
                    let [n, y] =
                        self.coverage.conditions.get(&(code, cond.span)).copied().unwrap_or_default();
                    self.line(lines, cond.span, n + y);
                    self.branch(cond.span, "loop".into(), two(y, n));
                    self.stmts(code, body, y, lines);
                    self.stmts(code, update, y, lines);
                    Some(n)
                }
                // One without a place is the front end's: it runs as often as the statement before.
                StmtKind::Switch { cases, default, .. } if stmt.span.lo < stmt.span.hi => {
                    Some(self.switch(code, stmt, cases, default, lines))
                }
                simple => match self.own_event(code, simple) {
                    Some(kind) => {
                        let count = self.coverage.statements.get(&(code, stmt.span, kind)).copied();
                        Some(count.unwrap_or(0))
                    }
                    None => flow,
                },
            };
            let inner = matches!(stmt.kind, StmtKind::If(..) | StmtKind::Loop { .. });
            if let Some(count) = count.filter(|_| !inner) {
                self.line(lines, stmt.span, count);
            }
            flow = count.filter(|_| !self.may_leave(stmt));
        }
    }

    fn switch(
        &mut self,
        code: Code,
        stmt: &Stmt,
        cases: &[(Vec<pointsman_ir::Value>, Vec<Stmt>)],
        default: &[Stmt],
        lines: &mut BTreeMap<(String, usize), u64>,
    ) -> u64 {
        let count =
            |case: Option<u32>| self.coverage.switches.get(&(code, stmt.span, case)).copied().unwrap_or(0);
        let counts: Vec<u64> = (0..cases.len() as u32).map(|i| count(Some(i))).collect();
        let other = count(None);
        let named = counts.iter().enumerate();
        let mut arms: Vec<Arm> = named.map(|(i, n)| Arm::way(format!("case {}", i + 1), *n)).collect();
        arms.push(Arm::way("default", other));
        self.branch(stmt.span, "switch".into(), arms);
        for ((_, body), n) in cases.iter().zip(&counts) {
            self.stmts(code, body, *n, lines);
        }
        self.stmts(code, default, other, lines);
        counts.iter().sum::<u64>() + other
    }

    /// The event that every run of a statement reports, if there is one.
    fn own_event(&self, code: Code, stmt: &StmtKind) -> Option<Kind> {
        match stmt {
            StmtKind::Assign(lv, _)
            | StmtKind::SetValid(lv)
            | StmtKind::SetInvalid(lv)
            | StmtKind::PushFront(lv, _)
            | StmtKind::PopFront(lv, _)
            | StmtKind::PacketLength(lv) => (!self.is_temporary(code, lv)).then_some(Kind::Change),
            StmtKind::Call { callee: Callee::Extern { .. }, .. } => Some(Kind::Extern),
            StmtKind::Call { .. } => Some(Kind::Call),
            StmtKind::Apply { .. } => Some(Kind::Lookup),
            StmtKind::Exit => Some(Kind::Exit),
            StmtKind::Extract { .. } => Some(Kind::Extract),
            StmtKind::Lookahead(_) => Some(Kind::Lookahead),
            StmtKind::Advance(_) => Some(Kind::Advance),
            _ => None,
        }
    }

    fn is_temporary(&self, code: Code, lv: &LValue) -> bool {
        let p = self.program;
        let frame = match (code, lv.root) {
            (Code::Parser(id), _) => &p.parsers[id.index()].frame,
            (Code::Control(id), _) => &p.controls[id.index()].frame,
            (Code::Function(id), _) => &p.functions[id.index()].frame,
            (Code::Action(id), VarRef::Local(_)) => &p.actions[id.index()].frame,
            (Code::Action(id), VarRef::Outer(_)) => match p.actions[id.index()].control {
                Some(control) => &p.controls[control.index()].frame,
                None => return true,
            },
        };
        let (VarRef::Local(i) | VarRef::Outer(i)) = lv.root;
        frame.vars.get(i as usize).is_none_or(|v| v.name.starts_with('$'))
    }

    /// Whether the statements behind it may run less often than it does.
    fn may_leave(&self, stmt: &Stmt) -> bool {
        match &stmt.kind {
            StmtKind::Return(_) | StmtKind::Exit | StmtKind::Break | StmtKind::Continue => true,
            StmtKind::If(_, a, b) => a.iter().chain(b).any(|s| self.may_leave(s)),
            StmtKind::Loop { body, update, .. } => body.iter().chain(update).any(|s| self.may_leave(s)),
            StmtKind::Switch { cases, default, .. } => {
                cases.iter().flat_map(|(_, b)| b).chain(default).any(|s| self.may_leave(s))
            }
            StmtKind::Call { callee: Callee::Extern { .. }, .. } => false,
            StmtKind::Call { callee: Callee::Parser(_), .. } | StmtKind::Verify(..) => true,
            StmtKind::Call { .. } | StmtKind::Apply { .. } => self.exits,
            _ => false,
        }
    }

    fn finish(mut self) -> Report {
        for file in self.report.files.values_mut() {
            for branch in &file.branches {
                // The actions of a table are counted as hits and misses already.
                let ways = branch.arms.iter().filter(|a| !branch.is_table() || a.is_result());
                file.lines.entry(branch.line).or_insert(ways.map(|a| a.count).sum());
            }
            file.branches.sort();
            file.blocks.sort();
        }
        self.report.files.retain(|_, f| !f.lines.is_empty() || !f.branches.is_empty());
        self.report
    }
}

/// Whether a table can run the action `index` of its list: in an entry, or as the default.
fn possible(table: &Table, index: usize) -> bool {
    let by_entry = !table.keys.is_empty() && !table.actions[index].default_only;
    let is_default = table.default_action.action as usize == index;
    let may_be_default = !table.const_default && !table.actions[index].table_only;
    by_entry || is_default || may_be_default
}

fn two(yes: u64, no: u64) -> Vec<Arm> {
    vec![Arm::way("true", yes), Arm::way("false", no)]
}

/// Whether any code of the program has an `exit`.
fn exits(program: &Program) -> bool {
    fn any(stmts: &[Stmt]) -> bool {
        stmts.iter().any(|s| match &s.kind {
            StmtKind::Exit => true,
            StmtKind::If(_, a, b) => any(a) || any(b),
            StmtKind::Loop { body, update, .. } => any(body) || any(update),
            StmtKind::Switch { cases, default, .. } => cases.iter().any(|(_, b)| any(b)) || any(default),
            _ => false,
        })
    }
    program.controls.iter().any(|c| any(&c.body)) || program.actions.iter().any(|a| any(&a.body))
}
