//! A folder for the files of one run.

use crate::signals::{self, SignalError};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A folder that is removed when it is dropped.
pub struct Folder(PathBuf);

/// The folder cannot be made.
#[derive(Debug)]
pub struct FolderError(PathBuf, io::Error);

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot make {}: {}", self.0.display(), self.1)
    }
}

impl Error for FolderError {}

impl Folder {
    /// A folder of this process, for this command, where the system keeps temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(command: &str) -> Result<Folder, FolderError> {
        let path = std::env::temp_dir().join(format!("pointsman-{command}-{}", std::process::id()));
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(Folder(path)),
            Err(e) => Err(FolderError(path, e)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes it also when a signal ends the process.
    ///
    /// # Errors
    /// As of [`signals::end_process`].
    pub fn remove_at_signals(&self) -> Result<(), SignalError> {
        let path = self.0.clone();
        signals::end_process(move || remove(&path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(folder: &Path) {
    // Nothing can be done about a folder that stays.
    let _ = std::fs::remove_dir_all(folder);
}
