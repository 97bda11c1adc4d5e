//! Schemes: a program for all switches of a network, which chooses paths, and what its tables hold.

use crate::book::{Book, UnknownName};
use crate::{conga, ecmp, hula, p4te, random};
use pointsman_control::proto::p4rt::Entity;
use pointsman_topology::reader::{At, Problems, Table};
use pointsman_topology::{Routes, SwitchId, Topology};
use pointsman_v1model::Generator;
use std::collections::BTreeMap;

/// A number that changes how a scheme works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Its name in a scenario, with its unit: `gap_us`.
    pub name: &'static str,
    /// Its value if a scenario does not name it.
    pub default: f64,
    /// The least and the largest value.
    pub range: (f64, f64),
    /// What it changes, in half a line.
    pub says: &'static str,
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
    /// What its data plane has reported last, by subject: see [`Scheme::report`].
    pub reports: &'a Reports,
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
    /// All that the tables of a switch have to hold.
    pub entities: fn(&Place<'_>) -> Result<Vec<Entity>, UnknownName>,
    /// The packet generators of a switch, by number. Switches are started with them: P4Runtime has none.
    pub generators: fn(&Topology, SwitchId, &Choice) -> Vec<(u16, Generator)>,
    /// What a packet from the switch to its controller reports: a subject and its number. The switch's tables are filled again when the
    /// number is another one than before, so that it should be no finer than what they depend on. `None`: nothing.
    pub report: fn(&Choice, &[u8]) -> Option<Report>,
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
    &[ecmp::SCHEME, random::LETFLOW, random::SPRAY, hula::SCHEME, conga::SCHEME, p4te::SCHEME];

/// For [`Scheme::generators`]: a scheme that needs none.
pub fn no_generators(_: &Topology, _: SwitchId, _: &Choice) -> Vec<(u16, Generator)> {
    Vec::new()
}

/// For [`Scheme::report`]: a scheme whose switches report nothing.
pub fn no_reports(_: &Choice, _: &[u8]) -> Option<Report> {
    None
}

/// A scheme with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The scheme.
    pub scheme: &'static Scheme,
    /// In the order of [`Scheme::settings`].
    values: Vec<f64>,
}

impl Choice {
    /// A scheme as it is without further words.
    pub fn of(scheme: &'static Scheme) -> Self {
        Choice { scheme, values: scheme.settings.iter().map(|s| s.default).collect() }
    }

    /// The scheme of this name, with its defaults.
    pub fn named(name: &str) -> Option<Self> {
        SCHEMES.iter().find(|s| s.name == name).map(Choice::of)
    }

    /// Reads a table `[scheme]`: `name`, and the settings of the scheme of that name.
    pub fn read(mut table: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let all: Vec<&str> = SCHEMES.iter().map(|s| s.name).collect();
        let remedy = format!("write the name of a scheme: {}", all.join(", "));
        let Some(name): Option<At<String>> = table.name("name", &remedy, problems) else {
            table.finish(problems);
            return None;
        };
        let Some(mut choice) = Choice::named(&name.value) else {
            let field = table.field("name");
            problems.add(&name.place, field, format!("unknown scheme `{}`: {remedy}", name.value));
            return None;
        };
        for (value, setting) in choice.values.iter_mut().zip(choice.scheme.settings) {
            let (least, most) = setting.range;
            if let Some(found) = table.number(setting.name, least, most, problems) {
                *value = found.value;
            }
        }
        table.finish(problems);
        Some(choice)
    }

    /// The value of a setting of the scheme.
    ///
    /// # Panics
    /// The scheme has no such setting: schemes ask for their own only.
    pub fn setting(&self, name: &str) -> f64 {
        let place = self.scheme.settings.iter().position(|s| s.name == name);
        self.values[place.unwrap_or_else(|| panic!("{} has no setting `{name}`", self.scheme.name))]
    }
}
