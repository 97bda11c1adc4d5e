//! The state of a store as a value.

use crate::peers::{Peer, Peers};
use crate::saved::{LoadError, Saved};
use crate::session::Sessions;
use crate::store::Store;
use crate::table::{Owner, Reader, Role};
use crate::waiting::Queue;

/// The state of a store at one moment ([`Store::image`]). Times are nanoseconds from that moment, 0 if they are in the past: equal
/// images treat all later messages alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Image<A> {
    /// In the order in which the keys came.
    pub keys: Vec<KeyImage<A>>,
    /// Where each switch was last heard, by number.
    pub peers: Vec<(u16, Peer<A>)>,
    /// Until keys that the store does not know are granted.
    pub hold_ns: u64,
    /// The highest grant of keys that were removed.
    pub last_grant: u32,
    /// Sessions: the switch, its start, and how long its keys, and those of the start before, are kept from others.
    pub sessions: Vec<(u16, u32, [u64; 2])>,
}

/// A key in an [`Image`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyImage<A> {
    /// The program's object.
    pub object: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// Its state.
    pub value: Box<[u8]>,
    /// `None` after a release.
    pub owner: Option<Owner>,
    /// The number of the last grant.
    pub grant: u32,
    /// The number of the last write.
    pub sequence: u32,
    /// By the owner's last request, it is needed for a short time only.
    pub ending: bool,
    /// Its lease is that of the owner's session.
    pub session: bool,
    /// What it is.
    pub role: Role,
    /// Until others get the key, or until it ends if it is fixed.
    pub until_ns: u64,
    /// Of a fixed key: its term in milliseconds.
    pub keep_ms: u32,
    /// Switches with shared leases, with the times until these end.
    pub readers: Vec<Reader>,
    /// Until the requests that wait are looked at again.
    pub look_ns: u64,
    /// Sender and datagram of the requests that wait.
    pub waiting: Vec<(A, Box<[u8]>)>,
}

impl<A> Image<A> {
    /// What becomes of the state in `ns` nanoseconds without messages, if nothing that is due is done.
    pub fn pass(&mut self, ns: u64) {
        let keys = self.keys.iter_mut().flat_map(|k| {
            let readers = k.readers.iter_mut().map(|reader| &mut reader.until);
            [&mut k.until_ns, &mut k.look_ns].into_iter().chain(readers)
        });
        let sessions = self.sessions.iter_mut().flat_map(|(_, _, left)| left);
        keys.chain(sessions).chain([&mut self.hold_ns]).for_each(|left| *left = left.saturating_sub(ns));
    }
}

impl<A: Copy + Eq> Store<A> {
    /// The state, without counts. Changes that are not on disk must be saved first. `None`: the store has pools of ports, and their
    /// bindings would be missing.
    pub fn image(&self, now: u64) -> Option<Image<A>> {
        if !self.config.pools.is_empty() {
            return None;
        }
        let left = |r: Reader| Reader { until: r.until.saturating_sub(now), ..r };
        let keys = (0..self.table.len() as u32).map(|id| {
            let record = self.table.get(id);
            let queue = self.queues.get(&id);
            KeyImage {
                object: record.object,
                key: record.key().into(),
                value: record.value().into(),
                owner: record.owner,
                grant: record.grant,
                sequence: record.sequence,
                ending: record.ending,
                session: record.session,
                role: record.role,
                until_ns: record.until.saturating_sub(now),
                keep_ms: record.keep_ms,
                readers: self.table.readers(id).iter().map(|r| left(*r)).collect(),
                look_ns: queue.map_or(0, |q| q.at.saturating_sub(now)),
                waiting: queue.map_or_else(Vec::new, |q| q.waiting.clone()),
            }
        });
        Some(Image {
            keys: keys.collect(),
            peers: self.peers.image(),
            hold_ns: self.grants_from.saturating_sub(now),
            last_grant: self.bindings.last_grant,
            sessions: self.sessions.left(now),
        })
    }

    /// Gives a new store without pools this state.
    ///
    /// # Errors
    /// A key is malformed, there twice, or one too many.
    pub fn restore(&mut self, now: u64, image: &Image<A>) -> Result<(), LoadError> {
        for key in &image.keys {
            let KeyImage { object, grant, sequence, owner, ending, role, keep_ms, .. } = *key;
            let (key_bytes, value) = (&key.key, &key.value);
            let saved = Saved {
                object,
                key: key_bytes,
                value,
                grant,
                sequence,
                owner,
                side: None,
                ending,
                session: false,
                role,
                keep_ms,
                readers: Default::default(),
            };
            self.load(now, key.until_ns, saved)?;
            let id = self.table.len() as u32 - 1;
            if role == Role::Fixed {
                self.ends_at(id, now.saturating_add(key.until_ns));
            }
            self.table.get_mut(id).session = key.session;
            let end = |r: &Reader| Reader { until: now.saturating_add(r.until), ..*r };
            self.table.set_readers(id, key.readers.iter().map(end).collect());
            if !key.waiting.is_empty() {
                let at = now.saturating_add(key.look_ns);
                self.table.get_mut(id).awaited = true;
                self.queued += key.waiting.len();
                self.queues.insert(id, Queue { at, waiting: key.waiting.clone() });
                self.ends.insert((at, id));
            }
        }
        self.peers = Peers::of_image(&image.peers);
        self.grants_from = now.saturating_add(image.hold_ns);
        self.bindings.last_grant = image.last_grant;
        self.sessions = Sessions::of_left(now, &image.sessions);
        Ok(())
    }
}
