//! A running switch: packet threads (`worker.rs`), and one control thread, which handles calls, time and
//! worker reports one after the other.

mod calls;
mod error;
mod events;
mod follow;
mod handle;
mod saved;
mod streams;

use super::audit::Audit;
use super::build_error::BuildError;
use super::device::{Cache, Compiled, Texts, Turn, compile_config};
use super::gnmi::model::Interface;
use super::queues::{self, QueueError, Setting};
use super::shared::Shared;
use super::summary;
use super::wires::Wires;
use super::worker::{Common, Line, Notices, Order, Seat, Worker};
use crate::clock::Clock;
use crate::log::Level;
use crate::metrics::switch::{self, Figures};
use crate::metrics::{Insight, Page};
use pointsman_compile::executor::{Choice, Runner};
use pointsman_control::{ConnId, Device, RpcError, Server, ServerConfig};
use pointsman_ports::{Counters, PollMode};
use pointsman_stf::generator::Numbered;
use pointsman_v1model::{PortStats, Preparer, State, Stats, SwitchConfig, Time, Watch};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;

pub use calls::{Peer, ReadItem};
pub use error::{GeneratorError, RunError};
use follow::Follower;
pub use follow::{Busy, Told};
pub use handle::{Gone, Handle, Job};
use streams::Client;
pub use streams::StreamItem;

/// Jobs between two clock checks: a client that writes without end must not delay other clients' deadlines.
const JOBS: usize = 64;

/// Idle entries that are reported before packets get the switch again.
const IDLE: usize = 64;

/// Everything that the control plane's thread owns.
pub struct Core {
    shared: Arc<Shared>,
    preparer: Preparer<Runner>,
    cache: Cache,
    workers: Vec<Line>,
    /// The last logged warning about the executor.
    warned: Option<String>,
    server: Server,
    sources: Texts,
    streams: BTreeMap<ConnId, Client>,
    next_conn: u64,
    /// Log lines for the operator that are still pending.
    news: Vec<(Level, String)>,
    clock: Clock,
    stop: bool,
    audit: Audit,
    /// What metrics show of single programs.
    insights: Vec<Box<dyn Insight>>,
    /// The registers and counters of the running program.
    cells: Option<Watch>,
    /// When an idle timeout of an entry may have passed.
    idle_at: Option<Time>,
    /// Who follows packets.
    follower: Option<Follower>,
    followers: u64,
}

impl Core {
    /// Time since the switch started.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// P4Runtime without the device that it serves.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// P4Runtime and the device that it serves.
    pub fn control<R>(&mut self, call: impl FnOnce(&mut Server, &mut dyn Device, Time) -> R) -> R {
        let now = self.now();
        let sources = &self.sources;
        let compile = |text: &[u8]| compile_config(sources, text);
        let result =
            call(&mut self.server, &mut Turn::new(&self.shared, &self.preparer, &compile, &self.cache), now);
        self.idle_at = self.shared.read().next_idle();
        result
    }

    /// Asks all workers how their ports are.
    fn ask_workers(&self) -> Result<Vec<oneshot::Receiver<Vec<Interface>>>, Gone> {
        let ask = |line: &Line| {
            let (tx, rx) = oneshot::channel();
            line.order(Order::Interfaces(tx)).map(|()| rx)
        };
        self.workers.iter().map(ask).collect()
    }

    /// Keeps access to the registers and counters of a new program, so that the switch is not taken for them again. Logs, once per
    /// program, if the program does not run as intended.
    fn look_at_program(&mut self) {
        let switch = self.shared.read();
        let warning = switch.executor().and_then(Runner::warning);
        self.cells = switch.state().map(State::watch);
        self.idle_at = switch.next_idle();
        drop(switch);
        if let Some(line) = warning.clone().filter(|w| self.warned.as_ref() != Some(w)) {
            self.tell(Level::Warn, line);
        }
        self.warned = warning;
    }

    /// Something that an operator should know.
    pub fn tell(&mut self, level: Level, line: String) {
        self.news.push((level, line));
    }

