//! Packets that come from other packets: clones, replicas, and those that begin once more.

use super::core::{Boxed, Core, Packet, Way, instance};
use super::drive::Drive;
use crate::replication::Replica;
use crate::stats::DropReason;
use crate::time::Time;
use crate::trace::{Origin, StepKind};
use pointsman_ir::Executor;

impl<E: Executor> Drive<'_, E> {
    /// A packet that descends from `from`, without its data and frame.
    fn descendant(
        &self,
        core: &mut Core<E::Frame>,
        from: &Packet<E::Frame>,
        origin: Origin,
    ) -> Boxed<E::Frame> {
        let mut new = self.fixed.packet(core);
        new.ingress_port = from.ingress_port;
        new.received = from.received;
        new.descendants.clone_from(&from.descendants);
        new.fresh = false;
        let thread = core.thread_of_copy(from.way.thread, origin);
        new.way = Way { thread, ..from.way };
        new
    }

    /// Copies the user metadata of a field list.
    fn preserve(&self, list: Option<u32>, from: &E::Frame, to: &mut E::Frame) {
        if let Some(fields) = list.and_then(|l| self.fixed.copies.lists.get(&l)) {
            fields.copy(&*self.fixed.exec, from, to);
        }
    }

    /// Lets the packet as it came in begin once more.
    pub fn resubmit(&mut self, core: &mut Core<E::Frame>, mut packet: Boxed<E::Frame>, list: u32) {
        if !core.may_descend(&mut packet) {
            return core.drop(packet, DropReason::TooManyDescendants);
        }
        let mut again = self.descendant(core, &packet, Origin::Resubmit(list));
        core.note(packet.way.thread, || StepKind::Again(again.way.thread));
        std::mem::swap(&mut again.data, &mut packet.data);
        self.begin(&mut again, instance::RESUBMITTED);
        self.preserve(Some(list), &packet.frame, &mut again.frame);
        core.recycle(packet);
        core.gate.stats.resubmitted += 1;
        core.push_again(again);
    }

    /// Lets the packet as egress left it begin once more: with these bytes, if they are not its own.
    pub fn recirculate(
        &mut self,
        core: &mut Core<E::Frame>,
        mut packet: Boxed<E::Frame>,
        list: u32,
        bytes: Option<&[u8]>,
    ) {
        if !core.may_descend(&mut packet) {
            return core.drop(packet, DropReason::TooManyDescendants);
        }
        let mut again = self.descendant(core, &packet, Origin::Recirculate(list));
        core.note(packet.way.thread, || StepKind::Again(again.way.thread));
        match bytes {
            Some(bytes) => again.data.set(bytes),
            None => std::mem::swap(&mut again.data, &mut packet.data),
        }
        self.begin(&mut again, instance::RECIRCULATED);
        self.preserve(Some(list), &packet.frame, &mut again.frame);
        core.recycle(packet);
        core.gate.stats.recirculated += 1;
        core.push_again(again);
    }

    /// Sends a packet to every port of a multicast group.
    pub fn multicast(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        mut packet: Boxed<E::Frame>,
        group: u32,
    ) {
        self.set(&mut packet.frame, self.fixed.std.instance_type, instance::REPLICATION.into());
        let Some(replicas) = self.state.replication.active_group(group) else {
            return core.drop(packet, DropReason::UnknownMulticastGroup);
        };
        core.note(packet.way.thread, || StepKind::Multicast { group, copies: replicas.len() });
        let made = self.replicate(core, now, packet, &replicas, None);
        core.gate.stats.replicas += made;
    }

    /// Sends a packet to every replica; gives the number of packets that this made.
    fn replicate(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        mut packet: Boxed<E::Frame>,
        replicas: &[Replica],
        priority: Option<u8>,
    ) -> u64 {
        let Some((last, others)) = replicas.split_last() else {
            core.drop(packet, DropReason::EmptyMulticastGroup);
            return 0;
        };
        if !others.is_empty() {
            // Replicas have the limit on descendants in common.
            packet.descendants();
        }
        for r in others {
            let mut copy = self.descendant(core, &packet, Origin::Replica);
            match &self.fixed.copies.all {
                Some(all) => self.fixed.exec.copy_spans(all, &packet.frame, &mut copy.frame),
                None => copy.frame.clone_from(&packet.frame),
            }
            copy.data.set(packet.data.packet());
            self.replica(core, now, r, priority, copy);
        }
        self.replica(core, now, last, priority, packet);
        others.len() as u64
    }

    fn replica(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        replica: &Replica,
        priority: Option<u8>,
        mut packet: Boxed<E::Frame>,
    ) {
        let rid = self.fixed.std.egress_rid;
        self.set(&mut packet.frame, rid, u64::from(replica.instance));
        self.enqueue(core, now, replica.port, priority, packet);
    }

    /// Replicas of a clone session, its truncation and its class of service.
    fn session(&self, core: &mut Core<E::Frame>, id: u32) -> Option<(Vec<Replica>, Option<u32>, u8)> {
        let Some(session) = self.state.replication.session(id) else {
            core.own.anomalies.unknown_clone_session += 1;
            return None;
        };
        let group = session.multicast_group.and_then(|g| self.state.replication.active_group(g));
        let replicas = group.iter().flat_map(|g| g.iter()).chain(&session.replicas).copied().collect();
        let truncate = (session.truncate_bytes != 0).then_some(session.truncate_bytes);
        Some((replicas, truncate, session.class_of_service))
    }

    /// Copies of the packet as it entered ingress, parsed again.
    pub fn clone_ingress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &mut Packet<E::Frame>,
        session: u32,
        list: Option<u32>,
    ) {
        let found = self.session(core, session).filter(|(replicas, ..)| !replicas.is_empty());
        let Some((replicas, truncate, class)) = found else {
            return core.note(packet.way.thread, || StepKind::NotCloned(session));
        };
        let may = core.may_descend(packet);
        let mut copy = self.descendant(core, packet, Origin::IngressClone(session));
        core.gate.stats.ingress_clones += 1;
        if !may {
            return core.drop(copy, DropReason::TooManyDescendants);
        }
        copy.data.set(packet.data.packet());
        self.begin(&mut copy, instance::INGRESS_CLONE);
        self.preserve(list, &packet.frame, &mut copy.frame);
        self.parse_packet(core, now, &mut copy);
        // The parser saw the preserved fields and may have changed them: their values after ingress count.
        self.preserve(list, &packet.frame, &mut copy.frame);
        copy.way.truncate = truncate;
        core.gate.stats.ingress_clones += self.replicate(core, now, copy, &replicas, Some(class));
    }

    /// Copies of the packet as egress left it, not deparsed: all headers, and the metadata of the field list.
    pub fn clone_egress(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &mut Packet<E::Frame>,
        session: u32,
        list: Option<u32>,
    ) {
        let found = self.session(core, session).filter(|(replicas, ..)| !replicas.is_empty());
        let Some((replicas, truncate, class)) = found else {
            return core.note(packet.way.thread, || StepKind::NotCloned(session));
        };
        let may = core.may_descend(packet);
        let mut copy = self.descendant(core, packet, Origin::EgressClone(session));
        core.gate.stats.egress_clones += 1;
        if !may {
            return core.drop(copy, DropReason::TooManyDescendants);
        }
        copy.data.set(packet.data.packet());
        self.begin(&mut copy, instance::EGRESS_CLONE);
        let exec = &*self.fixed.exec;
        // Headers stay, wherever they are; other metadata starts with zeros.
        self.fixed.copies.headers.copy(exec, &packet.frame, &mut copy.frame);
        self.fixed.copies.meta_headers.copy(exec, &packet.frame, &mut copy.frame);
        self.preserve(list, &packet.frame, &mut copy.frame);
        copy.way.truncate = truncate;
        core.gate.stats.egress_clones += self.replicate(core, now, copy, &replicas, Some(class));
    }
}
