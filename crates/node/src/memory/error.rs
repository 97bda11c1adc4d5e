//! Why a memory server cannot run.

use super::SMALLEST;
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

/// What is wrong with an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ArgumentError {
    /// This is not a size.
    Size(String),
    /// So many bytes are too few.
    Small(u64),
    /// This is not a share.
    Share(String),
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentError::Size(text) => {
                write!(f, "'{text}' is not a size: write a number of bytes, such as 4096, 512MB or 8GB")
            }
            ArgumentError::Small(size) => write!(f, "{size} bytes: give at least {SMALLEST}"),
            ArgumentError::Share(text) => write!(f, "'{text}' is not a share: write a number from 0 to 1"),
        }
    }
}

impl Error for ArgumentError {}
