//! What counters, registers and meters hold: cells of arrays, or of an entry.

use super::Runner;
use crate::command::{Condition, Index};
use crate::entries::{find_extern, parse_bits};
use crate::rig::RigError;
use pointsman_ir::{Executor, Program};
use pointsman_v1model::{Anomalies, DropReason, Stats};

impl<E: Executor> Runner<'_, E> {
    /// `check`: bytes rather than packets? and the condition; without it the counter must exist.
    pub fn check_counter(
        &mut self,
        line: usize,
        (name, index): (&str, &Index),
        check: Option<&(bool, Condition)>,
    ) -> Result<(), RigError> {
        let cell = match index {
            Index::At(i) => {
                let id = find_extern(&self.program(), "counter", name)?;
                self.state().read_counter(id, *i)?
            }
            of => {
                let (table, handle) = self.fill().attached("direct_counter", name, of)?;
                self.state().direct_counter(table, handle)?
            }
        };
        let Some((bytes, condition)) = check else { return Ok(()) };
        let (is, what) = if *bytes { (cell.bytes, "bytes") } else { (cell.packets, "packets") };
        let want = condition.value.parse::<u64>().map_err(|_| RigError::Comparison)?;
        if !condition.holds(is.cmp(&want)) {
            self.fail(line, format!("{name}({index}) counts {is} {what}, not {} {want}", condition.op));
        }
        Ok(())
    }

    pub fn check_register(
        &mut self,
        line: usize,
        (name, index): (&str, u64),
        check: Option<&Condition>,
    ) -> Result<(), RigError> {
        let is = self.rig.register(name, index)?;
        if let Some(condition) = check {
            let want = parse_bits(is.width(), &condition.value)?;
            if !condition.holds(is.cmp_unsigned(&want)) {
                let (is, want) = (is.to_biguint(), want.to_biguint());
                self.fail(line, format!("{name}({index}) holds {is:#x}, not {} {want:#x}", condition.op));
            }
        }
        Ok(())
    }

    pub fn check_stat(
        &mut self,
        line: usize,
        (name, of): (&str, Option<&str>),
        condition: &Condition,
    ) -> Result<(), RigError> {
        let program = self.program();
        let is = statistic(self.rig.stats(), &program, name, of)?;
        let want = condition.value.parse::<u64>().map_err(|_| RigError::Comparison)?;
        if !condition.holds(is.cmp(&want)) {
            let of = of.map_or_else(String::new, |of| format!("({of})"));
            self.fail(line, format!("{name}{of} is {is}, not {} {want}", condition.op));
        }
        Ok(())
    }

    /// It must exist.
    pub fn read_meter(&mut self, name: &str, index: &Index) -> Result<(), RigError> {
        match index {
            Index::At(i) => {
                let id = find_extern(&self.program(), "meter", name)?;
                self.state().read_meter(id, *i)?;
            }
            of => {
                let (table, handle) = self.fill().attached("direct_meter", name, of)?;
                self.state().direct_meter(table, handle)?;
            }
        }
        Ok(())
    }

    pub fn check_session(&mut self, line: usize, number: u32) {
        if self.state().replication.session(number).is_none() {
            self.fail(line, format!("no clone session {number}"));
        }
    }
}

/// A counter of the switch: `name`, or `name(of)`.
fn statistic(stats: &Stats, program: &Program, name: &str, of: Option<&str>) -> Result<u64, RigError> {
    let all: Vec<(&str, u64)> = match name {
        "drops" => DropReason::ALL.iter().map(|r| (r.name(), stats.dropped_by(*r))).collect(),
        "parser_errors" => {
            let count = |e: &String| stats.parser_errors.get(e).copied().unwrap_or(0);
            program.errors.iter().map(|e| (e.as_str(), count(e))).collect()
        }
        "anomalies" => anomalies(&stats.anomalies).to_vec(),
        _ => totals(stats).to_vec(),
    };
    let wanted = match name {
        "drops" | "parser_errors" | "anomalies" => of,
        _ => Some(name).filter(|_| of.is_none()),
    };
    let found = wanted.and_then(|wanted| all.iter().find(|(known, _)| *known == wanted));
    found.map(|(_, n)| *n).ok_or_else(|| RigError::NoStatistic {
        name: of.map_or_else(|| name.to_string(), |of| format!("{name}({of})")),
        known: all.iter().map(|(known, _)| known.to_string()).collect(),
    })
}

fn totals(stats: &Stats) -> [(&'static str, u64); 12] {
    [
        ("received", stats.received),
        ("received_from_cpu", stats.received_from_cpu),
        ("generated", stats.generated),
        ("ingress_clones", stats.ingress_clones),
        ("egress_clones", stats.egress_clones),
        ("replicas", stats.replicas),
        ("transmitted", stats.transmitted),
        ("to_cpu", stats.to_cpu),
        ("consumed", stats.consumed),
        ("resubmitted", stats.resubmitted),
        ("recirculated", stats.recirculated),
        ("queued", stats.queued),
    ]
}

fn anomalies(of: &Anomalies) -> [(&'static str, u64); 8] {
    [
        ("register_index", of.register_index),
        ("counter_index", of.counter_index),
        ("meter_index", of.meter_index),
        ("unknown_clone_session", of.unknown_clone_session),
        ("digests_lost", of.digests_lost),
        ("events_lost", of.events_lost),
        ("empty_random_range", of.empty_random_range),
        ("empty_group", of.empty_group),
    ]
}
