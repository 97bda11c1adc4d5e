//! Payloads of UDP datagrams that the applications understand: user packets in tunnels and their signalling, and requests for the key-value store.

use std::net::Ipv4Addr;

/// UDP port of user packets in tunnels (GTP-U).
pub const GTP_U: u16 = 2152;
/// UDP port of signalling (GTPv2-C).
pub const GTP_C: u16 = 2123;
/// UDP port of the key-value store.
pub const KEY_VALUE: u16 = 4793;

/// A user packet in this tunnel, without its content.
pub fn user_packet(tunnel: u32) -> Vec<u8> {
    [&[0x30, 255, 0, 0][..], &tunnel.to_be_bytes()].concat()
}

/// Signalling: this tunnel continues in another one at an address.
pub fn modify_bearer(tunnel: u32, next: u32, at: Ipv4Addr) -> Vec<u8> {
    let element = [&[87, 0, 9, 0, 0x80][..], &next.to_be_bytes(), &at.octets()].concat();
    [&[0x48, 34, 0, 21][..], &tunnel.to_be_bytes(), &[0; 4], &element].concat()
}

/// A request to read the value of a key, or to update it.
pub fn request(key: u64, update: Option<u64>) -> Vec<u8> {
    let operation = if update.is_some() { 2 } else { 1 };
    [&[operation, 0, 0, 0][..], &key.to_be_bytes(), &update.unwrap_or(0).to_be_bytes()].concat()
}
