//! P4Info and P4Runtime as pure functions over a switch.
//!
//! - [`proto`]: the messages, and gRPC stubs that bring no sockets of their own; [`text`]: their text format.
//! - [`p4info::p4info`]: what a controller may know of a program.
//!
//! Implemented from the P4Runtime specification 1.5; comments cite its sections by title.

pub mod bytestring;
pub mod error;
pub mod p4info;
pub mod proto;
pub mod text;

pub use error::{Code, EntityError, RpcError};
