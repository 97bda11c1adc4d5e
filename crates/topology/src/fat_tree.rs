//! Fat-trees of three tiers, made of switches with equally many ports (Al-Fares and others, A Scalable, Commodity Data Center Network
//! Architecture, SIGCOMM 2008).

use crate::leaf_spine::host_address;
use crate::{Builder, End, LAST_PORT, Line, Mistake, SwitchId, Topology};

/// A fat-tree: `k` pods of `k / 2` leaves and `k / 2` aggregation switches, each leaf with `k / 2` hosts, and `k * k / 4` cores. Leaves are
/// `leaf1`, `leaf2` and so on, pod by pod, aggregation switches `agg1`, cores `core1`, hosts `h1`. Ports that lead down come first. The
/// addresses are those of [`crate::LeafSpine`].
#[derive(Clone, Debug, PartialEq)]
pub struct FatTree {
    /// Ports of a switch: an even number.
    pub k: u32,
    /// Links between hosts and leaves.
    pub host_line: Line,
    /// Links between switches.
    pub fabric_line: Line,
}

impl FatTree {
    /// How many switches there are.
    pub fn switches(k: u64) -> u64 {
        (k * k).saturating_add(k * k / 4)
    }

    /// How many hosts there are.
    pub fn hosts(k: u64) -> u64 {
        k.saturating_mul(k * k / 4)
    }

    /// The topology.
    ///
    /// # Errors
    /// A switch would need more than [`LAST_PORT`] ports, or an odd number of them.
    pub fn build(&self) -> Result<Topology, Mistake> {
        let k = self.k;
        if k > u32::from(LAST_PORT) || !k.is_multiple_of(2) {
            return Err(Mistake::NoSuchPort(k));
        }
        let (half, mut b) = (k / 2, Builder::new());
        let mut row = |kind: &str, count: u32| -> Result<Vec<SwitchId>, Mistake> {
            (1..=count).map(|n| b.switch(&format!("{kind}{n}"), None)).collect()
        };
        let (leaves, aggs, cores) =
            (row("leaf", k * half)?, row("agg", k * half)?, row("core", half * half)?);
        let port = |n: u32| n as u16 + 1;
        for (n, leaf) in (0..).zip(&leaves) {
            for i in 0..half {
                let host = b.host(&format!("h{}", n * half + i + 1), host_address(n, i), None, None)?;
                let ends = [End::Host(host), End::Switch(*leaf, port(i))];
                b.link(None, ends, Some(self.host_line.bits_per_s), self.host_line)?;
            }
            let (pod, place) = (n / half, n % half);
            for i in 0..half {
                let agg = aggs[(pod * half + i) as usize];
                let ends = [End::Switch(*leaf, port(half + i)), End::Switch(agg, port(place))];
                b.link(None, ends, Some(self.fabric_line.bits_per_s), self.fabric_line)?;
            }
        }
        for (n, agg) in (0..).zip(&aggs) {
            let (pod, place) = (n / half, n % half);
            for i in 0..half {
                let core = cores[(place * half + i) as usize];
                let ends = [End::Switch(*agg, port(half + i)), End::Switch(core, port(pod))];
                b.link(None, ends, Some(self.fabric_line.bits_per_s), self.fabric_line)?;
            }
        }
        b.finish()
    }
}
