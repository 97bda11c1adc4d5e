//! Scopes: the bounds within which all states are searched.

use super::program::Kind;

/// Rates of clocks, in eighths of true time: those of the switches, and that of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// For messages.
    pub name: &'static str,
    /// Of the switches.
    pub switches: [u64; 2],
    /// Of the store.
    pub store: u64,
}

/// True time.
pub const EXACT: Clocks = Clocks { name: "exact clocks", switches: [8, 8], store: 8 };
/// A lease seems shorter to the switches than it is, and longer to the store: the end of the drift at which owners are closest.
pub const SLOW_SWITCHES: Clocks = Clocks { name: "slow switches, fast store", switches: [7, 7], store: 9 };
/// The other end.
pub const FAST_SWITCHES: Clocks = Clocks { name: "fast switches, slow store", switches: [9, 9], store: 7 };

/// Bounds of a search. Two switches and one key of each object are in all of them.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// What the switches run.
    pub kind: Kind,
    /// Packets of clients that are counted, and those that only show the count, at any switch in any order. Of a sketch: of two flows; of two objects: by two ports.
    pub packets: (u8, u8),
    /// Snapshots that switches begin.
    pub snapshots: u8,
    /// The highest grant of a sketch, for which generators ask again and again; 0: no bound.
    pub grants: u32,
    /// Restarts of switches, which then are empty.
    pub restarts: u8,
    /// Messages that arrive twice.
    pub doubles: u8,
    /// How often time passes, until a deadline or a moment before the end of a lease.
    pub passes: u8,
    /// Messages that are under way at once. Every message may be lost.
    pub under_way: usize,
    /// The search begins with each of these.
    pub clocks: &'static [Clocks],
    /// Whether the store recalls keys.
    pub recall: bool,
    /// Whether the store knows the key at the beginning.
    pub known: bool,
    /// Lines of `#define` for the library.
    pub defines: &'static str,
    /// Whether messages are sent over IPv6.
    pub ipv6: bool,
    /// Views of the store's nodes `a/1`, `b/1`, `c/1`, one after the other. None: one store, alone.
    pub views: &'static [&'static str],
    /// One of so many states is followed without faults until packets of both switches have answers.
    pub settle_every: u64,
}

const BASE: Scope = Scope {
    name: "",
    what: "",
    kind: Kind::Count,
    packets: (2, 1),
    snapshots: 0,
    grants: 0,
    restarts: 0,
    doubles: 0,
    passes: 0,
    under_way: 3,
    clocks: &[SLOW_SWITCHES],
    recall: true,
    known: false,
    defines: "",
    ipv6: false,
    views: &[],
    settle_every: 1,
};

/// A key that switches may read at the same time.
const READERS: Scope = Scope {
    packets: (1, 3),
    known: true,
    defines: "#define REDPLANE_SHARED_READS\n",
    settle_every: 16,
    ..BASE
};

/// A chain of stores.
const CHAIN: Scope = Scope { under_way: 2, settle_every: 16, ..BASE };

/// A sketch.
const SKETCH: Scope =
    Scope { kind: Kind::Sketch, under_way: 2, snapshots: 1, grants: 3, settle_every: 64, ..BASE };

/// The scope that is searched unless another is named.
pub const DEFAULT: &str = "three-packets";

