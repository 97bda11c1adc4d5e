// Tables of every kind that count hits, time or measure them. With BLOCKS the switch runs it block by block.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> key;
    bit<8> flow;
    bit<8> flags; // 1: the packet grows; 2: it comes again, without this flag
    bit<8> result;
}

header tag_t { bit<32> length; }

struct headers_t {
    h_t h;
    tag_t tag;
}

struct meta_t { bit<2> color; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets_and_bytes) of_exact;
    direct_counter(CounterType.bytes) of_masked;
    direct_counter(CounterType.packets) of_prefix;
    direct_counter(CounterType.packets_and_bytes) of_spread;
    direct_counter(CounterType.packets) of_always;
    direct_meter<bit<2>>(MeterType.packets) rate;
    action_selector(HashAlgorithm.crc16, 8, 16) members;

    action mark(bit<8> value) { h.h.result = h.h.result ^ value; }
    action measured(bit<8> value) {
        h.h.result = h.h.result ^ value;
        rate.read(m.color);
    }

    table exact_keys {
        key = { h.h.key: exact; }
        actions = { mark; NoAction; }
        default_action = NoAction;
        counters = of_exact;
        support_timeout = true;
        size = 64;
    }
    table masked {
        key = { h.h.key: ternary; }
        actions = { mark; NoAction; }
        default_action = mark(64);
        counters = of_masked;
        size = 64;
    }
    table prefix {
        key = { h.h.key: lpm; }
        actions = { measured; NoAction; }
        default_action = NoAction;
        counters = of_prefix;
        meters = rate;
        size = 64;
    }
    table timed {
        key = { h.h.key: exact; }
        actions = { mark; NoAction; }
        default_action = NoAction;
        support_timeout = true;
        size = 64;
    }
    table spread {
        key = {
            h.h.key: exact;
            h.h.flow: selector;
        }
        actions = { mark; NoAction; }
        default_action = NoAction;
        implementation = members;
        counters = of_spread;
        support_timeout = true;
        size = 64;
    }
    table always {
        actions = { mark; }
        default_action = mark(128);
        counters = of_always;
    }

    apply {
        s.egress_spec = 1;
        exact_keys.apply();
        masked.apply();
        prefix.apply();
        timed.apply();
        spread.apply();
        always.apply();
        h.h.result = h.h.result ^ (bit<8>) m.color;
        if (h.h.flags & 1 != 0) {
            h.tag.setValid();
            h.tag.length = s.packet_length;
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    direct_counter(CounterType.bytes) of_out;

    action mark(bit<8> value) { h.h.result = h.h.result ^ value; }

    table out_keys {
        key = { h.h.key: exact; }
        actions = { mark; NoAction; }
        default_action = NoAction;
        counters = of_out;
        size = 64;
    }

    apply {
        out_keys.apply();
        if (h.h.flags & 2 != 0) {
            h.h.flags = h.h.flags & 1;
            recirculate_preserving_field_list(0);
        }
#ifdef BLOCKS
        if (s.packet_length == 0) {
            h.h.result = 0;
        }
#endif
    }
}

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) {
    apply {
        b.emit(h.h);
        b.emit(h.tag);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
