// SPDX-License-Identifier: Apache-2.0
// A VPN gateway for IPv4 and IPv6. Hosts behind tunnels have an entry, which says where their tunnel ends: packets to them enter the tunnel, and packets of theirs
// leave it if they came by the right one. The tunnels are GRE with a key (RFC 2784, RFC 2890) over IPv4 or IPv6; nothing is encrypted. The entries are in the
// memory of servers (docs/tea.md), or with `-D PLAIN` in a table of the switch.

#include <core.p4>
#include <v1model.p4>

// With `-D VPN_IPV4` hosts and ends of tunnels have IPv4 addresses, and entries 16 bytes in the place of 40.
#ifdef VPN_IPV4
#define VPN_ADDRESS_BITS 32
#define VPN_IS_IPV4(address) true
#define TEA_KEY_BYTES 8
#define TEA_VALUE_BYTES 8
#else
#define VPN_ADDRESS_BITS 128
#define VPN_IS_IPV4(address) ((address)[127:32] == 0xffff)
#define TEA_KEY_BYTES 20
#define TEA_VALUE_BYTES 20
#endif
#include <pointsman/tea.p4>

// How many errors the gateway sends (RFC 1812, section 4.3.2.8; RFC 4443, section 2.4 f), over IPv4 and IPv6 together: one for each VPN_ERROR_TICKS of the time stamp, of the
// 1 us that v1model's ticks usually have, and up to VPN_ERRORS at once after a quiet time.
#ifndef VPN_ERROR_TICKS
#define VPN_ERROR_TICKS 1000
#endif
#ifndef VPN_ERRORS
#define VPN_ERRORS 50
#endif

// IPv4 addresses are those of ::ffff:0:0/96.
typedef bit<VPN_ADDRESS_BITS> address_t;
#define VPN_OF_IPV4(address) (address_t)(96w0xffff ++ (address))
#define VPN_OF_IPV6(address) (address_t)(address)

const bit<16> IPV4 = 0x0800;
const bit<16> IPV6 = 0x86dd;
const bit<8> GRE = 47;
const bit<8> ICMP = 1;
const bit<8> ICMPV6 = 58;
// GRE with a key, without check value and sequence number.
const bit<16> WITH_KEY = 0x2000;
// Congestion experienced, of the two bits for congestion in the type of service (RFC 3168).
const bit<2> CONGESTED = 3;

const bit<16> ETHERNET_BYTES = 14;
const bit<16> IPV4_BYTES = 20;
const bit<16> IPV6_BYTES = 40;
// Of the headers of GRE and ICMP, and of what an ICMP error has of a packet behind its IP header.
const bit<16> EIGHT_BYTES = 8;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<8>  version_ihl;
    bit<8>  tos;
    bit<16> len;
    bit<16> id;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4>   version;
    bit<8>   tos;
    bit<20>  flow;
    bit<16>  len;
    bit<8>   proto;
    bit<8>   ttl;
    bit<128> src;
    bit<128> dst;
}

header gre_t {
    bit<16> flags;
    bit<16> proto;
    bit<32> key;
}

// The error that a packet is too long: of ICMP, whose MTU has 16 bits behind 16 of 0, and of ICMPv6.
header icmp_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<32> mtu;
}

// The first bytes behind an IP header, which an error contains.
header lead_t {
    bit<64> bytes;
}

// A packet has an IP header, and behind it perhaps a tunnel with another one. What the gateway puts in front of it is new.
struct headers_t {
    tea_headers_t tea;
    ethernet_t    ethernet;
    ipv4_t        new4;
    ipv6_t        new6;
    gre_t         new_tunnel;
    icmp_t        icmp;
    ipv4_t        ipv4;
    ipv6_t        ipv6;
    gre_t         tunnel;
    ipv4_t        inner4;
    ipv6_t        inner6;
    lead_t        lead;
}

struct metadata_t {
    tea_meta_t tea;
    bool       looks_up;
    bool       passes;
    // Where the packet comes from and goes to, by its outermost IP header.
    address_t  source;
    address_t  target;
    // It came to an address of the gateway, and continues in another tunnel.
    bool       arrives;
    bool       continues;
    // The number of its network.
    bit<32>    network;
}

