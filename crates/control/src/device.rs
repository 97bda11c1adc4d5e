//! The server's interface to the device that it controls: its switch, and a compiler.

use pointsman_ir::{Executor, Program};
use pointsman_v1model::{Kept, Pipeline, PipelineError, State, Switch, SwitchConfig, Time};
use std::collections::BTreeSet;
use std::fmt;
use std::str::Utf8Error;
use std::sync::Arc;

/// Why a `p4_device_config` is not a program that runs on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// It is not text.
    NotText(Utf8Error),
    /// It is compiler output for BMv2.
    Json,
    /// The compiler refuses it, with these messages.
    Diagnostics(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::NotText(e) => write!(
                f,
                "p4_device_config is not UTF-8 text ({e}): this target takes P4 source, not compiler output"
            ),
            CompileError::Json => f.write_str(
                "p4_device_config is JSON, compiler output for BMv2: this target compiles P4 itself; send the text of the \
                 .p4 file instead, compile with `pointsman p4 compile`, or start the switch with --p4-for-json FILE.p4",
            ),
            CompileError::Diagnostics(messages) => f.write_str(messages),
        }
    }
}

impl std::error::Error for CompileError {}

/// A device with one switch.
pub trait Device {
    /// Compiles the `p4_device_config` of a pipeline configuration. For this target, that is P4 source text.
    ///
    /// # Errors
    /// The text is not a program that runs here.
    fn compile(&self, device_config: &[u8]) -> Result<Arc<Program>, CompileError>;

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
    fn ready(&mut self, pipeline: &Pipeline) -> Result<(), PipelineError>;

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
    ) -> Result<(), PipelineError>;
}

/// A [`Switch`] with a compiler.
pub struct SwitchDevice<'a, E: Executor, C: Fn(&[u8]) -> Result<Program, CompileError>> {
    /// The switch.
    pub switch: &'a mut Switch<E>,
    /// From P4 source text to a program, or diagnostics.
    pub compile: C,
}

impl<E: Executor, C: Fn(&[u8]) -> Result<Program, CompileError>> Device for SwitchDevice<'_, E, C> {
    fn compile(&self, device_config: &[u8]) -> Result<Arc<Program>, CompileError> {
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

    fn ready(&mut self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        self.switch.check_pipeline(pipeline)
    }

    fn set_pipeline(
        &mut self,
        now: Time,
        pipeline: Pipeline,
        mut state: State,
        kept: &Kept,
    ) -> Result<(), PipelineError> {
        let prepared = self.switch.preparer().prepare(pipeline)?;
        prepared.ready(&mut state, now);
        self.switch.exchange(prepared, state, kept).map(|_| ())
    }
}
