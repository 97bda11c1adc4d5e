//! Digests (P4Runtime specification, "`DigestEntry`").

use super::resources::by_id;
use super::tables::set_or_remove;
use super::write::{Op, Undo, UndoLog};
use super::{Access, ConnId, Output, Server, stream_error};
use crate::error::{Code, EntityError};
use crate::p4data;
use crate::proto::p4rt::{self as pb, P4Data, digest_entry::Config};
use crate::translate::Codec;
use pointsman_v1model::{Digest, Time};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// The default if the client sets no limit.
const MAX_LIST_SIZE: usize = 1000;

/// Messages of one digest that wait or are not acknowledged: more are dropped, so that a client that never acknowledges
/// does not fill the memory.
const MAX_KNOWN: usize = 1 << 16;

/// One enabled digest.
#[derive(Clone, Debug, Default)]
pub(super) struct DigestState {
    pub config: Config,
    /// Not sent yet.
    buffer: Vec<P4Data>,
    /// The first of these did not arrive earlier.
    since: Time,
    /// Values in `buffer`, or sent and not acknowledged: not to be sent again.
    known: BTreeSet<Vec<u8>>,
    /// By list id: when it was sent, and what of `known` it brought.
    unacknowledged: BTreeMap<u64, (Time, Vec<Vec<u8>>)>,
}

