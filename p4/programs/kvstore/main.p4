// SPDX-License-Identifier: Apache-2.0
// A key-value store in the switch: a UDP datagram reads or updates the value of a key, and returns with it. What an update returns is kept.
// With `-D PLAIN` values are lost with the switch; otherwise RedPlane keeps them (docs/redplane.md).

#include <core.p4>
#include <v1model.p4>

#define REDPLANE_KEY_WORDS 2
#define REDPLANE_VALUE_WORDS 2
#include <pointsman/redplane.p4>
#include <pointsman/ipv4.p4>

// The UDP port of requests.
const bit<16> PORT = 4793;

const bit<8> READ = 1;
const bit<8> UPDATE = 2;
// Added to the operation in answers.
const bit<8> ANSWER = 0x80;

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> len;
    bit<16> checksum;
}

header request_t {
    bit<8>  operation;
    // Of the client: returns unchanged.
    bit<24> tag;
    bit<64> key;
    bit<64> value;
}

struct headers_t {
    redplane_outer_t outer;
    redplane_t       redplane;
    ethernet_t       ethernet;
    ipv4_t           ipv4;
    udp_t            udp;
    request_t        request;
}

struct metadata_t {
    redplane_meta_t redplane;
}

parser KvParser(packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    RedPlaneParser() redplane;
    bool more;

    state start {
        redplane.apply(packet, hdr.outer, hdr.redplane, more);
        transition select(more) {
            true: parse_ethernet;
            default: accept;
        }
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl_tos[15:8], hdr.ipv4.fragment[12:0], hdr.ipv4.proto) {
            (0x45, 0, 17): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            PORT: parse_request;
            default: accept;
        }
    }

    state parse_request {
        packet.extract(hdr.request);
        transition accept;
    }
}

control KvVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control KvIngress(inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    RedPlaneArrive() arrive;
    RedPlaneFind() find;
    RedPlaneSave() save;
    action forward(bit<9> port, bit<48> mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table routes {
        key = { hdr.ipv4.dst: lpm @name("prefix"); }
        actions = { forward; drop; }
        default_action = drop;
        size = 1024;
    }

    action key_of_packet() {
        meta.redplane.key = hdr.request.key;
    }

    // The application. A key that no update has written has the value 0.
    action answer() {
        bit<48> mac = hdr.ethernet.dst;
        bit<32> address = hdr.ipv4.dst;
        if (hdr.request.operation == UPDATE) {
            meta.redplane.value = hdr.request.value;
        }
        hdr.request.operation = hdr.request.operation | ANSWER;
        hdr.request.value = meta.redplane.value;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = mac;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = address;
        hdr.udp.dst = hdr.udp.src;
        hdr.udp.src = PORT;
        hdr.udp.checksum = 0;
        standard_metadata.egress_spec = meta.redplane.in_port;
    }

    apply {
        arrive.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
        if (meta.redplane.step == REDPLANE_PROGRAM) {
            if (hdr.request.isValid() && (hdr.request.operation == READ || hdr.request.operation == UPDATE)) {
                @atomic {
                    key_of_packet();
                    find.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                    if (meta.redplane.held) {
                        answer();
                        save.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                    }
                }
            } else {
                routes.apply();
            }
        } else if (meta.redplane.step == REDPLANE_OTHER) {
            drop();
        }
    }
}

control KvEgress(inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    RedPlaneDepart() depart;

    apply {
        depart.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
    }
}

control KvCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        REDPLANE_COMPUTE(hdr.outer, hdr.redplane, meta.redplane, hdr.ethernet, hdr.ipv4, hdr.udp, hdr.request);
    }
}

control KvDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer);
        packet.emit(hdr.redplane);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.request);
    }
}

V1Switch(KvParser(), KvVerify(), KvIngress(), KvEgress(), KvCompute(), KvDeparser()) main;
