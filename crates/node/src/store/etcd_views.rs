//! Views of a chain in etcd: for nodes on several machines.

use super::asker::Asker;
use super::views::{Views, ViewsError};
use crate::etcd::Settings;
use pointsman_etcd::{Answer, Compare, Entry, Op, Request, Txn};
use pointsman_store::View;
use std::time::Duration;

/// How often the present view is read: linearizable, so that each read costs etcd a round among its nodes.
const EVERY: Duration = Duration::from_millis(40);

/// Views in a key of etcd, replaced by transactions that compare its revision.
pub struct EtcdViews {
    key: String,
    asker: Asker,
}

impl EtcdViews {
    /// Views in this key, which need not exist.
    ///
    /// # Errors
    /// The settings are wrong, or no client can be started.
    pub fn new(settings: &Settings, key: String) -> Result<Self, ViewsError> {
        Ok(EtcdViews { key, asker: Asker::new(settings).map_err(ViewsError::Asker)? })
    }

    fn view(&self, entry: Option<&Entry>) -> Result<Option<View>, ViewsError> {
        let Some(entry) = entry else { return Ok(None) };
        let text = String::from_utf8_lossy(&entry.value);
        text.parse().map(Some).map_err(|e| ViewsError::ForeignKey(self.key.clone(), e))
    }
}

impl Views for EtcdViews {
    fn read(&mut self) -> Result<Option<View>, ViewsError> {
        let entry = self.asker.entry(&self.key).map_err(ViewsError::Etcd)?;
        self.view(entry.as_ref())
    }

    fn propose(&mut self, after: Option<u64>, next: &View) -> Result<bool, ViewsError> {
        let entry = self.asker.entry(&self.key).map_err(ViewsError::Etcd)?;
        let present = self.view(entry.as_ref())?;
        if present.as_ref().map(|view| view.number) != after {
            return Ok(false);
        }
        present.map_or_else(|| next.check(), |view| view.allows(next)).map_err(ViewsError::Proposal)?;
        let (key, revision) = (self.key.clone(), entry.map_or(0, |e| e.modified));
        let txn = Txn {
            compares: vec![Compare::Modified { key: key.clone(), revision }],
            then: vec![Op::Put { key, value: next.to_string().into(), lease: 0 }],
            ..Txn::default()
        };
        match self.asker.ask(Request::Txn(txn)) {
            Ok(Answer::Txn { succeeded, .. }) => Ok(succeeded),
            Ok(_) => Ok(false),
            Err(e) => Err(ViewsError::Etcd(e)),
        }
    }

    fn every(&self) -> Duration {
        EVERY
    }
}
