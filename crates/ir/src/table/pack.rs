//! Matches and action data as bytes: an entry as people handle it takes several hundred bytes in a dozen pieces, packed
//! it takes its digits and one byte more per value.

use super::KeyMatch;
use crate::bits::Bits;
use crate::value::Value;

/// Bytes that are inside the entry up to [`Packed::INLINE`], and on the heap beyond.
#[derive(Clone, Debug)]
pub(super) enum Packed {
    Inline { len: u8, bytes: [u8; Packed::INLINE] },
    Heap(Box<[u8]>),
}

impl Packed {
    pub const INLINE: usize = 22;

    pub fn new(from: &[u8]) -> Packed {
        if from.len() > Packed::INLINE {
            return Packed::Heap(from.into());
        }
        let mut bytes = [0; Packed::INLINE];
        bytes[..from.len()].copy_from_slice(from);
        Packed::Inline { len: from.len() as u8, bytes }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Packed::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Packed::Heap(bytes) => bytes,
        }
    }
}

// First byte of a match.
const EXACT: u8 = 0;
const LPM: u8 = 1;
const TERNARY: u8 = 2;
const RANGE: u8 = 3;
const ANY: u8 = 4;
const OPTIONAL: u8 = 5;

// First byte of a value.
const VOID: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const BITS: u8 = 3;
const VARBIT: u8 = 4;
const ENUM: u8 = 5;
const ERROR: u8 = 6;
const STRING: u8 = 7;
const STRUCT: u8 = 8;
const INVALID: u8 = 9;
const VALID: u8 = 10;
const UNION: u8 = 11;
const STACK: u8 = 12;

/// Seven bits a byte, the highest bit marks that more follow.
fn put_number(out: &mut Vec<u8>, mut n: u32) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn put_bits(out: &mut Vec<u8>, bits: &Bits) {
    let width = bits.width();
    put_number(out, width);
    let n = width.div_ceil(8) as usize;
    match bits.to_u128() {
        Some(v) if width <= 128 => out.extend_from_slice(&v.to_be_bytes()[16 - n..]),
        _ => out.extend_from_slice(&bits.to_be_bytes()),
    }
}

/// Appends one match.
pub(super) fn put_match(out: &mut Vec<u8>, m: &KeyMatch) {
    match m {
        KeyMatch::Exact(v) => {
            out.push(EXACT);
            put_bits(out, v);
        }
        KeyMatch::Lpm { value, prefix_len } => {
            out.push(LPM);
            put_number(out, *prefix_len);
            put_bits(out, value);
        }
        KeyMatch::Ternary { value, mask } => {
            out.push(TERNARY);
            put_bits(out, value);
            put_bits(out, mask);
        }
        KeyMatch::Range { lo, hi } => {
            out.push(RANGE);
            put_bits(out, lo);
            put_bits(out, hi);
        }
        KeyMatch::Optional(None) => out.push(ANY),
        KeyMatch::Optional(Some(v)) => {
            out.push(OPTIONAL);
            put_bits(out, v);
        }
    }
}

/// Appends one value.
pub(super) fn put_value(out: &mut Vec<u8>, value: &Value) {
    let many = |out: &mut Vec<u8>, values: &[Value]| {
        put_number(out, values.len() as u32);
        values.iter().for_each(|v| put_value(out, v));
    };
    match value {
        Value::Void => out.push(VOID),
        Value::Bool(b) => out.push(if *b { TRUE } else { FALSE }),
        Value::Bits(b) => {
            out.push(BITS);
            put_bits(out, b);
        }
        Value::Varbit(b) => {
            out.push(VARBIT);
            put_bits(out, b);
        }
        Value::Enum(n) => {
            out.push(ENUM);
            put_number(out, *n);
        }
        Value::Error(n) => {
            out.push(ERROR);
            put_number(out, *n);
        }
        Value::String(s) => {
            out.push(STRING);
            put_number(out, s.len() as u32);
            out.extend_from_slice(s.as_bytes());
        }
        Value::Struct(fields) => {
            out.push(STRUCT);
            many(out, fields);
        }
        Value::Header { valid, fields } => {
            out.push(if *valid { VALID } else { INVALID });
            many(out, fields);
        }
        Value::Union(members) => {
            out.push(UNION);
            many(out, members);
        }
        Value::Stack { next, elems } => {
            out.push(STACK);
            put_number(out, *next);
            many(out, elems);
        }
    }
}

