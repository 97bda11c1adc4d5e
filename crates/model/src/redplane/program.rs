//! The programs in the switches, with the library, perhaps with a rule switched off.

use super::letter::ends;
use pointsman_compile::sources::{REDPLANE, Sources};
use pointsman_compile::{compile, rendered};
use pointsman_frontend::source::Loader as _;
use pointsman_history::{Plain, PlainError};
use pointsman_ir::{ExternInstanceId, Program};
use pointsman_stf::entries::find_extern;
use pointsman_stf::{Rig, RigError};
use pointsman_v1model::{CloneSession, QueueConfig, Replica, SwitchConfig};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The port of clients.
pub const IN: u32 = 0;
/// The port of servers.
pub const OUT: u32 = 1;
/// The port of the store.
pub const STORE: u32 = 2;
/// The port of the queue in which writes wait to be sent again.
pub const BUFFER: u32 = 3;
/// The key of the digests.
pub const SECRET: [u8; 8] = *b"a secret";
/// Clocks differ from true time by 1/8 at most.
pub const DRIFT_SHIFT: u8 = 3;
/// Length of a lease.
pub const LEASE_US: u32 = 20_000;
/// When the rest of a lease is shorter, a packet that reads renews it.
pub const RENEW_NS: u64 = 5_000_000;
/// The time after which a write is sent again.
pub const RESEND_NS: u64 = 4_000_000;

/// Another port of clients.
pub const OTHER: u32 = 4;
/// Protected objects of a program at most.
pub const OBJECTS: usize = 2;

/// The port of the packet generator.
pub const GENERATOR: u32 = 68;
/// Cells in each array of the sketch.
pub const CELLS: u8 = 2;
/// Arrays of the sketch.
pub const ARRAYS: usize = 2;

/// The library of heavyhitters, and its part.
const SNAPSHOTS: &[&str] = &["pointsman/redplane/snapshot.p4", "pointsman/redplane/arrays.p4"];

/// What the switches run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `flowcount`: a state that every packet changes or shows.
    Count,
    /// `heavyhitters`, with two arrays of two cells, replicated by snapshots.
    Sketch,
    /// `guard`: the port of an address, which its first packet decides, and a state that every packet of this port changes and shows.
    Objects,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Count => "flowcount",
            Kind::Sketch => "heavyhitters",
            Kind::Objects => "guard",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Kind::Count => include_str!("../../../../p4/programs/flowcount/main.p4"),
            Kind::Sketch => include_str!("../../../../p4/programs/heavyhitters/main.p4"),
            Kind::Objects => include_str!("../../../../p4/programs/guard/main.p4"),
        }
    }

    /// Its protected objects.
    pub fn objects(self) -> usize {
        if self == Kind::Objects { OBJECTS } else { 1 }
    }

    /// What the store has room for: a key of each object. The cells of a sketch are keys, too.
    pub fn keys(self) -> u32 {
        self.objects() as u32 + if self == Kind::Sketch { CELLS.into() } else { 0 }
    }

    /// The port by which a client's packet arrives that is counted, or another one.
    pub fn port(self, writes: bool) -> u32 {
        if self == Kind::Objects && !writes { OTHER } else { IN }
    }

    fn defines(self) -> String {
        let of_kind = match self {
            Kind::Count | Kind::Objects => "#define REDPLANE_SLOTS 1\n".to_string(),
            Kind::Sketch => format!(
                "#define REDPLANE_PLACES 1\n#define REDPLANE_CELL_BITS {}\n#define REDPLANE_VALUE_WORDS {ARRAYS}\n",
                CELLS.ilog2()
            ),
        };
        format!("#define REDPLANE_DRIFT_SHIFT {DRIFT_SHIFT}\n{of_kind}")
    }

    /// Settings after those that all programs have.
    fn settings(self) -> String {
        match self {
            Kind::Count | Kind::Objects => format!("renew={RENEW_NS}"),
            // Snapshots follow each other, and none is ever too old: their times do not matter.
            Kind::Sketch => "period=0, bound=0xffffffffffff, strict=0".to_string(),
        }
    }

    /// Statements that fill its tables.
    fn entries(self) -> &'static [&'static str] {
        match self {
            Kind::Count | Kind::Objects => &["routes prefix=10.1.0.0/16 -> forward(port=1)"],
            Kind::Sketch => &[
                "routes prefix=10.1.0.0/16 -> forward(port=1)",
                "vlans vlan=5 -> detect(place=0, threshold=0xffffffff)",
            ],
        }
    }
}

