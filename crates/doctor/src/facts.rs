//! Facts about a machine and its rack, without a judgement.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;

/// The rack description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// It cannot be used.
    Wrong(String),
    /// It is valid.
    Right {
        /// Servers and their devices.
        devices: usize,
        /// Services.
        services: usize,
        /// What is valid and may not be meant.
        hints: Vec<String>,
    },
}

/// A file that the description names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// What it is for, such as "keys of agents".
    pub what: &'static str,
    /// Its path.
    pub path: String,
    /// It has to be there now; otherwise it is made when it is needed.
    pub needed: bool,
    /// Only its owner may read it.
    pub secret: bool,
    /// Only the controller reads it.
    pub of_controller: bool,
    /// Its state.
    pub found: Found,
    /// A command that makes it, or what to do without one.
    pub remedy: String,
}

/// What was found at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Missing,
    /// Something that this user cannot read.
    Unreadable(String),
    /// A file with these permissions.
    Mode(u32),
    /// A file of keys without those of these devices of this machine.
    Lacks(String),
    /// A certificate that ends soon: when, and what to do.
    Ends(String),
    /// A certificate that is not valid, or none: why, and what to do.
    Invalid(String),
}

/// Why a device gets no new connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No report is accepted: why.
    Silent(String),
    /// Its agent's health check fails.
    Failed,
}

/// What the controller says of the rack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Devices that are silent or failed, apart from those of `all_silent`, with what is wrong.
    pub troubled: Vec<(String, Trouble)>,
    /// Services without a device that reports.
    pub all_silent: Vec<String>,
    /// APIs of the other controllers.
    pub controllers: Vec<String>,
    /// Why changes cannot be shared through etcd, if they cannot.
    pub etcd: Option<String>,
    /// Why changes cannot be saved, if they cannot.
    pub unsaved: Option<String>,
    /// Devices in all.
    pub devices: usize,
}

/// A network interface of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// What it is for: "port of the switch", or a device's name.
    pub role: String,
    /// It exists.
    pub exists: bool,
    /// It is set up.
    pub up: bool,
    /// It has a carrier; `None`: unknown, as for an interface that is down.
    pub carrier: Option<bool>,
    /// Its MTU, in bytes.
    pub mtu: Option<u32>,
    /// Offloads that are on; `None`: unknown.
    pub offloads: Option<Vec<String>>,
    /// It is a port of the switch.
    pub is_port: bool,
}

/// How this machine would reach clients from a device's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The device.
    pub device: String,
    /// A route of the rack.
    pub prefix: String,
    /// The next hop; `None`: directly.
    pub via: Result<Option<IpAddr>, NoRoute>,
    /// Next hops that lead through the switch, first the one for a remedy: the nearest.
    pub gateways: Vec<IpAddr>,
}

/// The machine has no route, or does not tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoute;

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`ip route get` finds no route")
    }
}

impl Error for NoRoute {}

/// What answers at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// A connection was accepted.
    Accepted,
    /// The machine answered that nothing listens there.
    Refused,
    /// No answer, or no way there.
    Silent(String),
    /// The description does not say on which machine it is, and it is not on this one.
    Elsewhere,
}

/// Who was contacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The P4Runtime server of a switch.
    Switch,
    /// The controller's API.
    Api,
    /// A device's service.
    Device,
    /// A server with a list of members.
    Members,
    /// A node of etcd.
    Etcd,
}

/// An address, and what answered there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Who should be there.
    pub whom: Whom,
    /// The name of the device, or of the source of members; empty for others.
    pub name: String,
    /// Address and port.
    pub address: String,
    /// The result.
    pub contact: Contact,
}

/// A GPU from which a device on this machine gets values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The device.
    pub device: String,
    /// How the description chooses it.
    pub chosen: String,
    /// Whether it has the values that the description wants.
    pub works: Result<(), String>,
    /// Its UUID, if it is chosen by an index among several.
    pub uuid: Option<String>,
}

/// All facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The path of the description.
    pub rack: String,
    /// Its state.
    pub description: Description,
    /// This machine has devices of the rack, and no interface of it was named as the switch's: switch and controller are expected elsewhere. Only
    /// what a server needs is judged.
    pub server_only: bool,
    /// Files that it names.
    pub files: Vec<File>,
    /// Interfaces that were asked for, and those with a device's address.
    pub interfaces: Vec<Interface>,
    /// The largest packets that the rack adds headers to, if it does: bytes of these headers.
    pub tunnel: u32,
    /// Routes from devices on this machine to clients.
    pub ways: Vec<Way>,
    /// Whether the clock is synchronised; `None`: unknown.
    pub clock: Option<bool>,
    /// GPUs of devices on this machine.
    pub gpus: Vec<Gpu>,
    /// Who answers.
    pub trials: Vec<Trial>,
    /// What the controller says, or why it does not; `None`: no token to ask with.
    pub report: Option<Result<Report, String>>,
}
