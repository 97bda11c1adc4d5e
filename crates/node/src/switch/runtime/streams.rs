//! Stream channels of P4Runtime clients: what comes from them, and what waits for them.

use super::calls::client;
use super::{Core, Level, Order, Peer};
use pointsman_control::proto::p4rt;
use pointsman_control::{ConnId, Output, RpcError, Server};
use std::collections::VecDeque;
use tokio::sync::mpsc as stream;

/// Messages that may wait for a client that does not read them. More packets, digests and idle entries are dropped for
/// that client, which may miss them anyway; a client too far behind for other messages is disconnected.
const MAX_WAITING: usize = 1024;

/// Of these, kept free for messages that must not be lost.
const RESERVED: usize = 64;

/// A message on a stream channel.
pub type StreamItem = Result<p4rt::StreamMessageResponse, RpcError>;

/// The switch's end of a stream channel.
pub(super) struct Client {
    /// Its address.
    peer: Peer,
    items: stream::Sender<StreamItem>,
    /// Messages dropped since it last kept up.
    dropped: u64,
}

impl Core {
    /// A new stream channel; the receiver yields the server's messages.
    pub fn open_stream(&mut self, peer: Peer) -> (ConnId, stream::Receiver<StreamItem>) {
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        let (items, rx) = stream::channel(MAX_WAITING);
        self.streams.insert(conn, Client { peer, items, dropped: 0 });
        (conn, rx)
    }

    /// A message came on a stream channel. Returns whether the channel is still open. Messages that come after its end are
    /// dropped: an arbitration among them would register a client whose end is never reported.
    pub fn stream_message(&mut self, conn: ConnId, message: &p4rt::StreamMessageRequest) -> bool {
        if !self.streams.contains_key(&conn) {
            return false;
        }
        let leads =
            |server: &Server| server.standing(conn).filter(|(_, _, leads)| *leads).map(|(_, id, _)| id);
        let before = leads(&self.server);
        let outputs = self.server.stream_message(conn, message);
        if before != leads(&self.server)
            && let Some((role, id, true)) = self.server.standing(conn)
        {
            let peer = self.streams.get(&conn).and_then(|c| c.peer);
            let who = client(peer, role, id);
            self.deed(format!("{who} is now the primary"));
        }
        self.deliver(outputs);
        self.streams.contains_key(&conn)
    }

    /// A stream channel ended.
    pub fn close_stream(&mut self, conn: ConnId) {
        if self.streams.remove(&conn).is_some() {
            let outputs = self.server.connection_closed(conn);
            self.deliver(outputs);
        }
    }

    pub(super) fn deliver(&mut self, outputs: Vec<Output>) {
        let mut outputs = VecDeque::from(outputs);
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Send { conn, response } => {
                    if !self.send(conn, response) {
                        self.streams.remove(&conn);
                        self.tell(
                            Level::Warn,
                            "a P4Runtime client that does not read was disconnected".to_string(),
                        );
                        outputs.extend(self.server.connection_closed(conn));
                    }
                }
                Output::Close { conn, error } => {
                    if let Some(client) = self.streams.remove(&conn) {
                        // If there is no room, the stream just ends.
                        let _ = client.items.try_send(Err(error));
                    }
                }
                // To one worker, so that they stay in order. If it has ended, so does the switch.
                Output::PacketOut { packet } => {
                    let _ = self.workers.first().map(|line| line.order(Order::PacketOut(packet)));
                }
            }
        }
    }

    /// Sends or drops; `false` if the client is too far behind for a message that must not be lost.
    fn send(&mut self, conn: ConnId, response: p4rt::StreamMessageResponse) -> bool {
        use p4rt::stream_message_response::Update;
        // A disconnected client is reported by close_stream.
        let Some(client) = self.streams.get_mut(&conn) else { return true };
        let notice = matches!(
            response.update,
            Some(Update::Packet(_) | Update::Digest(_) | Update::IdleTimeoutNotification(_))
        );
        if notice && client.items.capacity() <= RESERVED {
            if client.dropped == 0 {
                let line = "dropping packets for a slow P4Runtime client".to_string();
                self.news.push((Level::Warn, line));
            }
            client.dropped += 1;
            return true;
        }
        if client.dropped > 0 && client.items.capacity() > MAX_WAITING / 2 {
            let line = format!("{} packets for a P4Runtime client were dropped", client.dropped);
            self.news.push((Level::Warn, line));
            client.dropped = 0;
        }
        !matches!(client.items.try_send(Ok(response)), Err(stream::error::TrySendError::Full(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::device::Texts;
    use crate::switch::runtime::Runtime;
    use crate::switch::wires::Wires;
    use pointsman_compile::executor::Choice;
    use pointsman_control::{Code, RoleKey, ServerConfig};
    use pointsman_v1model::{SwitchConfig, Time};

    fn arbitration(device_id: u64, low: u64) -> p4rt::StreamMessageRequest {
        let election_id = Some(p4rt::Uint128 { high: 0, low });
        let update = p4rt::MasterArbitrationUpdate { device_id, election_id, ..Default::default() };
        let update = Some(p4rt::stream_message_request::Update::Arbitration(update));
        p4rt::StreamMessageRequest { update }
    }

    fn runtime() -> Runtime {
        let wires = vec![Wires::new(Vec::new(), true).expect("a poller")];
        let (switch, server) = (SwitchConfig::default(), ServerConfig::default());
        Runtime::new(switch, Choice::Interp, server, Texts::default(), wires, Time::ZERO, Vec::new())
            .expect("valid settings")
    }

    #[test]
    fn a_closed_stream_takes_no_part_in_the_arbitration() {
        let core = &mut runtime().core;
        let primary = |core: &Core| core.server.primary(&RoleKey::default());
        // The switch closes the stream.
        let (refused, mut items) = core.open_stream(None);
        assert!(!core.stream_message(refused, &arbitration(77, 1)));
        assert!(!core.stream_message(refused, &arbitration(1, 2)));
        assert_eq!(primary(core), None);
        let Ok(Err(error)) = items.try_recv() else { panic!("no reason is given") };
        assert_eq!(error.code, Code::NotFound);
        assert!(items.try_recv().is_err());
        // The client closes it.
        let (left, _items) = core.open_stream(None);
        assert!(core.stream_message(left, &arbitration(1, 3)));
        assert_eq!(primary(core), Some(left));
        core.close_stream(left);
        assert!(!core.stream_message(left, &arbitration(1, 3)));
        assert_eq!(primary(core), None);
        let (next, _items) = core.open_stream(None);
        assert!(core.stream_message(next, &arbitration(1, 3)));
        assert_eq!(primary(core), Some(next));
    }
}
