// SPDX-License-Identifier: Apache-2.0
// A wire between ports 1 and 2 for a test with several workers: it numbers UDP datagrams by a register that all of them
// read and write, reports which entries of two tables they saw, counts them, and resubmits, clones and digests some.

#include <core.p4>
#include <v1model.p4>

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

header tally_t {
    bit<32> sequence;
    bit<32> ticket;
    bit<32> of_flow;
    bit<8>  first;
    bit<8>  second;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    tally_t    tally;
}

struct metadata_t {}

struct seen_t {
    bit<16> sport;
    bit<32> sequence;
}

parser TallyParser(packet_in packet,
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
            5000: parse_tally;
            default: accept;
        }
    }

    state parse_tally {
        packet.extract(hdr.tally);
        transition accept;
    }
}

control TallyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control TallyIngress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter(1, CounterType.packets) seen;
    direct_counter(CounterType.packets) hits;
    register<bit<32>>(1) tickets;
    register<bit<32>>(256) flows;

    action set_first(bit<8> value) {
        hdr.tally.first = value;
        hits.count();
    }

    action set_second(bit<8> value) {
        hdr.tally.second = value;
    }

    table first {
        key = {
            hdr.udp.dport: exact;
        }
        actions = {
            set_first;
            NoAction;
        }
        default_action = NoAction();
        counters = hits;
    }

    table second {
        key = {
            hdr.udp.dport: exact;
        }
        actions = {
            set_second;
            NoAction;
        }
        default_action = NoAction();
        support_timeout = true;
    }

    apply {
        if (standard_metadata.ingress_port > 2) {
            mark_to_drop(standard_metadata);
            exit;
        }
        standard_metadata.egress_spec = standard_metadata.ingress_port ^ 3;
        if (hdr.tally.isValid()) {
            bit<32> some = hdr.tally.sequence & 63;
            if (some == 1 && standard_metadata.instance_type == 0) {
                resubmit_preserving_field_list(0);
                exit;
            }
            if (some == 2) {
                clone_preserving_field_list(CloneType.I2E, 7, 0);
            }
            if (some == 3) {
                digest<seen_t>(1, { hdr.udp.sport, hdr.tally.sequence });
            }
            seen.count(0);
            first.apply();
            second.apply();
            bit<32> number;
            tickets.read(number, 0);
            number = number + 1;
            tickets.write(0, number);
            hdr.tally.ticket = number;
            bit<32> flow = (bit<32>)(hdr.udp.sport & 255);
            flows.read(number, flow);
            number = number + 1;
            flows.write(flow, number);
            hdr.tally.of_flow = number;
        }
    }
}

control TallyEgress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.tally.isValid()) {
            // None is as good as a right one over IPv4.
            hdr.udp.checksum = 0;
        }
    }
}

control TallyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control TallyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.tally);
    }
}

V1Switch(TallyParser(), TallyVerify(), TallyIngress(), TallyEgress(), TallyCompute(), TallyDeparser()) main;
