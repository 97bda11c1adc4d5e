//! The switch: packets in, packets out.

mod core;
mod passes;
mod straight;
#[cfg(test)]
mod tests;

use self::core::Core;
use self::passes::Loaded;
use crate::config::{ConfigError, SwitchConfig};
use crate::fields::StdHandles;
use crate::meanings;
use crate::pipeline::{Pipeline, Problem};
use crate::queue::{QueueConfig, QueueStats};
use crate::state::{Digest, Event, IdleEntry, State};
use crate::stats::{DropReason, PortStats, Stats};
use crate::time::Time;
use crate::trace::{StepKind, TraceStep};
use pointsman_ir::{Executor, Generation, Known, LoadError, Program, TypeId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Makes an executor that runs a program: [`Executor::load_known`], or what chooses among several.
pub type Loader<E> = fn(Arc<Program>, &[TypeId], &Known) -> Result<E, LoadError>;

/// Where packets go that leave the switch.
pub trait Sink {
    /// A packet leaves on a port.
    fn transmit(&mut self, port: u32, packet: &[u8]);
    /// A packet leaves to the control plane (through the CPU port).
    fn to_cpu(&mut self, packet: &[u8]);
    /// A packet leaves on a port, and lies in the buffer of packet `number` of the batch that [`Switch::process`] was
    /// given. The switch does not touch that buffer any more, so it can be sent as it is.
    fn transmit_buffer(&mut self, port: u32, _number: usize, packet: &[u8]) {
        self.transmit(port, packet);
    }
}

/// A received packet for [`Switch::process`], which may change the whole buffer.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// The port on which it came in.
    pub port: u32,
    /// Room for longer headers, as much as there is, and the packet, which ends with the buffer.
    pub buffer: &'a mut [u8],
    /// Where in the buffer the packet begins.
    pub start: usize,
}

impl Arrived<'_> {
    fn packet(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or(&[])
    }
}

/// A packet that left the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// On a port.
    Port(u32, Vec<u8>),
    /// To the control plane.
    Cpu(Vec<u8>),
}

impl Sink for Vec<Output> {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        self.push(Output::Port(port, packet.to_vec()));
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        self.push(Output::Cpu(packet.to_vec()));
    }
}

/// What a new program takes over from the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing but multicast groups, clone sessions and queue settings.
    Nothing,
    /// Also tables, registers, counters, meters, action profiles and value sets that have the same name and shape.
    Fitting,
}

/// Why a program was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipelineError {
    /// It does not go with the switch's configuration.
    Config(Problem),
    /// The executor cannot run it.
    Load(LoadError),
}

impl std::fmt::Display for PipelineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PipelineError::Config(p) => p.fmt(f),
            PipelineError::Load(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for PipelineError {}

/// What [`Switch::poll`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Passes through ingress or egress.
    pub passes: usize,
    /// There is more to do at the same time: the budget was too small.
    pub more: bool,
}

/// A v1model switch.
pub struct Switch<E: Executor> {
    loader: Loader<E>,
    loaded: Option<Loaded<E>>,
    core: Core<E::Frame>,
}

impl<E: Executor> Switch<E> {
    /// A switch without a program: it drops everything until it has one.
    pub fn new(config: SwitchConfig) -> Result<Self, ConfigError> {
        Self::with_loader(config, E::load_known)
    }

