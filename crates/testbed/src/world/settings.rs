//! A switch's settings.

use super::{BUFFER, SECRET, START_NS, STORE, Setup, TestbedError, datagrams, refused};
use crate::program::App;
use pointsman_engine::Engine;
use pointsman_stf::Rig;
use pointsman_v1model::{CloneSession, Generator, QueueConfig, Replica, Time, Trigger};

/// The port of generated packets.
const GENERATOR: u32 = 68;
/// Cells of an array are 2 to the power of this.
const CELL_BITS: u16 = 6;
/// Bytes of a generated packet behind its header.
const REST: usize = 4;
/// The age from which on an answer is too late for the balancer, in microseconds.
const LATE_US: u32 = 1_000_000;

/// Of an application that is replicated by snapshots.
#[derive(Clone, Copy, Debug)]
pub struct Snapshots {
    /// Structures of the switch, as the program is compiled.
    pub places: u16,
    /// The time between two snapshots, in nanoseconds.
    pub period_ns: u64,
    /// The age of the last acknowledged one from which on packets end, in nanoseconds.
    pub bound_ns: u64,
}

impl Default for Snapshots {
    fn default() -> Self {
        Snapshots { places: 2, period_ns: 1_000_000, bound_ns: 1_000_000_000 }
    }
}

/// What happens to messages in addition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Share of the answers of stores that are lost.
    pub answers_lost: f64,
    /// Share of the messages between switches and stores that arrive twice.
    pub doubled: f64,
}

/// The balancer's clone session, with RedPlane or without.
pub(super) fn reset_session(rig: &mut Rig<Engine>, app: App) -> Result<(), TestbedError> {
    if app != App::Balancer {
        return Ok(());
    }
    let session =
        CloneSession { replicas: vec![Replica { port: 0, instance: 0 }], ..CloneSession::default() };
    rig.state().replication.insert_session(1, session).map_err(refused)
}

/// Gives a switch its part in the protocol: settings, and the buffer or the generator.
pub(super) fn configure(
    rig: &mut Rig<Engine>,
    setup: &Setup<'_>,
    n: usize,
    incarnation: u32,
) -> Result<(), TestbedError> {
    let Setup { build, resend_ns, renew_ns, buffer, snapshots, .. } = setup;
    let secret: String = SECRET.iter().map(|b| format!("{b:02x}")).collect();
    let has_snapshots = build.app == App::HeavyHitters;
    let last = if build.app == App::Balancer {
        format!("late={LATE_US}")
    } else if has_snapshots {
        format!("period={}, bound={}, strict=1", snapshots.period_ns, snapshots.bound_ns)
    } else {
        format!("renew={renew_ns}")
    };
    let ticks = if build.app == App::Balancer { "" } else { "ticks=1000, " };
    let [own, store] = datagrams::ends(build.ipv6, n);
    let settings = format!(
        "configure(switch_id={n}, incarnation={incarnation}, secret=0x{secret}, address={own}, store={store}, mac_src=0x02, mac_dst=0x04, \
         port={STORE}, {ticks}{last})",
    );
    rig.set_default("redplane_config", &settings).map_err(refused)?;
    if has_snapshots {
        let generator = Generator {
            trigger: Trigger::Period(*resend_ns),
            packets: snapshots.places << CELL_BITS,
            port: GENERATOR,
            header: true,
            template: vec![0; REST],
        };
        return rig.switch.set_generator(Time(START_NS), 1, Some(generator)).map_err(refused);
    }
    if build.app == App::Balancer {
        return Ok(());
    }
    let queue = QueueConfig { delay_ns: *resend_ns, depth_packets: *buffer, ..QueueConfig::default() };
    rig.switch.configure_queue(BUFFER, None, queue).map_err(refused)?;
    let replicas = vec![Replica { port: BUFFER, instance: 0 }];
    let session = CloneSession { replicas, ..CloneSession::default() };
    rig.state().replication.insert_session(100, session).map_err(refused)
}
