//! Sending frames at a given rate.

use super::template::TIMED;
use super::{Template, Transmitter};
use crate::error::Result;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as they are taken.
    Flood,
    /// So many frames a second.
    Rate(f64),
}

/// The frames to send.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of the probe, below 32,768.
    pub probe: u16,
    /// How fast.
    pub pace: Pace,
    /// For how long.
    pub duration: Duration,
    /// Maximum number of frames.
    pub limit: u32,
    /// How many of them, evenly spread, carry their time of sending. (Of a flood, none: its length is unknown.)
    pub timed: u32,
}

/// The frames sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offered {
    /// Frames that the wire took.
    pub frames: u64,
    /// Of these, with their time of sending.
    pub timed: u64,
    /// How long it took.
    pub elapsed: Duration,
}

impl Offered {
    /// Frames a second.
    pub fn rate_pps(&self) -> f64 {
        self.frames as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Frames prepared at a time.
const BATCH: usize = 64;
/// A delayed generator catches up at most this many frames; the rest is not sent. Otherwise it
/// would measure the effect of its own bursts.
const BACKLOG: f64 = 256.0;

/// Sends on the calling thread, which does not sleep meanwhile: at these rates a timer would be late every time.
pub fn generate(template: &Template, plan: &Plan, wire: &mut dyn Transmitter) -> Result<Offered> {
    template.validate()?;
    let (base, common) = template.base();
    let length = template.length;
    let mut batch: Vec<u8> = base.repeat(BATCH);
    let start = Instant::now();
    let expected = match plan.pace {
        Pace::Flood => 0.0,
        Pace::Rate(rate) => rate * plan.duration.as_secs_f64(),
    };
    let every = match plan.timed {
        0 => u32::MAX,
        timed => ((expected / f64::from(timed)).ceil() as u32).max(1),
    };
    let mut offered = Offered::default();
    let (mut next, mut skipped) = (0u32, 0.0);
    loop {
        let elapsed = start.elapsed();
        let left = plan.limit.saturating_sub(next);
        if elapsed >= plan.duration || left == 0 {
            offered.elapsed = elapsed;
            return Ok(offered);
        }
        let due = match plan.pace {
            Pace::Flood => BATCH,
            Pace::Rate(rate) => {
                let due = rate * elapsed.as_secs_f64() - skipped - f64::from(next);
                if due < 1.0 {
                    std::hint::spin_loop();
                    continue;
                }
                skipped += (due - BACKLOG).max(0.0);
                (due as usize).min(BATCH)
            }
        };
        let count = due.min(left as usize);
        let mut times = 0;
        for (at, frame) in batch.chunks_exact_mut(length).take(count).enumerate() {
            // `at` is below 64.
            let number = next + at as u32;
            let timed = plan.timed > 0 && number.is_multiple_of(every);
            let time = if timed { now_ns() } else { 0 };
            times += u64::from(timed);
            let probe = (plan.probe & !TIMED) | if timed { TIMED } else { 0 };
            template.finish(frame, common, probe, number, time);
        }
        let mut done = 0;
        while done < count {
            done += wire.transmit(&batch[done * length..count * length], length)?;
            if start.elapsed() >= plan.duration {
                break;
            }
        }
        offered.frames += done as u64;
        if done < count {
            // The last frames were not taken in time: of these, those with times must not count as lost.
            times = (0..done as u32).filter(|at| plan.timed > 0 && (next + at).is_multiple_of(every)).count()
                as u64;
        }
        offered.timed += times;
        next += count as u32;
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rack::Mac;
    use std::net::Ipv4Addr;

    /// Takes every other frame that it is offered.
    struct Reluctant(u64, u64);

    impl Transmitter for Reluctant {
        fn transmit(&mut self, frames: &[u8], length: usize) -> Result<usize> {
            let taken = (frames.len() / length).div_ceil(2);
            self.0 += taken as u64;
            let timed = |f: &&[u8]| f[46] & 0x80 != 0;
            self.1 += frames.chunks_exact(length).take(taken).filter(timed).count() as u64;
            Ok(taken)
        }
    }

    fn check(pace: Pace, limit: u32, timed: u32) -> Offered {
        let template = Template {
            source_mac: Mac([2; 6]),
            destination_mac: Mac([4; 6]),
            source: Ipv4Addr::LOCALHOST,
            destination: Ipv4Addr::LOCALHOST,
            port: 1,
            flows: 10,
            length: 60,
        };
        let mut wire = Reluctant(0, 0);
        let plan = Plan { probe: 1, pace, duration: Duration::from_millis(50), limit, timed };
        let offered = generate(&template, &plan, &mut wire).unwrap();
        assert_eq!((offered.frames, offered.timed), (wire.0, wire.1));
        offered
    }

    #[test]
    fn what_is_offered_is_counted() {
        assert_eq!(check(Pace::Flood, 1000, 0).frames, 1000);
        assert!(check(Pace::Flood, u32::MAX, 0).frames > 1000);
        // A busy machine sends less, never more.
        let paced = check(Pace::Rate(20_000.0), u32::MAX, 100);
        assert!(paced.frames <= 1000 && paced.timed <= 100 && paced.timed > 0, "{paced:?}");
    }
}
