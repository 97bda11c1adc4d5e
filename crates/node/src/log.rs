//! The log of programs that serve others: levels, targets, and the form of its lines, as text or as JSON.

use pointsman_console::show;
use pointsman_wire::time::rfc3339;
use serde_json::Value;
use std::error::Error;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Lost packets and omitted features, silent devices, refused requests.
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

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people; on standard error without time and level, which systemd's journal adds.
    #[default]
    Text,
    /// For people, with time and level, for terminals and files.
    Full,
    /// One JSON object a line.
    Json,
}

/// The log's flags, the same for all commands that serve others.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Flags {
    /// Form of log lines: `full` has time and level, `json` is one object a line, with time, level and component.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: Format,
}

impl Flags {
    /// The log of this component on standard error.
    pub fn open(self, component: &'static str) -> Log {
        Log::plain(component, self.log_format, Level::Info)
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
    /// Standard error; text without time and level.
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

/// What a line is about: names and values.
pub type Fields = Vec<(&'static str, String)>;

/// A log. Its clones write to the same target.
#[derive(Clone)]
pub struct Log {
    component: &'static str,
    format: Format,
    level: Level,
    /// Of every line.
    fields: Fields,
    target: Arc<Mutex<Target>>,
}

impl Log {
    fn new(component: &'static str, format: Format, level: Level, target: Target) -> Log {
        Log { component, format, level, fields: Fields::new(), target: Arc::new(Mutex::new(target)) }
    }

    /// To standard error.
    pub fn plain(component: &'static str, format: Format, level: Level) -> Log {
        Log::new(component, format, level, Target::Plain)
    }

    /// To standard output, with time and level.
    pub fn console(component: &'static str, format: Format, level: Level) -> Log {
        Log::new(component, format, level, Target::Console)
    }

    /// To a file, appended.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn file(
        component: &'static str,
        format: Format,
        level: Level,
        path: &Path,
        rotation: Rotation,
    ) -> Result<Log, LogError> {
        let failed = |e| LogError(path.to_path_buf(), e);
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Ok(Log::new(component, format, level, Target::File { path: path.into(), file, bytes, rotation }))
    }

    /// The same, and every line has these fields.
    pub fn about(self, fields: Fields) -> Log {
        Log { fields, ..self }
    }

    /// Whether a line of this level is written.
    pub fn wants(&self, level: Level) -> bool {
        level >= self.level
    }

    /// An event.
    pub fn info(&self, text: &str) {
        self.line(Level::Info, text, &[]);
    }

    /// Something that an operator may have to mend.
    pub fn warn(&self, text: &str) {
        self.line(Level::Warn, text, &[]);
    }

    /// Writes a line; `fields` are what it is about.
    pub fn line(&self, level: Level, text: &str, fields: &[(&'static str, String)]) {
        if !self.wants(level) {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = rfc3339(now.as_millis() as u64);
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let line = match (self.format, &*target) {
            (Format::Json, _) => self.object(&time, level, text, fields),
            (Format::Text, Target::Plain) => lines("pointsman:", text),
            (Format::Full | Format::Text, _) => lines(&format!("{time} [{}]", level.name()), text),
        };
        if let Err(e) = target.write(&line) {
            drop(target);
            self.plain_again(&e);
        }
    }

    /// A JSON object, and the end of the line.
    fn object(&self, time: &str, level: Level, text: &str, fields: &[(&'static str, String)]) -> String {
        let fixed =
            [("time", time), ("level", level.name()), ("component", self.component), ("message", text)];
        let more = self.fields.iter().chain(fields).map(|(name, value)| (*name, value.as_str()));
        let all: Vec<String> = fixed
            .into_iter()
            .chain(more)
            .map(|(name, value)| format!("\"{name}\":{}", Value::from(value)))
            .collect();
        format!("{{{}}}\n", all.join(","))
    }

    /// The file has failed: says so where people may see it.
    fn plain_again(&self, e: &LogError) {
        let LogError(path, e) = e;
        let log = Log::plain(self.component, self.format, self.level);
        log.line(Level::Error, &format!("cannot write the log {}: {e}; logging stops", path.display()), &[]);
    }

    /// The end of a command: with time and level its error is a line of the log; otherwise the caller says it.
    ///
    /// # Errors
    /// That of the command.
    pub fn end(&self, result: Result<ExitCode, Box<dyn Error>>) -> Result<ExitCode, Box<dyn Error>> {
        match result {
            Err(e) if self.format != Format::Text => {
                self.line(Level::Error, &e.to_string(), &[]);
                Ok(ExitCode::FAILURE)
            }
            result => result,
        }
    }
}

/// A text, perhaps of several lines: each is a line of the log.
fn lines(prefix: &str, text: &str) -> String {
    let all: Vec<String> = text.trim_end().split('\n').map(|l| format!("{prefix} {l}\n")).collect();
    all.concat()
}

impl Target {
    fn write(&mut self, line: &str) -> Result<(), LogError> {
        match self {
            Target::Lost => {}
            Target::Plain => show(line),
            // The other end may be closed.
            Target::Console => drop(io::stdout().lock().write_all(line.as_bytes())),
            Target::File { path, file, bytes, rotation } => {
                let mut write = || {
                    if *bytes > 0 && *bytes + line.len() as u64 > rotation.max_bytes {
                        *file = rotate(path, rotation.max_files)?;
                        *bytes = 0;
                    }
                    *bytes += line.len() as u64;
                    file.write_all(line.as_bytes())
                };
                if let Err(e) = write() {
                    let e = LogError(path.clone(), e);
                    *self = Target::Lost;
                    return Err(e);
                }
            }
        }
        Ok(())
    }
}

/// FILE becomes FILE.1, which becomes FILE.2, and so on.
fn rotate(path: &Path, keep: usize) -> io::Result<File> {
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
        let log = Log::file("switch", Format::Text, Level::Info, &path, rotation).unwrap();
        log.line(Level::Debug, "not this", &[]);
        for n in 0..10 {
            log.info(&format!("line {n}"));
        }
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        assert!(read("s1.log").ends_with("[info] line 9\n"));
        assert!(read("s1.log.1").ends_with("[info] line 7\n"), "{}", read("s1.log.1"));
        assert!(read("s1.log.2").ends_with("[info] line 5\n"));
        assert!(!dir.join("s1.log.3").exists());
        assert!(!read("s1.log").contains("not this"));
        std::fs::remove_dir_all(&dir).unwrap();
        let lost = Log::file("switch", Format::Text, Level::Info, &dir.join("x/y"), rotation);
        assert!(lost.is_err_and(|e| e.to_string().contains("x/y")));
    }

    #[test]
    fn each_line_has_its_prefix() {
        let all = lines("12:00 [warn]", "refused:\n  --> a.p4:1\n");
        assert_eq!(all, "12:00 [warn] refused:\n12:00 [warn]   --> a.p4:1\n");
        assert_eq!(lines("pointsman:", ""), "pointsman: \n");
    }

    #[test]
    fn a_line_is_an_object() {
        let log =
            Log::plain("agent", Format::Json, Level::Info).about(vec![("device", "s1/cpu".to_string())]);
        let text = "\"quoted\", a\nsecond line, \u{1b}[31m";
        let line = log.object("2026-11-28T01:46:00.123Z", Level::Warn, text, &[("event", "silent".into())]);
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line}");
        let value: Value = serde_json::from_str(&line).unwrap();
        let expected = serde_json::json!({
            "time": "2026-11-28T01:46:00.123Z", "level": "warn", "component": "agent", "message": text,
            "device": "s1/cpu", "event": "silent",
        });
        assert_eq!(value, expected);
    }
}
