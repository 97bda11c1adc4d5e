//! A switch of a network at work: frames in, frames out.

use crate::packet::Packet;
use pointsman_ir::Executor;
use pointsman_v1model::{Arrived, Sink, Switch, Time, Workspace};
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

/// What the switches of a network take turns with: the memory in which one works, and the frames that have left it.
pub struct Turn<E: Executor> {
    workspace: Workspace<E>,
    outbox: Outbox,
    came_in: Option<Packet>,
}

impl<E: Executor> Default for Turn<E> {
    fn default() -> Self {
        Turn { workspace: Workspace::default(), outbox: Outbox::default(), came_in: None }
    }
}

impl<E: Executor> Turn<E> {
    /// A frame comes in; take what [`leaves`](Turn::leaves) after it.
    pub fn arrive(&mut self, switch: &mut Switch<E>, now: u64, port: u32, mut packet: Packet) {
        let Turn { workspace, outbox, .. } = self;
        outbox.came_in = packet.len();
        workspace.within(switch, |switch| {
            let mut batch = [Arrived { port, buffer: &mut packet, start: 0 }];
            if switch.process(Time(now), BUDGET, &mut batch, outbox).more {
                // The rest comes from the switch's queues: none of it is in this buffer.
                outbox.came_in = usize::MAX;
                while switch.poll(Time(now), BUDGET, outbox).more {}
            }
        });
        self.came_in = Some(packet);
    }

    /// Lets the switch work; take what [`leaves`](Turn::leaves) after it.
    pub fn poll(&mut self, switch: &mut Switch<E>, now: u64) {
        let Turn { workspace, outbox, .. } = self;
        workspace.within(switch, |switch| while switch.poll(Time(now), BUDGET, outbox).more {});
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
