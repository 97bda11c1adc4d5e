// Tables (P4_16 section 14.2) and the externs of v1model.
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<32> addr;
    bit<16> port;
    bit<8> e;
}

struct headers_t {
    h_t h;
    h_t[2] stack;
}

struct flow_t {
    bit<32> addr;
    bit<16> port;
}

struct metadata_t {
    bit<8> n;
    @field_list(1)
    bit<16> kept;
}

action shared() {}

#define TWO_PARAMETERS(name) action name(inout bit<8> x, in bit<8> y) { x = y; }
TWO_PARAMETERS(assign)

bit<8> twice(in bit<8> x) {
    return x * 2;
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets) hits;
    counter(16, CounterType.packets_and_bytes) total;
    register<bit<32>>(1024) last;
    meter(4, MeterType.bytes) limit;
    direct_meter<bit<2>>(MeterType.packets) color;
    action_selector(HashAlgorithm.crc16, 64, 10) selector;
    bit<8> base = 3;

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action add(in bit<8> by, inout bit<8> to, bit<8> data) {
        to = to + by + data + base;
        hits.count();
    }

    action report() {
        digest<flow_t>(1, { hdr.h.addr, hdr.h.port });
        digest(2, { hdr.h.a, meta.n });
        clone_preserving_field_list(CloneType.I2E, 5, 1);
        bit<32> old;
        last.read(old, (bit<32>)hdr.h.a);
        last.write(index = 3, value = old + 1);
        bit<16> h;
        hash(h, HashAlgorithm.crc16, 16w0, { hdr.h.addr, hdr.h.port }, 32w1024);
        random(meta.kept, 16w0, 100);
        total.count((bit<32>)h & 15);
        bit<2> c;
        limit.execute_meter(0, c);
        log_msg("seen {}", { c });
        log_msg("twice " ++ "said");
        truncate(64);
    }

    @noWarn("invalid_header")
    table exact_table {
        key = {
            hdr.h.a: exact;
            hdr.h.isValid(): exact;
            hdr.stack[1].e: exact @name("element");
            meta.kept[7:0]: exact;
        }
        actions = {
            forward;
            add(hdr.h.a, meta.n);
            @tableonly report;
            @defaultonly drop;
            shared;
        }
        const default_action = drop();
        const entries = {
            (1, true, 5, 8w7): forward(9);
            (2, false, 6, 0x10): add(3);
            (3, true, 0, 0): add(hdr.h.a, meta.n, 4);
            (0xff, true, 0, 0): report;
        }
        counters = hits;
        size = 256;
    }

    table ranked {
        key = {
            hdr.h.addr: ternary;
            hdr.h.port: range;
            hdr.h.e: optional;
        }
        actions = {
            forward;
            NoAction;
        }
        default_action = forward(1);
        priority_delta = 10;
        entries = {
            const priority = 100: (0x0a000000 &&& 0xff000000, 1 .. 1023, _): forward(1);
            (_, 53, 17): forward(2);
            _: NoAction();
        }
    }

    table prefixes {
        key = {
            hdr.h.addr: lpm;
        }
        actions = {
            forward;
            @defaultonly NoAction;
        }
        entries = {
            0x0a000000 &&& 0xff000000: forward(1);
            0x0a000001: forward(2);
            _: forward(3);
        }
        meters = color;
    }

    table called {
        key = {
            twice(hdr.h.a): exact @name("twice");
            meta.n & 0xf: exact;
        }
        actions = {
            forward;
        }
        implementation = action_profile(32);
    }

    table spread {
        key = {
            hdr.h.a: exact;
            hdr.h.addr: selector;
            hdr.h.port: selector;
            hdr.h.a: selector;
        }
        actions = {
            forward;
        }
        implementation = selector;
    }

    table keyless {
        actions = {
            drop;
            NoAction;
        }
        default_action = drop;
        support_timeout = true;
    }

    apply {
        if (exact_table.apply().hit && meta.n == 0) {
            ranked.apply();
        }
        switch (prefixes.apply().action_run) {
            forward: {
                meta.n = 1;
            }
            NoAction:
            default: {
                if (!called.apply().miss || spread.apply().hit)
                    meta.n = 2;
            }
        }
        keyless.apply();
        shared();
        assign(meta.n, hdr.h.a);
    }
}

#include "include/skeleton.p4"
