// SPDX-License-Identifier: Apache-2.0
// A packet filter on a wire: what comes in on one port leaves on the other if the first rule that matches permits it.

#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTO_TCP = 6;
const bit<8> PROTO_UDP = 17;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  dscp_ecn;
    bit<16> len;
    bit<16> id;
    bit<3>  flags;
    bit<13> fragment;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

// TCP and UDP begin alike.
header ports_t {
    bit<16> sport;
    bit<16> dport;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ports_t    ports;
}

struct metadata_t {}

parser AclParser(packet_in packet,
                 out headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        // Only the first fragment has ports.
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment, hdr.ipv4.proto) {
            (5, 0, PROTO_TCP): parse_ports;
            (5, 0, PROTO_UDP): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control AclVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control AclIngress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets) hits;

    action permit() {
        hits.count();
        // Ports 1 and 2 are the ends of the wire.
        standard_metadata.egress_spec = standard_metadata.ingress_port ^ 3;
    }

    action deny() {
        hits.count();
        mark_to_drop(standard_metadata);
    }

    table rules {
        key = {
            hdr.ipv4.src: ternary @name("src");
            hdr.ipv4.dst: ternary @name("dst");
            hdr.ipv4.proto: ternary @name("proto");
            hdr.ports.sport: ternary @name("sport");
            hdr.ports.dport: ternary @name("dport");
        }
        actions = { permit; deny; }
        default_action = deny();
        counters = hits;
        size = 65536;
    }

    apply {
        if (!hdr.ipv4.isValid()) {
            standard_metadata.egress_spec = standard_metadata.ingress_port ^ 3;
        } else if (hdr.ipv4.ihl == 5) {
            rules.apply();
        } else {
            // With options, rules do not see the ports.
            mark_to_drop(standard_metadata);
        }
    }
}

control AclEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control AclCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control AclDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

V1Switch(AclParser(), AclVerify(), AclIngress(), AclEgress(), AclCompute(), AclDeparser()) main;
