//! Packets that go through the switch in one go: the executor has made one piece of code of all blocks.
//!
//! The plan holds the steps of `straight.rs` between the blocks. If a packet needs more than that, the pass ends and
//! `straight.rs` continues.

use super::core::{Bench, Core, Lane, Way};
use super::gate::Gate;
use super::passes::{Drive, Runs};
use super::straight::{ENDED, Stage, Went, quiet};
use super::{Arrived, Sink};
use crate::env::{BlockEnv, Effects};
use crate::pipeline::{HEADERS, META, Pipeline, STD};
use crate::state::Access;
use crate::stats::DropReason;
use crate::time::Time;
use pointsman_ir::{
    Coming, Convoy, Executor, Pass, PassExit, PassField, PassStep, PassValue, Passed, Passing,
};

/// Numbers that are given with each packet.
mod given {
    pub const PORT: usize = 0;
    pub const BYTES: usize = 1;
    /// Microseconds, as the program sees them.
    pub const STAMP: usize = 2;
}

/// The points where a pass ends early.
mod exit {
    pub const VERIFIED: u32 = 0;
    pub const INGRESS: u32 = 1;
    pub const EGRESS: u32 = 2;
    pub const COMPUTED: u32 = 3;
    /// Dropped by ingress, or by egress.
    pub const REFUSED: u32 = 4;
    pub const LOST: u32 = 5;
}

