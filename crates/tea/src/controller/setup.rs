//! Memory servers: how much of their memory is used for what, and their queue pairs.

use super::{Management, Plan, STASH};
use crate::bed::{self, Bed, SERVER, management};
use crate::{Move, Options};
use pointsman_lab::{Error, Result};
use pointsman_node::memory::{Client, ClientError};
use pointsman_ports::{Want, open_interface};
use pointsman_remote::{Config, Layout, RING, SLOT, Scratchpads, WINDOW};
use pointsman_roce::Requester;
use pointsman_roce::setup::Memory;
use pointsman_wire::Random;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Queue pairs of the switch with each server, a power of two.
pub const PAIRS: u32 = 4;
/// The switch's queue pair of number 0 (`TEA_FIRST_PAIR`).
const FIRST_PAIR: u32 = 0x100;
/// The switch's addresses in requests.
const SWITCH: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 9, 0, 1), Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1));
/// The first of the controller's queue pairs, one for each share of a server.
const OWN_PAIR: u32 = 0x90;
/// Shares of servers that the switch can have at once (`TEA_PAIRS`).
pub const PLACES: usize = 16;
/// The longest packet that is looked up (`TEA_PACKET`), with filling, and its head in a scratchpad of each kind.
const PACKET: usize = 1514 + 3;
const HEAD: usize = 8;
const ROW_HEAD: usize = 12;
/// Entries for each cell: below the load at which entries collide, which is smaller with windows that begin with a bucket.
const LOAD: f64 = 0.6;
const ROW_LOAD: f64 = 0.5;
/// How long a WRITE may be without an answer, and how often it is repeated: a server may hang for 100 s.
const RETRY_NS: u64 = 100_000_000;
const RETRIES: u32 = 1000;
/// Time between two signs of life.
const ALIVE: Duration = Duration::from_secs(10);

/// The switch's address in requests over IPv4 or IPv6.
pub fn switch_address(ipv6: bool) -> IpAddr {
    if ipv6 { SWITCH.1.into() } else { SWITCH.0.into() }
}

/// Bytes of memory that a server needs for so many cells of each copy, and the scratchpads.
pub fn server_bytes(layout: Layout, cells: u32, copies: u32) -> u64 {
    (layout.region_bytes(cells) * u64::from(copies)).next_multiple_of(4096) + layout.ring_bytes(PAIRS)
}

/// Cells of each server.
pub fn cells(scratchpads: Scratchpads, entries: u32, servers: usize) -> Vec<u32> {
    let (load, multiple) = match scratchpads {
        Scratchpads::Ring => (LOAD, 1),
        Scratchpads::Inline => (ROW_LOAD, WINDOW),
    };
    let all = (f64::from(entries) / load) as u32 + WINDOW;
    vec![all.div_ceil(servers.max(1) as u32).next_multiple_of(multiple); servers]
}

/// The memory servers to which a table moves, and the cells of each.
pub(super) fn next_cells(
    step: Move,
    scratchpads: Scratchpads,
    entries: u32,
    servers: usize,
) -> (Range<usize>, Vec<u32>) {
    let (servers, entries) = match step {
        Move::Double => (0..servers, entries.saturating_mul(2)),
        Move::Add => (0..servers + 1, entries),
        Move::Drain => (0..servers - 1, entries),
        Move::Lose => (1..servers, entries),
    };
    let cells = cells(scratchpads, entries, servers.len());
    (servers, cells)
}

/// Bytes of memory that each server of a plan needs: also for the cells to which the table moves.
pub fn dram_bytes(options: &Options) -> u64 {
    let scratchpads = options.layout.scratchpads();
    let layout = options.app.layout(scratchpads);
    let bytes = |cells: Vec<u32>| cells.first().map_or(0, |c| server_bytes(layout, *c, options.copies));
    let next = options.moves.map(|step| next_cells(step, scratchpads, options.entries, options.servers).1);
    bytes(cells(scratchpads, options.entries, options.servers)) + next.map_or(0, bytes)
}

/// The settings of the table.
pub(super) fn table(plan: &Plan, hold_ns: u64) -> (Vec<u32>, Config) {
    let layout = plan.table_layout();
    let cells = cells(layout.scratchpads, plan.entries, plan.servers);
    (
        cells.clone(),
        Config {
            layout,
            cells,
            stash: STASH,
            hold_ns,
            replicas: plan.copies > 1,
            cache: plan.cache as usize,
        },
    )
}

/// All memory servers, and what the table has of them, by its numbers of servers.
#[derive(Default)]
pub(super) struct Memories {
    pub servers: Vec<Server>,
    pub shares: BTreeMap<usize, Share>,
    alive: Option<Instant>,
}

impl Memories {
    /// Shows the servers that the controller lives.
    pub fn keep_alive(&mut self) -> Result<()> {
        if self.alive.is_some_and(|at| at.elapsed() < ALIVE) {
            return Ok(());
        }
        self.alive = Some(Instant::now());
        for server in self.servers.iter_mut().filter(|s| !s.is_lost) {
            // One that hangs does not answer; its queue pairs stay.
            let _ = server.client.memory();
        }
        Ok(())
    }

