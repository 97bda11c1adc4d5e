//! Completion: members behind a dot, names in scope, keywords, annotations, files of includes.

use crate::World;
use crate::analysis::Program;
use crate::requests::Failure;
use crate::scopes;
use crate::server::{At, Server};
use pointsman_frontend::RESERVED;
use pointsman_frontend::index::{Member, SymbolKind as K, TypeId};
use serde_json::{Value, json};

/// Annotations of the language, of P4Runtime, and of v1model, with what each takes.
const ANNOTATIONS: &[(&str, &str)] = &[
    ("atomic", "the block runs in isolation"),
    ("defaultonly", "the action is only a default action"),
    ("deprecated", "(\"text\"): uses get a warning"),
    ("field_list", "(numbers): fields kept by clone, resubmit and recirculate"),
    ("hidden", "not visible to the control plane"),
    ("id", "(number): the id in P4Info"),
    ("match", "(kind): match kind of a field of a value set"),
    ("name", "(\"name\"): the control-plane name"),
    ("noWarn", "(\"warning\"): silences a warning"),
    ("optional", "the parameter can be left out"),
    ("p4runtime_translation", "(\"uri\", bit<W>): values are translated"),
    ("pkginfo", "[name = \"name\"]: P4Info's package information"),
    ("priority", "(number): the priority of an entry"),
    ("pure", "the function has no side effects"),
    ("repeatable", "the code may be executed again when the packet comes back"),
    ("restarts", "the control may send the packet back to the start"),
    ("tableonly", "the action is never a default action"),
];

/// Words that are keywords in some places only.
const CONTEXT_WORDS: [&str; 11] = [
    "accept",
    "actions",
    "apply",
    "default_action",
    "entries",
    "key",
    "priority",
    "reject",
    "size",
    "state",
    "type",
];

/// `textDocument/completion`
pub fn complete<W: World>(server: &mut Server<W>, params: &Value) -> Result<Value, Failure> {
    let at = server.at(params)?;
    let text = at.program.text(at.file).0;
    let before = text.get(..at.offset as usize).unwrap_or("");
    let word_start = before.trim_end_matches(is_word).len();
    let (before, word) = before.split_at(word_start);
    let items = match context(before) {
        Context::Nothing => Vec::new(),
        Context::Include => {
            server.world.built_in_names().iter().map(|n| item(n, 17, "comes with Pointsman", 1)).collect()
        }
        Context::Annotation => ANNOTATIONS.iter().map(|(n, text)| item(n, 14, text, 1)).collect(),
        Context::Member => {
            let last = server.last_readable(&at.program);
            let (found, program) = match members(&at.program, &at, before) {
                None => (last.as_ref().and_then(|p| members(p, &at, before)), last.as_deref()),
                found => (found, Some(&*at.program)),
            };
            let detail = |m: &Member| program.map_or("", |_| m.text.as_str()).to_string();
            found.unwrap_or_default().iter().map(|m| item(&m.name, kind(m.kind), &detail(m), 1)).collect()
        }
        Context::Name => {
            let mut items = names(&at.program, &at);
            // Where the text around cannot be read, names of the last readable one are better than none.
            if !items.iter().any(|i| i["sortText"] == "1")
                && let Some(last) = server.last_readable(&at.program)
            {
                let known: Vec<Value> = items.iter().map(|i| i["label"].clone()).collect();
                items.extend(names(&last, &at).into_iter().filter(|i| !known.contains(&i["label"])));
            }
            items
        }
    };
    let word = word.to_lowercase();
    let fits = |i: &Value| i["label"].as_str().is_some_and(|l| l.to_lowercase().contains(&word));
    Ok(Value::Array(items.into_iter().filter(fits).collect()))
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

/// An item. `rank`: the closer the first.
fn item(label: &str, kind: u8, detail: &str, rank: u8) -> Value {
    let detail = detail.lines().next().unwrap_or_default().trim_end_matches(" {");
    json!({ "label": label, "kind": kind, "detail": detail, "sortText": rank.to_string() })
}

/// What is being written at the end of a text.
#[derive(Debug, PartialEq, Eq)]
enum Context {
    /// A comment, a string, a number.
    Nothing,
    Include,
    Annotation,
    Member,
    Name,
}

fn context(before: &str) -> Context {
    let line = before.rsplit('\n').next().unwrap_or_default();
    if let Some(directive) = line.trim_start().strip_prefix('#') {
        let name = directive.trim_start().strip_prefix("include").map(str::trim_start);
        let open = name.is_some_and(|n| (n.starts_with('<') && !n.contains('>')) || n == "\"");
        return if open { Context::Include } else { Context::Nothing };
    }
    let mut rest = line;
    // Whether the line ends in a comment or string.
    while let Some(i) = rest.find(['"', '/']) {
        let from = &rest[i..];
        if from.starts_with("//") {
            return Context::Nothing;
        }
        rest = match from.starts_with('"') {
            true => match from[1..].find('"') {
                Some(end) => &from[end + 2..],
                None => return Context::Nothing,
            },
            false => &from[1..],
        };
    }
    if before.rfind("/*").is_some_and(|open| !before[open..].contains("*/")) {
        return Context::Nothing;
    }
    match before.trim_end().chars().last() {
        Some('@') if before.ends_with('@') => Context::Annotation,
        Some('.') => Context::Member,
        _ => Context::Name,
    }
}

/// A step of `a.b[i].c()`.
#[derive(Debug, PartialEq, Eq)]
struct Step<'a> {
    name: &'a str,
    /// Indexed this many times.
    indexed: usize,
}

