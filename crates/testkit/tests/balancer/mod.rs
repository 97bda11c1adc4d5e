//! Packet tests of p4/programs/balancer: the handling of every kind of packet, one theme a module.

use pointsman_interp::Interp as Tested;

/// Devices a server that the program is compiled for.
const SERVER_DEVICES: usize = 8;

mod adoption;
mod affinity;
mod answers;
mod blocks;
mod decisions;
mod drops;
mod forwarding;
mod full_table;
mod icmp_errors;
mod policies;
mod reports;
mod resets;
mod robustness;
mod signed_reports;
mod translation;
mod world;
