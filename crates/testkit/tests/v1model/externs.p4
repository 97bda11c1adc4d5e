// Every extern object and function that is not about forwarding. The first byte of a packet says what is done with x and y.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  what;
    bit<32> x;
    bit<32> y;
}

struct headers_t { h_t h; }
struct meta_t { bit<8> color; }
struct note_t { bit<32> x; bit<8> port; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<32>>(4) narrow;
    register<bit<200>>(2) wide;
    register<int<7>>(2) signed;
    counter(4, CounterType.packets_and_bytes) count;
    meter(4, MeterType.bytes) rate;
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<8>>(MeterType.packets) speed;

    action set_y(bit<32> y) {
        h.h.y = y;
        speed.read(m.color);
    }
    action nothing() { }
    table direct {
        key = { h.h.x: exact; }
        actions = { set_y; nothing; }
        default_action = nothing();
        counters = hits;
        meters = speed;
        support_timeout = true;
    }

    apply {
        s.egress_spec = 1;
        bit<32> y = 0xffffffff;
        bit<200> w;
        int<7> i;
        switch (h.h.what) {
            1: {
                narrow.read(y, h.h.x);
                narrow.write(h.h.x, h.h.y);
                h.h.y = y;
            }
            2: {
                wide.read(w, 1);
                wide.write(1, w[167:0] ++ h.h.y);
                h.h.y = w[199:168];
            }
            3: {
                signed.read(i, 0);
                signed.write(0, i - 1);
                h.h.y = (bit<32>) (int<32>) i;
            }
            4: { count.count(h.h.x); }
            5: { rate.execute_meter(h.h.x, h.h.y); }
            6: { hash(h.h.y, HashAlgorithm.crc32, h.h.y, { h.h.what, h.h.x }, 32w1000); }
            7: { hash(h.h.y, HashAlgorithm.crc16, 16w0, { h.h.x }, 32w0x10000); }
            8: { hash(h.h.y, HashAlgorithm.identity, 8w0, { h.h.x[27:0] }, 64w0x100000000); }
            9: { hash(h.h.y, HashAlgorithm.xor16, 8w1, { h.h.x }, 32w0); }
            10: { random(h.h.y, 10, 13); h.h.y = h.h.y >= 10 && h.h.y <= 13 ? 32w1 : 32w0; }
            11: { digest<note_t>(1, { h.h.x, 8w7 }); }
            12: { log_msg("x = {}, valid = {}", { h.h.x, h.h.isValid() }); }
            13: { truncate(h.h.x); }
            14: {
                direct.apply();
                h.h.what = m.color;
            }
            15: { assert(h.h.x == 0); }
            16: { assume(h.h.x == 0); }
            17: { random(h.h.y, 5, 5); }
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h.h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
