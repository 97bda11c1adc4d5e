//! BIRD's control protocol, as much of it as enabling and disabling a protocol takes.
//!
//! A client sends a command as a line. BIRD answers with lines that begin with a code of four digits, then `-` if more lines follow, or a
//! space in the last one; a line that begins with a space continues the one before. Codes from 8000 on are errors (BIRD's user manual,
//! "Remote control"; codes as BIRD 2.0.12 sends them).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Longest answer, in bytes.
const MAX_ANSWER: u64 = 64 << 10;

/// Longest name of a protocol.
const MAX_NAME: usize = 64;

const ALREADY_DISABLED: u16 = 8;
const DISABLED: u16 = 9;
const ALREADY_ENABLED: u16 = 10;
const ENABLED: u16 = 11;
/// The first code that is an error.
const FIRST_ERROR: u16 = 8000;
const NO_PROTOCOL: u16 = 8003;
const DENIED: u16 = 8007;

/// Name of a protocol in BIRD's configuration: letters, digits and underscores, so that it is never read as a pattern or a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl std::str::FromStr for Name {
    type Err = NotName;

    fn from_str(text: &str) -> Result<Self, NotName> {
        let valid = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !valid || text.is_empty() || text.len() > MAX_NAME {
            return Err(NotName);
        }
        Ok(Name(text.to_string()))
    }
}

/// The text is not the name of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotName;

impl fmt::Display for NotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a protocol's name has 1 to {MAX_NAME} letters, digits and underscores")
    }
}

impl std::error::Error for NotName {}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a command changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The protocol was in the other state before.
    Changed,
    /// It was in this state already.
    Already,
}

/// Reasons why a protocol cannot be enabled or disabled.
#[derive(Debug)]
pub enum BirdError {
    /// The socket cannot be opened.
    Connect(PathBuf, io::Error),
    /// The connection failed.
    Broken(io::Error),
    /// No complete answer in this time.
    Late(Duration),
    /// An answer that is not of this protocol.
    Foreign(String),
    /// BIRD's configuration has no such protocol.
    NoProtocol(Name),
    /// The socket is one for reading only.
    Denied,
    /// Another error, in BIRD's words.
    Refused(u16, String),
}

impl fmt::Display for BirdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BirdError::Connect(path, e) => write!(
                f,
                "cannot connect to BIRD at {}: {e}; check that BIRD runs, that this is its control socket (--bird), and that this user may \
                 write to it (group `bird` in Debian)",
                path.display()
            ),
            BirdError::Broken(e) => write!(f, "BIRD ended the connection: {e}"),
            BirdError::Late(patience) => write!(f, "no answer of BIRD within {} s", patience.as_secs_f64()),
            BirdError::Foreign(line) => write!(f, "the answer {line:?} is not one of BIRD's: check --bird"),
            BirdError::NoProtocol(name) => write!(
                f,
                "BIRD has no protocol `{name}`: name it in bird.conf (`protocol static {name} {{ ... }}`), or change --protocol"
            ),
            BirdError::Denied => {
                f.write_str("BIRD's socket is restricted to reading (option -R): use another")
            }
            BirdError::Refused(code, text) => write!(f, "BIRD refuses: {text} (code {code})"),
        }
    }
}

impl std::error::Error for BirdError {}

/// A line of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    /// Code of the answer; `None` in a line that continues the one before.
    code: Option<u16>,
    is_last: bool,
    text: &'a str,
}

/// Reads a line without its end; `None` if it is not of this protocol.
fn line(text: &str) -> Option<Line<'_>> {
    if let Some(text) = text.strip_prefix(' ') {
        return Some(Line { code: None, is_last: false, text });
    }
    let (code, rest) = text.split_at_checked(4)?;
    let digits = code.bytes().all(|b| b.is_ascii_digit());
    let code = if digits { code.parse().ok() } else { None };
    let is_last = !rest.starts_with('-');
    let text = rest.strip_prefix(['-', ' ']).or(rest.is_empty().then_some(""))?;
    Some(Line { code: Some(code?), is_last, text })
}

/// An answer's lines with a code and a text, in order.
type Answer = Vec<(u16, String)>;

async fn answer(lines: &mut (impl AsyncBufReadExt + Unpin)) -> Result<Answer, BirdError> {
    let mut found = Vec::new();
    loop {
        let mut bytes = Vec::new();
        lines.read_until(b'\n', &mut bytes).await.map_err(BirdError::Broken)?;
        let Some(bytes) = bytes.strip_suffix(b"\n") else {
            return Err(BirdError::Broken(io::ErrorKind::UnexpectedEof.into()));
        };
        let text = String::from_utf8_lossy(bytes);
        let Some(line) = line(&text) else {
            return Err(BirdError::Foreign(text.chars().take(80).collect()));
        };
        found.extend(line.code.map(|code| (code, line.text.to_string())));
        if line.is_last {
            return Ok(found);
        }
    }
}

