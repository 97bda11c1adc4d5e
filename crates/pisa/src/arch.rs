//! What architectures say of their blocks and externs, as data.

/// Where a block runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the stages, or behind them: its statements take no stage.
    Outside,
    /// In the stages.
    Stages,
}

/// A direction through the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gress {
    /// Before the queues.
    Ingress,
    /// Behind them.
    Egress,
}

/// A block of an architecture: the parameter of its package.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Name of the package's parameter.
    pub parameter: &'static str,
    /// Its direction.
    pub gress: Gress,
    /// Where it runs.
    pub phase: Phase,
}

/// What a call of an extern does. Arguments are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing that takes part of a chip.
    Nothing,
    /// Sets something that the parser, the traffic manager or the deparser looks at: an instruction.
    Signal,
    /// Sets fields of the struct that is argument `of`: an instruction.
    Sets {
        /// Number of the argument.
        of: usize,
        /// Names of the fields.
        fields: &'static [&'static str],
    },
    /// A checksum, computed by the parser or the deparser.
    Checksum,
    /// A hash. Its result goes to its `out` argument, or is returned.
    Hash {
        /// The argument that is hashed; none: a random number.
        data: Option<usize>,
    },
    /// Reads or writes a cell. What is read goes to the `out` argument, or is returned.
    Access {
        /// The argument with the index; none: the table's entry.
        index: Option<usize>,
        /// The argument that is written.
        writes: Option<usize>,
    },
    /// Runs the object's code ([`PROGRAM`]) on a cell of the array that is an argument of its constructor. Results go to the
    /// `out` arguments, or are returned.
    Program {
        /// The argument with the index; none: the table's entry, or a place that the array itself keeps.
        index: Option<usize>,
    },
}

/// The method with the code that runs on a cell. Its first parameter is the cell.
pub const PROGRAM: &str = "apply";

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// A register array.
    Register,
    /// Counters of packets, of bytes or of both.
    Counter,
    /// Meters.
    Meter,
    /// Members of an action profile.
    Profile,
    /// The same with a choice among groups of members.
    Selector,
}

/// An architecture.
#[derive(Clone, Copy, Debug)]
pub struct Arch {
    /// Name of its package.
    pub package: &'static str,
    /// Its blocks, in the order in which packets see them. Controls and parsers of other names count as ingress.
    pub blocks: &'static [Block],
    /// Whether ingress and egress have the same headers and metadata.
    pub shares: bool,
    /// Functions (without an object), and methods of objects.
    pub calls: &'static [(&'static str, &'static str, Role)],
    /// Objects with memory, and the name of the argument with their size; an empty one: the table's.
    pub objects: &'static [(&'static str, Memory, &'static str)],
}

const fn block(parameter: &'static str, gress: Gress, phase: Phase) -> Block {
    Block { parameter, gress, phase }
}

const fn read(index: usize) -> Role {
    Role::Access { index: Some(index), writes: None }
}

const fn write(index: usize, value: usize) -> Role {
    Role::Access { index: Some(index), writes: Some(value) }
}

const OWN: Role = Role::Access { index: None, writes: None };

const OWN_PROGRAM: Role = Role::Program { index: None };

/// v1model. docs/v1model.md describes it.
pub const V1MODEL: Arch = Arch {
    package: "V1Switch",
    blocks: &[
        block("p", Gress::Ingress, Phase::Outside),
        block("vr", Gress::Ingress, Phase::Stages),
        block("ig", Gress::Ingress, Phase::Stages),
        block("eg", Gress::Egress, Phase::Stages),
        block("ck", Gress::Egress, Phase::Stages),
        block("dep", Gress::Egress, Phase::Outside),
    ],
    shares: true,
    calls: &[
        ("", "atomic_begin", Role::Nothing),
        ("", "atomic_end", Role::Nothing),
        ("", "log_msg", Role::Nothing),
        ("", "assert", Role::Nothing),
        ("", "assume", Role::Nothing),
        ("", "mark_to_drop", Role::Sets { of: 0, fields: &["egress_spec", "mcast_grp"] }),
        ("", "hash", Role::Hash { data: Some(3) }),
        ("", "random", Role::Hash { data: None }),
        ("", "verify_checksum", Role::Checksum),
        ("", "update_checksum", Role::Checksum),
        ("", "verify_checksum_with_payload", Role::Checksum),
        ("", "update_checksum_with_payload", Role::Checksum),
        ("register", "read", read(1)),
        ("register", "write", write(0, 1)),
        ("counter", "count", read(0)),
        ("direct_counter", "count", OWN),
        ("meter", "execute_meter", read(0)),
        ("direct_meter", "read", OWN),
        ("Checksum16", "get", Role::Checksum),
    ],
    objects: &[
        ("register", Memory::Register, "size"),
        ("counter", Memory::Counter, "size"),
        ("direct_counter", Memory::Counter, ""),
        ("meter", Memory::Meter, "size"),
        ("direct_meter", Memory::Meter, ""),
        ("action_profile", Memory::Profile, "size"),
        ("action_selector", Memory::Selector, "size"),
    ],
};

