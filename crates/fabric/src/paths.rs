//! What all programs on `p4/lib/pointsman/fabric/routes.p4` have in their tables: next hops, routes, the hash's seed.

use crate::book::{Book, Does, UnknownName, Value, exact, multicast};
use crate::prefixes::{Family, Prefix, prefixes};
use crate::scheme::{Level, Place, Setting};
use crate::tiers::Tiers;
use pointsman_control::proto::p4rt::Entity;
use pointsman_topology::{End, HostId, Line};
use std::collections::{BTreeMap, BTreeSet};

/// Timestamps of the switches of a network count nanoseconds (`SwitchConfig::nanoseconds`): all times in tables are in this unit.
const TICKS_PER_S: f64 = 1e9;

/// The setting of marks.
pub(crate) const ECN: Setting = Setting::number(
    "ecn_kib",
    0.0,
    (0.0, 1e6),
    "KiB in a queue from which on packets that allow it get a mark (ECN); 0: no marks",
);

/// The setting of the hash of flows.
pub(crate) const HASH: Setting = Setting::names(
    "hash_seed",
    &["own", "same"],
    "the seed of each switch's hash of flows: its own, or the same on all, so that switches depend on each other",
);

/// The setting of notices of broken ways.
pub(crate) const HOLD: Setting = Setting::number(
    "hold_us",
    10_000.0,
    (0.0, 2e6),
    "microseconds for which a switch avoids a way that the next switch has called broken; 0: it does not",
);

/// The setting of the number of equal-cost paths.
pub(crate) const MAXIMUM_PATHS: Setting = Setting::whole(
    "maximum_paths",
    0,
    (0, 1024),
    "the most next hops of a route, those with the lowest port numbers; 0: all",
);

/// The setting of flowlets.
pub(crate) const GAP: Setting = gap(100.0);

/// The same with another default.
pub(crate) const fn gap(default: f64) -> Setting {
    let says = "microseconds without a packet of a flow after which it may take another path";
    Setting::number("gap_us", default, (0.0, 1e6), says)
}

/// The setting of `classes.p4`.
pub(crate) const PAUSE: Setting = Setting::number(
    "pause_us",
    10_000.0,
    (1.0, 2e6),
    "microseconds without a packet of a flow after which its bytes are counted from 0 again",
);

/// Bits by which switch N rotates its hash of the flow: a CRC is linear, so that a seed alone would leave the choices of two switches
/// dependent on each other. Odd, so that 32 switches in a row differ.
const ROTATION: u32 = 11;

const PROFILE: &str = "next_hops";

/// Groups of an action selector, each of members that are numbered like ports and watch them: the switch itself leaves out a port that
/// goes down.
struct Groups {
    profile: String,
    by_ports: BTreeMap<Vec<u16>, u32>,
    numbers: BTreeSet<u32>,
}

impl Groups {
    /// No groups yet, of this action selector.
    fn new(profile: String) -> Self {
        Groups { profile, by_ports: BTreeMap::new(), numbers: BTreeSet::new() }
    }

    /// The number of the group of these ports.
    fn of(&mut self, ports: &[u16]) -> u32 {
        let Groups { by_ports, numbers, .. } = self;
        *by_ports.entry(ports.to_vec()).or_insert_with(|| number(ports, u32::MAX, numbers))
    }

    /// The groups.
    ///
    /// # Errors
    /// The program has no such action selector.
    fn entities(&self, book: &Book) -> Result<Vec<Entity>, UnknownName> {
        let group = |(ports, number): (&Vec<u16>, &u32)| book.group(&self.profile, *number, &members(ports));
        self.by_ports.iter().map(group).collect()
    }
}

/// The members of a group of these ports, each with the port that it watches.
pub(crate) fn members(ports: &[u16]) -> Vec<(u32, u16)> {
    ports.iter().map(|p| (u32::from(*p), *p)).collect()
}

/// Everything that the tables of one switch have to hold while some links are down, for a program with routes alone whose ingress has
/// this name.
///
/// # Errors
/// The program is another one.
pub(crate) fn routing(place: &Place<'_>, ingress: &str) -> Result<Vec<Entity>, UnknownName> {
    let mut tables = Tables::new(place, ingress)?;
    tables.notices()?;
    tables.finish()
}

/// The tables of one switch, while they are filled.
pub(crate) struct Tables<'a> {
    pub place: Place<'a>,
    ingress: String,
    out: Vec<Entity>,
    entries: Vec<Entity>,
    groups: Groups,
}

