//! What the externs of v1model mean, for executors that do by themselves what others call us for.
//!
//! Whatever stands here must do what `env.rs` does.

use crate::externs::Function;
use crate::fields::StdFields;
use crate::hash::{HashAlgorithm, identity, xor16};
use crate::pipeline::Pipeline;
use pointsman_ir::{Digest, Known, Meaning};

/// What executors may do by themselves when packets for `drop_port` are dropped.
pub(crate) fn known(pipeline: &Pipeline, drop_port: u32) -> Known {
    Known {
        meanings: pipeline.functions.iter().map(|f| meaning(*f, &pipeline.std, drop_port)).collect(),
        digests: pipeline.algorithms.iter().map(|a| digest(*a)).collect(),
        arrays: pipeline.cells(),
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
        _ => Meaning::Ask,
    }
}

fn digest(algorithm: HashAlgorithm) -> Digest {
    match algorithm {
        HashAlgorithm::Csum16 => Digest::Sum16,
        HashAlgorithm::Crc32 => Digest::Function(crc32),
        HashAlgorithm::Crc16 => Digest::Function(crc16),
        HashAlgorithm::Identity => Digest::Function(identity),
        HashAlgorithm::Xor16 => Digest::Function(|data| xor16(data).into()),
        // They depend on the control plane, or on what was drawn before.
        HashAlgorithm::Crc32Custom | HashAlgorithm::Crc16Custom | HashAlgorithm::Random => Digest::Ask,
    }
}

/// Bytes that are taken at a time.
const SLICES: usize = 16;

/// `TABLES[n][b]`: what a byte `b` does to the register when `n` bytes follow it.
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

fn crc32(data: &[u8]) -> u64 {
    u64::from(!sliced(&CRC32, u32::MAX, data))
}

fn crc16(data: &[u8]) -> u64 {
    u64::from(sliced(&CRC16, 0, data))
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
            assert_eq!(crc32(&data[..len]), c32.compute(&data[..len]).into(), "{len} bytes");
            assert_eq!(crc16(&data[..len]), c16.compute(&data[..len]).into(), "{len} bytes");
        }
    }
}
