//! Multicast groups and clone sessions (P4Runtime specification, "`PacketReplicationEngineEntry`").

use super::tables::set_or_remove;
use super::write::{Op, Undo, UndoLog};
use super::{Access, Server, Terms};
use crate::bytestring;
use crate::device::Device;
use crate::error::{Code, EntityError};
use crate::proto::p4rt as pb;
use pb::packet_replication_engine_entry::Type;
use pb::replica::PortKind;
use pointsman_v1model::{CloneSession, Replica};
use std::collections::BTreeMap;

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
        let replication = &self.state.replication;
        let backups = replication.backups(id).unwrap_or(&[]).to_vec();
        let old = replication.group(id).map(|g| (g.to_vec(), backups));
        let mut new_entry = None;
        if op != Op::Delete {
            let (replicas, backups) = self.decode_replicas(&e.replicas)?;
            let groups = &mut self.state.replication;
            match op {
                Op::Insert => groups.insert_group_with_backups(id, replicas, backups)?,
                _ => groups.modify_group_with_backups(id, replicas, backups)?,
            }
            let replicas = e.replicas.iter().map(|r| self.canonical_replica(r)).collect();
            new_entry = Some(pb::MulticastGroupEntry { replicas, ..e.clone() });
        } else {
            self.state.replication.delete_group(id)?;
        }
        set_or_remove(&mut self.book.groups, id, new_entry);
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |book, state| {
                let groups = &mut state.replication;
                let _ = match (op, old) {
                    (Op::Modify, Some((old, backups))) => groups.modify_group_with_backups(id, old, backups),
                    (Op::Delete, Some((old, backups))) => groups.insert_group_with_backups(id, old, backups),
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
            Op::Insert => {
                let session = self.decode_session(e)?;
                self.state.replication.insert_session(id, session)?
            }
            Op::Modify => self.state.replication.modify_session(id, self.decode_session(e)?)?,
            Op::Delete => self.state.replication.delete_session(id)?,
        }
        let new_entry = (op != Op::Delete).then(|| pb::CloneSessionEntry {
            replicas: e.replicas.iter().map(|r| self.canonical_replica(r)).collect(),
            ..e.clone()
        });
        set_or_remove(&mut self.book.sessions, id, new_entry);
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
        if e.replicas.iter().any(|r| !r.backup_replicas.is_empty()) {
            let message = "clone sessions have no backup replicas on this target: use a multicast group";
            return Err(EntityError::unimplemented(message));
        }
        let (replicas, _) = self.decode_replicas(&e.replicas)?;
        Ok(CloneSession { replicas, multicast_group: None, truncate_bytes, class_of_service })
    }

    /// Replicas, and the backups of each.
    fn decode_replicas(
        &self,
        replicas: &[pb::Replica],
    ) -> Result<(Vec<Replica>, Vec<Vec<Replica>>), EntityError> {
        let mut found = (Vec::new(), Vec::new());
        for (index, r) in replicas.iter().enumerate() {
            let place = |e: EntityError| e.at(format_args!("replica {index}"));
            #[allow(deprecated)]
            let port = match &r.port_kind {
                None => Err(EntityError::invalid("no port is set")),
                Some(PortKind::EgressPort(port)) => self.ports.of_sdn(u64::from(*port)),
                Some(PortKind::Port(bytes)) => self.view().terms.decode_port(bytes),
            };
            let replica = |port, instance| Ok(Replica { port, instance: decode_instance(instance)? });
            found.0.push(port.and_then(|port| replica(port, r.instance)).map_err(place)?);
            let mut backups = Vec::new();
            for (rank, b) in r.backup_replicas.iter().enumerate() {
                let backup =
                    self.view().terms.decode_port(&b.port).and_then(|port| replica(port, b.instance));
                backups.push(backup.map_err(|e| place(e.at(format_args!("backup {rank}"))))?);
            }
            found.1.push(backups);
        }
        Ok(found)
    }

    fn canonical_replica(&self, r: &pb::Replica) -> pb::Replica {
        let port_kind = match &r.port_kind {
            Some(PortKind::Port(bytes)) => Some(PortKind::Port(self.view().terms.canonical_port(bytes))),
            other => other.clone(),
        };
        let backup = |b: &pb::BackupReplica| pb::BackupReplica {
            port: self.view().terms.canonical_port(&b.port),
            ..b.clone()
        };
        let backup_replicas = r.backup_replicas.iter().map(backup).collect();
        pb::Replica { port_kind, backup_replicas, ..*r }
    }
}

