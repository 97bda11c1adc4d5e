//! The P4Runtime server as a state machine: messages in, messages out; no sockets, no clock.
//!
//! A caller with sockets gives every stream channel a [`ConnId`], hands its messages to [`Server::stream_message`] and
//! sends the answers. Unary calls are plain method calls. The switch is passed to each call as a [`Device`], so that
//! the data path keeps its owner. Long calls release it again and again ([`Device::release`]). `now` is the switch's
//! time.

mod arbitration;
mod cells;
mod digest;
mod packet;
mod pipeline;
mod profiles;
mod read;
mod reading;
mod reconcile;
mod replication;
mod resources;
mod roles;
mod saved;
mod tables;
#[cfg(test)]
mod tests;
mod view;
mod write;

pub use arbitration::{ConnId, RoleKey, election_id};
pub use packet::PacketInError;
pub use reading::{ReadOutcome, ReadStep, Reading};
pub use roles::{P4RoleConfig, PacketFilter};
pub(crate) use saved::Name;
pub use saved::{ServerState, ServerStateError};

use crate::device::Device;
use crate::error::{Code, RpcError};
use crate::proto::p4rt as pb;
use crate::schema::Schema;
use crate::translate::{Codec, Names, Ports};
use arbitration::{Arbitration, Notice};
use pointsman_ir::{EntryHandle, ExternInstanceId, TableId};
use pointsman_v1model::{Pipeline, State, Time};
use reading::Changes;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use view::{Terms, View};

/// The version of the P4Runtime API that this server implements.
pub const API_VERSION: &str = "1.5.0";

/// Clients search for this text to detect that no pipeline is set yet.
const NO_PIPELINE: &str =
    "No forwarding pipeline config set for this device: send one with VERIFY_AND_COMMIT";

/// Settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The device that this server represents.
    pub device_id: u64,
    /// Stream channels that may share a role.
    pub max_clients_per_role: NonZeroUsize,
    /// Entities in one message of a read's stream: keeps messages below the 4 MiB that gRPC clients accept.
    pub entities_per_response: NonZeroUsize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            device_id: 1,
            max_clients_per_role: const { NonZeroUsize::new(16).unwrap() },
            entities_per_response: const { NonZeroUsize::new(1024).unwrap() },
        }
    }
}

/// An action that follows from a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send this on a stream channel.
    Send {
        /// To whom.
        conn: ConnId,
        /// What.
        response: pb::StreamMessageResponse,
    },
    /// End a stream channel with this status. [`Server::connection_closed`] has been done already.
    Close {
        /// Whose.
        conn: ConnId,
        /// Why.
        error: RpcError,
    },
    /// Give this packet to the switch as if it had arrived on its CPU port.
    PacketOut {
        /// The packet, with the `packet_out` header in front if the program has one.
        packet: Vec<u8>,
    },
}

/// State that the switch does not keep: opaque data of controllers, and messages in their original form.
#[derive(Clone, Debug, Default)]
struct Book {
    /// The deprecated 64-bit cookie of entries.
    cookies: BTreeMap<(TableId, EntryHandle), u64>,
    /// Cookie and metadata of default entries.
    defaults: BTreeMap<TableId, (u64, Vec<u8>)>,
    /// The action sets that one-shot groups came from.
    one_shots: BTreeMap<(ExternInstanceId, u32), pb::ActionProfileActionSet>,
    /// How groups named the ports that their members watch.
    watches: BTreeMap<(ExternInstanceId, u32), Vec<Option<pb::action_profile_group::member::WatchKind>>>,
    groups: BTreeMap<u32, pb::MulticastGroupEntry>,
    sessions: BTreeMap<u32, pb::CloneSessionEntry>,
    digests: BTreeMap<u32, digest::DigestState>,
}

/// A pipeline configuration and what belongs to it.
struct Installed {
    schema: Schema,
    config: pb::ForwardingPipelineConfig,
    book: Book,
    names: Names,
}

/// A pipeline after `VERIFY_AND_SAVE`: it takes reads and writes, but no packets.
struct Saved {
    installed: Installed,
    pipeline: Pipeline,
    state: State,
}

/// A pipeline with its state, for the time of one call.
struct Access<'a> {
    schema: &'a Schema,
    book: &'a mut Book,
    state: &'a mut State,
    names: &'a Names,
    ports: &'a Ports,
    /// Unused names get a value.
    learn: bool,
    /// Updates without an index write only those cells that are among these.
    cells: Range<u64>,
    now: Time,
}

impl<'a> Access<'a> {
    fn codec(&self) -> Codec<'a> {
        Codec { names: self.names, ports: self.ports, learn: self.learn }
    }

    /// The same, to be read.
    fn view(&self) -> View<'_> {
        View {
            terms: Terms { schema: self.schema, book: self.book, codec: self.codec() },
            state: self.state,
            now: self.now,
        }
    }
}

/// The P4Runtime server of one device.
pub struct Server {
    config: ServerConfig,
    arbitration: Arbitration,
    live: Option<Installed>,
    saved: Option<Saved>,
    /// Those of the device at the last call that passed it.
    ports: Ports,
    /// Of the last digest list.
    last_list_id: u64,
    /// Another one with each pipeline that reads and writes refer to.
    pipeline: u64,
    changes: Changes,
}

impl Server {
    /// A server without clients and without a pipeline.
    pub fn new(config: ServerConfig) -> Self {
        let arbitration = Arbitration::new(config.device_id, config.max_clients_per_role.get());
        Server {
            config,
            arbitration,
            live: None,
            saved: None,
            ports: Ports::default(),
            last_list_id: 0,
            pipeline: 0,
            changes: Changes::default(),
        }
    }

