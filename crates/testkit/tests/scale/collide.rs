//! Clients that share all four places of the table: a CRC is linear, so they are the solutions of linear equations over the bits of
//! an IPv6 client's address and port.

/// CRC-32 (IEEE 802.3), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// An IPv6 client.
pub type Client = (u128, u16);

/// The four places of a connection of `service` in a table of 2^`bits` places a way, one after the other.
fn places((client, port): Client, service: u16, bits: u32) -> u128 {
    let (client, port, service) = (client.to_be_bytes(), port.to_be_bytes(), service.to_be_bytes());
    let a = crc32(&[&client[..], &port, &service].concat());
    let b = crc32(&[&port[..], &service, &client].concat());
    let low = |hash: u32| u128::from(hash & ((1 << bits) - 1));
    let high = |hash: u32| u128::from(hash >> (32 - bits));
    [low(a), low(b), high(a), high(b)].into_iter().fold(0, |all, place| all << 32 | place)
}

/// The low 64 bits of the address, and the port, from a bit string.
fn client(bits: u128) -> Client {
    (0x2001_0db8_0000_0007_u128 << 64 | (bits >> 16 & u128::from(u64::MAX)), bits as u16)
}

/// `n` clients of `service` in one /64 that share all four places.
pub fn colliding(service: u16, bits: u32, n: usize) -> Vec<Client> {
    let base = 0x1234_u128 << 16 | 40_000;
    let at = |key| places(client(key), service, bits);
    // Each row: the effect of flipping these bits of the key on the places. Gauss.
    let mut rows: Vec<(u128, u128)> = (0..80).map(|i| (at(base ^ 1 << i) ^ at(base), 1u128 << i)).collect();
    for bit in 0..128 {
        let Some(i) = rows.iter().position(|(p, _)| p >> bit & 1 == 1) else { continue };
        let pivot = rows.swap_remove(i);
        rows.iter_mut().filter(|(p, _)| p >> bit & 1 == 1).for_each(|r| *r = (r.0 ^ pivot.0, r.1 ^ pivot.1));
    }
    assert!(rows.iter().all(|(p, _)| *p == 0) && n <= 1 << rows.len());
    let of = |i: usize| {
        let flips = rows.iter().enumerate().filter(|(j, _)| i >> j & 1 == 1);
        flips.fold(base, |k, (_, (_, flip))| k ^ flip)
    };
    let keys: Vec<u128> = (0..n).map(of).collect();
    assert!(keys.iter().all(|k| at(*k) == at(base)));
    keys.into_iter().map(client).collect()
}

#[test]
fn check_value_of_the_crc() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}
