//! Packets that go through the switch in one go: the executor has made one piece of code of the steps in `path.rs`.
//!
//! If a packet needs more than that, the pass ends and `straight.rs` continues.

use super::core::{Bench, Core, Lane, Way};
use super::drive::Drive;
use super::gate::Gate;
use super::path::exit;
use super::straight::{ENDED, Place, Went};
use super::{Arrived, Sink};
use crate::env::{BlockEnv, Effects};
use crate::state::Access;
use crate::stats::DropReason;
use crate::time::Time;
use pointsman_ir::{Coming, Convoy, Executor, Passed, Passing};

/// Packets that are looked ahead of.
struct Nearing<'a, 'p> {
    env: BlockEnv<'a>,
    gate: &'a Gate,
    chunk: std::slice::IterMut<'a, Arrived<'p>>,
    stamp: u64,
}

impl Coming for Nearing<'_, '_> {
    #[inline]
    fn next(&mut self) -> Option<Passing<'_>> {
        let Nearing { env, gate, chunk, stamp } = self;
        let arrived = chunk.find(|a| gate.accepts(a.port, a.packet().len()).is_ok())?;
        Some(passing(env, arrived, *stamp))
    }
}

/// Packets that go through.
struct Train<'a, 'p> {
    env: BlockEnv<'a>,
    gate: &'a mut Gate,
    sink: &'a mut dyn Sink,
    chunk: &'a mut [Arrived<'p>],
    /// The number of the first of them in the batch.
    first: usize,
    /// Which of them is next, or on its way.
    at: usize,
    stamp: u64,
    held: u64,
    /// Passes of all of them through ingress or egress.
    passes: usize,
    /// One for which there is more to do, and where it has got to.
    ended: Option<(u32, Passed)>,
}

/// A packet on its way into a pass.
#[inline(always)]
fn passing<'a>(env: &'a mut BlockEnv<'_>, arrived: &'a mut Arrived<'_>, stamp: u64) -> Passing<'a> {
    let bytes = arrived.packet().len();
    env.bytes = bytes as u32;
    let given = [u64::from(arrived.port), bytes as u64, stamp];
    Passing { buffer: arrived.buffer, start: arrived.start, given, env }
}

impl Coming for Train<'_, '_> {
    #[inline(always)]
    fn next(&mut self) -> Option<Passing<'_>> {
        let Train { env, gate, chunk, at, stamp, .. } = self;
        loop {
            let arrived = chunk.get(*at)?;
            let bytes = arrived.packet().len();
            let Err(reason) = gate.accepts(arrived.port, bytes) else { break };
            gate.arrives(arrived.port, bytes, Some(reason));
            gate.drops(reason);
            *at += 1;
        }
        Some(passing(env, chunk.get_mut(*at)?, *stamp))
    }
}

impl Convoy for Train<'_, '_> {
    #[inline(always)]
    fn set(&self) -> u64 {
        self.held
    }

    #[inline(always)]
    fn passed(&mut self, passed: Passed) -> bool {
        let Train { env, gate, chunk, at, .. } = self;
        let Some(arrived) = chunk.get(*at) else { return false };
        gate.arrives(arrived.port, env.bytes as usize, None);
        gate.count_parsed(passed.rejected);
        match passed.exit {
            None => {
                let packet = arrived.buffer.get(passed.start..).unwrap_or(&[]);
                gate.send(passed.told as u32, packet, Some(self.first + *at), self.sink);
                self.passes += ENDED[2].passes;
            }
            Some(exit::REFUSED) => {
                gate.drops(DropReason::Ingress);
                self.passes += ENDED[1].passes;
            }
            Some(exit::LOST) => {
                gate.drops(DropReason::Egress);
                self.passes += ENDED[2].passes;
            }
            Some(exit) => {
                self.ended = Some((exit, passed));
                return false;
            }
        }
        // Nothing was requested, or the packet would have gone out elsewhere.
        debug_assert!(!env.effects.any);
        env.own.atomic.leave();
        *at += 1;
        true
    }
}

