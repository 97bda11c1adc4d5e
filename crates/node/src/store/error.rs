//! Why a store cannot run.

use super::asker::AskerError;
use super::views::ViewsError;
use crate::etcd::SettingsError;
use crate::etcd::flags::PREFIX_REMEDY;
use pointsman_store::{ConfigError, LoadError, ViewError};
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

/// Why a store cannot run.
#[derive(Debug)]
pub enum StoreError {
    /// The settings do not go together.
    Config(ConfigError),
    /// Flags do not go together, with the remedy.
    Flags(&'static str),
    /// Two addresses for a node.
    Twice(String),
    /// No address for this node.
    Nowhere(String),
    /// The name or view of a node.
    View(ViewError),
    /// The address for other nodes cannot be used.
    Peer(SocketAddr, io::Error),
    /// A multicast group without an interface.
    Group(SocketAddr),
    /// A multicast group, for which the kernel lists no interfaces.
    Interfaces(SocketAddr, io::Error),
    /// The address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// The folder of the state cannot be made.
    Folder(PathBuf, io::Error),
    /// Another store has the file.
    Taken(PathBuf),
    /// The file is not one of this version's stores, or is damaged.
    Foreign(PathBuf, String),
    /// A row of the file cannot be loaded.
    Row(PathBuf, LoadError),
    /// The disk refuses.
    Disk(PathBuf, String),
    /// The kernel does not let it wait.
    Wait(io::Error),
    /// The prefix of keys in etcd cannot be one.
    Prefix(String),
    /// Etcd cannot be used.
    Etcd(SettingsError),
    /// Etcd cannot be asked.
    Asker(AskerError),
    /// Views cannot be agreed on.
    Views(ViewsError),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Config(e) => e.fmt(f),
            StoreError::Flags(text) => f.write_str(text),
            StoreError::Twice(name) => {
                write!(f, "two --peer for the node `{name}`: give each node its own name and one address")
            }
            StoreError::Nowhere(name) => {
                write!(
                    f,
                    "--name {name}: give the address of this node, too, with --peer {name}=ADDRESS:PORT"
                )
            }
            StoreError::View(e) => e.fmt(f),
            StoreError::Peer(at, e) => {
                write!(
                    f,
                    "cannot use {at} for messages of other nodes: {e}; give another address with --peer"
                )
            }
            StoreError::Group(at) => {
                let family = if at.is_ipv6() { "IPv6" } else { "IPv4" };
                write!(
                    f,
                    "--listen {at}: no interface of this machine can join the group; give one an {family} address"
                )
            }
            StoreError::Interfaces(at, e) => write!(
                f,
                "--listen {at}: cannot list the interfaces that are to join the group: {e}; allow this program netlink, in units of systemd \
                 with AF_NETLINK in RestrictAddressFamilies"
            ),
            StoreError::Listen(at, e) => {
                write!(f, "cannot listen on {at}: {e}; choose another address with --listen")
            }
            StoreError::Folder(path, e) => {
                write!(f, "cannot make {} for --data: {e}", path.display())
            }
            StoreError::Taken(path) => {
                write!(f, "another store uses {}: stop it, or give another --data", path.display())
            }
            StoreError::Foreign(path, why) => write!(
                f,
                "{} is not the state of a store of this version, or is damaged: {why}; restore a copy, or give another --data",
                path.display()
            ),
            StoreError::Row(path, LoadError::Full) => {
                write!(f, "{} has {}: give a larger --max-keys", path.display(), LoadError::Full)
            }
            StoreError::Row(path, e) => {
                write!(f, "{} has {e}: it is damaged; restore a copy, or give another --data", path.display())
            }
            StoreError::Disk(path, why) => write!(f, "cannot write {}: {why}", path.display()),
            StoreError::Wait(e) => write!(f, "cannot wait: {e}"),
            StoreError::Prefix(text) => write!(f, "--etcd-prefix `{text}`: {PREFIX_REMEDY}"),
            StoreError::Etcd(e) => e.fmt(f),
            StoreError::Asker(e) => e.fmt(f),
            StoreError::Views(e) => e.fmt(f),
        }
    }
}

impl Error for StoreError {}
