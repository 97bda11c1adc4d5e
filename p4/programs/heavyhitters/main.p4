// SPDX-License-Identifier: Apache-2.0
// Finds the flows of a VLAN that send much: a count-min sketch of packets (G. Cormode, S. Muthukrishnan, 2005) for each VLAN, of three rows with 64 counters. From a
// number of packets on, the packets of a flow are marked. With `-D PLAIN` the counts are lost with the switch; otherwise RedPlane replicates them by
// snapshots (docs/redplane.md).

#include <core.p4>
#include <v1model.p4>

#define REDPLANE_KEY_WORDS 1
#ifndef REDPLANE_VALUE_WORDS
#define REDPLANE_VALUE_WORDS 3
#endif
#ifndef REDPLANE_PLACES
#define REDPLANE_PLACES 16
#endif
#ifndef REDPLANE_CELL_BITS
#define REDPLANE_CELL_BITS 6
#endif
#include <pointsman/redplane/snapshot.p4>
#include <pointsman/ipv4.p4>

header tag_t {
    bit<4>  priority;
    bit<12> vlan;
    bit<16> ethertype;
}

struct headers_t {
    generated_t      generated;
    redplane_outer_t outer;
    redplane_t       redplane;
    ethernet_t       ethernet;
    tag_t            tag;
    ipv4_t           ipv4;
    ports_t          ports;
}

struct metadata_t {
    redplane_snapshot_t redplane;
    bit<32>             threshold;
}

parser HeavyParser(packet_in packet,
                   out headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    RedPlaneSnapshotParser() redplane;
    bool more;

    state start {
        redplane.apply(packet, hdr.generated, hdr.outer, hdr.redplane, more, standard_metadata.ingress_port);
        transition select(more) {
            true: parse_ethernet;
            default: accept;
        }
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            0x8100: parse_tag;
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_tag {
        packet.extract(hdr.tag);
        transition select(hdr.tag.ethertype) {
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

control HeavyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        IPV4_VERIFY(true, hdr.ipv4);
    }
}

#ifdef PLAIN
// A row, which is lost with the switch.
control PlainRow(in redplane_snapshot_t m, in bit<32> cell, inout bit<32> value) {
    register<bit<32>>(REDPLANE_PLACES << REDPLANE_CELL_BITS) counts;

    apply {
        bit<32> index = (m.place << REDPLANE_CELL_BITS) + cell;
        bit<32> present;
        counts.read(present, index);
        value = present |+| value;
        counts.write(index, value);
    }
}
#endif

control HeavyIngress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
#ifdef PLAIN
    PlainRow() row0;
    PlainRow() row1;
    PlainRow() row2;
#else
    RedPlaneSnapshotArrive() arrive;
    RedPlaneSnapshotTurn() turn;
    RedPlaneSnapshotArrays() arrays;
    RedPlaneSnapshotSend() send;
#endif
    counter(REDPLANE_PLACES, CounterType.packets) heavy;

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

    // The VLAN's flows are counted in this place; from so many packets on they are heavy.
    action detect(bit<32> place, bit<32> threshold) {
        meta.redplane.place = place;
        meta.redplane.key = 20w0 ++ hdr.tag.vlan;
        meta.redplane.work = REDPLANE_COUNT;
        meta.threshold = threshold;
    }

    table vlans {
        key = { hdr.tag.vlan: exact @name("vlan"); }
        actions = { detect; @defaultonly NoAction; }
        default_action = NoAction;
        size = REDPLANE_PLACES;
    }

    // A cell in each row, from other bits of one hash of the flow.
    action choose_cells() {
        bit<32> flow = 0;
        hash(flow, HashAlgorithm.crc32, 32w0,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ports.src, hdr.ports.dst, hdr.ipv4.proto }, 64w0x100000000);
        meta.redplane.cells = { (bit<32>) flow[REDPLANE_CELL_BITS - 1:0], (bit<32>)flow[REDPLANE_CELL_BITS + 5:6],
                                (bit<32>)flow[REDPLANE_CELL_BITS + 11:12], (bit<32>)flow[REDPLANE_CELL_BITS + 17:18],
                                (bit<32>)flow[REDPLANE_CELL_BITS + 23:24] };
        meta.redplane.values = { 1, 1, 1, 1, 1 };
    }

    // The application: the least of the counts is nearest to the flow's.
    action estimate(out bit<32> least) {
        least = meta.redplane.values.c0;
#if REDPLANE_VALUE_WORDS > 1
        least = meta.redplane.values.c1 < least ? meta.redplane.values.c1 : least;
#endif
#if REDPLANE_VALUE_WORDS > 2
        least = meta.redplane.values.c2 < least ? meta.redplane.values.c2 : least;
#endif
#if REDPLANE_VALUE_WORDS > 3
        least = meta.redplane.values.c3 < least ? meta.redplane.values.c3 : least;
#endif
#if REDPLANE_VALUE_WORDS > 4
        least = meta.redplane.values.c4 < least ? meta.redplane.values.c4 : least;
#endif
    }

    apply {
        meta.redplane.work = 0;
#ifndef PLAIN
        arrive.apply(hdr.generated, hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#endif
        bool mine = meta.redplane.step == REDPLANE_PROGRAM && standard_metadata.checksum_error == 0;
        if (mine) {
            routes.apply();
            if (hdr.tag.isValid() && hdr.ports.isValid()) {
                choose_cells();
                vlans.apply();
            }
        } else if (meta.redplane.step == REDPLANE_PROGRAM || meta.redplane.step == REDPLANE_OTHER) {
            drop();
        }
#ifdef PLAIN
        if (meta.redplane.work == REDPLANE_COUNT) {
            @atomic {
                row0.apply(meta.redplane, meta.redplane.cells.c0, meta.redplane.values.c0);
                row1.apply(meta.redplane, meta.redplane.cells.c1, meta.redplane.values.c1);
                row2.apply(meta.redplane, meta.redplane.cells.c2, meta.redplane.values.c2);
            }
            meta.redplane.held = true;
        }
#else
        @atomic {
            turn.apply(hdr.outer, hdr.redplane, meta.redplane);
            arrays.apply(meta.redplane);
        }
        send.apply(hdr.redplane, meta.redplane, standard_metadata);
#endif
        if (mine && meta.redplane.held) {
            bit<32> least;
            estimate(least);
            if (least >= meta.threshold) {
                // A packet of the program's own: its place is that of its VLAN.
                @noWarn("index_out_of_range") {
                    heavy.count(meta.redplane.place);
                }
                hdr.ipv4.version_ihl_tos[7:0] = 0x20;
            }
        }
    }
}

control HeavyEgress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
#ifndef PLAIN
    RedPlaneSnapshotDepart() depart;
#endif

    apply {
#ifndef PLAIN
        depart.apply(hdr.outer, hdr.redplane, meta.redplane);
#endif
    }
}

control HeavyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        IPV4_COMPUTE(hdr.ipv4);
        REDPLANE_COMPUTE(hdr.outer, hdr.redplane, meta.redplane);
    }
}

control HeavyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer);
        packet.emit(hdr.redplane);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.tag);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

V1Switch(HeavyParser(), HeavyVerify(), HeavyIngress(), HeavyEgress(), HeavyCompute(), HeavyDeparser()) main;
