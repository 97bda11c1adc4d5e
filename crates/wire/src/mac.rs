//! Ethernet addresses.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An Ethernet address: `02:00:0a:00:0b:02`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// The locally administered address 02:00 with the four bytes of an IPv4 address: unique wherever that one is.
    pub fn from_ipv4(address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        Mac([0x02, 0, a, b, c, d])
    }

    /// Whether it is a multicast or broadcast address.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The 48 bits as a number.
    pub fn to_u64(self) -> u64 {
        self.0.iter().fold(0, |n, b| n << 8 | u64::from(*b))
    }

    /// The address with these 48 bits; higher ones are ignored.
    pub fn from_u64(bits: u64) -> Self {
        let b = bits.to_be_bytes();
        Mac([b[2], b[3], b[4], b[5], b[6], b[7]])
    }
}

/// A text that is not a MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacError(pub String);

impl fmt::Display for MacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a MAC address: write six hexadecimal bytes, 02:00:00:00:00:01", self.0)
    }
}

impl std::error::Error for MacError {}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(s: &str) -> Result<Self, MacError> {
        let wrong = || MacError(s.to_string());
        let mut bytes = [0; 6];
        let mut parts = s.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(wrong)?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Mac(bytes)) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs() {
        let mac: Mac = "02:50:4d:00:00:0a".parse().expect("valid");
        assert_eq!(mac.to_string(), "02:50:4d:00:00:0a");
        assert_eq!(Mac::from_u64(mac.to_u64()), mac);
        assert!(!mac.is_group() && Mac::BROADCAST.is_group());
        assert_eq!(Mac::from_ipv4(Ipv4Addr::new(10, 0, 11, 2)).to_string(), "02:00:0a:00:0b:02");
        for bad in [
            "",
            "02:50:4d:00:00",
            "02:50:4d:00:00:0a:0b",
            "2:50:4d:00:00:0a",
            "02-50-4d-00-00-0a",
            "+2:50:4d:00:00:0a",
        ] {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
    }
}
