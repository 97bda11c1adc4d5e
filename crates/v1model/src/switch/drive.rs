//! A program at work.

use super::core::{Boxed, Bytes, Core, FEW, LANES, Packet, Way};
use super::export::ProgramClock;
use super::path::Path;
use super::prepare::Prepared;
use crate::config::SwitchConfig;
use crate::fields::{FieldList, Kept, StdHandles};
use crate::pipeline::{ALL_SLOTS, HEADERS, Pipeline};
use crate::state::{Access, State};
use crate::time::Time;
use crate::usage::Unit;
use pointsman_ir::{ControlId, Direction, Executor, Spans};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A program that runs.
pub(super) struct Loaded<E: Executor> {
    pub fixed: Fixed<E>,
    pub state: State,
}

/// The part of it that never changes.
pub(super) struct Fixed<E: Executor> {
    pub exec: Arc<E>,
    pub std: StdHandles<E::Field>,
    pub path: Path<E::Field>,
    pub pipeline: Pipeline,
    pub clock: ProgramClock,
    pub runs: Runs,
    pub copies: Copies,
    /// The parser does not clear the headers itself.
    pub reset_headers: bool,
    /// Packets that are parsed before the first of them continues.
    pub at_once: usize,
    /// The executor takes packets through in one go (`through.rs`).
    pub through: bool,
}

/// What is copied from a packet to those that descend from it.
pub(super) struct Copies {
    /// The user metadata of field lists, by their numbers.
    pub lists: BTreeMap<u32, Kept>,
    /// All headers.
    pub headers: Kept,
    /// Those in the user metadata.
    pub meta_headers: Kept,
    /// Everything, if frames are bytes.
    pub all: Option<Spans>,
}

impl Copies {
    fn new<E: Executor>(exec: &E, pipeline: &Pipeline) -> Copies {
        Copies {
            lists: pipeline.field_lists.iter().map(|(n, list)| (*n, Kept::new(exec, list))).collect(),
            headers: Kept::new(exec, &FieldList::of_whole_slots(&[HEADERS])),
            meta_headers: Kept::new(exec, &pipeline.meta_headers),
            all: exec.spans(&ALL_SLOTS.iter().map(|slot| (*slot, Vec::new())).collect::<Vec<_>>()),
        }
    }
}

/// The controls, without those that do nothing: many programs leave the checksum blocks and egress empty.
pub(super) struct Runs {
    /// The section that the parser is.
    pub parser: Option<usize>,
    pub verify: Option<Run>,
    pub ingress: Option<Run>,
    pub egress: Option<Run>,
    pub compute: Option<Run>,
    pub deparser: Option<Run>,
}

impl Runs {
    pub fn new(pipeline: &Pipeline) -> Runs {
        let (program, blocks) = (&pipeline.program, &pipeline.blocks);
        let run = |control: ControlId| {
            let does_something = program.controls.get(control.index()).is_some_and(|c| !c.body.is_empty());
            does_something.then(|| Run::new(pipeline, control))
        };
        Runs {
            parser: pipeline.sections.of(Unit::Parser(blocks.parser)),
            verify: run(blocks.verify),
            ingress: run(blocks.ingress),
            egress: run(blocks.egress),
            compute: run(blocks.compute),
            deparser: run(blocks.deparser),
        }
    }
}

/// A control that is run.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub control: ControlId,
    /// See [`Access::enter`].
    pub section: Option<usize>,
}

impl Run {
    pub fn new(pipeline: &Pipeline, control: ControlId) -> Run {
        Run { control, section: pipeline.sections.of(Unit::Control(control)) }
    }
}

/// A program at work: for one worker that has it alone, or one of several.
pub(super) struct Drive<'a, E: Executor> {
    pub fixed: &'a Fixed<E>,
    pub state: Access<'a>,
}

impl<E: Executor> Fixed<E> {
    pub fn packet(&self, core: &mut Core<E::Frame>) -> Boxed<E::Frame> {
        core.pool.pop().unwrap_or_else(|| {
            Box::new(Packet {
                frame: self.exec.new_frame(),
                data: Bytes::default(),
                way: Way::START,
                ingress_port: 0,
                received: Time::ZERO,
                enqueued: Time::ZERO,
                enqueued_behind: 0,
                descendants: None,
                fresh: true,
            })
        })
    }
}

impl<E: Executor> Loaded<E> {
    pub fn new(prepared: Prepared<E>, state: State, config: &SwitchConfig) -> Self {
        let Prepared { exec, through, std, path, pipeline } = prepared;
        let (program, blocks, runs) = (&pipeline.program, &pipeline.blocks, Runs::new(&pipeline));
        let headers = program.parsers.get(blocks.parser.index()).and_then(|p| p.frame.params.first());
        let reset_headers = headers.is_none_or(|p| p.direction != Direction::Out);
        // A parser without calls can run ahead of other packets. A few at a time share the fixed cost.
        let at_once = if pipeline.parser_is_pure { exec.lookahead().clamp(FEW, LANES) } else { 1 };
        let copies = Copies::new(&*exec, &pipeline);
        let fixed = Fixed {
            exec,
            std,
            path,
            pipeline,
            clock: ProgramClock::new(config),
            runs,
            copies,
            reset_headers,
            at_once,
            through,
        };
        Loaded { fixed, state }
    }

    pub fn alone(&mut self) -> Drive<'_, E> {
        Drive { fixed: &self.fixed, state: Access::Alone(&mut self.state) }
    }

    pub fn shared(&self) -> Drive<'_, E> {
        Drive { fixed: &self.fixed, state: Access::Shared(&self.state) }
    }
}

impl<E: Executor> Drive<'_, E> {
    /// Sets a field of `standard_metadata`, if the program reads it.
    #[inline]
    pub fn set(&self, frame: &mut E::Frame, field: Option<E::Field>, value: u64) {
        if let Some(field) = field {
            self.fixed.exec.write(frame, field, value);
        }
    }

    #[inline]
    pub fn get(&self, frame: &E::Frame, field: Option<E::Field>) -> u32 {
        field.map_or(0, |field| self.fixed.exec.read(frame, field) as u32)
    }

    /// A point in time as the program sees it.
    #[inline]
    pub fn stamp(&self, time: Time) -> u64 {
        self.fixed.clock.stamp(time)
    }
}
