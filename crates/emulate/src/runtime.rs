//! `runtime_json`: a switch's program and its entries, as p4lang/tutorials write them. Pure: text in, updates or problems out.

use crate::entries::{
    Entry, EntryError, Names, Values, clone_session, match_type, matched, multicast_group, needs_priority,
    number_of_json, replica, width,
};
use crate::fields::{Part, Problem, Problems};
use crate::json::Json;
use pointsman_control::proto::p4info::{self, P4Info};
use pointsman_control::proto::p4rt;

/// The greatest identifier of groups and sessions, and the greatest instance.
const MOST_ID: u64 = 0xffff_ffff;
/// Ports are numbers of 9 bits.
const MOST_PORT: u64 = 511;

/// A file that was read, before its program is known.
#[derive(Debug)]
pub struct RuntimeFile {
    json: Json,
    /// The program, or the name of compiler output next to it.
    pub program: String,
}

/// An update and its place in the file.
pub type Placed = (String, p4rt::Update);

/// Reads a file.
///
/// # Errors
/// All problems that do not depend on the program.
pub fn read(text: &str) -> Result<RuntimeFile, Problems> {
    let json = Json::parse(text).map_err(|e| {
        let what = format!("is not JSON: {e}");
        vec![Problem { place: String::new(), what }]
    })?;
    let mut problems = Problems::new();
    let program = head(&Part::whole(&json), &mut problems);
    match program {
        Some(program) if problems.is_empty() => Ok(RuntimeFile { json, program }),
        _ => Err(problems),
    }
}

/// Everything but the entries.
fn head(file: &Part<'_>, problems: &mut Problems) -> Option<String> {
    let mut fields = file.fields(problems)?;
    if let Some(target) = fields.need("target", "write \"bmv2\"", problems)
        && target.text("\"bmv2\"", problems).is_some_and(|t| t != "bmv2")
    {
        target.problem(format!("{} is not a target: write \"bmv2\"", target.json), problems);
    }
    // What is in it follows from the program.
    if let Some(info) = fields.take("p4info") {
        info.text("the name of a file", problems);
    }
    let program = fields.need("bmv2_json", "write the name of the program's compiler output", problems);
    for key in ["table_entries", "multicast_group_entries", "clone_session_entries"] {
        if let Some(entries) = fields.take(key) {
            entries.items("a list of entries", problems);
        }
    }
    fields.finish(problems);
    program?.text("the name of a file", problems).map(str::to_string)
}

impl RuntimeFile {
    /// Its entries as updates for a program.
    ///
    /// # Errors
    /// All entries that do not fit, by place.
    pub fn updates(&self, info: &P4Info) -> Result<Vec<Placed>, Problems> {
        let mut problems = Problems::new();
        let mut out = Vec::new();
        let names = Names(info);
        let Some(mut fields) = Part::whole(&self.json).fields(&mut problems) else { return Err(problems) };
        let mut list = |key, problems: &mut Problems| {
            fields.take(key).and_then(|p| p.items("a list of entries", problems)).unwrap_or_default()
        };
        for part in list("table_entries", &mut problems) {
            let entry = table_entry(&names, &part, &mut problems);
            out.extend(entry.map(|entry| (part.place, entry.update())));
        }
        for part in list("multicast_group_entries", &mut problems) {
            let read = replicated(&part, "multicast_group_id", &mut problems);
            out.extend(read.map(|(id, replicas, _)| (part.place, multicast_group(id, replicas))));
        }
        for part in list("clone_session_entries", &mut problems) {
            let read = replicated(&part, "clone_session_id", &mut problems);
            out.extend(read.map(|(id, copies, length)| (part.place, clone_session(id, copies, length))));
        }
        if problems.is_empty() { Ok(out) } else { Err(problems) }
    }
}

fn table_entry<'p>(names: &Names<'p>, part: &Part<'_>, problems: &mut Problems) -> Option<Entry<'p>> {
    let mut fields = part.fields(problems)?;
    let table_name = fields.need("table", "write the table's name", problems);
    let action_name = fields.need("action_name", "write the action's name", problems);
    let params = fields.take("action_params");
    let keys = fields.take("match");
    let default = fields.take("default_action").and_then(|p| p.truth(problems)).unwrap_or(false);
    let priority = fields.take("priority");
    fields.finish(problems);
    let table_name = table_name?;
    let table = found(names.table(table_name.text("a table's name", problems)?), &table_name, problems)?;
    let action_name = action_name?;
    let name = action_name.text("an action's name", problems)?;
    let action = found(names.action(table, name), &action_name, problems)?;
    let values = parameters(action, params.as_ref(), part, problems);
    let matches = match keys {
        Some(keys) if default => {
            keys.problem(
                "a default action matches everything: remove `match`, or `default_action`",
                problems,
            );
            None
        }
        Some(keys) => matches(table, &keys, problems),
        None if !default && table.match_fields.iter().any(is_exact) => {
            part.problem("`match` is missing: write it, or `\"default_action\": true`", problems);
            None
        }
        None => Some(Vec::new()),
    };
    let priority = match priority {
        Some(p) => p.whole_number(0, i32::MAX as u64, problems)? as i32,
        None => 0,
    };
    if !default && priority == 0 && needs_priority(table) {
        part.problem("`priority` is missing: entries of this table need one of at least 1", problems);
        return None;
    }
    Some(Entry { table, matches: matches?, action, values: values?, priority, default })
}

