// SPDX-License-Identifier: Apache-2.0
// A load balancer: connections (TCP, UDP over IPv4) to the address of a service are given to its servers, which answer the clients themselves. The server of a
// connection is chosen when it begins, TCP's with a SYN, and stays the same when the servers of the service change.
// With `-D PLAIN` connections are lost with the switch; otherwise RedPlane keeps them (docs/redplane.md).

#include <core.p4>
#include <v1model.p4>

#define REDPLANE_KEY_WORDS 4
#define REDPLANE_VALUE_WORDS 1
#include <pointsman/redplane.p4>
#include <pointsman/ipv4.p4>

// Flags of TCP.
const bit<8> SYN = 2;
const bit<8> SYN_ACK = 0x12;

const bit<8> TCP = 6;
const bit<8> UDP = 17;

header tcp_t {
    bit<32> sequence;
    bit<32> acknowledged;
    bit<8>  offset;
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
    // The servers of the service: their numbers are first, first + 1, and so on. 0: the packet is to no service.
    bit<32>         first;
    bit<32>         count;
}

parser DispatchParser(packet_in packet,
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

control DispatchVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control DispatchIngress(inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    RedPlaneArrive() arrive;
    RedPlaneFind() find;
    RedPlaneSave() save;
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

    action service(bit<32> first, bit<32> count) {
        meta.first = first;
        meta.count = count;
    }

    // Services by their address: packets to others are forwarded as they are.
    table services {
        key = { hdr.ipv4.dst: exact @name("address"); }
        actions = { service; }
        size = 1024;
    }

    // Servers by their number, which is the state of a connection.
    table servers {
        key = { meta.redplane.value: exact @name("server"); }
        actions = { forward; drop; }
        default_action = drop;
        size = 65536;
    }

    action key_of_packet() {
        meta.redplane.key = hdr.ipv4.src ++ hdr.ipv4.dst ++ hdr.ports.src ++ hdr.ports.dst ++ 24w0 ++ hdr.ipv4.proto;
        // Other packets than the first one must not fill the store.
        meta.redplane.existing = hdr.tcp.isValid() && hdr.tcp.flags & SYN_ACK != SYN;
    }

    // The application.
    action choose() {
        bit<32> at;
        hash(at, HashAlgorithm.crc32, 32w0, { meta.redplane.key, 8w1 }, (bit<64>)meta.count);
        meta.redplane.value = meta.first + at;
    }

    apply {
        arrive.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
        if (meta.redplane.step == REDPLANE_PROGRAM) {
            services.apply();
            if (meta.count != 0 && hdr.ports.isValid()) {
                @atomic {
                    key_of_packet();
                    find.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                    if (meta.redplane.held) {
                        if (meta.redplane.value == 0 && !meta.redplane.existing) {
                            choose();
                        }
                        if (meta.redplane.value != 0) {
                            servers.apply();
                        } else {
                            refused.count(0);
                            drop();
                        }
                        save.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                    }
                }
            } else {
                routes.apply();
            }
        } else if (meta.redplane.step == REDPLANE_OTHER) {
            drop();
        }
    }
}

control DispatchEgress(inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    RedPlaneDepart() depart;

    apply {
        depart.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
    }
}

control DispatchCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        REDPLANE_COMPUTE(hdr.outer, hdr.redplane, meta.redplane, hdr.ethernet, hdr.ipv4, hdr.ports, hdr.tcp);
    }
}

control DispatchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer);
        packet.emit(hdr.redplane);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
    }
}

V1Switch(DispatchParser(), DispatchVerify(), DispatchIngress(), DispatchEgress(), DispatchCompute(), DispatchDeparser()) main;
