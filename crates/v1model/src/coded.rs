//! Values as bytes, for data that may be damaged or forged when it is read: every length is checked before memory is taken. Equal values
//! give equal bytes, and small numbers take one byte.

use pointsman_ir::{ActionCall, Bits, Entry, EntryAction, EntryHandle, KeyMatch, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Structs in structs beyond this depth are refused.
const MAX_DEPTH: u32 = 64;

/// Why bytes are not a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end inside of it.
    End,
    /// A list is longer than the bytes that are left could describe.
    Impossible {
        /// Its length.
        count: u64,
        /// Memory that it would need, in bytes.
        bytes: u64,
    },
    /// A number without a meaning, or text that is not UTF-8.
    Unknown(&'static str),
    /// Values in values beyond the limit.
    TooDeep,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Malformed::End => write!(f, "it ends too early"),
            Malformed::Impossible { count, bytes } => {
                write!(
                    f,
                    "a list of {count} items would need {bytes} bytes of memory, more than the data can describe"
                )
            }
            Malformed::Unknown(what) => write!(f, "unknown {what}"),
            Malformed::TooDeep => write!(f, "values are nested more than {MAX_DEPTH} levels deep"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Bytes that are being read.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    depth: u32,
}

impl<'a> Reader<'a> {
    /// Reads from the first of these bytes on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, depth: 0 }
    }

    /// Bytes that have not been read.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Malformed::End)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// The length of a list whose items take `size` bytes of memory each.
    ///
    /// # Errors
    /// More items than bytes are left.
    pub fn count(&mut self, size: usize) -> Result<usize, Malformed> {
        let count = u64::take(self)?;
        if count > self.bytes.len() as u64 {
            return Err(Malformed::Impossible { count, bytes: count.saturating_mul(size as u64) });
        }
        Ok(count as usize)
    }
}

/// A value that can be written as bytes and read again.
pub trait Coded: Sized {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads one.
    ///
    /// # Errors
    /// The bytes are not such a value.
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// The value that all of these bytes are.
///
/// # Errors
/// They are none, or more than one.
pub fn from_bytes<T: Coded>(bytes: &[u8]) -> Result<T, Malformed> {
    let mut from = Reader::new(bytes);
    let value = T::take(&mut from)?;
    if from.left() == 0 { Ok(value) } else { Err(Malformed::Unknown("bytes at the end")) }
}

/// Structs as their fields, one after the other.
macro_rules! coded {
    ($($ty:ident { $($field:ident),* $(,)? })*) => {$(
        impl $crate::coded::Coded for $ty {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::coded::Coded::put(&self.$field, out);)*
            }

            fn take(from: &mut $crate::coded::Reader<'_>) -> Result<Self, $crate::coded::Malformed> {
                Ok($ty { $($field: $crate::coded::Coded::take(from)?),* })
            }
        }
    )*};
}

/// Enums without data as one byte.
macro_rules! coded_enum {
    ($ty:ident, $what:literal: $($variant:ident = $number:literal),*) => {
        impl $crate::coded::Coded for $ty {
            fn put(&self, out: &mut Vec<u8>) {
                out.push(match self { $($ty::$variant => $number),* });
            }

            fn take(from: &mut $crate::coded::Reader<'_>) -> Result<Self, $crate::coded::Malformed> {
                match u8::take(from)? {
                    $($number => Ok($ty::$variant),)*
                    _ => Err($crate::coded::Malformed::Unknown($what)),
                }
            }
        }
    };
}

pub(crate) use {coded, coded_enum};

impl Coded for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(from.bytes(1)?[0])
    }
}

/// Seven bits a byte, the least significant first; the highest bit says that more follow.
impl Coded for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut n = *self;
        while n >= 0x80 {
            out.push(n as u8 | 0x80);
            n >>= 7;
        }
        out.push(n as u8);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = u8::take(from)?;
            let bits = u64::from(byte & 0x7f);
            n |= bits << shift;
            // One value has one form: no bits are lost, and the last byte is not a zero that could be left out.
            let lost = bits << shift >> shift != bits;
            if lost || (byte == 0 && shift > 0) {
                return Err(Malformed::Unknown("number"));
            }
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(Malformed::Unknown("number"))
    }
}

macro_rules! smaller {
    ($($ty:ty),*) => {$(
        impl Coded for $ty {
            fn put(&self, out: &mut Vec<u8>) {
                u64::from(*self).put(out);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                <$ty>::try_from(u64::take(from)?).map_err(|_| Malformed::Unknown("number"))
            }
        }
    )*};
}

smaller!(u16, u32);

/// 0, -1, 1, -2 and so on as 0, 1, 2, 3.
impl Coded for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        (((*self as u64) << 1) ^ (self >> 63) as u64).put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let n = u64::take(from)?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }
}

