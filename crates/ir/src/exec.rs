//! The contract between executors and architectures.
//!
//! An architecture drives a packet through the blocks of a [`Program`]; an [`Executor`] runs one block; the
//! architecture's [`Env`] handles everything outside the block: table look-ups and externs.

use crate::bits::Bits;
use crate::cells::{CellArray, CellShape};
use crate::meaning::{Digest, Meaning};
use crate::pass::{Coming, Convoy, Pass};
use crate::program::{ControlId, ExternFnId, ExternInstanceId, ParserId, Program, TableId, ValueSetId};
use crate::table::flat::FlatTable;
use crate::table::{ActionCall, EntryHandle, HitCells, HitShape, KeyMatch};
pub use crate::trace::TraceEvent;
use crate::types::TypeId;
use crate::value::Value;
use std::ops::Range;
use std::sync::Arc;

/// Runs the blocks of one program.
///
/// The values that an architecture carries from block to block (headers, metadata) live in a *frame*, one *slot* per
/// such variable. How a frame is laid out is the executor's business; the architecture reads and writes it by slot and
/// path, and copies it whole when it clones a packet.
pub trait Executor: Sized + 'static {
    /// The variables of one packet.
    type Frame: Clone + Send;

    /// A scalar in a frame, found once: see [`Executor::field`].
    type Field: Copy + Send + Sync;

    /// Prepares `program` for running with slots of these types.
    fn load(program: Arc<Program>, slots: &[TypeId]) -> Result<Self, LoadError>;

    /// The same for an architecture that lets executors use cells themselves ([`Env::cells`]).
    fn load_known(program: Arc<Program>, slots: &[TypeId], _known: &Known) -> Result<Self, LoadError> {
        Self::load(program, slots)
    }

    /// The program that was loaded.
    fn program(&self) -> &Arc<Program>;

    /// Whether it uses [`Env::tables`]. They cost memory, and time at every change.
    fn wants_tables(&self) -> bool {
        false
    }

    /// A frame with every slot at its default value.
    fn new_frame(&self) -> Self::Frame;

    /// Sets every slot to its default value.
    fn reset(&self, frame: &mut Self::Frame);

    /// Sets one slot to its default value.
    fn reset_slot(&self, frame: &mut Self::Frame, slot: usize);

    /// A handle to a scalar of at most 64 bits that is reached through structs and tuples alone; `None` for anything else
    /// (fields of headers, elements of stacks). It holds for every frame of this executor.
    fn field(&self, slot: usize, path: &[u32]) -> Option<Self::Field>;

    /// The value of a scalar: a `bool` is 0 or 1, an enum or error its ordinal.
    fn read(&self, frame: &Self::Frame, field: Self::Field) -> u64;

    /// Sets a scalar, truncating to its width.
    fn write(&self, frame: &mut Self::Frame, field: Self::Field, value: u64);

    /// A scalar: `path` are field (or element) indices from the slot's variable. `None` if the scalar does not exist.
    fn get(&self, frame: &Self::Frame, slot: usize, path: &[u32]) -> Option<Bits>;

    /// Sets a scalar, truncating or zero-extending. False if the scalar does not exist.
    fn set(&self, frame: &mut Self::Frame, slot: usize, path: &[u32], value: &Bits) -> bool;

    /// The whole value of a slot.
    fn value(&self, frame: &Self::Frame, slot: usize) -> Value;

    /// Where these fields (slot and path) are in frames, if frames are bytes: for [`Executor::copy_spans`].
    fn spans(&self, _fields: &[(usize, Vec<u32>)]) -> Option<Spans> {
        None
    }

    /// Copies fields from one frame to another.
    fn copy_spans(&self, _spans: &Spans, _from: &Self::Frame, _to: &mut Self::Frame) {}

    /// Bits of all valid headers in a slot.
    fn header_bits(&self, frame: &Self::Frame, slot: usize) -> u64 {
        self.value(frame, slot).header_bits()
    }

    /// Replaces the whole value of a slot; `value` must be of the slot's type.
    fn set_value(&self, frame: &mut Self::Frame, slot: usize, value: Value);

    /// Runs a parser. `slots[i]` is the frame slot bound to parameter `i`.
    fn parse(
        &self,
        parser: ParserId,
        slots: &[usize],
        frame: &mut Self::Frame,
        packet: &[u8],
        env: &mut dyn Env,
    ) -> ParseOutcome;

    /// How many packets are worth parsing before the first of them goes through a control: where [`Executor::prefetch`]
    /// gains more than the frames of this many packets cost. 1: none but the one that is next.
    fn lookahead(&self) -> usize {
        1
    }

    /// A control is about to be run on these frames, one after the other: an executor that knows which memory it will
    /// use may fetch it into the caches. Nothing that a block can see may change, and the runs may find other values in
    /// frames, tables and cells than this call did.
    fn prefetch(
        &self,
        _control: ControlId,
        _slots: &[usize],
        _frames: &mut [Self::Frame],
        _env: &mut dyn Env,
    ) {
    }

    /// Whether it can take packets through this one of [`Known::passes`] now. If not, the architecture runs block by block.
    fn passes(&self, _pass: usize) -> bool {
        false
    }

    /// Makes now the code that would otherwise be made when it is first needed, and then delay the packet that needs
    /// it. Meanwhile others may use the executor.
    fn complete(&self) {}

    /// From now on, the packet that first needs code waits until it is made: for packets in virtual time, which loses none. So
    /// [`Executor::complete`] is not needed.
    fn make_on_demand(&mut self) {}

    /// Packets are about to go through the first pass: as [`Executor::prefetch`], for the whole pass and with the packets as they came. `frame` is
    /// memory to work with. Only for passes of which [`Executor::foresees_pass`].
    fn prefetch_pass(&self, _frame: &mut Self::Frame, _packets: &mut impl Coming) {}

    /// Whether to call [`Executor::prefetch_pass`] for a batch of packets that is about to go through. Called once for each batch.
    fn foresees_pass(&self, _frame: &mut Self::Frame, _env: &dyn Env) -> bool {
        false
    }

    /// Takes packets through [`Known::passes`], one after the other. The frame's content is irrelevant before and after,
    /// except for exits with a frame, [`Pass::resumes`] and [`Pass::suspends`]. False: nothing was done for the packet that came
    /// last, and the architecture has to run block by block.
    fn pass(&self, _frame: &mut Self::Frame, packets: &mut impl Convoy) -> bool {
        packets.next().is_none()
    }

    /// Runs a control. Emitted headers are appended to `emitted`.
    fn control(
        &self,
        control: ControlId,
        slots: &[usize],
        frame: &mut Self::Frame,
        emitted: &mut Vec<u8>,
        env: &mut dyn Env,
    ) -> ControlOutcome;
}

