//! The NAT whose entries are in a memory server, between hosts of Linux: real `ping` and `traceroute`, and errors that one kernel sends and another one gives to the
//! socket that they are about.
//!
//! ```text
//!   inside   10.0.1.2   port 1 -- switch -- port 2   10.0.2.2   router   192.0.2.1 -- 192.0.2.2  target
//!            fd00:1::2                               fd00:2::2           fd52::1      fd52::2
//!            outside it is 198.51.100.1, fd51::1                         MTU 1,300
//! ```

use crate::support::{PATIENCE, Scratch};
use crate::tea_wire::Outcome;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use pointsman_lab::netlink::{Netlink, VethEnd};
use pointsman_lab::process::{Process, command};
use pointsman_lab::rack::Rack;
use pointsman_lab::{Error, Namespace};
use pointsman_tea::{App, Hosts, INSIDE, OUTSIDE, Options};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

pub const TESTS: &[(&str, Test)] = &[("linux_at_both_ends_of_the_nat", linux_at_both_ends_of_the_nat)];

/// Of the link between router and target.
const MTU: u32 = 1300;
const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 9, 1];
const TARGET_MAC: [u8; 6] = [2, 0, 0, 0, 9, 2];
/// Indices of its ends.
const BEHIND: u32 = 500;
/// Settings of the router, and of the host inside.
const FORWARD: &[(&str, &str)] = &[("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1")];
const FEW_PORTS: &[(&str, &str)] = &[("net/ipv4/ip_local_port_range", "40000 40007")];
/// The same ports, of which `traceroute` gets one, and those to which it sends: two probes for each of two hops.
const PROBES: (RangeInclusive<u16>, RangeInclusive<u16>) = (40000..=40007, 33435..=33438);
const UDP: u8 = 17;
/// Echoes of a `ping`, and how many must be answered: a look-up may be late on a busy machine.
const ECHOES: u32 = 5;
const ANSWERED: u32 = 3;
/// Datagrams that are sent until an error comes, and how long each waits for it.
const TRIES: usize = 10;
const WAIT: Duration = Duration::from_millis(500);

/// Who speaks to whom, in one family.
struct Family {
    inside: IpAddr,
    /// The same host, as the target sees it.
    shown: IpAddr,
    /// The router's addresses: at the switch and at the target.
    router: [IpAddr; 2],
    target: IpAddr,
    /// Bits of the network of the link to the target.
    bits: u8,
    /// Protocol of echoes, types of a request and of an answer.
    echo: [u8; 3],
    programs: [&'static str; 2],
}

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(first: u16, second: u16, last: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, last))
}

const FAMILIES: [Family; 2] = [
    Family {
        inside: v4(10, 0, 1, 2),
        shown: v4(198, 51, 100, 1),
        router: [v4(10, 0, 2, 2), v4(192, 0, 2, 1)],
        target: v4(192, 0, 2, 2),
        bits: 24,
        echo: [1, 8, 0],
        programs: ["ping", "traceroute"],
    },
    Family {
        inside: v6(0xfd00, 1, 2),
        shown: v6(0xfd51, 0, 1),
        router: [v6(0xfd00, 2, 2), v6(0xfd52, 0, 1)],
        target: v6(0xfd52, 0, 2),
        bits: 64,
        echo: [58, 128, 129],
        programs: ["ping6", "traceroute6"],
    },
];

/// A datagram whose error must come back: the side that sends it, ports inside, of the target and of the host inside as shown, bytes, hops, and what
/// its socket gets.
struct Case {
    from_inside: bool,
    ports: [u16; 3],
    bytes: usize,
    hops: u8,
    error: Errno,
}

const fn case(from_inside: bool, n: u16, bytes: usize, hops: u8, error: Errno) -> Case {
    Case { from_inside, ports: [4000 + n, 7000 + n, 5000 + n], bytes, hops, error }
}

