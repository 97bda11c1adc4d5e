//! The engine passes the suite that every executor passes, the interpreter first.

mod differential;
mod lent;
#[path = "../../../interp/tests/suite/mod.rs"]
mod suite;
#[path = "../../../interp/tests/support/mod.rs"]
mod support;

use pointsman_engine::Engine as Tested;
use pointsman_ir::{MAX_LOOP_ROUNDS, MAX_TRANSITIONS};

/// It reports nothing to [`pointsman_ir::Env::trace`].
const TRACES: bool = false;
