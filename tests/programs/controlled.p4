// A program for tests of the control plane: one of everything that P4Runtime can write or read, and a data plane that
// reports in a packet-in what it looked up for a packet-out. So lookups can be checked without an interface.

#include <core.p4>
#include <v1model.p4>

const bit<9> CPU = 510;
const bit<32> MISSED = 0xffffffff;

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port; // 0: look the packet up and return it as a packet-in
    bit<7> kind;        // what to do on the way: see Lookup
}

@controller_header("packet_in")
header packet_in_t {
    bit<9>  ingress_port;
    @padding bit<7> pad;
    bit<32> host;  // the result of each table, or MISSED
    bit<32> route;
    bit<32> acl;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  dscp;
    bit<16> length;
    bit<16> id;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    packet_out_t command;
    packet_in_t  report;
    ethernet_t   ethernet;
    ipv4_t       ipv4;
}

struct metadata_t {
    bit<32> host;
    bit<32> route;
    bit<32> acl;
    bit<32> member;
    bit<9>  from_port;
    bit<2>  colour;
}

struct learned_t {
    bit<48> mac;
    bit<9>  port;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port) {
            CPU: from_cpu;
            default: ethernet;
        }
    }

    state from_cpu {
        packet.extract(hdr.command);
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Lookup(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(512, CounterType.packets_and_bytes) arrived;
    register<bit<32>>(16) sizes;
    register<bit<80>>(4) wide;
    meter(512, MeterType.packets) pace;
    direct_counter(CounterType.packets) routed;
    direct_counter(CounterType.packets_and_bytes) judged;
    action_selector(HashAlgorithm.crc32, 32w16, 32w16) members;

    action host_is(bit<32> value) {
        meta.host = value;
    }

    action drop() {
        mark_to_drop(standard);
    }

    action route_is(bit<32> value, bit<48> mac) {
        routed.count();
        meta.route = value;
        hdr.ethernet.dst = mac;
    }

    action route_missed() {
        routed.count();
    }

    action acl_is(bit<32> value) {
        judged.count();
        meta.acl = value;
    }

    action member_is(bit<32> value) {
        meta.member = value;
    }

    table hosts {
        key = { hdr.ipv4.dst: exact @name("dst"); }
        actions = { host_is; drop; NoAction; }
        default_action = NoAction();
        support_timeout = true;
        size = 4;
    }

    table routes {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { route_is; @defaultonly route_missed; }
        default_action = route_missed();
        counters = routed;
        size = 64;
    }

    table acl {
        key = {
            hdr.ipv4.src: ternary @name("src");
            hdr.ipv4.protocol: optional @name("protocol");
            hdr.ipv4.length: range @name("length");
        }
        actions = { acl_is; @defaultonly NoAction; }
        const default_action = NoAction();
        counters = judged;
        size = 16;
    }

    table spread {
        key = {
            hdr.ipv4.protocol: exact @name("protocol");
            hdr.ipv4.src: selector;
        }
        actions = { member_is; NoAction; }
        implementation = members;
        size = 8;
    }

    table fixed {
        key = { hdr.ipv4.ttl: exact @name("ttl"); }
        actions = { host_is; NoAction; }
        const entries = {
            0: host_is(1000);
            1: host_is(1001);
        }
        default_action = NoAction();
    }

    apply {
        arrived.count((bit<32>)standard.ingress_port);
        meta.from_port = standard.ingress_port;
        pace.execute_meter((bit<32>)standard.ingress_port, meta.colour);
        meta.host = MISSED;
        meta.route = MISSED;
        meta.acl = MISSED;
        if (hdr.command.isValid() && hdr.command.egress_port != 0) {
            standard.egress_spec = hdr.command.egress_port;
        } else {
            standard.egress_spec = CPU;
            if (hdr.ipv4.isValid()) {
                hosts.apply();
                routes.apply();
                acl.apply();
                spread.apply();
                fixed.apply();
                bit<32> seen;
                sizes.read(seen, (bit<32>)(hdr.ipv4.protocol & 15));
                sizes.write((bit<32>)(hdr.ipv4.protocol & 15), seen + (bit<32>)hdr.ipv4.length);
                wide.write(0, hdr.ipv4.src ++ hdr.ethernet.src);
            }
            if (hdr.command.isValid() && hdr.command.kind == 1) {
                digest<learned_t>(1, { hdr.ethernet.src, standard.ingress_port });
            }
        }
        hdr.command.setInvalid();
    }
}

control Report(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == CPU) {
            hdr.report.setValid();
            hdr.report.ingress_port = meta.from_port;
            hdr.report.host = meta.host;
            hdr.report.route = meta.route;
            hdr.report.acl = meta.acl;
        }
    }
}

control NoUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(Parse(), NoVerify(), Lookup(), Report(), NoUpdate(), Deparse()) main;