/// The steps of an ordinary packet; `None` if a pass cannot do them.
pub(super) fn plan(pipeline: &Pipeline, runs: &Runs, drop_port: u32) -> Option<Pass> {
    let (std, reads) = (&pipeline.std, &pipeline.std_reads);
    // A pass does not know the packet's length in egress.
    if pipeline.egress_reads_length {
        return None;
    }
    let field = |field: u32| PassField { slot: STD, field };
    let exit = |number: u32, frame: bool| PassExit { number, frame };
    let mut steps = Vec::new();
    // Values that are never read need not be set.
    let set = |steps: &mut Vec<PassStep>, to: u32, value: PassValue| {
        if reads.has(to) {
            steps.push(PassStep::Set(field(to), value));
        }
    };
    set(&mut steps, std.ingress_port, PassValue::Given(given::PORT));
    set(&mut steps, std.packet_length, PassValue::Given(given::BYTES));
    set(&mut steps, std.ingress_global_timestamp, PassValue::Given(given::STAMP));
    let error = reads.has(std.parser_error).then(|| field(std.parser_error));
    steps.push(PassStep::Parse(pipeline.blocks.parser, error));
    steps.extend(runs.verify.map(|r| PassStep::Control(r.control)));
    steps.push(PassStep::ExitIfAsked(exit(exit::VERIFIED, true)));
    steps.extend(runs.ingress.map(|r| PassStep::Control(r.control)));
    let ingress = exit(exit::INGRESS, true);
    steps.push(PassStep::ExitIfAsked(ingress));
    let (spec, group) = (field(std.egress_spec), field(std.mcast_grp));
    steps.push(PassStep::ExitIf { field: group, number: 0, equal: false, exit: ingress });
    let drop = u64::from(drop_port);
    let refused = exit(exit::REFUSED, false);
    steps.push(PassStep::ExitIf { field: spec, number: drop, equal: true, exit: refused });
    steps.push(PassStep::Tell(spec));
    for (to, value) in [
        (std.instance_type, PassValue::Const(super::core::instance::NORMAL.into())),
        (std.enq_timestamp, PassValue::Given(given::STAMP)),
        (std.enq_qdepth, PassValue::Const(0)),
        (std.egress_global_timestamp, PassValue::Given(given::STAMP)),
        (std.deq_timedelta, PassValue::Const(0)),
        (std.deq_qdepth, PassValue::Const(0)),
        (std.egress_port, PassValue::Field(spec)),
    ] {
        set(&mut steps, to, value);
    }
    if let Some(egress) = runs.egress {
        steps.push(PassStep::Set(spec, PassValue::Const(drop + 1)));
        steps.push(PassStep::Control(egress.control));
        steps.push(PassStep::ExitIfAsked(exit(exit::EGRESS, true)));
        let lost = exit(exit::LOST, false);
        steps.push(PassStep::ExitIf { field: spec, number: drop, equal: true, exit: lost });
    }
    let computed = exit(exit::COMPUTED, true);
    steps.extend(runs.compute.map(|r| PassStep::Control(r.control)));
    steps.push(PassStep::ExitIfAsked(computed));
    steps.push(PassStep::Emit(runs.deparser?.control, computed));
    // The handles of `fields.rs`.
    let ours = [std.egress_spec, std.mcast_grp, std.priority, std.egress_rid];
    let all = pipeline.program.types.struct_def(pipeline.slots[STD]).map_or(0, |d| d.fields.len() as u32);
    let mut kept = vec![None; 3];
    (kept[HEADERS], kept[META]) = (None, None);
    kept[STD] = Some((0..all).filter(|f| reads.has(*f) || ours.contains(f)).collect());
    Some(Pass { steps, kept })
}

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
    fn passed(&mut self, passed: Passed) -> bool {
        let Train { env, gate, chunk, at, .. } = self;
        let Some(arrived) = chunk.get(*at) else { return false };
        gate.arrives(arrived.port, env.bytes as usize, None);
        if let Some(error) = passed.rejected {
            gate.count_parsed(false, error);
        }
        match passed.exit {
            None => {
                let packet = arrived.buffer.get(passed.start..).unwrap_or(&[]);
                gate.send(passed.told as u32, packet, Some(self.first + *at), self.sink);
                self.passes += ENDED[1].passes;
            }
            Some(exit::REFUSED) => {
                gate.drops(DropReason::Ingress);
                self.passes += ENDED[0].passes;
            }
            Some(exit::LOST) => {
                gate.drops(DropReason::Egress);
                self.passes += ENDED[1].passes;
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
        let env = quiet(&fixed.pipeline, self.state.again(), &mut core.own, Time::ZERO, 0, &[], 0);
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
        let env = quiet(&fixed.pipeline, self.state.again(), own, now, 0, &[], 0);
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
        let Core { own, gate, .. } = core;
        let env = quiet(&fixed.pipeline, self.state.again(), own, now, 0, &[], drop_port);
        let mut train = Train {
            env,
            gate,
            sink: &mut *sink,
            chunk: &mut *chunk,
            first,
            at: 0,
            stamp,
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
        const NOTHING: Went = Went { passes: 0, aside: false };
        let Some(arrived) = chunk.get_mut(at) else { return (at, passes, NOTHING) };
        let went = match (ended, done) {
            (Some(ended), _) => self.on_from(ended, core, now, bench, effects, first + at, arrived, sink),
            (None, false) => self.by_blocks(core, now, bench, first + at, arrived, sink),
            (None, true) => return (at, passes, NOTHING),
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
        number: usize,
        arrived: &mut Arrived<'_>,
        sink: &mut dyn Sink,
    ) -> Went {
        let Bench { frames, emitted, .. } = bench;
        let Some(frame) = frames.first_mut() else { return Went { passes: 0, aside: true } };
        let bytes = arrived.packet().len();
        let payload = passed.consumed_bits.div_ceil(8).min(bytes);
        let way = Way { bytes: bytes as u32, payload, ..Way::START };
        let error = passed.rejected.unwrap_or(0);
        let mut lane = Lane { refused: None, way, accepted: passed.rejected.is_none(), error, effects };
        let stage = match exit {
            exit::VERIFIED => Stage::Verified,
            exit::INGRESS => Stage::Ingress,
            exit::EGRESS => Stage::Egress,
            _ => Stage::Computed,
        };
        let reached = (stage, passed.told as u32);
        self.onward(core, now, (frame, &mut lane, emitted), reached, number, arrived, sink)
    }

    /// For an executor that cannot take this packet through.
    #[cold]
    #[inline(never)]
    fn by_blocks(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        bench: &mut Bench<E::Frame>,
        number: usize,
        arrived: &mut Arrived<'_>,
        sink: &mut dyn Sink,
    ) -> Went {
        self.parse_ahead(core, now, std::slice::from_ref(arrived), bench);
        self.straight(core, now, bench, (0, number), arrived, sink)
    }
}
