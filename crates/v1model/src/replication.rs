//! Multicast groups and clone sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One copy: its port and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replica {
    /// Egress port.
    pub port: u32,
    /// The copy's `standard_metadata.egress_rid`.
    pub instance: u16,
}

/// The destinations of a clone's copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneSession {
    /// One copy each.
    pub replicas: Vec<Replica>,
    /// One copy for each replica of this multicast group, besides.
    pub multicast_group: Option<u32>,
    /// Copies are cut to this many bytes when they are sent; 0 leaves them whole.
    pub truncate_bytes: u32,
    /// Priority of the queue that the copies take.
    pub class_of_service: u8,
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicationError {
    /// This group or session already exists.
    Duplicate,
    /// No such group or session.
    NotFound,
    /// Group 0 means "no multicast".
    GroupZero,
    /// Not a number that the program's `mcast_grp` can hold (groups), or more than 32767 (sessions).
    OutOfRange,
    /// The same port and instance twice.
    RepeatedReplica(Replica),
    /// A replica and one of its backups, or two of its backups, have the same port.
    RepeatedPort(u32),
    /// The class of service is 8 or more.
    BadClassOfService(u8),
}

impl std::fmt::Display for ReplicationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReplicationError::Duplicate => write!(f, "this id is taken"),
            ReplicationError::NotFound => write!(f, "no such group or session"),
            ReplicationError::GroupZero => write!(f, "multicast group 0 means no multicast: use 1 or more"),
            ReplicationError::OutOfRange => {
                write!(f, "the id is too large: groups go up to 65535, clone sessions up to 32767")
            }
            ReplicationError::RepeatedReplica(r) => {
                write!(f, "port {} with instance {} is given twice", r.port, r.instance)
            }
            ReplicationError::RepeatedPort(port) => {
                write!(f, "port {port} is given twice among a replica and its backups")
            }
            ReplicationError::BadClassOfService(c) => write!(f, "class of service {c}: use 0 to 7"),
        }
    }
}

impl std::error::Error for ReplicationError {}

#[derive(Clone, Debug)]
struct Group {
    replicas: Arc<[Replica]>,
    /// In order of preference, for each replica; empty if no replica has any.
    backups: Vec<Vec<Replica>>,
    /// The replicas in force while some ports are down.
    // Shared, so that a packet can hold on to its group while copies are made.
    active: Arc<[Replica]>,
}

impl Group {
    fn new(replicas: Vec<Replica>, mut backups: Vec<Vec<Replica>>, down: &BTreeSet<u32>) -> Group {
        if backups.iter().all(Vec::is_empty) {
            backups.clear();
        }
        let replicas: Arc<[Replica]> = replicas.into();
        let mut group = Group { active: replicas.clone(), replicas, backups };
        group.activate(down);
        group
    }

    /// Chooses the first of each replica and its backups whose port is up. Where none is, no copy is made (P4Runtime
    /// specification, "`MulticastGroupEntry`", first behaviour).
    fn activate(&mut self, down: &BTreeSet<u32>) {
        let up = |r: &&Replica| !down.contains(&r.port);
        let first_up = |(at, r)| {
            let backups = self.backups.get(at).into_iter().flatten();
            std::iter::once(r).chain(backups).find(up).copied()
        };
        self.active = self.replicas.iter().enumerate().filter_map(first_up).collect();
    }
}

/// All groups and sessions.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    groups: BTreeMap<u32, Group>,
    sessions: BTreeMap<u32, CloneSession>,
    /// Ports that are known to be down.
    down: BTreeSet<u32>,
}

/// Largest id of a clone session: BMv2 keeps 15 bits.
pub const MAX_CLONE_SESSION: u32 = 32_767;

fn check_replicas(replicas: &[Replica]) -> Result<(), ReplicationError> {
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|w| w[0] == w[1]) {
        Some(w) => Err(ReplicationError::RepeatedReplica(w[0])),
        None => Ok(()),
    }
}

