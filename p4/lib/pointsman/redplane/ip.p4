// What is in front of RedPlane's messages: Ethernet, IPv4 or, with REDPLANE_IPV6, IPv6, and UDP. Part of <pointsman/redplane/message.p4>.

#ifndef POINTSMAN_REDPLANE_IP_P4
#define POINTSMAN_REDPLANE_IP_P4

#ifdef REDPLANE_IPV6
typedef bit<128> redplane_address_t;

// Ethernet, IPv6 without extension headers, UDP.
header redplane_v6_t {
    bit<48>  mac_dst;
    bit<48>  mac_src;
    bit<16>  ethertype;
    bit<32>  version_class_flow;
    bit<16>  len;
    bit<8>   proto;
    bit<8>   ttl;
    bit<128> src;
    bit<128> dst;
    bit<16>  sport;
    bit<16>  dport;
    bit<16>  udp_len;
    bit<16>  udp_checksum;
}

typedef redplane_v6_t redplane_outer_t;

// Bytes up to the end of IP's header; those of them that its length does not count; the bits up to the protocol, the first ones of IP among
// them, and their value in a header of the form above.
#define REDPLANE_IP_BYTES 54
#define REDPLANE_UNCOUNTED 54
#define REDPLANE_ETHERTYPE 0x86dd
#define REDPLANE_TO_PROTO bit<168>
#define REDPLANE_FORM(front) front[55:52]
#define REDPLANE_PLAIN_FORM 6

#define REDPLANE_SET_IP(outer)             \
    outer.ethertype = REDPLANE_ETHERTYPE;  \
    outer.version_class_flow = 0x60000000; \
    outer.ttl = 64;                        \
    outer.proto = 17

// A datagram without a checksum, which IPv6 does not allow.
#define REDPLANE_OR_UNSUMMED(outer) || outer.udp_checksum == 0

// What UDP's checksum covers up to the end of the message.
#define REDPLANE_COVERED(outer, message)                                                                                 \
    outer.src, outer.dst, 16w0, outer.udp_len, 24w0, outer.proto, outer.sport, outer.dport, outer.udp_len, message

// In the control that computes checksums, after all other ones: the checksum of a request, which covers the packet that goes with it. The headers of the
// program follow, in the order in which they are emitted. The sum 0 is sent as ones.
#define REDPLANE_COMPUTE(outer, message, m, ...)                                                                         \
    update_checksum(m.step == REDPLANE_SEND && message.flags[0:0] == 0, { REDPLANE_COVERED(outer, message) },            \
                    outer.udp_checksum, HashAlgorithm.csum16);                                                           \
    update_checksum_with_payload(m.step == REDPLANE_SEND && message.flags[0:0] == 1,                                     \
                                 { REDPLANE_COVERED(outer, message), ##__VA_ARGS__ }, outer.udp_checksum,                \
                                 HashAlgorithm.csum16);                                                                  \
    update_checksum(m.step == REDPLANE_SEND && outer.udp_checksum == 0, { 16w0 }, outer.udp_checksum,                    \
                    HashAlgorithm.csum16)

#else
typedef bit<32> redplane_address_t;

// Ethernet, IPv4 without options, UDP.
header redplane_v4_t {
    bit<48> mac_dst;
    bit<48> mac_src;
    bit<16> ethertype;
    bit<16> version_ihl_tos;
    bit<16> len;
    bit<16> id;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
    bit<16> sport;
    bit<16> dport;
    bit<16> udp_len;
    bit<16> udp_checksum;
}

typedef redplane_v4_t redplane_outer_t;

// Bytes up to the end of IP's header; those of them that its length does not count; the bits up to the protocol, the first ones of IP among
// them, and their value in a header of the form above.
#define REDPLANE_IP_BYTES 34
#define REDPLANE_UNCOUNTED 14
#define REDPLANE_ETHERTYPE 0x0800
#define REDPLANE_TO_PROTO bit<192>
#define REDPLANE_FORM(front) front[79:72]
#define REDPLANE_PLAIN_FORM 0x45

#define REDPLANE_SET_IP(outer)            \
    outer.ethertype = REDPLANE_ETHERTYPE; \
    outer.version_ihl_tos = 0x4500;       \
    outer.id = 0;                         \
    outer.fragment = 0;                   \
    outer.ttl = 64;                       \
    outer.proto = 17

// UDP over IPv4 needs no checksum.
#define REDPLANE_OR_UNSUMMED(outer)

#define REDPLANE_SUMMED(outer) \
    { outer.version_ihl_tos, outer.len, outer.id, outer.fragment, outer.ttl, outer.proto, outer.src, outer.dst }

// In the control that computes checksums: that of IP's header. What follows is for IPv6.
#define REDPLANE_COMPUTE(outer, message, m, ...) \
    update_checksum(outer.isValid(), REDPLANE_SUMMED(outer), outer.checksum, HashAlgorithm.csum16)
#endif

// With UDP's header.
#define REDPLANE_OUTER_BYTES (REDPLANE_IP_BYTES + 8)

#endif
