//! Why a program is not the balancer that a rack needs.

use std::error::Error;
use std::fmt;

/// Why a program is not the balancer that a rack needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaError {
    /// It lacks an object.
    Missing {
        /// The object's kind, such as `table`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A table has other match fields than these.
    Fields {
        /// The table.
        table: &'static str,
        /// The fields that the controller fills.
        expected: Vec<&'static str>,
    },
    /// An action has other parameters than these.
    Parameters {
        /// The action.
        action: &'static str,
        /// The parameters that the controller fills.
        expected: Vec<String>,
    },
    /// A device of the rack has a slot that the program does not have.
    Slot {
        /// `server/device`.
        device: String,
        /// The device's slot.
        slot: u8,
        /// Slots of a server in the program.
        slots: usize,
    },
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaError::Missing { kind, name } => {
                write!(f, "the program has no {kind} `{name}`: it is not a balancer of this version")
            }
            SchemaError::Fields { table, expected } => {
                write!(f, "table `{table}` has match fields other than: {}", expected.join(", "))
            }
            SchemaError::Parameters { action, expected } => {
                write!(f, "action `{action}` has parameters other than: {}", expected.join(", "))
            }
            SchemaError::Slot { device, slot, slots } => write!(
                f,
                "device `{device}` has slot {slot}, but the program has {slots} slots a server, from 0 to {}",
                slots - 1
            ),
        }
    }
}

impl Error for SchemaError {}
