//! A switch with the balancer, clients and devices around it, and the checker.

use pointsman_engine::Engine;
use pointsman_ir::Program;
use pointsman_testkit::Rig;
use pointsman_testkit::compile::{compile_with, own_includes, own_program};
use pointsman_testkit::packet::tcp_flags::*;
use pointsman_testkit::random::Random;
use pointsman_v1model::{Arrived, Sink, SwitchConfig};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, OnceLock};

/// Addresses of clients, and of all devices.
pub const CLIENTS: u32 = 1;
const DEVICES: u32 = 2;
const SWITCH: [u8; 6] = [0x02, 0x50, 0x4d, 0, 0, 1];
const VIP: [u8; 4] = [10, 0, 0, 100];
const VIP6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const PORT: u16 = 80;

/// Servers 1 to 8 with eight devices each.
pub const SERVERS: u16 = 8;

/// Idle time of connections.
pub const IDLE_MS: u64 = 60_000;
/// The program's constants: how long an ended connection lingers (2 s), and how long a handshake may take (5 s),
/// rounded up as it rounds.
pub const LINGER_MS: u64 = 2_010;
pub const HALF_OPEN_MS: u64 = 5_050;

/// Reasons in `drops`.
pub const NO_CONNECTION: u64 = 8;
pub const TABLE_FULL: u64 = 9;

/// Is the million asked for?
pub fn full() -> bool {
    match std::env::var("POINTSMAN_SCALE") {
        Err(_) => false,
        Ok(size) if size == "million" => true,
        Ok(other) => panic!("POINTSMAN_SCALE is {other:?}: there is only \"million\""),
    }
}

/// The program with 2^`bits` places a way.
pub fn program(bits: u32) -> Arc<Program> {
    static PROGRAMS: OnceLock<Mutex<BTreeMap<u32, Arc<Program>>>> = OnceLock::new();
    let mut programs = PROGRAMS.get_or_init(Mutex::default).lock().expect("no thread panicked");
    let made = programs.entry(bits).or_insert_with(|| {
        let places = format!("CONNECTION_PLACE_BITS={bits}");
        let program = compile_with(&own_program("balancer"), &[&own_includes()], &[&places]);
        program.unwrap_or_else(|e| panic!("{e}"))
    });
    made.clone()
}

/// The clients of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    V4(u32, u16),
    V6(u128, u16),
}

/// The `n`th of 2^40 numbers in no order: neighbours would spread over the table more evenly than the hash of a stranger.
fn scattered(n: u64) -> (u32, u16) {
    let number = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xff_ffff_ffff;
    ((number >> 16) as u32, number as u16)
}

/// The `n`th of many clients.
pub fn client(n: u64) -> Client {
    let (address, port) = scattered(n);
    Client::V4(0x6400_0000 | address, port)
}

/// Another set of as many.
pub fn flooder(n: u64) -> Client {
    let (address, port) = scattered(n);
    Client::V4(0x6500_0000 | address, port)
}

/// A connection as the checker knows it.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub client: Client,
    pub device: u16,
}

/// The switch's reaction to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// To this device, rewritten to its address.
    Device(u16),
    /// To the client, from the VIP.
    Client,
    /// To the client's side, but not from the VIP.
    Plain,
    Dropped,
}

/// Collects what leaves, by the number of the packet in its batch.
struct Went(Vec<Fate>);

impl Sink for Went {
    fn transmit(&mut self, _: u32, _: &[u8]) {
        panic!("it leaves in its buffer");
    }

    fn to_cpu(&mut self, _: &[u8]) {
        panic!("nothing is for the control plane");
    }

    fn transmit_buffer(&mut self, port: u32, number: usize, packet: &[u8]) {
        assert_eq!(self.0[number], Fate::Dropped, "it leaves once");
        let v4 = packet[12..14] == [8, 0];
        self.0[number] = if port == DEVICES {
            let device = u16::from_be_bytes([packet[4], packet[5]]);
            let address = if v4 { &packet[32..34] } else { &packet[52..54] };
            assert_eq!(address, device.to_be_bytes(), "MAC and IP address are of one device");
            Fate::Device(device)
        } else if v4 && packet[26..30] == VIP || !v4 && packet[22..38] == VIP6 {
            Fate::Client
        } else {
            Fate::Plain
        };
    }
}

pub struct Net {
    pub rig: Rig<Engine>,
    pub random: Random,
    /// Places of the whole table.
    pub places: u64,
    /// Packets of connections that went elsewhere or nowhere.
    pub violations: u64,
    /// Packets that were looked at.
    pub checked: u64,
    epoch: u8,
}

