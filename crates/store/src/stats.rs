//! What the store counts.

/// Counts since the start. Every datagram that comes in is counted once, apart from requests that wait: these are counted in
/// `waited`, and again by their result. `twins` and `readers_full` count messages that also count elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys that were granted to another owner than before.
    pub grants: u64,
    /// Shared leases that were granted.
    pub shared_grants: u64,
    /// Repeated requests for a grant that the sender has.
    pub repeated: u64,
    /// Writes that changed a state.
    pub writes: u64,
    /// Requests of an owner that changed no state: renewals, reads, doubled and overtaken writes.
    pub renewals: u64,
    /// Leases that their owners ended.
    pub releases: u64,
    /// Releases of keys that the sender does not own.
    pub needless_releases: u64,
    /// Requests under an old grant, refused.
    pub stale: u64,
    /// Requests of an incarnation or generation before the present one, ignored.
    pub late: u64,
    /// Requests that waited for the end of a lease.
    pub waited: u64,
    /// Requests that found the queue full: each, or an older one of its switch, was dropped.
    pub queue_full: u64,
    /// Requests for a key that the store has no room for, refused.
    pub full: u64,
    /// Requests with a value of another length than the stored one, refused.
    pub sizes: u64,
    /// Requests for another store's shards, refused.
    pub shards: u64,
    /// Datagrams that are not messages of this version, dropped.
    pub malformed: u64,
    /// Messages with a wrong digest, dropped.
    pub forged: u64,
    /// Messages that only a store sends, dropped.
    pub answers: u64,
    /// Recalls sent to owners.
    pub recalls: u64,
    /// Recalls sent to readers.
    pub reader_recalls: u64,
    /// Requests for a shared lease while as many switches as possible had one; they wait.
    pub readers_full: u64,
    /// Requests for keys that the store must not grant yet, because it may have granted them before it was restarted; dropped.
    pub early: u64,
    /// Requests for existing keys only, whose key the store does not know; refused.
    pub unknown: u64,
    /// Requests for a port, when none was free or the store has no pool; refused.
    pub exhausted: u64,
    /// Cells of snapshots that were stored.
    pub cells: u64,
    /// Snapshots that became complete.
    pub snapshots: u64,
    /// Requests for a cell of the last complete snapshot.
    pub given_back: u64,
    /// Fixed keys that were added.
    pub fixed: u64,
    /// Requests for a fixed key that is there.
    pub fixed_known: u64,
    /// Fixed keys whose value was replaced.
    pub fixed_replaced: u64,
    /// Messages of a former start of a switch from another address than that of its latest one: two switches have one number.
    pub twins: u64,
}

impl Stats {
    /// All counts with their names, in the order of the fields.
    pub fn rows(&self) -> [(&'static str, u64); 30] {
        [
            ("grants", self.grants),
            ("shared_grants", self.shared_grants),
            ("repeated", self.repeated),
            ("writes", self.writes),
            ("renewals", self.renewals),
            ("releases", self.releases),
            ("needless_releases", self.needless_releases),
            ("stale", self.stale),
            ("late", self.late),
            ("waited", self.waited),
            ("queue_full", self.queue_full),
            ("full", self.full),
            ("sizes", self.sizes),
            ("shards", self.shards),
            ("malformed", self.malformed),
            ("forged", self.forged),
            ("answers", self.answers),
            ("recalls", self.recalls),
            ("reader_recalls", self.reader_recalls),
            ("readers_full", self.readers_full),
            ("early", self.early),
            ("unknown", self.unknown),
            ("exhausted", self.exhausted),
            ("cells", self.cells),
            ("snapshots", self.snapshots),
            ("given_back", self.given_back),
            ("fixed", self.fixed),
            ("fixed_known", self.fixed_known),
            ("fixed_replaced", self.fixed_replaced),
            ("twins", self.twins),
        ]
    }
}
