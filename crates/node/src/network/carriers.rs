//! What switches say of their ports, over gNMI: P4Runtime does not say whether a port has a carrier.

use super::steer::Command;
use crate::controller::link;
use pointsman_control::proto::gnmi as pb;
use pointsman_fabric::Input;
use pointsman_topology::SwitchId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::StreamExt;
use tonic::transport::ClientTlsConfig;

/// Between two attempts to subscribe.
const RETRY: Duration = Duration::from_millis(400);

/// A switch to listen to.
#[derive(Clone, Debug)]
pub struct Listened {
    /// The switch.
    pub switch: SwitchId,
    /// Its gNMI address.
    pub address: String,
    /// The ports that it has to have.
    pub ports: watch::Receiver<Vec<u16>>,
    /// For switches that serve TLS.
    pub tls: Option<ClientTlsConfig>,
}

/// An interface: its port, and whether it has a carrier, as far as known.
type Interface = (Option<u16>, Option<bool>);

/// What a switch has said.
#[derive(Debug, Default)]
struct Ports {
    interfaces: BTreeMap<String, Interface>,
    /// What was passed on.
    known: BTreeMap<u16, bool>,
}

impl Ports {
    /// Takes one value.
    fn take(&mut self, update: &pb::Update) {
        let elem = update.path.iter().flat_map(|p| &p.elem);
        let steps: Vec<&pb::PathElem> = elem.collect();
        let [_, list, _, leaf] = steps[..] else { return };
        let Some(name) = list.key.get("name") else { return };
        let value = update.val.as_ref().and_then(|v| v.value.as_ref());
        let (port, up) = self.interfaces.entry(name.clone()).or_default();
        match (leaf.name.as_str(), value) {
            ("id", Some(pb::typed_value::Value::UintVal(n))) => *port = u16::try_from(*n).ok(),
            ("oper-status", Some(pb::typed_value::Value::StringVal(s))) => *up = Some(s == "UP"),
            _ => {}
        }
    }

    /// The ports that are not as they were. Those of `expected` that the switch does not have are down.
    fn changes(&mut self, expected: &[u16]) -> Vec<(u16, bool)> {
        let mut now: BTreeMap<u16, bool> = expected.iter().map(|port| (*port, false)).collect();
        now.extend(self.interfaces.values().filter_map(|(port, up)| Some(((*port)?, (*up)?))));
        now.retain(|port, up| self.known.insert(*port, *up) != Some(*up));
        now.into_iter().collect()
    }

    /// Those of `expected` that the switch does not have.
    fn missing(&self, expected: &[u16]) -> Vec<u16> {
        let has = |port: &u16| self.interfaces.values().any(|(p, _)| *p == Some(*port));
        expected.iter().copied().filter(|port| !has(port)).collect()
    }
}

/// Why a subscription ended.
enum End {
    /// No connection, or it is lost.
    Lost,
    /// The switch refuses.
    Refused(String),
    /// Nothing takes commands any more.
    Over,
}

/// Subscribes to the state of the ports: identifiers and carriers, when they change.
async fn subscribe(of: &Listened) -> Result<tonic::Streaming<pb::SubscribeResponse>, End> {
    let step = |name: &str| pb::PathElem { name: name.to_string(), ..Default::default() };
    let path = |leaf: &str| {
        let elem = ["interfaces", "interface", "state", leaf].map(step).to_vec();
        Some(pb::Path { elem, ..Default::default() })
    };
    let follow = |leaf: &str| pb::Subscription {
        path: path(leaf),
        mode: pb::SubscriptionMode::OnChange.into(),
        ..Default::default()
    };
    let list = pb::SubscriptionList {
        subscription: vec![follow("id"), follow("oper-status")],
        mode: pb::subscription_list::Mode::Stream.into(),
        encoding: pb::Encoding::Proto.into(),
        ..Default::default()
    };
    let request = pb::SubscribeRequest { request: Some(pb::subscribe_request::Request::Subscribe(list)) };
    let channel = link::channel(of.address.clone(), link::KEEPALIVE, of.tls.clone());
    let channel = channel.await.map_err(|_| End::Lost)?;
    // The stream stays open: some servers end the subscription with it.
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let answered = pb::g_nmi_client::GNmiClient::new(channel).subscribe(requests).await;
    answered.map(tonic::Response::into_inner).map_err(|status| refusal(&status))
}

fn refusal(status: &tonic::Status) -> End {
    match status.code() {
        tonic::Code::Unavailable | tonic::Code::Cancelled | tonic::Code::Unknown => End::Lost,
        _ => End::Refused(status.message().to_string()),
    }
}

