//! Memory for large arrays.
//!
//! Random accesses to many MiB wait twice: for the memory itself, and for the translation of its page's
//! address, because the translations of so many small pages fit no cache. So large arrays get separate mappings, and Linux is
//! asked to make them of huge pages (2 MiB on most machines), which it does as far as it has some
//! (`/sys/kernel/mm/transparent_hugepage/enabled` says `madvise` or `always`). It is advice: where it is not followed,
//! nothing but time is lost.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU32;

/// Smaller arrays, those of less than a huge page, are allocated as usual: a touched part of a huge page occupies all
/// of it.
#[cfg(target_os = "linux")]
const LARGE: usize = 2 << 20;

/// Numbers of some kind, all zero at first. They cost no memory before they are touched.
pub struct Zeros<T>(Kind<T>);

enum Kind<T> {
    Usual(Box<[T]>),
    #[cfg(target_os = "linux")]
    Large(Mapping<T>),
}

/// Kinds of numbers whose zero is represented by zero bytes.
pub trait Number: Sized + 'static {
    /// So many zeros, allocated as usual.
    fn zeros(n: usize) -> Box<[Self]>;
}

impl Number for u64 {
    fn zeros(n: usize) -> Box<[u64]> {
        // `vec!` asks the system for zero pages.
        vec![0; n].into_boxed_slice()
    }
}

impl Number for u8 {
    fn zeros(n: usize) -> Box<[u8]> {
        vec![0; n].into_boxed_slice()
    }
}

impl Number for AtomicU32 {
    fn zeros(n: usize) -> Box<[AtomicU32]> {
        let zeros = vec![0u32; n].into_boxed_slice();
        // SAFETY: `AtomicU32` has size, alignment and representation of `u32`, and the box is the only owner.
        unsafe { Box::from_raw(Box::into_raw(zeros) as *mut [AtomicU32]) }
    }
}

impl<T: Number> Zeros<T> {
    /// So many zeros.
    pub fn new(n: usize) -> Self {
        #[cfg(target_os = "linux")]
        if n.saturating_mul(size_of::<T>()) >= LARGE
            && let Some(mapping) = Mapping::new(n)
        {
            return Zeros(Kind::Large(mapping));
        }
        Zeros(Kind::Usual(T::zeros(n)))
    }
}

impl<T> Deref for Zeros<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Kind::Usual(all) => all,
            #[cfg(target_os = "linux")]
            // SAFETY: the mapping has so many numbers, which only we refer to.
            Kind::Large(m) => unsafe { std::slice::from_raw_parts(m.start.as_ptr(), m.len) },
        }
    }
}

impl<T> DerefMut for Zeros<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Kind::Usual(all) => all,
            #[cfg(target_os = "linux")]
            // SAFETY: as above.
            Kind::Large(m) => unsafe { std::slice::from_raw_parts_mut(m.start.as_ptr(), m.len) },
        }
    }
}

impl<T: Number + Copy> Clone for Zeros<T> {
    fn clone(&self) -> Self {
        let mut copy = Zeros::new(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl<T> std::fmt::Debug for Zeros<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} numbers", self.len())
    }
}

/// Exclusively owned memory.
#[cfg(target_os = "linux")]
struct Mapping<T> {
    start: std::ptr::NonNull<T>,
    /// Numbers.
    len: usize,
    /// Bytes.
    size: usize,
}

// SAFETY: it owns its memory, as a box does.
#[cfg(target_os = "linux")]
unsafe impl<T: Send> Send for Mapping<T> {}
// SAFETY: as above.
#[cfg(target_os = "linux")]
unsafe impl<T: Sync> Sync for Mapping<T> {}

#[cfg(target_os = "linux")]
impl<T: Number> Mapping<T> {
    /// `None` if the system has no such memory.
    fn new(len: usize) -> Option<Self> {
        /// Borders of huge pages.
        const HUGE: usize = 2 << 20;
        let size = len.checked_mul(size_of::<T>())?.checked_next_multiple_of(HUGE)?;
        let all = size.checked_add(HUGE)?;
        // SAFETY: a new private mapping, anywhere; then the parts before and behind the borders are given back. Nothing else uses
        // of any of it. Advice does not change the content of memory.
        unsafe {
            let (access, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            );
            let at = libc::mmap(std::ptr::null_mut(), all, access, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return None;
            }
            let before = at.align_offset(HUGE);
            let start = at.byte_add(before);
            if before > 0 {
                libc::munmap(at, before);
            }
            libc::munmap(start.byte_add(size), HUGE - before);
            libc::madvise(start, size, libc::MADV_HUGEPAGE);
            Some(Mapping { start: std::ptr::NonNull::new(start.cast())?, len, size })
        }
    }
}

#[cfg(target_os = "linux")]
impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: it is ours, and no references are left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    /// Small or large, all are zero, can be written, and copied.
    #[test]
    fn any_size() {
        for n in [0, 1, 1000, (1 << 19) - 1, 1 << 19, (1 << 19) + 12_345, 1 << 22] {
            let mut all = Zeros::<u64>::new(n);
            assert!(all.len() == n && all.iter().all(|v| *v == 0));
            all.fill(7);
            let copy = all.clone();
            drop(all);
            assert_eq!(copy.iter().sum::<u64>(), 7 * n as u64);
            let atomics = Zeros::<AtomicU32>::new(n);
            assert!(atomics.len() == n && atomics.iter().all(|v| v.load(Relaxed) == 0));
        }
    }

    /// Linux notes the advice in the flags of the mapping ("hg").
    #[test]
    #[cfg(target_os = "linux")]
    fn large_ones_are_advised() {
        let flags = |memory: &[u64]| {
            let middle = &raw const memory[memory.len() / 2] as usize;
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let mut inside = false;
            for line in maps.lines() {
                let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
                let range = range.and_then(|(a, b)| {
                    Some((usize::from_str_radix(a, 16).ok()?, usize::from_str_radix(b, 16).ok()?))
                });
                if let Some((from, to)) = range {
                    inside = (from..to).contains(&middle);
                } else if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                    return flags.split_whitespace().map(String::from).collect::<Vec<_>>();
                }
            }
            Vec::new()
        };
        let large = Zeros::<u64>::new(16 << 20);
        assert_eq!(large.as_ptr().align_offset(2 << 20), 0);
        // A kernel without huge pages knows no such advice.
        if std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            assert!(flags(&large).iter().any(|f| f == "hg"));
        }
        assert!(!flags(&Zeros::new(1000)).iter().any(|f| f == "hg"));
    }
}
