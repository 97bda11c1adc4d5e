// What native code does in the place of calls: cells of all widths, counters, checksums and hashes of all sizes. One array is
// larger than any cache, so that packets of a batch are looked ahead of. The first byte of a packet says what is done.
#include <core.p4>
#include <v1model.p4>

#define SIZE 40000
#define HUGE 40000000

header h_t {
    bit<8>   what;
    bit<3>   x;
    bit<9>   y;
    bit<4>   z;
    bit<16>  index;
    bit<32>  a;
    bit<48>  b;
    bit<64>  c;
    bit<128> wide;
    bit<16>  sum;
    bit<16>  sum2;
}

struct headers_t {
    h_t h;
}

struct meta_t {
    bit<16> sum;
    bit<9>  odd;
    bool    seen;
}

parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t std) {
    state start {
        pkt.extract(h.h);
        m.odd = h.h.y;
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(h.h.isValid() && h.h.x != 0, { h.h.what, h.h.x, h.h.y, h.h.z, h.h.index, h.h.a, h.h.b },
                        h.h.sum, HashAlgorithm.csum16);
        verify_checksum(h.h.x == 3, { m.odd, h.h.c, h.h.wide }, h.h.sum2, HashAlgorithm.crc32);
        verify_checksum_with_payload(h.h.z == 1, { h.h.a }, h.h.sum2, HashAlgorithm.csum16);
    }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t std) {
    register<bit<1>>(SIZE) r1;
    register<bit<8>>(SIZE) r8;
    register<bit<17>>(SIZE) r17;
    register<bit<32>>(SIZE) r32;
    register<bit<33>>(SIZE) r33;
    register<bit<48>>(SIZE) r48;
    register<bit<64>>(HUGE) r64;
    register<bit<65>>(SIZE) r65;
    register<bit<96>>(SIZE) r96;
    register<bit<97>>(SIZE) r97;
    register<bit<127>>(SIZE) r127;
    register<bit<128>>(SIZE) r128;
    register<bit<129>>(SIZE) r129;
    register<bit<200>>(SIZE) r200;
    counter(SIZE, CounterType.packets) packets;
    counter(SIZE, CounterType.bytes) bytes;
    counter(SIZE, CounterType.packets_and_bytes) both;

    action go(bit<9> port, bit<48> b, bit<128> wide, bool seen) {
        std.egress_spec = port;
        h.h.b = b;
        h.h.wide = wide;
        m.seen = seen;
    }
    action away() {
        mark_to_drop(std);
    }
    table t {
        key = {
            h.h.index: exact;
            h.h.x: exact;
            m.odd: exact;
        }
        actions = { go; away; NoAction; }
        default_action = NoAction;
        const entries = {
            (1, 1, 1): go(5, 7, 9, true);
            (7, 2, 3): away();
        }
        size = 2000000;
    }

    apply {
        bit<1> v1;
        bit<8> v8;
        bit<17> v17;
        bit<32> v32;
        bit<33> v33;
        bit<48> v48;
        bit<64> v64;
        bit<65> v65;
        bit<96> v96;
        bit<97> v97;
        bit<127> v127;
        bit<128> v128;
        bit<129> v129;
        bit<200> v200;
        bit<32> index = (bit<32>)h.h.index;
        bit<64> r = 0;
        std.egress_spec = 1;
        t.apply();
        switch (h.h.what) {
            0: {
                r1.read(v1, index);
                h.h.wide = h.h.wide ^ (bit<128>)v1;
                r1.write(index, (bit<1>)h.h.wide);
            }
            1: {
                r8.read(v8, index);
                h.h.wide = h.h.wide ^ (bit<128>)v8;
                r8.write(index, (bit<8>)h.h.wide);
            }
            2: {
                r17.read(v17, index);
                h.h.wide = h.h.wide ^ (bit<128>)v17;
                r17.write(index, (bit<17>)h.h.wide);
            }
            3: {
                r32.read(v32, index);
                h.h.wide = h.h.wide ^ (bit<128>)v32;
                r32.write(index, (bit<32>)h.h.wide);
            }
            4: {
                r33.read(v33, index);
                h.h.wide = h.h.wide ^ (bit<128>)v33;
                r33.write(index, (bit<33>)h.h.wide);
            }
            5: {
                r48.read(v48, index);
                h.h.wide = h.h.wide ^ (bit<128>)v48;
                r48.write(index, (bit<48>)h.h.wide);
            }
            6: {
                r64.read(v64, index);
                h.h.wide = h.h.wide ^ (bit<128>)v64;
                r64.write(index, (bit<64>)h.h.wide);
            }
            7: {
                r65.read(v65, index);
                h.h.wide = h.h.wide ^ (bit<128>)v65;
                r65.write(index, (bit<65>)h.h.wide);
            }
            8: {
                r96.read(v96, index);
                h.h.wide = h.h.wide ^ (bit<128>)v96;
                r96.write(index, (bit<96>)h.h.wide);
            }
            9: {
                r97.read(v97, index);
                h.h.wide = h.h.wide ^ (bit<128>)v97;
                r97.write(index, (bit<97>)h.h.wide);
            }
            10: {
                r127.read(v127, index);
                h.h.wide = h.h.wide ^ (bit<128>)v127;
                r127.write(index, (bit<127>)h.h.wide);
            }
            11: {
                r128.read(v128, index);
                h.h.wide = h.h.wide ^ (bit<128>)v128;
                r128.write(index, (bit<128>)h.h.wide);
            }
            12: {
                r129.read(v129, index);
                h.h.wide = h.h.wide ^ (bit<128>)v129;
                r129.write(index, (bit<129>)h.h.wide << 1 | (bit<129>)h.h.a);
            }
            13: {
                r200.read(v200, index);
                h.h.wide = h.h.wide ^ (bit<128>)v200;
                r200.write(index, (bit<200>)h.h.wide << 72 | (bit<200>)h.h.a);
            }
            14: { packets.count(index); }
            15: { bytes.count(index); }
            16: { both.count(index); }
            17: { hash(r, HashAlgorithm.crc32, 64w0, { h.h.a }, 64w0x100000000); }
            18: { hash(r, HashAlgorithm.crc32, 64w5, { h.h.a, h.h.b, h.h.c, h.h.wide }, 64w1000); }
            19: { hash(r, HashAlgorithm.crc32, h.h.c, { h.h.x, h.h.wide, h.h.y }, h.h.c); }
            20: { hash(r, HashAlgorithm.crc16, 32w1, { h.h.c, h.h.z, h.h.a }, 32w7); }
            21: { hash(r, HashAlgorithm.csum16, 32w0, { h.h.x, h.h.a, h.h.z, h.h.wide, h.h.y }, 32w65536); }
            22: { hash(r, HashAlgorithm.xor16, 32w0, { h.h.y, h.h.c }, 32w65536); }
            23: { hash(r, HashAlgorithm.identity, 32w0, { h.h.x, h.h.a }, 64w0); }
            24: { hash(r, HashAlgorithm.crc32, 64w0, { h.h.wide, h.h.c, h.h.wide, h.h.c, m.odd, h.h.x, h.h.z }, 64w0xffffffff); }
            25: { mark_to_drop(std); }
            26: {
                hash(index, HashAlgorithm.crc32, 32w0, { h.h.b, h.h.index }, 32w50000);
                r64.read(v64, index);
                r = v64 + 1;
                r64.write(index, r);
                both.count(index);
            }
            27: {
                h.h.wide = h.h.wide << 3 ^ h.h.wide >> 70 ^ h.h.wide >> 64 ^ (h.h.wide << 100) ^ (h.h.wide >> 1);
                h.h.wide[90:30] = h.h.wide[127:67];
                h.h.c = h.h.wide[70:7];
            }
            default: { hash(r, HashAlgorithm.crc32, 64w0, { h.h.a, h.h.index, h.h.b, h.h.c }, 64w0x10000); }
        }
        h.h.c = h.h.c ^ r;
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t std) {
    apply {
        h.h.z = m.seen ? 4w15 : (bit<4>)std.checksum_error;
    }
}

control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.h.x != 1, { h.h.what, h.h.x, h.h.y, h.h.z, h.h.index, h.h.a, h.h.b, h.h.c, h.h.wide },
                        h.h.sum, HashAlgorithm.csum16);
        update_checksum(h.h.x == 2, { m.odd, h.h.sum, h.h.a, h.h.x }, h.h.sum2, HashAlgorithm.csum16);
        update_checksum(h.h.x == 4, { h.h.c, h.h.wide }, h.h.sum2, HashAlgorithm.crc16);
        update_checksum_with_payload(h.h.x == 5, { h.h.c }, h.h.sum2, HashAlgorithm.csum16);
    }
}

control D(packet_out pkt, in headers_t h) {
    apply {
        pkt.emit(h.h);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
