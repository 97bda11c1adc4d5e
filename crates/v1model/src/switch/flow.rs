//! Packets in, packets out: the work of a switch, and of each of its workers.

use super::core::{Bench, Core};
use super::drive::{Drive, Fixed};
use super::straight::Went;
use super::{Arrived, Polled, Sink};
use crate::stats::DropReason;
use crate::time::{Time, earlier};
use crate::trace::StepKind;
use pointsman_ir::Executor;

impl<F> Core<F> {
    /// Takes a packet from a port; it waits for [`Core::poll`].
    pub fn receive<E: Executor<Frame = F>>(
        &mut self,
        fixed: Option<&Fixed<E>>,
        now: Time,
        port: u32,
        packet: &[u8],
    ) {
        self.begin(fixed, now);
        let thread = self.thread(port, packet, |bytes| StepKind::Received { port, bytes });
        let Some(fixed) = fixed else {
            self.gate.stats.received += 1;
            return self.refuse(thread, DropReason::NoPipeline);
        };
        let refused = self.gate.accepts(port, packet.len()).err();
        self.gate.arrives(port, packet.len(), refused);
        if let Some(reason) = refused {
            return self.refuse(thread, reason);
        }
        self.admit(fixed, now, port, packet, thread);
    }

    /// Whatever is done with the switch at this point in time, packets that are due are made first.
    fn begin<E: Executor<Frame = F>>(&mut self, fixed: Option<&Fixed<E>>, now: Time) {
        self.last_now = self.last_now.max(now);
        self.trace.iter_mut().for_each(|t| t.now = now);
        if self.generators.next().is_some_and(|t| t <= now) {
            let mut generators = std::mem::take(&mut self.generators);
            generators.make(now, |port, at, packet| {
                self.gate.stats.generated += 1;
                let thread = self.thread(port, packet, |bytes| StepKind::Generated { port, bytes });
                match fixed {
                    Some(fixed) => self.admit(fixed, at, port, packet, thread),
                    None => self.refuse(thread, DropReason::NoPipeline),
                }
            });
            self.generators = generators;
        }
    }

    /// Puts a packet where it waits for ingress.
    fn admit<E: Executor<Frame = F>>(
        &mut self,
        fixed: &Fixed<E>,
        received: Time,
        port: u32,
        packet: &[u8],
        thread: u32,
    ) {
        if self.input.len() >= self.config.input_depth_packets as usize {
            return self.refuse(thread, DropReason::InputFull);
        }
        let mut p = fixed.packet(self);
        p.data.set(packet);
        p.ingress_port = port;
        p.received = received;
        p.fresh = true;
        p.way.thread = thread;
        self.input.push_back(p);
    }

    /// Takes a packet from the control plane.
    pub fn receive_cpu<E: Executor<Frame = F>>(
        &mut self,
        fixed: Option<&Fixed<E>>,
        now: Time,
        packet: &[u8],
    ) {
        self.gate.stats.received_from_cpu += 1;
        match self.config.cpu_port {
            Some(port) => self.receive(fixed, now, port, packet),
            None => {
                self.gate.stats.received += 1;
                self.refuse(0, DropReason::UnknownIngressPort);
            }
        }
    }

    /// Processes what can be processed now.
    pub fn poll<E: Executor<Frame = F>>(
        &mut self,
        drive: Option<Drive<'_, E>>,
        now: Time,
        budget: usize,
        sink: &mut dyn Sink,
    ) -> Polled {
        self.begin(drive.as_ref().map(|d| d.fixed), now);
        let Some(mut drive) = drive else { return Polled { passes: 0, more: false } };
        self.own.forget(&drive.state);
        let passes = drive.work(self, now, budget, sink);
        self.polled(now, passes)
    }

    fn polled(&self, now: Time, passes: usize) -> Polled {
        Polled { passes, more: self.next_deadline().is_some_and(|t| t <= now) }
    }

    /// When the next work besides new packets is due.
    pub fn next_deadline(&self) -> Option<Time> {
        earlier(self.next_ingress(), earlier(self.queues.next(), self.generators.next()))
    }

