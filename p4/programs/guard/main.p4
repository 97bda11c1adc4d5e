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

// The objects: the port of an address, plus 1, and the packets between two addresses.
const bit<16> PORTS = 0;
const bit<16> PACKETS = 1;
// A packet whose port is right.
const bit<7> ADMITTED = 1;

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
    apply {}
}

#ifdef PLAIN
// An object whose state is lost with the switch: gives the state of the key at first, and keeps it when it is held.
control PlainObject(inout redplane_meta_t m) {
    register<bit<32>>(REDPLANE_SLOTS) values;

    apply {
        hash(m.index, HashAlgorithm.crc32, 32w0, { m.key }, (bit<64>)REDPLANE_SLOTS);
        if (m.held) {
            values.write(m.index, m.value);
        } else {
            values.read(m.value, m.index);
            m.held = true;
        }
    }
}
#endif

control GuardIngress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
#ifndef PLAIN
    RedPlaneArrive() arrive;
    RedPlaneFind() find;
    RedPlaneSave() save;
#ifdef REDPLANE_SHARED_READS
    RedPlaneClaim() claim;
#endif
#else
    PlainObject() ports;
    PlainObject() packets;
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
#ifdef PLAIN
        meta.redplane.in_port = standard_metadata.ingress_port;
#else
        arrive.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#endif
        if (meta.redplane.step == REDPLANE_OTHER || !hdr.ipv4.isValid() && meta.redplane.step == REDPLANE_PROGRAM) {
            drop();
        } else if (meta.redplane.step == REDPLANE_PROGRAM) @atomic {
            bool admitted = meta.redplane.stage == ADMITTED;
            if (!admitted) {
                meta.redplane.object = PORTS;
                meta.redplane.key = 32w0 ++ hdr.ipv4.src;
#ifdef REDPLANE_SHARED_READS
                meta.redplane.writes = false;
#endif
#ifdef PLAIN
                ports.apply(meta.redplane);
#else
                find.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#endif
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
#ifdef PLAIN
                    ports.apply(meta.redplane);
                    meta.redplane.held = false;
#else
                    save.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#endif
                }
            }
            // A packet whose address was not known comes back when its port is stored.
            if (admitted && meta.redplane.step == REDPLANE_PROGRAM) {
                meta.redplane.object = PACKETS;
                meta.redplane.key = hdr.ipv4.src ++ hdr.ipv4.dst;
#ifdef REDPLANE_SHARED_READS
                meta.redplane.writes = true;
#endif
#ifdef PLAIN
                packets.apply(meta.redplane);
#else
                find.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#endif
                if (meta.redplane.held) {
                    number_packet();
                    routes.apply();
                    meta.redplane.stage = 0;
#ifdef PLAIN
                    packets.apply(meta.redplane);
#else
                    save.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#endif
                }
            }
        }
    }
}

control GuardEgress(inout headers_t hdr,
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

control GuardCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.version_ihl_tos[11:8] == 5,
                        { hdr.ipv4.version_ihl_tos, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
                          hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
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
