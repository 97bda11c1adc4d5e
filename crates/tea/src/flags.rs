//! Which flags go together.

use crate::{App, Args, Fault, Held, Move, Place};
use std::error::Error;

/// Servers of a table that moves.
const MOVING_SERVERS: u16 = 7;

impl Args {
    /// Where the table is to be.
    pub fn held(&self) -> Held {
        match (self.plain, self.nftables) {
            (_, true) => Held::Kernel,
            (true, false) => Held::Switch,
            (false, false) => Held::Servers,
        }
    }
}

/// Whether everything that is asked for can be done.
pub fn check(args: &Args) -> Result<(), Box<dyn Error>> {
    let has_servers = args.churn
        || args.adverse
        || args.memory.is_some()
        || args.ipv6
        || args.cache.is_some()
        || args.moves.is_some()
        || args.layout != Place::Ring;
    if args.held() != Held::Servers && (args.fault != Fault::None || has_servers) {
        let flag = if args.plain { "--plain" } else { "--nftables" };
        return Err(format!("{flag}: without TEA there are no memory servers and no controller; omit --fault, --move, --churn, --adverse, --memory, --ipv6, --cache and --layout").into());
    }
    if args.plain && args.app == App::Balancer {
        return Err("--plain: connections of the balancer that settle are in memory servers; omit --plain, or use another --app".into());
    }
    if args.nftables && args.pcap.is_some() {
        return Err(
            "--nftables: the frames of its ports are recorded by a switch, which is not there; omit --pcap"
                .into(),
        );
    }
    if args.fault == Fault::Congestion && args.ipv6 {
        return Err("--fault congestion: packets that fill the link are of IPv4, and go to the server's address; omit --ipv6".into());
    }
    if args.fault == Fault::Congestion && args.app != App::Lb {
        return Err("--fault congestion: only the load balancer forwards packets without a look-up, which fill the link; use --app lb".into());
    }
    check_move(args)
}

/// Whether the table can move as asked.
fn check_move(args: &Args) -> Result<(), Box<dyn Error>> {
    let Some(step) = args.moves else { return Ok(()) };
    let (most, least) = (MOVING_SERVERS, if step == Move::Lose { 3 } else { 2 });
    if matches!(step, Move::Drain | Move::Lose) && args.servers < least {
        return Err(
            format!("--move: a server less needs at least {least} of them; use --servers {least}").into()
        );
    }
    if args.servers > most {
        return Err(format!("--move: the switch has the queue pairs of the old and the new servers; use at most --servers {most}").into());
    }
    if step == Move::Lose && args.copies < 2 {
        return Err(
            "--move lose: without a copy in another server its entries are gone; omit --copies 1".into()
        );
    }
    match args.fault {
        Fault::None | Fault::Loss => Ok(()),
        _ => Err("--move: the fault is at the same time; use --fault none or --fault loss".into()),
    }
}
