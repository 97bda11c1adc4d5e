//! A rack on this machine: namespaces, veth pairs, devices, load generator, and their measurements.
//!
//! This crate handles namespaces, sockets and threads. It is independent of P4 and policies: the binary runs
//! the switch, the controller and the agents on threads inside the namespaces made here, and turns the knobs
//! of an experiment between the calls below.
//!
//! # From start to report
//!
//! 1. [`ensure_privileges`] first thing in `main`, before any thread; then [`raise_open_file_limit`].
//! 2. [`rack::Rack::build`] makes a namespace for the switch and for every host of a [`rack::RackSpec`]. Run
//!    the switch with `rack.switch.spawn("switch", ...)` on the interfaces `rack.ports`; its control plane may
//!    listen on the loopback address there. Hosts send everything to their gateway, whose address the switch
//!    must answer ARP and neighbour solicitations for (or set `static_neighbours`).
//! 3. [`device::Device::start`] in each device's namespace; `Device::stats` are live counters for agents.
//! 4. On threads of the client's namespace (`namespace.enter(|| ...)`): [`load::run`] for one point of a ramp,
//!    [`load::check_consistency`] and [`load::transfer`] for the checks meanwhile. They all check the
//!    signatures of the answers with a [`wire::Keyring`].
//! 5. [`ramp::ramp`] finds the highest sustained load around such a point.
//! 6. [`report::Report`] becomes JSON, a table, or a page.
//!
//! Nothing has to be cleaned up: dropping the rack and its devices removes everything, and so does the end of
//! the process, even if killed. (Only a CPU quota leaves an empty cgroup behind when the process is
//! killed; the next one removes it.)
//!
//! Pure parts, without clocks or sockets: [`ramp`], [`report`], [`wire`], [`rack::RackSpec`] and the schedule
//! of [`load::LoadConfig`]. Every random choice comes from a seed in a configuration.
//!
//! ```no_run
//! use pointsman_lab::{Result, ensure_privileges, load, rack, wire};
//! use std::time::Duration;
//!
//! fn main() -> Result<()> {
//!     ensure_privileges()?;
//!     let spec = rack::RackSpec::demo();
//!     let rack = rack::Rack::build(&spec)?;
//!     // ... switch, controller, agents and devices ...
//!     let keys = wire::Keyring::derive(1, spec.devices().map(|(name, _)| name))?;
//!     let sources = spec.clients[0].ipv4_addresses();
//!     let mut ports = load::SourcePorts::new(sources, 1024..=65535, Duration::from_secs(30))?;
//!     let target = (spec.vip_ipv4, 7000).into();
//!     let config = load::LoadConfig::new(target, 500.0, Duration::from_secs(3), 1);
//!     let client = &rack.host("client")?.namespace;
//!     let result = client.enter(|| load::run(&config, &mut ports, &keys, |_| {}))??;
//!     println!("{} of {} answered, {:?}", result.answered, result.sent, result.share());
//!     Ok(())
//! }
//! ```

pub mod announce;
mod cgroup;
pub mod compute;
pub mod device;
mod error;
pub mod frames;
pub mod harness;
pub mod load;
pub mod netlink;
pub mod netns;
pub mod probe;
pub mod process;
pub mod proxy;
pub mod rack;
pub mod ramp;
pub mod report;
mod rng;
mod sys;
pub mod wire;
pub mod wiring;

pub use error::{Error, Result};
pub use netns::{Namespace, Privileges, ensure_privileges, memory_folder, private_folder};
pub use rng::Rng;
pub use sys::{pin_to_processor, raise_open_file_limit, unpin};
