//! Warns of switches whose queues stay full, as they do when flooded packets go around a cycle.

use crate::network::Network;
use pointsman_console::say;
use pointsman_topology::SwitchId;
use std::sync::Arc;
use std::time::Duration;

/// How often switches are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Drops of a switch between two looks that count: more than a limited link loses in the exercises.
const MANY: u64 = 2000;
/// So many looks in a row make a storm.
const IN_A_ROW: u32 = 5;

/// For each switch, drops so far and looks in a row with many of them.
#[derive(Debug, Default)]
struct Watch(Vec<(u64, u32)>);

impl Watch {
    /// Takes the drops so far, by switch; the switches whose queues have become full for too long, with the drops since the last look.
    fn look(&mut self, drops: &[u64]) -> Vec<(usize, u64)> {
        self.0.resize(drops.len(), (0, 0));
        let mut out = Vec::new();
        for (i, ((before, row), now)) in self.0.iter_mut().zip(drops).enumerate() {
            let new = now.saturating_sub(*before);
            *row = if new >= MANY { *row + 1 } else { 0 };
            *before = *now;
            if *row == IN_A_ROW {
                out.push((i, new));
            }
        }
        out
    }
}

/// Warns until the network ends.
pub(crate) async fn warn(network: Arc<Network>) {
    let mut watch = Watch::default();
    loop {
        tokio::time::sleep(EVERY).await;
        for (switch, drops) in watch.look(&network.full_queues().await) {
            let name = network.plan.switch(SwitchId(switch as u32));
            say(&format!(
                "warning: {name}: its queues stay full, {drops} packets dropped in the last second: does a program flood packets around a \
                 cycle of links?"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_told_once() {
        let mut watch = Watch::default();
        let mut told = Vec::new();
        for second in 1..=12 {
            // A pause at second 4 begins the row again.
            let first = if second < 4 { second * MANY } else { (second - 1) * MANY };
            let found = watch.look(&[first, second * (MANY - 1)]);
            told.extend(found.into_iter().map(|(i, n)| (second, i, n)));
        }
        assert_eq!(told, [(9, 0, MANY)]);
    }
}
