//! Views of a chain in etcd: for nodes on several machines.

use super::views::{Views, ViewsError};
use crate::etcd::{Link, Settings};
use pointsman_etcd::{Answer, Compare, Entry, Failure, Op, Request, Txn};
use pointsman_store::View;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How often the present view is read: linearizable, so that each read costs etcd a round among its nodes.
const EVERY: Duration = Duration::from_millis(40);
/// How long a node of etcd may take to answer; then the next one is asked.
const PATIENCE: Duration = Duration::from_millis(300);

/// Views in a key of etcd, replaced by transactions that compare its revision.
pub struct EtcdViews {
    key: String,
    runtime: Runtime,
    link: Link,
    /// The node of etcd that is asked.
    endpoint: usize,
}

impl EtcdViews {
    /// Views in this key, which need not exist.
    ///
    /// # Errors
    /// The settings are wrong, or no client can be started.
    pub fn new(settings: &Settings, key: String) -> Result<Self, ViewsError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(ViewsError::Start)?;
        let link = runtime.block_on(async { Link::new(settings) }).map_err(ViewsError::Settings)?;
        Ok(EtcdViews { key, runtime, link, endpoint: 0 })
    }

    /// Asks the present node of etcd. If it does not answer, the next request is for the next one.
    fn ask(&mut self, request: Request) -> Result<Answer, Failure> {
        let asked = self.link.ask(self.endpoint, request);
        let answer = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await });
        let answer = answer.unwrap_or_else(|_| {
            let url = self.link.url(self.endpoint);
            Err(Failure::Unknown(format!("{url}: no answer within {} ms", PATIENCE.as_millis())))
        });
        if matches!(answer, Err(Failure::Unknown(_))) {
            self.endpoint = (self.endpoint + 1) % self.link.endpoints();
        }
        answer
    }

    /// Reads: each node of etcd gets one chance.
    fn entry(&mut self) -> Result<Option<Entry>, ViewsError> {
        let read = || Request::Txn(Txn { then: vec![Op::Get { key: self.key.clone() }], ..Txn::default() });
        let (read, mut last) = (read(), Failure::NoLease);
        for _ in 0..self.link.endpoints() {
            match self.ask(read.clone()) {
                Ok(Answer::Txn { got, .. }) => return Ok(got.into_iter().next().flatten()),
                Ok(_) => last = Failure::Unknown("an answer to something else".into()),
                Err(e) => last = e,
            }
        }
        Err(ViewsError::Etcd(last))
    }

    fn view(&self, entry: Option<&Entry>) -> Result<Option<View>, ViewsError> {
        let Some(entry) = entry else { return Ok(None) };
        let text = String::from_utf8_lossy(&entry.value);
        text.parse().map(Some).map_err(|e| ViewsError::ForeignKey(self.key.clone(), e))
    }
}

impl Views for EtcdViews {
    fn read(&mut self) -> Result<Option<View>, ViewsError> {
        let entry = self.entry()?;
        self.view(entry.as_ref())
    }

    fn propose(&mut self, after: Option<u64>, next: &View) -> Result<bool, ViewsError> {
        let entry = self.entry()?;
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
        match self.ask(Request::Txn(txn)) {
            Ok(Answer::Txn { succeeded, .. }) => Ok(succeeded),
            Ok(_) => Ok(false),
            Err(e) => Err(ViewsError::Etcd(e)),
        }
    }

    fn every(&self) -> Duration {
        EVERY
    }
}
