//! A store whose state is in etcd. Of several with one prefix one serves; the others wait to take its place.

use super::asker::Asker;
use super::error::StoreError;
use crate::etcd::Settings;
use crate::log::Level;
use crate::metrics::store::DiskStats;
use pointsman_etcd::{Answer, Compare, Entry, Failure, Op, Request, Txn};
use pointsman_store::{Config, Holding, HoldingError, LoadError, Member, Outbox, Saved, Standby, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;

/// Rows of a commit, after which no further request is handled before it is made. Etcd takes 128 operations in a transaction unless configured
/// otherwise: one is for the store's place, and one request changes fewer rows than are left.
const ROWS: usize = 100;
/// Rows that are read at once.
const PAGE: usize = 500;
/// A store that serves commits at least so often in the time after which it is suspected, and others look so often.
const LOOKS: u64 = 5;

/// Settings of a store whose state is in etcd.
pub(super) struct SharedSettings {
    /// This run of the store.
    pub me: Member,
    /// Where etcd is.
    pub etcd: Settings,
    /// What all keys begin with.
    pub prefix: String,
    /// Silence after which the store that serves has failed.
    pub suspect_ns: u64,
}

/// Why the state in etcd cannot be used now.
#[derive(Debug)]
pub(super) enum SharedError {
    /// No answer, or a refusal.
    Etcd(Failure),
    /// The key of the place has something else.
    Foreign(String, HoldingError),
    /// A row cannot be loaded: its key.
    Row(String, LoadError),
    /// The place was taken while the rows were read.
    Lost,
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SharedError::Etcd(e) => write!(f, "etcd does not answer: {e}"),
            SharedError::Foreign(key, e) => {
                write!(
                    f,
                    "key {key} in etcd: {e}; give another --etcd-prefix, or delete the key if no store uses it"
                )
            }
            SharedError::Row(key, LoadError::Full) => {
                write!(f, "{}, at key {key} in etcd: give a larger --max-keys", LoadError::Full)
            }
            SharedError::Row(key, e) => {
                write!(f, "key {key} in etcd has {e}: restore etcd from a copy, or delete the key")
            }
            SharedError::Lost => f.write_str("another store took the place"),
        }
    }
}

impl Error for SharedError {}

/// The keys in etcd.
struct Keys {
    asker: Asker,
    /// Who serves.
    holder: String,
    /// What rows begin with.
    rows: String,
}

/// The name of a row: bytes as text.
fn row_name(prefix: &str, key: &[u8]) -> String {
    let digits = key.iter().flat_map(|b| [b >> 4, b & 15]);
    prefix.chars().chain(digits.filter_map(|d| char::from_digit(d.into(), 16))).collect()
}

