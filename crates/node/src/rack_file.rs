//! The rack description, its agents' keys and the API's tokens, as files; `pointsman keys` creates keys and a first token.

use crate::controller::files::replace;
use pointsman_balance::Rack;
use pointsman_balance::trust::{ReportKeys, Trust};
use pointsman_console::say;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Create missing agent keys in the key file named by the rack description, and an API token if the token file of `[api]`
/// does not exist.
///
/// The controller needs the whole key file, an agent only its own lines.
#[derive(clap::Args)]
pub struct Args {
    /// Rack description.
    rack: PathBuf,
    /// Add a new key for every agent. Once all agents use theirs, delete the old lines.
    #[arg(long)]
    renew: bool,
}

fn text_of(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

fn parse(path: &Path, text: &str) -> Result<Rack, String> {
    Rack::parse(&path.display().to_string(), text).map_err(|e| e.to_string())
}

/// Reads a description.
pub fn describe(path: &Path) -> Result<Rack, String> {
    parse(path, &text_of(path)?)
}

/// The file of keys of a description: relative to it.
pub fn key_file(path: &Path, rack: &Rack) -> Option<PathBuf> {
    let Trust::Keys(keys) = &rack.switch.reports else { return None };
    Some(path.parent().unwrap_or(Path::new("")).join(keys))
}

fn take_keys(rack: &mut Rack, file: &Path, text: &str) -> Result<(), String> {
    let shown = file.display();
    for name in rack.read_keys(&shown.to_string(), text)? {
        say(&format!("{shown}: the rack has no device `{name}`: key ignored"));
    }
    Ok(())
}

/// Reads a description and the keys that it names.
pub fn read(path: &Path) -> Result<Rack, String> {
    with_keys(path, describe(path)?)
}

fn with_keys(path: &Path, mut rack: Rack) -> Result<Rack, String> {
    if let Some(file) = key_file(path, &rack) {
        let shown = file.display();
        let text = std::fs::read_to_string(&file).map_err(|e| {
            format!(
                "switch.report_keys: cannot read {shown}: {e}; create it with `pointsman keys {}`",
                path.display()
            )
        })?;
        if std::fs::metadata(&file).is_ok_and(|m| m.permissions().mode() & 0o077 != 0) {
            say(&format!("{shown}: other users can read these keys and forge reports: chmod 600 {shown}"));
        }
        take_keys(&mut rack, &file, &text)?;
    }
    Ok(rack)
}

/// The same, and each of its agents has a key.
pub fn read_complete(path: &Path) -> Result<Rack, String> {
    complete(path, &text_of(path)?)
}

/// The same from a text that was read from `path`.
pub fn complete(path: &Path, text: &str) -> Result<Rack, String> {
    let rack = with_keys(path, parse(path, text)?)?;
    let without = rack.without_key();
    if without.is_empty() {
        return Ok(rack);
    }
    let command = format!("pointsman keys {}", path.display());
    Err(format!("{} have no key in the file of switch.report_keys: run `{command}`", without.join(", ")))
}

/// Random bytes for secrets.
fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|e| format!("cannot read /dev/urandom: {e}"))
}

/// Random numbers for keys.
pub fn new_keys(rack: &Rack, keys: &mut ReportKeys, renew: bool) -> Result<usize, String> {
    let mut failed = None;
    let made = keys.extend(rack, renew, || random().map_err(|e| failed = Some(e)).unwrap_or_default())?;
    failed.map_or(Ok(made), Err)
}

/// Name of the holder of the first token.
const OPERATOR: &str = "operator";

/// Creates an API token if the token file does not exist, and prints the file's name.
fn make_token(path: &Path, rack: &Rack) -> Result<Option<PathBuf>, String> {
    let Some(api) = &rack.api else { return Ok(None) };
    let file = path.parent().unwrap_or(Path::new("")).join(&api.tokens);
    if file.exists() {
        return Ok(None);
    }
    let token = random::<16>()?;
    let digits: String = token.iter().map(|b| format!("{b:02x}")).collect();
    replace(&file, &format!("{OPERATOR} {digits}\n"))?;
    Ok(Some(file))
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, String> {
    let mut rack = describe(&args.rack)?;
    let token = make_token(&args.rack, &rack)?;
    if let Some(file) = &token {
        let file = file.display();
        say(&format!("{file}: a token for `{OPERATOR}`; use it with `pointsman policy --token-file {file}`"));
    }
    let Some(file) = key_file(&args.rack, &rack) else {
        if token.is_some() {
            return Ok(ExitCode::SUCCESS);
        }
        return Err("switch.report_keys is not set: write report_keys = \"report-keys.txt\"".into());
    };
    let shown = file.display().to_string();
    match std::fs::read_to_string(&file) {
        Ok(text) => take_keys(&mut rack, &file, &text)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(format!("cannot read {shown}: {e}")),
    }
    let mut keys = rack.keys.clone();
    let made = new_keys(&rack, &mut keys, args.renew)?;
    if made > 0 {
        replace(&file, &keys.text(&rack))?;
    }
    say(&format!("{shown}: {made} new keys"));
    Ok(ExitCode::SUCCESS)
}
