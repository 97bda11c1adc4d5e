//! Whether the parts of a scenario fit each other: the scheme and the network, the scheme and the flows, queues and packets.

use super::{Flows, NetworkScenario, Starts, Traffic, Work};
use crate::frame::UDP4_END;
use pointsman_fabric::{Choice, Level};
use pointsman_topology::reader::{Place, Problems};

/// The places of a scenario's parts.
pub(super) struct Places {
    /// Of `[network]`.
    pub network: Place,
    /// Of the number of large flows' DSCP, or of what has none.
    pub dscp: Place,
}

/// Checks a scheme, which was read in this place of this field, against the rest of its scenario.
pub(super) fn scheme(
    choice: &Choice,
    (place, field): (&Place, &str),
    scenario: &NetworkScenario,
    places: &Places,
    problems: &mut Problems<'_>,
) {
    if let Some(message) = choice.misfit(&scenario.topology) {
        problems.add(place, field, message);
    }
    if let (Work::Flows(flows), Some(Level::Number(dscp))) = (&scenario.work, choice.level("large_dscp"))
        && dscp != f64::from(flows.dscp.1)
    {
        let message = format!(
            "large flows have {}, and `large_dscp` of the scheme `{}` is {dscp}: write the same number in both",
            flows.dscp.1, choice.scheme.name
        );
        problems.add(&places.dscp, "flows.dscp_large", message);
    }
    let (queues, packet) = (u64::from((choice.scheme.queues)(choice)), packet_bytes(&scenario.work));
    let short = scenario.topology.links().iter().find(|l| l.line.queue_bytes / queues < packet);
    if let Some(link) = short {
        let parts = if queues > 1 { format!(" in {queues} parts") } else { String::new() };
        let message = format!(
            "the queue of {} has {} bytes{parts}, and a packet takes {packet}: write a larger `queue_kib`",
            link.name, link.line.queue_bytes
        );
        problems.add(&places.network, "network", message);
    }
}

/// Bytes of the longest packet.
fn packet_bytes(work: &Work) -> u64 {
    match work {
        Work::Requests(Traffic { request_bytes, answer_bytes, .. }) => {
            UDP4_END as u64 + u64::from(*request_bytes.max(answer_bytes))
        }
        Work::Flows(flows) => flows.packet_bytes(),
    }
}

/// No run ends later than this, in nanoseconds.
pub(super) fn end(duration_ns: u64, patience_ns: u64, work: &Work) -> u64 {
    let last = match work {
        Work::Flows(Flows { starts: Starts::At(times), .. }) => times.last().copied().unwrap_or(0),
        _ => duration_ns,
    };
    last.saturating_add(patience_ns)
}
