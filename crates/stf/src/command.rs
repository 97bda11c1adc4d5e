//! Commands of a test.

use crate::entries::{ActionText, EntryText};
use crate::generator::Numbered;
use crate::queues::Setting;
use crate::settings::Settings;
use pointsman_v1model::{CrcParams, Time};

/// A command with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line of the test, from 1.
    pub number: usize,
    /// The command.
    pub command: Command,
}

/// The number that packets and bytes are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `==`, `!=`, `<`, `<=`, `>` or `>=`.
    pub op: String,
    /// The value, as written.
    pub value: String,
}

impl Condition {
    /// Whether `ordering` (of the actual to the written number) satisfies it.
    pub fn holds(&self, ordering: std::cmp::Ordering) -> bool {
        match self.op.as_str() {
            "==" => ordering.is_eq(),
            "!=" => ordering.is_ne(),
            "<" => ordering.is_lt(),
            "<=" => ordering.is_le(),
            ">" => ordering.is_gt(),
            _ => ordering.is_ge(),
        }
    }
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // see the module's table
pub enum Command {
    Switch(Settings),
    Packet {
        port: u32,
        bytes: Vec<u8>,
    },
    /// `digits` are hexadecimal digits in lower case or `*`.
    Expect {
        port: u32,
        digits: Option<String>,
        exact: bool,
        at: Option<Time>,
    },
    NoPacket,
    /// From here on packets leave in the order of the statements that expect them.
    InOrder,
    /// The bytes of the next digest.
    ExpectDigest(Vec<u8>),
    /// The next message of the program.
    ExpectLog(String),
    /// The entries by their names.
    ExpectIdle(Vec<String>),
    /// The statement, and a part of the reason.
    Refuse {
        reason: String,
        command: Box<Command>,
    },
    /// `id` names the entry.
    Add {
        entry: EntryText,
        id: Option<String>,
    },
    SetDefault {
        table: String,
        action: ActionText,
    },
    RemoveAll,
    /// The entry that an earlier `add` named.
    RemoveNamed(String),
    /// Table, keys and priority count; the action is empty.
    Remove(EntryText),
    /// `check`: bytes rather than packets? and the condition.
    CheckCounter {
        name: String,
        index: Index,
        check: Option<(bool, Condition)>,
    },
    CounterWrite {
        name: String,
        index: Index,
        packets: u64,
        bytes: u64,
    },
    /// Without a condition it must exist.
    CheckRegister {
        name: String,
        index: u64,
        check: Option<Condition>,
    },
    /// A counter of the switch, and what it counts if there are several.
    CheckStat {
        name: String,
        of: Option<String>,
        check: Condition,
    },
    RegisterWrite {
        name: String,
        index: u64,
        value: String,
    },
    RegisterReset {
        name: String,
    },
    MeterGetRates {
        name: String,
        index: Index,
    },
    /// Rates in units per second; without an index all of them.
    MeterSetRates {
        name: String,
        index: Option<Index>,
        rates: Vec<(u64, u64)>,
    },
    /// The parameters of `crc16_custom` or `crc32_custom`, by the width.
    Crc {
        width: u32,
        params: CrcParams,
    },
    /// One copy for each port with its instance, and those of the group.
    MirroringAdd {
        session: u32,
        replicas: Vec<(u32, u16)>,
        group: Option<u32>,
        truncate_bytes: u32,
        class_of_service: u8,
    },
    MirroringDelete {
        session: u32,
    },
    MirroringGet {
        session: u32,
    },
    GroupCreate {
        group: u32,
    },
    NodeCreate {
        instance: u16,
        ports: Vec<u32>,
    },
    NodeUpdate {
        node: usize,
        ports: Vec<u32>,
    },
    Generator(Numbered),
    Queue(Setting),
    PortStatus {
        port: u32,
        up: bool,
    },
    NodeAssociate {
        group: u32,
        node: usize,
    },
    MemberCreate {
        profile: String,
        member: u32,
        action: ActionText,
    },
    /// Members with weights and watched ports; without a limit if `max_size` is 0.
    ProfileGroupCreate {
        profile: String,
        group: u32,
        members: Vec<(u32, u32, Option<u32>)>,
        max_size: u32,
    },
    ValueSetAdd {
        name: String,
        fields: Vec<String>,
    },
    Wait {
        ns: u64,
    },
    /// Time from one packet to the next.
    Step {
        ns: u64,
    },
}

/// A cell of a counter or meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Index {
    /// Of an array.
    At(u64),
    /// Of the entry with this id.
    Entry(String),
    /// Of the default action.
    Default,
}

impl std::fmt::Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Index::At(i) => i.fmt(f),
            Index::Entry(id) => write!(f, "${id}"),
            Index::Default => f.write_str("default"),
        }
    }
}
