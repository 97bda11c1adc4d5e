//! The handling of packets after ingress and after egress.

use crate::fake::{Block, Rig, Script, bits};
use crate::{
    CloneSession, DropReason, Keep, Output, PortRate, QueueConfig, Random, Replica, SwitchConfig, Time,
};
use pointsman_ir::Value;
use std::cell::RefCell;
use std::rc::Rc;

fn replica(port: u32, instance: u16) -> Replica {
    Replica { port, instance }
}

/// Ports 0 to 9, group 1 to ports 4 and 5, clone session 1 to port 6 and 2 to port 7 cut to 3 bytes.
fn rig_with(config: SwitchConfig, script: Script) -> Rig {
    let config = SwitchConfig { ports: Some((0..10).collect()), cpu_port: Some(10), ..config };
    let mut rig = Rig::new(config, script);
    let replication = &mut rig.switch.state_mut().unwrap().replication;
    replication.insert_group(1, vec![replica(4, 41), replica(5, 51)]).unwrap();
    replication.insert_group(2, vec![]).unwrap();
    let session = |port, truncate_bytes| CloneSession {
        replicas: vec![replica(port, 0)],
        truncate_bytes,
        ..Default::default()
    };
    replication.insert_session(1, session(6, 0)).unwrap();
    replication.insert_session(2, session(7, 3)).unwrap();
    rig
}

fn rig(script: Script) -> Rig {
    rig_with(SwitchConfig::default(), script)
}

fn ingress(code: impl Fn(&mut Block<'_>) + 'static) -> Script {
    Script { ingress: Rc::new(code), ..Script::default() }
}

fn egress(code: impl Fn(&mut Block<'_>) + 'static) -> Script {
    Script { egress: Rc::new(code), ..Script::default() }
}

/// One packet `0a0b0c0d` comes in on port 1; `expected` is the output.
fn check(script: Script, expected: &str) -> Rig {
    let mut rig = rig(script);
    rig.receive(100, 1, &[0x0a, 0x0b, 0x0c, 0x0d]);
    rig.run(1000);
    assert_eq!(rig.outputs(), expected);
    rig
}

fn dropped(rig: &mut Rig, reason: DropReason) -> u64 {
    rig.switch.stats().dropped_by(reason)
}

fn resubmit(b: &mut Block<'_>, list: u32) {
    b.call("resubmit_preserving_field_list", vec![bits(8, list)]);
}

fn recirculate(b: &mut Block<'_>, list: u32) {
    b.call("recirculate_preserving_field_list", vec![bits(8, list)]);
}

fn clone_preserving(b: &mut Block<'_>, session: u32, list: u32) {
    b.call("clone_preserving_field_list", vec![Value::Enum(0), bits(32, session), bits(8, list)]);
}

#[test]
fn unicast_and_drop() {
    check(Script::default(), "0:0a0b0c0d");
    check(ingress(|b| b.set_std("egress_spec", 3)), "3:0a0b0c0d");
    check(ingress(|b| b.set_std("egress_spec", 10)), "cpu:0a0b0c0d");
    let mut r = check(ingress(|b| b.drop()), "");
    assert_eq!(dropped(&mut r, DropReason::Ingress), 1);
    let mut r = check(ingress(|b| b.set_std("egress_spec", 511)), "");
    assert_eq!(dropped(&mut r, DropReason::Ingress), 1);
    let mut r = check(ingress(|b| drop(b.call("mark_to_drop", vec![]))), "");
    assert_eq!(dropped(&mut r, DropReason::Ingress), 1);
    // Dropping is a value, not a deed: later assignments count.
    let take_back = |b: &mut Block<'_>| {
        b.drop();
        b.set_std("egress_spec", 2);
    };
    check(ingress(take_back), "2:0a0b0c0d");
    let mut r = check(ingress(|b| b.set_std("egress_spec", 77)), "");
    assert_eq!(dropped(&mut r, DropReason::UnknownEgressPort), 1);
    let mut r = check(egress(|b| b.drop()), "");
    assert_eq!(dropped(&mut r, DropReason::Egress), 1);
    // Egress cannot choose another port.
    check(egress(|b| b.set_std("egress_spec", 5)), "0:0a0b0c0d");
}

#[test]
fn precedence_after_ingress() {
    let group = |b: &mut Block<'_>| b.set_std("mcast_grp", 1);
    check(ingress(group), "4:0a0b0c0d 5:0a0b0c0d");
    // mark_to_drop clears the group; a group that is set afterwards wins.
    let group_then_drop = move |b: &mut Block<'_>| {
        group(b);
        b.drop();
    };
    check(ingress(group_then_drop), "");
    let drop_then_group = move |b: &mut Block<'_>| {
        b.drop();
        group(b);
    };
    check(ingress(drop_then_group), "4:0a0b0c0d 5:0a0b0c0d");
    // The clone is made whatever happens to the packet, and holds the original packet.
    let clone_and_drop = |b: &mut Block<'_>| {
        b.set_h(0, 0xff);
        b.clone_to(1);
        b.drop();
    };
    check(ingress(clone_and_drop), "6:0a0b0c0d");
    // The last clone call counts.
    let twice = |b: &mut Block<'_>| {
        b.clone_to(1);
        b.clone_to(2);
        b.set_h(0, 0xff);
    };
    check(ingress(twice), "7:0a0b0c 0:ff0b0c0d");
    // Resubmission beats multicast and drop; the second time round the packet goes to port 3, unmodified.
    let all = move |b: &mut Block<'_>| {
        if b.std("instance_type") == 6 {
            return b.set_std("egress_spec", 3);
        }
        b.set_h(0, 0xff);
        b.clone_to(1);
        resubmit(b, 1);
        group(b);
        b.drop();
    };
    let r = &mut check(ingress(all), "6:0a0b0c0d 3:0a0b0c0d");
    assert_eq!(r.switch.stats().resubmitted, 1);
    let mut r = check(ingress(|b| b.set_std("mcast_grp", 9)), "");
    assert_eq!(dropped(&mut r, DropReason::UnknownMulticastGroup), 1);
    let mut r = check(ingress(|b| b.set_std("mcast_grp", 2)), "");
    assert_eq!(dropped(&mut r, DropReason::EmptyMulticastGroup), 1);
    let mut r = check(ingress(|b| b.clone_to(99)), "0:0a0b0c0d");
    assert_eq!(r.switch.stats().anomalies.unknown_clone_session, 1);
}

