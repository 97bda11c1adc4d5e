//! Parsers: extraction, stacks, selection, errors.

use super::super::support::*;
use pointsman_ir::*;

/// A stack of 4-byte tags behind a 12-bit header, then a varbit option: nothing is aligned.
fn tags() -> (Builder, Frame) {
    let mut b = Builder::new();
    let (b1, b4, b8, b12, i19) = (b.bit(1), b.bit(4), b.bit(8), b.bit(12), b.int(19));
    let v = b.ty(Type::Varbit(40));
    let first = b.header("first_t", &[("kind", b4), ("len", b8)]);
    let tag = b.header("tag_t", &[("label", i19), ("last", b1), ("pad", b12)]);
    let option = b.header("option_t", &[("head", b4), ("body", v)]);
    let tags = b.stack(tag, 3);
    let headers = b.structure("headers_t", &[("first", first), ("tags", tags), ("option", option)]);
    let frame = b.frame(&[("out", "h", headers)], &[]);
    let body = vec![b.extract("h.first")];
    let (on, tag_kind, option_kind) = (b.rd("h.first.kind"), b.num(4, 1), b.num(4, 2));
    let to_next = Transition::Select {
        on: vec![on],
        cases: vec![
            case(vec![KeySet::Value(tag_kind)], StateRef::State(1)),
            case(vec![KeySet::Value(option_kind)], StateRef::State(2)),
            case(vec![KeySet::Range(b.num(4, 3), b.num(4, 5))], StateRef::Accept),
            case(vec![KeySet::Mask(b.num(4, 0xf), b.num(4, 0xc))], StateRef::Reject),
        ],
    };
    let start = state("start", body, to_next);
    let body = vec![b.extract("h.tags.next")];
    let (on, one) = (b.rd("h.tags.last.last"), b.num(1, 1));
    let more = Transition::Select {
        on: vec![on],
        cases: vec![
            case(vec![KeySet::Value(one)], StateRef::Accept),
            case(vec![KeySet::Any], StateRef::State(1)),
        ],
    };
    let tag = state("tag", body, more);
    let header = b.lv("h.option");
    let len = b.rd("h.first.len");
    let b32 = b.bit(32);
    let len = b.cast(len, b32);
    let option = state("option", vec![stmt(StmtKind::Extract { header, varbits: Some(len) })], accept());
    b.parser("p", frame.clone(), vec![start, tag, option]);
    (b, frame)
}

fn check(packet: &[u8], accepted: bool, error: &str, consumed_bits: usize) -> Rig {
    let (b, frame) = tags();
    let mut rig = Rig::new(&b, &frame);
    let error = b.error(error);
    assert_eq!(rig.parse(0, packet), ParseOutcome { accepted, error, consumed_bits });
    rig
}

#[test]
fn stack_of_unaligned_tags() {
    // first: 1, 0xab; tags: labels -2 and 5, the second is the last.
    let bits = Bits::new(12, 0x1ab)
        .concat(&Bits::zero(19).sub(&Bits::new(19, 2)))
        .concat(&Bits::new(13, 0x0abc))
        .concat(&Bits::new(19, 5))
        .concat(&Bits::new(13, 0x1def))
        .concat(&Bits::new(4, 0));
    let rig = check(&bits.to_be_bytes(), true, "NoError", 76);
    assert_eq!(rig.get(0, &[1, 0, 0]), (1 << 19) - 2);
    assert_eq!(rig.get(0, &[1, 0, 2]), 0xabc);
    assert_eq!(rig.get(0, &[1, 1, 0]), 5);
    assert_eq!(rig.get(0, &[1, 1, 1]), 1);
    let Value::Struct(h) = rig.value(0) else { panic!() };
    let Value::Stack { next, elems } = &h[1] else { panic!() };
    assert_eq!(*next, 2);
    let valid = |v: &Value| matches!(v, Value::Header { valid: true, .. });
    assert_eq!(elems.iter().map(valid).collect::<Vec<_>>(), [true, true, false]);
    assert!(!super::super::TRACES || rig.world.states() == [0, 1, 1]);
}

#[test]
fn errors_and_where_they_leave_the_packet() {
    check(&[0x1a], false, "PacketTooShort", 0);
    check(&[0x1a, 0xb0], false, "PacketTooShort", 12);
    // Four tags, none the last: the stack has three elements.
    check(&[0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], false, "StackOutOfBounds", 108);
    check(&[0x60, 0x00], false, "NoMatch", 12);
    // An explicit transition to reject sets no error.
    check(&[0xf0, 0x00], false, "NoError", 12);
    check(&[0x40, 0x00], true, "NoError", 12);
    // Varbit: 16 bits, then 1 bit, then more than the packet holds, then more than the field holds.
    let rig = check(&[0x21, 0x0a, 0xbc, 0xde], true, "NoError", 32);
    assert_eq!(rig.exec.get(&rig.slots, 0, &[2, 1]), Some(Bits::new(16, 0xbcde)));
    check(&[0x20, 0x1a, 0xbc, 0xde], false, "ParserInvalidArgument", 12);
    check(&[0x22, 0x0a, 0xbc, 0xde], false, "PacketTooShort", 12);
    check(&[0x23, 0x0a, 0xbc, 0xde, 1, 2, 3, 4, 5, 6], false, "HeaderTooShort", 12);
}

/// Headers extracted in order are emitted unchanged, whatever the packet.
#[test]
fn random_packets_round_trip() {
    let (mut b, frame) = tags();
    let deparser = b.frame(&[("in", "h", frame.params[0].ty)], &[]);
    let body = vec![stmt(StmtKind::Emit(b.rd("h")))];
    b.control("d", deparser, body);
    let mut rig = Rig::new(&b, &frame);
    let mut rng = Rng(1);
    let mut accepted = 0;
    for _ in 0..5000 {
        let mut packet = rng.packet(20);
        rig.emitted.clear();
        let outcome = rig.parse(0, &packet);
        rig.control(0);
        accepted += u32::from(outcome.accepted);
        let bits = outcome.consumed_bits;
        assert!(bits <= packet.len() * 8);
        packet.truncate(bits.div_ceil(8));
        if let (Some(last), Some(cut)) = (packet.last_mut(), (8 - bits % 8).checked_rem(8)) {
            *last &= 0xff << cut;
        }
        assert_eq!(rig.emitted, packet, "{outcome:?}");
    }
    assert!((300..4700).contains(&accepted), "{accepted} accepted: the packets are not varied enough");
}

/// A state that goes to itself without reading.
#[test]
fn endless_parser_times_out() {
    let mut b = Builder::new();
    let b8 = b.bit(8);
    let frame = b.frame(&[("inout", "n", b8)], &[]);
    let (n, one) = (b.rd("n"), b.num(8, 1));
    let next = b.bin(BinaryOp::Add, n, one);
    let body = vec![b.set("n", next)];
    b.parser("p", frame.clone(), vec![state("start", body, goto(0))]);
    let mut rig = Rig::new(&b, &frame);
    let outcome = rig.parse(0, &[]);
    assert_eq!((outcome.accepted, outcome.error), (false, b.error("ParserTimeout")));
    assert_eq!(rig.get(0, &[]), u128::from(super::super::MAX_TRANSITIONS % 256));
}
