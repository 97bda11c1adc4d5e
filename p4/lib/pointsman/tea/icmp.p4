// ICMP and ICMPv6 in a translator of addresses (RFC 5508): an echo has its identifier in the place of a port; an error is translated by the entry of the packets in
// the other direction, and so is the packet that it quotes. A program includes it behind <pointsman/tea/flows.p4>, with FLOW_ICMP defined. A key is both addresses,
// both ports, two bytes of 0, an echo's type, the protocol.

#ifndef POINTSMAN_TEA_ICMP_P4
#define POINTSMAN_TEA_ICMP_P4

const bit<8> FLOW_ICMP_NUMBER = 1;
const bit<8> FLOW_UDP_NUMBER = 17;
const bit<8> FLOW_ICMPV6_NUMBER = 58;

// Of the packet that an error quotes, which is of the error's family.
#ifdef FLOW_IPV6
#define FLOW_QUOTED_SOURCE(hdr) (hdr.ipv4.isValid() ? FLOW_OF_IPV4(hdr.quoted_ip.src) : hdr.quoted_ipv6.src)
#define FLOW_QUOTED_DESTINATION(hdr) (hdr.ipv4.isValid() ? FLOW_OF_IPV4(hdr.quoted_ip.dst) : hdr.quoted_ipv6.dst)
#define FLOW_QUOTED_PROTOCOL(hdr) (hdr.ipv4.isValid() ? hdr.quoted_ip.proto : hdr.quoted_ipv6.proto)
#else
#define FLOW_QUOTED_SOURCE(hdr) hdr.quoted_ip.src
#define FLOW_QUOTED_DESTINATION(hdr) hdr.quoted_ip.dst
#define FLOW_QUOTED_PROTOCOL(hdr) hdr.quoted_ip.proto
#endif
#define FLOW_REPLACE_QUOTED(hdr, field, address) FLOW_WRITE(hdr, hdr.quoted_ip.field, hdr.quoted_ipv6.field, address)

// The key of an echo, or of the packets in the other direction of the one that an error quotes. The identifier of a request is its source port, that of an
// answer its destination port; the other port is 0.
control FlowIcmpKey(in headers_t hdr, out tea_key_t key) {
    apply {
        flow_address_t source = FLOW_SOURCE(hdr);
        flow_address_t destination = FLOW_DESTINATION(hdr);
        bit<8> proto = FLOW_PROTOCOL(hdr);
        bit<8> type = hdr.echo.first[15:8];
        bit<16> id = hdr.echo.third;
        if (hdr.quoted.isValid()) {
            source = FLOW_QUOTED_DESTINATION(hdr);
            destination = FLOW_QUOTED_SOURCE(hdr);
            proto = FLOW_QUOTED_PROTOCOL(hdr);
            // A request's answer, and the other way round: 8 and 0, 128 and 129.
            type = hdr.quoted.first[15:8] ^ (proto == FLOW_ICMP_NUMBER ? 8w8 : 8w1);
            id = hdr.quoted.third;
        }
        bit<32> ports = 16w0 ++ id;
        if (hdr.quoted.isValid() && proto != FLOW_ICMP_NUMBER && proto != FLOW_ICMPV6_NUMBER) {
            ports = hdr.quoted.second ++ hdr.quoted.first;
            type = 0;
        } else if (type == 8 || type == 128) {
            ports = id ++ 16w0;
        }
        key = source ++ destination ++ ports ++ 16w0 ++ type ++ proto;
    }
}

// Replaces source or destination of an echo, and its identifier.
control FlowTranslateEcho(inout headers_t hdr, in bool destination, in bit<16> id, in flow_address_t address) {
    apply {
        flow_address_t old_address = FLOW_SOURCE(hdr);
        bit<16> old_id = hdr.echo.third;
        hdr.echo.third = id;
        if (destination) {
            old_address = FLOW_DESTINATION(hdr);
            FLOW_REPLACE(hdr, dst, address);
        } else {
            FLOW_REPLACE(hdr, src, address);
        }
        // RFC 1624. The addresses are in the sum of ICMPv6 alone.
        if (hdr.ipv4.isValid()) {
            hash(hdr.echo.second, HashAlgorithm.csum16, 16w0, { ~hdr.echo.second, ~old_id, id }, 32w0x10000);
        } else {
            hash(hdr.echo.second, HashAlgorithm.csum16, 16w0,
                 { ~hdr.echo.second, ~old_address, ~old_id, id, address }, 32w0x10000);
        }
    }
}

