// Errors that only instantiation shows.
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

control Other(inout bit<8> x) {
    @name(".I.set")
    action set(bit<16> v) {
        x = (bit<8>)v;
    }
    table t {
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
    Inner(0) zero;
    Outer() outer;
    Other() other_control;
    action set(bit<8> v) { //~ ERROR P0509 actions have the control-plane name `I.set`
        hdr.h.a = v;
    }
    action twice(bit<8> v) {
        hdr.h.a = v;
    }
    @name("twice")
    action again(bit<8> v) { //~ ERROR P0509 actions have the control-plane name `I.twice`
        hdr.h.a = v;
    }
    table actions_of_one_name {
        actions = {
            set;
            twice;
            again;
            NoAction;
        }
    }
    @name("same.t")
    table other { //~ ERROR P0509 `I.same.t`
        actions = {
            NoAction;
        }
    }

    apply {
        zero.apply(hdr.h.a);
        outer.apply(hdr.h.a);
        other_control.apply(hdr.h.a);
        actions_of_one_name.apply();
        other.apply();
    }
}

#include "../accept/include/skeleton.p4"
