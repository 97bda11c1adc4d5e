//! The data plane of all simulations in a process: a P4 program, and its executor, which is made once.

use pointsman_ir::Executor;
use pointsman_net::Loader;
use pointsman_session::Program;
use std::sync::Arc;

/// A P4 program that simulations run.
pub struct DataPlane<E> {
    /// The controller's program.
    pub program: Program,
    /// The output of the front end.
    pub compiled: Arc<pointsman_ir::Program>,
    /// Shared by all switches.
    pub(crate) loader: Loader<E>,
}

impl<E: Executor + Send + Sync> DataPlane<E> {
    /// Nothing is made yet.
    pub fn new(program: Program, compiled: Arc<pointsman_ir::Program>) -> Self {
        DataPlane { program, compiled, loader: Loader::default() }
    }
}