// For <pointsman/tea/flow_switch.p4>.
#define FLOW_KNOWN(hdr) (hdr.ipv4.isValid() || hdr.ipv6.isValid())
#define FLOW_TARGET(hdr, meta) meta.target

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
        transition select(hdr.ethernet.ethertype, packet.lookahead<bit<4>>()) {
            (IPV4, 4): parse_ipv4;
            (IPV6, 6): parse_ipv6;
            default: accept;
        }
    }

    // Without options, and not a part of a packet: there may be a tunnel.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.fragment[13:0], hdr.ipv4.proto) {
            (0x45, 0, GRE): parse_gre;
            default: parse_rest4;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.proto) {
            GRE: parse_gre;
            default: parse_rest6;
        }
    }

    state parse_gre {
        transition select(packet.lookahead<bit<32>>()) {
            WITH_KEY ++ IPV4: parse_tunnel4;
            WITH_KEY ++ IPV6: parse_tunnel6;
            default: accept;
        }
    }

    state parse_tunnel4 {
        packet.extract(hdr.tunnel);
        transition select(packet.lookahead<bit<4>>()) {
            4: parse_inner4;
            default: accept;
        }
    }

    state parse_inner4 {
        packet.extract(hdr.inner4);
        transition accept;
    }

    state parse_tunnel6 {
        packet.extract(hdr.tunnel);
        transition select(packet.lookahead<bit<4>>()) {
            6: parse_inner6;
            default: accept;
        }
    }

    state parse_inner6 {
        packet.extract(hdr.inner6);
        transition accept;
    }

    // Only a long packet can be too long.
    state parse_rest4 {
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.len[15:8]) {
            (0x45, 0): accept;
            (0x45, _): parse_lead;
            default: accept;
        }
    }

    state parse_rest6 {
        transition select(hdr.ipv6.len[15:8]) {
            0: accept;
            default: parse_lead;
        }
    }

    state parse_lead {
        packet.extract(hdr.lead);
        transition accept;
    }
}

// Packets that stay on their link: those to groups, such as reports of multicast listeners, and to or from an address of the link (RFC 4291, section 2.5.6).
#define VPN_STAYS(ip) (ip.isValid() && (ip.dst[127:120] == 0xff || ip.dst[127:118] == 0x3fa || ip.src[127:118] == 0x3fa))

// The entry of a packet is that of the host behind the tunnel: of its target, or of its source if it leaves the tunnel here.
control FlowKey(inout headers_t hdr, inout metadata_t meta) {
    // Packets in tunnels to this address leave them here, and go where they are to.
    action leave() {
        meta.arrives = true;
    }

    // They continue in the tunnel of their target.
    action continue_in_tunnel() {
        meta.arrives = true;
        meta.continues = true;
    }

    // The gateway's addresses.
    table gateways {
        key = { meta.target: exact @name("address"); }
        actions = { leave; continue_in_tunnel; NoAction; }
        const default_action = NoAction;
        size = 64;
    }

    // Packets that come in by this port without a tunnel are of this network.
    action network(bit<32> number) {
        meta.network = number;
        meta.looks_up = true;
    }

    table networks {
        key = { meta.tea.in_port: exact @name("port"); }
        actions = { network; NoAction; }
        const default_action = NoAction;
        size = 512;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            meta.source = VPN_OF_IPV4(hdr.ipv4.src);
            meta.target = VPN_OF_IPV4(hdr.ipv4.dst);
        } else {
            meta.source = VPN_OF_IPV6(hdr.ipv6.src);
            meta.target = VPN_OF_IPV6(hdr.ipv6.dst);
        }
        address_t host = meta.target;
        gateways.apply();
        if (!meta.arrives) {
            networks.apply();
        } else {
            meta.looks_up = hdr.inner4.isValid() || hdr.inner6.isValid();
            meta.network = hdr.tunnel.key;
            if (hdr.inner4.isValid()) {
                host = VPN_OF_IPV4(meta.continues ? hdr.inner4.dst : hdr.inner4.src);
            } else {
                host = VPN_OF_IPV6(meta.continues ? hdr.inner6.dst : hdr.inner6.src);
            }
        }
#ifdef VPN_IPV4
        if (hdr.ipv6.isValid() || hdr.inner6.isValid()) {
            meta.looks_up = false;
        }
#endif
        if (meta.arrives ? VPN_STAYS(hdr.inner6) : VPN_STAYS(hdr.ipv6)) {
            meta.looks_up = false;
        }
        meta.tea.key = meta.network ++ host;
    }
}

