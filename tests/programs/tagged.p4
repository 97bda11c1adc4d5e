// SPDX-License-Identifier: Apache-2.0
// A wire between ports 1 and 2 that writes what program it is, in ingress and again in egress, into the UDP datagrams that
// it passes on, and counts them: for tests that replace a program while packets come.

#include <core.p4>
#include <v1model.p4>

#ifndef TAG
#define TAG 1
#endif

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<72> version_to_ttl;
    bit<8>  proto;
    bit<80> checksum_to_dst;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> len;
    bit<16> checksum;
}

header tags_t {
    bit<32> sequence;
    bit<8>  ingress;
    bit<8>  egress;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    tags_t     tags;
}

struct metadata_t {}

parser TaggedParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.proto) {
            17: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dport) {
            5000: parse_tags;
            default: accept;
        }
    }

    state parse_tags {
        packet.extract(hdr.tags);
        transition accept;
    }
}

control TaggedVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control TaggedIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    counter(1, CounterType.packets) seen;

    apply {
        if (standard_metadata.ingress_port > 2) {
            mark_to_drop(standard_metadata);
        } else {
            standard_metadata.egress_spec = standard_metadata.ingress_port ^ 3;
        }
        if (hdr.tags.isValid()) {
            seen.count(0);
            hdr.tags.ingress = TAG;
        }
    }
}

control TaggedEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.tags.isValid()) {
            hdr.tags.egress = TAG;
            // None is as good as a right one over IPv4.
            hdr.udp.checksum = 0;
        }
    }
}

control TaggedCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control TaggedDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.tags);
    }
}

V1Switch(TaggedParser(), TaggedVerify(), TaggedIngress(), TaggedEgress(), TaggedCompute(), TaggedDeparser()) main;
