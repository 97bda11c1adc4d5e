//! Cables inside the process, for tests.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Counters, DropReason, Frame, FramePool, Port, PortError, sys};

/// Frames on their way to one end.
#[derive(Debug)]
struct Lane {
    frames: Mutex<VecDeque<Frame>>,
    /// Readable while there are frames.
    event: OwnedFd,
}

impl Lane {
    fn new(name: &str) -> Result<Arc<Self>, PortError> {
        let event = sys::eventfd().map_err(|source| PortError::System {
            port: name.into(),
            doing: "make an event descriptor",
            source,
        })?;
        Ok(Arc::new(Self { frames: Mutex::default(), event }))
    }

    /// A thread that panicked while it held the lock left whole frames behind.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Frame>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end of a cable: what one end transmits, the other receives.
#[derive(Debug)]
pub struct MemoryPort {
    name: String,
    incoming: Arc<Lane>,
    outgoing: Arc<Lane>,
    capacity: usize,
    counters: Counters,
}

impl MemoryPort {
    /// Both ends of a cable that holds at most `capacity` frames on the way in each direction.
    ///
    /// # Errors
    /// When the process has too many open files.
    pub fn pair(left: &str, right: &str, capacity: usize) -> Result<(Self, Self), PortError> {
        let (to_left, to_right) = (Lane::new(left)?, Lane::new(right)?);
        let end = |name: &str, incoming: &Arc<Lane>, outgoing: &Arc<Lane>| Self {
            name: name.into(),
            incoming: incoming.clone(),
            outgoing: outgoing.clone(),
            capacity,
            counters: Counters::default(),
        };
        Ok((end(left, &to_left, &to_right), end(right, &to_right, &to_left)))
    }

    /// Sends one frame, for tests that need no pool. `false` when the cable is full or the frame is too short.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        let (mut pool, mut frames) = (FramePool::new(0), vec![frame.to_vec()]);
        let sent = self.transmit(0, &mut pool, &mut frames);
        self.discard(&mut pool, &mut frames);
        sent.is_ok_and(|count| count == 1)
    }

    /// Receives all that is there, for tests that need no pool.
    pub fn take(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        // This port's receive does not fail.
        let _ = self.receive(0, &mut FramePool::new(0), &mut frames);
        frames
    }
}

impl Port for MemoryPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.incoming.event.as_raw_fd())
    }

    fn receive(&mut self, _: u64, _: &mut FramePool, frames: &mut Vec<Frame>) -> Result<usize, PortError> {
        let before = frames.len();
        let mut lane = self.incoming.lock();
        frames.extend(lane.drain(..));
        sys::lower(self.incoming.event.as_fd());
        drop(lane);
        self.counters.add_received(&frames[before..]);
        Ok(frames.len() - before)
    }

    fn transmit(
        &mut self,
        _: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let before = frames.len();
        frames.retain_mut(|frame| {
            let keep = frame.len() >= 14;
            if !keep {
                pool.give(std::mem::take(frame));
            }
            keep
        });
        self.counters.add_drops(DropReason::TxTooShort, (before - frames.len()) as u64);

        let mut lane = self.outgoing.lock();
        let room = self.capacity.saturating_sub(lane.len()).min(frames.len());
        self.counters.add_sent(&frames[..room]);
        lane.extend(frames.drain(..room));
        if room > 0 {
            sys::raise(self.outgoing.event.as_fd()).map_err(|source| PortError::System {
                port: self.name.clone(),
                doing: "wake the other end",
                source,
            })?;
        }
        Ok(room)
    }

    fn discard(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        self.counters.add_drops(DropReason::TxQueueFull, frames.len() as u64);
        pool.give_all(frames.drain(..));
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Poller;

    #[test]
    fn frames_cross_in_order_and_wake_the_other_end() {
        let (mut left, mut right) = MemoryPort::pair("left", "right", 10).unwrap();
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        poller.add(1, right.raw_fd().unwrap());
        poller.wait(Some(Instant::now()), &mut ready).unwrap();
        assert!(ready.is_empty());

        assert!(left.send(&[1; 20]) && left.send(&[2; 30]));
        poller.wait(Some(Instant::now()), &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
        assert_eq!(right.take(), [vec![1; 20], vec![2; 30]]);
        poller.wait(Some(Instant::now()), &mut ready).unwrap();
        assert!(ready.is_empty());
        assert!(left.take().is_empty());

        let counters = left.counters();
        assert_eq!((counters.tx_packets, counters.tx_bytes), (2, 50));
        let counters = right.counters();
        assert_eq!((counters.rx_packets, counters.rx_bytes), (2, 50));
    }

    #[test]
    fn a_full_cable_leaves_the_rest_and_a_short_frame_is_dropped() {
        let (mut left, mut right) = MemoryPort::pair("left", "right", 2).unwrap();
        let mut pool = FramePool::default();
        let mut frames = vec![vec![0; 13], vec![1; 14], vec![2; 14], vec![3; 14]];
        assert_eq!(left.transmit(0, &mut pool, &mut frames).unwrap(), 2);
        assert_eq!(frames, [[3; 14]]);
        left.discard(&mut pool, &mut frames);
        assert!(frames.is_empty());
        assert_eq!(left.counters().dropped(DropReason::TxTooShort), 1);
        assert_eq!(left.counters().dropped(DropReason::TxQueueFull), 1);
        assert_eq!(right.take().len(), 2);
    }
}
