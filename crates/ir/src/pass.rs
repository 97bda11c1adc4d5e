//! A packet's whole way through several blocks, as a list of steps.
//!
//! An executor that compiles it to one piece of code ([`Executor::passes`](crate::Executor::passes)) saves the cost of
//! entering and leaving each block, and knows which fields are no longer read. The architecture defines which blocks
//! follow each other and how fields change in between; if a packet needs more than that, the pass ends, and the
//! architecture continues block by block with the current frame.

use crate::exec::Env;
use crate::program::{ControlId, ParserId};

/// Numbers that are given with each packet ([`PassValue::Given`]).
pub const GIVEN: usize = 6;

/// A field of a slot whose type is a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassField {
    /// The frame slot.
    pub slot: usize,
    /// The field.
    pub field: u32,
}

/// The new value of a field, truncated to its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassValue {
    /// The same for every packet.
    Const(u64),
    /// One of the numbers given with the packet.
    Given(usize),
    /// Another field.
    Field(PassField),
}

/// A way out before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassExit {
    /// Names it; every exit with the same number has to be the same.
    pub number: u32,
    /// The frame must have the same content as if the blocks had been run one by one, in these of [`Pass::kept`]. `None`: nothing reads
    /// the frame.
    pub frame: Option<usize>,
}

/// A step of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassStep {
    /// Sets a scalar of at most 64 bits.
    Set(PassField, PassValue),
    /// Runs a parser from the start of the packet; also continues after `reject`. An error other than 0 goes to a field.
    Parse(ParserId, Option<PassField>),
    /// Runs a control; also continues after `exit`.
    Control(ControlId),
    /// Goes out if the architecture was asked for something ([`Env::asked`]).
    ExitIfAsked(PassExit),
    /// Goes out if a scalar of at most 64 bits is (or is not) a number.
    ExitIf {
        /// The scalar.
        field: PassField,
        /// The number.
        number: u64,
        /// Goes out if it is.
        equal: bool,
        /// Where to.
        exit: PassExit,
    },
    /// Remembers a scalar for the outcome.
    Tell(PassField),
    /// Runs a control and puts its emitted headers in front of the parser's rest, in the packet's buffer. Without room,
    /// or if the executor cannot do it, the pass ends with this exit before the control has run.
    Emit(ControlId, PassExit),
}

/// By slot: the fields that a frame has to hold; others are not read. `None`: all.
pub type KeptFields = Vec<Option<Vec<u32>>>;

/// A pass. Parameter `i` of each block is bound to slot `i`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// One after the other.
    pub steps: Vec<PassStep>,
    /// What a frame may have to hold.
    pub kept: Vec<KeptFields>,
    /// It continues a packet that is in the frame, and whose rest after the parser is in the buffer. Otherwise the whole packet is in the
    /// buffer, and every slot is at its default value when it starts, but for those that the frame [holds](Pass::holds).
    pub resumes: bool,
    /// Slots that the frame has when the pass starts.
    pub holds: Vec<usize>,
    /// The frame has to hold these of `kept` at the end.
    pub suspends: Option<usize>,
}

/// How far a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Where it went out; `None`: it came to the end.
    pub exit: Option<u32>,
    /// The parser rejected it with this error, which may be 0.
    pub rejected: Option<u32>,
    /// Bits of the packet that the parser consumed.
    pub consumed_bits: usize,
    /// The last value of [`PassStep::Tell`].
    pub told: u64,
    /// At the end of a pass that emits: where in the buffer the packet now begins.
    pub start: usize,
}

/// A packet that goes through a pass.
pub struct Passing<'a> {
    /// Which of [`Known::passes`](crate::Known::passes).
    pub pass: usize,
    /// Room for longer headers, and the packet (or its rest, see [`Pass::resumes`]), which ends with the buffer.
    pub buffer: &'a mut [u8],
    /// Where in the buffer it begins.
    pub start: usize,
    /// The numbers that steps refer to.
    pub given: [u64; GIVEN],
    /// The blocks' access to everything outside themselves.
    pub env: &'a mut dyn Env,
}

/// Packets that come one after the other; one that came to the end of a pass may come again, for one that resumes it.
/// [`Env::tables`] and [`Env::cells`] are the same for all.
pub trait Coming {
    /// The next packet, if any.
    fn next(&mut self) -> Option<Passing<'_>>;
}

/// Packets that go through passes, one after the other.
pub trait Convoy: Coming {
    /// How far the packet went that came last. False: none shall follow it.
    fn passed(&mut self, passed: Passed) -> bool;
}
