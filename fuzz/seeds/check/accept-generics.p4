// Type parameters, overloads, default values and aggregates (P4_16 sections 6.8, 7.2, 8.12, 8.26).
#include <v1model.p4>

struct pair<T, U> {
    T first;
    U second;
}

header tagged<T> {
    bit<8> tag;
    T value;
}

header_union either<T> {
    tagged<T> left;
    tagged<bit<64>> right;
}

typedef pair<bit<8>, bool> small;

header h_t {
    bit<8> a;
    bit<8> b;
}

struct headers_t {
    h_t h;
    tagged<bit<16>> t;
    either<bit<32>> e;
    h_t[3] stack;
}

struct inner_t {
    bit<8> x;
    int<16> y;
}

struct metadata_t {
    pair<small, bit<4>> p;
    inner_t i;
    tuple<bit<8>, bool> t;
}

const small START = { 5, true };
const inner_t DEFAULT = ...;
const tuple<bit<8>, inner_t> NESTED = { 1, { x = 2, ... } };
const list<pair<bit<8>, bit<8>>> LIST = { { 1, 2 }, { 3, 4 } };

T same<T>(in T x) {
    return x;
}

bit<8> add(in bit<8> a) {
    return a + 1;
}

bit<8> add(in bit<8> a, in bit<8> b) {
    return a + b;
}

bit<8> scale(in bit<8> a, in bit<8> by = 2, in bit<8> plus = 0) {
    return a * by + plus;
}

pair<U, T> swapped<T, U>(in pair<T, U> p) {
    return { p.second, p.first };
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action set(bit<8> x) {
        hdr.h.a = x;
    }

    action set_both(bit<8> x, bit<8> y) {
        hdr.h.a = x;
        hdr.h.b = y;
    }

    apply {
        meta.p = { START, 4w3 };
        meta.p.first = { second = meta.p.first.second, first = same(hdr.h.a) };
        meta.i = DEFAULT;
        meta.i = { x = NESTED[1].x, ... };
        meta.i = (inner_t){ 3, -4 };
        meta.i = same({ x = 1, y = 2 } == meta.i) ? meta.i : DEFAULT;
        meta.t = { hdr.h.a, true };
        hdr.h.a = meta.t[0] + add(3) + add(4, 5) + 0;
        hdr.h.a = add(a = 3, b = 4) + scale(3) + scale(3, 4) + scale(plus = 1, a = 2);
        pair<bool, bit<8>> q = swapped(START);
        pair<bool, bit<8>> r = swapped<bit<8>, bool>({ 3, false });
        hdr.t = { 1, 2 };
        hdr.t = { tag = 1, ... };
        hdr.t = ...;
        hdr.e.left = { 1, 2 };
        hdr.e = {#};
        hdr.stack = { { 1, 2 }, hdr.h, ... };
        hdr.stack = (h_t[3]){ { 1, 2 }, {#}, hdr.stack[0] };
        hdr.h = hdr.stack == { {#}, {#}, {#} } ? hdr.h : hdr.stack[hdr.h.a];
        set(1);
        set_both(1, 2);
        set_both(y = 3, x = 4);
        if (q == r && hdr.h == {#}) {
            hdr.h.setValid();
        }
        for (pair<bit<8>, bit<8>> p in LIST) {
            hdr.h.b = hdr.h.b + p.first * p.second;
        }
    }
}

#include "include/skeleton.p4"
