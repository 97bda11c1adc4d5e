//! Tests that need a whole etcd: simulated, in virtual time.

mod group;
mod store;
mod world;
