//! The switch: packets in, packets out.

mod copies;
mod core;
mod drive;
mod export;
mod flow;
mod gate;
mod passes;
mod path;
mod prepare;
mod straight;
#[cfg(test)]
mod tests;
mod through;
mod waiting;
mod worker;
mod workspace;

use self::core::Core;
use self::drive::Loaded;
pub use self::prepare::{Prepared, Preparer};
pub use self::waiting::WaitingPacket;
pub use self::worker::Worker;
pub use self::workspace::Workspace;
use crate::config::{ConfigError, SwitchConfig};
use crate::generator::{Generator, Generators};
use crate::guarded::Guarded;
use crate::pipeline::Pipeline;
use crate::problem::Problem;
use crate::queue::{PortRate, QueueConfig, SharedBuffer};
use crate::state::{Digest, Event, IdleEntry, Kept, State};
use crate::stats::{DropReason, PortStats, QueueCounts, Stats};
use crate::time::{Time, earlier};
use crate::trace::{Follow, Followed, TraceStep};
use pointsman_ir::{Executor, Generation, Known, LoadError, Program, TypeId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Makes an executor that runs a program: [`Executor::load_known`], or what chooses among several.
pub type Loader<E> = fn(Arc<Program>, &[TypeId], &Known) -> Result<E, LoadError>;

/// The same for several switches that run one executor.
type SharedLoader<E> =
    Arc<dyn Fn(Arc<Program>, &[TypeId], &Known) -> Result<Arc<E>, LoadError> + Send + Sync>;

/// The receiver of packets that leave the switch.
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
    /// The packet's first byte in the buffer.
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

/// The state that a new program takes over from the old one.
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

/// The result of [`Switch::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Passes through ingress or egress.
    pub passes: usize,
    /// There is more to do at the same time: the budget was too small.
    pub more: bool,
}

/// A program that no longer runs, with its state.
pub struct Retired<E: Executor> {
    _old: Option<Loaded<E>>,
}

/// A v1model switch.
pub struct Switch<E: Executor> {
    loader: SharedLoader<E>,
    loaded: Option<Loaded<E>>,
    core: Core<E::Frame>,
    /// Those of further workers.
    others: Vec<Arc<Guarded<Core<E::Frame>>>>,
    /// The last result of [`Switch::stats`].
    stats: Stats,
}

impl<E: Executor> Switch<E> {
    /// A switch without a program: it drops everything until it has one.
    pub fn new(config: SwitchConfig) -> Result<Self, ConfigError> {
        Self::with_loader(config, E::load_known)
    }

    /// The same, where programs are loaded by `loader`.
    pub fn with_loader(config: SwitchConfig, loader: Loader<E>) -> Result<Self, ConfigError> {
        Self::with_shared(config, move |program, slots, known| loader(program, slots, known).map(Arc::new))
    }

    /// The same, where the executor may run in other switches as well: it holds nothing that belongs to one of them.
    pub fn with_shared(
        config: SwitchConfig,
        loader: impl Fn(Arc<Program>, &[TypeId], &Known) -> Result<Arc<E>, LoadError> + Send + Sync + 'static,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let loader: SharedLoader<E> = Arc::new(loader);
        let (others, stats) = (Vec::new(), Stats::default());
        Ok(Switch { loader, loaded: None, core: Core::new(config), others, stats })
    }

    /// Whether the executor takes packets through all blocks in one go. Not when they are traced, and not where blocks of one
    /// worker keep out those of others.
    pub fn goes_through(&self) -> bool {
        self.loaded.as_ref().is_some_and(|l| l.fixed.through)
    }

    /// How the switch was made.
    pub fn config(&self) -> &SwitchConfig {
        &self.core.config
    }

    /// Checks that [`Switch::set_pipeline`] would accept this program.
    pub fn check_pipeline(&self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        self.preparer().prepare(pipeline.clone()).map(|_| ())
    }

    /// Readies programs for this switch, wherever that is done.
    pub fn preparer(&self) -> Preparer<E> {
        let (config, ports) = (self.core.config.clone(), self.core.gate.ports.clone());
        Preparer { loader: self.loader.clone(), config, ports }
    }

    /// Runs `pipeline` from now on. Packets between ingress and egress are dropped and counted; packets that wait for
    /// ingress go through the new program. If it is refused, the old one stays.
    ///
    /// # Errors
    /// The switch cannot run it.
    pub fn set_pipeline(&mut self, now: Time, pipeline: Pipeline, keep: Keep) -> Result<(), PipelineError> {
        let prepared = self.preparer().prepare(pipeline)?;
        self.set_prepared(now, prepared, keep)
    }

