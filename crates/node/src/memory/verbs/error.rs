//! Why a network adapter cannot lend memory.

use std::error::Error;
use std::net::IpAddr;
use std::{fmt, io};

/// A call of libibverbs that failed.
#[derive(Debug)]
pub struct CallError(pub &'static str, pub io::Error);

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

impl Error for CallError {}

/// Why a network adapter cannot have another queue pair, in words for a controller.
#[derive(Debug)]
pub enum PairError {
    /// No route to this address.
    NoRoute(IpAddr, io::Error),
    /// Packets leave through an interface that is not the device's.
    OtherInterface {
        /// For packets to this address.
        to: IpAddr,
        /// The address that they have.
        own: IpAddr,
        /// The device.
        device: String,
        /// Its interfaces.
        interfaces: Vec<String>,
    },
    /// The device has no room.
    Full {
        /// The call that failed.
        call: CallError,
        /// How many queue pairs there are.
        pairs: usize,
        /// The device's limit.
        most: i32,
    },
    /// This address has no Ethernet address.
    NoNeighbour(IpAddr, CallError),
    /// A call failed for another reason.
    Call(CallError),
}

impl PairError {
    /// A call for a connection to this address failed, with so many of the possible queue pairs.
    pub fn of_call(call: CallError, to: IpAddr, pairs: usize, most: i32) -> Self {
        use io::ErrorKind::{HostUnreachable, NetworkUnreachable, OutOfMemory, StorageFull, TimedOut};
        match call.1.kind() {
            OutOfMemory | StorageFull => PairError::Full { call, pairs, most },
            HostUnreachable | NetworkUnreachable | TimedOut => PairError::NoNeighbour(to, call),
            _ => PairError::Call(call),
        }
    }
}

impl fmt::Display for PairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairError::NoRoute(to, e) => write!(f, "the server has no route to {to} ({e}): add one"),
            PairError::OtherInterface { to, own, device, interfaces } => write!(
                f,
                "the server's packets to {to} have the address {own}, which is not one of {device} at {}: add a route through such \
                 an interface",
                interfaces.join(", ")
            ),
            PairError::Full { call, pairs, most } => write!(
                f,
                "the device has {pairs} queue pairs and no room for another one ({call}; its limit is {most}): remove some"
            ),
            PairError::NoNeighbour(to, call) => write!(
                f,
                "the server finds no Ethernet address for {to} ({call}): give it a route and a neighbour there (`ip neighbour`)"
            ),
            PairError::Call(call) => call.fmt(f),
        }
    }
}

impl Error for PairError {}

/// Why a network adapter cannot lend memory.
#[derive(Debug)]
pub enum VerbsError {
    /// The library, or a function of it, could not be loaded.
    Library(String),
    /// The kernel has no RDMA devices.
    NoKernel(io::Error),
    /// This device is not there; these are.
    Unknown(String, Vec<String>),
    /// This device may not be used by this user.
    Permission(String, io::Error),
    /// The device has no GID for RoCEv2 at this interface; it has some at these.
    NoGid {
        /// The device.
        device: String,
        /// The interface.
        interface: String,
        /// Interfaces at which it has some.
        present: Vec<String>,
    },
    /// A port of the device carries packets that are too short for InfiniBand.
    Mtu(String, u8),
    /// The device keeps answers for so many READs in flight, and switches have this many.
    Reads(i32, u8),
    /// The device's largest region has so many bytes.
    Region(u64, u64),
    /// The process has no memory of so many bytes.
    NoMemory(u64),
    /// The kernel locks so many bytes only, if it says so.
    Locked(u64, Option<u64>),
    /// A call failed for another reason.
    Call(CallError),
}

impl From<CallError> for VerbsError {
    fn from(e: CallError) -> Self {
        VerbsError::Call(e)
    }
}

/// Bytes of memory that this process may lock.
fn lock_limit() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

impl VerbsError {
    /// The library has no list of devices.
    pub(super) fn of_list(e: CallError) -> Self {
        // ENOSYS, ENOENT: the kernel has no module for RDMA.
        if matches!(e.1.kind(), io::ErrorKind::Unsupported | io::ErrorKind::NotFound) {
            VerbsError::NoKernel(e.1)
        } else {
            e.into()
        }
    }

    /// A device cannot be opened.
    pub(super) fn of_open(device: &str, e: CallError) -> Self {
        if e.1.kind() == io::ErrorKind::PermissionDenied {
            VerbsError::Permission(device.into(), e.1)
        } else {
            e.into()
        }
    }

    /// Memory cannot be lent.
    pub(super) fn of_region(bytes: u64, e: CallError) -> Self {
        match e.1.kind() {
            io::ErrorKind::OutOfMemory => {
                VerbsError::Locked(bytes, lock_limit().filter(|limit| *limit < bytes))
            }
            _ => e.into(),
        }
    }
}

fn listed(what: &[String]) -> String {
    if what.is_empty() { "none".into() } else { what.join(", ") }
}

impl fmt::Display for VerbsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("--verbs: ")?;
        match self {
            VerbsError::Library(why) => write!(
                f,
                "libibverbs is not available: {why}; install it (Debian: libibverbs1 and ibverbs-providers)"
            ),
            VerbsError::NoKernel(e) => write!(
                f,
                "this kernel has no RDMA devices ({e}): load ib_uverbs and the adapter's driver (`modprobe`)"
            ),
            VerbsError::Unknown(name, present) if present.is_empty() => write!(
                f,
                "unknown device {name}: this machine has none; load the adapter's driver and install its library (Debian: ibverbs-providers)"
            ),
            VerbsError::Unknown(name, present) => {
                write!(f, "unknown device {name}: this machine has {}", present.join(", "))
            }
            VerbsError::Permission(name, e) => {
                write!(f, "{name}: {e}: run as root, or as a user that may open /dev/infiniband/uverbs*")
            }
            VerbsError::NoGid { device, interface, present } => write!(
                f,
                "{device} has no address (GID) for RoCEv2 at {interface}; interfaces at which it has one: {}. Name one of them with -i, or give {interface} an IP address if it is a port of {device}",
                listed(present)
            ),
            VerbsError::Mtu(device, port) => write!(
                f,
                "port {port} of {device} does not carry InfiniBand's smallest path MTU, 256 bytes: give the interface a larger MTU"
            ),
            VerbsError::Reads(kept, needed) => write!(
                f,
                "the device keeps answers for {kept} READs in flight, and switches have {needed}: use another device"
            ),
            VerbsError::Region(asked, largest) => {
                write!(
                    f,
                    "--size: {asked} bytes, and the device's largest region has {largest}: give a smaller size"
                )
            }
            VerbsError::NoMemory(asked) => {
                write!(f, "--size: this machine has no {asked} bytes of memory: give a smaller size")
            }
            VerbsError::Locked(asked, Some(limit)) => write!(
                f,
                "--size: {asked} bytes, and this process may lock {limit}: raise the limit (`ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit), or run with CAP_IPC_LOCK"
            ),
            VerbsError::Locked(asked, None) => {
                write!(f, "--size: the kernel does not lock {asked} bytes of memory: give a smaller size")
            }
            VerbsError::Call(e) => e.fmt(f),
        }
    }
}

impl Error for VerbsError {}
