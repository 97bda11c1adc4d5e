//! Independent jobs on several threads.

use std::error::Error;
use std::fmt;
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// Not all threads can be started.
#[derive(Debug)]
pub struct ThreadError(pub io::Error);

impl fmt::Display for ThreadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start threads: {}", self.0)
    }
}

impl Error for ThreadError {}

/// Runs `one` for every item on `threads` threads (0: one for each processor): the results, in the order of the items.
///
/// # Errors
/// The first error by this order, or a thread cannot be started; no further item is begun.
pub fn map<I: Sync, T: Send, E: Send + From<ThreadError>>(
    threads: usize,
    items: &[I],
    one: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        given => given,
    };
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut done = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            let result = one(item);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            done.push((index, result));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        let mut running = Vec::new();
        for _ in 0..threads.min(items.len()) {
            match Builder::new().spawn_scoped(scope, work) {
                Ok(thread) => running.push(thread),
                Err(e) => {
                    failed.store(true, Ordering::Relaxed);
                    return Err(ThreadError(e));
                }
            }
        }
        let joined = running.into_iter().map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        Ok(joined.flatten().collect::<Vec<_>>())
    })?;
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::{ThreadError, map};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_keep_the_order_of_their_items() {
        let items: Vec<u64> = (0..1000).collect();
        for threads in [0, 1, 3] {
            let squares = map(threads, &items, |n| Ok::<_, ThreadError>(n * n)).expect("no error");
            assert!(squares.iter().zip(&items).all(|(s, n)| *s == n * n) && squares.len() == 1000);
        }
        assert!(map(4, &[] as &[u8], |_| Ok::<_, ThreadError>(())).is_ok_and(|all| all.is_empty()));
    }

    #[test]
    fn as_many_threads_as_asked_for() {
        let all = Barrier::new(3);
        assert!(
            map(3, &[(); 3], |()| Ok::<_, ThreadError>(all.wait())).is_ok(),
            "returns only if all three wait at a time"
        );
    }

    #[test]
    fn the_first_error_ends_it() {
        let begun = AtomicUsize::new(0);
        let items: Vec<u32> = (0..100_000).collect();
        let result = map(2, &items, |n| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *n >= 10 { Err(ThreadError(std::io::Error::other(n.to_string()))) } else { Ok(()) }
        });
        assert_eq!(result.expect_err("11 is too large").0.to_string(), "10");
        assert!(begun.load(Ordering::Relaxed) < 100_000, "the rest is not begun");
    }
}
