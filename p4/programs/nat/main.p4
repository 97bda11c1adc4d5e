// SPDX-License-Identifier: Apache-2.0
// Translates addresses and ports of IPv4 connections, with an entry for each direction of a connection: the entries are in the memory of servers
// (docs/tea.md), or with `-D PLAIN` in a table of the switch.

#include <core.p4>
#include <v1model.p4>

#define TEA_KEY_BYTES 16
#define TEA_VALUE_BYTES 8
#include <pointsman/tea.p4>

#ifndef NAT_ENTRIES
#define NAT_ENTRIES 1048576
#endif

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

header ports_t {
    bit<16> src;
    bit<16> dst;
}

// The rest of TCP's header up to its checksum.
header tcp_t {
    bit<96> front;
    bit<16> checksum;
}

header udp_t {
    bit<16> len;
    bit<16> checksum;
}

struct headers_t {
    tea_headers_t tea;
    ethernet_t    ethernet;
    ipv4_t        ipv4;
    ports_t       ports;
    tcp_t         tcp;
    udp_t         udp;
}

struct metadata_t {
    tea_meta_t tea;
}

parser NatParser(packet_in packet,
                 out headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    TeaParser() tea;
    bool more;

    state start {
        tea.apply(packet, hdr.tea, meta.tea, standard_metadata, more);
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
        transition select(hdr.ipv4.version_ihl_tos[15:8], hdr.ipv4.fragment[13:0], hdr.ipv4.proto) {
            (0x45, 0, 6): parse_tcp;
            (0x45, 0, 17): parse_udp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.ports);
        packet.extract(hdr.tcp);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.ports);
        packet.extract(hdr.udp);
        transition accept;
    }
}

control NatVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        TEA_VERIFY(hdr.tea, meta.tea);
    }
}

control NatIngress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    TeaArrive() arrive;
    TeaFind() find;

    action forward(bit<9> port, bit<48> mac) {
        standard_metadata.egress_spec = port;
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

    // Packets without an entry, such as the first one of a connection: they leave as they came.
    action to_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    table unknown {
        actions = { to_port; drop; }
        default_action = drop;
        size = 1;
    }

#ifdef PLAIN
    action translated(tea_value_t value) {
        meta.tea.found = true;
        meta.tea.value = value;
    }

    table translations {
        key = { meta.tea.key: exact @name("key"); }
        actions = { translated; NoAction; }
        const default_action = NoAction;
        size = NAT_ENTRIES;
    }
#endif

    // A value: 1 if the destination is replaced, 0 if the source; the new port; the new address.
    action translate() {
        bit<32> old_address = hdr.ipv4.src;
        bit<16> old_port = hdr.ports.src;
        if (meta.tea.value[48:48] == 1) {
            old_address = hdr.ipv4.dst;
            old_port = hdr.ports.dst;
            hdr.ipv4.dst = meta.tea.value[31:0];
            hdr.ports.dst = meta.tea.value[47:32];
        } else {
            hdr.ipv4.src = meta.tea.value[31:0];
            hdr.ports.src = meta.tea.value[47:32];
        }
        // RFC 1624: the complement of the old sum, less the old fields, plus the new ones.
        if (hdr.tcp.isValid()) {
            hash(hdr.tcp.checksum, HashAlgorithm.csum16, 16w0,
                 { ~hdr.tcp.checksum, ~old_address, ~old_port, meta.tea.value[47:0] }, 32w0x10000);
        }
        if (hdr.udp.isValid() && hdr.udp.checksum != 0) {
            hash(hdr.udp.checksum, HashAlgorithm.csum16, 16w0,
                 { ~hdr.udp.checksum, ~old_address, ~old_port, meta.tea.value[47:0] }, 32w0x10000);
            if (hdr.udp.checksum == 0) {
                hdr.udp.checksum = 0xffff;
            }
        }
    }

    apply {
#ifdef PLAIN
        bool here = true;
#else
        arrive.apply(hdr.tea, meta.tea, standard_metadata);
        bool here = meta.tea.step == TEA_PROGRAM;
#endif
        if (here) {
            if (!hdr.ports.isValid()) {
                drop();
            } else {
                meta.tea.key =
                    hdr.ipv4.src ++ hdr.ipv4.dst ++ hdr.ports.src ++ hdr.ports.dst ++ 24w0 ++ hdr.ipv4.proto;
#ifdef PLAIN
                translations.apply();
#else
                find.apply(meta.tea, standard_metadata);
#endif
                if (meta.tea.step == TEA_PROGRAM) {
                    if (meta.tea.found) {
                        translate();
                        routes.apply();
                    } else {
                        unknown.apply();
                    }
                }
            }
        }
    }
}

control NatEgress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
#ifndef PLAIN
    TeaDepart() depart;
#endif

    apply {
#ifndef PLAIN
        depart.apply(hdr.tea, meta.tea, standard_metadata);
#endif
    }
}

control NatCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        TEA_COMPUTE(hdr.tea);
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.version_ihl_tos[11:8] == 5,
                        { hdr.ipv4.version_ihl_tos, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
                          hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control NatDeparser(packet_out packet, in headers_t hdr) {
    apply {
        TEA_EMIT(packet, hdr.tea);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
    }
}

V1Switch(NatParser(), NatVerify(), NatIngress(), NatEgress(), NatCompute(), NatDeparser()) main;
