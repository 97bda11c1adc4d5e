//! A controller's messages to its operators.

use super::Rejection;
use crate::types::Mac;
use pointsman_control::Code;
use pointsman_session::{self as session, ElectionId, Leader};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// Something that happened. Devices are named `server/device`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the sentences of `Display` explain the fields
pub enum Event {
    Connecting { address: String },
    ConnectionLost { reason: String, retry_in: Duration },
    Primary { id: ElectionId },
    Backup { leader: Leader },
    Bidding { leader: Leader, wait: Duration },
    Outranked { highest: ElectionId },
    PipelinePresent,
    PipelineInstalled,
    Adopted { entries: usize, foreign: usize },
    InSync { writes: usize },
    WriteFailed { update: String, code: Code, message: String },
    RequestFailed { what: &'static str, code: Code, message: String },
    ConfigAccepted { changed: String, by: String },
    ConfigRejected { reason: String },
    Resolved { address: IpAddr, port: u16, mac: Mac },
    NoAnswer { address: IpAddr, port: u16 },
    Contradicted { address: IpAddr, port: u16, mac: Mac },
    PacketFlood,
    Silent { device: String, port: u16 },
    Heard { device: String },
    Failed { device: String },
    Healthy { device: String },
    Refused { device: String, why: String },
    Draining { what: String },
    Drained { what: String },
    Empty { device: String },
    Held { devices: String },
    Released { devices: String },
    Learnt { service: String, learner: &'static str, decision: String },
    Warning { text: String },
    Note { text: String },
    Group { text: String, is_trouble: bool },
}

impl Event {
    /// A configuration was rejected.
    pub(super) fn rejected(why: impl Into<Rejection>) -> Event {
        Event::ConfigRejected { reason: why.into().to_string() }
    }

    /// Whether it is about the configuration of the rack, which all of its switches share.
    pub fn is_of_the_rack(&self) -> bool {
        matches!(
            self,
            Event::ConfigAccepted { .. }
                | Event::ConfigRejected { .. }
                | Event::Held { .. }
                | Event::Released { .. }
                | Event::Warning { .. }
                | Event::Note { .. }
                | Event::Group { .. }
        )
    }

    /// Whether an operator may have to mend something.
    pub fn is_trouble(&self) -> bool {
        match self {
            Event::Group { is_trouble, .. } => *is_trouble,
            _ => matches!(
                self,
                Event::ConnectionLost { .. }
                    | Event::Outranked { .. }
                    | Event::WriteFailed { .. }
                    | Event::RequestFailed { .. }
                    | Event::ConfigRejected { .. }
                    | Event::NoAnswer { .. }
                    | Event::Contradicted { .. }
                    | Event::PacketFlood
                    | Event::Silent { .. }
                    | Event::Failed { .. }
                    | Event::Refused { .. }
                    | Event::Warning { .. }
            ),
        }
    }

    /// What it says each time, for events that may come again and again while something is wrong; `None` for others.
    pub fn topic(&self) -> Option<String> {
        match self {
            // Waits get longer, and that is nothing new.
            Event::ConnectionLost { reason, .. } => Some(format!("lost: {reason}")),
            Event::Connecting { .. }
            | Event::Bidding { .. }
            | Event::WriteFailed { .. }
            | Event::RequestFailed { .. }
            | Event::NoAnswer { .. }
            | Event::Contradicted { .. }
            | Event::PacketFlood
            | Event::Warning { .. } => Some(self.to_string()),
            _ => None,
        }
    }

    /// What it is about, for logs: names of fields, which are those of labels of metrics, and values.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("event", self.kind().to_string())];
        match self {
            Event::Silent { device, .. }
            | Event::Heard { device }
            | Event::Failed { device }
            | Event::Healthy { device }
            | Event::Refused { device, .. }
            | Event::Empty { device } => {
                let server = device.split_once('/').map(|(server, _)| ("server", server.to_string()));
                fields.extend(server.into_iter().chain([("device", device.clone())]));
            }
            Event::Learnt { service, .. } => fields.push(("service", service.clone())),
            _ => {}
        }
        fields
    }

    /// A short name of its kind, as metrics have it.
    pub fn kind(&self) -> &'static str {
        match self {
            Event::Connecting { .. } => "connecting",
            Event::ConnectionLost { .. } => "connection_lost",
            Event::Primary { .. } => "primary",
            Event::Backup { .. } => "backup",
            Event::Bidding { .. } => "bidding",
            Event::Outranked { .. } => "outranked",
            Event::PipelinePresent => "pipeline_present",
            Event::PipelineInstalled => "pipeline_installed",
            Event::Adopted { .. } => "adopted",
            Event::InSync { .. } => "in_sync",
            Event::WriteFailed { .. } => "write_failed",
            Event::RequestFailed { .. } => "request_failed",
            Event::ConfigAccepted { .. } => "config_accepted",
            Event::ConfigRejected { .. } => "config_rejected",
            Event::Resolved { .. } => "resolved",
            Event::NoAnswer { .. } => "no_answer",
            Event::Contradicted { .. } => "contradicted",
            Event::PacketFlood => "packet_flood",
            Event::Silent { .. } => "silent",
            Event::Heard { .. } => "heard",
            Event::Failed { .. } => "failed",
            Event::Healthy { .. } => "healthy",
            Event::Refused { .. } => "refused",
            Event::Draining { .. } => "draining",
            Event::Drained { .. } => "drained",
            Event::Empty { .. } => "empty",
            Event::Held { .. } => "held",
            Event::Released { .. } => "released",
            Event::Learnt { .. } => "learnt",
            Event::Warning { .. } => "warning",
            Event::Note { .. } => "note",
            Event::Group { .. } => "group",
        }
    }
}

