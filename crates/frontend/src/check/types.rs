//! Types while checking: interned, so that equal types have equal [`Ty`]s.
//!
//! Unlike the types of the IR these may mention type variables: [`Kind::Param`] is the variable of a generic
//! declaration, [`Kind::Infer`] one whose value a call is about to determine.

use std::collections::HashMap;

/// Names a type of a [`TyTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ty(u32);

/// The kinds of types.
#[allow(clippy::enum_variant_names)] // `match_kind` is called so
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The type after an error; compatible with everything.
    Error,
    /// `void`
    Void,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `bit<W>` or `int<W>`
    Bits { width: u32, signed: bool },
    /// `varbit<W>`
    Varbit(u32),
    /// `string`
    String,
    /// `error`
    ErrorCode,
    /// `match_kind`
    MatchKind,
    /// Index into `Tree::enums`.
    Enum(usize),
    /// Index into `Tree::structs`, type arguments.
    Struct(usize, Vec<Ty>),
    /// Array or header stack.
    Stack(Ty, u32),
    /// `tuple<...>`
    Tuple(Vec<Ty>),
    /// `list<T>`
    List(Ty),
    /// Index into `Tree::new_types`.
    New(usize),
    /// Index into `Tree::externs`, type arguments.
    Extern(usize, Vec<Ty>),
    /// Parser or control: index into `Tree::blocks`, type arguments.
    Block(usize, Vec<Ty>),
    /// Index into `Tree::packages`, type arguments.
    Package(usize, Vec<Ty>),
    /// Index into `Tree::type_params`.
    Param(usize),
    /// Being inferred.
    Infer(u32),
    /// `{a, b, ...}`: a list expression that ends with `...`.
    OpenTuple(Vec<Ty>),
    /// `{k = a}` of still unknown type; true: ends with `...`.
    Record(Vec<(String, Ty)>, bool),
    /// `{#}` of still unknown type.
    Invalid,
    /// `...` of still unknown type.
    Dots,
    /// The result of `table.apply()`: index into `Tree::tables`.
    Applied(usize),
}

/// Every type met so far, each once.
pub struct TyTable {
    kinds: Vec<Kind>,
    /// Whether the type mentions variables.
    open: Vec<bool>,
    // Only for finding; never iterated.
    index: HashMap<Kind, Ty>,
}

macro_rules! common {
    ($($name:ident = $n:literal => $kind:expr;)*) => {
        impl Ty {$(
            #[doc = concat!("The type `", stringify!($kind), "`.")]
            pub const $name: Ty = Ty($n);
        )*}
        const COMMON: &[Kind] = &[$($kind),*];
    };
}

common! {
    ERROR = 0 => Kind::Error;
    VOID = 1 => Kind::Void;
    BOOL = 2 => Kind::Bool;
    INT = 3 => Kind::Int;
    STRING = 4 => Kind::String;
    ERROR_CODE = 5 => Kind::ErrorCode;
    MATCH_KIND = 6 => Kind::MatchKind;
    BIT32 = 7 => Kind::Bits { width: 32, signed: false };
    INVALID = 8 => Kind::Invalid;
    DOTS = 9 => Kind::Dots;
}

impl Ty {
    /// Its index: types are numbered from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Default for TyTable {
    fn default() -> Self {
        let mut table = TyTable { kinds: Vec::new(), open: Vec::new(), index: HashMap::new() };
        for k in COMMON {
            table.intern(k.clone());
        }
        table
    }
}

impl TyTable {
    /// The type that is `kind`.
    pub fn intern(&mut self, kind: Kind) -> Ty {
        if let Some(ty) = self.index.get(&kind) {
            return *ty;
        }
        let ty = Ty(self.kinds.len() as u32);
        let of = |ts: &[Ty]| ts.iter().any(|t| self.open[t.0 as usize]);
        let open = match &kind {
            Kind::Param(_) | Kind::Infer(_) => true,
            Kind::Struct(_, ts)
            | Kind::Extern(_, ts)
            | Kind::Block(_, ts)
            | Kind::Package(_, ts)
            | Kind::Tuple(ts)
            | Kind::OpenTuple(ts) => of(ts),
            Kind::Stack(t, _) | Kind::List(t) => of(&[*t]),
            Kind::Record(fs, _) => fs.iter().any(|(_, t)| of(&[*t])),
            _ => false,
        };
        self.open.push(open);
        self.kinds.push(kind.clone());
        self.index.insert(kind, ty);
        ty
    }

