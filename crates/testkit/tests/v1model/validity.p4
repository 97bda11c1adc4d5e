// Headers that become valid start with zeros, whatever was there before: an earlier header of the same name, an earlier
// packet, or values written while the header was invalid.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> what;      // 1 all invalid, then valid; 2 push and pop; 4 the other member of the union; 8 written while
    bit<8> rounds;    // invalid; 10 valid again. How often the packet is still to be recirculated.
}
header a_t { bit<4> high; bit<12> low; varbit<16> rest; bit<8> last; }
header b_t { bit<32> b; }
header wide_t { bit<192> w; bool flag; int<7> i; }
header_union u_t { b_t x; a_t y; }

struct headers_t { h_t h; wide_t w; a_t a; b_t[3] s; b_t extra; }
struct meta_t { u_t u; @field_list(1) bit<8> round; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition select(s.instance_type) {
            0: first;
            default: accept;
        }
    }
    state first {
        b.extract(h.w);
        b.extract(h.a, 16);
        b.extract(h.s.next);
        b.extract(h.s.next);
        b.extract(h.s.next);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        b_t mine;
        mine.setValid();
        mine.b = h.s[0].b;
        if (h.h.what[0:0] == 1 || s.instance_type == 4) {
            h.w.setInvalid();
            h.a.setInvalid();
            h.s[0].setInvalid();
            mine.setInvalid();
        }
        if (h.h.what[1:1] == 1) {
            h.s.push_front(1);
            h.s.pop_front(2);
        }
        if (h.h.what[3:3] == 1) {
            h.a.low = 0xabc;
            h.a.last = 0xde;
            h.w.w = 1;
        }
        h.w.setValid();
        h.a.setValid();
        h.s[0].setValid();
        h.s[2].setValid();
        mine.setValid();
        if (h.h.what[4:4] == 1) {
            h.a.setValid();
            h.w.setValid();
        }
        if (h.h.what[2:2] == 1) {
            m.u.x.setValid();
            m.u.x.b = 0x01020304;
            m.u.y.setValid();
            m.u.x.setValid();
            mine = m.u.x;
        }
        h.extra = mine;
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (h.h.rounds != 0) {
            h.h.rounds = h.h.rounds - 1;
            h.w.setInvalid();
            h.a.setInvalid();
            recirculate_preserving_field_list(1);
        }
    }
}

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
