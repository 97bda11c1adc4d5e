//! Why a program has no P4Info.

use crate::proto::p4info::p4_ids::Prefix;
use num_bigint::BigInt;
use pointsman_ir::Span;
use std::fmt;

/// Why a program has no P4Info.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct P4InfoError {
    /// Where the flaw is, the outermost object first, such as `table ingress.hosts` and `key hdr.ipv4.dst`.
    pub within: Vec<String>,
    /// What is wrong there.
    pub flaw: Flaw,
    /// The place of the object's declaration, if it has one.
    pub span: Option<Span>,
}

impl P4InfoError {
    /// The same error inside `place`.
    pub(crate) fn at(mut self, place: impl fmt::Display) -> Self {
        self.within.insert(0, place.to_string());
        self
    }

    /// The same error of an object that is declared at `span`.
    pub(super) fn declared(self, span: Span) -> Self {
        P4InfoError { span: Some(span), ..self }
    }
}

impl fmt::Display for P4InfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.within.iter().try_for_each(|place| write!(f, "{place}: "))?;
        self.flaw.fmt(f)
    }
}

impl std::error::Error for P4InfoError {}

impl From<Flaw> for P4InfoError {
    fn from(flaw: Flaw) -> Self {
        P4InfoError { within: Vec::new(), flaw, span: None }
    }
}

/// A part of a program that P4Info cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// An annotation has another form than this.
    Form {
        /// Its name.
        annotation: String,
        /// What it takes.
        takes: &'static str,
    },
    /// A key of an annotation has another value than this.
    Value {
        /// The annotation's name.
        annotation: &'static str,
        /// The key.
        key: String,
        /// What it takes.
        takes: &'static str,
    },
    /// An annotation has a key that does not exist.
    UnknownKey {
        /// The annotation's name.
        annotation: &'static str,
        /// What its keys are.
        what: &'static str,
        /// The key.
        key: String,
        /// Those that exist.
        known: &'static [&'static str],
    },
    /// An integer of a structured annotation has more than 64 bits.
    WideInteger {
        /// The annotation's name.
        annotation: String,
        /// The integer.
        value: BigInt,
    },
    /// `@match` in a value set names this.
    MatchKind(String),
    /// `@p4runtime_translation_mappings` has these two names with one value, or one name twice.
    SharedMapping(String, String),
    /// `@p4runtime_translation` is on a type over something other than `bit<W>`.
    TranslatedBase,
    /// `@id` has the top byte of another kind of object.
    IdKind {
        /// The id.
        id: u32,
        /// The kind of the object.
        kind: Prefix,
    },
    /// `@id` of an object is that of another one.
    IdTaken(u32),
    /// `@id(0)` of a field or parameter.
    IdZero,
    /// Two fields or parameters have this `@id`.
    IdTwice(u32),
    /// Two objects have the same name.
    SameName {
        /// Their kind.
        kind: String,
        /// The name.
        name: String,
    },
    /// This action is both `@tableonly` and `@defaultonly`.
    Scopes(String),
    /// A table's default action is not in its list.
    UnlistedDefault,
    /// An argument of a default action is not a scalar.
    DefaultArgument,
    /// A register has no type.
    NoType,
    /// An array or an action profile has no constant size.
    NoSize,
    /// There are more of these than P4Info can count.
    TooMany(&'static str),
    /// Several tables have one direct counter or meter.
    Shared,
    /// A type is wider than P4Info can express.
    Width(u32),
    /// A type is not a scalar.
    NotScalar,
    /// A type is not a bit string.
    NotBitString,
    /// A member of a header union is not a header.
    NotHeader,
    /// A stack has elements other than headers.
    StackElement,
    /// The representation of an enum is not a scalar.
    Representation,
    /// A type has no values at run time.
    NoValues,
    /// A P4Info has an object that the program does not have.
    NoObject {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

impl Flaw {
    /// The flaw of `place`.
    pub(crate) fn at(self, place: impl fmt::Display) -> P4InfoError {
        P4InfoError::from(self).at(place)
    }

    /// An annotation of another form.
    pub(crate) fn form(annotation: impl Into<String>, takes: &'static str) -> Self {
        Flaw::Form { annotation: annotation.into(), takes }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Form { annotation, takes } => write!(f, "@{annotation} takes {takes}"),
            Flaw::Value { annotation, key, takes } => write!(f, "@{annotation}: {key} takes {takes}"),
            Flaw::UnknownKey { annotation, what, key, known } => {
                write!(f, "@{annotation}: unknown {what} {key}; expected {}", known.join(", "))
            }
            Flaw::WideInteger { annotation, value } => {
                write!(f, "@{annotation}[...]: {value} does not fit P4Info's 64 bits: write it as a string")
            }
            Flaw::MatchKind(kind) => write!(f, "@match({kind}) is not a match kind of a value set"),
            Flaw::SharedMapping(one, other) => write!(
                f,
                "@p4runtime_translation_mappings: \"{one}\" and \"{other}\" share their name or their value"
            ),
            Flaw::TranslatedBase => f.write_str("@p4runtime_translation needs a type over bit<W>"),
            Flaw::IdKind { id, kind } => {
                let kind = *kind as u32;
                write!(
                    f,
                    "@id({id:#010x}) has the top byte {:#04x}, but ids of this kind of object have {kind:#04x}: use {:#010x}",
                    id >> 24,
                    id & 0x00ff_ffff | kind << 24
                )
            }
            Flaw::IdTaken(id) => {
                write!(f, "@id({id:#010x}) is taken by another object: choose another number")
            }
            Flaw::IdZero => f.write_str("@id(0) is not a valid id: count from 1"),
            Flaw::IdTwice(id) => write!(f, "@id({id}) is used twice"),
            Flaw::SameName { kind, name } => {
                write!(f, "two objects of the kind {kind} are called {name}: give one of them another @name")
            }
            Flaw::Scopes(action) => write!(f, "action {action} is both @tableonly and @defaultonly"),
            Flaw::UnlistedDefault => f.write_str("the default action is not listed"),
            Flaw::DefaultArgument => f.write_str("an argument of the default action is not a scalar"),
            Flaw::NoType => f.write_str("a register without a type"),
            Flaw::NoSize => f.write_str("it has no constant size"),
            Flaw::TooMany(what) => write!(f, "more than 2147483647 {what}"),
            Flaw::Shared => f.write_str("several tables share it: declare one for each"),
            Flaw::Width(bits) => write!(f, "{bits} bits are more than P4Info can express"),
            Flaw::NotScalar => f.write_str("the type is not a scalar"),
            Flaw::NotBitString => f.write_str("the type is not a bit string"),
            Flaw::NotHeader => f.write_str("not a header"),
            Flaw::StackElement => f.write_str("a stack of something other than headers"),
            Flaw::Representation => f.write_str("an enum whose representation is not a scalar"),
            Flaw::NoValues => f.write_str("the type has no values that a controller could read or write"),
            Flaw::NoObject { kind, name } => write!(f, "the program has no {kind} {name}"),
        }
    }
}
