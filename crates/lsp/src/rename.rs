//! Renaming: all uses in all programs that have the name, or a reason why not.

use crate::World;
use crate::analysis::{Place, Program, uri_of};
use crate::navigate::{declared_at, uses};
use crate::position::Lines;
use crate::requests::Failure;
use crate::server::{At, Server};
use pointsman_frontend::RESERVED;
use pointsman_frontend::diag::Severity;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn refused(why: impl Into<String>) -> Failure {
    Failure::new(Failure::REFUSED, why)
}

/// `textDocument/prepareRename`
pub fn prepare<W: World>(server: &mut Server<W>, params: &Value) -> Result<Value, Failure> {
    let at = server.at(params)?;
    renamable(server, &at)?;
    let Some((span, i)) = at.program.index().at(at.file, at.offset) else { return Ok(Value::Null) };
    let name = &at.program.index().symbols[i].name;
    Ok(json!({ "range": at.program.range(span, server.encoding), "placeholder": name }))
}

/// The places of a name that can be renamed.
fn renamable<W: World>(server: &mut Server<W>, at: &At) -> Result<(Place, BTreeSet<Place>), Failure> {
    let Some((_, i)) = at.program.index().at(at.file, at.offset) else {
        return Err(refused("there is no name here that the program declares"));
    };
    let symbol = at.program.index().symbols[i].clone();
    let file = &at.program.paths[symbol.span.file as usize];
    if file.starts_with('<') {
        return Err(refused(format!("`{}` is declared in {file}, which comes with Pointsman", symbol.name)));
    }
    if symbol.name == "main" {
        return Err(refused("the program's package must be called `main`"));
    }
    let (declared, all) = uses(server, at).ok_or_else(|| refused("its declaration is in no file"))?;
    for program in server.programs_with(&declared) {
        let symbols = declared_at(&program, &declared, &server.world);
        if symbols.iter().any(|s| program.index().symbols[*s].in_macro) {
            let why = "a macro uses it, and uses in macros cannot be found in the source";
            return Err(refused(format!("`{}` cannot be renamed: {why}", symbol.name)));
        }
        let left_out = left_out(&program, &symbol.name, &server.world);
        if let Some(place) = left_out.into_iter().find(|place| !all.contains(place)) {
            let text = server.text_of(&place.path).unwrap_or_default();
            let line = text.get(..place.lo).unwrap_or("").matches('\n').count() + 1;
            let why =
                format!("code that `#if` leaves out has the name, too, in line {line} of {}", place.path);
            return Err(refused(format!("`{}` cannot be renamed: {why}", symbol.name)));
        }
    }
    Ok((declared, all))
}

/// Where a name is in text that `#if` leaves out of a program. Text of a file that is included several times is part of the program if
/// one of them has it.
fn left_out<W: World>(program: &Program, name: &str, world: &W) -> Vec<Place> {
    let mut times: BTreeMap<Place, usize> = BTreeMap::new();
    let sources = program.sources();
    for span in sources.left_out.iter().filter(|s| sources.text(**s) == name) {
        if let Some(place) = program.place(*span, world) {
            *times.entry(place).or_default() += 1;
        }
    }
    let included = |path: &str| program.paths.iter().filter(|p| *p == path).count();
    times.retain(|place, n| *n >= included(&place.path));
    times.into_keys().collect()
}

/// `textDocument/rename`
pub fn rename<W: World>(server: &mut Server<W>, params: &Value) -> Result<Value, Failure> {
    let at = server.at(params)?;
    let new = params["newName"].as_str().unwrap_or_default();
    let letter = |c: char| c == '_' || c.is_ascii_alphabetic();
    if !new.starts_with(letter) || !new.chars().all(|c| letter(c) || c.is_ascii_digit()) {
        let message = format!("`{new}` is not a name: names have letters, digits and `_`");
        return Err(Failure::new(Failure::INVALID_PARAMS, message));
    }
    if RESERVED.contains(&new) {
        return Err(Failure::new(Failure::INVALID_PARAMS, format!("`{new}` is a keyword")));
    }
    let (declared, all) = renamable(server, &at)?;
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut edits: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    // From the end, so that places stay right.
    for place in all.iter().rev() {
        let Some(old) = server.text_of(&place.path) else { continue };
        let range = Lines::new(&old).range(&old, place.lo, place.hi, server.encoding);
        let uri = uri_of(&place.path, &server.open);
        edits.entry(uri).or_default().push(json!({ "range": range, "newText": new }));
        let text = texts.entry(place.path.clone()).or_insert(old);
        if text.get(place.lo..place.hi).is_some() {
            text.replace_range(place.lo..place.hi, new);
        }
    }
    for program in server.programs_with(&declared) {
        if let Some(renamed) = server.with_texts(&program, &texts) {
            same_meaning(&program, &renamed, new)?;
        }
    }
    Ok(json!({ "changes": edits }))
}

/// Checks that every name of a program means after renaming what it meant before.
fn same_meaning(before: &Program, after: &Program, new: &str) -> Result<(), Failure> {
    let errors = |p: &Program| {
        let all = p.analysis.checked.diagnostics.iter().filter(|d| d.severity == Severity::Error);
        all.map(|d| d.message.clone()).collect::<Vec<_>>()
    };
    let (old, now) = (errors(before), errors(after));
    if now.len() > old.len() {
        let first = now.iter().find(|m| !old.contains(m)).map_or("there would be errors", String::as_str);
        return Err(refused(format!("not renamed to `{new}`: {first}")));
    }
    // Declarations keep their order, so the symbols are the same ones. Uses of one may not become uses of another.
    let counts =
        |p: &Program| (0..p.index().symbols.len()).map(|i| p.index().uses_of(i).count()).collect::<Vec<_>>();
    if counts(before) != counts(after) {
        return Err(refused(format!("not renamed to `{new}`: another declaration has this name")));
    }
    Ok(())
}
