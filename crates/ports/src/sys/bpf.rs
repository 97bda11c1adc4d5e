//! The bpf() system call: maps, programs and links, as far as AF_XDP needs them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::own;

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

const PROG_TEST_RUN: libc::c_int = 10;
const MAP_LOOKUP_ELEM: libc::c_int = 1;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_XSKMAP: u32 = 17;
/// The frames of a test run really go to the program's destination.
const LIVE_FRAMES: u32 = 1 << 1;

/// The argument of bpf(), `union bpf_attr`: fields at fixed places, zero if nothing was put.
struct Attributes([u64; 16]);

impl Attributes {
    fn new() -> Self {
        Self([0; 16])
    }

    fn put32(&mut self, at: usize, value: u32) {
        let word = &mut self.0[at / 8];
        let mut bytes = word.to_ne_bytes();
        bytes[at % 8..at % 8 + 4].copy_from_slice(&value.to_ne_bytes());
        *word = u64::from_ne_bytes(bytes);
    }

    fn put64(&mut self, at: usize, value: u64) {
        self.0[at / 8] = value;
    }

    /// # Safety
    /// The addresses in the attributes point to the objects that the command expects, and stay valid during the call.
    unsafe fn call(&mut self, command: libc::c_int) -> libc::c_int {
        let (attributes, bytes) = (self.0.as_mut_ptr(), size_of_val(&self.0));
        // SAFETY: the pointer and the length describe the attributes; for the rest see above.
        (unsafe { libc::syscall(libc::SYS_bpf, command, attributes, bytes) }) as libc::c_int
    }
}

/// One instruction of eBPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub code: u8,
    /// Destination register in the lower half, source register in the upper.
    pub registers: u8,
    pub offset: i16,
    pub immediate: i32,
}

fn new_map(kind: u32, value_bytes: usize, entries: u32) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::new();
    attributes.put32(0, kind);
    attributes.put32(4, 4);
    attributes.put32(8, value_bytes as u32);
    attributes.put32(12, entries);
    // SAFETY: the attributes contain no addresses.
    own(unsafe { attributes.call(MAP_CREATE) })
}

/// A map from queues to the AF_XDP sockets that get their frames.
pub(crate) fn socket_map(queues: u32) -> io::Result<OwnedFd> {
    new_map(MAP_TYPE_XSKMAP, 4, queues)
}

/// Enters a socket into a map.
pub(crate) fn map_socket(map: &OwnedFd, queue: u32, socket: &OwnedFd) -> io::Result<()> {
    let value = socket.as_raw_fd();
    let mut attributes = Attributes::new();
    attributes.put32(0, map.as_raw_fd() as u32);
    attributes.put64(8, (&raw const queue) as u64);
    attributes.put64(16, (&raw const value) as u64);
    // SAFETY: key and value are four bytes each, as the map was made for, and outlive the call.
    super::check(unsafe { attributes.call(MAP_UPDATE_ELEM) })?;
    Ok(())
}

/// An array shared with programs. Its entries have a multiple of eight bytes, so that the kernel's idea of their size is
/// ours.
pub(crate) struct Array<const WORDS: usize>(pub OwnedFd);

impl<const WORDS: usize> Array<WORDS> {
    pub fn new(entries: u32) -> io::Result<Self> {
        new_map(MAP_TYPE_ARRAY, WORDS * 8, entries).map(Self)
    }

    pub fn put(&self, index: u32, value: &[u64; WORDS]) -> io::Result<()> {
        let mut attributes = Attributes::new();
        attributes.put32(0, self.0.as_raw_fd() as u32);
        attributes.put64(8, (&raw const index) as u64);
        attributes.put64(16, value.as_ptr() as u64);
        // SAFETY: key and value have the sizes that the map was made for, and outlive the call.
        super::check(unsafe { attributes.call(MAP_UPDATE_ELEM) })?;
        Ok(())
    }

