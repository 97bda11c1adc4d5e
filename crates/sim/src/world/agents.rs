//! Devices' agents: what they see, and the reports and probes that they send.

use super::control::{duration, nanos};
use super::{Event, World};
use crate::error::StartError;
use crate::frame::{self, Addresses, Packet};
use crate::random::{Part, Stream};
use pointsman_balance::Mac;
use pointsman_balance::agent::{self, Agent, AgentConfig};
use pointsman_balance::config::Device as RackDevice;
use pointsman_balance::frame_report::ETHERTYPE;
use pointsman_balance::types::REPORT_PORT;
use pointsman_ir::Executor;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

fn device_mac(device: &RackDevice) -> Mac {
    let [_, half, high, low] = device.number.bits().to_be_bytes();
    device.mac.unwrap_or(Mac([2, 0, half, 4, high, low]))
}

/// A device's agent and the machine that it runs on.
pub(super) struct AgentHost {
    agent: Option<Agent>,
    /// Silent agents are not stepped.
    pub on: bool,
    pub mac: Mac,
    address: Ipv4Addr,
    /// Its clock: the offset, and the drift in millionths.
    offset_ns: u64,
    skew: f64,
    /// When it is to be stepped without input, and what its clock shows then if that is known.
    at: u64,
    at_local: u64,
    random: Stream,
    reports: VecDeque<Packet>,
    /// How its probes name it, and how long its workers had been busy at the last.
    probe_id: u8,
    probed_busy_ns: u128,
}

impl AgentHost {
    fn local(&self, now: u64) -> u64 {
        let drift = if self.skew == 0.0 { 0 } else { (now as f64 * self.skew) as i64 };
        now.saturating_add_signed(drift) + self.offset_ns
    }

    /// When its clock will show `local`: rather a little later than earlier.
    fn global(&self, local: u64) -> u64 {
        let own = local.saturating_sub(self.offset_ns);
        if self.skew == 0.0 { own } else { (own as f64 / (1.0 + self.skew)).ceil() as u64 }
    }

    pub fn heartbeat_ns(&self) -> u64 {
        self.agent.as_ref().map_or(0, |a| u64::from(a.config().settings.heartbeat_ms) * 1_000_000)
    }
}

impl<E: Executor> World<E> {
    pub(super) fn make_agents(&mut self) -> Result<(), StartError> {
        let scenario = self.scenario.clone();
        let (s, rack) = (scenario.as_ref(), &scenario.rack);
        for (i, (server, device)) in rack.devices().enumerate() {
            let mut clock = Stream::new(self.seed, Part::Clock, i as u64);
            let mut host = AgentHost {
                agent: None,
                on: true,
                mac: device_mac(device),
                address: device.address.unwrap_or(Ipv4Addr::UNSPECIFIED),
                offset_ns: (clock.unit() * s.agents.offset_ns as f64) as u64,
                skew: (2.0 * clock.unit() - 1.0) * s.agents.skew_ppm * 1e-6,
                at: u64::MAX,
                at_local: u64::MAX,
                random: Stream::new(self.seed, Part::Reports, i as u64),
                reports: VecDeque::new(),
                probe_id: device.probe_id,
                probed_busy_ns: 0,
            };
            if s.agents.enabled {
                let mut config = AgentConfig::from_rack(rack, &server.name, &device.name, "eth0")
                    .map_err(StartError::Agent)?;
                config.checks.clear();
                config.others.iter_mut().for_each(|o| o.checks.clear());
                host.agent = Some(Agent::new(config));
                // Agents do not beat in time with each other.
                host.at = (clock.unit() * host.heartbeat_ns() as f64) as u64;
                self.network.enter(host.at, Event::Agent(i as u32));
                let phase = (clock.unit() * s.agents.sampling_ns as f64) as u64;
                self.network.enter(phase, Event::Sample(i as u32));
            }
            if let Some(period) = s.agents.probes_ns {
                self.network.enter((clock.unit() * period as f64) as u64, Event::Probe(i as u32));
            }
            self.agents.push(host);
        }
        Ok(())
    }

    pub(super) fn agent_step(&mut self, device: usize, input: agent::Input<'_>) {
        let now = self.network.now();
        let host = &mut self.agents[device];
        let local = host.local(now);
        let Some(agent) = host.agent.as_mut().filter(|_| host.on) else { return };
        let outputs = agent.step(duration(local), input);
        let deadline = nanos(agent.next_deadline());
        // Not before the action that is entered already.
        if deadline < host.at_local {
            let at = host.global(deadline).max(now + 1);
            if at < host.at {
                (host.at, host.at_local) = (at, deadline);
                self.network.enter(at, Event::Agent(device as u32));
            }
        }
        if outputs.is_empty() {
            return;
        }
        for output in outputs {
            match output {
                agent::Output::Send { to, payload } => self.report(device, to, &payload),
                agent::Output::Frame { to, payload } => {
                    let mut packet = self.network.buffer();
                    packet.clear();
                    packet.extend_from_slice(&to.0);
                    packet.extend_from_slice(&self.agents[device].mac.0);
                    packet.extend_from_slice(&ETHERTYPE.to_be_bytes());
                    packet.extend_from_slice(&payload);
                    self.carry_report(device, packet);
                }
                // Links and machines fail here, services do not.
                agent::Output::Probe { .. } => {}
                agent::Output::Busy(_)
                | agent::Output::Available(_)
                | agent::Output::Failed(_)
                | agent::Output::Healthy(_)
                | agent::Output::Checked(_)
                | agent::Output::Problem(_)
                | agent::Output::Answers(_) => {}
            }
        }
    }

