// SPDX-License-Identifier: Apache-2.0
// P4TE: monitoring in the switches, routing groups by queue depth and by utilisation, paths chosen for each flowlet ("P4TE: PISA
// Switch Based Traffic Engineering in Fat-Tree Data Center Networks", Computer Networks 2022), and flows slowed down where they congest
// a port. One program for leaves and spines.

#include <core.p4>
#include <v1model.p4>
#include <pointsman/fabric/headers.p4>

// Reserved for experiments (IEEE 802).
const bit<16> ETHERTYPE_EVENT = 0x88b6;

// The packet generator's packets come in as from this port: ticks, events that name a port which they are to go through.
const port_t GENERATOR_PORT = 0;

const bit<32> RECIRCULATED = 4;
const bit<32> EGRESS_CLONE = 2;

// The clone session of events, and what is kept for its copies.
const bit<32> EVENT_SESSION = 1;
const bit<8> EVENT_FIELDS = 1;
const bit<32> EVENT_BYTES = 22;

// Colours of a meter (RFC 2698).
const bit<8> GREEN = 0;

// What egress reports of a port, to ingress and to the controller.
header event_t {
    bit<16> port;
    // Of its rate.
    bit<8>  colour;
    // Of its queue: a number of ranges.
    bit<8>  level;
    // Packets in its queue.
    bit<32> depth;
}

struct headers_t {
    ethernet_t ethernet;
    event_t    event;
    note_t     note;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
    ports_t    ports;
    tcp_t      tcp;
    stamps_t   stamps;
    word_t[10] options;
}

struct metadata_t {
    fabric_t fabric;
    flowlet_t flowlet;
    rate_t   rate;
    port_t   controller;
    bit<6>   dscp;
    // Whether the flow is one of the large ones, and the packet among its first bytes.
    bool     large;
    bool     is_first;
    // The set of ports that lead upwards to the destination; 0 if it is below.
    bit<16>  paths;
    // What chooses within their groups: another number for each packet.
    bit<32>  draw;
    // What the two tables offer.
    port_t   low_depth;
    port_t   low_rate;
    // Of the egress port, for an event.
    @field_list(1)
    bit<16>  event_port;
    @field_list(1)
    bit<8>   event_colour;
    @field_list(1)
    bit<8>   event_level;
    @field_list(1)
    bit<32>  event_depth;
    // For the copy: a verdict instead of an event.
    @field_list(1)
    bit<8>   verdict;
    bool     depth_event;
    bool     colour_event;
    // 0 for ports without events.
    bit<32>  delta;
}

#include <pointsman/fabric/checksum.p4>
#include <pointsman/fabric/mark.p4>
#include <pointsman/fabric/rates.p4>

#define FABRIC_TCP parse_tcp

parser P4teParser(packet_in packet,
                  out headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_EVENT: parse_event;
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

    state parse_event {
        packet.extract(hdr.event);
        transition accept;
    }

    #include <pointsman/fabric/parse_ip.p4>
    #include <pointsman/fabric/parse_tcp.p4>
}

control P4teIngress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    #include <pointsman/fabric/routes.p4>
    #include <pointsman/fabric/flowlets.p4>
    #include <pointsman/fabric/classes.p4>

    FabricRates() rates;

    // Members are ports, without what a next hop needs: that is in `hops`.
    action_selector(HashAlgorithm.identity, 1024, 32) low_depth_ports;
    action_selector(HashAlgorithm.identity, 1024, 32) low_rate_ports;

    // The colour of each port, as of its last event.
    register<bit<8>>(512) colours;
    // 0: events from elsewhere.
    counter(1, CounterType.packets) foreign;

    action set_controller(port_t port) {
        meta.controller = port;
    }

    // The port to the controller.
    table event_config {
        actions = { set_controller; }
        default_action = set_controller(0);
        size = 1;
    }

    action is_large() {
        meta.large = true;
    }

    action is_short() {}

    table classes {
        key = { meta.dscp: exact @name("dscp"); }
        actions = { is_large; is_short; }
        default_action = is_short();
        size = 64;
    }

    action up(bit<16> paths) {
        meta.paths = paths;
    }

    action down() {}

    table upward_v4 {
        key = { hdr.ipv4.dst: lpm @name("prefix"); }
        actions = { up; down; }
        default_action = down();
        size = 16384;
    }

    table upward_v6 {
        key = { hdr.ipv6.dst: lpm @name("prefix"); }
        actions = { up; down; }
        default_action = down();
        size = 16384;
    }

    action offer_low_depth(port_t port) {
        meta.low_depth = port;
    }

    action offer_low_rate(port_t port) {
        meta.low_rate = port;
    }

    table up_by_depth {
        key = {
            meta.paths: exact @name("paths");
            meta.draw: selector;
        }
        actions = { offer_low_depth; }
        implementation = low_depth_ports;
        size = 1024;
    }

    table up_by_rate {
        key = {
            meta.paths: exact @name("paths");
            meta.draw: selector;
        }
        actions = { offer_low_rate; }
        implementation = low_rate_ports;
        size = 1024;
    }

    // By set and port: a running flowlet leaves a port that no longer leads to its destination.
    table hops {
        key = {
            meta.paths: exact @name("paths");
            meta.flowlet.choice: exact @name("port");
            meta.fabric.hash: selector;
        }
        actions = { forward; drop; }
        implementation = next_hops;
        size = 4096;
    }

    // Algorithm 2: a new flowlet of a short flow takes the port with the least queue unless its colour is not green, one of a large
    // flow the least used port unless even that is not green.
    action choose() {
        bit<8> of_depth;
        bit<8> of_rate;
        colours.read(of_depth, (bit<32>)meta.low_depth);
        colours.read(of_rate, (bit<32>)meta.low_rate);
        meta.flowlet.choice = (bit<16>)(meta.large
            ? (of_rate == GREEN ? meta.low_rate : meta.low_depth)
            : (of_depth == GREEN ? meta.low_depth : meta.low_rate));
    }

    apply {
        if (standard_metadata.parser_error != error.NoError || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        switch_config.apply();
        event_config.apply();
        // Without a route, the packet is dropped.
        drop();
        if (hdr.event.isValid()) {
            if (standard_metadata.instance_type == RECIRCULATED) {
                // The switch made the event itself, of one of its ports.
                @noWarn("index_out_of_range") {
                    colours.write((bit<32>)hdr.event.port, hdr.event.colour);
                }
                standard_metadata.egress_spec = meta.controller;
            } else if (standard_metadata.ingress_port == GENERATOR_PORT) {
                standard_metadata.egress_spec = (port_t)hdr.event.port;
            } else {
                foreign.count(0);
            }
            exit;
        }
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            start_v4();
            meta.dscp = hdr.ipv4.dscp;
            upward_v4.apply();
        } else if (hdr.ipv6.isValid() && hdr.ipv6.hop_limit > 1) {
            start_v6();
            meta.dscp = hdr.ipv6.dscp;
            upward_v6.apply();
        } else {
            exit;
        }
        switch (class_config.apply().action_run) {
            set_class: { meta.large = !meta.is_first; }
            default: { classes.apply(); }
        }
        meta.rate.class = meta.large ? 1w1 : 1w0;
        if (meta.paths != 0) {
            hash(meta.draw, HashAlgorithm.crc32, 32w0,
                 { meta.fabric.hash, standard_metadata.ingress_global_timestamp }, 64w0x100000000);
            up_by_depth.apply();
            up_by_rate.apply();
            flowlet_config.apply();
            find_flowlet();
            if (!meta.flowlet.taken) {
                if (!meta.flowlet.live) {
                    choose();
                }
                keep_flowlet();
                hops.apply();
            }
        }
        if (!meta.fabric.forwarded) {
            // Downwards; or the port of this flowlet is down, or another flow has its slot.
            if (hdr.ipv4.isValid()) {
                routes_v4.apply();
            } else {
                routes_v6.apply();
            }
        }
        rates.apply(hdr, meta, standard_metadata);
    }
}

