//! A packet's way through the switch, described once.
//!
//! [`steps`] lists the blocks in their order, the metadata that is set in between, and the points where a packet may leave the
//! ordinary way. An executor may compile this list (`through.rs`). [`Drive::walk`] takes the same steps one by one: for packets in
//! the buffers in which they were received (`straight.rs`), and for packets with memory of their own (`passes.rs`).

use super::core::{Core, Way, instance};
use super::drive::{Drive, Run, Runs};
use crate::env::{BlockEnv, Effects};
use crate::pipeline::{ALL_SLOTS, CHECKSUM_SLOTS, DEPARSER_SLOTS, HEADERS, META, Pipeline, STD};
use crate::state::Access;
use crate::time::Time;
use crate::trace::{Block, StepKind};
use pointsman_ir::pass::GIVEN;
use pointsman_ir::{ControlId, Executor, LoadError, Pass, PassExit, PassField, PassStep, PassValue};
use std::ops::Range;

/// Numbers that belong to a packet on one half of its way, and go into its metadata.
pub(super) mod given {
    /// Those before the traffic manager.
    pub const PORT: usize = 0;
    pub const BYTES: usize = 1;
    /// As the program sees it, as all points in time here.
    pub const STAMP: usize = 2;
    /// Those behind it. When the packet was enqueued.
    pub const ENQUEUED: usize = 0;
    pub const ENQ_DEPTH: usize = 1;
    pub const DEQUEUED: usize = 2;
    pub const WAITED: usize = 3;
    pub const DEQ_DEPTH: usize = 4;
    pub const OUT: usize = 5;
    /// The packet's length with the headers as they are now, which only the walk from step to step has.
    pub const LENGTH: usize = 6;
}

/// Numbers by [`given`].
pub(super) type Given = [u64; GIVEN];

/// The points where a packet may leave the ordinary way.
pub(super) mod exit {
    /// Something was requested in the parser, or while checksums were verified.
    pub const VERIFIED: u32 = 0;
    /// Something was requested up to the end of ingress, or the packet goes to a multicast group.
    pub const INGRESS: u32 = 1;
    /// Dropped by ingress.
    pub const REFUSED: u32 = 2;
    /// Through ingress, at the traffic manager: the end of [`pass::FIRST`](super::pass::FIRST).
    pub const QUEUE: u32 = 3;
    /// Something was requested in egress.
    pub const EGRESS: u32 = 4;
    /// Dropped by egress.
    pub const LOST: u32 = 5;
    /// Something was requested while checksums were computed, or a compiled pass cannot run the deparser.
    pub const COMPUTED: u32 = 6;
}

/// The passes that an executor may compile, by their numbers.
pub(super) mod pass {
    /// The whole way of a packet that does not wait.
    pub const WHOLE: usize = 0;
    /// The way to the traffic manager.
    pub const FIRST: usize = 1;
    /// The way from there on.
    pub const SECOND: usize = 2;
    /// The way to the traffic manager, with metadata that is in the frame.
    pub const AGAIN: usize = 3;
    /// The way from behind egress on.
    pub const REST: usize = 4;
}

/// What a frame holds after an exit.
mod kept {
    use crate::pipeline::{META, Pipeline, STD};
    use pointsman_ir::KeptFields;

    /// Everything that any block may read.
    pub const EARLY: usize = 0;
    /// Everything that the blocks behind the traffic manager may read, and copies of the packet. Each field that an exit keeps
    /// costs all packets something up to there.
    pub const LATE: usize = 1;

    /// The fields, by the numbers above.
    pub fn fields(pipeline: &Pipeline) -> Vec<KeptFields> {
        let (std, late) = (&pipeline.std, &pipeline.late_reads);
        // The handles of `fields.rs`.
        let ours = [std.egress_spec, std.mcast_grp, std.priority, std.egress_rid];
        let of_slot = |slot: usize, keeps: &dyn Fn(&u32) -> bool| {
            let fields = pipeline.program.types.struct_def(pipeline.slots[slot])?.fields.len() as u32;
            Some((0..fields).filter(keeps).collect())
        };
        let mut early = vec![None; 3];
        early[STD] = of_slot(STD, &|f| pipeline.std_reads.has(*f) || ours.contains(f));
        let mut later = early.clone();
        later[META] = of_slot(META, &|f| late.has(*f));
        vec![early, later]
    }
}

