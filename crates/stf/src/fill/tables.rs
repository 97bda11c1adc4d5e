//! Entries of tables, members of value sets, action profiles and selectors.

use super::Fill;
use crate::command::Index;
use crate::entries::{
    ActionText, EntryText, TextError, build_action, build_entry, build_matches, build_member, find_extern,
    find_table, find_value_set,
};
use crate::rig::RigError;
use pointsman_ir::{EntryHandle, ExternInstanceId, KeyMatch, Program, Table, TableId};
use pointsman_v1model::{Group, GroupMember};

impl Fill<'_> {
    pub fn add(&mut self, entry: &EntryText, id: Option<&String>) -> Result<(), RigError> {
        let (table, entry) = build_entry(&self.program, entry)?;
        let handle = self.state.insert(self.now, table, entry)?;
        if let Some(id) = id {
            self.names.ids.insert(id.clone(), (table, handle));
        }
        Ok(())
    }

    pub fn remove(&mut self, entry: &EntryText) -> Result<(), RigError> {
        let (table, matches, priority) = build_matches(&self.program, entry)?;
        self.state.delete(table, &matches, priority)?;
        Ok(())
    }

    pub fn remove_named(&mut self, id: &str) -> Result<(), RigError> {
        let (table, handle) = self.named(id)?;
        let entry = self.state.entries(table).find(|(h, _)| *h == handle).map(|(_, e)| e.clone());
        let entry = entry.ok_or_else(|| RigError::Gone(id.to_string()))?;
        self.state.delete(table, &entry.matches, entry.priority)?;
        Ok(())
    }

    pub fn remove_all(&mut self) -> Result<(), RigError> {
        let program = &self.program.clone();
        for (i, table) in program.tables.iter().enumerate().filter(|(_, t)| !t.const_entries) {
            let id = TableId(i as u32);
            let entries: Vec<(Vec<KeyMatch>, i32)> =
                self.state.entries(id).map(|(_, e)| (e.matches.clone(), e.priority)).collect();
            for (matches, priority) in entries {
                self.state.delete(id, &matches, priority).map_err(RigError::of(&table.name))?;
            }
        }
        Ok(())
    }

    pub fn set_default(&mut self, table: &str, action: &ActionText) -> Result<(), RigError> {
        let program = &self.program.clone();
        let id = find_table(program, table)?;
        let call = build_action(program, &program.tables[id.index()], action)?;
        self.state.set_default(id, call)?;
        Ok(())
    }

    pub fn add_to_value_set(&mut self, name: &str, fields: &[String]) -> Result<(), RigError> {
        let program = &self.program.clone();
        let id = find_value_set(program, name)?;
        let mut members = self.state.value_set(id).unwrap_or_default().to_vec();
        members.push(build_member(program, id, fields)?);
        self.state.set_value_set(id, members)?;
        Ok(())
    }

    pub fn add_member(&mut self, profile: &str, member: u32, action: &ActionText) -> Result<(), RigError> {
        let program = &self.program.clone();
        let id = find_profile(program, profile)?;
        let of = self.state.profile(id);
        // Tables of one profile may list different actions.
        let calls = of.iter().flat_map(|of| of.tables().iter().map(|t| (*of, *t))).map(|(of, table)| {
            let call = build_action(program, &program.tables[table.index()], action)?;
            Ok::<_, RigError>(of.of_table(table, call))
        });
        let call = calls.reduce(Result::or).ok_or_else(|| RigError::Unused(profile.to_string()))??;
        self.state.insert_member(id, member, call)?;
        Ok(())
    }

    /// Members with weights and watched ports.
    pub fn add_group(
        &mut self,
        profile: &str,
        group: u32,
        members: &[(u32, u32, Option<u32>)],
        max_size: u32,
    ) -> Result<(), RigError> {
        let id = find_profile(&self.program, profile)?;
        let weighted = members.iter().map(|(member, weight, port)| GroupMember {
            member: *member,
            weight: *weight,
            watch_port: *port,
        });
        let of = Group { members: weighted.collect(), max_size };
        self.state.insert_group(id, group, of)?;
        Ok(())
    }

    pub fn named(&self, id: &str) -> Result<(TableId, EntryHandle), RigError> {
        self.names.ids.get(id).copied().ok_or_else(|| RigError::NotNamed(id.to_string()))
    }

    /// An entry of the table that has the direct counter or meter `name`; `None` for its default action.
    pub fn attached(
        &self,
        object: &str,
        name: &str,
        of: &Index,
    ) -> Result<(TableId, Option<EntryHandle>), RigError> {
        let program = &self.program.clone();
        let resource = find_extern(program, object, name)?;
        let has = |table: &Table| table.extern_properties.iter().any(|(_, e)| *e == resource);
        let Index::Entry(id) = of else {
            let table =
                program.tables.iter().position(has).ok_or_else(|| RigError::Unused(name.to_string()))?;
            return Ok((TableId(table as u32), None));
        };
        let (table, handle) = self.named(id)?;
        let table_of = &program.tables[table.index()];
        match has(table_of) {
            true => Ok((table, Some(handle))),
            false => {
                let (table, id, name) = (table_of.name.to_string(), id.clone(), name.to_string());
                Err(RigError::NotAttached { table, id, name })
            }
        }
    }
}

/// An action profile or selector.
fn find_profile(program: &Program, name: &str) -> Result<ExternInstanceId, TextError> {
    let profile = find_extern(program, "action_profile", name);
    profile.or_else(|e| {
        find_extern(program, "action_selector", name).map_err(|other| {
            // The message that knows more objects.
            if e.to_string().len() > other.to_string().len() { e } else { other }
        })
    })
}