    /// Applies these settings to the queues.
    ///
    /// # Errors
    /// The queue does not exist.
    pub fn set_queues(&mut self, settings: &[Setting]) -> Result<(), QueueError> {
        let config = self.preparer.config();
        self.shared.change(|switch| queues::apply(switch, config, settings))
    }

    /// Sets exactly these packet generators. Equal ones continue.
    ///
    /// # Errors
    /// Names the generator, and what is wrong with it.
    pub fn set_generators(&mut self, all: &[Numbered]) -> Result<(), GeneratorError> {
        let now = self.now();
        self.shared.change(|switch| {
            let old = switch.generators();
            for (number, _) in old.iter().filter(|(n, _)| all.iter().all(|new| new.number != *n)) {
                let cleared = switch.set_generator(now, *number, None);
                cleared.map_err(|error| GeneratorError { number: *number, error })?;
            }
            let stays = |new: &&Numbered| {
                old.iter().any(|(n, g)| *n == new.number && Some(g) == new.generator.as_ref())
            };
            all.iter().filter(|new| !stays(new)).try_for_each(|Numbered { number, generator }| {
                let set = switch.set_generator(now, *number, generator.clone());
                set.map_err(|error| GeneratorError { number: *number, error })
            })
        })
    }

    /// Counters of the whole switch.
    pub fn stats(&mut self) -> Stats {
        self.shared.change(|switch| switch.stats().clone())
    }

    /// Counters of a port.
    pub fn port_stats(&mut self, port: u32) -> PortStats {
        self.shared.change(|switch| switch.port_stats(port))
    }

    /// The data behind the metrics.
    pub fn figures(&mut self) -> Figures {
        let (stats, now_us) = (self.stats(), self.program_time_us());
        let switch = self.shared.read();
        let tables = switch.state().map(switch::tables).unwrap_or_default();
        if let Some(state) = switch.state() {
            self.insights.iter_mut().for_each(|i| i.glance(state));
        }
        drop(switch);
        let mut program = Page::default();
        self.insights.iter().for_each(|i| i.add_to(self.cells.as_ref(), now_us, &mut program));
        Figures { stats, tables, waits: self.shared.waits(), program }
    }

    /// Whether a program processes packets.
    pub fn runs_a_program(&self) -> bool {
        self.shared.read().state().is_some()
    }

    /// Looks at one of `parts` parts of what takes long to look at.
    pub fn look(&mut self, parts: u64) {
        let now_us = self.program_time_us();
        if let Some(cells) = &self.cells {
            self.insights.iter_mut().for_each(|i| i.look(cells, now_us, parts));
        }
    }

    /// Microseconds, as the program sees them.
    fn program_time_us(&self) -> u64 {
        self.now().0 / 1000 + self.preparer.config().clock_offset_us
    }

    /// A worker's report.
    pub fn notified(&mut self, notices: Notices) {
        let Notices { packets, digests, events, followed, links, news } = notices;
        self.news.extend(news);
        for packet in packets {
            match self.server.packet_in(&packet) {
                Ok(outputs) => self.deliver(outputs),
                // Ordinary while no controller is there.
                Err(pointsman_control::PacketInError::NoPrimary) => {}
                Err(e) => {
                    self.tell(Level::Warn, format!("a packet for the control plane was dropped: {e}"));
                }
            }
        }
        if !digests.is_empty() {
            let outputs = self.server.digests(&digests, self.now(), unix_ns() as i64);
            self.deliver(outputs);
        }
        self.news.extend(events.into_iter().map(events::told));
        followed.into_iter().for_each(|followed| self.followed(followed));
        let changed = !links.is_empty();
        for (port, up) in links {
            self.control(|server, device, _| server.port_status(device, port, up));
        }
        if changed && let Some(first) = self.workers.first() {
            // A generator may have made packets. A worker that has ended makes none.
            let _ = first.order(Order::Look);
        }
    }