/// An architecture's information about externs when a program is loaded, so that an executor can implement some of them
/// without calls of the architecture.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// By [`ExternFnId`]. Missing ones are [`Meaning::Ask`].
    pub meanings: Vec<Meaning>,
    /// The algorithms of hashes and checksums, by their ordinals. Missing ones are [`Digest::Ask`].
    pub digests: Vec<Digest>,
    /// By [`ExternInstanceId`]: the arrays that [`Env::cells`] will give, in shape and length.
    pub arrays: Vec<CellShape>,
    /// By [`TableId`]: the cells that [`Env::hit_cells`] will give. Missing ones are none.
    pub hits: Vec<HitShape>,
    /// The ways of ordinary packets. The first is readied when the program is loaded, others by [`Executor::complete`].
    pub passes: Vec<Pass>,
}

/// Parts of a frame that is made of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// Bytes that are always there, in order.
    pub bytes: Vec<Range<usize>>,
    /// Where fields of variable length begin: eight bytes with their length in bits, the low ones first, then as many bytes as that takes.
    pub varbits: Vec<usize>,
}

impl Spans {
    /// Adds bytes behind those that are there.
    pub fn add(&mut self, bytes: Range<usize>) {
        match self.bytes.last_mut() {
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => self.bytes.push(bytes),
        }
    }
}

/// Why a program cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(pub String);

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}

