//! Why a memory server cannot run.

use super::verbs::VerbsError;
use pointsman_ports::PortError;
use pointsman_roce::HostError;
use std::error::Error;
use std::net::IpAddr;
use std::{fmt, io};

/// Why a memory server cannot run.
#[derive(Debug)]
pub enum MemoryError {
    /// The settings do not go together.
    Host(HostError),
    /// An interface cannot be used.
    Port(PortError),
    /// Two ports have this number, or this interface.
    Twice(String),
    /// The machine has so many bytes of free memory, which is less than asked for.
    TooLarge(u64, u64),
    /// Another program receives RoCEv2 at this address.
    Taken(IpAddr, io::Error),
    /// The network adapter cannot lend memory.
    Verbs(VerbsError),
    /// The kernel does not let it wait.
    Wait(io::Error),
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::Host(e) => e.fmt(f),
            MemoryError::Port(e) => e.fmt(f),
            MemoryError::Twice(what) => write!(f, "-i: two ports have {what}: change one"),
            MemoryError::TooLarge(asked, free) => write!(
                f,
                "--size: {asked} bytes, and this machine has {free} free: give a smaller size, or free memory"
            ),
            MemoryError::Taken(address, e) if e.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "another program receives RoCEv2 at {address} (`pointsman memory`, or the kernel's rdma_rxe): stop it"
            ),
            MemoryError::Taken(address, e) => {
                write!(f, "cannot keep the kernel from answering at {address}: {e}")
            }
            MemoryError::Verbs(e) => e.fmt(f),
            MemoryError::Wait(e) => write!(f, "cannot wait: {e}"),
        }
    }
}

impl Error for MemoryError {}
