//! Counters of a switch: the fate of every packet.

use std::collections::BTreeMap;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        impl DropReason {
            /// Every reason, in order.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name),*];

            /// The name under which it is reported.
            pub fn name(self) -> &'static str {
                match self { $(DropReason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// `egress_spec` was the drop port after ingress.
    Ingress = "ingress";
    /// `egress_spec` was the drop port after egress.
    Egress = "egress";
    /// The egress queue was full.
    QueueFull = "queue_full";
    /// Too many received packets waited for ingress.
    InputFull = "input_full";
    /// Too many resubmitted or recirculated packets waited for ingress.
    RecirculationFull = "recirculation_full";
    /// Received longer than the configured maximum.
    TooLong = "too_long";
    /// Received on a port that the switch does not have.
    UnknownIngressPort = "unknown_ingress_port";
    /// Sent to a port that the switch does not have.
    UnknownEgressPort = "unknown_egress_port";
    /// Received while no program was loaded.
    NoPipeline = "no_pipeline";
    /// Multicast to a group that is not configured.
    UnknownMulticastGroup = "unknown_multicast_group";
    /// Multicast to a group without replicas.
    EmptyMulticastGroup = "empty_multicast_group";
    /// An `assert` or `assume` was false.
    AssertionFailed = "assertion_failed";
    /// The packet that it descends from had been cloned, resubmitted and recirculated too often:
    /// [`SwitchConfig::max_descendants`](crate::SwitchConfig::max_descendants).
    TooManyDescendants = "too_many_descendants";
    /// In the switch while its program was replaced, or its state restored.
    PipelineReplaced = "pipeline_replaced";
}

/// Counters of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped because an egress queue of this port was full.
    pub queue_full: u64,
    /// Packets in its egress queues now.
    pub queued: u64,
}

/// Counters of one egress queue. Packets that found it empty and its port free went past it, and do not count.
///
/// Packets are conserved: [`QueueCounts::enqueued`] = [`QueueCounts::dequeued`] + [`QueueCounts::waiting`], after every call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that came into it. Those that found it full are in [`PortStats::queue_full`].
    pub enqueued: u64,
    /// Packets that were taken out of it.
    pub dequeued: u64,
    /// Packets that are in it now, counted one by one.
    pub waiting: u64,
}

impl QueueCounts {
    /// Whether every packet that came in has left or is there.
    pub fn is_conserved(&self) -> bool {
        self.enqueued == self.dequeued + self.waiting
    }

    /// Adds those of another worker.
    pub(crate) fn add(&mut self, o: &QueueCounts) {
        self.enqueued += o.enqueued;
        self.dequeued += o.dequeued;
        self.waiting += o.waiting;
    }
}

/// Things that went wrong without deciding a packet's fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Register reads and writes out of range.
    pub register_index: u64,
    /// Counter indices out of range.
    pub counter_index: u64,
    /// Meter indices out of range.
    pub meter_index: u64,
    /// Clones to a session that is not configured.
    pub unknown_clone_session: u64,
    /// Digests lost because too many waited.
    pub digests_lost: u64,
    /// Events lost because too many waited.
    pub events_lost: u64,
    /// `random` with an empty range.
    pub empty_random_range: u64,
    /// Table entries whose action profile group had no member to choose.
    pub empty_group: u64,
}

/// Counters of a switch since it was made.
///
/// Packets are conserved: [`Stats::received`] + [`Stats::created`] = [`Stats::transmitted`] + [`Stats::to_cpu`] +
/// [`Stats::consumed`] + [`Stats::dropped`] + [`Stats::queued`], after every call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets received, from ports and from the control plane.
    pub received: u64,
    /// Of these, from the control plane.
    pub received_from_cpu: u64,
    /// Packets made by generators.
    pub generated: u64,
    /// Ingress clones made.
    pub ingress_clones: u64,
    /// Egress clones made.
    pub egress_clones: u64,
    /// Copies made by multicast; the first replica is the packet itself and does not count.
    pub replicas: u64,
    /// Packets sent on ports.
    pub transmitted: u64,
    /// Packets sent to the control plane.
    pub to_cpu: u64,
    /// Packets sent to [`SwitchConfig::consume_port`](crate::SwitchConfig::consume_port).
    pub consumed: u64,
    /// Packets resubmitted.
    pub resubmitted: u64,
    /// Packets recirculated.
    pub recirculated: u64,
    /// Packets in the switch now: in input, recirculation and egress queues.
    pub queued: u64,
    /// Times that a parser went to reject, by error name.
    pub parser_errors: BTreeMap<String, u64>,
    /// Packets dropped, by reason; reasons without drops are omitted.
    pub drops: BTreeMap<DropReason, u64>,
    /// Other faults.
    pub anomalies: Anomalies,
}

impl Anomalies {
    fn add(&mut self, o: &Anomalies) {
        let pairs = [
            (&mut self.register_index, o.register_index),
            (&mut self.counter_index, o.counter_index),
            (&mut self.meter_index, o.meter_index),
            (&mut self.unknown_clone_session, o.unknown_clone_session),
            (&mut self.digests_lost, o.digests_lost),
            (&mut self.events_lost, o.events_lost),
            (&mut self.empty_random_range, o.empty_random_range),
            (&mut self.empty_group, o.empty_group),
        ];
        pairs.into_iter().for_each(|(n, more)| *n += more);
    }
}

impl PortStats {
    /// Adds those of another worker.
    pub(crate) fn add(&mut self, o: &PortStats) {
        self.rx_packets += o.rx_packets;
        self.rx_bytes += o.rx_bytes;
        self.tx_packets += o.tx_packets;
        self.tx_bytes += o.tx_bytes;
        self.queue_full += o.queue_full;
        self.queued += o.queued;
    }
}

impl Stats {
    /// Adds those of another worker or switch.
    pub fn add(&mut self, o: &Stats) {
        let pairs = [
            (&mut self.received, o.received),
            (&mut self.received_from_cpu, o.received_from_cpu),
            (&mut self.generated, o.generated),
            (&mut self.ingress_clones, o.ingress_clones),
            (&mut self.egress_clones, o.egress_clones),
            (&mut self.replicas, o.replicas),
            (&mut self.transmitted, o.transmitted),
            (&mut self.to_cpu, o.to_cpu),
            (&mut self.consumed, o.consumed),
            (&mut self.resubmitted, o.resubmitted),
            (&mut self.recirculated, o.recirculated),
            (&mut self.queued, o.queued),
        ];
        pairs.into_iter().for_each(|(n, more)| *n += more);
        for (name, n) in &o.parser_errors {
            *self.parser_errors.entry(name.clone()).or_default() += n;
        }
        for (reason, n) in &o.drops {
            *self.drops.entry(*reason).or_default() += n;
        }
        self.anomalies.add(&o.anomalies);
    }

    /// Packets made inside the switch.
    pub fn created(&self) -> u64 {
        self.generated + self.ingress_clones + self.egress_clones + self.replicas
    }

    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Packets dropped for one reason.
    pub fn dropped_by(&self, reason: DropReason) -> u64 {
        self.drops.get(&reason).copied().unwrap_or(0)
    }

    /// Whether every packet has exactly one fate.
    pub fn is_conserved(&self) -> bool {
        let gone = self.transmitted + self.to_cpu + self.consumed + self.dropped();
        self.received + self.created() == gone + self.queued
    }
}
