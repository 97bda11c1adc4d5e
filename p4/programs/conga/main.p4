// SPDX-License-Identifier: Apache-2.0
// CONGA, for leaves and spines alike: data packets between leaves carry an overlay header, in which switches note the most loaded line of the
// path. The destination's leaf reports it to the source's leaf, on packets the other way, and each new flowlet takes the uplink whose path
// is least loaded.

#include <core.p4>
#include <v1model.p4>
#include <pointsman/fabric/headers.p4>

// The second experimental type of IEEE 802.
const bit<16> ETHERTYPE_OVERLAY = 0x88b6;
// Between Ethernet and IP, on packets from leaf to leaf.
header overlay_t {
    // The leaf that added it, from 1, and the uplink that it chose, 0 to 7.
    bit<16> leaf;
    bit<8>  uplink;
    // The load of the most loaded line after that uplink, in eighths.
    bit<8>  congestion;
    // For the destination's leaf: the load of the path behind this uplink of it. NO_FEEDBACK: nothing.
    bit<8>  feedback_uplink;
    bit<8>  feedback;
    // Of what follows.
    bit<16> ethertype;
}
const bit<8> NO_FEEDBACK = 255;

struct headers_t {
    ethernet_t ethernet;
    note_t     note;
    overlay_t  overlay;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
    ports_t    ports;
}

struct metadata_t {
    fabric_t  fabric;
    way_t     way;
    flowlet_t flowlet;
    load_t    load;
    // The destination's leaf, if it is another one; 0 is none.
    bit<24>   tor;
    port_t    hop;
    // This leaf, 0 on other switches, and how many uplinks leaves have.
    bit<16>   own;
    bit<8>    uplinks;
    // Uplink N has port N of these.
    bit<72>   ports;
    // A bit for each uplink that leads to the destination's leaf.
    bit<8>    usable;
    // How long the reports of another leaf count.
    bit<32>   max_age;
    // The other leaf of this packet's path.
    bit<16>   peer;
    // From-Leaf: four bits for each uplink of the peer, and the uplink whose turn it is.
    bit<64>   from;
    // To-Leaf, of one uplink.
    bit<64>   to;
    bit<8>    own_load;
    bit<8>    far_load;
    // The least loaded so far.
    bit<16>   cost;
    bit<8>    uplink;
    bit<32>   drawn;
    bit<8>    place;
}

#include <pointsman/fabric/checksum.p4>
#include <pointsman/fabric/mark.p4>

