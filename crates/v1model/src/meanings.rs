//! The meaning of v1model's externs, for executors that implement some of them instead of calling the architecture.
//!
//! All meanings here must match `env.rs`.

use crate::externs::Function;
use crate::fields::StdFields;
use crate::hash::{HashAlgorithm, identity, xor16};
use crate::pipeline::Pipeline;
use pointsman_ir::{Digest, Known, Meaning};

/// The steps that executors may do by themselves when packets for `drop_port` are dropped.
pub(crate) fn known(pipeline: &Pipeline, drop_port: u32) -> Known {
    Known {
        meanings: pipeline.functions.iter().map(|f| meaning(*f, &pipeline.std, drop_port)).collect(),
        digests: pipeline.algorithms.iter().map(|a| digest(*a)).collect(),
        arrays: pipeline.cells(),
        passes: Vec::new(),
    }
}

fn meaning(function: Function, std: &StdFields, drop_port: u32) -> Meaning {
    match function {
        Function::RegisterRead => Meaning::LoadCell { to: 0, index: 1 },
        Function::RegisterWrite => Meaning::StoreCell { index: 0, from: 1 },
        Function::Count => Meaning::CountCell { index: 0 },
        // Every hit of the table has counted already, called or not.
        Function::DirectCount => Meaning::Nothing,
        Function::MarkToDrop => {
            let fields = vec![(std.egress_spec, u64::from(drop_port)), (std.mcast_grp, 0)];
            Meaning::SetFields { arg: 0, fields }
        }
        Function::Hash => Meaning::Hash { to: 0, algorithm: 1, base: 2, data: 3, max: 4 },
        Function::VerifyChecksum { payload: false } => {
            Meaning::VerifyDigest { condition: 0, data: 1, sum: 2, algorithm: 3 }
        }
        Function::UpdateChecksum { payload: false } => {
            Meaning::UpdateDigest { condition: 0, data: 1, sum: 2, algorithm: 3 }
        }
        Function::VerifyChecksum { payload: true } | Function::UpdateChecksum { payload: true } => {
            Meaning::AskIf { condition: 0 }
        }
        Function::AtomicBegin | Function::AtomicEnd => Meaning::AskIfShared,
        _ => Meaning::Ask,
    }
}

fn digest(algorithm: HashAlgorithm) -> Digest {
    match algorithm {
        HashAlgorithm::Csum16 => Digest::Sum16,
        HashAlgorithm::Crc32 => Digest::Sized(crc32_of),
        HashAlgorithm::Crc16 => Digest::Function(crc16),
        HashAlgorithm::Identity => Digest::Function(identity),
        HashAlgorithm::Xor16 => Digest::Function(|data| xor16(data).into()),
        // They depend on the control plane, or on earlier draws.
        HashAlgorithm::Crc32Custom | HashAlgorithm::Crc16Custom | HashAlgorithm::Random => Digest::Ask,
    }
}

/// Bytes that are taken at a time.
const SLICES: usize = 16;

/// `TABLES[n][b]`: the effect of a byte `b` on the register when `n` bytes follow it.
type Tables = [[u32; 256]; SLICES];

/// The tables of a CRC that takes and gives bits least significant first; so does the generator polynomial.
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

static CRC32: Tables = tables(0x04c1_1db7u32.reverse_bits());
static CRC16: Tables = tables((0x8005u16.reverse_bits()) as u32);

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

pub(crate) fn crc32(data: &[u8]) -> u64 {
    u64::from(!sliced(&CRC32, u32::MAX, data))
}

pub(crate) fn crc16(data: &[u8]) -> u64 {
    u64::from(sliced(&CRC16, 0, data))
}

/// The fastest for data of `len` bytes on this processor.
fn crc32_of(len: usize) -> fn(&[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.1") {
        return carryless::crc32_of(len).unwrap_or(crc32);
    }
    let _ = len;
    crc32
}

/// CRC-32 by multiplication of polynomials (Gopal and others: Fast CRC computation for generic polynomials using PCLMULQDQ,
/// 2009), for short data: the whole message is one polynomial, zeros in front of it change nothing.
#[cfg(target_arch = "x86_64")]
mod carryless {
    use std::arch::x86_64::*;

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
            _ => super::crc32(data),
        }
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

    #[inline(always)]
    #[allow(unsafe_code)]
    fn vector(n: u128) -> __m128i {
        // SAFETY: both are 128 bits, and every pattern of bits is a value of both.
        unsafe { std::mem::transmute(n) }
    }

    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn multiplied<const N: usize>(data: &[u8; N]) -> u64 {
        // Zeros in front fill up the first block: every block of the message is put together of two of the data.
        let gap = 8 * ((16 - data.len() % 16) % 16) as u32;
        let (ones, mut before) = (u128::from(u32::MAX), 0);
        let mut sum = vector(0);
        // Powers of x modulo the polynomial, bits mirrored: x^(128+32), x^(128-32); x^64; the polynomial and its inverse.
        let fold = _mm_set_epi64x(0x0_ccaa_009e, 0x1_7519_97d0);
        let blocks = data.len().div_ceil(16);
        for n in 0..blocks {
            let mut block = bytes(&data[16 * n..]);
            if n == 0 {
                // The initial value of the register is added to the first four bytes.
                block ^= ones;
            }
            let next = if gap == 0 { block } else { before | block << gap };
            before = block.checked_shr(128 - gap).unwrap_or(0);
            let (low, high) =
                (_mm_clmulepi64_si128::<0x00>(sum, fold), _mm_clmulepi64_si128::<0x11>(sum, fold));
            sum = _mm_xor_si128(_mm_xor_si128(low, high), vector(next));
        }
        let mask = _mm_set_epi32(0, 0, 0, -1);
        let sum = _mm_xor_si128(_mm_clmulepi64_si128::<0x10>(sum, fold), _mm_srli_si128::<8>(sum));
        let last = _mm_set_epi64x(0, 0x1_63cd_6124);
        let low = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(sum, mask), last);
        let sum = _mm_xor_si128(low, _mm_srli_si128::<4>(sum));
        let barrett = _mm_set_epi64x(0x1_f701_1641, 0x1_db71_0641);
        let times = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(sum, mask), barrett);
        let times = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(times, mask), barrett);
        let crc = _mm_extract_epi32::<1>(_mm_xor_si128(sum, times)) as u32;
        u64::from(!crc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Crc, CrcParams};

    /// The same as the CRCs of `hash.rs`, which are checked against published values.
    #[test]
    fn sliced_crcs() {
        let (c32, c16) = (Crc::new(32, CrcParams::CRC32), Crc::new(16, CrcParams::CRC16));
        let data: Vec<u8> = (0..100u32).map(|i| (i * i * 7 + i / 3) as u8).collect();
        for len in 0..data.len() {
            assert_eq!(crc32_of(len)(&data[..len]), crc32(&data[..len]), "{len} bytes");
            assert_eq!(crc32(&data[..len]), c32.compute(&data[..len]).into(), "{len} bytes");
            assert_eq!(crc16(&data[..len]), c16.compute(&data[..len]).into(), "{len} bytes");
        }
    }
}