/// No socket has the port at the other end; a router's next link has a smaller MTU; a packet lived too long.
const CASES: [Case; 4] = [
    case(true, 1, 20, 64, Errno::ECONNREFUSED),
    case(false, 2, 20, 64, Errno::ECONNREFUSED),
    case(true, 3, 1400, 64, Errno::EMSGSIZE),
    case(true, 4, 20, 1, Errno::EHOSTUNREACH),
];

fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        IpAddr::V6(a) => a.octets(),
    }
}

/// Entries for both directions: protocol, the last byte but one of the key in each; ports inside, of the target, and as shown. Those of echoes are identifiers and 0.
fn translate(
    hosts: &mut Hosts<'_>,
    family: &Family,
    [proto, out, back]: [u8; 3],
    [own, target, shown]: [u16; 3],
) {
    let key = |from: (IpAddr, u16), to: (IpAddr, u16), kind| {
        let ports = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
        [&mapped(from.0)[..], &mapped(to.0), &ports, &[0, 0, kind, proto]].concat()
    };
    let value = |is_destination, (address, port): (IpAddr, u16)| {
        [&[0, is_destination][..], &port.to_be_bytes(), &mapped(address)].concat()
    };
    let (own, target, shown) = ((family.inside, own), (family.target, target), (family.shown, shown));
    hosts.entry(key(own, target, out), value(0, shown));
    hosts.entry(key(target, shown, back), value(1, own));
}

/// Settings of the calling thread's namespace.
fn set(settings: &[(&str, &str)]) -> Result<(), Error> {
    settings.iter().try_for_each(|(path, value)| {
        std::fs::write(format!("/proc/sys/{path}"), value)
            .map_err(|e| Error::os(format!("{path}: {value}"), e))
    })
}

/// Makes the router forward, and joins the target to it.
fn add_target(router: &Namespace) -> Result<Namespace, Error> {
    let target = Namespace::new("target")?;
    let end = |namespace, index, mac| VethEnd { name: "behind", index, mac, namespace, queues: 1 };
    let ends = [end(router.as_fd(), BEHIND, ROUTER_MAC), end(target.as_fd(), BEHIND + 1, TARGET_MAC)];
    router.enter(|| {
        set(FORWARD)?;
        let mut netlink = Netlink::open()?;
        netlink.add_veth(&ends[0], &ends[1], MTU)?;
        netlink.set_up(BEHIND)?;
        FAMILIES.iter().try_for_each(|f| netlink.add_address(BEHIND, f.router[1], f.bits, 0))
    })??;
    target.enter(|| {
        let mut netlink = Netlink::open()?;
        netlink.set_up(1)?;
        netlink.set_up(BEHIND + 1)?;
        netlink.wait_until_up(BEHIND + 1)?;
        FAMILIES.iter().try_for_each(|f| {
            netlink.add_address(BEHIND + 1, f.target, f.bits, 0)?;
            netlink.add_default_route(BEHIND + 1, f.router[1], false, 0)
        })
    })??;
    Ok(target)
}

/// A program of BusyBox inside that begins when the file `go` exists. Its process number is known before.
fn waiting(rack: &Rack, go: &str, arguments: &[&str]) -> Result<Process, Error> {
    let script = "until [ -e \"$0\" ]; do sleep 0.05; done; exec busybox \"$@\"";
    let arguments = [&["-c", script, go], arguments].concat();
    Process::start(&rack.host(INSIDE)?.namespace, "/bin/sh", &arguments, "")
}

/// The error that the socket of such datagrams gets.
fn error_of(family: &Family, case: &Case) -> Outcome<Errno> {
    let [own, target, shown] = case.ports;
    let (from, to) = if case.from_inside {
        ((family.inside, own), (family.target, target))
    } else {
        ((family.target, target), (family.shown, shown))
    };
    let socket = UdpSocket::bind(SocketAddr::from(from))?;
    socket.connect(SocketAddr::from(to))?;
    socket.set_read_timeout(Some(WAIT))?;
    // Without it the kernel keeps the error of a packet that lived too long to itself.
    if from.0.is_ipv4() {
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
        setsockopt(&socket, sockopt::Ipv4Ttl, &case.hops.into())?;
    } else {
        setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
        setsockopt(&socket, sockopt::Ipv6Ttl, &case.hops.into())?;
    }
    for _ in 0..TRIES {
        match socket.send(&vec![7; case.bytes]).and_then(|_| socket.recv(&mut [0; 16])) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Ok(e.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw)),
            Ok(_) => return Err("an answer came".into()),
        }
    }
    Err(format!("no error for {TRIES} datagrams from {from:?} to {to:?}").into())
}

