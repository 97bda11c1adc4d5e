//! The text form of a program.
use crate::Program;

/// `program` as text, the same for the same program.
pub fn print(program: &Program) -> String {
    format!("package {}\n", program.package.name)
}