#[test]
fn precedence_after_egress() {
    let once = |b: &mut Block<'_>| b.std("instance_type") == 0;
    // The clone starts egress over with the headers as egress left them.
    let clone_and_drop = move |b: &mut Block<'_>| {
        if once(b) {
            b.set_h(0, 0xff);
            b.clone_to(1);
            b.drop();
        }
    };
    check(egress(clone_and_drop), "6:ff0b0c0d");
    // Drop beats recirculation.
    let drop_and_recirculate = |b: &mut Block<'_>| {
        recirculate(b, 1);
        b.drop();
    };
    check(egress(drop_and_recirculate), "");
    // Recirculation takes the packet as the deparser made it.
    let script = Script {
        ingress: Rc::new(|b| {
            if b.std("instance_type") == 4 {
                assert_eq!(b.get_h(0), 0xee);
                b.set_std("egress_spec", 2);
            }
        }),
        egress: Rc::new(move |b| {
            if b.std("egress_port") == 0 {
                b.set_h(0, 0xee);
                b.clone_to(1);
                recirculate(b, 1);
            }
        }),
        ..Script::default()
    };
    let r = &mut check(script, "6:ee0b0c0d 2:ee0b0c0d");
    assert_eq!((r.switch.stats().recirculated, r.switch.stats().egress_clones), (1, 1));
}

