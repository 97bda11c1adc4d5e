// Times and depths of queues, as the program sees them.
#include <core.p4>
#include <v1model.p4>

header show_t {
    bit<8>  port;
    bit<8>  priority;
    bit<16> ingress_time;
    bit<16> enq_time;
    bit<16> enq_depth;
    bit<16> waited;
    bit<16> deq_depth;
    bit<16> egress_time;
    bit<16> length;
}

struct headers_t { show_t show; }
struct meta_t { }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.show);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = (bit<9>) h.show.port;
        s.priority = h.show.priority[2:0];
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.show.ingress_time = s.ingress_global_timestamp[15:0];
        h.show.enq_time = s.enq_timestamp[15:0];
        h.show.enq_depth = s.enq_qdepth[15:0];
        h.show.waited = s.deq_timedelta[15:0];
        h.show.deq_depth = s.deq_qdepth[15:0];
        h.show.egress_time = s.egress_global_timestamp[15:0];
        h.show.length = s.packet_length[15:0];
    }
}

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h.show); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
