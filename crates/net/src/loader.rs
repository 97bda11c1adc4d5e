//! One executor for all switches that run the same program.

use pointsman_ir::{Executor, Known, LoadError, Program, TypeId};
use std::sync::{Arc, OnceLock};

/// How switches get their executor. An executor holds nothing of a switch, so all switches of a program share one: making native
/// code takes longer than many a simulation. All switches that share one are configured alike in what executors see (ports and
/// queue settings are not among that), so slots and known externs of the first one are the same for all.
#[derive(Clone)]
pub struct Loader<E>(Arc<OnceLock<Result<Arc<E>, LoadError>>>);

impl<E> Default for Loader<E> {
    fn default() -> Self {
        Loader(Arc::default())
    }
}

impl<E: Executor + Send + Sync> Loader<E> {
    /// For [`pointsman_v1model::Switch::with_shared`].
    pub fn load(
        &self,
    ) -> impl Fn(Arc<Program>, &[TypeId], &Known) -> Result<Arc<E>, LoadError> + Send + Sync + 'static + use<E>
    {
        let executor = self.0.clone();
        move |program, slots, known| {
            let load = || {
                let mut made = E::load_known(program, slots, known)?;
                // Time is virtual: no packet notices that it waits.
                made.make_on_demand();
                Ok(Arc::new(made))
            };
            executor.get_or_init(load).clone()
        }
    }
}
