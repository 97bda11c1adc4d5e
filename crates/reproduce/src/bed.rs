//! A small rack in the lab for measuring this machine: a client, one server's devices, and a balancer, ours or nginx.

use crate::error::Failed;
use pointsman_balance::config::file::RackFile;
use pointsman_compile::executor::Choice;
use pointsman_lab::device::{Device, DeviceConfig};
use pointsman_lab::load::SourcePorts;
use pointsman_lab::process::Process;
use pointsman_lab::proxy::{Front, nginx};
use pointsman_lab::rack::{Rack, RackSpec};
use pointsman_lab::wire::Keyring;
use pointsman_lab::{Namespace, pin_to_processor};
use pointsman_live::{Live, Log, Ports};
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
/// From one use of a client's port to the next one: longer than connections are remembered.
const REST: Duration = Duration::from_secs(6);

/// What balances, kept until it is dropped.
#[allow(dead_code, reason = "held, not used")]
enum Middle {
    Switch(Box<Live>),
    Nginx(Process),
}

/// Such a rack. Fields are dropped in this order: users of the namespaces first.
pub struct Bed {
    _middle: Middle,
    _devices: Vec<Device>,
    /// Where requests go.
    pub target: SocketAddr,
    /// The client's sources.
    pub ports: SourcePorts,
    /// Of the devices.
    pub keys: Keyring,
    /// Namespaces and cables.
    pub rack: Rack,
}

/// Runs `make` on the processor of balancers, if there are two, and returns to the other one. Threads and processes stay where they were started.
pub fn apart<T>(make: impl FnOnce() -> T) -> T {
    let two = std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2);
    let _ = two && pin_to_processor(1);
    let made = make();
    let _ = two && pin_to_processor(0);
    made
}

impl Bed {
    fn of(
        rack: Rack,
        target: SocketAddr,
        middle: Middle,
        configs: &[DeviceConfig],
        seed: u64,
    ) -> Result<Bed, Failed> {
        let mut devices = Vec::new();
        let keys = Keyring::derive(seed, configs.iter().map(|d| d.name.clone()))?;
        for config in configs {
            let host = rack.host(&config.name)?;
            devices.push(Device::start(&host.namespace, config.clone())?);
        }
        let sources = rack.spec.clients.iter().flat_map(|c| c.ipv4_addresses()).collect();
        let ports = SourcePorts::new(sources, 1024..=65535, REST)?;
        Ok(Bed { _middle: middle, _devices: devices, target, ports, keys, rack })
    }

    /// With our switch. `prepare` is called before the controller begins. No agents run.
    pub fn switch(
        spec: &RackSpec,
        file: &RackFile,
        configs: &[DeviceConfig],
        seed: u64,
        prepare: impl FnOnce(&mut Live) -> Result<(), pointsman_live::Error>,
    ) -> Result<Bed, Failed> {
        let silent: Log = Arc::new(Mutex::new(|_: &str| {}));
        let start = || {
            let mut live =
                Live::start_on(spec, Vec::new(), file, Choice::default(), Ports::default(), silent)?;
            prepare(&mut live)?;
            live.start_controller()?;
            live.wait_in_sync(PATIENCE)?;
            Ok::<_, pointsman_live::Error>(live)
        };
        let live = apart(start)?;
        let port = configs.first().map_or(0, |c| c.port);
        let target = SocketAddr::new(spec.vip_ipv4.into(), port);
        Self::of(live.rack.clone(), target, Middle::Switch(Box::new(live)), configs, seed)
    }

    /// With nginx on the device of this name, and this part of a core, if it is limited.
    pub fn nginx(
        spec: &RackSpec,
        (on, port): (&str, u16),
        cores: Option<f64>,
        configs: &[DeviceConfig],
        seed: u64,
    ) -> Result<Bed, Failed> {
        let mut rack = Rack::build(spec)?;
        rack.route_by_kernel()?;
        let host = rack.host(on)?;
        let at = SocketAddrV4::new(host.link.ipv4, port);
        let servers = spec.devices().zip(configs).map(|((_, device), config)| {
            let weight = (device.speed * 5.0).round().max(1.0) as u32;
            (SocketAddrV4::new(device.link.ipv4, config.port), weight)
        });
        let front = Front { at, datagrams: true, servers: servers.collect(), patience_s: 1 };
        let mut process = apart(|| nginx(&host.namespace, &front))?;
        if let Some(cores) = cores {
            process.limit(cores)?;
        }
        Self::of(rack, at.into(), Middle::Nginx(process), configs, seed)
    }

    /// The client's namespace.
    pub fn client(&self) -> Result<Namespace, pointsman_lab::Error> {
        self.rack.host("client").map(|host| host.namespace.clone())
    }
}
