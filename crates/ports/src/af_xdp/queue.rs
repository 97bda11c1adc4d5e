//! One queue pair: a socket, and which chunks of its memory are free.

use std::io;

use crate::af_packet::is_link_trouble;
use crate::join::fits;
use crate::offload;
use crate::sys::xsk::{XdpSizes, XdpSocket};
use crate::{Counters, DropReason, Frame, FramePool};

/// Frames that are looked at in one go, so that the processor fetches the later ones while the first are copied.
const LOOK_AHEAD: usize = 64;

/// The first half of the chunks is for receiving: each is in the fill ring, with the kernel, or in the receive ring.
/// The second half is for sending: each is free, in the transmit ring, with the kernel, or in the completion ring.
pub(super) struct Queue {
    pub socket: XdpSocket,
    chunk: u64,
    free: Vec<u64>,
    /// Frames taken out of the ring and not copied yet: place and length.
    found: Vec<(u64, usize)>,
    pub zero_copy: bool,
}

impl Queue {
    pub fn new(socket: XdpSocket, sizes: XdpSizes) -> Self {
        let (ring, chunk) = (u64::from(sizes.ring), u64::from(sizes.chunk));
        let mut queue = Self { zero_copy: false, socket, chunk, free: Vec::new(), found: Vec::new() };
        for index in 0..ring {
            queue.socket.fill.push(index * chunk);
        }
        queue.socket.fill.publish();
        queue.free.extend((ring..2 * ring).rev().map(|index| index * chunk));
        queue
    }

    /// Appends at most `batch` frames. `repair`: checksums may be unfinished.
    pub fn receive(
        &mut self,
        batch: usize,
        repair: bool,
        counters: &mut Counters,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> io::Result<()> {
        let before = frames.len();
        let socket = &mut self.socket;
        let mut taken = 0;
        while taken < batch {
            let wanted = LOOK_AHEAD.min(batch - taken);
            while self.found.len() < wanted
                && let Some(frame) = socket.received.pop()
            {
                socket.umem.prefetch(frame.addr);
                self.found.push((frame.addr, frame.len as usize));
            }
            let count = self.found.len();
            for (at, bytes) in self.found.drain(..) {
                match socket.umem.frame(at, bytes) {
                    Some(bytes) if bytes.len() >= 14 => {
                        let mut frame = pool.copy_of(bytes);
                        if repair {
                            offload::finish_unfinished(&mut frame);
                        }
                        frames.push(frame);
                    }
                    Some(_) => counters.add_drops(DropReason::RxTooShort, 1),
                    None => counters.add_drops(DropReason::RxTruncated, 1),
                }
                socket.fill.push(at / self.chunk * self.chunk);
            }
            taken += count;
            if count < wanted {
                break;
            }
        }
        if taken > 0 {
            socket.received.release();
            socket.fill.publish();
            counters.add_received(&frames[before..]);
        }
        if socket.fill.needs_wakeup() {
            match socket.kick_receive() {
                Err(error) if is_link_trouble(&error) => return Err(error),
                // Nothing there now, or the driver is busy: the flag stays up.
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends as many of the first `count` frames as there is room for and returns their number. Frames longer than
    /// `longest` and shorter than an Ethernet header are dropped and counted.
    ///
    /// # Errors
    /// Trouble with the link. Frames that are in the ring by then are sent when it returns.
    pub fn transmit(
        &mut self,
        longest: usize,
        count: usize,
        counters: &mut Counters,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> io::Result<usize> {
        let mut gone = 0;
        let mut count = count.min(frames.len());
        loop {
            self.reclaim();
            let room = self.socket.sent.room(count as u32) as usize;
            let (mut used, mut sent) = (0, 0);
            for frame in &frames[..count] {
                if frame.len() < 14 {
                    counters.add_drops(DropReason::TxTooShort, 1);
                } else if !fits(frame, longest) {
                    counters.add_drops(DropReason::TxTooLong, 1);
                } else {
                    if sent >= room {
                        break;
                    }
                    let Some(at) = self.free.pop() else {
                        break;
                    };
                    if self.socket.umem.put(at, frame) {
                        let len = frame.len() as u32;
                        self.socket.sent.push(libc::xdp_desc { addr: at, len, options: 0 });
                        counters.tx_packets += 1;
                        counters.tx_bytes += u64::from(len);
                        sent += 1;
                    } else {
                        self.free.push(at);
                        counters.add_drops(DropReason::TxTooLong, 1);
                    }
                }
                used += 1;
            }
            pool.give_all(frames.drain(..used));
            gone += sent;
            if sent > 0 {
                self.socket.sent.publish();
            }
            self.kick(counters)?;
            count -= used;
            if used == 0 || count == 0 {
                return Ok(gone);
            }
        }
    }

    /// Takes back the chunks that the kernel has sent.
    fn reclaim(&mut self) {
        let before = self.free.len();
        while let Some(at) = self.socket.completed.pop() {
            self.free.push(at / self.chunk * self.chunk);
        }
        if self.free.len() > before {
            self.socket.completed.release();
        }
    }

    /// Lets the kernel send the frames in the ring, as far as it gets.
    fn kick(&mut self, counters: &mut Counters) -> io::Result<()> {
        let mut before = self.socket.sent.waiting();
        while before > 0 && self.socket.sent.needs_wakeup() {
            let result = self.socket.kick_transmit();
            let left = self.socket.sent.waiting();
            match result {
                // The driver sends by itself from here on.
                Ok(()) if self.zero_copy => break,
                Ok(()) => {}
                Err(error) if is_link_trouble(&error) => return Err(error),
                // The device has thrown away the last frame that it was given.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && left < before => {
                    counters.add_drops(DropReason::TxRefused, 1);
                    counters.tx_packets = counters.tx_packets.saturating_sub(1);
                    let bytes = self.socket.sent.last_taken().len;
                    counters.tx_bytes = counters.tx_bytes.saturating_sub(u64::from(bytes));
                }
                // So many at once, or too many on their way.
                Err(_) => {}
            }
            if left == before {
                break;
            }
            before = left;
        }
        Ok(())
    }

    /// Whether frames wait in the ring for a call of [`Queue::kick`].
    pub fn is_stuck(&mut self) -> bool {
        self.socket.sent.waiting() > 0 && self.socket.sent.needs_wakeup()
    }

    /// Sends what did not get away earlier.
    pub fn push(&mut self, counters: &mut Counters) -> io::Result<()> {
        self.kick(counters)
    }
}
