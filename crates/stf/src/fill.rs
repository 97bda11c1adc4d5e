//! Statements that fill a program's tables and arrays, without packets, expectations and time.

mod cells;
mod replication;
mod tables;

use crate::StfError;
use crate::command::{Command, Line};
use crate::rig::RigError;
use pointsman_ir::{EntryHandle, Program, TableId};
use pointsman_v1model::{CloneSession, CounterCell, Replica, State, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What earlier statements made, by the names that later ones use.
#[derive(Default)]
pub(crate) struct Names {
    nodes: Vec<Vec<Replica>>,
    /// Nodes of each multicast group.
    groups: BTreeMap<u32, Vec<usize>>,
    /// Entries that have a name.
    ids: BTreeMap<String, (TableId, EntryHandle)>,
}

/// The state of a program that is filled.
pub(crate) struct Fill<'a> {
    program: Arc<Program>,
    state: &'a mut State,
    now: Time,
    names: &'a mut Names,
}

/// Executes the statements that fill tables, arrays, value sets, clone sessions and multicast groups.
///
/// # Errors
/// The line, and what is wrong with it: it does not fit the program, or it is a statement for packets, expectations, generators or time. The
/// statements before it have been executed.
pub fn fill(state: &mut State, now: Time, lines: &[Line]) -> Result<(), StfError> {
    let mut names = Names::default();
    let mut fill = Fill::new(state, now, &mut names);
    lines.iter().try_for_each(|line| {
        let message = match fill.execute(&line.command) {
            Ok(true) => return Ok(()),
            Ok(false) => "only statements that fill tables, registers, counters, meters, value sets, clone sessions and multicast \
                          groups are allowed here"
                .to_string(),
            Err(e) => e.to_string(),
        };
        Err(StfError { line: line.number, message })
    })
}

impl<'a> Fill<'a> {
    pub fn new(state: &'a mut State, now: Time, names: &'a mut Names) -> Self {
        Fill { program: state.program().clone(), state, now, names }
    }

    /// Executes a statement, if it is one of those that fill.
    pub fn execute(&mut self, command: &Command) -> Result<bool, RigError> {
        match command {
            Command::Add { entry, id } => self.add(entry, id.as_ref())?,
            Command::Remove(entry) => self.remove(entry)?,
            Command::RemoveNamed(id) => self.remove_named(id)?,
            Command::RemoveAll => self.remove_all()?,
            Command::SetDefault { table, action } => self.set_default(table, action)?,
            Command::ValueSetAdd { name, fields } => self.add_to_value_set(name, fields)?,
            Command::MemberCreate { profile, member, action } => self.add_member(profile, *member, action)?,
            Command::ProfileGroupCreate { profile, group, members, max_size } => {
                self.add_group(profile, *group, members, *max_size)?;
            }
            Command::CounterWrite { name, index, packets, bytes } => {
                self.write_counter(name, index, CounterCell { packets: *packets, bytes: *bytes })?;
            }
            Command::RegisterWrite { name, index, value } => self.write_register(name, *index, value)?,
            Command::RegisterReset { name } => self.reset_register(name)?,
            Command::MeterSetRates { name, index, rates } => self.set_meter(name, index.as_ref(), rates)?,
            Command::Crc { width: 16, params } => self.state.set_crc16_custom(*params),
            Command::Crc { params, .. } => self.state.set_crc32_custom(*params),
            Command::MirroringAdd { session, replicas, group, truncate_bytes, class_of_service } => {
                let replica = |(port, instance): &(u32, u16)| Replica { port: *port, instance: *instance };
                let of = CloneSession {
                    replicas: replicas.iter().map(replica).collect(),
                    multicast_group: *group,
                    truncate_bytes: *truncate_bytes,
                    class_of_service: *class_of_service,
                };
                self.add_session(*session, of)?;
            }
            Command::MirroringDelete { session } => {
                self.state.replication.delete_session(*session)?;
            }
            Command::GroupCreate { group } => self.create_group(*group)?,
            Command::NodeCreate { instance, ports } => {
                self.names.nodes.push(replication::node(*instance, ports))
            }
            Command::NodeUpdate { node, ports } => self.update_node(*node, ports)?,
            Command::NodeAssociate { group, node } => self.associate(*group, *node)?,
            Command::Switch(_)
            | Command::Packet { .. }
            | Command::Expect { .. }
            | Command::NoPacket
            | Command::InOrder
            | Command::ExpectDigest(_)
            | Command::ExpectLog(_)
            | Command::ExpectIdle(_)
            | Command::Refuse { .. }
            | Command::CheckCounter { .. }
            | Command::CheckRegister { .. }
            | Command::CheckStat { .. }
            | Command::MeterGetRates { .. }
            | Command::MirroringGet { .. }
            | Command::Generator(_)
            | Command::Queue(_)
            | Command::PortStatus { .. }
            | Command::Wait { .. }
            | Command::Step { .. } => return Ok(false),
        }
        Ok(true)
    }
}
