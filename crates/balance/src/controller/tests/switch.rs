//! A switch in memory: tables as maps, with P4Runtime's rules on write access.

use super::super::{Output, Request, Response};
use crate::config::Rack;
use crate::controller::frames::tests::host;
use crate::plan::tests::{assert_complete, p4info, wide_p4info};
use crate::plan::{Entries, Key, Schema};
use crate::program::ServerDevices;
use crate::types::{DeviceNumber, Mac};
use pointsman_control::bytestring;
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind};
use pointsman_control::{Code, EntityError, RpcError};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

pub(super) struct Switch {
    pub schema: Schema,
    pub cookie: Option<u64>,
    /// Clients with their election ids.
    clients: BTreeMap<u32, Option<u128>>,
    /// The highest id that was ever seen.
    pub highest: Option<u128>,
    tables: BTreeMap<Vec<u8>, p4rt::TableEntry>,
    pub registers: BTreeMap<(u32, i64), u64>,
    pub counters: BTreeMap<(u32, i64), i64>,
    /// Devices whose agents report.
    pub speaking: BTreeSet<DeviceNumber>,
    /// The stations that answer ARP and neighbour solicitations.
    pub hosts: BTreeMap<(u16, IpAddr), Mac>,
    /// Inserts into this table fail.
    pub full: Option<u32>,
    pub without_registers: bool,
    /// Changes that were made.
    pub writes: usize,
    pub installs: usize,
    /// The expected results of look-ups, checked along the way.
    pub rack: Rack,
}

/// The P4Info of the program for this rack.
pub fn p4info_for(rack: &Rack) -> P4Info {
    match ServerDevices::of(rack) {
        ServerDevices::Eight => p4info(),
        ServerDevices::Sixteen => wide_p4info(),
    }
}

fn key(e: &p4rt::TableEntry) -> Vec<u8> {
    let mut fields: Vec<String> = e.r#match.iter().map(|m| format!("{m:?}")).collect();
    fields.sort();
    format!("{} {} {} {fields:?}", e.table_id, e.priority, e.is_default_action).into_bytes()
}

impl Switch {
    /// Another rack is expected from now on, with the program that it needs.
    pub fn reload(&mut self, rack: Rack) {
        self.schema = Schema::new(&p4info_for(&rack)).expect("the balancer");
        self.speaking.extend(rack.devices().map(|(_, d)| d.number));
        self.rack = rack;
    }

    pub fn new(rack: Rack) -> Self {
        Switch {
            schema: Schema::new(&p4info_for(&rack)).expect("the balancer"),
            cookie: None,
            clients: BTreeMap::new(),
            highest: None,
            tables: BTreeMap::new(),
            registers: BTreeMap::new(),
            counters: BTreeMap::new(),
            speaking: rack.devices().map(|(_, d)| d.number).collect(),
            hosts: BTreeMap::new(),
            full: None,
            without_registers: false,
            writes: 0,
            installs: 0,
            rack,
        }
    }

    /// Power lost. Connections are the caller's.
    pub fn restart(&mut self) {
        self.cookie = None;
        self.clients.clear();
        self.highest = None;
        self.wipe();
    }

    fn wipe(&mut self) {
        self.tables.clear();
        self.registers.clear();
        self.counters.clear();
    }

    pub fn entries(&self) -> Entries {
        self.tables.values().filter_map(|e| self.schema.decode(e)).collect()
    }

    pub fn add(&mut self, e: p4rt::TableEntry) {
        self.tables.insert(key(&e), e);
    }

    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// The client in charge.
    pub fn primary(&self) -> Option<u32> {
        let of = |(_, id): &(&u32, &Option<u128>)| id.is_some() && **id == self.highest;
        self.clients.iter().find(of).map(|(client, _)| *client)
    }

    /// A notification to a client.
    pub fn notice(&self, client: u32) -> p4rt::StreamMessageResponse {
        let code = match self.primary() {
            Some(p) if p == client => Code::Ok,
            Some(_) => Code::AlreadyExists,
            None => Code::NotFound,
        };
        let arbitration = p4rt::MasterArbitrationUpdate {
            device_id: 1,
            election_id: self.highest.map(|h| p4rt::Uint128 { high: (h >> 64) as u64, low: h as u64 }),
            status: Some(pointsman_control::proto::rpc::Status { code: code.number(), ..Default::default() }),
            ..Default::default()
        };
        p4rt::StreamMessageResponse {
            update: Some(p4rt::stream_message_response::Update::Arbitration(arbitration)),
        }
    }

