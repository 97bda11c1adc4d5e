// RoCEv2 between switch and servers, over IPv4 or, with `-D TEA_IPV6`, over IPv6: headers up to InfiniBand's, and what check values and checksums cover.
// Part of <pointsman/tea.p4>.

#ifndef POINTSMAN_TEA_ROCE_P4
#define POINTSMAN_TEA_ROCE_P4

#ifdef TEA_IPV6
typedef bit<128> tea_address_t;
// Ethernet, IPv6, UDP, InfiniBand's base header.
header tea_roce_t {
    bit<48>  mac_dst;
    bit<48>  mac_src;
    bit<16>  ethertype;
    bit<4>   version;
    bit<28>  class_flow;
    bit<16>  len;
    bit<8>   proto;
    bit<8>   ttl;
    bit<128> src;
    bit<128> dst;
    bit<16>  sport;
    bit<16>  dport;
    bit<16>  udp_len;
    bit<16>  udp_checksum;
    bit<8>   opcode;
    bit<8>   padding;
    bit<16>  partition;
    bit<8>   marks;
    bit<24>  pair;
    bit<8>   ask;
    bit<24>  psn;
}

// Bytes of IP's header and those in front.
#define TEA_IP_BYTES 54

// What the check value covers, with ones in the place of fields that routers change, up to the base header.
#define TEA_COVERED(r)                                                                                                  \
    64w0xffffffffffffffff, r.version, 28w0xfffffff, r.len, r.proto, 8w0xff, r.src, r.dst, r.sport, r.dport, r.udp_len,   \
        16w0xffff, r.opcode, r.padding, r.partition, 8w0xff, r.pair, r.ask, r.psn

// The same for UDP's checksum, which IPv6 needs.
#define TEA_SUMMED(r)                                                                                              \
    r.src, r.dst, 16w0, r.udp_len, 24w0, r.proto, r.sport, r.dport, r.udp_len, r.opcode, r.padding, r.partition,    \
        r.marks, r.pair, r.ask, r.psn

// In the control that computes checksums: IPv6 has none.
#define TEA_COMPUTE(h)

#define TEA_SET_IP(r, length)           \
    r.ethertype = 0x86dd;               \
    r.version = 6;                      \
    r.class_flow = 0;                   \
    r.len = length - TEA_IP_BYTES

#else
typedef bit<32> tea_address_t;
// Ethernet, IPv4 without options, UDP, InfiniBand's base header.
header tea_roce_t {
    bit<48> mac_dst;
    bit<48> mac_src;
    bit<16> ethertype;
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
    bit<16> sport;
    bit<16> dport;
    bit<16> udp_len;
    bit<16> udp_checksum;
    bit<8>  opcode;
    bit<8>  padding;
    bit<16> partition;
    bit<8>  marks;
    bit<24> pair;
    bit<8>  ask;
    bit<24> psn;
}

// Bytes of IP's header and those in front.
#define TEA_IP_BYTES 34

// What the check value covers, with ones in the place of fields that routers change, up to the base header.
#define TEA_COVERED(r)                                                                                             \
    64w0xffffffffffffffff, r.version_ihl, 8w0xff, r.len, r.id, r.fragment, 8w0xff, r.proto, 16w0xffff, r.src,       \
        r.dst, r.sport, r.dport, r.udp_len, 16w0xffff, r.opcode, r.padding, r.partition, 8w0xff, r.pair, r.ask, r.psn

// In the control that computes checksums.
#define TEA_COMPUTE(h)                                                                                          \
    update_checksum(h.roce.isValid(),                                                                           \
                    { h.roce.version_ihl, h.roce.tos, h.roce.len, h.roce.id, h.roce.fragment, h.roce.ttl,       \
                      h.roce.proto, h.roce.src, h.roce.dst },                                                   \
                    h.roce.checksum, HashAlgorithm.csum16)

#define TEA_SET_IP(r, length)           \
    r.ethertype = 0x0800;               \
    r.version_ihl = 0x45;               \
    r.tos = 0;                          \
    r.len = length - 14;                \
    r.id = 0;                           \
    r.fragment = 0x4000
#endif

// With UDP and the base header.
#define TEA_ROCE_BYTES (TEA_IP_BYTES + 20)

#endif