impl<'a> Tables<'a> {
    /// Seed, next hops and routes, for a program whose ingress has this name.
    ///
    /// Each host that can be reached has a route to the group of next hops on shortest paths; hosts with the same next hops share one.
    /// Members are numbered like ports, and watch them: the switch itself leaves out a port that goes down.
    pub fn new(place: &Place<'a>, ingress: &str) -> Result<Self, UnknownName> {
        let (out, entries) = (Vec::new(), Vec::new());
        let groups = Groups::new(format!("{ingress}.{PROFILE}"));
        let mut new = Tables { place: *place, ingress: ingress.into(), out, entries, groups };
        let Place { topology, routes, switch, choice, .. } = *place;
        // Numbers that differ between switches and mean nothing.
        let number = if choice.place_of(HASH.name) == 0 { switch.0 + 1 } else { 1 };
        let seed = u128::from(number.wrapping_mul(0x9e37_79b9));
        let rotation = u128::from(number.wrapping_mul(ROTATION) % 32);
        new.default("switch_config", "set_seed", &[("seed", seed), ("rotation", rotation)])?;
        let own = topology.switches()[switch.0 as usize].mac;
        let mac = |mac: [u8; 6]| mac.iter().fold(0u128, |n, b| n << 8 | u128::from(*b));
        let ecn_kib = choice.setting(ECN.name);
        for (port, link, end) in topology.ports(switch) {
            let mark_after = mark_after(ecn_kib, &topology.links()[link.0 as usize].line);
            let params = [
                ("port", u128::from(port)),
                ("src", mac(own)),
                ("dst", mac(topology.mac(end))),
                ("mark_after", mark_after.into()),
            ];
            let forward = place.book.action(&new.of("forward"), &params)?;
            new.out.push(place.book.member(&new.of(PROFILE), port.into(), forward)?);
        }
        let most = match choice.level(MAXIMUM_PATHS.name) {
            Some(Level::Number(most)) if most > 0.0 => most as usize,
            _ => usize::MAX,
        };
        let ways = |host: HostId| {
            let ports = routes.ports(switch, host);
            Some(&ports[..ports.len().min(most)]).filter(|ports| !ports.is_empty())
        };
        new.by_host("routes", ways, |tables, ports| Ok(Does::Group(tables.group(ports))))?;
        Ok(new)
    }

    /// The full name of something in the ingress.
    fn of(&self, name: &str) -> String {
        format!("{}.{name}", self.ingress)
    }

    /// An action with its parameters.
    pub fn action(&self, name: &str, params: &[(&str, u128)]) -> Result<Does, UnknownName> {
        Ok(Does::Action(self.place.book.action(&self.of(name), params)?))
    }

    /// Sets the default action of a table.
    pub fn default(&mut self, table: &str, action: &str, params: &[(&str, u128)]) -> Result<(), UnknownName> {
        let action = self.place.book.action(&self.of(action), params)?;
        self.out.push(self.place.book.default_action(&self.of(table), action)?);
        Ok(())
    }

    /// Adds an entry.
    pub fn entry(&mut self, table: &str, key: &[(&str, Value)], does: Does) -> Result<(), UnknownName> {
        self.entries.push(self.place.book.entry(&self.of(table), key, does)?);
        Ok(())
    }

    /// Adds entries of the tables of both families with this beginning of their names, by prefix: for each host that has a value, what is done with
    /// its packets.
    pub fn by_host<V: PartialEq>(
        &mut self,
        tables: &str,
        value: impl Fn(HostId) -> Option<V>,
        does: impl Fn(&mut Self, V) -> Result<Does, UnknownName>,
    ) -> Result<(), UnknownName> {
        for family in Family::ALL {
            let table = format!("{tables}_{}", family.suffix());
            for (Prefix { bits, len }, value) in prefixes(self.place.topology, family, &value) {
                let does = does(self, value)?;
                self.entry(&table, &[("prefix", Value::Prefix(bits, len))], does)?;
            }
        }
        Ok(())
    }

    /// Adds anything else.
    pub fn add(&mut self, entity: Entity) {
        self.out.push(entity);
    }

    /// Adds an entry without an action: all that counts is that it is there.
    pub fn known(&mut self, table: &str, key: (&str, Value)) -> Result<(), UnknownName> {
        let does = Does::Action(self.place.book.action("NoAction", &[])?);
        self.entry(table, &[key], does)
    }

