//! Table entries, actions and values written as text, resolved against a program.
//!
//! Names are matched as people write them: a table, action or key is known by its full control-plane name or by any
//! ending of it that starts behind a dot, as long as only one has that ending.

mod error;

pub use error::TextError;

use pointsman_ir::{
    ActionCall, Bits, Entry, EntryAction, ExternInstanceId, KeyMatch, MatchKind, Program, Table, TableId,
    Type, TypeId, Value, ValueSetId,
};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// An action with its arguments as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionText {
    /// Name of the action.
    pub name: String,
    /// Arguments; those without a name are positional.
    pub args: Vec<(Option<String>, String)>,
}

/// A table entry as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryText {
    /// Name of the table.
    pub table: String,
    /// Priority; larger wins.
    pub priority: Option<i32>,
    /// Name and match of each key field; omitted fields match anything (if their kind allows).
    pub keys: Vec<(String, String)>,
    /// Its action.
    pub action: ActionText,
    /// Nanoseconds without a hit after which it is reported; 0 for none.
    pub idle_ns: u64,
}

/// The one item among `names` that is called `name`.
fn resolve<'a>(
    what: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, TextError> {
    if let Some(i) = names.clone().position(|n| n == name) {
        return Ok(i);
    }
    let ends = |n: &str, dot: bool| {
        n.strip_suffix(name).is_some_and(|rest| !dot || rest.is_empty() || rest.ends_with('.'))
    };
    for dot in [true, false] {
        let found: Vec<_> = names.clone().enumerate().filter(|(_, n)| ends(n, dot)).collect();
        match found.as_slice() {
            [] => {}
            [(i, _)] => return Ok(*i),
            several => {
                let list = several.iter().map(|(_, n)| n.to_string()).collect();
                let (what, name) = (what.to_string(), name.to_string());
                return Err(TextError::Ambiguous { what, name, candidates: list });
            }
        }
    }
    let (what, name) = (what.to_string(), name.to_string());
    Err(TextError::Unknown { what, name, known: names.map(str::to_string).collect() })
}

/// The table called `name`.
pub fn find_table(program: &Program, name: &str) -> Result<TableId, TextError> {
    let names = program.tables.iter().map(|t| t.name.as_str());
    resolve("table", name, names).map(|i| TableId(i as u32))
}

/// The extern object of kind `object` (`register`, `counter`, `meter` ...) called `name`.
pub fn find_extern(program: &Program, object: &str, name: &str) -> Result<ExternInstanceId, TextError> {
    let all: Vec<_> = program.externs.iter().enumerate().filter(|(_, e)| e.object == object).collect();
    let i = resolve(object, name, all.iter().map(|(_, e)| e.name.as_str()))?;
    Ok(ExternInstanceId(all[i].0 as u32))
}

/// Index of the key field of `table` called `name`.
///
/// `extra$0.h` means `extra[0].h`, and `h.valid` means `h.isValid()`, which is also known as `h.$valid$`, as in tests of older programs.
fn find_key(table: &Table, name: &str) -> Result<usize, TextError> {
    let names = table.keys.iter().map(|k| k.name.as_str());
    let first = resolve("key", name, names.clone());
    if first.is_ok() {
        return first;
    }
    let mut other = String::new();
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '$' || !chars.peek().is_some_and(char::is_ascii_digit) {
            other.push(c);
            continue;
        }
        other.push('[');
        while let Some(d) = chars.next_if(char::is_ascii_digit) {
            other.push(d);
        }
        other.push(']');
    }
    let mut spellings = vec![other.clone()];
    for valid in [".$valid$", ".$valid", ".valid", ".isValid()"] {
        if let Some(base) = other.strip_suffix(valid) {
            spellings.extend([format!("{base}.$valid$"), format!("{base}.isValid()")]);
        }
    }
    spellings.iter().find_map(|s| resolve("key", s, names.clone()).ok()).map_or(first, Ok)
}

fn digits(text: &str) -> Option<(u32, &str)> {
    for (prefix, bits) in [("0x", 4), ("0X", 4), ("0b", 1), ("0B", 1), ("0o", 3)] {
        if let Some(rest) = text.strip_prefix(prefix) {
            return Some((bits, rest));
        }
    }
    None
}

