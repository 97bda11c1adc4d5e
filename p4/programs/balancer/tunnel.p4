// SPDX-License-Identifier: Apache-2.0
// Direct return past routers: the packet as it came, in another one for the device (IP in IP: RFC 2003, RFC 2473).

#ifndef BALANCER_TUNNEL_P4
#define BALANCER_TUNNEL_P4

#include "checksum.p4"
#include "headers.p4"

const bit<8> PROTO_IPV4 = 4;
const bit<8> PROTO_IPV6 = 41;

// Puts the packet into one for a device's address.
control Encapsulate(inout headers_t hdr, in service_t service, in ipv4_t device4, in ipv6_t device6) {
    ipv4_t source4 = 0;
    ipv6_t source6 = 0;

    action set_tunnel(ipv4_t v4, ipv6_t v6) {
        source4 = v4;
        source6 = v6;
    }

    // Addresses of the switch that devices see outside. No VIP: a device would refuse a packet from an address of its own.
    table tunnels {
        key = { service: exact @name("service"); }
        actions = { set_tunnel; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 65536;
    }

    apply {
        tunnels.apply();
        if (hdr.ipv4.isValid()) {
            hdr.outer_ipv4.setValid();
            hdr.outer_ipv4.version = 4;
            hdr.outer_ipv4.ihl = 5;
            hdr.outer_ipv4.dscp_ecn = hdr.ipv4.dscp_ecn; // congestion is copied from inside (RFC 6040)
            hdr.outer_ipv4.len = hdr.ipv4.len + 20;
            hdr.outer_ipv4.id = 0;
            hdr.outer_ipv4.reserved = 0;
            hdr.outer_ipv4.dont_fragment = 1;
            hdr.outer_ipv4.more_fragments = 0;
            hdr.outer_ipv4.fragment = 0;
            hdr.outer_ipv4.ttl = 64;
            hdr.outer_ipv4.proto = PROTO_IPV4;
            hdr.outer_ipv4.src = source4;
            hdr.outer_ipv4.dst = device4;
            hdr.outer_ipv4.checksum = updated_checksum(0xffff,
                0x4500 + (bit<32>)hdr.outer_ipv4.dscp_ecn + (bit<32>)hdr.outer_ipv4.len + 0x4000 + 0x4004
                + changed32(0xffffffff, source4) + changed32(0xffffffff, device4));
        } else {
            hdr.outer_ipv6.setValid();
            hdr.outer_ipv6.version = 6;
            hdr.outer_ipv6.traffic_class = hdr.ipv6.traffic_class;
            hdr.outer_ipv6.flow = hdr.ipv6.flow;
            hdr.outer_ipv6.len = hdr.ipv6.len + 40;
            hdr.outer_ipv6.proto = PROTO_IPV6;
            hdr.outer_ipv6.hops = 64;
            hdr.outer_ipv6.src = source6;
            hdr.outer_ipv6.dst = device6;
        }
    }
}

#endif
