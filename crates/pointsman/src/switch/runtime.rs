//! The thread that owns a switch: packets, time and the control plane's calls meet here, one after the other.

use super::gnmi::model::Interface;
use super::log::Level;
use super::queues::{self, Setting};
use super::summary;
use super::wires::Wires;
use crate::compiler::{self, rendered};
use crate::executor::{Choice, Runner};
use crate::sources::{Confined, Sources};
use pointsman_control::proto::p4rt;
use pointsman_control::{ConnId, Device, Output, RpcError, Server, ServerConfig, SwitchDevice};
use pointsman_ir::Program;
use pointsman_ports::{PollMode, PollStrategy, Step};
use pointsman_v1model::{Arrived, EventKind, Stats, Switch, SwitchConfig, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc as stream, oneshot};

/// Passes through the pipeline before the ports are looked at again.
const BUDGET: usize = 256;

/// Jobs of the control plane between two looks at the ports: one that writes without end must not keep packets waiting.
const JOBS: usize = 64;

/// Messages that may wait for a client that does not read them. More packets, digests and idle entries are dropped for
/// that client, which may miss them anyway; a client that is so far behind that it would miss anything else is cut off.
const MAX_WAITING: usize = 1024;

/// Of these, kept free for messages that must not be lost.
const RESERVED: usize = 64;

/// What goes down a stream channel.
pub type StreamItem = Result<p4rt::StreamMessageResponse, RpcError>;

/// Everything that the thread owns apart from the ports.
pub struct Core {
    switch: Switch<Runner>,
    /// The last warning about the executor that was told.
    warned: Option<String>,
    server: Server,
    sources: Sources,
    streams: BTreeMap<ConnId, Client>,
    next_conn: u64,
    /// What an operator should know and has not been told yet.
    news: Vec<(Level, String)>,
    /// Who wants to know about the ports, which are out of reach for jobs.
    asking: Vec<oneshot::Sender<Vec<Interface>>>,
    start: Instant,
    stop: bool,
}

/// The switch's end of a stream channel.
struct Client {
    items: stream::Sender<StreamItem>,
    /// Messages dropped since it last kept up.
    dropped: u64,
}

type Job = Box<dyn FnOnce(&mut Core) + Send>;

/// How other threads reach the switch.
#[derive(Clone)]
pub struct Handle {
    jobs: Sender<Job>,
    waker: pointsman_ports::Waker,
}

/// The switch's thread has ended.
#[derive(Debug)]
pub struct Gone;

impl Handle {
    /// Runs `job` on the switch's thread, between two packets.
    pub fn post(&self, job: impl FnOnce(&mut Core) + Send + 'static) -> Result<(), Gone> {
        self.jobs.send(Box::new(job)).map_err(|_| Gone)?;
        // The eventfd of a live poller takes every write.
        self.waker.wake().map_err(|_| Gone)
    }

    /// The same, with an answer.
    pub async fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let (tx, rx) = oneshot::channel();
        self.post(move |core| {
            // The caller may have gone away: then nobody wants the answer.
            let _ = tx.send(job(core));
        })?;
        rx.await.map_err(|_| Gone)
    }

    /// The ports as they are now.
    ///
    /// # Errors
    /// The switch has ended.
    pub async fn interfaces(&self) -> Result<Vec<Interface>, Gone> {
        let (tx, rx) = oneshot::channel();
        self.post(move |core| core.asking.push(tx))?;
        rx.await.map_err(|_| Gone)
    }

    /// Ends the thread.
    pub fn stop(&self) {
        // If it has ended already, all the better.
        let _ = self.post(|core| core.stop = true);
    }
}

impl Core {
    /// Time since the switch started.
    pub fn now(&self) -> Time {
        elapsed(self.start)
    }

