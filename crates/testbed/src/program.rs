//! The applications: compiled programs, with the library and without it.

use pointsman_compile::sources::{REDPLANE, Sources, balancer};
use pointsman_compile::{compile, rendered};
use pointsman_engine::Engine;
use pointsman_frontend::source::Loader as _;
use pointsman_ir::Program;
use pointsman_net::Loader;
use std::error::Error;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The address of the load balancer's service, and that of the gateway.
pub(crate) const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 1);

/// Libraries with the parts that tests change.
const FIXED: &[&str] = &["pointsman/redplane/fixed.p4", "pointsman/redplane/message.p4"];
const SNAPSHOTS: &[&str] = &["pointsman/redplane/snapshot.p4", "pointsman/redplane/arrays.p4"];

/// An application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// Every packet changes the state; packets with a type of service only read it.
    Counter,
    /// The state changes when a connection begins and ends.
    Firewall,
    /// The store chooses a port when a connection begins; the state changes when it ends.
    Nat,
    /// A connection gets its server when it begins.
    Dispatch,
    /// Signalling changes the tunnel of a user, whose packets read it.
    Gateway,
    /// Updates change the value of a key, which others read.
    KeyValue,
    /// Two objects: an address has the port of its first packet, and packets between two addresses are numbered.
    Guard,
    /// Every packet is counted in the sketch of its VLAN, which is replicated by snapshots.
    HeavyHitters,
    /// The balancer: the store keeps the device of each connection.
    Balancer,
}

impl App {
    pub(crate) fn text(self) -> String {
        let text = match self {
            App::Counter => include_str!("../../../p4/programs/flowcount/main.p4"),
            App::Firewall => include_str!("../../../p4/programs/firewall/main.p4"),
            App::Nat => include_str!("../../../p4/programs/napt/main.p4"),
            App::Dispatch => include_str!("../../../p4/programs/dispatch/main.p4"),
            App::Gateway => include_str!("../../../p4/programs/gateway/main.p4"),
            App::KeyValue => include_str!("../../../p4/programs/kvstore/main.p4"),
            App::Guard => include_str!("../../../p4/programs/guard/main.p4"),
            App::HeavyHitters => include_str!("../../../p4/programs/heavyhitters/main.p4"),
            App::Balancer => return balancer(),
        };
        text.to_string()
    }

    fn library(self) -> &'static [&'static str] {
        match self {
            App::HeavyHitters => SNAPSHOTS,
            App::Balancer => FIXED,
            _ => REDPLANE,
        }
    }

    /// Statements that fill the tables: 10.0.0.0/8 is inside, and all packets to 10.0.0.0/9 and 10.128.0.0/9 leave by these ports.
    pub(crate) fn entries(self, plain: bool, (inside, outside): (u32, u32)) -> Vec<String> {
        if self == App::Balancer {
            return balanced(inside, outside);
        }
        let mac =
            if matches!(self, App::Counter | App::Guard | App::HeavyHitters) { "" } else { ", mac=0x22" };
        let mut all = vec![
            format!("routes prefix=10.0.0.0/9 -> forward(port={inside}{mac})"),
            format!("routes prefix=10.128.0.0/9 -> forward(port={outside}{mac})"),
        ];
        let more: &[String] = &match self {
            App::Counter | App::Guard | App::KeyValue | App::Balancer => Vec::new(),
            App::Firewall => vec!["sides prefix=10.0.0.0/9 -> inside()".into()],
            App::Nat => vec![
                "sides prefix=10.0.0.0/9 -> inside()".into(),
                "addresses prefix=203.0.113.0/24 -> public()".into(),
            ],
            App::Dispatch => {
                let server = |n| format!("servers server={n} -> forward(port={inside}, mac=0x22)");
                let service = format!("services address={SERVICE} -> service(first=1, count=4)");
                (1..=4).map(server).chain([service]).collect()
            }
            App::HeavyHitters => {
                let vlan = |n| format!("vlans vlan={} -> detect(place={n}, threshold=1000)", n + 1);
                (0..2).map(vlan).collect()
            }
            App::Gateway => vec![format!("addresses address={SERVICE} -> ours()")],
        };
        all.extend_from_slice(more);
        if self == App::Nat && plain {
            all.push("pool choose(address=203.0.113.1, first=1024, last=65535)".into());
        }
        all
    }
}

