//! A table in servers' memory: servers, the controller's writes, the switch's settings and its own table.

use super::*;
use pointsman_remote::{Entry, Part, Table, Writer, WriterError};
use pointsman_roce::{Region, Requester, Responder, Rights};
use pointsman_v1model::QueueConfig;

/// The queue of packets that wait.
pub const WAIT: u32 = 8;
/// The longest time of a look-up, as the switch has it, in ns.
pub const TIMEOUT: u64 = 200 * US;
/// Long enough for everything that is under way.
pub const HOLD: u64 = TIMEOUT + 2 * LIFE;
/// A server's queue pair with the controller.
pub const CONTROLLER: u32 = 0x90;
/// Servers that the switch can have at once, and ports to them. The numbers of a table's servers, taken by this, are its servers in the switch.
pub const PLACES: usize = 16;
const PORTS: usize = 4;

/// The switch's port to a server.
pub fn port(server: usize) -> u32 {
    SERVER + (server % PORTS) as u32
}

/// The multicast group for a server's requests.
pub fn group(server: usize) -> usize {
    server % PLACES + 1
}

/// The address of a server's scratchpads, behind so many bytes of cells.
pub fn ring(bytes: u64) -> u64 {
    BASE + bytes.next_multiple_of(4096)
}

/// Memory with so many bytes of cells, and of scratchpads behind them.
pub fn memory(cells: u64, scratchpads: u64) -> Region {
    let rights = Rights { read: true, write: true, atomic: false };
    Region::new(BASE, (ring(cells) - BASE + scratchpads) as usize, rights).expect("a region")
}

/// Memory with a server's part of a table.
pub fn filled(table: &Table, i: usize, scratchpads: u64) -> Region {
    let mut region = memory(table.server_bytes(i), scratchpads);
    for (offset, bytes) in table.images(i, 4096) {
        region.memory[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    region
}

/// The next server: its queue pairs with the switch (numbers there and here, the first packet's number), and one with the controller.
pub fn server(
    writer: &mut Writer,
    region: Region,
    pairs: impl IntoIterator<Item = (u32, u32, u32)>,
) -> Responder {
    let mut responder = Responder::new(MTU).expect("a path MTU");
    responder.add_region(REGION, region).expect("a new key");
    for (pair, peer, psn) in pairs.into_iter().chain([(0x10, CONTROLLER, 7)]) {
        responder.add_pair(pair, peer, psn, &[REGION]).expect("a queue pair");
    }
    writer.add(Requester::new(0x10, 7, MTU, 100 * US, 1000).expect("a queue pair"), REGION, BASE);
    responder
}

/// Frames to servers.
type Requests = Vec<(usize, Vec<u8>)>;

fn keep(sent: &mut Requests) -> impl FnMut(usize, &Packet<'_>) {
    let from = (IpAddr::V4(Ipv4Addr::new(10, 9, 2, 1)), 9);
    move |i, packet| sent.push((i, packet.encode(hop(), from, address(i))))
}

/// What the controller's writer sends for a write.
pub fn writes(writer: &mut Writer, now: u64, write: (u64, usize, u64, Vec<u8>)) -> Requests {
    let mut sent = Vec::new();
    writer.write(now, write, &mut keep(&mut sent));
    sent
}

/// What it sends when it gets an answer, or wakes.
pub fn requests(
    wrong: &mut Vec<String>,
    does: impl FnOnce(&mut dyn FnMut(usize, &Packet<'_>)) -> Result<(), WriterError>,
) -> Requests {
    let mut sent = Vec::new();
    let result = does(&mut keep(&mut sent));
    wrong.extend(result.err().map(|e| e.to_string()));
    sent
}

/// The entry of `tea_servers` with a server's part.
pub fn range(part: Part, action: &str) -> String {
    format!("tea_servers cell={}..{} priority=1 -> {action}", part.start, part.start + part.cells - 1)
}

/// The action for a server without replica: its first queue pair, and how many it has.
pub fn alone(first: u32, pairs: u32) -> String {
    format!("server(first_pair={first}, pair_mask={})", pairs - 1)
}

/// The switch's entry for a queue pair with a server: numbers here and there, key of the region, address of the scratchpads, the server's first cell.
pub fn peer(i: usize, (pair, number): (u32, u32), key: u32, ring: u64, start: u32) -> String {
    format!(
        "tea_pairs pair={pair} -> peer(pair={number}, mac=0x02, address={}, port={}, group={}, region={key}, cells={BASE}, ring={ring}, start={start})",
        address(i),
        port(i),
        group(i)
    )
}

/// `tea_config`, with so many cells from this one on.
pub fn set_config<E: Executor>(rig: &mut Rig<E>, (first, cells): (u32, u32), timeout: u64, wait_port: u32) {
    let settings = format!(
        "configure(address=10.9.0.1, mac=0x99, cells={cells}, timeout={timeout}, wait_port={wait_port}, first={first})"
    );
    rig.set_default("tea_config", &settings).expect("the settings");
}

/// The switch's address, and multicast groups: each has a copy for each instance and port.
pub fn set_groups<E: Executor>(rig: &mut Rig<E>, groups: impl IntoIterator<Item = (usize, Vec<(u32, u32)>)>) {
    let mut text = "value_set_add tea_addresses 10.9.0.1\n".to_string();
    let mut nodes = 0;
    for (group, copies) in groups {
        text += &format!("mc_mgrp_create {group}\n");
        for (instance, port) in copies {
            text += &format!("mc_node_create {instance} {port}\nmc_node_associate {group} {nodes}\n");
            nodes += 1;
        }
    }
    configure(rig, &text);
}

/// How long a packet waits in the queue, each time.
pub fn set_wait<E: Executor>(rig: &mut Rig<E>, delay_ns: u64) {
    let queue = QueueConfig { delay_ns, depth_packets: 64, ..QueueConfig::default() };
    rig.switch.configure_queue(WAIT, None, queue).expect("a queue");
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// An entry of the switch's own table.
pub fn stash<E: Executor>(rig: &mut Rig<E>, key: &[u8], entry: Entry) {
    let entry = entry.map_or("removed()".into(), |v| format!("stashed(value=0x{})", hex(&v)));
    rig.set(&format!("tea_stash key=0x{} -> {entry}", hex(key))).expect("room in the stash");
}

pub fn unstash<E: Executor>(rig: &mut Rig<E>, key: &[u8]) {
    rig.remove(&format!("tea_stash key=0x{} -> removed()", hex(key))).expect("an entry of the stash");
}
