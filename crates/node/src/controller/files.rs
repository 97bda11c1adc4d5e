//! The API's files: tokens, and the state kept over a restart.

use pointsman_balance::api::Tokens;
use std::error::Error;
use std::fmt;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What is wrong with one of the API's files.
#[derive(Debug)]
pub enum FileError {
    /// The tokens cannot be read.
    Tokens(PathBuf, io::Error),
    /// Another file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A file cannot be written.
    Unwritable(PathBuf, io::Error),
    /// A file does not contain what it should.
    Wrong(PathBuf, String),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Tokens(path, e) => {
                let path = path.display();
                write!(
                    f,
                    "cannot read {path} for api.tokens: {e}; `pointsman keys` with rack.toml creates it"
                )
            }
            FileError::Unreadable(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            FileError::Unwritable(path, e) => write!(f, "cannot write {}: {e}", path.display()),
            FileError::Wrong(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl Error for FileError {}

/// Reads the file of tokens. That others can read it is worth a note.
pub(super) fn tokens(path: &Path, notes: &mut Vec<String>) -> Result<Tokens, FileError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| FileError::Tokens(path.to_path_buf(), e))?;
    let tokens = Tokens::parse(&text).map_err(|e| FileError::Wrong(path.to_path_buf(), e.to_string()))?;
    if let Ok(meta) = std::fs::metadata(path)
        && meta.permissions().mode() & 0o007 != 0
    {
        notes.push(format!("every user of this machine can read the tokens in {shown}: chmod o= {shown}"));
    }
    Ok(tokens)
}

/// Writes a file that only its owner may read. It is either the old one or the new one, whenever the power fails.
///
/// # Errors
/// It cannot be written.
pub fn replace(path: &Path, text: &str) -> Result<(), FileError> {
    let mut name = path.as_os_str().to_os_string();
    name.push(".new");
    let new = Path::new(&name);
    let write = || {
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(new)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(new, path)
    };
    write().map_err(|e| FileError::Unwritable(path.to_path_buf(), e))
}
