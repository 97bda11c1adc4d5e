//! A switch without TEA, whose own tables have all entries.

use super::super::Plan;
use super::{Switch, lacks, number};
use crate::App;
use crate::checker::policy;
use pointsman_control::proto::p4rt;
use pointsman_fabric::{Does, UnknownName, Value};
use pointsman_lab::Result;

impl Switch {
    /// What it holds.
    pub fn plain_entities(&self, plan: &Plan) -> Result<Vec<p4rt::Entity>> {
        let mut all = self.routes(plan).map_err(lacks)?;
        let app = plan.app.shown();
        for flow in 0..plan.entries {
            self.plain_entry(&app.key(flow), &app.value(flow, 0), &mut all).map_err(lacks)?;
        }
        for (key, value) in &plan.hosts.entries {
            self.plain_entry(key, value, &mut all).map_err(lacks)?;
        }
        Ok(all)
    }

    /// An entry, in each table that has it.
    fn plain_entry(
        &self,
        key: &[u8],
        value: &[u8],
        all: &mut Vec<p4rt::Entity>,
    ) -> std::result::Result<(), UnknownName> {
        let mut add = |table: &str, key: (&str, Value), action: &str| {
            let action = self.book.action_of_bytes(action, &[("value", value)])?;
            all.push(self.book.entry(table, &[key], Does::Action(action))?);
            Ok(())
        };
        if self.app != App::Policy {
            return add("FlowIngress.entries", ("key", Value::Bytes(key.to_vec())), "FlowIngress.entry");
        }
        let is_hop = policy::hop_of(policy::flow(key)).is_some();
        let tables = policy::PLAIN.iter().filter(|(_, field, _)| (*field == "hop") == is_hop);
        for (table, field, action) in tables {
            add(table, (field, Value::Exact(number(&key[4..]))), action)?;
        }
        Ok(())
    }
}
