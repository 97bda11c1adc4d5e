//! The paper on probes and PROMETHEE ("adaptive load balancing in P4"). Its measurements are of virtual machines that share one
//! laptop with switch and clients; none is repeated.

use super::figure::{Figure, Place};

/// In the paper's order.
pub const FIGURES: &[Figure] = &[
    table("probes-fig-5.2", "Throughput of servers by the frequency of probes", PROBES),
    table("probes-fig-5.3", "Mean throughput by the frequency of probes", PROBES),
    table("probes-fig-5.4", "Makespan by the frequency of probes", PROBES),
    table("probes-fig-5.5", "Response time by the number of clients", MACHINES),
    table("probes-fig-5.6", "Connections of servers by the number of clients", MACHINES),
    table("probes-fig-6.1", "Response time by the number of connections, PROMETHEE", MACHINES),
    table(
        "probes-fig-7.1",
        "Balancers compared: hash, round robin, probes, PROMETHEE",
        "virtual machines on one laptop, one run each; machines of a simulated rack send no probes, and its controller is told \
         no choice. The published program takes microseconds for nanoseconds, so that its probe time-out is 2.8 h, not 10 s; \
         its controller gives the rank of the first of two machines for the best one's number",
    ),
];

const PROBES: &str = "what saturates is the laptop's virtual network under answers of 5 MB, not a balancer; machines of a \
                      simulated rack send no probes";
const MACHINES: &str = "response times of virtual machines that share one laptop, without load; published without numbers that \
                        could be compared";

const fn table(id: &'static str, title: &'static str, why: &'static str) -> Figure {
    Figure {
        id,
        title,
        source: "paper on probes, chapters 5 to 7",
        place: Place::Nowhere(why),
        remarks: &[],
        claims: &[],
    }
}
