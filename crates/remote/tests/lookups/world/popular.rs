//! The switch's cache, and flows whose popularity changes.

use super::super::setup::{AGE, hex};
use super::{Event, Keeps, World};
use pointsman_ir::table::{self, KeyMatch};
use pointsman_ir::{Executor, Value};
use pointsman_remote::Entry;
use pointsman_stf::entries::find_table;

impl<E: Executor + Send + Sync> World<E> {
    /// The next packet's.
    pub(super) fn flow(&mut self) -> u32 {
        let any = self.random.below(self.settings.flows.into()) as u32;
        if self.settings.cache.is_none() || self.random.below(2) == 0 {
            return any;
        }
        (self.now / (4 * AGE) * 8 + self.random.below(8)) as u32 % self.settings.flows
    }

    /// The controller reads the cache's counters.
    pub(super) fn age(&mut self) {
        self.reported.clear();
        if self.now >= self.end {
            return;
        }
        let hits = self.hits();
        let from = self.table.cache_hits(hits.iter().map(|(k, n)| (&k[..], *n)));
        self.rig.write_register("tea_hot", 0, &from.to_string()).expect("the register");
        self.enter(AGE, Event::Age);
    }

    /// The cache's counters.
    fn hits(&mut self) -> Vec<(Vec<u8>, u64)> {
        let table = find_table(self.rig.program(), "tea_cache").expect("the cache");
        let state = self.rig.state();
        let key = |entry: &table::Entry| match entry.matches.first() {
            Some(KeyMatch::Exact(key)) => key.to_be_bytes(),
            other => panic!("{other:?}"),
        };
        let entries: Vec<_> = state.entries(table).map(|(handle, entry)| (handle, key(&entry))).collect();
        let counter = |handle| state.direct_counter(table, Some(handle)).expect("a counter").packets;
        entries.into_iter().map(|(handle, key)| (key, counter(handle))).collect()
    }

    /// The data plane's reports: a key once in an age, except where its time stamp is of the next one.
    pub(super) fn popular(&mut self) {
        for digest in self.rig.switch.take_digests() {
            let Value::Struct(fields) = &digest.data else { panic!("{digest:?}") };
            let Some(Value::Bits(key)) = fields.first() else { panic!("{digest:?}") };
            let key = key.to_be_bytes();
            if !self.reported.insert(key.clone()) {
                self.wrong.push(format!("{key:02x?} is reported twice in an age"));
            }
            self.table.popular(&key);
            self.act();
        }
    }

    pub(super) fn cache(&mut self, key: Vec<u8>, entry: Entry) {
        let is_new = self.cached.insert(key.clone());
        if is_new || self.settings.cache == Some(Keeps::All) {
            let entry = entry.map_or("absent()".into(), |v| format!("cached(value=0x{})", hex(&v)));
            let text = format!("tea_cache key=0x{} -> {entry}", hex(&key));
            self.rig.set(&text).expect("room in the cache");
        }
    }

    pub(super) fn uncache(&mut self, key: &[u8]) {
        self.cached.remove(key);
        self.evicted += 1;
        let text = format!("tea_cache key=0x{} -> absent()", hex(key));
        self.rig.remove(&text).expect("an entry of the cache");
    }
}
