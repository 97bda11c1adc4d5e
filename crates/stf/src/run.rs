//! Runs a test on a switch.

use crate::entries::{
    build_action, build_entry, build_matches, build_member, find_extern, find_table, find_value_set,
    parse_bits,
};
use crate::generator::Numbered;
use crate::parse::{Command, Condition, Index, Line};
use crate::rig::Rig;
use crate::{Report, StfError};
use pointsman_ir::{EntryHandle, Executor, ExternInstanceId, KeyMatch, Program, TableId};
use pointsman_v1model::{CloneSession, CounterCell, Group, GroupMember, MeterConfig, Output, Replica, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time from one packet to the next.
const STEP_MS: u64 = 1;

/// The expected packet.
#[derive(Debug)]
struct Expected {
    line: usize,
    digits: Option<String>,
    exact: bool,
}

struct Runner<'a, E: Executor> {
    rig: &'a mut Rig<E>,
    report: Report,
    /// Ports that the test names.
    ports: BTreeSet<u32>,
    left: BTreeMap<u32, VecDeque<Vec<u8>>>,
    expected: BTreeMap<u32, VecDeque<Expected>>,
    /// Packets that left since the last one arrived.
    since_packet: usize,
    nodes: Vec<Vec<Replica>>,
    /// Nodes of each multicast group.
    groups: BTreeMap<u32, Vec<usize>>,
    /// Entries that the test named.
    ids: BTreeMap<String, (TableId, EntryHandle)>,
}

/// Runs a test on a fresh rig. An error is a mistake in the test; the switch's faults are in the report.
pub fn run<E: Executor>(rig: &mut Rig<E>, lines: &[Line]) -> Result<Report, StfError> {
    let ports = lines.iter().filter_map(|l| match l.command {
        Command::Packet { port, .. } | Command::Expect { port, .. } => Some(port),
        _ => None,
    });
    let mut runner = Runner {
        ports: ports.collect(),
        rig,
        report: Report::default(),
        left: BTreeMap::new(),
        expected: BTreeMap::new(),
        since_packet: 0,
        nodes: Vec::new(),
        groups: BTreeMap::new(),
        ids: BTreeMap::new(),
    };
    for line in lines {
        runner.execute(line).map_err(|message| StfError { line: line.number, message })?;
    }
    runner.compare();
    Ok(runner.report)
}

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

