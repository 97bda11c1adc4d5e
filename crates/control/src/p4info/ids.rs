//! Ids and aliases of P4Info objects.
//!
//! The P4Runtime specification ("ID Allocation for P4Info Objects") fixes the id's top byte and leaves the other 24 bits
//! to the compiler. They follow the reference compiler here, so that a program has the same ids everywhere: Jenkins'
//! one-at-a-time hash of the fully qualified name, objects in the order of their names, and the next hash value where
//! an id is taken.

use super::error::Flaw;
use crate::proto::p4info::p4_ids::Prefix;
use std::collections::{BTreeMap, BTreeSet};

/// Jenkins' one-at-a-time hash.
fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = 0u32;
    for byte in key {
        hash = hash.wrapping_add(u32::from(*byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// Puts the kind of object into an `@id`.
///
/// # Errors
/// The top byte is neither 0 nor that kind's.
fn with_prefix(kind: Prefix, id: u32) -> Result<u32, Flaw> {
    let prefix = (kind as u32) << 24;
    match id & 0xff00_0000 {
        0 => Ok(id | prefix),
        p if p == prefix => Ok(id),
        _ => Err(Flaw::IdKind { id, kind }),
    }
}

/// Collects all named objects of a program, then assigns their ids and aliases.
#[derive(Default)]
pub(super) struct Symbols {
    /// `None` until `assign`.
    kinds: BTreeMap<u32, BTreeMap<String, Option<u32>>>,
    assigned: BTreeSet<u32>,
    /// How many objects share each suffix of a name.
    suffixes: BTreeMap<String, u32>,
    names: BTreeSet<String>,
}

impl Symbols {
    /// Adds an object. Adding the same name again changes nothing.
    ///
    /// # Errors
    /// An `@id` with the wrong top byte, or one that another object has.
    pub fn add(&mut self, kind: Prefix, name: &str, id: Option<u32>) -> Result<(), Flaw> {
        let table = self.kinds.entry(kind as u32).or_default();
        if table.contains_key(name) {
            return Ok(());
        }
        let id = id.map(|id| with_prefix(kind, id)).transpose()?;
        if let Some(id) = id
            && !self.assigned.insert(id)
        {
            return Err(Flaw::IdTaken(id));
        }
        table.insert(name.to_string(), id);
        if self.names.insert(name.to_string()) {
            for suffix in suffixes(name) {
                *self.suffixes.entry(suffix.to_string()).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Gives every object without `@id` its id; after it, `id` and `alias` may be asked.
    pub fn assign(&mut self) {
        for (kind, table) in &mut self.kinds {
            for (name, slot) in table.iter_mut().filter(|(_, id)| id.is_none()) {
                let mut value = one_at_a_time(name.as_bytes());
                // 2^24 ids a kind: a program text that uses them all up does not fit into memory.
                let id = loop {
                    let id = kind << 24 | value & 0x00ff_ffff;
                    if self.assigned.insert(id) {
                        break id;
                    }
                    value = value.wrapping_add(1);
                };
                *slot = Some(id);
            }
        }
    }

    /// The id of an object, 0 (no valid id) if it was never added.
    pub fn id(&self, kind: Prefix, name: &str) -> u32 {
        self.kinds.get(&(kind as u32)).and_then(|t| t.get(name).copied().flatten()).unwrap_or(0)
    }

    /// The shortest suffix of path components that no other object shares.
    pub fn alias<'a>(&self, name: &'a str) -> &'a str {
        suffixes(name).find(|s| self.suffixes.get(*s) == Some(&1)).unwrap_or(name)
    }
}

/// The suffixes of a dotted name, shortest first: `c`, `b.c`, `a.b.c`.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    name.rmatch_indices('.').map(|(at, _)| &name[at + 1..]).chain(std::iter::once(name))
}

/// Ids of match fields, parameters and packet metadata: `@id` where given, the others count from 1 and step over ids
/// that are taken (again as the reference compiler does: a field's position decides where its count starts).
///
/// # Errors
/// `@id(0)`, or an id given twice.
pub(super) fn field_ids(given: &[Option<u32>]) -> Result<Vec<u32>, Flaw> {
    let mut taken = BTreeSet::new();
    for id in given.iter().flatten() {
        if *id == 0 {
            return Err(Flaw::IdZero);
        }
        if !taken.insert(*id) {
            return Err(Flaw::IdTwice(*id));
        }
    }
    let mut next = 1;
    let mut ids = Vec::with_capacity(given.len());
    for id in given {
        ids.push(match id {
            Some(id) => {
                next += 1;
                *id
            }
            None => {
                while !taken.insert(next) {
                    next += 1;
                }
                next
            }
        });
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_values() {
        // Bob Jenkins' function is checked by widely published values.
        assert_eq!(one_at_a_time(b"a"), 0xca2e_9442);
        assert_eq!(one_at_a_time(b"The quick brown fox jumps over the lazy dog"), 0x519e_91f5);
    }

    #[test]
    fn ids_are_those_of_the_reference_compiler() {
        let mut s = Symbols::default();
        s.add(Prefix::Action, "NoAction", None).expect("fresh");
        s.assign();
        // NoAction has this id in every P4Info that p4c writes.
        assert_eq!(s.id(Prefix::Action, "NoAction"), 21257015);
    }

    #[test]
    fn given_ids_win() {
        let mut s = Symbols::default();
        let hashed = 1u32 << 24 | one_at_a_time(b"b") & 0xff_ffff;
        s.add(Prefix::Action, "a", Some(hashed)).expect("fresh");
        s.add(Prefix::Action, "b", None).expect("fresh");
        s.assign();
        assert_eq!(s.id(Prefix::Action, "a"), hashed);
        assert_eq!(s.id(Prefix::Action, "b"), hashed + 1);
        assert_eq!(s.id(Prefix::Table, "b"), 0);
    }

    #[test]
    fn bad_ids() {
        let mut s = Symbols::default();
        s.add(Prefix::Table, "t", Some(0x0212_ab34)).expect("the right prefix");
        assert_eq!(s.add(Prefix::Table, "u", Some(0x12_ab34)), Err(Flaw::IdTaken(0x0212_ab34)));
        let e = s.add(Prefix::Table, "v", Some(0x0100_0001)).expect_err("an action's");
        assert_eq!(e, Flaw::IdKind { id: 0x0100_0001, kind: Prefix::Table });
        assert!(e.to_string().contains("use 0x02000001"), "{e}");
        s.add(Prefix::Action, "w", Some(0x12_ab34)).expect("another kind");
        s.assign();
        assert_eq!(s.id(Prefix::Action, "w"), 0x0112_ab34);
    }

    #[test]
    fn aliases() {
        let mut s = Symbols::default();
        for name in ["s.c1.t", "s.c2.t", "x", "a.x", "q.r"] {
            s.add(Prefix::Table, name, None).expect("fresh");
        }
        let check = |name: &str, alias: &str| assert_eq!(s.alias(name), alias);
        check("s.c1.t", "c1.t");
        check("s.c2.t", "c2.t");
        check("x", "x");
        check("a.x", "a.x");
        check("q.r", "r");
    }

    #[test]
    fn fields() {
        let check = |given: &[Option<u32>], ids: &[u32]| assert_eq!(field_ids(given).expect("valid"), ids);
        check(&[None, None], &[1, 2]);
        check(&[Some(2), None], &[2, 3]);
        check(&[None, Some(1), None], &[2, 1, 3]);
        assert!(field_ids(&[Some(0)]).is_err());
        assert!(field_ids(&[Some(4), Some(4)]).is_err());
    }
}
