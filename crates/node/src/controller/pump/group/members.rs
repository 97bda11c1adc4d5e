//! Members that join and leave by themselves, in a group: the leader alone lets their time pass and takes their lists, and each
//! change is stored before the switches have it, because connections depend on the members' numbers.

use super::super::{Pump, unix_ms};
use super::changes::{Change, STORE_AGAIN};
use super::{Group, List};
use crate::http::server as http;
use pointsman_balance::api::Desk;
use pointsman_balance::config::Origin;
use std::time::Instant;

/// Whether a request is about one member.
pub(in super::super) fn is_of_member(request: &http::Request) -> bool {
    request.target.starts_with("/v1/members/")
}

impl Group {
    /// Whether changes of members may be stored now.
    fn takes_members(&self) -> bool {
        let quiet = self.in_flight.is_none() && self.held.is_empty();
        self.leads() && quiet && self.trouble.is_none() && Instant::now() >= self.members_from
    }

    /// When the desk has to be looked after, in milliseconds since 1970.
    pub fn members_due(&self, desk: &Desk) -> u64 {
        let members = match (self.takes_members(), self.lists.is_empty()) {
            (false, _) => None,
            (true, false) => Some(0),
            (true, true) => desk.members_deadline(),
        };
        members.map_or(desk.sample_deadline(), |at| at.min(desk.sample_deadline()))
    }

    /// A change of members could not be stored.
    pub(super) fn members_again(&mut self, list: Option<(String, List)>) {
        self.members_from = Instant::now() + STORE_AGAIN;
        if self.leads()
            && let Some((source, list)) = list
        {
            // There may be a newer one.
            self.lists.entry(source).or_insert(list);
        }
    }
}

impl Pump {
    /// A source's list. Those of files are kept: if this controller leads later, they have not changed until then.
    pub(in super::super) fn group_list(&mut self, source: String, list: List) {
        let Some(group) = &mut self.group else { return };
        let of = self.controller.rack().sources.iter().find(|s| s.name == source);
        if of.is_some_and(|s| matches!(s.origin, Origin::File(_))) {
            group.files.insert(source.clone(), list.clone());
        }
        if group.leads() {
            group.lists.insert(source, list);
            self.group_members();
        }
    }

    /// Takes a list, or lets the time pass, if one of them is due.
    pub(in super::super) fn group_members(&mut self) {
        let Some(group) = self.group.as_mut().filter(|g| g.takes_members()) else { return };
        let list = group.lists.pop_first();
        if list.is_some() || self.desk.members_deadline().is_some_and(|at| at <= unix_ms()) {
            group.held.push_back(Change::of_members(list));
            self.propose();
        }
    }
}
