//! Bad cables.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use crate::{Counters, DropReason, Frame, FramePool, Port, PortError};

/// The faults of one direction. Each frame is first lost or not, then doubled or not; each copy is then held back or
/// not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a frame is lost, 0 to 1.
    pub loss: f64,
    /// Probability that a frame comes twice, 0 to 1.
    pub duplication: f64,
    /// Probability that a frame is overtaken by later ones, 0 to 1.
    pub reordering: f64,
}

/// The faults of a [`Faulty`] port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultConfig {
    /// From the wire into the switch.
    pub receive: Faults,
    /// From the switch onto the wire.
    pub transmit: Faults,
    /// How many later frames overtake a frame that is held back.
    pub hold_frames: u32,
    /// How long a frame is held back at most, for when no later ones come, in nanoseconds.
    pub hold_ns: u64,
}

impl Default for FaultConfig {
    /// Nothing goes wrong; frames that are held back wait for 3 others or 10 ms.
    fn default() -> Self {
        let none = Faults::default();
        Self { receive: none, transmit: none, hold_frames: 3, hold_ns: 10_000_000 }
    }
}

impl FaultConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`PortError::Config`] naming the field.
    pub fn validate(&self) -> Result<(), PortError> {
        for Faults { loss, duplication, reordering } in [self.receive, self.transmit] {
            for (field, value) in [("loss", loss), ("duplication", duplication), ("reordering", reordering)] {
                if !(0.0..=1.0).contains(&value) {
                    return Err(PortError::Config { field, rule: "a probability between 0 and 1" });
                }
            }
        }
        if self.hold_frames == 0 {
            return Err(PortError::Config { field: "hold_frames", rule: "at least 1 frame" });
        }
        Ok(())
    }
}

/// A frame that others overtake.
#[derive(Debug)]
struct Held {
    frame: Frame,
    /// How many have to overtake it still.
    frames: u32,
    /// When it continues in any case.
    until_ns: u64,
}

/// One direction of the cable.
#[derive(Debug)]
struct Lane {
    faults: Faults,
    held: VecDeque<Held>,
    lost: u64,
}

impl Lane {
    fn new(faults: Faults) -> Self {
        Self { faults, held: VecDeque::new(), lost: 0 }
    }

    /// Replaces the frames from `start` on by the cable's output.
    fn pass(
        &mut self,
        now_ns: u64,
        config: &FaultConfig,
        chance: &mut impl FnMut(f64) -> bool,
        pool: &mut FramePool,
        start: usize,
        frames: &mut Vec<Frame>,
    ) {
        let offered = frames.split_off(start);
        for frame in offered {
            if chance(self.faults.loss) {
                self.lost += 1;
                pool.give(frame);
                continue;
            }
            let twin = chance(self.faults.duplication).then(|| pool.copy_of(&frame));
            for frame in std::iter::once(frame).chain(twin) {
                if chance(self.faults.reordering) {
                    let until_ns = now_ns.saturating_add(config.hold_ns);
                    self.held.push_back(Held { frame, frames: config.hold_frames, until_ns });
                } else {
                    frames.push(frame);
                    self.overtake(frames);
                }
            }
        }
        while self.held.front().is_some_and(|held| held.until_ns <= now_ns) {
            frames.extend(self.held.pop_front().map(|held| held.frame));
        }
    }

    /// One frame has overtaken all that are held back.
    fn overtake(&mut self, frames: &mut Vec<Frame>) {
        for held in &mut self.held {
            held.frames -= 1;
        }
        while self.held.front().is_some_and(|held| held.frames == 0) {
            frames.extend(self.held.pop_front().map(|held| held.frame));
        }
    }

    fn due(&self) -> Option<u64> {
        self.held.front().map(|held| held.until_ns)
    }
}

/// Any port, behind a cable that loses, doubles and reorders frames.
///
/// `random` gives uniformly distributed 64-bit numbers; the same numbers make the same faults. Frames on the bad
/// cable count as transmitted when they reach the port inside, lost ones as injected drops.
#[derive(Debug)]
pub struct Faulty<P, R> {
    inner: P,
    config: FaultConfig,
    random: R,
    receive: Lane,
    transmit: Lane,
    /// Frames past the transmit cable that the port inside could not take yet.
    waiting: Vec<Frame>,
    /// When to offer them again.
    retry_ns: u64,
}

/// Interval of attempts to send frames that the inner port could not take.
const RETRY_INTERVAL_NS: u64 = 1_000_000;

