//! A table in the memory of servers (TEA), without delays: a switch that runs a network function with the library and its cache, servers that answer at once, and the
//! controller's choice of what is in the cache. Program, servers and table are those that are used.

mod function;
pub mod timed;

pub use function::Function;

use crate::TestbedError;
use crate::world::refused;
use pointsman_compile::sources::Sources;
use pointsman_compile::{compile, rendered};
use pointsman_engine::Engine;
use pointsman_ir::Value;
use pointsman_ir::table::KeyMatch;
use pointsman_remote::{Action, Config, LEAST, Layout, RING, SLOT, Scratchpads, Table, Zipf};
use pointsman_roce::{Opcode, Packet, Region, Responder, Rights};
use pointsman_stf::Rig;
use pointsman_stf::entries::find_table;
use pointsman_v1model::{Arrived, Output, SwitchConfig, Time};
use pointsman_wire::{Mac, Random};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The function of [`Tables`].
const FUNCTION: Function = Function::Nat;
/// Where packets with an entry leave, and the port of the first server.
const OUT: u32 = 1;
const SERVER: u32 = 3;
/// Every region begins here, and has this key.
const BASE: u64 = 0x1_0000_0000;
const REGION: u32 = 1;
/// The servers' queue pair, and the switch's first.
const PAIR: u32 = 0x20;
const FIRST_PAIR: u32 = 0x100;
const SWITCH: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
const TARGET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// Entries for each cell, and with a scratchpad in each row.
const LOAD: f64 = 0.6;
const ROW_LOAD: f64 = 0.5;
/// Time between packets.
const GAP_NS: u64 = 1000;
/// Room in front of a packet, and for one.
const ROOM: usize = 128;
const LONGEST: usize = 2048;
/// Packets after which reports are taken.
const REPORTS: u64 = 64;

/// What a bed is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Entries, all of other keys.
    pub entries: u32,
    /// Servers of equal size.
    pub servers: u32,
    /// Entries of the cache.
    pub cache: u32,
    /// An age of the sketch has 2 to the power of it in nanoseconds (`TEA_AGE`); packets come every 1,000.
    pub age_bit: u32,
    /// Chooses keys and packets.
    pub seed: u64,
}

/// Look-ups of some packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All.
    pub packets: u64,
    /// Of them, those that left with the right entry.
    pub right: u64,
    /// Of them, those that no server was asked for.
    pub local: u64,
    /// Look-ups of each server.
    pub servers: Vec<u64>,
    /// Look-ups by the first cell of their window.
    pub cells: Vec<u32>,
}

impl Count {
    /// Look-ups of each server, if there were so many of equal size.
    pub fn divided(&self, servers: usize) -> Vec<u64> {
        let each = self.cells.len().div_ceil(servers.max(1)).max(1);
        self.cells.chunks(each).map(|cells| cells.iter().map(|n| u64::from(*n)).sum()).collect()
    }
}

/// Switch, servers, table.
pub struct Tables {
    shape: Shape,
    rig: Rig<Engine>,
    table: Table,
    servers: Vec<Responder>,
    keys: Vec<u64>,
    random: Random,
    has_cache: bool,
    sent: u64,
    buffer: Vec<u8>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn server_address(server: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 9, 1, server as u8 + 1))
}

/// Addresses of all frames.
fn hop() -> (Mac, Mac) {
    (Mac::from_u64(1), Mac::from_u64(2))
}