/// A number of any size as big-endian bytes with the number of significant bits.
fn number(text: &str) -> Option<Bits> {
    const WIDE: u32 = 4096;
    let clean: String = text.chars().filter(|c| *c != '_').collect();
    if let Some((bits, rest)) = digits(&clean) {
        if rest.is_empty() || rest.len() as u32 * bits > WIDE {
            return None;
        }
        return rest.chars().try_fold(Bits::zero(WIDE), |v, c| {
            let d = c.to_digit(1 << bits)?;
            Some(v.shl(bits.into()).or(&Bits::new(WIDE, d.into())))
        });
    }
    if clean.is_empty() || clean.len() > 1000 {
        return None;
    }
    let ten = Bits::new(WIDE, 10);
    clean.chars().try_fold(Bits::zero(WIDE), |v, c| {
        let d = c.to_digit(10)?;
        Some(v.mul(&ten).add(&Bits::new(WIDE, d.into())))
    })
}

/// Reads a value of `width` bits: a number (decimal, `0x`, `0b`, `0o`), `true`, `false`, a MAC, IPv4 or IPv6 address. It
/// must fit.
pub fn parse_bits(width: u32, text: &str) -> Result<Bits, TextError> {
    let text = text.trim();
    let value = match text {
        "true" => Some(Bits::new(1, 1)),
        "false" => Some(Bits::new(1, 0)),
        _ => number(text).or_else(|| address(text)),
    };
    let value = value.ok_or_else(|| TextError::Value(text.to_string()))?;
    let fitted = value.zero_extend(width);
    if fitted.zero_extend(value.width()) == value {
        Ok(fitted)
    } else {
        Err(TextError::TooLarge(text.to_string(), width))
    }
}

/// Reads the length of a prefix of a field of `width` bits.
fn prefix_length(width: u32, text: &str) -> Result<u32, TextError> {
    let len = text.trim().parse::<u32>().map_err(|_| TextError::PrefixLength(text.to_string()))?;
    if len > width { Err(TextError::LongPrefix(len, width)) } else { Ok(len) }
}

fn address(text: &str) -> Option<Bits> {
    if let Ok(a) = text.parse::<Ipv4Addr>() {
        return Some(Bits::new(32, u32::from(a).into()));
    }
    let mac: Vec<_> = text.split(':').collect();
    if mac.len() == 6 && mac.iter().all(|p| p.len() == 2) {
        let bytes: Option<Vec<u8>> = mac.iter().map(|p| u8::from_str_radix(p, 16).ok()).collect();
        return bytes.map(|b| Bits::from_be_bytes(48, &b));
    }
    text.parse::<Ipv6Addr>().ok().map(|a| Bits::new(128, a.into()))
}

/// Value and mask of a number with `*` for digits that do not matter.
fn wildcards(width: u32, text: &str) -> Result<(Bits, Bits), TextError> {
    let (bits, rest) = digits(text).ok_or_else(|| TextError::Base(text.to_string()))?;
    let prefix = &text[..2];
    let value = format!("{prefix}{}", rest.replace('*', "0"));
    let ones = char::from_digit((1 << bits) - 1, 16).unwrap_or('1');
    let mask: String = rest.chars().map(|c| if c == '*' { '0' } else { ones }).collect();
    let mask = number(&format!("{prefix}{mask}")).ok_or_else(|| TextError::Number(text.to_string()))?;
    // Digits in front, which were not written, are zero and matter.
    let written = rest.len() as u32 * bits;
    let mask = mask.zero_extend(width);
    let mask = if written < width { mask.or(&Bits::ones(width).shl(written.into())) } else { mask };
    Ok((parse_bits(width, &value)?, mask))
}