    /// The same with a program that was readied before.
    ///
    /// # Errors
    /// The switch has got ports since that do not go with it.
    pub fn set_prepared(
        &mut self,
        now: Time,
        prepared: Prepared<E>,
        keep: Keep,
    ) -> Result<(), PipelineError> {
        let mut state = State::new(&prepared.pipeline, &self.core.config);
        if let Some(old) = &self.loaded {
            if keep == Keep::Fitting {
                state.adopt(&old.state);
            }
            state.replication = old.state.replication.clone();
        }
        prepared.ready(&mut state, now);
        self.exchange(prepared, state, &Kept::default()).map(|_| ())
    }

    /// Switches over to a program and a state that were prepared ([`Prepared::ready`]), with the `kept` parts of the
    /// old program's state. This is quick; dropping the result takes longer, which can be done while packets use the
    /// switch.
    ///
    /// # Errors
    /// The switch got ports since that do not fit.
    pub fn exchange(
        &mut self,
        prepared: Prepared<E>,
        mut state: State,
        kept: &Kept,
    ) -> Result<Retired<E>, PipelineError> {
        prepare::check(&self.core.config, self.core.gate.ports.as_ref(), &prepared.pipeline)?;
        let mut retired = self.loaded.take();
        if let Some(old) = &mut retired {
            let program = old.fixed.pipeline.program.clone();
            self.each(|core| core.gate.fold_parser_errors(Some(&program)));
            state.epoch = old.state.epoch + 1;
            state.take_kept(&mut old.state, kept);
        }
        state.set_down_ports(self.core.down_ports.clone());
        state.share(self.others.len());
        let loaded = Loaded::new(prepared, state, &self.core.config);
        self.each(|core| core.change_program(&loaded.fixed));
        self.loaded = Some(loaded);
        Ok(Retired { _old: retired })
    }

    /// Does something to each worker.
    fn each(&mut self, mut change: impl FnMut(&mut Core<E::Frame>)) {
        change(&mut self.core);
        self.others.iter().for_each(|core| change(&mut core.shared()));
    }

    /// The program that runs.
    pub fn pipeline(&self) -> Option<&Pipeline> {
        self.loaded.as_ref().map(|l| &l.fixed.pipeline)
    }

    /// The executor of the program.
    pub fn executor(&self) -> Option<&E> {
        self.loaded.as_ref().map(|l| &*l.fixed.exec)
    }

    /// Tables, registers and everything else that the control plane reads.
    pub fn state(&self) -> Option<&State> {
        self.loaded.as_ref().map(|l| &l.state)
    }

    /// Tables, registers and everything else that the control plane writes.
    pub fn state_mut(&mut self) -> Option<&mut State> {
        let state = &mut self.loaded.as_mut()?.state;
        // The caller may change anything, so cached data is no longer valid.
        state.generation = Generation::new();
        Some(state)
    }

    /// Takes a packet from a port. It is processed by [`Switch::poll`]; its ingress timestamp is now.
    pub fn receive(&mut self, now: Time, port: u32, packet: &[u8]) {
        self.core.receive(self.loaded.as_ref().map(|l| &l.fixed), now, port, packet);
    }

    /// Takes a packet from the control plane: it comes in on the CPU port. Without a CPU port it is dropped as from an
    /// unknown port.
    pub fn receive_cpu(&mut self, now: Time, packet: &[u8]) {
        self.core.receive_cpu(self.loaded.as_ref().map(|l| &l.fixed), now, packet);
    }

    /// Processes what can be processed now, at most `budget` passes through ingress or egress. Packets that leave go to
    /// `sink`. Packets that recirculate for ever use up budgets, not time.
    pub fn poll(&mut self, now: Time, budget: usize, sink: &mut dyn Sink) -> Polled {
        self.core.poll(self.loaded.as_mut().map(Loaded::alone), now, budget, sink)
    }

