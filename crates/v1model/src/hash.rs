//! Hash and checksum algorithms of `HashAlgorithm`.

use pointsman_ir::{Bits, Value};
use pointsman_wire::checksum;

/// The members of v1model's `HashAlgorithm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// CRC-32/ISO-HDLC.
    Crc32,
    /// CRC of 32 bits with parameters that the control plane may change.
    Crc32Custom,
    /// CRC-16/ARC.
    Crc16,
    /// CRC of 16 bits with parameters that the control plane may change.
    Crc16Custom,
    /// A random number; the data does not matter.
    Random,
    /// The first 8 bytes of the data as a number.
    Identity,
    /// The Internet checksum (RFC 1071).
    Csum16,
    /// Exclusive or of all 16-bit words.
    Xor16,
}

impl HashAlgorithm {
    /// The algorithm of that name in v1model.p4.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "crc32" => HashAlgorithm::Crc32,
            "crc32_custom" => HashAlgorithm::Crc32Custom,
            "crc16" => HashAlgorithm::Crc16,
            "crc16_custom" => HashAlgorithm::Crc16Custom,
            "random" => HashAlgorithm::Random,
            "identity" => HashAlgorithm::Identity,
            "csum16" => HashAlgorithm::Csum16,
            "xor16" => HashAlgorithm::Xor16,
            _ => return None,
        })
    }
}

/// Parameters of a cyclic redundancy check, in the usual notation (Williams: A painless guide to CRC error detection
/// algorithms, 1993).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcParams {
    /// Generator polynomial without its highest term, most significant bit first.
    pub polynomial: u32,
    /// Register at the start.
    pub initial: u32,
    /// Exclusive or on the result.
    pub final_xor: u32,
    /// Each byte is taken least significant bit first.
    pub reflect_input: bool,
    /// The register is mirrored at the end.
    pub reflect_output: bool,
}

impl CrcParams {
    /// CRC-16/ARC: the `crc16` algorithm, and where `crc16_custom` starts.
    pub const CRC16: CrcParams =
        CrcParams { polynomial: 0x8005, initial: 0, final_xor: 0, reflect_input: true, reflect_output: true };

    /// CRC-32/ISO-HDLC: the `crc32` algorithm, and where `crc32_custom` starts.
    pub const CRC32: CrcParams = CrcParams {
        polynomial: 0x04c1_1db7,
        initial: 0xffff_ffff,
        final_xor: 0xffff_ffff,
        reflect_input: true,
        reflect_output: true,
    };
}

/// A CRC ready to run: parameters and table.
#[derive(Clone, Debug)]
pub struct Crc {
    params: CrcParams,
    width: u32,
    // The register is left-aligned in 32 bits, so that one table walk serves every width.
    table: Box<[u32; 256]>,
}

impl Crc {
    /// A CRC of `width` bits, 8 to 32.
    pub fn new(width: u32, params: CrcParams) -> Self {
        let width = width.clamp(8, 32);
        let polynomial = params.polynomial << (32 - width);
        let mut table = Box::new([0u32; 256]);
        for (i, entry) in table.iter_mut().enumerate() {
            let mut r = (i as u32) << 24;
            for _ in 0..8 {
                r = if r & 0x8000_0000 != 0 { (r << 1) ^ polynomial } else { r << 1 };
            }
            *entry = r;
        }
        Crc { params, width, table }
    }

    /// Its parameters.
    pub fn params(&self) -> CrcParams {
        self.params
    }

    /// The CRC of `data`.
    pub fn compute(&self, data: &[u8]) -> u32 {
        let mut r = self.params.initial << (32 - self.width);
        for byte in data {
            let b = if self.params.reflect_input { byte.reverse_bits() } else { *byte };
            r = (r << 8) ^ self.table[usize::from((r >> 24) as u8 ^ b)];
        }
        let r = if self.params.reflect_output { r.reverse_bits() } else { r >> (32 - self.width) };
        let mask = u32::MAX >> (32 - self.width);
        (r ^ self.params.final_xor) & mask
    }
}

/// The Internet checksum of RFC 1071; an odd last byte is followed by a zero byte.
pub fn csum16(data: &[u8]) -> u16 {
    !checksum::folded(checksum::sum(data))
}

/// What `hash` adds to its base: `hash` modulo `limit`. `None` is a limit of more than 64 bits, which no hash reaches.
#[inline]
pub(crate) fn below(hash: u64, limit: Option<u64>) -> u64 {
    limit.map_or(hash, |limit| hash.checked_rem(limit).unwrap_or(0))
}

/// Exclusive or of the big-endian 16-bit words; an odd last byte is followed by a zero byte.
pub fn xor16(data: &[u8]) -> u16 {
    let (words, tail) = data.as_chunks::<2>();
    let x = words.iter().fold(0, |x, w| x ^ u16::from_be_bytes(*w));
    if let [last] = tail { x ^ (u16::from(*last) << 8) } else { x }
}

/// The first eight bytes as a big-endian number; fewer bytes make a smaller number.
pub fn identity(data: &[u8]) -> u64 {
    data.iter().take(8).fold(0, |v, b| (v << 8) | u64::from(*b))
}

/// Data for a hash: values one after the other, most significant bit first, without gaps. Zero bits fill the last byte.
#[derive(Clone, Debug, Default)]
pub struct BitBuffer {
    bytes: Vec<u8>,
    /// Bits used in the last byte; 0 if it is full or absent.
    used: u32,
}

