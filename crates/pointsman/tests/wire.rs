//! The tests of this crate in network namespaces: one program, because each costs a link. `pointsman_lab::harness` runs them.

mod agent_wire;
mod bench_wire;
mod demo_wire;
mod dram_wire;
mod fabric_wire;
mod failover_wire;
mod gpus_wire;
mod guest_wire;
mod guide_wire;
mod health_wire;
mod learn_wire;
mod members_wire;
mod memory_wire;
mod net_wire;
mod network_wire;
mod probes_wire;
mod rack_wire;
mod reproduce_wire;
mod siege_wire;
mod sim_lab;
mod state_wire;
mod support;
mod switch_wire;
mod tea_hosts_wire;
mod tea_nftables_wire;
mod tea_wire;
mod trace_wire;
mod walk_wire;
mod workers_wire;

use pointsman_lab::harness::{Modules, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let alone: &Modules = &[
        ("switch_wire", switch_wire::TESTS),
        ("workers_wire", workers_wire::TESTS),
        ("trace_wire", trace_wire::TESTS),
        ("learn_wire", learn_wire::TESTS),
        ("network_wire", network_wire::TESTS),
        ("probes_wire", probes_wire::TESTS),
        ("sim_lab", sim_lab::TESTS),
        ("bench_wire", bench_wire::TESTS),
        ("reproduce_wire", reproduce_wire::TESTS),
    ];
    let together: &Modules = &[
        ("agent_wire", agent_wire::TESTS),
        ("failover_wire", failover_wire::TESTS),
        ("rack_wire", rack_wire::TESTS),
        ("state_wire", state_wire::TESTS),
        ("siege_wire", siege_wire::TESTS),
        ("net_wire", net_wire::TESTS),
        ("fabric_wire", fabric_wire::TESTS),
        ("gpus_wire", gpus_wire::TESTS),
        ("guest_wire", guest_wire::TESTS),
        ("guide_wire", guide_wire::TESTS),
        ("health_wire", health_wire::TESTS),
        ("demo_wire", demo_wire::TESTS),
        ("dram_wire", dram_wire::TESTS),
        ("members_wire", members_wire::TESTS),
        ("memory_wire", memory_wire::TESTS),
        ("tea_wire", tea_wire::TESTS),
        ("tea_hosts_wire", tea_hosts_wire::TESTS),
        ("tea_nftables_wire", tea_nftables_wire::TESTS),
        ("walk_wire", walk_wire::TESTS),
    ];
    run("wire", alone, together)
}
