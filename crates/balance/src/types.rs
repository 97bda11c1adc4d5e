//! Small types used throughout this crate.

pub use pointsman_wire::Mac;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Devices that one server can have: one for each bit of a bitmap ([`crate::program::ServerDevices`]).
pub const MAX_DEVICES: usize = 16;
/// Largest server number: `server_t` of the data plane has 13 bits.
pub const MAX_SERVER: u16 = 8191;
/// Largest port of the switch: ports have 9 bits and 511 drops.
pub const MAX_PORT: u16 = 510;
/// Where the data plane sends packets that it consumes, such as reports (`CONSUME_PORT` in `headers.p4`): no interface can have this number.
pub const CONSUME_PORT: u16 = 509;
/// UDP port of a local address of the switch that takes load reports.
pub const REPORT_PORT: u16 = 9876;

/// The bits of an address as a number.
pub fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// An address as a number: compared in one step, where an [`IpAddr`] is compared byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Of IPv6, not of IPv4.
    pub v6: bool,
    /// Its bits, the last one in the lowest place.
    pub bits: u128,
}

impl From<IpAddr> for Address {
    #[inline]
    fn from(ip: IpAddr) -> Self {
        Address { v6: ip.is_ipv6(), bits: address_bits(ip) }
    }
}

impl From<Address> for IpAddr {
    #[inline]
    fn from(address: Address) -> Self {
        address_from_bits(address.v6, address.bits)
    }
}

/// The IPv4 (`v6` false) or IPv6 address with these bits.
pub fn address_from_bits(v6: bool, bits: u128) -> IpAddr {
    if v6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() }
}

/// A name in a file or a request that means nothing there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// What it is, such as `unknown policy`.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// Those that exist.
    pub known: String,
}

