// For programs that look up TCP and UDP flows over IPv4: headers, parser, checksums, and what changes addresses. A program includes it behind
// <pointsman/tea.p4>, and then defines FlowKey and FlowApply, and includes <pointsman/tea/flow_switch.p4>, which says what they do. With FLOW_IPV6 flows are of
// IPv4 and IPv6. With FLOW_ICMP the program also takes echoes, and errors of ICMP; <pointsman/tea/icmp.p4> has their key, and what translates them.

#ifndef POINTSMAN_TEA_FLOWS_P4
#define POINTSMAN_TEA_FLOWS_P4

#include <pointsman/ipv4.p4>

#ifdef FLOW_IPV6
header ipv6_t {
    bit<4>   version;
    bit<28>  tos_flow;
    bit<16>  len;
    bit<8>   proto;
    bit<8>   hops;
    bit<128> src;
    bit<128> dst;
}
#endif

// The rest of TCP's header up to its checksum.
header tcp_t {
    bit<96> front;
    bit<16> checksum;
}

header udp_t {
    bit<16> len;
    bit<16> checksum;
}

#ifdef FLOW_ICMP
// The first eight bytes behind an IP header: those of an echo, of an error, and of the packet that an error quotes.
header lead_t {
    bit<16> first;
    bit<16> second;
    bit<16> third;
    bit<16> fourth;
}

// The rest of a quoted TCP header up to its checksum.
header quoted_tcp_t {
    bit<64> front;
    bit<16> checksum;
}
#endif

struct headers_t {
    tea_headers_t tea;
    ethernet_t    ethernet;
    ipv4_t        ipv4;
#ifdef FLOW_IPV6
    ipv6_t        ipv6;
#endif
    ports_t       ports;
    tcp_t         tcp;
    udp_t         udp;
#ifdef FLOW_ICMP
    lead_t        echo;
    lead_t        problem;
    ipv4_t        quoted_ip;
#ifdef FLOW_IPV6
    ipv6_t        quoted_ipv6;
#endif
    lead_t        quoted;
    quoted_tcp_t  quoted_tcp;
#endif
}

struct metadata_t {
    tea_meta_t tea;
    bool       looks_up;
    bool       passes;
    bool       inside;
}

// Addresses of a flow, and the new one in the place of one. With FLOW_IPV6 they have 128 bits, and those of IPv4 are those of ::ffff:0:0/96.
#ifdef FLOW_IPV6
typedef bit<128> flow_address_t;
#define FLOW_OF_IPV4(address) (96w0xffff ++ (address))
#define FLOW_SOURCE(hdr) (hdr.ipv4.isValid() ? 96w0xffff ++ hdr.ipv4.src : hdr.ipv6.src)
#define FLOW_DESTINATION(hdr) (hdr.ipv4.isValid() ? 96w0xffff ++ hdr.ipv4.dst : hdr.ipv6.dst)
#define FLOW_PROTOCOL(hdr) (hdr.ipv4.isValid() ? hdr.ipv4.proto : hdr.ipv6.proto)
// Whether an address is of the packet's family.
#define FLOW_FITS(hdr, address) (hdr.ipv4.isValid() == ((address)[127:32] == 0xffff))
#else
typedef bit<32> flow_address_t;
#define FLOW_SOURCE(hdr) hdr.ipv4.src
#define FLOW_DESTINATION(hdr) hdr.ipv4.dst
#define FLOW_PROTOCOL(hdr) hdr.ipv4.proto
#define FLOW_FITS(hdr, address) true
#endif

#ifdef FLOW_ICMP
#define FLOW_KNOWN(hdr) (hdr.ports.isValid() || hdr.echo.isValid() || hdr.quoted.isValid())
#else
#define FLOW_KNOWN(hdr) hdr.ports.isValid()
#endif
#define FLOW_TARGET(hdr, meta) FLOW_DESTINATION(hdr)
#define FLOW_VERIFY(hdr) IPV4_VERIFY(!hdr.tea.roce.isValid(), hdr.ipv4)

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
#ifdef FLOW_IPV6
            0x86dd: parse_ipv6;
#endif
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl_tos[15:8], hdr.ipv4.fragment[13:0], hdr.ipv4.proto) {
            (0x45, 0, 6): parse_tcp;
            (0x45, 0, 17): parse_udp;
#ifdef FLOW_ICMP
            (0x45, 0, 1): parse_icmp;
#endif
            default: accept;
        }
    }

#ifdef FLOW_IPV6
    // Packets to and from addresses of the link, and to groups, stay on their link (RFC 4291), and no packet of IPv6 has addresses that are those of IPv4 here.
    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.version, hdr.ipv6.proto) {
            (128w0xfe80 << 112 &&& 128w0xffc0 << 112, _, _, _): accept;
            (128w0xffff << 32 &&& ~128w0xffffffff, _, _, _): accept;
            (_, 128w0xfe80 << 112 &&& 128w0xffc0 << 112, _, _): accept;
            (_, 128w0xff00 << 112 &&& 128w0xff00 << 112, _, _): accept;
            (_, 128w0xffff << 32 &&& ~128w0xffffffff, _, _): accept;
            (_, _, 6, 6): parse_tcp;
            (_, _, 6, 17): parse_udp;
#ifdef FLOW_ICMP
            (_, _, 6, 58): parse_icmpv6;
#endif
            default: accept;
        }
    }
#endif

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

