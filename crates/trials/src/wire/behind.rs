//! The lab's rack with nginx in place of our switch, on one of the devices, which has a worker fewer. The switch only routes.

use super::{Plan, WireError, refused};
use pointsman_balance::Policy;
use pointsman_lab::device::Device;
use pointsman_lab::process::Process;
use pointsman_lab::proxy::{Front, nginx};
use pointsman_lab::rack::Rack;
use pointsman_sim::Scenario;
use std::net::SocketAddrV4;

/// Port of nginx, on the address of its device.
const PORT: u16 = 8001;

/// Where nginx runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Behind {
    /// Full name of the device, such as `s1/nic`.
    pub device: String,
    /// The part of a processor that nginx may use (a cgroup quota), if it is limited.
    pub cores: Option<f64>,
}

/// Such a rack. Fields are dropped in this order: users of the namespaces first.
pub struct Proxied {
    nginx: Process,
    devices: Vec<Device>,
    /// Namespaces and cables.
    pub rack: Rack,
}

impl Proxied {
    /// Builds the rack. Also returns where requests go.
    pub(super) fn start(
        s: &Scenario,
        plan: &mut Plan,
        behind: &Behind,
    ) -> Result<(Self, SocketAddrV4), WireError> {
        let front = prepare(s, plan, behind)?;
        let at = front.at;
        let mut rack = Rack::build(&plan.spec)?;
        rack.route_by_kernel()?;
        let mut devices = Vec::new();
        for config in &plan.devices {
            devices.push(Device::start(&rack.host(&config.name)?.namespace, config.clone())?);
        }
        let mut nginx = nginx(&rack.host(&behind.device)?.namespace, &front)?;
        if let Some(cores) = behind.cores {
            nginx.limit(cores)?;
        }
        Ok((Proxied { nginx, devices, rack }, at))
    }

    /// # Errors
    /// A part has ended by itself.
    pub(super) fn check(&mut self) -> Result<(), WireError> {
        match self.nginx.ended() {
            None => Ok(()),
            Some(status) => {
                let devices = self.devices.len();
                let said = self.nginx.said();
                Err(WireError::Settings(format!(
                    "nginx in front of {devices} devices ended ({status}): {said}"
                )))
            }
        }
    }
}

/// Takes a worker from nginx's device, and says what nginx does.
fn prepare(s: &Scenario, plan: &mut Plan, behind: &Behind) -> Result<Front, WireError> {
    let service = s.rack.services.first().ok_or(WireError::NoService)?;
    if service.policy != Policy::Wrr {
        return Err(refused("rack", "behind nginx the policy must be wrr"));
    }
    if !s.events.is_empty() || s.learn.is_some() {
        return Err(refused("event", "behind nginx omit `event` and `learn`"));
    }
    let own = plan.spec.devices().find(|(name, _)| *name == behind.device).map(|(_, d)| d.link.ipv4);
    let config = plan.devices.iter_mut().find(|d| d.name == behind.device);
    let (Some(own), Some(config)) = (own, config) else {
        return Err(refused("rack.servers", &format!("nginx needs the device {}", behind.device)));
    };
    if config.servers < 2 {
        return Err(refused("device.workers", "nginx's device needs two or more: one is nginx's"));
    }
    config.servers -= 1;
    let port = config.port;
    let weights = s.rack.servers.iter().flat_map(|server| &server.devices).map(|device| {
        let members = service.members.iter().flat_map(|m| &m.devices);
        members.filter(|d| d.number == device.number && d.enabled).map(|d| d.weight).next().unwrap_or(0)
    });
    let addresses = plan.spec.devices().map(|(_, device)| SocketAddrV4::new(device.link.ipv4, port));
    let servers = addresses.zip(weights).filter(|(_, weight)| *weight > 0).collect();
    Ok(Front { at: SocketAddrV4::new(own, PORT), datagrams: true, servers, patience_s: 30 })
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;

    const SCENARIO: &str = r#"
name = "test"
duration_s = 1
[rack]
servers = 2
policy = "POLICY"
[[device]]
name = "cpu"
kind = "cpu"
weight = 5
workers = 3
service_time = { distribution = "deterministic", mean_ms = 40.0 }
[[device]]
name = "nic"
kind = "smartnic"
weight = 1
workers = 1
service_time = { distribution = "deterministic", mean_ms = 166.0 }
[[client]]
arrivals = { process = "poisson", rate_per_s = 38 }
"#;

    fn prepared(policy: &str, device: &str) -> Result<(Front, Vec<usize>), String> {
        let text = SCENARIO.replace("POLICY", policy);
        let scenarios = pointsman_sim::scenario::read("test", &text, &|file: &str| Err(file.into()))
            .map_err(|e| e.to_string())?;
        let s = scenarios.first().ok_or("no scenario")?;
        let mut plan = plan(s, 1).map_err(|e| e.to_string())?;
        let behind = Behind { device: device.into(), cores: None };
        let front = prepare(s, &mut plan, &behind).map_err(|e| e.to_string())?;
        Ok((front, plan.devices.iter().map(|d| d.servers).collect()))
    }

    #[test]
    fn nginx_takes_a_worker_and_has_the_weights() {
        let (front, workers) = prepared("wrr", "s1/cpu").expect("it can run");
        assert_eq!(workers, [2, 1, 3, 1]);
        let weights: Vec<u32> = front.servers.iter().map(|(_, weight)| *weight).collect();
        assert_eq!(weights, [5, 1, 5, 1]);
        assert!(front.datagrams && front.at.ip() == front.servers[0].0.ip() && front.at.port() == PORT);
        let refused = |policy, device, what: &str| {
            assert!(prepared(policy, device).is_err_and(|e| e.contains(what)), "{policy}, {device}");
        };
        refused("wrr", "s1/nic", "two or more");
        refused("wrr", "s3/cpu", "s3/cpu");
        refused("ecmp", "s1/cpu", "must be wrr");
    }
}