/// Reads the output of the functions above. At the end of the bytes it reads zeros: never bytes of other data.
pub(super) struct Unpack<'a>(pub &'a [u8]);

impl Unpack<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u32 {
        let mut n = 0;
        for shift in (0..32).step_by(7) {
            let b = self.byte();
            n |= u32::from(b & 0x7f) << shift;
            if b & 0x80 == 0 {
                break;
            }
        }
        n
    }

    fn take(&mut self, n: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn bits(&mut self) -> Bits {
        let width = self.number();
        Bits::from_be_bytes(width, self.take(width.div_ceil(8) as usize))
    }

    /// One match.
    pub fn key_match(&mut self) -> KeyMatch {
        match self.byte() {
            LPM => {
                let prefix_len = self.number();
                KeyMatch::Lpm { value: self.bits(), prefix_len }
            }
            TERNARY => {
                let value = self.bits();
                KeyMatch::Ternary { value, mask: self.bits() }
            }
            RANGE => {
                let lo = self.bits();
                KeyMatch::Range { lo, hi: self.bits() }
            }
            ANY => KeyMatch::Optional(None),
            OPTIONAL => KeyMatch::Optional(Some(self.bits())),
            _ => KeyMatch::Exact(self.bits()),
        }
    }

    fn many(&mut self) -> Vec<Value> {
        let n = self.number();
        (0..n).map(|_| self.value()).collect()
    }

    /// One value.
    pub fn value(&mut self) -> Value {
        match self.byte() {
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            BITS => Value::Bits(self.bits()),
            VARBIT => Value::Varbit(self.bits()),
            ENUM => Value::Enum(self.number()),
            ERROR => Value::Error(self.number()),
            STRING => {
                let n = self.number() as usize;
                Value::String(String::from_utf8_lossy(self.take(n)).into())
            }
            STRUCT => Value::Struct(self.many()),
            INVALID => Value::Header { valid: false, fields: self.many() },
            VALID => Value::Header { valid: true, fields: self.many() },
            UNION => Value::Union(self.many()),
            STACK => {
                let next = self.number();
                Value::Stack { next, elems: self.many() }
            }
            _ => Value::Void,
        }
    }

    /// Values until the end.
    pub fn values(&mut self) -> Vec<Value> {
        let mut out = Vec::new();
        while !self.0.is_empty() {
            out.push(self.value());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_back() {
        let wide = Bits::ones(300).shr(7);
        let b = |w, v| Bits::new(w, v);
        let matches = [
            KeyMatch::Exact(b(32, 0xdead_beef)),
            KeyMatch::Exact(b(0, 0)),
            KeyMatch::Lpm { value: b(128, 1 << 127), prefix_len: 128 },
            KeyMatch::Ternary { value: wide.clone(), mask: Bits::ones(300) },
            KeyMatch::Range { lo: b(9, 3), hi: b(9, 511) },
            KeyMatch::Optional(None),
            KeyMatch::Optional(Some(b(1, 1))),
        ];
        let values = [
            Value::Void,
            Value::Bool(true),
            Value::Bool(false),
            Value::Bits(wide.clone()),
            Value::Varbit(b(24, 0x0a0b0c)),
            Value::Enum(300),
            Value::Error(u32::MAX),
            Value::String("päckchen".into()),
            Value::Struct(vec![Value::Bits(b(7, 99)), Value::Header { valid: true, fields: vec![] }]),
            Value::Header { valid: false, fields: vec![Value::Bits(b(8, 1))] },
            Value::Union(vec![Value::Bool(true)]),
            Value::Stack { next: 2, elems: vec![Value::Enum(1); 3] },
        ];
        let mut out = Vec::new();
        matches.iter().for_each(|m| put_match(&mut out, m));
        let key = out.len();
        values.iter().for_each(|v| put_value(&mut out, v));
        let packed = Packed::new(&out);
        let mut read = Unpack(&packed.bytes()[..key]);
        let back: Vec<_> = matches.iter().map(|_| read.key_match()).collect();
        assert_eq!(back, matches);
        assert!(read.0.is_empty());
        assert_eq!(Unpack(&packed.bytes()[key..]).values(), values);
        for n in 0..40 {
            let bytes: Vec<u8> = (0..n).collect();
            assert_eq!(Packed::new(&bytes).bytes(), bytes);
        }
        assert!(size_of::<Packed>() <= 24);
    }
}
