//! Builds the world of a scenario.

use super::control::Control;
use super::lines::Lines;
use super::switches::{self, Power};
use super::{Client, Host, Measured, Place, Tally, World, hosts, learn, prometheus, streams};
use crate::arrivals::Arrivals;
use crate::check::Checker;
use crate::data_plane::DataPlane;
use crate::device::{Device, DeviceCounts};
use crate::error::StartError;
use crate::fault::{Fault, Faults};
use crate::random::{Part, Stream};
use crate::scenario::Scenario;
use crate::timeline::Intervals;
use crate::window::Window;
use pointsman_balance::{DeviceKind, Rack};
use pointsman_ir::Executor;
use pointsman_net::Network;
use std::sync::Arc;

/// The hosts behind each port, in the order in which ports were named first.
#[derive(Default)]
struct Stations(Vec<(u16, Vec<Host>)>);

impl Stations {
    /// Puts a host behind a port, and returns its station.
    fn put(&mut self, port: u16, host: Host) -> u32 {
        let known = self.0.iter().position(|(p, _)| *p == port);
        let i = known.unwrap_or_else(|| {
            self.0.push((port, Vec::new()));
            self.0.len() - 1
        });
        self.0[i].1.push(host);
        i as u32
    }
}

/// Clients, and the numbers of their connections.
#[derive(Default)]
struct Clients {
    all: Vec<Client>,
    /// Connections of those that number them.
    lasting: u32,
    /// Most connections of one client.
    most: u32,
}

impl Clients {
    fn of(s: &Scenario, seed: u64, stations: &mut Stations) -> Self {
        let mut it = Clients::default();
        for (i, model) in s.clients.iter().enumerate() {
            let station = stations.put(model.port, Host::Client(i as u32));
            let numbers = it.number(model.numbered(s.duration_ns));
            let random = Stream::new(seed, Part::Arrivals, i as u64);
            it.all.push(Client {
                model: model.clone(),
                mac: hosts::client_mac(&s.rack, model),
                station,
                arrivals: Arrivals::new(&model.arrivals, 0, random),
                requests: 0,
                begun: 0,
                asked: Vec::new(),
                numbers,
            });
        }
        it
    }

    /// The first number of so many connections, and how many they are, if they are numbered.
    fn number(&mut self, connections: Option<u32>) -> Option<(u32, u32)> {
        let Some(n) = connections else {
            self.most = u32::MAX;
            return None;
        };
        self.most = self.most.max(n);
        let first = self.lasting;
        self.lasting = self.lasting.saturating_add(n);
        Some((first, n))
    }
}

fn places(rack: &Rack, stations: &mut Stations) -> Result<Vec<Place>, StartError> {
    let mut out = Vec::new();
    for server in &rack.servers {
        let first = out.len() as u32;
        let siblings = (first, first + server.devices.len() as u32);
        for d in &server.devices {
            let Some(address) = d.address else {
                let (server, device) = (server.name.clone(), d.name.clone());
                return Err(StartError::NoAddress { server, device });
            };
            let host = Host::Device { device: out.len() as u32, address, address6: d.address6 };
            let kind = DeviceKind::ALL.iter().position(|k| *k == d.kind).unwrap_or(0) as u8;
            out.push(Place { station: stations.put(d.port, host), siblings, kind });
        }
    }
    Ok(out)
}

fn checker(s: &Scenario, lasting: u32) -> Checker {
    let idle_ms = s.rack.services.iter().map(|s| s.idle_timeout_ms).min().unwrap_or(0);
    // Packets need some time from the switch to a device and back.
    let idle_ns = (u64::from(idle_ms) * 1_000_000).saturating_sub(10_000_000);
    Checker::new(s.devices.len(), lasting, idle_ns, s.detection_ns())
}

impl Measured {
    fn of(s: &Scenario) -> Self {
        let devices = s.devices.len();
        let (busy, counts) = (vec![0; devices], vec![DeviceCounts::default(); devices]);
        Measured {
            sent: 0,
            answered: 0,
            latencies_ns: vec![Vec::new(); DeviceKind::ALL.len()],
            intervals: Intervals::new(s, DeviceKind::ALL.len()),
            busy_at: [busy.clone(), busy],
            counts_at: [counts.clone(), counts],
        }
    }
}

impl<E: Executor + Send + Sync> World<E> {
    pub(super) fn new(
        scenario: Arc<Scenario>,
        data_plane: &DataPlane<E>,
        seed: u64,
        fault: Option<Fault>,
    ) -> Result<Self, StartError> {
        let s = scenario.as_ref();
        let (rack, program) = (&s.rack, &data_plane.program);
        let boot = switches::boot(rack, data_plane, seed);
        let lives = rack.switch.p4runtime.len() as u16;
        let (mut switches, mut servers) = (Vec::new(), Vec::new());
        for life in 0..lives {
            let (switch, server) = boot(life)?;
            switches.push(switch);
            servers.push(server);
        }
        let learn = s.learn.as_ref().map(|l| learn::Learn::new(l, s, program)).transpose()?;
        let first_rack = learn.as_ref().map(|l| l.rack(rack));
        let control =
            Control::new(first_rack.as_ref().unwrap_or(rack), program, servers, s.control_delay_ns)?;
        let mut stations = Stations::default();
        let clients = Clients::of(s, seed, &mut stations);
        let places = places(rack, &mut stations)?;
        let lines = Lines::new(stations.0, switches.len());
        let service = |i: usize| Stream::new(seed, Part::Service, i as u64);
        let mut world = World {
            seed,
            network: Network::new(switches, lines.cables(s, seed), s.switch_latency_ns),
            start: 0,
            switches: (0..lives).map(|_| Power::new()).collect(),
            boot,
            lives,
            control,
            prometheus: prometheus::Prometheus::default(),
            lines,
            checker: checker(s, clients.lasting),
            lasting: clients.lasting,
            source_ports: hosts::SourcePorts::of(clients.most),
            clients: clients.all,
            devices: s.devices.iter().enumerate().map(|(i, m)| Device::new(m, service(i))).collect(),
            places,
            agents: Vec::new(),
            requests: Window::default(),
            tally: Tally { faults: Faults::new(fault), ..Tally::default() },
            measured: Measured::of(s),
            stopped: false,
            next_action: 0,
            text: String::new(),
            learn,
            streams: streams::Streams::of(&scenario),
            due: false,
            scenario,
        };
        world.note_removed();
        world.make_agents()?;
        Ok(world)
    }
}
