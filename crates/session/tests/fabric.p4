// What the reconciler is tested on: a table over an action selector, one with a default action, a constant one, and a meter.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> kind;
    bit<32> dst;
}

struct headers {
    h_t h;
}

struct meta {}

parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(hdr.h);
        transition accept;
    }
}

control V(inout headers hdr, inout meta m) { apply {} }

control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    action_selector(HashAlgorithm.crc16, 16, 16) paths;

    meter(16, MeterType.bytes) rates;

    action send(bit<9> port) { s.egress_spec = port; }
    action flood(bit<16> group) { s.mcast_grp = group; }
    action drop() { mark_to_drop(s); }

    table routes {
        key = {
            hdr.h.dst: lpm;
            hdr.h.kind: selector;
        }
        actions = { send; drop; NoAction; }
        implementation = paths;
    }
    table acl {
        key = { hdr.h.kind: ternary; }
        actions = { drop; flood; NoAction; }
        default_action = NoAction();
    }
    table reserved {
        key = { hdr.h.kind: exact; }
        actions = { drop; NoAction; }
        const default_action = NoAction();
        const entries = { 0xff: drop(); }
    }
    apply {
        bit<2> color;
        rates.execute_meter(0, color);
        routes.apply();
        acl.apply();
        reserved.apply();
    }
}

control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