    /// P4Runtime and the device that it serves.
    pub fn control<R>(&mut self, call: impl FnOnce(&mut Server, &mut dyn Device, Time) -> R) -> R {
        let now = self.now();
        let sources = &self.sources;
        let compile = |text: &[u8]| compile_config(sources, text);
        let mut device = SwitchDevice { switch: &mut self.switch, compile };
        let result = call(&mut self.server, &mut device, now);
        self.look_at_executor();
        result
    }

    /// Tells, once per program, if the program does not run as it was to run.
    fn look_at_executor(&mut self) {
        let warning = self.switch.executor().and_then(Runner::warning);
        if let Some(line) = warning.clone().filter(|w| self.warned.as_ref() != Some(w)) {
            self.tell(Level::Warn, line);
        }
        self.warned = warning;
    }

    /// Something that an operator should know.
    pub fn tell(&mut self, level: Level, line: String) {
        self.news.push((level, line));
    }

    /// Makes the queues what these settings say.
    ///
    /// # Errors
    /// There is no such queue.
    pub fn set_queues(&mut self, settings: &[Setting]) -> Result<(), String> {
        let config = self.switch.config().clone();
        queues::apply(&mut self.switch, &config, settings)
    }

    /// Counters of the whole switch.
    pub fn stats(&mut self) -> Stats {
        self.switch.stats().clone()
    }

    /// A new stream channel; what the server has to say on it comes out of the receiver.
    pub fn open_stream(&mut self) -> (ConnId, stream::Receiver<StreamItem>) {
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        let (items, rx) = stream::channel(MAX_WAITING);
        self.streams.insert(conn, Client { items, dropped: 0 });
        (conn, rx)
    }

    /// A message came on a stream channel.
    pub fn stream_message(&mut self, conn: ConnId, message: &p4rt::StreamMessageRequest) {
        let outputs = self.server.stream_message(conn, message);
        self.deliver(outputs);
    }

    /// A stream channel ended.
    pub fn close_stream(&mut self, conn: ConnId) {
        if self.streams.remove(&conn).is_some() {
            let outputs = self.server.connection_closed(conn);
            self.deliver(outputs);
        }
    }

    fn deliver(&mut self, outputs: Vec<Output>) {
        let mut outputs = VecDeque::from(outputs);
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Send { conn, response } => {
                    if !self.send(conn, response) {
                        self.streams.remove(&conn);
                        self.tell(
                            Level::Warn,
                            "a P4Runtime client that reads nothing was cut off".to_string(),
                        );
                        outputs.extend(self.server.connection_closed(conn));
                    }
                }
                Output::Close { conn, error } => {
                    if let Some(client) = self.streams.remove(&conn) {
                        // If there is no room, the stream just ends.
                        let _ = client.items.try_send(Err(error));
                    }
                }
                Output::PacketOut { packet } => {
                    let now = self.now();
                    self.switch.receive_cpu(now, &packet);
                }
            }
        }
    }

    /// Sends or drops; `false` if the client is too far behind for a message that it must not miss.
    fn send(&mut self, conn: ConnId, response: p4rt::StreamMessageResponse) -> bool {
        use p4rt::stream_message_response::Update;
        // A client that hung up is told of by close_stream.
        let Some(client) = self.streams.get_mut(&conn) else { return true };
        let notice = matches!(
            response.update,
            Some(Update::Packet(_) | Update::Digest(_) | Update::IdleTimeoutNotification(_))
        );
        if notice && client.items.capacity() <= RESERVED {
            if client.dropped == 0 {
                let line = "packets for a P4Runtime client are dropped: it does not keep up".to_string();
                self.news.push((Level::Warn, line));
            }
            client.dropped += 1;
            return true;
        }
        if client.dropped > 0 && client.items.capacity() > MAX_WAITING / 2 {
            let line = format!("{} packets for a P4Runtime client were dropped", client.dropped);
            self.news.push((Level::Warn, line));
            client.dropped = 0;
        }
        !matches!(client.items.try_send(Ok(response)), Err(stream::error::TrySendError::Full(_)))
    }

    /// What the data plane has to say to the control plane. Complaints go to `log`.
    fn notify(&mut self, wires: &mut Wires, log: &mut dyn FnMut(Level, &str)) {
        let now = self.now();
        for packet in wires.take_cpu() {
            match self.server.packet_in(&packet) {
                Ok(outputs) => self.deliver(outputs),
                // Ordinary while no controller is there.
                Err(pointsman_control::PacketInError::NoPrimary) => {}
                Err(e) => log(Level::Warn, &format!("a packet for the control plane was dropped: {e}")),
            }
        }
        let digests = self.switch.take_digests();
        if !digests.is_empty() {
            let outputs = self.server.digests(&digests, now, unix_ns() as i64);
            self.deliver(outputs);
        }
        if self.server.next_deadline().is_some_and(|at| at <= now) {
            let outputs = self.server.tick(now, unix_ns() as i64);
            self.deliver(outputs);
        }
        let idle = self.switch.take_idle(now);
        if !idle.is_empty()
            && let Some(state) = self.switch.state()
        {
            let outputs = self.server.idle_entries(state, &idle, unix_ns() as i64);
            self.deliver(outputs);
        }
        for event in self.switch.take_events() {
            let (level, what) = match event.kind {
                EventKind::Log(message) => (Level::Info, message),
                EventKind::AssertFailed(place) => (Level::Warn, false_check("assert", place.as_deref())),
                EventKind::AssumeFailed(place) => (Level::Warn, false_check("assume", place.as_deref())),
            };
            log(level, &format!("[{:.6} s] {what}", event.time.0 as f64 / 1e9));
        }
        for (level, news) in self.news.drain(..) {
            log(level, &news);
        }
    }
}

