//! What the tail knows of the node that joins.

use super::frame::Status;
use super::replica::Follower;
use super::view::Member;
use crate::table::RecordId;

/// A copy of the data in parts, each sent until it is confirmed. Updates since its beginning follow when it is complete: they bring all parts
/// to the same moment, whenever each was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Copying {
    pub node: Member,
    /// Updates up to this number are part of all parts.
    pub start: u64,
    /// The part that has yet to be confirmed, and the first key in it.
    pub index: u32,
    pub from: RecordId,
    /// That part, and the first key behind it, if it was sent: a node that has it has these keys, whatever changed since.
    pub part: Option<(Box<[u8]>, Option<RecordId>)>,
    /// All parts are confirmed: updates up to this number are part of some of them.
    pub end: Option<u64>,
    pub follower: Follower,
    /// The tail answers only what this node has applied, too.
    pub handed: bool,
    /// That was sent to the node.
    pub told: bool,
    /// And the node has answered it.
    pub confirmed: bool,
}

impl Copying {
    pub fn new(node: Member, applied: u64) -> Self {
        let follower = Follower::with(applied);
        Copying {
            node,
            start: applied,
            index: 0,
            from: 0,
            part: None,
            end: None,
            follower,
            handed: false,
            told: false,
            confirmed: false,
        }
    }

    /// The log would be too long.
    pub fn begin_again(&mut self, applied: u64) {
        *self = Copying::new(self.node.clone(), applied);
    }

    /// The node says how far it is.
    pub fn hears(&mut self, resend_at: u64, status: &Status, applied: u64) {
        if self.end.is_none() && status.copied == self.index + 1 && status.start == self.start {
            match self.part.take() {
                Some((_, Some(next))) => (self.index, self.from) = (self.index + 1, next),
                Some((_, None)) => self.end = Some(applied),
                None => {}
            }
            self.follower.resend_at = 0;
        } else if self.end.is_some() && status.complete {
            self.follower.confirms(resend_at, status.applied.min(applied));
            self.follower.missing = status.missing;
            self.confirmed |= status.handed && self.handed;
        }
    }

    /// Whether the node has the data, and is at most so many updates behind.
    pub fn is_near(&self, near: u64) -> bool {
        let lag = |end: u64| end.saturating_sub(self.follower.applied);
        self.end.is_some_and(|end| lag(end) == 0)
            && self.follower.sent.saturating_sub(self.follower.applied) < near
    }
}
