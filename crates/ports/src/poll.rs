//! When to poll for frames again at once, and when to sleep.

/// How a forwarding loop waits for frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollMode {
    /// Never sleep: the least delay for a whole processor core.
    Busy,
    /// Poll again for a moment after the last frame, then sleep.
    #[default]
    Adaptive,
}

/// The next step after polling all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again at once.
    Again,
    /// Sleep until a descriptor is ready or something is due.
    Sleep,
}

/// How long to poll after the last frame: about the cost of going to sleep and waking up. Polling
/// that long in vain costs at most twice as much as the better choice.
const SPIN_NS: u64 = 5_000;

/// Two looks in a row without frames are about a microsecond apart. This much more, and another thread had the processor
/// meanwhile.
const GAP_NS: u64 = 200_000;

/// How long not to spin when other threads need the processor. Spinning would then delay the threads that
/// would send the next frame.
const MODESTY_NS: u64 = 50_000_000;

/// Decides between looking again and sleeping. Time is an argument: nanoseconds since any moment, never going back.
#[derive(Clone, Copy, Debug)]
pub struct PollStrategy {
    mode: PollMode,
    /// When there was a frame last.
    traffic_ns: u64,
    /// When a poll without frames last requested another poll.
    spun_ns: Option<u64>,
    /// No spinning before this.
    modest_until_ns: u64,
}

impl PollStrategy {
    /// A strategy that has not seen any frames.
    pub fn new(mode: PollMode) -> Self {
        Self { mode, traffic_ns: 0, spun_ns: None, modest_until_ns: 0 }
    }

    /// The next step after polling all ports, which found this many frames.
    pub fn after(&mut self, now_ns: u64, frames: usize) -> Step {
        if self.mode == PollMode::Busy {
            return Step::Again;
        }
        if let Some(spun_ns) = self.spun_ns.take()
            && now_ns.saturating_sub(spun_ns) > GAP_NS
        {
            self.modest_until_ns = now_ns.saturating_add(MODESTY_NS);
        }
        if frames > 0 {
            self.traffic_ns = now_ns;
            // The next frames may have come while these were being dealt with: one more look is cheaper than a wait.
            return Step::Again;
        }
        if now_ns < self.modest_until_ns || now_ns.saturating_sub(self.traffic_ns) >= SPIN_NS {
            return Step::Sleep;
        }
        self.spun_ns = Some(now_ns);
        Step::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls at these times, with this many frames; returns which of them lead to another poll.
    fn check(mode: PollMode, looks: &[(u64, usize, Step)]) {
        let mut strategy = PollStrategy::new(mode);
        for &(now_ns, frames, step) in looks {
            assert_eq!(strategy.after(now_ns, frames), step, "at {now_ns}");
        }
    }

    #[test]
    fn a_busy_loop_never_sleeps() {
        check(PollMode::Busy, &[(1, 0, Step::Again), (1 << 40, 0, Step::Again), (1 << 41, 1, Step::Again)]);
    }

    #[test]
    fn an_idle_loop_sleeps_at_once() {
        check(PollMode::Adaptive, &[(1 << 30, 0, Step::Sleep), (1 << 31, 0, Step::Sleep)]);
    }

    #[test]
    fn spinning_ends_soon_after_the_last_frame() {
        let start = 1 << 30;
        check(
            PollMode::Adaptive,
            &[
                (start, 3, Step::Again),
                (start + 1_000, 0, Step::Again),
                (start + SPIN_NS - 1, 0, Step::Again),
                (start + SPIN_NS, 0, Step::Sleep),
                (start + SPIN_NS + 100, 1, Step::Again),
                (start + SPIN_NS + 200, 0, Step::Again),
            ],
        );
    }

    #[test]
    fn a_loop_that_lost_the_processor_while_spinning_does_not_spin_for_a_while() {
        let start = 1 << 30;
        let lost = start + 1_000 + GAP_NS + 1;
        check(
            PollMode::Adaptive,
            &[
                (start, 3, Step::Again),
                (start + 1_000, 0, Step::Again),
                (lost, 1, Step::Again),
                (lost + 1_000, 0, Step::Sleep),
                // A long sleep does not mean that the processor was lost.
                (lost + MODESTY_NS, 2, Step::Again),
                (lost + MODESTY_NS + 1, 0, Step::Again),
            ],
        );
    }
}
