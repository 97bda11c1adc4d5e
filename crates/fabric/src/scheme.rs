//! Schemes: a program for all switches of a network, which chooses paths, and what its tables hold.

use crate::book::{Book, UnknownName};
use crate::tally::Tally;
use crate::{conga, ecmp, hula, ours, p4te, random};
use pointsman_control::proto::p4rt::Entity;
use pointsman_topology::reader::{At, Problems, Table};
use pointsman_topology::{Routes, SwitchId, Topology};
use pointsman_v1model::Generator;
use std::collections::BTreeMap;
use std::fmt;

/// Something that changes how a scheme works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Its name in a scenario, with its unit: `gap_us`.
    pub name: &'static str,
    /// What a scenario can write.
    pub domain: Domain,
    /// What it changes, in half a line.
    pub says: &'static str,
}

/// The values of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// A number.
    Number {
        /// Its value if a scenario does not name it.
        default: f64,
        /// The least and the largest value.
        range: (f64, f64),
    },
    /// A whole number.
    Whole {
        /// Its value if a scenario does not name it.
        default: u32,
        /// The least and the largest value.
        range: (u32, u32),
    },
    /// One of these names, the first if a scenario does not name it.
    Names(&'static [&'static str]),
}

/// The value of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// Of [`Domain::Number`] and [`Domain::Whole`].
    Number(f64),
    /// Of [`Domain::Names`].
    Name(&'static str),
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Number(n) => n.fmt(f),
            Level::Name(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domain::Number { range: (least, most), .. } => write!(f, "{least} to {most}"),
            Domain::Whole { range: (least, most), .. } => write!(f, "{least} to {most}"),
            Domain::Names(names) => f.write_str(&names.join(", ")),
        }
    }
}

impl Setting {
    /// A setting that is a number.
    pub const fn number(name: &'static str, default: f64, range: (f64, f64), says: &'static str) -> Self {
        Setting { name, domain: Domain::Number { default, range }, says }
    }

    /// A setting that is a whole number.
    pub const fn whole(name: &'static str, default: u32, range: (u32, u32), says: &'static str) -> Self {
        Setting { name, domain: Domain::Whole { default, range }, says }
    }

