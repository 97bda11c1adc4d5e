//! Rules that are switched off, to see that the search finds what breaks.

use pointsman_store::{Config, Rule};

/// What is changed.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// A text of the library is replaced by another.
    Library(&'static str, &'static str),
    /// A rule of the store is switched off.
    Store(Rule),
    /// The store does not add the drift to leases.
    StoreDrift,
    /// A restarted switch has its old incarnation.
    SameIncarnation,
}

impl Change {
    /// Its replacement in the library.
    pub fn library(self) -> Option<(&'static str, &'static str)> {
        match self {
            Change::Library(from, to) => Some((from, to)),
            _ => None,
        }
    }

    /// Its part in the store's settings.
    pub fn apply(self, config: &mut Config) {
        match self {
            Change::Store(rule) => config.without = Some(rule),
            // 1/65536 of the lease, the least that the store takes.
            Change::StoreDrift => config.drift_shift = 16,
            Change::Library(..) | Change::SameIncarnation => {}
        }
    }
}

/// A rule that is switched off.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// Its name.
    pub name: &'static str,
    /// The rule of docs/redplane.md.
    pub rule: &'static str,
    /// What is wrong then.
    pub what: &'static str,
    /// How.
    pub change: Change,
    /// A scope that finds it.
    pub scope: &'static str,
}