/// Reads the match of a key field: `5`, `10.0.0.0/8` (lpm), `0x0a00&&&0xff00` or `0x0a**` (ternary), `1->5` or `1..5`
/// (range), `*` (anything, where the kind allows).
pub fn parse_match(kind: MatchKind, width: u32, text: &str) -> Result<KeyMatch, TextError> {
    let text = text.trim();
    let masked = |(value, mask): (Bits, Bits)| (value.and(&mask), mask);
    match kind {
        MatchKind::Exact => Ok(KeyMatch::Exact(parse_bits(width, text)?)),
        MatchKind::Lpm => {
            let (value, prefix_len) = match text.split_once('/') {
                Some((v, p)) => (parse_bits(width, v)?, prefix_length(width, p)?),
                None if text == "*" => (Bits::zero(width), 0),
                None if text.contains('*') => {
                    let (value, mask) = wildcards(width, text)?;
                    let len = (0..width).rev().take_while(|i| mask.bit(*i)).count() as u32;
                    if (0..width).filter(|i| mask.bit(*i)).count() as u32 != len {
                        return Err(TextError::Prefix(text.to_string()));
                    }
                    (value, len)
                }
                None => (parse_bits(width, text)?, width),
            };
            let rest = u64::from(width - prefix_len);
            Ok(KeyMatch::Lpm { value: value.shr(rest).shl(rest), prefix_len })
        }
        MatchKind::Ternary => {
            let (value, mask) = match text.split_once("&&&") {
                Some((v, m)) => (parse_bits(width, v)?, parse_bits(width, m)?),
                None if text == "*" => (Bits::zero(width), Bits::zero(width)),
                None if text.contains('*') => wildcards(width, text)?,
                None => match text.split_once('/') {
                    Some((v, p)) => {
                        let rest = u64::from(width - prefix_length(width, p)?);
                        (parse_bits(width, v)?, Bits::ones(width).shr(rest).shl(rest))
                    }
                    None => (parse_bits(width, text)?, Bits::ones(width)),
                },
            };
            let (value, mask) = masked((value, mask));
            Ok(KeyMatch::Ternary { value, mask })
        }
        MatchKind::Range => {
            let (lo, hi) = match text.split_once("->").or_else(|| text.split_once("..")) {
                Some((lo, hi)) => (parse_bits(width, lo)?, parse_bits(width, hi)?),
                None if text == "*" => (Bits::zero(width), Bits::ones(width)),
                None => (parse_bits(width, text)?, parse_bits(width, text)?),
            };
            if lo.cmp_unsigned(&hi).is_gt() {
                return Err(TextError::EmptyRange(text.to_string()));
            }
            Ok(KeyMatch::Range { lo, hi })
        }
        MatchKind::Optional if text == "*" => Ok(KeyMatch::Optional(None)),
        MatchKind::Optional => Ok(KeyMatch::Optional(Some(parse_bits(width, text)?))),
        MatchKind::Selector => Err(TextError::Selector),
    }
}

/// A match of anything, if the kind allows it.
fn anything(kind: MatchKind, width: u32) -> Option<KeyMatch> {
    (kind != MatchKind::Exact).then(|| parse_match(kind, width, "*").ok()).flatten()
}

/// Reads a value of type `ty`; enums by the name of the member or its number.
pub fn parse_value(program: &Program, ty: TypeId, text: &str) -> Result<Value, TextError> {
    if let Type::SerEnum { members, .. } = program.types.get(ty)
        && let Some((_, value)) = members.iter().find(|(name, _)| name == text)
    {
        return Ok(Value::Bits(value.clone()));
    }
    let member = |names: &[String]| {
        let known = names.iter().position(|n| n == text).map(|i| i as u32);
        let given = text.parse().ok().filter(|i| (*i as usize) < names.len());
        known.or(given).ok_or_else(|| TextError::Member(text.to_string(), names.to_vec()))
    };
    match program.types.repr_type(ty) {
        Type::Bool => parse_bits(1, text).map(|b| Value::Bool(!b.is_zero())),
        Type::Int(w) => match text.strip_prefix('-').map(|positive| parse_bits(*w, positive)) {
            // The most negative number is its own negative.
            Some(Ok(positive)) if positive.bit(w.saturating_sub(1)) && !positive.neg().eq(&positive) => {
                Err(TextError::TooLarge(text.to_string(), *w))
            }
            Some(positive) => positive.map(|b| Value::Bits(b.neg())),
            None => parse_bits(*w, text).map(Value::Bits),
        },
        Type::Bit(w) => parse_bits(*w, text).map(Value::Bits),
        Type::Varbit(w) => parse_bits(*w, text).map(Value::Varbit),
        Type::Enum(d) => member(&d.members).map(Value::Enum),
        Type::Error => member(&program.errors).map(Value::Error),
        _ => Err(TextError::Type),
    }
}

