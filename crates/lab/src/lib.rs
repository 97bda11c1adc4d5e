//! A rack on this machine: namespaces, veth pairs, devices, load generator.
pub mod device;
mod error;
pub mod load;
mod netlink;
pub mod netns;
pub mod rack;
pub mod ramp;
pub mod report;
mod rng;
mod sys;
pub mod wire;

pub use error::{Error, Result};
pub use netns::{Namespace, Privileges, ensure_privileges};
pub use sys::raise_open_file_limit;
