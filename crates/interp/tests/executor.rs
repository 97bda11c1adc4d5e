//! The interpreter passes the suite that every executor passes.

mod suite;
mod support;

use pointsman_interp::Interp as Tested;
use pointsman_ir::{MAX_LOOP_ROUNDS, MAX_TRANSITIONS};

/// It reports what happens to [`pointsman_ir::Env::trace`].
const TRACES: bool = true;
