// SPDX-License-Identifier: Apache-2.0
// What the switch answers itself, for its local addresses (VIPs and gateways): ARP, neighbour solicitation, echo.

#ifndef BALANCER_RESPOND_P4
#define BALANCER_RESPOND_P4

#include "checksum.p4"
#include "headers.p4"

const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY = 2;
const bit<8> ICMP_ECHO_REPLY = 0;
const bit<8> ICMP_ECHO = 8;
const bit<8> ICMPV6_ECHO = 128;
const bit<8> ICMPV6_ECHO_REPLY = 129;
const bit<8> ND_SOLICITATION = 135;
const bit<8> ND_ADVERTISEMENT = 136;

// Turns a request into its answer, for an address that the caller has found to be local. `answered` is false if the
// packet is not one of these requests.
control Respond(inout headers_t hdr,
                inout metadata_t meta,
                inout standard_metadata_t standard_metadata,
                in mac_t switch_mac,
                out bool answered) {
    action turn_around() {
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = switch_mac;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
        answered = true;
    }

    apply {
        answered = false;
        if (hdr.arp.isValid() && hdr.arp.oper == ARP_REQUEST) {
            ipv4_t asked = hdr.arp.tpa;
            hdr.arp.oper = ARP_REPLY;
            hdr.arp.tha = hdr.arp.sha;
            hdr.arp.tpa = hdr.arp.spa;
            hdr.arp.sha = switch_mac;
            hdr.arp.spa = asked;
            turn_around();
        } else if (hdr.ipv4.isValid() && hdr.icmp.isValid() && hdr.icmp.kind == ICMP_ECHO && hdr.icmp.code == 0) {
            bit<16> before = hdr.icmp.kind ++ hdr.icmp.code;
            hdr.icmp.kind = ICMP_ECHO_REPLY;
            hdr.icmp.checksum = updated_checksum(hdr.icmp.checksum, changed16(before, 0));
            // Swapping the addresses leaves the header's checksum as it is; a fresh time to live does not.
            ipv4_t asked = hdr.ipv4.dst;
            hdr.ipv4.dst = hdr.ipv4.src;
            hdr.ipv4.src = asked;
            bit<16> ttl_before = hdr.ipv4.ttl ++ hdr.ipv4.proto;
            hdr.ipv4.ttl = 64;
            hdr.ipv4.checksum =
                updated_checksum(hdr.ipv4.checksum, changed16(ttl_before, hdr.ipv4.ttl ++ hdr.ipv4.proto));
            turn_around();
        } else if (hdr.icmpv6.isValid() && hdr.icmpv6.kind == ICMPV6_ECHO && hdr.icmpv6.code == 0) {
            bit<16> before = hdr.icmpv6.kind ++ hdr.icmpv6.code;
            hdr.icmpv6.kind = ICMPV6_ECHO_REPLY;
            hdr.icmpv6.checksum = updated_checksum(hdr.icmpv6.checksum,
                changed16(before, hdr.icmpv6.kind ++ hdr.icmpv6.code));
            ipv6_t asked = hdr.ipv6.dst;
            hdr.ipv6.dst = hdr.ipv6.src;
            hdr.ipv6.src = asked;
            hdr.ipv6.hops = 64;
            turn_around();
        } else if (hdr.nd.isValid() && hdr.icmpv6.kind == ND_SOLICITATION && hdr.ipv6.hops == 255
                   && hdr.nd.option == 1 && hdr.nd.option_len == 1) {
            // Solicited, override (RFC 4861, section 4.4). The option becomes the target's link-layer address.
            bit<32> change = changed32(hdr.icmpv6.kind ++ hdr.icmpv6.code ++ 16w0, ND_ADVERTISEMENT ++ 24w0)
                           + changed32(hdr.icmpv6.rest, 0x60000000)
                           + changed16(hdr.nd.option ++ hdr.nd.option_len, 0x0201)
                           + changed32(hdr.nd.mac[47:16], switch_mac[47:16])
                           + changed16(hdr.nd.mac[15:0], switch_mac[15:0])
                           + changed128(hdr.ipv6.dst, hdr.nd.target);
            hdr.icmpv6.kind = ND_ADVERTISEMENT;
            hdr.icmpv6.code = 0;
            hdr.icmpv6.rest = 0x60000000;
            hdr.icmpv6.checksum = updated_checksum(hdr.icmpv6.checksum, change);
            hdr.nd.option = 2;
            hdr.nd.mac = switch_mac;
            // The question came to the solicited-node group: the answer comes from the address itself.
            hdr.ipv6.dst = hdr.ipv6.src;
            hdr.ipv6.src = hdr.nd.target;
            turn_around();
        }
    }
}

#endif
