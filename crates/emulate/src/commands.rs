//! `cli_input`: commands of simple_switch_CLI that fill tables, as P4Runtime's updates. Pure: text in, updates or problems out.

mod error;

pub(crate) use error::CommandError;

use crate::cells;
use crate::entries::{
    Entry, EntryError, Names, Values, clone_session, match_type, matched, multicast_group, needs_priority,
    number_of_text, replica, width,
};
use crate::fields::{Problem, Problems};
use crate::runtime::Placed;
use pointsman_control::proto::p4info::match_field::MatchType;
use pointsman_control::proto::p4info::{self, P4Info};
use pointsman_control::proto::p4rt;
use std::collections::BTreeMap;

/// In BMv2 smaller priorities win, in P4Runtime greater ones: theirs are counted down from here.
const GREATEST_PRIORITY: i32 = 1 << 24;

/// The commands that are carried out.
const COMMANDS: &str =
    "table_add, table_set_default, mirroring_add, mc_mgrp_create, mc_node_create, mc_node_associate";

/// Multicast groups, which several commands describe.
#[derive(Default)]
struct Groups {
    /// By node: its instance and ports.
    nodes: Vec<(u32, Vec<u32>)>,
    /// By group: its place, and its nodes.
    groups: BTreeMap<u32, (String, Vec<usize>)>,
}

/// Reads the commands of a file for a program.
///
/// # Errors
/// All lines that are wrong.
pub fn read(text: &str, info: &P4Info) -> Result<Vec<Placed>, Problems> {
    let (mut out, mut groups, mut problems) = (Vec::new(), Groups::default(), Problems::new());
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("line {number}");
        let words: Vec<&str> = without_comment(line).split_whitespace().collect();
        let names = Names(info);
        let read = cells::command(&names, &words, &out).unwrap_or_else(|| {
            let update = command(&names, &words, &place, &mut groups)?;
            Ok(update.into_iter().collect())
        });
        match read {
            Ok(updates) => out.extend(updates.into_iter().map(|update| (place.clone(), update))),
            Err(e) => problems.push(Problem { place, what: e.to_string() }),
        }
    }
    for (id, (place, nodes)) in groups.groups {
        let copies = nodes.iter().filter_map(|node| groups.nodes.get(*node));
        let replicas = copies.flat_map(|(rid, ports)| ports.iter().map(|port| replica(*port, *rid)));
        out.push((place, multicast_group(id, replicas.collect())));
    }
    if problems.is_empty() { Ok(out) } else { Err(problems) }
}

/// The line up to a comment. simple_switch_CLI takes only `#` for one; lines with `//` are unknown commands there, which change nothing.
fn without_comment(line: &str) -> &str {
    let end = ["#", "//"].iter().filter_map(|mark| line.find(mark)).min();
    &line[..end.unwrap_or(line.len())]
}

fn command(
    names: &Names<'_>,
    words: &[&str],
    place: &str,
    groups: &mut Groups,
) -> Result<Option<p4rt::Update>, CommandError> {
    let number = |text: &str, width| number_of_text(text, width).map(|n| n as u32);
    match words {
        [] => Ok(None),
        ["table_add", table, action, rest @ ..] => table_add(names, table, action, rest).map(Some),
        ["table_set_default", table, action, params @ ..] => {
            let table = names.table(table)?;
            let action = names.action(table, action)?;
            let values = parameters(action, params)?;
            let entry = Entry { table, matches: Vec::new(), action, values, priority: 0, default: true };
            Ok(Some(entry.update()))
        }
        ["mirroring_add", id, port] => {
            Ok(Some(clone_session(number(id, 32)?, vec![replica(number(port, 9)?, 0)], 0)))
        }
        ["mc_mgrp_create", group] => {
            groups.groups.entry(number(group, 16)?).or_insert_with(|| (place.to_string(), Vec::new()));
            Ok(None)
        }
        ["mc_node_create", instance, ports @ ..] => {
            let ports = ports.iter().map(|p| number(p, 9)).collect::<Result<_, _>>()?;
            groups.nodes.push((number(instance, 16)?, ports));
            Ok(None)
        }
        ["mc_node_associate", group, node] => {
            let (group, node) = (number(group, 16)?, number(node, 32)? as usize);
            if node >= groups.nodes.len() {
                return Err(CommandError::NoNode(node));
            }
            let (_, nodes) = groups.groups.get_mut(&group).ok_or(CommandError::NoGroup(group))?;
            nodes.push(node);
            Ok(None)
        }
        [word, ..]
            if [COMMANDS, cells::COMMANDS].iter().any(|all| all.split(", ").any(|known| known == *word)) =>
        {
            Err(CommandError::Arguments(word.to_string()))
        }
        [word, ..] => Err(CommandError::Unknown(word.to_string())),
    }
}

