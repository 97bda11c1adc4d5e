//! A port's knowledge of its interface's link, and the changes that it must still report.

use crate::PortError;

/// The interval of checks whether an interface that is down has returned.
pub(crate) const RECOVERY_INTERVAL_NS: u64 = 100_000_000;

/// The same while there are frames to send, which would be dropped.
const RETRY_INTERVAL_NS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    Down,
    Gone,
}

/// The link, as it was when it was last looked at.
#[derive(Debug)]
pub(crate) struct LinkState {
    pub link: Link,
    /// A change not yet reported to the caller.
    news: bool,
    /// When it was last looked at, in the caller's time.
    pub checked_ns: u64,
}

impl LinkState {
    pub fn new(link: Link) -> Self {
        Self { link, news: false, checked_ns: 0 }
    }

    pub fn set(&mut self, link: Link) {
        self.news |= link != self.link && link != Link::Up;
        self.link = link;
    }

    pub fn is_up(&self) -> bool {
        self.link == Link::Up
    }

    /// When to check again whether it has returned.
    pub fn due(&self) -> Option<u64> {
        (!self.is_up()).then(|| self.checked_ns.saturating_add(RECOVERY_INTERVAL_NS))
    }

    /// Whether it is time to check again. Then it counts as done.
    pub fn take_due(&mut self, now_ns: u64) -> bool {
        self.take_after(RECOVERY_INTERVAL_NS, now_ns)
    }

    /// The same for a link that is down, when a frame is to be sent.
    pub fn take_retry(&mut self, now_ns: u64) -> bool {
        !self.is_up() && self.take_after(RETRY_INTERVAL_NS, now_ns)
    }

    fn take_after(&mut self, interval_ns: u64, now_ns: u64) -> bool {
        let due = now_ns.abs_diff(self.checked_ns) >= interval_ns;
        if due {
            self.checked_ns = now_ns;
        }
        due
    }

    /// Reports a change of the link once.
    pub fn tell(&mut self, name: &str) -> Result<(), PortError> {
        if !std::mem::take(&mut self.news) {
            return Ok(());
        }
        let interface = name.to_string();
        match self.link {
            Link::Up => Ok(()),
            Link::Down => Err(PortError::LinkDown { interface }),
            Link::Gone => Err(PortError::LinkGone { interface }),
        }
    }
}
