//! The file of `--state`: the state of the switch over a planned restart.

use pointsman_control::{ServerState, ServerStateError};
use pointsman_ir::Program;
use pointsman_v1model::{ProgramId, RestoreError, SwitchState};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The annotation of objects that hold points in time, such as ends of leases, which others rely on while no switch runs.
const REAL_TIME: &str = "real_time";

/// Whether the state of a program may outlive the switch.
///
/// # Errors
/// One of its objects has `@real_time`.
pub fn may_keep(path: &Path, program: &Program) -> Result<(), StateFileError> {
    match program.externs.iter().find(|x| x.annotations.has(REAL_TIME)) {
        Some(x) => Err(error(path)(Fault::RealTime(format!("{} {}", x.object, x.name)))),
        None => Ok(()),
    }
}

/// A state that was read from a file.
pub struct Saved {
    path: PathBuf,
    /// That of the switch.
    pub switch: SwitchState,
    /// That of the P4Runtime server.
    pub server: ServerState,
}

/// What is wrong with a state file.
#[derive(Debug)]
pub enum Fault {
    /// It cannot be read.
    Read(std::io::Error),
    /// It, or the new file next to it, cannot be written.
    Write(std::io::Error),
    /// It is not a state, or does not go with the switch.
    State(RestoreError),
    /// P4Runtime's part of it.
    Server(ServerStateError),
    /// This object of the program has `@real_time`.
    RealTime(String),
    /// It belongs to another program than the one on the command line.
    OtherProgram {
        /// The program whose state it is.
        saved: ProgramId,
        /// The program on the command line.
        given: PathBuf,
        /// The same.
        id: ProgramId,
    },
}

/// An error with a state file, and its remedy.
#[derive(Debug)]
pub struct StateFileError {
    path: PathBuf,
    fault: Box<Fault>,
}

impl std::fmt::Display for StateFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const START_WITHOUT: &str = "move it away to start without connections (nothing was changed)";
        let path = self.path.display();
        match &*self.fault {
            Fault::Read(e) if e.kind() == ErrorKind::IsADirectory => {
                let file = self.path.join("switch.state");
                write!(f, "--state {path}: this is a folder: give a file, such as {}", file.display())
            }
            Fault::Read(e) => write!(
                f,
                "--state {path}: cannot read it: {e}; make it readable, or move it away to start without connections"
            ),
            Fault::Write(e) => {
                write!(f, "--state {path}: cannot write it: {e}; give a file in a writable folder")
            }
            Fault::State(e @ RestoreError::Version { .. }) => {
                write!(f, "--state {path}: {e}: start that version, or {START_WITHOUT}")
            }
            Fault::State(e) => write!(f, "--state {path}: {e}: {START_WITHOUT}"),
            Fault::Server(e) => write!(f, "--state {path}: {e}: {START_WITHOUT}"),
            Fault::RealTime(name) => write!(
                f,
                "--state {path}: {name} holds points in time (@{REAL_TIME}) that pass while no switch runs, so that a saved state would be \
                 wrong: omit --state"
            ),
            Fault::OtherProgram { saved, given, id } => {
                let given = given.display();
                match saved == id {
                    true => write!(f, "--state {path}: saved with another version of {given} ({saved})")?,
                    false => {
                        write!(f, "--state {path}: saved with another program ({saved}) than {given} ({id})")?
                    }
                }
                write!(f, ": omit {given} to continue with the saved program, or {START_WITHOUT}")
            }
        }
    }
}

impl std::error::Error for StateFileError {}

fn error(path: &Path) -> impl Fn(Fault) -> StateFileError {
    let path = path.to_path_buf();
    move |fault| StateFileError { path: path.clone(), fault: Box::new(fault) }
}

impl Saved {
    /// Its error.
    pub fn error(&self, fault: Fault) -> StateFileError {
        error(&self.path)(fault)
    }
}

/// Reads a state; `None` if the file does not exist yet. Also checks that the file can be written later.
///
/// # Errors
/// The file cannot be used, or not be written later.
pub fn read(path: &Path) -> Result<Option<Saved>, StateFileError> {
    let fails = error(path);
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            create(path)
                .and_then(|(_, new)| std::fs::remove_file(new))
                .map_err(|e| fails(Fault::Write(e)))?;
            return Ok(None);
        }
        Err(e) => return Err(fails(Fault::Read(e))),
    };
    let switch = SwitchState::from_bytes(&bytes).map_err(|e| fails(Fault::State(e)))?;
    let server = ServerState::from_bytes(&switch.attachment).map_err(|e| fails(Fault::Server(e)))?;
    create(path).and_then(|(_, new)| std::fs::remove_file(new)).map_err(|e| fails(Fault::Write(e)))?;
    Ok(Some(Saved { path: path.to_path_buf(), switch, server }))
}

/// A new file next to the state file. Only its owner can read it: tables may hold keys.
fn create(path: &Path) -> std::io::Result<(File, PathBuf)> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let new = path.with_file_name(name);
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    Ok((file, new))
}

/// Writes a state and returns the bytes that it takes. The old file is replaced when the new one is whole and on the disk.
///
/// # Errors
/// It cannot be written. The old file stays.
pub fn write(path: &Path, state: &SwitchState) -> Result<usize, StateFileError> {
    let bytes = state.to_bytes();
    let done = || -> std::io::Result<()> {
        let (mut file, new) = create(path)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        // The name, too.
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    done().map_err(|e| error(path)(Fault::Write(e)))?;
    Ok(bytes.len())
}
