//! A connection with its bytes.

use crate::{Connection, Segment};
use std::collections::VecDeque;

/// A [`Connection`], the bytes that are to be sent, and those that were received.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The state machine. Do not write to it or take from it: [`Stream::write`] and [`Stream::read`] do.
    pub connection: Connection,
    /// Not acknowledged yet.
    outgoing: VecDeque<u8>,
    /// Sequence number of the first of them.
    first: u32,
    /// Not read yet: in order, then with gaps.
    incoming: VecDeque<u8>,
    /// Place of the first of them in the stream.
    read: u64,
}

impl Stream {
    /// `isn` is the connection's own initial sequence number.
    pub fn new(connection: Connection, isn: u32) -> Self {
        Stream {
            connection,
            outgoing: VecDeque::new(),
            first: isn.wrapping_add(1),
            incoming: VecDeque::new(),
            read: 0,
        }
    }

    /// Gives bytes to be sent. Ignored after [`Connection::close`].
    pub fn write(&mut self, bytes: &[u8]) {
        let before = self.connection.unacknowledged();
        self.connection.write(bytes.len() as u64);
        if self.connection.unacknowledged() > before {
            self.outgoing.extend(bytes);
        }
    }

    /// Appends the bytes that were received in order to `out`, and returns their number.
    pub fn read(&mut self, out: &mut Vec<u8>) -> usize {
        let bytes = self.connection.take() as usize;
        out.extend(self.incoming.drain(..bytes));
        self.read += bytes as u64;
        bytes
    }

    /// A segment with its data arrives.
    pub fn on_segment(&mut self, now: u64, segment: &Segment, data: &[u8]) {
        let accepted = self.connection.on_segment(now, segment);
        let (skip, len) = (accepted.skip as usize, accepted.len as usize);
        if let Some(bytes) = data.get(skip..skip + len).filter(|bytes| !bytes.is_empty()) {
            let at = (accepted.offset - self.read) as usize;
            if self.incoming.len() < at + len {
                self.incoming.resize(at + len, 0);
            }
            self.incoming.range_mut(at..at + len).zip(bytes).for_each(|(place, byte)| *place = *byte);
        }
        let done = self.outgoing.len() - self.connection.unacknowledged() as usize;
        self.outgoing.drain(..done);
        self.first = self.first.wrapping_add(done as u32);
    }

    /// The next segment to be sent now; appends its data to `out`.
    pub fn next_segment(&mut self, now: u64, out: &mut Vec<u8>) -> Option<Segment> {
        let segment = self.connection.next_segment(now)?;
        if segment.len > 0 {
            let at = segment.seq.wrapping_sub(self.first) as usize;
            out.extend(self.outgoing.range(at..at + segment.len as usize));
        }
        Some(segment)
    }
}
