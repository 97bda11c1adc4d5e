//! Text to commands.

mod error;

use crate::StfError;
use crate::command::{Command, Condition, Index, Line};
use crate::entries::{ActionText, EntryText};
use error::StatementError;

type Result<T> = std::result::Result<T, StatementError>;

/// Reads a test.
pub fn parse(text: &str) -> std::result::Result<Vec<Line>, StfError> {
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let number = i + 1;
        let line = without_comment(line).trim();
        if !line.is_empty() {
            let command = command(line).map_err(|e| StfError { line: number, message: e.to_string() })?;
            lines.push(Line { number, command });
        }
    }
    Ok(lines)
}

/// The part before a `#` that is not inside quotes.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (i, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..i],
            _ => {}
        }
    }
    line
}

/// A line's first word, and what follows.
struct Statement<'a> {
    word: &'a str,
    rest: &'a str,
    words: Vec<&'a str>,
}

impl Statement<'_> {
    /// A word without its quotes.
    fn name(&self, at: usize) -> String {
        unquoted(self.words[at])
    }

    fn int<T: TryFrom<u64>>(&self, at: usize) -> Result<T> {
        int(self.words[at])
    }

    fn cell(&self, at: usize) -> Result<Index> {
        cell(self.words[at])
    }
}

/// Reads what follows a statement's first word.
type Reader = fn(&Statement<'_>) -> Result<Command>;

/// All statements: the first word, how many words follow, if that is fixed, and the reader, which may rely on that number.
const STATEMENTS: [(&str, Option<usize>, Reader); 31] = [
    ("packet", None, packet),
    ("expect", None, expect),
    ("no_packet", Some(0), |_| Ok(Command::NoPacket)),
    ("add", None, |s| entry(s.rest).map(|(entry, id)| Command::Add { entry, id })),
    ("setdefault", None, set_default),
    ("remove", None, remove),
    ("check_counter", None, check_counter),
    ("check_register", None, check_register),
    ("counter_read", Some(2), |s| {
        Ok(Command::CheckCounter { name: s.name(0), index: s.cell(1)?, check: None })
    }),
    ("counter_write", Some(4), |s| {
        let (packets, bytes) = (s.int(2)?, s.int(3)?);
        Ok(Command::CounterWrite { name: s.name(0), index: s.cell(1)?, packets, bytes })
    }),
    ("register_read", Some(2), |s| {
        Ok(Command::CheckRegister { name: s.name(0), index: s.int(1)?, check: None })
    }),
    ("register_write", Some(3), |s| {
        Ok(Command::RegisterWrite { name: s.name(0), index: s.int(1)?, value: s.words[2].to_string() })
    }),
    ("register_reset", Some(1), |s| Ok(Command::RegisterReset { name: s.name(0) })),
    ("meter_get_rates", Some(2), |s| Ok(Command::MeterGetRates { name: s.name(0), index: s.cell(1)? })),
    ("meter_set_rates", None, meter_set_rates),
    ("meter_array_set_rates", None, meter_array_set_rates),
    ("mirroring_add", None, mirroring_add),
    ("mirroring_add_mc", Some(2), |s| Ok(Command::MirroringAddMc { session: s.int(0)?, group: s.int(1)? })),
    ("mirroring_delete", Some(1), |s| Ok(Command::MirroringDelete { session: s.int(0)? })),
    ("mirroring_get", Some(1), |s| Ok(Command::MirroringGet { session: s.int(0)? })),
    ("mc_mgrp_create", Some(1), |s| Ok(Command::GroupCreate { group: s.int(0)? })),
    ("mc_node_create", None, |s| {
        let (instance, ports) = node(s)?;
        Ok(Command::NodeCreate { instance, ports })
    }),
    ("mc_node_update", None, |s| {
        let (node, ports) = node(s)?;
        Ok(Command::NodeUpdate { node, ports })
    }),
    ("mc_node_associate", Some(2), |s| Ok(Command::NodeAssociate { group: s.int(0)?, node: s.int(1)? })),
    ("member_create", None, member_create),
    ("group_create", None, group_create),
    ("value_set_add", None, value_set_add),
    ("generator", None, |s| Ok(Command::Generator(s.rest.parse()?))),
    ("port_down", Some(1), |s| Ok(Command::PortStatus { port: s.int(0)?, up: false })),
    ("port_up", Some(1), |s| Ok(Command::PortStatus { port: s.int(0)?, up: true })),
    ("wait", None, wait),
];

fn command(line: &str) -> Result<Command> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let known = STATEMENTS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(word));
    let (_, count, read) = known.ok_or_else(|| StatementError::Unknown(word.to_string()))?;
    if let Some(n) = count
        && words.len() != *n
    {
        return Err(StatementError::Words { word: word.to_string(), takes: *n, found: words.len() });
    }
    read(&Statement { word, rest, words })
}

