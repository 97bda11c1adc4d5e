// SPDX-License-Identifier: Apache-2.0
// Two choices and two classes, for switches of all tiers. Each packet from leaf to leaf draws two uplinks and takes the one whose path is less
// loaded: leaves know the load of their own lines, and report that of the others to each other on data packets, as CONGA does. The first
// bytes of a flow are of a class that is sent first.

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
    overlay_t  overlay;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
    ports_t    ports;
}

struct metadata_t {
    fabric_t  fabric;
    load_t    load;
    // The destination's leaf, if it is another one; 0 is none.
    bit<24>   tor;
    port_t    hop;
    // This leaf, 0 on other switches, and how many uplinks leaves have.
    bit<16>   own;
    bit<8>    uplinks;
    // How long the reports of another leaf count.
    bit<32>   max_age;
    // The uplinks that lead to the destination's leaf: how many, and three bits for each, from the lowest.
    bit<16>   ways;
    bit<24>   numbers;
    // Nine bits for the port of each of this leaf's uplinks, from the lowest.
    bit<72>   ports;
    // The other leaf of this packet's path.
    bit<16>   peer;
    // From-Leaf: four bits for each uplink of the peer, and the uplink whose turn it is.
    bit<64>   from;
    // To-Leaf, of one uplink.
    bit<64>   to;
    // In 256ths.
    bit<16>   far_load;
    bit<16>   first_load;
    bit<16>   second_load;
    // Whether the last report of an uplink does not count any more.
    bit<1>    aged;
    bit<1>    first_aged;
    bit<8>    first;
    bit<8>    uplink;
    bit<8>    own_load;
    bit<32>   drawn;
    bit<8>    place;
    // The packet is among the first bytes of its flow.
    bool      is_first;
}

#include <pointsman/fabric/checksum.p4>
#include <pointsman/fabric/mark.p4>

parser OursParser(packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
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

control OursIngress(inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    #include <pointsman/fabric/routes.p4>
    #include <pointsman/fabric/load.p4>
    #include <pointsman/fabric/tors.p4>
    #include <pointsman/fabric/classes.p4>

    // By leaf: what its packets say of its uplinks. Four bits for each, "new" and the load; from bit 32 on the uplink whose turn it is.
    register<bit<64>>(1024) from_leaf;
    // By leaf and own uplink: time of the last report of the path's load, 8 bits that are not used, and the load. 8: time of a packet that
    // tries the path.
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

    action set_ways(bit<16> ways, bit<24> numbers) {
        meta.ways = ways;
        meta.numbers = numbers;
    }

    table ways {
        key = { meta.tor: exact @name("leaf"); }
        actions = { set_ways; @defaultonly NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // The load in eighths of the line's rate.
    action quantise() {
        meta.own_load = meta.load.utilisation > 223 ? 8w7 : (bit<8>)(meta.load.utilisation >> 5);
    }

    // The uplink that has this place among those that lead to the leaf, and the load of the most loaded line of its path.
    action consider(bit<16> place) {
        meta.place = (bit<8>)place;
        meta.uplink = (bit<8>)(meta.numbers >> 3 * meta.place)[2:0];
        meta.hop = (meta.ports >> 9 * meta.uplink)[8:0];
        read_load(meta.hop);
        to_leaf.read(meta.to, (bit<32>)(meta.peer ++ meta.uplink[2:0]));
        meta.aged = standard_metadata.ingress_global_timestamp - meta.to[63:16] > (bit<48>) meta.max_age ? 1w1 : 1w0;
        meta.far_load = meta.aged == 1 ? 16w0 : 8w0 ++ meta.to[2:0] ++ 5w0;
        meta.far_load = meta.far_load > meta.load.utilisation ? meta.far_load : meta.load.utilisation;
        // Above all loads: a packet was sent there, and no report has come back.
        meta.far_load = meta.aged == 0 && meta.to[3:3] == 1 ? meta.far_load + 512 : meta.far_load;
    }

    // Two different uplinks at random, if there are two: the less loaded one.
    action choose() {
        random(meta.drawn, 32w0, 32w0xffffffff);
        bit<16> one = (bit<16>)((bit<32>)meta.drawn[15:0] * (bit<32>)meta.ways >> 16);
        bit<16> other = one + 1 + (bit<16>)((bit<32>)meta.drawn[31:16] * (bit<32>)(meta.ways - 1) >> 16);
        consider(one);
        meta.first = meta.uplink;
        meta.first_load = meta.far_load;
        meta.first_aged = meta.aged;
        consider(other < meta.ways ? other : other - meta.ways);
        meta.second_load = meta.far_load;
        meta.aged = meta.second_load < meta.first_load ? meta.aged : meta.first_aged;
        meta.uplink = meta.second_load < meta.first_load ? meta.uplink : meta.first;
        meta.hop = (meta.ports >> 9 * meta.uplink)[8:0];
        // Without a report that counts, one packet tries the path; others avoid it until a report comes back, or for as long as that would count.
        to_leaf.read(meta.to, (bit<32>)(meta.peer ++ meta.uplink[2:0]));
        to_leaf.write((bit<32>)(meta.peer ++ meta.uplink[2:0]),
                      meta.aged == 1 ? standard_metadata.ingress_global_timestamp ++ 16w8 : meta.to);
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
        // Without a route, the packet is dropped.
        drop();
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
        class_config.apply();
        standard_metadata.priority = meta.is_first ? 3w1 : 3w0;
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
            ways.apply();
            if (meta.ways != 0) {
                choose();
                hops.apply();
            }
            if (meta.fabric.forwarded) {
                add_overlay();
                report();
            }
        }
        if (!meta.fabric.forwarded) {
            // Other switches than leaves spread packets at random.
            random(meta.fabric.hash, 32w0, 32w0xffffffff);
            if (hdr.ipv4.isValid()) {
                routes_v4.apply();
            } else {
                routes_v6.apply();
            }
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

control OursDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.overlay);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.ports);
    }
}

V1Switch(OursParser(), FabricVerify(), OursIngress(), FabricEgress(), FabricCompute(), OursDeparser()) main;
