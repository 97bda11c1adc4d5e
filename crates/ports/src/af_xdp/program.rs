//! The XDP program that hands an interface's frames to AF_XDP sockets, and its attachment.

use std::io;
use std::os::fd::OwnedFd;

use crate::assembler::{Assembler, R1, R2, R3};
use crate::sys::bpf::{self, Instruction};

/// `bpf_redirect_map(map, key, flags)`; the lower bits of the flags are what is returned where the map has no entry.
const REDIRECT_MAP: i32 = 51;
/// Go on to the kernel's network stack.
const XDP_PASS: i32 = 2;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const QUEUE: i16 = 16;

/// Where the program runs (XDP_FLAGS_* in linux/if_link.h).
const STACK_MODE: u32 = 1 << 1;
const DRIVER_MODE: u32 = 1 << 2;

/// Sends what arrives on a queue to the queue's socket, and to the kernel's network stack where there is none.
fn redirect(map: &OwnedFd) -> Vec<Instruction> {
    let mut program = Assembler::default();
    program.load32(R2, R1, QUEUE);
    program.map(R1, map);
    program.set(R3, XDP_PASS);
    program.call(REDIRECT_MAP);
    program.exit();
    program.finish()
}

/// The program on its interface; it leaves when this is dropped or the process ends, whatever way it ends.
pub(super) struct Attachment {
    pub interface: libc::c_int,
    map: OwnedFd,
    _program: OwnedFd,
    _link: OwnedFd,
}

impl Attachment {
    /// Attaches to the interface with this index in the thread's network namespace. `native`: the driver runs the
    /// program before it makes a packet of the frame; else the network stack runs it.
    pub fn new(interface: libc::c_int, queues: u32, native: bool) -> Result<Self, Refusal> {
        let refused = |doing| move |error| Refusal { doing, error };
        let map = bpf::socket_map(queues).map_err(refused("make a BPF map"))?;
        let program = bpf::load_xdp(&redirect(&map)).map_err(refused("load an XDP program"))?;
        let mode = if native { DRIVER_MODE } else { STACK_MODE };
        let link = bpf::link_xdp(&program, interface, mode).map_err(refused("attach an XDP program"))?;
        Ok(Self { interface, map, _program: program, _link: link })
    }

    /// From now on, what arrives on the queue goes to the socket.
    pub fn enter(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        bpf::map_socket(&self.map, queue, socket)
    }
}

/// What the kernel did not let happen.
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

    /// One line without a verb: why there is no AF_XDP.
    pub fn why(&self) -> String {
        let Self { doing, error } = self;
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                format!("no permission to {doing} (be root, or have CAP_BPF and CAP_NET_ADMIN)")
            }
            Some(libc::EBUSY | libc::EEXIST) => {
                format!("could not {doing}: there is another on the interface ({error})")
            }
            Some(libc::ERANGE) => format!(
                "could not {doing}: the MTU, or that of the other end of the veth pair, is too large ({error})"
            ),
            Some(libc::ENOSYS) => format!("could not {doing}: this kernel has no BPF ({error})"),
            _ => format!("could not {doing} ({error})"),
        }
    }
}
