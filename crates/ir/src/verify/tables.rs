//! Tables: keys, actions, entries.

use super::Report;
use super::calls::{Node, Work};
use super::code::{Code, Kind};
use super::types::{Known, fits};
use crate::program::{Action, Direction, MatchKind, Table};
use crate::table::{ActionCall, Entry, EntryAction};

pub(super) fn check<'a>(report: &mut Report<'a>, known: &Known, table: &'a Table) -> Work {
    let program = report.program;
    let place = format!("table {}", table.name);
    let Some(control) = program.controls.get(table.control.index()) else {
        report.add(&place, "its control does not exist");
        return Work::default();
    };
    for (name, e) in &table.extern_properties {
        if e.index() >= program.externs.len() {
            report.add(&place, format!("property {name}: there is no extern {}", e.0));
        }
    }
    let kind = Kind::Control(table.control.index());
    let mut code = Code::new(report, known, place.clone(), kind, &control.frame);
    let before = code.errors();
    for (n, key) in table.keys.iter().enumerate() {
        code.at("key", n, |code| {
            if code.expr(&key.expr) && code.types().scalar_width(key.expr.ty).is_none() {
                let name = code.name(key.expr.ty);
                code.error(format!("a key cannot be {name}"));
            }
        });
    }
    if table.keys.iter().filter(|k| k.match_kind == MatchKind::Lpm).count() > 1 {
        code.error("more than one lpm key");
    }
    for (n, listed) in table.actions.iter().enumerate() {
        code.at("action", n, |code| {
            let Some(action) = program.actions.get(listed.action.index()) else {
                return code.error(format!("there is no action {}", listed.action.0));
            };
            if action.control.is_some_and(|c| c != table.control) {
                code.error(format!("the action {} is of another control", action.name));
            }
            code.calls(Node::Action(listed.action.index()));
            code.block("setup", &listed.setup);
            let directed = directed(action);
            code.args(&action.frame.params[..directed], &listed.bound);
        });
    }
    let keys_right = code.errors() == before;
    let work = code.finish();
    action_call(report, table, &format!("{place}: default action"), &table.default_action);
    for (n, entry) in table.entries.iter().enumerate() {
        let place = format!("{place}: entry {n}");
        match &entry.action {
            EntryAction::Call(call) => action_call(report, table, &place, call),
            _ => report.add(&place, "an entry of the program must name its action itself"),
        }
        if keys_right {
            matches(report, table, &place, entry);
        }
    }
    work
}

/// Number of parameters with direction; they come first.
fn directed(action: &Action) -> usize {
    action.frame.params.iter().take_while(|p| p.direction != Direction::None).count()
}

fn action_call(report: &mut Report<'_>, table: &Table, place: &str, call: &ActionCall) {
    let program = report.program;
    let Some(listed) = table.actions.get(call.action as usize) else {
        return report.add(place, format!("the table has no action {}", call.action));
    };
    let Some(action) = program.actions.get(listed.action.index()) else { return };
    let data = &action.frame.params[directed(action)..];
    if data.len() != call.args.len() {
        let (n, should) = (call.args.len(), data.len());
        return report.add(place, format!("{n} action parameters instead of {should}"));
    }
    for (param, value) in data.iter().zip(&call.args) {
        if !fits(&program.types, program.errors.len(), param.ty, value) {
            let name = report.name(param.ty);
            report.add(place, format!("the value of {} is not of type {name}", param.name));
        }
    }
}

fn matches(report: &mut Report<'_>, table: &Table, place: &str, entry: &Entry) {
    let keys: Vec<_> = table.keys.iter().filter(|k| k.match_kind != MatchKind::Selector).collect();
    if keys.len() != entry.matches.len() {
        let (n, should) = (entry.matches.len(), keys.len());
        return report.add(place, format!("{n} keys instead of {should}"));
    }
    for (key, m) in keys.iter().zip(&entry.matches) {
        let width = report.types().scalar_width(key.expr.ty).unwrap_or(0);
        if let Err(misfit) = m.check(key.match_kind, width) {
            report.add(place, format!("key {}: {misfit}", key.name));
        }
    }
}
