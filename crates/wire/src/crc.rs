//! Cyclic redundancy checks that take and give bits least significant first: CRC-32 (ISO-HDLC), CRC-16 (ARC) and CRC-32C.

/// Bytes that are taken at a time.
const SLICES: usize = 16;

/// `TABLES[n][b]`: the effect of a byte `b` on the register when `n` bytes follow it.
type Tables = [[u32; 256]; SLICES];

/// The tables of a generator polynomial, least significant bit first.
const fn tables(polynomial: u32) -> Tables {
    let mut all = [[0; 256]; SLICES];
    let mut b = 0;
    while b < 256 {
        let (mut r, mut bit) = (b as u32, 0);
        while bit < 8 {
            r = if r & 1 != 0 { (r >> 1) ^ polynomial } else { r >> 1 };
            bit += 1;
        }
        all[0][b] = r;
        b += 1;
    }
    let mut n = 1;
    while n < SLICES {
        b = 0;
        while b < 256 {
            let r = all[n - 1][b];
            all[n][b] = (r >> 8) ^ all[0][(r & 0xff) as usize];
            b += 1;
        }
        n += 1;
    }
    all
}

/// Of CRC-32, most significant bit first, without the highest term.
const POLYNOMIAL: u32 = 0x04c1_1db7;

static CRC32: Tables = tables(POLYNOMIAL.reverse_bits());
static CRC16: Tables = tables((0x8005u16.reverse_bits()) as u32);
static CRC32C: Tables = tables(0x1edc_6f41u32.reverse_bits());

/// Sixteen bytes at a time, then four: the CRC is linear, so what each byte contributes is looked up by itself and added.
fn sliced(tables: &Tables, mut register: u32, data: &[u8]) -> u32 {
    // The contributions of four bytes with `behind` bytes behind them.
    let word = |bytes: u32, behind: usize| {
        let [a, b, c, d] = bytes.to_le_bytes().map(usize::from);
        (tables[behind + 3][a] ^ tables[behind + 2][b]) ^ (tables[behind + 1][c] ^ tables[behind][d])
    };
    let (blocks, rest) = data.as_chunks::<SLICES>();
    for block in blocks {
        let n = u128::from_le_bytes(*block);
        let [a, b, c, d] = [n as u32 ^ register, (n >> 32) as u32, (n >> 64) as u32, (n >> 96) as u32];
        register = (word(a, 12) ^ word(b, 8)) ^ (word(c, 4) ^ word(d, 0));
    }
    let (words, rest) = rest.as_chunks::<4>();
    for bytes in words {
        register = word(u32::from_le_bytes(*bytes) ^ register, 0);
    }
    rest.iter().fold(register, |r, byte| (r >> 8) ^ tables[0][usize::from(r as u8 ^ byte)])
}

/// The CRC-32 of Ethernet (ISO-HDLC).
pub fn crc32(data: &[u8]) -> u32 {
    crc32_after(0, data)
}

/// The CRC-32 of data whose first part has the CRC-32 `first`, and is followed by `data`.
pub fn crc32_after(first: u32, data: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if data.len() >= carryless::LONG && carryless::is_available() {
        return !carryless::long(!first, data);
    }
    !sliced(&CRC32, !first, data)
}

/// The fastest CRC-32 for data of `len` bytes on this processor; right for data of any length.
pub fn crc32_of(len: usize) -> fn(&[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if carryless::is_available()
        && let Some(short) = carryless::crc32_of(len)
    {
        return short;
    }
    let _ = len;
    |data| crc32(data).into()
}

/// The CRC-16/ARC.
pub fn crc16(data: &[u8]) -> u16 {
    sliced(&CRC16, 0, data) as u16
}

/// The CRC-32C of SCTP (RFC 9260, appendix A) over the parts in turn.
pub fn crc32c<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    !parts.into_iter().fold(u32::MAX, |register, part| sliced(&CRC32C, register, part))
}

/// CRC-32 by multiplication of polynomials (Gopal and others: Fast CRC computation for generic polynomials using PCLMULQDQ,
/// 2009). The whole message is one polynomial: zeros in front of it change nothing.
#[cfg(target_arch = "x86_64")]
mod carryless {
    use super::{CRC32, POLYNOMIAL, sliced};
    use std::arch::x86_64::*;

