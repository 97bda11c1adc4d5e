//! What is known at a point of a program.

use super::fields::FieldId;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// An operation, by its place in the list of all.
pub(crate) type OpId = usize;

/// A value comes from this operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Def {
    pub op: OpId,
    /// It is the outcome of a table: hit, the action that ran, or action data.
    pub outcome: bool,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Val {
    pub defs: Rc<BTreeSet<Def>>,
    /// The fields that hold it, or from which it is made without an operation of its own.
    pub sources: Rc<BTreeSet<FieldId>>,
    pub constant: Option<u128>,
    /// Equal for equal values.
    pub number: u32,
    /// Bits of the sources.
    pub bits: u64,
}

impl Val {
    pub fn new(number: u32) -> Val {
        Val { defs: Rc::default(), sources: Rc::default(), constant: None, number, bits: 0 }
    }

    pub fn from_op(op: OpId, outcome: bool, number: u32) -> Val {
        Val { defs: Rc::new([Def { op, outcome }].into()), ..Val::new(number) }
    }

    /// Adds what another value depends on.
    pub fn depends(mut self, other: &Val) -> Val {
        if !other.defs.is_subset(&self.defs) {
            self.defs = Rc::new(self.defs.union(&other.defs).copied().collect());
        }
        if !other.sources.is_subset(&self.sources) {
            self.sources = Rc::new(self.sources.union(&other.sources).copied().collect());
        }
        self
    }
}

/// Equal values have equal numbers.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    known: BTreeMap<String, u32>,
    next: u32,
}

impl Numbers {
    /// The number of what is described by this text.
    pub fn of(&mut self, text: String) -> u32 {
        let next = &mut self.next;
        *self.known.entry(text).or_insert_with(|| {
            *next += 1;
            *next
        })
    }

    /// A number of its own.
    pub fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

type Ops = Rc<BTreeSet<OpId>>;

/// What is known at a point of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub values: BTreeMap<FieldId, Val>,
    /// The operations that wrote a field last, and those that read it since.
    pub writers: BTreeMap<FieldId, Ops>,
    pub readers: BTreeMap<FieldId, Ops>,
}

fn unite(into: &mut BTreeMap<FieldId, Ops>, other: BTreeMap<FieldId, Ops>) {
    for (field, ops) in other {
        let mine = into.entry(field).or_default();
        if !ops.is_subset(mine) {
            *mine = Rc::new(mine.union(&ops).copied().collect());
        }
    }
}

impl State {
    /// The state where both ways meet. `initial` is the value of a field that was not written.
    pub fn join(
        mut self,
        mut other: State,
        numbers: &mut Numbers,
        initial: impl Fn(FieldId, &mut Numbers) -> Val,
    ) -> State {
        let fields: BTreeSet<FieldId> = self.values.keys().chain(other.values.keys()).copied().collect();
        for field in fields {
            let a = self.values.remove(&field).unwrap_or_else(|| initial(field, numbers));
            let b = other.values.remove(&field).unwrap_or_else(|| initial(field, numbers));
            let joined = if a == b {
                a
            } else {
                let number = if a.number == b.number { a.number } else { numbers.fresh() };
                let constant = a.constant.filter(|c| b.constant == Some(*c));
                Val { number, constant, bits: a.bits.max(b.bits), ..a.depends(&b) }
            };
            self.values.insert(field, joined);
        }
        unite(&mut self.writers, other.writers);
        unite(&mut self.readers, other.readers);
        self
    }
}
