//! Requests to etcd and its answers, as far as this crate needs them.

use std::error::Error;
use std::fmt;

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// The store's revision when it was created.
    pub created: i64,
    /// The store's revision when it was last written.
    pub modified: i64,
    /// It is deleted when this lease ends; 0: it has none.
    pub lease: i64,
}

/// A condition of a transaction. A key that is missing has revision 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key was created at this revision.
    Created {
        /// Its name.
        key: String,
        /// The revision.
        revision: i64,
    },
    /// The key was last written at this revision.
    Modified {
        /// Its name.
        key: String,
        /// The revision.
        revision: i64,
    },
}

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Write a key.
    Put {
        /// Its name.
        key: String,
        /// Its value.
        value: Vec<u8>,
        /// Its lease, or 0.
        lease: i64,
    },
    /// Delete a key.
    Delete {
        /// Its name.
        key: String,
    },
    /// Read a key.
    Get {
        /// Its name.
        key: String,
    },
}

/// A transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// Its conditions.
    pub compares: Vec<Compare>,
    /// What is done if all of them hold.
    pub then: Vec<Op>,
    /// What is done otherwise.
    pub otherwise: Vec<Op>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read all keys with a prefix, as they are now (linearizable).
    Range {
        /// The prefix.
        prefix: String,
    },
    /// The same, but at most so many keys, behind a key (empty: from the first one on).
    Page {
        /// The prefix.
        prefix: String,
        /// The key.
        after: String,
        /// How many.
        most: i64,
    },
    /// A transaction.
    Txn(Txn),
    /// A new lease.
    Grant {
        /// How long it lasts without renewal, in seconds.
        ttl_s: i64,
    },
    /// Renew a lease.
    KeepAlive {
        /// The lease.
        lease: i64,
    },
    /// How long a lease still lasts.
    TimeToLive {
        /// The lease.
        lease: i64,
    },
    /// End a lease.
    Revoke {
        /// The lease.
        lease: i64,
    },
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `Range` and `Page`.
    Range {
        /// The store's revision.
        revision: i64,
        /// The keys, in order.
        entries: Vec<Entry>,
    },
    /// To `Txn`.
    Txn {
        /// The store's revision: with `succeeded`, that of the writes.
        revision: i64,
        /// Whether the conditions held.
        succeeded: bool,
        /// What the steps of the taken branch read, in order; None: no such key.
        got: Vec<Option<Entry>>,
    },
    /// To `Grant`.
    Granted {
        /// The lease.
        lease: i64,
    },
    /// To `KeepAlive`.
    Alive {
        /// Whether the lease still exists, and is renewed.
        renewed: bool,
    },
    /// To `TimeToLive`.
    Left {
        /// Whole seconds, rounded down; negative: no such lease.
        left_s: i64,
        /// How long the lease lasts without renewal.
        of_s: i64,
    },
    /// To `Revoke`.
    Revoked,
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing is known: the request may have been done, or may still be done.
    Unknown(String),
    /// etcd refused it, and did nothing.
    Refused(String),
    /// The lease does not exist; nothing was done.
    NoLease,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unknown(why) | Failure::Refused(why) => f.write_str(why),
            Failure::NoLease => f.write_str("the lease has ended"),
        }
    }
}

impl Error for Failure {}

/// A change of a watched key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was written.
    Put(Entry),
    /// It was deleted.
    Deleted {
        /// Its name.
        key: String,
        /// The store's revision.
        revision: i64,
    },
}

/// What comes from a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Changes, in the order of their revisions, each once, all of one revision together.
    Changes(Vec<Change>),
    /// etcd no longer has the revision from which the watch starts.
    Compacted,
    /// The connection is lost, or etcd ended the watch.
    Ended(String),
}
