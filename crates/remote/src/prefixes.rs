//! Longest prefixes by expansion: routes become entries of exact keys, of a few lengths, which a switch looks up with one READ each.
//!
//! A *level* is such a length. A route becomes entries of the next level that is not shorter: one for each key that it covers, unless a longer route of the level
//! covers it. Routes that would become too many entries stay in the switch, and so do those that are longer than all levels. The switch takes, of what
//! its own table and the levels have for an address, the longest: the lengths of a level's routes are next to each other, so that it need not know them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// A length to which routes are expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Bits of its keys.
    pub bits: u32,
    /// Bits of the shortest route that is expanded to them.
    pub least: u32,
}

/// A route: the first bits of addresses, the others 0, and how many.
pub type Prefix = (u128, u32);

/// What changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteChange {
    /// The entry of a key of a level: its value, or none any more.
    Entry(usize, u128, Option<Vec<u8>>),
    /// A route that the switch has itself: its value, or none any more.
    Own(Prefix, Option<Vec<u8>>),
}

/// Why routes or levels are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixError {
    /// Addresses of so many bits.
    Width(u32),
    /// A level's lengths are not possible, or overlap those of another one: its number.
    Level(usize),
    /// A prefix of so many bits.
    Long(u32),
    /// Bits behind the prefix are not 0.
    Bits,
    /// The route does not exist.
    Unknown,
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrefixError::Width(n) => write!(f, "addresses of {n} bits: use 1 to 128"),
            PrefixError::Level(n) => {
                write!(
                    f,
                    "level {n}: give levels by length, each with lengths behind those of the one before"
                )
            }
            PrefixError::Long(n) => write!(f, "a prefix of {n} bits is longer than an address"),
            PrefixError::Bits => f.write_str("bits behind the prefix are not 0"),
            PrefixError::Unknown => f.write_str("unknown prefix"),
        }
    }
}

impl Error for PrefixError {}

/// Routes, and what they become.
#[derive(Clone, Debug)]
pub struct Prefixes {
    /// Bits of an address.
    width: u32,
    levels: Vec<Level>,
    routes: BTreeMap<(u32, u128), Vec<u8>>,
}

impl Prefixes {
    /// No routes, for addresses of so many bits.
    ///
    /// # Errors
    /// Levels whose lengths are not possible or not in order.
    pub fn new(width: u32, levels: &[Level]) -> Result<Self, PrefixError> {
        if width == 0 || width > 128 {
            return Err(PrefixError::Width(width));
        }
        let mut next = 0;
        for (n, level) in levels.iter().enumerate() {
            if level.least < next
                || level.bits < level.least
                || level.bits > width
                || level.bits - level.least > 31
            {
                return Err(PrefixError::Level(n));
            }
            next = level.bits + 1;
        }
        Ok(Prefixes { width, levels: levels.to_vec(), routes: BTreeMap::new() })
    }

    /// Routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Adds a route or changes its value. Each address has its old route or its new one at any time while the changes are made, one after the other.
    ///
    /// # Errors
    /// The prefix is not possible.
    pub fn put(&mut self, prefix: Prefix, value: &[u8]) -> Result<Vec<RouteChange>, PrefixError> {
        self.check(prefix)?;
        self.routes.insert((prefix.1, prefix.0), value.to_vec());
        Ok(self.changes(prefix, |_| Some(value.to_vec())))
    }

    /// Removes a route.
    ///
    /// # Errors
    /// The route does not exist.
    pub fn remove(&mut self, prefix: Prefix) -> Result<Vec<RouteChange>, PrefixError> {
        self.check(prefix)?;
        self.routes.remove(&(prefix.1, prefix.0)).ok_or(PrefixError::Unknown)?;
        let next = |least: u32| {
            let shorter = (least..prefix.1).rev();
            shorter.filter_map(|bits| self.routes.get(&(bits, self.cut(prefix.0, bits)))).next().cloned()
        };
        Ok(self.changes(prefix, |least| least.and_then(next)))
    }

    fn check(&self, (first, bits): Prefix) -> Result<(), PrefixError> {
        if bits > self.width {
            return Err(PrefixError::Long(bits));
        }
        let fits = self.width == 128 || first >> self.width == 0;
        if fits && self.cut(first, bits) == first { Ok(()) } else { Err(PrefixError::Bits) }
    }

    /// The first bits of an address, the others 0.
    fn cut(&self, address: u128, bits: u32) -> u128 {
        address & !(u128::MAX.checked_shr(128 - self.width + bits).unwrap_or(0))
    }

    /// What a route's keys get, unless a longer route has them. `value` gets the shortest length of the level, if it is one.
    fn changes(
        &self,
        (first, bits): Prefix,
        value: impl Fn(Option<u32>) -> Option<Vec<u8>>,
    ) -> Vec<RouteChange> {
        let level = self.levels.iter().position(|l| (l.least..=l.bits).contains(&bits));
        let Some((n, level)) = level.map(|n| (n, self.levels[n])) else {
            return vec![RouteChange::Own((first, bits), value(None))];
        };
        let value = value(Some(level.least));
        let keys = (0..1u128 << (level.bits - bits)).map(|i| first | i << (self.width - level.bits));
        let is_covered = |key: u128| {
            (bits + 1..=level.bits).any(|longer| self.routes.contains_key(&(longer, self.cut(key, longer))))
        };
        keys.filter(|key| !is_covered(*key)).map(|key| RouteChange::Entry(n, key, value.clone())).collect()
    }

