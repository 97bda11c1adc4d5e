//! Why an answer of a source cannot be used.

use super::SourceKind;
use prost::DecodeError;
use std::error::Error;
use std::fmt;

/// Why an answer of a source cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceError {
    /// The source.
    pub from: SourceKind,
    /// What is wrong.
    pub fault: Fault,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.from, self.fault)
    }
}

impl Error for SourceError {}

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// There is none, for this reason.
    Failed(String),
    /// It is of another kind: bytes of a library.
    Kind,
    /// HTTP without a header.
    NoHead,
    /// Something other than HTTP.
    NotHttp,
    /// HTTP with this status line.
    Status(String),
    /// It has no number of this name.
    NoNumber(String),
    /// This is not a word of an agent check.
    Word(String),
    /// An agent check without a word.
    Empty,
    /// It has no header with a load report.
    NoReport,
    /// The binary header is not Base64.
    Base64,
    /// The bytes are not a load report.
    Report(DecodeError),
    /// The header is not JSON, for this reason.
    Json(String),
    /// The JSON is not an object.
    NotObject,
    /// A field of the JSON, of this name, is not a number.
    NotNumber(String),
    /// A part of the header's text is not of the form name=number.
    NotPair(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Failed(why) => f.write_str(why),
            Fault::Kind => f.write_str("bytes, but it is a library"),
            Fault::NoHead => f.write_str("not an HTTP answer: it has no header"),
            Fault::NotHttp => f.write_str("not an HTTP answer"),
            Fault::Status(line) => write!(f, "the answer is `{}`", line.escape_debug()),
            Fault::NoNumber(name) => write!(f, "no numeric `{name}` found"),
            Fault::Word(word) => write!(f, "`{}` is not a valid agent-check answer", word.escape_debug()),
            Fault::Empty => f.write_str("an empty answer"),
            Fault::NoReport => f.write_str("the answer has no header endpoint-load-metrics"),
            Fault::Base64 => f.write_str("endpoint-load-metrics-bin is not Base64"),
            Fault::Report(e) => write!(f, "not an OrcaLoadReport: {e}"),
            Fault::Json(why) => write!(f, "not JSON: {why}"),
            Fault::NotObject => f.write_str("not a JSON object"),
            Fault::NotNumber(name) => write!(f, "`{name}` is not a number"),
            Fault::NotPair(text) => write!(f, "`{}` is not name=number", text.escape_debug()),
        }
    }
}