    /// Takes memory and queue pairs of a server for a number of the table.
    pub fn take(
        &mut self,
        number: usize,
        server: usize,
        (layout, bytes): (Layout, u64),
        random: &mut Random,
    ) -> Result<Requester> {
        // The table has at most one share of a server when it gets another.
        let used = self.shares.values().find(|s| s.server == server).map(|s| s.at..s.at + s.bytes);
        let at = used.filter(|used| used.start < bytes).map_or(0, |used| used.end);
        let (share, requester) = self.servers[server].share((number, server), layout, (at, bytes), random)?;
        self.shares.insert(number, share);
        Ok(requester)
    }

    /// Gives up what a number of the table has of a server.
    pub fn give_up(&mut self, number: usize) {
        let Some(share) = self.shares.remove(&number) else { return };
        let server = &mut self.servers[share.server];
        if !server.is_lost {
            for pair in share.pairs.iter().map(|(pair, _)| *pair).chain([share.own]) {
                // It may be gone already.
                let _ = server.client.remove(pair);
            }
        }
    }

    /// Replaces a queue pair that has ended by a new one, whose first packet sequence number is `psn`. `None`: the queue pair or its server does not exist.
    pub fn renew(&mut self, number: u32, psn: u32) -> Option<std::result::Result<(), ClientError>> {
        let (place, pair) = Share::place(number);
        let (_, share) = self.shares.iter_mut().find(|(n, _)| *n % PLACES == place)?;
        let server = self.servers.get_mut(share.server).filter(|s| !s.is_lost)?;
        let held = share.pairs.get_mut(pair)?;
        // It may be gone already.
        let _ = server.client.remove(held.0);
        let renewed = server.client.pair(FIRST_PAIR + number, psn, switch_address(server.address.is_ipv6()));
        Some(renewed.map(|pair| *held = (pair, psn)))
    }
}

/// What the table has of a memory server.
pub(super) struct Share {
    /// The memory server.
    pub server: usize,
    /// Its bytes: from where on in the server's memory, and how many.
    pub at: u64,
    pub bytes: u64,
    /// Address of its cells.
    pub address: u64,
    /// Numbers and first packet sequence numbers of the switch's queue pairs.
    pub pairs: Vec<(u32, u32)>,
    /// Number of the controller's queue pair.
    own: u32,
}

impl Share {
    /// Address of a queue pair's scratchpads, which rows have in their place.
    pub fn ring(&self, pair: usize) -> u64 {
        let after = u64::from(PAIRS - pair as u32) * u64::from(RING * SLOT);
        (self.address + self.bytes).saturating_sub(after)
    }

    /// The number of a queue pair in the switch.
    pub fn pair_number(number: usize, pair: usize) -> u32 {
        (number % PLACES) as u32 * PAIRS + pair as u32
    }

    /// The table's server, of those that the switch can have at once, and the pair of such a number.
    pub fn place(number: u32) -> (usize, usize) {
        ((number / PAIRS) as usize, (number % PAIRS) as usize)
    }

    /// The multicast group of its requests.
    pub fn group(number: usize) -> u16 {
        (number % PLACES) as u16 + 1
    }

    /// The controller's queue pair for a number of the table.
    pub fn own_peer(number: usize) -> u32 {
        OWN_PAIR + (number % PLACES) as u32
    }
}

/// A memory server.
pub(super) struct Server {
    pub memory: Memory,
    /// The switch's way to it.
    pub mac: u64,
    pub address: IpAddr,
    pub port: u16,
    /// It is lost permanently.
    pub is_lost: bool,
    client: Client,
}

impl Server {
    /// Connects to a server.
    pub fn set_up((i, ipv6): (usize, bool)) -> Result<(Server, Management)> {
        let failed = |e: String| Error::new(format!("memory server {i}: {e}"));
        let mut client =
            Client::connect(Bed::setup(i), Some(bed::SECRET)).map_err(|e| Error::new(e.to_string()))?;
        let memory = client.memory().map_err(|e| failed(e.to_string()))?;
        let (to, from) = management(i);
        let (to, from) = (IpAddr::V4(to), IpAddr::V4(from));
        let port = |number| memory.ports.iter().find(|p| p.number == number);
        let data = port(0).and_then(|p| Some((p.mac, bed::of_family(&p.addresses, ipv6)?)));
        let family = if ipv6 { "IPv6" } else { "IPv4" };
        let (mac, address) = data.ok_or_else(|| failed(format!("port 0 has no {family} address")))?;
        let way = memory.ports.iter().find(|p| p.addresses.contains(&to));
        let way = way.ok_or_else(|| failed(format!("none of its ports has the address {to}")))?;
        let interface = format!("veth{}-1", SERVER + i as u16);
        let (opened, _) =
            open_interface(&interface, Want::AfPacket).map_err(|e| Error::new(e.to_string()))?;
        let held = UdpSocket::bind((from, pointsman_roce::PORT))
            .map_err(|e| Error::os(format!("cannot keep UDP port 4791 of {from}"), e))?;
        let own_mac = pointsman_lab::rack::Link::in_subnet(SERVER + i as u16, 110 + i as u8).gateway_mac;
        let management =
            Management { port: opened, hop: (way.mac, own_mac), from, to, out: Vec::new(), _held: held };
        let port = SERVER + i as u16;
        Ok((Server { memory, mac: mac.to_u64(), address, port, is_lost: false, client }, management))
    }

