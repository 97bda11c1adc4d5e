//! The state of a node of a chain as a value.

use super::bytes::Address;
use super::copying::Copying;
use super::replica::{Follower, Place, Replica, Timing};
use super::view::{Member, View};
use crate::config::Config;
use crate::image::Image;
use crate::saved::LoadError;
use std::collections::BTreeMap;

/// The state of a node at one moment, after [`Replica::flush`]. What it received from others, and when it sends again, is not part of it: a
/// checker says when ([`Replica::repeat`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicaImage<A> {
    /// Its store.
    pub store: Image<A>,
    /// Its view.
    pub view: Option<View>,
    /// Its part in it.
    pub place: Place,
    complete: bool,
    handed: bool,
    /// The last update that it applied.
    pub applied: u64,
    acked: u64,
    log: Vec<Box<[u8]>>,
    held: BTreeMap<u64, Box<[u8]>>,
    follower: Follower,
    copying: Option<Copying>,
    copied: u32,
    start: u64,
}

impl<A> ReplicaImage<A> {
    /// Whether other nodes have yet to confirm something.
    pub fn is_waiting(&self) -> bool {
        !self.log.is_empty() || self.copying.as_ref().is_some_and(|copying| !copying.confirmed)
    }

    /// Whether it is the tail, and answers nothing any more without the node that joins, which knows it.
    pub fn has_handed(&self) -> bool {
        self.copying.as_ref().is_some_and(|copying| copying.confirmed)
    }
}

impl<A: Address> Replica<A> {
    /// The state. `None`: the store has pools of ports.
    pub fn image(&self, now: u64) -> Option<ReplicaImage<A>> {
        let still = |follower: Follower| Follower { resend_at: 0, ..follower };
        let copying = self.copying.clone().map(|c| Copying { follower: still(c.follower), ..c });
        Some(ReplicaImage {
            store: self.store.image(now)?,
            view: self.view.clone(),
            place: self.place,
            complete: self.complete,
            handed: self.handed,
            applied: self.applied,
            acked: self.acked,
            log: self.log.iter().cloned().collect(),
            held: self.held.clone(),
            follower: still(self.follower),
            copying,
            copied: self.copied,
            start: self.start,
        })
    }

    /// A node with this state, which sends nothing again by itself.
    ///
    /// # Errors
    /// A key is malformed, there twice, or one too many.
    pub fn restored(
        now: u64,
        me: Member,
        config: &Config,
        image: &ReplicaImage<A>,
    ) -> Result<Self, LoadError> {
        let never = |follower: Follower| Follower { resend_at: u64::MAX, ..follower };
        // The settings were checked when the image was made.
        let replica = Replica::new(now, me, config.clone(), Timing::default());
        let mut replica = replica.map_err(|_| LoadError::Malformed)?;
        if image.place == Place::Joining {
            replica.store.catch_up();
        }
        replica.store.restore(now, &image.store)?;
        replica.view.clone_from(&image.view);
        (replica.place, replica.complete, replica.handed) = (image.place, image.complete, image.handed);
        (replica.applied, replica.acked) = (image.applied, image.acked);
        replica.log = image.log.iter().cloned().collect();
        replica.held.clone_from(&image.held);
        replica.follower = never(image.follower);
        replica.copying = image.copying.clone().map(|c| Copying { follower: never(c.follower), ..c });
        (replica.copied, replica.start) = (image.copied, image.start);
        Ok(replica)
    }
}