    /// The same, where programs are loaded by `loader`.
    pub fn with_loader(config: SwitchConfig, loader: Loader<E>) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Switch { loader, loaded: None, core: Core::new(config) })
    }

    /// How the switch was made.
    pub fn config(&self) -> &SwitchConfig {
        &self.core.config
    }

    /// Would [`Switch::set_pipeline`] take this program?
    pub fn check_pipeline(&self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        self.load(pipeline).map(|_| ())
    }

    fn load(&self, pipeline: &Pipeline) -> Result<(E, StdHandles<E::Field>), PipelineError> {
        let width = pipeline.port_width();
        let config = &self.core.config;
        let fits = |port: u32| width >= 32 || port < 1 << width;
        for (what, port) in [("drop port", Some(config.drop_port)), ("CPU port", config.cpu_port)] {
            if let Some(port) = port.filter(|p| !fits(*p)) {
                let message = format!(
                    "the {what} {port} does not fit PortId_t, which has {width} bits: configure a smaller one"
                );
                return Err(PipelineError::Config(Problem::new(message)));
            }
        }
        if let Some(port) = self.core.ports.as_ref().and_then(|ports| ports.iter().find(|p| !fits(**p))) {
            let message = format!(
                "port {port} does not fit PortId_t, which has {width} bits: give it a smaller number"
            );
            return Err(PipelineError::Config(Problem::new(message)));
        }
        let exec = (self.loader)(
            pipeline.program.clone(),
            &pipeline.slots,
            &meanings::known(pipeline, config.drop_port),
        );
        let exec = exec.map_err(PipelineError::Load)?;
        let std = pipeline.std.handles(&exec, &pipeline.std_reads).map_err(PipelineError::Load)?;
        Ok((exec, std))
    }

    /// Runs `pipeline` from now on. Packets between ingress and egress are dropped and counted; packets that wait for
    /// ingress go through the new program. If it is refused, the old one stays.
    pub fn set_pipeline(&mut self, now: Time, pipeline: Pipeline, keep: Keep) -> Result<(), PipelineError> {
        let (exec, std) = self.load(&pipeline)?;
        let width = pipeline.port_width();
        let mut state = State::new(&pipeline, &self.core.config);
        self.fold_parser_errors();
        if let Some(old) = self.loaded.take() {
            if keep == Keep::Fitting {
                state.adopt(&old.state);
            }
            state.digests = old.state.digests;
            state.events = old.state.events;
            state.anomalies = old.state.anomalies;
            state.replication = old.state.replication;
        }
        state.replication.set_down_ports(self.core.down_ports.clone());
        state.arm_all(now);
        if exec.wants_tables() {
            state.build_flat();
        }
        let core = &mut self.core;
        core.port_limit = 1 << width;
        core.note_ports();
        core.bench = Default::default();
        // Their frames are laid out for the old program.
        core.pool.clear();
        let lost = core.queues.drain().len() + std::mem::take(&mut core.again).len();
        core.drops[DropReason::PipelineReplaced as usize] += lost as u64;
        for packet in &mut core.input {
            packet.frame = exec.new_frame();
        }
        let clock_offset_us = core.config.clock_offset_us;
        self.loaded = Some(Loaded::new(exec, std, pipeline, state, clock_offset_us));
        Ok(())
    }

    /// The program that runs.
    pub fn pipeline(&self) -> Option<&Pipeline> {
        self.loaded.as_ref().map(|l| &l.pipeline)
    }

    /// What runs the program.
    pub fn executor(&self) -> Option<&E> {
        self.loaded.as_ref().map(|l| &l.exec)
    }

    /// Tables, registers and everything else that the control plane reads.
    pub fn state(&self) -> Option<&State> {
        self.loaded.as_ref().map(|l| &l.state)
    }

    /// Tables, registers and everything else that the control plane writes.
    pub fn state_mut(&mut self) -> Option<&mut State> {
        let state = &mut self.loaded.as_mut()?.state;
        // Whatever the caller changes: nothing that is remembered of it holds any longer.
        state.generation = Generation::new();
        Some(state)
    }

    /// Takes a packet from a port. It is processed by [`Switch::poll`]; its ingress timestamp is now.
    pub fn receive(&mut self, now: Time, port: u32, packet: &[u8]) {
        let core = &mut self.core;
        core.last_now = core.last_now.max(now);
        core.trace.iter_mut().for_each(|t| t.now = now);
        let thread = core.thread(|| StepKind::Received { port, bytes: packet.to_vec() });
        let Some(loaded) = &self.loaded else {
            core.stats.received += 1;
            return core.refuse(thread, DropReason::NoPipeline);
        };
        let refused = core.accepts(port, packet.len()).err();
        core.arrives(port, packet.len(), refused);
        if let Some(reason) = refused {
            return core.refuse(thread, reason);
        }
        if core.input.len() >= core.config.input_depth_packets as usize {
            return core.refuse(thread, DropReason::InputFull);
        }
        let mut p = loaded.packet(core);
        p.data.clear();
        p.data.extend_from_slice(packet);
        p.ingress_port = port;
        p.received = now;
        p.fresh = true;
        p.way.thread = thread;
        core.input.push_back(p);
    }

    /// Takes a packet from the control plane: it comes in on the CPU port. Without a CPU port it is dropped as from an
    /// unknown port.
    pub fn receive_cpu(&mut self, now: Time, packet: &[u8]) {
        self.core.stats.received_from_cpu += 1;
        match self.core.config.cpu_port {
            Some(port) => self.receive(now, port, packet),
            None => {
                self.core.stats.received += 1;
                self.core.refuse(0, DropReason::UnknownIngressPort);
            }
        }
    }

    /// Processes what can be processed now, at most `budget` passes through ingress or egress. Packets that leave go to
    /// `sink`. Packets that recirculate for ever use up budgets, not time.
    pub fn poll(&mut self, now: Time, budget: usize, sink: &mut dyn Sink) -> Polled {
        let core = &mut self.core;
        core.last_now = core.last_now.max(now);
        core.trace.iter_mut().for_each(|t| t.now = now);
        let Some(loaded) = &mut self.loaded else { return Polled { passes: 0, more: false } };
        let passes = loaded.work(core, now, budget, sink);
        self.polled(now, passes)
    }

    fn polled(&self, now: Time, passes: usize) -> Polled {
        let core = &self.core;
        let waiting = !core.input.is_empty() || !core.again.is_empty();
        Polled { passes, more: waiting || core.queues.next().is_some_and(|t| t <= now) }
    }

    /// Takes packets from ports and processes them where they lie: what comes of it, and in which order, is the same as
    /// with [`Switch::receive`] and [`Switch::poll`] with this budget for each of them in turn.
    ///
    /// A packet that nothing holds up (no packet waits, no queue has a rate, nobody follows packets) is neither copied
    /// nor queued. Others are copied and take the usual way.
    pub fn process(
        &mut self,
        now: Time,
        budget: usize,
        batch: &mut [Arrived<'_>],
        sink: &mut dyn Sink,
    ) -> Polled {
        let mut passes = 0;
        let at_once = self.loaded.as_ref().map_or(1, |l| l.at_once);
        let mut bench = std::mem::take(&mut self.core.bench);
        for (n, chunk) in batch.chunks_mut(at_once).enumerate() {
            let mut clear = budget >= 2 && self.core.is_clear();
            if let Some(loaded) = self.loaded.as_mut().filter(|_| clear) {
                loaded.parse_ahead(&mut self.core, now, chunk, &mut bench);
            }
            for (i, arrived) in chunk.iter_mut().enumerate() {
                let Some(loaded) = self.loaded.as_mut().filter(|_| clear) else {
                    self.receive(now, arrived.port, arrived.packet());
                    passes += self.poll(now, budget, sink).passes;
                    continue;
                };
                let core = &mut self.core;
                let went = loaded.straight(core, now, &mut bench, (i, n * at_once + i), arrived, sink);
                passes += went.passes;
                if went.aside {
                    passes += loaded.work(core, now, budget - went.passes, sink);
                    clear = core.is_clear();
                }
            }
        }
        self.core.bench = bench;
        self.polled(now, passes)
    }

    /// When [`Switch::poll`] next has something to do (perhaps already), or an idle timeout may have passed
    /// ([`Switch::take_idle`]). `None`: not before the next packet.
    pub fn next_deadline(&self) -> Option<Time> {
        let core = &self.core;
        let input = (!core.input.is_empty() || !core.again.is_empty()).then_some(core.last_now);
        let idle = self.loaded.as_ref().and_then(|l| l.state.next_idle());
        [input, core.queues.next(), idle].into_iter().flatten().min()
    }

    /// Digests since the last call, oldest first.
    pub fn take_digests(&mut self) -> Vec<Digest> {
        self.loaded.as_mut().map(|l| l.state.digests.drain(..).collect()).unwrap_or_default()
    }

    /// Log messages and failed assertions since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.loaded.as_mut().map(|l| l.state.events.drain(..).collect()).unwrap_or_default()
    }

    /// Entries whose idle timeout has passed; see [`State::take_idle`].
    pub fn take_idle(&mut self, now: Time) -> Vec<IdleEntry> {
        self.loaded.as_mut().map(|l| l.state.take_idle(now)).unwrap_or_default()
    }

    /// Follows packets from now on, or no longer: [`Switch::take_trace`] tells what happened to them. This costs memory
    /// and time, packets that nobody follows cost neither.
    pub fn set_tracing(&mut self, on: bool) {
        match on {
            true => {
                self.core.trace.get_or_insert_default();
            }
            false => self.core.trace = None,
        }
    }

    /// What happened to packets since the last call, in order.
    pub fn take_trace(&mut self) -> Vec<TraceStep> {
        self.core.trace.as_mut().map(|t| std::mem::take(&mut t.steps)).unwrap_or_default()
    }

    fn fold_parser_errors(&mut self) {
        if let Some(l) = &self.loaded {
            let stats = &mut self.core.stats;
            for (i, n) in self.core.parser_errors.drain(..).enumerate().filter(|(_, n)| *n != 0) {
                let name = l.pipeline.program.errors.get(i).cloned().unwrap_or_else(|| i.to_string());
                *stats.parser_errors.entry(name).or_default() += n;
            }
        }
    }

    /// The counters.
    pub fn stats(&mut self) -> &Stats {
        self.fold_parser_errors();
        let core = &mut self.core;
        let stats = &mut core.stats;
        stats.drops =
            DropReason::ALL.iter().map(|r| (*r, core.drops[*r as usize])).filter(|(_, n)| *n != 0).collect();
        stats.queued = core.input.len() as u64 + core.again.len() as u64 + core.queues.len();
        if let Some(l) = &self.loaded {
            stats.anomalies = l.state.anomalies;
        }
        stats
    }

    /// Counters of one port.
    pub fn port_stats(&self, port: u32) -> PortStats {
        let mut stats = self.core.port_stats.get(port).copied().unwrap_or_default();
        stats.queued = self.core.queues.port_len(port);
        stats
    }

    /// A port went up or down; see [`State::set_port_status`]. It holds for later programs, too.
    pub fn set_port_status(&mut self, port: u32, up: bool) {
        if let Some(l) = &mut self.loaded {
            l.state.set_port_status(port, up);
        }
        if up {
            self.core.down_ports.remove(&port);
        } else {
            self.core.down_ports.insert(port);
        }
    }

    /// The ports, if they are restricted.
    pub fn ports(&self) -> Option<&BTreeSet<u32>> {
        self.core.ports.as_ref()
    }

    /// Adds a port. From then on only ports that were added exist.
    pub fn add_port(&mut self, port: u32) -> Result<(), ConfigError> {
        if port == self.core.config.drop_port {
            return Err(ConfigError(format!("port {port} is the drop port: choose another number")));
        }
        self.core.ports.get_or_insert_default().insert(port);
        self.core.note_ports();
        Ok(())
    }

    /// Removes a port. Packets in its queues are dropped when their turn comes.
    pub fn remove_port(&mut self, port: u32) -> bool {
        let removed = self.core.ports.as_mut().is_some_and(|p| p.remove(&port));
        self.core.note_ports();
        removed
    }

    /// Counters of one queue of a port.
    pub fn queue_stats(&self, port: u32, priority: u8) -> QueueStats {
        self.core.queues.stats(port, priority)
    }

    /// Depth and rate of a queue.
    pub fn queue_config(&self, port: u32, priority: u8) -> QueueConfig {
        self.core.queues.config(port, priority)
    }

    /// Sets depth and rate of one queue of a port, or of all its queues. Packets that wait already keep their times.
    pub fn configure_queue(
        &mut self,
        port: u32,
        priority: Option<u8>,
        config: QueueConfig,
    ) -> Result<(), ConfigError> {
        check_queue(&config)?;
        if let Some(p) = priority.filter(|p| *p >= self.core.config.queues_per_port) {
            let n = self.core.config.queues_per_port;
            return Err(ConfigError(format!("no queue of priority {p}: each port has {n}")));
        }
        self.core.queues.configure(port, priority, config);
        Ok(())
    }

    /// Sets depth and rate of all queues.
    pub fn configure_all_queues(&mut self, config: QueueConfig) -> Result<(), ConfigError> {
        check_queue(&config)?;
        self.core.queues.configure_all(config);
        Ok(())
    }
}

fn check_queue(config: &QueueConfig) -> Result<(), ConfigError> {
    if config.depth_packets == 0 {
        return Err(ConfigError("depth_packets is 0: choose at least 1".into()));
    }
    if config.rate_pps == Some(0) {
        return Err(ConfigError("rate_pps is 0: leave it out for no limit".into()));
    }
    Ok(())
}