impl<P: Port, R: FnMut() -> u64 + Send> Faulty<P, R> {
    /// Puts `inner` behind a bad cable.
    ///
    /// # Errors
    /// [`PortError::Config`] naming the field that is out of range.
    pub fn new(inner: P, config: FaultConfig, random: R) -> Result<Self, PortError> {
        config.validate()?;
        let (receive, transmit) = (Lane::new(config.receive), Lane::new(config.transmit));
        Ok(Self { inner, config, random, receive, transmit, waiting: Vec::new(), retry_ns: 0 })
    }

    /// When frames that were taken from the caller have to be offered to the port inside.
    fn push_due(&self) -> Option<u64> {
        let retry = (!self.waiting.is_empty()).then_some(self.retry_ns);
        [retry, self.transmit.due()].into_iter().flatten().min()
    }

    /// Sends the frames that have passed the cable, after `frames` have gone through it.
    fn push(&mut self, now_ns: u64, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        let start = self.waiting.len();
        self.waiting.append(frames);
        let mut chance = chance(&mut self.random);
        self.transmit.pass(now_ns, &self.config, &mut chance, pool, start, &mut self.waiting);
        self.retry_ns = now_ns.saturating_add(RETRY_INTERVAL_NS);
        self.inner.transmit(now_ns, pool, &mut self.waiting).map(|_| ())
    }
}

/// Turns uniform numbers into decisions. Certainties use up no numbers.
fn chance(random: &mut impl FnMut() -> u64) -> impl FnMut(f64) -> bool {
    move |probability| {
        // 53 bits: every value is exact.
        probability >= 1.0
            || (probability > 0.0 && (random() >> 11) as f64 / (1u64 << 53) as f64 <= probability)
    }
}