/// The action call that `text` describes, for entries or as the default of `table`.
pub fn build_action(program: &Program, table: &Table, text: &ActionText) -> Result<ActionCall, TextError> {
    let action_of = |i: usize| &program.actions[table.actions[i].action.index()];
    let names: Vec<_> = (0..table.actions.len()).map(|i| action_of(i).name.as_str()).collect();
    let index = resolve(&format!("action in table {}:", table.name), &text.name, names.iter().copied())?;
    let action = action_of(index);
    let params: Vec<_> =
        action.frame.params.iter().filter(|p| p.direction == pointsman_ir::Direction::None).collect();
    let parameter = |name: &str| format!("parameter {name} of {}", action.name);
    let mut args: Vec<Option<Value>> = vec![None; params.len()];
    for (place, (name, value)) in text.args.iter().enumerate() {
        let at = match name {
            Some(n) => params.iter().position(|p| p.name == *n),
            None => (place < params.len()).then_some(place),
        };
        let at = at.ok_or_else(|| {
            let known = params.iter().map(|p| p.name.to_string()).collect();
            let which = name.clone().unwrap_or_else(|| format!("number {}", place + 1));
            TextError::Parameter { action: action.name.to_string(), which, known }
        })?;
        let value =
            parse_value(program, params[at].ty, value).map_err(|e| e.of(parameter(&params[at].name)))?;
        if args[at].replace(value).is_some() {
            return Err(TextError::Twice(parameter(&params[at].name)));
        }
    }
    let args = args
        .into_iter()
        .zip(&params)
        .map(|(arg, p)| arg.ok_or_else(|| TextError::Missing(parameter(&p.name))));
    Ok(ActionCall { action: index as u32, args: args.collect::<Result<_, _>>()? })
}

/// The value set called `name`.
pub fn find_value_set(program: &Program, name: &str) -> Result<ValueSetId, TextError> {
    let names = program.value_sets.iter().map(|v| v.name.as_str());
    resolve("value set", name, names).map(|i| ValueSetId(i as u32))
}

/// A member of a value set: a match for each field of its element, of the kind that its text shows.
pub fn build_member(
    program: &Program,
    set: ValueSetId,
    fields: &[String],
) -> Result<Vec<KeyMatch>, TextError> {
    let set = &program.value_sets[set.index()];
    let types = &program.types;
    let widths: Vec<u32> = match types.repr_type(set.elem) {
        Type::Struct(d) => d.fields.iter().filter_map(|f| types.scalar_width(f.ty)).collect(),
        Type::Tuple(ts) => ts.iter().filter_map(|t| types.scalar_width(*t)).collect(),
        _ => types.scalar_width(set.elem).into_iter().collect(),
    };
    if fields.len() != widths.len() {
        let (takes, found) = (widths.len(), fields.len());
        return Err(TextError::Fields { set: set.name.to_string(), takes, found });
    }
    let one = |(text, width): (&String, u32)| {
        let kind = match text {
            t if t.contains("..") || t.contains("->") => MatchKind::Range,
            t if t.contains("&&&") || t.contains('*') => MatchKind::Ternary,
            _ => MatchKind::Exact,
        };
        parse_match(kind, width, text)
    };
    fields.iter().zip(widths).map(one).collect()
}

/// The action of an entry: `member(ID)` or `group(ID)` in a table with an action profile, else a call.
fn build_entry_action(program: &Program, table: &Table, text: &ActionText) -> Result<EntryAction, TextError> {
    let indirect = table.extern_properties.iter().any(|(name, _)| name == "implementation");
    if let (true, [(None, id)]) = (indirect, text.args.as_slice()) {
        let id = || id.parse::<u32>().map_err(|_| TextError::Id(id.clone(), text.name.clone()));
        match text.name.as_str() {
            "member" => return Ok(EntryAction::Member(id()?)),
            "group" => return Ok(EntryAction::Group(id()?)),
            _ => {}
        }
    }
    Ok(EntryAction::Call(Arc::new(build_action(program, table, text)?)))
}

