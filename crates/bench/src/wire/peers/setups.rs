//! Setup of each peer.

use super::super::WireError;
use super::super::bed::{Bed, PORT};
use pointsman_lab::process::{Process, installed};
use pointsman_lab::proxy::{self, Front, NGINX_PACKAGES, NGINX_STREAM};
use pointsman_lab::rack::{Rack, forget_connections_soon};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// A balancer of others.
pub struct Peer {
    /// In reports.
    pub name: &'static str,
    /// Whether it ends connections and opens others to the servers.
    pub proxy: bool,
    program: &'static str,
    packages: &'static str,
    /// Other files without which it does not work.
    needs: &'static [&'static str],
    version: &'static [&'static str],
    set_up: fn(&str, &Rack) -> Result<Vec<Process>, WireError>,
}

/// All of them.
pub const PEERS: &[Peer] = &[
    Peer {
        name: "nftables",
        proxy: false,
        program: "nft",
        packages: "nftables",
        needs: &[],
        version: &["--version"],
        set_up: nftables,
    },
    Peer {
        name: "haproxy",
        proxy: true,
        program: "haproxy",
        packages: "haproxy",
        needs: &[],
        version: &["-v"],
        set_up: haproxy,
    },
    Peer {
        name: "nginx",
        proxy: true,
        program: "nginx",
        packages: NGINX_PACKAGES,
        needs: &[NGINX_STREAM],
        version: &["-v"],
        set_up: nginx,
    },
];

impl Peer {
    /// Starts it in its own rack; also returns its version.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start(&self) -> Result<(Bed, String), WireError> {
        let there = self.needs.iter().all(|file| std::path::Path::new(file).exists());
        let Some(program) = installed(self.program).filter(|_| there) else {
            return Err(WireError::NotInstalled(self.packages));
        };
        let mut version = String::new();
        let bed = Bed::kernel(self.name, |rack| {
            let said = Process::start(&rack.switch, &program, self.version, "")
                .and_then(|process| process.finish(PATIENCE))?;
            version = said.split(" | ").next().unwrap_or_default().to_string();
            (self.set_up)(&program, rack)
        })?;
        Ok((bed, version))
    }
}

fn servers(rack: &Rack) -> Vec<Ipv4Addr> {
    rack.spec.devices().map(|(_, device)| device.link.ipv4).collect()
}

/// The kernel's own: destination NAT to the servers in turn, answers translated back by connection tracking.
fn nftables(program: &str, rack: &Rack) -> Result<Vec<Process>, WireError> {
    let servers = servers(rack);
    let map: Vec<String> = servers.iter().enumerate().map(|(at, to)| format!("{at} : {to}")).collect();
    let rules = format!(
        "table ip balance {{\n  chain prerouting {{\n    type nat hook prerouting priority dstnat; policy accept;\n    \
         ip daddr {vip} tcp dport {PORT} dnat to numgen inc mod {n} map {{ {map} }}\n  }}\n}}\n",
        vip = rack.spec.vip_ipv4,
        n = servers.len(),
        map = map.join(", "),
    );
    let loaded = Process::start(&rack.switch, program, &["-f", "-"], &rules)?;
    loaded.finish(PATIENCE)?;
    // Its table of connections is shared with the machine and must not fill up: a full one drops packets.
    let warnings = forget_connections_soon(&rack.switch)?;
    match warnings.into_iter().next() {
        Some(warning) => Err(WireError::Stay(warning)),
        None => Ok(Vec::new()),
    }
}

/// What a proxy does in a rack.
fn front(rack: &Rack) -> Front {
    Front {
        at: SocketAddrV4::new(rack.spec.vip_ipv4, PORT),
        datagrams: false,
        servers: servers(rack).into_iter().map(|server| (SocketAddrV4::new(server, PORT), 1)).collect(),
        patience_s: 30,
    }
}

fn haproxy(program: &str, rack: &Rack) -> Result<Vec<Process>, WireError> {
    Ok(vec![proxy::haproxy(&rack.switch, program, &front(rack))?])
}

fn nginx(_: &str, rack: &Rack) -> Result<Vec<Process>, WireError> {
    Ok(vec![proxy::nginx(&rack.switch, &front(rack))?])
}