impl Tables {
    /// A table that is filled, and a cache that is not used yet.
    ///
    /// # Errors
    /// The program does not compile, or something does not fit.
    pub fn new(shape: Shape) -> Result<Tables, TestbedError> {
        let mut random = Random::new(shape.seed);
        let keys: Vec<u64> = (0..shape.entries).map(|_| random.next_u64()).collect();
        let each = ((f64::from(shape.entries) / LOAD) as u32).div_ceil(shape.servers.max(1)).max(1);
        let config = Config {
            layout: FUNCTION.layout(),
            cells: vec![each; shape.servers as usize],
            replicas: false,
            stash: 1024,
            hold_ns: 0,
            cache: shape.cache as usize,
        };
        let mut table = Table::new(config).map_err(refused)?;
        let entries: Vec<_> =
            keys.iter().zip(0..).map(|(key, flow)| (FUNCTION.key(*key), FUNCTION.value(flow))).collect();
        table.load(entries.iter().map(|(k, v)| (&k[..], &v[..]))).map_err(refused)?;
        let server = |i| server(&table, i, 1, FUNCTION.layout());
        let servers = (0..shape.servers as usize).map(server).collect::<Result<_, _>>()?;
        let settings = Settings {
            function: FUNCTION,
            scratchpads: Scratchpads::Ring,
            defines: format!("#define TEA_CACHE {}\n#define TEA_AGE {}\n", shape.cache.max(1), shape.age_bit),
            pairs: 1,
            timeout: 1_000_000_000,
            patience: 0,
            wait_port: 0,
            more: String::new(),
        };
        let rig = switch(&settings, &table)?;
        let buffer = vec![0; ROOM + LONGEST];
        let mut bed = Tables { shape, rig, table, servers, keys, random, has_cache: false, sent: 0, buffer };
        bed.act()?;
        Ok(bed)
    }

    /// From now on the cache is used.
    ///
    /// # Errors
    /// The switch refuses.
    pub fn use_cache(&mut self) -> Result<(), TestbedError> {
        self.has_cache = true;
        self.rig.write_register("tea_hot", 0, &LEAST.to_string()).map_err(refused)
    }

    /// Sends packets whose flows have this popularity.
    ///
    /// # Errors
    /// The switch refuses a change, or a request is not as it should be.
    pub fn run(&mut self, zipf: &Zipf, packets: u64) -> Result<Count, TestbedError> {
        let cells = self.table.parts().iter().map(|p| p.cells as usize).sum();
        let servers = vec![0; self.servers.len()];
        let mut count = Count { servers, cells: vec![0; cells], ..Count::default() };
        let age = (1 << self.shape.age_bit) / GAP_NS;
        for _ in 0..packets {
            let flow = zipf.draw(&mut self.random);
            self.look_up(flow, &mut count)?;
            self.sent += 1;
            if self.has_cache && self.sent.is_multiple_of(REPORTS) {
                self.reports()?;
            }
            if self.has_cache && self.sent.is_multiple_of(age) {
                let hits = self.hits()?;
                let from = self.table.cache_hits(hits.iter().map(|(key, n)| (&key[..], *n)));
                self.rig.write_register("tea_hot", 0, &from.to_string()).map_err(refused)?;
            }
        }
        Ok(count)
    }

    /// A packet: requests, answers, and the packet that leaves.
    fn look_up(&mut self, flow: u32, count: &mut Count) -> Result<(), TestbedError> {
        let frame = FUNCTION.frame(self.keys[flow as usize], &[0; 18]);
        count.packets += 1;
        let mut left = self.step(0, &frame);
        let asked = left.iter().any(|(port, _)| *port >= SERVER);
        count.local += u64::from(!asked);
        let mut answers = Vec::new();
        for (port, request) in left.iter().filter(|(port, _)| *port >= SERVER) {
            let server = (port - SERVER) as usize;
            let (request, ..) = Packet::decode(request).map_err(refused)?;
            let layout = FUNCTION.layout();
            let (part, bytes) = (self.table.parts()[server], layout.region_bytes(0));
            let cells = layout.region_bytes(part.cells) - bytes;
            let at = request.remote.address.wrapping_sub(BASE);
            if request.opcode == Opcode::Read && at < cells {
                count.servers[server] += 1;
                count.cells[part.start as usize + (at / layout.cell_bytes() as u64) as usize] += 1;
            }
            self.servers[server].step(&request, &mut |answer| {
                answers.push((*port, answer.encode(hop(), (server_address(server), 9), SWITCH)));
            });
        }
        for (port, answer) in answers {
            left.extend(self.step(port, &answer));
        }
        count.right +=
            u64::from(left.iter().any(|(port, frame)| *port == OUT && FUNCTION.shows(frame, flow)));
        self.rig.now = Time(self.rig.now.0 + GAP_NS);
        Ok(())
    }

