//! AF_XDP sockets: a piece of memory shared with the kernel (UMEM) and four rings of places in it.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;
use super::{check, own, retry, set_option};

/// Not in libc yet (Linux 6.18): how many frames one system call may send in copy mode, 32 unless set.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// The entries of a ring: places of frames in the UMEM, or descriptions of frames.
pub(crate) trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

/// One ring. Either side writes one of the two indices; both only ever grow, modulo 2^32.
pub(crate) struct Ring<T> {
    // Keeps the pointers below alive.
    _memory: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Our own index, ahead of the one published to the kernel.
    ours: u32,
    /// The kernel's index when it was last looked at.
    theirs: u32,
}

// SAFETY: the pointers lead into the mapping that the ring owns; the indices are atomic, and entries belong to the
// side that the indices say.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    fn map(socket: &OwnedFd, at: &libc::xdp_ring_offset, size: u32, page_offset: u64) -> io::Result<Self> {
        let too_far = || io::Error::from(io::ErrorKind::InvalidData);
        let place = |offset: u64| usize::try_from(offset).map_err(|_| too_far());
        let (producer, consumer) = (place(at.producer)?, place(at.consumer)?);
        let (flags, entries) = (place(at.flags)?, place(at.desc)?);
        let bytes = entries + size as usize * mem::size_of::<T>();
        if [producer, consumer, flags].iter().any(|offset| offset + 4 > bytes) {
            return Err(too_far());
        }
        let offset = libc::off_t::try_from(page_offset).map_err(|_| too_far())?;
        let memory = Mapping::new(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), offset)?;
        // SAFETY: the offsets are within the mapping, as was just checked, and aligned, as the kernel's are.
        unsafe {
            Ok(Self {
                producer: memory.start.add(producer).cast(),
                consumer: memory.start.add(consumer).cast(),
                flags: memory.start.add(flags).cast(),
                entries: memory.start.add(entries).cast(),
                _memory: memory,
                size,
                ours: 0,
                theirs: 0,
            })
        }
    }

    fn index(&self, which: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: it points into the mapping, which lives as long as `self`.
        unsafe { which.as_ref() }
    }

    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: the size is a power of two, so that the place is within the ring.
        unsafe { self.entries.as_ptr().add((index & (self.size - 1)) as usize) }
    }

    /// Whether the kernel asked to be woken up when this ring has new entries.
    pub fn needs_wakeup(&self) -> bool {
        self.index(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// For the rings that we fill: how many entries there is room for. Asks the kernel's index only where fewer than
    /// `wanted` are known.
    pub fn room(&mut self, wanted: u32) -> u32 {
        let room = self.size - self.ours.wrapping_sub(self.theirs);
        if room >= wanted {
            return room;
        }
        self.theirs = self.index(self.consumer).load(Ordering::Acquire);
        self.size - self.ours.wrapping_sub(self.theirs)
    }

    /// For the rings that we fill: adds an entry, which the kernel sees after [`Ring::publish`]. `false`: no room.
    pub fn push(&mut self, value: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: the place is in the ring, and between the indices it is ours.
        unsafe { self.entry(self.ours).write(value) };
        self.ours = self.ours.wrapping_add(1);
        true
    }

    /// For the rings that we fill: publishes the added entries to the kernel.
    pub fn publish(&mut self) {
        self.index(self.producer).store(self.ours, Ordering::Release);
    }

    /// For the rings that we fill: entries that the kernel has not taken yet.
    pub fn waiting(&mut self) -> u32 {
        self.theirs = self.index(self.consumer).load(Ordering::Acquire);
        self.ours.wrapping_sub(self.theirs)
    }

    /// For the rings that we fill: the entry that the kernel took last, as far as is known from [`Ring::waiting`]. Only
    /// right before anything is added.
    pub fn last_taken(&self) -> T {
        // SAFETY: the place is in the ring, and the kernel does not write to this kind of ring.
        unsafe { self.entry(self.theirs.wrapping_sub(1)).read() }
    }

    /// For the rings that the kernel fills: takes the next entry. Its place is the kernel's again after
    /// [`Ring::release`].
    pub fn pop(&mut self) -> Option<T> {
        if self.ours == self.theirs {
            self.theirs = self.index(self.producer).load(Ordering::Acquire);
            if self.ours == self.theirs {
                return None;
            }
        }
        // SAFETY: the place is in the ring; the kernel has written it and does not touch it until it is released.
        let value = unsafe { self.entry(self.ours).read() };
        self.ours = self.ours.wrapping_add(1);
        Some(value)
    }

    /// For the rings that the kernel fills: returns the places of consumed entries.
    pub fn release(&mut self) {
        self.index(self.consumer).store(self.ours, Ordering::Release);
    }
}

/// The memory that frames are in, cut into chunks of equal size.
pub(crate) struct Umem {
    memory: Mapping,
    chunk: usize,
}

impl Umem {
    fn new(chunks: usize, chunk: usize) -> io::Result<Self> {
        let bytes = chunks * chunk;
        let memory = Mapping::new(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        // SAFETY: the range is the mapping. Large pages spare the processor's table of pages; without them it works.
        unsafe { libc::madvise(memory.start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        Ok(Self { memory, chunk })
    }

    fn within(&self, at: u64, bytes: usize) -> Option<*mut u8> {
        let at = usize::try_from(at).ok()?;
        let fits = at.checked_add(bytes)? <= self.memory.bytes && at % self.chunk + bytes <= self.chunk;
        // SAFETY: it was just checked that this is inside the mapping.
        fits.then(|| unsafe { self.memory.start.as_ptr().add(at) })
    }

    /// A frame that the kernel has put there. `None` if the kernel names a place that does not exist.
    ///
    /// The caller asks only for frames that it took out of the receive ring and whose chunk it has not given back.
    pub fn frame(&self, at: u64, bytes: usize) -> Option<&[u8]> {
        let start = self.within(at, bytes)?;
        // SAFETY: inside the mapping; the kernel writes into a chunk only while it is in the fill ring.
        Some(unsafe { std::slice::from_raw_parts(start, bytes) })
    }

    /// Puts a frame there. `false` if it does not fit in the chunk.
    ///
    /// The caller names only chunks that are free: neither in a ring nor with the kernel.
    pub fn put(&mut self, at: u64, frame: &[u8]) -> bool {
        let Some(start) = self.within(at, frame.len()) else {
            return false;
        };
        // SAFETY: inside the mapping, and the frame is not: no other reference to the mapping exists now.
        unsafe { std::ptr::copy_nonoverlapping(frame.as_ptr(), start, frame.len()) };
        true
    }

    /// Prefetches the first bytes of a frame.
    pub fn prefetch(&self, at: u64) {
        #[cfg(target_arch = "x86_64")]
        if let Some(start) = self.within(at, 1) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint about memory that is there.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}

/// An AF_XDP socket with its UMEM and all four rings. The kernel stops using the memory when the socket is closed,
/// which is why the socket comes first.
pub(crate) struct XdpSocket {
    pub fd: OwnedFd,
    pub umem: Umem,
    pub fill: Ring<u64>,
    pub completed: Ring<u64>,
    pub received: Ring<libc::xdp_desc>,
    pub sent: Ring<libc::xdp_desc>,
}

/// Sizes of an [`XdpSocket`].
#[derive(Clone, Copy)]
pub(crate) struct XdpSizes {
    /// Entries of each ring, a power of two. There are twice as many chunks.
    pub ring: u32,
    /// Bytes of one chunk, a power of two from 2048 up to the page size.
    pub chunk: u32,
}

impl XdpSocket {
    /// A socket of the thread's network namespace that is not bound to an interface yet.
    pub fn new(sizes: XdpSizes) -> io::Result<Self> {
        let XdpSizes { ring, chunk } = sizes;
        // SAFETY: no pointers.
        let fd = own(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        let umem = Umem::new(ring as usize * 2, chunk as usize)?;
        let registration = libc::xdp_umem_reg {
            addr: umem.memory.start.as_ptr() as u64,
            len: umem.memory.bytes as u64,
            chunk_size: chunk,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        let option = |name, value: &u32| set_option(&fd, libc::SOL_XDP, name, value);
        set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
        option(libc::XDP_UMEM_FILL_RING, &ring)?;
        option(libc::XDP_UMEM_COMPLETION_RING, &ring)?;
        option(libc::XDP_RX_RING, &ring)?;
        option(libc::XDP_TX_RING, &ring)?;
        // Older kernels need more calls instead.
        let _ = option(XDP_MAX_TX_SKB_BUDGET, &ring);
        let bytes = 4i32 << 20;
        let _ = set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
            .or_else(|_| set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes));
        let at: libc::xdp_mmap_offsets = get_option(&fd, libc::XDP_MMAP_OFFSETS)?;
        Ok(Self {
            fill: Ring::map(&fd, &at.fr, ring, libc::XDP_UMEM_PGOFF_FILL_RING)?,
            completed: Ring::map(&fd, &at.cr, ring, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?,
            received: Ring::map(&fd, &at.rx, ring, libc::XDP_PGOFF_RX_RING as u64)?,
            sent: Ring::map(&fd, &at.tx, ring, libc::XDP_PGOFF_TX_RING as u64)?,
            fd,
            umem,
        })
    }

    /// Attaches the socket to a queue of an interface. `flags`: XDP_COPY or XDP_ZEROCOPY, XDP_USE_NEED_WAKEUP.
    pub fn bind(&self, interface: libc::c_int, queue: u32, flags: u16) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: interface as u32,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let length = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: the pointer and the length describe `address`.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(())
    }

    /// Asks the kernel to send the frames in the transmit ring.
    pub fn kick_transmit(&self) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: neither a message nor an address is passed.
        retry(|| unsafe {
            libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) as libc::c_int
        })?;
        Ok(())
    }

    /// Asks the kernel to continue receiving after the fill ring was empty.
    pub fn kick_receive(&self) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: neither a buffer nor room for an address is passed.
        retry(|| unsafe {
            let (no_address, no_length) = (std::ptr::null_mut(), std::ptr::null_mut());
            libc::recvfrom(fd, std::ptr::null_mut(), 0, libc::MSG_DONTWAIT, no_address, no_length)
                as libc::c_int
        })?;
        Ok(())
    }

    /// The kernel's counters since the socket was made.
    pub fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        get_option(&self.fd, libc::XDP_STATISTICS)
    }

    /// Whether the driver reads and writes the UMEM itself.
    pub fn is_zero_copy(&self) -> bool {
        get_option::<libc::xdp_options>(&self.fd, libc::XDP_OPTIONS)
            .is_ok_and(|options| options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }
}

/// Reads an option that is a plain structure of which all-zero is a value, as every structure of AF_XDP is.
fn get_option<T: Copy>(socket: &OwnedFd, option: libc::c_int) -> io::Result<T> {
    // SAFETY: see above.
    let mut value: T = unsafe { mem::zeroed() };
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`.
    check(unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value, &mut length)
    })?;
    // An old kernel fills less: structures from before Linux 5.4 lack the rings' flags.
    if length as usize != mem::size_of::<T>() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    Ok(value)
}
