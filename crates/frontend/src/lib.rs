//! P4_16 source to a typed program, or diagnostics.
