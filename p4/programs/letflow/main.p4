// SPDX-License-Identifier: Apache-2.0
// Flowlets at random, for leaves and spines alike: the longest prefix names a next hop or a group of them, and a number that is drawn
// for each flowlet chooses within the group.

#include <core.p4>
#include <v1model.p4>
#include <pointsman/fabric/headers.p4>

struct headers_t {
    ethernet_t ethernet;
    note_t     note;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
    ports_t    ports;
}

struct metadata_t {
    fabric_t  fabric;
    way_t     way;
    flowlet_t flowlet;
}

#include <pointsman/fabric/checksum.p4>
#include <pointsman/fabric/mark.p4>

parser LetflowParser(packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_NOTE: parse_note;
            default: accept;
        }
    }

    state parse_note {
        packet.extract(hdr.note);
        transition select(hdr.note.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    #include <pointsman/fabric/parse_ip.p4>
}

control LetflowIngress(inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    #include <pointsman/fabric/routes.p4>
    #include <pointsman/fabric/notices.p4>
    #include <pointsman/fabric/flowlets.p4>

    // The number is kept, not the port: if a port of the group goes down, the same number means another one.
    action choose() {
        find_flowlet();
        bit<16> drawn;
        random(drawn, 16w0, 16w0xffff);
        meta.flowlet.choice = meta.flowlet.live ? meta.flowlet.choice : drawn;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        switch_config.apply();
        notice_config.apply();
        neighbours.apply();
        // Without a route, the packet is dropped.
        drop();
        if (hdr.note.isValid()) {
            if (hdr.note.kind == NOTE_BROKEN && meta.way.from == FROM_ABOVE) {
                keep_notice();
            } else {
                refuse_note();
            }
            exit;
        }
        recall_ways();
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            start_v4();
        } else if (hdr.ipv6.isValid() && hdr.ipv6.hop_limit > 1) {
            start_v6();
        } else {
            exit;
        }
        flowlet_config.apply();
        choose();
        if (!meta.flowlet.taken) {
            keep_flowlet();
            meta.fabric.hash = (bit<32>)meta.flowlet.choice;
        }
        next_try();
        if (hdr.ipv4.isValid()) {
            routes_v4.apply();
        } else {
            routes_v6.apply();
        }
        if (meta.fabric.forwarded) {
            check_way();
            if (meta.way.broken && meta.way.tries != MOST_TRIES) {
                try_again();
            }
        } else if (meta.way.from == FROM_BELOW) {
            send_notice();
        }
    }
}

control LetflowDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.note);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.ports);
    }
}

V1Switch(LetflowParser(), FabricVerify(), LetflowIngress(), FabricEgress(), FabricCompute(), LetflowDeparser()) main;
