//! The kernel in the switch's place: rules of nftables do what the program of an application does.

mod rules;

use crate::App;
use crate::controller::{Found, Shared};
use pointsman_lab::process::{Process, installed};
use pointsman_lab::rack::{Rack, SwitchPort};
use pointsman_lab::{Error, Namespace, Result};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Entries that one run of `nft` adds: their messages must fit the buffer of a socket of a user without privileges.
const BATCH: usize = 1000;
/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks for the end.
const TURN: Duration = Duration::from_millis(5);
const NEEDS: &str = "the kernel must have nf_tables with the hook ingress of the family netdev, and forwarding from there (CONFIG_NF_TABLES_NETDEV, CONFIG_NETFILTER_INGRESS, CONFIG_NFT_FWD_NETDEV)";

/// The program by which rules come into the kernel.
///
/// # Errors
/// It is not installed, or no rules can do what the application does.
pub fn program(app: App) -> Result<String> {
    if let Err(why) = rules::ruleset(app, 1, &[]) {
        let what = format!("--nftables: {why}, which --app {} needs", app.name());
        // The balancer has no plain program either.
        let instead = if app == App::Balancer { "" } else { "--plain, or " };
        return Err(Error::new(what).with_remedy(format!("use {instead}another application")));
    }
    found(installed("nft"))
}

fn found(program: Option<String>) -> Result<String> {
    let missing = || Error::new("--nftables: the program nft is not installed");
    program.ok_or_else(|| missing().with_remedy("to install it: apt install nftables"))
}

/// The kernel that is to have a table.
pub struct Kernel {
    nft: String,
    namespace: Namespace,
    ports: Vec<SwitchPort>,
    app: App,
    entries: u32,
}

impl Kernel {
    /// The kernel under the ports of a rack's switch, for an application with so many entries.
    pub fn new(nft: &str, rack: &Rack, (app, entries): (App, u32)) -> Self {
        let ports = rack.ports_of(0).cloned().collect();
        Kernel { nft: nft.into(), namespace: rack.switch.clone(), ports, app, entries }
    }

    /// Gives the kernel the rules and entries, and waits until the end.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub fn serve(self, shared: &Shared) -> Result<Found> {
        let rules = rules::ruleset(self.app, self.entries, &self.ports).map_err(Error::new)?;
        self.take(&rules).map_err(|e| e.with_remedy(NEEDS))?;
        for first in (0..self.entries).step_by(BATCH) {
            if shared.stop.load(Relaxed) {
                return Err(Error::new("the rules were not complete at the end"));
            }
            let end = self.entries.min(first + BATCH as u32);
            let elements = rules::elements(self.app, first..end);
            self.take(
                &elements
                    .ok_or_else(|| Error::new("a key or a value has not the length of the application's"))?,
            )?;
        }
        shared.ready.store(true, Relaxed);
        while !shared.stop.load(Relaxed) {
            std::thread::sleep(TURN);
        }
        Ok(Found { keys: self.app.keys(), entries: self.entries.into(), ..Found::default() })
    }

    fn take(&self, text: &str) -> Result<()> {
        Process::start(&self.namespace, &self.nft, &["-f", "-"], text)?.finish(PATIENCE).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_has_a_remedy() {
        assert!(found(None).is_err_and(|e| e.to_string().contains("apt install nftables")));
        let said = program(App::Vpn).map_err(|e| e.to_string());
        assert!(
            said.is_err_and(|e| e.contains("IP in IP")
                && e.contains("--app vpn")
                && e.contains("use --plain"))
        );
    }
}
