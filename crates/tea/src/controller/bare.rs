//! Bare READs: how long a host waits for bytes of a memory server's memory, without a switch in between.

use super::setup::{Server, dram_bytes};
use crate::Options;
use crate::bed::Bed;
use crate::load::Watch;
use pointsman_lab::{Error, Result};
use pointsman_ports::FramePool;
use pointsman_roce::{Operation, Packet};
use pointsman_wire::Random;
use std::time::{Duration, Instant};

/// How long the host waits before it looks whether a request is to be repeated.
const TURN: Duration = Duration::from_millis(1);

/// Nanoseconds of `count` READs of each of these sizes in bytes, one after the other, from the first memory server of such a bed; sorted.
///
/// # Errors
/// The bed cannot be built, or the server does not answer.
pub fn bare_reads(options: &Options, sizes: &[usize], count: usize) -> Result<Vec<Vec<u64>>> {
    let bed = Bed::start(options, dram_bytes(options))?;
    bed.rack.switch.enter(|| reads(options, sizes, count))?
}

fn reads(options: &Options, sizes: &[usize], count: usize) -> Result<Vec<Vec<u64>>> {
    let layout = options.app.layout(options.layout.scratchpads());
    let mut random = Random::new(options.seed);
    let (mut server, mut way) = Server::set_up((0, false))?;
    let (_, mut requester) = server.share((0, 0), layout, (0, dram_bytes(options)), &mut random)?;
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let (mut pool, mut came, mut out) = (FramePool::default(), Vec::new(), Vec::new());
    let mut watch = Watch::new(std::iter::once(way.port.as_ref()));
    let mut all = Vec::new();
    for size in sizes {
        let mut took = Vec::new();
        for _ in 0..count {
            let at = now();
            let read = Operation::Read(server.memory.address, server.memory.key, *size as u32);
            let started = requester.start(at, read, &mut |p: &Packet<'_>| out.push(way.encode(p)));
            started.map_err(|e| Error::new(format!("a bare READ: {e}")))?;
            let bytes = loop {
                way.out.append(&mut out);
                let _ = way.port.transmit(now(), &mut pool, &mut way.out);
                way.port.discard(&mut pool, &mut way.out);
                // A link that is down is reported once; the requester repeats what is lost.
                let _ = way.port.receive(now(), &mut pool, &mut came);
                if came.is_empty() {
                    watch.wait(TURN);
                }
                for frame in came.drain(..) {
                    let decoded = Packet::decode(&frame).ok();
                    if let Some((packet, ..)) = decoded.filter(|(_, from, _)| *from == way.to) {
                        requester.receive(now(), &packet, &mut |p: &Packet<'_>| out.push(way.encode(p)));
                    }
                    pool.give(frame);
                }
                requester.wake(now(), &mut |p: &Packet<'_>| out.push(way.encode(p)));
                if let Some((_, done)) = requester.take_done() {
                    break done.map_err(|e| Error::new(format!("a bare READ: {e}")))?;
                }
            };
            if bytes.len() != *size {
                return Err(Error::new(format!("a bare READ of {size} bytes has {}", bytes.len())));
            }
            took.push(now() - at);
        }
        took.sort_unstable();
        all.push(took);
    }
    Ok(all)
}
