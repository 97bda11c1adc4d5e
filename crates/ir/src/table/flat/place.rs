//! Positions of fields in the words of a key or row, and values as words.

use crate::bits::Bits;
use crate::table::KeyMatch;
use crate::value::Value;

/// The position of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The (first) word.
    pub word: u32,
    /// How far the field is shifted to the left in it; 0 for fields wider than 64 bits.
    pub shift: u32,
    /// Width in bits.
    pub width: u32,
}

impl Place {
    /// Words that the field touches.
    pub fn words(self) -> std::ops::Range<usize> {
        self.word as usize..self.word as usize + (self.width.div_ceil(64)) as usize
    }

    /// The field's low 64 bits.
    #[inline(always)]
    pub(super) fn low(self, words: &[u64]) -> u64 {
        let Some(word) = words.get(self.word as usize) else { return 0 };
        let mask = if self.width >= 64 { u64::MAX } else { (1 << self.width) - 1 };
        (word >> self.shift) & mask
    }

    /// The field's low 128 bits.
    #[inline(always)]
    pub(super) fn low_128(self, words: &[u64]) -> u128 {
        let low = u128::from(self.low(words));
        if self.width <= 64 {
            return low;
        }
        let high = words.get(self.word as usize + 1).copied().unwrap_or(0);
        low | u128::from(high) << 64
    }

    /// Puts a value into words that are zero there.
    pub fn put(self, words: &mut [u64], value: &Bits) {
        if self.width <= 64 {
            if let Some(word) = words.get_mut(self.word as usize)
                && self.width > 0
            {
                let mask = u64::MAX >> (64 - self.width);
                *word |= (value.low_u64() & mask) << self.shift;
            }
            return;
        }
        let Some(words) = words.get_mut(self.words()) else { return };
        match value.to_u128() {
            Some(v) => {
                words[0] |= v as u64;
                words[1] |= (v >> 64) as u64;
            }
            None => {
                let digits = value.to_biguint().iter_u64_digits().collect::<Vec<_>>();
                words.iter_mut().zip(digits).for_each(|(w, d)| *w |= d);
            }
        }
    }
}

/// Positions of fields of these widths, and how many words they take: a field of up to 64 bits follows the one before
/// in the same word, at the next higher bits, if it fits there whole, else at the bottom of a new word. A wider field
/// has its own words, the least significant first. Bits outside of fields are zero.
pub fn places(widths: impl IntoIterator<Item = u32>) -> (Vec<Place>, usize) {
    let (mut words, mut used) = (0, 64);
    let mut places = Vec::new();
    for width in widths {
        if width > 64 {
            places.push(Place { word: words, shift: 0, width });
            words += width.div_ceil(64);
            used = 64;
        } else if width == 0 {
            places.push(Place { word: words.saturating_sub(1), shift: 0, width });
        } else if used + width <= 64 {
            places.push(Place { word: words - 1, shift: used, width });
            used += width;
        } else {
            places.push(Place { word: words, shift: 0, width });
            words += 1;
            used = width;
        }
    }
    (places, words as usize)
}

/// Puts action data into words that are zero. False: a value is not a scalar.
pub(super) fn put_value(place: Place, words: &mut [u64], value: &Value) -> bool {
    let small = |n: u64| Bits::new(64, u128::from(n));
    match value {
        Value::Bits(b) => place.put(words, b),
        Value::Bool(b) => place.put(words, &small(u64::from(*b))),
        Value::Enum(n) | Value::Error(n) => place.put(words, &small(u64::from(*n))),
        _ => return false,
    }
    true
}

/// Whether the key's field is between two bounds, both included. They are words, the lowest first, as many as the field has.
#[inline(always)]
pub(super) fn between(place: Place, key: &[u64], lo: &[u64], hi: &[u64]) -> bool {
    if let ([lo], [hi]) = (lo, hi) {
        let v = place.low(key);
        return *lo <= v && v <= *hi;
    }
    let Some(field) = key.get(place.words()) else { return false };
    let order = |a: &[u64], b: &[u64]| a.iter().rev().cmp(b.iter().rev());
    order(lo, field).is_le() && order(field, hi).is_le()
}

/// The matches of an entry as words: a key matches if it equals `value` under `mask` and lies in all ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct Matches {
    pub value: Vec<u64>,
    pub mask: Vec<u64>,
    /// Low and high bound of each range field, one after the other.
    pub ranges: Vec<u64>,
    /// Of the (first) lpm field.
    pub prefix_len: u32,
}

impl Matches {
    /// Replaces the content.
    pub fn set(&mut self, places: &[Place], words: usize, matches: &[KeyMatch]) {
        for v in [&mut self.value, &mut self.mask] {
            v.clear();
            v.resize(words, 0);
        }
        self.ranges.clear();
        let mut prefix = None;
        for (place, m) in places.iter().zip(matches) {
            let full = |mask: &mut Vec<u64>| {
                if place.width <= 64 {
                    place.put(mask, &Bits::new(64, u128::from(u64::MAX)));
                } else {
                    place.put(mask, &Bits::ones(place.width));
                }
            };
            match m {
                KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => {
                    place.put(&mut self.value, v);
                    full(&mut self.mask);
                }
                KeyMatch::Optional(None) => {}
                KeyMatch::Ternary { value, mask } => {
                    place.put(&mut self.value, value);
                    place.put(&mut self.mask, mask);
                }
                KeyMatch::Lpm { value, prefix_len } => {
                    prefix.get_or_insert(*prefix_len);
                    place.put(&mut self.value, value);
                    let drop = u64::from(place.width.saturating_sub(*prefix_len));
                    place.put(&mut self.mask, &Bits::ones(place.width).shr(drop).shl(drop));
                }
                KeyMatch::Range { lo, hi } => {
                    let own = Place { word: 0, shift: 0, width: place.width };
                    for bound in [lo, hi] {
                        let at = self.ranges.len();
                        self.ranges.resize(at + own.width.div_ceil(64) as usize, 0);
                        own.put(&mut self.ranges[at..], bound);
                    }
                }
            }
        }
        self.prefix_len = prefix.unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_share_words() {
        let at = |word, shift, width| Place { word, shift, width };
        let (five_tuple, words) = places([32, 32, 16, 16, 8]);
        assert_eq!(five_tuple, [at(0, 0, 32), at(0, 32, 32), at(1, 0, 16), at(1, 16, 16), at(1, 32, 8)]);
        assert_eq!(words, 2);
        let (wide, words) = places([0, 9, 128, 60, 0, 5, 65]);
        let want =
            [at(0, 0, 0), at(0, 0, 9), at(1, 0, 128), at(3, 0, 60), at(3, 0, 0), at(4, 0, 5), at(5, 0, 65)];
        assert_eq!((wide.as_slice(), words), (&want[..], 7));
        assert_eq!(places([]), (vec![], 0));
    }

    #[test]
    fn values_come_back() {
        let (all, n) = places([1, 64, 7, 200]);
        let values = [Bits::new(1, 1), Bits::ones(64), Bits::new(7, 0x55), Bits::ones(200).shr(3).shl(90)];
        let mut words = vec![0; n];
        all.iter().zip(&values).for_each(|(p, v)| p.put(&mut words, v));
        for (place, value) in all.iter().zip(&values) {
            assert_eq!(place.low(&words), value.low_u64());
            let low = value.zero_extend(128.max(place.width)).slice(127, 0);
            assert_eq!(Some(place.low_128(&words)), low.to_u128());
        }
    }
}