impl Net {
    /// All servers in use, servers by hash, devices by turns.
    pub fn new(bits: u32) -> Net {
        let rig = Rig::on(program(bits), SwitchConfig::default()).expect("it can run");
        let mut net =
            Net { rig, random: Random::new(1), places: 4 << bits, violations: 0, checked: 0, epoch: 0 };
        net.wait(1000);
        net.add("local_v4 address=10.0.0.100 -> is_local");
        net.add("local_v6 address=fd00::100 -> is_local");
        net.add("routes_v4 prefix=0.0.0.0/0 -> next_hop(1, 02:00:00:00:00:01)");
        net.add("routes_v6 prefix=::/0 -> next_hop(1, 02:00:00:00:00:01)");
        for d in 8..(SERVERS + 1) * 8 {
            let [high, low] = d.to_be_bytes();
            let mac = format!("02:00:00:00:{high:02x}:{low:02x}");
            net.add(&format!("devices_v4 device={d} -> set_device_v4(10.1.{high}.{low}, {DEVICES}, {mac})"));
            net.add(&format!("devices_v6 device={d} -> set_device_v6(fd01::{d:x}, {DEVICES}, {mac})"));
            net.add(&format!(
                "backends_v4 ingress_port={DEVICES} address=10.1.{high}.{low} protocol=6 port=80 -> set_backend_v4(1, {d}, 10.0.0.100)"
            ));
            net.add(&format!(
                "backends_v4 ingress_port={DEVICES} address=10.1.{high}.{low} protocol=17 port=80 -> set_backend_v4(3, {d}, 10.0.0.100)"
            ));
            net.add(&format!(
                "backends_v6 ingress_port={DEVICES} address=fd01::{d:x} protocol=6 port=80 -> set_backend_v6(2, {d}, fd00::100)"
            ));
        }
        let servers: Vec<u16> = (1..=SERVERS).collect();
        net.change(&servers, 1, 0xff);
        net
    }

    fn add(&mut self, entry: &str) {
        self.rig.add(entry).unwrap_or_else(|e| panic!("{entry}: {e}"));
    }

    fn set(&mut self, entry: &str) {
        self.rig.set(entry).unwrap_or_else(|e| panic!("{entry}: {e}"));
    }

    pub fn wait(&mut self, ms: u64) {
        self.rig.wait_ms(ms);
    }

    /// From now on new connections go to these servers, by this policy of the data plane (3: the fewest connections in flight), and
    /// to these devices of each. Like a controller: the other generation, then one write.
    pub fn change(&mut self, servers: &[u16], policy: u8, devices: u8) {
        self.epoch ^= 1;
        let epoch = self.epoch;
        let slots: Vec<u32> = (0..8).filter(|s| devices >> s & 1 == 1).collect();
        for service in [1, 2, 3] {
            for slot in 0..16 {
                let server = servers[slot % servers.len()];
                self.set(&format!(
                    "server_slots service={service} epoch={epoch} slot={slot} -> use_server({server})"
                ));
            }
            for server in servers {
                let (ring, length) = (100 * service + server, slots.len());
                self.set(&format!(
                    "pools service={service} epoch={epoch} server={server} -> set_pool({devices}, {ring}, {length}, 0)"
                ));
                for (at, slot) in slots.iter().enumerate() {
                    self.set(&format!(
                        "rings service={service} epoch={epoch} server={server} position={at} -> use_device({slot})"
                    ));
                }
                for slot in 0..8 {
                    self.set(&format!(
                        "dip_table service={service} epoch={epoch} server={server} available={}&&&{0} priority={} -> use_device({slot})",
                        1 << slot,
                        10 - slot
                    ));
                }
            }
            let counting = if policy == 3 { 32 } else { 0 };
            self.set(&format!(
                "policies service={service} epoch={epoch} -> set_policy(0, 0, 0, 0, {counting}, 6, 1, 0, 0, 0, 0, 0, 0)"
            ));
            let (v, vip) = if service == 2 { (6, "fd00::100") } else { (4, "10.0.0.100") };
            let protocol = if service == 3 { 17 } else { 6 };
            self.set(&format!(
                "services_v{v} vip={vip} protocol={protocol} port=80 -> set_service({service}, {policy}, {epoch}, 15, {IDLE_MS})"
            ));
        }
    }

    /// Something else, at random: servers come and go, devices are switched on and off, policies change.
    pub fn churn(&mut self) {
        let first = 1 + self.random.below(SERVERS as usize) as u16;
        let count = 1 + self.random.below(SERVERS as usize) as u16;
        let servers: Vec<u16> = (0..count).map(|i| 1 + (first + i) % SERVERS).collect();
        let policy = *self.random.choose(&[0, 1, 2, 3]);
        let devices = 1 + self.random.below(255) as u8;
        self.change(&servers, policy, devices);
    }

    /// How often the balancer dropped for this reason.
    pub fn drops(&mut self, reason: u64) -> u64 {
        self.rig.counter("drops", reason).expect("a counter").packets
    }

    /// Connections that were opened.
    pub fn opened(&mut self) -> u64 {
        [1, 2].iter().map(|s| self.rig.counter("service_connections", *s).expect("a counter").packets).sum()
    }

    fn process(&mut self, port: u32, frames: &mut [Vec<u8>]) -> Vec<Fate> {
        let mut went = Went(vec![Fate::Dropped; frames.len()]);
        let mut batch: Vec<Arrived<'_>> =
            frames.iter_mut().map(|buffer| Arrived { port, buffer, start: 64 }).collect();
        let now = self.rig.now;
        self.rig.switch.process(now, 64, &mut batch, &mut went);
        went.0
    }

