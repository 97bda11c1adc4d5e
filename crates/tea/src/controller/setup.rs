//! Memory servers: how much of their memory is used for what, and their queue pairs.

use super::{Management, Plan, STASH};
use crate::Options;
use crate::bed::{self, Bed, SERVER, management};
use pointsman_lab::{Error, Result};
use pointsman_node::memory::{Client, ClientError};
use pointsman_ports::{Want, open_interface};
use pointsman_remote::{Config, Layout, RING, SLOT, Scratchpads, WINDOW};
use pointsman_roce::Requester;
use pointsman_roce::setup::Memory;
use pointsman_wire::Random;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

/// Queue pairs of the switch with each server, a power of two.
pub const PAIRS: u32 = 4;
/// The switch's queue pair of number 0 (`TEA_FIRST_PAIR`).
const FIRST_PAIR: u32 = 0x100;
/// The switch's addresses in requests.
const SWITCH: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 9, 0, 1), Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1));
/// The controller's queue pair with each server.
const OWN_PAIR: u32 = 0x90;
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

/// Bytes of memory that each server of a plan needs.
pub fn dram_bytes(options: &Options) -> u64 {
    let scratchpads = options.layout.scratchpads();
    let cells = cells(scratchpads, options.entries, options.servers);
    let layout = options.app.layout(scratchpads);
    cells.first().map_or(0, |cells| server_bytes(layout, *cells, options.copies))
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

/// All memory servers.
#[derive(Default)]
pub(super) struct Memories {
    pub servers: Vec<Server>,
    alive: Option<Instant>,
}

impl Memories {
    /// Shows the servers that the controller lives.
    pub fn keep_alive(&mut self) -> Result<()> {
        if self.alive.is_some_and(|at| at.elapsed() < ALIVE) {
            return Ok(());
        }
        self.alive = Some(Instant::now());
        for server in &mut self.servers {
            // One that hangs does not answer; its queue pairs stay.
            let _ = server.client.memory();
        }
        Ok(())
    }
}

/// A memory server.
pub(super) struct Server {
    /// Of its memory that are used.
    pub bytes: u64,
    pub memory: Memory,
    /// Numbers and first packet sequence numbers of the switch's queue pairs.
    pub pairs: Vec<(u32, u32)>,
    /// The switch's way to it.
    pub mac: u64,
    pub address: IpAddr,
    pub port: u16,
    client: Client,
}

impl Server {
    /// Address of a queue pair's scratchpads, which rows have in their place.
    pub fn ring(&self, pair: usize) -> u64 {
        let after = u64::from(PAIRS - pair as u32) * u64::from(RING * SLOT);
        (self.memory.address + self.bytes).saturating_sub(after)
    }

    /// The number of a server's queue pair in the switch.
    pub fn pair_number(server: usize, pair: usize) -> u32 {
        server as u32 * PAIRS + pair as u32
    }

    /// Server and pair of such a number.
    pub fn place(number: u32) -> (usize, usize) {
        ((number / PAIRS) as usize, (number % PAIRS) as usize)
    }

    /// Gets another queue pair in the place of one that ended, which begins with the number `psn`.
    pub fn renew(&mut self, (i, pair): (usize, usize), psn: u32) -> std::result::Result<(), ClientError> {
        if let Some((old, _)) = self.pairs.get(pair) {
            // It may be gone already.
            let _ = self.client.remove(*old);
        }
        let number = self.client.pair(
            FIRST_PAIR + Server::pair_number(i, pair),
            psn,
            switch_address(self.address.is_ipv6()),
        )?;
        if let Some(place) = self.pairs.get_mut(pair) {
            *place = (number, psn);
        }
        Ok(())
    }

    /// Connects to a server, and gets queue pairs for the switch and the controller.
    pub fn set_up(
        (i, ipv6): (usize, bool),
        layout: Layout,
        bytes: u64,
        random: &mut Random,
    ) -> Result<(Server, Management, Requester)> {
        let failed = |e: String| Error::new(format!("memory server {i}: {e}"));
        let mut client =
            Client::connect(Bed::setup(i), Some(bed::SECRET)).map_err(|e| Error::new(e.to_string()))?;
        let memory = client.memory().map_err(|e| failed(e.to_string()))?;
        fits(&memory, layout, bytes).map_err(failed)?;
        let mut psn = || random.below(1 << 24) as u32;
        let own_psn = psn();
        let (to, from) = management(i);
        let (to, from) = (IpAddr::V4(to), IpAddr::V4(from));
        let own = client.pair(OWN_PAIR, own_psn, from).map_err(|e| failed(e.to_string()))?;
        let mut pairs = Vec::new();
        for pair in 0..PAIRS as usize {
            let (peer, psn) = (FIRST_PAIR + Server::pair_number(i, pair), psn());
            let own = switch_address(ipv6);
            let number = client.pair(peer, psn, own).map_err(|e| failed(e.to_string()))?;
            pairs.push((number, psn));
        }
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
        let requester =
            Requester::new(own, own_psn, memory.mtu, RETRY_NS, RETRIES).map_err(|e| failed(e.to_string()))?;
        let server =
            Server { bytes, memory, pairs, mac: mac.to_u64(), address, port: SERVER + i as u16, client };
        Ok((server, management, requester))
    }
}

/// Whether a server's memory is enough, and its packets long enough.
fn fits(memory: &Memory, layout: Layout, needed: u64) -> std::result::Result<(), String> {
    if memory.bytes < needed {
        return Err(format!(
            "{} bytes of memory, and {needed} are needed: give `pointsman memory` a larger --size, or add servers",
            memory.bytes
        ));
    }
    let window = WINDOW as usize * layout.cell_bytes();
    let row = match layout.scratchpads {
        Scratchpads::Ring => window.max(HEAD + PACKET),
        Scratchpads::Inline => window + ROW_HEAD + PACKET,
    };
    if memory.mtu < row {
        return Err(format!(
            "a path MTU of {} bytes, and an answer has up to {row}: give its interfaces an MTU of at least {}",
            memory.mtu,
            row.next_power_of_two() + 80
        ));
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
        let few = fits(&memory(needed - 1, 2048), layout, needed).expect_err("too few");
        assert!(few.contains("larger --size"), "{few}");
        let short = fits(&memory(needed, 1024), layout, needed).expect_err("too short");
        assert!(short.contains("MTU of at least 2128"), "{short}");
        assert_eq!(cells(Scratchpads::Ring, 600, 2), [504, 504]);
        assert_eq!(cells(Scratchpads::Inline, 600, 2), [608, 608]);
        // Rows of 8 cells of 48 bytes and a scratchpad, for four cells each; no ring. The longest answer fits a path MTU of 2,048.
        let layout = App::Vpn.layout(Scratchpads::Inline);
        let needed = server_bytes(layout, 608, 2);
        assert_eq!(needed, (2 * 152 * (8 * 48 + 1536u64)).next_multiple_of(4096));
        assert_eq!(fits(&memory(needed, 2048), layout, needed), Ok(()));
        let short = fits(&memory(needed, 1024), layout, needed).expect_err("too short");
        assert!(short.contains("an answer has up to 1913"), "{short}");
    }
}
