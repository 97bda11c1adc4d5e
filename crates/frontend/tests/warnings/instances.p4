// Control-plane names that actions share.
#include <v1model.p4>

header h_t {
    bit<8> a;
}

struct headers_t {
    h_t h;
}

struct metadata_t {}

control Inner(inout bit<8> x) {
    @name(".same")
    action set(bit<8> v) {
        x = v;
    }
    table t {
        key = {
            x: exact;
        }
        actions = {
            set;
            NoAction;
        }
    }
    apply {
        t.apply();
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Inner() inner;
    @name(".same")
    action set(bit<8> v) { //~ WARNING P0509 `same`
        hdr.h.a = v + 1;
    }
    table t {
        key = {
            hdr.h.a: exact;
            hdr.h.a: ternary; //~ WARNING P0509 two keys have the control-plane name `hdr.h.a`
        }
        actions = {
            set;
            NoAction;
        }
    }
    apply {
        t.apply();
        inner.apply(hdr.h.a);
    }
}

#include "../accept/include/skeleton.p4"
