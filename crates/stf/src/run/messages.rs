//! What the switch reports to the control plane and to people: digests, messages, idle entries.

use super::{Runner, hex};
use crate::rig::RigError;
use pointsman_ir::Executor;
use pointsman_v1model::{BitBuffer, Digest, EventKind, IdleEntry};

/// Idle entries that are taken at a time.
const MAX_IDLE: usize = 4096;

impl<E: Executor> Runner<'_, E> {
    /// Keeps digests and messages, for the statements that expect them.
    pub fn take_messages(&mut self) {
        self.digests.extend(self.rig.switch.take_digests());
        self.events.extend(self.rig.switch.take_events().into_iter().map(|event| event.kind));
    }

    pub fn take_idle(&mut self) {
        let now = self.rig.now;
        self.idle.extend(self.rig.switch.take_idle(now, MAX_IDLE));
    }

    pub fn expect_digest(&mut self, line: usize, want: &[u8]) {
        match self.digests.pop_front().map(|digest| bytes(&digest)) {
            None => self.fail(line, "no digest".into()),
            Some(is) if is != want => {
                self.fail(line, format!("the digest is {}, not {}", hex(&is), hex(want)));
            }
            Some(_) => {}
        }
    }

    pub fn expect_log(&mut self, line: usize, want: &str) {
        match self.events.pop_front().map(text) {
            None => self.fail(line, "no message".into()),
            Some(is) if is != want => self.fail(line, format!("the message is: {is}")),
            Some(_) => {}
        }
    }

    /// Exactly these entries were idle since the last such statement.
    pub fn expect_idle(&mut self, line: usize, names: &[String]) -> Result<(), RigError> {
        self.take_idle();
        let is = std::mem::take(&mut self.idle);
        let fill = self.fill();
        let wanted = names.iter().map(|name| fill.named(name));
        let wanted = wanted.map(|named| named.map(|(table, handle)| IdleEntry { table, handle }));
        let wanted: Vec<IdleEntry> = wanted.collect::<Result<_, _>>()?;
        if is != wanted {
            let tables = &self.program().tables;
            let names: Vec<&str> = is.iter().map(|e| tables[e.table.index()].name.as_str()).collect();
            let what = if names.is_empty() { "no table".to_string() } else { names.join(", ") };
            self.fail(line, format!("idle are entries of: {what}"));
        }
        Ok(())
    }

    /// A test that expects digests or messages expects all of them.
    pub fn leftover(&mut self, digests: bool, messages: bool) {
        let left: Vec<String> = self.digests.drain(..).map(|d| hex(&bytes(&d))).collect();
        for digest in left.iter().filter(|_| digests) {
            self.fail(0, format!("an unexpected digest: {digest}"));
        }
        let left: Vec<String> = self.events.drain(..).map(text).collect();
        for message in left.iter().filter(|_| messages) {
            self.fail(0, format!("an unexpected message: {message}"));
        }
    }
}

/// The fields without gaps.
fn bytes(digest: &Digest) -> Vec<u8> {
    let mut buffer = BitBuffer::default();
    buffer.push_value(&digest.data);
    buffer.bytes().to_vec()
}

/// A message, where a false assertion names its file without the folder.
fn text(event: EventKind) -> String {
    let file = |place: &str| place.rsplit(['/', '\\']).next().unwrap_or_default().into();
    match event {
        EventKind::AssertFailed(Some(place)) => EventKind::AssertFailed(Some(file(&place))),
        EventKind::AssumeFailed(Some(place)) => EventKind::AssumeFailed(Some(file(&place))),
        other => other,
    }
    .to_string()
}