/// The bytes of a row's name.
fn row_key(name: &str, prefix: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        name.strip_prefix(prefix)?.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

impl Keys {
    /// The place: its revision and value; 0 and `None` if there is none.
    fn place(&mut self) -> Result<(i64, Option<Holding>), SharedError> {
        let Some(entry) = self.asker.entry(&self.holder).map_err(SharedError::Etcd)? else {
            return Ok((0, None));
        };
        let holding = String::from_utf8_lossy(&entry.value).parse();
        let holding = holding.map_err(|e| SharedError::Foreign(self.holder.clone(), e))?;
        Ok((entry.modified, Some(holding)))
    }

    /// Replaces the place, and changes rows, if it still has this revision. Returns its next one, `None`: it has another one.
    fn commit(
        &mut self,
        revision: i64,
        next: &Holding,
        mut rows: Vec<Op>,
    ) -> Result<Option<i64>, SharedError> {
        rows.push(Op::Put { key: self.holder.clone(), value: next.to_string().into(), lease: 0 });
        let compares = vec![Compare::Modified { key: self.holder.clone(), revision }];
        let txn = Txn { compares, then: rows, ..Txn::default() };
        match self.asker.ask(Request::Txn(txn)).map_err(SharedError::Etcd)? {
            Answer::Txn { succeeded, revision, .. } => Ok(succeeded.then_some(revision)),
            _ => Err(SharedError::Etcd(Failure::Unknown("an answer to something else".into()))),
        }
    }

    /// The rows behind this one.
    fn page(&mut self, after: &str) -> Result<Vec<Entry>, SharedError> {
        let page = Request::Page { prefix: self.rows.clone(), after: after.into(), most: PAGE as i64 };
        match self.asker.question(&page).map_err(SharedError::Etcd)? {
            Answer::Range { entries, .. } => Ok(entries),
            _ => Err(SharedError::Etcd(Failure::Unknown("an answer to something else".into()))),
        }
    }
}

/// The place of a store that serves.
struct Place {
    revision: i64,
    holding: Holding,
    /// The last commit may have been made: the place must be read before the next one.
    unsure: bool,
}

/// A store with its state in etcd.
pub(super) struct Shared {
    /// Empty unless this store serves.
    pub store: Store<SocketAddr>,
    /// What is to be sent after the next commit.
    pub out: Outbox<SocketAddr>,
    config: Config,
    keys: Keys,
    me: Member,
    standby: Standby,
    place: Option<Place>,
    /// Between two commits without changes, and between two looks at another store's place.
    every: u64,
    /// When the next one is due.
    due: u64,
    /// Etcd did not take the last commit, or did not answer.
    stuck: bool,
    /// Who served when that was last logged.
    logged: Option<Member>,
    stats: DiskStats,
}

impl Shared {
    pub fn open(settings: SharedSettings, config: Config) -> Result<Self, StoreError> {
        let SharedSettings { me, etcd, prefix, suspect_ns } = settings;
        let config = Config { durable: true, ..config };
        let asker = Asker::new(&etcd).map_err(StoreError::Asker)?;
        Ok(Shared {
            store: Store::new(config.clone()).map_err(StoreError::Config)?,
            out: Outbox::default(),
            standby: Standby::new(me.clone(), config.hold_ns(), suspect_ns),
            config,
            keys: Keys { asker, holder: format!("{prefix}holder"), rows: format!("{prefix}row/") },
            me,
            place: None,
            every: suspect_ns / LOOKS,
            due: 0,
            stuck: false,
            logged: None,
            stats: DiskStats::default(),
        })
    }

    /// Commits to etcd.
    pub fn stats(&self) -> DiskStats {
        self.stats
    }

    /// Whether it serves.
    pub fn serves(&self) -> bool {
        self.place.is_some()
    }

    /// Whether etcd does not take its changes.
    pub fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// Whether requests are to be handled now.
    fn is_open(&self) -> bool {
        self.serves() && !self.stuck && self.store.unsaved() < ROWS
    }

    /// When something is due.
    pub fn deadline(&self) -> u64 {
        let store = self.store.deadline().filter(|_| self.is_open());
        store.map_or(self.due, |at| at.min(self.due))
    }

    /// Does what is due in the store.
    pub fn wake(&mut self, now: u64) {
        while self.is_open() && self.store.wake_one(now, &mut self.out) {}
    }

    /// A datagram of a switch; whether another one may follow before the next commit. Others than the store that serves do not answer.
    pub fn receive(&mut self, now: u64, from: SocketAddr, bytes: &[u8]) -> bool {
        if self.is_open() {
            self.store.receive(now, from, bytes, &mut self.out);
        }
        !self.serves() || self.stuck || self.is_open()
    }

    /// Commits what there is, or looks at the place of the store that serves. What is in the outbox then is to be sent.
    pub fn keep(&mut self, clock: impl Fn() -> u64, log: &mut dyn FnMut(Level, &str)) {
        let is_due = self.due <= clock();
        let result = match &self.place {
            Some(_)
                if is_due
                    || !self.stuck && (self.out.iter().next().is_some() || self.store.unsaved() > 0) =>
            {
                self.commit(clock(), false, log)
            }
            None if is_due => self.look(&clock, log),
            _ => return,
        };
        self.due = clock() + self.every;
        match result {
            Ok(()) => {
                if std::mem::take(&mut self.stuck) {
                    log(Level::Info, "etcd answers again");
                }
            }
            Err(e) => {
                self.stats.failures += 1;
                self.out.clear();
                if !std::mem::replace(&mut self.stuck, true) {
                    log(Level::Error, &format!("{e}; this store answers no switch until this is over"));
                }
            }
        }
    }

    /// Commits all changes, and confirms the place.
    fn commit(&mut self, now: u64, left: bool, log: &mut dyn FnMut(Level, &str)) -> Result<(), SharedError> {
        let rows = ops(&self.keys.rows, &self.store);
        let Some(place) = &mut self.place else { return Ok(()) };
        if place.unsure {
            match self.keys.place()? {
                (revision, Some(holding)) if holding.store == self.me => {
                    (place.revision, place.unsure) = (revision, false);
                }
                (_, other) => {
                    self.lose(other, log);
                    return Ok(());
                }
            }
        }
        let next = Holding {
            commits: place.holding.commits + 1,
            left,
            last_grant: self.store.last_grant(),
            begins: place.holding.begins && self.store.holds_back(now),
            ..place.holding.clone()
        };
        let count = rows.len() as u64;
        place.unsure = true;
        match self.keys.commit(place.revision, &next, rows)? {
            Some(revision) => {
                *place = Place { revision, holding: next, unsure: false };
                self.store.saved();
                self.stats.commits += 1;
                self.stats.rows += count;
                Ok(())
            }
            // It is read with the next commit: a former one that seemed to fail may have been made.
            None => Err(SharedError::Lost),
        }
    }

    /// Another store has the place: what this one knows is worth nothing.
    fn lose(&mut self, other: Option<Holding>, log: &mut dyn FnMut(Level, &str)) {
        let who =
            other.map_or("its key in etcd is missing".to_string(), |o| format!("{} took its place", o.store));
        log(Level::Warn, &format!("this store serves no longer: {who}"));
        self.place = None;
        self.out.clear();
        self.standby.missed();
        if let Ok(store) = Store::new(self.config.clone()) {
            self.store = store;
        }
    }

    /// Looks who serves, and takes the place if it is free.
    fn look(
        &mut self,
        clock: &impl Fn() -> u64,
        log: &mut dyn FnMut(Level, &str),
    ) -> Result<(), SharedError> {
        let (revision, present) = self.keys.place().inspect_err(|_| self.standby.missed())?;
        let Some(mine) = self.standby.read(clock(), revision, present.as_ref()) else {
            if let Some(other) = present.map(|p| p.store).filter(|other| self.logged.as_ref() != Some(other))
            {
                log(Level::Info, &format!("standby: {other} serves"));
                self.logged = Some(other);
            }
            return Ok(());
        };
        let Some(revision) = self.keys.commit(revision, &mine, Vec::new())? else { return Ok(()) };
        // Whatever another store granted was committed before this moment.
        let now = clock();
        let mut place = Place { revision, holding: mine, unsure: false };
        let mut store = Store::new(self.config.clone()).map_err(|_| SharedError::Lost)?;
        store.continue_grants(place.holding.last_grant);
        if place.holding.begins {
            store.hold_back(now);
        }
        self.load(now, clock, &mut place, &mut store)?;
        log(Level::Info, &format!("this store serves: {} keys in etcd", store.keys()));
        (self.store, self.place, self.logged) = (store, Some(place), None);
        Ok(())
    }

    /// Reads all rows, and confirms the place meanwhile.
    fn load(
        &mut self,
        now: u64,
        clock: &impl Fn() -> u64,
        place: &mut Place,
        store: &mut Store<SocketAddr>,
    ) -> Result<(), SharedError> {
        let (mut after, mut confirmed) = (String::new(), now);
        loop {
            let entries = self.keys.page(&after)?;
            for entry in &entries {
                let row = row_key(&entry.key, &self.keys.rows).ok_or(LoadError::Malformed);
                let loaded = row.and_then(|row| {
                    store.load(now, place.holding.hold_ns, Saved::decode(&row, &entry.value)?)
                });
                loaded.map_err(|e| SharedError::Row(entry.key.clone(), e))?;
            }
            match entries.last() {
                Some(last) if entries.len() == PAGE => after.clone_from(&last.key),
                _ => return Ok(()),
            }
            if clock() >= confirmed + self.every {
                confirmed = clock();
                place.revision =
                    self.keys.commit(place.revision, &place.holding, Vec::new())?.ok_or(SharedError::Lost)?;
            }
        }
    }

    /// Commits what there is, and leaves the place to others.
    pub fn leave(&mut self, now: u64, log: &mut dyn FnMut(Level, &str)) {
        if let Err(e) = self.commit(now, true, log) {
            log(
                Level::Warn,
                &format!("{e}; other stores take over when this one has been silent for a while"),
            );
        }
    }
}

/// The changes of a store as one transaction, in which etcd allows no key twice.
fn ops(rows: &str, store: &Store<SocketAddr>) -> Vec<Op> {
    let put = |(key, value): (Vec<u8>, _)| Op::Put { key: row_name(rows, &key), value, lease: 0 };
    let changed: BTreeMap<Vec<u8>, Vec<u8>> = store.changes().map(|saved| saved.encode()).collect();
    let removed: BTreeSet<&[u8]> = store.removed().filter(|key| !changed.contains_key(*key)).collect();
    let removed: Vec<Op> = removed.iter().map(|key| Op::Delete { key: row_name(rows, key) }).collect();
    removed.into_iter().chain(changed.into_iter().map(put)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pointsman_store::{Flags, Head, Kind, Message, Secret};

    /// Asks for a key; a fixed one is kept for 3 ms.
    pub fn request(flags: Flags, secret: Secret) -> Vec<u8> {
        let head = Head { flags, lease_us: if flags.fixed { 3 } else { 0 }, ..Head::of(Kind::New, 1) };
        let mut bytes = Vec::new();
        Message { head, key: b"key1", value: &[0; 4], packet: b"" }.encode(secret, &mut bytes);
        bytes
    }

    /// A fixed key ends and is asked for again before the store has removed it.
    #[test]
    fn a_transaction_has_each_key_once() {
        let config = Config { durable: true, ..Config::default() };
        let mut store = Store::new(config.clone()).expect("settings");
        let from = SocketAddr::from(([10, 0, 0, 1], 4791));
        let asked = request(Flags { fixed: true, ..Flags::default() }, config.secret);
        let mut out = Outbox::default();
        store.receive(0, from, &asked, &mut out);
        assert_eq!(ops("/row/", &store).len(), 1);
        store.saved();
        store.receive(10_000_000, from, &asked, &mut out);
        assert_eq!((store.removed().count(), store.changes().count()), (1, 1));
        let ops = ops("/row/", &store);
        assert!(matches!(&ops[..], [Op::Put { key, .. }] if key == "/row/00006b657931"), "{ops:?}");
    }

    #[test]
    fn rows_have_names() {
        let name = row_name("/p/row/", &[0, 0x1f, 0xa0]);
        assert_eq!(name, "/p/row/001fa0");
        assert_eq!(row_key(&name, "/p/row/"), Some(vec![0, 0x1f, 0xa0]));
        for wrong in ["/p/row/001", "/p/row/0g", "/q/row/00", "/p/row/0\u{e4}"] {
            assert_eq!(row_key(wrong, "/p/row/"), None, "{wrong}");
        }
    }
}
