//! Packets and notifications on stream channels (P4Runtime specification, "P4Runtime Stream Messages").

use super::roles::RoleRules;
use super::{ConnId, Installed, NO_PIPELINE, Output, Server, stream_error};
use crate::entry;
use crate::error::{Code, EntityError};
use crate::proto::p4rt as pb;
use crate::schema::HeaderField;
use crate::translate::Codec;
use pb::stream_message_response::Update;
use pointsman_ir::Bits;
use pointsman_v1model::{IdleEntry, State};
use std::fmt;

/// Why a packet for the control plane was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketInError {
    /// No pipeline is set.
    NoPipeline,
    /// No client is primary, or those that are do not want it.
    NoPrimary,
    /// The packet is shorter than the program's `packet_in` header.
    TooShort {
        /// Bytes of the packet.
        have: usize,
        /// Bytes of the header.
        need: usize,
    },
}

impl fmt::Display for PacketInError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketInError::NoPipeline => f.write_str("no pipeline is set"),
            PacketInError::NoPrimary => f.write_str("no client is primary"),
            PacketInError::TooShort { have, need } => {
                write!(f, "the packet has {have} bytes, the packet_in header {need}")
            }
        }
    }
}

impl std::error::Error for PacketInError {}

impl Server {
    /// A packet left the switch on its CPU port: it goes to the primary client of every role. If the program has a
    /// header with `@controller_header("packet_in")`, the packet must begin with it; it becomes the message's metadata.
    ///
    /// # Errors
    /// The packet is not delivered.
    pub fn packet_in(&self, packet: &[u8]) -> Result<Vec<Output>, PacketInError> {
        let live = self.live.as_ref().ok_or(PacketInError::NoPipeline)?;
        let (metadata, payload) = match &live.schema.packet_in {
            None => (Vec::new(), packet),
            Some(fields) => unpack(&self.codec(live), fields, packet)?,
        };
        let packet = pb::PacketIn { payload: payload.to_vec(), metadata };
        let out = self.to_primaries(|rules| {
            let wanted = rules.is_none_or(|rules| rules.receives(&packet));
            wanted.then(|| Update::Packet(packet.clone()))
        });
        if out.is_empty() { Err(PacketInError::NoPrimary) } else { Ok(out) }
    }

    /// A message for the primary client of each role that gets one; a role without rules may see everything.
    pub(super) fn to_primaries(&self, message: impl Fn(Option<&RoleRules>) -> Option<Update>) -> Vec<Output> {
        let send = |(conn, rules)| {
            let update = Some(message(rules)?);
            Some(Output::Send { conn, response: pb::StreamMessageResponse { update } })
        };
        self.arbitration.primaries().into_iter().filter_map(send).collect()
    }

    /// Outside of writes no names are learned.
    pub(super) fn codec<'a>(&'a self, live: &'a Installed) -> Codec<'a> {
        Codec { names: &live.names, ports: &self.ports, learn: false }
    }

    pub(super) fn packet_out(&self, conn: ConnId, packet: &pb::PacketOut) -> Vec<Output> {
        match self.pack(conn, packet) {
            Ok(packet) => vec![Output::PacketOut { packet }],
            Err(error) => {
                let details = pb::PacketOutError { packet_out: Some(packet.clone()) };
                let details = pb::stream_error::Details::PacketOut(details);
                vec![stream_error(conn, error.code, error.message, details)]
            }
        }
    }

