// Every hash algorithm over data of odd widths, and hash() with base and max.
#include <core.p4>
#include <v1model.p4>

header in_t {
    bit<8>  what;
    bit<4>  a;
    int<9>  b;
    bit<3>  c;
    bit<48> d;
    bit<8>  n;
}
header tail_t { varbit<64> v; }
header out_t { bit<64> result; }

struct headers_t { in_t i; tail_t t; out_t o; }
struct meta_t { bit<64> x; }
struct data_t { bit<4> a; int<9> b; bit<3> c; bit<48> d; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.i);
        b.extract(h.t, (bit<32>) h.i.n * 8);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        data_t data = { h.i.a, h.i.b, h.i.c, h.i.d };
        bit<64> r = 0;
        bit<8> narrow = 0;
        bit<128> wide = 0;
        const bit<64> ALL = 0xffffffffffffffff;
        switch (h.i.what) {
            0: { hash(r, HashAlgorithm.crc32, 64w0, data, ALL); }
            1: { hash(r, HashAlgorithm.crc32_custom, 64w0, data, ALL); }
            2: { hash(r, HashAlgorithm.crc16, 64w0, { h.i.a, h.i.b, h.i.c, h.i.d }, ALL); }
            3: { hash(r, HashAlgorithm.crc16_custom, 64w0, data, ALL); }
            4: { hash(r, HashAlgorithm.identity, 64w0, data, ALL); }
            5: { hash(r, HashAlgorithm.csum16, 64w0, data, ALL); }
            6: { hash(r, HashAlgorithm.xor16, 64w0, data, ALL); }
            // Variable length; the last byte is filled with zeros.
            7: { hash(r, HashAlgorithm.crc32, 64w0, { h.i.a, h.t.v, 1w1 }, ALL); }
            // A whole header.
            8: { hash(r, HashAlgorithm.crc16, 64w0, { h.i, h.t }, ALL); }
            // Base and max: of other widths, at run time, and results that do not fit.
            9: { hash(r, HashAlgorithm.crc32, h.i.d, data, h.i.n); }
            10: { hash(narrow, HashAlgorithm.crc16, 16w0x1f0, data, 8w200); r = (bit<64>) narrow; }
            11: { hash(narrow, HashAlgorithm.crc16, 4w9, data, 1w0); r = (bit<64>) narrow; }
            12: { hash(r, HashAlgorithm.crc32, 8w255, data, 1w1); }
            13: {
                hash(wide, HashAlgorithm.crc32, 128w1 << 100, data, 128w1 << 90);
                r = wide[127:64] | wide[63:0];
            }
            // A random number below max.
            14: { hash(r, HashAlgorithm.random, 64w10, data, 64w3); r = r >= 10 && r < 13 ? 64w1 : 64w0; }
            // Nothing at all.
            15: { hash(r, HashAlgorithm.crc32, 64w1, { }, ALL); }
        }
        h.o.setValid();
        h.o.result = r;
        h.i.setInvalid();
        h.t.setInvalid();
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h.o); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
