//! The demo's rack: its devices, and the rack.toml that an operator would write for it.

use pointsman_balance::config::file::{
    AgentSection, DeviceSection, RackFile, ServerSection, ServiceSection, SwitchSection,
};
use pointsman_balance::config::{NextHop, Route, Threshold};
use pointsman_balance::{DeviceKind, Policy, Prefix, Protocol};
use pointsman_lab::device::{Calibration, DeviceConfig, Model, ServiceTime};
use pointsman_lab::rack::{DeviceSpec, RackSpec};
use pointsman_lab::wire::Key;
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
    let device = |(name, d): (String, &DeviceSpec)| DeviceConfig {
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
pub fn description(spec: &RackSpec, policy: Policy, without: Option<&str>) -> RackFile {
    let gateways = spec.hosts().flat_map(|(_, l)| [l.gateway_ipv4.into(), l.gateway_ipv6.into()]);
    let routes = spec.clients.iter().flat_map(|client| {
        let link = &client.link;
        let route = |address, len| Route {
            prefix: Prefix::containing(address, len),
            port: link.port,
            hop: NextHop::Neighbour(address),
        };
        [route(link.ipv4.into(), link.prefix_ipv4), route(link.ipv6.into(), link.prefix_ipv6)]
    });
    let servers = spec.servers.iter().map(|server| {
        let own = server.devices.iter().enumerate();
        let own = own.filter(|(_, d)| without != Some(server.device_name(d).as_str()));
        ServerSection {
            name: server.name.clone(),
            devices: own.map(|(slot, d)| device(slot as u8, d)).collect(),
            ..ServerSection::default()
        }
    });
    RackFile {
        switch: SwitchSection {
            gateways: gateways.collect(),
            report_keys: Some("made for each run".into()),
            ..SwitchSection::default()
        },
        routes: routes.collect(),
        servers: servers.collect(),
        services: vec![ServiceSection {
            vips: vec![spec.vip_ipv4.into(), spec.vip_ipv6.into()],
            protocols: vec![Protocol::Udp, Protocol::Tcp],
            idle_timeout_ms: Some(5000),
            ..ServiceSection::new(SERVICE, PORT, policy)
        }],
        ..RackFile::default()
    }
}

/// A device, with the thresholds of its agent.
///
/// Offloading pays when waiting here takes longer than working there: a CPU is busy when as many requests are unanswered
/// as it handles in the time that a SmartNIC needs for one. A SmartNIC is busy when all its cores are. Answer latency,
/// which the original P4Mite uses, reacts too late: by the time that a slow device has answered, it has been sent far too
/// much. It remains as the sign of a stuck device.
fn device(slot: u8, device: &DeviceSpec) -> DeviceSection {
    let (kind, high, low) = match device.speed >= 1.0 {
        true => (DeviceKind::Cpu, 4 * SERVERS + 4, 4 * SERVERS),
        false => (DeviceKind::SmartNic, SERVERS - 1, SERVERS - 2),
    };
    let usual_ms = SERVICE_TIME.as_secs_f64() * 1e3 / device.speed;
    DeviceSection {
        slot: Some(slot),
        address: Some(device.link.ipv4),
        address6: Some(device.link.ipv6),
        priority: Some(slot + 1),
        weight: Some((device.speed * 5.0).round().max(1.0) as u32),
        agent: AgentSection {
            outstanding: Some(Threshold { high: high as f64, low: low as f64 }),
            latency_ms: Some(Threshold { high: 10.0 * usual_ms, low: 5.0 * usual_ms }),
            hold_ms: Some(5),
            ..AgentSection::default()
        },
        ..DeviceSection::new(&device.name, kind, device.link.port)
    }
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
            let rack = description(&spec, Policy::P4mite, without).rack().expect("a good description");
            assert_eq!(rack.devices().count(), if without.is_some() { 3 } else { 4 });
        }
    }
}
