// The fate of a packet after ingress and after egress. The first byte of a packet selects the program's actions.
#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<1> egress_drop;
    bit<1> recirculate;
    bit<1> egress_clone;
    bit<1> late_port;   // sets egress_spec after everything else
    bit<1> drop;
    bit<1> multicast;
    bit<1> resubmit;
    bit<1> clone;
    bit<8> ingress;     // ingress adds 1: shows how often it ran on this very packet
    bit<8> egress;      // egress writes instance type and kept metadata
    bit<8> rid;
    bit<8> both;        // egress writes what was kept of `both`
}

struct headers_t { op_t op; }

// Field lists may be numbers, constants or members of an enum.
enum bit<8> List { egress = 1, clone = 2 }
const bit<8> CLONE = 2;

struct meta_t {
    @field_list(1)    bit<4> kept;
    @field_list(List.egress, CLONE) bit<4> both;
    bit<8> lost;
}

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.op);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.op.ingress = h.op.ingress + 1;
        s.egress_spec = 1;
        if (s.instance_type == 6 || s.instance_type == 4) {
            // The second time round: leave by port 2.
            s.egress_spec = 2;
        } else {
            m.kept = 5;
            m.both = 6;
            m.lost = 7;
            if (h.op.clone == 1) { clone_preserving_field_list(CloneType.I2E, 1, List.clone); }
            if (h.op.resubmit == 1) { resubmit_preserving_field_list(1); }
            if (h.op.multicast == 1) { s.mcast_grp = 1; }
            if (h.op.drop == 1) { mark_to_drop(s); }
            if (h.op.late_port == 1) { s.egress_spec = 3; }
            m.both = 9; // field lists take the values at the end of the block
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.op.egress = s.instance_type[3:0] ++ (m.lost == 0 ? m.kept : 4w15);
        h.op.rid = s.egress_rid[7:0];
        h.op.both = (bit<8>) m.both;
        if (s.egress_port == 1 && s.instance_type == 0) {
            m.kept = 1;
            m.both = 2;
            if (h.op.egress_clone == 1) { clone_preserving_field_list(CloneType.E2E, 2, 1); }
            if (h.op.recirculate == 1) { recirculate_preserving_field_list(1); }
            if (h.op.egress_drop == 1) { mark_to_drop(s); }
        }
    }
}

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h.op); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
