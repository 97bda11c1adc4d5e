//! Memory for large arrays.
//!
//! Whoever looks at random places of many MiB waits twice: for the place, and for the processor to find out where its page
//! stands, because translations of so many small pages fit no cache. So Linux is asked for huge pages (2 MiB on most
//! machines), which it gives as far as it has some (`/sys/kernel/mm/transparent_hugepage/enabled` says `madvise` or `always`).
//! It is advice: where it is not followed, nothing but time is lost.

/// Smaller arrays stay as they are: what is touched of one with huge pages takes memory 2 MiB at a time.
const LARGE: usize = 4 << 20;

/// So many zeros (the default of a kind of number). They cost no memory before they are touched.
pub(crate) fn zeros<T: Copy + Default>(n: usize) -> Vec<T> {
    // For numbers `vec!` asks the system for zero pages.
    let zeros = vec![T::default(); n];
    if size_of_val(&zeros[..]) >= LARGE {
        advise(&zeros);
    }
    zeros
}

/// Asks for huge pages.
#[cfg(target_os = "linux")]
fn advise<T>(memory: &[T]) {
    // Advice is about whole pages, of any size that Linux has: 64 KiB at most.
    const PAGE: usize = 1 << 16;
    let start = (memory.as_ptr() as usize).next_multiple_of(PAGE);
    let end = (memory.as_ptr() as usize + size_of_val(memory)) / PAGE * PAGE;
    if start < end {
        // SAFETY: the pages lie in memory that we own, and this advice changes nothing that is in it.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise<T>(_: &[T]) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small or large, it is all zeros and can all be written.
    #[test]
    fn zeros_of_any_size() {
        for n in [0, 1, 1000, LARGE / 8 - 1, LARGE / 8, LARGE / 8 + 12_345, LARGE] {
            let mut all = zeros::<u64>(n);
            assert!(all.len() == n && all.iter().all(|v| *v == 0));
            all.fill(7);
            assert_eq!(all.iter().sum::<u64>(), 7 * n as u64);
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
        // A kernel without huge pages knows no such advice.
        if std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            assert!(flags(&zeros(16 << 20)).iter().any(|f| f == "hg"));
        }
        let small = zeros(1000);
        assert!(!flags(&small).is_empty());
    }
}