impl Coded for i32 {
    fn put(&self, out: &mut Vec<u8>) {
        i64::from(*self).put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        i32::try_from(i64::take(from)?).map_err(|_| Malformed::Unknown("number"))
    }
}

impl Coded for u128 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.to_be_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(from.bytes(16)?.iter().fold(0, |n, byte| n << 8 | u128::from(*byte)))
    }
}

impl Coded for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Unknown("truth value")),
        }
    }
}

impl Coded for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend(self.as_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = from.count(1)?;
        let text = std::str::from_utf8(from.bytes(count)?);
        text.map(str::to_string).map_err(|_| Malformed::Unknown("text"))
    }
}

impl<T: Coded> Coded for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl<T: Coded> Coded for Arc<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        T::take(from).map(Arc::new)
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        // Memory grows with what is read, not with what is announced.
        let count = from.count(size_of::<T>())?;
        (0..count).map(|_| T::take(from)).collect()
    }
}

impl<T: Coded + Ord> Coded for BTreeSet<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = from.count(size_of::<T>())?;
        (0..count).map(|_| T::take(from)).collect()
    }
}

impl<K: Coded + Ord, V: Coded> Coded for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|(key, value)| {
            key.put(out);
            value.put(out);
        });
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = from.count(size_of::<(K, V)>())?;
        (0..count).map(|_| <(K, V)>::take(from)).collect()
    }
}

impl<A: Coded, B: Coded> Coded for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

impl<A: Coded, B: Coded, C: Coded> Coded for (A, B, C) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
        self.2.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?, C::take(from)?))
    }
}

/// Width and bytes in network order.
impl Coded for Bits {
    fn put(&self, out: &mut Vec<u8>) {
        self.width().put(out);
        out.extend(self.to_be_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let width = u32::take(from)?;
        Ok(Bits::from_be_bytes(width, from.bytes(width.div_ceil(8) as usize)?))
    }
}

impl Coded for KeyMatch {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            KeyMatch::Exact(value) => {
                out.push(0);
                value.put(out);
            }
            KeyMatch::Lpm { value, prefix_len } => {
                out.push(1);
                value.put(out);
                prefix_len.put(out);
            }
            KeyMatch::Ternary { value, mask } => {
                out.push(2);
                value.put(out);
                mask.put(out);
            }
            KeyMatch::Range { lo, hi } => {
                out.push(3);
                lo.put(out);
                hi.put(out);
            }
            KeyMatch::Optional(value) => {
                out.push(4);
                value.put(out);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match u8::take(from)? {
            0 => KeyMatch::Exact(Bits::take(from)?),
            1 => KeyMatch::Lpm { value: Bits::take(from)?, prefix_len: u32::take(from)? },
            2 => KeyMatch::Ternary { value: Bits::take(from)?, mask: Bits::take(from)? },
            3 => KeyMatch::Range { lo: Bits::take(from)?, hi: Bits::take(from)? },
            4 => KeyMatch::Optional(Coded::take(from)?),
            _ => return Err(Malformed::Unknown("kind of match")),
        })
    }
}

impl Coded for Value {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Value::Void => out.push(0),
            Value::Bool(b) => (1u8, *b).put(out),
            Value::Bits(b) => {
                out.push(2);
                b.put(out);
            }
            Value::Varbit(b) => {
                out.push(3);
                b.put(out);
            }
            Value::Enum(n) => (4u8, *n).put(out),
            Value::Error(n) => (5u8, *n).put(out),
            Value::String(s) => (6u8, s.to_string()).put(out),
            Value::Struct(fields) => {
                out.push(7);
                fields.put(out);
            }
            Value::Header { valid, fields } => {
                (8u8, *valid).put(out);
                fields.put(out);
            }
            Value::Union(members) => {
                out.push(9);
                members.put(out);
            }
            Value::Stack { next, elems } => {
                (10u8, *next).put(out);
                elems.put(out);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.depth += 1;
        if from.depth > MAX_DEPTH {
            return Err(Malformed::TooDeep);
        }
        let value = match u8::take(from)? {
            0 => Value::Void,
            1 => Value::Bool(bool::take(from)?),
            2 => Value::Bits(Bits::take(from)?),
            3 => Value::Varbit(Bits::take(from)?),
            4 => Value::Enum(u32::take(from)?),
            5 => Value::Error(u32::take(from)?),
            6 => Value::String(String::take(from)?.into()),
            7 => Value::Struct(Vec::take(from)?),
            8 => Value::Header { valid: bool::take(from)?, fields: Vec::take(from)? },
            9 => Value::Union(Vec::take(from)?),
            10 => Value::Stack { next: u32::take(from)?, elems: Vec::take(from)? },
            _ => return Err(Malformed::Unknown("kind of value")),
        };
        from.depth -= 1;
        Ok(value)
    }
}