/// `KEYS => PARAMETERS [PRIORITY]`.
fn table_add(
    names: &Names<'_>,
    table: &str,
    action: &str,
    rest: &[&str],
) -> Result<p4rt::Update, CommandError> {
    let table = names.table(table)?;
    let action = names.action(table, action)?;
    let arrow = rest.iter().position(|w| *w == "=>").unwrap_or(rest.len());
    let (keys, after) = (&rest[..arrow], rest.get(arrow + 1..).unwrap_or_default());
    let fields = &table.match_fields;
    if keys.len() != fields.len() {
        return Err(CommandError::Keys(keys.len(), fields.iter().map(|f| f.name.clone()).collect()));
    }
    let mut matches = Vec::new();
    for (field, key) in fields.iter().zip(keys) {
        let in_field = |e| CommandError::Field(field.name.clone(), e);
        let kind = match_type(field).map_err(in_field)?;
        let width = width(field.bitwidth).map_err(in_field)?;
        let made = values(key, kind, width).and_then(|v| matched(kind, width, v)).map_err(in_field)?;
        matches.extend(made.map(|m| (field.id, m)));
    }
    let with_priority = needs_priority(table);
    let split = after.len() - usize::from(with_priority && !after.is_empty());
    let (params, priority) = after.split_at(split);
    let priority = match (with_priority, priority) {
        (false, _) => 0,
        (true, [text]) => match text.parse() {
            Ok(p @ 0..GREATEST_PRIORITY) => GREATEST_PRIORITY - p,
            _ => return Err(CommandError::Priority(text.to_string())),
        },
        (true, _) => return Err(CommandError::NoPriority),
    };
    let values = parameters(action, params)?;
    Ok(Entry { table, matches, action, values, priority, default: false }.update())
}

/// `VALUE`, `VALUE/LENGTH`, `VALUE&&&MASK` or `LOW->HIGH`.
fn values(key: &str, kind: MatchType, width: u32) -> Result<Values, EntryError> {
    let (mark, second_width) = match kind {
        MatchType::Lpm => ("/", 32),
        MatchType::Ternary => ("&&&", width),
        MatchType::Range => ("->", width),
        _ => return Ok((number_of_text(key, width)?, None)),
    };
    let (a, b) = key.split_once(mark).ok_or_else(|| EntryError::NoMark(key.to_string(), mark))?;
    Ok((number_of_text(a, width)?, Some(number_of_text(b, second_width)?)))
}

fn parameters(action: &p4info::Action, words: &[&str]) -> Result<Vec<u128>, CommandError> {
    if words.len() != action.params.len() {
        let all = action.params.iter().map(|p| p.name.clone()).collect();
        return Err(CommandError::Values(words.len(), all));
    }
    let value = |(p, word): (&p4info::action::Param, &&str)| {
        let in_param = |e| CommandError::Parameter(p.name.clone(), e);
        width(p.bitwidth).and_then(|w| number_of_text(word, w)).map_err(in_param)
    };
    action.params.iter().zip(words).map(value).collect()
}