/// What an answer to `enable` or `disable` says.
fn judge(answer: Answer, name: &Name, enable: bool) -> Result<Done, BirdError> {
    let (changed, already) = if enable { (ENABLED, ALREADY_ENABLED) } else { (DISABLED, ALREADY_DISABLED) };
    for (code, text) in &answer {
        match *code {
            c if c == changed => return Ok(Done::Changed),
            c if c == already => return Ok(Done::Already),
            NO_PROTOCOL => return Err(BirdError::NoProtocol(name.clone())),
            DENIED => return Err(BirdError::Denied),
            c if c >= FIRST_ERROR => return Err(BirdError::Refused(c, text.clone())),
            _ => {}
        }
    }
    let (code, text) = answer.into_iter().next_back().unwrap_or_default();
    Err(BirdError::Foreign(format!("{code:04} {text}")))
}

async fn exchange(socket: &Path, name: &Name, enable: bool) -> Result<Done, BirdError> {
    let stream = UnixStream::connect(socket).await;
    let mut stream = stream.map_err(|e| BirdError::Connect(socket.to_path_buf(), e))?;
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader.take(MAX_ANSWER));
    // BIRD greets first.
    answer(&mut lines).await?;
    let verb = if enable { "enable" } else { "disable" };
    writer.write_all(format!("{verb} \"{name}\"\n").as_bytes()).await.map_err(BirdError::Broken)?;
    judge(answer(&mut lines).await?, name, enable)
}

/// Enables or disables a protocol of the BIRD behind `socket`.
///
/// # Errors
/// BIRD is out of reach, refuses, or does not answer within `patience`.
pub async fn set(socket: &Path, name: &Name, enable: bool, patience: Duration) -> Result<Done, BirdError> {
    let done = tokio::time::timeout(patience, exchange(socket, name, enable)).await;
    done.unwrap_or(Err(BirdError::Late(patience)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Name {
        "vip4".parse().expect("a name")
    }

    fn read(text: &str) -> Result<Answer, BirdError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(answer(&mut text.as_bytes()))
    }

    #[test]
    fn answers_of_bird() {
        let said = |text: &str, enable| judge(read(text).expect("complete"), &name(), enable);
        assert!(matches!(said("0011-vip4: enabled\n0000 \n", true), Ok(Done::Changed)));
        assert!(matches!(said("0010-vip4: already enabled\n0000 \n", true), Ok(Done::Already)));
        assert!(matches!(said("0009-vip4: disabled\n0000 \n", false), Ok(Done::Changed)));
        assert!(matches!(said("0008-vip4: already disabled\n0000 \n", false), Ok(Done::Already)));
        assert!(matches!(said("8003 No protocols match\n", true), Err(BirdError::NoProtocol(_))));
        assert!(matches!(said("8007 Access denied\n", true), Err(BirdError::Denied)));
        assert!(matches!(said("9001 syntax error\n", true), Err(BirdError::Refused(9001, _))));
        assert!(matches!(said("0000 \n", true), Err(BirdError::Foreign(_))));
        // The answer to the other command proves nothing.
        assert!(matches!(said("0009-vip4: disabled\n0000 \n", true), Err(BirdError::Foreign(_))));
    }

    #[test]
    fn broken_answers() {
        let first = |text: &str| read(text).map_err(|e| e.to_string());
        assert_eq!(first("1002-a\n b\n0000 \n"), Ok(vec![(1002, "a".into()), (0, String::new())]));
        assert!(first("0011-vip4: enabled\n").expect_err("cut").contains("ended the connection"));
        assert!(first("0000").expect_err("cut").contains("ended the connection"));
        for foreign in [
            "HTTP/1.1 400 Bad Request\n",
            "12\n",
            "\n",
            "0x11 a\n",
            "00011 a\n",
            "+123 a\n",
            "\u{fc}\u{fc}\u{fc}\n",
        ] {
            assert!(first(foreign).expect_err(foreign).contains("is not one of BIRD's"), "{foreign:?}");
        }
    }

    #[test]
    fn names() {
        for wrong in ["", "a b", "*", "a\"", "vip\n", "v-4", &"x".repeat(65)] {
            assert!(wrong.parse::<Name>().is_err(), "{wrong:?}");
        }
        assert_eq!("vip_4".parse::<Name>().map(|n| n.to_string()), Ok("vip_4".into()));
    }
}