    pub fn get(&self, index: u32) -> io::Result<[u64; WORDS]> {
        let mut value = [0; WORDS];
        let mut attributes = Attributes::new();
        attributes.put32(0, self.0.as_raw_fd() as u32);
        attributes.put64(8, (&raw const index) as u64);
        attributes.put64(16, value.as_mut_ptr() as u64);
        // SAFETY: as above; the kernel writes into `value` only.
        super::check(unsafe { attributes.call(MAP_LOOKUP_ELEM) })?;
        Ok(value)
    }
}

/// Runs an XDP program this many times, each time on a frame that starts as `frame` and may really be sent. Frames come
/// back after they were sent, as the receiver left them. A signal ends it early.
pub(crate) fn run_live(program: &OwnedFd, frame: &[u8], times: u32) -> io::Result<()> {
    let mut attributes = Attributes::new();
    attributes.put32(0, program.as_raw_fd() as u32);
    attributes.put32(8, frame.len() as u32);
    attributes.put64(16, frame.as_ptr() as u64);
    attributes.put32(32, times);
    attributes.put32(64, LIVE_FRAMES);
    // SAFETY: the frame, with its length, outlives the call and is only read; no buffer for answers is given.
    super::check(unsafe { attributes.call(PROG_TEST_RUN) })?;
    Ok(())
}

/// The kind of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// XDP on any interface.
    Xdp,
    /// XDP on this interface, if it uses the driver's metadata of frames.
    XdpOn(libc::c_int),
    /// Frames that the network stack sends.
    #[cfg(test)]
    Egress,
}

impl Purpose {
    /// Program type and attach type.
    fn types(self) -> (u32, u32) {
        match self {
            Self::Xdp | Self::XdpOn(_) => (6, 37),
            #[cfg(test)]
            Self::Egress => (3, 47),
        }
    }
}

/// Loads a program. The kernel requires a license that is compatible with the GPL where a program calls its
/// functions; such programs are short, written for this crate, and may be used under the MIT license or the GPL as well.
pub(crate) fn load(purpose: Purpose, instructions: &[Instruction]) -> io::Result<OwnedFd> {
    const BOUND_TO_DEVICE: u32 = 1 << 6;
    let license = match purpose {
        Purpose::XdpOn(_) => c"Dual MIT/GPL",
        _ => c"Apache-2.0",
    };
    let (program, attach) = purpose.types();
    let mut attributes = Attributes::new();
    attributes.put32(0, program);
    attributes.put32(4, instructions.len() as u32);
    attributes.put64(8, instructions.as_ptr() as u64);
    attributes.put64(16, license.as_ptr() as u64);
    attributes.put64(48, u64::from_ne_bytes(*b"pointsma"));
    attributes.put64(56, u64::from_ne_bytes(*b"n\0\0\0\0\0\0\0"));
    attributes.put32(68, attach);
    if let Purpose::XdpOn(interface) = purpose {
        attributes.put32(44, BOUND_TO_DEVICE);
        attributes.put32(64, interface as u32);
    }
    // SAFETY: the instructions, with their number, and the license outlive the call.
    own(unsafe { attributes.call(PROG_LOAD) })
}

/// Loads an XDP program that does well on any interface.
pub(crate) fn load_xdp(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    load(Purpose::Xdp, instructions)
}

/// Attaches an XDP program to an interface until the returned descriptor is closed. `mode`: XDP_FLAGS_*_MODE.
pub(crate) fn link_xdp(program: &OwnedFd, interface: libc::c_int, mode: u32) -> io::Result<OwnedFd> {
    link(program, Purpose::Xdp, interface, mode)
}

/// Attaches a program to an interface until the returned descriptor is closed.
pub(crate) fn link(
    program: &OwnedFd,
    purpose: Purpose,
    interface: libc::c_int,
    flags: u32,
) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::new();
    attributes.put32(0, program.as_raw_fd() as u32);
    attributes.put32(4, interface as u32);
    attributes.put32(8, purpose.types().1);
    attributes.put32(12, flags);
    // SAFETY: the attributes contain no addresses.
    own(unsafe { attributes.call(LINK_CREATE) })
}