    /// Gets queue pairs for the switch and the controller, for a share of the memory.
    pub fn share(
        &mut self,
        (number, i): (usize, usize),
        layout: Layout,
        (at, bytes): (u64, u64),
        random: &mut Random,
    ) -> Result<(Share, Requester)> {
        let failed = |e: &dyn fmt::Display| Error::new(format!("memory server {i}: {e}"));
        fits(&self.memory, layout, at + bytes).map_err(|e| failed(&e))?;
        let mut psn = || random.below(1 << 24) as u32;
        let own_psn = psn();
        let from = management(i).1.into();
        let own = self.client.pair(Share::own_peer(number), own_psn, from).map_err(|e| failed(&e))?;
        let mut pairs = Vec::new();
        for pair in 0..PAIRS as usize {
            let (peer, psn) = (FIRST_PAIR + Share::pair_number(number, pair), psn());
            let switch = switch_address(self.address.is_ipv6());
            let pair = self.client.pair(peer, psn, switch).map_err(|e| failed(&e))?;
            pairs.push((pair, psn));
        }
        let requester =
            Requester::new(own, own_psn, self.memory.mtu, RETRY_NS, RETRIES).map_err(|e| failed(&e))?;
        Ok((Share { server: i, at, bytes, address: self.memory.address + at, pairs, own }, requester))
    }
}

/// Why a server cannot hold a table.
#[derive(Debug, PartialEq, Eq)]
enum Unfit {
    /// It has so much memory, and so much is needed.
    Memory(u64, u64),
    /// Its packets have so many bytes, and so many are needed.
    Mtu(usize, usize),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Memory(bytes, needed) => write!(
                f,
                "{bytes} bytes of memory, and {needed} are needed: give `pointsman memory` a larger --size, or add servers"
            ),
            Unfit::Mtu(mtu, row) => write!(
                f,
                "a path MTU of {mtu} bytes, and an answer has up to {row}: give its interfaces an MTU of at least {}",
                row.next_power_of_two() + 80
            ),
        }
    }
}

impl std::error::Error for Unfit {}

/// Whether a server's memory is enough, and its packets long enough.
fn fits(memory: &Memory, layout: Layout, needed: u64) -> std::result::Result<(), Unfit> {
    if memory.bytes < needed {
        return Err(Unfit::Memory(memory.bytes, needed));
    }
    let window = WINDOW as usize * layout.cell_bytes();
    let row = match layout.scratchpads {
        Scratchpads::Ring => window.max(HEAD + PACKET),
        Scratchpads::Inline => window + ROW_HEAD + PACKET,
    };
    if memory.mtu < row {
        return Err(Unfit::Mtu(memory.mtu, row));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::App;

    #[test]
    fn memory_and_mtu_are_checked() {
        let memory = |bytes, mtu| Memory { address: 0, bytes, key: 1, mtu, ports: Vec::new() };
        let layout = App::Nat.layout(Scratchpads::Ring);
        let needed = server_bytes(layout, 1000, 1);
        assert_eq!(fits(&memory(needed, 2048), layout, needed), Ok(()));
        let few = fits(&memory(needed - 1, 2048), layout, needed).expect_err("too few").to_string();
        assert!(few.contains("larger --size"), "{few}");
        let short = fits(&memory(needed, 1024), layout, needed).expect_err("too short").to_string();
        assert!(short.contains("MTU of at least 2128"), "{short}");
        assert_eq!(cells(Scratchpads::Ring, 600, 2), [504, 504]);
        assert_eq!(cells(Scratchpads::Inline, 600, 2), [608, 608]);
        // Rows of 8 cells of 48 bytes and a scratchpad, for four cells each; no ring. The longest answer fits a path MTU of 2,048.
        let layout = App::Vpn.layout(Scratchpads::Inline);
        let needed = server_bytes(layout, 608, 2);
        assert_eq!(needed, (2 * 152 * (8 * 48 + 1536u64)).next_multiple_of(4096));
        assert_eq!(fits(&memory(needed, 2048), layout, needed), Ok(()));
        let short = fits(&memory(needed, 1024), layout, needed).expect_err("too short").to_string();
        assert!(short.contains("an answer has up to 1913"), "{short}");
    }
}