/// The steps of an ordinary packet, and the number of the first one behind the traffic manager.
fn steps(pipeline: &Pipeline, runs: &Runs, drop_port: u32) -> (Vec<PassStep>, usize) {
    let (std, reads) = (&pipeline.std, &pipeline.std_reads);
    let field = |field: u32| PassField { slot: STD, field };
    let exit = |number: u32, kept: usize| PassExit { number, frame: Some(kept) };
    // Values that are never read need not be set.
    let set = |to: u32, value: PassValue| reads.has(to).then(|| PassStep::Set(field(to), value));
    let control = |run: &Run| PassStep::Control(run.control);
    let (spec, group, drop) = (field(std.egress_spec), field(std.mcast_grp), u64::from(drop_port));
    let dropped = |number: u32| {
        let exit = PassExit { number, frame: None };
        PassStep::ExitIf { field: spec, number: drop, equal: true, exit }
    };
    let mut steps = Vec::new();
    steps.extend(set(std.ingress_port, PassValue::Given(given::PORT)));
    steps.extend(set(std.packet_length, PassValue::Given(given::BYTES)));
    steps.extend(set(std.ingress_global_timestamp, PassValue::Given(given::STAMP)));
    let error = reads.has(std.parser_error).then(|| field(std.parser_error));
    steps.push(PassStep::Parse(pipeline.blocks.parser, error));
    steps.extend(runs.verify.as_ref().map(control));
    steps.push(PassStep::ExitIfAsked(exit(exit::VERIFIED, kept::EARLY)));
    steps.extend(runs.ingress.as_ref().map(control));
    let ingress = exit(exit::INGRESS, kept::EARLY);
    steps.push(PassStep::ExitIfAsked(ingress));
    steps.push(PassStep::ExitIf { field: group, number: 0, equal: false, exit: ingress });
    steps.push(dropped(exit::REFUSED));
    steps.push(PassStep::Tell(spec));
    // Also for packets that were resubmitted or recirculated: this is what BMv2 does.
    steps.extend(set(std.instance_type, PassValue::Const(instance::NORMAL.into())));
    let queue = steps.len();
    for (to, number) in [
        (std.enq_timestamp, given::ENQUEUED),
        (std.enq_qdepth, given::ENQ_DEPTH),
        (std.egress_global_timestamp, given::DEQUEUED),
        (std.deq_timedelta, given::WAITED),
        (std.deq_qdepth, given::DEQ_DEPTH),
        (std.egress_port, given::OUT),
    ] {
        steps.extend(set(to, PassValue::Given(number)));
    }
    if pipeline.egress_reads_length {
        steps.extend(set(std.packet_length, PassValue::Given(given::LENGTH)));
    }
    if let Some(egress) = &runs.egress {
        // Anything but the drop port: a program that does not touch it does not drop.
        steps.push(PassStep::Set(spec, PassValue::Const(drop + 1)));
        steps.push(control(egress));
        steps.push(PassStep::ExitIfAsked(exit(exit::EGRESS, kept::LATE)));
        steps.push(dropped(exit::LOST));
    }
    let computed = exit(exit::COMPUTED, kept::LATE);
    steps.extend(runs.compute.as_ref().map(control));
    steps.push(PassStep::ExitIfAsked(computed));
    steps.extend(runs.deparser.map(|r| PassStep::Emit(r.control, computed)));
    (steps, queue)
}

