//! The program, its switch, and addresses.

use super::checker::{App as Shown, TWINS};
use super::world::Settings;
use crate::switch;
pub use crate::switch::*;
use pointsman_ir::Executor;
use pointsman_remote::{Layout, Scratchpads};
use pointsman_stf::Rig;
use pointsman_stf::generator::Numbered;
use pointsman_testkit::compile::{own_libraries, own_program};
use pointsman_v1model::SwitchConfig;

pub const OUT: u32 = 2;
pub const UNKNOWN: u32 = 7;
/// For a READ alone: its multicast group, the copy of the packet that stays (`TEA_ALONE`, `TEA_STAYS`), and the port on whose way this returns (`TEA_LOOP`).
const ALONE: usize = 0x100;
const STAYS: u32 = 5;
const LOOP: u32 = 510;
pub const PAIRS: u32 = 2;
/// After this time without an answer the replica serves.
pub const PATIENCE: u64 = 50 * US;
/// The switch's generators: for ports that go down, and for questions whether servers answer again.
pub const GENERATORS: [&str; 2] =
    ["1:port-down,port=508,template=00", "2:period=100us,port=508,packets=32,template=00"];

/// An age of the sketch (`TEA_AGE`), and entries of the cache (`TEA_CACHE`).
pub const AGE: u64 = 1 << 20;
pub const CACHE: usize = 8;

/// The program's text; every replacement in the library must apply.
fn text(changes: &[(&str, &str)], shown: Shown, scratchpads: Scratchpads, has_cache: bool) -> String {
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
    format!("{defines}{}", read(own_program(name))).replace("#include <pointsman/tea.p4>", &library)
}

/// A program, and the memory that it reads.
pub struct App<E> {
    /// The NAT, of IPv4 or of both families, or the program with two tables.
    pub shown: Shown,
    program: switch::App<E>,
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
        let program = switch::App::of_text(&text(changes, shown, scratchpads, has_cache));
        App { shown, program, scratchpads }
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

pub fn rig<E: Executor + Send + Sync>(app: &App<E>, settings: &Settings) -> Rig<E> {
    let mut rig = app.program.rig(SwitchConfig { nanoseconds: true, ..SwitchConfig::default() });
    let requests = if app.scratchpads == Scratchpads::Inline { 2 } else { 3 };
    set_groups(
        &mut rig,
        (0..PLACES).flat_map(|i| {
            let all = (group(i), (1..=requests).map(|instance| (instance, port(i))).collect());
            let alone = (ALONE + group(i), vec![(2, port(i)), (STAYS, LOOP)]);
            [Some(all), Some(alone).filter(|_| app.shown == Shown::Policy)].into_iter().flatten()
        }),
    );
    set_config(&mut rig, (0, settings.cells.iter().sum()), TIMEOUT, WAIT);
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
    set_wait(&mut rig, settings.wait_ns);
    for text in GENERATORS.iter().filter(|_| settings.replicas) {
        let generator: Numbered = text.parse().expect("a generator");
        rig.switch.set_generator(rig.now, generator.number, generator.generator).expect("a generator");
    }
    rig
}
