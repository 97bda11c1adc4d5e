//! Choosing how to use an interface.

use crate::shaping::shaping;
use crate::{AfPacket, AfPacketConfig, AfXdp, AfXdpConfig, Port, PortError, Tap, XdpMode, af_packet, sys};

/// Which kind of port is wanted for an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Want {
    /// AF_XDP in the driver if that works and does no harm, else AF_PACKET.
    #[default]
    Auto,
    /// AF_XDP, in the network stack if need be, or an error.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

impl Want {
    /// As in reports.
    pub fn name(self) -> &'static str {
        match self {
            Want::Auto => "auto",
            Want::AfXdp => "af_xdp",
            Want::AfPacket => "af_packet",
        }
    }
}

/// Opens an interface of the current network namespace, and says in one line how, for the log: kind, mode, and why it
/// was not something faster.
///
/// [`Want::Auto`] does not use AF_XDP if it would disconnect the machine: an interface with an IPv4 address, or an IPv6
/// address that is not link-local, is in use by the kernel itself, and AF_XDP would take away all incoming frames.
///
/// The same holds if traffic control shapes, drops or marks outgoing frames: AF_XDP bypasses it. If AF_XDP is requested
/// all the same, the log line mentions this.
///
/// `tap:NAME` is always a [`Tap`].
///
/// # Errors
/// [`PortError`] naming the interface and the remedy.
pub fn open_interface(name: &str, want: Want) -> Result<(Box<dyn Port>, String), PortError> {
    let (mut ports, description) = open(name, want, None)?;
    match ports.pop() {
        Some(port) => Ok((port, description)),
        None => Err(PortError::NoSuchInterface { interface: name.into() }),
    }
}

/// Opens an interface as several ports, one for each of as many threads, that share its traffic flow by flow: queues of the
/// interface with AF_XDP, a group of sockets with AF_PACKET, which [`Want::Auto`] takes where an interface has fewer queues,
/// such as veth with its one. There are fewer ports than asked for where AF_XDP is wanted of such an interface, and where it
/// is a tap.
///
/// # Errors
/// As for [`open_interface`].
pub fn open_interface_shared(
    name: &str,
    want: Want,
    ports: usize,
) -> Result<(Vec<Box<dyn Port>>, String), PortError> {
    open(name, want, Some(ports.max(1)))
}

/// Bytes of the longest packet of an interface, without the Ethernet header.
///
/// # Errors
/// The interface does not exist, or cannot be looked up.
pub fn mtu(interface: &str) -> Result<usize, PortError> {
    Ok(af_packet::find(interface)?.1.mtu as usize)
}

/// The opened ports, and a description for the log.
type Opened = (Vec<Box<dyn Port>>, String);

fn boxed<P: Port + 'static>(ports: Vec<P>) -> Vec<Box<dyn Port>> {
    ports.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect()
}

/// `ports`: how many shall share the interface.
fn open(name: &str, want: Want, ports: Option<usize>) -> Result<Opened, PortError> {
    if let Some(name) = name.strip_prefix("tap:") {
        return Ok((vec![Box::new(Tap::open(name)?)], "tap".into()));
    }
    let packet = |why: &str| -> Result<Opened, PortError> {
        let config = AfPacketConfig::default();
        let opened = match ports {
            Some(ports) if ports > 1 => AfPacket::open_group(name, config, ports)?,
            _ => vec![AfPacket::open(name, config)?],
        };
        let group = if opened.len() > 1 { format!(", {} sockets", opened.len()) } else { String::new() };
        Ok((boxed(opened), format!("AF_PACKET{group}{why}")))
    };
    let mode = match want {
        Want::AfPacket => return packet(""),
        Want::AfXdp => XdpMode::Any,
        Want::Auto => XdpMode::Native,
    };
    let (socket, found) = af_packet::find(name)?;
    // Whoever may not ask has shaped nothing.
    let shaping = shaping(found.index).ok().flatten();
    if want == Want::Auto {
        if sys::has_ip_address(&socket, name) {
            return packet(" (no AF_XDP: the interface has an IP address, which AF_XDP would cut off)");
        }
        if let Some(what) = &shaping {
            return packet(&format!(" (no AF_XDP: it would send past {what})"));
        }
    }
    if let (Want::Auto, Some(ports)) = (want, ports) {
        let queues = AfXdp::queues(name)? as usize;
        if queues < ports {
            return packet(&format!(" (no AF_XDP: {queues} receive queues for {ports} threads)"));
        }
    }
    let config = AfXdpConfig { mode, ..Default::default() };
    let opened = match ports {
        Some(ports) => AfXdp::open_queues(name, config, ports),
        None => AfXdp::open(name, config).map(|port| vec![port]),
    };
    match opened {
        Ok(opened) => {
            let how = opened.first().map(AfXdp::description).unwrap_or_default();
            let shared = match opened.len() {
                1 => String::new(),
                count => format!(", {count} ports"),
            };
            let past = shaping.map(|what| format!("; warning: frames are sent past {what}"));
            Ok((boxed(opened), how + &shared + &past.unwrap_or_default()))
        }
        Err(PortError::NoAfXdp { why, .. }) if want == Want::Auto => packet(&format!(" (no AF_XDP: {why})")),
        Err(error) => Err(error),
    }
}
