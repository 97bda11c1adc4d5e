//! The obvious executor of a typed program.
