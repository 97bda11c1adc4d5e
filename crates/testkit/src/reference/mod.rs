//! The meaning of a generated program, decided from the generator's tree alone.
//!
//! Written from the P4_16 specification with big integers, slowly and plainly; it shares nothing with the compiler and
//! the executors. Where the specification leaves a result open, evaluation ends with [`Stop::Undefined`] and the case
//! is skipped. Four choices follow our switch's documentation: metadata starts with zeros; an invalid header assigned
//! to (or `setInvalid()` on) a member of a union leaves the other members alone; `advance` and the width of a varbit
//! field must be whole bytes, else `ParserInvalidArgument`; `out` parameters of a sub-parser are copied back when it
//! rejects.

mod expr;
mod parse;
mod stmt;
mod table;
mod value;

pub use value::{R, Stop, V};

use crate::generate::tree::*;
use num_bigint::BigInt;
use value::{fresh, to_bits, zero};

/// The egress port that means drop.
const DROP: u32 = 511;

/// Statements that a packet may take; more make a case too slow to be of use.
const STEPS: usize = 20_000;

/// The fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing leaves.
    Dropped,
    /// It leaves on a port.
    Sent(u32, Vec<u8>),
}

/// A program that runs, with its registers and counters.
pub struct Reference<'a> {
    p: &'a Program,
    vars: Vec<V>,
    /// Of ingress and egress, by control.
    registers: Vec<Vec<Vec<BigInt>>>,
    counters: Vec<Vec<Vec<u64>>>,
    packet: Vec<bool>,
    cursor: usize,
    emitted: Vec<bool>,
    steps: usize,
    /// The control whose tables and actions are meant.
    control: usize,
}

impl<'a> Reference<'a> {
    /// Registers and counters at zero.
    pub fn new(p: &'a Program) -> Self {
        let registers = p
            .controls
            .iter()
            .map(|c| c.registers.iter().map(|(_, size)| vec![BigInt::ZERO; *size as usize]).collect());
        let counters = p.controls.iter().map(|c| c.counters.iter().map(|n| vec![0; *n as usize]).collect());
        Reference {
            p,
            vars: vec![V::Unknown; p.vars.len()],
            registers: registers.collect(),
            counters: counters.collect(),
            packet: Vec::new(),
            cursor: 0,
            emitted: Vec::new(),
            steps: 0,
            control: 0,
        }
    }

    /// Cells of a register of a control.
    pub fn register(&self, control: usize, register: usize) -> &[BigInt] {
        &self.registers[control][register]
    }

    /// Packets that each cell of a counter of a control has counted.
    pub fn counter(&self, control: usize, counter: usize) -> &[u64] {
        &self.counters[control][counter]
    }

    /// One packet through the whole switch.
    ///
    /// # Errors
    /// Its fate depends on something that P4_16 leaves open.
    pub fn packet(&mut self, port: u32, bytes: &[u8]) -> Result<Fate, &'static str> {
        self.run(port, bytes).map_err(|stop| match stop {
            Stop::Undefined(why) => why,
            other => unreachable!("{other:?} outside of a block"),
        })
    }

    fn run(&mut self, port: u32, bytes: &[u8]) -> R<Fate> {
        self.steps = 0;
        self.cursor = 0;
        self.packet = bytes.iter().flat_map(|b| to_bits(8, &BigInt::from(*b))).collect();
        self.emitted.clear();
        self.vars[HDR] = fresh(self.p, &Ty::Struct(0));
        self.vars[META] = zero(self.p, &Ty::Struct(1));
        self.vars[STD] = V::Parts(vec![
            V::Num(BigInt::from(port)),
            V::Num(BigInt::ZERO),
            V::Unknown,
            V::Num(BigInt::from(bytes.len())),
            V::Member(0),
        ]);
        let error = match self.parser(self.p.parsers.len() - 1, &[]) {
            Ok(()) => 0,
            // As in BMv2, the packet continues, and the program sees the error.
            Err(Stop::Reject(error)) => error,
            Err(other) => return Err(other),
        };
        let payload = self.cursor;
        self.set_std(4, V::Member(error));
        let ingress = self.p.ingress();
        self.top(ingress)?;
        let spec = self.std(1)?;
        if spec == DROP {
            return Ok(Fate::Dropped);
        }
        self.set_std(1, V::Unknown);
        self.set_std(2, V::Num(BigInt::from(spec)));
        self.set_std(3, V::Unknown);
        self.top(ingress + 1)?;
        self.body(&self.p.deparser)?;
        let mut bits = std::mem::take(&mut self.emitted);
        bits.extend_from_slice(&self.packet[payload..]);
        let bytes = bits.chunks(8).map(|c| c.iter().fold(0u8, |n, b| n << 1 | u8::from(*b)));
        Ok(Fate::Sent(spec, bytes.collect()))
    }

    fn std(&self, field: usize) -> R<u32> {
        match &self.vars[STD] {
            V::Parts(parts) => Ok(u32::try_from(parts[field].num()?).unwrap_or(0)),
            _ => Err(Stop::Undefined("no standard metadata")),
        }
    }

    fn set_std(&mut self, field: usize, value: V) {
        if let V::Parts(parts) = &mut self.vars[STD] {
            parts[field] = value;
        }
    }

    /// Ingress or egress.
    fn top(&mut self, control: usize) -> R<()> {
        match self.control(control, &[], &[]) {
            Err(Stop::Exit) => Ok(()),
            other => other,
        }
    }
}
