//! A switch with servers, for all tests: programs, addresses, links, the calendar of what happens, servers of a table.

mod calendar;
mod table;

pub use calendar::{Calendar, Due};
pub use table::*;

use pointsman_ir::{Executor, Program};
use pointsman_net::Loader;
use pointsman_roce::Packet;
use pointsman_stf::Rig;
use pointsman_testkit::compile::{compile_text, own_includes, own_libraries};
use pointsman_v1model::{Arrived, Output, Switch, SwitchConfig, Time};
use pointsman_wire::{Mac, Random};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

pub const US: u64 = 1000;
/// The port of the first server.
pub const SERVER: u32 = 3;
pub const MTU: usize = 2048;
pub const REGION: u32 = 0x77;
pub const BASE: u64 = 0x1_0000_0000;
/// The longest time of a frame under way.
pub const LIFE: u64 = 50 * US;

/// A program with its executor, which all switches share.
pub struct App<E> {
    program: Arc<Program>,
    loader: Loader<E>,
}

impl<E> App<E> {
    /// The program of a text.
    pub fn of_text(text: &str) -> Self {
        let program = compile_text("main.p4", text, &[&own_includes(), &own_libraries()]);
        App { program: program.unwrap_or_else(|e| panic!("{e:?}")), loader: Loader::default() }
    }
}

impl<E: Executor + Send + Sync> App<E> {
    /// A switch that runs it.
    pub fn rig(&self, config: SwitchConfig) -> Rig<E> {
        let switch = Switch::with_shared(config, self.loader.load()).expect("settings");
        Rig::with(self.program.clone(), switch).expect("a switch")
    }
}

/// Does statements of packet tests about the switch's configuration.
pub fn configure<E: Executor>(rig: &mut Rig<E>, text: &str) {
    let lines = pointsman_stf::parse(text).expect("statements");
    let now = rig.now;
    pointsman_stf::fill(rig.state(), now, &lines).expect("a configuration");
}

/// The text with the files of a folder of the library in the places where it includes them, so that a replacement finds them; without one part.
pub fn with_parts(text: &str, folder: &str, without: &str) -> String {
    let (start, left_out) =
        (format!("#include <pointsman/{folder}/"), format!("#include <pointsman/{folder}/{without}>\n"));
    let mut text = text.to_string();
    while let Some((front, (part, rest))) =
        text.split_once(&start).and_then(|(front, rest)| Some((front, rest.split_once(">\n")?)))
    {
        let path = own_libraries().join("pointsman").join(folder).join(part);
        text = format!("{front}{}{rest}", std::fs::read_to_string(path).expect("readable"))
            .replace(&left_out, "");
    }
    text
}

/// The text with replacements, each of which must apply once.
pub fn changed(mut text: String, changes: &[(&str, &str)]) -> String {
    for (from, to) in changes {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, to);
    }
    text
}

pub fn address(server: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 9, 1, server as u8 + 1))
}

pub fn hop() -> (Mac, Mac) {
    (Mac::from_u64(2), Mac::from_u64(4))
}

pub fn encode_answer(packet: &Packet<'_>, server: usize) -> Vec<u8> {
    packet.encode(hop(), (address(server), 9), IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)))
}

/// What leaves the switch at this time, when a frame arrives or without one.
pub fn outputs<E: Executor>(rig: &mut Rig<E>, now: u64, arrives: Option<(u32, Vec<u8>)>) -> Vec<Output> {
    let now = Time(now);
    rig.now = now;
    let mut out = Vec::new();
    if let Some((port, frame)) = arrives {
        let mut buffer = [&[0; 128][..], &frame].concat();
        let arrived = Arrived { port, buffer: &mut buffer, start: 128 };
        rig.switch.process(now, 1000, &mut [arrived], &mut out);
    }
    while rig.switch.poll(now, 1000, &mut out).more {}
    out
}

/// Shares of the frames on a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: f64,
    pub double: f64,
    /// Frames take 2 us, and this share of them up to `LIFE`.
    pub late: f64,
}

/// Faults of a program: each was found, and by which seed.
pub fn assert_found<T: std::fmt::Debug>(faults: &[(&str, Option<T>)]) {
    for (fault, found) in faults {
        println!("{fault}: {found:?}");
    }
    let missed: Vec<_> = faults.iter().filter(|(_, found)| found.is_none()).map(|(fault, _)| fault).collect();
    assert!(missed.is_empty(), "{missed:?} not found");
}

/// Whether something happens that has this share.
pub fn chance(random: &mut Random, share: f64) -> bool {
    (random.below(1 << 20) as f64) < share * f64::from(1 << 20)
}

impl Faults {
    /// Everything goes wrong, differently for each seed.
    pub fn of(seed: u64) -> Self {
        Faults {
            loss: [0.0, 0.01, 0.1][(seed % 3) as usize],
            double: [0.0, 0.1][(seed / 2 % 2) as usize],
            late: [0.0, 0.002, 0.1][(seed / 4 % 3) as usize],
        }
    }

    /// After which times a frame arrives; `lost` counts the copies that do not.
    pub fn pass(&self, random: &mut Random, lost: &mut u64) -> Vec<u64> {
        let mut arrivals = Vec::new();
        let copies = 1 + u32::from(chance(random, self.double));
        for _ in 0..copies {
            if chance(random, self.loss) {
                *lost += 1;
            } else {
                let more = if chance(random, self.late) { LIFE / 2 - 2 * US } else { 0 };
                arrivals.push(2 * US + random.below(more + 1));
            }
        }
        arrivals
    }
}
