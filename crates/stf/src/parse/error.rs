//! Why a line is not a statement.

use crate::generator::GeneratorError;
use crate::queues::SettingError;
use std::fmt;

/// How the left side of an entry is written.
const ENTRY: &str = "TABLE [PRIORITY] KEY:MATCH ...";

/// Why a line is not a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementError {
    /// No statement begins with this word.
    Unknown(String),
    /// Another number of words follows.
    Words {
        /// The first word.
        word: String,
        /// The right number.
        takes: usize,
        /// The number in the line.
        found: usize,
    },
    /// The statement is written like this.
    Usage(&'static str),
    /// A multicast node has a number and ports; the first word.
    Node(String),
    /// Not a number, or too large.
    Number(String),
    /// Not a hexadecimal digit.
    Digit(char),
    /// So many digits are not whole bytes.
    HalfByte(usize),
    /// A packet with an asterisk.
    Wildcard,
    /// The sign for the end of a packet has digits behind it.
    End,
    /// Counters count two things, and this is neither.
    Unit(String),
    /// Not a name with an index.
    Index(String),
    /// Not a comparison.
    Condition(String),
    /// Not the rates of a meter.
    Rates,
    /// An entry without a table.
    NoTable,
    /// Behind an entry's table: neither a priority nor a key.
    Priority(String),
    /// Not a key of an entry.
    Key(String),
    /// Not an action with its parameters.
    Action(String),
    /// Not a packet generator.
    Generator(GeneratorError),
    /// Not a setting of queues.
    Queue(SettingError),
    /// Not a time, or too long.
    Time(String),
    /// Neither reflected nor not.
    Reflect(String),
    /// The settings of the switch come after other statements.
    Late,
}

impl fmt::Display for StatementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatementError::Unknown(word) => write!(f, "unknown command {word}"),
            StatementError::Words { word, takes, found } => {
                write!(f, "{word} takes {takes} words, not {found}")
            }
            StatementError::Usage(usage) => f.write_str(usage),
            StatementError::Node(word) => write!(f, "{word} NUMBER PORT ..."),
            StatementError::Number(text) => write!(f, "{text} is not a number in the valid range"),
            StatementError::Digit(c) => write!(f, "{c} is not a hexadecimal digit"),
            StatementError::HalfByte(digits) => {
                write!(f, "{digits} hexadecimal digits are not whole bytes")
            }
            StatementError::Wildcard => f.write_str("a packet has hexadecimal digits only"),
            StatementError::End => f.write_str("$ may only be at the end"),
            StatementError::Unit(what) => write!(f, "{what}: write packets or bytes"),
            StatementError::Index(text) => write!(f, "{text}: write NAME(INDEX)"),
            StatementError::Condition(text) => write!(f, "{text}: write == VALUE, or another comparison"),
            StatementError::Rates => f.write_str("a meter has two RATE:BURST"),
            StatementError::NoTable => write!(f, "no table: write {ENTRY}"),
            StatementError::Priority(word) => {
                write!(f, "{word} is neither a priority nor a key: write {ENTRY}")
            }
            StatementError::Key(word) => write!(f, "{word} is not a key: write {ENTRY}"),
            StatementError::Action(text) => write!(f, "{text}: write ACTION(PARAM:VALUE, ...)"),
            StatementError::Generator(e) => e.fmt(f),
            StatementError::Queue(e) => e.fmt(f),
            StatementError::Time(text) => {
                write!(f, "{text} is not a time such as 5us or 1ms, of at most 49 days")
            }
            StatementError::Reflect(text) => write!(f, "{text}: write 1 for a reflected sum, or 0"),
            StatementError::Late => f.write_str("the switch is set before all other statements"),
        }
    }
}

impl std::error::Error for StatementError {}

impl From<GeneratorError> for StatementError {
    fn from(e: GeneratorError) -> Self {
        StatementError::Generator(e)
    }
}

impl From<SettingError> for StatementError {
    fn from(e: SettingError) -> Self {
        StatementError::Queue(e)
    }
}
