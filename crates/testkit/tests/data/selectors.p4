// A selector over fields of all kinds of widths, which are not whole bytes together.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  key;
    bit<8>  flow;
    bit<16> result;
}

enum bit<4> Kind { even = 3, odd = 12 }

struct headers_t { h_t h; }
struct meta_t { bit<70> half; bit<150> wide; Kind kind; bit<32> sum; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action_selector(HashAlgorithm.crc16, 16, 16) members;

    action set_out(bit<16> value) { h.h.result = value; }
    action nothing() { }

    table selected {
        key = {
            h.h.key: exact;
            h.h.flow[2:0]: selector @name("low");
            h.h.isValid(): selector @name("valid");
            m.wide: selector;
            m.kind: selector;
            h.h.flow[7:3]: selector @name("high");
            m.half: selector;
        }
        actions = { set_out; nothing; }
        implementation = members;
        default_action = nothing();
    }

    apply {
        s.egress_spec = 1;
        m.half = (bit<70>)h.h.flow << 61;
        m.wide = (bit<150>)h.h.flow << 97 | (bit<150>)h.h.key;
        m.kind = h.h.flow[0:0] == 0 ? Kind.even : Kind.odd;
        // Leaves ones where the selectors come to lie.
        hash(m.sum, HashAlgorithm.crc32, (bit<32>)0, { ~m.wide, ~m.half, ~m.wide, 6w63 }, (bit<32>)1000);
        selected.apply();
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h.h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