/// The errors that parsing itself can set (core.p4), as indices into [`Program::errors`].
#[derive(Clone, Copy, Debug)]
pub struct CoreErrors {
    /// `error.PacketTooShort`
    pub packet_too_short: u32,
    /// `error.NoMatch`
    pub no_match: u32,
    /// `error.StackOutOfBounds`
    pub stack_out_of_bounds: u32,
    /// `error.HeaderTooShort`
    pub header_too_short: u32,
    /// `error.ParserTimeout`
    pub parser_timeout: u32,
    /// `error.ParserInvalidArgument`
    pub parser_invalid_argument: u32,
}

impl CoreErrors {
    /// Finds them, as every executor does when it loads a program. A program without parsers needs none.
    ///
    /// # Errors
    /// The program has a parser and lacks one of them.
    pub fn find(program: &Program) -> Result<Self, LoadError> {
        let find = |name: &str| match program.errors.iter().position(|e| e == name) {
            Some(i) => Ok(i as u32),
            None if program.parsers.is_empty() => Ok(0),
            None => Err(LoadError(format!("the program does not declare error.{name}; include core.p4"))),
        };
        Ok(CoreErrors {
            packet_too_short: find("PacketTooShort")?,
            no_match: find("NoMatch")?,
            stack_out_of_bounds: find("StackOutOfBounds")?,
            header_too_short: find("HeaderTooShort")?,
            parser_timeout: find("ParserTimeout")?,
            parser_invalid_argument: find("ParserInvalidArgument")?,
        })
    }
}

/// The result of a parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOutcome {
    /// False: it went to `reject`.
    pub accepted: bool,
    /// Index into [`Program::errors`]; 0 is `NoError`.
    pub error: u32,
    /// Bits of the packet that were extracted or skipped.
    pub consumed_bits: usize,
}

/// The result of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlOutcome {
    /// It ended by `exit`.
    pub exited: bool,
}

/// Result of a table look-up.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    /// The entry, if one was hit.
    pub hit: Option<EntryHandle>,
    /// The action to run: the entry's or the default action. `None`: nothing (an empty action profile group).
    pub action: Option<Arc<ActionCall>>,
}

/// A call of an extern function or method.
#[derive(Clone, Copy, Debug)]
pub struct ExternCall<'a> {
    /// Which function or method.
    pub function: ExternFnId,
    /// The object, for methods.
    pub instance: Option<ExternInstanceId>,
    /// Type arguments.
    pub type_args: &'a [TypeId],
    /// Type of the result (`Void` for procedures).
    pub returns: Option<TypeId>,
    /// In a pass ([`Executor::pass`]), once the parser has run: the rest of the packet. Empty in runs of one block,
    /// where the architecture has it.
    pub rest: &'a [u8],
}

/// The arguments of an extern call as numbers, for executors that keep them that way.
#[derive(Debug)]
pub struct FlatArgs<'a> {
    /// The low and the high half of each argument that is a scalar (a `bool` is 0 or 1, an enum its ordinal). `out`
    /// arguments start as zero; those of `out` and `inout` parameters are taken back, truncated to their widths.
    pub words: &'a mut [[u64; 2]],
    /// Their widths in bits; 0 for the argument that is [`FlatArgs::data`].
    pub widths: &'a [u32],
    /// The bits of the one argument that is a struct or tuple, most significant first, and zeros up to whole bytes. `None` if it has no
    /// fixed width (unless [`Meaning::AskIf`] says that its bits suffice): an extern that needs it has to ask for [`Env::call_extern`].
    pub data: Option<&'a [u8]>,
    /// The returned value.
    pub result: &'a mut [u64; 2],
}

/// State transitions that a parser may make on one packet, its sub-parsers included: the next one rejects it, with `ParserTimeout`.
pub const MAX_TRANSITIONS: u32 = 10_000;

/// Rounds that all loops together may make in one run of a parser or control. After them every loop ends as if its condition were
/// false.
pub const MAX_LOOP_ROUNDS: u32 = 1 << 20;

/// Names a state of an architecture's tables. Two are the same only if one was cloned from the other.
#[derive(Clone, Debug, Default)]
pub struct Generation(Arc<()>);