/// Compiles what a controller sends as `p4_device_config`: P4 source text.
fn compile_config(sources: &Sources, text: &[u8]) -> Result<Program, String> {
    // What p4c makes for BMv2, which controllers are used to send.
    if text.trim_ascii_start().starts_with(b"{") {
        return Err("p4_device_config is JSON, a compiler's output for BMv2: this target compiles P4 itself; send the \
                    text of the .p4 file instead"
            .to_string());
    }
    let text = std::str::from_utf8(text).map_err(|e| {
        format!(
            "p4_device_config is not UTF-8 text ({e}): this target takes P4 source, not a compiler's output"
        )
    })?;
    compiler::compile("p4_device_config", text, &Confined(sources), &[])
        .map(|c| c.program)
        .map_err(|failure| rendered(&failure))
}

/// A switch that is about to run.
pub struct Runtime {
    core: Core,
    wires: Wires,
    poll: PollStrategy,
    jobs: Receiver<Job>,
    handle: Handle,
}

impl Runtime {
    /// A switch over these ports.
    pub fn new(
        switch: SwitchConfig,
        executor: Choice,
        server: ServerConfig,
        sources: Sources,
        mut wires: Wires,
    ) -> Result<Self, String> {
        let (tx, jobs) = channel();
        let handle = Handle { jobs: tx, waker: wires.waker() };
        let mut server = Server::new(server)?;
        // Translated port numbers may be interfaces.
        for (state, port) in wires.ports() {
            server.set_port_name(state.number, Some(port.name().to_string()));
        }
        let core = Core {
            switch: executor.switch(switch).map_err(|e| e.to_string())?,
            warned: None,
            server,
            sources,
            streams: BTreeMap::new(),
            next_conn: 1,
            news: Vec::new(),
            asking: Vec::new(),
            start: Instant::now(),
            stop: false,
        };
        Ok(Runtime { core, wires, poll: PollStrategy::new(PollMode::default()), jobs, handle })
    }

    /// How it waits for frames from now on.
    pub fn set_poll(&mut self, mode: PollMode) {
        self.poll = PollStrategy::new(mode);
    }