    /// From so many bytes on, [`long`] is worthwhile.
    pub const LONG: usize = 64;

    /// Whether this processor has the instructions.
    pub fn is_available() -> bool {
        is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.1")
    }

    macro_rules! sizes {
        ($($n:literal)*) => {
            /// For data of `len` bytes, where it is worthwhile.
            pub fn crc32_of(len: usize) -> Option<fn(&[u8]) -> u64> {
                match len {
                    $($n => Some(crc32::<$n>),)*
                    _ => None,
                }
            }
        };
    }
    sizes!(4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40);

    #[allow(unsafe_code)]
    fn crc32<const N: usize>(data: &[u8]) -> u64 {
        match data.first_chunk() {
            // SAFETY: only given out where the processor has these instructions.
            Some(whole) if N == data.len() => unsafe { multiplied::<N>(whole) },
            _ => super::crc32(data).into(),
        }
    }

    /// The register after data of any length.
    ///
    /// # Panics
    /// The processor lacks the instructions.
    #[allow(unsafe_code)]
    pub fn long(register: u32, data: &[u8]) -> u32 {
        assert!(is_available(), "callers ask");
        // SAFETY: the processor has these instructions.
        let (register, rest) = unsafe { folded(register, data) };
        sliced(&CRC32, register, rest)
    }

    /// Up to eight bytes, the first one lowest.
    #[inline(always)]
    fn few(data: &[u8]) -> u64 {
        let (four, rest) =
            data.split_first_chunk().map_or((0, data), |(a, rest)| (u32::from_le_bytes(*a), rest));
        let (two, rest) =
            rest.split_first_chunk().map_or((0, rest), |(a, rest)| (u16::from_le_bytes(*a), rest));
        let one = rest.first().copied().unwrap_or(0);
        let low = u64::from(four);
        let at = 8 * (data.len() as u32 & 4);
        low | u64::from(two) << at | u64::from(one).checked_shl(at + 8 * (data.len() as u32 & 2)).unwrap_or(0)
    }

    /// Up to sixteen bytes in a row, the first one lowest: read as words, as they were probably written.
    #[inline(always)]
    fn bytes(data: &[u8]) -> u128 {
        match data.split_first_chunk() {
            Some((low, rest)) => {
                let high = rest.first_chunk().map_or_else(|| few(rest), |b| u64::from_le_bytes(*b));
                u128::from(u64::from_le_bytes(*low)) | u128::from(high) << 64
            }
            None => u128::from(few(data)),
        }
    }

    #[target_feature(enable = "sse4.1")]
    fn vector(n: u128) -> __m128i {
        _mm_set_epi64x((n >> 64) as i64, n as i64)
    }

    /// x to a power modulo the polynomial, bits mirrored in 33 of them.
    const fn power(mut n: u32) -> i64 {
        let mut r: u32 = 1;
        while n > 0 {
            r = (r << 1) ^ if r >> 31 != 0 { POLYNOMIAL } else { 0 };
            n -= 1;
        }
        (r.reverse_bits() as i64) << 1
    }

    /// What moves a block of 128 bits by some bits towards the end: factors of its upper and its lower half.
    const fn distance(bits: u32) -> (i64, i64) {
        (power(bits - 32), power(bits + 32))
    }

    const NEXT: (i64, i64) = distance(128);
    const FOURTH: (i64, i64) = distance(512);

    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn moved(sum: __m128i, (upper, lower): (i64, i64)) -> __m128i {
        let by = _mm_set_epi64x(upper, lower);
        _mm_xor_si128(_mm_clmulepi64_si128::<0x00>(sum, by), _mm_clmulepi64_si128::<0x11>(sum, by))
    }

