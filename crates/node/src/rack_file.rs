//! The rack description, its agents' keys and the API's tokens, as files; `pointsman keys` creates keys and a first token.

use crate::controller::files::{FileError, replace};
use pointsman_balance::config::{KeyFileError, LastKey};
use pointsman_balance::trust::{ReportKeys, Trust};
use pointsman_balance::{ConfigErrors, Rack};
use pointsman_console::say;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
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

/// What is wrong with a description or with the files that it names.
#[derive(Debug)]
pub enum RackError {
    /// A file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The description is wrong.
    Description(ConfigErrors),
    /// The keys cannot be read.
    NoKeys {
        /// Their file.
        keys: PathBuf,
        /// The description's.
        rack: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The file of keys is wrong.
    Keys(KeyFileError),
    /// An agent has the key with the highest number.
    LastKey(LastKey),
    /// The store's secret cannot be read.
    StoreSecret(PathBuf, String),
    /// These devices have no key, says this description.
    Keyless(Vec<String>, PathBuf),
    /// The description names no file of keys.
    NoKeyFile,
    /// The kernel has no random numbers.
    Random(io::Error),
    /// A file cannot be written.
    Unwritable(FileError),
}

impl fmt::Display for RackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RackError::Unreadable(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            RackError::Description(e) => e.fmt(f),
            RackError::NoKeys { keys, rack, error } => {
                let (keys, rack) = (keys.display(), rack.display());
                write!(
                    f,
                    "switch.report_keys: cannot read {keys}: {error}; create it with `pointsman keys {rack}`"
                )
            }
            RackError::Keys(error) => error.fmt(f),
            RackError::LastKey(error) => error.fmt(f),
            RackError::StoreSecret(file, why) => write!(f, "switch.store.secret: {}: {why}", file.display()),
            RackError::Keyless(devices, rack) => write!(
                f,
                "{} have no key in the file of switch.report_keys: run `pointsman keys {}`",
                devices.join(", "),
                rack.display()
            ),
            RackError::NoKeyFile => {
                f.write_str("switch.report_keys is not set: write report_keys = \"report-keys.txt\"")
            }
            RackError::Random(e) => write!(f, "cannot read /dev/urandom: {e}"),
            RackError::Unwritable(e) => e.fmt(f),
        }
    }
}

impl Error for RackError {}

/// The text of a description.
///
/// # Errors
/// It cannot be read.
pub fn text_of(path: &Path) -> Result<String, RackError> {
    std::fs::read_to_string(path).map_err(|e| RackError::Unreadable(path.to_path_buf(), e))
}

fn parse(path: &Path, text: &str) -> Result<Rack, RackError> {
    Rack::parse(&path.display().to_string(), text).map_err(RackError::Description)
}

/// Reads a description.
///
/// # Errors
/// It cannot be read, or is wrong.
pub fn describe(path: &Path) -> Result<Rack, RackError> {
    parse(path, &text_of(path)?)
}

/// The file of keys of a description: relative to it.
pub fn key_file(path: &Path, rack: &Rack) -> Option<PathBuf> {
    let Trust::Keys(keys) = &rack.switch.reports else { return None };
    Some(path.parent().unwrap_or(Path::new("")).join(keys))
}

fn take_keys(rack: &mut Rack, file: &Path, text: &str, note: &mut dyn FnMut(&str)) -> Result<(), RackError> {
    let shown = file.display();
    for name in rack.read_keys(&shown.to_string(), text).map_err(RackError::Keys)? {
        note(&format!("{shown}: the rack has no device `{name}`: key ignored"));
    }
    Ok(())
}

/// Reads a description and the keys that it names. `note` gets what an operator should know of the keys.
///
/// # Errors
/// A file cannot be read, or is wrong.
pub fn read(path: &Path, note: &mut dyn FnMut(&str)) -> Result<Rack, RackError> {
    with_keys(path, describe(path)?, note)
}

