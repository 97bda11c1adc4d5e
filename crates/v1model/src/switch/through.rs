//! Packets that go through the switch in one go: the executor has made one piece of code of all blocks.
//!
//! The plan says what `straight.rs` does between the blocks. Where there is more to do than that, the pass ends and
//! `straight.rs` goes on.

use super::core::{Bench, Core, Lane, Way};
use super::passes::{Drive, Runs};
use super::straight::{ENDED, Stage, Went, quiet};
use super::{Arrived, Sink};
use crate::env::Effects;
use crate::pipeline::{HEADERS, META, Pipeline, STD};
use crate::state::Access;
use crate::stats::DropReason;
use crate::time::Time;
use pointsman_ir::{Executor, Pass, PassExit, PassField, PassStep, PassValue, Passed};

/// Numbers that are given with each packet.
mod given {
    pub const PORT: usize = 0;
    pub const BYTES: usize = 1;
    /// Microseconds, as the program sees them.
    pub const STAMP: usize = 2;
}

/// Where a pass ends before its time.
mod exit {
    pub const VERIFIED: u32 = 0;
    pub const INGRESS: u32 = 1;
    pub const EGRESS: u32 = 2;
    pub const COMPUTED: u32 = 3;
    /// Dropped by ingress, or by egress.
    pub const REFUSED: u32 = 4;
    pub const LOST: u32 = 5;
}

/// What happens to a packet that is nothing special; `None`: more than a pass can do.
pub(super) fn plan(pipeline: &Pipeline, runs: &Runs, drop_port: u32) -> Option<Pass> {
    let (std, reads) = (&pipeline.std, &pipeline.std_reads);
    // How long the packet is in egress is not known to a pass.
    if pipeline.egress_reads_length {
        return None;
    }
    let field = |field: u32| PassField { slot: STD, field };
    let exit = |number: u32, frame: bool| PassExit { number, frame };
    let mut steps = Vec::new();
    // What nobody reads need not be set.
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

impl<E: Executor> Drive<'_, E> {
    /// Do packets go through in one go? Not where blocks of one packet have to keep out those of others.
    pub fn goes_through(&self) -> bool {
        let fixed = self.fixed;
        let alone = matches!(self.state, Access::Alone(_));
        if !fixed.through || !(alone || fixed.pipeline.sections.count == 0) {
            return false;
        }
        true
    }

    /// Is there anything to gain by looking ahead now?
    pub fn foresees(&mut self, core: &mut Core<E::Frame>) -> bool {
        let fixed = self.fixed;
        let env = quiet(&fixed.pipeline, self.state.again(), &mut core.own, Time::ZERO, 0, &[], 0);
        fixed.exec.foresees_pass(&env)
    }

    /// Packets are about to go through: what they will look at may be fetched meanwhile.
    pub fn look_ahead(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        bench: &mut Bench<E::Frame>,
        chunk: &[Arrived<'_>],
    ) {
        let fixed = self.fixed;
        if bench.frames.is_empty() {
            bench.frames.push(fixed.exec.new_frame());
            bench.lanes.push(Lane::NONE);
        }
        let (Some(frame), stamp) = (bench.frames.first_mut(), self.stamp(now)) else { return };
        for arrived in chunk {
            let packet = arrived.packet();
            if core.accepts(arrived.port, packet.len()).is_ok() {
                let given = [u64::from(arrived.port), packet.len() as u64, stamp];
                let bytes = packet.len() as u32;
                let mut env = quiet(&fixed.pipeline, self.state.again(), &mut core.own, now, bytes, &[], 0);
                fixed.exec.prefetch_pass(frame, packet, &given, &mut env);
            }
        }
    }

    /// Takes a packet all the way through, as [`Drive::straight`] does. `number`: in the batch.
    #[inline]
    pub fn through(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        bench: &mut Bench<E::Frame>,
        number: usize,
        arrived: &mut Arrived<'_>,
        sink: &mut dyn Sink,
    ) -> Went {
        let fixed = self.fixed;
        let bytes = arrived.packet().len();
        if let Err(reason) = core.accepts(arrived.port, bytes) {
            core.arrives(arrived.port, bytes, Some(reason));
            core.refuse(0, reason);
            return Went { passes: 0, aside: false };
        }
        if bench.frames.is_empty() {
            bench.frames.push(fixed.exec.new_frame());
            bench.lanes.push(Lane::NONE);
        }
        let given = [u64::from(arrived.port), bytes as u64, self.stamp(now)];
        let drop_port = core.config.drop_port;
        let mut env =
            quiet(&fixed.pipeline, self.state.again(), &mut core.own, now, bytes as u32, &[], drop_port);
        let passed = match bench.frames.first_mut() {
            Some(frame) => fixed.exec.pass(frame, arrived.buffer, arrived.start, &given, &mut env),
            None => None,
        };
        // Whoever leaves the middle of a block keeps others out until here, which is longer than need be and no harm.
        env.own.atomic.leave();
        let effects = if env.effects.any { env.effects } else { Effects::NONE };
        let Some(passed) = passed else { return self.by_blocks(core, now, bench, number, arrived, sink) };
        core.arrives(arrived.port, bytes, None);
        core.count_parsed(passed.rejected.is_none(), passed.rejected.unwrap_or(0));
        core.again_next = true;
        match passed.exit {
            None => {
                let packet = arrived.buffer.get(passed.start..).unwrap_or(&[]);
                core.send_bytes(passed.told as u32, 0, packet, Some(number), sink);
                ENDED[1]
            }
            Some(exit::REFUSED) => {
                core.refuse(0, DropReason::Ingress);
                ENDED[0]
            }
            Some(exit::LOST) => {
                core.refuse(0, DropReason::Egress);
                ENDED[1]
            }
            Some(exit) => self.on_from((exit, passed), core, now, bench, effects, number, arrived, sink),
        }
    }

    /// Goes on where a pass ended.
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
