//! Readying a program to run, which takes long (native code is made), apart from the switch that shall run it: packets
//! need not wait meanwhile.

use super::drive::Runs;
use super::path::{self, Path, pass};
use super::{PipelineError, SharedLoader};
use crate::config::SwitchConfig;
use crate::fields::StdHandles;
use crate::meanings;
use crate::pipeline::Pipeline;
use crate::problem::Problem;
use crate::state::State;
use crate::time::Time;
use pointsman_ir::{Executor, Known};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The properties of a switch that are needed to prepare programs for it.
pub struct Preparer<E: Executor> {
    pub(super) loader: SharedLoader<E>,
    pub(super) config: SwitchConfig,
    pub(super) ports: Option<BTreeSet<u32>>,
}

/// A program that is ready to run on the switch whose [`Preparer`] made it so.
pub struct Prepared<E: Executor> {
    pub(super) exec: Arc<E>,
    /// It takes packets through in one go.
    pub(super) through: bool,
    pub(super) std: StdHandles<E::Field>,
    pub(super) path: Path<E::Field>,
    pub(super) pipeline: Pipeline,
}

impl<E: Executor> Clone for Preparer<E> {
    fn clone(&self) -> Self {
        Preparer { loader: self.loader.clone(), config: self.config.clone(), ports: self.ports.clone() }
    }
}

/// The same program, for the same switch or another one.
impl<E: Executor> Clone for Prepared<E> {
    fn clone(&self) -> Self {
        let Prepared { exec, through, std, path, pipeline } = self;
        let (exec, path, pipeline) = (exec.clone(), path.clone(), pipeline.clone());
        Prepared { exec, through: *through, std: *std, path, pipeline }
    }
}

impl<E: Executor> Prepared<E> {
    /// Makes the code that usual packets do not need, so that no unusual one has to wait for it. It takes a while, and
    /// can be called while the program runs.
    pub fn complete(&self) -> impl FnOnce() + Send + use<E>
    where
        E: Send + Sync,
    {
        let exec = self.exec.clone();
        move || exec.complete()
    }

    /// The program.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Readies a state for this program, which [`Switch::exchange`](super::Switch::exchange) is to put in.
    pub fn ready(&self, state: &mut State, now: Time) {
        state.arm_all(now);
        if self.exec.wants_tables() {
            state.build_flat();
        }
    }
}

impl<E: Executor> Preparer<E> {
    /// How the switch was made.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// The ports that the switch had, if they were restricted.
    pub fn ports(&self) -> Option<&BTreeSet<u32>> {
        self.ports.as_ref()
    }

    /// Readies a program.
    ///
    /// # Errors
    /// The switch cannot run it.
    pub fn prepare(&self, pipeline: Pipeline) -> Result<Prepared<E>, PipelineError> {
        check(&self.config, self.ports.as_ref(), &pipeline)?;
        let exec = (self.loader)(
            pipeline.program.clone(),
            &pipeline.slots,
            &Known {
                passes: path::passes(&pipeline, &Runs::new(&pipeline), self.config.drop_port),
                ..meanings::known(&pipeline, self.config.drop_port)
            },
        );
        let exec = exec.map_err(PipelineError::Load)?;
        let through = exec.passes(pass::WHOLE);
        let std = StdHandles::new(&*exec, &pipeline.std, &pipeline.std_reads).map_err(PipelineError::Load)?;
        let path = Path::new(&*exec, &pipeline, self.config.drop_port).map_err(PipelineError::Load)?;
        Ok(Prepared { exec, through, std, path, pipeline })
    }
}

/// Checks that the switch's port numbers fit the program.
pub(super) fn check(
    config: &SwitchConfig,
    ports: Option<&BTreeSet<u32>>,
    pipeline: &Pipeline,
) -> Result<(), PipelineError> {
    let width = pipeline.port_width();
    let fits = |port: u32| width >= 32 || port < 1 << width;
    for (what, port) in [("drop port", Some(config.drop_port)), ("CPU port", config.cpu_port)] {
        if let Some(port) = port.filter(|p| !fits(*p)) {
            let message = format!(
                "the {what} {port} does not fit PortId_t, which has {width} bits: configure a smaller one"
            );
            return Err(PipelineError::Config(Problem::new(message)));
        }
    }
    if let Some(port) = ports.and_then(|ports| ports.iter().find(|p| !fits(**p))) {
        let message =
            format!("port {port} does not fit PortId_t, which has {width} bits: give it a smaller number");
        return Err(PipelineError::Config(Problem::new(message)));
    }
    Ok(())
}
