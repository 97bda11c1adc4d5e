//! Why something cannot be measured between interfaces.

use super::packets::MAX_LIVE_FLOWS;
use pointsman_ports::PortError;
use std::error::Error;
use std::fmt;
use std::io;

/// Why something cannot be measured between interfaces.
#[derive(Debug)]
pub enum WireError {
    /// The lab refuses namespaces, programs or traffic.
    Lab(pointsman_lab::Error),
    /// An interface cannot be a port.
    Port(PortError),
    /// The generator in the kernel fails.
    Generator(io::Error),
    /// Our switch or its controller does not run.
    Live(pointsman_live::Error),
    /// What is wrong in this test bed, or in this part of it.
    In(String, Box<WireError>),
    /// The test bed lacks this part.
    Lacks(&'static str),
    /// Too many flows for the generator in the kernel.
    Flows(u32),
    /// Not one of these frames comes through the bed.
    Nothing {
        /// The frames sent.
        frames: u64,
        /// The switch's counters.
        story: String,
    },
    /// Connections of a run failed.
    Connections {
        /// How many.
        failed: usize,
        /// Out of so many.
        of: usize,
    },
    /// A peer is not installed; the packages that it is in.
    NotInstalled(&'static str),
    /// Connections of the kernel would stay; the lab's warning.
    Stay(String),
}

impl WireError {
    /// Gives an error its place.
    pub(super) fn of<E: Into<WireError>>(place: &str) -> impl Fn(E) -> WireError {
        move |e| WireError::In(place.to_string(), Box::new(e.into()))
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Lab(e) => e.fmt(f),
            WireError::Port(e) => e.fmt(f),
            WireError::Generator(e) => e.fmt(f),
            WireError::Live(e) => e.fmt(f),
            WireError::In(place, e) => write!(f, "{place}: {e}"),
            WireError::Lacks(part) => write!(f, "the test bed has no {part}"),
            WireError::Flows(flows) => write!(
                f,
                "--generator xdp supports at most {MAX_LIVE_FLOWS} flows, not {flows}: use af_packet"
            ),
            WireError::Nothing { frames, story } => write!(f, "none of {frames} frames arrived; {story}"),
            WireError::Connections { failed, of } => write!(f, "{failed} of {of} connections failed"),
            WireError::NotInstalled(packages) => {
                write!(f, "not installed: apt-get install --no-install-recommends {packages}")
            }
            WireError::Stay(warning) => write!(f, "{warning}: its connections would not expire in time"),
        }
    }
}

impl Error for WireError {}

impl From<pointsman_lab::Error> for WireError {
    fn from(e: pointsman_lab::Error) -> Self {
        WireError::Lab(e)
    }
}

impl From<PortError> for WireError {
    fn from(e: PortError) -> Self {
        WireError::Port(e)
    }
}

impl From<pointsman_live::Error> for WireError {
    fn from(e: pointsman_live::Error) -> Self {
        WireError::Live(e)
    }
}

/// The value of a flag is out of bounds.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueError {
    /// A duration in seconds.
    Seconds,
    /// A share of packets.
    Share,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::Seconds => {
                write!(f, "expected a number from {} to {}", super::SECONDS.start(), super::SECONDS.end())
            }
            ValueError::Share => f.write_str("expected a number from 0 to below 1, such as 0.00001"),
        }
    }
}

impl Error for ValueError {}
