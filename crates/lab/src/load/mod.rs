//! The client side: requests through the virtual IP, and end-to-end checks of what comes back.

mod bulk;
mod consistency;
mod latency;
mod open_loop;
mod source;

pub use bulk::{BulkConfig, BulkResult, Direction, transfer};
pub use consistency::{
    ConsistencyConfig, ConsistencyProgress, ConsistencyResult, Violation, check as check_consistency,
};
pub use latency::Latencies;
pub use open_loop::{Arrivals, LoadConfig, LoadResult, Progress, run};
pub use source::SourcePorts;
