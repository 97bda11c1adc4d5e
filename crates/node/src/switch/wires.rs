//! The ports of a running switch: frames in, frames out.

use super::gnmi::model::Interface;
use crate::log::Level;
use pointsman_ports::{Frame, FramePool, LinkEvents, Poller, Port, PortError, Ready};
use pointsman_v1model::Sink;
use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

/// Frames that may wait for a port whose interface does not take them; more are dropped and counted. Small: a switch
/// that queues before the kernel only adds delay.
const MAX_WAITING: usize = 1024;

/// The poller's token for link changes: no port has this number.
const EVENTS: usize = usize::MAX;

/// Receptions between two checks for link changes while the switch is busy all the time.
const PATIENCE: u32 = 256;

/// One port.
struct Wire {
    number: u32,
    port: Box<dyn Port>,
    out: Vec<Frame>,
    /// An error that was already logged.
    failed: bool,
    /// The last logged state of the interface.
    up: bool,
    /// Whether the link had a carrier at the last check.
    carrier: bool,
    /// How often the carrier was lost.
    lost: u64,
}

/// All ports.
pub struct Wires {
    wires: Vec<Wire>,
    by_number: BTreeMap<u32, usize>,
    /// It reports link changes.
    first: bool,
    pool: FramePool,
    poller: Poller,
    /// `None` without interfaces.
    events: Option<LinkEvents>,
    /// Receptions until the events are checked under constant load.
    patience: u32,
    /// Ports whose link changed since the last [`Wires::take_links`].
    links: Vec<(u32, bool)>,
    batch: Vec<Frame>,
    /// Frames of the batch that are sent as they are.
    loans: Vec<Loan>,
    ready: Vec<Ready>,
    /// Packets for the control plane since the last [`Wires::take_cpu`].
    cpu: Vec<Vec<u8>>,
    /// Port events since the last [`Wires::take_news`].
    news: Vec<(Level, String)>,
    /// Logging of single packets.
    pub watch: Watch,
}

/// A frame that stays in the batch until the whole batch is processed.
struct Loan {
    /// Its port, and its position among that port's frames.
    wire: usize,
    place: usize,
    /// Of the batch.
    number: usize,
    /// Its address in memory, and its length.
    address: usize,
    length: usize,
}

/// A port and its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortState {
    /// Port number.
    pub number: u32,
    /// Whether the link has a carrier.
    pub carrier: bool,
    /// How often the carrier was lost.
    pub lost: u64,
}

/// Logging of every packet received or sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// A line of level debug.
    pub each: bool,
    /// A line of level info with this many of its bytes; 0 for none.
    pub bytes: usize,
}

impl Watch {
    fn line(self, port: u32, what: &str, packet: &[u8]) -> Option<(Level, String)> {
        let length = packet.len();
        if self.bytes > 0 {
            let shown = &packet[..length.min(self.bytes)];
            let mut line = format!("port {port}: {what} {length} bytes: ");
            line.extend(shown.iter().map(|b| format!("{b:02x}")));
            Some((Level::Info, line))
        } else {
            self.each.then(|| (Level::Debug, format!("port {port}: {what} {length} bytes")))
        }
    }
}

