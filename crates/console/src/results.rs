//! Result files of commands, and what made them.

use crate::{PrintError, print};
use std::error::Error;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

/// What made a file of results: enough to make it again, together with its seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Version of this program.
    pub version: &'static str,
    /// The command line, without the program's folder.
    pub command: String,
    /// Processors, and the kernel's release.
    pub machine: String,
}

impl Origin {
    /// This process on this machine.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|l| l.strip_prefix("model name"));
        let model = model.map_or("unknown processor", |l| l.trim_start_matches([' ', '\t', ':']));
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let kernel = read("/proc/sys/kernel/osrelease");
        let arguments = std::env::args().skip(1).map(|a| quoted(&a));
        Origin {
            version: env!("CARGO_PKG_VERSION"),
            command: std::iter::once("pointsman".to_owned()).chain(arguments).collect::<Vec<_>>().join(" "),
            machine: format!("{cores} x {model}, Linux {}", kernel.trim()),
        }
    }

    /// Names and values, in the order in which they are shown.
    pub fn fields(&self) -> [(&'static str, String); 3] {
        [
            ("version", self.version.into()),
            ("command", self.command.clone()),
            ("machine", self.machine.clone()),
        ]
    }
}

/// An argument as a shell takes it.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

/// A flag for a file of results, and its value. `-` is standard output.
pub type Flag<'a> = (&'a Option<PathBuf>, &'static str);

/// Whether the path is standard output: `-`.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether one of these results is written to standard output, where nothing else is printed then.
pub fn takes_stdout(flags: &[Flag<'_>]) -> bool {
    flags.iter().any(|(path, _)| path.as_deref().is_some_and(is_stdout))
}

/// Prints what a command has for its reader, unless a result takes standard output.
///
/// # Errors
/// It cannot be written.
pub fn tell<T: AsRef<[u8]> + ?Sized>(flags: &[Flag<'_>], text: &T) -> Result<(), PrintError> {
    if takes_stdout(flags) { Ok(()) } else { print(text) }
}

/// Whether all of these results can be written. Checked before work that takes minutes; files stay unchanged.
///
/// # Errors
/// One cannot, or two are to be written to standard output.
pub fn check(flags: &[Flag<'_>]) -> Result<(), WriteError> {
    for (i, (path, flag)) in flags.iter().enumerate() {
        let Some(path) = path else { continue };
        if is_stdout(path) && takes_stdout(&flags[..i]) {
            let why = "another result is written there";
            return Err(WriteError(path.clone(), flag, io::Error::other(why)));
        }
        check_writable(path, flag)?;
    }
    Ok(())
}

/// Whether `path`, named by `flag`, can be written. Checked before work that takes minutes; the file stays unchanged.
///
/// # Errors
/// It cannot.
pub fn check_writable(path: &Path, flag: &'static str) -> Result<(), WriteError> {
    if is_stdout(path) {
        return Ok(());
    }
    let existed = path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|e| WriteError(path.to_path_buf(), flag, e))?;
    if !existed {
        // Empty: not left behind if the run fails.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Writes the whole file that `flag` names, or to standard output.
///
/// # Errors
/// The system refuses.
pub fn write(path: &Path, flag: &'static str, text: impl AsRef<[u8]>) -> Result<(), WriteError> {
    let written = match is_stdout(path) {
        true => print(&text).map_err(|PrintError(e)| e),
        false => std::fs::write(path, text),
    };
    written.map_err(|e| WriteError(path.to_path_buf(), flag, e))
}

/// The file that a flag names cannot be written.
#[derive(Debug)]
pub struct WriteError(pub PathBuf, pub &'static str, pub io::Error);

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WriteError(path, flag, error) = self;
        let place = if is_stdout(path) { "to standard output".into() } else { path.display().to_string() };
        write!(f, "cannot write {place}: {error}; choose another file with {flag}")
    }
}

impl Error for WriteError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_result_takes_standard_output() {
        let [none, stdout, file] = [None, Some("-"), Some("/nonexistent/x")].map(|p| p.map(PathBuf::from));
        assert!(takes_stdout(&[(&none, "--json"), (&stdout, "--html")]));
        assert!(!takes_stdout(&[(&none, "--json"), (&file, "--html")]));
        check(&[(&none, "--json"), (&stdout, "--html")]).expect("nothing is wrong");
        let why = |flags: &[Flag<'_>]| check(flags).expect_err("it is refused").to_string();
        assert!(why(&[(&stdout, "--json"), (&file, "--html")]).contains("cannot write /nonexistent/x"));
        let twice = why(&[(&stdout, "--json"), (&none, "--csv"), (&stdout, "--html")]);
        let expected = "another result is written there; choose another file with --html";
        assert_eq!(twice, format!("cannot write to standard output: {expected}"));
    }

    #[test]
    fn origins() {
        let here = Origin::here();
        assert!(here.command.starts_with("pointsman") && here.machine.contains(", Linux "), "{here:?}");
        assert!(here.fields().iter().all(|(_, value)| !value.is_empty()));
        let all = ["--seeds", "a b", "it's", ""].map(quoted);
        assert_eq!(all, ["--seeds", "'a b'", "'it'\\''s'", "''"]);
    }
}
