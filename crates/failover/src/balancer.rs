//! The balancer: the description of its rack, and the controller that sets both switches up.

use crate::app::ECHO;
use crate::bed::{Bed, CLIENT, GATEWAY, PATIENCE, STORE, TO_STORE, store_subnet};
use pointsman_balance::config::file::{
    DeviceSection, RackFile, ServerSection, ServiceSection, StoreSection, SwitchSection,
};
use pointsman_balance::config::{NextHop, Route};
use pointsman_balance::{DeviceKind, Policy, Prefix, Protocol};
use pointsman_lab::process::Process;
use pointsman_lab::{Error, Result};
use std::fs;
use std::net::SocketAddr;

/// Where a switch serves P4Runtime.
pub fn p4runtime(switch: usize) -> SocketAddr {
    ([127, 0, 0, 1], 9559 + switch as u16).into()
}

/// What the controller says when a switch has its program and all entries.
fn ready(switch: usize) -> String {
    format!("switch {}: the switch is up to date", p4runtime(switch))
}

impl Bed {
    /// The rack: a service for connections and one for probes. It has a store if it is protected.
    fn description(&self) -> Result<RackFile> {
        let client = &self.rack.host(CLIENT)?.link;
        let links = self.rack.hosts.iter().filter(|host| host.name != STORE).map(|host| &host.link);
        let servers = self.server_hosts().map(|host| ServerSection {
            name: host.name.trim_end_matches("/cpu").to_string(),
            devices: vec![DeviceSection {
                address: Some(host.link.ipv4),
                mac: Some(host.link.mac),
                ..DeviceSection::new("cpu", DeviceKind::Cpu, host.link.port)
            }],
            ..ServerSection::default()
        });
        let service = |name: &str, protocol, port| ServiceSection {
            vips: vec![self.rack.spec.vip_ipv4.into()],
            protocols: vec![protocol],
            ..ServiceSection::new(name, port, Policy::LeastConnections)
        };
        Ok(RackFile {
            switch: SwitchSection {
                p4runtime: vec![p4runtime(0), p4runtime(1)],
                mac: GATEWAY,
                gateways: links.map(|link| link.gateway_ipv4.into()).collect(),
                // No agent reports.
                report_timeout_ms: Some(0),
                store: self.protected.then(|| self.store_section()).transpose()?,
                ..SwitchSection::default()
            },
            routes: vec![Route {
                prefix: Prefix::containing(client.ipv4.into(), client.prefix_ipv4),
                port: client.port,
                hop: NextHop::Mac(client.mac),
            }],
            servers: servers.collect(),
            services: vec![
                service("connections", Protocol::Tcp, crate::bed::SERVICE),
                service("probes", Protocol::Udp, ECHO),
            ],
            ..RackFile::default()
        })
    }

    fn store_section(&self) -> Result<StoreSection> {
        let (address, mac) = self.store_address()?;
        let switches = [0, 1].map(|switch| store_subnet(switch, self.ipv6).0);
        Ok(StoreSection { address, port: TO_STORE, mac, switches: switches.into(), secret: "secret".into() })
    }

    /// Starts the controller, and waits for both switches, which run.
    pub fn start_controller(&mut self) -> Result<()> {
        let path = self.path("rack.toml");
        let failed = |e| Error::os(format!("cannot write {path}"), e);
        fs::write(&path, self.description()?.to_toml()).map_err(failed)?;
        let process = Process::start(&self.rack.switch, &self.binary, &["controller", &path], "")?;
        self.controller = Some(process);
        [0, 1].into_iter().try_for_each(|switch| self.wait_for_controller(switch, 0))
    }

    /// How often the controller has set a switch up.
    pub fn times_ready(&self, switch: usize) -> usize {
        self.controller.as_ref().map_or(0, |c| c.lines_with(&ready(switch)))
    }

    /// Waits until the controller, if there is one, has set a switch up more often than so many times.
    pub fn wait_for_controller(&mut self, switch: usize, times: usize) -> Result<()> {
        let Some(controller) = &mut self.controller else { return Ok(()) };
        controller.wait_until_said_again(&ready(switch), times, PATIENCE)
    }
}
