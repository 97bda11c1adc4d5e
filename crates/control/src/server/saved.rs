//! The server's own state, for a restart of its device: what clients wrote and the switch does not keep.
//!
//! It goes with a state of the switch ([`pointsman_v1model::SwitchState`]), because it names table entries and groups of it. Clients,
//! their roles and election ids are not part of it, nor is a pipeline that was saved and not committed, nor are digests that wait.

use super::{Book, Installed, Server, digest::DigestState, pipeline};
use crate::device::Device;
use crate::error::RpcError;
use crate::proto::p4rt as pb;
use pointsman_ir::{EntryHandle, ExternInstanceId, TableId};
use pointsman_v1model::{Kept, State, Time};
use prost::Message;

/// The cookie of an entry.
#[derive(Clone, PartialEq, prost::Message)]
struct Cookie {
    #[prost(uint32, tag = "1")]
    table: u32,
    #[prost(uint64, tag = "2")]
    handle: u64,
    #[prost(uint64, tag = "3")]
    cookie: u64,
}

/// Cookie and metadata of a default entry.
#[derive(Clone, PartialEq, prost::Message)]
struct DefaultEntry {
    #[prost(uint32, tag = "1")]
    table: u32,
    #[prost(uint64, tag = "2")]
    cookie: u64,
    #[prost(bytes = "vec", tag = "3")]
    metadata: Vec<u8>,
}

/// The action set that a one-shot group came from.
#[derive(Clone, PartialEq, prost::Message)]
struct OneShot {
    #[prost(uint32, tag = "1")]
    profile: u32,
    #[prost(uint32, tag = "2")]
    number: u32,
    #[prost(message, optional, tag = "3")]
    set: Option<pb::ActionProfileActionSet>,
}

/// The ports that a group's members watch, as the client named them.
#[derive(Clone, PartialEq, prost::Message)]
struct Watches {
    #[prost(uint32, tag = "1")]
    profile: u32,
    /// Its members have nothing but these ports.
    #[prost(message, optional, tag = "2")]
    group: Option<pb::ActionProfileGroup>,
}

/// All of it.
#[derive(Clone, PartialEq, prost::Message)]
struct Record {
    #[prost(message, optional, tag = "1")]
    config: Option<pb::ForwardingPipelineConfig>,
    #[prost(message, repeated, tag = "2")]
    cookies: Vec<Cookie>,
    #[prost(message, repeated, tag = "3")]
    defaults: Vec<DefaultEntry>,
    #[prost(message, repeated, tag = "4")]
    one_shots: Vec<OneShot>,
    #[prost(message, repeated, tag = "5")]
    watches: Vec<Watches>,
    #[prost(message, repeated, tag = "6")]
    groups: Vec<pb::MulticastGroupEntry>,
    #[prost(message, repeated, tag = "7")]
    sessions: Vec<pb::CloneSessionEntry>,
    #[prost(message, repeated, tag = "8")]
    digests: Vec<pb::DigestEntry>,
    #[prost(message, repeated, tag = "9")]
    names: Vec<Name>,
    #[prost(uint64, tag = "10")]
    last_list_id: u64,
}

/// A name that a controller gave to a value.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Name {
    /// Types with the same space share their names.
    #[prost(string, tag = "1")]
    pub space: String,
    #[prost(string, tag = "2")]
    pub name: String,
    /// The value's upper and lower 64 bits.
    #[prost(uint64, tag = "3")]
    pub high: u64,
    #[prost(uint64, tag = "4")]
    pub low: u64,
}

/// Why a server's state could not be restored.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerStateError {
    /// The bytes are not a server's state.
    Malformed(String),
    /// The program in it does not run here.
    Pipeline(RpcError),
}

impl std::fmt::Display for ServerStateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerStateError::Malformed(why) => write!(f, "P4Runtime's part is malformed: {why}"),
            ServerStateError::Pipeline(e) => write!(f, "its program does not run here: {}", e.message),
        }
    }
}

impl std::error::Error for ServerStateError {}

/// A server's state, read from bytes.
#[derive(Clone, Debug)]
pub struct ServerState(Record);

impl ServerState {
    /// Reads what [`Server::export`] wrote.
    ///
    /// # Errors
    /// The bytes are not that.
    pub fn from_bytes(bytes: &[u8]) -> Result<ServerState, ServerStateError> {
        let record = Record::decode(bytes).map_err(|e| ServerStateError::Malformed(e.to_string()))?;
        match record.config {
            Some(_) => Ok(ServerState(record)),
            None => Err(ServerStateError::Malformed("the pipeline is missing".to_string())),
        }
    }

