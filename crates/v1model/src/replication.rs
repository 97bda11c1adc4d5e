//! Multicast groups and clone sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

/// One copy: where it goes and which number it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replica {
    /// Egress port.
    pub port: u32,
    /// What the copy finds in `standard_metadata.egress_rid`.
    pub instance: u16,
}

/// Where the copies of a clone go.
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
    /// This group or session stands already.
    Duplicate,
    /// No such group or session.
    NotFound,
    /// Group 0 means "no multicast".
    GroupZero,
    /// Not a number that the program's `mcast_grp` can hold (groups), or more than 32767 (sessions).
    OutOfRange,
    /// The same port and instance twice.
    RepeatedReplica(Replica),
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
                write!(f, "port {} with instance {} is there twice", r.port, r.instance)
            }
            ReplicationError::BadClassOfService(c) => write!(f, "class of service {c}: use 0 to 7"),
        }
    }
}

impl std::error::Error for ReplicationError {}

/// All groups and sessions.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    // Shared, so that a packet can hold on to its group while copies are made.
    groups: BTreeMap<u32, Arc<[Replica]>>,
    sessions: BTreeMap<u32, CloneSession>,
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

fn check_group(id: u32, replicas: &[Replica]) -> Result<(), ReplicationError> {
    match id {
        0 => Err(ReplicationError::GroupZero),
        1..=0xffff => check_replicas(replicas),
        _ => Err(ReplicationError::OutOfRange),
    }
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
        self.groups.iter().map(|(id, g)| (*id, &**g))
    }

    /// A multicast group.
    pub fn group(&self, id: u32) -> Option<&[Replica]> {
        self.groups.get(&id).map(|g| &**g)
    }

    pub(crate) fn shared_group(&self, id: u32) -> Option<Arc<[Replica]>> {
        self.groups.get(&id).cloned()
    }

    /// Adds a multicast group, 1 to 65535.
    pub fn insert_group(&mut self, id: u32, replicas: Vec<Replica>) -> Result<(), ReplicationError> {
        check_group(id, &replicas)?;
        if self.groups.contains_key(&id) {
            return Err(ReplicationError::Duplicate);
        }
        self.groups.insert(id, replicas.into());
        Ok(())
    }

    /// Replaces the replicas of a group.
    pub fn modify_group(&mut self, id: u32, replicas: Vec<Replica>) -> Result<(), ReplicationError> {
        check_group(id, &replicas)?;
        *self.groups.get_mut(&id).ok_or(ReplicationError::NotFound)? = replicas.into();
        Ok(())
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