impl From<session::Event> for Event {
    fn from(event: session::Event) -> Self {
        match event {
            session::Event::Connecting { address } => Event::Connecting { address },
            session::Event::ConnectionLost { reason, retry_in } => Event::ConnectionLost { reason, retry_in },
            session::Event::Primary { id } => Event::Primary { id },
            session::Event::Backup { leader } => Event::Backup { leader },
            session::Event::Bidding { leader, wait } => Event::Bidding { leader, wait },
            session::Event::Outranked { highest } => Event::Outranked { highest },
            session::Event::Failed { what, error } => {
                Event::RequestFailed { what, code: error.code, message: error.message }
            }
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Connecting { address } => write!(f, "connecting to the switch at {address}"),
            Event::ConnectionLost { reason, retry_in } => {
                write!(f, "no connection to the switch: {reason}; trying again in {retry_in:?}")
            }
            Event::Primary { id } => write!(f, "in charge of the switch ({id})"),
            Event::Backup { leader } => standing_by(leader, f),
            Event::Bidding { leader: Leader::Foreign(id), wait } => {
                write!(f, "taking the switch from a client that is not a Pointsman controller ({id}) in {wait:?}")
            }
            Event::Bidding { wait, .. } => write!(f, "the switch has no controller; taking over in {wait:?}"),
            Event::Outranked { highest } => {
                write!(
                    f,
                    "the switch has seen {highest}: this controller needs a higher election id to take it"
                )
            }
            Event::PipelinePresent => f.write_str("the switch runs the right program"),
            Event::PipelineInstalled => f.write_str("program installed"),
            Event::Adopted { entries, foreign } => {
                write!(f, "table entries on the switch: {entries}")?;
                if *foreign > 0 {
                    write!(f, ", plus entries that are not in the configuration: {foreign}")
                } else {
                    Ok(())
                }
            }
            Event::InSync { writes } => write!(f, "the switch is up to date ({writes} change{})", if *writes == 1 { "" } else { "s" }),
            Event::WriteFailed { update, code, message } => {
                write!(f, "the switch refused to {update}: {message} ({code:?})")
            }
            Event::RequestFailed { what, code, message } => write!(f, "{what} failed: {message} ({code:?})"),
            Event::ConfigAccepted { changed, by } if by.is_empty() => write!(f, "configuration accepted: {changed}"),
            Event::ConfigAccepted { changed, by } => write!(f, "configuration accepted, from {by}: {changed}"),
            Event::ConfigRejected { reason } => {
                write!(f, "configuration rejected, keeping the previous one: {reason}")
            }
            Event::Resolved { address, port, mac } => write!(f, "{address} at port {port} is {mac}"),
            Event::NoAnswer { address, port } => {
                write!(f, "{address} at port {port} does not answer: is it up, and is the port right?")
            }
            Event::Contradicted { address, port, mac } => write!(
                f,
                "port {port}: an unsolicited frame claims {address} for {mac}; the known station is queried first, and kept if it answers"
            ),
            Event::PacketFlood => f.write_str(
                "a flood of ARP or neighbour discovery: known MAC addresses do not change while it lasts; set `mac` in rack.toml to fix them",
            ),
            Event::Learnt { service, learner, decision } => {
                write!(f, "decision service={service} learner={learner} {decision}")
            }
            Event::Warning { text } | Event::Note { text } | Event::Group { text, .. } => f.write_str(text),
            event => event.of_device(f),
        }
    }
}

/// Why no report may arrive from a device at this port of the switch, and where to look.
pub(crate) struct Silence {
    pub port: u16,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no report arrives; check its agent, the link at port {} of the switch (`port_up` in the switch's metrics), and its route to \
             the switch (`pointsman doctor` on its machine)",
            self.port
        )
    }
}

/// Another controller is in charge of the switch, or none.
fn standing_by(leader: &Leader, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (leader, leader.id()) {
        (Leader::Foreign(id), _) => {
            let remedy = if id.0 == u128::MAX {
                "; no higher id exists, so end that client, or restart the switch"
            } else {
                "; `preempt = true` in [switch] would take the switch from it"
            };
            write!(
                f,
                "{id} holds the switch, and it is not a Pointsman controller: nothing is written to the switch until that client \
                 disconnects{remedy}"
            )
        }
        (_, Some(id)) => write!(f, "another controller is in charge ({id}); standing by"),
        (_, None) => f.write_str("the switch has no controller"),
    }
}

impl Event {
    /// What happened to a device, or to several. Nothing for other events.
    fn of_device(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Silent { device, port } => {
                write!(f, "device {device} is silent: {}", Silence { port: *port })
            }
            Event::Heard { device } => write!(f, "device {device} is reporting again"),
            Event::Failed { device } => {
                write!(
                    f,
                    "device {device} failed its health check, according to its agent: it gets no new connections"
                )
            }
            Event::Healthy { device } => write!(f, "device {device} passes its health check again"),
            Event::Refused { device, why } => {
                write!(f, "reports of {device} arrive, but the switch refuses them: {why}")
            }
            Event::Draining { what } => {
                write!(f, "{what} takes no new connections; existing connections continue")
            }
            Event::Drained { what } => write!(f, "{what} has no connections left and is removed"),
            Event::Empty { device } => {
                write!(f, "device {device} takes no new connections and has none left: it can be stopped")
            }
            Event::Held { devices } => {
                write!(
                    f,
                    "held at weight 0 by the learner, in service but without new connections: {devices}"
                )
            }
            Event::Released { devices } => write!(f, "no longer held: {devices}"),
            _ => Ok(()),
        }
    }
}
