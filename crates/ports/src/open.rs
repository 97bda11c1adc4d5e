//! Choosing how to use an interface.

use crate::{AfPacket, AfPacketConfig, AfXdp, AfXdpConfig, Port, PortError, Tap, XdpMode, af_packet, sys};

/// Which kind of port is wanted for an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Want {
    /// AF_XDP in the driver where that works and does no harm, else AF_PACKET.
    #[default]
    Auto,
    /// AF_XDP, in the network stack if need be, or an error.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

/// Opens an interface of the current network namespace, and says in one line how, for the log: kind, mode, and why it
/// was not something faster.
///
/// [`Want::Auto`] leaves AF_XDP alone where it would cut the machine off: an interface with an IPv4 address is one that
/// the kernel itself uses, and AF_XDP would take all that arrives away from it.
///
/// `tap:NAME` stands for a [`Tap`], whatever is wanted.
///
/// # Errors
/// [`PortError`] naming the interface and the remedy.
pub fn open_interface(name: &str, want: Want) -> Result<(Box<dyn Port>, String), PortError> {
    if let Some(name) = name.strip_prefix("tap:") {
        return Ok((Box::new(Tap::open(name)?), "tap".into()));
    }
    let packet = |why: &str| -> Result<(Box<dyn Port>, String), PortError> {
        let port = AfPacket::open(name, AfPacketConfig::default())?;
        Ok((Box::new(port), format!("AF_PACKET{why}")))
    };
    let mode = match want {
        Want::AfPacket => return packet(""),
        Want::AfXdp => XdpMode::Any,
        Want::Auto => XdpMode::Native,
    };
    if want == Want::Auto {
        let (socket, _) = af_packet::find(name)?;
        if sys::has_ipv4_address(&socket, name) {
            return packet(" (no AF_XDP: the interface has an IPv4 address, which AF_XDP would cut off)");
        }
    }
    match AfXdp::open(name, AfXdpConfig { mode, ..Default::default() }) {
        Ok(port) => {
            let description = port.description();
            Ok((Box::new(port), description))
        }
        Err(PortError::NoAfXdp { why, .. }) if want == Want::Auto => packet(&format!(" (no AF_XDP: {why})")),
        Err(error) => Err(error),
    }
}
