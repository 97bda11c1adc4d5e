//! Queue pairs of the switch that servers end, and that are set up again.

use super::Controller;
use super::setup::Share;
use pointsman_control::proto::p4rt;

impl Controller {
    /// The switch's entities for a queue pair; `region`: the key in its requests.
    fn pair(&self, number: u32, region: impl Fn(u32) -> u32) -> Vec<p4rt::Entity> {
        let (place, n) = Share::place(number);
        let entities = || {
            let (number, share) =
                self.memories.shares.iter().find(|(i, _)| Share::group(**i) as usize == place + 1)?;
            let start = self.table.as_ref()?.part(*number)?.start;
            let server = self.memories.servers.get(share.server)?;
            // All names were found when the switch was filled.
            self.switch.pair((server, share), (*number, n), region(server.memory.key), start).ok()
        };
        entities().unwrap_or_default()
    }

    /// A server shall end a queue pair: requests get a wrong key.
    pub(super) fn break_pair(&mut self) {
        let mut entities = self.pair(0, |key| !key);
        entities.truncate(1);
        self.switch.replace(entities);
    }

    /// Sets a queue pair up again that its server has ended. If the server does not answer, the next look finds it again.
    pub(super) fn revive(&mut self, number: u32) {
        let psn = self.random.below(1 << 24) as u32;
        if let Some(Ok(())) = self.memories.renew(number, psn) {
            let entities = self.pair(number, |key| key);
            self.switch.replace(entities);
            self.switch.let_serve(number);
            self.revived += 1;
        }
    }
}