#[test]
fn field_lists_are_preserved() {
    let log: Rc<RefCell<Vec<(u64, u64, u64)>>> = Rc::default();
    let (note, log2) = (log.clone(), log.clone());
    let script = Script {
        ingress: Rc::new(move |b| {
            let seen = (b.std("instance_type"), b.get_meta(0), b.get_meta(1));
            note.borrow_mut().push(seen);
            if seen.0 == 0 {
                b.set_meta(0, 1);
                b.set_meta(1, 2);
                clone_preserving(b, 1, 1);
                resubmit(b, 1);
                // The values at the end of ingress count.
                b.set_meta(0, 3);
            }
        }),
        egress: Rc::new(move |b| {
            let seen = (b.std("instance_type"), b.get_meta(0), b.get_meta(1));
            log2.borrow_mut().push(seen);
            match seen.0 {
                1 => {
                    b.set_meta(0, 8);
                    clone_preserving(b, 2, 1);
                }
                0 if b.std("egress_port") == 0 => recirculate(b, 99),
                _ => {}
            }
        }),
        ..Script::default()
    };
    let mut rig = rig(script);
    rig.receive(0, 1, &[1, 2, 3, 4]);
    for _ in 0..8 {
        rig.switch.poll(Time::ZERO, 1, &mut rig.out);
    }
    assert_eq!(
        *log.borrow(),
        [
            (0, 0, 0), // ingress
            (1, 3, 0), // its clone in egress
            (2, 8, 0), // the clone of that
            (6, 3, 0), // resubmitted
            (0, 3, 0), // the same in egress
            (4, 0, 0), // recirculated, keeping nothing
            (0, 0, 0), // the same in egress
            (4, 0, 0),
        ]
    );
    // Headers inside metadata are preserved with their validity.
    let script = ingress(|b| {
        let header = Value::Header { valid: true, fields: vec![bits(8, 5), bits(8, 6)] };
        if b.std("instance_type") == 0 {
            *b.meta(2) = header;
            resubmit(b, 2);
        } else {
            assert_eq!(*b.meta(2), header);
            b.set_std("egress_spec", 9);
        }
    });
    check(script, "9:0a0b0c0d");
}

#[test]
fn ports_of_descendants() {
    // Clones, resubmitted and recirculated packets still know where and when they came in.
    let script = egress(|b| {
        assert_eq!((b.std("ingress_port"), b.std("ingress_global_timestamp")), (1, 100));
        assert_eq!(b.std("packet_length"), 4);
        if b.std("instance_type") == 0 {
            b.clone_to(1);
        }
    });
    check(script, "0:0a0b0c0d 6:0a0b0c0d");
}

#[test]
fn replicas_have_instances() {
    let script = Script {
        ingress: Rc::new(|b| b.set_std("mcast_grp", 1)),
        egress: Rc::new(|b| {
            let rid = b.std("egress_rid");
            assert_eq!(b.std("instance_type"), 5);
            assert_eq!(b.std("egress_port"), rid / 10);
            b.set_h(1, rid);
        }),
        ..Script::default()
    };
    let r = &mut check(script, "4:0a290c0d 5:0a330c0d");
    assert_eq!(r.switch.stats().replicas, 1);
}

#[test]
fn truncation() {
    let cut = |n| move |b: &mut Block<'_>| drop(b.call("truncate", vec![bits(32, n)]));
    check(ingress(cut(3)), "0:0a0b0c");
    check(egress(cut(1)), "0:0a");
    check(egress(cut(9)), "0:0a0b0c0d");
}

#[test]
fn short_packets_reach_ingress() {
    let mut r = rig(ingress(|b| {
        let error = b.std("parser_error");
        b.set_std("egress_spec", 1 + error);
    }));
    r.receive(0, 1, &[0x0a]);
    r.receive(0, 1, &[]);
    r.run(0);
    assert_eq!(r.outputs(), "2:0a 2:");
    assert_eq!(r.switch.stats().parser_errors["PacketTooShort"], 2);
}

#[test]
fn checksums_see_the_payload() {
    let data = |b: &mut Block<'_>| Value::Struct(vec![b.h(0).clone(), bits(8, 0)]);
    let script = Script {
        verify: Rc::new(move |b| {
            let args = |want| {
                vec![Value::Bool(true), Value::Struct(vec![bits(8, 1)]), bits(16, want), Value::Enum(2)]
            };
            b.call("verify_checksum", args(0xfeff));
            assert_eq!(b.std("checksum_error"), 0);
        }),
        ingress: Rc::new(|b| assert_eq!(b.std("checksum_error"), 0)),
        compute: Rc::new(move |b| {
            let args = vec![Value::Bool(true), data(b), bits(16, 0), Value::Enum(2)];
            let sum = b.call("update_checksum_with_payload", args)[2].to_bits().unwrap().low_u64();
            assert_eq!(sum, 0xffff - (0x0a00 + 0x0c0d));
            b.set_h(1, sum >> 8);
        }),
        ..Script::default()
    };
    check(script, "0:0ae90c0d");
    let wrong = Script {
        verify: Rc::new(|b| {
            let data = Value::Struct(vec![bits(8, 1)]);
            b.call("verify_checksum", vec![Value::Bool(false), data.clone(), bits(16, 1), Value::Enum(2)]);
            b.call("verify_checksum", vec![Value::Bool(true), data, bits(16, 1), Value::Enum(2)]);
        }),
        ingress: Rc::new(|b| assert_eq!(b.std("checksum_error"), 1)),
        ..Script::default()
    };
    check(wrong, "0:0a0b0c0d");
}

