//! Several workers on one switch.
//!
//! Workers share the program, its tables and registers, and everything else that the control plane writes. They read it
//! and change registers and meters; the control plane changes it while all workers are idle.
//! So the owner of the threads protects the switch by a lock that workers take for reading, one batch at a time, and
//! the control plane for writing: no packet sees half an update.
//!
//! Each worker has its own queues, packets that are resubmitted or recirculated, counters (also those of entries), digests and random numbers.
//! Packets of one worker stay in order. Registers: see `sections.rs`.

use super::core::Core;
use super::drive::Loaded;
use super::{Arrived, Polled, Sink, Switch};
use crate::guarded::Guarded;
use crate::state::{Digest, Event};
use crate::time::Time;
use crate::trace::Followed;
use pointsman_ir::Executor;
use std::sync::{Arc, MutexGuard};

/// One of several workers of a [`Switch`], for a separate thread. All that it has counted is part of the switch's
/// statistics. Traced packets ([`Switch::set_tracing`]) are those that the switch itself processes.
pub struct Worker<E: Executor> {
    core: Arc<Guarded<Core<E::Frame>>>,
    /// Among the further workers.
    index: usize,
}

impl<E: Executor> Switch<E> {
    /// Makes `count` workers in addition to existing ones, and to the switch itself, which can still process packets.
    pub fn add_workers(&mut self, count: usize) -> Vec<Worker<E>> {
        let first = self.others.len();
        for index in first..first + count {
            let mut core = self.core.another(index as u64 + 1);
            self.loaded.iter().for_each(|l| core.change_program(&l.fixed));
            self.others.push(Arc::new(Guarded::new(core)));
        }
        if let Some(l) = &mut self.loaded {
            l.state.share(self.others.len());
        }
        if first == 0
            && let Some(worker) = self.others.first()
        {
            worker.shared().generators = std::mem::take(&mut self.core.generators);
        }
        let worker = |index: usize| Worker { core: self.others[index].clone(), index };
        (first..first + count).map(worker).collect()
    }
}

impl<E: Executor> Drop for Worker<E> {
    /// Should it have come to grief inside of an `@atomic` block: others must not wait for ever.
    fn drop(&mut self) {
        self.core.shared().own.leave();
    }
}

impl<E: Executor> Worker<E> {
    fn core(&self, switch: &Switch<E>) -> MutexGuard<'_, Core<E::Frame>> {
        let mut core = self.core.shared();
        let cells = switch.loaded.as_ref().and_then(|l| l.state.cells.shards.get(self.index));
        core.own.cells = cells.cloned();
        core
    }

    /// [`Switch::receive`] by this worker.
    pub fn receive(&mut self, switch: &Switch<E>, now: Time, port: u32, packet: &[u8]) {
        let mut core = self.core(switch);
        core.receive(switch.loaded.as_ref().map(|l| &l.fixed), now, port, packet);
    }

    /// [`Switch::poll`] by this worker.
    pub fn poll(&mut self, switch: &Switch<E>, now: Time, budget: usize, sink: &mut dyn Sink) -> Polled {
        let mut core = self.core(switch);
        core.poll(switch.loaded.as_ref().map(Loaded::shared), now, budget, sink)
    }

    /// [`Switch::process`] by this worker.
    pub fn process(
        &mut self,
        switch: &Switch<E>,
        now: Time,
        budget: usize,
        batch: &mut [Arrived<'_>],
        sink: &mut dyn Sink,
    ) -> Polled {
        let mut core = self.core(switch);
        let mut drive = switch.loaded.as_ref().map(Loaded::shared);
        core.process(drive.as_mut(), now, budget, batch, sink)
    }

    /// [`Switch::receive_cpu`] by this worker.
    pub fn receive_cpu(&mut self, switch: &Switch<E>, now: Time, packet: &[u8]) {
        let mut core = self.core(switch);
        core.receive_cpu(switch.loaded.as_ref().map(|l| &l.fixed), now, packet);
    }

    /// [`Switch::take_digests`], those of this worker's packets.
    pub fn take_digests(&mut self, switch: &Switch<E>) -> Vec<Digest> {
        let own = &mut self.core.shared().own;
        switch.loaded.iter().for_each(|l| own.forget(&l.state));
        own.digests.drain(..).collect()
    }

    /// [`Switch::take_events`], those of this worker's packets.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.core.shared().own.events.drain(..).collect()
    }

    /// [`Switch::take_followed`], of this worker's packets.
    pub fn take_followed(&mut self, switch: &Switch<E>) -> Option<Followed> {
        let program = switch.loaded.as_ref().map(|l| &l.fixed.pipeline.program);
        self.core.shared().take_followed(program)
    }

    /// When [`Worker::poll`] next has something to do. `None`: not before the next packet.
    pub fn next_deadline(&self) -> Option<Time> {
        self.core.shared().next_deadline()
    }
}