    fn step(&mut self, port: u32, frame: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let end = ROOM + frame.len();
        self.buffer[ROOM..end].copy_from_slice(frame);
        let mut out: Vec<Output> = Vec::new();
        let arrived = Arrived { port, buffer: &mut self.buffer[..end], start: ROOM };
        self.rig.switch.process(self.rig.now, 1000, &mut [arrived], &mut out);
        while self.rig.switch.poll(self.rig.now, 1000, &mut out).more {}
        let frame = |o| if let Output::Port(port, frame) = o { Some((port, frame)) } else { None };
        out.into_iter().filter_map(frame).collect()
    }

    /// The data plane's reports.
    fn reports(&mut self) -> Result<(), TestbedError> {
        for digest in self.rig.switch.take_digests() {
            let Value::Struct(fields) = &digest.data else { continue };
            if let Some(Value::Bits(key)) = fields.first() {
                self.table.popular(&key.to_be_bytes());
            }
        }
        self.act()
    }

    /// Does what the table asks for: nothing is written to servers, because no entry changes.
    fn act(&mut self) -> Result<(), TestbedError> {
        while let Some(action) = self.table.take_action() {
            let done = match action {
                Action::Stash(number, key, entry) => {
                    self.table.stashed(self.rig.now.0, number);
                    self.rig.set(&stashed(&key, entry))
                }
                Action::Cache(key, entry) => {
                    let value = entry.unwrap_or_default();
                    self.rig.set(&format!("tea_cache key=0x{} -> cached(value=0x{})", hex(&key), hex(&value)))
                }
                Action::Uncache(key) => {
                    self.rig.remove(&format!("tea_cache key=0x{} -> absent()", hex(&key)))
                }
                Action::Unstash(_) | Action::Write(..) | Action::Switch(..) | Action::Retire(..) => Ok(()),
            };
            done.map_err(refused)?;
        }
        Ok(())
    }

    /// The cache's counters.
    fn hits(&mut self) -> Result<Vec<(Vec<u8>, u64)>, TestbedError> {
        let table = find_table(self.rig.program(), "tea_cache").map_err(refused)?;
        let state = self.rig.state();
        let mut all = Vec::new();
        for (handle, entry) in state.entries(table) {
            let counter = state.direct_counter(table, Some(handle)).map_err(refused)?;
            if let Some(KeyMatch::Exact(key)) = entry.matches.first() {
                all.push((key.to_be_bytes(), counter.packets));
            }
        }
        Ok(all)
    }
}

/// The switch's own entry for a key.
fn stashed(key: &[u8], entry: Option<Vec<u8>>) -> String {
    format!("tea_stash key=0x{} -> stashed(value=0x{})", hex(key), hex(&entry.unwrap_or_default()))
}