impl<E: Executor> Runner<'_, E> {
    fn program(&self) -> std::sync::Arc<Program> {
        self.rig.program().clone()
    }

    fn state(&mut self) -> &mut State {
        self.rig.state()
    }

    fn fail(&mut self, line: usize, message: String) {
        self.report.failures.push(StfError { line, message });
    }

    fn execute(&mut self, line: &Line) -> Result<(), String> {
        let program = self.program();
        let now = self.rig.now;
        match &line.command {
            Command::Packet { port, bytes } => {
                self.report.packets_in += 1;
                self.since_packet = 0;
                let out = self.rig.send(*port, bytes);
                self.take(out);
                let later = self.rig.run_ms(STEP_MS);
                self.take(later);
            }
            Command::Expect { port, digits, exact } => {
                let expected = Expected { line: line.number, digits: digits.clone(), exact: *exact };
                self.expected.entry(*port).or_default().push_back(expected);
            }
            Command::NoPacket => {
                if self.since_packet != 0 {
                    let n = self.since_packet;
                    let s = if n == 1 { "" } else { "s" };
                    self.fail(line.number, format!("{n} packet{s} left, none expected"));
                }
            }
            Command::Add { entry, id } => {
                let (table, entry) = build_entry(&program, entry)?;
                let handle = self.state().insert(now, table, entry).map_err(text)?;
                if let Some(id) = id {
                    self.ids.insert(id.clone(), (table, handle));
                }
            }
            Command::Remove(entry) => {
                let (table, matches, priority) = build_matches(&program, entry)?;
                self.state().delete(table, &matches, priority).map_err(text)?;
            }
            Command::RemoveNamed(id) => {
                let (table, handle) = self.named(id)?;
                let entry = self.state().entries(table).find(|(h, _)| *h == handle).map(|(_, e)| e.clone());
                let entry = entry.ok_or_else(|| format!("the entry ${id} no longer exists"))?;
                self.state().delete(table, &entry.matches, entry.priority).map_err(text)?;
            }
            Command::SetDefault { table, action } => {
                let id = find_table(&program, table)?;
                let call = build_action(&program, &program.tables[id.index()], action)?;
                self.state().set_default(id, call).map_err(text)?;
            }
            Command::RemoveAll => {
                for (i, table) in program.tables.iter().enumerate().filter(|(_, t)| !t.const_entries) {
                    let id = TableId(i as u32);
                    let entries: Vec<(Vec<KeyMatch>, i32)> =
                        self.state().entries(id).map(|(_, e)| (e.matches.clone(), e.priority)).collect();
                    for (matches, priority) in entries {
                        self.state()
                            .delete(id, &matches, priority)
                            .map_err(|e| format!("{}: {e}", table.name))?;
                    }
                }
            }
            Command::CheckCounter { name, index, check } => {
                let cell = match index {
                    Index::At(i) => {
                        let id = find_extern(&program, "counter", name)?;
                        self.state().read_counter(id, *i).map_err(text)?
                    }
                    Index::Entry(entry) => {
                        let (table, handle) = self.attached("direct_counter", name, entry)?;
                        self.state().direct_counter(table, Some(handle)).map_err(text)?
                    }
                };
                if let Some((bytes, condition)) = check {
                    let is = if *bytes { cell.bytes } else { cell.packets };
                    let want = condition.value.parse::<u64>().map_err(|_| "no number to compare with")?;
                    if !condition.holds(is.cmp(&want)) {
                        let what = if *bytes { "bytes" } else { "packets" };
                        let m = format!("{name}({index}) counts {is} {what}, not {} {want}", condition.op);
                        self.fail(line.number, m);
                    }
                }
            }
            Command::CounterWrite { name, index, packets, bytes } => {
                let cell = CounterCell { packets: *packets, bytes: *bytes };
                match index {
                    Index::At(i) => {
                        let id = find_extern(&program, "counter", name)?;
                        self.state().write_counter(id, *i, cell).map_err(text)?;
                    }
                    Index::Entry(entry) => {
                        let (table, handle) = self.attached("direct_counter", name, entry)?;
                        self.state().set_direct_counter(table, Some(handle), cell).map_err(text)?;
                    }
                }
            }
            Command::CheckRegister { name, index, check } => {
                self.check_register(line.number, name, *index, check.as_ref())?;
            }
            Command::RegisterWrite { name, index, value } => self.rig.write_register(name, *index, value)?,
            Command::RegisterReset { name } => {
                let id = find_extern(&program, "register", name)?;
                let size = self.state().register(id).map_or(0, |r| r.len());
                for i in 0..size {
                    self.rig.write_register(name, i, "0")?;
                }
            }
            Command::MeterGetRates { name, index } => match index {
                Index::At(i) => {
                    let id = find_extern(&program, "meter", name)?;
                    self.state().read_meter(id, *i).map_err(text)?;
                }
                Index::Entry(entry) => {
                    let (table, handle) = self.attached("direct_meter", name, entry)?;
                    self.state().direct_meter(table, Some(handle)).map_err(text)?;
                }
            },
            Command::MeterSetRates { name, index, rates } => {
                let [(cir, cburst), (pir, pburst)] = rates[..] else { return Err("two rates".into()) };
                let config = Some(MeterConfig { cir, cburst, pir, pburst });
                if let Some(Index::Entry(entry)) = index {
                    let (table, handle) = self.attached("direct_meter", name, entry)?;
                    return self.state().set_direct_meter(now, table, Some(handle), config).map_err(text);
                }
                let id = find_extern(&program, "meter", name)?;
                let size = self.state().meter(id).map_or(0, |m| m.len() as u64);
                let cells = match index {
                    Some(Index::At(i)) => *i..i.saturating_add(1),
                    _ => 0..size,
                };
                for i in cells {
                    self.state().write_meter(now, id, i, config).map_err(text)?;
                }
            }
            Command::MirroringAdd { session, port } => {
                let replicas = vec![Replica { port: *port, instance: 0 }];
                let session_of = CloneSession { replicas, ..CloneSession::default() };
                self.state().replication.insert_session(*session, session_of).map_err(text)?;
            }
            Command::MirroringAddMc { session, group } => {
                let session_of = CloneSession { multicast_group: Some(*group), ..CloneSession::default() };
                self.state().replication.insert_session(*session, session_of).map_err(text)?;
            }
            Command::MirroringDelete { session } => {
                self.state().replication.delete_session(*session).map_err(text)?;
            }
            Command::MirroringGet { session } => {
                if self.state().replication.session(*session).is_none() {
                    self.fail(line.number, format!("no clone session {session}"));
                }
            }
            Command::GroupCreate { group } => {
                self.state().replication.insert_group(*group, Vec::new()).map_err(text)?;
                self.groups.insert(*group, Vec::new());
            }
            Command::NodeCreate { instance, ports } => self.nodes.push(node(*instance, ports)),
            Command::NodeUpdate { node: n, ports } => {
                let known = self.nodes.get_mut(*n).ok_or_else(|| format!("no node {n}"))?;
                let instance = known.first().map_or(0, |r| r.instance);
                *known = node(instance, ports);
                let groups: Vec<u32> =
                    self.groups.iter().filter(|(_, nodes)| nodes.contains(n)).map(|(g, _)| *g).collect();
                groups.into_iter().try_for_each(|g| self.store_group(g))?;
            }
            Command::NodeAssociate { group, node } => {
                if *node >= self.nodes.len() {
                    return Err(format!("no node {node}"));
                }
                let nodes = self.groups.get_mut(group).ok_or_else(|| format!("no group {group}"))?;
                nodes.push(*node);
                self.store_group(*group)?;
            }
            Command::MemberCreate { profile, member, action } => {
                let id = find_profile(&program, profile)?;
                let table = self.state().profile(id).and_then(|p| p.tables().first().copied());
                let table = table.ok_or_else(|| format!("no table uses {profile}"))?;
                let call = build_action(&program, &program.tables[table.index()], action)?;
                self.state().insert_member(id, *member, call).map_err(text)?;
            }
            Command::ProfileGroupCreate { profile, group, members } => {
                let id = find_profile(&program, profile)?;
                let weighted = members.iter().map(|(member, weight)| GroupMember {
                    member: *member,
                    weight: *weight,
                    watch_port: None,
                });
                let of = Group { members: weighted.collect(), max_size: 0 };
                self.state().insert_group(id, *group, of).map_err(text)?;
            }
            Command::ValueSetAdd { name, fields } => {
                let id = find_value_set(&program, name)?;
                let mut members = self.state().value_set(id).unwrap_or_default().to_vec();
                members.push(build_member(&program, id, fields)?);
                self.state().set_value_set(id, members).map_err(text)?;
            }
            Command::Generator(Numbered { number, generator }) => {
                self.rig.switch.set_generator(now, *number, generator.clone()).map_err(text)?;
            }
            Command::PortStatus { port, up } => {
                self.rig.switch.set_port_status(*port, *up);
                let out = self.rig.run_ms(0);
                self.take(out);
            }
            Command::Wait { ms } => {
                let out = self.rig.run_ms(*ms);
                self.take(out);
            }
        }
        Ok(())
    }

    /// Keeps packets that left, for the statements that expect them.
    fn take(&mut self, out: Vec<Output>) {
        for packet in out {
            let Output::Port(port, bytes) = packet else { continue };
            self.since_packet += 1;
            if self.ports.contains(&port) {
                self.report.packets_out += 1;
                self.left.entry(port).or_default().push_back(bytes);
            } else {
                self.report.unchecked += 1;
            }
        }
    }

    fn named(&self, id: &str) -> Result<(TableId, EntryHandle), String> {
        self.ids
            .get(id)
            .copied()
            .ok_or_else(|| format!("no entry is named ${id}: write `add ... = {id}` first"))
    }

    /// The entry `id`, whose table has the direct counter or meter `name`.
    fn attached(&self, object: &str, name: &str, id: &str) -> Result<(TableId, EntryHandle), String> {
        let program = self.program();
        let resource = find_extern(&program, object, name)?;
        let (table, handle) = self.named(id)?;
        let table_of = &program.tables[table.index()];
        match table_of.extern_properties.iter().any(|(_, e)| *e == resource) {
            true => Ok((table, handle)),
            false => Err(format!("table {} of the entry ${id} does not have {name}", table_of.name)),
        }
    }

    fn store_group(&mut self, group: u32) -> Result<(), String> {
        let nodes = self.groups.get(&group).cloned().unwrap_or_default();
        let replicas = nodes.iter().flat_map(|n| self.nodes[*n].clone()).collect();
        self.state().replication.modify_group(group, replicas).map_err(text)
    }

    fn check_register(
        &mut self,
        line: usize,
        name: &str,
        index: u64,
        check: Option<&Condition>,
    ) -> Result<(), String> {
        let is = self.rig.register(name, index)?;
        if let Some(condition) = check {
            let want = parse_bits(is.width(), &condition.value)?;
            if !condition.holds(is.cmp_unsigned(&want)) {
                let (is, want) = (is.to_biguint(), want.to_biguint());
                self.fail(line, format!("{name}({index}) holds {is:#x}, not {} {want:#x}", condition.op));
            }
        }
        Ok(())
    }

    /// Compares outgoing packets with expected ones, port by port.
    fn compare(&mut self) {
        let mut failures = Vec::new();
        let mut fail = |line, message| failures.push(StfError { line, message });
        for port in &self.ports {
            let mut left = self.left.remove(port).unwrap_or_default();
            for expected in self.expected.remove(port).unwrap_or_default() {
                match left.pop_front() {
                    None => fail(expected.line, format!("no packet on port {port}")),
                    Some(frame) => {
                        if let Err(e) = matches(&expected, &frame) {
                            fail(expected.line, format!("port {port}: {e}"));
                        }
                    }
                }
            }
            for frame in left {
                fail(0, format!("an unexpected packet on port {port}: {}", hex(&frame)));
            }
        }
        self.report.failures.extend(failures);
        self.report.failures.sort_by_key(|f| f.line);
    }
}