fn check_group(id: u32, replicas: &[Replica], backups: &[Vec<Replica>]) -> Result<(), ReplicationError> {
    match id {
        0 => return Err(ReplicationError::GroupZero),
        1..=0xffff => {}
        _ => return Err(ReplicationError::OutOfRange),
    }
    for (replica, backups) in replicas.iter().zip(backups) {
        let mut ports = BTreeSet::from([replica.port]);
        if let Some(b) = backups.iter().find(|b| !ports.insert(b.port)) {
            return Err(ReplicationError::RepeatedPort(b.port));
        }
    }
    let all: Vec<Replica> = replicas.iter().chain(backups.iter().flatten()).copied().collect();
    check_replicas(&all)
}

fn check_session(id: u32, session: &CloneSession) -> Result<(), ReplicationError> {
    if id > MAX_CLONE_SESSION {
        return Err(ReplicationError::OutOfRange);
    }
    if session.class_of_service > 7 {
        return Err(ReplicationError::BadClassOfService(session.class_of_service));
    }
    check_replicas(&session.replicas)
}

impl Replication {
    /// Groups in order of their ids.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &[Replica])> {
        self.groups.iter().map(|(id, g)| (*id, &*g.replicas))
    }

    /// The replicas of a multicast group.
    pub fn group(&self, id: u32) -> Option<&[Replica]> {
        self.groups.get(&id).map(|g| &*g.replicas)
    }

    /// The backups of a multicast group, by replica; empty if no replica has any.
    pub fn backups(&self, id: u32) -> Option<&[Vec<Replica>]> {
        self.groups.get(&id).map(|g| &*g.backups)
    }

    /// The replicas of a multicast group that are in force: backups for those whose port is down, nothing for those without
    /// a backup whose port is up.
    pub(crate) fn active_group(&self, id: u32) -> Option<Arc<[Replica]>> {
        self.groups.get(&id).map(|g| g.active.clone())
    }

    /// Adds a multicast group, 1 to 65535.
    pub fn insert_group(&mut self, id: u32, replicas: Vec<Replica>) -> Result<(), ReplicationError> {
        self.insert_group_with_backups(id, replicas, Vec::new())
    }

    /// The same, if each replica has a list of backups, the most preferred first.
    pub fn insert_group_with_backups(
        &mut self,
        id: u32,
        replicas: Vec<Replica>,
        backups: Vec<Vec<Replica>>,
    ) -> Result<(), ReplicationError> {
        check_group(id, &replicas, &backups)?;
        if self.groups.contains_key(&id) {
            return Err(ReplicationError::Duplicate);
        }
        self.groups.insert(id, Group::new(replicas, backups, &self.down));
        Ok(())
    }

    /// Replaces the replicas of a group.
    pub fn modify_group(&mut self, id: u32, replicas: Vec<Replica>) -> Result<(), ReplicationError> {
        self.modify_group_with_backups(id, replicas, Vec::new())
    }

    /// The same, if each replica has a list of backups, the most preferred first.
    pub fn modify_group_with_backups(
        &mut self,
        id: u32,
        replicas: Vec<Replica>,
        backups: Vec<Vec<Replica>>,
    ) -> Result<(), ReplicationError> {
        check_group(id, &replicas, &backups)?;
        let group = self.groups.get_mut(&id).ok_or(ReplicationError::NotFound)?;
        *group = Group::new(replicas, backups, &self.down);
        Ok(())
    }

    /// Ports that are known to be down.
    pub fn down_ports(&self) -> &BTreeSet<u32> {
        &self.down
    }

    /// A port went up or down.
    pub(crate) fn set_port_status(&mut self, port: u32, up: bool) {
        let changed = if up { self.down.remove(&port) } else { self.down.insert(port) };
        if changed {
            let down = &self.down;
            self.groups.values_mut().for_each(|g| g.activate(down));
        }
    }

    /// These ports are down, all others up.
    pub(crate) fn set_down_ports(&mut self, down: BTreeSet<u32>) {
        self.down = down;
        let down = &self.down;
        self.groups.values_mut().for_each(|g| g.activate(down));
    }

    /// Removes a group.
    pub fn delete_group(&mut self, id: u32) -> Result<(), ReplicationError> {
        self.groups.remove(&id).map(|_| ()).ok_or(ReplicationError::NotFound)
    }

    /// Sessions in order of their ids.
    pub fn sessions(&self) -> impl Iterator<Item = (u32, &CloneSession)> {
        self.sessions.iter().map(|(id, s)| (*id, s))
    }

    /// A clone session.
    pub fn session(&self, id: u32) -> Option<&CloneSession> {
        self.sessions.get(&id)
    }

    /// Adds a clone session, 0 to 32767.
    pub fn insert_session(&mut self, id: u32, session: CloneSession) -> Result<(), ReplicationError> {
        check_session(id, &session)?;
        if self.sessions.contains_key(&id) {
            return Err(ReplicationError::Duplicate);
        }
        self.sessions.insert(id, session);
        Ok(())
    }

    /// Replaces a clone session.
    pub fn modify_session(&mut self, id: u32, session: CloneSession) -> Result<(), ReplicationError> {
        check_session(id, &session)?;
        *self.sessions.get_mut(&id).ok_or(ReplicationError::NotFound)? = session;
        Ok(())
    }

    /// Removes a clone session.
    pub fn delete_session(&mut self, id: u32) -> Result<(), ReplicationError> {
        self.sessions.remove(&id).map(|_| ()).ok_or(ReplicationError::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_sessions() {
        let r = |port, instance| Replica { port, instance };
        let mut all = Replication::default();
        assert_eq!(all.insert_group(0, vec![]), Err(ReplicationError::GroupZero));
        assert_eq!(all.insert_group(65_536, vec![]), Err(ReplicationError::OutOfRange));
        let twice = vec![r(1, 1), r(2, 1), r(1, 1)];
        assert_eq!(all.insert_group(1, twice), Err(ReplicationError::RepeatedReplica(r(1, 1))));
        all.insert_group(1, vec![r(2, 1), r(1, 1), r(1, 2)]).unwrap();
        assert_eq!(all.insert_group(1, vec![]), Err(ReplicationError::Duplicate));
        assert_eq!(all.modify_group(2, vec![]), Err(ReplicationError::NotFound));
        assert_eq!(all.group(1).map(<[_]>::len), Some(3));
        let backups = vec![vec![r(5, 1), r(6, 1)], vec![], vec![]];
        all.modify_group_with_backups(1, vec![r(2, 1), r(1, 1), r(1, 2)], backups.clone()).unwrap();
        let active = |all: &Replication| all.active_group(1).expect("it is there")[0];
        let pruned = |all: &Replication| all.active_group(1).expect("it is there").to_vec();
        assert_eq!(active(&all), r(2, 1));
        all.set_port_status(2, false);
        assert_eq!((active(&all), all.group(1).map(|g| g[0])), (r(5, 1), Some(r(2, 1))));
        all.set_port_status(5, false);
        assert_eq!(active(&all), r(6, 1));
        all.set_port_status(6, false);
        assert_eq!((pruned(&all), all.group(1).map(<[_]>::len)), (vec![r(1, 1), r(1, 2)], Some(3)));
        all.set_port_status(1, false);
        assert_eq!(pruned(&all), []);
        all.set_port_status(1, true);
        all.set_port_status(5, true);
        assert_eq!((active(&all), all.backups(1)), (r(5, 1), Some(&backups[..])));
        let same_port = vec![vec![r(2, 9)]];
        let refused = all.modify_group_with_backups(1, vec![r(2, 1)], same_port);
        assert_eq!(refused, Err(ReplicationError::RepeatedPort(2)));
        let same_pair = vec![vec![r(3, 1)], vec![]];
        let refused = all.modify_group_with_backups(1, vec![r(2, 1), r(3, 1)], same_pair);
        assert_eq!(refused, Err(ReplicationError::RepeatedReplica(r(3, 1))));
        all.delete_group(1).unwrap();
        assert_eq!(all.delete_group(1), Err(ReplicationError::NotFound));
        let s = CloneSession { replicas: vec![r(3, 0)], ..Default::default() };
        assert_eq!(all.insert_session(40_000, s.clone()), Err(ReplicationError::OutOfRange));
        let bad = CloneSession { class_of_service: 8, ..s.clone() };
        assert_eq!(all.insert_session(0, bad), Err(ReplicationError::BadClassOfService(8)));
        all.insert_session(0, s.clone()).unwrap();
        assert_eq!(all.sessions().collect::<Vec<_>>(), [(0, &s)]);
        all.delete_session(0).unwrap();
        assert_eq!(all.modify_session(0, s), Err(ReplicationError::NotFound));
    }
}
