//! The trait that every port implements.

use std::os::fd::RawFd;

use crate::{Counters, Frame, FramePool, PortError};

/// Something that Ethernet frames come from and go to. No call blocks.
///
/// `now_ns` is the caller's time in nanoseconds, normally since the Unix epoch. Ports have no clock:
/// the time only reaches capture files, replay, held-back frames and the interval of attempts to recover.
///
/// After an error a port can still be used. Frames that were received before the error are in `frames`.
pub trait Port: Send {
    /// The port's name: the interface, for ports that have one.
    fn name(&self) -> &str;

    /// A descriptor that becomes readable when there may be something to receive, for a [`Poller`](crate::Poller).
    /// It stays the same as long as the port lives. `None` for ports without one: ask [`Port::due`].
    fn raw_fd(&self) -> Option<RawFd>;

    /// When to call [`Port::receive`] although the descriptor is quiet, in the caller's time: frames to be
    /// replayed or held back, an interface that may have returned. 0 means at once, `None` never.
    fn due(&self) -> Option<u64> {
        None
    }

    /// Appends about one batch of frames and returns their number. 0: nothing now.
    ///
    /// # Errors
    /// An error of the port as a whole, once per change: an interface that is down is reported by one call and is then
    /// merely quiet until it returns. Errors of single frames are counted, never returned.
    fn receive(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError>;

    /// Sends frames from the front of `frames`, gives their buffers to `pool`, and returns their number.
    ///
    /// Frames that the port can never send (too long, too short, link down) are dropped and counted. The rest in
    /// `frames` did not fit now: try again when the descriptor is writable, or [`discard`](Port::discard) them.
    ///
    /// # Errors
    /// As for [`Port::receive`].
    fn transmit(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError>;

    /// Drops frames that `transmit` left behind and counts them as
    /// [`TxQueueFull`](crate::DropReason::TxQueueFull).
    fn discard(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>);

    /// Whether the link is up, as far as the port knows.
    fn is_up(&self) -> bool {
        true
    }

    /// Whether the link is up now, as far as the port can know: interface up, and with a carrier. Call it after
    /// [`LinkEvents`](crate::LinkEvents) reported a change.
    fn has_carrier(&mut self) -> bool {
        self.is_up()
    }

    /// Totals since the port was opened.
    fn counters(&mut self) -> Counters;
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn raw_fd(&self) -> Option<RawFd> {
        (**self).raw_fd()
    }

    fn due(&self) -> Option<u64> {
        (**self).due()
    }

    fn receive(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        (**self).receive(now_ns, pool, frames)
    }

    fn transmit(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        (**self).transmit(now_ns, pool, frames)
    }

    fn discard(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        (**self).discard(pool, frames);
    }

    fn is_up(&self) -> bool {
        (**self).is_up()
    }

    fn has_carrier(&mut self) -> bool {
        (**self).has_carrier()
    }

    fn counters(&mut self) -> Counters {
        (**self).counters()
    }
}