    /// The kind of `ty`.
    pub fn get(&self, ty: Ty) -> &Kind {
        &self.kinds[ty.0 as usize]
    }

    /// The number of types.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The type with this index, which is below [`TyTable::len`].
    pub fn nth(&self, index: usize) -> Ty {
        Ty(index as u32)
    }

    /// `bit<width>`
    pub fn bit(&mut self, width: u32) -> Ty {
        self.intern(Kind::Bits { width, signed: false })
    }

    /// `ty` with every variable replaced that `map` knows.
    pub fn replace(&mut self, ty: Ty, map: &dyn Fn(&Kind) -> Option<Ty>) -> Ty {
        if !self.open[ty.0 as usize] {
            return ty;
        }
        let kind = self.get(ty).clone();
        let all = |table: &mut Self, ts: Vec<Ty>| -> Vec<Ty> {
            ts.into_iter().map(|t| table.replace(t, map)).collect()
        };
        let kind = match kind {
            Kind::Param(_) | Kind::Infer(_) => return map(&kind).unwrap_or(ty),
            Kind::Struct(d, args) if !args.is_empty() => Kind::Struct(d, all(self, args)),
            Kind::Extern(d, args) if !args.is_empty() => Kind::Extern(d, all(self, args)),
            Kind::Block(d, args) if !args.is_empty() => Kind::Block(d, all(self, args)),
            Kind::Package(d, args) if !args.is_empty() => Kind::Package(d, all(self, args)),
            Kind::Stack(t, n) => Kind::Stack(self.replace(t, map), n),
            Kind::List(t) => Kind::List(self.replace(t, map)),
            Kind::Tuple(ts) => Kind::Tuple(all(self, ts)),
            Kind::OpenTuple(ts) => Kind::OpenTuple(all(self, ts)),
            Kind::Record(fs, rest) => {
                Kind::Record(fs.into_iter().map(|(n, t)| (n, self.replace(t, map))).collect(), rest)
            }
            _ => return ty,
        };
        self.intern(kind)
    }

    /// `ty` with the type parameters `params` replaced by `args`.
    pub fn subst(&mut self, ty: Ty, params: &[Ty], args: &[Ty]) -> Ty {
        if params.is_empty() {
            return ty;
        }
        let pairs: Vec<(Kind, Ty)> =
            params.iter().zip(args).map(|(p, a)| (self.get(*p).clone(), *a)).collect();
        self.replace(ty, &|k| pairs.iter().find(|(p, _)| p == k).map(|(_, a)| *a))
    }

    /// Whether `found` holds for `ty` or a part of it.
    pub fn any(&self, ty: Ty, found: &dyn Fn(&Kind) -> bool) -> bool {
        let kind = self.get(ty);
        found(kind)
            || match kind {
                Kind::Struct(_, ts)
                | Kind::Extern(_, ts)
                | Kind::Block(_, ts)
                | Kind::Package(_, ts)
                | Kind::Tuple(ts)
                | Kind::OpenTuple(ts) => ts.iter().any(|t| self.any(*t, found)),
                Kind::Stack(t, _) | Kind::List(t) => self.any(*t, found),
                Kind::Record(fs, _) => fs.iter().any(|(_, t)| self.any(*t, found)),
                _ => false,
            }
    }

    /// Width and signedness of `bit<W>` or `int<W>`.
    pub fn bits(&self, ty: Ty) -> Option<(u32, bool)> {
        match self.get(ty) {
            Kind::Bits { width, signed } => Some((*width, *signed)),
            _ => None,
        }
    }
}
