// States that go to themselves.
#include <core.p4>

header h_t {
    bit<8> x;
}

struct hs_t {
    h_t h;
    h_t[4] s;
}

parser P(packet_in b, out hs_t hdr, in bit<8> key) {
    bit<8> left = 3;
    state start {
        transition select(b.lookahead<bit<8>>()) {
            0: peeks;
            1: extracts;
            2: counts;
            3: advances;
            default: silent;
        }
    }
    state peeks { //~ WARNING P0708 `peeks` goes to itself
        transition select(b.lookahead<bit<8>>(), key) {
            (0, 1): peeks;
            default: accept;
        }
    }
    state extracts {
        b.extract(hdr.s.next);
        transition select(hdr.s.last.x) {
            0: extracts;
            default: accept;
        }
    }
    state counts {
        left = left - 1;
        transition select(left) {
            0: accept;
            default: counts;
        }
    }
    state advances {
        b.advance(8);
        transition select(key) {
            0: advances;
            default: accept;
        }
    }
    @noWarn("endless_loop")
    state silent {
        transition select(key) {
            0: silent;
            default: accept;
        }
    }
}

parser P_t(packet_in b, out hs_t hdr, in bit<8> key);
package top_t(P_t p);
top_t(P()) main;
