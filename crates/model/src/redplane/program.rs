//! The program in the switches: `flowcount` with the library, perhaps with a rule switched off.

use pointsman_compile::sources::Sources;
use pointsman_compile::{compile, rendered};
use pointsman_frontend::source::Loader as _;
use pointsman_history::{Plain, PlainError};
use pointsman_ir::{ExternInstanceId, Program};
use pointsman_stf::{Rig, RigError};
use pointsman_v1model::{CloneSession, QueueConfig, Replica, ReplicationError, SwitchConfig};
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

const FLOWCOUNT: &str = include_str!("../../../../p4/programs/flowcount/main.p4");
const LIBRARY: &str = "pointsman/redplane.p4";
/// The statement that fills the table of the program.
const ROUTE: &str = "add routes prefix:10.1.0.0/16 forward(port:1)\n";

/// Why the program does not run.
#[derive(Debug)]
pub enum ProgramError {
    /// The library does not have a text that was to be replaced, or more than once.
    Text(String),
    /// It does not compile.
    Compile(String),
    /// The switch refuses it, or the statements that fill its tables.
    Switch(String),
    /// The program without RedPlane cannot be the specification.
    Plain(PlainError),
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Text(text) => write!(f, "the library must have this text once: {text}"),
            ProgramError::Compile(why) => write!(f, "flowcount does not compile: {why}"),
            ProgramError::Switch(why) => write!(f, "flowcount does not run: {why}"),
            ProgramError::Plain(e) => e.fmt(f),
        }
    }
}

impl Error for ProgramError {}

impl From<RigError> for ProgramError {
    fn from(e: RigError) -> Self {
        ProgramError::Switch(e.to_string())
    }
}

impl From<ReplicationError> for ProgramError {
    fn from(e: ReplicationError) -> Self {
        ProgramError::Switch(e.to_string())
    }
}

/// Compiles the program with these lines of `#define`, after replacements in the library.
///
/// # Errors
/// A text to be replaced is not there once, or the result does not compile.
pub fn program(defines: &str, changes: &[(&str, &str)]) -> Result<Arc<Program>, ProgramError> {
    let sources = Sources::default();
    let (_, mut library) = sources
        .include(LIBRARY, false, "")
        .ok_or_else(|| ProgramError::Compile(format!("{LIBRARY} is missing")))?;
    for (from, to) in changes {
        if library.matches(from).count() != 1 {
            return Err(ProgramError::Text((*from).to_string()));
        }
        library = library.replace(from, to);
    }
    let text = FLOWCOUNT.replace(&format!("#include <{LIBRARY}>"), &format!("{defines}{library}"));
    let compiled = compile("flowcount.p4", &text, &sources, &[]);
    compiled.map(|c| Arc::new(c.program)).map_err(|e| ProgramError::Compile(rendered(&e)))
}

/// The program without RedPlane, as the specification.
///
/// # Errors
/// It does not run.
pub fn plain() -> Result<Plain, ProgramError> {
    let text = format!("#define PLAIN\n#define REDPLANE_SLOTS 1\n{FLOWCOUNT}");
    Plain::new(&text, ROUTE).map_err(ProgramError::Plain)
}

/// A register of the program.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// Its number.
    pub id: ExternInstanceId,
    /// Its cells.
    pub cells: u64,
}

/// The registers of the library that the checker knows by name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The end of the lease.
    pub until: ExternInstanceId,
    /// When a renewal was last asked for.
    pub asked: ExternInstanceId,
    /// The grant.
    pub grant: ExternInstanceId,
    /// The state.
    pub value: ExternInstanceId,
    /// The number of the last write.
    pub sent: ExternInstanceId,
}

/// A program that switches run, and its registers.
pub struct App {
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
    pub fn new(program: Arc<Program>) -> Result<App, ProgramError> {
        use pointsman_stf::entries::find_extern;
        let named = |name: &str| {
            find_extern(&program, "register", name).map_err(|e| ProgramError::Switch(e.to_string()))
        };
        let named = Named {
            until: named("redplane_until")?,
            asked: named("redplane_asked")?,
            grant: named("redplane_grants")?,
            value: named("redplane_values")?,
            sent: named("redplane_sent")?,
        };
        let mut app = App { program, registers: Vec::new(), named };
        let rig = app.rig(0, 1)?;
        for (n, object) in app.program.externs.iter().enumerate() {
            let id = ExternInstanceId(n as u32);
            match (object.object.as_str(), rig.switch.state().and_then(|s| s.register(id))) {
                (_, Some(register)) => app.registers.push(Register { id, cells: register.len() }),
                // Written only.
                ("counter", None) => {}
                (other, None) => {
                    let why = format!("it keeps state in a `{other}`, which is not part of the model");
                    return Err(ProgramError::Switch(why));
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
        let mut rig = Rig::new(self.program.clone(), config)?;
        let settings = format!(
            "configure(switch_id={number}, incarnation={incarnation}, secret=0x{}, address=10.9.0.{}, store=10.9.1.1, \
             mac_src=0x02, mac_dst=0x04, port={STORE}, ticks=1000, renew={RENEW_NS})",
            SECRET.iter().map(|b| format!("{b:02x}")).collect::<String>(),
            number + 1,
        );
        rig.set_default("redplane_config", &settings)?;
        rig.add(&format!("routes prefix=10.1.0.0/16 -> forward(port={OUT})"))?;
        let queue = QueueConfig { delay_ns: RESEND_NS, depth_packets: 64, ..QueueConfig::default() };
        rig.switch.configure_queue(BUFFER, None, queue).map_err(|e| ProgramError::Switch(e.to_string()))?;
        let replicas = vec![Replica { port: BUFFER, instance: 0 }];
        let session = CloneSession { replicas, ..CloneSession::default() };
        rig.state().replication.insert_session(100, session)?;
        Ok(rig)
    }
}
