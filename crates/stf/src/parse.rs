//! Text to commands.

mod entries;
mod error;

use crate::StfError;
use crate::command::{Command, Condition, Index, Line};
use crate::entries::ActionText;
use crate::settings::Settings;
use pointsman_v1model::units::nanoseconds;
use pointsman_v1model::{CrcParams, Time};

use entries::{action_text, entry, entry_of, split_words};
pub(crate) use error::StatementError;

type Result<T> = std::result::Result<T, StatementError>;

/// Reads a test.
pub fn parse(text: &str) -> std::result::Result<Vec<Line>, StfError> {
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let number = i + 1;
        let line = without_comment(line).trim();
        if !line.is_empty() {
            let command = command(line).and_then(|command| match command {
                Command::Switch(_) if !lines.is_empty() => Err(StatementError::Late),
                command => Ok(command),
            });
            let command = command.map_err(|e| StfError { line: number, message: e.to_string() })?;
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
const STATEMENTS: [(&str, Option<usize>, Reader); 42] = [
    ("switch", None, |s| Settings::read(&s.words).map(Command::Switch)),
    ("packet", None, packet),
    ("expect", None, expect),
    ("no_packet", Some(0), |_| Ok(Command::NoPacket)),
    ("in_order", Some(0), |_| Ok(Command::InOrder)),
    ("expect_digest", None, |s| bytes(&digits(s.rest)?).map(Command::ExpectDigest)),
    ("expect_log", None, expect_log),
    ("expect_idle", None, expect_idle),
    ("refuse", None, refuse),
    ("add", None, |s| entry(s.rest).map(|(entry, id)| Command::Add { entry, id })),
    ("setdefault", None, set_default),
    ("remove", None, remove),
    ("check_counter", None, check_counter),
    ("check_register", None, check_register),
    ("check_stat", None, check_stat),
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
    ("mirroring_add_mc", Some(2), |s| {
        let (session, group) = (s.int(0)?, Some(s.int(1)?));
        Ok(Command::MirroringAdd { session, replicas: vec![], group, truncate_bytes: 0, class_of_service: 0 })
    }),
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
    ("crc16_custom", Some(5), |s| {
        let n = |at| s.int::<u16>(at).map(u32::from);
        crc(s, 16, [n(0)?, n(1)?, n(2)?])
    }),
    ("crc32_custom", Some(5), |s| crc(s, 32, [s.int(0)?, s.int(1)?, s.int(2)?])),
    ("generator", None, |s| Ok(Command::Generator(s.rest.parse()?))),
    ("queue", None, |s| Ok(Command::Queue(s.rest.parse()?))),
    ("port_down", Some(1), |s| Ok(Command::PortStatus { port: s.int(0)?, up: false })),
    ("port_up", Some(1), |s| Ok(Command::PortStatus { port: s.int(0)?, up: true })),
    ("wait", None, wait),
    ("step", Some(1), |s| Ok(Command::Step { ns: time(s.words[0])? })),
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
    Ok(Command::Packet { port, bytes: bytes(&data)? })
}

/// Whole bytes of hexadecimal digits.
fn bytes(data: &str) -> Result<Vec<u8>> {
    if !data.len().is_multiple_of(2) {
        return Err(StatementError::HalfByte(data.len()));
    }
    let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|p| u8::from_str_radix(p, 16).ok());
    let bytes: Option<Vec<u8>> = data.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or(StatementError::Wildcard)
}

fn expect(s: &Statement<'_>) -> Result<Command> {
    let (packet, at) = match s.rest.split_once('@') {
        Some((packet, at)) => (packet.trim_end(), Some(Time(time(at.trim())?))),
        None => (s.rest, None),
    };
    let (port, data) = port_and_data(packet)?;
    let exact = data.ends_with('$');
    let digits = data.trim_end_matches('$').to_string();
    if digits.contains('$') {
        return Err(StatementError::End);
    }
    // A lone $ is a packet without any bytes.
    let digits = (exact || !digits.is_empty()).then_some(digits);
    Ok(Command::Expect { port, digits, exact, at })
}

fn expect_log(s: &Statement<'_>) -> Result<Command> {
    match unquoted(s.rest) {
        text if text.is_empty() => Err(StatementError::Usage("expect_log TEXT")),
        text => Ok(Command::ExpectLog(text)),
    }
}

fn expect_idle(s: &Statement<'_>) -> Result<Command> {
    let names = match s.words.as_slice() {
        ["none"] => Some(Vec::new()),
        [] => None,
        words => words.iter().map(|w| w.strip_prefix('$').map(str::to_string)).collect(),
    };
    names.map(Command::ExpectIdle).ok_or(StatementError::Usage("expect_idle none, or expect_idle $ID ..."))
}

fn refuse(s: &Statement<'_>) -> Result<Command> {
    let usage = StatementError::Usage("refuse \"REASON\" STATEMENT");
    let quoted = s.rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    let one = |(reason, statement): &(&str, &str)| {
        let word = statement.split_whitespace().next().unwrap_or_default();
        !reason.is_empty() && !word.eq_ignore_ascii_case("refuse")
    };
    let (reason, statement) = quoted.filter(one).ok_or(usage)?;
    Ok(Command::Refuse { reason: reason.to_string(), command: Box::new(command(statement.trim())?) })
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

fn check_stat(s: &Statement<'_>) -> Result<Command> {
    let (name, of, rest) = match s.words.first() {
        Some(word) if !word.contains('(') => (word.to_string(), None, &s.rest[word.len()..]),
        _ => name_and_index(s.rest).map(|(name, of, rest)| (name, Some(of.to_string()), rest))?,
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    Ok(Command::CheckStat { name, of, check: condition(&words)? })
}

/// Numbers of a sum, and whether input and output are reflected.
fn crc(s: &Statement<'_>, width: u32, [polynomial, initial, final_xor]: [u32; 3]) -> Result<Command> {
    let reflect = |at: usize| match s.words[at] {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(StatementError::Reflect(other.to_string())),
    };
    let (reflect_input, reflect_output) = (reflect(3)?, reflect(4)?);
    let params = CrcParams { polynomial, initial, final_xor, reflect_input, reflect_output };
    Ok(Command::Crc { width, params })
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
        StatementError::Usage("mirroring_add SESSION PORT[:INSTANCE] ... [group=N] [bytes=N] [class=N]");
    let [session, rest @ ..] = s.words.as_slice() else { return Err(USAGE) };
    let (mut replicas, mut group, mut truncate_bytes, mut class_of_service) = (Vec::new(), None, 0, 0);
    for word in rest {
        match word.split_once('=') {
            Some(("group", n)) => group = Some(int(n)?),
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
            let session = int(session)?;
            Ok(Command::MirroringAdd { session, replicas, group, truncate_bytes, class_of_service })
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
        [] => Ok(Command::Wait { ns: 1_000_000_000 }),
        [text] => match int::<u32>(text) {
            Ok(ms) => Ok(Command::Wait { ns: u64::from(ms) * 1_000_000 }),
            Err(e) => time(text).map(|ns| Command::Wait { ns }).map_err(|_| e),
        },
        _ => Err(StatementError::Usage("wait [MILLISECONDS], or wait TIME such as 5us")),
    }
}

/// `0`, or a time with its unit that is not too long to wait for: in nanoseconds.
fn time(text: &str) -> Result<u64> {
    let ns = (text == "0").then_some(0).or_else(|| nanoseconds(text));
    ns.filter(|ns| *ns <= u64::from(u32::MAX) * 1_000_000)
        .ok_or_else(|| StatementError::Time(text.to_string()))
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
    Ok((int(port)?, digits(data)?))
}

/// Hexadecimal digits, `*` or `$`, without the blanks between them.
fn digits(text: &str) -> Result<String> {
    let data: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    match data.chars().find(|c| !c.is_ascii_hexdigit() && !"*$".contains(*c)) {
        Some(c) => Err(StatementError::Digit(c)),
        None => Ok(data.to_ascii_lowercase()),
    }
}

/// An index, `$ID` of an entry, or `default`.
fn cell(text: &str) -> Result<Index> {
    match text.strip_prefix('$') {
        Some(id) => Ok(Index::Entry(id.to_string())),
        None if text == "default" => Ok(Index::Default),
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

#[cfg(test)]
mod tests;
