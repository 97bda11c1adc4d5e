//! Generated programs: an executor under our front end and v1model against the [`reference`](crate::reference).
//!
//! [`run`] takes any executor, so that all of them are held against the same programs.

use crate::compile::{compile_text, own_includes};
use crate::generate::tree::{Entry as TreeEntry, Match, MatchKind, Program, Ty};
use crate::generate::{generate, print, shrink};
use crate::reference::{Fate, Reference};
use num_bigint::BigInt;
use pointsman_ir::{
    ActionCall, Bits, Entry, EntryAction, Executor, ExternInstanceId, KeyMatch, TableId, Value, ValueSetId,
};
use pointsman_v1model::{
    Arrived, ConfigError, Keep, Output, Pipeline, PortRate, QueueConfig, Switch, SwitchConfig, Time,
};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Passes through the pipeline for one packet.
const BUDGET: usize = 100;

/// How long packets wait in queues that delay them.
const DELAY_NS: u64 = 1_000;

/// How long a failing program may be made smaller.
const SHRINKING: Duration = Duration::from_secs(60);

/// The fault. It has to stay the same while the program is made smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It does not compile. The first diagnostic, and all of them.
    Compile(String, String),
    /// The switch refuses it.
    Load(String),
    /// Something panicked.
    Panic,
    /// Another packet left, or none, or one too many.
    Packet(String),
    /// A register or counter has another value.
    State(String),
}