    fn notices(&self) -> Vec<(u32, p4rt::StreamMessageResponse)> {
        self.clients.keys().map(|c| (*c, self.notice(*c))).collect()
    }

    /// A client sends its id; returns the notifications. None: the id is another client's, and the stream ends.
    pub fn arbitrate(
        &mut self,
        client: u32,
        id: Option<u128>,
    ) -> Option<Vec<(u32, p4rt::StreamMessageResponse)>> {
        if id.is_some() && self.clients.iter().any(|(c, other)| *c != client && *other == id) {
            return None;
        }
        let was_primary = self.primary() == Some(client);
        self.clients.insert(client, id);
        let wins = id.is_some() && id >= self.highest;
        if wins {
            self.highest = id;
        }
        Some(if wins || was_primary { self.notices() } else { vec![(client, self.notice(client))] })
    }

    /// A client's stream ends; returns the notifications.
    pub fn hang_up(&mut self, client: u32) -> Vec<(u32, p4rt::StreamMessageResponse)> {
        let was_primary = self.primary() == Some(client);
        self.clients.remove(&client);
        if was_primary { self.notices() } else { Vec::new() }
    }

    fn in_charge(&self, id: Option<&p4rt::Uint128>) -> Result<(), RpcError> {
        let id = id.map(|i| u128::from(i.high) << 64 | u128::from(i.low));
        if id.is_none() || id != self.highest || self.primary().is_none() {
            return Err(RpcError::new(Code::PermissionDenied, "not the primary"));
        }
        Ok(())
    }

    fn pipeline(&self) -> Result<(), RpcError> {
        self.cookie.map(|_| ()).ok_or_else(|| RpcError::new(Code::FailedPrecondition, "no pipeline"))
    }

    pub fn request(&mut self, now: Duration, request: &Request) -> Result<Response, RpcError> {
        match request {
            Request::GetPipeline(_) => {
                self.pipeline()?;
                let cookie = self.cookie.map(|cookie| p4rt::forwarding_pipeline_config::Cookie { cookie });
                let config = p4rt::ForwardingPipelineConfig { cookie, ..Default::default() };
                let config = Some(config);
                Ok(Response::GetPipeline(Box::new(p4rt::GetForwardingPipelineConfigResponse { config })))
            }
            Request::SetPipeline(r) => {
                self.in_charge(r.election_id.as_ref())?;
                self.wipe();
                self.cookie = r.config.as_ref().and_then(|c| c.cookie).map(|c| c.cookie);
                self.installs += 1;
                Ok(Response::SetPipeline)
            }
            Request::Read(r) => {
                self.pipeline()?;
                let mut out = Vec::new();
                for e in &r.entities {
                    out.extend(self.read(now, e.entity.as_ref().expect("an entity"))?);
                }
                Ok(Response::Read(out.into_iter().map(|e| p4rt::Entity { entity: Some(e) }).collect()))
            }
            Request::Write(r) => {
                self.in_charge(r.election_id.as_ref())?;
                self.pipeline()?;
                let outcomes: Vec<_> = r.updates.iter().map(|u| self.update(u)).collect();
                assert_complete(&self.entries(), &self.rack, "after a batch");
                RpcError::from_batch("updates", &outcomes).map_or(Ok(Response::Write), Err)
            }
        }
    }

