//! Why a command of a file is not carried out.

use super::{COMMANDS, GREATEST_PRIORITY};
use crate::cells;
use crate::entries::EntryError;
use std::fmt;

/// Why a command of a file is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandError {
    /// A name or a value is wrong.
    Entry(EntryError),
    /// The value of this field is wrong.
    Field(String, EntryError),
    /// The value of this parameter is wrong.
    Parameter(String, EntryError),
    /// So many keys for a table with these fields.
    Keys(usize, Vec<String>),
    /// So many values for an action with these parameters.
    Values(usize, Vec<String>),
    /// Not a priority.
    Priority(String),
    /// An entry needs a priority.
    NoPriority,
    /// No node of a multicast group has this number.
    NoNode(usize),
    /// No multicast group has this number.
    NoGroup(u32),
    /// A command with other arguments.
    Arguments(String),
    /// Not a command.
    Unknown(String),
    /// A register does not hold numbers.
    NotNumbers,
    /// A register's numbers have no fixed width.
    NoWidth,
    /// A direct meter's table does not have this entry, but so many.
    NoEntry(usize, usize),
    /// Not the rates of a meter.
    Rates,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Entry(e) => e.fmt(f),
            CommandError::Field(name, e) => write!(f, "field {name}: {e}"),
            CommandError::Parameter(name, e) => write!(f, "parameter {name}: {e}"),
            CommandError::Keys(n, fields) => {
                write!(f, "{n} keys for {} fields ({})", fields.len(), fields.join(", "))
            }
            CommandError::Values(n, params) => {
                write!(f, "{n} values for {} parameters ({})", params.len(), params.join(", "))
            }
            CommandError::Priority(text) => {
                write!(f, "\"{text}\" is not a priority: write a number below {GREATEST_PRIORITY}")
            }
            CommandError::NoPriority => f.write_str("the priority is missing: write it at the end"),
            CommandError::NoNode(node) => {
                write!(f, "no node {node} was made: nodes are numbered from 0")
            }
            CommandError::NoGroup(group) => {
                write!(f, "group {group} was not made: write mc_mgrp_create {group} above")
            }
            CommandError::Arguments(word) => {
                write!(f, "{word} has other arguments: see BMv2's simple_switch_CLI")
            }
            CommandError::Unknown(word) => {
                write!(f, "`{word}` is not supported: the commands here are {COMMANDS}, {}", cells::COMMANDS)
            }
            CommandError::NotNumbers => f.write_str("registers of numbers only can be written here"),
            CommandError::NoWidth => {
                f.write_str("registers of numbers with a fixed width only can be written here")
            }
            CommandError::NoEntry(at, added) => {
                write!(f, "entry {at} of the table does not exist: {added} were added above, from 0")
            }
            CommandError::Rates => f.write_str(
                "a meter takes two rates, the committed one and the peak: write RATE:BURST RATE:BURST, with rates in units per \
                 microsecond",
            ),
        }
    }
}

impl std::error::Error for CommandError {}

impl From<EntryError> for CommandError {
    fn from(e: EntryError) -> Self {
        CommandError::Entry(e)
    }
}
