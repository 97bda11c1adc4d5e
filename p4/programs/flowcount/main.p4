// SPDX-License-Identifier: Apache-2.0
// Counts the packets of each flow, and writes the number of a packet into the identification of its IPv4 header: a state that every packet changes.
// With `-D PLAIN` the counts are lost with the switch; otherwise RedPlane keeps them (docs/redplane.md).

#include <core.p4>
#include <v1model.p4>

#define REDPLANE_KEY_WORDS 4
#define REDPLANE_VALUE_WORDS 1
#include <pointsman/redplane.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<16> version_ihl_tos;
    bit<16> len;
    bit<16> id;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ports_t {
    bit<16> src;
    bit<16> dst;
}

struct headers_t {
    redplane_outer_t outer;
    redplane_t       redplane;
    ethernet_t       ethernet;
    ipv4_t           ipv4;
    ports_t          ports;
}

struct metadata_t {
    redplane_meta_t redplane;
}

parser CountParser(packet_in packet,
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
            (0x45, 0, 6): parse_ports;
            (0x45, 0, 17): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control CountVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control CountIngress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
#ifdef PLAIN
    register<bit<32>>(REDPLANE_SLOTS) counts;
#else
    RedPlaneArrive() arrive;
    RedPlaneFind() find;
    RedPlaneSave() save;
#ifdef REDPLANE_SHARED_READS
    RedPlaneClaim() claim;
#endif
#endif

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
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

    // The application.
    action count_packet() {
        // Packets with a type of service only show the count.
        meta.redplane.value = meta.redplane.value + (hdr.ipv4.version_ihl_tos[7:0] == 0 ? 32w1 : 0);
        hdr.ipv4.id = meta.redplane.value[15:0];
    }

    apply {
#ifndef PLAIN
        arrive.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#endif
        if (meta.redplane.step == REDPLANE_PROGRAM) {
            if (hdr.ports.isValid()) {
                @atomic {
                    meta.redplane.key =
                        hdr.ipv4.src ++ hdr.ipv4.dst ++ hdr.ports.src ++ hdr.ports.dst ++ 24w0 ++ hdr.ipv4.proto;
#ifdef PLAIN
                    hash(meta.redplane.index, HashAlgorithm.crc32, 32w0, { meta.redplane.key }, (bit<64>)REDPLANE_SLOTS);
                    counts.read(meta.redplane.value, meta.redplane.index);
                    count_packet();
                    counts.write(meta.redplane.index, meta.redplane.value);
                    routes.apply();
#else
#ifdef REDPLANE_SHARED_READS
                    meta.redplane.writes = hdr.ipv4.version_ihl_tos[7:0] == 0;
#endif
                    find.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                    if (meta.redplane.held) {
                        count_packet();
#ifdef REDPLANE_SHARED_READS
                        // The number in the packet is replaced when it comes again.
                        claim.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                    }
                    if (meta.redplane.held) {
#endif
                        routes.apply();
                        save.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                    }
#endif
                }
            } else {
                drop();
            }
        } else if (meta.redplane.step == REDPLANE_OTHER) {
            drop();
        }
    }
}

control CountEgress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
#ifndef PLAIN
    RedPlaneDepart() depart;
#endif

    apply {
#ifndef PLAIN
        depart.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#endif
    }
}

control CountCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.version_ihl_tos[11:8] == 5,
                        { hdr.ipv4.version_ihl_tos, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
                          hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
        REDPLANE_COMPUTE(hdr.outer, hdr.redplane, meta.redplane, hdr.ethernet, hdr.ipv4, hdr.ports);
    }
}

control CountDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer);
        packet.emit(hdr.redplane);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

V1Switch(CountParser(), CountVerify(), CountIngress(), CountEgress(), CountCompute(), CountDeparser()) main;
