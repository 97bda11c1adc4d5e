//! The meaning of v1model's externs, for executors that implement some of them instead of calling the architecture.
//!
//! All meanings here must match `env.rs`.

use crate::externs::Function;
use crate::fields::StdFields;
use crate::hash::{HashAlgorithm, csum16, identity, xor16};
use crate::pipeline::Pipeline;
use crate::tables::TableState;
use pointsman_ir::{Digest, Known, Meaning};
use pointsman_wire::crc;

/// The steps that executors may do by themselves when packets for `drop_port` are dropped.
pub(crate) fn known(pipeline: &Pipeline, drop_port: u32) -> Known {
    Known {
        meanings: pipeline.functions.iter().map(|f| meaning(*f, &pipeline.std, drop_port)).collect(),
        digests: pipeline.algorithms.iter().map(|a| digest(*a)).collect(),
        arrays: pipeline.cells(),
        hits: pipeline.tables.iter().map(TableState::hit_shape).collect(),
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
            Meaning::AskIf { condition: 0, data: Some(1) }
        }
        Function::AtomicBegin | Function::AtomicEnd => Meaning::AskIfShared,
        _ => Meaning::Ask,
    }
}

fn digest(algorithm: HashAlgorithm) -> Digest {
    match algorithm {
        HashAlgorithm::Csum16 => Digest::Sum16(|data| csum16(data).into()),
        HashAlgorithm::Crc32 => Digest::Sized(crc::crc32_of),
        HashAlgorithm::Crc16 => Digest::Function(|data| crc::crc16(data).into()),
        HashAlgorithm::Identity => Digest::Function(identity),
        HashAlgorithm::Xor16 => Digest::Function(|data| xor16(data).into()),
        // They depend on the control plane, or on earlier draws.
        HashAlgorithm::Crc32Custom | HashAlgorithm::Crc16Custom | HashAlgorithm::Random => Digest::Ask,
    }
}

#[cfg(test)]
mod tests {
    use crate::hash::{Crc, CrcParams};
    use pointsman_wire::crc;

    /// The same as the CRCs of `hash.rs`, which are checked against published values.
    #[test]
    fn fixed_crcs() {
        let (c32, c16) = (Crc::new(32, CrcParams::CRC32), Crc::new(16, CrcParams::CRC16));
        let data: Vec<u8> = (0..100u32).map(|i| (i * i * 7 + i / 3) as u8).collect();
        for len in 0..data.len() {
            assert_eq!(crc::crc32(&data[..len]), c32.compute(&data[..len]), "{len} bytes");
            assert_eq!(u32::from(crc::crc16(&data[..len])), c16.compute(&data[..len]), "{len} bytes");
        }
    }
}