/// The ways of ordinary packets for an executor to compile, by [`pass`]; none if they need a number that only the walk from step
/// to step has.
pub(super) fn passes(pipeline: &Pipeline, runs: &Runs, drop_port: u32) -> Vec<Pass> {
    if pipeline.egress_reads_length || runs.deparser.is_none() {
        return Vec::new();
    }
    let std = &pipeline.std;
    let (mut whole, queue) = steps(pipeline, runs, drop_port);
    let (first, second) = (whole[..queue].to_vec(), whole[queue..].to_vec());
    for step in &mut whole[queue..] {
        let PassStep::Set(_, value) = step else { continue };
        *value = match *value {
            PassValue::Given(given::ENQUEUED | given::DEQUEUED) => PassValue::Given(given::STAMP),
            PassValue::Given(given::ENQ_DEPTH | given::WAITED | given::DEQ_DEPTH) => PassValue::Const(0),
            PassValue::Given(given::OUT) => PassValue::Field(PassField { slot: STD, field: std.egress_spec }),
            other => other,
        };
    }
    let set = |s: &PassStep| matches!(s, PassStep::Set(..));
    let again: Vec<PassStep> = first.iter().skip_while(|s| set(s)).cloned().collect();
    let leaves = |s: &PassStep| matches!(s, PassStep::ExitIfAsked(PassExit { number: exit::EGRESS, .. }));
    let rest: Vec<PassStep> = match second.iter().position(leaves) {
        Some(at) => second[at + 1..].to_vec(),
        None => second.clone(),
    };
    let kept = kept::fields(pipeline);
    let pass =
        |steps, suspends, resumes| Pass { steps, kept: kept.clone(), resumes, suspends, holds: Vec::new() };
    vec![
        pass(whole, None, false),
        pass(first, Some(kept::LATE), false),
        pass(second, None, true),
        Pass { holds: vec![META, STD], ..pass(again, Some(kept::LATE), false) },
        pass(rest, None, true),
    ]
}

/// What a field of the metadata is set to.
#[derive(Clone, Copy)]
enum Source<F> {
    Const(u64),
    Given(usize),
    Field(F),
}

/// A step, with handles of an executor.
#[derive(Clone, Copy)]
enum Leg<F> {
    Set(F, Source<F>),
    Parse,
    /// Runs a control with these slots.
    Control(Block, Run, &'static [usize]),
    /// Runs the deparser.
    Emit(Block, Run),
    ExitIfAsked(u32),
    ExitIf(F, u64, bool, u32),
    Tell(F),
}

/// The way of packets through a program, step by step.
#[derive(Clone)]
pub(super) struct Path<F> {
    legs: Vec<Leg<F>>,
    /// The step that is the parser. Before it, metadata is set.
    parse: usize,
    /// The first step behind the traffic manager.
    queue: usize,
}

impl<F: Copy> Path<F> {
    /// Finds the fields of all steps.
    ///
    /// # Errors
    /// The executor has no handle to one of them.
    pub fn new<E: Executor<Field = F>>(
        exec: &E,
        pipeline: &Pipeline,
        drop_port: u32,
    ) -> Result<Path<F>, LoadError> {
        let runs = Runs::new(pipeline);
        let (steps, queue) = steps(pipeline, &runs, drop_port);
        let field = |f: PassField| {
            let none =
                || LoadError(format!("the executor gives no handle to field {} of slot {}", f.field, f.slot));
            exec.field(f.slot, &[f.field]).ok_or_else(none)
        };
        let leg = |step: &PassStep| {
            Ok(match step {
                PassStep::Set(to, value) => {
                    let source = match value {
                        PassValue::Const(n) => Source::Const(*n),
                        PassValue::Given(n) => Source::Given(*n),
                        PassValue::Field(from) => Source::Field(field(*from)?),
                    };
                    Leg::Set(field(*to)?, source)
                }
                PassStep::Parse(..) => Leg::Parse,
                PassStep::Control(id) => {
                    let (block, slots) = of_control(pipeline, *id);
                    Leg::Control(block, Run::new(pipeline, *id), slots)
                }
                PassStep::Emit(id, _) => Leg::Emit(Block::Deparser(*id), Run::new(pipeline, *id)),
                PassStep::ExitIfAsked(exit) => Leg::ExitIfAsked(exit.number),
                PassStep::ExitIf { field: of, number, equal, exit } => {
                    Leg::ExitIf(field(*of)?, *number, *equal, exit.number)
                }
                PassStep::Tell(from) => Leg::Tell(field(*from)?),
            })
        };
        let legs: Vec<Leg<F>> = steps.iter().map(leg).collect::<Result<_, _>>()?;
        let parse = legs.iter().position(|l| matches!(l, Leg::Parse)).unwrap_or(0);
        Ok(Path { legs, parse, queue })
    }

