// Signatures of blocks, and the types of parameters.
#include <v1model.p4>

struct headers_t {}
struct metadata_t {}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        transition accept;
    }
}

control I(inout headers_t hdr, in metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {}
}

action both(bit<8> a, in bit<8> b) {} //~ ERROR P0408 follows one without
action object(packet_in p) {} //~ ERROR P0408 extern object
action number(int x) {} //~ ERROR P0406 cannot have type `int`
extern void defaults(out bit<8> x = 1); //~ ERROR P0408 default value
extern void text(in string s); //~ ERROR P0408 has no direction
control G<T>(in T x) {
    apply {}
}
control UsesG(in bit<8> x) {
    G() g; //~ ERROR P0405 cannot be inferred
    apply {
        G.apply(x); //~ ERROR P0405 cannot be inferred
    }
}
package Q(in bit<8> x); //~ ERROR P0408 no direction

V1Switch(P(), V(), I(), I(), V(), D()) main; //~ ERROR P0401 the argument for `ig` must be
//~^ ERROR P0401 the argument for `eg` must be