#[test]
fn hash_digest_log_assert() {
    let script = ingress(|b| {
        let data = || Value::Struct(b"123456789".iter().map(|c| bits(8, u32::from(*c))).collect());
        let mut hash = |base, max| {
            let args = vec![bits(32, 0), Value::Enum(0), bits(16, base), data(), bits(32, max)];
            b.call("hash", args)[0].to_bits().unwrap().low_u64()
        };
        assert_eq!(hash(0, u32::MAX), 0xcbf4_3926);
        assert_eq!(hash(7, 100), 7 + 0xcbf4_3926 % 100);
        assert_eq!(hash(7, 0), 7);
        b.call("digest", vec![bits(32, 0), bits(8, 9)]);
        b.call("log_msg", vec![Value::String("x is {}, {}".into()), bits(8, 9)]);
        b.call("assert", vec![Value::Bool(false)]);
        b.clone_to(1);
    });
    let mut r = check(script, "");
    assert_eq!(dropped(&mut r, DropReason::AssertionFailed), 1);
    let digests = r.switch.take_digests();
    assert_eq!((digests.len(), digests[0].data.clone()), (1, bits(8, 9)));
    let events = format!("{:?}", r.switch.take_events());
    assert!(events.contains("x is 9, {}") && events.contains("AssertFailed"), "{events}");
    assert!(r.switch.take_events().is_empty());
}

#[test]
fn recirculating_for_ever_leaves_room() {
    let script = Script {
        ingress: Rc::new(|b| {
            let spec = b.get_h(0);
            b.set_std("egress_spec", spec);
        }),
        egress: Rc::new(|b| {
            if b.std("egress_port") == 9 {
                recirculate(b, 1);
            }
        }),
        ..Script::default()
    };
    let mut r = rig(script);
    r.receive(0, 1, &[9, 0]);
    r.receive(0, 1, &[9, 1]);
    for i in 0..5 {
        r.receive(0, 1, &[2, i]);
    }
    let polled = r.switch.poll(Time::ZERO, 60, &mut r.out);
    assert_eq!((polled.passes, polled.more), (60, true));
    assert_eq!(r.outputs(), "2:0200 2:0201 2:0202 2:0203 2:0204");
    assert_eq!(r.switch.stats().queued, 2);
    assert!(r.switch.stats().is_conserved());
}

#[test]
fn queues_in_virtual_time() {
    let seen: Rc<RefCell<Vec<[u64; 5]>>> = Rc::default();
    let note = seen.clone();
    let script = egress(move |b| {
        let fields =
            ["enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth", "egress_global_timestamp"];
        note.borrow_mut().push(fields.map(|f| b.std(f)));
    });
    let mut r = rig(script);
    let slow = QueueConfig { depth_packets: 3, rate_pps: Some(1000), ..QueueConfig::default() };
    r.switch.configure_queue(0, None, slow).unwrap();
    for i in 0..5 {
        r.receive(100 + i, 1, &[1, i as u8]);
        r.run(100 + i);
    }
    // The first left at once; three wait; the fifth found the queue full.
    assert_eq!(r.outputs(), "0:0100");
    assert_eq!(r.switch.next_deadline(), Some(Time::from_micros(1100)));
    assert_eq!((r.switch.port_stats(0).queue_full, r.switch.port_stats(0).queued), (1, 3));
    r.run(2099);
    assert_eq!(r.outputs(), "0:0101");
    r.run(10_000);
    assert_eq!(r.outputs(), "0:0102 0:0103");
    assert_eq!(
        *seen.borrow(),
        [[100, 0, 0, 0, 100], [101, 0, 999, 2, 1100], [102, 1, 1998, 1, 2100], [103, 2, 2997, 0, 3100],]
    );
    assert_eq!(dropped(&mut r, DropReason::QueueFull), 1);
    assert_eq!(r.switch.next_deadline(), None);
}

