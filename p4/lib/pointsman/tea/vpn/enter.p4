// Of the VPN gateway: the beginning of a tunnel, and the errors that a packet is too long for it.

#ifndef POINTSMAN_TEA_VPN_ENTER_P4
#define POINTSMAN_TEA_VPN_ENTER_P4

// How many errors the gateway sends (RFC 1812, section 4.3.2.8; RFC 4443, section 2.4 f), over IPv4 and IPv6 together: one for each VPN_ERROR_TICKS of the time stamp, of the
// 1 us that v1model's ticks usually have, and up to VPN_ERRORS at once after a quiet time.
#ifndef VPN_ERROR_TICKS
#define VPN_ERROR_TICKS 1000
#endif
#ifndef VPN_ERRORS
#define VPN_ERRORS 50
#endif

// Whether one more error may be sent now.
control MaySend(in bit<48> now, out bool may) {
    // From when on there is room for all errors again.
    register<bit<48>>(1) error_room;

    apply {
        bit<48> full;
        @atomic {
            error_room.read(full, 0);
            bit<48> ahead = full - now;
            if (ahead[47:47] == 1) {
                ahead = 0;
            }
            may = ahead <= (VPN_ERRORS - 1) * VPN_ERROR_TICKS;
            if (may) {
                error_room.write(0, now + ahead + VPN_ERROR_TICKS);
            }
        }
    }
}

// Puts the packet into the tunnel of its entry, or makes the error that it is too long for it.
control EnterTunnel(inout headers_t hdr, inout metadata_t meta) {
    // Packets that would be too long in their tunnel.
    counter(1, CounterType.packets) too_long;
    // Of them, those whose senders are not told because too many were told just before.
    counter(1, CounterType.packets) not_told;
    MaySend() may_send;
    bit<32> own4;
    bit<128> own6;
    bit<16> most;

    // The addresses from which tunnels begin, and the longest packet on their way, in bytes from its IP header on.
    action begin(bit<32> ipv4, bit<128> ipv6, bit<16> mtu) {
        own4 = ipv4;
        own6 = ipv6;
        most = mtu;
    }

    table tunnels {
        actions = { begin; }
        default_action = begin(0, 0, 1500);
        size = 1;
    }

    // Protocol and length do not include this header.
    action put_ipv4(bit<8> proto, bit<8> tos, bit<16> bytes, bit<32> to) {
        hdr.ethernet.ethertype = IPV4;
        hdr.new4.setValid();
        hdr.new4.version_ihl = 0x45;
        hdr.new4.tos = tos;
        hdr.new4.len = IPV4_BYTES + bytes;
        hdr.new4.id = 0;
        hdr.new4.fragment = 0x4000;
        hdr.new4.ttl = 64;
        hdr.new4.proto = proto;
        hdr.new4.src = own4;
        hdr.new4.dst = to;
        meta.target = VPN_OF_IPV4(to);
    }

    action put_ipv6(bit<8> proto, bit<8> tos, bit<16> bytes, bit<128> to) {
        hdr.ethernet.ethertype = IPV6;
        hdr.new6.setValid();
        hdr.new6.version = 6;
        hdr.new6.tos = tos;
        hdr.new6.flow = 0;
        hdr.new6.len = bytes;
        hdr.new6.proto = proto;
        hdr.new6.ttl = 64;
        hdr.new6.src = own6;
        hdr.new6.dst = to;
        meta.target = VPN_OF_IPV6(to);
    }

    // Destination unreachable, fragmentation needed (RFC 792, RFC 1191), and packet too big (RFC 4443), with the IP header of the packet and eight bytes more.
    action too_long4(bit<16> mtu) {
        put_ipv4(ICMP, 0, EIGHT_BYTES + IPV4_BYTES + EIGHT_BYTES, hdr.ipv4.src);
        hdr.icmp.setValid();
        hdr.icmp.type = 3;
        hdr.icmp.code = 4;
        hdr.icmp.mtu = (bit<32>)mtu;
        truncate((bit<32>)(ETHERNET_BYTES + IPV4_BYTES + EIGHT_BYTES + IPV4_BYTES + EIGHT_BYTES));
    }

    action too_long6(bit<16> mtu) {
        put_ipv6(ICMPV6, 0, EIGHT_BYTES + IPV6_BYTES + EIGHT_BYTES, hdr.ipv6.src);
        hdr.icmp.setValid();
        hdr.icmp.type = 2;
        hdr.icmp.code = 0;
        hdr.icmp.mtu = (bit<32>)mtu;
        truncate((bit<32>)(ETHERNET_BYTES + IPV6_BYTES + EIGHT_BYTES + IPV6_BYTES + EIGHT_BYTES));
    }

    apply {
        tunnels.apply();
        address_t end = meta.tea.value[8 * TEA_VALUE_BYTES - 1:32];
        bit<16> bytes;
        bit<8> tos;
        bit<16> proto = IPV4;
        if (hdr.ipv4.isValid()) {
            bytes = hdr.ipv4.len;
            tos = hdr.ipv4.tos;
        } else if (hdr.ipv6.isValid()) {
            proto = IPV6;
            bytes = hdr.ipv6.len + IPV6_BYTES;
            tos = hdr.ipv6.tos;
        } else if (hdr.inner4.isValid()) {
            bytes = hdr.inner4.len;
            tos = hdr.inner4.tos;
        } else {
            proto = IPV6;
            bytes = hdr.inner6.len + IPV6_BYTES;
            tos = hdr.inner6.tos;
        }
        bool over_ipv4 = VPN_IS_IPV4(end);
        bit<16> room = most - (over_ipv4 ? IPV4_BYTES : IPV6_BYTES) - EIGHT_BYTES;
        if (bytes > room) {
            too_long.count(0);
            bool quotes = hdr.lead.isValid() || hdr.tunnel.isValid();
            bool asks4 = hdr.ipv4.isValid() && hdr.ipv4.fragment[14:14] == 1;
            bool may = false;
            if (quotes && (asks4 || hdr.ipv6.isValid())) {
                may_send.apply(meta.tea.begun, may);
                if (!may) {
                    not_told.count(0);
                }
            }
            if (!may) {
                meta.passes = false;
            } else if (asks4) {
                too_long4(room);
            } else {
                too_long6(room);
            }
        } else {
            hdr.new_tunnel.setValid();
            hdr.new_tunnel.flags = WITH_KEY;
            hdr.new_tunnel.proto = proto;
            hdr.new_tunnel.key = meta.tea.value[31:0];
            // The tunnel has no marks of congestion.
            tos[1:0] = 0;
            if (over_ipv4) {
                put_ipv4(GRE, tos, EIGHT_BYTES + bytes, (bit<32>)end);
            } else {
                put_ipv6(GRE, tos, EIGHT_BYTES + bytes, (bit<128>)end);
            }
        }
    }
}

#endif
