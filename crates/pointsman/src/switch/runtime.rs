//! The thread that owns a switch: packets, time and the control plane's calls meet here, one after the other.

use super::wires::Wires;
use pointsman_control::server::{ConnId, Output, Server, ServerConfig};
use pointsman_control::proto::p4rt;
use pointsman_control::RpcError;
use pointsman_v1model::Time;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc as stream, oneshot};

use super::device::BoxDevice;

/// Passes through the pipeline before the ports are looked at again.
const BUDGET: usize = 256;

/// What goes down a stream channel.
pub type StreamItem = Result<p4rt::StreamMessageResponse, RpcError>;

/// Everything that the thread owns.
pub struct Core {
    /// The switch.
    pub device: BoxDevice,
    /// P4Runtime.
    pub server: Server<BoxDevice>,
    streams: BTreeMap<ConnId, stream::UnboundedSender<StreamItem>>,
    next_conn: u64,
    start: Instant,
    stop: bool,
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
    pub async fn call<R: Send + 'static>(&self, job: impl FnOnce(&mut Core) -> R + Send + 'static) -> Result<R, Gone> {
        let (tx, rx) = oneshot::channel();
        self.post(move |core| {
            // The caller may have gone away: then nobody wants the answer.
            let _ = tx.send(job(core));
        })?;
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
        Time(self.start.elapsed().as_nanos() as u64)
    }

    /// A new stream channel; what the server has to say on it comes out of the receiver.
    pub fn open_stream(&mut self) -> (ConnId, stream::UnboundedReceiver<StreamItem>) {
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        let (tx, rx) = stream::unbounded_channel();
        self.streams.insert(conn, tx);
        (conn, rx)
    }

    /// A message came on a stream channel.
    pub fn stream_message(&mut self, conn: ConnId, message: &p4rt::StreamMessageRequest) {
        let now = self.now().0;
        let outputs = self.server.stream_message(&mut self.device, conn, message, now);
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
        for output in outputs {
            match output {
                Output::Send { conn, response } => {
                    if let Some(tx) = self.streams.get(&conn) {
                        // A client that hung up is told of by close_stream.
                        let _ = tx.send(Ok(response));
                    }
                }
                Output::Close { conn, error } => {
                    if let Some(tx) = self.streams.remove(&conn) {
                        let _ = tx.send(Err(error));
                    }
                }
                Output::PacketOut { packet } => {
                    let now = self.now();
                    self.device.receive_cpu(now, &packet);
                }
            }
        }
    }

    /// What the data plane has to say to the control plane.
    fn notify(&mut self, wires: &mut Wires) {
        let now = self.now().0;
        for packet in wires.take_cpu() {
            let outputs = self.server.packet_in(&mut self.device, &packet);
            self.deliver(outputs);
        }
        let outputs = self.server.poll(&mut self.device, now);
        self.deliver(outputs);
    }
}

/// A switch that is about to run.
pub struct Runtime {
    core: Core,
    wires: Wires,
    jobs: Receiver<Job>,
    handle: Handle,
}

impl Runtime {
    /// A switch over these ports.
    pub fn new(device: BoxDevice, config: ServerConfig, wires: Wires) -> Result<Self, String> {
        let (tx, jobs) = channel();
        let handle = Handle { jobs: tx, waker: wires.waker() };
        let core = Core {
            device,
            server: Server::new(config)?,
            streams: BTreeMap::new(),
            next_conn: 1,
            start: Instant::now(),
            stop: false,
        };
        Ok(Runtime { core, wires, jobs, handle })
    }

    /// How to reach it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The state before the thread starts.
    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Runs until it is stopped. `log` gets what an operator should know.
    pub fn run(mut self, mut log: impl FnMut(&str)) -> Result<(), String> {
        while !self.core.stop {
            // A controller that writes without end must not keep packets waiting.
            for _ in 0..64 {
                match self.jobs.try_recv() {
                    Ok(job) => job(&mut self.core),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
            let unix = unix_ns();
            let device = &mut self.core.device;
            let start = self.core.start;
            let frames = self.wires.receive(unix, |wires, port, frame| {
                let now = Time(start.elapsed().as_nanos() as u64);
                device.receive(now, port, frame);
                device.poll(now, BUDGET, wires);
            });
            let now = Time(start.elapsed().as_nanos() as u64);
            let more = device.poll(now, BUDGET, &mut self.wires);
            self.wires.flush(unix);
            self.core.notify(&mut self.wires);
            for event in self.core.device.take_events() {
                log(&event);
            }
            for complaint in self.wires.take_complaints() {
                log(&complaint);
            }
            if frames == 0 && !more {
                let deadline = [self.core.device.next_deadline(), self.core.server.next_deadline().map(Time)]
                    .into_iter()
                    .flatten()
                    .min()
                    .map(|at| start + Duration::from_nanos(at.0));
                self.wires.wait(unix_ns(), deadline).map_err(|e| format!("cannot wait for packets: {e}"))?;
            }
        }
        Ok(())
    }
}

/// Wall clock for the ports: capture files carry it.
fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