    /// Takes packets from ports and processes them in place: the results and their order are the same as
    /// with [`Switch::receive`] and [`Switch::poll`] with this budget for each of them in turn.
    ///
    /// A packet that nothing holds up (no other packet has to leave first, its port is free, it is not traced) is neither
    /// copied nor queued. Others are copied and take the usual way.
    pub fn process(
        &mut self,
        now: Time,
        budget: usize,
        batch: &mut [Arrived<'_>],
        sink: &mut dyn Sink,
    ) -> Polled {
        let mut drive = self.loaded.as_mut().map(Loaded::alone);
        self.core.process(drive.as_mut(), now, budget, batch, sink)
    }

    /// When [`Switch::poll`] next has work (perhaps already), or an idle timeout may have passed
    /// ([`Switch::take_idle`]). `None`: not before the next packet.
    pub fn next_deadline(&self) -> Option<Time> {
        earlier(self.next_poll(), self.next_idle())
    }

    /// When [`Switch::poll`] next has work (perhaps already). `None`: not before the next packet.
    pub fn next_poll(&self) -> Option<Time> {
        self.core.next_deadline()
    }

    /// When an idle timeout may have passed ([`Switch::take_idle`]). `None`: not before the control plane changes
    /// something.
    pub fn next_idle(&self) -> Option<Time> {
        self.loaded.as_ref().and_then(|l| l.state.next_idle())
    }

    /// Digests since the last call, oldest first.
    pub fn take_digests(&mut self) -> Vec<Digest> {
        let Switch { loaded, core, others, .. } = self;
        let mut all = Vec::new();
        let mut take = |core: &mut Core<E::Frame>| {
            loaded.iter().for_each(|l| core.own.forget(&l.state));
            all.extend(core.own.digests.drain(..));
        };
        take(core);
        others.iter().for_each(|core| take(&mut core.shared()));
        all.sort_by_key(|d| d.time);
        all
    }

    /// Log messages and failed assertions since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        self.each(|core| all.extend(core.own.events.drain(..)));
        all.sort_by_key(|e: &Event| e.time);
        all
    }

    /// Entries whose idle timeout has passed; see [`State::take_idle`].
    pub fn take_idle(&mut self, now: Time, max: usize) -> Vec<IdleEntry> {
        self.loaded.as_mut().map(|l| l.state.take_idle(now, max)).unwrap_or_default()
    }

    /// Turns tracing on or off: [`Switch::take_trace`] returns the packets' steps. Tracing costs memory and time, for
    /// traced packets only.
    pub fn set_tracing(&mut self, on: bool) {
        match on {
            true => {
                self.core.trace.get_or_insert_default();
            }
            false => self.core.trace = None,
        }
    }

    /// Follows the packets that come in from now on and that are wanted; `None` for no packet. They take the slow way, all others the
    /// usual one. What was followed or traced before is forgotten.
    pub fn follow(&mut self, follow: Option<Follow>) {
        self.each(|core| core.follow(follow.clone()));
    }

    /// The steps of followed packets that this switch itself processed, when none of them is inside any more.
    pub fn take_followed(&mut self) -> Option<Followed> {
        let program = self.loaded.as_ref().map(|l| &l.fixed.pipeline.program);
        self.core.take_followed(program)
    }

    /// The packets' steps since the last call, in order.
    pub fn take_trace(&mut self) -> Vec<TraceStep> {
        self.core.trace.as_mut().map(|t| std::mem::take(&mut t.steps)).unwrap_or_default()
    }

    /// The counters, of all workers together.
    pub fn stats(&mut self) -> &Stats {
        let program = self.loaded.as_ref().map(|l| l.fixed.pipeline.program.clone());
        let mut sum = Stats::default();
        self.each(|core| sum.add(core.tally(program.as_deref())));
        self.stats = sum;
        &self.stats
    }

    /// Counters of one port.
    pub fn port_stats(&self, port: u32) -> PortStats {
        let mut sum = self.core.of_port(port);
        self.others.iter().for_each(|core| sum.add(&core.shared().of_port(port)));
        sum
    }

    /// Counters of a port's egress queues, by priority; empty if it has had none.
    pub fn queue_counts(&self, port: u32) -> Vec<QueueCounts> {
        let mut all = self.core.queues.counts(port);
        for core in &self.others {
            let more = core.shared().queues.counts(port);
            all.resize(all.len().max(more.len()), QueueCounts::default());
            all.iter_mut().zip(&more).for_each(|(sum, more)| sum.add(more));
        }
        all
    }

    /// A port went up or down; see [`State::set_port_status`]. It also holds for later programs.
    pub fn set_port_status(&mut self, port: u32, up: bool) {
        if let Some(l) = &mut self.loaded {
            l.state.set_port_status(port, up);
        }
        self.each(|core| {
            if up {
                core.down_ports.remove(&port);
            } else if core.down_ports.insert(port) {
                core.generators.port_down(port);
            }
        });
    }

    /// Sets or removes the packet generator of a number. It begins at `now`, and works on the first worker, from whose
    /// [`Switch::poll`] or [`Worker::poll`] its packets come.
    ///
    /// # Errors
    /// See [`Generator::validate`]; the port does not fit the program's port type.
    pub fn set_generator(
        &mut self,
        now: Time,
        number: u16,
        generator: Option<Generator>,
    ) -> Result<(), ConfigError> {
        generator.iter().try_for_each(|g| self.check_generator(g))?;
        match self.others.first() {
            Some(core) => core.shared().generators.set(now, number, generator),
            None => self.core.generators.set(now, number, generator),
        }
        Ok(())
    }

