//! The XDP program that hands an interface's frames to AF_XDP sockets, and its attachment.

use std::io;
use std::os::fd::OwnedFd;

use crate::assembler::{Assembler, R0, R1, R2, R3, R6, R7, R8, R10};
use crate::btf;
use crate::sys::bpf::{self, Instruction, Purpose};

/// `bpf_redirect_map(map, key, flags)`; it returns the lower bits of the flags if the map has no entry.
const REDIRECT_MAP: i32 = 51;
/// Continue to the kernel's network stack.
const XDP_PASS: i32 = 2;
/// For impossible cases; such frames show up in the tracepoint xdp_exception.
const XDP_ABORTED: i32 = 0;
/// `bpf_xdp_adjust_head(context, delta)`
const ADJUST_HEAD: i32 = 44;
/// Offsets of `data`, `data_end` and `rx_queue_index` in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

/// Where the program runs (XDP_FLAGS_* in linux/if_link.h).
const STACK_MODE: u32 = 1 << 1;
const DRIVER_MODE: u32 = 1 << 2;

/// Sends the frames of a queue to the queue's socket, or to the kernel's network stack without a socket. `tag`: the
/// number of the kernel's function that returns the VLAN tag that the driver has taken out of the frame, or never put
/// into it; the program puts it back.
fn redirect(map: &OwnedFd, tag: Option<i32>) -> Vec<Instruction> {
    let mut program = Assembler::default();
    let (plain, fail) = (program.label(), program.label());
    program.copy(R6, R1);
    if let Some(tag) = tag {
        // Two halves of the stack for TPID, in network byte order, and TCI, which is not.
        program.set(R1, 0);
        program.store64(R10, -8, R1);
        program.store64(R10, -16, R1);
        program.copy(R1, R6);
        program.copy(R2, R10);
        program.add(R2, -8);
        program.copy(R3, R10);
        program.add(R3, -16);
        program.call_function(tag);
        program.jump_if_not_equal(R0, 0, plain);
        program.copy(R1, R6);
        program.set(R2, -4);
        program.call(ADJUST_HEAD);
        program.jump_if_not_equal(R0, 0, fail);
        program.load32(R7, R6, DATA);
        program.load32(R8, R6, DATA_END);
        program.copy(R1, R7);
        program.add(R1, 18);
        program.jump_if_greater(R1, R8, fail);
        for word in 0..3 {
            program.load32(R1, R7, word * 4 + 4);
            program.store32(R7, word * 4, R1);
        }
        program.load16(R1, R10, -8);
        program.store16(R7, 12, R1);
        program.load16(R1, R10, -16);
        program.big_endian16(R1);
        program.store16(R7, 14, R1);
    }
    program.here(plain);
    program.load32(R2, R6, QUEUE);
    program.map(R1, map);
    program.set(R3, XDP_PASS);
    program.call(REDIRECT_MAP);
    program.exit();
    // The verifier refuses what cannot be reached.
    if tag.is_some() {
        program.here(fail);
        program.set(R0, XDP_ABORTED);
        program.exit();
    }
    program.finish()
}

/// The number of the function that [`redirect`] asks for tags.
fn tag_function() -> Option<i32> {
    let btf = std::fs::read("/sys/kernel/btf/vmlinux").ok()?;
    btf::function(&btf, "bpf_xdp_metadata_rx_vlan_tag")
}

/// The program on its interface; it is removed when this is dropped or the process ends, even if killed.
pub(super) struct Attachment {
    pub interface: libc::c_int,
    map: OwnedFd,
    _program: OwnedFd,
    _link: OwnedFd,
    /// VLAN tags are in the frames, wherever the driver had them.
    pub tags: bool,
}

impl Attachment {
    /// Attaches to the interface with this index in the thread's network namespace. `native`: the driver runs the
    /// program before it makes a packet of the frame; else the network stack runs it.
    pub fn new(interface: libc::c_int, queues: u32, native: bool) -> Result<Self, Refusal> {
        let refused = |doing| move |error| Refusal { doing, error };
        let map = bpf::socket_map(queues).map_err(refused("make a BPF map"))?;
        let with_tags = || {
            let code = redirect(&map, Some(tag_function()?));
            bpf::load(Purpose::XdpOn(interface), &code).ok()
        };
        let (program, tags) = match native.then(with_tags).flatten() {
            Some(program) => (program, true),
            None => {
                let load = bpf::load_xdp(&redirect(&map, None));
                (load.map_err(refused("load an XDP program"))?, false)
            }
        };
        let mode = if native { DRIVER_MODE } else { STACK_MODE };
        let link = bpf::link_xdp(&program, interface, mode).map_err(refused("attach an XDP program"))?;
        Ok(Self { interface, map, _program: program, _link: link, tags })
    }

    /// From now on, the frames of the queue go to the socket.
    pub fn enter(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        bpf::map_socket(&self.map, queue, socket)
    }
}

/// An operation that the kernel refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub doing: &'static str,
    pub error: io::Error,
}

impl Refusal {
    /// Whether the program may do well elsewhere than in the driver.
    pub fn is_about_the_driver(&self) -> bool {
        !matches!(
            self.error.raw_os_error(),
            Some(libc::EPERM | libc::EACCES | libc::EBUSY | libc::EEXIST | libc::ENOSYS)
        )
    }

    /// One line without a verb: why AF_XDP is unavailable.
    pub fn why(&self) -> String {
        let Self { doing, error } = self;
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                format!("no permission to {doing} (be root, or have CAP_BPF and CAP_NET_ADMIN)")
            }
            Some(libc::ENOBUFS) => format!(
                "could not {doing}: it needs more locked memory than the limit (`ulimit -l unlimited`, \
                 LimitMEMLOCK=infinity in a unit of systemd, or CAP_IPC_LOCK)"
            ),
            Some(libc::EBUSY | libc::EEXIST) => {
                format!("could not {doing}: there is another on the interface ({error})")
            }
            Some(libc::ERANGE) => format!(
                "could not {doing}: the MTU, or that of the other end of the veth pair, is too large ({error})"
            ),
            Some(libc::ENOSYS) => format!("could not {doing}: this kernel does not support BPF ({error})"),
            _ => format!("could not {doing} ({error})"),
        }
    }
}
