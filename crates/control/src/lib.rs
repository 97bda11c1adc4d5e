//! P4Info and P4Runtime as pure functions over a switch.
//!
//! - [`proto`]: the messages, and gRPC stubs without sockets; [`text`]: their text format.
//! - [`p4info::p4info`]: the description of a program for controllers.
//! - [`Server`]: the P4Runtime server of a device as a state machine; [`device::Device`] is its view of the device.
//!
//! Implemented from the P4Runtime specification 1.5; comments cite its sections by title.

#![forbid(unsafe_code)]

pub mod bytestring;
pub mod device;
mod entry;
pub mod error;
#[cfg(test)]
mod fixture;
mod p4data;
pub mod p4info;
pub mod proto;
mod schema;
pub mod server;
pub mod text;
mod translate;
mod wrapped;

pub use device::{CompileError, Device, SwitchDevice};
pub use error::{Code, EntityError, RpcError};
pub use server::{
    ConnId, Output, P4RoleConfig, PacketFilter, PacketInError, ReadOutcome, ReadStep, Reading, RoleKey,
    Server, ServerConfig, ServerState, ServerStateError, election_id,
};