/// Forwards the switch's messages until the stream ends.
async fn listen(
    of: &mut Listened,
    ports: &mut Ports,
    commands: &mpsc::UnboundedSender<Command>,
    first: &mut Option<oneshot::Sender<()>>,
    tell: &impl Fn(String),
) -> End {
    ports.interfaces.clear();
    let mut stream = match subscribe(of).await {
        Ok(stream) => stream,
        Err(end) => return end,
    };
    let mut synced = false;
    loop {
        let message = tokio::select! {
            message = stream.message() => message,
            Ok(()) = of.ports.changed() => Ok(Some(pb::SubscribeResponse::default())),
        };
        let expected = of.ports.borrow_and_update().clone();
        match message {
            Ok(Some(pb::SubscribeResponse { response: Some(response) })) => match response {
                pb::subscribe_response::Response::Update(n) => n.update.iter().for_each(|u| ports.take(u)),
                pb::subscribe_response::Response::SyncResponse(_) => {
                    synced = true;
                    for port in ports.missing(&expected) {
                        tell(format!("has no port {port}: start it with -i {port}@INTERFACE"));
                    }
                }
            },
            Ok(Some(_)) => {}
            Ok(None) => return End::Lost,
            Err(status) => return refusal(&status),
        }
        if !synced {
            continue;
        }
        for (port, up) in ports.changes(&expected) {
            let input = Input::Port { switch: of.switch, port, up };
            if commands.send(Command::Input(input)).is_err() {
                return End::Over;
            }
        }
        if let Some(first) = first.take() {
            // The controller may have begun without this.
            let _ = first.send(());
        }
    }
}

/// Listens to a switch for as long as commands are taken. Sends to `first` when its ports are known, or cannot be.
pub async fn follow(
    mut of: Listened,
    commands: mpsc::UnboundedSender<Command>,
    first: oneshot::Sender<()>,
    tell: impl Fn(String),
) {
    let (mut ports, mut first, mut told) = (Ports::default(), Some(first), String::new());
    while !commands.is_closed() {
        match listen(&mut of, &mut ports, &commands, &mut first, &tell).await {
            End::Over => return,
            End::Lost => {}
            End::Refused(why) if why != told => {
                tell(format!("does not say which ports are down, so all of them count as up: {why}"));
                told = why;
            }
            End::Refused(_) => {}
        }
        if let Some(first) = first.take() {
            let _ = first.send(());
        }
        tokio::time::sleep(RETRY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(interface: &str, leaf: &str, value: pb::typed_value::Value) -> pb::Update {
        let step = |name: &str| pb::PathElem { name: name.to_string(), ..Default::default() };
        let key = [("name".to_string(), interface.to_string())].into_iter().collect();
        let list = pb::PathElem { name: "interface".into(), key };
        let elem = vec![step("interfaces"), list, step("state"), step(leaf)];
        let val = Some(pb::TypedValue { value: Some(value) });
        pb::Update { path: Some(pb::Path { elem, ..Default::default() }), val, duplicates: 0 }
    }

    #[test]
    fn changes_are_passed_on_once() {
        use pb::typed_value::Value::{StringVal, UintVal};
        let mut ports = Ports::default();
        ports.take(&update("eth1", "id", UintVal(1)));
        ports.take(&update("eth1", "oper-status", StringVal("UP".into())));
        ports.take(&update("eth2", "oper-status", StringVal("UP".into())));
        assert_eq!((ports.missing(&[1, 3]), ports.changes(&[1, 3])), (vec![3], vec![(1, true), (3, false)]));
        // Only now is it known which port it is.
        ports.take(&update("eth2", "id", UintVal(3)));
        assert_eq!(ports.changes(&[1, 3]), [(3, true)]);
        ports.take(&update("eth1", "oper-status", StringVal("LOWER_LAYER_DOWN".into())));
        ports.take(&update("eth1", "id", StringVal("1".into())));
        ports.take(&update("eth1", "mtu", UintVal(1500)));
        assert_eq!(ports.changes(&[1, 3]), [(1, false)]);
        assert_eq!((ports.changes(&[1, 3]), ports.missing(&[1, 3])), (vec![], vec![]));
        ports.take(&pb::Update::default());
        ports.take(&update("eth1", "oper-status", StringVal("UP".into())));
        assert_eq!(ports.changes(&[1, 3]), [(1, true)]);
    }
}