    fn report(&mut self, device: usize, to: std::net::SocketAddr, payload: &[u8]) {
        let IpAddr::V4(gateway) = to.ip() else { return };
        let mut packet = self.network.buffer();
        let host = &self.agents[device];
        let addresses = Addresses {
            macs: (host.mac, self.scenario.rack.switch.mac),
            ips: (IpAddr::V4(host.address).into(), IpAddr::V4(gateway).into()),
            ports: (REPORT_PORT, to.port()),
        };
        frame::udp(&mut packet, &addresses, false, payload);
        self.carry_report(device, packet);
    }

    fn carry_report(&mut self, device: usize, packet: Packet) {
        let (loss, delay_ns) = (self.scenario.agents.loss, self.scenario.agents.delay_ns);
        let host = &mut self.agents[device];
        if host.random.happens(loss) {
            return self.network.recycle(packet);
        }
        if delay_ns == 0 {
            return self.host_send(self.places[device].station, packet);
        }
        host.reports.push_back(packet);
        self.network.enter(self.network.now() + delay_ns, Event::Report(device as u32));
    }

    pub(super) fn send_report(&mut self, device: usize) {
        if let Some(packet) = self.agents[device].reports.pop_front() {
            self.host_send(self.places[device].station, packet);
        }
    }

    pub(super) fn agent_tick(&mut self, device: usize) {
        let host = &mut self.agents[device];
        // Overtaken by an earlier one.
        if host.at == self.network.now() {
            (host.at, host.at_local) = (u64::MAX, u64::MAX);
            self.agent_step(device, agent::Input::Tick);
        }
    }

    /// A device sends a probe, and enters the next. Silent devices send none.
    pub(super) fn probe(&mut self, device: usize) {
        let Some(period) = self.scenario.agents.probes_ns else { return };
        self.network.enter(self.network.now() + period, Event::Probe(device as u32));
        let busy = self.used_ns(device);
        let workers = u128::from(self.devices[device].model().workers);
        let memory = (100.0 - self.devices[device].model().stress.memory_percent) / 10.0;
        let host = &mut self.agents[device];
        let used = busy.saturating_sub(std::mem::replace(&mut host.probed_busy_ns, busy));
        let gateways = self.scenario.rack.switch.gateways.iter();
        let mut gateways = gateways.filter_map(|g| if let IpAddr::V4(ip) = g { Some(*ip) } else { None });
        let (true, Some(gateway)) = (host.on, gateways.next()) else { return };
        let all = u128::from(period) * workers;
        // Tenths, rounded: the time that all workers together did not use.
        let free = (10 * all.saturating_sub(used) + all / 2) / all.max(1);
        let (macs, ips) = ((host.mac, self.scenario.rack.switch.mac), (host.address, gateway));
        let id = host.probe_id;
        let mut packet = self.network.buffer();
        frame::probe(&mut packet, macs, ips, id, [free as u8, memory.round() as u8, 10]);
        self.carry_report(device, packet);
    }

    /// Agents stop or resume reporting.
    pub(super) fn switch_agent(&mut self, device: usize, on: bool) {
        self.agents[device].on = on;
        if on {
            self.agent_step(device, agent::Input::Tick);
        } else {
            (self.agents[device].at, self.agents[device].at_local) = (u64::MAX, u64::MAX);
        }
    }

    /// The agent reads the kernel's figures of the processor.
    pub(super) fn sample(&mut self, device: usize) {
        let workers = u128::from(self.devices[device].model().workers);
        let tick_ns = u128::from(self.scenario.agents.tick_ns);
        let busy = self.used_ns(device) / tick_ns;
        let all = u128::from(self.network.now()) * workers / tick_ns;
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "cpu {busy} 0 0 {}", all.saturating_sub(busy));
        self.agent_step(device, agent::Input::Stat(&text));
        self.text = text;
        self.network
            .enter(self.network.now() + self.scenario.agents.sampling_ns, Event::Sample(device as u32));
    }
}

/// The part of a frame that an agent looks at.
pub(super) fn head(packet: &[u8]) -> &[u8] {
    &packet[..packet.len().min(128)]
}