parser CongaParser(packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_OVERLAY: parse_overlay;
            ETHERTYPE_NOTE: parse_note;
            default: accept;
        }
    }

    state parse_note {
        packet.extract(hdr.note);
        transition select(hdr.note.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_OVERLAY: parse_overlay;
            default: accept;
        }
    }

    state parse_overlay {
        packet.extract(hdr.overlay);
        transition select(hdr.overlay.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    #include <pointsman/fabric/parse_ip.p4>
}

control CongaIngress(inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    #include <pointsman/fabric/routes.p4>
    #include <pointsman/fabric/notices.p4>
    #include <pointsman/fabric/flowlets.p4>
    #include <pointsman/fabric/load.p4>
    #include <pointsman/fabric/tors.p4>

    // By leaf: what its packets say of its uplinks. Four bits for each, "new" and the load; from bit 32 on the uplink whose turn it is.
    register<bit<64>>(1024) from_leaf;
    // By leaf and own uplink: time of the last report of the path's load, 8 bits that are not used, and the load.
    register<bit<64>>(8192) to_leaf;
    // Overlay headers that were dropped: from a host, of an unknown leaf, with an impossible uplink or load.
    counter(3, CounterType.packets) bad_overlays;

    action set_leaf(bit<16> leaf, bit<8> uplinks, bit<72> ports, bit<32> max_age) {
        meta.own = leaf;
        meta.uplinks = uplinks;
        meta.ports = ports;
        meta.max_age = max_age;
    }

    table leaf_config {
        actions = { set_leaf; }
        default_action = set_leaf(0, 1, 0, 0);
        size = 1;
    }

    // The ports from which overlay headers are taken: those to other switches.
    table fabric_ports {
        key = { standard_metadata.ingress_port: exact @name("port"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 512;
    }

    table leaves {
        key = { hdr.overlay.leaf: exact @name("leaf"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action set_usable(bit<8> uplinks) {
        meta.usable = uplinks;
    }

    table usable {
        key = { meta.tor: exact @name("leaf"); }
        actions = { set_usable; @defaultonly NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // The load in eighths of the line's rate.
    action quantise() {
        meta.own_load = meta.load.utilisation > 223 ? 8w7 : (bit<8>)(meta.load.utilisation >> 5);
    }

    // The uplink with the least of: whether its way is broken, load, whether it is another uplink than before, a drawn number.
    action consider(bit<3> uplink, port_t port, bit<4> drawn) {
        read_load(port);
        quantise();
        to_leaf.read(meta.to, (bit<32>)(meta.peer ++ uplink));
        meta.far_load = standard_metadata.ingress_global_timestamp - meta.to[63:16] > (bit<48>) meta.max_age
            ? 8w0
            : meta.to[7:0];
        meta.own_load = meta.far_load > meta.own_load ? meta.far_load : meta.own_load;
        bit<1> moves = meta.flowlet.mine && meta.flowlet.choice == 13w0 ++ uplink + 1 ? 1w0 : 1w1;
        bit<1> avoided = meta.way.tries != 0 ? ~moves : 1w0;
        bit<16> cost = 7w0 ++ avoided ++ meta.own_load[2:0] ++ moves ++ drawn;
        meta.uplink = cost < meta.cost ? 5w0 ++ uplink : meta.uplink;
        meta.cost = cost < meta.cost ? cost : meta.cost;
    }

    // What this packet says of the path that it took, and of one of this leaf's uplinks.
    action learn() {
        meta.place = hdr.overlay.uplink << 2;
        meta.from = meta.from & ~(64w15 << meta.place) | (64w8 | (bit<64>)hdr.overlay.congestion) << meta.place;
        from_leaf.write((bit<32>)meta.peer, meta.from);
    }

    action learn_feedback() {
        to_leaf.write((bit<32>)(meta.peer ++ hdr.overlay.feedback_uplink[2:0]),
                      standard_metadata.ingress_global_timestamp ++ 8w0 ++ hdr.overlay.feedback);
    }

    // Reports one of the peer's uplinks to it, in turn, if its load is new.
    action report() {
        bit<8> turn = meta.from[39:32];
        meta.place = turn << 2;
        bit<4> news = (meta.from >> meta.place)[3:0];
        hdr.overlay.feedback_uplink = news[3:3] == 1 ? turn : NO_FEEDBACK;
        hdr.overlay.feedback = news[3:3] == 1 ? 5w0 ++ news[2:0] : 8w0;
        meta.from = 24w0 ++ (turn + 1 < meta.uplinks ? turn + 1 : 8w0) ++ (meta.from & ~(64w8 << meta.place))[31:0];
        from_leaf.write((bit<32>)meta.peer, meta.from);
    }

    action add_overlay() {
        hdr.overlay.setValid();
        hdr.overlay.leaf = meta.own;
        hdr.overlay.uplink = meta.uplink;
        hdr.overlay.congestion = 0;
        hdr.overlay.ethertype = hdr.ethernet.ethertype;
        hdr.ethernet.ethertype = ETHERTYPE_OVERLAY;
    }

    action remove_overlay() {
        hdr.ethernet.ethertype = hdr.overlay.ethertype;
        hdr.overlay.setInvalid();
    }

    apply {
        if (standard_metadata.parser_error != error.NoError || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        switch_config.apply();
        leaf_config.apply();
        load_config.apply();
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
        if (hdr.overlay.isValid()) {
            if (!fabric_ports.apply().hit) {
                bad_overlays.count(0);
                exit;
            } else if (!leaves.apply().hit) {
                bad_overlays.count(1);
                exit;
            } else if (hdr.overlay.uplink > 7 || hdr.overlay.congestion > 7
                       || hdr.overlay.feedback_uplink != NO_FEEDBACK
                       && (hdr.overlay.feedback_uplink > 7 || hdr.overlay.feedback > 7)) {
                bad_overlays.count(2);
                exit;
            }
        }
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            start_v4();
            tors_v4.apply();
        } else if (hdr.ipv6.isValid() && hdr.ipv6.hop_limit > 1) {
            start_v6();
            tors_v6.apply();
        } else {
            exit;
        }
        bool arrives = hdr.overlay.isValid() && meta.own != 0 && meta.tor == 0;
        bool departs = !hdr.overlay.isValid() && meta.own != 0 && meta.tor != 0;
        if (arrives || departs) {
            meta.peer = arrives ? hdr.overlay.leaf : meta.tor[15:0];
            // The number of a leaf is one that the controller gave.
            @noWarn("index_out_of_range") {
                from_leaf.read(meta.from, (bit<32>)meta.peer);
            }
        }
        if (arrives) {
            learn();
            if (hdr.overlay.feedback_uplink != NO_FEEDBACK) {
                learn_feedback();
            }
            remove_overlay();
        } else if (departs) {
            flowlet_config.apply();
            find_flowlet();
            if (!meta.flowlet.taken) {
                if (!meta.flowlet.live || meta.way.tries != 0) {
                    usable.apply();
                    random(meta.drawn, 32w0, 32w0xffffffff);
                    meta.cost = 512;
                    if (meta.usable[0:0] == 1) {
                        consider(0, meta.ports[8:0], meta.drawn[3:0]);
                    }
                    if (meta.usable[1:1] == 1) {
                        consider(1, meta.ports[17:9], meta.drawn[7:4]);
                    }
                    if (meta.usable[2:2] == 1) {
                        consider(2, meta.ports[26:18], meta.drawn[11:8]);
                    }
                    if (meta.usable[3:3] == 1) {
                        consider(3, meta.ports[35:27], meta.drawn[15:12]);
                    }
                    if (meta.usable[4:4] == 1) {
                        consider(4, meta.ports[44:36], meta.drawn[19:16]);
                    }
                    if (meta.usable[5:5] == 1) {
                        consider(5, meta.ports[53:45], meta.drawn[23:20]);
                    }
                    if (meta.usable[6:6] == 1) {
                        consider(6, meta.ports[62:54], meta.drawn[27:24]);
                    }
                    if (meta.usable[7:7] == 1) {
                        consider(7, meta.ports[71:63], meta.drawn[31:28]);
                    }
                    // 0 is none: routes decide.
                    meta.flowlet.choice = meta.cost == 512 ? 16w0 : 8w0 ++ meta.uplink + 1;
                }
                keep_flowlet();
                meta.uplink = meta.flowlet.choice[7:0] - 1;
                if (meta.flowlet.choice != 0) {
                    meta.hop = (meta.ports >> 9 * meta.uplink)[8:0];
                    hops.apply();
                }
                if (meta.fabric.forwarded) {
                    add_overlay();
                }
            }
        }
        if (!meta.fabric.forwarded) {
            next_try();
            if (hdr.ipv4.isValid()) {
                routes_v4.apply();
            } else {
                routes_v6.apply();
            }
        }
        if (meta.fabric.forwarded) {
            check_way();
            if (meta.way.broken && meta.way.tries != MOST_TRIES) {
                try_again();
                exit;
            }
        } else if (meta.way.from == FROM_BELOW) {
            send_notice();
            exit;
        }
        if (departs && hdr.overlay.isValid()) {
            report();
        }
        if (lines.apply().hit) {
            add_load(standard_metadata.egress_spec);
            // The source's leaf knows its own uplinks better.
            if (hdr.overlay.isValid() && !departs) {
                quantise();
                hdr.overlay.congestion = meta.own_load > hdr.overlay.congestion ? meta.own_load : hdr.overlay.congestion;
            }
        }
    }
}

control CongaDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.note);
        packet.emit(hdr.overlay);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.ports);
    }
}

V1Switch(CongaParser(), FabricVerify(), CongaIngress(), FabricEgress(), FabricCompute(), CongaDeparser()) main;
