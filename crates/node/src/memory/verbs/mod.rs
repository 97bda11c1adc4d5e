//! Memory that a network adapter lends (`pointsman memory --verbs`): queue pairs of an RDMA device, by libibverbs. The adapter answers the requests; this
//! process only sets queue pairs up.

mod calls;
mod error;
mod gids;
#[cfg(test)]
mod tests;

pub use error::{CallError, PairError, VerbsError};

use super::setup::{Served, lock};
use super::{MemoryError, check};
use crate::interfaces::{addresses_of, mac_of};
use crate::log::Level;
use crate::metrics::memory::{Figures, Work};
use crate::service::Stopper;
use crate::switch::Interface;
use calls::{Calls, Connection, Device};
use gids::{Gid, counters, gids};
use pointsman_ports::Poller;
use pointsman_roce::setup::{Memory, Port, Reply, Secret};
use pointsman_roce::{Channel, PORT, Pairs, Rights};
use pointsman_wire::Mac;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names of the library, in the order in which they are tried.
const NAMES: [&str; 2] = ["libibverbs.so.1", "libibverbs.so"];
/// Where the kernel describes RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";
/// How often counters are read, and dead queue pairs found.
const LOOK: Duration = Duration::from_secs(1);
/// READs and atomic operations in flight of a queue pair, as many as switches and controllers have.
const READS: u8 = 16;

/// Settings of an adapter that lends memory.
pub struct Settings {
    /// The device, such as `mlx5_0`.
    pub device: String,
    /// Numbers of interfaces at which it is reached.
    pub interfaces: Vec<Interface>,
    /// Bytes of memory.
    pub bytes: u64,
    /// Key of the set-up channel's digests.
    pub secret: Option<Secret>,
    /// Determines nonces. Others must not know it.
    pub seed: u64,
}

/// What a test replaces.
struct World {
    library: Vec<OsString>,
    devices: PathBuf,
}

/// A device that lends memory, and its set-up channel.
pub struct Server {
    channel: Channel,
    pairs: Hardware,
    /// Queue pairs known to be dead.
    dead: BTreeSet<u32>,
}

/// Queue pairs of a device.
struct Hardware {
    device: Device,
    name: String,
    devices: PathBuf,
    /// Interfaces that are used.
    interfaces: Vec<String>,
    mtu: usize,
    most: i32,
}

fn load(names: &[OsString]) -> Result<Calls, VerbsError> {
    let mut result = Err(VerbsError::Library("no name".into()));
    for name in names {
        result = result.or_else(|_| Calls::load(name));
    }
    result
}

impl Server {
    /// Opens the device and lends it memory. `say` gets what the operator should know.
    fn open(world: World, settings: Settings, mut say: impl FnMut(&str)) -> Result<Self, VerbsError> {
        let Settings { device: name, interfaces, bytes, secret, seed } = settings;
        let mut device = Device::open(load(&world.library)?, &name)?;
        let found = gids(&world.devices, &name);
        let (ports, used) = ports(&name, &interfaces, &found)?;
        let mut mtu = 4096;
        for port in used {
            let (own, is_active) = device.port(port)?;
            if !(256..=4096).contains(&own) {
                return Err(VerbsError::Mtu(name, port));
            }
            if !is_active {
                say(&format!("port {port} of {name} is down: nothing is answered there until it is up"));
            }
            mtu = mtu.min(own);
        }
        let attributes = device.attributes()?;
        if attributes.reads < READS.into() {
            return Err(VerbsError::Reads(attributes.reads, READS));
        }
        let fits = usize::try_from(bytes).ok().filter(|_| bytes <= attributes.largest_region);
        let size = fits.ok_or(VerbsError::Region(bytes, attributes.largest_region))?;
        let atomic = attributes.atomic != 0;
        if !atomic {
            say(&format!("{name} has no atomic operations: requests for them are refused"));
        }
        let (address, key) = device.lend(size, Rights { read: true, write: true, atomic })?;
        let interfaces = interfaces.into_iter().map(|i| i.name).collect();
        let memory = Memory { address, bytes, key, mtu, ports };
        let most = attributes.pairs;
        Ok(Server {
            channel: Channel::new(memory, secret, seed),
            pairs: Hardware { device, name, devices: world.devices, interfaces, mtu, most },
            dead: BTreeSet::new(),
        })
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        self.channel.memory()
    }

    /// Figures for the metrics, and queue pairs that ended since the last look.
    fn look(&mut self) -> (Figures, Vec<u32>) {
        let dead: BTreeSet<u32> = self.pairs.device.dead().into_iter().collect();
        let new = dead.difference(&self.dead).copied().collect();
        let work = Work::Device {
            name: self.pairs.name.clone(),
            counters: counters(&self.pairs.devices, &self.pairs.name),
            dead: dead.len() as u64,
        };
        self.dead = dead;
        (Figures { channel: self.channel.stats(&self.pairs), work }, new)
    }
}