impl Wires {
    /// Ports by number. Numbers must differ. Of several workers with ports on the same interfaces only the `first` one
    /// reports link changes.
    pub fn new(ports: Vec<(u32, Box<dyn Port>)>, first: bool) -> io::Result<Self> {
        let mut poller = Poller::new()?;
        // Without it (refused by the kernel) link changes are detected by the ports only.
        let events = if ports.is_empty() || !first { None } else { LinkEvents::open().ok() };
        if let Some(events) = &events {
            poller.add(EVENTS, events.raw_fd());
        }
        let mut wires = Vec::new();
        let mut links = Vec::new();
        let mut news = Vec::new();
        let mut by_number = BTreeMap::new();
        for (number, mut port) in ports {
            if let Some(fd) = port.raw_fd() {
                poller.add(wires.len(), fd);
            }
            by_number.insert(number, wires.len());
            let up = port.is_up();
            if !up && first {
                let interface = port.name().to_string();
                let line = format!("port {number}: {}", PortError::LinkDown { interface });
                news.push((Level::Warn, line));
            }
            let carrier = port.has_carrier();
            if up && !carrier && first {
                news.push((Level::Warn, format!("port {number}: no carrier on '{}'", port.name())));
            }
            if first {
                links.push((number, carrier));
            }
            wires.push(Wire { number, port, out: Vec::new(), failed: false, up, carrier, lost: 0 });
        }
        Ok(Wires {
            wires,
            by_number,
            first,
            pool: FramePool::new(4096),
            poller,
            events,
            patience: PATIENCE,
            links,
            batch: Vec::new(),
            loans: Vec::new(),
            ready: Vec::new(),
            cpu: Vec::new(),
            news,
            watch: Watch::default(),
        })
    }

    /// Ends the current or the next [`Wires::wait`] from any thread.
    pub fn waker(&self) -> pointsman_ports::Waker {
        self.poller.waker()
    }

    /// Receives one batch from every port and passes it to `each` with its sender.
    /// Says how many frames there were. `unix_ns`: the ports' time.
    pub fn receive(&mut self, unix_ns: u64, mut each: impl FnMut(&mut Self, u32, &mut [Frame])) -> usize {
        let mut total = 0;
        self.patience = self.patience.saturating_sub(1);
        if self.patience == 0 {
            self.patience = PATIENCE;
            self.look_at_links();
        }
        for at in 0..self.wires.len() {
            let mut batch = std::mem::take(&mut self.batch);
            let wire = &mut self.wires[at];
            let number = wire.number;
            match wire.port.receive(unix_ns, &mut self.pool, &mut batch) {
                Ok(_) => wire.failed = false,
                Err(e) if !wire.failed => {
                    wire.failed = true;
                    if self.first || !is_about_link(&e) {
                        self.news.push((Level::Warn, format!("port {number}: {e}")));
                    }
                }
                Err(_) => {}
            }
            if wire.port.is_up() != wire.up {
                wire.up = !wire.up;
                // Going down is an error and has been logged.
                if wire.up && self.first {
                    let line = format!("port {number}: '{}' is up again", wire.port.name());
                    self.news.push((Level::Info, line));
                }
            }
            total += batch.len();
            for frame in &batch {
                self.news.extend(self.watch.line(number, "received", frame));
            }
            if !batch.is_empty() {
                each(self, number, &mut batch);
                self.settle(&mut batch);
            }
            self.pool.give_all(batch.drain(..));
            self.batch = batch;
        }
        total
    }

    /// Moves frames that are forwarded unchanged to their output ports.
    fn settle(&mut self, batch: &mut [Frame]) {
        for Loan { wire, place, number, address, length } in self.loans.drain(..) {
            let Some(frame) = batch.get_mut(number) else { continue };
            let start = address.wrapping_sub(frame.as_ptr() as usize);
            if start <= frame.len() && length <= frame.len() - start {
                frame.copy_within(start..start + length, 0);
                frame.truncate(length);
                self.wires[wire].out[place] = std::mem::take(frame);
            }
        }
    }

    /// Determines changed links, if the kernel reports any.
    fn look_at_links(&mut self) {
        if !self.events.as_mut().is_some_and(LinkEvents::take) {
            return;
        }
        for wire in &mut self.wires {
            let carrier = wire.port.has_carrier();
            if carrier == wire.carrier {
                continue;
            }
            wire.carrier = carrier;
            wire.lost += u64::from(!carrier);
            self.links.push((wire.number, carrier));
            let (level, what) = match carrier {
                true => (Level::Info, "carrier up on"),
                false => (Level::Warn, "carrier lost on"),
            };
            self.news.push((level, format!("port {}: {what} '{}'", wire.number, wire.port.name())));
        }
    }