fn packet(s: &Statement<'_>) -> Result<Command> {
    let (port, data) = port_and_data(s.rest)?;
    if !data.len().is_multiple_of(2) {
        return Err(StatementError::HalfByte(data.len()));
    }
    let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|p| u8::from_str_radix(p, 16).ok());
    let bytes: Option<Vec<u8>> = data.as_bytes().chunks(2).map(byte).collect();
    Ok(Command::Packet { port, bytes: bytes.ok_or(StatementError::Wildcard)? })
}

fn expect(s: &Statement<'_>) -> Result<Command> {
    let (port, data) = port_and_data(s.rest)?;
    let exact = data.ends_with('$');
    let digits = data.trim_end_matches('$').to_string();
    if digits.contains('$') {
        return Err(StatementError::End);
    }
    // A lone $ is a packet without any bytes.
    let digits = (exact || !digits.is_empty()).then_some(digits);
    Ok(Command::Expect { port, digits, exact })
}

fn set_default(s: &Statement<'_>) -> Result<Command> {
    let (table, action) = s
        .rest
        .split_once(char::is_whitespace)
        .ok_or(StatementError::Usage("setdefault TABLE ACTION(...)"))?;
    Ok(Command::SetDefault { table: unquoted(table), action: action_text(action)? })
}

fn remove(s: &Statement<'_>) -> Result<Command> {
    if s.rest.eq_ignore_ascii_case("all") {
        return Ok(Command::RemoveAll);
    }
    match s.rest.strip_prefix('$') {
        Some(id) => Ok(Command::RemoveNamed(id.to_string())),
        None => entry_of(&split_words(s.rest), ActionText::default()).map(Command::Remove),
    }
}

fn check_counter(s: &Statement<'_>) -> Result<Command> {
    let (name, index, rest) = name_and_index(s.rest)?;
    let index = cell(index)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let check = match words.as_slice() {
        [] => None,
        [what, rest @ ..] if what.eq_ignore_ascii_case("packets") => Some((false, condition(rest)?)),
        [what, rest @ ..] if what.eq_ignore_ascii_case("bytes") => Some((true, condition(rest)?)),
        [what, ..] => return Err(StatementError::Unit(what.to_string())),
    };
    Ok(Command::CheckCounter { name, index, check })
}

fn check_register(s: &Statement<'_>) -> Result<Command> {
    let (name, index, rest) = name_and_index(s.rest)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    Ok(Command::CheckRegister { name, index: int(index)?, check: Some(condition(&words)?) })
}

fn meter_set_rates(s: &Statement<'_>) -> Result<Command> {
    match s.words.as_slice() {
        [name, index, rest @ ..] => {
            let (name, index) = (unquoted(name), Some(cell(index)?));
            Ok(Command::MeterSetRates { name, index, rates: rates(rest)? })
        }
        _ => Err(StatementError::Usage("meter_set_rates NAME INDEX RATE:BURST RATE:BURST")),
    }
}

fn meter_array_set_rates(s: &Statement<'_>) -> Result<Command> {
    match s.words.as_slice() {
        [name, rest @ ..] => {
            Ok(Command::MeterSetRates { name: unquoted(name), index: None, rates: rates(rest)? })
        }
        _ => Err(StatementError::Usage("meter_array_set_rates NAME RATE:BURST RATE:BURST")),
    }
}

/// `NUMBER PORT ...`
fn node<T: TryFrom<u64>>(s: &Statement<'_>) -> Result<(T, Vec<u32>)> {
    let (first, ports) = s.words.split_first().ok_or_else(|| StatementError::Node(s.word.to_string()))?;
    let ports = ports.iter().map(|p| int(p)).collect::<Result<_>>()?;
    Ok((int(first)?, ports))
}

