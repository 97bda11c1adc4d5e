//! The client side: requests through the virtual IP, and end-to-end checks of the answers.

mod arrivals;
mod bulk;
mod closed_loop;
mod consistency;
mod echo;
mod flows;
mod latency;
mod mesh;
mod open_loop;
mod sessions;
mod source;
mod streams;

pub use arrivals::Arrivals;
pub use bulk::{BulkConfig, BulkResult, Direction, transfer};
pub use closed_loop::{ClosedLoopConfig, ClosedLoopResult, Connections, closed_loop};
pub use consistency::{
    ConsistencyConfig, ConsistencyProgress, ConsistencyResult, Violation, check as check_consistency,
};
pub use echo::{EchoCounters, EchoServer, EchoServers};
pub use flows::{FlowFate, FlowHost, FlowPlan, FlowsConfig, flows};
pub use latency::{Latencies, nearest_rank};
pub use mesh::{MeshConfig, MeshHost, MeshResult, mesh};
pub use open_loop::{LoadConfig, LoadResult, Progress, run, watched};
pub use sessions::{SessionsConfig, SessionsResult, sessions};
pub use source::SourcePorts;
pub use streams::{StreamsConfig, StreamsResult, streams};
