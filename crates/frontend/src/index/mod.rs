//! Names of a program with their declarations, types and values, for editors.
//!
//! The checker notes what it resolves, also in programs with errors; an [`Index`] makes these notes searchable by place. It
//! refers to nothing of the checker.

mod build;
mod text;

pub(crate) use build::build;

use pointsman_ir::Span;

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // each is a kind of declaration
pub enum SymbolKind {
    Struct,
    Header,
    HeaderUnion,
    Enum,
    EnumMember,
    Error,
    MatchKind,
    /// `typedef` and `type`.
    TypeName,
    TypeParameter,
    Extern,
    Parser,
    Control,
    Package,
    Constant,
    Variable,
    Parameter,
    Instance,
    Function,
    Method,
    Action,
    Table,
    ValueSet,
    State,
    Field,
    /// Its declaration has errors.
    Unknown,
}

/// Index into [`Index::types`].
pub type TypeId = usize;

/// A declared name.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// The name.
    pub name: String,
    /// What it is.
    pub kind: SymbolKind,
    /// The name in the declaration.
    pub span: Span,
    /// The declaration in short, as P4 source.
    pub text: String,
    /// The type of the value, or the type that it names.
    pub ty: Option<TypeId>,
    /// The value, if it is known at compile time.
    pub value: Option<String>,
    /// The declaration or a use comes out of a macro, so not all of them can be found in the source.
    pub in_macro: bool,
}

/// A member of a type.
#[derive(Clone, Debug)]
pub struct Member {
    /// The name.
    pub name: String,
    /// What it is.
    pub kind: SymbolKind,
    /// The declaration in short, as P4 source.
    pub text: String,
    /// The type of the value; of a method, that of its result.
    pub ty: Option<TypeId>,
    /// The name in the declaration; `None` for members that the language defines.
    pub span: Option<Span>,
}

/// A type of the program.
#[derive(Clone, Debug, Default)]
pub struct Type {
    /// As the programmer writes it.
    pub name: String,
    /// Least and largest size of its values in bits, if they have one.
    pub bits: Option<(u64, u64)>,
    /// Members of its values.
    pub members: Vec<Member>,
    /// Members of its name, as in `error.NoError`.
    pub statics: Vec<Member>,
    /// Type of the elements of an array.
    pub element: Option<TypeId>,
}

/// All names and types.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The declarations, in order of their places.
    pub symbols: Vec<Symbol>,
    /// The types.
    pub types: Vec<Type>,
    /// Where each symbol is named, declarations included: in order, indices into `symbols`.
    uses: Vec<(Span, usize)>,
}

impl Index {
    /// The name at byte `offset` of a file (the place behind its last letter included), and the index of its symbol.
    pub fn at(&self, file: u32, offset: u32) -> Option<(Span, usize)> {
        let end = self.uses.partition_point(|(s, _)| (s.file, s.lo) <= (file, offset));
        let found = self.uses[..end].iter().rev().take(2);
        found.copied().find(|(s, _)| s.file == file && s.lo <= offset && offset <= s.hi)
    }

    /// All places that name a symbol, its declaration included.
    pub fn uses_of(&self, symbol: usize) -> impl Iterator<Item = Span> + '_ {
        self.uses.iter().filter(move |(_, s)| *s == symbol).map(|(span, _)| *span)
    }

    /// The symbol whose declared name is at `span`.
    pub fn declared_at(&self, span: Span) -> Option<usize> {
        self.symbols.binary_search_by_key(&span, |s| s.span).ok()
    }
}
