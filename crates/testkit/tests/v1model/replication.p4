// Copies: clone sessions with several replicas, a group and truncation, groups that name a port several times, truncate
// in ingress and egress, and the length that recirculated and truncated packets see.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  what;     // 1 clone in ingress, 2 multicast, 4 truncate in ingress, 8 truncate in egress, 10 recirculate,
                      // 20 clone in egress, 40 resubmit
    bit<8>  number;   // of the session or group
    bit<8>  length;   // to which it is cut
    bit<8>  type;     // egress: instance type
    bit<8>  rid;
    bit<16> bytes;    // packet_length in egress
    bit<8>  ingress;  // packet_length in ingress
    bit<8>  port;     // ingress_port as egress sees it
}

struct headers_t { h_t h; }
struct meta_t { }

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
        s.priority = 1;
        h.h.ingress = s.packet_length[7:0];
        if (s.instance_type == 0) {
            if (h.h.what[0:0] == 1) { clone(CloneType.I2E, (bit<32>) h.h.number); }
            if (h.h.what[1:1] == 1) { s.mcast_grp = (bit<16>) h.h.number; }
            if (h.h.what[2:2] == 1) { truncate((bit<32>) h.h.length); }
            if (h.h.what[6:6] == 1) { resubmit_preserving_field_list(0); }
        } else {
            s.egress_spec = 2;
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.h.type = s.instance_type[7:0];
        h.h.rid = s.egress_rid[7:0];
        h.h.bytes = s.packet_length[15:0];
        h.h.port = s.ingress_port[7:0];
        if (s.egress_port == 1 && s.instance_type == 0) {
            if (h.h.what[3:3] == 1) { truncate((bit<32>) h.h.length); }
            if (h.h.what[4:4] == 1) { recirculate_preserving_field_list(0); }
            if (h.h.what[5:5] == 1) { clone(CloneType.E2E, (bit<32>) h.h.number); }
        }
    }
}

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h.h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
