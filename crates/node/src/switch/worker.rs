//! A worker: a thread that passes packets from its own ports through the switch.

use super::gnmi::model::Interface;
use super::runtime::{Gone, Job, unix_ns};
use super::shared::Shared;
use super::wires::Wires;
use crate::clock::Clock;
use crate::log::Level;
use pointsman_compile::executor::Runner;
use pointsman_ports::{PollMode, PollStrategy, Step, Waker};
use pointsman_v1model::trace::Followed;
use pointsman_v1model::{self as v1model, Arrived, Digest, Event, Time};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Passes through the pipeline before the ports are polled again.
const BUDGET: usize = 256;

/// Capacity of a worker's order queue. The control plane waits when it is full.
const MAX_ORDERS: usize = 1024;

/// Packets and messages that wait for the control plane. More packets are dropped and counted; messages wait in the switch,
/// which has limits of its own.
const MAX_NOTICES: usize = 4096;

/// Retry interval of a worker whose report did not fit.
const RETRY_NS: u64 = 1_000_000;

/// A request from the control plane to a worker.
pub enum Order {
    /// Inject this packet on the CPU port.
    PacketOut(Vec<u8>),
    /// Report the state of the ports.
    Interfaces(oneshot::Sender<Vec<Interface>>),
    /// Look for work that came up in the switch.
    Look,
    /// End.
    Stop,
}

/// The control plane's way to a worker.
pub struct Line {
    orders: SyncSender<Order>,
    waker: Waker,
}

impl Line {
    /// Gives an order.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn order(&self, order: Order) -> Result<(), Gone> {
        match self.orders.try_send(order) {
            Ok(()) => {}
            Err(TrySendError::Full(order)) => {
                self.waker.wake().map_err(|_| Gone)?;
                self.orders.send(order).map_err(|_| Gone)?;
            }
            Err(TrySendError::Disconnected(_)) => return Err(Gone),
        }
        // The eventfd of a live poller takes every write.
        self.waker.wake().map_err(|_| Gone)
    }
}

/// A worker's report to the control plane.
#[derive(Default)]
pub struct Notices {
    /// Packets that the program sent there.
    pub packets: Vec<Vec<u8>>,
    /// Digests.
    pub digests: Vec<Digest>,
    /// Log messages and failed assertions.
    pub events: Vec<Event>,
    /// Packets that are followed.
    pub followed: Option<Followed>,
    /// Ports whose link changed.
    pub links: Vec<(u32, bool)>,
    /// Log lines for the operator.
    pub news: Vec<(Level, String)>,
}

impl Notices {
    fn count(&self) -> usize {
        self.packets.len() + self.digests.len() + self.events.len() + usize::from(self.followed.is_some())
    }

    fn is_empty(&self) -> bool {
        self.count() == 0 && self.links.is_empty() && self.news.is_empty()
    }
}

/// A worker's access to the switch.
pub enum Seat {
    /// It is the only one.
    Alone,
    /// It is one of several.
    Among(v1model::Worker<Runner>),
}

/// Remaining work after a batch.
struct After {
    more: bool,
    deadline: Option<Time>,
    digests: Vec<Digest>,
    events: Vec<Event>,
    followed: Option<Followed>,
}

impl Seat {
    fn process(&mut self, shared: &Shared, now: Time, batch: &mut [Arrived<'_>], wires: &mut Wires) {
        match self {
            Seat::Alone => {
                shared.work_alone(|switch| switch.process(now, BUDGET, batch, wires));
            }
            Seat::Among(worker) => {
                worker.process(&shared.work(), now, BUDGET, batch, wires);
            }
        }
    }

    /// Takes packets of the control plane, continues with waiting ones and, if requested, takes the messages.
    fn poll(
        &mut self,
        shared: &Shared,
        now: Time,
        packets: &mut Vec<Vec<u8>>,
        messages: bool,
        wires: &mut Wires,
    ) -> After {
        let mut after =
            After { more: false, deadline: None, digests: Vec::new(), events: Vec::new(), followed: None };
        match self {
            Seat::Alone => shared.work_alone(|switch| {
                packets.drain(..).for_each(|p| switch.receive_cpu(now, &p));
                after.more = switch.poll(now, BUDGET, wires).more;
                after.deadline = switch.next_poll();
                after.followed = switch.take_followed();
                if messages {
                    after.digests = switch.take_digests();
                    after.events = switch.take_events();
                }
            }),
            Seat::Among(worker) => {
                let switch = shared.work();
                packets.drain(..).for_each(|p| worker.receive_cpu(&switch, now, &p));
                after.more = worker.poll(&switch, now, BUDGET, wires).more;
                after.deadline = worker.next_deadline();
                after.followed = worker.take_followed(&switch);
                if messages {
                    after.digests = worker.take_digests(&switch);
                    after.events = worker.take_events();
                }
            }
        }
        after
    }
}

/// A worker and its ports.
pub struct Worker {
    seat: Seat,
    /// Its ports.
    pub wires: Wires,
    poll: PollStrategy,
    shared: Arc<Shared>,
    clock: Clock,
    orders: Receiver<Order>,
    control: Sender<Job>,
    /// Notices of all workers that the control plane has not seen yet.
    backlog: Arc<AtomicUsize>,
    /// Packets of the control plane.
    packets: Vec<Vec<u8>>,
    /// Time of the next work.
    deadline: Option<Time>,
    /// Packets for the control plane that were dropped since it last kept up.
    dropped: u64,
}

/// State shared by all workers of a switch.
#[derive(Clone)]
pub struct Common {
    /// The switch.
    pub shared: Arc<Shared>,
    /// The switch's clock.
    pub clock: Clock,
    /// The control plane.
    pub control: Sender<Job>,
    /// See [`Worker`].
    pub backlog: Arc<AtomicUsize>,
}

impl Worker {
    /// A worker, and the way to it.
    pub fn new(seat: Seat, wires: Wires, common: Common) -> (Self, Line) {
        let (tx, orders) = sync_channel(MAX_ORDERS);
        let line = Line { orders: tx, waker: wires.waker() };
        let Common { shared, clock, control, backlog } = common;
        let worker = Worker {
            seat,
            wires,
            poll: PollStrategy::new(PollMode::default()),
            shared,
            clock,
            orders,
            control,
            backlog,
            packets: Vec::new(),
            deadline: None,
            dropped: 0,
        };
        (worker, line)
    }