    fn read(&mut self, now: Duration, e: &Kind) -> Result<Vec<Kind>, RpcError> {
        Ok(match e {
            Kind::TableEntry(e) => {
                let wanted = |t: &&p4rt::TableEntry| {
                    t.table_id == e.table_id && t.is_default_action == e.is_default_action
                };
                self.tables.values().filter(wanted).cloned().map(Kind::TableEntry).collect()
            }
            Kind::RegisterEntry(e) => {
                if self.without_registers {
                    return Err(RpcError::new(Code::Unimplemented, "no registers"));
                }
                let index = e.index.as_ref().expect("an index").index;
                if let Some(slot) = self.schema.last_heard.iter().position(|id| *id == e.register_id) {
                    let device = DeviceNumber::new(index as u16, slot as u8);
                    if self.speaking.contains(&device) {
                        self.registers.insert((e.register_id, index), now.as_micros() as u64 + 1000); // 0 and 1 are not times
                    }
                }
                let value = self.registers.get(&(e.register_id, index)).copied().unwrap_or(0);
                let data = p4rt::P4Data {
                    data: Some(p4rt::p4_data::Data::Bitstring(bytestring::of_number(value.into()))),
                };
                vec![Kind::RegisterEntry(p4rt::RegisterEntry { data: Some(data), ..e.clone() })]
            }
            Kind::CounterEntry(e) => {
                let index = e.index.as_ref().expect("an index").index;
                let packet_count = self.counters.get(&(e.counter_id, index)).copied().unwrap_or(0);
                let data = Some(p4rt::CounterData { packet_count, ..Default::default() });
                vec![Kind::CounterEntry(p4rt::CounterEntry { data, ..*e })]
            }
            // No service here asks for resets.
            Kind::PacketReplicationEngineEntry(_) => Vec::new(),
            other => panic!("read {other:?}"),
        })
    }

    fn update(&mut self, u: &p4rt::Update) -> Result<(), EntityError> {
        let e = match u.entity.as_ref().and_then(|e| e.entity.as_ref()) {
            Some(Kind::TableEntry(e)) => e,
            Some(Kind::RegisterEntry(e)) => {
                assert_eq!(e.register_id, self.schema.controllers_choice);
                let Some(p4rt::p4_data::Data::Bitstring(b)) = e.data.as_ref().and_then(|d| d.data.as_ref())
                else {
                    panic!("no value: {e:?}");
                };
                let value = bytestring::number(b).expect("a number") as u64;
                self.registers.insert((e.register_id, e.index.as_ref().expect("an index").index), value);
                return Ok(());
            }
            other => panic!("written: {other:?}"),
        };
        let (key, exists) = (key(e), self.tables.contains_key(&key(e)));
        let kind = p4rt::update::Type::try_from(u.r#type).expect("valid");
        match kind {
            p4rt::update::Type::Insert if exists => {
                return Err(EntityError::new(Code::AlreadyExists, "it exists"));
            }
            p4rt::update::Type::Insert if self.full == Some(e.table_id) => {
                return Err(EntityError::new(Code::ResourceExhausted, "the table is full"));
            }
            p4rt::update::Type::Modify | p4rt::update::Type::Delete if !exists && !e.is_default_action => {
                return Err(EntityError::not_found("no such entry"));
            }
            p4rt::update::Type::Delete => drop(self.tables.remove(&key)),
            _ => drop(self.tables.insert(key, e.clone())),
        }
        self.writes += 1;
        // The full check is slow: it runs at every switch-over, and now and then in between.
        let decisive = self.schema.decode(e).is_some_and(|(k, _)| matches!(k, Key::Service(_)));
        if decisive || self.writes.is_multiple_of(61) {
            assert_complete(&self.entries(), &self.rack, "inside a batch");
        }
        Ok(())
    }

    /// The answer to a packet that is sent out.
    pub fn packet_out(&self, packet: &p4rt::PacketOut) -> Option<p4rt::StreamMessageResponse> {
        let meta = packet.metadata.first()?;
        assert_eq!(meta.metadata_id, self.schema.egress_port);
        let port = bytestring::number(&meta.value).expect("a number") as u16;
        let at_port = self.hosts.iter().filter(|((p, _), _)| *p == port);
        let payload = at_port.filter_map(|((_, a), mac)| host(&packet.payload, *a, *mac)).next()?;
        let metadata = vec![p4rt::PacketMetadata {
            metadata_id: self.schema.ingress_port,
            value: bytestring::of_number(port.into()),
        }];
        let packet = p4rt::PacketIn { payload, metadata };
        Some(p4rt::StreamMessageResponse {
            update: Some(p4rt::stream_message_response::Update::Packet(packet)),
        })
    }
}

/// Only for messages of failed tests.
pub(super) fn describe(outputs: &[Output]) -> Vec<String> {
    outputs
        .iter()
        .map(|o| match o {
            Output::Event(e) => e.to_string(),
            Output::Request { request, .. } => format!("{request:?}").chars().take(60).collect(),
            other => format!("{other:?}").chars().take(60).collect(),
        })
        .collect()
}