/// Why the program does not run.
#[derive(Debug)]
pub enum ProgramError {
    /// The library does not have a text that was to be replaced, or more than once.
    Text(String),
    /// It does not compile.
    Compile(Kind, String),
    /// The switch refuses it, or the statements that fill its tables.
    Switch(Kind, String),
    /// The program without RedPlane cannot be the specification.
    Plain(PlainError),
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Text(text) => write!(f, "the library must have this text once: {text}"),
            ProgramError::Compile(kind, why) => write!(f, "{} does not compile: {why}", kind.name()),
            ProgramError::Switch(kind, why) => write!(f, "{} does not run: {why}", kind.name()),
            ProgramError::Plain(e) => e.fmt(f),
        }
    }
}

impl Error for ProgramError {}

/// Compiles a program with these lines of `#define`, after replacements in the library.
///
/// # Errors
/// A text to be replaced is not there once, or the result does not compile.
pub fn program(kind: Kind, defines: &str, changes: &[(&str, &str)]) -> Result<Arc<Program>, ProgramError> {
    let sources = Sources::default();
    let parts = match kind {
        Kind::Count | Kind::Objects => REDPLANE,
        Kind::Sketch => SNAPSHOTS,
    };
    let mut text = kind.text().to_string();
    for part in parts {
        let found = sources.include(part, false, "");
        let (_, part_text) =
            found.ok_or_else(|| ProgramError::Compile(kind, format!("{part} is missing")))?;
        text = text.replace(&format!("#include <{part}>"), &part_text);
    }
    for (from, to) in changes {
        if text.matches(from).count() != 1 {
            return Err(ProgramError::Text((*from).to_string()));
        }
        text = text.replace(from, to);
    }
    let text = format!("{}{defines}{text}", kind.defines());
    let compiled = compile(&format!("{}.p4", kind.name()), &text, &sources, &[]);
    compiled.map(|c| Arc::new(c.program)).map_err(|e| ProgramError::Compile(kind, rendered(&e)))
}

/// A program without RedPlane, as the specification; `flowcount` for sketches, which need none.
///
/// # Errors
/// It does not run.
pub fn plain(kind: Kind) -> Result<Plain, ProgramError> {
    let kind = if kind == Kind::Sketch { Kind::Count } else { kind };
    let text = format!("#define PLAIN\n#define REDPLANE_SLOTS 1\n{}", kind.text());
    let route = "add routes prefix:10.1.0.0/16 forward(port:1)\n";
    Plain::new(&text, route).map_err(ProgramError::Plain)
}

/// What the cells of a register are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Values.
    Values,
    /// The end of the lease.
    Until,
    /// When a renewal was last asked for.
    Asked,
    /// Times on which nothing depends.
    Unused,
}

/// A register of the program.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// Its number.
    pub id: ExternInstanceId,
    /// Its cells.
    pub cells: u64,
    /// What they are.
    pub meaning: Meaning,
}

/// The registers of the library that the checker knows by name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The grant.
    pub grant: ExternInstanceId,
    /// Whether the lease is shared, in programs that have such leases.
    pub shared: Option<ExternInstanceId>,
    /// Those of one kind of program.
    pub own: Own,
}

/// The registers of one kind of program that the checker knows by name.
#[derive(Clone, Copy, Debug)]
pub enum Own {
    /// Of [`Kind::Count`] and [`Kind::Objects`]: a cell for each object.
    Slots {
        /// The state.
        value: ExternInstanceId,
        /// The number of the last write.
        sent: ExternInstanceId,
    },
    /// Of [`Kind::Sketch`].
    Sketch(Sketch),
}

/// The registers of [`Kind::Sketch`].
#[derive(Clone, Copy, Debug)]
pub struct Sketch {
    /// Whether the structure is here.
    pub stage: ExternInstanceId,
    /// The number of the last snapshot.
    pub number: ExternInstanceId,
    /// The store has all of it.
    pub complete: ExternInstanceId,
    /// The copy that packets change.
    pub active: ExternInstanceId,
    /// Of each array: both copies.
    pub copies: [ExternInstanceId; ARRAYS],
    /// Of each array: the copy that was changed last.
    pub latest: [ExternInstanceId; ARRAYS],
}

