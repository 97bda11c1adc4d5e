//! Errors of a port as a whole.

use std::path::PathBuf;
use std::{error, fmt, io};

use crate::pcap::ReadError;

/// Trouble with a port. Trouble with single frames is counted instead, see [`DropReason`](crate::DropReason).
#[derive(Debug)]
#[non_exhaustive]
pub enum PortError {
    /// The network namespace has no interface of this name.
    NoSuchInterface {
        /// The requested name.
        interface: String,
    },
    /// The name cannot be the name of an interface.
    BadInterfaceName {
        /// The requested name.
        interface: String,
    },
    /// The process lacks CAP_NET_RAW in the user namespace that owns the network namespace.
    PermissionDenied {
        /// The interface to be opened.
        interface: String,
    },
    /// The interface carries something other than Ethernet frames.
    NotEthernet {
        /// The interface to be opened.
        interface: String,
        /// Its hardware type (ARPHRD_*).
        hardware: u16,
    },
    /// The interface went down. The port resumes by itself once the interface is up again.
    LinkDown {
        /// The interface.
        interface: String,
    },
    /// The interface was removed. The port resumes by itself once one of the same name is back.
    LinkGone {
        /// The interface.
        interface: String,
    },
    /// An interface cannot be used through AF_XDP.
    NoAfXdp {
        /// The interface to be opened.
        interface: String,
        /// The obstacle.
        why: String,
    },
    /// A tap interface of this name cannot be created.
    NoTap {
        /// The requested name.
        interface: String,
        /// The obstacle, and its remedy.
        why: String,
    },
    /// Any other refusal by the kernel.
    System {
        /// The port's name.
        port: String,
        /// The failed action, to follow "could not".
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A value of a configuration is out of range.
    Config {
        /// The field.
        field: &'static str,
        /// The valid values.
        rule: &'static str,
    },
    /// A capture file could not be created or written. Tracing of the port has stopped, the port continues.
    Capture {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A capture file could not be replayed any further.
    Replay {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ReadError,
    },
}

impl PortError {
    /// The meaning of the kernel's error when an interface is opened.
    pub(crate) fn from_system(interface: &str, doing: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENODEV) => Self::NoSuchInterface { interface: interface.into() },
            Some(libc::EPERM | libc::EACCES) => Self::PermissionDenied { interface: interface.into() },
            _ => Self::System { port: interface.into(), doing, source },
        }
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchInterface { interface } => write!(
                f,
                "no such interface '{interface}': choose one that `ip -br link` lists in this network namespace, or, \
                 for a test, create it with `ip link add {interface} type veth`"
            ),
            Self::BadInterfaceName { interface } => write!(
                f,
                "'{interface}' cannot be an interface name: give 1 to 15 bytes without '/' or white space, as \
                 `ip link` shows them"
            ),
            Self::PermissionDenied { interface } => write!(
                f,
                "permission denied to open '{interface}' for packets: run as root, with CAP_NET_RAW, or inside \
                 `unshare -Urn`"
            ),
            Self::NotEthernet { interface, hardware } => write!(
                f,
                "'{interface}' does not carry Ethernet frames (hardware type {hardware}): use a veth, a tap or an \
                 Ethernet card"
            ),
            Self::LinkDown { interface } => {
                write!(f, "'{interface}' is down: bring it up with `ip link set {interface} up`")
            }
            Self::LinkGone { interface } => write!(
                f,
                "'{interface}' was removed: traffic resumes when an interface of that name is created again"
            ),
            Self::NoAfXdp { interface, why } => {
                write!(f, "'{interface}' cannot be used through AF_XDP: {why}; AF_PACKET may work")
            }
            Self::NoTap { interface, why } => {
                write!(f, "cannot create the tap interface '{interface}': {why}")
            }
            Self::System { port, doing, source } => write!(f, "port '{port}': could not {doing}: {source}"),
            Self::Config { field, rule } => write!(f, "{field} must be {rule}"),
            Self::Capture { path, source } => write!(
                f,
                "could not write the capture '{}': {source}; check that the directory exists and has space",
                path.display()
            ),
            Self::Replay { path, source } => write!(f, "could not replay '{}': {source}", path.display()),
        }
    }
}

impl error::Error for PortError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::System { source, .. } | Self::Capture { source, .. } => Some(source),
            Self::Replay { source, .. } => Some(source),
            _ => None,
        }
    }
}
