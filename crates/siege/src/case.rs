//! Cases as plain data. The cases themselves are in [`crate::cases`].

use crate::storm::Storm;
use std::time::Duration;

/// One attack on a rack that serves connections.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// The attack, in one sentence.
    pub about: &'static str,
    /// Part of `--quick`.
    pub quick: bool,
    /// How many controllers the rack has: 1 or 2.
    pub controllers: u8,
    /// The steps of the attack: milliseconds after its beginning, ascending.
    pub steps: &'static [(u64, Act)],
    /// Faults at random against controllers that share etcd, instead of steps. The rack has three nodes of etcd then.
    pub storm: Option<Storm>,
    /// How long the attack lasts; attackers stop then.
    pub lasts: Duration,
    /// From when recovery is measured.
    pub recovers_from: Moment,
    /// Devices whose own connections may suffer: they are hit themselves.
    pub hits: &'static [&'static str],
    /// The conditions to check afterwards.
    pub checks: &'static [Check],
    /// The promised limits.
    pub limits: Limits,
}

impl Case {
    /// Whether latency is measured, with enough packets for a P99.9.
    pub fn compares_latency(&self) -> bool {
        self.limits.added_p999.is_some()
    }

    /// Whether a client takes the highest election id that exists.
    pub fn raises_election_id(&self) -> bool {
        use P4Runtime::{BadUpdates, Push, Seize};
        self.steps.iter().any(|(_, act)| matches!(act, Act::P4Runtime(Seize | Push | BadUpdates, _)))
    }
}

/// From when recovery is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The beginning of the attack: the rack must get over it while it lasts.
    Begin,
    /// Its end.
    End,
}

/// The highest cost of a case. `None`: not promised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests lost on connections that were there before, on devices that are not hit themselves.
    pub standing_lost: Option<u64>,
    /// Requests lost on new TCP connections.
    pub new_tcp_lost: Option<u64>,
    /// Requests lost on new UDP connections.
    pub new_udp_lost: Option<u64>,
    /// Answers from another device than the connection's first.
    pub violations: Option<u64>,
    /// Until the rack is whole again: every new connection is answered, every device gets some, a controller is in charge.
    pub recovery: Option<Duration>,
    /// Until every TCP connection that was there before is answered again or reset.
    pub stuck: Option<Duration>,
    /// The longest time without an answer from the API or from the switch's metrics while the attack lasts.
    pub control_gap: Option<Duration>,
    /// Growth of the memory of switch, controllers and agents together, MB.
    pub memory_mb: Option<f64>,
    /// Bytes that they write to their logs.
    pub log_bytes: Option<u64>,
    /// How much later than 2 x the same case's P99.9 without an attack the P99.9 may be.
    pub added_p999: Option<Duration>,
}

/// A part of the rack that is a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The switch.
    Switch,
    /// The controller that is in charge.
    Primary,
    /// The controllers that are not.
    Standby,
    /// All controllers.
    Controllers,
    /// The agent of this device.
    Agent(&'static str),
    /// All agents.
    Agents,
    /// The process that serves requests on this device.
    Device(&'static str),
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `kill -9`.
    Kill,
    /// Stops the process until [`Signal::Continue`].
    Stop,
    /// Lets it run again.
    Continue,
    /// As sent when a terminal closes, and to make daemons read their files again.
    Hangup,
}

impl Signal {
    /// Its number.
    pub fn number(self) -> i32 {
        match self {
            Signal::Kill => libc::SIGKILL,
            Signal::Stop => libc::SIGSTOP,
            Signal::Continue => libc::SIGCONT,
            Signal::Hangup => libc::SIGHUP,
        }
    }
}

/// A file of the rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// The rack's description.
    Rack,
    /// The agents' keys.
    Keys,
    /// The tokens of the API.
    Tokens,
}

