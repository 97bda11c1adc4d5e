//! The links between stations and switches. Every station has one to each switch and uses the first that has a carrier.

use super::Host;
use crate::frame::Packet;
use crate::link::Link;
use crate::random::{Part, Stream};
use crate::scenario::Scenario;

/// Ports of a switch that may have a link.
const PORTS: usize = 512;
/// A port without one.
const NOWHERE: u32 = u32::MAX;

/// The two ends of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub station: u32,
    pub switch: u16,
    /// Port of the switch.
    pub port: u16,
    /// The life of the switch: from the moment when it gets power to its loss, with all state. No two have the same number.
    pub life: u16,
}

/// Links, numbered switch by switch and for each switch in the order of stations.
pub(super) struct Lines {
    /// By station: its port, which has the same number on all switches, and the hosts behind it.
    stations: Vec<(u16, Vec<Host>)>,
    station_of_port: Vec<u32>,
    pub up: Vec<Link>,
    pub down: Vec<Link>,
    pub ends: Vec<Ends>,
    /// By link: whether it is interrupted itself.
    cut: Vec<bool>,
    /// By link: neither it is interrupted nor its switch without power.
    carrier: Vec<bool>,
    /// By switch.
    powered: Vec<bool>,
    /// By station: the link that it sends on.
    active: Vec<u32>,
}

/// The effect of a change on traffic.
#[derive(Default)]
pub(super) struct Change {
    /// Frames that were on links.
    pub lost: Vec<Packet>,
    /// Whether a station uses another switch now.
    pub moved: bool,
}

impl Lines {
    /// All links are up. Switch and life have the same number.
    pub fn new(stations: Vec<(u16, Vec<Host>)>, scenario: &Scenario, seed: u64) -> Self {
        let switches = scenario.rack.switch.p4runtime.len();
        let mut station_of_port = vec![NOWHERE; PORTS];
        for (station, (port, _)) in stations.iter().enumerate() {
            station_of_port[usize::from(*port)] = station as u32;
        }
        let (mut up, mut down, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for switch in 0..switches {
            for (station, (port, hosts)) in stations.iter().enumerate() {
                let model = match hosts.first() {
                    Some(Host::Client(_)) => &scenario.client_link,
                    _ => &scenario.link,
                };
                for (way, direction) in [&mut up, &mut down].into_iter().enumerate() {
                    let index = (switch * PORTS + usize::from(*port)) * 2 + way;
                    direction.push(Link::new(model, Stream::new(seed, Part::Link, index as u64)));
                }
                let (number, station) = (switch as u16, station as u32);
                ends.push(Ends { station, switch: number, port: *port, life: number });
            }
        }
        Lines {
            active: (0..stations.len() as u32).collect(),
            stations,
            station_of_port,
            cut: vec![false; ends.len()],
            carrier: vec![true; ends.len()],
            up,
            down,
            ends,
            powered: vec![true; switches],
        }
    }

    /// The hosts behind a link.
    pub fn hosts(&self, link: usize) -> &[Host] {
        &self.stations[self.ends[link].station as usize].1
    }

    /// The link that a station sends on.
    pub fn active(&self, station: u32) -> usize {
        self.active[station as usize] as usize
    }

    /// The link at a port of a switch.
    pub fn at(&self, switch: usize, port: u32) -> Option<usize> {
        let station = *self.station_of_port.get(port as usize).filter(|s| **s != NOWHERE)?;
        Some(switch * self.stations.len() + station as usize)
    }

    /// Interrupts a link, or repairs it.
    pub fn cut(&mut self, link: usize, cut: bool) -> Change {
        let mut change = Change::default();
        self.cut[link] = cut;
        self.refresh(link, &mut change);
        change
    }

    /// A switch loses power, and its links their carrier; or it gets power, for a life with this number.
    pub fn power(&mut self, switch: usize, life: Option<u16>) -> Change {
        let mut change = Change::default();
        self.powered[switch] = life.is_some();
        let first = switch * self.stations.len();
        for link in first..first + self.stations.len() {
            self.ends[link].life = life.unwrap_or(self.ends[link].life);
            self.refresh(link, &mut change);
        }
        change
    }

    /// Whether the link has a carrier may have changed.
    fn refresh(&mut self, link: usize, change: &mut Change) {
        let Ends { station, switch, .. } = self.ends[link];
        let has = !self.cut[link] && self.powered[usize::from(switch)];
        if std::mem::replace(&mut self.carrier[link], has) == has {
            return;
        }
        for direction in [&mut self.up, &mut self.down] {
            change.lost.extend(direction[link].set_up(has).into_iter().map(|(_, packet)| packet));
        }
        change.moved |= self.choose(station as usize);
    }

    /// A station takes the first link with a carrier, or stays where it is. Returns whether that is another one.
    fn choose(&mut self, station: usize) -> bool {
        let mut links = (station..self.ends.len()).step_by(self.stations.len());
        let Some(first) = links.find(|l| self.carrier[*l]) else { return false };
        std::mem::replace(&mut self.active[station], first as u32) != first as u32
    }
}
