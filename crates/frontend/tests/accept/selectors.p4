// A selector needs no name: controllers do not see it.
#include <v1model.p4>

header h_t {
    bit<8> a;
}

control I(inout h_t h, inout standard_metadata_t standard_metadata) {
    action_selector(HashAlgorithm.crc16, 64, 10) members;

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    table routes {
        key = {
            h.a: exact;
            h.a ^ 3: selector;
            (bit<16>) h.a: selector;
        }
        actions = { forward; }
        implementation = members;
    }

    apply {
        routes.apply();
    }
}

control c(inout h_t h, inout standard_metadata_t s);
package p(c i);
p(I()) main;