    /// Fills `lines` of `load.p4`: the ports to other switches are measured.
    pub fn lines(&mut self) -> Result<(), UnknownName> {
        let Place { topology, switch, .. } = self.place;
        for (port, link, end) in topology.ports(switch) {
            if let End::Switch(..) = end {
                let params = [("pace", pace(&topology.links()[link.0 as usize].line))];
                let does = self.action("set_pace", &params)?;
                self.entry("lines", &[exact("port", port.into())], does)?;
            }
        }
        Ok(())
    }

    /// Fills the tables of `notices.p4`: which switches are above, and how long a way is avoided.
    pub fn notices(&mut self) -> Result<(), UnknownName> {
        let Place { topology, switch, choice, .. } = self.place;
        self.default("notice_config", "set_hold", &[("hold", ticks(choice.setting(HOLD.name)))])?;
        let (up, down) = Tiers::of(topology).ports(topology, switch);
        for (ports, action) in [(up, "from_above"), (down, "from_below")] {
            for port in ports {
                let does = self.action(action, &[])?;
                self.entry("neighbours", &[exact("port", port.into())], does)?;
            }
        }
        Ok(())
    }

    /// Fills `class_config` of `classes.p4`: so many KiB are the first of a flow. 0: none are counted.
    pub fn classes(&mut self, kib: f64) -> Result<(), UnknownName> {
        if kib == 0.0 {
            return Ok(());
        }
        let bytes = (kib * 1024.0).round() as u128;
        let pause = ticks(self.place.choice.setting(PAUSE.name));
        self.default("class_config", "set_class", &[("first_bytes", bytes), ("pause", pause)])
    }

    /// Adds a multicast group.
    pub fn multicast(&mut self, group: u16, ports: &[u16]) {
        self.out.push(multicast(group, ports));
    }

    /// The group of next hops behind these ports.
    pub fn group(&mut self, ports: &[u16]) -> u32 {
        self.groups.of(ports)
    }

    /// All entities.
    pub fn finish(mut self) -> Result<Vec<Entity>, UnknownName> {
        self.out.extend(self.groups.entities(self.place.book)?);
        self.out.append(&mut self.entries);
        Ok(self.out)
    }
}

/// Microseconds in ticks.
pub(crate) fn ticks(us: f64) -> u128 {
    (us * TICKS_PER_S / 1e6).round() as u128
}

/// Ticks that 64 KiB take on a line: the unit of `lines` in `load.p4`.
fn pace(line: &Line) -> u128 {
    let ticks = 65536.0 * 8.0 / line.bits_per_s as f64 * TICKS_PER_S;
    (ticks.round() as u128).clamp(1, u32::MAX.into())
}

/// Ticks that so many KiB take on a line, at least 1: a packet that waited as long had as much before it. 0 without KiB.
pub(crate) fn mark_after(kib: f64, line: &Line) -> u32 {
    let ticks = kib * 8192.0 / line.bits_per_s as f64 * TICKS_PER_S;
    // Saturates.
    if kib > 0.0 { ticks.round().max(1.0) as u32 } else { 0 }
}

/// A number for these ports, from 1 to `most`, that is not taken. It is made of them (FNV-1a), so that other ports have another number while routes
/// change: entries move from one to the other, and no packet meets one that has half changed.
pub(crate) fn number(ports: &[u16], most: u32, taken: &mut BTreeSet<u32>) -> u32 {
    let mut hash =
        ports.iter().fold(0x811c_9dc5u32, |h, port| (h ^ u32::from(*port)).wrapping_mul(0x0100_0193));
    while !taken.insert(hash % most + 1) {
        hash = hash.wrapping_add(1);
    }
    hash % most + 1
}

#[cfg(test)]
mod tests {
    use super::mark_after;
    use pointsman_topology::Line;

    #[test]
    fn depths_as_times() {
        let line = |bits_per_s| Line { bits_per_s, ..Line::default() };
        assert_eq!(mark_after(0.0, &line(10_000_000_000)), 0);
        // 64 KiB at 10 Gbit/s.
        assert_eq!(mark_after(64.0, &line(10_000_000_000)), 52_429);
        assert_eq!(mark_after(1.0, &line(u64::MAX)), 1);
        assert_eq!(mark_after(1e6, &line(1)), u32::MAX);
    }
}
