//! The state of a switch as a value: taken out, put in, compared, written to a file.
//!
//! It holds everything that outlives a packet. Times are relative to the moment at which it was taken. Packets inside the switch, and
//! messages that wait for the control plane, are not part of it, nor are statistics ([`Stats`](crate::Stats)).

mod cells;
mod content;
mod forms;
mod tables;

use crate::coded::{Coded, Malformed, Reader, coded, from_bytes};
use crate::program_id::ProgramId;
use crate::sum::Sum;
use crate::time::Time;

/// How every state begins.
const MAGIC: &[u8; 8] = b"PTMSTATE";

/// Another one with each change of the format.
const VERSION: u32 = 2;

/// Magic number, version and length.
const HEAD: usize = 20;
const CHECKSUM: usize = 16;

/// The parts of a state, each with a length in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Cells,
    Meters,
    Profiles,
    Tables,
    ValueSets,
    Replication,
    Hashes,
    Queues,
    Workers,
    Generators,
}

const PARTS: usize = Part::Generators as usize + 1;

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Cells => "registers and counters",
            Part::Meters => "meters",
            Part::Profiles => "action profiles",
            Part::Tables => "tables",
            Part::ValueSets => "value sets",
            Part::Replication => "multicast groups and clone sessions",
            Part::Hashes => "hash parameters",
            Part::Queues => "queues",
            Part::Workers => "workers",
            Part::Generators => "packet generators",
        }
    }

    /// The error of a value that was read and cannot be used.
    pub(crate) fn misfit(self, why: impl ToString) -> RestoreError {
        RestoreError::Misfit { part: self.name(), why: why.to_string() }
    }

    fn malformed(self, why: Malformed) -> RestoreError {
        RestoreError::Malformed { part: self.name(), why }
    }
}

/// Why a state could not be read, or not be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// These bytes are not a state.
    NotAState,
    /// It is of another version of the format.
    Version {
        /// Its version.
        found: u32,
        /// The only one that can be read.
        known: u32,
    },
    /// The end is missing.
    Truncated {
        /// Bytes that are there.
        bytes: u64,
        /// Bytes that it says it has.
        needed: u64,
    },
    /// The checksum is wrong.
    Damaged,
    /// The checksum is right, but a part is not what it should be.
    Malformed {
        /// Which part.
        part: &'static str,
        /// Why.
        why: Malformed,
    },
    /// It is the state of another program.
    OtherProgram {
        /// The program whose state it is.
        saved: ProgramId,
        /// The program that runs.
        running: Option<ProgramId>,
    },
    /// A part does not go with the switch or its program.
    Misfit {
        /// Which part.
        part: &'static str,
        /// Why.
        why: String,
    },
    /// Something in it happened before the switch's time began.
    TooEarly {
        /// The switch's time, in nanoseconds.
        now_ns: u64,
        /// The least time at which it can be restored, in nanoseconds.
        least_ns: u64,
    },
}

impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RestoreError::NotAState => write!(f, "not the state of a switch"),
            RestoreError::Version { found, known } => {
                write!(f, "format version {found}; this version of Pointsman reads version {known}")
            }
            RestoreError::Truncated { bytes, needed } => {
                write!(f, "incomplete: {bytes} of {needed} bytes")
            }
            RestoreError::Damaged => write!(f, "damaged: the checksum is wrong"),
            RestoreError::Malformed { part, why } => write!(f, "{part}: {why}"),
            RestoreError::OtherProgram { saved, running: Some(running) } => {
                write!(f, "the state of another program ({saved}) than the one that runs ({running})")
            }
            RestoreError::OtherProgram { saved, running: None } => {
                write!(f, "the state of program {saved}, but no program runs")
            }
            RestoreError::Misfit { part, why } => write!(f, "{part}: {why}"),
            RestoreError::TooEarly { now_ns, least_ns } => {
                write!(
                    f,
                    "the switch's time is {now_ns} ns, but the state goes back further: restore it at {least_ns} ns or later"
                )
            }
        }
    }
}

impl std::error::Error for RestoreError {}

/// The clock that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedClock {
    /// The switch's time as the program knows it, in nanoseconds.
    pub time_ns: u64,
    /// See [`SwitchConfig::clock_offset_us`](crate::SwitchConfig::clock_offset_us).
    pub offset_us: u64,
    /// See [`SwitchConfig::nanoseconds`](crate::SwitchConfig::nanoseconds).
    pub nanoseconds: bool,
}

coded!(SavedClock { time_ns, offset_us, nanoseconds });

/// The state of a switch at one moment: see [`Switch::export`](crate::Switch::export).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchState {
    pub(crate) program: ProgramId,
    pub(crate) taken: Time,
    pub(crate) in_flight: u64,
    /// Only if the program can see it.
    pub(crate) clock: Option<SavedClock>,
    pub(crate) parts: [Vec<u8>; PARTS],
    /// Data of the caller's, such as that of a P4Runtime server. It is kept with the state, and is not part of its hash.
    pub attachment: Vec<u8>,
}

