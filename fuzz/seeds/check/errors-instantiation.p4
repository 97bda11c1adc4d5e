// What only instantiation shows.
#include <v1model.p4>

header h_t {
    bit<8> a;
}

struct headers_t {
    h_t h;
}

struct metadata_t {}

control Inner(inout bit<8> x)(bit<8> size) {
    table t {
        actions = {
            NoAction;
        }
    }
    apply {
        x = x / size; //~ ERROR P0503 division by zero
        t.apply();
    }
}

control Outer(inout bit<8> x) {
    @name(".I.same")
    Inner(1) one;

    apply {
        one.apply(x);
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Inner(0) zero;
    Outer() outer;
    @name("same.t")
    table other { //~ ERROR P0509 `I.same.t`
        actions = {
            NoAction;
        }
    }

    apply {
        zero.apply(hdr.h.a);
        outer.apply(hdr.h.a);
        other.apply();
    }
}

#include "../accept/include/skeleton.p4"
