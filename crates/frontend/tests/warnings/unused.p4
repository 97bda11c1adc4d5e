// Unused declarations.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> x;
}

struct headers_t {
    h_t h;
}

struct metadata_t {}

bit<8> helper(in bit<8> x, in bit<8> y) { //~ WARNING P0701 parameter `y`
    return x;
}

bit<8> forgotten(in bit<8> _x) { //~ WARNING P0701 function `forgotten`
    return 1;
}

bit<8> folded(in bit<8> x) {
    return x;
}

action nothing() {} //~ WARNING P0701 action `nothing`

control Unused(inout bit<8> x) { //~ WARNING P0701 control `Unused`
    apply {
        x = 1;
    }
}

parser P(packet_in b, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.h);
        transition accept;
    }

    state island { //~ WARNING P0703 state `island`
        transition start;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<8>>(4) idle; //~ WARNING P0701 instance `idle`
    register<bit<8>>(4) busy;
    bit<8> lonely; //~ WARNING P0701 variable `lonely`
    bit<8> _wanted;
    @noWarn("unused")
    bit<8> quiet;
    action set(bit<8> x, bit<8> y) { //~ WARNING P0701 action parameter `y`
        hdr.h.x = x;
    }
    action spare() {} //~ WARNING P0701 action `spare`
    table used {
        actions = {
            set;
            NoAction;
        }
        default_action = NoAction;
    }
    table unapplied { //~ WARNING P0701 table `unapplied`
        actions = {
            NoAction;
        }
    }
    @noWarn("unused")
    table silenced {
        actions = {
            NoAction;
        }
    }

    apply {
        bit<8> sized;
        bit<32> n = (bit<32>)sized.minSizeInBits();
        busy.write(n & 3, folded(1));
        hdr.h.x = helper(hdr.h.x, 1);
        used.apply();
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {}
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out b, in headers_t hdr) {
    apply {
        b.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
