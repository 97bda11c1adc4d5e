//! Configuration of a switch.

use crate::queue::PortRate;
use std::collections::BTreeSet;

/// [`SwitchConfig::max_descendants`] unless configured.
pub const DEFAULT_MAX_DESCENDANTS: u32 = 1024;

/// Everything that can be chosen about a switch apart from its program. [`Default`] is what BMv2's simple_switch does, apart
/// from `max_descendants`, which it does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Ports that exist at the start. `None`: every number that the program's port type can hold.
    pub ports: Option<BTreeSet<u32>>,
    /// The value of `egress_spec` that means drop.
    pub drop_port: u32,
    /// The port for packets that end in the switch: they are counted as consumed, neither sent nor dropped.
    /// It is a port like any other if [`SwitchConfig::ports`] lists it.
    pub consume_port: u32,
    /// The port that leads to the control plane.
    pub cpu_port: Option<u32>,
    /// Priority queues per port, 1 to 8. `standard_metadata.priority` chooses; a larger number is served first.
    pub queues_per_port: u8,
    /// Packets that each queue holds; more are dropped at the tail.
    pub queue_depth_packets: u32,
    /// Packets per second at which each queue is served; `None` for no limit.
    pub queue_rate_pps: Option<u64>,
    /// How fast resubmitted and recirculated packets come in; `None` for no limit.
    pub recirculation_rate: Option<PortRate>,
    /// Received packets that may wait for ingress.
    pub input_depth_packets: u32,
    /// Resubmitted and recirculated packets that may wait for ingress.
    pub recirculation_depth_packets: u32,
    /// How often one received packet, and the packets that descend from it, may be cloned, resubmitted and recirculated
    /// altogether. The descendant that would exceed it is dropped. `None` for no limit.
    pub max_descendants: Option<u32>,
    /// Longer received packets are dropped.
    pub max_packet_bytes: u32,
    /// Digests that may wait for [`Switch::take_digests`](crate::Switch::take_digests).
    pub max_waiting_digests: usize,
    /// Events that may wait for [`Switch::take_events`](crate::Switch::take_events).
    pub max_waiting_events: usize,
    /// Added to the timestamps that programs see: microseconds between the epoch of their choice and the switch's start.
    /// With the time of day at the start they see UNIX time. 0 as in BMv2.
    pub clock_offset_us: u64,
    /// Timestamps in `standard_metadata` count nanoseconds and not microseconds, which is BMv2's unit. Those of 32 bits then wrap
    /// after 4.3 seconds.
    pub nanoseconds: bool,
    /// Of `random()` and of the `random` hash. Equal seeds and inputs give equal outputs.
    pub seed: u64,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        SwitchConfig {
            ports: None,
            drop_port: 511,
            consume_port: 509,
            cpu_port: None,
            queues_per_port: 1,
            queue_depth_packets: 64,
            queue_rate_pps: None,
            recirculation_rate: None,
            input_depth_packets: 1024,
            recirculation_depth_packets: 1024,
            max_descendants: Some(DEFAULT_MAX_DESCENDANTS),
            max_packet_bytes: 65_535,
            max_waiting_digests: 4096,
            max_waiting_events: 4096,
            clock_offset_us: 0,
            nanoseconds: false,
            seed: 1,
        }
    }
}

/// The error of a configuration, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl SwitchConfig {
    /// Checks every field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let err = |m: String| Err(ConfigError(m));
        if !(1..=8).contains(&self.queues_per_port) {
            return err(format!("queues_per_port is {}: choose 1 to 8", self.queues_per_port));
        }
        if self.queue_depth_packets == 0 {
            return err("queue_depth_packets is 0: no packet could ever leave; choose at least 1".into());
        }
        if self.queue_rate_pps == Some(0) {
            return err("queue_rate_pps is 0: omit it for no limit".into());
        }
        if self.recirculation_rate.is_some_and(|r| r.bits_per_s == 0) {
            return err("recirculation_rate is 0 bit/s: omit it for no limit".into());
        }
        for (name, value) in [
            ("input_depth_packets", self.input_depth_packets),
            ("recirculation_depth_packets", self.recirculation_depth_packets),
            ("max_packet_bytes", self.max_packet_bytes),
        ] {
            if value == 0 {
                return err(format!("{name} is 0: choose at least 1"));
            }
        }
        if self.cpu_port == Some(self.drop_port) {
            return err(format!(
                "cpu_port and drop_port are both {}: choose different numbers",
                self.drop_port
            ));
        }
        if self.ports.as_ref().is_some_and(|p| p.contains(&self.drop_port)) {
            return err(format!(
                "port {} is the drop port: give the port or drop_port another number",
                self.drop_port
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut SwitchConfig), message: &str) {
        let mut c = SwitchConfig::default();
        change(&mut c);
        let got = c.validate().map_or_else(|e| e.0, |()| "fine".into());
        assert!(got.contains(message), "{got}");
    }

    #[test]
    fn validates() {
        check(|_| {}, "fine");
        check(|c| c.queues_per_port = 0, "queues_per_port");
        check(|c| c.queues_per_port = 9, "queues_per_port");
        check(|c| c.queue_depth_packets = 0, "queue_depth_packets");
        check(|c| c.queue_rate_pps = Some(0), "queue_rate_pps");
        check(|c| c.input_depth_packets = 0, "input_depth_packets");
        check(|c| c.cpu_port = Some(511), "cpu_port");
        check(|c| c.ports = Some([1, 511].into()), "port 511");
    }
}
