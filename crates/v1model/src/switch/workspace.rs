//! Working memory that several switches use in turn.

use super::Switch;
use super::core::{Bench, Boxed};
use pointsman_ir::Executor;
use std::sync::Arc;

/// Memory in which switches with the same program process packets, one switch at a time: what one of them used last is still in the
/// processor's caches when the next one needs it. Switches with another program than the first one use memory of their own.
pub struct Workspace<E: Executor> {
    /// What the frames are laid out for.
    exec: Option<Arc<E>>,
    pool: Vec<Boxed<E::Frame>>,
    bench: Option<Box<Bench<E::Frame>>>,
}

impl<E: Executor> Default for Workspace<E> {
    fn default() -> Self {
        Workspace { exec: None, pool: Vec::new(), bench: None }
    }
}

impl<E: Executor> Workspace<E> {
    /// Lets a switch work in this memory.
    pub fn within<R>(&mut self, switch: &mut Switch<E>, work: impl FnOnce(&mut Switch<E>) -> R) -> R {
        if !self.suits(switch) {
            return work(switch);
        }
        self.exchange(switch);
        let result = work(switch);
        self.exchange(switch);
        result
    }

    fn suits(&mut self, switch: &Switch<E>) -> bool {
        let Some(loaded) = &switch.loaded else { return false };
        let exec = &loaded.fixed.exec;
        Arc::ptr_eq(self.exec.get_or_insert_with(|| exec.clone()), exec)
    }

    fn exchange(&mut self, switch: &mut Switch<E>) {
        std::mem::swap(&mut self.pool, &mut switch.core.pool);
        std::mem::swap(&mut self.bench, &mut switch.core.bench);
    }
}

#[cfg(test)]
mod tests {
    use super::Workspace;
    use crate::fake::{Fake, Rig, Script};
    use crate::{Keep, QueueConfig, SwitchConfig, Time};
    use std::rc::Rc;

    /// A switch whose program marks packets, and whose queues hold each for a millisecond.
    fn rig(mark: u64) -> Rig {
        let egress = Rc::new(move |b: &mut crate::fake::Block<'_>| b.set_h(0, mark));
        let mut rig = Rig::new(SwitchConfig::default(), Script { egress, ..Script::default() });
        let queue = QueueConfig { delay_ns: 1_000_000, ..QueueConfig::default() };
        rig.switch.configure_queue(0, None, queue).unwrap();
        rig
    }

    fn step(memory: &mut Workspace<Fake>, rig: &mut Rig, us: u64, packet: Option<&[u8]>) {
        let Rig { switch, out } = rig;
        memory.within(switch, |switch| {
            packet.into_iter().for_each(|p| switch.receive(Time::from_micros(us), 1, p));
            while switch.poll(Time::from_micros(us), 1, out).more {}
        });
    }

    #[test]
    fn switches_with_one_program_share_and_others_do_not() {
        let (mut a, mut b) = (rig(0xaa), rig(0xaa));
        let prepared = a.switch.preparer().prepare(a.switch.pipeline().unwrap().clone()).unwrap();
        for rig in [&mut a, &mut b] {
            rig.switch.set_prepared(Time::ZERO, prepared.clone(), Keep::Nothing).unwrap();
        }
        let (mut other, mut memory) = (rig(0xcc), Workspace::default());
        step(&mut memory, &mut a, 0, Some(&[1, 2]));
        step(&mut memory, &mut other, 10, Some(&[3, 4]));
        step(&mut memory, &mut b, 20, Some(&[5, 6]));
        // In the memory of packets that left one switch others come into the next.
        step(&mut memory, &mut a, 1_000, None);
        step(&mut memory, &mut b, 1_010, Some(&[7, 8]));
        step(&mut memory, &mut other, 1_010, None);
        step(&mut memory, &mut b, 1_020, None);
        step(&mut memory, &mut b, 2_010, None);
        assert_eq!([a.outputs(), b.outputs(), other.outputs()], ["0:aa02", "0:aa06 0:aa08", "0:cc04"]);
        let pools = [&a, &b, &other].map(|rig| rig.switch.core.pool.len());
        assert_eq!((pools, memory.pool.len()), ([0, 0, 1], 2));
    }
}