    /// The `p4_device_config` of its pipeline.
    pub fn device_config(&self) -> &[u8] {
        self.0.config.as_ref().map_or(&[], |config| &config.p4_device_config)
    }
}

impl Server {
    /// The server's own state as bytes; `None` without a pipeline.
    pub fn export(&self) -> Option<Vec<u8>> {
        let Installed { config, book, names, .. } = self.live.as_ref()?;
        let record = Record {
            config: Some(config.clone()),
            names: names.all(),
            last_list_id: self.last_list_id,
            ..note(book)
        };
        Some(record.encode_to_vec())
    }

    /// Installs the pipeline of a saved state, and everything that belongs to it here. The caller then restores the state of the
    /// switch.
    ///
    /// # Errors
    /// The program does not run here. Then nothing has changed.
    pub fn resume(
        &mut self,
        device: &mut dyn Device,
        saved: &ServerState,
        now: Time,
    ) -> Result<(), ServerStateError> {
        let record = &saved.0;
        let made = pipeline::prepare(device, record.config.as_ref());
        let (mut installed, pipeline) = made.map_err(ServerStateError::Pipeline)?;
        installed.book = book(record);
        installed.names.learn_all(&record.names);
        let known = &installed.schema.digests;
        installed.book.digests.retain(|id, _| known.contains_key(id));
        let state = State::new(&pipeline, device.config());
        self.commit(device, installed, pipeline, state, &Kept::default(), now)
            .map_err(ServerStateError::Pipeline)?;
        self.last_list_id = record.last_list_id;
        Ok(())
    }
}

/// The book of a pipeline as messages.
fn note(book: &Book) -> Record {
    let watches = |((profile, group_id), kinds): (&(ExternInstanceId, u32), &Vec<_>)| {
        let members = kinds.iter().map(|watch_kind: &Option<_>| {
            let watch_kind = watch_kind.clone();
            pb::action_profile_group::Member { watch_kind, ..Default::default() }
        });
        let members = members.collect();
        let group = pb::ActionProfileGroup { group_id: *group_id, members, ..Default::default() };
        Watches { profile: profile.0, group: Some(group) }
    };
    let cookies = book.cookies.iter().map(|((table, handle), cookie)| Cookie {
        table: table.0,
        handle: handle.0,
        cookie: *cookie,
    });
    let defaults = book.defaults.iter().map(|(table, (cookie, metadata))| DefaultEntry {
        table: table.0,
        cookie: *cookie,
        metadata: metadata.clone(),
    });
    let one_shots = book.one_shots.iter().map(|((profile, number), set)| OneShot {
        profile: profile.0,
        number: *number,
        set: Some(set.clone()),
    });
    let digests =
        book.digests.iter().map(|(id, state)| pb::DigestEntry { digest_id: *id, config: Some(state.config) });
    Record {
        cookies: cookies.collect(),
        defaults: defaults.collect(),
        one_shots: one_shots.collect(),
        watches: book.watches.iter().map(watches).collect(),
        groups: book.groups.values().cloned().collect(),
        sessions: book.sessions.values().cloned().collect(),
        digests: digests.collect(),
        ..Default::default()
    }
}

/// The reverse of [`note`].
fn book(record: &Record) -> Book {
    let watches = |w: &Watches| {
        let group = w.group.as_ref()?;
        let kinds = group.members.iter().map(|m| m.watch_kind.clone()).collect();
        Some(((ExternInstanceId(w.profile), group.group_id), kinds))
    };
    let one_shot = |o: &OneShot| Some(((ExternInstanceId(o.profile), o.number), o.set.clone()?));
    let cookie = |c: &Cookie| ((TableId(c.table), EntryHandle(c.handle)), c.cookie);
    let default = |d: &DefaultEntry| (TableId(d.table), (d.cookie, d.metadata.clone()));
    let digest = |d: &pb::DigestEntry| {
        let config = d.config.unwrap_or_default();
        (d.digest_id, DigestState::of(config))
    };
    Book {
        cookies: record.cookies.iter().map(cookie).collect(),
        defaults: record.defaults.iter().map(default).collect(),
        one_shots: record.one_shots.iter().filter_map(one_shot).collect(),
        watches: record.watches.iter().filter_map(watches).collect(),
        groups: record.groups.iter().map(|g| (g.multicast_group_id, g.clone())).collect(),
        sessions: record.sessions.iter().map(|s| (s.session_id, s.clone())).collect(),
        digests: record.digests.iter().map(digest).collect(),
    }
}
