//! Queue pairs in the switch.

use super::super::setup::Server;
use super::{Kind, Memories, Purpose, Share, Switch, bits, update};
use crate::bed::LINK_BIT_S;
use pointsman_control::proto::p4rt;
use pointsman_fabric::{Does, Rates, UnknownName, Value};
use pointsman_session::Request;

/// Shares of a slow link, in bytes a second, above which look-ups go where there is less load, and to the replica in any case; bytes that may come at
/// once.
const RATES: Rates =
    Rates { committed: LINK_BIT_S as i64 / 8 * 6 / 10, peak: LINK_BIT_S as i64 / 8 * 9 / 10, burst: 10_000 };

impl Switch {
    /// The load of links to servers is measured, and packets to the first server's address go there.
    ///
    /// # Errors
    /// The program lacks a table or meter.
    pub(super) fn slow_links(
        &self,
        memories: &Memories,
        all: &mut Vec<p4rt::Entity>,
    ) -> Result<(), UnknownName> {
        for server in &memories.servers {
            all.push(self.book.rates("tea_load", server.port, RATES)?);
        }
        if let Some(first) = memories.servers.first() {
            let forward = [("port", first.port.into()), ("mac", first.mac.into())];
            let forward = self.book.action("FlowIngress.forward", &forward)?;
            let prefix = [("prefix", Value::Prefix(bits(first.address), 32))];
            all.push(self.book.entry("FlowIngress.routes", &prefix, Does::Action(forward))?);
        }
        Ok(())
    }

    /// What the switch holds of a server's queue pair: first the entry with its addresses, and the key in its requests.
    ///
    /// # Errors
    /// The program lacks a table or register.
    pub(in super::super) fn pair(
        &self,
        (server, share): (&Server, &Share),
        (number, n): (usize, usize),
        region: u32,
        start: u32,
    ) -> Result<Vec<p4rt::Entity>, UnknownName> {
        let own = Share::pair_number(number, n);
        let Some((pair, psn)) = share.pairs.get(n) else { return Ok(Vec::new()) };
        let settings = [
            ("pair", (*pair).into()),
            ("mac", server.mac.into()),
            ("address", bits(server.address)),
            ("port", server.port.into()),
            ("group", Share::group(number).into()),
            ("region", region.into()),
            ("cells", share.address.into()),
            ("ring", share.ring(n).into()),
            ("start", start.into()),
        ];
        let action = self.book.action(&self.asks("peer"), &settings)?;
        let key = [("pair", Value::Exact(own.into()))];
        let mut all = vec![self.book.entry(&self.asks("tea_pairs"), &key, Does::Action(action))?];
        for register in ["tea_next", "tea_done"] {
            all.push(self.book.register(register, own, (*psn).into())?);
        }
        Ok(all)
    }

    /// Replaces entities that exist.
    pub(in super::super) fn replace(&mut self, entities: Vec<p4rt::Entity>) {
        let kind = p4rt::update::Type::Modify;
        self.filling
            .extend(entities.into_iter().map(|e| p4rt::Update { r#type: kind.into(), entity: Some(e) }));
    }

    /// Adds what the switch is to hold of new servers; queue pairs with their numbers may have been others' before.
    pub(in super::super) fn add(&mut self, entities: Vec<p4rt::Entity>, pairs: &[u32]) {
        self.filling.extend(entities.into_iter().map(update));
        pairs.iter().for_each(|pair| self.let_serve(*pair));
    }

    /// Removes what the switch holds of servers that are not used any more.
    pub(in super::super) fn remove(&mut self, entities: Vec<p4rt::Entity>) {
        let kind = p4rt::update::Type::Delete;
        let held = entities.into_iter().filter(|e| !matches!(e.entity, Some(Kind::RegisterEntry(_))));
        self.filling.extend(held.map(|e| p4rt::Update { r#type: kind.into(), entity: Some(e) }));
    }

    /// The switch shall not use a queue pair any more.
    pub(in super::super) fn give_up(&mut self, pair: u32) {
        self.replace(self.book.register("tea_dead", pair, 0xff).into_iter().collect());
    }

    /// A queue pair that ended serves again, after everything else that is to be replaced.
    pub(in super::super) fn let_serve(&mut self, pair: u32) {
        let registers = ["tea_probed", "tea_dead"].map(|name| self.book.register(name, pair, 0));
        self.replace(registers.into_iter().flatten().collect());
    }

    /// Asks which queue pairs have ended. It must be idle.
    pub(in super::super) fn read_dead(&mut self) {
        if let Ok(mut entity) = self.book.register("tea_dead", 0, 0) {
            if let Some(Kind::RegisterEntry(entry)) = &mut entity.entity {
                (entry.index, entry.data) = (None, None);
            }
            let read = self.session.read_request(vec![entity]);
            self.request(Purpose::Dead, Request::Read(read));
        }
    }
}

/// Queue pairs whose register has not the value 0.
pub(super) fn dead(entities: &[p4rt::Entity]) -> Vec<u32> {
    use p4rt::p4_data::Data;
    let pair = |entity: &p4rt::Entity| {
        let Some(Kind::RegisterEntry(entry)) = &entity.entity else { return None };
        let Some(Data::Bitstring(bytes)) = entry.data.as_ref()?.data.as_ref() else { return None };
        let index = entry.index.as_ref()?.index;
        bytes.iter().any(|b| *b != 0).then_some(index as u32)
    };
    entities.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_that_ended_are_those_with_a_syndrome() {
        use p4rt::p4_data::Data;
        let cell = |index, value: u8| {
            let data = p4rt::P4Data { data: Some(Data::Bitstring(vec![value])) };
            let index = Some(p4rt::Index { index });
            let entry = p4rt::RegisterEntry { register_id: 1, index, data: Some(data) };
            p4rt::Entity { entity: Some(Kind::RegisterEntry(entry)) }
        };
        assert_eq!(dead(&[cell(0, 0), cell(1, 0x62), cell(2, 0), cell(7, 0x61)]), [1, 7]);
    }
}
