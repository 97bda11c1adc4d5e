//! Log targets of a running switch: `--log-console`, `--log-file`, `--log-level`.

use pointsman_balance::api::rfc3339;
use pointsman_console::say;
use std::error::Error;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Log level, with simple_switch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Level {
    /// Everything; currently the same as `debug`.
    Trace,
    /// Every packet received or sent.
    Debug,
    /// Events: links, `log_msg`, clients.
    Info,
    /// Lost packets and omitted features.
    Warn,
    /// Failures.
    Error,
    /// Nothing.
    Off,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
            Level::Off => "off",
        }
    }
}

/// When and how often a log file is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes that a file may have.
    pub max_bytes: u64,
    /// Older files that are kept: FILE.1 is the newest of them.
    pub max_files: usize,
}

enum Target {
    /// Standard error, without time and level.
    Plain,
    Console,
    File {
        path: PathBuf,
        file: File,
        bytes: u64,
        rotation: Rotation,
    },
    /// The file failed, which was reported.
    Lost,
}

/// A log file that cannot be written.
#[derive(Debug)]
pub struct LogError(PathBuf, io::Error);

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogError(path, e) = self;
        write!(f, "cannot write the log {}: {e}; give --log-file another path", path.display())
    }
}

impl Error for LogError {}

/// Log target.
pub struct Log {
    level: Level,
    target: Target,
}

impl Log {
    /// To standard error.
    pub fn plain(level: Level) -> Log {
        Log { level, target: Target::Plain }
    }

    /// To standard output, with time and level.
    pub fn console(level: Level) -> Log {
        Log { level, target: Target::Console }
    }

    /// To a file, appended.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn file(level: Level, path: &Path, rotation: Rotation) -> Result<Log, LogError> {
        let failed = |e| LogError(path.to_path_buf(), e);
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Ok(Log { level, target: Target::File { path: path.into(), file, bytes, rotation } })
    }

    /// Whether a line of this level is written.
    pub fn wants(&self, level: Level) -> bool {
        level >= self.level
    }

    /// Writes a line.
    pub fn line(&mut self, level: Level, text: &str) {
        if !self.wants(level) {
            return;
        }
        let stamped = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            format!("{} [{}] {text}\n", rfc3339(now.as_millis() as u64), level.name())
        };
        match &mut self.target {
            Target::Lost => {}
            Target::Plain => say(text),
            // The other end may be closed.
            Target::Console => {
                let _ = std::io::stdout().lock().write_all(stamped().as_bytes());
            }
            Target::File { path, file, bytes, rotation } => {
                let line = stamped();
                let mut write = || {
                    if *bytes > 0 && *bytes + line.len() as u64 > rotation.max_bytes {
                        *file = rotate(path, rotation.max_files)?;
                        *bytes = 0;
                    }
                    *bytes += line.len() as u64;
                    file.write_all(line.as_bytes())
                };
                if let Err(e) = write() {
                    say(&format!("cannot write the log {}: {e}; logging stops", path.display()));
                    self.target = Target::Lost;
                }
            }
        }
    }
}

/// FILE becomes FILE.1, which becomes FILE.2, and so on.
fn rotate(path: &Path, keep: usize) -> std::io::Result<File> {
    let old = |n: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    };
    for n in (1..keep).rev() {
        if old(n).exists() {
            std::fs::rename(old(n), old(n + 1))?;
        }
    }
    if keep > 0 {
        std::fs::rename(path, old(1))?;
    }
    File::create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_set_aside() {
        let dir = std::env::temp_dir().join(format!("pointsman-log-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("s1.log");
        let rotation = Rotation { max_bytes: 100, max_files: 2 };
        let mut log = Log::file(Level::Info, &path, rotation).unwrap();
        log.line(Level::Debug, "not this");
        for n in 0..10 {
            log.line(Level::Info, &format!("line {n}"));
        }
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        assert!(read("s1.log").ends_with("[info] line 9\n"));
        assert!(read("s1.log.1").ends_with("[info] line 7\n"), "{}", read("s1.log.1"));
        assert!(read("s1.log.2").ends_with("[info] line 5\n"));
        assert!(!dir.join("s1.log.3").exists());
        assert!(!read("s1.log").contains("not this"));
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(
            Log::file(Level::Info, &dir.join("x/y"), rotation).is_err_and(|e| e.to_string().contains("x/y"))
        );
    }
}
