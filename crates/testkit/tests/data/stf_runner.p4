// What the commands of the packet test language are tried on: every match kind, counters, registers, meters, clones and
// multicast.

#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<8>  kind;
    bit<8>  a;
    bit<16> b;
}

struct headers_t {
    data_t data;
    data_t more;
}

struct metadata_t {
    bit<8> note;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.data);
        transition select(hdr.data.kind) {
            0xee: parse_more;
            default: accept;
        }
    }

    state parse_more {
        packet.extract(hdr.more);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(4, CounterType.packets_and_bytes) seen;
    register<bit<32>>(4) memory;
    meter(4, MeterType.packets) pace;

    action send(bit<9> port) {
        std.egress_spec = port;
    }

    action copy(bit<16> group) {
        std.mcast_grp = group;
    }

    action mirror(bit<9> port, bit<32> session) {
        std.egress_spec = port;
        clone(CloneType.I2E, session);
    }

    action drop() {
        mark_to_drop(std);
    }

    table by_kind {
        key = { hdr.data.kind: exact; }
        actions = { send; copy; mirror; drop; }
        default_action = drop();
    }

    table by_prefix {
        key = { hdr.data.b: lpm; }
        actions = { send; NoAction; }
        default_action = NoAction();
    }

    table by_mask {
        key = {
            hdr.data.a: ternary;
            hdr.data.b: range;
            hdr.more.isValid(): optional;
        }
        actions = { send; drop; NoAction; }
        default_action = NoAction();
    }

    apply {
        seen.count((bit<32>)hdr.data.kind & 3);
        bit<32> n;
        memory.read(n, (bit<32>)hdr.data.kind & 3);
        memory.write((bit<32>)hdr.data.kind & 3, n + 1);
        bit<2> color;
        pace.execute_meter((bit<32>)hdr.data.kind & 3, color);
        by_kind.apply();
        by_prefix.apply();
        by_mask.apply();
        if (color == 2) {
            drop();
        }
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_rid != 0) {
            hdr.data.b = std.egress_rid;
        }
    }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(TestParser(), NoChecksum(), TestIngress(), TestEgress(), NoChecksum(), TestDeparser()) main;
