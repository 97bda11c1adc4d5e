// SPDX-License-Identifier: Apache-2.0
// Addresses: VIP to device on the way in, device to VIP on the way out, with the checksums that cover them.
//
// Ports stay as they are: a device serves on the service's port.

#ifndef BALANCER_TRANSLATE_P4
#define BALANCER_TRANSLATE_P4

#include "checksum.p4"
#include "headers.p4"

// Corrects the transport checksum for a change of the addresses in its pseudo header. ICMP has none, ICMPv6 has.
control PseudoHeaderChanged(inout headers_t hdr, in bit<32> change) {
    apply {
        if (hdr.tcp.isValid()) {
            hdr.tcp.checksum = updated_checksum(hdr.tcp.checksum, change);
        } else if (hdr.udp.isValid()) {
            hdr.udp.checksum = updated_udp_checksum(hdr.udp.checksum, change);
        } else if (hdr.icmpv6.isValid()) {
            hdr.icmpv6.checksum = updated_checksum(hdr.icmpv6.checksum, change);
        }
    }
}

// An ICMP error quotes the packet that it is about: the address inside must change with the one outside.
// `of_source` says which one inside: the quoted packet went the other way.
control TranslateQuoted(inout headers_t hdr, in bool of_source, in ipv4_t address4, in ipv6_t address6) {
    apply {
        bit<32> change = 0;       // of addresses inside
        bit<32> total = 0;        // of everything that the ICMP checksum covers
        if (hdr.quoted_ipv4.isValid()) {
            change = changed32(of_source ? hdr.quoted_ipv4.src : hdr.quoted_ipv4.dst, address4);
            if (of_source) {
                hdr.quoted_ipv4.src = address4;
            } else {
                hdr.quoted_ipv4.dst = address4;
            }
            bit<16> before = hdr.quoted_ipv4.checksum;
            hdr.quoted_ipv4.checksum = updated_checksum(before, change);
            total = change + changed16(before, hdr.quoted_ipv4.checksum);
        } else if (hdr.quoted_ipv6.isValid()) {
            change = changed128(of_source ? hdr.quoted_ipv6.src : hdr.quoted_ipv6.dst, address6);
            if (of_source) {
                hdr.quoted_ipv6.src = address6;
            } else {
                hdr.quoted_ipv6.dst = address6;
            }
            total = change;
        }
        // The checksum of a quoted TCP header lies beyond the eight bytes that every quote has.
        if (hdr.quoted_ipv4.proto == PROTO_UDP && hdr.quoted_ipv4.isValid()
            || hdr.quoted_ipv6.proto == PROTO_UDP && hdr.quoted_ipv6.isValid()) {
            bit<16> before = hdr.quoted.rest[15:0];
            hdr.quoted.rest[15:0] = updated_udp_checksum(before, change);
            total = total + changed16(before, hdr.quoted.rest[15:0]);
        }
        if (hdr.icmp.isValid()) {
            hdr.icmp.checksum = updated_checksum(hdr.icmp.checksum, total);
        } else if (hdr.icmpv6.isValid()) {
            hdr.icmpv6.checksum = updated_checksum(hdr.icmpv6.checksum, total);
        }
    }
}

// Gives the packet a new destination (to_source false) or source address; inside always, outside if asked.
control Translate(inout headers_t hdr, in bool to_source, in bool outside, in ipv4_t address4, in ipv6_t address6) {
    PseudoHeaderChanged() pseudo_header;
    TranslateQuoted() quoted;

    apply {
        bit<32> change = 0;
        if (outside && hdr.ipv4.isValid()) {
            change = changed32(to_source ? hdr.ipv4.src : hdr.ipv4.dst, address4);
            if (to_source) {
                hdr.ipv4.src = address4;
            } else {
                hdr.ipv4.dst = address4;
            }
            hdr.ipv4.checksum = updated_checksum(hdr.ipv4.checksum, change);
        } else if (outside) {
            change = changed128(to_source ? hdr.ipv6.src : hdr.ipv6.dst, address6);
            if (to_source) {
                hdr.ipv6.src = address6;
            } else {
                hdr.ipv6.dst = address6;
            }
        }
        if (outside) {
            pseudo_header.apply(hdr, change);
        }
        if (hdr.quoted.isValid()) {
            quoted.apply(hdr, !to_source, address4, address6);
        }
    }
}

#endif
