//! Why learners cannot start.

use super::classes::ClassesError;
use crate::config::UnknownService;
use crate::mcdm::prometheus::QueryError;
use crate::plan::SchemaError;
use pointsman_decide::LearnerError;
use std::error::Error;
use std::fmt;

/// Why the latency of clients is not known.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientsError {
    /// A query gives no samples.
    Query(QueryError),
    /// The samples of this expression are not those of the classes.
    Classes(String, ClassesError),
    /// The share of lost requests is this.
    Loss(f64),
    /// The 99th percentile of latency is this.
    P99(f64),
}

impl fmt::Display for ClientsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientsError::Query(e) => e.fmt(f),
            ClientsError::Classes(promql, e) => write!(f, "`{promql}` {e}"),
            ClientsError::Loss(loss) => {
                write!(f, "learn.clients.loss is {loss}: expected a ratio from 0 to 1")
            }
            ClientsError::P99(ms) => write!(f, "learn.clients.p99_ms is {ms}: expected milliseconds"),
        }
    }
}

impl Error for ClientsError {}

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
