//! A simulated etcd: one store, as etcd's is, however many endpoints lead to it.

use pointsman_etcd::{Answer, Change, Compare, Entry, Failure, Op, Request, Txn};
use std::collections::BTreeMap;
use std::time::Duration;

/// The store: one, as etcd's is, however many endpoints lead to it.
#[derive(Default)]
pub struct Store {
    pub revision: i64,
    pub keys: BTreeMap<String, Entry>,
    /// How long a lease lasts by its own count, by etcd's, and when it ends.
    pub leases: BTreeMap<i64, (i64, Duration, Duration)>,
    next_lease: i64,
    pub log: Vec<(i64, Vec<Change>)>,
    pub compacted: i64,
}

impl Store {
    pub fn holds(&self, compare: &Compare) -> bool {
        match compare {
            Compare::Created { key, revision } => self.keys.get(key).map_or(0, |e| e.created) == *revision,
            Compare::Modified { key, revision } => self.keys.get(key).map_or(0, |e| e.modified) == *revision,
        }
    }

    pub fn txn(&mut self, txn: &Txn) -> Result<Answer, Failure> {
        let succeeded = txn.compares.iter().all(|c| self.holds(c));
        let ops = if succeeded { &txn.then } else { &txn.otherwise };
        let lacks =
            |op: &Op| matches!(op, Op::Put { lease, .. } if *lease != 0 && !self.leases.contains_key(lease));
        if ops.iter().any(lacks) {
            return Err(Failure::NoLease);
        }
        let (mut changes, mut got) = (Vec::new(), Vec::new());
        let revision = self.revision + 1;
        for op in ops {
            match op {
                Op::Put { key, value, lease } => {
                    let created = self.keys.get(key).map_or(revision, |e| e.created);
                    let entry = Entry {
                        key: key.clone(),
                        value: value.clone(),
                        created,
                        modified: revision,
                        lease: *lease,
                    };
                    self.keys.insert(key.clone(), entry.clone());
                    changes.push(Change::Put(entry));
                }
                Op::Delete { key } => changes.extend(self.remove(key, revision)),
                Op::Get { key } => got.push(self.keys.get(key).cloned()),
            }
        }
        self.logged(changes);
        Ok(Answer::Txn { revision: self.revision, succeeded, got })
    }

    pub fn remove(&mut self, key: &str, revision: i64) -> Option<Change> {
        self.keys.remove(key).map(|e| Change::Deleted { key: e.key, revision })
    }

    pub fn logged(&mut self, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.revision += 1;
            self.log.push((self.revision, changes));
        }
    }

    pub fn end_lease(&mut self, lease: i64) {
        self.leases.remove(&lease);
        let keys: Vec<String> =
            self.keys.values().filter(|e| e.lease == lease).map(|e| e.key.clone()).collect();
        let revision = self.revision + 1;
        let changes = keys.iter().filter_map(|k| self.remove(k, revision)).collect();
        self.logged(changes);
    }

    /// What is due at this time. `rate` is how fast this store's clock runs for a lease.
    pub fn serve(&mut self, now: Duration, request: &Request, rate: f64) -> Result<Answer, Failure> {
        match request {
            Request::Range { prefix } => {
                let entries = self.keys.values().filter(|e| e.key.starts_with(prefix)).cloned().collect();
                Ok(Answer::Range { revision: self.revision, entries })
            }
            Request::Page { prefix, after, most } => {
                let behind = self.keys.values().filter(|e| e.key.starts_with(prefix) && e.key > *after);
                let entries = behind.take(*most as usize).cloned().collect();
                Ok(Answer::Range { revision: self.revision, entries })
            }
            Request::Txn(txn) => self.txn(txn),
            Request::Grant { ttl_s } => {
                self.next_lease += 1;
                let lasts = Duration::from_secs_f64(*ttl_s as f64 * rate);
                self.leases.insert(self.next_lease, (*ttl_s, lasts, now + lasts));
                Ok(Answer::Granted { lease: self.next_lease })
            }
            Request::KeepAlive { lease } => {
                let found = self.leases.get_mut(lease);
                let renewed = found.is_some();
                if let Some((_, lasts, ends)) = found {
                    *ends = now + *lasts;
                }
                Ok(Answer::Alive { renewed })
            }
            Request::TimeToLive { lease } => Ok(match self.leases.get(lease) {
                Some((of_s, _, ends)) => {
                    Answer::Left { left_s: ends.saturating_sub(now).as_secs() as i64, of_s: *of_s }
                }
                None => Answer::Left { left_s: -1, of_s: 0 },
            }),
            Request::Revoke { lease } if self.leases.contains_key(lease) => {
                self.end_lease(*lease);
                Ok(Answer::Revoked)
            }
            Request::Revoke { .. } => Err(Failure::NoLease),
        }
    }
}