impl Failure {
    fn same_kind(&self, other: &Failure) -> bool {
        match (self, other) {
            (Failure::Compile(a, _), Failure::Compile(b, _)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

/// The number of comparisons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Programs.
    pub programs: usize,
    /// Of them, those that reached something that P4_16 leaves open, and were not compared from there on.
    pub undefined: usize,
    /// Programs with something that the compiler says it does not support.
    pub unsupported: usize,
    /// Why.
    pub reasons: BTreeMap<&'static str, usize>,
    /// Packets whose fate was compared.
    pub packets: usize,
    /// Of them, those that left.
    pub sent: usize,
    /// Bytes that were compared.
    pub bytes: usize,
}

fn bits(width: u32, n: &BigInt) -> Bits {
    let modulus = BigInt::from(1) << width;
    let low = ((n % &modulus) + &modulus) % &modulus;
    Bits::from_biguint(width, &low.to_biguint().unwrap_or_default())
}

fn value(p: &Program, ty: &Ty, n: &BigInt) -> Value {
    match ty {
        Ty::Bool => Value::Bool(*n != BigInt::ZERO),
        ty => Value::Bits(bits(p.width(ty), n)),
    }
}

fn key_match(p: &Program, ty: &Ty, kind: MatchKind, m: &Match) -> KeyMatch {
    let w = p.width(ty);
    let zero = BigInt::ZERO;
    let ones = (BigInt::from(1) << w) - 1;
    match (kind, m) {
        (MatchKind::Lpm, Match::Prefix(v, len)) => KeyMatch::Lpm { value: bits(w, v), prefix_len: *len },
        (MatchKind::Lpm, _) => KeyMatch::Lpm { value: bits(w, &zero), prefix_len: 0 },
        (MatchKind::Ternary, Match::Mask(v, mask)) => {
            KeyMatch::Ternary { value: bits(w, &(v & mask)), mask: bits(w, mask) }
        }
        (MatchKind::Ternary, Match::Value(v)) => {
            KeyMatch::Ternary { value: bits(w, v), mask: bits(w, &ones) }
        }
        (MatchKind::Ternary, _) => KeyMatch::Ternary { value: bits(w, &zero), mask: bits(w, &zero) },
        (MatchKind::Range, Match::Range(a, b)) => KeyMatch::Range { lo: bits(w, a), hi: bits(w, b) },
        (MatchKind::Range, _) => KeyMatch::Range { lo: bits(w, &zero), hi: bits(w, &ones) },
        (MatchKind::Optional, Match::Value(v)) => KeyMatch::Optional(Some(bits(w, v))),
        (MatchKind::Optional, _) => KeyMatch::Optional(None),
        (MatchKind::Exact, Match::Value(v)) => KeyMatch::Exact(bits(w, v)),
        (MatchKind::Exact, _) => KeyMatch::Exact(bits(w, &zero)),
    }
}

/// Control-plane names of every instance of every control, with the control.
fn instances(p: &Program, control: usize, name: String, out: &mut Vec<(String, usize)>) {
    for (i, (other, _)) in p.controls[control].instances.iter().enumerate() {
        instances(p, *other, format!("{name}.i{i}"), out);
    }
    out.push((name, control));
}

struct Run<'a, E: Executor> {
    p: &'a Program,
    ir: Arc<pointsman_ir::Program>,
    switch: Switch<E>,
    now: Time,
}

impl<E: Executor> Run<'_, E> {
    /// Limits ports, and readies what takes packets from and to their queues.
    fn limit(&mut self, limits: impl Fn(&mut Switch<E>) -> Result<(), ConfigError>) -> Result<(), Failure> {
        limits(&mut self.switch).map_err(|e| Failure::Load(e.to_string()))?;
        self.switch.executor().into_iter().for_each(E::complete);
        Ok(())
    }

    fn add(&mut self) -> Result<(), Failure> {
        let (p, ir) = (self.p, self.ir.clone());
        let mut all = Vec::new();
        instances(p, p.ingress(), "In".into(), &mut all);
        instances(p, p.ingress() + 1, "Out".into(), &mut all);
        for (name, control) in all {
            for (i, table) in
                p.controls[control].tables.iter().enumerate().filter(|(_, t)| !t.added.is_empty())
            {
                let name = format!("{name}.t{i}");
                let id = ir.tables.iter().position(|t| t.name == name);
                let id = id.ok_or_else(|| Failure::Load(format!("no table {name}")))?;
                for e in &table.added {
                    self.insert(TableId(id as u32), control, table, e)?;
                }
            }
        }
        let main = p.parsers.len() - 1;
        for (i, parser) in p.parsers.iter().enumerate() {
            let prefix = if i == main { "Main".to_string() } else { format!("Main.sub{i}") };
            for (k, (width, members)) in parser.sets.iter().enumerate() {
                let name = format!("{prefix}.vs{k}");
                let id = ir.value_sets.iter().position(|s| s.name == name);
                let id = id.ok_or_else(|| Failure::Load(format!("no value set {name}")))?;
                let members = members.iter().map(|n| vec![KeyMatch::Exact(bits(*width, n))]).collect();
                let state = self.switch.state_mut().ok_or_else(|| Failure::Load("no program".into()))?;
                let set = state.set_value_set(ValueSetId(id as u32), members);
                set.map_err(|e| Failure::Load(format!("{name}: {e}")))?;
            }
        }
        Ok(())
    }

    fn insert(
        &mut self,
        id: TableId,
        control: usize,
        table: &crate::generate::tree::Table,
        e: &TreeEntry,
    ) -> Result<(), Failure> {
        let p = self.p;
        let matches = e.matches.iter().zip(&table.keys).map(|(m, (k, kind))| key_match(p, &k.ty, *kind, m));
        let params = &p.controls[control].actions[table.actions[e.action].0].params;
        let free = params.iter().filter(|(d, _)| *d == crate::generate::tree::Dir::None);
        let args = free.zip(&e.args).map(|((_, v), n)| value(p, &p.vars[*v], n)).collect();
        let entry = Entry {
            matches: matches.collect(),
            priority: e.priority as i32,
            action: EntryAction::Call(Arc::new(ActionCall { action: e.action as u32, args })),
            is_const: false,
            metadata: Vec::new(),
            idle_timeout_ns: 0,
        };
        let now = self.now;
        let state = self.switch.state_mut().ok_or_else(|| Failure::Load("no program".into()))?;
        state.insert(now, id, entry).map(drop).map_err(|e| Failure::Load(format!("an entry: {e}")))
    }

    fn find(&self, object: &str, name: &str) -> Result<ExternInstanceId, Failure> {
        let i = self.ir.externs.iter().position(|e| e.object == object && e.name == name);
        let i = i.ok_or_else(|| Failure::Load(format!("no {object} {name}")))?;
        Ok(ExternInstanceId(i as u32))
    }

    fn state(&mut self, reference: &Reference<'_>) -> Result<(), Failure> {
        for (control, name) in [(self.p.ingress(), "In"), (self.p.ingress() + 1, "Out")] {
            for (r, (width, _)) in self.p.controls[control].registers.iter().enumerate() {
                let id = self.find("register", &format!("{name}.r{r}"))?;
                for (i, want) in reference.register(control, r).iter().enumerate() {
                    let have = self.switch.state().and_then(|s| s.read_register(id, i as u64).ok());
                    if have.as_ref() != Some(&bits(*width, want)) {
                        return Err(Failure::State(format!("{name}.r{r}[{i}] is {have:?}, {want} expected")));
                    }
                }
            }
            for c in 0..self.p.controls[control].counters.len() {
                let id = self.find("counter", &format!("{name}.c{c}"))?;
                for (i, want) in reference.counter(control, c).iter().enumerate() {
                    let have = self.switch.state_mut().and_then(|s| s.read_counter(id, i as u64).ok());
                    if have.map(|c| c.packets) != Some(*want) {
                        return Err(Failure::State(format!("{name}.c{c}[{i}] is {have:?}, {want} expected")));
                    }
                }
            }
        }
        Ok(())
    }

    fn packets(&mut self, tally: &mut Tally) -> Result<(), Failure> {
        let mut reference = Reference::new(self.p);
        for (i, (port, bytes)) in self.p.packets.iter().enumerate() {
            let want = match reference.packet(*port, bytes) {
                Ok(want) => want,
                Err(why) => {
                    tally.undefined += 1;
                    *tally.reasons.entry(why).or_default() += 1;
                    return Ok(());
                }
            };
            let mut out: Vec<Output> = Vec::new();
            self.now = self.now.plus_ns(1_000_000);
            // In place, as on the wire; with and without room for longer headers.
            let room = bytes.len() % 3 * 20;
            let mut buffer = [&vec![0; room], bytes.as_slice()].concat();
            let arrived = Arrived { port: *port, buffer: &mut buffer, start: room };
            self.switch.process(self.now, BUDGET, &mut [arrived], &mut out);
            self.switch.poll(self.now.plus_ns(DELAY_NS), BUDGET, &mut out);
            let have = match out.as_slice() {
                [] => Fate::Dropped,
                [Output::Port(port, bytes)] => Fate::Sent(*port, bytes.clone()),
                _ => return Err(Failure::Packet(format!("packet {i} became {} packets", out.len()))),
            };
            if have != want {
                let show = |f: &Fate| match f {
                    Fate::Dropped => "dropped".to_string(),
                    Fate::Sent(port, bytes) => format!("on port {port}: {}", hex(bytes)),
                };
                let (have, want) = (show(&have), show(&want));
                return Err(Failure::Packet(format!(
                    "packet {i} on port {port}: {}\n  is       {have}\n  expected {want}",
                    hex(bytes)
                )));
            }
            tally.packets += 1;
            if let Fate::Sent(_, bytes) = want {
                tally.sent += 1;
                tally.bytes += bytes.len();
            }
            self.state(&reference)?;
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Runs one program on executor `E` and compares.
///
/// # Errors
/// The fault.
pub fn compare<E: Executor>(p: &Program, tally: &mut Tally) -> Result<(), Failure> {
    let all = || -> Result<(), Failure> {
        let text = print::print(p);
        let ir = match compile_text("generated.p4", &text, &[&own_includes()]) {
            Ok(ir) => ir,
            Err((error, _)) if error.starts_with("P0901") => {
                tally.unsupported += 1;
                return Ok(());
            }
            Err((error, all)) => return Err(Failure::Compile(error, all)),
        };
        let pipeline = Pipeline::load(ir.clone()).map_err(|ps| {
            Failure::Load(ps.iter().map(|p| p.message.clone()).collect::<Vec<_>>().join("; "))
        })?;
        // Every port is an ordinary one.
        let config = SwitchConfig { consume_port: u32::MAX, ..SwitchConfig::default() };
        let switch = Switch::<E>::new(config).map_err(|e| Failure::Load(e.to_string()))?;
        let mut run = Run { p, ir, switch, now: Time::from_millis(1) };
        run.switch
            .set_pipeline(run.now, pipeline, Keep::Nothing)
            .map_err(|e| Failure::Load(e.to_string()))?;
        run.add()?;
        // Some packets go through in one go, some stop at the traffic manager, some wait there.
        match text.len() % 4 {
            1 => run.limit(|switch| {
                let rate = Some(PortRate { bits_per_s: u64::MAX / 2, overhead_bytes: 0, burst_ns: 0 });
                (0..1 << 9).try_for_each(|port| switch.configure_port_rate(port, rate))
            })?,
            2 => run.limit(|switch| {
                switch.configure_all_queues(QueueConfig { delay_ns: DELAY_NS, ..QueueConfig::default() })
            })?,
            _ => {}
        }
        tally.programs += 1;
        run.packets(tally)
    };
    catch_unwind(AssertUnwindSafe(all)).unwrap_or(Err(Failure::Panic))
}

/// Compares the program of a seed.
///
/// # Errors
/// A report with the seed, the fault, and the smallest program found that shows it.
pub fn run<E: Executor>(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let program = generate(seed);
    let Err(failure) = compare::<E>(&program, tally) else { return Ok(()) };
    let (small, failure) = smallest::<E>(program, failure);
    Err(format!("seed {seed}: {}\n{}", describe(&failure), print::print(&small)) + &entries(&small))
}

/// Entries that the control plane adds are not in the program's text.
fn entries(p: &Program) -> String {
    let mut out = String::new();
    for (c, control) in p.controls.iter().enumerate() {
        for (t, table) in control.tables.iter().enumerate() {
            for e in &table.added {
                out += &format!("// control {c}, t{t}: added {e:?}\n");
            }
        }
    }
    out
}

fn describe(f: &Failure) -> String {
    match f {
        Failure::Compile(_, all) => format!("does not compile:\n{all}"),
        Failure::Load(e) => format!("does not load: {e}"),
        Failure::Panic => "panics".into(),
        Failure::Packet(e) | Failure::State(e) => e.clone(),
    }
}

fn smallest<E: Executor>(mut program: Program, mut failure: Failure) -> (Program, Failure) {
    let start = Instant::now();
    let mut latest = failure.clone();
    while let Some(next) = shrink::smaller(&program, &mut |p| {
        if start.elapsed() > SHRINKING {
            return false;
        }
        match compare::<E>(p, &mut Tally::default()) {
            Err(f) if f.same_kind(&failure) => {
                latest = f;
                true
            }
            _ => false,
        }
    }) {
        program = next;
        failure = latest.clone();
    }
    (program, failure)
}
