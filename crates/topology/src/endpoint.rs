//! Addresses of servers as text: a host and a port.

use std::net::Ipv6Addr;

/// What to write where such an address is wrong.
pub const HOST_PORT: &str = "write host:port, 192.0.2.1:9559 or [2001:db8::1]:9559";

/// Whether a text is the name or the address of a host, and a port from 1 to 65535. An IPv6 address is in brackets, because it contains
/// colons itself (RFC 3986, section 3.2.2).
pub fn is_host_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(in_name),
    };
    // `parse` takes a sign.
    let is_port = port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0);
    is_host && is_port
}

#[cfg(test)]
mod tests {
    use super::is_host_port;

    #[test]
    fn hosts_and_ports() {
        for good in ["192.0.2.1:9559", "[2001:db8::1]:9559", "leaf-1.rack_2.example:1", "a:65535"] {
            assert!(is_host_port(good), "{good}");
        }
        for bad in [
            "192.0.2.1",
            ":9559",
            "a:",
            "a:0",
            "a:65536",
            "a:+1",
            "a:http",
            "2001:db8::1:9559",
            "[2001:db8::1]",
            "[2001:db8::1:9559",
            "[192.0.2.1]:9559",
            "http://127.0.0.1:9559",
            "a b:9559",
            " a:9559",
            "a:9559 ",
            "a/b:9559",
        ] {
            assert!(!is_host_port(bad), "{bad}");
        }
    }
}
