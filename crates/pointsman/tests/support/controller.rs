//! A small P4Runtime controller for tests of packets. (`clients.rs` tests the server with third-party
//! controllers.)

use pb::p4_runtime_client::P4RuntimeClient;
use pb::set_forwarding_pipeline_config_request::Action;
use pb::stream_message_request::Update as Request;
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::proto::p4rt as pb;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// A connected controller; blocking, with its own runtime, whose thread answers the switch between calls.
pub struct Controller {
    tokio: tokio::runtime::Runtime,
    client: P4RuntimeClient<Channel>,
    /// Messages of the controller on its stream.
    pub say: mpsc::Sender<pb::StreamMessageRequest>,
    stream: Streaming<pb::StreamMessageResponse>,
    election_id: pb::Uint128,
    /// The P4Info that the switch gave; empty if it has no program.
    pub info: P4Info,
}

/// Connects and takes part in the arbitration with this election id. Returns whether it is primary.
pub fn connect(address: SocketAddr, election: u128) -> (Controller, Code) {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let (say, said) = mpsc::channel(16);
    let (client, stream) = tokio.block_on(async {
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address makes a URI");
        let mut client = P4RuntimeClient::new(endpoint.connect().await.expect("the switch serves"));
        let stream = client.stream_channel(ReceiverStream::new(said)).await.expect("a stream").into_inner();
        (client, stream)
    });
    let election_id = pb::Uint128::default();
    let mut controller = Controller { tokio, client, say, stream, election_id, info: P4Info::default() };
    let code = controller.arbitrate(election);
    controller.info = controller.pipeline().unwrap_or_default();
    (controller, code)
}

