//! The calls that most programs make for every packet, on numbers: [`Env::call_flat`](pointsman_ir::Env::call_flat).
//!
//! Each has the effect of the same function's call in `env.rs`.

use crate::env::BlockEnv;
use crate::externs::Function;
use crate::hash::{HashAlgorithm, below};
use crate::state::Own;
use pointsman_ir::{ExternCall, FlatArgs};
use pointsman_wire::crc;

/// An index: a value that does not fit is larger than every array.
fn saturated([low, high]: [u64; 2]) -> u64 {
    if high == 0 { low } else { u64::MAX }
}

fn number([low, high]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

impl BlockEnv<'_> {
    pub(crate) fn flat(&mut self, call: ExternCall<'_>, args: FlatArgs<'_>) -> bool {
        let Some(function) = self.pipeline.functions.get(call.function.index()).copied() else {
            return false;
        };
        // The data of a hash is a struct here, and a cell is not; `env.rs` takes what else they may be.
        let packed = |n: usize| args.widths.get(n) == Some(&0);
        let cells = || self.array(call.instance);
        match (function, &mut *args.words) {
            // Out of range is counted there.
            (Function::RegisterRead, [result, index]) => {
                match cells().and_then(|c| c.load_words(saturated(*index))) {
                    Some(words) => *result = words,
                    None => return false,
                }
            }
            (Function::RegisterWrite, [index, value]) if !packed(1) => {
                return cells().is_some_and(|c| c.store_words(saturated(*index), *value));
            }
            (Function::Count, [index]) => {
                return cells().is_some_and(|c| c.count(saturated(*index), self.bytes));
            }
            (Function::ExecuteMeter, [index, color]) => {
                match self.state.mark(call.instance, saturated(*index), (self.now, self.bytes)) {
                    Some(marked) => *color = [marked as u64, 0],
                    None => return false,
                }
            }
            (Function::DirectCount, _) => {}
            (Function::AtomicBegin, _) => self.begin_atomic(),
            (Function::AtomicEnd, _) => self.end_atomic(),
            (Function::Hash, [result, algorithm, base, _, max]) if packed(3) => {
                let Some(data) = args.data else { return false };
                let hash = self.flat_hash(algorithm[0], data, None);
                let offset = below(hash, (max[1] == 0).then_some(max[0]));
                let sum = number(*base).wrapping_add(u128::from(offset));
                *result = [sum as u64, (sum >> 64) as u64];
            }
            (Function::VerifyChecksum { payload }, [condition, _, sum, algorithm]) if packed(1) => {
                if condition[0] != 0 {
                    let Some(data) = args.data else { return false };
                    let hash = u128::from(self.flat_hash(algorithm[0], data, payload.then_some(call.rest)));
                    let width = args.widths.get(2).copied().unwrap_or(64).clamp(1, 128);
                    if hash & (u128::MAX >> (128 - width)) != number(*sum) {
                        self.ask().checksum_error = true;
                    }
                }
            }
            (Function::UpdateChecksum { payload }, [condition, _, sum, algorithm]) if packed(1) => {
                if condition[0] != 0 {
                    let Some(data) = args.data else { return false };
                    *sum = [self.flat_hash(algorithm[0], data, payload.then_some(call.rest)), 0];
                }
            }
            // What is out of the ordinary, `env.rs` counts or draws.
            (Function::Random, [result, least, most]) => {
                let (least, most) = (number(*least), number(*most));
                let Some(drawn) = self.own.random.between_numbers(least, most) else { return false };
                *result = [drawn as u64, (drawn >> 64) as u64];
            }
            (Function::Clone, [_, session]) => self.ask().clone = Some((session[0] as u32, None)),
            (Function::ClonePreserving, [_, session, list]) => {
                self.ask().clone = Some((session[0] as u32, Some(list[0] as u32)));
            }
            (Function::Resubmit, [list]) => self.ask().resubmit = Some(list[0] as u32),
            (Function::Recirculate, [list]) => self.ask().recirculate = Some(list[0] as u32),
            (Function::Truncate, [bytes]) => self.ask().truncate = Some(bytes[0] as u32),
            _ => return false,
        }
        true
    }

    /// `rest`: the payload is also hashed; see [`ExternCall::rest`].
    fn flat_hash(&mut self, algorithm: u64, data: &[u8], rest: Option<&[u8]>) -> u64 {
        let Own { buffer, random, .. } = &mut *self.own;
        let Some(algorithm) = self.pipeline.algorithms.get(algorithm as usize) else { return 0 };
        let Some(rest) = rest else { return self.state.hasher.hash(*algorithm, data, random) };
        if *algorithm == HashAlgorithm::Crc32 {
            let payload = crc::crc32_after(crc::crc32(data), self.payload);
            return crc::crc32_after(payload, rest).into();
        }
        buffer.clear();
        buffer.push_bytes(data);
        buffer.push_bytes(self.payload);
        buffer.push_bytes(rest);
        self.state.hasher.hash(*algorithm, buffer.bytes(), random)
    }
}
