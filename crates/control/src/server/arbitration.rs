//! Write access (P4Runtime specification, "Client Arbitration and Controller Replication").
//!
//! Each stream channel belongs to one role. Of a role's clients, the one whose election id is the highest that the
//! server ever accepted for that role is the primary; if that client disconnects there is none, until a client connects
//! with an id at least as high.

use super::pipeline::invalid;
use super::roles::RoleRules;
use crate::error::{Code, RpcError};
use crate::proto::{p4rt, rpc};
use prost_types::Any;
use std::collections::BTreeMap;

/// Names a stream channel. The caller chooses the numbers; one that is open is never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A role: its name, or the number that clients before P4Runtime 1.4 used. The default role has neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleKey {
    /// Empty for the default role.
    pub name: String,
    /// 0 if the role has a name.
    pub id: u64,
}

impl RoleKey {
    /// The role that a request means.
    pub fn new(name: &str, id: u64) -> Self {
        // The name replaced the number: if both are given, the name counts.
        RoleKey { name: name.to_string(), id: if name.is_empty() { id } else { 0 } }
    }

    #[allow(deprecated)]
    fn of(role: Option<&p4rt::Role>) -> Self {
        role.map_or_else(RoleKey::default, |r| RoleKey::new(&r.name, r.id))
    }
}

impl std::fmt::Display for RoleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.name.as_str(), self.id) {
            ("", 0) => f.write_str("the default role"),
            ("", id) => write!(f, "role {id}"),
            (name, _) => write!(f, "role {name:?}"),
        }
    }
}