    /// Sets how it waits for frames.
    pub fn set_poll(&mut self, mode: PollMode) {
        self.poll = PollStrategy::new(mode);
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Works until it is stopped.
    ///
    /// # Errors
    /// The kernel does not let it wait.
    pub fn run(&mut self) -> io::Result<()> {
        let mut more = false;
        loop {
            let mut orders = 0;
            while orders < MAX_ORDERS
                && let Ok(order) = self.orders.try_recv()
            {
                orders += 1;
                match order {
                    Order::PacketOut(packet) => self.packets.push(packet),
                    // The caller may have disconnected.
                    Order::Interfaces(tx) => drop(tx.send(self.wires.interfaces())),
                    Order::Look => more = true,
                    Order::Stop => {
                        self.wires.flush(unix_ns());
                        return Ok(());
                    }
                }
            }
            let unix = unix_ns();
            let (seat, shared, clock) = (&mut self.seat, &self.shared, self.clock);
            // Each packet is completed before the next: queues hold only what they must, not a batch.
            let frames = self.wires.receive(unix, |wires, port, frames| {
                let arrived = |buffer| Arrived { port, buffer, start: 0 };
                let mut batch: Vec<Arrived<'_>> =
                    frames.iter_mut().map(|f| arrived(f.as_mut_slice())).collect();
                // A batch has one timestamp, since reading the clock costs as much as a look-up; and no frame is older than that.
                seat.process(shared, clock.now(), &mut batch, wires);
            });
            let due = self.deadline.is_some_and(|at| at <= clock.now());
            let mut said = Notices::default();
            if frames > 0 || more || due || !self.packets.is_empty() {
                let now = self.now();
                let room = self.backlog.load(Ordering::Relaxed) < MAX_NOTICES;
                let after = self.seat.poll(&self.shared, now, &mut self.packets, room, &mut self.wires);
                more = after.more;
                let retry = (!room).then(|| now.plus_ns(RETRY_NS));
                self.deadline = [after.deadline, retry].into_iter().flatten().min();
                said.digests = after.digests;
                (said.events, said.followed) = (after.events, after.followed);
            }
            self.wires.flush(unix);
            self.report(said);
            // More orders may follow whose wake-up is already consumed.
            let step = self.poll.after(self.now().0, frames);
            if orders == 0 && frames == 0 && !more && step == Step::Sleep {
                let left = self.deadline.map(|at| Duration::from_nanos(at.since(self.now())));
                let deadline = left.map(|left| Instant::now() + left);
                self.wires.wait(unix_ns(), deadline)?;
            }
        }
    }

    /// Passes pending packets and events to the control plane.
    fn report(&mut self, said: Notices) {
        let packets = self.wires.take_cpu();
        let (links, news) = (self.wires.take_links(), self.wires.take_news());
        let mut notices = Notices { packets, links, news, ..said };
        if notices.is_empty() {
            return;
        }
        if self.backlog.load(Ordering::Relaxed) >= MAX_NOTICES {
            if self.dropped == 0 && !notices.packets.is_empty() {
                let line = "dropping packets for the control plane: too many";
                notices.news.push((Level::Warn, line.to_string()));
            }
            self.dropped += notices.packets.len() as u64;
            notices.packets.clear();
        } else if self.dropped > 0 {
            let line = format!("{} packets for the control plane were dropped", self.dropped);
            notices.news.push((Level::Warn, line));
            self.dropped = 0;
        }
        let count = notices.count();
        self.backlog.fetch_add(count, Ordering::Relaxed);
        let backlog = self.backlog.clone();
        // If the control plane has stopped, this worker is about to stop.
        let _ = self.control.send(Box::new(move |core| {
            backlog.fetch_sub(count, Ordering::Relaxed);
            core.notified(notices);
        }));
    }
}