    /// From behind the parser to the traffic manager.
    pub fn ingress(&self) -> Range<usize> {
        self.parse + 1..self.queue
    }

    /// From the traffic manager to the end.
    pub fn egress(&self) -> Range<usize> {
        self.queue..self.legs.len()
    }

    /// From behind an exit to the end of its half of the way.
    pub fn after(&self, exit: u32) -> Range<usize> {
        let leaves =
            |leg: &Leg<F>| matches!(leg, Leg::ExitIfAsked(e) | Leg::ExitIf(_, _, _, e) if *e == exit);
        let from = self.legs.iter().position(leaves).map_or(self.legs.len(), |at| at + 1);
        from..if from <= self.queue { self.queue } else { self.legs.len() }
    }
}

/// What a control is for, and its slots.
fn of_control(pipeline: &Pipeline, id: ControlId) -> (Block, &'static [usize]) {
    let blocks = &pipeline.blocks;
    if id == blocks.verify {
        (Block::Verify(id), CHECKSUM_SLOTS)
    } else if id == blocks.ingress {
        (Block::Ingress(id), ALL_SLOTS)
    } else if id == blocks.egress {
        (Block::Egress(id), ALL_SLOTS)
    } else {
        (Block::Compute(id), CHECKSUM_SLOTS)
    }
}

/// A packet on its way, wherever its bytes lie.
pub(super) struct Walker<'w, F> {
    pub frame: &'w mut F,
    pub way: &'w mut Way,
    /// The packet as it entered this pass.
    pub data: &'w [u8],
    /// The headers, once the deparser has run.
    pub emitted: &'w mut Vec<u8>,
    /// Requests that have not been acted on.
    pub effects: &'w mut Effects,
}

