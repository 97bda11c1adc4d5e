//! The server's interface to the device that it controls: its switch, and a compiler.

use pointsman_ir::{Executor, Program};
use pointsman_v1model::{Kept, Pipeline, State, Switch, SwitchConfig, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A device with one switch.
pub trait Device {
    /// Compiles the `p4_device_config` of a pipeline configuration. For this target, that is P4 source text.
    ///
    /// # Errors
    /// The text is not a program that runs here; the message holds the diagnostics.
    fn compile(&self, device_config: &[u8]) -> Result<Arc<Program>, String>;

    /// How the switch was made.
    fn config(&self) -> &SwitchConfig;

    /// The ports; `None`: every number that the program's port type can hold.
    fn ports(&self) -> Option<&BTreeSet<u32>>;

    /// The state of the running program, if any, to be read.
    fn state(&mut self) -> Option<&State> {
        self.state_mut().map(|state| &*state)
    }

    /// Lets packets use the switch until [`Device::state`] or [`Device::state_mut`] is called again. A long call does this
    /// after each small part of its work.
    fn release(&mut self) {}

    /// The state of the running program, if any.
    fn state_mut(&mut self) -> Option<&mut State>;

    /// A port went up or down; see [`State::set_port_status`].
    fn set_port_status(&mut self, port: u32, up: bool);

    /// Prepares [`Device::set_pipeline`] as far as that is possible while packets pass.
    ///
    /// # Errors
    /// The switch cannot run the program.
    fn ready(&mut self, pipeline: &Pipeline) -> Result<(), String>;

    /// Replaces the program by another one with this state, and with the `kept` parts of the old one.
    ///
    /// # Errors
    /// The switch cannot run it; the old one stays.
    fn set_pipeline(
        &mut self,
        now: Time,
        pipeline: Pipeline,
        state: State,
        kept: &Kept,
    ) -> Result<(), String>;
}

/// A [`Switch`] with a compiler.
pub struct SwitchDevice<'a, E: Executor, C: Fn(&[u8]) -> Result<Program, String>> {
    /// The switch.
    pub switch: &'a mut Switch<E>,
    /// From P4 source text to a program, or diagnostics.
    pub compile: C,
}

impl<E: Executor, C: Fn(&[u8]) -> Result<Program, String>> Device for SwitchDevice<'_, E, C> {
    fn compile(&self, device_config: &[u8]) -> Result<Arc<Program>, String> {
        (self.compile)(device_config).map(Arc::new)
    }

    fn config(&self) -> &SwitchConfig {
        self.switch.config()
    }

    fn ports(&self) -> Option<&BTreeSet<u32>> {
        self.switch.ports()
    }

    fn state(&mut self) -> Option<&State> {
        self.switch.state()
    }

    fn state_mut(&mut self) -> Option<&mut State> {
        self.switch.state_mut()
    }

    fn set_port_status(&mut self, port: u32, up: bool) {
        self.switch.set_port_status(port, up);
    }

    fn ready(&mut self, pipeline: &Pipeline) -> Result<(), String> {
        self.switch.check_pipeline(pipeline).map_err(|e| e.to_string())
    }

    fn set_pipeline(
        &mut self,
        now: Time,
        pipeline: Pipeline,
        mut state: State,
        kept: &Kept,
    ) -> Result<(), String> {
        let prepared = self.switch.preparer().prepare(pipeline).map_err(|e| e.to_string())?;
        prepared.ready(&mut state, now);
        self.switch.exchange(prepared, state, kept).map(|_| ()).map_err(|e| e.to_string())
    }
}