impl BitBuffer {
    /// Starts over, keeping the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.used = 0;
    }

    /// The pushed bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends whole bytes, after filling the last one.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.used = 0;
    }

    /// The low `n` bits of `b`, n <= 8.
    fn push_small(&mut self, b: u8, n: u32) {
        if n == 0 {
            return;
        }
        let b = u16::from(b) & ((1u16 << n) - 1);
        if self.used == 0 {
            self.bytes.push(0);
        }
        let free = 8 - self.used;
        if let Some(last) = self.bytes.last_mut() {
            if n <= free {
                *last |= (b << (free - n)) as u8;
                self.used = (self.used + n) % 8;
            } else {
                *last |= (b >> (n - free)) as u8;
                self.bytes.push((b << (8 - (n - free))) as u8);
                self.used = n - free;
            }
        }
    }

    /// Appends a bit string.
    pub fn push(&mut self, bits: &Bits) {
        let width = bits.width();
        match bits.to_u128() {
            Some(v) if width <= 128 => {
                let bytes = v.to_be_bytes();
                let n = width.div_ceil(8) as usize;
                let bytes = &bytes[16 - n..];
                self.push_be(bytes, width);
            }
            _ => self.push_be(&bits.to_be_bytes(), width),
        }
    }

    /// `bytes` hold `width` bits, right-aligned.
    fn push_be(&mut self, bytes: &[u8], width: u32) {
        let Some((first, rest)) = bytes.split_first() else { return };
        let head = if width.is_multiple_of(8) { 8 } else { width % 8 };
        if head == 8 && self.used == 0 {
            self.bytes.extend_from_slice(bytes);
            return;
        }
        self.push_small(*first, head);
        if self.used == 0 {
            self.bytes.extend_from_slice(rest);
        } else {
            rest.iter().for_each(|b| self.push_small(*b, 8));
        }
    }

    /// Appends every scalar of `value` in order; invalid headers count nothing.
    pub fn push_value(&mut self, value: &Value) {
        match value {
            Value::Struct(fields) | Value::Union(fields) => fields.iter().for_each(|v| self.push_value(v)),
            Value::Header { valid, fields } if *valid => fields.iter().for_each(|v| self.push_value(v)),
            Value::Stack { elems, .. } => elems.iter().for_each(|v| self.push_value(v)),
            Value::Bits(b) | Value::Varbit(b) => self.push(b),
            Value::Bool(_) | Value::Enum(_) | Value::Error(_) => {
                if let Some(b) = value.to_bits() {
                    self.push(&b);
                }
            }
            Value::Header { .. } | Value::Void | Value::String(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: &[u8] = b"123456789";

    /// Check values as published in Greg Cook's catalogue of parametrised CRC algorithms.
    #[test]
    fn crc_check_values() {
        let p = |polynomial, initial, final_xor, reflect| CrcParams {
            polynomial,
            initial,
            final_xor,
            reflect_input: reflect,
            reflect_output: reflect,
        };
        for (name, width, params, expected) in [
            ("CRC-32/ISO-HDLC", 32, CrcParams::CRC32, 0xcbf4_3926),
            ("CRC-16/ARC", 16, CrcParams::CRC16, 0xbb3d),
            ("CRC-32/BZIP2", 32, p(0x04c1_1db7, u32::MAX, u32::MAX, false), 0xfc89_1918),
            ("CRC-32/ISCSI", 32, p(0x1edc_6f41, u32::MAX, u32::MAX, true), 0xe306_9283),
            ("CRC-16/IBM-3740", 16, p(0x1021, 0xffff, 0, false), 0x29b1),
            ("CRC-16/KERMIT", 16, p(0x1021, 0, 0, true), 0x2189),
            ("CRC-16/IBM-SDLC", 16, p(0x1021, 0xffff, 0xffff, true), 0x906e),
            ("CRC-8/SMBUS", 8, p(0x07, 0, 0, false), 0xf4),
        ] {
            assert_eq!(Crc::new(width, params).compute(CHECK), expected, "{name}");
        }
        assert_eq!(Crc::new(32, CrcParams::CRC32).compute(&[]), 0);
    }

    /// The example of RFC 1071 section 3: the sum of these words is ddf2 before complementing.
    #[test]
    fn internet_checksum() {
        assert_eq!(csum16(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(csum16(&[0xab]), !0xab00);
        assert_eq!(csum16(&[]), 0xffff);
        let header =
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(csum16(&header), 0, "a header with a right checksum sums to zero");
    }

    #[test]
    fn words_and_identity() {
        assert_eq!(xor16(&[0x12, 0x34, 0x56, 0x78, 0x9a]), 0x1234 ^ 0x5678 ^ 0x9a00);
        assert_eq!(identity(&[0xab, 0xcd]), 0xabcd);
        assert_eq!(identity(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 0x0102_0304_0506_0708);
    }

    /// Whatever the widths, the buffer is the concatenation of the bits.
    #[test]
    fn bits_are_packed_without_gaps() {
        let mut all = Bits::zero(0);
        let mut buffer = BitBuffer::default();
        for (i, width) in [3u32, 9, 16, 1, 0, 48, 128, 7, 200, 8, 5, 32].into_iter().enumerate() {
            let b = Bits::ones(width).shr(1).xor(&Bits::new(width, 0x9b * (i as u128 + 1)));
            buffer.push(&b);
            all = all.concat(&b);
            let pad = (8 - all.width() % 8) % 8;
            assert_eq!(buffer.bytes(), all.concat(&Bits::zero(pad)).to_be_bytes(), "after width {width}");
        }
        buffer.clear();
        buffer.push(&Bits::new(4, 0xf));
        buffer.push_bytes(&[1, 2]);
        assert_eq!(buffer.bytes(), [0xf0, 1, 2]);
    }
}