/// All mutations.
pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "no-lease",
        rule: "R1",
        what: "a switch uses state after its lease",
        change: Change::Library(
            "bool leased = sm.ingress_global_timestamp < m.slot.until;",
            "bool leased = m.slot.grant != 0;",
        ),
        scope: "leases",
    },
    Mutation {
        name: "no-drift",
        rule: "R1",
        what: "a switch uses state for the whole term by its own clock",
        change: Change::Library("message.lease - (message.lease >> REDPLANE_DRIFT_SHIFT)", "message.lease"),
        scope: "leases",
    },
    Mutation {
        name: "lease-from-answer",
        rule: "R1",
        what: "a lease counts from the arrival of its answer",
        change: Change::Library("end = message.stamp[47:0] + ", "end = now + "),
        scope: "leases",
    },
    Mutation {
        name: "early-grant",
        rule: "R2",
        what: "the store grants a key while another switch has a lease (the original never checks leases)",
        change: Change::Store(Rule::LeaseEnds),
        scope: "order",
    },
    Mutation {
        name: "no-store-drift",
        rule: "R2",
        what: "the store waits for the term only, by its own clock",
        change: Change::StoreDrift,
        scope: "leases",
    },
    Mutation {
        name: "renewal-takes",
        rule: "R3",
        what: "requests under an old grant are accepted (in the paper's model, a renewal takes ownership)",
        change: Change::Store(Rule::Grants),
        scope: "order",
    },
    Mutation {
        name: "older-writes",
        rule: "R4",
        what: "an older write replaces a newer one",
        change: Change::Store(Rule::Newer),
        scope: "order",
    },
    Mutation {
        name: "no-wrap",
        rule: "R4",
        what: "sequence numbers are compared as plain numbers: writes after the wrap are acknowledged and dropped",
        change: Change::Store(Rule::Serial),
        scope: "wrap",
    },
    Mutation {
        name: "restarted-numbers",
        rule: "R4",
        what: "a new owner starts its sequence numbers again, so that its writes are acknowledged and dropped (as in the original)",
        change: Change::Store(Rule::Carried),
        scope: "order",
    },
    Mutation {
        name: "early-output",
        rule: "R5",
        what: "an output leaves before its write is acknowledged",
        change: Change::Library(
            "request.apply(outer, message, m, sm, REDPLANE_WRITE, flags, (bit<16>)port);",
            "",
        ),
        scope: "order",
    },
    Mutation {
        name: "early-stage",
        rule: "R5",
        what: "a packet continues with the second object before its change of the first one is stored",
        change: Change::Library(
            "request.apply(outer, message, m, sm, REDPLANE_WRITE, flags, (bit<16>)port);",
            "if (m.stage == 0) { request.apply(outer, message, m, sm, REDPLANE_WRITE, flags, (bit<16>)port); }",
        ),
        scope: "objects",
    },
    Mutation {
        name: "no-checksum",
        rule: "IPv6",
        what: "messages over IPv6 have no checksum, so that the store's host drops them",
        change: Change::Library(
            "REDPLANE_COMPUTE(hdr.outer, hdr.redplane, meta.redplane, hdr.ethernet, hdr.ipv4, hdr.ports);",
            "",
        ),
        scope: "ipv6",
    },
    Mutation {
        name: "early-reads",
        rule: "R6",
        what: "a packet that reads does not wait for the writes that it saw",
        change: Change::Library("flags != 0 && m.slot.sent != m.slot.acked", "false"),
        scope: "two-packets",
    },
    Mutation {
        name: "no-resend",
        rule: "R7",
        what: "a lost write is not sent again",
        change: Change::Library("recirculate_preserving_field_list(0);", "mark_to_drop(sm);"),
        scope: "order",
    },
    Mutation {
        name: "late-refusal",
        rule: "R7",
        what: "with a full buffer a write is refused after the state has changed",
        change: Change::Library(
            "redplane_counts.count(REDPLANE_COUNT_BUFFER);",
            "redplane_counts.count(REDPLANE_COUNT_BUFFER); redplane_values.write(m.index, m.value);",
        ),
        scope: "buffer",
    },
    Mutation {
        name: "doubled-packets",
        rule: "R8",
        what: "every answer to a request releases its packet",
        change: Change::Library("(m.slot.taken & bit_of) == 0", "true"),
        scope: "two-packets",
    },
    Mutation {
        name: "late-grants",
        rule: "R8",
        what: "a late answer gives a key that was given up since",
        change: Change::Library("m.slot.generation == message.generation && ", ""),
        scope: "two-packets",
    },
    Mutation {
        name: "kept-after-recall",
        rule: "R2",
        what: "a switch that releases a key continues to use it",
        change: Change::Library(
            "                if (same) {\n                    give_up();\n                }\n",
            "",
        ),
        scope: "order",
    },
    Mutation {
        name: "same-incarnation",
        rule: "R9",
        what: "a restarted switch looks like the one before",
        change: Change::SameIncarnation,
        scope: "restarts",
    },
    Mutation {
        name: "early-writer",
        rule: "R13",
        what: "the store grants a key to a switch that writes while others may read it",
        change: Change::Store(Rule::Readers),
        scope: "readers",
    },
    Mutation {
        name: "readers-after-recall",
        rule: "R13",
        what: "a switch that releases a shared lease continues to use it",
        change: Change::Library(
            "                if (same) {\n                    give_up();\n                }\n",
            "",
        ),
        scope: "readers",
    },
    Mutation {
        name: "writing-reader",
        rule: "R13",
        what: "a switch changes the state under a shared lease",
        change: Change::Library(
            "            m.held = false;\n            give_up.apply(m);\n            ask.apply(outer, message, m, sm, REDPLANE_NEW);\n",
            "            m.slot.value = m.value;\n            redplane_values.write(m.index, m.value);\n",
        ),
        scope: "readers",
    },
    Mutation {
        name: "reading-writer",
        rule: "R13",
        what: "a switch continues to read under its shared lease after it has asked for the exclusive one",
        change: Change::Library(
            "            m.held = false;\n            give_up.apply(m);\n",
            "            m.held = false;\n            m.slot.generation = m.slot.generation + 1;\n",
        ),
        scope: "two-writers",
    },
    Mutation {
        name: "forgotten-readers",
        rule: "R13",
        what: "a new head does not know the readers",
        change: Change::Store(Rule::ReadersKept),
        scope: "chain-readers",
    },
    Mutation {
        name: "present-values",
        rule: "R11",
        what: "a snapshot has the values at the time of sending",
        change: Change::Library(
            "            value = frozen;\n        } else {",
            "            value = present;\n        } else {",
        ),
        scope: "snapshots",
    },
    Mutation {
        name: "one-copy",
        rule: "R11",
        what: "a cell is not copied when it is touched first after a snapshot",
        change: Change::Library("if (last != m.active) {", "if (false) {"),
        scope: "snapshots",
    },
    Mutation {
        name: "other-snapshots",
        rule: "R11",
        what: "a cell of an earlier snapshot that is acknowledged counts for this one",
        change: Change::Library(
            "p.stage == REDPLANE_LIVE && message.sequence == p.number",
            "p.stage == REDPLANE_LIVE",
        ),
        scope: "two-snapshots",
    },
    Mutation {
        name: "counts-while-filled",
        rule: "R11",
        what: "packets are counted before all cells are here",
        change: Change::Library("!leased || p.stage != REDPLANE_LIVE", "!leased"),
        scope: "snapshots",
    },
    Mutation {
        name: "head-answers",
        rule: "R10",
        what: "the head answers, before the chain has the change",
        change: Change::Store(Rule::TailAnswers),
        scope: "chain-head",
    },
    Mutation {
        name: "older-views",
        rule: "R10",
        what: "messages of older views, and of nodes that are no longer in front, are accepted",
        change: Change::Store(Rule::Views),
        scope: "chain-head",
    },
    Mutation {
        name: "no-copy",
        rule: "R10",
        what: "a node joins without the data",
        change: Change::Store(Rule::Copies),
        scope: "chain-join",
    },
    Mutation {
        name: "no-handing-over",
        rule: "R10",
        what: "the tail answers alone until it knows that another node is the tail",
        change: Change::Store(Rule::HandsOver),
        scope: "chain-join",
    },
    Mutation {
        name: "leases-end-with-the-head",
        rule: "R10",
        what: "a new head forgets the leases",
        change: Change::Store(Rule::LeasesKept),
        scope: "chain-head",
    },
];