/// Errors that Linux sends come through the NAT to the socket that they are about, and say what they are to say.
fn errors_arrive(rack: &Rack, target: &Namespace) -> Outcome {
    let inside = &rack.host(INSIDE)?.namespace;
    for family in &FAMILIES {
        for case in &CASES {
            let place = if case.from_inside { inside } else { target };
            let error = place.enter(|| error_of(family, case).map_err(|e| e.to_string()))??;
            ensure!(error == case.error, "{}, {:?}: {error}", family.target, case.ports);
        }
        // What the router said of its next link.
        let route = command(inside, "ip").args(["route", "get", &family.target.to_string()]).output()?;
        let route = String::from_utf8_lossy(&route.stdout).into_owned();
        ensure!(route.contains(&format!("mtu {MTU}")), "{route}");
    }
    Ok(())
}

/// `ping` gets answers, and `traceroute` finds router and target.
fn programs_see(family: &Family, ping: Process, trace: Process) -> Outcome {
    let said = ping.finish(PATIENCE)?;
    let answered = said.split(" packets received").next().and_then(|s| s.rsplit(' ').next()?.parse().ok());
    ensure!(answered.is_some_and(|n: u32| (ANSWERED..=ECHOES).contains(&n)), "{}: {said}", family.target);
    let said = trace.finish(PATIENCE)?;
    for (hop, address) in [(1, family.router[0]), (2, family.target)] {
        ensure!(said.contains(&format!("{hop}  {address}")), "{}: {said}", family.target);
    }
    Ok(())
}

fn linux_at_both_ends_of_the_nat() -> Outcome {
    if !pointsman_needs::programs("tea_hosts_wire", &["busybox-static:busybox", "iproute2:ip"]) {
        return Ok(());
    }
    let dir = Scratch::new("tea-hosts");
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_pointsman"));
    let options = Options { entries: 1000, ..Options::new(App::Nat6, binary, dir.0.join("bed")) };
    std::fs::create_dir(&options.folder)?;
    let mut hosts = Hosts::new(&options)?;
    let target = add_target(&hosts.rack().host(OUTSIDE)?.namespace)?;
    let go = dir.path("go");
    let mut programs = Vec::new();
    hosts.rack().host(INSIDE)?.namespace.enter(|| set(FEW_PORTS))??;
    for family in &FAMILIES {
        let [ping, trace] = family.programs;
        let (count, address) = (ECHOES.to_string(), family.target.to_string());
        let ping = waiting(hosts.rack(), &go, &[ping, "-c", &count, "-i", "0.2", "-W", "2", &address])?;
        let trace = waiting(hosts.rack(), &go, &[trace, "-n", "-q", "2", "-w", "2", "-m", "2", &address])?;
        translate(&mut hosts, family, family.echo, [ping.number() as u16, 0, 77]);
        for case in &CASES {
            translate(&mut hosts, family, [UDP, 0, 0], case.ports);
        }
        for from in PROBES.0 {
            for to in PROBES.1 {
                translate(&mut hosts, family, [UDP, 0, 0], [from, to, from + 1000]);
            }
        }
        programs.push((family, ping, trace));
        hosts.route(family.inside, INSIDE)?;
        hosts.route(family.target, OUTSIDE)?;
    }
    let (outcome, reads) = hosts.serve(|rack| -> Outcome {
        std::fs::write(&go, "")?;
        errors_arrive(rack, &target)?;
        programs.into_iter().try_for_each(|(family, ping, trace)| programs_see(family, ping, trace))
    })?;
    outcome?;
    // Two for each look-up: requests, answers and errors.
    ensure!(reads > 60, "{reads} READs");
    Ok(())
}
