//! A program on a switch in virtual time, with everything named as people name it.

mod error;

pub use error::RigError;

use crate::entries::{
    build_action, build_entry, find_extern, find_table, parse_action, parse_bits, parse_entry,
};
use pointsman_interp::Interp;
use pointsman_ir::{Bits, Executor, Program};
use pointsman_v1model::{
    Arrived, CounterCell, Keep, Output, Pipeline, Prepared, State, Stats, Switch, SwitchConfig, Time,
};
use std::sync::Arc;

/// Passes through ingress or egress that one packet may cause; more is a loop.
const BUDGET: usize = 10_000;

/// Room in front of a packet, for longer headers.
const ROOM: usize = 32;

/// A switch that runs a program. Time passes only on request.
pub struct Rig<E: Executor = Interp> {
    /// The switch.
    pub switch: Switch<E>,
    /// Now.
    pub now: Time,
    program: Arc<Program>,
}

impl Rig {
    /// Puts a compiled program on a switch whose executor is the interpreter.
    pub fn new(program: Arc<Program>, config: SwitchConfig) -> Result<Rig, RigError> {
        Rig::on(program, config)
    }
}

impl<E: Executor> Rig<E> {
    /// Puts a compiled program on a switch with any executor.
    pub fn on(program: Arc<Program>, config: SwitchConfig) -> Result<Self, RigError> {
        Rig::with(program, Switch::new(config)?)
    }

    /// Puts a compiled program on this switch.
    pub fn with(program: Arc<Program>, switch: Switch<E>) -> Result<Self, RigError> {
        let pipeline = Pipeline::load(program)
            .map_err(|ps| RigError::Program(ps.iter().map(|p| p.message.clone()).collect()))?;
        let prepared = switch.preparer().prepare(pipeline)?;
        Rig::ready(prepared, switch)
    }

    /// Puts a program on this switch that was readied for it, or for one with the same configuration.
    pub fn ready(prepared: Prepared<E>, mut switch: Switch<E>) -> Result<Self, RigError> {
        let program = prepared.pipeline().program().clone();
        let now = Time::from_millis(1);
        switch.set_prepared(now, prepared, Keep::Nothing)?;
        Ok(Rig { switch, now, program })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Lets `ms` milliseconds pass.
    pub fn wait_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ns(ms * 1_000_000);
    }

    /// Lets `ms` milliseconds pass, and returns the packets that leave meanwhile.
    pub fn run_ms(&mut self, ms: u64) -> Vec<Output> {
        self.run_until(self.now.plus_ns(ms * 1_000_000)).into_iter().map(|(_, output)| output).collect()
    }

    /// Lets time pass until `end`, and returns the packets that leave meanwhile, with their times.
    pub fn run_until(&mut self, end: Time) -> Vec<(Time, Output)> {
        let mut all = Vec::new();
        while let Some(at) = self.switch.next_poll().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let mut out = Vec::new();
            let more = self.switch.poll(self.now, BUDGET, &mut out).more;
            all.extend(out.into_iter().map(|output| (self.now, output)));
            // A packet that recirculates for ever must not stop the clock.
            if more {
                break;
            }
        }
        self.now = end;
        all
    }

    /// A packet arrives; returns the packets that leave because of it. It is processed in place, as on the wire.
    pub fn send(&mut self, port: u32, frame: &[u8]) -> Vec<Output> {
        let mut out = Vec::new();
        let mut buffer = [&[0; ROOM], frame].concat();
        let arrived = Arrived { port, buffer: &mut buffer, start: ROOM };
        self.switch.process(self.now, BUDGET, &mut [arrived], &mut out);
        out.append(&mut self.settle());
        out
    }

    /// A packet from the control plane; returns the packets that leave because of it.
    pub fn send_from_cpu(&mut self, frame: &[u8]) -> Vec<Output> {
        self.switch.receive_cpu(self.now, frame);
        self.settle()
    }

    fn settle(&mut self) -> Vec<Output> {
        let mut out = Vec::new();
        self.switch.poll(self.now, BUDGET, &mut out);
        out
    }

    /// Tables, registers and counters.
    pub fn state(&mut self) -> &mut State {
        match self.switch.state_mut() {
            Some(state) => state,
            None => unreachable!("a rig always has a program"),
        }
    }

    /// Counters of the switch.
    pub fn stats(&mut self) -> &Stats {
        self.switch.stats()
    }

    /// Adds an entry, as [`parse_entry`] reads it.
    pub fn add(&mut self, text: &str) -> Result<(), RigError> {
        let (table, entry) = build_entry(&self.program, &parse_entry(text)?)?;
        let now = self.now;
        self.state().insert(now, table, entry).map(|_| ()).map_err(RigError::of(text))
    }

    /// Adds an entry or replaces its action.
    pub fn set(&mut self, text: &str) -> Result<(), RigError> {
        let (table, entry) = build_entry(&self.program, &parse_entry(text)?)?;
        let now = self.now;
        let state = self.state();
        match state.modify(now, table, entry.clone()) {
            Ok(_) => Ok(()),
            Err(_) => state.insert(now, table, entry).map(|_| ()).map_err(RigError::of(text)),
        }
    }

    /// Removes every entry of a table.
    pub fn clear(&mut self, table: &str) -> Result<(), RigError> {
        let id = find_table(&self.program, table)?;
        let state = self.state();
        let entries: Vec<_> = state.entries(id).map(|(_, e)| (e.matches.clone(), e.priority)).collect();
        for (matches, priority) in entries {
            state.delete(id, &matches, priority).map_err(RigError::of(table))?;
        }
        Ok(())
    }

    /// Removes an entry, written with any action.
    pub fn remove(&mut self, text: &str) -> Result<(), RigError> {
        let (table, entry) = build_entry(&self.program, &parse_entry(text)?)?;
        self.state().delete(table, &entry.matches, entry.priority).map(|_| ()).map_err(RigError::of(text))
    }

    /// Sets a default action: `table`, `action(param=value, ...)`.
    pub fn set_default(&mut self, table: &str, action: &str) -> Result<(), RigError> {
        let id = find_table(&self.program, table)?;
        let call = build_action(&self.program, &self.program.tables[id.index()], &parse_action(action)?)?;
        self.state().set_default(id, call).map_err(RigError::of(table))
    }

    /// Number of entries of a table.
    pub fn entries(&mut self, table: &str) -> Result<usize, RigError> {
        let id = find_table(&self.program, table)?;
        Ok(self.state().entries(id).count())
    }

    /// Reads a counter.
    pub fn counter(&mut self, name: &str, index: u64) -> Result<CounterCell, RigError> {
        let id = find_extern(&self.program, "counter", name)?;
        self.state().read_counter(id, index).map_err(RigError::of(format_args!("{name}[{index}]")))
    }

    /// Reads a register.
    pub fn register(&mut self, name: &str, index: u64) -> Result<Bits, RigError> {
        let id = find_extern(&self.program, "register", name)?;
        self.state().read_register(id, index).map_err(RigError::of(format_args!("{name}[{index}]")))
    }

    /// Writes a register; `value` as [`parse_bits`] reads it.
    pub fn write_register(&mut self, name: &str, index: u64, value: &str) -> Result<(), RigError> {
        let id = find_extern(&self.program, "register", name)?;
        let width = self.register(name, index)?.width();
        let value = parse_bits(width, value)?;
        self.state().write_register(id, index, &value).map_err(RigError::of(format_args!("{name}[{index}]")))
    }
}