fn ns(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

impl DigestState {
    /// One without messages.
    pub fn of(config: Config) -> DigestState {
        DigestState { config, ..Default::default() }
    }

    /// How many messages a list may have.
    fn limit(&self) -> usize {
        usize::try_from(self.config.max_list_size).ok().filter(|n| *n > 0).unwrap_or(MAX_LIST_SIZE)
    }

    fn push(&mut self, data: P4Data, now: Time) {
        if self.known.len() >= MAX_KNOWN || !self.known.insert(data.encode_to_vec()) {
            return;
        }
        if self.buffer.is_empty() {
            self.since = now;
        }
        self.buffer.push(data);
    }

    /// When the next list is to be sent: as soon as there are enough messages for it.
    fn due(&self) -> Option<Time> {
        match self.buffer.len() {
            0 => None,
            n if n >= self.limit() => Some(self.since),
            _ => Some(self.since.plus_ns(ns(self.config.max_timeout_ns))),
        }
    }

    /// Takes the lists out of the buffer that are due: several, if a client has made them shorter in the meantime.
    fn take_due(
        &mut self,
        digest_id: u32,
        last_list_id: &mut u64,
        now: Time,
        unix_ns: i64,
    ) -> Vec<pb::DigestList> {
        let mut lists = Vec::new();
        while self.due().is_some_and(|due| due <= now) {
            *last_list_id += 1;
            lists.push(self.list(digest_id, *last_list_id, now, unix_ns));
        }
        lists
    }

    /// Takes a list out of the buffer.
    fn list(&mut self, digest_id: u32, list_id: u64, now: Time, unix_ns: i64) -> pb::DigestList {
        let size = self.limit().min(self.buffer.len());
        let data: Vec<P4Data> = self.buffer.drain(..size).collect();
        let keys: Vec<Vec<u8>> = data.iter().map(Message::encode_to_vec).collect();
        if self.config.ack_timeout_ns > 0 {
            self.unacknowledged.insert(list_id, (now, keys));
        } else {
            keys.iter().for_each(|k| {
                self.known.remove(k);
            });
        }
        pb::DigestList { digest_id, list_id, data, timestamp: unix_ns }
    }

    fn forget(&mut self, list_id: u64) {
        if let Some((_, keys)) = self.unacknowledged.remove(&list_id) {
            keys.iter().for_each(|k| {
                self.known.remove(k);
            });
        }
    }

    fn expire(&mut self, now: Time) {
        let timeout = ns(self.config.ack_timeout_ns);
        let old = self.unacknowledged.iter().filter(|(_, (sent, _))| now.since(*sent) >= timeout);
        let old: Vec<u64> = old.map(|(id, _)| *id).collect();
        old.into_iter().for_each(|id| self.forget(id));
    }
}

impl Server {
    /// The program made digests. Those that a client has enabled are sent, or wait for [`Server::tick`]; all others
    /// are dropped. `unix_ns` is the time of day for the message.
    pub fn digests(&mut self, digests: &[Digest], now: Time, unix_ns: i64) -> Vec<Output> {
        let mut lists = Vec::new();
        if let Some(live) = &mut self.live {
            let codec = Codec { names: &live.names, ports: &self.ports, learn: false };
            for digest in digests {
                let found = live.schema.digests.iter().find(|(_, d)| d.ty == digest.ty);
                let Some((id, schema)) = found else { continue };
                let Some(state) = live.book.digests.get_mut(id) else { continue };
                state.expire(now);
                state.push(p4data::encode(&codec, &live.schema.program, schema.ty, &digest.data), now);
                lists.extend(state.take_due(*id, &mut self.last_list_id, now, unix_ns));
            }
        }
        self.send_digests(lists)
    }

    /// Sends the digests that have waited long enough; to be called at [`Server::next_deadline`].
    pub fn tick(&mut self, now: Time, unix_ns: i64) -> Vec<Output> {
        let mut lists = Vec::new();
        if let Some(live) = &mut self.live {
            for (id, state) in &mut live.book.digests {
                state.expire(now);
                lists.extend(state.take_due(*id, &mut self.last_list_id, now, unix_ns));
            }
        }
        self.send_digests(lists)
    }

    /// When [`Server::tick`] next has something to do.
    pub fn next_deadline(&self) -> Option<Time> {
        self.live.iter().flat_map(|l| l.book.digests.values().filter_map(DigestState::due)).min()
    }

    /// Lists that no client gets are dropped. Their messages do not wait for an acknowledgement: a later client gets them
    /// as soon as the program makes them again.
    fn send_digests(&mut self, lists: Vec<pb::DigestList>) -> Vec<Output> {
        use pb::stream_message_response::Update;
        let mut outputs = Vec::new();
        for list in lists {
            let sent = self.to_primaries(|rules| {
                let wanted = rules.is_none_or(|rules| rules.allows(&[list.digest_id]));
                wanted.then(|| Update::Digest(list.clone()))
            });
            let state = self.live.as_mut().and_then(|l| l.book.digests.get_mut(&list.digest_id));
            if let Some(state) = state.filter(|_| sent.is_empty()) {
                state.forget(list.list_id);
            }
            outputs.extend(sent);
        }
        outputs
    }

    pub(super) fn digest_ack(&mut self, conn: ConnId, ack: &pb::DigestListAck) -> Vec<Output> {
        let known = self.live.as_ref().is_some_and(|l| l.schema.digests.contains_key(&ack.digest_id));
        if !known {
            let message = format!("there is no digest with id {:#010x}", ack.digest_id);
            let details = pb::DigestListAckError { digest_list_ack: Some(*ack) };
            let details = pb::stream_error::Details::DigestListAck(details);
            return vec![stream_error(conn, Code::InvalidArgument, message, details)];
        }
        let state = self.live.as_mut().and_then(|l| l.book.digests.get_mut(&ack.digest_id));
        if let Some(state) = state
            && self.arbitration.is_primary(conn)
        {
            state.forget(ack.list_id);
        }
        Vec::new()
    }
}

impl Access<'_> {
    pub(super) fn write_digest(
        &mut self,
        op: Op,
        e: &pb::DigestEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let digest = by_id(&self.schema.digests, "digest", e.digest_id)?;
        let place = |error: EntityError| error.at(format_args!("digest {}", digest.name));
        let id = e.digest_id;
        let old = self.book.digests.get(&id).cloned();
        let new = match (op, &old) {
            (Op::Insert, Some(_)) => {
                return Err(place(EntityError::new(Code::AlreadyExists, "it is already enabled")));
            }
            (Op::Modify | Op::Delete, None) => {
                return Err(place(EntityError::not_found("it is not enabled")));
            }
            (Op::Delete, Some(_)) => None,
            (Op::Insert | Op::Modify, old) => {
                let config = e.config.unwrap_or_default();
                for (what, n) in [
                    ("max_timeout_ns", config.max_timeout_ns),
                    ("max_list_size", i64::from(config.max_list_size)),
                    ("ack_timeout_ns", config.ack_timeout_ns),
                ] {
                    if n < 0 {
                        let message = format!("{what} is {n}: it cannot be negative");
                        return Err(place(EntityError::invalid(message)));
                    }
                }
                Some(DigestState { config, ..old.clone().unwrap_or_default() })
            }
        };
        set_or_remove(&mut self.book.digests, id, new);
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |book, _| set_or_remove(&mut book.digests, id, old));
            undo.push(step);
        }
        Ok(())
    }
}