impl Controller {
    /// Takes part in the arbitration with this election id, and returns the answer.
    pub fn arbitrate(&mut self, election: u128) -> Code {
        self.election_id = pb::Uint128 { high: (election >> 64) as u64, low: election as u64 };
        self.tell(Request::Arbitration(pb::MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(self.election_id),
            ..Default::default()
        }));
        self.hear_arbitration()
    }

    /// The status of the next message, which must be about arbitration.
    pub fn hear_arbitration(&mut self) -> Code {
        match self.hear() {
            Ok(Some(pb::stream_message_response::Update::Arbitration(update))) => {
                update.status.map_or(Code::Unknown, |s| Code::from_i32(s.code))
            }
            other => panic!("not about arbitration: {other:?}"),
        }
    }

    /// The next message of the stream; `None` at its end.
    pub fn hear(&mut self) -> Result<Option<pb::stream_message_response::Update>, Status> {
        self.tokio.block_on(async {
            let message = tokio::time::timeout(Duration::from_secs(10), self.stream.message());
            let message = message.await.map_err(|_| Status::deadline_exceeded("nothing came"))??;
            Ok(message.and_then(|m| m.update))
        })
    }

    /// Says something on the stream.
    pub fn tell(&mut self, update: Request) {
        let message = pb::StreamMessageRequest { update: Some(update) };
        self.tokio.block_on(self.say.send(message)).expect("the stream is open");
    }

    fn config(&mut self) -> Result<pb::ForwardingPipelineConfig, Status> {
        let request = pb::GetForwardingPipelineConfigRequest { device_id: 1, ..Default::default() };
        let answer = self.tokio.block_on(self.client.get_forwarding_pipeline_config(request))?.into_inner();
        Ok(answer.config.unwrap_or_default())
    }

    fn pipeline(&mut self) -> Result<P4Info, Status> {
        Ok(self.config()?.p4info.unwrap_or_default())
    }

    /// The program as the switch gives it back.
    pub fn device_config(&mut self) -> Result<Vec<u8>, Status> {
        Ok(self.config()?.p4_device_config)
    }

    /// Sends a program as source text.
    pub fn set_pipeline(&mut self, source: &[u8]) -> Result<(), Status> {
        self.replace_pipeline(source, Action::VerifyAndCommit)
    }

    /// The same with another action, such as `ReconcileAndCommit`, which keeps the state.
    pub fn replace_pipeline(&mut self, source: &[u8], action: Action) -> Result<(), Status> {
        let config = pb::ForwardingPipelineConfig { p4_device_config: source.to_vec(), ..Default::default() };
        let request = pb::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(self.election_id),
            action: action.into(),
            config: Some(config),
            ..Default::default()
        };
        self.tokio.block_on(self.client.set_forwarding_pipeline_config(request))?;
        self.info = self.pipeline()?;
        Ok(())
    }

    /// So many calls at once, while a pipeline is being compiled. Gives how many were answered in time.
    pub fn burst(&mut self, source: &[u8], count: usize) -> usize {
        let client = self.client.clone();
        let config = pb::ForwardingPipelineConfig { p4_device_config: source.to_vec(), ..Default::default() };
        let pipeline = pb::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(self.election_id),
            action: Action::Verify.into(),
            config: Some(config),
            ..Default::default()
        };
        self.tokio.block_on(async {
            let mut calls = tokio::task::JoinSet::new();
            let mut first = client.clone();
            calls.spawn(async move { first.set_forwarding_pipeline_config(pipeline).await.is_ok() });
            for _ in 0..count {
                let mut client = client.clone();
                calls.spawn(
                    async move { client.capabilities(pb::CapabilitiesRequest::default()).await.is_ok() },
                );
            }
            let mut answered = 0;
            let wait = Duration::from_secs(10);
            while let Ok(Some(Ok(true))) = tokio::time::timeout(wait, calls.join_next()).await {
                answered += 1;
            }
            answered
        })
    }

    /// Inserts entities.
    pub fn insert(&mut self, entities: Vec<pb::entity::Entity>) -> Result<(), Status> {
        self.write(pb::update::Type::Insert, entities)
    }

    /// Writes entities in one batch.
    pub fn write(&mut self, kind: pb::update::Type, entities: Vec<pb::entity::Entity>) -> Result<(), Status> {
        let updates = entities
            .into_iter()
            .map(|e| pb::Update { r#type: kind.into(), entity: Some(pb::Entity { entity: Some(e) }) });
        let request = pb::WriteRequest {
            device_id: 1,
            election_id: Some(self.election_id),
            updates: updates.collect(),
            ..Default::default()
        };
        self.tokio.block_on(self.client.write(request)).map(|_| ())
    }

    /// Reads one kind of entity.
    pub fn read(&mut self, entity: pb::entity::Entity) -> Result<Vec<pb::entity::Entity>, Status> {
        let mut entities = Vec::new();
        self.read_each(entity, |e| entities.push(e))?;
        Ok(entities)
    }

    /// Passes each entity read to `each`, and returns their number.
    pub fn read_each(
        &mut self,
        entity: pb::entity::Entity,
        mut each: impl FnMut(pb::entity::Entity),
    ) -> Result<usize, Status> {
        let request = pb::ReadRequest {
            device_id: 1,
            entities: vec![pb::Entity { entity: Some(entity) }],
            ..Default::default()
        };
        self.tokio.block_on(async {
            let mut stream = self.client.read(request).await?.into_inner();
            let mut count = 0;
            while let Some(answer) = stream.message().await? {
                for entity in answer.entities.into_iter().filter_map(|e| e.entity) {
                    count += 1;
                    each(entity);
                }
            }
            Ok(count)
        })
    }

    /// Packets and bytes of one cell of a counter.
    pub fn counter(&mut self, name: &str, index: i64) -> (i64, i64) {
        let counters = self.info.counters.iter().map(|c| &c.preamble);
        let id = counters.flatten().find(|p| p.name == name).expect("the program has this counter").id;
        let entry =
            pb::CounterEntry { counter_id: id, index: Some(pb::Index { index }), ..Default::default() };
        match self.read(pb::entity::Entity::CounterEntry(entry)).expect("counters can be read").as_slice() {
            [pb::entity::Entity::CounterEntry(e)] => {
                e.data.as_ref().map_or((0, 0), |d| (d.packet_count, d.byte_count))
            }
            other => panic!("one cell was asked for, got {other:?}"),
        }
    }

    /// The id of a table.
    pub fn table(&self, name: &str) -> u32 {
        let tables = self.info.tables.iter().map(|t| &t.preamble);
        tables.flatten().find(|p| p.name == name).expect("the program has this table").id
    }

    /// The id of an action.
    pub fn action(&self, name: &str) -> u32 {
        let actions = self.info.actions.iter().map(|t| &t.preamble);
        actions.flatten().find(|p| p.name == name).expect("the program has this action").id
    }
}