impl<E: Executor> Drive<'_, E> {
    /// Readies a frame for the parser.
    #[inline]
    pub fn begin_frame(&self, frame: &mut E::Frame, given: &Given) {
        let exec = &*self.fixed.exec;
        if self.fixed.reset_headers {
            exec.reset_slot(frame, HEADERS);
        }
        exec.reset_slot(frame, META);
        exec.reset_slot(frame, STD);
        let path = &self.fixed.path;
        for leg in &path.legs[..path.parse] {
            if let Leg::Set(to, source) = leg {
                assign(exec, frame, *to, *source, given);
            }
        }
    }

    /// Runs the parser. A rejection is not counted yet.
    #[inline]
    pub fn parse(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        frame: &mut E::Frame,
        way: &mut Way,
        data: &[u8],
    ) -> Effects {
        let fixed = self.fixed;
        let parser = fixed.pipeline.blocks.parser;
        let mut env = env(&fixed.pipeline, self.state.again(), core, now, way, &[]);
        env.note(|| StepKind::Begin(Block::Parser(parser)));
        let section = env.state.enter(fixed.runs.parser);
        let outcome = fixed.exec.parse(parser, ALL_SLOTS, frame, data, &mut env);
        env.own.leave();
        drop(section);
        // Headers are whole bytes; only an odd `advance` could stop inside one.
        way.payload = outcome.consumed_bits.div_ceil(8).min(data.len());
        let (accepted, error, consumed_bytes) = (outcome.accepted, outcome.error, way.payload);
        env.note(|| StepKind::Parsed { accepted, error, consumed_bytes });
        let effects = env.effects;
        way.rejected = (!accepted).then_some(error);
        if error != 0 {
            self.set(frame, fixed.std.parser_error, u64::from(error));
        }
        if fixed.pipeline.egress_reads_length {
            way.parsed_bits = fixed.exec.header_bits(frame, HEADERS);
        }
        effects
    }

    /// Takes a parsed packet through some steps. Returns the exit where it left them, or `None` at their end.
    #[inline]
    pub fn walk(
        &mut self,
        core: &mut Core<E::Frame>,
        now: Time,
        legs: Range<usize>,
        given: &Given,
        packet: Walker<'_, E::Frame>,
    ) -> Option<u32> {
        let fixed = self.fixed;
        let Walker { frame, way, data, emitted, effects } = packet;
        let exec = &*fixed.exec;
        let payload = data.get(way.payload..).unwrap_or(&[]);
        let mut env = env(&fixed.pipeline, self.state.again(), core, now, way, payload);
        env.effects = *effects;
        let mut left = None;
        for leg in &fixed.path.legs[legs] {
            match *leg {
                Leg::Set(to, Source::Given(given::LENGTH)) => {
                    exec.write(frame, to, length(way, exec.header_bits(frame, HEADERS)));
                }
                Leg::Set(to, source) => assign(exec, frame, to, source, given),
                Leg::Control(block, run, slots) => {
                    control(exec, block, run, slots, frame, emitted, &mut env);
                }
                Leg::Emit(block, run) => {
                    emitted.clear();
                    control(exec, block, run, DEPARSER_SLOTS, frame, emitted, &mut env);
                }
                Leg::ExitIfAsked(number) if env.effects.any => left = Some(number),
                Leg::ExitIf(field, number, equal, exit) if (exec.read(frame, field) == number) == equal => {
                    left = Some(exit);
                }
                Leg::Tell(field) => way.out = exec.read(frame, field) as u32,
                Leg::Parse | Leg::ExitIfAsked(_) | Leg::ExitIf(..) => {}
            }
            if left.is_some() {
                break;
            }
        }
        *effects = env.effects;
        left
    }
}

#[inline]
fn assign<E: Executor>(
    exec: &E,
    frame: &mut E::Frame,
    to: E::Field,
    source: Source<E::Field>,
    given: &Given,
) {
    let value = match source {
        Source::Const(n) => n,
        Source::Given(n) => given[n],
        Source::Field(from) => exec.read(frame, from),
    };
    exec.write(frame, to, value);
}

/// Runs a control.
#[inline]
fn control<E: Executor>(
    exec: &E,
    block: Block,
    run: Run,
    slots: &[usize],
    frame: &mut E::Frame,
    emitted: &mut Vec<u8>,
    env: &mut BlockEnv<'_>,
) {
    env.note(|| StepKind::Begin(block));
    let section = env.state.enter(run.section);
    let outcome = exec.control(run.control, slots, frame, emitted, env);
    env.own.leave();
    drop(section);
    env.note(|| StepKind::End { exited: outcome.exited });
}

/// The environment of a packet's blocks.
#[inline]
pub(super) fn env<'a, F>(
    pipeline: &'a Pipeline,
    state: Access<'a>,
    core: &'a mut Core<F>,
    now: Time,
    way: &Way,
    payload: &'a [u8],
) -> BlockEnv<'a> {
    let (drop_port, thread, bytes) = (core.config.drop_port, way.thread, way.bytes);
    let trace = core.trace.as_deref_mut().filter(|_| thread != 0);
    let quiet = BlockEnv::new(pipeline, state, &mut core.own, now, drop_port);
    BlockEnv { bytes, payload, trace, thread, ..quiet }
}

/// Length of a packet whose headers have these bits now.
fn length(way: &Way, header_bits: u64) -> u64 {
    (u64::from(way.bytes) + header_bits / 8).saturating_sub(way.parsed_bits / 8)
}
