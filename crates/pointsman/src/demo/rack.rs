//! The demo's rack: its devices, and the rack.toml that an operator would write for it.

use pointsman_lab::device::{Calibration, DeviceConfig, Model, ServiceTime};
use pointsman_lab::rack::RackSpec;
use pointsman_lab::wire::Key;
use std::fmt::Write;
use std::time::Duration;

/// Port of the service, UDP and TCP.
pub const PORT: u16 = 8000;

/// Name of the service.
pub const SERVICE: &str = "inference";

/// Service time on a CPU. The SmartNIC takes five times as long.
pub const SERVICE_TIME: Duration = Duration::from_millis(10);

/// Requests that a device processes concurrently.
pub const SERVERS: usize = 8;

/// How devices handle requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Work {
    /// A queue with a given service time: the same on any machine.
    Timed,
    /// Real computation under a CPU quota (cgroup v1 or v2).
    Cpu,
}

/// The devices of `spec`.
pub fn devices(spec: &RackSpec, work: Work, seed: u64) -> Vec<DeviceConfig> {
    // One measurement for all: devices differ by speed, not by measurement noise.
    let calibration = (work == Work::Cpu).then(Calibration::measure);
    let device = |(name, d): (String, &pointsman_lab::rack::DeviceSpec)| DeviceConfig {
        key: Key::derive(seed, &name),
        name,
        addresses: vec![d.link.ipv4.into(), d.link.ipv6.into()],
        port: PORT,
        model: match calibration {
            None => Model::Timed(ServiceTime::Deterministic),
            // Together the CPUs get most of a small machine, and leave the rest to the network.
            Some(calibration) => Model::Cpu { calibration, quota: Some(0.4) },
        },
        service: SERVICE_TIME,
        speed: d.speed,
        servers: SERVERS,
        buffer: 1024,
        seed,
        metrics: None,
    };
    spec.devices().map(device).collect()
}

/// Requests a second that a device handles at most. Under a quota it is the quota that limits, not the number of workers.
pub fn capacity_rps(config: &DeviceConfig) -> f64 {
    match config.model {
        Model::Cpu { quota: Some(cores), .. } => cores * config.speed / config.service.as_secs_f64(),
        Model::Cpu { quota: None, .. } | Model::Timed(_) | Model::Compute { .. } => config.capacity_rps(),
    }
}

/// The rack.toml. `without` leaves out one device (`server/device`).
pub fn toml(spec: &RackSpec, policy: &str, without: Option<&str>) -> String {
    let mut t = String::new();
    let mut gateways: Vec<String> = Vec::new();
    for (_, link) in spec.hosts() {
        gateways.push(format!("\"{}\"", link.gateway_ipv4));
        gateways.push(format!("\"{}\"", link.gateway_ipv6));
    }
    // Writing to a String cannot fail.
    let _ = write!(
        t,
        "[switch]\np4runtime = \"127.0.0.1:9559\"\nmac = \"02:50:4d:00:00:01\"\ngateways = [{}]\n\
         report_keys = \"made for each run\"\nreport_timeout_ms = 500\n\n[agent]\nheartbeat_ms = 100\n\n",
        gateways.join(", ")
    );
    for client in &spec.clients {
        let link = &client.link;
        for (address, prefix) in [
            (
                link.ipv4.to_string(),
                format!("{}/{}", network4(link.ipv4, link.prefix_ipv4), link.prefix_ipv4),
            ),
            (
                link.ipv6.to_string(),
                format!("{}/{}", network6(link.ipv6, link.prefix_ipv6), link.prefix_ipv6),
            ),
        ] {
            let _ =
                write!(t, "[[route]]\nprefix = \"{prefix}\"\nport = {}\nvia = \"{address}\"\n\n", link.port);
        }
    }
    for server in &spec.servers {
        let _ = write!(t, "[[server]]\nname = \"{}\"\n\n", server.name);
        for (slot, device) in server.devices.iter().enumerate() {
            if without == Some(server.device_name(device).as_str()) {
                continue;
            }
            let cpu = device.speed >= 1.0;
            // Offloading pays when waiting here takes longer than working there: a CPU is busy when as many requests are
            // unanswered as it handles in the time that a SmartNIC needs for one. A SmartNIC is busy when all its cores
            // are. Answer latency, which the original P4Mite uses, reacts too late: by the time that a slow
            // device has answered, it has been sent far too much. It remains as the sign of a stuck device.
            let (high, low) = if cpu { (4 * SERVERS + 4, 4 * SERVERS) } else { (SERVERS - 1, SERVERS - 2) };
            let usual = SERVICE_TIME.as_secs_f64() * 1e3 / device.speed;
            let (stuck, well) = (10.0 * usual, 5.0 * usual);
            let _ = write!(
                t,
                "[[server.device]]\nname = \"{}\"\nslot = {slot}\nkind = \"{}\"\nport = {}\naddress = \"{}\"\n\
                 address6 = \"{}\"\npriority = {}\nweight = {}\nagent = {{ outstanding = {{ high = {high}, low = {low} }}, latency_ms = {{ high = {stuck}, low = {well} }}, hold_ms = 5 }}\n\n",
                device.name,
                if cpu { "cpu" } else { "smartnic" },
                device.link.port,
                device.link.ipv4,
                device.link.ipv6,
                slot + 1,
                (device.speed * 5.0).round().max(1.0) as u32,
            );
        }
    }
    let _ = write!(
        t,
        "[[service]]\nname = \"{SERVICE}\"\nvip = [\"{}\", \"{}\"]\nprotocol = [\"udp\", \"tcp\"]\nport = {PORT}\n\
         policy = \"{policy}\"\nidle_timeout_ms = 5000\n",
        spec.vip_ipv4, spec.vip_ipv6
    );
    t
}

fn network4(address: std::net::Ipv4Addr, prefix: u8) -> std::net::Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    (u32::from(address) & mask).into()
}

fn network6(address: std::net::Ipv6Addr, prefix: u8) -> std::net::Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    (u128::from(address) & mask).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_limits() {
        let spec = RackSpec::demo();
        let total = |work| devices(&spec, work, 1).iter().map(capacity_rps).sum::<f64>();
        // Two servers with a whole and a fifth of a device each: eight at a time, or 0.4 processors.
        assert!((total(Work::Timed) - 2.4 * 800.0).abs() < 1e-6);
        assert!((total(Work::Cpu) - 2.4 * 40.0).abs() < 1e-6);
    }

    #[test]
    fn the_description_is_right() {
        let spec = RackSpec::demo();
        for without in [None, Some("s1/nic")] {
            let text = toml(&spec, "p4mite", without);
            let rack = pointsman_balance::Rack::parse("rack.toml", &text).expect("a good description");
            assert_eq!(rack.devices().count(), if without.is_some() { 3 } else { 4 });
        }
    }
}
