//! The requests that are due.

use super::{Lease, Member, Output, Purpose};
use crate::messages::{Compare, Op, Request, Txn};
use std::time::Duration;

/// How often a lease is renewed.
pub(super) const RENEW: Duration = Duration::from_millis(250);
/// How often the leader's lease is looked at.
const LOOK: Duration = Duration::from_millis(150);
/// The least time between two attempts to lead: the watch brings the result of the first one meanwhile.
const CAMPAIGN: Duration = Duration::from_millis(100);
/// After this time without an answer a request counts as lost.
const PATIENCE: Duration = Duration::from_millis(600);

impl Member {
    pub(super) fn request(
        &mut self,
        now: Duration,
        purpose: Purpose,
        request: Request,
        out: &mut Vec<Output>,
    ) {
        let (id, endpoint) = self.client.ask(now, purpose, PATIENCE);
        out.push(Output::Request { id, endpoint, request });
    }

    fn is_asking(&self, purpose: Purpose) -> bool {
        self.client.is_asking(|p| *p == purpose)
    }

    /// Makes the requests that are due.
    pub(super) fn act(&mut self, now: Duration, out: &mut Vec<Output>) {
        if self.view.endpoint().is_some_and(|at| at != self.client.endpoint()) {
            self.view.lost();
        }
        if self.view.must_read() {
            self.read(now, out);
        }
        if let Some((watch, from)) = self.view.open(self.client.endpoint()) {
            let (endpoint, prefix) = (self.client.endpoint(), self.settings.prefix.clone());
            out.push(Output::Watch { watch, endpoint, prefix, from });
            self.tell(out);
        }
        self.keep_lease(now, out);
        if !self.view.is_watching() {
            return;
        }
        match self.leader().map(|l| (self.is_own(l), l.lease, l.created)) {
            None => self.campaign(now, out),
            Some((true, _, fence)) => self.lead(now, fence, out),
            Some((false, lease, _)) => self.follow(now, lease, out),
        }
    }

    /// Reads the keys, where that may be answered: one node of etcd may be cut off, and another one wait for etcd's leader.
    pub(super) fn read(&mut self, now: Duration, out: &mut Vec<Output>) {
        for endpoint in self.client.candidates(now) {
            let purpose = Purpose::Read(endpoint);
            if !self.is_asking(purpose) {
                let id = self.client.ask_at(now, endpoint, purpose, PATIENCE);
                let request = Request::Range { prefix: self.settings.prefix.clone() };
                out.push(Output::Request { id, endpoint, request });
            }
        }
    }

    fn keep_lease(&mut self, now: Duration, out: &mut Vec<Output>) {
        let Some(lease) = self.lease.filter(|l| !l.ended) else {
            if !self.is_asking(Purpose::Grant) {
                let ttl_s = self.settings.lease_s;
                self.request(now, Purpose::Grant, Request::Grant { ttl_s }, out);
            }
            return;
        };
        if now >= lease.renew_at && !self.is_asking(Purpose::Renew(lease.id)) {
            self.lease = Some(Lease { renew_at: now + RENEW, ..lease });
            self.request(now, Purpose::Renew(lease.id), Request::KeepAlive { lease: lease.id }, out);
        }
        if !self.announced && !self.is_asking(Purpose::Announce) {
            self.announced = true;
            let key = self.key(&format!("members/{:x}", lease.id));
            let put = Op::Put { key, value: self.announcement.clone(), lease: lease.id };
            let txn = Txn { then: vec![put], ..Txn::default() };
            self.request(now, Purpose::Announce, Request::Txn(txn), out);
        }
    }

    fn campaign(&mut self, now: Duration, out: &mut Vec<Output>) {
        let Some(lease) = self.lease.filter(|l| !l.ended) else { return };
        let busy = self.is_asking(Purpose::Campaign) || now < self.campaign_at;
        if !self.stands || busy || self.base().is_none() {
            return;
        }
        self.campaign_at = now + CAMPAIGN;
        let key = self.key("leader");
        let txn = Txn {
            compares: vec![Compare::Created { key: key.clone(), revision: 0 }],
            then: vec![Op::Put { key, value: self.settings.identity.clone(), lease: lease.id }],
            otherwise: Vec::new(),
        };
        self.request(now, Purpose::Campaign, Request::Txn(txn), out);
    }

    /// A condition of every write of a leader.
    fn as_leader(&self, fence: i64) -> Compare {
        Compare::Created { key: self.key("leader"), revision: fence }
    }

    fn lead(&mut self, now: Duration, fence: i64, out: &mut Vec<Output>) {
        if !self.stands && !self.is_asking(Purpose::Resign) {
            let then = vec![Op::Delete { key: self.key("leader") }];
            let txn = Txn { compares: vec![self.as_leader(fence)], then, otherwise: Vec::new() };
            self.request(now, Purpose::Resign, Request::Txn(txn), out);
        }
        let own = self.fence() == Some(fence);
        if let Some(p) = self.proposal.as_mut().filter(|_| own) {
            let purpose = Purpose::Store(p.number);
            let (value, first) = (p.value.clone(), !self.client.is_asking(|of| *of == purpose));
            if first {
                p.sent = true;
                let (key, revision) = (self.key("state"), self.value_revision());
                let on = Compare::Modified { key: key.clone(), revision };
                let txn = Txn {
                    compares: vec![self.as_leader(fence), on],
                    then: vec![Op::Put { key: key.clone(), value, lease: 0 }],
                    otherwise: vec![Op::Get { key: self.key("leader") }, Op::Get { key }],
                };
                self.request(now, purpose, Request::Txn(txn), out);
            }
        }
        self.raise(now, fence, out);
    }

    fn raise(&mut self, now: Duration, fence: i64, out: &mut Vec<Output>) {
        let (Some(too_low), Some(base)) = (self.too_low, self.base()) else { return };
        let fence_u = fence.unsigned_abs();
        if base.saturating_add(fence_u) > too_low {
            self.too_low = None;
            return;
        }
        if self.is_asking(Purpose::Raise) {
            return;
        }
        let (key, wanted) = (self.key("base"), too_low.saturating_add(1).saturating_sub(fence_u));
        let revision = self.view.get(&key).map_or(0, |e| e.modified);
        let txn = Txn {
            compares: vec![self.as_leader(fence), Compare::Modified { key: key.clone(), revision }],
            then: vec![Op::Put { key, value: wanted.to_string().into(), lease: 0 }],
            otherwise: Vec::new(),
        };
        self.request(now, Purpose::Raise, Request::Txn(txn), out);
    }

    fn follow(&mut self, now: Duration, lease: i64, out: &mut Vec<Output>) {
        let asks = self.client.is_asking(|p| matches!(p, Purpose::Look(_) | Purpose::Revoke));
        if lease != 0 && now >= self.look_at && !asks {
            self.look_at = now + LOOK;
            self.request(now, Purpose::Look(lease), Request::TimeToLive { lease }, out);
        }
    }
}
