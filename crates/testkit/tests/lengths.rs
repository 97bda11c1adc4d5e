//! `packet_length` in egress: with the headers that ingress added and removed, on native code as on the interpreter.

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_testkit::compile::{compile_text, own_includes};
use pointsman_testkit::rig::Rig;
use pointsman_v1model::{Output, SwitchConfig};

/// The first byte of a packet says how many labels follow (bits 0 and 1), how many bytes of options behind them (bits 2 and 3), and what
/// ingress does: remove the labels (bit 4), the options (bit 5), add a tag (bit 6). Egress writes the length into the second byte.
const PROGRAM: &str = r"
#include <core.p4>
#include <v1model.p4>
header kind_t { bit<1> z; bit<1> tag; bit<1> no_options; bit<1> no_labels; bit<2> options; bit<2> labels; bit<8> length; }
header label_t { bit<24> n; }
header options_t { bit<8> first; varbit<24> rest; }
header a_t { bit<16> x; }
header b_t { bit<40> y; }
header_union tag_t { a_t a; b_t b; }
struct inner_t { tag_t tag; options_t options; }
struct headers_t { kind_t kind; label_t[3] labels; inner_t inner; }
struct metadata_t {}
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    bit<2> left;
    state start { p.extract(h.kind); left = h.kind.labels; transition labels; }
    state labels { transition select(left) { 0: options; default: label; } }
    state label { p.extract(h.labels.next); left = left - 1; transition labels; }
    state options { p.extract(h.inner.options, (bit<32>)h.kind.options * 8); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply {} }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (h.kind.no_labels == 1) { h.labels[0].setInvalid(); h.labels[1].setInvalid(); h.labels[2].setInvalid(); }
        if (h.kind.no_options == 1) { h.inner.options.setInvalid(); }
        if (h.kind.tag == 1) { h.inner.tag.b.setValid(); }
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { h.kind.length = s.packet_length[7:0]; }
}
control C(inout headers_t h, inout metadata_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

/// The packet that leaves.
fn pass<E: Executor>(rig: &mut Rig<E>, packet: &[u8]) -> Vec<u8> {
    match rig.send(0, packet).pop() {
        Some(Output::Port(1, bytes)) => bytes,
        other => panic!("{packet:02x?}: {other:?}"),
    }
}

#[test]
fn with_all_header_operations() {
    let program = compile_text("lengths.p4", PROGRAM, &[&own_includes()]).expect("a program");
    let config = SwitchConfig::default();
    let mut slow = Rig::<Interp>::on(program.clone(), config.clone()).expect("a switch");
    let mut fast = Rig::<Engine>::on(program, config).expect("a switch");
    for kind in 0..128u8 {
        let (labels, options) = (usize::from(kind & 3), usize::from(kind >> 2 & 3));
        let packet = [&[kind, 0][..], &vec![7; 3 * labels + 1 + options + 9]].concat();
        let expected = packet.len()
            - if kind & 16 != 0 { 3 * labels } else { 0 }
            - if kind & 32 != 0 { 1 + options } else { 0 }
            + if kind & 64 != 0 { 5 } else { 0 };
        let (first, second) = (pass(&mut slow, &packet), pass(&mut fast, &packet));
        assert_eq!(first, second, "{kind:08b}");
        assert_eq!((usize::from(first[1]), first.len()), (expected, expected), "{kind:08b}: {first:02x?}");
    }
}