/// A program that switches run, and its registers.
pub struct App {
    /// Which one.
    pub kind: Kind,
    /// Its messages are sent over IPv6.
    pub ipv6: bool,
    program: Arc<Program>,
    /// All registers: what the program remembers.
    pub registers: Vec<Register>,
    /// Some of them.
    pub named: Named,
}

impl App {
    /// Readies a program for any number of switches.
    ///
    /// # Errors
    /// The switch refuses it, or it keeps state elsewhere than in registers.
    pub fn new(kind: Kind, ipv6: bool, program: Arc<Program>) -> Result<App, ProgramError> {
        let switch = |why: String| ProgramError::Switch(kind, why);
        let named = |name: &str| find_extern(&program, "register", name).map_err(|e| switch(e.to_string()));
        let of_arrays = |name: &str| -> Result<[ExternInstanceId; ARRAYS], ProgramError> {
            Ok([named(&format!("arrays.array0.{name}"))?, named(&format!("arrays.array1.{name}"))?])
        };
        let own = match kind {
            Kind::Count | Kind::Objects => {
                Own::Slots { value: named("redplane_values")?, sent: named("redplane_sent")? }
            }
            Kind::Sketch => Own::Sketch(Sketch {
                stage: named("redplane_stages")?,
                number: named("redplane_numbers")?,
                complete: named("redplane_complete")?,
                active: named("redplane_active")?,
                copies: of_arrays("copies")?,
                latest: of_arrays("latest")?,
            }),
        };
        let times = match kind {
            Kind::Count | Kind::Objects => {
                &[("redplane_until", Meaning::Until), ("redplane_asked", Meaning::Asked)][..]
            }
            Kind::Sketch => &[
                ("redplane_until", Meaning::Until),
                ("redplane_taken", Meaning::Unused),
                ("redplane_good", Meaning::Unused),
            ],
        };
        let times = times.iter().map(|(name, meaning)| Ok((named(name)?, *meaning)));
        let times = times.collect::<Result<BTreeMap<_, _>, ProgramError>>()?;
        let named = Named { grant: named("redplane_grants")?, shared: named("redplane_shared").ok(), own };
        let mut app = App { kind, ipv6, program: program.clone(), registers: Vec::new(), named };
        let rig = app.rig(0, 1)?;
        for (n, object) in app.program.externs.iter().enumerate() {
            let id = ExternInstanceId(n as u32);
            match (object.object.as_str(), rig.switch.state().and_then(|s| s.register(id))) {
                (_, Some(register)) => {
                    let meaning = times.get(&id).copied().unwrap_or(Meaning::Values);
                    app.registers.push(Register { id, cells: register.len(), meaning });
                }
                // Written only.
                ("counter", None) => {}
                (other, None) => {
                    let why = format!("it keeps state in a `{other}`, which is not part of the model");
                    return Err(switch(why));
                }
            }
        }
        Ok(app)
    }

    /// A switch that was just started: `number` is 0 or 1.
    ///
    /// # Errors
    /// It refuses the program or its settings.
    pub fn rig(&self, number: u8, incarnation: u32) -> Result<Rig, ProgramError> {
        let config = SwitchConfig { nanoseconds: true, max_descendants: None, ..SwitchConfig::default() };
        let switch = |why: String| ProgramError::Switch(self.kind, why);
        let refused = |e: RigError| switch(e.to_string());
        let mut rig = Rig::new(self.program.clone(), config).map_err(refused)?;
        let (own, store) = ends(number, self.ipv6);
        let settings = format!(
            "configure(switch_id={number}, incarnation={incarnation}, secret=0x{}, address={own}, store={store}, \
             mac_src=0x02, mac_dst=0x04, port={STORE}, ticks=1000, {})",
            SECRET.iter().map(|b| format!("{b:02x}")).collect::<String>(),
            self.kind.settings(),
        );
        rig.set_default("redplane_config", &settings).map_err(refused)?;
        for entry in self.kind.entries() {
            rig.add(entry).map_err(refused)?;
        }
        if self.kind != Kind::Sketch {
            let queue = QueueConfig { delay_ns: RESEND_NS, depth_packets: 64, ..QueueConfig::default() };
            rig.switch.configure_queue(BUFFER, None, queue).map_err(|e| switch(e.to_string()))?;
            let replicas = vec![Replica { port: BUFFER, instance: 0 }];
            let session = CloneSession { replicas, ..CloneSession::default() };
            let inserted = rig.state().replication.insert_session(100, session);
            inserted.map_err(|e| switch(e.to_string()))?;
        }
        Ok(rig)
    }
}