impl UnknownName {
    /// This is not the name of anything.
    pub(crate) fn new(what: &'static str, name: &str, known: impl Into<String>) -> Self {
        UnknownName { what, name: name.to_string(), known: known.into() }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`: write {}", self.what, self.name, self.known)
    }
}

impl std::error::Error for UnknownName {}

/// Why something is not a prefix of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrefixError {
    /// This text has another form.
    Form(String),
    /// It is longer than its address.
    Length {
        /// Its length in bits.
        len: u8,
        /// The address's.
        width: u8,
    },
    /// Bits of this address beyond this length are set.
    Beyond(IpAddr, u8),
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrefixError::Form(text) => {
                write!(f, "`{text}` is not a prefix: write 10.0.0.0/24 or 2001:db8::/64")
            }
            PrefixError::Length { len, width } => {
                write!(f, "a prefix of {len} bits, but the address has {width}")
            }
            PrefixError::Beyond(address, len) => {
                let right = Prefix::containing(*address, *len);
                write!(f, "{address}/{len} has bits set beyond its length: write {right}")
            }
        }
    }
}

impl std::error::Error for PrefixError {}

/// An address prefix; bits beyond its length are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// Whether its addresses are those of IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// The prefix of `len` bits.
    ///
    /// # Errors
    /// The length exceeds the address's, or bits beyond it are set.
    pub fn new(address: IpAddr, len: u8) -> Result<Self, PrefixError> {
        let width: u8 = if address.is_ipv4() { 32 } else { 128 };
        if len > width {
            return Err(PrefixError::Length { len, width });
        }
        let p = Prefix::containing(address, len);
        if p.address != address {
            return Err(PrefixError::Beyond(address, len));
        }
        Ok(p)
    }

    /// The prefix of `len` bits that contains the address: all of it if `len` exceeds its length.
    pub fn containing(address: IpAddr, len: u8) -> Self {
        let len = len.min(if address.is_ipv4() { 32 } else { 128 });
        let p = Prefix { address, len };
        Prefix { address: address_from_bits(address.is_ipv6(), address_bits(address) & p.mask()), len }
    }

    fn mask(&self) -> u128 {
        let width = if self.address.is_ipv4() { 32 } else { 128u32 };
        let host = width - u32::from(self.len);
        if host == 128 { 0 } else { u128::MAX << host }
    }

    /// The first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits count.
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Whether no bit counts: the default route.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the address begins with this prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && address_bits(address) & self.mask() == address_bits(self.address)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(s: &str) -> Result<Self, PrefixError> {
        let wrong = || PrefixError::Form(s.to_string());
        let (address, len) = s.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        Prefix::new(address, len.parse().map_err(|_| wrong())?)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// A transport protocol that is balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Its number in IP headers.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        }
    }

    /// The protocol with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        [Protocol::Tcp, Protocol::Udp].into_iter().find(|p| p.number() == number)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        })
    }
}

impl FromStr for Protocol {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        match s {
            "tcp" => Ok(Protocol::Tcp),
            "udp" => Ok(Protocol::Udp),
            _ => Err(UnknownName::new("unsupported protocol", s, "\"tcp\" or \"udp\"")),
        }
    }
}

/// A device as the data plane names it: server number and slot there (`device_t`). In order of servers, then slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    server: u16,
    slot: u8,
}

impl DeviceNumber {
    /// The device in this slot of this server. Bits beyond 13 and 4 are ignored.
    pub const fn new(server: u16, slot: u8) -> Self {
        DeviceNumber { server: server & MAX_SERVER, slot: slot & 15 }
    }

    /// From the 17 bits of `device_t`; if servers have at most eight devices, the highest is 0.
    pub const fn from_bits(bits: u32) -> Self {
        Self::from_parts(bits as u16, bits >> 16 & 1 == 1)
    }

    /// The 17 bits of `device_t`: the highest bit of the slot, the server, the other bits of the slot.
    pub const fn bits(self) -> u32 {
        let (low, high) = self.parts();
        low as u32 | (high as u32) << 16
    }

    /// The low 16 bits of `device_t`, and the highest: where a format has them in two places.
    pub const fn parts(self) -> (u16, bool) {
        (self.server << 3 | (self.slot & 7) as u16, self.slot > 7)
    }

    /// From the low 16 bits of `device_t`, and the highest.
    pub const fn from_parts(low: u16, high: bool) -> Self {
        Self::new(low >> 3, (low & 7) as u8 | (high as u8) << 3)
    }

    /// The server.
    pub const fn server(self) -> u16 {
        self.server
    }

    /// The place among the server's devices, 0 to 15.
    pub const fn slot(self) -> u8 {
        self.slot
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server(), self.slot())
    }
}

/// How connections are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Accelerators stay idle: only devices of kind `cpu` serve.
    ServerOnly,
    /// Every device gets the same share, by hash.
    Ecmp,
    /// Devices get shares by weight, connection by connection.
    Wrr,
    /// The first device by priority that reports to be available (P4Mite).
    P4mite,
    /// Least utilised resource: the device that reports the smallest load.
    LeastUtilised,
    /// Round robin with weights that shrink as load grows: weight x (100 % - load).
    DynamicWrr,
    /// The first device by priority whose load is below its threshold, with hysteresis.
    Prt,
    /// The device with the fewest connections or requests in flight, as the switch counts them.
    LeastConnections,
    /// The same, relative to the devices' weights.
    WeightedLeastConnections,
    /// Join the shortest queue: the device with the fewest requests in flight.
    Jsq,
    /// Join an idle device, or any if none is idle.
    Jiq,
    /// The better one of two devices by chance.
    PowerOfTwo,
    /// Round robin by the weights that probes give.
    ProbeWrr,
    /// The device that the controller names.
    Chosen,
    /// The first by priority until waiting there takes half as long as a service by the next one.
    Spillover,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 15] = [
        Policy::ServerOnly,
        Policy::Ecmp,
        Policy::Wrr,
        Policy::P4mite,
        Policy::LeastUtilised,
        Policy::DynamicWrr,
        Policy::Prt,
        Policy::LeastConnections,
        Policy::WeightedLeastConnections,
        Policy::Jsq,
        Policy::Jiq,
        Policy::PowerOfTwo,
        Policy::ProbeWrr,
        Policy::Chosen,
        Policy::Spillover,
    ];

    /// Those that `pointsman demo` compares.
    pub const COMPARED: [Policy; 4] = [Policy::ServerOnly, Policy::Ecmp, Policy::Wrr, Policy::P4mite];

    /// Its name in configuration files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Policy::ServerOnly => "server-only",
            Policy::Ecmp => "ecmp",
            Policy::Wrr => "wrr",
            Policy::P4mite => "p4mite",
            Policy::LeastUtilised => "least-utilised",
            Policy::DynamicWrr => "dynamic-wrr",
            Policy::Prt => "prt",
            Policy::LeastConnections => "least-connections",
            Policy::WeightedLeastConnections => "weighted-least-connections",
            Policy::Jsq => "jsq",
            Policy::Jiq => "jiq",
            Policy::PowerOfTwo => "power-of-two",
            Policy::ProbeWrr => "probe-wrr",
            Policy::Chosen => "chosen",
            Policy::Spillover => "spillover",
        }
    }

    /// All names, for messages: `"server-only", "ecmp" or "wrr"`.
    pub fn names() -> String {
        let names: Vec<String> = Policy::ALL.iter().map(|p| format!("\"{}\"", p.name())).collect();
        match names.split_last() {
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let found = Policy::ALL.into_iter().find(|p| p.name() == s);
        found.ok_or_else(|| UnknownName::new("unknown policy", s, Policy::names()))
    }
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// The host's own processor.
    Cpu,
    /// A network card that computes.
    SmartNic,
    /// A graphics processor.
    Gpu,
    /// Programmable logic.
    Fpga,
    /// Anything else.
    Other,
}

impl DeviceKind {
    /// All kinds.
    pub const ALL: [DeviceKind; 5] =
        [DeviceKind::Cpu, DeviceKind::SmartNic, DeviceKind::Gpu, DeviceKind::Fpga, DeviceKind::Other];

    /// Its name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::SmartNic => "smartnic",
            DeviceKind::Gpu => "gpu",
            DeviceKind::Fpga => "fpga",
            DeviceKind::Other => "other",
        }
    }
}

impl FromStr for DeviceKind {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let known = "\"cpu\", \"smartnic\", \"gpu\", \"fpga\" or \"other\"";
        let found = DeviceKind::ALL.into_iter().find(|k| k.name() == s);
        found.ok_or_else(|| UnknownName::new("unknown device kind", s, known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let p: Prefix = "10.1.0.0/16".parse().expect("valid");
        let at = |s: &str| s.parse::<IpAddr>().expect("an address");
        assert!(p.contains(at("10.1.255.1")) && !p.contains(at("10.2.0.1")) && !p.contains(at("::1")));
        let all: Prefix = "::/0".parse().expect("valid");
        assert!(all.contains(at("2001:db8::1")) && !all.contains(at("1.2.3.4")) && all.is_empty());
        assert!("10.1.0.1/16".parse::<Prefix>().expect_err("host bits").to_string().contains("10.1.0.0/16"));
        for bad in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129", "10.0.0.0/-1"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn devices() {
        let d = DeviceNumber::new(8191, 7);
        assert_eq!((d.bits(), d.server(), d.slot()), (0xffff, 8191, 7));
        assert_eq!(DeviceNumber::from_bits(17), DeviceNumber::new(2, 1));
        let d = DeviceNumber::new(2, 9);
        assert_eq!((d.bits(), d.parts()), (0x1_0011, (17, true)));
        assert_eq!(DeviceNumber::from_bits(d.bits()), d);
        assert!(DeviceNumber::new(2, 7) < d && d < DeviceNumber::new(3, 0));
    }
}
