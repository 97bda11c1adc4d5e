//! A device's load as probes: IP protocol 42, 16 bits with its number and three tenths of what is free (docs/policies.md).

use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys::{Epoll, Interest, Waker};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PROTOCOL: i32 = 42;

/// Sends probes until it is dropped.
#[derive(Debug)]
pub struct Prober {
    stop: Arc<(AtomicBool, Waker)>,
    thread: Option<JoinHandle<()>>,
}

/// The probe of a device: free processor, memory and link, each from 0 to 10.
fn narrow(number: u8, [processor, memory, link]: [u8; 3]) -> [u8; 2] {
    let tenth = |value: u8| value.min(10);
    [(number & 15) << 4 | tenth(processor), tenth(memory) << 4 | tenth(link)]
}

impl Prober {
    /// Sends one to an address of the switch now, and then one every `period`. `free` is called for each, on a thread in the namespace.
    ///
    /// # Errors
    /// No raw socket can be opened: that needs root.
    pub fn start(
        namespace: &Namespace,
        to: Ipv4Addr,
        number: u8,
        period: Duration,
        mut free: impl FnMut() -> [u8; 3] + Send + 'static,
    ) -> Result<Self> {
        let failed = |e| Error::os("cannot open a socket for probes", e);
        let open = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(PROTOCOL)));
        let socket = namespace.enter(open)?.map_err(failed)?;
        let stop = Arc::new((AtomicBool::new(false), Waker::new().map_err(failed)?));
        let epoll = Epoll::new().map_err(failed)?;
        epoll.add(&stop.1, 0, Interest::READ).map_err(failed)?;
        let stopped = stop.clone();
        let to = SocketAddrV4::new(to, 0).into();
        let thread = namespace.spawn("prober", move || {
            let (mut next, mut ready) = (Instant::now(), Vec::new());
            while !stopped.0.load(Relaxed) {
                // One that is lost is like one on the wire: the next one says the same.
                let _ = socket.send_to(&narrow(number, free()), &to);
                next += period;
                while !stopped.0.load(Relaxed) && Instant::now() < next {
                    if epoll.wait(&mut ready, Some(next.saturating_duration_since(Instant::now()))).is_err() {
                        return;
                    }
                }
            }
        })?;
        Ok(Prober { stop, thread: Some(thread) })
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop.0.store(true, Relaxed);
        self.stop.1.wake();
        if let Some(thread) = self.thread.take() {
            // A panic in there has been reported where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_has_four_fields_of_four_bits() {
        assert_eq!(narrow(2, [10, 3, 7]), [0x2a, 0x37]);
        assert_eq!(narrow(1, [200, 0, 11]), [0x1a, 0x0a], "tenths end at ten");
    }
}
