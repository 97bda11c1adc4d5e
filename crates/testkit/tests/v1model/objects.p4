// Registers of anything of fixed width, digests of any type, messages of every type.
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  what;
    bit<8>  index;
    bit<32> x;
}

enum bit<8> Colour { red = 3, blue = 7 }
enum Plain { first, second }
struct inner_t { int<5> i; bool b; }
struct cell_t { bit<32> x; inner_t inner; bit<130> wide; Colour colour; }
struct note_t { bit<32> x; inner_t inner; }

struct headers_t { h_t h; }
struct meta_t { h_t kept; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<cell_t, bit<8>>(4) cells;
    register<h_t, bit<8>>(2) headers;
    register<tuple<bit<8>, bit<32>>, bit<8>>(2) pairs;
    register<bool, bit<8>>(2) flags;
    register<Colour, bit<8>>(2) colours;
    counter<bit<8>>(2, CounterType.bytes) count;
    meter<bit<8>>(2, MeterType.packets) rate;

    apply {
        s.egress_spec = 1;
        cell_t c;
        h_t kept;
        bool flag;
        Colour colour;
        tuple<bit<8>, bit<32>> pair;
        bit<2> color = 0;
        switch (h.h.what) {
            1: {
                cells.read(c, h.h.index);
                bit<32> x = c.x;
                c.x = h.h.x;
                c.inner.i = -1;
                c.inner.b = !c.inner.b;
                c.wide[129:98] = h.h.x;
                c.colour = Colour.blue;
                cells.write(h.h.index, c);
                h.h.x = x;
            }
            2: {
                cells.read(c, h.h.index);
                h.h.x = c.wide[129:98] + (bit<32>) (int<32>) c.inner.i + (bit<32>) (bit<8>) c.colour
                    + (c.inner.b ? 32w0x100 : 32w0);
            }
            3: {
                headers.read(kept, h.h.index);
                headers.write(h.h.index, h.h);
                h.h.x = kept.isValid() ? kept.x : 32w0xffffffff;
            }
            4: {
                pairs.read(pair, h.h.index);
                bit<32> x = pair[1];
                pair = { h.h.index, h.h.x };
                pairs.write(h.h.index, pair);
                h.h.x = x;
            }
            5: {
                flags.read(flag, h.h.index);
                colours.read(colour, h.h.index);
                h.h.x = (flag ? 32w1 : 32w0) ++ (bit<8>) colour == 40w0x107 ? 32w1 : 32w0;
                flags.write(h.h.index, true);
                colours.write(h.h.index, Colour.blue);
            }
            6: { digest(1, h.h.x); }
            7: { digest(1, { h.h.x, h.h.index, true }); }
            8: { digest<note_t>(1, { h.h.x, { -3, true } }); }
            9: { digest(1, h.h); }
            10: { log_msg("plain {} text"); }
            11: { log_msg("{} {} {} {}", { h.h.x, (int<8>) -5, h.h.isValid(), Colour.red }); }
            12: { log_msg("{}-{}", { Plain.second, error.NoMatch }); }
            13: { log_msg("header {} {} {}", { h.h }); }
            14: { log_msg("more: {}", { h.h.x, h.h.index }); }
            15: { log_msg("fewer: {} {}", { h.h.x }); }
            16: { count.count(h.h.index); }
            17: {
                rate.execute_meter(h.h.index, color);
                h.h.x = (bit<32>) color;
            }
            18: { s.egress_spec = 2; }
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (h.h.what == 18) {
            h.h.x = s.ingress_global_timestamp[31:0];
            h.h.index = (bit<8>) (s.enq_timestamp - s.ingress_global_timestamp[31:0])
                + (bit<8>) s.egress_global_timestamp[47:32];
        }
    }
}

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h.h); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
