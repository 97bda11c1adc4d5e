//! Integers as byte strings (P4Runtime specification, "Bytestrings"): big-endian, shortest form when sent, any length
//! when received as long as the value fits.

use pointsman_ir::Bits;
use std::fmt;

/// Why a byte string is not a value of a type. gRPC clients see it as `OUT_OF_RANGE`, or inside a table entry as
/// `INVALID_ARGUMENT` (specification, "Match Format").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BytestringError {
    /// No bytes at all.
    Empty,
    /// The value needs more bits than the type has.
    TooWide {
        /// Bits that the value needs.
        needed: usize,
        /// Bits of the type.
        width: u32,
    },
}

impl fmt::Display for BytestringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BytestringError::Empty => f.write_str("the byte string is empty: zero is \"\\x00\""),
            BytestringError::TooWide { needed, width } => {
                write!(f, "the value needs {needed} bits, the field has {width}")
            }
        }
    }
}

impl std::error::Error for BytestringError {}

/// The shortest byte string of an unsigned value.
pub fn encode(value: &Bits) -> Vec<u8> {
    shortest(&value.to_be_bytes())
}

/// The shortest byte string of a number.
pub fn of_number(n: u128) -> Vec<u8> {
    shortest(&n.to_be_bytes())
}

/// The shortest byte string of a number of any length, the high byte first.
pub fn shortest(bytes: &[u8]) -> Vec<u8> {
    match bytes.iter().position(|b| *b != 0) {
        Some(first) => bytes[first..].to_vec(),
        None => vec![0],
    }
}

/// The number of a byte string of any length, if it has at most 128 bits.
pub fn number(bytes: &[u8]) -> Option<u128> {
    let first = bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len());
    let significant = &bytes[first..];
    if bytes.is_empty() || significant.len() > 16 {
        return None;
    }
    Some(significant.iter().fold(0, |n, b| n << 8 | u128::from(*b)))
}

/// The shortest byte string of a two's-complement value.
pub fn encode_signed(value: &Bits) -> Vec<u8> {
    let whole = value.width().div_ceil(8) * 8;
    let mut bytes = value.sign_extend(whole.max(8)).to_be_bytes();
    let fill = if value.is_negative() { 0xff } else { 0 };
    let redundant = |b: &[u8]| b.len() > 1 && b[0] == fill && (b[1] ^ fill) & 0x80 == 0;
    let skip = (0..bytes.len()).take_while(|i| redundant(&bytes[*i..])).count();
    bytes.drain(..skip);
    bytes
}

/// The value of an unsigned byte string as `bit<width>`.
///
/// # Errors
/// The string is empty, or the value does not fit.
pub fn decode(width: u32, bytes: &[u8]) -> Result<Bits, BytestringError> {
    if bytes.is_empty() {
        return Err(BytestringError::Empty);
    }
    let needed = match bytes.iter().position(|b| *b != 0) {
        Some(first) => (bytes.len() - first) * 8 - bytes[first].leading_zeros() as usize,
        None => 0,
    };
    if needed > width as usize {
        return Err(BytestringError::TooWide { needed, width });
    }
    Ok(Bits::from_be_bytes(width, bytes))
}

/// The value of a two's-complement byte string as `int<width>`.
///
/// # Errors
/// The string is empty, or the value does not fit.
pub fn decode_signed(width: u32, bytes: &[u8]) -> Result<Bits, BytestringError> {
    let Some(first) = bytes.first() else { return Err(BytestringError::Empty) };
    let negative = first & 0x80 != 0;
    let fill = if negative { 0xff } else { 0 };
    // Sign bits beyond the one that the value itself needs.
    let extra = match bytes.iter().position(|b| *b != fill) {
        Some(at) => at * 8 + (bytes[at] ^ fill).leading_zeros() as usize - 1,
        None => bytes.len() * 8 - 1,
    };
    let needed = bytes.len() * 8 - extra;
    if needed > width as usize {
        return Err(BytestringError::TooWide { needed, width });
    }
    let have = u32::try_from(bytes.len().saturating_mul(8)).unwrap_or(u32::MAX);
    if have >= width {
        // Truncation only drops copies of the sign bit.
        return Ok(Bits::from_be_bytes(width, bytes));
    }
    Ok(Bits::from_be_bytes(have, bytes).sign_extend(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(&of_number(0x1_0000)), Some(0x1_0000));
        assert_eq!(
            (of_number(0), number(&[]), number(&[0, 0, 5]), number(&[1; 17])),
            (vec![0], None, Some(5), None)
        );
        assert_eq!((of_number(u128::MAX), number(&[0xff; 16])), (vec![0xff; 16], Some(u128::MAX)));
    }

    /// The tables of valid and invalid encodings in the specification.
    #[test]
    fn unsigned() {
        let ok = |w, bytes: &[u8], v: u128| {
            assert_eq!(decode(w, bytes), Ok(Bits::new(w, v)));
            bytes == encode(&Bits::new(w, v))
        };
        assert!(ok(8, b"\x63", 99));
        assert!(!ok(16, b"\x00\x63", 99));
        assert!(ok(16, b"\x63", 99));
        assert!(ok(16, b"\x30\x64", 12388));
        assert!(!ok(16, b"\x00\x30\x64", 12388));
        assert!(!ok(12, b"\x00\x63", 99));
        assert!(!ok(12, b"\x00\x00\x63", 99));
        assert!(ok(16, b"\x00", 0));
        let bad = |w, bytes: &[u8]| assert!(decode(w, bytes).is_err(), "{w} {bytes:?}");
        bad(8, b"\x01\x63");
        bad(8, b"");
        bad(16, b"\x01\x00\x63");
        bad(12, b"\x10\x63");
        bad(12, b"\x01\x00\x63");
        bad(12, b"\x00\x40\x63");
    }

    #[test]
    fn signed() {
        let ok = |w: u32, bytes: &[u8], v: i128| {
            let value = Bits::new(w, v as u128);
            assert_eq!(decode_signed(w, bytes), Ok(value.clone()));
            bytes == encode_signed(&value)
        };
        assert!(ok(8, b"\x63", 99));
        assert!(ok(8, b"\x9d", -99));
        assert!(!ok(8, b"\xff\x9d", -99));
        assert!(ok(12, b"\xfd\x1d", -739));
        assert!(!ok(16, b"\x00\x00", 0));
        assert!(ok(16, b"\x00", 0));
        assert!(ok(16, b"\xff", -1));
        assert!(ok(16, b"\x00\x80", 128));
        assert!(ok(16, b"\x80", -128));
        assert!(ok(1, b"\xff", -1));
        let bad = |w, bytes: &[u8]| assert!(decode_signed(w, bytes).is_err(), "{w} {bytes:?}");
        bad(8, b"\x00\x9d");
        bad(12, b"\x8d\x1d");
        bad(16, b"");
    }

    #[test]
    fn wide_values_round_trip() {
        for width in [1, 7, 8, 9, 31, 64, 127, 128, 129, 300] {
            let value = Bits::ones(width);
            assert_eq!(decode(width, &encode(&value)), Ok(value.clone()));
            assert_eq!(decode_signed(width, &encode_signed(&value)), Ok(value));
        }
    }
}
