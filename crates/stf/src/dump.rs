//! The state of a program as statements, which [`fill`](crate::fill) and [`parse`](crate::parse) read back.

mod replication;
mod tables;

use pointsman_ir::trace::{hex, show};
use pointsman_ir::{ActionCall, Bits, ExternInstanceId, KeyMatch, Program, Table, Value, ValueSetId};
use pointsman_v1model::{CounterCell, MeterConfig, State};
use std::collections::BTreeSet;
use std::fmt::Write;

/// State as statements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The statements, one a line.
    pub text: String,
    /// What no statement can express, a sentence each; the text has them as comments.
    pub lost: Vec<String>,
}

/// Parts of the state that a dump may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Registers.
    Registers,
    /// Counters, also those of entries.
    Counters,
    /// Configurations of meters, also those of entries.
    Meters,
}

/// The statements that make a freshly loaded program have this state: tables, action profiles, value sets, registers, counters, the
/// configuration of meters, multicast groups and clone sessions. Cells that are zero need no statement.
///
/// Not part of it: the tokens in meters, idle times, digests, packets that wait, generators, ports that are down.
pub fn dump(state: &State, without: &BTreeSet<Part>) -> Dump {
    let program = state.program().clone();
    let mut writer = Writer { program: &program, state, without, dump: Dump::default(), entries: 0 };
    writer.value_sets();
    writer.profiles();
    writer.tables();
    writer.cells();
    writer.groups();
    writer.sessions();
    let mut dump = writer.dump;
    for lost in &dump.lost {
        let _ = writeln!(dump.text, "# not in this file: {lost}");
    }
    dump
}

struct Writer<'a> {
    program: &'a Program,
    state: &'a State,
    without: &'a BTreeSet<Part>,
    dump: Dump,
    /// Entries that have a name.
    entries: usize,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.dump.text.push_str(text);
        self.dump.text.push('\n');
    }

    fn lost(&mut self, what: String) {
        self.dump.lost.push(what);
    }

    fn wants(&self, part: Part) -> bool {
        !self.without.contains(&part)
    }

    fn value_sets(&mut self) {
        for (i, set) in self.program.value_sets.iter().enumerate() {
            let members = self.state.value_set(ValueSetId(i as u32)).unwrap_or_default();
            for member in members {
                let fields: Vec<String> = member.iter().map(match_text).collect();
                self.line(&format!("value_set_add {} {}", quoted(&set.name), fields.join(",")));
            }
        }
    }

    /// Cells of registers, counters and meters.
    fn cells(&mut self) {
        for (i, object) in self.program.externs.iter().enumerate() {
            let (id, name) = (ExternInstanceId(i as u32), quoted(&object.name));
            match object.object.as_str() {
                "register" if self.wants(Part::Registers) => self.registers(id, &name),
                "counter" if self.wants(Part::Counters) => {
                    let len = self.state.counter(id).map_or(0, |c| c.len());
                    for at in 0..len {
                        if let Ok(cell) = self.state.read_counter(id, at) {
                            self.counter(&name, &at.to_string(), cell);
                        }
                    }
                }
                "meter" if self.wants(Part::Meters) => {
                    let len = self.state.meter(id).map_or(0, |m| m.len() as u64);
                    for at in 0..len {
                        if let Ok(Some(config)) = self.state.read_meter(id, at) {
                            self.meter(&name, &at.to_string(), config);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn registers(&mut self, id: ExternInstanceId, name: &str) {
        let len = self.state.register(id).map_or(0, |r| r.len());
        for at in 0..len {
            match self.state.read_register(id, at) {
                Ok(value) if !value.is_zero() => {
                    self.line(&format!("register_write {name} {at} {}", hex(&value)));
                }
                _ => {}
            }
        }
    }

    fn counter(&mut self, name: &str, index: &str, cell: CounterCell) {
        if cell != CounterCell::default() {
            self.line(&format!("counter_write {name} {index} {} {}", cell.packets, cell.bytes));
        }
    }

    fn meter(&mut self, name: &str, index: &str, config: MeterConfig) {
        let MeterConfig { cir, cburst, pir, pburst } = config;
        let (c, p) = (rate(cir), rate(pir));
        self.line(&format!("meter_set_rates {name} {index} {c}:{cburst} {p}:{pburst}"));
    }

    /// `ACTION(PARAM:VALUE, ...)`; the reason if it cannot be written.
    fn action(&self, table: &Table, call: &ActionCall) -> Result<String, String> {
        let listed = table.actions.get(call.action as usize).ok_or("an unknown action")?;
        let action = &self.program.actions[listed.action.index()];
        let data = action.frame.params.iter().filter(|p| p.direction == pointsman_ir::Direction::None);
        let argument = |(param, value): (&pointsman_ir::Param, &Value)| match value {
            Value::Varbit(_) => Err(format!("the varbit argument {} of {}", param.name, action.name)),
            Value::Bits(bits) => Ok(format!("{}:{}", param.name, hex(bits))),
            Value::Enum(_) | Value::Error(_) => {
                let text = show(self.program, param.ty, value).unwrap_or_default();
                Ok(format!("{}:{}", param.name, text.rsplit('.').next().unwrap_or_default()))
            }
            other => {
                Ok(format!("{}:{}", param.name, show(self.program, param.ty, other).unwrap_or_default()))
            }
        };
        let args: Vec<String> = data.zip(&call.args).map(argument).collect::<Result<_, _>>()?;
        Ok(format!("{}({})", action.name, args.join(", ")))
    }
}

/// Units per second as units per microsecond, which STF has.
fn rate(per_second: u64) -> String {
    format!("{}.{:06}", per_second / 1_000_000, per_second % 1_000_000)
}

/// A name as one word.
fn quoted(name: &str) -> String {
    if name.contains(|c: char| c.is_whitespace() || c == '#') { format!("\"{name}\"") } else { name.into() }
}

/// A match as [`parse_match`](crate::entries::parse_match) reads it.
fn match_text(m: &KeyMatch) -> String {
    let ones = |b: &Bits| b.not().is_zero();
    match m {
        KeyMatch::Exact(v) => hex(v),
        KeyMatch::Lpm { value, prefix_len } => format!("{}/{prefix_len}", hex(value)),
        KeyMatch::Ternary { mask, .. } if mask.is_zero() => "*".into(),
        KeyMatch::Ternary { value, mask } if ones(mask) => hex(value),
        KeyMatch::Ternary { value, mask } => format!("{}&&&{}", hex(value), hex(mask)),
        KeyMatch::Range { lo, hi } => format!("{}..{}", hex(lo), hex(hi)),
        KeyMatch::Optional(None) => "*".into(),
        KeyMatch::Optional(Some(v)) => hex(v),
    }
}