fn member_create(s: &Statement<'_>) -> Result<Command> {
    let usage = StatementError::Usage("member_create PROFILE MEMBER ACTION(...)");
    let (profile, rest) = s.rest.split_once(char::is_whitespace).ok_or(usage.clone())?;
    let (member, action) = rest.trim().split_once(char::is_whitespace).ok_or(usage)?;
    let (profile, action) = (unquoted(profile), action_text(action)?);
    Ok(Command::MemberCreate { profile, member: int(member)?, action })
}

fn group_create(s: &Statement<'_>) -> Result<Command> {
    let [profile, group, rest @ ..] = s.words.as_slice() else {
        return Err(StatementError::Usage("group_create PROFILE GROUP MEMBER[:WEIGHT[:PORT]] ... [size=N]"));
    };
    let (sizes, members): (Vec<&str>, Vec<&str>) = rest.iter().partition(|w| w.starts_with("size="));
    let member = |m: &&str| {
        let mut parts = m.splitn(3, ':');
        let member = int(parts.next().unwrap_or(""))?;
        let weight = parts.next().map_or(Ok(1), int)?;
        Ok((member, weight, parts.next().map(int).transpose()?))
    };
    let members = members.iter().map(member).collect::<Result<_>>()?;
    let max_size = sizes.last().map_or(Ok(0), |s| int(&s["size=".len()..]))?;
    Ok(Command::ProfileGroupCreate { profile: unquoted(profile), group: int(group)?, members, max_size })
}

fn mirroring_add(s: &Statement<'_>) -> Result<Command> {
    const USAGE: StatementError =
        StatementError::Usage("mirroring_add SESSION PORT[:INSTANCE] ... [bytes=N] [class=N]");
    let [session, rest @ ..] = s.words.as_slice() else { return Err(USAGE) };
    let (mut replicas, mut truncate_bytes, mut class_of_service) = (Vec::new(), 0, 0);
    for word in rest {
        match word.split_once('=') {
            Some(("bytes", n)) => truncate_bytes = int(n)?,
            Some(("class", n)) => class_of_service = int(n)?,
            Some(_) => return Err(USAGE),
            None => {
                let (port, instance) = word.split_once(':').unwrap_or((word, "0"));
                replicas.push((int(port)?, int(instance)?));
            }
        }
    }
    // A session without ports makes no copies; only a dump has it, with the word that says so.
    match replicas.is_empty() && rest.is_empty() {
        true => Err(USAGE),
        false => {
            Ok(Command::MirroringAdd { session: int(session)?, replicas, truncate_bytes, class_of_service })
        }
    }
}

fn value_set_add(s: &Statement<'_>) -> Result<Command> {
    let usage = StatementError::Usage("value_set_add NAME MATCH[,MATCH ...]");
    let (name, fields) = s.rest.split_once(char::is_whitespace).ok_or(usage)?;
    let fields = fields.split(',').map(|f| f.trim().to_string()).collect();
    Ok(Command::ValueSetAdd { name: unquoted(name), fields })
}

fn wait(s: &Statement<'_>) -> Result<Command> {
    match s.words.as_slice() {
        [] => Ok(Command::Wait { ms: 1000 }),
        [ms] => Ok(Command::Wait { ms: int::<u32>(ms)?.into() }),
        _ => Err(StatementError::Usage("wait [MILLISECONDS]")),
    }
}

fn int<T: TryFrom<u64>>(text: &str) -> Result<T> {
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    value.and_then(|v| T::try_from(v).ok()).ok_or_else(|| StatementError::Number(text.to_string()))
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches('"').to_string()
}

fn port_and_data(text: &str) -> Result<(u32, String)> {
    let (port, data) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let data: String = data.chars().filter(|c| !c.is_whitespace()).collect();
    if let Some(c) = data.chars().find(|c| !c.is_ascii_hexdigit() && !"*$".contains(*c)) {
        return Err(StatementError::Digit(c));
    }
    Ok((int(port)?, data.to_ascii_lowercase()))
}

/// An index, or `$ID` of an entry.
fn cell(text: &str) -> Result<Index> {
    match text.strip_prefix('$') {
        Some(id) => Ok(Index::Entry(id.to_string())),
        None => int(text).map(Index::At),
    }
}

