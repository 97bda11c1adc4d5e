//! Packets of flows with and without entries, a number of them under way at a time, and what comes back.

use crate::bed::{Bed, FOUND, SENDER, UNKNOWN};
use crate::controller::{CHANGING, Shared};
use pointsman_lab::{Error, Result};
use pointsman_ports::{Frame, FramePool, Port, Want, open_interface};
use pointsman_remote::Zipf;
use pointsman_wire::Random;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A packet that has not come after this time is taken for lost.
pub const GIVE_UP: Duration = Duration::from_millis(300);
/// Packets that are sent at once, at most, if a rate is given.
const BURST: u64 = 64;
/// Bytes of packets besides their number; most are short.
const PADDINGS: [usize; 16] = [0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 70, 700, 1464];

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Flows with entries, and those without, which follow.
    pub entries: u32,
    /// Flows without entries.
    pub absent: u32,
    /// Exponent of the popularity of flows with entries.
    pub zipf: f64,
    /// Whether half of the packets are of the flows whose entries change.
    pub churn: bool,
    /// Packets under way at a time.
    pub window: usize,
    /// Packets a second, instead.
    pub rate: Option<u32>,
    /// Random numbers.
    pub seed: u64,
}

/// The packets that returned.
#[derive(Clone, Debug, Default)]
pub struct Came {
    /// Nanoseconds from a packet's start to its return.
    pub latencies: Vec<u64>,
}

/// The hosts' interfaces.
pub struct Ports {
    sender: Box<dyn Port>,
    sinks: [(bool, Box<dyn Port>); 2],
}

fn open(bed: &Bed, host: &str) -> Result<Box<dyn Port>> {
    let host = bed.rack.host(host)?;
    let opened = host.namespace.enter(|| open_interface(&host.interface, Want::AfPacket))?;
    Ok(opened.map_err(|e| Error::new(e.to_string()))?.0)
}

/// Opens the hosts' interfaces.
///
/// # Errors
/// The kernel refuses.
pub fn open_ports(bed: &Bed) -> Result<Ports> {
    let sinks = [(true, open(bed, FOUND.0)?), (false, open(bed, UNKNOWN.0)?)];
    Ok(Ports { sender: open(bed, SENDER.0)?, sinks })
}

/// The next packet's flow.
fn choose(random: &mut Random, zipf: &Zipf, traffic: &Traffic) -> u32 {
    let flows = traffic.entries + traffic.absent;
    if traffic.churn && random.below(2) == 0 {
        return random.below(flows.min(CHANGING).into()) as u32;
    }
    let any = random.below(flows.into()) as u32;
    if any < traffic.entries { zipf.draw(random) } else { any }
}

/// Sends packets until `shared.stop`, and a moment longer receives them.
pub fn run(mut ports: Ports, shared: &Shared, traffic: Traffic) -> Came {
    let (mut pool, mut frames, mut out) = (FramePool::default(), Vec::new(), Vec::<Frame>::new());
    let mut random = Random::new(traffic.seed);
    let zipf = Zipf::new(traffic.entries, traffic.zipf);
    let mut under_way: BTreeMap<u64, u64> = BTreeMap::new();
    let mut came = Came::default();
    let (mut number, mut skipped, start) = (0, 0, shared.now());
    let mut ends: Option<Instant> = None;
    while ends.is_none_or(|at| Instant::now() < at) {
        let mut idle = true;
        for (found, port) in &mut ports.sinks {
            // A link of these is never cut.
            let _ = port.receive(shared.now(), &mut pool, &mut frames);
            if frames.is_empty() {
                continue;
            }
            idle = false;
            let mut checker = shared.checker();
            for frame in frames.drain(..) {
                let now = shared.now();
                if let Some((number, sent)) = checker.receive(now, *found, &frame) {
                    came.latencies.push(now - sent);
                    under_way.remove(&number);
                }
                pool.give(frame);
            }
        }
        let now = shared.now();
        let late = |at: &u64| *at + (GIVE_UP.as_nanos() as u64) < now;
        while let Some(first) = under_way.first_entry().filter(|e| late(e.get())) {
            first.remove();
        }
        if ends.is_none() && shared.stop.load(Relaxed) {
            ends = Some(Instant::now() + GIVE_UP);
        }
        let due = match traffic.rate {
            None => traffic.window.saturating_sub(under_way.len()),
            // What could not be sent in time is sent now, but not all of a long pause.
            Some(rate) => {
                let all = shared.now().saturating_sub(start) as u128 * u128::from(rate) / 1_000_000_000;
                let due = (all as u64).saturating_sub(number + skipped);
                skipped += due.saturating_sub(BURST);
                due.min(BURST) as usize
            }
        };
        if ends.is_none() && due > 0 {
            let mut checker = shared.checker();
            for _ in 0..due {
                let flow = choose(&mut random, &zipf, &traffic);
                let padding = PADDINGS[random.below(PADDINGS.len() as u64) as usize];
                let now = shared.now();
                out.push(checker.send(now, flow, padding));
                under_way.insert(number, now);
                number += 1;
            }
            drop(checker);
            let _ = ports.sender.transmit(shared.now(), &mut pool, &mut out);
            ports.sender.discard(&mut pool, &mut out);
            idle = false;
        }
        if idle {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    came
}