/// Table, matches and priority of the entry that `text` describes. Without a priority, tables that need one get 1.
pub fn build_matches(
    program: &Program,
    text: &EntryText,
) -> Result<(TableId, Vec<KeyMatch>, i32), TextError> {
    let id = find_table(program, &text.table)?;
    let table = &program.tables[id.index()];
    let mut written: Vec<Option<&str>> = vec![None; table.keys.len()];
    for (name, value) in &text.keys {
        let at = find_key(table, name).map_err(|e| e.of(format!("table {}", table.name)))?;
        if written[at].replace(value).is_some() {
            return Err(TextError::Twice(format!("key {name} of table {}", table.name)));
        }
    }
    let mut matches = Vec::new();
    let mut needs_priority = false;
    for (key, value) in table.keys.iter().zip(written) {
        let place = |e: TextError| e.of(format!("key {} of table {}", key.name, table.name));
        if key.match_kind == MatchKind::Selector {
            continue;
        }
        needs_priority |= key.match_kind.needs_priority();
        let width = program.types.scalar_width(key.expr.ty).ok_or_else(|| place(TextError::NotScalar))?;
        matches.push(match value {
            Some(v) => parse_match(key.match_kind, width, v).map_err(place)?,
            None => anything(key.match_kind, width).ok_or_else(|| place(TextError::NoMatch))?,
        });
    }
    let priority = if needs_priority { text.priority.unwrap_or(1) } else { 0 };
    Ok((id, matches, priority))
}

/// The entry that `text` describes.
pub fn build_entry(program: &Program, text: &EntryText) -> Result<(TableId, Entry), TextError> {
    let (id, matches, priority) = build_matches(program, text)?;
    let action = build_entry_action(program, &program.tables[id.index()], &text.action)?;
    let (metadata, idle_timeout_ns) = (Vec::new(), text.idle_ns);
    let entry = Entry { matches, priority, action, is_const: false, metadata, idle_timeout_ns };
    Ok((id, entry))
}

/// Reads `table key=match ... [priority=n] -> action(param=value, ...)`. Arguments may be given without names, in order.
pub fn parse_entry(text: &str) -> Result<EntryText, TextError> {
    let (left, right) = text.split_once("->").ok_or_else(|| TextError::NoArrow(text.to_string()))?;
    let mut words = left.split_whitespace();
    let table = words.next().ok_or_else(|| TextError::NoTable(text.to_string()))?.to_string();
    let mut keys = Vec::new();
    let mut priority = None;
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(|| TextError::Key(word.to_string()))?;
        if name == "priority" {
            priority = Some(value.parse().map_err(|_| TextError::Priority(value.to_string()))?);
        } else {
            keys.push((name.to_string(), value.to_string()));
        }
    }
    Ok(EntryText { table, priority, keys, action: parse_action(right)?, idle_ns: 0 })
}