/// The expression in front of the dot that ends `before`, from its first name on.
fn chain(before: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    let mut rest = before.trim_end();
    while let Some(r) = rest.strip_suffix('.') {
        rest = r.trim_end();
        let mut indexed = 0;
        loop {
            let open = match rest.chars().last()? {
                ')' => opening(rest, '(', ')')?,
                ']' => {
                    indexed += 1;
                    opening(rest, '[', ']')?
                }
                // Type arguments of a call.
                '>' => opening(rest, '<', '>')?,
                _ => break,
            };
            rest = rest[..open].trim_end();
        }
        let start = rest.trim_end_matches(is_word).len();
        let name = &rest[start..];
        if name.is_empty() {
            return None;
        }
        steps.push(Step { name, indexed });
        rest = rest[..start].trim_end();
    }
    steps.reverse();
    (!steps.is_empty()).then_some(steps)
}

/// The place of the bracket that the last character of `text` closes.
fn opening(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0usize;
    for (i, c) in text.char_indices().rev() {
        if c == close {
            depth += 1;
        } else if c == open {
            depth -= 1;
            if depth == 0 {
                return Some(i);
            }
        }
    }
    None
}

/// The members of the expression in front of the dot. `None`: its type is not known.
fn members(program: &Program, at: &At, before: &str) -> Option<Vec<Member>> {
    let steps = chain(before)?;
    let (first, rest) = steps.split_first()?;
    let types = &program.index().types;
    if first.name == "error" {
        return Some(types.iter().find(|t| t.name == "error")?.statics.clone());
    }
    let offset = at.offset.min(program.text(at.file.min(program.paths.len() as u32 - 1)).0.len() as u32);
    let symbol = scopes::find(program, at.file, offset, first.name)
        .or_else(|| scopes::nearest(program, at.file, offset, first.name))?;
    if symbol.kind == K::Table && rest.is_empty() {
        let (name, text) = ("apply".to_string(), "apply()".to_string());
        return Some(vec![Member { name, kind: K::Method, text, ty: symbol.ty, span: None }]);
    }
    let is_type = matches!(symbol.kind, K::Enum | K::TypeName | K::Struct | K::Header | K::HeaderUnion);
    let mut ty = symbol.ty?;
    // `t.apply().hit`: the type of a table's name is that of the result.
    let rest = if symbol.kind == K::Table { &rest[1..] } else { rest };
    ty = indexed(program, ty, first.indexed)?;
    for step in rest {
        let member = types[ty].members.iter().find(|m| m.name == step.name)?;
        ty = indexed(program, member.ty?, step.indexed)?;
    }
    if is_type && rest.is_empty() {
        let sizes = types[ty].members.iter().filter(|m| m.name.contains("SizeIn")).cloned();
        let apply = types[ty].members.iter().filter(|m| m.name == "apply").cloned();
        return Some(types[ty].statics.iter().cloned().chain(sizes).chain(apply).collect());
    }
    Some(types[ty].members.clone())
}

