//! Clone sessions and multicast.

use super::Fill;
use crate::rig::RigError;
use pointsman_v1model::{CloneSession, Replica};

impl Fill<'_> {
    pub fn add_session(&mut self, number: u32, session: CloneSession) -> Result<(), RigError> {
        self.state.replication.insert_session(number, session)?;
        Ok(())
    }

    pub fn create_group(&mut self, group: u32) -> Result<(), RigError> {
        self.state.replication.insert_group(group, Vec::new())?;
        self.names.groups.insert(group, Vec::new());
        Ok(())
    }

    pub fn update_node(&mut self, number: usize, ports: &[u32]) -> Result<(), RigError> {
        let known = self.names.nodes.get_mut(number).ok_or(RigError::NoNode(number))?;
        let instance = known.first().map_or(0, |r| r.instance);
        *known = node(instance, ports);
        let groups: Vec<u32> =
            self.names.groups.iter().filter(|(_, nodes)| nodes.contains(&number)).map(|(g, _)| *g).collect();
        groups.into_iter().try_for_each(|g| self.store_group(g))
    }

    pub fn associate(&mut self, group: u32, node: usize) -> Result<(), RigError> {
        if node >= self.names.nodes.len() {
            return Err(RigError::NoNode(node));
        }
        let nodes = self.names.groups.get_mut(&group).ok_or(RigError::NoGroup(group))?;
        nodes.push(node);
        self.store_group(group)
    }

    fn store_group(&mut self, group: u32) -> Result<(), RigError> {
        let nodes = self.names.groups.get(&group).cloned().unwrap_or_default();
        let replicas = nodes.iter().flat_map(|n| self.names.nodes[*n].clone()).collect();
        self.state.replication.modify_group(group, replicas).map_err(RigError::from)
    }
}

/// A node with this number of its packets.
pub fn node(instance: u16, ports: &[u32]) -> Vec<Replica> {
    ports.iter().map(|p| Replica { port: *p, instance }).collect()
}
