//! The program under test on a switch, with established connections.

use super::error::ProgramError;
use super::measure::Subject;
use super::reference::Reference;
use super::scenario::{self, Known};
use super::traffic::{Mix, Ring, Sequence, Source, Step};
use super::workers::Lane;
use pointsman_frontend::Compiled;
use pointsman_ir::Executor;
use pointsman_stf::{Line, Rig};
use pointsman_v1model::{Arrived, DropReason, Sink, Switch, Time};
use std::sync::Arc;

/// Passes through the pipeline that a packet may cause; more is a loop.
const BUDGET: usize = 64;

/// Packets per batch, as given by a port.
const BATCH: usize = 64;

/// The measured load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Flows that are known.
    pub flows: usize,
    /// The packet mix.
    pub mix: Mix,
    /// Entries of the largest table of one of our programs.
    pub size: usize,
}

/// Gives the packets of a ring to a switch as a port does: in batches, with the passes that each packet may take.
/// Packets of a batch have one time, as in `pointsman switch`.
pub fn take_batches(ring: &mut Ring, mut process: impl FnMut(Time, usize, &mut [Arrived<'_>])) {
    let mut packets = ring.buffers();
    let mut batch = Vec::with_capacity(BATCH);
    while let Some((now, first)) = packets.next() {
        batch.push(first);
        batch.extend(packets.by_ref().take(BATCH - 1).map(|(_, arrived)| arrived));
        process(Time(now), BUDGET, &mut batch);
        batch.clear();
    }
}

/// Counts sent packets, and optionally keeps the last one.
#[derive(Default)]
pub struct Out {
    /// Packets that left.
    pub packets: u64,
    bytes: u64,
    keep: bool,
    last: Option<Vec<u8>>,
}

impl Sink for Out {
    #[inline]
    fn transmit(&mut self, _: u32, packet: &[u8]) {
        self.packets += 1;
        self.bytes += packet.len() as u64;
        if self.keep {
            self.last = Some(packet.to_vec());
        }
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        self.transmit(0, packet);
    }
}

/// A program with its packets.
pub struct Program<E: Executor> {
    rig: Rig<E>,
    out: Out,
    ring: Ring,
    source: Source,
    sequence: Sequence,
}

/// A reason, and how often.
type Loss = (DropReason, u64);

impl<E: Executor> Program<E> {
    /// Puts a program on a switch, fills it, and opens the flows. `reference` gets the connections.
    ///
    /// # Errors
    /// The program does not load, an entry does not fit, or flows cannot be opened.
    pub fn new(
        compiled: &Compiled,
        switch: Switch<E>,
        entries: Option<&[Line]>,
        load: Load,
        reference: &mut Reference,
    ) -> Result<Self, ProgramError> {
        let mut rig = Rig::with(Arc::new(compiled.program.clone()), switch)?;
        let known = Known::find(&compiled.program).filter(|_| entries.is_none());
        let source = match (entries, known) {
            (Some(lines), _) => scenario::from_file(&mut rig, lines, load.flows)?,
            (None, Some(known)) => scenario::fill(known, &mut rig, load.size, load.flows)?,
            (None, None) => scenario::from_file(&mut rig, &[], load.flows)?,
        };
        let ring = Ring::new(source.longest());
        let idle_ns = u64::from(scenario::SERVICE.idle_us) * 1000;
        let tick = tick(load, idle_ns);
        let sequence = Sequence::new(load.mix, Vec::new(), 0, rig.now.0, tick);
        let mut program = Program { rig, out: Out::default(), ring, source, sequence };
        program.open(load, tick, reference)?;
        Ok(program)
    }

    /// Sends a packet outside of the measurement; returns the last outgoing one.
    fn send(&mut self, step: Step, now: u64) -> Option<Vec<u8>> {
        let mut frame = [0; super::frame::SHORTEST];
        let (port, length) = self.source.write(step, &mut frame);
        self.out.keep = true;
        self.rig.switch.receive(Time(now), port, &frame[..length]);
        self.rig.switch.poll(Time(now), BUDGET, &mut self.out);
        self.out.keep = false;
        self.out.last.take()
    }

    /// Opens this many connections; those without a free place are omitted.
    fn open(&mut self, load: Load, tick: u64, reference: &mut Reference) -> Result<(), ProgramError> {
        let mut now = self.rig.now.0;
        let mut live = Vec::with_capacity(load.flows);
        let mut next = 0;
        match &self.source {
            Source::Frames(_) => live.extend(0..load.flows as u32),
            Source::Connections(_) => {
                while live.len() < load.flows {
                    if next as usize > 2 * load.flows + 1000 {
                        let (opened, flows) = (live.len(), load.flows);
                        return Err(ProgramError::Full { opened, tried: next, flows });
                    }
                    now += tick;
                    let step = Step::Opens(next);
                    if let Some(sent) = self.send(step, now) {
                        self.teach(reference, step, &sent, now)?;
                        live.push(next);
                    }
                    next += 1;
                }
            }
        }
        let next = next.max(load.flows as u32);
        self.sequence = Sequence::new(load.mix, live, next, now, tick);
        Ok(())
    }

    /// Which device a new connection gets is the program's choice: the reference takes it over.
    fn teach(
        &self,
        reference: &mut Reference,
        step: Step,
        sent: &[u8],
        now: u64,
    ) -> Result<(), ProgramError> {
        let to = super::frame::get32(sent, super::frame::IPV4 + 16);
        let device = scenario::devices().iter().position(|d| d.ipv4 == to);
        let device = device.ok_or(ProgramError::NotDevice(to.into()))?;
        let mut frame = [0; super::frame::SHORTEST];
        self.source.write(step, &mut frame);
        reference.learn(&frame, device as u16, (now / 1000) as u32);
        Ok(())
    }

    /// The incoming packets, for a comparison.
    pub fn packets(&self) -> (Sequence, Source) {
        (self.sequence.clone(), self.source.clone())
    }

    /// Sends packets of `n` known connections through both; they must do the same, byte for byte.
    ///
    /// # Errors
    /// They do not.
    pub fn compare(&mut self, reference: &mut Reference, n: usize) -> Result<(), ProgramError> {
        if !matches!(self.source, Source::Connections(_)) {
            return Ok(());
        }
        let (mut sequence, source) = self.packets();
        for _ in 0..n {
            let (step, now) = sequence.next();
            let mut frame = [0; super::frame::SHORTEST];
            source.write(step, &mut frame);
            let sent = self.send(step, now);
            if let (Step::Opens(_), Some(sent)) = (step, &sent) {
                self.teach(reference, step, sent, now)?;
                continue;
            }
            let same = match reference.handle(&mut frame, (now / 1000) as u32) {
                true => sent.as_deref() == Some(&frame[..]),
                false => sent.is_none(),
            };
            if !same {
                return Err(ProgramError::Differs { step, sent, wanted: frame.to_vec() });
            }
        }
        self.sequence = sequence;
        Ok(())
    }

    /// Splits the flows among this many workers.
    pub fn share(&mut self, workers: usize) -> Vec<Lane<E>> {
        let sequences = self.sequence.split(workers);
        let workers = self.rig.switch.add_workers(workers);
        let lane = |(worker, sequence)| Lane::new(worker, sequence, self.source.clone());
        workers.into_iter().zip(sequences).map(lane).collect()
    }

    /// The switch.
    pub fn switch(&mut self) -> &mut Switch<E> {
        &mut self.rig.switch
    }

    /// Incoming and outgoing packets, and the reasons for the difference, since the switch began.
    pub fn account(&mut self) -> (u64, u64, Vec<Loss>) {
        let stats = self.rig.switch.stats();
        (stats.received, self.out.packets, stats.drops.iter().map(|(r, n)| (*r, *n)).collect())
    }

    /// Bytes of the packets that this holds ready.
    pub fn ring_bytes(&self) -> usize {
        self.ring.bytes()
    }
}

/// Nanoseconds from one packet to the next. Connections that come again must not be forgotten in between; with new ones
/// alone as many are forgotten as come.
fn tick(load: Load, idle_ns: u64) -> u64 {
    let flows = load.flows.max(1) as u64;
    match load.mix {
        Mix::Hit => (idle_ns / (8 * flows)).clamp(1, 100),
        Mix::Miss => (idle_ns / flows).max(1),
        Mix::Churn => (idle_ns / (4 * flows)).max(1),
    }
}

impl<E: Executor> Subject for Program<E> {
    fn refill(&mut self, n: usize) {
        self.ring.refill(&mut self.sequence, &self.source, n);
    }

    fn process(&mut self) {
        let (switch, out) = (&mut self.rig.switch, &mut self.out);
        take_batches(&mut self.ring, |now, budget, batch| {
            switch.process(now, budget, batch, out);
        });
    }
}

/// The reference loop with its packets.
pub struct Plain {
    /// The loop.
    pub reference: Reference,
    ring: Ring,
    sequence: Sequence,
    source: Source,
    /// Packets that it sent on.
    pub forwarded: u64,
}

impl Plain {
    /// The loop with packets of known connections.
    pub fn new(reference: Reference, sequence: Sequence, source: Source) -> Self {
        Plain { reference, ring: Ring::new(source.longest()), sequence, source, forwarded: 0 }
    }

    /// The loop with as many generated connections, for programs without balancing.
    pub fn alone(mut reference: Reference, load: Load) -> Self {
        let source = Source::Connections(scenario::SERVICE);
        let idle_ns = u64::from(scenario::SERVICE.idle_us) * 1000;
        let (tick, mut now) = (tick(load, idle_ns), 0);
        let mut frame = [0; super::frame::SHORTEST];
        let devices = scenario::devices().len();
        for flow in 0..load.flows as u32 {
            now += tick;
            source.write(Step::Opens(flow), &mut frame);
            reference.learn(&frame, (flow as usize % devices) as u16, (now / 1000) as u32);
        }
        let live = (0..load.flows as u32).collect();
        let sequence = Sequence::new(load.mix, live, load.flows as u32, now, tick);
        Self::new(reference, sequence, source)
    }
}

impl Subject for Plain {
    fn refill(&mut self, n: usize) {
        self.ring.refill(&mut self.sequence, &self.source, n);
    }

    fn process(&mut self) {
        for (now, frame) in self.ring.packets() {
            self.forwarded += u64::from(self.reference.handle(frame, (now / 1000) as u32));
        }
    }
}