fn is_exact(field: &p4info::MatchField) -> bool {
    matches!(match_type(field), Ok(p4info::match_field::MatchType::Exact))
}

fn found<T>(result: Result<T, EntryError>, part: &Part<'_>, problems: &mut Problems) -> Option<T> {
    result.map_err(|e| part.problem(e.to_string(), problems)).ok()
}

fn matches(
    table: &p4info::Table,
    keys: &Part<'_>,
    problems: &mut Problems,
) -> Option<Vec<(u32, p4rt::field_match::FieldMatchType)>> {
    let before = problems.len();
    let mut out = Vec::new();
    let entries = keys.entries("an object of values by field", problems)?;
    for (name, part) in &entries {
        let Some(field) = table.match_fields.iter().find(|f| f.name == *name) else {
            let all: Vec<&str> = table.match_fields.iter().map(|f| f.name.as_str()).collect();
            part.problem(
                format!("the table has no field `{name}`: its fields are {}", all.join(", ")),
                problems,
            );
            continue;
        };
        let made = match_type(field).and_then(|kind| {
            let width = width(field.bitwidth)?;
            matched(kind, width, values(part.json, kind, width)?)
        });
        out.extend(found(made, part, problems).flatten().map(|m| (field.id, m)));
    }
    let missing =
        table.match_fields.iter().find(|f| is_exact(f) && entries.iter().all(|(n, _)| *n != f.name));
    if let Some(field) = missing {
        keys.problem(format!("`{}` is missing: exact fields need a value", field.name), problems);
    }
    (problems.len() == before).then_some(out)
}

/// One value, or two of them.
fn values(json: &Json, kind: p4info::match_field::MatchType, width: u32) -> Result<Values, EntryError> {
    use p4info::match_field::MatchType;
    match json {
        Json::List(list) if list.len() == 2 => {
            let second_width = if kind == MatchType::Lpm { 32 } else { width };
            Ok((number_of_json(&list[0], width)?, Some(number_of_json(&list[1], second_width)?)))
        }
        one => Ok((number_of_json(one, width)?, None)),
    }
}

fn parameters(
    action: &p4info::Action,
    params: Option<&Part<'_>>,
    entry: &Part<'_>,
    problems: &mut Problems,
) -> Option<Vec<u128>> {
    let before = problems.len();
    let given = match params {
        Some(part) => part.entries("an object of values by parameter", problems)?,
        None => Vec::new(),
    };
    let all: Vec<&str> = action.params.iter().map(|p| p.name.as_str()).collect();
    for (name, part) in given.iter().filter(|(name, _)| !all.contains(name)) {
        let has = if all.is_empty() { "none".to_string() } else { all.join(", ") };
        part.problem(format!("the action has no parameter `{name}`: its parameters are {has}"), problems);
    }
    let mut out = Vec::new();
    for param in &action.params {
        let Some((_, part)) = given.iter().find(|(name, _)| *name == param.name) else {
            let place = params.unwrap_or(entry);
            place.problem(format!("parameter `{}` is missing: give it a value", param.name), problems);
            continue;
        };
        out.extend(found(width(param.bitwidth).and_then(|w| number_of_json(part.json, w)), part, problems));
    }
    (problems.len() == before).then_some(out)
}

/// A multicast group or a clone session: its number, copies, and the length of packets.
fn replicated(
    part: &Part<'_>,
    id: &'static str,
    problems: &mut Problems,
) -> Option<(u32, Vec<p4rt::Replica>, i32)> {
    let mut fields = part.fields(problems)?;
    let number = fields.need(id, "write its number", problems);
    let list = fields.need("replicas", "write a list of {egress_port, instance}", problems);
    let length = if id == "clone_session_id" { fields.take("packet_length_bytes") } else { None };
    fields.finish(problems);
    let number = number?.whole_number(1, MOST_ID, problems)?;
    let mut replicas = Vec::new();
    for copy in list?.items("a list of {egress_port, instance}", problems)? {
        let mut fields = copy.fields(problems)?;
        let port = fields.need("egress_port", "write a port's number", problems);
        let instance = fields.take("instance");
        fields.finish(problems);
        let port = port?.whole_number(0, MOST_PORT, problems)?;
        let instance = instance.map_or(Some(0), |i| i.whole_number(0, MOST_ID, problems))?;
        replicas.push(replica(port as u32, instance as u32));
    }
    let length = length.map_or(Some(0), |l| l.whole_number(0, i32::MAX as u64, problems))?;
    Some((number as u32, replicas, length as i32))
}
