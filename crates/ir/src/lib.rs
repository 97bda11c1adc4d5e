//! The typed P4 program: types, values, verifier, text form, table entries, executor traits.
