//! Captures in place of interfaces: `--use-files`.

use pointsman_ports::{Counters, Frame, FramePool, Port, PortError};
use std::os::fd::RawFd;
use std::time::Duration;

/// A port that receives nothing at first.
pub struct Delayed<P> {
    port: P,
    delay_ns: u64,
    /// In the caller's time, from the first poll of the port.
    begins_ns: Option<u64>,
}

impl<P: Port> Delayed<P> {
    /// `port`, which begins this long after it is first asked for frames.
    pub fn new(port: P, delay: Duration) -> Self {
        Delayed { port, delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX), begins_ns: None }
    }
}

impl<P: Port> Port for Delayed<P> {
    fn name(&self) -> &str {
        self.port.name()
    }

    fn raw_fd(&self) -> Option<RawFd> {
        self.port.raw_fd()
    }

    fn due(&self) -> Option<u64> {
        let due = self.port.due()?;
        Some(due.max(self.begins_ns.unwrap_or(0)))
    }

    fn receive(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let begins = *self.begins_ns.get_or_insert(now_ns.saturating_add(self.delay_ns));
        if now_ns < begins { Ok(0) } else { self.port.receive(now_ns, pool, frames) }
    }

    fn transmit(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        self.port.transmit(now_ns, pool, frames)
    }

    fn discard(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        self.port.discard(pool, frames);
    }

    fn is_up(&self) -> bool {
        self.port.is_up()
    }

    fn has_carrier(&mut self) -> bool {
        self.port.has_carrier()
    }

    fn counters(&mut self) -> Counters {
        self.port.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ports::MemoryPort;

    #[test]
    fn nothing_comes_before_its_time() {
        let (mut there, here) = MemoryPort::pair("there", "here", 8).unwrap();
        let mut port = Delayed::new(here, Duration::from_nanos(100));
        let (mut pool, mut frames) = (FramePool::default(), Vec::new());
        there.send(&[0; 60]);
        assert_eq!(port.receive(1000, &mut pool, &mut frames).unwrap(), 0);
        assert_eq!(port.receive(1099, &mut pool, &mut frames).unwrap(), 0);
        assert_eq!(port.receive(1100, &mut pool, &mut frames).unwrap(), 1);
    }
}
