//! Hostile clients of P4Runtime: they use the protocol, without other knowledge of the switch.

use crate::case::P4Runtime;
use p4rt::entity::Entity as E;
use p4rt::packet_replication_engine_entry::Type as Replication;
use pointsman_control::proto::p4rt;
use pointsman_control::proto::p4rt::p4_runtime_client::P4RuntimeClient;
use pointsman_lab::{Error, Result};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};

/// The switch's device id.
const DEVICE: u64 = 1;
/// Above every controller's.
const HIGHEST: p4rt::Uint128 = p4rt::Uint128 { high: u64::MAX, low: u64::MAX };
/// Timeout of one request, after which the client repeats it.
const PATIENCE: Duration = Duration::from_secs(10);

type Client = P4RuntimeClient<Channel>;
type Reply<T> = std::result::Result<T, tonic::Status>;

/// Repeats the action `what`, on the calling thread in the switch's namespace.
pub fn bother(at: SocketAddr, what: P4Runtime, stop: &AtomicBool, sent: &AtomicU64) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::os("cannot start a client of P4Runtime", e))?;
    runtime.block_on(async {
        while !stop.load(Relaxed) {
            // A refusal by the switch, or a connection that ends, is not a failure of the siege: the client reconnects.
            let ended = session(at, what, stop, sent).await;
            if ended.is_err() || what == P4Runtime::Sessions {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    Ok(())
}

/// One connection.
async fn session(at: SocketAddr, what: P4Runtime, stop: &AtomicBool, sent: &AtomicU64) -> Reply<()> {
    let failed = |e: tonic::transport::Error| tonic::Status::unavailable(e.to_string());
    let endpoint = Endpoint::from_shared(format!("http://{at}")).map_err(failed)?;
    let channel = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE).connect().await.map_err(failed)?;
    let mut client =
        P4RuntimeClient::new(channel).max_decoding_message_size(1 << 30).max_encoding_message_size(1 << 30);
    match what {
        P4Runtime::ReadAll => {
            while !stop.load(Relaxed) {
                for entity in everything() {
                    if stop.load(Relaxed) {
                        break;
                    }
                    // Kinds that cannot be read with a wildcard are refused; the others count.
                    let _ = read(&mut client, entity, sent).await;
                }
            }
        }
        P4Runtime::Seize => {
            let _held = arbitrate(&mut client, HIGHEST).await?;
            sent.fetch_add(1, Relaxed);
            while !stop.load(Relaxed) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        P4Runtime::Push => {
            let _held = arbitrate(&mut client, HIGHEST).await?;
            let request =
                p4rt::GetForwardingPipelineConfigRequest { device_id: DEVICE, ..Default::default() };
            let config = client.get_forwarding_pipeline_config(request).await?.into_inner().config;
            while !stop.load(Relaxed) {
                push(&mut client, config.clone()).await?;
                sent.fetch_add(1, Relaxed);
            }
        }
        P4Runtime::BadUpdates => {
            let _held = arbitrate(&mut client, HIGHEST).await?;
            while !stop.load(Relaxed) {
                // It is refused on purpose.
                let _ = client.write(bad_updates()).await;
                sent.fetch_add(1, Relaxed);
            }
        }
        P4Runtime::Sessions => {
            let low = sent.fetch_add(1, Relaxed) % 1000;
            // Election id 0 is for no one: below every controller's, and taken by none.
            drop(arbitrate(&mut client, p4rt::Uint128 { high: 0, low: low % 2 }).await?);
        }
    }
    Ok(())
}

/// Follows who is primary until `stop`, as a client without an election id: it never becomes primary itself.
pub fn observe(at: SocketAddr, stop: &AtomicBool, mut see: impl FnMut(u128)) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        while !stop.load(Relaxed) {
            // A connection that ends is opened again.
            let _ = follow(at, stop, &mut see).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

async fn follow(at: SocketAddr, stop: &AtomicBool, see: &mut impl FnMut(u128)) -> Reply<()> {
    use p4rt::stream_message_response::Update;
    let failed = |e: tonic::transport::Error| tonic::Status::unavailable(e.to_string());
    let endpoint = Endpoint::from_shared(format!("http://{at}")).map_err(failed)?;
    let mut client =
        P4RuntimeClient::new(endpoint.connect_timeout(PATIENCE).connect().await.map_err(failed)?);
    let (sender, requests) = mpsc::unbounded_channel();
    let arbitration = p4rt::MasterArbitrationUpdate { device_id: DEVICE, ..Default::default() };
    let update = p4rt::stream_message_request::Update::Arbitration(arbitration);
    // The receiver is still here.
    let _ = sender.send(p4rt::StreamMessageRequest { update: Some(update) });
    let mut answers = client.stream_channel(UnboundedReceiverStream::new(requests)).await?.into_inner();
    while !stop.load(Relaxed) {
        let Ok(message) = tokio::time::timeout(Duration::from_millis(200), answers.message()).await else {
            continue;
        };
        let Some(message) = message? else { break };
        if let Some(Update::Arbitration(update)) = message.update
            && let Some(id) = update.election_id
        {
            see(u128::from(id.high) << 64 | u128::from(id.low));
        }
    }
    Ok(())
}

/// A stream channel on which this client bid to be primary; it ends when the result is dropped.
async fn arbitrate(
    client: &mut Client,
    election_id: p4rt::Uint128,
) -> Reply<(mpsc::UnboundedSender<p4rt::StreamMessageRequest>, tonic::Streaming<p4rt::StreamMessageResponse>)>
{
    let (sender, requests) = mpsc::unbounded_channel();
    let arbitration = p4rt::MasterArbitrationUpdate {
        device_id: DEVICE,
        election_id: Some(election_id),
        ..Default::default()
    };
    let update = p4rt::stream_message_request::Update::Arbitration(arbitration);
    // The receiver is still here.
    let _ = sender.send(p4rt::StreamMessageRequest { update: Some(update) });
    let mut answers = client.stream_channel(UnboundedReceiverStream::new(requests)).await?.into_inner();
    let _ = answers.message().await?;
    Ok((sender, answers))
}

async fn push(client: &mut Client, config: Option<p4rt::ForwardingPipelineConfig>) -> Reply<()> {
    let action = p4rt::set_forwarding_pipeline_config_request::Action::ReconcileAndCommit;
    let request = p4rt::SetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        election_id: Some(HIGHEST),
        action: action.into(),
        config,
        ..Default::default()
    };
    client.set_forwarding_pipeline_config(request).await.map(drop)
}

/// Reads until the end, and counts the messages.
async fn read(client: &mut Client, entity: E, sent: &AtomicU64) -> Reply<()> {
    let entities = vec![p4rt::Entity { entity: Some(entity) }];
    let request = p4rt::ReadRequest { device_id: DEVICE, entities, ..Default::default() };
    let mut stream = client.read(request).await?.into_inner();
    while stream.message().await?.is_some() {
        sent.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// A wildcard for every kind of entity.
fn everything() -> Vec<E> {
    vec![
        E::RegisterEntry(p4rt::RegisterEntry::default()),
        E::TableEntry(p4rt::TableEntry::default()),
        E::CounterEntry(p4rt::CounterEntry::default()),
        E::MeterEntry(p4rt::MeterEntry::default()),
        E::DirectCounterEntry(p4rt::DirectCounterEntry {
            table_entry: Some(p4rt::TableEntry::default()),
            ..Default::default()
        }),
        E::DirectMeterEntry(p4rt::DirectMeterEntry {
            table_entry: Some(p4rt::TableEntry::default()),
            ..Default::default()
        }),
        E::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry {
            r#type: Some(Replication::MulticastGroupEntry(p4rt::MulticastGroupEntry::default())),
        }),
        E::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry {
            r#type: Some(Replication::CloneSessionEntry(p4rt::CloneSessionEntry::default())),
        }),
        E::ValueSetEntry(p4rt::ValueSetEntry::default()),
        E::DigestEntry(p4rt::DigestEntry::default()),
        E::ActionProfileMember(p4rt::ActionProfileMember::default()),
        E::ActionProfileGroup(p4rt::ActionProfileGroup::default()),
    ]
}

/// 100 updates of a table that does not exist.
fn bad_updates() -> p4rt::WriteRequest {
    let update = |number: u32| p4rt::Update {
        r#type: p4rt::update::Type::Insert.into(),
        entity: Some(p4rt::Entity {
            entity: Some(E::TableEntry(p4rt::TableEntry {
                table_id: 0x02ff_0000 + number,
                ..Default::default()
            })),
        }),
    };
    p4rt::WriteRequest {
        device_id: DEVICE,
        election_id: Some(HIGHEST),
        updates: (0..100).map(update).collect(),
        ..Default::default()
    }
}
