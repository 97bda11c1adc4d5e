//! Sequence numbers of 64 bits: the lower half is on the wire, so comparisons are those of ordinary numbers.

/// The number of a connection's SYN. It is so high that numbers 2^31 below it exist.
pub(crate) fn start(isn: u32) -> u64 {
    1 << 32 | u64::from(isn)
}

/// The number closest to `near` with these lower 32 bits. `near` is at least that of a SYN.
#[inline]
pub(crate) fn expand(near: u64, wire: u32) -> u64 {
    near.wrapping_add_signed(i64::from(wire.wrapping_sub(near as u32) as i32))
}

/// Whether a timestamp is older than another (RFC 7323, section 5.2).
#[inline]
pub(crate) fn older(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_wire_wrap() {
        let near = start(0xffff_fff0);
        assert_eq!(expand(near, 0xffff_fff0), near);
        assert_eq!(expand(near, 0x10), near + 0x20);
        assert_eq!(expand(near + 0x20, 0xffff_fff0), near);
        assert_eq!(expand(near, 0x7fff_ffef), near + 0x7fff_ffff);
        assert_eq!(expand(start(0), 0x8000_0000), start(0) - 0x8000_0000);
        for k in 0..10u64 {
            let at = near + k * 0x3fff_ffff;
            assert_eq!(expand(at, at.wrapping_add(77) as u32), at + 77);
            assert_eq!(expand(at, at.wrapping_sub(77) as u32), at - 77);
        }
        assert!(older(0xffff_ffff, 3) && !older(3, 0xffff_ffff) && !older(3, 3));
    }
}
