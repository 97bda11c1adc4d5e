//! Why text does not name or describe something of a program.

use std::fmt;

/// Why text does not name or describe something of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextError {
    /// Nothing has this name.
    Unknown {
        /// Of what kind.
        what: String,
        /// The name.
        name: String,
        /// All names.
        known: Vec<String>,
    },
    /// Several have a name that ends like this.
    Ambiguous {
        /// Of what kind.
        what: String,
        /// The name.
        name: String,
        /// Those that it could be.
        candidates: Vec<String>,
    },
    /// Not a value.
    Value(String),
    /// A value is too large for so many bits.
    TooLarge(String, u32),
    /// Not a number.
    Number(String),
    /// Asterisks stand for digits of base 2, 8 or 16 only.
    Base(String),
    /// Not the length of a prefix.
    PrefixLength(String),
    /// Asterisks in the middle of a prefix.
    Prefix(String),
    /// A prefix of so many bits for a field of so many.
    LongPrefix(u32, u32),
    /// A range whose end is below its beginning.
    EmptyRange(String),
    /// Selectors have no matches.
    Selector,
    /// Not one of these members.
    Member(String, Vec<String>),
    /// Values of this type are not written as text.
    Type,
    /// An action has no such parameter, but these.
    Parameter {
        /// The action.
        action: String,
        /// The parameter.
        which: String,
        /// All its parameters.
        known: Vec<String>,
    },
    /// A value set's member has another number of fields.
    Fields {
        /// The value set.
        set: String,
        /// Fields of a member.
        takes: usize,
        /// Fields in the text.
        found: usize,
    },
    /// Not the number of a member or group.
    Id(String, String),
    /// Something is given twice.
    Twice(String),
    /// Something is missing.
    Missing(String),
    /// A key's type has no matches.
    NotScalar,
    /// A key that needs a match has none.
    NoMatch,
    /// An entry without an arrow.
    NoArrow(String),
    /// An entry without a table.
    NoTable(String),
    /// Not a key with its match.
    Key(String),
    /// Not a priority.
    Priority(String),
    /// Parameters without an end.
    NoEnd(String),
    /// The place of an error.
    In(String, Box<TextError>),
}

impl TextError {
    /// The error with its place.
    pub(crate) fn of(self, place: String) -> Self {
        TextError::In(place, Box::new(self))
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::Unknown { what, name, known } => {
                write!(f, "no {what} {name}; there are: {}", known.join(", "))
            }
            TextError::Ambiguous { what, name, candidates } => {
                write!(f, "{what} {name} is ambiguous; it could be any of {}", candidates.join(", "))
            }
            TextError::Value(text) => write!(f, "{text} is neither a number nor an address"),
            TextError::TooLarge(text, width) => write!(f, "{text} does not fit {width} bits"),
            TextError::Number(text) => write!(f, "{text} is not a number"),
            TextError::Base(text) => write!(f, "{text}: * needs a number that starts with 0x, 0b or 0o"),
            TextError::PrefixLength(text) => write!(f, "{text} is not a prefix length"),
            TextError::Prefix(text) => write!(f, "{text}: only the last digits of a prefix may be *"),
            TextError::LongPrefix(bits, width) => {
                write!(f, "a prefix of {bits} bits for a field of {width} bits")
            }
            TextError::EmptyRange(text) => write!(f, "the range {text} is empty"),
            TextError::Selector => f.write_str("a selector field has no match"),
            TextError::Member(text, members) => write!(f, "{text} is not one of {}", members.join(", ")),
            TextError::Type => f.write_str("a parameter of this type cannot be written as text"),
            TextError::Parameter { action, which, known } => {
                write!(f, "action {action} has no parameter {which}; it has: {}", known.join(", "))
            }
            TextError::Fields { set, takes, found } => {
                write!(f, "a member of {set} has {takes} fields, not {found}")
            }
            TextError::Id(id, what) => write!(f, "{id} is not a valid {what} number"),
            TextError::Twice(what) => write!(f, "{what} is given twice"),
            TextError::Missing(what) => write!(f, "{what} is missing"),
            TextError::NotScalar => f.write_str("is not a scalar"),
            TextError::NoMatch => f.write_str("is missing"),
            TextError::NoArrow(text) => write!(f, "no -> in: {text}"),
            TextError::NoTable(text) => write!(f, "no table in: {text}"),
            TextError::Key(word) => write!(f, "{word}: write key=match"),
            TextError::Priority(value) => write!(f, "{value} is not a priority"),
            TextError::NoEnd(text) => write!(f, "no ) in: {text}"),
            TextError::In(place, e) => write!(f, "{place}: {e}"),
        }
    }
}

impl std::error::Error for TextError {}