    /// Receives and polls packets one by one, without copies unless they have to wait.
    pub fn process<E: Executor<Frame = F>>(
        &mut self,
        drive: Option<&mut Drive<'_, E>>,
        now: Time,
        budget: usize,
        batch: &mut [Arrived<'_>],
        sink: &mut dyn Sink,
    ) -> Polled {
        let Some(drive) = drive else {
            batch.iter().for_each(|a| self.receive::<E>(None, now, a.port, a.packet()));
            return Polled { passes: 0, more: false };
        };
        self.own.forget(&drive.state);
        self.begin(Some(drive.fixed), now);
        let passes = match self.follows() {
            true => self.pick_out(drive, now, budget, batch, sink),
            false => self.in_place(drive, now, budget, batch, sink),
        };
        self.polled(now, passes)
    }

    /// Takes followed packets through step by step, and those between them in place; how many passes that were.
    #[cold]
    fn pick_out<E: Executor<Frame = F>>(
        &mut self,
        drive: &mut Drive<'_, E>,
        now: Time,
        budget: usize,
        batch: &mut [Arrived<'_>],
        sink: &mut dyn Sink,
    ) -> usize {
        let (mut passes, mut from) = (0, 0);
        while from < batch.len() {
            let wanted = |a: &Arrived<'_>| self.trace.as_ref().is_some_and(|t| t.wants(a.port, a.packet()));
            let until = batch[from..].iter().position(wanted).map_or(batch.len(), |n| from + n);
            let mut behind = Behind { sink: &mut *sink, by: from };
            passes += self.in_place(drive, now, budget, &mut batch[from..until], &mut behind);
            if let Some(arrived) = batch.get(until) {
                self.receive(Some(drive.fixed), now, arrived.port, arrived.packet());
                passes += drive.work(self, now, budget, sink);
            }
            from = until + 1;
        }
        passes
    }

    /// Takes packets through in place, as far as nothing holds them up; how many passes that were.
    fn in_place<E: Executor<Frame = F>>(
        &mut self,
        drive: &mut Drive<'_, E>,
        now: Time,
        budget: usize,
        batch: &mut [Arrived<'_>],
        sink: &mut dyn Sink,
    ) -> usize {
        let mut bench = self.bench.take().unwrap_or_default();
        let alone = batch.len() == 1 && budget >= 2 && self.is_clear(now) && drive.goes_through();
        let passes = match alone {
            // Nothing to plan.
            true => {
                let (_, before, last) = drive.through(self, now, &mut bench, (0, batch), sink);
                let aside = if last.aside { drive.work(self, now, budget - last.passes, sink) } else { 0 };
                before + last.passes + aside
            }
            false => self.process_batch(drive, now, budget, &mut bench, batch, sink),
        };
        self.bench = Some(bench);
        passes
    }

    /// Takes the packets of a batch through; how many passes that were.
    fn process_batch<E: Executor<Frame = F>>(
        &mut self,
        drive: &mut Drive<'_, E>,
        now: Time,
        budget: usize,
        bench: &mut Bench<F>,
        batch: &mut [Arrived<'_>],
        sink: &mut dyn Sink,
    ) -> usize {
        let mut passes = 0;
        let through = drive.goes_through();
        let foresees = through && batch.len() > 1 && drive.foresees(self, bench);
        // Nothing else is gained by stopping on the way.
        let at_once = if through && !foresees { batch.len().max(1) } else { drive.fixed.at_once };
        // Fetching takes time: it begins for a group of packets when the group before them sets out.
        if foresees && self.is_clear(now) {
            let first = at_once.min(batch.len());
            drive.look_ahead(self, now, bench, &mut batch[..first]);
        }
        for start in (0..batch.len()).step_by(at_once) {
            let end = (start + at_once).min(batch.len());
            let mut clear = budget >= 2 && self.is_clear(now);
            if clear && !through {
                drive.parse_ahead(self, now, &batch[start..end], bench);
            } else if clear && foresees && end < batch.len() {
                let more = (end + at_once).min(batch.len());
                drive.look_ahead(self, now, bench, &mut batch[end..more]);
            }
            let mut next = start;
            while next < end {
                let (mut budget, mut end) = (budget, end);
                // Packets that may leave do so first; if nothing else is due, this one need not wait.
                if !clear && through && self.is_idle(now) {
                    let left = drive.depart(self, now, budget, sink);
                    (passes, budget) = (passes + left, budget - left);
                    clear = budget >= 2 && self.is_clear(now);
                    // The budget of those behind it is another one.
                    end = next + 1;
                }
                if !clear {
                    let arrived = &batch[next];
                    self.receive(Some(drive.fixed), now, arrived.port, arrived.packet());
                    self.trace.iter_mut().for_each(|t| t.now = now);
                    passes += drive.work(self, now, budget, sink);
                    next += 1;
                    continue;
                }
                let went = if through {
                    let rest = (next, &mut batch[next..end]);
                    let (gone, before, last) = drive.through(self, now, bench, rest, sink);
                    next += gone;
                    passes += before;
                    last
                } else {
                    let place = bench.place(next - start, next, &mut batch[next]);
                    next += 1;
                    match place {
                        Some(place) => drive.straight(self, now, place, sink),
                        None => Went { passes: 0, aside: true },
                    }
                };
                passes += went.passes;
                if went.aside {
                    passes += drive.work(self, now, budget - went.passes, sink);
                    clear = self.is_clear(now);
                }
            }
        }
        passes
    }
}

/// The sink of the packets of a batch behind its first `by` ones.
struct Behind<'a> {
    sink: &'a mut dyn Sink,
    by: usize,
}

impl Sink for Behind<'_> {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        self.sink.transmit(port, packet);
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        self.sink.to_cpu(packet);
    }

    fn transmit_buffer(&mut self, port: u32, number: usize, packet: &[u8]) {
        self.sink.transmit_buffer(port, self.by + number, packet);
    }
}
