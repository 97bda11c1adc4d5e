//! Views: the place of a node, and what it proposes.

use super::bytes::Address;
use super::copying::Copying;
use super::replica::Mail;
use super::replica::{Follower, Place, Replica};
use super::view::{Member, View, ViewError};
use crate::config::Rule;
use crate::store::Store;

impl<A: Address> Replica<A> {
    /// The first view without data is there, or the next one.
    ///
    /// # Errors
    /// The view goes back, or cannot follow the present one; nothing changes. Or this node has no data for its place, and leaves the chain.
    pub fn set_view(&mut self, now: u64, view: View) -> Result<(), ViewError> {
        view.check()?;
        if let Some(present) = &self.view {
            if *present == view {
                return Ok(());
            }
            if view.number <= present.number {
                return Err(ViewError::Back(view.number, present.number));
            }
            // Others may have agreed on views in between.
            if view.number == present.number + 1 {
                present.allows(&view)?;
            }
        }
        let place = match view.chain.iter().position(|node| *node == self.me) {
            Some(n) => Place::At(n),
            None if view.joining.as_ref() == Some(&self.me) => Place::Joining,
            None => Place::Idle,
        };
        let fits = place != Place::Idle && self.failure.is_none();
        let error = if let Place::At(n) = place { self.unfit(n, &view) } else { None };
        if error.is_some() || !fits {
            self.place = Place::Idle;
            (self.complete, self.handed) = (false, false);
        } else {
            self.enter(place, &view);
        }
        self.heard = view.nodes().filter(|node| **node != self.me).map(|node| (node.clone(), now)).collect();
        self.view = Some(view);
        self.held.clear();
        (self.proposal, self.behind, self.beat_at) = (None, false, now);
        self.status_due = true;
        if place == Place::Joining && fits {
            self.forget_all(now);
        }
        error.map_or(Ok(()), Err)
    }

    /// Why this node cannot be at a place of the chain.
    fn unfit(&self, n: usize, view: &View) -> Option<ViewError> {
        let no_data = || ViewError::NoData(self.me.clone());
        let Some(present) = &self.view else {
            return (view.number != 1).then(no_data);
        };
        let was = match self.place {
            Place::At(was) => was,
            Place::Joining if self.handed => return None,
            Place::Joining | Place::Idle => return Some(no_data()),
        };
        // A node that was behind this one has less.
        let less = |node: &&Member| present.chain[was + 1..].contains(node);
        view.chain[..n].iter().find(less).map(|_| ViewError::Order(self.me.clone()))
    }

    /// Takes a place of the next view.
    fn enter(&mut self, place: Place, view: &View) {
        let next = match place {
            Place::At(n) => view.chain.get(n + 1),
            _ => None,
        };
        // The node that joined, if it is the next one, has what it confirmed; another one all that the chain confirmed.
        let joined = self.copying.as_ref().filter(|_| {
            next.is_some() && next == self.view.as_ref().and_then(|present| present.joining.as_ref())
        });
        let applied = joined.map_or(self.acked, |copying| copying.follower.applied);
        if next != self.behind() {
            self.follower = Follower::with(applied);
        }
        let former = std::mem::replace(&mut self.place, place);
        self.complete = place != Place::Joining;
        if former == Place::Joining
            && self.complete
            && let Err(e) = self.store.caught_up()
        {
            return self.fails(e.into());
        }
        let is_tail = matches!(place, Place::At(n) if n + 1 == view.chain.len());
        let joining = view.joining.clone().filter(|_| is_tail);
        self.copying = joining.map(|node| Copying::new(node, self.applied));
        if place == Place::At(0) && former != Place::At(0) && self.without(Rule::LeasesKept) {
            self.store.end_leases();
        }
    }

    /// Begins without data.
    pub(super) fn forget_all(&mut self, now: u64) {
        if let Ok(mut store) = Store::new(self.config.clone()) {
            store.hold_back(now);
            store.catch_up();
            self.store = store;
        }
        (self.complete, self.handed, self.copied) = (false, false, 0);
        (self.applied, self.acked) = (0, 0);
        self.log.clear();
        self.held.clear();
    }

    pub(super) fn beat(&mut self, now: u64, mail: &mut Mail<A>) {
        let others = self.heard.keys().filter(|_| self.place != Place::Idle);
        for to in others.cloned().collect::<Vec<_>>() {
            self.tell(to, mail);
        }
        if let Some(copying) = &mut self.copying {
            copying.told = false;
        }
        self.proposal = self.wanted(now);
    }

    /// The view that should follow.
    fn wanted(&self, now: u64) -> Option<View> {
        let Some(view) = &self.view else { return Some(View::first(vec![self.me.clone()])) };
        match self.place {
            Place::Joining => None,
            Place::Idle => {
                let fits = view.chain.len() < self.timing.nodes && self.failure.is_none();
                if fits { view.with_joining(&self.me) } else { None }
            }
            Place::At(_) => {
                let silent = |(_, at): &(&Member, &u64)| now.saturating_sub(**at) > self.timing.suspect_ns;
                let dead = self.heard.iter().find(silent).map(|(node, _)| node);
                let joined = || self.copying.as_ref().filter(|copying| copying.confirmed);
                dead.map_or_else(|| joined().and_then(|_| view.joined()), |node| view.without(node))
            }
        }
    }
}
