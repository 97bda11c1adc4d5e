//! The switch as P4Runtime sees it: taken away from the workers only while something is read or changed, not while a
//! program is compiled.

use crate::compiler::{self, rendered};
use crate::executor::Runner;
use crate::sources::{Confined, Sources};
use parking_lot::{RwLock, RwLockWriteGuard};
use pointsman_control::Device;
use pointsman_ir::Program;
use pointsman_v1model::{Keep, Pipeline, Prepared, Preparer, State, Switch, SwitchConfig, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The switch, which workers take for a batch of packets, and the control plane between two batches. Whoever waits gets
/// it next, so that neither keeps the other out.
pub type Shared = RwLock<Switch<Runner>>;

/// Takes the switch for a moment.
pub fn change<R>(shared: &Shared, job: impl FnOnce(&mut Switch<Runner>) -> R) -> R {
    let mut guard = shared.write();
    let result = job(&mut guard);
    RwLockWriteGuard::unlock_fair(guard);
    result
}

/// The compiler of the switch.
pub type Compile<'a> = &'a dyn Fn(&[u8]) -> Result<Program, String>;

/// One call of the control plane. It takes the switch when it needs it, and keeps it to its end.
pub struct Turn<'a> {
    shared: &'a Shared,
    preparer: &'a Preparer<Runner>,
    compile: Compile<'a>,
    guard: Option<RwLockWriteGuard<'a, Switch<Runner>>>,
    /// A program that was readied without the switch.
    prepared: Option<Prepared<Runner>>,
}

impl<'a> Turn<'a> {
    /// A call that has not taken anything yet.
    pub fn new(shared: &'a Shared, preparer: &'a Preparer<Runner>, compile: Compile<'a>) -> Self {
        Turn { shared, preparer, compile, guard: None, prepared: None }
    }

    fn switch(&mut self) -> &mut Switch<Runner> {
        let shared = self.shared;
        self.guard.get_or_insert_with(|| shared.write())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            RwLockWriteGuard::unlock_fair(guard);
        }
    }
}

impl Device for Turn<'_> {
    fn compile(&self, device_config: &[u8]) -> Result<Program, String> {
        (self.compile)(device_config)
    }

    fn config(&self) -> &SwitchConfig {
        self.preparer.config()
    }

    fn ports(&self) -> Option<&BTreeSet<u32>> {
        self.preparer.ports()
    }

    fn state_mut(&mut self) -> Option<&mut State> {
        self.switch().state_mut()
    }

    fn set_port_status(&mut self, port: u32, up: bool) {
        self.switch().set_port_status(port, up);
    }

    fn check_pipeline(&mut self, pipeline: &Pipeline) -> Result<(), String> {
        self.ready(pipeline)
    }

    fn ready(&mut self, pipeline: &Pipeline) -> Result<(), String> {
        let prepared = self.preparer.prepare(pipeline.clone()).map_err(|e| e.to_string())?;
        self.prepared = Some(prepared);
        Ok(())
    }

    fn set_pipeline(&mut self, now: Time, pipeline: Pipeline) -> Result<(), String> {
        let same = |p: &Prepared<Runner>| Arc::ptr_eq(p.pipeline().program(), pipeline.program());
        let prepared = match self.prepared.take().filter(same) {
            Some(prepared) => prepared,
            None => self.preparer.prepare(pipeline).map_err(|e| e.to_string())?,
        };
        let complete = prepared.complete();
        self.switch().set_prepared(now, prepared, Keep::Nothing).map_err(|e| e.to_string())?;
        // Packets go through meanwhile.
        complete();
        Ok(())
    }
}

/// Compiles what a controller sends as `p4_device_config`: P4 source text.
pub fn compile_config(sources: &Sources, text: &[u8]) -> Result<Program, String> {
    // What p4c makes for BMv2, which controllers are used to send.
    if text.trim_ascii_start().starts_with(b"{") {
        return Err("p4_device_config is JSON, a compiler's output for BMv2: this target compiles P4 itself; send the \
                    text of the .p4 file instead"
            .to_string());
    }
    let text = std::str::from_utf8(text).map_err(|e| {
        format!(
            "p4_device_config is not UTF-8 text ({e}): this target takes P4 source, not a compiler's output"
        )
    })?;
    compiler::compile("p4_device_config", text, &Confined(sources), &[])
        .map(|c| c.program)
        .map_err(|failure| rendered(&failure))
}
