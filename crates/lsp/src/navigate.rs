//! Declarations and uses of names.

use crate::World;
use crate::analysis::{Place, Program};
use crate::requests::Failure;
use crate::server::{At, Server};
use pointsman_ir::Span;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `textDocument/definition`: of a name, or of the file that an include names.
pub fn definition<W: World>(server: &mut Server<W>, params: &Value) -> Result<Value, Failure> {
    let at = server.at(params)?;
    let program = &at.program;
    let target = match program.index().at(at.file, at.offset) {
        Some((_, i)) => Some(program.index().symbols[i].span),
        None => included(program, at.file, at.offset),
    };
    let location = target.and_then(|s| program.location(s, &server.open, &server.world, server.encoding));
    Ok(location.unwrap_or(Value::Null))
}

/// The start of the file that the directive at a place includes.
fn included(program: &Program, file: u32, offset: u32) -> Option<Span> {
    let here = |s: Span| s.file == file && s.lo <= offset && offset <= s.hi;
    let found = program.sources().files.iter().position(|f| f.included_from.is_some_and(here))?;
    Some(Span { file: found as u32, lo: 0, hi: 0 })
}

/// Where the name at a place is declared, and all places that name it, in all programs that have it.
pub fn uses<W: World>(server: &mut Server<W>, at: &At) -> Option<(Place, BTreeSet<Place>)> {
    let (_, i) = at.program.index().at(at.file, at.offset)?;
    let declared = at.program.place(at.program.index().symbols[i].span, &server.world)?;
    let mut all = BTreeSet::new();
    for program in server.programs_with(&declared) {
        for symbol in declared_at(&program, &declared, &server.world) {
            all.extend(program.index().uses_of(symbol).filter_map(|s| program.place(s, &server.world)));
        }
    }
    Some((declared, all))
}

/// The symbols of a program that are declared at a place: several if the file is included several times.
pub fn declared_at(program: &Program, place: &Place, world: &dyn World) -> Vec<usize> {
    let all = program.index().symbols.iter().enumerate();
    let near = all.filter(|(_, s)| (s.span.lo as usize, s.span.hi as usize) == (place.lo, place.hi));
    near.filter(|(_, s)| program.place(s.span, world).as_ref() == Some(place)).map(|(i, _)| i).collect()
}

/// `textDocument/references`
pub fn references<W: World>(server: &mut Server<W>, params: &Value) -> Result<Value, Failure> {
    let at = server.at(params)?;
    let Some((declared, all)) = uses(server, &at) else { return Ok(json!([])) };
    let with_declaration = params["context"]["includeDeclaration"].as_bool().unwrap_or(true);
    let places = all.iter().filter(|p| with_declaration || **p != declared);
    let locations: Vec<Value> = places.filter_map(|p| server.location(p)).collect();
    Ok(json!(locations))
}

/// `textDocument/documentHighlight`: the uses in the same file.
pub fn highlights<W: World>(server: &mut Server<W>, params: &Value) -> Result<Value, Failure> {
    let at = server.at(params)?;
    let index = at.program.index();
    let Some((_, i)) = index.at(at.file, at.offset) else { return Ok(json!([])) };
    let here = index.uses_of(i).filter(|s| s.file == at.file);
    let ranges: Vec<Value> = here.map(|s| json!({ "range": at.program.range(s, server.encoding) })).collect();
    Ok(json!(ranges))
}

impl<W: World> Server<W> {
    /// The text of a file as clients see it.
    pub(crate) fn text_of(&self, path: &str) -> Option<String> {
        self.open.get(path).map(|d| d.text.clone()).or_else(|| self.world.read(path))
    }

    fn location(&self, place: &Place) -> Option<Value> {
        let text = self.text_of(&place.path)?;
        let range = crate::position::Lines::new(&text).range(&text, place.lo, place.hi, self.encoding);
        Some(json!({ "uri": crate::analysis::uri_of(&place.path, &self.open), "range": range }))
    }
}