coded!(ActionCall { action, args });

impl Coded for EntryHandle {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        u64::take(from).map(EntryHandle)
    }
}

impl Coded for EntryAction {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            EntryAction::Call(call) => {
                out.push(0);
                call.put(out);
            }
            EntryAction::Member(n) => (1u8, *n).put(out),
            EntryAction::Group(n) => (2u8, *n).put(out),
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match u8::take(from)? {
            0 => EntryAction::Call(Arc::take(from)?),
            1 => EntryAction::Member(u32::take(from)?),
            2 => EntryAction::Group(u32::take(from)?),
            _ => return Err(Malformed::Unknown("kind of action")),
        })
    }
}

coded!(Entry { matches, priority, action, is_const, metadata, idle_timeout_ns });

#[cfg(test)]
mod tests {
    use super::*;

    fn to_bytes(value: &impl Coded) -> Vec<u8> {
        let mut out = Vec::new();
        value.put(&mut out);
        out
    }

    fn back<T: Coded + PartialEq + std::fmt::Debug>(value: T) {
        let bytes = to_bytes(&value);
        assert_eq!(from_bytes::<T>(&bytes).as_ref(), Ok(&value));
        for cut in 0..bytes.len() {
            assert!(from_bytes::<T>(&bytes[..cut]).is_err(), "{value:?} cut to {cut}");
        }
    }

    #[test]
    fn values_come_back() {
        [0, 1, 127, 128, 300, u64::MAX].into_iter().for_each(back);
        [0, 1, -1, 64, -65, i64::MIN, i64::MAX].into_iter().for_each(back);
        back((u16::MAX, u32::MAX, u128::MAX - 5));
        back(vec![Some("päckchen".to_string()), None]);
        back(BTreeMap::from([(1u32, BTreeSet::from([3u8])), (9, BTreeSet::new())]));
        let wide = Bits::ones(300).shr(7);
        let matches = vec![
            KeyMatch::Exact(Bits::new(9, 3)),
            KeyMatch::Lpm { value: Bits::zero(0), prefix_len: 0 },
            KeyMatch::Ternary { value: wide.clone(), mask: Bits::ones(300) },
            KeyMatch::Range { lo: Bits::zero(8), hi: Bits::ones(8) },
            KeyMatch::Optional(None),
            KeyMatch::Optional(Some(wide.clone())),
        ];
        let args = vec![
            Value::Void,
            Value::Bool(true),
            Value::Bits(wide.clone()),
            Value::Varbit(wide),
            Value::Enum(2),
            Value::Error(1),
            Value::String("x".into()),
            Value::Struct(vec![Value::Header { valid: true, fields: vec![] }]),
            Value::Union(vec![]),
            Value::Stack { next: 1, elems: vec![Value::Void] },
        ];
        let entry = |action| Entry {
            matches: matches.clone(),
            priority: -7,
            action,
            is_const: false,
            metadata: vec![1, 2],
            idle_timeout_ns: u64::MAX,
        };
        back(entry(EntryAction::Call(Arc::new(ActionCall { action: 3, args }))));
        back(entry(EntryAction::Member(7)));
        back((EntryHandle(5), entry(EntryAction::Group(8))));
    }

    #[test]
    fn bytes_are_not_trusted() {
        let huge = to_bytes(&(1u64 << 60));
        let bytes = (1u64 << 60) * 8;
        assert_eq!(from_bytes::<Vec<u64>>(&huge), Err(Malformed::Impossible { count: 1 << 60, bytes }));
        assert_eq!(from_bytes::<Bits>(&to_bytes(&u32::MAX)), Err(Malformed::End));
        let nested: Vec<u8> = [7, 1].repeat(100_000);
        assert_eq!(from_bytes::<Value>(&nested), Err(Malformed::TooDeep));
        assert_eq!(from_bytes::<u64>(&[0xff; 10]), Err(Malformed::Unknown("number")));
        assert_eq!(from_bytes::<u64>(&[0x80, 0]), Err(Malformed::Unknown("number")));
        assert_eq!(from_bytes::<u16>(&to_bytes(&65_536u32)), Err(Malformed::Unknown("number")));
        assert_eq!(from_bytes::<bool>(&[2]), Err(Malformed::Unknown("truth value")));
        assert_eq!(from_bytes::<String>(&[1, 0xff]), Err(Malformed::Unknown("text")));
        assert_eq!(from_bytes::<u8>(&[1, 1]), Err(Malformed::Unknown("bytes at the end")));
    }
}
