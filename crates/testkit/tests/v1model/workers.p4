// Registers that every packet reads, changes and writes; counters; what entries count. Workers share them.
#include <core.p4>
#include <v1model.p4>

header mark_t {
    bit<8>  cell;
    bit<8>  key;
    bit<16> torn; // set where the parts of a cell do not belong together
}

struct headers_t { mark_t mark; }
struct meta_t { }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.mark);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<32>>(16) total;
    register<bit<96>>(16) wide;
    counter(16, CounterType.packets_and_bytes) seen;
    meter(16, MeterType.packets) rate;
    direct_counter(CounterType.packets) hits;
    direct_counter(CounterType.packets_and_bytes) kept_hits;

    action forward(bit<9> port) {
        hits.count();
        s.egress_spec = port;
    }

    table ports {
        key = { h.mark.key: exact; }
        actions = { forward; }
        default_action = forward(1);
        counters = hits;
    }

    table kept {
        key = { h.mark.key: exact; }
        actions = { NoAction; }
        default_action = NoAction;
        counters = kept_hits;
        support_timeout = true;
    }

    apply {
        if (!h.mark.isValid()) {
            mark_to_drop(s);
            return;
        }
        bit<32> cell = (bit<32>) h.mark.cell;
        bit<32> n;
        total.read(n, cell);
        total.write(cell, n + 1);
        bit<96> three;
        wide.read(three, cell);
        if (three[95:64] != three[31:0] || three[63:32] != three[31:0]) {
            h.mark.torn = 1;
        }
        wide.write(cell, (three[31:0] + 7) ++ (three[31:0] + 7) ++ (three[31:0] + 7));
        seen.count(cell);
        bit<2> color;
        rate.execute_meter(cell, color);
        ports.apply();
        kept.apply();
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) { apply { b.emit(h.mark); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
