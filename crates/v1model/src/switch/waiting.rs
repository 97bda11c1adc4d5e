//! Packets that wait in queues, as values.

use super::Switch;
use super::core::Way;
use crate::coded::{Coded, Malformed, Reader};
use crate::pipeline::ALL_SLOTS;
use crate::state::{RestoreError, at_distance, distance};
use crate::time::Time;
use pointsman_ir::{Executor, Value};

/// A packet in a queue of a switch ([`Switch::take_waiting`]). Times are nanoseconds from the moment at which it was taken out;
/// those in the past are negative.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitingPacket {
    /// When its queue lets it go.
    pub ready_ns: i64,
    /// The port of the queue.
    pub port: u32,
    /// The priority of the queue.
    pub priority: u8,
    /// When it came into the queue.
    pub enqueued_ns: i64,
    /// When the packet that it descends from was received.
    pub received_ns: i64,
    /// Bytes, headers and metadata. Timestamps that the program saw are in it as it saw them.
    content: Vec<u8>,
}

/// What [`WaitingPacket::content`] is made of.
type Content = (((u32, u32), (u32, u64, u64)), ((Option<u32>, Option<u32>, u32), (Vec<u8>, Vec<Value>)));

impl WaitingPacket {
    fn content(&self) -> Result<Content, RestoreError> {
        let mut from = Reader::new(&self.content);
        let content = Content::take(&mut from).and_then(|content| match from.left() {
            0 => Ok(content),
            _ => Err(Malformed::Unknown("bytes at the end")),
        });
        content.map_err(|why| RestoreError::Malformed { part: "packets", why })
    }
}

impl<E: Executor> Switch<E> {
    /// Takes the packets out of the queues, in the order in which these let them go. Packets that wait for ingress stay, and so do
    /// those in queues of further workers. They are counted as consumed.
    pub fn take_waiting(&mut self, now: Time) -> Vec<WaitingPacket> {
        let Some(loaded) = &self.loaded else { return Vec::new() };
        let exec = &*loaded.fixed.exec;
        let mut all = Vec::new();
        for (priority, waiting) in self.core.queues.drain() {
            let packet = waiting.packet;
            let Way { bytes, payload, parsed_bits, truncate, rejected, out, thread: _ } = packet.way;
            let values: Vec<Value> = ALL_SLOTS.iter().map(|slot| exec.value(&packet.frame, *slot)).collect();
            let mut content = Vec::new();
            (packet.ingress_port, packet.enqueued_behind).put(&mut content);
            (bytes, payload as u64, parsed_bits).put(&mut content);
            (truncate, rejected, out).put(&mut content);
            (packet.data.packet().to_vec(), values).put(&mut content);
            all.push(WaitingPacket {
                ready_ns: distance(now, waiting.ready),
                port: waiting.port,
                priority,
                enqueued_ns: distance(now, packet.enqueued),
                received_ns: distance(now, packet.received),
                content,
            });
            self.core.recycle(packet);
            self.core.gate.stats.consumed += 1;
        }
        all
    }

    /// Puts a packet into a queue, whatever its limits. It comes from [`Switch::take_waiting`] of a switch with the same program, and is
    /// counted as generated.
    ///
    /// # Errors
    /// Its times are before the switch's time began.
    pub fn put_waiting(&mut self, now: Time, packet: &WaitingPacket) -> Result<(), RestoreError> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let ready = at_distance(now, packet.ready_ns)?;
        let enqueued = at_distance(now, packet.enqueued_ns)?;
        let received = at_distance(now, packet.received_ns)?;
        let (
            ((ingress_port, behind), (bytes, payload, parsed_bits)),
            ((truncate, rejected, out), (data, values)),
        ) = packet.content()?;
        let mut new = loaded.fixed.packet(&mut self.core);
        for (slot, value) in ALL_SLOTS.iter().zip(values) {
            loaded.fixed.exec.set_value(&mut new.frame, *slot, value);
        }
        new.fresh = false;
        (new.ingress_port, new.received, new.enqueued, new.enqueued_behind) =
            (ingress_port, received, enqueued, behind);
        new.way = Way { bytes, payload: payload as usize, parsed_bits, truncate, rejected, out, thread: 0 };
        let length = data.len() as u32;
        new.data.set(&data);
        self.core.queues.put(ready, packet.port, packet.priority, length, new);
        self.core.gate.stats.generated += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::{Rig, Script};
    use crate::{CloneSession, QueueConfig, Replica, SwitchConfig, Time, WaitingPacket};
    use std::rc::Rc;

    const START_US: u64 = 100;

    /// Packets to port 0 are cloned to port 6, whose queue delays them by a millisecond; there egress shows how long they waited, and
    /// marks them with a header.
    fn rig() -> Rig {
        let egress = Rc::new(|b: &mut crate::fake::Block<'_>| {
            if b.std("egress_port") == 0 {
                b.set_h(0, 0xee);
                b.clone_to(1);
            } else {
                let waited = b.std("deq_timedelta");
                b.set_h(1, waited / 10);
            }
        });
        let config = SwitchConfig { ports: Some((0..10).collect()), ..SwitchConfig::default() };
        let mut rig = Rig::new(config, Script { egress, ..Script::default() });
        let replicas = vec![Replica { port: 6, instance: 0 }];
        let session = CloneSession { replicas, ..CloneSession::default() };
        rig.switch.state_mut().unwrap().replication.insert_session(1, session).unwrap();
        let queue = QueueConfig { delay_ns: 1_000_000, ..QueueConfig::default() };
        rig.switch.configure_queue(6, None, queue).unwrap();
        rig
    }

    #[test]
    fn waiting_packets_continue_in_another_switch_and_time() {
        let mut first = rig();
        for packet in [[10, 11, 12], [20, 21, 22]] {
            first.receive(START_US, 1, &packet);
        }
        first.run(START_US + 300);
        assert_eq!(first.outputs(), "0:ee0b0c 0:ee1516");
        let now = Time::from_micros(START_US + 300);
        let waiting = first.switch.take_waiting(now);
        let times: Vec<(i64, i64, i64)> =
            waiting.iter().map(|w| (w.ready_ns, w.enqueued_ns, w.received_ns)).collect();
        assert_eq!(times, [(700_000, -300_000, -300_000); 2]);
        assert_eq!(first.switch.next_poll(), None, "none is left");
        // 50 ms later, elsewhere.
        let mut second = rig();
        let later = Time::from_micros(50_000);
        for packet in &waiting {
            second.switch.put_waiting(later, packet).unwrap();
        }
        assert_eq!(second.switch.take_waiting(later), waiting);
        for packet in &waiting {
            second.switch.put_waiting(later, packet).unwrap();
        }
        second.run(50_699);
        assert_eq!(second.outputs(), "");
        second.run(50_700);
        assert_eq!(second.outputs(), "6:ee640c 6:ee6416");
        // Before the switch's time began.
        let early = WaitingPacket { received_ns: -1_000_000, ..waiting[0].clone() };
        assert!(second.switch.put_waiting(Time::from_micros(10), &early).is_err());
    }
}
