//! Native code of one block, and what belongs to it.

use crate::runtime::{Ctx, Wide};
use cranelift_jit::JITModule;
use pointsman_ir::table::flat::Place as FieldAt;
use pointsman_ir::{ExternFnId, ExternInstanceId, TableId, TypeId, ValueSetId};

/// A call out of native code. The code holds its address.
#[derive(Debug)]
pub(crate) enum Site {
    Table(TableSite),
    Extern(ExternSite),
    /// The arguments are numbers: two words each.
    Flat(ExternSite),
    ValueSet(ValueSetSite),
    Wide(Wide),
}

/// `table.apply()`.
#[derive(Debug)]
pub(crate) struct TableSite {
    pub(crate) table: TableId,
    /// Positions of the key's fields, except those of kind `selector`; words that they take.
    pub(crate) keys: Vec<FieldAt>,
    pub(crate) key_words: usize,
    /// Widths of the selectors, which are packed in these bytes behind the key.
    pub(crate) selectors: Vec<u32>,
    pub(crate) selector_bytes: usize,
    /// Position of the data in a row, by action.
    pub(crate) data: Vec<RowData>,
    pub(crate) row_words: usize,
}

/// Data of an action in a row.
#[derive(Debug)]
pub(crate) enum RowData {
    /// Numbers, as in the rows of flat tables.
    Flat(Vec<(TypeId, FieldAt)>),
    /// All other values, in natural form: only rows that the runtime makes hold it. Offsets in bytes.
    Natural(Vec<(TypeId, u32)>),
}

/// A call of an extern.
#[derive(Debug)]
pub(crate) struct ExternSite {
    pub(crate) function: ExternFnId,
    pub(crate) instance: Option<ExternInstanceId>,
    pub(crate) type_args: Vec<TypeId>,
    pub(crate) args: Vec<ExternArg>,
    /// Type and offset of the result.
    pub(crate) returns: Option<(TypeId, u32)>,
    /// Bytes of the arguments and the result.
    pub(crate) size: u32,
    /// Widths of the arguments: only of flat calls.
    pub(crate) widths: Vec<u32>,
    /// The struct among the arguments has no fixed width, and follows the words.
    pub(crate) loose: bool,
}

/// An argument of an extern.
#[derive(Debug)]
pub(crate) struct ExternArg {
    pub(crate) ty: TypeId,
    pub(crate) offset: u32,
    /// Taken back after the call.
    pub(crate) out: bool,
}

/// A parser value set in a `select`.
#[derive(Debug)]
pub(crate) struct ValueSetSite {
    pub(crate) set: ValueSetId,
    /// Width and offset of each field.
    pub(crate) keys: Vec<(u32, u32)>,
    pub(crate) size: u32,
}

/// Native code of a block.
pub(crate) struct Code {
    /// Owns the memory of the code; `None` only while it is dropped.
    pub(crate) module: Option<JITModule>,
    pub(crate) entry: extern "C" fn(*mut Ctx<'_>) -> i64,
    /// Words of the memory that it is run on.
    pub(crate) words: usize,
    /// The code holds their addresses: never moved, dropped after it.
    #[allow(clippy::vec_box)]
    pub(crate) _sites: Vec<Box<Site>>,
    /// It uses flat tables, or cells, itself, or notes hits of the tables.
    pub(crate) tables: bool,
    pub(crate) notes: bool,
    pub(crate) cells: bool,
    /// It does so without comparing some index with a length.
    pub(crate) trusts_cells: bool,
    /// It does something only where packets are processed at the same time.
    pub(crate) shared: bool,
    /// Of a pass: every block is in it.
    pub(crate) whole: bool,
    /// It emits headers.
    pub(crate) emits: bool,
    /// Of code that looks ahead: the tables that it looks up (the first 64 can be large), and whether cells alone make it
    /// worthwhile.
    pub(crate) foreseen: Vec<TableId>,
    pub(crate) large_arrays: bool,
    pub(crate) strings: Vec<std::sync::Arc<str>>,
    pub(crate) _constants: Vec<Box<[u64]>>,
    /// Bytes of machine code.
    pub(crate) size: usize,
}

// SAFETY: once it is made, neither code nor constants change; everything that a run writes is in its context.
#[allow(unsafe_code)]
unsafe impl Sync for Code {}
// SAFETY: nothing in it belongs to a thread.
#[allow(unsafe_code)]
unsafe impl Send for Code {}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("size", &self.size).field("words", &self.words).finish()
    }
}

impl Drop for Code {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: nothing runs the code any more: a run borrows it, and its address is private.
            unsafe { module.free_memory() }
        }
    }
}
