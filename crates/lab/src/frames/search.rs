//! The highest rate at which nothing is lost.

use serde::Serialize;

/// The result of a probe: frames offered for a while, frames that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// Frames a second that were to be offered; none for a flood.
    pub asked_pps: Option<f64>,
    /// Frames a second that the generator managed.
    pub offered_pps: f64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Processor time used by the forwarder meanwhile, nanoseconds.
    pub cpu_ns: u64,
}

impl Probe {
    /// Share of the frames that did not arrive.
    pub fn loss(&self) -> f64 {
        self.sent.saturating_sub(self.received) as f64 / (self.sent.max(1)) as f64
    }

    /// Time on processors for each frame that arrived, nanoseconds.
    pub fn cpu_ns_per_frame(&self) -> f64 {
        self.cpu_ns as f64 / self.received.max(1) as f64
    }

    /// Frames a second that arrived while frames were offered.
    pub fn delivered_pps(&self) -> f64 {
        self.offered_pps * self.received.min(self.sent) as f64 / self.sent.max(1) as f64
    }
}

/// The criteria of freedom from loss, and when to stop the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossRule {
    /// Highest share of lost frames.
    pub max_loss: f64,
    /// Maximum tries of a rate that is not sustained: other work on the machine can also lose frames.
    pub tries: u32,
    /// Rates looked at, apart from the flood.
    pub steps: u32,
    /// The search ends when the rates that hold and do not hold are as close as this.
    pub precision: f64,
}

impl Default for LossRule {
    fn default() -> Self {
        Self { max_loss: 1e-5, tries: 2, steps: 12, precision: 0.02 }
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LossFree {
    /// The highest rate that held, as offered; zero if none did.
    pub loss_free_pps: f64,
    /// Delivered frames of a flood.
    pub delivered_pps: f64,
    /// Time on processors for each frame of the flood that arrived, nanoseconds.
    pub cpu_ns_per_frame: f64,
    /// The generator's rate in the flood: the upper end of the search.
    pub flood_pps: f64,
    /// All frames of the flood were delivered: the measured limit is the generator's.
    pub generator_limited: bool,
    /// All probes in order, the flood first.
    pub probes: Vec<Probe>,
}

/// Searches with `probe`, which offers frames at a rate (`None`: as fast as possible).
pub fn loss_free<E>(
    rule: &LossRule,
    mut probe: impl FnMut(Option<f64>) -> Result<Probe, E>,
) -> Result<LossFree, E> {
    let flood = probe(None)?;
    let mut found = LossFree {
        loss_free_pps: 0.0,
        delivered_pps: flood.delivered_pps(),
        cpu_ns_per_frame: flood.cpu_ns_per_frame(),
        flood_pps: flood.offered_pps,
        generator_limited: flood.loss() <= rule.max_loss,
        probes: vec![flood],
    };
    if found.generator_limited {
        found.loss_free_pps = flood.offered_pps;
        return Ok(found);
    }
    // The rate delivered in a flood is a good first guess, not a bound: an overwhelmed switch may do more when offered less.
    let (mut holds, mut fails) = (0.0, flood.offered_pps);
    let mut guess = (found.delivered_pps * 0.95).min(fails * 0.95);
    for _ in 0..rule.steps {
        if guess < 1.0 || (holds > 0.0 && fails - holds <= holds * rule.precision) {
            break;
        }
        let mut held = false;
        for _ in 0..rule.tries.max(1) {
            let result = probe(Some(guess))?;
            found.probes.push(result);
            if result.loss() <= rule.max_loss {
                held = true;
                // A generator that falls behind has shown only its own rate.
                found.loss_free_pps = found.loss_free_pps.max(result.offered_pps.min(guess));
                break;
            }
        }
        if held {
            holds = guess;
        } else {
            fails = guess;
        }
        // Until the limit is between two guesses, in steps: the flood's rate may be far above it.
        guess = match (holds, fails) {
            (0.0, fails) => fails * 0.85,
            (holds, fails) if fails > holds * 1.3 => holds * 1.15,
            (holds, fails) => (holds + fails) / 2.0,
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver that loses nothing below `capacity`, and delivers a share of it under a flood.
    fn check(capacity: f64, flood: f64, under_flood: f64) -> LossFree {
        let probe = |rate: Option<f64>| {
            let offered = rate.unwrap_or(flood);
            let received =
                if offered <= capacity { offered } else { (capacity * under_flood).min(0.9 * offered) };
            let (sent, received) = (offered as u64, received as u64);
            Ok::<_, ()>(Probe { asked_pps: rate, offered_pps: offered, sent, received, cpu_ns: 0 })
        };
        loss_free(&LossRule::default(), probe).unwrap()
    }

    #[test]
    fn the_capacity_is_found() {
        for (capacity, under_flood) in [(500e3, 1.0), (60e3, 0.4), (990e3, 0.9), (20e3, 1.0), (300e3, 1.3)] {
            let found = check(capacity, 1e6, under_flood);
            assert!(!found.generator_limited);
            assert!(found.loss_free_pps <= capacity, "{capacity}: {found:?}");
            assert!(found.loss_free_pps >= 0.93 * capacity, "{capacity}: {found:?}");
            assert!(found.probes.len() <= 25, "{capacity}: {}", found.probes.len());
        }
    }

    #[test]
    fn a_generator_that_is_too_slow_is_told_of() {
        let found = check(2e6, 1e6, 1.0);
        assert!(found.generator_limited);
        assert_eq!(found.loss_free_pps, 1e6);
    }

    #[test]
    fn what_always_loses_has_no_rate() {
        let probe = |rate: Option<f64>| {
            let offered_pps = rate.unwrap_or(1e6);
            Ok::<_, ()>(Probe {
                asked_pps: rate,
                offered_pps,
                sent: offered_pps as u64,
                received: 1,
                cpu_ns: 0,
            })
        };
        let found = loss_free(&LossRule::default(), probe).unwrap();
        assert_eq!(found.loss_free_pps, 0.0);
    }
}
