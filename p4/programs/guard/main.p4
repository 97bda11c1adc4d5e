// SPDX-License-Identifier: Apache-2.0
// An address belongs to the port by which its first packet came: packets from it by other ports are refused. Packets between two addresses are counted, and carry
// their number in the identification of the IPv4 header. Two protected objects: a state that changes once, and one that every packet changes.
// With `-D PLAIN` both are lost with the switch; otherwise RedPlane keeps them (docs/redplane.md). With `-D REDPLANE_SHARED_READS` several switches may know the port
// of an address at the same time.

#include <core.p4>
#include <v1model.p4>

#define REDPLANE_OBJECTS 2
#define REDPLANE_KEY_WORDS 2
#define REDPLANE_VALUE_WORDS 1
#include <pointsman/redplane.p4>
#include <pointsman/ipv4.p4>

// The objects: the port of an address, plus 1, and the packets between two addresses.
const bit<16> PORTS = 0;
const bit<16> PACKETS = 1;
// A packet whose port is right.
const bit<7> ADMITTED = 1;

struct headers_t {
    redplane_outer_t outer;
    redplane_t       redplane;
    ethernet_t       ethernet;
    ipv4_t           ipv4;
}

struct metadata_t {
    redplane_meta_t redplane;
}

parser GuardParser(packet_in packet,
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
        transition accept;
    }
}

control GuardVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        IPV4_VERIFY(true, hdr.ipv4);
    }
}

control GuardIngress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    RedPlaneArrive() arrive;
    RedPlaneFind() find;
    RedPlaneSave() save;
#ifdef REDPLANE_SHARED_READS
    RedPlaneClaim() claim;
#endif
    // Packets by another port than that of their address.
    counter(1, CounterType.packets) refused;

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

    // The first object.
    action admit(out bool admitted) {
        bit<32> own = (23w0 ++ meta.redplane.in_port) + 1;
        meta.redplane.value = meta.redplane.value == 0 ? own : meta.redplane.value;
        admitted = meta.redplane.value == own;
    }

    // The second one.
    action number_packet() {
        meta.redplane.value = meta.redplane.value + 1;
        hdr.ipv4.id = meta.redplane.value[15:0];
    }

    apply {
        arrive.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
        bool is_whole = hdr.ipv4.isValid() && standard_metadata.checksum_error == 0;
        if (meta.redplane.step == REDPLANE_OTHER || meta.redplane.step == REDPLANE_PROGRAM && !is_whole) {
            drop();
        } else if (meta.redplane.step == REDPLANE_PROGRAM) @atomic {
            bool admitted = meta.redplane.stage == ADMITTED;
            if (!admitted) {
                meta.redplane.object = PORTS;
                meta.redplane.key = 32w0 ++ hdr.ipv4.src;
#ifdef REDPLANE_SHARED_READS
                meta.redplane.writes = false;
#endif
                find.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                if (meta.redplane.held) {
                    admit(admitted);
#ifdef REDPLANE_SHARED_READS
                    claim.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                }
                if (meta.redplane.held) {
#endif
                    if (!admitted) {
                        // The packet ends: it does not come to the look-up of the second object.
                        @repeatable {
                            refused.count(0);
                        }
                        drop();
                    }
                    meta.redplane.stage = ADMITTED;
                    save.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                }
            }
            // A packet whose address was not known comes back when its port is stored.
            if (admitted && meta.redplane.step == REDPLANE_PROGRAM) {
                meta.redplane.object = PACKETS;
                meta.redplane.key = hdr.ipv4.src ++ hdr.ipv4.dst;
#ifdef REDPLANE_SHARED_READS
                meta.redplane.writes = true;
#endif
                find.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                if (meta.redplane.held) {
                    number_packet();
                    routes.apply();
                    meta.redplane.stage = 0;
                    save.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                }
            }
        }
    }
}

control GuardEgress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    RedPlaneDepart() depart;

    apply {
        depart.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
    }
}

control GuardCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        IPV4_COMPUTE(hdr.ipv4);
        REDPLANE_COMPUTE(hdr.outer, hdr.redplane, meta.redplane, hdr.ethernet, hdr.ipv4);
    }
}

control GuardDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer);
        packet.emit(hdr.redplane);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(GuardParser(), GuardVerify(), GuardIngress(), GuardEgress(), GuardCompute(), GuardDeparser()) main;