impl<P: Port, R: FnMut() -> u64 + Send> Port for Faulty<P, R> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn raw_fd(&self) -> Option<RawFd> {
        self.inner.raw_fd()
    }

    fn due(&self) -> Option<u64> {
        [self.inner.due(), self.receive.due(), self.push_due()].into_iter().flatten().min()
    }

    fn receive(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let before = frames.len();
        let received = self.inner.receive(now_ns, pool, frames);
        let mut random = chance(&mut self.random);
        self.receive.pass(now_ns, &self.config, &mut random, pool, before, frames);
        drop(random);
        // Otherwise frames held back would never be sent when nothing more is transmitted.
        let pushed = match self.push_due() {
            Some(due_ns) if due_ns <= now_ns => self.push(now_ns, pool, &mut Vec::new()),
            _ => Ok(()),
        };
        received.and(pushed).map(|()| frames.len() - before)
    }

    fn transmit(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        // One batch at a time waits for the inner port: further frames stay with the caller.
        if !self.waiting.is_empty() {
            self.push(now_ns, pool, &mut Vec::new())?;
        }
        if !self.waiting.is_empty() {
            return Ok(0);
        }
        let offered = frames.len();
        self.push(now_ns, pool, frames)?;
        Ok(offered)
    }

    fn discard(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        self.inner.discard(pool, frames);
    }

    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn has_carrier(&mut self) -> bool {
        self.inner.has_carrier()
    }

    /// The counters of the inner port with the injected losses. `rx_packets` counts the inner port's received frames.
    fn counters(&mut self) -> Counters {
        let mut counters = self.inner.counters();
        counters.add_drops(DropReason::RxInjected, self.receive.lost);
        counters.add_drops(DropReason::TxInjected, self.transmit.lost);
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryPort;

    fn random(mut state: u64) -> impl FnMut() -> u64 + Send {
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) << 32 | state.rotate_left(17) >> 32
        }
    }

    fn frame(number: u32) -> Frame {
        let mut frame = vec![0; 60];
        frame[..4].copy_from_slice(&number.to_be_bytes());
        frame
    }

    fn numbers(frames: &[Frame]) -> Vec<u32> {
        frames.iter().map(|frame| u32::from_be_bytes(frame[..4].try_into().unwrap())).collect()
    }

    /// Sends `count` frames through a faulty port, into the switch or out of it, and then lets time pass.
    fn run(faults: Faults, count: u32, transmit: bool) -> (Vec<u32>, Counters) {
        let (left, mut right) = MemoryPort::pair("left", "right", 100_000).unwrap();
        let mut config = FaultConfig::default();
        *(if transmit { &mut config.transmit } else { &mut config.receive }) = faults;
        let mut faulty = Faulty::new(left, config, random(3)).unwrap();
        let (mut pool, mut received) = (FramePool::default(), Vec::new());
        for number in 0..count {
            if transmit {
                assert_eq!(faulty.transmit(0, &mut pool, &mut vec![frame(number)]).unwrap(), 1);
            } else {
                right.send(&frame(number));
                faulty.receive(0, &mut pool, &mut received).unwrap();
            }
        }
        while let Some(due_ns) = faulty.due() {
            faulty.receive(due_ns, &mut pool, &mut received).unwrap();
        }
        if transmit {
            received = right.take();
        }
        (numbers(&received), faulty.counters())
    }

    #[test]
    fn a_good_cable_changes_nothing() {
        for transmit in [false, true] {
            assert_eq!(run(Faults::default(), 100, transmit).0, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn frames_are_lost_and_counted() {
        for transmit in [false, true] {
            let (numbers, counters) = run(Faults { loss: 0.1, ..Default::default() }, 10_000, transmit);
            assert!((8800..9200).contains(&numbers.len()), "{}", numbers.len());
            assert!(numbers.is_sorted());
            let reason = if transmit { DropReason::TxInjected } else { DropReason::RxInjected };
            assert_eq!(counters.dropped(reason), 10_000 - numbers.len() as u64);
        }
        assert_eq!(run(Faults { loss: 1.0, ..Default::default() }, 100, false).0, []);
    }

    #[test]
    fn frames_are_doubled() {
        let (mut numbers, _) = run(Faults { duplication: 0.2, ..Default::default() }, 10_000, false);
        assert!((11_700..12_300).contains(&numbers.len()), "{}", numbers.len());
        numbers.dedup();
        assert_eq!(numbers, (0..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn frames_are_overtaken_but_none_is_lost() {
        for transmit in [false, true] {
            let (mut numbers, _) = run(Faults { reordering: 0.05, ..Default::default() }, 10_000, transmit);
            let late = numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
            assert!((300..700).contains(&late), "{late}");
            for (index, &number) in numbers.iter().enumerate() {
                assert!(index.abs_diff(number as usize) < 20, "frame {number} came as number {index}");
            }
            numbers.sort_unstable();
            assert_eq!(numbers, (0..10_000).collect::<Vec<_>>());
        }
        // All held back: they come when their delay has elapsed.
        assert_eq!(run(Faults { reordering: 1.0, ..Default::default() }, 9, true).0.len(), 9);
    }

    #[test]
    fn the_same_numbers_make_the_same_faults() {
        let faults = Faults { loss: 0.1, duplication: 0.1, reordering: 0.1 };
        assert_eq!(run(faults, 1000, false), run(faults, 1000, false));
    }

    #[test]
    fn probabilities_are_checked() {
        let (left, _right) = MemoryPort::pair("left", "right", 1).unwrap();
        let receive = Faults { loss: 1.5, ..Default::default() };
        let error =
            Faulty::new(left, FaultConfig { receive, ..Default::default() }, random(1)).err().unwrap();
        assert_eq!(error.to_string(), "loss must be a probability between 0 and 1");
    }

    #[test]
    fn a_full_port_leaves_the_next_batch_to_the_caller() {
        let (left, mut right) = MemoryPort::pair("left", "right", 1).unwrap();
        let mut faulty = Faulty::new(left, FaultConfig::default(), random(1)).unwrap();
        let mut pool = FramePool::default();
        assert_eq!(faulty.transmit(0, &mut pool, &mut vec![frame(0), frame(1)]).unwrap(), 2);
        let mut frames = vec![frame(2)];
        assert_eq!(faulty.transmit(0, &mut pool, &mut frames).unwrap(), 0);
        assert_eq!(numbers(&right.take()), [0]);
        // Frames already taken continue without more to transmit.
        let due_ns = faulty.due().unwrap();
        faulty.receive(due_ns, &mut pool, &mut Vec::new()).unwrap();
        assert_eq!(faulty.due(), None);
        assert_eq!(faulty.transmit(0, &mut pool, &mut frames).unwrap(), 1);
        assert_eq!(numbers(&frames), [0u32; 0]);
        assert_eq!(numbers(&right.take()), [1]);
        faulty.receive(u64::MAX, &mut pool, &mut frames).unwrap();
        assert_eq!(numbers(&right.take()), [2]);
    }
}
