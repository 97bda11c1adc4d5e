//! What follows from etcd's answers.

use super::act::RENEW;
use super::{Event, Lease, Member, Output, Purpose, Unstored};
use crate::messages::{Answer, Entry, Failure, Request};
use std::time::Duration;

/// The pause after etcd refused something.
const REFUSED: Duration = Duration::from_secs(1);

impl Member {
    pub(super) fn answer(
        &mut self,
        now: Duration,
        purpose: Purpose,
        result: Result<Answer, Failure>,
        out: &mut Vec<Output>,
    ) {
        match result {
            Ok(answer) => self.answered(now, purpose, answer, out),
            Err(failure) => self.failed(now, purpose, failure, out),
        }
    }

    fn answered(&mut self, now: Duration, purpose: Purpose, answer: Answer, out: &mut Vec<Output>) {
        match (purpose, answer) {
            (Purpose::Read(endpoint), Answer::Range { revision, entries }) if self.view.must_read() => {
                self.client.settle(endpoint, |p| matches!(p, Purpose::Read(_)));
                // The store may have been replaced by another one, whose revisions are lower.
                self.stored = self.stored.filter(|s| *s <= revision);
                self.view.read(revision, entries);
            }
            (Purpose::Grant, Answer::Granted { lease }) => {
                self.lease = Some(Lease { id: lease, renew_at: now + RENEW, ended: false });
                self.announced = false;
            }
            (Purpose::Renew(id), Answer::Alive { renewed: false }) => self.lease_ended(id),
            (Purpose::Look(lease), Answer::Left { left_s, of_s }) => {
                // Rounded down, a lease that was just renewed has one second less.
                let silent = left_s >= 0 && of_s - left_s >= 2;
                let leads = self.leader().is_some_and(|l| l.lease == lease);
                if silent && leads && self.stands {
                    out.push(Output::Event(Event::Suspected));
                    self.request(now, Purpose::Revoke, Request::Revoke { lease }, out);
                }
            }
            (Purpose::Store(number), Answer::Txn { revision, succeeded, got })
                if self.is_proposed(number) =>
            {
                self.store_answered(revision, succeeded, &got, out);
            }
            _ => {}
        }
    }

    fn store_answered(
        &mut self,
        revision: i64,
        succeeded: bool,
        got: &[Option<Entry>],
        out: &mut Vec<Output>,
    ) {
        let stored = match (succeeded, got) {
            (true, _) => Some(revision),
            (false, [leader, Some(state)]) => {
                // An earlier attempt, whose answer was lost, may have stored it: nothing else of this leader was under way.
                let leads = leader.as_ref().map(|l| l.created) == self.fence();
                let own = self.proposal.as_ref().is_some_and(|p| p.value == state.value);
                (leads && own).then_some(state.modified)
            }
            (false, _) => None,
        };
        match stored {
            Some(revision) => {
                self.stored = Some(revision);
                self.told.value = Some(revision);
                self.end_proposal(Ok(()), out);
            }
            None => {
                // Whatever is there now comes by the watch.
                self.stored = None;
                let led_by = got.first().and_then(|l| Some(l.as_ref()?.created));
                let why = match led_by != self.fence() {
                    true => Unstored::Unknown("another leader came meanwhile".into()),
                    false => Unstored::Conflict,
                };
                self.end_proposal(Err(why), out);
                self.view.lost();
            }
        }
    }

    fn is_proposed(&self, number: u64) -> bool {
        self.proposal.as_ref().is_some_and(|p| p.number == number)
    }

    fn lease_ended(&mut self, id: i64) {
        if let Some(lease) = self.lease.as_mut().filter(|l| l.id == id) {
            lease.ended = true;
        }
    }

    fn failed(&mut self, now: Duration, purpose: Purpose, failure: Failure, out: &mut Vec<Output>) {
        match (purpose, failure) {
            (Purpose::Announce, failure) => {
                self.announced = false;
                self.lease_failed(now, failure, out);
            }
            (Purpose::Campaign | Purpose::Renew(_), failure) => self.lease_failed(now, failure, out),
            (Purpose::Store(number), Failure::Refused(why)) if self.is_proposed(number) => {
                self.end_proposal(Err(Unstored::Refused(why)), out);
            }
            // It ended by itself.
            (_, Failure::NoLease) => {}
            (_, Failure::Refused(reason)) => self.refused(now, reason, out),
            // The client has noted it, and what is to be done remains so.
            (_, Failure::Unknown(_)) => {}
        }
    }

    fn lease_failed(&mut self, now: Duration, failure: Failure, out: &mut Vec<Output>) {
        match failure {
            Failure::NoLease => {
                let id = self.lease.map_or(0, |l| l.id);
                self.lease_ended(id);
            }
            Failure::Refused(reason) => self.refused(now, reason, out),
            Failure::Unknown(_) => {}
        }
    }

    fn refused(&mut self, now: Duration, reason: String, out: &mut Vec<Output>) {
        self.client.pause(now + REFUSED);
        out.push(Output::Event(Event::Refused { reason }));
    }
}
