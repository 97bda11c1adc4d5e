//! Waiting for many ports at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use crate::sys;

/// Wakes a [`Poller`] from any thread. Clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Makes the current or the next wait return at once. Waking twice before that counts once.
    ///
    /// # Errors
    /// Those of the kernel; none are expected.
    pub fn wake(&self) -> io::Result<()> {
        sys::raise(self.0.as_fd())
    }
}

/// The readiness of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The key under which the descriptor was added.
    pub key: usize,
    /// Something can be received. Also set on errors: receiving then returns the error.
    pub readable: bool,
    /// There is room to transmit.
    pub writable: bool,
    /// The descriptor was closed: remove it.
    pub closed: bool,
}

/// Waits for descriptors, a waker and a deadline. It uses ppoll, whose deadline is in nanoseconds and whose cost for
/// the few dozen ports of a switch is negligible.
#[derive(Debug)]
pub struct Poller {
    waker: Waker,
    /// The waker comes first.
    entries: Vec<libc::pollfd>,
    /// The keys of the entries after the waker.
    keys: Vec<usize>,
}

impl Poller {
    /// A poller that waits for nothing but its waker.
    ///
    /// # Errors
    /// Those of the kernel, such as too many open files.
    pub fn new() -> io::Result<Self> {
        let waker = Waker(Arc::new(sys::eventfd()?));
        let entry = sys::poll_entry(waker.0.as_raw_fd());
        Ok(Self { waker, entries: vec![entry], keys: Vec::new() })
    }

    /// A handle that wakes this poller.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Waits for the descriptor to become readable from now on. A key that is in use already is moved to the new
    /// descriptor. The descriptor must stay open until it is removed.
    pub fn add(&mut self, key: usize, fd: RawFd) {
        self.remove(key);
        self.keys.push(key);
        self.entries.push(sys::poll_entry(fd));
    }

    /// Forgets a descriptor.
    pub fn remove(&mut self, key: usize) {
        if let Some(at) = self.find(key) {
            self.keys.remove(at - 1);
            self.entries.remove(at);
        }
    }

    /// Whether to wait for the descriptor to become readable. Off makes sense while what arrives has nowhere to go.
    pub fn want_readable(&mut self, key: usize, wanted: bool) {
        self.want(key, libc::POLLIN, wanted);
    }

    /// Whether to wait for the descriptor to become writable. On makes sense while frames are left to transmit.
    pub fn want_writable(&mut self, key: usize, wanted: bool) {
        self.want(key, libc::POLLOUT, wanted);
    }

    fn find(&self, key: usize) -> Option<usize> {
        self.keys.iter().position(|&other| other == key).map(|at| at + 1)
    }

    fn want(&mut self, key: usize, event: i16, wanted: bool) {
        if let Some(at) = self.find(key) {
            let events = &mut self.entries[at].events;
            *events = if wanted { *events | event } else { *events & !event };
        }
    }

    /// Waits until a descriptor is ready, the waker was used or the deadline has passed (`None`: no deadline).
    /// Fills `ready` in the order in which descriptors were added, and says whether the waker was used.
    ///
    /// # Errors
    /// Those of the kernel; none are expected. A signal is not an error: the wait continues.
    pub fn wait(&mut self, deadline: Option<Instant>, ready: &mut Vec<Ready>) -> io::Result<bool> {
        ready.clear();
        loop {
            let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match sys::poll(&mut self.entries, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        ready.extend(self.keys.iter().zip(&self.entries[1..]).filter(|(_, entry)| entry.revents != 0).map(
            |(&key, entry)| Ready {
                key,
                readable: entry.revents & (libc::POLLIN | libc::POLLERR | libc::POLLHUP) != 0,
                writable: entry.revents & libc::POLLOUT != 0,
                closed: entry.revents & libc::POLLNVAL != 0,
            },
        ));
        Ok(self.entries[0].revents != 0 && sys::lower(self.waker.0.as_fd()))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn soon(milliseconds: u64) -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(milliseconds))
    }

    #[test]
    fn the_deadline_ends_the_wait() {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        let start = Instant::now();
        assert!(!poller.wait(soon(20), &mut ready).unwrap());
        assert!(start.elapsed() >= Duration::from_millis(20));
        // One that has passed already makes it a look without waiting.
        assert!(!poller.wait(Some(start), &mut ready).unwrap());
        assert!(ready.is_empty());
    }

    #[test]
    fn the_waker_ends_the_wait_once() {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        let waker = poller.waker();
        let thread = thread::spawn(move || waker.wake().and_then(|()| waker.wake()));
        assert!(poller.wait(soon(10_000), &mut ready).unwrap());
        thread.join().unwrap().unwrap();
        poller.wait(Some(Instant::now()), &mut ready).unwrap();
        assert!(!poller.wait(soon(1), &mut ready).unwrap());
    }

    #[test]
    fn ready_descriptors_are_named_by_their_keys() {
        let mut poller = Poller::new().unwrap();
        let mut ready = Vec::new();
        let events = [(); 3].map(|()| sys::eventfd().unwrap());
        for (key, event) in [70, 50, 60].into_iter().zip(&events) {
            poller.add(key, event.as_raw_fd());
        }
        sys::raise(events[1].as_fd()).unwrap();
        sys::raise(events[2].as_fd()).unwrap();
        poller.wait(soon(10_000), &mut ready).unwrap();
        let readable = |key| Ready { key, readable: true, writable: false, closed: false };
        assert_eq!(ready, [readable(50), readable(60)]);

        poller.want_readable(50, false);
        poller.want_writable(70, true);
        poller.remove(60);
        poller.wait(soon(10_000), &mut ready).unwrap();
        assert_eq!(ready, [Ready { key: 70, readable: false, writable: true, closed: false }]);
    }
}
