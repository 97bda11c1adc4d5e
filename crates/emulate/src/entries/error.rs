//! Why text does not name or describe an entry of a program.

use super::MOST_NAMES;
use pointsman_control::proto::p4info::match_field::MatchType;
use std::fmt;

/// Why text does not name or describe an entry of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// The program has no object of this name.
    Unknown {
        /// The kind of object.
        kind: &'static str,
        /// The name.
        name: String,
        /// The objects of this kind.
        known: Vec<String>,
    },
    /// A table has no action of this name.
    NoAction {
        /// The table.
        table: String,
        /// The name.
        name: String,
        /// The table's actions.
        known: Vec<String>,
    },
    /// These files have no words for match kinds of this name, or of this number.
    MatchKind(Option<String>),
    /// A field has no match kind.
    NoMatchKind,
    /// A field or a parameter does not have 1 to 128 bits.
    Width,
    /// A prefix of this length for a field of so many bits.
    LongPrefix(u128, u32),
    /// A range from a value to a lower one.
    EmptyRange(u128, u128),
    /// Too many or too few values for this match kind.
    Values(MatchType),
    /// A match without the mark that its kind has between two values.
    NoMark(String, &'static str),
    /// Neither a number nor an address.
    NotNumber(String),
    /// A number with a fraction, or one beyond 64 bits.
    NotWhole(String),
    /// A number that so many bits do not hold.
    TooLarge(u128, u32),
    /// A negative number that so many bits do not hold.
    TooSmall(i64, u32),
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryError::Unknown { kind, name, known } => {
                write!(f, "the program has no {kind} `{name}`: its {kind}s are {}", listed(known))
            }
            EntryError::NoAction { table, name, known } => {
                write!(f, "table {table} has no action `{name}`: its actions are {}", listed(known))
            }
            EntryError::MatchKind(Some(name)) => write!(f, "match kind {name} is not supported here"),
            EntryError::MatchKind(None) => f.write_str("unknown match kind"),
            EntryError::NoMatchKind | EntryError::Values(MatchType::Unspecified) => {
                f.write_str("the field has no match kind")
            }
            EntryError::Width => {
                f.write_str("fields without a width of 1 to 128 bits are not supported here")
            }
            EntryError::LongPrefix(len, width) => {
                write!(f, "prefix length {len} is more than the {width} bits")
            }
            EntryError::EmptyRange(low, high) => write!(f, "the range is empty: {low} is above {high}"),
            EntryError::Values(kind) => f.write_str(match kind {
                MatchType::Lpm => "takes a value and a prefix length",
                MatchType::Ternary => "takes a value and a mask",
                MatchType::Range => "takes the lowest and the highest value",
                _ => "takes one value",
            }),
            EntryError::NoMark(key, mark) => write!(f, "\"{key}\" has no `{mark}`"),
            EntryError::NotNumber(shown) => {
                write!(f, "{shown} is not a number, an Ethernet or an IP address")
            }
            EntryError::NotWhole(number) => write!(f, "{number} is not a whole number"),
            EntryError::TooLarge(number, width) => write!(f, "{number:#x} does not fit in {width} bits"),
            EntryError::TooSmall(number, width) => write!(f, "{number} does not fit in {width} bits"),
        }
    }
}

impl std::error::Error for EntryError {}

fn listed(all: &[String]) -> String {
    match all.len() {
        0 => "none".to_string(),
        n if n > MOST_NAMES => format!("{}, and {} more", all[..MOST_NAMES].join(", "), n - MOST_NAMES),
        _ => all.join(", "),
    }
}