    /// A setting that is one of some names, by default the first.
    pub const fn names(name: &'static str, names: &'static [&'static str], says: &'static str) -> Self {
        Setting { name, domain: Domain::Names(names), says }
    }

    /// The value if a scenario does not name the setting.
    pub fn default(&self) -> Level {
        match self.domain {
            Domain::Number { default, .. } => Level::Number(default),
            Domain::Whole { default, .. } => Level::Number(default.into()),
            Domain::Names(names) => Level::Name(names.first().copied().unwrap_or_default()),
        }
    }

    /// Reads its value from a scheme's table, if that has one.
    fn read(&self, table: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Level> {
        match self.domain {
            Domain::Number { range: (least, most), .. } => {
                Some(Level::Number(table.number(self.name, least, most, problems)?.value))
            }
            Domain::Whole { range: (least, most), .. } => {
                let found = table.integer(self.name, least.into(), most.into(), problems)?;
                Some(Level::Number(found.value as f64))
            }
            Domain::Names(names) => {
                let remedy = format!("write one of {}", names.join(", "));
                let found: At<String> = table.text(self.name, &remedy, problems)?;
                let name = names.iter().find(|name| **name == found.value);
                if name.is_none() {
                    let field = table.field(self.name);
                    problems.add(&found.place, field, format!("`{}`: {remedy}", found.value));
                }
                name.map(|name| Level::Name(name))
            }
        }
    }
}

/// A switch whose tables are to be filled.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The program's names.
    pub book: &'a Book,
    /// The network.
    pub topology: &'a Topology,
    /// Shortest paths over the links that are up.
    pub routes: &'a Routes,
    /// The switch.
    pub switch: SwitchId,
    /// The scheme and its settings.
    pub choice: &'a Choice,
}

/// A subject and its number.
pub type Report = (u32, u32);

/// What the data plane of a switch has reported last: numbers by subject, both of the scheme's choice.
pub type Reports = BTreeMap<u32, u32>;

/// A way to choose paths.
#[derive(Clone, Copy)]
pub struct Scheme {
    /// Its name in scenarios.
    pub name: &'static str,
    /// What it does, in half a line.
    pub says: &'static str,
    /// The text of its program.
    pub program: &'static str,
    /// Its settings.
    pub settings: &'static [Setting],
    /// Whether it chooses only among ports that lead to a higher tier: in a network without one, it chooses paths as `ecmp` does.
    pub climbs: bool,
    /// Pairs of settings of which the first is at most as large as the second.
    pub ordered: &'static [(&'static str, &'static str)],
    /// Pairs of settings of which the first, unless it is 0, takes the place of the second: a scenario writes one of them.
    pub instead: &'static [(&'static str, &'static str)],
    /// What the tables of a switch have to hold, whatever it reports.
    pub entities: fn(&Place<'_>) -> Result<Vec<Entity>, UnknownName>,
    /// The packet generators of a switch, by number. Switches are started with them: P4Runtime has none.
    pub generators: fn(&Topology, SwitchId, &Choice) -> Vec<(u16, Generator)>,
    /// How reports of switches change tables; `None` if switches send none.
    pub reporting: Option<Reporting>,
    /// Priority queues of each port.
    pub queues: fn(&Choice) -> u8,
    /// Counters of the program that say what the scheme costs.
    pub tallies: &'static [Tally],
}

/// Reports of a switch's data plane to its controller.
#[derive(Clone, Copy)]
pub struct Reporting {
    /// What a packet to the controller reports: a subject and its number. Tables are filled again when the number is another one than
    /// before, so that it should be no finer than what they depend on. `None`: nothing.
    pub read: fn(&Choice, &[u8]) -> Option<Report>,
    /// What the tables have to hold besides [`Scheme::entities`], by the last reports. Called after each that changes something.
    pub entities: fn(&Place<'_>, &Reports) -> Result<Vec<Entity>, UnknownName>,
}

impl Scheme {
    /// All that the tables of a switch have to hold after these reports.
    ///
    /// # Errors
    /// The program is not the scheme's.
    pub fn all(&self, place: &Place<'_>, reports: &Reports) -> Result<Vec<Entity>, UnknownName> {
        let mut all = (self.entities)(place)?;
        if let Some(reporting) = &self.reporting {
            all.extend((reporting.entities)(place, reports)?);
        }
        Ok(all)
    }
}

impl std::fmt::Debug for Scheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All schemes.
pub static SCHEMES: &[Scheme] =
    &[ecmp::SCHEME, random::LETFLOW, random::SPRAY, hula::SCHEME, conga::SCHEME, p4te::SCHEME, ours::SCHEME];

/// For [`Scheme::generators`]: a scheme that needs none.
pub fn no_generators(_: &Topology, _: SwitchId, _: &Choice) -> Vec<(u16, Generator)> {
    Vec::new()
}

/// For [`Scheme::queues`]: a scheme without classes of packets.
pub fn one_queue(_: &Choice) -> u8 {
    1
}

/// What to write where a scheme is wanted.
fn remedy() -> String {
    let all: Vec<&str> = SCHEMES.iter().map(|s| s.name).collect();
    format!("write the name of a scheme: {}", all.join(", "))
}

/// A scheme with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The scheme.
    pub scheme: &'static Scheme,
    /// In the order of [`Scheme::settings`].
    levels: Vec<Level>,
}

impl Choice {
    /// A scheme as it is without further words.
    pub fn of(scheme: &'static Scheme) -> Self {
        Choice { scheme, levels: scheme.settings.iter().map(Setting::default).collect() }
    }

    /// The scheme of this name, with its defaults.
    pub fn named(name: &str) -> Option<Self> {
        SCHEMES.iter().find(|s| s.name == name).map(Choice::of)
    }

    /// The same of a name in a file; an unknown one is reported for this field.
    pub fn find(name: &At<String>, field: &str, problems: &mut Problems<'_>) -> Option<Self> {
        let found = Choice::named(&name.value);
        if found.is_none() {
            problems.add(&name.place, field, format!("unknown scheme `{}`: {}", name.value, remedy()));
        }
        found
    }

