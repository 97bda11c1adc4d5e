// SPDX-License-Identifier: Apache-2.0
// A stateful firewall for TCP and UDP over IPv4: connections begin inside (TCP: with a SYN); other packets pass only if they belong to one. The state
// of a connection is written when it begins and when it ends.
// With `-D PLAIN` connections are lost with the switch; otherwise RedPlane keeps them (docs/redplane.md). With `-D REDPLANE_SHARED_READS` both directions of
// a connection may pass different switches without its state moving with every packet.

#include <core.p4>
#include <v1model.p4>

#define REDPLANE_KEY_WORDS 4
#define REDPLANE_VALUE_WORDS 1
#include <pointsman/redplane.p4>
#include <pointsman/ipv4.p4>

// Bits of a connection's state.
const bit<32> OPEN = 1;
const bit<32> INSIDE_ENDED = 2;
const bit<32> OUTSIDE_ENDED = 4;

// Flags of TCP.
const bit<8> SYN = 2;
const bit<8> SYN_ACK = 0x12;
const bit<8> FIN_RST = 5;

const bit<8> TCP = 6;
const bit<8> UDP = 17;

// The rest of TCP's header, without options.
header tcp_t {
    bit<32> sequence;
    bit<32> acknowledgment;
    bit<4>  offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

struct headers_t {
    redplane_outer_t outer;
    redplane_t       redplane;
    ethernet_t       ethernet;
    ipv4_t           ipv4;
    ports_t          ports;
    tcp_t            tcp;
}

struct metadata_t {
    redplane_meta_t redplane;
    bool            inside;
}

parser FirewallParser(packet_in packet,
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
            (0x45, 0, TCP): parse_ports;
            (0x45, 0, UDP): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition select(hdr.ipv4.proto) {
            TCP: parse_tcp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }
}

control FirewallVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control FirewallIngress(inout headers_t hdr,
                        inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    RedPlaneArrive() arrive;
    RedPlaneFind() find;
    RedPlaneSave() save;
#ifdef REDPLANE_SHARED_READS
    RedPlaneClaim() claim;
#endif
    // Packets without a connection.
    counter(1, CounterType.packets) refused;

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

    action inside() {
        meta.inside = true;
    }

    action outside() {
        meta.inside = false;
    }

    // Where connections may begin, by the prefix of the source.
    table sides {
        key = { hdr.ipv4.src: lpm @name("prefix"); }
        actions = { inside; outside; }
        default_action = outside;
        size = 1024;
    }

    // Both directions of a connection have one key.
    action connection() {
        bit<96> ends = hdr.ipv4.src ++ hdr.ipv4.dst ++ hdr.ports.src ++ hdr.ports.dst;
        if (!meta.inside) {
            ends = hdr.ipv4.dst ++ hdr.ipv4.src ++ hdr.ports.dst ++ hdr.ports.src;
        }
        meta.redplane.key = ends ++ 24w0 ++ hdr.ipv4.proto;
    }

    // The application: what the packet changes, and whether it passes.
    action filter() {
        bit<32> state = meta.redplane.value;
        bool first = !hdr.tcp.isValid() || hdr.tcp.flags & SYN_ACK == SYN;
        bool last = hdr.tcp.isValid() && hdr.tcp.flags & FIN_RST != 0;
        if (meta.inside && first) {
            state = OPEN;
        }
        if (last && state != 0) {
            state = state | (meta.inside ? INSIDE_ENDED : OUTSIDE_ENDED);
        }
        meta.redplane.value = state;
    }

    apply {
        arrive.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
        if (meta.redplane.step == REDPLANE_PROGRAM) {
            if (hdr.ports.isValid()) {
                sides.apply();
                connection();
                @atomic {
                    // Packets from outside must not fill the store.
                    meta.redplane.existing = !meta.inside;
#ifdef REDPLANE_SHARED_READS
                    // Only the first and the last packets of each side change the state.
                    meta.redplane.writes = hdr.tcp.isValid() && (hdr.tcp.flags & FIN_RST != 0 || meta.inside && hdr.tcp.flags & SYN_ACK == SYN);
#endif
                    find.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                    if (meta.redplane.held) {
                        filter();
#ifdef REDPLANE_SHARED_READS
                        claim.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                    }
                    if (meta.redplane.held) {
#endif
                        if (meta.redplane.value != 0) {
                            routes.apply();
                        } else {
                            refused.count(0);
                            drop();
                        }
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

control FirewallEgress(inout headers_t hdr,
                       inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    RedPlaneDepart() depart;

    apply {
        depart.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
    }
}

control FirewallCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        REDPLANE_COMPUTE(hdr.outer, hdr.redplane, meta.redplane, hdr.ethernet, hdr.ipv4, hdr.ports, hdr.tcp);
    }
}

control FirewallDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer);
        packet.emit(hdr.redplane);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
    }
}

V1Switch(FirewallParser(), FirewallVerify(), FirewallIngress(), FirewallEgress(), FirewallCompute(), FirewallDeparser()) main;