/// Two bytes take 2 us at 8 Mbit/s.
#[test]
fn a_rate_in_bits_and_timestamps_in_nanoseconds() {
    let seen: Rc<RefCell<Vec<[u64; 4]>>> = Rc::default();
    let note = seen.clone();
    let script = egress(move |b| {
        let fields = ["ingress_global_timestamp", "enq_timestamp", "deq_timedelta", "enq_qdepth"];
        note.borrow_mut().push(fields.map(|f| b.std(f)));
    });
    let config = SwitchConfig { nanoseconds: true, clock_offset_us: 1, ..SwitchConfig::default() };
    let mut r = rig_with(config, script);
    r.switch
        .configure_port_rate(0, Some(PortRate { bits_per_s: 8_000_000, overhead_bytes: 0, burst_ns: 0 }))
        .unwrap();
    for i in 0..3 {
        r.receive(100, 1, &[1, i]);
    }
    r.run(101);
    assert_eq!(r.outputs(), "0:0100");
    r.run(103);
    assert_eq!(r.outputs(), "0:0101");
    assert_eq!(r.switch.next_deadline(), Some(Time::from_micros(104)));
    r.run(105);
    assert_eq!(r.outputs(), "0:0102");
    assert_eq!(
        *seen.borrow(),
        [[101_000, 101_000, 0, 0], [101_000, 101_000, 2_000, 0], [101_000, 101_000, 4_000, 1]]
    );
}

#[test]
fn priorities() {
    let config = SwitchConfig { queues_per_port: 3, queue_rate_pps: Some(1), ..SwitchConfig::default() };
    let script = ingress(|b| {
        let p = b.get_h(0);
        b.set_std("priority", p);
    });
    let mut r = rig_with(config, script);
    for p in [0, 0, 1, 1, 2, 2] {
        r.receive(0, 1, &[p, 0]);
    }
    // Ingress only: nothing may leave before all are queued.
    let _ = r.switch.poll(Time::ZERO, 12, &mut r.out);
    assert_eq!(r.outputs(), "0:0000 0:0100 0:0200");
    r.switch.poll(Time::from_millis(1000), 12, &mut r.out);
    assert_eq!(r.outputs(), "0:0200 0:0100 0:0000");
}

#[test]
fn refuses_packets_with_a_reason() {
    let config = SwitchConfig { max_packet_bytes: 4, input_depth_packets: 2, ..SwitchConfig::default() };
    let mut r = rig_with(config, Script::default());
    r.receive(0, 11, &[1, 2]);
    r.receive(0, 511, &[1, 2]);
    r.receive(0, 600, &[1, 2]);
    r.receive(0, 1, &[1, 2, 3, 4, 5]);
    (0..3).for_each(|_| r.receive(0, 1, &[1, 2]));
    r.switch.receive_cpu(Time::ZERO, &[1, 2]);
    let count = |r: &mut Rig| {
        [DropReason::UnknownIngressPort, DropReason::TooLong, DropReason::InputFull].map(|d| dropped(r, d))
    };
    assert_eq!(count(&mut r), [3, 1, 2]);
    r.run(0);
    assert_eq!(r.outputs(), "0:0102 0:0102");
    assert!(r.switch.remove_port(1) && !r.switch.remove_port(1));
    r.receive(0, 1, &[1, 2]);
    assert_eq!(count(&mut r), [4, 1, 2]);
    r.switch.add_port(20).unwrap();
    r.receive(0, 20, &[1, 2]);
    r.run(0);
    assert_eq!(r.outputs(), "0:0102");
}

#[test]
fn changing_the_program() {
    let mut r = Rig { switch: crate::Switch::new(SwitchConfig::default()).unwrap(), out: vec![] };
    r.receive(0, 1, &[1, 2]);
    assert_eq!(dropped(&mut r, DropReason::NoPipeline), 1);
    let mut r = rig(Script::default());
    let slow = QueueConfig { depth_packets: 64, rate_pps: Some(1), ..QueueConfig::default() };
    r.switch.configure_all_queues(slow).unwrap();
    (0..3).for_each(|_| r.receive(0, 1, &[1, 2]));
    r.run(0);
    r.receive(1, 1, &[3, 4]);
    assert_eq!(r.outputs(), "0:0102");
    r.load(ingress(|b| b.set_std("mcast_grp", 1)), Keep::Fitting);
    assert_eq!(dropped(&mut r, DropReason::PipelineReplaced), 2);
    // The packet that waited for ingress goes through the new program; groups are still there.
    r.run(1);
    assert_eq!(r.outputs(), "4:0304 5:0304");
    assert!(r.switch.stats().is_conserved());
}

