//! Setup of each peer: a production configuration for one processor, without features that cost
//! speed and are not needed here (logs, health checks).

use super::super::bed::{Bed, PORT};
use pointsman_lab::Error;
use pointsman_lab::process::{Process, installed};
use pointsman_lab::rack::{Rack, forget_connections_soon};
use std::net::Ipv4Addr;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// Path of nginx's TCP module in Debian.
const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

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
    set_up: fn(&str, &Rack) -> Result<Vec<Process>, String>,
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
        packages: "nginx-light libnginx-mod-stream",
        needs: &[NGINX_STREAM],
        version: &["-v"],
        set_up: nginx,
    },
];

impl Peer {
    /// Starts it in its own rack; also returns its version.
    pub fn start(&self) -> Result<(Bed, String), String> {
        let there = self.needs.iter().all(|file| std::path::Path::new(file).exists());
        let Some(program) = installed(self.program).filter(|_| there) else {
            return Err(format!("not installed: apt-get install --no-install-recommends {}", self.packages));
        };
        let mut version = String::new();
        let bed = Bed::kernel(self.name, |rack| {
            let said = Process::start(&rack.switch, &program, self.version, "")
                .and_then(|process| process.finish(PATIENCE))
                .map_err(text)?;
            version = said.split(" | ").next().unwrap_or_default().to_string();
            (self.set_up)(&program, rack)
        })?;
        Ok((bed, version))
    }
}

fn text(e: Error) -> String {
    e.to_string()
}

fn servers(rack: &Rack) -> Vec<Ipv4Addr> {
    rack.spec.devices().map(|(_, device)| device.link.ipv4).collect()
}

/// The kernel's own: destination NAT to the servers in turn, answers translated back by connection tracking.
fn nftables(program: &str, rack: &Rack) -> Result<Vec<Process>, String> {
    let servers = servers(rack);
    let map: Vec<String> = servers.iter().enumerate().map(|(at, to)| format!("{at} : {to}")).collect();
    let rules = format!(
        "table ip balance {{\n  chain prerouting {{\n    type nat hook prerouting priority dstnat; policy accept;\n    \
         ip daddr {vip} tcp dport {PORT} dnat to numgen inc mod {n} map {{ {map} }}\n  }}\n}}\n",
        vip = rack.spec.vip_ipv4,
        n = servers.len(),
        map = map.join(", "),
    );
    let loaded = Process::start(&rack.switch, program, &["-f", "-"], &rules).map_err(text)?;
    loaded.finish(PATIENCE).map_err(text)?;
    // Its table of connections is shared with the machine and must not fill up: a full one drops packets.
    let warnings = forget_connections_soon(&rack.switch).map_err(text)?;
    match warnings.first() {
        Some(warning) => Err(format!("{warning}: its connections would not expire in time")),
        None => Ok(Vec::new()),
    }
}

/// Starts a proxy and waits until it listens, without connecting: the proxy's servers are not up yet.
fn proxy(
    program: &str,
    rack: &Rack,
    arguments: &[&str],
    configuration: &str,
) -> Result<Vec<Process>, String> {
    let mut process = Process::start(&rack.switch, program, arguments, configuration).map_err(text)?;
    let address = u32::from_ne_bytes(rack.spec.vip_ipv4.octets());
    let listening = format!(" {address:08X}:{PORT:04X} 00000000:0000 0A ");
    let listens = || {
        let table = rack.switch.enter(|| std::fs::read_to_string("/proc/thread-self/net/tcp"))?;
        table
            .map(|table| table.contains(&listening))
            .map_err(|e| Error::os("cannot list listening sockets", e))
    };
    process.wait_until(PATIENCE, listens).map_err(text)?;
    Ok(vec![process])
}

fn haproxy(program: &str, rack: &Rack) -> Result<Vec<Process>, String> {
    let mut servers = String::new();
    for (at, address) in self::servers(rack).iter().enumerate() {
        servers.push_str(&format!("    server s{} {address}:{PORT}\n", at + 1));
    }
    let configuration = format!(
        "global\n    nbthread 1\n    maxconn 4096\n\
         defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 30s\n    timeout server 30s\n\
         frontend service\n    bind {vip}:{PORT}\n    default_backend servers\n\
         backend servers\n    balance roundrobin\n{servers}",
        vip = rack.spec.vip_ipv4,
    );
    proxy(program, rack, &["-db", "-f", "/dev/stdin"], &configuration)
}

fn nginx(program: &str, rack: &Rack) -> Result<Vec<Process>, String> {
    let servers: String = self::servers(rack).iter().map(|a| format!(" server {a}:{PORT};")).collect();
    // One process: a master would do nothing here, and its worker would outlive it if it were killed. It
    // writes its number into the file that its configuration, which it has read by then, came from.
    let configuration = format!(
        "load_module {NGINX_STREAM};\ndaemon off;\nmaster_process off;\nworker_processes 1;\npid /dev/stdin;\n\
         error_log stderr crit;\nevents {{ worker_connections 8192; multi_accept on; }}\n\
         stream {{\n  access_log off;\n  upstream servers {{{servers} }}\n  server {{\n    listen {vip}:{PORT} backlog=4096;\n    \
         proxy_connect_timeout 5s;\n    proxy_timeout 30s;\n    proxy_pass servers;\n  }}\n}}\n",
        vip = rack.spec.vip_ipv4,
    );
    proxy(program, rack, &["-p", "/", "-e", "stderr", "-c", "/dev/stdin"], &configuration)
}
