//! Datagrams that the store sends.

/// Datagrams on their way out, one behind the other in one buffer, which is used again.
#[derive(Debug)]
pub struct Outbox<A> {
    bytes: Vec<u8>,
    /// Receiver, and where the datagram ends.
    ends: Vec<(A, usize)>,
}

impl<A> Default for Outbox<A> {
    fn default() -> Self {
        Outbox { bytes: Vec::new(), ends: Vec::new() }
    }
}

impl<A: Copy> Outbox<A> {
    /// The datagrams, in order.
    pub fn iter(&self) -> impl Iterator<Item = (A, &[u8])> {
        self.ends.iter().scan(0, |start, (to, end)| {
            let datagram = &self.bytes[*start..*end];
            *start = *end;
            Some((*to, datagram))
        })
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds one, written by `write` at the end of the buffer.
    pub(crate) fn push(&mut self, to: A, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push((to, self.bytes.len()));
    }
}
