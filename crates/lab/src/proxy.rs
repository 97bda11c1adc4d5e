//! Proxies of other people, in a production configuration for one processor, without features that cost speed and are not needed here (logs,
//! health checks).

use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::process::{Process, installed};
use std::fmt::Write;
use std::net::SocketAddrV4;
use std::path::Path;
use std::time::Duration;

/// Path of nginx's module for TCP and UDP in Debian.
pub const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";
/// Debian's packages of nginx with that module.
pub const NGINX_PACKAGES: &str = "nginx-light libnginx-mod-stream";

const PATIENCE: Duration = Duration::from_secs(10);

/// What a proxy is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    /// Where it listens.
    pub at: SocketAddrV4,
    /// UDP, with one answer for each datagram, in place of TCP.
    pub datagrams: bool,
    /// Its servers, which it takes by weighted round robin.
    pub servers: Vec<(SocketAddrV4, u32)>,
    /// It forgets a connection, or a datagram without an answer, after so many seconds. Too many that it remembers leave no room for others.
    pub patience_s: u32,
}

/// Starts nginx, and waits until it listens.
///
/// # Errors
/// It is not installed, or does not start.
pub fn nginx(namespace: &Namespace, front: &Front) -> Result<Process> {
    let program = installed("nginx").filter(|_| Path::new(NGINX_STREAM).exists()).ok_or_else(|| {
        Error::new("nginx with its stream module is not installed")
            .with_remedy(format!("apt-get install --no-install-recommends {NGINX_PACKAGES}"))
    })?;
    start(
        namespace,
        &program,
        &["-p", "/", "-e", "stderr", "-c", "/dev/stdin"],
        &nginx_configuration(front),
        front,
    )
}

/// Starts HAProxy for TCP, and waits until it listens. `program` is its path.
///
/// # Errors
/// It does not start.
pub fn haproxy(namespace: &Namespace, program: &str, front: &Front) -> Result<Process> {
    start(namespace, program, &["-db", "-f", "/dev/stdin"], &haproxy_configuration(front), front)
}

fn nginx_configuration(front: &Front) -> String {
    let mut servers = String::new();
    for (address, weight) in &front.servers {
        let _ = write!(servers, " server {address} weight={weight};");
    }
    let (listen, rest) = if front.datagrams {
        ("udp rcvbuf=1m", "    proxy_responses 1;\n")
    } else {
        ("backlog=4096", "    proxy_connect_timeout 5s;\n")
    };
    // One process: a master would do nothing here, and its worker would outlive it if it were killed. It
    // writes its number into the file that its configuration, which it has read by then, came from.
    format!(
        "load_module {NGINX_STREAM};\ndaemon off;\nmaster_process off;\nworker_processes 1;\npid /dev/stdin;\n\
         error_log stderr crit;\nevents {{ worker_connections 8192; multi_accept on; }}\n\
         stream {{\n  access_log off;\n  upstream servers {{{servers} }}\n  server {{\n    listen {} {listen};\n{rest}    \
         proxy_timeout {}s;\n    proxy_pass servers;\n  }}\n}}\n",
        front.at, front.patience_s,
    )
}

fn haproxy_configuration(front: &Front) -> String {
    let mut servers = String::new();
    for ((address, weight), number) in front.servers.iter().zip(1..) {
        let _ = writeln!(servers, "    server s{number} {address} weight {weight}");
    }
    format!(
        "global\n    nbthread 1\n    maxconn 4096\n\
         defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 30s\n    timeout server 30s\n\
         frontend service\n    bind {}\n    default_backend servers\n\
         backend servers\n    balance roundrobin\n{servers}",
        front.at,
    )
}

/// Starts a proxy and waits until it listens, without connecting: its servers may not be up yet.
fn start(
    namespace: &Namespace,
    program: &str,
    arguments: &[&str],
    configuration: &str,
    front: &Front,
) -> Result<Process> {
    let mut process = Process::start(namespace, program, arguments, configuration)?;
    let address = u32::from_ne_bytes(front.at.ip().octets());
    // proc_net_tcp in the kernel's documentation: the state is 0A for TCP that listens, and 07 for UDP.
    let (table, state) = if front.datagrams { ("udp", "07") } else { ("tcp", "0A") };
    let listening = format!(" {address:08X}:{:04X} 00000000:0000 {state} ", front.at.port());
    let listens = || {
        let table = namespace.enter(|| std::fs::read_to_string(format!("/proc/thread-self/net/{table}")))?;
        table
            .map(|table| table.contains(&listening))
            .map_err(|e| Error::os("cannot list listening sockets", e))
    };
    process.wait_until(PATIENCE, listens)?;
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn weights_and_protocols_are_configured() {
        let at = |port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 1), port);
        let front = Front {
            at: at(8001),
            datagrams: true,
            servers: vec![(at(8000), 5), (at(8002), 1)],
            patience_s: 7,
        };
        let text = nginx_configuration(&front);
        assert!(text.contains("server 10.0.1.1:8000 weight=5; server 10.0.1.1:8002 weight=1;"), "{text}");
        assert!(text.contains("listen 10.0.1.1:8001 udp") && text.contains("proxy_responses 1;"), "{text}");
        assert!(text.contains("proxy_timeout 7s;"), "{text}");
        let text = nginx_configuration(&Front { datagrams: false, ..front.clone() });
        assert!(text.contains("listen 10.0.1.1:8001 backlog") && !text.contains("proxy_responses"), "{text}");
        let text = haproxy_configuration(&front);
        assert!(text.contains("server s2 10.0.1.1:8002 weight 1\n"), "{text}");
    }
}
