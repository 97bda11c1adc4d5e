//! Memory shared with the kernel.

use std::io;
use std::ptr::NonNull;

/// Memory that is unmapped when it is dropped.
pub(super) struct Mapping {
    pub start: NonNull<u8>,
    pub bytes: usize,
}

// SAFETY: a mapping is memory of the process, which no thread owns more than another.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `fd` is -1 for fresh memory.
    pub fn new(bytes: usize, flags: libc::c_int, fd: libc::c_int, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place; nothing that exists is replaced.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and all references to it end with `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
