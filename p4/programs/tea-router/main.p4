// SPDX-License-Identifier: Apache-2.0
// Routes IPv4 and IPv6 by the longest prefix. The routes are in the memory of servers as entries of exact keys (docs/tea.md), one READ for IPv4, two in one
// round trip for IPv6; those that would be too many entries are in the switch. With `-D PLAIN` all are in the switch.

#include <core.p4>
#include <v1model.p4>

#define TEA_TABLES
#define TEA_KEY_BYTES 8
#define TEA_VALUE_BYTES 8
#include <pointsman/tea.p4>

// Routes in the switch itself.
#ifndef OWN_ROUTES
#ifdef PLAIN
#define OWN_ROUTES 1048576
#else
#define OWN_ROUTES 32768
#endif
#endif

// Levels: the lengths of keys in the memory of servers. The control plane knows the shortest routes that become entries of each.
const bit<8> LEVEL_IPV4 = 1;       // 24 bits
const bit<8> LEVEL_IPV6_SHORT = 2; // 32 bits
const bit<8> LEVEL_IPV6_LONG = 3;  // 48 bits

// A value: 7 bits of 0, the port, the MAC address of the next hop.
#define HOP_PORT(value) value[56:48]
#define HOP_MAC(value) value[47:0]

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

// Up to the destination; options stay behind it.
header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<56> front;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4>   version;
    bit<52>  front;
    bit<8>   hops;
    bit<128> src;
    bit<128> dst;
}

struct headers_t {
    tea_headers_t tea;
    ethernet_t    ethernet;
    ipv4_t        ipv4;
    ipv6_t        ipv6;
}

struct metadata_t {
    tea_meta_t tea;
    // Of the switch's own route: whether there is one, its length and value.
    bool        has_own;
    bit<8>      own_bits;
    tea_value_t own;
}

parser FlowParser(packet_in packet,
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
            0x86dd: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition accept;
    }
}

control FlowCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        TEA_COMPUTE(hdr.tea);
    }
}

control FlowDeparser(packet_out packet, in headers_t hdr) {
    apply {
        TEA_EMIT(packet, hdr.tea);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
    }
}

control FlowIngress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    // Packets that were dropped: not IP, or cut; at the end of their time to live; without a route.
    counter(3, CounterType.packets) dropped;

#ifndef PLAIN
    TeaArrive() arrive;
    TeaFindAll() find;
    TeaLoad() load;
#endif

    action own(bit<8> bits, tea_value_t value) {
        meta.has_own = true;
        meta.own_bits = bits;
        meta.own = value;
    }

    table own_ipv4 {
        key = { hdr.ipv4.dst: lpm @name("prefix"); }
        actions = { own; NoAction; }
        const default_action = NoAction;
        size = OWN_ROUTES;
    }

    table own_ipv6 {
        key = { hdr.ipv6.dst: lpm @name("prefix"); }
        actions = { own; NoAction; }
        const default_action = NoAction;
        size = OWN_ROUTES;
    }

    apply {
#ifdef PLAIN
        bool here = true;
#else
        arrive.apply(hdr.tea, meta.tea, standard_metadata);
        bool here = meta.tea.step == TEA_PROGRAM;
#endif
        bool is_ip = hdr.ipv4.isValid() || hdr.ipv6.isValid();
        bool is_alive = (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) || (hdr.ipv6.isValid() && hdr.ipv6.hops > 1);
        bool fits = standard_metadata.parser_error == error.NoError;
        bool routes = here && is_ip && is_alive && fits;
        bool has_route = false;
        tea_value_t value = 0;
        if (routes) {
            bool is_ipv4 = hdr.ipv4.isValid();
            if (is_ipv4) {
                own_ipv4.apply();
            } else {
                own_ipv6.apply();
            }
            has_route = meta.has_own;
            value = meta.own;
#ifndef PLAIN
            // A route of the switch that is longer than all levels is the one.
            if (!meta.has_own || meta.own_bits <= (is_ipv4 ? 8w24 : 48)) {
                if (is_ipv4) {
                    meta.tea.key = TEA_KEY(LEVEL_IPV4, 32w0 ++ hdr.ipv4.dst[31:8]);
                } else {
                    meta.tea.key = TEA_KEY(LEVEL_IPV6_SHORT, 24w0 ++ hdr.ipv6.dst[127:96]);
                    meta.tea.key2 = TEA_KEY(LEVEL_IPV6_LONG, 8w0 ++ hdr.ipv6.dst[127:80]);
                    meta.tea.has_key2 = true;
                }
                find.apply(meta.tea, standard_metadata);
                routes = meta.tea.step == TEA_PROGRAM;
                here = routes;
                if (meta.tea.has_key2 && meta.tea.found2) {
                    has_route = true;
                    value = meta.tea.value2;
                } else if (meta.tea.found && (is_ipv4 || !meta.has_own || meta.own_bits <= 32)) {
                    has_route = true;
                    value = meta.tea.value;
                }
            }
#endif
        }
        if (routes && has_route) {
            standard_metadata.egress_spec = HOP_PORT(value);
            hdr.ethernet.dst = HOP_MAC(value);
            if (hdr.ipv4.isValid()) {
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                // RFC 1624: the first byte of a 16-bit word is one less.
                bit<16> sum = hdr.ipv4.checksum;
                hdr.ipv4.checksum = sum + 0x100 + (sum >= 0xfeff ? 16w1 : 0);
            } else {
                hdr.ipv6.hops = hdr.ipv6.hops - 1;
            }
        } else if (here) {
            if (!is_ip || !fits) {
                dropped.count(0);
            } else if (!is_alive) {
                dropped.count(1);
            } else {
                dropped.count(2);
            }
            mark_to_drop(standard_metadata);
        }
#ifndef PLAIN
        if (here) {
            load.apply(standard_metadata);
        }
#endif
    }
}

#define FLOW_OWN_INGRESS
#include <pointsman/tea/flow_switch.p4>
