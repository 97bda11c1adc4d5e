//! What a run of the controller is for.

use crate::{App, Fault, Held, Move, Options, Place};
use pointsman_remote::Layout;
use pointsman_wire::Mac;

/// What the controller is to do.
#[derive(Clone)]
pub struct Plan {
    /// The application.
    pub app: App,
    /// P4Runtime.
    pub switch: String,
    /// Without TEA.
    pub plain: bool,
    /// Where packets wait.
    pub layout: Place,
    /// Memory servers.
    pub servers: usize,
    /// Copies of the entries.
    pub copies: u32,
    /// Flows from 0 on that have entries at the start.
    pub entries: u32,
    /// Whether entries change.
    pub churn: bool,
    /// How the table moves.
    pub moves: Option<Move>,
    /// Entries of the switch's cache; 0: it has none.
    pub cache: u32,
    /// Whether links to memory servers are slow, and ordinary packets are sent to the first one.
    pub is_slow: bool,
    /// Whether the switch asks memory servers over IPv6.
    pub ipv6: bool,
    /// Random numbers.
    pub seed: u64,
    /// What hosts without a load need.
    pub hosts: ForHosts,
}

/// What the tables have for hosts that are not the load's, besides its flows.
#[derive(Clone, Debug, Default)]
pub struct ForHosts {
    /// Entries: keys and values of the application.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Routes: first bits and how many, as the application has them; the port, and the MAC address behind it.
    pub routes: Vec<((u128, u32), (u16, Mac))>,
}

impl Plan {
    /// What options ask for, of the switch at this address of P4Runtime.
    pub fn new(options: &Options, switch: &str, hosts: ForHosts) -> Self {
        Plan {
            switch: switch.into(),
            app: options.app,
            plain: options.held == Held::Switch,
            layout: options.layout,
            servers: options.servers,
            copies: options.copies,
            entries: options.entries,
            churn: options.churn,
            moves: options.moves,
            cache: options.cache,
            is_slow: options.fault == Fault::Congestion,
            ipv6: options.ipv6,
            seed: options.seed,
            hosts,
        }
    }

    /// The layout of the servers' memory.
    pub fn table_layout(&self) -> Layout {
        self.app.layout(self.layout.scratchpads())
    }
}
