//! Histories in files: a line of JSON with the program, then one for each packet.

use crate::plain::Packet;
use crate::search::Operation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// Version of the format.
pub const SCHEMA: u32 = 1;

/// What the packets passed through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the format.
    pub schema: u32,
    /// The P4 program, without what keeps its state elsewhere, with all macros.
    pub program: String,
    /// Statements that fill its tables.
    pub entries: String,
}

/// A packet on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Packets of different keys have no effect on each other.
    key: String,
    /// When it was sent, in nanoseconds.
    call: u64,
    #[serde(rename = "in")]
    input: Seen,
    /// When it was received, in nanoseconds, if it was.
    #[serde(default, rename = "return", skip_serializing_if = "Option::is_none")]
    end: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out: Option<Seen>,
}

/// A packet at a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    port: u32,
    frame: String,
}

/// What is wrong with a file: the line from 1, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The line.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl Error for FileError {}

/// The packets of each key, in the order in which they were sent.
pub type Operations = BTreeMap<String, Vec<Operation<Packet, Packet>>>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let pair = |pair: &[u8]| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
    text.as_bytes().chunks(2).map(pair).collect()
}

/// The text of a history.
pub fn write(header: &Header, operations: &Operations) -> String {
    let line = |value: serde_json::Result<String>| value.unwrap_or_default() + "\n";
    let seen = |(port, frame): &Packet| Seen { port: *port, frame: hex(frame) };
    let mut text = line(serde_json::to_string(header));
    for (key, operations) in operations {
        for Operation { call, input, result } in operations {
            let row = Row {
                key: key.clone(),
                call: *call,
                input: seen(input),
                end: result.as_ref().map(|(at, _)| *at),
                out: result.as_ref().map(|(_, out)| seen(out)),
            };
            text += &line(serde_json::to_string(&row));
        }
    }
    text
}

/// Reads a history.
///
/// # Errors
/// The first line that is not as [`fn@write`] writes it.
pub fn read(text: &str) -> Result<(Header, Operations), FileError> {
    let mut lines = (1..).zip(text.lines());
    let wrong = |line: usize| move |e: serde_json::Error| FileError { line, message: e.to_string() };
    let (line, first) =
        lines.next().ok_or(FileError { line: 1, message: "the file is empty".to_string() })?;
    let header: Header = serde_json::from_str(first).map_err(wrong(line))?;
    if header.schema != SCHEMA {
        let message = format!("its version is {}, not {SCHEMA}", header.schema);
        return Err(FileError { line, message });
    }
    let mut operations = Operations::new();
    for (line, text) in lines.filter(|(_, text)| !text.is_empty()) {
        let row: Row = serde_json::from_str(text).map_err(wrong(line))?;
        let fail = |message: &str| FileError { line, message: message.to_string() };
        let packet = |seen: &Seen| {
            let frame = bytes(&seen.frame).ok_or_else(|| fail("a frame is not hexadecimal"))?;
            Ok((seen.port, frame))
        };
        let result = match (row.end, &row.out) {
            (None, None) => None,
            (Some(end), Some(out)) if end >= row.call => Some((end, packet(out)?)),
            (Some(_), Some(_)) => return Err(fail("the packet was received before it was sent")),
            _ => return Err(fail("`return` and `out` belong together")),
        };
        let operation = Operation { call: row.call, input: packet(&row.input)?, result };
        operations.entry(row.key).or_default().push(operation);
    }
    if operations.is_empty() {
        let message = "no packet follows: a history needs a line for each".to_string();
        return Err(FileError { line: 2, message });
    }
    Ok((header, operations))
}
