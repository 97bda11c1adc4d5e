//! The packet tests of p4/programs/balancer, run as native code.
#![allow(clippy::duplicate_mod, reason = "the same tests for another executor")]

use pointsman_engine::Engine as Tested;

const SERVER_DEVICES: usize = 8;

#[path = "../balancer/adoption.rs"]
mod adoption;
#[path = "../balancer/affinity.rs"]
mod affinity;
#[path = "../balancer/answers.rs"]
mod answers;
#[path = "../balancer/blocks.rs"]
mod blocks;
#[path = "../balancer/decisions.rs"]
mod decisions;
#[path = "../balancer/drops.rs"]
mod drops;
#[path = "../balancer/forwarding.rs"]
mod forwarding;
#[path = "../balancer/full_table.rs"]
mod full_table;
#[path = "../balancer/icmp_errors.rs"]
mod icmp_errors;
#[path = "../balancer/policies.rs"]
mod policies;
#[path = "../balancer/reports.rs"]
mod reports;
#[path = "../balancer/resets.rs"]
mod resets;
#[path = "../balancer/robustness.rs"]
mod robustness;
#[path = "../balancer/signed_reports.rs"]
mod signed_reports;
#[path = "../balancer/translation.rs"]
mod translation;
#[path = "../balancer/world.rs"]
mod world;