#ifdef FLOW_ICMP
    // Echoes, and the errors that a packet cannot be delivered, lived too long, or has a bad header.
    state parse_icmp {
        transition select(packet.lookahead<bit<8>>()) {
            0: parse_echo;
            8: parse_echo;
            3: parse_problem;
            11: parse_problem;
            12: parse_problem;
            default: accept;
        }
    }

#ifdef FLOW_IPV6
    // The same, and the error that a packet is too long.
    state parse_icmpv6 {
        transition select(packet.lookahead<bit<8>>()) {
            1: parse_problem_ipv6;
            2: parse_problem_ipv6;
            3: parse_problem_ipv6;
            4: parse_problem_ipv6;
            128: parse_echo;
            129: parse_echo;
            default: accept;
        }
    }
#endif

    state parse_echo {
        packet.extract(hdr.echo);
        transition accept;
    }

    state parse_problem {
        packet.extract(hdr.problem);
        packet.extract(hdr.quoted_ip);
        transition select(hdr.quoted_ip.version_ihl_tos[15:8], hdr.quoted_ip.fragment[12:0], hdr.quoted_ip.proto) {
            (0x45, 0, 1): parse_quoted_icmp;
            (0x45, 0, 6): parse_quoted_tcp;
            (0x45, 0, 17): parse_quoted;
            default: accept;
        }
    }

    // An error is not the answer to an error.
    state parse_quoted_icmp {
        transition select(packet.lookahead<bit<8>>()) {
            0: parse_quoted;
            8: parse_quoted;
            default: accept;
        }
    }

    state parse_quoted {
        packet.extract(hdr.quoted);
        transition accept;
    }

    // Of its header there may be eight bytes alone (RFC 792), without the checksum.
    state parse_quoted_tcp {
        packet.extract(hdr.quoted);
        transition select(hdr.ipv4.len[15:6]) {
            0: accept;
            default: parse_quoted_checksum;
        }
    }

#ifdef FLOW_IPV6
    state parse_problem_ipv6 {
        packet.extract(hdr.problem);
        packet.extract(hdr.quoted_ipv6);
        transition select(hdr.quoted_ipv6.version, hdr.quoted_ipv6.proto) {
            (6, 6): parse_quoted_tcp_ipv6;
            (6, 17): parse_quoted;
            (6, 58): parse_quoted_icmpv6;
            default: accept;
        }
    }

    state parse_quoted_icmpv6 {
        transition select(packet.lookahead<bit<8>>()) {
            128: parse_quoted;
            129: parse_quoted;
            default: accept;
        }
    }

    // Routers quote as much as fits, but the rest may have been cut off on the way.
    state parse_quoted_tcp_ipv6 {
        packet.extract(hdr.quoted);
        transition select(hdr.ipv6.len[15:6]) {
            0: accept;
            default: parse_quoted_checksum;
        }
    }
#endif

    state parse_quoted_checksum {
        packet.extract(hdr.quoted_tcp);
        transition accept;
    }
#endif
}

control FlowCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        TEA_COMPUTE(hdr.tea);
        IPV4_COMPUTE(hdr.ipv4);
    }
}

control FlowDeparser(packet_out packet, in headers_t hdr) {
    apply {
        TEA_EMIT(packet, hdr.tea);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
#ifdef FLOW_IPV6
        packet.emit(hdr.ipv6);
#endif
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
#ifdef FLOW_ICMP
        packet.emit(hdr.echo);
        packet.emit(hdr.problem);
        packet.emit(hdr.quoted_ip);
#ifdef FLOW_IPV6
        packet.emit(hdr.quoted_ipv6);
#endif
        packet.emit(hdr.quoted);
        packet.emit(hdr.quoted_tcp);
#endif
    }
}

// Writes an address of the packet's family, in one of these places.
#ifdef FLOW_IPV6
#define FLOW_WRITE(hdr, of_ipv4, of_ipv6, address) \
    if (hdr.ipv4.isValid()) { \
        of_ipv4 = (address)[31:0]; \
    } else { \
        of_ipv6 = address; \
    }
#else
#define FLOW_WRITE(hdr, of_ipv4, of_ipv6, address) of_ipv4 = address
#endif
#define FLOW_REPLACE(hdr, field, address) FLOW_WRITE(hdr, hdr.ipv4.field, hdr.ipv6.field, address)

// Replaces destination or source by a port and an address of the packet's family.
control FlowTranslate(inout headers_t hdr, in bool destination, in bit<16> port, in flow_address_t address) {
    apply {
        flow_address_t old_address = FLOW_SOURCE(hdr);
        bit<16> old_port = hdr.ports.src;
        if (destination) {
            old_address = FLOW_DESTINATION(hdr);
            old_port = hdr.ports.dst;
            FLOW_REPLACE(hdr, dst, address);
            hdr.ports.dst = port;
        } else {
            FLOW_REPLACE(hdr, src, address);
            hdr.ports.src = port;
        }
        // RFC 1624: the complement of the old sum, less the old fields, plus the new ones. A datagram without a checksum stays so, over IPv6, too (RFC 6936).
        if (hdr.tcp.isValid()) {
            hash(hdr.tcp.checksum, HashAlgorithm.csum16, 16w0,
                 { ~hdr.tcp.checksum, ~old_address, ~old_port, port, address }, 32w0x10000);
        }
        if (hdr.udp.isValid() && hdr.udp.checksum != 0) {
            hash(hdr.udp.checksum, HashAlgorithm.csum16, 16w0,
                 { ~hdr.udp.checksum, ~old_address, ~old_port, port, address }, 32w0x10000);
            if (hdr.udp.checksum == 0) {
                hdr.udp.checksum = 0xffff;
            }
        }
    }
}

#endif
