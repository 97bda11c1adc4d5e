//! `pointsman p4 trace --live ADDRESS --follow FILTER`: packets that pass through a running switch.

use crate::tools::dump::{Target, channel};
use crate::tools::print;
use pointsman_console::say;
use pointsman_control::proto::trace::FollowRequest;
use pointsman_control::proto::trace::trace_client::TraceClient;
use pointsman_node::switch::trace::note;
use std::error::Error;
use std::process::ExitCode;

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
    let refused = |e: tonic::Status| format!("the switch refuses the trace: {}", e.message());
    let mut traces = client.follow(request).await.map_err(refused)?.into_inner();
    while let Some(trace) = traces.message().await.map_err(refused)? {
        if trace.skipped > 0 {
            say(&note(trace.skipped));
        }
        print(&trace.text)?;
        print("\n")?;
    }
    Ok(())
}