/// An action profile or selector.
fn find_profile(program: &Program, name: &str) -> Result<ExternInstanceId, String> {
    let profile = find_extern(program, "action_profile", name);
    profile.or_else(|e| {
        find_extern(program, "action_selector", name).map_err(|other| {
            // The message that knows more objects.
            if e.len() > other.len() { e } else { other }
        })
    })
}

fn node(instance: u16, ports: &[u32]) -> Vec<Replica> {
    ports.iter().map(|p| Replica { port: *p, instance }).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn matches(expected: &Expected, frame: &[u8]) -> Result<(), String> {
    let Some(digits) = &expected.digits else { return Ok(()) };
    let got = hex(frame);
    let differs = digits.chars().zip(got.chars()).position(|(d, g)| d != '*' && d != g);
    match differs {
        Some(at) => {
            let mark = " ".repeat(at) + "^";
            Err(format!(
                "differs at digit {at} (byte {}):\n  want {digits}\n  got  {got}\n       {mark}",
                at / 2
            ))
        }
        None if got.len() < digits.len() => Err(format!("too short:\n  want {digits}\n  got  {got}")),
        None if expected.exact && got.len() > digits.len() => {
            Err(format!("too long:\n  want {digits}\n  got  {got}"))
        }
        None => Ok(()),
    }
}