    fn check_generator(&self, g: &Generator) -> Result<(), ConfigError> {
        g.validate(self.core.config.drop_port)?;
        let width = self.pipeline().map_or(32, Pipeline::port_width);
        if width < 32 && g.port >> width != 0 {
            return Err(ConfigError(format!("a generator's port {} has more than {width} bits", g.port)));
        }
        Ok(())
    }

    /// The packet generators, by number.
    pub fn generators(&self) -> Vec<(u16, Generator)> {
        let list = |all: &Generators| all.all().map(|(n, g)| (n, g.clone())).collect();
        match self.others.first() {
            Some(core) => list(&core.shared().generators),
            None => list(&self.core.generators),
        }
    }

    /// Whether a packet of this length may come in on this port, or why it would be dropped.
    pub fn accepts(&self, port: u32, bytes: usize) -> Result<(), DropReason> {
        self.core.gate.accepts(port, bytes)
    }

    /// The ports, if they are restricted.
    pub fn ports(&self) -> Option<&BTreeSet<u32>> {
        self.core.gate.ports.as_ref()
    }

    /// Adds a port. From then on only ports that were added exist.
    pub fn add_port(&mut self, port: u32) -> Result<(), ConfigError> {
        if port == self.core.config.drop_port {
            return Err(ConfigError(format!("port {port} is the drop port: choose another number")));
        }
        self.each(|core| {
            core.gate.ports.get_or_insert_default().insert(port);
            core.gate.note_ports();
        });
        Ok(())
    }

    /// Removes a port. Packets in its queues are dropped when their turn comes.
    pub fn remove_port(&mut self, port: u32) -> bool {
        let mut removed = false;
        self.each(|core| {
            removed |= core.gate.ports.as_mut().is_some_and(|p| p.remove(&port));
            core.gate.note_ports();
        });
        removed
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
        self.each(|core| core.queues.configure(port, priority, config));
        Ok(())
    }

    /// Sets depth and rate of all queues, and takes the rates of ports away.
    pub fn configure_all_queues(&mut self, config: QueueConfig) -> Result<(), ConfigError> {
        check_queue(&config)?;
        self.each(|core| core.queues.configure_all(config));
        Ok(())
    }

    /// Sets the rate of a port; `None` for no limit. Each worker sends at this rate.
    ///
    /// # Errors
    /// A rate of 0.
    pub fn configure_port_rate(&mut self, port: u32, rate: Option<PortRate>) -> Result<(), ConfigError> {
        check_rate(rate)?;
        self.each(|core| core.queues.set_rate(port, rate));
        Ok(())
    }

    /// Sets how fast resubmitted and recirculated packets come in; `None` for no limit.
    ///
    /// # Errors
    /// A rate of 0.
    pub fn configure_recirculation(&mut self, rate: Option<PortRate>) -> Result<(), ConfigError> {
        check_rate(rate)?;
        self.each(|core| core.config.recirculation_rate = rate);
        Ok(())
    }

    /// Sets the buffer that all queues of a worker share; `None` for no limit but those of the queues.
    ///
    /// # Errors
    /// A size of 0, or a threshold of 0.
    pub fn configure_buffer(&mut self, buffer: Option<SharedBuffer>) -> Result<(), ConfigError> {
        check_buffer(buffer)?;
        self.each(|core| core.queues.set_buffer(buffer));
        Ok(())
    }
}

fn check_rate(rate: Option<PortRate>) -> Result<(), ConfigError> {
    match rate {
        Some(PortRate { bits_per_s: 0, .. }) => {
            Err(ConfigError("bits_per_s is 0: omit the rate for no limit".into()))
        }
        _ => Ok(()),
    }
}

fn check_buffer(buffer: Option<SharedBuffer>) -> Result<(), ConfigError> {
    if buffer.is_some_and(|b| b.bytes == 0 || b.threshold_percent == 0) {
        return Err(ConfigError("a shared buffer of 0 bytes or 0 per cent holds nothing".into()));
    }
    Ok(())
}

fn check_queue(config: &QueueConfig) -> Result<(), ConfigError> {
    if config.depth_packets == 0 {
        return Err(ConfigError("depth_packets is 0: choose at least 1".into()));
    }
    if config.rate_pps == Some(0) {
        return Err(ConfigError("rate_pps is 0: omit it for no limit".into()));
    }
    if config.depth_bytes == Some(0) {
        return Err(ConfigError("depth_bytes is 0: omit it for no limit".into()));
    }
    Ok(())
}
