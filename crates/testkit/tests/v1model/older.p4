// Forms of earlier versions of v1model.p4 that programs still use. The first byte of a packet says what is done.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  what;
    bit<8>  kept;   // written by egress: what of the metadata came along
    bit<8>  type;   // instance type
    bit<16> sum;
}

struct headers_t { h_t h; }
struct inner_t { bit<4> a; bit<4> b; }
struct meta_t { inner_t inner; bit<8> other; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Checksum16() sum;
    action again() { resubmit({ m.inner.a, s.egress_rid }); }
    apply {
        s.egress_spec = 1;
        bit<8> seen = m.inner.a ++ m.inner.b;
        if (s.instance_type == 6) {
            // The second time: where it goes shows that standard metadata came along, too.
            h.h.kept = seen;
            h.h.type = s.egress_rid[7:0];
            s.egress_spec = 2;
        } else if (s.instance_type == 4) {
            h.h.kept = seen;
            h.h.type = 4;
            s.egress_spec = 3;
        } else {
            m.inner.a = 1;
            m.inner.b = 2;
            m.other = 3;
            switch (h.h.what) {
                1: { clone3(CloneType.I2E, 1, m.inner); }
                2: { clone3<tuple<bit<4>, standard_metadata_t>>(CloneType.I2E, 1, { m.inner.a, s }); }
                3: { again(); }
                4: { s.egress_rid = 0x55; again(); }
                5: { resubmit(m); }
                6: { clone3(CloneType.I2E, 1, { }); }
                7: { mark_to_drop(); }
                8: { h.h.sum = sum.get({ h.h.what, h.h.kept, h.h.type }); }
                9: { verify_checksum(true, { h.h.what, h.h.kept }, h.h.sum, HashAlgorithm.csum16); }
            }
            // What the fields hold at the end counts, not at the call.
            m.inner.a = 9;
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 1) {
            h.h.kept = m.inner.a ++ m.inner.b;
            h.h.type = m.other;
        } else if (h.h.what == 9) {
            h.h.type = (bit<8>) s.checksum_error;
        } else if (h.h.what == 10 && s.egress_port == 1) {
            m.inner.b = 7;
            // The headers are in the packet anyway.
            recirculate({ m.inner.b, h.h });
        } else if (h.h.what == 11 && s.egress_port == 1) {
            h.h.what = 0;
            recirculate(m.inner);
            clone3(CloneType.E2E, 1, { m.other, m.inner });
        } else if (s.instance_type == 2) {
            h.h.kept = m.inner.a ++ m.inner.b;
            h.h.type = m.other;
        }
    }
}

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h.h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