    /// The register after whole blocks of sixteen bytes, if there are four of them, and the rest of the data.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn folded(register: u32, data: &[u8]) -> (u32, &[u8]) {
        let (blocks, rest) = data.as_chunks::<16>();
        let (fours, ones) = blocks.as_chunks::<4>();
        let Some((first, fours)) = fours.split_first() else { return (register, data) };
        let mut sums = [vector(0); 4];
        for (sum, block) in sums.iter_mut().zip(first) {
            *sum = vector(u128::from_le_bytes(*block));
        }
        sums[0] = _mm_xor_si128(sums[0], vector(register.into()));
        // Four sums, which do not wait for each other.
        for four in fours {
            for (sum, block) in sums.iter_mut().zip(four) {
                *sum = _mm_xor_si128(moved(*sum, FOURTH), vector(u128::from_le_bytes(*block)));
            }
        }
        let [mut sum, rest_of_sums @ ..] = sums;
        for next in rest_of_sums {
            sum = _mm_xor_si128(moved(sum, NEXT), next);
        }
        for block in ones {
            sum = _mm_xor_si128(moved(sum, NEXT), vector(u128::from_le_bytes(*block)));
        }
        (reduced(sum), rest)
    }

    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn multiplied<const N: usize>(data: &[u8; N]) -> u64 {
        // Zeros in front fill up the first block: every block of the message is put together of two of the data.
        let gap = 8 * ((16 - data.len() % 16) % 16) as u32;
        let (ones, mut before) = (u128::from(u32::MAX), 0);
        let mut sum = vector(0);
        let blocks = data.len().div_ceil(16);
        for n in 0..blocks {
            let mut block = bytes(&data[16 * n..]);
            if n == 0 {
                // The initial value of the register is added to the first four bytes.
                block ^= ones;
            }
            let next = if gap == 0 { block } else { before | block << gap };
            before = block.checked_shr(128 - gap).unwrap_or(0);
            sum = _mm_xor_si128(moved(sum, NEXT), vector(next));
        }
        u64::from(!reduced(sum))
    }

    /// The register at the end of a block.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn reduced(sum: __m128i) -> u32 {
        let mask = _mm_set_epi32(0, 0, 0, -1);
        let by = _mm_set_epi64x(NEXT.0, NEXT.1);
        let sum = _mm_xor_si128(_mm_clmulepi64_si128::<0x10>(sum, by), _mm_srli_si128::<8>(sum));
        let last = _mm_set_epi64x(0, const { power(64) });
        let low = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(sum, mask), last);
        let sum = _mm_xor_si128(low, _mm_srli_si128::<4>(sum));
        // The polynomial, and its inverse: division by multiplication (Barrett).
        let barrett = _mm_set_epi64x(0x1_f701_1641, 0x1_db71_0641);
        let times = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(sum, mask), barrett);
        let times = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(times, mask), barrett);
        _mm_extract_epi32::<1>(_mm_xor_si128(sum, times)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// Bit by bit.
    fn slow(polynomial: u32, start: u32, data: &[u8]) -> u32 {
        data.iter().fold(start, |register, byte| {
            (0..8)
                .fold(register ^ u32::from(*byte), |r, _| (r >> 1) ^ if r & 1 != 0 { polynomial } else { 0 })
        })
    }

    #[test]
    fn check_values() {
        let data = b"123456789";
        assert_eq!((crc32(data), crc16(data)), (0xcbf4_3926, 0xbb3d));
        assert_eq!(crc32c([&data[..5], &data[5..]]), 0xe306_9283);
    }

    #[test]
    fn every_length_is_as_bit_by_bit() {
        let mut random = Random::new(7);
        let data: Vec<u8> = (0..2000).map(|_| random.next_u64() as u8).collect();
        for len in 0..data.len() {
            // Another alignment each time.
            let data = &data[len % 17..][..len.min(2000 - len % 17)];
            let crc = !slow(POLYNOMIAL.reverse_bits(), u32::MAX, data);
            assert_eq!(crc32(data), crc, "{len} bytes");
            assert_eq!(crc32_of(data.len())(data), crc.into(), "{len} bytes");
            assert_eq!(crc32_of(len + 1)(data), crc.into(), "{len} bytes by the function for one more");
            assert_eq!(!sliced(&CRC32, u32::MAX, data), crc, "{len} bytes without multiplication");
            let (first, second) = data.split_at(len / 3 % 70 % (data.len() + 1));
            assert_eq!(crc32_after(crc32(first), second), crc, "{len} bytes in two parts");
            assert_eq!(u32::from(crc16(data)), slow(0xa001, 0, data), "{len} bytes");
        }
    }
}
