//! Independent jobs on several threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// Runs `one` for every item on `threads` threads (0: one for each processor): the results, in the order of the items.
///
/// # Errors
/// The first error by this order, or a thread cannot be started; no further item is begun.
pub fn map<I: Sync, T: Send>(
    threads: usize,
    items: &[I],
    one: impl Fn(&I) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
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
                    return Err(format!("cannot start threads: {e}"));
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
    use super::map;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_keep_the_order_of_their_items() {
        let items: Vec<u64> = (0..1000).collect();
        for threads in [0, 1, 3] {
            let squares = map(threads, &items, |n| Ok(n * n)).expect("no error");
            assert!(squares.iter().zip(&items).all(|(s, n)| *s == n * n) && squares.len() == 1000);
        }
        assert_eq!(map(4, &[] as &[u8], |_| Ok(())), Ok(vec![]));
    }

    #[test]
    fn as_many_threads_as_asked_for() {
        let all = Barrier::new(3);
        assert!(map(3, &[(); 3], |()| Ok(all.wait())).is_ok(), "returns only if all three wait at a time");
    }

    #[test]
    fn the_first_error_ends_it() {
        let begun = AtomicUsize::new(0);
        let items: Vec<u32> = (0..100_000).collect();
        let result = map(2, &items, |n| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *n >= 10 { Err(n.to_string()) } else { Ok(()) }
        });
        assert_eq!(result, Err("10".to_string()));
        assert!(begun.load(Ordering::Relaxed) < 100_000, "the rest is not begun");
    }
}