    /// When [`Core::tick`] has something to do.
    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.server.next_deadline(), self.idle_at, self.audit.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Runs timers.
    fn tick(&mut self) {
        let now = self.now();
        let sums = self.audit.take(now);
        self.news.extend(sums.into_iter().map(|line| (Level::Info, line)));
        if self.server.next_deadline().is_some_and(|at| at <= now) {
            let outputs = self.server.tick(now, unix_ns() as i64);
            self.deliver(outputs);
        }
        if self.idle_at.is_some_and(|at| at <= now) {
            let server = &mut self.server;
            let (outputs, next) = self.shared.change(|switch| {
                let idle = switch.take_idle(now, IDLE);
                let state = switch.state().filter(|_| !idle.is_empty());
                (state.map(|state| server.idle_entries(state, &idle, unix_ns() as i64)), switch.next_idle())
            });
            self.idle_at = next;
            self.deliver(outputs.unwrap_or_default());
        }
    }
}

/// A switch that is about to run.
pub struct Runtime {
    core: Core,
    workers: Vec<Worker>,
    jobs: Receiver<Job>,
    handle: Handle,
}

impl Runtime {
    /// A switch with a worker for each of these sets of ports. All have the same ports, in the same order. Its time begins at
    /// `start`.
    pub fn new(
        switch: SwitchConfig,
        executor: Choice,
        server: ServerConfig,
        sources: Texts,
        wires: Vec<Wires>,
        start: Time,
        insights: Vec<Box<dyn Insight>>,
    ) -> Result<Self, BuildError> {
        let (tx, jobs) = channel();
        let mut server = Server::new(server);
        // Translated port numbers may be interfaces.
        for (number, name) in wires.iter().flat_map(Wires::names) {
            server.set_port_name(number, Some(name.to_string()));
        }
        let mut switch = executor.switch(switch).map_err(BuildError::Switch)?;
        let preparer = switch.preparer();
        let seats: Vec<Seat> = match wires.len() {
            1 => vec![Seat::Alone],
            n => switch.add_workers(n).into_iter().map(Seat::Among).collect(),
        };
        let shared = Arc::new(Shared::new(switch));
        let clock = Clock::start(start);
        let common = Common { shared: shared.clone(), clock, control: tx.clone(), backlog: Arc::default() };
        let made = seats.into_iter().zip(wires).map(|(seat, w)| Worker::new(seat, w, common.clone()));
        let (workers, lines) = made.unzip();
        let core = Core {
            shared,
            preparer,
            cache: Cache::default(),
            workers: lines,
            warned: None,
            server,
            sources,
            streams: BTreeMap::new(),
            next_conn: 1,
            news: Vec::new(),
            clock,
            stop: false,
            audit: Audit::default(),
            insights,
            cells: None,
            idle_at: None,
            follower: None,
            followers: 0,
        };
        Ok(Runtime { core, workers, jobs, handle: Handle { jobs: tx } })
    }

