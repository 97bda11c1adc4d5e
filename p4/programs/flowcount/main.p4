// SPDX-License-Identifier: Apache-2.0
// Counts the packets of each flow, and writes the number of a packet into the identification of its IPv4 header: a state that every packet changes.
// With `-D PLAIN` the counts are lost with the switch; otherwise RedPlane keeps them (docs/redplane.md).

#include <core.p4>
#include <v1model.p4>

#define REDPLANE_KEY_WORDS 4
#define REDPLANE_VALUE_WORDS 1
#include <pointsman/redplane.p4>
#include <pointsman/ipv4.p4>

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
    apply {
        IPV4_VERIFY(true, hdr.ipv4);
    }
}

control CountIngress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    RedPlaneArrive() arrive;
    RedPlaneFind() find;
    RedPlaneSave() save;
#ifdef REDPLANE_SHARED_READS
    RedPlaneClaim() claim;
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
        arrive.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
        if (meta.redplane.step == REDPLANE_PROGRAM) {
            if (hdr.ports.isValid() && standard_metadata.checksum_error == 0) {
                @atomic {
                    meta.redplane.key =
                        hdr.ipv4.src ++ hdr.ipv4.dst ++ hdr.ports.src ++ hdr.ports.dst ++ 24w0 ++ hdr.ipv4.proto;
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
    RedPlaneDepart() depart;

    apply {
        depart.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
    }
}

control CountCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        IPV4_COMPUTE(hdr.ipv4);
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
