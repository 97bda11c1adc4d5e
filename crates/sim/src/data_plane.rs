//! The data plane of all simulations in a process: a P4 program, and its executor, which is made once.

use pointsman_balance::controller::Program;
use pointsman_ir::{Executor, Known, LoadError, TypeId};
use std::sync::{Arc, OnceLock};

/// A P4 program that simulations run. An executor holds nothing of a switch, so all of them share one: making native code
/// takes longer than many a simulation.
pub struct DataPlane<E> {
    /// The controller's program.
    pub program: Program,
    /// The output of the front end.
    pub compiled: Arc<pointsman_ir::Program>,
    executor: Arc<OnceLock<Result<Arc<E>, LoadError>>>,
}

impl<E: Executor + Send + Sync> DataPlane<E> {
    /// Nothing is made yet.
    pub fn new(program: Program, compiled: Arc<pointsman_ir::Program>) -> Self {
        DataPlane { program, compiled, executor: Arc::default() }
    }

    /// How switches get their executor. All that are made of it are configured alike, as those of simulations are, so what
    /// slots and externs of the first one are the same for all.
    pub(crate) fn loader(
        &self,
    ) -> impl Fn(Arc<pointsman_ir::Program>, &[TypeId], &Known) -> Result<Arc<E>, LoadError>
    + Send
    + Sync
    + 'static
    + use<E> {
        let executor = self.executor.clone();
        move |program, slots, known| {
            executor.get_or_init(|| E::load_known(program, slots, known).map(Arc::new)).clone()
        }
    }
}