/// The content to write to a file, made from the correct content.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// The correct content.
    Right,
    /// The first per cent of it.
    Part(u8),
    /// The content before this text: a description that is cut off there is complete in itself.
    Before(&'static str),
    /// These bytes.
    Bytes(&'static [u8]),
    /// So many bytes of `#` on one line.
    Long(usize),
    /// The first text replaced by the second.
    Replaced(&'static str, &'static str),
    /// With this behind it.
    And(&'static str),
}

/// Frames to flood with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// SYNs to the service from random addresses of the attacker's network.
    Syn,
    /// The same over IPv6.
    Syn6,
    /// SYNs from addresses that no client can have: broadcast, multicast, loopback, the VIP, gateways, devices.
    SynBadSources,
    /// UDP requests to the service, each from another address and port.
    Udp,
    /// The same over IPv6.
    Udp6,
    /// Fragments of datagrams to the service whose rest never comes.
    Fragments,
    /// Random bytes behind an Ethernet header for the switch.
    Random,
    /// Packets to the service whose headers say other lengths than they have.
    Lengths,
    /// Segments of TCP connections that do not exist.
    NoConnection,
    /// ARP requests and replies with random addresses.
    Arp,
    /// Neighbour advertisements with random addresses.
    Nd,
    /// ARP replies: the attacker has the addresses of client, devices and gateways.
    ArpSpoof,
    /// The same for IPv6.
    NdSpoof,
    /// Answers from the attacker's port with the address of a device, to connections of the client.
    Answers,
    /// Answers from the attacker's port with the address of the VIP.
    AnswersAsVip,
    /// ICMP errors about connections of the client: unreachable, too big.
    Icmp,
    /// Reports with a random digest.
    ReportsForged,
    /// A report that the agent might have signed, over and over again.
    ReportsReplayed,
    /// Reports as agents sign them, with one bit turned over.
    ReportsDamaged,
    /// Reports cut off, too long, of unknown versions and devices.
    ReportsMalformed,
}

/// The repeated action of a hostile client of P4Runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum P4Runtime {
    /// Reads everything of every kind, without being primary.
    ReadAll,
    /// Holds a session with the highest possible election id.
    Seize,
    /// Becomes primary and sends the program again: RECONCILE_AND_COMMIT.
    Push,
    /// Sends 100 updates that are wrong.
    BadUpdates,
    /// Opens sessions with low election ids and leaves again.
    Sessions,
}

/// The repeated action of a hostile client of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// 64 connections that say nothing.
    Silent,
    /// 64 connections that send a request, a byte a second.
    Slow,
    /// Requests as fast as they are answered, on four connections.
    Busy,
    /// Requests that are none: random bytes, endless heads, large bodies.
    Malformed,
}

/// Whose server a client of HTTP bothers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The first controller's API.
    Api,
    /// The switch's metrics.
    Metrics,
    /// The switch's P4Runtime server.
    P4Runtime,
}

/// One step of an attack.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Sends a signal. A process that ends is started again after 0.2 s, as a supervisor would.
    Signal(Who, Signal),
    /// Sends SIGKILL; the process stays away until the attack ends.
    Remove(Who),
    /// Takes the link of a host down, and up again at the end.
    Cut(&'static str),
    /// Removes the interfaces of a host's link; new ones come at the end.
    Unplug(&'static str),
    /// Writes a file, in place.
    Write(File, Content),
    /// Removes a file; it is written again at the end.
    Unlink(File),
    /// Fills the disk that keeps the API's state, until the end.
    FillDisk,
    /// Asks the API for the policy `ecmp`.
    Policy,
    /// Sends frames from a host at this rate a second.
    Flood(&'static str, Frames, u32),
    /// One report of a device, properly signed, from a clock an hour ahead.
    ReportAhead(&'static str),
    /// Clients of P4Runtime.
    P4Runtime(P4Runtime, u8),
    /// Clients of HTTP.
    Http(Server, Http),
}

/// A condition to check after the attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The policy requested by API is in force.
    PolicyKept,
    /// The request is in the state file.
    StateSaved,
}