    /// Ports whose link came up (`true`) or went down since the last call; at first, all.
    pub fn take_links(&mut self) -> Vec<(u32, bool)> {
        std::mem::take(&mut self.links)
    }

    /// Sends waiting frames, as far as the interfaces accept them.
    pub fn flush(&mut self, unix_ns: u64) {
        for (key, wire) in self.wires.iter_mut().enumerate() {
            if wire.out.is_empty() {
                continue;
            }
            if let Err(e) = wire.port.transmit(unix_ns, &mut self.pool, &mut wire.out)
                && !wire.failed
            {
                wire.failed = true;
                if self.first || !is_about_link(&e) {
                    self.news.push((Level::Warn, format!("port {}: {e}", wire.number)));
                }
            }
            if wire.out.len() > MAX_WAITING {
                wire.port.discard(&mut self.pool, &mut wire.out);
            }
            self.poller.want_writable(key, !wire.out.is_empty());
        }
    }

    /// Waits for a frame, room to send, the waker or the deadline.
    pub fn wait(&mut self, unix_ns: u64, deadline: Option<Instant>) -> io::Result<()> {
        let due = self.wires.iter().filter_map(|w| w.port.due()).min();
        let due = due.map(|at| Instant::now() + std::time::Duration::from_nanos(at.saturating_sub(unix_ns)));
        let deadline = [deadline, due].into_iter().flatten().min();
        self.poller.wait(deadline, &mut self.ready)?;
        for ready in &self.ready {
            if ready.closed {
                self.poller.remove(ready.key);
            }
            if ready.key == EVENTS {
                self.patience = 1;
            }
        }
        Ok(())
    }

    /// Packets that the program sent to the control plane.
    pub fn take_cpu(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.cpu)
    }

    /// Adds to the lines of [`Wires::take_news`].
    pub fn tell(&mut self, level: Level, line: String) {
        self.news.push((level, line));
    }

    /// Port events, once per change.
    pub fn take_news(&mut self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.news)
    }

    /// Every port, as gNMI shows it.
    pub fn interfaces(&mut self) -> Vec<Interface> {
        let show = |w: &mut Wire| Interface {
            name: w.port.name().to_string(),
            port: w.number,
            up: w.carrier,
            counters: w.port.counters(),
        };
        self.wires.iter_mut().map(show).collect()
    }

    /// The names of all ports.
    pub fn names(&self) -> impl Iterator<Item = (u32, &str)> {
        self.wires.iter().map(|w| (w.number, w.port.name()))
    }

    /// Every port.
    pub fn ports(&mut self) -> impl Iterator<Item = (PortState, &mut dyn Port)> {
        self.wires.iter_mut().map(|w| {
            let state = PortState { number: w.number, carrier: w.carrier, lost: w.lost };
            (state, &mut *w.port as &mut dyn Port)
        })
    }
}

/// Every worker notices it, one logs it.
fn is_about_link(error: &PortError) -> bool {
    matches!(error, PortError::LinkDown { .. } | PortError::LinkGone { .. })
}

impl Sink for Wires {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        if let Some(&at) = self.by_number.get(&port) {
            self.news.extend(self.watch.line(port, "sent", packet));
            let frame = self.pool.copy_of(packet);
            self.wires[at].out.push(frame);
        }
    }

    fn transmit_buffer(&mut self, port: u32, number: usize, packet: &[u8]) {
        if let Some(&wire) = self.by_number.get(&port) {
            self.news.extend(self.watch.line(port, "sent", packet));
            let out = &mut self.wires[wire].out;
            let (address, length) = (packet.as_ptr() as usize, packet.len());
            self.loans.push(Loan { wire, place: out.len(), number, address, length });
            // Its place in the order.
            out.push(Frame::new());
        }
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        if self.watch != Watch::default()
            && let Some((level, line)) = self.watch.line(0, "sent", packet)
        {
            self.news.push((level, line.replacen("port 0", "control plane", 1)));
        }
        self.cpu.push(packet.to_vec());
    }
}
