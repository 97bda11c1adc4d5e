// Action profile, action selector, every match kind, multicast to a selected group.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  key;
    bit<8>  flow;
    bit<16> result;
}

struct headers_t { h_t h; }
struct meta_t { bit<16> group; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action_selector(HashAlgorithm.identity, 16, 8) members;
    action_profile(4) profile;
    action_selector(HashAlgorithm.identity, 8, 8) shared;

    action set_out(bit<16> value) { h.h.result = value; }
    action nothing() { }
    action add(bit<16> value) { h.h.result = h.h.result + value; }

    table selected {
        key = {
            h.h.key: exact;
            h.h.flow: selector;
        }
        actions = { set_out; nothing; }
        implementation = members;
        default_action = nothing();
    }
    table profiled {
        key = { h.h.key: lpm; }
        actions = { set_out; nothing; }
        implementation = profile;
        size = 0; // the default size
    }
    // Tables that share a profile may list different actions.
    table first {
        key = {
            h.h.key: exact;
            h.h.flow: selector;
        }
        actions = { nothing; set_out; }
        implementation = shared;
        default_action = nothing();
    }
    table second {
        key = {
            h.h.key: exact;
            h.h.flow: selector;
        }
        actions = { add; set_out; }
        implementation = shared;
    }
    table matched {
        key = {
            h.h.key: ternary;
            h.h.flow: range;
            h.h.result: optional;
        }
        actions = { set_out; nothing; }
        const default_action = nothing();
        size = 3;
    }

    apply {
        s.egress_spec = 1;
        first.apply();
        second.apply();
        if (!selected.apply().hit) {
            if (!profiled.apply().hit) {
                matched.apply();
            }
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h.h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