/// Tofino's native architecture, for programs that include its declarations.
pub const TNA: Arch = Arch {
    package: "Switch",
    blocks: &[
        block("ingress_parser", Gress::Ingress, Phase::Outside),
        block("ingress", Gress::Ingress, Phase::Stages),
        block("ingress_deparser", Gress::Ingress, Phase::Outside),
        block("egress_parser", Gress::Egress, Phase::Outside),
        block("egress", Gress::Egress, Phase::Stages),
        block("egress_deparser", Gress::Egress, Phase::Outside),
    ],
    shares: false,
    calls: &[
        ("", "atomic_begin", Role::Nothing),
        ("", "atomic_end", Role::Nothing),
        ("Hash", "get", Role::Hash { data: Some(0) }),
        ("Hash", "get_hash", Role::Hash { data: Some(0) }),
        ("Random", "read", Role::Hash { data: None }),
        ("InternetChecksum", "clear", Role::Checksum),
        ("InternetChecksum", "add", Role::Checksum),
        ("InternetChecksum", "subtract", Role::Checksum),
        ("InternetChecksum", "get", Role::Checksum),
        ("Random", "get", Role::Hash { data: None }),
        ("Checksum", "get", Role::Checksum),
        ("Checksum", "add", Role::Checksum),
        ("Checksum", "subtract", Role::Checksum),
        ("Checksum", "verify", Role::Checksum),
        ("Checksum", "update", Role::Checksum),
        ("Register", "read", read(0)),
        ("Register", "write", write(0, 1)),
        ("RegisterAction", "execute", Role::Program { index: Some(0) }),
        ("RegisterAction", "execute_log", OWN_PROGRAM),
        ("RegisterAction", "enqueue", OWN_PROGRAM),
        ("RegisterAction", "dequeue", OWN_PROGRAM),
        ("RegisterAction", "push", OWN_PROGRAM),
        ("RegisterAction", "pop", OWN_PROGRAM),
        ("RegisterAction2", "execute", Role::Program { index: Some(0) }),
        ("RegisterAction3", "execute", Role::Program { index: Some(0) }),
        ("RegisterAction4", "execute", Role::Program { index: Some(0) }),
        ("LearnAction", "execute", Role::Program { index: Some(0) }),
        ("DirectRegisterAction", "execute", OWN_PROGRAM),
        ("DirectRegisterAction2", "execute", OWN_PROGRAM),
        ("DirectRegisterAction3", "execute", OWN_PROGRAM),
        ("DirectRegisterAction4", "execute", OWN_PROGRAM),
        ("Counter", "count", read(0)),
        ("DirectCounter", "count", OWN),
        ("Meter", "execute", read(0)),
        ("DirectMeter", "execute", OWN),
    ],
    objects: &[
        ("Register", Memory::Register, "size"),
        ("DirectRegister", Memory::Register, ""),
        ("Counter", Memory::Counter, "size"),
        ("DirectCounter", Memory::Counter, ""),
        ("Meter", Memory::Meter, "size"),
        ("DirectMeter", Memory::Meter, ""),
        ("ActionProfile", Memory::Profile, "size"),
        ("ActionSelector", Memory::Selector, "size"),
    ],
};

/// The Portable Switch Architecture, for programs that include its declarations.
pub const PSA: Arch = Arch {
    package: "PSA_Switch",
    blocks: &[
        block("ip", Gress::Ingress, Phase::Outside),
        block("ig", Gress::Ingress, Phase::Stages),
        block("id", Gress::Ingress, Phase::Outside),
        block("ep", Gress::Egress, Phase::Outside),
        block("eg", Gress::Egress, Phase::Stages),
        block("ed", Gress::Egress, Phase::Outside),
    ],
    shares: false,
    calls: TNA.calls,
    objects: &[
        ("Register", Memory::Register, "size"),
        ("Counter", Memory::Counter, "n_counters"),
        ("DirectCounter", Memory::Counter, ""),
        ("Meter", Memory::Meter, "n_meters"),
        ("DirectMeter", Memory::Meter, ""),
        ("ActionProfile", Memory::Profile, "size"),
        ("ActionSelector", Memory::Selector, "size"),
    ],
};

/// All architectures that are known.
pub const ALL: [&Arch; 3] = [&V1MODEL, &TNA, &PSA];

impl Arch {
    /// The architecture of a package. Programs for unknown ones are taken for programs of the last one in [`ALL`], whose externs
    /// have the usual names; all their controls count as ingress.
    pub fn of(package: &str) -> &'static Arch {
        ALL.into_iter().find(|a| a.package == package).unwrap_or(&PSA)
    }

    /// The role of a function, or of a method of an object. Unknown ones are instructions.
    pub fn role(&self, object: Option<&str>, name: &str) -> Role {
        let object = object.unwrap_or("");
        let found = self.calls.iter().find(|(o, n, _)| *o == object && *n == name);
        found.map_or(Role::Signal, |(_, _, role)| *role)
    }

    /// The memory of an object, and its argument with the size.
    pub fn memory(&self, object: &str) -> Option<(Memory, &'static str)> {
        self.objects.iter().find(|(o, ..)| *o == object).map(|(_, m, size)| (*m, *size))
    }
}
