//! A generated rack: a number of equal servers, as the text of a `rack.toml`, which is then read like any other.

use pointsman_balance::config::{AgentSettings, Threshold};
use pointsman_balance::trust::ReportKeys;
use pointsman_balance::{DeviceKind, Policy, Protocol, Rack};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ports of the switch for clients and servers: 1 to this. The controller has the next.
const LAST_PORT: usize = 509;

/// First addresses: of the servers' network, and of the first client's (others are /16s apart).
const SERVERS: u32 = 10 << 24 | 32 << 16;
const CLIENTS: u32 = 10 << 24 | 64 << 16;
/// The service.
pub const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
/// Its port.
pub const PORT: u16 = 8000;
/// Most clients of a generated rack.
pub const MAX_CLIENTS: usize = 64;

/// A kind of device that every server has.
#[derive(Clone, Debug)]
pub struct Each {
    pub name: String,
    pub kind: DeviceKind,
    pub weight: u32,
    pub priority: u8,
    pub enabled: bool,
}

/// The description of a generated rack.
#[derive(Clone, Debug)]
pub struct Generated {
    pub servers: u32,
    pub policy: Policy,
    pub slots: Option<u32>,
    pub idle_timeout_ms: u32,
    pub report_timeout_ms: u32,
    pub poll_interval_ms: Option<u32>,
    pub agent: AgentSettings,
    pub devices: Vec<Each>,
}

/// The networks of servers and clients, and the service's address, in IPv6.
const SERVERS6: u128 = 0xfd00_0000_0000_0001 << 64;
const CLIENTS6: u128 = 0xfd00_0000_0000_0100 << 64;
const VIP6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100);

/// First address of a client.
pub fn client_address(index: usize, v6: bool) -> IpAddr {
    if v6 {
        return Ipv6Addr::from(CLIENTS6 + ((index as u128) << 64) + 2).into();
    }
    Ipv4Addr::from(CLIENTS + ((index as u32) << 16) + 2).into()
}

/// Settings of agents as lines of a `rack.toml`.
pub fn agent_text(a: &AgentSettings) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "heartbeat_ms = {}\nrepeat_ms = {}\nhold_ms = {}\nwindow_ms = {}\nsmoothing = {}\nlost_after_ms = {}",
        a.heartbeat_ms, a.repeat_ms, a.hold_ms, a.window_ms, a.smoothing, a.lost_after_ms
    );
    let mut threshold = |name: &str, t: Option<Threshold>| {
        if let Some(t) = t {
            let _ = writeln!(text, "{name} = {{ high = {}, low = {} }}", t.high, t.low);
        }
    };
    threshold("latency_ms", a.latency_ms);
    threshold("outstanding", a.outstanding);
    threshold("cpu_percent", a.cpu_percent);
    threshold("memory_percent", a.memory_percent);
    threshold("network_percent", a.network_percent);
    if let Some(speed) = a.network_mbit_s {
        let _ = writeln!(text, "network_mbit_s = {speed}");
    }
    text
}

/// Gives every agent a key. No secret is needed, because no other sender exists.
pub fn simulated_keys(mut rack: Rack) -> Rack {
    let mut keys = ReportKeys::default();
    let mut n = 0u64;
    let next = || {
        n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
        n.to_be_bytes()
    };
    // It fails only for an agent whose keys are used up.
    let _ = keys.extend(&rack, false, next);
    rack.keys = keys;
    rack
}

impl Generated {
    /// The text of its `rack.toml`, for clients of which these speak IPv6. Servers share ports where there are more of them
    /// than ports.
    pub fn text(&self, v6: &[bool], transport: Protocol) -> String {
        let clients = v6.len();
        let any6 = v6.contains(&true);
        let mut text = String::new();
        let gateway = Ipv4Addr::from(SERVERS + 1);
        let _ = writeln!(
            text,
            "[switch]\nmac = \"02:50:4d:00:00:01\"\ngateways = [\"{gateway}\"]\nreport_keys = \"simulated\"\nreport_timeout_ms = {}",
            self.report_timeout_ms
        );
        if let Some(poll) = self.poll_interval_ms {
            let _ = writeln!(text, "poll_interval_ms = {poll}");
        }
        let _ = write!(text, "[agent]\n{}", agent_text(&self.agent));
        for (i, v6) in v6.iter().enumerate() {
            let prefix = match v6 {
                true => format!("{}/64", Ipv6Addr::from(CLIENTS6 + ((i as u128) << 64))),
                false => format!("{}/16", Ipv4Addr::from(CLIENTS + ((i as u32) << 16))),
            };
            let _ = writeln!(
                text,
                "[[route]]\nprefix = \"{prefix}\"\nport = {}\nmac = \"02:00:00:01:00:{i:02x}\"",
                i + 1
            );
        }
        for server in 0..self.servers as usize {
            let port = clients + 1 + server % (LAST_PORT - clients);
            let _ = writeln!(text, "[[server]]\nname = \"s{}\"", server + 1);
            for (i, device) in self.devices.iter().enumerate() {
                let number = server * self.devices.len() + i;
                let address = Ipv4Addr::from(SERVERS + 16 + number as u32);
                let [_, _, high, low] = (number as u32).to_be_bytes();
                let _ = writeln!(
                    text,
                    "[[server.device]]\nname = \"{}\"\nkind = \"{}\"\nport = {port}\naddress = \"{address}\"\n\
                     mac = \"02:00:00:02:{high:02x}:{low:02x}\"\nweight = {}\npriority = {}\nenabled = {}",
                    device.name,
                    device.kind.name(),
                    device.weight,
                    device.priority,
                    device.enabled
                );
                if any6 {
                    let _ =
                        writeln!(text, "address6 = \"{}\"", Ipv6Addr::from(SERVERS6 + 16 + number as u128));
                }
            }
        }
        let slots = self.slots.unwrap_or_else(|| (self.servers * 8).next_power_of_two().clamp(256, 65_536));
        let vips = if any6 { format!("\"{VIP}\", \"{VIP6}\"") } else { format!("\"{VIP}\"") };
        let _ = writeln!(
            text,
            "[[service]]\nname = \"service\"\nvip = [{vips}]\nprotocol = \"{transport}\"\nport = {PORT}\npolicy = \"{}\"\n\
             slots = {slots}\nidle_timeout_ms = {}",
            self.policy, self.idle_timeout_ms
        );
        text
    }
}