/// `NAME(INDEX) ...`
fn name_and_index(text: &str) -> Result<(String, &str, &str)> {
    let usage = || StatementError::Index(text.to_string());
    let (name, rest) = text.split_once('(').ok_or_else(usage)?;
    let (index, rest) = rest.split_once(')').ok_or_else(usage)?;
    Ok((unquoted(name), index.trim(), rest.trim()))
}

fn condition(words: &[&str]) -> Result<Condition> {
    match words {
        [op @ ("==" | "!=" | "<" | "<=" | ">" | ">="), value] => {
            Ok(Condition { op: op.to_string(), value: value.to_string() })
        }
        _ => Err(StatementError::Condition(words.join(" "))),
    }
}

/// `RATE:BURST ...`, rates in units per microsecond.
fn rates(words: &[&str]) -> Result<Vec<(u64, u64)>> {
    let one = |word: &&str| {
        let (rate, burst) = word.split_once(':')?;
        let rate: f64 = rate.parse().ok().filter(|r: &f64| r.is_finite() && *r >= 0.0)?;
        Some(((rate * 1e6).round() as u64, burst.parse().ok()?))
    };
    let rates: Option<Vec<_>> = words.iter().map(one).collect();
    rates.filter(|r| r.len() == 2).ok_or(StatementError::Rates)
}

/// Splits at blanks that are neither inside quotes nor inside parentheses.
fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut quoted, mut depth) = (false, 0usize);
    for c in text.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                continue;
            }
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth = depth.saturating_sub(1),
            c if c.is_whitespace() && !quoted => {
                if depth == 0 && !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// `TABLE [PRIORITY] KEY:MATCH ... ACTION(...) [= ID]`
fn entry(text: &str) -> Result<(EntryText, Option<String>)> {
    let mut words = split_words(text);
    let mut id = None;
    if let [.., eq, name] = words.as_slice()
        && eq == "="
    {
        id = Some(name.clone());
        words.truncate(words.len() - 2);
    }
    // The parameters may be separated from the action's name.
    if let [.., name, args] = words.as_slice()
        && args.starts_with('(')
    {
        let whole = format!("{name}{args}");
        words.truncate(words.len() - 2);
        words.push(whole);
    }
    match words.as_slice() {
        [left @ .., action] if !left.is_empty() => Ok((entry_of(left, action_text(action)?)?, id)),
        _ => Err(StatementError::Usage("add TABLE [PRIORITY] KEY:MATCH ... ACTION(PARAM:VALUE, ...)")),
    }
}

/// `TABLE [PRIORITY] KEY:MATCH ...`
fn entry_of(words: &[String], action: ActionText) -> Result<EntryText> {
    let [table, words @ ..] = words else { return Err(StatementError::NoTable) };
    let (mut priority, mut keys) = (None, Vec::new());
    for (i, word) in words.iter().enumerate() {
        match split_key(word) {
            Some((key, value)) => keys.push((key.to_string(), value.to_string())),
            None if i == 0 => {
                // Tables with priorities want 1 or more; tests start at 0.
                let p: i32 = int::<u64>(word)
                    .ok()
                    .and_then(|p| i32::try_from(p).ok()?.checked_add(1))
                    .ok_or_else(|| StatementError::Priority(word.clone()))?;
                priority = Some(p);
            }
            None => return Err(StatementError::Key(word.clone())),
        }
    }
    Ok(EntryText { table: table.clone(), priority, keys, action })
}

/// `KEY:MATCH`; a key may be a slice such as `meta.x[7:0]`.
fn split_key(word: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    let colon = word.bytes().position(|b| {
        match b {
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        b == b':' && depth <= 0
    })?;
    Some((&word[..colon], &word[colon + 1..]))
}

/// `ACTION(PARAM:VALUE, ...)`
fn action_text(text: &str) -> Result<ActionText> {
    let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    let wrong = || StatementError::Action(text.clone());
    let (name, rest) = text.split_once('(').ok_or_else(wrong)?;
    let args = rest.strip_suffix(')').ok_or_else(wrong)?;
    let arg = |a: &str| match a.split_once(':') {
        // An address may have colons itself, a parameter's name starts with a letter.
        Some((n, v)) if n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
            (Some(n.to_string()), v.to_string())
        }
        _ => (None, a.to_string()),
    };
    let args = args.split(',').filter(|a| !a.is_empty()).map(arg).collect();
    Ok(ActionText { name: name.to_string(), args })
}

#[cfg(test)]
mod tests;
