//! Messages in a stream: a header with the length, an empty line, JSON (base protocol of the Language Server Protocol).

use serde_json::Value;
use std::fmt;

/// Longer messages are refused: a source file has at most 64 MiB.
const MAX_MESSAGE: usize = 256 << 20;
/// Longer headers are no headers.
const MAX_HEADER: usize = 4096;

/// Why a stream cannot be read any further.
#[derive(Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The header has no valid `Content-Length`.
    NoLength(String),
    /// The message is too long: its length in bytes.
    TooLong(usize),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::NoLength(header) => {
                write!(f, "expected a header `Content-Length: NUMBER`, found {header:?}")
            }
            FrameError::TooLong(n) => write!(f, "a message of {n} bytes is longer than {MAX_MESSAGE}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Separates messages.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Takes bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if all of it has come: its JSON text.
    ///
    /// # Errors
    /// What came is not a message, so no later one can be found either.
    pub fn message(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let Some(end) = self.bytes.windows(4).take(MAX_HEADER).position(|w| w == b"\r\n\r\n") else {
            let shown = || String::from_utf8_lossy(&self.bytes[..80.min(self.bytes.len())]).into_owned();
            return if self.bytes.len() > MAX_HEADER { Err(FrameError::NoLength(shown())) } else { Ok(None) };
        };
        let header = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
        let length = header.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let Some(length) = length else { return Err(FrameError::NoLength(header)) };
        if length > MAX_MESSAGE {
            return Err(FrameError::TooLong(length));
        }
        let (start, end) = (end + 4, end + 4 + length);
        if self.bytes.len() < end {
            return Ok(None);
        }
        let message = self.bytes[start..end].to_vec();
        self.bytes.drain(..end);
        Ok(Some(message))
    }
}

/// A message with its header.
pub fn encode(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    let mut out = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    out.extend_from_slice(body.as_bytes());
    out
}
