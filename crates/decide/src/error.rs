//! Why a learner cannot be made from its parameters and its knowledge.

use super::LearnerKind;
use std::fmt;

/// Why a learner cannot be made from its parameters and its knowledge.
#[derive(Clone, Debug, PartialEq)]
pub enum LearnerError {
    /// A parameter is outside of its bounds.
    Parameter {
        /// Its name in files.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The least and the greatest value.
        bounds: (f64, f64),
    },
    /// The table has another number of ranges than the parameters.
    Ranges(usize, usize),
    /// The knowledge is about weights up to another number than the parameters'.
    MaxWeight(usize, u32),
    /// The knowledge of a learner is for another one.
    Kind(LearnerKind, LearnerKind),
    /// What is wrong with the knowledge about this class of servers.
    Class(String, Box<LearnerError>),
}

impl fmt::Display for LearnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LearnerError::Parameter { name, value, bounds: (min, max) } => {
                write!(f, "{name} is {value}: write a number from {min} to {max}")
            }
            LearnerError::Ranges(known, wanted) => write!(
                f,
                "the table has {known} ranges of utilisation, but learn.ranges is {wanted}: use the same number"
            ),
            LearnerError::MaxWeight(known, wanted) => write!(
                f,
                "it has weights up to {known}, but learn.max_weight is {wanted}: use the same number"
            ),
            LearnerError::Kind(known, wanted) => write!(
                f,
                "it belongs to \"{}\", but learn.learner is \"{}\": name another file",
                known.name(),
                wanted.name()
            ),
            LearnerError::Class(class, e) => write!(f, "class {class}: {e}"),
        }
    }
}

impl std::error::Error for LearnerError {}
