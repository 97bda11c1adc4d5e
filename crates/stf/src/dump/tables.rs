//! Entries, default actions, members and groups.

use super::{Part, Writer, match_text, quoted};
use pointsman_ir::{
    ActionCall, Entry, EntryAction, EntryHandle, ExternInstanceId, MatchKind, Table, TableId,
};
use pointsman_v1model::{ActionProfile, CounterCell, TableState};
use std::sync::Arc;

impl Writer<'_> {
    /// Members and groups of action profiles. A group that came with its entry gets members of its own.
    pub fn profiles(&mut self) {
        for (i, object) in self.program.externs.iter().enumerate() {
            let id = ExternInstanceId(i as u32);
            let Some(profile) = self.state.profile(id) else { continue };
            let name = quoted(&object.name);
            if profile.tables().is_empty() {
                continue;
            }
            for (member, call) in profile.members() {
                self.member(&name, profile, member, call);
            }
            for (number, group) in profile.groups() {
                let members = group.members.iter().map(|m| weighted(m.member, m.weight, m.watch_port));
                let mut text = format!("group_create {name} {number}");
                members.for_each(|m| text.push_str(&m));
                if group.max_size != 0 {
                    text.push_str(&format!(" size={}", group.max_size));
                }
                self.line(&text);
            }
            let mut member = 0;
            for number in self.one_shots(profile.tables()) {
                let Some(group) = profile.one_shot(number) else { continue };
                let mut text = format!("group_create {name} {number}");
                for of in &group.members {
                    member += 1;
                    self.member(&name, profile, member, &of.call);
                    text.push_str(&weighted(member, of.weight, of.watch_port));
                }
                if group.algorithm.is_some() || group.counts_members.is_some() {
                    self.lost(format!(
                        "the hash function or size semantics of a one-shot group of {}",
                        object.name
                    ));
                }
                self.line(&text);
            }
        }
    }

    /// Numbers of groups that entries of these tables name.
    fn one_shots(&self, tables: &[TableId]) -> std::collections::BTreeSet<u32> {
        let groups = tables.iter().flat_map(|t| self.state.entries(*t)).filter_map(|(_, e)| match e.action {
            EntryAction::Group(number) => Some(number),
            _ => None,
        });
        groups.collect()
    }

    fn member(&mut self, name: &str, profile: &ActionProfile, member: u32, call: &Arc<ActionCall>) {
        let mut listed = profile.tables().iter().filter_map(|t| Some((*t, profile.in_table(*t, call)?)));
        let action = match listed.next() {
            Some((table, call)) => self.action(&self.program.tables[table.index()], &call),
            None => Err("an unknown action".to_string()),
        };
        match action {
            Ok(action) => self.line(&format!("member_create {name} {member} {action}")),
            Err(why) => self.lost(format!("member {member} of {name}: {why} cannot be written")),
        }
    }

    pub fn tables(&mut self) {
        for (i, table) in self.program.tables.iter().enumerate() {
            let id = TableId(i as u32);
            let Some(state) = self.state.table(id) else { continue };
            self.default_action(table, state);
            let now: Vec<(EntryHandle, Entry)> =
                self.state.entries(id).filter(|(_, e)| !e.is_const && !table.const_entries).collect();
            let written = |e: &&Entry| !e.is_const && !table.const_entries;
            let first: Vec<&Entry> = table.entries.iter().filter(written).collect();
            // An entry of the program that was changed or removed.
            for entry in first.iter().filter(|e| !now.iter().any(|(_, n)| n == **e)) {
                let matches = self.matches(table, entry);
                self.line(&format!("remove {}{matches}", quoted(&table.name)));
            }
            for (handle, entry) in &now {
                self.entry(id, table, *handle, entry, first.contains(&entry));
            }
            let counter = self.state.direct_counter(id, None).ok().filter(|_| self.wants(Part::Counters));
            if let (Some(cell), Some(of)) = (counter, self.attached(table, "direct_counter")) {
                self.counter(&of, "default", cell);
            }
            let meter = self.state.direct_meter(id, None).ok().and_then(|m| m.config());
            let meter = meter.filter(|_| self.wants(Part::Meters));
            if let (Some(config), Some(of)) = (meter, self.attached(table, "direct_meter")) {
                self.meter(&of, "default", config);
            }
        }
    }

    fn default_action(&mut self, table: &Table, state: &TableState) {
        if state.default_is_initial() {
            return;
        }
        let call = state.store().default_action();
        match self.action(table, call) {
            Ok(action) => self.line(&format!("setdefault {} {action}", quoted(&table.name))),
            Err(why) => self.lost(format!("the default action of {}: {why} cannot be written", table.name)),
        }
    }

    /// ` [PRIORITY] KEY:MATCH ...`
    fn matches(&self, table: &Table, entry: &Entry) -> String {
        let mut text = String::new();
        if entry.priority != 0 {
            // Statements count from 0.
            text.push_str(&format!(" {}", entry.priority - 1));
        }
        let keys = table.keys.iter().filter(|k| k.match_kind != MatchKind::Selector);
        for (key, m) in keys.zip(&entry.matches) {
            text.push_str(&format!(" {}:{}", quoted(&key.name), match_text(m)));
        }
        text
    }

    /// An entry with its counter and meter. `known`: the program has it.
    fn entry(&mut self, id: TableId, table: &Table, handle: EntryHandle, entry: &Entry, known: bool) {
        let action = match &entry.action {
            EntryAction::Call(call) => self.action(table, call),
            EntryAction::Member(member) => Ok(format!("member({member})")),
            EntryAction::Group(group) => Ok(format!("group({group})")),
        };
        let matches = self.matches(table, entry);
        let action = match action {
            Ok(action) => action,
            Err(why) => {
                return self.lost(format!("entry{matches} of {}: {why} cannot be written", table.name));
            }
        };
        if !entry.metadata.is_empty() {
            self.lost(format!("the metadata of entry{matches} of {}", table.name));
        }
        let counter = self.state.direct_counter(id, Some(handle)).ok();
        let counter = counter.filter(|c| *c != CounterCell::default() && self.wants(Part::Counters));
        let meter = self.state.direct_meter(id, Some(handle)).ok().and_then(|m| m.config());
        let meter = meter.filter(|_| self.wants(Part::Meters));
        let name = quoted(&table.name);
        let named = counter.is_some() || meter.is_some();
        if known && named {
            // It has no name to set its counter by.
            self.line(&format!("remove {name}{matches}"));
        }
        if named {
            self.entries += 1;
        }
        let label = if named { format!(" = e{}", self.entries) } else { String::new() };
        let idle = match entry.idle_timeout_ns {
            0 => String::new(),
            ns => format!(" idle={ns}ns"),
        };
        if !known || named {
            self.line(&format!("add {name}{matches} {action}{idle}{label}"));
        }
        let index = format!("$e{}", self.entries);
        let (counters, meters) =
            (self.attached(table, "direct_counter"), self.attached(table, "direct_meter"));
        if let (Some(cell), Some(of)) = (counter, counters) {
            self.counter(&of, &index, cell);
        }
        if let (Some(config), Some(of)) = (meter, meters) {
            self.meter(&of, &index, config);
        }
    }

    /// The name of a table's direct counter or meter.
    fn attached(&self, table: &Table, object: &str) -> Option<String> {
        let mut objects = table.extern_properties.iter().map(|(_, e)| &self.program.externs[e.index()]);
        objects.find(|e| e.object == object).map(|e| quoted(&e.name))
    }
}

/// ` MEMBER:WEIGHT[:PORT]`
fn weighted(member: u32, weight: u32, port: Option<u32>) -> String {
    let port = port.map(|p| format!(":{p}")).unwrap_or_default();
    format!(" {member}:{weight}{port}")
}