#[test]
fn ports_must_fit() {
    let check = |config: SwitchConfig, port: &str| {
        let mut switch = crate::Switch::<crate::fake::Fake>::new(config).unwrap();
        let pipeline = crate::Pipeline::load(crate::fake::program()).unwrap();
        let e = switch.set_pipeline(Time::ZERO, pipeline, Keep::Nothing).unwrap_err();
        assert!(e.to_string().contains(port) && e.to_string().contains("9 bits"), "{e}");
    };
    check(SwitchConfig { drop_port: 512, ..SwitchConfig::default() }, "drop port 512");
    check(SwitchConfig { cpu_port: Some(600), ..SwitchConfig::default() }, "CPU port 600");
    check(SwitchConfig { ports: Some([1, 700].into()), ..SwitchConfig::default() }, "port 700");
}

#[test]
fn traces_follow_every_copy() {
    use crate::trace::{Origin, StepKind};
    let mut r = rig(ingress(|b| {
        b.clone_to(1);
        b.clone_to(2);
        b.set_std("mcast_grp", 1);
    }));
    r.receive(0, 1, &[1, 2]);
    r.run(0);
    assert!(r.switch.take_trace().is_empty(), "it was not traced");
    r.switch.set_tracing(true);
    r.receive(7, 1, &[1, 2]);
    r.receive(7, 600, &[1, 2]);
    r.run(7);
    let steps = r.switch.take_trace();
    assert!(steps.iter().all(|s| s.time == Time::from_micros(7)));
    let kept = |k: &StepKind| {
        let inside = matches!(k, StepKind::Begin(_) | StepKind::End { .. } | StepKind::Parsed { .. });
        !inside && !matches!(k, StepKind::Enqueued { .. } | StepKind::Dequeued { .. })
    };
    let told: Vec<_> = steps.iter().filter(|s| kept(&s.what)).map(|s| (s.thread, &s.what)).collect();
    let bytes = vec![1, 2];
    let sent = |port| StepKind::Sent { port, to_cpu: false, bytes: bytes.clone() };
    let copied = |origin| StepKind::Copied { parent: 1, origin };
    // The last clone call counts.
    let want = [
        (1, StepKind::Received { port: 1, bytes: bytes.clone() }),
        (2, StepKind::Received { port: 600, bytes: bytes.clone() }),
        (2, StepKind::Dropped(DropReason::UnknownIngressPort)),
        (3, copied(Origin::IngressClone(2))),
        (1, StepKind::Multicast { group: 1, copies: 2 }),
        (4, copied(Origin::Replica)),
    ];
    let want: Vec<_> = want.iter().map(|(t, s)| (*t, s)).collect();
    assert_eq!(told[..6], want[..6], "{told:#?}");
    let mut out: Vec<_> = told[6..].iter().map(|(t, s)| (*t, (*s).clone())).collect();
    out.sort_by_key(|(t, _)| *t);
    assert_eq!(out, [(1, sent(5)), (3, sent(7)), (4, sent(4))]);
    r.switch.set_tracing(false);
    r.receive(8, 1, &[1, 2]);
    r.run(8);
    assert!(r.switch.take_trace().is_empty());
}

/// Follows packets of port 1.
fn follow(rig: &mut Rig, left: u64, per_s: u32) {
    use crate::trace::Follow;
    let wants = std::sync::Arc::new(|port, _: &[u8]| port == 1);
    rig.switch.follow(Some(Follow { wants, left: std::sync::Arc::new(left.into()), per_s }));
}

/// The threads that begin in what was followed, and the packets that were skipped.
fn followed(rig: &mut Rig) -> Option<(Vec<u32>, u64)> {
    use crate::trace::StepKind;
    let followed = rig.switch.take_followed()?;
    let begins = |k: &StepKind| matches!(k, StepKind::Received { .. } | StepKind::Copied { .. });
    let threads = followed.steps.iter().filter(|s| begins(&s.what)).map(|s| s.thread);
    Some((threads.collect(), followed.skipped))
}