// Translates an error, and the packet that it quotes, by the entry of the packets in the other direction: what this replaces as their destination is the source of the
// quoted packet, and the other way round. An error of a router on the way from there then comes from the new address, too.
control FlowTranslateError(inout headers_t hdr, in bool destination, in bit<16> port, in flow_address_t address) {
    apply {
        bit<8> proto = FLOW_QUOTED_PROTOCOL(hdr);
        bool is_udp = proto == FLOW_UDP_NUMBER;
        flow_address_t old_address = FLOW_QUOTED_DESTINATION(hdr);
        // The address of the error itself.
        flow_address_t old_own = FLOW_SOURCE(hdr);
        bit<16> old_port = hdr.quoted.second;
        // The sum of the quoted IP header, and the one behind it, if there are such.
        bit<16> old_ip_sum = 0;
        bit<16> ip_sum = 0;
        bit<16> old_sum = 0;
        bit<16> sum = 0;
        if (destination) {
            old_address = FLOW_QUOTED_SOURCE(hdr);
            old_own = FLOW_DESTINATION(hdr);
            FLOW_REPLACE_QUOTED(hdr, src, address);
            FLOW_REPLACE(hdr, dst, address);
        } else {
            FLOW_REPLACE_QUOTED(hdr, dst, address);
            FLOW_REPLACE(hdr, src, address);
        }
        // RFC 1624, for each sum.
        if (hdr.ipv4.isValid()) {
            old_ip_sum = hdr.quoted_ip.checksum;
            hash(ip_sum, HashAlgorithm.csum16, 16w0, { ~old_ip_sum, ~old_address, address }, 32w0x10000);
            hdr.quoted_ip.checksum = ip_sum;
            // The sum of ICMP is without the error's own addresses, as if they were the same; that of ICMPv6 is with them.
            old_own = address;
        }
        if (proto == FLOW_ICMP_NUMBER || proto == FLOW_ICMPV6_NUMBER) {
            old_port = hdr.quoted.third;
            hdr.quoted.third = port;
            old_sum = hdr.quoted.second;
            if (proto == FLOW_ICMP_NUMBER) {
                hash(sum, HashAlgorithm.csum16, 16w0, { ~old_sum, ~old_port, port }, 32w0x10000);
            } else {
                hash(sum, HashAlgorithm.csum16, 16w0, { ~old_sum, ~old_address, ~old_port, port, address }, 32w0x10000);
            }
            hdr.quoted.second = sum;
        } else {
            if (destination) {
                old_port = hdr.quoted.first;
                hdr.quoted.first = port;
            } else {
                hdr.quoted.second = port;
            }
            if (is_udp) {
                old_sum = hdr.quoted.fourth;
            } else if (hdr.quoted_tcp.isValid()) {
                old_sum = hdr.quoted_tcp.checksum;
            }
            hash(sum, HashAlgorithm.csum16, 16w0, { ~old_sum, ~old_address, ~old_port, port, address }, 32w0x10000);
            if (is_udp && old_sum != 0) {
                hdr.quoted.fourth = sum == 0 ? 16w0xffff : sum;
                sum = hdr.quoted.fourth;
            } else if (hdr.quoted_tcp.isValid()) {
                hdr.quoted_tcp.checksum = sum;
            } else {
                sum = 0;
            }
        }
        hash(hdr.problem.second, HashAlgorithm.csum16, 16w0,
             { ~hdr.problem.second, ~old_own, ~old_address, ~old_ip_sum, ~old_port, ~old_sum, address, address, ip_sum,
               port, sum }, 32w0x10000);
    }
}

#endif
