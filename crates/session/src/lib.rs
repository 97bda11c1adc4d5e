//! A P4Runtime client's session with one switch as a state machine: for controllers of any program.
//!
//! A [`Session`] connects, becomes primary once the switch has no other primary ([`Leader`]), and sees that the right
//! program runs. Then its owner reads and writes. After any failure the session starts again from there, so only what
//! the switch holds needs to be right. A [`Reconciler`] is an owner for programs whose entities follow from a list: it
//! keeps a switch's entities as they are desired.
//!
//! Nothing here has a clock, a socket or a thread. The caller carries messages: it performs each [`Output`] and returns
//! the results as [`Input`].

#![forbid(unsafe_code)]

mod election;
mod messages;
mod reconcile;
mod served;
mod session;

pub use election::{ElectionId, Leader, Mandate};
pub use messages::{Event, Input, Notice, Output, Program, Request, Response, SessionConfig, State};
pub use reconcile::{DesiredError, Reconciler, ReconcilerConfig, ReconcilerEvent};
pub use session::Session;