// Removes the tunnel that the packet came in. A mark of congestion moves to the inner header, or ends a packet that cannot have one (RFC 6040).
control LeaveTunnel(inout headers_t hdr, inout metadata_t meta) {
    apply {
        bit<2> congestion = hdr.ipv6.tos[1:0];
        if (hdr.ipv4.isValid()) {
            congestion = hdr.ipv4.tos[1:0];
        }
        hdr.ipv4.setInvalid();
        hdr.ipv6.setInvalid();
        hdr.tunnel.setInvalid();
        if (hdr.inner4.isValid()) {
            hdr.ethernet.ethertype = IPV4;
            meta.target = VPN_OF_IPV4(hdr.inner4.dst);
            if (congestion == CONGESTED) {
                bit<8> old_tos = hdr.inner4.tos;
                meta.passes = old_tos[1:0] != 0;
                hdr.inner4.tos[1:0] = CONGESTED;
                // RFC 1624.
                hash(hdr.inner4.checksum, HashAlgorithm.csum16, 16w0,
                     { ~hdr.inner4.checksum, ~(hdr.inner4.version_ihl ++ old_tos),
                       hdr.inner4.version_ihl ++ hdr.inner4.tos }, 32w0x10000);
            }
        } else {
            hdr.ethernet.ethertype = IPV6;
            meta.target = VPN_OF_IPV6(hdr.inner6.dst);
            if (congestion == CONGESTED) {
                meta.passes = hdr.inner6.tos[1:0] != 0;
                hdr.inner6.tos[1:0] = CONGESTED;
            }
        }
    }
}

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

// A value: the address at which the host's tunnel ends, and the key of packets to it.
control FlowApply(inout headers_t hdr, inout metadata_t meta) {
    LeaveTunnel() leave_tunnel;
    EnterTunnel() enter_tunnel;
    // Packets of no network, that are not in a tunnel to a gateway's address, or that came by another tunnel than that of their source.
    counter(1, CounterType.packets) refused;

    apply {
        bool is_right = meta.tea.found && meta.tea.value[8 * TEA_VALUE_BYTES - 1:32] == meta.source;
        bool leaves = meta.arrives && !meta.continues;
        if (!meta.looks_up || leaves && !is_right) {
            meta.passes = false;
        } else if (meta.arrives && meta.tea.found) {
            leave_tunnel.apply(hdr, meta);
        }
        if (!meta.passes) {
            refused.count(0);
        } else if (meta.tea.found && !leaves) {
            enter_tunnel.apply(hdr, meta);
        }
    }
}

control FlowCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        TEA_COMPUTE(hdr.tea);
        update_checksum(hdr.new4.isValid(),
                        { hdr.new4.version_ihl, hdr.new4.tos, hdr.new4.len, hdr.new4.id, hdr.new4.fragment, hdr.new4.ttl,
                          hdr.new4.proto, hdr.new4.src, hdr.new4.dst },
                        hdr.new4.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.icmp.isValid() && hdr.new4.isValid(),
                        { hdr.icmp.type, hdr.icmp.code, hdr.icmp.mtu, hdr.ipv4, hdr.tunnel, hdr.lead },
                        hdr.icmp.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.icmp.isValid() && hdr.new6.isValid(),
                        { hdr.new6.src, hdr.new6.dst, hdr.new6.len, 8w0, hdr.new6.proto,
                          hdr.icmp.type, hdr.icmp.code, hdr.icmp.mtu, hdr.ipv6, hdr.tunnel, hdr.lead },
                        hdr.icmp.checksum, HashAlgorithm.csum16);
    }
}

control FlowDeparser(packet_out packet, in headers_t hdr) {
    apply {
        TEA_EMIT(packet, hdr.tea);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.new4);
        packet.emit(hdr.new6);
        packet.emit(hdr.new_tunnel);
        packet.emit(hdr.icmp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.tunnel);
        packet.emit(hdr.inner4);
        packet.emit(hdr.inner6);
        packet.emit(hdr.lead);
    }
}

#include <pointsman/tea/flow_switch.p4>
