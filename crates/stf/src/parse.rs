//! Text to commands.

use crate::StfError;
use crate::entries::{ActionText, EntryText};
use crate::generator::Numbered;

/// A command with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line of the test, from 1.
    pub number: usize,
    /// The command.
    pub command: Command,
}

/// The number that packets and bytes are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `==`, `!=`, `<`, `<=`, `>` or `>=`.
    pub op: String,
    /// The value, as written.
    pub value: String,
}

impl Condition {
    /// Whether `ordering` (of the actual to the written number) satisfies it.
    pub fn holds(&self, ordering: std::cmp::Ordering) -> bool {
        match self.op.as_str() {
            "==" => ordering.is_eq(),
            "!=" => ordering.is_ne(),
            "<" => ordering.is_lt(),
            "<=" => ordering.is_le(),
            ">" => ordering.is_gt(),
            _ => ordering.is_ge(),
        }
    }
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // see the module's table
pub enum Command {
    Packet {
        port: u32,
        bytes: Vec<u8>,
    },
    /// `digits` are hexadecimal digits in lower case or `*`.
    Expect {
        port: u32,
        digits: Option<String>,
        exact: bool,
    },
    NoPacket,
    /// `id` names the entry.
    Add {
        entry: EntryText,
        id: Option<String>,
    },
    SetDefault {
        table: String,
        action: ActionText,
    },
    RemoveAll,
    /// The entry that an earlier `add` named.
    RemoveNamed(String),
    /// Table, keys and priority count; the action is empty.
    Remove(EntryText),
    /// `check`: bytes rather than packets? and the condition.
    CheckCounter {
        name: String,
        index: Index,
        check: Option<(bool, Condition)>,
    },
    CounterWrite {
        name: String,
        index: Index,
        packets: u64,
        bytes: u64,
    },
    /// Without a condition it must exist.
    CheckRegister {
        name: String,
        index: u64,
        check: Option<Condition>,
    },
    RegisterWrite {
        name: String,
        index: u64,
        value: String,
    },
    RegisterReset {
        name: String,
    },
    MeterGetRates {
        name: String,
        index: Index,
    },
    /// Rates in units per second; without an index all of them.
    MeterSetRates {
        name: String,
        index: Option<Index>,
        rates: Vec<(u64, u64)>,
    },
    MirroringAdd {
        session: u32,
        port: u32,
    },
    MirroringAddMc {
        session: u32,
        group: u32,
    },
    MirroringDelete {
        session: u32,
    },
    MirroringGet {
        session: u32,
    },
    GroupCreate {
        group: u32,
    },
    NodeCreate {
        instance: u16,
        ports: Vec<u32>,
    },
    NodeUpdate {
        node: usize,
        ports: Vec<u32>,
    },
    Generator(Numbered),
    PortStatus {
        port: u32,
        up: bool,
    },
    NodeAssociate {
        group: u32,
        node: usize,
    },
    MemberCreate {
        profile: String,
        member: u32,
        action: ActionText,
    },
    /// Members with weights.
    ProfileGroupCreate {
        profile: String,
        group: u32,
        members: Vec<(u32, u32)>,
    },
    ValueSetAdd {
        name: String,
        fields: Vec<String>,
    },
    Wait {
        ms: u64,
    },
}

/// A cell of a counter or meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Index {
    /// Of an array.
    At(u64),
    /// Of the entry with this id.
    Entry(String),
}

impl std::fmt::Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Index::At(i) => i.fmt(f),
            Index::Entry(id) => write!(f, "${id}"),
        }
    }
}

