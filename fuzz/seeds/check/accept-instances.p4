// Instantiation (P4_16 chapters 15 and 18) and names for the control plane.
#include <v1model.p4>

header h_t {
    bit<8> a;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    bit<8> n;
}

register<bit<8>>(4) common;

action uses_common(in bit<8> x) {
    .common.write(0, x);
}

bit<8> shifted(in bit<8> x, int by, string why) {
    return x << by;
}

void both(inout bit<8> a, in bit<8> b, out bit<8> c) {
    a = a + b;
    c = a;
}

bit<8> bump(inout bit<8> x) {
    x = x + 1;
    return x;
}

control Leaf(inout bit<8> x)(bit<8> step, register<bit<8>> shared) {
    register<bit<8>>((bit<32>)step + 1) own;

    action add(bit<8> data) {
        x = x + step + data;
    }

    @name("renamed")
    table t {
        key = {
            x: exact;
        }
        actions = {
            add;
            NoAction;
        }
        const entries = {
            step: add(step + 1);
        }
        size = (bit<32>)step * 16;
    }

    apply {
        bit<8> old;
        shared.read(old, 0);
        own.write(1, old);
        t.apply();
    }
}

control Middle(inout bit<8> x)(int width = 3, bool twice = true) {
    register<bit<8>>(8) mine;
    Leaf(1, common) first;
    Leaf(shared = mine, step = (bit<8>)width) second;

    apply {
        first.apply(x);
        if (twice) {
            second.apply(x);
        }
        x = x << width;
    }
}

control Plain(in bit<8> x, out bit<8> y) {
    @hidden
    table t {
        actions = {
            NoAction;
        }
    }

    apply {
        y = x;
        t.apply();
    }
}

control Passed(register<bit<8>> r, int times, inout bit<8> x) {
    apply {
        r.read(x, 0);
        x = x + times;
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Middle() defaults;
    Middle(twice = false) named;
    @name(".absolute")
    Passed() passed;

    apply {
        defaults.apply(hdr.h.a);
        named.apply(x = hdr.h.a);
        Plain.apply(hdr.h.a, meta.n);
        Plain.apply(hdr.h.a, _);
        passed.apply(common, 3, meta.n);
        passed.apply(common, 4, meta.n);
        uses_common(shifted(meta.n, 3, "three") + shifted(meta.n, 3, "three") + shifted(meta.n, 4, "four"));
        both(meta.n, bump(meta.n), hdr.h.a);
    }
}

#include "include/skeleton.p4"
