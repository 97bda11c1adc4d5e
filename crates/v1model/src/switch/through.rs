//! Packets that go through the switch in one go: the executor has made one piece of code of the steps in `path.rs`, or one for
//! each side of the traffic manager.
//!
//! If a packet needs more than that, the pass ends and `straight.rs` continues.

use super::core::{Bench, Boxed, Core, Lane, Packet, Way};
use super::drive::Drive;
use super::gate::Gate;
use super::passes::Stop;
use super::path::{Given, exit, given, pass};
use super::straight::{ENDED, Place, Went};
use super::{Arrived, Sink};
use crate::env::{BlockEnv, Effects};
use crate::queue::Queues;
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
        Some(passing(pass::WHOLE, env, arrived, *stamp))
    }
}

/// Packets that go through.
struct Train<'a, 'p, F> {
    env: BlockEnv<'a>,
    gate: &'a mut Gate,
    queues: &'a mut Queues<Boxed<F>>,
    sink: &'a mut dyn Sink,
    chunk: &'a mut [Arrived<'p>],
    /// The number of the first of them in the batch.
    first: usize,
    /// Which of them is next, or on its way.
    at: usize,
    now: Time,
    stamp: u64,
    /// The first pass of each packet: to the end, or to the traffic manager.
    pass: usize,
    /// How far it took the packet that has passed the traffic manager and is on the rest of its way.
    halfway: Option<Passed>,
    /// Passes of all of them through ingress or egress.
    passes: usize,
    /// One for which there is more to do, and where it has got to.
    ended: Option<(u32, Passed)>,
}

/// A packet on its way into its first pass.
#[inline(always)]
fn passing<'a>(
    pass: usize,
    env: &'a mut BlockEnv<'_>,
    arrived: &'a mut Arrived<'_>,
    stamp: u64,
) -> Passing<'a> {
    let bytes = arrived.packet().len();
    env.bytes = bytes as u32;
    let mut given = [0; _];
    (given[given::PORT], given[given::BYTES], given[given::STAMP]) =
        (arrived.port.into(), bytes as u64, stamp);
    Passing { pass, buffer: arrived.buffer, start: arrived.start, given, env }
}

/// What belongs to a packet that has waited in an empty queue for no time.
pub(super) fn unhindered(stamp: u64, out: u32) -> Given {
    let mut given = [0; _];
    (given[given::ENQUEUED], given[given::DEQUEUED], given[given::OUT]) = (stamp, stamp, out.into());
    given
}

impl<F> Coming for Train<'_, '_, F> {
    #[inline(always)]
    fn next(&mut self) -> Option<Passing<'_>> {
        let Train { env, gate, chunk, at, stamp, pass, halfway, .. } = self;
        if let Some(first) = halfway {
            let arrived = chunk.get_mut(*at)?;
            let given = unhindered(*stamp, first.told as u32);
            let start = arrived.start + payload_at(first, arrived);
            return Some(Passing { pass: pass::SECOND, buffer: arrived.buffer, start, given, env });
        }
        loop {
            let arrived = chunk.get(*at)?;
            let bytes = arrived.packet().len();
            let Err(reason) = gate.accepts(arrived.port, bytes) else { break };
            gate.arrives(arrived.port, bytes, Some(reason));
            gate.drops(reason);
            *at += 1;
        }
        Some(passing(*pass, env, chunk.get_mut(*at)?, *stamp))
    }
}

/// Where in a packet its payload begins, as far as the parser is concerned.
#[inline]
fn payload_at(passed: &Passed, arrived: &Arrived<'_>) -> usize {
    passed.consumed_bits.div_ceil(8).min(arrived.packet().len())
}

