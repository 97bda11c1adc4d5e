//! The links between stations and switches. Every station has one to each switch and uses the first that has a carrier.

use super::{Host, World};
use crate::link::{Link, LinkModel};
use crate::random::{Part, Stream};
use crate::scenario::Scenario;
use pointsman_ir::Executor;
use pointsman_net::Cable;
use pointsman_topology::{End, HostId, LinkId, SwitchId};
use std::ops::Range;

/// Ports of a switch that may have a link.
const PORTS: usize = 512;

/// The two ends of a link.
#[derive(Clone, Copy, Debug)]
struct Ends {
    station: u32,
    switch: u32,
    /// The life of the switch: from the moment when it gets power to its loss, with all state. No two have the same number.
    life: u16,
}

/// Links, numbered switch by switch and for each switch in the order of stations. In the network, the station's end of a link is the
/// host of the same number.
pub(super) struct Lines {
    /// By station: its port, which has the same number on all switches, and the hosts behind it.
    stations: Vec<(u16, Vec<Host>)>,
    ends: Vec<Ends>,
    /// By link: whether it is interrupted itself.
    cut: Vec<bool>,
    /// By station: the link that it sends on.
    active: Vec<u32>,
}

impl Lines {
    /// All links are up. Switch and life have the same number.
    pub fn new(stations: Vec<(u16, Vec<Host>)>, switches: usize) -> Self {
        let of = |switch: u32| {
            (0..stations.len() as u32).map(move |station| Ends { station, switch, life: switch as u16 })
        };
        let ends: Vec<Ends> = (0..switches as u32).flat_map(of).collect();
        Lines { active: (0..stations.len() as u32).collect(), cut: vec![false; ends.len()], stations, ends }
    }

    /// The links themselves: each from its station to its switch, and back.
    pub fn cables(&self, scenario: &Scenario, seed: u64) -> Vec<Cable> {
        let cable = |(link, ends): (usize, &Ends)| {
            let (port, hosts) = &self.stations[ends.station as usize];
            let model: &LinkModel = match hosts.first() {
                Some(Host::Client(_)) => &scenario.client_link,
                _ => &scenario.link,
            };
            let first = (ends.switch as usize * PORTS + usize::from(*port)) * 2;
            let way = |way| Link::new(model, Stream::new(seed, Part::Link, (first + way) as u64));
            let (station, switch) = (HostId(link as u32), SwitchId(ends.switch));
            Cable { ends: [End::Host(station), End::Switch(switch, *port)], ways: [way(0), way(1)] }
        };
        self.ends.iter().enumerate().map(cable).collect()
    }

    /// The hosts behind a link.
    pub fn hosts(&self, link: HostId) -> &[Host] {
        &self.stations[self.ends[link.0 as usize].station as usize].1
    }

    /// The life of the switch behind a link.
    pub fn life(&self, link: HostId) -> u16 {
        self.ends[link.0 as usize].life
    }

    /// The link that a station sends on.
    pub fn active(&self, station: u32) -> HostId {
        HostId(self.active[station as usize])
    }
}

impl<E: Executor> World<E> {
    /// Interrupts links of one switch or of all, or repairs them.
    pub(super) fn cut(&mut self, switch: Option<usize>, ports: &[u16], cut: bool) {
        let switches = switch.map_or(0..self.switches.len(), |one| one..one + 1);
        for (switch, port) in switches.flat_map(|s| ports.iter().map(move |p| (s, *p))) {
            if let Some(link) = self.network.link_at(SwitchId(switch as u32), port) {
                self.lines.cut[link.0 as usize] = cut;
                self.carrier_may_have_changed(link.0..link.0 + 1);
            }
        }
    }

    /// A switch loses power, and its links their carrier; or it gets power, for a life with this number.
    pub(super) fn lines_powered(&mut self, switch: usize, life: Option<u16>) {
        let stations = self.lines.stations.len();
        let first = switch * stations;
        self.lines.ends[first..first + stations].iter_mut().for_each(|e| e.life = life.unwrap_or(e.life));
        self.carrier_may_have_changed(first as u32..(first + stations) as u32);
    }

    /// Gives these links a carrier if neither they are interrupted nor their switch is without power.
    fn carrier_may_have_changed(&mut self, links: Range<u32>) {
        let mut moved = false;
        for link in links.map(LinkId) {
            let Ends { station, switch, .. } = self.lines.ends[link.0 as usize];
            let has = !self.lines.cut[link.0 as usize] && self.switches[switch as usize].on;
            if self.network.is_up(link) != has {
                self.network.set_carrier(link, has, &mut self.tally);
                moved |= self.choose(station as usize);
            }
        }
        if moved {
            self.checker.moved(self.network.now());
        }
    }

    /// A station takes the first link with a carrier, or stays where it is. Returns whether that is another one.
    fn choose(&mut self, station: usize) -> bool {
        let links = (station..self.lines.ends.len()).step_by(self.lines.stations.len());
        let Some(first) = links.map(|l| l as u32).find(|l| self.network.is_up(LinkId(*l))) else {
            return false;
        };
        std::mem::replace(&mut self.lines.active[station], first) != first
    }
}