    /// A client sent a message on its stream channel.
    pub fn stream_message(&mut self, conn: ConnId, message: &pb::StreamMessageRequest) -> Vec<Output> {
        use pb::stream_message_request::Update;
        match &message.update {
            Some(Update::Arbitration(update)) => match self.arbitration.update(conn, update) {
                Ok(notices) => send_all(notices),
                Err(error) => {
                    let mut out = self.connection_closed(conn);
                    out.push(Output::Close { conn, error });
                    out
                }
            },
            Some(Update::Packet(packet)) => self.packet_out(conn, packet),
            Some(Update::DigestAck(ack)) => self.digest_ack(conn, ack),
            Some(Update::Other(other)) => {
                let details =
                    pb::stream_error::Details::Other(pb::StreamOtherError { other: Some(other.clone()) });
                let message = "this target does not support `other` messages".to_string();
                vec![stream_error(conn, Code::Unimplemented, message, details)]
            }
            None => {
                let details = pb::stream_error::Details::Other(pb::StreamOtherError::default());
                vec![stream_error(conn, Code::InvalidArgument, "the message is empty".to_string(), details)]
            }
        }
    }

    /// A stream channel has ended.
    pub fn connection_closed(&mut self, conn: ConnId) -> Vec<Output> {
        send_all(self.arbitration.close(conn))
    }

    /// The name of a port in types that are translated to strings; an interface, for example.
    pub fn set_port_name(&mut self, port: u32, name: Option<String>) {
        match name {
            Some(name) => self.ports.names.insert(port, name),
            None => self.ports.names.remove(&port),
        };
    }

    /// A port went up or down: members that watch it, and replicas, take note ("Port Translation for PSA
    /// Extern APIs"). All ports are up at first.
    pub fn port_status(&mut self, device: &mut dyn Device, port: u32, up: bool) {
        device.set_port_status(port, up);
        if let Some(saved) = &mut self.saved {
            saved.state.set_port_status(port, up);
        }
    }

    /// The primary client of a role.
    pub fn primary(&self, role: &RoleKey) -> Option<ConnId> {
        self.arbitration.primary(role)
    }

    /// Role and election id of a stream channel, and whether it is the primary.
    pub fn standing(&self, conn: ConnId) -> Option<(&RoleKey, Option<u128>, bool)> {
        let (role, id) = self.arbitration.standing(conn)?;
        Some((role, id, self.arbitration.is_primary(conn)))
    }

    /// The answer to `Capabilities`.
    ///
    /// # Errors
    /// The request is about another device.
    pub fn capabilities(
        &self,
        request: &pb::CapabilitiesRequest,
    ) -> Result<pb::CapabilitiesResponse, RpcError> {
        if request.device_id != 0 {
            self.check_device(request.device_id)?;
        }
        Ok(pb::CapabilitiesResponse { p4runtime_api_version: API_VERSION.to_string(), experimental: None })
    }

    /// Checks that a request is for this device.
    ///
    /// # Errors
    /// It is not.
    pub fn check_device(&self, device_id: u64) -> Result<(), RpcError> {
        if device_id == self.config.device_id {
            return Ok(());
        }
        let message = format!("this is device {}, not {device_id}", self.config.device_id);
        Err(RpcError::new(Code::NotFound, message))
    }

    /// The pipeline that requests refer to: a saved one if it exists ("`SetForwardingPipelineConfig` RPC").
    ///
    /// # Errors
    /// There is none.
    fn access<'a>(&'a mut self, device: &'a mut dyn Device, now: Time) -> Result<Access<'a>, RpcError> {
        self.look_at_ports(device);
        let (ports, learn) = (&self.ports, false);
        if let Some(Saved { installed, state, .. }) = &mut self.saved {
            let Installed { schema, book, names, .. } = installed;
            return Ok(Access { schema, book, state, names, ports, learn, cells: 0..u64::MAX, now });
        }
        match (&mut self.live, device.state_mut()) {
            (Some(Installed { schema, book, names, .. }), Some(state)) => {
                Ok(Access { schema, book, state, names, ports, learn, cells: 0..u64::MAX, now })
            }
            _ => Err(RpcError::new(Code::FailedPrecondition, NO_PIPELINE)),
        }
    }

    /// The translated values of the pipeline that clients write to.
    fn names(&self) -> Result<&Names, RpcError> {
        let installed = self.saved.as_ref().map(|s| &s.installed).or(self.live.as_ref());
        installed.map(|i| &i.names).ok_or_else(|| RpcError::new(Code::FailedPrecondition, NO_PIPELINE))
    }

    fn look_at_ports(&mut self, device: &dyn Device) {
        self.ports.cpu = device.config().cpu_port;
        if self.ports.all.as_ref() != device.ports() {
            self.ports.all = device.ports().cloned();
        }
    }
}

fn send_all(notices: Vec<Notice>) -> Vec<Output> {
    use pb::stream_message_response::Update;
    let send = |(conn, update)| Output::Send {
        conn,
        response: pb::StreamMessageResponse { update: Some(Update::Arbitration(update)) },
    };
    notices.into_iter().map(send).collect()
}

/// "Stream Error Reporting".
fn stream_error(conn: ConnId, code: Code, message: String, details: pb::stream_error::Details) -> Output {
    let error = pb::StreamError {
        canonical_code: code.number(),
        message,
        details: Some(details),
        ..Default::default()
    };
    let update = Some(pb::stream_message_response::Update::Error(error));
    Output::Send { conn, response: pb::StreamMessageResponse { update } }
}