/// Takes the secret of the store, from its file: relative to the description.
fn take_secret(path: &Path, rack: &mut Rack) -> Result<(), RackError> {
    let Some(store) = &rack.switch.store else { return Ok(()) };
    let file = path.parent().unwrap_or(Path::new("")).join(&store.secret_file);
    let wrong = |why| RackError::StoreSecret(file.clone(), why);
    let text = std::fs::read_to_string(&file).map_err(|e| wrong(format!("cannot read it: {e}")))?;
    rack.take_store_secret(&text).map_err(|e| wrong(e.to_string()))
}

fn with_keys(path: &Path, mut rack: Rack, note: &mut dyn FnMut(&str)) -> Result<Rack, RackError> {
    take_secret(path, &mut rack)?;
    if let Some(file) = key_file(path, &rack) {
        let shown = file.display();
        let text = std::fs::read_to_string(&file).map_err(|error| RackError::NoKeys {
            keys: file.clone(),
            rack: path.to_path_buf(),
            error,
        })?;
        if std::fs::metadata(&file).is_ok_and(|m| m.permissions().mode() & 0o077 != 0) {
            note(&format!("{shown}: other users can read these keys and forge reports: chmod 600 {shown}"));
        }
        take_keys(&mut rack, &file, &text, note)?;
    }
    Ok(rack)
}

/// The same, and each of its agents has a key.
///
/// # Errors
/// As of [`read`], or an agent has none.
pub fn read_complete(path: &Path, note: &mut dyn FnMut(&str)) -> Result<Rack, RackError> {
    complete(path, &text_of(path)?, note)
}

/// The same from a text that was read from `path`.
///
/// # Errors
/// As of [`read_complete`].
pub fn complete(path: &Path, text: &str, note: &mut dyn FnMut(&str)) -> Result<Rack, RackError> {
    let rack = with_keys(path, parse(path, text)?, note)?;
    let without: Vec<String> = rack.without_key().iter().map(ToString::to_string).collect();
    if without.is_empty() { Ok(rack) } else { Err(RackError::Keyless(without, path.to_path_buf())) }
}

/// Random bytes for secrets.
///
/// # Errors
/// The kernel gives none.
pub fn random<const N: usize>() -> Result<[u8; N], RackError> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(RackError::Random)
}

/// Random numbers for keys.
///
/// # Errors
/// All numbers of keys are taken, or the kernel gives no random numbers.
pub fn new_keys(rack: &Rack, keys: &mut ReportKeys, renew: bool) -> Result<usize, RackError> {
    let mut failed = None;
    let made = keys.extend(rack, renew, || random().map_err(|e| failed = Some(e)).unwrap_or_default());
    let made = made.map_err(RackError::LastKey)?;
    failed.map_or(Ok(made), Err)
}

/// Name of the holder of the first token.
const OPERATOR: &str = "operator";

/// Creates an API token if the token file does not exist, and prints the file's name.
fn make_token(path: &Path, rack: &Rack) -> Result<Option<PathBuf>, RackError> {
    let Some(api) = &rack.api else { return Ok(None) };
    let file = path.parent().unwrap_or(Path::new("")).join(&api.tokens);
    if file.exists() {
        return Ok(None);
    }
    let token = random::<16>()?;
    let digits: String = token.iter().map(|b| format!("{b:02x}")).collect();
    replace(&file, &format!("{OPERATOR} {digits}\n")).map_err(RackError::Unwritable)?;
    Ok(Some(file))
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
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
        return Err(RackError::NoKeyFile.into());
    };
    let shown = file.display().to_string();
    match std::fs::read_to_string(&file) {
        Ok(text) => take_keys(&mut rack, &file, &text, &mut say)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(RackError::Unreadable(file, e).into()),
    }
    let mut keys = rack.keys.clone();
    let made = new_keys(&rack, &mut keys, args.renew)?;
    if made > 0 {
        replace(&file, &keys.text(&rack))?;
    }
    say(&format!("{shown}: {made} new keys"));
    Ok(ExitCode::SUCCESS)
}
