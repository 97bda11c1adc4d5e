// Indices into arrays: what bounds them and what does not.
#include <core.p4>
#include <v1model.p4>

header eth_t {
    bit<16> kind;
    bit<32> a;
    bit<32> b;
    bit<4>  nibble;
    bit<4>  pad;
}

header tcp_t {
    bit<16> port;
}

header_union either_t {
    eth_t one;
    tcp_t two;
    tcp_t none;
}

struct headers_t {
    eth_t    eth;
    tcp_t[4] stack;
    tcp_t[4] loop;
    either_t either;
}

struct pair_t {
    bit<32> a;
    bit<32> b;
}

struct metadata_t {
    bit<32> slot;
    bit<32> parsed;
}

parser P(packet_in b, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.eth);
        transition select(hdr.eth.kind) {
            0 .. 3: few;
            0x10 &&& 0xfff0: many;
            default: accept;
        }
    }
    state few {
        hdr.stack[hdr.eth.kind].setValid();
        b.extract(hdr.stack.next);
        b.extract(hdr.either.one);
        transition loop;
    }
    state many {
        hdr.stack[hdr.eth.kind].setValid(); //~ WARNING P0710 can be up to 31, but `hdr.stack` has 4 elements
        meta.parsed = hdr.eth.a;
        transition accept;
    }
    state loop {
        b.extract(hdr.loop.next);
        transition select(hdr.loop.last.port) {
            1: loop;
            default: accept;
        }
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Inner(in bit<32> index, inout bit<32> slot) {
    register<bit<32>>(16) inside;
    apply {
        pair_t pair = { 3, 15 };
        inside.write(pair.b, pair.a);
        pair.b = pair.b + pair.a;
        inside.write(pair.b, 0); //~ WARNING P0710 can be up to 18
        inside.read(slot, index); //~ WARNING P0710 can be up to 31, but `inside` has 16 elements
        slot = slot & 7;
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    const bit<32> N = 1000;
    register<bit<32>>(N) cells;
    register<bit<32>>(1024) pages;
    counter(16, CounterType.packets) packets;
    meter(8, MeterType.bytes) rate;
    Inner() inner;

    action from_control_plane(bit<32> index) {
        cells.write(index, 1);
        meta.slot = index;
    }
    action from_packet() {
        cells.write(hdr.eth.b, 1); //~ WARNING P0710 can be up to 4294967295, but `cells` has 1000 elements
    }
    action by_key() {
        packets.count(hdr.eth.a);
    }
    action at(in bit<32> index) {
        packets.count(index); //~ WARNING P0710 can be up to 63
    }
    table t {
        key = {
            sm.ingress_port: exact;
        }
        actions = {
            from_control_plane;
            from_packet;
            NoAction;
        }
        default_action = NoAction();
    }
    table known {
        key = {
            hdr.eth.a: exact;
        }
        actions = {
            by_key;
            NoAction;
        }
        default_action = NoAction();
    }

    apply {
        bit<32> v;
        bit<32> h;
        bit<2> color;
        cells.read(v, 1000); //~ WARNING P0710 index 1000 is out of range: `cells` has 1000 elements
        cells.read(v, 999);
        packets.count(16); //~ WARNING P0710 index 16 is out of range
        // A port is the architecture's.
        packets.count((bit<32>)sm.ingress_port);
        // The type is small enough.
        packets.count((bit<32>)hdr.eth.nibble);
        rate.execute_meter((bit<32>)hdr.eth.nibble, color); //~ WARNING P0710 can be up to 15, but `rate` has 8 elements
        t.apply();
        cells.read(v, meta.slot);
        known.apply();
        if (known.apply().hit) {
            cells.read(v, hdr.eth.a);
        }
        // Computed within bounds.
        hash(h, HashAlgorithm.crc32, 32w0, { hdr.eth.a }, N);
        cells.read(v, h);
        hash(h, HashAlgorithm.crc32, 32w0, { hdr.eth.a }, 32w1024);
        pages.read(v, h);
        cells.read(v, h); //~ WARNING P0710 can be up to 1023
        cells.write(h, v);
        random(h, 32w5, 32w1000);
        cells.read(v, h); //~ WARNING P0710 can be up to 1000
        pages.read(v, hdr.eth.a & 1023);
        pages.read(v, (bit<32>)hdr.eth.a[9:0]);
        pages.read(v, hdr.eth.a >> 22);
        pages.read(v, (bit<32>)(hdr.eth.pad ++ hdr.eth.a[5:0]));
        pages.read(v, (bit<32>)hdr.eth.pad * 64 + 63);
        pages.read(v, (bit<32>)(hdr.eth.pad ++ hdr.eth.a[6:0])); //~ WARNING P0710 can be up to 2047
        pages.read(v, (bit<32>)hdr.eth.pad * 64 + 64); //~ WARNING P0710 can be up to 1024
        pages.read(v, hdr.eth.a < 8 ? hdr.eth.a : 1023);
        // Kept in a register, from which it came within bounds.
        pages.read(h, 0);
        cells.read(v, h);
        // Conditions.
        if (hdr.eth.a < N && v != 0) {
            cells.read(v, hdr.eth.a);
        } else if (hdr.eth.a <= N) {
            cells.read(v, hdr.eth.a); //~ WARNING P0710 can be up to 1000
        }
        if (!(hdr.eth.a >= 8 || hdr.eth.b > 7)) {
            hdr.stack[hdr.eth.a & 3].port = 1;
            rate.execute_meter(hdr.eth.b, color);
        }
        switch (hdr.eth.b) {
            1:
            7: {
                rate.execute_meter(hdr.eth.b, color);
            }
            8: {
                rate.execute_meter(hdr.eth.b, color); //~ WARNING P0710 can be up to 8
            }
        }
        h = meta.slot;
        if (hdr.eth.kind == 1) {
            h = (bit<32>)(hdr.eth.a[8:0] ++ 1w0);
        }
        pages.read(v, h);
        h += 2;
        pages.read(v, h); //~ WARNING P0710 can be up to 1024
        at(hdr.eth.a & 63);
        inner.apply(hdr.eth.a & 31, h);
        rate.execute_meter(h, color);
        for (bit<32> i = 0; i < 8; i = i + 1) {
            rate.execute_meter(i, color);
            packets.count(i);
        }
        for (bit<32> i in 0 .. 16) {
            packets.count(i); //~ WARNING P0710 can be up to 16
        }
        @noWarn("index_out_of_range") {
            packets.count(hdr.eth.b);
        }
        packets.count(meta.parsed); //~ WARNING P0710 can be up to 4294967295
        if (hdr.eth.b >= 16) {
            return;
        }
        packets.count(hdr.eth.b);
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        // `next` is extracted once, and `few` makes any element valid; the loop fills any of them.
        hdr.stack[3].port = 1;
        hdr.loop[3].port = 1;
        hdr.eth.a = hdr.either.one.a;
        hdr.eth.kind = hdr.either.two.port; //~ WARNING P0707 `hdr.either.two`, which no path makes valid
        if (hdr.either.none.isValid()) {
            hdr.eth.kind = hdr.either.none.port;
        }
    }
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out b, in headers_t hdr) {
    apply {
        b.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
