//! Updates: what one step of the head changed, and what it sends to switches.

use super::bytes::{Address, Reader, put};
use crate::message::Message;
use crate::outbox::Outbox;
use crate::saved::{LoadError, Saved};
use crate::store::Store;
use crate::table::RecordId;
use std::error::Error;
use std::fmt;

/// The longest update, in bytes: with its frame it fits into a datagram.
const MAX_UPDATE: usize = 60_000;
/// Bytes of rows in a part of a copy: less than a datagram, also with one more row.
const MAX_PART: usize = 32_000;

/// An update that a node cannot apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateError {
    /// Not an update.
    Malformed,
    /// The store does not take a key.
    Load(LoadError),
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpdateError::Malformed => f.write_str("it got an update that it cannot read"),
            UpdateError::Load(e) => write!(f, "it got {e}"),
        }
    }
}

impl Error for UpdateError {}

impl From<LoadError> for UpdateError {
    fn from(e: LoadError) -> Self {
        UpdateError::Load(e)
    }
}

fn put_rows<'a>(out: &mut Vec<u8>, rows: impl Iterator<Item = (Saved<'a>, bool)>) {
    for (saved, extended) in rows {
        let (key, row) = saved.encode();
        out.push(1 + u8::from(extended));
        put(out, &key);
        put(out, &row);
    }
    out.push(0);
}

/// Takes the changes of the last step from the store, with the answers. Returns the update, and how many answers had no room in it; `None`:
/// nothing changed, and nothing is sent.
pub(super) fn take<A: Address>(store: &mut Store<A>, answers: &Outbox<A>) -> Option<(Box<[u8]>, u64)> {
    let changed = !store.changed.is_empty() || store.removed().next().is_some();
    if !changed && answers.iter().next().is_none() {
        return None;
    }
    let mut out = Vec::with_capacity(512);
    out.extend(store.last_grant().to_be_bytes());
    store.removed().for_each(|key| put(&mut out, key));
    put(&mut out, &[]);
    let rows = store.changed.iter().map(|id| (Saved::of(&store.table, *id), store.table.get(*id).extended));
    put_rows(&mut out, rows);
    store.saved();
    let mut left_out = 0;
    for (to, bytes) in answers.iter() {
        if out.len() + bytes.len() + 64 > MAX_UPDATE {
            left_out += 1;
        } else {
            to.put(&mut out);
            put(&mut out, bytes);
        }
    }
    Some((out.into(), left_out))
}

/// A part of the data: an update with the keys from `from` on, and the first key behind it; `None`: it is the last part.
pub(super) fn part<A: Copy + Eq>(store: &Store<A>, from: RecordId) -> (Box<[u8]>, Option<RecordId>) {
    let mut out = Vec::with_capacity(MAX_PART + 1024);
    out.extend(store.last_grant().to_be_bytes());
    put(&mut out, &[]);
    let mut bytes = 0;
    let mut next = from;
    let rows = std::iter::from_fn(|| {
        while bytes < MAX_PART && next < store.table.end() {
            next += 1;
            if let Some(record) = store.table.live(next - 1) {
                bytes += 64 + record.key().len() + record.value().len();
                return Some((Saved::of(&store.table, next - 1), true));
            }
        }
        None
    });
    put_rows(&mut out, rows);
    (out.into(), (next < store.table.end()).then_some(next))
}

/// Applies an update to a replica. Leases that it extends count from now on.
pub(super) fn apply<A: Address>(store: &mut Store<A>, now: u64, update: &[u8]) -> Result<(), UpdateError> {
    let mut reader = Reader(update);
    let last_grant = reader.u32().ok_or(UpdateError::Malformed)?;
    store.continue_grants(last_grant);
    loop {
        match reader.bytes().ok_or(UpdateError::Malformed)? {
            [] => break,
            key => store.forget(key),
        }
    }
    loop {
        let extended = match reader.u8() {
            Some(0) => break,
            Some(mark @ (1 | 2)) => mark == 2,
            _ => return Err(UpdateError::Malformed),
        };
        let key = reader.bytes().ok_or(UpdateError::Malformed)?;
        let row = reader.bytes().ok_or(UpdateError::Malformed)?;
        store.adopt(now, Saved::decode(key, row)?, extended)?;
    }
    each_answer(reader, |to, bytes| {
        if let Ok((message, _)) = Message::split(bytes) {
            store.peers.hear(message.head.switch, message.head.incarnation, to);
        }
    })
}

/// Sends the answers of an update, which was read before.
pub(super) fn answer<A: Address>(update: &[u8], out: &mut Outbox<A>) {
    let mut reader = Reader(update);
    let skipped = (|| {
        reader.u32()?;
        while !reader.bytes()?.is_empty() {}
        while reader.u8()? != 0 {
            reader.bytes()?;
            reader.bytes()?;
        }
        Some(())
    })();
    if skipped.is_some() {
        // An update whose answers are malformed was not applied.
        let _ = each_answer(reader, |to, bytes| out.push(to, |buffer| buffer.extend_from_slice(bytes)));
    }
}

fn each_answer<A: Address>(
    mut reader: Reader<'_>,
    mut what: impl FnMut(A, &[u8]),
) -> Result<(), UpdateError> {
    while !reader.0.is_empty() {
        let to = A::take(&mut reader.0).ok_or(UpdateError::Malformed)?;
        what(to, reader.bytes().ok_or(UpdateError::Malformed)?);
    }
    Ok(())
}
