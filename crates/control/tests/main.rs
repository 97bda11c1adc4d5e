//! The integration tests of this crate: one program, because each costs a link. Every file here is a module of it.

mod descriptors;
mod p4c_p4info;
mod p4info;
mod service;
