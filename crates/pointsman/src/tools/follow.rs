//! `pointsman p4 trace --live ADDRESS --follow FILTER`: packets that pass through a running switch.

use crate::tools::dump::{DumpError, Target, broken, channel};
use pointsman_console::{print, say};
use pointsman_control::proto::trace::FollowRequest;
use pointsman_control::proto::trace::trace_client::TraceClient;
use pointsman_node::switch::trace::note;
use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use tonic::{Code, Status};

/// Why packets are not followed.
#[derive(Debug)]
enum FollowError {
    /// No connection.
    Connect(DumpError),
    /// The switch has no such service.
    Unknown,
    /// It refuses, and why.
    Refused(String),
    /// The trace began, and ended early.
    Ended(String),
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FollowError::Connect(e) => e.fmt(f),
            FollowError::Unknown => f.write_str(
                "the switch cannot follow packets: it is not Pointsman's, or an older version of it; without --follow a packet passes \
                 through a copy of its state",
            ),
            FollowError::Refused(why) => write!(f, "the switch refuses the trace: {why}"),
            FollowError::Ended(why) => write!(f, "the switch ended the trace: {why}"),
        }
    }
}

impl Error for FollowError {}

/// Prints what the switch says, until it has said all.
///
/// # Errors
/// The switch cannot be reached, or refuses.
pub fn run(switch: &Target<'_>, filter: &str, json: bool, all: bool) -> Result<ExitCode, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(follow(switch, filter, json, all))?;
    Ok(ExitCode::SUCCESS)
}

async fn follow(switch: &Target<'_>, filter: &str, json: bool, all: bool) -> Result<(), Box<dyn Error>> {
    let mut client = TraceClient::new(channel(switch).await?)
        .max_decoding_message_size(pointsman_node::switch::grpc::MAX_MESSAGE_BYTES);
    let request = FollowRequest { device_id: switch.device_id, filter: filter.to_string(), json, all };
    let refused = |e: Status| match (broken(switch, &e), e.code()) {
        (Some(e), _) => FollowError::Connect(e),
        (None, Code::Unimplemented) => FollowError::Unknown,
        (None, _) => FollowError::Refused(e.message().to_string()),
    };
    let ended = |e: Status| FollowError::Ended(e.message().to_string());
    let mut traces = client.follow(request).await.map_err(refused)?.into_inner();
    while let Some(trace) = traces.message().await.map_err(ended)? {
        if trace.skipped > 0 {
            say(&note(trace.skipped));
        }
        print(&trace.text)?;
        print("\n")?;
    }
    Ok(())
}