impl<E: Executor> Drive<'_, E> {
    /// Whether packets go through in one go. Not where blocks of one packet have to keep out those of others.
    pub fn goes_through(&self) -> bool {
        let fixed = self.fixed;
        let alone = matches!(self.state, Access::Alone(_));
        if !fixed.through || !(alone || fixed.pipeline.sections.count == 0) {
            return false;
        }
        true
    }

    /// Whether looking ahead can gain anything now.
    pub fn foresees(&mut self, core: &mut Core<E::Frame>, bench: &mut Bench<E::Frame>) -> bool {
        let fixed = self.fixed;
        let env = BlockEnv::new(&fixed.pipeline, self.state.again(), &mut core.own, Time::ZERO, 0);
        fixed.exec.foresees_pass(bench.first(fixed), &env)
    }

    /// Prefetches memory for packets that are about to go through.
    pub fn look_ahead(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        bench: &mut Bench<E::Frame>,
        chunk: &mut [Arrived<'_>],
    ) {
        let fixed = self.fixed;
        let (frame, stamp) = (bench.first(fixed), self.stamp(now));
        let Core { own, gate, .. } = core;
        let env = BlockEnv::new(&fixed.pipeline, self.state.again(), own, now, 0);
        fixed.exec.prefetch_pass(frame, &mut Nearing { env, gate, chunk: chunk.iter_mut(), stamp });
    }

    /// Takes packets all the way through, one after the other, as [`Drive::straight`] does; `first`: the number of the
    /// first one in the batch. Returns the number of packets that left, their passes without those of the last one, and
    /// how far the last one got.
    pub fn through(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        bench: &mut Bench<E::Frame>,
        (first, chunk): (usize, &mut [Arrived<'_>]),
        sink: &mut dyn Sink,
    ) -> (usize, usize, Went) {
        let (fixed, stamp) = (self.fixed, self.stamp(now));
        let drop_port = core.config.drop_port;
        let frame = bench.first(fixed);
        let held = core.queues.held();
        let Core { own, gate, .. } = core;
        let env = BlockEnv::new(&fixed.pipeline, self.state.again(), own, now, drop_port);
        let mut train = Train {
            env,
            gate,
            sink: &mut *sink,
            chunk: &mut *chunk,
            first,
            at: 0,
            stamp,
            held,
            passes: 0,
            ended: None,
        };
        let done = fixed.exec.pass(frame, &mut train);
        // Whoever leaves the middle of a block keeps others out until here, which is longer than need be and no harm.
        train.env.own.atomic.leave();
        let Train { at, passes, ended, env, .. } = train;
        let effects = if env.effects.any { env.effects } else { Effects::NONE };
        if at > 0 {
            core.again_next = true;
        }
        let Some(arrived) = chunk.get_mut(at) else { return (at, passes, ENDED[0]) };
        let number = first + at;
        let went = match (ended, done) {
            (Some(ended), _) => self.on_from(ended, core, now, bench, effects, (number, arrived), sink),
            (None, false) => self.by_blocks(core, now, bench, (number, arrived), sink),
            (None, true) => return (at, passes, ENDED[0]),
        };
        core.again_next = true;
        (at + 1, passes, went)
    }

    /// Continues where a pass ended.
    #[cold]
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "a packet's way, and what it meets")]
    fn on_from(
        &mut self,
        (exit, passed): (u32, Passed),
        core: &mut Core<E::Frame>,
        now: Time,
        bench: &mut Bench<E::Frame>,
        effects: Effects,
        (number, arrived): (usize, &mut Arrived<'_>),
        sink: &mut dyn Sink,
    ) -> Went {
        let Bench { frames, emitted, .. } = bench;
        let Some(frame) = frames.first_mut() else { return Went { passes: 0, aside: true } };
        let bytes = arrived.packet().len();
        let payload = passed.consumed_bits.div_ceil(8).min(bytes);
        let (rejected, out) = (passed.rejected, passed.told as u32);
        let way = Way { bytes: bytes as u32, payload, rejected, out, ..Way::START };
        let lane = &mut Lane { refused: None, way, effects };
        let left = (exit != exit::QUEUE).then_some(exit);
        self.onward(core, now, Place { frame, lane, emitted, arrived, number }, left, sink)
    }

    /// For an executor that cannot take this packet through.
    #[cold]
    #[inline(never)]
    fn by_blocks(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        bench: &mut Bench<E::Frame>,
        (number, arrived): (usize, &mut Arrived<'_>),
        sink: &mut dyn Sink,
    ) -> Went {
        self.parse_ahead(core, now, std::slice::from_ref(arrived), bench);
        match bench.place(0, number, arrived) {
            Some(place) => self.straight(core, now, place, sink),
            None => Went { passes: 0, aside: true },
        }
    }
}
