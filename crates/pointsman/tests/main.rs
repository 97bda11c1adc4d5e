//! The tests of this crate: one program, because each costs a link. Every file here is a module of it or of `wire.rs`.

mod bench;
mod clients;
mod console;
mod controllers;
mod many_entries;
mod metrics;
mod p4_check;
mod p4_conformance;
mod p4_fmt;
mod p4_lsp;
mod p4_resources;
mod p4_test;
mod p4_trace;
mod policy_api;
mod prometheus;
mod rack_commands;
mod reproduce;
mod sim;
mod store_cli;
mod support;
mod switch_cli;
mod switch_flags;
mod switch_tls;
mod workload;
