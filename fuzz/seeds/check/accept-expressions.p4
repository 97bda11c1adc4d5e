// Operators, casts, slices and sizes (P4_16 chapter 8).
#include <v1model.p4>

enum bit<8> Kind {
    Low = 1,
    High = 0x80
}

enum Color {
    Red,
    Green
}

type bit<9> Port;
type Port EdgePort;
typedef bit<32> u32;

header h_t {
    bit<8> a;
    bit<8> b;
    bit<16> c;
    int<8> s;
    Kind kind;
    Port port;
    bit<7> pad;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    bool flag;
    Color color;
    bit<16> wide;
    EdgePort edge;
}

const int SIZE = 2 * 8;
const bit<SIZE> MASK = 0xff00 | 0x00f0;
const bool CHECKED = static_assert(SIZE == 16, "sixteen");
const u32 SHIFTED = 1 << 4;
const bit<8> FROM_SLICE = 0x1234[15:8];
const int BYTES = h_t.minSizeInBytes();

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        bit<8> x = hdr.h.a + hdr.h.b - 1;
        x = x * 3 |+| 4 |-| hdr.h.b;
        x = ~x & 0x0f | 8w1 ^ hdr.h.a;
        x = -x;
        x = +x;
        int<8> s = hdr.h.s >> 1;
        s = (int<8>)x;
        s = -s |+| 100;
        meta.wide = hdr.h.a ++ hdr.h.b;
        meta.wide[7:4] = x[3:0];
        meta.wide[4 +: 8] = x;
        x = meta.wide[x +: 8];
        x = hdr.h.c[15:8][3:0] ++ 4w2;
        x = x << hdr.h.b >> 2;
        x = hdr.h.kind + Kind.Low;
        hdr.h.kind = (Kind)(x + Kind.High);
        x = hdr.h.kind << 1;
        meta.color = x == 0 ? Color.Red : Color.Green;
        meta.flag = meta.color != Color.Red && (x < 5 || s >= -3) || !meta.flag;
        meta.flag = (bool)x[0:0];
        x[0:0] = (bit<1>)meta.flag;
        hdr.h.port = (Port)9w3;
        hdr.h.port = (Port)standard_metadata.ingress_port;
        meta.edge = (EdgePort)hdr.h.port;
        standard_metadata.egress_spec = (bit<9>)(Port)meta.edge;
        meta.flag = hdr.h.port == (Port)5;
        x = (bit<8>)BYTES + (bit<8>)hdr.h.minSizeInBits() + (bit<8>)hdr.h.c.maxSizeInBytes();
        meta.wide = MASK & (bit<16>)SHIFTED ^ (bit<16>)FROM_SLICE;
        meta.flag = hdr.h.isValid() && standard_metadata.parser_error == error.NoError;
        x = x / 4 % 3;
        x = 8w250 / 7;
        meta.wide = (bit<16>)(bit<8>)s;
        meta.wide = meta.flag ? meta.wide : 5;
    }
}

#include "include/skeleton.p4"
