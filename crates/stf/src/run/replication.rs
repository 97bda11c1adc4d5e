//! Clone sessions and multicast.

use super::{Runner, text};
use pointsman_ir::Executor;
use pointsman_v1model::{CloneSession, Replica};

impl<E: Executor> Runner<'_, E> {
    pub fn add_session(&mut self, number: u32, session: CloneSession) -> Result<(), String> {
        self.state().replication.insert_session(number, session).map_err(text)?;
        Ok(())
    }

    pub fn check_session(&mut self, line: usize, number: u32) {
        if self.state().replication.session(number).is_none() {
            self.fail(line, format!("no clone session {number}"));
        }
    }

    pub fn create_group(&mut self, group: u32) -> Result<(), String> {
        self.state().replication.insert_group(group, Vec::new()).map_err(text)?;
        self.groups.insert(group, Vec::new());
        Ok(())
    }

    pub fn update_node(&mut self, number: usize, ports: &[u32]) -> Result<(), String> {
        let known = self.nodes.get_mut(number).ok_or_else(|| format!("no node {number}"))?;
        let instance = known.first().map_or(0, |r| r.instance);
        *known = node(instance, ports);
        let groups: Vec<u32> =
            self.groups.iter().filter(|(_, nodes)| nodes.contains(&number)).map(|(g, _)| *g).collect();
        groups.into_iter().try_for_each(|g| self.store_group(g))
    }

    pub fn associate(&mut self, group: u32, node: usize) -> Result<(), String> {
        if node >= self.nodes.len() {
            return Err(format!("no node {node}"));
        }
        let nodes = self.groups.get_mut(&group).ok_or_else(|| format!("no group {group}"))?;
        nodes.push(node);
        self.store_group(group)
    }

    fn store_group(&mut self, group: u32) -> Result<(), String> {
        let nodes = self.groups.get(&group).cloned().unwrap_or_default();
        let replicas = nodes.iter().flat_map(|n| self.nodes[*n].clone()).collect();
        self.state().replication.modify_group(group, replicas).map_err(text)
    }
}

/// A node with this number of its packets.
pub fn node(instance: u16, ports: &[u32]) -> Vec<Replica> {
    ports.iter().map(|p| Replica { port: *p, instance }).collect()
}
