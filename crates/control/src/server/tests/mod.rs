//! Tests of the server through its messages, as clients send them.

// `[e.clone()]` says "exactly this entry" better than `slice::from_ref(&e)`.
#![allow(clippy::cloned_ref_to_slice_refs)]

mod fuzz;
mod pipeline;
mod resources;
mod slices;
mod streams;
mod tables;

use super::*;
use crate::error::Code;
use crate::fixture::TestDevice;
use crate::proto::p4rt as pb;
use pb::entity::Entity;
use pb::set_forwarding_pipeline_config_request::Action as PipelineAction;
use pb::update::Type::{self, Delete, Insert, Modify};
use pointsman_v1model::Time;

/// A server with a device, and a client that is primary with election id 1.
struct Rig {
    server: Server,
    device: TestDevice,
    now: Time,
}

const CLIENT: ConnId = ConnId(1);

impl Rig {
    /// Without a pipeline.
    fn empty() -> Rig {
        let server = Server::new(ServerConfig {
            entities_per_response: const { NonZeroUsize::new(3).unwrap() },
            ..Default::default()
        });
        let mut rig = Rig { server, device: TestDevice::new(), now: Time::from_millis(1) };
        rig.arbitrate(CLIENT, 1);
        rig
    }

    fn new() -> Rig {
        let mut rig = Rig::empty();
        rig.set_pipeline(PipelineAction::VerifyAndCommit, "main").expect("the program is valid");
        rig
    }