/// An election id as a number.
pub fn election_id(id: &p4rt::Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

fn to_proto(id: u128) -> p4rt::Uint128 {
    p4rt::Uint128 { high: (id >> 64) as u64, low: id as u64 }
}

#[derive(Clone, Debug, Default)]
struct Role {
    /// The highest id of all primaries so far.
    highest: Option<u128>,
    /// As the primary gave it last; returned to everyone.
    config: Option<Any>,
    /// Its content.
    rules: Option<RoleRules>,
    /// When its last client left, counted in departures.
    left: u64,
}

/// Roles, with clients or without. Beyond it, the roles without clients that have been left longest are forgotten, with
/// their election ids.
const MAX_ROLES: usize = 64;

/// Bytes of a role's name.
const MAX_NAME_BYTES: usize = 256;

#[derive(Clone, Debug)]
struct Client {
    role: RoleKey,
    election_id: Option<u128>,
}

/// A notification to be sent.
pub(super) type Notice = (ConnId, p4rt::MasterArbitrationUpdate);

/// The clients of one device.
#[derive(Clone, Debug, Default)]
pub(super) struct Arbitration {
    device_id: u64,
    max_clients_per_role: usize,
    roles: BTreeMap<RoleKey, Role>,
    clients: BTreeMap<ConnId, Client>,
    departures: u64,
}

impl Arbitration {
    pub fn new(device_id: u64, max_clients_per_role: usize) -> Self {
        // The default role needs no introduction.
        let roles = BTreeMap::from([(RoleKey::default(), Role::default())]);
        Arbitration { device_id, max_clients_per_role, roles, clients: BTreeMap::new(), departures: 0 }
    }

    /// Handles a `MasterArbitrationUpdate` ("Rules for Handling `MasterArbitrationUpdate` Messages").
    ///
    /// # Errors
    /// The stream must be closed with this error; `close` has to follow.
    pub fn update(
        &mut self,
        conn: ConnId,
        update: &p4rt::MasterArbitrationUpdate,
    ) -> Result<Vec<Notice>, RpcError> {
        let role = RoleKey::of(update.role.as_ref());
        let id = update.election_id.as_ref().map(election_id);
        let known = self.clients.get(&conn).cloned();
        if update.device_id != self.device_id {
            let message = format!("this is device {}, not {}", self.device_id, update.device_id);
            let code = if known.is_some() { Code::FailedPrecondition } else { Code::NotFound };
            return Err(RpcError::new(code, message));
        }
        if known.as_ref().is_some_and(|c| c.role != role) {
            let message = "a stream keeps its role: open another stream for another role";
            return Err(RpcError::new(Code::FailedPrecondition, message));
        }
        if let Some(id) = id
            && self
                .clients
                .iter()
                .any(|(c, client)| *c != conn && client.role == role && client.election_id == Some(id))
        {
            // Clients recognise this sentence.
            let message =
                format!("Election id {id} is already used by another connection with the same role");
            return Err(RpcError::new(Code::InvalidArgument, message));
        }
        let others = self.clients.iter().filter(|(c, client)| **c != conn && client.role == role).count();
        if others >= self.max_clients_per_role {
            let message = format!("{others} clients are connected for this role, which is the limit");
            return Err(RpcError::new(Code::ResourceExhausted, message));
        }
        let config = update.role.as_ref().and_then(|r| r.config.clone());
        let rules = self.check_config(&role, config.as_ref())?;
        if !self.roles.contains_key(&role) {
            self.make_room(&role)?;
        }
        let was_primary = self.is_primary(conn);
        self.clients.insert(conn, Client { role: role.clone(), election_id: id });
        let state = self.roles.entry(role.clone()).or_default();
        let wins = id.is_some_and(|id| state.highest.is_none_or(|h| id >= h));
        if wins {
            state.highest = id;
            state.config = config;
            state.rules = rules;
        }
        if wins || was_primary {
            let mut notices = self.notices(&role);
            if wins {
                // The new primary is notified last, after all others.
                notices.sort_by_key(|(c, _)| *c == conn);
            }
            Ok(notices)
        } else {
            Ok(self.notice(conn).into_iter().collect())
        }
    }

    /// The rules in a configuration.
    ///
    /// # Errors
    /// It is of an unknown kind, or claims objects that belong to another role.
    fn check_config(&self, role: &RoleKey, config: Option<&Any>) -> Result<Option<RoleRules>, RpcError> {
        let Some(config) = config else { return Ok(None) };
        if *role == RoleKey::default() {
            return Err(invalid("the default role has full access: give the role with a config a name"));
        }
        let rules = RoleRules::parse(config)?;
        for (other, state) in self.roles.iter().filter(|(other, _)| *other != role && self.is_used(other)) {
            if let Some(id) = state.rules.as_ref().and_then(|r| r.conflict(&rules)) {
                let message =
                    format!("role.config: {id:#010x} is exclusive, and role \"{}\" has it", other.name);
                return Err(invalid(message));
            }
        }
        Ok(Some(rules))
    }

    fn is_used(&self, role: &RoleKey) -> bool {
        self.clients.values().any(|c| c.role == *role)
    }

    /// Forgets a role if no room is left for another one.
    fn make_room(&mut self, new: &RoleKey) -> Result<(), RpcError> {
        if new.name.len() > MAX_NAME_BYTES {
            let message =
                format!("the role's name has {} bytes: {MAX_NAME_BYTES} are allowed", new.name.len());
            return Err(RpcError::new(Code::InvalidArgument, message));
        }
        if self.roles.len() < MAX_ROLES {
            return Ok(());
        }
        let unused = self.roles.iter().filter(|(key, _)| **key != RoleKey::default() && !self.is_used(key));
        let oldest = unused.min_by_key(|(_, role)| role.left).map(|(key, _)| key.clone());
        let Some(oldest) = oldest else {
            let message = format!("{} roles have clients, which is the limit", self.roles.len());
            return Err(RpcError::new(Code::ResourceExhausted, message));
        };
        self.roles.remove(&oldest);
        Ok(())
    }

    /// Forgets a stream that was closed.
    pub fn close(&mut self, conn: ConnId) -> Vec<Notice> {
        let was_primary = self.is_primary(conn);
        let Some(client) = self.clients.remove(&conn) else { return Vec::new() };
        if !self.is_used(&client.role) {
            self.departures += 1;
            let never_led = self.roles.get(&client.role).is_some_and(|r| r.highest.is_none());
            if never_led && client.role != RoleKey::default() {
                self.roles.remove(&client.role);
            } else if let Some(role) = self.roles.get_mut(&client.role) {
                role.left = self.departures;
            }
        }
        if was_primary { self.notices(&client.role) } else { Vec::new() }
    }

    /// The permissions of a role with a configuration; `None` for full access.
    pub fn rules(&self, role: &RoleKey) -> Option<&RoleRules> {
        self.roles.get(role)?.rules.as_ref()
    }

    /// The primary of a role.
    pub fn primary(&self, role: &RoleKey) -> Option<ConnId> {
        let highest = self.roles.get(role)?.highest?;
        self.clients.iter().find(|(_, c)| c.role == *role && c.election_id == Some(highest)).map(|(c, _)| *c)
    }

    /// Whether this stream is the primary of its role.
    pub fn is_primary(&self, conn: ConnId) -> bool {
        self.clients.get(&conn).is_some_and(|c| self.primary(&c.role) == Some(conn))
    }

    /// Role and election id of a stream that has sent an arbitration.
    pub fn standing(&self, conn: ConnId) -> Option<(&RoleKey, Option<u128>)> {
        self.clients.get(&conn).map(|c| (&c.role, c.election_id))
    }

    /// The primaries of all roles, with the permissions of their roles.
    pub fn primaries(&self) -> Vec<(ConnId, Option<&RoleRules>)> {
        self.roles.iter().filter_map(|(key, role)| Some((self.primary(key)?, role.rules.as_ref()))).collect()
    }

    /// Whether the sender of a request with this role and election id may change anything. (Specification, "`Write`
    /// RPC": the request itself identifies its sender.)
    ///
    /// # Errors
    /// `NOT_FOUND` for a role that no client ever had, `PERMISSION_DENIED` for all senders but the primary.
    pub fn authorize(&self, role: &RoleKey, id: Option<&p4rt::Uint128>) -> Result<(), RpcError> {
        let Some(state) = self.roles.get(role) else {
            return Err(RpcError::new(
                Code::NotFound,
                format!("no client has ever requested role \"{}\"", role.name),
            ));
        };
        let id = id.map(election_id);
        if id.is_some() && id == state.highest && self.primary(role).is_some() {
            return Ok(());
        }
        let message = match (id, state.highest) {
            (None, _) => "the request has no election id: only the primary client may write".to_string(),
            (Some(id), None) => {
                format!("no client is primary: send an arbitration with election id {id} first")
            }
            (Some(id), Some(highest)) => {
                format!("not the primary: the request has election id {id}, the highest is {highest}")
            }
        };
        Err(RpcError::new(Code::PermissionDenied, message))
    }

    fn notices(&self, role: &RoleKey) -> Vec<Notice> {
        let conns: Vec<_> = self.clients.iter().filter(|(_, c)| c.role == *role).map(|(c, _)| *c).collect();
        conns.into_iter().filter_map(|c| self.notice(c)).collect()
    }

    /// The notification to a client ("Client Arbitration Notifications").
    #[allow(deprecated)]
    fn notice(&self, conn: ConnId) -> Option<Notice> {
        let client = self.clients.get(&conn)?;
        let state = self.roles.get(&client.role)?;
        let (code, message) = match self.primary(&client.role) {
            Some(primary) if primary == conn => (Code::Ok, "you are the primary"),
            Some(_) => (Code::AlreadyExists, "you are a backup: another client is the primary"),
            None => (Code::NotFound, "you are a backup: there is no primary"),
        };
        let role = (client.role != RoleKey::default() || state.config.is_some()).then(|| p4rt::Role {
            id: client.role.id,
            name: client.role.name.clone(),
            config: state.config.clone(),
        });
        let update = p4rt::MasterArbitrationUpdate {
            device_id: self.device_id,
            role,
            election_id: state.highest.map(to_proto),
            status: Some(rpc::Status {
                code: code.number(),
                message: message.to_string(),
                details: Vec::new(),
            }),
        };
        Some((conn, update))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::roles::P4RoleConfig;
    use prost::Message;

    const ROLE: &str = "";

    fn arbitration() -> Arbitration {
        Arbitration::new(1, 4)
    }

    fn message(device_id: u64, role: &str, id: Option<u128>) -> p4rt::MasterArbitrationUpdate {
        let role = (!role.is_empty()).then(|| p4rt::Role { name: role.to_string(), ..Default::default() });
        p4rt::MasterArbitrationUpdate { device_id, role, election_id: id.map(to_proto), status: None }
    }

    /// Sends an update; each notice as (connection, status code, election id).
    fn send(
        a: &mut Arbitration,
        conn: u64,
        role: &str,
        id: Option<u128>,
    ) -> Result<Vec<(u64, i32, Option<u128>)>, Code> {
        a.update(ConnId(conn), &message(1, role, id)).map(facts).map_err(|e| e.code)
    }

    fn facts(notices: Vec<Notice>) -> Vec<(u64, i32, Option<u128>)> {
        let fact =
            |(c, u): Notice| (c.0, u.status.map_or(-1, |s| s.code), u.election_id.as_ref().map(election_id));
        notices.into_iter().map(fact).collect()
    }

    #[test]
    fn the_highest_id_wins_and_everyone_hears_of_it() {
        let mut a = arbitration();
        assert_eq!(send(&mut a, 1, ROLE, Some(10)), Ok(vec![(1, 0, Some(10))]));
        assert_eq!(send(&mut a, 2, ROLE, Some(5)), Ok(vec![(2, 6, Some(10))]));
        assert_eq!(
            send(&mut a, 3, ROLE, Some(11)),
            Ok(vec![(1, 6, Some(11)), (2, 6, Some(11)), (3, 0, Some(11))])
        );
        // The new primary is notified last even if its number is low.
        assert_eq!(
            send(&mut a, 1, ROLE, Some(12)),
            Ok(vec![(2, 6, Some(12)), (3, 6, Some(12)), (1, 0, Some(12))])
        );
    }

    #[test]
    fn a_primary_that_leaves_has_no_successor() {
        let mut a = arbitration();
        send(&mut a, 1, ROLE, Some(10)).expect("accepted");
        send(&mut a, 2, ROLE, Some(5)).expect("accepted");
        assert_eq!(facts(a.close(ConnId(2))), []);
        send(&mut a, 2, ROLE, Some(5)).expect("accepted");
        assert_eq!(facts(a.close(ConnId(1))), [(2, 5, Some(10))]);
        assert_eq!(a.primary(&RoleKey::default()), None);
        assert!(a.authorize(&RoleKey::default(), Some(&to_proto(10))).is_err());
        assert_eq!(send(&mut a, 2, ROLE, Some(9)), Ok(vec![(2, 5, Some(10))]));
        assert_eq!(send(&mut a, 2, ROLE, Some(10)), Ok(vec![(2, 0, Some(10))]));
    }

    #[test]
    fn everyone_hears_of_a_primary_with_the_old_id() {
        let mut a = arbitration();
        for (conn, id) in [(1, 10), (2, 5), (3, 4)] {
            send(&mut a, conn, ROLE, Some(id)).expect("accepted");
        }
        a.close(ConnId(1));
        assert_eq!(send(&mut a, 2, ROLE, Some(10)), Ok(vec![(3, 6, Some(10)), (2, 0, Some(10))]));
    }

    #[test]
    fn a_primary_may_step_down() {
        let mut a = arbitration();
        send(&mut a, 1, ROLE, Some(10)).expect("accepted");
        send(&mut a, 2, ROLE, Some(5)).expect("accepted");
        assert_eq!(send(&mut a, 1, ROLE, Some(4)), Ok(vec![(1, 5, Some(10)), (2, 5, Some(10))]));
    }

    #[test]
    fn an_unset_id_never_wins() {
        let mut a = arbitration();
        assert_eq!(send(&mut a, 1, ROLE, None), Ok(vec![(1, 5, None)]));
        assert_eq!(send(&mut a, 2, ROLE, None), Ok(vec![(2, 5, None)]));
        assert_eq!(
            send(&mut a, 3, ROLE, Some(0)),
            Ok(vec![(1, 6, Some(0)), (2, 6, Some(0)), (3, 0, Some(0))])
        );
        assert_eq!(a.authorize(&RoleKey::default(), None).map_err(|e| e.code), Err(Code::PermissionDenied));
        assert_eq!(a.authorize(&RoleKey::default(), Some(&to_proto(0))), Ok(()));
    }

    #[test]
    fn ids_are_unique_in_a_role() {
        let mut a = arbitration();
        send(&mut a, 1, ROLE, Some(10)).expect("accepted");
        let e = a.update(ConnId(2), &message(1, ROLE, Some(10))).expect_err("taken");
        assert_eq!(e.code, Code::InvalidArgument);
        assert!(e.message.starts_with("Election id 10 is already used"));
        assert_eq!(send(&mut a, 2, "other", Some(10)), Ok(vec![(2, 0, Some(10))]));
        assert_eq!(a.primaries(), [(ConnId(1), None), (ConnId(2), None)]);
        // Sending the same again is allowed, and notifies all clients again.
        assert_eq!(send(&mut a, 1, ROLE, Some(10)), Ok(vec![(1, 0, Some(10))]));
    }

    #[test]
    fn streams_keep_device_and_role() {
        let mut a = arbitration();
        let code = |r: Result<Vec<Notice>, RpcError>| r.map(|_| ()).map_err(|e| e.code);
        assert_eq!(code(a.update(ConnId(1), &message(2, ROLE, Some(1)))), Err(Code::NotFound));
        send(&mut a, 1, ROLE, Some(1)).expect("accepted");
        assert_eq!(code(a.update(ConnId(1), &message(2, ROLE, Some(1)))), Err(Code::FailedPrecondition));
        assert_eq!(send(&mut a, 1, "other", Some(1)), Err(Code::FailedPrecondition));
    }

    #[test]
    fn the_number_of_clients_is_limited() {
        let mut a = arbitration();
        for conn in 1..=4 {
            send(&mut a, conn, ROLE, Some(u128::from(conn))).expect("accepted");
        }
        assert_eq!(send(&mut a, 5, ROLE, Some(5)), Err(Code::ResourceExhausted));
        send(&mut a, 4, ROLE, Some(7)).expect("it is one of the four");
        send(&mut a, 5, "other", Some(5)).expect("another role");
    }

    #[test]
    fn writers() {
        let mut a = arbitration();
        let denied =
            |a: &Arbitration, role: &RoleKey, id| a.authorize(role, Some(&to_proto(id))).map_err(|e| e.code);
        let default = RoleKey::default();
        assert_eq!(denied(&a, &default, 1), Err(Code::PermissionDenied));
        assert_eq!(denied(&a, &RoleKey::new("x", 0), 1), Err(Code::NotFound));
        let big = 1u128 << 64 | 3;
        send(&mut a, 1, ROLE, Some(big)).expect("accepted");
        assert_eq!(denied(&a, &default, 3), Err(Code::PermissionDenied));
        assert_eq!(denied(&a, &default, big), Ok(()));
        send(&mut a, 2, "x", Some(1)).expect("accepted");
        assert_eq!(denied(&a, &RoleKey::new("x", 0), 1), Ok(()));
        assert_eq!(denied(&a, &RoleKey::new("", 7), 1), Err(Code::NotFound));
    }

    #[test]
    fn invented_roles_are_forgotten() {
        let mut a = arbitration();
        for n in 0..1000u64 {
            // Half of them never lead.
            let id = (n % 2 == 0).then_some(5);
            send(&mut a, n, &format!("role {n}"), id).expect("accepted");
            a.close(ConnId(n));
        }
        assert!(a.roles.len() <= MAX_ROLES, "{}", a.roles.len());
        let role = |name: &str| RoleKey::new(name, 0);
        assert_eq!(a.authorize(&role("role 2"), Some(&to_proto(5))).map_err(|e| e.code), Err(Code::NotFound));
        // The latest are remembered, with their election ids.
        assert_eq!(send(&mut a, 1, "role 998", Some(4)), Ok(vec![(1, 5, Some(5))]));
        assert_eq!(send(&mut a, 2, &"x".repeat(300), Some(4)), Err(Code::InvalidArgument));
        for n in 10..10 + MAX_ROLES as u64 - 2 {
            send(&mut a, n, &format!("busy {n}"), Some(1)).expect("accepted");
        }
        assert_eq!(send(&mut a, 9, "one more", Some(1)), Err(Code::ResourceExhausted));
    }

    #[test]
    fn the_role_config_of_the_primary_is_returned() {
        let mut a = arbitration();
        let mut m = message(1, "r", Some(1));
        let config = P4RoleConfig { shared_p4_ids: vec![1], ..Default::default() };
        let config = Any { type_url: "x/stratum.P4RoleConfig".into(), value: config.encode_to_vec() };
        m.role.as_mut().expect("set above").config = Some(config.clone());
        a.update(ConnId(1), &m).expect("accepted");
        let notices = a.update(ConnId(2), &message(1, "r", None)).expect("accepted");
        let role = notices[0].1.role.clone().expect("not the default role");
        assert_eq!((role.name.as_str(), role.config), ("r", Some(config)));
    }
}
