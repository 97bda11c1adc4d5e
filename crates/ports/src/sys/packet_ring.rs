//! The receive ring of a packet socket (PACKET_RX_RING, version 2): the kernel puts frames into memory that it shares with
//! the process. Version 3 would pack them closer, but hands them over late, by the block.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;
use super::{Message, VLAN_ROOM, set_packet_option};
use crate::offload::VNET_HEADER_BYTES;

/// Bytes of a slot: an ordinary frame and the kernel's header. Longer frames come through the socket instead.
const SLOT: usize = 2048;
/// Bytes of a block of slots, the unit of the kernel's allocation.
const BLOCK: usize = 64 << 10;
/// Where `sockaddr_ll` is in a slot.
const ADDRESS: usize = mem::size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// The ring, and the slot that is looked at next.
pub(crate) struct PacketRing {
    memory: Mapping,
    slots: usize,
    next: usize,
}

/// The content of a slot of the ring.
pub(crate) enum Slot<'a> {
    /// A frame.
    Frame(Message<'a>),
    /// The notice of a frame that did not fit: it is the next to be received from the socket itself.
    Elsewhere,
}

impl PacketRing {
    /// Gives the socket a ring of about this many bytes. The socket asks for offload headers already, and is not bound yet.
    pub fn new(socket: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let block = block(bytes, super::page_size());
        let blocks = (bytes / block).max(1);
        let slots = blocks * (block / SLOT);
        set_packet_option(socket, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
        set_packet_option(socket, libc::PACKET_COPY_THRESH, 1)?;
        let request = libc::tpacket_req {
            tp_block_size: block as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            tp_frame_size: SLOT as libc::c_uint,
            tp_frame_nr: slots as libc::c_uint,
        };
        super::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let memory = Mapping::new(blocks * block, flags, socket.as_raw_fd(), 0)?;
        Ok(Self { memory, slots, next: 0 })
    }

    /// Passes the next frame that has arrived to `each`, and returns its slot to the kernel. `None` without a frame.
    pub fn take<T>(&mut self, each: impl FnOnce(Slot<'_>) -> T) -> Option<T> {
        // SAFETY: slots divide blocks, so that they follow each other without gaps, and this is one of them.
        let start = unsafe { self.memory.start.as_ptr().add(self.next * SLOT) };
        // SAFETY: the status is the first word of the slot, which is aligned; the kernel changes it atomically.
        let status = unsafe { AtomicU32::from_ptr(start.cast()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel does not touch a slot that it has given to us until it has it back, and the memory is not
        // shared: for now this is the only reference to what follows the status.
        let rest = unsafe { std::slice::from_raw_parts_mut(start.add(4), SLOT - 4) };
        let result = each(describe(status.load(Ordering::Relaxed), rest));
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
        Some(result)
    }
}

/// Bytes of a block of a ring of about `bytes`: whole pages, which are 4 KB on x86-64 and up to 64 KB on Arm.
fn block(bytes: usize, page: usize) -> usize {
    BLOCK.min(bytes / page * page).max(page)
}

/// The content of a slot, given the status and the bytes after it.
fn describe(status: u32, rest: &mut [u8]) -> Slot<'_> {
    if status & libc::TP_STATUS_COPY != 0 {
        return Slot::Elsewhere;
    }
    // `struct tpacket2_hdr`, four bytes less.
    let word = |at: usize| u32::from_ne_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
    let half = |at: usize| u16::from_ne_bytes([rest[at], rest[at + 1]]);
    let (length, caught, frame) =
        (word(0) as usize, word(4) as usize, usize::from(half(8)).saturating_sub(4));
    let (tci, tpid) = (half(20), half(22));
    let tagged = status & libc::TP_STATUS_VLAN_VALID != 0;
    let named = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    // `sockaddr_ll.sll_pkttype`
    let kind = rest[ADDRESS - 4 + 10];
    let end = (frame + caught).min(rest.len());
    let start = frame.min(end);
    let mut vnet = [0; VNET_HEADER_BYTES];
    if let Some(header) = start.checked_sub(VNET_HEADER_BYTES) {
        vnet.copy_from_slice(&rest[header..start]);
    }
    Slot::Frame(Message {
        vnet,
        // The kernel's header in front of the frame has been read.
        room_and_frame: &mut rest[start.saturating_sub(VLAN_ROOM)..end],
        truncated: caught < length,
        vlan: tagged.then_some((if named { tpid } else { 0x8100 }, tci)),
        outgoing: kind == libc::PACKET_OUTGOING,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_pages() {
        for (bytes, page, expected) in [
            (1 << 20, 4 << 10, BLOCK),
            (40_000, 4 << 10, 36 << 10),
            (4096, 4 << 10, 4 << 10),
            (1 << 20, 64 << 10, BLOCK),
            (40_000, 64 << 10, 64 << 10),
            (40_000, 16 << 10, 32 << 10),
        ] {
            assert_eq!(block(bytes, page), expected, "{bytes} bytes in pages of {page}");
        }
    }
}
