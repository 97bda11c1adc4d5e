//! The byte forms of settings and of parts of the state.

use crate::coded::{Coded, Malformed, Reader, coded, coded_enum};
use crate::counter::CounterCell;
use crate::generator::{Generator, RunningImage, Trigger};
use crate::hash::{CrcParams, HashAlgorithm};
use crate::meter::{MeterConfig, MeterImage};
use crate::profile::{Group, GroupMember, OneShot, OneShotMember};
use crate::queue::{PaceImage, PortPaces, PortRate, PortSettings, QueueConfig, QueueSettings, SharedBuffer};
use crate::replication::{CloneSession, Replica};

coded! {
    CounterCell { packets, bytes }
    MeterConfig { cir, cburst, pir, pburst }
    MeterImage { buckets, marked }
    GroupMember { member, weight, watch_port }
    Group { members, max_size }
    OneShotMember { call, weight, watch_port }
    OneShot { members, algorithm, counts_members }
    Replica { port, instance }
    CloneSession { replicas, multicast_group, truncate_bytes, class_of_service }
    CrcParams { polynomial, initial, final_xor, reflect_input, reflect_output }
    QueueConfig { depth_packets, depth_bytes, rate_pps, delay_ns }
    PortRate { bits_per_s, overhead_bytes, burst_ns }
    SharedBuffer { bytes, threshold_percent }
    PortSettings { port, rate, queues }
    QueueSettings { priorities, default, buffer, ports }
    PaceImage { left_ns, remainder }
    PortPaces { port, own, queues }
    Generator { trigger, packets, port, header, template }
    RunningImage { number, generator, due, batch, down }
}

coded_enum!(HashAlgorithm, "hash algorithm":
    Crc32 = 0, Crc32Custom = 1, Crc16 = 2, Crc16Custom = 3, Random = 4, Identity = 5, Csum16 = 6, Xor16 = 7);

impl Coded for Trigger {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Trigger::Period(ns) => (0u8, *ns).put(out),
            Trigger::PortDown => out.push(1),
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match u8::take(from)? {
            0 => Ok(Trigger::Period(u64::take(from)?)),
            1 => Ok(Trigger::PortDown),
            _ => Err(Malformed::Unknown("trigger")),
        }
    }
}