    fn pack(&self, conn: ConnId, packet: &pb::PacketOut) -> Result<Vec<u8>, EntityError> {
        if !self.arbitration.is_primary(conn) {
            let message = "only the primary client may send packets";
            return Err(EntityError::new(Code::PermissionDenied, message));
        }
        let live =
            self.live.as_ref().ok_or_else(|| EntityError::new(Code::FailedPrecondition, NO_PIPELINE))?;
        let fields = live.schema.packet_out.as_deref().unwrap_or(&[]);
        let unknown = packet.metadata.iter().find(|m| !fields.iter().any(|f| f.id == Some(m.metadata_id)));
        if let Some(m) = unknown {
            return Err(EntityError::invalid(format!(
                "there is no packet_out metadata with id {}",
                m.metadata_id
            )));
        }
        let mut header = Bits::zero(0);
        for field in fields {
            // Fields that controllers do not see are zero.
            let value = match field.id {
                None => Bits::zero(field.scalar.width),
                Some(id) => {
                    let place = |e: EntityError| e.at(format_args!("metadata {}", field.name));
                    let mut given = packet.metadata.iter().filter(|m| m.metadata_id == id);
                    let value = given.next().ok_or_else(|| place(EntityError::invalid("it is missing")))?;
                    if given.next().is_some() {
                        return Err(place(EntityError::invalid("it is given twice")));
                    }
                    field.scalar.decode(&self.codec(live), &value.value).map_err(place)?
                }
            };
            header = header.concat(&value);
        }
        let mut bytes = aligned(&header).to_be_bytes();
        bytes.extend_from_slice(&packet.payload);
        Ok(bytes)
    }

    /// Entries were idle for their time ("Table Idle Timeout Notification"). `state` is that of the live pipeline,
    /// `unix_ns` the time of day for the message.
    pub fn idle_entries(&self, state: &State, idle: &[IdleEntry], unix_ns: i64) -> Vec<Output> {
        let Some(live) = &self.live else { return Vec::new() };
        let entry = |i: &IdleEntry, rules: Option<&RoleRules>| {
            let table = live.schema.table_by_index(i.table)?;
            if rules.is_some_and(|rules| !rules.allows(&[table.id])) {
                return None;
            }
            let entry = state.table(i.table)?.store().get(i.handle)?;
            #[allow(deprecated)]
            let message = pb::TableEntry {
                controller_metadata: live.book.cookies.get(&(i.table, i.handle)).copied().unwrap_or(0),
                metadata: entry.metadata.clone(),
                idle_timeout_ns: i64::try_from(entry.idle_timeout_ns).unwrap_or(i64::MAX),
                ..entry::encode_key(&self.codec(live), table, &entry)
            };
            Some(message)
        };
        self.to_primaries(|rules| {
            let table_entry: Vec<pb::TableEntry> = idle.iter().filter_map(|i| entry(i, rules)).collect();
            let notification = pb::IdleTimeoutNotification { table_entry, timestamp: unix_ns };
            let some = !notification.table_entry.is_empty();
            some.then_some(Update::IdleTimeoutNotification(notification))
        })
    }
}

/// Filled with zeros at the end up to whole bytes.
fn aligned(bits: &Bits) -> Bits {
    let whole = bits.width().div_ceil(8) * 8;
    bits.concat(&Bits::zero(whole - bits.width()))
}

/// Splits a packet into the metadata of its first header and the rest.
fn unpack<'a>(
    codec: &Codec,
    fields: &[HeaderField],
    packet: &'a [u8],
) -> Result<(Vec<pb::PacketMetadata>, &'a [u8]), PacketInError> {
    let width: u32 = fields.iter().map(|f| f.scalar.width).sum();
    let need = width.div_ceil(8) as usize;
    let Some((header, payload)) = packet.split_at_checked(need) else {
        return Err(PacketInError::TooShort { have: packet.len(), need });
    };
    let header = Bits::from_be_bytes(width.div_ceil(8) * 8, header);
    let mut metadata = Vec::new();
    let mut high = header.width();
    for field in fields.iter().filter(|f| f.scalar.width > 0) {
        let value = header.slice(high - 1, high - field.scalar.width);
        high -= field.scalar.width;
        if let Some(id) = field.id {
            metadata.push(pb::PacketMetadata { metadata_id: id, value: field.scalar.encode(codec, &value) });
        }
    }
    Ok((metadata, payload))
}
