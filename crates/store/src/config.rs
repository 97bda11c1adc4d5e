//! Settings of the store.

use crate::message::Secret;
use crate::pool::{Idle, Pool};
use std::error::Error;
use std::fmt;

/// A rule of docs/redplane.md that a test can switch off in the store, to show that its checker finds what breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// R2: a key is granted to another switch after the lease only.
    LeaseEnds,
    /// R3: requests under an old grant are refused.
    Grants,
    /// R2: a session holds all keys of its switch.
    Sessions,
    /// R4: only newer writes apply.
    Newer,
    /// R4: numbers are compared by serial arithmetic.
    Serial,
    /// R4: a new owner continues with the sequence number of the old one.
    Carried,
    /// R13: a key with readers is granted to a switch that writes after their leases only.
    Readers,
    /// R13: a store that restarts, and a new head, know the readers.
    ReadersKept,
    /// R12: a fixed key has the value that came first.
    FirstStays,
    /// R10: the tail answers.
    TailAnswers,
    /// R10: messages of older views are refused.
    Views,
    /// R10: a node that joins copies the data before it is in the chain.
    Copies,
    /// R10: the tail answers only what the node that joins has applied, before that is the tail.
    HandsOver,
    /// R10: a new head keeps the leases of its former one.
    LeasesKept,
}

/// Settings of a store.
#[derive(Clone, Debug)]
pub struct Config {
    /// The key of the digests.
    pub secret: Secret,
    /// The key of the index's hash: switches, and those who choose flows, must not know it.
    pub seed: [u8; 8],
    /// The lease's term in microseconds.
    pub lease_us: u32,
    /// By how much two clocks may differ in rate: `1 / 2^drift_shift` of the time. Store and switches must have the same number.
    pub drift_shift: u8,
    /// Shards, numbered from 0.
    pub shards: u16,
    /// Keys at most. The index for so many exists from the start.
    pub max_keys: u32,
    /// Requests that may wait for one key.
    pub queue_per_key: usize,
    /// Requests that may wait altogether.
    pub queue_total: usize,
    /// Whether a live owner is asked to release a key that another switch wants.
    pub recall: bool,
    /// Ports for bindings, taken from the first pool that has a free one.
    pub pools: Vec<Pool>,
    /// How long bindings are kept.
    pub idle: Idle,
    /// Whether [`Store::changes`](crate::Store::changes) lists the keys that changed, for a store on disk.
    pub durable: bool,
    /// Whether it also lists those whose leases were extended, for other replicas.
    pub leases: bool,
    /// A rule that does not hold, in tests.
    pub without: Option<Rule>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            secret: [0; 8],
            seed: [0; 8],
            lease_us: 1_000_000,
            drift_shift: 7,
            shards: 1,
            max_keys: 1 << 20,
            queue_per_key: 8,
            queue_total: 65_536,
            recall: true,
            pools: Vec::new(),
            idle: Idle::default(),
            durable: false,
            leases: false,
            without: None,
        }
    }
}

/// A setting that no store can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The lease is shorter than a millisecond: it could end before its answer arrives.
    Lease,
    /// Drift outside of 1/2 to 1/65536.
    Drift,
    /// No shard.
    Shards,
    /// No key, or more than 2^30.
    Keys,
    /// Two pools have a port in common.
    Pools,
    /// A binding that would end at once.
    Idle,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigError::Lease => "a lease is at least 1 ms: give a longer term",
            ConfigError::Drift => "the drift is 1/2^N of the time, with N of 1 to 16",
            ConfigError::Shards => "a store has at least one shard",
            ConfigError::Keys => "a store has room for 1 to 2^30 keys",
            ConfigError::Pools => "two pools have a port in common: give each port to one pool",
            ConfigError::Idle => "bindings are kept for at least 1 s without a lease",
        })
    }
}

impl Error for ConfigError {}

impl Config {
    /// Whether a store can have these settings.
    ///
    /// # Errors
    /// The first one that it cannot have.
    pub fn check(&self) -> Result<(), ConfigError> {
        let rules = [
            (self.lease_us >= 1_000, ConfigError::Lease),
            ((1..=16).contains(&self.drift_shift), ConfigError::Drift),
            (self.shards > 0, ConfigError::Shards),
            ((1..=1 << 30).contains(&self.max_keys), ConfigError::Keys),
            (!self.pools_overlap(), ConfigError::Pools),
            (self.idle.tcp_s.min(self.idle.udp_s).min(self.idle.brief_s) > 0, ConfigError::Idle),
        ];
        rules.iter().find(|(fine, _)| !fine).map_or(Ok(()), |(_, error)| Err(*error))
    }

    fn pools_overlap(&self) -> bool {
        let later = |n: usize| &self.pools[n + 1..];
        self.pools.iter().enumerate().any(|(n, pool)| later(n).iter().any(|other| pool.overlaps(other)))
    }

    /// How long the store keeps a key from others after it granted or renewed a lease, in nanoseconds: the term and the drift (R2).
    pub fn hold_ns(&self) -> u64 {
        let term = u64::from(self.lease_us) * 1000;
        term + (term >> self.drift_shift)
    }
}
