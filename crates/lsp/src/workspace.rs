//! Declarations by name, over all programs of open documents.

use crate::World;
use crate::analysis::{Place, Program};
use crate::outline::Item;
use crate::requests::Failure;
use crate::server::Server;
use crate::symbols::kind;
use pointsman_frontend::index::SymbolKind as K;
use pointsman_ir::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::rc::Rc;

/// At most so many declarations are returned: the best matches.
const MAX_FOUND: usize = 200;

/// A declaration whose name matches.
struct Found {
    program: Rc<Program>,
    kind: K,
    span: Span,
    container: Option<String>,
}

/// What results are sorted by: how well the name matches, the user's files before built-in ones, name, place.
type Rank = (u8, bool, String, Place);

/// `workspace/symbol`: declarations whose names contain the letters of the query in their order, in either case.
pub fn symbols<W: World>(server: &mut Server<W>, params: &Value) -> Result<Value, Failure> {
    let query = params["query"].as_str().unwrap_or_default().to_lowercase();
    let mut found = BTreeMap::new();
    for program in server.shown() {
        search(&program, (&program.outline, None), &query, &server.world, &mut found);
    }
    let best = found.iter().take(MAX_FOUND).filter_map(|((_, _, name, _), f)| {
        let location = f.program.location(f.span, &server.open, &server.world, server.encoding)?;
        Some(json!({
            "name": name,
            "kind": kind(f.kind),
            "location": location,
            "containerName": f.container,
        }))
    });
    Ok(Value::Array(best.collect()))
}

fn search(
    program: &Rc<Program>,
    (items, container): (&[Item], Option<&str>),
    query: &str,
    world: &dyn World,
    found: &mut BTreeMap<Rank, Found>,
) {
    for item in items {
        if let Some(quality) = Some(&item.name).filter(|_| is_listed(item)).and_then(|n| matches(n, query))
            && let Some(place) = program.place(item.name_span, world)
        {
            let file = program.paths.get(item.name_span.file as usize);
            let built_in = file.is_some_and(|path| path.starts_with('<'));
            let container = container.map(str::to_string);
            let (kind, span) = (item.kind, item.name_span);
            found.insert(
                (quality, built_in, item.name.clone(), place),
                Found { program: program.clone(), kind, span, container },
            );
        }
        search(program, (&item.children, Some(&item.name)), query, world, found);
    }
}

/// Whether users look for such a declaration from other files. What a macro makes has no name in the source.
fn is_listed(item: &Item) -> bool {
    let inner = matches!(
        item.kind,
        K::Parameter
            | K::TypeParameter
            | K::Variable
            | K::Field
            | K::EnumMember
            | K::Error
            | K::MatchKind
            | K::Method
            | K::Unknown
    );
    !inner && !item.name.is_empty()
}

/// How well a name matches a query in small letters, the best first; `None`: it does not.
fn matches(name: &str, query: &str) -> Option<u8> {
    let name = name.to_lowercase();
    let mut rest = name.chars();
    match () {
        () if name == query => Some(0),
        () if name.starts_with(query) => Some(1),
        () if name.contains(query) => Some(2),
        () => query.chars().all(|c| rest.any(|r| r == c)).then_some(3),
    }
}
