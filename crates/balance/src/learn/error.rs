//! Why learners cannot start.

use crate::config::UnknownService;
use crate::plan::SchemaError;
use pointsman_decide::LearnerError;
use std::error::Error;
use std::fmt;

/// Why the learners of a service cannot start.
#[derive(Clone, Debug, PartialEq)]
pub enum DriverError {
    /// The service does not exist.
    Service(UnknownService),
    /// The settings are invalid, or saved knowledge does not fit them.
    Learner(LearnerError),
    /// The program is not a balancer.
    Program(SchemaError),
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriverError::Service(error) => error.fmt(f),
            DriverError::Learner(error) => error.fmt(f),
            DriverError::Program(error) => error.fmt(f),
        }
    }
}

impl Error for DriverError {}

impl From<UnknownService> for DriverError {
    fn from(error: UnknownService) -> Self {
        DriverError::Service(error)
    }
}

impl From<LearnerError> for DriverError {
    fn from(error: LearnerError) -> Self {
        DriverError::Learner(error)
    }
}

impl From<SchemaError> for DriverError {
    fn from(error: SchemaError) -> Self {
        DriverError::Program(error)
    }
}