    /// Reads a table `[scheme]`: `name`, and the settings of the scheme of that name.
    pub fn read(mut table: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let remedy = remedy();
        let Some(name): Option<At<String>> = table.name("name", &remedy, problems) else {
            table.finish(problems);
            return None;
        };
        let mut choice = Choice::find(&name, &table.field("name"), problems)?;
        for (level, setting) in choice.levels.iter_mut().zip(choice.scheme.settings) {
            *level = setting.read(&mut table, problems).unwrap_or(*level);
        }
        for (less, more) in choice.scheme.ordered {
            let (low, high) = (choice.setting(less), choice.setting(more));
            if low > high {
                let message = format!(
                    "{low} is above `{more}`, which is {high}: write at most {high}, or a larger `{more}`"
                );
                problems.add(&table.place_of(less), table.field(less), message);
            }
        }
        for (one, other) in choice.scheme.instead {
            if choice.setting(one) != 0.0 && table.place_of(other) != table.place {
                let message =
                    format!("it takes the place of `{other}`, which is also there: write one of the two");
                problems.add(&table.place_of(one), table.field(one), message);
            }
        }
        table.finish(problems);
        Some(choice)
    }

    /// Why the scheme means nothing in this network, with the remedy; `None` if it does.
    pub fn misfit(&self, topology: &Topology) -> Option<String> {
        let flat = topology.tiers().iter().all(|tier| matches!(*tier, 0 | u32::MAX));
        (self.scheme.climbs && flat).then(|| {
            let others = SCHEMES.iter().filter(|s| !s.climbs).map(|s| s.name);
            format!(
                "`{}` chooses among links to switches without hosts, and this network has none, so that it would choose paths as `ecmp` does: \
                 add such switches, or write {}",
                self.scheme.name,
                others.collect::<Vec<_>>().join(", ")
            )
        })
    }

    /// The value of a setting, if the scheme has it.
    pub fn level(&self, name: &str) -> Option<Level> {
        let place = self.scheme.settings.iter().position(|s| s.name == name)?;
        self.levels.get(place).copied()
    }

    /// The value of a setting that is a number.
    ///
    /// # Panics
    /// The scheme has no such setting: schemes ask for their own only.
    pub fn setting(&self, name: &str) -> f64 {
        match self.level(name) {
            Some(Level::Number(n)) => n,
            other => panic!("{} has no number `{name}`: {other:?}", self.scheme.name),
        }
    }

    /// The place of a setting's value among its names.
    ///
    /// # Panics
    /// The scheme has no such setting: schemes ask for their own only.
    pub fn place_of(&self, name: &str) -> usize {
        let setting = self.scheme.settings.iter().find(|s| s.name == name);
        match (setting.map(|s| s.domain), self.level(name)) {
            (Some(Domain::Names(names)), Some(Level::Name(level))) => {
                names.iter().position(|n| *n == level).unwrap_or_default()
            }
            (_, other) => panic!("{} has no names `{name}`: {other:?}", self.scheme.name),
        }
    }

    /// How the scheme slows flows down: `none` if it does not.
    pub fn rate_control(&self) -> &'static str {
        match self.level("rate_control") {
            Some(Level::Name(name)) => name,
            _ => "none",
        }
    }

    /// All settings that are not as usual, with their values.
    pub fn unusual(&self) -> impl Iterator<Item = (&'static str, Level)> {
        let all = self.scheme.settings.iter().zip(&self.levels);
        all.filter(|(setting, level)| setting.default() != **level).map(|(s, level)| (s.name, *level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_values() {
        let mut choice = Choice::named("p4te").expect("a scheme");
        assert_eq!((choice.rate_control(), choice.place_of("rate_control")), ("none", 0));
        assert_eq!(choice.level("gap_us"), Some(Level::Number(100.0)));
        assert_eq!((choice.level("no_such"), choice.unusual().count()), (None, 0));
        let place = choice.scheme.settings.iter().position(|s| s.name == "rate_control").expect("it has it");
        choice.levels[place] = Level::Name("clamp");
        assert_eq!((choice.rate_control(), choice.place_of("rate_control")), ("clamp", 2));
        assert_eq!(choice.unusual().collect::<Vec<_>>(), [("rate_control", Level::Name("clamp"))]);
        assert_eq!(Choice::named("ecmp").expect("a scheme").rate_control(), "none");
    }
}