impl<F> Convoy for Train<'_, '_, F> {
    #[inline(always)]
    fn passed(&mut self, passed: Passed) -> bool {
        let Train { env, gate, chunk, at, queues, .. } = self;
        let Some(arrived) = chunk.get(*at) else { return false };
        let passed = match self.halfway.take() {
            Some(first) => Passed { exit: passed.exit, start: passed.start, ..first },
            None => {
                gate.arrives(arrived.port, env.bytes as usize, None);
                gate.count_parsed(passed.rejected);
                if passed.exit.is_none() && self.pass == pass::FIRST {
                    env.own.leave();
                    let open = queues.opens(self.now, passed.told as u32);
                    match open {
                        true => self.halfway = Some(passed),
                        false => self.ended = Some((exit::QUEUE, passed)),
                    }
                    return open;
                }
                passed
            }
        };
        match passed.exit {
            None => {
                let (port, packet) = (passed.told as u32, arrived.buffer.get(passed.start..).unwrap_or(&[]));
                queues.sent(port, packet.len());
                gate.send(port, packet, Some(self.first + *at), self.sink);
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
        env.own.leave();
        *at += 1;
        true
    }
}

/// A packet on one half of its way.
struct Single<'a, 'p> {
    pass: usize,
    env: BlockEnv<'a>,
    rest: Option<(&'p mut [u8], usize)>,
    given: Given,
    passed: Option<Passed>,
}

impl Coming for Single<'_, '_> {
    #[inline]
    fn next(&mut self) -> Option<Passing<'_>> {
        let (buffer, start) = self.rest.take()?;
        Some(Passing { pass: self.pass, buffer, start, given: self.given, env: &mut self.env })
    }
}

impl Convoy for Single<'_, '_> {
    #[inline]
    fn passed(&mut self, passed: Passed) -> bool {
        self.passed = Some(passed);
        false
    }
}

/// How the second half of a packet's way ended.
pub(super) struct Resumed {
    pub exit: Option<u32>,
    /// Without an exit: where in the buffer the packet now begins.
    pub start: usize,
    /// Requests that have not been acted on.
    pub effects: Effects,
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
        // The traffic manager is asked between the halves of the way, if it may hold packets up.
        let pass = if core.queues.may_hold() { pass::FIRST } else { pass::WHOLE };
        let Core { own, gate, queues, .. } = core;
        let env = BlockEnv::new(&fixed.pipeline, self.state.again(), own, now, drop_port);
        let mut train = Train {
            env,
            gate,
            queues,
            sink: &mut *sink,
            chunk: &mut *chunk,
            first,
            at: 0,
            now,
            stamp,
            pass,
            halfway: None,
            passes: 0,
            ended: None,
        };
        let done = fixed.exec.pass(frame, &mut train);
        // Whoever leaves the middle of a block keeps others out until here, which is longer than need be and no harm.
        train.env.own.leave();
        let Train { at, passes, ended, env, halfway, .. } = train;
        // There is no code for the second half.
        let ended = ended.or(halfway.map(|passed| (exit::QUEUE, passed)));
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
        let payload = payload_at(&passed, arrived);
        let (rejected, out) = (passed.rejected, passed.told as u32);
        let way = Way { bytes: bytes as u32, payload, rejected, out, ..Way::START };
        let lane = &mut Lane { refused: None, way, effects };
        let left = (exit != exit::QUEUE).then_some(exit);
        self.onward(core, now, Place { frame, lane, emitted, arrived, number }, left, sink)
    }

    /// Takes a packet that is in its frame from the traffic manager to the end in one go. Behind `payload_at` in the buffer is what
    /// the parser has left of it. `None`: nothing was done, and the packet has to go step by step.
    #[inline]
    pub fn resume(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        (frame, way): (&mut E::Frame, &Way),
        (buffer, payload_at): (&mut [u8], usize),
        given: &Given,
    ) -> Option<Resumed> {
        if way.thread != 0 {
            return None;
        }
        let rest = (buffer, payload_at);
        let (passed, effects) = self.single(core, now, pass::SECOND, (frame, way.bytes), rest, given)?;
        Some(Resumed { exit: passed.exit, start: passed.start, effects })
    }

    /// Takes a packet that is behind egress to the end in one go, as [`Drive::resume`] does.
    pub fn finish(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &mut Packet<E::Frame>,
    ) -> Option<Resumed> {
        let Packet { frame, data, way, .. } = packet;
        if way.thread != 0 {
            return None;
        }
        let (buffer, start) = data.whole();
        let rest = (buffer, start + way.payload);
        let (passed, effects) = self.single(core, now, pass::REST, (frame, way.bytes), rest, &[0; _])?;
        Some(Resumed { exit: passed.exit, start: passed.start, effects })
    }

    /// Takes a packet whose metadata is in its frame to the traffic manager in one go. `None`: nothing was done, and the packet has to go
    /// step by step.
    pub fn again(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        packet: &mut Packet<E::Frame>,
    ) -> Option<Stop> {
        let Packet { frame, data, way, .. } = packet;
        if way.thread != 0 {
            return None;
        }
        let bytes = data.len();
        let (passed, effects) =
            self.single(core, now, pass::AGAIN, (frame, way.bytes), data.whole(), &[0; _])?;
        way.payload = passed.consumed_bits.div_ceil(8).min(bytes);
        (way.rejected, way.out) = (passed.rejected, passed.told as u32);
        core.gate.count_parsed(way.rejected);
        Some(Stop { exit: passed.exit, effects })
    }

    /// Takes one packet through a pass.
    #[inline]
    fn single(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        pass: usize,
        (frame, bytes): (&mut E::Frame, u32),
        rest: (&mut [u8], usize),
        given: &Given,
    ) -> Option<(Passed, Effects)> {
        let fixed = self.fixed;
        if !self.goes_through() {
            return None;
        }
        let quiet =
            BlockEnv::new(&fixed.pipeline, self.state.again(), &mut core.own, now, core.config.drop_port);
        let env = BlockEnv { bytes, ..quiet };
        let mut single = Single { pass, env, rest: Some(rest), given: *given, passed: None };
        let done = fixed.exec.pass(frame, &mut single);
        single.env.own.leave();
        let asked = single.env.effects;
        let effects = if asked.any { asked } else { Effects::NONE };
        Some((single.passed.filter(|_| done)?, effects))
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
