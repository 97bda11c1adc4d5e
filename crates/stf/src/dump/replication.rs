//! Multicast groups and clone sessions.

use super::Writer;
use pointsman_v1model::CloneSession;

impl Writer<'_> {
    pub fn groups(&mut self) {
        let replication = &self.state.replication;
        let mut node = 0;
        for (number, replicas) in replication.groups() {
            self.line(&format!("mc_mgrp_create {number}"));
            // A node has one instance and several ports.
            for node_of in replicas.chunk_by(|a, b| a.instance == b.instance) {
                let ports: String = node_of.iter().map(|r| format!(" {}", r.port)).collect();
                self.line(&format!("mc_node_create {}{ports}", node_of[0].instance));
                self.line(&format!("mc_node_associate {number} {node}"));
                node += 1;
            }
            if replication.backups(number).is_some_and(|b| b.iter().any(|b| !b.is_empty())) {
                self.lost(format!("backup replicas of multicast group {number}"));
            }
        }
    }

    pub fn sessions(&mut self) {
        for (number, session) in self.state.replication.sessions() {
            let CloneSession { replicas, multicast_group, truncate_bytes, class_of_service } = session;
            match (replicas.as_slice(), multicast_group) {
                ([], Some(group)) if (*truncate_bytes, *class_of_service) == (0, 0) => {
                    self.line(&format!("mirroring_add_mc {number} {group}"))
                }
                (replicas, _) => {
                    let mut text = format!("mirroring_add {number}");
                    for r in replicas {
                        let instance =
                            if r.instance == 0 { String::new() } else { format!(":{}", r.instance) };
                        text.push_str(&format!(" {}{instance}", r.port));
                    }
                    if let Some(group) = multicast_group {
                        text.push_str(&format!(" group={group}"));
                    }
                    if *truncate_bytes != 0 {
                        text.push_str(&format!(" bytes={truncate_bytes}"));
                    }
                    // A session without ports is a statement only with a further word.
                    if *class_of_service != 0 || (replicas.is_empty() && multicast_group.is_none()) {
                        text.push_str(&format!(" class={class_of_service}"));
                    }
                    self.line(&text);
                }
            }
        }
    }
}
