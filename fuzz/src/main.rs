//! Fuzz targets for libFuzzer, all in one program; `POINTSMAN_FUZZ_TARGET` says which. `fuzz/run` builds and runs them.
//!
//! A target panics on a fault; libFuzzer adds limits for time and memory.
#![no_main]

mod check;
#[path = "../../crates/balance/tests/rack/conversation.rs"]
mod conversation;
#[path = "../../crates/balance/tests/rack/lists.rs"]
mod lists;
mod loader;
mod p4runtime;
mod packets;
mod protobuf;
mod readers;
mod roce;
mod stf;
mod store;
mod tokens;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use pointsman_testkit::random::Random;
use std::sync::LazyLock;

/// What is fuzzed.
#[derive(Clone, Copy)]
enum Target {
    Check,
    P4Runtime,
    Packets,
    Stf,
    Pcap,
    Report,
    Config,
    Api,
    Members,
    Store,
    Chain,
    Roce,
}

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("POINTSMAN_FUZZ_TARGET").unwrap_or_default();
    match name.as_str() {
        "check" => Target::Check,
        "p4runtime" => Target::P4Runtime,
        "packets" => Target::Packets,
        "stf" => Target::Stf,
        "pcap" => Target::Pcap,
        "report" => Target::Report,
        "config" => Target::Config,
        "api" => Target::Api,
        "members" => Target::Members,
        "store" => Target::Store,
        "chain" => Target::Chain,
        "roce" => Target::Roce,
        _ => panic!(
            "POINTSMAN_FUZZ_TARGET is {name:?}: set it to check, p4runtime, packets, stf, pcap, report, config, api, members, store, chain or roce"
        ),
    }
});

fuzz_target!(|data: &[u8]| {
    match *TARGET {
        Target::Check => check::run(data),
        Target::P4Runtime => p4runtime::run(data),
        Target::Packets => packets::run(data),
        Target::Stf => stf::run(data),
        Target::Pcap => readers::pcap(data),
        Target::Report => readers::report(data),
        Target::Config => readers::config(data),
        Target::Api => conversation::conversation(data),
        Target::Members => lists::lists(data),
        Target::Store => store::run(data),
        Target::Chain => store::chain::run(data),
        Target::Roce => roce::run(data),
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut r = Random::new(u64::from(seed));
    let mutated = match *TARGET {
        Target::Check | Target::Stf | Target::Config if !r.one_in(3) => {
            Some(tokens::mutate(&data[..size], &mut r))
        }
        Target::P4Runtime if !r.one_in(20) => p4runtime::mutate(&data[..size], &mut r),
        _ => None,
    };
    match mutated {
        Some(bytes) if bytes.len() <= max_size => {
            data[..bytes.len()].copy_from_slice(&bytes);
            bytes.len()
        }
        _ => fuzzer_mutate(data, size, max_size),
    }
});
