//! The integration tests of this crate: one program, because each costs a link. Every file here is a module of it, except
//! `differential.rs`, which replaces the panic hook.

mod balancer;
mod balancer_engine;
mod balancer_sixteen;
mod captures;
mod fabric;
mod hits;
mod lengths;
mod p4c_programs;
mod scale;
mod selectors;
mod stages;
mod stf_p4c;
mod stf_restored;
mod stf_runner;
mod v1model;
mod vectors;
mod ways;
mod workers;