/// Reads a test.
pub fn parse(text: &str) -> Result<Vec<Line>, StfError> {
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let number = i + 1;
        let line = without_comment(line).trim();
        if !line.is_empty() {
            let command = command(line).map_err(|message| StfError { line: number, message })?;
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

fn command(line: &str) -> Result<Command, String> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let count = |n: usize| match words.len() == n {
        true => Ok(()),
        false => Err(format!("{word} takes {n} words, not {}", words.len())),
    };
    Ok(match word.to_ascii_lowercase().as_str() {
        "packet" => {
            let (port, data) = port_and_data(rest)?;
            if !data.len().is_multiple_of(2) {
                return Err(format!("{} hexadecimal digits are not whole bytes", data.len()));
            }
            let byte =
                |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|p| u8::from_str_radix(p, 16).ok());
            let bytes: Option<Vec<u8>> = data.as_bytes().chunks(2).map(byte).collect();
            Command::Packet { port, bytes: bytes.ok_or("a packet has hexadecimal digits only")? }
        }
        "expect" => {
            let (port, data) = port_and_data(rest)?;
            let exact = data.ends_with('$');
            let digits = data.trim_end_matches('$').to_string();
            if digits.contains('$') {
                return Err("$ must not be at the end".into());
            }
            // A lone $ is a packet without any bytes.
            let digits = (exact || !digits.is_empty()).then_some(digits);
            Command::Expect { port, digits, exact }
        }
        "no_packet" => Command::NoPacket,
        "add" => {
            let (entry, id) = entry(rest)?;
            Command::Add { entry, id }
        }
        "setdefault" => {
            let (table, action) =
                rest.split_once(char::is_whitespace).ok_or("setdefault TABLE ACTION(...)")?;
            Command::SetDefault { table: unquoted(table), action: action_text(action)? }
        }
        "remove" if rest.eq_ignore_ascii_case("all") => Command::RemoveAll,
        "remove" => match rest.strip_prefix('$') {
            Some(id) => Command::RemoveNamed(id.to_string()),
            None => Command::Remove(entry_of(&split_words(rest), ActionText::default())?),
        },
        "check_counter" => {
            let (name, index, rest) = name_and_index(rest)?;
            let index = cell(index)?;
            let words: Vec<&str> = rest.split_whitespace().collect();
            let check = match words.as_slice() {
                [] => None,
                [what, rest @ ..] if what.eq_ignore_ascii_case("packets") => Some((false, condition(rest)?)),
                [what, rest @ ..] if what.eq_ignore_ascii_case("bytes") => Some((true, condition(rest)?)),
                [what, ..] => return Err(format!("{what}: write packets or bytes")),
            };
            Command::CheckCounter { name, index, check }
        }
        "check_register" => {
            let (name, index, rest) = name_and_index(rest)?;
            let words: Vec<&str> = rest.split_whitespace().collect();
            Command::CheckRegister { name, index: int(index)?, check: Some(condition(&words)?) }
        }
        "counter_read" => {
            count(2)?;
            Command::CheckCounter { name: unquoted(words[0]), index: cell(words[1])?, check: None }
        }
        "counter_write" => {
            count(4)?;
            let (packets, bytes) = (int(words[2])?, int(words[3])?);
            Command::CounterWrite { name: unquoted(words[0]), index: cell(words[1])?, packets, bytes }
        }
        "register_read" => {
            count(2)?;
            Command::CheckRegister { name: unquoted(words[0]), index: int(words[1])?, check: None }
        }
        "register_write" => {
            count(3)?;
            let value = words[2].to_string();
            Command::RegisterWrite { name: unquoted(words[0]), index: int(words[1])?, value }
        }
        "register_reset" => {
            count(1)?;
            Command::RegisterReset { name: unquoted(words[0]) }
        }
        "meter_get_rates" => {
            count(2)?;
            Command::MeterGetRates { name: unquoted(words[0]), index: cell(words[1])? }
        }
        "meter_set_rates" => match words.as_slice() {
            [name, index, rest @ ..] => Command::MeterSetRates {
                name: unquoted(name),
                index: Some(cell(index)?),
                rates: rates(rest)?,
            },
            _ => return Err("meter_set_rates NAME INDEX RATE:BURST RATE:BURST".into()),
        },
        "meter_array_set_rates" => match words.as_slice() {
            [name, rest @ ..] => {
                Command::MeterSetRates { name: unquoted(name), index: None, rates: rates(rest)? }
            }
            _ => return Err("meter_array_set_rates NAME RATE:BURST RATE:BURST".into()),
        },
        "mirroring_add" => {
            count(2)?;
            Command::MirroringAdd { session: int(words[0])?, port: int(words[1])? }
        }
        "mirroring_add_mc" => {
            count(2)?;
            Command::MirroringAddMc { session: int(words[0])?, group: int(words[1])? }
        }
        "mirroring_delete" => {
            count(1)?;
            Command::MirroringDelete { session: int(words[0])? }
        }
        "mirroring_get" => {
            count(1)?;
            Command::MirroringGet { session: int(words[0])? }
        }
        "mc_mgrp_create" => {
            count(1)?;
            Command::GroupCreate { group: int(words[0])? }
        }
        "mc_node_create" | "mc_node_update" => {
            let (first, ports) = words.split_first().ok_or_else(|| format!("{word} NUMBER PORT ..."))?;
            let ports = ports.iter().map(|p| int(p)).collect::<Result<_, _>>()?;
            match word.to_ascii_lowercase().as_str() {
                "mc_node_create" => Command::NodeCreate { instance: int(first)?, ports },
                _ => Command::NodeUpdate { node: int(first)?, ports },
            }
        }
        "mc_node_associate" => {
            count(2)?;
            Command::NodeAssociate { group: int(words[0])?, node: int(words[1])? }
        }
        "member_create" => {
            let usage = "member_create PROFILE MEMBER ACTION(...)";
            let (profile, rest) = rest.split_once(char::is_whitespace).ok_or(usage)?;
            let (member, action) = rest.trim().split_once(char::is_whitespace).ok_or(usage)?;
            let (profile, action) = (unquoted(profile), action_text(action)?);
            Command::MemberCreate { profile, member: int(member)?, action }
        }
        "group_create" => match words.as_slice() {
            [profile, group, members @ ..] => {
                let weighted = |m: &&str| {
                    let (member, weight) = m.split_once(':').unwrap_or((m, "1"));
                    Ok((int(member)?, int(weight)?))
                };
                let members = members.iter().map(weighted).collect::<Result<_, String>>()?;
                Command::ProfileGroupCreate { profile: unquoted(profile), group: int(group)?, members }
            }
            _ => return Err("group_create PROFILE GROUP MEMBER[:WEIGHT] ...".into()),
        },
        "value_set_add" => match rest.split_once(char::is_whitespace) {
            Some((name, fields)) => {
                let fields = fields.split(',').map(|f| f.trim().to_string()).collect();
                Command::ValueSetAdd { name: unquoted(name), fields }
            }
            None => return Err("value_set_add NAME MATCH[,MATCH ...]".into()),
        },
        "generator" => Command::Generator(rest.parse()?),
        "port_down" | "port_up" => {
            count(1)?;
            Command::PortStatus { port: int(words[0])?, up: word.eq_ignore_ascii_case("port_up") }
        }
        "wait" => match words.as_slice() {
            [] => Command::Wait { ms: 1000 },
            [ms] => Command::Wait { ms: int(ms)? },
            _ => return Err("wait [MILLISECONDS]".into()),
        },
        _ => return Err(format!("unknown command {word}")),
    })
}