control P4teEgress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    FabricEgress() marks;
    FabricVerdicts() verdicts;
    FabricVerdictCopy() verdict_copy;

    // By port: queue and colour of its last event, and the meter of its rate.
    register<bit<32>>(512) depths;
    register<bit<8>>(512) colours_told;
    meter(512, MeterType.bytes) port_rates;

    action watch(bit<32> delta, bit<32> range1, bit<32> range2, bit<32> range3) {
        meta.delta = delta;
        meta.event_depth = (bit<32>)standard_metadata.deq_qdepth;
        meta.event_level = meta.event_depth >= range3
            ? 8w3
            : (meta.event_depth >= range2 ? 8w2 : (meta.event_depth >= range1 ? 8w1 : 8w0));
    }

    table watched {
        key = { standard_metadata.egress_port: exact @name("port"); }
        // Without events, but for verdicts: NoAction.
        actions = { watch; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // Algorithm 1, with differences that cannot be negative.
    action find_event(bit<32> port) {
        bit<32> told;
        bit<8> before;
        depths.read(told, port);
        meta.depth_event = meta.event_depth >= told |+| meta.delta || told >= meta.event_depth |+| meta.delta;
        depths.write(port, meta.depth_event ? meta.event_depth : told);
        colours_told.read(before, port);
        colours_told.write(port, meta.event_colour);
        meta.colour_event = before != meta.event_colour;
        meta.event_port = (bit<16>)standard_metadata.egress_port;
    }

    apply {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        if (standard_metadata.instance_type == EGRESS_CLONE) {
            if (meta.verdict != 0) {
                verdict_copy.apply(hdr, meta);
            } else {
                hdr.ethernet.ethertype = ETHERTYPE_EVENT;
                hdr.note.setInvalid();
                hdr.ipv4.setInvalid();
                hdr.ipv6.setInvalid();
                hdr.ports.setInvalid();
                hdr.tcp.setInvalid();
                hdr.stamps.setInvalid();
                hdr.event = { meta.event_port, meta.event_colour, meta.event_level, meta.event_depth };
                truncate(EVENT_BYTES);
            }
            recirculate_preserving_field_list(0);
        } else if (watched.apply().hit) {
            bit<32> colour;
            port_rates.execute_meter(port, colour);
            meta.event_colour = (bit<8>)colour;
            if (hdr.event.isValid()) {
                // A tick: it has seen the port as it is without traffic.
                mark_to_drop(standard_metadata);
            } else {
                verdicts.apply(hdr, meta, colour);
            }
            // One copy of a packet is possible. A verdict is about this packet's flow; the next packet finds the event as well.
            if (meta.delta != 0 && meta.verdict == 0) {
                find_event(port);
            }
            if (meta.depth_event || meta.colour_event || meta.verdict != 0) {
                clone_preserving_field_list(CloneType.E2E, EVENT_SESSION, EVENT_FIELDS);
            }
        }
        marks.apply(hdr, meta, standard_metadata);
    }
}

control P4teDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.event);
        packet.emit(hdr.note);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
        packet.emit(hdr.stamps);
        packet.emit(hdr.options);
    }
}

V1Switch(P4teParser(), FabricVerify(), P4teIngress(), P4teEgress(), FabricRatesCompute(), P4teDeparser()) main;
