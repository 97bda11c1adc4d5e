//! Why a service cannot have the settings that are wanted.

use crate::types::Policy;
use std::error::Error;
use std::fmt;

/// A requirement of a policy that a service, its devices or the switch do not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyNeed {
    /// A processor in this server.
    Cpu(String),
    /// Reports of devices.
    Reports(Policy),
    /// Probes.
    Probes(Policy),
    /// A metric that is a percentage.
    Percentage(Policy),
    /// A lower limit below the upper one.
    Limits {
        /// The policy.
        policy: Policy,
        /// The lower limit.
        low: u16,
        /// The upper limit.
        high: u16,
    },
    /// A choice by hash alone, because switches without common connections adopt unknown ones.
    ByHash(Policy),
}

impl fmt::Display for PolicyNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyNeed::Cpu(server) => write!(
                f,
                "server-only needs a device of kind \"cpu\" in every server, `{server}` has none: add it, set the \
                 server's weight to 0, or choose another policy"
            ),
            PolicyNeed::Reports(Policy::P4mite) => f.write_str(
                "p4mite needs reports: write a switch.report_timeout_ms above 0, or choose another policy",
            ),
            PolicyNeed::Reports(policy) => write!(
                f,
                "{policy} needs reports of devices: write a switch.report_timeout_ms above 0, or choose another \
                 policy or metric"
            ),
            PolicyNeed::Probes(policy) => write!(
                f,
                "{policy} needs probes, which are not authenticated: write probes = \"unauthenticated\" in [switch], \
                 or choose another policy or metric"
            ),
            PolicyNeed::Percentage(policy) => write!(
                f,
                "{policy} uses 100 minus the metric: it must be a percentage, \"compute\", \"memory\" or \"network\""
            ),
            PolicyNeed::Limits { policy, low, high } => {
                write!(f, "{policy}: tuning.low is {low} and tuning.high {high}: `low` must be below `high`")
            }
            PolicyNeed::ByHash(policy) => write!(
                f,
                "adopt_unknown needs a policy that chooses by hash alone, \"ecmp\" or \"server-only\" without tuning: two switches \
                 would choose different devices for a connection under {policy}"
            ),
        }
    }
}

impl Error for PolicyNeed {}

/// No service has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownService {
    /// The name.
    pub name: String,
    /// The services that exist.
    pub known: Vec<String>,
}

impl fmt::Display for UnknownService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no service `{}`; there are: {}", self.name, self.known.join(", "))
    }
}

impl Error for UnknownService {}

/// Why a service cannot have the settings that are wanted. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The service does not exist.
    Service(UnknownService),
    /// The service does not have the device.
    Device {
        /// The service.
        service: String,
        /// The device, as it was written.
        device: String,
        /// Some devices of the service.
        known: Vec<String>,
    },
    /// The service does not meet a requirement of the policy.
    Policy {
        /// The service.
        service: String,
        /// The requirement.
        need: PolicyNeed,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::Service(unknown) => unknown.fmt(f),
            SettingsError::Device { service, device, known } => write!(
                f,
                "service `{service}`: has no device `{device}`: write \"server/device\", such as {}",
                known.join(", ")
            ),
            SettingsError::Policy { service, need } => write!(f, "service `{service}`: {need}"),
        }
    }
}

impl Error for SettingsError {}

impl From<UnknownService> for SettingsError {
    fn from(unknown: UnknownService) -> Self {
        SettingsError::Service(unknown)
    }
}