    /// The value for an address, as a switch finds it: by the value of the entry of a key of a level, and of the switch's own longest route with its length.
    pub fn find<'a>(
        &self,
        address: u128,
        entry: impl Fn(usize, u128) -> Option<&'a [u8]>,
        own: Option<(u32, &'a [u8])>,
    ) -> Option<&'a [u8]> {
        for (n, level) in self.levels.iter().enumerate().rev() {
            if let Some((bits, value)) = own
                && bits > level.bits
            {
                return Some(value);
            }
            if let Some(value) = entry(n, self.cut(address, level.bits)) {
                return Some(value);
            }
        }
        own.map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_wire::Random;

    /// Random routes come and go; every address agrees with a search for the longest one, after each change.
    #[test]
    fn addresses_find_their_longest_route() {
        let levels = [
            vec![Level { bits: 8, least: 3 }],
            vec![Level { bits: 5, least: 2 }, Level { bits: 9, least: 7 }],
            vec![],
            vec![Level { bits: 10, least: 0 }],
        ];
        for (seed, levels) in (0..).zip(levels) {
            let width = 10;
            let mut random = Random::new(seed);
            let mut prefixes = Prefixes::new(width, &levels).expect("levels");
            let mut routes: BTreeMap<Prefix, Vec<u8>> = BTreeMap::new();
            let (mut entries, mut own) = (BTreeMap::new(), BTreeMap::new());
            for step in 0..600u32 {
                let bits = random.below(11) as u32;
                let prefix = ((random.below(1 << 10) as u128) >> (width - bits) << (width - bits), bits);
                let value = step.to_be_bytes();
                let changes = if random.below(2) == 0 {
                    routes.insert(prefix, value.to_vec());
                    prefixes.put(prefix, &value).expect("a prefix")
                } else {
                    let expected = routes.remove(&prefix).map(drop).ok_or(PrefixError::Unknown);
                    let removed = prefixes.remove(prefix);
                    assert_eq!(removed.as_ref().map(drop), expected.as_ref().copied());
                    removed.unwrap_or_default()
                };
                for change in changes {
                    match change {
                        RouteChange::Entry(n, key, Some(value)) => drop(entries.insert((n, key), value)),
                        RouteChange::Entry(n, key, None) => drop(entries.remove(&(n, key))),
                        RouteChange::Own(prefix, Some(value)) => drop(own.insert(prefix, value)),
                        RouteChange::Own(prefix, None) => drop(own.remove(&prefix)),
                    }
                }
                assert_eq!(prefixes.len(), routes.len());
                let covers = |(first, bits): Prefix, address: u128| (address ^ first) >> (width - bits) == 0;
                for address in 0..1u128 << width {
                    let of = |all: &BTreeMap<Prefix, Vec<u8>>| {
                        let longest =
                            all.iter().filter(|(p, _)| covers(**p, address)).max_by_key(|(p, _)| p.1);
                        longest.map(|(p, value)| (p.1, value.clone()))
                    };
                    let (expected, own) = (of(&routes), of(&own));
                    let found = prefixes.find(
                        address,
                        |n, key| entries.get(&(n, key)).map(Vec::as_slice),
                        own.as_ref().map(|(bits, value)| (*bits, &value[..])),
                    );
                    assert_eq!(found, expected.as_ref().map(|(_, v)| &v[..]), "{seed}, {step}: {address}");
                }
            }
        }
    }

    #[test]
    fn bad_levels_and_prefixes_are_refused() {
        let level = |least, bits| Level { bits, least };
        for (width, levels, error) in [
            (0, vec![], PrefixError::Width(0)),
            (129, vec![], PrefixError::Width(129)),
            (32, vec![level(9, 8)], PrefixError::Level(0)),
            (32, vec![level(9, 33)], PrefixError::Level(0)),
            (32, vec![level(9, 24), level(24, 32)], PrefixError::Level(1)),
            (128, vec![level(0, 32)], PrefixError::Level(0)),
        ] {
            assert_eq!(Prefixes::new(width, &levels).err(), Some(error));
        }
        let mut prefixes = Prefixes::new(32, &[level(12, 24)]).expect("levels");
        for (prefix, error) in [
            ((0, 33), PrefixError::Long(33)),
            ((1, 31), PrefixError::Bits),
            ((1 << 32, 8), PrefixError::Bits),
            ((1 << 40, 0), PrefixError::Bits),
        ] {
            assert_eq!(prefixes.put(prefix, &[]).err(), Some(error));
            assert_eq!(prefixes.remove(prefix).err(), Some(error));
        }
        assert_eq!(prefixes.put((0, 0), &[1]).map(|c| c.len()), Ok(1));
        assert_eq!(prefixes.put((0x0a00_0000, 12), &[1]).map(|c| c.len()), Ok(4096));
        // Of the longer one, and what is left of the other.
        assert_eq!(prefixes.put((0x0a00_0000, 23), &[2]).map(|c| c.len()), Ok(2));
        assert_eq!(prefixes.remove((0x0a00_0000, 12)).map(|c| c.len()), Ok(4094));
        assert_eq!(prefixes.put((u128::from(u32::MAX), 32), &[3]).map(|c| c.len()), Ok(1));
    }
}