    /// Sets how its workers wait for frames.
    pub fn set_poll(&mut self, mode: PollMode) {
        self.workers.iter_mut().for_each(|w| w.set_poll(mode));
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Applies these settings to the queues.
    ///
    /// # Errors
    /// The queue does not exist.
    pub fn set_queues(&mut self, settings: &[Setting]) -> Result<(), QueueError> {
        self.core.set_queues(settings)
    }

    /// Sets these packet generators.
    ///
    /// # Errors
    /// Names the generator, and what is wrong with it.
    pub fn set_generators(&mut self, all: &[Numbered]) -> Result<(), GeneratorError> {
        self.core.set_generators(all)
    }

    /// Starts with a compiled program. Controllers get `config` as its `p4_device_config`.
    ///
    /// # Errors
    /// It cannot run here.
    pub fn boot(&mut self, program: Compiled, config: &str) -> Result<(), RpcError> {
        let core = &mut self.core;
        let now = core.now();
        let compile = |_: &[u8]| Ok(program.clone());
        let mut turn = Turn::new(&core.shared, &core.preparer, &compile, &core.cache);
        core.server.boot(&mut turn, config.as_bytes(), now)?;
        drop(turn);
        core.look_at_program();
        Ok(())
    }

    /// Fills the tables and arrays of the program.
    ///
    /// # Errors
    /// A statement does not fit the program, or is of another kind. The statements before it have been executed.
    pub fn fill(&mut self, lines: &[pointsman_stf::Line]) -> Result<(), pointsman_stf::StfError> {
        let now = self.core.now();
        let filled = self.core.shared.change(|switch| match switch.state_mut() {
            Some(state) => pointsman_stf::fill(state, now, lines),
            None => Ok(()),
        });
        self.core.control(|server, device, _| server.adopt_replication(device));
        filled
    }

    /// Runs until it is stopped. `log` gets lines for the operator.
    ///
    /// # Errors
    /// A worker ended before it was stopped.
    pub fn run(mut self, log: impl FnMut(Level, &str)) -> Result<(), RunError> {
        self.run_until_stopped(log)
    }

    /// The same, and returns the switch for inspection.
    ///
    /// # Errors
    /// As of [`Runtime::run`].
    pub fn run_until_stopped(&mut self, mut log: impl FnMut(Level, &str)) -> Result<(), RunError> {
        self.work(&mut log)
    }

    fn work(&mut self, log: &mut dyn FnMut(Level, &str)) -> Result<(), RunError> {
        let Runtime { core, workers, jobs, handle } = self;
        // Pending lines are logged before the first packet.
        for worker in workers.iter_mut() {
            let (links, news) = (worker.wires.take_links(), worker.wires.take_news());
            core.notified(Notices { links, news, ..Notices::default() });
        }
        core.say(log);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (n, worker) in workers.iter_mut().enumerate() {
                // However it ends: the others must not continue without it.
                let end = EndOnDrop(handle.clone());
                let run = move || {
                    let _end = end;
                    worker.run()
                };
                let thread = std::thread::Builder::new().name(format!("worker {n}"));
                threads.push(thread.spawn_scoped(scope, run));
            }
            if threads.iter().all(Result::is_ok) {
                core.run(jobs, log);
            }
            for line in &core.workers {
                // It may have ended already.
                let _ = line.order(Order::Stop);
            }
            let ended = threads.into_iter().map(|thread| {
                let worked = thread.map_err(RunError::Thread)?.join();
                worked.map_err(|_| RunError::Panicked)?.map_err(RunError::Wait)
            });
            // All of them, even if the first one fails.
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// Summary of all packets, one line for the switch and one for each port.
    pub fn summary(&mut self) -> Vec<String> {
        let mut lines = vec![summary::switch(&self.core.stats())];
        let Some((first, others)) = self.workers.split_first_mut() else { return lines };
        let counted = |wires: &mut Wires| wires.ports().map(|(_, port)| port.counters()).collect();
        let mut more: Vec<Vec<Counters>> = others.iter_mut().map(|w| counted(&mut w.wires)).collect();
        if !more.is_empty() {
            more.insert(0, counted(&mut first.wires));
            lines.push(summary::workers(&more));
            more.remove(0);
        }
        lines.extend(first.wires.ports().enumerate().map(|(n, (state, port))| {
            let mut counters = port.counters();
            more.iter_mut().filter_map(|m| m.get(n)).for_each(|m| counters.add(m));
            summary::port(state, port.name(), &counters)
        }));
        lines
    }
}

/// Ends the switch when the thread ends that has it.
struct EndOnDrop(Handle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Core {
    /// Runs jobs and timers, until it is stopped.
    fn run(&mut self, jobs: &Receiver<Job>, log: &mut dyn FnMut(Level, &str)) {
        while !self.stop {
            let job = match self.next_deadline().map(|at| at.since(self.now())) {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(ns) => jobs.recv_timeout(Duration::from_nanos(ns)),
            };
            match job {
                Ok(job) => job(self),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let mut done = 1;
            while done < JOBS
                && let Ok(job) = jobs.try_recv()
            {
                job(self);
                done += 1;
            }
            self.tick();
            self.say(log);
        }
    }

    /// Logs pending lines.
    fn say(&mut self, log: &mut dyn FnMut(Level, &str)) {
        for (level, news) in self.news.drain(..) {
            log(level, &news);
        }
    }
}

/// Time of day for ports and messages: captures and notifications carry it.
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
