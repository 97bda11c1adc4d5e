//! Programs of others at the ends: hosts with the kernel's network stack in the place of the load.

use crate::bed::{Bed, FOUND, SENDER};
use crate::controller::{ForHosts, dram_bytes};
use crate::run::{end, fill};
use crate::{Held, Options};
use pointsman_lab::rack::Rack;
use pointsman_lab::{Error, Result};
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

/// The host at port 1 of the switch.
pub const INSIDE: &str = SENDER.0;
/// The host at port 2.
pub const OUTSIDE: &str = FOUND.0;

/// A switch with its memory servers, and hosts whose programs the caller runs.
pub struct Hosts<'a> {
    options: &'a Options,
    bed: Bed,
    tables: ForHosts,
}

impl<'a> Hosts<'a> {
    /// Starts switch and servers, with empty tables. Of the options those for load and faults have no effect.
    ///
    /// # Errors
    /// The kernel refuses what the rack needs, or a process does not start; or the table is in neither servers nor the switch.
    pub fn new(options: &'a Options) -> Result<Self> {
        if matches!(options.held, Held::Kernel | Held::Nowhere) {
            return Err(Error::new("hosts need a table in memory servers or in the switch"));
        }
        Ok(Hosts { options, bed: Bed::start(options, dram_bytes(options))?, tables: ForHosts::default() })
    }

    /// The rack: its hosts send everything to the switch.
    pub fn rack(&self) -> &Rack {
        &self.bed.rack
    }

    /// The table shall have this entry: a key and a value as the application has them.
    pub fn entry(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.tables.entries.push((key, value));
    }

    /// Packets with an entry that are to this address shall go to a host.
    ///
    /// # Errors
    /// The rack has no such host.
    pub fn route(&mut self, address: IpAddr, host: &str) -> Result<()> {
        let link = &self.bed.rack.host(host)?.link;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        self.tables.routes.push((self.options.app.prefix(address, bits), (link.port, link.mac)));
        Ok(())
    }

    /// Fills the tables, and calls `f` while the switch looks up entries. Returns its result, and how many READs the memory servers answered
    /// meanwhile.
    ///
    /// # Errors
    /// The tables cannot be filled, or a process ended.
    pub fn serve<T>(mut self, f: impl FnOnce(&Rack) -> T) -> Result<(T, u64)> {
        let reads = |bed: &Bed| -> Result<u64> { Ok(bed.reads()?.into_iter().flatten().sum()) };
        let (shared, controller) = fill(self.options, &self.bed, self.tables)?;
        let before = reads(&self.bed);
        let result = f(&self.bed.rack);
        let after = reads(&self.bed);
        shared.stop.store(true, Relaxed);
        end(controller)?;
        match self.bed.deaths().first() {
            Some(death) => Err(Error::new(death.clone())),
            None => Ok((result, after? - before?)),
        }
    }
}