/// Reads `action(param=value, ...)`, or `action` alone.
pub fn parse_action(text: &str) -> Result<ActionText, TextError> {
    let text = text.trim();
    let (name, args) = match text.split_once('(') {
        None => (text, ""),
        Some((name, rest)) => {
            (name, rest.strip_suffix(')').ok_or_else(|| TextError::NoEnd(text.to_string()))?)
        }
    };
    let args = args.split(',').map(str::trim).filter(|a| !a.is_empty());
    let args = args.map(|a| match a.split_once('=') {
        Some((n, v)) => (Some(n.trim().to_string()), v.trim().to_string()),
        None => (None, a.to_string()),
    });
    Ok(ActionText { name: name.trim().to_string(), args: args.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: MatchKind, width: u32, text: &str, want: Result<KeyMatch, &str>) {
        let got = parse_match(kind, width, text).map_err(|e| e.to_string());
        assert_eq!(got, want.map_err(str::to_string), "{text}");
    }

    #[test]
    fn matches_of_every_kind() {
        let b = Bits::new;
        check(MatchKind::Exact, 9, "511", Ok(KeyMatch::Exact(b(9, 511))));
        check(MatchKind::Exact, 9, "512", Err("512 does not fit 9 bits"));
        check(MatchKind::Exact, 1, "true", Ok(KeyMatch::Exact(b(1, 1))));
        check(MatchKind::Exact, 48, "02:00:00:00:00:0a", Ok(KeyMatch::Exact(b(48, 0x02_00_00_00_00_0a))));
        check(MatchKind::Exact, 128, "fd00::1", Ok(KeyMatch::Exact(b(128, 0xfd << 120 | 1))));
        check(MatchKind::Exact, 8, "x", Err("x is neither a number nor an address"));
        let lpm = |v, n| Ok(KeyMatch::Lpm { value: b(32, v), prefix_len: n });
        check(MatchKind::Lpm, 32, "10.1.2.3/8", lpm(0x0a00_0000, 8));
        check(MatchKind::Lpm, 32, "0x0a01****", lpm(0x0a01_0000, 16));
        check(MatchKind::Lpm, 32, "0x0a010203", lpm(0x0a01_0203, 32));
        check(MatchKind::Lpm, 32, "*", lpm(0, 0));
        check(MatchKind::Lpm, 32, "0x**01", Err("0x**01: only the last digits of a prefix may be *"));
        check(MatchKind::Lpm, 32, "1/33", Err("a prefix of 33 bits for a field of 32 bits"));
        let ternary = |value, mask| Ok(KeyMatch::Ternary { value: b(32, value), mask: b(32, mask) });
        check(MatchKind::Ternary, 32, "0x****0101", ternary(0x101, 0xffff));
        check(MatchKind::Ternary, 32, "0x1*", ternary(0x10, 0xffff_fff0));
        check(MatchKind::Ternary, 32, "0xff&&&0x0f", ternary(0x0f, 0x0f));
        check(MatchKind::Ternary, 32, "7", ternary(7, 0xffff_ffff));
        check(MatchKind::Ternary, 32, "10.0.0.0/8", ternary(0x0a00_0000, 0xff00_0000));
        check(MatchKind::Range, 16, "1->5", Ok(KeyMatch::Range { lo: b(16, 1), hi: b(16, 5) }));
        check(MatchKind::Range, 16, "*", Ok(KeyMatch::Range { lo: b(16, 0), hi: b(16, 0xffff) }));
        check(MatchKind::Range, 16, "5->1", Err("the range 5->1 is empty"));
        check(MatchKind::Optional, 16, "*", Ok(KeyMatch::Optional(None)));
        check(MatchKind::Optional, 16, "3", Ok(KeyMatch::Optional(Some(b(16, 3)))));
    }

    #[test]
    fn names_by_their_ends() {
        let names = ["ingress.a.t", "ingress.t2", "egress.t2"];
        let find = |n| resolve("table", n, names.iter().copied()).map_err(|e| e.to_string());
        assert_eq!(find("ingress.a.t"), Ok(0));
        assert_eq!(find("a.t"), Ok(0));
        assert_eq!(find("t"), Ok(0));
        assert_eq!(find("egress.t2"), Ok(2));
        assert_eq!(find("t2"), Err("table t2 is ambiguous; it could be any of ingress.t2, egress.t2".into()));
        assert!(find("x").is_err_and(|e| e.starts_with("no table x; there are: ingress.a.t")));
    }

    #[test]
    fn entries_as_text() {
        let e = parse_entry("t a=1 b=2&&&3 priority=7 -> go(5, mac=02:00:00:00:00:01)").expect("well formed");
        assert_eq!((e.table.as_str(), e.priority, e.keys.len()), ("t", Some(7), 2));
        let mac = (Some("mac".to_string()), "02:00:00:00:00:01".to_string());
        assert_eq!(e.action.args, [(None, "5".to_string()), mac]);
        for bad in ["t a=1", "-> a()", "t a -> b()", "t -> b(", "t priority=x -> b()"] {
            assert!(parse_entry(bad).is_err(), "{bad}");
        }
    }
}
