//! P4Runtime calls, and their log lines.

use super::{Core, Level, Turn, compile_config};
use pointsman_control::proto::p4rt;
use pointsman_control::{ReadStep, Reading, RoleKey, RpcError, election_id};
use std::net::SocketAddr;
use tokio::sync::mpsc::Sender;

/// Parts of a read that are carried out before other jobs get their turn: about a millisecond of work.
const SLICES: usize = 8;

/// The answer to a read.
pub type ReadItem = Result<p4rt::ReadResponse, tonic::Status>;

/// The address of a client, if it has one.
pub type Peer = Option<SocketAddr>;

impl Core {
    /// Carries out a part of a read, as far as the channel has room; false at its end.
    pub fn read_on(&mut self, reading: &mut Reading, items: &Sender<ReadItem>) -> bool {
        let now = self.now();
        let sources = &self.sources;
        let compile = |text: &[u8]| compile_config(sources, text);
        let mut turn = Turn::new(&self.shared, &self.preparer, &compile, &self.cache);
        for _ in 0..SLICES {
            if items.is_closed() {
                return false;
            }
            if items.capacity() == 0 {
                return true;
            }
            match self.server.read_on(&mut turn, reading, now) {
                ReadStep::More => {}
                // There is room, or the client has disconnected.
                ReadStep::Message(message) => drop(items.try_send(Ok(message))),
                ReadStep::Done(status) => {
                    // Readable entities come first; errors end the stream ("Read RPC").
                    let _ = status.map_err(|e| items.try_send(Err(e.into())));
                    return false;
                }
            }
        }
        true
    }

    pub(super) fn deed(&mut self, line: String) {
        let line = self.audit.deed(self.now(), line);
        self.news.extend(line.map(|line| (Level::Info, line)));
    }

    /// A client was refused.
    pub fn refused(&mut self, line: String) {
        let line = self.audit.refused(self.now(), line);
        self.news.extend(line.map(|line| (Level::Warn, line)));
    }

    /// `Write`.
    ///
    /// # Errors
    /// As for [`pointsman_control::Server::write`].
    pub fn write(
        &mut self,
        peer: Peer,
        request: &p4rt::WriteRequest,
    ) -> Result<p4rt::WriteResponse, RpcError> {
        let result = self.control(|server, device, now| server.write(device, request, now));
        let updates = request.updates.len() as u64;
        let refused = match &result {
            Ok(_) => 0,
            Err(e) if e.details.is_empty() => updates,
            Err(e) => e.details.iter().filter(|d| d.canonical_code != 0).count() as u64,
        };
        #[allow(deprecated)]
        let role = RoleKey::new(&request.role, request.role_id);
        let who = client(peer, &role, request.election_id.as_ref().map(election_id));
        let line = self.audit.wrote(self.now(), &who, updates, refused);
        self.news.extend(line.map(|line| (Level::Info, line)));
        result
    }

    /// `SetForwardingPipelineConfig`.
    ///
    /// # Errors
    /// As for [`pointsman_control::Server::set_pipeline`].
    pub fn set_pipeline(
        &mut self,
        peer: Peer,
        request: &p4rt::SetForwardingPipelineConfigRequest,
    ) -> Result<p4rt::SetForwardingPipelineConfigResponse, RpcError> {
        let result = self.control(|server, device, now| server.set_pipeline(device, request, now));
        self.look_at_program();
        #[allow(deprecated)]
        let role = RoleKey::new(&request.role, request.role_id);
        let who = client(peer, &role, request.election_id.as_ref().map(election_id));
        let refused = result.as_ref().err().map(|e| {
            let why = e.message.lines().next().unwrap_or_default();
            format!(", refused: {why}")
        });
        let action = request.action().as_str_name();
        self.deed(format!("{who} set the pipeline ({action}){}", refused.unwrap_or_default()));
        result
    }
}

/// A client of P4Runtime as the log names it.
pub(super) fn client(peer: Peer, role: &RoleKey, id: Option<u128>) -> String {
    let peer = peer.map_or("a client".to_string(), |peer| peer.to_string());
    let id = id.map_or("no election id".to_string(), |id| format!("election id {id}"));
    format!("P4Runtime: {peer} ({role}, {id})")
}
