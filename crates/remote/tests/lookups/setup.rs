//! The program, its switch, and addresses.

use super::checker::{App as Shown, TWINS};
use super::world::{PLACES, Settings, group, port};
pub use crate::switch::*;
use pointsman_ir::{Executor, Program};
use pointsman_net::Loader;
use pointsman_remote::{Layout, Scratchpads};
use pointsman_roce::Packet;
use pointsman_stf::Rig;
use pointsman_stf::generator::Numbered;
use pointsman_testkit::compile::{compile_text, own_includes, own_libraries, own_program};
use pointsman_v1model::{QueueConfig, Switch, SwitchConfig};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

pub const OUT: u32 = 2;
pub const UNKNOWN: u32 = 7;
pub const WAIT: u32 = 8;
/// For a READ alone: its multicast group, the copy of the packet that stays (`TEA_ALONE`, `TEA_STAYS`), and the port on whose way this returns (`TEA_LOOP`).
const ALONE: usize = 0x100;
const STAYS: u32 = 5;
const LOOP: u32 = 510;
pub const PAIRS: u32 = 2;
/// The longest time of a look-up, as the switch has it.
pub const TIMEOUT: u64 = 200 * US;
/// Long enough for everything that is under way.
pub const HOLD: u64 = TIMEOUT + 2 * LIFE;
/// After this time without an answer the replica serves.
pub const PATIENCE: u64 = 50 * US;
/// The switch's generators: for ports that go down, and for questions whether servers answer again.
pub const GENERATORS: [&str; 2] =
    ["1:port-down,port=508,template=00", "2:period=100us,port=508,packets=32,template=00"];

/// An age of the sketch (`TEA_AGE`), and entries of the cache (`TEA_CACHE`).
pub const AGE: u64 = 1 << 20;
pub const CACHE: usize = 8;

/// The program; every replacement in the library must apply.
fn program(
    changes: &[(&str, &str)],
    shown: Shown,
    scratchpads: Scratchpads,
    has_cache: bool,
) -> Arc<Program> {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).expect("readable");
    // Its parts are where it includes them, so that a replacement finds them; that of the other layout is left out.
    let without = if scratchpads == Scratchpads::Ring { "inline.p4" } else { "" };
    let mut library = with_parts(&read(own_libraries().join("pointsman/tea.p4")), "tea", without);
    if scratchpads == Scratchpads::Inline {
        library = format!("#define TEA_INLINE\n{library}");
    }
    if has_cache {
        library = format!("#define TEA_CACHE {CACHE}\n{library}");
    }
    let library = changed(library, changes);
    let defines = if shown == Shown::Nat6 { "#define NAT_IPV6\n" } else { "" };
    let name = if shown == Shown::Policy { "tea-policy" } else { "nat" };
    let text =
        format!("{defines}{}", read(own_program(name))).replace("#include <pointsman/tea.p4>", &library);
    compile_text(&format!("{name}.p4"), &text, &[&own_includes(), &own_libraries()])
        .unwrap_or_else(|e| panic!("{e:?}"))
}

/// A program with its executor, which all switches share.
pub struct App<E> {
    /// The NAT, of IPv4 or of both families, or the program with two tables.
    pub shown: Shown,
    pub program: Arc<Program>,
    pub loader: Loader<E>,
    pub scratchpads: Scratchpads,
}

impl<E> App<E> {
    pub fn new(changes: &[(&str, &str)]) -> Self {
        App::of(Shown::Nat, changes, Scratchpads::Ring, false)
    }

    /// With a scratchpad in each row.
    pub fn with_rows(changes: &[(&str, &str)]) -> Self {
        App::of(Shown::Nat, changes, Scratchpads::Inline, false)
    }

    pub fn with_cache(changes: &[(&str, &str)]) -> Self {
        App::of(Shown::Nat, changes, Scratchpads::Ring, true)
    }

    pub fn of(shown: Shown, changes: &[(&str, &str)], scratchpads: Scratchpads, has_cache: bool) -> Self {
        let program = program(changes, shown, scratchpads, has_cache);
        App { shown, program, loader: Loader::default(), scratchpads }
    }

    pub fn layout(&self) -> Layout {
        let (key, value) = match self.shown {
            Shown::Nat6 => (40, 20),
            Shown::Policy => (8, 8),
            _ => (16, 8),
        };
        Layout { key, value, scratchpads: self.scratchpads }
    }
}

/// The address of a server's scratchpads, behind so many bytes of cells.
pub fn ring(bytes: u64) -> u64 {
    BASE + bytes.next_multiple_of(4096)
}

pub fn encode_request(packet: &Packet<'_>, server: usize) -> Vec<u8> {
    packet.encode(hop(), (IpAddr::V4(Ipv4Addr::new(10, 9, 2, 1)), 9), address(server))
}

/// The switch's settings, with so many cells from this one on.
pub fn configure(first: u32, cells: u32) -> String {
    format!(
        "configure(address=10.9.0.1, mac=0x99, cells={cells}, timeout={TIMEOUT}, wait_port={WAIT}, first={first})"
    )
}

pub fn rig<E: Executor + Send + Sync>(app: &App<E>, settings: &Settings) -> Rig<E> {
    let config = SwitchConfig { nanoseconds: true, ..SwitchConfig::default() };
    let switch = Switch::with_shared(config, app.loader.load()).expect("settings");
    let mut rig = Rig::with(app.program.clone(), switch).expect("a switch");
    let cells: u32 = settings.cells.iter().sum();
    let mut text = "value_set_add tea_addresses 10.9.0.1\n".to_string();
    let mut nodes = 0;
    let mut copies = |group: usize, copies: &[(u32, u32)]| {
        text += &format!("mc_mgrp_create {group}\n");
        for (instance, port) in copies {
            text += &format!("mc_node_create {instance} {port}\nmc_node_associate {group} {nodes}\n");
            nodes += 1;
        }
    };
    let requests = if app.scratchpads == Scratchpads::Inline { 2 } else { 3 };
    for i in 0..PLACES {
        let port = port(i);
        copies(group(i), &[(1, port), (2, port), (3, port)][..requests]);
        if app.shown == Shown::Policy {
            copies(ALONE + group(i), &[(2, port), (STAYS, LOOP)]);
        }
    }
    let lines = pointsman_stf::parse(&text).expect("statements");
    let now = rig.now;
    pointsman_stf::fill(rig.state(), now, &lines).expect("groups");
    rig.set_default("tea_config", &configure(0, cells)).expect("the settings");
    rig.set_default("unknown", &format!("to_port(port={UNKNOWN})")).expect("a port");
    let twins = format!("{}/{}", TWINS.0, TWINS.1);
    let prefixes = match app.shown {
        Shown::Policy => vec![],
        Shown::Nat6 => vec!["::ffff:198.51.0.0/112", &twins],
        _ => vec!["198.51.0.0/16"],
    };
    for prefix in prefixes {
        rig.add(&format!("routes prefix={prefix} -> forward(port={OUT}, mac=0x020000000022)"))
            .expect("a route");
    }
    let queue = QueueConfig { delay_ns: settings.wait_ns, depth_packets: 64, ..QueueConfig::default() };
    rig.switch.configure_queue(WAIT, None, queue).expect("a queue");
    for text in GENERATORS.iter().filter(|_| settings.replicas) {
        let generator: Numbered = text.parse().expect("a generator");
        rig.switch.set_generator(rig.now, generator.number, generator.generator).expect("a generator");
    }
    rig
}