/// Copies of followed packets are followed, those of others are not, and nothing is followed beyond the limits.
#[test]
fn some_packets_are_followed() {
    let mut r = rig(ingress(|b| b.clone_to(1)));
    follow(&mut r, 3, 2);
    for us in [0, 1, 2] {
        r.receive(us, 2, &[9]);
        r.receive(us, 1, &[1, 2]);
    }
    assert!(followed(&mut r).is_none(), "they have not left");
    r.run(2);
    assert_eq!(followed(&mut r), Some((vec![1, 2, 3, 4], 1)));
    // Half a second allows one more.
    for us in [500_003, 500_004] {
        r.receive(us, 1, &[1, 2]);
        r.run(us);
    }
    assert_eq!(followed(&mut r), Some((vec![5, 6], 0)));
    assert!(r.switch.take_followed().is_none() && r.switch.core.trace.is_none(), "all were followed");
    assert_eq!(r.outputs().matches("6:0102").count(), 5);
}

/// Traces of two programs are not mixed.
#[test]
fn a_new_program_forgets_what_was_followed() {
    let mut r = rig(ingress(|b| b.set_std("egress_spec", 3)));
    follow(&mut r, 10, 10);
    r.receive(0, 1, &[1]);
    r.load(ingress(|b| b.set_std("egress_spec", 4)), Keep::Nothing);
    r.receive(1, 1, &[2]);
    r.run(1);
    assert_eq!(r.outputs(), "4:01 4:02");
    assert_eq!(followed(&mut r), Some((vec![2], 0)));
    r.switch.follow(None);
    r.receive(2, 1, &[3]);
    r.run(2);
    assert!(r.switch.take_followed().is_none());
}

/// For random programs of all kinds: each packet has one fate, and the same seed gives the same outputs.
#[test]
fn packets_are_conserved() {
    fn run(seed: u64) -> (Vec<Output>, u64, u64) {
        let random = Rc::new(RefCell::new(Random::new(seed)));
        let (r1, r2, mut feed) = (random.clone(), random, Random::new(seed ^ 1));
        let draw = |r: &RefCell<Random>, n: u64| r.borrow_mut().below(n);
        let script = Script {
            ingress: Rc::new(move |b| {
                b.set_std("egress_spec", draw(&r1, 12));
                match draw(&r1, 8) {
                    0 => b.drop(),
                    1 => b.set_std("mcast_grp", draw(&r1, 4)),
                    2 => resubmit(b, 1),
                    3 => drop(b.call("mark_to_drop", vec![])),
                    4 => drop(b.call("assert", vec![Value::Bool(false)])),
                    _ => {}
                }
                if draw(&r1, 3) == 0 {
                    b.clone_to(draw(&r1, 4) as u32);
                }
            }),
            egress: Rc::new(move |b| {
                match draw(&r2, 8) {
                    0 => b.drop(),
                    1 | 2 => recirculate(b, 1),
                    _ => {}
                }
                if draw(&r2, 3) == 0 {
                    b.clone_to(draw(&r2, 4) as u32);
                }
            }),
            ..Script::default()
        };
        let config = SwitchConfig {
            queue_depth_packets: 3,
            queue_rate_pps: Some(10_000),
            recirculation_depth_packets: 5,
            input_depth_packets: 20,
            ..SwitchConfig::default()
        };
        let mut rig = rig_with(config, script);
        for i in 0..2000u64 {
            let now = Time::from_micros(i * 37);
            for _ in 0..feed.below(3) {
                let data = vec![i as u8; feed.below(5) as usize];
                rig.switch.receive(now, feed.below(11) as u32, &data);
            }
            rig.switch.poll(now, 10, &mut rig.out);
            assert!(rig.switch.stats().is_conserved(), "{:?}", rig.switch.stats());
        }
        let stats = rig.switch.stats().clone();
        assert!(stats.drops.len() >= 7, "{:?}", stats.drops);
        assert!(stats.ingress_clones > 0 && stats.egress_clones > 0 && stats.replicas > 0);
        (rig.out, stats.received, stats.dropped())
    }
    assert!(run(1) == run(1));
    assert!(run(1) != run(2));
}