/// All scopes.
pub const SCOPES: &[Scope] = &[
    Scope { name: "order", what: "three packets; messages are lost and reordered", ..BASE },
    Scope {
        name: "two-packets",
        what: "two packets; a restart, a doubled message, a pass of time, both ends of the drift",
        packets: (1, 1),
        restarts: 1,
        doubles: 1,
        passes: 1,
        clocks: &[SLOW_SWITCHES, FAST_SWITCHES],
        settle_every: 8,
        ..BASE
    },
    Scope {
        name: DEFAULT,
        what: "three packets; a restart, a doubled message",
        restarts: 1,
        doubles: 1,
        settle_every: 16,
        ..BASE
    },
    Scope {
        name: "leases",
        what: "two packets; keys change owners by the ends of leases only, time passes twice, both ends of the drift",
        packets: (1, 1),
        passes: 2,
        clocks: &[SLOW_SWITCHES, FAST_SWITCHES, EXACT],
        recall: false,
        settle_every: 4,
        ..BASE
    },
    Scope {
        name: "renewals",
        what: "three packets; time passes once, both ends of the drift",
        passes: 1,
        clocks: &[SLOW_SWITCHES, FAST_SWITCHES],
        settle_every: 16,
        ..BASE
    },
    Scope {
        name: "restarts",
        what: "two packets that are counted; two restarts, a doubled message",
        packets: (2, 0),
        restarts: 2,
        doubles: 1,
        ..BASE
    },
    Scope {
        name: "buffer",
        what: "three packets, a buffer for one write; time passes once",
        passes: 1,
        defines: "#define REDPLANE_BUFFER 1\n",
        settle_every: 16,
        ..BASE
    },
    Scope {
        name: "wrap",
        what: "three packets; sequence numbers wrap around",
        defines: "#define REDPLANE_FIRST 0xffffffff\n",
        ..BASE
    },
    Scope {
        name: "readers",
        what: "two switches read, and one writes: four packets; messages are lost and reordered",
        ..READERS
    },
    Scope {
        name: "two-writers",
        what: "two switches read and write: three packets; messages are lost and reordered",
        packets: (2, 1),
        ..READERS
    },
    Scope {
        name: "readers-restart",
        what: "two switches read, and one writes: three packets; a restart, a doubled message",
        packets: (1, 2),
        restarts: 1,
        doubles: 1,
        ..READERS
    },
    Scope {
        name: "reader-leases",
        what: "two switches read, and one writes: three packets; the key changes hands by the ends of leases only, time passes twice, both ends of the drift",
        packets: (1, 2),
        passes: 2,
        recall: false,
        clocks: &[SLOW_SWITCHES, FAST_SWITCHES],
        ..READERS
    },
    Scope {
        name: "chain-readers",
        what: "two switches read, and one writes: three packets, a chain of two stores; the first one is removed",
        packets: (1, 2),
        under_way: 2,
        views: &["1: a/1 b/1", "2: b/1"],
        ..READERS
    },
    Scope {
        name: "ipv6",
        what: "three packets; messages over IPv6 are lost and reordered",
        ipv6: true,
        ..BASE
    },
    Scope {
        name: "objects",
        what: "two objects, which packets pass one after the other: three packets by two ports; a restart, messages are lost and reordered",
        kind: Kind::Objects,
        restarts: 1,
        settle_every: 4,
        ..BASE
    },
    Scope {
        name: "snapshots",
        what: "three packets of a sketch, a snapshot of it; two owners; messages are lost",
        under_way: 1,
        ..SKETCH
    },
    Scope {
        name: "two-snapshots",
        what: "two packets of a sketch, two snapshots of it; messages are lost and reordered",
        packets: (2, 0),
        snapshots: 2,
        grants: 1,
        ..SKETCH
    },
    Scope {
        name: "chain-head",
        what: "three packets, a chain of three stores; the first one is removed",
        views: &["1: a/1 b/1 c/1", "2: b/1 c/1"],
        ..CHAIN
    },
    Scope {
        name: "chain-middle",
        what: "three packets, a chain of three stores; the second one is removed",
        views: &["1: a/1 b/1 c/1", "2: a/1 c/1"],
        ..CHAIN
    },
    Scope {
        name: "chain-tail",
        what: "three packets, a chain of three stores; the last one is removed",
        views: &["1: a/1 b/1 c/1", "2: a/1 b/1"],
        ..CHAIN
    },
    Scope {
        name: "chain-join",
        what: "two packets; a second store joins the first, which is then removed",
        packets: (1, 1),
        views: &["1: a/1", "2: a/1 + b/1", "3: a/1 b/1", "4: b/1"],
        ..CHAIN
    },
    Scope {
        name: "chain-zombie",
        what: "two packets; of a chain of two stores the first one is removed, and a third one joins",
        packets: (2, 0),
        views: &["1: a/1 b/1", "2: b/1", "3: b/1 + c/1", "4: b/1 c/1"],
        ..CHAIN
    },
];
