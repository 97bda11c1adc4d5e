//! The bare forwarder: no program, just ports. The upper bound for a switch on the same ports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{FramePool, PollMode, PollStrategy, Poller, Port, PortError, Step};

/// How long a loop without frames may not notice that it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

/// Sends frames from one port out on the other until `stop` is set. Frames that a port does not take are dropped and
/// counted.
///
/// # Errors
/// An error of waiting. Errors of a port are left to the port: the loop continues.
pub fn forward(ports: &mut [Box<dyn Port>; 2], mode: PollMode, stop: &AtomicBool) -> Result<(), PortError> {
    let start = Instant::now();
    let failed = |source| PortError::System { port: "forwarder".into(), doing: "wait for frames", source };
    let mut poller = Poller::new().map_err(failed)?;
    for (key, port) in ports.iter().enumerate() {
        if let Some(fd) = port.raw_fd() {
            poller.add(key, fd);
        }
    }
    let mut strategy = PollStrategy::new(mode);
    let mut pool = FramePool::default();
    let (mut frames, mut ready) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let now_ns = start.elapsed().as_nanos() as u64;
        let mut count = 0;
        for at in 0..2 {
            let [left, right] = ports;
            let (from, to) = if at == 0 { (left, right) } else { (right, left) };
            // A port reports each change of its link once; its counters have the rest.
            let _ = from.receive(now_ns, &mut pool, &mut frames);
            count += frames.len();
            if !frames.is_empty() {
                let _ = to.transmit(now_ns, &mut pool, &mut frames);
                to.discard(&mut pool, &mut frames);
            }
        }
        if strategy.after(now_ns, count) == Step::Sleep {
            let due = ports.iter().filter_map(|port| port.due()).min();
            let due = due.map(|at| start + Duration::from_nanos(at));
            let deadline = Instant::now() + STOP_INTERVAL;
            poller.wait(Some(due.map_or(deadline, |due| due.min(deadline))), &mut ready).map_err(failed)?;
        }
    }
    Ok(())
}