    fn arbitrate(&mut self, conn: ConnId, id: u64) -> Vec<Output> {
        let update = pb::MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(pb::Uint128 { high: 0, low: id }),
            ..Default::default()
        };
        let update = Some(pb::stream_message_request::Update::Arbitration(update));
        self.server.stream_message(conn, &pb::StreamMessageRequest { update })
    }

    fn set_pipeline(&mut self, action: PipelineAction, source: &str) -> Result<(), RpcError> {
        let config = pb::ForwardingPipelineConfig { p4_device_config: source.into(), ..Default::default() };
        let request = pb::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(pb::Uint128 { high: 0, low: 1 }),
            action: action as i32,
            config: (!source.is_empty()).then_some(config),
            ..Default::default()
        };
        self.server.set_pipeline(&mut self.device, &request, self.now).map(|_| ())
    }

    fn write_all(
        &mut self,
        atomicity: pb::write_request::Atomicity,
        updates: Vec<(Type, Entity)>,
    ) -> Result<(), RpcError> {
        let update = |(ty, entity)| pb::Update {
            r#type: ty as i32,
            entity: Some(pb::Entity { entity: Some(entity) }),
        };
        let request = pb::WriteRequest {
            device_id: 1,
            election_id: Some(pb::Uint128 { high: 0, low: 1 }),
            updates: updates.into_iter().map(update).collect(),
            atomicity: atomicity as i32,
            ..Default::default()
        };
        self.server.write(&mut self.device, &request, self.now).map(|_| ())
    }

    /// Writes one update; an error returns the update's own code and message.
    fn write(&mut self, ty: Type, entity: Entity) -> Result<(), (Code, String)> {
        self.write_all(pb::write_request::Atomicity::ContinueOnError, vec![(ty, entity)]).map_err(|e| {
            assert_eq!((e.code, e.details.len()), (Code::Unknown, 1), "{e}");
            (code(e.details[0].canonical_code), e.details[0].message.clone())
        })
    }

    fn ok(&mut self, ty: Type, entity: Entity) {
        if let Err((code, message)) = self.write(ty, entity.clone()) {
            panic!("{code:?}: {message}\n{entity:?}");
        }
    }

    /// The update must fail with this code and a message that contains `part`.
    fn refused(&mut self, ty: Type, entity: Entity, code: Code, part: &str) {
        match self.write(ty, entity.clone()) {
            Ok(()) => panic!("accepted: {entity:?}"),
            Err((found, message)) => {
                assert!(
                    found == code && message.contains(part),
                    "{found:?}: {message}, not {code:?}: {part}"
                );
            }
        }
    }

    fn read(&mut self, entity: Entity) -> Result<Vec<Entity>, (Code, String)> {
        let request = pb::ReadRequest {
            device_id: 1,
            entities: vec![pb::Entity { entity: Some(entity) }],
            ..Default::default()
        };
        let outcome = self.server.read(&mut self.device, &request, self.now);
        outcome.status.map_err(|e| match e.details.first() {
            Some(detail) => (code(detail.canonical_code), detail.message.clone()),
            None => (e.code, e.message),
        })?;
        assert!(outcome.responses.iter().all(|r| (1..=3).contains(&r.entities.len())));
        Ok(outcome.responses.into_iter().flat_map(|r| r.entities).filter_map(|e| e.entity).collect())
    }

    fn read_ok(&mut self, entity: Entity) -> Vec<Entity> {
        self.read(entity).unwrap_or_else(|e| panic!("{e:?}"))
    }

    fn read_refused(&mut self, entity: Entity, code: Code, part: &str) {
        match self.read(entity) {
            Ok(found) => panic!("found {found:?}"),
            Err((c, message)) => assert!(c == code && message.contains(part), "{c:?}: {message}"),
        }
    }

    /// The id of an object of the main program, by the name that comes last in its full name.
    fn id(&self, name: &str) -> u32 {
        let info = crate::p4info::p4info(&crate::fixture::program()).expect("valid");
        let preambles = [
            info.tables.iter().map(|x| &x.preamble).collect::<Vec<_>>(),
            info.actions.iter().map(|x| &x.preamble).collect(),
            info.registers.iter().map(|x| &x.preamble).collect(),
            info.counters.iter().map(|x| &x.preamble).collect(),
            info.meters.iter().map(|x| &x.preamble).collect(),
            info.action_profiles.iter().map(|x| &x.preamble).collect(),
            info.value_sets.iter().map(|x| &x.preamble).collect(),
            info.digests.iter().map(|x| &x.preamble).collect(),
        ];
        let mut all = preambles.into_iter().flatten().flatten();
        all.find(|p| p.alias == name).unwrap_or_else(|| panic!("nothing is called {name}")).id
    }

    fn action(&self, name: &str, params: &[&[u8]]) -> pb::Action {
        let param = |(id, value): (u32, &&[u8])| pb::action::Param { param_id: id, value: value.to_vec() };
        pb::Action { action_id: self.id(name), params: (1..).zip(params).map(param).collect() }
    }

    fn table_action(&self, name: &str, params: &[&[u8]]) -> Option<pb::TableAction> {
        Some(pb::TableAction { r#type: Some(pb::table_action::Type::Action(self.action(name, params))) })
    }

    /// An entry with action `drop`.
    fn entry(&self, table: &str, matches: Vec<pb::FieldMatch>) -> pb::TableEntry {
        pb::TableEntry {
            table_id: self.id(table),
            r#match: matches,
            action: self.table_action("drop", &[]),
            ..Default::default()
        }
    }
}

fn code(number: i32) -> Code {
    use Code::*;
    let all = [
        Ok,
        Cancelled,
        Unknown,
        InvalidArgument,
        DeadlineExceeded,
        NotFound,
        AlreadyExists,
        PermissionDenied,
        ResourceExhausted,
        FailedPrecondition,
        Aborted,
        OutOfRange,
        Unimplemented,
        Internal,
        Unavailable,
        DataLoss,
        Unauthenticated,
    ];
    *all.iter().find(|c| c.number() == number).expect("a code of gRPC")
}

fn matched(field_id: u32, m: pb::field_match::FieldMatchType) -> pb::FieldMatch {
    pb::FieldMatch { field_id, field_match_type: Some(m) }
}

fn exact(field_id: u32, value: &[u8]) -> pb::FieldMatch {
    matched(
        field_id,
        pb::field_match::FieldMatchType::Exact(pb::field_match::Exact { value: value.to_vec() }),
    )
}

fn lpm(field_id: u32, value: &[u8], prefix_len: i32) -> pb::FieldMatch {
    let m = pb::field_match::Lpm { value: value.to_vec(), prefix_len };
    matched(field_id, pb::field_match::FieldMatchType::Lpm(m))
}

fn ternary(field_id: u32, value: &[u8], mask: &[u8]) -> pb::FieldMatch {
    let m = pb::field_match::Ternary { value: value.to_vec(), mask: mask.to_vec() };
    matched(field_id, pb::field_match::FieldMatchType::Ternary(m))
}

fn range(field_id: u32, low: &[u8], high: &[u8]) -> pb::FieldMatch {
    let m = pb::field_match::Range { low: low.to_vec(), high: high.to_vec() };
    matched(field_id, pb::field_match::FieldMatchType::Range(m))
}

fn optional(field_id: u32, value: &[u8]) -> pb::FieldMatch {
    let m = pb::field_match::Optional { value: value.to_vec() };
    matched(field_id, pb::field_match::FieldMatchType::Optional(m))
}

fn index(index: i64) -> Option<pb::Index> {
    Some(pb::Index { index })
}
