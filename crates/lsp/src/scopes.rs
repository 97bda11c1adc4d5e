//! Names that can be written at a place.

use crate::analysis::Program;
use crate::outline::{self, Item};
use pointsman_frontend::index::{Symbol, SymbolKind};
use pointsman_ir::Span;

/// A visible name.
pub struct Visible<'a> {
    pub symbol: &'a Symbol,
    /// The size of the part of the program that sees it: the smaller, the closer.
    pub reach: u32,
}

/// The names that are understood at byte `offset` of `file`, the closest first. States and match kinds are where they can be
/// named; fields and the like are not.
pub fn visible(program: &Program, file: u32, offset: u32) -> Vec<Visible<'_>> {
    let index = program.index();
    let mut out = Vec::new();
    let within = |s: Span| s.file == file && s.lo <= offset && offset <= s.hi;
    outline::each(&program.outline, &mut |item| {
        let seen = match item.scope {
            Some(scope) => within(scope) && (item.kind == SymbolKind::State || before(item, file, offset)),
            None => !item.member && before(item, file, offset),
        };
        let named = item.kind == SymbolKind::MatchKind;
        if (seen || named)
            && let Some(i) = index.declared_at(item.name_span)
        {
            let reach = item.scope.map_or(u32::MAX, |s| s.hi - s.lo);
            out.push(Visible { symbol: &index.symbols[i], reach });
        }
    });
    out.sort_by_key(|v| v.reach);
    out
}

/// Whether the name is declared before the place. Names of other files are taken to be.
fn before(item: &Item, file: u32, offset: u32) -> bool {
    item.name_span.file != file || item.name_span.hi <= offset
}

/// The symbol that `name` means at a place.
pub fn find<'a>(program: &'a Program, file: u32, offset: u32, name: &str) -> Option<&'a Symbol> {
    visible(program, file, offset).into_iter().map(|v| v.symbol).find(|s| s.name == name)
}

/// The symbol called `name` that is declared closest before a place, whether it is visible there or not: for text that cannot
/// be read.
pub fn nearest<'a>(program: &'a Program, file: u32, offset: u32, name: &str) -> Option<&'a Symbol> {
    let member = |k: SymbolKind| {
        matches!(k, SymbolKind::Field | SymbolKind::Method | SymbolKind::EnumMember | SymbolKind::Unknown)
    };
    let all = program.index().symbols.iter().filter(|s| s.name == name && !member(s.kind));
    all.min_by_key(|s| {
        let here = s.span.file == file && s.span.lo <= offset;
        (!here, if here { offset - s.span.lo } else { s.span.lo })
    })
}
