//! A table's data about its entries besides the entries: counters, meters, times.

use crate::counter::CounterCell;
use crate::meter::Meter;
use crate::time::Time;
use pointsman_ir::EntryHandle;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table's data about one entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryInfo {
    pub counter: CounterCell,
    pub meter: Meter,
    pub last_hit: Time,
    /// When its idle timer runs out; other timers of the entry are stale.
    pub timer: Option<Time>,
}

/// Handles are given out one after the other, so neighbours share a page: a plain map would take twice the memory.
const PAGE: usize = 16;

#[derive(Clone, Debug, Default)]
struct Page {
    infos: [Option<EntryInfo>; PAGE],
    used: usize,
}

/// A map from handles. Packets look here, and handles cannot be chosen by clients, so a product suffices as hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct InfoMap {
    // Never iterated.
    pages: HashMap<u64, Box<Page>, BuildHasherDefault<Product>>,
}

/// Hashes one number.
#[derive(Clone, Debug, Default)]
struct Product(u64);

impl Hasher for Product {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, n: u64) {
        // The map takes bits from both ends.
        self.0 = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

fn split(handle: EntryHandle) -> (u64, usize) {
    (handle.0 / PAGE as u64, handle.0 as usize % PAGE)
}

impl InfoMap {
    pub fn get(&self, handle: &EntryHandle) -> Option<&EntryInfo> {
        let (page, at) = split(*handle);
        self.pages.get(&page)?.infos[at].as_ref()
    }

    pub fn get_mut(&mut self, handle: &EntryHandle) -> Option<&mut EntryInfo> {
        let (page, at) = split(*handle);
        self.pages.get_mut(&page)?.infos[at].as_mut()
    }

    /// The data about `handle`, made if missing.
    pub fn get_or_default(&mut self, handle: EntryHandle) -> &mut EntryInfo {
        let (page, at) = split(handle);
        let page = self.pages.entry(page).or_default();
        page.used += usize::from(page.infos[at].is_none());
        page.infos[at].get_or_insert_default()
    }

    /// Returns the previous data.
    pub fn insert(&mut self, handle: EntryHandle, info: EntryInfo) -> Option<EntryInfo> {
        let before = self.remove(&handle);
        *self.get_or_default(handle) = info;
        before
    }

    pub fn remove(&mut self, handle: &EntryHandle) -> Option<EntryInfo> {
        let (number, at) = split(*handle);
        let page = self.pages.get_mut(&number)?;
        let info = page.infos[at].take()?;
        page.used -= 1;
        if page.used == 0 {
            self.pages.remove(&number);
        }
        Some(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_and_go() {
        let mut map = InfoMap::default();
        for i in 1..100u64 {
            map.insert(EntryHandle(i), EntryInfo { last_hit: Time(i), ..EntryInfo::default() });
        }
        assert_eq!(map.pages.len(), 7);
        map.get_or_default(EntryHandle(50)).timer = Some(Time(1));
        assert_eq!(map.get(&EntryHandle(50)).map(|i| (i.last_hit, i.timer)), Some((Time(50), Some(Time(1)))));
        assert!(map.get(&EntryHandle(100)).is_none() && map.get_mut(&EntryHandle(1000)).is_none());
        for i in (1..100).rev() {
            assert_eq!(map.remove(&EntryHandle(i)).map(|i| i.last_hit), Some(Time(i)));
            assert!(map.remove(&EntryHandle(i)).is_none());
        }
        assert!(map.pages.is_empty());
        assert_eq!(size_of::<Option<EntryInfo>>(), 48);
    }
}