fn int<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    value
        .and_then(|v| T::try_from(v).ok())
        .ok_or_else(|| format!("{text} is not a number in the valid range"))
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches('"').to_string()
}

fn port_and_data(text: &str) -> Result<(u32, String), String> {
    let (port, data) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let data: String = data.chars().filter(|c| !c.is_whitespace()).collect();
    if let Some(c) = data.chars().find(|c| !c.is_ascii_hexdigit() && !"*$".contains(*c)) {
        return Err(format!("{c} is not a hexadecimal digit"));
    }
    Ok((int(port)?, data.to_ascii_lowercase()))
}

/// An index, or `$ID` of an entry.
fn cell(text: &str) -> Result<Index, String> {
    match text.strip_prefix('$') {
        Some(id) => Ok(Index::Entry(id.to_string())),
        None => int(text).map(Index::At),
    }
}

/// `NAME(INDEX) ...`
fn name_and_index(text: &str) -> Result<(String, &str, &str), String> {
    let usage = || format!("{text}: write NAME(INDEX)");
    let (name, rest) = text.split_once('(').ok_or_else(usage)?;
    let (index, rest) = rest.split_once(')').ok_or_else(usage)?;
    Ok((unquoted(name), index.trim(), rest.trim()))
}

fn condition(words: &[&str]) -> Result<Condition, String> {
    match words {
        [op @ ("==" | "!=" | "<" | "<=" | ">" | ">="), value] => {
            Ok(Condition { op: op.to_string(), value: value.to_string() })
        }
        _ => Err(format!("{}: write == VALUE, or another comparison", words.join(" "))),
    }
}

/// `RATE:BURST ...`, rates in units per microsecond.
fn rates(words: &[&str]) -> Result<Vec<(u64, u64)>, String> {
    let one = |word: &&str| {
        let (rate, burst) = word.split_once(':')?;
        let rate: f64 = rate.parse().ok().filter(|r: &f64| r.is_finite() && *r >= 0.0)?;
        Some(((rate * 1e6).round() as u64, burst.parse().ok()?))
    };
    let rates: Option<Vec<_>> = words.iter().map(one).collect();
    rates.filter(|r| r.len() == 2).ok_or_else(|| "a meter has two RATE:BURST".to_string())
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
fn entry(text: &str) -> Result<(EntryText, Option<String>), String> {
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
    let usage = "add TABLE [PRIORITY] KEY:MATCH ... ACTION(PARAM:VALUE, ...)";
    match words.as_slice() {
        [left @ .., action] if !left.is_empty() => Ok((entry_of(left, action_text(action)?)?, id)),
        _ => Err(usage.into()),
    }
}

/// `TABLE [PRIORITY] KEY:MATCH ...`
fn entry_of(words: &[String], action: ActionText) -> Result<EntryText, String> {
    let usage = "TABLE [PRIORITY] KEY:MATCH ...";
    let [table, words @ ..] = words else { return Err(format!("no table: write {usage}")) };
    let (mut priority, mut keys) = (None, Vec::new());
    for (i, word) in words.iter().enumerate() {
        match word.split_once(':') {
            Some((key, value)) => keys.push((key.to_string(), value.to_string())),
            None if i == 0 => {
                // Tables with priorities want 1 or more; tests start at 0.
                let p: i32 = int::<u64>(word)
                    .ok()
                    .and_then(|p| i32::try_from(p).ok())
                    .ok_or_else(|| format!("{word} is neither a priority nor a key: write {usage}"))?;
                priority = Some(p.saturating_add(1));
            }
            None => return Err(format!("{word} is not a key: write {usage}")),
        }
    }
    Ok(EntryText { table: table.clone(), priority, keys, action })
}

/// `ACTION(PARAM:VALUE, ...)`
fn action_text(text: &str) -> Result<ActionText, String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    let wrong = || format!("{text}: write ACTION(PARAM:VALUE, ...)");
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