impl Server {
    /// Notes the multicast groups and clone sessions that the switch has and no client has written, such as those of its start: from now on clients read
    /// and change them like their own. Clone sessions to multicast groups, which P4Runtime does not have, stay hidden.
    pub fn adopt_replication(&mut self, device: &mut dyn Device) {
        let (Some(live), Some(state)) = (&mut self.live, device.state()) else { return };
        let replication = &state.replication;
        for (id, replicas) in replication.groups() {
            let backups = replication.backups(id).unwrap_or(&[]);
            let copies = replicas.iter().enumerate();
            let copies = copies.map(|(i, r)| as_message(r, backups.get(i).map_or(&[], Vec::as_slice)));
            live.book.groups.entry(id).or_insert_with(|| pb::MulticastGroupEntry {
                multicast_group_id: id,
                replicas: copies.collect(),
                ..Default::default()
            });
        }
        for (id, session) in replication.sessions().filter(|(id, s)| *id != 0 && s.multicast_group.is_none())
        {
            live.book.sessions.entry(id).or_insert_with(|| pb::CloneSessionEntry {
                session_id: id,
                replicas: session.replicas.iter().map(|r| as_message(r, &[])).collect(),
                class_of_service: session.class_of_service.into(),
                packet_length_bytes: i32::try_from(session.truncate_bytes).unwrap_or(i32::MAX),
            });
        }
    }
}

fn as_message(replica: &Replica, backups: &[Replica]) -> pb::Replica {
    let port = |r: &Replica| bytestring::of_number(r.port.into());
    let backup = |b: &Replica| pb::BackupReplica { port: port(b), instance: b.instance.into() };
    pb::Replica {
        instance: replica.instance.into(),
        port_kind: Some(PortKind::Port(port(replica))),
        backup_replicas: backups.iter().map(backup).collect(),
    }
}

impl Terms<'_> {
    /// A port whose format no type of the program defines.
    pub(super) fn decode_port(&self, bytes: &[u8]) -> Result<u32, EntityError> {
        self.codec.port(self.schema.port_names.as_deref(), bytes)
    }

    /// The same port as it is returned: names as they are, numbers in their shortest form.
    pub(super) fn canonical_port(&self, bytes: &[u8]) -> Vec<u8> {
        let codec = &self.codec;
        let named = self.schema.port_names.as_deref().is_some_and(|n| codec.value(n, 32, bytes).is_ok());
        match bytestring::decode(32, bytes) {
            Ok(number) if !named => bytestring::encode(&number),
            _ => bytes.to_vec(),
        }
    }
}

fn decode_instance(instance: u32) -> Result<u16, EntityError> {
    u16::try_from(instance)
        .map_err(|_| EntityError::invalid(format!("instance {instance} is above {}", u16::MAX)))
}

/// Looks an id up, as the operation wants it to be there or not.
fn check_presence<E: Clone>(op: Op, map: &BTreeMap<u32, E>, id: u32) -> Result<Option<E>, EntityError> {
    if id == 0 {
        return Err(EntityError::invalid("id 0 means all of them in reads, and none in the data plane"));
    }
    match (op, map.get(&id)) {
        (Op::Insert, Some(_)) => Err(EntityError::new(Code::AlreadyExists, "it already exists")),
        (Op::Modify | Op::Delete, None) => Err(EntityError::not_found("it does not exist")),
        (_, old) => Ok(old.cloned()),
    }
}