    /// How to reach it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Makes the queues what these settings say.
    ///
    /// # Errors
    /// There is no such queue.
    pub fn set_queues(&mut self, settings: &[Setting]) -> Result<(), String> {
        self.core.set_queues(settings)
    }

    /// Starts with a compiled program. `config` is what controllers get as its `p4_device_config`.
    pub fn boot(&mut self, program: &Program, config: &str) -> Result<(), String> {
        let core = &mut self.core;
        let now = core.now();
        let compile = |_: &[u8]| Ok(program.clone());
        let mut device = SwitchDevice { switch: &mut core.switch, compile };
        core.server.boot(&mut device, config.as_bytes(), now).map_err(|e| e.message)?;
        core.look_at_executor();
        Ok(())
    }

    /// Runs until it is stopped. `log` gets what an operator should know.
    pub fn run(mut self, log: impl FnMut(Level, &str)) -> Result<(), String> {
        self.run_until_stopped(log)
    }

    /// The same, and leaves the switch to be looked at.
    pub fn run_until_stopped(&mut self, mut log: impl FnMut(Level, &str)) -> Result<(), String> {
        loop {
            let mut jobs = 0;
            while jobs < JOBS
                && let Ok(job) = self.jobs.try_recv()
            {
                job(&mut self.core);
                jobs += 1;
            }
            if self.core.stop {
                break;
            }
            let unix = unix_ns();
            let (switch, start) = (&mut self.core.switch, self.core.start);
            // What came together has one time: asking for it costs as much as a look-up.
            let now = elapsed(start);
            // Each packet goes all the way through before the next: queues hold what queues must, not a batch.
            let frames = self.wires.receive(unix, |wires, port, frames| {
                let arrived = |buffer| Arrived { port, buffer, start: 0 };
                let mut batch: Vec<Arrived<'_>> =
                    frames.iter_mut().map(|f| arrived(f.as_mut_slice())).collect();
                switch.process(now, BUDGET, &mut batch, wires);
            });
            let polled = switch.poll(elapsed(start), BUDGET, &mut self.wires);
            self.wires.flush(unix);
            self.core.notify(&mut self.wires, &mut log);
            if !self.core.asking.is_empty() {
                let interfaces = self.wires.interfaces();
                for asking in self.core.asking.drain(..) {
                    // Who asked may have gone away.
                    let _ = asking.send(interfaces.clone());
                }
            }
            for (port, up) in self.wires.take_links() {
                self.core.control(|server, device, _| server.port_status(device, port, up));
            }
            for (level, line) in self.wires.take_news() {
                log(level, &line);
            }
            // After jobs there may be more, whose wake-up is spent.
            let step = self.poll.after(elapsed(start).0, frames);
            if jobs == 0 && frames == 0 && !polled.more && step == Step::Sleep {
                let deadline = [self.core.switch.next_deadline(), self.core.server.next_deadline()]
                    .into_iter()
                    .flatten()
                    .min()
                    .map(|at| start + Duration::from_nanos(at.0));
                self.wires.wait(unix_ns(), deadline).map_err(|e| format!("cannot wait for packets: {e}"))?;
            }
        }
        self.wires.flush(unix_ns());
        Ok(())
    }

    /// What became of all packets, one line for the switch and one for each port.
    pub fn summary(&mut self) -> Vec<String> {
        let mut lines = vec![summary::switch(self.core.switch.stats())];
        lines.extend(self.wires.ports().map(|(state, port)| {
            let counters = port.counters();
            summary::port(state, port.name(), &counters)
        }));
        lines
    }
}

fn elapsed(start: Instant) -> Time {
    Time(start.elapsed().as_nanos() as u64)
}

/// Time of day for ports and messages: captures and notifications carry it.
fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

fn false_check(what: &str, place: Option<&str>) -> String {
    let at = place.map(|p| format!("{p}: ")).unwrap_or_default();
    format!("{at}an {what} was false; the packet was dropped")
}
