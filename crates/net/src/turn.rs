//! A switch in a network: frames in, frames out.

use crate::packet::Packet;
use pointsman_ir::Executor;
use pointsman_v1model::{Arrived, Sink, Switch, Time};
use std::collections::VecDeque;

/// Passes of the switch in one call; it continues until nothing waits.
const BUDGET: usize = 1 << 12;

/// The frames that left a switch in one call.
#[derive(Default)]
struct Outbox {
    /// The port of the very frame that came in, changed in place, if nothing left before it. Nearly always this is all.
    straight: Option<u32>,
    /// Port and frame of those that left after that; `None`: the frame that came in.
    ports: Vec<(u32, Option<Packet>)>,
    /// How many of these were taken.
    taken: usize,
    cpu: VecDeque<Vec<u8>>,
    /// Bytes of the frame that came in.
    came_in: usize,
    /// Buffers to use again.
    spare: Vec<Packet>,
}

impl Sink for Outbox {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        self.ports.push((port, Some(buffer)));
    }

    fn transmit_buffer(&mut self, port: u32, _: usize, packet: &[u8]) {
        // Frames lie in their buffers without room before them: one that is as long as it was is the whole buffer.
        if packet.len() != self.came_in {
            self.transmit(port, packet);
        } else if self.straight.is_none() && self.ports.is_empty() {
            self.straight = Some(port);
        } else {
            self.ports.push((port, None));
        }
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        self.cpu.push_back(packet.to_vec());
    }
}

/// A switch, with the frames that it has sent and that its caller has not taken.
pub struct Node<E: Executor> {
    /// The switch itself.
    pub switch: Switch<E>,
    outbox: Outbox,
    came_in: Option<Packet>,
}

impl<E: Executor> Node<E> {
    /// Nothing has left it.
    pub fn new(switch: Switch<E>) -> Self {
        Node { switch, outbox: Outbox::default(), came_in: None }
    }

    /// A frame comes in; take what [`leaves`](Node::leaves) after it.
    pub fn arrive(&mut self, now: u64, port: u32, mut packet: Packet) {
        self.outbox.came_in = packet.len();
        let mut batch = [Arrived { port, buffer: &mut packet, start: 0 }];
        let polled = self.switch.process(Time(now), BUDGET, &mut batch, &mut self.outbox);
        if polled.more {
            // The rest comes from the switch's queues: none of it is in this buffer.
            self.outbox.came_in = usize::MAX;
            while self.switch.poll(Time(now), BUDGET, &mut self.outbox).more {}
        }
        self.came_in = Some(packet);
    }

    /// Lets the switch work; take what [`leaves`](Node::leaves) after it.
    pub fn poll(&mut self, now: u64) {
        while self.switch.poll(Time(now), BUDGET, &mut self.outbox).more {}
    }

    /// The next frame that has left on a port.
    #[inline]
    pub fn leaves(&mut self) -> Option<(u32, Packet)> {
        if let Some(port) = self.outbox.straight.take()
            && let Some(packet) = self.came_in.take()
        {
            return Some((port, packet));
        }
        while let Some((port, packet)) = self.outbox.ports.get_mut(self.outbox.taken) {
            self.outbox.taken += 1;
            if let Some(packet) = packet.take().or_else(|| self.came_in.take()) {
                return Some((*port, packet));
            }
        }
        self.outbox.ports.clear();
        self.outbox.taken = 0;
        None
    }

    /// The next frame for the control plane.
    pub fn take_for_cpu(&mut self) -> Option<Vec<u8>> {
        self.outbox.cpu.pop_front()
    }

    /// The buffer of the frame that came in, if it did not leave.
    pub fn unused(&mut self) -> Option<Packet> {
        self.came_in.take()
    }

    /// Gives it buffers for frames that the switch makes.
    pub fn supply(&mut self, buffers: &mut Vec<Packet>) {
        while self.outbox.spare.len() < 4
            && let Some(buffer) = buffers.pop()
        {
            self.outbox.spare.push(buffer);
        }
    }
}
