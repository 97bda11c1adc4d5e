//! What a node sends: updates, parts of the data, how far it is, and the tail's answers.

use super::bytes::Address;
use super::frame::{Body, Frame, Status};
use super::replica::{Follower, MAX_LOG, Mail, Place, Replica};
use super::update;
use super::view::Member;
use crate::config::Rule;

/// Bytes of updates in a message.
const MAX_UPDATES: usize = 32_000;

impl<A: Address> Replica<A> {
    /// Sends updates, answers and acknowledgements that are due: once after a batch of inputs.
    pub fn flush(&mut self, now: u64, mail: &mut Mail<A>) {
        if self.is_tail() {
            self.answers(mail);
        }
        if let Some(to) = self.behind().cloned() {
            let mut follower = self.follower;
            self.send_updates(now, &to, &mut follower, false, mail);
            self.follower = follower;
        }
        self.send_copy(now, mail);
        if std::mem::take(&mut self.status_due)
            && let Some(to) = self.before().cloned()
        {
            self.tell(to, mail);
        }
        self.trim();
    }

    /// The tail answers what was applied by all.
    fn answers(&mut self, mail: &mut Mail<A>) {
        let handed = self.copying.as_ref().filter(|copying| copying.handed);
        let handed = handed.filter(|_| !self.without(Rule::HandsOver));
        let to = handed.map_or(self.applied, |copying| copying.follower.applied.min(self.applied));
        let first = self.applied - self.log.len() as u64 + 1;
        for n in (self.acked + 1).max(first)..=to {
            if let Some(update) = self.log.get((n - first) as usize) {
                update::answer(update, &mut mail.switches);
            }
        }
        if to > self.acked {
            self.acked = to;
            self.status_due = true;
        }
    }

    fn message(&self, body: Body<'_>) -> Vec<u8> {
        Frame { from: self.me.clone(), view: self.number(), body }.encode(self.secret())
    }

    pub(super) fn tell(&self, to: Member, mail: &mut Mail<A>) {
        let (applied, start, copied) = (self.applied, self.start, self.copied);
        let (complete, handed) = (self.complete, self.handed);
        let missing = self.held.first_key_value().map_or(0, |(n, _)| n - 1);
        let acked = if self.place == Place::Joining { 0 } else { self.acked };
        mail.nodes.push((
            to,
            self.message(Body::Status(Status { applied, acked, start, copied, complete, handed, missing })),
        ));
    }

    fn send_updates(
        &mut self,
        now: u64,
        to: &Member,
        follower: &mut Follower,
        handed: bool,
        mail: &mut Mail<A>,
    ) {
        if follower.applied >= self.applied {
            follower.resend_at = now + self.timing.resend_ns;
        } else if now >= follower.resend_at {
            (follower.sent, follower.repeated) = (follower.applied, follower.applied);
            follower.resend_at = now + self.timing.resend_ns;
        }
        // What it misses, lost or late, is sent again at once, but once.
        let missed = follower.repeated;
        let missing = std::mem::take(&mut follower.missing).min(follower.sent);
        if missing > missed {
            self.send_some(to, missed, missing, handed, mail);
            self.stats.repeated += missing - missed;
            follower.repeated = missing;
        }
        follower.sent = self.send_some(to, follower.sent, self.applied, handed, mail);
    }

    /// Sends the updates behind one up to another one, and returns the last that was sent.
    fn send_some(&self, to: &Member, mut sent: u64, last: u64, handed: bool, mail: &mut Mail<A>) -> u64 {
        let first = self.applied - self.log.len() as u64 + 1;
        while sent < last && sent + 1 >= first {
            let mut bytes = 0;
            let from = (sent + 1 - first) as usize;
            let some = self.log.iter().skip(from).take((last - sent) as usize).take_while(|update| {
                let fits = bytes == 0 || bytes + update.len() <= MAX_UPDATES;
                bytes += update.len() + 4;
                fits
            });
            let updates: Vec<&[u8]> = some.map(|update| &**update).collect();
            let first = sent + 1;
            sent += updates.len() as u64;
            let body = Body::Updates { first, acked: self.acked, handed, updates };
            mail.nodes.push((to.clone(), self.message(body)));
        }
        sent
    }

    /// To the node that joins: a part of the data, or updates.
    fn send_copy(&mut self, now: u64, mail: &mut Mail<A>) {
        let Some(mut copying) = self.copying.take() else { return };
        if self.log.len() >= MAX_LOG && copying.end.is_none() {
            copying.begin_again(self.applied);
        }
        let to = copying.node.clone();
        if copying.end.is_some() {
            let before = mail.nodes.len();
            self.send_updates(now, &to, &mut copying.follower, copying.handed, mail);
            if copying.handed && !copying.told && mail.nodes.len() == before {
                let (first, acked) = (self.applied + 1, self.acked);
                let body = Body::Updates { first, acked, handed: true, updates: Vec::new() };
                mail.nodes.push((to, self.message(body)));
            }
            copying.told = copying.handed;
        } else if now >= copying.follower.resend_at {
            copying.follower.resend_at = now + self.timing.resend_ns;
            let part = || update::part(&self.store, copying.from);
            let (update, next) = copying.part.get_or_insert_with(part);
            let (index, start) = (copying.index, copying.start);
            let body = Body::Copy { index, last: next.is_none(), start, update };
            mail.nodes.push((to, self.message(body)));
            self.stats.copies += 1;
        }
        self.copying = Some(copying);
    }

    /// Forgets updates that no node needs any more.
    fn trim(&mut self) {
        let joining = self.copying.as_ref().map_or(u64::MAX, |copying| copying.follower.applied);
        let needed = self.acked.min(joining);
        let first = self.applied - self.log.len() as u64 + 1;
        for _ in first..=needed.min(self.applied) {
            self.log.pop_front();
        }
    }

    /// Sends again whatever another node has not confirmed, whenever it was sent.
    pub fn repeat(&mut self) {
        self.follower.resend_at = 0;
        self.status_due = true;
        if let Some(copying) = &mut self.copying {
            copying.follower.resend_at = 0;
            copying.told = false;
        }
    }
}