fn indexed(program: &Program, mut ty: TypeId, times: usize) -> Option<TypeId> {
    for _ in 0..times {
        ty = program.index().types[ty].element?;
    }
    Some(ty)
}

/// Names in scope, keywords.
fn names(program: &Program, at: &At) -> Vec<Value> {
    let file = at.file.min(program.paths.len() as u32 - 1);
    let mut seen = std::collections::BTreeSet::new();
    let mut out = Vec::new();
    for v in scopes::visible(program, file, at.offset) {
        let s = v.symbol;
        // The closest hides others.
        if seen.insert(s.name.clone()) {
            let own = !program.paths[s.span.file as usize].starts_with('<');
            let rank = match (v.reach, own) {
                (u32::MAX, true) => 2,
                (u32::MAX, false) => 3,
                _ => 1,
            };
            out.push(item(&s.name, kind(s.kind), &s.text, rank));
        }
    }
    let words = RESERVED.iter().chain(&CONTEXT_WORDS).filter(|w| **w != "_");
    out.extend(words.filter(|w| !seen.contains(**w)).map(|w| item(w, 14, "keyword", 4)));
    out
}

/// The protocol's `CompletionItemKind`.
fn kind(kind: K) -> u8 {
    match kind {
        K::Struct | K::Header | K::HeaderUnion => 22,
        K::Enum => 13,
        K::EnumMember | K::Error | K::MatchKind => 20,
        K::TypeName | K::TypeParameter => 25,
        K::Extern => 8,
        K::Parser | K::Control | K::Package => 7,
        K::Constant => 21,
        K::Variable | K::Parameter | K::Instance | K::Table | K::ValueSet | K::Unknown => 6,
        K::Function | K::Action | K::State => 3,
        K::Method => 2,
        K::Field => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts() {
        let check = |text: &str, expected: Context| assert_eq!(context(text), expected, "{text}");
        check("x = a.", Context::Member);
        check("x = ", Context::Name);
        check("// a.", Context::Nothing);
        check("a; /* b.\n c.", Context::Nothing);
        check("/* b */ c.", Context::Member);
        check("s = \"a", Context::Nothing);
        check("s = \"a\" + b.", Context::Member);
        check("@", Context::Annotation);
        check("#include <", Context::Include);
        check("#include <a>", Context::Nothing);
        check("#define A a.", Context::Nothing);
        check("", Context::Name);
    }

    #[test]
    fn chains() {
        let names = |text| chain(text).map(|s| s.iter().map(|s| (s.name, s.indexed)).collect::<Vec<_>>());
        assert_eq!(names("x = hdr.ip."), Some(vec![("hdr", 0), ("ip", 0)]));
        assert_eq!(names("f(a.s[b[1].c].d."), Some(vec![("a", 0), ("s", 1), ("d", 0)]));
        assert_eq!(names("t.apply()."), Some(vec![("t", 0), ("apply", 0)]));
        assert_eq!(names("p.lookahead<bit<8>>()."), Some(vec![("p", 0), ("lookahead", 0)]));
        assert_eq!(names("(a + b)."), None);
        for text in [".", "].", ").", "a..", ">.", "é.", ""] {
            let _ = names(text);
        }
    }
}