impl Served for Server {
    fn connect(&mut self, connection: u64) -> String {
        self.channel.connect(connection)
    }

    fn disconnect(&mut self, connection: u64) {
        self.channel.disconnect(connection);
    }

    fn line(&mut self, connection: u64, line: &str) -> (Reply, bool) {
        self.channel.line(connection, line, &mut self.pairs)
    }
}

/// A memory server with a device that is ready to run.
pub struct Running {
    /// The device and its set-up channel.
    pub server: Arc<Mutex<Server>>,
    /// For the metrics.
    pub figures: Arc<Mutex<Figures>>,
    /// Handle to stop it.
    pub stopper: Stopper,
    poller: Poller,
}

impl Running {
    /// Opens the device and lends it memory. `log` gets lines for the operator.
    ///
    /// # Errors
    /// The library, the device or an interface is missing, or there is too little memory.
    pub fn open(settings: Settings, mut log: impl FnMut(Level, &str)) -> Result<Self, MemoryError> {
        check(&settings.interfaces, settings.bytes)?;
        let world = World { library: NAMES.map(OsString::from).into(), devices: DEVICES.into() };
        let server = Server::open(world, settings, |text| log(Level::Warn, text));
        let server = Arc::new(Mutex::new(server.map_err(MemoryError::Verbs)?));
        let poller = Poller::new().map_err(MemoryError::Wait)?;
        let stopper = Stopper::new(poller.waker());
        Ok(Running { server, figures: Arc::default(), stopper, poller })
    }

    /// Looks at the device until it is stopped. `log` gets lines for the operator.
    ///
    /// # Errors
    /// The kernel does not let it wait.
    pub fn run(mut self, mut log: impl FnMut(Level, &str)) -> Result<Figures, MemoryError> {
        let mut ready = Vec::new();
        loop {
            let (figures, dead) = lock(&self.server).look();
            for pair in dead {
                log(
                    Level::Warn,
                    &format!(
                        "queue pair {pair} ended: a request was refused, because of its key, place, length or order; the controller may set it up again"
                    ),
                );
            }
            *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures.clone();
            if self.stopper.is_stopped() {
                return Ok(figures);
            }
            self.poller.wait(Some(Instant::now() + LOOK), &mut ready).map_err(MemoryError::Wait)?;
        }
    }
}

/// Ports for controllers, and the device's ports that they are at. Addresses are those that the device answers at, in the interface's order.
fn ports(
    device: &str,
    interfaces: &[Interface],
    gids: &[Gid],
) -> Result<(Vec<Port>, BTreeSet<u8>), VerbsError> {
    let (mut ports, mut used) = (Vec::new(), BTreeSet::new());
    for Interface { number, name } in interfaces {
        let own: Vec<&Gid> = gids.iter().filter(|g| g.interface == *name).collect();
        let is_own = |address: &IpAddr| own.iter().any(|g| g.address == *address);
        let addresses: Vec<IpAddr> = addresses_of(name).into_iter().filter(is_own).collect();
        if addresses.is_empty() {
            let present: BTreeSet<String> = gids.iter().map(|g| g.interface.clone()).collect();
            return Err(VerbsError::NoGid {
                device: device.into(),
                interface: name.clone(),
                present: present.into_iter().collect(),
            });
        }
        used.extend(own.iter().map(|g| g.port));
        let mac = mac_of(name).unwrap_or(Mac([0; 6]));
        ports.push(Port { number: *number, mac, addresses });
    }
    Ok((ports, used))
}

/// The address that this machine uses for packets to another one.
fn own_address(to: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((to, PORT))?;
    Ok(socket.local_addr()?.ip())
}

impl Pairs for Hardware {
    type Error = PairError;

    fn count(&self) -> usize {
        self.device.pairs()
    }

    fn add(&mut self, peer: u32, psn: u32, from: IpAddr) -> Result<u32, PairError> {
        let own = own_address(from).map_err(|e| PairError::NoRoute(from, e))?;
        let gids = gids(&self.devices, &self.name);
        let found = gids.iter().find(|g| g.address == own && self.interfaces.contains(&g.interface));
        let gid = found.ok_or_else(|| PairError::OtherInterface {
            to: from,
            own,
            device: self.name.clone(),
            interfaces: self.interfaces.clone(),
        })?;
        let to = match from {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let (port, own_index) = (gid.port, gid.index);
        let connection = Connection { port, own_index, mtu: self.mtu, peer, psn, to, reads: READS };
        self.device.add(&connection).map_err(|e| PairError::of_call(e, from, self.count(), self.most))
    }

    fn remove(&mut self, pair: u32) -> bool {
        self.device.remove(pair)
    }

    fn clear(&mut self) {
        self.device.clear();
    }
}
