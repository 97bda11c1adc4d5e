//! The data plane that the controller fills: the balancer, from `p4/programs/balancer`.

use crate::config::Rack;
use std::fmt;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// Every file of the program, by the name that the others include it by.
        pub const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../p4/programs/balancer/", $name)))),*];
    };
}

files! {
    "main.p4",
    "blocks.p4",
    "checksum.p4",
    "connections.p4",
    "devices.p4",
    "fragments.p4",
    "headers.p4",
    "load.p4",
    "packets.p4",
    "parser.p4",
    "reports.p4",
    "reset.p4",
    "respond.p4",
    "select.p4",
    "servers.p4",
    "siphash.p4",
    "state.p4",
    "tables.p4",
    "settled.p4",
    "tally.p4",
    "translate.p4",
    "store.p4",
    "tunnel.p4",
}

/// The text of one of them.
pub fn file(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// How many devices a server can have: the program is compiled for one of these numbers. More make a decision slower, so that a rack has the
/// smallest that suffices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerDevices {
    /// Slots 0 to 7.
    #[default]
    Eight,
    /// Slots 0 to 15.
    Sixteen,
}

impl ServerDevices {
    /// What a rack's servers need.
    pub fn of(rack: &Rack) -> Self {
        if rack.devices().any(|(_, d)| d.number.slot() > 7) { Self::Sixteen } else { Self::Eight }
    }

    /// The number.
    pub const fn count(self) -> usize {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }

    /// The macro (the argument of `-D`) that has the program compiled for this number; `None` for what it is compiled for without.
    pub const fn define(self) -> Option<&'static str> {
        match self {
            Self::Eight => None,
            Self::Sixteen => Some("SERVER_DEVICES=16"),
        }
    }
}

/// The macros (arguments of `-D`) with which a rack's program is compiled.
pub fn defines(rack: &Rack) -> Vec<&'static str> {
    let store = rack.switch.store.as_ref();
    let ipv6 = store.filter(|store| store.address.is_ipv6()).map(|_| "REDPLANE_IPV6");
    ServerDevices::of(rack).define().into_iter().chain(store.map(|_| "BALANCER_STORE")).chain(ipv6).collect()
}

impl fmt::Display for ServerDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.count().fmt(f)
    }
}
