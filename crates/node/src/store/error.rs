//! Why a store cannot run.

use pointsman_store::{ConfigError, LoadError};
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

/// Why a store cannot run.
#[derive(Debug)]
pub enum StoreError {
    /// The settings do not go together.
    Config(ConfigError),
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
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Config(e) => e.fmt(f),
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
        }
    }
}

impl Error for StoreError {}
