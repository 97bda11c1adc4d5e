//! The balancer's connections between the switch and servers' memory: carries what `balance::settle` says to the data plane and the table, and what they
//! say to it; and changes which devices take new connections.

use super::popular::padded;
use super::switch::{IDLE_MS, lacks};
use super::{Controller, now};
use crate::checker::State;
use crate::checker::connections::ALL;
use pointsman_balance::settle::{self, Action, KEY_BYTES, Kind, Report, Settler, WORD_BYTES};
use pointsman_control::proto::p4rt;
use pointsman_control::proto::p4rt::p4_data::Data;
use pointsman_lab::{Error, Result};
use pointsman_remote::ChangeError;
use std::time::{Duration, Instant};

/// The digest by which the data plane reports.
pub const DIGEST: &str = "settled_digest_t";
/// The only field of a packet out's header: the port.
const PORT_FIELD: u32 = 1;
/// Time between two changes of the devices that take new connections.
const POOL_CHANGE: Duration = Duration::from_millis(50);
/// What moves connections. A report takes up to 10 ms, and a busy machine longer.
const SETTINGS: settle::Settings = settle::Settings {
    wait_ns: 20_000_000,
    retry_ns: 200_000_000,
    idle_ms: IDLE_MS,
    sweep_ns: 10_000_000_000,
    under_way: 4096,
};

/// The devices that take new connections: the generation of their entries, and how often they changed.
#[derive(Default)]
pub(super) struct Pool {
    epoch: u8,
    pub changes: u64,
    change_at: Option<Instant>,
}

/// Reports of a digest list. What is none is left out.
pub fn reports(list: &p4rt::DigestList) -> Vec<Report> {
    let bytes = |data: &p4rt::P4Data, length: usize| match &data.data {
        Some(Data::Bitstring(bytes)) => Some(padded(bytes, length)),
        _ => None,
    };
    let report = |data: &p4rt::P4Data| {
        let Some(Data::Struct(fields)) = &data.data else { return None };
        let [kind, number, key, word, ticks] = &fields.members[..] else { return None };
        Some(Report {
            kind: Kind::from_number(*bytes(kind, 1)?.last()?)?,
            number: *bytes(number, 1)?.last()?,
            key: bytes(key, KEY_BYTES)?.try_into().ok()?,
            word: bytes(word, WORD_BYTES)?.try_into().ok()?,
            ticks: u16::from_be_bytes(bytes(ticks, 2)?.try_into().ok()?),
        })
    };
    list.data.iter().filter_map(report).collect()
}

/// A packet out with a message to the data plane.
fn packet_out(message: &settle::Message, number: u8) -> p4rt::PacketOut {
    let value = settle::PORT.to_be_bytes().to_vec();
    let metadata = vec![p4rt::PacketMetadata { metadata_id: PORT_FIELD, value }];
    p4rt::PacketOut { payload: message.encode(number), metadata }
}

/// What moves connections, with those that servers' memory has from the start.
///
/// # Errors
/// The bytes are not a connection's.
pub(super) fn settler(now: u64, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<Settler> {
    let mut settler = Settler::new(SETTINGS);
    for (key, word) in entries {
        match (key[..].try_into(), word[..].try_into()) {
            (Ok(key), Ok(word)) => settler.load(now, key, word),
            _ => return Err(Error::new(format!("{key:?}, {word:?}: no connection's entry"))),
        }
    }
    Ok(settler)
}

impl Controller {
    /// Does what is due for connections that settle or end.
    pub(super) fn settle(&mut self) -> Result<()> {
        let at = now(&self.shared);
        let (Some(settler), Some(table)) = (&mut self.settler, &mut self.table) else { return Ok(()) };
        settler.wake(at);
        while let Some(action) = settler.take_action() {
            let (key, result) = match action {
                Action::Send(message, number) => {
                    self.switch.send(packet_out(&message, number));
                    continue;
                }
                Action::Put(key, word) => (key, table.put(at, &key, &word)),
                Action::Delete(key) => (key, table.delete(at, &key)),
            };
            match result {
                Ok(()) => {}
                Err(ChangeError::Full) => {
                    self.changes[1] += 1;
                    settler.refused(at, &key);
                }
                Err(e) => return Err(Error::new(format!("{action:?}: {e}"))),
            }
        }
        Ok(())
    }

    /// Other devices take new connections. Those that exist stay where they are.
    pub(super) fn change_pool(&mut self) -> Result<()> {
        let pool = &mut self.pool_of_devices;
        if pool.change_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        let mut checker = self.shared.checker();
        let states = &mut checker.flows[0];
        if states.last().is_some_and(|s| s.acked.is_none()) {
            return Ok(());
        }
        pool.change_at = Some(Instant::now() + POOL_CHANGE);
        pool.epoch ^= 1;
        pool.changes += 1;
        let devices = 1 + self.random.below(ALL.into()) as u16;
        states.push(State { version: Some(devices), asked: now(&self.shared), acked: None });
        self.switch.replace(self.switch.pool(devices, pool.epoch).map_err(lacks)?);
        Ok(())
    }

    /// The switch has done everything that it was asked for: it has the devices that take new connections.
    pub(super) fn pool_changed(&mut self) {
        if self.settler.is_some()
            && let Some(state) = self.shared.checker().flows[0].last_mut()
        {
            state.acked = state.acked.or(Some(now(&self.shared)));
        }
    }
}
