//! Multicast groups and clone sessions (P4Runtime specification, "`PacketReplicationEngineEntry`").

use super::Access;
use super::tables::set_or_remove;
use super::write::{Op, Undo, UndoLog};
use crate::bytestring;
use crate::error::{Code, EntityError};
use crate::proto::p4rt as pb;
use pb::packet_replication_engine_entry::Type;
use pointsman_v1model::{CloneSession, Replica};
use std::collections::{BTreeMap, BTreeSet};

/// The number by which controllers know the CPU port of any device ("Translation of Port Numbers").
const SDN_PORT_CPU: u64 = 0xffff_fffd;

/// The ports of a device.
pub(super) struct Ports {
    pub cpu: Option<u32>,
    /// `None`: any.
    pub all: Option<BTreeSet<u32>>,
}

impl Ports {
    fn has(&self, port: u32) -> bool {
        self.cpu == Some(port) || self.all.as_ref().is_none_or(|all| all.contains(&port))
    }
}

impl Access<'_> {
    pub(super) fn write_replication(
        &mut self,
        op: Op,
        e: &pb::PacketReplicationEngineEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        match &e.r#type {
            None => Err(EntityError::invalid("neither a multicast group nor a clone session is set")),
            Some(Type::MulticastGroupEntry(group)) => self
                .write_multicast_group(op, group, undo)
                .map_err(|e| e.at(format_args!("multicast group {}", group.multicast_group_id))),
            Some(Type::CloneSessionEntry(session)) => self
                .write_clone_session(op, session, undo)
                .map_err(|e| e.at(format_args!("clone session {}", session.session_id))),
        }
    }

    fn write_multicast_group(
        &mut self,
        op: Op,
        e: &pb::MulticastGroupEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let id = e.multicast_group_id;
        let old_entry = check_presence(op, &self.book.groups, id)?;
        let old = self.state.replication.group(id).map(<[Replica]>::to_vec);
        match op {
            Op::Insert => self.state.replication.insert_group(id, self.decode_replicas(&e.replicas)?)?,
            Op::Modify => self.state.replication.modify_group(id, self.decode_replicas(&e.replicas)?)?,
            Op::Delete => self.state.replication.delete_group(id)?,
        }
        set_or_remove(&mut self.book.groups, id, (op != Op::Delete).then(|| e.clone()));
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |book, state| {
                let groups = &mut state.replication;
                let _ = match (op, old) {
                    (Op::Modify, Some(old)) => groups.modify_group(id, old),
                    (Op::Delete, Some(old)) => groups.insert_group(id, old),
                    _ => groups.delete_group(id),
                };
                set_or_remove(&mut book.groups, id, old_entry);
            });
            undo.push(step);
        }
        Ok(())
    }

    fn write_clone_session(
        &mut self,
        op: Op,
        e: &pb::CloneSessionEntry,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let id = e.session_id;
        let old_entry = check_presence(op, &self.book.sessions, id)?;
        let old = self.state.replication.session(id).cloned();
        match op {
            Op::Insert => self.state.replication.insert_session(id, self.decode_session(e)?)?,
            Op::Modify => self.state.replication.modify_session(id, self.decode_session(e)?)?,
            Op::Delete => self.state.replication.delete_session(id)?,
        }
        set_or_remove(&mut self.book.sessions, id, (op != Op::Delete).then(|| e.clone()));
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |book, state| {
                let sessions = &mut state.replication;
                let _ = match (op, old) {
                    (Op::Modify, Some(old)) => sessions.modify_session(id, old),
                    (Op::Delete, Some(old)) => sessions.insert_session(id, old),
                    _ => sessions.delete_session(id),
                };
                set_or_remove(&mut book.sessions, id, old_entry);
            });
            undo.push(step);
        }
        Ok(())
    }

    fn decode_session(&self, e: &pb::CloneSessionEntry) -> Result<CloneSession, EntityError> {
        let truncate_bytes = u32::try_from(e.packet_length_bytes).map_err(|_| {
            let message = format!("packet_length_bytes is {}: it cannot be negative", e.packet_length_bytes);
            EntityError::invalid(message)
        })?;
        let class_of_service = u8::try_from(e.class_of_service).map_err(|_| {
            EntityError::invalid(format!("class_of_service is {}: use 0 to 7", e.class_of_service))
        })?;
        let replicas = self.decode_replicas(&e.replicas)?;
        Ok(CloneSession { replicas, multicast_group: None, truncate_bytes, class_of_service })
    }

    fn decode_replicas(&self, replicas: &[pb::Replica]) -> Result<Vec<Replica>, EntityError> {
        let decode = |(index, r): (usize, &pb::Replica)| {
            self.decode_replica(r).map_err(|e| e.at(format_args!("replica {index}")))
        };
        replicas.iter().enumerate().map(decode).collect()
    }

    fn decode_replica(&self, r: &pb::Replica) -> Result<Replica, EntityError> {
        if !r.backup_replicas.is_empty() {
            return Err(EntityError::unimplemented("this target has no backup replicas"));
        }
        let instance = u16::try_from(r.instance)
            .map_err(|_| EntityError::invalid(format!("instance {} is above {}", r.instance, u16::MAX)))?;
        #[allow(deprecated)]
        let number = match &r.port_kind {
            None => return Err(EntityError::invalid("no port is set")),
            Some(pb::replica::PortKind::EgressPort(port)) => u64::from(*port),
            Some(pb::replica::PortKind::Port(bytes)) => {
                let port =
                    bytestring::decode(32, bytes).map_err(|e| EntityError::invalid(format!("port: {e}")))?;
                port.low_u64()
            }
        };
        if number == SDN_PORT_CPU {
            let port = self.ports.cpu.ok_or_else(|| EntityError::invalid("this switch has no CPU port"))?;
            return Ok(Replica { port, instance });
        }
        let port = u32::try_from(number).ok().filter(|p| self.ports.has(*p));
        let port = port.ok_or_else(|| EntityError::invalid(format!("there is no port {number}")))?;
        Ok(Replica { port, instance })
    }
}

/// Looks an id up, as the operation wants it to be there or not.
fn check_presence<E: Clone>(op: Op, map: &BTreeMap<u32, E>, id: u32) -> Result<Option<E>, EntityError> {
    if id == 0 {
        return Err(EntityError::invalid(
            "id 0 stands for all of them in reads, and for none in the data plane",
        ));
    }
    match (op, map.get(&id)) {
        (Op::Insert, Some(_)) => Err(EntityError::new(Code::AlreadyExists, "it is there already")),
        (Op::Modify | Op::Delete, None) => Err(EntityError::not_found("it is not there")),
        (_, old) => Ok(old.cloned()),
    }
}