    /// Segments of these clients with these flags; the fate of each.
    pub fn requests(&mut self, clients: &[Client], flags: u8) -> Vec<Fate> {
        let mut out = Vec::with_capacity(clients.len());
        for part in clients.chunks(64) {
            let mut frames: Vec<Vec<u8>> = part.iter().map(|c| frame(*c, None, flags)).collect();
            out.extend(self.process(CLIENTS, &mut frames));
        }
        out
    }

    /// Segments of devices to their clients.
    pub fn answers(&mut self, flows: &[Flow], flags: u8) -> Vec<Fate> {
        let mut out = Vec::with_capacity(flows.len());
        for part in flows.chunks(64) {
            let mut frames: Vec<Vec<u8>> =
                part.iter().map(|f| frame(f.client, Some(f.device), flags)).collect();
            out.extend(self.process(DEVICES, &mut frames));
        }
        out
    }

    /// SYNs of these clients: the connections established now. The others were dropped.
    pub fn open(&mut self, clients: &[Client]) -> Vec<Flow> {
        let fates = self.requests(clients, SYN);
        let of = |(client, fate): (&Client, Fate)| match fate {
            Fate::Device(device) => Some(Flow { client: *client, device }),
            Fate::Dropped => None,
            other => panic!("a SYN of {client:?} went {other:?}"),
        };
        clients.iter().zip(fates).filter_map(of).collect()
    }

    /// Opens and completes handshakes.
    pub fn establish(&mut self, clients: &[Client]) -> Vec<Flow> {
        let flows = self.open(clients);
        self.check(&flows, &[(true, SYN | ACK), (false, ACK)]);
        flows
    }

    /// Sends segments of these connections, each with these flags and from the device or not, and checks their
    /// destinations.
    pub fn check(&mut self, flows: &[Flow], segments: &[(bool, u8)]) {
        let clients: Vec<Client> = flows.iter().map(|f| f.client).collect();
        for (from_device, flags) in segments {
            let fates =
                if *from_device { self.answers(flows, *flags) } else { self.requests(&clients, *flags) };
            for (flow, fate) in flows.iter().zip(fates) {
                let right = if *from_device { Fate::Client } else { Fate::Device(flow.device) };
                self.checked += 1;
                self.violations += u64::from(fate != right);
            }
        }
    }

    /// Data of each connection, both ways.
    pub fn use_all(&mut self, flows: &[Flow]) {
        self.check(flows, &[(false, ACK | PSH), (true, ACK | PSH)]);
    }

    /// At least this many segments were checked, and all of them went to the right place.
    #[track_caller]
    pub fn consistent(&self, at_least: u64) {
        assert_eq!(self.violations, 0, "of {} segments", self.checked);
        assert!(self.checked >= at_least, "only {} segments", self.checked);
    }
}

fn sum16(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum()
}

/// In place of flags: a datagram. It goes to service 3, which is there for IPv4 alone.
pub const DATAGRAM: u8 = 0xff;

/// A TCP segment of a client to the VIP, or of a device to the client, behind 64 bytes of room.
pub fn frame(client: Client, device: Option<u16>, flags: u8) -> Vec<u8> {
    let mut f = vec![0; 64];
    f.extend(SWITCH);
    f.extend([2, 0, 0, 0, 0, 9]);
    let (port, is_v4) = match client {
        Client::V4(_, port) => (port, true),
        Client::V6(_, port) => (port, false),
    };
    let (of_service, of_client) = match client {
        Client::V4(address, _) => {
            let device = device.map(|d| [[10, 1].as_slice(), &d.to_be_bytes()].concat());
            (device.unwrap_or(VIP.to_vec()), Ipv4Addr::from(address).octets().to_vec())
        }
        Client::V6(address, _) => {
            let of_device = |d: u16| (0xfd01_u128 << 112 | u128::from(d)).to_be_bytes().to_vec();
            (device.map_or(VIP6.to_vec(), of_device), address.to_be_bytes().to_vec())
        }
    };
    let (src, dst) = if device.is_some() { (of_service, of_client) } else { (of_client, of_service) };
    let start = f.len() + 2;
    let is_datagram = flags == DATAGRAM;
    if is_v4 {
        let (length, protocol) = if is_datagram { (28, 17) } else { (40, 6) };
        f.extend([8, 0, 0x45, 0, 0, length, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
    } else {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64]);
    }
    f.extend(&src);
    f.extend(&dst);
    if is_v4 {
        let sum = sum16(&f[start..]);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = !((sum >> 16) + (sum & 0xffff)) as u16;
        f[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
    }
    let (sport, dport) = if device.is_some() { (PORT, port) } else { (port, PORT) };
    f.extend(sport.to_be_bytes());
    f.extend(dport.to_be_bytes());
    if is_datagram {
        f.extend([0, 8, 0, 0]);
        return f;
    }
    f.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    f
}
