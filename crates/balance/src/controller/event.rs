//! What a controller tells the people who watch it.

use crate::types::Mac;
use pointsman_control::Code;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// Something that happened. Devices are named `server/device`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are what the sentences of `Display` say
pub enum Event {
    Connecting { address: String },
    ConnectionLost { reason: String, retry_in: Duration },
    Primary,
    Backup { leader: Option<u128> },
    PipelinePresent,
    PipelineInstalled,
    Adopted { entries: usize, foreign: usize },
    InSync { writes: usize },
    WriteFailed { update: String, code: Code, message: String },
    RequestFailed { what: &'static str, code: Code, message: String },
    ConfigAccepted,
    ConfigRejected { reason: String },
    Resolved { address: IpAddr, port: u16, mac: Mac },
    NoAnswer { address: IpAddr, port: u16 },
    Silent { device: String },
    Heard { device: String },
    Draining { what: String },
    Drained { what: String },
    Empty { device: String },
    Held { devices: String },
    Released { devices: String },
    Learnt { service: String, learner: &'static str, decision: String },
    Warning { text: String },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Connecting { address } => write!(f, "connecting to the switch at {address}"),
            Event::ConnectionLost { reason, retry_in } => {
                write!(f, "no connection to the switch: {reason}; trying again in {retry_in:?}")
            }
            Event::Primary => f.write_str("in charge of the switch"),
            Event::Backup { leader: Some(id) } => {
                write!(f, "another controller is in charge (election id {id}); standing by")
            }
            Event::Backup { leader: None } => f.write_str("no controller is in charge; standing by"),
            Event::PipelinePresent => f.write_str("the switch runs the right program"),
            Event::PipelineInstalled => f.write_str("program installed"),
            Event::Adopted { entries, foreign } => {
                write!(f, "table entries that the switch holds: {entries}")?;
                if *foreign > 0 {
                    write!(f, ", and of others, which the configuration does not have: {foreign}")
                } else {
                    Ok(())
                }
            }
            Event::InSync { writes } => write!(f, "the switch is up to date ({writes} changes)"),
            Event::WriteFailed { update, code, message } => {
                write!(f, "the switch refused to {update}: {message} ({code:?})")
            }
            Event::RequestFailed { what, code, message } => write!(f, "{what} failed: {message} ({code:?})"),
            Event::ConfigAccepted => f.write_str("configuration accepted"),
            Event::ConfigRejected { reason } => {
                write!(f, "configuration rejected, the old one stays: {reason}")
            }
            Event::Resolved { address, port, mac } => write!(f, "{address} at port {port} is {mac}"),
            Event::NoAnswer { address, port } => {
                write!(f, "{address} at port {port} does not answer: is it up, and is the port right?")
            }
            Event::Silent { device } => write!(f, "device {device} is silent: is its agent running?"),
            Event::Heard { device } => write!(f, "device {device} is heard of again"),
            Event::Draining { what } => write!(f, "{what} takes no new connections; those that exist go on"),
            Event::Drained { what } => write!(f, "{what} has no connections any more and is removed"),
            Event::Empty { device } => {
                write!(f, "device {device} takes no new connections and has none any more: it can be stopped")
            }
            Event::Held { devices } => {
                write!(
                    f,
                    "held at weight 0 by the learner, in service but without new connections: {devices}"
                )
            }
            Event::Released { devices } => write!(f, "held no longer: {devices}"),
            Event::Learnt { service, learner, decision } => {
                write!(f, "decision service={service} learner={learner} {decision}")
            }
            Event::Warning { text } => f.write_str(text),
        }
    }
}
