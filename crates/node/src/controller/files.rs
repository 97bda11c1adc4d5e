//! The API's files: tokens, and the state kept over a restart.

use pointsman_balance::api::Tokens;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Reads the file of tokens. That others can read it is worth a note.
pub(super) fn tokens(path: &Path, notes: &mut Vec<String>) -> Result<Tokens, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| {
        format!("cannot read {shown} for api.tokens: {e}; `pointsman keys` with rack.toml creates it")
    })?;
    let tokens = Tokens::parse(&text).map_err(|e| format!("{shown}: {e}"))?;
    if let Ok(meta) = std::fs::metadata(path)
        && meta.permissions().mode() & 0o007 != 0
    {
        notes.push(format!("every user of this machine can read the tokens in {shown}: chmod o= {shown}"));
    }
    Ok(tokens)
}

/// Writes a file that only its owner may read. It is either the old one or the new one, whenever the power fails.
pub fn replace(path: &Path, text: &str) -> Result<(), String> {
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
    write().map_err(|e| format!("cannot write {}: {e}", path.display()))
}
