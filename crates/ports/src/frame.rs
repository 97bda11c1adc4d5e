//! Frames and the pool that their buffers come from.

/// One Ethernet frame, from the destination address up to (not including) the frame check sequence.
pub type Frame = Vec<u8>;

/// Room a fresh buffer has: a full-size frame and the headers that a program may add to it.
const FRESH_CAPACITY: usize = 2048;

/// A buffer that grew beyond this is not kept: one jumbo frame must not make the pool large for ever.
const KEEP_CAPACITY: usize = 16 * 1024;

/// Buffers waiting to be used again, so that the hot path does not allocate for every packet.
///
/// A pool belongs to one thread. Frames that travel to another thread are given to that thread's pool; move them
/// back with [`FramePool::take_spare`] and [`FramePool::give_all`] if traffic only flows one way.
#[derive(Debug)]
pub struct FramePool {
    spare: Vec<Frame>,
    keep: usize,
}

impl Default for FramePool {
    /// A pool that keeps at most 4096 buffers (8 MiB of ordinary ones).
    fn default() -> Self {
        Self::new(4096)
    }
}

impl FramePool {
    /// A pool that keeps at most `keep` buffers; further returned buffers are freed.
    pub fn new(keep: usize) -> Self {
        Self { spare: Vec::new(), keep }
    }

    /// An empty buffer.
    pub fn take(&mut self) -> Frame {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(FRESH_CAPACITY))
    }

    /// A buffer that holds a copy of `bytes`.
    pub fn copy_of(&mut self, bytes: &[u8]) -> Frame {
        let mut frame = self.take();
        frame.extend_from_slice(bytes);
        frame
    }

    /// Takes a buffer back.
    pub fn give(&mut self, mut frame: Frame) {
        let useful = (1..=KEEP_CAPACITY).contains(&frame.capacity());
        if useful && self.spare.len() < self.keep {
            frame.clear();
            self.spare.push(frame);
        }
    }

    /// Takes many buffers back.
    pub fn give_all(&mut self, frames: impl IntoIterator<Item = Frame>) {
        frames.into_iter().for_each(|frame| self.give(frame));
    }

    /// Removes and returns every spare buffer, for another thread's pool.
    pub fn take_spare(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.spare)
    }

    /// How many buffers are waiting.
    pub fn spare(&self) -> usize {
        self.spare.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_come_back_empty() {
        let mut pool = FramePool::new(2);
        let frame = pool.copy_of(b"hello");
        let address = frame.as_ptr();
        pool.give(frame);
        let again = pool.take();
        assert_eq!(again.as_ptr(), address);
        assert!(again.is_empty());
    }

    #[test]
    fn the_pool_is_bounded_in_number_and_size() {
        let mut pool = FramePool::new(2);
        pool.give(Vec::with_capacity(KEEP_CAPACITY * 2));
        pool.give(Vec::new());
        assert_eq!(pool.spare(), 0);
        pool.give_all((0..5).map(|_| vec![0; 60]));
        assert_eq!(pool.spare(), 2);
        assert_eq!(pool.take_spare().len(), 2);
        assert_eq!(pool.spare(), 0);
    }
}