/// A service of 8 devices, of which that with the fewest connections gets a new one. They are behind the port outside, clients behind the other one.
fn balanced(clients: u32, devices: u32) -> Vec<String> {
    let device = |n: u32| {
        let address = format!("10.128.0.{n}");
        [
            format!("devices_v4 device={n} -> set_device_v4(address={address}, port={devices}, mac={n})"),
            format!(
                "backends_v4 ingress_port={devices} address={address} protocol=6 port=80 -> set_backend_v4(service=1, device={n}, vip={SERVICE})"
            ),
            format!(
                "backends_v4 ingress_port={devices} address={address} protocol=17 port=80 -> set_backend_v4(service=2, device={n}, vip={SERVICE})"
            ),
        ]
    };
    let service = |n: u32, protocol: u32| {
        [
            format!(
                "services_v4 vip={SERVICE} protocol={protocol} port=80 -> set_service(service={n}, policy=3, epoch=0, slots_mask=0, idle_ms=30000)"
            ),
            format!("server_slots service={n} epoch=0 slot=0 -> use_server(server=1)"),
            format!(
                "pools service={n} epoch=0 server=1 -> set_pool(devices=0xff, ring=1, ring_length=0, timeout_ms=0)"
            ),
            format!("policies service={n} epoch=0 -> set_policy(0, 0, 0, 0, 32, 6, 1, 0, 0, 0, 0, 0, 0)"),
        ]
    };
    let all = [
        format!("local_v4 address={SERVICE} -> is_local()"),
        format!("routes_v4 prefix=10.0.0.0/9 -> next_hop(port={clients}, mac=0x22)"),
    ];
    all.into_iter().chain(service(1, 6)).chain(service(2, 17)).chain((8..16).flat_map(device)).collect()
}

/// Why a program does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramError {
    /// Program and library do not have a text that was to be replaced, or more than once.
    Text(String),
    /// What the compiler says.
    Compile(String),
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Text(text) => write!(f, "program and library must have this text once: {text}"),
            ProgramError::Compile(why) => write!(f, "the program does not compile: {why}"),
        }
    }
}

impl Error for ProgramError {}

/// A compiled application, which all switches and runs share.
pub struct Build {
    pub(crate) app: App,
    pub(crate) plain: bool,
    /// Messages are sent over IPv6.
    pub(crate) ipv6: bool,
    pub(crate) program: Arc<Program>,
    pub(crate) loader: Loader<Engine>,
}

impl Build {
    /// What it is.
    pub fn app(&self) -> App {
        self.app
    }

    /// The compiled program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// With these lines of `#define`, after replacements in program and library. `plain`: without RedPlane.
    ///
    /// # Errors
    /// A text to be replaced is not there once, or the result does not compile.
    pub fn new(
        app: App,
        plain: bool,
        defines: &str,
        changes: &[(&str, &str)],
    ) -> Result<Build, ProgramError> {
        let sources = Sources::default();
        let files = app.library();
        let include = |file| format!("#include <{file}>");
        let mut library = include(files[0]);
        for file in files {
            let missing = || ProgramError::Compile(format!("{file} is missing"));
            let (_, text) = sources.include(file, false, "").ok_or_else(missing)?;
            library = library.replace(&include(file), &text);
        }
        let mut text = app.text().replacen(&include(files[0]), &format!("{defines}{library}"), 1);
        for (from, to) in changes {
            if text.matches(from).count() != 1 {
                return Err(ProgramError::Text((*from).to_string()));
            }
            text = text.replace(from, to);
        }
        text = match (app, plain) {
            (App::Balancer, true) => text,
            (App::Balancer, false) => format!("#define BALANCER_STORE\n{text}"),
            (_, true) => format!("#define PLAIN\n{text}"),
            (_, false) => text,
        };
        let compiled = compile("main.p4", &text, &sources, &[]);
        let program =
            compiled.map(|c| Arc::new(c.program)).map_err(|e| ProgramError::Compile(rendered(&e)))?;
        let ipv6 = defines.contains("REDPLANE_IPV6");
        Ok(Build { app, plain, ipv6, program, loader: Loader::default() })
    }
}