impl SwitchState {
    pub(crate) fn new(program: ProgramId, taken: Time) -> SwitchState {
        SwitchState {
            program,
            taken,
            in_flight: 0,
            clock: None,
            parts: Default::default(),
            attachment: Vec::new(),
        }
    }

    /// The program that it belongs to.
    pub fn program(&self) -> &ProgramId {
        &self.program
    }

    /// The switch's time when it was taken.
    pub fn taken(&self) -> Time {
        self.taken
    }

    /// Packets that were in the switch then, in queues of any kind: they are not part of the state.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// A number that is the same for equal states, on every machine. Equal states treat all later packets alike. The moment of the
    /// export does not matter, unless the program sees timestamps, nor do packets inside the switch.
    pub fn hash(&self) -> u128 {
        let mut sum = Sum::new();
        let mut head = Vec::new();
        (self.program.shape, self.clock).put(&mut head);
        sum.add(&head);
        for part in &self.parts {
            sum.add(&(part.len() as u64).to_be_bytes());
            sum.add(part);
        }
        sum.value()
    }

    /// Sets a part.
    pub(crate) fn set(&mut self, part: Part, value: &impl Coded) {
        value.put(&mut self.parts[part as usize]);
    }

    /// Reads a part.
    pub(crate) fn get<T: Coded>(&self, part: Part) -> Result<T, RestoreError> {
        from_bytes(&self.parts[part as usize]).map_err(|why| part.malformed(why))
    }

    /// The form for a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts = self.parts.iter().map(Vec::len).sum::<usize>();
        let mut out = Vec::with_capacity(parts + self.attachment.len() + 256);
        out.extend(MAGIC);
        out.extend(VERSION.to_be_bytes());
        out.extend([0; 8]);
        self.program.put(&mut out);
        self.taken.0.put(&mut out);
        self.in_flight.put(&mut out);
        self.clock.put(&mut out);
        for part in self.parts.iter().chain([&self.attachment]) {
            (part.len() as u64).put(&mut out);
            out.extend(part);
        }
        let length = (out.len() + CHECKSUM) as u64;
        out[HEAD - 8..HEAD].copy_from_slice(&length.to_be_bytes());
        out.extend(Sum::of(&out).to_be_bytes());
        out
    }

    /// Reads the form for a file. The contents of the parts are checked when they are restored.
    ///
    /// # Errors
    /// The bytes are not a whole state of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<SwitchState, RestoreError> {
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if magic.is_empty() || !MAGIC.starts_with(magic) {
            return Err(RestoreError::NotAState);
        }
        let have = bytes.len() as u64;
        let least = (HEAD + CHECKSUM) as u64;
        let number = |from: usize, to: usize| -> Option<u64> {
            Some(bytes.get(from..to)?.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
        };
        let version = number(MAGIC.len(), HEAD - 8);
        if let Some(found) = version.filter(|v| *v != u64::from(VERSION)) {
            return Err(RestoreError::Version { found: found as u32, known: VERSION });
        }
        let length = number(HEAD - 8, HEAD).unwrap_or(least);
        if have < length.max(least) {
            return Err(RestoreError::Truncated { bytes: have, needed: length.max(least) });
        }
        let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
        if have != length || Sum::of(body).to_be_bytes() != checksum {
            return Err(RestoreError::Damaged);
        }
        Self::read(&mut Reader::new(&body[HEAD..]))
            .map_err(|why| RestoreError::Malformed { part: "the whole", why })
    }

    fn read(from: &mut Reader<'_>) -> Result<SwitchState, Malformed> {
        let program = ProgramId::take(from)?;
        let mut state = SwitchState::new(program, Time(u64::take(from)?));
        state.in_flight = u64::take(from)?;
        state.clock = Coded::take(from)?;
        for part in state.parts.iter_mut().chain([&mut state.attachment]) {
            let count = from.count(1)?;
            *part = from.bytes(count)?.to_vec();
        }
        if from.left() > 0 { Err(Malformed::Unknown("bytes at the end")) } else { Ok(state) }
    }
}

/// A point in time as a distance from now, in nanoseconds; negative if it is in the past.
pub(crate) fn distance(now: Time, at: Time) -> i64 {
    let ns = i128::from(at.0) - i128::from(now.0);
    ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// The point in time at this distance from now.
///
/// # Errors
/// It is before the switch's time began.
pub(crate) fn at_distance(now: Time, ns: i64) -> Result<Time, RestoreError> {
    let at = i128::from(now.0) + i128::from(ns);
    if at < 0 {
        return Err(RestoreError::TooEarly { now_ns: now.0, least_ns: ns.unsigned_abs() });
    }
    Ok(Time(u64::try_from(at).unwrap_or(u64::MAX)))
}
