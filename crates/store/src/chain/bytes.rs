//! Fields of messages between store nodes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Fields that were not read yet. A read beyond the end gives `None`.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes behind their number.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }
}

/// Appends bytes behind their number.
pub(super) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The address of a switch, as bytes in messages between store nodes.
pub trait Address: Copy + Eq {
    /// Appends the address.
    fn put(&self, out: &mut Vec<u8>);

    /// Takes an address from the front of the bytes.
    fn take(bytes: &mut &[u8]) -> Option<Self>;
}

impl Address for SocketAddr {
    fn put(&self, out: &mut Vec<u8>) {
        let (ip, scope) = match self {
            SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
            SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
        };
        out.push(if self.is_ipv4() { 4 } else { 6 });
        out.extend(ip.octets());
        out.extend(scope.to_be_bytes());
        out.extend(self.port().to_be_bytes());
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (version, ip) = (reader.u8()?, Ipv6Addr::from(reader.array::<16>()?));
        let (scope, port) = (reader.u32()?, u16::from_be_bytes(reader.array()?));
        *bytes = reader.0;
        match version {
            4 => {
                let ip: Ipv4Addr = ip.to_ipv4_mapped()?;
                Some(SocketAddr::new(IpAddr::V4(ip), port))
            }
            6 => Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope))),
            _ => None,
        }
    }
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Address for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_be_bytes());
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let (taken, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_be_bytes(*taken))
            }
        }
    )*};
}

number!(u8, u16, usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_back() {
        for text in ["10.9.1.2:4791", "[2001:db8::1]:7", "[::ffff:10.0.0.1]:9", "[fe80::1%3]:1"] {
            let address: SocketAddr = text.parse().expect("an address");
            let mut bytes = Vec::new();
            address.put(&mut bytes);
            bytes.push(77);
            let mut rest = &bytes[..];
            assert_eq!((SocketAddr::take(&mut rest), rest), (Some(address), &[77][..]));
            for n in 0..bytes.len() - 1 {
                assert_eq!(SocketAddr::take(&mut &bytes[..n]), None);
            }
        }
        assert_eq!(SocketAddr::take(&mut &[5; 23][..]), None);
    }
}