/// A server with its cells and scratchpads.
fn server(table: &Table, i: usize, pairs: u32, layout: Layout) -> Result<Responder, TestbedError> {
    let cells = table.server_bytes(i);
    let rights = Rights { read: true, write: true, atomic: false };
    let bytes = cells + layout.ring_bytes(pairs);
    let mut region = Region::new(BASE, bytes as usize, rights).map_err(refused)?;
    for (offset, bytes) in table.images(i, 4096) {
        region.memory[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    let mut server = Responder::new(LONGEST).map_err(refused)?;
    server.add_region(REGION, region).map_err(refused)?;
    for j in 0..pairs {
        server.add_pair(PAIR + j, FIRST_PAIR + i as u32 * pairs + j, 0, &[REGION]).map_err(refused)?;
    }
    Ok(server)
}

/// What the switch has besides its servers.
struct Settings {
    function: Function,
    scratchpads: Scratchpads,
    defines: String,
    /// Queue pairs of each server.
    pairs: u32,
    /// Ticks after which an answer is too late, and without one after which a server is out.
    timeout: u64,
    patience: u64,
    /// Where packets wait for a credit; 0: nowhere.
    wait_port: u32,
    /// More statements of STF.
    more: String,
}

/// The switch, whose tables know the servers.
fn switch(settings: &Settings, table: &Table) -> Result<Rig<Engine>, TestbedError> {
    // Requests of a look-up, each of which is a replica.
    let (inline, requests) = match settings.scratchpads {
        Scratchpads::Ring => ("", 3),
        Scratchpads::Inline => ("#define TEA_INLINE\n", 2),
    };
    let text = [inline, &settings.defines, settings.function.defines(), settings.function.text()].concat();
    let compiled = compile("main.p4", &text, &Sources::default(), &[]);
    let program = compiled.map(|c| Arc::new(c.program)).map_err(|e| refused(rendered(&e)))?;
    let config = SwitchConfig { nanoseconds: true, ..SwitchConfig::default() };
    let mut rig = Rig::<Engine>::on(program, config).map_err(refused)?;
    let cells: u32 = table.parts().iter().map(|p| p.cells).sum();
    let Settings { function, pairs, timeout, patience, wait_port, more, .. } = settings;
    let entries = function.entries();
    let mut text = format!(
        "{entries}value_set_add tea_addresses 10.9.0.1\n\
         setdefault tea_config configure(address:10.9.0.1, mac:1, cells:{cells}, timeout:{timeout}, wait_port:{wait_port}, first:0)\n{more}"
    );
    for (i, part) in table.parts().iter().enumerate() {
        let (port, ring, start) = (SERVER + i as u32, BASE + table.server_bytes(i), part.start);
        let (group, last) = (i + 1, start + part.cells - 1);
        let first = format!("first_pair:{}, pair_mask:{}", i as u32 * pairs, pairs - 1);
        let does = match table.replica(i) {
            None => format!("server({first})"),
            Some((other, offset)) => format!(
                "replicated({first}, port:{port}, patience:{patience}, replica_pair:{}, replica_port:{}, replica_cells:{}, start:{start})",
                other as u32 * pairs,
                SERVER + other as u32,
                BASE + offset
            ),
        };
        text += &format!("add tea_servers 1 cell:{start}->{last} {does}\nmc_mgrp_create {group}\n");
        for j in 0..*pairs {
            text += &format!(
                "add tea_pairs pair:{} peer(pair:{}, mac:2, address:{}, port:{port}, group:{group}, region:{REGION}, cells:{BASE}, ring:{}, start:{start})\n",
                i as u32 * pairs + j,
                PAIR + j,
                server_address(i),
                ring + u64::from(j * RING * SLOT)
            );
        }
        for n in 1..=requests {
            text += &format!("mc_node_create {n} {port}\nmc_node_associate {group} {}\n", 3 * i + n - 1);
        }
    }
    let lines = pointsman_stf::parse(&text).map_err(refused)?;
    let now = rig.now;
    pointsman_stf::fill(rig.state(), now, &lines).map_err(refused)?;
    Ok(rig)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_look_up_has_its_entry_and_the_cache_takes_the_popular_ones() {
        let shape = Shape { entries: 20_000, servers: 4, cache: 64, age_bit: 24, seed: 1 };
        let mut bed = Tables::new(shape).expect("a bed");
        let zipf = Zipf::new(shape.entries, 0.99);
        let without = bed.run(&zipf, 5000).expect("look-ups");
        assert_eq!((without.packets, without.right), (5000, 5000));
        assert!(without.local < 50, "only colliding entries are in the switch: {}", without.local);
        assert_eq!(without.divided(4), without.servers);
        assert_eq!(without.divided(1), [5000 - without.local]);
        bed.use_cache().expect("a register");
        bed.run(&zipf, 80_000).expect("look-ups");
        let with = bed.run(&zipf, 5000).expect("look-ups");
        assert_eq!(with.right, 5000);
        // The 64 most popular of 20,000 have 0.43 of all packets.
        let share = with.local as f64 / 5000.0;
        assert!((0.37..0.48).contains(&share), "{share}");
        let share = |count: &Count| {
            *count.servers.iter().max().expect("servers") as f64 * 4.0
                / count.servers.iter().sum::<u64>() as f64
        };
        assert!(share(&with) < share(&without), "{with:?}");
    }
}
