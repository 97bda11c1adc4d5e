//! Stream channels: packets, digests, errors, disconnection.

use super::*;
use crate::server::PacketInError;
use pb::stream_message_request::Update as Request;
use pb::stream_message_response::Update as Response;
use pointsman_ir::{Bits, Value};
use pointsman_v1model::Digest;

fn send(rig: &mut Rig, conn: ConnId, update: Request) -> Vec<Output> {
    rig.server.stream_message(conn, &pb::StreamMessageRequest { update: Some(update) })
}

fn metadata(values: &[(u32, &[u8])]) -> Vec<pb::PacketMetadata> {
    let one = |(id, v): &(u32, &[u8])| pb::PacketMetadata { metadata_id: *id, value: v.to_vec() };
    values.iter().map(one).collect()
}

fn packet_out(values: &[(u32, &[u8])]) -> Request {
    Request::Packet(pb::PacketOut { payload: vec![0xaa, 0xbb], metadata: metadata(values) })
}

/// The one error among the outputs.
fn error(out: Vec<Output>) -> (ConnId, pb::StreamError) {
    match out.as_slice() {
        [Output::Send { conn, response: pb::StreamMessageResponse { update: Some(Response::Error(e)) } }] => {
            (*conn, e.clone())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn packets_out() {
    let mut rig = Rig::new();
    // egress_port is 9 bits, then 7 hidden bits.
    let out = send(&mut rig, CLIENT, packet_out(&[(1, &[1, 2])]));
    assert_eq!(out, [Output::PacketOut { packet: vec![0x81, 0, 0xaa, 0xbb] }]);
    let mut check = |values: &[(u32, &[u8])], part: &str| {
        let (conn, e) = error(send(&mut rig, CLIENT, packet_out(values)));
        assert_eq!((conn, e.canonical_code), (CLIENT, Code::InvalidArgument.number()));
        assert!(e.message.contains(part), "{}", e.message);
        assert!(matches!(e.details, Some(pb::stream_error::Details::PacketOut(_))));
    };
    check(&[], "metadata egress_port: it is missing");
    check(&[(1, &[1]), (1, &[1])], "given twice");
    check(&[(1, &[1]), (2, &[1])], "no packet_out metadata with id 2");
    check(&[(1, &[2, 0])], "needs 10 bits");
    check(&[(1, &[])], "empty");
}

#[test]
fn packets_out_are_for_primaries_with_a_pipeline() {
    let mut rig = Rig::empty();
    let (_, e) = error(send(&mut rig, CLIENT, packet_out(&[(1, &[1])])));
    assert_eq!(e.canonical_code, Code::FailedPrecondition.number());
    rig.set_pipeline(PipelineAction::VerifyAndCommit, "main").expect("valid");
    for stranger in [ConnId(9), ConnId(2)] {
        let (conn, e) = error(send(&mut rig, stranger, packet_out(&[(1, &[1])])));
        assert_eq!((conn, e.canonical_code), (stranger, Code::PermissionDenied.number()));
        rig.arbitrate(ConnId(2), 0);
    }
}

#[test]
fn packets_in() {
    let mut rig = Rig::new();
    // ingress_port 9 bits, is_clone 1, hidden 7, why 7.
    let header: u32 = 0x102 << 15 | 1 << 14 | 0x55 << 7 | 0x7f;
    let mut packet = header.to_be_bytes()[1..].to_vec();
    packet.extend([1, 2, 3]);
    let update = Some(Response::Packet(pb::PacketIn {
        payload: vec![1, 2, 3],
        metadata: metadata(&[(1, &[1, 2]), (2, &[1]), (4, &[0x7f])]),
    }));
    let expected = Output::Send { conn: CLIENT, response: pb::StreamMessageResponse { update } };
    assert_eq!(rig.server.packet_in(&packet), Ok(vec![expected]));
    assert_eq!(rig.server.packet_in(&packet[..2]), Err(PacketInError::TooShort { have: 2, need: 3 }));
    rig.server.connection_closed(CLIENT);
    assert_eq!(rig.server.packet_in(&packet), Err(PacketInError::NoPrimary));
    assert_eq!(Rig::empty().server.packet_in(&packet), Err(PacketInError::NoPipeline));
}

fn learned(rig: &Rig, who: u32) -> Digest {
    let program = rig.device.state.as_ref().expect("a pipeline").program().clone();
    let (ty, _) = program
        .types
        .iter()
        .find(|(_, t)| matches!(t, pointsman_ir::Type::Struct(d) if d.name == "learn_t"))
        .expect("the fixture has it");
    let data = Value::Struct(vec![Value::Bits(Bits::new(9, 1)), Value::Bits(Bits::new(32, who.into()))]);
    Digest { time: rig.now, ty, data }
}

fn digest_entry(rig: &Rig, config: Option<pb::digest_entry::Config>) -> Entity {
    Entity::DigestEntry(pb::DigestEntry { digest_id: rig.id("learn_t"), config })
}

/// The lists among the outputs, as (list id, last bytes of the `who`s).
fn lists(out: Vec<Output>) -> Vec<(u64, Vec<u8>)> {
    let list = |o| match o {
        Output::Send {
            response: pb::StreamMessageResponse { update: Some(Response::Digest(d)) }, ..
        } => {
            assert_eq!(d.timestamp, 99);
            let who = |d: &pb::P4Data| match &d.data {
                Some(pb::p4_data::Data::Struct(s)) => match &s.members[1].data {
                    Some(pb::p4_data::Data::Bitstring(b)) => b[0],
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            (d.list_id, d.data.iter().map(who).collect())
        }
        other => panic!("{other:?}"),
    };
    out.into_iter().map(list).collect()
}

#[test]
fn digests_wait_for_company_and_are_not_repeated() {
    let mut rig = Rig::new();
    let now = rig.now;
    let send = |rig: &mut Rig, who: &[u32], at: u64| {
        let digests: Vec<Digest> = who.iter().map(|w| learned(rig, *w)).collect();
        lists(rig.server.digests(&digests, now.plus_ns(at), 99))
    };
    assert_eq!(send(&mut rig, &[1], 0), [], "not enabled");
    let config = pb::digest_entry::Config { max_timeout_ns: 100, max_list_size: 2, ack_timeout_ns: 1000 };
    rig.refused(Modify, digest_entry(&rig, Some(config)), Code::NotFound, "not enabled");
    rig.ok(Insert, digest_entry(&rig, Some(config)));
    rig.refused(Insert, digest_entry(&rig, Some(config)), Code::AlreadyExists, "already");
    assert_eq!(rig.read_ok(digest_entry(&rig, None)), [digest_entry(&rig, Some(config))]);
    assert_eq!(send(&mut rig, &[1, 1], 0), []);
    assert_eq!(send(&mut rig, &[2], 1), [(1, vec![1, 2])]);
    assert_eq!(send(&mut rig, &[1, 2], 2), [], "known until they are acknowledged");
    assert_eq!(send(&mut rig, &[3], 10), []);
    assert_eq!(rig.server.next_deadline(), Some(now.plus_ns(110)));
    assert_eq!(lists(rig.server.tick(now.plus_ns(109), 99)), []);
    assert_eq!(lists(rig.server.tick(now.plus_ns(110), 99)), [(2, vec![3])]);
    assert_eq!(rig.server.next_deadline(), None);
    let digest_id = rig.id("learn_t");
    let ack = |list_id| Request::DigestAck(pb::DigestListAck { digest_id, list_id });
    assert_eq!(super::streams::send(&mut rig, CLIENT, ack(1)), []);
    assert_eq!(send(&mut rig, &[1, 2, 3], 120), [(3, vec![1, 2])]);
    // The acknowledgement of list 2 never came.
    assert_eq!(send(&mut rig, &[3], 1109), []);
    assert_eq!(send(&mut rig, &[3, 4], 1110), [(4, vec![3, 4])]);
    rig.ok(Delete, digest_entry(&rig, None));
    assert_eq!(send(&mut rig, &[5, 6], 2000), []);
    rig.refused(Delete, digest_entry(&rig, None), Code::NotFound, "not enabled");
    let bad = pb::digest_entry::Config { max_list_size: -1, ..config };
    rig.refused(Insert, digest_entry(&rig, Some(bad)), Code::InvalidArgument, "max_list_size is -1");
}

#[test]
fn digests_without_delay() {
    let mut rig = Rig::new();
    rig.ok(Insert, digest_entry(&rig, None));
    let digests = [learned(&rig, 1), learned(&rig, 1)];
    assert_eq!(lists(rig.server.digests(&digests, rig.now, 99)), [(1, vec![1]), (2, vec![1])]);
    let unknown = Request::DigestAck(pb::DigestListAck { digest_id: 5, list_id: 1 });
    let (_, e) = error(send(&mut rig, CLIENT, unknown));
    assert_eq!(e.canonical_code, Code::InvalidArgument.number());
}

/// Without a client a digest is not sent, so it is not waiting for an acknowledgement.
#[test]
fn digests_that_no_client_gets_are_sent_to_the_next_one() {
    let mut rig = Rig::new();
    let hour = 3600 * 1_000_000_000;
    let config = pb::digest_entry::Config { max_timeout_ns: 0, max_list_size: 1, ack_timeout_ns: hour };
    rig.ok(Insert, digest_entry(&rig, Some(config)));
    let make = |rig: &mut Rig, who| {
        let digest = learned(rig, who);
        lists(rig.server.digests(&[digest], rig.now, 99))
    };
    assert_eq!(make(&mut rig, 1), [(1, vec![1])]);
    rig.server.connection_closed(CLIENT);
    assert_eq!(make(&mut rig, 2), []);
    rig.arbitrate(ConnId(2), 1);
    // List 2 was dropped; list 1 is not acknowledged.
    assert_eq!(make(&mut rig, 2), [(3, vec![2])]);
    assert_eq!(make(&mut rig, 1), []);
    // Nor do they count as waiting if their time comes without a client.
    rig.ok(
        Modify,
        digest_entry(&rig, Some(pb::digest_entry::Config { max_list_size: 9, max_timeout_ns: 5, ..config })),
    );
    assert_eq!(make(&mut rig, 3), []);
    rig.server.connection_closed(ConnId(2));
    rig.now = rig.now.plus_ns(5);
    assert_eq!(rig.server.tick(rig.now, 99), []);
    rig.arbitrate(ConnId(3), 1);
    assert_eq!(make(&mut rig, 3), []);
    rig.now = rig.now.plus_ns(5);
    assert_eq!(lists(rig.server.tick(rig.now, 99)), [(5, vec![3])]);
}

/// A shorter `max_list_size` also holds for the digests that wait already.
#[test]
fn digest_lists_become_shorter() {
    let mut rig = Rig::new();
    let now = rig.now;
    let config = pb::digest_entry::Config { max_timeout_ns: 100, max_list_size: 100, ack_timeout_ns: 0 };
    rig.ok(Insert, digest_entry(&rig, Some(config)));
    let digests: Vec<Digest> = (1..=5).map(|who| learned(&rig, who)).collect();
    assert_eq!(lists(rig.server.digests(&digests, now, 99)), []);
    assert_eq!(rig.server.next_deadline(), Some(now.plus_ns(100)));
    let shorter = Some(pb::digest_entry::Config { max_list_size: 2, ..config });
    rig.ok(Modify, digest_entry(&rig, shorter));
    assert_eq!(rig.server.next_deadline(), Some(now), "at once");
    assert_eq!(lists(rig.server.tick(now, 99)), [(1, vec![1, 2]), (2, vec![3, 4])]);
    // The last one waits for company, or for its time.
    assert_eq!(rig.server.next_deadline(), Some(now.plus_ns(100)));
    assert_eq!(lists(rig.server.tick(now.plus_ns(99), 99)), []);
    let one_more = [learned(&rig, 6)];
    assert_eq!(lists(rig.server.digests(&one_more, now.plus_ns(99), 99)), [(3, vec![5, 6])]);
    assert_eq!(rig.server.next_deadline(), None);
    // Lists of the next packet are not longer either.
    rig.ok(Modify, digest_entry(&rig, Some(config)));
    assert_eq!(lists(rig.server.digests(&digests[..3], now, 99)), []);
    rig.ok(Modify, digest_entry(&rig, shorter));
    assert_eq!(lists(rig.server.digests(&one_more, now, 99)), [(4, vec![1, 2]), (5, vec![3, 6])]);
}

#[test]
fn messages_that_mean_nothing() {
    let mut rig = Rig::new();
    let other = prost_types::Any { type_url: "x".into(), value: vec![] };
    let (_, e) = error(send(&mut rig, CLIENT, Request::Other(other)));
    assert_eq!(e.canonical_code, Code::Unimplemented.number());
    let (_, e) = error(rig.server.stream_message(CLIENT, &pb::StreamMessageRequest { update: None }));
    assert_eq!(e.canonical_code, Code::InvalidArgument.number());
}

#[test]
fn a_bad_arbitration_closes_the_stream() {
    let mut rig = Rig::empty();
    let bad = pb::MasterArbitrationUpdate { device_id: 7, ..Default::default() };
    let out = send(&mut rig, ConnId(2), Request::Arbitration(bad.clone()));
    assert!(
        matches!(&out[..], [Output::Close { conn: ConnId(2), error }] if error.code == Code::NotFound),
        "{out:?}"
    );
    // The primary's stream ends too: the backup is notified that the role has no primary now.
    rig.arbitrate(ConnId(3), 0);
    let out = send(&mut rig, CLIENT, Request::Arbitration(bad));
    let [Output::Send { conn: ConnId(3), response }, Output::Close { conn: CLIENT, .. }] = &out[..] else {
        panic!("{out:?}");
    };
    let Some(Response::Arbitration(update)) = &response.update else { panic!("{response:?}") };
    assert_eq!(update.status.as_ref().map(|s| s.code), Some(Code::NotFound.number()));
    assert_eq!(rig.server.primary(&RoleKey::default()), None);
}