impl Generation {
    /// Any other.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same?
    pub fn is(&self, other: &Generation) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A block's access to everything outside itself. Implemented by architectures.
pub trait Env {
    /// Looks up `table`. `key` holds every matched key field in order, `selectors` those of kind `selector`.
    fn lookup(&mut self, table: TableId, key: &[Bits], selectors: &[Bits]) -> Lookup;

    /// Calls an extern. `args` holds one value per parameter; those of `out` and `inout` parameters are taken back
    /// from it after the call, so they must keep their types.
    fn call_extern(&mut self, call: ExternCall<'_>, args: &mut [Value]) -> Value;

    /// The members of a value set; each has one match per field.
    fn value_set(&self, set: ValueSetId) -> &[Vec<KeyMatch>];

    /// The same as [`Env::call_extern`] for arguments that are all numbers. False: it was not done, and the executor asks
    /// [`Env::call_extern`] instead.
    fn call_flat(&mut self, _call: ExternCall<'_>, _args: FlatArgs<'_>) -> bool {
        false
    }

    /// The arrays of registers and counters, by [`ExternInstanceId`]; empty arrays for other objects. An executor may use
    /// them in the place of calls for which [`Known`] names a method. They are where [`CellArray::places`] of the shapes
    /// that [`Known`] announced says. Their addresses hold while a block runs.
    fn cells(&self) -> &[CellArray] {
        &[]
    }

    /// Whether other packets may be processed at the same time as this one: what [`Meaning::AskIfShared`] depends on.
    fn is_shared(&self) -> bool {
        true
    }

    /// Bytes that a counter adds for this packet.
    fn packet_bytes(&self) -> u32 {
        0
    }

    /// As long as this is the same, so are the answers of [`Env::lookup`] for tables that [`Env::is_plain`], and an
    /// executor may remember them. `None`: nothing may be remembered.
    fn generation(&self) -> Option<&Generation> {
        None
    }

    /// Whether looking up this table changes nothing, and depends on nothing but the key.
    fn is_plain(&self, _table: TableId) -> bool {
        false
    }

    /// The tables in a form that native code can look up by itself, by [`TableId`]; none if they are not kept that way
    /// ([`Executor::wants_tables`]) or every look-up has to be reported ([`Env::tracing`]). Their addresses hold while a block
    /// runs.
    fn tables(&self) -> &[FlatTable] {
        &[]
    }

    /// The cells in which an executor itself notes what it finds in [`Env::tables`], as [`HitCells::note`] does it, before the action
    /// runs; [`Env::lookup`] does it for its callers. By [`TableId`], in the shapes that [`Known::hits`] announced, with a cell for each
    /// place that rows name. Their addresses hold while a block runs.
    fn hit_cells(&self) -> &[HitCells] {
        &[]
    }

    /// The time that is noted, in nanoseconds. The same for all packets that one environment is for.
    fn time(&self) -> u64 {
        0
    }

    /// A look-up in [`Env::tables`] gave a row with this head, which has [`row::REPORT`](crate::table::flat::row::REPORT) set: does what is to be
    /// done besides noting the hit.
    fn report_hit(&mut self, _table: TableId, _head: u64) {}

    /// A number from the key fields of kind `selector` by which a packet gets a member of a group: that on which it falls, modulo the sum of
    /// their weights ([`FlatTable::member`]). The fields follow each other without gaps, most significant bit first; zero bits fill the last
    /// byte. `None`: only [`Env::lookup`] knows. Called once for a look-up at most, as it may take a random number.
    fn select(&mut self, _table: TableId, _selectors: &[u8]) -> Option<u64> {
        None
    }

    /// Whether a block has made a request that the architecture has to handle when the block has ended.
    fn asked(&self) -> bool {
        false
    }

    /// Whether this packet is traced. An executor calls this once per block that the architecture runs.
    fn tracing(&self) -> bool {
        false
    }

    /// Takes a report. While [`Env::tracing`] is true, an executor calls it for everything that [`trace`](crate::trace)
    /// lists; otherwise it must neither call it nor pay for it. An executor that does not keep track of single
    /// statements (one that compiles to machine code, for example) hands traced blocks to one that does, such as the
    /// interpreter: the outcome must be the same.
    fn trace(&mut self, _event: TraceEvent) {}
}
