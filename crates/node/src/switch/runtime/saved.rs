//! The state of a switch over a restart.

use super::{Core, Level, Runtime, Turn, compile_config};
use crate::switch::state_file::{self, Fault, Saved, StateFileError};
use pointsman_v1model::{Pipeline, ProgramId, SwitchState};
use std::path::Path;

impl Core {
    /// The state of the switch with that of the server; `None` without a program. Packets wait meanwhile.
    fn export(&mut self) -> Option<SwitchState> {
        let attachment = self.server.export()?;
        let now = self.now();
        let mut saved = self.shared.change(|switch| switch.export(now))?;
        saved.attachment = attachment;
        Some(saved)
    }

    /// Writes the state to a file and returns a line about it.
    fn save(&mut self, path: &Path) -> Result<String, StateFileError> {
        let Some(state) = self.export() else {
            return Ok(format!("state not saved to {}: no program is loaded", path.display()));
        };
        self.may_keep(path)?;
        let bytes = state_file::write(path, &state)?;
        let waiting = match state.in_flight() {
            0 => String::new(),
            n => format!("; packets in queues are not part of it: {n}"),
        };
        Ok(format!("state saved to {} ({bytes} bytes){waiting}", path.display()))
    }

    fn may_keep(&self, path: &Path) -> Result<(), StateFileError> {
        let switch = self.shared.read();
        switch.pipeline().map_or(Ok(()), |pipeline| state_file::may_keep(path, pipeline.program()))
    }

    /// The same while the switch runs.
    pub fn save_now(&mut self, path: &Path) {
        match self.save(path) {
            Ok(line) => self.tell(Level::Info, line),
            Err(e) => self.tell(Level::Error, e.to_string()),
        }
    }
}

impl Runtime {
    /// Continues with a saved state and its program. The time of the switch is that of the state.
    ///
    /// # Errors
    /// The program does not run here, or the state does not go with the switch.
    pub fn restore(&mut self, saved: &Saved) -> Result<(), StateFileError> {
        let core = &mut self.core;
        let now = saved.switch.taken();
        let sources = &core.sources;
        let compile = |text: &[u8]| compile_config(sources, text);
        let mut turn = Turn::new(&core.shared, &core.preparer, &compile, &core.cache);
        let restored = core.server.resume(&mut turn, &saved.server, now);
        drop(turn);
        restored.map_err(|e| saved.error(Fault::Server(e)))?;
        core.shared
            .change(|switch| {
                switch.restore(now, &saved.switch)?;
                // The workers look at all links, and report those that are down.
                let down = switch.state().map(|s| s.replication.down_ports().clone()).unwrap_or_default();
                down.into_iter().for_each(|port| switch.set_port_status(port, true));
                Ok(())
            })
            .map_err(|e| saved.error(Fault::State(e)))?;
        core.look_at_program();
        Ok(())
    }

    /// Writes the state to a file, after the last packet, and returns a line about it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&mut self, path: &Path) -> Result<String, StateFileError> {
        self.core.save(path)
    }

    /// Whether the state of the program that runs may be written to this file.
    ///
    /// # Errors
    /// It may not outlive the switch.
    pub fn may_keep(&self, path: &Path) -> Result<(), StateFileError> {
        self.core.may_keep(path)
    }

    /// The program that runs.
    pub fn program_id(&self) -> Option<ProgramId> {
        self.core.shared.read().pipeline().map(Pipeline::program_id).cloned()
    }
}
