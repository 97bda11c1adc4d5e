//! Sending on packet sockets, segments of a stream together.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{MAX_BATCH, retry};
use crate::join::{Joined, join};
use crate::offload::VNET_HEADER_BYTES;

/// A message to be sent: one frame, or several as one.
pub(crate) enum Outgoing<'a> {
    Frame(&'a [u8]),
    Joined(Box<Joined>, &'a [Vec<u8>]),
}

impl<'a> Outgoing<'a> {
    /// The first message of some frames. `joining`: segments of a stream may be sent as one, if they are at most this long.
    pub fn first(frames: &'a [Vec<u8>], joining: Option<usize>) -> Option<Self> {
        let first = frames.first()?;
        Some(match joining.and_then(|longest| join(frames, longest)) {
            Some(joined) => {
                let count = joined.count;
                Self::Joined(Box::new(joined), &frames[..count])
            }
            None => Self::Frame(first),
        })
    }

    /// How many frames it is made of.
    pub fn count(&self) -> usize {
        match self {
            Self::Frame(_) => 1,
            Self::Joined(_, frames) => frames.len(),
        }
    }

    pub fn is_joined(&self) -> bool {
        matches!(self, Self::Joined(..))
    }

    /// Appends the parts of the message, each behind a header that describes its unfinished work.
    pub(super) fn describe(&self, parts: &mut Vec<libc::iovec>) {
        const FINISHED: [u8; VNET_HEADER_BYTES] = [0; VNET_HEADER_BYTES];
        let part =
            |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        match self {
            Self::Frame(frame) => parts.extend([part(&FINISHED), part(frame)]),
            Self::Joined(joined, frames) => {
                parts.extend([part(&joined.vnet), part(&joined.header[..joined.payload])]);
                parts.extend(frames.iter().map(|frame| part(&frame[joined.payload..])));
            }
        }
    }
}

/// Sends some frames as one.
pub(crate) fn send_joined(socket: &OwnedFd, joined: Joined, frames: &[Vec<u8>]) -> io::Result<()> {
    let mut parts = Vec::with_capacity(2 + frames.len());
    Outgoing::Joined(Box::new(joined), frames).describe(&mut parts);
    // SAFETY: all-zero is a value of this plain structure.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    let fd = socket.as_raw_fd();
    // SAFETY: the message describes buffers that outlive the call; sending only reads.
    retry(|| unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_DONTWAIT) as libc::c_int })?;
    Ok(())
}

/// Sends frames from the front and returns how many the kernel took, and whether the first message, which an error refers to,
/// was a super-frame. `joining`: as for [`Outgoing::first`].
pub(crate) fn send(
    socket: &OwnedFd,
    frames: &[Vec<u8>],
    joining: Option<usize>,
) -> (io::Result<usize>, bool) {
    let room = frames.len().min(MAX_BATCH);
    let mut outgoing = Vec::with_capacity(room);
    let mut rest = frames;
    while outgoing.len() < MAX_BATCH
        && let Some(message) = Outgoing::first(rest, joining)
    {
        rest = &rest[message.count()..];
        outgoing.push(message);
    }
    let mut parts = Vec::with_capacity(2 * room);
    let mut starts = Vec::with_capacity(room);
    for outgoing in &outgoing {
        starts.push(parts.len());
        outgoing.describe(&mut parts);
    }
    starts.push(parts.len());
    let mut messages = Vec::with_capacity(room);
    for range in starts.windows(2) {
        // SAFETY: all-zero is a value of this plain structure.
        let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
        message.msg_hdr.msg_iov = parts[range[0]..].as_mut_ptr();
        message.msg_hdr.msg_iovlen = (range[1] - range[0]) as _;
        messages.push(message);
    }
    let (fd, batch, flags) = (socket.as_raw_fd(), messages.len(), libc::MSG_DONTWAIT as _);
    // SAFETY: every message describes buffers that outlive the call, each with its length; sending only reads.
    let sent = retry(|| unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), batch as libc::c_uint, flags) });
    let joined = outgoing.first().is_some_and(Outgoing::is_joined);
    (sent.map(|messages| outgoing[..messages].iter().map(Outgoing::count).sum()), joined)
}
