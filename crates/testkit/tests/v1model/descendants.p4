// What clones, resubmitted and recirculated packets keep: headers in the user metadata, fields of a list, nothing else.
// Packets that are copied or sent round for ever come to an end.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> what;      // 1 clone in ingress, 2 in egress, 3 resubmit, 4 recirculate; f1 to f4: the same, for ever;
                      // f5: multicast and recirculate, for ever
    bit<8> session;
}

header x_t { bit<8> x; }
header y_t { bit<16> y; bit<8> z; }
header_union either_t { x_t x; y_t y; }

// What egress sees of the metadata: values of headers, or ff where they are invalid.
header seen_t {
    bit<8>  type;     // instance type
    bit<8>  inner;    // a header in a struct
    bit<8>  first;    // the elements of a stack
    bit<8>  second;
    bit<8>  either;   // the second header of a union
    bit<8>  plain;    // fields outside of headers
    bit<8>  listed;
}

struct inner_t { x_t x; bit<8> plain; }
struct headers_t { h_t h; seen_t seen; }
struct meta_t {
    inner_t           inner;
    x_t[2]            stack;
    either_t          either;
    @field_list(1)
    bit<8>            listed;
}

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (s.instance_type == 0) {
            m.inner.x.setValid();
            m.inner.x.x = 0x11;
            m.stack[1].setValid();
            m.stack[1].x = 0x22;
            m.either.y.setValid();
            m.either.y.z = 0x33;
            m.inner.plain = 0x44;
            m.listed = 0x55;
            if (h.h.what == 1) { clone_preserving_field_list(CloneType.I2E, (bit<32>) h.h.session, 1); }
            if (h.h.what == 3) { resubmit_preserving_field_list(1); }
        }
        if (h.h.what == 0xf1) { clone(CloneType.I2E, (bit<32>) h.h.session); }
        if (h.h.what == 0xf3) { resubmit_preserving_field_list(1); }
        if (h.h.what == 0xf5) { s.mcast_grp = 1; }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.seen.setValid();
        h.seen.type = s.instance_type[7:0];
        h.seen.inner = m.inner.x.isValid() ? m.inner.x.x : 8w0xff;
        h.seen.first = m.stack[0].isValid() ? m.stack[0].x : 8w0xff;
        h.seen.second = m.stack[1].isValid() ? m.stack[1].x : 8w0xff;
        h.seen.either = m.either.y.isValid() ? m.either.y.z : 8w0xff;
        h.seen.plain = m.inner.plain;
        h.seen.listed = m.listed;
        if (h.h.what == 2 && s.instance_type == 0) {
            clone_preserving_field_list(CloneType.E2E, (bit<32>) h.h.session, 1);
        }
        if (h.h.what == 4 && m.inner.x.isValid()) {
            h.seen.setInvalid();
            recirculate_preserving_field_list(1);
        }
        if (h.h.what == 0xf2) { clone(CloneType.E2E, (bit<32>) h.h.session); }
        if (h.h.what == 0xf1 || h.h.what == 0xf4 || h.h.what == 0xf5) {
            h.seen.setInvalid();
            recirculate_preserving_field_list(1);
        }
    }
}

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
